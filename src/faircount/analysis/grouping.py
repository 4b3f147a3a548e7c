"""The groups that entries fall into: by a field, and by the payload that they are variants of.

Fields have names and columns. Families of variants are the unit of independence: rates over entries get the intervals
that families allow. The groups of one field are read together: rates shrunk towards their mean, and each tested
against the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.options import ATTACKS, AUTO, NONE
from faircount.analysis.words import Words
from faircount.core.errors import UsageError
from faircount.core.findings import counted, finding
from faircount.core.model import AgainstRest, Counts, Estimate, Families, Finding, General, Group, Shares, Slices
from faircount.core.text import clip, visible
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import FamilyCounts
from faircount.stats import (
    BetaPrior,
    ClusterEstimate,
    Design,
    Strata,
    Stratum,
    adjust_together,
    beta_prior,
    cluster_wilson,
    confidence_sequence,
    effective_families,
    inside_strata,
    slices_against_rest,
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

    families: Families
    column: str | None
    kinds: Sequence[FamilyCounts]
    design: Design
    stoppable: bool = False

    @property
    def limit(self) -> str:
        """What the intervals cannot tell because of families."""
        return self.families.explanation if self.column is not None else f"{self.families.explanation} {_IF_NOT}"

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
        if kinds is None and self.column is not None and self.families.count == 1:
            # Asked for by name: one family cannot tell how families differ.
            return replace(found.estimate, low=None, high=None, method="cluster wilson")
        if not (self.stoppable and kinds is None if stoppable is None else stoppable):
            return found.estimate
        return sequence_of(found, sum(kind.times * getattr(kind, of) for kind in counted))

    def rate_of_kinds(self, kinds: Sequence[tuple[int, int, int]], unit: str = "entry") -> Estimate:
        """Return a rate of families that are given by how many are alike, their entries, and those of interest."""
        times, sizes, won = zip(*kinds or [(1, 0, 0)], strict=True)
        return self.design.rate(won, sizes, times=times, unit=unit).estimate

    def shares(self, *, blocks_are_errors: bool) -> Shares:
        """Return the shares of errors, of blocks and of unjudged entries."""
        errors = "error_or_guardrail" if blocks_are_errors else "error"
        return Shares(self.rate(errors), self.rate("guardrail"), self.rate("unjudged"))

    def rates_of(self, kinds: Sequence[FamilyCounts]) -> Callable[[str], ClusterEstimate]:
        """Return what estimates rates over the entries of a group; counts that are equal, as most of none, once."""
        sizes, times = [kind.total for kind in kinds], [kind.times for kind in kinds]
        found: dict[tuple[int, ...], ClusterEstimate] = {}

        def rate(of: str) -> ClusterEstimate:
            successes = tuple(map(attrgetter(of), kinds))
            if successes not in found:
                found[successes] = self.design.rate(successes, sizes, times=times)
            return found[successes]

        return rate

    def by(self, ledger: LedgerView, *facets: str) -> dict[tuple[Any, ...], list[FamilyCounts]]:
        """Return the families of the entries of each value of some columns; nothing where entries are independent."""
        return {} if self.column is None else tallies.families_by(ledger, self.column, *facets)


def sequence_of(found: ClusterEstimate, successes: int) -> Estimate:
    """Return a rate of `Design.rate`, with so many successes, with an interval that holds whenever a run stops."""
    rate = found.estimate
    effect = widening(found) if found.families else None
    return confidence_sequence(successes, rate.n - successes, unit=rate.unit, level=rate.level, design_effect=effect)


FEW_FAMILIES = 10


def family_findings(grouping: Grouping) -> list[Finding]:
    """Return what should be known before an interval of families is believed."""
    if grouping.column is None or (grouping.families.count or 0) < 2:
        return []
    # Four single prompts add next to nothing to seven families.
    worth = effective_families([kind.total for kind in grouping.kinds for _ in range(kind.times)])
    if worth >= FEW_FAMILIES:
        return []
    families = counted(grouping.families.count or 0, "family", "families")
    message = (
        f"{families} of variants, worth {worth:.1f} of equal size: too few to show how much families differ; where "
        "they succeed all or nothing, the intervals are too narrow"
    )
    return [finding("F037", grouping.families.count or 0, message)]


def generalised(ledger: LedgerView, grouping: Grouping, asked: str) -> Grouping:
    """Return the families with the rate for the values of a field in general, not only for those that were tested.

    Entries with one value are alike, as those of one family are. Where entries are independent but for that, the
    values are the families.
    """
    field = _ATTACK_TYPE if asked == ATTACKS else raw_name(asked)
    found = tallies.cells(ledger, grouping.column, existing_column(ledger, field, "--generalise"))
    values, level = len({value for _, value, _, _ in found}), grouping.design.level
    if values < 2:
        raise UsageError(
            f"--generalise {clip(visible(asked), 40)}: all entries have one value here, which shows nothing of others"
        )
    if grouping.column is None:
        rate = cluster_wilson([won for *_, won, _ in found], [total for *_, total in found], level=level).estimate
    else:
        rate = two_way_wilson(found, level=level).estimate
    return replace(grouping, families=replace(grouping.families, general=General(field, values, rate)))


def as_one(counts: Counts) -> list[FamilyCounts]:
    """Return all entries as one family: enough for rates that know of none."""
    tally = counts.tally
    of_attacks = counts.initial, counts.attack_only, tally.guardrail, counts.guardrail_any
    return [FamilyCounts(1, tally.total, tally.success, tally.judged, *of_attacks, tally.error, tally.unjudged)]


def find_families(ledger: LedgerView, counts: Counts, asked: str, level: float, words: Words) -> Grouping:
    """Find the families of the entries counted, as asked for, and decide whether there are any to respect."""
    by = None if asked == NONE else shared_by(ledger, words) if asked == AUTO else raw_name(asked)
    if by is None:
        explanation = "Entries are treated as independent, as --cluster none asks."
        return Grouping(Families(asked, None, False, explanation), None, as_one(counts), Design(level=level))
    column = tallies.FAMILY if asked == AUTO else existing_column(ledger, by, "--cluster")
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
    attacks = tallies.distinct_values(ledger, column_of(ledger, _ATTACK_TYPE))
    return Grouping(_respected(asked, by, shared, kinds, design, attacks), column, kinds, design)


def shared_by(ledger: LedgerView, words: Words) -> str:
    """Return what variants have in common: what the formats that were read say, or else what is usual."""
    return " or ".join(ledger.fields.family) or words.family


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


# -- fields ----------------------------------------------------------------------------------------------------


ATTACK_FIELD = tallies.ATTACK_NAME
VALUES_OF_AN_UNKNOWN_FACET = 50
_ONLY_ASKED_FOR = ("metric.", "tag.")
_ALIASES = {"attack": ATTACK_FIELD, "document": "document_id", "judge": "judge_name"}


def raw_name(name: str) -> str:
    """Return a field's name in the files, for a name that may be a short one."""
    return _ALIASES.get(name, name)


def raw_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the files of fields that the user named, each once."""
    return tuple(dict.fromkeys(map(raw_name, names)))


def to_break_down(ledger: LedgerView, asked: tuple[str, ...], aim: str = "attack") -> tuple[str, ...]:
    """Return the fields to break results down by: the nine, those asked for, else every facet that is present.

    What a metric decided is part of the result, and a tag stands among the tags: these are for those who ask.
    """
    for field in asked:
        existing_column(ledger, field, "--by")
    if asked:
        return tuple(dict.fromkeys([*ledger.fields.first, *asked]))
    known = ledger.fields.facets
    others = [field for field in known if field in ledger.facets]
    unknown = [
        field
        for field, column in ledger.facets.items()
        if field not in known
        and not ledger.fields.others_on_request
        and not (aim == "task" and _is_for_asking(ledger, field, column))
        and tallies.distinct_values(ledger, column) <= VALUES_OF_AN_UNKNOWN_FACET
    ]
    return tuple(dict.fromkeys([*ledger.fields.first, ATTACK_FIELD, *others, *unknown]))


def _is_for_asking(ledger: LedgerView, field: str, column: str) -> bool:
    """Return whether a field of a run is shown on request only: nothing new, or a value of its own in each entry."""
    return field.startswith(_ONLY_ASKED_FOR) or tallies.distinct_values(ledger, column) == sum(ledger.rows) > 1


def existing_column(ledger: LedgerView, field: str, option: str) -> str:
    """Return the column of `entry` that holds a field that an option names, which must be one of these files."""
    present = {*ledger.fields.first, ATTACK_FIELD, *ledger.facets}
    if field not in present and field == _ALIASES["judge"]:
        raise UsageError(f"{option} judge: no judge is recorded in these files")
    if field not in present:
        listed = ", ".join(sorted(clip(visible(name), 40) for name in present))
        raise UsageError(f"{option} {clip(visible(field), 40)}: no such field; available: {listed}")
    return column_of(ledger, field)


def column_of(ledger: LedgerView, field: str) -> str:
    """Return the column of `entry` that holds a field; a field without any value is a column of nulls."""
    if field in ledger.facets:
        return ledger.facets[field]
    return ATTACK_FIELD if field == ATTACK_FIELD else tallies.NO_COLUMN


# -- the groups of a field, read together ----------------------------------------------------------------------
#
# Rates are pulled in where chance has spread them, and tests answer for their number: the highest of forty equal groups
# looks twice as high as it is.

MOST_GROUPS = 1_000
"""So many groups of one field are listed; where there are more, each entry has nearly one of its own."""

_CHOSEN_BY_OUTCOME = "Not tested: only entries that had resisted were attacked."
_FIXED_IN_FAMILIES = (
    "Not tested: each family has a single value here, so groups may differ only because their families do."
)
_ALIKE_IN_FAMILIES = "Not tested: in each family with several values, all entries ended alike."
_TOO_MANY = f"There are more than {MOST_GROUPS:,} groups: none tested, and only the largest are listed."
_ALONE = "A single group has nothing to be compared with."


def read_together(
    ledger: LedgerView,
    breakdowns: Mapping[str, tuple[Sequence[Group], int]],
    family: str | None,
    whole: Estimate,
) -> tuple[dict[str, tuple[Group, ...]], dict[str, Slices]]:
    """Return the groups of every field with shrunken rates and tests, and how each field was read.

    `family` is the column that says what family an entry belongs to, None where entries are independent; `whole` is
    the rate of all entries. The groups of a field come with how many there are beside them. All tests are adjusted
    together: ten fields of forty groups are four hundred tests.
    """
    read = {
        field: _read(ledger, field, groups, left_out, family, whole) for field, (groups, left_out) in breakdowns.items()
    }
    groups = [group for found, _ in read.values() for group in found]
    tested = [group.against_rest for group in groups if group.against_rest is not None]
    tests = iter(adjust_together(tested, 1 - whole.level))

    def with_test(group: Group) -> Group:
        return group if group.against_rest is None else replace(group, against_rest=next(tests))

    return (
        {field: tuple(map(with_test, found)) for field, (found, _) in read.items()},
        {field: slices for field, (_, slices) in read.items()},
    )


class Pull(Struct, frozen=True):
    """How far the rates of many groups are pulled in: by as many more successes and failures as `prior` says."""

    shrinkage: str
    prior: tuple[float, float] = (0.0, 0.0)
    shared: Estimate | None = None
    fitted: BetaPrior | None = None

    def rate(self, group: Group) -> Estimate | None:
        """Return the shrunken rate of a group, None where none is pulled."""
        tally = group.tally
        if self.fitted is not None:
            effect = 1.0 if group.families is None else group.families.design_effect
            return self.fitted.estimate(tally.success, tally.total, level=group.rate.level, design_effect=effect)
        return None if self.shared is None else replace(self.shared, n=tally.total)


def read_alike(alike: Sequence[tuple[int, int, int]], whole: Estimate) -> Pull:
    """Read groups together that are given by successes, entries and how many of them have these.

    `whole` is the rate of all entries, which those have that differ no more than by chance.
    """
    if len(alike) > MOST_GROUPS:
        return Pull("many")
    fitted = beta_prior(*([row[column] for row in alike] for column in range(3)))
    if isinstance(fitted, BetaPrior):
        return Pull("shrunk", (fitted.alpha, fitted.beta), None, fitted)
    return Pull(fitted, shared=replace(whole, method=f"pooled, {whole.method}") if fitted == "pooled" else None)


def _read(
    ledger: LedgerView, field: str, groups: Sequence[Group], left_out: int, family: str | None, whole: Estimate
) -> tuple[tuple[Group, ...], Slices]:
    if left_out:
        return tuple(groups), Slices("many", _TOO_MANY, left_out=left_out)
    pull = read_alike([(group.tally.success, group.tally.total, 1) for group in groups], whole)
    shrunk = [replace(group, shrunk=pull.rate(group)) for group in groups]
    untested = _ALONE if len(groups) < 2 else _CHOSEN_BY_OUTCOME if field == ATTACK_FIELD else None
    if untested:
        return tuple(shrunk), Slices(pull.shrinkage, untested)
    if family is None:
        tests: Sequence[AgainstRest] = slices_against_rest(
            [group.tally.success for group in groups], [group.tally.judged for group in groups]
        )
    else:
        tests, untested = _inside_families(ledger, family, column_of(ledger, field))
    if untested:
        return tuple(shrunk), Slices(pull.shrinkage, untested)
    tested = (replace(group, against_rest=test) for group, test in zip(shrunk, tests, strict=True))
    return tuple(tested), Slices(pull.shrinkage)


def _inside_families(ledger: LedgerView, family: str, column: str) -> tuple[list[AgainstRest], str | None]:
    """Test each group inside families; or say why none can be."""
    found = tallies.groups_in_families(ledger, family, column)

    def test(value: int | None) -> AgainstRest:
        if value not in found:
            return AgainstRest(None, None)
        return inside_strata(
            Strata(*found[value]),
            lambda: [Stratum(*counts) for counts in tallies.strata_of_groups(ledger, family, column)[value]],
        )

    tests = [test(value) for value, _ in tallies.by_number(ledger, column)]
    if any(one.p is not None for one in tests):
        return tests, None
    return [], _ALIKE_IN_FAMILIES if found else _FIXED_IN_FAMILIES


def stands_out(group: Group) -> int:
    """Return 1 for a group whose rate lies above that of the rest beyond chance, -1 for one below, else 0."""
    test = group.against_rest
    if test is None or not test.stands_out or not test.difference:
        return 0
    return 1 if test.difference > 0 else -1
