"""Two files corrected for the judge: the rates behind the verdicts on the pairs, and their difference.

With a judge that was measured elsewhere, both sides must name the same one: its errors then are the same on both, and
the true difference is the raw one divided by how well the judge sees. With labels, each side has its own. Where one of
the two cannot be had, there is no corrected difference, and the reason is told. Groups and flips are never corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import families as families_of
from faircount.analysis.comparing.model import CorrectedPair, Figures
from faircount.analysis.comparing.side import Side
from faircount.analysis.correction.correcting import (
    Run,
    correct,
    labelled_rate_of,
    measured_rate,
    over_all,
)
from faircount.analysis.correction.families import PPI, TWO_PHASE, respecting
from faircount.analysis.correction.inputs import Quality
from faircount.analysis.correction.label_sample import LabelledEntry, Sampled, labelled_parts, sampled_entries
from faircount.analysis.correction.run_judges import told
from faircount.analysis.options import CompareOptions
from faircount.analysis.words import WORDS
from faircount.findings import finding
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.model import Estimate, Finding, JudgeCorrection, Outcome, Tally, Validation
from faircount.stats import Design, widening
from faircount.stats.distributions import student_critical_value, two_sided_normal, two_sided_student
from faircount.stats.judge_difference import LabelledSide, added_difference, corrected_difference, two_phase_difference
from faircount.stats.judge_error import LabelledPart
from faircount.stats.labelled_families import LabelledFamily, over_all_gradient, two_phase_gradient
from faircount.stats.proportion import critical_value
from faircount.text import clip, visible

NOT_CORRECTED = "not_corrected"
_VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)
_BLOCKED = 2
_NOT = "Not corrected: "


class CorrectedSide(Struct, frozen=True):
    """One file corrected by itself: the rate over its answered entries, what is doubtful, and what people labelled."""

    correction: JudgeCorrection
    answered: Estimate | None
    doubts: tuple[Finding, ...]
    labelled: tuple[LabelledEntry, ...]

    @property
    def refused(self) -> str:
        """Why there is no corrected rate; empty where there is one."""
        return self.correction.reason or ""

    @property
    def validation(self) -> Validation:
        """The judge against labels elsewhere."""
        assert self.correction.validation is not None
        return self.correction.validation


class Compared(Struct, frozen=True):
    """Two files with the answered entries to compare: their places, their families, and the raw figures."""

    a: int
    b: int
    rows: tuple[Any, Any]
    codes: Any
    figures: Figures
    paired: bool


def corrected_sides(sides: Sequence[Side], quality: Quality, options: CompareOptions) -> list[CorrectedSide]:
    """Correct each file by itself, as an analysis of it would."""
    return [_side(side, quality, options) for side in sides]


def _side(side: Side, quality: Quality, options: CompareOptions) -> CorrectedSide:
    counts = side.counts
    grouping = families_of.find(side.ledger, counts, options.cluster, options.level, WORDS[side.folded.aim])
    correction, doubts = correct(
        side.ledger,
        counts,
        grouping.told,
        quality,
        level=options.level,
        method=options.correction,
        family=grouping.column,
    )
    labelled: tuple[LabelledEntry, ...] = ()
    if quality.sample is not None:
        labelled = sampled_entries(side.ledger, counts.tally, quality.sample).found
    return CorrectedSide(
        correction,
        None if correction.judged is None else over_all(correction.judged, _answered(counts.tally), options.level),
        tuple(replace(item, message=f"{side.label}: {item.message}") for item in doubts),
        labelled,
    )


def _answered(tally: Tally) -> Tally:
    """Return the entries that were answered, as a comparison counts them."""
    total = tally.judged + tally.guardrail
    return Tally(success=tally.success, failure=tally.failure, guardrail=tally.guardrail, total=total)


# -- a pair -----------------------------------------------------------------------------------------------------


class _Half(Struct, frozen=True):
    """One side of a pair: its verdicts as numbers, its labels, and its corrected rate, or why there is none."""

    known: CorrectedSide
    verdicts: Any
    tally: Tally
    sampled: Sampled
    families: tuple[LabelledFamily, ...]
    rate: Estimate | None = None
    refused: str = ""


def corrected_pair(
    sides: Sequence[Side], known: Sequence[CorrectedSide], compared: Compared, options: CompareOptions
) -> CorrectedPair:
    """Return the corrected rates of two files on their pairs, and the corrected difference or why there is none."""
    a, b = (
        _half(sides[place], known[place], rows, compared, options, sides[place].label)
        for place, rows in zip((compared.a, compared.b), compared.rows, strict=True)
    )
    reason = _refused(a, b, (sides[compared.a].label, sides[compared.b].label))
    method = a.known.correction.method
    if reason:
        return CorrectedPair(NOT_CORRECTED, method, a.rate, b.rate, None, reason, (f"{_NOT}{reason}.",))
    difference = _difference(a, b, compared, options)
    if difference.value is None:
        reason = (
            "the observed difference is larger than the judge's errors allow: its measured quality does not hold here"
        )
        return CorrectedPair(NOT_CORRECTED, method, a.rate, b.rate, None, reason, (f"{_NOT}{reason}.",))
    return CorrectedPair(
        "ok",
        method,
        a.rate,
        b.rate,
        difference,
        None,
        tuple(_rests_on(a, compared)),
        _p(difference, compared.figures.families) if a.known.correction.labels_from == "run" else None,
    )


def _half(side: Side, known: CorrectedSide, rows: Any, compared: Compared, options: CompareOptions, name: str) -> _Half:
    import numpy as np

    outcomes = side.outcomes[rows]
    verdicts = np.full(len(outcomes), _BLOCKED)
    for place, outcome in enumerate(_VERDICTS):
        verdicts[outcomes == OUTCOME_NUMBER[outcome]] = place
    success, failure, blocked = np.bincount(verdicts, minlength=3).tolist()
    tally = Tally(success=success, failure=failure, guardrail=blocked, total=len(outcomes))
    labels = {entry.key: entry for entry in known.labelled}
    found = [(place, labels[key]) for place, key in enumerate(side.keys[rows].tolist()) if key in labels]
    entries = tuple(entry for _, entry in found)
    sampled = Sampled(*labelled_parts(entries, tally), entries, 0, 0)
    half = _Half(known, verdicts, tally, sampled, tuple(_families(verdicts, found, compared)))
    rate, refused = _rate(half, compared, options, name)
    return replace(half, rate=rate, refused=refused)


def _families(
    verdicts: Any, found: Sequence[tuple[int, LabelledEntry]], compared: Compared
) -> Iterator[LabelledFamily]:
    """Count the verdicts and the labels of each family, in the order of their numbers."""
    import numpy as np

    if compared.figures.families is None:
        return
    count = int(compared.codes.max()) + 1
    judged = [np.bincount(compared.codes[verdicts == at], minlength=count).tolist() for at in range(3)]
    labels = [[[0, 0] for _ in range(count)] for _ in range(2)]
    for place, entry in found:
        told_of = labels[int(verdicts[place])][int(compared.codes[place])]
        told_of[0] += 1
        told_of[1] += entry.label
    for at in range(count):
        parts = [LabelledPart(judged[verdict][at], *labels[verdict][at]) for verdict in range(2)]
        yield LabelledFamily(sum(kind[at] for kind in judged), parts[0], parts[1])


def _rate(half: _Half, compared: Compared, options: CompareOptions, name: str) -> tuple[Estimate | None, str]:
    known, tally, level = half.known, half.tally, options.level
    if known.refused:
        no_labels = known.correction.labels_from == "run" and not known.correction.labels.n
        return None, f"{name} has no labels" if no_labels else f"{name}: {known.refused}"
    if not tally.judged:
        return None, f"{name} has no verdict on the entries compared"
    run = Run(tally, tally.total, level, 1.0, known.correction.run_judges)
    if known.correction.labels_from != "run":
        _, judged = measured_rate(replace(run, widening=_widening(half, level)), known.validation)
    else:
        judged = labelled_rate_of(run, half.sampled.successes, half.sampled.failures, options.correction)
    if judged is None or judged.value is None:
        return None, f"{name} has too few labels on the entries compared, or a judge that does not fit them"
    rate = over_all(judged, tally, level)
    if known.correction.labels_from == "run" and compared.figures.families is not None:
        rate = respecting(half.families, half.sampled, tally, (judged, rate), options.correction)[1]
    return rate, ""


def _widening(half: _Half, level: float) -> float | None:
    """Return the factor by which families widen the variance of the raw rate; None where there is no interval."""
    if not half.families:
        return 1.0
    won, sizes = ([of(family) for family in half.families] for of in (_won, _size))
    if sum(size > 0 for size in sizes) < 2:
        return None
    return widening(Design(families=True, level=level).rate(won, sizes))


def _won(family: LabelledFamily) -> int:
    return family.successes.judged


def _size(family: LabelledFamily) -> int:
    return family.entries


def _refused(a: _Half, b: _Half, names: tuple[str, str]) -> str:
    """Return why there is no corrected difference; empty where there is one."""
    reasons = "; ".join(half.refused for half in (a, b) if half.refused)
    first, second = a.known.correction, b.known.correction
    if reasons or first.labels_from == "run":
        return reasons
    if set(first.run_judges) != set(second.run_judges) or first.judge != second.judge:
        judges = (
            f"the rows of {name} name {told(of.run_judges)}" for name, of in zip(names, (first, second), strict=True)
        )
        return f"{' and '.join(judges)}, and a difference between judges cannot be separated from one between files"
    return ""


# -- the difference ---------------------------------------------------------------------------------------------


def _difference(a: _Half, b: _Half, compared: Compared, options: CompareOptions) -> Estimate:
    if a.known.correction.labels_from != "run":
        return _by_measured_judge(a, b, compared)
    unit, families = compared.figures.difference.unit, compared.figures.families
    if options.correction == PPI:
        assert a.rate is not None and b.rate is not None
        return added_difference(b.rate, a.rate, n=compared.figures.difference.n, unit=unit)
    first, second = (
        LabelledSide(half.sampled.successes, half.sampled.failures, half.tally.guardrail) for half in (a, b)
    )
    lonely = families is not None and families < 2
    found = two_phase_difference(
        first,
        second,
        table=_table(a, b) if compared.paired else None,
        family_variance=_family_variance(a, b),
        families=None if lonely else families,
        unit=unit,
        level=options.level,
    )
    return replace(found, low=None, high=None) if lonely else found


def _by_measured_judge(a: _Half, b: _Half, compared: Compared) -> Estimate:
    validation = a.known.validation
    shares = [half.tally.judged / half.tally.total for half in (a, b)]
    alarms = 1 - validation.tn / validation.negatives
    return corrected_difference(
        compared.figures.difference,
        validation,
        judged_more=shares[1] - shares[0],
        further_variance=_further(a, b, alarms, compared),
    )


def _further(a: _Half, b: _Half, alarms: float, compared: Compared) -> float:
    """Return what false alarms add to the variance where a block on one side alone leaves them out; never below 0."""
    if not a.tally.guardrail and not b.tally.guardrail:
        return 0.0
    won = [(half.verdicts == 0).astype(int) for half in (a, b)]
    judged = [(half.verdicts != _BLOCKED).astype(int) for half in (a, b)]
    if not compared.paired:
        return sum(_added(*side, alarms) for side in zip(won, judged, strict=True))
    return _added(won[1] - won[0], judged[1] - judged[0], alarms) * _design_effect(compared.figures)


def _added(raw: Any, judged: Any, alarms: float) -> float:
    """Return Var(raw - alarms·judged) - Var(raw) of a mean, as far as it is above 0."""
    covariance = float((raw * judged).mean() - raw.mean() * judged.mean())
    return max(alarms**2 * float(judged.var()) - 2 * alarms * covariance, 0.0) / len(raw)


def _design_effect(figures: Figures) -> float:
    """Return the factor by which families widen the variance of the raw difference, at least 1."""
    if figures.families is None or not figures.effective_n:
        return 1.0
    return max(1.0, figures.paired / figures.effective_n)


def _family_variance(a: _Half, b: _Half) -> float | None:
    """Return the variance of the two-phase difference with families as the units, linearised; None without families."""
    import numpy as np

    count = len(a.families)
    if count < 2:
        return None
    first, second = (
        np.array([family.counts for family in half.families], float) @ np.array(_gradient(half)) for half in (a, b)
    )
    return count / (count - 1) * float(((second - first) ** 2).sum())


def _gradient(half: _Half) -> tuple[float, ...]:
    """Return by how much the rate over all entries of a side grows with each count of a family."""
    parts, tally = (half.sampled.successes, half.sampled.failures), half.tally
    judged = (half.rate.value or 0.0) * tally.total / tally.judged if half.rate is not None else 0.0
    return over_all_gradient(two_phase_gradient(*parts), judged, tally.judged, tally.total)


def _table(a: _Half, b: _Half) -> list[list[int]]:
    """Count the pairs by both verdicts: success, failure, blocked."""
    import numpy as np

    found: list[list[int]] = np.bincount(3 * a.verdicts + b.verdicts, minlength=9).reshape(3, 3).tolist()
    return found


def _p(difference: Estimate, families: int | None) -> float | None:
    """Return the p-value that there is no difference, by the interval; None where there is none."""
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return None
    reach = value - low if value > 0 else high - value
    if not reach:
        return None
    if families is None:
        return two_sided_normal(value / reach * critical_value(difference.level))
    return two_sided_student(value / reach * student_critical_value(difference.level, families - 1), families - 1)


# -- what it rests on -------------------------------------------------------------------------------------------


def _rests_on(a: _Half, compared: Compared) -> Iterator[str]:
    correction = a.known.correction
    if correction.labels_from != "run":
        yield (
            "The difference is the observed one divided by sensitivity + specificity - 1 "
            f"({a.known.validation.youden:.2f}), whose error is the same on both sides."
        )
        judge = clip(visible(correction.judge or ""), 80)
        yield f"Valid only if the judge errs on both sides as it did where it was measured ({judge})."
        yield "Labels of a sample of both runs avoid this assumption: see `faircount results sample-for-labels`."
        return
    if correction.method == TWO_PHASE:
        yield "Holds if the labelled entries of either side were drawn at random among those with the same verdict."
        if compared.paired:
            yield (
                "The labels of both sides count as independent samples. The pairing is used only for the verdicts, "
                "so the interval is too wide rather than too narrow."
            )
        return
    yield "Holds if the labelled entries of either side were drawn at random among all that have a verdict."
    yield "Both sides count as independent, although pairing would narrow the interval."


def doubts_of(
    sides: Sequence[Side], known: Sequence[CorrectedSide], pairs: Sequence[tuple[tuple[int, int], CorrectedPair]]
) -> Iterator[Finding]:
    """Return what is doubtful about the corrections, each with the label of its file."""
    for side in known:
        yield from side.doubts
    for (a, b), pair in pairs:
        if pair.difference is None and not (known[a].refused or known[b].refused):
            files = f"{sides[a].label} and {sides[b].label}"
            message = f"the difference of {files} cannot be corrected for the judge: {pair.reason}"
            yield finding("F030", 1, message)
