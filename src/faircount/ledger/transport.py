"""Batches as Arrow: how many rows travel, between processes and into the engine, without a Python object for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from faircount.ledger.schema import ATTEMPT_COLUMNS, CATEGORY_COLUMNS, HISTORY_COLUMNS, Batch

if TYPE_CHECKING:
    import pyarrow

FACET = "facet:"
"""Stands before the field's name in the name of a facet's column."""

_REPEATING = frozenset(["state", "attack", "error_text", "error_kind", "result_origin", "source_file", "category"])
"""Columns whose values repeat so much that they travel as numbers beside a dictionary."""


def attempts_as_arrow(batch: Batch) -> pyarrow.Table:
    """Return the attempts of a batch; a facet's column is named `facet:` and its field."""
    columns: dict[str, Sequence[Any]] = dict(batch.columns)
    kinds = dict(ATTEMPT_COLUMNS)
    for name in batch.facets:
        columns[FACET + name] = batch.facet(name)
        kinds[FACET + name] = "VARCHAR"
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
        repeating = name in _REPEATING or name.startswith(FACET)
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) if repeating else types[kinds[name]]
        if values.count(None) == len(values):
            arrays.append(pyarrow.nulls(len(values), kind))
        elif repeating:
            arrays.append(pyarrow.array(values, type=pyarrow.string()).dictionary_encode())
        else:
            arrays.append(pyarrow.array(values, type=kind))
    return pyarrow.table(arrays, names=list(columns))


def as_tables(batch: Batch) -> dict[str, pyarrow.Table]:
    """Return a batch as one table for each kind of row that it has."""
    tables = {"attempt": attempts_as_arrow(batch)}
    for table, kinds, rows in (
        ("history", HISTORY_COLUMNS, batch.history),
        ("category", CATEGORY_COLUMNS, batch.categories),
    ):
        if rows:
            tables[table] = as_arrow(dict(zip(kinds, zip(*rows, strict=True), strict=True)), kinds)
    return tables


def packed(batch: Batch) -> dict[str, bytes]:
    """Return a batch as bytes, one stream for each kind of row that it has."""
    return {table: _stream(rows) for table, rows in as_tables(batch).items()}


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


def placed(rows: pyarrow.Table, source: int, line_bits: int, lines_before: int = 0) -> pyarrow.Table:
    """Return rows that know their source and their place, with their lines counted from the beginning of it."""
    import pyarrow
    import pyarrow.compute

    line = pyarrow.compute.add(rows["line"], lines_before)
    rows = rows.set_column(rows.column_names.index("line"), "line", line)
    rows = rows.append_column("ord", pyarrow.compute.add(line, source << line_bits))
    return rows.append_column("source", pyarrow.repeat(pyarrow.scalar(source, pyarrow.int32()), rows.num_rows))


def joined(parts: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return parts as one table; a column that a part does not have is missing there."""
    import pyarrow

    return pyarrow.concat_tables(parts, promote_options="default")
