"""What each page shows: plain functions from runs and an address to a typed context, which a template lays out.

No markup is made here but by the figures of the report. Texts of records are handed on as they are: templates escape
them, and make every hidden character visible, wherever they put them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import browse
from faircount.analysis.browse import AttemptView, EntryFilter, EntryPage, EntryView, FieldValues, ShownText
from faircount.analysis.evidence import common_beginning, masked
from faircount.analysis.grouping import stands_out
from faircount.analysis.report import LIMITS, as_report, lead, rate_of
from faircount.analysis.report_details import BARS_SHOWN, FIELD_TITLES
from faircount.analysis.words import WORDS
from faircount.app.web.runs import RUNNING, Run, Runs
from faircount.core.errors import FaircountError, UsageError
from faircount.core.model import Analysis, Estimate, FalsePositives, Finding, Group, Outcome
from faircount.core.text import clip, clip_middle, visible
from faircount.core.xray import XRay, xray
from faircount.ledger import entry_list
from faircount.report import blocks, formats
from faircount.report.html import block_markup
from faircount.report.svg import along, bars_svg, heat_step, interval_svg

PER_PAGE = 50
MOST_PER_PAGE = 200
FIRST_PIECE = 24_000
"""So many characters of a text are in a page; the others are sent when they are asked for."""
GROUPS_SHOWN = 12
FIELDS_OFFERED = 24
"""So many fields are offered to narrow entries down; others can be named in a query."""
FEW = 20
"""Fewer entries than this show little: their cell of a heat map is pale."""
_LONGEST_CELL = 220
_AROUND = 160
_SHOWN_AROUND = 12
LEAST_ALIKE = 5
"""So many letters the names of two files of one guardrail have in common."""
OUTCOME_ORDER = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL, Outcome.ERROR, Outcome.UNJUDGED)

Query = Sequence[tuple[str, str]]


# -- addresses --------------------------------------------------------------------------------------------------


class ListState(Struct, frozen=True):
    """Which entries a page is about and how they are listed: what its address says, and nothing else does."""

    chosen: Mapping[str, tuple[str | None, ...]] = {}
    where: str = ""
    sort: str = ""
    offset: int = 0
    limit: int = PER_PAGE
    columns: tuple[str, ...] = ()
    at: int | None = None
    """The place in the list of the entry that is open."""

    @classmethod
    def of(cls, query: Query) -> ListState:
        """Read an address; what it does not understand is left out."""
        chosen: dict[str, tuple[str | None, ...]] = {}
        for name, value in query:
            if name.startswith("f."):
                field = name.removeprefix("f.")
                chosen[field] = (*chosen.get(field, ()), value or None)
        said = dict(query)
        return cls(
            chosen,
            said.get("where", "").strip(),
            said.get("sort", ""),
            whole(said.get("offset"), 0),
            min(max(whole(said.get("limit"), PER_PAGE), 1), MOST_PER_PAGE),
            tuple(dict.fromkeys(value for name, value in query if name == "col" and value)),
            whole(said.get("at"), -1) if said.get("at", "").isdecimal() else None,
        )

    @property
    def asks_rows(self) -> bool:
        """Whether the rows of entries are asked about, or what each judge said of them."""
        return bool(self.where) or self.only.asks_judges

    @property
    def only(self) -> EntryFilter:
        """The entries that are wanted."""
        return EntryFilter(self.chosen, self.where or None)

    def query(self, **changes: Any) -> str:
        """Return the address of this page, or of one that differs in some parts."""
        state = replace(self, **changes)
        words = [(f"f.{field}", value or "") for field, values in state.chosen.items() for value in values]
        words += [("where", state.where)] if state.where else []
        words += [("sort", state.sort)] if state.sort else []
        words += [("offset", str(state.offset))] if state.offset else []
        words += [("limit", str(state.limit))] if state.limit != PER_PAGE else []
        words += [("col", column) for column in state.columns]
        words += [("at", str(state.at))] if state.at is not None else []
        return f"?{urlencode(words, errors='replace')}" if words else ""

    def adding(self, field: str, value: str | None) -> str:
        """Return the address with one more value to choose by."""
        values = (*(one for one in self.chosen.get(field, ()) if one != value), value)
        return self.query(chosen={**self.chosen, field: values}, offset=0, at=None)

    def removing(self, field: str, value: str | None) -> str:
        """Return the address without a value to choose by."""
        left = tuple(one for one in self.chosen.get(field, ()) if one != value)
        others = {name: values for name, values in self.chosen.items() if name != field}
        return self.query(chosen={**others, field: left} if left else others, offset=0, at=None)

    def sorted_by(self, name: str) -> str:
        """Return the address with another order; the same one again turns it round."""
        return self.query(sort=f"-{name}" if self.sort == name else name, offset=0, at=None)


def whole(text: str | None, otherwise: int) -> int:
    """Return the whole number that an address says."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 13 else otherwise


def entries_link(run: Run, **chosen: str | None) -> str:
    """Return the address of the entries of a run that have some values."""
    return link_to(run, {name: (value,) for name, value in chosen.items()})


def link_to(run: Run, chosen: Mapping[str, tuple[str | None, ...]]) -> str:
    return f"/run/{run.id}/entries{ListState(chosen).query()}"


def title_of(field: str) -> str:
    """Return what people call a field."""
    if field == entry_list.OUTCOME:
        return "outcome"
    return FIELD_TITLES.get(field, field)


# -- runs -------------------------------------------------------------------------------------------------------


class RunLine(Struct, frozen=True):
    """A run as a line of the first page; without figures while they are being worked out."""

    run: Run
    ready: bool
    state: str = ""
    error: str = ""
    tool: str = ""
    aim: str = ""
    rate: Estimate | None = None
    rate_name: str = ""
    interval: Markup = Markup("")
    total: int = 0
    errors: int = 0
    blocks: int = 0
    findings: int = 0
    serious: int = 0
    attempts: int = 0

    @property
    def date(self) -> str:
        return shown_date(self.run.date)


class RunsPage(Struct, frozen=True):
    """The first page: all runs."""

    lines: tuple[RunLine, ...]
    sort: str
    words: str
    waiting: bool
    live: bool


def shown_date(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


RUN_SORTS = ("label", "tool", "dataset", "date", "total", "rate", "errors", "blocks", "findings")


def runs_page(runs: Runs, query: Query, wait: float | None) -> RunsPage:
    """Return all runs; those whose figures are not there after some seconds say so."""
    said = dict(query)
    ready = {run.id for run in runs.summed_up(wait)}
    lines = [run_line(run, ready=run.id in ready) for run in runs.all]
    sort = said.get("sort", "")
    name = sort.removeprefix("-")
    if name in RUN_SORTS:
        lines.sort(key=lambda line: _run_key(line, name), reverse=sort.startswith("-"))
    waiting = len(ready) < len(runs.all)
    return RunsPage(tuple(lines), sort, said.get("q", ""), waiting, any(line.state == RUNNING for line in lines))


def _run_key(line: RunLine, name: str) -> tuple[bool, Any]:
    if name == "rate":
        value = None if line.rate is None else line.rate.value
        return value is None, value or 0.0
    if name == "date":
        return line.run.date is None, "" if line.run.date is None else line.run.date.isoformat()
    if name in ("label", "dataset"):
        return False, getattr(line.run, name).casefold()
    return False, getattr(line, name)


def run_line(run: Run, *, ready: bool = True) -> RunLine:
    """Return a run in one line."""
    state = run.journal().state
    if not ready:
        return RunLine(run, False, state)
    found = run.summary()
    if found.analysis is None:
        return RunLine(run, True, state, found.error)
    a = found.analysis
    rate = rate_of(a)
    source = a.sources[0] if a.sources else None
    return RunLine(
        run=run,
        ready=True,
        state=state,
        tool="" if source is None else " ".join(filter(None, [source.tool, source.tool_version or ""])),
        aim=a.aim,
        rate=rate,
        rate_name="False positive rate" if a.role == "benign" else WORDS[a.aim].rate,
        interval=Markup(interval_svg(rate)),
        total=a.tally.total,
        errors=a.tally.error,
        blocks=a.tally.guardrail,
        findings=len(a.findings),
        serious=sum(item.severity.value != "info" for item in a.findings),
        attempts=a.attempts,
    )


# -- a run ------------------------------------------------------------------------------------------------------


class Segment(Struct, frozen=True):
    """A part of the bar of outcomes."""

    outcome: str
    word: str
    count: int
    share: str
    x: str
    width: str
    href: str


class FindingView(Struct, frozen=True):
    """A finding, and where the entries are that it is about."""

    finding: Finding
    href: str
    places: tuple[tuple[str, str], ...]


class GroupLine(Struct, frozen=True):
    """A group of entries as a point with its interval."""

    value: str | None
    href: str
    figures: str
    count: int
    interval: Markup
    small: bool
    stands_out: int


class Breakdown(Struct, frozen=True):
    """The groups of a field."""

    field: str
    title: str
    lines: tuple[GroupLine, ...]
    more: int
    note: str


class HeatCell(Struct, frozen=True):
    """A cell of a heat map; without a rate it has no entries."""

    rate: str
    words: str
    count: int
    step: int
    pale: bool
    href: str


class HeatMapView(Struct, frozen=True):
    """The rates of two fields crossed."""

    rows: str
    columns: str
    across: tuple[str | None, ...]
    lines: tuple[tuple[str | None, tuple[HeatCell | None, ...]], ...]


class RunPage(Struct, frozen=True):
    """A run: what it comes to, and the ways to the entries behind every number."""

    run: Run
    line: RunLine
    analysis: Analysis
    sentence: str
    segments: tuple[Segment, ...]
    findings: tuple[FindingView, ...]
    breakdowns: tuple[Breakdown, ...]
    fields: tuple[str, ...]
    heat_map: HeatMapView | None
    budget: Markup | None
    errors: tuple[tuple[str, str, int, int], ...]
    categories: tuple[tuple[str, str, int, str], ...]
    guardrail: FalsePositives | None
    benign: tuple[Run, ...]
    benign_chosen: str
    judges: tuple[tuple[str, int, str], ...]
    correction: Markup | None
    sections: tuple[tuple[str, Markup], ...]
    limits: tuple[str, ...]
    problem: str = ""


def run_page(runs: Runs, run: Run, query: Query, judge_quality: str | None) -> RunPage:
    """Return a run; the address says which fields are crossed, and which run has the benign prompts."""
    said = dict(query)
    asked: dict[str, Any] = {"figures": True}
    problem = ""
    line = run_line(run)
    if line.error:
        raise UsageError(line.error)
    if judge_quality is not None and line.aim != "task":
        asked["judge_quality"] = judge_quality
    try:
        a = run.analysis(**asked)
    except FaircountError as error:
        problem, a = str(error), run.analysis(figures=True)
    benign = tuple(other for other in runs.all if other is not run and role_of_run(other) == "benign")
    chosen = runs.find(said.get("benign", "")) or (partner_of(run, benign) if a.role == "guardrail" else None)
    guardrail = None
    if a.role == "guardrail" and chosen is not None:
        try:
            guardrail = run.analysis(details=False, false_positive_checks=chosen.file).false_positives
        except FaircountError as error:
            problem = str(error)
    known = browse.fields(run.results())
    heat_map, trouble = _heat_map(run, a, said.get("rows"), said.get("columns"))
    return RunPage(
        run=run,
        line=line,
        analysis=a,
        sentence=lead(a),
        segments=tuple(_segments(run, a)),
        findings=tuple(_finding(run, item) for item in a.findings),
        breakdowns=tuple(_breakdowns(run, a)),
        fields=known,
        heat_map=heat_map,
        budget=_budget(a),
        errors=tuple(
            (kind.kind, entries_link(run, error_kind=kind.kind), kind.rows, kind.entries) for kind in a.errors
        ),
        categories=tuple(
            (one.category, entries_link(run, guardrail_category=one.category), one.entries, formats.estimate(one.rate))
            for one in a.guardrail_categories
        ),
        guardrail=guardrail,
        benign=benign,
        benign_chosen="" if chosen is None else chosen.id,
        judges=tuple(_judges(run)),
        correction=_correction(a),
        sections=tuple(_other_sections(a)),
        limits=a.limits,
        problem=problem or trouble,
    )


def role_of_run(run: Run) -> str:
    analysis = run.summary().analysis if run.is_summed_up else None
    return "" if analysis is None else analysis.role


def partner_of(run: Run, benign: Sequence[Run]) -> Run | None:
    """Return the run with benign prompts whose file is named most like this one, if it is of the same guardrail."""

    def alike(other: Run) -> int:
        same_folder = Path(run.path).parent == Path(other.path).parent
        return common_beginning(Path(run.path).name, Path(other.path).name) if same_folder else 0

    best = max(benign, key=alike, default=None)
    return best if best is not None and alike(best) >= LEAST_ALIKE else None


def _segments(run: Run, a: Analysis) -> Iterator[Segment]:
    words, done = WORDS[a.aim].outcomes, 0.0
    for outcome in OUTCOME_ORDER:
        count = getattr(a.tally, outcome.value)
        if count:
            share = count / a.tally.total
            yield Segment(
                outcome.value,
                "blocked" if outcome is Outcome.GUARDRAIL else words[outcome],
                count,
                formats.percent(share),
                along(done),
                along(share),
                entries_link(run, outcome=outcome.value),
            )
            done += share


def _finding(run: Run, item: Finding) -> FindingView:
    href = entries_link(run, finding=item.code) if entry_list.has_rows_behind(item.code) else ""
    places = []
    for where in item.where[:5]:
        path, _, line = where.rpartition(":")
        known = line.isdecimal() and path == run.path
        places.append((f"line {line}" if known else where, f"/run/{run.id}/line/{line}" if known else ""))
    return FindingView(item, href, tuple(places))


def _breakdowns(run: Run, a: Analysis) -> Iterator[Breakdown]:
    for field, groups in a.breakdowns.items():
        named = [group for group in groups if group.value is not None]
        if len(named) < 2 or a.slices[field].same_as is not None:
            continue
        shown = sorted(range(len(groups)), key=lambda at: (not stands_out(groups[at]), at))[:GROUPS_SHOWN]
        lines = tuple(_group(run, field, groups[at]) for at in sorted(shown))
        yield Breakdown(field, title_of(field), lines, len(groups) - len(lines), a.slices[field].untested or "")


def _group(run: Run, field: str, group: Group) -> GroupLine:
    return GroupLine(
        group.value,
        link_to(run, {field: (group.value,)}),
        formats.estimate(group.rate),
        group.tally.total,
        Markup(interval_svg(group.rate)),
        group.small,
        stands_out(group),
    )


def _heat_map(run: Run, a: Analysis, rows: str | None, columns: str | None) -> tuple[HeatMapView | None, str]:
    try:
        found = browse.crossing(run.results(), rows, columns) if rows and columns and rows != columns else a.crossing
    except UsageError as error:
        return None, str(error)
    if found is None:
        return None, ""
    values = [cell.value for line in found.cells for cell in line if cell is not None and cell.value is not None]
    end = next((end for end in formats.AXIS_ENDS if max(values, default=1.0) <= end), 1.0)
    lines = []
    for row, cells in zip(found.rows, found.cells, strict=True):
        drawn = []
        for column, cell in zip(found.columns, cells, strict=True):
            chosen = {found.row_field: (row,), found.column_field: (column,)}
            drawn.append(
                None
                if cell is None
                else HeatCell(
                    formats.rate(cell),
                    formats.estimate(cell),
                    cell.n,
                    heat_step((cell.value or 0.0) / end),
                    cell.n < FEW,
                    link_to(run, chosen),
                )
            )
        lines.append((row, tuple(drawn)))
    return HeatMapView(found.row_field, found.column_field, found.columns, tuple(lines)), ""


def _budget(a: Analysis) -> Markup | None:
    within = a.success_within
    if within is None or within.refused or len(within.steps) < 2:
        return None
    bars = tuple(blocks.Bar(f"within {step.attempts:,}", step.within) for step in within.steps[:BARS_SHOWN])
    return Markup(bars_svg(blocks.Bars("Success within k requests", bars, a.rates.asr)))


def _judges(run: Run) -> Iterator[tuple[str, int, str]]:
    known = browse.fields(run.results())
    if "judge_name" in known:
        for value, tally in run.results().tally("judge_name").items():
            name = run.naming.of(value)
            yield name or "(none)", tally.total, link_to(run, {"judge_name": (name,)})


def _correction(a: Analysis) -> Markup | None:
    if a.correction is None:
        return None
    from faircount.analysis.correct import report as correction_report

    section = correction_report.section(a, a.correction)
    return Markup("".join(block_markup(block, section).text for block in section.blocks))


_SHOWN_ELSEWHERE = ("Breakdown by", "Errors by kind", "Guardrail categories", LIMITS, "Sources", "Success within")


def _other_sections(a: Analysis) -> Iterator[tuple[str, Markup]]:
    """Yield the sections of the report that the page has no form of its own for."""
    for section in as_report([a]).sections[1:]:
        if not section.title.startswith(_SHOWN_ELSEWHERE) and section.level > 1:
            drawn = "".join(block_markup(block, section).text for block in section.blocks)
            yield section.title, Markup(drawn)


# -- entries ----------------------------------------------------------------------------------------------------


class ColumnView(Struct, frozen=True):
    """A column of the table of entries; `direction` is that in which it is sorted."""

    name: str
    title: str
    href: str
    direction: str
    shown: bool = True


class EntriesPage(Struct, frozen=True):
    """The entries of a run that an address asks for."""

    run: Run
    state: ListState
    page: EntryPage | None
    rate: str
    columns: tuple[ColumnView, ...]
    offered: tuple[ColumnView, ...]
    facets: tuple[FieldValues, ...]
    chips: tuple[tuple[str, str, str | None, str], ...]
    problem: str = ""
    hint: tuple[str, ...] = ()
    previous: str = ""
    next: str = ""

    def value(self, row: browse.EntryPreview, name: str) -> str:
        """Return what stands in a cell, short enough for a table."""
        entry = row.entry
        if name == "prompt":
            return clip(row.prompt or "", _LONGEST_CELL)
        if name == "response":
            return clip(row.response or "", _LONGEST_CELL)
        if name == "response_time":
            return "" if entry.response_time is None else formats.seconds(entry.response_time)
        if name == "attempts":
            return f"{entry.requests:,}"
        if name == "line":
            return f"{entry.line:,}"
        if name == "attack_name":
            return entry.attack or ""
        return clip_middle(entry.fields.get(name) or "", 60)

    def entry_link(self, row: browse.EntryPreview, number: int) -> str:
        """Return the address of an entry, which keeps the list that it is part of."""
        at = (0 if self.page is None else self.page.offset) + number
        return f"/run/{self.run.id}/entry/{row.entry.line}{self.state.query(at=at, offset=0)}"


TEXT_COLUMNS = ("prompt", "response")
_COLUMN_TITLES = {
    "line": "Line",
    "attempts": "Requests",
    "response_time": "Time",
    "prompt": "Prompt",
    "response": "Response",
}


def entries_page(run: Run, query: Query) -> EntriesPage:
    """Return a page of the table of entries."""
    state = ListState.of(query)
    results = run.results(rows=state.asks_rows)
    known = browse.fields(run.results())
    columns = _columns(state, known)
    offered = tuple(
        ColumnView(name, _column_title(name), "", "", name in columns)
        for name in ("prompt", "response", "attempts", "response_time", "line", *known)
    )
    heads = tuple(
        ColumnView(
            name,
            _column_title(name),
            "" if name in TEXT_COLUMNS else f"/run/{run.id}/entries{state.sorted_by(name)}",
            {name: "ascending", f"-{name}": "descending"}.get(state.sort, ""),
        )
        for name in ("id", "outcome", *columns)
    )
    chips = tuple(
        (field, title_of(field), value, f"/run/{run.id}/entries{state.removing(field, value)}")
        for field, values in state.chosen.items()
        for value in values
    )
    empty = EntriesPage(run, state, None, "", heads, offered, (), chips)
    try:
        texts = any(name in TEXT_COLUMNS for name in columns)
        page = run.naming.of(
            browse.entries(results, state.only, state.sort or None, state.offset, state.limit, texts=texts)
        )
        facets = tuple(browse.values(results, state.only, ("outcome", *known[:FIELDS_OFFERED], *state.chosen)))
    except FaircountError as error:
        message, *hint = str(error).split("\n")
        return replace(empty, problem=message, hint=(*hint, *error.further))
    before = state.query(offset=max(state.offset - state.limit, 0)) if state.offset else None
    after = state.query(offset=state.offset + state.limit) if state.offset + state.limit < page.tally.total else None
    return replace(
        empty,
        page=page,
        rate=_rate_of_chosen(page),
        facets=run.naming.of(facets),
        previous="" if before is None else f"/run/{run.id}/entries{before}",
        next="" if after is None else f"/run/{run.id}/entries{after}",
    )


def _rate_of_chosen(page: EntryPage) -> str:
    """Return the share of successes, without an interval: what was chosen by hand is no sample of anything."""
    total = page.tally.total
    return formats.percent(page.tally.success / total) if total else formats.UNDEFINED


def _column_title(name: str) -> str:
    if name in ("id", "outcome"):
        return name.capitalize() if name == "outcome" else "Id"
    title = _COLUMN_TITLES.get(name) or title_of(name)
    return title[:1].upper() + title[1:]


def _columns(state: ListState, known: Sequence[str]) -> tuple[str, ...]:
    if state.columns:
        allowed = {"prompt", "response", "attempts", "response_time", "line", *known}
        return tuple(name for name in state.columns if name in allowed)
    return ("prompt", "response", *known[:2])


_WORD = re.compile(r"[\w.\-]*$")
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains", "like", "matches", "in", "has")
_TEST = re.compile(r"([\w.\-]+)\s*(?:!?=|[<>]=?|contains|like|matches|has)\s*\"?([^\"\s]*)$")
_AFTER_FIELD = re.compile(r"([\w.\-]+)\s+(\w*)$")
_MOST_OFFERED = 20
_LONGEST_BEGUN = 200


def completions(run: Run, text: str) -> dict[str, Any]:
    """Return what may come next in a query: where the word that is being written begins, and what it may become."""
    results, known = run.results(), browse.fields(run.results())
    fields = ("outcome", "strategy", "file", "line", *known, "response", "input", "error")
    before = max(0, len(text) - _LONGEST_BEGUN)
    text = " " * before + text[before:]  # only its end counts, and places stay as they are
    test = _TEST.search(text, before)
    if test is not None and test[1] in fields:
        found = browse.words(results, test[1], test[2], _MOST_OFFERED)
        start = test.start(2) - (1 if text[: test.start(2)].endswith('"') else 0)
        items = [
            word if re.fullmatch(r"[A-Za-z_][\w\-]*", word) else json.dumps(word, ensure_ascii=False) for word in found
        ]
        return {"start": start, "items": items}
    after = _AFTER_FIELD.search(text, before)
    if after is not None and after[1] in fields:
        return {"start": after.start(2), "items": [word for word in _OPERATORS if word.startswith(after[2])]}
    word = _WORD.search(text, before)
    begun = "" if word is None else word[0]
    begins = [field for field in dict.fromkeys(fields) if field.casefold().startswith(begun.casefold())]
    return {"start": len(text) - len(begun), "items": begins[:_MOST_OFFERED]}


# -- an entry ---------------------------------------------------------------------------------------------------


class TextView(Struct, frozen=True):
    """A text as far as a page has it: before, in and after the passage that matters, and how much is left."""

    text: ShownText
    before: str
    passage: str
    after: str
    left: int
    href: str
    xray: str
    notices: tuple[str, ...] = ()


class OtherRun(Struct, frozen=True):
    """What the same entry did in another run."""

    run: Run
    outcome: Outcome
    href: str


class EntryPageView(Struct, frozen=True):
    """An entry with all that is recorded of it, in its list."""

    run: Run
    state: ListState
    view: EntryView
    attempts: tuple[
        tuple[AttemptView, tuple[TextView, ...], tuple[tuple[browse.ShownRequest, tuple[TextView, ...]], ...]], ...
    ]
    around: EntryPage | None
    at: int
    previous: str
    next: str
    back: str
    others: tuple[OtherRun, ...]
    passage: tuple[str, str, str] | None
    command: str
    again: str
    family: str
    outcomes: Mapping[Outcome, str]

    def link(self, line: int, at: int | None) -> str:
        """Return the address of another entry of the list."""
        return f"/run/{self.run.id}/entry/{line}{self.state.query(at=at)}"


def entry_page(runs: Runs, run: Run, line: int, query: Query) -> EntryPageView:
    """Return an entry by the line of one of its rows, with its neighbours in the list that the address says."""
    state = ListState.of(query)
    view = browse.entry_at(run.results(), line)
    results = run.results(rows=state.asks_rows)
    at, around = _around(results, state, view)
    before = after = ""
    if around is not None:
        numbers = {around.offset + place: row.entry for place, row in enumerate(around.rows)}
        prior, later = numbers.get(at - 1), numbers.get(at + 1)
        before = "" if prior is None else f"/run/{run.id}/entry/{prior.line}{state.query(at=at - 1)}"
        after = "" if later is None else f"/run/{run.id}/entry/{later.line}{state.query(at=at + 1)}"
    attempts = tuple(
        (
            attempt,
            tuple(_text_view(run, attempt.line, text) for text in attempt.texts),
            tuple(
                (request, tuple(_text_view(run, attempt.line, text) for text in request.texts))
                for request in attempt.history
            ),
        )
        for attempt in view.attempts
    )
    offset = state.limit * (at // state.limit)
    return EntryPageView(
        run=run,
        state=state,
        view=view,
        attempts=attempts,
        around=around,
        at=at,
        previous=before,
        next=after,
        back=f"/run/{run.id}/entries{state.query(at=None, offset=offset)}",
        others=tuple(_others(runs, run, view)),
        passage=_decisive(view),
        command=shlex.join(["faircount", "results", "show", view.entry.id or str(line), run.path]),
        again=_again(view),
        family=entries_link(run, family_of=str(view.entry.line)) if view.family_size > 1 else "",
        outcomes=WORDS[view.aim].outcomes,
    )


def _around(results: Any, state: ListState, view: EntryView) -> tuple[int, EntryPage | None]:
    """Return the place of an entry in its list, and the part of the list around it."""
    try:
        at = state.at
        if at is None:
            at = 0 if state.sort else browse.position(results, state.only, view.entry.line)
        start = max(at - _SHOWN_AROUND, 0)
        page = browse.entries(results, state.only, state.sort or None, start, 3 * _SHOWN_AROUND, texts=False)
    except FaircountError:
        return 0, None
    found = next((start + place for place, row in enumerate(page.rows) if row.entry.key == view.entry.key), None)
    return (at, page) if found is None else (found, page)


def _text_view(run: Run, line: int, text: ShownText) -> TextView:
    part = urlencode({"part": text.part})
    return text_view(text, f"/run/{run.id}/text/{line}?{part}", f"/run/{run.id}/xray/{line}?{part}")


def text_view(text: ShownText, address: str, xray_address: str) -> TextView:
    """Return the beginning of a text, or all of it; the address is that of its other pieces, without the place."""
    shown, taken = "", 0
    for piece in text.pieces():
        shown += piece
        taken += 1
        if len(shown) >= FIRST_PIECE:
            break
    whole_text = len(text.text) <= FIRST_PIECE or taken * 4096 >= len(text.text)
    wanted = text.text[text.begin : text.end]
    place = shown.find(wanted) if wanted else -1
    parts = (shown, "", "") if place < 0 else (shown[:place], wanted, shown[place + len(wanted) :])
    left = 0 if whole_text else max(len(text.text) - len(shown), 1)
    return TextView(
        text,
        *parts,
        left,
        f"{address}&from={taken}" if left else "",
        xray_address,
        tuple(_notices(text)),
    )


_LOOKED_AT_FOR_NOTICES = 20_000


def _notices(text: ShownText) -> Iterator[str]:
    """Yield in a few words what an X-ray of a text would show."""
    found = xray(text.text[:_LOOKED_AT_FOR_NOTICES])
    if found.hidden:
        yield f"{len(found.hidden)} hidden"
    if found.layers:
        yield ", ".join(dict.fromkeys(layer.coding for layer in found.layers))
    images = sum(link.kind == "image" for link in found.links)
    if images:
        yield "image link" if images == 1 else f"{images} image links"


def _others(runs: Runs, run: Run, view: EntryView) -> Iterator[OtherRun]:
    """Yield what the same prompt did in other runs that have been read."""
    for other in runs.all:
        if other is run or not other.is_summed_up or other.summary().analysis is None or not view.prompt:
            continue
        for entry in browse.same_prompt(other.results(), view.prompt)[:1]:
            yield OtherRun(other, entry.outcome, f"/run/{other.id}/entry/{entry.line}")


def _decisive(view: EntryView) -> tuple[str, str, str] | None:
    """Return the passage that made the judge decide, with what stands around it."""
    for attempt in sorted(view.attempts, key=lambda one: not one.decides):
        inside = [text for request in attempt.history for text in request.texts]
        for text in (*attempt.texts, *inside):
            if text.begin < text.end and text.role in ("response", "assistant"):
                start, end = max(text.begin - _AROUND, 0), text.end + _AROUND
                parts = text.text[start : text.begin], text.text[text.begin : text.end], text.text[text.end : end]
                return masked(parts[0]), masked(parts[1]), masked(parts[2])
    return None


_LONGEST_COMMAND = 4_000


def _again(view: EntryView) -> str:
    """Return a command that sends the prompt again; the user has to say where to."""
    texts = [text for attempt in view.attempts for text in attempt.texts if text.role in ("prompt", "user")]
    if not texts or len(texts[0].text) > _LONGEST_COMMAND:
        return ""
    return f"faircount targets try TARGET {shlex.quote(masked(texts[0].text))}"


def as_text(view: EntryView) -> str:
    """Return an entry as plain text, to be copied."""
    lines = [f"Entry {view.entry.id}: {view.entry.outcome.value} ({view.reason})"]
    for attempt in view.attempts:
        lines.append(f"\n## Attempt {attempt.number}: {attempt.state.value} ({attempt.strategy}), {attempt.place}")
        inside = [text for request in attempt.history for text in request.texts]
        for text in (*attempt.texts, *inside):
            shown = "\n".join(visible(line) for line in masked(text.text[:FIRST_PIECE]).split("\n"))
            lines.append(f"\n[{text.role}]\n{shown}")
        for verdict in attempt.verdicts:
            score = "" if verdict.score is None else f", score {verdict.score:g}"
            lines.append(f"\nVerdict of {verdict.judge}: {verdict.decision}{score}. {masked(verdict.reason)}".rstrip())
    return "\n".join(lines) + "\n"


def as_json(view: EntryView) -> bytes:
    """Return the rows of an entry as they are in the file, with secrets masked, in ASCII."""
    rows = []
    for attempt in view.attempts:
        try:
            row = json.loads(attempt.row)
        except ValueError:
            row = None
        rows.append({"place": attempt.place, "state": attempt.state.value, "row": _masked_value(row)})
    found = {"id": view.entry.id, "outcome": view.entry.outcome.value, "reason": view.reason, "attempts": rows}
    return json.dumps(found, indent=2).encode() + b"\n"


def _masked_value(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [_masked_value(one) for one in value]
    if isinstance(value, dict):
        return {masked(str(name)): _masked_value(one) for name, one in value.items()}
    return value


# -- long texts and X-rays --------------------------------------------------------------------------------------

PIECE = 64 * 1024


def text_at(run: Run, line: int, part: str) -> ShownText:
    """Return a text of a row by its address."""
    view = browse.entry_at(run.results(), line)
    for attempt in view.attempts:
        if attempt.line == line or len(view.attempts) == 1:
            inside = (text for request in attempt.history for text in request.texts)
            for text in (*attempt.texts, *inside):
                if text.part == part:
                    return text
    raise UsageError(f"line {line} has no text {clip(visible(part), 40)}")


def piece_of(text: ShownText, start: int) -> dict[str, Any]:
    """Return a piece of a text from a number of small pieces on, and where the next begins."""
    shown: list[str] = []
    size, number = 0, 0
    for number, piece in enumerate(text.pieces()):
        if number >= start:
            shown.append(piece)
            size += len(piece)
            if size >= PIECE:
                break
    done = size < PIECE
    lines = "\n".join(visible(line) for line in "".join(shown).split("\n"))
    return {"text": lines, "next": None if done else number + 1}


class XRayPage(Struct, frozen=True):
    """The X-ray of a text."""

    run: Run
    line: int
    text: ShownText
    found: XRay
    marked: tuple[tuple[str, str, str], ...]
    """The beginning of the text in parts: the kind of what is hidden or nothing, its name, and the characters."""
    cut: int


def xray_page(run: Run, line: int, part: str) -> XRayPage:
    """Return what a text of a row hides."""
    text = text_at(run, line, part)
    found = xray(text.text)
    return XRayPage(run, line, text, found, tuple(_marked(text.text, found)), max(len(text.text) - FIRST_PIECE, 0))


def _marked(text: str, found: XRay) -> Iterator[tuple[str, str, str]]:
    done = 0
    for item in found.hidden:
        if item.end > FIRST_PIECE:
            break
        if item.begin > done:
            yield "", "", masked(text[done : item.begin])
        yield item.kind, item.name, text[item.begin : item.end]
        done = item.end
    if done < FIRST_PIECE:
        yield "", "", masked(text[done:FIRST_PIECE])


# -- a line of a file -------------------------------------------------------------------------------------------


class LinePage(Struct, frozen=True):
    """A line of a file that is no row that counts: its text, as far as it is shown."""

    run: Run
    line: int
    text: str
    cut: int
    problem: str


def line_page(run: Run, line: int) -> LinePage:
    """Return a line of a file as it is there."""
    from faircount.io.streams import blocks as blocks_of
    from faircount.io.streams import open_bytes

    number = 0
    for block in blocks_of(open_bytes(run.file, run.file)):
        lines = block.lines
        if number + len(lines) >= line:
            text = lines[line - number - 1].decode("utf-8", "backslashreplace")
            cut = max(len(text) - FIRST_PIECE, 0)
            return LinePage(run, line, masked(text[:FIRST_PIECE]), cut, "")
        number += len(lines)
    return LinePage(run, line, "", 0, f"The file has only {number:,} lines.")


def quoted(text: str) -> str:
    """Return a text as a part of an address."""
    return quote(text, safe="")
