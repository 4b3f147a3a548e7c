"""Reads spikee's result files, every row shape from 0.1 to 0.9.2 and the trace fields that were never released.

Rows become columns of the ledger: who the row belongs to, whether it is part of a dynamic attack, what was decided,
what went wrong, and checksums of the texts that stay in the file. Folding rows into entries is the ledger's work.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from faircount.findings import Notes
from faircount.ledger.schema import ATTEMPT_COLUMNS, Answer, Batch, Mark
from faircount.model import Outcome, Source
from faircount.outcomes import state
from faircount.reading.clean import Cleaner, scalar_text
from faircount.reading.error_kinds import describe
from faircount.reading.loose import BadLine
from faircount.reading.spikee_rows import EMPTY, Row, RowDecoder, doubled
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
"""Fields that say what kind of case a row is; the fields of `Row` stand in the same order."""

CASE_FACETS = (*NINE_FIELDS, "document_id", "prefix_id", "system_message")
"""Facets that make two rows with one id different cases; who judged them does not."""

_FIRST_FACET = Row.__struct_fields__.index(FACETS[0])
_BEHIND_FACETS = _FIRST_FACET + len(FACETS)

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
        self.notes = Notes()
        self._decoder = RowDecoder(self.notes)
        self._cleaner = Cleaner(self.notes)
        self._lines = self._good = self._bad = self._blank = 0
        self._fields_seen: set[str] = set()
        self._rows: list[tuple[Any, ...]] = []
        self._batch = Batch()

    def batches(self) -> Iterator[Batch]:
        """Yield the source's rows in bounded batches."""
        for block in blocks(self.stream, self.max_line):
            self._read_block(block)
            if len(self._rows) >= BATCH_ROWS:
                yield self._take_batch()
        if self._rows:
            yield self._take_batch()
        if self.stream.truncated:
            place = self._place(self._lines) if self._lines else self.stream.name
            self.notes.add("F002", self.stream.truncated, place)

    def source(self) -> Source:
        """Return what was read, after the last batch."""
        version = next((label for field, label in _VERSION_BY_FIELD if field in self._fields_seen), "0.1")
        return Source(
            path=self.stream.name,
            tool_version=version if self._good else None,
            lines=self._lines,
            good_lines=self._good,
            bad_lines=self._bad,
            blank_lines=self._blank,
            bytes=self.stream.bytes_read,
        )

    def _place(self, number: int) -> str:
        return f"{self.stream.name}:{number}"

    def _take_batch(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        rows, self._rows = self._rows, []
        columns = list(zip(*rows, strict=True))
        width = len(ATTEMPT_COLUMNS)
        batch.columns = dict(zip(ATTEMPT_COLUMNS, columns[:width], strict=True))
        batch.facets = dict(zip(FACETS, columns[width:-1], strict=True))
        for position, name in enumerate(self._decoder.unknown_fields):
            batch.facets[name] = tuple(values[position] if position < len(values) else None for values in columns[-1])
        return batch

    def _read_block(self, block: Block) -> None:
        lines = block.text.split(b"\n")
        utf8 = _is_utf8(block.text)
        number, offset = block.first_line, block.offset
        for line in lines:
            try:
                row, truthy = self._decode(line, self._place(number), utf8)
            except BadLine as reason:
                self._note_bad(line, str(reason), number)
            else:
                self._good += 1
                self._rows.append(self._columns(row, truthy, number, offset))
            number += 1
            offset += len(line) + 1
        self._lines = number - 1

    def _decode(self, line: bytes, place: str, utf8: bool) -> tuple[Row, bool]:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self.max_line} bytes")
        if not utf8:
            return self._decoder.careful(line, place)
        row, truthy = self._decoder.fast(line, place)
        if doubled(line, row):
            return self._decoder.careful(line, place)
        return row, truthy

    def _note_bad(self, line: bytes, reason: str, number: int) -> None:
        if not line.strip():
            self._blank += 1
            return
        self._bad += 1
        self.notes.add("F001", reason, self._place(number))

    def _columns(self, row: Row, truthy: bool, number: int, offset: int) -> tuple[Any, ...]:
        if self._good <= 100 or row.attempt_history is not EMPTY:
            self._see_fields(row)
        own_id = row.id if isinstance(row.id, str) else str(row.id)
        mark = _mark(row, own_id)
        answer = _answer(row.response)
        decision = row.success
        error = row.error
        errored = error is not None and error != NO_RESPONSE
        guardrail = None if row.guardrail is UNSET else row.guardrail
        if self.guardrail_detected and decision is not None and answer != Answer.TEXT and error is None:
            decision = not decision
        error_text = error_kind = None
        if error is not None:
            error_text, error_kind = self._describe_error(error, number)
        if decision and (errored or guardrail):
            self.notes.add("F021", "", self._place(number))
        if guardrail:
            self._note_categories(row.guardrail_categories, number)
        has_history = row.attempt_history is not EMPTY and self._note_history(row.attempt_history, number)
        return (
            number,
            offset,
            own_id,
            _parent_id(row, own_id, mark),
            row.result_origin or row.source_file,
            mark,
            _attack_name(row.attack_name),
            decision,
            truthy,
            _STATES[decision, errored, bool(guardrail)],
            errored,
            guardrail,
            error_text,
            error_kind,
            row.attempts,
            row.response_time,
            answer,
            zlib.crc32(_prompt(row)),
            None if row.objective is EMPTY else zlib.crc32(row.objective),
            zlib.crc32(row.attempt_history, zlib.crc32(row.response)),
            has_history,
            *msgspec.structs.astuple(row)[_FIRST_FACET:_BEHIND_FACETS],
            self._unknown_values(row, number),
        )

    def _see_fields(self, row: Row) -> None:
        if row.attempt_history is not EMPTY:
            self._fields_seen.add("attempt_history")
        if row.input_type is not None:
            self._fields_seen.add("input_type")
        if row.judge_name is not None:
            self._fields_seen.add("judge_name")
        if row.attack_name is not UNSET:
            self._fields_seen.add("attack_name")

    def _describe_error(self, error: str, number: int) -> tuple[str | None, str | None]:
        if error == NO_RESPONSE:
            self.notes.add("F016", "", self._place(number))
            return None, None
        if not error:
            self.notes.add("F017", "", self._place(number))
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
        self._cleaner.place = self._place(number)
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
        self.notes.add("F027", "attempt_history", self._place(number))
        if not isinstance(value, list):
            return []
        return [_history_item(item) for item in value if isinstance(item, dict)]

    def _unknown_values(self, row: Row, number: int) -> tuple[str | None, ...]:
        fields = self._decoder.unknown_fields
        if not fields:
            return ()
        self._cleaner.place = self._place(number)
        return tuple(self._facet_text(row, index) for index in range(len(fields)))

    def _facet_text(self, row: Row, index: int) -> str | None:
        """Return the text of an unknown field if it can be a facet: a scalar, not a structure."""
        raw = getattr(row, f"unknown_{index}", EMPTY)
        value = _decode_loose(raw) if bytes(raw)[:1] not in (b"", b"[", b"{") else None
        return self._cleaner.label("an unknown field", value) or None


def _is_utf8(text: bytes) -> bool:
    """Tell whether text is UTF-8: the strict decoder does not look at what it skips."""
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


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


def _answer(response: Raw) -> int:
    text = bytes(response)
    if len(text) > _LONGEST_SHORT_ANSWER:
        return Answer.TEXT
    if text in _EMPTY_ANSWERS:
        return Answer.EMPTY
    return Answer.BOOLEAN if text in _BOOLEAN_ANSWERS else Answer.TEXT


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
