"""DuckDB, in process: started only where it is needed; it loads no extensions and opens no files but a cache's."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircount.workers import Beside

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


def connect(*, folder: Path | None = None, threads: int | None = None) -> DuckDBPyConnection:
    """Start an engine that can read and write files of the given folder and no others."""
    connection = _prepared.pop().answer() if _prepared else _start()
    if folder is not None:
        connection.execute("SET allowed_directories = ?", [[str(folder)]])
    connection.execute("SET enable_external_access = false")
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    return connection


def connect_small() -> tuple[DuckDBPyConnection, str]:
    """Return a new database inside the process's one engine for few rows, and its name.

    That takes a tenth of the time of a new engine. It reads and writes no files and works in one thread.
    """
    with _lock:
        if _shared.get("process") != os.getpid():
            # What a fork has copied is left alone.
            engine = module().connect(":memory:", config=_KEEP_TO_MEMORY | {"threads": 1})
            engine.execute("SET enable_external_access = false")
            _shared.update(process=os.getpid(), engine=engine)
        connection: DuckDBPyConnection = _shared["engine"].cursor()
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
