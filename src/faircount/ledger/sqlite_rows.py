"""Rows of the SQLite databases that other tools keep their results in.

A database is opened read-only and as one that nobody changes: nothing is written beside it. Only real tables are read,
by `SELECT` on named columns. Views, triggers, virtual tables and generated columns, which could compute anything, are
never touched, and a database whose pages lead in circles is given up.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faircount.core.errors import InputError
from faircount.core.text import clip, visible

MAGIC = b"SQLite format 3\x00"
ROW_ID = "rowid"
"""The number of a row in its table: a column that can be asked for although no table lists it."""

_LONGEST_REASON = 200
_HEADER_BYTES, _LARGEST_PAGE = 100, 65_536
_LEAST_CELL, _LARGEST_CELL = 1 << 20, 1_000_000_000
_STEPS = 1_000_000
"""Steps of SQLite's virtual machine between two looks at how far it has got."""
_LOOKS = 100
_BYTES_PER_LOOK = 10_000
"""A row takes tens of steps: no honest database comes near a look for so many bytes."""

Row = tuple[Any, ...]


class SqliteTables:
    """The tables of a database that is open. Whatever SQLite says is wrong with it becomes an `InputError`."""

    def __init__(self, connection: sqlite3.Connection, name: str, size: int) -> None:
        self._connection, self._name = connection, name
        self._looks = _LOOKS + size // _BYTES_PER_LOOK
        self._columns: dict[str, list[str]] = {}
        connection.text_factory = _text
        # A cell is never larger than its file; a chain of pages that says so is a loop.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(_LEAST_CELL, size), _LARGEST_CELL))
        connection.set_progress_handler(self._look, _STEPS)
        for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
        try:
            connection.execute("SELECT 1 FROM sqlite_master").close()
        except sqlite3.DatabaseError as error:
            # Some versions of SQLite refuse an index over JSON, such as promptfoo has; no statement here uses one.
            if "unsafe use of" not in str(error):
                raise
            connection.execute("PRAGMA trusted_schema = ON")

    def tables(self) -> list[str]:
        """Return the names of the tables; views and virtual tables, which have no pages of their own, are none."""
        found = self._select("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid")
        return [name for (name,) in found if isinstance(name, str)]

    def columns(self, table: str) -> list[str]:
        """Return the names of the columns of a table; none if there is no such table."""
        if table not in self._columns:
            known = table in self.tables()
            described = self._select(f"PRAGMA table_info({_quoted(table)})") if known else iter(())
            self._columns[table] = [name for _, name, *_ in described if isinstance(name, str)]
        return self._columns[table]

    def rows(self, table: str, columns: Sequence[str], order_by: str | None = None) -> Iterator[Row]:
        """Yield the named columns of each row, one row at a time; nothing if there is no such table.

        A column that the table does not have is None in every row. Without an order, rows come as they are stored.
        """
        if not self.columns(table):
            return
        order = "" if order_by is None else f" ORDER BY {self._wanted(table, [order_by])}"
        yield from self._select(f"SELECT {self._wanted(table, columns)} FROM {_quoted(table)}{order}")

    def row(self, table: str, columns: Sequence[str], row_id: int) -> Row | None:
        """Return the named columns of the row with this `ROW_ID`."""
        if not self.columns(table):
            return None
        statement = f"SELECT {self._wanted(table, columns)} FROM {_quoted(table)} WHERE {ROW_ID} = ?"
        return next(self._select(statement, (row_id,)), None)

    def _wanted(self, table: str, columns: Sequence[str]) -> str:
        known = self.columns(table)
        if ROW_ID in columns and any(one.casefold() == ROW_ID for one in known):
            raise _damaged(self._name, f"a column of {table} hides the numbers of its rows")
        # SQLite takes a quoted name that it does not know for a text: it must not see such a name.
        return ", ".join(_quoted(one) if one in known else ROW_ID if one == ROW_ID else "NULL" for one in columns)

    def _select(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        cursor = None
        try:
            cursor = self._connection.execute(statement, values)
            yield from cursor
        except (sqlite3.Error, UnicodeError) as error:
            raise _damaged(self._name, error) from None
        finally:
            if cursor is not None:
                cursor.close()

    def _look(self) -> int:
        self._looks -= 1
        return int(self._looks < 0)


@contextlib.contextmanager
def open_tables(path: str, name: str | None = None) -> Iterator[SqliteTables]:
    """Open the SQLite database in a file; `name` is what messages call it."""
    shown = visible(path) if name is None else name
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise _damaged(shown, error) from None
    with contextlib.closing(connection):
        try:
            tables = SqliteTables(connection, shown, Path(path).stat().st_size)
        except (sqlite3.Error, UnicodeError) as error:  # what SQLite says of damage may quote it
            raise _damaged(shown, error) from None
        yield tables


def has_unwritten_changes(path: str) -> bool:
    """Return whether the tool left changes beside its database (`x.db-wal`), which are not read."""
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def is_cut_short(path: str) -> bool:
    """Return whether a database has fewer pages than its header says, which SQLite does not always notice."""
    with Path(path).open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
    if len(header) < _HEADER_BYTES or header[24:28] != header[92:96]:  # the count is of the last change, or unknown
        return len(header) < _HEADER_BYTES
    page = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (_LARGEST_PAGE if page == 1 else page) > size


def _damaged(name: str, error: object) -> InputError:
    reason = clip(visible(str(error)), _LONGEST_REASON)
    return InputError(
        f"{name}: this SQLite database cannot be read: {reason}; close the tool that uses it, copy it again"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
