"""What each metric of a run says by itself: a case may pass over all although one of its metrics always fails."""

from __future__ import annotations

from collections.abc import Iterator

from faircount.analysis.families import Grouping
from faircount.core.model import Analysis, MetricFigures
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.report.blocks import Grid, Record, number_column, table, text_column

PREFIX = "metric."


def metrics_of(ledger: LedgerView, grouping: Grouping) -> tuple[MetricFigures, ...]:
    """Return the figures of every metric, in the order in which they were met."""
    return tuple(_figures(ledger, grouping))


def _figures(ledger: LedgerView, grouping: Grouping) -> Iterator[MetricFigures]:
    for field, column in ledger.facets.items():
        if not field.startswith(PREFIX):
            continue
        found = {
            tallies.text_of(ledger, column, number): (number, counts.tally.total)
            for number, counts in tallies.by_number(ledger, column)
            if number is not None
        }
        (won, passed), (lost, failed) = (found.get(verdict, (None, 0)) for verdict in ("passed", "failed"))
        undecided = sum(total for _, total in found.values()) - passed - failed
        if grouping.column is None:
            kinds = [(1, passed + failed, passed)]
        else:
            kinds = tallies.value_families(ledger, grouping.column, column, won, lost)
        rate = grouping.rate_of_kinds(kinds)
        yield MetricFigures(field.removeprefix(PREFIX), passed, failed, undecided, rate)


def metrics_grid(analysis: Analysis) -> Grid:
    """Return the metrics as a table."""
    return table(
        analysis.metrics,
        text_column("Metric", lambda figures: Record(figures.metric)),
        number_column("Passed", lambda figures: figures.passed),
        number_column("Failed", lambda figures: figures.failed),
        number_column("Undecided", lambda figures: figures.undecided),
        number_column("Pass rate", lambda figures: figures.rate),
        note="Cases by each metric alone, attempts aggregated; a case passes only if all its metrics do.",
    )
