"""The intervals people use in place of ours, written from their textbook formulas with scipy, for comparison only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from scipy import stats

Interval = tuple[float, float]
Z = float(stats.norm.ppf(0.975))


@cache
def student(degrees: int) -> float:
    return float(stats.t.ppf(0.975, degrees))


def wald(successes: int, n: int) -> Interval:
    """Return p ± z·√(p(1-p)/n)."""
    p = successes / n
    half = Z * math.sqrt(p * (1 - p) / n)
    return p - half, p + half


def mean_t(successes: int, n: int) -> Interval:
    """Return the t interval of a mean of zeros and ones (inspect_ai's `ci`)."""
    p = successes / n
    half = student(n - 1) * math.sqrt(p * (1 - p) / (n - 1))
    return p - half, p + half


@cache
def percentile_bootstrap(successes: int, n: int) -> Interval:
    """Return the percentiles that a bootstrap of endlessly many draws has (garak)."""
    low, high = stats.binom.ppf([0.025, 0.975], n, successes / n)
    return float(low) / n, float(high) / n


def mean_of_values(values: Sequence[float], critical: float = Z) -> Interval:
    """Return mean ± critical·sd/√n."""
    n = len(values)
    mean = math.fsum(values) / n
    half = critical * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    return mean - half, mean + half


def family_means_t(successes: Sequence[int], size: int) -> Interval:
    """Return the t interval of the family means; for families of one size this is CR1 with Wald limits."""
    return mean_of_values([s / size for s in successes], student(len(successes) - 1))


def paired_wald(only_a: int, only_b: int, n: int) -> Interval:
    """Return (b-c)/n ± z·√(b + c - (b-c)²/n)/n."""
    value = (only_a - only_b) / n
    half = Z * math.sqrt(max(only_a + only_b - (only_a - only_b) ** 2 / n, 0.0)) / n
    return value - half, value + half


def difference_wald(successes_a: int, n_a: int, successes_b: int, n_b: int) -> Interval:
    """Return p_A - p_B ± z·√(p_A(1-p_A)/n_A + p_B(1-p_B)/n_B)."""
    a, b = successes_a / n_a, successes_b / n_b
    half = Z * math.sqrt(a * (1 - a) / n_a + b * (1 - b) / n_b)
    return a - b - half, a - b + half


def judge_taken_as_known(judged: int, n: int, sensitivity: float, specificity: float) -> Interval | None:
    """Return the bootstrap limits of the judged rate, corrected as if the judge's errors were known (garak)."""
    youden = sensitivity + specificity - 1
    if youden <= 0:
        return None
    low, high = (min(max((q + specificity - 1) / youden, 0.0), 1.0) for q in percentile_bootstrap(judged, n))
    return low, high


def garak(hits: int, n: int, sensitivity: float, specificity: float) -> Interval:
    """Return garak's interval: percentiles of corrected bootstrap rates, sensitivity and specificity taken as known.

    Where their sum is 1 but for a hundredth the rates are not corrected; where it is less, they are all the same.
    """
    youden = sensitivity + specificity - 1
    limits = percentile_bootstrap(hits, n)
    if abs(youden) < 0.01:
        return limits
    low, high = sorted(min(max((q + specificity - 1) / youden, 0.0), 1.0) for q in limits)
    return low, high
