"""Coverage as it is recorded and shown: `python -m tests.stats.coverage_page` measures everything again.

All figures go to docs/concepts/coverage.csv; `shown` is the selection in docs/concepts/coverage.md, between the marks.
`--page` renews the page alone, from what is recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.stats import coverage_corrected, coverage_record, coverage_regimes
from tests.stats.coverage_record import Row
from tests.stats.coverage_regimes import Regime, Role, Table

TABLES = (*coverage_regimes.TABLES, *coverage_corrected.TABLES)
PART = "coverage"
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "coverage.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

Figures = dict[str, float]

SHOWN = (
    ("One rate", "10, 1%", "Wald"),
    ("One rate", "30, 1%", "Wald"),
    ("One rate", "30, 10%", "Wald"),
    ("One rate", "100, 5%", "Wald"),
    ("One rate", "500, 10%", "Wald"),
    ("Families of variants", "25 × 8, 20%, 0.1", "Wilson"),
    ("Families of variants", "25 × 8, 20%, 0.3", "Wilson"),
    ("Families of variants", "25 × 8, 20%, 0.6", "Wilson"),
    ("Success within 5 attempts, stopped at the first success", "300, 6%", "errors as failures, Wilson"),
    ("Success within 5 attempts, 10 attempts of every entry", "300", "plug-in 1-(1-p)⁵"),
    ("Two targets on the same entries", "50, 10 and 4%, 10%", "paired Wald"),
    ("Two targets on different entries", "30, 10 and 2%", "Wald"),
    ("Recall of a detector", "25, 95%", "percentile bootstrap"),
    ("Retries of the same entries", "30 × 10", "all calls, Wald"),
    ("A judge that errs, validated elsewhere", "1000, 30%", "verdicts taken as true, Wilson"),
    ("A judge that errs, validated elsewhere", "1000, 30%, recall here 60%", "verdicts taken as true, Wilson"),
    ("A judge that errs, 100 labels drawn by verdict", "1000, 30%, recall here 60%", "verdicts taken as true, Wilson"),
    ("A corrected rate, judge measured elsewhere", "10%, 0.8 and 0.9, 100", "garak's way"),
    (
        "A corrected rate, labels drawn by sample-for-labels",
        "10%, 0.8 and 0.9, 400",
        "labels taken as drawn at random, Wilson",
    ),
    (
        "A corrected rate of families, labels drawn by sample-for-labels",
        "30 of 6 to 96; 0.4; 40%, 0.6 and 0.8, 400",
        "two-phase, entries as independent",
    ),
)
"""The rows of the page: a table, a situation of it, and the method that ours is shown beside."""


@cache
def measured(table_number: int, regime_number: int) -> Figures:
    """Return the coverage of every method in a regime, measured once."""
    table = TABLES[table_number]
    return table.regimes[regime_number].coverage(table.methods)


def recorded() -> dict[tuple[str, str], Figures]:
    """Return the recorded figures by title and regime, as shares."""
    found = coverage_record.by_situation(PART)
    return {key: {name: figure / 100 for name, figure in figures.items()} for key, figures in found.items()}


def _measured_rows() -> Iterator[Row]:
    for number, table in enumerate(TABLES):
        for at, regime in enumerate(table.regimes):
            figures = measured(number, at)
            for method in table.methods:
                note = (regime.outside or "") if method.role is Role.DEFAULT else ""
                figure = f"{100 * figures[method.name]:.1f}"
                yield Row(PART, table.title, regime.label, method.name, method.role.value, figure, note)


def shown() -> str:
    """Return the table of the page in Markdown, from what is recorded."""
    figures = coverage_record.by_situation(PART)
    lines = ["| situation | ours covers | instead | covers |", "|---|---|---|---|"]
    before = ""
    for title, situation, naive in SHOWN:
        table, regime = _named(title, situation)
        (ours,) = (method.name for method in table.methods if method.role is Role.DEFAULT)
        found = figures[title, situation]
        if title != before:
            lines.append(f"| **{title}** ({table.regime}) | {ours} | {naive} | |")
            before = title
        lines.append(f"| {regime.label} | **{found[ours]:.1f}** | | {found[naive]:.1f} |")
    return "\n".join(lines)


def _named(title: str, situation: str) -> tuple[Table, Regime]:
    (table,) = (table for table in TABLES if table.title == title)
    (regime,) = (regime for regime in table.regimes if regime.label == situation)
    return table, regime


def text_of_page(text: str) -> str:
    """Return the page with its table renewed."""
    before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    return f"{before}{BEGIN}\n\n{shown()}\n\n{END}{after}"


def main() -> None:
    if "--page" not in sys.argv:
        coverage_record.replace(PART, _measured_rows())
    PAGE.write_text(text_of_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
