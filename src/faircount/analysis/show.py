"""`results show` as a library call: an id and files in, the entries that have it with all that is recorded of them out.

Entries are counted as `results analyze` counts them. Texts are read back from the files and believed only if a line
still reads as the row that was counted. Secrets are masked here; what is hidden in a text is spelled out on showing it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from faircount.analysis import problems
from faircount.analysis.analyze import Folded, ask_files
from faircount.analysis.evidence import READ_ONCE, lines_of
from faircount.analysis.options import ShowOptions
from faircount.analysis.recorded import Recorded, family_names, masked, recorded
from faircount.analysis.words import WORDS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.model import Document, Finding, Outcome
from faircount.core.text import clip, mask_secrets, visible
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import STDIN, TOO_LONG, Block, blocks
from faircount.ledger import lookup
from faircount.ledger.lookup import JUDGED_AGAIN, RECORDED_ELSEWHERE, REPEATED, FoldedEntry
from faircount.ledger.store import LedgerView
from faircount.readers import inputs
from faircount.readers.inputs import Input
from faircount.readers.loading import Progress
from faircount.readers.registry import open_stream
from faircount.readers.rows import scalar_text

ENTRIES_SHOWN = 10
IDS_COMPARED = 100_000
"""So many ids are looked at for some that look alike."""
ALIKE_NAMED = 5
_IDS_COMPARED_CLOSELY = 500
_ROWS_LOOKED_UP = 1000
_LONGEST_NAME = 200
_DAMAGE = ("F001", "F002")
_LEFT_OUT = {
    REPEATED: "the same row appears earlier in the file",
    RECORDED_ELSEWHERE: "another file has the same attempt and takes precedence",
    JUDGED_AGAIN: "another file judges the same attempt differently and takes precedence",
}
BY_ID, BY_ROW = "id", "row"
"""How an entry was found: by an id that the ledger knows, or by an id or long id that only its rows hold."""


class Attempt(Struct, frozen=True):
    """A recorded attempt of an entry: what the ledger knows of it, and what its line holds.

    `counts_as` differs from `state` where the history of a dynamic attack tells more. `recorded` is None where the line
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
    recorded: Recorded | None


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


class Entry(Struct, frozen=True):
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
    attempts: tuple[Attempt, ...]
    left_out: tuple[UncountedRow, ...]


class FoundEntries(Document, frozen=True, kw_only=True):
    """The entries that have an id, the first of them whole, and the damage of the files.

    Texts are as they were recorded, with secrets masked. `failures` says of each file that could not be used why.
    """

    kind: Literal["entry"] = "entry"
    schema: Literal[2] = 2
    asked: str
    total: int
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    failures: tuple[str, ...]
    files: tuple[str, ...]


class _Answer(Struct, frozen=True):
    total: int
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    near: tuple[str, ...]


def find_entries(
    name: str, files: Sequence[str], options: ShowOptions | None = None, progress: Progress = lambda _: None
) -> FoundEntries:
    """Find the entries with an id, a row's own id or a long id; `progress` hears how many more bytes were read."""
    options = options or ShowOptions()
    paths = inputs.expand(files)
    if not paths:
        raise UsageError("no result file given; name a file or a folder after the id")
    for path in paths:
        if path == STDIN or not Path(path).is_file():
            raise UsageError(f"{path}: {READ_ONCE}, and an entry is read back; name a file")

    def question(folded: Folded, chosen: Sequence[Input]) -> _Answer:
        return _search(name, folded, chosen, options)

    answers, unusable = ask_files(paths, options.analyzed, question, progress)
    return _together(name, answers, [sentence for _, sentence in unusable], paths)


def entries_in(folded: Folded, chosen: Sequence[Input], name: str, options: ShowOptions) -> FoundEntries:
    """Find the entries with an id in files that are open."""
    return _together(name, [_search(name, folded, chosen, options)], (), [item.path for item in chosen])


def _together(name: str, answers: Sequence[_Answer], unusable: Sequence[str], files: Sequence[str]) -> FoundEntries:
    if not answers:
        raise InputError("; ".join(unusable))
    entries = [entry for answer in answers for entry in answer.entries]
    findings = tuple(finding for answer in answers for finding in answer.findings)
    if not entries:
        near = [word for answer in answers for word in answer.near]
        raise UsageError(_nothing_found(name, near[:IDS_COMPARED], findings, len(unusable)))
    return FoundEntries(
        asked=name,
        total=sum(answer.total for answer in answers),
        entries=tuple(entries[:ENTRIES_SHOWN]),
        findings=findings,
        failures=tuple(unusable),
        files=tuple(files),
    )


def _nothing_found(name: str, near: Sequence[str], findings: Sequence[Finding], unusable: int) -> str:
    """Return a sentence that names ids that look alike, and what could not be read."""
    sentence = f"no entry or row has the id {_shown(name)}"
    alike = _alike(name, near)
    if alike:
        sentence += f"; similar ids: {', '.join(map(_shown, alike))}"
    bad = sum(finding.count for finding in findings if finding.code == "F001")
    if bad:
        sentence += f"; {counted(bad, 'line')} could not be read"
    return f"{sentence}; {counted(unusable, 'file')} could not be used" if unusable else sentence


def _alike(name: str, near: Sequence[str]) -> list[str]:
    """Return the ids that look most like a name; only those that begin and end like it are compared closely."""
    import difflib
    import heapq

    if len(name) > _LONGEST_NAME:
        return []
    words = [word for word in dict.fromkeys(near) if len(word) <= _LONGEST_NAME]
    best = heapq.nlargest(
        _IDS_COMPARED_CLOSELY, words, key=lambda word: _in_common(name, word) + _in_common(name[::-1], word[::-1])
    )
    return difflib.get_close_matches(name, best, n=ALIKE_NAMED)


def _in_common(one: str, other: str) -> int:
    """Return with how many characters two words begin alike."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _shown(name: str) -> str:
    return clip(visible(mask_secrets(name[:_LONGEST_NAME])), 80)


# -- finding ----------------------------------------------------------------------------------------------------


def _search(name: str, folded: Folded, chosen: Sequence[Input], options: ShowOptions) -> _Answer:
    """Look for an id in what the ledger knows, and in the lines of the files only if that is not enough."""
    ledger = folded.ledger
    keys, found_by = lookup.entries_with_id(ledger, name), BY_ID
    if not keys:
        ords = [ord_ for source in range(len(chosen)) for ord_ in _rows_named(ledger, source, name, options.max_line)]
        keys, found_by = lookup.entries_of_rows(ledger, ords[:_ROWS_LOOKED_UP]), BY_ROW
    noted = problems.from_reading(folded.notes, definition="faircount")
    damage = tuple(finding for finding in noted if finding.code in _DAMAGE)
    near = () if keys else tuple(lookup.ids_near(ledger, name, IDS_COMPARED))
    entries = [
        _entry(folded, entry, found_by, options) for entry in lookup.folded_entries(ledger, keys[:ENTRIES_SHOWN])
    ]
    return _Answer(len(keys), tuple(entries), damage, near)


def _rows_named(ledger: LedgerView, source: int, name: str, max_line: int) -> Iterator[int]:
    for number, line in enumerate(_lines_holding(ledger.paths[source], name, max_line), start=1):
        if number > _ROWS_LOOKED_UP:
            return
        yield ledger.ord(source, line)


def _lines_holding(path: str, name: str, max_line: int) -> Iterator[int]:
    """Yield the numbers of the lines whose id or long id is a name; only lines with that text are looked at."""
    written = (json.dumps(name, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    needles = {text.encode("utf-8", "replace") for text in written}
    first = 1
    for block in blocks(open_stream(path, path), max_line):
        if any(block.buffer.find(needle, 0, block.length) >= 0 for needle in needles):
            for number, line in enumerate(block.lines, start=first):
                if any(needle in line for needle in needles) and _is_named(line, name):
                    yield number
        first += _count_lines(block)


def _count_lines(block: Block) -> int:
    if block.buffer is TOO_LONG:
        return 1
    ended = block.buffer.endswith(b"\n", 0, block.length)
    return block.buffer.count(b"\n", 0, block.length) + (not ended)


def _is_named(line: bytes, name: str) -> bool:
    try:
        fields, _ = parse(line)
    except BadLine:
        return False
    return name in (scalar_text(fields.get("id")), scalar_text(fields.get("long_id")))


# -- telling an entry -------------------------------------------------------------------------------------------


def _entry(folded: Folded, entry: FoldedEntry, found_by: str, options: ShowOptions) -> Entry:
    ledger = folded.ledger
    rows = lookup.rows_of(ledger, entry.key)
    decided_by = next((number for number, row in enumerate(rows, 1) if entry.outcome in row.counts_as), None)
    lines = lines_of(ledger, folded.read, rows, options.max_line)
    categories = lookup.categories_of(ledger, [row.ord for row in rows])
    attempts = tuple(
        Attempt(
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
            recorded=None if isinstance(line, str) else recorded(line, policy_blocks=options.policy_blocks),
        )
        for number, row in enumerate(rows, 1)
    )
    named = next((family_names(line) for line in lines.values() if isinstance(line, bytes)), None)
    document, instruction = named or (None, None)
    return Entry(
        id=masked(entry.name),
        files=tuple(ledger.paths),
        found_by=found_by,
        aim=folded.aim,
        outcome=entry.outcome,
        reason=_reason(entry.outcome, folded.aim, None if decided_by is None else attempts[decided_by - 1]),
        decided_by=decided_by,
        requests=entry.requests,
        family=VariantOf(document, instruction, entry.kin) if entry.kin else None,
        facets={field: None if value is None else masked(value) for field, value in entry.facets},
        attempts=attempts,
        left_out=tuple(
            UncountedRow(
                ledger.place(row.ord),
                "attack" if row.is_attack else "standard",
                _LEFT_OUT[row.story],
                None if row.instead is None else ledger.place(row.instead),
            )
            for row in lookup.rows_left_out(ledger, entry.key)
        ),
    )


def _reason(outcome: Outcome, aim: str, decisive: Attempt | None) -> str:
    """Return why an entry has its outcome, in one sentence."""
    if outcome in (told := WORDS[aim].reasons):
        return told[outcome]
    if decisive is None:
        return "no attempt succeeded, failed, ended in an error or was blocked"
    inside = "" if decisive.state is outcome else ", according to its history"
    said = {
        Outcome.SUCCESS: "succeeded, and one success is enough",
        Outcome.FAILURE: "failed, and none succeeded",
        Outcome.ERROR: "ended in an error, and none succeeded or failed",
        Outcome.GUARDRAIL: "was blocked, and none was answered",
    }
    return f"attempt {decisive.number} {said[outcome]}{inside}"
