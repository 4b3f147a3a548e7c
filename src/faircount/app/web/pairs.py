"""The pages of pairs of entries: a list of them, narrowed down, and one of them side by side, word by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import browse
from faircount.analysis.browse import EntryPreview, EntryView, FieldValues, GivenVerdict, ShownText
from faircount.analysis.compare import pairing
from faircount.analysis.compare.browse import (
    CELLS,
    DecidingTexts,
    PairList,
    deciding_texts,
    lines_where,
    previews,
)
from faircount.analysis.compare.model import Comparison, Pair
from faircount.analysis.compare.report import REASONS
from faircount.analysis.evidence import masked
from faircount.analysis.text_difference import WordDifference, word_difference
from faircount.analysis.words import WORDS
from faircount.app.web.comparisons import (
    ALONE,
    Comparisons,
    PairState,
    SharedEntries,
    cells_of_flips,
    shared_entries,
    words_of_cells,
)
from faircount.app.web.pages import FIRST_PIECE, PER_PAGE, Query, title_of
from faircount.app.web.runs import Run
from faircount.core.errors import FaircountError, InputError
from faircount.core.model import Outcome, Tally
from faircount.core.text import clip, visible

VALUES_OFFERED = 12
_LONGEST_CELL = 220
_LONGEST_REASON, _LONGEST_VALUE = 4000, 300
_AROUND = 12


class CellView(Struct, frozen=True):
    """How the entries of a pair ended, as a filter."""

    name: str
    words: str
    count: int
    href: str


class PairPreview(Struct, frozen=True):
    """A pair of entries as a line of a list."""

    id: str
    href: str
    a: EntryPreview | None
    b: EntryPreview | None

    @property
    def prompt(self) -> str:
        texts = (one.prompt for one in (self.a, self.b) if one is not None and one.prompt)
        return clip(next(texts, ""), _LONGEST_CELL)

    def response(self, side: int) -> str:
        """Return the beginning of what one side answered."""
        one = (self.a, self.b)[side]
        return "" if one is None else clip(one.response or "", _LONGEST_CELL)


class AloneEntry(Struct, frozen=True):
    """An entry that only one of the runs has."""

    entry: EntryPreview
    reason: str
    href: str


class PairsPage(Struct, frozen=True):
    """The pairs of entries that an address asks for."""

    run: Run
    base: Run
    state: PairState
    labels: tuple[str, str] = ("", "")
    outcomes: Mapping[Outcome, str] = {}
    cells: tuple[tuple[CellView, bool], ...] = ()
    facets: tuple[FieldValues, ...] = ()
    chips: tuple[tuple[str, str | None, str], ...] = ()
    total: int = 0
    rows: tuple[PairPreview, ...] = ()
    alone: tuple[AloneEntry, ...] = ()
    counts: SharedEntries | None = None
    problem: str = ""
    hint: tuple[str, ...] = ()
    previous: str = ""
    next: str = ""


def pairs_page(comparisons: Comparisons, run: Run, base: Run, query: Query) -> PairsPage:
    """Return a page of the pairs of entries."""
    state = replace(PairState.of(query), base=base.id)
    found = comparisons.of([base, run])
    c, listed = found.comparison, found.lists[0]
    pair = c.pairs[0]
    here = f"/run/{run.id}/entries"
    empty = PairsPage(
        run,
        base,
        state,
        pair.labels,
        WORDS[c.aim].outcomes,
        chips=tuple(_chips(here, state, c, pair)),
        counts=shared_entries(run, base, listed),
    )
    if state.alone:
        return _alone_page(empty, listed, pair)
    try:
        lines = lines_where(run.results(rows=True), state.where) if state.where else None
    except FaircountError as error:
        message, *hint = str(error).split("\n")
        return replace(empty, problem=message, hint=(*hint, *error.further))
    cause = state.chosen_cause
    wanted = _places(listed.chosen(state.cells, state.chosen, cause, lines))
    shown = wanted[state.offset : state.offset + state.limit]
    before, after = _pages(here, state, len(wanted))
    return replace(
        empty,
        cells=tuple(_cell_filters(here, state, c, listed.counts(listed.chosen((), state.chosen, cause, lines)))),
        facets=tuple(_facets(listed, state, lines)),
        total=len(wanted),
        rows=tuple(pair_previews(run, base, listed, shown, state)),
        previous=before,
        next=after,
    )


def _places(wanted: Any) -> list[int]:
    found: list[int] = wanted.nonzero()[0].tolist()
    return found


def _pages(here: str, state: PairState, total: int) -> tuple[str, str]:
    """Return the addresses of the page before and of the one after."""
    before = here + state.query(offset=max(state.offset - state.limit, 0)) if state.offset else ""
    following = state.offset + state.limit
    return before, here + state.query(offset=following) if following < total else ""


def pair_previews(
    run: Run, base: Run, listed: PairList, places: Sequence[int], state: PairState
) -> Iterator[PairPreview]:
    """Yield pairs with the beginnings of their texts."""
    lines = [[int(one[place]) for place in places] for one in listed.lines]
    a, b = (one.naming.of(previews(one.results(), at)) for one, at in zip((base, run), lines, strict=True))
    for number, (place, one, other) in enumerate(zip(places, *lines, strict=True), state.offset):
        href = f"/run/{run.id}/entry/{other}{state.query(at=number, offset=0)}"
        yield PairPreview(listed.ids[place], href, a.get(one), b.get(other))


def _cell_filters(
    here: str, state: PairState, c: Comparison, counts: Mapping[str, int]
) -> Iterator[tuple[CellView, bool]]:
    for name, words in words_of_cells(c).items():
        if counts[name] or name in state.cells or name != "undecided":
            yield CellView(name, words, counts[name], here + state.toggled(name)), name in state.cells


def _chips(here: str, state: PairState, c: Comparison, pair: Pair) -> Iterator[tuple[str, str | None, str]]:
    words = words_of_cells(c)
    for cell in state.cells:
        yield "pairs", words[cell], here + state.toggled(cell)
    if state.alone:
        yield "only in", pair.labels[ALONE.index(state.alone)], here + state.query(alone="", offset=0)
    if state.cause:
        yield "cause", _name_of_cause(state, c, pair), here + state.query(cause="", offset=0)
    for field, values in state.chosen.items():
        for value in values:
            yield title_of(field), value, here + state.removing(field, value)


def _name_of_cause(state: PairState, c: Comparison, pair: Pair) -> str:
    cell, number = state.chosen_cause or ("", 0)
    flips = pair.fixed if cell == cells_of_flips(c)[0] else pair.broken
    if number >= len(flips.groups):
        return "none found"
    group = flips.groups[number]
    if group.kind == "family":
        return "variants of one payload"
    return f"{title_of(group.field or 'prompts')}: {'(none)' if group.value is None else group.value}"


def _facets(listed: PairList, state: PairState, lines: Any) -> Iterator[FieldValues]:
    """Yield the values of fields among the chosen pairs; what a field itself is narrowed to leaves its others."""
    for field in listed.values:
        others = {name: values for name, values in state.chosen.items() if name != field}
        values = listed.by_value(field, listed.chosen(state.cells, others, state.chosen_cause, lines))
        if len(values) > 1 or field in state.chosen:
            shown = tuple((value, Tally(count)) for value, count in values[:VALUES_OFFERED])
            yield FieldValues(field, shown, len(values) - len(shown))


def _alone_page(page: PairsPage, listed: PairList, pair: Pair) -> PairsPage:
    """Return the entries that only one of the runs has."""
    side = ALONE.index(page.state.alone)
    run, state, other = (page.base, page.run)[side], page.state, pair.labels[1 - side]
    placed = [(int(line), reason) for reason, lines in listed.alone[side].items() for line in lines]
    shown = sorted(placed)[state.offset : state.offset + state.limit]
    found = run.naming.of(previews(run.results(), [line for line, _ in shown]))
    reasons = {**REASONS, pairing.MISSING: f"not in {other}"}
    before, after = _pages(f"/run/{page.run.id}/entries", state, len(placed))
    return replace(
        page,
        total=len(placed),
        alone=tuple(
            AloneEntry(found[line], reasons[reason], f"/run/{run.id}/entry/{line}")
            for line, reason in shown
            if line in found
        ),
        previous=before,
        next=after,
    )


# -- two entries side by side -----------------------------------------------------------------------------------


class SideView(Struct, frozen=True):
    """One side of a pair."""

    run: Run
    label: str
    view: EntryView
    attempt: browse.AttemptView | None
    href: str
    left: int
    """So many characters of the response are not on the page."""


class VerdictPair(Struct, frozen=True):
    """What one judge said of both sides."""

    judge: str
    a: GivenVerdict | None
    b: GivenVerdict | None
    reasons: WordDifference


class PairEntryPage(Struct, frozen=True):
    """An entry in both runs, word by word."""

    run: Run
    base: Run
    state: PairState
    id: str
    cell: str
    sides: tuple[SideView, SideView]
    prompts: WordDifference
    responses: WordDifference
    verdicts: tuple[VerdictPair, ...]
    fields: tuple[tuple[str, str | None, str | None, bool], ...]
    around: tuple[tuple[int, str, str, bool], ...]
    at: int
    total: int
    previous: str
    next: str
    back: str
    outcomes: Mapping[Outcome, str]


def pair_entry_page(comparisons: Comparisons, run: Run, base: Run, line: int, query: Query) -> PairEntryPage:
    """Return an entry of the run beside the same one of the baseline, in the list that the address says."""
    state = replace(PairState.of(query), base=base.id)
    found = comparisons.of([base, run])
    c, listed = found.comparison, found.lists[0]
    pair = c.pairs[0]
    view = run.naming.of(browse.entry_at(run.results(), line))
    place = listed.place(view.entry.line)
    if place is None:
        raise InputError(f"The baseline {pair.labels[0]} does not have the entry {clip(visible(view.entry.id), 80)}.")
    of_base = base.naming.of(browse.entry_at(base.results(), int(listed.lines[0][place])))
    deciding = [deciding_texts(one) for one in (of_base, view)]
    texts = [_compared_text(one.response) for one in deciding]
    prompts = [_compared_text(one.prompt)[0] for one in deciding]
    around, at, total = _around(run, listed, state, place)
    lines = {number: (href, name) for number, name, href, _ in around}
    words = {number: name for name, number in CELLS.items()}
    return PairEntryPage(
        run=run,
        base=base,
        state=state,
        id=view.entry.id,
        cell=words_of_cells(c)[words[int(listed.cells[place])]],
        sides=(
            _side(base, pair.labels[0], of_base, deciding[0], texts[0][1]),
            _side(run, pair.labels[1], view, deciding[1], texts[1][1]),
        ),
        prompts=word_difference(prompts[0], prompts[1]),
        responses=word_difference(texts[0][0], texts[1][0]),
        verdicts=tuple(_verdict_pairs(deciding[0].verdicts, deciding[1].verdicts)),
        fields=tuple(_fields(of_base, view)),
        around=around,
        at=at,
        total=total,
        previous=lines.get(at - 1, ("", ""))[0],
        next=lines.get(at + 1, ("", ""))[0],
        back=f"/run/{run.id}/entries{state.query(at=None, offset=PER_PAGE * (at // PER_PAGE))}",
        outcomes=WORDS[c.aim].outcomes,
    )


def _side(run: Run, label: str, view: EntryView, deciding: DecidingTexts, left: int) -> SideView:
    return SideView(run, label, view, deciding.attempt, f"/run/{run.id}/entry/{view.entry.line}", left)


def _around(
    run: Run, listed: PairList, state: PairState, place: int
) -> tuple[tuple[tuple[int, str, str, bool], ...], int, int]:
    """Return the pairs around one in its list, its number there, and how many there are."""
    lines = lines_where(run.results(rows=True), state.where) if state.where else None
    wanted = _places(listed.chosen(state.cells, state.chosen, state.chosen_cause, lines))
    if place not in wanted:
        wanted = [place]
    at = wanted.index(place)
    start = max(at - _AROUND, 0)
    shown = []
    for number, one in enumerate(wanted[start : at + 2 * _AROUND], start):
        href = f"/run/{run.id}/entry/{int(listed.lines[1][one])}{state.query(at=number, offset=0)}"
        shown.append((number, listed.ids[one], href, one == place))
    return tuple(shown), at, len(wanted)


def _compared_text(text: ShownText | None) -> tuple[str, int]:
    """Return as much of a text as is compared, with secrets masked, and how many characters are left."""
    if text is None:
        return "", 0
    shown, size = [], 0
    for piece in text.pieces():
        shown.append(piece)
        size += len(piece)
        if size >= FIRST_PIECE:
            break
    calls = "".join(f"\n[tool call] {name} {masked(arguments[:FIRST_PIECE])}" for name, arguments in text.calls)
    return "".join(shown)[:FIRST_PIECE] + calls, max(len(text.text) - size, 0)


def _verdict_pairs(a: Sequence[GivenVerdict], b: Sequence[GivenVerdict]) -> Iterator[VerdictPair]:
    """Yield what judges said of both sides, each judge's verdicts in their order."""
    left = list(b)
    for one in a:
        other = next((two for two in left if two.judge == one.judge), None)
        if other is not None:
            left.remove(other)
        yield _verdict_pair(one, other)
    yield from (_verdict_pair(None, other) for other in left)


def _verdict_pair(a: GivenVerdict | None, b: GivenVerdict | None) -> VerdictPair:
    first, second = ("" if one is None else masked(one.reason[:_LONGEST_REASON]) for one in (a, b))
    judge = next(one.judge for one in (a, b) if one is not None)
    return VerdictPair(judge, a, b, word_difference(first, second))


def _fields(a: EntryView, b: EntryView) -> Iterator[tuple[str, str | None, str | None, bool]]:
    """Yield the fields of both entries, and whether they are the same."""
    for name in dict.fromkeys((*a.entry.fields, *b.entry.fields)):
        values = [side.entry.fields.get(name) for side in (a, b)]
        one, other = (None if value is None else masked(value[:_LONGEST_VALUE]) for value in values)
        if one is not None or other is not None:
            yield title_of(name), one, other, values[0] == values[1]
