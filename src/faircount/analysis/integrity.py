"""Doubts about the data, as findings: those noted while reading, and those that only the whole ledger shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from faircount.analysis.words import WORDS, Words
from faircount.findings import EXAMPLES_KEPT, Notes, counted, finding
from faircount.formats import UNDEFINED, percent
from faircount.ledger.schema import OUTCOME_NUMBER, Answer, Mark
from faircount.ledger.store import LINE_BITS, LedgerView
from faircount.model import Finding, Outcome, Severity, Source, Tally
from faircount.policy_blocks import known_pattern
from faircount.reading.inputs import Input
from faircount.reading.journal_rows import STOP_WHEN
from faircount.source_labels import looks_benign
from faircount.text import clip, visible

_SUCCESS, _ERROR, _UNJUDGED = (OUTCOME_NUMBER[o] for o in (Outcome.SUCCESS, Outcome.ERROR, Outcome.UNJUDGED))
_GUARDRAIL = OUTCOME_NUMBER[Outcome.GUARDRAIL]
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


def from_ledger(ledger: LedgerView, tally: Tally, sources: Sequence[Source], *, detected: bool) -> list[Finding]:
    """Return what only the folded ledger shows."""
    words = WORDS[sources[0].aim if sources else "attack"]
    found = [
        _different_cases(ledger),
        _repeated_rows(ledger),
        _rows_elsewhere(ledger),
        _judged_again(ledger),
        *_old_guardrails(ledger, sources, detected=detected),
        _unjudged(ledger, tally, words),
        _errors_inside(ledger, tally, words),
        _policy_blocks(ledger, tally),
        _no_history(ledger),
        _attack_like_ids(ledger),
        _orphans(ledger),
    ]
    return [item for item in found if item is not None]


def _places(ledger: LedgerView, sql: str, parameters: Sequence[object] = ()) -> list[str]:
    rows = ledger.query(f"{sql} ORDER BY 1 LIMIT {EXAMPLES_KEPT}", parameters)
    return [ledger.place(row[0]) for row in rows]


def _count(ledger: LedgerView, sql: str, parameters: Sequence[object] = ()) -> int:
    """Count the rows that `sql` selects by `ord`, which says their source as well."""
    source = f"CAST(ord >> {LINE_BITS} AS INTEGER) AS source"
    rows = ledger.ask(f"SELECT COUNT(*)$apart FROM (SELECT {source} FROM ({sql})) $by", parameters)
    return int(rows[0][0]) if rows else 0


def _over_rows(
    ledger: LedgerView, code: str, sql: str, message: Callable[[int], str], parameters: Sequence[object] = ()
) -> Finding | None:
    """Return a finding over the rows that `sql` selects by `ord`, or None where there are none."""
    count = _count(ledger, sql, parameters)
    if not count:
        return None
    return finding(code, count, message(count), _places(ledger, sql, parameters))


def _different_cases(ledger: LedgerView) -> Finding | None:
    shared = (
        "SELECT origin_key, entry_id, MIN(case_ord) AS ord FROM every_case GROUP BY origin_key, entry_id"
        " HAVING COUNT(*) > 1"
    )
    ids = _count(ledger, shared)
    cases = f"SELECT c.case_ord AS ord FROM every_case AS c INNER JOIN ({shared}) AS s USING (origin_key, entry_id)"
    return _over_rows(
        ledger,
        "F005",
        cases,
        lambda n: f"{counted(ids, 'id')} shared by {n:,} different cases; each case is a separate entry",
    )


def _repeated_rows(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F006",
        "SELECT ord FROM row_story WHERE story = 'repeated'",
        lambda n: (
            f"{counted(n, 'row')} repeated in the same file with the same prompt, answer and verdict, counted once"
        ),
    )


def _rows_elsewhere(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F008",
        "SELECT ord FROM row_story WHERE story IN ('told elsewhere', 'judged again elsewhere')",
        lambda n: (
            f"{counted(n, 'row')} found in several files (results with their extract, rejudge or copy), counted once"
        ),
    )


def _judged_again(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F009",
        "SELECT ord FROM row_story WHERE story = 'judged again elsewhere'",
        lambda n: f"{counted(n, 'verdict')} contradicted by another file; the rejudged or last given one counts",
    )


def _old_guardrails(ledger: LedgerView, sources: Sequence[Source], *, detected: bool) -> list[Finding]:
    """Find files of spikee 0.1 in which a success without any answer can only be a guardrail's True."""
    if detected:
        return []
    old = [index for index, source in enumerate(sources) if (source.tool, source.tool_version) == ("spikee", "0.1")]
    if not old:
        return []
    answers = _answers_of_successes(ledger)
    found = []
    for index in old:
        empty, text = (answers.get((index, answer), 0) for answer in (Answer.EMPTY, Answer.TEXT))
        if empty and not text:
            message = (
                f"{counted(empty, 'success', 'successes')} without any answer in a file of spikee 0.1: a boolean "
                "guardrail's, where True meant detected; use --guardrail-success detected if so"
            )
            where = _places(
                ledger,
                "SELECT ord FROM told WHERE source = ? AND state = ? AND answer = ?",
                [index, _SUCCESS, Answer.EMPTY],
            )
            found.append(finding("F010", empty, message, where))
    return found


def _answers_of_successes(ledger: LedgerView) -> dict[tuple[int, int], int]:
    """Count successful rows by their source and the kind of their answer."""
    rows = ledger.ask(
        f"SELECT source AS place, answer, COUNT(*)$apart FROM told WHERE state = {_SUCCESS}"
        " GROUP BY place, answer$apart"
    )
    alone = len(ledger.paths) == 1
    return {(0 if alone else source, answer): count for source, answer, count in rows}


def _unjudged(ledger: LedgerView, tally: Tally, words: Words) -> Finding | None:
    if not tally.unjudged:
        return None
    all_of_them = tally.unjudged == tally.total
    hint = "; no row has a verdict: is this a result file?" if all_of_them else ""
    return _over_rows(
        ledger,
        "F014",
        f"SELECT first_ord AS ord FROM entry WHERE outcome = {_UNJUDGED}",
        lambda n: f"{counted(n, 'entry', 'entries')} without a verdict; {words.none_won}{hint}",
    )


def _errors_inside(ledger: LedgerView, tally: Tally, words: Words) -> Finding | None:
    if not tally.error:
        return None
    found = _over_rows(
        ledger,
        "F015",
        f"SELECT first_ord AS ord FROM entry WHERE outcome = {_ERROR}",
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
    blocked = (
        "SELECT c.category, e.entry_key, e.first_ord AS ord, e.source FROM category AS c"
        " INNER JOIN told AS t ON c.ord = t.ord INNER JOIN entry AS e ON t.entry_key = e.entry_key"
        f" WHERE e.outcome = {_GUARDRAIL}"
    )
    named = ledger.ask(f"SELECT category, COUNT(DISTINCT entry_key)$apart FROM ({blocked}) GROUP BY category$apart")
    # What a guardrail named itself is in the same table, and is none of our patterns.
    by = [
        (entries, pattern, number)
        for number, entries in named
        if (pattern := known_pattern(ledger.word("category", number))) is not None
    ]
    if not by:
        return None
    patterns = ", ".join(f"{name}: {entries:,}" for entries, name, _ in sorted(by, key=lambda one: (-one[0], one[1])))
    numbers = ", ".join(str(number) for _, _, number in by)
    answered = tally.judged + tally.guardrail
    return _over_rows(
        ledger,
        "F035",
        f"SELECT DISTINCT ord FROM ({blocked}) WHERE category IN ({numbers})",
        lambda n: (
            f"{counted(n, 'entry', 'entries')} whose prompt the provider refused by its policy, counted among the "
            f"blocks and not among the errors ({patterns}); the rate over answered entries, as in compare, is "
            f"{_share(tally.success, answered)} and would be {_share(tally.success, answered - n)} otherwise; the "
            "rates over all and over judged entries are the same either way"
        ),
    )


def _share(count: int, total: int) -> str:
    return percent(count / total) if total else UNDEFINED


def _no_history(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F018",
        "SELECT ord FROM told WHERE is_attack AND blocks IS NULL AND requests > 0",
        lambda n: f"{counted(n, 'attack row')} without a history: blocks and errors inside the attack are unknown",
    )


def _attack_like_ids(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F019",
        "SELECT ord FROM told WHERE mark = ? AND NOT is_attack",
        lambda n: (
            f"{counted(n, 'row')} with an id like that of an attack row, but without attack or entry; counted as an "
            "entry"
        ),
        [Mark.ATTACK_BY_ID],
    )


def _orphans(ledger: LedgerView) -> Finding | None:
    return _over_rows(
        ledger,
        "F020",
        "SELECT first_ord AS ord FROM entry WHERE NOT has_standard",
        lambda n: f"{counted(n, 'entry', 'entries')} with attack rows only: no standard attempt is recorded for them",
    )
