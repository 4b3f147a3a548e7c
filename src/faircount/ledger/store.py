"""The ledger in memory: DuckDB, in process, given typed columns only, never raw JSON.

Few rows go in as plain lists; many go in as Arrow, which costs an import and pays for it from a few thousand rows on.
The engine may neither load extensions nor open files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, TypeVar

from faircount.ledger import transport
from faircount.ledger.origins import Overlap, origin_keys, preference
from faircount.ledger.schema import ATTEMPT_COLUMNS, CATEGORY_COLUMNS, HISTORY_COLUMNS, Batch
from faircount.model import Outcome
from faircount.outcomes import PRECEDENCE

if TYPE_CHECKING:
    import duckdb
    import pyarrow

LINE_BITS = 40
ARROW_FROM_ROWS = 4000
SIDE_BY_SIDE_FROM_ROWS = 50_000

T = TypeVar("T")
Answered = TypeVar("Answered")

_KEY_COLUMNS = {"ord": "BIGINT", "source": "INTEGER"}
_TABLES = {
    "attempt": _KEY_COLUMNS | ATTEMPT_COLUMNS,
    "history": _KEY_COLUMNS | HISTORY_COLUMNS,
    "category": _KEY_COLUMNS | CATEGORY_COLUMNS,
}
_SEPARATOR = "\x1f"


class Ledger:
    """Rows of one or more sources, folded on request into entries."""

    def __init__(self, paths: Sequence[str], case_facets: Sequence[str]) -> None:
        self.paths = list(paths)
        self.case_facets = tuple(case_facets)
        self.facets: dict[str, str] = {}
        self.rows = [0] * len(self.paths)
        self._owner = 0
        self._small: list[tuple[int, Batch]] = []
        self._parts: dict[str, list[pyarrow.Table]] = {table: [] for table in _TABLES}

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The engine, started when it is first needed: reading can begin before."""
        import duckdb

        connection = duckdb.connect(
            ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        connection.execute("SET enable_external_access = false")
        self._owner = threading.get_ident()
        return connection

    def warm_up(self) -> None:
        """Start the engine now, while there is something else to wait for."""
        _ = self._connection

    def close(self) -> None:
        """Give the memory back."""
        if "_connection" in self.__dict__:
            self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of our own and return its rows. Record text never becomes part of `sql`."""
        # What came as Arrow is known to the first connection only; helping threads ask about entries alone.
        connection = self._connection
        if threading.get_ident() != self._owner:
            connection = connection.cursor()
        return connection.execute(sql, list(parameters)).fetchall()

    def each(self, ask: Callable[[T], Answered], items: Sequence[T]) -> list[Answered]:
        """Return the answer for each item: side by side where the ledger is large enough for that to pay."""
        if sum(self.rows) < SIDE_BY_SIDE_FROM_ROWS:
            return [ask(item) for item in items]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(ask, items))

    def place(self, ord_: int) -> str:
        """Return `file:line` of a row."""
        return f"{self.paths[ord_ >> LINE_BITS]}:{ord_ & ((1 << LINE_BITS) - 1)}"

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self, source: int, batch: Batch) -> None:
        """Take a reader's batch; it reaches the engine when the ledger is folded."""
        self.rows[source] += len(batch)
        if len(batch) < ARROW_FROM_ROWS:
            self._small.append((source, batch))
        else:
            self._add_part(source, transport.as_tables(batch))

    def load_packed(self, source: int, streams: Mapping[str, bytes], lines_before: int) -> None:
        """Take a batch that another process read, whose lines were counted from 1 behind `lines_before` others."""
        tables = {table: transport.unpacked(stream) for table, stream in streams.items()}
        self.rows[source] += tables["attempt"].num_rows
        self._add_part(source, tables, lines_before)

    def _add_part(self, source: int, tables: Mapping[str, pyarrow.Table], lines_before: int = 0) -> None:
        for table, rows in tables.items():
            self._parts[table].append(transport.placed(rows, source, LINE_BITS, lines_before))

    def _settle(self) -> None:
        """Hand all rows to the engine: few of them as lists, many as Arrow, which it reads where it lies."""
        if not self._parts["attempt"] and sum(map(len, (batch for _, batch in self._small))) < ARROW_FROM_ROWS:
            for table, columns in _TABLES.items():
                self._create_table(table, columns)
            for source, batch in self._small:
                self._insert_batch(source, batch)
        else:
            for source, batch in self._small:
                self._add_part(source, transport.as_tables(batch))
            for table, parts in self._parts.items():
                self._show_arrow(table, parts)
        self._small.clear()
        self._parts.clear()

    def _facet_column(self, name: str) -> str:
        """Return the column of a facet, named on first sight; its name is ours, never the record's."""
        return self.facets.setdefault(name, f"facet_{len(self.facets)}")

    def _show_arrow(self, table: str, parts: Sequence[pyarrow.Table]) -> None:
        if not parts:
            self._create_table(table, _TABLES[table])
            return
        rows = transport.joined(parts)
        prefix = transport.FACET
        names = [
            self._facet_column(name.removeprefix(prefix)) if name.startswith(prefix) else name
            for name in rows.column_names
        ]
        self._connection.register(table, rows.rename_columns(names))

    def _insert_batch(self, source: int, batch: Batch) -> None:
        columns: dict[str, Sequence[Any]] = dict(batch.columns)
        for name in batch.facets:
            if name not in self.facets:
                self._connection.execute(f"ALTER TABLE attempt ADD COLUMN {self._facet_column(name)} VARCHAR")
            columns[self._facet_column(name)] = batch.facet(name)
        self._insert_lists("attempt", source, columns)
        for table, kinds, rows in (
            ("history", HISTORY_COLUMNS, batch.history),
            ("category", CATEGORY_COLUMNS, batch.categories),
        ):
            if rows:
                self._insert_lists(table, source, dict(zip(kinds, zip(*rows, strict=True), strict=True)))

    def _insert_lists(self, table: str, source: int, columns: Mapping[str, Sequence[Any]]) -> None:
        kinds = _TABLES[table]
        named = ", ".join(["ord", "source", *columns])
        unnested = ", ".join(f"UNNEST(${name}::{kinds.get(name, 'VARCHAR')}[])" for name in columns)
        parameters: dict[str, Any] = {name: list(values) for name, values in columns.items()}
        start = source << LINE_BITS
        self._connection.execute(
            f"INSERT INTO {table} ({named}) SELECT {start} + UNNEST($line), {source}, {unnested}", parameters
        )

    # -- folding -------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Fold the rows into entries by Faircount's rules."""
        self._settle()
        self._place_origins()
        self._run("place_rows.sql", case_signature=self._case_signature())
        self._run("fold_entries.sql", outcome=_outcome_case(), facets=self._facet_list())

    def fold_as_spikee(self, *, combined: bool) -> None:
        """Fold the rows into entries as spikee 0.9.2 does."""
        self._settle()
        self._create_table("source_path", {"source": "INTEGER", "path": "VARCHAR"})
        for source, path in enumerate(self.paths):
            self.query("INSERT INTO source_path VALUES (?, ?)", [source, path])
        unnamed = "s.path" if combined else "a.source_file, ''"
        self._run("fold_entries_spikee.sql", unnamed_origin=unnamed, facets=self._facet_list())

    def _create_table(self, table: str, columns: Mapping[str, str]) -> None:
        self._connection.execute(_create_statement(table, columns))

    def _place_origins(self) -> None:
        origin = "COALESCE(result_origin, source_file, '')"
        named = self.query(f"SELECT DISTINCT source, {origin} FROM attempt ORDER BY 1, 2")
        overlaps: Iterable[Overlap] = ()
        if len(self.paths) > 1:
            overlaps = [Overlap(*row) for row in self.query(_statement("link_sources.sql"))]
        keys = origin_keys(self.paths, [(row[0], row[1]) for row in named], overlaps, self.rows)
        self._create_table("origin_key", {"source": "INTEGER", "origin": "VARCHAR", "origin_key": "INTEGER"})
        for (source, origin), key in keys.items():
            self.query("INSERT INTO origin_key VALUES (?, ?, ?)", [source, origin, key])
        self._create_table("source_preference", {"source": "INTEGER", "preference": "INTEGER"})
        for source, path in enumerate(self.paths):
            self.query("INSERT INTO source_preference VALUES (?, ?)", [source, preference(path)])

    def _case_signature(self) -> str:
        columns = [f"COALESCE(a.{self.facets[name]}, '')" for name in self.case_facets if name in self.facets]
        return f"CONCAT_WS('{_SEPARATOR}', '', {', '.join(columns)})" if columns else "''"

    def _facet_list(self) -> str:
        """Return the facets as columns of an entry; a missing and an empty value are one."""
        selected = [f"NULLIF(a.{column}, '') AS {column}" for column in self.facets.values()]
        return ", ".join(selected or ["NULL AS no_facet"])

    def _run(self, name: str, **parts: str) -> None:
        for statement in _statement(name, **parts).split(";"):
            if statement.strip():
                self._connection.execute(statement)


def _create_statement(table: str, columns: Mapping[str, str]) -> str:
    described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"CREATE TABLE {table} ({described})"


def _statement(name: str, **parts: str) -> str:
    text = resources.files("faircount.ledger").joinpath("sql", name).read_text(encoding="utf-8")
    return Template(text).substitute(parts)


def _outcome_case() -> str:
    """Return the outcome rule as SQL over the flags of a folded entry."""
    flags = {
        Outcome.SUCCESS: "f.succeeded",
        Outcome.FAILURE: "f.failed",
        Outcome.ERROR: "f.errored",
        Outcome.GUARDRAIL: "f.blocked",
    }
    branches = " ".join(f"WHEN {flags[o]} THEN '{o.value}'" for o in PRECEDENCE if o in flags)
    return f"CASE {branches} ELSE '{Outcome.UNJUDGED.value}' END"
