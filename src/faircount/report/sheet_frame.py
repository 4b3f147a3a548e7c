"""Everything of a workbook but the content of its cells: styles, widths, filters, charts, and how the parts fit.

XlsxWriter makes it. The workbook that it makes has no text of a record in its cells, only the styles that cells will
have; whoever writes the cells puts them between the head and the tail of each sheet. A chart has its labels twice, as
a reference to cells and as a copy for programs that do not look there.
"""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.report.sheet_report import Chart, Scale

AUTHOR = "Faircount"
FIRST_PARTS = ("_rels/.rels", "docProps/core.xml", "xl/theme/theme1.xml")
"""Parts that are the same whatever the sheets; by them programs tell that a file is a workbook."""

STYLES: Mapping[str, Mapping[str, object]] = {
    # A text that somebody edits later stays a text.
    "text": {"num_format": "@", "valign": "top"},
    "part": {"num_format": "@", "valign": "top", "indent": 2},
    "head": {"num_format": "@", "bold": True, "bottom": 1},
    "title": {"num_format": "@", "bold": True, "font_size": 14},
    "subtitle": {"num_format": "@", "bold": True, "font_size": 12},
    "whole": {"num_format": "0", "valign": "top"},
    "count": {"num_format": "#,##0", "valign": "top"},
    "percent": {"num_format": "0.00%", "valign": "top"},
    "seconds": {"num_format": '0.000 "s"', "valign": "top"},
}
_CHART_COLUMN = 9
_CHART_WIDTH = 560
_ALWAYS = datetime.datetime(2000, 1, 1)
_STYLE_OF_ROW = re.compile(r'<c r="A(\d+)" s="(\d+)"/>')
_DIMENSION = re.compile(r"<dimension [^<>]*/>")


class Plan(Struct, frozen=True):
    """What a sheet is to look like; the last row of the filter is counted from 1, 0 stands for no filter."""

    name: str
    widths: tuple[float, ...]
    filter_to: int = 0
    charts: tuple[Chart, ...] = ()
    scales: tuple[Scale, ...] = ()


class Outside(Struct, frozen=True):
    """What stands before and after the rows of a sheet."""

    head: str
    tail: str


class Frame(Struct, frozen=True):
    """A workbook without its cells."""

    sheets: tuple[Outside, ...]
    parts: Mapping[str, bytes]
    styles: Mapping[str, int]


def sheet_part(number: int) -> str:
    """Return the name of the part that holds a sheet; sheets are counted from 1."""
    return f"xl/worksheets/sheet{number}.xml"


def frame(plans: Sequence[Plan]) -> Frame:
    """Make a workbook of sheets without cells."""
    with zipfile.ZipFile(io.BytesIO(_skeleton(plans))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheets = [parts.pop(sheet_part(number)).decode() for number in range(1, len(plans) + 1)]
    numbers = {int(line): int(style) for line, style in _STYLE_OF_ROW.findall(sheets[0])}
    return Frame(
        tuple(_outside(sheet) for sheet in sheets),
        parts,
        {name: numbers[line] for line, name in enumerate(STYLES, 1)},
    )


def _outside(sheet: str) -> Outside:
    """Split a sheet around its cells; the size of what is inside is not known yet, and need not be told."""
    head, _, rest = sheet.partition("<sheetData>")
    _, _, tail = rest.partition("</sheetData>")
    return Outside(_DIMENSION.sub("", head) + "<sheetData>", "</sheetData>" + tail)


def _skeleton(plans: Sequence[Plan]) -> bytes:
    try:
        import xlsxwriter  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("writing .xlsx needs an extra: pip install 'faircount[xlsx]'") from error
    target = io.BytesIO()
    with xlsxwriter.Workbook(target, {"in_memory": True}) as book:
        book.set_properties({"author": AUTHOR, "created": _ALWAYS})
        formats = [book.add_format(dict(style)) for style in STYLES.values()]
        for plan in plans:
            sheet = book.add_worksheet(plan.name)
            for line, style in enumerate(formats):
                sheet.write_blank(line, 0, None, style)
            _dress(book, sheet, plan)
    return target.getvalue()


def _dress(book: Any, sheet: Any, plan: Plan) -> None:
    for column, width in enumerate(plan.widths):
        sheet.set_column(column, column, width)
    if plan.filter_to and plan.widths:
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, plan.filter_to - 1, len(plan.widths) - 1)
    # A number that was a text in the source is meant to be one.
    sheet.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
    for scale in plan.scales:
        colours = {"type": "2_color_scale", "min_type": "num", "max_type": "num", "min_value": 0, "max_value": 1}
        place = (scale.first - 1, 1, scale.last - 1, scale.columns)
        sheet.conditional_format(*place, {**colours, "min_color": "#FFFFFF", "max_color": "#D55E00"})
    for chart in plan.charts:
        sheet.insert_chart(chart.first - 2, _CHART_COLUMN, _drawn(book, plan.name, chart))


def _drawn(book: Any, name: str, chart: Chart) -> Any:
    """Return bars with whiskers, drawn from the columns of a table: label, rate, low, high, n, to low, to high."""
    first, last = chart.first - 1, chart.last - 1
    drawn = book.add_chart({"type": "bar"})
    drawn.add_series(
        {
            "name": "Rate",
            "categories": [name, first, 0, last, 0],
            # The space keeps labels from being taken for numbers.
            "categories_data": [f"{label} " for label in chart.labels],
            "values": [name, first, 1, last, 1],
            "values_data": list(chart.values),
            "fill": {"color": "#0072B2"},
            "gap": 60,
            "y_error_bars": {
                "type": "custom",
                "minus_values": f"='{name}'!$F${chart.first}:$F${chart.last}",
                "minus_data": list(chart.below),
                "plus_values": f"='{name}'!$G${chart.first}:$G${chart.last}",
                "plus_data": list(chart.above),
            },
        }
    )
    # A name that began with an equals sign would be taken for a reference.
    drawn.set_title({"name": visible(chart.title).lstrip("= "), "name_font": {"size": 12}, "overlay": False})
    drawn.set_legend({"none": True})
    drawn.set_x_axis({"min": 0, "max": 1, "num_format": "0%"})
    drawn.set_y_axis({"reverse": True})
    drawn.set_size({"width": _CHART_WIDTH, "height": chart.height})
    return drawn
