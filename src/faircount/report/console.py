"""A report on a terminal, or as plain text where it is piped to. Colour only where a terminal shows it.

Drawn here, with the few codes that it needs: a terminal library costs more time to load than a small file to analyse.
Text of a record arrives visible; the only escape sequences are ours, each ended on its own line.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field

from faircount.core.model import Finding, Severity
from faircount.core.text import cell_width, clip_middle, inert_lines, left_to_right, visible
from faircount.report import blocks, formats

PLAIN_WIDTH = 100
NARROWEST = 40
_GAP = 2
_MOST_DIGITS = 7
_PLACES_SHOWN = 3
_NARROWEST_NOTE = 24
"""With less room beside a fact, its note goes under it."""
_NARROW_TEXT, _READABLE_TEXT, _LONGEST_TEXT = 8, 24, 60
_DRAWN_WIDTH, _WIDEST_DRAWN = 12, 40
"""How wide the scale is on which an interval is drawn, at least and at most."""
_SPOKEN_TEXT = 600
_BOLD, _DIM, _TITLE = "1", "2", "1;4"
_STYLES = {Severity.ERROR: "1;31", Severity.WARNING: "33", Severity.INFO: "36"}


def render(report: blocks.Report, *, width: int | None = None, colour: bool = False) -> str:
    """Return the report as text of the given width, with colour codes if asked for."""
    page = _Page(max(width or PLAIN_WIDTH, NARROWEST), colour)
    for section in report.sections:
        _section(page, section)
    return inert_lines("\n".join(page.lines) + "\n")


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

    def table(self, rows: Iterable[TableRow], widths: Sequence[int], right: Sequence[bool], indent: int) -> None:
        """Write rows of cells, each folded inside its column; a head stands on its last line, others on their first."""
        for row in rows:
            folded = [
                fold(content, width, cut=index not in row.whole)
                for index, (content, width) in enumerate(zip(row.cells, widths, strict=True))
            ]
            height = max(map(len, folded))
            for number in range(height):
                parts = []
                for lines, width, to_right in zip(folded, widths, right, strict=True):
                    index = number - (height - len(lines)) if row.is_head else number
                    line = lines[index] if 0 <= index < len(lines) else ""
                    space = " " * max(width - cell_width(line), 0)
                    shown = left_to_right(line)
                    parts.append(space + shown if to_right else shown + space)
                self.lines.append(" " * indent + self.styled((" " * _GAP).join(parts).rstrip(), row.style))


class TableRow(Struct, frozen=True):
    """A row of a table and how it is shown."""

    cells: Sequence[str]
    style: str = ""
    is_head: bool = False
    whole: Collection[int] = ()
    """Columns whose texts must not be cut."""


def fold(content: str, width: int, *, cut: bool = False) -> list[str]:
    """Break a text into lines of at most `width` cells, at spaces where there are any; leading spaces stay.

    A word that is longer goes on in the next line or, where words may be `cut`, loses its middle.
    """
    lines, line = [], content[: len(content) - len(content.lstrip(" "))]
    for word in content[len(line) :].split(" "):
        if cut and cell_width(word) > width:
            word = _shortened(word, width)
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


def _shortened(word: str, width: int) -> str:
    limit = width
    while limit > 1 and cell_width(clip_middle(word, limit)) > width:
        limit -= 1
    return clip_middle(word, limit)


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
    if columns.isdecimal() and len(columns) < _MOST_DIGITS and int(columns) > 0:
        return int(columns)
    if stream_is_terminal:
        try:
            return os.get_terminal_size().columns
        except OSError:
            return PLAIN_WIDTH
    return PLAIN_WIDTH


def _section(page: _Page, section: blocks.Section) -> None:
    title = section.title
    if section.subject is not None:
        title += " " + formats.cell(section.subject, width=1000)
    page.lines.append("")
    if section.level == 1:
        page.lines.append(page.styled(title, _TITLE))
    else:
        page.write(title, _BOLD, indent=0)
    for block in section.blocks:
        _block(page, block)


def _block(page: _Page, block: blocks.Block) -> None:
    if isinstance(block, blocks.Findings):
        for item in block.items:
            _finding(page, item)
    elif isinstance(block, blocks.Facts):
        _facts(page, block.rows)
    elif isinstance(block, blocks.Grid):
        _grid(page, block)
    elif isinstance(block, blocks.Evidence):
        _evidence(page, block)
    elif isinstance(block, blocks.Curves):
        page.write(block.title, _BOLD)
        _grid(page, formats.curve_points(block))
    elif isinstance(block, blocks.Lead):
        for paragraph in block.paragraphs:
            page.write(paragraph)
    elif isinstance(block, blocks.Paragraph):
        page.write("- " + block.text)


def _evidence(page: _Page, block: blocks.Evidence) -> None:
    """Show who said what, each text in one paragraph in which nothing is hidden."""
    if block.total > len(block.exhibits):
        page.write(f"{len(block.exhibits):,} of {block.total:,} {block.name}", _DIM)
    for exhibit in block.exhibits:
        page.lines.append("")
        page.write(f"{formats.cell(exhibit.entry)} ({formats.cell(exhibit.place, width=1000)})", _BOLD)
        known = [f"{name} {formats.cell(content)}" for name, content in exhibit.known]
        if known:
            page.write(", ".join(known), _DIM)
        for name, passage in exhibit.said:
            page.write(f"{name}: {formats.excerpt(passage, _SPOKEN_TEXT)}", indent=2 * _GAP)


def _finding(page: _Page, item: Finding) -> None:
    name = f"{item.severity.value} {item.code}"
    first, *rest = fold(f"{name}  {visible(item.message)}", page.width - _GAP)
    page.lines.append(" " * _GAP + page.styled(name, _STYLES[item.severity]) + first[len(name) :])
    page.lines += [" " * _GAP + line for line in rest]
    if item.where:
        shown = ", ".join(visible(place) for place in item.where[:_PLACES_SHOWN])
        more = ", …" if item.count > _PLACES_SHOWN or len(item.where) > _PLACES_SHOWN else ""
        page.write(f"at {shown}{more}", _DIM, indent=2 * _GAP)


def _facts(page: _Page, rows: Sequence[blocks.Fact]) -> None:
    """Write facts in columns; where there is little room beside them, a note goes under its fact."""
    written = [
        (
            "  " * fact.depth + fact.label,
            "" if fact.value is None else formats.cell(fact.value),
            "" if fact.rate is None else formats.estimate(fact.rate),
            fact.note,
        )
        for fact in rows
    ]
    widths = [max(map(cell_width, column)) for column in zip(*written, strict=True)]
    widths[1] = min(widths[1], max(page.width - widths[0] - widths[2] - 3 * _GAP, _READABLE_TEXT))
    beside = page.width - _GAP - sum(widths[:3]) - 3 * _GAP
    if beside >= min(widths[3], _NARROWEST_NOTE):
        widths[3] = max(min(widths[3], beside), 1)
        page.table([TableRow(row, whole=(1,)) for row in written], widths, (False, True, True, False), indent=_GAP)
        return
    for *row, note in written:
        page.table([TableRow(row, whole=(1,))], widths[:3], (False, True, True), indent=_GAP)
        if note:
            page.write(note, _DIM, indent=3 * _GAP)


def _grid(page: _Page, grid: blocks.Grid) -> None:
    widths, dropped = _layout(grid, page.width - _GAP)
    shown = list(widths)
    texts = [_column(grid, index, widths[index]) for index in shown]
    right = [grid.columns[index].numeric for index in shown]
    titles = [
        f"0%{'100%':>{widths[index] - 2}}" if _is_drawn(grid, index) else grid.columns[index].title for index in shown
    ]
    head = TableRow(titles, _BOLD, is_head=True)
    whole = [at for at, index in enumerate(shown) if _is_whole(grid, index)]
    rows = [
        TableRow([column[number] for column in texts], _DIM if number in grid.marked else "", whole=whole)
        for number in range(len(grid.rows))
    ]
    page.table([head, *rows], list(widths.values()), right, indent=_GAP)
    for note in _notes(grid, shown, dropped):
        page.write(note, _DIM)


def _is_whole(grid: blocks.Grid, index: int) -> bool:
    return any(isinstance(content := row[index], blocks.Record) and content.whole for row in grid.rows)


def _column(grid: blocks.Grid, index: int, width: int) -> list[str]:
    """Return a column's texts for a width: names lose their middle, other texts fold; small groups bear a star."""
    cells = [row[index] for row in grid.rows]
    key = next((at for at, column in enumerate(grid.columns) if not column.numeric), 0)
    starred = index == key and bool(grid.marked)
    longest = min(width - 2 * starred, _LONGEST_TEXT)
    written = formats.column_texts(cells, _LONGEST_TEXT)
    names = any(isinstance(content, blocks.Label | blocks.Place) for content in cells)
    if any(cell_width(word) > longest for one in written for word in ([one] if names else one.split(" "))):
        written = formats.column_texts(cells, longest)
    shown = [
        formats.drawn(content.estimate, width) if isinstance(content, blocks.Interval) else one
        for content, one in zip(cells, written, strict=True)
    ]
    return [f"{one} *" if starred and number in grid.marked else one for number, one in enumerate(shown)]


def _layout(grid: blocks.Grid, width: int) -> tuple[dict[int, int], list[blocks.Column]]:
    """Choose the columns that fit, and their widths.

    What is least wanted goes first; the column that decides, of rank 1, and the names are cut last.
    """
    natural = {index: _natural_width(grid, index) for index in range(len(grid.columns))}
    texts = [index for index, column in enumerate(grid.columns) if not column.numeric]
    dropped: list[blocks.Column] = []

    def needed(most_text: int) -> int:
        return sum(min(w, most_text) if i in texts else w for i, w in natural.items()) + _GAP * len(natural)

    def drop(least_rank: int, most_text: int) -> None:
        while needed(most_text) > width:
            ranked = [index for index in natural if grid.columns[index].rank >= least_rank]
            if not ranked:
                return
            worst = max(ranked, key=lambda index: grid.columns[index].rank)
            dropped.append(grid.columns[worst])
            del natural[worst]

    drop(2, _LONGEST_TEXT)
    drop(1, _READABLE_TEXT)
    widths = _spread(natural, [index for index in texts if index in natural], width - _GAP * len(natural))
    spare = width - _GAP * len(widths) - sum(widths.values())
    for index in widths:
        if _is_drawn(grid, index):
            widths[index] += max(min(spare, _WIDEST_DRAWN - widths[index]), 0)
    return widths, dropped


def _is_drawn(grid: blocks.Grid, index: int) -> bool:
    return any(isinstance(row[index], blocks.Interval) for row in grid.rows)


def _natural_width(grid: blocks.Grid, index: int) -> int:
    column, cells = grid.columns[index], [row[index] for row in grid.rows]
    if _is_drawn(grid, index):
        return max(_DRAWN_WIDTH, cell_width(column.title))
    star = 2 if grid.marked and not column.numeric else 0
    widest = [cell_width(one) for one in formats.column_texts(cells, _LONGEST_TEXT)]
    title = max(map(cell_width, column.title.split(" ")))
    return max([title, *(one + star for one in widest)])


def _spread(natural: dict[int, int], texts: Sequence[int], width: int) -> dict[int, int]:
    """Take from the texts what is missing, from the longest first; nothing gets narrower than can be read."""
    widths = dict(natural)
    while sum(widths.values()) > width:
        widest = max(texts, key=lambda index: widths[index], default=None)
        if widest is None or widths[widest] <= _NARROW_TEXT:
            break
        widths[widest] -= 1
    return widths


def _notes(grid: blocks.Grid, shown: Sequence[int], dropped: Sequence[blocks.Column]) -> list[str]:
    notes = []
    if grid.marked:
        notes.append("* a small group: read the interval, not the rate")
    explained = [grid.columns[index].note for index in shown if grid.columns[index].note]
    if explained or grid.note:
        notes.append(" ".join([*explained, grid.note]).strip())
    if dropped:
        notes.append("Not shown for lack of width: " + ", ".join(column.title for column in dropped))
    return notes
