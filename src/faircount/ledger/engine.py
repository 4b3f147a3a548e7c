"""DuckDB, in process: started only where it is needed; it loads no extensions and opens no files but a cache's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_KEEP_TO_MEMORY = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}


class _Preparing:
    """An engine being started by a thread, while there is something else to wait for."""

    def __init__(self) -> None:
        self._started: list[DuckDBPyConnection] = []
        self._thread = threading.Thread(target=self._start)
        self._thread.start()

    def _start(self) -> None:
        self._started.append(module().connect(":memory:", config=_KEEP_TO_MEMORY))

    def take(self) -> DuckDBPyConnection:
        self._thread.join()
        return self._started.pop()


_prepared: list[_Preparing] = []


def prepare() -> None:
    """Begin to start the engine that will be asked for next."""
    if not _prepared:
        _prepared.append(_Preparing())


def connect(*, folder: Path | None = None, threads: int | None = None) -> DuckDBPyConnection:
    """Start an engine that can read and write files of the given folder and no others."""
    connection: DuckDBPyConnection = (
        _prepared.pop().take() if _prepared else module().connect(":memory:", config=_KEEP_TO_MEMORY)
    )
    if folder is not None:
        connection.execute("SET allowed_directories = ?", [[str(folder)]])
    connection.execute("SET enable_external_access = false")
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    return connection


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
