"""The details of an analysis arranged into sections: groups, combinations, several requests, metrics and judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from faircount.analysis.correct import report as correction_report
from faircount.analysis.evidence import sources_of
from faircount.analysis.grouping import stands_out
from faircount.analysis.words import WORDS
from faircount.core.definition import DEFINITIONS
from faircount.core.findings import counted
from faircount.core.model import (
    Analysis,
    Combinations,
    Crossing,
    Estimate,
    Group,
    Retries,
    Slices,
    WithinAttempts,
)
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Fact,
    Facts,
    Grid,
    HeatMap,
    Paragraph,
    Place,
    Record,
    Records,
    Seconds,
    Section,
    number_column,
    table,
    text_column,
)

FIELD_TITLES = {
    "jailbreak_type": "jailbreak type",
    "instruction_type": "instruction type",
    "task_type": "task type",
    "position": "position",
    "spotlighting_data_markers": "spotlighting data markers",
    "injection_delimiters": "injection delimiters",
    "lang": "language",
    "suffix_id": "suffix",
    "plugin": "plugin",
    "attack_name": "dynamic attack",
    "document_id": "document",
    "judge_name": "judge",
    "judge_options": "judge options",
    "prefix_id": "prefix",
    "system_message": "system message",
    "input_type": "input type",
    "target": "target",
    "target_options": "target options",
    "probe": "probe",
    "module": "probe module",
    "intent": "intent",
    "owasp": "OWASP tag",
}
ROWS_SHOWN = 40
ERROR_KINDS_SHOWN = 10
BARS_SHOWN = 12


def details(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield the sections behind the general figures."""
    yield from _breakdowns(a, figures)
    if a.guardrail_categories:
        yield Section("Guardrail categories", (_category_grid(a),))
    if a.errors:
        yield Section("Errors by kind", (_error_grid(a),))
    if a.latency:
        yield Section("Response time", (_latency_grid(a),))
    yield from _attempts(a, figures)
    if a.aim == "attack":
        yield from _combinations(a, a.combinations)


def short_place(place: str, a: Analysis) -> str:
    """Return a place by the line of the only file, or by the label of its file."""
    for source in sources_of(a):
        if place == source.path:
            return source.label
        if place.startswith(f"{source.path}:"):
            line = place.removeprefix(f"{source.path}:")
            return f"line {line}" if len(sources_of(a)) == 1 else f"{source.label}:{line}"
        if place.startswith(f"{source.path}!"):
            member = place.removeprefix(f"{source.path}!")
            return member if len(sources_of(a)) == 1 else f"{source.label}!{member}"
    return place


def share(count: int, total: int, level: float) -> Estimate:
    """Return a bare share of entries: no interval belongs to a share that only completes the picture."""
    return Estimate(count / total if total else None, None, None, total, "entry", level, "share")


def _breakdowns(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield a section for every field that was asked for, or else for every one that says something, unless only the
    judges were asked for.

    A field with one value says nothing, and one that splits the entries just as another does says nothing new.
    """
    for field in a.asked or (() if a.judges else a.breakdowns):
        groups = a.breakdowns[field]
        real = sum(group.value is not None for group in groups)
        if field in a.asked or (real > 1 and a.slices[field].same_as is None):
            yield _breakdown(a, field, groups, figures)
    if figures and a.crossing is not None:
        yield _crossing(a.crossing, WORDS[a.aim].rate)


def titles_of(a: Analysis, field: str) -> list[str]:
    """Return what a breakdown by a field is called, and by those that split the entries alike.

    A field without a title of ours is named by its file, and its text stays apart from ours.
    """
    alike = [] if field in a.asked else [other for other, found in a.slices.items() if found.same_as == field]
    return [FIELD_TITLES[name] for name in (field, *alike) if name in FIELD_TITLES] if field in FIELD_TITLES else []


def _breakdown(a: Analysis, field: str, groups: tuple[Group, ...], figures: bool) -> Section:
    titles = titles_of(a, field)
    named = [group for group in groups if group.value is not None] or list(groups)
    blocks: list[Block] = [_group_grid(a, "Value", named, a.slices[field], groups)]
    if figures and len(named) > 1:
        blocks.insert(0, _group_bars(a, " and ".join(titles) or "value", named))
    if not titles:
        return Section("Breakdown by", tuple(blocks), subject=Record(field))
    return Section(f"Breakdown by {' and '.join(titles)}", tuple(blocks))


def _without(groups: Sequence[Group], named: Sequence[Group]) -> str:
    """Say what became of the entries without a value; they are no group like the others."""
    rest = [group for group in groups if group.value is None and group not in named]
    if not rest:
        return ""
    entries = counted(rest[0].tally.total, "entry", "entries")
    return f"Not in the table: {entries} without a value, {formats.estimate(rest[0].rate)}."


def _group_grid(a: Analysis, head: str, groups: Sequence[Group], slices: Slices, tested: Sequence[Group] = ()) -> Grid:
    """Return groups as a table; `tested` are all that were tested together, those without a value among them."""
    words = WORDS[a.aim]
    undecided, blocks, dynamic = a.tally.error + a.tally.unjudged > 0, a.tally.guardrail > 0, a.dynamic is not None
    marked = any(map(stands_out, groups))
    in_families = marked and any(group.against_rest.families for group in groups if group.against_rest)
    corrected, shrunk = any(group.corrected for group in groups), any(group.shrunk for group in groups)
    notes = [*_notes(a, slices, tested, marked, len(groups) - ROWS_SHOWN), _without(tested, groups)]
    if a.correction is not None and corrected:
        notes.append(correction_report.note(a.correction, [group.corrected for group in groups]))

    rate_note = ""
    if groups:
        rate_note = f"{words.rate_column}: share of entries, {formats.exact_percent(groups[0].rate.level)} Wilson."

    def share_of(count: int, group: Group) -> Estimate:
        return share(count, group.tally.total, a.level)

    def blocked(group: Group) -> int:
        return group.guardrail_any if DEFINITIONS[a.definition].any_block_counts else group.tally.guardrail

    return table(
        groups[:ROWS_SHOWN],
        text_column(head, lambda g: Records(tuple(g.values.values())) if g.values else Record(g.value)),
        number_column("Total", lambda g: g.tally.total),
        number_column(words.wins, lambda g: g.tally.success),
        number_column(words.rate_column, lambda g: g.rate, note=rate_note),
        number_column("Corrected", lambda g: correction_report.cell(g.corrected), when=corrected),
        number_column(
            "Not judged",
            lambda g: g.tally.total - g.tally.judged,
            rank=1,
            note="Not judged: errors, blocks and unjudged entries.",
            when=undecided and blocks,
        ),
        number_column(
            "Errors",
            lambda g: g.tally.total - g.tally.judged - g.tally.guardrail,
            rank=5 if blocks else 1,
            note="Errors: unjudged entries among them." if a.tally.unjudged else "",
            when=undecided,
        ),
        number_column(
            "Against the rest", _against_rest, rank=1, note=f"Against the rest: {_test(a, tested)}.", when=marked
        ),
        number_column("Families", _in_families, rank=2, note=_IN_FAMILIES, when=in_families),
        number_column(
            "Shrunk",
            lambda g: "" if g.shrunk is None else formats.rate(g.shrunk),
            rank=2,
            note=_SHRUNK.get(slices.shrinkage, ""),
            when=shrunk,
        ),
        number_column("Initial", lambda g: g.initial, rank=6, when=dynamic),
        number_column(
            "Initial ASR",
            lambda g: share_of(g.initial, g),
            rank=4,
            note="Initial ASR: rate without dynamic attacks.",
            when=dynamic,
        ),
        number_column("Attack only", lambda g: g.attack_only, rank=7, when=dynamic),
        number_column("Guardrail", blocked, rank=5 if undecided else 1, when=blocks),
        number_column(
            "GTR", lambda g: share_of(blocked(g), g), rank=3, note="GTR: guardrail trigger rate.", when=blocks
        ),
        number_column("Attempts", lambda g: g.attempts, rank=8),
        marked=lambda g: g.small,
        note=" ".join(filter(None, notes)),
    )


_IN_FAMILIES = "Families: how many of those that it shares with the rest show the same direction."
_SHRUNK = {
    "shrunk": "Shrunk: empirical Bayes, beta-binomial.",
    "pooled": "Shrunk: the groups differ no more than chance explains, so all get the pooled rate.",
}


def _test(a: Analysis, groups: Sequence[Group]) -> str:
    inside = any(group.against_rest.families for group in groups if group.against_rest)
    families = counted(a.families.count or 0, "family", "families")
    test = f"Mantel-Haenszel test inside these {families}" if inside else "Fisher's exact test"
    tested = sum(group.against_rest is not None for found in a.breakdowns.values() for group in found)
    return f"{test}, judged entries, Benjamini-Hochberg for all {tested:,} groups of this report"


def _against_rest(group: Group) -> str:
    """Return by how much a group differs from the rest, if that is beyond chance."""
    test = group.against_rest
    if not stands_out(group) or test is None or test.difference is None:
        return ""
    return f"{formats.signed_points(test.difference)} points"


def _in_families(group: Group) -> str:
    """Return in how many families a group that stands out is on the same side of the rest."""
    test, side = group.against_rest, stands_out(group)
    if not side or test is None:
        return ""
    return f"{test.above if side > 0 else test.below:,} of {test.families:,}"


def _notes(a: Analysis, slices: Slices, groups: Sequence[Group], marked: bool, hidden: int) -> Iterator[str]:
    """Say how the groups were read together, and what is not shown of them."""
    if slices.untested and len(groups) > 1:
        yield slices.untested
    elif len(groups) > 1 and not marked and any(group.against_rest for group in groups):
        yield f"None differs from the rest by more than chance ({_test(a, groups)})."
    if hidden > 0:
        yield f"{hidden:,} more groups in the JSON output."
    if slices.left_out:
        yield f"Not listed: {counted(slices.left_out, 'smaller group')}."


def _combinations(a: Analysis, found: Combinations) -> Iterator[Section]:
    """Yield the sections of the most and the least successful combinations."""
    if found.count <= 1:
        if found.min_n > 1 and found.count == 0:
            yield Section("Combinations", (Paragraph(f"No combination has at least {found.min_n} entries (--min-n)."),))
        return
    if len(found.fields) < 2:
        return
    head = " · ".join(FIELD_TITLES.get(field, field) for field in found.fields)
    floor = f" with at least {found.min_n} entries" if found.min_n > 1 else ""
    for title, groups in (("Most successful", found.most), ("Least successful", found.least)):
        grid = _group_grid(a, head.capitalize(), groups, Slices(found.shrinkage))
        shown = f"{title} combinations ({len(groups)} of {found.count:,}{floor})"
        yield Section(shown, (grid,))


def _group_bars(a: Analysis, title: str, groups: Sequence[Group]) -> Bars:
    """Return the rates of groups as a figure, with their shrunken rates; groups that stand out are always in it."""
    chosen = sorted(range(len(groups)), key=lambda at: (not stands_out(groups[at]), at))[:BARS_SHOWN]
    shown = [groups[at] for at in sorted(chosen)]
    bars = tuple(Bar(Record(group.value), group.rate, group.small, group.shrunk) for group in shown)
    return Bars(of_how_many(f"{WORDS[a.aim].rate} by {title}", len(groups), "groups"), bars, a.rates.asr)


def of_how_many(title: str, count: int, things: str) -> str:
    """Return a figure's title, which says so if not all things are drawn."""
    return title if count <= BARS_SHOWN else f"{title} ({BARS_SHOWN} of {count:,} {things})"


def _crossing(crossing: Crossing, rate: str) -> Section:
    row_title, column_title = (FIELD_TITLES.get(name, name) for name in (crossing.row_field, crossing.column_field))
    title = f"{rate} by {row_title} and {column_title}"
    rows, columns = (tuple(map(Record, values)) for values in (crossing.rows, crossing.columns))
    heat_map = HeatMap(title, row_title, column_title, rows, columns, crossing.cells)
    return Section(f"{row_title} and {column_title} together".capitalize(), (heat_map,))


# -- blocks, errors and times ----------------------------------------------------------------------------------


def _category_grid(a: Analysis) -> Grid:
    return table(
        a.guardrail_categories[:ROWS_SHOWN],
        text_column("Category", lambda c: Record(c.category)),
        number_column("Entries", lambda c: c.entries),
        number_column("Rate", lambda c: c.rate),
        note=_hidden(len(a.guardrail_categories) - ROWS_SHOWN, "categories", a.categories_left_out),
    )


def _hidden(in_json: int, things: str, left_out: int = 0) -> str:
    """Say how many rows are not shown, and how many not even JSON has."""
    more = f"{in_json:,} more {things} in the JSON output." if in_json > 0 else ""
    return f"{more} Not listed: {left_out:,} of the rarest.".strip() if left_out else more


def _error_grid(a: Analysis) -> Grid:
    return table(
        a.errors[:ERROR_KINDS_SHOWN],
        text_column("Kind", lambda e: Record(e.kind, whole=True)),
        number_column("Rows", lambda e: e.rows),
        number_column("Entries", lambda e: e.entries),
        text_column("First at", lambda e: Place(short_place(e.where, a)), rank=2),
        note=_hidden(len(a.errors) - ERROR_KINDS_SHOWN, "kinds", a.errors_left_out),
    )


def _latency_grid(a: Analysis) -> Grid:
    return table(
        a.latency,
        text_column("Strategy", lambda t: Record(t.strategy)),
        number_column("Rows", lambda t: t.n),
        number_column("Median", lambda t: Seconds(t.median)),
        number_column("95th percentile", lambda t: Seconds(t.p95)),
        note="" if a.dynamic is None else "A dynamic attack's time is that of all its requests.",
    )


# -- several requests for one entry ----------------------------------------------------------------------------


def _attempts(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield the sections about requests to the first success and about repeated attempts, where there are any."""
    within = a.success_within
    if within is not None and not within.refused:
        yield Section("Success within k requests", _success_within(a, within, figures))
    elif len(a.attempts_to_success) > 1:
        reason = (Paragraph(within.refused),) if within is not None and within.refused else ()
        yield Section("Attempts to the first success", (_attempts_grid(a), *reason))
    if a.retries is not None:
        yield Section("Repeated attempts", _retries(a.retries, figures))


def _attempts_grid(a: Analysis) -> Grid:
    so_far = accumulate(step.entries for step in a.attempts_to_success)
    return table(
        list(zip(a.attempts_to_success, so_far, strict=True))[:ROWS_SHOWN],
        number_column("Requests", lambda row: row[0].attempts),
        number_column("Entries", lambda row: row[0].entries),
        number_column("Successful so far", lambda row: row[1]),
        note=_hidden(len(a.attempts_to_success) - ROWS_SHOWN, "steps"),
    )


def _success_within(a: Analysis, found: WithinAttempts, figures: bool) -> tuple[Block, ...]:
    steps = table(
        found.steps[:ROWS_SHOWN],
        number_column("Requests", lambda step: step.attempts),
        number_column("Tried", lambda step: step.at_risk),
        number_column("Successes", lambda step: step.successes),
        number_column("Given up", lambda step: step.given_up, rank=1),
        number_column("Success within", lambda step: step.within),
        note=_hidden(len(found.steps) - ROWS_SHOWN, "steps"),
    )
    blocks: list[Block] = [steps, Paragraph(_budget(found))]
    if figures:
        bars = tuple(Bar(f"within {step.attempts:,}", step.within) for step in found.steps[:BARS_SHOWN])
        blocks.insert(0, Bars(of_how_many("Success within k requests", len(found.steps), "steps"), bars, a.rates.asr))
    return tuple(blocks)


def _budget(found: WithinAttempts) -> str:
    """Say in words what a number of requests buys, and how entries that were given up are counted."""
    half, last = found.half, found.steps[-1]
    if half.value is None:
        reached = (
            f"Fewer than half of the entries succeeded within {counted(last.attempts, 'request')}, the most "
            "that any had."
        )
    else:
        limits = f"{_whole(half.low)} to {_whole(half.high)}"
        reached = f"Half of the entries succeed within {counted(int(half.value), 'request')} ({limits})."
    left = found.left_out
    without = f" {counted(left, 'entry', 'entries')} without any answer {'is' if left == 1 else 'are'} left out."
    how = (
        " Kaplan-Meier: an entry that was given up counts up to its last answered request. This holds only if errors "
        "have nothing to do with how easily an entry gives way."
    )
    return reached + how + (without if left else "")


def _whole(limit: float | None) -> str:
    return "more than were made" if limit is None else f"{limit:,.0f}"


def _retries(found: Retries, figures: bool) -> tuple[Block, ...]:
    if found.mean is None or found.flake_rate is None:
        return (Paragraph(found.refused or ""),)
    over = f"of {counted(found.entries, 'entry', 'entries')} with {found.attempts:,} judged attempts"
    how = f"({formats.exact_percent(found.mean.level)} Wilson on the effective size)"
    repeated = counted(found.flake_rate.n, "entry", "entries")
    error, naive = (formats.points(size, 2) for size in (found.standard_error, found.naive_standard_error))
    facts = [
        Fact("Mean over entries", None, found.mean, f"{over} {how}"),
        Fact(
            "standard error",
            error,
            note=f"{naive} if attempts were independent, which those of one entry are not",
            depth=1,
        ),
        Fact(
            "Correlation within entries",
            formats.fixed(found.icc, 2),
            note="ICC(1): share of the variance between entries",
        ),
        Fact("Flaky entries", None, found.flake_rate, f"mixed results, of {repeated} tried twice or more"),
    ]
    if found.left_out:
        facts.append(Fact("Left out", found.left_out, note="entries without a judged attempt of their own"))
    blocks: list[Block] = [Facts(tuple(facts)), *map(Paragraph, _advice(found))]
    if figures:
        bars = (Bar("mean over entries", found.mean), Bar("flaky entries", found.flake_rate))
        blocks.insert(0, Bars("Repeated attempts", bars))
    return tuple(blocks)


def _advice(found: Retries) -> Iterator[str]:
    """Say where the next calls buy most."""
    entries, again = found.with_entries, found.with_retries
    if entries is None or again is None:
        return
    better = "new entries help more" if entries < again else "both help equally"
    now, then, with_more = (formats.points(size, 2) for size in (found.standard_error, entries, again))
    yield (
        f"Another {found.next_calls} calls would bring the standard error from {now} to {then} on new entries, or to "
        f"{with_more} on more attempts of these: {better}."
    )


# -- metrics and judges ----------------------------------------------------------------------------------------


_MOST_PAIRS = 15
"""Of more pairs of judges those are shown that agree least."""
_KAPPA = (
    "Verdicts that both judges gave on the same answer. Kappa is agreement beyond chance: 1 is complete, 0 is what two "
    "judges with these habits would reach by chance; AC1 does not collapse where nearly all verdicts are the same."
)


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


def judges_section(analysis: Analysis) -> Section:
    """Return the judges of an analysis with their rates, and how they agree."""
    words = WORDS[analysis.aim]
    rates = table(
        analysis.judges,
        text_column("Judge", lambda one: Record(one.judge)),
        number_column(words.wins, lambda one: one.tally.success),
        number_column("Failed" if analysis.aim == "task" else "Failures", lambda one: one.tally.failure),
        number_column("Unjudged", lambda one: one.tally.unjudged),
        number_column("Of all", lambda one: one.rate, rank=1),
        number_column("Of judged", lambda one: one.rate_judged),
        note=f"{words.rate} if each judge alone decided.",
    )
    compared, left = list(analysis.judge_agreement), ""
    if len(compared) > _MOST_PAIRS:
        compared.sort(key=lambda pair: 1.0 if pair.agreement.value is None else pair.agreement.value)
        left = f" {len(compared) - _MOST_PAIRS:,} more pairs agree as often or more often."
        del compared[_MOST_PAIRS:]
    pairs = table(
        compared,
        text_column("Two judges", lambda pair: Records(pair.judges)),
        number_column("Verdicts", lambda pair: pair.verdicts),
        number_column("They agree", lambda pair: pair.agreement),
        number_column("Kappa", lambda pair: formats.coefficient(pair.kappa)),
        number_column("AC1", lambda pair: formats.fixed(pair.ac1)),
        note=f"{_KAPPA}{left}",
    )
    return Section("Judges", (rates, pairs) if pairs.rows else (rates,))
