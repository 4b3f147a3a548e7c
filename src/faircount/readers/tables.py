"""Tables that no tool of ours wrote: CSV, TSV, JSON lines, JSON, Parquet and workbooks, with a row for each attempt.

What the columns are is settled by `table_files`; here their values are understood, in our direction. A value that is
not understood is unjudged, never a failure. A guess is always reported, as the option that gives it. No formula is
computed, and nothing of a file is executed.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.core.verdict import Decision, Verdict
from faircount.io.columns import listed
from faircount.io.documents import DamagedDocument
from faircount.io.records import Problem
from faircount.io.streams import Stream, split_member
from faircount.ledger.schema import Fields
from faircount.readers.attempt_rows import as_json
from faircount.readers.registry import TABLE, Probe
from faircount.readers.rows import shown
from faircount.readers.run_rows import LONGEST_SECONDS
from faircount.readers.table_files import (
    CATEGORIES,
    AskedColumns,
    Row,
    TableSource,
    asked_of,
    columns_of,
    is_table,
    leaf_name,
    unknown_columns,
    value_at,
)
from faircount.readers.tool_records import ATTACK, TASK, ToolFile, ToolReader, ToolRecord

_MOST_TARGETS = 100
_LONGEST_NAME, _START_OF_NAME = 120, 40
_LONGEST_FACET = 200
_LARGEST_EXACT = 2**53
_NO_TARGET = "(no target)"
_HALF = 0.5


# -- values -----------------------------------------------------------------------------------------------------

_NOTHING = frozenset(["", "nan", "null", "n/a", "na", "none", "-", "<na>", "#n/a"])
_TRUE, _FALSE = frozenset(["true", "yes", "1", "1.0"]), frozenset(["false", "no", "0", "0.0"])
_GOOD = {"pass", "passed", "correct", "refused", "safe", "benign"}
_BAD = {"fail", "failed", "incorrect", "jailbroken", "unsafe", "attack"}
"""Words for an answer that is as it should be, and for one that is not, whatever the aim."""
_OF_TASKS = {"pass", "passed", "correct", "fail", "failed", "incorrect"}
_TURNED = {
    ATTACK: {**dict.fromkeys(_GOOD, False), **dict.fromkeys(_BAD & _OF_TASKS, True)},
    TASK: {**dict.fromkeys(_GOOD - _OF_TASKS, True), **dict.fromkeys(_BAD - _OF_TASKS, False)},
}
"""Words whose direction is worth a note: they are about the other aim, or about an attack that failed."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][-+]?[0-9]{1,4})?")


def number_of(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a value as a finite number; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        if decimal_comma and "." not in text:
            text = text.replace(",", ".")
        value = float(text) if _NUMBER.fullmatch(text) else None
    try:
        found = None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found is not None and math.isfinite(found) else None


def text_of(value: Any) -> str:
    """Return a value as text; a whole number has no fraction, whatever it was stored as."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | list | dict):
        try:
            return as_json(value).decode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError):  # dates and the like inside
            return repr(value)
    return str(value)


def _is_nothing(value: Any) -> bool:
    return text_of(value).strip().casefold() in _NOTHING


def name_of(text: str) -> str:
    """Return a text as a name: a long one is its beginning with a digest of the whole."""
    if len(text) <= _LONGEST_NAME and text.isprintable():
        return text
    start = " ".join(visible(text[:_START_OF_NAME]).split())
    return f"{start}-{xxh3_64_hexdigest(text.encode('utf-8', 'surrogatepass'))[:12]}"


def run_name(target: str) -> str:
    """Return how the run of a target is called."""
    return name_of(target).strip() or "_"


def _conversation(value: Any) -> Sequence[Mapping[str, Any]]:
    """Return a prompt that is a list of messages; nothing for any other."""
    whole = isinstance(value, list) and all(isinstance(one, dict) and "role" in one for one in value)
    return value if whole else ()


def _row_place(path: str, line: int) -> str:
    """Return where a row is, behind the name of its file: a file that is no text has no lines."""
    return f"!row {line}" if split_member(path)[0].casefold().endswith((".parquet", ".xlsx")) else ""


# -- the reader -------------------------------------------------------------------------------------------------


class _ScoreScale(Struct):
    """What the numbers of a whole table are like: a column with others than 0 and 1 has no yes and no."""

    other_than_0_and_1: bool = False
    beyond_0_to_1: bool = False


class _Table:
    """A table that is open: makes records of its rows, and notes what is odd in them."""

    def __init__(self, file: ToolFile, source: TableSource, asked: AskedColumns) -> None:
        self._file, self.source = file, source
        self.columns, self.is_guessed = columns_of(source, asked)
        aim = file.read_as.aim or asked.columns.get("aim") or asked.format.aim or self.columns.aim
        self.knows_aim = aim is not None
        self._aim = file.aim = aim or ATTACK
        said = (file.read_as.threshold, self.columns.threshold, asked.format.success_threshold)
        self._threshold = next((threshold for threshold in said if threshold is not None), None)
        self._scale = _ScoreScale()
        self._turned = self.columns.is_turned(self._aim)
        self.targets = dict.fromkeys(self.columns.targets)
        self._last = 0

    @property
    def target(self) -> str | None:
        """The target, where there is one only; of several, the one whose run is wanted."""
        wanted = self._file.stream.only_run
        found = [target for target in self.targets if wanted is None or run_name(target) == wanted]
        return found[0] if len(found) == 1 else None

    def _target(self, row: Row) -> str:
        return self._text(row, "target").strip() or _NO_TARGET

    def number(self, line: int) -> int:
        """Return the number of the next record: its line, or more where several are on one."""
        self._last = max(line, self._last + 1)
        return self._last

    def look(self) -> None:
        """Go through the numbers of the table, before any is decided on, and through its targets."""
        try:
            for _, row in self.source.rows(self.columns, lambda *_: None):
                for column in self.columns.decides:
                    value = self._number(value_at(row, column))
                    if value is not None:
                        self._scale.other_than_0_and_1 |= value not in (0, 1)
                        self._scale.beyond_0_to_1 |= not 0 <= value <= 1
                if "target" in self.columns.columns:
                    self.targets[self._target(row)] = None
                    if len(self.targets) > _MOST_TARGETS:
                        raise UsageError(
                            f"{self._file.name}: the column {listed([self.columns.columns['target']])} has more than "
                            f"{_MOST_TARGETS} different values, so it names no targets; --map target= leaves it out"
                        )
        except DamagedDocument:
            pass  # reported when the rows are read

    def records(self, line: int, row: Row) -> Iterator[ToolRecord]:
        """Yield the record of a row, or one for each target that has a column."""
        columns, wanted = self.columns, self._file.stream.only_run
        if not columns.targets:
            target = self._target(row) if "target" in columns.columns else None
            yield from self._record(self.number(line), row, columns.decides[0], target)
            return
        for column in columns.targets:
            if wanted is None or run_name(column) == wanted:
                yield from self._record(line if wanted else self.number(line), row, column, column)

    def _record(self, line: int, row: Row, decides: str, target: str | None) -> Iterator[ToolRecord]:
        columns = self.columns.columns
        entry = self._entry(row)
        if entry is None:
            self.refuse(f"it has no {listed(self.columns.entry)}, which would say what was tested", line)
            return
        error, blocked = self._mark(row, "error"), self._mark(row, "blocked")
        raw = value_at(row, decides)
        success = self._by_score(raw, decides, line) if self.columns.by_score else self._success(raw, decides, line)
        score = self._number(value_at(row, columns["score"])) if "score" in columns else None
        reason = self._text(row, "reason")
        describes = "score" in columns or "reason" in columns
        judge = name_of(self._text(row, "judge").strip()) or (decides if describes else None)
        failed = error is not None or (blocked is not None and not success)
        verdict = Verdict(Decision.of(success), score, reason, judge=judge or "")
        prompt = value_at(row, columns["prompt"]) if "prompt" in columns else None
        messages = _conversation(prompt)
        yield ToolRecord(
            line=line,
            entry=entry,
            family=name_of(self._text(row, "family")),
            prompt=text_of(prompt) if not messages else None,
            messages=messages,
            response=self._text(row, "response"),
            error=error,
            blocked=blocked,
            success=success,
            verdicts=() if failed or judge is None else (verdict,),
            judge=judge,
            thresholds={judge: self._threshold_used()} if judge is not None and self.columns.by_score else {},
            attempt=self._attempt(row, line),
            seconds=self._seconds(row, line),
            target=target,
            run=None if target is None else run_name(target),
            fields=self._fields(row, line, target),
        )

    # -- parts of a record ----------------------------------------------------------------------------------------

    def note(self, code: str, subject: str, line: int) -> None:
        """Note what is odd in a row."""
        self._file.note(code, subject, line, _row_place(self._file.name, line))

    def refuse(self, reason: str, line: int) -> None:
        """Count a row that cannot be read."""
        self._file.refuse(reason, line, _row_place(self._file.name, line))

    def _text(self, row: Row, role: str) -> str:
        column = self.columns.columns.get(role)
        return "" if column is None else text_of(value_at(row, column))

    def _number(self, value: Any) -> float | None:
        return number_of(value, decimal_comma=self.source.decimal_comma)

    def _entry(self, row: Row) -> str | None:
        parts = [text_of(value_at(row, column)).strip() for column in self.columns.entry]
        if not any(parts):
            return None
        if len(parts) > 1:
            parts = [part.replace("\\", "\\\\").replace("+", "\\+") for part in parts]
        return name_of("+".join(parts))

    def _mark(self, row: Row, role: str) -> str | None:
        """Return what an error or a block is described as; nothing where there is none."""
        text = self._text(row, role).strip()
        word = text.casefold()
        return None if word in _NOTHING or word in _FALSE else role if word in _TRUE else text

    def _success(self, value: Any, column: str, line: int) -> bool | None:
        """Return what the column of the verdict says, in our direction."""
        if isinstance(value, bool):
            return value is not self._turned
        number = self._number(value)
        if number is not None and self._scale.other_than_0_and_1:
            if self._threshold is None:
                self.note("F052", column, line)
                return None
            return self.columns.reaches(number, self._threshold) is not self._turned
        word = text_of(value).strip().casefold()
        if word in _TRUE or word in _FALSE or number is not None:
            return (bool(number) if number is not None else word in _TRUE) is not self._turned
        if word in _NOTHING:
            return None
        if word not in _GOOD and word not in _BAD:
            self.note("F004", f"{listed([column])} = {shown(text_of(value))}", line)
            return None
        success = word in (_GOOD if self._aim == TASK else _BAD)
        if word in _TURNED[self._aim]:
            what = {ATTACK: ("the attack failed", "the attack worked"), TASK: ("the task failed", "the task was done")}
            self.note("F003", f"{word} means that {what[self._aim][success]}", line)
        return success

    def _threshold_used(self) -> float:
        return _HALF if self._threshold is None else self._threshold

    def _by_score(self, value: Any, column: str, line: int) -> bool | None:
        """Return what a score means: from the threshold on, or from 0.5 on where all are between 0 and 1."""
        number = float(value) if isinstance(value, bool) else self._number(value)
        if number is None:
            if not _is_nothing(value):
                self.note("F004", f"{listed([column])} = {shown(text_of(value))}", line)
            return None
        if self._threshold is None and self._scale.beyond_0_to_1:
            self.note("F052", column, line)
            return None
        return self.columns.reaches(number, self._threshold_used())

    def _attempt(self, row: Row, line: int) -> int | None:
        column = self.columns.columns.get("attempt")
        value = None if column is None else value_at(row, column)
        number = number_of(value)
        if number is not None and number.is_integer() and abs(number) < _LARGEST_EXACT:
            return int(number)
        if column is not None and not _is_nothing(value):
            self.note("F027", column, line)
        return None

    def _seconds(self, row: Row, line: int) -> float | None:
        column = self.columns.columns.get("time")
        value = None if column is None else value_at(row, column)
        number = self._number(value)
        if number is not None and 0 <= number * self.columns.seconds <= LONGEST_SECONDS:
            return number * self.columns.seconds
        if column is not None and not _is_nothing(value):
            self.note("F027", column, line)
        return None

    def _fields(self, row: Row, line: int, target: str | None) -> dict[str, Any]:
        """Return the facets: those of the map, and the other columns that describe an attempt."""
        columns = self.columns.columns
        wanted = {leaf_name(column): column for column in self.columns.facets}
        wanted |= {role: columns[role] for role in ("strategy", "tokens", "cost") if role in columns}
        found: dict[str, Any] = {} if target is None else {"target": target}
        for name, column in wanted.items():
            value = value_at(row, column)
            text = text_of(value)
            if isinstance(value, list | dict) or len(text) > _LONGEST_FACET:
                self.note("F027", column, line)
            elif text.strip():
                found[name] = text
        return found


class TableReader(ToolReader):
    """Reads tables of any kind. Each row is an attempt; rows with one id are attempts on one entry."""

    name = tool = TABLE
    noun = "table row"
    of_models = True
    several_runs = True
    fields = Fields(first=CATEGORIES, family=("family",))

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is a table whose columns can be guessed; of Parquet and workbooks, that it is one."""
        return is_table(probe.head)

    def help_wanted(self, probe: Probe) -> str:
        """Return that the columns of a table must be named, if they cannot be guessed."""
        columns = unknown_columns(probe.head)
        if not columns:
            return ""
        return (
            f"a table whose columns cannot be guessed from their names ({columns}); say which column is what, such as "
            "--map id=COLUMN,success=COLUMN"
        )

    def place(self, path: str, line: int) -> str:
        """Return where a row is: on its line, or by its number in a file without lines."""
        return f"{path}{_row_place(path, line) or f':{line}'}"

    def runs(self, stream: Stream) -> list[str]:
        """Return the runs that a file holds: one for each target."""
        with _opened(self._file(stream, stream.max_line)) as table:
            if table.columns.targets or "target" in table.columns.columns:
                table.look()
            return list(dict.fromkeys(map(run_name, table.targets)))

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield an attempt for each row, or one for each row and target."""
        with _opened(file) as table:
            table.look()
            file.target = table.target
            if table.is_guessed:
                file.note("F055", table.columns.option)
            self._note_direction(file, table)
            for line, row in table.source.rows(table.columns, partial(_report, file, table)):
                yield from table.records(line, row)
                file.lines = max(table.source.lines, line)
            file.lines, file.blank = max(file.lines, table.source.lines), table.source.blank

    def _note_direction(self, file: ToolFile, table: _Table) -> None:
        decides = listed(table.columns.decides)
        if not table.knows_aim:
            file.note("F051", f"nothing shows whether a success in {decides} is good or bad: read as that of an attack")
        elif table.columns.is_turned(file.aim):
            worked = "the attack failed" if file.aim == ATTACK else "the task failed"
            file.note("F051", f"true in {decides} is read as: {worked}")


@contextlib.contextmanager
def _opened(file: ToolFile) -> Iterator[_Table]:
    asked = asked_of(file.read_as)
    with file.on_disk() as path:
        name = split_member(file.name)[0]
        yield _Table(file, TableSource(path=path, name=name, max_line=file.max_line, asked=asked.columns), asked)


def _report(file: ToolFile, table: _Table, problem: Problem, reason: str, line: int) -> None:
    """Note what is wrong with a row, or with the rest of the file."""
    if problem is Problem.BAD_LINE:
        table.refuse(reason, table.number(line))
    elif problem is Problem.CUT_SHORT:
        file.note("F002", reason, line)
    elif problem is Problem.CHANGED_NUMBER:
        table.note("F012", "", line)
    else:
        table.note("F025", "a row", line)
