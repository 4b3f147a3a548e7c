"""Results to look through: entries in pages, the values that narrow them down, and one entry with all its texts.

What the page in the browser asks of a `ResultSet`. Texts come as they were recorded, undecorated and whole; who shows
them masks secrets and makes every character visible (`Text.pieces`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import summary
from faircount.analysis.analyze import Folded
from faircount.analysis.evidence import (
    PROMPT_FIELDS,
    SHORTEST_NEEDLE,
    excerpts,
    lines_of,
    masked_pieces,
    passage,
    prompt_of,
)
from faircount.analysis.grouping import as_one, column_of, find_families
from faircount.analysis.report_details import titles_of
from faircount.analysis.result_set import ResultSet
from faircount.analysis.show import LEFT_OUT, reason_of
from faircount.analysis.words import WORDS
from faircount.core.errors import UsageError
from faircount.core.model import Analysis, Crossing, Outcome, Tally
from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine, parse
from faircount.ledger import entry_list, lookup, tallies
from faircount.ledger.entry_list import Chosen, EntryLine
from faircount.ledger.row_filter import ChosenRow
from faircount.readers.rows import history_item, history_state, policy_block_of, scalar_text
from faircount.report.blocks import EntryTable

VALUES_OFFERED = 40
"""So many values of a field are offered to choose from, the most frequent first."""
FIELDS_WITH_VALUES = 200
"""A field with more values than this says too little about many entries to narrow them down."""
VALUES_CROSSED = 24
VARIANTS_LISTED = 12
_SEARCHED = 1_000_000
_OUTCOMES = tuple(Outcome)
_BY_OUTCOME = entry_list.OUTCOME


class EntryFilter(Struct, frozen=True):
    """Which entries are wanted: those that have one of the values in each field, and a row that fits the query."""

    chosen: Chosen = {}
    where: str | None = None

    @property
    def asks_judges(self) -> bool:
        """Whether the verdicts of all judges have to be known."""
        return entry_list.JUDGES in self.chosen


def _condition(results: ResultSet, folded: Folded, only: EntryFilter) -> str:
    condition = entry_list.condition_of(folded.ledger, only.chosen)
    if only.where is None:
        return condition
    return f"{condition} AND e.{results.entries_with(folded, only.where)}"


# -- entries in pages -------------------------------------------------------------------------------------------


class EntryPreview(Struct, frozen=True):
    """An entry of a list with the beginning of its prompt and of its response, where they were asked for."""

    entry: EntryLine
    prompt: str | None = None
    response: str | None = None


class EntryPage(Struct, frozen=True):
    """A page of a list of entries, and how all that were chosen ended."""

    rows: tuple[EntryPreview, ...]
    tally: Tally
    offset: int


def entries(
    results: ResultSet,
    only: EntryFilter,
    sort: str | None = None,
    offset: int = 0,
    limit: int = 50,
    *,
    texts: bool = True,
) -> EntryPage:
    """Return a page of the entries that are wanted; `sort` begins with - for the reverse."""
    name, descending = (sort or "").removeprefix("-"), (sort or "").startswith("-")

    def question(folded: Folded) -> EntryPage:
        ledger = folded.ledger
        known = (*entry_list.SORTS, tallies.ATTACK_NAME, *ledger.facets)
        if name and name.removeprefix(entry_list.OWN_FIELD) not in known:
            shown = ", ".join(clip(visible(one), 40) for one in known)
            raise UsageError(f"sort {clip(visible(name), 40)}: no such field; available: {shown}")
        condition = _condition(results, folded, only)
        found = entry_list.listed(ledger, condition, name, descending=descending, offset=offset, limit=limit)
        counts = tallies.by_values(ledger, (), entry_list.chosen_table(condition)).get(())
        tally = Tally() if counts is None else summary.as_defined(counts, results.options).tally
        lines = _first_lines(results, folded, found) if texts else {}
        return EntryPage(tuple(_with_texts(entry, lines.get(entry.ord)) for entry in found), tally, offset)

    return results.ask(question, where=only.where, verdicts=only.asks_judges)


def _first_lines(results: ResultSet, folded: Folded, found: Sequence[EntryLine]) -> dict[int, bytes | str]:
    rows = lookup.counted_rows(folded.ledger, [entry.ord for entry in found])
    # Rows of one ledger: where each comes from is part of its place.
    placed = [
        ChosenRow(row.ord, row.line, row.identity, source=0, strategy="", outcome=Outcome.UNJUDGED) for row in rows
    ]
    return lines_of(folded.ledger, folded.read, placed, results.options.max_line)


def _with_texts(entry: EntryLine, line: bytes | str | None) -> EntryPreview:
    if not isinstance(line, bytes):
        return EntryPreview(entry, None if line is None else f"({line})")
    _, prompt, response = excerpts(line)
    return EntryPreview(entry, prompt, response)


def position(results: ResultSet, only: EntryFilter, line: int) -> int:
    """Return the place of an entry among those that are wanted, in the order of the file."""
    return results.ask(
        lambda folded: entry_list.position(folded.ledger, _condition(results, folded, only), line),
        where=only.where,
        verdicts=only.asks_judges,
    )


# -- values to choose from --------------------------------------------------------------------------------------


class FieldValues(Struct, frozen=True):
    """A field, its most frequent values with how their entries ended, and how many more values there are."""

    name: str
    values: tuple[tuple[str | None, Tally], ...]
    more: int = 0


def fields(results: ResultSet) -> tuple[str, ...]:
    """Return the fields that entries have, those of the format first; the dynamic attack is one where there is any."""

    def question(folded: Folded) -> tuple[str, ...]:
        ledger = folded.ledger
        known = [name for name in ledger.fields.first if name in ledger.facets]
        attacks = tallies.distinct_values(ledger, tallies.ATTACK_NAME)
        return tuple(dict.fromkeys([*known, *([tallies.ATTACK_NAME] if attacks else []), *ledger.facets]))

    return results.ask(question)


def values(results: ResultSet, only: EntryFilter, names: Sequence[str]) -> list[FieldValues]:
    """Return the values of fields among the entries that are wanted; fields with one value, or very many, are left out.

    What a field itself is narrowed to is not applied to it: its other values stay in sight.
    """

    def question(folded: Folded) -> list[FieldValues]:
        ledger, found = folded.ledger, []
        for name in dict.fromkeys(names):
            if name not in (_BY_OUTCOME, tallies.ATTACK_NAME, *ledger.facets):
                continue
            column = _BY_OUTCOME if name == entry_list.OUTCOME else column_of(ledger, name)
            lexicon = "attack" if column == tallies.ATTACK_NAME else column
            words = () if column == _BY_OUTCOME else ledger.lexicon(lexicon)
            if len(words) > FIELDS_WITH_VALUES:
                continue
            others = {other: wanted for other, wanted in only.chosen.items() if other != name}
            table = entry_list.chosen_table(_condition(results, folded, EntryFilter(others, only.where)))
            counted = _counted_by(ledger, column, table)
            if len(counted) > 1 or name in only.chosen:
                largest = sorted(counted.items(), key=lambda item: -item[1].total)
                shown = tuple(largest[:VALUES_OFFERED])
                found.append(FieldValues(name, shown, len(largest) - len(shown)))
        return found

    return results.ask(question, where=only.where, verdicts=only.asks_judges)


def _counted_by(ledger: Any, column: str, table: str) -> dict[str | None, Tally]:
    if column == _BY_OUTCOME:
        counts = tallies.by_values(ledger, (), table).get(())
        tally = Tally() if counts is None else counts.tally
        return {
            outcome.value: Tally(count, **{outcome.value: count})
            for outcome in Outcome
            if (count := getattr(tally, outcome.value))
        }
    return {value: counts.tally for (value,), counts in tallies.by_values(ledger, [column], table).items()}


def words(results: ResultSet, name: str, start: str, most: int) -> list[str]:
    """Return values of a field that begin with some letters, whatever their case."""

    def question(folded: Folded) -> list[str]:
        ledger = folded.ledger
        if name == entry_list.OUTCOME:
            known: Sequence[str | None] = [outcome.value for outcome in Outcome]
        elif name in ledger.facets:
            known = ledger.lexicon(ledger.facets[name])
        else:
            known = ()
        begins = (word for word in known if word and word.casefold().startswith(start.casefold()))
        return sorted(itertools.islice(begins, most))

    return results.ask(question)


def crossing(results: ResultSet, rows: str, columns: str) -> Crossing:
    """Return the rates of two fields crossed, with the intervals that breakdowns have; the largest values of each."""

    def question(folded: Folded) -> Crossing:
        ledger = folded.ledger
        both = tuple(_existing(ledger, name) for name in (rows, columns))
        counts = summary.overall(ledger, results.options)
        grouping = find_families(ledger, counts, results.options.cluster, results.options.level, WORDS[folded.aim])
        counted, kinds = tallies.grouped(ledger, *both), grouping.by(ledger, *both)
        rates, totals = {}, ({}, {})  # type: tuple[dict[Any, Any], tuple[dict[Any, int], dict[Any, int]]]
        for key, found in counted.items():
            named = tuple(tallies.text_of(ledger, column, number) for column, number in zip(both, key, strict=True))
            rates[named] = grouping.rate("success", kinds=kinds.get(key) or as_one(found))
            for total, value in zip(totals, named, strict=True):
                total[value] = total.get(value, 0) + found.tally.total
        down, across = (tuple(sorted(total, key=lambda value: -total[value])[:VALUES_CROSSED]) for total in totals)
        cells = tuple(tuple(rates.get((row, column)) for column in across) for row in down)
        return Crossing(rows, columns, down, across, cells)

    return results.ask(question)


def _existing(ledger: Any, name: str) -> str:
    if name != tallies.ATTACK_NAME and name not in ledger.facets:
        raise UsageError(f"{clip(visible(name), 40)}: no such field")
    return column_of(ledger, name)


MOST_IN_TABLE = 20_000


def entry_table(results: ResultSet, analysis: Analysis) -> EntryTable:
    """Return the first entries in columns, with their values by the title of the section of a report about a field."""
    page = entries(results, EntryFilter(), limit=MOST_IN_TABLE, texts=False)
    listed = [row.entry for row in page.rows]
    columns = {
        name: tuple(
            _shown_value(entry.attack if name == tallies.ATTACK_NAME else entry.fields.get(name)) for entry in listed
        )
        for name in analysis.breakdowns
    }
    return EntryTable(
        ids=tuple(visible(entry.id) for entry in listed),
        lines=tuple(entry.line for entry in listed) if len(results.files) == 1 else (),
        outcomes=tuple(entry.outcome.value for entry in listed),
        fields={_heading(analysis, name): values for name, values in columns.items()},
        total=page.tally.total,
    )


def _heading(analysis: Analysis, field: str) -> str:
    return f"Breakdown by {' and '.join(titles_of(analysis, field)) or visible(field)}"


def _shown_value(value: str | None) -> str | None:
    return None if value is None else visible(value)


# -- one entry --------------------------------------------------------------------------------------------------


class ShownText(Struct, frozen=True):
    """A text of a row, whole and as recorded; `part` is its address in the row.

    From `begin` to `end` is the passage that matters: what the judge looked for, or the payload. `calls` are those of
    tools that go with it.
    """

    part: str
    role: str
    text: str
    begin: int = 0
    end: int = 0
    calls: tuple[tuple[str, str], ...] = ()

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces with secrets masked."""
        return masked_pieces(self.text)


class GivenVerdict(Struct, frozen=True):
    """What one judge said; `decision` is the word of the file, `instead_of` what was decided before."""

    judge: str
    decision: str
    score: float | None = None
    reason: str = ""
    instead_of: str = ""


class ShownRequest(Struct, frozen=True):
    """One request of a row: a repeated attempt, or an iteration of a dynamic attack."""

    number: int
    state: Outcome
    texts: tuple[ShownText, ...]
    verdicts: tuple[GivenVerdict, ...] = ()
    seconds: float | None = None
    strategy: str = ""


class AttemptView(Struct, frozen=True):
    """A row of an entry with its texts in order; `unread` says why they cannot be read back."""

    number: int
    place: str
    line: int
    strategy: str
    state: Outcome
    decides: bool
    requests: int
    seconds: float | None
    categories: tuple[str, ...]
    texts: tuple[ShownText, ...] = ()
    history: tuple[ShownRequest, ...] = ()
    verdicts: tuple[GivenVerdict, ...] = ()
    own_id: str = ""
    long_id: str = ""
    unread: str = ""
    row: bytes = b""


class EntryView(Struct, frozen=True):
    """An entry with everything that is recorded of it, and the entries of its family."""

    entry: EntryLine
    aim: str
    reason: str
    attempts: tuple[AttemptView, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    variants: tuple[EntryLine, ...] = ()
    family_size: int = 0
    prompt: int = 0
    """The checksum of the prompt, by which the same entry is found in other runs; 0 where there is none."""


def entry_at(results: ResultSet, line: int) -> EntryView:
    """Return the entry that the row on a line belongs to, with all its texts."""

    def question(folded: Folded) -> EntryView:
        ledger = folded.ledger
        keys = lookup.entries_of_rows(ledger, [ledger.ord(0, line)])
        if not keys:
            raise UsageError(f"no entry has a row on line {line}")
        (view,) = _views(results, folded, keys[:1])
        variants, size = entry_list.family_of(ledger, view.entry.key, VARIANTS_LISTED)
        left_out = lookup.rows_left_out(ledger, view.entry.key)
        return replace(
            view,
            left_out=tuple((ledger.place(row.ord), LEFT_OUT[row.status]) for row in left_out),
            variants=tuple(variants),
            family_size=size,
            prompt=entry_list.prompt_of(ledger, view.entry.key),
        )

    return results.ask(question)


def entries_in_full(results: ResultSet, at_once: int) -> Iterator[list[EntryView]]:
    """Yield all entries with their texts in the order of the file, some at once; what is beside each is left out."""
    keys = results.ask(lambda folded: entry_list.keys_in_order(folded.ledger))
    for begin in range(0, len(keys), at_once):
        yield results.ask(partial(_views, results, keys=keys[begin : begin + at_once]))


def lines_chosen(results: ResultSet, only: EntryFilter) -> list[int]:
    """Return the lines on which the entries that are wanted begin."""
    return results.ask(lambda folded: entry_list.first_lines(folded.ledger, _condition(results, folded, only)))


def families_and_prompts(results: ResultSet) -> list[tuple[int, int, int, Outcome]]:
    """Return of each entry its line, family and checksum of the prompt, 0 for none, and how it ended."""
    return results.ask(lambda folded: entry_list.families_and_prompts(folded.ledger))


def recorded_words(results: ResultSet) -> dict[str, list[str]]:
    """Return the words that records bring into figures, by field: ids, values of fields, names of kinds and judges."""

    def question(folded: Folded) -> dict[str, list[str]]:
        ledger = folded.ledger
        columns = [(name, name) for name in ("parent_id", "error_kind", "category", "attack", "judge")]
        listed = [*columns, *ledger.facets.items()]
        return {name: [word for word in ledger.lexicon(column) if word] for name, column in listed}

    return results.ask(question)


def _views(results: ResultSet, folded: Folded, keys: Sequence[int]) -> list[EntryView]:
    """Return entries by their keys with all their texts, without what is beside them."""
    ledger = folded.ledger
    rows_of = lookup.rows_by_entry(ledger, keys)
    placed = [row for rows in rows_of.values() for row in rows]
    lines = lines_of(ledger, folded.read, placed, results.options.max_line)
    named = lookup.categories_of(ledger, [row.ord for row in placed])
    views = []
    for entry in entry_list.lines_of(ledger, keys):
        rows = rows_of[entry.key]
        decided_by = next((number for number, row in enumerate(rows, 1) if entry.outcome in row.counts_as), None)
        attempts = tuple(
            _attempt(
                AttemptView(
                    number=number,
                    place=ledger.place(row.ord),
                    line=row.line,
                    strategy=row.strategy,
                    state=row.state,
                    decides=number == decided_by,
                    requests=row.requests,
                    seconds=row.response_time,
                    categories=tuple(named.get(row.ord, ())),
                ),
                lines[row.ord],
                policy_blocks=results.options.policy_blocks,
            )
            for number, row in enumerate(rows, 1)
        )
        state = None if decided_by is None else rows[decided_by - 1].state
        views.append(EntryView(entry, folded.aim, reason_of(entry.outcome, folded.aim, decided_by, state), attempts))
    return views


def same_prompt(results: ResultSet, checksum: int) -> list[EntryLine]:
    """Return the entries that have a prompt, by its checksum."""
    return results.ask(lambda folded: entry_list.entries_with_prompt(folded.ledger, checksum))


# -- what a row holds -------------------------------------------------------------------------------------------


def _attempt(known: AttemptView, line: bytes | str, *, policy_blocks: bool) -> AttemptView:
    if isinstance(line, str):
        return replace(known, unread=line)
    try:
        row = parse(line)[0]
    except BadLine as error:
        return replace(known, unread=str(error))
    needles = _needles(row)
    return replace(
        known,
        texts=tuple(_texts(row, needles)),
        history=tuple(_history(row, needles, policy_blocks)),
        verdicts=() if known.state in (Outcome.ERROR, Outcome.GUARDRAIL) else tuple(_verdicts(row)),
        own_id=scalar_text(row.get("id")) or "",
        long_id=scalar_text(row.get("long_id")) or "",
        row=line,
    )


def _needles(row: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what to look for in prompts, the payload, and in responses, what the judge compares with."""
    arguments = row.get("judge_args")
    listed = arguments if isinstance(arguments, list) else [arguments]
    compared = [text for text in listed if isinstance(text, str) and len(text) >= SHORTEST_NEEDLE]
    payload = row.get("payload")
    return {"prompt": [*([payload] if isinstance(payload, str) else []), *compared], "response": compared}


def _text(part: str, role: str, value: Any, needles: Sequence[str] = (), calls: Any = None) -> ShownText | None:
    text = value if isinstance(value, str) else scalar_text(value)
    named = tuple(_calls(calls))
    if text is None and not named:
        return None
    at = passage((text or "")[:_SEARCHED], needles)
    return ShownText(part, role, text or "", at.begin, at.end, named)


def _calls(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the calls of tools that go with a message, in the forms that tools write."""
    for call in value if isinstance(value, list) else ():
        if isinstance(call, dict):
            function = call.get("function")
            inner = function if isinstance(function, dict) else call
            arguments = inner.get("arguments", inner.get("args", inner.get("input_parameters", {})))
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            name = function if isinstance(function, str) else inner.get("name")
            yield scalar_text(name) or "tool", text


def _texts(row: Mapping[str, Any], needles: Mapping[str, Sequence[str]]) -> Iterator[ShownText]:
    """Yield the texts of a row in the order in which they were said."""
    turns = list(_conversation(row, needles))
    prompt = prompt_of(row)
    found = [_text("system", "system", row.get("system_message"))] if not turns else []
    objective = row.get("objective")
    if objective not in (None, "", prompt):
        found.append(_text("objective", "objective", objective, needles["prompt"]))
    said = {turn.text for turn in turns}
    if prompt is not None and scalar_text(prompt) not in said:
        found.append(_text("prompt", "prompt", prompt, needles["prompt"]))
    found += turns
    response = row.get("response")
    if response not in (None, "") and scalar_text(response) not in said:
        found.append(_text("response", "response", response, needles["response"], row.get("tools_called")))
    found.append(_text("error", "error", row.get("error")))
    yield from (text for text in found if text is not None and (text.text or text.calls))


def _conversation(row: Mapping[str, Any], needles: Mapping[str, Sequence[str]]) -> Iterator[ShownText]:
    recorded = row.get("conversation")
    nodes = list(recorded.values()) if isinstance(recorded, dict) else recorded if isinstance(recorded, list) else []
    for number, node in enumerate(nodes, 1):
        spoken = node.get("data", node) if isinstance(node, dict) else node
        if not isinstance(spoken, dict):
            spoken = {"content": spoken}
        role = scalar_text(spoken.get("role")) or "turn"
        wanted = needles["response" if role in ("assistant", "tool") else "prompt"]
        text = _text(f"conversation.{number}", role, _content(spoken.get("content")), wanted, spoken.get("tool_calls"))
        if text is not None:
            yield text


def _content(value: Any) -> Any:
    """Return the text of a message that is in parts, as models with pictures take it."""
    if not isinstance(value, list):
        return value
    parts = [
        part.get("text") if isinstance(part, dict) and isinstance(part.get("text"), str) else part for part in value
    ]
    return "\n".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts)


def _history(
    row: Mapping[str, Any], needles: Mapping[str, Sequence[str]], policy_blocks: bool
) -> Iterator[ShownRequest]:
    items = row.get("attempt_history")
    for place, item in enumerate(items if isinstance(items, list) else (), 1):
        if not isinstance(item, dict):
            continue
        request = history_item(item)
        state, _ = history_state(request, refused=policy_blocks and policy_block_of(request) is not None)
        own = item.get("attempt")
        number = own if isinstance(own, int) and not isinstance(own, bool) else place
        texts = [
            _text(f"history.{place}.input", "prompt", item.get("input"), needles["prompt"]),
            _text(
                f"history.{place}.response",
                "response",
                item.get("response"),
                needles["response"],
                item.get("tools_called"),
            ),
            _text(f"history.{place}.error", "error", item.get("error")),
        ]
        seconds = item.get("response_time")
        yield ShownRequest(
            number,
            _OUTCOMES[state],
            tuple(text for text in texts if text is not None and (text.text or text.calls)),
            tuple(_metrics(item.get("metrics"))),
            float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None,
            scalar_text(item.get("strategy")) or "",
        )


def _metrics(value: Any) -> Iterator[GivenVerdict]:
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield GivenVerdict(
                scalar_text(one.get("name")) or "judge",
                scalar_text(one.get("verdict")) or "no verdict",
                _number(one.get("score")),
                scalar_text(one.get("reason")) or "",
            )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _verdicts(row: Mapping[str, Any]) -> Iterator[GivenVerdict]:
    """Yield what judges said of a whole row, the newest first; what was judged again is beside what it replaced."""
    judge, decided = scalar_text(row.get("judge_name")) or "", row.get("success")
    again: Any = row.get("rejudged")
    while isinstance(again, dict):
        before = again.get("before")
        before = before if isinstance(before, dict) else {}
        yield GivenVerdict(
            scalar_text(again.get("judge")) or judge or "judge",
            _decision(decided),
            _number(again.get("score")),
            scalar_text(again.get("reason")) or "",
            _decision(before.get("success")),
        )
        decided, again = before.get("success"), before.get("rejudged")
    reason = next((text for name in _REASONS if (text := scalar_text(row.get(name)))), "")
    if judge or reason or isinstance(decided, bool):
        score = next((number for name in _SCORES if (number := _number(row.get(name))) is not None), None)
        yield GivenVerdict(judge or "judge", _decision(decided), score, reason)


_REASONS = ("judge_reason", "reason", "explanation", "judge_error")
_SCORES = ("judge_score", "score")
SEARCHED_FIELDS = (*PROMPT_FIELDS, "response", "error", "objective", *_REASONS)
"""Fields of a row whose texts a search looks into, beside conversations and histories."""


def scores_in(row: Mapping[str, Any]) -> Iterator[float]:
    """Yield the scores that judges gave a row, or its requests."""
    items = row.get("attempt_history")
    requests = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    given = [verdict for item in requests for verdict in _metrics(item.get("metrics"))]
    yield from (verdict.score for verdict in (*given, *_verdicts(row)) if verdict.score is not None)


def _decision(value: Any) -> str:
    if isinstance(value, bool):
        return "success" if value else "failure"
    return scalar_text(value) or "no verdict"


def searched_texts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a search looks into, each text with what it is: prompts, responses, errors and reasons."""
    for name in SEARCHED_FIELDS:
        value = row.get(name)
        if isinstance(value, str) and value:
            yield "prompt" if name in PROMPT_FIELDS else "reason" if name in _REASONS else name, value
    for text in _conversation(row, {"prompt": (), "response": ()}):
        yield text.role, text.text
    items = row.get("attempt_history")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            for name, what in (("input", "prompt"), ("response", "response"), ("error", "error")):
                if isinstance(value := item.get(name), str):
                    yield what, value
            for verdict in _metrics(item.get("metrics")):
                yield "reason", verdict.reason
    for verdict in _verdicts(row):
        yield "reason", verdict.reason
