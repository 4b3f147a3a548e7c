"""How good a judge is against labels: from counts, and from scores where it has them, to figures with intervals.

Nothing is read or judged here. A judge that failed on an item is counted apart: no figure takes that for a pass. A
class without samples leaves its figures undefined, never 0. Tiers by F1 are those of garak's documentation, with
whether the interval bears a tier out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from faircount.analysis.options import MeasureOptions
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.core.verdict import Identity
from faircount.report import formats
from faircount.stats.detector_bootstrap import f1_bca, f1_bootstrap, f1_bootstrap_mean
from faircount.stats.detectors import (
    ThresholdSweep,
    average_precision,
    balanced_accuracy,
    confusion_metrics,
    roc_auc,
    threshold_sweep,
)
from faircount.stats.operating import OperatingPoint, operating_point
from faircount.stats.proportion import undefined, wilson

if TYPE_CHECKING:
    import numpy.typing as npt

TIERS = (("Excellent", 0.8), ("Good", 0.6), ("Moderate", 0.4), ("Poor", 0.2))
LOWEST = "Critical"
NAMES = (*(name for name, _ in TIERS), LOWEST)
LEAST_SAMPLES = 50
"""Samples from which on F1 has an interval."""

_SAME = 1e-12


class Tier(Struct, frozen=True):
    """A tier by its name, None where F1 is undefined.

    `supported` tells whether the whole interval lies in it, `reaches` names the other tiers that the interval touches,
    the better ones first.
    """

    name: str | None
    supported: bool
    reaches: tuple[str, ...]

    @property
    def words(self) -> str:
        """All of it in words."""
        if self.name is None:
            return "undefined"
        if self.reaches:
            return f"{self.name}, but the interval reaches {' and '.join(self.reaches)}"
        return self.name if self.supported else f"{self.name}, not supported: n < {LEAST_SAMPLES}"


def tier_name(f1: float | None) -> str | None:
    """Return the tier of an F1: Excellent above 0.8, Good above 0.6, Moderate above 0.4, Poor above 0.2, Critical."""
    if f1 is None:
        return None
    # A fraction that equals a limit belongs to the lower tier, however its last digit was rounded.
    return next((name for name, above in TIERS if f1 > above + _SAME), LOWEST)


def tier_of(f1: Estimate) -> Tier:
    """Return the tier of an F1 and whether its interval lies in that tier."""
    name = tier_name(f1.value)
    if name is None:
        return Tier(None, False, ())
    low, high = tier_name(f1.low), tier_name(f1.high)
    if low is None or high is None:
        return Tier(name, False, ())
    touched = NAMES[NAMES.index(high) : NAMES.index(low) + 1]
    others = tuple(other for other in touched if other != name)
    return Tier(name, not others, others)


UNIT = "labelled item"
STRING_MATCHER = "it matches strings: its errors show what the strings miss, not a fault in the matching"
_FEW = 30
_NO_INTERVAL = f"no interval: fewer than {LEAST_SAMPLES} samples"
_MOST_STEPS = 200
Point = tuple[float, float]


class Confusion(Struct, frozen=True):
    """What a judge said of labelled items: hits found and missed, passes let through and called hits, and errors."""

    tp: int
    fn: int
    tn: int
    fp: int
    errors: int = 0

    @property
    def hits(self) -> int:
        """Decided items that are labelled as hits."""
        return self.tp + self.fn

    @property
    def passes(self) -> int:
        """Decided items that are labelled as passes."""
        return self.tn + self.fp

    @property
    def n(self) -> int:
        """Decided items; errors are none."""
        return self.hits + self.passes


class Scores(Struct, frozen=True):
    """Labels (1 for a hit, 0 for a pass) and the scores of the same items in the same order; NaN where there is none.

    Lists will do, arrays take less room.
    """

    labels: npt.ArrayLike
    scores: npt.ArrayLike


class ThresholdStep(Struct, frozen=True):
    """What a judge would do with another threshold: a hit is a score of at least so much."""

    threshold: float
    precision: float
    recall: float
    f1: float
    false_positive_rate: float


class ScoreQuality(Struct, frozen=True):
    """The quality of a judge's scores. `unscored` items were decided without a score and take no part.

    `sweep` has the steps from the lowest threshold to the highest, at most 200 of `thresholds`; `best` is the first of
    `best_count` with the best F1, tuned on the data that it is judged by. `in_use` is the threshold that the judge
    decides by, `operating_step` what the operating point does. `roc` (false positive rate, recall) and
    `precision_recall` (recall, precision) run from the highest threshold to the lowest.
    """

    n: int
    unscored: int
    roc_auc: Estimate
    average_precision: float | None
    thresholds: int
    sweep: tuple[ThresholdStep, ...]
    best: ThresholdStep | None
    best_count: int
    in_use: ThresholdStep | None
    operating_point: OperatingPoint | None
    operating_step: ThresholdStep | None
    roc: tuple[Point, ...]
    precision_recall: tuple[Point, ...]


class JudgeQuality(Struct, frozen=True):
    """How good a judge is. Estimates without a value are undefined; F1 has an interval from 50 samples on.

    `threshold` is the one that the judge decides by, where it has one. `hit_f1_mean` and `pass_f1_mean` are the means
    over the bootstrap, where there is one.
    """

    called: str
    identity: Identity
    counts: Confusion
    string_matcher: bool
    threshold: float | None
    accuracy: Estimate
    hit_precision: Estimate
    hit_recall: Estimate
    hit_f1: Estimate
    pass_precision: Estimate
    pass_recall: Estimate
    pass_f1: Estimate
    balanced_accuracy: Estimate
    mcc: float | None
    hit_f1_mean: float | None
    pass_f1_mean: float | None
    tier: Tier
    scores: ScoreQuality | None
    notes: tuple[str, ...]

    @property
    def hit_sensitivity(self) -> Estimate:
        """The share of hits that are found: recall by another name."""
        return self.hit_recall

    @property
    def hit_specificity(self) -> Estimate:
        """The share of passes that are let through."""
        return self.pass_recall


class EvaluatedLabels(Struct, frozen=True):
    """A file with labels: its digest, and how its items fared."""

    path: str
    sha256: str
    items: int
    hits: int
    passes: int
    ties: int = 0
    unlabelled: int = 0
    bad: int = 0


class JudgeTrouble(Struct, frozen=True):
    """Why a judge could not be evaluated."""

    judge: str
    error: str


class LabelProblem(Struct, frozen=True):
    """Something about the labels that is doubtful: what, how often, and the first places, as file:line."""

    what: str
    count: int
    places: tuple[str, ...] = ()


class Evaluation(Struct, frozen=True):
    """Judges measured against the same labels. `evaluated_at` is a time in ISO 8601; `notes` are about all judges.

    Notes are words of our own; a doubt may quote a record.
    """

    qualities: tuple[JudgeQuality, ...]
    labels: tuple[EvaluatedLabels, ...]
    options: MeasureOptions
    evaluated_at: str
    errors: tuple[JudgeTrouble, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[LabelProblem, ...] = ()
    inverted: bool = False
    """Whether the labels say hit where the judges should say pass."""


def quality_of(
    called: str,
    identity: Identity,
    counts: Confusion,
    *,
    scores: Scores | None,
    options: MeasureOptions,
    string_matcher: bool = False,
    threshold: float | None = None,
) -> JudgeQuality:
    """Return how good a judge is from what it said of labelled items."""
    hit_f1, hit_mean = _f1(counts.tp, counts.fn, counts.tn, counts.fp, options)
    pass_f1, pass_mean = _f1(counts.tn, counts.fp, counts.tp, counts.fn, options)
    measured = None if scores is None else score_quality(scores, counts.n, options, threshold)
    return JudgeQuality(
        called=called,
        identity=identity,
        counts=counts,
        string_matcher=string_matcher,
        threshold=threshold,
        **proportions(counts, options.level),
        hit_f1=hit_f1,
        pass_f1=pass_f1,
        balanced_accuracy=balanced_accuracy(counts.tp, counts.fn, counts.tn, counts.fp, unit=UNIT, level=options.level),
        mcc=confusion_metrics(counts.tp, counts.fn, counts.tn, counts.fp).mcc,
        hit_f1_mean=hit_mean,
        pass_f1_mean=pass_mean,
        tier=tier_of(hit_f1),
        scores=measured,
        notes=(*_doubts(counts, hit_f1, pass_f1, string_matcher), *_doubts_about_scores(measured)),
    )


# -- counts -----------------------------------------------------------------------------------------------------


def proportions(counts: Confusion, level: float) -> dict[str, Estimate]:
    """Return accuracy, and precision and recall of both classes, with Wilson intervals.

    A class without samples has none: that nothing of it was found would be no merit and no fault.
    """
    tp, fn, tn, fp = counts.tp, counts.fn, counts.tn, counts.fp
    return {
        "accuracy": wilson(tp + tn, counts.n, unit=UNIT, level=level),
        "hit_precision": wilson(tp, (tp + fp) if counts.hits else 0, unit=UNIT, level=level),
        "hit_recall": wilson(tp, counts.hits, unit=UNIT, level=level),
        "pass_precision": wilson(tn, (tn + fn) if counts.passes else 0, unit=UNIT, level=level),
        "pass_recall": wilson(tn, counts.passes, unit=UNIT, level=level),
    }


def f1_of(tp: int, fn: int, tn: int, fp: int, options: MeasureOptions) -> Estimate:
    """Estimate F1 of the first class; below 50 samples it has no interval, without samples no value."""
    n = tp + fn + tn + fp
    if not tp + fn:
        return undefined(UNIT, options.level, "no sample of the class", n)
    if n < LEAST_SAMPLES:
        value = confusion_metrics(tp, fn, tn, fp).hit_f1
        return Estimate(value, None, None, n, UNIT, options.level, _NO_INTERVAL)
    return f1_bootstrap(
        tp, fn, tn, fp, replicates=options.replicates, seed=options.seed, unit=UNIT, level=options.level
    )


def _f1(tp: int, fn: int, tn: int, fp: int, options: MeasureOptions) -> tuple[Estimate, float | None]:
    """Return F1 with its interval, and its mean over the same bootstrap."""
    estimate = f1_of(tp, fn, tn, fp, options)
    if estimate.low is None:
        return estimate, None
    return estimate, f1_bootstrap_mean(tp, fn, tn, fp, replicates=options.replicates, seed=options.seed)


# -- scores -----------------------------------------------------------------------------------------------------


def score_quality(scores: Scores, decided: int, options: MeasureOptions, threshold: float | None) -> ScoreQuality:
    """Return the quality of scores: ROC, precision and recall, thresholds, and the one that holds a wanted rate."""
    import numpy as np

    given = np.asarray(scores.scores, dtype=np.float64)
    # An infinite score cannot be a threshold that anybody could set.
    values = np.where(np.isfinite(given), given, np.nan)
    auc = roc_auc(scores.labels, values, unit=UNIT, level=options.level)
    sweep = threshold_sweep(scores.labels, values)
    point = operating_point(scores.labels, values, options.false_positive_rate, unit=UNIT, level=options.level)
    return ScoreQuality(
        n=auc.n,
        unscored=max(decided - auc.n, 0),
        roc_auc=auc,
        average_precision=average_precision(scores.labels, values),
        thresholds=0 if sweep is None else len(sweep.thresholds),
        sweep=() if sweep is None else tuple(_step(sweep, at) for at in spread(len(sweep.thresholds), _MOST_STEPS)),
        best=None if sweep is None else _step(sweep, sweep.thresholds.index(sweep.best_threshold)),
        best_count=0 if sweep is None else sweep.best_count,
        in_use=_at(sweep, threshold),
        operating_point=point,
        operating_step=None if point is None else _at(sweep, point.threshold),
        roc=() if sweep is None else _roc(sweep),
        precision_recall=() if sweep is None else _thinned([*zip(sweep.recall, sweep.precision, strict=True)][::-1]),
    )


def _step(sweep: ThresholdSweep, at: int) -> ThresholdStep:
    return ThresholdStep(
        sweep.thresholds[at], sweep.precision[at], sweep.recall[at], sweep.f1[at], sweep.false_positive_rate[at]
    )


def _at(sweep: ThresholdSweep | None, threshold: float | None) -> ThresholdStep | None:
    """Return what a threshold does: as much as the next score above it. None where no score reaches it."""
    if sweep is None or threshold is None:
        return None
    reached = next((at for at, score in enumerate(sweep.thresholds) if score >= threshold), None)
    if reached is None:
        return None
    step = _step(sweep, reached)
    return ThresholdStep(threshold, step.precision, step.recall, step.f1, step.false_positive_rate)


def _roc(sweep: ThresholdSweep) -> tuple[Point, ...]:
    """Return the corners of the ROC curve; points on the straight line between others say nothing new."""
    points = [(0.0, 0.0), *zip(sweep.false_positive_rate[::-1], sweep.recall[::-1], strict=True)]
    corners = [points[0]]
    for point, following in pairwise(points[1:]):
        before = corners[-1]
        one = (point[0] - before[0]) * (following[1] - before[1])
        other = (point[1] - before[1]) * (following[0] - before[0])
        if abs(one - other) > 1e-9 * (one + other):
            corners.append(point)
    return _thinned([*corners, points[-1]])


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(points[at] for at in spread(len(points), _MOST_STEPS))


def spread(count: int, most: int) -> list[int]:
    """Return at most so many places out of a count, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})


# -- doubts -----------------------------------------------------------------------------------------------------


def _doubts(counts: Confusion, hit_f1: Estimate, pass_f1: Estimate, string_matcher: bool) -> Iterator[str]:
    """Yield what keeps the figures from saying what they seem to say."""
    if counts.errors:
        yield f"the judge failed on {counted(counts.errors, 'item')}, not counted here"
    if not counts.n:
        yield "no labelled item was decided, so everything is undefined"
        return
    if not counts.hits or not counts.passes:
        missing, there = ("hits", "passes") if not counts.hits else ("passes", "hits")
        yield f"the data hold no {missing}: F1 of {missing} is undefined, and that of {there} says little"
    if string_matcher:
        yield STRING_MATCHER
    if counts.n < LEAST_SAMPLES:
        yield f"{counted(counts.n, 'sample')}: F1 has an interval from {LEAST_SAMPLES} samples on"
        return
    flat = [name for name, f1 in (("hits", hit_f1), ("passes", pass_f1)) if f1.low is not None and f1.low == f1.high]
    if flat:
        yield (
            f"the interval of F1 of {' and '.join(flat)} has zero width: the bootstrap cannot draw what was not "
            "seen; use the Wilson intervals of precision and recall instead"
        )
    if not counts.hits or not counts.passes:
        return
    reasons = []
    if min(counts.hits, counts.passes) < _FEW:
        fewer = "hits" if counts.hits <= counts.passes else "passes"
        reasons.append(f"there are fewer than {_FEW} {fewer}")
    if 0 in (counts.tp, counts.fn, counts.tn, counts.fp):
        reasons.append("a cell of the table is empty")
    if reasons:
        # The interval that is closer to its level in small samples is told where it says something else.
        bca = f1_bca(counts.tp, counts.fn, counts.tn, counts.fp, unit=UNIT, level=hit_f1.level)
        same = (bca.low, bca.high) == (hit_f1.low, hit_f1.high)
        better = ""
        if bca.low is not None and bca.high is not None and bca.low != bca.high and not same:
            better = f"; corrected for that (BCa), the interval of hits is {formats.interval(bca)}"
        yield f"the interval of F1 is too narrow, because {' and '.join(reasons)}{better}"


def _doubts_about_scores(scores: ScoreQuality | None) -> Iterator[str]:
    if scores is None:
        return
    if scores.unscored:
        yield f"{counted(scores.unscored, 'decision')} without a score: ROC and thresholds leave them out"
    if scores.best is None:
        yield "without scores of hits and of passes there is no ROC curve and no threshold to choose"
        return
    if scores.roc_auc.low is None:
        why = {
            1.0: "every hit scores higher than every pass, so there is no error to estimate from",
            0.0: "every hit scores lower than every pass",
            None: "a class has one sample only, or all scores are equal",
        }
        auc = scores.roc_auc.value
        yield f"the area under the ROC curve has no interval: {why[auc if auc in (0, 1) else None]}"
    yield f"the threshold with the best F1, {scores.best.threshold:.6g}, is tuned on this data: expect less elsewhere"
    point = scores.operating_point
    if point is None or point.threshold is not None:
        return
    wanted, level = formats.exact_percent(point.wanted), formats.exact_percent(point.level)
    start, passes = (
        f"no threshold holds a false positive rate of {wanted} at a level of {level}",
        point.false_positive_rate.n,
    )
    if point.most_errors is None:
        few = counted(passes, "pass", "passes")
        yield f"{start}: {few} cannot show that; {point.samples_needed:,} without a single false alarm would"
    else:
        allowed = counted(point.most_errors, "false alarm")
        yield f"{start}: {allowed} would be allowed, but more of the {passes:,} passes have the highest score of all"
