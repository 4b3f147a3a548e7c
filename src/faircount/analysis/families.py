"""Families of variants: which entries are one, and rates whose intervals respect that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import fields
from faircount.analysis.options import ATTACKS, AUTO, NONE
from faircount.analysis.words import Words
from faircount.core.errors import UsageError
from faircount.core.findings import counted, finding
from faircount.core.model import Counts, Estimate, Families, Finding, General, Shares
from faircount.core.text import clip, visible
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import FamilyCounts
from faircount.stats import (
    ClusterEstimate,
    Design,
    cluster_wilson,
    confidence_sequence,
    effective_families,
    two_way_wilson,
    widening,
)

_ATTACK_TYPE = "jailbreak_type"
_IF_NOT = "If entries are variants of each other after all, the intervals are too narrow."


class Grouping(Struct, frozen=True):
    """The families of the entries, and how rates are estimated because of them.

    `column` is the one of `entry` that says what family an entry belongs to, None where entries are independent.
    `stoppable`: outcomes could decide how many entries there are, as with `--stop-when`. An interval made for a fixed
    number of entries is too narrow then, and a confidence sequence takes its place.
    """

    told: Families
    column: str | None
    kinds: Sequence[FamilyCounts]
    design: Design
    stoppable: bool = False

    @property
    def limit(self) -> str:
        """What the intervals cannot tell because of families."""
        return self.told.explanation if self.column is not None else f"{self.told.explanation} {_IF_NOT}"

    def rate(
        self,
        of: str,
        among: str = "total",
        unit: str = "entry",
        kinds: Sequence[FamilyCounts] | None = None,
        stoppable: bool | None = None,
    ) -> Estimate:
        """Return a rate over all entries, or those of `kinds`, that are counted as `among`.

        Groups keep the interval of a fixed number of entries, unless `stoppable` says otherwise.
        """
        counted = self.kinds if kinds is None else kinds
        found = _estimated(self.design, counted, of, among, unit)
        if kinds is None and self.column is not None and self.told.count == 1:
            # Asked for by name: one family cannot tell how families differ.
            return replace(found.estimate, low=None, high=None, method="cluster wilson")
        if not (self.stoppable and kinds is None if stoppable is None else stoppable):
            return found.estimate
        return sequence_of(found, sum(kind.times * getattr(kind, of) for kind in counted))

    def rate_of_kinds(self, kinds: Sequence[tuple[int, int, int]], unit: str = "entry") -> Estimate:
        """Return a rate of families that are given by how many are alike, their entries, and those of interest."""
        times, sizes, won = zip(*kinds or [(1, 0, 0)], strict=True)
        return self.design.rate(won, sizes, times=times, unit=unit).estimate

    def shares(self, *, by_spikee: bool, kinds: Sequence[FamilyCounts] | None = None) -> Shares:
        """Return the shares of errors, of blocks and of unjudged entries; spikee has blocks among the errors."""
        return Shares(
            self.rate("error_or_guardrail" if by_spikee else "error", kinds=kinds),
            self.rate("guardrail", kinds=kinds),
            self.rate("unjudged", kinds=kinds),
        )

    def by(self, ledger: LedgerView, *facets: str) -> dict[tuple[Any, ...], list[FamilyCounts]]:
        """Return the families of the entries of each value of some columns; nothing where entries are independent."""
        return {} if self.column is None else tallies.families_by(ledger, self.column, *facets)


def sequence_of(found: ClusterEstimate, successes: int) -> Estimate:
    """Return a rate of `Design.rate`, with so many successes, with an interval that holds whenever a run stops."""
    rate = found.estimate
    effect = widening(found) if found.families else None
    return confidence_sequence(successes, rate.n - successes, unit=rate.unit, level=rate.level, design_effect=effect)


FEW_FAMILIES = 10


def doubts(grouping: Grouping) -> list[Finding]:
    """Return what should be known before an interval of families is believed."""
    if grouping.column is None or (grouping.told.count or 0) < 2:
        return []
    # Four single prompts add next to nothing to seven families.
    worth = effective_families([kind.total for kind in grouping.kinds for _ in range(kind.times)])
    if worth >= FEW_FAMILIES:
        return []
    families = counted(grouping.told.count or 0, "family", "families")
    message = (
        f"{families} of variants, worth {worth:.1f} of equal size: too few to show how much families differ; where "
        "they succeed all or nothing, the intervals are too narrow"
    )
    return [finding("F037", grouping.told.count or 0, message)]


def generalised(ledger: LedgerView, grouping: Grouping, asked: str) -> Grouping:
    """Return the families with the rate for the values of a field in general, not only for those that were tested.

    Entries with one value are alike, as those of one family are. Where entries are independent but for that, the
    values are the families.
    """
    field = _ATTACK_TYPE if asked == ATTACKS else fields.raw_name(asked)
    found = tallies.cells(ledger, grouping.column, fields.existing_column(ledger, field, "--generalise"))
    values, level = len({value for _, value, _, _ in found}), grouping.design.level
    if values < 2:
        raise UsageError(
            f"--generalise {clip(visible(asked), 40)}: all entries have one value here, which shows nothing of others"
        )
    if grouping.column is None:
        rate = cluster_wilson([won for *_, won, _ in found], [total for *_, total in found], level=level).estimate
    else:
        rate = two_way_wilson(found, level=level).estimate
    return replace(grouping, told=replace(grouping.told, general=General(field, values, rate)))


def as_one(counts: Counts) -> list[FamilyCounts]:
    """Return all entries as one family: enough for rates that know of none."""
    tally = counts.tally
    of_attacks = counts.initial, counts.attack_only, tally.guardrail, counts.guardrail_any
    return [FamilyCounts(1, tally.total, tally.success, tally.judged, *of_attacks, tally.error, tally.unjudged)]


def find(ledger: LedgerView, counts: Counts, asked: str, level: float, words: Words) -> Grouping:
    """Find the families of the entries counted, as asked for, and decide whether there are any to respect."""
    by = None if asked == NONE else words.family if asked == AUTO else fields.raw_name(asked)
    if by is None:
        explanation = "Entries are treated as independent, as --cluster none asks."
        return Grouping(Families(asked, None, False, explanation), None, as_one(counts), Design(level=level))
    column = tallies.FAMILY if asked == AUTO else fields.existing_column(ledger, by, "--cluster")
    kinds = tallies.families(ledger, column)
    count, entries = sum(kind.times for kind in kinds), sum(kind.times * kind.total for kind in kinds)
    shared = f"a {by}" if asked == AUTO else "a value of the field asked for"
    if count == entries:
        explanation = f"No two entries share {shared}: each counts on its own."
        return Grouping(Families(asked, by, False, explanation, count), None, kinds, Design(level=level))
    if count == 1 and asked == AUTO:
        explanation = f"All entries share {shared}: the interval holds only for variants of this one."
        return Grouping(Families(asked, by, False, explanation, count), None, kinds, Design(level=level))
    design = Design(families=True, level=level)
    attacks = tallies.distinct_values(ledger, fields.column_of(ledger, _ATTACK_TYPE))
    return Grouping(_respected(asked, by, shared, kinds, design, attacks), column, kinds, design)


def _respected(
    asked: str, by: str, shared: str, kinds: Sequence[FamilyCounts], design: Design, attacks: int
) -> Families:
    found, count = _estimated(design, kinds, "success", "total"), sum(kind.times for kind in kinds)
    if count == 1:
        return Families(
            asked,
            by,
            True,
            f"All entries share {shared}: one family does not show how families vary, so there is no interval.",
            1,
            mean_rate=found.macro_rate,
        )
    what = by if asked == AUTO else "the field asked for"
    families = counted(count, "family", "families")
    for_these = f"; they hold for these {attacks:,} jailbreak types (see --generalise)" if attacks > 1 else ""
    return Families(
        asked=asked,
        by=by,
        respected=True,
        explanation=f"Intervals respect {families} of variants, distinguished by {what}{for_these}.",
        count=count,
        effective_n=found.effective_n,
        design_effect=found.design_effect,
        mean_rate=found.macro_rate,
    )


def _estimated(
    design: Design, kinds: Sequence[FamilyCounts], of: str, among: str, unit: str = "entry"
) -> ClusterEstimate:
    successes, sizes = ([getattr(kind, name) for kind in kinds] for name in (of, among))
    return design.rate(successes, sizes, times=[kind.times for kind in kinds], unit=unit)
