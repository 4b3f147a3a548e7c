"""Judges of one or several summaries, the best first: their places, and how sure those are.

A judge without the figure is left out and named. Judges with the same figure share a place. Where the figure itself
says little about a judge, a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.judges.quality import (
    LEAST_SAMPLES,
    STRING_MATCHER,
    UNIT,
    Tier,
    f1_of,
    proportions,
    tier_of,
)
from faircount.analysis.judges.summary import JudgeRecord, Summary
from faircount.analysis.options import RANKED_BY, MeasureOptions
from faircount.core.errors import InputError, UsageError
from faircount.core.model import Document, Estimate
from faircount.report import formats
from faircount.report.blocks import (
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
from faircount.stats import balanced_accuracy
from faircount.stats.detector_bootstrap import (
    DEFAULT_REPLICATES,
    DEFAULT_SEED,
    SAME_METRIC,
    RankedMetric,
    Ranks,
    rank_ranges,
    ranks_by_overlap,
)
from faircount.stats.detectors import confusion_metrics
from faircount.stats.proportion import DEFAULT_LEVEL

DRAWN, OVERLAP, UNKNOWN = "drawn", "overlap", "unknown"
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
PUBLISHED_LEVEL = 0.95
_PUBLISHED = "as published"
_NO_INTERVAL = f"no interval: fewer than {LEAST_SAMPLES} samples"
_WITHOUT_COUNTS = "no interval: the summary has no counts"
_FIRST_CLASS = ("hit_f1", "hit_precision", "hit_recall")
_SECOND_CLASS = ("pass_f1", "pass_precision", "pass_recall")


class RankedJudge(Struct, frozen=True):
    """A judge with its place, and the summary that it is from.

    `rank_low` and `rank_high` are the places that it may really have; None where that is not known. `n` counts the
    labelled items that it decided, whatever the denominator of the figure; None where nobody says.
    """

    rank: int
    judge: str
    summary: str
    estimate: Estimate
    n: int | None
    rank_low: int | None
    rank_high: int | None
    tier: Tier | None
    notes: tuple[str, ...]


class UnrankedJudge(Struct, frozen=True):
    """A judge without a place, and why."""

    judge: str
    summary: str
    why: str


class Ranking(Document, frozen=True, kw_only=True):
    """Judges by a figure, the best first; `places_by` is how the range of places was found: see `METHODS`."""

    kind: Literal["judge-ranking"] = "judge-ranking"
    schema: Literal[1] = 1
    by: str
    level: float
    places_by: str
    random_seed: int
    summaries: tuple[str, ...]
    ranking: tuple[RankedJudge, ...]
    left_out: tuple[UnrankedJudge, ...]
    notes: tuple[str, ...]


METHODS = {
    DRAWN: f"{DEFAULT_REPLICATES:,} bootstrap draws from the counts of each judge, judges treated as independent; "
    "judges measured on the same labels mostly differ more clearly than this",
    OVERLAP: "overlap of the intervals: a judge ranks behind those whose interval lies entirely above its own; "
    "without an interval it may be anywhere",
    UNKNOWN: "no judge has an interval, so the places are uncertain",
}


def ranked(
    summaries: Sequence[Summary],
    by: str = "hit_f1",
    *,
    level: float = DEFAULT_LEVEL,
    seed: int = DEFAULT_SEED,
) -> Ranking:
    """Rank the judges of summaries by a figure, the highest first."""
    if by not in RANKED_BY:
        raise UsageError(f"--by {by}: judges can be ranked by {', '.join(RANKED_BY)}")
    if not 0 < level < 1:
        raise UsageError(f"--level must be between 0 and 1, not {level:g}")
    found = [_candidate(record, summary.path, by, level) for summary in summaries for record in summary.judges]
    candidates = [item for item in found if not isinstance(item, UnrankedJudge)]
    left_out = tuple(item for item in found if isinstance(item, UnrankedJudge))
    if not found:
        raise InputError(f"{', '.join(summary.path for summary in summaries)}: contains no judge")
    # The highest figure first; equal figures have equal ranks, by name.
    candidates.sort(key=lambda pair: (-_value(pair[0]), pair[0].judge, pair[0].summary))
    ordered: list[Candidate] = []
    for place, (item, record) in enumerate(candidates):
        tied = place > 0 and abs(_value(candidates[place - 1][0]) - _value(item)) <= SAME_METRIC
        ordered.append((replace(item, rank=ordered[-1][0].rank if tied else place + 1), record))
    ordered.sort(key=lambda pair: (pair[0].rank, pair[0].judge, pair[0].summary))
    # How the possible places are found: drawn where all have counts enough.
    counts = [record.counts for _, record in ordered if record.counts is not None and record.counts.n >= LEAST_SAMPLES]
    estimates = [item.estimate for item, _ in ordered]
    ranges: list[Ranks]
    if counts and len(counts) == len(ordered):
        tables = [(cells.tp, cells.fn, cells.tn, cells.fp) for cells in counts]
        method, ranges = DRAWN, rank_ranges(cast(RankedMetric, by), tables, seed=seed, level=level)
    elif all(estimate.low is None for estimate in estimates):
        method, ranges = UNKNOWN, [(None, None)] * len(ordered)
    else:
        method, ranges = OVERLAP, ranks_by_overlap(estimates)
    return Ranking(
        by=by,
        level=level,
        places_by=method,
        random_seed=seed,
        summaries=tuple(summary.path for summary in summaries),
        ranking=tuple(
            replace(item, rank_low=low, rank_high=high) for (item, _), (low, high) in zip(ordered, ranges, strict=True)
        ),
        left_out=left_out,
        notes=tuple(_notes(ordered, by, level)),
    )


Candidate = tuple[RankedJudge, JudgeRecord]
"""A judge whose place is to be found, and what its summary tells of it."""


def _candidate(record: JudgeRecord, path: str, by: str, level: float) -> Candidate | UnrankedJudge:
    if record.metrics is None and record.counts is None:
        return UnrankedJudge(record.called, path, "it was not evaluated")
    estimate = _estimate(record, by, level)
    if estimate is None or estimate.value is None:
        why = f"{by} is undefined"
        if record.counts is not None and not record.counts.n:
            why = "no labelled item was decided"
        elif record.counts is None and by not in (record.metrics or {}):
            why = f"the summary has no {by} of it"
        return UnrankedJudge(record.called, path, why)
    tier = tier_of(estimate) if by in ("hit_f1", "pass_f1") else None
    if estimate.low is None and (record.n or 0) >= LEAST_SAMPLES:
        tier = None  # there are enough labels, and no counts: nothing supports a tier or speaks against it
    doubts = tuple(_doubts(record, by))
    return RankedJudge(0, record.called, path, estimate, record.n, None, None, tier, doubts), record


# -- the figure -------------------------------------------------------------------------------------------------


def _estimate(record: JudgeRecord, by: str, level: float) -> Estimate | None:
    """Return the figure that a judge is ranked by: from its counts, or as it was published."""
    counts, metrics = record.counts, record.metrics or {}
    if counts is not None:
        cells = counts.tp, counts.fn, counts.tn, counts.fp
        if by == "hit_f1":
            return f1_of(*cells, MeasureOptions(level=level))
        if by == "pass_f1":
            return f1_of(counts.tn, counts.fp, counts.tp, counts.fn, MeasureOptions(level=level))
        if by == "balanced_accuracy":
            return balanced_accuracy(*cells, unit=UNIT, level=level)
        if by == "mcc":
            return Estimate(confusion_metrics(*cells).mcc, None, None, counts.n, UNIT, level, "no interval")
        return proportions(counts, level)[by]
    if by == "balanced_accuracy" and metrics.get(by) is None:
        # The mean of the published recalls, which both classes must have.
        hit, other = metrics.get("hit_recall"), metrics.get("pass_recall")
        if hit is None or other is None or missing_class(metrics) is not None:
            return None
        return Estimate((hit + other) / 2, None, None, 0, UNIT, level, _WITHOUT_COUNTS)
    value = metrics.get(by)
    if value is None:
        return None
    limits = metrics.get(f"{by}_ci") or {}
    low, high = limits.get("ci_lower"), limits.get("ci_upper")
    n = limits.get("n_samples") or 0
    if low is None or high is None:
        why = _NO_INTERVAL if by in ("hit_f1", "pass_f1") else _WITHOUT_COUNTS
        return Estimate(float(value), None, None, n, UNIT, level, why)
    return Estimate(float(value), float(low), float(high), n, UNIT, PUBLISHED_LEVEL, _PUBLISHED)


# -- places -----------------------------------------------------------------------------------------------------


def _value(item: RankedJudge) -> float:
    assert item.estimate.value is not None
    return item.estimate.value


# -- doubts -----------------------------------------------------------------------------------------------------


def missing_class(metrics: Mapping[str, Any]) -> str | None:
    """Return the class, hits or passes, that published figures show to have had no sample.

    Where there are no hits, their recall is written as 0 and accuracy is the recall of passes. With hits all of which
    are missed, accuracy would be less than that. The same with the classes exchanged.
    """
    accuracy, hit, other = (metrics.get(name) for name in ("accuracy", "hit_recall", "pass_recall"))
    if not accuracy:
        return None
    if hit == 0 and other is not None and abs(accuracy - other) <= SAME_METRIC:
        return "hits"
    if other == 0 and hit is not None and abs(accuracy - hit) <= SAME_METRIC:
        return "passes"
    return None


def _doubts(record: JudgeRecord, by: str) -> Iterator[str]:
    """Yield why the figure says little about a judge."""
    if record.string_matcher:
        yield STRING_MATCHER
    counts, metrics, few = record.counts, record.metrics or {}, f"n < {LEAST_SAMPLES}: no interval"
    if counts is not None:
        if not counts.hits or not counts.passes:
            missing = "passes" if counts.hits else "hits"
            yield f"there were no {missing} in the data: {by} says little about one class alone"
        if counts.n < LEAST_SAMPLES and by in ("hit_f1", "pass_f1"):
            yield few
        return
    absent = missing_class(metrics)
    if absent is not None:
        of_class = by in (_FIRST_CLASS if absent == "hits" else _SECOND_CLASS)
        so = "the 0 is really undefined" if of_class else f"{by} says little about one class alone"
        yield f"there were no {absent} in the data, as accuracy and recall show: {so}"
    if metrics.get("accuracy") == 0:
        yield "accuracy 0: every sample was decided wrongly, or none was decided; the summary does not show which"
    if by in ("hit_f1", "pass_f1") and not metrics.get(f"{by}_ci"):
        yield few


def _notes(placed: Sequence[Candidate], by: str, level: float) -> Iterator[str]:
    """Yield what is to be known about the ranking as a whole."""
    without = sum(item.estimate.low is None for item, _ in placed)
    if without and by != "mcc":
        yield f"{without:,} of {len(placed):,} judges have no interval: their places may be chance"
    if by == "mcc" and placed:
        yield "MCC has no interval here"
    if len({record.labels for _, record in placed}) > 1:
        yield "the judges were not all measured on the same labels, so the ranking also compares the labels"
    published = sum(item.estimate.method == _PUBLISHED for item, _ in placed)
    if published and level != PUBLISHED_LEVEL:
        yield f"published intervals are taken as they are, at a level of 95%: {published:,} of {len(placed):,}"
    names = [item.judge for item, _ in placed]
    repeated = len({name for name in names if names.count(name) > 1})
    if repeated:
        yield f"{repeated:,} judges are in several summaries: each is listed with its file"


# -- the report -------------------------------------------------------------------------------------------------


def as_report(ranking: Ranking) -> Report:
    """Arrange a ranking into a report."""
    name, several = NAMES[ranking.by], len(ranking.summaries) > 1
    opening: list[Block] = [text_table(("Summary",), ((Place(path),) for path in ranking.summaries))]
    if not ranking.ranking:
        opening.append(Paragraph(f"No judge can be ranked: none has {name}."))
    sections = [Section(f"Judges by {name}", (*opening, *map(Paragraph, ranking.notes)), level=1)]
    if ranking.ranking:
        sections.append(Section("Ranking", tuple(_blocks(ranking))))
    if doubtful := [item for item in ranking.ranking if item.notes]:
        notes = table(
            doubtful,
            text_column("Judge", lambda item: Record(item.judge)),
            text_column("Note", lambda item: "; ".join(item.notes)),
            text_column("Summary", lambda item: Place(item.summary), rank=1, when=several),
        )
        sections.append(Section("Weak figures", (notes,)))
    if ranking.left_out:
        left_out = table(
            ranking.left_out,
            text_column("Judge", lambda item: Record(item.judge)),
            text_column("Why", lambda item: item.why),
            text_column("Summary", lambda item: Place(item.summary), rank=1),
        )
        sections.append(Section("Left out", (left_out,)))
    return Report(tuple(sections), ranking)


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
