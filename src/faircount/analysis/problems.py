"""Doubts about the data, as findings: those noted while reading, and those that only the whole ledger shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from faircount.analysis.words import WORDS, Words
from faircount.core.findings import Notes, counted, finding
from faircount.core.model import Finding, Severity, Source, Tally
from faircount.core.outcomes import known_pattern
from faircount.core.text import clip, visible
from faircount.ledger import lookup as problems
from faircount.ledger.lookup import ProblemRows, rows_behind
from faircount.ledger.schema import AnswerKind
from faircount.ledger.store import LedgerView
from faircount.readers.inputs import Input
from faircount.readers.journal_rows import STOP_WHEN
from faircount.report.formats import UNDEFINED, percent
from faircount.report.source_labels import looks_benign

_SUBJECTS_NAMED = 3
MANY_ERRORS = 0.05
"""From this share of entries on, errors are a warning: they can move a rate by as much."""
_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the weightiest first."""
    return tuple(sorted(findings, key=lambda f: (_SEVERITY_ORDER[f.severity], f.code)))


# -- noted while reading ---------------------------------------------------------------------------------------


def _subjects(notes: Sequence[Notes], code: str) -> str:
    """Return the subjects noted under a code, the most frequent three by name."""
    counted: dict[str, int] = {}
    for note in notes:
        for subject, count in note.subjects(code):
            counted[subject] = counted.get(subject, 0) + count
    ranked = sorted(counted, key=lambda subject: -counted[subject])
    named = [clip(visible(subject), 90) for subject in ranked[:_SUBJECTS_NAMED]]
    more = len(ranked) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")


_READING_MESSAGES: dict[str, Callable[[int, str], str]] = {
    "F001": lambda n, what: f"{counted(n, 'line')} could not be read and {_is(n)} not counted: {what}",
    "F002": lambda _, what: f"{what}: what came before the break is counted, the rest is missing",
    "F003": lambda n, what: f"{counted(n, 'verdict')} written as a word, understood as true or false: {what}",
    "F004": lambda n, what: f"{counted(n, 'verdict')} not understood, treated as missing: {what}",
    "F011": lambda n, what: (
        f"{counted(n, 'key')} repeated in one row with different values, the last one counts: {what}"
    ),
    "F012": lambda n, _: f"{counted(n, 'row')} with NaN or Infinity, treated as missing",
    "F013": lambda n, what: f"{counted(n, 'row')} with an impossible number of attempts: {what}",
    "F016": lambda n, _: f"{counted(n, 'row')} saying 'No response received', counted by the verdict, as spikee does",
    "F017": lambda n, _: f"{counted(n, 'row')} with an empty error text, counted as an error",
    "F021": lambda n, _: (
        f"{counted(n, 'row')} judged a success although an error or a block is recorded, counted as success"
    ),
    "F023": lambda n, _: (
        f"{counted(n, 'row')} with unknown fields that are not kept as facets: too many, or oddly named"
    ),
    "F025": lambda n, what: f"{counted(n, 'text')} with a lone surrogate, replaced by U+FFFD: {what}",
    "F027": lambda n, what: f"{counted(n, 'value')} of the wrong kind, read as well as possible: {what}",
    "F034": lambda n, why: (
        f"{counted(n, 'entry', 'entries')} not reached by the run and not counted: {why}"
        + (
            "; the interval of the success rate allows for that, those of groups and differences do not"
            if STOP_WHEN in why
            else ""
        )
    ),
    "F029": lambda n, _: f"{counted(n, 'row')} that {'does' if n == 1 else 'do'} not match --where, not counted",
}


_ABOUT_OUR_VERDICTS = frozenset(["F003", "F004"])
"""Findings about how a verdict was understood, which spikee's definition does not ask."""


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def from_reading(notes: Sequence[Notes], *, definition: str) -> list[Finding]:
    """Return what the readers of one or more sources noted, one finding per code."""
    found = []
    for code, message in _READING_MESSAGES.items():
        count = sum(note.total(code) for note in notes)
        if count and not (definition == "spikee" and code in _ABOUT_OUR_VERDICTS):
            where = [place for note in notes for place in note.where(code)]
            found.append(finding(code, count, message(count, _subjects(notes, code)), where))
    return found


def from_inputs(inputs: Sequence[Input]) -> list[Finding]:
    """Return a finding if a file was given more than once."""
    again = [(item.path, path) for item in inputs for path in item.also]
    if not again:
        return []
    message = f"{counted(len(again), 'file')} given more than once, counted once"
    return [finding("F007", len(again), message, [f"{copy} = {first}" for first, copy in again])]


def from_sources(sources: Sequence[Source]) -> list[Finding]:
    """Return a finding for sources without any entry."""
    empty = [source.path for source in sources if not source.good_lines]
    return [finding("F026", len(empty), f"{counted(len(empty), 'file')} without entries", empty)] if empty else []


def benign_among_attacks(sources: Sequence[Source]) -> list[Finding]:
    """Return a finding if files that look like benign checks are counted together with attacks."""
    benign = [source.path for source in sources if looks_benign(source.path)]
    if not benign or len(benign) == len(sources):
        return []
    message = (
        f"{counted(len(benign), 'file')} that by its name is a check with benign prompts, counted among the attacks"
        if len(benign) == 1
        else f"{len(benign):,} files that by their names are checks with benign prompts, counted among the attacks"
    )
    return [finding("F036", len(benign), f"{message}; measure a guardrail with --false-positive-checks", benign)]


# -- shown by the ledger ---------------------------------------------------------------------------------------


_LEDGER_MESSAGES: dict[str, Callable[[int], str]] = {
    "F006": lambda n: (
        f"{counted(n, 'row')} repeated in the same file with the same prompt, answer and verdict, counted once"
    ),
    "F008": lambda n: (
        f"{counted(n, 'row')} found in several files (results with their extract, rejudge or copy), counted once"
    ),
    "F009": lambda n: f"{counted(n, 'verdict')} contradicted by another file; the rejudged or last given one counts",
    "F018": lambda n: f"{counted(n, 'attack row')} without a history: blocks and errors inside the attack are unknown",
    "F019": lambda n: (
        f"{counted(n, 'row')} with an id like that of an attack row, but without attack or entry; counted as an entry"
    ),
    "F020": lambda n: (
        f"{counted(n, 'entry', 'entries')} with attack rows only: no standard attempt is recorded for them"
    ),
}


def from_ledger(ledger: LedgerView, tally: Tally, sources: Sequence[Source], *, detected: bool) -> list[Finding]:
    """Return what only the folded ledger shows."""
    words = WORDS[sources[0].aim if sources else "attack"]
    found = [
        _different_cases(ledger),
        *_old_guardrails(ledger, sources, detected=detected),
        _unjudged(ledger, tally, words),
        _errors_inside(ledger, tally, words),
        _policy_blocks(ledger, tally),
        *(_over_rows(code, rows_behind(ledger, code), message) for code, message in _LEDGER_MESSAGES.items()),
    ]
    return [item for item in found if item is not None]


def _over_rows(code: str, rows: ProblemRows, message: Callable[[int], str]) -> Finding | None:
    """Return a finding over rows, or None where there are none."""
    return finding(code, rows.count, message(rows.count), rows.where) if rows.count else None


def _different_cases(ledger: LedgerView) -> Finding | None:
    ids = problems.shared_ids(ledger)
    return _over_rows(
        "F005",
        rows_behind(ledger, "F005"),
        lambda n: f"{counted(ids, 'id')} shared by {n:,} different cases; each case is a separate entry",
    )


def _old_guardrails(ledger: LedgerView, sources: Sequence[Source], *, detected: bool) -> list[Finding]:
    """Find files of spikee 0.1 in which a success without any answer can only be a guardrail's True."""
    if detected:
        return []
    old = [index for index, source in enumerate(sources) if (source.tool, source.tool_version) == ("spikee", "0.1")]
    if not old:
        return []
    answers = problems.answers_of_successes(ledger)
    found = []
    for index in old:
        empty, text = (answers.get((index, answer), 0) for answer in (AnswerKind.EMPTY, AnswerKind.TEXT))
        if empty and not text:
            message = (
                f"{counted(empty, 'success', 'successes')} without any answer in a file of spikee 0.1: a boolean "
                "guardrail's, where True meant detected; use --guardrail-success detected if so"
            )
            found.append(finding("F010", empty, message, problems.successes_without_answer(ledger, index)))
    return found


def _unjudged(ledger: LedgerView, tally: Tally, words: Words) -> Finding | None:
    if not tally.unjudged:
        return None
    all_of_them = tally.unjudged == tally.total
    hint = "; no row has a verdict: is this a result file?" if all_of_them else ""
    return _over_rows(
        "F014",
        rows_behind(ledger, "F014"),
        lambda n: f"{counted(n, 'entry', 'entries')} without a verdict; {words.none_won}{hint}",
    )


def _errors_inside(ledger: LedgerView, tally: Tally, words: Words) -> Finding | None:
    if not tally.error:
        return None
    found = _over_rows(
        "F015",
        rows_behind(ledger, "F015"),
        lambda n: (
            f"{counted(n, 'entry', 'entries')} of {tally.total:,} that ended in an error; the rate over all entries "
            f"{words.rate_counts}, the rate over judged entries leaves them out"
        ),
    )
    if found is not None and tally.error >= MANY_ERRORS * tally.total:
        return replace(found, severity=Severity.WARNING)
    return found


def _policy_blocks(ledger: LedgerView, tally: Tally) -> Finding | None:
    """Find the entries that are blocks only because a pattern says so; each would be an error otherwise."""
    if not tally.guardrail:
        return None
    # What a guardrail named itself is in the same table, and is none of our patterns.
    by = [
        (entries, pattern, number)
        for number, entries in problems.blocked_by_category(ledger).items()
        if (pattern := known_pattern(ledger.word("category", number))) is not None
    ]
    if not by:
        return None
    patterns = ", ".join(f"{name}: {entries:,}" for entries, name, _ in sorted(by, key=lambda one: (-one[0], one[1])))
    answered = tally.judged + tally.guardrail
    return _over_rows(
        "F035",
        problems.blocked_with_categories(ledger, [number for _, _, number in by]),
        lambda n: (
            f"{counted(n, 'entry', 'entries')} whose prompt the provider refused by its policy, counted among the "
            f"blocks and not among the errors ({patterns}); the rate over answered entries, as in compare, is "
            f"{_share(tally.success, answered)} and would be {_share(tally.success, answered - n)} otherwise; the "
            "rates over all and over judged entries are the same either way"
        ),
    )


def _share(count: int, total: int) -> str:
    return percent(count / total) if total else UNDEFINED
