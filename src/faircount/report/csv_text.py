"""Rows as CSV by RFC 4180, made safe for spreadsheets unless the text is wanted as it is.

A spreadsheet takes a cell that begins with = + - @, a tab or a line break for a formula or for the start of one, their
full-width forms included. Such a text gets an apostrophe in front. Where the semicolon separates cells, as in most of
Europe, a spreadsheet also splits our cells at semicolons and at line breaks: what follows these is treated alike.
Numbers stay numbers. CSV has no types: what a spreadsheet makes of a text such as 00123 cannot be told from here.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from faircount.core.text import LONE_SURROGATES, visible
from faircount.report.sheet_cells import Value, number_text
from faircount.report.sheet_text import is_plain, spelled_out

_FORMULA = "=+\\-@＝＋－＠"
# A byte order mark at the start of a file is not part of the first cell.
_AT_THE_START = re.compile(rf"[\s\ufeff]*[{_FORMULA}]|[\t\r\n]")
# Where the semicolon separates, a quotation mark behind it begins a quoted cell.
_FURTHER_ON = re.compile(rf"[;\t\r\n](?=(?:[^\S\t\r\n]|\")*[{_FORMULA}])")


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Value]], *, raw: bool = False) -> Iterator[str]:
    """Yield the header and the rows as lines that can be encoded in UTF-8; a line may hold line breaks.

    `raw` leaves every text as it is, except lone surrogates, for which UTF-8 has no bytes.
    """
    writer = csv.writer(_Lines(), lineterminator="\r\n")
    field = _raw if raw else _safe
    for row in chain((columns,), rows):
        line: str = writer.writerow([field(value) for value in row])
        yield line


class _Lines:
    """A file that hands back what is written to it."""

    def write(self, line: str) -> str:
        """Return the line, which the writer returns in turn."""
        return line


def safe_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, and whose control characters can be seen."""
    shown = _FURTHER_ON.sub(r"\g<0>'", text if is_plain(text) else spelled_out(text))
    return f"'{shown}" if _AT_THE_START.match(shown) else shown


def _safe(value: Value) -> str:
    if isinstance(value, str):
        return safe_text(value)
    # No spreadsheet knows this number.
    return "'-Infinity" if value == -math.inf else _other(value)


def _raw(value: Value) -> str:
    if isinstance(value, str):
        return value if is_plain(value) else LONE_SURROGATES.sub(lambda half: visible(half[0]), value)
    return _other(value)


def _other(value: int | float | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value)
