"""Entries that were looked at closely, arranged into a report, and the same as the JSON document (`entry-2.json`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from faircount.analysis.document import finding_data
from faircount.analysis.one_entry import Attempt, Entry, FoundEntries, reason
from faircount.analysis.recorded import Recorded, Request, Said, Turn
from faircount.analysis.words import WORDS, Words
from faircount.findings import counted
from faircount.ledger.lookup import JUDGED_AGAIN, REPEATED, TOLD_ELSEWHERE
from faircount.report import (
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Findings,
    Grid,
    Paragraph,
    Place,
    Record,
    Records,
    Report,
    Seconds,
    Section,
)
from faircount.text import visible
from faircount.version import __version__

KIND = "entry"
SCHEMA = 2

STORIES = {
    REPEATED: "the same row appears earlier in the file",
    TOLD_ELSEWHERE: "another file has the same attempt and takes precedence",
    JUDGED_AGAIN: "another file judges the same attempt differently and takes precedence",
}
_PIECE_WIDTH = 60
"""As much of a text as every presenter shows in a cell."""
_AS_RECORDED = Column("As recorded", numeric=False)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def as_report(found: FoundEntries) -> Report:
    """Arrange entries into one report, each with its attempts in order."""
    sections: list[Section] = []
    several = found.total > 1
    if several:
        sections.append(_heading(found))
    for number, entry in enumerate(found.entries, start=1):
        title = f"Entry {number}:" if several else "Entry"
        sections += _entry(entry, title, level=2 if several else 1)
    sections.append(_closing(found))
    return Report(tuple(sections), document(found))


def _heading(found: FoundEntries) -> Section:
    shown = len(found.entries)
    some = f", the first {shown} are shown" if found.total > shown else ""
    return Section(f"{found.total:,} entries{some}, for the id", (), level=1, subject=Record(found.asked))


def _closing(found: FoundEntries) -> Section:
    """Say what is not as it was recorded, and what could not be read."""
    blocks: list[Block] = [Paragraph("Likely keys, tokens and passwords are masked.")]
    if found.findings:
        blocks.append(Findings(found.findings))
    return Section("Not shown", tuple(blocks))


# -- an entry ---------------------------------------------------------------------------------------------------


def _entry(entry: Entry, title: str, level: int) -> Iterator[Section]:
    blocks: list[Block] = [Facts(tuple(_facts(entry)))]
    facets = [(Record(field), Said(value, len(value), False)) for field, value in entry.facets if value is not None]
    rows = [row for label, said in (*_family(entry), *facets) for row in _rows((label,), said)]
    if rows:
        blocks.append(Grid((Column("Field", numeric=False), Column("Value", numeric=False)), tuple(rows)))
    yield Section(title, tuple(blocks), level=level, subject=Record(entry.name))
    words = WORDS[entry.aim]
    for attempt in entry.attempts:
        yield from _attempt(attempt, level + 1, words)
    if entry.left_out:
        yield Section("Rows that do not count", (_left_out(entry),), level=level + 1)


def _facts(entry: Entry) -> Iterator[Fact]:
    yield Fact("Outcome", WORDS[entry.aim].outcomes[entry.outcome], note=reason(entry))
    if entry.aim == "task":
        yield Fact("Attempts", entry.requests)
    else:
        yield Fact("Attempts recorded", len(entry.attempts))
        yield Fact("Requests", entry.requests, note="dynamic iterations included")
    if entry.kin:
        yield Fact("Variants", entry.kin, note="entries of its family, itself included")


def _family(entry: Entry) -> Iterator[tuple[Cell, Said]]:
    """Yield what an entry is a variant of; a case of a run names its suite among its fields."""
    if entry.aim == "task":
        return
    names = ("", "") if not entry.kin else _family_names(entry) or ("", "")
    for what, name in zip(("family: document", "family: instruction"), names, strict=True):
        if name:
            yield what, Said(name, len(name), False)


def _family_names(entry: Entry) -> tuple[str, str] | None:
    return next((a.recorded.family for a in entry.attempts if a.recorded is not None), None)


def _left_out(entry: Entry) -> Grid:
    columns = (
        Column("Row", numeric=False),
        Column("Kind", numeric=False),
        Column("Why", numeric=False),
        Column("Counts instead", numeric=False),
    )
    rows = tuple(
        (
            Place(row.place),
            "attack" if row.is_attack else "standard",
            STORIES.get(row.story, row.story),
            "–" if row.instead is None else Place(row.instead),
        )
        for row in entry.left_out
    )
    return Grid(columns, rows)


# -- an attempt -------------------------------------------------------------------------------------------------


def _attempt(attempt: Attempt, level: int, words: Words) -> Iterator[Section]:
    blocks: list[Block] = [Facts(tuple(_attempt_facts(attempt, words)))]
    if attempt.recorded is None:
        blocks.append(Paragraph(f"Its texts are not shown: {attempt.unread}."))
    else:
        blocks += _texts(attempt.recorded)
    yield Section(
        f"{words.row.capitalize()} {attempt.number}:", tuple(blocks), level=level, subject=Place(attempt.place)
    )
    if attempt.recorded is not None:
        yield from _parts(attempt.number, attempt.recorded, level + 1, words)


def _attempt_facts(attempt: Attempt, words: Words) -> Iterator[Fact]:
    line = attempt.recorded
    yield Fact("Strategy", Record(attempt.strategy))
    yield Fact("State", words.outcomes[attempt.state], note="decides the outcome" if attempt.decides else "")
    counts_as = [outcome.value for outcome in attempt.counts_as]
    if counts_as and counts_as != [attempt.state.value]:
        yield Fact("counts as", ", ".join(counts_as), note="according to its history", depth=1)
    if line is not None and line.judge is not None:
        yield Fact("Judge", Record(line.judge.text))
    yield Fact(f"{words.request}s".capitalize(), attempt.requests)
    if attempt.response_time is not None:
        yield Fact("Response time", Seconds(attempt.response_time))
    if attempt.guardrail_categories:
        yield Fact("Guardrail categories", Records(attempt.guardrail_categories))


def _texts(line: Recorded) -> Iterator[Grid]:
    told = (
        ("Id", line.own_id),
        ("Long id", line.long_id),
        ("Judge arguments", line.judge_arguments),
        ("Error", line.error),
        ("Prompt", line.prompt),
        ("Response", line.response),
    )
    rows = [row for name, said in told if said is not None for row in _rows((name,), said)]
    if rows:
        yield Grid((Column("Text", numeric=False), _AS_RECORDED), tuple(rows))


def _parts(number: int, line: Recorded, level: int, words: Words) -> Iterator[Section]:
    """Yield what happened inside an attempt: its requests, and what was said in turn."""
    if line.history is not None:
        title = f"History of {words.row} {number}: {counted(line.history_total, words.request)}"
        columns = (Column(words.request.capitalize(), numeric=False), Column("Text", numeric=False), _AS_RECORDED)
        rows = tuple(row for request in line.history for row in _told(request, words))
        yield Section(title, (Grid(columns, rows),) if rows else (), level=level)
    if line.conversation is not None:
        title = f"Conversation of {words.row} {number}: {counted(line.conversation_total, 'turn')}"
        columns = (Column("Turn", numeric=False), Column("Speaker", numeric=False), _AS_RECORDED)
        rows = tuple(row for turn in line.conversation for row in _spoken(turn))
        yield Section(title, (Grid(columns, rows),) if rows else (), level=level)


def _told(request: Request, words: Words) -> Iterator[tuple[Cell, ...]]:
    label: Cell = f"{request.number}, {words.outcomes[request.state]}"
    said = (
        ("input", request.input),
        ("response", request.response),
        ("error", request.error),
        ("metrics", request.metrics),
    )
    texts = [(name, text) for name, text in said if text is not None]
    if not texts:
        yield label, "", Record(None)
    for name, text in texts:
        yield from _rows((label, name), text)
        label = ""


def _spoken(turn: Turn) -> Iterator[tuple[Cell, ...]]:
    name = turn.name if turn.after is None else f"{turn.name} (after {turn.after.text})"
    speaker = Record(None if turn.speaker is None else turn.speaker.text)
    if turn.text is None:
        yield Record(name), speaker, Record(None)
    else:
        yield from _rows((Record(name), speaker), turn.text)


# -- texts ------------------------------------------------------------------------------------------------------


def _rows(labels: tuple[Cell, ...], said: Said) -> Iterator[tuple[Cell, ...]]:
    """Yield rows of a grid that hold a text piece by piece, all of it.

    In a column of its own no text can pass for a label of ours, wherever its lines are broken.
    """
    empty: tuple[Cell, ...] = ("",) * len(labels)
    if not said.text:
        yield (*labels, "(empty)")
    for number, piece in enumerate(_pieces(said.text)):
        yield (*(empty if number else labels), Record(piece, whole=True))
    if said.cut:
        yield (*empty[1:], "(cut here)", f"the whole text has {said.characters:,} characters")


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in short pieces in which nothing is hidden; a longer one ends a piece with every line."""
    short = visible(text) if len(text) <= _PIECE_WIDTH else ""
    lines = [text] if 0 < len(short) <= _PIECE_WIDTH else text.splitlines(keepends=True)
    for rest in map(visible, lines):
        start = 0
        while len(rest) - start > _PIECE_WIDTH:
            end = rest.rfind(" ", start + _PIECE_WIDTH // 2, start + _PIECE_WIDTH) + 1 or start + _PIECE_WIDTH
            yield rest[start:end]
            start = end
        yield rest[start:]


# -- the document -----------------------------------------------------------------------------------------------


def document(found: FoundEntries) -> dict[str, Any]:
    """Return the whole answer of `results show` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "asked": _whole(found.asked),
        "total": found.total,
        "entries": [_entry_data(entry) for entry in found.entries],
        "findings": [finding_data(finding) for finding in found.findings],
        "failures": list(found.failures),
    }


def _entry_data(entry: Entry) -> dict[str, Any]:
    document_name, instruction = _family_names(entry) or (None, None)
    return {
        "id": _whole(entry.name),
        "files": list(entry.files),
        "found_by": entry.found_by,
        "outcome": entry.outcome.value,
        "reason": reason(entry),
        "decided_by": entry.decided_by,
        "requests": entry.requests,
        "family": None
        if not entry.kin
        else {"document": _whole(document_name), "instruction": _whole(instruction), "entries": entry.kin},
        "facets": {field: _whole(value) for field, value in entry.facets},
        "attempts": [_attempt_data(attempt) for attempt in entry.attempts],
        "left_out": [
            {
                "place": row.place,
                "kind": "attack" if row.is_attack else "standard",
                "reason": STORIES.get(row.story, row.story),
                "instead": row.instead,
            }
            for row in entry.left_out
        ],
    }


def _attempt_data(attempt: Attempt) -> dict[str, Any]:
    line = attempt.recorded
    texts = ("own_id", "long_id", "judge", "judge_arguments", "error", "prompt", "response")
    return {
        "number": attempt.number,
        "place": attempt.place,
        "strategy": _whole(attempt.strategy),
        "state": attempt.state.value,
        "counts_as": [outcome.value for outcome in attempt.counts_as],
        "decides": attempt.decides,
        "requests": attempt.requests,
        "response_time": attempt.response_time,
        "guardrail_categories": [_whole(name) for name in attempt.guardrail_categories],
        "unread": attempt.unread or None,
        **{name: None if line is None else _said_data(getattr(line, name)) for name in texts},
        "history": None if line is None else _history_data(line),
        "conversation": None if line is None else _conversation_data(line),
    }


def _history_data(line: Recorded) -> dict[str, Any] | None:
    if line.history is None:
        return None
    items = [
        {
            "number": request.number,
            "state": request.state.value,
            "input": _said_data(request.input),
            "response": _said_data(request.response),
            "error": _said_data(request.error),
            "metrics": _said_data(request.metrics),
        }
        for request in line.history
    ]
    return {"total": line.history_total, "items": items}


def _conversation_data(line: Recorded) -> dict[str, Any] | None:
    if line.conversation is None:
        return None
    turns = [
        {
            "name": _whole(turn.name),
            "speaker": _said_data(turn.speaker),
            "after": _said_data(turn.after),
            "text": _said_data(turn.text),
        }
        for turn in line.conversation
    ]
    return {"total": line.conversation_total, "turns": turns}


def _said_data(said: Said | None) -> str | None:
    return None if said is None else _whole(said.text)


def _whole(text: str | None) -> str | None:
    """Return text that every JSON parser reads: half a surrogate pair becomes U+FFFD."""
    return None if text is None else _HALF_CHARACTER.sub("\ufffd", text)
