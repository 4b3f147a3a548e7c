"""The text of an answer in the form in which refusals are looked for, and the way back to the answer as it is.

Only a window of an answer is folded: characters become plain (NFKC, lower case, no accents, straight quotes), marks
that draw nothing or only emphasise go, white space becomes one space and an empty line becomes `¶`. The folded text
begins and ends with a space, so that a pattern can ask for whole words with plain spaces. Nothing is decided here.
"""

from __future__ import annotations

import re
import unicodedata

from faircount.core.verdict import Span

PARAGRAPH = "¶"

_MOST_REMEMBERED = 20_000
_MARKS_APART = {'"': ' " ', "(": " ( ", ")": " ) ", "[": " [ ", "]": " ] "}
_QUOTES = "“”„‟«»「」『』″〝〞"
_APOSTROPHES = "‘’‚‛′ʼ´ʹ"
_DASHES = "‒–—―"
# Emphasis, headings and quotation in Markdown; the mark that stands for an empty line; carriage returns.
_DROPPED = "*_`~#>|¶\r"


def _plain(character: str) -> str | None:
    """Return what one character that is not ASCII is read as."""
    code = ord(character)
    category = unicodedata.category(character)
    if category in ("Mn", "Cf", "Cc", "Cs", "Co", "Cn", "So", "Sk", "Me"):
        # Combining marks of scripts that are written with them (Devanagari, Thai, Arabic) stay.
        return character if category == "Mn" and code > 0x036F and not 0xFE00 <= code <= 0xFE0F else None
    folded = unicodedata.normalize("NFKC", character).casefold()
    if code < 0x0530 or 0x1E00 <= code <= 0x1EFF:
        parts = unicodedata.normalize("NFKD", folded)
        folded = "".join(part for part in parts if not unicodedata.combining(part))
    return folded if folded.strip() else " "


class _Folding(dict[int, str | None]):
    """A table for `str.translate` that works out a character when it is first met."""

    def __missing__(self, code: int) -> str | None:
        folded = _plain(chr(code))
        if len(self) < _MOST_REMEMBERED:
            self[code] = folded
        return folded


def _table() -> _Folding:
    table = _Folding({code: chr(code).lower() for code in range(128)})
    table.update({code: " " if chr(code).isspace() else None for code in (*range(32), 127) if chr(code) != "\n"})
    table.update({ord(mark): apart for mark, apart in _MARKS_APART.items()})
    table.update({ord(quote): ' " ' for quote in _QUOTES})
    table.update({ord(apostrophe): "'" for apostrophe in _APOSTROPHES})
    table.update({ord(dash): " - " for dash in _DASHES})
    table.update({ord("…"): "... ", ord("ı"): "i", ord("ł"): "l", ord("Ł"): "l", ord("ø"): "o", ord("Ø"): "o"})
    table.update({ord("đ"): "d", ord("Đ"): "d", ord("‑"): "-", ord("‐"): "-"})
    table.update(dict.fromkeys(map(ord, _DROPPED)))
    return table


_FOLD = _table()

_FENCE = re.compile(r"(?:```|~~~)([^\n`]{0,40})\n?(.*?)(?:```|~~~|\Z)", re.DOTALL)
_PROSE = frozenset(["", "text", "txt", "plaintext", "plain", "markdown", "md", "output", "response", "answer"])


def _blanked(match: re.Match[str]) -> str:
    """Return a fenced block as spaces; the words of a block that holds prose stay where they are."""
    if match[1].strip().lower() in _PROSE and match.start() == 0:
        return "   " + " " * len(match[1]) + match[0][3 + len(match[1]) :]
    return " " * len(match[0])


def without_code(text: str) -> str:
    """Return `text`, equally long, with its fenced code blocks blanked."""
    return _FENCE.sub(_blanked, text) if "```" in text or "~~~" in text else text


def _ascii_table() -> dict[int, str | None]:
    """Return the table for ASCII, without what becomes several characters: so `str.translate` is many times quicker."""
    return {code: chr(code) if chr(code) in _MARKS_APART else _FOLD[code] for code in range(128)}


_FOLD_ASCII = _ascii_table()


def _folded_ascii(text: str) -> str:
    plain = text.translate(_FOLD_ASCII)
    for mark, apart in _MARKS_APART.items():
        if mark in plain:
            plain = plain.replace(mark, apart)
    return plain


def fold(text: str) -> str:
    """Return a text in the form in which it is searched."""
    plain = _folded_ascii(text) if text.isascii() else text.translate(_FOLD)
    if "\n\n" in plain:
        plain = plain.replace("\n\n", f" {PARAGRAPH} ")
    return f" {' '.join(plain.split())} "


def pattern(source: str) -> re.Pattern[str]:
    """Return a compiled pattern whose letters were folded as the texts are."""
    letters = "".join(_FOLD[ord(letter)] or letter if not letter.isascii() else letter for letter in source)
    return re.compile(letters)


class _Weights(dict[int, int]):
    """How many characters that are seen each character becomes."""

    def __missing__(self, code: int) -> int:
        weight = _weight(_FOLD[code] or "")
        if len(self) < _MOST_REMEMBERED:
            self[code] = weight
        return weight


_WEIGHTS = _Weights()


class Window:
    """A part of an answer, folded, that knows where its characters stood."""

    __slots__ = ("folded", "offset", "raw")

    def __init__(self, raw: str, offset: int) -> None:
        self.raw = without_code(raw)
        self.offset = offset
        self.folded = fold(self.raw)

    def span(self, start: int, end: int) -> Span:
        """Return where the folded characters from `start` up to `end` stood in the answer."""
        before = _weight(self.folded[:start])
        inside = _weight(self.folded[start:end])
        first = last = None
        seen = 0
        for index, character in enumerate(self.raw):
            weight = _WEIGHTS[ord(character)]
            if not weight:
                continue
            seen += weight
            if first is None and seen > before:
                first = index
            if seen >= before + inside:
                last = index
                break
        if first is None or last is None:
            first, last = 0, max(len(self.raw) - 1, 0)
        return Span(self.offset + first, self.offset + max(last, first) + 1)


def _weight(folded: str) -> int:
    """Return how many characters that are seen a folded text has; the mark of an empty line is not in the answer."""
    return len(folded) - folded.count(" ") - folded.count("\n") - folded.count(PARAGRAPH)
