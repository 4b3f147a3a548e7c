"""A corrected rate in a report: its section, what it rests on in words, and why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from faircount.core.findings import counted
from faircount.core.model import Analysis, CorrectedRate, Estimate, JudgeCorrection
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.report.blocks import Block, Cell, Fact, Facts, Paragraph, Place, Record, Section
from faircount.stats.judge_error import CorrectionStatus, VerdictCounts

_FEW_LABELS = "labels are needed of both judged successes and judged failures; there are {} and {}"
_NOT_AT_RANDOM = (
    "--correction ppi needs labels of entries drawn at random from all, and {} of {} labels are of judged successes, "
    "which are {:.1f}% of the run; use two-phase"
)
MANY_REQUESTS = (
    "an entry had {:.1f} requests on average and counts if any is judged a success: a judge measured on single "
    "responses errs more often on such entries; label a sample of this run instead"
)
_IN_GROUPS = {
    "rogan-gladen": "assuming the same judge errors in all groups",
    "two-phase": "by the labels of each verdict in the group itself",
    "ppi": "prediction-powered, by the labels in the group itself",
}
_WHY_NOT = {
    "too_few_labels": (
        "too few labels",
        "too few labels (of judged successes and of judged failures; at least two of each are needed)",
    ),
    "not_identifiable": ("not identifiable", "a judge too close to chance"),
    "incompatible_with_validation": (
        "does not fit",
        "fewer or more judged successes than the judge's errors alone would give",
    ),
    "no_verdicts": ("no verdicts", "no entry with a verdict"),
    "not_random": ("not random", "labels that were not drawn at random from all entries"),
    "no_measured_judge": ("no measured judge", "an unmeasured judge, or several judges"),
}
_METHODS = {
    "rogan-gladen": "Rogan-Gladen with the interval of Lang and Reiczigel",
    "two-phase": "two-phase, by the labels of each verdict",
    "ppi": "prediction-powered (PPI++)",
}


def section(a: Analysis, correction: JudgeCorrection) -> Section:
    """Return raw and corrected rate side by side, and what the latter rests on."""
    blocks: list[Block] = [Facts(tuple(_rates(a, correction))), Facts(tuple(_grounds(correction)))]
    if correction.estimate is not None:
        labels = f"{'these' if correction.labels_from == 'run' else 'its'} {counted(correction.labels.n, 'label')}"
        corrected, raw = formats.estimate(correction.estimate), formats.estimate(a.rates.asr)
        blocks.append(Paragraph(f"With {labels}: {corrected}, raw {raw}."))
    blocks += map(Paragraph, correction.sentences)
    return Section("Corrected for the judge", tuple(blocks))


def _rates(a: Analysis, correction: JudgeCorrection) -> Iterator[Fact]:
    yield Fact("Raw, as judged", None, a.rates.asr)
    if correction.estimate is None:
        yield Fact("Corrected", "not identifiable" if correction.status == "not_identifiable" else "none")
    else:
        yield Fact("Corrected", None, correction.estimate)
    if a.rates.asr_judged.n != a.rates.asr.n and correction.judged is not None:
        yield Fact("raw, over judged entries", None, a.rates.asr_judged, depth=1)
        yield Fact("corrected, over judged entries", None, correction.judged, depth=1)
    yield Fact("Sensitivity", None, correction.sensitivity, "true successes found")
    yield Fact("Specificity", None, correction.specificity, "true failures called so")


def _grounds(correction: JudgeCorrection) -> Iterator[Fact]:
    yield Fact("Method", _METHODS[correction.method])
    yield Fact("Labels", f"{correction.labels.n:,}, of which {correction.labels.hits:,} say success")
    if correction.labels.left_out:
        yield Fact("left out", correction.labels.left_out, depth=1)
    yield Fact("from", Place(correction.file), depth=1)
    if correction.judge is not None:
        yield Fact("of the judge", Record(correction.judge), depth=1)


def cell(corrected: CorrectedRate | None) -> Cell:
    """Return what stands in the column of corrected rates: the rate, or why there is none."""
    if corrected is None:
        return ""
    if corrected.estimate is not None:
        return corrected.estimate
    if corrected.status == "too_few_labels" and corrected.labels is not None:
        return f"too few labels: {corrected.labels.successes:,} and {corrected.labels.failures:,}"
    return _WHY_NOT[corrected.status][0]


def note(correction: JudgeCorrection, rates: Sequence[CorrectedRate | None]) -> str:
    """Say how the rates of groups were corrected, and in how many groups they could not be."""
    given = [rate for rate in rates if rate is not None]
    if not given:
        return ""
    missing = Counter(rate.status for rate in given if rate.estimate is None)
    how = f"Corrected: {_IN_GROUPS[correction.method]}." if len(given) > missing.total() else ""
    if not missing:
        return how
    reasons = [_WHY_NOT[status][1] for status in missing]
    if len(missing) > 1:
        reasons = [f"{_WHY_NOT[status][1]} in {times:,}" for status, times in missing.most_common()]
    if missing.total() == len(given):
        none = "There is no corrected rate" if len(given) == 1 else "No group has a corrected rate"
    else:
        verb = "has" if missing.total() == 1 else "have"
        none = f"{missing.total():,} of {counted(len(given), 'group')} {verb} no corrected rate"
    return f"{how} {none}: {', '.join(reasons)}.".lstrip()


# -- in words ---------------------------------------------------------------------------------------------------


def not_corrected(status: str, sensitivity: Estimate, specificity: Estimate, youden: Estimate) -> str:
    """Return why a measured judge gives no corrected rate; empty where it does."""
    if status == CorrectionStatus.NO_VERDICTS:
        return "no entry has a verdict"
    if status == CorrectionStatus.INCOMPATIBLE_WITH_VALIDATION:
        return (
            "the judge finds fewer or more successes than its measured errors allow: the measurement does not hold "
            "for this run"
        )
    if status != CorrectionStatus.NOT_IDENTIFIABLE:
        return ""
    if youden.value is None:
        kind = "successes" if sensitivity.value is None else "failures"
        return f"not identifiable: the judge was measured on labels without any {kind}"
    return (
        f"not identifiable: with a sensitivity of {formats.rate(sensitivity)} and a specificity of "
        f"{formats.rate(specificity)} in {counted(sensitivity.n + specificity.n, 'label')} the judge is too close "
        "to chance"
    )


def not_by_labels(status: str, counts: VerdictCounts) -> str:
    """Return why labels of the run give no corrected rate; empty where they do."""
    labels = counts.successes.labelled, counts.failures.labelled
    if status == CorrectionStatus.NO_VERDICTS:
        return "no entry has a verdict"
    if status == CorrectionStatus.NOT_RANDOM:
        return _NOT_AT_RANDOM.format(labels[0], sum(labels), 100 * (counts.successes.judged / counts.judged))
    return _FEW_LABELS.format(*labels) if status == CorrectionStatus.TOO_FEW_LABELS else ""


def promises(correction: JudgeCorrection) -> Iterator[str]:
    """Yield what a corrected rate rests on, and what it is worth."""
    if correction.labels_from == "run" and correction.method == "two-phase":
        yield "Holds if the labelled entries were drawn at random among those with the same verdict."
        if correction.more_labels is not None:
            more = counted(correction.more_labels, "more label")
            yield f"{more}, distributed as these are, would halve the interval."
        else:
            yield "No number of labels would halve the interval: the rest comes from the number of entries."
    elif correction.labels_from == "run":
        yield "Holds if the labelled entries were drawn at random among all that have a verdict."
    else:
        judge = clip(visible(correction.judge or ""), 80)
        sentence = f"Valid only if the judge errs here as it did where it was measured ({judge})."
        now, less = None if correction.estimate is None else correction.estimate.value, correction.if_less_specific
        if now and less is not None:
            points, lower = 100 * less.specificity_lower_by, formats.points(now - less.asr_corrected)
            sentence += f" If its specificity here is {points:g} points lower, the rate is {lower} lower."
        yield sentence
        yield "Labels of a sample of this run avoid this assumption: see `faircount results sample-for-labels`."
    if correction.status == CorrectionStatus.CLIPPED:
        yield (
            "The estimate is outside the possible range and is clipped to it: there are few labels, or they are "
            "of another kind."
        )
