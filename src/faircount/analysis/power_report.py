"""The answers of `results power` arranged into a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from faircount.analysis.power import (
    DIFFERENCE,
    DIFFERENT_ENTRIES,
    INTERVAL,
    ONE_TARGET,
    SAME_ENTRIES,
    WIDEST_RATE,
    ZERO_HITS,
    Families,
    Point,
    Power,
    Question,
)
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Fact,
    Facts,
    Grid,
    Paragraph,
    Report,
    Section,
    TableColumn,
    number_column,
    table,
)

_FEW_EXPECTED = 5
_FEW_DISCORDANT = 10
_NEARBY = "Nearby values, for comparison."
_IN_POINTS = " Points are percentage points."
_ENTRIES = {
    ONE_TARGET: "Entries",
    DIFFERENT_ENTRIES: "Entries of each target",
    SAME_ENTRIES: "Entries run against both",
}
_NO_DIFFERENCE = "none, at any size"


def as_report(power: Power) -> Report:
    """Arrange answered questions into one report."""
    questions = power.questions
    heading = Section("Planning: how many entries", (), level=1)
    sections = [Section(_title(q), tuple(_blocks(q))) for q in questions]
    assumptions = Section("What these numbers assume", tuple(_assumptions(questions)))
    return Report((heading, *sections, assumptions), power)


# -- sections ---------------------------------------------------------------------------------------------------


def _title(q: Question) -> str:
    point = q.answers[0]
    if q.wanted == "entries":
        if q.about == INTERVAL:
            return f"How many entries for an interval with a half-width of {_points(point.half_width)}?"
        if q.about == ZERO_HITS:
            return f"How many entries without a hit for an upper limit of {_percent(point.upper_limit)}?"
        return f"How many entries to detect a difference of {_points(point.difference)} on {_on(q)}?"
    shown = counted(point.entries, "entry", "entries")
    if q.about == INTERVAL:
        return f"What interval can {shown} give?"
    if q.about == ZERO_HITS:
        return f"What can {shown} without a hit show?"
    return f"What difference can {shown} show on {_on(q)}?"


def _on(q: Question) -> str:
    return "the same entries" if q.design == SAME_ENTRIES else "different entries"


def _blocks(q: Question) -> Iterator[Block]:
    yield Facts(tuple(_facts(q)))
    yield Paragraph(_meaning(q))
    yield from (Paragraph(text) for text in _cautions(q))
    yield _grid(q)


def _facts(q: Question) -> Iterator[Fact]:
    if q.wanted == "entries":
        yield from _needed(q)
    else:
        yield from _shown(q)
    if q.families is not None:
        yield from _of_families(q, q.families)
    yield Fact("Level", _percent(q.level, 8), note=_level_note(q))
    if q.answers[0].power is not None:
        yield Fact("Power", _percent(q.answers[0].power, 8), note="how often a difference of that size is found")


def _needed(q: Question) -> Iterator[Fact]:
    point = q.answers[0]
    if q.design == DIFFERENT_ENTRIES:
        yield Fact("Entries of each target", point.entries, note=q.method)
        yield Fact("in all", 2 * point.entries, note="of both targets together", depth=1)
    elif q.design == SAME_ENTRIES:
        yield Fact("Entries run against both targets", point.entries, note=q.method)
        discordant = point.entries * (point.discordant or 0)
        yield Fact("discordant", round(discordant), note="expected; on these only one target succeeds", depth=1)
    else:
        yield Fact("Entries needed", point.entries, note=q.method)
        if q.about == INTERVAL:
            yield Fact("interval", None, _interval(q, point), f"at a rate of {_percent(point.rate)}", depth=1)


def _shown(q: Question) -> Iterator[Fact]:
    point = q.answers[0]
    if q.about == INTERVAL:
        yield Fact("Half-width", _points(point.half_width), note=q.method)
        yield Fact("interval", None, _interval(q, point), f"at a rate of {_percent(point.rate)}", depth=1)
    elif q.about == ZERO_HITS:
        yield Fact("Upper limit", _percent(point.upper_limit), note=q.method)
    elif q.design == SAME_ENTRIES:
        yield Fact("Least difference", _points(point.difference), note=q.method)
        yield Fact("discordant", _percent(point.discordant), note="on which only one target succeeds", depth=1)
    else:
        for answer, way in zip(q.answers, ("rise", "fall"), strict=True):
            yield Fact(f"Least {way}", _change(answer), note=q.method if way == "rise" else "the same")
            if answer.other_rate is not None:
                yield Fact("to", _percent(answer.other_rate), note=f"from {_percent(answer.rate)}", depth=1)


def _of_families(q: Question, families: Families) -> Iterator[Fact]:
    point = q.answers[0]
    whose = ", for each target" if q.design == DIFFERENT_ENTRIES else ""
    yield Fact("Worth independent entries", round(point.worth), note="the number that counts")
    yield Fact("Design effect", f"{families.design_effect:.4g}", note=_kinship(families))
    yield Fact("Families", math.ceil(point.entries / families.size), note=f"of {families.size:g} variants each{whose}")


def _kinship(families: Families) -> str:
    return f"1 + ({families.size:g} - 1) times {families.icc:g} (Kish 1965)"


def _level_note(q: Question) -> str:
    if q.about == DIFFERENCE:
        return f"two-sided test at {_percent(1 - q.level, 8)}"
    return "confidence level, one-sided" if q.about == ZERO_HITS else "confidence level, two-sided"


def _interval(q: Question, point: Point) -> Estimate:
    return Estimate(point.rate, point.low, point.high, point.entries, q.unit, q.level, "wilson")


# -- plain words ------------------------------------------------------------------------------------------------


def _meaning(q: Question) -> str:
    point = q.answers[0]
    entries = counted(point.entries, "entry", "entries")
    if q.about == INTERVAL:
        return (
            f"At a rate of {_percent(point.rate)}, the {_percent(q.level, 8)} interval of {entries} runs from "
            f"{_percent(point.low, 3)} to {_percent(point.high, 3)}."
            + ("" if point.rate == WIDEST_RATE else " Nearer to a rate of 50% it would be wider.")
        )
    if q.about == ZERO_HITS:
        return (
            f"Without a success in {entries}, the true rate is at most {_percent(point.upper_limit)}, at a level of "
            f"{_percent(q.level, 8)}. A single success invalidates this."
        )
    if q.design == SAME_ENTRIES:
        return _meaning_paired(q, point, entries)
    if q.wanted == "entries":
        return (
            f"If the true rates are {_percent(point.rate)} and {_percent(point.other_rate)}, {entries} of each "
            f"target show the difference in {_percent(point.power, 8)} of such comparisons and miss it in the rest. "
            "Running the same entries against both targets usually needs fewer: see --paired."
        )
    if all(answer.difference is None for answer in q.answers):
        return (
            f"From a true rate of {_percent(point.rate)}, with {entries} of each target, no change is found in "
            f"{_percent(point.power, 8)} of such comparisons, not even one to 0 or 100%. Take more entries."
        )
    return (
        f"From a true rate of {_percent(point.rate)}, with {entries} of each target, a change this large is found in "
        f"{_percent(point.power, 8)} of such comparisons, a smaller one less often. Finding nothing does not show that "
        "there is no difference."
    )


def _meaning_paired(q: Question, point: Point, entries: str) -> str:
    if point.difference is None:
        return (
            f"With {entries} and {_percent(point.discordant)} discordant, no difference is found in "
            f"{_percent(point.power, 8)} of such comparisons, not even if one target wins every discordant entry."
        )
    start = f"If only one target succeeds on {_percent(point.discordant)} of the entries, and "
    if q.wanted == "entries":
        return (
            f"{start}the rates differ by {_points(abs(point.difference))}, {entries} show it in "
            f"{_percent(point.power, 8)} of such comparisons. The fewer entries are discordant, the fewer are needed."
        )
    return (
        f"{start}the rates differ by {_points(point.difference)} or more, {entries} show it in at least "
        f"{_percent(point.power, 8)} of such comparisons, and a smaller one less often."
    )


def _cautions(q: Question) -> Iterator[str]:
    if q.rate_assumed:
        yield "No --rate given: 50% is assumed, where intervals are widest and differences hardest to show."
    point = q.answers[0]
    if q.design == DIFFERENT_ENTRIES and min(map(_least_expected, q.answers)) < _FEW_EXPECTED:
        yield (
            f"Fewer than {_FEW_EXPECTED} independent successes or failures are expected of a target: the formula is "
            "rough here. Take more entries."
        )
    few = q.families is not None and point.worth * (point.discordant or 0) < _FEW_DISCORDANT
    if q.design == SAME_ENTRIES and few:
        yield (
            f"Fewer than {_FEW_DISCORDANT} independent discordant entries are expected: the formula is rough here. "
            "Take more entries."
        )


def _least_expected(point: Point) -> float:
    rates = [rate for rate in (point.rate, point.other_rate) if rate is not None]
    return point.worth * min(min(rate, 1 - rate) for rate in rates)


def _assumptions(questions: Sequence[Question]) -> Iterator[Paragraph]:
    families = questions[0].families
    yield Paragraph(
        "Entries are a random sample of what the target will meet, and every one is judged correctly. Add the "
        "share you expect to end in errors."
    )
    if families is None:
        yield Paragraph("Entries are independent. Variants of one instruction are not: give --families and --icc.")
    else:
        yield Paragraph(
            f"Families have {families.size:g} variants each, whose outcomes correlate by {families.icc:g}. Both are "
            "guesses until there are results. With fewer than about 30 families intervals turn out wider than this."
        )
    if any(q.about == DIFFERENCE for q in questions):
        yield Paragraph("One comparison is made, once. Several need a stricter --level.")


# -- tables -----------------------------------------------------------------------------------------------------


def _grid(q: Question) -> Grid:
    difference = q.about == DIFFERENCE
    entries: list[TableColumn[Point]] = [
        number_column(_ENTRIES[q.design], lambda point: point.entries),
        number_column("Worth", lambda point: round(point.worth), when=q.families is not None),
    ]
    what: list[TableColumn[Point]] = [
        number_column("Half-width (points)", lambda point: _figure(point.half_width), when=q.about == INTERVAL),
        number_column("Rate and interval", lambda point: _interval(q, point), when=q.about == INTERVAL),
        number_column("Upper limit", lambda point: _percent(point.upper_limit), when=q.about == ZERO_HITS),
        number_column("Difference (points)", lambda point: _figure(point.difference), when=difference),
        number_column("Discordant", lambda point: _percent(point.discordant), when=q.design == SAME_ENTRIES),
        number_column("Rates", _rates, when=q.design == DIFFERENT_ENTRIES),
        number_column("Power", lambda point: _percent(point.power, 8), when=difference),
    ]
    columns = [*what, *entries] if q.wanted == "entries" else [*entries, *what]
    return table(q.nearby, *columns, note=_NEARBY + ("" if q.about == ZERO_HITS else _IN_POINTS))


def _rates(point: Point) -> str:
    return "–" if point.other_rate is None else f"{_percent(point.rate, 3)} and {_percent(point.other_rate, 3)}"


def _percent(share: float | None, digits: int = 4) -> str:
    return "?" if share is None else f"{formats.significant(100 * share, digits)}%"


def _figure(share: float | None) -> str:
    return _NO_DIFFERENCE if share is None else formats.significant(100 * share, 4)


def _points(share: float | None) -> str:
    if share is None:
        return _NO_DIFFERENCE
    figure = formats.significant(100 * share, 4)
    return f"{figure} percentage point" + ("" if figure in ("1", "-1") else "s")


def _change(point: Point) -> str:
    return _NO_DIFFERENCE if point.difference is None else _points(abs(point.difference))
