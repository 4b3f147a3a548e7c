"""Many slices of one result: rates that chance alone has spread are pulled together, and tests answer for their number.

The largest of forty equal slices looks twice as large as it is; the shrunken rate and the adjusted test do not.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import AgainstRest, Estimate
from faircount.stats.comparison import benjamini_hochberg, fisher_exact
from faircount.stats.distributions import beta_limits, check_level, log_beta
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, undefined, wilson

LEAST_SLICES = 5

# Where the precision is sought. Below, slices are all or nothing; above, they differ no more than by chance.
_LOG_PRECISIONS = tuple(exponent * math.log(10) for exponent in range(-2, 7))
# Log-likelihoods closer than this are equal: ln Γ at a large precision is rounded not far below it.
_FLAT = 1e-5
# A Newton step as short as this leaves an error of its square.
_NARROW = 1e-6
_MOST_STEPS = 100
# Squared Newton decrements by the mean, from which on: the greatest height is known to 1e-7; it has a bound; a step by
# the precision makes sense. The slope of the profile is known up to a few times the decrement.
_CLOSE = 5e-5
_BOUNDED = 0.8
_ROUGH = 1.0
_SURE = 4

# Counts beyond this are left to series in 1/(x - 1/2), whose coefficients follow, for ψ and then for ψ'.
_FIRST_TERMS = 32
_A, _B, _C = 1 / 24, 7 / 960, 31 / 8064
_A2, _B4, _C6 = 2 * _A, 4 * _B, 6 * _C

Slices = Counter[tuple[int, int]]


class BetaPrior(Struct, frozen=True):
    """The Beta distribution of the rates of slices; and the likelihood that chose it."""

    alpha: float
    beta: float
    log_likelihood: float

    @property
    def mean(self) -> float:
        """The rate expected of a slice that nothing is known about."""
        return self.alpha / (self.alpha + self.beta)

    def estimate(
        self,
        successes: int,
        n: int,
        *,
        unit: str = "entry",
        level: float = DEFAULT_LEVEL,
        design_effect: float = 1.0,
    ) -> Estimate:
        """Return the shrunken rate (α + k)/(α + β + n) with its equal-tailed credible interval.

        With a design effect the units are worth n/design effect, so that the interval is that of Beta with the same
        mean and the precision α + β + n/design effect. A slice without an entry is undefined: the prior would speak for
        it alone.
        """
        check_counts(successes, n)
        check_level(level)
        if n == 0:
            return undefined(unit, level, "empirical bayes")
        a, b = self.alpha + successes, self.beta + n - successes
        worth = (self.alpha + self.beta + n / design_effect) / (a + b)
        low, high = beta_limits((1 - level) / 2, a * worth, b * worth)
        return Estimate(a / (a + b), low, high, n, unit, level, "empirical bayes")


class Shrinkage(Struct, frozen=True):
    """Shrunken rates, one per slice; and why they are what they are.

    - "shrunk": the prior was fitted and every slice is pulled towards its mean;
    - "pooled": the slices differ no more than by chance, so that all have the pooled rate;
    - "apart": the slices are all or nothing, so that no slice says anything of another; raw rates stand;
    - "few": fewer than five slices; raw rates stand.

    `between_variance` is the moment estimate of how much true rates vary: `raw_variance` of the raw rates less
    `binomial_variance`, what chance alone gives them, and at least 0.
    """

    status: Literal["shrunk", "pooled", "apart", "few"]
    prior: BetaPrior | None
    slices: tuple[Estimate, ...]
    raw_variance: float | None
    binomial_variance: float | None
    between_variance: float | None


def empirical_bayes(
    successes: Sequence[int], sizes: Sequence[int], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Shrinkage:
    """Estimate shrunken rates of slices by empirical Bayes (Robbins 1956); beta-binomial: Griffiths 1973.

    k_i ~ BetaBinomial(n_i, α, β); α and β maximise the marginal likelihood. A slice is then (α + k)/(α + β + n) with
    the quantiles of Beta(α + k, β + n - k). Where the precision α + β exceeds a million, or nothing but successes or
    nothing but failures were seen, all slices get the pooled rate with Wilson's interval. Slices without an entry are
    undefined.
    """
    slices = _slices(successes, sizes)
    check_level(level)
    spread = _spread(slices)
    fitted = _fit(slices)
    pairs = list(zip(successes, sizes, strict=True))
    if isinstance(fitted, BetaPrior):
        shrunken = {pair: fitted.estimate(*pair, unit=unit, level=level) for pair in set(pairs)}
        return Shrinkage("shrunk", fitted, tuple(shrunken[pair] for pair in pairs), *spread)
    if fitted == "pooled":
        whole = wilson(sum(successes), sum(sizes), unit=unit, level=level)
        pooled = tuple(
            Estimate(whole.value, whole.low, whole.high, n, unit, level, "pooled, wilson")
            if n
            else undefined(unit, level, "pooled, wilson")
            for _, n in pairs
        )
        return Shrinkage("pooled", None, pooled, *spread)
    return Shrinkage(fitted, None, tuple(wilson(k, n, unit=unit, level=level) for k, n in pairs), *spread)


def beta_prior(
    successes: Sequence[int], sizes: Sequence[int], times: Sequence[int]
) -> BetaPrior | Literal["pooled", "apart", "few"]:
    """Return the prior of `empirical_bayes`; or why there is none.

    `times` says how many slices there are with these successes and this size: many slices need not be listed one by
    one.
    """
    if len(times) != len(sizes) or any(occurring < 0 for occurring in times):
        raise ValueError("every kind of slice needs the number of its slices")
    slices: Slices = Counter()
    for (k, f), occurring in zip(_pairs(successes, sizes), times, strict=True):
        if k + f and occurring:
            slices[k, f] += occurring
    return _fit(slices)


def spread_of_rates(rates: Sequence[float], sizes: Sequence[int]) -> float:
    """Return how far apart the rates of slices are; Σn(p - p̄)²/Σn, where p̄ = Σnp/Σn.

    It is the part of a 0/1 outcome's variance that lies between slices (Fisher 1925, the analysis of variance). The
    distance from the lowest to the highest rate would let slices of one or two entries decide.
    """
    total = sum(sizes)
    mean = sum(size * rate for size, rate in zip(sizes, rates, strict=True)) / total
    return sum(size * (rate - mean) ** 2 for size, rate in zip(sizes, rates, strict=True)) / total


def slices_against_rest(successes: Sequence[int], sizes: Sequence[int]) -> tuple[AgainstRest, ...]:
    """Test every slice against all others by Fisher's exact test; of independent units, see `adjust_together`.

    Slices must not overlap. One that has no unit, or all, has nothing to be compared with.
    """
    _slices(successes, sizes)
    total, n = sum(successes), sum(sizes)
    return tuple(
        AgainstRest(k / size - (total - k) / (n - size), fisher_exact(k, size, total - k, n - size))
        if 0 < size < n
        else AgainstRest(None, None)
        for k, size in zip(successes, sizes, strict=True)
    )


def adjust_together(tests: Sequence[AgainstRest], alpha: float = 0.05) -> tuple[AgainstRest, ...]:
    """Adjust the tests of a whole report together (Benjamini and Hochberg 1995); at most `alpha` stands out."""
    return tuple(
        replace(test, adjusted_p=p, stands_out=p is not None and p <= alpha)
        for test, p in zip(tests, benjamini_hochberg([test.p for test in tests]), strict=True)
    )


def _slices(successes: Sequence[int], sizes: Sequence[int]) -> Slices:
    """Return how often each pair of successes and failures occurs among slices that have an entry."""
    return Counter((k, f) for k, f in _pairs(successes, sizes) if k + f)


def _pairs(successes: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return successes and failures of each slice."""
    if len(successes) != len(sizes):
        raise ValueError("every slice needs its successes and its size")
    for k, n in zip(successes, sizes, strict=True):
        check_counts(k, n)
    return [(int(k), int(n - k)) for k, n in zip(successes, sizes, strict=True)]


def _spread(slices: Slices) -> tuple[float | None, float | None, float | None]:
    """Return the variance of the raw rates, that of chance alone, and by how much the first exceeds the second."""
    count = slices.total()
    if count < 2:
        return None, None, None
    rates = [(k / (k + f), k + f, times) for (k, f), times in slices.items()]
    mean = math.fsum(rate * times for rate, _, times in rates) / count
    raw = math.fsum((rate - mean) ** 2 * times for rate, _, times in rates) / (count - 1)
    successes, failures = _totals(slices)
    pooled = successes / (successes + failures)
    chance = math.fsum(pooled * (1 - pooled) / n * times for _, n, times in rates) / count
    return raw, chance, max(0.0, raw - chance)


def _totals(slices: Slices) -> tuple[int, int]:
    return sum(k * times for (k, _), times in slices.items()), sum(f * times for (_, f), times in slices.items())


def _fit(slices: Slices) -> BetaPrior | Literal["pooled", "apart", "few"]:
    """Return the prior of greatest marginal likelihood, or what its divergence means.

    For a given precision the likelihood is concave in the mean, so that the best mean is found with certainty. The
    precision is sought on a grid, since the likelihood may have a second peak at infinity, and then refined.
    """
    if slices.total() < LEAST_SLICES:
        return "few"
    successes, failures = _totals(slices)
    if not successes or not failures:
        return "pooled"
    likelihood = _PriorLikelihood(slices)
    mean = likelihood.mean_of_extremes()
    heights: list[float] = []
    means: list[float] = []
    for log_precision in _LOG_PRECISIONS:
        height, mean = likelihood.profile(log_precision, mean, max(heights, default=-math.inf))
        heights.append(height)
        means.append(mean)
    best = heights.index(max(heights))
    if heights[best] <= heights[-1] + _FLAT:
        return "pooled"
    if best == 0:
        return "apart"
    near = slice(best - 1, best + 2)
    low, middle, high = _LOG_PRECISIONS[near]
    shift = _top(*heights[near])
    side = means[best + 1 if shift > 0 else best - 1]
    mean = means[best] * (side / means[best]) ** abs(shift)
    mean, log_precision = _peak(likelihood, low, high, middle + shift * (high - middle), mean)
    alpha, beta = math.exp(log_precision) * mean, math.exp(log_precision) * (1 - mean)
    combinations = math.fsum(
        times * -(math.log(k + f + 1) + log_beta(k + 1, f + 1)) for (k, f), times in slices.items()
    )
    return BetaPrior(alpha, beta, likelihood.height(alpha, beta) + combinations)


class _Rises:
    """Σ ln Γ(x + count)/Γ(x) over slices, and its derivatives.

    It is Σ c_j ln(x + j) with c_j slices that count more than j. What is beyond the first few j is left to series of
    ψ and ψ' in 1/(x - 1/2) (from DLMF 5.11.8).
    """

    def __init__(self, counts: Counter[int]) -> None:
        self._counts = list(counts.items())
        self._all = over = counts.total()
        self._first: list[tuple[float, int]] = []
        for j in range(_FIRST_TERMS):
            over -= counts[j]
            if not over:
                break
            self._first.append((float(j), over))
        self._large = [(float(count - _FIRST_TERMS), times) for count, times in self._counts if count > _FIRST_TERMS]
        self._all_large = sum(times for _, times in self._large)

    @property
    def at_least_one(self) -> int:
        return self._first[0][1] if self._first else 0

    def height(self, x: float) -> float:
        lgamma = math.lgamma
        return math.fsum([times * lgamma(x + count) for count, times in self._counts]) - self._all * lgamma(x)

    def slopes(self, x: float) -> tuple[float, float]:
        """Return the derivative, and the second derivative with its sign turned: both are positive."""
        slope = bend = 0.0
        for j, over in self._first:
            inverse = 1 / (x + j)
            part = over * inverse
            slope += part
            bend += part * inverse
        if not self._large:
            return slope, bend
        log1p = math.log1p
        base = x + (_FIRST_TERMS - 0.5)
        scale = 1 / base
        square = scale * scale
        slope -= self._all_large * square * (_A - square * (_B - square * _C))
        bend += self._all_large * scale * (1 - square * (_A2 - square * (_B4 - square * _C6)))
        for distance, times in self._large:
            inverse = 1 / (base + distance)
            square = inverse * inverse
            slope += times * (log1p(distance * scale) + square * (_A - square * (_B - square * _C)))
            bend -= times * inverse * (1 - square * (_A2 - square * (_B4 - square * _C6)))
        return slope, bend


class _PriorLikelihood:
    """The log-likelihood Σ ln B(α + k, β + f)/B(α, β), without its binomial coefficients.

    Its three sums, over successes, failures and sizes, are kept apart: equal counts are then counted once.
    """

    def __init__(self, slices: Slices) -> None:
        successes: Counter[int] = Counter()
        failures: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for (k, f), times in slices.items():
            successes[k] += times
            failures[f] += times
            sizes[k + f] += times
        self._successes, self._failures, self._sizes = _Rises(successes), _Rises(failures), _Rises(sizes)

    def mean_of_extremes(self) -> float:
        """Return the best mean for a precision of nearly 0."""
        return self._successes.at_least_one / (self._successes.at_least_one + self._failures.at_least_one)

    def height(self, alpha: float, beta: float) -> float:
        return self._successes.height(alpha) + self._failures.height(beta) - self._sizes.height(alpha + beta)

    def profile(self, log_precision: float, mean: float, least: float) -> tuple[float, float]:
        """Return the greatest height for a precision and the mean that has it, by Newton steps in a bracket.

        As a sum of logarithms of linear functions the height is self-concordant in the mean: with λ² = slope²/curvature
        less than 1, the top is at most -λ - ln(1 - λ) higher (Nesterov 2004, section 4.1). Where that is below `least`,
        the bound is returned in its place.
        """
        precision = math.exp(log_precision)
        low, high = 0.0, 1.0
        for _ in range(_MOST_STEPS):
            alpha, beta = precision * mean, precision * (1 - mean)
            (up, bend_up), (down, bend_down) = self._successes.slopes(alpha), self._failures.slopes(beta)
            low, high = (mean, high) if up > down else (low, mean)
            following = mean + (up - down) / (precision * (bend_up + bend_down))
            following = following if low < following < high else (low + high) / 2
            decrement = (up - down) ** 2 / (bend_up + bend_down)
            if decrement < _BOUNDED:
                height, root = self.height(alpha, beta), math.sqrt(decrement)
                if decrement <= _CLOSE:
                    return height + decrement / 2, following
                if height - root - math.log1p(-root) < least:
                    return height - root - math.log1p(-root), following
            mean = following
        return self.height(precision * mean, precision * (1 - mean)), mean

    def derivatives(self, mean: float, log_precision: float) -> tuple[float, float, float, float, float]:
        """Return the slopes by mean and log precision, and the curvatures: by the mean, mixed, by the log precision."""
        precision = math.exp(log_precision)
        alpha, beta = precision * mean, precision * (1 - mean)
        (up, bend_up), (down, bend_down) = self._successes.slopes(alpha), self._failures.slopes(beta)
        across, bend_across = self._sizes.slopes(precision)
        by_mean = precision * (up - down)
        by_precision = alpha * up + beta * down - precision * across
        return (
            by_mean,
            by_precision,
            -precision * precision * (bend_up + bend_down),
            by_mean + precision * (beta * bend_down - alpha * bend_up),
            by_precision - alpha * alpha * bend_up - beta * beta * bend_down + precision * precision * bend_across,
        )


def _peak(likelihood: _PriorLikelihood, low: float, high: float, start: float, mean: float) -> tuple[float, float]:
    """Return mean and log precision of greatest likelihood, by Newton steps that a bracket of the second keeps in.

    The slope of the profile, that of the best mean for each precision, tells on which side of the peak a point lies.
    """
    log_precision, last = start, math.inf
    for _ in range(_MOST_STEPS):
        by_mean, by_precision, mean_mean, mixed, precision_precision = likelihood.derivatives(mean, log_precision)
        decrement = -by_mean * by_mean / mean_mean
        slope = by_precision - mixed * by_mean / mean_mean
        curvature = precision_precision - mixed * mixed / mean_mean
        following = log_precision - slope / curvature if curvature < 0 else math.inf
        sure = abs(slope) > _SURE * decrement
        if decrement > _ROUGH or not (sure or low < following < high):
            _, mean = likelihood.profile(log_precision, mean, -math.inf)
            continue
        if sure:
            low, high = (log_precision, high) if slope > 0 else (low, log_precision)
            if not (low < following < high and abs(following - log_precision) <= last / 2):
                following = (low + high) / 2
        step = following - log_precision
        last, log_precision = abs(step), following
        move = -(by_mean + mixed * step) / mean_mean
        mean = min(max(mean + move, mean / 2), (1 + mean) / 2)
        if max(last, abs(move) / (mean * (1 - mean))) <= _NARROW or high - low <= _NARROW * _NARROW:
            break
    return mean, log_precision


def _top(left: float, middle: float, right: float) -> float:
    """Return where the parabola through three heights at -1, 0 and 1 is highest, the second of them being so."""
    bend = 2 * middle - left - right
    return (right - left) / (2 * bend) if bend > 0 else 0.0
