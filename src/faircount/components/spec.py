"""A judge, target or attack by name, with its parameters, as text: `threshold(llm(rubric="@file.txt"), at=0.7)`.

    call    name [ "(" [ argument { "," argument } ] ")" ]
    argument    value | parameter "=" value
    value   literal | call
    literal "text" | 'text' | number | true | false | null | [ literal, … ] | { "key": literal, … }
    name    refusal | strings.Regex | garak:dan.DAN | ./file.py:Name | "./my judges/file.py:Name"(…)

A bare word in the place of a value is a judge; a name that holds blanks, brackets, commas or quotes stands in quotes.
In a text, a backslash stands for itself except before n, r, t, u, x, a backslash and quotes, so that regular
expressions can be written as they are. A TOML file may have a table instead: `{name = "llm", rubric = "@file.txt"}`.
Nothing is looked up, loaded or evaluated here.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.query.parser import CURLY_QUOTES, QUOTES, QueryError, Scanner, Word

DEEPEST = 20
LONGEST = 100_000
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NAME, _TEXT, _KEY, _VALUE = "name", "text", "key", "value"
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MOST_DIGITS = 300
_EXAMPLE = 'Such as refusal, contains(text="BYPASSED") or any(refusal, canary).'
_VALUES = 'Values are "text", numbers, true, false, null, [lists], {"objects": 1} and judges.'

Kind = Literal["judge", "target", "attack"]
_TABLES: Mapping[Kind, str] = {
    "judge": 'such as {name = "threshold", judge = "refusal", at = 0.8}',
    "target": 'such as {name = "openai", model = "my-model"}',
    "attack": 'such as {name = "best-of-n", seed = 7}',
}
Value: TypeAlias = Any
"""A literal as `json` has it, or a `Spec`."""


class Spec(Struct, frozen=True):
    """A component by its name, with what it is given by name and, for judges, by position.

    `where` is the position of the name in the text, in characters from 0. With `is_code` the name is that of code,
    `module:Name`, even where the module is called as a target or a tool is.
    """

    kind: Kind
    name: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    positional: tuple[Value, ...] = ()
    where: int = 0
    is_code: bool = False


def parse(text: str, kind: Kind = "judge") -> Spec:
    """Return the component that a text names; raise UsageError with a mark under what is not understood."""
    return _SpecReader(text, kind).whole()


class _SpecReader(Scanner):
    """Python's `ast` reads the brackets, once names and texts, which are not Python's, are replaced by underscores."""

    what = "judge"
    bare = re.compile(r"""[^\s()\[\]{},="']+""")
    longest = LONGEST

    def __init__(self, text: str, kind: Kind) -> None:
        super().__init__(text)
        self._kind = kind
        self._words: dict[int, Word] = {}
        self._parameters: dict[int, tuple[str, int]] = {}
        self._opened: list[int] = []

    def whole(self) -> Spec:
        """Read one judge and nothing after it."""
        start = self.skip()
        if not self.next:
            raise self.error("it is empty", _EXAMPLE)
        # Characters keep their places, so that the columns of the tree are those of the text.
        outline = self._outline()[start:]
        self._start = start
        return self._spec(ast.parse(outline, mode="eval").body)

    # -- an outline for Python ---------------------------------------------------------------------------------

    def _outline(self) -> str:
        """Return the expression with every name, text and literal as `___`, and `*` for the = of a parameter."""
        outline = [" "] * len(self.text)
        last = ""
        while True:
            start, sign = self.skip(), self.next
            bracket = self.text[self._opened[-1]] if self._opened else ""
            complete = last in (_NAME, _TEXT, _VALUE)
            key = bracket == "{" and last in ("{", ",")
            if complete and not sign and not bracket:
                return "".join(outline)
            if last == _KEY:
                if not self.take(":"):
                    raise self._expected(":")
                last = sign
            elif sign and sign == _CLOSING.get(bracket) and (complete or last == bracket):
                self.take(sign)
                self._opened.pop()
                last = _VALUE
            elif complete and sign == "," and bracket:
                self.take(sign)
                last = sign
            elif (sign == "(" and last in (_NAME, _TEXT) and bracket in ("", "(")) or (
                sign in ("[", "{") and bracket and not (complete or key)
            ):
                last = self._open(sign)
            elif complete:
                raise self._expected(f", or {_CLOSING.get(bracket)}")
            elif bracket == "(" and last != "=" and (parameter := _PARAMETER.match(self.text, start)):
                self.position = parameter.end()
                self._parameters[self.position - 1] = parameter[1], start
                last, sign, start = "=", "*", self.position - 1
            else:
                last = self._value_here(bracket, key)
                sign = "_" * (self.position - start)
            outline[start : start + len(sign)] = sign

    def _open(self, sign: str) -> str:
        if len(self._opened) >= DEEPEST:
            raise self.error(
                f"brackets are nested more than {DEEPEST} deep here", "Give a part its own name in --config."
            )
        self._opened.append(self.position)
        self.take(sign)
        return sign

    def _value_here(self, bracket: str, key: bool) -> str:
        """Read a name, a text or a literal, and return which it is."""
        start = self.position
        if key and self.next not in QUOTES:
            raise self.error(f"expected a key in quotes, found {self.found()}", 'Such as {"type": "object"}.')
        word = self.word()
        if word is None:
            expected, hint = ("a value", _VALUES) if bracket else ("the name of a judge", _EXAMPLE)
            raise self.error(f"expected {expected}, found {self.found()}", hint)
        self._words[start] = word
        if word.quoted:
            return _KEY if key else _TEXT
        if bracket and _is_literal(word.text):
            return _VALUE
        if bracket in ("[", "{"):
            raise self.error(f"put text in quotes: “{word.text[:40]}”", _VALUES, start)
        return _NAME

    def _expected(self, what: str) -> QueryError:
        if not self._opened:
            return self.error(f"unexpected text after the judge: {self.found()}", _EXAMPLE)
        if not self.next:
            hint = "Every ( needs a ), every [ a ], and every { a }."
            return self.error("this bracket is not closed", hint, self._opened[-1])
        return self.error(f"expected {what}, found {self.found()}", _EXAMPLE)

    # -- the tree ----------------------------------------------------------------------------------------------

    def _spec(self, node: ast.expr) -> Spec:
        """Return a judge with what it is given."""
        function, arguments = (node.func, node.args) if isinstance(node, ast.Call) else (node, [])
        where = self._start + function.col_offset
        name = self._words[where].text
        if not name:
            raise self.error("the name of the judge is empty", _EXAMPLE, where)
        positional: list[Value] = []
        parameters: dict[str, Value] = {}
        for argument in arguments:
            if isinstance(argument, ast.Starred):
                parameter, place = self._parameters[self._start + argument.col_offset]
                if parameter in parameters:
                    raise self.error(f"{parameter} is given twice", "Give each parameter once.", place)
                parameters[parameter] = self._value(argument.value)
            else:
                positional.append(self._value(argument))
        return Spec(self._kind, name, parameters, tuple(positional), where)

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.List):
            return [self._value(item) for item in node.elts]
        if isinstance(node, ast.Dict):
            items: dict[str, Value] = {}
            for key, item in zip(node.keys, node.values, strict=True):
                assert key is not None
                where = self._start + key.col_offset
                if self._words[where].text in items:
                    raise self.error("this key appears twice", "Give each key once.", where)
                items[self._words[where].text] = self._value(item)
            return items
        where = self._start + node.col_offset
        word = self._words[where]
        if isinstance(node, ast.Call) or not (word.quoted or _is_literal(word.text)):
            return self._spec(node)
        return word.text if word.quoted else self._literal(word.text, where)

    def _literal(self, word: str, where: int) -> Value:
        if word in _WORDS:
            return _WORDS[word]
        number = int(word) if _WHOLE.fullmatch(word) and len(word) <= _MOST_DIGITS else float(word)
        if not math.isfinite(number):
            raise self.error("this number is too large", "Give a smaller one.", where)
        return number


def _is_literal(word: str) -> bool:
    return word in _WORDS or _NUMBER.fullmatch(word) is not None


# -- from a file of the user ------------------------------------------------------------------------------------


def read_spec(value: object, kind: Kind = "judge") -> Spec:
    """Return the component that a value in a TOML file names: a text, or a table with a `name` and the parameters.

    In the table of a judge, `judge` and `judges` are what it is made of: texts or tables again.
    """
    if isinstance(value, str):
        return parse(value, kind)
    if not isinstance(value, Mapping):
        raise UsageError(f"must be a string or a table with a name, {_TABLES[kind]}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"the table needs a name, {_TABLES[kind]}")
    positional: tuple[Value, ...] = ()
    parameters = {key: given for key, given in value.items() if key != "name"}
    if kind == "judge":
        parts = [parameters.pop(key) for key in ("judge", "judges") if key in parameters]
        every = [part for one in parts for part in (one if isinstance(one, list) else [one])]
        positional = tuple(read_spec(part) for part in every)
    for key, given in parameters.items():
        if not _PARAMETER.fullmatch(f"{key}="):
            raise UsageError(f"{visible(key)} cannot be the name of a parameter")
        if not _is_plain(given):
            raise UsageError(f"{key} must be text, a finite number, true, false, a list or a table")
    return Spec(kind, name, parameters, positional)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


# -- back to text -----------------------------------------------------------------------------------------------


def render(spec: Spec) -> str:
    """Return a spec as text; to parse it gives the same spec. Characters that cannot be seen are spelled out."""
    given = [_written(value) for value in spec.positional]
    given += [f"{name}={_written(value)}" for name, value in spec.parameters.items()]
    plain = _SpecReader.bare.fullmatch(spec.name) is not None and visible(spec.name) == spec.name
    # Whether the name is understood without quotes around it.
    bare = plain and not _is_literal(spec.name) and spec.name[0] not in CURLY_QUOTES
    name = spec.name if bare else _quoted(spec.name)
    return f"{name}({', '.join(given)})" if given or not bare else name


def _written(value: Value) -> str:
    if isinstance(value, Spec):
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
