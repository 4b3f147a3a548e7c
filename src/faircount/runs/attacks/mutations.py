"""What of an entry's text an attack may change: its payload, without what the entry excludes from transformations.

`payload` is the part of the text that is the attack itself, where the dataset says so and the text holds it; else all
of the text is. `exclude_from_transformations_regex` is one regular expression or a list of them, Python's; what they
match in the payload stays as it is. They come from the dataset, and the engine behind them cannot be interrupted: like
a judge's, a pattern with nested repetitions can take longer than anybody waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from faircount.core.patterns import Pattern, SlowPattern
from faircount.core.text import clip, visible
from faircount.runs.attacks.base import AttackError, Entry

_FIELD = "exclude_from_transformations_regex"
_LONGEST_QUOTE = 80
# A payload of one letter stands all over a text; what takes its place is much longer.
_MOST_PLACES = 16


class Piece(NamedTuple):
    """A part of a payload; one that is kept must not be changed."""

    text: str
    kept: bool


class Wording(Struct, frozen=True):
    """The text of an entry, and the part of it that may be changed, in pieces."""

    text: str
    payload: str
    pieces: tuple[Piece, ...]

    def with_payload(self, payload: str) -> str:
        """Return the text with something else in the place of the payload, where it stands for the first times."""
        return self.text.replace(self.payload, payload, _MOST_PLACES) if self.payload else payload

    def turned(self, turn: Callable[[str], str]) -> str:
        """Return the payload with every piece turned that may be."""
        return "".join(piece.text if piece.kept else turn(piece.text) for piece in self.pieces)


def wording_of(entry: Entry) -> Wording:
    """Return what of an entry may be changed."""
    text, payload = entry.text, entry.fields.get("payload")
    if not isinstance(payload, str) or not payload or payload not in text:
        payload = text
    return Wording(text, payload, tuple(_pieces(payload, _patterns(entry))))


def _patterns(entry: Entry) -> list[Pattern]:
    told = entry.fields.get(_FIELD)
    texts = [told] if isinstance(told, str) else told
    if texts is None:
        return []
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise AttackError(f"{_FIELD} of the entry is neither a string nor a list of strings")
    return [_compiled(text) for text in texts if text]


def _compiled(text: str) -> Pattern:
    try:
        return Pattern(text)
    except (re.error, OverflowError, RecursionError) as error:
        quoted = clip(visible(text), _LONGEST_QUOTE)
        raise AttackError(f'{_FIELD} of the entry: "{quoted}" is not a regular expression: {error}') from None


def _pieces(payload: str, patterns: list[Pattern]) -> Iterator[Piece]:
    try:
        spans = sorted(span for pattern in patterns for span in pattern.spans(payload))
    except SlowPattern as error:
        raise AttackError(f"{_FIELD} of the entry: {error}") from None
    done = 0
    for start, end in spans:
        if end <= done or start == end:
            continue
        if start > done:
            yield Piece(payload[done:start], False)
        # Matches that overlap are one piece after the other: nothing between them may be changed.
        yield Piece(payload[max(start, done) : end], True)
        done = end
    if done < len(payload):
        yield Piece(payload[done:], False)
