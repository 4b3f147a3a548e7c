"""`results export` as a library call: files in; the columns and the rows of a table out, or lines as they were.

A table has a row for each row of the files, or for each entry that these fold into. It is made while it is read: only
what is said of entries is held in memory. Damaged lines are left out and counted, as in `results extract`.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from faircount.analysis.choosing import Choice
from faircount.analysis.exporting_columns import (
    ROW,
    SAID,
    TEXT,
    Cell,
    Column,
    Row,
    all_columns,
    cells_of,
    fields_needed,
    named_column,
    refuse_unknown,
    said_column,
    split_names,
    unknown,
    value_of,
)
from faircount.analysis.extract import Extraction
from faircount.analysis.options import ExportOptions
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.ledger import engine, tallies
from faircount.ledger.lookup import EntriesOfRows, ListedEntry, listed_entries, place_in
from faircount.ledger.store import Ledger, ord_of, source_and_line
from faircount.readers.loading import Loader, Progress, refuse_unknown_fields
from faircount.readers.raw_rows import (
    Origin,
    RawRow,
    members_of,
    rows_of,
    strategy_of,
    values_decoder,
    values_of,
)
from faircount.report.blocks import Paragraph, Place, Record, Report, Section, text_table

ENTRY_COLUMNS = ("file", "line", "id", "outcome", "initial_success", "attempts", "attack_name")
"""What is said of an entry; its facets follow. File and line are those of its first row."""

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
    def _choice(self) -> Choice:
        return Choice(None, self._wanted.definition, self._query_asked)

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of the table; the files are read to find out, unless names were given that are soon met."""
        if self._wanted.entries:
            return self._entry_columns()
        if not self._names:
            said = SAID if self._wanted.name_lone_file or len(self.inputs) > 1 else SAID[1:]
            return all_columns(said, self._fields())
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
        return self._counted(self._entry_rows() if self._wanted.entries else self._table_rows())

    def lines(self) -> Iterator[list[bytes]]:
        """Yield lines of JSON in pieces: rows as they were, unless columns were named; entries as objects."""
        if self._wanted.entries:
            written = self._entry_objects()
        elif self._names:
            written = self._rows_of_columns()
        else:
            written = map(_whole_line, self._chosen_rows(computed=frozenset()))
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
        """Yield the rows that are meant; `computed` is what will be said of them."""
        asked = frozenset[str]() if self._query_asked is None else self._query_asked.computed
        if "outcome" in computed | asked and self._known is None:
            self._known = self._folded(self.origins)
        for index, origin in enumerate(self.origins):
            for found in self._chosen(index, origin, self._choice):
                self.matched += len(found)
                for raw in found:
                    yield index, origin, raw

    def _told_rows(self) -> Iterator[tuple[RawRow, Row, Row]]:
        """Yield the rows that are meant, with the fields that the columns need and what is said of them."""
        computed = frozenset(str(column.steps[0]) for column in self.columns if column.computed)
        decoder = values_decoder(fields_needed(self.columns) if self._names else None)
        inside = [column for column in self.columns if column.field is None and not column.computed]
        self.never_there = {column.name for column in inside}
        for index, origin, raw in self._chosen_rows(computed):
            row, said = values_of(raw.line, decoder), self._say_all(computed, index, origin, raw)
            if self.never_there:
                self.never_there -= {column.name for column in inside if value_of(column, row, said) is not None}
            yield raw, row, said

    def _say_all(self, computed: frozenset[str], index: int, origin: Origin, raw: RawRow) -> dict[str, object]:
        said: dict[str, object] = {"file": origin.name, "line": raw.number}
        if "strategy" in computed:
            said["strategy"] = strategy_of(raw.row, origin, self._wanted.max_line)
        if "outcome" in computed and self._known is not None:
            said["outcome"] = self._known.outcome(ord_of(index, raw.number))
        return said

    def _table_rows(self) -> Iterator[list[Cell]]:
        cells = cells_of(self.columns)
        for _, row, said in self._told_rows():
            yield cells(row, said)

    def _rows_of_columns(self) -> Iterator[bytes]:
        """Yield rows with the chosen columns alone; the text of a whole field stays as it was."""
        for raw, row, said in self._told_rows():
            members = members_of(raw.line)
            written = []
            for column in self.columns:
                kept = members.get(column.field) if column.field is not None else None
                written.append((column.name, _json(value_of(column, row, said)) if kept is None else bytes(kept)))
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
        ledger.fold(self._wanted.definition)
        self.entries = tallies.overall(ledger).tally.total
        return ledger

    def _entry_columns(self) -> list[Column]:
        facets = [Column(_facet_name(field), TEXT, (field,)) for field in self._ledger.facets]
        present = {column.name: column for column in [*map(said_column, ENTRY_COLUMNS), *facets]}
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
                    yield cells(entry.facets, self._said_of(entry))

    def _said_of(self, entry: ListedEntry) -> Row:
        source, line = source_and_line(entry.ord)
        return {
            "file": self.origins[source].name,
            "line": line,
            "id": entry.id,
            "outcome": entry.outcome.value,
            "initial_success": entry.initial_success,
            "attempts": entry.requests,
            "attack_name": entry.attack_name,
        }

    def _entry_objects(self) -> Iterator[bytes]:
        names = [column.name for column in self.columns]
        for cells in self._entry_rows():
            yield _object(zip(names, map(_json, cells), strict=True))

    def _rows_of_entries(self) -> array[int] | None:
        """Return the rows of the entries of which at least one row is meant; None if all are."""
        ledger, read = self._ledger, self.read
        if self._query_asked is None:
            return None
        known, self.read = EntriesOfRows(ledger, self._wanted.definition), []
        places = self.places(known)
        self.read = read
        return known.with_rows(places)[0]


def _whole_line(found: tuple[int, Origin, RawRow]) -> bytes:
    return found[2].line + b"\n"


def _facet_name(field: str) -> str:
    return f"{ROW}.{field}" if field in ENTRY_COLUMNS else field


def _json(value: object) -> bytes:
    """Return a value as JSON; half characters are escaped, everything else is written as it is."""
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
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return repr(value)
