"""The ledger in memory: DuckDB, in process, given typed columns only, never raw JSON.

Few rows go in as plain lists; many go in as Arrow, which costs an import and pays for it from a few thousand rows on.
The engine may neither load extensions nor open files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from faircount.ledger.origins import Overlap, origin_keys, preference
from faircount.ledger.schema import ATTEMPT_COLUMNS, CATEGORY_COLUMNS, HISTORY_COLUMNS, Batch
from faircount.model import Outcome
from faircount.outcomes import PRECEDENCE

if TYPE_CHECKING:
    import duckdb

LINE_BITS = 40
ARROW_FROM_ROWS = 4000

_KEY_COLUMNS = {"ord": "BIGINT", "source": "INTEGER"}
_SEPARATOR = "\x1f"


class Ledger:
    """Rows of one or more sources, folded on request into entries."""

    def __init__(self, paths: Sequence[str], case_facets: Sequence[str]) -> None:
        import duckdb

        self.paths = list(paths)
        self.case_facets = tuple(case_facets)
        self.facets: dict[str, str] = {}
        self.rows = [0] * len(self.paths)
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(
            ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        self._connection.execute("SET enable_external_access = false")
        self._create("attempt", _KEY_COLUMNS | ATTEMPT_COLUMNS)
        self._create("history", _KEY_COLUMNS | HISTORY_COLUMNS)
        self._create("category", _KEY_COLUMNS | CATEGORY_COLUMNS)

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of our own and return its rows. Record text never becomes part of `sql`."""
        return self._connection.execute(sql, list(parameters)).fetchall()

    def place(self, ord_: int) -> str:
        """Return `file:line` of a row."""
        return f"{self.paths[ord_ >> LINE_BITS]}:{ord_ & ((1 << LINE_BITS) - 1)}"

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self, source: int, batch: Batch) -> None:
        """Add a reader's batch to the ledger."""
        lines = batch.columns["line"]
        self.rows[source] += len(lines)
        attempts: dict[str, Sequence[Any]] = dict(batch.columns)
        for name in batch.facets:
            attempts[self._facet_column(name)] = batch.facet(name)
        self._insert("attempt", source, lines, attempts)
        for table, columns, rows in (
            ("history", HISTORY_COLUMNS, batch.history),
            ("category", CATEGORY_COLUMNS, batch.categories),
        ):
            if rows:
                values_by_column = dict(zip(columns, zip(*rows, strict=True), strict=True))
                self._insert(table, source, values_by_column["line"], values_by_column)

    def _create(self, table: str, columns: dict[str, str]) -> None:
        described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self._connection.execute(f"CREATE TABLE {table} ({described})")

    def _facet_column(self, name: str) -> str:
        """Return the column of a facet, made on first sight; its name is ours, never the record's."""
        column = self.facets.get(name)
        if column is None:
            column = f"facet_{len(self.facets)}"
            self.facets[name] = column
            self._connection.execute(f"ALTER TABLE attempt ADD COLUMN {column} VARCHAR")
        return column

    def _insert(self, table: str, source: int, lines: Sequence[int], columns: Mapping[str, Sequence[Any]]) -> None:
        start = source << LINE_BITS
        values: dict[str, Sequence[Any]] = {
            "ord": [start + line for line in lines],
            "source": [source] * len(lines),
            **columns,
        }
        if len(lines) < ARROW_FROM_ROWS:
            self._insert_lists(table, values)
        else:
            self._insert_arrow(table, values)

    def _insert_lists(self, table: str, values: dict[str, Sequence[Any]]) -> None:
        kinds = _KEY_COLUMNS | ATTEMPT_COLUMNS | HISTORY_COLUMNS | CATEGORY_COLUMNS
        unnested = ", ".join(f"UNNEST(${name}::{kinds.get(name, 'VARCHAR')}[])" for name in values)
        parameters = {name: list(column) for name, column in values.items()}
        self._connection.execute(f"INSERT INTO {table} ({', '.join(values)}) SELECT {unnested}", parameters)

    def _insert_arrow(self, table: str, values: dict[str, Sequence[Any]]) -> None:
        import pyarrow

        types = {
            "BIGINT": pyarrow.int64(),
            "INTEGER": pyarrow.int32(),
            "TINYINT": pyarrow.int8(),
            "BOOLEAN": pyarrow.bool_(),
            "DOUBLE": pyarrow.float64(),
            "VARCHAR": pyarrow.string(),
        }
        kinds = _KEY_COLUMNS | ATTEMPT_COLUMNS | HISTORY_COLUMNS | CATEGORY_COLUMNS
        arrays = [pyarrow.array(column, type=types[kinds.get(name, "VARCHAR")]) for name, column in values.items()]
        self._connection.register("batch", pyarrow.table(arrays, names=list(values)))
        self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        self._connection.unregister("batch")

    # -- folding -------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Fold the rows into entries by Faircount's rules."""
        self._place_origins()
        self._run("place_rows.sql", case_signature=self._case_signature())
        self._run("fold_entries.sql", outcome=_outcome_case(), facets=self._facet_list())

    def fold_as_spikee(self, *, combined: bool) -> None:
        """Fold the rows into entries as spikee 0.9.2 does."""
        self._create("source_path", {"source": "INTEGER", "path": "VARCHAR"})
        for source, path in enumerate(self.paths):
            self.query("INSERT INTO source_path VALUES (?, ?)", [source, path])
        unnamed = "s.path" if combined else "a.source_file, ''"
        self._run("fold_entries_spikee.sql", unnamed_origin=unnamed, facets=self._facet_list())

    def _place_origins(self) -> None:
        origin = "COALESCE(result_origin, source_file, '')"
        named = self.query(f"SELECT DISTINCT source, {origin} FROM attempt ORDER BY 1, 2")
        overlaps: Iterable[Overlap] = ()
        if len(self.paths) > 1:
            overlaps = [Overlap(*row) for row in self.query(_statement("link_sources.sql"))]
        keys = origin_keys(self.paths, [(row[0], row[1]) for row in named], overlaps, self.rows)
        self._create("origin_key", {"source": "INTEGER", "origin": "VARCHAR", "origin_key": "INTEGER"})
        for (source, origin), key in keys.items():
            self.query("INSERT INTO origin_key VALUES (?, ?, ?)", [source, origin, key])
        self._create("source_preference", {"source": "INTEGER", "preference": "INTEGER"})
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
