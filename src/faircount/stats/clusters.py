"""Rates over families: variants of one instruction are not independent tests.

A family is given by its number of successes and its size; families without a unit are passed over. Nothing but those
two numbers enters any formula here, so that families which agree in both are counted once.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.distributions import check_level, student_critical_value, two_sided_student
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, score_limits, undefined

DEFAULT_REPLICATES = 10_000
DEFAULT_SEED = 42

# A quantile of an enumerated distribution is the least value with that mass; sums of probabilities end a rounding error
# beside it.
_ROUNDING = 1e-12
_DRAWS_AT_ONCE = 4_000_000

Families = Counter[tuple[int, int]]


class ClusterEstimate(Struct, frozen=True):
    """A rate over families; and its design effect.

    `effective_n` is how many independent units the data are worth, `design_effect` the factor by which families widen
    the variance. `standard_error` is the cluster-robust one (CR1), without the floor under the design effect; with one
    family it is None, and so are those two. `macro_rate` answers another question: the mean over families, each counted
    once.
    """

    estimate: Estimate
    families: int
    standard_error: float | None
    design_effect: float | None
    effective_n: float | None
    macro_rate: float | None


def cluster_wilson(
    successes: Sequence[int],
    sizes: Sequence[int],
    *,
    times: Sequence[int] | None = None,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> ClusterEstimate:
    """Estimate a rate with Wilson's interval on the effective sample size (Korn and Graubard 1998).

    With G families of m_g units and s_g successes, n = Σm_g, p = Σs_g/n and the CR1 standard error
    SE = √(G/(G-1)·Σ(s_g - p·m_g)²)/n, the design effect is the largest of SE²/(p(1-p)/n), of `correlation_floor` and
    of 1; effective n = n/design effect, and the critical value is Student's with G-1 degrees of freedom. Where few
    families succeed, SE cannot see how alike variants are (one success gives a design effect of 1 whatever the truth),
    and the floor is used instead. The upper limit is never below the one that the same families have without any
    success, and the lower never above the one without any failure. One family gives a value and no interval, no unit
    at all an undefined one. `times` is the number of families of each kind (1).
    """
    families = _families(successes, sizes, times)
    check_level(level)
    count, total, n = _totals(families)
    if n == 0:
        return ClusterEstimate(undefined(unit, level, "cluster wilson"), 0, None, None, None, None)
    p = total / n
    macro = math.fsum([times * s / m for (s, m), times in families.items()]) / count if 0 < total < n else p
    error = _standard_error(families)
    if error is None:
        lonely = Estimate(p, None, None, n, unit, level, "cluster wilson")
        return ClusterEstimate(lonely, count, None, None, None, macro)
    seen = error**2 / (p * (1 - p) / n) if 0 < total < n else 1.0
    low, high, design = _floored_limits(p, seen, families, level)
    estimate = Estimate(p, low, high, n, unit, level, "cluster wilson")
    return ClusterEstimate(estimate, count, error, design, n / design, macro)


def two_way_wilson(
    cells: Sequence[tuple[Hashable, Hashable, int, int]], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> ClusterEstimate:
    """Estimate a rate of entries grouped in two ways; as variants of one family and as uses of one attack.

    A cell is a family, an attack, the successes and the units of both. The variance is that over families, plus that
    over attacks, less that over cells, which both have in them (Cameron, Gelbach and Miller 2011), and no less than
    either of the first two; the floors of `cluster_wilson` are added up alike. Student's degrees of freedom are those
    of whichever there are fewer of. The interval covers the rate for families and attacks of these kinds in general,
    while that of `cluster_wilson` is for these attacks. Fewer than two of either give a value and no interval.
    """
    check_level(level)
    by_family, by_attack = (_added(cells, side) for side in (0, 1))
    inside = _families([s for *_, s, _ in cells], [m for *_, m in cells], None)
    _, total, n = _totals(inside)
    if n == 0:
        return ClusterEstimate(undefined(unit, level, "two-way wilson"), 0, None, None, None, None)
    p, count = total / n, by_family.total()
    macro = math.fsum(times * s / m for (s, m), times in by_family.items()) / count
    errors = [error for kinds in (by_family, by_attack, inside) if (error := _standard_error(kinds)) is not None]
    if len(errors) < 3:
        lonely = Estimate(p, None, None, n, unit, level, "two-way wilson")
        return ClusterEstimate(lonely, count, None, None, None, macro)
    families, attacks, within = (error**2 for error in errors)
    variance = max(families + attacks - within, families, attacks)
    seen = variance / (p * (1 - p) / n) if 0 < total < n else 1.0
    design = max(seen, _floor(by_family) + _floor(by_attack) - 1)
    critical = student_critical_value(level, min(count, by_attack.total()) - 1)
    low, high = score_limits(p, n / design, critical)
    alone = cluster_wilson(*zip(*by_family.elements(), strict=True), level=level).estimate
    low, high = min(low, alone.low or 0.0), max(high, 1.0 if alone.high is None else alone.high)
    estimate = Estimate(p, low, high, n, unit, level, "two-way wilson")
    return ClusterEstimate(estimate, count, math.sqrt(variance), design, n / design, macro)


def _added(cells: Sequence[tuple[Hashable, Hashable, int, int]], side: int) -> Families:
    """Add up the cells of each family, or of each attack."""
    counts: dict[Hashable, tuple[int, int]] = {}
    for cell in cells:
        won, size = counts.get(cell[side], (0, 0))
        counts[cell[side]] = won + cell[2], size + cell[3]
    return Counter(kind for kind in counts.values() if kind[1])


def cluster_mean_of_shares(
    successes: Sequence[int],
    attempts: Sequence[int],
    families: Sequence[int] | None = None,
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> ClusterEstimate:
    """Estimate the mean share of successful attempts per entry, over families; with the floor of `cluster_wilson`.

    Attempts of one entry are alike, and so are entries of one family, which `families` numbers; without it an entry is
    a family. The standard error is CR1's over families, √(G/(G-1)·Σ(Σ(x_i - mean))²)/N, the design effect that of
    attempts. With equally many attempts each this is `cluster_wilson` of the attempts of each family.
    """
    _check_lengths(successes, attempts, *([] if families is None else [families]))
    check_level(level)
    members: dict[int, list[tuple[int, int]]] = {}
    for place, (s, m) in enumerate(zip(successes, attempts, strict=True)):
        check_counts(s, m)
        if m:
            members.setdefault(place if families is None else families[place], []).append((s, m))
    entries, count = sum(map(len, members.values())), len(members)
    if not entries:
        return ClusterEstimate(undefined(unit, level, "mean over entries"), 0, None, None, None, None)
    shares = {family: [s / m for s, m in inside] for family, inside in members.items()}
    mean = math.fsum(share for inside in shares.values() for share in inside) / entries
    macro = math.fsum(math.fsum(inside) / len(inside) for inside in shares.values()) / count
    if count < 2:
        lonely = Estimate(mean, None, None, entries, unit, level, "mean over entries")
        return ClusterEstimate(lonely, count, None, None, None, macro)
    squares = math.fsum((math.fsum(inside) - mean * len(inside)) ** 2 for inside in shares.values())
    error = math.sqrt(count / (count - 1) * squares) / entries
    kinds: Families = Counter((sum(s for s, _ in inside), sum(m for _, m in inside)) for inside in members.values())
    tried = sum(times * m for (_, m), times in kinds.items())
    seen = error**2 / (mean * (1 - mean) / tried) if 0 < mean < 1 else 1.0
    low, high, design = _floored_limits(mean, seen, kinds, level)
    estimate = Estimate(mean, low, high, entries, unit, level, "mean over entries")
    return ClusterEstimate(estimate, count, error, design, tried / design, macro)


def _floored_limits(p: float, seen: float, families: Families, level: float) -> tuple[float, float, float]:
    """Return the limits of a rate and the design effect: the one seen, or its floor."""
    count, _, n = _totals(families)
    critical = student_critical_value(level, count - 1)
    design = max(seen, _floor(families), 1.0)
    low, high = score_limits(p, n / design, critical)
    if 0 < p < 1:
        without = score_limits(0.0, n / _floor(_without_success(families)), critical)[1]
        low, high = min(low, 1 - without), max(high, without)
    return low, high, design


def correlation_floor(successes: Sequence[int], sizes: Sequence[int], times: Sequence[int] | None = None) -> float:
    """Return the lower bound of the design effect; 1 + (m̃ - 1)·E[ρ | data].

    m̃ = Σm²/n is the size of the family of a typical unit, and 1 + (m̃ - 1)·ρ the design effect of families whose units
    have the correlation ρ (Kish 1965; for unequal sizes Eldridge, Ashby and Kerry 2006). E[ρ | data] is its posterior
    mean in the beta-binomial model, with Jeffreys' prior for the mean rate and Beta(1/2, 1) for ρ.
    """
    return _floor(_families(successes, sizes, times))


def expected_correlation(successes: Sequence[int], sizes: Sequence[int], times: Sequence[int] | None = None) -> float:
    """Return the expected correlation within families, E[ρ | data]; without any family of two units 1/3."""
    families = _families(successes, sizes, times)
    return _expected_correlation(tuple(sorted(families.items()))) if any(m > 1 for _, m in families) else 1 / 3


def _floor(families: Families) -> float:
    units = squares = 0
    for (_, m), times in families.items():
        units += times * m
        squares += times * m * m
    if squares == units:
        return 1.0
    return 1 + (squares / units - 1) * _expected_correlation(tuple(sorted(families.items())))


def _without_success(families: Families) -> Families:
    found: Families = Counter()
    for (_, m), times in families.items():
        found[0, m] += times
    return found


@lru_cache(maxsize=4096)
def _expected_correlation(kinds: tuple[tuple[tuple[int, int], int], ...]) -> float:
    """Return the posterior mean of the correlation within families.

    √ρ and the arc sine of the root of the mean rate are uniform under these priors, so that their square is integrated
    over, by Gauss-Legendre quadrature. The range of √ρ is narrowed to where the likelihood is until that is smooth on
    the nodes: with thousands of families it is a needle.
    """
    likelihood = _CorrelationLikelihood(kinds)
    low, high = 0.0, 1.0
    roots: list[tuple[float, float]] = []
    heights: list[float] = []
    for _ in range(_MOST_NARROWINGS):
        roots = [(low + (high - low) * x, weight) for x, weight in _NODES]
        logs = likelihood.of_roots([root for root, _ in roots])
        top = max(logs)
        heights = [weight * math.exp(log - top) for (_, weight), log in zip(roots, logs, strict=True)]
        alive = [place for place, height in enumerate(heights) if height > _NEGLIGIBLE * max(heights)]
        if len(alive) >= _ENOUGH_ALIVE:
            break
        low = roots[alive[0] - 1][0] if alive[0] > 0 else low
        high = roots[alive[-1] + 1][0] if alive[-1] < len(roots) - 1 else high
    squares = math.fsum(height * root * root for height, (root, _) in zip(heights, roots, strict=True))
    return squares / math.fsum(heights)


class _CorrelationLikelihood:
    """The beta-binomial likelihood of families, integrated over the mean rate."""

    def __init__(self, kinds: tuple[tuple[tuple[int, int], int], ...]) -> None:
        successes: Counter[int] = Counter()
        failures: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for (s, m), times in kinds:
            successes[s] += times
            failures[m - s] += times
            sizes[m] += times
        self._successes, self._failures = _steps(successes), _steps(failures)
        self._sizes, self._count = list(sizes.items()), sizes.total()
        self._of_sizes = _steps(sizes)
        self._units = sum(m * times for m, times in self._sizes)
        self._typical = sum(m * m * times for m, times in self._sizes) / self._units
        pooled = sum(s * times for s, times in successes.items()) / self._units
        mean = math.fsum(times * s / m for (s, m), times in kinds) / self._count
        self._angles = sorted(math.asin(math.sqrt(min(rate, 1.0))) for rate in (pooled, mean))

    def of_roots(self, roots: Sequence[float]) -> list[float]:
        """Return the logarithm for each square root of the correlation.

        The mean rate lies between the pooled rate and the mean of families, or some standard errors beside.
        """
        precisions = [(1 - root * root) / (root * root) for root in roots]
        lows, widths = [], []
        for root in roots:
            spread = math.sqrt((1 + (self._typical - 1) * root * root) / self._units) / 2
            lows.append(max(0.0, self._angles[0] - 5 * spread))
            widths.append(min(math.pi / 2, self._angles[1] + 5 * spread) - lows[-1])
        most = _MANY_COUNTS if self._units > _MANY_UNITS else _MANY_COUNTS_OF_FEW
        many = len(self._successes) + len(self._failures) > most
        return (self._logs_at_once if many else self._logs)(precisions, lows, widths)

    def _logs(self, precisions: Sequence[float], lows: Sequence[float], widths: Sequence[float]) -> list[float]:
        """Return the logarithms for each precision, whose mean rates begin at the square of the sine of `lows`."""
        # Of base 2, which take half the time of natural ones; of all nodes at once, for the sake of fewer loops.
        log2, count = math.log2, len(_NODES)
        sines = [math.sin(low + width * x) for low, width in zip(lows, widths, strict=True) for x, _ in _NODES]
        each = [precision for precision in precisions for _ in _NODES]
        alphas = [precision * (sine * sine) for precision, sine in zip(each, sines, strict=True)]
        betas = [precision - alpha for precision, alpha in zip(each, alphas, strict=True)]
        logs, sizes = [0.0] * len(each), [0.0] * len(precisions)
        for steps, shares in ((self._successes, alphas), (self._failures, betas)):
            for step, times in steps:
                logs = [log + times * log2(x + step) for log, x in zip(logs, shares, strict=True)]
        for step, times in self._of_sizes:
            sizes = [size + times * log2(x + step) for size, x in zip(sizes, precisions, strict=True)]
        found = []
        for place, (size, width) in enumerate(zip(sizes, widths, strict=True)):
            row = logs[place * count : (place + 1) * count]
            top = max(row)
            mass = math.fsum([weight * 2.0 ** (log - top) for weight, log in zip(_WEIGHTS, row, strict=True)])
            found.append((top - size) * _LN_2 + math.log(width * mass))
        return found

    def _logs_at_once(self, precisions: Sequence[float], lows: Sequence[float], widths: Sequence[float]) -> list[float]:
        """Return the same by numpy; to load it takes as long as hundreds of small sums."""
        import numpy as np

        places, weights = np.array(_NODES).T
        sizes, ranges = np.array(precisions)[:, None], np.array(widths)[:, None]
        rates = np.sin(np.array(lows)[:, None] + ranges * places) ** 2
        total = np.zeros(rates.shape)
        for steps, shares in ((self._successes, sizes * rates), (self._failures, sizes * (1 - rates))):
            if steps:
                more, times = np.array(steps, np.float64).T
                total += np.log(shares[:, :, None] + more) @ times
        more, times = np.array(self._of_sizes, np.float64).T
        top = total.max(axis=1)
        mass = np.exp(total - top[:, None]) @ weights
        found: list[float] = (top - np.log(sizes + more) @ times + np.log(ranges[:, 0] * mass)).tolist()
        return found


def _steps(counts: Counter[int]) -> list[tuple[int, int]]:
    """Return how many counts are greater than 0, than 1, and so on.

    Γ(x + s)/Γ(x) is the product of x + j over all j below s: that takes fewer and cheaper logarithms than Γ's.
    """
    steps, above = [], 0
    for step in range(max(counts, default=0) - 1, -1, -1):
        above += counts[step + 1]
        steps.append((step, above))
    return steps


def _gauss_legendre(count: int) -> Iterator[tuple[float, float]]:
    """Yield the nodes between 0 and 1 of Gauss's quadrature, each with its weight (Newton on Legendre's polynomial)."""
    for place in range(count, 0, -1):
        x = math.cos(math.pi * (place - 0.25) / (count + 0.5))
        for _ in range(8):
            before, now = 1.0, x
            for degree in range(2, count + 1):
                before, now = now, ((2 * degree - 1) * x * now - (degree - 1) * before) / degree
            slope = count * (x * now - before) / (x * x - 1)
            x -= now / slope
        yield (1 + x) / 2, 1 / ((1 - x * x) * slope * slope)


# From here on numpy is worth loading. A file with few units has few groups with that many counts.
_MANY_COUNTS = 6
_MANY_UNITS = 1_500
_MANY_COUNTS_OF_FEW = 300
_LN_2 = math.log(2)
_NODES = tuple(_gauss_legendre(12))
_WEIGHTS = tuple(weight for _, weight in _NODES)
_MOST_NARROWINGS = 6
_NEGLIGIBLE = 1e-5
_ENOUGH_ALIVE = 8


def cluster_bootstrap(
    successes: Sequence[int],
    sizes: Sequence[int],
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Estimate a rate by drawing whole families (Field and Welsh 2007); percentile bootstrap.

    A replicate is Σs*/Σm* over G families drawn with replacement; a limit is the least value with at least that mass.
    Families of one size need no draw: the sum of G successes is a convolution power, computed exactly, and `seed` is
    not used. Otherwise `replicates` are drawn from `seed`. Fewer than two families give no interval.
    """
    families = _families(successes, sizes)
    return _bootstrapped(families, unit, level, replicates, seed)


def cluster_bootstrap_difference(
    only_a: Sequence[int],
    only_b: Sequence[int],
    sizes: Sequence[int],
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Estimate a paired difference by drawing whole families; Σ(b_g - c_g)/Σm_g.

    `only_a` and `only_b` count, per family, the units on which only A or only B succeeded.
    """
    _check_lengths(only_a, only_b, sizes)
    families: Families = Counter()
    for b, c, size in zip(only_a, only_b, sizes, strict=True):
        check_counts(b + c, size)
        if min(b, c) < 0:
            raise ValueError(f"a family cannot have {min(b, c)} units")
        if size:
            families[(int(b - c), int(size))] += 1
    return _bootstrapped(families, unit, level, replicates, seed)


class ClusterMean(Struct, frozen=True):
    """A mean over families; `standard_error` and `p` are None with fewer than two families.

    `p` tests that the mean is 0, and is None where no family differs from another and the mean is not 0.
    """

    estimate: Estimate
    families: int
    standard_error: float | None
    p: float | None


def cluster_mean(
    sums: Sequence[float], sizes: Sequence[int], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> ClusterMean:
    """Estimate a mean over families, given by sum and size; such as that of paired differences of scores.

    Σs_g/Σm_g ± t·SE with the CR1 standard error √(G/(G-1)·Σ(s_g - mean·m_g)²)/n (Liang and Zeger 1986) and Student's t
    with G-1 degrees of freedom. For families of one it is the standard error of a mean. One family gives a value alone.
    """
    _check_lengths(sums, sizes)
    check_level(level)
    families = [(s, m) for s, m in zip(sums, sizes, strict=True) if m]
    count, n = len(families), sum(m for _, m in families)
    if n == 0:
        return ClusterMean(undefined(unit, level, "cluster mean"), 0, None, None)
    value = math.fsum(s for s, _ in families) / n
    if count < 2:
        return ClusterMean(Estimate(value, None, None, n, unit, level, "cluster mean"), count, None, None)
    squares = math.fsum((s - value * m) ** 2 for s, m in families)
    error = math.sqrt(count / (count - 1) * squares) / n
    width = student_critical_value(level, count - 1) * error
    estimate = Estimate(value, value - width, value + width, n, unit, level, "cluster mean")
    # Sums that all agree leave a rounding error between them.
    alike = error <= _ROUNDING * max(abs(value), 1.0)
    p = (1.0 if abs(value) <= _ROUNDING else None) if alike else two_sided_student(value / error, count - 1)
    return ClusterMean(estimate, count, error, p)


def family_correlation(successes: Sequence[int], sizes: Sequence[int]) -> float | None:
    """Return the intraclass correlation within families (Donner 1986); by one-way analysis of variance.

    (MSB - MSW)/(MSB + (m₀-1)·MSW) with m₀ = (n - Σm²/n)/(G-1), the common size where there is one. It may come out
    negative, which is chance. Undefined where no family has two units, or there is one family, or no variance.
    """
    families = _families(successes, sizes)
    count, total, n = _totals(families)
    if count < 2 or n == count:
        return None
    p = total / n
    between = math.fsum(times * m * (s / m - p) ** 2 for (s, m), times in families.items()) / (count - 1)
    within = math.fsum(times * s * (1 - s / m) for (s, m), times in families.items()) / (n - count)
    typical = (n - math.fsum(times * m * m for (_, m), times in families.items()) / n) / (count - 1)
    spread = between + (typical - 1) * within
    return (between - within) / spread if spread > 0 else None


def effective_families(sizes: Sequence[int]) -> float:
    """Return the number of equal families worth as much as these (Kish 1965); (Σm)²/Σm²."""
    return sum(sizes) ** 2 / sum(m * m for m in sizes)


def effective_degrees(sizes: Sequence[int]) -> int:
    """Return the degrees of freedom of families of unequal sizes: `effective_families`, rounded down, less 1.

    The answer is at least 1.
    """
    # A whole number must not be missed by a rounding error.
    return max(1, math.floor(effective_families(sizes) + 1e-9) - 1)


def _check_lengths(*columns: Sequence[float]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ValueError("every family needs one count of each kind")


def _families(successes: Sequence[int], sizes: Sequence[int], times: Sequence[int] | None = None) -> Families:
    """Return how often each pair of successes and size occurs."""
    _check_lengths(successes, sizes, *([] if times is None else [times]))
    pairs = zip(successes, sizes, strict=True)
    if times is None:
        families = Counter(pairs)
    else:
        families = Counter()
        count = families.get
        for pair, occurring in zip(pairs, times, strict=True):
            families[pair] = count(pair, 0) + occurring
        for occurring in set(times):
            check_counts(0, occurring)
    found: Families = Counter()
    for pair, occurring in families.items():
        s, m = pair
        if type(s) is not int or type(m) is not int or not 0 <= s <= m:
            check_counts(s, m)
            pair = int(s), int(m)
        if m and occurring:
            found[pair] = occurring
    return found


def _totals(families: Families) -> tuple[int, int, int]:
    """Return the numbers of families, successes and units."""
    count = total = n = 0
    for (s, m), times in families.items():
        count += times
        total += times * s
        n += times * m
    return count, total, n


def _standard_error(families: Families) -> float | None:
    """Return the CR1 standard error of the pooled rate; None where there are fewer than two families."""
    count, total, n = _totals(families)
    if count < 2:
        return None
    if not 0 < total < n:
        return 0.0
    # Over a common denominator the deviations are whole numbers: families that all agree give exactly 0.
    squares = sum([times * (s * n - total * m) ** 2 for (s, m), times in families.items()])
    return math.sqrt(count / (count - 1) * squares) / n**2


def _bootstrapped(families: Families, unit: str, level: float, replicates: int, seed: int) -> Estimate:
    check_level(level)
    if replicates < 1:
        raise ValueError(f"a bootstrap needs at least one replicate, not {replicates}")
    count, total, n = _totals(families)
    if n == 0:
        return undefined(unit, level, "cluster bootstrap")
    if count < 2:
        return Estimate(total / n, None, None, n, unit, level, "cluster bootstrap")
    tail = (1 - level) / 2
    if len({m for _, m in families}) == 1:
        low, high = _exact_percentiles(families, (tail, 1 - tail))
        return Estimate(total / n, low, high, n, unit, level, "cluster bootstrap, exact percentile")
    low, high = _drawn_percentiles(families, (tail, 1 - tail), replicates, seed)
    return Estimate(total / n, low, high, n, unit, level, f"cluster bootstrap, {replicates} draws")


def _exact_percentiles(families: Families, probabilities: tuple[float, float]) -> tuple[float, float]:
    """Return percentiles of the mean of G draws from G families of one size, by the power of the Fourier transform."""
    import numpy as np

    count, _, n = _totals(families)
    least = min(s for s, _ in families)
    width = max(s for s, _ in families) - least
    one_draw = np.zeros(count * width + 1)
    for (s, _), times in families.items():
        one_draw[s - least] = times / count
    masses = np.fft.irfft(np.fft.rfft(one_draw) ** count, len(one_draw))
    cumulative = np.cumsum(np.clip(masses, 0, None))
    low, high = (int(np.searchsorted(cumulative, probability - _ROUNDING)) for probability in probabilities)
    return (low + count * least) / n, (high + count * least) / n


def _drawn_percentiles(
    families: Families, probabilities: tuple[float, float], replicates: int, seed: int
) -> tuple[float, float]:
    """Return percentiles of seeded replicates; how often each kind of family is drawn is multinomial."""
    import numpy as np

    kinds = sorted(families.items())
    counts = np.array([kind for kind, _ in kinds], dtype=np.float64)
    chances = np.array([times for _, times in kinds]) / families.total()
    generator = np.random.default_rng(seed)
    rates = []
    at_once = max(1, _DRAWS_AT_ONCE // len(kinds))
    for start in range(0, replicates, at_once):
        drawn = generator.multinomial(families.total(), chances, size=min(at_once, replicates - start))
        sums = drawn @ counts
        rates.append(sums[:, 0] / sums[:, 1])
    low, high = np.quantile(np.concatenate(rates), probabilities, method="inverted_cdf")
    return float(low), float(high)
