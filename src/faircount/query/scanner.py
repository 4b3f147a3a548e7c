"""The characters of a query: names, words, texts in quotes and paths; and how a mistake in them is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from faircount.errors import UsageError
from faircount.query.tree import COMPUTED, Path, Step
from faircount.query.values import number_of
from faircount.text import cell_width, visible

_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"""[^\s()\[\],"'=<>!&|]+""")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in "\"'"}
_CODES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\x[0-9a-fA-F]{2}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
CURLY_QUOTES = "“”„‟‘’‚«»"

QUOTES = ("'", '"')
_BEFORE = 56
_AFTER = 32


class QueryError(UsageError):
    """A query that cannot be understood; `position` counts its characters from 0."""

    position = 0

    @classmethod
    def at(cls, text: str, position: int, reason: str, hint: str, what: str = "query") -> QueryError:
        """Return the error for a place in `text`; `reason` and `hint` may repeat parts of it."""
        lines = [f"the {what} cannot be parsed at character {position + 1}: {visible(reason)}"]
        lines += _marked(text, position)
        lines.append(f"  {visible(hint)}")
        error = cls("\n".join(lines))
        error.position = position
        error.further = tuple(line[2:] for line in lines[1:])
        return error


def _marked(text: str, position: int) -> list[str]:
    """Return the part of `text` around the place on one line, and a line with a mark under the place."""
    start = max(position - _BEFORE, 0)
    end = position + _AFTER
    before = ("…" if start else "") + visible(text[start:position])
    after = visible(text[position:end]) + ("…" if end < len(text) else "")
    return [f"  {before}{after}", f"  {' ' * cell_width(before)}^"]


class Word(NamedTuple):
    """A text of the query: its characters, and where in the query each of them stands."""

    text: str
    places: Sequence[int]
    quoted: bool


class Scanner:
    """Reads a query from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def error(self, reason: str, hint: str, position: int | None = None) -> QueryError:
        """Return the error for a place, by default the one that was reached."""
        return QueryError.at(self.text, self.position if position is None else position, reason, hint)

    def skip(self) -> None:
        """Pass over white space."""
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    @property
    def next(self) -> str:
        """The next character after white space; empty at the end."""
        self.skip()
        return self.text[self.position : self.position + 1]

    def take(self, symbol: str) -> bool:
        """Pass over a symbol if it is what comes next."""
        self.skip()
        found = self.text.startswith(symbol, self.position)
        self.position += len(symbol) if found else 0
        return found

    def keyword(self) -> str:
        """Return the next word in lower case, or nothing if what comes next is no word, or the beginning of a path."""
        self.skip()
        end = self._name_end(self.position)
        return "" if self.text[end : end + 1] in (".", "[") else self.text[self.position : end].lower()

    def take_keyword(self, *words: str) -> str:
        """Pass over the next word if it is one of these, and return it."""
        found = self.keyword()
        if found not in words:
            return ""
        self.position += len(found)
        return found

    def found(self) -> str:
        """Return what comes next, in words for a message."""
        if not self.next:
            return "the end"
        bare = _BARE.match(self.text, self.position)
        return f"“{bare.group()[:40] if bare else self.next}”"

    # -- values ------------------------------------------------------------------------------------------------

    def word(self) -> Word | None:
        """Read a text, in quotes or bare; None if there is none here."""
        if self.next in QUOTES:
            return self._quoted()
        self._refuse_curly_quotes()
        bare = _BARE.match(self.text, self.position)
        if bare is None:
            return None
        text = bare.group()
        if visible(text) != text:
            hidden = next(n for n, character in enumerate(text) if visible(character) != character)
            raise self.error(
                "invisible character",
                "Remove it, or quote the text if it belongs there.",
                self.position + hidden,
            )
        self.position = bare.end()
        return Word(text, range(*bare.span()), quoted=False)

    def _refuse_curly_quotes(self) -> None:
        if self.next and self.next in CURLY_QUOTES:
            raise self.error("typographic quotation mark", "Use straight quotes, \" or '.")

    def _quoted(self) -> Word:
        start, quote = self.position, self.next
        self.position += 1
        texts: list[str] = []
        places: list[int] = []
        while not self.text.startswith(quote, self.position):
            if self.position >= len(self.text):
                raise self.error(
                    "this quote is not closed", f"Put {quote} after the text, or \\{quote} for one inside.", start
                )
            before = self.position
            part = self._part(quote)
            plain = len(part) == self.position - before
            places.extend(range(before, self.position) if plain else [before] * len(part))
            texts.append(part)
        self.position += 1
        return Word("".join(texts), places, quoted=True)

    def _part(self, quote: str) -> str:
        """Read plain characters or one escape; a backslash before anything else stands for itself."""
        plain = _PLAIN[quote].match(self.text, self.position)
        if plain is not None:
            self.position = plain.end()
            return plain.group()
        codes = _CODES.match(self.text, self.position)
        if codes is not None:
            self.position = codes.end()
            return _decoded(codes.group())
        escaped = self.text[self.position + 1 : self.position + 2]
        if escaped in ("u", "x"):
            raise self.error(
                f"\\{escaped} needs {'four' if escaped == 'u' else 'two'} hexadecimal digits",
                f"Write \\u00e9 or \\xe9, or \\\\{escaped} for a backslash and the letter.",
            )
        if escaped not in _ESCAPES:
            self.position += 1
            return "\\"
        self.position += 2
        return _ESCAPES[escaped]

    # -- fields ------------------------------------------------------------------------------------------------

    def path(self) -> Path:
        """Read a field: a name, and steps into what it holds."""
        self.skip()
        start = self.position
        steps: list[Step] = [self._name()]
        if number_of(str(steps[0])) is not None:
            raise self.error(
                "expected a field, not a number", f'Write a field of that name as row["{steps[0]}"].', start
            )
        while self.text.startswith((".", "["), self.position):
            self.position += 1
            steps.append(self._name() if self.text[self.position - 1] == "." else self._bracketed())
        if steps[0] == "row":
            return Path(tuple(steps[1:]))
        return Path(tuple(steps), computed=steps[0] in COMPUTED)

    def _name_end(self, start: int) -> int:
        end = start
        while end < len(self.text) and _names(self.text[end]):
            end += 1
        return end

    def _name(self) -> str:
        start, end = self.position, self._name_end(self.position)
        if end == start:
            self._refuse_curly_quotes()
            raise self.error(
                f"expected the name of a field, found {self.found()}",
                'Examples: success, guardrail_categories.hate; write an unusual name as row["my field"].',
                start,
            )
        self.position = end
        return self.text[start:end]

    def _bracketed(self) -> Step:
        """Read what stands between square brackets, the first of which was passed."""
        start = self.position - 1
        step: Step = None
        if self.next in QUOTES:
            step = self._quoted().text
        elif not self.take("*"):
            index = _INDEX.match(self.text, self.position)
            if index is None:
                raise self.error(
                    f"expected a number, * or a quoted name, found {self.found()}",
                    'Examples: attempt_history[0], attempt_history[*], meta["a name"].',
                )
            self.position = index.end()
            step = int(index.group())
        if not self.take("]"):
            raise self.error("this bracket is not closed", "Put ] after the number, the * or the name.", start)
        return step


def _names(character: str) -> bool:
    """Return whether a character may be in a name without quotes."""
    return character == "-" or ("a" + character).isidentifier()


def _decoded(codes: str) -> str:
    if codes.startswith("\\x"):
        return chr(int(codes[2:], 16))
    text = json.loads(f'"{codes}"')
    assert isinstance(text, str)
    return text
