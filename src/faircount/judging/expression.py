"""How a judge is named with its parameters: `threshold(llm(rubric="@file.txt"), at=0.7)`.

    call    name [ "(" [ argument { "," argument } ] ")" ]
    argument    value | parameter "=" value
    value   literal | call
    literal "text" | 'text' | number | true | false | null | [ literal, … ] | { "key": literal, … }
    name    refusal | strings.Regex | garak:dan.DAN | ./file.py:Name | "./my judges/file.py:Name"(…)

A bare word in the place of a value is a judge; a name that holds blanks, brackets, commas or quotes stands in quotes.
In a text, a backslash stands for itself except before n, r, t, u, x, a backslash and quotes, so that regular
expressions can be written as they are. Nothing is looked up or loaded here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from faircount.query.scanner import CURLY_QUOTES, QUOTES, QueryError, Scanner
from faircount.text import visible

DEEPEST = 20
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MOST_DIGITS = 300
_EXAMPLE = 'Such as refusal, contains(text="BYPASSED") or any(refusal, canary).'
_VALUES = 'Values are "text", numbers, true, false, null, [lists], {"objects": 1} and judges.'

Value: TypeAlias = Any
"""A literal as `json` has it, or a `Call`."""


class Call(Struct, frozen=True):
    """A judge by its name, with what it is given; `where` is the place of the name, in characters from 0."""

    name: str
    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    where: int = 0


def parse(text: str) -> Call:
    """Return the judge that a text names; raise UsageError with a mark under the place that is not understood."""
    return _Parser(text).whole()


class _Parser(Scanner):
    what = "judge"
    bare = re.compile(r"""[^\s()\[\]{},="']+""")
    _after = 0
    """Where the name or word that was looked at ends."""

    def whole(self) -> Call:
        """Read one judge and nothing after it."""
        if not self.next:
            raise self.error("it is empty", _EXAMPLE)
        call = self._call(self._name(), self.position, 0)
        if self.next:
            raise self.error(f"unexpected text after the judge: {self.found()}", _EXAMPLE)
        return call

    def _name(self) -> str:
        """Read the name of a judge without passing over it."""
        if self.next in QUOTES:
            start = self.position
            name = self.quoted().text
            self._after, self.position = self.position, start
        else:
            name = self._bare("expected the name of a judge", _EXAMPLE)
        if not name:
            raise self.error("the name of the judge is empty", _EXAMPLE)
        return name

    def _bare(self, expected: str, hint: str) -> str:
        start = self.skip()
        word = self.word()
        if word is None:
            raise self.error(f"{expected}, found {self.found()}", hint)
        self._after, self.position = self.position, start
        return word.text

    def _call(self, name: str, where: int, depth: int) -> Call:
        """Read what a judge is given; its name ends at `_after`."""
        self.position = self._after
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        if self.take("("):
            opened = self.position - 1
            self._refuse_depth(depth, opened)
            while not self.take(")"):
                if (positional or keywords) and not self.take(","):
                    raise self._expected(", or )", opened)
                self._argument(positional, keywords, depth + 1)
        return Call(name, tuple(positional), keywords, where)

    def _argument(self, positional: list[Value], keywords: dict[str, Value], depth: int) -> None:
        self.skip()
        parameter = _PARAMETER.match(self.text, self.position)
        if parameter is None:
            positional.append(self._value(depth))
            return
        name = parameter.group(1)
        if name in keywords:
            raise self.error(f"{name} is given twice", "Give each parameter once.")
        self.position = parameter.end()
        keywords[name] = self._value(depth)

    def _value(self, depth: int, *, judges: bool = True) -> Value:
        """Read a literal or, with `judges`, a judge."""
        start = self.next
        if start == "[":
            return self._list(depth)
        if start == "{":
            return self._object(depth)
        where = self.position
        if start in QUOTES:
            text = self.quoted().text
            self._after, judge = self.position, judges and self.take("(")
            if not judge:
                return text
            if not text:
                raise self.error("the name of the judge is empty", _EXAMPLE, where)
            return self._call(text, where, depth)
        word = self._bare("expected a value", _VALUES)
        return self._literal(word, where) if _is_literal(word) else self._judge(word, where, depth, judges=judges)

    def _judge(self, word: str, where: int, depth: int, *, judges: bool) -> Call:
        if not judges:
            raise self.error(f"put text in quotes: “{word[:40]}”", _VALUES)
        return self._call(word, where, depth)

    def _literal(self, word: str, where: int) -> Value:
        self.position = self._after
        if word in _WORDS:
            return _WORDS[word]
        number = int(word) if _WHOLE.fullmatch(word) and len(word) <= _MOST_DIGITS else float(word)
        if not math.isfinite(number):
            raise self.error("this number is too large", "Give a smaller one.", where)
        return number

    def _list(self, depth: int) -> list[Value]:
        opened = self.position
        self._refuse_depth(depth, opened)
        self.take("[")
        items: list[Value] = []
        while not self.take("]"):
            if items and not self.take(","):
                raise self._expected(", or ]", opened)
            items.append(self._value(depth + 1, judges=False))
        return items

    def _object(self, depth: int) -> dict[str, Value]:
        opened = self.position
        self._refuse_depth(depth, opened)
        self.take("{")
        items: dict[str, Value] = {}
        while not self.take("}"):
            if items and not self.take(","):
                raise self._expected(", or }", opened)
            if self.next not in QUOTES:
                raise self.error(f"expected a key in quotes, found {self.found()}", 'Such as {"type": "object"}.')
            where = self.position
            key = self.quoted().text
            if key in items:
                raise self.error("this key appears twice", "Give each key once.", where)
            if not self.take(":"):
                raise self._expected(":", opened)
            items[key] = self._value(depth + 1, judges=False)
        return items

    def _expected(self, what: str, opened: int) -> QueryError:
        if not self.next:
            return self.error("this bracket is not closed", "Every ( needs a ), every [ a ], and every { a }.", opened)
        return self.error(f"expected {what}, found {self.found()}", _EXAMPLE)

    def _refuse_depth(self, depth: int, where: int) -> None:
        if depth >= DEEPEST:
            raise self.error(
                f"brackets are nested more than {DEEPEST} deep here", "Give a part its own name in --config.", where
            )


def _is_literal(word: str) -> bool:
    return word in _WORDS or _NUMBER.fullmatch(word) is not None


# -- back to text -----------------------------------------------------------------------------------------------


def render(call: Call) -> str:
    """Return the text of a judge; to parse it gives the same judge. Characters that cannot be seen are spelled out."""
    given = [_written(value) for value in call.positional]
    given += [f"{name}={_written(value)}" for name, value in call.keywords.items()]
    bare = _is_bare(call.name)
    name = call.name if bare else _quoted(call.name)
    return f"{name}({', '.join(given)})" if given or not bare else name


def _is_bare(name: str) -> bool:
    """Return whether a name is understood without quotes around it."""
    plain = _Parser.bare.fullmatch(name) is not None and visible(name) == name
    return plain and not _is_literal(name) and name[0] not in CURLY_QUOTES


def _written(value: Value) -> str:
    if isinstance(value, Call):
        return render(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(str(key))}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    if visible(plain) == plain:
        return f'"{plain}"'
    return '"' + "".join(c if visible(c) == c else _spelled(c) for c in plain) + '"'


def _spelled(character: str) -> str:
    """Return a character that cannot be seen as `\\n`, `\\u202e` or, beyond the basic plane, two of those."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if named is not None:
        return named
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
