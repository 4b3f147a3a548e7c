"""How often a gate on a regression lets through what it should stop, and stops what it should let through.

Two runs on the same n entries. A share ψ of them is discordant: only one of the two runs succeeds. The chance of every
table is known, so that nothing is drawn: the shares are sums over all tables that matter. `python -m
tests.stats.simulate_gates` computes them anew and rewrites the part of docs/concepts/gates.md between the marks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import binom

from faircount.analysis import judged
from tests.analysis.gate_results import cells

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "gates.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
MARGIN = 0.02
WORSE = 0.05
ENTRIES = (200, 1_000, 5_000)
DISCORDANT = (0.06, 0.10, 0.20)
TITLES = (
    "entries",
    "discordant",
    "identical: naive rule blocks",
    "gate passed",
    "inconclusive",
    "failed",
    "5 points worse: naive rule lets through",
    "gate passed",
    "inconclusive",
    "failed",
    "exactly 2 points worse: gate passed",
)
_NEGLIGIBLE = 1e-7


@dataclass(frozen=True)
class Shares:
    """How often the naive rule "new > old" blocks, and how often the gate is passed, inconclusive and failed."""

    naive_blocks: float
    passed: float
    inconclusive: float
    failed: float


@cache
def verdict(worse: int, better: int, n: int) -> str:
    """Return what the gate says of a table, as it says it of a comparison."""
    both = (n - worse - better) // 4
    figures = cells(both, better, worse, n - both - worse - better)
    return judged(figures, MARGIN, "attack").state


@cache
def shares(n: int, discordant: float, worsening: float) -> Shares:
    """Return the shares for runs of n entries, of which the new one is truly worse by `worsening`."""
    worse_rate, better_rate = (discordant + worsening) / 2, (discordant - worsening) / 2
    low, high = (int(binom.ppf(tail, n, worse_rate)) for tail in (_NEGLIGIBLE, 1 - _NEGLIGIBLE))
    found = dict.fromkeys(("blocks", "passed", "inconclusive", "failed", "all"), 0.0)
    worse = np.arange(low, high + 1)
    chance = binom.pmf(worse, n, worse_rate)
    last = int(binom.ppf(1 - _NEGLIGIBLE, n, better_rate))
    for better in range(last + 1):
        # Of the entries on which the new run is not the only one to succeed, so many are those of the old one alone.
        together = chance * binom.pmf(better, n - worse, better_rate / (1 - worse_rate))
        if together.sum() < _NEGLIGIBLE / (last + 1):
            continue
        passed, failed = _bounds(better, n, low, high)
        found["passed"] += together[worse < passed].sum()
        found["failed"] += together[worse >= failed].sum()
        found["inconclusive"] += together[(worse >= passed) & (worse < failed)].sum()
        found["blocks"] += together[worse > better].sum()
        found["all"] += together.sum()
    assert abs(found["all"] - 1) < 1e-5
    return Shares(found["blocks"], found["passed"], found["inconclusive"], found["failed"])


def _bounds(better: int, n: int, low: int, high: int) -> tuple[int, int]:
    """Return from how many entries that only the new run won the gate is not passed, and from how many it fails.

    The more of them, the worse: both are found by halving.
    """
    return (
        _first(low, high + 1, lambda worse: verdict(worse, better, n) != "passed"),
        _first(low, high + 1, lambda worse: verdict(worse, better, n) == "failed"),
    )


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def rows() -> list[tuple[str, ...]]:
    """Return the table of the page, computed now."""
    found = []
    for n in ENTRIES:
        for discordant in DISCORDANT:
            same, worse = shares(n, discordant, 0.0), shares(n, discordant, WORSE)
            figures = (
                same.naive_blocks,
                *(same.passed, same.inconclusive, same.failed),
                1 - worse.naive_blocks,
                *(worse.passed, worse.inconclusive, worse.failed),
                shares(n, discordant, MARGIN).passed,
            )
            found.append((f"{n:,}", f"{100 * discordant:g}%", *(f"{100 * figure:.1f}%" for figure in figures)))
    return found


def table() -> str:
    """Return the table in Markdown, computed now."""
    lines = [TITLES, ("---:",) * len(TITLES), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def recorded() -> list[tuple[str, ...]]:
    """Return the rows that stand on the page."""
    text = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)[1].split(END, 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
