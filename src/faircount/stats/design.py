"""How entries hang together, which decides the interval of every rate and difference of them.

Everything that is a rate of entries asks a `Design`, so that one number has one interval wherever it stands: in an
analysis and in a comparison, of a file alone and among others, of a group, or as one minus the rate of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount.model import Estimate
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
from faircount.stats.distributions import chi_square_tail, student_critical_value
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, wilson

_BISECTIONS = 40


class Stratum(Struct, frozen=True):
    """One group among the units of a stratum: its units and successes, and those of the whole stratum.

    `times` says how many such strata there are.
    """

    inside: int
    won: int
    total: int
    successes: int
    times: int = 1


class Design(Struct, frozen=True):
    """Entries that are independent or, with `families`, variants that come in families; and the level of intervals.

    Counts are given for each family, with `times` for how many families have them. Where no family has two units each
    counts for itself. Units of a single family tell of its variants and of nothing else: within it they are
    independent. Groups are compared inside families, which are their strata.
    """

    families: bool = False
    level: float = DEFAULT_LEVEL

    def respects(self, sizes: Sequence[int], times: Sequence[int] | None = None) -> bool:
        """Return whether families of these sizes make a difference."""
        counted = [1] * len(sizes) if times is None else times
        count = sum(many for size, many in zip(sizes, counted, strict=True) if size)
        return self.families and count > 1 and any(size > 1 for size in sizes)

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
        """
        (won_a, sizes_a), (won_b, sizes_b) = a, b
        totals = sum(won_a), sum(sizes_a), sum(won_b), sum(sizes_b)
        if not (self.respects(sizes_a) or self.respects(sizes_b)):
            p = fisher_exact(*totals) if totals[1] and totals[3] else None
            return ClusterDifference(newcombe(*totals, unit=unit, level=self.level), 0, None, p, None, None)

        def difference(level: float) -> Estimate:
            design = Design(self.families, level)
            first, second = (design.rate(*counts).estimate for counts in (a, b))
            return difference_of_rates(first, second, unit=unit, method="newcombe, families")

        found = difference(self.level)
        count = sum(size > 0 for size in (*sizes_a, *sizes_b))
        return ClusterDifference(found, count, None, _p_of(difference) if found.low is not None else None, None, None)


def widening(found: ClusterEstimate) -> float:
    """Return the factor by which families widen the variance of a rate of `Design.rate`, at least 1.

    That a few families show little of how families differ is in it, by Student's critical value in place of the normal.
    """
    if found.families < 2:
        return 1.0
    level = found.estimate.level
    few = student_critical_value(level, found.families - 1) / critical_value(level)
    return few**2 * max(1.0, found.design_effect or 1.0)


def _p_of(difference: Callable[[float], Estimate]) -> float:
    """Return the smallest 1 - level at which an interval leaves out 0, by bisection of its logarithm."""
    low, high = math.log(1e-12), 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = difference(1 - math.exp(middle))
        assert found.low is not None and found.high is not None
        low, high = (low, middle) if found.low > 0 or found.high < 0 else (middle, high)
    return math.exp(high)


def mantel_haenszel(strata: Sequence[Stratum]) -> tuple[float, float | None]:
    """Test one group against the rest within strata (Mantel and Haenszel 1959): the deviation summed up, and p.

    Σ(a - n₁t/N) over strata with N units and t successes, of which a in the n₁ of the group, and
    (|Σ| - ½)²/Σ n₁(N-n₁)t(N-t)/(N²(N-1)) as a chi-square with one degree of freedom. p is None where no stratum has the
    group and others, and successes and failures: then nothing can be told.
    """
    deviation = math.fsum(s.times * (s.won - s.inside * s.successes / s.total) for s in strata if s.total)
    variance = math.fsum(
        s.times * s.inside * (s.total - s.inside) * s.successes * (s.total - s.successes) / (s.total**2 * (s.total - 1))
        for s in strata
        if s.total > 1
    )
    if not variance:
        return deviation, None
    return deviation, chi_square_tail(max(abs(deviation) - 0.5, 0.0) ** 2 / variance, 1)
