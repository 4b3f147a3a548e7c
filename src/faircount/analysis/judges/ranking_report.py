"""A ranking of judges arranged into a report."""

from __future__ import annotations

from collections.abc import Iterator

from faircount.analysis.judges.ranking import METHODS, RankedJudge, Ranking
from faircount.report import Bar, Bars, Block, Cell, Column, Grid, Paragraph, Place, Record, Report, Section

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
_JUDGE = Column("Judge", numeric=False)


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
    yield Grid((Column("Summary", numeric=False),), tuple((Place(path),) for path in ranking.summaries))
    if not ranking.ranking:
        yield Paragraph(f"No judge can be ranked: none has {NAMES[ranking.by]}.")
    yield from (Paragraph(note) for note in ranking.notes)


def _blocks(ranking: Ranking) -> Iterator[Block]:
    several = len(ranking.summaries) > 1
    tiers = any(item.tier is not None for item in ranking.ranking)
    title = NAMES[ranking.by]
    columns = (
        Column("Rank"),
        _JUDGE,
        Column(title[0].upper() + title[1:]),
        Column("Places"),
        Column("n", rank=2),
        *([Column("Tier", rank=1, numeric=False)] if tiers else []),
        *([Column("Summary", rank=3, numeric=False)] if several else []),
    )
    rows = tuple(tuple(_cells(item, ranking, tiers=tiers, several=several)) for item in ranking.ranking)
    yield Grid(columns, rows, note=f"Places: the range of ranks that the data support; {METHODS[ranking.places_by]}.")
    if ranking.by != "mcc":
        labels = [Record(item.judge) for item in ranking.ranking]
        bars = tuple(Bar(label, item.estimate) for label, item in zip(labels, ranking.ranking, strict=True))
        yield Bars(title[0].upper() + title[1:], bars)


def _cells(item: RankedJudge, ranking: Ranking, *, tiers: bool, several: bool) -> Iterator[Cell]:
    yield item.rank
    yield Record(item.judge)
    yield f"{item.estimate.value:.3f}" if ranking.by == "mcc" else item.estimate
    yield "?" if item.rank_low is None else f"{item.rank_low:,} to {item.rank_high:,}"
    yield item.n
    if tiers:
        yield None if item.tier is None else item.tier.words
    if several:
        yield Place(item.summary)


def _doubts(ranking: Ranking) -> Iterator[Section]:
    several = len(ranking.summaries) > 1
    columns = (_JUDGE, Column("Note", numeric=False), *([Column("Summary", rank=1, numeric=False)] if several else []))
    rows: list[tuple[Cell, ...]] = []
    for item in ranking.ranking:
        place: list[Cell] = [Place(item.summary)] if several else []
        if item.notes:
            rows.append((Record(item.judge), "; ".join(item.notes), *place))
    if rows:
        yield Section("Weak figures", (Grid(columns, tuple(rows)),))


def _left_out(ranking: Ranking) -> Iterator[Section]:
    columns = (_JUDGE, Column("Why", numeric=False), Column("Summary", rank=1, numeric=False))
    rows = tuple((Record(item.judge), item.why, Place(item.summary)) for item in ranking.left_out)
    if rows:
        yield Section("Left out", (Grid(columns, rows),))
