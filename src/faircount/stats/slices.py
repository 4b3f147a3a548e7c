"""Many slices of one result: rates that chance alone has spread are pulled together, and tests answer for their number.

The largest of forty equal slices looks twice as large as it is; the shrunken rate and the adjusted test do not.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from faircount.model import Estimate
from faircount.stats.comparison import fisher_exact
from faircount.stats.multiplicity import benjamini_hochberg
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, check_level, undefined, wilson
from faircount.stats.roots import crossing
from faircount.stats.special import beta_quantile, digamma, log_beta, trigamma

LEAST_SLICES = 5

# Where the precision is sought. Below, slices are all or nothing; above, they differ no more than by chance.
_LOG_PRECISIONS = tuple(exponent * math.log(10) for exponent in range(-2, 7))
# Log-likelihoods closer than this are equal: ln Γ at a large precision is rounded not far below it.
_FLAT = 1e-5
_CONVERGED = 1e-13
_NARROW = 1e-7

Slices = Counter[tuple[int, int]]


class BetaPrior(Struct, frozen=True):
    """The distribution Beta(alpha, beta) of the rates of slices, and the likelihood that chose it."""

    alpha: float
    beta: float
    log_likelihood: float

    @property
    def mean(self) -> float:
        """The rate expected of a slice that nothing is known about."""
        return self.alpha / (self.alpha + self.beta)

    def estimate(self, successes: int, n: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
        """Return the shrunken rate (α + k)/(α + β + n) with its equal-tailed credible interval.

        A slice without an entry is undefined: the prior would speak for it alone.
        """
        check_counts(successes, n)
        check_level(level)
        if n == 0:
            return undefined(unit, level, "empirical bayes")
        a, b = self.alpha + successes, self.beta + n - successes
        tail = (1 - level) / 2
        low, high = beta_quantile(tail, a, b), beta_quantile(1 - tail, a, b)
        return Estimate(a / (a + b), low, high, n, unit, level, "empirical bayes")


class Shrinkage(Struct, frozen=True):
    """Shrunken rates, one per slice, and why they are what they are.

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
    """Estimate the rates of slices together (empirical Bayes: Robbins 1956; beta-binomial: Griffiths 1973).

    k_i ~ BetaBinomial(n_i, α, β); α and β maximise the marginal likelihood. A slice is then (α + k)/(α + β + n) with
    the quantiles of Beta(α + k, β + n - k). Where the precision α + β exceeds a million, or nothing but successes or
    nothing but failures were seen, all slices get the pooled rate with Wilson's interval. Slices without an entry are
    undefined.
    """
    slices = _slices(successes, sizes)
    check_level(level)
    spread = _spread(slices)
    fitted = _fit(slices) if slices.total() >= LEAST_SLICES else "few"
    pairs = list(zip(successes, sizes, strict=True))
    if isinstance(fitted, BetaPrior):
        shrunken = tuple(fitted.estimate(k, n, unit=unit, level=level) for k, n in pairs)
        return Shrinkage("shrunk", fitted, shrunken, *spread)
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


class SliceTest(Struct, frozen=True):
    """A slice against the rest: Fisher's p, the same adjusted for the number of slices, and whether that survives.

    `difference` is the rate of the slice less the rate of the rest. All are None where either side has no entry.
    """

    difference: float | None
    p: float | None
    adjusted_p: float | None
    stands_out: bool


def slices_against_rest(
    successes: Sequence[int], sizes: Sequence[int], *, alpha: float = 0.05
) -> tuple[SliceTest, ...]:
    """Test every slice against all others by Fisher's exact test, adjusted by Benjamini and Hochberg (1995).

    Slices must not overlap. A slice stands out where its adjusted p is at most `alpha`.
    """
    _slices(successes, sizes)
    total, n = sum(successes), sum(sizes)
    differences: list[float | None] = []
    p_values: list[float | None] = []
    for k, size in zip(successes, sizes, strict=True):
        comparable = 0 < size < n
        differences.append(k / size - (total - k) / (n - size) if comparable else None)
        p_values.append(fisher_exact(k, size, total - k, n - size) if comparable else None)
    return tuple(
        SliceTest(difference, p, adjusted, adjusted is not None and adjusted <= alpha)
        for difference, p, adjusted in zip(differences, p_values, benjamini_hochberg(p_values), strict=True)
    )


def _slices(successes: Sequence[int], sizes: Sequence[int]) -> Slices:
    """Return how often each pair of successes and failures occurs among slices that have an entry."""
    if len(successes) != len(sizes):
        raise ValueError("every slice needs its successes and its size")
    for k, n in zip(successes, sizes, strict=True):
        check_counts(k, n)
    return Counter((int(k), int(n - k)) for k, n in zip(successes, sizes, strict=True) if n)


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


def _fit(slices: Slices) -> BetaPrior | Literal["pooled", "apart"]:
    """Return the prior of greatest marginal likelihood, or what its divergence means.

    For a given precision the likelihood is concave in the mean, so that the best mean is found with certainty. The
    precision is sought on a grid, since the likelihood may have a second peak at infinity, and then refined.
    """
    successes, failures = _totals(slices)
    if not successes or not failures:
        return "pooled"
    profile = _Profile(slices, successes / (successes + failures))
    heights = [profile.height(log_precision) for log_precision in _LOG_PRECISIONS]
    best = heights.index(max(heights))
    if heights[best] <= heights[-1] + _FLAT:
        return "pooled"
    if best == 0:
        return "apart"
    alpha, beta = profile.shapes(_peak(profile, _LOG_PRECISIONS[best - 1], _LOG_PRECISIONS[best + 1]))
    combinations = math.fsum(
        times * -(math.log(k + f + 1) + log_beta(k + 1, f + 1)) for (k, f), times in slices.items()
    )
    return BetaPrior(alpha, beta, _log_likelihood(slices, alpha, beta) + combinations)


class _Profile:
    """The log-likelihood of a precision with the mean that suits it best, each search starting from the last mean."""

    def __init__(self, slices: Slices, mean: float) -> None:
        self._slices = slices
        self._mean = mean

    def shapes(self, log_precision: float) -> tuple[float, float]:
        """Return α and β of the best prior with this precision."""
        precision = math.exp(log_precision)
        self._mean = _best_mean(self._slices, precision, self._mean)
        return precision * self._mean, precision * (1 - self._mean)

    def height(self, log_precision: float) -> float:
        return _log_likelihood(self._slices, *self.shapes(log_precision))

    def slope(self, log_precision: float) -> float:
        """Return the derivative by the precision; that by the mean is 0 at the best mean."""
        return _precision_slope(self._slices, *self.shapes(log_precision))


def _peak(profile: _Profile, low: float, high: float) -> float:
    """Return where the profile peaks between two points that are lower than some point between them."""
    while high - low > _NARROW:
        if profile.slope(low) > 0 > profile.slope(high):
            return crossing(profile.slope, low, high)
        points = [low + (high - low) * part / 8 for part in range(9)]
        best = max(range(1, 8), key=lambda place: profile.height(points[place]))
        low, high = points[best - 1], points[best + 1]
    return (low + high) / 2


def _log_likelihood(slices: Slices, alpha: float, beta: float) -> float:
    """Return Σ ln B(α + k, β + f)/B(α, β), the log-likelihood without its binomial coefficients."""
    constant = log_beta(alpha, beta)
    return math.fsum(times * (log_beta(alpha + k, beta + f) - constant) for (k, f), times in slices.items())


def _best_mean(slices: Slices, precision: float, start: float) -> float:
    """Return the mean of greatest likelihood for a precision, by Newton steps that a bracket keeps in bounds."""
    low, high, mean = 0.0, 1.0, start
    while True:
        alpha, beta = precision * mean, precision * (1 - mean)
        digamma_alpha, digamma_beta = digamma(alpha), digamma(beta)
        trigamma_both = trigamma(alpha) + trigamma(beta)
        slope = curvature = 0.0
        for (k, f), times in slices.items():
            slope += times * (digamma(alpha + k) - digamma_alpha - digamma(beta + f) + digamma_beta)
            curvature += times * (trigamma(alpha + k) + trigamma(beta + f) - trigamma_both)
        if slope > 0:
            low = mean
        else:
            high = mean
        following = mean - slope / (precision * curvature) if curvature else (low + high) / 2
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - mean) <= _CONVERGED:
            return following
        mean = following


def _precision_slope(slices: Slices, alpha: float, beta: float) -> float:
    """Return the derivative of the log-likelihood by the precision α + β, the mean held fixed."""
    precision = alpha + beta
    digamma_alpha, digamma_beta, digamma_both = digamma(alpha), digamma(beta), digamma(precision)
    return math.fsum(
        times
        * (
            alpha / precision * (digamma(alpha + k) - digamma_alpha)
            + beta / precision * (digamma(beta + f) - digamma_beta)
            - (digamma(precision + k + f) - digamma_both)
        )
        for (k, f), times in slices.items()
    )
