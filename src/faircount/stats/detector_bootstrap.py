"""The bootstrap of a detector's quality, stratified by class, without a draw.

Drawn with replacement inside each class, a replicate depends only on two independent counts: the hits found
X ~ Binomial(P, TP/P) and the false alarms Y ~ Binomial(N, FP/N), with P = TP + FN and N = FP + TN. Every metric here is
a ratio of two linear functions of X and Y that never falls with X and never rises with Y, so P(metric <= x) is a sum
over X of tails of Y, and the limits of infinitely many replicates follow without a seed. The counts that really occur
lie within a few standard deviations, so the cost grows with the square root of the sample, not with the sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DetectorMetric = Literal[
    "hit_f1", "pass_f1", "hit_precision", "pass_precision", "hit_recall", "pass_recall", "accuracy"
]
RankedMetric = DetectorMetric | Literal["balanced_accuracy", "mcc"]
Ranks = tuple[int | None, int | None]
"""The first and the last rank that a detector may have; None where that is not known."""
SAME_METRIC = 1e-12
"""Metrics that differ by no more are equal, and share a rank: what is left is rounding."""
DEFAULT_REPLICATES = 10_000
DEFAULT_SEED = 42
EXACT_METHOD = "stratified bootstrap, exact percentile"
_BCA_METHOD = "stratified bootstrap, exact BCa"
# Counts farther out than this together carry less than 1e-13.
_NEGLIGIBLE_SDS = 7.5
_NEGLIGIBLE_COUNTS = 10
# Sums of probabilities are exact to about 1e-13; a tail reached but for that is reached.
_SUM_ERROR = 1e-12
# Sorting this many replicates costs about as much as one more step of the search.
_FEW_REPLICATES = 4000
# The search starts this far (in standard deviations) on both sides of the normal approximation; then each step aims a
# little beyond the interpolated place, to close in from both sides, and leaves at least a small share to either.
_FIRST_REACH = (-0.25, 0.25)
_OVERSHOOT = 1.04
_LEAST_SHARE = 0.02
# So near to a value that few replicates lie nearer, so far that rounding does not reach it.
_SAME_VALUE = 1e-9
_NORMAL = NormalDist()
_RECALLS: tuple[DetectorMetric, ...] = ("hit_recall", "pass_recall")

Counts = tuple[int, int, int, int]


class BcaConstants(Struct, frozen=True):
    """The two corrections of a BCa interval: for bias (z0) and for a standard error that moves with the value (a)."""

    bias: float
    acceleration: float


def f1_bootstrap(
    tp: int,
    fn: int,
    tn: int,
    fp: int,
    *,
    replicates: int | None = None,
    seed: int = DEFAULT_SEED,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate F1 with the percentile interval of the bootstrap stratified by class; F1 = 2TP/(2TP+FP+FN).

    F1* = 2X/(X+Y+P) with X ~ Binomial(P, TP/P), Y ~ Binomial(N, FP/N). Without `replicates` the percentiles are exact:
    the least value with at least the wanted probability at or below it. With `replicates` they are those of that many
    draws of `numpy.random.default_rng(seed)`, all X before all Y, interpolated linearly, as garak's labelled detector
    figures use (10,000 draws). Efron and Tibshirani 1993, chapter 13.
    """
    return metric_bootstrap("hit_f1", tp, fn, tn, fp, replicates=replicates, seed=seed, unit=unit, level=level)


def metric_bootstrap(
    metric: DetectorMetric,
    tp: int,
    fn: int,
    tn: int,
    fp: int,
    *,
    replicates: int | None = None,
    seed: int = DEFAULT_SEED,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate any metric of a confusion table by bootstrap; as `f1_bootstrap` does F1.

    A replicate without a denominator (no predicted hit at all, for precision) counts as 0, as scikit-learn and garak
    count it; the estimate itself is undefined then, not 0. Reference: see `f1_bootstrap`.
    """
    critical_value(level)
    ratio = _ratio_of(metric, tp, fn, tn, fp)
    n = tp + fn + tn + fp
    method = EXACT_METHOD if replicates is None else f"stratified bootstrap, {replicates:,} replicates, seed {seed}"
    value = ratio.value(tp, fp)
    if value is None:
        return undefined(unit, level, method, n)
    tail = (1 - level) / 2
    if replicates is None:
        grid = _CountGrid(ratio, (tp, fn, tn, fp))
        low, high = grid.percentile(tail), grid.percentile(1 - tail)
    else:
        import numpy as np

        drawn = _drawn(ratio, (tp, fn, tn, fp), replicates, seed)
        low, high = (float(limit) for limit in np.percentile(drawn, [100 * tail, 100 * (1 - tail)]))
    return Estimate(value, low, high, n, unit, level, method)


def f1_bootstrap_mean(
    tp: int, fn: int, tn: int, fp: int, *, replicates: int | None = None, seed: int = DEFAULT_SEED
) -> float | None:
    """Return the mean of F1 over the replicates of `f1_bootstrap`; of all there can be, or of those drawn.

    Exactly, it is the sum over X of P(X)·2X·E[1/(X+Y+P)]. None where F1 is undefined.
    """
    import numpy as np

    ratio = _ratio_of("hit_f1", tp, fn, tn, fp)
    if ratio.value(tp, fp) is None:
        return None
    if replicates is not None:
        return float(_drawn(ratio, (tp, fn, tn, fp), replicates, seed).mean())
    if tp == 0:
        return 0.0
    grid = _CountGrid(ratio, (tp, fn, tn, fp))
    found = grid.hits.first + np.arange(len(grid.hits.probabilities))
    size = len(grid.hits.probabilities) + len(grid.alarms.probabilities) - 1
    reciprocals = 1.0 / (tp + fn + grid.hits.first + grid.alarms.first + np.arange(size))
    # The expectations over Y for all X at once are a correlation, and that is a product of Fourier transforms.
    transform = np.fft.rfft(reciprocals) * np.conj(np.fft.rfft(grid.alarms.probabilities, size))
    expectations = np.fft.irfft(transform, size)[: len(found)]
    return float(np.dot(grid.hits.probabilities, 2 * found * expectations))


def f1_bca(tp: int, fn: int, tn: int, fp: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate F1 with the BCa bootstrap interval; exact as in `f1_bootstrap`.

    The limits are the percentiles at Φ(z0 + (z0 + z)/(1 - a(z0 + z))) for z at both tails, with z0 and a from
    `f1_bca_constants`. Closer to the nominal level than plain percentiles when a class is small. Efron 1987.
    """
    z = critical_value(level)
    ratio = _ratio_of("hit_f1", tp, fn, tn, fp)
    n = tp + fn + tn + fp
    value = ratio.value(tp, fp)
    if value is None:
        return undefined(unit, level, _BCA_METHOD, n)
    grid = _CountGrid(ratio, (tp, fn, tn, fp))
    constants = _bca_constants(grid, (tp, fn, tn, fp))
    low, high = (grid.percentile(_corrected_tail(constants, side)) for side in (-z, z))
    return Estimate(value, low, high, n, unit, level, _BCA_METHOD)


def f1_bca_constants(tp: int, fn: int, tn: int, fp: int) -> BcaConstants | None:
    """Return z0 and a of the BCa interval of F1; None where F1 is undefined.

    z0 = Φ⁻¹(P(F1* < F1) + ½·P(F1* = F1)) of the exact bootstrap distribution. a = Σu³ / (6·(Σu²)^1.5) over all samples,
    u = (m-1)/m · (mean of the jackknife values of the sample's class - its own), m the size of the class; there are but
    four jackknife values, one per cell of the table. Efron 1987; Efron and Tibshirani 1993, chapter 14.
    """
    ratio = _ratio_of("hit_f1", tp, fn, tn, fp)
    if ratio.value(tp, fp) is None:
        return None
    return _bca_constants(_CountGrid(ratio, (tp, fn, tn, fp)), (tp, fn, tn, fp))


def rank_ranges(
    metric: RankedMetric,
    tables: Sequence[Counts],
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
    level: float = DEFAULT_LEVEL,
) -> list[Ranks]:
    """Return the range of ranks of each detector over random draws; given by TP, FN, TN and FP, in the middle `level`.

    Draws are those of `metric_bootstrap`, one detector after the other; rank 1 is the highest metric, and equal ones
    share a rank. Limits are percentiles of the inverted distribution function, which are ranks themselves. Hall and
    Miller 2009.
    """
    import numpy as np

    critical_value(level)
    generator = np.random.default_rng(seed)
    drawn = np.stack([_drawn_metric(metric, table, replicates, generator) for table in tables])
    order = np.argsort(-drawn, axis=0, kind="stable")
    ranks = np.empty(drawn.shape, dtype=np.int64)
    columns = np.arange(replicates)
    before, rank = np.full(replicates, np.inf), np.zeros(replicates, dtype=np.int64)
    for place, row in enumerate(order):
        values = drawn[row, columns]
        rank = np.where(before - values <= SAME_METRIC, rank, place + 1)
        ranks[row, columns] = rank
        before = values
    tails = [(1 - level) / 2, 1 - (1 - level) / 2]
    limits = np.quantile(ranks, tails, axis=1, method="inverted_cdf")
    return [(int(low), int(high)) for low, high in limits.T]


def ranks_by_overlap(estimates: Sequence[Estimate]) -> list[Ranks]:
    """Return the ranks that each interval allows, without draws.

    It is behind all whose intervals lie above its own, and before all whose intervals lie below. Where the intervals
    hold together, so do the ranks (Klein, Wright and Wieczorek 2020); here each holds by itself.
    """
    found: list[Ranks] = []
    for one in estimates:
        low, high = one.low, one.high
        if low is None or high is None:
            found.append((None, None))
        else:
            better = sum(other.low is not None and other.low > high for other in estimates)
            worse = sum(other.high is not None and other.high < low for other in estimates)
            found.append((1 + better, len(estimates) - worse))
    return found


def _bca_constants(grid: _CountGrid, counts: Counts) -> BcaConstants:
    below, equal = grid.mass_below_and_at(grid.centre)
    return BcaConstants(_NORMAL.inv_cdf(below + equal / 2), _acceleration(*counts))


def _corrected_tail(constants: BcaConstants, z: float) -> float:
    shifted = constants.bias + z
    return _NORMAL.cdf(constants.bias + shifted / (1 - constants.acceleration * shifted))


def _acceleration(tp: int, fn: int, tn: int, fp: int) -> float:
    """Return the acceleration of F1 from its jackknife values; one without a denominator counts as 0."""
    value = _f1_or_zero(tp, fn, fp)
    classes = [
        [(tp, _f1_or_zero(tp - 1, fn, fp)), (fn, _f1_or_zero(tp, fn - 1, fp))],
        [(fp, _f1_or_zero(tp, fn, fp - 1)), (tn, value)],
    ]
    cubes = squares = 0.0
    for kinds in classes:
        size = sum(times for times, _ in kinds)
        if size:
            mean = math.fsum(times * without for times, without in kinds) / size
            influences = [(times, (size - 1) / size * (mean - without)) for times, without in kinds]
            cubes += math.fsum(times * influence**3 for times, influence in influences)
            squares += math.fsum(times * influence**2 for times, influence in influences)
    return cubes / (6 * squares**1.5) if squares > 0 else 0.0


def _f1_or_zero(tp: int, fn: int, fp: int) -> float:
    below = 2 * tp + fn + fp
    return 2 * tp / below if below else 0.0


class _Ratio(Struct, frozen=True):
    """A metric as (a + b·X + c·Y) / (d + e·X + f·Y)."""

    above: tuple[int, int, int]
    below: tuple[int, int, int]

    def value(self, hits: int, alarms: int) -> float | None:
        """Return the metric at two counts; equal fractions give equal floats, since the division rounds correctly."""
        below = self.below[0] + self.below[1] * hits + self.below[2] * alarms
        above = self.above[0] + self.above[1] * hits + self.above[2] * alarms
        return above / below if below else None

    def values(self, hits: npt.NDArray[np.int64], alarms: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the metric at many counts; where it has no denominator it counts as 0."""
        import numpy as np

        above = self.above[0] + self.above[1] * hits + self.above[2] * alarms
        below = self.below[0] + self.below[1] * hits + self.below[2] * alarms
        found: npt.NDArray[np.float64] = np.divide(above, below, out=np.zeros(len(hits)), where=below != 0)
        return found

    def normal_approximation(self, hits: int, alarms: int, *variances: float) -> tuple[float, float]:
        """Return the metric at two counts and its standard deviation by the delta method."""
        value = self.value(hits, alarms) or 0.0
        below = self.below[0] + self.below[1] * hits + self.below[2] * alarms
        slopes = [(up - value * down) / max(below, 1) for up, down in zip(self.above[1:], self.below[1:], strict=True)]
        return value, math.sqrt(sum(slope**2 * variance for slope, variance in zip(slopes, variances, strict=True)))


def _ratio_of(metric: DetectorMetric, tp: int, fn: int, tn: int, fp: int) -> _Ratio:
    if min(tp, fn, tn, fp) < 0:
        raise ValueError("confusion counts cannot be negative")
    if metric not in get_args(DetectorMetric):
        raise ValueError(f"{metric} is not one of the metrics {', '.join(get_args(DetectorMetric))}")
    positives, negatives = tp + fn, fp + tn
    ratios: dict[DetectorMetric, _Ratio] = {
        "hit_f1": _Ratio((0, 2, 0), (positives, 1, 1)),
        "pass_f1": _Ratio((2 * negatives, 0, -2), (2 * negatives + positives, -1, -1)),
        "hit_precision": _Ratio((0, 1, 0), (0, 1, 1)),
        "pass_precision": _Ratio((negatives, 0, -1), (negatives + positives, -1, -1)),
        "hit_recall": _Ratio((0, 1, 0), (positives, 0, 0)),
        "pass_recall": _Ratio((negatives, 0, -1), (negatives, 0, 0)),
        "accuracy": _Ratio((negatives, 1, -1), (negatives + positives, 0, 0)),
    }
    return ratios[metric]


def _drawn(ratio: _Ratio, counts: Counts, replicates: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the metric of each drawn replicate."""
    import numpy as np

    if replicates < 1:
        raise ValueError("a bootstrap needs at least one replicate")
    return ratio.values(*_drawn_counts(counts, replicates, np.random.default_rng(seed)))


def _drawn_counts(
    counts: Counts, replicates: int, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the hits found and the false alarms of each replicate."""
    tp, fn, tn, fp = counts
    hits = generator.binomial(tp + fn, tp / max(tp + fn, 1), replicates)
    return hits, generator.binomial(fp + tn, fp / max(fp + tn, 1), replicates)


def _drawn_metric(
    metric: RankedMetric, counts: Counts, replicates: int, generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    import numpy as np

    hits, alarms = _drawn_counts(counts, replicates, generator)
    if metric == "balanced_accuracy":
        recalls = [_ratio_of(recall, *counts).values(hits, alarms) for recall in _RECALLS]
        return (recalls[0] + recalls[1]) / 2
    if metric != "mcc":
        return _ratio_of(metric, *counts).values(hits, alarms)
    # Matthews' coefficient, with 0 for a table that has an empty row or column. The product is too large for integers.
    tp, fp = hits.astype(np.float64), alarms.astype(np.float64)
    fn, tn = counts[0] + counts[1] - tp, counts[2] + counts[3] - fp
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return np.divide(tp * tn - fp * fn, np.sqrt(product), out=np.zeros(replicates), where=product > 0)


class _Binomial(Struct, frozen=True):
    """The counts that a binomial really takes, from `first` on, with their probabilities; and its variance."""

    first: int
    probabilities: Sequence[float]
    variance: float

    @classmethod
    def of(cls, successes: int, n: int) -> _Binomial:
        """Return Binomial(n, successes/n), from the likeliest count outwards by the ratio of neighbours."""
        if successes in (0, n):
            return cls(successes, [1.0], 0.0)
        variance = successes * (n - successes) / n
        reach = math.ceil(_NEGLIGIBLE_SDS * math.sqrt(variance)) + _NEGLIGIBLE_COUNTS
        first, last = max(0, successes - reach), min(n, successes + reach)
        odds = successes / (n - successes)
        masses = [1.0]
        for taken in range(successes, first, -1):
            masses.append(masses[-1] * (taken / (odds * (n - taken + 1))))
        masses.reverse()
        for taken in range(successes, last):
            masses.append(masses[-1] * (odds * (n - taken) / (taken + 1)))
        total = math.fsum(masses)
        return cls(first, [mass / total for mass in masses], variance)


class _Cut(Struct, frozen=True):
    """The replicates with a metric of at most `place`: for each number of hits, the alarms from a position on."""

    place: float
    positions: list[int]
    mass: float


class _CountGrid:
    """All replicates: each pair of counts that really occurs, with its probability and its value of the metric."""

    def __init__(self, ratio: _Ratio, counts: Counts) -> None:
        tp, fn, tn, fp = counts
        self.ratio = ratio
        self.hits = _Binomial.of(tp, tp + fn)
        self.alarms = _Binomial.of(fp, fp + tn)
        self._at_least = [*accumulate(reversed(self.alarms.probabilities), initial=0.0)][::-1]
        self.centre, self._spread = ratio.normal_approximation(tp, fp, self.hits.variance, self.alarms.variance)
        self._few = max(_FEW_REPLICATES, len(self.hits.probabilities), len(self.alarms.probabilities))

    def percentile(self, probability: float) -> float:
        """Return the least value of the metric with at least this probability at or below it.

        Two cuts close in on it until so few replicates lie between them that these can be sorted.
        """
        target = probability * (1 - _SUM_ERROR)
        lower, upper = self._nothing(), self._everything()
        steps = count()
        while sum(lower.positions) - sum(upper.positions) > self._few:
            place = self._next_place(lower, upper, probability, next(steps))
            if not lower.place < place < upper.place:
                break
            cut = self._cut(place)
            lower, upper = (lower, cut) if cut.mass >= target else (cut, upper)
        rest = sorted(self._between(lower, upper))
        masses = accumulate((mass for _, mass in rest), initial=lower.mass)
        next(masses)
        return next((value for (value, _), mass in zip(rest, masses, strict=True) if mass >= target), rest[-1][0])

    def mass_below_and_at(self, value: float) -> tuple[float, float]:
        """Return the probabilities that the metric of a replicate is less than a value, and equal to it."""
        lower, upper = self._cut(value - _SAME_VALUE), self._cut(value + _SAME_VALUE)
        near = [*self._between(lower, upper)]
        below = lower.mass + math.fsum(mass for place, mass in near if place < value)
        return below, math.fsum(mass for place, mass in near if place == value)

    def _next_place(self, lower: _Cut, upper: _Cut, probability: float, step: int) -> float:
        """Return where to cut next: around the normal approximation first, then by interpolation, at times halfway."""
        z = _NORMAL.inv_cdf(min(max(probability, _SUM_ERROR), 1 - _SUM_ERROR))
        if step < len(_FIRST_REACH):
            place = self.centre + self._spread * (z + _FIRST_REACH[step])
            if lower.place < place < upper.place:
                return place
        share = 0.5
        if step % 3 and lower.mass > 0 and upper.mass < 1:
            # On the normal scale the distribution is nearly a straight line.
            start, end = _NORMAL.inv_cdf(lower.mass), _NORMAL.inv_cdf(upper.mass)
            share = (z - start) / (end - start) if end > start else 0.5
            share = share * _OVERSHOOT if share < 0.5 else 1 - (1 - share) * _OVERSHOOT
        return lower.place + (upper.place - lower.place) * min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)

    def _nothing(self) -> _Cut:
        return _Cut(0.0, [len(self.alarms.probabilities)] * len(self.hits.probabilities), 0.0)

    def _everything(self) -> _Cut:
        return _Cut(1.0, [0] * len(self.hits.probabilities), 1.0)

    def _cut(self, place: float) -> _Cut:
        """Return the replicates with a metric of at most `place`.

        above <= place·below is alarms·steepness >= needed(hits), linear in hits. Rounding may put a replicate that lies
        at `place` itself on either side: whoever asks sorts the replicates near a cut.
        """
        if place < 0:
            return self._nothing()
        if place >= 1:
            return self._everything()
        above, below = self.ratio.above, self.ratio.below
        width = len(self.alarms.probabilities)
        steepness = place * below[2] - above[2]
        start = above[0] - place * below[0] - self.alarms.first * steepness
        slope = above[1] - place * below[1]
        hits = range(self.hits.first, self.hits.first + len(self.hits.probabilities))
        if steepness > 0:
            start, slope = start / steepness, slope / steepness
            ceiling = math.ceil
            positions = [
                0 if (needed := start + slope * found) <= 0 else width if needed >= width else ceiling(needed)
                for found in hits
            ]
        else:
            positions = [0 if start + slope * found <= 0 else width for found in hits]
        at_least = self._at_least
        masses = zip(self.hits.probabilities, positions, strict=True)
        return _Cut(place, positions, sum([probability * at_least[position] for probability, position in masses]))

    def _between(self, lower: _Cut, upper: _Cut) -> Iterator[tuple[float, float]]:
        """Yield the value and the probability of each replicate above the lower and within the upper cut."""
        ends = zip(self.hits.probabilities, upper.positions, lower.positions, strict=True)
        for hits, (probability, first, last) in enumerate(ends, start=self.hits.first):
            for position in range(first, last):
                value = self.ratio.value(hits, self.alarms.first + position)
                yield value or 0.0, probability * self.alarms.probabilities[position]
