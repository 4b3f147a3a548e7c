"""What a comparison corrected for the judge shows: raw and corrected side by side, and what the latter rests on."""

from __future__ import annotations

from collections.abc import Iterator

from faircount.analysis.comparing.found import Comparison, CorrectedPair, File, Pair
from faircount.analysis.words import WORDS
from faircount.model import Estimate
from faircount.report import Block, Cell, Column, Fact, Facts, Grid, Paragraph, Place, Points, Record

_METHODS = {
    "rogan-gladen": "Rogan-Gladen, one judge for both sides",
    "two-phase": "two-phase, by the labels of each verdict and side",
    "ppi": "prediction-powered (PPI++), by the labels of each side",
}


def corrected_blocks(c: Comparison, pair: Pair, corrected: CorrectedPair) -> Iterator[Block]:
    """Return the rates and the difference on the pairs, raw and corrected, and what that rests on."""
    a, b = c.sides(pair)
    rate = WORDS[c.aim].rate
    rows: tuple[tuple[Cell, ...], ...] = (
        (f"{rate} of {a.label}", pair.rate_a, _rate(corrected.rate_a)),
        (f"{rate} of {b.label}", pair.rate_b, _rate(corrected.rate_b)),
        (
            f"Difference in points, {b.label} - {a.label}",
            Points(pair.difference),
            "none" if corrected.difference is None else Points(corrected.difference),
        ),
    )
    yield Grid((Column("", numeric=False), Column("Raw, as judged"), Column("Corrected")), rows)
    yield Facts(tuple(_grounds((a, b), corrected)))
    yield from map(Paragraph, corrected.sentences)


def _rate(estimate: Estimate | None) -> Cell:
    return "none" if estimate is None else estimate


def _grounds(files: tuple[File, File], corrected: CorrectedPair) -> Iterator[Fact]:
    yield Fact("Method", _METHODS[corrected.method])
    first = files[0].correction
    if first is None:
        return
    if first.labels_from == "run":
        for file in files:
            if file.correction is not None:
                told = f"{file.correction.labels.n:,}, of which {file.correction.labels.hits:,} say success"
                yield Fact(f"Labels of {file.label}", told)
    else:
        yield Fact("Labels", f"{first.labels.n:,}, of which {first.labels.hits:,} say success")
        if first.judge is not None:
            yield Fact("of the judge", Record(first.judge), depth=1)
    yield Fact("from", Place(first.file), depth=1)
