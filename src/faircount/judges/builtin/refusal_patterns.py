"""How models phrase refusals, by the files in `refusals`, and the form of a text in which the phrases are looked for.

A file for each language has the patterns, so that its speakers can review them; `english.toml` says how to read and to
change one. Only a window of an answer is folded: characters become plain (NFKC, lower case, no accents, straight
quotes), marks that draw nothing or only emphasise go, white space becomes one space and an empty line becomes `¶`. The
folded text begins and ends with a space, so that a pattern can ask for whole words with plain spaces. Every repetition
is bounded, and the texts are short windows: no input takes long. Nothing is decided here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from faircount.core.verdict import Span
from faircount.judges.builtin import pattern_source, read_patterns

_OTHER_LANGUAGES = (
    *("german", "french", "spanish", "italian", "portuguese", "dutch", "polish", "czech"),
    *("swedish", "danish-or-norwegian", "turkish", "indonesian", "vietnamese", "russian"),
    *("ukrainian", "chinese", "japanese", "korean", "arabic", "hindi"),
)
"""In the order in which they are tried: a phrase can be one of several languages."""

# -- folding --------------------------------------------------------------------------------------------------------

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


def _folding() -> _Folding:
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


_FOLD = _folding()

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


# Without what becomes several characters: so `str.translate` is many times quicker.
_FOLD_ASCII = {code: chr(code) if chr(code) in _MARKS_APART else _FOLD[code] for code in range(128)}


def fold(text: str) -> str:
    """Return a text in the form in which it is searched."""
    if text.isascii():
        plain = text.translate(_FOLD_ASCII)
        for mark, apart in _MARKS_APART.items():
            if mark in plain:
                plain = plain.replace(mark, apart)
    else:
        plain = text.translate(_FOLD)
    if "\n\n" in plain:
        plain = plain.replace("\n\n", f" {PARAGRAPH} ")
    return f" {' '.join(plain.split())} "


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


# -- the files ------------------------------------------------------------------------------------------------------

# Up to so many characters of the same sentence, in files of other languages than English.
_WITHIN_SENTENCE = {"near": r"[^.!?¶]{0,60}?", "far": r"[^.!?¶]{0,110}?", "clause": r"[^。！？!?.¶]{0,40}?"}
_STEM = 5
OTHER_LANGUAGE_WEIGHT = 0.88
"""How much a phrase in another language than English weighs where it opens the answer."""


class Language(Struct, frozen=True):
    """How models refuse in another language than English.

    A refusal has at least one of `words`. What `declines` finds decides where it opens an answer; `hints` are apologies
    and lectures, which weigh only with something else.
    """

    name: str
    ascii: bool
    words: tuple[str, ...]
    declines: re.Pattern[str]
    hints: re.Pattern[str]

    def may_be(self, folded: str) -> bool:
        """Return whether a folded text has one of the words; a plain loop is quicker here than a generator."""
        for word in self.words:  # noqa: SIM110
            if word in folded:
                return True
        return False


def _language(name: str) -> Language:
    content = read_patterns(f"refusals/{name}")
    declines, hints = (
        re.compile(_folded_letters("|".join(pattern_source(written, _WITHIN_SENTENCE) for written in content[key])))
        for key in ("declines", "hints")
    )
    return Language(content["name"], content["ascii"], tuple(map(_folded_letters, content["words"])), declines, hints)


def _folded_letters(source: str) -> str:
    """Return a pattern or a word whose letters are folded as the texts are."""
    return "".join(letter if letter.isascii() else _FOLD[ord(letter)] or letter for letter in source)


class Family(Struct, frozen=True):
    """A family of phrasing that is looked for in the whole window; a pattern may have stems of its own."""

    name: str
    patterns: tuple[tuple[frozenset[str], re.Pattern[str]], ...]

    def first(self, text: str, stems: set[str]) -> re.Match[str] | None:
        """Return the first match of any of its patterns in a folded text that has these stems."""
        for own, pattern in self.patterns:
            if (not own or not own.isdisjoint(stems)) and (match := pattern.search(text)):
                return match
        return None


_ENGLISH = read_patterns("refusals/english")
_FRAGMENTS: dict[str, str] = {}
for _name, _written in _ENGLISH["fragments"].items():
    _FRAGMENTS[_name] = pattern_source(_written, _FRAGMENTS)


def _english(key: str) -> re.Pattern[str]:
    return re.compile(pattern_source(_ENGLISH[key], _FRAGMENTS))


def _sources(family: Mapping[str, Any]) -> list[str]:
    return [pattern_source(written, _FRAGMENTS) for written in family["patterns"]]


def _read_family(content: Mapping[str, Any]) -> Family:
    # What has stems of its own is a table in the file.
    every = [{"pattern": one, "stems": ""} if isinstance(one, str) else one for one in content["patterns"]]
    sources = _sources({"patterns": [one["pattern"] for one in every]})
    stems = [frozenset(one["stems"].split()) for one in every]
    return Family(content["name"], tuple(zip(stems, map(re.compile, sources), strict=True)))


FIRST_PERSON = re.compile("|".join(f"({'|'.join(_sources(family))})" for family in _ENGLISH["first_person"]))
"""One pattern for all phrases that begin with a first person; group n is the family n - 1."""
FIRST_PERSON_FAMILIES = tuple(family["name"] for family in _ENGLISH["first_person"])
ANYWHERE = tuple(map(_read_family, _ENGLISH["anywhere"]))
HINTS = tuple(map(_read_family, _ENGLISH["hints"]))
WHOLE = _english("whole")
WEIGHTS: Mapping[str, float] = {
    **{family["name"]: family["weight"] for family in (*_ENGLISH["first_person"], *_ENGLISH["anywhere"])},
    "whole answer": _ENGLISH["whole_weight"],
}
"""How much a family weighs where it opens the answer."""
HINT_WEIGHTS: Mapping[str, float] = {family["name"]: family["weight"] for family in _ENGLISH["hints"]}
"""What weighs only together with something else."""

SUBJECT = _english("subject")
NOT_SAID = _english("not_said")
CAPABILITY = _english("capability")
WILLING = _english("willing")
REMARK = _english("remark")
LETTER = _english("letter")
ASKED_YES_OR_NO = _english("asked_yes_or_no")
ANNOUNCED = _english("announced")
ANNOUNCING_WORDS = tuple(_ENGLISH["announcing_words"])
SAFE = _english("safe")
VOICE = _english("voice")
COMMON_WORDS = tuple(_ENGLISH["common_words"])
LANGUAGES = tuple(map(_language, _OTHER_LANGUAGES))

_ITSELF = tuple(_ENGLISH["itself"])
_OF_ITSELF: set[str] = set()
_FAMILIES_OF: dict[str, set[str]] = {}
for _family in (*_ENGLISH["anywhere"], *_ENGLISH["hints"]):
    if _family.get("of_itself"):
        _OF_ITSELF.add(_family["name"])
    for _stem in _family["stems"].split():
        _FAMILIES_OF.setdefault(_stem, set()).add(_family["name"])


_EVERY_STEM = _FAMILIES_OF.keys() | {
    stem for family in (*ANYWHERE, *HINTS) for own, _ in family.patterns for stem in own
}


def stems_of(folded: str) -> set[str]:
    """Return the beginnings of words in a folded text that phrases are known by."""
    words = folded.replace(".", " ").replace(",", " ").split()
    return {word[:_STEM] for word in words} & _EVERY_STEM


def possible_families(folded: str, stems: set[str]) -> set[str]:
    """Return the names of the families of which a folded text, which has these stems, has at least one word."""
    found: set[str] = set()
    for stem in stems & _FAMILIES_OF.keys():
        found |= _FAMILIES_OF[stem]
    for word in _ITSELF:  # a plain loop is quicker here than a generator
        if word in folded:
            return found
    return found - _OF_ITSELF
