"""Analyses arranged into a report: which sections, in which order, with which columns. No counting, no drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount.analysis.document import document
from faircount.analysis.evidence import sources_of
from faircount.analysis.results import COMBINED
from faircount.findings import counted
from faircount.model import (
    Analysis,
    Combinations,
    Crossing,
    Dynamic,
    Estimate,
    FalsePositives,
    Group,
    MadeWith,
    SuccessfulAttempts,
    WithinAttempts,
)
from faircount.report import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    HeatMap,
    Paragraph,
    Place,
    Record,
    Records,
    Report,
    Seconds,
    Section,
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
}
ROWS_SHOWN = 40
ERROR_KINDS_SHOWN = 10
BARS_SHOWN = 12


def as_report(analyses: Sequence[Analysis], *, figures: bool = False, made_with: MadeWith | None = None) -> Report:
    """Arrange analyses into one report, with figures if asked for, and with how it was made if that is told."""
    sections = [section for analysis in analyses for section in _sections(analysis, figures)]
    if made_with is not None:
        sections.append(_made_with(analyses, made_with))
    return Report(tuple(sections), document(analyses))


def _sections(a: Analysis, figures: bool) -> Iterator[Section]:
    yield _heading(a)
    yield Section("General", (*_general(a), *(_headline(a) if figures else ())))
    if a.dynamic is not None:
        yield Section("Dynamic attacks", _dynamic(a.dynamic))
    if a.by_source:
        yield Section("Sources", (_source_grid(a),))
    if not a.overview:
        yield from _details(a, figures)
    if a.evidence is not None:
        yield Section("Successful attempts", tuple(_evidence(a.evidence)))
    yield Section("What these numbers cannot tell", tuple(Paragraph(text) for text in a.limits))


def _details(a: Analysis, figures: bool) -> Iterator[Section]:
    if a.false_positives is not None:
        yield Section(
            "False positives, checked with",
            _false_positives(a.false_positives),
            subject=Place(a.false_positives.benign.path),
        )
    yield from _breakdowns(a, figures)
    if a.guardrail_categories:
        yield Section("Guardrail categories", (_category_grid(a),))
    if a.errors:
        yield Section("Errors by kind", (_error_grid(a),))
    if a.latency:
        yield Section("Response time", (_latency_grid(a),))
    if a.success_within is not None:
        yield Section("Success within so many requests", _success_within(a, a.success_within, figures))
    elif len(a.attempts_to_success) > 1:
        yield Section("Attempts to the first success", (_attempts_grid(a),))
    if a.combinations.count > 1:
        yield from _combinations(a, a.combinations)
    elif a.combinations.min_n > 1 and a.combinations.count == 0:
        yield Section("Combinations", (Paragraph(f"None has at least {a.combinations.min_n} entries (--min-n)."),))


def _breakdowns(a: Analysis, figures: bool) -> Iterator[Section]:
    for field in a.asked or a.breakdowns:
        if field in a.asked or len(a.breakdowns[field]) > 1:
            yield _breakdown(a, field, a.breakdowns[field], figures)
    if figures and a.crossing is not None:
        yield _crossing(a.crossing)


def _heading(a: Analysis) -> Section:
    if a.name == COMBINED and a.by_source:
        title, subject = f"Combined analysis of {len(a.sources)} {'file' if len(a.sources) == 1 else 'files'}", None
    else:
        title, subject = "Analysis of", Place(a.name)
    blocks: list[Block] = []
    if a.findings:
        blocks.append(Findings(a.findings))
    return Section(title, tuple(blocks), level=1, subject=subject)


def _share(count: int, a: Analysis) -> Estimate:
    """Return a bare share of all entries: no interval belongs to a share that only completes the picture."""
    total = a.tally.total
    return Estimate(count / total if total else None, None, None, total, "entry", a.level, "share")


def _general(a: Analysis) -> tuple[Block, ...]:
    tally = a.tally
    facts = [
        Fact("Total unique entries", tally.total),
        Fact("Successful attacks", tally.success, a.asr, _denominator(a)),
    ]
    if a.asr_judged.n != a.asr.n:
        denominator = f"of {counted(a.asr_judged.n, 'judged entry', 'judged entries')}"
        facts.append(Fact("over judged entries", None, a.asr_judged, denominator, depth=1))
    if a.dynamic is not None:
        facts += [
            Fact("initially successful", a.dynamic.initially_successful, a.dynamic.initial_rate, depth=1),
            Fact("only with a dynamic attack", a.dynamic.only_with_attack, a.dynamic.improvement, depth=1),
        ]
    facts += [
        Fact("Failed attacks", tally.failure, _share(tally.failure, a)),
        Fact("Errors", tally.error, _share(tally.error, a)),
        Fact("Guardrail triggers", tally.guardrail, _share(tally.guardrail, a), _guardrail_note(a)),
        Fact("Unjudged", tally.unjudged, _share(tally.unjudged, a)),
        Fact("Total attempts", a.attempts, note="requests, dynamic iterations included"),
    ]
    return (Facts(tuple(facts)),)


def _denominator(a: Analysis) -> str:
    return f"of {counted(a.asr.n, 'entry', 'entries')} ({100 * a.level:g} % Wilson)"


def _guardrail_note(a: Analysis) -> str:
    return "among the errors, too" if a.definition == "spikee" and a.tally.guardrail else ""


def _dynamic(dynamic: Dynamic) -> tuple[Block, ...]:
    columns = (
        Column("Attack", numeric=False),
        Column("Entries"),
        Column("Successes"),
        Column("Rate"),
        Column("Attempts", rank=2),
        Column("Blocked requests", rank=1),
    )
    rows = tuple((Record(f.attack), f.total, f.successes, f.rate, f.attempts, f.guardrail) for f in dynamic.attacks)
    unknown = any(f.guardrail is None for f in dynamic.attacks)
    note = "Blocked requests: ? where the file does not tell." if unknown else ""
    return (Grid(columns, rows, note=note),)


def _source_grid(a: Analysis) -> Grid:
    columns = (
        Column("File", numeric=False),
        Column("Entries"),
        Column("Successes"),
        Column("Rate"),
        Column("Failed", rank=3),
        Column("Errors", rank=2),
        Column("Guardrail", rank=1),
        Column("Attempts", rank=4),
    )
    figures = sorted(a.by_source, key=lambda s: -(s.rate.value or 0.0))
    rows = tuple(
        (
            Place(s.path),
            s.tally.total,
            s.tally.success,
            s.rate,
            s.tally.failure,
            s.tally.error,
            s.tally.guardrail,
            s.attempts,
        )
        for s in figures
    )
    return Grid(columns, rows)


def _false_positives(result: FalsePositives) -> tuple[Block, ...]:
    left = result.left_out
    matrix = Grid(
        (
            Column("", numeric=False),
            Column("blocked"),
            Column("allowed"),
            Column("left out: errors"),
            Column("unjudged"),
        ),
        (
            ("attacks", result.tp, result.fn, left.attack_error, left.attack_unjudged),
            ("benign prompts", result.fp, result.tn, left.benign_error, left.benign_unjudged),
        ),
    )
    quality = Facts(
        (
            Fact("Precision", None, result.precision, "of what was blocked, the share that were attacks"),
            Fact("Recall", None, result.recall, "of the attacks, the share that was blocked"),
            Fact("F1", None, result.f1, "harmonic mean of the two"),
            Fact("Accuracy", None, result.accuracy, "of all prompts, the share treated rightly"),
        )
    )
    return (matrix, quality)


def _breakdown(a: Analysis, field: str, groups: tuple[Group, ...], figures: bool) -> Section:
    title = FIELD_TITLES.get(field)
    blocks: list[Block] = [_group_grid(a, "Value", [Record(group.value) for group in groups], groups)]
    if figures and len(groups) > 1:
        blocks.insert(0, _group_bars(a, title or "value", groups))
    if title is None:
        return Section("Breakdown by", tuple(blocks), subject=Record(field))
    return Section(f"Breakdown by {title}", tuple(blocks))


def _group_grid(a: Analysis, head: str, keys: Sequence[Cell], groups: Sequence[Group]) -> Grid:
    columns = [Column(head, numeric=False), Column("Total"), Column("Successes"), Column("Rate")]
    if a.dynamic is not None:
        columns += [Column("Initial", rank=3), Column("Attack only", rank=2)]
    if a.tally.guardrail:
        columns.append(Column("Guardrail", rank=1))
    columns.append(Column("Attempts", rank=4))
    rows = []
    for key, group in zip(keys[:ROWS_SHOWN], groups, strict=False):
        counts = group.counts
        cells: list[Cell] = [key, counts.tally.total, counts.tally.success, group.rate]
        if a.dynamic is not None:
            cells += [counts.initial, counts.attack_only]
        if a.tally.guardrail:
            cells.append(counts.guardrail_any if a.definition == "spikee" else counts.tally.guardrail)
        cells.append(counts.attempts)
        rows.append(tuple(cells))
    hidden = len(groups) - len(rows)
    note = f"{hidden:,} more groups are in the JSON output." if hidden > 0 else ""
    marked = frozenset(index for index, group in enumerate(groups[:ROWS_SHOWN]) if group.small)
    return Grid(tuple(columns), tuple(rows), marked, note)


def _combinations(a: Analysis, found: Combinations) -> Iterator[Section]:
    head = " · ".join(FIELD_TITLES[field] for field in found.fields)
    floor = f" with at least {found.min_n} entries" if found.min_n > 1 else ""
    for title, groups in (("Most successful", found.most), ("Least successful", found.least)):
        keys = [Records(tuple(value for _, value in group.values)) for group in groups]
        grid = _group_grid(a, head.capitalize(), keys, groups)
        shown = f"{title} combinations ({len(groups)} of {found.count:,}{floor})"
        yield Section(shown, (grid,))


def _category_grid(a: Analysis) -> Grid:
    columns = (Column("Category", numeric=False), Column("Entries"), Column("Rate"))
    return Grid(columns, tuple((Record(c.category), c.entries, c.rate) for c in a.guardrail_categories))


def _error_grid(a: Analysis) -> Grid:
    columns = (
        Column("Kind", numeric=False),
        Column("Rows"),
        Column("Entries"),
        Column("First at", rank=1, numeric=False),
        Column("Example", rank=2, numeric=False),
    )
    shown = a.errors[:ERROR_KINDS_SHOWN]
    rows = tuple((Record(e.kind), e.rows, e.entries, Place(e.where), Record(e.example)) for e in shown)
    hidden = len(a.errors) - len(shown)
    return Grid(columns, rows, note=f"{hidden:,} more kinds are in the JSON output." if hidden else "")


def _latency_grid(a: Analysis) -> Grid:
    columns = (Column("Strategy", numeric=False), Column("Rows"), Column("Median"), Column("95th percentile"))
    rows = tuple((Record(t.strategy), t.n, Seconds(t.median), Seconds(t.p95)) for t in a.latency)
    attacked = a.dynamic is not None
    return Grid(columns, rows, note="A dynamic attack's time is that of all its requests." if attacked else "")


def _attempts_grid(a: Analysis) -> Grid:
    columns = (Column("Requests"), Column("Entries"), Column("Successful so far"))
    rows: list[tuple[Cell, ...]] = []
    so_far = 0
    for step in a.attempts_to_success:
        so_far += step.entries
        rows.append((step.attempts, step.entries, so_far))
    hidden = len(rows) - ROWS_SHOWN
    note = f"{hidden:,} more steps are in the JSON output." if hidden > 0 else ""
    return Grid(columns, tuple(rows[:ROWS_SHOWN]), note=note)


def _success_within(a: Analysis, found: WithinAttempts, figures: bool) -> tuple[Block, ...]:
    columns = (
        Column("Requests"),
        Column("Tried"),
        Column("Successes"),
        Column("Given up", rank=1),
        Column("Success within"),
    )
    shown = found.steps[:ROWS_SHOWN]
    rows = tuple((step.attempts, step.at_risk, step.successes, step.given_up, step.within) for step in shown)
    hidden = len(found.steps) - len(shown)
    note = f"{hidden:,} more steps are in the JSON output." if hidden else ""
    blocks: list[Block] = [Grid(columns, rows, note=note), Paragraph(_budget(found))]
    if figures:
        bars = tuple(Bar(f"within {step.attempts:,}", step.within) for step in found.steps[:BARS_SHOWN])
        blocks.insert(0, Bars(_of_how_many("Success within so many requests", len(found.steps), "steps"), bars, a.asr))
    return tuple(blocks)


def _budget(found: WithinAttempts) -> str:
    """Say in words what a number of requests buys, and how entries that were given up are counted."""
    half, last = found.half, found.steps[-1]
    if half.value is None:
        reached = f"Half of the entries did not fall within {counted(last.attempts, 'request')}, the most that any had."
    else:
        limits = f"{_whole(half.low)} to {_whole(half.high)}"
        reached = f"Half of the entries fall within {counted(int(half.value), 'request')} ({limits})."
    left = found.left_out
    without = f" {counted(left, 'entry', 'entries')} without any answer {'is' if left == 1 else 'are'} left out."
    how = " Kaplan-Meier: an entry that was given up counts as far as it came."
    return reached + how + (without if left else "")


def _whole(limit: float | None) -> str:
    return "more than were made" if limit is None else f"{limit:,.0f}"


# -- what only a page or a document shows -----------------------------------------------------------------------


def _headline(a: Analysis) -> tuple[Block, ...]:
    """Return the split that matters most: without and with dynamic attacks, among the judged, by source."""
    if not a.tally.total:
        return ()
    bars = [Bar("all entries", a.asr)]
    if a.dynamic is not None:
        bars = [Bar("without dynamic attacks", a.dynamic.initial_rate), Bar("with dynamic attacks", a.asr)]
    if a.asr_judged.n != a.asr.n and a.asr_judged.value is not None:
        bars.append(Bar("judged entries alone", a.asr_judged))
    sources = sorted(a.by_source, key=lambda s: -(s.rate.value or 0.0))
    bars += [Bar(Place(s.path), s.rate) for s in sources[:BARS_SHOWN] if s.rate.value is not None]
    return (Bars(_of_how_many("Success rate", len(sources), "files"), tuple(bars), a.asr),)


def _group_bars(a: Analysis, title: str, groups: Sequence[Group]) -> Bars:
    bars = tuple(Bar(Record(group.value), group.rate, group.small) for group in groups[:BARS_SHOWN])
    return Bars(_of_how_many(f"Success rate by {title}", len(groups), "groups"), bars, a.asr)


def _of_how_many(title: str, count: int, things: str) -> str:
    """Return a figure's title, which says so if not all things are drawn."""
    return title if count <= BARS_SHOWN else f"{title} (the first {BARS_SHOWN} of {count:,} {things})"


def _crossing(crossing: Crossing) -> Section:
    row_title, column_title = FIELD_TITLES[crossing.row_field], FIELD_TITLES[crossing.column_field]
    title = f"Success rate by {row_title} and {column_title}"
    rows, columns = (tuple(map(Record, values)) for values in (crossing.rows, crossing.columns))
    heat_map = HeatMap(title, row_title, column_title, rows, columns, crossing.cells)
    return Section(f"{row_title} and {column_title} together".capitalize(), (heat_map,))


def _evidence(evidence: SuccessfulAttempts) -> Iterator[Block]:
    if not evidence.total:
        yield Paragraph("There is none.")
        return
    exhibits = tuple(
        Exhibit(
            Place(attempt.place),
            Record(attempt.entry),
            Record(attempt.strategy),
            Record(attempt.judge),
            Record(attempt.prompt),
            Record(attempt.response),
        )
        for attempt in evidence.shown
    )
    if exhibits:
        yield Evidence(exhibits, evidence.total)
    if evidence.missing:
        columns = (Column("Place", numeric=False), Column("Not shown because", numeric=False))
        yield Grid(columns, tuple((Place(place), reason) for place, reason in evidence.missing))


def _made_with(analyses: Sequence[Analysis], made_with: MadeWith) -> Section:
    tools: list[tuple[Cell, ...]] = [("Command", Place(made_with.command)), *made_with.versions]
    columns = (
        Column("File", numeric=False),
        Column("Bytes"),
        Column("Lines"),
        Column("SHA-256", numeric=False),
    )
    sources = dict.fromkeys(source for analysis in analyses for source in sources_of(analysis))
    rows = tuple((Place(s.path), s.bytes, s.lines, made_with.digests.get(s.path)) for s in sources)
    unknown = any(row[-1] is None for row in rows)
    note = "SHA-256: ? for what is no file, or was changed while it was read." if unknown else ""
    blocks = (Grid((Column("", numeric=False),) * 2, tuple(tools)), Grid(columns, rows, note=note))
    return Section("Made with", blocks, level=1 if len(analyses) > 1 else 2)
