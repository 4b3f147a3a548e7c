"""The rate of true successes behind the verdicts of a judge that errs.

Two situations, two families of estimates. Labels by people for part of this very run: `two_phase`, `ppi_mean`, or the
labels alone. Labels from elsewhere, where the judge was validated: `rogan_gladen` and `lang_reiczigel`, valid only if
the judge errs here as it did there. A validation that cannot carry the correction is refused with a status, and then
there is neither a corrected value nor an interval: a corrected interval never stands beside an uncorrected rate.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from msgspec import Struct

from faircount.core.model import Estimate, Validation
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined, wilson

# Below this a judge tells so little that dividing by it says nothing.
_LEAST_YOUDEN = 0.1
# The level at which a judge must be shown to be better than chance, whatever the level of the interval.
_YOUDEN_LEVEL = 0.95
# With fewer labels of one kind the tuned weight of `ppi_mean` is guesswork and its interval too short.
_FEW_LABELS = 5


class CorrectionStatus(enum.StrEnum):
    """Whether a rate can be corrected for the judge's errors, and if not, why."""

    OK = "ok"
    CLIPPED = "clipped"
    INCOMPATIBLE_WITH_VALIDATION = "incompatible_with_validation"
    NOT_IDENTIFIABLE = "not_identifiable"
    NO_VERDICTS = "no_verdicts"
    TOO_FEW_LABELS = "too_few_labels"
    NOT_RANDOM = "not_random"
    NO_MEASURED_JUDGE = "no_measured_judge"

    @property
    def corrects(self) -> bool:
        """Whether there is a corrected rate."""
        return self in (CorrectionStatus.OK, CorrectionStatus.CLIPPED)


class LabelledPart(Struct, frozen=True):
    """The answers with one verdict: how many, how many of them people labelled, and how many labels say success."""

    judged: int
    labelled: int
    true: int

    def __post_init__(self) -> None:
        if not 0 <= self.true <= self.labelled <= self.judged:
            raise ValueError("true successes cannot outnumber the labels, nor labels the verdicts")

    @property
    def careful_variance(self) -> float:
        """The variance of the share of true successes, with one more of either kind than was seen."""
        share = (self.true + 1) / (self.labelled + 2)
        return share * (1 - share) / self.labelled


class VerdictCounts(Struct, frozen=True):
    """Entries by verdict: of a run, a group, one side of a comparison or a family; and what people labelled of them.

    An entry without a verdict ended in an error or a block, or was not judged: it is no success. `times` says how many
    such families there are. `families` are those of the entries, empty where entries count as independent. `strata`
    divide the judged entries further, where labels were drawn from each of these parts at a rate of its own.
    """

    total: int
    successes: LabelledPart
    failures: LabelledPart
    times: int = 1
    families: tuple[VerdictCounts, ...] = ()
    strata: tuple[LabelledPart, ...] = ()

    @property
    def judged(self) -> int:
        """Entries with a verdict."""
        return self.successes.judged + self.failures.judged

    @property
    def labelled(self) -> int:
        """Entries with a verdict and a label."""
        return self.successes.labelled + self.failures.labelled

    @property
    def true(self) -> int:
        """Entries that people call a success."""
        return self.successes.true + self.failures.true

    @property
    def parts(self) -> tuple[LabelledPart, ...]:
        """The parts that have verdicts."""
        return tuple(part for part in (self.successes, self.failures) if part.judged)

    @property
    def by_verdict(self) -> tuple[int, int, int]:
        """Judged successes, judged failures, and entries without a verdict."""
        return self.successes.judged, self.failures.judged, self.total - self.judged

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of true successes among judged successes, judged failures and the rest; 0 where there is none."""
        found, missed = (
            part.true / part.labelled if part.labelled else 0.0 for part in (self.successes, self.failures)
        )
        return found, missed, 0.0

    @property
    def rate(self) -> float:
        """The rate of true successes over all entries that the labels show."""
        return math.fsum(part.judged / self.total * part.true / part.labelled for part in self.parts)

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts that a rate is a function of, in the order of a `Gradient`."""
        s, f = self.successes, self.failures
        return self.total, s.judged, s.labelled, s.true, f.judged, f.labelled, f.true

    @property
    def one_by_one(self) -> tuple[list[int], list[float], list[float]]:
        """The labels, the verdicts on the same entries, and the verdicts on entries without a label."""
        labels: list[int] = []
        verdicts: list[float] = []
        unlabelled: list[float] = []
        for verdict, part in ((1, self.successes), (0, self.failures)):
            labels += [1] * part.true + [0] * (part.labelled - part.true)
            verdicts += [verdict] * part.labelled
            unlabelled += [verdict] * (part.judged - part.labelled)
        return labels, verdicts, unlabelled


class Correction(Struct, frozen=True):
    """The Rogan-Gladen estimate: as computed, cut to [0, 1], and whether it may be used."""

    raw: float | None
    clipped: float | None
    status: CorrectionStatus


def youden_j(validation: Validation, *, unit: str = "label", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate J = sensitivity + specificity - 1 with the square-and-add interval of two Wilson intervals.

    Low = J - √((Se - low of Se)² + (Sp - low of Sp)²), high alike (Newcombe 1998, method 10, for Se - (1 - Sp)).
    """
    method, n = "square-and-add wilson", validation.positives + validation.negatives
    found = wilson(validation.tp, validation.positives, level=level)
    passed = wilson(validation.tn, validation.negatives, level=level)
    value = validation.youden
    if value is None:
        return undefined(unit, level, method, n)
    downwards = math.hypot(*(_distance(side.value, side.low) for side in (found, passed)))
    upwards = math.hypot(*(_distance(side.value, side.high) for side in (found, passed)))
    return Estimate(value, value - downwards, value + upwards, n, unit, level, method)


def rogan_gladen(
    judged_successes: float, n: int, validation: Validation, *, level: float = DEFAULT_LEVEL
) -> Correction:
    """Correct the rate q = judged successes / n for the judge's errors: (q + Sp - 1)/(Se + Sp - 1).

    Rogan and Gladen 1978. Not identifiable when J = Se + Sp - 1 is at most 0.1, its 95% interval (`youden_j`) reaches
    0, or a class has no label. Incompatible with the validation when the whole interval of Lang and Reiczigel at this
    level lies outside of [0, 1]: there are fewer (or more) successes than the judge's own errors would give.
    Clipped when only the estimate does.
    """
    _check_verdicts(judged_successes, n)
    critical_value(level)
    if n == 0:
        return Correction(None, None, CorrectionStatus.NO_VERDICTS)
    if not _tells_apart(validation):
        return Correction(None, None, CorrectionStatus.NOT_IDENTIFIABLE)
    beyond_false_alarms = judged_successes * validation.negatives - n * (validation.negatives - validation.tn)
    raw = beyond_false_alarms * validation.positives / (n * validation.surplus)
    low, high = _lang_reiczigel_limits(judged_successes, n, validation, level)
    if high < 0 or low > 1:
        status = CorrectionStatus.INCOMPATIBLE_WITH_VALIDATION
    elif 0 <= raw <= 1:
        status = CorrectionStatus.OK
    else:
        status = CorrectionStatus.CLIPPED
    return Correction(raw, _clip(raw), status)


def rate_if_less_specific(judged_successes: float, n: int, validation: Validation, by: float) -> float | None:
    """Return the Rogan-Gladen estimate, cut to [0, 1], if the specificity here is lower by so much than was measured.

    (q + Sp - by - 1)/(Se + Sp - by - 1). None where `rogan_gladen` refuses, or such a judge would be too close to
    chance. How far it is from the estimate shows what a correction rests on: a judge rarely errs everywhere alike.
    """
    _check_verdicts(judged_successes, n)
    if not 0 <= by <= 1:
        raise ValueError(f"a specificity is lower by 0 to 1, not by {by}")
    youden = validation.youden
    if not n or youden is None or not _tells_apart(validation) or youden - by <= _LEAST_YOUDEN:
        return None
    return _clip((judged_successes / n + validation.tn / validation.negatives - by - 1) / (youden - by))


def lang_reiczigel(
    judged_successes: float, n: int, validation: Validation, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the rate behind the verdicts with an interval that also carries the uncertainty of the validation.

    With Se' = (tp+1)/(P+2), Sp' = (tn+1)/(N+2), q' = (x + z²/2)/(n + z²) and p' = (q' + Sp' - 1)/(Se' + Sp' - 1) the
    limits are p' + d ± z·SE, cut to [0, 1], where d = 2z²·(p'·Se'(1-Se')/(P+2) - (1-p')·Sp'(1-Sp')/(N+2)) and
    SE² = (q'(1-q')/(n+z²) + p'²·Se'(1-Se')/(P+2) + (1-p')²·Sp'(1-Sp')/(N+2)) / (Se' + Sp' - 1)². The value is the
    clipped Rogan-Gladen estimate. Lang and Reiczigel 2014. Undefined where `rogan_gladen` refuses.
    """
    correction = rogan_gladen(judged_successes, n, validation, level=level)
    method = "rogan-gladen, lang-reiczigel"
    if not correction.status.corrects:
        return undefined(unit, level, method, n)
    low, high = _lang_reiczigel_limits(judged_successes, n, validation, level)
    return Estimate(correction.clipped, _clip(low), _clip(high), n, unit, level, method)


def two_phase(*parts: LabelledPart, unit: str = "entry", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the rate from labels drawn at random within each part: among the judged successes, and the failures.

    With w the share of entries in a part, and h true successes among its m labels, the estimate is Σw·h/m. Its variance
    is Σw²·s(1-s)/m + Σw·v·(h/m - h'/m')²/n, the second sum over pairs of parts with the shares w and v. s is
    (h+1)/(m+2), so that a part without a surprise is not taken as known (Cochran 1977, chapter 12). The limits are cut
    to [0, 1]. Undefined when a part that has verdicts has no label.
    """
    z = critical_value(level)
    n, method = sum(part.judged for part in parts), "two-phase, post-stratified on the verdict"
    kept = [part for part in parts if part.judged]
    if not kept or not all(part.labelled for part in kept):
        return undefined(unit, level, method, n)
    value = math.fsum(part.judged / n * part.true / part.labelled for part in kept)
    within = math.fsum((part.judged / n) ** 2 * part.careful_variance for part in kept)
    between = math.fsum(
        one.judged / n * other.judged / n * (one.true / one.labelled - other.true / other.labelled) ** 2 / n
        for one, other in combinations(kept, 2)
    )
    half = z * math.sqrt(within + between)
    return Estimate(value, _clip(value - half), _clip(value + half), n, unit, level, method)


def ppi_weight(labels: Sequence[float], verdicts: Sequence[float], unlabelled: Sequence[float]) -> float:
    """Return the weight λ of the verdicts that makes the interval of `ppi_mean` shortest, cut to [0, 1].

    λ = Cov(label, verdict) / ((1 + n/N)·Var(verdict)) for n labelled and N unlabelled answers, the covariance over the
    labelled (divided by n), the variance over all verdicts (divided by n + N - 1). Angelopoulos, Duchi and Zrnic 2023
    (PPI++). It is 0, the labels alone, when there is nothing else or the verdicts never differ.
    """
    _check_pairs(labels, verdicts)
    everything = [*verdicts, *unlabelled]
    if not labels or not unlabelled or min(everything) == max(everything):
        return 0.0
    spread = _variance(everything) * len(everything) / (len(everything) - 1)
    label_mean, verdict_mean = _mean(labels), _mean(verdicts)
    products = (
        (label - label_mean) * (verdict - verdict_mean) for label, verdict in zip(labels, verdicts, strict=True)
    )
    covariance = math.fsum(products) / len(labels)
    return _clip(covariance / ((1 + len(labels) / len(unlabelled)) * spread))


def ppi_mean(
    labels: Sequence[float],
    verdicts: Sequence[float],
    unlabelled: Sequence[float],
    *,
    weight: float | None = None,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate a mean from the labels of some answers, the judge's verdicts on these, and its verdicts on the others.

    mean(label) - λ·(mean(verdict) - mean(unlabelled verdict)) ± z·√(Var(label - λ·verdict)/n + λ²·Var(unlabelled)/N),
    with variances divided by n and N. λ is `weight`: 1 is prediction-powered inference (Angelopoulos et al. 2023), 0
    the labels alone, None the tuned `ppi_weight` (PPI++), which is too sure of itself at low rates with few labels: see
    `labelled_rate`. The limits are not cut to [0, 1]; where nothing varies there are none.
    """
    z = critical_value(level)
    _check_pairs(labels, verdicts)
    chosen = ppi_weight(labels, verdicts, unlabelled) if weight is None else weight
    method = f"prediction-powered mean, weight {chosen:.4g}"
    if not labels or (chosen and not unlabelled):
        return undefined(unit, level, method, len(labels) + len(unlabelled))
    value, variance = _mean(labels), 0.0
    if chosen:
        value -= chosen * (_mean(verdicts) - _mean(unlabelled))
        variance = chosen**2 * _variance(unlabelled) / len(unlabelled)
    rest = [label - chosen * verdict for label, verdict in zip(labels, verdicts, strict=True)]
    half = z * math.sqrt(variance + _variance(rest) / len(rest))
    low, high = (value - half, value + half) if half else (None, None)
    return Estimate(value, low, high, len(labels) + len(unlabelled), unit, level, method)


def labels_only(
    labels: Sequence[float],
    *,
    interval: Literal["wilson", "normal"] = "wilson",
    unit: str = "label",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the rate from labels drawn at random alone, whatever the judge said.

    Wilson's interval for labels 0 and 1 (Wilson 1927), or mean ± z·√(Var/n) with the variance divided by n for any.
    """
    if interval == "wilson":
        if not all(label in (0, 1) for label in labels):
            raise ValueError("Wilson's interval is for labels that are 0 or 1")
        return wilson(int(sum(labels)), len(labels), unit=unit, level=level)
    mean = ppi_mean(labels, labels, (), weight=0.0, level=level)
    return Estimate(mean.value, mean.low, mean.high, len(labels), unit, level, "mean, normal")


def labelled_rate(
    labels: Sequence[int],
    verdicts: Sequence[float],
    unlabelled: Sequence[float],
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the rate from labels of answers drawn at random: `ppi_mean`, tuned, or the labels alone when few.

    With fewer than five labels of one kind the tuned weight rests on too little (its 95% interval covers 86% at a true
    rate of 2% with 100 labels), so Wilson's interval of the labels stands in; the method of the estimate says which.
    """
    if _labels_stand_alone(labels, unlabelled):
        return labels_only(labels, unit=unit, level=level)
    return ppi_mean(labels, verdicts, unlabelled, unit=unit, level=level)


def labelled_weight(labels: Sequence[int], verdicts: Sequence[float], unlabelled: Sequence[float]) -> float:
    """Return the weight of the verdicts in `labelled_rate`: `ppi_weight`, or 0 where the labels stand alone."""
    return 0.0 if _labels_stand_alone(labels, unlabelled) else ppi_weight(labels, verdicts, unlabelled)


def _labels_stand_alone(labels: Sequence[int], unlabelled: Sequence[float]) -> bool:
    return min(sum(labels), len(labels) - sum(labels)) < _FEW_LABELS or not unlabelled


def _check_verdicts(judged_successes: float, n: int) -> None:
    if not 0 <= judged_successes <= n:
        raise ValueError(f"{judged_successes} judged successes out of {n} verdicts is not possible")


def _check_pairs(labels: Sequence[float], verdicts: Sequence[float]) -> None:
    if len(labels) != len(verdicts):
        raise ValueError("every label needs the judge's verdict on the same answer")


def _tells_apart(validation: Validation) -> bool:
    """Return whether the judge is good enough, and surely enough, to divide by."""
    estimate = youden_j(validation, level=_YOUDEN_LEVEL)
    return estimate.value is not None and estimate.value > _LEAST_YOUDEN and (estimate.low or 0.0) > 0


def _lang_reiczigel_limits(
    judged_successes: float, n: int, validation: Validation, level: float
) -> tuple[float, float]:
    """Return the limits before they are cut to [0, 1]."""
    z = critical_value(level)
    sensitivity = (validation.tp + 1) / (validation.positives + 2)
    specificity = (validation.tn + 1) / (validation.negatives + 2)
    youden = sensitivity + specificity - 1
    rate = (judged_successes + z * z / 2) / (n + z * z)
    corrected = (rate + specificity - 1) / youden
    by_sensitivity = sensitivity * (1 - sensitivity) / (validation.positives + 2)
    by_specificity = specificity * (1 - specificity) / (validation.negatives + 2)
    shift = 2 * z * z * (corrected * by_sensitivity - (1 - corrected) * by_specificity)
    variance = rate * (1 - rate) / (n + z * z) + corrected**2 * by_sensitivity + (1 - corrected) ** 2 * by_specificity
    half = z * math.sqrt(variance) / youden
    return corrected + shift - half, corrected + shift + half


def _distance(value: float | None, limit: float | None) -> float:
    return abs((value or 0.0) - (limit or 0.0))


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)
