"""Problems with the data, as findings: those noted while reading, and those that only the whole ledger shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from faircount.analysis.words import WORDS, Words
from faircount.compat.tools import same_as_ours
from faircount.core.definition import FAIRCOUNT, Definition
from faircount.core.errors import UsageError
from faircount.core.findings import Notes, counted, finding
from faircount.core.model import Finding, Severity, Source, Tally
from faircount.core.outcomes import known_pattern
from faircount.core.string_judges import STRING_JUDGES
from faircount.core.text import clip, visible
from faircount.ledger import lookup
from faircount.ledger.labels import entries_by_judge
from faircount.ledger.lookup import ProblemRows, rows_behind
from faircount.ledger.schema import AnswerKind
from faircount.ledger.store import LedgerView
from faircount.readers.inputs import Input
from faircount.readers.registry import reader_named
from faircount.readers.rows import STOP_WHEN
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
    numbers = Counter[str]()
    for note in notes:
        numbers.update(dict(note.subjects(code)))
    ranked = sorted(numbers, key=lambda subject: -numbers[subject])
    # An option to be copied is given whole.
    longest = 1000 if code == "F055" else 90
    named = [clip(visible(subject), longest) for subject in ranked[:_SUBJECTS_NAMED]]
    more = len(ranked) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")


_READING_MESSAGES: dict[str, Callable[[int, str], str]] = {
    "F001": lambda n, what: (
        f"{counted(n, 'line')} could not be read and {'is' if n == 1 else 'are'} not counted: {what}"
    ),
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
    "F039": lambda n, what: f"{counted(n, 'run')} that did not complete: {what or 'aborted, or still running'}",
    "F040": lambda n, what: (
        f"{counted(n, 'figure')} of the tool's own that differ from the records in the file, which count: {what}"
    ),
    "F041": lambda *_: "several runs in one file: the entries of each are counted; split the file to compare them",
    "F042": lambda n, what: (
        f"{counted(n, 'attempt')} with more or fewer scores than outputs; an output without a score is unjudged: {what}"
    ),
    "F045": lambda n, what: (
        f"{counted(n, 'attempt')} whose judge failed, unjudged here and counted as a verdict by the tool: {what}"
    ),
    "F046": lambda n, what: f"{counted(n, 'attempt')} that ended in an error, counted as a verdict by the tool: {what}",
    "F047": lambda n, what: f"{counted(n, 'record')} that the tool leaves out of its own figures: {what}",
    "F048": lambda n, _: (
        f"{counted(n, 'attempt')} without any assertion, unjudged here and counted as passed by the tool"
    ),
    "F049": lambda n, what: f"{counted(n, 'verdict')} changed after the run: {what}",
    "F050": lambda n, _: (
        f"{counted(n, 'answer')} repeated from a cache: not an independent attempt; turn the cache off for repeats"
    ),
    "F051": lambda _, what: f"{what}; say otherwise with --aim",
    "F052": lambda n, what: f"{counted(n, 'score')} on a scale of their own, unjudged; set --success-threshold: {what}",
    "F053": lambda _, what: f"entries are known by their position in the file, which another run may change: {what}",
    "F054": lambda _, what: (
        f"entries generated for this run: compare groups with other runs, not single entries: {what}"
    ),
    "F055": lambda _, what: f"columns guessed from their names: --map {what}",
    "F056": lambda n, what: f"{counted(n, 'blocked answer')} counted as a verdict by the tool: {what}",
    "F057": lambda n, what: f"{counted(n, 'result')} without the records behind it: {what}",
    "F029": lambda n, _: f"{counted(n, 'row')} that {'does' if n == 1 else 'do'} not match --where, not counted",
}


_ABOUT_OUR_VERDICTS = frozenset(["F003", "F004"])
"""Findings about how a verdict was understood, which is not asked where any truthy one is a success."""


def from_reading(notes: Sequence[Notes], rules: Definition = FAIRCOUNT) -> list[Finding]:
    """Return what the readers of one or more sources noted, one finding per code."""
    found = []
    for code, message in _READING_MESSAGES.items():
        count = sum(note.total(code) for note in notes)
        if count and not (rules.merges_rows_by_id and code in _ABOUT_OUR_VERDICTS):
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
    words, ids = WORDS[sources[0].aim if sources else "attack"], lookup.shared_ids(ledger)
    found = [
        _over_rows(
            "F005",
            rows_behind(ledger, "F005"),
            lambda n: f"{counted(ids, 'id')} shared by {n:,} different cases; each case is a separate entry",
        ),
        *_old_guardrails(ledger, sources, detected=detected),
        _unjudged(ledger, tally, words, sources),
        _errors_inside(ledger, tally, words),
        _policy_blocks(ledger, tally),
        *(_over_rows(code, rows_behind(ledger, code), message) for code, message in _LEDGER_MESSAGES.items()),
    ]
    return [item for item in found if item is not None]


def _over_rows(code: str, rows: ProblemRows, message: Callable[[int], str]) -> Finding | None:
    """Return a finding over rows, or None where there are none."""
    return finding(code, rows.count, message(rows.count), rows.where) if rows.count else None


def _old_guardrails(ledger: LedgerView, sources: Sequence[Source], *, detected: bool) -> list[Finding]:
    """Find old files in which a success without any answer can only be a guardrail's True."""
    if detected:
        return []
    old = [
        (index, source)
        for index, source in enumerate(sources)
        if source.tool_version in reader_named(source.reader).detected_as_true
    ]
    if not old:
        return []
    answers = lookup.answers_of_successes(ledger)
    found = []
    for index, source in old:
        empty, text = (answers.get((index, answer), 0) for answer in (AnswerKind.EMPTY, AnswerKind.TEXT))
        if empty and not text:
            message = (
                f"{counted(empty, 'success', 'successes')} without any answer in a file of {source.tool} "
                f"{source.tool_version}: a boolean guardrail's, where True meant detected; use --guardrail-success "
                "detected if so"
            )
            found.append(finding("F010", empty, message, lookup.successes_without_answer(ledger, index)))
    return found


def _unjudged(ledger: LedgerView, tally: Tally, words: Words, sources: Sequence[Source]) -> Finding | None:
    if not tally.unjudged:
        return None
    # A dataset has the rows of a result file without verdicts; a file that names its tool is no dataset.
    may_be_dataset = any(reader_named(source.reader).version_by_fields for source in sources)
    hint = "; no row has a verdict: is this a result file?" if tally.unjudged == tally.total and may_be_dataset else ""
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
            f"{n:,} of {counted(tally.total, 'entry', 'entries')} ended in an error; "
            f"{'it counts' if n == 1 else 'they count'} as {words.not_won} in the rate over all entries, and not at "
            "all in the rate over judged entries"
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
        for number, entries in lookup.blocked_by_category(ledger).items()
        if (pattern := known_pattern(ledger.word("category", number))) is not None
    ]
    if not by:
        return None
    patterns = ", ".join(f"{name}: {entries:,}" for entries, name, _ in sorted(by, key=lambda one: (-one[0], one[1])))
    answered = tally.judged + tally.guardrail
    return _over_rows(
        "F035",
        lookup.blocked_with_categories(ledger, [number for _, _, number in by]),
        lambda n: (
            f"{counted(n, 'entry', 'entries')} whose prompt the provider refused by its policy, counted among the "
            f"blocks and not among the errors ({patterns}); the rate over answered entries, as in compare, is "
            f"{_share(tally.success, answered)} and would be {_share(tally.success, answered - n)} otherwise; the "
            "rates over all and over judged entries are the same either way"
        ),
    )


def _share(count: int, total: int) -> str:
    return percent(count / total) if total else UNDEFINED


# -- judges that decide by opinion; none is loaded -------------------------------------------------------------


_NAMES_SHOWN = 5
_BY_THE_TEXT = frozenset(name.casefold() for pair in STRING_JUDGES.items() for name in pair)
_OF_OTHERS = frozenset(
    ["any", "all", "majority", "not", "combine.anyof", "combine.allof", "combine.majority", "combine.not"]
)
"""Judges that only put others together: they are an opinion where one of those is."""


def judges_of_run(ledger: LedgerView) -> tuple[str | None, ...]:
    """Return the judges that the rows of entries with a verdict name, the most frequent first; None for no name."""
    return tuple(name for name, _ in entries_by_judge(ledger)) or (None,)


def judge_names(judges: Sequence[str | None]) -> str:
    """Return the names of judges for a sentence."""
    names = [clip(visible(name), 60) if name is not None else "no judge" for name in judges]
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def unmeasured(ledger: LedgerView) -> list[Finding]:
    """Return a finding if judges that decide by opinion gave verdicts; for a run whose judge nobody measured."""
    if all(_compares_strings(name) for name, _ in entries_by_judge(ledger) if name is not None):
        return []
    opinions = [
        (name, n) for name, n in entries_by_judge(ledger, read=True) if name is not None and not _compares_strings(name)
    ]
    if not opinions:
        return []
    entries = sum(n for _, n in opinions)
    message = (
        f"this rate rests on an unmeasured judge: {judge_names([name for name, _ in opinions])} judged "
        f"{counted(entries, 'entry', 'entries')}; label a sample of them with `faircount results "
        "sample-for-labels`, and give it to --judge-quality"
    )
    return [finding("F031", entries, message)]


def _compares_strings(name: str) -> bool:
    """Return whether what a judge says is defined by the text itself."""
    plain = _plain(name)
    if plain in _BY_THE_TEXT:
        return True
    if plain not in _OF_OTHERS:
        return False
    # Only such a name needs to be taken apart.
    from faircount.components.spec import parse

    try:
        return _all_compare_strings(parse(name))
    except UsageError:
        return False


def _all_compare_strings(call: Any) -> bool:
    from faircount.components.spec import Spec

    plain = _plain(call.name)
    if plain in _BY_THE_TEXT:
        return True
    parts = [part for part in (*call.positional, *call.parameters.values()) if isinstance(part, Spec)]
    return plain in _OF_OTHERS and bool(parts) and all(map(_all_compare_strings, parts))


def _plain(name: str) -> str:
    return same_as_ours(name.partition("(")[0].strip().casefold())
