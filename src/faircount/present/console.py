"""A report on a terminal, or as plain text where it is piped to. Colour only where a terminal shows it.

Nothing from a record is ever handed to the terminal library as markup; it arrives as visible plain text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from faircount.model import Finding, Severity
from faircount.present import figures_text as text
from faircount.report import Block, Column, Fact, Facts, Findings, Grid, Paragraph, Report, Section
from faircount.text import visible

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
NARROWEST = 40
_GAP = 2
_PLACES_SHOWN = 3
_LONGEST_KEY = 44
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
    else:
        _paragraph(console, block)


def _paragraph(console: Console, block: Paragraph) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text("- " + block.text), (0, 0, 0, 2)))


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

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for fact in rows:
        value = "" if fact.value is None else text.cell(fact.value)
        rate = "" if fact.rate is None else text.estimate(fact.rate)
        label = Text("  " * (fact.depth + 1) + fact.label)
        table.add_row(label, Text(value), Text(rate), Text(fact.note))
    console.print(table)


def _grid(console: Console, grid: Grid) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    shown, dropped = _fitting(grid, console.width - _GAP)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for index in shown:
        column = grid.columns[index]
        table.add_column(
            Text(column.title),
            justify="right" if column.numeric else "left",
            no_wrap=column.numeric,
            overflow="fold",
        )
    for number in range(len(grid.rows)):
        cells = [Text(_marked_cell(grid, number, index)) for index in shown]
        table.add_row(*cells, style="dim" if number in grid.marked else "")
    console.print(Padding(table, (0, 0, 0, 2)))
    for note in _notes(grid, dropped):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def _marked_cell(grid: Grid, number: int, index: int) -> str:
    content = text.cell(grid.rows[number][index], width=_LONGEST_KEY)
    first_key = next((i for i, column in enumerate(grid.columns) if not column.numeric), 0)
    return f"{content} *" if number in grid.marked and index == first_key else content


def _notes(grid: Grid, dropped: Sequence[Column]) -> list[str]:
    notes = []
    if grid.marked:
        notes.append("* a small group: read the interval, not the rate")
    if dropped:
        notes.append("Not shown for lack of width: " + ", ".join(column.title for column in dropped))
    if grid.note:
        notes.append(grid.note)
    return notes


def _fitting(grid: Grid, width: int) -> tuple[list[int], list[Column]]:
    """Choose the columns that fit, giving up those of the highest rank first."""
    from rich.cells import cell_len

    needed = []
    for index, column in enumerate(grid.columns):
        cells = [cell_len(_marked_cell(grid, number, index)) for number in range(len(grid.rows))]
        longest = max([cell_len(column.title), *cells])
        needed.append((longest if column.numeric else min(longest, 24)) + _GAP)
    shown = list(range(len(grid.columns)))
    dropped: list[Column] = []
    while sum(needed[index] for index in shown) > width:
        ranked = [index for index in shown if grid.columns[index].rank]
        if not ranked:
            break
        worst = max(ranked, key=lambda index: grid.columns[index].rank)
        shown.remove(worst)
        dropped.append(grid.columns[worst])
    return shown, dropped
