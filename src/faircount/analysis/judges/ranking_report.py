"""A ranking of judges arranged into a report."""

from __future__ import annotations

from collections.abc import Iterator

from faircount import formats
from faircount.analysis.judges.ranking import METHODS, Ranking
from faircount.report import (
    Bar,
    Bars,
    Block,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)

NAMES = {
    "hit_f1": "F1 of hits",
    "hit_precision": "precision of hits",
    "hit_recall": "recall of hits",
    "pass_f1": "F1 of passes",
    "pass_precision": "precision of passes",
    "pass_recall": "recall of passes",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "mcc": "MCC",
}


def as_report(ranking: Ranking) -> Report:
    """Arrange a ranking into a report."""
    name = NAMES[ranking.by]
    sections = [
        Section(f"Judges by {name}", tuple(_opening(ranking)), level=1),
        *([Section("Ranking", tuple(_blocks(ranking)))] if ranking.ranking else []),
        *_doubts(ranking),
        *_left_out(ranking),
    ]
    return Report(tuple(sections), ranking)


def _opening(ranking: Ranking) -> Iterator[Block]:
    yield text_table(("Summary",), ((Place(path),) for path in ranking.summaries))
    if not ranking.ranking:
        yield Paragraph(f"No judge can be ranked: none has {NAMES[ranking.by]}.")
    yield from (Paragraph(note) for note in ranking.notes)


def _blocks(ranking: Ranking) -> Iterator[Block]:
    title = NAMES[ranking.by]
    title = title[0].upper() + title[1:]
    yield table(
        ranking.ranking,
        number_column("Rank", lambda item: item.rank),
        text_column("Judge", lambda item: Record(item.judge)),
        number_column(title, lambda item: formats.fixed(item.estimate.value) if ranking.by == "mcc" else item.estimate),
        number_column(
            "Places", lambda item: "?" if item.rank_low is None else f"{item.rank_low:,} to {item.rank_high:,}"
        ),
        number_column("n", lambda item: item.n, rank=2),
        text_column(
            "Tier",
            lambda item: None if item.tier is None else item.tier.words,
            rank=1,
            when=any(item.tier is not None for item in ranking.ranking),
        ),
        text_column("Summary", lambda item: Place(item.summary), rank=3, when=len(ranking.summaries) > 1),
        note=f"Places: the range of ranks that the data support; {METHODS[ranking.places_by]}.",
    )
    if ranking.by != "mcc":
        yield Bars(title, tuple(Bar(Record(item.judge), item.estimate) for item in ranking.ranking))


def _doubts(ranking: Ranking) -> Iterator[Section]:
    doubtful = [item for item in ranking.ranking if item.notes]
    if doubtful:
        notes = table(
            doubtful,
            text_column("Judge", lambda item: Record(item.judge)),
            text_column("Note", lambda item: "; ".join(item.notes)),
            text_column("Summary", lambda item: Place(item.summary), rank=1, when=len(ranking.summaries) > 1),
        )
        yield Section("Weak figures", (notes,))


def _left_out(ranking: Ranking) -> Iterator[Section]:
    if ranking.left_out:
        left_out = table(
            ranking.left_out,
            text_column("Judge", lambda item: Record(item.judge)),
            text_column("Why", lambda item: item.why),
            text_column("Summary", lambda item: Place(item.summary), rank=1),
        )
        yield Section("Left out", (left_out,))
