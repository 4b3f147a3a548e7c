"""The success rate behind the verdicts: by labels of a sample of the run, or by what is known of the judge elsewhere.

A rate over all entries is the share that has a verdict times the rate among those: an entry that ended in an error or a
block has no answer that could be a success, and one without a verdict counts as no success, as in the raw rate. Where
entries come in families, a judge measured elsewhere has seen as many as they are worth; labels of the run show
themselves how families differ.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.correction.families import PPI, TWO_PHASE, labelled_families, one_by_one, respecting
from faircount.analysis.correction.inputs import Quality
from faircount.analysis.correction.label_sample import Sampled, groups_without_labels, sampled_entries
from faircount.analysis.correction.measured_judge import measured_judge
from faircount.analysis.correction.run_judges import judges_of_run
from faircount.analysis.correction.wording import FEW_LABELS, MANY_REQUESTS, NOT_AT_RANDOM, not_corrected, promise
from faircount.findings import counted, finding
from faircount.ledger.store import LedgerView
from faircount.model import (
    Counts,
    Estimate,
    Families,
    Finding,
    JudgeCorrection,
    LabelCounts,
    LessSpecific,
    Tally,
    Validation,
)
from faircount.stats import wilson
from faircount.stats.distributions import student_critical_value
from faircount.stats.judge_error import (
    CorrectionStatus,
    LabelledPart,
    labelled_rate,
    lang_reiczigel,
    rate_if_less_specific,
    rogan_gladen,
    two_phase,
    youden_j,
)
from faircount.stats.proportion import critical_value, undefined

TOO_FEW = "too_few_labels"
_RANDOM_WITHIN = 1.645
"""Labels whose share of judged successes lies more standard errors from that of the run are not taken as random.

One in ten random samples is refused for nothing: that costs little, since the two-phase estimate is there for it.
"""
LESS_SPECIFIC = 0.03
"""By how much a specificity is taken to be lower, to show how much a corrected rate depends on it."""
SHOWN = (CorrectionStatus.OK, CorrectionStatus.CLIPPED)


class Run(Struct, frozen=True):
    """What a correction needs to know of the run. `widening` is None where no interval can be had."""

    tally: Tally
    requests: int
    level: float
    widening: float | None
    judges: tuple[str | None, ...]

    @property
    def rate(self) -> float:
        return self.tally.success / self.tally.judged


def correct(
    ledger: LedgerView,
    counts: Counts,
    families: Families,
    quality: Quality,
    *,
    level: float,
    method: str = TWO_PHASE,
    family: str | None = None,
) -> tuple[JudgeCorrection, list[Finding]]:
    """Return the corrected rate of the entries counted, and what is doubtful about it.

    `family` is the column of `entry` that says what family an entry belongs to.
    """
    run = Run(counts.tally, counts.attempts, level, _widening(families, counts.tally, level), judges_of_run(ledger))
    if quality.sample is None:
        return _by_measured_judge(quality, run)
    sampled = sampled_entries(ledger, counts.tally, quality.sample)
    return _by_sample(ledger, quality, replace(run, widening=1.0), sampled, method, family)


def _widening(families: Families, tally: Tally, level: float) -> float | None:
    """Return the factor by which families widen the variance of a rate, at least 1.

    That a few families show little of how families differ is in it, by Student's critical value in place of the normal.
    """
    if not families.respected:
        return 1.0
    if not families.effective_n or not families.count:
        return None
    few = student_critical_value(level, families.count - 1) / critical_value(level)
    return few**2 * max(1.0, tally.total / families.effective_n)


# -- a judge that was measured elsewhere ------------------------------------------------------------------------


def _by_measured_judge(quality: Quality, run: Run) -> tuple[JudgeCorrection, list[Finding]]:
    measured = measured_judge(quality, run.judges)
    cells, level = measured.counts, run.level
    status, judged, reason = "no_measured_judge", None, measured.refused
    found, passed = undefined("label", level, "wilson"), undefined("label", level, "wilson")
    validation = None
    if cells is not None:
        validation = Validation(cells.tp, cells.hits, cells.tn, cells.passes)
        status, judged = measured_rate(run, validation)
        found = wilson(cells.tp, cells.hits, unit="label", level=level)
        passed = wilson(cells.tn, cells.passes, unit="label", level=level)
        reason = not_corrected(status, found, passed, youden_j(validation))
    doubts = []
    if measured.unmeasured:
        doubts.append(finding("F031", 1, f"this rate rests on an unmeasured judge: {measured.unmeasured}"))
    if measured.unsure:
        doubts.append(finding("F032", 1, measured.unsure))
    if cells is not None and run.requests > run.tally.total:
        doubts.append(finding("F032", run.requests, MANY_REQUESTS.format(run.requests / run.tally.total)))
    correction = JudgeCorrection(
        file=quality.path,
        labels_from="elsewhere",
        method="rogan-gladen",
        status=status,
        estimate=None if judged is None else over_all(judged, run.tally, level),
        judged=judged,
        judge=measured.judge,
        run_judges=run.judges,
        sensitivity=found,
        specificity=passed,
        labels=LabelCounts(0, 0) if cells is None else LabelCounts(cells.n, cells.hits, cells.errors),
        if_less_specific=None if judged is None or validation is None else _if_less_specific(run, validation),
        validation=validation,
    )
    return _told(correction, reason, doubts)


def _if_less_specific(run: Run, validation: Validation) -> LessSpecific | None:
    """Return the rate over all entries if the judge's specificity is lower here than where it was measured."""
    tally = run.tally
    rate = rate_if_less_specific(tally.success, tally.judged, validation, LESS_SPECIFIC)
    return None if rate is None else LessSpecific(LESS_SPECIFIC, rate * tally.judged / tally.total)


def measured_rate(run: Run, validation: Validation) -> tuple[str, Estimate | None]:
    """Return the rate among judged entries by the errors of a judge elsewhere, and whether there is one."""
    judged = run.tally.judged
    if not judged:
        return CorrectionStatus.NO_VERDICTS, None
    # Entries in families are worth fewer, with the same share of successes among them.
    worth = max(1, math.floor(judged / (run.widening or 1.0)))
    successes = run.tally.success if worth == judged else run.rate * worth
    status = rogan_gladen(successes, worth, validation, level=run.level).status
    if status not in SHOWN:
        return status, None
    estimate = lang_reiczigel(successes, worth, validation, unit="judged entry", level=run.level)
    return status, replace(_without_interval(estimate) if run.widening is None else estimate, n=judged)


# -- labels of a sample of the run ------------------------------------------------------------------------------


def _by_sample(
    ledger: LedgerView, quality: Quality, run: Run, sampled: Sampled, method: str, family: str | None
) -> tuple[JudgeCorrection, list[Finding]]:
    status, judged, reason = _from_labels(run, sampled, method)
    estimate = None if judged is None else over_all(judged, run.tally, run.level)
    further: float | None = 0.0
    if judged is not None and estimate is not None and family is not None:
        families = labelled_families(ledger, family, sampled.found)
        judged, estimate, further = respecting(families, sampled, run.tally, (judged, estimate), method)
    doubts = []
    groups = groups_without_labels(ledger, sampled)
    if groups:
        doubts.append(
            finding(
                "F032", 1, f"no label falls on {groups}: the rate holds only if the judge errs there in the same way"
            )
        )
    if sampled.incomplete:
        entries = counted(sampled.incomplete, "entry", "entries")
        message = f"{entries} left out since not every row that has a verdict has a label: label the attack rows, too"
        doubts.append(finding("F032", sampled.incomplete, message))
    found, passed = _shares(run, sampled)
    correction = JudgeCorrection(
        file=quality.path,
        labels_from="run",
        method=method,
        status=status,
        estimate=estimate,
        judged=judged,
        judge=None,
        run_judges=run.judges,
        sensitivity=found,
        specificity=passed,
        labels=LabelCounts(sampled.labels, sampled.hits, sampled.left_out),
        more_labels=labels_to_halve(run.tally, sampled, further, run.level)
        if judged is not None and method == TWO_PHASE
        else None,
    )
    return _told(correction, reason, doubts)


def _from_labels(run: Run, sampled: Sampled, method: str) -> tuple[str, Estimate | None, str]:
    if not run.tally.judged:
        return CorrectionStatus.NO_VERDICTS, None, "no entry has a verdict"
    if method == PPI and (not sampled.labels or not _at_random(sampled)):
        labelled = sampled.successes.labelled
        return "not_random", None, NOT_AT_RANDOM.format(labelled, sampled.labels, 100 * run.rate)
    estimate = labelled_rate_of(run, sampled.successes, sampled.failures, method)
    if estimate.value is None:
        return TOO_FEW, None, FEW_LABELS.format(sampled.successes.labelled, sampled.failures.labelled)
    return CorrectionStatus.OK, estimate, ""


def labelled_rate_of(run: Run, successes: LabelledPart, failures: LabelledPart, method: str) -> Estimate:
    """Return the rate among judged entries by labels of some of them; undefined where there are none of a verdict."""
    if method == PPI:
        estimate = _prediction_powered(successes, failures, run.level)
    else:
        estimate = two_phase(successes, failures, unit="judged entry", level=run.level)
    return estimate if estimate.value is None else widened(replace(estimate, n=run.tally.judged), run)


def _at_random(sampled: Sampled) -> bool:
    """Tell whether the verdicts of the labelled entries are like those of a random choice among all."""
    if sampled.by_verdict:
        return False
    chosen, total = sampled.labels, sampled.successes.judged + sampled.failures.judged
    share = sampled.successes.judged / total
    variance = chosen * share * (1 - share) * (total - chosen) / max(1, total - 1)
    return abs(sampled.successes.labelled - chosen * share) <= max(1.0, _RANDOM_WITHIN * math.sqrt(variance))


def _prediction_powered(successes: LabelledPart, failures: LabelledPart, level: float) -> Estimate:
    found = labelled_rate(*one_by_one(successes, failures), unit="judged entry", level=level)
    cut = [None if limit is None else min(max(limit, 0.0), 1.0) for limit in (found.value, found.low, found.high)]
    return replace(found, value=cut[0], low=cut[1], high=cut[2])


def widened(estimate: Estimate, run: Run) -> Estimate:
    """Add what families add to the variance: that of the choice of entries, less what is in it already."""
    if run.widening is None:
        return _without_interval(estimate)
    rate = estimate.value or 0.0
    return _spread(estimate, (run.widening - 1) * rate * (1 - rate) / estimate.n)


def _shares(run: Run, sampled: Sampled) -> tuple[Estimate, Estimate]:
    """Return the sensitivity and the specificity that the labels show, each verdict weighing as in the run."""
    hits, passes = [0.0, 0.0], [0.0, 0.0]
    for place, part in enumerate((sampled.successes, sampled.failures)):
        if part.judged and part.labelled:
            hits[place] = part.judged * part.true / part.labelled
            passes[place] = part.judged - hits[place]
    known = all(part.labelled or not part.judged for part in (sampled.successes, sampled.failures))
    pairs = ((hits[0], sum(hits)), (passes[1], sum(passes)))
    found, passed = (
        Estimate(part / whole if known and whole else None, None, None, sampled.labels, "label", run.level, "weighted")
        for part, whole in pairs
    )
    return found, passed


def labels_to_halve(tally: Tally, sampled: Sampled, further: float | None, level: float) -> int | None:
    """Return how many more labels, shared out as these are, would halve the interval; None where none would do.

    Labels narrow only what is unknown about the judge; the rest of the variance stays, however many there are.
    `further` is what families add to it, None where nobody knows.
    """
    parts = [part for part in (sampled.successes, sampled.failures) if part.judged]
    estimate = two_phase(sampled.successes, sampled.failures, level=level)
    if further is None or estimate.value is None:
        return None
    n, rate = tally.judged, estimate.value
    within = math.fsum((part.judged / n) ** 2 * part.careful_variance for part in parts)
    shares = [part.true / part.labelled for part in parts]
    between = math.fsum(part.judged / n * (share - rate) ** 2 / n for part, share in zip(parts, shares, strict=True))
    between += further + rate**2 * (1 - n / tally.total) / n
    left = (within + between) / 4 - between
    if left <= 0:
        return None
    more = math.ceil(sampled.labels * (within / left - 1))
    return more if sampled.labels + more <= n else None


# -- over all entries -------------------------------------------------------------------------------------------


def over_all(judged: Estimate, tally: Tally, level: float) -> Estimate:
    """Return the rate over all entries: the share with a verdict times the rate among those.

    The limits have the distance of those of the rate among the judged, times the share, with the standard error of the
    share added as square roots of squares are.
    """
    share = tally.judged / tally.total
    scaled = Estimate(
        None if judged.value is None else share * judged.value,
        None if judged.low is None else share * judged.low,
        None if judged.high is None else share * judged.high,
        tally.total,
        "entry",
        level,
        judged.method,
    )
    return _spread(scaled, (judged.value or 0.0) ** 2 * share * (1 - share) / tally.total)


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


def _without_interval(estimate: Estimate) -> Estimate:
    return replace(estimate, low=None, high=None)


def _told(correction: JudgeCorrection, reason: str, doubts: list[Finding]) -> tuple[JudgeCorrection, list[Finding]]:
    """Return a correction with its sentences, and a finding where there is no corrected rate."""
    if correction.estimate is None:
        doubts = [finding("F030", 1, f"the rate cannot be corrected for its judge: {reason}"), *doubts]
        return replace(correction, reason=reason, sentences=(f"Not corrected: {reason}.",)), doubts
    return replace(correction, sentences=promise(correction)), doubts
