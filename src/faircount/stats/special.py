"""Special functions in plain Python, for results that must not wait for scipy: importing it costs a quarter second.

They are as exact as the counts of a report need, and are tested against scipy. References are to the NIST Digital
Library of Mathematical Functions (DLMF).
"""

import math
from statistics import NormalDist

_SMALLEST = 1e-300
_CONVERGED = 1e-16
_LARGEST_LOGIT = 690.0
# Above this argument six terms of the asymptotic series are exact to the last digits.
_ASYMPTOTIC_FROM = 10.0


def log_beta(a: float, b: float) -> float:
    """Return ln B(a, b) = ln Γ(a) + ln Γ(b) - ln Γ(a + b) (DLMF 5.12.1)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def digamma(x: float) -> float:
    """Return ψ(x) = d ln Γ(x)/dx for x > 0: recurrence ψ(x) = ψ(x+1) - 1/x up to 10, then DLMF 5.11.2."""
    shift = 0.0
    while x < _ASYMPTOTIC_FROM:
        shift -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = 1 / 12 - square * (
        1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square * 691 / 32760)))
    )
    return shift + math.log(x) - 0.5 / x - square * series


def trigamma(x: float) -> float:
    """Return ψ'(x) for x > 0: recurrence ψ'(x) = ψ'(x+1) + 1/x² up to 10, then DLMF 5.15.8."""
    shift = 0.0
    while x < _ASYMPTOTIC_FROM:
        shift += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * (5 / 66 - square * 691 / 2730))))
    return shift + 1 / x + square / 2 + square / x * series


def regularized_beta(a: float, b: float, x: float) -> float:
    """Return I_x(a, b), the probability that a Beta(a, b) lies at or below x (DLMF 8.17.2)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    return _beta_tails(a, b, x, 1 - x)[0]


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = probability, by Newton steps that a bracket keeps in bounds.

    The steps are taken between logit x and logit I_x, which are linear to each other in both tails.
    """
    if not 0 < probability < 1 or min(a, b) <= 0:
        raise ValueError(f"a Beta({a}, {b}) has no quantile at {probability}")
    low, high = -_LARGEST_LOGIT, _LARGEST_LOGIT
    wanted = math.log(probability) - math.log1p(-probability)
    logit = math.log(a / b) + NormalDist().inv_cdf(probability) * math.sqrt(1 / a + 1 / b)
    logit = min(max(logit, low + 1), high - 1)
    constant = log_beta(a, b)
    while True:
        x, rest = _sigmoid(logit), _sigmoid(-logit)
        below, above = _beta_tails(a, b, x, rest)
        if below > probability:
            high = logit
        else:
            low = logit
        slope = math.exp(a * math.log(x) + b * math.log(rest) - constant)
        following = (low + high) / 2
        if min(below, above, slope) > 0:
            newton = logit - (math.log(below / above) - wanted) * below * above / slope
            following = newton if low < newton < high else following
        if abs(following - logit) <= 1e-13 * max(1.0, abs(logit)) or high - low <= 1e-13:
            return _sigmoid(following)
        logit = following


def _sigmoid(logit: float) -> float:
    """Return 1/(1 + e^-logit) without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def _beta_tails(a: float, b: float, x: float, rest: float) -> tuple[float, float]:
    """Return the mass of Beta(a, b) below and above x = 1 - rest; the lesser of the two keeps all its digits."""
    front = math.exp(a * math.log(x) + b * math.log(rest) - log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        below = min(front * _beta_fraction(a, b, x) / a, 1.0)
        return below, 1 - below
    above = min(front * _beta_fraction(b, a, rest) / b, 1.0)
    return 1 - above, above


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of I_x(a, b) (DLMF 8.17.22), evaluated forwards by Lentz's method."""
    numerator_ratio = 1.0
    denominator_ratio = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = denominator_ratio
    step = 0
    while True:
        step += 1
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            denominator_ratio = 1 / _away_from_zero(1 + term * denominator_ratio)
            numerator_ratio = _away_from_zero(1 + term / numerator_ratio)
            factor = denominator_ratio * numerator_ratio
            value *= factor
        if abs(factor - 1) <= _CONVERGED * 10:
            return value


def _away_from_zero(value: float) -> float:
    """Return the value, or a tiny one in place of zero, which Lentz's method cannot divide by."""
    return value if abs(value) > _SMALLEST else _SMALLEST
