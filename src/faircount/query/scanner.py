"""The characters of an expression, read from left to right, and the one way to report a mistake in them.

All expressions that people write on the command line are read by a subclass of `Scanner`: queries, keywords, gates,
stop rules and the names of judges, targets and attacks. Nothing is looked up or run here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from faircount.core.errors import UsageError
from faircount.core.text import cell_width, visible

LONGEST = 1_000_000
"""The most characters of an expression."""

QUOTES = ("'", '"')
CURLY_QUOTES = "“”„‟‘’‚«»"

_SPACE = re.compile(r"\s*")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in QUOTES}
_CODES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\x[0-9a-fA-F]{2}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
# How many characters of a long expression are shown before and after the mark.
_BEFORE = 56
_AFTER = 32


class QueryError(UsageError):
    """An expression that cannot be understood; `position` counts its characters from 0."""

    position = 0

    @classmethod
    def at(cls, text: str, position: int, reason: str, hint: str, what: str) -> QueryError:
        """Return the error for a place in `text`, with a mark under it; `reason` and `hint` may repeat parts of it."""
        start, end = max(position - _BEFORE, 0), position + _AFTER
        before = ("…" if start else "") + visible(text[start:position])
        after = visible(text[position:end]) + ("…" if end < len(text) else "")
        further = (f"{before}{after}", f"{' ' * cell_width(before)}^", visible(hint))
        first = f"the {what} cannot be parsed at character {position + 1}: {visible(reason)}"
        error = cls("\n  ".join([first, *further]))
        error.position = position
        error.further = further
        return error


class Word(NamedTuple):
    """A text of an expression: its characters, and where in the expression each of them stands."""

    text: str
    places: Sequence[int]
    quoted: bool


class Scanner:
    """Reads an expression; what differs between the kinds of expressions is set by subclasses."""

    what = "query"
    """What messages call the expression."""
    bare = re.compile(r"""[^\s()\[\],"'=<>!&|]+""")
    """A word without quotes."""
    escapes = True
    """Whether a backslash in quotes can give the next character another meaning."""
    longest = LONGEST

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        if len(text) > self.longest:
            raise self.error(f"it is longer than {self.longest:,} characters", "Make it shorter.", self.longest)

    def error(self, reason: str, hint: str, position: int | None = None) -> QueryError:
        """Return the error for a place, by default the one that was reached."""
        return QueryError.at(self.text, self.position if position is None else position, reason, hint, self.what)

    def skip(self) -> int:
        """Pass over white space, and return where it ends."""
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        return self.position

    @property
    def next(self) -> str:
        """The next character after white space; empty at the end."""
        start = self.skip()
        return self.text[start : start + 1]

    def take(self, symbol: str) -> bool:
        """Pass over a symbol if it is what comes next."""
        found = self.text.startswith(symbol, self.skip())
        self.position += len(symbol) if found else 0
        return found

    def keyword(self) -> str:
        """Return the next word in lower case, or nothing if what comes next is no word, or the beginning of a path."""
        end = self.name_end(self.skip())
        return "" if self.text[end : end + 1] in (".", "[") else self.text[self.position : end].lower()

    def take_keyword(self, *words: str) -> str:
        """Pass over the next word if it is one of these, and return it."""
        found = self.keyword()
        if found not in words:
            return ""
        self.position += len(found)
        return found

    def name_end(self, start: int) -> int:
        """Return where a name without quotes ends: it holds letters, digits, _ and -."""
        end = start
        while end < len(self.text) and (self.text[end] == "-" or ("a" + self.text[end]).isidentifier()):
            end += 1
        return end

    def found(self) -> str:
        """Return what comes next, in words for a message."""
        if not self.next:
            return "the end"
        bare = self.bare.match(self.text, self.position)
        return f"“{bare.group()[:40] if bare else self.next}”"

    # -- texts -------------------------------------------------------------------------------------------------

    def word(self) -> Word | None:
        """Read a text, in quotes or bare; None if there is none here."""
        if self.next in QUOTES:
            return self.quoted()
        self.refuse_curly_quotes()
        bare = self.bare.match(self.text, self.position)
        if bare is None:
            return None
        text = bare.group()
        if visible(text) != text:
            for place, character in enumerate(text, start=self.position):
                if visible(character) != character:
                    raise self.error("invisible character", "Remove it, or quote the text if it belongs there.", place)
        self.position = bare.end()
        return Word(text, range(*bare.span()), quoted=False)

    def refuse_curly_quotes(self) -> None:
        """Raise an error for the quotation marks of word processors."""
        if self.next and self.next in CURLY_QUOTES:
            raise self.error("typographic quotation mark", "Use straight quotes, \" or '.")

    def quoted(self) -> Word:
        """Read a text in quotes, the first of which comes next."""
        start, quote = self.position, self.next
        self.position += 1
        texts: list[str] = []
        places: list[int] = []
        while not self.text.startswith(quote, self.position):
            if self.position >= len(self.text):
                inside = f", or \\{quote} for one inside" if self.escapes else ""
                raise self.error("this quote is not closed", f"Put {quote} after the text{inside}.", start)
            before = self.position
            part = self._quoted_part(quote)
            plain = len(part) == self.position - before
            places.extend(range(before, self.position) if plain else [before] * len(part))
            texts.append(part)
        self.position += 1
        return Word("".join(texts), places, quoted=True)

    def _quoted_part(self, quote: str) -> str:
        """Read plain characters or one escape; a backslash before anything else stands for itself."""
        plain = _PLAIN[quote].match(self.text, self.position)
        if plain is not None:
            self.position = plain.end()
            return plain.group()
        codes = _CODES.match(self.text, self.position) if self.escapes else None
        if codes is not None:
            self.position = codes.end()
            return _decoded(codes.group())
        escaped = self.text[self.position + 1 : self.position + 2] if self.escapes else ""
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


def _decoded(codes: str) -> str:
    if codes.startswith("\\x"):
        return chr(int(codes[2:], 16))
    text = json.loads(f'"{codes}"')
    assert isinstance(text, str)
    return text
