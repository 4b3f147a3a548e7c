"""Batches as Arrow: how many rows travel, between processes and into the engine, without a Python object for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from faircount.ledger.schema import ATTEMPT_COLUMNS, CATEGORY_COLUMNS, HISTORY_COLUMNS, Batch

if TYPE_CHECKING:
    import pyarrow

_REPEATING = frozenset(["state", "attack", "error_text", "error_kind", "result_origin", "source_file", "category"])
"""Columns whose values repeat so much that they travel as numbers beside a dictionary."""


def attempts_as_arrow(batch: Batch) -> pyarrow.Table:
    """Return the attempts of a batch; a facet's column is named `facet:` and its field."""
    columns: dict[str, Sequence[Any]] = dict(batch.columns)
    kinds = dict(ATTEMPT_COLUMNS)
    for name in batch.facets:
        columns[f"facet:{name}"] = batch.facet(name)
        kinds[f"facet:{name}"] = "VARCHAR"
    return as_arrow(columns, kinds)


def as_arrow(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> pyarrow.Table:
    """Return columns of Python values as a table of typed ones."""
    import pyarrow

    types = {
        "BIGINT": pyarrow.int64(),
        "INTEGER": pyarrow.int32(),
        "TINYINT": pyarrow.int8(),
        "BOOLEAN": pyarrow.bool_(),
        "DOUBLE": pyarrow.float64(),
        "VARCHAR": pyarrow.string(),
    }
    arrays = []
    for name, values in columns.items():
        kind = types[kinds[name]]
        if values.count(None) == len(values):
            arrays.append(pyarrow.nulls(len(values), kind))
            continue
        repeating = name in _REPEATING or name.startswith("facet:")
        array = pyarrow.array(values, type=kind)
        arrays.append(array.dictionary_encode() if repeating else array)
    return pyarrow.table(arrays, names=list(columns))


def packed(batch: Batch) -> dict[str, bytes]:
    """Return a batch as bytes, one stream for each table that has rows."""
    streams = {"attempt": _stream(attempts_as_arrow(batch))}
    for table, kinds, rows in (
        ("history", HISTORY_COLUMNS, batch.history),
        ("category", CATEGORY_COLUMNS, batch.categories),
    ):
        if rows:
            columns = dict(zip(kinds, zip(*rows, strict=True), strict=True))
            streams[table] = _stream(as_arrow(columns, kinds))
    return streams


def _stream(table: pyarrow.Table) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def unpacked(stream: bytes) -> pyarrow.Table:
    """Return the table of a stream."""
    import pyarrow

    return pyarrow.ipc.open_stream(stream).read_all()
