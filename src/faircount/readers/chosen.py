"""Rows of a result file chosen by a query while they are read: the others are as if they were not there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from faircount.core.errors import UsageError
from faircount.io import lenient_json as loose
from faircount.query import Query, parse
from faircount.readers.raw_rows import Origin, fields_present, rows_of, strategy_of, values_decoder, values_of
from faircount.readers.registry import Keep, Reader
from faircount.readers.result_rows import Row


def parse_row_query(text: str) -> Query:
    """Understand a query about rows; an entry's outcome is not known before all of its rows are."""
    query = parse(text)
    if "outcome" in query.computed:
        raise UsageError(
            "--where: outcome is computed from all rows of an entry; select rows by success, error or "
            "guardrail, or write them to a file with `results extract --where`"
        )
    return query


def refuse_unknown_fields(query: Query | None, origins: Sequence[Origin], max_line: int) -> None:
    """Raise UsageError for a field that a query compares and no row of the files has, which is mostly a mistype."""
    unknown = frozenset() if query is None else query.compared.difference(Row.__struct_fields__)
    if not unknown or not all(Path(origin.path).is_file() for origin in origins):
        return
    unknown -= fields_present(origins, unknown, max_line)
    if not unknown:
        return
    first = next((raw.line for origin in origins for raw in rows_of(origin, max_line)), None)
    if first is None:
        return
    present = sorted(loose.parse(first)[0])
    field = min(unknown)
    near = difflib.get_close_matches(field, present, n=1)
    hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(present)}"
    raise UsageError(f"--where: no file has a field {field}; {hint}")


def needs_line_numbers(query: Query) -> bool:
    """Return whether a query asks for the number of a line, which only who reads from the beginning knows."""
    return "line" in query.computed


def rows_wanted(reader: Reader, query: Query, origin: Origin, max_line: int) -> Keep:
    """Return what tells for the rows of one file whether a query wants them."""
    keep = _keeping(query, origin, max_line)
    if reader.lines_are_rows:
        return keep
    wanted = frozenset(row.number for row in rows_of(origin, max_line) if keep(row.line, row.row, row.number))
    return lambda _, __, number: number in wanted


def _keeping(query: Query, origin: Origin, max_line: int) -> Keep:
    decoder = values_decoder(query.fields)

    def said(row: Row, number: int) -> dict[str, object]:
        told: dict[str, object] = {"file": origin.name, "line": number}
        if "strategy" in query.computed:
            told["strategy"] = strategy_of(row, origin, max_line)
        return told

    if query.computed:
        return lambda line, row, number: query.matches(values_of(line, decoder), said(row, number))
    return lambda line, _, __: query.matches(values_of(line, decoder))
