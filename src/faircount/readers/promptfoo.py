"""Reads promptfoo's results: JSON documents of versions 2 and 3, JSON lines, and its SQLite database.

A row is one test with one prompt and one provider (`promptfoo_rows`). A provider is a run; rows that `--repeat` makes
are attempts on one entry. A row of a red team is an attack, and a failed assertion its success; in any other file a
row is a task that passes or fails. Where promptfoo's own figures count what is no verdict, that is reported.

A document is read a row at a time and never held. Nothing of promptfoo is needed, and nothing that a file names is
loaded. Of a database, only tables known by name are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field
from xxhash import xxh3_64_intdigest

from faircount.core.errors import InputError
from faircount.core.model import ToolFigure
from faircount.io.documents import DamagedDocument, JsonDocument
from faircount.io.files import read_range
from faircount.io.streams import Stream, file_of, open_bytes
from faircount.ledger.schema import Fields
from faircount.ledger.sqlite_rows import MAGIC, ROW_ID, SqliteTables, open_tables
from faircount.readers.attempt_rows import as_json
from faircount.readers.promptfoo_rows import (
    ALL_ASSERTIONS,
    BROKEN,
    LONGEST_NAME,
    UNASSERTED,
    UNREADABLE,
    PromptfooRow,
    RowState,
    RunNames,
    attack_of,
    components_of,
    count_in,
    is_attack,
    is_broken,
    judge_name,
    messages_of,
    provider_name,
    short,
    state_of,
    task_of,
    verdicts_of,
)
from faircount.readers.registry import Probe, head_of, keys_of
from faircount.readers.tool_records import (
    ATTACK,
    TASK,
    ToolFile,
    ToolReader,
    ToolRecord,
    decoded,
    finite,
    object_of,
    objects_in,
    text_of,
)

PROMPTFOO = "promptfoo"

_DOCUMENT_KEYS = frozenset(["results.prompts", "results.results", "results.timestamp"])
_ROW_KEYS = frozenset(["promptIdx", "testIdx", "vars", "success"])
_KEYS = {one.name: one.encode_name for one in msgspec.structs.fields(PromptfooRow)}
"""The columns of the database, each with its key in a document."""
_JSON_COLUMNS = frozenset(["test_case", "prompt", "provider", "response", "grading_result", "named_scores", "metadata"])
_COLLECTIONS = frozenset(["default", "foundation", "owasp", "nist", "mitre", "iso", "eu", "gdpr", "dod", "toxicity"])
"""Plugins that stand for others, which the rows name in their place."""
_MOST_PLANNED = 1_000
_decoder = msgspec.json.Decoder(PromptfooRow)


class _PromptfooCounts(Struct):
    """What promptfoo counts of rows, and what of that is no verdict."""

    rows: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    old_errors: int = 0
    """Errors that are failures, as before version 3."""
    thrown: int = 0
    """Those of them without any answer, which the first documents of version 2 do not count at all."""
    broken: int = 0
    unasserted: int = 0
    stopped_failures: int = 0
    stopped_passes: int = 0

    def add(self, row: PromptfooRow, state: RowState, *, stopped: bool) -> None:
        """Count a row as promptfoo does; `stopped` if it is a block here."""
        self.rows += 1
        if state.error is not None:
            old = row.reason is None
            self.errors += not old
            self.failed += old
            self.old_errors += old
            self.thrown += old and row.response is None
            return
        passed = row.success is True
        self.passed += passed
        self.failed += not passed
        self.stopped_passes += stopped and passed
        self.stopped_failures += stopped and not passed
        self.broken += state.unjudged == BROKEN and not stopped
        self.unasserted += state.unjudged == UNASSERTED and not stopped

    def without_thrown(self) -> None:
        """Leave out the errors that the first documents of version 2 leave out."""
        self.failed -= self.thrown
        self.old_errors -= self.thrown
        self.thrown = 0


class _Stated(Struct, frozen=True):
    """Counts that a file states."""

    passed: int
    failed: int
    errors: int


class _PromptfooFile(Struct):
    """What is learnt of a file while its rows are read."""

    file: ToolFile
    names: dict[str, RunNames] = field(default_factory=dict)
    counts: _PromptfooCounts = field(default_factory=_PromptfooCounts)
    runs: set[str] = field(default_factory=set)
    plugins: set[str] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    """Digests of the rows so far."""
    tests: set[int] = field(default_factory=set)
    """Digests of runs and entries so far."""
    stated: _Stated | None = None
    stated_by_run: dict[str, _Stated] = field(default_factory=dict)
    red_team: bool | None = None
    """Whether the first row is of a red team, which decides for all of them."""
    others: int = 0
    """Rows that are not of the kind of the first."""
    unnamed: int = 0
    """Rows without an id: promptfoo gives it when a run ends."""
    thrown: list[int] = field(default_factory=list)
    """The lines of old errors without an answer, which are failures or nothing, by the version."""

    def names_of(self, evaluation: str = "", *, several: bool = False) -> RunNames:
        """Return the names in an evaluation, of which a database may hold several."""
        prefix = f"{short(evaluation, LONGEST_NAME)}/" if several else ""
        return self.names.setdefault(evaluation, RunNames(prefix))

    def record(self, row: PromptfooRow, line: int, run: str, names: RunNames, place: str = "") -> ToolRecord:
        """Return a row as a record."""
        file, attack = self.file, is_attack(row)
        if self.red_team is None:
            self.red_team, file.aim = attack, ATTACK if attack else TASK
            file.target = provider_name(row.provider)
        self.others += attack is not self.red_team
        self.unnamed += row.id is None and row.test_idx is not None
        self.runs.add(run)
        test, state = attack_of(row, names) if attack else task_of(row), state_of(row)
        if attack:
            self.plugins.add(str(test.fields.get("plugin", "")))
        # A test that fails is an attack that works only in a red team: in any other file, nothing says so.
        turned = (attack or self.red_team) and (file.read_as.aim or file.aim) == ATTACK
        judge, verdicts = verdicts_of(row, state, turned=turned)
        success = next((one.success for one in verdicts if one.judge == judge), None)
        success = None if state.passed is None else success
        self._note(row, state, line, place, stopped=state.blocked is not None and not success)
        self._note_repeated(row, f"{run}\n{test.entry}", line, place)
        milliseconds, threshold = finite(row.latency_ms), finite(object_of(row.test_case).get("threshold"))
        return ToolRecord(
            line=line,
            entry=test.entry,
            family=test.family,
            messages=messages_of(row),
            response=text_of(object_of(row.response).get("output")),
            error=state.error,
            blocked=state.blocked,
            success=success,
            verdicts=() if state.error is not None else verdicts,
            judge=judge if state.error is None else None,
            thresholds={} if threshold is None else {judge: threshold},
            seconds=None if milliseconds is None or milliseconds < 0 else milliseconds / 1000,
            target=provider_name(row.provider),
            run=run,
            fields={**test.fields, "target": provider_name(row.provider)},
        )

    def is_double(self, row: PromptfooRow, text: bytes) -> bool:
        """Return whether a row is there already. Without a number, it may be a repeat that gave the same."""
        if row.id is None and row.test_idx is None:
            return False
        digest = xxh3_64_intdigest(text)
        known = digest in self.rows
        self.rows.add(digest)
        return known

    def _note_repeated(self, row: PromptfooRow, test: str, line: int, place: str) -> None:
        digest = xxh3_64_intdigest(test.encode("utf-8", "replace"))
        if digest in self.tests and object_of(row.response).get("cached") is True:
            self.file.note("F050", "", line, place)
        self.tests.add(digest)

    def _note(self, row: PromptfooRow, state: RowState, line: int, place: str, *, stopped: bool) -> None:
        """Count a row as promptfoo does, and note where that is not what happened."""
        self.counts.add(row, state, stopped=stopped)
        if state.error is not None:
            if row.reason is None and row.response is None:
                self.thrown.append(line)
            elif row.reason is None:
                self.file.note("F046", _OLD_ERROR, line, place)
        elif state.unjudged == UNREADABLE:
            self.file.note("F004", short(f"success {row.success}, failureReason {row.failure_reason}"), line, place)
        elif stopped:
            self.file.note("F056", "guardrails.flagged", line, place)
        elif state.unjudged == BROKEN:
            broken = next((judge_name(one) for one in components_of(row) if is_broken(one)), ALL_ASSERTIONS)
            self.file.note("F045", broken, line, place)
        elif state.unjudged == UNASSERTED:
            self.file.note("F048", "", line, place)

    def add_prompts(self, prompts: Any, names: RunNames) -> None:
        """Take the list of prompts, one for each prompt and provider, with counts."""
        for run, prompt in names.add(prompts):
            metrics = object_of(prompt.get("metrics"))
            if "testPassCount" not in metrics:
                continue
            before = self.stated_by_run.get(run, _Stated(0, 0, 0))
            self.stated_by_run[run] = _Stated(
                before.passed + count_in(metrics.get("testPassCount")),
                before.failed + count_in(metrics.get("testFailCount")),
                before.errors + count_in(metrics.get("testErrorCount")),
            )

    def add_plan(self, red_team: Any) -> None:
        """Note the plugins of a red team of which there is no test."""
        for plugin in objects_in(object_of(red_team).get("plugins")) if self.red_team else ():
            named = short(plugin.get("id"))
            known = any(one == named or one.startswith(f"{named}:") for one in self.plugins)
            if not named or known or "/" in named or named.partition(":")[0] in _COLLECTIONS:
                continue
            for _ in range(min(count_in(plugin.get("numTests")) or 1, _MOST_PLANNED)):
                self.file.note("F034", f"promptfoo made no test of the plugin {named}")

    def finish(self, *, whole: bool = True) -> None:
        """Add promptfoo's own figures; `whole` if the file did not break off."""
        file, counts, wanted = self.file, self.counts, self.file.stream.only_run
        if len(self.runs) > 1:
            file.target = None
        if self.others:
            kind = "attacks" if self.red_team else "tasks"
            file.note("F051", f"all rows are counted as {kind}, like the first; {self.others:,} may be others")
        if self.red_team:
            file.note("F054", "tests of a red team; those of one redteam.yaml are the same, and can be compared")
        stated = (self.stated if wanted is None else self.stated_by_run.get(wanted)) if whole else None
        left_out = stated is not None and counts.thrown > 0 and stated.failed == counts.failed - counts.thrown
        for line in self.thrown:
            file.note(*("F047", _THROWN) if left_out else ("F046", _OLD_ERROR), line)
        if left_out:
            counts.without_thrown()
        if counts.rows:
            self._add_figures(stated)

    def _add_figures(self, stated: _Stated | None) -> None:
        file, counts = self.file, self.counts
        n = counts.passed + counts.failed + counts.errors
        told = (None, None, None) if stated is None else (stated.passed, stated.failed, stated.errors)
        total = sum(one or 0 for one in told)
        for name, count, said in zip(_FIGURES, (counts.passed, counts.failed, counts.errors), told, strict=True):
            share = said / total if said is not None and total else None
            file.figures.append(ToolFigure(name, count / n if n else None, count=count, n=n, stated=share))
            if said is not None and said != count:
                file.note("F040", f"{name}: {said:,} stated, {count:,} in the rows")
        decided = n - counts.errors
        if self.red_team and decided:
            file.figures.append(ToolFigure(_ASR, counts.failed / decided, count=counts.failed, n=decided))
            for _ in range(counts.errors):
                file.note("F047", "errors, which the report of a red team leaves out")
        file.differs += _differences(counts, red_team=bool(self.red_team))


_OLD_ERROR = "a failure, as in promptfoo before version 3 of its documents"
_THROWN = "errors without an answer, in no count of the first versions"
_FIGURES = ("pass rate", "failures", "errors")
_ASR = "attack success rate"


def _differences(counts: _PromptfooCounts, *, red_team: bool) -> Iterator[str]:
    """Yield where promptfoo's figure is not ours, and why."""
    failed, passed, errors = counts.failed, counts.passed, counts.errors
    n = failed + passed + (0 if red_team else errors)
    if not n:
        return
    if red_team:
        headline = f"promptfoo reports an attack success rate of {failed / n:.1%} ({failed:,} of {n:,})"
        failures, passes = f"of those {failed:,}", f"of the other {passed:,}"
    else:
        headline = f"promptfoo reports a pass rate of {passed / n:.1%} ({passed:,} of {n:,} rows)"
        failures, passes = f"of the {failed:,} failures", f"of those {passed:,}"
    reasons = [
        (counts.broken, failures, "is a grader failure", "are grader failures"),
        (counts.stopped_failures, failures, "was stopped by a filter", "were stopped by a filter"),
        (counts.old_errors, failures, "is an error", "are errors"),
        (counts.unasserted, passes, "has no assertion", "have no assertion"),
        (counts.stopped_passes, passes, "was stopped by a filter", "were stopped by a filter"),
        (errors if red_team else 0, "more", "is an error and left out", "are errors and left out"),
    ]
    listed = [f"{count:,} {of} {one if count == 1 else many}" for count, of, one, many in reasons if count]
    yield f"{'; '.join([headline, *listed])}."


# -- the reader ----------------------------------------------------------------------------------------------------


class PromptfooReader(ToolReader):
    """Reads what `promptfoo eval` and `promptfoo redteam eval` write, and promptfoo's database."""

    name = tool = PROMPTFOO
    noun = "promptfoo row"
    aim = TASK
    of_models = True
    several_runs = True
    fields = Fields(
        first=("plugin", "attack_strategy", "severity", "prompt"),
        facets=("plugin", "attack_strategy", "severity", "policy", "language", "prompt", "judge_name", "target"),
        case=("target",),
        family=("test", "plugin and text"),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is a document, lines or a database of promptfoo's."""
        if probe.head.startswith(MAGIC):
            return b"eval_results" in probe.head and b"evals" in probe.head
        return _is_document(probe.head) or keys_of(probe.head) >= _ROW_KEYS

    def place(self, path: str, line: int) -> str:
        """Return where a row is: on a line, or in the table of a database."""
        return f"{path}{_place(line)}" if _is_database(file_of(path)) else f"{path}:{line}"

    def runs(self, stream: Stream) -> list[str]:
        """Return the providers, which a document names before its rows."""
        if _is_document(head_of(stream)):
            with contextlib.suppress(DamagedDocument):
                named = RunNames().add(_prompts_of(JsonDocument(stream.chunks, stream.max_line)))
                if found := dict.fromkeys(run for run, _ in named):
                    return list(found)
            again = open_bytes(stream.path, stream.name)
            again.read_as, again.max_line = stream.read_as, stream.max_line
            stream = again
        return super().runs(stream)

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield the rows of a file in its order."""
        found, head = _PromptfooFile(file), head_of(file.stream)
        read = _of_database if head.startswith(MAGIC) else _of_document if _is_document(head) else _of_lines
        try:
            yield from read(found)
        except DamagedDocument:
            found.finish(whole=False)
            raise
        found.finish()


def _is_document(head: bytes) -> bool:
    keys = keys_of(head)
    return "results.version" in keys and not keys.isdisjoint(_DOCUMENT_KEYS)


def _prompts_of(document: JsonDocument) -> Any:
    """Return the list of prompts of a document, which stands before its rows; None where it does not."""
    for key in document.members():
        if key == "results":
            for inner in document.members():
                if inner == "prompts":
                    return decoded(document.value().text)
                if inner == "results":
                    return None
    return None


def _row(found: _PromptfooFile, text: bytes, line: int, names: RunNames, place: str = "") -> Iterator[ToolRecord]:
    """Yield a row as a record, if it can be read and is wanted."""
    file = found.file
    row = file.decode(text, _decoder, line, place)
    if row is None:
        return
    try:
        run = names.run(row)
        if file.stream.only_run not in (None, run):
            return
        if row.success is None and row.response is None and row.grading_result is None and not row.error:
            file.refuse("the row has no answer, verdict or error", line, place)
        elif found.is_double(row, text):
            file.refuse("the same row again", line, place)
        else:
            yield found.record(row, line, run, names, place)
    except RecursionError:
        file.refuse("nested too deeply", line, place)


def _of_lines(found: _PromptfooFile) -> Iterator[ToolRecord]:
    names = found.names_of()
    for line, text in found.file.json_lines():
        yield from _row(found, text, line, names)
    if found.counts.rows and found.unnamed == found.counts.rows:
        found.file.note("F039", "rows have no id, which promptfoo gives when a run ends")


def _of_document(found: _PromptfooFile) -> Iterator[ToolRecord]:
    document, file = JsonDocument(found.file.stream.chunks, found.file.max_line), found.file
    for key in document.members():
        if key == "results":
            yield from _of_results(found, document)
        elif key == "config":
            for inner in document.members():
                if inner == "redteam":
                    found.add_plan(decoded(document.value().text))
        elif key == "metadata":
            file.version = short(object_of(decoded(document.value().text)).get("promptfooVersion")) or None
    file.lines = max(file.lines, document.line)
    document.end()


def _of_results(found: _PromptfooFile, document: JsonDocument) -> Iterator[ToolRecord]:
    names, last = found.names_of(), 0
    for key in document.members():
        if key == "prompts":
            found.add_prompts(decoded(document.value().text), names)
        elif key == "stats":
            stats = object_of(decoded(document.value().text))
            if "successes" in stats:
                found.stated = _Stated(*(count_in(stats.get(name)) for name in ("successes", "failures", "errors")))
        elif key == "results":
            for part in document.items():
                # In a document on one line, rows are counted instead.
                last = max(part.line, last + 1)
                found.file.lines = last
                if part.problem:
                    found.file.refuse(part.problem, last)
                else:
                    yield from _row(found, part.text, last, names)


# -- the database --------------------------------------------------------------------------------------------------


def _is_database(path: str) -> bool:
    try:
        return read_range(path, 0, len(MAGIC)) == MAGIC
    except (OSError, InputError):
        return False


def _place(number: int) -> str:
    return f"!eval_results/{number}"


def _of_database(found: _PromptfooFile) -> Iterator[ToolRecord]:
    file = found.file
    with file.on_disk() as path, open_tables(path, file.name) as tables:
        try:
            yield from _of_tables(found, tables)
        except InputError as error:
            raise DamagedDocument(str(error).removeprefix(f"{file.name}: "), file.lines) from None


def _of_tables(found: _PromptfooFile, tables: SqliteTables) -> Iterator[ToolRecord]:
    file, known = found.file, tables.columns("eval_results")
    columns = [name for name in _KEYS if name in known]
    if not columns:
        raise DamagedDocument("the database has no table eval_results", 0)
    several = len({evaluation for (evaluation,) in tables.rows("eval_results", ["eval_id"])}) > 1
    for number, row in enumerate(tables.rows("eval_results", ["eval_id", *columns], order_by=ROW_ID), 1):
        file.lines, evaluation = number, str(row[0] or "")
        try:
            text = _row_text(dict(zip(columns, row[1:], strict=True)), file, number)
        except (RecursionError, TypeError) as error:
            file.refuse(f"the row cannot be read: {error}", number, _place(number))
            continue
        yield from _row(found, text, number, found.names_of(evaluation, several=several), _place(number))
    for name, variables in tables.rows("evals", ["id", "vars"]):
        if str(name) not in found.names:
            file.note("F057", "an evaluation without rows in eval_results")
        elif variables == "[]":
            file.note("F039", "the names of its variables, which promptfoo adds at the end, are missing")


def _row_text(values: Mapping[str, Any], file: ToolFile, number: int) -> bytes:
    """Return a row of the table as it is in a document."""
    row: dict[str, Any] = {}
    for column, value in values.items():
        if column not in _JSON_COLUMNS:
            row[_KEYS[column]] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        elif value is not None:
            row[_KEYS[column]] = part = decoded(value) if isinstance(value, str | bytes) else None
            if part is None and value not in ("null", b"null"):
                file.note("F027", column, number, _place(number))
    if row.get("success") in (0, 1):
        row["success"] = bool(row["success"])
    return as_json(row)
