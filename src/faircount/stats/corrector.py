"""What is known of a judge, as an object that corrects any rate or difference of its verdicts.

A `Corrector` is made once for a report and shared by all of it: the run, its groups, its attacks, pairs of files and
what gates are judged on. It is either a `MeasuredCorrector`, by the errors of the judge where it was measured, or a
`LabelledCorrector`, by labels of a sample of the very entries. Entries are given as `VerdictCounts`, with families if
these are to be respected: labels show themselves how families differ; a judge measured elsewhere has seen as many
entries as those in families are worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Estimate, Validation
from faircount.stats.comparison import holm
from faircount.stats.design import Design, widening
from faircount.stats.distributions import (
    binomial_at_most,
    hypergeometric_at_most,
    student_critical_value,
    two_sided_normal,
    two_sided_student,
)
from faircount.stats.judge_error import (
    CorrectionStatus,
    Gradient,
    LabelledPart,
    VerdictCounts,
    added_difference,
    corrected_difference,
    family_variance,
    labelled_rate,
    labelled_weight,
    lang_reiczigel,
    over_all_gradient,
    prediction_powered_gradient,
    rate_if_less_specific,
    rogan_gladen,
    two_phase,
    two_phase_difference,
    two_phase_gradient,
    with_families,
)
from faircount.stats.proportion import critical_value, wilson
from faircount.stats.verdict_quality import run_quality

TWO_PHASE, PPI = "two-phase", "ppi"
JUDGED_ENTRY = "judged entry"

LEAST_LABELS_TO_FOOL = 5
"""With fewer labels of its judged successes, no attack can be shown to fool the judge."""
_TRUE_BY_CHANCE = 0.5
EXPECTED_TRUE = (0.8, 0.05)
"""The share of true successes that is expected of either verdict before any label: the judge is good, not perfect."""
_LEAST_DRAWN = 5
# Labels whose share of judged successes lies more standard errors from that of the run are not taken as random. One in
# ten random samples is refused for nothing: that costs little, since the two-phase estimate is there for it.
_RANDOM_WITHIN = 1.645

PairTable = Sequence[Sequence[int]]
"""Pairs of entries by the verdicts of A (rows) and of B: success, failure, none."""


class CorrectedRates(Struct, frozen=True):
    """The corrected rate over all entries and over judged ones; or why there is none."""

    status: CorrectionStatus
    estimate: Estimate | None = None
    judged: Estimate | None = None


class Corrector(Struct, frozen=True):
    """A judge's known errors, which correct any rate or difference of its verdicts.

    The level is that of all intervals. Labels make a rate only where there are at least `least_labels` of either
    verdict, or all entries with it are labelled.
    """

    level: float
    least_labels: int = 1

    def rate(self, counts: VerdictCounts) -> CorrectedRates:
        """Return the rate behind the verdicts on some entries."""
        raise NotImplementedError

    def difference(
        self,
        a: VerdictCounts,
        b: VerdictCounts,
        raw: Estimate,
        *,
        table: PairTable | None = None,
        effective_n: float | None = None,
    ) -> tuple[Estimate, float | None]:
        """Return the difference B - A behind a raw one, and its p-value.

        `table` counts the pairs of the same entries, None where the entries are different ones; `effective_n` is how
        many independent pairs the raw difference is worth. There is no p where the test of the raw difference is also
        that of the corrected one.
        """
        raise NotImplementedError


class MeasuredCorrector(Corrector, frozen=True, kw_only=True):
    """A corrector for a judge measured on other labels; it is assumed to err here as it did there."""

    validation: Validation

    @property
    def quality(self) -> tuple[Estimate, Estimate]:
        """The sensitivity and the specificity where it was measured, with Wilson's intervals."""
        v = self.validation
        return (
            wilson(v.tp, v.positives, unit="label", level=self.level),
            wilson(v.tn, v.negatives, unit="label", level=self.level),
        )

    def rate(self, counts: VerdictCounts) -> CorrectedRates:
        """Return the rate of Rogan and Gladen 1978 with the interval of Lang and Reiczigel 2014, see `lang_reiczigel`.

        n entries in families count as n/`widening`, rounded down, with the same share of successes: the effective
        sample size (Kish 1965). One family shows nothing of how families differ, so that there is no interval.
        """
        if not counts.judged:
            return CorrectedRates(CorrectionStatus.NO_VERDICTS)
        successes, worth, has_interval = self._effective(counts)
        status = rogan_gladen(successes, worth, self.validation, level=self.level).status
        if not status.corrects:
            return CorrectedRates(status)
        judged = lang_reiczigel(successes, worth, self.validation, unit=JUDGED_ENTRY, level=self.level)
        judged = replace(judged, n=counts.judged)
        if not has_interval:
            judged = replace(judged, low=None, high=None)
        return CorrectedRates(status, rate_over_all(judged, counts), judged)

    def if_less_specific(self, counts: VerdictCounts, by: float) -> float | None:
        """Return the rate over all entries if the judge's specificity is lower here by so much."""
        rate = rate_if_less_specific(counts.successes.judged, counts.judged, self.validation, by)
        return None if rate is None else rate * counts.judged / counts.total

    def all_false_alarms(self, counts: VerdictCounts) -> bool:
        """Return whether all judged successes could be false alarms, and most of them must be.

        So it is where the corrected interval holds 0 and ends below the raw one, Wilson's on the same effective number
        of entries.
        """
        corrected = self.rate(counts).judged
        _, worth, _ = self._effective(counts)
        raw = wilson(math.floor(counts.successes.judged / counts.judged * worth), worth, level=self.level)
        if corrected is None or corrected.low is None or corrected.high is None or raw.low is None:
            return False
        return corrected.low == 0 and corrected.high < raw.low

    def difference(
        self,
        a: VerdictCounts,
        b: VerdictCounts,
        raw: Estimate,
        *,
        table: PairTable | None = None,
        effective_n: float | None = None,
    ) -> tuple[Estimate, float | None]:
        """Return `corrected_difference`. The judge of both sides must be this one; there is no p of its own."""
        more = b.judged / b.total - a.judged / a.total
        further = self._of_false_alarms(a, b, table)
        if table is not None and effective_n:
            further *= max(1.0, raw.n / effective_n)
        return corrected_difference(raw, self.validation, judged_more=more, further_variance=further), None

    def _of_false_alarms(self, a: VerdictCounts, b: VerdictCounts, table: PairTable | None) -> float:
        """Return what false alarms add to the variance where entries of one side alone have no verdict.

        With W the successes and J the verdicts of an entry, of B less those of A, and f the rate of false alarms, it is
        (Var(W - f·J) - Var(W))/n = (f²·Var(J) - 2f·Cov(W, J))/n, never taken as below 0.
        """
        if a.judged == a.total and b.judged == b.total:
            return 0.0
        alarms, won, judged = 1 - self.validation.tn / self.validation.negatives, (1, 0, 0), (1, 1, 0)
        if table is None:
            sides = [zip(side.by_verdict, won, judged, strict=True) for side in (a, b)]
            return sum(_added(list(side), alarms) for side in sides)
        pairs = [
            (times, won[column] - won[row], judged[column] - judged[row])
            for row, counts in enumerate(table)
            for column, times in enumerate(counts)
        ]
        return _added(pairs, alarms)

    def _effective(self, counts: VerdictCounts) -> tuple[float, int, bool]:
        """Return the judged successes and entries that entries in families are worth, and whether an interval shows."""
        judged, successes, kinds = counts.judged, counts.successes.judged, counts.families
        has_interval = not kinds or sum(kind.times for kind in kinds if kind.total) > 1
        worth = max(1, math.floor(judged / _widening(counts, self.level)))
        return (successes if worth == judged else successes / judged * worth), worth, has_interval


def _widening(counts: VerdictCounts, level: float) -> float:
    """Return the factor by which families widen the variance of the raw rate; see `widening`."""
    won, sizes = [kind.successes.judged for kind in counts.families], [kind.total for kind in counts.families]
    design = Design(families=True, level=level)
    return widening(design.rate(won, sizes, times=[kind.times for kind in counts.families]))


def _added(kinds: Sequence[tuple[int, int, int]], alarms: float) -> float:
    """Return Var(W - f·J) - Var(W) of a mean over entries, given as how many have which W and J."""
    n = sum(times for times, _, _ in kinds)
    won, judged = sum(times * w for times, w, _ in kinds) / n, sum(times * j for times, _, j in kinds) / n
    covariance = sum(times * w * j for times, w, j in kinds) / n - won * judged
    variance = math.fsum(times * (j - judged) ** 2 for times, _, j in kinds) / n
    return max(alarms**2 * variance - 2 * alarms * covariance, 0.0) / n


class LabelledCorrector(Corrector, frozen=True, kw_only=True):
    """A corrector made from labels of a sample; drawn within verdicts for `two_phase`, else for `labelled_rate`."""

    method: str = TWO_PHASE

    def quality(self, counts: VerdictCounts) -> tuple[Estimate, Estimate]:
        """Return the sensitivity and the specificity that the labels show, each verdict weighing as in the run."""
        found = run_quality([counts.successes], [counts.failures], level=self.level)
        return found.sensitivity, found.specificity

    def drawn_at_random(self, counts: VerdictCounts) -> bool:
        """Return whether the verdicts of the labelled entries are like those of a random choice among all.

        With m labels of n entries and a share q of judged successes, those among the labels must lie within 1.645
        standard errors of m·q, or within 1; the variance is the hypergeometric m·q(1-q)(n-m)/(n-1).
        """
        labels, total = counts.labelled, counts.judged
        if not labels:
            return False
        share = counts.successes.judged / total
        variance = labels * share * (1 - share) * (total - labels) / max(1, total - 1)
        return abs(counts.successes.labelled - labels * share) <= max(1.0, _RANDOM_WITHIN * math.sqrt(variance))

    def rate(self, counts: VerdictCounts) -> CorrectedRates:
        """Return the rate by `two_phase` or `labelled_rate`, its limits by `with_families` where there are any.

        With three strata or more, families widen the variance by what they add to the choice of entries,
        (widening - 1)·p(1-p)/n.
        """
        if not counts.judged:
            return CorrectedRates(CorrectionStatus.NO_VERDICTS)
        is_stratified = self.method == TWO_PHASE and len(counts.strata) > 2
        if not self._enough(*counts.parts, *(counts.strata if is_stratified else ())):
            return CorrectedRates(CorrectionStatus.TOO_FEW_LABELS)
        if is_stratified:
            judged = two_phase(*counts.strata, unit=JUDGED_ENTRY, level=self.level)
            value, factor = judged.value or 0.0, _widening(counts, self.level)
            judged = _spread(judged, (factor - 1) * value * (1 - value) / judged.n)
            return CorrectedRates(CorrectionStatus.OK, rate_over_all(judged, counts), judged)
        judged = self._alone(counts)
        estimate = rate_over_all(judged, counts)
        if counts.families:
            gradient = self._gradient(counts)
            judged, rate = with_families(judged, family_variance(gradient, counts.families)), judged.value or 0.0
            everything = over_all_gradient(gradient, rate, counts)
            estimate = with_families(estimate, family_variance(everything, counts.families))
        return CorrectedRates(CorrectionStatus.OK, estimate, judged)

    def labels_to_halve(self, counts: VerdictCounts) -> int | None:
        """Return how many more labels, shared out as these are, would halve the two-phase interval; None if none would.

        Labels narrow only what is unknown about the judge, the first sum of `two_phase`; the rest of the variance, with
        what families and entries without a verdict add to it, stays however many there are.
        """
        variance = family_variance(two_phase_gradient(counts), counts.families) if counts.families else None
        if counts.families and variance is None:
            return None
        n, parts = counts.judged, counts.parts
        rate = two_phase(*parts, level=self.level).value or 0.0
        within = math.fsum((part.judged / n) ** 2 * part.careful_variance for part in parts)
        between = math.fsum(part.judged / n * (part.true / part.labelled - rate) ** 2 / n for part in parts)
        further = 0.0 if variance is None else max(0.0, variance.clustered - variance.independent)
        between += further + rate**2 * (1 - n / counts.total) / n
        left = (within + between) / 4 - between
        if left <= 0:
            return None
        more = math.ceil(counts.labelled * (within / left - 1))
        return more if counts.labelled + more <= n else None

    def difference(
        self,
        a: VerdictCounts,
        b: VerdictCounts,
        raw: Estimate,
        *,
        table: PairTable | None = None,
        effective_n: float | None = None,
    ) -> tuple[Estimate, float | None]:
        """Return `two_phase_difference` or, with `ppi` and of different entries in families, `added_difference`.

        p is that of the distance from 0 in standard errors, as the interval has them.
        """
        del effective_n  # What families cost is in the labels.
        families = min((len(side.families) for side in (a, b) if side.families), default=None)
        if self.method == PPI or (families is not None and table is None):
            first, second = self.rate(a).estimate, self.rate(b).estimate
            assert first is not None and second is not None
            found = added_difference(second, first, n=raw.n, unit=raw.unit)
        else:
            found = two_phase_difference(
                a,
                b,
                table=table,
                family_variance=self._variance_of_pairs(a, b),
                families=None if families == 1 else families,
                unit=raw.unit,
                level=self.level,
            )
            if families == 1:
                found = replace(found, low=None, high=None)
        return found, _p_of(found, families)

    def _alone(self, counts: VerdictCounts) -> Estimate:
        """Return the rate over judged entries as if entries were independent."""
        if self.method == TWO_PHASE:
            return two_phase(counts.successes, counts.failures, unit=JUDGED_ENTRY, level=self.level)
        found = labelled_rate(*counts.one_by_one, unit=JUDGED_ENTRY, level=self.level)
        value, low, high = (
            None if limit is None else min(max(limit, 0.0), 1.0) for limit in (found.value, found.low, found.high)
        )
        return replace(found, value=value, low=low, high=high, n=counts.judged)

    def _enough(self, *parts: LabelledPart) -> bool:
        if self.method == PPI:
            return any(part.labelled for part in parts)
        return all(part.labelled >= min(self.least_labels, part.judged) for part in parts)

    def _gradient(self, counts: VerdictCounts) -> Gradient:
        if self.method == TWO_PHASE:
            return two_phase_gradient(counts)
        return prediction_powered_gradient(counts, labelled_weight(*counts.one_by_one))

    def _variance_of_pairs(self, a: VerdictCounts, b: VerdictCounts) -> float | None:
        """Return G/(G-1)·Σ(what a family adds to the difference)², linearised as in `family_variance`."""
        import numpy as np

        count = len(a.families)
        if count < 2:
            return None
        first, second = (
            np.array([family.counts for family in side.families], float) @ np.array(self._gradient_over_all(side))
            for side in (a, b)
        )
        return count / (count - 1) * float(((second - first) ** 2).sum())

    def _gradient_over_all(self, side: VerdictCounts) -> Gradient:
        over_all = rate_over_all(self._alone(side), side).value or 0.0
        return over_all_gradient(two_phase_gradient(side), over_all * side.total / side.judged, side)


def rate_over_all(judged: Estimate, counts: VerdictCounts) -> Estimate:
    """Return the rate over all entries; the share s with a verdict times the rate p among those.

    An entry without a verdict has no answer that could be a success, or counts as none as in the raw rate. The limits
    lie as far as those of p, times s, with the standard error p·√(s(1-s)/n) of the share added as roots of squares are
    (the delta method for a product; MOVER: Zou and Donner 2008).
    """
    share = counts.judged / counts.total
    scaled = Estimate(
        None if judged.value is None else share * judged.value,
        None if judged.low is None else share * judged.low,
        None if judged.high is None else share * judged.high,
        counts.total,
        "entry",
        judged.level,
        judged.method,
    )
    return _spread(scaled, (judged.value or 0.0) ** 2 * share * (1 - share) / counts.total)


def _spread(estimate: Estimate, variance: float) -> Estimate:
    """Return an estimate with a further, independent variance in its interval."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None or not variance:
        return estimate
    further = critical_value(estimate.level) * math.sqrt(variance)
    # A limit may lie on the wrong side of the value, where that was cut to what is possible.
    low = min(low, value) if low > value else value - math.hypot(value - low, further)
    high = max(high, value) if high < value else value + math.hypot(high - value, further)
    return replace(estimate, low=max(low, 0.0), high=min(high, 1.0))


def _p_of(difference: Estimate, families: int | None) -> float | None:
    """Return the p-value that there is no difference, by the limit nearer to 0; None where there is no interval."""
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return None
    reach = value - low if value > 0 else high - value
    if not reach:
        return None
    if families is None:
        return two_sided_normal(value / reach * critical_value(difference.level))
    return two_sided_student(value / reach * student_critical_value(difference.level, families - 1), families - 1)


def attacks_that_fool(tested: Sequence[tuple[Sequence[bool], Sequence[bool]]], level: float) -> list[bool]:
    """Return which attacks are shown to fool the judge, adjusted for their number (Holm 1979).

    An attack is given by the labels of its judged successes, and those of the others. It is shown if fewer than half of
    its own are true, and a smaller share of them than of the others: p is the larger one of the binomial test against a
    half and of Fisher's exact test, both one-sided. With fewer than five labels of its own, or none of others, it is
    not tested.
    """
    return [p is not None and p <= 1 - level for p in holm([_p_of_true(own, others) for own, others in tested])]


def _p_of_true(own: Sequence[bool], others: Sequence[bool]) -> float | None:
    if len(own) < LEAST_LABELS_TO_FOOL or not others:
        return None
    true = sum(own)
    against_half = binomial_at_most(true, len(own), _TRUE_BY_CHANCE)
    against_others = hypergeometric_at_most(true, len(own), true + sum(others), len(own) + len(others))
    return min(1.0, max(against_half, against_others))


def allocate_labels(
    successes: int, failures: int, n: int, expected: tuple[float, float] = EXPECTED_TRUE
) -> tuple[int, int]:
    """Divide n labels between judged successes and failures; how many of either to draw for `two_phase`.

    By size times the expected deviation √(p(1-p)) of the labels (Neyman 1934), and a few for each. `expected` are the
    shares p of true successes in the two, strictly between 0 and 1.
    """
    weights = [
        size * math.sqrt(share * (1 - share)) for size, share in zip((successes, failures), expected, strict=True)
    ]
    least = max(1, min(_LEAST_DRAWN, n // 4))
    first = min(max(least, round(n * weights[0] / sum(weights))), n - least, successes)
    second = min(n - first, failures)
    # What one verdict cannot use goes to the other.
    return min(n - second, successes), second


def draw_evenly(
    entries: Sequence[tuple[int, int | None]], count: int, generator: Random
) -> list[tuple[int, int | None]]:
    """Draw a systematic sample of entries, evenly over their values (Cochran 1977, ch. 8).

    An entry comes with its value of a field. They are put in the order of the values, and every k-th is taken.
    """
    if not count:
        return []
    shuffled = list(entries)
    generator.shuffle(shuffled)
    shuffled.sort(key=lambda pair: (pair[1] is not None, pair[1] or 0))
    step = len(shuffled) / count
    start = generator.random() * step
    return [shuffled[min(len(shuffled) - 1, math.floor(start + place * step))] for place in range(count)]
