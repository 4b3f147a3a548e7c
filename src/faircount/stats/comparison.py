"""Comparing success rates: on the same entries (paired) or on different ones.

A paired comparison rests on four counts: both succeeded, only A did, only B did, neither did. Differences are A - B.
Where there are many tests, their p-values are adjusted: an undefined one (None or NaN) is no test, and stays None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.clusters import correlation_floor, effective_families
from faircount.stats.distributions import (
    binomial_at_most,
    check_level,
    chi_square_tail,
    crossing,
    hypergeometric_two_sided,
    log_binomial,
    student_critical_value,
    two_sided_student,
)
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, clopper_pearson, critical_value, undefined, wilson

_WIDEST_LOG_RATIO = 60.0


class McNemar(Struct, frozen=True):
    """The p-values of McNemar's test: exact, which decides, and mid-p."""

    p: float
    mid_p: float


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """Test whether two targets succeed equally often on the same entries (McNemar 1947); mid-p: Fagerland et al. 2013.

    Exact p = min(1, 2·P(X <= min(b, c))) with X ~ Binomial(b+c, 1/2); mid-p takes P(X = min(b, c)) off once.
    Entries on which both agree say nothing; without any other, p = 1.
    """
    _check_cells(only_a, only_b)
    n, less = only_a + only_b, min(only_a, only_b)
    if n == 0:
        return McNemar(1.0, 1.0)
    doubled = 2 * binomial_at_most(less, n, 0.5)
    point = math.exp(log_binomial(n, less) - n * math.log(2))
    return McNemar(min(1.0, doubled), min(1.0, doubled - point))


def tango_score(only_a: int, only_b: int, n: int, difference: float) -> float:
    """Return Tango's score statistic of the hypothesis that the paired rates differ by `difference` (Tango 1998).

    (b - c - nδ)/√(n(2q + δ(1-δ))) with q = (√(B² - 4AC) - B)/2A, A = 2n, B = -b - c + (2n - b + c)δ, C = -cδ(1-δ).
    At δ = 0 it is McNemar's z.
    """
    _check_pairs(only_a, only_b, n)
    return _tango_at(only_a, only_b, n, difference)


def tango(only_a: int, only_b: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the difference of two rates on the same entries with a score interval (Tango 1998); (b - c)/n.

    The limits are the δ at which `tango_score` equals ±z, so that interval and test agree. Undefined for n = 0.
    """
    _check_pairs(only_a, only_b, n)
    z = critical_value(level)
    if n == 0:
        return undefined(unit, level, "tango")
    value = (only_a - only_b) / n
    low, high = _score_interval(lambda difference: tango_score(only_a, only_b, n, difference), value, z)
    return Estimate(value, low, high, n, unit, level, "tango")


class ClusterDifference(Struct, frozen=True):
    """A paired difference over families; and its design effect.

    `p` tests that there is no difference; it and `standard_error` are None with fewer than two families, and `p` also
    where all pairs differ, in one direction. `design_effect` is the factor by which families widen the variance;
    `effective_n` is how many independent pairs the data are worth.
    """

    estimate: Estimate
    families: int
    standard_error: float | None
    p: float | None
    design_effect: float | None
    effective_n: float | None
    degrees: float | None = None
    """Degrees of freedom of the critical value and of p, which need not be whole."""


def cluster_tango(
    only_a: Sequence[int],
    only_b: Sequence[int],
    sizes: Sequence[int],
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> ClusterDifference:
    """Estimate a paired difference with Tango's interval on the effective sample size.

    As Korn and Graubard (1998) do for one rate: with d_g = b_g - c_g of the m_g pairs of a family, n = Σm_g,
    δ = Σd_g/n, ψ the share of pairs that differ and the CR1 standard error SE = √(G/(G-1)·Σ(d_g - δ·m_g)²)/n, the
    design effect is the largest of SE²/((ψ - δ²)/n), of 1 and of the mean of the two `correlation_floor`, of b and of
    c, weighted by b + ½ and c + ½. The counts are scaled to n/design effect. The critical value is Student's for the
    effective number of families (Σm)²/Σm² (Kish 1965) less 1; p is that of δ over the standard error with the same
    design effect, by the same distribution. The upper limit is never below the one without any b, and the lower never
    above the one without any c. One family gives a value and no interval.
    """
    check_level(level)
    families = _paired_families(only_a, only_b, sizes)
    count, n = len(families), sum(m for _, _, m in families)
    if n == 0:
        return ClusterDifference(undefined(unit, level, "cluster tango"), 0, None, None, None, None)
    b, c = sum(family[0] for family in families), sum(family[1] for family in families)
    value = (b - c) / n
    if count < 2:
        lonely = Estimate(value, None, None, n, unit, level, "cluster tango")
        return ClusterDifference(lonely, count, None, None, None, None)
    degrees = max(1.0, effective_families([m for _, _, m in families]) - 1)
    critical = student_critical_value(level, degrees)
    error, design = _paired_design(families)
    low, high = _scaled_tango(b, c, n, design, critical)
    if b:
        kept = [(0, y, m) for _, y, m in families]
        high = max(high, _scaled_tango(0, c, n, _paired_design(kept)[1], critical)[1])
    if c:
        kept = [(x, 0, m) for x, _, m in families]
        low = min(low, _scaled_tango(b, 0, n, _paired_design(kept)[1], critical)[0])
    deviation = math.sqrt(design * ((b + c) / n - value * value) / n)
    if not deviation:
        p = 1.0 if b == c else None
    else:
        p = two_sided_student(value / deviation, degrees)
    estimate = Estimate(value, low, high, n, unit, level, "cluster tango")
    return ClusterDifference(estimate, count, error, p, design, n / design, degrees)


def _paired_design(families: Sequence[tuple[int, int, int]]) -> tuple[float, float]:
    """Return the CR1 standard error of a paired difference, and its design effect with the floor."""
    count, n = len(families), sum(m for _, _, m in families)
    b, c = sum(family[0] for family in families), sum(family[1] for family in families)
    # Over a common denominator the deviations are whole numbers: families that all agree give exactly 0.
    squares = sum(((x - y) * n - (b - c) * m) ** 2 for x, y, m in families)
    error = math.sqrt(count / (count - 1) * squares) / n**2
    variance = ((b + c) * n - (b - c) ** 2) / n**2
    seen = error**2 / (variance / n) if variance > 0 else 1.0
    sizes = [m for _, _, m in families]
    floors = [correlation_floor([family[side] for family in families], sizes) for side in (0, 1)]
    floor = ((b + 0.5) * floors[0] + (c + 0.5) * floors[1]) / (b + c + 1)
    return error, max(seen, floor, 1.0)


def _scaled_tango(b: int, c: int, n: int, design: float, critical: float) -> tuple[float, float]:
    return _score_interval(
        lambda difference: _tango_at(b / design, c / design, n / design, difference), (b - c) / n, critical
    )


def newcombe_paired(
    both: int, only_a: int, only_b: int, neither: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the difference of two rates on the same entries with the paired hybrid (Newcombe 1998, method 10).

    The distances of Wilson's limits are combined as √(x² - 2φxy + y²); φ is the correlation of the 2x2 table, with n/2
    taken off a positive numerator. Undefined without an entry.
    """
    _check_cells(both, only_a, only_b, neither)
    n = both + only_a + only_b + neither
    a, b = wilson(both + only_a, n, level=level), wilson(both + only_b, n, level=level)
    surplus = float(both * neither - only_a * only_b)
    if surplus > 0:
        surplus = max(surplus - n / 2, 0.0)
    margins = (both + only_a) * (both + only_b) * (only_a + neither) * (only_b + neither)
    correlation = surplus / math.sqrt(margins) if margins else 0.0
    return _hybrid(a, b, correlation, n, unit, level, "newcombe paired")


def conditional_odds_ratio(only_a: int, only_b: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the odds ratio b/c of two targets on the same entries; given the b + c entries that differ.

    The limits are those of Clopper and Pearson for b/(b+c), as odds (Breslow and Day 1980, section 5.2). A value or an
    upper limit of None has no finite size: c = 0.
    """
    _check_cells(only_a, only_b)
    n = only_a + only_b
    share = clopper_pearson(only_a, n, level=level)
    low = _odds(share.low) if share.low is not None else 0.0
    high = _odds(share.high) if share.high is not None else None
    return Estimate(only_a / only_b if only_b else None, low, high, n, unit, level, "conditional, clopper-pearson")


class CochranQ(Struct, frozen=True):
    """The result of Cochran's test; statistic and p are None where every entry gave the same result on all targets."""

    statistic: float | None
    degrees_of_freedom: int
    p: float | None
    rates: tuple[float, ...]


def cochran_q(targets: Sequence[Sequence[bool | int]]) -> CochranQ:
    """Test whether several targets succeed equally often on the same entries (Cochran 1950).

    `targets` has a row per target and a column per entry. Q = (t-1)(t·ΣC² - N²)/(t·N - ΣR²) with C the successes of a
    target, R of an entry and N of all; χ² with t-1 degrees of freedom.
    """
    if len(targets) < 2 or len({len(target) for target in targets}) > 1 or not targets[0]:
        raise ValueError("Cochran's Q compares at least two targets on the same entries")
    if any(result not in (0, 1) for target in targets for result in target):
        raise ValueError("a result of Cochran's Q is a success or a failure")
    count = len(targets)
    by_target = [sum(map(bool, target)) for target in targets]
    by_entry = [sum(map(bool, entry)) for entry in zip(*targets, strict=True)]
    total = sum(by_target)
    rates = tuple(successes / len(by_entry) for successes in by_target)
    spread = count * total - sum(r * r for r in by_entry)
    if spread == 0:
        return CochranQ(None, count - 1, None, rates)
    statistic = (count - 1) * (count * sum(c * c for c in by_target) - total * total) / spread
    return CochranQ(statistic, count - 1, chi_square_tail(statistic, count - 1), rates)


def newcombe(
    successes_a: int, n_a: int, successes_b: int, n_b: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the difference of two independent rates with the hybrid score interval (Newcombe 1998, method 10).

    The distances of Wilson's limits are combined as √(x² + y²). Undefined where a side has no entry.
    """
    a, b = wilson(successes_a, n_a, level=level), wilson(successes_b, n_b, level=level)
    return difference_of_rates(a, b, unit=unit)


def miettinen_nurminen(
    successes_a: int, n_a: int, successes_b: int, n_b: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the difference of two independent rates with a score interval (Miettinen and Nurminen 1985).

    The limits are the δ at which `farrington_manning_score`, its variance times N/(N-1), equals ±z. Undefined where a
    side has no entry.
    """
    z = critical_value(level)
    inflation = math.sqrt((n_a + n_b) / (n_a + n_b - 1)) if n_a + n_b > 1 else 1.0
    return _unpaired(successes_a, n_a, successes_b, n_b, z * inflation, unit, level, "miettinen-nurminen")


def farrington_manning(
    successes_a: int, n_a: int, successes_b: int, n_b: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the difference of two independent rates by inverting `farrington_manning_score` (Mee 1984).

    As `miettinen_nurminen` without its factor; the interval that agrees with the test of non-inferiority.
    """
    return _unpaired(successes_a, n_a, successes_b, n_b, critical_value(level), unit, level, "farrington-manning")


def farrington_manning_score(successes_a: int, n_a: int, successes_b: int, n_b: int, difference: float) -> float:
    """Return the score statistic of the hypothesis p_A - p_B = δ (Farrington and Manning 1990).

    (p̂_A - p̂_B - δ)/√(p̃_A(1-p̃_A)/n_A + p̃_B(1-p̃_B)/n_B), where p̃ are the most likely rates that differ by δ.
    """
    check_counts(successes_a, n_a)
    check_counts(successes_b, n_b)
    a, b = restricted_rates(successes_a, n_a, successes_b, n_b, difference)
    return _standardized(successes_a / n_a - successes_b / n_b - difference, a * (1 - a) / n_a + b * (1 - b) / n_b)


def restricted_rates(successes_a: int, n_a: int, successes_b: int, n_b: int, difference: float) -> tuple[float, float]:
    """Return the most likely rates of two independent samples that differ by δ (Miettinen and Nurminen 1985).

    p̃_B solves L₃p³ + L₂p² + L₁p + L₀ = 0 with L₃ = N, L₂ = (n_A + 2n_B)δ - N - x, L₁ = (n_Bδ - N - 2x_B)δ + x,
    L₀ = x_Bδ(1-δ), N and x the sums of sizes and successes; the root is 2u·cos w - L₂/3L₃ with w in [π/3, 2π/3].
    """
    n, x = n_a + n_b, successes_a + successes_b
    square = (n_a + 2 * n_b) * difference - n - x
    linear = (n_b * difference - n - 2 * successes_b) * difference + x
    constant = successes_b * difference * (1 - difference)
    third = square / (3 * n)
    v = third**3 - square * linear / (6 * n * n) + constant / (2 * n)
    u = math.copysign(math.sqrt(max(third * third - linear / (3 * n), 0.0)), v)
    angle = (math.pi + math.acos(min(max(v / u**3, -1.0), 1.0))) / 3 if u else math.pi / 2
    b = min(max(2 * u * math.cos(angle) - third, 0.0, -difference), 1.0, 1.0 - difference)
    return min(max(b + difference, 0.0), 1.0), b


def fisher_exact(successes_a: int, n_a: int, successes_b: int, n_b: int) -> float:
    """Return the two-sided p-value of Fisher's exact test (Fisher 1935).

    The sum of the probabilities of all tables with these margins that are at most as likely as the observed one.
    """
    check_counts(successes_a, n_a)
    check_counts(successes_b, n_b)
    return hypergeometric_two_sided(successes_a, n_a, successes_a + successes_b, n_a + n_b)


def cohen_h(rate_a: float, rate_b: float) -> float:
    """Return the effect size h of two rates (Cohen 1988, chapter 6); 2·arcsin √p_A - 2·arcsin √p_B."""
    if not (0 <= rate_a <= 1 and 0 <= rate_b <= 1):
        raise ValueError("a rate lies between 0 and 1")
    return 2 * math.asin(math.sqrt(rate_a)) - 2 * math.asin(math.sqrt(rate_b))


def risk_ratio(
    successes_a: int, n_a: int, successes_b: int, n_b: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the ratio of two independent rates with a score interval (Miettinen and Nurminen 1985).

    The limits are the φ at which (p̂_A - φp̂_B)/√((p̃_A(1-p̃_A)/n_A + φ²p̃_B(1-p̃_B)/n_B)·N/(N-1)) equals ±z, where p̃ are
    the most likely rates with p̃_A = φp̃_B. A value or upper limit of None has no finite size: B has no success.
    """
    check_counts(successes_a, n_a)
    check_counts(successes_b, n_b)
    z = critical_value(level)
    n = n_a + n_b
    if not n_a or not n_b:
        return undefined(unit, level, "miettinen-nurminen ratio", n)
    inflation = n / (n - 1)

    def score(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        linear = ratio * (n_a + successes_b) + successes_a + n_b
        root = math.sqrt(max(linear * linear - 4 * n * ratio * (successes_a + successes_b), 0.0))
        # The lesser root of n·φ·p² - linear·p + x = 0, in the form that does not cancel.
        b = min(2 * (successes_a + successes_b) / (linear + root), 1.0)
        a = min(ratio * b, 1.0)
        # Divided by the larger of 1 and φ, lest φ² overflow.
        scale = max(ratio, 1.0)
        variance = (a * (1 - a) / n_a / scale + ratio * b * (1 - b) / n_b * (ratio / scale)) / scale
        return _standardized((successes_a / n_a - ratio * successes_b / n_b) / scale, variance * inflation)

    value = (successes_a / n_a) / (successes_b / n_b) if successes_b else None
    ends = -_WIDEST_LOG_RATIO, _WIDEST_LOG_RATIO
    low = math.exp(crossing(lambda x: score(x) - z, *ends)) if successes_a else 0.0
    high = math.exp(crossing(lambda x: score(x) + z, *ends)) if successes_b else None
    return Estimate(value, low, high, n, unit, level, "miettinen-nurminen ratio")


def _check_cells(*cells: int) -> None:
    if any(cell < 0 or cell != int(cell) for cell in cells):
        raise ValueError("a table of counts has whole numbers, none of them negative")


def _check_pairs(only_a: int, only_b: int, n: int) -> None:
    if type(only_a) is type(only_b) is type(n) is int and only_a >= 0 <= only_b and only_a + only_b <= n:
        return  # as nearly always; there may be a hundred thousand families
    _check_cells(only_a, only_b, n)
    if only_a + only_b > n:
        raise ValueError(f"{only_a} + {only_b} entries cannot differ where there are {n}")


def _paired_families(only_a: Sequence[int], only_b: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the families that have a pair, each with its counts."""
    if not len(only_a) == len(only_b) == len(sizes):
        raise ValueError("every family needs one count of each kind")
    for b, c, m in zip(only_a, only_b, sizes, strict=True):
        _check_pairs(b, c, m)
    return [(b, c, m) for b, c, m in zip(only_a, only_b, sizes, strict=True) if m]


def _tango_at(only_a: float, only_b: float, n: float, difference: float) -> float:
    """Return `tango_score`, of counts that need not be whole."""
    a = 2 * n
    b = -only_a - only_b + (2 * n - only_a + only_b) * difference
    c = -only_b * difference * (1 - difference)
    q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    return _standardized(only_a - only_b - n * difference, n * (2 * q + difference * (1 - difference)))


def _standardized(distance: float, variance: float) -> float:
    """Return distance/√variance; a hypothesis without variance is certain, and 0 at no distance."""
    if variance > 0:
        return distance / math.sqrt(variance)
    return math.copysign(math.inf, distance) if distance else 0.0


def _score_interval(score: Callable[[float], float], value: float, z: float) -> tuple[float, float]:
    """Return where a score that falls with the difference, and is 0 at `value`, equals +z and -z."""
    low = crossing(lambda difference: score(difference) - z, -1.0, value) if value > -1 else -1.0
    high = crossing(lambda difference: score(difference) + z, value, 1.0) if value < 1 else 1.0
    return low, high


def _unpaired(
    successes_a: int, n_a: int, successes_b: int, n_b: int, z: float, unit: str, level: float, method: str
) -> Estimate:
    check_counts(successes_a, n_a)
    check_counts(successes_b, n_b)
    if not n_a or not n_b:
        return undefined(unit, level, method, n_a + n_b)
    value = successes_a / n_a - successes_b / n_b
    low, high = _score_interval(
        lambda difference: farrington_manning_score(successes_a, n_a, successes_b, n_b, difference), value, z
    )
    return Estimate(value, low, high, n_a + n_b, unit, level, method)


def difference_of_rates(a: Estimate, b: Estimate, *, unit: str = "entry", method: str = "newcombe") -> Estimate:
    """Combine the intervals of two independent rates into one of their difference (Newcombe 1998).

    δ - √((a-l_a)² + (u_b-b)²) and δ + √((u_a-a)² + (b-l_b)²): the limits may be of any kind (Zou and Donner 2008).
    """
    return _hybrid(a, b, 0.0, a.n + b.n, unit, a.level, method)


def _hybrid(a: Estimate, b: Estimate, correlation: float, n: int, unit: str, level: float, method: str) -> Estimate:
    """Combine two Wilson intervals into one for the difference."""
    if a.value is None or a.low is None or a.high is None or b.value is None or b.low is None or b.high is None:
        return undefined(unit, level, method, n)
    value = a.value - b.value
    below = _combined(a.value - a.low, b.high - b.value, correlation)
    above = _combined(a.high - a.value, b.value - b.low, correlation)
    return Estimate(value, value - below, value + above, n, unit, level, method)


def _combined(x: float, y: float, correlation: float) -> float:
    return math.sqrt(max(x * x - 2 * correlation * x * y + y * y, 0.0))


def _odds(share: float) -> float | None:
    return share / (1 - share) if share < 1 else None


def shown_sign(difference: Estimate | None, p: float | None, alpha: float) -> int:
    """Return the sign of a difference if interval and p-value agree; adjusted or not; else 0."""
    if difference is None or difference.low is None or difference.high is None or p is None or p >= alpha:
        return 0
    return 1 if difference.low > 0 else -1 if difference.high < 0 else 0


# -- many tests at once -------------------------------------------------------------------------------------------

PValues = Sequence[float | None]
Adjusted = tuple[float | None, ...]


def bonferroni(p_values: PValues) -> Adjusted:
    """Return min(1, m·p) for each of m tests (Dunn 1961); the chance of any false claim stays below the level."""
    return _adjusted(p_values, lambda ordered: [min(1.0, len(ordered) * p) for p in ordered])


def bonferroni_level(level: float, intervals: int) -> float:
    """Return the level at which m intervals hold together (Dunn 1961); 1 - (1 - level)/m."""
    return 1 - (1 - level) / max(1, intervals)


def holm(p_values: PValues) -> Adjusted:
    """Adjust p-values by Holm's step-down method (Holm 1979); the guarantee of Bonferroni's, never weaker.

    In rising order, max over j <= i of min(1, (m-j+1)·p_(j)).
    """
    return _adjusted(p_values, _step_down)


def benjamini_hochberg(p_values: PValues) -> Adjusted:
    """Adjust p-values to bound the expected share of false claims (Benjamini and Hochberg 1995).

    In rising order, min over j >= i of min(1, m·p_(j)/j).
    """
    return _adjusted(p_values, lambda ordered: _step_up(ordered, 1.0))


def benjamini_yekutieli(p_values: PValues) -> Adjusted:
    """Adjust p-values for the same, under any dependence (Benjamini and Yekutieli 2001)."""
    return _adjusted(p_values, lambda ordered: _step_up(ordered, math.fsum(1 / j for j in range(1, len(ordered) + 1))))


def _step_down(ordered: list[float]) -> list[float]:
    adjusted, largest = [], 0.0
    for rank, p in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        adjusted.append(largest)
    return adjusted


def _step_up(ordered: list[float], penalty: float) -> list[float]:
    adjusted, smallest = [], 1.0
    for rank in range(len(ordered), 0, -1):
        smallest = min(smallest, penalty * len(ordered) * ordered[rank - 1] / rank)
        adjusted.append(smallest)
    return adjusted[::-1]


def _adjusted(p_values: PValues, adjust: Callable[[list[float]], list[float]]) -> Adjusted:
    """Apply an adjustment of rising p-values and put each back in its place."""
    tests = [(p, place) for place, p in enumerate(p_values) if p is not None and not math.isnan(p)]
    if any(not 0 <= p <= 1 for p, _ in tests):
        raise ValueError("a p-value lies between 0 and 1")
    tests.sort()
    result: list[float | None] = [None] * len(p_values)
    for (_, place), p in zip(tests, adjust([p for p, _ in tests]), strict=True):
        result[place] = p
    return tuple(result)
