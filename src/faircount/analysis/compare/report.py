"""A comparison arranged into a report: the claim first, then what it rests on, then where to look."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from faircount.analysis.compare import pairing
from faircount.analysis.compare.compare import MOST_WITH_EACH_OTHER
from faircount.analysis.compare.figures import POWER
from faircount.analysis.compare.model import (
    ComparedGroup,
    Comparison,
    CorrectedPair,
    Flip,
    FlipGroup,
    Flips,
    Pair,
)
from faircount.analysis.report_details import FIELD_TITLES
from faircount.analysis.words import WORDS
from faircount.core.findings import counted
from faircount.core.model import JudgeCorrection
from faircount.core.text import clip_apart
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Difference,
    Differences,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    Label,
    Lead,
    Paragraph,
    Place,
    Points,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.report.formats import p_value
from faircount.stats import wilson

GROUPS_SHOWN = 12
IDS_SHOWN = 10
_LABEL_IN_A_HEAD = 20
_HOLM = "p is adjusted by Holm's method."

REASONS = {
    pairing.MISSING: "not in the other file",
    pairing.OTHER_CONTENT: "the other file has the id with another prompt",
    pairing.REPEATED: "more than once in this file, indistinguishable",
    pairing.ERROR: "ended in an error here",
    pairing.UNJUDGED: "not judged here",
    pairing.OTHER_UNANSWERED: "answered here, without an answer in the other file",
}

_ENDINGS = {"attack": "s", "task": "es"}
_METHODS = {
    "rogan-gladen": "Rogan-Gladen, one judge for both sides",
    "two-phase": "two-phase, by the labels of each verdict and side",
    "ppi": "prediction-powered (PPI++), by the labels of each side",
}


def as_report(comparison: Comparison, *, figures: bool = False) -> Report:
    """Arrange a comparison; `figures` adds the differences and the flips as figures."""
    c = comparison
    sections = [*in_short(c, figures=figures)]
    for pair in c.pairs if _is_at_length(c) else ():
        sections += _sections(c, pair, figures=figures)
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, c.limits))))
    sources = ((Label(file.label), Record(file.path, whole=True)) for file in c.files)
    sections.append(Section("Sources", (text_table(("File", "Path"), sources),)))
    return Report(tuple(sections), c)


def in_short(comparison: Comparison, *, figures: bool = False) -> Iterator[Section]:
    """Yield what a comparison comes to: the claims, the files, and all of them together."""
    c = comparison
    blocks: list[Block] = [Lead(tuple(claims(c)))]
    if c.judge is not None:
        blocks.append(Facts((Fact("Judge", Record(c.judge)),)))
    if c.findings:
        placed = [replace(item, where=tuple(_place(place, c) for place in item.where)) for item in c.findings]
        blocks.append(Findings(tuple(placed)))
    yield Section("Comparison", tuple(blocks), level=1)
    if _is_at_length(c):
        yield Section("Files", (_files(c), *_copies(c)))
    else:
        yield Section("Against", (*_matrix(c, figures=figures), *_copies(c)), subject=Label(c.files[0].label))
    if c.overall is not None:
        yield Section("All files together", tuple(_overall(c)))


def _place(place: str, c: Comparison) -> str:
    """Return a place that names its file by the label."""
    for file in c.files:
        if place == file.path or place.startswith(f"{file.path}:"):
            return file.label + place.removeprefix(file.path)
    return place


def _is_at_length(c: Comparison) -> bool:
    """Return whether every pair is shown at length; of more files, how each differs from the baseline."""
    return len(c.files) <= MOST_WITH_EACH_OTHER


def claims(c: Comparison) -> Iterator[str]:
    """Yield what may be claimed, in words."""
    if _is_at_length(c):
        for pair in c.pairs:
            yield pair.claim
        return
    baseline = c.files[0].label
    for word in ("lower", "higher"):
        named = [pair.labels[1] for pair in c.pairs if pair.claimed == word]
        if named:
            yield f"{word.capitalize()} than {baseline}: {', '.join(named)}."
    unclear = sum(not pair.claimed for pair in c.pairs)
    if unclear:
        yield f"No difference from {baseline} can be claimed for {counted(unclear, 'file')} of {len(c.pairs):,}."


def _heads(pair: Pair) -> tuple[str, str]:
    """Return the labels short enough for the head of a column."""
    a, b = clip_apart(pair.labels, _LABEL_IN_A_HEAD)
    return a, b


# -- files ------------------------------------------------------------------------------------------------------


def _files(c: Comparison) -> Grid:
    words = WORDS[c.aim]
    return table(
        c.files,
        text_column("File", lambda file: Label(file.label)),
        number_column(words.rate_column, lambda file: file.rate),
        number_column("Corrected", lambda file: file.corrected or "none", when=_corrects(c)),
        number_column(words.wins, lambda file: file.tally.success),
        number_column("Answered", lambda file: file.answered),
        number_column("Errors", lambda file: file.tally.error, rank=2),
        number_column("Unjudged", lambda file: file.tally.unjudged, rank=3),
        note=f"{words.rate}s are over the entries that were answered; a block is an answer.",
    )


def _corrects(c: Comparison) -> bool:
    return any(file.correction is not None for file in c.files)


def _copies(c: Comparison) -> Iterator[Block]:
    if c.copies:
        copies = ((Place(copy), Place(original)) for copy, original in c.copies.items())
        yield text_table(("File", "is a copy of"), copies)


# -- three or more ----------------------------------------------------------------------------------------------


def _matrix(c: Comparison, *, figures: bool) -> Iterator[Block]:
    """Yield how every file differs from the baseline, the highest first."""
    pairs = sorted(c.pairs, key=lambda pair: -(pair.difference.value or 0.0))
    if figures:
        items = tuple(Difference(Label(pair.labels[1]), pair.difference, bool(pair.claimed)) for pair in pairs)
        baseline = c.files[0].label
        yield Differences(f"Difference from {baseline}", items, f"below {baseline}", f"above {baseline}")
    base = c.files[0]
    answered = counted(base.answered, "answered entry", "answered entries")
    note = f"{base.label}: {formats.estimate(base.rate)} of {answered}."
    unpaired = [pair.labels[1] for pair in pairs if not pair.shares_entries]
    if unpaired:
        note += f" Without a shared entry, so the rates are of different ones: {', '.join(unpaired)}."
    yield table(
        pairs,
        text_column("File", lambda pair: Label(pair.labels[1])),
        number_column(WORDS[c.aim].rate_column, lambda pair: c.sides(pair)[1].rate, rank=2),
        number_column("Difference, points", lambda pair: Points(pair.difference)),
        number_column("Corrected for the judge", _corrected_difference, when=_corrects(c)),
        text_column("", lambda pair: "beyond chance" if pair.claimed else "", rank=1),
        number_column("Adjusted p", lambda pair: p_value(pair.adjusted_p), rank=3, note=_HOLM),
        number_column("Paired", lambda pair: pair.paired, rank=4),
        number_column("Fixed", lambda pair: len(pair.fixed.ids), rank=5),
        number_column("Broken", lambda pair: len(pair.broken.ids), rank=5),
        note=note,
    )
    if c.asked and any(pair.by for pair in pairs):
        yield Paragraph("The JSON document has what --by asks for; compare two or three files to see it here.")


def _corrected_difference(pair: Pair) -> Cell:
    corrected = None if pair.corrected is None else pair.corrected.difference
    return "none" if corrected is None else Points(corrected)


def _overall(c: Comparison) -> Iterator[Block]:
    overall = c.overall
    if overall is None:
        return
    facts = [Fact("Entries that all answered", overall.entries)]
    if overall.cochran_q is None:
        facts.append(Fact("Cochran's Q", "undefined", note="every entry has the same outcome on all of them"))
    else:
        degrees = f"{overall.df} degrees of freedom, p {p_value(overall.p)}"
        facts.append(Fact("Cochran's Q", formats.fixed(overall.cochran_q, 2), note=degrees))
    yield Facts(tuple(facts))
    if not _is_at_length(c):
        return
    starred = (
        "" if all(pair.shares_entries for pair in c.pairs) else " * No shared entries: the rates are of different ones."
    )
    yield table(
        c.pairs,
        text_column("From", lambda pair: Label(pair.labels[0])),
        text_column("To", lambda pair: Label(pair.labels[1] + ("" if pair.shares_entries else " *"))),
        number_column("Difference, points", lambda pair: Points(pair.difference)),
        number_column("Adjusted p", lambda pair: p_value(pair.adjusted_p), rank=1, note=_HOLM),
        number_column("Paired", lambda pair: pair.paired, rank=2),
        number_column("Fixed", lambda pair: len(pair.fixed.ids), rank=3),
        number_column("Broken", lambda pair: len(pair.broken.ids), rank=3),
        note=f"Differences are the second minus the first.{starred}",
    )


# -- one pair ---------------------------------------------------------------------------------------------------


def _sections(c: Comparison, pair: Pair, *, figures: bool) -> Iterator[Section]:
    a, b = pair.labels
    several = f"{a} → {b}: " if len(c.files) > 2 else ""

    def titled(title: str) -> str:
        return several + (title if not several else title[0].lower() + title[1:])

    yield Section(titled("Difference"), tuple(_difference(c, pair, figures=figures)))
    if pair.corrected is not None:
        yield Section(titled("Corrected for the judge"), tuple(_corrected(c, pair, pair.corrected)))
    if pair.scores.metrics:
        yield Section(titled("Scores"), (_scores(pair),))
    for field, groups in pair.by.items():
        if c.asked or sum(group.value is not None for group in groups) > 1:
            blocks = tuple(_groups(c, pair, field, figures=figures))
            if field in FIELD_TITLES:
                yield Section(titled(f"By {FIELD_TITLES[field]}"), blocks)
            else:
                yield Section(titled("By"), blocks, subject=Record(field))
    # An attack should fail in B, and a test should pass.
    better, worse = (a, b) if c.aim == "attack" else (b, a)
    for name, flips, one, other in (("Fixed", pair.fixed, better, worse), ("Broken", pair.broken, worse, better)):
        if flips.ids:
            verb = ("succeed" if c.aim == "attack" else "pass") + _ENDINGS[c.aim] * (len(flips.ids) == 1)
            yield Section(titled(name), tuple(_flips(pair, name.lower(), flips, f"{verb} in {one} and not in {other}")))
    unpaired = [
        (label, reason, entries.count)
        for label, found in ((a, pair.unpaired.a), (b, pair.unpaired.b))
        for reason, entries in found.items()
        if entries.count
    ]
    if unpaired and pair.shares_entries:
        grid = table(
            unpaired,
            text_column("File", lambda row: Label(row[0])),
            text_column("Why", lambda row: REASONS[row[1]]),
            number_column("Entries", lambda row: row[2]),
            note="None of these is counted above, except in the figures of the files.",
        )
        yield Section(titled("What could not be paired"), (grid,))


def _difference(c: Comparison, pair: Pair, *, figures: bool) -> Iterator[Block]:
    a, b = pair.labels
    yield from map(Paragraph, pair.notes)
    rate, difference = WORDS[c.aim].rate, pair.difference
    method = f"{formats.exact_percent(difference.level)} interval: {formats.method(difference)}"
    facts = [
        Fact("Pairs of answered entries", pair.paired),
        Fact(f"{rate} of {a}", None, pair.rate_a, depth=1),
        Fact(f"{rate} of {b}", None, pair.rate_b, depth=1),
        Fact("Difference in points", Points(difference), note="" if difference.low is None else method),
        *_tests(c, pair),
    ]
    if pair.detectable is not None and not pair.claimed:
        often = f"{formats.exact_percent(POWER)} of the time"
        facts.append(Fact("Could have shown", formats.points(pair.detectable), note=often))
    yield Facts(tuple(facts if pair.shares_entries else facts[1:]))
    if pair.shares_entries:
        yield _table(c, pair)
        yield Paragraph(pair.families_told)
        if figures:
            shares = [
                Bar(name, wilson(len(flips.ids), pair.paired, unit="pair of entries", level=c.level))
                for name, flips in (("fixed", pair.fixed), ("broken", pair.broken))
            ]
            yield Bars(f"Entries that flipped from {a} to {b}", tuple(shares))


def _tests(c: Comparison, pair: Pair) -> Iterator[Fact]:
    adjusted = f"adjusted for {len(c.pairs)} pairs of files: {p_value(pair.adjusted_p)}" if len(c.pairs) > 1 else ""
    if not pair.shares_entries and pair.families is None:
        yield Fact("Fisher's exact test", f"p {p_value(pair.p)}", note=adjusted)
        return
    if pair.families is not None:
        families = counted(pair.families, "family", "families")
        yield Fact(
            "Test over families", f"p {p_value(pair.p)}", note=f"{families}; {adjusted}" if adjusted else families
        )
        return
    mid = f"mid-p {p_value(pair.mid_p)}"
    yield Fact("McNemar's exact test", f"p {p_value(pair.p)}", note=f"{mid}; {adjusted}" if adjusted else mid)


def _table(c: Comparison, pair: Pair) -> Grid:
    a, b = _heads(pair)
    won, lost = ("succeeded", "did not") if c.aim == "attack" else ("passed", "did not")
    return table(
        [(won, pair.both, pair.only_a), (lost, pair.only_b, pair.neither)],
        text_column("", lambda row: f"{a} {row[0]}"),
        number_column(f"{b} {won}", lambda row: row[1]),
        number_column(f"{b} {lost}", lambda row: row[2]),
    )


def _scores(pair: Pair) -> Grid:
    a, b = _heads(pair)
    among = "" if pair.families is None else ", in their families"
    note = "A case counts once, with the mean of its attempts; the error of the difference is that of the cases"
    return table(
        pair.scores.metrics,
        text_column("Metric", lambda score: Record(score.metric)),
        number_column("Cases", lambda score: score.difference.n),
        number_column(f"Mean of {a}", lambda score: formats.score(score.mean_a)),
        number_column(f"Mean of {b}", lambda score: formats.score(score.mean_b)),
        number_column("Difference", lambda score: formats.score(score.difference)),
        number_column("p", lambda score: p_value(score.p), rank=2),
        note=f"{note}{among}.",
    )


# -- corrected for the judge ------------------------------------------------------------------------------------


def _corrected(c: Comparison, pair: Pair, corrected: CorrectedPair) -> Iterator[Block]:
    """Yield the rates and the difference on the pairs, raw and corrected, and what that rests on."""
    a, b = c.sides(pair)
    rate = WORDS[c.aim].rate
    rows: list[tuple[str, Cell, Cell]] = [
        (f"{rate} of {a.label}", pair.rate_a, corrected.rate_a or "none"),
        (f"{rate} of {b.label}", pair.rate_b, corrected.rate_b or "none"),
        (f"Difference in points, {b.label} - {a.label}", Points(pair.difference), _corrected_difference(pair)),
    ]
    yield table(
        rows,
        text_column("", lambda row: row[0]),
        number_column("Raw, as judged", lambda row: row[1]),
        number_column("Corrected", lambda row: row[2]),
    )
    facts = [Fact("Method", _METHODS[corrected.method])]
    first = a.correction
    if first is not None and first.labels_from == "run":
        for file in (a, b):
            if file.correction is not None:
                facts.append(Fact(f"Labels of {file.label}", _labels(file.correction)))
    elif first is not None:
        facts.append(Fact("Labels", _labels(first)))
        if first.judge is not None:
            facts.append(Fact("of the judge", Record(first.judge), depth=1))
    if first is not None:
        facts.append(Fact("from", Place(first.file), depth=1))
    yield Facts(tuple(facts))
    yield from map(Paragraph, corrected.sentences)


def _labels(correction: JudgeCorrection) -> str:
    return f"{correction.labels.n:,}, of which {correction.labels.hits:,} say success"


# -- facets -----------------------------------------------------------------------------------------------------


def _groups(c: Comparison, pair: Pair, field: str, *, figures: bool) -> Iterator[Block]:
    a, b = pair.labels
    groups = tuple(group for group in pair.by[field] if group.value is not None) or pair.by[field]
    shown, differing = groups[:GROUPS_SHOWN], pair.differing_values[field]
    if figures and shown:
        items = tuple(Difference(Record(g.value), g.difference, g.stands_out, g.small) for g in shown)
        # A field with a name of its own choosing is not called by it in a title.
        plain = field.replace("_", "").replace(".", "")
        named = field if plain.isascii() and plain.isalnum() and len(field) <= 40 else "value"
        yield Differences(f"Difference of {b} from {a} by {named}", items, f"{b} lower", f"{b} higher")
    lost, won = ("Fixed", "Broken") if c.aim == "attack" else ("Broken", "Fixed")
    head_a, head_b = _heads(pair)
    notes = []
    if len(groups) > GROUPS_SHOWN:
        notes.append(f"The first {GROUPS_SHOWN} of {len(groups):,} groups; the JSON document has all.")
    if differing:
        notes.append(f"Not in a group: {counted(differing, 'pair')} whose value differs between the files.")
    if len(pair.by[field]) > len(groups):
        notes.append("Pairs without a value are not in the table.")
    if pair.corrected is not None:
        notes.append("Groups use the judge's verdicts as they are.")
    yield table(
        shown,
        text_column("Value", lambda group: Record(group.value)),
        number_column("Pairs", lambda group: group.paired),
        number_column("Difference, points", lambda group: Points(group.difference)),
        text_column("", _mark, rank=1, when=any(map(_mark, shown))),
        number_column("Adjusted p", lambda group: "" if group.one_family else p_value(group.adjusted_p), rank=2),
        number_column(lost, lambda group: group.only_a, rank=3),
        number_column(won, lambda group: group.only_b, rank=3),
        number_column(f"Rate of {head_a}", lambda group: group.rate_a, rank=4),
        number_column(f"Rate of {head_b}", lambda group: group.rate_b, rank=4),
        marked=lambda group: group.small,
        note=" ".join(notes),
    )


def _mark(group: ComparedGroup) -> str:
    if group.one_family:
        return "one family: not tested"
    return "beyond chance" if group.stands_out else ""


# -- flips and what is left out ---------------------------------------------------------------------------------


def _flips(pair: Pair, name: str, flips: Flips, meaning: str) -> Iterator[Block]:
    a, b = pair.labels
    entries = counted(len(flips.ids), "entry", "entries")
    yield Paragraph(f"{entries} that {meaning}.")
    yield from _in_common(name, flips)
    if flips.shown:
        exhibits = tuple(_exhibit(flip, a, b) for flip in flips.shown)
        yield Evidence(exhibits, len(flips.ids), f"{name} entries")
    if flips.missing:
        missing = ((Place(place), why) for place, why in flips.missing.items())
        yield text_table(("Could not be read back", "Why"), missing)
    if not flips.shown:
        first = flips.ids[:IDS_SHOWN]
        note = f"The first {len(first)} of {len(flips.ids):,}; the JSON document has all." * (
            len(first) < len(flips.ids)
        )
        yield text_table(("Entry",), ((Record(entry),) for entry in first), note=note)
    elif len(flips.shown) < len(flips.ids):
        yield Paragraph("The JSON document has all ids; results show prints an entry in full.")


def _in_common(name: str, flips: Flips) -> Iterator[Block]:
    """Yield what flipped entries have in common, if that is more than chance."""
    causes = [group for group in flips.groups if group.stands_out]
    if not causes:
        return
    rest = len(flips.ids) - sum(len(group.ids) for group in causes)
    notes = ["Of the pairs that could flip so, and that no line above counts."]
    if rest:
        notes.append(f"{counted(rest, 'other')} without a common cause.")
    notes.append(f"p is multiplied by the {flips.looked_at:,} groups looked at; it shows where, not why.")
    yield table(
        causes,
        text_column("In common", _shared),
        number_column(name.capitalize(), lambda group: f"{group.flipped:,} of {group.pairs:,}"),
        number_column("Elsewhere", lambda group: f"{group.flipped_elsewhere:,} of {group.pairs_elsewhere:,}"),
        number_column("Difference, points", lambda group: Points(group.difference), rank=1),
        number_column("Adjusted p", lambda group: p_value(group.adjusted_p)),
        text_column("Example", lambda group: Record(group.ids[0]), rank=2),
        note=" ".join(notes),
    )


def _shared(group: FlipGroup) -> Cell:
    if group.kind == "family":
        return "one payload"
    return Record(f"{'words' if group.field is None else group.field}: {group.value or '(none)'}")


def _exhibit(flip: Flip, a: str, b: str) -> Exhibit:
    return Exhibit(
        Record(f"entry {flip.entry}"),
        Place(f"{a}:{_line(flip.where[0])}, {b}:{_line(flip.where[1])}"),
        () if flip.judge is None else (("judge", Record(flip.judge)),),
        (("prompt", flip.prompt), (f"response of {a}", flip.response_a), (f"response of {b}", flip.response_b)),
    )


def _line(place: str) -> str:
    return re.split(r"[:!]", place)[-1]
