"""Gates and what they were judged on as a report: for the summary of a CI job, or below an analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount.analysis.gates.judging import GateResult
from faircount.analysis.gates.regression import INCONCLUSIVE
from faircount.analysis.gates.subjects import Subject
from faircount.analysis.words import WORDS
from faircount.report import Fact, Facts, Paragraph, Place, Record, Report, Section, table, text_column

_CELLS = {"both": "both succeed", "only_a": "only the old", "only_b": "only the new", "neither": "neither"}
_TASK_CELLS = {**_CELLS, "both": "both pass"}


def sections(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> tuple[Section, ...]:
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
    return (Section("Gates", (Paragraph(verdict(results, inconclusive_fails=inconclusive_fails)), grid)),)


def verdict(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> str:
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
    return Report((*sections(results, inconclusive_fails=inconclusive_fails), *counted))


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
