"""The recorded coverage in docs/concepts/coverage.md: writes its tables, and reads the figures back for the test.

`python -m tests.stats.coverage_page` measures everything anew and rewrites the part of the page between the marks.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.stats import coverage_corrected, coverage_regimes
from tests.stats.coverage_regimes import Regime, Role, Table

TABLES = (*coverage_regimes.TABLES, *coverage_corrected.TABLES)

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "coverage.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
OUTSIDE = "†"

Figures = dict[str, float]


@cache
def measured(table_number: int, regime_number: int) -> Figures:
    """Return the coverage of every method in a regime, measured once."""
    table = TABLES[table_number]
    return table.regimes[regime_number].coverage(table.methods)


def recorded() -> dict[tuple[str, str], Figures]:
    """Return the figures on the page by title and regime."""
    found: dict[tuple[str, str], Figures] = {}
    title, names = "", list[str]()
    for line in _between_the_marks(PAGE.read_text(encoding="utf-8")).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            title, names = line.removeprefix("### "), []
        elif line.startswith("|") and not names:
            names = [re.sub(r"\*\*| \([^()]*\)$", "", cell) for cell in cells[1:]]
        elif line.startswith("|") and not line.startswith("|---"):
            shares = [float(cell.strip(f"* {OUTSIDE}")) / 100 for cell in cells[1:]]
            found[(title, cells[0])] = dict(zip(names, shares, strict=True))
    return found


def tables() -> str:
    """Return all tables in Markdown, measured now."""
    return "\n".join(line for number, table in enumerate(TABLES) for line in _table(number, table))


def _table(number: int, table: Table) -> Iterator[str]:
    draws = {regime.draws for regime in table.regimes}
    how = "Enumerated: no draw is made." if draws == {0} else f"{max(draws):,} draws in each row."
    names = [f"**{m.name}**" if m.role is Role.DEFAULT else f"{m.name} ({m.role.value})" for m in table.methods]
    yield from (f"### {table.title}", "", how, "")
    yield f"| {' | '.join([table.regime, *names])} |"
    yield "|---" * (1 + len(names)) + "|"
    for row, regime in enumerate(table.regimes):
        yield f"| {' | '.join([regime.label, *_cells(table, regime, measured(number, row))])} |"
    reasons = dict.fromkeys(regime.outside for regime in table.regimes if regime.outside)
    if reasons:
        yield from ("", textwrap.fill(f"{OUTSIDE} {'; '.join(reasons)}.", 120))
    yield ""


def _cells(table: Table, regime: Regime, figures: Figures) -> Iterator[str]:
    for method in table.methods:
        figure = f"{100 * figures[method.name]:.1f}"
        mark = f" {OUTSIDE}" if regime.outside else ""
        yield f"**{figure}**{mark}" if method.role is Role.DEFAULT else figure


def _between_the_marks(text: str) -> str:
    return text.split(BEGIN, 1)[1].split(END, 1)[0]


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
