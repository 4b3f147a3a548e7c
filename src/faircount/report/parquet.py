"""Rows as Parquet, with types that every reader has: texts, whole numbers of 64 bits, numbers, true and false.

Rows are handed to the engine some at a time and kept in files beside the target until all are there, so that memory
does not follow their number. Names of columns come from records: the engine is given them as values, never as SQL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from faircount.core.text import replace_surrogates, visible
from faircount.query.query import number_of
from faircount.report.sheet import Value, number_text

Connect = Callable[[Path], Any]
"""Starts an engine that may read and write the files of one folder."""

SQL_TYPES = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "truth": "BOOLEAN"}
"""The type in the file of each kind of column."""

_ARRAY_TYPES = {"text": "O", "whole": "q", "number": "d", "truth": "?"}
_SPELLED = {"true": True, "false": False}
_INT64 = 2**63
_PART_ROWS, _PART_CHARACTERS = 20_000, 8_000_000
_GROUP_CHARACTERS = 32_000_000
_SMALLEST_GROUP, _LARGEST_GROUP = 2048, 122_880
_COPY_BYTES = 1 << 20


class Stored(Struct):
    """What went into a file: rows, texts in which lone surrogates were replaced, and values that did not fit."""

    rows: int = 0
    replaced: int = 0
    misfits: dict[str, int] = field(default_factory=dict)


def write_parquet(
    write: Callable[[bytes], object],
    beside: Path,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Value]],
    connect: Connect,
) -> Stored:
    """Write rows as a file; `columns` are names and kinds. Parts of it are kept in a folder `beside` meanwhile."""
    stored = Stored()
    names = _different([name for name, _ in columns])
    kinds = [kind for _, kind in columns]
    fits = [_fit(name, kind, stored) for name, kind in zip(names, kinds, strict=True)]
    converted = ([fit(value) for fit, value in zip(fits, row, strict=True)] for row in rows)
    with tempfile.TemporaryDirectory(prefix=".faircount-", dir=beside) as name:
        folder = Path(name).resolve()
        connection = connect(folder)
        try:
            whole = _PartFiles(connection, folder, kinds, stored).join(names, converted)
        finally:
            connection.close()
        with whole.open("rb") as result:
            while block := result.read(_COPY_BYTES):
                write(block)
    return stored


class _PartFiles:
    """Files of some rows each, of which one is made in the end."""

    def __init__(self, connection: Any, folder: Path, kinds: Sequence[str], stored: Stored) -> None:
        self._connection = connection
        self._folder = folder
        self._kinds = kinds
        self._stored = stored
        self._characters = 0
        self._files: list[Path] = []
        self._described = ", ".join(f"c{number} {SQL_TYPES[kind]}" for number, kind in enumerate(kinds))

    def join(self, names: Sequence[str], rows: Iterable[list[Value]]) -> Path:
        """Return one file of all rows, whose columns have the given names."""
        import numpy

        for part in self._gathered(rows):
            self._write(part)
        if not self._files:
            self._write([])
        named = {name: numpy.empty(0, _ARRAY_TYPES[kind]) for name, kind in zip(names, self._kinds, strict=True)}
        self._connection.register("named", named)
        parts = ", ".join(map(_quoted, self._files))
        whole = self._folder / "whole.parquet"
        # Columns are called as in the first part of a union.
        self._connection.execute(
            f"COPY (SELECT * FROM named UNION ALL SELECT * FROM READ_PARQUET([{parts}])) TO {_quoted(whole)} "
            f"(FORMAT PARQUET, ROW_GROUP_SIZE {self._group_rows()}, KV_METADATA {{made_by: 'Faircount'}})"
        )
        return whole

    def _gathered(self, rows: Iterable[list[Value]]) -> Iterator[list[list[Value]]]:
        part, characters = list[list[Value]](), 0
        for row in rows:
            part.append(row)
            characters += sum(len(value) for value in row if value.__class__ is str)
            if len(part) >= _PART_ROWS or characters >= _PART_CHARACTERS:
                yield part
                self._characters += characters
                part, characters = [], 0
        if part:
            yield part
            self._characters += characters

    def _write(self, part: list[list[Value]]) -> None:
        self._stored.rows += len(part)
        path = self._folder / f"{len(self._files)}.parquet"
        self._connection.execute(f"CREATE TABLE part ({self._described})")
        if part:
            appender = self._connection.appender("part")
            appender.append_rows(part)
            appender.flush()
        self._connection.execute(f"COPY part TO {_quoted(path)} (FORMAT PARQUET)")
        # Rows that are only deleted would stay in memory.
        self._connection.execute("DROP TABLE part")
        self._files.append(path)

    def _group_rows(self) -> int:
        """Return how many rows go into a group, which the engine and readers hold in memory as one."""
        fitting = _GROUP_CHARACTERS * self._stored.rows // max(self._characters, 1)
        return min(max(fitting, _SMALLEST_GROUP), _LARGEST_GROUP)


def _quoted(path: Path) -> str:
    """Return a path of our own as a literal."""
    return "'" + str(path).replace("'", "''") + "'"


def _different(names: Iterable[str]) -> list[str]:
    """Return names that are visible and differ in more than the case of their letters: Spark knows no case."""
    taken: set[str] = set()
    different = []
    for name in names:
        shown = unique = visible(name).strip() or "(empty)"
        number = 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{shown}_{number}"
        taken.add(unique.casefold())
        different.append(unique)
    return different


# -- values of a type -------------------------------------------------------------------------------------------


def _fit(name: str, kind: str, stored: Stored) -> Callable[[Value], Value]:
    """Return what makes a value one of the column's type: None, and counted, where it has no place there."""
    if kind == "text":
        return lambda value: _text(value, stored)
    convert = {"whole": _whole, "number": _number, "truth": _truth}[kind]

    def fit(value: Value) -> Value:
        if value is None:
            return None
        fitting = convert(value)
        if fitting is None:
            stored.misfits[name] = stored.misfits.get(name, 0) + 1
        return fitting

    return fit


def _text(value: Value, stored: Stored) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return ("true" if value else "false") if isinstance(value, bool) else number_text(value)
    if value.isascii():
        return value
    whole = replace_surrogates(value)
    stored.replaced += whole != value
    return whole


def _spelled_number(value: Value) -> int | float | None:
    """Return a number, also one that a text spells, as in a query."""
    if isinstance(value, str):
        return number_of(value)
    return None if isinstance(value, bool) else value


def _whole(value: Value) -> int | None:
    number = _spelled_number(value)
    if isinstance(number, float):
        number = int(number) if number.is_integer() else None
    return number if number is not None and -_INT64 <= number < _INT64 else None


def _number(value: Value) -> float | None:
    number = _spelled_number(value)
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _truth(value: Value) -> bool | None:
    if isinstance(value, str):
        return _SPELLED.get(value.lower())
    return bool(value) if value in (0, 1) else None
