"""Nominal 95% intervals contain the truth in 93 to 98 of 100 cases; `make test-slow` measures it.

The figures are compared with those of the specification, which another program made, and with those on the page.
"""

from __future__ import annotations

import math

import pytest

from tests.stats.coverage_page import PAGE, TABLES, measured, recorded, text_of_page
from tests.stats.coverage_regimes import BAND, Regime, Role, Table

ROWS = [(i, j) for i, table in enumerate(TABLES) for j in range(len(table.regimes))]
NAMES = [f"{TABLES[i].title}: {TABLES[i].regimes[j].label}" for i, j in ROWS]
every_row = pytest.mark.parametrize(("i", "j"), ROWS, ids=NAMES)

# Where the specification enumerated it gives three digits, and passed over tables of a detector less likely than 1e-5.
_EXACT = 0.001
_ROUNDED = 0.0005


def chance_error(share: float, *runs: int) -> float:
    """Return four standard errors of the difference of a share found in so many runs of each kind."""
    return 4 * math.sqrt(max(share * (1 - share), 0.002) * sum(1 / run for run in runs if run))


def tolerance(table: Table, regime: Regime, theirs: float) -> float:
    """Return how far our figure may lie from one of the specification."""
    return chance_error(theirs, table.spec_runs, regime.draws) + _ROUNDED if table.spec_runs else _EXACT


def row(i: int, j: int) -> tuple[Table, Regime]:
    return TABLES[i], TABLES[i].regimes[j]


def default(table: Table) -> str:
    (name,) = (method.name for method in table.methods if method.role is Role.DEFAULT)
    return name


def promised(table: Table, regime: Regime) -> tuple[float, float]:
    """Return the band in which the figure of our method must lie: that of the specification if it leaves the usual."""
    theirs = regime.spec.get(default(table))
    if regime.outside and theirs is not None:
        allowed = tolerance(table, regime, theirs)
        return theirs - allowed, theirs + allowed
    return regime.band


@pytest.mark.slow
@every_row
def test_coverage_is_as_promised_as_specified_and_as_recorded(i: int, j: int) -> None:
    """All three in one test: to measure is what takes long."""
    table, regime = row(i, j)
    shares = measured(i, j)
    low, high = promised(table, regime)
    assert low <= shares[default(table)] <= high
    for name, theirs in regime.spec.items():
        assert shares[name] == pytest.approx(theirs, abs=tolerance(table, regime, theirs)), name
    figures = recorded()[(table.title, regime.label)]
    for name, share in shares.items():
        allowed = _ROUNDED * 1.01 + (chance_error(share, regime.draws, regime.draws) if regime.draws else 0)
        assert figures[name] == pytest.approx(share, abs=allowed), name


def test_the_page_shows_what_is_recorded() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == text_of_page(text), "run .venv/bin/python -m tests.stats.coverage_page --page"


def test_the_record_has_every_row_and_method_and_no_other() -> None:
    expected = {(t.title, r.label): {m.name for m in t.methods} for t in TABLES for r in t.regimes}
    assert {key: set(figures) for key, figures in recorded().items()} == expected


def test_a_row_leaves_the_band_only_for_a_reason() -> None:
    for table in TABLES:
        for regime in table.regimes:
            theirs = regime.spec.get(default(table))
            off_the_band = regime.band != BAND or (theirs is not None and not BAND[0] <= theirs <= BAND[1])
            assert regime.outside or not off_the_band, f"{table.title}: {regime.label}"


def test_specified_figures_name_methods_that_are_measured() -> None:
    for table in TABLES:
        for regime in table.regimes:
            assert set(regime.spec) <= {method.name for method in table.methods}, f"{table.title}: {regime.label}"
