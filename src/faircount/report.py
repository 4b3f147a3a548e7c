"""A report: ordered sections of facts, grids, findings and notes. Plain data, and the only thing presenters see.

A `str` in a report is Faircount's own words. Text that comes from a record is wrapped in `Record`, so that no
presenter can mistake one for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faircount.model import Estimate, Finding


@dataclass(frozen=True, slots=True)
class Record:
    """Text from a record, hostile by nature; None stands for a missing value."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or a line in one, as the user named it: a path can be hostile, too."""

    text: str


@dataclass(frozen=True, slots=True)
class Seconds:
    """A duration in seconds."""

    value: float


@dataclass(frozen=True, slots=True)
class Records:
    """Several texts from records that belong together, such as a combination of facets."""

    texts: tuple[str | None, ...]


Cell = str | int | Estimate | Place | Record | Records | Seconds | None
"""What can stand in a grid or beside a label; None is shown as unknown."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled figure, with its rate where it has one; `depth` indents a part under its whole."""

    label: str
    value: Cell
    rate: Estimate | None = None
    note: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts to be read one under the other."""

    rows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid. Where room is short, the columns with the highest `rank` go first; rank 0 stays."""

    title: str
    rank: int = 0
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: columns, rows of cells, and the rows that are small enough to be doubted."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings, the weightiest first."""

    items: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or two of our own."""

    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One rate of a figure."""

    label: Cell
    estimate: Estimate
    small: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """A figure: rates as bars with their intervals as whiskers, beside the rate over all entries."""

    title: str
    bars: tuple[Bar, ...]
    overall: Estimate | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure: the rates of two facets crossed; a cell without entries is None."""

    title: str
    row_title: str
    column_title: str
    rows: tuple[Record, ...]
    columns: tuple[Record, ...]
    cells: tuple[tuple[Estimate | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A successful attempt to look at: where it stands, how it was made, and what was said."""

    place: Place
    entry: Record
    strategy: Record
    judge: Record
    prompt: Record
    response: Record


@dataclass(frozen=True, slots=True)
class Evidence:
    """Some of the successful attempts, and how many there are in all."""

    exhibits: tuple[Exhibit, ...]
    total: int


Block = Bars | Evidence | Facts | Findings | Grid | HeatMap | Paragraph


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a report. `subject` is a record's text that belongs to the title, such as a file name."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    subject: Record | Place | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out, once as sections for people and once as a document for programs."""

    sections: tuple[Section, ...]
    document: Mapping[str, Any] = field(default_factory=dict)
