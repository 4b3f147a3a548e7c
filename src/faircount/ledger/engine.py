"""What runs the SQL of the ledger: DuckDB, in process, behind the interface that another engine would have to have.

It is started only where it is needed, loads no extensions and opens no files but a cache's: the tables of a source, in
Parquet.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from faircount.core.workers import Beside
from faircount.ledger.schema import TABLES, Tables, sql_names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_KEEP_TO_MEMORY = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}


ONLY_DATABASE = "memory"
"""What the database of an engine is called that has no other."""
_lock = threading.Lock()
_shared: dict[str, Any] = {}
"""The engine for few rows, and the process that started it."""
_numbers = itertools.count(1)
_prepared: list[Beside[DuckDBPyConnection]] = []


def prepare() -> None:
    """Begin to start the engine that will be asked for next, while there is something else to wait for."""
    if not _prepared:
        _prepared.append(Beside(_start))


def _start() -> DuckDBPyConnection:
    connection: DuckDBPyConnection = module().connect(":memory:", config=_KEEP_TO_MEMORY)
    return connection


_limit: list[str] = []
"""How much memory an engine may use, where others work beside it."""


def keep_within(memory: str) -> None:
    """Let engines of this process use so much memory, and the disk for more, in the folder that they are given."""
    _limit[:] = [memory]


def connect(*, folder: Path | None = None, threads: int | None = None) -> DuckDBPyConnection:
    """Start an engine that can read and write files of the given folder and no others."""
    connection = _prepared.pop().answer() if _prepared else _start()
    if _limit:
        connection.execute(f"SET memory_limit = '{_limit[0]}'")
        if folder is not None:
            connection.execute("SET temp_directory = ?", [str(folder / "spill")])
    if folder is not None:
        connection.execute("SET allowed_directories = ?", [[str(folder)]])
    connection.execute("SET enable_external_access = false")
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    return connection


def prepare_small() -> Beside[DuckDBPyConnection]:
    """Begin to start the engine for few rows, unless that has begun."""
    with _lock:
        # What a fork has copied is left alone.
        if _shared.get("process") != os.getpid():
            _shared.update(process=os.getpid(), engine=Beside(_start_small, daemon=True))
        begun: Beside[DuckDBPyConnection] = _shared["engine"]
        return begun


def _start_small() -> DuckDBPyConnection:
    connection: DuckDBPyConnection = module().connect(":memory:", config=_KEEP_TO_MEMORY | {"threads": 1})
    connection.execute("SET enable_external_access = false")
    return connection


def connect_small() -> tuple[DuckDBPyConnection, str]:
    """Return a new database inside the process's one engine for few rows, and its name.

    That takes a tenth of the time of a new engine. It reads and writes no files and works in one thread.
    """
    engine = prepare_small().answer()
    with _lock:
        connection = engine.cursor()
        name = f"rows_{next(_numbers)}"
    connection.execute(f"ATTACH ':memory:' AS {name}")
    connection.execute(f"USE {name}")
    return connection, name


def disconnect_small(connection: DuckDBPyConnection, name: str) -> None:
    """Give back the memory of a small database."""
    connection.execute(f"USE {ONLY_DATABASE}")
    connection.execute(f"DETACH {name}")
    connection.close()


def module() -> Any:
    """Return the module of the engine: its core, which is imported four times as fast as the whole package."""
    try:
        import _duckdb
    except ImportError:
        import duckdb

        return duckdb
    return _duckdb


class Engine(Protocol):
    """Holds tables of numbers and runs the statements of this package, each connection for one thread at a time."""

    database: str
    """Where the tables are, for a statement that hides some."""

    @property
    def is_small(self) -> bool:
        """Whether it is made for few rows, so that these are better copied than shown as a view."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    def arrays(self, sql: str) -> dict[str, Any]:
        """Run one statement and return its columns as arrays of numpy."""

    def append(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows to a table."""

    def show(self, table: str, arrays: Mapping[str, Any]) -> None:
        """Let arrays be a table for this connection, without a copy."""

    def save(self, table: str, path: Path) -> None:
        """Write a table into a Parquet file."""

    def beside(self) -> Engine:
        """Return a connection for another thread; it must be closed before this one is."""

    def interrupt(self) -> None:
        """Break off the statement that another thread waits for."""

    def close(self) -> None:
        """Give the memory back."""


class DuckDB:
    """The engine that is there."""

    def __init__(self, connection: DuckDBPyConnection, database: str = ONLY_DATABASE, *, owned: bool = True) -> None:
        self.database = database
        self._connection = connection
        self._owned = owned

    @property
    def is_small(self) -> bool:
        return self.database != ONLY_DATABASE

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, list(parameters)).fetchall()

    def arrays(self, sql: str) -> dict[str, Any]:
        return self._connection.execute(sql).fetchnumpy()

    def append(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        appender = self._connection.appender(table)
        appender.append_rows(rows)
        appender.flush()

    def show(self, table: str, arrays: Mapping[str, Any]) -> None:
        self._connection.register(table, arrays)

    def save(self, table: str, path: Path) -> None:
        self.rows(f"COPY (SELECT * FROM {table}) TO {quoted(path)} (FORMAT PARQUET)")

    def beside(self) -> DuckDB:
        connection = self._connection.cursor()
        connection.execute(f"USE {self.database}")
        return DuckDB(connection, self.database, owned=False)

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        if self._owned and self.is_small:
            disconnect_small(self._connection, self.database)
        else:
            self._connection.close()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let an interruption by the user be one: the engine makes an error of it when it comes during a query."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


def quoted(path: Path) -> str:
    """Return a path of our own as a literal."""
    return "'" + str(path).replace("'", "''") + "'"


class StoredTables(Struct, frozen=True):
    """What is kept of a source in files: its rows, or what they were folded into where nothing else decided that."""

    folder: Path
    columns: Mapping[str, Sequence[str]]
    lexicons: Sequence[str]
    words: Callable[[str], list[str | None]]
    rows: int

    def content(self, table: str) -> str:
        """Return what stands for a table in SQL."""
        return f"READ_PARQUET({quoted(self.folder / table_file(table))})"

    def read(self) -> Tables:
        """Read everything into arrays."""
        with closing(DuckDB(connect(folder=self.folder, threads=1))) as reading:
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


def table_file(table: str) -> str:
    """Return how the file of a table is called."""
    return f"{table}.parquet"


def write_tables(writing: Engine, folder: Path, tables: Tables) -> None:
    """Write tables of arrays into a folder that the engine may write to."""
    import numpy

    for table, columns in tables.numbers.items():
        names = sql_names(columns)
        arrays = {names[column]: numpy.asarray(numbers) for column, numbers in columns.items()}
        writing.show(table, arrays)
        writing.save(table, folder / table_file(table))
