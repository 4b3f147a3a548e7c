"""Rows of an export as a report, for the presenter of pages: a table to read and to hand on, not to calculate with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from faircount.analysis.exporting_columns import Cell
from faircount.errors import UsageError
from faircount.findings import counted
from faircount.report import Paragraph, Place, Record, Report, Section, text_table

MOST_ROWS = 10_000
"""The most rows on a page: browsers get slow with more."""

LONGEST_TEXT = 2000
"""Where texts are cut, as in every page."""

_NOTE = (
    f"Texts are cut off after {LONGEST_TEXT:,} characters, where they end in …; line breaks and invisible "
    "characters are spelled out."
)


def as_page(files: Sequence[str], what: str, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Report:
    """Return a report of all rows; `what` they are stands before the files. Raise if they are too many for a page."""
    coming = iter(rows)
    grid = text_table(names, (tuple(map(_cell, row)) for row in islice(coming, MOST_ROWS)))
    if next(coming, None) is not None:
        raise UsageError(
            f"--to html: a page holds at most {MOST_ROWS:,} rows, and there are more: choose some with --where, or "
            "write xlsx or csv"
        )
    alone = len(files) == 1
    title = f"{what} of" if alone else f"{what} of {counted(len(files), 'file')}"
    words = Paragraph(f"{counted(len(grid.rows), 'row')}. {_NOTE}")
    return Report((Section(title, (words, grid), level=1, subject=Place(files[0]) if alone else None),))


def _cell(value: Cell) -> Record | str:
    if isinstance(value, str):
        return Record(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return repr(value)
