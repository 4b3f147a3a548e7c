"""The recorded figures of `make test-slow`: docs/concepts/coverage.csv, a row for each situation and method.

Each simulation writes its own part and reads it back; the page shows a selection.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

CSV = Path(__file__).parents[2] / "docs" / "concepts" / "coverage.csv"


class Row(NamedTuple):
    """One figure, as it is written. `part` is the simulation that measures it, `role` is "ours", "naive" and so on."""

    part: str
    table: str
    situation: str
    method: str
    role: str
    figure: str
    note: str = ""


def rows(part: str) -> list[Row]:
    """Return the recorded rows of a part."""
    return [row for row in _all() if row.part == part]


def by_situation(part: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the figures of a part by table and situation, then by method."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows(part):
        found.setdefault((row.table, row.situation), {})[row.method] = float(row.figure)
    return found


def replace(part: str, measured: Iterable[Row]) -> None:
    """Write the rows of a part in place of those recorded before."""
    kept = [row for row in _all() if row.part != part]
    every = sorted([*kept, *measured], key=lambda row: row.part)
    with CSV.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(every)


def _all() -> list[Row]:
    with CSV.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]
