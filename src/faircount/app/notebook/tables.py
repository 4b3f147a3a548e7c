"""Rows as the columns of an Arrow table, and from there as data frames of pandas and Polars.

Rows come one by one and are kept only as columns, a batch at a time. A column has one type for all rows: true or false,
whole numbers of 64 bits, numbers, or text. Where its values do not fit one of these, it is text, as JSON would write
them. What is missing or null is null.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import LONE_SURROGATES, visible
from faircount.query.query import text_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

BATCH_ROWS = 2_000
EXTRA = "pip install 'faircount[notebook]'"

_LARGEST_WHOLE = 2**63 - 1
_EXACT_AS_NUMBER = 2**53


class Kind(Enum):
    """What the values of a column are."""

    NOTHING = "null"
    FLAG = "bool_"
    WHOLE = "int64"
    NUMBER = "float64"
    BOTH = "whole and other numbers, kept as text until it is known whether the column holds nothing else"
    TEXT = "string"


class Piece(Struct, frozen=True):
    """The values of a column in one batch."""

    kind: Kind
    array: Any


class Table(Struct, frozen=True):
    """An Arrow table, and how many texts in it had a lone surrogate spelled out, which UTF-8 has no bytes for."""

    arrow: pyarrow.Table
    spelled_out: int


def library(name: str) -> ModuleType:
    """Return a library that only data frames need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        how = EXTRA if name == "pyarrow" else f"pip install {name}"
        raise UsageError(f"{name} is not installed: {how}") from error


def as_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return rows as a table whose columns have the given names; every row has a value for every column."""
    builder = _Builder(library("pyarrow"), names)
    coming = iter(rows)
    while batch := list(islice(coming, BATCH_ROWS)):
        builder.take(batch)
    return builder.table()


def as_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """Return a data frame of pandas; whole numbers, true and false stay such where some are missing."""
    module = library("pandas")
    kinds = {"int64": module.Int64Dtype(), "bool": module.BooleanDtype(), "string": module.StringDtype("pyarrow")}
    frame: pandas.DataFrame = table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))
    return frame


def as_polars(table: pyarrow.Table) -> polars.DataFrame:
    """Return a data frame of Polars."""
    frame: polars.DataFrame = library("polars").from_arrow(table)
    return frame


class _Builder:
    """Gathers rows into columns."""

    def __init__(self, arrow: Any, names: Sequence[str]) -> None:
        self._arrow = arrow
        self._names = names
        self._columns: list[list[Piece]] = [[] for _ in names]
        self._spelled_out = 0

    def take(self, rows: Sequence[Sequence[object]]) -> None:
        """Add a batch of rows."""
        for pieces, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            pieces.append(self._piece(values))

    def table(self) -> Table:
        """Return all that was taken in."""
        arrays = [self._joined(pieces) for pieces in self._columns]
        names = _apart([spelled_out(name) for name in self._names])
        return Table(self._arrow.Table.from_arrays(arrays, names=names), self._spelled_out)

    def _piece(self, values: Sequence[object]) -> Piece:
        kind = _kind(values)
        if kind in (Kind.BOTH, Kind.TEXT):
            return Piece(kind, self._texts(values))
        return Piece(kind, self._arrow.array(values, self._type(kind)))

    def _texts(self, values: Sequence[object]) -> Any:
        texts = [None if value is None else text_of(value) for value in values]
        try:
            return self._arrow.array(texts, self._arrow.string())
        except UnicodeEncodeError:
            whole = [None if text is None else spelled_out(text) for text in texts]
            self._spelled_out += sum(old != new for old, new in zip(texts, whole, strict=True))
            return self._arrow.array(whole, self._arrow.string())

    def _type(self, kind: Kind) -> Any:
        return getattr(self._arrow, kind.value)()

    def _joined(self, pieces: Sequence[Piece]) -> Any:
        kind = _common(pieces)
        return self._arrow.chunked_array([self._converted(piece, kind) for piece in pieces], self._type(kind))

    def _converted(self, piece: Piece, kind: Kind) -> Any:
        if piece.kind is kind or (kind is Kind.TEXT and piece.kind is Kind.BOTH):
            return piece.array
        if kind is Kind.TEXT and piece.kind is not Kind.NOTHING:
            return self._texts(piece.array.to_pylist())
        return piece.array.cast(self._type(kind))


def _kind(values: Sequence[object]) -> Kind:
    types = set(map(type, values)) - {type(None)}
    if not types:
        return Kind.NOTHING
    if types == {bool}:
        return Kind.FLAG
    if types == {float}:
        return Kind.NUMBER
    if types <= {int, float}:
        most = _LARGEST_WHOLE if types == {int} else _EXACT_AS_NUMBER
        exact = all(abs(value) <= most for value in values if type(value) is int)
        return (Kind.WHOLE if types == {int} else Kind.BOTH) if exact else Kind.TEXT
    return Kind.TEXT


def _common(pieces: Sequence[Piece]) -> Kind:
    """Return the kind that the pieces of a column have in common; one without a value is text."""
    kinds = {piece.kind for piece in pieces} - {Kind.NOTHING}
    if len(kinds) == 1 and kinds != {Kind.BOTH}:
        return kinds.pop()
    numbers = bool(kinds) and kinds <= {Kind.WHOLE, Kind.NUMBER, Kind.BOTH}
    return Kind.NUMBER if numbers and all(map(_is_exact, pieces)) else Kind.TEXT


def _is_exact(piece: Piece) -> bool:
    """Return whether whole numbers lose no digit if they become numbers of the other kind."""
    if piece.kind is not Kind.WHOLE:
        return True
    return all(value is None or abs(value) <= _EXACT_AS_NUMBER for value in piece.array.to_pylist())


def spelled_out(text: str) -> str:
    """Return a text that UTF-8 has bytes for: lone surrogates are spelled out."""
    return text if text.isascii() else LONE_SURROGATES.sub(lambda half: visible(half[0]), text)


def _apart(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal, although they may have become so."""
    apart: dict[str, None] = {}
    for name in names:
        while name in apart:
            name += "_"
        apart[name] = None
    return list(apart)
