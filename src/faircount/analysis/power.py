"""How many entries a question needs, or what a number of entries can show. Reads nothing, never prints.

`ask` turns the options of `results power` into questions with their answers; `as_report` arranges them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from faircount.analysis.options import PowerOptions
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.model import Document, Estimate
from faircount.report import formats
from faircount.report.blocks import Fact, Facts, Grid, Paragraph, Report, Section, TableColumn, number_column, table
from faircount.stats.planning import (
    DEFAULT_POWER,
    SampleSize,
    degrees_of_families,
    design_effect,
    detectable_unpaired,
    expected_limits,
    least_difference_paired,
    least_entries_paired,
    least_entries_unpaired,
    sample_size_half_width,
    sample_size_zero_hits,
)
from faircount.stats.proportion import zero_hits_upper

WIDEST_RATE = 0.5
LEAST, MOST_ENTRIES, LARGEST_FAMILY = 1e-6, 10**12, 10**6
LOWEST_LEVEL, LOWEST_POWER, HIGHEST = 0.6, 0.5, 0.999999
ONE_TARGET, DIFFERENT_ENTRIES, SAME_ENTRIES = "one_target", "different_entries", "same_entries"
UNITS = {ONE_TARGET: "entry", DIFFERENT_ENTRIES: "entry of each target", SAME_ENTRIES: "entry run against both targets"}
INTERVAL, ZERO_HITS, DIFFERENCE = "interval", "zero_hits", "difference"

_FINER = (2.0, 1.5, 1.0, 0.75, 0.5)
_MORE = (0.5, 1.0, 2.0, 4.0)
_POWERS = (0.8, 0.9, 0.95)
_ZERO_HITS_LIMIT = "exact one-sided upper limit without a hit (Hanley and Lippman-Hand 1983)"
_DIGITS = 12


class PlannedFamilies(Struct, frozen=True):
    """Families of variants: how large, how alike, and the factor by which they cost entries."""

    size: float
    icc: float
    design_effect: float


class Point(Struct, frozen=True):
    """A number of entries and what goes with it; what a question does not concern is None.

    `worth` is the number of independent entries that the entries stand for. A difference that should be there and is
    None is one that so few entries cannot show, however large.
    """

    entries: int
    worth: float
    rate: float | None = None
    half_width: float | None = None
    low: float | None = None
    high: float | None = None
    upper_limit: float | None = None
    difference: float | None = None
    other_rate: float | None = None
    discordant: float | None = None
    power: float | None = None


class PowerQuestion(Struct, frozen=True):
    """A question with its answers, and points near them to weigh one thing against another.

    `wanted` is what was asked for: the number of entries, or what a given number can show.
    """

    about: str
    wanted: str
    design: str
    unit: str
    method: str
    level: float
    families: PlannedFamilies | None
    rate_assumed: bool
    answers: tuple[Point, ...]
    nearby: tuple[Point, ...]


class Power(Document, frozen=True, kw_only=True):
    """What `results power` answers."""

    kind: Literal["power"] = "power"
    schema: Literal[1] = 1
    questions: tuple[PowerQuestion, ...]


def ask(options: PowerOptions) -> Power:
    """Return the questions that the options ask, answered."""
    _check_question(options)
    _check_use(options)
    _check_values(options)
    _check_difference(options)
    _check_families(options)
    plan = _Assumptions(options)
    if options.entries is not None:
        return Power(questions=tuple(plan.what_entries_show(options.entries)))
    return Power(questions=tuple(plan.how_many_entries()))


class _Assumptions:
    """The assumptions that all questions of one call share."""

    def __init__(self, options: PowerOptions) -> None:
        self.options = options
        self.level = options.level
        self.alpha = _tidy(1 - options.level)
        self.power = DEFAULT_POWER if options.power is None else options.power
        self.rate = WIDEST_RATE if options.rate is None else options.rate
        self.size, self.icc = options.families or 1.0, options.icc or 0.0
        self.effect = design_effect(self.size, self.icc)
        self.families = None if options.families is None else PlannedFamilies(self.size, self.icc, self.effect)
        over_families = None if self.families is None else "Student's t over families"
        self.paired_test = over_families or "McNemar's exact test"
        self.unpaired_test = over_families or "Fisher's exact test (Fleiss, Tytun and Ury 1980)"

    @property
    def _claimed(self) -> dict[str, Any]:
        """When a difference is claimed, as `results compare` decides, and how often."""
        families = self.options.families
        return {"power": self.power, "alpha": self.alpha, "family_size": families, "design_effect": self.effect}

    def how_many_entries(self) -> Iterator[PowerQuestion]:
        o = self.options
        if o.half_width is not None:
            widths = [width for step in _FINER if (width := _tidy(o.half_width * step)) < 0.5]
            rates = [WIDEST_RATE] if self.rate != WIDEST_RATE else []
            yield self._question(
                INTERVAL,
                ONE_TARGET,
                "Wilson score interval, solved for the number of entries",
                [self._for_width(self.rate, o.half_width)],
                [self._for_width(self.rate, width) for width in widths]
                + [self._for_width(rate, o.half_width) for rate in rates],
            )
        if o.zero_hits is not None:
            limits = [limit for step in _FINER if (limit := _tidy(o.zero_hits * step)) < 1]
            yield self._question(
                ZERO_HITS,
                ONE_TARGET,
                _ZERO_HITS_LIMIT,
                [self._for_limit(o.zero_hits)],
                [self._for_limit(limit) for limit in limits],
            )
        if o.difference is not None:
            yield self._for_difference(o.difference)

    def _for_difference(self, difference: float) -> PowerQuestion:
        powers = [power for power in _POWERS if power != self.power]
        discordant = self.options.discordant
        if discordant is not None:
            steps = [d for step in _FINER if abs(d := _tidy(difference * step)) <= discordant]
            shares = [s for step in _FINER if step != 1 and abs(difference) <= (s := _tidy(discordant * step)) <= 1]
            return self._question(
                DIFFERENCE,
                SAME_ENTRIES,
                self.paired_test,
                [self._paired(discordant, difference, self.power)],
                [self._paired(discordant, step, self.power) for step in steps]
                + [self._paired(discordant, difference, power) for power in powers]
                + [self._paired(share, difference, self.power) for share in shares],
            )
        steps = [d for step in _FINER if 0 <= _tidy(self.rate + (d := _tidy(difference * step))) <= 1]
        return self._question(
            DIFFERENCE,
            DIFFERENT_ENTRIES,
            self.unpaired_test,
            [self._unpaired(difference, self.power)],
            [self._unpaired(step, self.power) for step in steps]
            + [self._unpaired(difference, power) for power in powers],
        )

    def what_entries_show(self, entries: int) -> Iterator[PowerQuestion]:
        numbers = [n for step in _MORE if (n := math.ceil(entries * step)) >= self.size]
        yield self._question(
            INTERVAL,
            ONE_TARGET,
            "Wilson score interval",
            [self._interval(entries)],
            [self._interval(n) for n in numbers],
        )
        yield self._question(
            ZERO_HITS,
            ONE_TARGET,
            _ZERO_HITS_LIMIT,
            [self._limit(entries)],
            [self._limit(n) for n in numbers],
        )
        if self.options.discordant is not None:
            share = self.options.discordant
            yield self._question(
                DIFFERENCE,
                SAME_ENTRIES,
                f"{self.paired_test}, solved for the difference",
                [self._shown_paired(entries, share)],
                [self._shown_paired(n, share) for n in numbers],
            )
            return
        yield self._question(
            DIFFERENCE,
            DIFFERENT_ENTRIES,
            f"{self.unpaired_test}, solved for the difference",
            [self._shown_unpaired(entries, 1), self._shown_unpaired(entries, -1)],
            [self._shown_unpaired(n, way) for n in numbers for way in (1, -1)],
        )

    def _question(
        self, about: str, design: str, method: str, answers: list[Point], nearby: list[Point]
    ) -> PowerQuestion:
        wanted = "entries" if self.options.entries is None else "precision"
        assumed = self.options.rate is None and answers[0].rate is not None
        if self.families is not None:
            method += ", widened by the design effect (Kish 1965)"
        distinct = tuple(dict.fromkeys(nearby))
        return PowerQuestion(
            about, wanted, design, UNITS[design], method, self.level, self.families, assumed, tuple(answers), distinct
        )

    def _point(self, size: SampleSize | int, **figures: float | None) -> Point:
        entries = size if isinstance(size, int) else size.entries
        return Point(entries, entries / self.effect, **figures)

    # -- the number of entries ----------------------------------------------------------------------------------

    def _for_width(self, rate: float, width: float) -> Point:
        size = sample_size_half_width(rate, width, level=self.level, family_size=self.size, icc=self.icc)
        low, high = expected_limits(rate, size.entries, level=self.level, design_effect=self.effect)
        return self._point(size, rate=rate, half_width=width, low=low, high=high)

    def _for_limit(self, limit: float) -> Point:
        size = sample_size_zero_hits(limit, level=self.level, family_size=self.size, icc=self.icc)
        return self._point(size, upper_limit=limit)

    def _paired(self, discordant: float, difference: float, power: float) -> Point:
        found = least_entries_paired(discordant, difference, **{**self._claimed, "power": power})
        return self._point(found, difference=difference, discordant=discordant, power=power)

    def _unpaired(self, difference: float, power: float) -> Point:
        other = _tidy(self.rate + difference)
        found = least_entries_unpaired(self.rate, other, **{**self._claimed, "power": power})
        return self._point(found, rate=self.rate, difference=difference, other_rate=other, power=power)

    # -- what a number of entries can show ----------------------------------------------------------------------

    def _interval(self, entries: int) -> Point:
        low, high = expected_limits(self.rate, entries, level=self.level, design_effect=self.effect)
        return self._point(entries, rate=self.rate, half_width=(high - low) / 2, low=low, high=high)

    def _limit(self, entries: int) -> Point:
        limit = zero_hits_upper(entries, level=self.level, design_effect=self.effect)
        return self._point(entries, upper_limit=limit.high)

    def _shown_paired(self, entries: int, discordant: float) -> Point:
        least = least_difference_paired(entries, discordant, **self._claimed)
        return self._point(entries, difference=least, discordant=discordant, power=self.power)

    def _shown_unpaired(self, entries: int, way: int) -> Point:
        """Return the least rise or fall that so many entries of each target show."""
        least = detectable_unpaired(
            entries / self.effect,
            self.rate,
            way,
            power=self.power,
            alpha=self.alpha,
            degrees=degrees_of_families(entries, self.options.families),
        )
        if least is None:
            return self._point(entries, rate=self.rate, power=self.power)
        other = min(max(self.rate + way * least, 0.0), 1.0)
        return self._point(entries, rate=self.rate, difference=way * least, other_rate=other, power=self.power)


def _tidy(value: float) -> float:
    """Return 0.3 for 0.1 + 0.2."""
    return round(value, _DIGITS)


# -- what cannot be asked ---------------------------------------------------------------------------------------


def _check_question(o: PowerOptions) -> None:
    wanted = {"--half-width": o.half_width, "--difference": o.difference, "--zero-hits": o.zero_hits}
    asked = [name for name, value in wanted.items() if value is not None]
    if o.entries is None and not asked:
        raise UsageError(
            "nothing to compute: give --half-width, --difference or --zero-hits to find how many entries are "
            "needed, or --entries to find what that many can show"
        )
    if o.entries is not None and asked:
        raise UsageError(
            f"--entries asks what that many entries can show, {asked[0]} how many are needed: give one of the two"
        )


def _check_use(o: PowerOptions) -> None:
    """Refuse an option that the question makes no use of, rather than pass over it."""
    of_difference = o.difference is not None or o.entries is not None
    if o.power is not None and not of_difference:
        raise UsageError("--power is about differences: give --difference or --entries as well, or leave it out")
    if (o.paired or o.discordant is not None) and not of_difference:
        name = "--paired" if o.paired else "--discordant"
        raise UsageError(f"{name} is about two targets: give --difference or --entries as well, or leave it out")
    if o.rate is None:
        return
    if o.entries is None and o.half_width is None and (o.difference is None or o.discordant is not None):
        reason = "--zero-hits" if o.difference is None else "--difference on the same entries"
        raise UsageError(f"{reason} makes no use of --rate: leave it out, or ask for a --half-width as well")


def _check_values(o: PowerOptions) -> None:
    _within("--level", o.level, LOWEST_LEVEL, HIGHEST)
    _within("--half-width", o.half_width, LEAST, 0.499, "0.05 means 5 percentage points")
    _within("--zero-hits", o.zero_hits, LEAST, 1 - LEAST, "0.01 means 1%")
    _within("--rate", o.rate, LEAST, 1 - LEAST, "0.2 means 20%; if no hit is expected, use --zero-hits")
    _within("--entries", o.entries, 1, MOST_ENTRIES)
    _within("--discordant", o.discordant, LEAST, 1, "0.3 means 30% of the entries")
    _within("--power", o.power, LOWEST_POWER, HIGHEST)


def _check_difference(o: PowerOptions) -> None:
    rate = WIDEST_RATE if o.rate is None else o.rate
    if o.difference is not None:
        _within("--difference", abs(o.difference), LEAST, 1, "0.1 means 10 percentage points, -0.1 a decrease")
    if o.paired and o.discordant is None:
        other = rate if o.difference is None else min(max(rate + o.difference, 0.0), 1.0)
        chance = rate * (1 - other) + other * (1 - rate)
        raise UsageError(
            "--paired needs --discordant, the share of entries on which only one of the two targets succeeds; at "
            f"{rate:.4g} and {other:.4g} it would be {chance:.4g} if the targets were independent, and less the "
            "more alike they are"
        )
    if o.difference is None:
        return
    if o.discordant is not None:
        if abs(o.difference) > o.discordant:
            raise UsageError(
                f"--difference {o.difference:g} cannot be larger than --discordant {o.discordant:g}: the targets "
                "differ only on entries on which one of them succeeds; raise --discordant or lower --difference"
            )
    elif not 0 <= _tidy(rate + o.difference) <= 1:
        raise UsageError(
            f"a rate of {rate:g} and a difference of {o.difference:g} leave the range 0 to 1: choose another --rate "
            "or --difference"
        )


def _check_families(o: PowerOptions) -> None:
    if (o.families is None) != (o.icc is None):
        given, missing = ("--icc", "--families") if o.families is None else ("--families", "--icc")
        meaning = {
            "--icc": "how correlated the variants of a family are: 0 not at all, 1 all succeed or all fail",
            "--families": "how many variants a family has",
        }
        raise UsageError(f"{given} needs {missing}, {meaning[missing]}")
    _within("--families", o.families, 1, LARGEST_FAMILY, "it is the number of variants in a family")
    _within("--icc", o.icc, 0, 1)
    if o.families is not None and o.entries is not None and o.entries < o.families:
        raise UsageError(f"{o.entries} entries do not make one family of {o.families:g}: raise --entries")


def _within(name: str, value: float | None, low: float, high: float, meaning: str = "") -> None:
    if value is not None and not low <= value <= high:
        explained = f"; {meaning}" if meaning else ""
        raise UsageError(f"{name} must be between {_plain(low)} and {_plain(high)}, not {value:g}{explained}")


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


# -- the report -----------------------------------------------------------------------------------------------


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
    sections = [
        Section(_title(q), (Facts(tuple(_facts(q))), Paragraph(_meaning(q)), *map(Paragraph, _cautions(q)), _grid(q)))
        for q in questions
    ]
    assumptions = Section("What these numbers assume", tuple(_assumptions(questions)))
    return Report((heading, *sections, assumptions), power)


# -- sections ---------------------------------------------------------------------------------------------------


def _title(q: PowerQuestion) -> str:
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


def _on(q: PowerQuestion) -> str:
    return "the same entries" if q.design == SAME_ENTRIES else "different entries"


def _facts(q: PowerQuestion) -> Iterator[Fact]:
    if q.wanted == "entries":
        yield from _needed(q)
    else:
        yield from _shown(q)
    point, families = q.answers[0], q.families
    if families is not None:
        kish = f"1 + ({families.size:g} - 1) times {families.icc:g} (Kish 1965)"
        whose = ", for each target" if q.design == DIFFERENT_ENTRIES else ""
        variants = f"of {families.size:g} variants each{whose}"
        yield Fact("Worth independent entries", round(point.worth), note="the number that counts")
        yield Fact("Design effect", f"{families.design_effect:.4g}", note=kish)
        yield Fact("Families", math.ceil(point.entries / families.size), note=variants)
    sides = "confidence level, one-sided" if q.about == ZERO_HITS else "confidence level, two-sided"
    test = f"two-sided test at {_percent(1 - q.level, 8)}"
    yield Fact("Level", _percent(q.level, 8), note=test if q.about == DIFFERENCE else sides)
    if q.answers[0].power is not None:
        yield Fact("Power", _percent(q.answers[0].power, 8), note="how often a difference of that size is found")


def _needed(q: PowerQuestion) -> Iterator[Fact]:
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


def _shown(q: PowerQuestion) -> Iterator[Fact]:
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
            change = _points(None if answer.difference is None else abs(answer.difference))
            yield Fact(f"Least {way}", change, note=q.method if way == "rise" else "the same")
            if answer.other_rate is not None:
                yield Fact("to", _percent(answer.other_rate), note=f"from {_percent(answer.rate)}", depth=1)


def _interval(q: PowerQuestion, point: Point) -> Estimate:
    return Estimate(point.rate, point.low, point.high, point.entries, q.unit, q.level, "wilson")


# -- plain words ------------------------------------------------------------------------------------------------


def _meaning(q: PowerQuestion) -> str:
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
        if point.difference is None:
            return (
                f"With {entries} and {_percent(point.discordant)} discordant, no difference is found in "
                f"{_percent(point.power, 8)} of such comparisons, not even if one target wins every discordant entry."
            )
        start = f"If only one target succeeds on {_percent(point.discordant)} of the entries, and "
        if q.wanted == "entries":
            return (
                f"{start}the rates differ by {_points(abs(point.difference))}, {entries} show it in "
                f"{_percent(point.power, 8)} of such comparisons. The fewer entries are discordant, the fewer are "
                "needed."
            )
        return (
            f"{start}the rates differ by {_points(point.difference)} or more, {entries} show it in at least "
            f"{_percent(point.power, 8)} of such comparisons, and a smaller one less often."
        )
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


def _cautions(q: PowerQuestion) -> Iterator[str]:
    if q.rate_assumed:
        yield "No --rate given: 50% is assumed, where intervals are widest and differences hardest to show."
    point = q.answers[0]
    rates = [(one.worth, rate) for one in q.answers for rate in (one.rate, one.other_rate) if rate is not None]
    expected = [worth * min(rate, 1 - rate) for worth, rate in rates]
    if q.design == DIFFERENT_ENTRIES and min(expected) < _FEW_EXPECTED:
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


def _assumptions(questions: Sequence[PowerQuestion]) -> Iterator[Paragraph]:
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


def _grid(q: PowerQuestion) -> Grid:
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
        number_column(
            "Rates",
            lambda p: "–" if p.other_rate is None else f"{_percent(p.rate, 3)} and {_percent(p.other_rate, 3)}",
            when=q.design == DIFFERENT_ENTRIES,
        ),
        number_column("Power", lambda point: _percent(point.power, 8), when=difference),
    ]
    columns = [*what, *entries] if q.wanted == "entries" else [*entries, *what]
    return table(q.nearby, *columns, note=_NEARBY + ("" if q.about == ZERO_HITS else _IN_POINTS))


def _percent(share: float | None, digits: int = 4) -> str:
    return "?" if share is None else f"{formats.significant(100 * share, digits)}%"


def _figure(share: float | None) -> str:
    return _NO_DIFFERENCE if share is None else formats.significant(100 * share, 4)


def _points(share: float | None) -> str:
    if share is None:
        return _NO_DIFFERENCE
    figure = formats.significant(100 * share, 4)
    return f"{figure} percentage point" + ("" if figure in ("1", "-1") else "s")
