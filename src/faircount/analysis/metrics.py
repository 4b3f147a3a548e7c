"""What each metric of a run says by itself: a case may pass over all although one of its metrics always fails."""

from __future__ import annotations

from collections.abc import Iterator

from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.model import Analysis, MetricFigures
from faircount.report import Column, Grid, Record
from faircount.stats import wilson

PREFIX = "metric."


def metrics_of(ledger: LedgerView, level: float) -> tuple[MetricFigures, ...]:
    """Return the figures of every metric, in the order in which they were met."""
    return tuple(_figures(ledger, level))


def _figures(ledger: LedgerView, level: float) -> Iterator[MetricFigures]:
    for field, column in ledger.facets.items():
        if not field.startswith(PREFIX):
            continue
        counts = {value: counts.tally.total for value, counts in tallies.by_facet(ledger, column) if value is not None}
        passed, failed = counts.get("passed", 0), counts.get("failed", 0)
        undecided = sum(counts.values()) - passed - failed
        rate = wilson(passed, passed + failed, level=level)
        yield MetricFigures(field.removeprefix(PREFIX), passed, failed, undecided, rate)


def metrics_grid(analysis: Analysis) -> Grid:
    """Return the metrics as a table."""
    columns = (
        Column("Metric", numeric=False),
        Column("Passed"),
        Column("Failed"),
        Column("Undecided"),
        Column("Pass rate"),
    )
    rows = tuple(
        (Record(figures.metric), figures.passed, figures.failed, figures.undecided, figures.rate)
        for figures in analysis.metrics
    )
    note = "Cases by each metric alone, attempts aggregated; a case passes only if all its metrics do."
    return Grid(columns, rows, note=note)
