"""Counts of a folded ledger made into the figures of an analysis: rates, intervals, tables in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations as pairs_of
from typing import Any

from msgspec.structs import replace

from faircount.analysis.grouping import (
    ATTACK_FIELD,
    MOST_GROUPS,
    Grouping,
    Pull,
    as_one,
    column_of,
    raw_names,
    read_alike,
    read_together,
)
from faircount.analysis.options import AnalyzeOptions
from faircount.core.findings import counted, finding
from faircount.core.model import (
    AttackFigures,
    CategoryCount,
    Combinations,
    Counts,
    Crossing,
    Dynamic,
    Estimate,
    FalsePositives,
    Finding,
    Group,
    GroupFamilies,
    JudgeAgreement,
    JudgeFigures,
    LeftOut,
    MetricFigures,
    Retries,
    Shares,
    Slices,
    Source,
    SourceFigures,
    Tally,
    WithinAttempts,
    WithinStep,
)
from faircount.ledger import tallies
from faircount.ledger.store import Ledger, LedgerView
from faircount.ledger.tallies import FamilyCounts, GivenUp, RankedCombination, RepeatedEntries
from faircount.report import formats
from faircount.stats import (
    Design,
    balance_of,
    cluster_mean_of_shares,
    confusion_estimates,
    confusion_of_rates,
    flake_rate_of_counts,
    icc_of_counts,
    next_calls,
    spread_of_rates,
    success_within_counts,
    undefined,
)
from faircount.stats.agreement import cohen_kappa, gwet_ac1
from faircount.stats.detector_bootstrap import EXACT_METHOD
from faircount.stats.proportion import wilson

SMALL_GROUP = 20
"""Groups with fewer entries are marked: their interval spans some 40 points or more in the middle."""

COMBINATIONS_SHOWN = 10
VALUES_OF_A_CROSSED_FIELD = range(2, 13)

_EMPTY_COUNTS = Counts(Tally(), 0, 0, 0, 0)


def overall(ledger: LedgerView, options: AnalyzeOptions) -> Counts:
    """Count all entries by the chosen definition."""
    return as_defined(tallies.overall(ledger), options)


def as_defined(counts: Counts, options: AnalyzeOptions) -> Counts:
    """Return counts by the chosen definition: a block may count as an error as well."""
    if not options.rules.blocks_are_errors:
        return counts
    t = counts.tally
    return replace(counts, tally=replace(t, error=t.error + t.guardrail))


def dynamic(ledger: LedgerView, counts: Counts, grouping: Grouping, options: AnalyzeOptions) -> Dynamic | None:
    """Return the figures of dynamic attacks, or None where no row is one."""
    counted = (tallies.attacks_blocked_by_flag if options.rules.blocks_by_flag else tallies.attacks)(ledger)
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
    counted, kinds = tallies.grouped(ledger, "source"), grouping.by(ledger, "source")
    stoppable = {source.path for source in sources if source.stop_rule}
    figures = []
    first = {path: source for source, path in reversed(list(enumerate(ledger.paths)))}
    for path in dict.fromkeys(ledger.paths):
        source = first[path]
        counts = as_defined(counted.get((source,), _EMPTY_COUNTS), options)
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
    blocked = "guardrail_any" if options.rules.any_block_counts else "guardrail"
    errors = "error_or_guardrail" if options.rules.blocks_are_errors else "error"
    rate = grouping.rates_of(kinds)
    found = rate("success")
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
        initial_rate=rate("initial").estimate,
        improvement=rate("attack_only").estimate,
        guardrail_rate=rate(blocked).estimate,
        rate_at_most=rate("possible").estimate,
        shares=Shares(rate(errors).estimate, rate("guardrail").estimate, rate("unjudged").estimate),
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
    names = combined if options.rules.ranks_raw_rates else varying or combined[:1]
    if not names:
        return Combinations((), options.min_n, 0, (), ())
    columns = [column_of(ledger, field) for field in names]
    found = tallies.RankedCombinations(ledger, columns, min_n=options.min_n)
    alike = found.alike()
    pull = Pull("few") if options.rules.ranks_raw_rates else read_alike(alike, grouping.rate("success"))

    def groups(ranked: Sequence[RankedCombination]) -> tuple[Group, ...]:
        made = (
            _group(None, counts, kinds, grouping, options, dict(zip(names, values, strict=True)))
            for values, counts, kinds in ranked
        )
        return tuple(replace(group, shrunk=pull.rate(group)) for group in made)

    highest, lowest = found.ranked(COMBINATIONS_SHOWN, grouping.column, prior=pull.prior)
    count = sum(times for _, _, times in alike)
    return Combinations(names, options.min_n, count, groups(highest), groups(lowest), pull.shrinkage)


def crossing(
    ledger: LedgerView, breakdowns: Mapping[str, tuple[Group, ...]], grouping: Grouping, options: AnalyzeOptions
) -> Crossing | None:
    """Cross the two fields that explain most of success; None where no two of them have 2 to 12 values.

    With `--by`, only the fields that were asked for are looked at. Two fields of which one follows from the other
    are passed over: crossed, they show nothing new.
    """
    for first, second in _pairs_to_cross(breakdowns, ledger.fields.first, raw_names(options.by)):
        both = column_of(ledger, first), column_of(ledger, second)
        counted, kinds = tallies.grouped(ledger, *both), grouping.by(ledger, *both)
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
    """Yield pairs of fields, those that explain most first; of a pair, the one with more values first, for the rows."""
    known = (*first, ATTACK_FIELD)
    fields = [
        field
        for field in known
        if (field in asked or not asked) and len(breakdowns.get(field, ())) in VALUES_OF_A_CROSSED_FIELD
    ]
    spread = {
        field: spread_of_rates(
            [group.rate.value or 0.0 for group in breakdowns[field]],
            [group.tally.total for group in breakdowns[field]],
        )
        for field in fields
    }
    for first, second in sorted(pairs_of(fields, 2), key=lambda pair: -(spread[pair[0]] + spread[pair[1]])):
        yield (first, second) if len(breakdowns[first]) >= len(breakdowns[second]) else (second, first)


def guardrail_categories(
    ledger: LedgerView, total: int, grouping: Grouping, options: AnalyzeOptions
) -> tuple[tuple[CategoryCount, ...], int]:
    """Return how many entries each category was named in, and how many categories are not listed."""
    flagged_only = options.rules.blocks_by_flag
    counted, left_out = tallies.guardrail_categories(ledger, MOST_GROUPS, flagged_only=flagged_only)
    if not counted or grouping.column is None:
        kinds = {category: [(1, total, entries)] for category, entries in counted}
    else:
        kinds = tallies.category_families(ledger, grouping.column, flagged_only=flagged_only)
        sizes = Counter[int]()
        for kind in grouping.kinds:
            sizes[kind.total] += kind.times
        for named in kinds.values():
            without = sizes - Counter({size: sum(k[0] for k in named if k[1] == size) for _, size, _ in named})
            named += [(times, size, 0) for size, times in without.items()]
    found = (CategoryCount(category, entries, grouping.rate_of_kinds(kinds[category])) for category, entries in counted)
    return tuple(found), left_out


# -- several requests for one entry ----------------------------------------------------------------------------


LARGEST_SHARE_GIVEN_UP = 0.2
"""More entries than this, given up early without an error, may have been chosen by what they were like."""

LARGEST_SHARE_UNKNOWN = 0.02
"""More attacks than this that ended in an error, after an unknown number of requests, move the curve by a point."""

NEXT_CALLS = 100


def success_within(ledger: LedgerView, level: float) -> WithinAttempts | None:
    """Return success within k answered requests, or None where no entry had more than one.

    An entry stops at its first success, so its number of requests is an outcome and not a plan: entries that were given
    up are censored, not failures of every later request. That is right if giving up has nothing to do with the entry,
    as where a target fails; entries that were given up for no recorded reason may be of another kind.

    Where it is unknown how many requests failed before an error, the entry may have been given up at once or at the
    end: intervals reach from the limit of one curve to that of the other, and too many such entries have no curve.
    """
    given_up = tallies.attempts_given_up(ledger)
    won = [(max(step.attempts, 1), True, step.entries) for step in tallies.attempts_to_success(ledger, answered=True)]
    counts = won + [(item.requests, False, item.entries) for item in given_up]
    most = max((requests for requests, _, _ in counts), default=0)
    if most < 2:
        return None
    unknown = sum(item.entries for item in given_up if item.unknown)
    refused = _why_no_curve(given_up, most, sum(entries for _, _, entries in counts))
    if unknown:
        refused = _why_unknown(unknown, tallies.entries_attacked(ledger)) or refused
    if refused:
        return WithinAttempts((), undefined("request", level, "kaplan-meier"), 0, refused)
    curve = success_within_counts(counts, level=level)
    lowest = curve
    if unknown:
        lasting = [(most if item.unknown else item.requests, False, item.entries) for item in given_up]
        lowest = success_within_counts(won + lasting, level=level)
    steps = tuple(
        WithinStep(
            step.k,
            step.at_risk,
            step.successes,
            step.censored,
            step.estimate if not unknown else replace(step.estimate, low=lowest.within(step.k).low),
        )
        for step in curve.steps
    )
    half = curve.attempts_for(0.5)
    if unknown:
        half = replace(half, high=lowest.attempts_for(0.5).high)
    return WithinAttempts(steps, half, curve.left_out)


def _why_unknown(unknown: int, attacked: int) -> str:
    """Say why there is no curve, if too many attacks raised an error after an unknown number of requests."""
    if unknown <= LARGEST_SHARE_UNKNOWN * attacked:
        return ""
    share = f"{counted(unknown, 'entry', 'entries')} of {attacked:,} attacked"
    return (
        f"No curve: on {share} an error ended the attempts, and the file does not say how many requests had failed "
        "before it. Without these failures the curve would be too high. spikee 0.9.2 and later, and faircount run, "
        "record that."
    )


def _why_no_curve(given_up: Sequence[GivenUp], most: int, entries: int) -> str:
    """Say why there is no curve, if so many entries were given up early that it would speak for others than all."""
    early = sum(item.entries for item in given_up if not item.errored and 0 < item.requests < most)
    if early <= LARGEST_SHARE_GIVEN_UP * entries:
        return ""
    share = f"{counted(early, 'entry', 'entries')} of {entries:,} ({formats.percent(early / entries, 0)})"
    return (
        f"No curve: {share} were given up before {most:,} requests without an error, so it is unknown what more "
        "requests would have done. Entries with different plans, such as some never attacked, cannot share a "
        "curve; analyse them separately."
    )


def retries(ledger: LedgerView, family: str | None, level: float) -> Retries | None:
    """Return how steady entries are that were tried several times by the same means, or None where none was."""
    found = tallies.repeated_entries(ledger, family)
    if all(item.attempts < 2 for item in found):
        return None
    entries, attempts = sum(i.times for i in found), sum(i.times * i.attempts for i in found)
    tried = [item for item in found if item.attempts]
    refused = _why_no_retries(tried)
    if refused:
        return Retries(entries, attempts, refused)
    successes = [item.successes for item in tried for _ in range(item.times)]
    sizes = [item.attempts for item in tried for _ in range(item.times)]
    families = None if family is None else [item.family or 0 for item in tried for _ in range(item.times)]
    if families is not None and len(set(families)) < 2:
        families = None
    variance = icc_of_counts(successes, sizes)
    following = next_calls(variance, NEXT_CALLS)
    return Retries(
        entries=variance.entries,
        attempts=variance.total,
        mean=cluster_mean_of_shares(successes, sizes, families, level=level).estimate,
        standard_error=variance.standard_error,
        naive_standard_error=variance.naive_standard_error,
        icc=variance.icc,
        flake_rate=_flaky(successes, sizes, families, level),
        left_out=sum(item.times for item in found if not item.attempts),
        next_calls=NEXT_CALLS,
        with_entries=None if following is None else following.with_entries,
        with_retries=None if following is None else following.with_retries,
    )


def _flaky(successes: Sequence[int], sizes: Sequence[int], families: Sequence[int] | None, level: float) -> Estimate:
    """Return the share of entries with mixed results, among those that were tried twice or more."""
    if families is None:
        return flake_rate_of_counts(successes, sizes, level=level)
    repeated = Counter(family for family, tried in zip(families, sizes, strict=True) if tried > 1)
    mixed = Counter(family for family, won, tried in zip(families, successes, sizes, strict=True) if 0 < won < tried)
    return (
        Design(families=True, level=level)
        .rate([mixed[family] for family in repeated], list(repeated.values()))
        .estimate
    )


def _why_no_retries(tried: Sequence[RepeatedEntries]) -> str:
    """Say why repeated attempts tell nothing of how steady entries are, if they stop at the first success."""
    planned = any(item.after_success for item in tried) or not any(item.successes for item in tried)
    if planned or len({item.attempts for item in tried}) == 1:
        return ""
    return "Entries were retried only until they succeeded: their attempts do not show how consistent they are."


# -- a guardrail, on attacks and on benign prompts -------------------------------------------------------------
#
# True means that the guardrail let the prompt through, False that it blocked it, and a raised guardrail is a block too.
# Errors and unjudged entries are in no cell; they are counted beside the matrix, on both sides.

FEW_PER_CLASS = 30


def false_positives(
    attack: Tally, benign: Tally, source: Source, groupings: tuple[Grouping, Grouping], options: AnalyzeOptions
) -> FalsePositives:
    """Return the confusion matrix of a guardrail and what it says of its quality.

    Recall and the false positive rate are shares of the entries of one run, and have the intervals of its families.
    Precision, accuracy and F1 mix two runs: where either has families, their intervals are made of those two.
    """
    raised_only = options.block_signal == "raised"
    tp, fn = _blocked_and_allowed(attack, raised_only=raised_only)
    fp, tn = _blocked_and_allowed(benign, raised_only=raised_only)
    left_out = LeftOut(attack.error, attack.unjudged, benign.error, benign.unjudged)
    by_verdict = options.rules.guardrail_by_verdict
    if by_verdict:
        tp, fp = attack.failure, benign.total - benign.success
        left_out = LeftOut(attack.error, 0, 0, 0)
    blocked = "guardrail" if raised_only else "blocked"
    recall, fpr = (grouping.rate(blocked, among="answered") for grouping in groupings)
    if not by_verdict and any(grouping.column is not None for grouping in groupings):
        quality = confusion_of_rates(recall, fpr)
    else:
        quality = confusion_estimates(tp, fn, tn, fp, level=options.level)
    precision, f1, accuracy = quality.precision, quality.f1, quality.accuracy
    if by_verdict:
        recall = quality.recall
        fpr = Design(level=options.level).rate([fp], [fp + tn]).estimate
        # That definition writes 0 for what is undefined.
        precision, recall, f1, accuracy = (
            one if one.value is not None else replace(one, value=0.0) for one in (precision, recall, f1, accuracy)
        )
    return FalsePositives(
        source,
        options.block_signal,
        tp,
        fn,
        tn,
        fp,
        left_out,
        precision,
        recall,
        f1,
        accuracy,
        fpr=fpr,
        balanced_accuracy=balance_of(recall, fpr),
    )


def _blocked_and_allowed(tally: Tally, *, raised_only: bool) -> tuple[int, int]:
    if raised_only:
        return tally.guardrail, tally.success + tally.failure
    return tally.failure + tally.guardrail, tally.success


def guardrail_findings(
    result: FalsePositives, attack: LedgerView, benign: LedgerView, options: AnalyzeOptions
) -> list[Finding]:
    """Return what should be known before the matrix is believed."""
    found = []
    answered = tallies.failures_with_text(attack) + tallies.failures_with_text(benign)
    raised = sum(tallies.overall(ledger).guardrail_any for ledger in (attack, benign))
    if answered and raised and options.block_signal == "verdict" and options.rules.looks_for_problems:
        found.append(
            finding(
                "F022",
                answered,
                f"{counted(answered, 'entry', 'entries')} answered with text, judged false and counted as blocked, "
                f"in files whose guardrail raises ({counted(raised, 'time')}); --block-signal raised counts only "
                "that",
            )
        )
    positives, negatives = result.tp + result.fn, result.tn + result.fp
    smallest = min(positives, negatives)
    by_bootstrap = result.f1.method == EXACT_METHOD
    if by_bootstrap and (smallest < FEW_PER_CLASS or 0 in (result.tp, result.fn, result.tn, result.fp)):
        found.append(
            finding(
                "F028",
                smallest,
                f"{counted(positives, 'attack')} and {counted(negatives, 'benign prompt')}, too few of one kind or "
                "an empty cell: the bootstrap interval of F1 is too narrow",
            )
        )
    return found


# -- metrics and judges, each by itself ------------------------------------------------------------------------


PREFIX = "metric."


def metrics_of(ledger: LedgerView, grouping: Grouping) -> Iterator[MetricFigures]:
    """Yield the figures of every metric, in the order in which they were met."""
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


_UNIT = "verdict"


def judge_figures(ledger: Ledger, grouping_of: Callable[[LedgerView], Grouping]) -> Iterator[JudgeFigures]:
    """Yield what the entries come to under each judge; `grouping_of` estimates rates of folded entries."""
    for judge in ledger.judges():
        with ledger.judged_by(judge) as judged:
            judged.fold()
            grouping = grouping_of(judged)
            yield JudgeFigures(
                judge=judge,
                tally=tallies.overall(judged).tally,
                rate=grouping.rate("success"),
                rate_judged=grouping.rate("success", among="judged", unit="judged entry"),
            )


def judge_agreement(ledger: LedgerView, level: float) -> Iterator[JudgeAgreement]:
    """Yield how often each two judges agree, on the verdicts that both gave."""
    for judges, counts in tallies.verdict_pairs(ledger).items():
        agreed, total = counts[0][0] + counts[1][1], sum(map(sum, counts))
        yield JudgeAgreement(
            judges=judges,
            verdicts=total,
            agreement=wilson(agreed, total, unit=_UNIT, level=level),
            kappa=cohen_kappa(counts, unit=_UNIT, level=level),
            ac1=gwet_ac1(counts),
        )
