"""Quality of a detector, judge or guardrail from its confusion counts.

"Hit" is the positive class (an attack, a harmful answer), "pass" the other. What a detector could not decide is no
part of the counts: whoever counts says how much was left out. A ratio without a denominator is undefined, not 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.detector_bootstrap import f1_bootstrap
from faircount.stats.proportion import DEFAULT_LEVEL, undefined, wilson


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
    """Return the metrics of a confusion table.

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
    youden = _difference(_ratio(tp, tp + fn), _ratio(fp, fp + tn))
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
    """Estimate precision TP/(TP+FP), recall TP/(TP+FN), F1 and accuracy; what has no denominator is undefined.

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
    """Estimate the same from recall and the false positive rate, whose intervals may respect families.

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
    """Estimate the mean of the recalls of both classes from counts of independent entries; see `balance_of`."""
    recall, alarms = wilson(tp, tp + fn, level=level), wilson(fp, fp + tn, level=level)
    return balance_of(recall, alarms, unit=unit)


def balance_of(recall: Estimate, false_positives: Estimate, *, unit: str = "entry") -> Estimate:
    """Estimate the mean of the recalls of both classes, (1 + J)/2 with Youden's J (Youden 1950).

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


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second
