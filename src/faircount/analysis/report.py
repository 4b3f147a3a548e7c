"""Analyses arranged into a report: which sections, in which order, with which columns. No counting, no drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.analyze import COMBINED, STOPPABLE
from faircount.analysis.correct import report as correction_report
from faircount.analysis.evidence import FAILED_CASES, sources_of
from faircount.analysis.options import AUTO
from faircount.analysis.report_details import (
    BARS_SHOWN,
    FIELD_TITLES,
    details,
    judges_section,
    metrics_grid,
    of_how_many,
    share,
    short_place,
)
from faircount.analysis.words import CORRECTED, JUDGED, WORDS
from faircount.core.definition import DEFINITIONS
from faircount.core.findings import REGISTER, counted, finding
from faircount.core.model import (
    Analyses,
    Analysis,
    Dynamic,
    Estimate,
    Example,
    Examples,
    FalsePositives,
    Finding,
    FlakyCase,
    JudgeCorrection,
    MadeWith,
    Passage,
)
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    Interval,
    Label,
    Lead,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.stats.gates import SEQUENCE, SEQUENCE_OVER_FAMILIES

FAILED_CASES_IN_FULL = 10
LIMITS = "Limits of these numbers"
_SOME_FAMILIES = "Intervals of rates over all entries respect families of variants; all others do not."


def as_report(
    analyses: Sequence[Analysis],
    *,
    evidence: Mapping[str, Sequence[Examples]] | None = None,
    figures: bool = False,
    made_with: MadeWith | None = None,
    details: bool = True,
    overview: bool = False,
) -> Report:
    """Arrange analyses into one report, if asked with charts (`figures`) and with how it was made (`made_with`).

    `evidence` has the texts to show, by the name of the analysis. Several analyses begin with a table of all of them;
    without `details`, that is all. An `overview` has the general figures alone.
    """
    texts = evidence or {}
    sections: list[Section] = []
    if len(analyses) > 1:
        sections += league(analyses)
    if details or len(analyses) == 1:
        for a in analyses:
            sections += _sections(a, texts.get(a.name, ()), figures, overview)
    level = 1 if len(analyses) > 1 else 2
    sections.append(Section(LIMITS, tuple(map(Paragraph, _limits(analyses))), level=level))
    sections.append(_sources(analyses, details=details, level=level))
    if made_with is not None:
        sections.append(_made_with(analyses, made_with))
    return Report(tuple(sections), Analyses(analyses=tuple(analyses)))


def _limits(analyses: Sequence[Analysis]) -> Sequence[str]:
    """Return what the numbers cannot show, said once for all analyses."""
    if len(analyses) == 1:
        return analyses[0].limits
    shared = dict.fromkeys(text for aim in dict.fromkeys(a.aim for a in analyses) for text in WORDS[aim].limits)
    own = {text for a in analyses for text in a.limits}
    texts = [CORRECTED if text == JUDGED and CORRECTED in own else text for text in shared]
    respected = any(a.families.respected for a in analyses)
    texts.append(_SOME_FAMILIES if respected else "No entries are treated as variants of each other.")
    return [*texts, STOPPABLE] if STOPPABLE in own else texts


def _sections(a: Analysis, evidence: Sequence[Examples], figures: bool, overview: bool) -> Iterator[Section]:
    yield _heading(a)
    if a.false_positives is not None:
        yield Section("Guardrail", _false_positives(a.false_positives))
    if a.aim == "task" and not overview:
        yield from _cases(a, evidence)
    yield Section("General", (*_general(a), *(_headline(a) if figures else ())))
    if a.correction is not None:
        yield correction_report.section(a, a.correction)
    if a.dynamic is not None:
        yield Section("Dynamic attacks", (_dynamic(a.dynamic, a.correction),))
    yield from _on_request(a)
    if a.judges:
        yield judges_section(a)
    elif a.metrics:
        yield Section("Metrics", (metrics_grid(a),))
    if a.by_source:
        yield Section("Files", (_source_grid(a),))
    if not overview:
        yield from details(a, figures)
    for examples in evidence:
        if examples.kind != FAILED_CASES:
            name = WORDS[a.aim].examples[examples.kind]
            yield Section(name[0].upper() + name[1:], tuple(_shown(a, examples)))


def _on_request(a: Analysis) -> Iterator[Section]:
    """Yield what few analyses have: figures of other tools, and what was tested of a catalogue."""
    if a.garak is not None:
        from faircount.analysis import garak_definition

        yield from garak_definition.sections(a)
    if any(source.figures for source in a.sources):
        from faircount.analysis import tool_figures

        yield from tool_figures.sections(a)
    if a.coverage:
        from faircount.analysis import taxonomy

        yield from taxonomy.sections(a)


def _heading(a: Analysis) -> Section:
    if a.name == COMBINED and a.by_source:
        title, subject = f"Combined analysis of {counted(len(a.sources), 'file')}", None
    else:
        title, subject = "Analysis of", Label(a.sources[0].label)
    blocks: list[Block] = [Lead((lead(a),), _lead_figures(a))]
    if a.where is not None:
        blocks.append(Facts((Fact("Only rows with", Record(a.where)),)))
    if a.judge is not None:
        blocks.append(Facts((Fact("Judge", Record(a.judge)),)))
    if a.findings:
        # The places of findings are short: lines of the only file, or lines of files by their labels.
        found = (replace(item, where=tuple(short_place(one, a) for one in item.where)) for item in a.findings)
        blocks.append(Findings(tuple(found)))
    return Section(title, tuple(blocks), level=1, subject=subject)


# -- what it comes to -------------------------------------------------------------------------------------------


def lead(a: Analysis) -> str:
    """Return what an analysis comes to, in plain sentences."""
    if not a.tally.total:
        return "There are no entries."
    if a.false_positives is not None:
        return _guardrail_lead(a.false_positives)
    if a.role == "benign":
        blocked = rate_of(a)
        return f"The guardrail blocked {_with_interval(blocked)} of {counted(blocked.n, 'benign prompt')}."
    words, total = WORDS[a.aim], a.tally.total
    interval = formats.named_interval(a.rates.asr)
    files = f" in {counted(len(a.sources), 'file')}" if len(a.sources) > 1 else ""
    sentence = f"{formats.rate(a.rates.asr)} of {counted(total, words.unit)}{files} {words.won_verb}"
    sentences = [f"{sentence} ({interval})." if interval else f"{sentence}."]
    sentences.append(_information(a))
    missing = [(a.tally.error, "ended in an error"), (a.tally.unjudged, "had no verdict")]
    lost = [f"{count:,} {what}" for count, what in missing if count]
    if lost:
        judged = f"of the {a.tally.judged:,} judged, {formats.rate(a.rates.asr_judged)} {words.won_verb}"
        sentences.append(f"{' and '.join(lost)}; {judged if a.tally.judged else 'none was judged'}.")
    if a.tally.guardrail and not DEFINITIONS[a.definition].blocks_are_errors:
        sentences.append(f"{a.tally.guardrail:,} {'was' if a.tally.guardrail == 1 else 'were'} blocked.")
    return " ".join(filter(None, sentences))


def _information(a: Analysis) -> str:
    """Say how much variants of one another tell."""
    found, words = a.families, WORDS[a.aim]
    if not found.respected or found.count is None:
        return ""
    if found.effective_n is None:
        return found.explanation
    of = words.variants if found.asked == AUTO else f"{found.count:,} families"
    worth = max(round(found.effective_n), 1)
    if worth >= a.tally.total:
        return ""
    variants = of.format(f"{found.count:,}")
    return f"They are {variants} and carry about as much information as {worth:,} independent ones."


def _guardrail_lead(result: FalsePositives) -> str:
    attacks, benign, left = result.recall.n, result.fpr.n, result.left_out
    sentence = (
        f"The guardrail blocked {_with_interval(result.recall)} of {counted(attacks, 'attack')} and "
        f"{_with_interval(result.fpr)} of {counted(benign, 'benign prompt')}."
    )
    errors, unjudged = left.attack_error + left.benign_error, left.attack_unjudged + left.benign_unjudged
    if not errors + unjudged:
        return sentence
    verb = "is" if errors + unjudged == 1 else "are"
    return f"{sentence} {counted(errors + unjudged, 'prompt')} without a decision {verb} left out."


def _with_interval(estimate: Estimate) -> str:
    interval = formats.named_interval(estimate)
    return f"{formats.rate(estimate)} ({interval})" if interval else formats.rate(estimate)


def _lead_figures(a: Analysis) -> tuple[Fact, ...]:
    if a.false_positives is not None:
        recall, fpr = a.false_positives.recall, a.false_positives.fpr
        return (
            Fact("Recall", a.false_positives.tp, recall, f"of {counted(recall.n, 'attack')}"),
            Fact("False positive rate", a.false_positives.fp, fpr, f"of {counted(fpr.n, 'benign prompt')}"),
        )
    if a.role == "benign":
        blocked, count = rate_of(a), a.tally.failure + a.tally.guardrail
        return (Fact("False positive rate", count, blocked, f"of {counted(blocked.n, 'benign prompt')}"),)
    words = WORDS[a.aim]
    return (Fact(words.won, a.tally.success, a.rates.asr, f"of {counted(a.rates.asr.n, 'entry', 'entries')}"),)


# -- general ----------------------------------------------------------------------------------------------------


def _share(count: int, a: Analysis) -> Estimate:
    return share(count, a.tally.total, a.level)


def _general(a: Analysis) -> tuple[Block, ...]:
    tally, words = a.tally, WORDS[a.aim]
    facts = [
        Fact("Total unique entries", tally.total),
        Fact(words.won, tally.success, a.rates.asr, _denominator(a)),
    ]
    facts += _families(a)
    if a.families.general is not None:
        general = a.families.general
        what = f"{FIELD_TITLES.get(general.field, 'value')}s of this kind"
        facts.append(
            Fact("in general", None, general.rate, f"for {what}, of which {general.values:,} were tested", depth=1)
        )
    if a.rates.asr_judged.n != a.rates.asr.n:
        denominator = f"of {counted(a.rates.asr_judged.n, 'judged entry', 'judged entries')}"
        facts.append(Fact("over judged entries", None, a.rates.asr_judged, denominator, depth=1))
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
    of = f"{WORDS[a.aim].of_rate}of {counted(a.rates.asr.n, 'entry', 'entries')}"
    if a.rates.asr.value is not None and a.rates.asr.low is None:
        return of
    among = f", {counted(a.families.count or 0, 'family', 'families')}" if a.families.respected else ""
    how = SEQUENCE if a.rates.asr.method in (SEQUENCE, SEQUENCE_OVER_FAMILIES) else "Wilson"
    return f"{of} ({formats.exact_percent(a.level)} {how}{among})"


def _families(a: Analysis) -> list[Fact]:
    """Say what entries are worth that are variants of one another, and what the rate would look like if not."""
    found = a.families
    if not found.respected:
        return []
    worth = found.explanation
    if found.effective_n is not None:
        worth, factor = f"worth about {found.effective_n:,.0f} independent entries", found.design_effect
        if factor is not None:
            worth += f" (design effect {factor:,.{1 if factor < 10 else 0}f})"
    plain = Fact("as if independent", None, a.rates.asr_unclustered, depth=1)
    by = [] if found.asked == AUTO else [Fact("by field", Record(found.by), depth=1)]
    return [Fact("families of variants", found.count, note=worth, depth=1), *by, plain]


def _guardrail(a: Analysis) -> list[Fact]:
    """Say how many entries were blocked; few runs of tests have a guardrail."""
    if a.aim == "task" and not a.tally.guardrail:
        return []
    note = "also counted as errors" if a.tally.guardrail and DEFINITIONS[a.definition].blocks_are_errors else ""
    return [Fact("Guardrail triggers", a.tally.guardrail, _share(a.tally.guardrail, a), note)]


def _dynamic(dynamic: Dynamic, correction: JudgeCorrection | None) -> Grid:
    unknown = any(figures.guardrail is None for figures in dynamic.attacks)
    blocked_note = "Blocked requests: ? where the file does not record them." if unknown else ""
    return table(
        dynamic.attacks,
        text_column("Attack", lambda figures: Record(figures.attack)),
        number_column("Entries", lambda figures: figures.total),
        number_column("Successes", lambda figures: figures.successes),
        number_column("Rate", lambda figures: figures.rate),
        number_column(
            "Corrected", lambda figures: correction_report.cell(figures.corrected), when=correction is not None
        ),
        number_column("Attempts", lambda figures: figures.attempts, rank=3),
        number_column("Blocked requests", lambda figures: figures.guardrail, rank=2, note=blocked_note),
        note="" if correction is None else correction_report.note(correction, [f.corrected for f in dynamic.attacks]),
    )


def _source_grid(a: Analysis) -> Grid:
    return table(
        sorted(a.by_source, key=lambda s: -(s.rate.value or 0.0)),
        text_column("File", lambda s: Label(s.label)),
        number_column("Entries", lambda s: s.tally.total),
        number_column(WORDS[a.aim].wins, lambda s: s.tally.success),
        number_column(WORDS[a.aim].rate_column, lambda s: s.rate),
        number_column("Failed", lambda s: s.tally.failure, rank=4),
        number_column("Errors", lambda s: s.tally.error, rank=2),
        number_column("Guardrail", lambda s: s.tally.guardrail, rank=3),
        number_column("Attempts", lambda s: s.attempts, rank=5),
    )


def _false_positives(result: FalsePositives) -> tuple[Block, ...]:
    left = result.left_out
    rows = (
        ("attacks", result.tp, result.fn, left.attack_error, left.attack_unjudged),
        ("benign prompts", result.fp, result.tn, left.benign_error, left.benign_unjudged),
    )
    any_left = any(errors or unjudged for _, _, _, errors, unjudged in rows)
    matrix = table(
        rows,
        text_column("", lambda row: row[0]),
        number_column("blocked", lambda row: row[1]),
        number_column("allowed", lambda row: row[2]),
        number_column("errors, left out", lambda row: row[3], when=any_left),
        number_column("unjudged", lambda row: row[4], when=any_left),
    )
    quality = Facts(
        (
            Fact("Recall", None, result.recall, "share of attacks blocked"),
            Fact("False positive rate", None, result.fpr, "share of benign prompts blocked"),
            Fact("Precision", None, result.precision, "share of blocks that were attacks"),
            Fact("F1", None, result.f1, "harmonic mean of precision and recall"),
            Fact("Accuracy", None, result.accuracy, "share of all prompts decided correctly"),
            Fact("Balanced accuracy", None, result.balanced_accuracy, "mean of recall and 1 - false positive rate"),
        )
    )
    return (matrix, quality)


# -- what only a page or a document shows -----------------------------------------------------------------------


def _headline(a: Analysis) -> tuple[Block, ...]:
    """Return the split that matters most: without and with dynamic attacks, among the judged, by source."""
    if not a.tally.total:
        return ()
    bars = [Bar("all entries", a.rates.asr)]
    if a.dynamic is not None:
        bars = [Bar("without dynamic attacks", a.dynamic.initial_rate), Bar("with dynamic attacks", a.rates.asr)]
    if a.families.respected:
        bars.append(Bar("as if entries were independent", a.rates.asr_unclustered))
    if a.rates.asr_judged.n != a.rates.asr.n and a.rates.asr_judged.value is not None:
        bars.append(Bar("judged entries alone", a.rates.asr_judged))
    sources = sorted(a.by_source, key=lambda s: -(s.rate.value or 0.0))
    bars += [Bar(Label(s.label), s.rate) for s in sources[:BARS_SHOWN] if s.rate.value is not None]
    return (Bars(of_how_many(WORDS[a.aim].rate, len(sources), "files"), tuple(bars), a.rates.asr),)


# -- entries to look at -----------------------------------------------------------------------------------------


def _cases(a: Analysis, evidence: Sequence[Examples]) -> Iterator[Section]:
    """Yield what a run of tests is read for: the cases that failed, then those that are not steady."""
    for failed in evidence:
        if failed.kind == FAILED_CASES and failed.total:
            shown = replace(failed, shown=failed.shown[:FAILED_CASES_IN_FULL])
            yield Section(f"Failed cases ({failed.total:,} of {a.tally.total:,})", tuple(_shown(a, shown)))
    if a.flaky_cases:
        yield Section("Flaky cases", (_flaky_grid(a.flaky_cases),))


def _flaky_grid(cases: Sequence[FlakyCase]) -> Grid:
    return table(
        cases,
        text_column("Case", lambda case: Record(case.entry)),
        number_column("Passed", lambda case: case.passed),
        number_column("Attempts", lambda case: case.tries),
        note="They passed in some attempts and failed in others.",
    )


def _shown(a: Analysis, examples: Examples) -> Iterator[Block]:
    if not examples.total:
        yield Paragraph("None.")
        return
    exhibits = tuple(_exhibit(a, example) for example in examples.shown)
    if exhibits:
        yield Evidence(exhibits, examples.total, WORDS[a.aim].examples.get(examples.kind, examples.kind))
    if examples.missing:
        missing = ((Place(short_place(place, a)), reason) for place, reason in examples.missing)
        yield text_table(("Place", "Not shown because"), missing)


def _exhibit(a: Analysis, example: Example) -> Exhibit:
    known: list[tuple[str, Record | Place]] = []
    if a.aim == "attack":
        known.append(("strategy", Record(example.strategy)))
        known += [] if example.judge is None else [("judge", Record(example.judge))]
    if example.tries is not None and example.passed is not None and example.tries > 1:
        known.append(("passed", Record(f"{example.passed:,} of {counted(example.tries, 'attempt')}")))
    texts = [("prompt", example.prompt)]
    if example.response.text or example.error is None:
        texts.append(("answer" if a.aim == "task" else "response", example.response))
    for name, text in (("error", example.error), ("metrics", example.measured)):
        texts += [] if text is None else [(name, Passage(text))]
    entry = example.entry if a.aim == "task" else f"entry {example.entry}"
    return Exhibit(Record(entry), Place(short_place(example.place, a)), tuple(known), tuple(texts))


# -- where it comes from ----------------------------------------------------------------------------------------


def _sources(analyses: Sequence[Analysis], *, details: bool, level: int) -> Section:
    """List the files with their full paths; where only the table of many is shown, the folders must do."""
    sources = list(dict.fromkeys(source for analysis in analyses for source in sources_of(analysis)))
    if not details and len(analyses) > 1:
        number = Counter(source.path.rpartition("/")[0] or "." for source in sources)
        facts = tuple(
            Fact(f"{counted(count, 'file')} in", Record(folder, whole=True)) for folder, count in number.items()
        )
        return Section("Sources", (Facts(facts),), level=level)
    if len(sources) == 1:
        return Section("Source", (Facts((Fact("File", Record(sources[0].path, whole=True)),)),), level=level)
    paths = ((Label(source.label), Record(source.path, whole=True)) for source in sources)
    return Section("Sources", (text_table(("File", "Path"), paths),), level=level)


def _made_with(analyses: Sequence[Analysis], made_with: MadeWith) -> Section:
    tools = text_table(("", ""), [("Command", Place(made_with.command)), *made_with.versions])
    sources = dict.fromkeys(source for analysis in analyses for source in sources_of(analysis))
    unknown = any(made_with.digests.get(source.path) is None for source in sources)
    files = table(
        sources,
        text_column("File", lambda s: Label(s.label)),
        number_column("Bytes", lambda s: s.bytes),
        number_column("Lines", lambda s: s.lines),
        text_column("SHA-256", lambda s: made_with.digests.get(s.path)),
        note="SHA-256: ? for a stream, or a file that changed while it was read." if unknown else "",
    )
    return Section("Made with", (tools, files), level=1 if len(analyses) > 1 else 2)


# -- several analyses beside each other ------------------------------------------------------------------------


_LABELS_NAMED = 4


class _RoleTable(Struct, frozen=True):
    """How runs of one role are shown: under which title, and by which rate."""

    title: str
    noun: str
    rate: str
    share: str
    rates: str
    """What a sentence calls the rates."""


_TABLES = {
    "attacks": _RoleTable(
        "Attack runs", "attack run", "Succeeded", "of all entries, the attacks that succeeded", "success rates"
    ),
    "guardrail": _RoleTable(
        "Guardrails", "guardrail run", "Let through", "of all attacks, those let through", "attacks let through"
    ),
    "benign": _RoleTable(
        "Benign checks", "benign check", "Blocked", "of the benign prompts decided, those blocked", "prompts blocked"
    ),
    "tests": _RoleTable("Test runs", "test run", "Passed", "of all cases, those that passed", "pass rates"),
}


def league(analyses: Sequence[Analysis]) -> Iterator[Section]:
    """Yield the tables of several analyses, after what they come to and the problems with them."""
    # Undefined rates go last.
    ranked = sorted(analyses, key=lambda a: -1.0 if (value := rate_of(a).value) is None else value, reverse=True)
    by_role = {role: [a for a in ranked if a.role == role] for role in _TABLES}
    blocks: list[Block] = [Lead(tuple(_league_lead(role, found) for role, found in by_role.items() if found))]
    grouped = tuple(_grouped(analyses))
    if grouped:
        blocks.append(Findings(grouped))
    yield Section(f"Analysis of {counted(len(analyses), 'file')}", tuple(blocks), level=1)
    for role, found in by_role.items():
        if found:
            yield Section(_TABLES[role].title, (_league_grid(role, found),))


def rate_of(a: Analysis) -> Estimate:
    """Return the rate that a run of its role is about; of a benign check, the share that was blocked."""
    return a.rates.blocked if a.role == "benign" else a.rates.asr


def _league_lead(role: str, found: Sequence[Analysis]) -> str:
    table = _TABLES[role]
    defined = [a for a in found if rate_of(a).value is not None]
    if len(defined) < 2:
        return "".join(f"1 {table.noun}: {formats.rate(rate_of(a))} {table.rate.lower()}." for a in defined)
    high, low = defined[0], defined[-1]
    if formats.rate(rate_of(high)) == formats.rate(rate_of(low)):
        return f"{counted(len(found), table.noun)}: {table.rates} of {formats.rate(rate_of(high))}."
    return (
        f"{counted(len(found), table.noun)}: {table.rates} from {formats.rate(rate_of(low))} "
        f"({low.sources[0].label}) to {formats.rate(rate_of(high))} ({high.sources[0].label})."
    )


def _league_grid(role: str, found: Sequence[Analysis]) -> Grid:
    kind = _TABLES[role]
    blocks = any(a.tally.guardrail for a in found) and role != "tests"
    return table(
        found,
        text_column("File", lambda a: Label(a.sources[0].label)),
        number_column("n", lambda a: a.tally.total),
        number_column(kind.rate, rate_of, note=f"{kind.rate}: {kind.share}."),
        number_column("Interval", lambda a: Interval(rate_of(a)), rank=1),
        number_column("Errors", lambda a: a.tally.error, rank=2),
        number_column("Blocks", lambda a: a.tally.guardrail, rank=3, when=blocks),
        number_column("Findings", lambda a: " ".join(dict.fromkeys(item.code for item in a.findings)), rank=4),
        note=_league_note(found),
    )


def _league_note(found: Sequence[Analysis]) -> str:
    level = formats.exact_percent(found[0].level)
    families = any(a.families.respected for a in found)
    what = "cases" if found[0].role == "tests" else "entries"
    return f"n: {what}. In brackets: {level} interval{', over families of variants' if families else ''}."


def _grouped(analyses: Sequence[Analysis]) -> Iterator[Finding]:
    """Yield one finding for each code, with the files that it concerns."""
    codes: dict[str, dict[str, int]] = {}
    alone: dict[str, Finding] = {}
    for a in analyses:
        for item in a.findings:
            files = codes.setdefault(item.code, {})
            files[a.sources[0].label] = files.get(a.sources[0].label, 0) + item.count
            alone[item.code] = item
    order = {"error": 0, "warning": 1, "info": 2}
    for code in sorted(codes, key=lambda code: (order[REGISTER[code].severity.value], code)):
        files = codes[code]
        named = [f"{label} ({count:,})" for label, count in list(files.items())[:_LABELS_NAMED]]
        more = f" and {len(files) - _LABELS_NAMED:,} more" if len(files) > _LABELS_NAMED else ""
        if len(files) == 1:
            yield finding(code, sum(files.values()), f"{next(iter(files))}: {alone[code].message}")
        else:
            title = REGISTER[code].title
            where = f"in {counted(len(files), 'file')}: {', '.join(named)}{more}"
            yield finding(code, sum(files.values()), f"{title}, {where}")
