"""`results export` as a library call: files in; the columns and the rows of a table out, or lines as they were.

A table has a row for each row of the files, or for each entry that these fold into. It is made while it is read: only
what is computed for entries is held in memory. Damaged lines are left out and counted, as in `results extract`. A
column is a field of the rows, or what Faircount says of a row. Inside fields it is found as in a query: names and
numbers of elements, with every element for `[*]`. What is no single value becomes compact JSON."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.extract import Extraction, RowSelection
from faircount.analysis.options import ExportOptions
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.text import clip, visible
from faircount.ledger import engine, tallies
from faircount.ledger.lookup import EntriesOfRows, listed_entries, place_in
from faircount.ledger.store import Ledger, ord_of, source_and_line
from faircount.query import COMPUTED, QueryError, parse
from faircount.query.query import Operator, Path, Step, Test, text_of, values_at
from faircount.readers.loading import Loader, Progress, refuse_unknown_fields
from faircount.readers.raw_rows import Origin, RawRow, members_of, rows_of, strategy_of, values_decoder, values_of
from faircount.report.blocks import Paragraph, Place, Record, Report, Section, text_table

Cell = str | int | float | bool | None
"""What can stand in a cell; None for what is missing or null."""

TEXT, WHOLE, NUMBER, TRUTH = "text", "whole", "number", "truth"
"""The kinds of a column, for formats that have types."""

COMPUTED_COLUMNS = ("file", "line", "strategy", "outcome")
"""What Faircount says of a row, in the order of the columns."""

ROW = "row"
_KINDS = {
    "line": WHOLE,
    "success": TRUTH,
    "guardrail": TRUTH,
    "attempts": WHOLE,
    "response_time": NUMBER,
    "initial_success": TRUTH,
}
_SINGLE = frozenset([str, int, float, bool, type(None)])
_PLAIN_NAME = re.compile(r"[^\W\d][\w-]*")
# What stands between commas; those inside brackets or quotes separate nothing.
_NAME = re.compile(r"""(?:\[(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\]"'])*\]|[^,\[]|\[)+""")
_SHOWN = 40


class ExportColumn(Struct, frozen=True):
    """A column: its name, its kind, and where its value is in the row or, if `computed`, in what is computed for it."""

    name: str
    kind: str
    steps: tuple[Step, ...]
    computed: bool = False

    @property
    def field(self) -> str | None:
        """The field of the rows that the column is, if it is one and not a part of one."""
        step = self.steps[0] if len(self.steps) == 1 and not self.computed else None
        return step if isinstance(step, str) else None


def computed_column(name: str) -> ExportColumn:
    """Return the column of what Faircount says of a row or an entry."""
    return ExportColumn(name, _KINDS.get(name, TEXT), (name,), computed=True)


def field_column(field: str) -> ExportColumn:
    """Return the column of a field; one that is called like something that Faircount says gets its name in queries."""
    name = f"{ROW}.{field}" if field in COMPUTED else field
    return ExportColumn(name, _KINDS.get(field, TEXT), (field,))


def all_columns(computed_fields: Iterable[str], fields: Iterable[str]) -> list[ExportColumn]:
    """Return the columns of rows: what is computed for them, then their fields."""
    return [*map(computed_column, computed_fields), *map(field_column, fields)]


# -- named by the user ------------------------------------------------------------------------------------------


def split_names(texts: Iterable[str]) -> list[str]:
    """Return the names in lists with commas between them, each of which may stand only once."""
    names = [part.strip() for text in texts for part in _NAME.findall(text)]
    names = [name for name in names if name]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--columns: {_shown(name)} is named twice")
    return names


def named_column(name: str) -> ExportColumn:
    """Return the column that a name of the query language means."""
    path = _path(name)
    if path.computed and len(path.steps) == 1:
        return computed_column(name)
    kind = _KINDS.get(str(path.steps[0]), TEXT) if len(path.steps) == 1 else TEXT
    return ExportColumn(name, kind, path.steps, path.computed)


def _path(name: str) -> Path:
    try:
        tree = parse(f"{name} exists").tree
    except QueryError:
        tree = None
    if not isinstance(tree, Test) or tree.operator is not Operator.EXISTS:
        raise UsageError(
            f"--columns {_shown(name)}: not a field name; examples: id, guardrail_categories.hate, "
            'attempt_history[0] and row["my field"]'
        )
    return tree.path


def refuse_unknown(columns: Iterable[ExportColumn], fields: Mapping[str, object]) -> None:
    """Raise if a column is of a field that no row has; with no field at all, nothing can be told."""
    for column in columns:
        first = column.steps[0] if column.steps and not column.computed else None
        if fields and isinstance(first, str) and first not in fields:
            raise unknown(column.name, [*sorted(map(written_name, fields)), *COMPUTED_COLUMNS])


def unknown(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a column that is not there."""
    listed = ", ".join(_shown(other) for other in known)
    return UsageError(f"--columns {_shown(name)}: no such column; available: {listed}")


def written_name(field: str) -> str:
    """Return how the query language names a field."""
    for name in (field, f"{ROW}.{field}"):
        try:
            if _PLAIN_NAME.fullmatch(field) and _path(name) == Path((field,)):
                return name
        except UsageError:
            continue
    quoted = field.replace("\\", "\\\\").replace('"', '\\"')
    return f'{ROW}["{quoted}"]'


def _shown(name: str) -> str:
    return clip(visible(name), _SHOWN)


# -- what a row has in its columns ------------------------------------------------------------------------------


def fields_needed(columns: Iterable[ExportColumn]) -> frozenset[str] | None:
    """Return the fields that the columns need of a row; None if they need all."""
    own = [column.steps[:1] for column in columns if not column.computed]
    if () in own or (None,) in own:
        return None
    return frozenset(step for steps in own for step in steps if isinstance(step, str))


Row = Mapping[str, object]


def cells_of(columns: Sequence[ExportColumn]) -> Callable[[Row, Row], list[Cell]]:
    """Return what makes cells of the fields of a row and of what is computed for it."""

    names = [column.steps[0] if len(column.steps) == 1 else None for column in columns]
    looks = [(column, column.computed, name) for column, name in zip(columns, names, strict=True)]

    def cells(row: Row, computed_fields: Row) -> list[Cell]:
        found: list[Cell] = []
        for column, computed, name in looks:
            source: Row = computed_fields if computed else row
            value = source.get(name) if name.__class__ is str else value_of(column, row, computed_fields)
            found.append(value if value.__class__ in _SINGLE else text_of(value))  # type: ignore[arg-type]
        return found

    return cells


def value_of(column: ExportColumn, row: Row, computed_fields: Row) -> object:
    """Return the value of a row in a column; where every element is asked for, a list, or None if there is none."""
    found = list(values_at(dict(computed_fields if column.computed else row), column.steps))
    return (found or None) if None in column.steps else found[0]


# -- the table ------------------------------------------------------------------------------------------------


ENTRY_COLUMNS = ("file", "line", "id", "outcome", "initial_success", "attempts", "attack_name")
"""What is computed for an entry; its facets follow. File and line are those of its first row."""

MOST_ROWS = 10_000
"""The most rows on a page: browsers get slow with more."""
LONGEST_TEXT = 2000
"""Where texts are cut, as in every page."""
_NOTE = (
    f"Texts are cut off after {LONGEST_TEXT:,} characters, where they end in …; line breaks and invisible "
    "characters are spelled out."
)

Item = TypeVar("Item")


class Export(Extraction):
    """A table out of files: first its columns, then its rows or lines, then what is to be told. Use it as a context."""

    def __init__(
        self, files: Sequence[str], options: ExportOptions | None = None, progress: Progress = lambda _: None
    ) -> None:
        self._wanted = options or ExportOptions()
        super().__init__(files, self._wanted, progress)
        self.never_there: set[str] = set()
        """Columns inside fields that no row written so far has."""
        self._query_asked = self._query()
        self._names = split_names(self._wanted.columns)

    def __enter__(self) -> Export:
        return self

    @cached_property
    def origins(self) -> list[Origin]:
        """Where each file can be read as often as needed."""
        origins = [self._origin(item.path) for item in self.inputs]
        refuse_unknown_fields(self._query_asked, origins, self._wanted.max_line)
        return origins

    @cached_property
    def _choice(self) -> RowSelection:
        return RowSelection(None, self._wanted.definition, self._query_asked)

    @cached_property
    def columns(self) -> list[ExportColumn]:
        """The columns of the table; the files are read to find out, unless names were given that are soon met."""
        if self._wanted.entries:
            return self._entry_columns()
        if not self._names:
            computed_fields = (
                COMPUTED_COLUMNS if self._wanted.name_lone_file or len(self.inputs) > 1 else COMPUTED_COLUMNS[1:]
            )
            return all_columns(computed_fields, self._fields())
        columns = [named_column(name) for name in self._names]
        needed = fields_needed(columns)
        if needed:
            refuse_unknown(columns, self._fields(until=needed))
        return columns

    def _fields(self, until: Collection[str] = ()) -> dict[str, None]:
        """Return the fields in the order in which they first appear, as far as needed to have met some of them."""
        fields: dict[str, None] = {}
        for origin in self.origins:
            for raw in rows_of(origin, self._wanted.max_line):
                members = members_of(raw.line)
                if not fields.keys() >= members.keys():
                    fields |= dict.fromkeys(members)
                    if until and fields.keys() >= set(until):
                        return fields
        return fields

    def rows(self) -> Iterator[list[Cell]]:
        """Yield the rows of the table."""
        if self._wanted.entries:
            return self._counted(self._entry_rows())
        cells = cells_of(self.columns)
        return self._counted(cells(row, computed_fields) for _, row, computed_fields in self._described_rows())

    def lines(self) -> Iterator[list[bytes]]:
        """Yield lines of JSON in pieces: rows as they were, unless columns were named; entries as objects."""
        written: Iterator[bytes]
        if self._wanted.entries:
            names = [column.name for column in self.columns]
            written = (_object(zip(names, map(_json, cells), strict=True)) for cells in self._entry_rows())
        elif self._names:
            written = self._rows_of_columns()
        else:
            written = (raw.line + b"\n" for _, _, raw in self._chosen_rows(computed=frozenset()))
        return ([line] for line in self._counted(written))

    def _counted(self, items: Iterator[Item]) -> Iterator[Item]:
        for item in items:
            self.written += 1
            yield item

    def places(self, known: EntriesOfRows) -> array[int]:
        """Return where the rows are that are meant; what became of their entries is known."""
        self._known = known
        return self._places(self.origins, self._choice)

    # -- rows ----------------------------------------------------------------------------------------------------

    def _chosen_rows(self, computed: frozenset[str]) -> Iterator[tuple[int, Origin, RawRow]]:
        """Yield the rows that are meant; `computed` is what will be computed for them."""
        asked = frozenset[str]() if self._query_asked is None else self._query_asked.computed
        if "outcome" in computed | asked and self._known is None:
            self._known = self._folded(self.origins)
        for index, origin in enumerate(self.origins):
            for found in self._chosen(index, origin, self._choice):
                self.matched += len(found)
                for raw in found:
                    yield index, origin, raw

    def _described_rows(self) -> Iterator[tuple[RawRow, Row, Row]]:
        """Yield the rows that are meant, with the fields that the columns need and what is computed for them."""
        computed = frozenset(str(column.steps[0]) for column in self.columns if column.computed)
        decoder = values_decoder(fields_needed(self.columns) if self._names else None)
        inside = [column for column in self.columns if column.field is None and not column.computed]
        self.never_there = {column.name for column in inside}
        for index, origin, raw in self._chosen_rows(computed):
            row, computed_fields = values_of(raw.line, decoder), dict[str, object](file=origin.name, line=raw.number)
            if "strategy" in computed:
                computed_fields["strategy"] = strategy_of(raw.row, origin, self._wanted.max_line)
            if "outcome" in computed and self._known is not None:
                computed_fields["outcome"] = self._known.outcome(ord_of(index, raw.number))
            if self.never_there:
                self.never_there -= {
                    column.name for column in inside if value_of(column, row, computed_fields) is not None
                }
            yield raw, row, computed_fields

    def _rows_of_columns(self) -> Iterator[bytes]:
        """Yield rows with the chosen columns alone; the text of a whole field stays as it was."""
        for raw, row, computed_fields in self._described_rows():
            members = members_of(raw.line)
            written = []
            for column in self.columns:
                kept = members.get(column.field) if column.field is not None else None
                written.append(
                    (column.name, _json(value_of(column, row, computed_fields)) if kept is None else bytes(kept))
                )
            yield _object(written)

    # -- entries -------------------------------------------------------------------------------------------------

    @cached_property
    def _ledger(self) -> Ledger:
        """The ledger of all files, folded."""
        paths = [origin.path for origin in self.origins]
        with Loader(paths, self._wanted.reading, self._progress, alone=False) as loader:
            ledger = self._cleanup.enter_context(Ledger(paths))
            for index, origin in enumerate(self.origins):
                read = loader.load(ledger, index)
                read.notes.name = origin.name
                self._finish(replace(read.source, path=origin.name), read.notes)
        ledger.fold(self._wanted.rules)
        self.entries = tallies.overall(ledger).tally.total
        return ledger

    def _entry_columns(self) -> list[ExportColumn]:
        facets = [
            ExportColumn(f"{ROW}.{field}" if field in ENTRY_COLUMNS else field, TEXT, (field,))
            for field in self._ledger.facets
        ]
        present = {column.name: column for column in [*map(computed_column, ENTRY_COLUMNS), *facets]}
        for name in self._names:
            if name not in present:
                raise unknown(name, present)
        return [present[name] for name in self._names or present]

    def _entry_rows(self) -> Iterator[list[Cell]]:
        cells, ledger = cells_of(self.columns), self._ledger
        wanted = self._rows_of_entries()
        with engine.interruptible():
            for entry in listed_entries(ledger):
                if wanted is None or place_in(wanted, entry.ord) is not None:
                    source, line = source_and_line(entry.ord)
                    computed_fields = {
                        "file": self.origins[source].name,
                        "line": line,
                        "id": entry.id,
                        "outcome": entry.outcome.value,
                        "initial_success": entry.initial_success,
                        "attempts": entry.requests,
                        "attack_name": entry.attack_name,
                    }
                    yield cells(entry.facets, computed_fields)

    def _rows_of_entries(self) -> array[int] | None:
        """Return the rows of the entries of which at least one row is meant; None if all are."""
        ledger, read = self._ledger, self.read
        if self._query_asked is None:
            return None
        known, self.read = EntriesOfRows(ledger, self._wanted.rules), []
        places = self.places(known)
        self.read = read
        return known.with_rows(places)[0]


def _json(value: object) -> bytes:
    """Return a value as JSON; lone surrogates are escaped, everything else is written as it is."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{" + b", ".join(_json(name) + b": " + value for name, value in members) + b"}\n"


# -- a page -----------------------------------------------------------------------------------------------------


def as_page(files: Sequence[str], what: str, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Report:
    """Return a report of all rows; `what` they are stands before the files. Raise if they are too many for a page."""
    coming = iter(rows)
    grid = text_table(names, (tuple(map(_cell, row)) for row in islice(coming, MOST_ROWS)))
    if next(coming, None) is not None:
        raise UsageError(
            f"--to html: a page holds at most {MOST_ROWS:,} rows, and there are more: choose some with --where, or "
            "write xlsx or csv"
        )
    alone = len(files) == 1
    title = f"{what} of" if alone else f"{what} of {counted(len(files), 'file')}"
    words = Paragraph(f"{counted(len(grid.rows), 'row')}. {_NOTE}")
    return Report((Section(title, (words, grid), level=1, subject=Place(files[0]) if alone else None),))


def _cell(value: Cell) -> Record | str:
    if isinstance(value, str):
        return Record(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return "" if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)
