"""Analyses arranged into a report: which sections, in which order, with which columns. No counting, no drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount import formats
from faircount.analysis.arrange_attempts import attempts
from faircount.analysis.arrange_groups import BARS_SHOWN, breakdowns, combinations, of_how_many
from faircount.analysis.choices import AUTO
from faircount.analysis.correction import arranged
from faircount.analysis.document import document
from faircount.analysis.evidence import sources_of
from faircount.analysis.metrics import metrics_grid
from faircount.analysis.results import COMBINED
from faircount.analysis.words import WORDS
from faircount.findings import counted
from faircount.model import (
    Analysis,
    Dynamic,
    Estimate,
    FalsePositives,
    JudgeCorrection,
    MadeWith,
    SuccessfulAttempts,
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
    Paragraph,
    Place,
    Record,
    Report,
    Seconds,
    Section,
)

ERROR_KINDS_SHOWN = 10


def as_report(analyses: Sequence[Analysis], *, figures: bool = False, made_with: MadeWith | None = None) -> Report:
    """Arrange analyses into one report, with figures if asked for, and with how it was made if that is told."""
    sections = [section for analysis in analyses for section in _sections(analysis, figures)]
    if made_with is not None:
        sections.append(_made_with(analyses, made_with))
    return Report(tuple(sections), document(analyses))


def _sections(a: Analysis, figures: bool) -> Iterator[Section]:
    yield _heading(a)
    yield Section("General", (*_general(a), *(_headline(a) if figures else ())))
    if a.correction is not None:
        yield arranged.section(a, a.correction)
    if a.dynamic is not None:
        yield Section("Dynamic attacks", _dynamic(a.dynamic, a.correction))
    if a.metrics:
        yield Section("Metrics", (metrics_grid(a),))
    if a.by_source:
        yield Section("Sources", (_source_grid(a),))
    if not a.overview:
        yield from _details(a, figures)
    if a.evidence is not None:
        words = WORDS[a.aim]
        yield Section(words.won_attempts_title, tuple(_evidence(a.evidence, words.won_attempts)))
    yield Section("What these numbers cannot tell", tuple(Paragraph(text) for text in a.limits))


def _details(a: Analysis, figures: bool) -> Iterator[Section]:
    if a.false_positives is not None:
        yield Section(
            "False positives, checked with",
            _false_positives(a.false_positives),
            subject=Place(a.false_positives.benign.path),
        )
    yield from breakdowns(a, figures)
    if a.guardrail_categories:
        yield Section("Guardrail categories", (_category_grid(a),))
    if a.errors:
        yield Section("Errors by kind", (_error_grid(a),))
    if a.latency:
        yield Section("Response time", (_latency_grid(a),))
    yield from attempts(a, figures)
    if a.aim == "attack":
        yield from combinations(a, a.combinations)


def _heading(a: Analysis) -> Section:
    if a.name == COMBINED and a.by_source:
        title, subject = f"Combined analysis of {len(a.sources)} {'file' if len(a.sources) == 1 else 'files'}", None
    else:
        title, subject = "Analysis of", Place(a.name)
    blocks: list[Block] = []
    if a.findings:
        blocks.append(Findings(a.findings))
    if a.where is not None:
        blocks.append(Facts((Fact("Only rows with", Record(a.where)),)))
    return Section(title, tuple(blocks), level=1, subject=subject)


def _share(count: int, a: Analysis) -> Estimate:
    """Return a bare share of all entries: no interval belongs to a share that only completes the picture."""
    total = a.tally.total
    return Estimate(count / total if total else None, None, None, total, "entry", a.level, "share")


def _general(a: Analysis) -> tuple[Block, ...]:
    tally, words = a.tally, WORDS[a.aim]
    facts = [
        Fact("Total unique entries", tally.total),
        Fact(words.won, tally.success, a.asr, _denominator(a)),
    ]
    facts += _families(a)
    if a.asr_judged.n != a.asr.n:
        denominator = f"of {counted(a.asr_judged.n, 'judged entry', 'judged entries')}"
        facts.append(Fact("over judged entries", None, a.asr_judged, denominator, depth=1))
    if a.dynamic is not None:
        facts += [
            Fact("initially successful", a.dynamic.initially_successful, a.dynamic.initial_rate, depth=1),
            Fact("only with a dynamic attack", a.dynamic.only_with_attack, a.dynamic.improvement, depth=1),
        ]
    facts += [
        Fact(words.lost, tally.failure, _share(tally.failure, a)),
        Fact("Errors", tally.error, _share(tally.error, a)),
        *_guardrail(a),
        Fact("Unjudged", tally.unjudged, _share(tally.unjudged, a)),
        Fact("Total attempts", a.attempts, note=_attempts_note(a)),
    ]
    return (Facts(tuple(facts)),)


def _attempts_note(a: Analysis) -> str:
    words = WORDS[a.aim].requests
    if a.aim != "task" or a.retries is None or a.retries.attempts == a.attempts:
        return words
    return f"{words}; {a.attempts - a.retries.attempts:,} without a verdict"


def _denominator(a: Analysis) -> str:
    of = f"{WORDS[a.aim].of_rate}of {counted(a.asr.n, 'entry', 'entries')}"
    if a.asr.value is not None and a.asr.low is None:
        return of
    among = f", {counted(a.families.count or 0, 'family', 'families')}" if a.families.respected else ""
    return f"{of} ({formats.exact_percent(a.level)} Wilson{among})"


def _families(a: Analysis) -> list[Fact]:
    """Say what entries are worth that are variants of one another, and what the rate would look like if not."""
    found = a.families
    if not found.respected:
        return []
    worth = found.explanation
    if found.effective_n is not None:
        effect = "" if found.design_effect is None else f" (design effect {_short(found.design_effect)})"
        worth = f"{counted(a.tally.total, 'entry', 'entries')}, worth about {found.effective_n:,.0f}{effect}"
    plain = Fact("as if independent", None, a.asr_unclustered, depth=1)
    by = [] if found.asked == AUTO else [Fact("told apart by", Record(found.by), depth=1)]
    return [Fact("families of variants", found.count, note=worth, depth=1), *by, plain]


def _short(factor: float) -> str:
    return f"{factor:.1f}" if factor < 10 else f"{factor:,.0f}"


def _guardrail(a: Analysis) -> list[Fact]:
    """Say how many entries were blocked; a run of tests has no guardrail."""
    if a.aim == "task":
        return []
    note = "among the errors, too" if a.definition == "spikee" and a.tally.guardrail else ""
    return [Fact("Guardrail triggers", a.tally.guardrail, _share(a.tally.guardrail, a), note)]


def _dynamic(dynamic: Dynamic, correction: JudgeCorrection | None) -> tuple[Block, ...]:
    columns = [Column("Attack", numeric=False), Column("Entries"), Column("Successes"), Column("Rate")]
    columns += [] if correction is None else [Column("Corrected")]
    columns += [Column("Attempts", rank=2), Column("Blocked requests", rank=1)]
    rows = []
    for figures in dynamic.attacks:
        cells: list[Cell] = [Record(figures.attack), figures.total, figures.successes, figures.rate]
        cells += [] if correction is None else [arranged.cell(figures.corrected)]
        rows.append((*cells, figures.attempts, figures.guardrail))
    unknown = any(figures.guardrail is None for figures in dynamic.attacks)
    notes = ["Blocked requests: ? where the file does not tell."] if unknown else []
    notes += [] if correction is None else [arranged.note(correction, [f.corrected for f in dynamic.attacks])]
    return (Grid(tuple(columns), tuple(rows), note=" ".join(notes)),)


def _source_grid(a: Analysis) -> Grid:
    columns = (
        Column("File", numeric=False),
        Column("Entries"),
        Column(WORDS[a.aim].wins),
        Column(WORDS[a.aim].rate_column),
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


# -- what only a page or a document shows -----------------------------------------------------------------------


def _headline(a: Analysis) -> tuple[Block, ...]:
    """Return the split that matters most: without and with dynamic attacks, among the judged, by source."""
    if not a.tally.total:
        return ()
    bars = [Bar("all entries", a.asr)]
    if a.dynamic is not None:
        bars = [Bar("without dynamic attacks", a.dynamic.initial_rate), Bar("with dynamic attacks", a.asr)]
    if a.families.respected:
        bars.append(Bar("as if entries were independent", a.asr_unclustered))
    if a.asr_judged.n != a.asr.n and a.asr_judged.value is not None:
        bars.append(Bar("judged entries alone", a.asr_judged))
    sources = sorted(a.by_source, key=lambda s: -(s.rate.value or 0.0))
    bars += [Bar(Place(s.path), s.rate) for s in sources[:BARS_SHOWN] if s.rate.value is not None]
    return (Bars(of_how_many(WORDS[a.aim].rate, len(sources), "files"), tuple(bars), a.asr),)


def _evidence(evidence: SuccessfulAttempts, name: str) -> Iterator[Block]:
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
        yield Evidence(exhibits, evidence.total, name)
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
