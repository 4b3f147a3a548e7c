"""A report on a terminal, or as plain text where it is piped to. Colour only where a terminal shows it.

Drawn here, with the few codes that it needs: a terminal library costs more time to load than a small file to analyse.
Text of a record arrives visible; the only escape sequences are ours, each ended on its own line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from faircount import formats
from faircount.model import Finding, Severity
from faircount.present import figures_text as text
from faircount.report import (
    Block,
    Column,
    Curves,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    Paragraph,
    Place,
    Report,
    Section,
)
from faircount.text import cell_width, visible

PLAIN_WIDTH = 100
NARROWEST = 40
_GAP = 2
_PLACES_SHOWN = 3
_WIDTH_FOR_NOTES = 70
_NARROW_TEXT, _READABLE_TEXT, _LONGEST_TEXT = 8, 24, 60
_SPOKEN_TEXT = 600
_BOLD, _DIM, _TITLE = "1", "2", "1;4"
_STYLES = {Severity.ERROR: "1;31", Severity.WARNING: "33", Severity.INFO: "36"}


def render(report: Report, *, width: int | None = None, colour: bool = False) -> str:
    """Return the report as text of the given width, with colour codes if asked for."""
    page = _Page(max(width or PLAIN_WIDTH, NARROWEST), colour)
    for section in report.sections:
        _section(page, section)
    return "\n".join(page.lines) + "\n"


class _Page(Struct):
    """Lines of text of a given width; every style ends on the line where it began."""

    width: int
    colour: bool
    lines: list[str] = field(default_factory=list)

    def styled(self, content: str, style: str) -> str:
        """Return text in a style, where there is colour."""
        return f"\x1b[{style}m{content}\x1b[0m" if self.colour and style and content.strip() else content

    def write(self, content: str, style: str = "", indent: int = _GAP) -> None:
        """Write a paragraph, folded at words."""
        for line in fold(content, self.width - indent):
            self.lines.append((" " * indent + self.styled(line, style)).rstrip())

    def table(self, rows: Iterable[Row], widths: Sequence[int], right: Sequence[bool], indent: int) -> None:
        """Write rows of cells, each folded inside its column; a head stands on its last line, others on their first."""
        for row in rows:
            folded = [fold(content, width) for content, width in zip(row.cells, widths, strict=True)]
            height = max(map(len, folded))
            for number in range(height):
                parts = []
                for lines, width, to_right in zip(folded, widths, right, strict=True):
                    index = number - (height - len(lines)) if row.is_head else number
                    line = lines[index] if 0 <= index < len(lines) else ""
                    space = " " * max(width - cell_width(line), 0)
                    parts.append(space + line if to_right else line + space)
                self.lines.append(" " * indent + self.styled((" " * _GAP).join(parts).rstrip(), row.style))


class Row(Struct, frozen=True):
    """A row of a table and how it is shown."""

    cells: Sequence[str]
    style: str = ""
    is_head: bool = False


def fold(content: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` cells, at spaces where there are any; leading spaces stay."""
    lines, line = [], content[: len(content) - len(content.lstrip(" "))]
    for word in content[len(line) :].split(" "):
        longer = f"{line} {word}" if line.strip() else line + word
        if cell_width(longer) <= width:
            line = longer
            continue
        if line.strip():
            lines.append(line)
        while cell_width(word) > width:
            head = _fitting(word, width)
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line]


def _fitting(word: str, width: int) -> str:
    """Return as much of the beginning of a word as fits, at least one character."""
    taken = 0
    for index, character in enumerate(word):
        taken += cell_width(character)
        if taken > width:
            return word[: max(index, 1)]
    return word


def terminal_width(stream_is_terminal: bool) -> int:
    """Return how wide a report may be: `COLUMNS`, else the terminal, else a width that suits a file."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if stream_is_terminal:
        try:
            return os.get_terminal_size().columns
        except OSError:
            return PLAIN_WIDTH
    return PLAIN_WIDTH


def _section(page: _Page, section: Section) -> None:
    title = section.title
    if section.subject is not None:
        title += " " + text.cell(section.subject, width=1000)
    page.lines.append("")
    if section.level == 1:
        page.lines.append(page.styled(title, _TITLE))
    else:
        page.write(title, _BOLD, indent=0)
    for block in section.blocks:
        _block(page, block)


def _block(page: _Page, block: Block) -> None:
    if isinstance(block, Findings):
        for item in block.items:
            _finding(page, item)
    elif isinstance(block, Facts):
        _facts(page, block.rows)
    elif isinstance(block, Grid):
        _grid(page, block)
    elif isinstance(block, Evidence):
        _evidence(page, block)
    elif isinstance(block, Curves):
        page.write(block.title, _BOLD)
        _grid(page, text.curve_points(block))
    elif isinstance(block, Paragraph):
        page.write("- " + block.text)


def _evidence(page: _Page, block: Evidence) -> None:
    page.write(f"{len(block.exhibits):,} of {block.total:,}; texts are cut after {_SPOKEN_TEXT} characters", _DIM)
    for exhibit in block.exhibits:
        _exhibit(page, exhibit)


def _exhibit(page: _Page, exhibit: Exhibit) -> None:
    """Show who said what, each text in one paragraph in which nothing is hidden."""
    page.lines.append("")
    page.write(text.cell(exhibit.place, width=1000), _BOLD)
    page.write(
        f"entry {text.cell(exhibit.entry)}, {text.cell(exhibit.strategy)}, judge {text.cell(exhibit.judge)}", _DIM
    )
    if exhibit.beside is not None:
        page.write(f"{exhibit.beside.speaker}: {text.cell(exhibit.beside.place, width=1000)}", _DIM)
    for name, spoken in exhibit.spoken:
        page.write(f"{name}: {text.cell(spoken, width=_SPOKEN_TEXT)}", indent=2 * _GAP)


def _finding(page: _Page, item: Finding) -> None:
    name = f"{item.severity.value} {item.code}"
    first, *rest = fold(f"{name}  {visible(item.message)}", page.width - _GAP)
    page.lines.append(" " * _GAP + page.styled(name, _STYLES[item.severity]) + first[len(name) :])
    page.lines += [" " * _GAP + line for line in rest]
    if item.where:
        shown = ", ".join(visible(place) for place in item.where[:_PLACES_SHOWN])
        more = ", …" if item.count > _PLACES_SHOWN or len(item.where) > _PLACES_SHOWN else ""
        page.write(f"at {shown}{more}", _DIM, indent=2 * _GAP)


def _facts(page: _Page, rows: Sequence[Fact]) -> None:
    roomy = page.width >= _WIDTH_FOR_NOTES
    written = []
    for fact in rows:
        value = "" if fact.value is None else text.cell(fact.value)
        rate = "" if fact.rate is None else formats.estimate(fact.rate)
        label = "  " * fact.depth + fact.label
        written.append((label, value, rate, fact.note if roomy else ""))
    widths = [max(map(cell_width, column)) for column in zip(*written, strict=True)]
    left = page.width - _GAP - sum(widths[:3]) - 3 * _GAP
    widths[3] = max(min(widths[3], left), 1)
    page.table([Row(row) for row in written], widths, (False, True, True, False), indent=_GAP)


def _grid(page: _Page, grid: Grid) -> None:
    widths, dropped = _layout(grid, page.width - _GAP)
    right = [grid.columns[index].numeric for index in widths]
    head = Row([grid.columns[index].title for index in widths], _BOLD, is_head=True)
    rows = [
        Row(
            [_shown(grid, number, index, width) for index, width in widths.items()],
            _DIM if number in grid.marked else "",
        )
        for number in range(len(grid.rows))
    ]
    page.table([head, *rows], list(widths.values()), right, indent=_GAP)
    for note in _notes(grid, dropped):
        page.write(note, _DIM)


def _shown(grid: Grid, number: int, index: int, width: int) -> str:
    """Return a cell's text: a path is cut to its column, other texts fold inside it; small groups bear a star."""
    content = grid.rows[number][index]
    written = text.cell(content, width=width if isinstance(content, Place) else _LONGEST_TEXT)
    first_key = next((i for i, column in enumerate(grid.columns) if not column.numeric), 0)
    return f"{written} *" if number in grid.marked and index == first_key else written


def _layout(grid: Grid, width: int) -> tuple[dict[int, int], list[Column]]:
    """Choose the columns that fit and their widths: ranked ones are given up first, then texts are folded."""
    widths: dict[int, int] = {}
    for index, column in enumerate(grid.columns):
        cells = [cell_width(_shown(grid, number, index, _LONGEST_TEXT)) for number in range(len(grid.rows))]
        title = cell_width(column.title)
        widths[index] = max([title if column.numeric else min(title, _NARROW_TEXT), *cells])
    dropped: list[Column] = []
    texts = [index for index, column in enumerate(grid.columns) if not column.numeric]
    wanted = {index: min(widths[index], _READABLE_TEXT) if index in texts else widths[index] for index in widths}
    while sum(wanted.values()) + _GAP * len(wanted) > width:
        ranked = [index for index in wanted if grid.columns[index].rank]
        if not ranked:
            break
        worst = max(ranked, key=lambda index: grid.columns[index].rank)
        dropped.append(grid.columns[worst])
        del wanted[worst]
    return _spread(wanted, widths, [index for index in texts if index in wanted], width - _GAP * len(wanted)), dropped


def _spread(wanted: dict[int, int], natural: dict[int, int], texts: list[int], width: int) -> dict[int, int]:
    """Give the texts the room that is left over, or take from them what is missing."""
    spare = width - sum(wanted.values())
    for position, index in enumerate(texts):
        share = spare // (len(texts) - position)
        given = (
            min(natural[index] - wanted[index], share)
            if share > 0
            else max(share, min(_NARROW_TEXT - wanted[index], 0))
        )
        wanted[index] += given
        spare -= given
    return wanted


def _notes(grid: Grid, dropped: Sequence[Column]) -> list[str]:
    notes = []
    if grid.marked:
        notes.append("* a small group: read the interval, not the rate")
    if dropped:
        notes.append("Not shown for lack of width: " + ", ".join(column.title for column in dropped))
    if grid.note:
        notes.append(grid.note)
    return notes
