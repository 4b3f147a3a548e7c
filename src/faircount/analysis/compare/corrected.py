"""Two files corrected for the judge: the rates behind the verdicts on the pairs, and their difference.

With a judge that was measured elsewhere, both sides must name the same one: its errors then are the same on both, and
the true difference is the raw one divided by how well the judge sees. With labels, each side has its own. Where one of
the two cannot be had, there is no corrected difference, and the reason is given. Groups and flips are never corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.compare.model import CorrectedPair, Figures
from faircount.analysis.compare.pairing import Side
from faircount.analysis.correct.correct import KnownJudge, correct
from faircount.analysis.correct.inputs import Quality
from faircount.analysis.grouping import find_families
from faircount.analysis.options import CompareOptions
from faircount.analysis.problems import judge_names
from faircount.analysis.words import WORDS
from faircount.core.findings import finding
from faircount.core.model import Estimate, Finding, Outcome
from faircount.core.text import clip, visible
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.stats import LabelledPart, VerdictCounts, rate_over_all
from faircount.stats.corrector import TWO_PHASE

NOT_CORRECTED = "not_corrected"
_VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)
_BLOCKED = 2
_NOT = "Not corrected: "


class CorrectedSide(Struct, frozen=True):
    """One file corrected by itself: what is known of its judge, the rate over its answered entries, and findings."""

    known: KnownJudge
    answered: Estimate | None
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> str:
        """Why there is no corrected rate; empty where there is one."""
        return self.known.correction.reason or ""


def corrected_side(side: Side, quality: Quality, options: CompareOptions) -> CorrectedSide:
    """Correct a file by itself, as an analysis of it would."""
    tally, level = side.counts.tally, options.level
    family = find_families(side.ledger, side.counts, options.cluster, level, WORDS[side.folded.aim]).column
    known, findings = correct(side.ledger, side.counts, quality, level=level, method=options.correction, family=family)
    judged, parts = known.correction.judged, (LabelledPart(tally.success, 0, 0), LabelledPart(tally.failure, 0, 0))
    return CorrectedSide(
        known,
        None if judged is None else rate_over_all(judged, VerdictCounts(tally.judged + tally.guardrail, *parts)),
        tuple(replace(item, message=f"{side.label}: {item.message}") for item in findings),
    )


# -- a pair -----------------------------------------------------------------------------------------------------


class _Half(Struct, frozen=True):
    """One side of a pair: its verdicts as numbers and counted, and its corrected rate, or why there is none."""

    known: KnownJudge
    verdicts: Any
    counts: VerdictCounts
    rate: Estimate | None = None
    refused: str = ""


def corrected_pair(
    sides: tuple[Side, Side],
    known: tuple[CorrectedSide, CorrectedSide],
    rows: Sequence[Any],
    codes: Sequence[Any],
    figures: Figures,
    *,
    paired: bool,
) -> CorrectedPair:
    """Return the corrected rates of two files on their pairs, and the corrected difference or why there is none.

    `rows` and `codes` are the answered entries of either file and their families, `figures` the raw ones.
    """
    import numpy as np

    a, b = (_half(*of_side) for of_side in zip(sides, known, rows, codes, strict=True))
    method = a.known.correction.method
    reason = _refused(a, b, (sides[0].label, sides[1].label))
    if not reason:
        assert a.known.corrector is not None
        # The pairs by both verdicts: success, failure, blocked.
        table = np.bincount(3 * a.verdicts + b.verdicts, minlength=9).reshape(3, 3).tolist() if paired else None
        difference, p = a.known.corrector.difference(
            a.counts, b.counts, figures.difference, table=table, effective_n=figures.effective_n
        )
        if difference.value is not None:
            rests_on = tuple(_rests_on(a.known, paired))
            return CorrectedPair("ok", method, a.rate, b.rate, difference, None, rests_on, p)
        reason = (
            "the observed difference is larger than the judge's errors allow: its measured quality does not hold here"
        )
    return CorrectedPair(NOT_CORRECTED, method, a.rate, b.rate, None, reason, (f"{_NOT}{reason}.",))


def _half(side: Side, corrected: CorrectedSide, rows: Any, codes: Any) -> _Half:
    import numpy as np

    known, outcomes = corrected.known, side.outcomes[rows]
    verdicts = np.full(len(outcomes), _BLOCKED)
    for place, outcome in enumerate(_VERDICTS):
        verdicts[outcomes == OUTCOME_NUMBER[outcome]] = place
    by_key = {entry.key: entry.label for entry in known.labelled}
    labels = [(place, by_key[key]) for place, key in enumerate(side.keys[rows].tolist()) if key in by_key]
    (whole,) = _counted(verdicts, labels, np.zeros(len(verdicts), int), 1)
    families = () if codes is None else tuple(_counted(verdicts, labels, codes, int(codes.max()) + 1))
    half = _Half(known, verdicts, replace(whole, families=families))
    rate, refused = _rate(half, corrected, side.label)
    return replace(half, rate=rate, refused=refused)


def _counted(verdicts: Any, labels: Sequence[tuple[int, bool]], codes: Any, count: int) -> Iterator[VerdictCounts]:
    """Count verdicts and labels, which are given by the place of their entry, of each family in order of its number."""
    import numpy as np

    judged = [np.bincount(codes[verdicts == at], minlength=count).tolist() for at in range(3)]
    labelled = [[[0, 0] for _ in range(count)] for _ in range(2)]
    for place, label in labels:
        of_family = labelled[int(verdicts[place])][int(codes[place])]
        of_family[0] += 1
        of_family[1] += label
    for at in range(count):
        successes, failures = (LabelledPart(judged[verdict][at], *labelled[verdict][at]) for verdict in range(2))
        yield VerdictCounts(sum(kind[at] for kind in judged), successes, failures)


def _rate(half: _Half, corrected: CorrectedSide, name: str) -> tuple[Estimate | None, str]:
    known = half.known
    if corrected.refused or known.corrector is None:
        no_labels = known.by_labels and not known.correction.labels.n
        return None, f"{name} has no labels" if no_labels else f"{name}: {corrected.refused}"
    if not half.counts.judged:
        return None, f"{name} has no verdict on the entries compared"
    rate = known.corrector.rate(half.counts).estimate
    if rate is None:
        return None, f"{name} has too few labels on the entries compared, or a judge that does not fit them"
    return rate, ""


def _refused(a: _Half, b: _Half, names: tuple[str, str]) -> str:
    """Return why there is no corrected difference; empty where there is one."""
    reasons = "; ".join(half.refused for half in (a, b) if half.refused)
    first, second = a.known.correction, b.known.correction
    if reasons or a.known.by_labels:
        return reasons
    if set(first.run_judges) != set(second.run_judges) or first.judge != second.judge:
        judges = (
            f"the rows of {name} name {judge_names(of.run_judges)}"
            for name, of in zip(names, (first, second), strict=True)
        )
        return f"{' and '.join(judges)}, and a difference between judges cannot be separated from one between files"
    return ""


def _rests_on(known: KnownJudge, paired: bool) -> Iterator[str]:
    """Yield what a corrected difference rests on."""
    correction = known.correction
    if correction.validation is not None:
        yield (
            "The difference is the observed one divided by sensitivity + specificity - 1 "
            f"({correction.validation.youden:.2f}), whose error is the same on both sides."
        )
        judge = clip(visible(correction.judge or ""), 80)
        yield f"Valid only if the judge errs on both sides as it did where it was measured ({judge})."
        yield "Labels of a sample of both runs avoid this assumption: see `faircount results sample-for-labels`."
        return
    if correction.method == TWO_PHASE:
        yield "Holds if the labelled entries of either side were drawn at random among those with the same verdict."
        if paired:
            yield (
                "The labels of both sides count as independent samples. The pairing is used only for the verdicts, "
                "so the interval is too wide rather than too narrow."
            )
        return
    yield "Holds if the labelled entries of either side were drawn at random among all that have a verdict."
    yield "Both sides count as independent, although pairing would narrow the interval."


def findings_of_pairs(
    sides: Sequence[Side], known: Sequence[CorrectedSide], pairs: Sequence[tuple[tuple[int, int], CorrectedPair]]
) -> Iterator[Finding]:
    """Return what is doubtful about the corrections, each with the label of its file."""
    for side in known:
        yield from side.findings
    for (a, b), pair in pairs:
        if pair.difference is None and not (known[a].refused or known[b].refused):
            files = f"{sides[a].label} and {sides[b].label}"
            message = f"the difference of {files} cannot be corrected for the judge: {pair.reason}"
            yield finding("F030", 1, message)
