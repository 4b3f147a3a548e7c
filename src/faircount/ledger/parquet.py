"""The tables of a source in files of their own, in Parquet, written and read by the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from faircount.ledger import engine
from faircount.ledger.engine import DuckDB, Engine
from faircount.ledger.schema import TABLES, Tables, sql_names


class StoredTables(Struct, frozen=True):
    """What is kept of a source in files: its rows, or what they were folded into where nothing else decided that."""

    folder: Path
    columns: Mapping[str, Sequence[str]]
    lexicons: Sequence[str]
    words: Callable[[str], list[str | None]]
    rows: int

    def content(self, table: str) -> str:
        """Return what stands for a table in SQL."""
        return f"READ_PARQUET({engine.quoted(self.folder / file_name(table))})"

    def read(self) -> Tables:
        """Read everything into arrays."""
        with closing(DuckDB(engine.connect(folder=self.folder, threads=1))) as reading:
            numbers = {table: self._read(reading, table) for table in TABLES}
        return Tables(numbers, {lexicon: self.words(lexicon) for lexicon in self.lexicons})

    def _read(self, reading: Engine, table: str) -> dict[str, Any]:
        import numpy

        # A duration that was not recorded is no number, which the engine takes for null.
        arrays = reading.arrays(f"SELECT * FROM {self.content(table)}")
        return {
            column: numpy.ma.filled(arrays[name], numpy.nan) if numpy.ma.is_masked(arrays[name]) else arrays[name]
            for column, name in sql_names(self.columns[table]).items()
        }


def file_name(table: str) -> str:
    """Return how the file of a table is called."""
    return f"{table}.parquet"


def write(writing: Engine, folder: Path, tables: Tables) -> None:
    """Write tables of arrays into a folder that the engine may write to."""
    import numpy

    for table, columns in tables.numbers.items():
        names = sql_names(columns)
        arrays = {names[column]: numpy.asarray(numbers) for column, numbers in columns.items()}
        writing.show(table, arrays)
        writing.save(table, folder / file_name(table))
