"""Rows of a sheet as the XML of SpreadsheetML: what was text is text, what was a number is a number, nothing else.

This is the one part of a workbook that is written by hand, because it is written for every cell of every row: the
library takes three times as long. Texts are in the cells themselves (`inlineStr`), never as formulas or links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from faircount.report.sheet_text import SOURCE, cell_text, is_plain

Value = str | int | float | bool | None
"""What a cell can hold; None leaves it empty."""

Overlong = Callable[[int, str, str], object]
"""Is told of a text that was cut: the number of its row, its column, and all of it.

Rows are counted from 1 over all sheets; row 0 is the header, where the text is the name of the column.
"""

COLUMNS = 16_384

_EXACT_DIGITS = 10**15
_WRITTEN_OUT = 10**11
_LARGEST, _SMALLEST = 9.99999999999999e307, 2.2250738585072014e-308
_KEPT, _KEPT_LENGTH = 10_000, 64
# Readers take `_x0041_` for the letter A, but only inside one run of a text.
_LIKE_AN_ESCAPE = re.compile("(?<=_)(?=x[0-9A-Fa-f]{4}_)")


def column_letters(count: int) -> list[str]:
    """Return the names of the first columns of a sheet: A to Z, AA and so on."""
    names = []
    for number in range(1, count + 1):
        name = ""
        while number:
            number, letter = divmod(number - 1, 26)
            name = chr(65 + letter) + name
        names.append(name)
    return names


def is_exact(number: int | float) -> bool:
    """Return whether Excel keeps a number as it is: whole numbers have 15 digits, and there is no minus zero."""
    if isinstance(number, int):
        return -_EXACT_DIGITS < number < _EXACT_DIGITS
    if number == 0:
        return math.copysign(1, number) > 0
    return _SMALLEST <= abs(number) <= _LARGEST


def number_text(number: int | float) -> str:
    """Return a number as JSON would write it."""
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def text_element(shown: str) -> str:
    """Return the element that holds a text whose characters are all fit for XML."""
    if "_x" in shown and len(runs := _LIKE_AN_ESCAPE.split(shown)) > 1:
        return "<is>" + "".join(f"<r>{_plain_element(run)}</r>" for run in runs) + "</is>"
    return f"<is>{_plain_element(shown)}</is>"


def _plain_element(shown: str) -> str:
    written = escape(shown, quote=False)
    if "\r" in written:
        # A bare one would come back as a line feed.
        written = written.replace("\r", "&#13;")
    return f'<t xml:space="preserve">{written}</t>'


def cell(place: str, value: Value, style: int, elsewhere: str = SOURCE) -> str:
    """Return one cell of a sheet that is not made of rows of a source."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" s="{style}" t="b"><v>{value:d}</v></c>'
    if not isinstance(value, str):
        if is_exact(value):
            return f'<c r="{place}" s="{style}"><v>{value!r}</v></c>'
        value = number_text(value)
    return f'<c r="{place}" s="{style}" t="inlineStr">{text_element(cell_text(value, elsewhere).shown)}</c>'


def table(rows: Iterable[Sequence[tuple[Value, str]]], styles: Mapping[str, int]) -> str:
    """Return the rows of a small sheet, in which every cell has the name of a style."""
    written = []
    for number, cells in enumerate(rows, 1):
        places = (f"{letters}{number}" for letters in column_letters(len(cells)))
        content = (cell(place, value, styles[style]) for place, (value, style) in zip(places, cells, strict=True))
        written.append(f'<row r="{number}">{"".join(content)}</row>')
    return "".join(written)


class RowWriter:
    """Writes the rows of a source, one after the other, however many there are."""

    def __init__(
        self, columns: Sequence[str], styles: Mapping[str, int], elsewhere: str, overlong: Overlong | None
    ) -> None:
        self._columns = columns
        self._letters = column_letters(len(columns))
        self._text = f' s="{styles["text"]}" t="inlineStr">'
        self._whole = f' s="{styles["whole"]}"><v>'
        self._elsewhere = elsewhere
        self._overlong = overlong
        self._known: dict[str, str] = {}
        self.heads = self._heads(styles["head"])
        """The first row of every sheet: the names of the columns."""

    def _heads(self, style: int) -> str:
        shown = (self._shown(0, name, name) for name in self._columns)
        cells = (cell(f"{letters}1", name, style) for letters, name in zip(self._letters, shown, strict=True))
        return f'<row r="1">{"".join(cells)}</row>'

    def row(self, line: int, number: int, values: Sequence[Value]) -> str:
        """Return a row that stands on a line of the sheet and has a number in the source."""
        parts = [f'<row r="{line}">']
        for letters, column, value in zip(self._letters, self._columns, values, strict=True):
            if value is None:
                continue
            if isinstance(value, str):
                element = self._known.get(value) or self._element(number, column, value)
                parts.append(f'<c r="{letters}{line}"{self._text}{element}</c>')
            elif isinstance(value, bool):
                parts.append(f'<c r="{letters}{line}" t="b"><v>{value:d}</v></c>')
            elif not is_exact(value):
                parts.append(f'<c r="{letters}{line}"{self._text}{text_element(number_text(value))}</c>')
            elif isinstance(value, int) and abs(value) >= _WRITTEN_OUT:
                parts.append(f'<c r="{letters}{line}"{self._whole}{value}</v></c>')
            else:
                parts.append(f'<c r="{letters}{line}"><v>{value!r}</v></c>')
        parts.append("</row>")
        return "".join(parts)

    def _element(self, number: int, column: str, text: str) -> str:
        """Return the element of a text; those of short texts are kept, for they come again and again."""
        element = text_element(text if is_plain(text) else self._shown(number, column, text))
        if len(text) <= _KEPT_LENGTH and len(self._known) < _KEPT:
            self._known[text] = element
        return element

    def _shown(self, number: int, column: str, text: str) -> str:
        shown, cut = cell_text(text, self._elsewhere)
        if cut and self._overlong is not None:
            self._overlong(number, column, text)
        return shown
