"""Tails and critical values of the distributions that tests and intervals are read from, without scipy."""

import math

from faircount.stats.proportion import check_level
from faircount.stats.special import beta_quantile, regularized_beta


def normal_tail(z: float) -> float:
    """Return P(Z > z) of the standard normal distribution."""
    return math.erfc(z / math.sqrt(2)) / 2


def two_sided_normal(z: float) -> float:
    """Return P(|Z| > |z|) of the standard normal distribution."""
    return math.erfc(abs(z) / math.sqrt(2))


def student_critical_value(level: float, degrees_of_freedom: float) -> float:
    """Return the t with P(|T| <= t) = level: T²/(ν + T²) is Beta(1/2, ν/2) distributed."""
    check_level(level)
    if degrees_of_freedom < 1:
        raise ValueError(f"Student's distribution has at least one degree of freedom, not {degrees_of_freedom}")
    share = beta_quantile(level, 0.5, degrees_of_freedom / 2)
    return math.sqrt(degrees_of_freedom * share / (1 - share))


def two_sided_student(t: float, degrees_of_freedom: float) -> float:
    """Return P(|T| > |t|) of Student's distribution: ν/(ν + T²) is Beta(ν/2, 1/2) distributed."""
    if degrees_of_freedom < 1:
        raise ValueError(f"Student's distribution has at least one degree of freedom, not {degrees_of_freedom}")
    if math.isinf(t):
        return 0.0
    return regularized_beta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / (degrees_of_freedom + t * t))


def chi_square_tail(value: float, degrees_of_freedom: int) -> float:
    """Return P(χ² > value), for whole degrees of freedom a finite sum (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    half = value / 2
    if degrees_of_freedom % 2:
        total, power = math.erfc(math.sqrt(half)), 0.5
    else:
        total, power = math.exp(-half), 1.0
    while power < degrees_of_freedom / 2:
        if half > 0:
            total += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
        power += 1
    return min(total, 1.0)


def binomial_at_most(count: int, n: int, probability: float) -> float:
    """Return P(X <= count) of a Binomial(n, probability) with 0 < probability < 1 (DLMF 8.17.5)."""
    if count < 0:
        return 0.0
    return 1.0 if count >= n else regularized_beta(n - count, count + 1, 1 - probability)


def hypergeometric_at_most(count: int, drawn: int, marked: int, total: int) -> float:
    """Return the chance of at most `count` marked ones among `drawn` of `total`: Fisher's exact test, one-sided."""
    ways = sum(
        math.comb(marked, k) * math.comb(total - marked, drawn - k)
        for k in range(max(0, drawn - (total - marked)), count + 1)
    )
    return ways / math.comb(total, drawn)


def log_binomial(n: int, count: int) -> float:
    """Return the logarithm of the number of ways to choose `count` out of n."""
    return math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
