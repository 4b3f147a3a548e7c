"""A report laid out on a sheet: figures are numbers that can be calculated with, rates have their limits beside them.

Nothing is written here. A page is rows of values, each with the name of a style, and the figures to draw beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct, field

from faircount.core.findings import counted
from faircount.core.model import Estimate, Finding
from faircount.report import figures_text as text
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Curves,
    Differences,
    Evidence,
    Fact,
    Facts,
    Findings,
    Grid,
    HeatMap,
    Interval,
    Label,
    Lead,
    Paragraph,
    Place,
    Points,
    Record,
    Records,
    Report,
    Seconds,
    Section,
    Subject,
)
from faircount.report.sheet_cells import Value
from faircount.report.sheet_text import cell_text

Styled = tuple[Value, str]

LABEL_WIDTH = 60
FINDING_HEADS = ("Severity", "Code", "Count", "Message", "Where")
FINDINGS_SHEET = "Findings"
_SMALL = "a small group: read the interval, not the rate"
_ROW_HEIGHT = 20
_ROOM_AROUND_BARS, _ROOM_PER_BAR = 90, 28


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


class Page(Struct):
    """A sheet in the making."""

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


def analysis_page(report: Report) -> Page:
    """Lay out all sections of a report, one under the other."""
    page = Page()
    for section in report.sections:
        _section(page, section)
    return page


def findings_of(report: Report) -> Iterator[Finding]:
    """Yield the findings of a report in their order."""
    for section in report.sections:
        for block in section.blocks:
            if isinstance(block, Findings):
                yield from block.items


def findings_page(findings: Iterable[Finding]) -> Page:
    """Lay out findings, one to a row."""
    page = Page()
    page.add(*((head, "head") for head in FINDING_HEADS))
    for item in findings:
        where = ", ".join(item.where) + (", …" if item.count > len(item.where) > 0 else "")
        page.add(
            (item.severity.value, "text"), (item.code, "text"), (item.count, "count"), (item.message, "text"),
            (where or None, "text"),
        )  # fmt: skip
    return page


# -- cells ------------------------------------------------------------------------------------------------------


def _single(content: Cell) -> Styled:
    """Return what one cell shows; of an estimate, the value."""
    if isinstance(content, Estimate):
        return (formats.UNDEFINED, "text") if content.value is None else (content.value, "percent")
    if isinstance(content, Seconds):
        return content.value, "seconds"
    if isinstance(content, Points):
        return formats.difference(content.difference), "text"
    if isinstance(content, int):
        return content, "count"
    return ("", "text") if isinstance(content, Interval) else (_words(content), "text")


def _words(content: str | Subject | Records | None) -> str:
    if content is None:
        return text.UNKNOWN
    if isinstance(content, Record):
        return text.MISSING if content.text is None else content.text
    if isinstance(content, Records):
        return text.BETWEEN_RECORDS.join(_words(Record(item)) for item in content.texts)
    return content.text if isinstance(content, Label | Place) else content


def _limits(estimate: Estimate) -> list[Styled]:
    return [(estimate.low, "percent"), (estimate.high, "percent"), (estimate.n, "count")]


def _heads_of_limits(estimates: Iterable[Estimate | None]) -> list[Styled]:
    """Return the heads beside a rate: the level of the intervals is that of the first that has limits."""
    level = next((f" ({formats.exact_percent(e.level)})" for e in estimates if e is not None and e.low is not None), "")
    return [(f"low{level}", "head"), (f"high{level}", "head"), ("n", "head")]


# -- blocks -----------------------------------------------------------------------------------------------------


def _section(page: Page, section: Section) -> None:
    if page.rows:
        page.add()
    title = section.title if section.subject is None else f"{section.title} {_words(section.subject)}"
    page.add((title, "title" if section.level == 1 else "subtitle"))
    for block in section.blocks:
        _block(page, block)


def _block(page: Page, block: Block) -> None:
    if isinstance(block, Facts):
        _facts(page, block.rows)
    elif isinstance(block, Grid):
        _grid(page, block)
    elif isinstance(block, Bars):
        _bars(page, block)
    elif isinstance(block, HeatMap):
        _heat_map(page, block)
    elif isinstance(block, Curves):
        _curves(page, block)
    elif isinstance(block, Differences):
        _differences(page, block)
    elif isinstance(block, Evidence):
        _evidence(page, block)
    elif isinstance(block, Findings):
        page.add((f"{counted(len(block.items), 'finding')}: see the sheet {FINDINGS_SHEET}", "text"))
    elif isinstance(block, Lead | Paragraph):
        for text in block.paragraphs if isinstance(block, Lead) else (block.text,):
            page.add((text, "text"))


def _facts(page: Page, facts: Sequence[Fact]) -> None:
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


def _grid(page: Page, grid: Grid) -> None:
    """Lay out a table; an interval that others draw stands beside its rate in figures."""
    places = [at for at in range(len(grid.columns)) if not any(isinstance(row[at], Interval) for row in grid.rows)]
    columns = [[row[index] for row in grid.rows] for index in places]
    rated = [any(isinstance(content, Estimate) for content in column) for column in columns]
    heads: list[Styled] = []
    for column, contents, wide in zip((grid.columns[at] for at in places), columns, rated, strict=True):
        heads.append((column.title, "head"))
        if wide:
            heads += _heads_of_limits(content for content in contents if isinstance(content, Estimate))
    page.add(*heads)
    for number, row in enumerate(grid.rows):
        kept = zip((row[at] for at in places), rated, strict=True)
        cells = list(chain.from_iterable(_wide(content, wide) for content, wide in kept))
        page.add(*cells, *([(_SMALL, "text")] if number in grid.marked else []))
    for note in filter(None, [*(column.note for column in grid.columns), grid.note]):
        page.add((note, "text"))


def _wide(content: Cell, wide: bool) -> list[Styled]:
    """Return the cells of one column of a grid, which are four if it holds rates."""
    if not wide:
        return [_single(content)]
    return [_single(content), *(_limits(content) if isinstance(content, Estimate) else [(None, "text")] * 3)]


def _bars(page: Page, figure: Bars) -> None:
    bars = figure.bars
    if figure.overall is not None and figure.overall not in [bar.estimate for bar in bars]:
        bars = (*bars, Bar("all entries", figure.overall))
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


def _chart(first: int, title: str, bars: Sequence[Bar]) -> Chart:
    estimates = [bar.estimate for bar in bars]
    return Chart(
        title,
        first,
        tuple(cell_text(text.cell(bar.label, LABEL_WIDTH)).shown for bar in bars),
        tuple(estimate.value for estimate in estimates),
        tuple(_distance(estimate.low, estimate.value) for estimate in estimates),
        tuple(_distance(estimate.value, estimate.high) for estimate in estimates),
        _ROOM_AROUND_BARS + _ROOM_PER_BAR * len(bars),
    )


def _distance(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else max(high - low, 0.0)


def _heat_map(page: Page, figure: HeatMap) -> None:
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


def _curves(page: Page, figure: Curves) -> None:
    """Lay out every point of each curve, to be drawn or calculated with."""
    page.add((figure.title, "head"))
    page.add(("Curve", "head"), (figure.x_title, "head"), (figure.y_title, "head"), ("Point", "head"))
    for curve in figure.curves:
        label = _single(curve.label)
        for x, y in curve.points:
            page.add(label, (x, "percent"), (y, "percent"))
        for mark in curve.marks:
            page.add(label, (mark.x, "percent"), (mark.y, "percent"), (mark.label, "text"))


def _differences(page: Page, figure: Differences) -> None:
    heads = _heads_of_limits(item.estimate for item in figure.differences)
    page.add((figure.title, "head"), ("Difference", "head"), *heads, ("", "head"))
    for item in figure.differences:
        marks: list[Styled] = [("stands out", "text")] if item.stands_out else []
        page.add(_single(item.label), _single(item.estimate), *_limits(item.estimate), *marks)


def _evidence(page: Page, evidence: Evidence) -> None:
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
