"""Counts of a folded ledger made into the figures of an analysis: rates, intervals, tables in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations as pairs_of
from typing import Any

from msgspec.structs import replace

from faircount.analysis.families import Grouping, as_one
from faircount.analysis.fields import ATTACK_FIELD, column_of, raw_names
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.slices import MOST_GROUPS, Pull, read_alike, read_together
from faircount.core.model import (
    AttackFigures,
    CategoryCount,
    Combinations,
    Counts,
    Crossing,
    Dynamic,
    Group,
    GroupFamilies,
    Slices,
    Source,
    SourceFigures,
    Tally,
)
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import FamilyCounts

SMALL_GROUP = 20
"""Groups with fewer entries are marked: their interval spans some 40 points or more in the middle."""

COMBINATIONS_SHOWN = 10
VALUES_OF_A_CROSSED_FIELD = range(2, 13)

_EMPTY_COUNTS = Counts(Tally(), 0, 0, 0, 0)


def overall(ledger: LedgerView, options: AnalyzeOptions) -> Counts:
    """Count all entries by the chosen definition."""
    return as_defined(tallies.overall(ledger), options)


def as_defined(counts: Counts, options: AnalyzeOptions) -> Counts:
    """Return counts by the chosen definition: spikee counts a guardrail trigger among the errors as well."""
    if options.definition != "spikee":
        return counts
    t = counts.tally
    tally = replace(t, error=t.error + t.guardrail)
    return Counts(tally, counts.attempts, counts.initial, counts.attack_only, counts.guardrail_any)


def dynamic(ledger: LedgerView, counts: Counts, grouping: Grouping, options: AnalyzeOptions) -> Dynamic | None:
    """Return the figures of dynamic attacks, or None where no row is one."""
    counted = tallies.attacks_as_spikee(ledger) if options.definition == "spikee" else tallies.attacks(ledger)
    if not counted:
        return None
    kinds = {} if grouping.column is None else tallies.attack_families(ledger, grouping.column)
    figures = [
        AttackFigures(
            c.attack,
            c.total,
            c.successes,
            c.attempts,
            c.blocks,
            c.entries_blocked,
            grouping.rate_of_kinds(kinds.get(c.attack) or [(1, c.total, c.successes)]),
        )
        for c in counted
    ]
    figures.sort(key=lambda f: (-(f.rate.value or 0.0), -f.total, f.attack))
    return Dynamic(
        counts.initial,
        counts.attack_only,
        grouping.rate("initial"),
        grouping.rate("attack_only"),
        tuple(figures),
    )


def by_source(
    ledger: LedgerView, sources: Sequence[Source], grouping: Grouping, options: AnalyzeOptions
) -> tuple[SourceFigures, ...]:
    """Return each source's share of the entries, in the order of the sources."""
    counted, kinds = tallies.by_source(ledger), grouping.by(ledger, "source")
    stoppable = {source.path for source in sources if source.stop_rule}
    figures = []
    for path in dict.fromkeys(ledger.paths):
        source = ledger.paths.index(path)
        counts = as_defined(counted.get(source, _EMPTY_COUNTS), options)
        of_source = kinds.get((source,)) or as_one(counts)
        rate = grouping.rate("success", kinds=of_source, stoppable=path in stoppable)
        figures.append(SourceFigures(path=path, label="", tally=counts.tally, attempts=counts.attempts, rate=rate))
    return tuple(figures)


def breakdowns(
    ledger: LedgerView, fields: Sequence[str], grouping: Grouping, options: AnalyzeOptions
) -> dict[str, tuple[list[Group], int]]:
    """Return the groups of entries that share a value of a field, by field, and how many more there are."""
    return {field: _groups(ledger, column_of(ledger, field), grouping, options) for field in fields}


def _groups(ledger: LedgerView, column: str, grouping: Grouping, options: AnalyzeOptions) -> tuple[list[Group], int]:
    counted, left_out = tallies.largest(ledger, column, MOST_GROUPS)
    kinds: Mapping[tuple[Any, ...], Sequence[FamilyCounts]] = {}
    if len(counted) == 1:
        kinds = {(number,): grouping.kinds for number, _ in counted}
    elif not left_out:
        # Where there are more, each entry has nearly one of its own, and families of one entry change nothing.
        kinds = grouping.by(ledger, column)
    return [
        _group(tallies.text_of(ledger, column, number), counts, kinds.get((number,), ()), grouping, options)
        for number, counts in counted
    ], left_out


def read_breakdowns(
    ledger: LedgerView, groups: Mapping[str, tuple[Sequence[Group], int]], grouping: Grouping, options: AnalyzeOptions
) -> tuple[dict[str, tuple[Group, ...]], dict[str, Slices]]:
    """Read the groups of each field together; return them sorted as asked, and how they were read."""
    read, slices = read_together(ledger, groups, grouping.column, grouping.rate("success"))
    same = _same_splits(ledger, read)
    return (
        {field: tuple(sorted(found, key=_ORDERS[options.sort])) for field, found in read.items()},
        {field: replace(found, same_as=same.get(field)) for field, found in slices.items()},
    )


def _same_splits(ledger: LedgerView, read: Mapping[str, Sequence[Group]]) -> dict[str, str]:
    """Return the fields that split the entries just as one before them does, with that one."""
    same: dict[str, str] = {}
    seen: dict[tuple[object, ...], list[str]] = {}
    for field, groups in read.items():
        if len(groups) < 2:
            continue
        counted = tuple(sorted((g.tally.total, g.tally.success, g.attempts) for g in groups))
        alike = seen.setdefault(counted, [])
        for other in alike:
            pairs = tallies.distinct_pairs(ledger, column_of(ledger, field), column_of(ledger, other))
            if pairs == len(groups):
                same[field] = other
                break
        else:
            alike.append(field)
    return same


def _group(
    value: str | None,
    raw: Counts,
    families: Sequence[FamilyCounts],
    grouping: Grouping,
    options: AnalyzeOptions,
    values: Mapping[str, str | None] | None = None,
) -> Group:
    kinds = families or as_one(raw)
    blocked = "guardrail_any" if options.definition == "spikee" else "guardrail"
    found = grouping.design.rate(
        [kind.success for kind in kinds], [kind.total for kind in kinds], times=[kind.times for kind in kinds]
    )
    counts = as_defined(raw, options)
    return Group(
        value=value,
        values=dict(values or {}),
        tally=counts.tally,
        attempts=counts.attempts,
        initial=counts.initial,
        attack_only=counts.attack_only,
        guardrail_any=counts.guardrail_any,
        rate=found.estimate,
        initial_rate=grouping.rate("initial", kinds=kinds),
        improvement=grouping.rate("attack_only", kinds=kinds),
        guardrail_rate=grouping.rate(blocked, kinds=kinds),
        rate_at_most=grouping.rate("possible", kinds=kinds),
        shares=grouping.shares(by_spikee=options.definition == "spikee", kinds=kinds),
        families=GroupFamilies(found.families, found.design_effect or 1.0) if found.families else None,
        small=raw.tally.total < SMALL_GROUP,
    )


def _named(value: str | None) -> tuple[bool, str]:
    return value is None, value or ""


_ORDERS: dict[str, Callable[[Group], tuple[object, ...]]] = {
    "rate": lambda g: (-(g.rate.value or 0.0), -g.tally.total, _named(g.value)),
    "total": lambda g: (-g.tally.total, -(g.rate.value or 0.0), _named(g.value)),
    "name": lambda g: _named(g.value),
    "shrunk": lambda g: (-((g.shrunk or g.rate).value or 0.0), -g.tally.total, _named(g.value)),
}


def combinations(
    ledger: LedgerView, breakdowns: Mapping[str, Sequence[Group]], grouping: Grouping, options: AnalyzeOptions
) -> Combinations:
    """Return the most and the least successful combinations of those of the format's fields that vary.

    They are ranked by their shrunken rates: by raw ones, those of one or two entries would fill both ends.
    """
    combined = ledger.fields.combined
    varying = tuple(field for field in combined if len(breakdowns.get(field, ())) > 1)
    names = combined if options.definition == "spikee" else varying or combined[:1]
    if not names:
        return Combinations((), options.min_n, 0, (), ())
    columns = [column_of(ledger, field) for field in names]
    found = tallies.Combinations(ledger, columns, min_n=options.min_n)
    alike = found.alike()
    pull = read_alike(alike, grouping.rate("success")) if options.definition != "spikee" else Pull("few")

    def groups(lowest: bool) -> tuple[Group, ...]:
        ranked = found.ranked(COMBINATIONS_SHOWN, grouping.column, lowest=lowest, prior=pull.prior)
        made = (
            _group(None, counts, kinds, grouping, options, dict(zip(names, values, strict=True)))
            for values, counts, kinds in ranked
        )
        return tuple(replace(group, shrunk=pull.rate(group)) for group in made)

    count = sum(times for _, _, times in alike)
    return Combinations(names, options.min_n, count, groups(False), groups(True), pull.shrinkage)


def crossing(
    ledger: LedgerView, breakdowns: Mapping[str, tuple[Group, ...]], grouping: Grouping, options: AnalyzeOptions
) -> Crossing | None:
    """Cross the two fields that tell most about success; None where no two of them have 2 to 12 values.

    With `--by`, only the fields that were asked for are looked at. Two fields of which one follows from the other
    are passed over: crossed, they show nothing new.
    """
    for first, second in _pairs_to_cross(breakdowns, ledger.fields.first, raw_names(options.by)):
        both = column_of(ledger, first), column_of(ledger, second)
        counted, kinds = tallies.by_two_facets(ledger, *both), grouping.by(ledger, *both)
        rows, columns = (tuple(group.value for group in breakdowns[field]) for field in (first, second))
        if len(counted) > max(len(rows), len(columns)):
            rates = {
                tuple(tallies.text_of(ledger, column, number) for column, number in zip(both, key, strict=True)): (
                    grouping.rate("success", kinds=kinds.get(key) or as_one(counts))
                )
                for key, counts in counted.items()
            }
            cells = tuple(tuple(rates.get((row, column)) for column in columns) for row in rows)
            return Crossing(first, second, rows, columns, cells)
    return None


def _pairs_to_cross(
    breakdowns: Mapping[str, tuple[Group, ...]], first: Sequence[str], asked: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of fields, the most telling first; of each pair, the one with more values first, for the rows."""
    known = (*first, ATTACK_FIELD)
    fields = [
        field
        for field in known
        if (field in asked or not asked) and len(breakdowns.get(field, ())) in VALUES_OF_A_CROSSED_FIELD
    ]
    told = {field: _spread(breakdowns[field]) for field in fields}
    for first, second in sorted(pairs_of(fields, 2), key=lambda pair: -(told[pair[0]] + told[pair[1]])):
        yield (first, second) if len(breakdowns[first]) >= len(breakdowns[second]) else (second, first)


def _spread(groups: Sequence[Group]) -> float:
    """Return how far the rates of groups lie apart: their variance, each weighted by its entries.

    The plain distance from lowest to highest would let groups of one or two entries decide.
    """
    sizes = [group.tally.total for group in groups]
    rates = [group.rate.value or 0.0 for group in groups]
    total = sum(sizes)
    mean = sum(size * rate for size, rate in zip(sizes, rates, strict=True)) / total
    return sum(size * (rate - mean) ** 2 for size, rate in zip(sizes, rates, strict=True)) / total


def guardrail_categories(
    ledger: LedgerView, total: int, grouping: Grouping, options: AnalyzeOptions
) -> tuple[tuple[CategoryCount, ...], int]:
    """Return how many entries each category was named in, and how many categories are not listed."""
    by_spikee = options.definition == "spikee"
    counted, left_out = tallies.guardrail_categories(ledger, MOST_GROUPS, as_spikee=by_spikee)
    if not counted or grouping.column is None:
        kinds = {category: [(1, total, entries)] for category, entries in counted}
    else:
        kinds = tallies.category_families(ledger, grouping.column, as_spikee=by_spikee)
        sizes = Counter[int]()
        for kind in grouping.kinds:
            sizes[kind.total] += kind.times
        for named in kinds.values():
            without = sizes - Counter({size: sum(k[0] for k in named if k[1] == size) for _, size, _ in named})
            named += [(times, size, 0) for size, times in without.items()]
    found = (CategoryCount(category, entries, grouping.rate_of_kinds(kinds[category])) for category, entries in counted)
    return tuple(found), left_out
