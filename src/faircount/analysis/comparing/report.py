"""A comparison arranged into a report: the claim first, then what it rests on, then where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount import formats
from faircount.analysis.comparing import pairing
from faircount.analysis.comparing.claims import POWER
from faircount.analysis.comparing.corrected_report import corrected_blocks
from faircount.analysis.comparing.document import document
from faircount.analysis.comparing.found import Breakdown, Comparison, File, Flip, Flips, Group, LeftOut, Pair
from faircount.analysis.comparing.scores import score_words
from faircount.analysis.dataset_comparison_report import short_names
from faircount.analysis.words import WORDS
from faircount.findings import counted
from faircount.formats import p_value
from faircount.model import Estimate
from faircount.report import (
    Answer,
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Difference,
    Differences,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    Paragraph,
    Place,
    Points,
    Record,
    Report,
    Section,
)
from faircount.stats import wilson

GROUPS_SHOWN = 12
IDS_SHOWN = 10
PAIRS_IN_FULL = 3
"""Of more pairs of files, those with the baseline are shown in full; all are in the document."""

_REASONS = {
    pairing.MISSING: "not in the other file",
    pairing.OTHER_CONTENT: "the other file has the id with another prompt",
    pairing.REPEATED: "more than once in this file, and not to be told apart",
    pairing.ERROR: "ended in an error here",
    pairing.UNJUDGED: "nobody judged it here",
    pairing.OTHER_UNANSWERED: "answered here, without an answer in the other file",
}


def as_report(comparison: Comparison, *, figures: bool = False) -> Report:
    """Arrange a comparison; `figures` adds the differences and the flips as figures."""
    c = comparison
    sections = [*in_short(c)]
    for pair in _in_full(c):
        sections += _sections(c, pair, figures=figures)
    sections.append(Section("What these numbers cannot tell", tuple(map(Paragraph, c.limits))))
    return Report(tuple(sections), document(c))


def in_short(comparison: Comparison) -> Iterator[Section]:
    """Yield what a comparison comes to: the claims, the files, and all of them together."""
    c = comparison
    head: list[Block] = [Findings(c.findings)] if c.findings else []
    yield Section("Comparison", (*head, *map(Paragraph, _claims(c))), level=1)
    yield Section("Files", (_files(c), *_copies(c)))
    if c.overall is not None:
        yield Section("All files together", tuple(_overall(c)))


def _in_full(c: Comparison) -> Sequence[Pair]:
    return c.pairs if len(c.pairs) <= PAIRS_IN_FULL else [pair for pair in c.pairs if pair.a == 0]


def _claims(c: Comparison) -> Iterator[str]:
    shown = _in_full(c)
    for pair in shown:
        yield pair.claim[0].upper() + pair.claim[1:] + "."
    if len(shown) < len(c.pairs):
        yield f"{counted(len(c.pairs) - len(shown), 'other pair')} of files: see the table of all files together."


def _letters(c: Comparison, pair: Pair) -> tuple[str, str]:
    return c.files[pair.a].letter, c.files[pair.b].letter


# -- files ------------------------------------------------------------------------------------------------------


def _files(c: Comparison) -> Grid:
    words = WORDS[c.aim]
    columns = (
        Column("", numeric=False),
        Column("Name", numeric=False),
        Column(words.rate_column),
        *([Column("Corrected")] if _corrects(c) else []),
        Column(words.wins),
        Column("Answered"),
        Column("Errors"),
        Column("Unjudged", rank=1),
        Column("File", numeric=False, rank=2),
    )
    names = short_names(c.paths)
    rows = tuple(_file(name, file, corrects=_corrects(c)) for name, file in zip(names, c.files, strict=True))
    return Grid(columns, rows, note=f"{words.rate}s are over the entries that were answered; a block is an answer.")


def _corrects(c: Comparison) -> bool:
    return any(file.correction is not None for file in c.files)


def _file(name: str, file: File, *, corrects: bool) -> tuple[Cell, ...]:
    tally = file.tally
    corrected: Cell = "none" if file.corrected is None else file.corrected
    return (
        file.letter,
        Place(name),
        file.rate,
        *([corrected] if corrects else []),
        tally.success,
        file.answered,
        tally.error,
        tally.unjudged,
        Place(file.source.path),
    )


def _copies(c: Comparison) -> Iterator[Block]:
    if c.copies:
        columns = (Column("File", numeric=False), Column("holds the same bytes as", numeric=False))
        yield Grid(columns, tuple((Place(copy), Place(original)) for copy, original in c.copies))


# -- three or more ----------------------------------------------------------------------------------------------


def _overall(c: Comparison) -> Iterator[Block]:
    overall = c.overall
    if overall is None:
        return
    facts = [Fact("Entries that all answered", overall.entries)]
    if overall.cochran_q is None:
        facts.append(Fact("Cochran's Q", "undefined", note="every entry came out alike on all of them"))
    else:
        told = f"{overall.df} degrees of freedom, p {p_value(overall.p)}"
        facts.append(Fact("Cochran's Q", f"{overall.cochran_q:.2f}", note=told))
    yield Facts(tuple(facts))
    columns = (
        Column("Pair", numeric=False),
        Column("Paired"),
        Column("Difference, points"),
        Column("p"),
        Column("adjusted p"),
        Column("Fixed", rank=1),
        Column("Broken", rank=1),
    )
    rows = tuple(_pair_row(c, pair) for pair in c.pairs)
    note = "Differences are the second minus the first; p is adjusted by Holm's method."
    if not all(pair.paired for pair in c.pairs):
        note += " * The files share no entry: the rates are those of different ones."
    yield Grid(columns, rows, note=note)


def _pair_row(c: Comparison, pair: Pair) -> tuple[Cell, ...]:
    a, b = _letters(c, pair)
    return (
        f"{a} → {b}" + (" *" if not pair.paired else ""),
        pair.figures.table.paired,
        Points(pair.figures.difference),
        p_value(pair.p),
        p_value(pair.adjusted_p),
        len(pair.fixed.ids),
        len(pair.broken.ids),
    )


# -- one pair ---------------------------------------------------------------------------------------------------


def _sections(c: Comparison, pair: Pair, *, figures: bool) -> Iterator[Section]:
    a, b = _letters(c, pair)
    several = f"{a} → {b}: " if len(c.files) > 2 else ""

    def titled(title: str) -> str:
        return several + (title if not several else title[0].lower() + title[1:])

    yield Section(titled("Difference"), tuple(_difference(c, pair, figures=figures)))
    if pair.corrected is not None:
        yield Section(titled("Corrected for the judge"), tuple(corrected_blocks(c, pair, pair.corrected)))
    if pair.scores.metrics:
        yield Section(titled("Scores"), (_scores(c, pair),))
    for found in pair.by:
        yield Section(titled("By"), tuple(_by(c, pair, found, figures=figures)), subject=Record(found.field))
    for name, flips, meaning in (("Fixed", pair.fixed, _fixed(c)), ("Broken", pair.broken, _broken(c))):
        if flips.ids:
            yield Section(titled(name), tuple(_flips(c, pair, name.lower(), flips, meaning)))
    rows = [*_left_out(a, pair.unpaired.a), *_left_out(b, pair.unpaired.b)]
    if rows and pair.paired:
        yield Section(titled("What could not be paired"), (_unpaired(rows),))


def _fixed(c: Comparison) -> str:
    return "succeeds in {a} and not in {b}" if c.aim == "attack" else "passes in {b} and not in {a}"


def _broken(c: Comparison) -> str:
    return "succeeds in {b} and not in {a}" if c.aim == "attack" else "passes in {a} and not in {b}"


def _difference(c: Comparison, pair: Pair, *, figures: bool) -> Iterator[Block]:
    a, b = _letters(c, pair)
    yield from map(Paragraph, pair.notes)
    figure, rate = pair.figures, WORDS[c.aim].rate
    facts = [
        Fact("Pairs of answered entries", figure.table.paired),
        Fact(f"{rate} of {a}", None, figure.rate_a, depth=1),
        Fact(f"{rate} of {b}", None, figure.rate_b, depth=1),
        Fact(f"Difference in points, {b} - {a}", Points(figure.difference), note=_method(figure.difference)),
        *_tests(c, pair),
    ]
    if pair.detectable is not None and not pair.claimed:
        facts.append(
            Fact(
                "Could have shown", formats.points(pair.detectable), note=f"{formats.exact_percent(POWER)} of the time"
            )
        )
    yield Facts(tuple(facts if pair.paired else facts[1:]))
    if pair.paired:
        yield _table(c, pair)
        yield Paragraph(pair.families)
        if figures:
            yield _flip_bars(c, pair)


def _method(difference: Estimate) -> str:
    if difference.low is None:
        return ""
    return f"{formats.exact_percent(difference.level)} interval: {formats.method(difference)}"


def _tests(c: Comparison, pair: Pair) -> Iterator[Fact]:
    adjusted = f"adjusted for {len(c.pairs)} pairs of files: {p_value(pair.adjusted_p)}" if len(c.pairs) > 1 else ""
    if not pair.paired:
        yield Fact("Fisher's exact test", f"p {p_value(pair.p)}", note=adjusted)
        return
    mid = f"mid-p {p_value(pair.figures.mid_p)}"
    note = f"{mid}; {adjusted}" if adjusted else mid
    yield Fact("McNemar's exact test", f"p {p_value(pair.p)}", note=note)
    if pair.figures.families is not None:
        families = counted(pair.figures.families, "family", "families")
        yield Fact("Test over families", f"p {p_value(pair.figures.families_p)}", note=families)


def _table(c: Comparison, pair: Pair) -> Grid:
    a, b = _letters(c, pair)
    won, lost = ("succeeded", "did not") if c.aim == "attack" else ("passed", "did not")
    table = pair.figures.table
    columns = (Column("", numeric=False), Column(f"{b} {won}"), Column(f"{b} {lost}"))
    rows = ((f"{a} {won}", table.both, table.only_a), (f"{a} {lost}", table.only_b, table.neither))
    return Grid(columns, rows)


def _flip_bars(c: Comparison, pair: Pair) -> Bars:
    n, level = pair.figures.table.paired, c.level
    bars = tuple(
        Bar(name, wilson(len(flips.ids), n, unit="pair of entries", level=level))
        for name, flips in (("fixed", pair.fixed), ("broken", pair.broken))
    )
    a, b = _letters(c, pair)
    return Bars(f"Entries that flipped from {a} to {b}", bars)


def _scores(c: Comparison, pair: Pair) -> Grid:
    a, b = _letters(c, pair)
    columns = (
        Column("Metric", numeric=False),
        Column("Cases"),
        Column(f"Mean of {a}"),
        Column(f"Mean of {b}"),
        Column(f"{b} - {a}"),
        Column("p", rank=1),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            Record(score.metric),
            score.difference.n,
            score_words(score.mean_a),
            score_words(score.mean_b),
            score_words(score.difference),
            p_value(score.p),
        )
        for score in pair.scores.metrics
    )
    note = "A case counts once, with the mean of its attempts; the error of the difference is that of the cases"
    note += "." if pair.figures.families is None else ", in their families."
    return Grid(columns, rows, note=note)


# -- facets -----------------------------------------------------------------------------------------------------


def _by(c: Comparison, pair: Pair, found: Breakdown, *, figures: bool) -> Iterator[Block]:
    a, b = _letters(c, pair)
    shown = found.groups[:GROUPS_SHOWN]
    if figures and shown:
        items = tuple(Difference(Record(g.value), g.figures.difference, g.stands_out, g.small) for g in shown)
        yield Differences(f"Difference {b} - {a} by {_words(found)}", items, f"{b} lower", f"{b} higher")
    columns = (
        Column("Value", numeric=False),
        Column("Pairs"),
        Column("Difference, points"),
        Column("", numeric=False),
        Column("adjusted p"),
        Column(f"Only {a}", rank=1),
        Column(f"Only {b}", rank=1),
        Column(f"Rate of {a}", rank=2),
        Column(f"Rate of {b}", rank=2),
    )
    rows = tuple(_group(group) for group in shown)
    small = frozenset(place for place, group in enumerate(shown) if group.small)
    raw = "As the judge has them: groups are compared raw." if pair.corrected is not None else ""
    yield Grid(columns, rows, small, note=" ".join(filter(None, (_by_note(found), raw))))


def _words(found: Breakdown) -> str:
    """Return how a figure calls a field: a field with a name of its own choosing is not called by it."""
    plain = found.field.replace("_", "").replace(".", "")
    return found.field if plain.isascii() and plain.isalnum() and len(found.field) <= 40 else "value"


def _by_note(found: Breakdown) -> str:
    notes = []
    if len(found.groups) > GROUPS_SHOWN:
        notes.append(f"The first {GROUPS_SHOWN} of {len(found.groups):,} groups; the JSON document has all.")
    if found.differing:
        notes.append(f"In no group: {counted(found.differing, 'pair')} whose value differs between the files.")
    return " ".join(notes)


def _group(group: Group) -> tuple[Cell, ...]:
    figure = group.figures
    return (
        Record(group.value),
        figure.table.paired,
        Points(figure.difference),
        "beyond chance" if group.stands_out else "",
        p_value(group.adjusted_p),
        figure.table.only_a,
        figure.table.only_b,
        figure.rate_a,
        figure.rate_b,
    )


# -- flips and what is left out ---------------------------------------------------------------------------------


def _flips(c: Comparison, pair: Pair, name: str, flips: Flips, meaning: str) -> Iterator[Block]:
    a, b = _letters(c, pair)
    entries = counted(len(flips.ids), "entry", "entries")
    yield Paragraph(f"{entries} that {_plural(meaning, len(flips.ids)).format(a=a, b=b)}.")
    if flips.shown:
        exhibits = tuple(_exhibit(flip, name, a, b) for flip in flips.shown)
        yield Evidence(exhibits, len(flips.ids), f"{name} entries")
    if flips.missing:
        columns = (Column("Could not be read back", numeric=False), Column("Why", numeric=False))
        yield Grid(columns, tuple((Place(place), why) for place, why in flips.missing))
    if not flips.shown:
        first = flips.ids[:IDS_SHOWN]
        note = f"The first {len(first)} of {len(flips.ids):,}; the JSON document has all." * (
            len(first) < len(flips.ids)
        )
        yield Grid((Column("Entry", numeric=False),), tuple((Record(entry),) for entry in first), note=note)
    elif len(flips.shown) < len(flips.ids):
        yield Paragraph("The JSON document has the ids of all; results show tells all of an entry.")


def _plural(meaning: str, count: int) -> str:
    return meaning if count == 1 else meaning.replace("succeeds", "succeed").replace("passes", "pass")


def _exhibit(flip: Flip, name: str, a: str, b: str) -> Exhibit:
    return Exhibit(
        Place(flip.place_a),
        Record(flip.entry),
        Record(name),
        Record(flip.judge),
        Record(flip.prompt),
        Record(flip.response_a),
        a,
        Answer(b, Place(flip.place_b), Record(flip.response_b)),
    )


def _left_out(letter: str, found: Sequence[LeftOut]) -> Iterator[tuple[Cell, ...]]:
    for item in found:
        if item.count:
            yield letter, _REASONS[item.reason], item.count, Place(item.where[0])


def _unpaired(rows: Sequence[tuple[Cell, ...]]) -> Grid:
    columns = (
        Column("File", numeric=False),
        Column("Why", numeric=False),
        Column("Entries"),
        Column("First", numeric=False, rank=1),
    )
    return Grid(columns, tuple(rows), note="None of these is in a figure above but those of the files.")
