"""Gates judged: analyses or a comparison in, one result for each gate and each thing it applies to out.

A gate is passed, failed or inconclusive. What is undefined is inconclusive, never passed. Nobody knows how entries that
ended in an error, or that nothing judged, would have ended: a gate is passed or failed only if it is so whether all of
these succeeded or none did (worst-case bounds, Horowitz and Manski 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount import stats
from faircount.analysis.compare.model import Comparison, Figures
from faircount.analysis.gates import regression, wording
from faircount.analysis.gates.expression import ASR_CORRECTED, REGRESSION, Gate
from faircount.analysis.gates.regression import FAILED, INCONCLUSIVE, PASSED
from faircount.analysis.gates.subject import FAMILIES, Subject, of_analysis, of_comparison
from faircount.analysis.words import WORDS
from faircount.core.errors import UsageError
from faircount.core.model import Analysis, Estimate
from faircount.core.text import clip, visible
from faircount.report.blocks import Fact, Facts, Paragraph, Place, Record, Report, Section, table, text_column

ENTRY, FAMILY = ("more entry", "more entries"), ("more family", "more families")
_CELLS = {"both": "both succeed", "only_a": "only the old", "only_b": "only the new", "neither": "neither"}
_TASK_CELLS = {**_CELLS, "both": "both pass"}
NEEDS_BASELINE = "a regression needs something to compare with: name it with --baseline FILE"


class GateResult(Struct, frozen=True):
    """What became of a gate on one subject. `reason` is our own words; `more` entries, or families, would decide."""

    gate: Gate
    subject: Subject
    state: str
    reason: str
    estimate: Estimate
    more: int | None = None

    def blocks(self, inconclusive_fails: bool) -> bool:
        """Return whether the result stops a release, by what the user says of gates that are inconclusive."""
        return self.state == FAILED or (self.state == INCONCLUSIVE and inconclusive_fails)


def subjects_of(analyses: Sequence[Analysis], comparison: Comparison | None = None) -> tuple[Subject, ...]:
    """Return everything that gates can be judged on: analyses first, then pairs of runs."""
    return (*map(of_analysis, analyses), *(() if comparison is None else of_comparison(comparison)))


def judge(gates: Iterable[Gate], subjects: Sequence[Subject], *, ignore_errors: bool = False) -> tuple[GateResult, ...]:
    """Judge every gate on everything it applies to, in the order in which gates were given.

    A regression applies to pairs of runs; any other gate to analyses or, where there are none, to the new run of each
    pair. A gate that applies to nothing is an error: it would always be passed. With `ignore_errors`, errors and
    unjudged entries count as they do in the rates: as entries without a success, and in no pair.
    """
    results: list[GateResult] = []
    for gate in gates:
        meant = _meant(gate, subjects)
        if not meant:
            why = NEEDS_BASELINE if gate.figure == REGRESSION else "there is nothing to judge"
            raise UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {why}")
        results += [
            (_regression if gate.figure == REGRESSION else _figure)(gate, subject, ignore_errors) for subject in meant
        ]
    return tuple(results)


def _meant(gate: Gate, subjects: Sequence[Subject]) -> list[Subject]:
    compared = [subject for subject in subjects if subject.pair is not None]
    if gate.figure == REGRESSION:
        return compared
    return [subject for subject in subjects if subject.pair is None] or compared


def _regression(gate: Gate, subject: Subject, ignore_errors: bool) -> GateResult:
    group, pair = subject.group(gate), subject.pair
    assert pair is not None
    if group is not None and pair.corrected is not None:
        why = "groups are compared as the judge has them: leave this gate to a comparison without --judge-quality"
        raise UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {why}")
    figures: Figures = group if isinstance(group, Figures) else pair
    found = regression.judged(figures, gate.threshold, subject.aim, () if group else subject.files)
    if not ignore_errors:
        found = regression.bounded(found, figures, gate.threshold, subject.aim)
    if subject.unread and not ignore_errors:
        found = regression.with_unread(found, subject.unread, gate.threshold)
    return GateResult(gate, subject, found.state, found.reason, found.worsening, found.more)


def _figure(gate: Gate, subject: Subject, ignore_errors: bool) -> GateResult:
    as_counted = _decided(gate, subject, subject.estimate(gate))
    bounds = None if ignore_errors else subject.bounds(gate)
    if bounds is None:
        return as_counted
    states = {_decided(gate, subject, bound).state for bound in bounds}
    undecided = subject.part(gate).undecided
    if states == {as_counted.state}:
        return replace(as_counted, reason=f"{as_counted.reason}; {wording.unchanged(undecided, subject.unread)}")
    state = INCONCLUSIVE if len(states) > 1 else states.pop()
    return replace(as_counted, state=state, reason=wording.bounded(gate, bounds, undecided, subject.unread), more=None)


def _decided(gate: Gate, subject: Subject, estimate: Estimate) -> GateResult:
    if estimate.value is None:
        corrected = subject.part(gate).corrected
        if gate.figure == ASR_CORRECTED and corrected is not None and not subject.empty:
            reason = wording.not_corrected(gate, corrected.status, corrected.labels)
            return GateResult(gate, subject, INCONCLUSIVE, reason, estimate)
        more = stats.entries_without_any(gate.sign, gate.threshold, subject.level)
        return GateResult(gate, subject, INCONCLUSIVE, wording.nothing(gate, more), estimate, more)
    value = {"value": estimate.value, "low": estimate.low, "high": estimate.high}[gate.part]
    if value is None:
        return GateResult(gate, subject, INCONCLUSIVE, wording.no_limit(gate, estimate), estimate)
    failed = gate.holds(value)
    reason, more = wording.decided(gate, estimate, value, failed=failed), None
    doubt = _doubt(gate, estimate)
    if doubt is not None:
        families = subject.part(gate).families if estimate.method in FAMILIES else None
        # What a corrected rate lacks may be labels: no number of entries alone is known to do.
        if gate.figure != ASR_CORRECTED:
            more = (
                stats.more_entries(estimate, gate.threshold)
                if families is None
                else stats.more_families(estimate, gate.threshold, families)
            )
        reason = f"{reason}; {doubt(gate, more, FAMILY if families is not None else ENTRY)}"
    return GateResult(gate, subject, FAILED if failed else PASSED, reason, estimate, more)


def _doubt(gate: Gate, estimate: Estimate) -> Callable[[Gate, int | None, tuple[str, str]], str] | None:
    """Return the sentence for a rate on one side of a threshold whose interval reaches to the other; else None."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None or not low <= gate.threshold <= high:
        return None
    if gate.part == "value":
        return wording.straddles
    limit = low if gate.part == "low" else high
    return wording.only_the_limit if gate.holds(limit) != gate.holds(value) else None


# -- the report -------------------------------------------------------------------------------------------------


def _sections(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> tuple[Section, ...]:
    """Return the gates as a section; none where there are no gates."""
    if not results:
        return ()
    grid = table(
        results,
        text_column("Gate", lambda result: Record(result.gate.text)),
        text_column("State", lambda result: result.state),
        text_column("Of", lambda result: Place(result.subject.name), rank=1),
        text_column("Why", lambda result: result.reason, rank=2),
    )
    return (Section("Gates", (Paragraph(_verdict(results, inconclusive_fails=inconclusive_fails)), grid)),)


def _verdict(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> str:
    """Say in a sentence what follows from all gates."""
    blocking = [result for result in results if result.blocks(inconclusive_fails)]
    open_ones = sum(result.state == INCONCLUSIVE for result in results)
    counts = "as a failure" if inconclusive_fails else "as passed"
    doubtful = f" {open_ones:,} inconclusive, which counts {counts}." if open_ones else ""
    if len(results) == 1:
        return f"The gate {'blocks' if blocking else 'lets this pass'}.{doubtful}"
    if blocking:
        return f"{len(blocking):,} of {len(results):,} gates block.{doubtful}"
    return f"All {len(results):,} gates let this pass.{doubtful}"


def summary(results: Sequence[GateResult], subjects: Sequence[Subject], *, inconclusive_fails: bool = True) -> Report:
    """Return what a job says at its end: the gates first, then what was counted."""
    counted = tuple(section for subject in subjects for section in _subject(subject))
    return Report((*_sections(results, inconclusive_fails=inconclusive_fails), *counted))


def _subject(subject: Subject) -> Iterator[Section]:
    words = WORDS[subject.aim]
    if subject.pair is not None:
        cells = _CELLS if subject.aim == "attack" else _TASK_CELLS
        facts = [
            Fact("Baseline", Place(subject.pair.a), subject.pair.rate_a),
            Fact("New run", Place(subject.name), subject.rate),
        ]
        facts += [Fact(cells[name], count, depth=1) for name, count in subject.counts]
        yield Section(f"Comparison, {words.rate.lower()} of", (Facts(tuple(facts)),), subject=Place(subject.name))
        return
    names = {outcome.value: name for outcome, name in words.outcomes.items()}
    facts = [Fact("Entries", dict(subject.counts)["total"]), Fact(words.rate, None, subject.rate)]
    corrected = subject.whole.corrected
    if corrected is not None and corrected.estimate is not None:
        facts.append(Fact("Corrected for the judge", None, corrected.estimate))
    facts += [Fact(names[name].capitalize(), count, depth=1) for name, count in subject.counts if name != "total"]
    yield Section("Results of", (Facts(tuple(facts)),), subject=Place(subject.name))
