"""Entries that succeeded on one side only, with what was asked and what each side answered, read back from the files.

Texts are believed only if a line still reads as the row that was counted; secrets are masked and long texts cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from faircount.analysis.compare.model import Flip, Flips
from faircount.analysis.compare.side import Side
from faircount.analysis.evidence import CHANGED, example_of, lines_again, with_parts_that_matter
from faircount.analysis.passages import repeated_from
from faircount.core.model import Example, Passage
from faircount.ledger.lookup import deciding_rows


class Texts(Struct, frozen=True):
    """What rows of entries hold, by the place of the entry in its side, and why others could not be read back."""

    found: dict[int, tuple[str, Example]]
    missing: tuple[tuple[str, str], ...] = ()


def flips(a: Side, rows: tuple[Any, Any], texts: tuple[Texts, Texts], limit: int) -> Flips:
    """Return the ids of flipped entries, and the first of them with their texts."""
    texts_a, texts_b = texts
    chosen = [row[:limit].tolist() for row in rows]
    shown = [
        _flip(name, texts_a.found[one], texts_b.found[other])
        for name, one, other in zip(a.names(rows[0][:limit]), *chosen, strict=True)
        if one in texts_a.found and other in texts_b.found
    ]
    lost = [] if len(shown) == len(chosen[0]) else [*texts_a.missing, *texts_b.missing]
    return Flips(a.names(rows[0]), tuple(shown), dict(lost))


def read_back(side: Side, rows: Sequence[int], max_line: int) -> Texts:
    """Read the rows that tell of some entries, given by their places."""
    if not rows:
        return Texts({})
    deciding = deciding_rows(side.ledger, [int(side.keys[row]) for row in rows])
    telling = {row: deciding[int(side.keys[row])] for row in rows}
    lines, unreadable = lines_again(side.path, list(telling.values()), side.folded.read[0].anchors, max_line)
    if unreadable:
        return Texts({}, ((side.path, unreadable),))
    found: dict[int, tuple[str, Example]] = {}
    missing: list[tuple[str, str]] = []
    for row, told in telling.items():
        place = side.ledger.place(told.ord)
        if told.line in lines:
            found[row] = place, example_of(place, lines[told.line])
        else:
            missing.append((place, CHANGED))
    marked = with_parts_that_matter([example for _, example in found.values()])
    found = {row: (place, example) for (row, (place, _)), example in zip(found.items(), marked, strict=True)}
    return Texts(found, tuple(missing))


def _flip(name: str, a: tuple[str, Example], b: tuple[str, Example]) -> Flip:
    (place_a, of_a), (place_b, of_b) = a, b
    prompt = of_a.prompt if of_a.prompt.text is not None else of_b.prompt
    return Flip(
        entry=name,
        where=(place_a, place_b),
        judge=of_a.judge or of_b.judge,
        prompt=prompt,
        response_a=_answer(of_a, prompt),
        response_b=_answer(of_b, prompt),
    )


def _answer(example: Example, prompt: Passage) -> Passage:
    """Return the response, or the error in its place where a block ended the attempt."""
    if not example.response.text and example.error is not None:
        return Passage(example.error)
    return repeated_from(example.response, prompt)
