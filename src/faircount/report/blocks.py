"""A report: ordered sections of facts, grids, findings and notes. Plain data, and the only thing presenters see.

A `str` in a report is Faircount's own words. Text that comes from a record is wrapped in `Record`, so that no
presenter can mistake one for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from faircount.core.model import Estimate, Finding, Passage

T = TypeVar("T")

CELL_WIDTH = 60
"""As much of a text from outside as every presenter shows in a cell."""


class Record(Struct, frozen=True):
    """Text from a record, hostile by nature; None stands for a missing value. `whole` keeps it from being cut."""

    text: str | None
    whole: bool = False


class Place(Struct, frozen=True):
    """A file, or a line in one, as the user named it: a path can be hostile, too."""

    text: str


class Label(Struct, frozen=True):
    """What people call a file, see `source_labels`; where it must be shortened, it loses its middle."""

    text: str


class Seconds(Struct, frozen=True):
    """A duration in seconds."""

    value: float


class Records(Struct, frozen=True):
    """Several texts from records that belong together, such as a combination of facets."""

    texts: tuple[str | None, ...]


class Points(Struct, frozen=True):
    """A difference of two rates, which is told in points and may be negative."""

    difference: Estimate


class Interval(Struct, frozen=True):
    """A rate with its interval, drawn on a scale from 0 to 100% as wide as there is room for."""

    estimate: Estimate


Subject = Label | Place | Record
"""Text from outside that belongs to a title, such as the name of a file."""

Cell = str | int | Estimate | Interval | Label | Place | Points | Record | Records | Seconds | None
"""What can stand in a grid or beside a label; None is shown as unknown."""


class Fact(Struct, frozen=True):
    """A labelled figure, with its rate where it has one; `depth` indents a part under its whole."""

    label: str
    value: Cell
    rate: Estimate | None = None
    note: str = ""
    depth: int = 0


class Facts(Struct, frozen=True):
    """Facts to be read one under the other."""

    rows: tuple[Fact, ...]


class Column(Struct, frozen=True):
    """A column of a grid. Where room is short, the columns with the highest `rank` go first; rank 0 stays.

    `note` explains the column, and is shown where the column is.
    """

    title: str
    rank: int = 0
    numeric: bool = True
    note: str = ""


class Grid(Struct, frozen=True):
    """A table: columns, rows of cells, and the rows that are small enough to be doubted."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()
    note: str = ""


TableColumn = tuple[Column, Callable[[T], Cell]] | None
"""A column and the cell that it has in the row of an item; None is a column that is left out."""


def number_column(
    title: str, cell: Callable[[T], Cell], *, rank: int = 0, note: str = "", when: bool = True
) -> TableColumn[T]:
    """Return a column of numbers for a table; see `Column`. It is left out unless `when`."""
    return (Column(title, rank, note=note), cell) if when else None


def text_column(
    title: str, cell: Callable[[T], Cell], *, rank: int = 0, note: str = "", when: bool = True
) -> TableColumn[T]:
    """Return a column of text for a table, as `number_column` does for numbers."""
    return (Column(title, rank, numeric=False, note=note), cell) if when else None


def table(
    items: Iterable[T], *columns: TableColumn[T], marked: Callable[[T], bool] | None = None, note: str = ""
) -> Grid:
    """Return a grid with a row for each item; `marked` chooses the rows that are small enough to be doubted."""
    shown = [column for column in columns if column is not None]
    rows = list(items)
    return Grid(
        tuple(column for column, _ in shown),
        tuple(tuple(cell(item) for _, cell in shown) for item in rows),
        frozenset(at for at, item in enumerate(rows) if marked is not None and marked(item)),
        note,
    )


def text_table(titles: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> Grid:
    """Return rows of cells as a grid with columns of text."""
    return Grid(tuple(Column(title, numeric=False) for title in titles), tuple(map(tuple, rows)), note=note)


def pieces(shown: str) -> Iterator[str]:
    """Yield a text in pieces that no presenter cuts, broken at spaces where there are any."""
    start = 0
    while len(shown) - start > CELL_WIDTH:
        end = shown.rfind(" ", start + CELL_WIDTH // 2, start + CELL_WIDTH) + 1 or start + CELL_WIDTH
        yield shown[start:end]
        start = end
    if shown:
        yield shown[start:]


class Findings(Struct, frozen=True):
    """Findings, the weightiest first."""

    items: tuple[Finding, ...]


class Paragraph(Struct, frozen=True):
    """A sentence or two of our own."""

    text: str


class Lead(Struct, frozen=True):
    """What a report comes to, in paragraphs of plain sentences, and the figures that a page shows large."""

    paragraphs: tuple[str, ...]
    figures: tuple[Fact, ...] = ()


class Bar(Struct, frozen=True):
    """One rate of a figure; `shrunk` is the same rate pulled towards that of all groups, where that was done."""

    label: Cell
    estimate: Estimate
    small: bool = False
    shrunk: Estimate | None = None


class Bars(Struct, frozen=True):
    """A figure: rates as bars with their intervals as whiskers, beside the rate over all entries."""

    title: str
    bars: tuple[Bar, ...]
    overall: Estimate | None = None


class HeatMap(Struct, frozen=True):
    """A figure: the rates of two facets crossed; a cell without entries is None, one with fewer than `few` is pale."""

    title: str
    row_title: str
    column_title: str
    rows: tuple[Record | Label, ...]
    columns: tuple[Record | Label, ...]
    cells: tuple[tuple[Estimate | None, ...], ...]
    few: int = 20


class Mark(Struct, frozen=True):
    """A point of a curve that is worth a name, such as the threshold in use."""

    x: float
    y: float
    label: str


class Curve(Struct, frozen=True):
    """One line of a figure: points from 0 to 1 in the order in which they are joined, and those that have a name.

    `stepped` joins two points by their corner: nothing is known between them.
    """

    label: Cell
    points: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...] = ()
    stepped: bool = False
    band: tuple[tuple[float, float], ...] = ()
    """The corners of the area in which the line may be, where that is known."""


class Curves(Struct, frozen=True):
    """A figure: shares against shares, as lines; `diagonal` adds the line of a judge that guesses."""

    title: str
    x_title: str
    y_title: str
    curves: tuple[Curve, ...]
    diagonal: bool = False
    band: str = ""
    """What the areas around the lines are, where there are any."""


class Difference(Struct, frozen=True):
    """One difference of a figure; `stands_out` if it is one beyond chance."""

    label: Cell
    estimate: Estimate
    stands_out: bool = False
    small: bool = False


class Differences(Struct, frozen=True):
    """A figure: differences of two rates as points with their intervals, around 0; `lower` and `higher` name the ends.

    A table with the same figures stands beside it.
    """

    title: str
    differences: tuple[Difference, ...]
    lower: str
    higher: str


class Exhibit(Struct, frozen=True):
    """An attempt to look at: its entry, where it stands, what is known of it, and who said what, in order."""

    entry: Record
    place: Place
    known: tuple[tuple[str, Record | Place], ...]
    said: tuple[tuple[str, Passage], ...]


class Evidence(Struct, frozen=True):
    """Some attempts to look at, how many there are in all, and what they are called."""

    exhibits: tuple[Exhibit, ...]
    total: int
    name: str


Block = Bars | Curves | Differences | Evidence | Facts | Findings | Grid | HeatMap | Lead | Paragraph


class Section(Struct, frozen=True):
    """A titled part of a report. `subject` is a record's text that belongs to the title, such as a file name."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    subject: Subject | None = None


class EntryTable(Struct, frozen=True):
    """The entries of an analysis in columns, for a page that shows those behind a row; `total` counts all."""

    ids: tuple[str, ...]
    lines: tuple[int, ...]
    outcomes: tuple[str, ...]
    fields: dict[str, tuple[str | None, ...]]
    """By the title of the section that is about the field."""
    total: int


class Report(Struct, frozen=True):
    """A report: sections for people, and a document for programs."""

    sections: tuple[Section, ...]
    document: Any = field(default_factory=dict)
    """A `Document`, or still the dictionary for one."""
    entries: tuple[EntryTable, ...] | None = None
    """Of each analysis, where the page is to be interactive."""
