"""The pages of compared runs: the list of runs against a baseline, a run against it, and several runs together."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.compare.browse import DECIDED, OpenComparison, PairList, RunGrid
from faircount.analysis.compare.figures import POWER
from faircount.analysis.compare.model import Comparison, FlipGroup, Flips, Pair
from faircount.analysis.compare.report import as_report, claims, in_short
from faircount.analysis.words import WORDS
from faircount.app.web.comparisons import (
    Comparisons,
    PairState,
    SharedEntries,
    cells_of_flips,
    pairs_link,
    shared_entries,
    words_of_cells,
)
from faircount.app.web.pages import GROUPS_SHOWN, PER_PAGE, Query, RunLine, run_line, title_of, whole
from faircount.app.web.pairs import CellView, PairPreview, pair_previews
from faircount.app.web.runs import Run, Runs
from faircount.core.errors import FaircountError
from faircount.core.findings import counted
from faircount.core.model import Estimate, Finding, Outcome
from faircount.report import formats
from faircount.report.blocks import Section
from faircount.report.html import block_markup
from faircount.report.svg import difference_svg

KINDS_SHOWN = 12
LONGEST_WAIT = 1.0
"""So many seconds the list of runs is compared before it is shown; the other lines follow."""

# -- the list of runs -------------------------------------------------------------------------------------------


class ComparedLine(Struct, frozen=True):
    """A run by its difference from the baseline; without a pair where that is not known."""

    line: RunLine
    ready: bool = True
    is_base: bool = False
    error: str = ""
    pair: Pair | None = None
    difference: str = ""
    interval: Markup = Markup("")
    counts: SharedEntries | None = None
    href: str = ""
    fixed_href: str = ""
    broken_href: str = ""

    @property
    def run(self) -> Run:
        return self.line.run


class ComparedRunsPage(Struct, frozen=True):
    """The first page with a baseline: how every run differs from it."""

    base: Run
    lines: tuple[ComparedLine, ...]
    sort: str
    words: str
    waiting: bool


COMPARED_SORTS = ("label", "tool", "dataset", "both", "difference", "fixed", "broken")


def compared_runs_page(
    comparisons: Comparisons, runs: Runs, base: Run, query: Query, wait: float | None
) -> ComparedRunsPage:
    """Return all runs against the baseline; those that are not compared after some seconds say so."""
    said = dict(query)
    end = None if wait is None else time.monotonic() + min(wait, LONGEST_WAIT)
    read = runs.summed_up(wait)
    lines = []
    for run in runs.all:
        late = end is not None and time.monotonic() > end
        ready = run in read and base in read and (not late or comparisons.has([base, run]))
        lines.append(compared_line(comparisons, base, run, ready=ready))
    sort = said.get("sort", "")
    if sort.removeprefix("-") in COMPARED_SORTS:
        lines.sort(key=lambda line: _sort_key(line, sort.removeprefix("-")), reverse=sort.startswith("-"))
    waiting = any(not line.ready for line in lines)
    return ComparedRunsPage(base, tuple(lines), sort, said.get("q", ""), waiting)


def _sort_key(line: ComparedLine, name: str) -> tuple[bool, Any]:
    """Return what lines are sorted by; those without a comparison come last, or in the reverse order first."""
    texts = {"label": line.run.label, "tool": line.line.tool, "dataset": line.run.dataset}
    if name in texts:
        return False, texts[name].casefold()
    if line.pair is None or line.counts is None:
        return True, 0.0
    numbers = {
        "both": line.counts.both,
        "difference": line.pair.difference.value or 0.0,
        "fixed": len(line.pair.fixed.ids),
        "broken": len(line.pair.broken.ids),
    }
    return False, numbers[name]


def compared_line(comparisons: Comparisons, base: Run, run: Run, *, ready: bool = True) -> ComparedLine:
    """Return a run by its difference from the baseline."""
    line = run_line(run, ready=ready)
    if run is base or not ready:
        return ComparedLine(line, ready, run is base, line.error)
    try:
        found = comparisons.of([base, run])
    except FaircountError as error:
        return ComparedLine(line, error=line.error or str(error))
    return _line(found.comparison, found.comparison.pairs[0], found.lists[0], base, run, 1.0)


def _line(c: Comparison, pair: Pair, listed: PairList, base: Run, run: Run, end: float) -> ComparedLine:
    fixed, broken = cells_of_flips(c)
    # One pair of many claims nothing by itself: whether it does is said where all of them are answered for.
    claimed = bool(pair.claimed) and len(c.files) > 2
    return ComparedLine(
        run_line(run),
        pair=pair,
        difference=formats.difference(pair.difference),
        interval=Markup(difference_svg(pair.difference, end, stands_out=claimed)),
        counts=shared_entries(run, base, listed),
        href=f"/run/{run.id}?base={base.id}",
        fixed_href=pairs_link(run, base, cells=(fixed,)),
        broken_href=pairs_link(run, base, cells=(broken,)),
    )


# -- a run against the baseline ---------------------------------------------------------------------------------


class ComparedGroupLine(Struct, frozen=True):
    """A group of pairs as a difference with its interval."""

    field: str
    value: str | None
    href: str
    figures: str
    size: float
    interval: Markup
    pairs: int
    small: bool
    stands_out: bool
    p: str
    note: str = ""


class ComparedField(Struct, frozen=True):
    """The groups of a field."""

    field: str
    title: str
    lines: tuple[ComparedGroupLine, ...]
    more: int
    differing: int


class CauseView(Struct, frozen=True):
    """A group of flips with the example that stands for it."""

    group: FlipGroup
    name: str
    value: str | None
    href: str
    example: PairPreview | None


class FlipsView(Struct, frozen=True):
    """The entries that flipped one way, by what they have in common."""

    title: str
    headline: str
    meaning: str
    causes: tuple[CauseView, ...]
    nearest: CauseView | None
    rest: int
    rest_href: str
    href: str
    looked_at: int


class PairPage(Struct, frozen=True):
    """A run compared with the baseline."""

    run: Run
    base: Run
    others: tuple[Run, ...]
    problem: str = ""
    comparison: Comparison | None = None
    pair: Pair | None = None
    claims: tuple[str, ...] = ()
    labels: tuple[str, str] = ("", "")
    difference: str = ""
    interval: Markup = Markup("")
    rates: tuple[tuple[str, Estimate], ...] = ()
    facts: tuple[tuple[str, str, str], ...] = ()
    counts: SharedEntries | None = None
    cells: Mapping[str, CellView] = {}
    heads: tuple[str, str] = ("", "")
    findings: tuple[Finding, ...] = ()
    standing_out: tuple[ComparedGroupLine, ...] = ()
    tested: int = 0
    scale: str = ""
    fields: tuple[ComparedField, ...] = ()
    flips: tuple[FlipsView, ...] = ()
    corrected: Markup | None = None
    sections: tuple[tuple[str, Markup], ...] = ()
    command: str = ""


def pair_page(comparisons: Comparisons, runs: Runs, run: Run, base: Run) -> PairPage:
    """Return how a run differs from the baseline, and where."""
    others = tuple(one for one in runs.all if one is not run)
    command = shlex.join(["faircount", "results", "compare", base.path, run.path])
    if run is base:
        return PairPage(run, base, others, "This is the baseline: choose another run to compare with it.")
    try:
        found = comparisons.of([base, run])
    except FaircountError as error:
        return PairPage(run, base, others, str(error), command=command)
    c, listed = found.comparison, found.lists[0]
    pair = c.pairs[0]
    page = PairPage(
        run=run,
        base=base,
        others=others,
        problem=comparisons.problem([base, run]),
        comparison=c,
        pair=pair,
        claims=tuple(claims(c)),
        labels=pair.labels,
        difference=formats.difference(pair.difference),
        interval=Markup(difference_svg(pair.difference, 1.0, stands_out=bool(pair.claimed))),
        rates=tuple(zip(pair.labels, (pair.rate_a, pair.rate_b), strict=True)),
        facts=tuple(_facts(pair)),
        counts=shared_entries(run, base, listed),
        findings=c.findings,
        corrected=next((_drawn(one) for one in as_report(c).sections if one.title == _CORRECTED), None),
        sections=_other_sections(c),
        command=command,
    )
    if not pair.shares_entries:
        return page
    groups = [group for groups in pair.by.values() for group in groups]
    tested = sum(group.p is not None for group in groups)
    end = formats.span(group.difference for group in groups)
    fields = tuple(_field(run, base, pair, field, end) for field in pair.by)
    standing_out = [line for one in fields for line in one.lines if line.stands_out]
    return replace(
        page,
        cells=_cell_views(run, base, c, pair),
        heads=("succeeded", "did not") if c.aim == "attack" else ("passed", "did not"),
        standing_out=tuple(sorted(standing_out, key=lambda line: -line.size)),
        tested=tested,
        scale=f"{100 * end:g}",
        fields=tuple(one for one in fields if sum(line.value is not None for line in one.lines) > 1),
        flips=tuple(_flips(run, base, found)),
    )


def _facts(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """Yield the test, and what the comparison could have shown."""
    tests = {"families": "Test over families", "mcnemar": "McNemar's exact test", "fisher": "Fisher's exact test"}
    if pair.test is not None:
        families = "" if pair.families is None else counted(pair.families, "family", "families")
        yield tests[pair.test], f"p {formats.p_value(pair.p)}", families
    if pair.detectable is not None:
        often = f"{formats.exact_percent(POWER)} of the time"
        yield "Could have shown", formats.points(pair.detectable), often


def _cell_views(run: Run, base: Run, c: Comparison, pair: Pair) -> dict[str, CellView]:
    """Return the four cells of the table; each is a filter."""
    words = words_of_cells(c)
    return {
        name: CellView(name, words[name], getattr(pair, name), pairs_link(run, base, cells=(name,))) for name in DECIDED
    }


def _field(run: Run, base: Run, pair: Pair, field: str, end: float) -> ComparedField:
    groups = pair.by[field]
    lines = []
    for group in groups[:GROUPS_SHOWN]:
        lines.append(
            ComparedGroupLine(
                field,
                group.value,
                pairs_link(run, base, chosen={field: (group.value,)}, cells=DECIDED),
                formats.difference(group.difference),
                abs(group.difference.value or 0.0),
                Markup(difference_svg(group.difference, end, stands_out=group.stands_out)),
                group.paired,
                group.small,
                group.stands_out,
                "" if group.adjusted_p is None else formats.p_value(group.adjusted_p),
                "one family: not tested" if group.one_family else "",
            )
        )
    return ComparedField(field, title_of(field), tuple(lines), len(groups) - len(lines), pair.differing_values[field])


_CORRECTED = "Corrected for the judge"
_REST = ("Files", "Scores", "What could not be paired", "Limits of these numbers", "Sources")


def _other_sections(c: Comparison) -> tuple[tuple[str, Markup], ...]:
    """Return the sections of the report that the page has no form of its own for."""
    return tuple((section.title, _drawn(section)) for section in as_report(c).sections if section.title in _REST)


def _drawn(section: Section) -> Markup:
    return Markup("".join(block_markup(block, section).text for block in section.blocks))


# -- what flips have in common ----------------------------------------------------------------------------------


def _flips(run: Run, base: Run, found: OpenComparison) -> Iterator[FlipsView]:
    """Yield what was broken, and then what was fixed."""
    c, listed = found.comparison, found.lists[0]
    pair, (fixed, broken) = c.pairs[0], cells_of_flips(c)
    won = "succeed" if c.aim == "attack" else "pass"
    kinds = (("Broken", "regression", pair.broken, broken), ("Fixed", "fix", pair.fixed, fixed))
    for title, noun, flips, cell in kinds:
        if not flips.ids:
            continue
        better, worse = pair.labels if cell == "only_a" else pair.labels[::-1]
        causes = [
            _cause(run, base, flips.groups[number], listed, f"{cell}.{number}") for number in range(len(flips.groups))
        ]
        standing = [cause for cause in causes if cause.group.stands_out]
        rest = len(listed.in_common[cell][-1])
        verb = f"{won}{'es' if c.aim == 'task' else 's'}" if len(flips.ids) == 1 else won
        yield FlipsView(
            title,
            headline(flips, noun),
            f"{verb} in {better} and not in {worse}",
            tuple(standing),
            next((cause for cause in causes if not cause.group.stands_out), None),
            rest,
            pairs_link(run, base, cells=(cell,), cause=f"{cell}.{len(flips.groups)}"),
            pairs_link(run, base, cells=(cell,)),
            flips.looked_at,
        )


def headline(flips: Flips, noun: str) -> str:
    """Return how many entries flipped, and from how many causes."""
    causes = sum(group.stands_out for group in flips.groups)
    named = counted(len(flips.ids), noun, "fixes" if noun == "fix" else f"{noun}s")
    return f"{named}, {counted(causes, 'cause')}" if causes else f"{named}, no common cause found"


def _cause(run: Run, base: Run, group: FlipGroup, listed: PairList, cause: str) -> CauseView:
    cell, _, number = cause.partition(".")
    members = listed.in_common[cell][int(number)]
    names = {"family": "Variants of one payload", "text": "Prompts alike"}
    name = names.get(group.kind) or title_of(group.field or "")
    state = PairState(base=base.id, cells=(cell,), cause=cause)
    example = next(pair_previews(run, base, listed, members[:1].tolist(), state), None)
    return CauseView(group, name, group.value, pairs_link(run, base, cells=(cell,), cause=cause), example)


# -- several runs -----------------------------------------------------------------------------------------------


class GridCell(Struct, frozen=True):
    """What an entry did in one run; without an outcome the run does not have it."""

    outcome: Outcome | None
    href: str = ""


class MatrixPage(Struct, frozen=True):
    """Runs compared with the first of them, and what each entry did in each."""

    runs: tuple[Run, ...]
    problem: str = ""
    comparison: Comparison | None = None
    claims: tuple[str, ...] = ()
    lines: tuple[ComparedLine, ...] = ()
    scale: str = ""
    findings: tuple[Finding, ...] = ()
    together: Markup = Markup("")
    labels: tuple[str, ...] = ()
    kinds: tuple[tuple[str, int, str], ...] = ()
    """Which runs succeeded, on how many entries, and where in the map these begin."""
    grid: tuple[tuple[str, tuple[GridCell, ...]], ...] = ()
    offset: int = 0
    differing: int = 0
    alike: int = 0
    previous: str = ""
    next: str = ""
    sections: tuple[tuple[str, Markup], ...] = ()
    command: str = ""
    outcomes: Mapping[Outcome, str] = {}


def matrix_page(comparisons: Comparisons, chosen: Sequence[Run], query: Query) -> MatrixPage:
    """Return runs against the first of them, and a map of the entries that are not alike in all."""
    if len(chosen) < 2:
        return MatrixPage(tuple(chosen), "Choose two or more runs to compare.")
    try:
        found = comparisons.of(chosen)
    except FaircountError as error:
        return MatrixPage(tuple(chosen), str(error))
    c, base, grid = found.comparison, chosen[0], found.grid
    assert grid is not None
    runs = {file.path: run for file, run in zip(c.files, chosen, strict=True)}
    against = [(pair, listed) for pair, listed in zip(c.pairs, found.lists, strict=True) if runs[pair.a] is base]
    end = formats.span(pair.difference for pair, _ in against)
    lines = [_line(c, pair, listed, base, runs[pair.b], end) for pair, listed in against]
    differing, kinds = grid.differing()
    labels = tuple(file.label for file in c.files)
    offset = whole(dict(query).get("offset"), 0)
    here = f"/compare?{urlencode([('run', run.id) for run in chosen])}"
    return MatrixPage(
        tuple(chosen),
        comparisons.problem(chosen),
        comparison=c,
        claims=tuple(claims(c)),
        lines=tuple(lines),
        scale=f"{100 * end:g}",
        findings=c.findings,
        together=next(_drawn(one) for one in in_short(c) if one.title == "All files together"),
        labels=labels,
        kinds=tuple(_kinds(kinds, labels, here)),
        grid=tuple(
            (grid.ids[row], tuple(_grid_cells(chosen, grid, row)))
            for row in differing[offset : offset + PER_PAGE].tolist()
        ),
        offset=offset,
        differing=len(differing),
        alike=len(grid.ids) - len(differing),
        previous=f"{here}&offset={max(offset - PER_PAGE, 0)}" if offset else "",
        next=f"{here}&offset={offset + PER_PAGE}" if offset + PER_PAGE < len(differing) else "",
        sections=_other_sections(c),
        command=shlex.join(["faircount", "results", "compare", *(run.path for run in chosen)]),
        outcomes=WORDS[c.aim].outcomes,
    )


def _kinds(
    kinds: Sequence[tuple[tuple[int, ...], int]], labels: Sequence[str], here: str
) -> Iterator[tuple[str, int, str]]:
    """Yield the most frequent kinds of entries: the runs that succeeded, and where such entries begin."""
    start = 0
    for runs, count in kinds[:KINDS_SHOWN]:
        yield f"only {', '.join(labels[run] for run in runs)}", count, f"{here}&offset={start}"
        start += count


def _grid_cells(runs: Sequence[Run], grid: RunGrid, row: int) -> Iterator[GridCell]:
    for number, run in enumerate(runs):
        line = int(grid.lines[row, number])
        against = f"?base={runs[0].id}" if number else ""
        yield GridCell(grid.outcome(row, number), "" if line < 0 else f"/run/{run.id}/entry/{line}{against}")
