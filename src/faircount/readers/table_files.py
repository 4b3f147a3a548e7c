"""Files of tables: which column means what, and the rows, whatever the file is written in.

Columns are those that the user names, by `--map` or by a format in `faircount.toml`; the others are guessed from names
that are usual. Where several columns could be the verdict or the id, nothing is guessed. What a value means is not
known here.
"""

from __future__ import annotations

import csv
import operator
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from faircount.config import FORMATS_FILE, TableFormat, read_formats
from faircount.core.errors import InputError, UsageError
from faircount.core.text import clip, visible
from faircount.io.archives import ZIP_MAGIC
from faircount.io.columns import ColumnFinder, Role, listed, plain, read_map
from faircount.io.documents import DamagedDocument, DocumentPart, JsonDocument
from faircount.io.lenient_json import MAX_DEPTH, BadLine, parse
from faircount.io.records import XLSX, Problem, Records, Report, all_fields, delimiter_of, distinct, without_surrogates
from faircount.io.streams import open_bytes
from faircount.ledger.parquet_rows import MAGIC as PARQUET
from faircount.ledger.parquet_rows import parquet_columns, parquet_rows
from faircount.readers.registry import HEAD_BYTES, TABLE, ReadAs, format_names, keys_of
from faircount.readers.tool_records import ATTACK, TASK

Row = Mapping[str, Any]
Rows = Iterator[tuple[int, Row]]

# -- which column means what ------------------------------------------------------------------------------------

_ATTACK_NAMES = ("jailbroken", "is_jailbroken", "attack_success", "attack_worked")
_TASK_NAMES = ("passed", "correct", "is_correct")
_SAFE_NAMES = ("safe", "is_safe", "refused", "is_refused", "refusal")
"""Of an attack, but true where it failed."""
CATEGORIES = ("category", "harm_category", "subject", "topic", "plugin", "technique")

_ID = Role(
    "id",
    (("id", "case_id", "test_id", "sample_id", "question_id", "behavior_id", "prompt_id"), ("case",)),
    "identifies the test cases",
)
_PROMPT = Role("prompt", (("prompt", "input", "question", "test_case", "jailbreak"),))
_SUCCESS = Role(
    "success", ((*_ATTACK_NAMES, *_TASK_NAMES, "success", "label", "verdict"),), "says whether an attempt succeeded"
)
_SCORE = Role("score", (("score", "judge_score", "rating"),))
_GUESSED = (
    _PROMPT,
    Role("family", (("family",),)),
    Role("target", (("model", "model_name", "target_model"),)),
    Role("attempt", (("attempt",),)),
    Role("response", (("response", "output", "completion", "generation", "answer", "actual_output"),)),
    Role("judge", (("judge", "judge_name"),)),
    Role("error", (("error", "exception"),)),
    Role("blocked", (("blocked", "is_blocked"),)),
    Role("reason", (("reason", "judge_reason"),)),
)
"""Roles that are guessed only where one column fits; where several do, none of them is meant for sure."""
_NAMED = tuple(Role(name) for name in ("strategy", "time", "tokens", "cost"))
_FACET = Role("facet", (CATEGORIES,))
_SAID = ("rows", "aim")
_EVERY = {role.name: role for role in (_ID, _SUCCESS, _SCORE, *_GUESSED, *_NAMED, _FACET)}
_ROLES = {**{name: name for name in (*_EVERY, *_SAID)}, "entry": "id", "sheet": "rows"}
"""What roles can be called: the rows are a sheet of a workbook, or the list in a JSON document."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BARE_SCORE = re.compile(r"\s*score\s*[<>]")
_COMPARED = re.compile(r"(.*?)\s*(>=|<=|>|<)\s*([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))\s*")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_STEP = re.compile(r"\[(\d{1,6})\]|\.?([^.\[]+)")
_ROWS_LIKE_THE_HEADER, _LONGEST_COLUMN, _MOST_COLUMNS_NAMED = 3, 60, 8
_ROWS_SAMPLED = 50
_DEEPEST_NAME = 4
_LONG_ID = "long_id"
"""Only rows of the default format have it: without their id they are damaged, and said to be so."""
_MOST_NAMES = 1000
_SECOND = "#2"
"""What a second column of the same name has behind it."""
_PARQUET, _DOCUMENT = "parquet", "document"
_WORKBOOK = b"xl/w"
"""In the names of the parts of every workbook: xl/workbook.xml, xl/worksheets/…"""


class TableMap(Struct, kw_only=True):
    """The columns of one table: of the entry, of each role that has one column, of facets, and of targets.

    Where `targets` are named, each is the column of one target's verdicts.
    """

    entry: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    facets: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    unit: str = "s"
    compare: str = ">="
    threshold: float | None = None
    said: dict[str, str] = field(default_factory=dict)
    """What the user says beside columns: the aim, and where the rows are."""

    @property
    def by_score(self) -> bool:
        """Whether a score decides."""
        return not self.targets and "success" not in self.columns

    @property
    def decides(self) -> list[str]:
        """The columns with verdicts."""
        return self.targets or [self.columns["score" if self.by_score else "success"]]

    @property
    def aim(self) -> str | None:
        """The aim that the name of the column with the verdict shows."""
        return TASK if self._says(_TASK_NAMES) else ATTACK if self._says(_ATTACK_NAMES + _SAFE_NAMES) else None

    def is_turned(self, aim: str) -> bool:
        """Return whether true in the column of the verdict is the opposite of a success."""
        return self._says(_TASK_NAMES + _SAFE_NAMES if aim == ATTACK else _ATTACK_NAMES)

    def _says(self, names: Sequence[str]) -> bool:
        decides = plain(leaf_name(self.columns.get("success", "")))
        return not self.targets and decides in map(plain, names)

    def reaches(self, score: float, threshold: float) -> bool:
        """Return whether a score is one of a success."""
        return _COMPARE[self.compare](score, threshold)

    @property
    def seconds(self) -> float:
        """The unit of durations, in seconds."""
        return _UNITS[self.unit]

    @property
    def read(self) -> list[str]:
        """Every column that is read, once."""
        return list(dict.fromkeys([*self.entry, *self.columns.values(), *self.facets, *self.targets]))

    @property
    def option(self) -> str:
        """What gives this map to `--map`."""
        parts = {"id": "+".join(self.entry), **self.columns, **self.said}
        if self.threshold is not None:
            parts["score"] += f"{self.compare}{self.threshold:g}"
        if "time" in parts:
            parts["time"] += f":{self.unit}"
        if self.targets:
            parts["target"] = "+".join(f"@{column}" for column in self.targets)
        if self.facets:
            parts["facet"] = "+".join(self.facets)
        return ",".join(f"{role}={column}" for role, column in parts.items())


class _MapMaker:
    """Finds the columns of a table as the user says, and guesses the others."""

    def __init__(self, name: str, names: Sequence[str], asked: Mapping[str, str], *, all_known: bool) -> None:
        self._names, self._asked = names, asked
        self._finder = ColumnFinder(name, names, all_known=all_known)
        self._map = TableMap()

    @property
    def has_guessed(self) -> bool:
        """Whether any column was not named by the user."""
        return bool(self._finder.guessed)

    def made(self) -> TableMap:
        """Return the map; UsageError where a column that is needed is not there, or several could be it."""
        found, finder = self._map, self._finder
        for role, column in self._asked.items():
            if role in _SAID and column:
                found.said[role] = column
            elif column:
                self._take(role, column)
        if found.threshold is not None and "success" in found.columns:
            raise UsageError("--map success=… and a score with a threshold would both decide; give one of them")
        self._guess()
        for vital, columns in ((_ID, found.entry), (_SUCCESS, [] if found.by_score else found.decides)):
            for column in columns:
                if f"{column}{_SECOND}" in self._names:
                    raise finder.ambiguous(vital, [column, f"{column}{_SECOND}"])
        if not found.entry:
            raise finder.missing(_ID)
        if found.by_score and "score" not in found.columns:
            raise finder.missing(_SUCCESS)
        return found

    def _take(self, role: str, column: str) -> None:
        """Give a role to the columns that were asked for."""
        found = self._map
        if role == "target" and column.startswith("@"):
            found.targets = [self._named(role, one.removeprefix("@")) for one in self._split(column)]
        elif role == "id":
            found.entry = [self._named(role, one) for one in self._split(column)]
        elif role == "facet":
            found.facets = [self._named(role, one) for one in self._split(column)]
        else:
            if role == "score" and column not in self._names and (compared := _COMPARED.fullmatch(column)):
                column, found.compare, found.threshold = compared[1], compared[2], float(compared[3])
            elif role == "time":
                column, found.unit = self._time(column)
            found.columns[role] = self._named(role, column)

    def _named(self, role: str, column: str) -> str:
        """Return a column that was asked for: one of the table, or a place inside one."""
        head = _STEP.match(column)
        if column not in self._names and head is not None and head[0] != column and head[0] in self._names:
            return column
        return self._finder.named(_EVERY[role], column)

    def _split(self, text: str) -> list[str]:
        """Return columns that are joined by +, unless a column is called so."""
        return [text] if text in self._names else [one.strip() for one in text.split("+") if one.strip()]

    def _time(self, column: str) -> tuple[str, str]:
        """Return the column of durations and their unit: as said, or as its name ends."""
        name, colon, unit = column.rpartition(":")
        if colon and unit in _UNITS and column not in self._names:
            return name, unit
        ending = re.split(r"[_\W]+", column)[-1].casefold()
        return column, ending if ending in _UNITS else "s"

    def _guess(self) -> None:
        """Give columns to the roles that nobody named; a role that was named without a column has none."""
        found, finder, asked = self._map, self._finder, self._asked
        if "id" not in asked and (column := finder.guess(_ID)):
            found.entry = [column]
        for role in (_SUCCESS, _SCORE):
            needed = found.by_score and "score" not in found.columns and role.name not in asked
            if needed and (column := finder.guess(role)):
                found.columns[role.name] = column
        for role in _GUESSED if found.targets else (_SCORE, *_GUESSED):
            if role.name not in asked and role.name not in found.columns and len(finder.candidates(role)) == 1:
                found.columns[role.name] = str(finder.guess(role))
        if not found.entry and "id" not in asked and "prompt" in found.columns:
            # The same text is the same test.
            found.entry = [found.columns["prompt"]]
            finder.guessed["id"] = found.entry[0]
        if "facet" not in asked and (facets := finder.candidates(_FACET)):
            found.facets = facets
            finder.take(_FACET, facets)


def _can_be_guessed(names: Iterable[str]) -> bool:
    """Return whether names of columns suggest what a table needs: a test, and a verdict or score."""
    finder = ColumnFinder("", list(names))
    tests, verdicts = (_ID, _PROMPT), (_SUCCESS, _SCORE)
    return any(map(finder.candidates, tests)) and any(map(finder.candidates, verdicts))


class AskedColumns(Struct, frozen=True):
    """What the user says of a table: the columns of roles, and the settings of a format."""

    columns: Mapping[str, str]
    format: TableFormat


def asked_of(said: ReadAs) -> AskedColumns:
    """Return what the options say, and the format that they name; options go before the format."""
    described = TableFormat()
    if said.format is not None and said.format.casefold() != TABLE:
        formats = read_formats()
        if said.format not in formats:
            known = ", ".join([*format_names(), *map(visible, formats)])
            raise UsageError(
                f"--format {clip(visible(said.format), 60)}: no such format; available: {known}. Describe a table of "
                f"your own in [formats.NAME] of {FORMATS_FILE}"
            )
        described = formats[said.format]
    columns = {**_read_columns(",".join(described.map).split(",")), **_read_columns(said.columns)}
    if columns.get("aim", ATTACK) not in (ATTACK, TASK):
        raise UsageError(f"--map aim={clip(visible(columns['aim']), 60)}: give attack or task")
    return AskedColumns(columns, described)


def _read_columns(parts: Sequence[str]) -> dict[str, str]:
    """Return roles with their columns; `score>=0.7` is short for `score=score>=0.7`."""
    whole = ",".join(f"score={part.strip()}" if _BARE_SCORE.match(part) else part for part in parts if part.strip())
    return dict(read_map([whole], _ROLES)) if whole else {}


def leaf_name(column: str) -> str:
    """Return the last part of the name of a place inside an object."""
    steps = [step for step in _steps(column) if isinstance(step, str)]
    return steps[-1] if steps else column


@lru_cache(maxsize=256)
def _steps(column: str) -> tuple[str | int, ...]:
    return tuple(int(step[1]) if step[1] is not None else step[2] for step in _STEP.finditer(column))


def value_at(row: Row, column: str) -> Any:
    """Return the value of a column: of one that is called so, or of a place such as `eval.hits[0].score`."""
    if column in row:
        return row[column]
    value: Any = row
    for step in _steps(column):
        if isinstance(step, int):
            value = value[step] if isinstance(value, list | tuple) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


# -- the rows of a file -----------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"?(\s*:)?|[{}\[\]]')


def _names_in(value: Any, depth: int = _DEEPEST_NAME) -> Iterator[str]:
    """Yield the names of the values of an object, `a.b` for one inside another."""
    for name, inner in value.items():
        yield str(name)
        if isinstance(inner, dict) and depth:
            yield from (f"{name}.{one}" for one in _names_in(inner, depth - 1))


def _lists_in(start: str) -> dict[tuple[str, ...], list[str]]:
    """Return the lists of objects in a JSON document that may break off, by their keys, each with the names in it.

    Lists inside of lists are not looked at.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    signs: list[str] = []
    keys: list[str] = []
    for token in _TOKEN.finditer(start):
        sign = token[0]
        if len(signs) > MAX_DEPTH:
            break
        if sign in ("{", "["):
            signs.append(sign)
            keys.append("")
        elif sign in ("}", "]"):
            if not signs:
                break
            signs.pop()
            keys.pop()
        elif token[2] is not None and signs and signs[-1] == "{":
            keys[-1] = token[1]
            if "[" in signs and signs.count("[") == 1:
                place = signs.index("[")
                names = found.setdefault(tuple(keys[:place]), [])
                name = ".".join(keys[place + 1 :])
                if name not in names and len(names) < _MOST_NAMES:
                    names.append(name)
    return found


def _list_of_rows(start: bytes, fits: Callable[[Sequence[str]], bool]) -> tuple[tuple[str, ...], Sequence[str]]:
    """Return where the rows of a JSON document are, and their names: in the first list that fits, or in the first.

    There are no keys for JSON lines: where the first line is an object and another one follows.
    """
    first, more, rest = start.partition(b"\n")
    try:
        parse(first)
    except BadLine:
        whole = False
    else:
        whole = True
    lines = (), sorted(keys_of(start))
    if whole and (rest.strip() or fits(lines[1])):
        return lines
    lists = _lists_in(start.decode("utf-8", "replace"))
    fitting = [one for one in lists.items() if fits(one[1])]
    return next(iter(fitting if whole or not more or fits(lines[1]) else fitting or lists.items()), lines)


def is_table(start: bytes) -> bool:
    """Return whether a file that begins so is a table whose columns can be guessed; of binary ones, that it is one."""
    if start.startswith(PARQUET):
        return True
    if start.startswith(ZIP_MAGIC):
        return _WORKBOOK in start
    text = start.removeprefix(BOM_UTF8).lstrip()
    if text.startswith(b"{"):
        names = _list_of_rows(text, _can_be_guessed)[1]
        # Rows with an id and a success are those of result files, even where none can be read.
        return _LONG_ID not in names and not {"id", "success"} <= set(names) and _can_be_guessed(names)
    return _can_be_guessed(keys_of(text) if text.startswith(b"[") else _header_in(text))


def unknown_columns(start: bytes) -> str:
    """Return the columns of a CSV file that begins so, whatever they mean; nothing if it is no CSV file."""
    text = start.removeprefix(BOM_UTF8).lstrip()
    if text.startswith((b"{", b"[")) or b"\0" in text:
        return ""
    first, _, rest = text.partition(b"\n")
    names = [name.strip() for name in _header_in(first)]
    usual = len(names) > 1 and len(set(names)) == len(names) and all(0 < len(name) <= _LONGEST_COLUMN for name in names)
    rows = rest.split(b"\n")[:_ROWS_LIKE_THE_HEADER]
    alike = usual and all(len(_header_in(row)) == len(names) for row in rows if row.strip())
    # Records of any other kind have no first line that names what the others hold.
    alike = alike and all(
        name[0].isalpha() and name.replace("_", "").replace(" ", "").replace("-", "").isalnum() for name in names
    )
    return ", ".join(clip(visible(name), 40) for name in names[:_MOST_COLUMNS_NAMED]) if alike and rest.strip() else ""


class TableSource(Struct, kw_only=True):
    """The bytes of a table on disk, and how its rows are found in them."""

    path: str
    name: str
    max_line: int
    asked: Mapping[str, str]
    kind: str = ""
    keys: tuple[str, ...] = ()
    """Where the list of rows is in a JSON document."""
    header: list[str] = field(default_factory=list)
    """All columns, where a file says which there are."""
    decimal_comma: bool = False
    sheets: list[str] = field(default_factory=list)
    """Sheets that were looked at."""
    lines: int = 0
    blank: int = 0

    def __post_init__(self) -> None:
        with Path(self.path).open("rb") as file:
            start = file.read(HEAD_BYTES)
        if start.startswith(PARQUET):
            self.kind = _PARQUET
            self.header = parquet_columns(self.path, self.name)
            return
        text = start.removeprefix(BOM_UTF8).lstrip()
        if text.startswith(b"{"):
            said = self.asked.get("rows")
            self.keys = tuple(said.split(".")) if said else _list_of_rows(text, self._fits)[0]
            self.kind = _DOCUMENT if self.keys else ""

    def _fits(self, names: Sequence[str]) -> bool:
        """Return whether names are those of the columns that were asked for, or that can be guessed."""
        asked = [column for role, column in self.asked.items() if role in ("id", "success", "prompt") and column]
        known = {plain(name) for name in names}
        return all(plain(one) in known for one in asked[0].split("+")) if asked else _can_be_guessed(names)

    def _is_wanted_sheet(self, name: str, header: Sequence[str]) -> bool:
        wanted = self.asked.get("rows")
        self.sheets.append(name)
        return plain(name) == plain(wanted) if wanted else self._fits(header)

    def rows(self, wanted: TableMap | None, report: Report) -> Rows:
        """Yield the rows, each with its line or number; of a table that is not known yet, `wanted` is None."""
        if self.kind == _PARQUET:
            return self._parquet(wanted, report)
        if self.kind == _DOCUMENT:
            return self._document(report)
        return self._records(wanted, report)

    def _parquet(self, wanted: TableMap | None, report: Report) -> Rows:
        read = (
            self.header
            if wanted is None
            else [step for column in wanted.read for step in (column, *_steps(column)[:1])]
        )
        columns = [name for name in self.header if name in read]
        for number, values in enumerate(parquet_rows(self.path, columns), start=1):
            self.lines = number
            if sum(len(value) for value in values if isinstance(value, str | bytes)) > self.max_line:
                report(Problem.BAD_LINE, f"longer than {self.max_line:,} bytes", number)
            else:
                yield number, dict(zip(columns, values, strict=True))

    def _document(self, report: Report) -> Rows:
        document = JsonDocument(open_bytes(self.path, self.name).chunks, self.max_line)
        for part in _items_at(document, self.keys):
            self.lines = part.line
            try:
                if part.problem:
                    raise BadLine(part.problem)
                row, problems = parse(part.text)
            except BadLine as bad:
                report(Problem.BAD_LINE, str(bad), part.line)
                continue
            if problems.not_finite or problems.too_large:
                report(Problem.CHANGED_NUMBER, "", part.line)
            whole = without_surrogates(row)
            if whole != row:
                report(Problem.CHANGED_TEXT, "", part.line)
            yield part.line, whole
        self.lines = document.line

    def _records(self, wanted: TableMap | None, report: Report) -> Rows:
        vital = () if wanted is None else tuple({*wanted.entry, *wanted.decides})
        records = Records(
            self.path,
            all_fields(once=vital, finite=True, max_depth=MAX_DEPTH),
            report,
            name=self.name,
            max_line=self.max_line,
            choose_sheet=self._is_wanted_sheet,
        )
        sheet = self.asked.get("rows")
        if records.format == XLSX and sheet and plain(sheet) not in map(plain, self.sheets):
            raise UsageError(f"{self.name}: has no sheet {listed([sheet])}; its sheets: {listed(self.sheets)}")
        self.kind = records.format
        self.header = list(distinct(records.header)) if records.header is not None else []
        self.decimal_comma = records.delimiter == ";"
        yield from records
        self.lines, self.blank = records.lines, records.blank


def _items_at(document: JsonDocument, keys: Sequence[str]) -> Iterator[DocumentPart]:
    """Yield the items of the list that is under these keys."""
    if not keys:
        yield from document.items()
        return
    for key in document.members():
        if key == keys[0]:
            yield from _items_at(document, keys[1:])


def _header_in(start: bytes) -> list[str]:
    """Return the names of the columns of a CSV file by its first bytes; none if it is not one."""
    lines = start.decode("utf-8", "replace").splitlines(keepends=True)
    begin = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if begin is None:
        return []
    try:
        return next(csv.reader(lines[begin:], delimiter=delimiter_of(lines[begin]), strict=True), [])
    except csv.Error:
        return []


def columns_of(source: TableSource, asked: AskedColumns) -> tuple[TableMap, bool]:
    """Return the columns of a table, by its header or its first rows, and whether any was guessed."""
    names, seen = dict[str, None](), 0
    try:
        for _, row in islice(source.rows(None, lambda *_: None), _ROWS_SAMPLED):
            seen += 1
            names |= dict.fromkeys(_names_in(row))
    except DamagedDocument:
        pass  # reported when the rows are read
    if not names and not source.header:
        raise InputError(f"{source.name}: no row of a table could be read")
    known = bool(source.header) or seen < _ROWS_SAMPLED
    maker = _MapMaker(source.name, source.header or list(names), asked.columns, all_known=known)
    return maker.made(), maker.has_guessed
