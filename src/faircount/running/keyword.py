"""The expressions of `--keyword`: words that stand in the name of a case, joined by and, or, not and parentheses.

expression = all-of { "or" all-of }
all-of     = part { "and" part }
part       = "not" part | "(" expression ")" | word | text in quotes

The grammar is that of pytest's -k. A word is anything but white space, parentheses and quotes; case does not matter.
Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from faircount.query.scanner import QueryError

Holds = Callable[[str], bool]

_DEEPEST = 50
_LONGEST = 10_000
_TOKEN = re.compile(r"""\s*(?:(?P<mark>[()])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()"']+))""")
_JOINTS = ("and", "or", "not")
_WHAT = "keyword expression"


class _Token(Struct, frozen=True):
    """A mark, a joint or a word (`kind` is the empty text for a word), and where it stands."""

    kind: str
    text: str
    position: int


def parse_keyword(text: str) -> Holds:
    """Return what tells whether an expression holds for a name; QueryError points at what is not understood."""
    return _Parser(text).parsed()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > _LONGEST:
            raise self._error(_LONGEST, f"it is longer than {_LONGEST:,} characters", "Make it shorter.")
        self._tokens = self._scanned()
        self._next = 0

    def parsed(self) -> Holds:
        found = self._any_of(0)
        token = self._token()
        if token.kind == ")":
            raise self._error(token.position, "a ) without its (", "Remove it, or open a ( before it.")
        if token.kind != "end":
            hint = "Join words with and or or; put text with spaces in quotes."
            raise self._error(token.position, f'expected "and" or "or", not {token.text}', hint)
        return found

    def _scanned(self) -> list[_Token]:
        tokens, position = [], 0
        while self._text[position:].strip():
            match = _TOKEN.match(self._text, position)
            if match is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                raise self._error(start, "unclosed quote", "Close it with the same quotation mark.")
            tokens.append(_token(match))
            position = match.end()
        return [*tokens, _Token("end", "the end", len(self._text))]

    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _taken(self, kind: str) -> bool:
        if self._token().kind != kind:
            return False
        self._next += 1
        return True

    def _any_of(self, depth: int) -> Holds:
        parts = [self._all_of(depth)]
        while self._taken("or"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else lambda name: any(part(name) for part in parts)

    def _all_of(self, depth: int) -> Holds:
        parts = [self._part(depth)]
        while self._taken("and"):
            parts.append(self._part(depth))
        return parts[0] if len(parts) == 1 else lambda name: all(part(name) for part in parts)

    def _part(self, depth: int) -> Holds:
        token = self._token()
        if depth > _DEEPEST:
            raise self._error(token.position, f"it is nested more than {_DEEPEST} levels deep", "Make it simpler.")
        if self._taken("not"):
            inner = self._part(depth + 1)
            return lambda name: not inner(name)
        if self._taken("("):
            inner = self._any_of(depth + 1)
            if not self._taken(")"):
                raise self._error(self._token().position, f"expected ), not {self._token().text}", "Close the (.")
            return inner
        if token.kind:
            hint = "Write a word, a part of the name of a case; put and, or and not in quotes to search for them."
            raise self._error(token.position, f"expected a word, not {token.text}", hint)
        self._next += 1
        word = token.text.casefold()
        return lambda name: word in name.casefold()

    def _error(self, position: int, reason: str, hint: str) -> QueryError:
        return QueryError.at(self._text, position, reason, hint, _WHAT)


def _token(match: re.Match[str]) -> _Token:
    kind = str(match.lastgroup)
    text, position = match[kind], match.start(kind)
    if kind in ("double", "single"):
        return _Token("", text, position - 1)
    return _Token(text if kind == "mark" or text in _JOINTS else "", text, position)
