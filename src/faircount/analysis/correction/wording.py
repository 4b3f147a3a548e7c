"""The sentences that stand beside a corrected rate: what it promises, and why there is none."""

from __future__ import annotations

from collections.abc import Iterator

from faircount import formats
from faircount.findings import counted
from faircount.model import Estimate, JudgeCorrection
from faircount.stats.judge_error import CorrectionStatus
from faircount.text import clip, visible

FEW_LABELS = "labels are needed of both judged successes and judged failures; there are {} and {}"
NOT_AT_RANDOM = (
    "--correction ppi needs labels of entries drawn at random from all, and {} of {} labels are of judged successes, "
    "which are {:.1f}% of the run; use two-phase"
)
MANY_REQUESTS = (
    "an entry had {:.1f} requests on average and counts if any is judged a success: a judge measured on single "
    "responses errs more often on such entries; label a sample of this run instead"
)


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


def promise(correction: JudgeCorrection) -> tuple[str, ...]:
    """Return what a corrected rate rests on, and what it is worth."""
    return tuple(_promises(correction))


def _promises(correction: JudgeCorrection) -> Iterator[str]:
    if correction.labels_from == "run":
        yield (
            "Holds if the labelled entries were drawn at random among those with the same verdict."
            if correction.method == "two-phase"
            else "Holds if the labelled entries were drawn at random among all that have a verdict."
        )
        yield from _more(correction)
    else:
        judge = clip(visible(correction.judge or ""), 80)
        yield f"Valid only if the judge errs here as it did where it was measured ({judge}).{_fragility(correction)}"
        yield "Labels of a sample of this run avoid this assumption: see `faircount results sample-for-labels`."
    if correction.status == CorrectionStatus.CLIPPED:
        yield (
            "The estimate is outside the possible range and is clipped to it: there are few labels, or they are "
            "of another kind."
        )


def _fragility(correction: JudgeCorrection) -> str:
    """Say how much the rate depends on that; nothing where it is 0 anyway."""
    now = None if correction.estimate is None else correction.estimate.value
    less = correction.if_less_specific
    if not now or less is None:
        return ""
    lower = formats.points(now - less.asr_corrected)
    return f" If its specificity here is {100 * less.specificity_lower_by:g} points lower, the rate is {lower} lower."


def _more(correction: JudgeCorrection) -> Iterator[str]:
    if correction.method != "two-phase":
        return
    if correction.more_labels is not None:
        yield f"{counted(correction.more_labels, 'more label')}, distributed as these are, would halve the interval."
    else:
        yield "No number of labels would halve the interval: the rest comes from the number of entries."
