"""A workbook for Excel: the rows as they were recorded, the analysis with native charts, and the findings.

Rows are written as they come, so that memory does not follow their number. Every text is text and nothing else; the
cells are our own (`sheet`). A report is laid out on a sheet with figures that can be calculated with: rates have their
limits beside them. XlsxWriter makes the frame of the workbook: styles, widths, filters, charts, and how the parts fit;
it sees no text of a record but the labels of charts, which have a copy of them beside the reference to cells. The same
input makes the same bytes.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.model import Estimate, Finding
from faircount.core.text import cell_width, visible
from faircount.io.new_file import whole_file
from faircount.report import blocks, formats
from faircount.report.sheet import COLUMNS, SOURCE, Overlong, RowWriter, Value, cell_text, spelled_out, table

SHEET_ROWS = 1_048_575
"""The most rows that a sheet holds below its header."""

SHEET_BYTES = 1_500_000_000
"""How many bytes of XML a sheet begins its last row with: far below what needs the large form of zip (2 GiB)."""

ROWS_SHEET, ANALYSIS_SHEET, FINDINGS_SHEET = "Rows", "Analysis", "Findings"

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

FINDING_HEADS = ("Severity", "Code", "Count", "Message", "Where")
_SAMPLE = 500
_NARROWEST, _WIDEST, _ROOM_FOR_ARROW = 6, 60, 4
_ANALYSIS_WIDTHS = (48.0, *[13.0] * 8)
_FINDINGS_WIDTHS = (11.0, 8.0, 10.0, 110.0, 60.0)
# A third of the time that the usual level takes at most, for a file that is a quarter larger.
_COMPRESSION = 2
_CHUNK = 1 << 18
_CREATOR = f"<dc:creator>{AUTHOR}</dc:creator>".encode()
_LAST_SAVED_BY_US = f"<cp:lastModifiedBy>{AUTHOR}</cp:lastModifiedBy>".encode()
_PROPERTIES_SIZE = 1 << 16
_SMALL = "a small group: read the interval, not the rate"
_ROW_HEIGHT = 20
_ROOM_AROUND_BARS, _ROOM_PER_BAR = 90, 28
_COLOURS = {
    "type": "2_color_scale", "min_type": "num", "max_type": "num", "min_value": 0, "max_value": 1,
    "min_color": "#FFFFFF", "max_color": "#D55E00",
}  # fmt: skip
_CHART_COLUMN = 9
_CHART_WIDTH = 560
_ALWAYS = datetime.datetime(2000, 1, 1)
_STYLE_OF_ROW = re.compile(r'<c r="A(\d+)" s="(\d+)"/>')
_DIMENSION = re.compile(r"<dimension [^<>]*/>")
_LABEL_WIDTH = 60

Styled = tuple[Value, str]
"""A value and the name of its style."""


class Written(Struct, frozen=True):
    """What went into a workbook: how many rows, on how many sheets, and how many texts had to be cut."""

    rows: int
    sheets: int
    cut: int


class SheetLimits(Struct, frozen=True):
    """How much goes on one sheet before the next is begun."""

    rows: int = SHEET_ROWS
    bytes: int = SHEET_BYTES


def write_workbook(
    path: str,
    rows: Iterable[Sequence[Value]],
    columns: Sequence[str],
    report: blocks.Report | None = None,
    findings: Sequence[Finding] | None = None,
    *,
    companion: str = SOURCE,
    overlong: Overlong | None = None,
    limits: SheetLimits = SheetLimits(),  # noqa: B008, a constant
) -> Written:
    """Write a workbook whole or not at all.

    Every row has a value for every column. `findings` are those of the report unless others are given. A text that is
    too long for a cell is cut with a mark that names `companion`, and handed whole to `overlong`.
    """
    if len(columns) > COLUMNS:
        raise UsageError(
            f"{path}: {len(columns):,} columns; a sheet holds at most {COLUMNS:,}: write CSV or JSONL instead"
        )
    if findings is None and report is not None:
        findings = list(findings_of(report))
    coming = iter(rows)
    sample = list(islice(coming, _SAMPLE))
    book = _Book(columns, _widths(columns, sample), companion, overlong, limits)
    with whole_file(path) as file, _archive(file) as archive:
        book.write_rows(archive, chain(sample, coming))
        book.write_rest(archive, _pages(report, findings))
    return Written(sum(book.counts), len(book.counts), book.cut)


def write_report(path: str, report: blocks.Report) -> None:
    """Write a workbook of a report and its findings, without rows, whole or not at all."""
    pages = _pages(report, list(findings_of(report)))
    whole = frame(pages)
    with whole_file(path) as file, _archive(file) as archive:
        for name in FIRST_PARTS:
            _write(archive, name, whole.parts[name])
        _write_pages(archive, whole, pages)


def is_ours(path: str) -> bool:
    """Return whether a file is a workbook as Faircount wrote it: who adds notes to one does not want to lose them."""
    try:
        with zipfile.ZipFile(Path(path)) as archive, archive.open("docProps/core.xml") as part:
            properties = part.read(_PROPERTIES_SIZE)
            return _CREATOR in properties and _LAST_SAVED_BY_US in properties
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False


# -- what stands on a sheet -----------------------------------------------------------------------------------------


class Chart(Struct, frozen=True):
    """Bars with error bars beside the rows that they are drawn from; lines are counted from 1."""

    title: str
    first: int
    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    below: tuple[float | None, ...]
    above: tuple[float | None, ...]
    height: int

    @property
    def last(self) -> int:
        """Return the line of the last bar."""
        return self.first + len(self.labels) - 1


class Scale(Struct, frozen=True):
    """A block of rates that are coloured by their size; lines and columns are counted from 1."""

    first: int
    last: int
    columns: int


class Sheet(Struct):
    """A sheet: how it looks and, unless they are written as they come, its rows.

    The last row of the filter is counted from 1; 0 stands for no filter.
    """

    name: str
    widths: tuple[float, ...]
    filter_to: int = 0
    rows: list[list[Styled]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)

    def add(self, *cells: Styled) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    @property
    def next(self) -> int:
        """Return the line that the next row comes to stand on."""
        return len(self.rows) + 1


def analysis_page(report: blocks.Report) -> Sheet:
    """Lay out all sections of a report, one under the other."""
    page = Sheet(ANALYSIS_SHEET, _ANALYSIS_WIDTHS)
    for section in report.sections:
        if page.rows:
            page.add()
        title = section.title if section.subject is None else f"{section.title} {_words(section.subject)}"
        page.add((title, "title" if section.level == 1 else "subtitle"))
        for block in section.blocks:
            _block(page, block)
    return page


def findings_of(report: blocks.Report) -> Iterator[Finding]:
    """Yield the findings of a report in their order."""
    for section in report.sections:
        for block in section.blocks:
            if isinstance(block, blocks.Findings):
                yield from block.items


def findings_page(findings: Iterable[Finding]) -> Sheet:
    """Lay out findings, one to a row."""
    page = Sheet(FINDINGS_SHEET, _FINDINGS_WIDTHS)
    page.add(*((head, "head") for head in FINDING_HEADS))
    for item in findings:
        where = ", ".join(item.where) + (", …" if item.count > len(item.where) > 0 else "")
        page.add(
            (item.severity.value, "text"), (item.code, "text"), (item.count, "count"), (item.message, "text"),
            (where or None, "text"),
        )  # fmt: skip
    page.filter_to = len(page.rows)
    return page


# -- cells of a report ----------------------------------------------------------------------------------------------


def _single(content: blocks.Cell) -> Styled:
    """Return what one cell shows; of an estimate, the value."""
    if isinstance(content, Estimate):
        return (formats.UNDEFINED, "text") if content.value is None else (content.value, "percent")
    if isinstance(content, blocks.Seconds):
        return content.value, "seconds"
    if isinstance(content, blocks.Points):
        return formats.difference(content.difference), "text"
    if isinstance(content, int):
        return content, "count"
    return ("", "text") if isinstance(content, blocks.Interval) else (_words(content), "text")


def _words(content: str | blocks.Subject | blocks.Records | None) -> str:
    if content is None:
        return formats.UNKNOWN
    if isinstance(content, blocks.Record):
        return formats.MISSING if content.text is None else content.text
    if isinstance(content, blocks.Records):
        return formats.BETWEEN_RECORDS.join(_words(blocks.Record(item)) for item in content.texts)
    return content.text if isinstance(content, blocks.Label | blocks.Place) else content


def _limits(estimate: Estimate) -> list[Styled]:
    return [(estimate.low, "percent"), (estimate.high, "percent"), (estimate.n, "count")]


def _heads_of_limits(estimates: Iterable[Estimate | None]) -> list[Styled]:
    """Return the heads beside a rate: the level of the intervals is that of the first that has limits."""
    level = next((f" ({formats.exact_percent(e.level)})" for e in estimates if e is not None and e.low is not None), "")
    return [(f"low{level}", "head"), (f"high{level}", "head"), ("n", "head")]


# -- blocks of a report ---------------------------------------------------------------------------------------------


def _block(page: Sheet, block: blocks.Block) -> None:
    if isinstance(block, blocks.Facts):
        _facts(page, block.rows)
    elif isinstance(block, blocks.Grid):
        _grid(page, block)
    elif isinstance(block, blocks.Bars):
        _bars(page, block)
    elif isinstance(block, blocks.HeatMap):
        _heat_map(page, block)
    elif isinstance(block, blocks.Curves):
        _curves(page, block)
    elif isinstance(block, blocks.Differences):
        _differences(page, block)
    elif isinstance(block, blocks.Evidence):
        _evidence(page, block)
    elif isinstance(block, blocks.Findings):
        page.add((f"{counted(len(block.items), 'finding')}: see the sheet {FINDINGS_SHEET}", "text"))
    elif isinstance(block, blocks.Lead | blocks.Paragraph):
        for text in block.paragraphs if isinstance(block, blocks.Lead) else (block.text,):
            page.add((text, "text"))


def _facts(page: Sheet, facts: Sequence[blocks.Fact]) -> None:
    rated = any(fact.rate is not None for fact in facts)
    if rated:
        heads = _heads_of_limits(fact.rate for fact in facts)
        page.add((None, "text"), (None, "text"), ("Rate", "head"), *heads)
    for fact in facts:
        value: Styled = (None, "text") if fact.value is None else _single(fact.value)
        rate: list[Styled] = []
        if rated:
            rate = [(None, "text")] * 4 if fact.rate is None else [_single(fact.rate), *_limits(fact.rate)]
        note: list[Styled] = [(fact.note, "text")] if fact.note else []
        page.add((fact.label, "part" if fact.depth else "text"), value, *rate, *note)


def _grid(page: Sheet, grid: blocks.Grid) -> None:
    """Lay out a table; an interval that others draw stands beside its rate in figures."""
    places = [
        at for at in range(len(grid.columns)) if not any(isinstance(row[at], blocks.Interval) for row in grid.rows)
    ]
    columns = [[row[index] for row in grid.rows] for index in places]
    rated = [any(isinstance(content, Estimate) for content in column) for column in columns]
    heads: list[Styled] = []
    for column, contents, wide in zip((grid.columns[at] for at in places), columns, rated, strict=True):
        heads.append((column.title, "head"))
        if wide:
            heads += _heads_of_limits(content for content in contents if isinstance(content, Estimate))
    page.add(*heads)
    for number, row in enumerate(grid.rows):
        cells: list[Styled] = []
        for content, wide in zip((row[at] for at in places), rated, strict=True):
            cells.append(_single(content))
            if wide:
                cells += _limits(content) if isinstance(content, Estimate) else [(None, "text")] * 3
        page.add(*cells, *([(_SMALL, "text")] if number in grid.marked else []))
    for note in filter(None, [*(column.note for column in grid.columns), grid.note]):
        page.add((note, "text"))


def _bars(page: Sheet, figure: blocks.Bars) -> None:
    bars = figure.bars
    if figure.overall is not None and figure.overall not in [bar.estimate for bar in bars]:
        bars = (*bars, blocks.Bar("all entries", figure.overall))
    heads = _heads_of_limits(bar.estimate for bar in bars)
    page.add((figure.title, "head"), ("Rate", "head"), *heads, ("to low", "head"), ("to high", "head"))
    chart = _chart(page.next, figure.title, bars)
    for bar, label, below, above in zip(bars, chart.labels, chart.below, chart.above, strict=True):
        whiskers: list[Styled] = [(below, "percent"), (above, "percent")]
        small: list[Styled] = [("a small group", "text")] if bar.small else []
        page.add((label, "text"), _single(bar.estimate), *_limits(bar.estimate), *whiskers, *small)
    page.charts.append(chart)
    while page.next * _ROW_HEIGHT < (chart.first - 1) * _ROW_HEIGHT + chart.height:
        page.add()
    page.add()


def _chart(first: int, title: str, bars: Sequence[blocks.Bar]) -> Chart:
    estimates = [bar.estimate for bar in bars]
    return Chart(
        title,
        first,
        tuple(cell_text(formats.cell(bar.label, _LABEL_WIDTH)).shown for bar in bars),
        tuple(estimate.value for estimate in estimates),
        tuple(_distance(estimate.low, estimate.value) for estimate in estimates),
        tuple(_distance(estimate.value, estimate.high) for estimate in estimates),
        _ROOM_AROUND_BARS + _ROOM_PER_BAR * len(bars),
    )


def _distance(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else max(high - low, 0.0)


def _heat_map(page: Sheet, figure: blocks.HeatMap) -> None:
    corner = f"{figure.row_title} ↓ {figure.column_title} →"
    columns: list[Styled] = [(_words(column), "head") for column in figure.columns]
    page.add((figure.title, "head"))
    page.add((corner, "head"), *columns)
    first = page.next
    for row, estimates in zip(figure.rows, figure.cells, strict=True):
        page.add((_words(row), "text"), *((None, "text") if e is None else _single(e) for e in estimates))
    if figure.rows and figure.columns:
        page.scales.append(Scale(first, page.next - 1, len(figure.columns)))
    page.add(("Number of entries", "head"), *columns)
    for row, estimates in zip(figure.rows, figure.cells, strict=True):
        page.add((_words(row), "text"), *((0 if e is None else e.n, "count") for e in estimates))


def _curves(page: Sheet, figure: blocks.Curves) -> None:
    """Lay out every point of each curve, to be drawn or calculated with."""
    page.add((figure.title, "head"))
    page.add(("Curve", "head"), (figure.x_title, "head"), (figure.y_title, "head"), ("Point", "head"))
    for curve in figure.curves:
        label = _single(curve.label)
        for x, y in curve.points:
            page.add(label, (x, "percent"), (y, "percent"))
        for mark in curve.marks:
            page.add(label, (mark.x, "percent"), (mark.y, "percent"), (mark.label, "text"))


def _differences(page: Sheet, figure: blocks.Differences) -> None:
    heads = _heads_of_limits(item.estimate for item in figure.differences)
    page.add((figure.title, "head"), ("Difference", "head"), *heads, ("", "head"))
    for item in figure.differences:
        marks: list[Styled] = [("stands out", "text")] if item.stands_out else []
        page.add(_single(item.label), _single(item.estimate), *_limits(item.estimate), *marks)


def _evidence(page: Sheet, evidence: blocks.Evidence) -> None:
    page.add((f"{len(evidence.exhibits):,} of {evidence.total:,} {evidence.name}", "text"))
    known = list(dict.fromkeys(name for item in evidence.exhibits for name, _ in item.known))
    said = list(dict.fromkeys(name for item in evidence.exhibits for name, _ in item.said))
    page.add(*((head[0].upper() + head[1:], "head") for head in ("entry", "place", *known, *said)))
    for item in evidence.exhibits:
        of_it, texts = dict(item.known), dict(item.said)
        page.add(
            (_words(item.entry), "text"),
            (_words(item.place), "text"),
            *((_words(of_it[name]) if name in of_it else None, "text") for name in known),
            *((texts[name].text if name in texts else None, "text") for name in said),
        )


# -- the frame ------------------------------------------------------------------------------------------------------


class WorkbookFrame(Struct, frozen=True):
    """A workbook without its cells."""

    sheets: tuple[tuple[str, str], ...]
    """What stands before and after the rows of each sheet."""
    parts: Mapping[str, bytes]
    styles: Mapping[str, int]


def sheet_part(number: int) -> str:
    """Return the name of the part that holds a sheet; sheets are counted from 1."""
    return f"xl/worksheets/sheet{number}.xml"


def frame(pages: Sequence[Sheet]) -> WorkbookFrame:
    """Make a workbook of sheets without cells."""
    with zipfile.ZipFile(io.BytesIO(_skeleton(pages))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheets = [parts.pop(sheet_part(number)).decode() for number in range(1, len(pages) + 1)]
    numbers = {int(line): int(style) for line, style in _STYLE_OF_ROW.findall(sheets[0])}
    return WorkbookFrame(
        tuple(_outside(sheet) for sheet in sheets),
        parts,
        {name: numbers[line] for line, name in enumerate(STYLES, 1)},
    )


def _outside(sheet: str) -> tuple[str, str]:
    """Split a sheet around its cells; the size of what is inside is not known yet, and need not be told."""
    head, _, rest = sheet.partition("<sheetData>")
    _, _, tail = rest.partition("</sheetData>")
    return _DIMENSION.sub("", head) + "<sheetData>", "</sheetData>" + tail


def _skeleton(pages: Sequence[Sheet]) -> bytes:
    try:
        import xlsxwriter  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("writing .xlsx needs an extra: pip install 'faircount[xlsx]'") from error
    target = io.BytesIO()
    with xlsxwriter.Workbook(target, {"in_memory": True}) as book:
        book.set_properties({"author": AUTHOR, "created": _ALWAYS})
        styles = [book.add_format(dict(style)) for style in STYLES.values()]
        for page in pages:
            sheet = book.add_worksheet(page.name)
            for line, style in enumerate(styles):
                sheet.write_blank(line, 0, None, style)
            for column, width in enumerate(page.widths):
                sheet.set_column(column, column, width)
            if page.filter_to and page.widths:
                sheet.freeze_panes(1, 0)
                sheet.autofilter(0, 0, page.filter_to - 1, len(page.widths) - 1)
            # A number that was a text in the source is meant to be one.
            sheet.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
            for scale in page.scales:
                sheet.conditional_format(scale.first - 1, 1, scale.last - 1, scale.columns, dict(_COLOURS))
            for chart in page.charts:
                sheet.insert_chart(chart.first - 2, _CHART_COLUMN, _drawn(book, page.name, chart))
    return target.getvalue()


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


# -- files ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Give an archive to write. One that breaks off is left as it is: with a part still open it cannot be closed."""
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION)
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None
        raise


def _pages(report: blocks.Report | None, findings: Sequence[Finding] | None) -> list[Sheet]:
    """Return the sheets after those of the rows."""
    pages = [] if report is None else [analysis_page(report)]
    return pages if findings is None else [*pages, findings_page(findings)]


def _widths(columns: Sequence[str], sample: Sequence[Sequence[Value]]) -> tuple[float, ...]:
    """Return how wide columns are: as wide as their name and their first values, within bounds."""
    widths = [_width(name) + _ROOM_FOR_ARROW for name in columns]
    for row in sample:
        widths = [max(width, _width(value) + 1) for width, value in zip(widths, row, strict=True)]
    return tuple(float(min(max(width, _NARROWEST), _WIDEST)) for width in widths)


def _width(value: Value) -> int:
    if not isinstance(value, str):
        return 0 if value is None else len(str(value))
    return cell_width(spelled_out(value[:_WIDEST]).partition("\n")[0])


class _Book:
    """A workbook while it is being written: how many rows went on each of its first sheets."""

    def __init__(
        self,
        columns: Sequence[str],
        widths: tuple[float, ...],
        companion: str,
        overlong: Overlong | None,
        limits: SheetLimits,
    ) -> None:
        self.counts: list[int] = []
        self.cut = 0
        self._widths = widths
        self._limits = limits
        self._on_overlong = overlong
        self._writer = RowWriter(columns, self._frame([0]).styles, companion, self._overlong)

    def _overlong(self, row: int, column: str, text: str) -> None:
        self.cut += 1
        if self._on_overlong is not None:
            self._on_overlong(row, column, text)

    def _frame(self, counts: Sequence[int], others: Sequence[Sheet] = ()) -> WorkbookFrame:
        pages = [
            Sheet(ROWS_SHEET if number == 1 else f"{ROWS_SHEET} {number}", self._widths, filter_to=count + 1)
            for number, count in enumerate(counts, start=1)
        ]
        return frame([*pages, *others])

    def write_rows(self, archive: zipfile.ZipFile, rows: Iterator[Sequence[Value]]) -> None:
        """Write the sheets of rows, at least one."""
        parts = self._frame([0]).parts
        for name in FIRST_PARTS:
            _write(archive, name, parts[name])
        waiting = next(rows, None)
        while waiting is not None or not self.counts:
            waiting = self._write_sheet(archive, waiting, rows)

    def _write_sheet(
        self, archive: zipfile.ZipFile, first: Sequence[Value] | None, rows: Iterator[Sequence[Value]]
    ) -> Sequence[Value] | None:
        """Write one sheet and return the row that did not fit on it."""
        done, count, size = sum(self.counts), 0, 0
        waiting = first
        with archive.open(sheet_part(len(self.counts) + 1), "w") as part:
            chunk = [self._outside(0)[0], self._writer.heads]
            length = sum(map(len, chunk))
            # The first row always goes on a sheet.
            while waiting is not None and (
                count == 0 or (count < self._limits.rows and size + length < self._limits.bytes)
            ):
                count += 1
                chunk.append(self._writer.row(count + 1, done + count, waiting))
                length += len(chunk[-1])
                if length > _CHUNK:
                    size += part.write("".join(chunk).encode())
                    chunk, length = [], 0
                waiting = next(rows, None)
            chunk.append(self._outside(count)[1])
            part.write("".join(chunk).encode())
        self.counts.append(count)
        return waiting

    def _outside(self, count: int) -> tuple[str, str]:
        """Return what stands around the rows of the sheet that is being written."""
        return self._frame([*self.counts, count]).sheets[-1]

    def write_rest(self, archive: zipfile.ZipFile, pages: Sequence[Sheet]) -> None:
        """Write the sheets after those of the rows, and all other parts."""
        _write_pages(archive, self._frame(self.counts, pages), pages, len(self.counts))


def _write_pages(
    archive: zipfile.ZipFile, whole: WorkbookFrame, pages: Sequence[Sheet], sheets_before: int = 0
) -> None:
    """Write the sheets of a report, and all parts of a workbook that come last."""
    for number, page in enumerate(pages, sheets_before + 1):
        head, tail = whole.sheets[number - 1]
        _write(archive, sheet_part(number), (head + table(page.rows, whole.styles) + tail).encode())
    for name, content in whole.parts.items():
        if name not in FIRST_PARTS:
            _write(archive, name, content)


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    with archive.open(name, "w") as part:
        part.write(content)
