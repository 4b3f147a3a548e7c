"""`results show` as a library call: an id and files in, the entries that have it with all that is recorded of them out.

Entries are counted as `results analyze` counts them. Texts are read back from the files and believed only if a line
still reads as the row that was counted. Secrets are masked here; what is hidden in a text is spelled out on
showing it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import problems
from faircount.analysis.analyze import Folded, ask_files
from faircount.analysis.evidence import (
    READ_ONCE,
    RecordedRequest,
    RowTexts,
    common_beginning,
    family_names,
    lines_of,
    masked,
    recorded,
)
from faircount.analysis.options import ShowOptions
from faircount.analysis.words import WORDS, Words
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, counted
from faircount.core.model import Document, Finding, Outcome
from faircount.core.text import clip, mask_secrets, visible
from faircount.core.xray import XRay, xray
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import TOO_LONG, blocks, is_stored
from faircount.ledger import lookup
from faircount.ledger.lookup import JUDGED_AGAIN, RECORDED_ELSEWHERE, REPEATED, FoldedEntry
from faircount.readers import inputs
from faircount.readers.inputs import Input
from faircount.readers.loading import Progress
from faircount.readers.registry import open_stream
from faircount.readers.rows import scalar_text
from faircount.report.blocks import (
    CELL_WIDTH,
    Block,
    Cell,
    Fact,
    Facts,
    Findings,
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

ENTRIES_SHOWN = 10
IDS_COMPARED = 100_000
"""So many ids are looked at for some that look alike."""
ALIKE_NAMED = 5
_IDS_COMPARED_CLOSELY = 500
_ROWS_LOOKED_UP = 1000
_LONGEST_NAME = 200
LEFT_OUT = {
    REPEATED: "the same row appears earlier in the file",
    RECORDED_ELSEWHERE: "another file has the same attempt and takes precedence",
    JUDGED_AGAIN: "another file judges the same attempt differently and takes precedence",
}
BY_ID, BY_ROW = "id", "row"
"""How an entry was found: by an id that the ledger knows, or by an id or long id that only its rows hold."""


class TextXRay(Struct, frozen=True):
    """What a text of an attempt hides; offsets count the characters of the text as it is shown here."""

    text: str
    """Which text it is, such as `response` or `history 3: input`."""
    found: XRay


class ShownAttempt(Struct, frozen=True):
    """A recorded attempt of an entry: what the ledger knows of it, and what its line holds.

    `counts_as` differs from `state` where the history of a dynamic attack shows more. `recorded` is None where the line
    cannot be read back, and `unread` says why.
    """

    number: int
    place: str
    strategy: str
    state: Outcome
    counts_as: tuple[Outcome, ...]
    decides: bool
    requests: int
    response_time: float | None
    guardrail_categories: tuple[str, ...]
    unread: str | None
    recorded: RowTexts | None
    xray: tuple[TextXRay, ...] | None = None
    """Filled on request: the texts in which something is hidden."""


class UncountedRow(Struct, frozen=True):
    """A row that does not count in an entry: why, and where the one is that counts instead, if only one can be."""

    place: str
    kind: Literal["standard", "attack"]
    reason: str
    instead: str | None


class VariantOf(Struct, frozen=True):
    """What an entry is a variant of, and how many entries are, itself included."""

    document: str | None
    instruction: str | None
    entries: int


class ShownEntry(Struct, frozen=True):
    """An entry with its attempts; `decided_by` is the number of the one that decided the outcome.

    `files` are those that it was counted in. `found_by` is "id", or "row" where only a row has the id.
    """

    id: str
    files: tuple[str, ...]
    found_by: str
    aim: str
    outcome: Outcome
    reason: str
    decided_by: int | None
    requests: int
    family: VariantOf | None
    facets: dict[str, str | None]
    attempts: tuple[ShownAttempt, ...]
    left_out: tuple[UncountedRow, ...]


class FoundEntries(Document, frozen=True, kw_only=True):
    """The entries that have an id, the first of them whole, and the damage of the files.

    Texts are as they were recorded, with secrets masked. `failures` says of each file that could not be used why.
    """

    kind: Literal["entry"] = "entry"
    schema: Literal[2] = 2
    asked: str
    total: int
    entries: tuple[ShownEntry, ...]
    findings: tuple[Finding, ...]
    failures: tuple[str, ...]
    files: tuple[str, ...]


class _EntriesOfFile(Struct, frozen=True):
    total: int
    entries: tuple[ShownEntry, ...]
    findings: tuple[Finding, ...]
    near: tuple[str, ...]


def find_entries(
    name: str, files: Sequence[str], options: ShowOptions | None = None, progress: Progress = lambda _: None
) -> FoundEntries:
    """Find the entries with an id, a row's own id or a long id; `progress` gets how many more bytes were read."""
    options = options or ShowOptions()
    paths = inputs.expand(files, options.read_as)
    if not paths:
        raise UsageError("no result file given; name a file or a folder after the id")
    for path in paths:
        if not is_stored(path):
            raise UsageError(f"{path}: {READ_ONCE}, and an entry is read back; name a file")

    def question(folded: Folded, chosen: Sequence[Input]) -> _EntriesOfFile:
        return _search(name, folded, chosen, options)

    answers, unusable = ask_files(paths, options.analyzed, question, progress)
    return _found(name, answers, [sentence for _, sentence in unusable], paths)


def entries_in(folded: Folded, chosen: Sequence[Input], name: str, options: ShowOptions) -> FoundEntries:
    """Find the entries with an id in files that are open."""
    return _found(name, [_search(name, folded, chosen, options)], (), [item.path for item in chosen])


def _found(name: str, answers: Sequence[_EntriesOfFile], unusable: Sequence[str], files: Sequence[str]) -> FoundEntries:
    """Return what the files gave; raise with ids that look alike, and what could not be read, if that is nothing."""
    if not answers:
        raise InputError("; ".join(unusable))
    entries = [entry for answer in answers for entry in answer.entries]
    findings = tuple(finding for answer in answers for finding in answer.findings)
    if not entries:
        reasons = [f"no entry or row has the id {_shown(name)}"]
        alike = _alike(name, [word for answer in answers for word in answer.near][:IDS_COMPARED])
        if alike:
            reasons.append(f"similar ids: {', '.join(map(_shown, alike))}")
        bad = sum(finding.count for finding in findings if finding.code == "F001")
        if bad:
            reasons.append(f"{counted(bad, 'line')} could not be read")
        if unusable:
            reasons.append(f"{counted(len(unusable), 'file')} could not be used")
        raise UsageError("; ".join(reasons))
    return FoundEntries(
        asked=name,
        total=sum(answer.total for answer in answers),
        entries=tuple(entries[:ENTRIES_SHOWN]),
        findings=findings,
        failures=tuple(unusable),
        files=tuple(files),
    )


def _alike(name: str, near: Sequence[str]) -> list[str]:
    """Return the ids that look most like a name; only those that begin and end like it are compared closely."""
    import difflib
    import heapq

    if len(name) > _LONGEST_NAME:
        return []
    words = [word for word in dict.fromkeys(near) if len(word) <= _LONGEST_NAME]
    best = heapq.nlargest(
        _IDS_COMPARED_CLOSELY,
        words,
        key=lambda word: common_beginning(name, word) + common_beginning(name[::-1], word[::-1]),
    )
    return difflib.get_close_matches(name, best, n=ALIKE_NAMED)


def _shown(name: str) -> str:
    return clip(visible(mask_secrets(name[:_LONGEST_NAME])), 80)


# -- finding ----------------------------------------------------------------------------------------------------


def _search(name: str, folded: Folded, chosen: Sequence[Input], options: ShowOptions) -> _EntriesOfFile:
    """Look for an id in what the ledger knows, and in the lines of the files only if that is not enough."""
    ledger = folded.ledger
    keys, found_by = lookup.entries_with_id(ledger, name), BY_ID
    if not keys:
        ords = [
            ledger.ord(source, line)
            for source in range(len(chosen))
            for line in islice(_lines_holding(ledger.paths[source], name, options.max_line), _ROWS_LOOKED_UP)
        ]
        keys, found_by = lookup.entries_of_rows(ledger, ords[:_ROWS_LOOKED_UP]), BY_ROW
    noted = problems.from_reading(folded.notes)
    damage = tuple(finding for finding in noted if finding.code in DAMAGE)
    near = () if keys else tuple(lookup.ids_near(ledger, name, IDS_COMPARED))
    entries = [
        _entry(folded, entry, found_by, options) for entry in lookup.folded_entries(ledger, keys[:ENTRIES_SHOWN])
    ]
    return _EntriesOfFile(len(keys), tuple(entries), damage, near)


def _lines_holding(path: str, name: str, max_line: int) -> Iterator[int]:
    """Yield the numbers of the lines whose id or long id is a name; only lines with that text are looked at."""
    written = (json.dumps(name, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    needles = {text.encode("utf-8", "replace") for text in written}
    first = 1
    for block in blocks(open_stream(path, path), max_line):
        if any(block.buffer.find(needle, 0, block.length) >= 0 for needle in needles):
            for number, line in enumerate(block.lines, start=first):
                if any(needle in line for needle in needles):
                    with contextlib.suppress(BadLine):
                        fields, _ = parse(line)
                        if name in (scalar_text(fields.get("id")), scalar_text(fields.get("long_id"))):
                            yield number
        if block.buffer is TOO_LONG:
            first += 1
        else:
            ended = block.buffer.endswith(b"\n", 0, block.length)
            first += block.buffer.count(b"\n", 0, block.length) + (not ended)


# -- reading an entry -------------------------------------------------------------------------------------------


def _entry(folded: Folded, entry: FoldedEntry, found_by: str, options: ShowOptions) -> ShownEntry:
    ledger = folded.ledger
    rows = lookup.rows_of(ledger, entry.key)
    decided_by = next((number for number, row in enumerate(rows, 1) if entry.outcome in row.counts_as), None)
    lines = lines_of(ledger, folded.read, rows, options.max_line)
    categories = lookup.categories_of(ledger, [row.ord for row in rows])
    attempts = tuple(
        ShownAttempt(
            number=number,
            place=ledger.place(row.ord),
            strategy=row.strategy,
            state=row.state,
            counts_as=row.counts_as,
            decides=number == decided_by,
            requests=row.requests,
            response_time=row.response_time,
            guardrail_categories=tuple(map(masked, categories.get(row.ord, ()))),
            unread=line if isinstance(line := lines[row.ord], str) else None,
            recorded=(texts := None if isinstance(line, str) else recorded(line, policy_blocks=options.policy_blocks)),
            xray=tuple(_xrays(texts)) if options.xray and texts is not None else None,
        )
        for number, row in enumerate(rows, 1)
    )
    named = next((family_names(line) for line in lines.values() if isinstance(line, bytes)), None)
    document, instruction = named or (None, None)
    return ShownEntry(
        id=masked(entry.name),
        files=tuple(ledger.paths),
        found_by=found_by,
        aim=folded.aim,
        outcome=entry.outcome,
        reason=reason_of(
            entry.outcome, folded.aim, decided_by, None if decided_by is None else attempts[decided_by - 1].state
        ),
        decided_by=decided_by,
        requests=entry.requests,
        family=VariantOf(document, instruction, entry.family_size) if entry.family_size else None,
        facets={field: None if value is None else masked(value) for field, value in entry.facets},
        attempts=attempts,
        left_out=tuple(
            UncountedRow(
                ledger.place(row.ord),
                "attack" if row.is_attack else "standard",
                LEFT_OUT[row.status],
                None if row.instead is None else ledger.place(row.instead),
            )
            for row in lookup.rows_left_out(ledger, entry.key)
        ),
    )


def _xrays(row: RowTexts) -> Iterator[TextXRay]:
    """Yield what the texts of a row hide; texts in which nothing is hidden are left out."""
    texts = [("prompt", row.prompt), ("response", row.response), ("error", row.error)]
    for request in row.history or ():
        names = ("input", "response", "error")
        texts += [(f"history {request.number}: {name}", getattr(request, name)) for name in names]
    texts += [(f"turn {turn.name}", turn.text) for turn in row.conversation or ()]
    for name, text in texts:
        found = xray(text or "")
        if not found.is_empty:
            yield TextXRay(name, _masked_layers(found))


def _masked_layers(found: XRay) -> XRay:
    """Mask the secrets in what was decoded, as in every text that is shown."""
    layers = (replace(one, text=masked(one.text), found=_masked_layers(one.found)) for one in found.layers)
    return replace(found, layers=tuple(layers))


def reason_of(outcome: Outcome, aim: str, decided_by: int | None, state: Outcome | None) -> str:
    """Return why an entry has its outcome, in one sentence; `decided_by` is the attempt that decided, in its state."""
    if outcome in (reasons := WORDS[aim].reasons):
        return reasons[outcome]
    if decided_by is None:
        return "no attempt succeeded, failed, ended in an error or was blocked"
    inside = "" if state is outcome else ", according to its history"
    ended = {
        Outcome.SUCCESS: "succeeded, and one success is enough",
        Outcome.FAILURE: "failed, and none succeeded",
        Outcome.ERROR: "ended in an error, and none succeeded or failed",
        Outcome.GUARDRAIL: "was blocked, and none was answered",
    }
    return f"attempt {decided_by} {ended[outcome]}{inside}"


# -- the report -----------------------------------------------------------------------------------------------


def as_report(found: FoundEntries) -> Report:
    """Arrange entries into one report, each with its attempts in order."""
    sections: list[Section] = []
    several = found.total > 1
    if several:
        some = f", the first {len(found.entries)} are shown" if found.total > len(found.entries) else ""
        title = f"{found.total:,} entries{some}, for the id"
        sections.append(Section(title, (), level=1, subject=Record(found.asked)))
    for number, entry in enumerate(found.entries, start=1):
        title = f"Entry {number}:" if several else "Entry"
        sections += _entry_sections(entry, title, level=2 if several else 1)
    masked_note = Paragraph("Likely keys, tokens and passwords are masked.")
    sections.append(Section("Not shown", (masked_note, *([Findings(found.findings)] if found.findings else []))))
    return Report(tuple(sections), found)


# -- an entry ---------------------------------------------------------------------------------------------------


def _entry_sections(entry: ShownEntry, title: str, level: int) -> Iterator[Section]:
    words, family = WORDS[entry.aim], entry.family
    facts = [Fact("Outcome", words.outcomes[entry.outcome], note=entry.reason)]
    if entry.aim == "task":
        facts.append(Fact("Attempts", entry.requests))
    else:
        facts.append(Fact("Attempts recorded", len(entry.attempts)))
        facts.append(Fact("Requests", entry.requests, note="dynamic iterations included"))
    texts: list[tuple[Cell, str | None]] = []
    if family is not None:
        facts.append(Fact("Variants", family.entries, note="entries of its family, itself included"))
        if entry.aim != "task":  # a case of a run names its suite among its fields
            texts += [
                ("family: document", family.document or None),
                ("family: instruction", family.instruction or None),
            ]
    texts += [(Record(field), value) for field, value in entry.facets.items()]
    blocks: list[Block] = [Facts(tuple(facts))]
    rows = [row for label, text in texts if text is not None for row in _rows((label,), text)]
    if rows:
        blocks.append(text_table(("Field", "Value"), rows))
    yield Section(title, tuple(blocks), level=level, subject=Record(entry.id))
    for attempt in entry.attempts:
        yield from _attempt_sections(attempt, level + 1, words)
    if entry.left_out:
        uncounted = (
            (Place(row.place), row.kind, row.reason, "–" if row.instead is None else Place(row.instead))
            for row in entry.left_out
        )
        grid = text_table(("Row", "Kind", "Why", "Counts instead"), uncounted)
        yield Section("Rows that do not count", (grid,), level=level + 1)


# -- an attempt -------------------------------------------------------------------------------------------------


def _attempt_sections(attempt: ShownAttempt, level: int, words: Words) -> Iterator[Section]:
    blocks: list[Block] = [Facts(tuple(_attempt_facts(attempt, words)))]
    if attempt.recorded is None:
        blocks.append(Paragraph(f"Its texts are not shown: {attempt.unread}."))
    else:
        line = attempt.recorded
        texts = (
            ("Id", line.own_id),
            ("Long id", line.long_id),
            ("Judge arguments", line.judge_arguments),
            ("Error", line.error),
            ("Prompt", line.prompt),
            ("Response", line.response),
        )
        rows = [row for name, text in texts if text is not None for row in _rows((name,), text)]
        if rows:
            blocks.append(text_table(("Text", "As recorded"), rows))
    yield Section(
        f"{words.row.capitalize()} {attempt.number}:", tuple(blocks), level=level, subject=Place(attempt.place)
    )
    if attempt.recorded is not None:
        yield from _parts(attempt.number, attempt.recorded, level + 1, words)
    if attempt.xray is not None:
        yield Section(f"X-ray of {words.row} {attempt.number}", tuple(_xray_blocks(attempt.xray)), level=level + 1)


def _attempt_facts(attempt: ShownAttempt, words: Words) -> Iterator[Fact]:
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


def _parts(number: int, line: RowTexts, level: int, words: Words) -> Iterator[Section]:
    """Yield what happened inside an attempt: its requests, and what was said in turn."""
    if line.history is not None:
        title = f"History of {words.row} {number}: {counted(len(line.history), words.request)}"
        rows = [row for request in line.history for row in _request_rows(request, words)]
        titles = (words.request.capitalize(), "Text", "As recorded")
        yield Section(title, (text_table(titles, rows),) if rows else (), level=level)
    if line.conversation is not None:
        title = f"Conversation of {words.row} {number}: {counted(len(line.conversation), 'turn')}"
        rows = []
        for turn in line.conversation:
            name = Record(turn.name if turn.after is None else f"{turn.name} (after {turn.after})")
            speaker = Record(turn.speaker)
            rows += [(name, speaker, Record(None))] if turn.text is None else _rows((name, speaker), turn.text)
        yield Section(title, (text_table(("Turn", "Speaker", "As recorded"), rows),) if rows else (), level=level)


def _request_rows(request: RecordedRequest, words: Words) -> Iterator[tuple[Cell, ...]]:
    label: Cell = f"{request.number}, {words.outcomes[request.state]}"
    names = ("input", "response", "error", "metrics")
    texts = [(name, text) for name in names if (text := getattr(request, name)) is not None]
    if not texts:
        yield label, "", Record(None)
    for name, text in texts:
        yield from _rows((label, name), text)
        label = ""


# -- X-rays -----------------------------------------------------------------------------------------------------


def _xray_blocks(found: Sequence[TextXRay]) -> Iterator[Block]:
    rows = [row for one in found for row in _found_rows(one.text, one.found)]
    if not rows:
        yield Paragraph("Nothing is hidden in its texts.")
        return
    yield text_table(
        ("Text", "From", "To", "Kind", "What it is"),
        rows,
        "Offsets count characters from 0. No address was opened.",
    )


def _found_rows(name: str, found: XRay) -> Iterator[tuple[Cell, ...]]:
    for hidden in found.hidden:
        yield Record(name), f"{hidden.begin:,}", f"{hidden.end:,}", hidden.kind, Record(hidden.name, whole=True)
    for link in found.links:
        yield Record(name), f"{link.begin:,}", f"{link.end:,}", link.kind, Record(link.address)
    for layer in found.layers:
        place: tuple[Cell, ...] = (Record(name), f"{layer.begin:,}", f"{layer.end:,}", layer.coding)
        yield from _rows(place, layer.text)
        yield from _found_rows(f"{name}, {layer.coding}", layer.found)


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
