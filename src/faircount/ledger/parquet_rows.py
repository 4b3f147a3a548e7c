"""Rows of Parquet files that somebody else wrote.

A file is read by an engine of its own that may open files of its folder and no others. Only the columns that are wanted
are read, a bounded number of rows at a time. Nothing is written.
"""

from __future__ import annotations

import contextlib
import glob
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircount.core.errors import InputError
from faircount.core.text import clip, visible
from faircount.io.documents import DamagedDocument
from faircount.ledger.engine import connect, interruptible, module, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAGIC = b"PAR1"

_BATCH_ROWS = 1_000
_MOST_MEMORY = "2GB"
_LONGEST_REASON = 200
_PLACE = re.compile(r"""(?:file )?(["'])/.*?\1""")


def parquet_columns(path: str, name: str) -> list[str]:
    """Return the names of the columns of a file; `name` is what it is called in messages."""
    with _opened(path) as (connection, content):
        try:
            return [str(column) for column, *_ in connection.execute(f"DESCRIBE SELECT * FROM {content}").fetchall()]
        except module().Error as error:
            raise InputError(f"{name}: cannot read this Parquet file: {_reason(error)}") from error


def parquet_rows(path: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns row by row; `DamagedDocument` where a part of the file cannot be read."""
    if not columns:
        return
    wanted = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    count = 0
    with _opened(path) as (connection, content):
        try:
            connection.execute(f"SELECT {wanted} FROM {content}")
            while rows := connection.fetchmany(_BATCH_ROWS):
                for row in rows:
                    count += 1
                    yield row
        except (module().Error, ValueError, OverflowError) as error:  # a date that Python has no value for
            raise DamagedDocument(_reason(error), count + 1) from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[DuckDBPyConnection, str]]:
    """Give an engine that may read a file, and what stands for the file in SQL.

    The engine takes some characters of a path for a pattern of several files: such a file is read from a copy.
    """
    with contextlib.ExitStack() as opened:
        opened.enter_context(interruptible())
        file = Path(path).resolve()
        if glob.has_magic(str(file)):
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="faircount-"))
            file = Path(shutil.copyfile(file, Path(folder) / "table.parquet"))
        connection = opened.enter_context(closing(connect(folder=file.parent, threads=1)))
        connection.execute(f"SET memory_limit = '{_MOST_MEMORY}'")
        yield connection, f"READ_PARQUET({quoted(file)}, hive_partitioning = false)"


def _reason(error: Exception) -> str:
    """Return the first line of what the engine says, without where the file is."""
    said = str(error).partition("\n")[0].partition(": ")[2] or str(error)
    return clip(visible(_PLACE.sub("the file", said)), _LONGEST_REASON)
