"""How far raters agree, arranged into a report.

Kappa and alpha are no shares of anything and can be below 0: they are written as plain numbers, never as percentages.
"""

from __future__ import annotations

from collections.abc import Iterator

from faircount.analysis.judges.agreement import (
    ALL,
    DECISIONS,
    JUDGES,
    LABEL,
    ONE_SIDED,
    PEOPLE,
    SCORES,
    Agreement,
    DisputedItem,
)
from faircount.analysis.judges.ratings import PERSON
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.core.text import visible
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Fact,
    Facts,
    Findings,
    Grid,
    Paragraph,
    Place,
    Record,
    Records,
    Report,
    Section,
    TableColumn,
    number_column,
    pieces,
    table,
    text_column,
    text_table,
)
from faircount.stats.proportion import wilson

_SMALL = 30
_WIDEST_MATRIX = 10
_MOST_BARS = 20
_DIGEST = 12
_NONE = "–"

_KAPPA = (
    "Kappa is agreement beyond chance: 1 is complete agreement, 0 what two raters with these habits would reach by "
    "chance. Alpha does the same for any number of raters, with ratings missing."
)
_MISSING = "Undecided and unjudged items count as missing, not as disagreement."
_AC1 = "AC1 and PABAK are shown beside kappa because they do not collapse when nearly all items fall in one category."

_NO_INTERVAL = "No interval where raters never or always differed, or one used a single category: chance is not seen."


def as_report(agreement: Agreement) -> Report:
    """Arrange what was found into one report."""
    kinds = {figures.kind for figures in agreement.raters}
    who = ALL if len(kinds) > 1 else PEOPLE if PERSON in kinds else JUDGES
    unnamed = any(figures.kind == PERSON and figures.name == LABEL for figures in agreement.raters)
    raters = table(
        agreement.raters,
        text_column("Rater", lambda figures: Record(figures.name)),
        text_column("Kind", lambda figures: figures.kind),
        number_column("Decided", lambda figures: figures.decided),
        number_column("Not decided", lambda figures: figures.undecided),
        number_column("Hits", lambda figures: figures.hits),
        number_column("Scores", lambda figures: figures.scored, rank=1),
        text_column(
            "First error",
            lambda figures: Record(figures.error) if figures.error else "",
            when=any(figures.error for figures in agreement.raters),
        ),
        note=f"The rater {LABEL} stands for people whose individual ratings are unknown." if unnamed else "",
    )
    sections = [
        Section(f"Agreement of {who.replace('_', ' ')}", tuple(_overview(agreement)), level=1),
        Section("Raters", (raters,)),
        Section("All together", (_all_together(agreement),)),
        Section("Two by two", tuple(_two_by_two(agreement))),
        Section("Where they disagree", (Paragraph(_parting(agreement)),)),
        *(_case(agreement, number, case) for number, case in enumerate(agreement.cases, start=1)),
    ]
    sections.append(Section("What was read", tuple(_read(agreement))))
    return Report(tuple(sections), agreement)


# -- sections ---------------------------------------------------------------------------------------------------


def _overview(agreement: Agreement) -> Iterator[Block]:
    people = sum(figures.kind == PERSON for figures in agreement.raters)
    judges = len(agreement.raters) - people
    level = agreement.level
    yield Facts(
        (
            Fact("Items", agreement.items),
            Fact("compared", agreement.compared, note="with two decisions or more", depth=1),
            Fact(
                "parted",
                agreement.parted,
                wilson(agreement.parted, agreement.compared, unit="item", level=level),
                "of those compared: not all decided the same",
                depth=1,
            ),
            Fact(
                "Raters",
                len(agreement.raters),
                note=f"{counted(people, 'person', 'people')}, {counted(judges, 'judge')}",
            ),
        )
    )
    yield Paragraph(_KAPPA)
    yield Paragraph(_MISSING)
    one_sided = sum(pair.one_sided for pair in agreement.pairs)
    if one_sided:
        yield Paragraph(
            f"In {counted(one_sided, 'pair')} over {formats.exact_percent(ONE_SIDED)} of the decisions are the "
            "same. There kappa can be low although the two rarely differ: read AC1 as well."
        )
    apart = sum(pair.items == 0 for pair in agreement.pairs)
    if apart:
        pairs = counted(apart, "pair")
        yield Paragraph(f"{pairs} decided no common items, so they cannot be compared. Items are matched by id.")
    repeated = sum(figures.repeated for figures in agreement.raters)
    if repeated:
        ratings = counted(repeated, "rating")
        yield Paragraph(f"{ratings} of an item that the same rater had rated before: the last one counts.")
    if agreement.label_threshold is not None:
        threshold = f"{agreement.label_threshold:g}"
        yield Paragraph(f"People gave scores: as decisions, a score counts as a hit from {threshold} on.")
        if not any(figures.kind == PERSON and figures.scored for figures in agreement.raters):
            yield Paragraph(
                "Only decisions are compared: scores cannot be read from standard input or from labels keyed to "
                "results."
            )
    if agreement.scores_apart:
        yield Paragraph("People's scores exceed 0 to 1, the scale of judges, so scores are not compared between them.")


def _all_together(agreement: Agreement) -> Block:
    if not agreement.together:
        return Paragraph("There are fewer than two raters.")
    note = f"{formats.exact_percent(agreement.level)} interval: bootstrap over items, seed {agreement.seed}."
    kappas = [figures.fleiss for figures in agreement.together if figures.fleiss is not None]
    if kappas:
        note += " Fleiss' kappa is over the items that all of these raters decided."
    if agreement.replicates and any(map(_lacks_interval, [*kappas, *(one.alpha for one in agreement.together)])):
        note += f" {_NO_INTERVAL}"
    steps = [figures.step for figures in agreement.together if figures.step is not None]
    if steps:
        note += f" There are too many different scores; they are grouped in steps of {max(steps):.2g}."
    return table(
        agreement.together,
        text_column("Who", lambda figures: "all" if figures.who == ALL else figures.who),
        text_column("On", lambda f: DECISIONS if f.what == DECISIONS else f"{SCORES}, {f.measurement}"),
        number_column("Raters", lambda figures: figures.raters),
        number_column("Items", lambda figures: figures.alpha.n),
        number_column("Krippendorff's alpha", lambda figures: formats.coefficient(figures.alpha)),
        number_column("Fleiss' kappa", lambda f: _NONE if f.fleiss is None else formats.coefficient(f.fleiss), rank=1),
        number_column("Complete", lambda f: _NONE if f.fleiss is None else f.fleiss.n, rank=2),
        note=note,
    )


def _two_by_two(agreement: Agreement) -> Iterator[Block]:
    level = formats.exact_percent(agreement.level)
    note = (
        f"{level} intervals: of kappa by its standard error (Fleiss, Cohen and Everitt 1969), of the share decided "
        f"alike by Wilson. {_AC1} Most used: the share of the category that both used most."
    )
    if any(_lacks_interval(pair.kappa) for pair in agreement.pairs):
        note += f" {_NO_INTERVAL}"
    compared = [pair for pair in agreement.pairs if pair.items]
    yield table(
        # The overview says how many pairs have nothing in common: many such rows would hide the others.
        compared if len(agreement.pairs) > _MOST_BARS else agreement.pairs,
        text_column("Raters", lambda pair: Records(pair.raters)),
        number_column("Items", lambda pair: pair.items),
        number_column("Cohen's kappa", lambda pair: formats.coefficient(pair.kappa)),
        number_column("Alike", lambda pair: pair.observed),
        number_column("AC1", lambda pair: formats.fixed(pair.ac1), rank=1),
        number_column("PABAK", lambda pair: formats.fixed(pair.pabak), rank=2),
        number_column("Most used", lambda p: _NONE if p.prevailing is None else formats.percent(p.prevailing), rank=3),
        marked=lambda pair: pair.items < _SMALL,
        note=note,
    )
    if 3 <= len(agreement.raters) <= _WIDEST_MATRIX:
        yield _matrix(agreement)
    if 1 < len(compared) <= _MOST_BARS:
        bars = tuple(Bar(Records(pair.raters), pair.observed, pair.items < _SMALL) for pair in compared)
        yield Bars("Share of items decided the same, chance included", bars)


def _matrix(agreement: Agreement) -> Grid:
    """Return the kappas of every two raters as a table; the rows say which number a rater has in the columns."""
    kappas = {frozenset(pair.places): formats.fixed(pair.kappa.value) for pair in agreement.pairs}
    count = len(agreement.raters)

    def against(other: int) -> TableColumn[int]:
        return number_column(str(other + 1), lambda rater: kappas.get(frozenset((rater, other)), _NONE))

    return table(
        range(count),
        number_column("Kappa", lambda rater: str(rater + 1)),
        text_column("Rater", lambda rater: Record(agreement.raters[rater].name)),
        *map(against, range(count)),
    )


def _lacks_interval(estimate: Estimate) -> bool:
    return estimate.value is not None and estimate.low is None


# -- cases ------------------------------------------------------------------------------------------------------


def _parting(agreement: Agreement) -> str:
    if not agreement.parted:
        return "No item was decided differently by two raters."
    shown = len(agreement.cases)
    if not shown:
        return f"{counted(agreement.parted, 'item')} are decided differently; --cases shows some."
    some = f"the first {shown:,} of them" if shown > 1 else "one of them"
    which = "all of them" if shown == agreement.parted else some
    order = (
        "Items on which people and judges differ most come first, then the most evenly split."
        if len({figures.kind for figures in agreement.raters}) > 1
        else "The most evenly split items come first."
    )
    differ = f"{counted(agreement.parted, 'item')} {'is' if agreement.parted == 1 else 'are'} decided differently"
    return f"{differ}; here {'is' if shown == 1 else 'are'} {which}. {order} Likely secrets are masked."


def _case(agreement: Agreement, number: int, case: DisputedItem) -> Section:
    blocks: list[Block] = []
    # An item without an id of its own is called by its place.
    if case.place not in (None, case.item):
        blocks.append(Facts((Fact("Place", Place(case.place)),)))
    rows: list[tuple[Cell, ...]] = []
    for opinion in case.opinions:
        decision = _NONE if opinion.decision is None else opinion.decision.value
        score = "" if opinion.score is None else f"{opinion.score:.4g}"
        head = (Record(agreement.raters[opinion.rater].name), decision, score)
        rows += _in_pieces(head, opinion.reason or opinion.error or "", "")
    opinions = table(
        rows,
        text_column("Rater", lambda row: row[0]),
        text_column("Decision", lambda row: row[1]),
        number_column("Score", lambda row: row[2]),
        text_column("Reason", lambda row: row[3]),
    )
    blocks.append(opinions)
    texts = [(name, text) for name, text in (("Prompt", case.prompt), ("Response", case.response)) if text is not None]
    recorded: list[tuple[Cell, ...]] = []
    for name, text in texts:
        recorded += _in_pieces((name,), text.text, "(empty)")
        if text.cut:
            recorded.append(("(cut here)", f"the whole text has {text.characters:,} characters"))
    if recorded:
        blocks.append(text_table(("Text", "As recorded"), recorded))
    elif case.response is None:
        blocks.append(Paragraph("Its text was not in the input."))
    return Section(f"Case {number}:", tuple(blocks), level=3, subject=Record(case.item))


def _in_pieces(labels: tuple[Cell, ...], text: str, empty: str) -> Iterator[tuple[Cell, ...]]:
    """Yield rows that hold a text piece by piece: in a column of its own it cannot pass for ours."""
    if not text:
        yield (*labels, empty)
    for number, piece in enumerate(pieces(visible(text))):
        yield (*(("",) * len(labels) if number else labels), Record(piece))


# -- what was read ----------------------------------------------------------------------------------------------


def _read(agreement: Agreement) -> Iterator[Block]:
    labels = [(source.path, "labels", source.good, source.bad, source.sha256) for source in agreement.labels]
    predictions = [
        (source.path, source.holds, source.good_lines, source.bad_lines, source.sha256)
        for source in agreement.predictions
    ]
    yield table(
        [*labels, *predictions],
        text_column("File", lambda row: Place(row[0])),
        text_column("Holds", lambda row: row[1]),
        number_column("Records", lambda row: row[2]),
        number_column("Could not be read", lambda row: row[3]),
        text_column("SHA-256", lambda row: row[4][:_DIGEST]),
    )
    if agreement.doubts:
        yield table(
            agreement.doubts,
            text_column("Problem with labels", lambda doubt: doubt.kind.value),
            text_column("Why", lambda doubt: Record(doubt.reason)),
            number_column("Times", lambda doubt: doubt.count),
            text_column("First places", lambda doubt: Records(doubt.places)),
        )
    if agreement.findings:
        yield Findings(agreement.findings)
