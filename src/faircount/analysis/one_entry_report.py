"""Entries that were looked at closely, arranged into a report."""

from __future__ import annotations

from collections.abc import Iterator

from faircount.analysis.recorded import Recorded, Request, Turn
from faircount.analysis.show import Attempt, Entry, FoundEntries
from faircount.analysis.words import WORDS, Words
from faircount.core.findings import counted
from faircount.core.text import visible
from faircount.report.blocks import (
    CELL_WIDTH,
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
    Seconds,
    Section,
    pieces,
    text_table,
)


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
    return Report(tuple(sections), found)


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
    facets = [(Record(field), value) for field, value in entry.facets.items() if value is not None]
    rows = [row for label, text in (*_family(entry), *facets) for row in _rows((label,), text)]
    if rows:
        blocks.append(text_table(("Field", "Value"), rows))
    yield Section(title, tuple(blocks), level=level, subject=Record(entry.id))
    words = WORDS[entry.aim]
    for attempt in entry.attempts:
        yield from _attempt(attempt, level + 1, words)
    if entry.left_out:
        yield Section("Rows that do not count", (_left_out(entry),), level=level + 1)


def _facts(entry: Entry) -> Iterator[Fact]:
    yield Fact("Outcome", WORDS[entry.aim].outcomes[entry.outcome], note=entry.reason)
    if entry.aim == "task":
        yield Fact("Attempts", entry.requests)
    else:
        yield Fact("Attempts recorded", len(entry.attempts))
        yield Fact("Requests", entry.requests, note="dynamic iterations included")
    if entry.family is not None:
        yield Fact("Variants", entry.family.entries, note="entries of its family, itself included")


def _family(entry: Entry) -> Iterator[tuple[Cell, str]]:
    """Yield what an entry is a variant of; a case of a run names its suite among its fields."""
    if entry.aim == "task" or entry.family is None:
        return
    if entry.family.document:
        yield "family: document", entry.family.document
    if entry.family.instruction:
        yield "family: instruction", entry.family.instruction


def _left_out(entry: Entry) -> Grid:
    rows = (
        (Place(row.place), row.kind, row.reason, "–" if row.instead is None else Place(row.instead))
        for row in entry.left_out
    )
    return text_table(("Row", "Kind", "Why", "Counts instead"), rows)


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
        yield Fact("Judge", Record(line.judge))
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
    rows = [row for name, text in told if text is not None for row in _rows((name,), text)]
    if rows:
        yield text_table(("Text", "As recorded"), rows)


def _parts(number: int, line: Recorded, level: int, words: Words) -> Iterator[Section]:
    """Yield what happened inside an attempt: its requests, and what was said in turn."""
    if line.history is not None:
        title = f"History of {words.row} {number}: {counted(len(line.history), words.request)}"
        rows = [row for request in line.history for row in _told(request, words)]
        titles = (words.request.capitalize(), "Text", "As recorded")
        yield Section(title, (text_table(titles, rows),) if rows else (), level=level)
    if line.conversation is not None:
        title = f"Conversation of {words.row} {number}: {counted(len(line.conversation), 'turn')}"
        rows = [row for turn in line.conversation for row in _spoken(turn)]
        yield Section(title, (text_table(("Turn", "Speaker", "As recorded"), rows),) if rows else (), level=level)


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
    name = turn.name if turn.after is None else f"{turn.name} (after {turn.after})"
    speaker = Record(turn.speaker)
    if turn.text is None:
        yield Record(name), speaker, Record(None)
    else:
        yield from _rows((Record(name), speaker), turn.text)


# -- texts ------------------------------------------------------------------------------------------------------


def _rows(labels: tuple[Cell, ...], text: str) -> Iterator[tuple[Cell, ...]]:
    """Yield rows of a grid that hold a text piece by piece, all of it.

    In a column of its own no text can pass for a label of ours, wherever its lines are broken.
    """
    empty: tuple[Cell, ...] = ("",) * len(labels)
    if not text:
        yield (*labels, "(empty)")
    for number, piece in enumerate(_pieces(text)):
        yield (*(empty if number else labels), Record(piece, whole=True))


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in short pieces in which nothing is hidden; a longer one ends a piece with every line."""
    short = visible(text) if len(text) <= CELL_WIDTH else ""
    lines = [text] if 0 < len(short) <= CELL_WIDTH else text.splitlines(keepends=True)
    for line in lines:
        yield from pieces(visible(line))
