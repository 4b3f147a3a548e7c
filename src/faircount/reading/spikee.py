"""Reads spikee's result files, every row shape from 0.1 to 0.9.2 and the trace fields that were never released.

Rows become columns of the ledger: who the row belongs to, whether it is part of a dynamic attack, what was decided,
what went wrong, and checksums of the texts that stay in the file. Folding rows into entries is the ledger's work.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from faircount.findings import Notes
from faircount.ledger.schema import Answer, Batch, Mark
from faircount.model import Outcome, Source
from faircount.outcomes import state
from faircount.reading.clean import Cleaner, scalar_text
from faircount.reading.error_kinds import describe
from faircount.reading.loose import BadLine
from faircount.reading.spikee_rows import EMPTY, Row, RowDecoder
from faircount.reading.streams import MAX_LINE_BYTES, TOO_LONG, Block, Stream, blocks

NINE_FIELDS = (
    "jailbreak_type",
    "instruction_type",
    "task_type",
    "position",
    "spotlighting_data_markers",
    "injection_delimiters",
    "lang",
    "suffix_id",
    "plugin",
)
"""The fields that spikee itself breaks results down by, in its order."""

COMBINED_FIELDS = ("jailbreak_type", "instruction_type", "lang", "suffix_id", "plugin")
"""The fields whose combinations spikee ranks."""

FACETS = (
    *NINE_FIELDS,
    "document_id",
    "judge_name",
    "judge_options",
    "prefix_id",
    "system_message",
    "input_type",
    "target",
    "target_options",
)
"""Fields that say what kind of case a row is."""

CASE_FACETS = (*NINE_FIELDS, "document_id", "prefix_id", "system_message")
"""Facets that make two rows with one id different cases; who judged them does not."""

_facets_of = attrgetter(*FACETS)

NO_RESPONSE = "No response received"
"""spikee 0.1's words for a target that never answered; spikee does not count them as an error."""

BLOCK_WORDS = "Guardrail was triggered"
"""How the error of a raised guardrail begins in the history of a dynamic attack, which carries no flag."""

BATCH_ROWS = 50_000

_ATTACK_ID = re.compile(r"(.+)-attack(?:-\d+)?", re.DOTALL)
_NO_ATTACK = (None, "", "None")
_MODULE_PREFIXES = ("spikee.attacks.", "spikee.")
_EMPTY_ANSWERS = frozenset([b"", b'""', b"null"])
_BOOLEAN_ANSWERS = frozenset([b'"True"', b'"False"', b"true", b"false"])
_LONGEST_SHORT_ANSWER = 8
_STATES = {
    (success, error, guardrail): state(success=success, error=error, guardrail=guardrail).value
    for success in (True, False, None)
    for error in (True, False)
    for guardrail in (True, False)
}
_PLAIN_STATES = {decision: _STATES[decision, False, False] for decision in (True, False, None)}
_ROWS_THAT_TELL_THE_VERSION = 20
_VERSION_BY_FIELD = (
    ("attempt_history", "0.9.2 or later"),
    ("input_type", "0.8 or later"),
    ("judge_name", "0.3 or later"),
    ("attack_name", "0.2"),
)


class HistoryItem(msgspec.Struct, gc=False):
    """One request inside a dynamic attack."""

    success: bool | None = None
    error: str | None = None
    guardrail: bool | None = None


_history_decoder = msgspec.json.Decoder(list[HistoryItem])


class SpikeeReader:
    """Reads one source; afterwards `source()` tells how its lines fared and `notes` holds the doubts."""

    def __init__(self, stream: Stream, *, max_line: int = MAX_LINE_BYTES, guardrail_detected: bool = False) -> None:
        self.stream = stream
        self.max_line = max_line
        self.guardrail_detected = guardrail_detected
        self.notes = Notes(stream.name)
        self._decoder = RowDecoder(self.notes)
        self._cleaner = Cleaner(self.notes)
        self._lines = self._good = self._bad = self._blank = 0
        self.fields_seen: set[str] = set()
        self._batch = Batch()

    def batches(self) -> Iterator[Batch]:
        """Yield the source's rows in bounded batches."""
        for block in blocks(self.stream, self.max_line):
            self._read_block(block)
            if len(self._batch) >= BATCH_ROWS:
                yield self._take_batch()
        if len(self._batch):
            yield self._take_batch()
        if self.stream.truncated:
            self.notes.add("F002", self.stream.truncated, self._lines)

    def source(self) -> Source:
        """Return what was read, after the last batch."""
        return Source(
            path=self.stream.name,
            tool_version=tool_version(self.fields_seen) if self._good else None,
            lines=self._lines,
            good_lines=self._good,
            bad_lines=self._bad,
            blank_lines=self._blank,
            bytes=self.stream.bytes_read,
        )

    def _take_batch(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch

    # -- lines become rows ---------------------------------------------------------------------------------------

    def _read_block(self, block: Block) -> None:
        """Read a block at once if all its lines are clean, else line by line."""
        numbers = range(block.first_line, block.first_line + len(block.lines))
        offsets = list(accumulate((len(line) + 1 for line in block.lines[:-1]), initial=block.offset))
        utf8 = all(map(_is_utf8, block.lines))
        rows = self._decoder.all_fast(block.lines) if utf8 and block.lines[0] is not TOO_LONG else None
        if rows is not None:
            self._add_rows(rows, numbers, offsets, [row.success is True for row in rows])
        else:
            self._read_lines(block, numbers, offsets, utf8)
        self._lines = numbers[-1]

    def _read_lines(self, block: Block, numbers: Sequence[int], offsets: Sequence[int], utf8: bool) -> None:
        good: list[tuple[Row, int, int, bool]] = []
        for line, number, offset in zip(block.lines, numbers, offsets, strict=True):
            try:
                row, truthy = self._decode(line, number, utf8)
            except BadLine as reason:
                self._note_bad(line, str(reason), number)
            else:
                good.append((row, number, offset, truthy))
        if good:
            self._add_rows(*map(list, zip(*good, strict=True)))

    def _decode(self, line: bytes, number: int, utf8: bool) -> tuple[Row, bool]:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self.max_line} bytes")
        return self._decoder.fast(line, number) if utf8 else self._decoder.careful(line, number)

    def _note_bad(self, line: bytes, reason: str, number: int) -> None:
        if not line.strip():
            self._blank += 1
            return
        self._bad += 1
        self.notes.add("F001", reason, number)

    # -- rows become columns -------------------------------------------------------------------------------------

    def _add_rows(
        self, rows: Sequence[Row], numbers: Sequence[int], offsets: Sequence[int], truthy: Sequence[bool]
    ) -> None:
        """Add rows column by column: what all rows have at once, what only some have row by row."""
        self._good += len(rows)
        for row in rows[:_ROWS_THAT_TELL_THE_VERSION]:
            self._see_fields(row)
        nothing: list[Any] = [None] * len(rows)
        ids = [row.id if type(row.id) is str else str(row.id) for row in rows]
        responses = [bytes(row.response) for row in rows]
        decisions = [None if row.success is UNSET else row.success for row in rows]
        columns: dict[str, list[Any]] = {
            "line": list(numbers),
            "byte_offset": list(offsets),
            "own_id": ids,
            "parent_id": ids.copy(),
            "result_origin": nothing.copy(),
            "source_file": nothing.copy(),
            "mark": [Mark.STANDARD] * len(rows),
            "attack": nothing.copy(),
            "decision": decisions,
            "truthy": list(truthy),
            "state": [_PLAIN_STATES[decision] for decision in decisions],
            "errored": [False] * len(rows),
            "guardrail": nothing.copy(),
            "error_text": nothing.copy(),
            "error_kind": nothing.copy(),
            "requests": [row.attempts for row in rows],
            "response_time": [row.response_time for row in rows],
            "answer": [_answer(response) for response in responses],
            "text_crc": [zlib.crc32(row.input) for row in rows],
            "objective_crc": nothing.copy(),
            "response_crc": [zlib.crc32(response) for response in responses],
            "has_history": [False] * len(rows),
        }
        for index, row in enumerate(rows):
            if row.attack_name != "None" or not _has_plain_origin(row):
                _place(columns, index, row)
            if row.error is not None or row.guardrail is not UNSET or self.guardrail_detected:
                self._judge(columns, index, row)
            if row.attempt_history is not EMPTY:
                self._tell_history(columns, index, row)
        facets = dict(zip(FACETS, zip(*map(_facets_of, rows), strict=True), strict=True))
        for position, name in enumerate(self._decoder.unknown_fields):
            facets[name] = tuple(
                self._facet_text(row, position, number) for row, number in zip(rows, numbers, strict=True)
            )
        self._batch.add(columns, facets)

    def _judge(self, columns: dict[str, list[Any]], index: int, row: Row) -> None:
        """Write what became of a row that records an error or a block, or whose verdict must be turned round."""
        number, error, decision = columns["line"][index], row.error, columns["decision"][index]
        errored = error is not None and error != NO_RESPONSE
        guardrail = None if row.guardrail is UNSET else row.guardrail
        if (
            self.guardrail_detected
            and decision is not None
            and columns["answer"][index] != Answer.TEXT
            and error is None
        ):
            decision = not decision
        if error is not None:
            columns["error_text"][index], columns["error_kind"][index] = self._describe_error(error, number)
        if decision and (errored or guardrail):
            self.notes.add("F021", "", number)
        if guardrail:
            self._note_categories(row.guardrail_categories, number)
        columns["decision"][index] = decision
        columns["state"][index] = _STATES[decision, errored, bool(guardrail)]
        columns["errored"][index] = errored
        columns["guardrail"][index] = guardrail

    def _tell_history(self, columns: dict[str, list[Any]], index: int, row: Row) -> None:
        """Write what happened inside a dynamic attack; rows that differ in it tell of different attempts."""
        self.fields_seen.add("attempt_history")
        columns["has_history"][index] = self._note_history(row.attempt_history, columns["line"][index])
        columns["response_crc"][index] = zlib.crc32(row.attempt_history, columns["response_crc"][index])

    def _see_fields(self, row: Row) -> None:
        if row.input_type is not None:
            self.fields_seen.add("input_type")
        if row.judge_name is not None:
            self.fields_seen.add("judge_name")
        if row.attack_name is not UNSET:
            self.fields_seen.add("attack_name")

    def _describe_error(self, error: str, number: int) -> tuple[str | None, str | None]:
        if error == NO_RESPONSE:
            self.notes.add("F016", "", number)
            return None, None
        if not error:
            self.notes.add("F017", "", number)
        return describe(error)

    def _note_categories(self, raw: Raw, number: int) -> None:
        if raw is EMPTY:
            return
        value = _decode_loose(raw)
        if isinstance(value, dict):
            named = [name for name, flagged in value.items() if flagged]
        elif isinstance(value, list):
            named = [name for item in value if (name := scalar_text(item)) is not None]
        else:
            return
        self._cleaner.line = number
        named = [self._cleaner.whole("guardrail_categories", name) for name in named]
        self._batch.categories += [(number, name) for name in dict.fromkeys(named)]

    def _note_history(self, raw: Raw, number: int) -> bool:
        """Count what a history tells by state and kind of error; tell whether it told anything."""
        try:
            items = _history_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            items = self._loose_history(raw, number)
        counted: dict[tuple[str, str | None], list[int]] = {}
        for position, item in enumerate(items, start=1):
            key = _history_state(item)
            if key in counted:
                counted[key][0] += 1
            else:
                counted[key] = [1, position]
        self._batch.history += [
            (number, outcome, kind, times, first) for (outcome, kind), (times, first) in counted.items()
        ]
        return bool(items)

    def _loose_history(self, raw: Raw, number: int) -> list[HistoryItem]:
        value = _decode_loose(raw)
        if value is None:
            return []
        self.notes.add("F027", "attempt_history", number)
        if not isinstance(value, list):
            return []
        return [_history_item(item) for item in value if isinstance(item, dict)]

    def _facet_text(self, row: Row, position: int, number: int) -> str | None:
        """Return the text of an unknown field if it can be a facet: a scalar, not a structure."""
        raw = getattr(row, f"unknown_{position}", EMPTY)
        value = _decode_loose(raw) if bytes(raw)[:1] not in (b"", b"[", b"{") else None
        self._cleaner.line = number
        return self._cleaner.label("an unknown field", value) or None


def tool_version(fields_seen: Collection[str]) -> str:
    """Guess which spikee wrote a file from the fields that its rows have."""
    return next((label for field, label in _VERSION_BY_FIELD if field in fields_seen), "0.1")


def _is_utf8(text: bytes) -> bool:
    """Tell whether text is UTF-8: the strict decoder does not look at what it skips."""
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_plain_origin(row: Row) -> bool:
    """Tell whether a row names no other row or file, and has its prompt where it belongs."""
    return (
        row.original_id is UNSET
        and row.result_parent_id is UNSET
        and row.attack_parent_id is UNSET
        and row.result_origin is None
        and row.source_file is None
        and row.content is EMPTY
        and row.text is EMPTY
        and row.objective is EMPTY
    )


def _place(columns: dict[str, list[Any]], index: int, row: Row) -> None:
    """Write which entry, attack and file a row belongs to."""
    own_id = columns["own_id"][index]
    mark = _mark(row, own_id)
    columns["mark"][index] = mark
    columns["parent_id"][index] = _parent_id(row, own_id, mark)
    columns["attack"][index] = _attack_name(row.attack_name)
    columns["result_origin"][index] = row.result_origin
    columns["source_file"][index] = row.source_file
    if row.objective is not EMPTY:
        columns["objective_crc"][index] = zlib.crc32(row.objective)
    if row.content is not EMPTY or row.text is not EMPTY:
        columns["text_crc"][index] = zlib.crc32(_prompt(row))


def _mark(row: Row, own_id: str) -> int:
    if row.attack_parent_id is not UNSET:
        return Mark.ATTACK
    if row.attack_name is not UNSET:
        return Mark.STANDARD if row.attack_name in _NO_ATTACK else Mark.ATTACK
    return Mark.ATTACK_BY_ID if _ATTACK_ID.fullmatch(own_id) else Mark.STANDARD


def _parent_id(row: Row, own_id: str, mark: int) -> str:
    if row.result_parent_id is not UNSET and row.result_parent_id is not None:
        return str(row.result_parent_id)
    if row.attack_parent_id is not UNSET and row.attack_parent_id is not None:
        return str(row.attack_parent_id)
    entry_id = own_id if row.original_id is UNSET or row.original_id is None else str(row.original_id)
    if mark != Mark.STANDARD:
        match = _ATTACK_ID.fullmatch(entry_id)
        if match:
            return match[1]
    return entry_id


def _attack_name(name: Any) -> str | None:
    if name is UNSET or name in _NO_ATTACK:
        return None
    for prefix in _MODULE_PREFIXES:
        if name.startswith(prefix):
            return str(name[len(prefix) :])
    return str(name)


def _answer(response: bytes) -> int:
    if len(response) > _LONGEST_SHORT_ANSWER:
        return Answer.TEXT
    if response in _EMPTY_ANSWERS:
        return Answer.EMPTY
    return Answer.BOOLEAN if response in _BOOLEAN_ANSWERS else Answer.TEXT


def _history_state(item: HistoryItem) -> tuple[str, str | None]:
    error = item.error
    errored = error is not None and error != NO_RESPONSE
    blocked = bool(item.guardrail) or (error is not None and error.startswith(BLOCK_WORDS))
    outcome = state(success=item.success, error=errored, guardrail=blocked)
    kind = describe(error)[1] if error is not None and outcome is Outcome.ERROR else None
    return outcome.value, kind


def _history_item(item: dict[str, Any]) -> HistoryItem:
    success, error = item.get("success"), item.get("error")
    return HistoryItem(
        success=bool(success) if success in (0, 1) else None,
        error=error if isinstance(error, str) else scalar_text(error or None),
        guardrail=item.get("guardrail") is True,
    )


def _decode_loose(raw: Raw) -> Any:
    """Decode a part of a row that was already found to be JSON of a sort, NaN and half characters included."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(bytes(raw).decode("utf-8", "surrogatepass"))


def _prompt(row: Row) -> Raw:
    """Return the prompt under the name that its writer used."""
    if row.content is not EMPTY and bytes(row.input) in _EMPTY_ANSWERS:
        return row.content
    return row.text if row.input is EMPTY else row.input
