"""Intervals for one proportion."""

import math
from statistics import NormalDist

from faircount.core.model import Estimate
from faircount.stats.distributions import beta_quantile, check_level

DEFAULT_LEVEL = 0.95


def check_counts(successes: int, n: int) -> None:
    """Refuse what is no number of successes out of n; weights and scores are not counts."""
    if not 0 <= successes <= n or successes != int(successes) or n != int(n):
        raise ValueError(f"{successes} successes out of {n} is not a proportion")


def critical_value(level: float) -> float:
    """Return the two-sided critical value of the standard normal; the level is strictly between 0 and 1."""
    check_level(level)
    return NormalDist().inv_cdf(0.5 + level / 2)


def undefined(unit: str, level: float = DEFAULT_LEVEL, method: str = "wilson", n: int = 0) -> Estimate:
    """Return an estimate without value and limits; of a quantity that the data do not define."""
    return Estimate(None, None, None, n, unit, level, method)


def score_limits(p: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's limits for a proportion p of n > 0 units (n need not be whole) with the critical value z.

    centre = (p + z²/2n) / (1 + z²/n); half-width = z·√(p(1-p)/n + z²/4n²) / (1 + z²/n).
    At p = 0 and p = 1 the outer limit is exactly 0 and 1.
    """
    shrink = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / shrink
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / shrink
    low = 0.0 if p == 0 else max(0.0, centre - half)
    high = 1.0 if p == 1 else min(1.0, centre + half)
    return low, high


def wilson(successes: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate a proportion with the score interval (Wilson 1927); Newcombe 1998, method 3.

    centre = (p + z²/2n) / (1 + z²/n); half-width = z·√(p(1-p)/n + z²/4n²) / (1 + z²/n).
    At 0 and n successes the outer limit is exactly 0 and 1. With n = 0 the proportion is undefined.
    """
    check_counts(successes, n)
    z = critical_value(level)
    if n == 0:
        return undefined(unit, level)
    p = successes / n
    low, high = score_limits(p, n, z)
    return Estimate(p, low, high, n, unit, level, "wilson")


def clopper_pearson(successes: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate a proportion with the exact interval (Clopper and Pearson 1934); it covers at least `level` always.

    With α = 1 - level: from the α/2 quantile of Beta(k, n-k+1) to the 1-α/2 quantile of Beta(k+1, n-k); the outer limit
    at 0 and n successes is exactly 0 and 1. With n = 0 the proportion is undefined.
    """
    check_counts(successes, n)
    check_level(level)
    if n == 0:
        return undefined(unit, level, "clopper-pearson")
    tail = (1 - level) / 2
    failures = n - successes
    low = beta_quantile(tail, successes, failures + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, failures) if failures else 1.0
    return Estimate(successes / n, low, high, n, unit, level, "clopper-pearson")


def jeffreys(
    successes: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL, open_ended: bool = True
) -> Estimate:
    """Estimate a proportion with the interval of the Jeffreys prior (Brown, Cai and DasGupta 2001).

    Equal-tailed quantiles of Beta(k + 1/2, n - k + 1/2). `open_ended` puts the lower limit at exactly 0 without a
    success and the upper at 1 without a failure, as that paper advises; without it the bare quantiles stand.
    With n = 0 the proportion is undefined.
    """
    check_counts(successes, n)
    check_level(level)
    if n == 0:
        return undefined(unit, level, "jeffreys")
    tail = (1 - level) / 2
    failures = n - successes
    low = beta_quantile(tail, successes + 0.5, failures + 0.5)
    high = beta_quantile(1 - tail, successes + 0.5, failures + 0.5)
    if open_ended:
        low = low if successes else 0.0
        high = high if failures else 1.0
    return Estimate(successes / n, low, high, n, unit, level, "jeffreys")


def zero_hits_upper(
    n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL, design_effect: float = 1.0
) -> Estimate:
    """Estimate a rate after n entries without a success; with the exact one-sided upper limit.

    upper = 1 - (1 - level)^(D/n) with the design effect D of families, at 95% about 3·D/n (Hanley and Lippman-Hand
    1983). With n = 0 it is undefined.
    """
    check_counts(0, n)
    check_level(level)
    if n == 0:
        return undefined(unit, level, "zero hits, one-sided")
    upper = -math.expm1(math.log1p(-level) / (n / design_effect))
    return Estimate(0.0, 0.0, upper, n, unit, level, "zero hits, one-sided")
