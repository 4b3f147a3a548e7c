"""Rows for spreadsheets: exactly the source's text wherever a sheet can hold it, as XML of SpreadsheetML and as CSV.

A sheet is XML, in which most control characters and lone surrogates cannot be written at all. These, and the
other control characters, are spelled out as in a terminal (`\\x1b`, `\\ud800`); tabs, line feeds and carriage returns
stay. What was text is text, what was a number is a number: texts are in the cells themselves (`inlineStr`), never as
formulas or links. What does not fit is cut with a mark that says where the rest is. The XML of cells is written by
hand, because it is written for every cell of every row: the library takes three times as long.

CSV (RFC 4180) has no types: what a spreadsheet makes of a text such as 00123 cannot be told from here. A spreadsheet
takes a cell that begins with = + - @, a tab or a line break for a formula or for the start of one, their full-width
forms included. Such a text gets an apostrophe in front, unless the text is wanted as it is. Where the semicolon
separates cells, as in most of Europe, a spreadsheet also splits our cells at semicolons and at line breaks: what
follows these is treated alike.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from faircount.core.text import LONE_SURROGATES, clip_middle, visible

Value = str | int | float | bool | None
"""What a cell can hold; None leaves it empty."""

Overlong = Callable[[int, str, str], object]
"""Is called with a text that was cut: the number of its row, its column, and all of it.

Rows are counted from 1 over all sheets; row 0 is the header, where the text is the name of the column.
"""

COLUMNS = 16_384

LONGEST = 32_767
"""The most that a cell holds, in units of UTF-16, as Excel counts."""

SOURCE = "the source"

_PLACE_WIDTH = 200
# Control characters but tab, line feed and carriage return; half a surrogate pair; what XML excludes besides.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BEYOND_THE_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")
_EXACT_DIGITS = 10**15
_WRITTEN_OUT = 10**11
_LARGEST, _SMALLEST = 9.99999999999999e307, 2.2250738585072014e-308
_KEPT, _KEPT_LENGTH = 10_000, 64
_FORMULA = "=+\\-@＝＋－＠"
# A byte order mark at the start of a file is not part of the first cell.
_AT_THE_START = re.compile(rf"[\s\ufeff]*[{_FORMULA}]|[\t\r\n]")
# Where the semicolon separates, a quotation mark behind it begins a quoted cell.
_FURTHER_ON = re.compile(rf"[;\t\r\n](?=(?:[^\S\t\r\n]|\")*[{_FORMULA}])")
# Readers take `_x0041_` for the letter A, but only inside one run of a text.
_LIKE_AN_ESCAPE = re.compile("(?<=_)(?=x[0-9A-Fa-f]{4}_)")


# -- texts ------------------------------------------------------------------------------------------------------


class CellText(NamedTuple):
    """What a cell shows of a text, and whether that is less than all of it."""

    shown: str
    cut: bool


def is_plain(text: str) -> bool:
    """Return whether a text is certainly fine as it is; a quick test, which may also be False for a fine text."""
    return len(text) <= LONGEST // 2 and text.replace("\n", "").isprintable()


def spelled_out(text: str) -> str:
    """Return a text with the characters spelled out that a sheet or a file in UTF-8 cannot hold or would hide."""
    return _UNSPEAKABLE.sub(lambda match: visible(match[0]), text)


def cell_text(text: str, elsewhere: str = SOURCE) -> CellText:
    """Return what a cell shows of a text; if it has to be cut, the mark at its end names the place `elsewhere`."""
    if is_plain(text):
        return CellText(text, cut=False)
    shown = spelled_out(text)
    if units(shown) <= LONGEST:
        return CellText(shown, cut=False)
    room = LONGEST - units(_mark(len(text), elsewhere))
    kept, start = 0, []
    for character in text[:room]:
        spelled = spelled_out(character)
        room -= units(spelled)
        if room < 0:
            break
        start.append(spelled)
        kept += 1
    return CellText("".join(start) + _mark(len(text) - kept, elsewhere), cut=True)


def units(text: str) -> int:
    """Return the length of a text as Excel counts it: characters beyond the first plane count twice."""
    if text.isascii():
        return len(text)
    return len(text) + len(_BEYOND_THE_FIRST_PLANE.findall(text))


def _mark(missing: int, elsewhere: str) -> str:
    place = clip_middle(visible(elsewhere), _PLACE_WIDTH)
    return f"… [cut: {missing:,} more characters, full text in {place}]"


def companion_lines(cells: Iterable[tuple[int, str, str]]) -> Iterator[str]:
    """Yield a line of JSON for each text that was cut: its row, its column, and all of it.

    The lines are pure ASCII, so that lone surrogates and control characters come back as they were.
    """
    for row, column, text in cells:
        yield json.dumps({"row": row, "column": column, "text": text}) + "\n"


# -- XML --------------------------------------------------------------------------------------------------------


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
    written = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
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
        self._columns_of_cells = [
            (f'<c r="{letters}', name) for letters, name in zip(self._letters, columns, strict=True)
        ]
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
        known, text = self._known, f'{line}"{self._text}'
        parts = [f'<row r="{line}">']
        for (place, column), value in zip(self._columns_of_cells, values, strict=True):
            if value is None:
                continue
            if isinstance(value, str):
                parts += (place, text, known.get(value) or self._element(number, column, value))
            elif isinstance(value, bool):
                parts.append(f'{place}{line}" t="b"><v>{value:d}</v></c>')
            elif not is_exact(value):
                parts.append(f"{place}{text}{text_element(number_text(value))}</c>")
            elif isinstance(value, int) and abs(value) >= _WRITTEN_OUT:
                parts.append(f'{place}{line}"{self._whole}{value}</v></c>')
            else:
                parts.append(f'{place}{line}"><v>{value!r}</v></c>')
        parts.append("</row>")
        return "".join(parts)

    def _element(self, number: int, column: str, text: str) -> str:
        """Return the rest of the cell of a text; those of short texts are kept, for they come again and again."""
        element = text_element(text if is_plain(text) else self._shown(number, column, text)) + "</c>"
        if len(text) <= _KEPT_LENGTH and len(self._known) < _KEPT:
            self._known[text] = element
        return element

    def _shown(self, number: int, column: str, text: str) -> str:
        shown, cut = cell_text(text, self._elsewhere)
        if cut and self._overlong is not None:
            self._overlong(number, column, text)
        return shown


# -- CSV --------------------------------------------------------------------------------------------------------


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
