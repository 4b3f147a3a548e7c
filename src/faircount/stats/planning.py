"""How many entries a question needs, and what a number of entries can answer.

Families of variants cost entries: with `family_size` m and correlation `icc` within a family a sample must be
1 + (m-1)·icc times as large (Kish 1965).
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from msgspec import Struct

from faircount.stats.comparison import cohen_h
from faircount.stats.distributions import (
    binomial_at_most,
    check_level,
    crossing,
    log_binomial,
    normal_tail,
    student_critical_value,
)
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, score_limits

DEFAULT_POWER = 0.8
DEFAULT_ALPHA = 0.05

# 100·1.1 is a little above 110 in floating point, and yet 110 entries suffice.
_ROUNDING = 1e-9
_LEAST_VARIANCE = 1e-12
_CLEARLY_LESS = 0.1
_MOST_SUMMED = 3_000
_STEP = 1e-5
_FINE_STEP = 1e-6
_NO_DIFFERENCE = 1e-12
_ONE_OF_TWO = "give the base rate for different entries, or the share of discordant entries for the same ones"


class SampleSize(Struct, frozen=True):
    """The number of entries that a formula gives, exact and rounded up."""

    n: float
    entries: int


def design_effect(family_size: float, icc: float) -> float:
    """Return the factor by which families of m widen a variance, 1 + (m-1)·icc (Kish 1965)."""
    if family_size < 1:
        raise ValueError(f"a family has at least one variant, not {family_size}")
    if not 0 <= icc <= 1:
        raise ValueError(f"the correlation within families lies between 0 and 1, not at {icc}")
    return 1 + (family_size - 1) * icc


def expected_limits(
    rate: float, entries: float, *, level: float = DEFAULT_LEVEL, design_effect: float = 1.0
) -> tuple[float, float]:
    """Return the limits of Wilson's interval for an expected rate, n and design effect.

    (p + z²/2m ± z·√(p(1-p)/m + z²/4m²)) / (1 + z²/m) with m = n/D, which need not be whole (Wilson 1927; Kish 1965).
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"a rate lies between 0 and 1, not at {rate}")
    return score_limits(rate, entries / design_effect, critical_value(level))


def sample_size_in_families(n: float, family_size: float, icc: float) -> SampleSize:
    """Return the entries in families worth n independent ones; n·(1 + (m-1)·icc)."""
    if n < 0:
        raise ValueError(f"{n} is not a number of entries")
    return _whole(n, family_size, icc)


def sample_size_paired(
    discordant: float,
    difference: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float = 1,
    icc: float = 0.0,
) -> SampleSize:
    """Return the pairs with which McNemar's test finds a difference (Connor 1987).

    (z_{α/2}√ψ + z_β√(ψ - δ²))²/δ², where ψ = `discordant` is the share of entries on which only one target succeeds.
    """
    if not 0 < abs(difference) <= discordant <= 1:
        raise ValueError("the difference is not 0 and at most the share of discordant entries, which is at most 1")
    z_alpha, z_beta = _critical_values(alpha, power)
    root = z_alpha * math.sqrt(discordant) + z_beta * math.sqrt(discordant - difference**2)
    return _whole((root / difference) ** 2, family_size, icc)


def power_paired(
    n: int,
    difference: float,
    discordant: float,
    *,
    alpha: float = DEFAULT_ALPHA,
    design_effect: float = 1.0,
    degrees: float | None = None,
) -> float:
    """Return how often a true difference is claimed; δ on the same n entries, by the rule of `Design.paired`.

    Of a share ψ = `discordant` only one target succeeds; B does so on (ψ + δ)/2. Independent entries: McNemar's exact
    test, summed over all tables, or with its continuity correction where thousands of entries differ. Over families
    (δ̂ - h)/(s√(1 + h²/2νs²)) as a normal deviate, with h = t√(ψD/n) and s = √((ψ - δ²)D/n) for the design effect D and
    Student's t with ν `degrees` of freedom (Johnson and Welch 1940), and never more than for independent entries.
    """
    if not 0 < difference <= discordant <= 1:
        raise ValueError("the difference is above 0 and at most the share of discordant entries, which is at most 1")
    if n < 1:
        raise ValueError(f"{n} entries can show nothing")
    variance = max(discordant - difference**2, _LEAST_VARIANCE)
    flips_needed = critical_value(1 - alpha) * math.sqrt(n * discordant) + 1
    independent = normal_tail((flips_needed - n * difference) / math.sqrt(n * variance))
    if degrees is not None:
        least = student_critical_value(1 - alpha, degrees) * math.sqrt(discordant * design_effect / n)
        spread = math.sqrt(variance * design_effect / n)
        families = normal_tail((least - difference) / math.hypot(spread, least / math.sqrt(2 * degrees)))
        if families < independent - _CLEARLY_LESS:
            return families
        return min(families, power_paired(n, difference, discordant, alpha=alpha))
    if n * discordant > _MOST_SUMMED:
        return independent
    expected, spread = n * discordant, math.sqrt(n * discordant * (1 - discordant))
    share = (discordant + difference) / 2 / discordant
    low, high = max(0, math.floor(expected - 6 * spread - 6)), min(n, math.ceil(expected + 6 * spread + 6))
    low = n if discordant == 1 else low
    found = []
    for flips in range(low, high + 1):
        worst = _most_against(flips, alpha)
        if worst >= 0:
            same = (n - flips) * math.log1p(-discordant) if flips < n else 0.0
            chance = math.exp(log_binomial(n, flips) + flips * math.log(discordant) + same)
            found.append(chance * (binomial_at_most(worst, flips, 1 - share) if share < 1 else 1.0))
    return math.fsum(found)


def least_entries_paired(
    discordant: float,
    difference: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float | None = None,
    design_effect: float = 1.0,
) -> int:
    """Return the least number of pairs that show a difference; with the given power by `power_paired`.

    In families of so many variants, their number less 1 are the degrees of freedom.
    """

    def enough(n: int) -> bool:
        degrees = degrees_of_families(n, family_size)
        found = power_paired(n, abs(difference), discordant, alpha=alpha, design_effect=design_effect, degrees=degrees)
        return found >= power

    return _least(sample_size_paired(discordant, difference, power=power, alpha=alpha).entries, enough)


def least_difference_paired(
    n: int,
    discordant: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float | None = None,
    design_effect: float = 1.0,
) -> float | None:
    """Return the least difference that n pairs show; of which a given share differ; None if none is.

    By `power_paired`, bisected to a millionth.
    """
    degrees = degrees_of_families(n, family_size)

    def shows(difference: float) -> bool:
        found = power_paired(n, difference, discordant, alpha=alpha, design_effect=design_effect, degrees=degrees)
        return found >= power

    low, high = 0.0, discordant
    if not shows(high):
        return None
    while high - low > _FINE_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


def degrees_of_families(n: int, family_size: float | None) -> float | None:
    """Return the degrees of freedom of n entries in families; None where they are independent."""
    return None if family_size is None else max(1.0, n / family_size - 1)


def _least(start: int, enough: Callable[[int], bool]) -> int:
    """Return the least number that is enough, which is not far from `start`; all larger ones are taken to be."""
    low, high = 0, max(start, 1)
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def detectable_paired(
    n: int,
    discordant: float,
    rate: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    design_effect: float = 1.0,
    degrees: float | None = None,
) -> float | None:
    """Return the least true difference that n pairs show with the given power; by `power_paired`; None if none is.

    `discordant` is the share ψ₀ of pairs that differ where nothing does on average, and `rate` that of both targets. A
    difference δ adds flips: ψ = ψ₀ + (1 - 2m)δ, where m is the share of the new successes that the other target had,
    too. If the entries' own rates have a Beta distribution, m is (pφ + 1 - φ)/(2 - φ) for small δ, with
    φ = ψ₀/2p(1 - p), and falls towards p: half-way is taken. The direction is the one towards 50%, which needs more.
    """
    _check_rates(discordant, rate)
    _critical_values(alpha, power)
    p = min(rate, 1 - rate)
    alike = min(1.0, discordant / (2 * p * (1 - p))) if p else 1.0
    shared = (p + (p * alike + 1 - alike) / (2 - alike)) / 2

    def shortfall(difference: float) -> float:
        flips = min(1.0, max(difference, discordant + (1 - 2 * shared) * difference))
        return power - power_paired(n, difference, flips, alpha=alpha, design_effect=design_effect, degrees=degrees)

    low, high = 0.0, 1 - p
    if n < 1 or shortfall(high) > 0:
        return None
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if shortfall(middle) > 0 else (low, middle)
    return high


def detectable_unpaired(
    n: float,
    rate: float,
    way: int = 1,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    degrees: float | None = None,
) -> float | None:
    """Return the least rise or fall of a rate that two samples show; `way` is 1 or -1; None where none is enough.

    It is the difference for which `sample_size_unpaired` asks for n entries by its method "exact" or, with the
    `degrees` of freedom of families, by "pooled".
    """
    _check_rates(rate)
    furthest = 1 - rate if way > 0 else rate

    def excess(difference: float) -> float:
        other = min(max(rate + way * difference, 0.0), 1.0)
        method: Literal["pooled", "exact"] = "exact" if degrees is None else "pooled"
        needed = sample_size_unpaired(rate, other, power=power, alpha=alpha, method=method, degrees=degrees)
        return needed.n / n - 1

    if n <= 0 or furthest < _NO_DIFFERENCE or excess(furthest) > 0:
        return None
    return crossing(excess, _NO_DIFFERENCE, furthest)


@lru_cache(maxsize=65536)
def _most_against(flips: int, alpha: float) -> int:
    """Return how many of so many flips may go the other way for McNemar's exact test to claim; -1 where none may."""
    most = math.floor(flips / 2 - critical_value(1 - alpha) * math.sqrt(flips) / 2)
    while most >= 0 and 2 * binomial_at_most(most, flips, 0.5) >= alpha:
        most -= 1
    while most + 1 < flips / 2 and 2 * binomial_at_most(most + 1, flips, 0.5) < alpha:
        most += 1
    return max(most, -1)


def sample_size_unpaired(
    rate_a: float,
    rate_b: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    method: Literal["pooled", "arcsine", "exact"] = "pooled",
    family_size: float = 1,
    icc: float = 0.0,
    degrees: float | None = None,
) -> SampleSize:
    """Return the entries per target that show that two rates differ; on different entries.

    "pooled": (z_{α/2}√(2p̄q̄) + z_β√(p₁q₁ + p₂q₂))²/(p₁-p₂)² (Fleiss 1981). "arcsine": 2(s/h)² with Cohen's h and s
    from Φ(s - z_{α/2}) + Φ(-s - z_{α/2}) = power (Cohen 1988); the second term, a claim in the wrong direction, hardly
    counts. "exact": for Fisher's exact test, the pooled n times (1 + √(1 + 4/n|p₁-p₂|))²/4 (Fleiss, Tytun and Ury
    1980). With `degrees` of freedom Student's critical value stands for z_{α/2}.
    """
    _check_rates(rate_a, rate_b)
    if rate_a == rate_b:
        raise ValueError("no number of entries can distinguish two equal rates")
    z_alpha, z_beta = _critical_values(alpha, power)
    if degrees is not None:
        z_alpha = student_critical_value(1 - alpha, degrees)
    if method == "arcsine":
        distance = _distance(z_alpha, power)
        return _whole(2 * (distance / cohen_h(rate_a, rate_b)) ** 2, family_size, icc)
    mean = (rate_a + rate_b) / 2
    spread = math.sqrt(rate_a * (1 - rate_a) + rate_b * (1 - rate_b))
    root = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_beta * spread
    n = (root / (rate_a - rate_b)) ** 2
    if method == "exact":
        n *= (1 + math.sqrt(1 + 4 / (n * abs(rate_a - rate_b)))) ** 2 / 4
    return _whole(n, family_size, icc)


def least_entries_unpaired(
    rate_a: float,
    rate_b: float,
    *,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float | None = None,
    design_effect: float = 1.0,
) -> int:
    """Return the least number of entries per target that show a difference; with the given power.

    By Fisher's exact test or, in families, by Student's t, with their number less 1 as the degrees of freedom.
    """
    exact = sample_size_unpaired(rate_a, rate_b, power=power, alpha=alpha, method="exact").entries
    if family_size is None:
        return exact

    def enough(n: int) -> bool:
        degrees = degrees_of_families(n, family_size)
        return sample_size_unpaired(rate_a, rate_b, power=power, alpha=alpha, degrees=degrees).n * design_effect <= n

    return _least(exact, enough)


def minimum_detectable(
    n: float,
    *,
    base: float | None = None,
    discordant: float | None = None,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float = 1,
    icc: float = 0.0,
) -> float | None:
    """Return the least difference that n entries show; with the given power; None where none is large enough.

    With `discordant` = ψ, the targets share their n entries: the δ with δ√n = z_{α/2}√ψ + z_β√(ψ - δ²), at most ψ.
    With `base` = p, each target has its own n entries: the rise δ with
    δ√n = z_{α/2}√(2p(1-p)) + z_β√(p(1-p) + (p+δ)(1-p-δ)), at most 1 - p. Exactly one of the two is given.
    """
    if n <= 0:
        raise ValueError(f"{n} entries can show nothing")
    independent = n / design_effect(family_size, icc)
    z_alpha, z_beta = _critical_values(alpha, power)
    if discordant is not None and base is None:
        return _detectable_paired(independent, discordant, z_alpha, z_beta)
    if base is not None and discordant is None:
        return _detectable_unpaired(independent, base, z_alpha, z_beta)
    raise ValueError(_ONE_OF_TWO)


def sample_size_half_width(
    rate: float,
    half_width: float,
    *,
    level: float = DEFAULT_LEVEL,
    interval: Literal["wilson", "normal"] = "wilson",
    family_size: float = 1,
    icc: float = 0.0,
) -> SampleSize:
    """Return the entries for an interval of the given half-width.

    "normal": z²p(1-p)/h². "wilson": z²/u with u the positive root of (1/4 - h²)u² + (p(1-p) - 2h²)u - h² = 0, which is
    Wilson's half-width solved for n.
    """
    _check_rates(rate)
    z = critical_value(level)
    if not 0 < half_width < 0.5:
        raise ValueError(f"the half-width of an interval for a rate lies between 0 and 0.5, not at {half_width}")
    variance, square = rate * (1 - rate), half_width**2
    if interval == "normal":
        return _whole(z * z * variance / square, family_size, icc)
    linear, leading = variance - 2 * square, 0.25 - square
    inverse = (math.sqrt(linear * linear + 4 * leading * square) - linear) / (2 * leading)
    return _whole(z * z / inverse, family_size, icc)


def sample_size_zero_hits(
    target: float, *, level: float = DEFAULT_LEVEL, family_size: float = 1, icc: float = 0.0
) -> SampleSize:
    """Return the entries without a hit needed to show a rate of at most `target`; by the one-sided upper limit.

    ln(1 - level)/ln(1 - target), about 3/target at 95% (Hanley and Lippman-Hand 1983).
    """
    check_level(level)
    if not 0 < target < 1:
        raise ValueError(f"a rate to stay below lies strictly between 0 and 1, not at {target}")
    return _whole(math.log1p(-level) / math.log1p(-target), family_size, icc)


def sample_size_non_inferiority(
    margin: float,
    *,
    base: float | None = None,
    discordant: float | None = None,
    difference: float = 0.0,
    power: float = DEFAULT_POWER,
    alpha: float = DEFAULT_ALPHA,
    family_size: float = 1,
    icc: float = 0.0,
) -> SampleSize:
    """Return the entries needed to show non-inferiority within the margin; if its rate is `difference` higher.

    With `discordant` = ψ, on the same entries: (z_α + z_β)²(ψ - d²)/(margin - d)² (Lu and Bean 1995). With `base` = p,
    per system on different entries: (z_α + z_β)²(p(1-p) + (p+d)(1-p-d))/(margin - d)². α is one-sided.
    """
    if not difference < margin:
        raise ValueError("a difference that reaches the margin can never be shown to be within it")
    _, z_beta = _critical_values(alpha, power)
    if discordant is not None and base is None:
        _check_rates(discordant)
        if abs(difference) > discordant:
            raise ValueError("the difference is at most the share of discordant entries")
        variance = discordant - difference**2
    elif base is not None and discordant is None:
        _check_rates(base, base + difference)
        variance = base * (1 - base) + (base + difference) * (1 - base - difference)
    else:
        raise ValueError(_ONE_OF_TWO)
    z_alpha = NormalDist().inv_cdf(1 - alpha)
    return _whole(variance * ((z_alpha + z_beta) / (margin - difference)) ** 2, family_size, icc)


def _detectable_paired(n: float, discordant: float, z_alpha: float, z_beta: float) -> float | None:
    """Return δ with (δ√n - z_α√ψ)² = z_β²(ψ - δ²), or None where it exceeds ψ."""
    _check_rates(discordant)
    fixed = z_alpha * math.sqrt(discordant)
    least = _quadratic_root(n + z_beta**2, 2 * fixed * math.sqrt(n), fixed**2 - discordant * z_beta**2, z_beta)
    return least if least is not None and least <= discordant else None


def _detectable_unpaired(n: float, base: float, z_alpha: float, z_beta: float) -> float | None:
    """Return δ with (δ√n - z_α√(2v))² = z_β²(v + (p+δ)(1-p-δ)), v = p(1-p), or None where p + δ exceeds 1."""
    _check_rates(base)
    variance = base * (1 - base)
    fixed = z_alpha * math.sqrt(2 * variance)
    slope = 2 * fixed * math.sqrt(n) + z_beta**2 * (1 - 2 * base)
    least = _quadratic_root(n + z_beta**2, slope, fixed**2 - 2 * variance * z_beta**2, z_beta)
    return least if least is not None and base + least <= 1 else None


def _quadratic_root(square: float, linear: float, constant: float, branch: float) -> float | None:
    """Return the positive root of square·x² - linear·x + constant = 0 on the side that the sign of `branch` chooses."""
    discriminant = linear * linear - 4 * square * constant
    if discriminant < 0:
        return None
    root = (linear + math.copysign(math.sqrt(discriminant), branch)) / (2 * square)
    return root if root > 0 else None


def _distance(z_alpha: float, power: float) -> float:
    """Return how many standard errors from 0 a difference must be for a two-sided test to find it."""

    def shortfall(distance: float) -> float:
        return power - normal_tail(z_alpha - distance) - normal_tail(z_alpha + distance)

    return crossing(shortfall, 0.0, z_alpha + NormalDist().inv_cdf(power) + 1)


def _critical_values(alpha: float, power: float) -> tuple[float, float]:
    """Return the two-sided critical value of α and the one-sided one of the power."""
    if not 0 < alpha < 1:
        raise ValueError(f"the level of a test lies strictly between 0 and 1, not at {alpha}")
    if not alpha < power < 1:
        raise ValueError(f"a power lies between the level of the test, {alpha}, and 1, not at {power}")
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)


def _check_rates(*rates: float) -> None:
    if any(not 0 <= rate <= 1 for rate in rates):
        raise ValueError("a rate lies between 0 and 1")


def _whole(n: float, family_size: float, icc: float) -> SampleSize:
    needed = n * design_effect(family_size, icc)
    return SampleSize(needed, math.ceil(needed - _ROUNDING * max(1.0, needed)))
