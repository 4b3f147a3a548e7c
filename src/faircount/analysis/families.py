"""Families of variants: which entries are one, and rates whose intervals respect that."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from faircount.analysis import fields
from faircount.analysis.choices import AUTO, NONE
from faircount.analysis.words import Words
from faircount.findings import counted
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import FamilyCounts
from faircount.model import Counts, Estimate, Families
from faircount.stats import ClusterEstimate, cluster_wilson, wilson

_IF_NOT = "If entries are variants of each other after all, the intervals are too narrow."


class Grouping(Struct, frozen=True):
    """The families of the entries, and how rates over all entries are estimated because of them.

    `column` is the one of `entry` that says what family an entry belongs to, None where entries are independent.
    """

    told: Families
    column: str | None
    kinds: Sequence[FamilyCounts]
    level: float
    elsewhere: str

    @property
    def limit(self) -> str:
        """What the intervals cannot tell because of families."""
        if self.column is None:
            return f"{self.told.explanation} {_IF_NOT}"
        return f"{self.told.explanation} {self.elsewhere}"

    def rate(self, of: str, among: str = "total", unit: str = "entry") -> Estimate:
        """Return a rate over all entries, or those of them that are counted as `among`."""
        if self.column is None:
            return _plain(self.kinds, of, among, unit, self.level)
        return _clustered(self.kinds, of, among, unit, self.level).estimate

    def rates_by_source(self, ledger: LedgerView) -> dict[int, Estimate]:
        """Return the success rate of each source that has entries."""
        if self.column is None:
            return {}
        found = tallies.families_by_source(ledger, self.column)
        return {
            source: _clustered(kinds, "success", "total", "entry", self.level).estimate
            for source, kinds in found.items()
            if sum(kind.times for kind in kinds) > 1
        }


def find(ledger: LedgerView, counts: Counts, asked: str, level: float, words: Words) -> Grouping:
    """Find the families of the entries counted, as asked for, and decide whether there are any to respect."""
    by = None if asked == NONE else words.family if asked == AUTO else fields.raw_name(asked)
    if by is None:
        explanation = "Entries are treated as independent, as --cluster none asks."
        return Grouping(
            Families(asked, None, False, explanation), None, [_as_one(counts)], level, words.not_independent
        )
    column = tallies.FAMILY if asked == AUTO else fields.existing_column(ledger, by, "--cluster")
    kinds = tallies.families(ledger, column)
    count, entries = sum(kind.times for kind in kinds), sum(kind.times * kind.total for kind in kinds)
    shared = f"a {by}" if asked == AUTO else "a value of the field asked for"
    if count == entries:
        explanation = f"No two entries share {shared}: each counts on its own."
        return Grouping(Families(asked, by, False, explanation, count), None, kinds, level, words.not_independent)
    if count == 1 and asked == AUTO:
        explanation = f"All entries share {shared}: the interval holds only for variants of this one."
        return Grouping(Families(asked, by, False, explanation, count), None, kinds, level, words.not_independent)
    return Grouping(_respected(asked, by, shared, kinds, level), column, kinds, level, words.not_independent)


def _respected(asked: str, by: str, shared: str, kinds: Sequence[FamilyCounts], level: float) -> Families:
    found = _clustered(kinds, "success", "total", "entry", level)
    if found.families == 1:
        explanation = (
            f"All entries share {shared}: one family does not show how families vary, so there is no interval."
        )
    else:
        what = by if asked == AUTO else "the field asked for"
        families = counted(found.families, "family", "families")
        explanation = f"Intervals of rates over all entries respect {families} of variants, distinguished by {what}."
    return Families(
        asked=asked,
        by=by,
        respected=True,
        explanation=explanation,
        count=found.families,
        effective_n=found.effective_n,
        design_effect=found.design_effect,
        mean_rate=found.macro_rate,
    )


def _as_one(counts: Counts) -> FamilyCounts:
    """Return all entries as one family: enough for rates that know of none."""
    tally = counts.tally
    undecided = tally.total - tally.judged - tally.guardrail
    return FamilyCounts(1, tally.total, tally.success, tally.judged, counts.initial, counts.attack_only, undecided)


def _clustered(kinds: Sequence[FamilyCounts], of: str, among: str, unit: str, level: float) -> ClusterEstimate:
    successes, sizes = ([getattr(kind, name) for kind in kinds] for name in (of, among))
    return cluster_wilson(successes, sizes, times=[kind.times for kind in kinds], unit=unit, level=level)


def _plain(kinds: Sequence[FamilyCounts], of: str, among: str, unit: str, level: float) -> Estimate:
    successes, size = (sum(kind.times * getattr(kind, name) for kind in kinds) for name in (of, among))
    return wilson(successes, size, unit=unit, level=level)
