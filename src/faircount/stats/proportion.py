"""Intervals for one proportion."""

import math
from statistics import NormalDist

from faircount.model import Estimate

DEFAULT_LEVEL = 0.95


def critical_value(level: float) -> float:
    """Return the two-sided standard normal critical value of a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies strictly between 0 and 1, not at {level}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def undefined(unit: str, level: float = DEFAULT_LEVEL, method: str = "wilson", n: int = 0) -> Estimate:
    """Return the estimate of a quantity that the data do not define: no value and no limits."""
    return Estimate(None, None, None, n, unit, level, method)


def wilson(successes: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate a proportion with the Wilson score interval (Wilson 1927; Newcombe 1998, method 3).

    centre = (p + z²/2n) / (1 + z²/n); half-width = z·√(p(1-p)/n + z²/4n²) / (1 + z²/n).
    At 0 and n successes the outer limit is exactly 0 and 1. With n = 0 the proportion is undefined.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes out of {n} is not a proportion")
    z = critical_value(level)
    if n == 0:
        return undefined(unit, level)
    p = successes / n
    shrink = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / shrink
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / shrink
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Estimate(p, low, high, n, unit, level, "wilson")
