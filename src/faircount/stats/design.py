"""How entries hang together, which decides the interval of every rate and difference of them.

Everything that is a rate of entries asks a `Design`, so that one number has one interval wherever it stands: in an
analysis and in a comparison, of a file alone and among others, of a group, or as one minus the rate of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import astuple, replace

from faircount.core.model import AgainstRest, Estimate
from faircount.stats.clusters import ClusterEstimate, cluster_wilson
from faircount.stats.comparison import (
    ClusterDifference,
    cluster_tango,
    difference_of_rates,
    fisher_exact,
    mcnemar,
    newcombe,
    tango,
)
from faircount.stats.distributions import chi_square_tail, log_binomial, student_critical_value
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, wilson

_BISECTIONS = 40

# Mantel and Fleiss's criterion for the chi-square of strata.
_LEAST_EXPECTED = 5.0
# The exact test sums up to here from the nearer end; with fewer than five expected, what lies farther has no mass.
_MOST_KEPT = 201
_FARTHEST = 200
_TIES = 1e-7


class Stratum(Struct, frozen=True):
    """Counts of one group, and of the whole stratum that it is in.

    `times` says how many such strata there are. A stratum is a family or, if `alone`, all units that are in none.
    """

    inside: int
    won: int
    total: int
    successes: int
    times: int = 1
    alone: bool | int = False


class Strata(Struct, frozen=True):
    """Sums over strata that compare one group with the rest.

    With N units and t successes in a stratum, of which the group has n₁ and a: `deviation` is Σ(a - n₁t/N), `weight`
    Σn₁(N-n₁)/N and `variance` Σn₁(N-n₁)t(N-t)/(N²(N-1)). `to_least` and `to_most` are how far the successes that are
    expected of the group lie from the fewest and the most that it can have. `families` have the group and others; in
    `above` of them its rate is the higher one, in `below` the lower.
    """

    deviation: float
    weight: float
    variance: float
    to_least: float
    to_most: float
    families: int
    above: int
    below: int


class Design(Struct, frozen=True):
    """How entries depend on each other (independent, or in families); and the level of intervals.

    Counts are given for each family, with `times` for how many families have them. Where no family has two units each
    counts for itself. Units of a single family describe only its variants: within it they are
    independent. Groups are compared inside families, which are their strata.
    """

    families: bool = False
    level: float = DEFAULT_LEVEL

    def respects(self, sizes: Sequence[int], times: Sequence[int] | None = None) -> bool:
        """Return whether families of these sizes make a difference."""
        if not self.families or not sizes or max(sizes) < 2:
            return False
        if times is None:
            return len(sizes) - sizes.count(0) > 1
        return sum(many for size, many in zip(sizes, times, strict=True) if size) > 1

    def rate(
        self,
        successes: Sequence[int],
        sizes: Sequence[int],
        *,
        times: Sequence[int] | None = None,
        unit: str = "entry",
    ) -> ClusterEstimate:
        """Estimate a rate: by `cluster_wilson` over families, else by `wilson`, with a design effect of 1."""
        if self.respects(sizes, times):
            return cluster_wilson(successes, sizes, times=times, unit=unit, level=self.level)
        counted = [1] * len(sizes) if times is None else times
        won, n = (sum(many * of for many, of in zip(counted, column, strict=True)) for column in (successes, sizes))
        plain = wilson(won, n, unit=unit, level=self.level)
        return ClusterEstimate(plain, 0, None, 1.0 if n else None, float(n) if n else None, plain.value)

    def paired(
        self, only_a: Sequence[int], only_b: Sequence[int], sizes: Sequence[int], *, unit: str = "entry"
    ) -> ClusterDifference:
        """Estimate the difference of two rates on the same entries, with one p-value.

        Independent entries have Tango's interval and McNemar's exact p. Over families it is `cluster_tango`'s, and p is
        the larger of the two: of few flips the exact test makes less, and they are independent at best.
        """
        b, c, n = sum(only_a), sum(only_b), sum(sizes)
        exact = mcnemar(b, c).p if n else None
        if self.respects(sizes):
            found = cluster_tango(only_a, only_b, sizes, unit=unit, level=self.level)
            p = None if found.p is None or exact is None else max(found.p, exact)
            return replace(found, p=p)
        plain = tango(b, c, n, unit=unit, level=self.level)
        return ClusterDifference(plain, 0, None, exact, 1.0 if n else None, float(n) if n else None)

    def unpaired(
        self,
        a: tuple[Sequence[int], Sequence[int]],
        b: tuple[Sequence[int], Sequence[int]],
        *,
        unit: str = "entry",
    ) -> ClusterDifference:
        """Estimate the difference a - b of two rates on different entries, each given by successes and sizes.

        Independent entries have Newcombe's interval and Fisher's exact p. Over families the intervals of both rates are
        combined in the same way (Zou and Donner 2008), and p is the smallest 1 - level whose interval leaves out 0.
        `effective_n` is the harmonic mean of both rates' own: two samples are worth two of that size.
        """
        (won_a, sizes_a), (won_b, sizes_b) = a, b
        totals = sum(won_a), sum(sizes_a), sum(won_b), sum(sizes_b)
        worth = [n for n in (self.rate(*counts).effective_n for counts in (a, b)) if n]
        effective_n = 2 / sum(1 / n for n in worth) if len(worth) == 2 else None
        if not (self.respects(sizes_a) or self.respects(sizes_b)):
            p = fisher_exact(*totals) if totals[1] and totals[3] else None
            return ClusterDifference(newcombe(*totals, unit=unit, level=self.level), 0, None, p, None, effective_n)

        def difference(level: float) -> Estimate:
            design = Design(self.families, level)
            first, second = (design.rate(*counts).estimate for counts in (a, b))
            return difference_of_rates(first, second, unit=unit, method="newcombe, families")

        found = difference(self.level)
        count = sum(size > 0 for size in (*sizes_a, *sizes_b))
        p = _p_of(difference) if found.low is not None else None
        return ClusterDifference(found, count, None, p, None, effective_n)


def widening(found: ClusterEstimate) -> float:
    """Return the factor by which families widen the variance of a rate; of `Design.rate`, at least 1.

    That a few families show little of how families differ is in it, by Student's critical value in place of the normal.
    """
    if found.families < 2:
        return 1.0
    return few_families(found.families, found.estimate.level) * max(1.0, found.design_effect or 1.0)


def few_families(count: int, level: float) -> float:
    """Return (t/z)², by which Student's critical value in place of the normal one widens a variance."""
    return (student_critical_value(level, count - 1) / critical_value(level)) ** 2


def _p_of(difference: Callable[[float], Estimate]) -> float:
    """Return the smallest 1 - level at which an interval leaves out 0, by bisection of its logarithm."""
    low, high = math.log(1e-12), 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = difference(1 - math.exp(middle))
        assert found.low is not None and found.high is not None
        low, high = (low, middle) if found.low > 0 or found.high < 0 else (middle, high)
    return math.exp(high)


def sum_strata(strata: Sequence[Stratum]) -> Strata:
    """Return the sums over strata; those without the group, or without others, are skipped."""
    compared = [s for s in strata if 0 < s.inside < s.total]
    means = [(s, s.inside * s.successes / s.total) for s in compared]
    spreads = [(s, s.inside * (s.total - s.inside) / s.total) for s in compared]
    families = [s for s in compared if not s.alone]
    return Strata(
        math.fsum(s.times * (s.won - mean) for s, mean in means),
        math.fsum(s.times * spread for s, spread in spreads),
        math.fsum(
            s.times * spread * s.successes * (s.total - s.successes) / (s.total * (s.total - 1))
            for s, spread in spreads
        ),
        math.fsum(s.times * (mean - max(0, s.successes - (s.total - s.inside))) for s, mean in means),
        math.fsum(s.times * (min(s.inside, s.successes) - mean) for s, mean in means),
        sum(s.times for s in families),
        sum(s.times for s in families if s.won * s.total > s.inside * s.successes),
        sum(s.times for s in families if s.won * s.total < s.inside * s.successes),
    )


def inside_strata(sums: Strata, strata: Callable[[], Sequence[Stratum]]) -> AgainstRest:
    """Test a group against the rest inside strata (Mantel and Haenszel 1959).

    The difference of the rates is deviation/weight (Greenland and Robins 1985), and (|deviation| - ½)²/variance a
    chi-square with one degree of freedom. Where the successes that are expected lie within five of the fewest or the
    most, that is rough (Mantel and Fleiss 1980): then `strata` is called, and p is `exact_p_of_strata`. Where no
    stratum has the group and others, and successes and failures, there is no p.
    """
    p = None
    if sums.variance:
        is_rough = min(sums.to_least, sums.to_most) < _LEAST_EXPECTED
        p = exact_p_of_strata(strata()) if is_rough else None
        p = chi_square_tail(max(abs(sums.deviation) - 0.5, 0.0) ** 2 / sums.variance, 1) if p is None else p
    difference = sums.deviation / sums.weight if sums.weight else None
    return AgainstRest(difference, p, families=sums.families, above=sums.above, below=sums.below)


def exact_p_of_strata(strata: Sequence[Stratum]) -> float | None:
    """Return the exact conditional p-value of a group against the rest within strata (Gart 1970); Fisher's for one.

    Given the margins, the group's successes are a sum of hypergeometric numbers. p is the mass of all sums that are
    no likelier than the one seen. None where the sum lies too far from both ends to be added up.
    """
    # In order, so that rounding does not depend on who counted.
    compared = sorted((s for s in strata if 0 < s.inside < s.total), key=astuple)
    fewest = [max(0, s.successes - (s.total - s.inside)) for s in compared]
    most = [min(s.inside, s.successes) for s in compared]
    seen = sum(s.times * (s.won - least) for s, least in zip(compared, fewest, strict=True))
    up_to = sum(s.times * (top - least) for s, least, top in zip(compared, fewest, most, strict=True))
    # Counted from the nearer end, where nearly all of the mass lies.
    mirrored = up_to - seen < seen
    seen = min(seen, up_to - seen)
    if seen > _FARTHEST:
        return None
    masses = [1.0]
    for s, least, top in zip(compared, fewest, most, strict=True):
        step, first = (-1, top) if mirrored else (1, least)
        one = [_hypergeometric(s, first + step * place) for place in range(min(top - least + 1, _MOST_KEPT))]
        for _ in range(s.times):
            masses = _convolved(masses, one)
    return min(1.0, math.fsum(mass for mass in masses if mass <= masses[seen] * (1 + _TIES)))


def _hypergeometric(s: Stratum, won: int) -> float:
    """Return how likely so many successes of the group are, given the margins of its stratum."""
    ways = log_binomial(s.inside, won) + log_binomial(s.total - s.inside, s.successes - won)
    return math.exp(ways - log_binomial(s.total, s.successes))


def _convolved(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the masses of a sum of two numbers, without the far end, where there is none to speak of."""
    found = [0.0] * min(len(one) + len(other) - 1, _MOST_KEPT)
    for place, mass in enumerate(one):
        for shift, factor in enumerate(other[: len(found) - place]):
            found[place + shift] += mass * factor
    return found
