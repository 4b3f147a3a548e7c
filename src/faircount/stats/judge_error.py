"""The rate of true successes behind the verdicts of a judge that errs, and the difference B - A of two such rates.

Two situations, two families of estimates. Labels by people for part of this very run: `two_phase`, `ppi_mean`, or the
labels alone. Labels from elsewhere, where the judge was validated: `rogan_gladen` and `lang_reiczigel`, valid only if
the judge errs here as it did there. A validation that cannot carry the correction is refused with a status, and then
there is neither a corrected value nor an interval: a corrected interval never stands beside an uncorrected rate.

Differences: `corrected_difference` for one judge that was measured elsewhere, valid only if it errs on both sides as it
did there; `two_phase_difference` for labels of part of both runs; `added_difference` of any two estimates that rest on
labels of their own.

Where entries come in families of variants, a rate that is estimated from labels of some entries is a smooth function of
a few counts over all families. So its variance follows from how families differ in these counts, whatever it is that
variants share: successes, the judge's errors, blocks, or labels.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Estimate, Validation
from faircount.stats.clusters import effective_degrees, expected_correlation
from faircount.stats.distributions import crossing, student_critical_value
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, score_limits, undefined, wilson

# Below this a judge tells so little that dividing by it says nothing.
_LEAST_YOUDEN = 0.1
# The level at which a judge must be shown to be better than chance, whatever the level of the interval.
_YOUDEN_LEVEL = 0.95
# With fewer labels of one kind the tuned weight of `ppi_mean` is guesswork and its interval too short.
_FEW_LABELS = 5


class CorrectionStatus(enum.StrEnum):
    """Whether a rate can be corrected for judge errors; if not, why."""

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
    """The answers with one verdict: how many there are, how many are labelled, and how many labels are successes."""

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
    """Entries by verdict; of a run, a group, one side of a comparison or a family; and their labels.

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
    """Estimate J = sensitivity + specificity - 1; by the square-and-add interval of two Wilson intervals.

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
    """Correct a rate for judge errors (Rogan and Gladen 1978); (q + Sp - 1)/(Se + Sp - 1), q = judged successes / n.

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


def rate_from_shares(rate: float, sensitivity: float, specificity: float) -> float | None:
    """Correct a rate by published shares without counts; (q + Sp - 1)/(Se + Sp - 1), clipped to [0, 1].

    Rogan and Gladen 1978. None where Se + Sp - 1 is at most 0.1. Without counts there is no interval.
    """
    youden = sensitivity + specificity - 1
    # 0.6 + 0.5 - 1 is more than 0.1 by a rounding error.
    return None if youden <= _LEAST_YOUDEN + 1e-12 else _clip((rate + specificity - 1) / youden)


def rate_if_less_specific(judged_successes: float, n: int, validation: Validation, by: float) -> float | None:
    """Return the corrected rate if the judge is less specific here; Rogan-Gladen, cut to [0, 1].

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
    """Correct a rate, with an interval that includes the uncertainty of the validation; see `rogan_gladen`.

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
    """Estimate the rate from labels drawn within each verdict; among the judged successes, and among the failures.

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
    """Return the weight of the verdicts that makes the interval of `ppi_mean` shortest; cut to [0, 1].

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
    """Estimate a mean from some labels and the judge's verdicts on all answers; prediction-powered inference.

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
    """Estimate the rate from randomly drawn labels alone; whatever the judge said.

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
    """Estimate the rate from labels drawn at random; by `ppi_mean`, tuned, or by the labels alone when few.

    With fewer than five labels of one kind the tuned weight rests on too little (its 95% interval covers 86% at a true
    rate of 2% with 100 labels), so Wilson's interval of the labels is used; `method` shows which.
    """
    if _labels_stand_alone(labels, unlabelled):
        return labels_only(labels, unit=unit, level=level)
    return ppi_mean(labels, verdicts, unlabelled, unit=unit, level=level)


def labelled_weight(labels: Sequence[int], verdicts: Sequence[float], unlabelled: Sequence[float]) -> float:
    """Return the weight of the verdicts in `labelled_rate`; `ppi_weight`, or 0 where the labels are used alone."""
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


def _clip(value: float, low: float = 0.0) -> float:
    return min(max(value, low), 1.0)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


# -- labels of entries in families --------------------------------------------------------------------------------

Gradient = tuple[float, ...]
"""By how much a rate grows with each of the counts of `VerdictCounts`."""


class FamilyVariance(Struct, frozen=True):
    """The variance of a rate with families as units, and with entries as units."""

    clustered: float
    independent: float
    degrees: int
    """Degrees of freedom of families of these sizes."""
    labels: int
    floor: float
    """What families add to a variance p(1-p)/n of entries at least, as a multiple of it; see `correlation_floor`."""
    entries: int


def two_phase_gradient(counts: VerdictCounts) -> Gradient:
    """Return the gradient of `two_phase`; the rate over judged entries."""
    parts, shares, n = (counts.successes, counts.failures), counts.shares, counts.judged
    rate = math.fsum(part.judged * share for part, share in zip(parts, shares, strict=False)) / n
    found = [0.0]
    for part, share in zip(parts, shares, strict=False):
        by_label = part.judged / n / part.labelled if part.labelled else 0.0
        found += [(share - rate) / n, -share * by_label, by_label]
    return tuple(found)


def prediction_powered_gradient(counts: VerdictCounts, weight: float) -> Gradient:
    """Return the gradient of `ppi_mean` over judged entries; its weight of the verdicts taken as fixed."""
    successes, labelled = counts.successes, counts.labelled
    others = counts.judged - labelled
    by_label = -counts.true / labelled**2
    verdict = weight / labelled if labelled else 0.0
    seen = successes.labelled / labelled
    # An entry with a label is none of the others, and each term is one of a ratio.
    unseen = weight / others if others else 0.0
    rest = (successes.judged - successes.labelled) / others if others else 0.0
    judged = (unseen * (1 - rest), -unseen * rest)
    with_label = (by_label - verdict * (1 - seen) - judged[0], by_label + verdict * seen - judged[1])
    return (0.0, judged[0], with_label[0], 1 / labelled, judged[1], with_label[1], 1 / labelled)


def over_all_gradient(gradient: Gradient, rate: float, counts: VerdictCounts) -> Gradient:
    """Return the gradient of the rate over all entries; that over judged ones times the share that is judged."""
    judged, entries = counts.judged, counts.total
    scaled = [judged / entries * slope for slope in gradient]
    scaled[0] -= rate * judged / entries**2
    scaled[1] += rate / entries
    scaled[4] += rate / entries
    return tuple(scaled)


def family_variance(gradient: Gradient, families: Iterable[VerdictCounts]) -> FamilyVariance | None:
    """Return the linearised variance of a rate over families; G/(G-1)·Σ(gradient · counts)², and over entries.

    For a plain share this is the CR1 variance of `cluster_wilson` (Liang and Zeger 1986; Binder 1983 for functions of
    totals). None with fewer than two families.
    """
    kinds = [family for family in families if family.total]
    count = sum(family.times for family in kinds)
    if count < 2:
        return None
    squares = math.fsum(family.times * _dot(gradient, family.counts) ** 2 for family in kinds)
    totals = [sum(family.times * family.counts[place] for family in kinds) for place in range(len(gradient))]
    single = math.fsum(times * _dot(gradient, entry) ** 2 for times, entry in _entries(totals))
    sizes = [family.total for family in kinds for _ in range(family.times)]
    labelled = [family.labelled for family in kinds]
    entries = sum(sizes)
    alike = expected_correlation([family.true for family in kinds], labelled, [family.times for family in kinds])
    typical = sum(size * size for size in sizes) / entries
    return FamilyVariance(
        clustered=count / (count - 1) * squares,
        independent=single,
        degrees=effective_degrees(sizes),
        labels=sum(family.times * labels for family, labels in zip(kinds, labelled, strict=True)),
        floor=(typical - 1) * alike,
        entries=entries,
    )


def with_families(estimate: Estimate, variance: FamilyVariance | None) -> Estimate:
    """Return an estimate with the wider of its own and its families' limits; on either side.

    The latter are Wilson's on the effective size p(1-p)/variance, as in `cluster_wilson`, with Student's critical value
    for the effective number of families less 1. The variance is at least that of independent entries and labels and,
    beside it, (m̃ - 1)·E[ρ | labels]·p(1-p)/n for what entries of a family share: few labels of each family cannot show
    how alike they are. Without a variance there is no interval.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if variance is None or value is None or low is None or high is None:
        return replace(estimate, low=None, high=None)
    shared = variance.floor / variance.entries
    if 0 < value < 1 and variance.independent > 0:
        size = value * (1 - value) / max(variance.clustered, variance.independent + shared * value * (1 - value))
    else:
        size = 1 / (1 / max(variance.labels, 1) + shared)
    limits = score_limits(value, size, student_critical_value(estimate.level, variance.degrees))
    return replace(estimate, low=min(low, limits[0]), high=max(high, limits[1]))


def _entries(totals: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield how many entries of each kind there are, and the counts of one of them."""
    entries, *verdicts = totals
    yield entries - verdicts[0] - verdicts[3], (1, 0, 0, 0, 0, 0, 0)
    for place in (0, 3):
        judged, labelled, true = verdicts[place : place + 3]
        for times, counts in ((judged - labelled, (1, 0, 0)), (labelled - true, (1, 1, 0)), (true, (1, 1, 1))):
            yield times, (1, *(0,) * place, *counts, *(0,) * (3 - place))


def _dot(gradient: Sequence[float], counts: Sequence[int]) -> float:
    return math.fsum(slope * count for slope, count in zip(gradient, counts, strict=True))


# -- differences of two rates -------------------------------------------------------------------------------------

# A value that lies on a limit is a rounding error beside it.
_ROUNDING = 1e-9


def corrected_difference(
    difference: Estimate, validation: Validation, *, judged_more: float = 0.0, further_variance: float = 0.0
) -> Estimate:
    """Correct a difference for the errors of one judge; (d - (1-Sp)·w) / (Se + Sp - 1).

    d is the raw difference with any interval of its own, and w (`judged_more`) the share of B's answers that have a
    verdict less that of A's: false alarms fall on those alone. The limits are the D at which 0 is a limit of
    d - Se·D - (1-Sp)·(w - D), whose interval adds the squares of the distances of the limits of d and of Wilson's
    limits of Se and Sp, each times its factor (MOVER: Zou and Donner 2008; for a ratio, Fieller 1954).
    `further_variance` is what w adds to the variance of d. Without blocks the interval leaves out 0 just if that of d
    does. Cut to [-1, 1]; undefined where `rogan_gladen` finds the judge not identifiable or all of the interval lies
    outside of [-1, 1], without limits where d is.
    """
    method = f"{difference.method} / youden, square-and-add"
    status = rogan_gladen(0, 1, validation).status
    if difference.value is None or status == CorrectionStatus.NOT_IDENTIFIABLE or validation.youden is None:
        return undefined(difference.unit, difference.level, method, difference.n)
    alarms = 1 - validation.tn / validation.negatives
    value = _clip((difference.value - alarms * judged_more) / validation.youden, -1.0)
    limits = _limits(difference, validation, judged_more, further_variance, value)
    if limits is None:
        return undefined(difference.unit, difference.level, method, difference.n)
    return Estimate(value, *limits, difference.n, difference.unit, difference.level, method)


def _limits(
    difference: Estimate, validation: Validation, judged_more: float, further_variance: float, value: float
) -> tuple[float | None, float | None] | None:
    """Return the limits, cut to what is possible; None where all of the interval lies outside of that."""
    raw, low, high, level = difference.value, difference.low, difference.high, difference.level
    if raw is None or low is None or high is None:
        return None, None
    found = wilson(validation.tp, validation.positives, level=level)
    alarms = wilson(validation.negatives - validation.tn, validation.negatives, level=level)
    further = critical_value(level) * math.sqrt(further_variance)

    def left(hypothesis: float, sign: int) -> float:
        """Return a limit of what is left of the raw difference if the true one is `hypothesis`: the low for sign -1."""
        by_found, by_alarms = -hypothesis, hypothesis - judged_more
        reach = math.hypot(
            raw - low if sign < 0 else high - raw,
            further,
            by_found * _reach(found, by_found * sign),
            by_alarms * _reach(alarms, by_alarms * sign),
        )
        return raw + by_found * (found.value or 0.0) + by_alarms * (alarms.value or 0.0) + sign * reach

    if left(value, -1) > _ROUNDING or left(value, 1) < -_ROUNDING:
        return None
    return _root(lambda at: left(at, -1), -1.0, value), _root(lambda at: left(at, 1), 1.0, value)


def _reach(estimate: Estimate, direction: float) -> float:
    """Return the distance of the upper limit for a positive direction, of the lower one for a negative."""
    limit = estimate.high if direction > 0 else estimate.low
    return abs((limit or 0.0) - (estimate.value or 0.0))


def _root(function: Callable[[float], float], end: float, value: float) -> float:
    """Return where a function turns on the way from `value` to `end`; `end` where it does not before."""
    if value == end or (function(end) > 0) == (end > 0):
        return end
    return crossing(function, min(end, value), max(end, value))


def two_phase_difference(
    a: VerdictCounts,
    b: VerdictCounts,
    *,
    table: Sequence[Sequence[int]] | None = None,
    family_variance: float | None = None,
    families: int | None = None,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate a difference of two such rates; each from labels drawn at random among those with the same verdict.

    With q_h the shares of judged successes, judged failures and blocks of a side, π_h the share of labels in them that
    say success (0 for blocks) and p = Σq_h·π_h, the value is p_B - p_A and its variance that of `two_phase` of either
    side, less 2·C/n: C = Σ(t_gh - q_g·q_h)·π_g·π_h is what the verdicts of the same entries have in common, with t_gh
    the share of pairs with verdict g in A and h in B (`table`; without it the entries are different ones). What truths
    have in common beyond the verdicts is not credited, which makes the interval too wide rather than too short. With
    families of variants, `family_variance` is that of the difference with families as the units: the larger of both
    variances counts, and the critical value is Student's. Cut to [-1, 1]; undefined when a part that has verdicts has
    no label.
    """
    method = "two-phase difference"
    z = critical_value(level) if families is None else student_critical_value(level, families - 1)
    if table is not None and (
        tuple(map(sum, table)) != a.by_verdict or tuple(map(sum, zip(*table, strict=True))) != b.by_verdict
    ):
        raise ValueError("the table of pairs must add up to the verdicts of both sides")
    n = a.total + b.total if table is None else a.total
    if not a.total or not b.total or not all(part.labelled for side in (a, b) for part in side.parts):
        return undefined(unit, level, method, n)
    value = b.rate - a.rate
    # A covariance below 0 widens, as it should; what is above 0 narrows.
    shared = 0.0 if table is None else _shared(a, b, table)
    within = math.fsum(
        (part.judged / side.total) ** 2 * part.careful_variance for side in (a, b) for part in side.parts
    )
    between = math.fsum(_between(side) / side.total for side in (a, b)) - 2 * shared / a.total
    half = z * math.sqrt(max(within + max(between, 0.0), family_variance or 0.0))
    return Estimate(value, _clip(value - half, -1.0), _clip(value + half, -1.0), n, unit, level, method)


def _between(side: VerdictCounts) -> float:
    """Return the variance of the share of true successes over the verdicts of one side."""
    squares = ((share - side.rate) ** 2 for share in side.shares)
    return math.fsum(weight / side.total * square for weight, square in zip(side.by_verdict, squares, strict=True))


def _shared(a: VerdictCounts, b: VerdictCounts, table: Sequence[Sequence[int]]) -> float:
    """Return the covariance of the shares of true successes over pairs of verdicts."""
    products = (
        table[row][column] / a.total * (of_a - a.rate) * (of_b - b.rate)
        for row, of_a in enumerate(a.shares)
        for column, of_b in enumerate(b.shares)
    )
    return math.fsum(products)


def added_difference(b: Estimate, a: Estimate, *, n: int | None = None, unit: str = "entry") -> Estimate:
    """Estimate the difference of two estimates as if independent, by adding squared distances.

    Low = value - √((b - low of b)² + (high of a - a)²), high alike (MOVER: Zou and Donner 2008). What the two have in
    common would narrow it. Undefined where one of them is, without limits where one has none. Cut to [-1, 1].
    """
    method, count = f"{b.method}, square-and-add", a.n + b.n if n is None else n
    if a.level != b.level:
        raise ValueError("a difference needs estimates of one level")
    if a.value is None or b.value is None:
        return undefined(unit, b.level, method, count)
    value = b.value - a.value
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Estimate(value, None, None, count, unit, b.level, method)
    below, above = math.hypot(b.value - b.low, a.high - a.value), math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(value, _clip(value - below, -1.0), _clip(value + above, -1.0), count, unit, b.level, method)
