"""A report on a terminal, or as plain text where it is piped to. Colour only where a terminal shows it.

Nothing from a record is ever handed to the terminal library as markup; it arrives as visible plain text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Literal

from faircount.model import Finding, Severity
from faircount.present import figures_text as text
from faircount.report import (
    Block,
    Column,
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
from faircount.text import visible

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
NARROWEST = 40
_GAP = 2
_PLACES_SHOWN = 3
_WIDTH_FOR_NOTES = 70
_NARROW_TEXT, _READABLE_TEXT, _LONGEST_TEXT = 8, 24, 60
_SPOKEN_TEXT = 600
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def render(report: Report, *, width: int | None = None, colour: bool = False) -> str:
    """Return the report as text of the given width, with colour codes if asked for."""
    from rich.console import Console

    out = StringIO()
    console = Console(
        file=out,
        width=max(width or PLAIN_WIDTH, NARROWEST),
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for section in report.sections:
        _section(console, section)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


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


def _section(console: Console, section: Section) -> None:
    from rich.text import Text

    title = Text(section.title, style="bold" if section.level > 1 else "bold underline")
    if section.subject is not None:
        title.append(" " + text.cell(section.subject, width=1000))
    console.print()
    console.print(title, soft_wrap=section.level == 1)
    for block in section.blocks:
        _block(console, block)


def _block(console: Console, block: Block) -> None:
    if isinstance(block, Findings):
        for item in block.items:
            _finding(console, item)
    elif isinstance(block, Facts):
        _facts(console, block.rows)
    elif isinstance(block, Grid):
        _grid(console, block)
    elif isinstance(block, Evidence):
        _evidence(console, block)
    elif isinstance(block, Paragraph):
        _paragraph(console, block)


def _paragraph(console: Console, block: Paragraph) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text("- " + block.text), (0, 0, 0, 2)))


def _evidence(console: Console, block: Evidence) -> None:
    from rich.padding import Padding
    from rich.text import Text

    counted = f"{len(block.exhibits):,} of {block.total:,}; texts are cut after {_SPOKEN_TEXT} characters"
    console.print(Padding(Text(counted, style="dim"), (0, 0, 0, _GAP)))
    for exhibit in block.exhibits:
        _exhibit(console, exhibit)


def _exhibit(console: Console, exhibit: Exhibit) -> None:
    """Show who said what, each text in one paragraph in which nothing is hidden."""
    from rich.padding import Padding
    from rich.text import Text

    made = f"entry {text.cell(exhibit.entry)}, {text.cell(exhibit.strategy)}, judge {text.cell(exhibit.judge)}"
    console.print()
    console.print(Padding(Text(text.cell(exhibit.place, width=1000), style="bold"), (0, 0, 0, _GAP)))
    console.print(Padding(Text(made, style="dim"), (0, 0, 0, _GAP)))
    for name, spoken in (("prompt", exhibit.prompt), ("response", exhibit.response)):
        line = Text(f"{name}: ", style="dim")
        line.append(text.cell(spoken, width=_SPOKEN_TEXT), style="not dim")
        console.print(Padding(line, (0, 0, 0, 2 * _GAP)), overflow="fold")


def _finding(console: Console, item: Finding) -> None:
    from rich.padding import Padding
    from rich.text import Text

    line = Text()
    line.append(f"{item.severity.value} {item.code}", style=_STYLES[item.severity])
    line.append(f"  {visible(item.message)}")
    console.print(Padding(line, (0, 0, 0, 2)))
    if item.where:
        shown = ", ".join(visible(place) for place in item.where[:_PLACES_SHOWN])
        more = ", …" if item.count > _PLACES_SHOWN or len(item.where) > _PLACES_SHOWN else ""
        console.print(Padding(Text(f"at {shown}{more}", style="dim"), (0, 0, 0, 4)))


def _facts(console: Console, rows: Sequence[Fact]) -> None:
    from rich.table import Table
    from rich.text import Text

    roomy = console.width >= _WIDTH_FOR_NOTES
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for fact in rows:
        value = "" if fact.value is None else text.cell(fact.value)
        rate = "" if fact.rate is None else text.estimate(fact.rate)
        label = Text("  " * (fact.depth + 1) + fact.label)
        table.add_row(label, Text(value), Text(rate), Text(fact.note if roomy else ""))
    console.print(table)


def _grid(console: Console, grid: Grid) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    widths, dropped = _layout(grid, console.width - _GAP)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for index, width in widths.items():
        column = grid.columns[index]
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(Text(column.title), justify=justify, width=width, overflow="fold")
    for number in range(len(grid.rows)):
        cells = [Text(_shown(grid, number, index, width)) for index, width in widths.items()]
        table.add_row(*cells, style="dim" if number in grid.marked else "")
    console.print(Padding(table, (0, 0, 0, _GAP)))
    for note in _notes(grid, dropped):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, _GAP)))


def _shown(grid: Grid, number: int, index: int, width: int) -> str:
    """Return a cell's text: a path is cut to its column, other texts fold inside it; small groups bear a star."""
    content = grid.rows[number][index]
    written = text.cell(content, width=width if isinstance(content, Place) else _LONGEST_TEXT)
    first_key = next((i for i, column in enumerate(grid.columns) if not column.numeric), 0)
    return f"{written} *" if number in grid.marked and index == first_key else written


def _layout(grid: Grid, width: int) -> tuple[dict[int, int], list[Column]]:
    """Choose the columns that fit and their widths: ranked ones are given up first, then texts are folded."""
    from rich.cells import cell_len

    widths: dict[int, int] = {}
    for index, column in enumerate(grid.columns):
        cells = [cell_len(_shown(grid, number, index, _LONGEST_TEXT)) for number in range(len(grid.rows))]
        title = cell_len(column.title)
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
