"""Quality of a detector that gives scores: ranking, thresholds, calibration.

A sample is a hit (label 1) or a pass (label 0); a higher score means more of a hit, and a detector with threshold t
calls a sample a hit if its score is at least t, so equal scores always move together. A sample with the score NaN
takes no part; the number of those that do is the n of an estimate. With one class only, everything here is undefined.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.proportion import DEFAULT_LEVEL, check_level, critical_value, undefined, wilson
from faircount.stats.special import beta_quantile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Truths = npt.NDArray[np.bool_]

_ONE_SIDED = "clopper-pearson, one-sided"
_MOST_NEEDED = 2.0**53


class ThresholdSweep(Struct, frozen=True):
    """What a detector does at each of its own scores as the threshold, from the lowest to the highest.

    `best_threshold` is the lowest of the `best_count` thresholds with the best F1. Chosen on the labels that it is then
    judged by, it is optimistic: say "tuned on this data", or choose it on another part of the data.
    """

    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    false_positive_rate: tuple[float, ...]
    best_f1: float
    best_threshold: float
    best_count: int


class OperatingPoint(Struct, frozen=True):
    """The lowest threshold that holds a wanted false positive rate with confidence, and what it does.

    `threshold` is None where no score of the data does. Then `most_alarms`, the false alarms that may be seen among
    the passes at hand, says why: None where not even a threshold without a false alarm would do, for which
    `passes_needed` passes are necessary; else passes have the highest scores of all. `false_positive_rate` has the
    one-sided upper limit that holds the wanted rate.
    """

    wanted: float
    level: float
    threshold: float | None
    false_positive_rate: Estimate
    recall: Estimate
    most_alarms: int | None
    passes_needed: int


def roc_auc(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    scale: Literal["logit", "plain"] = "logit",
    unit: str = "sample",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the area under the ROC curve with DeLong's interval.

    AUC = P(score of a hit > score of a pass) + ½·P(equal), over all pairs (Mann and Whitney 1947; Bamber 1975). The
    interval is logit(AUC) ± z·SE/(AUC(1-AUC)), turned back, or on the plain scale AUC ± z·SE cut to [0, 1], with the
    standard error of DeLong, DeLong and Clarke-Pearson 1988. Where that error is 0 or undefined (every pair in the
    right order, say, or a class with one sample) there are no limits: no error seen in so many pairs is not [1, 1].
    """
    z = critical_value(level)
    method = f"mann-whitney, delong, {scale} scale"
    hits, passes = _classes(labels, scores)
    n = len(hits) + len(passes)
    if not len(hits) or not len(passes):
        return undefined(unit, level, method, n)
    auc = float(_shares_beaten(hits, passes).mean())
    error = _delong(hits, passes)
    if not error:
        return Estimate(auc, None, None, n, unit, level, method)
    if scale == "plain":
        return Estimate(auc, max(0.0, auc - z * error), min(1.0, auc + z * error), n, unit, level, method)
    logit, half = math.log(auc / (1 - auc)), z * error / (auc * (1 - auc))
    return Estimate(auc, _expit(logit - half), _expit(logit + half), n, unit, level, method)


def delong_standard_error(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return the standard error of the area under the ROC curve; None when a class has fewer than two samples.

    √(S₁/m + S₀/n): S₁ is the variance over the m hits of the share of passes that each beats (½ per tie), S₀ that over
    the n passes of the share of hits that beat each. DeLong, DeLong and Clarke-Pearson 1988.
    """
    return _delong(*_classes(labels, scores))


def average_precision(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return Σ (recall at a threshold - recall at the next higher one) · precision there, over all thresholds.

    The step sum, without interpolation between thresholds (Manning, Raghavan and Schütze 2008, section 8.4).
    """
    sweep = threshold_sweep(labels, scores)
    if sweep is None:
        return None
    next_higher = (*sweep.recall[1:], 0.0)
    return math.fsum(
        (recall - next_recall) * precision
        for recall, next_recall, precision in zip(sweep.recall, next_higher, sweep.precision, strict=True)
    )


def threshold_sweep(labels: npt.ArrayLike, scores: npt.ArrayLike) -> ThresholdSweep | None:
    """Return precision, recall, F1 and false positive rate for every score as the threshold, and the best F1.

    A sample is called a hit if its score >= threshold. Precision is always defined there: the sample that gave the
    threshold is called a hit. The ROC curve is `false_positive_rate` against `recall` (Fawcett 2006).
    """
    import numpy as np

    hits, passes = _classes(labels, scores)
    if not len(hits) or not len(passes):
        return None
    thresholds = np.unique(np.concatenate([hits, passes]))
    found = len(hits) - np.searchsorted(hits, thresholds)
    alarms = len(passes) - np.searchsorted(passes, thresholds)
    f1 = 2 * found / (found + alarms + len(hits))
    best = np.flatnonzero(f1 == f1.max())
    return ThresholdSweep(
        thresholds=tuple(thresholds.tolist()),
        precision=tuple((found / (found + alarms)).tolist()),
        recall=tuple((found / len(hits)).tolist()),
        f1=tuple(f1.tolist()),
        false_positive_rate=tuple((alarms / len(passes)).tolist()),
        best_f1=float(f1[best[0]]),
        best_threshold=float(thresholds[best[0]]),
        best_count=len(best),
    )


def operating_point(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    false_positive_rate: float,
    *,
    unit: str = "sample",
    level: float = DEFAULT_LEVEL,
) -> OperatingPoint | None:
    """Return the lowest score as threshold whose false positive rate is at most the wanted one, at the level.

    With k false alarms among n passes, the upper limit is the `level` quantile of Beta(k+1, n-k), one-sided (Clopper
    and Pearson 1934); it must not exceed the wanted rate. The limit holds although the threshold is chosen on the same
    data, because a rate that never rises with the threshold needs no correction for having looked at all of them
    (Bates, Angelopoulos, Lei, Malik and Jordan 2021). Which samples are called hits depends on the passes alone, so
    that recall keeps its Wilson interval. Without a single false alarm it takes ln(1 - level)/ln(1 - rate) passes.
    """
    check_level(level)
    if not 0 < false_positive_rate < 1:
        raise ValueError(f"a false positive rate to hold lies strictly between 0 and 1, not at {false_positive_rate}")
    hits, passes = _classes(labels, scores)
    if not len(hits) or not len(passes):
        return None
    most = _most_alarms(len(passes), false_positive_rate, level)
    threshold = None if most is None else _lowest_above(hits, passes, float(passes[len(passes) - 1 - most]))
    needed = max(1, math.ceil(min(math.log1p(-level) / math.log1p(-false_positive_rate), _MOST_NEEDED) - 1e-9))
    if threshold is None:
        nothing = undefined(unit, level, _ONE_SIDED, len(passes)), undefined(unit, level, "wilson", len(hits))
        return OperatingPoint(false_positive_rate, level, None, *nothing, most, needed)
    alarms, found = (int((those >= threshold).sum()) for those in (passes, hits))
    upper = beta_quantile(level, alarms + 1, len(passes) - alarms)
    rate = Estimate(alarms / len(passes), 0.0, upper, len(passes), unit, level, _ONE_SIDED)
    recall = wilson(found, len(hits), unit=unit, level=level)
    return OperatingPoint(false_positive_rate, level, threshold, rate, recall, most, needed)


def _most_alarms(passes: int, wanted: float, level: float) -> int | None:
    """Return with how many false alarms the upper limit is still within the wanted rate; None if with none at all."""
    low, high = -1, passes
    while high - low > 1:
        middle = (low + high) // 2
        if beta_quantile(level, middle + 1, passes - middle) <= wanted:
            low = middle
        else:
            high = middle
    return None if low < 0 else low


def _lowest_above(hits: Floats, passes: Floats, limit: float) -> float | None:
    """Return the lowest score above a limit, or None where there is none."""
    above = [float(those[those > limit][0]) for those in (hits, passes) if those[-1] > limit]
    return min(above, default=None)


def brier_score(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float | None:
    """Return the mean of (score - label)², for scores that are probabilities; None without samples. Brier 1950."""
    truths, values = _samples(labels, scores)
    if not len(values):
        return None
    if values.min() < 0 or values.max() > 1:
        raise ValueError("a Brier score needs probabilities: every score must lie between 0 and 1")
    return float(((values - truths) ** 2).mean())


def _samples(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Truths, Floats]:
    """Return labels and scores of the samples that have a score."""
    import numpy as np

    given, values = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if given.ndim != 1 or given.shape != values.shape:
        raise ValueError("there must be one score for each label")
    if not np.isin(given, (0, 1)).all():
        raise ValueError("a label is 1 (hit) or 0 (pass)")
    scored = ~np.isnan(values)
    return given.astype(bool)[scored], values[scored]


def _classes(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the scores of the hits and those of the passes, rising: in one order, sums round in one way."""
    import numpy as np

    truths, values = _samples(labels, scores)
    return np.sort(values[truths]), np.sort(values[~truths])


def _shares_beaten(scores: Floats, others: Floats) -> Floats:
    """Return for each score the share of the others, which rise, below it, with ½ for each equal one."""
    import numpy as np

    below, up_to = np.searchsorted(others, scores), np.searchsorted(others, scores, "right")
    shares: Floats = (below + up_to) / (2 * len(others))
    return shares


def _delong(hits: Floats, passes: Floats) -> float | None:
    if min(len(hits), len(passes)) < 2:
        return None
    over_hits = _shares_beaten(hits, passes).var(ddof=1) / len(hits)
    over_passes = _shares_beaten(passes, hits).var(ddof=1) / len(passes)
    return math.sqrt(float(over_hits + over_passes))


def _expit(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1 + math.exp(logit))
