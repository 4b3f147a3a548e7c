"""Tails and critical values of the distributions that tests and intervals are read from, without scipy."""

import math
from collections.abc import Callable

from faircount.stats.proportion import check_level
from faircount.stats.special import beta_quantile, regularized_beta

# Tables as likely as the observed one count as at least as extreme, whatever rounding did to their last digits.
_TIE = 1e-7
_NEGLIGIBLE = 1e-17


def normal_tail(z: float) -> float:
    """Return P(Z > z) of the standard normal distribution."""
    return math.erfc(z / math.sqrt(2)) / 2


def two_sided_normal(z: float) -> float:
    """Return P(|Z| > |z|) of the standard normal distribution."""
    return math.erfc(abs(z) / math.sqrt(2))


def student_critical_value(level: float, degrees_of_freedom: int) -> float:
    """Return the t with P(|T| <= t) = level: T²/(ν + T²) is Beta(1/2, ν/2) distributed."""
    check_level(level)
    if degrees_of_freedom < 1:
        raise ValueError(f"Student's distribution has at least one degree of freedom, not {degrees_of_freedom}")
    share = beta_quantile(level, 0.5, degrees_of_freedom / 2)
    return math.sqrt(degrees_of_freedom * share / (1 - share))


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


def log_binomial(n: int, count: int) -> float:
    """Return the logarithm of the number of ways to choose `count` out of n."""
    return math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)


def hypergeometric_two_sided(count: int, drawn: int, marked: int, total: int) -> float:
    """Return the probability of every number of marked units that is at most as likely as `count`.

    X is the number of marked units among `drawn` out of `total`. Each tail is summed outwards from where it begins, so
    that its cost grows with the spread and not with the sample, and a tiny probability keeps its digits.
    """
    least, most = max(0, drawn + marked - total), min(drawn, marked)

    def log_mass(x: int) -> float:
        return log_binomial(marked, x) + log_binomial(total - marked, drawn - x) - log_binomial(total, drawn)

    threshold = log_mass(count) + _TIE
    mode = min(max((drawn + 1) * (marked + 1) // (total + 2), least), most)
    if log_mass(mode) <= threshold:
        return 1.0
    # Both tails: the last count below the mode and the first above it that is no likelier than the threshold.
    below = _last_where(lambda x: log_mass(mode - 1 - x) > threshold, mode - least)
    above = _last_where(lambda x: log_mass(mode + 1 + x) > threshold, most - mode)
    lower, upper = mode - 1 - below, mode + 1 + above
    total_mass = 0.0
    if lower >= least:
        total_mass += math.exp(log_mass(lower)) * _relative_tail(lower, least, drawn, marked, total)
    if upper <= most:
        # Seen from the unmarked units the upper tail is a lower one.
        unmarked = total - marked
        total_mass += math.exp(log_mass(upper)) * _relative_tail(drawn - upper, drawn - most, drawn, unmarked, total)
    return min(total_mass, 1.0)


def _last_where(condition: Callable[[int], bool], steps: int) -> int:
    """Return how many of the steps 0, 1, … fulfil a condition that holds at first and then never again."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if condition(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _relative_tail(start: int, least: int, drawn: int, marked: int, total: int) -> float:
    """Return the sum of P(X = x)/P(X = start) over x from `start` down to `least`."""
    term = tail = 1.0
    for x in range(start, least, -1):
        term *= x * (total - marked - drawn + x) / ((marked - x + 1) * (drawn - x + 1))
        tail += term
        if term < _NEGLIGIBLE * tail:
            break
    return tail
