"""Judges of one or several summaries, the best first: their places, and how sure those are.

A judge without the figure is left out and named. Judges with the same figure share a place. Where the figure itself
says little about a judge, a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.judges.options import RANKED_BY, MeasureOptions
from faircount.analysis.judges.quality import (
    STRING_MATCHER,
    UNIT,
    Confusion,
    f1_of,
    proportions,
)
from faircount.analysis.judges.summary import JudgeRecord, Summary
from faircount.analysis.judges.tiers import LEAST_SAMPLES, Tier, tier_of
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
from faircount.stats.detector_bootstrap import DEFAULT_REPLICATES, DEFAULT_SEED
from faircount.stats.detectors import confusion_metrics
from faircount.stats.proportion import DEFAULT_LEVEL

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

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
_SAME = 1e-12
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
    ordered = _in_order(candidates)
    method, ranges = _ranges(ordered, by, level, seed)
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
        return UnrankedJudge(record.called, path, _why(record, by))
    tier = tier_of(estimate) if by in ("hit_f1", "pass_f1") else None
    doubts = tuple(_doubts(record, by))
    return RankedJudge(0, record.called, path, estimate, record.n, None, None, tier, doubts), record


def _why(record: JudgeRecord, by: str) -> str:
    if record.counts is not None and not record.counts.n:
        return "no labelled item was decided"
    metrics = record.metrics or {}
    if by not in metrics and record.counts is None:
        return f"the summary has no {by} of it"
    return f"{by} is undefined"


# -- the figure -------------------------------------------------------------------------------------------------


def _estimate(record: JudgeRecord, by: str, level: float) -> Estimate | None:
    """Return the figure that a judge is ranked by: from its counts, or as it was published."""
    if record.counts is not None:
        return _counted(record.counts, by, level)
    metrics = record.metrics or {}
    if by == "balanced_accuracy" and metrics.get(by) is None:
        return _mean_recall(metrics, level)
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


def _counted(counts: Confusion, by: str, level: float) -> Estimate:
    if by == "hit_f1":
        return f1_of(counts.tp, counts.fn, counts.tn, counts.fp, MeasureOptions(level=level))
    if by == "pass_f1":
        return f1_of(counts.tn, counts.fp, counts.tp, counts.fn, MeasureOptions(level=level))
    if by == "balanced_accuracy":
        return balanced_accuracy(counts.tp, counts.fn, counts.tn, counts.fp, unit=UNIT, level=level)
    if by == "mcc":
        mcc = confusion_metrics(counts.tp, counts.fn, counts.tn, counts.fp).mcc
        return Estimate(mcc, None, None, counts.n, UNIT, level, "no interval")
    return proportions(counts, level)[by]


def _mean_recall(metrics: Mapping[str, Any], level: float) -> Estimate | None:
    """Return balanced accuracy from the published recalls, which both classes must have."""
    recalls = metrics.get("hit_recall"), metrics.get("pass_recall")
    if recalls[0] is None or recalls[1] is None or missing_class(metrics) is not None:
        return None
    return Estimate((recalls[0] + recalls[1]) / 2, None, None, 0, UNIT, level, _WITHOUT_COUNTS)


# -- places -----------------------------------------------------------------------------------------------------


def _in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates with their ranks, the highest figure first; equal figures have equal ranks, by name."""
    ordered = sorted(candidates, key=lambda pair: (-_value(pair[0]), *_named(pair)))
    ranked: list[Candidate] = []
    for place, (item, record) in enumerate(ordered):
        tied = place > 0 and abs(_value(ordered[place - 1][0]) - _value(item)) <= _SAME
        ranked.append((replace(item, rank=ranked[-1][0].rank if tied else place + 1), record))
    return sorted(ranked, key=lambda pair: (pair[0].rank, *_named(pair)))


def _named(candidate: Candidate) -> tuple[str, str]:
    return candidate[0].judge, candidate[0].summary


def _value(item: RankedJudge) -> float:
    assert item.estimate.value is not None
    return item.estimate.value


Range = tuple[int | None, int | None]


def _ranges(ordered: Sequence[Candidate], by: str, level: float, seed: int) -> tuple[str, list[Range]]:
    """Return how the possible places were found, and the first and the last for each judge."""
    known = [record.counts for _, record in ordered if record.counts is not None]
    counts = [cells for cells in known if cells.n >= LEAST_SAMPLES]
    if counts and len(counts) == len(ordered):
        return DRAWN, drawn_ranges(counts, by, level, seed)
    estimates = [item.estimate for item, _ in ordered]
    if all(estimate.low is None for estimate in estimates):
        return UNKNOWN, [(None, None)] * len(ordered)
    return OVERLAP, [_overlapping(estimate, estimates) for estimate in estimates]


def _overlapping(one: Estimate, all_of_them: Sequence[Estimate]) -> Range:
    """Return the places that a judge may have: behind all that are surely better, before all that are surely worse."""
    low, high = one.low, one.high
    if low is None or high is None:
        return None, None
    better = sum(other.low is not None and other.low > high for other in all_of_them)
    worse = sum(other.high is not None and other.high < low for other in all_of_them)
    return 1 + better, len(all_of_them) - worse


def drawn_ranges(counts: Sequence[Confusion], by: str, level: float, seed: int) -> list[Range]:
    """Return for each judge the range of places that it takes in the middle `level` of bootstrap draws.

    A draw takes from each judge as many hits and passes as it had, with replacement; it is two binomial counts.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    drawn = np.stack([_drawn_figure(generator, item, by) for item in counts])
    order = np.argsort(-drawn, axis=0, kind="stable")
    ranks = np.empty(drawn.shape, dtype=np.int64)
    columns = np.arange(drawn.shape[1])
    before, rank = np.full(drawn.shape[1], np.inf), np.zeros(drawn.shape[1], dtype=np.int64)
    for place, row in enumerate(order):
        values = drawn[row, columns]
        rank = np.where(before - values <= _SAME, rank, place + 1)
        ranks[row, columns] = rank
        before = values
    tails = [(1 - level) / 2, 1 - (1 - level) / 2]
    limits = np.quantile(ranks, tails, axis=1, method="inverted_cdf")
    return [(int(low), int(high)) for low, high in limits.T]


def _drawn_figure(generator: np.random.Generator, counts: Confusion, by: str) -> Floats:
    import numpy as np

    hits, passes = counts.hits, counts.passes
    tp = generator.binomial(hits, counts.tp / max(hits, 1), DEFAULT_REPLICATES).astype(np.float64)
    fp = generator.binomial(passes, counts.fp / max(passes, 1), DEFAULT_REPLICATES).astype(np.float64)
    return _FIGURES[by](_Draws(tp, hits - tp, passes - fp, fp))


class _Draws(Struct, frozen=True):
    """The cells of the tables that were drawn."""

    tp: Floats
    fn: Floats
    tn: Floats
    fp: Floats


def _share(above: Floats, below: Floats) -> Floats:
    """Return a ratio for each draw; one without a denominator counts as 0, as in `stats.detector_bootstrap`."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _matthews(d: _Draws) -> Floats:
    import numpy as np

    product = (d.tp + d.fp) * (d.tp + d.fn) * (d.tn + d.fp) * (d.tn + d.fn)
    return _share(d.tp * d.tn - d.fp * d.fn, np.sqrt(product))


_FIGURES: dict[str, Callable[[_Draws], Floats]] = {
    "hit_f1": lambda d: _share(2 * d.tp, 2 * d.tp + d.fp + d.fn),
    "pass_f1": lambda d: _share(2 * d.tn, 2 * d.tn + d.fp + d.fn),
    "hit_precision": lambda d: _share(d.tp, d.tp + d.fp),
    "hit_recall": lambda d: _share(d.tp, d.tp + d.fn),
    "pass_precision": lambda d: _share(d.tn, d.tn + d.fn),
    "pass_recall": lambda d: _share(d.tn, d.tn + d.fp),
    "accuracy": lambda d: _share(d.tp + d.tn, d.tp + d.fn + d.tn + d.fp),
    "balanced_accuracy": lambda d: (_share(d.tp, d.tp + d.fn) + _share(d.tn, d.tn + d.fp)) / 2,
    "mcc": _matthews,
}


# -- doubts -----------------------------------------------------------------------------------------------------


def missing_class(metrics: Mapping[str, Any]) -> str | None:
    """Return the class, hits or passes, that published figures show to have had no sample.

    Where there are no hits, their recall is written as 0 and accuracy is the recall of passes. With hits all of which
    are missed, accuracy would be less than that. The same with the classes exchanged.
    """
    accuracy, hit, other = (metrics.get(name) for name in ("accuracy", "hit_recall", "pass_recall"))
    if not accuracy:
        return None
    if hit == 0 and other is not None and abs(accuracy - other) <= _SAME:
        return "hits"
    if other == 0 and hit is not None and abs(accuracy - hit) <= _SAME:
        return "passes"
    return None


def _doubts(record: JudgeRecord, by: str) -> Iterator[str]:
    """Yield why the figure says little about a judge."""
    if record.string_matcher:
        yield STRING_MATCHER
    if record.counts is not None:
        yield from _doubts_of_counts(record.counts, by)
    elif record.metrics is not None:
        yield from _doubts_of_figures(record.metrics, by)


def _doubts_of_counts(counts: Confusion, by: str) -> Iterator[str]:
    if not counts.hits or not counts.passes:
        missing = "passes" if counts.hits else "hits"
        yield f"there were no {missing} in the data: {by} says little about one class alone"
    if counts.n < LEAST_SAMPLES and by in ("hit_f1", "pass_f1"):
        yield f"n < {LEAST_SAMPLES}: no interval"


def _doubts_of_figures(metrics: Mapping[str, Any], by: str) -> Iterator[str]:
    missing = missing_class(metrics)
    if missing is not None:
        of_class = by in (_FIRST_CLASS if missing == "hits" else _SECOND_CLASS)
        so = "the 0 is really undefined" if of_class else f"{by} says little about one class alone"
        yield f"there were no {missing} in the data, as accuracy and recall show: {so}"
    if metrics.get("accuracy") == 0:
        yield "accuracy 0: every sample was decided wrongly, or none was decided; the summary does not show which"
    if by in ("hit_f1", "pass_f1") and not metrics.get(f"{by}_ci"):
        yield f"n < {LEAST_SAMPLES}: no interval"


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
    name = NAMES[ranking.by]
    sections = [
        Section(f"Judges by {name}", tuple(_opening(ranking)), level=1),
        *([Section("Ranking", tuple(_blocks(ranking)))] if ranking.ranking else []),
        *_weak_figures(ranking),
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


def _weak_figures(ranking: Ranking) -> Iterator[Section]:
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
