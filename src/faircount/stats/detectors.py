"""Quality of a detector, judge or guardrail from its confusion counts.

Precision, recall and accuracy are proportions and get Wilson intervals. F1 is not: its interval is the percentile
interval of the bootstrap stratified by class. Drawn with replacement inside each class, a replicate depends only on
TP* ~ Binomial(P, TP/P) and FP* ~ Binomial(N, FP/N), independent; F1* = 2·TP*/(TP* + FP* + P) rises with TP* and
falls with FP*, so the limits of infinitely many replicates are computed by summing probabilities, without a draw.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from faircount.model import Estimate
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined, wilson

_NEGLIGIBLE_SDS = 9.0
_ROUNDING = 1e-9
_RESOLUTION = 1e-13
_F1_METHOD = "stratified bootstrap, exact percentile"


@dataclass(frozen=True, slots=True)
class ConfusionEstimates:
    """Precision, recall, F1 and accuracy of the positive class, each with its interval."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    accuracy: Estimate


def confusion_estimates(
    tp: int, fn: int, tn: int, fp: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> ConfusionEstimates:
    """Estimate precision TP/(TP+FP), recall TP/(TP+FN), F1 and accuracy; what has no denominator is undefined."""
    return ConfusionEstimates(
        precision=wilson(tp, tp + fp, unit=unit, level=level),
        recall=wilson(tp, tp + fn, unit=unit, level=level),
        f1=f1_exact_bootstrap(tp, fn, tn, fp, unit=unit, level=level),
        accuracy=wilson(tp + tn, tp + fn + tn + fp, unit=unit, level=level),
    )


def f1_exact_bootstrap(
    tp: int, fn: int, tn: int, fp: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate F1 = 2TP/(2TP+FP+FN) with the exact stratified percentile bootstrap interval."""
    critical_value(level)
    if min(tp, fn, tn, fp) < 0:
        raise ValueError("confusion counts cannot be negative")
    n = tp + fn + tn + fp
    if 2 * tp + fp + fn == 0:
        return undefined(unit, level, _F1_METHOD, n)
    value = 2 * tp / (2 * tp + fp + fn)
    tail = (1 - level) / 2
    low, high = _f1_percentiles(tp, tp + fn, fp, fp + tn, (tail, 1 - tail))
    return Estimate(value, low, high, n, unit, level, _F1_METHOD)


def _binomial_window(n: int, p: float) -> tuple[int, list[float]]:
    """Return the first count and the probabilities of the counts that a Binomial(n, p) really takes.

    Counts more than nine standard deviations (and ten units) away carry less than 1e-17 and are left out.
    """
    if n == 0 or p in (0.0, 1.0):
        return (n if p == 1.0 else 0), [1.0]
    spread = _NEGLIGIBLE_SDS * math.sqrt(n * p * (1 - p)) + 10
    first, last = max(0, math.floor(n * p - spread)), min(n, math.ceil(n * p + spread))
    constant = math.lgamma(n + 1)
    log_p, log_q = math.log(p), math.log1p(-p)
    return first, [
        math.exp(constant - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
        for k in range(first, last + 1)
    ]


def _f1_percentiles(
    tp: int, positives: int, fp: int, negatives: int, probabilities: tuple[float, float]
) -> tuple[float, float]:
    """Return the percentiles of F1* under the two independent binomials: the least value with at least that mass."""
    tp_first, tp_pmf = _binomial_window(positives, tp / positives if positives else 0.0)
    fp_first, fp_pmf = _binomial_window(negatives, fp / negatives if negatives else 0.0)
    at_most = [0.0, *accumulate(fp_pmf)]
    total = at_most[-1] * math.fsum(tp_pmf)

    def mass_up_to(x: float) -> float:
        """Return P(F1* <= x): beside TP* = c the other count must be at least 2c/x - c - P."""
        mass = 0.0
        for count, probability in enumerate(tp_pmf, start=tp_first):
            if count == 0:
                mass += probability * at_most[-1]
            elif x > 0:
                fewer = math.ceil(2 * count / x - count - positives - _ROUNDING) - fp_first
                mass += probability * (at_most[-1] - at_most[min(max(fewer, 0), len(fp_pmf))])
        return mass / total

    def attained_near(x: float) -> float:
        """Return the F1* that x stands for: bisection ends a rounding error beside it."""
        candidates = [0.0]
        for count in range(max(tp_first, 1), tp_first + len(tp_pmf)):
            other = min(max(round(2 * count / max(x, _RESOLUTION)) - count - positives, fp_first), negatives)
            candidates.append(2 * count / (count + other + positives))
        return min(candidates, key=lambda value: abs(value - x))

    low, high = (attained_near(_least_with_mass(mass_up_to, probability)) for probability in probabilities)
    return low, high


def _least_with_mass(mass_up_to: Callable[[float], float], probability: float) -> float:
    """Return the least x in [0, 1] with at least `probability` at or below it, by bisection."""
    if mass_up_to(0.0) >= probability:
        return 0.0
    below, above = 0.0, 1.0
    while above - below > _RESOLUTION:
        middle = (below + above) / 2
        if mass_up_to(middle) >= probability:
            above = middle
        else:
            below = middle
    return above
