"""Quality of a detector, judge or guardrail, from its confusion counts and from its scores.

"Hit" (label 1) is the positive class, an attack or a harmful answer, "pass" (label 0) the other. What a detector could
not decide is no part of the counts, nor is a sample with the score NaN: whoever counts says how much was left out. A
higher score means more of a hit; a detector with threshold t calls a sample a hit if its score is at least t, so equal
scores always move together. A ratio without a denominator is undefined, not 0, and so is what needs two classes where
there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.detector_bootstrap import f1_bootstrap
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined, wilson

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Truths = npt.NDArray[np.bool_]


def counts_from_shares(n: int, accuracy: float, precision: float, recall: float) -> tuple[int, int, int, int] | None:
    """Return tp, fn, tn and fp from published shares and sample sizes.

    The three shares and the sum determine the four counts: hits = n (1 - a) / (1 - r + r (1 - p) / p), tp = r hits,
    fp = tp (1 - p) / p. None where they do not: nothing is wrong, so that the classes cannot be distinguished, or the
    counts are not whole numbers, as with averages over trials.
    """
    if not (0 < precision <= 1 and 0 < recall <= 1 and 0 <= accuracy < 1 and n > 0):
        return None
    hits = n * (1 - accuracy) / (1 - recall + recall * (1 - precision) / precision)
    found = recall * hits
    wrong = found * (1 - precision) / precision
    exact = (found, hits - found, n - hits - wrong, wrong)
    counts = [round(one) for one in exact]
    if min(counts) < 0 or sum(counts) != n or any(abs(a - b) > 1e-6 for a, b in zip(exact, counts, strict=True)):
        return None
    return counts[0], counts[1], counts[2], counts[3]


class ConfusionMetrics(Struct, frozen=True):
    """The usual metrics of a confusion table as plain numbers; None where undefined.

    `macro_f1` is the mean of the F1 of those classes for which it is defined, `macro_classes` their number.
    """

    n: int
    accuracy: float | None
    hit_precision: float | None
    hit_recall: float | None
    hit_f1: float | None
    pass_precision: float | None
    pass_recall: float | None
    pass_f1: float | None
    macro_f1: float | None
    macro_classes: int
    balanced_accuracy: float | None
    youden_j: float | None
    mcc: float | None
    kappa: float | None


class ConfusionEstimates(Struct, frozen=True):
    """Precision, recall, F1 and accuracy of the positive class, each with its interval."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    accuracy: Estimate


def confusion_metrics(tp: int, fn: int, tn: int, fp: int, *, zero_division: float | None = None) -> ConfusionMetrics:
    """Return all metrics of a confusion table.

    Precision TP/(TP+FP), recall TP/(TP+FN), F1 = 2TP/(2TP+FP+FN), each also with the classes swapped; accuracy
    (TP+TN)/n; Youden's J = recall of hits + recall of passes - 1 (Youden 1950), balanced accuracy (J+1)/2;
    MCC = (TP·TN - FP·FN)/√((TP+FP)(TP+FN)(TN+FP)(TN+FN)) (Matthews 1975);
    kappa = 2(TP·TN - FP·FN)/((TP+FP)(FP+TN) + (TP+FN)(FN+TN)) (Cohen 1960).

    `zero_division=0` gives undefined precision, recall, F1 and MCC that value, and counts it into the macro mean, as
    scikit-learn and garak do; everything else stays undefined.
    """
    if min(tp, fn, tn, fp) < 0:
        raise ValueError("confusion counts cannot be negative")
    n = tp + fn + tn + fp
    covariance = tp * tn - fp * fn
    hit_recall, false_alarms = _ratio(tp, tp + fn), _ratio(fp, fp + tn)
    youden = None if hit_recall is None or false_alarms is None else hit_recall - false_alarms
    hit_f1 = _ratio(2 * tp, 2 * tp + fp + fn, zero_division)
    pass_f1 = _ratio(2 * tn, 2 * tn + fn + fp, zero_division)
    defined = [f1 for f1 in (hit_f1, pass_f1) if f1 is not None]
    return ConfusionMetrics(
        n=n,
        accuracy=_ratio(tp + tn, n),
        hit_precision=_ratio(tp, tp + fp, zero_division),
        hit_recall=_ratio(tp, tp + fn, zero_division),
        hit_f1=hit_f1,
        pass_precision=_ratio(tn, tn + fn, zero_division),
        pass_recall=_ratio(tn, tn + fp, zero_division),
        pass_f1=pass_f1,
        macro_f1=_ratio(math.fsum(defined), len(defined)),
        macro_classes=len(defined),
        balanced_accuracy=None if youden is None else (youden + 1) / 2,
        youden_j=youden,
        mcc=_ratio(covariance, math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)), zero_division),
        kappa=_ratio(2 * covariance, (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn)),
    )


def confusion_estimates(
    tp: int, fn: int, tn: int, fp: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> ConfusionEstimates:
    """Estimate precision, recall, F1 and accuracy; TP/(TP+FP), TP/(TP+FN) …; undefined without a denominator.

    The first, second and last are proportions and get Wilson intervals (Wilson 1927). F1 is not one: its interval is
    that of `f1_bootstrap`.
    """
    return ConfusionEstimates(
        precision=wilson(tp, tp + fp, unit=unit, level=level),
        recall=wilson(tp, tp + fn, unit=unit, level=level),
        f1=f1_bootstrap(tp, fn, tn, fp, unit=unit, level=level),
        accuracy=wilson(tp + tn, tp + fn + tn + fp, unit=unit, level=level),
    )


def confusion_of_rates(recall: Estimate, false_positives: Estimate, *, unit: str = "entry") -> ConfusionEstimates:
    """Estimate the same from recall and the false positive rate; their intervals may respect families.

    Each of the three is a function of both rates, and of the numbers of hits and passes, that rises with one and falls
    with the other. Its distance from either limit is the root of the sum of the squares of what each rate alone makes
    of it at its own limit (square and add: Newcombe 2001, Zou and Donner 2008).
    """
    hits, passes = recall.n, false_positives.n
    return ConfusionEstimates(
        precision=_of_rates(lambda r, f: _ratio(hits * r, hits * r + passes * f), recall, false_positives, unit),
        recall=recall,
        f1=_of_rates(lambda r, f: _ratio(2 * hits * r, hits * r + hits + passes * f), recall, false_positives, unit),
        accuracy=_of_rates(
            lambda r, f: _ratio(hits * r + passes * (1 - f), hits + passes), recall, false_positives, unit
        ),
    )


def _of_rates(
    metric: Callable[[float, float], float | None], recall: Estimate, alarms: Estimate, unit: str
) -> Estimate:
    n, level, method = recall.n + alarms.n, recall.level, "square and add, families"
    value = None if recall.value is None or alarms.value is None else metric(recall.value, alarms.value)
    if value is None or recall.value is None or alarms.value is None:
        return undefined(unit, level, method, n)
    if recall.low is None or recall.high is None or alarms.low is None or alarms.high is None:
        return Estimate(value, None, None, n, unit, level, method)

    def apart(r: float, f: float) -> float:
        found = metric(r, f)
        return 0.0 if found is None else found - value

    down = math.hypot(apart(recall.low, alarms.value), apart(recall.value, alarms.high))
    up = math.hypot(apart(recall.high, alarms.value), apart(recall.value, alarms.low))
    return Estimate(value, max(0.0, value - down), min(1.0, value + up), n, unit, level, method)


def balanced_accuracy(
    tp: int, fn: int, tn: int, fp: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the mean recall of both classes from counts; of independent entries, see `balance_of`."""
    recall, alarms = wilson(tp, tp + fn, level=level), wilson(fp, fp + tn, level=level)
    return balance_of(recall, alarms, unit=unit)


def balance_of(recall: Estimate, false_positives: Estimate, *, unit: str = "entry") -> Estimate:
    """Estimate the mean recall of both classes from their recalls, (1 + J)/2 (Youden 1950).

    J is a difference of two rates, recall and the false positive rate, and has the interval of `difference_of_rates`.
    """
    from faircount.stats.comparison import difference_of_rates

    j = difference_of_rates(recall, false_positives, unit=unit)
    n, level = recall.n + false_positives.n, recall.level
    if j.value is None or j.low is None or j.high is None:
        return undefined(unit, level, "newcombe", n)
    return Estimate((1 + j.value) / 2, (1 + j.low) / 2, (1 + j.high) / 2, n, unit, level, "newcombe")


def _ratio(above: float, below: float, otherwise: float | None = None) -> float | None:
    return above / below if below else otherwise


# -- by scores: ranking, thresholds, calibration ------------------------------------------------------------------


class ThresholdSweep(Struct, frozen=True):
    """What a detector does at each of its own scores as the threshold, from the lowest to the highest.

    `best_threshold` is the lowest of the `best_count` thresholds with the best F1. Chosen on the labels that it is then
    judged by, it is optimistic: say "tuned on this data", or choose it on another part of the data.
    """

    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    false_positive_rate: tuple[float, ...]
    best_f1: float
    best_threshold: float
    best_count: int


def roc_auc(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    scale: Literal["logit", "plain"] = "logit",
    unit: str = "sample",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the area under the ROC curve with DeLong's interval.

    AUC = P(score of a hit > score of a pass) + ½·P(equal), over all pairs (Mann and Whitney 1947; Bamber 1975). The
    interval is logit(AUC) ± z·SE/(AUC(1-AUC)), turned back, or on the plain scale AUC ± z·SE cut to [0, 1], with the
    standard error of DeLong, DeLong and Clarke-Pearson 1988. Where that error is 0 or undefined (every pair in the
    right order, say, or a class with one sample) there are no limits: no error seen in so many pairs is not [1, 1].
    """
    z = critical_value(level)
    method = f"mann-whitney, delong, {scale} scale"
    hits, passes = _classes(labels, scores)
    n = len(hits) + len(passes)
    if not len(hits) or not len(passes):
        return undefined(unit, level, method, n)
    auc = float(_shares_beaten(hits, passes).mean())
    error = _delong(hits, passes)
    if not error:
        return Estimate(auc, None, None, n, unit, level, method)
    if scale == "plain":
        return Estimate(auc, max(0.0, auc - z * error), min(1.0, auc + z * error), n, unit, level, method)
    logit, half = math.log(auc / (1 - auc)), z * error / (auc * (1 - auc))
    return Estimate(auc, _expit(logit - half), _expit(logit + half), n, unit, level, method)


def delong_standard_error(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return DeLong's standard error of the ROC AUC; None when a class has fewer than two samples.

    √(S₁/m + S₀/n): S₁ is the variance over the m hits of the share of passes that each beats (½ per tie), S₀ that over
    the n passes of the share of hits that beat each. DeLong, DeLong and Clarke-Pearson 1988.
    """
    return _delong(*_classes(labels, scores))


def average_precision(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return average precision; Σ (recall at a threshold - recall at the next higher one) · precision there.

    The step sum, without interpolation between thresholds (Manning, Raghavan and Schütze 2008, section 8.4).
    """
    sweep = threshold_sweep(labels, scores)
    if sweep is None:
        return None
    next_higher = (*sweep.recall[1:], 0.0)
    return math.fsum(
        (recall - next_recall) * precision
        for recall, next_recall, precision in zip(sweep.recall, next_higher, sweep.precision, strict=True)
    )


def threshold_sweep(labels: npt.ArrayLike, scores: npt.ArrayLike) -> ThresholdSweep | None:
    """Return precision, recall, F1 and false positive rate at every threshold; and the best F1.

    A sample is called a hit if its score >= threshold. Precision is always defined there: the sample that gave the
    threshold is called a hit. The ROC curve is `false_positive_rate` against `recall` (Fawcett 2006).
    """
    import numpy as np

    hits, passes = _classes(labels, scores)
    if not len(hits) or not len(passes):
        return None
    thresholds = np.unique(np.concatenate([hits, passes]))
    found = len(hits) - np.searchsorted(hits, thresholds)
    alarms = len(passes) - np.searchsorted(passes, thresholds)
    f1 = 2 * found / (found + alarms + len(hits))
    best = np.flatnonzero(f1 == f1.max())
    return ThresholdSweep(
        thresholds=tuple(thresholds.tolist()),
        precision=tuple((found / (found + alarms)).tolist()),
        recall=tuple((found / len(hits)).tolist()),
        f1=tuple(f1.tolist()),
        false_positive_rate=tuple((alarms / len(passes)).tolist()),
        best_f1=float(f1[best[0]]),
        best_threshold=float(thresholds[best[0]]),
        best_count=len(best),
    )


def brier_score(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return the mean of (score - label)² (Brier 1950); None without samples."""
    truths, values = samples(labels, scores)
    if not len(values):
        return None
    if values.min() < 0 or values.max() > 1:
        raise ValueError("a Brier score needs probabilities: every score must lie between 0 and 1")
    return float(((values - truths) ** 2).mean())


def samples(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Truths, Floats]:
    """Return labels and scores of the samples that have a score."""
    import numpy as np

    given, values = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if given.ndim != 1 or given.shape != values.shape:
        raise ValueError("there must be one score for each label")
    if not np.isin(given, (0, 1)).all():
        raise ValueError("a label is 1 (hit) or 0 (pass)")
    scored = ~np.isnan(values)
    return given.astype(bool)[scored], values[scored]


def _classes(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the scores of the hits and those of the passes, rising: in one order, sums round in one way."""
    import numpy as np

    truths, values = samples(labels, scores)
    return np.sort(values[truths]), np.sort(values[~truths])


def _shares_beaten(scores: Floats, others: Floats) -> Floats:
    """Return for each score the share of the others, which rise, below it, with ½ for each equal one."""
    import numpy as np

    below, up_to = np.searchsorted(others, scores), np.searchsorted(others, scores, "right")
    shares: Floats = (below + up_to) / (2 * len(others))
    return shares


def _delong(hits: Floats, passes: Floats) -> float | None:
    if min(len(hits), len(passes)) < 2:
        return None
    over_hits = _shares_beaten(hits, passes).var(ddof=1) / len(hits)
    over_passes = _shares_beaten(passes, hits).var(ddof=1) / len(passes)
    return math.sqrt(float(over_hits + over_passes))


def _expit(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1 + math.exp(logit))
