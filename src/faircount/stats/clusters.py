"""Rates over families: variants of one instruction are not independent tests.

A family is given by its number of successes and its size; families without a unit are passed over. Nothing but those
two numbers enters any formula here, so that families which agree in both are counted once.
"""

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from faircount.model import Estimate
from faircount.stats.distributions import student_critical_value, two_sided_student
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, check_level, score_limits, undefined

DEFAULT_REPLICATES = 10_000
DEFAULT_SEED = 42

# A quantile of an enumerated distribution is the least value with that mass; sums of probabilities end a rounding error
# beside it.
_ROUNDING = 1e-12
_DRAWS_AT_ONCE = 4_000_000

Families = Counter[tuple[int, int]]


class ClusterEstimate(Struct, frozen=True):
    """A rate whose interval respects families, and what the families cost.

    `effective_n` is how many independent units the data are worth, `design_effect` the factor by which families widen
    the variance; it is None where the data show no variance to compare. `standard_error` is None with one family.
    `macro_rate` answers another question: the mean over families, each counted once.
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
    """Estimate a rate over families with Wilson's interval on the effective sample size (Korn and Graubard 1998).

    With G families of m_g units and s_g successes, n = Σm_g, p = Σs_g/n and the CR1 standard error
    SE = √(G/(G-1)·Σ(s_g - p·m_g)²)/n: effective n = min(n, p(1-p)/SE²) and the critical value is Student's with G-1
    degrees of freedom. Where SE or p(1-p) is 0 the data cannot tell how alike variants are: effective n = G, the
    cautious choice. One family gives a value and no interval, no unit at all an undefined one. `times` says how many
    families there are of each kind; without it, one.
    """
    families = _families(successes, sizes, times)
    check_level(level)
    count, total, n = _totals(families)
    if n == 0:
        return ClusterEstimate(undefined(unit, level, "cluster wilson"), 0, None, None, None, None)
    p = total / n
    macro = math.fsum(times * s / m for (s, m), times in families.items()) / count
    error = _standard_error(families)
    if error is None:
        lonely = Estimate(p, None, None, n, unit, level, "cluster wilson")
        return ClusterEstimate(lonely, count, None, None, None, macro)
    binomial_variance = p * (1 - p)
    measurable = error > 0 and binomial_variance > 0
    effective = min(float(n), binomial_variance / error**2) if measurable else float(count)
    low, high = score_limits(p, effective, student_critical_value(level, count - 1))
    estimate = Estimate(p, low, high, n, unit, level, "cluster wilson")
    design = error**2 / (binomial_variance / n) if measurable else None
    return ClusterEstimate(estimate, count, error, design, effective, macro)


def cluster_bootstrap(
    successes: Sequence[int],
    sizes: Sequence[int],
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Estimate a rate over families with the percentile bootstrap that draws whole families (Field and Welsh 2007).

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
    """Estimate a paired difference Σ(b_g - c_g)/Σm_g over families by drawing whole families, as `cluster_bootstrap`.

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
    """A mean whose interval respects families; `standard_error` and `p` are None with fewer than two families.

    `p` tests that the mean is 0, and is None where no family differs from another and the mean is not 0.
    """

    estimate: Estimate
    families: int
    standard_error: float | None
    p: float | None


def cluster_mean(
    sums: Sequence[float], sizes: Sequence[int], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> ClusterMean:
    """Estimate a mean over families, given by sum and size, such as that of paired differences of scores.

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
    """Return the intraclass correlation of units within families, by one-way analysis of variance (Donner 1986).

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


def _check_lengths(*columns: Sequence[float]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ValueError("every family needs one count of each kind")


def _families(successes: Sequence[int], sizes: Sequence[int], times: Sequence[int] | None = None) -> Families:
    """Return how often each pair of successes and size occurs."""
    _check_lengths(successes, sizes, *([] if times is None else [times]))
    families: Families = Counter()
    if times is None:
        families.update(zip(successes, sizes, strict=True))
    else:
        for s, m, occurring in zip(successes, sizes, times, strict=True):
            check_counts(0, occurring)
            families[s, m] += occurring
    for s, m in families:
        check_counts(s, m)
    return Counter({(int(s), int(m)): occurring for (s, m), occurring in families.items() if m and occurring})


def _totals(families: Families) -> tuple[int, int, int]:
    """Return the numbers of families, successes and units."""
    total = sum(times * s for (s, _), times in families.items())
    return families.total(), total, sum(times * m for (_, m), times in families.items())


def _standard_error(families: Families) -> float | None:
    """Return the CR1 standard error of the pooled rate; None where there are fewer than two families."""
    count, total, n = _totals(families)
    if count < 2:
        return None
    # Over a common denominator the deviations are whole numbers: families that all agree give exactly 0.
    squares = sum(times * (s * n - total * m) ** 2 for (s, m), times in families.items())
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
