"""The threshold of a guardrail or judge: which one to choose, and what every other one does, with bounds.

Words are those of `detectors`: a hit is an attack, a pass a harmless prompt, and a threshold blocks whatever scores at
least as much. Two questions have two kinds of bounds. A threshold that is chosen from the scores of one class has a
bound that holds for the chosen one. A curve over all thresholds has a band that holds for all of them at once, and so
for whichever is chosen by looking at it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Estimate
from faircount.stats.design import Design, widening
from faircount.stats.detectors import samples
from faircount.stats.distributions import beta_quantile, check_level
from faircount.stats.proportion import DEFAULT_LEVEL, undefined

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Numbers = npt.NDArray[np.int64]

Held = Literal["false_positive_rate", "recall"]
_ONE_SIDED = "clopper-pearson, one-sided"
_MOST_NEEDED = 2.0**53


class OperatingPoint(Struct, frozen=True):
    """The threshold that keeps a rate within a limit, and its effect.

    For a false positive rate it is the lowest threshold that holds it, for a recall the highest. `threshold` is None
    if no score of the data does. `most_errors` then says why: it is how many false alarms may occur where more passes
    have the highest score of all, and None if even a threshold without an error would not do; that takes
    `samples_needed` samples. The rate that is held has a one-sided limit, which allows for the choice; the other rate
    has its usual interval, with a lower limit that leaves out a hit whose score is the threshold.
    `design_effect` is by how much families make the samples of the held rate worth less.
    """

    held: Held
    wanted: float
    level: float
    threshold: float | None
    false_positive_rate: Estimate
    recall: Estimate
    most_errors: int | None
    samples_needed: int
    design_effect: float = 1.0


class _ClassScores(Struct, frozen=True):
    """The scores of one class, rising, and the family of each, where there are any."""

    scores: Floats
    families: Numbers | None

    def at_least(self, threshold: float) -> int:
        """Return how many scores reach a threshold."""
        import numpy as np

        return len(self.scores) - int(np.searchsorted(self.scores, threshold))

    def rate(self, count: int, unit: str, level: float, *, lowest: bool = False) -> Any:
        """Estimate the share of the highest `count` scores, or of the lowest, as `Design` estimates any rate."""
        import numpy as np

        n = len(self.scores)
        if self.families is None:
            return Design(level=level).rate([count], [n], unit=unit)
        sizes = np.bincount(self.families)
        of_those = self.families[:count] if lowest else self.families[n - count :]
        won = np.bincount(of_those, minlength=len(sizes))
        return Design(families=True, level=level).rate(won.tolist(), sizes.tolist(), unit=unit)

    def effect(self, count: int, level: float, *, lowest: bool = False) -> float:
        """Return the factor by which families widen the variance of such a share."""
        return 1.0 if self.families is None else widening(self.rate(count, "", level, lowest=lowest))


def _sides(labels: Any, scores: Any, families: Any) -> tuple[_ClassScores, _ClassScores]:
    """Return hits and passes; samples without a score are left out, and families are numbered from 0."""
    import numpy as np

    truths, values = samples(labels, scores)
    groups = None
    if families is not None:
        scored = ~np.isnan(np.asarray(scores, dtype=np.float64))
        groups = np.asarray(families)[scored]
    sides = []
    for chosen in (truths, ~truths):
        order = np.argsort(values[chosen], kind="stable")
        own = None
        if groups is not None:
            own = np.unique(groups[chosen], return_inverse=True)[1][order]
            own = None if len(own) == 0 or np.bincount(own).max() < 2 else own
        sides.append(_ClassScores(values[chosen][order], own))
    return sides[0], sides[1]


# -- a threshold that is chosen ---------------------------------------------------------------------------------------


def operating_point(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    false_positive_rate: float | None = None,
    *,
    recall: float | None = None,
    families: npt.ArrayLike | None = None,
    unit: str = "sample",
    level: float = DEFAULT_LEVEL,
) -> OperatingPoint | None:
    """Return the lowest threshold with at most a false positive rate, or the highest with at least a recall.

    One of the two rates is given. With k errors among the n samples of its class, false alarms among passes or missed
    hits, the upper limit of their rate is the `level` quantile of Beta(k+1, n-k), one-sided (Clopper and Pearson
    1934), and k is the largest with a limit within what is wanted. So the threshold follows the order statistic of rank
    n - k of that class, the least with P(Binomial(n, 1 - rate) >= n - k) <= 1 - level: the Neyman-Pearson umbrella
    algorithm (Tong, Feng and Li 2018). The limit holds although the threshold is chosen on the same data, whatever the
    distribution; ties only make it smaller. The other rate has the interval of `Design`. Where the threshold is the
    score of a hit, though, the lowest above that order statistic, this hit is caught by choice: the lower limit is that
    of one hit less. Without a single error it takes ln(1 - level)/ln(1 - rate) samples.

    `families` numbers the family of each sample. With the widening D of `Design` at k, k and n count as k/D and n/D.
    """
    check_level(level)
    wanted = false_positive_rate if recall is None else recall
    if wanted is None or (recall is not None and false_positive_rate is not None):
        raise ValueError("give a false positive rate or a recall to hold, one of them")
    if not 0 < wanted < 1:
        raise ValueError(f"a rate to hold lies strictly between 0 and 1, not at {wanted}")
    hits, passes = _sides(labels, scores, families)
    if not len(hits.scores) or not len(passes.scores):
        return None
    of_passes = recall is None
    side, allowed = (passes, wanted) if of_passes else (hits, 1 - wanted)
    most, effect = _most_errors(side, allowed, level, lowest=not of_passes)
    needed = math.log1p(-level) / math.log1p(-allowed) * effect
    found = OperatingPoint(
        "false_positive_rate" if of_passes else "recall",
        wanted,
        level,
        None,
        undefined(unit, level, _ONE_SIDED if of_passes else "wilson", len(passes.scores)),
        undefined(unit, level, "wilson" if of_passes else _ONE_SIDED, len(hits.scores)),
        most,
        max(1, math.ceil(min(needed, _MOST_NEEDED) - 1e-9)),
        effect,
    )
    if most is None:
        return found
    if of_passes:
        threshold = _lowest_above(hits, passes, float(passes.scores[len(passes.scores) - 1 - most]))
    else:
        threshold = float(hits.scores[most])
    if threshold is None:
        return found
    limit = _upper(most, len(side.scores), effect, level)
    alarms, caught = passes.at_least(threshold), hits.at_least(threshold)
    if of_passes:
        held = Estimate(alarms / len(passes.scores), 0.0, limit, len(passes.scores), unit, level, _ONE_SIDED)
        other = hits.rate(caught, unit, level).estimate
        if threshold in hits.scores:
            other = replace(other, low=hits.rate(caught - 1, unit, level).estimate.low)
        return replace(found, threshold=threshold, false_positive_rate=held, recall=other)
    held = Estimate(caught / len(hits.scores), 1 - limit, 1.0, len(hits.scores), unit, level, _ONE_SIDED)
    return replace(
        found, threshold=threshold, recall=held, false_positive_rate=passes.rate(alarms, unit, level).estimate
    )


def _upper(errors: int, n: int, effect: float, level: float) -> float:
    """Return the one-sided upper limit of a rate of errors, the effective number of samples being n/effect."""
    return 1.0 if errors >= n else beta_quantile(level, errors / effect + 1, (n - errors) / effect)


def _most_errors(side: _ClassScores, wanted: float, level: float, *, lowest: bool) -> tuple[int | None, float]:
    """Return with how many errors the upper limit is within the wanted rate, and the effect of families there.

    None if it is not with none at all.
    """
    n = len(side.scores)
    low, high, effect = -1, n, side.effect(0, level, lowest=lowest)
    if _upper(0, n, effect, level) > wanted:
        return None, effect
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        there = side.effect(middle, level, lowest=lowest)
        if _upper(middle, n, there, level) <= wanted:
            low, effect = middle, there
        else:
            high = middle
    return low, effect


def _lowest_above(hits: _ClassScores, passes: _ClassScores, limit: float) -> float | None:
    """Return the lowest score above a limit, or None where there is none."""
    above = [float(those[those > limit][0]) for those in (hits.scores, passes.scores) if those[-1] > limit]
    return min(above, default=None)


# -- bands over all thresholds ----------------------------------------------------------------------------------------

# How many independent intervals the simultaneous limits of n thresholds are worth, by n (rows) and by the level of the
# band (columns): M with P(all limits at the local level 1 + ln(level)/M hold) = level, for continuous scores, by the
# recursion over the order statistics that the tests have as well (Moscovich and Nadler 2017). Between them, its
# logarithm is linear in ln n and in ln(-ln level), to within 2%.
_WORTH_LEVELS = tuple(math.sqrt(level) for level in (0.04, 0.25, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999))
_WORTH: tuple[tuple[int, tuple[float, ...]], ...] = (
    (1, (2.0118, 1.3862, 1.1329, 1.0568, 1.0266, 1.0129, 1.0025, 1.0002)),
    (2, (2.8531, 2.1985, 1.9733, 1.9328, 1.9329, 1.9433, 1.9692, 1.9893)),
    (3, (3.5073, 2.8812, 2.7001, 2.7088, 2.7511, 2.797, 2.8817, 2.9481)),
    (5, (4.5748, 3.9933, 3.9205, 4.0367, 4.1753, 4.3037, 4.5392, 4.7436)),
    (8, (5.7768, 5.2823, 5.3761, 5.6526, 5.9343, 6.1922, 6.6763, 7.1373)),
    (12, (6.9813, 6.6038, 6.9018, 7.3705, 7.8288, 8.248, 9.0561, 9.8768)),
    (20, (8.7075, 8.5373, 9.1796, 9.9706, 10.725, 11.422, 12.806, 14.303)),
    (35, (10.842, 10.98, 12.109, 13.356, 14.536, 15.633, 17.873, 20.43)),
    (60, (13.11, 13.621, 15.325, 17.108, 18.788, 20.365, 23.646, 27.539)),
    (100, (15.427, 16.356, 18.691, 21.058, 23.287, 25.392, 29.838, 35.265)),
    (200, (18.795, 20.378, 23.682, 26.944, 30.013, 32.932, 39.188, 47.048)),
    (400, (22.379, 24.704, 29.084, 33.33, 37.327, 41.144, 49.413, 60.022)),
    (1000, (27.396, 30.809, 36.736, 42.389, 47.699, 52.789, 63.934, 78.506)),
    (2500, (32.685, 37.276, 44.853, 51.987, 58.681, 65.112, 79.279, 98.05)),
    (6000, (37.952, 43.741, 52.964, 61.559, 69.617, 77.359, 94.488, 117.39)),
)


def local_level(n: float, level: float = DEFAULT_LEVEL) -> float:
    """Return the level at which the exact limits at every threshold hold simultaneously, for n samples.

    P(q(α/2; i, n-i+1) <= U_(i) <= q(1-α/2; i, n-i+1) for all i) = level, with order statistics U_(i) of n uniform
    numbers and quantiles q of Beta(i, n-i+1): a band of equal local levels (Berk and Jones 1979; Gontscharuk, Landwehr
    and Finner 2016), solved for 1 - α.
    """
    check_level(level)
    return 1 + math.log(level) / _worth(max(1.0, n), level)


@lru_cache(maxsize=256)
def _worth(n: float, level: float) -> float:
    sizes = [math.log(size) for size, _ in _WORTH]
    depths = [math.log(-math.log(one)) for one in _WORTH_LEVELS]
    at, depth = math.log(n), math.log(-math.log(level))
    row = min(max(bisect_right(sizes, at) - 1, 0), len(sizes) - 2)
    # Depths fall from column to column.
    column = min(max(sum(one > depth for one in depths) - 1, 0), len(depths) - 2)
    down = (at - sizes[row]) / (sizes[row + 1] - sizes[row])
    across = (depth - depths[column]) / (depths[column + 1] - depths[column])
    logs = [
        (1 - across) * math.log(worths[column]) + across * math.log(worths[column + 1])
        for _, worths in (_WORTH[row], _WORTH[row + 1])
    ]
    return math.exp((1 - down) * logs[0] + down * logs[1])


def simultaneous_limits(
    count: int, n: int, *, level: float = DEFAULT_LEVEL, design_effect: float = 1.0
) -> tuple[float, float]:
    """Return simultaneous limits for the share of scores that reach a threshold; `count` of n do.

    They are those of Clopper and Pearson at the local level: a distribution function lies between the limits of the
    order statistics on both sides, and ties only make that more likely. With a design effect D of families, `count`
    and n count as count/D and n/D.
    """
    if not 0 <= count <= n or n < 1:
        raise ValueError(f"{count} of {n} is not a share")
    tail = (1 - local_level(n / design_effect, level)) / 2
    reached, rest = count / design_effect, (n - count) / design_effect
    low = beta_quantile(tail, reached, rest + 1) if count else 0.0
    high = beta_quantile(1 - tail, reached + 1, rest) if count < n else 1.0
    return low, high


class RocStep(Struct, frozen=True):
    """What a threshold does, with simultaneous limits for all thresholds; without one, nothing is blocked."""

    threshold: float | None
    found: int
    alarms: int
    recall: float
    recall_low: float
    recall_high: float
    false_positive_rate: float
    false_positive_rate_low: float
    false_positive_rate_high: float


class RocBand(Struct, frozen=True):
    """The ROC curve with its simultaneous band, from the highest threshold to the lowest.

    `steps` are all `thresholds`, or where there are many some of them: those that may be the best for some cost, and
    others evenly spread.
    """

    hits: int
    passes: int
    level: float
    thresholds: int
    steps: tuple[RocStep, ...]
    hits_effect: float = 1.0
    passes_effect: float = 1.0


def roc_band(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    families: npt.ArrayLike | None = None,
    keep: Sequence[float] = (),
    most: int = 200,
    level: float = DEFAULT_LEVEL,
) -> RocBand | None:
    """Return recall and false positive rate of all thresholds, with limits that hold for all of them simultaneously.

    Each class has a band for its distribution function at √level (`simultaneous_limits`). Both are independent, so that
    with probability `level` every threshold lies in the rectangle of its limits (Campbell 1994). Of more than `most`
    thresholds some are returned, `keep` and the corners of the convex hull among them, where alone a cost that is
    linear in both rates has its least value (Provost and Fawcett 2001). With `families`, the design effect is the
    largest that `Design` finds at some thresholds.
    """
    import numpy as np

    check_level(level)
    hits, passes = _sides(labels, scores, families)
    if not len(hits.scores) or not len(passes.scores):
        return None
    thresholds = np.unique(np.concatenate([hits.scores, passes.scores]))[::-1]
    found = len(hits.scores) - np.searchsorted(hits.scores, thresholds)
    alarms = len(passes.scores) - np.searchsorted(passes.scores, thresholds)
    found, alarms = np.concatenate([[0], found]), np.concatenate([[0], alarms])
    places = list(range(len(found)))
    if len(found) > most:
        spread = np.linspace(0, len(found) - 1, most).round().astype(int).tolist()
        wanted = np.searchsorted(-thresholds, [-one for one in keep], "right").tolist() if keep else []
        places = sorted({*spread, *_hull(alarms / len(passes.scores), found / len(hits.scores)), *wanted})
    effects = tuple(_largest_effect(side, level) for side in (hits, passes))
    part = math.sqrt(level)

    def limits(count: int, side: _ClassScores, effect: float) -> tuple[float, float, float]:
        n = len(side.scores)
        return (count / n, *simultaneous_limits(count, n, level=part, design_effect=effect))

    steps = tuple(
        RocStep(
            float(thresholds[at - 1]) if at else None,
            int(found[at]),
            int(alarms[at]),
            *limits(int(found[at]), hits, effects[0]),
            *limits(int(alarms[at]), passes, effects[1]),
        )
        for at in places
    )
    return RocBand(len(hits.scores), len(passes.scores), level, len(thresholds), steps, *effects)


_EFFECTS_TRIED = 12


def _largest_effect(side: _ClassScores, level: float) -> float:
    """Return the largest effect of families on the shares that some thresholds cut off."""
    n = len(side.scores)
    counts = (
        {round(n * step / _EFFECTS_TRIED) for step in range(_EFFECTS_TRIED + 1)} if side.families is not None else ()
    )
    return max([1.0, *(side.effect(count, level) for count in counts)])


def _hull(x: Floats, y: Floats) -> list[int]:
    """Return the places of the corners of the upper convex hull of points that rise in both directions."""
    corners: list[int] = []
    for at in range(len(x)):
        while len(corners) > 1:
            one, two = corners[-2], corners[-1]
            if (x[two] - x[one]) * (y[at] - y[one]) < (y[two] - y[one]) * (x[at] - x[one]):
                break
            corners.pop()
        corners.append(at)
    return corners


# -- precision and costs ----------------------------------------------------------------------------------------------


class Outlook(Struct, frozen=True):
    """A figure of a threshold at a given share of attacks, with simultaneous limits for all thresholds."""

    value: float | None
    low: float | None
    high: float | None


def precision_at(step: RocStep, prevalence: float) -> Outlook:
    """Return the precision of a threshold, π·recall/(π·recall + (1-π)·false positive rate), at a prevalence π.

    It rises with recall and falls with the false positive rate, so that its limits are those of the rectangle. Where
    nothing is blocked it is undefined.
    """

    def at(recall: float, alarms: float) -> float | None:
        blocked = prevalence * recall + (1 - prevalence) * alarms
        return prevalence * recall / blocked if blocked else None

    low = at(step.recall_low, step.false_positive_rate_high)
    high = at(step.recall_high, step.false_positive_rate_low)
    return Outlook(at(step.recall, step.false_positive_rate), low or 0.0, 1.0 if high is None else high)


def expected_cost(step: RocStep, prevalence: float, false_alarm: float, miss: float) -> Outlook:
    """Return the expected cost of a prompt, π·miss·(1 - recall) + (1-π)·false_alarm·(false positive rate)."""

    def at(recall: float, alarms: float) -> float:
        return prevalence * miss * (1 - recall) + (1 - prevalence) * false_alarm * alarms

    return Outlook(
        at(step.recall, step.false_positive_rate),
        at(step.recall_high, step.false_positive_rate_low),
        at(step.recall_low, step.false_positive_rate_high),
    )
