"""Reads spikee's result files, every row shape from 0.1 to 0.9.2 and the trace fields that were never released.

Rows become columns of the ledger: who the row belongs to, whether it is part of a dynamic attack, what was decided,
what went wrong, and checksums of the texts that stay in the file. Folding rows into entries is the ledger's work.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from faircount.findings import Notes
from faircount.ledger.schema import OUTCOME_NUMBER, Answer, Batch, Mark, extend_with_zeros, id_number, plain_id_numbers
from faircount.model import Outcome, Source
from faircount.options import MAX_LINE_BYTES
from faircount.outcomes import state
from faircount.patterns import SlowPattern
from faircount.policy_blocks import known_pattern, policy_block
from faircount.reading.clean import Cleaner, scalar_text
from faircount.reading.error_kinds import describe
from faircount.reading.loose import BadLine, whole_number
from faircount.reading.spikee_families import FAMILY_FIELDS, family
from faircount.reading.spikee_rows import EMPTY, Row, RowDecoder, is_utf8
from faircount.reading.streams import TOO_LONG, Block, Stream, blocks

if TYPE_CHECKING:
    from faircount.reading.run_rows import RunFile

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
_SHORT_ANSWERS = {
    **{xxh3_64_intdigest(text): Answer.EMPTY for text in _EMPTY_ANSWERS},
    **{xxh3_64_intdigest(text): Answer.BOOLEAN for text in _BOOLEAN_ANSWERS},
}
"""What kind of answer a response is that is no text, by its checksum."""
_STATES = {
    (success, error, guardrail): OUTCOME_NUMBER[state(success=success, error=error, guardrail=guardrail)]
    for success in (True, False, None)
    for error in (True, False)
    for guardrail in (True, False)
}
_NEITHER = -1
_NOT_RECORDED: Any = math.nan
_FLAGS: dict[object, int] = {True: 1, False: 0, None: _NEITHER, UNSET: _NEITHER}
_PLAIN_STATES = {_FLAGS[decision]: _STATES[decision, False, False] for decision in (True, False, None)}
_MOST_ROWS_HAVE_NO = ("own_id", "result_origin", "source_file", "mark", "attack", "errored", "error_text", "error_kind")

_main_of = attrgetter("id", "long_id", "success", "attempts", "response_time", "input", "response", *FACETS)
_specialities_of = attrgetter(
    "attack_name",
    "original_id",
    "result_parent_id",
    "attack_parent_id",
    "result_origin",
    "source_file",
    "content",
    "text",
    "objective",
    "error",
    "guardrail",
    "attempt_history",
)
_NOTHING_SPECIAL = ("None", UNSET, UNSET, UNSET, None, None, EMPTY, EMPTY, EMPTY, None, UNSET, EMPTY)
_MOST_CATEGORIES = 100
_SHORT_TEXT = 1000
"""Longer ones are not remembered: a hostile file could fill the memory with them."""
_ROWS_THAT_TELL_THE_VERSION = 20
_VERSION_BY_FIELD = (
    ("attempt_history", "0.9.2 or later"),
    ("input_type", "0.8 or later"),
    ("judge_name", "0.3 or later"),
    ("attack_name", "0.2"),
)


class HistoryItem(msgspec.Struct, gc=False):
    """One request inside a dynamic attack, with the texts of what was asked and answered, undecoded."""

    success: bool | None = None
    error: str | None = None
    guardrail: bool | None = None
    input: Raw = EMPTY
    response: Raw = EMPTY
    guardrail_categories: Raw = EMPTY
    policy_block: str | None = None


_history_decoder = msgspec.json.Decoder(list[HistoryItem])


class SpikeeReader:
    """Reads one source; afterwards `source()` tells how its lines fared and `notes` holds the doubts."""

    def __init__(
        self,
        stream: Stream,
        *,
        max_line: int = MAX_LINE_BYTES,
        guardrail_detected: bool = False,
        policy_blocks: bool = True,
        keep: Callable[[bytes, Row, int], bool] | None = None,
    ) -> None:
        self.stream = stream
        self.max_line = max_line
        self.guardrail_detected = guardrail_detected
        self.policy_blocks = policy_blocks
        self._keep = keep
        self.notes = Notes(stream.name)
        self._decoder = RowDecoder(self.notes)
        self._cleaner = Cleaner(self.notes)
        self._lines = self._good = self._bad = self._blank = 0
        self.fields_seen: set[str] = set()
        self.targets: set[str | None] = set()
        """What the rows say that they were sent to."""
        self.anchors: list[tuple[int, int]] = []
        """Lines from time to time, each with the byte offset at which it can be found again."""
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
        for doubt in () if self.stream.run is None else self.stream.run.doubts:
            self.notes.add(*doubt)

    def source(self) -> Source:
        """Return what was read, after the last batch."""
        read = Source(
            path=self.stream.name,
            tool_version=tool_version(self.fields_seen) if self._good else None,
            lines=self._lines,
            good_lines=self._good,
            bad_lines=self._bad,
            blank_lines=self._blank,
            bytes=self.stream.bytes_read,
            target=only_target(self.targets),
        )
        return read if self.stream.run is None else of_run(read, self.stream.run)

    def _take_batch(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch

    # -- lines become rows ---------------------------------------------------------------------------------------

    def _read_block(self, block: Block) -> None:
        """Read a block at once if all its lines are clean, else line by line."""
        first = self._lines + 1
        # What stands before the first line, a byte order mark, belongs to it.
        self.anchors.append((first, block.offset if self.anchors else self.stream.starts_at))
        at_once = block.buffer is not TOO_LONG and self._keep is None
        rows = self._decoder.all_fast(block.buffer, block.length) if at_once else None
        if rows is None:
            self._read_lines(block.lines, first)
        else:
            self._lines += len(rows)
            self._add_rows(rows, range(first, first + len(rows)))

    def _read_lines(self, lines: Sequence[bytes], first: int) -> None:
        self._lines += len(lines)
        good: list[tuple[Row, int, bool]] = []
        for number, line in enumerate(lines, start=first):
            if not line:
                self._blank += 1
                continue
            try:
                row, truthy = self._decode(line, number)
                kept = self._keep is None or self._keep(line, row, number)
            except (BadLine, SlowPattern) as reason:
                self._note_bad(line, str(reason), number)
            else:
                if kept:
                    good.append((row, number, truthy))
                else:
                    self._leave_out(row, number)
        if good:
            rows, numbers, truthy_rows = map(list, zip(*good, strict=True))
            self._add_rows(rows, numbers, truthy_rows)

    def _decode(self, line: bytes, number: int) -> tuple[Row, bool]:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self.max_line} bytes")
        if self.stream.run is not None and number in self.stream.run.bad:
            raise BadLine(self.stream.run.bad[number])
        return self._decoder.fast(line, number) if is_utf8(line) else self._decoder.careful(line, number)

    def _note_bad(self, line: bytes, reason: str, number: int) -> None:
        if not line.strip():
            self._blank += 1
            return
        self._bad += 1
        self.notes.add("F001", reason, number)

    def _leave_out(self, row: Row, number: int) -> None:
        self._good += 1
        self._see_fields(row)
        self.notes.add("F029", "", number)

    # -- rows become columns -------------------------------------------------------------------------------------

    def _add_rows(self, rows: Sequence[Row], numbers: Sequence[int], truthy: Sequence[bool] | None = None) -> None:
        """Add rows column by column: what all rows have at once, what only some have row by row."""
        before = len(self._batch)
        self._good += len(rows)
        for row in rows[:_ROWS_THAT_TELL_THE_VERSION]:
            self._see_fields(row)
        ids, long_ids, verdicts, requests, times, prompts, responses, *facets = zip(*map(_main_of, rows), strict=True)
        labels = dict(zip(FACETS, facets, strict=True))
        columns = self._batch.attempts.columns
        decisions = list(map(_FLAGS.__getitem__, verdicts))
        # Lists are taken in at once, other iterables number by number.
        columns["line"].fromlist(list(numbers))
        columns["parent_id"].fromlist(plain_id_numbers(ids))
        columns["decision"].fromlist(decisions)
        columns["truthy"].fromlist([decision == 1 for decision in decisions] if truthy is None else list(truthy))
        columns["state"].fromlist(list(map(_PLAIN_STATES.__getitem__, decisions)))
        columns["guardrail"].fromlist([_NEITHER] * len(rows))
        columns["requests"].fromlist(list(requests))
        columns["response_time"].fromlist([_NOT_RECORDED if seconds is None else seconds for seconds in times])
        checksums = list(map(xxh3_64_intdigest, responses))
        columns["answer"].fromlist([_SHORT_ANSWERS.get(checksum, Answer.TEXT) for checksum in checksums])
        columns["text_hash"].frombytes(array("Q", list(map(xxh3_64_intdigest, prompts))).tobytes())
        columns["response_hash"].frombytes(array("Q", checksums).tobytes())
        columns["objective_hash"].frombytes(bytes(8 * len(rows)))
        columns["family"].frombytes(array("Q", _families(long_ids, labels)).tobytes())
        for name in _MOST_ROWS_HAVE_NO:
            extend_with_zeros(columns[name], len(rows))
        if self.stream.tells_of_tests:
            columns["mark"][before:] = array(columns["mark"].typecode, [Mark.TASK] * len(rows))
        for index, specialities in enumerate(map(_specialities_of, rows)):
            if specialities != _NOTHING_SPECIAL or self.guardrail_detected:
                self._add_specialities(before + index, rows[index])
        for index, name in enumerate(ids, start=before):
            if not columns["parent_id"][index]:
                columns["parent_id"][index] = self._id_number(name)
        self.targets.update(labels["target"])
        for name, values in labels.items():
            self._batch.add_facet(name, values)
        for position, name in enumerate(self._decoder.unknown_fields):
            texts = [self._facet_text(row, position, number) for row, number in zip(rows, numbers, strict=True)]
            self._batch.add_facet(name, texts)

    def _add_specialities(self, index: int, row: Row) -> None:
        """Write what sets a row apart from a plain standard attempt that was answered and judged."""
        if not self.stream.tells_of_tests and (row.attack_name != "None" or not _has_plain_origin(row)):
            self._place(index, row)
        if row.error is not None or row.guardrail is not UNSET or self.guardrail_detected:
            self._judge(index, row)
        if row.attempt_history is not EMPTY:
            self._tell_history(index, row)

    def _set_word(self, column: str, index: int, word: str | None) -> None:
        if word is not None:
            attempts = self._batch.attempts
            attempts.columns[column][index] = attempts.lexicons[column][word]

    def _id_number(self, name: int | str) -> int:
        return id_number(name, self._batch.attempts.lexicons["parent_id"])

    def _place(self, index: int, row: Row) -> None:
        """Write which entry, attack and file a row belongs to."""
        columns = self._batch.attempts.columns
        own_id = str(row.id)
        mark = mark_of(row, own_id)
        parent_id = parent_id_of(row, own_id, mark)
        columns["mark"][index] = mark
        columns["parent_id"][index] = self._id_number(parent_id)
        if parent_id != own_id and mark != Mark.ATTACK:
            columns["own_id"][index] = self._id_number(own_id)
        self._set_word("attack", index, attack_name_of(row.attack_name))
        if row.result_origin is not None or row.source_file is not None:
            self._set_word("result_origin", index, row.result_origin)
            self._set_word("source_file", index, row.source_file)
        if row.objective is not EMPTY:
            columns["objective_hash"][index] = _checksum(row.objective)
        if row.content is not EMPTY or row.text is not EMPTY:
            columns["text_hash"][index] = _checksum(_prompt(row))

    def _judge(self, index: int, row: Row) -> None:
        """Write what became of a row that records an error or a block, or whose verdict must be turned round."""
        columns = self._batch.attempts.columns
        number, error = columns["line"][index], row.error
        decision = None if row.success is UNSET else row.success
        errored = error is not None and error != NO_RESPONSE
        guardrail = None if row.guardrail is UNSET else row.guardrail
        refused = policy_block_of(row) if error is not None and self.policy_blocks else None
        if (
            self.guardrail_detected
            and decision is not None
            and columns["answer"][index] != Answer.TEXT
            and error is None
        ):
            decision = not decision
        if error is not None:
            text, kind = self._describe_error(error, number)
            self._set_word("error_text", index, text)
            # A history knows blocks by the kinds of flagged rows; of a refusal it has the words itself.
            self._set_word("error_kind", index, kind if refused is None else None)
        if decision and (errored or guardrail):
            self.notes.add("F021", "", number)
        if guardrail:
            self._note_categories(row.guardrail_categories, number)
        if refused is not None:
            guardrail = True
            self._batch.categories.add(number, refused)
        columns["decision"][index] = _FLAGS[decision]
        columns["state"][index] = _STATES[decision, errored, bool(guardrail)]
        columns["errored"][index] = errored
        columns["guardrail"][index] = _FLAGS[guardrail]

    def _tell_history(self, index: int, row: Row) -> None:
        """Write what happened inside a dynamic attack; rows that differ in it tell of different attempts."""
        self.fields_seen.add("attempt_history")
        columns = self._batch.attempts.columns
        items = self._history_items(row.attempt_history, columns["line"][index])
        self._count_history(items, columns["line"][index])
        # Verdicts are no part of it, nor which of the answers the row shows: judged again, an attempt is the same.
        answers = [bytes(item.response) for item in items]
        own = 0 if bytes(row.response) in answers else columns["response_hash"][index]
        errors = ((item.error or "").encode("utf-8", "surrogatepass") for item in items)
        texts = b"\n".join([*answers, *(bytes(item.input) for item in items), *errors])
        columns["response_hash"][index] = _checksum(own.to_bytes(8, "little", signed=True) + texts)

    def _see_fields(self, row: Row) -> None:
        if row.input_type is not None:
            self.fields_seen.add("input_type")
        if row.judge_name is not None:
            self.fields_seen.add("judge_name")
        if row.attack_name is not UNSET:
            self.fields_seen.add("attack_name")
        if row.attempt_history is not EMPTY:
            self.fields_seen.add("attempt_history")

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
        try:
            text = bytes(raw)
            named = (_named_categories if len(text) < _SHORT_TEXT else _named_categories.__wrapped__)(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._cleaner.line = number
            found = _true_or_listed(_decode_loose(raw))
            named = tuple(dict.fromkeys(self._cleaner.whole("guardrail_categories", name) for name in found))
        if len(named) > _MOST_CATEGORIES:
            # No guardrail has so many: what is kept of a row must not grow with what a file invents.
            named = (*named[:_MOST_CATEGORIES], f"(more than {_MOST_CATEGORIES} named at once)")
        for name in named:
            self._batch.categories.add(number, name)

    def _history_items(self, raw: Raw, number: int) -> list[HistoryItem]:
        try:
            return _history_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._loose_history(raw, number)

    def _count_history(self, items: Sequence[HistoryItem], number: int) -> None:
        """Count what a history tells by state and kind of error."""
        counted: dict[tuple[int, str | None], list[int]] = {}
        refusals: dict[str, None] = {}
        for position, item in enumerate(items, start=1):
            refused = policy_block_of(item) if item.error is not None and self.policy_blocks else None
            if refused is not None:
                refusals[refused] = None
            key = history_state(item, refused=refused is not None)
            if key in counted:
                counted[key][0] += 1
            else:
                counted[key] = [1, position]
            if item.guardrail:
                self._note_categories(item.guardrail_categories, number)
        for (outcome, kind), (times, first) in counted.items():
            self._batch.history.add(number, outcome, kind, times, first)
        for refused in refusals:
            self._batch.categories.add(number, refused)

    def _loose_history(self, raw: Raw, number: int) -> list[HistoryItem]:
        value = _decode_loose(raw)
        if value is None:
            return []
        self.notes.add("F027", "attempt_history", number)
        if not isinstance(value, list):
            return []
        return [history_item(item) for item in value if isinstance(item, dict)]

    def _facet_text(self, row: Row, position: int, number: int) -> str | None:
        """Return the text of an unknown field if it can be a facet: a scalar, not a structure."""
        raw = getattr(row, f"unknown_{position}", EMPTY)
        value = _decode_loose(raw) if bytes(raw)[:1] not in (b"", b"[", b"{") else None
        self._cleaner.line = number
        return self._cleaner.label("an unknown field", value) or None


def tool_version(fields_seen: Collection[str]) -> str:
    """Guess which spikee wrote a file from the fields that its rows have."""
    return next((label for field, label in _VERSION_BY_FIELD if field in fields_seen), "0.1")


def only_target(targets: Collection[str | None]) -> str | None:
    """Return the target that all rows name, if there is one."""
    return next(iter(targets)) or None if len(targets) == 1 else None


def of_run(source: Source, run: RunFile) -> Source:
    """Return what was read of a file that tells of a run: most of its lines hold no row, and are not blank for that."""
    told = {"tool": run.tool, "tool_version": run.version, "reader": run.reader, "aim": run.aim, "target": run.target}
    return replace(source, blank_lines=run.blank_lines, stop_rule=run.stop_rule, **told)


def _families(long_ids: Iterable[str | None], labels: Mapping[str, Sequence[str | None]]) -> list[int]:
    """Return for each row a number that stands for its family, 0 for none."""
    named = map(family, long_ids, *(labels[field] for field in FAMILY_FIELDS))
    return [0 if name is None else xxh3_64_intdigest(name.encode()) for name in named]


def _checksum(text: Raw | bytes) -> int:
    """Return 64 bits that stand for a text, as a signed number that is never 0."""
    unsigned = xxh3_64_intdigest(text)
    return (unsigned - (1 << 64) if unsigned >> 63 else unsigned) or 1


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


def mark_of(row: Row, own_id: str) -> int:
    if row.attack_parent_id is not UNSET:
        return Mark.ATTACK
    if row.attack_name is not UNSET:
        return Mark.STANDARD if row.attack_name in _NO_ATTACK else Mark.ATTACK
    return Mark.ATTACK_BY_ID if _ATTACK_ID.fullmatch(own_id) else Mark.STANDARD


def parent_id_of(row: Row, own_id: str, mark: int) -> str:
    if row.result_parent_id is not UNSET and row.result_parent_id is not None:
        return str(row.result_parent_id)
    if row.attack_parent_id is not UNSET and row.attack_parent_id is not None:
        return str(row.attack_parent_id)
    entry_id = own_id if row.original_id is UNSET or row.original_id is None else str(row.original_id)
    return entry_id if mark == Mark.STANDARD else _without_attack(entry_id)


def _without_attack(entry_id: str) -> str:
    """Return the id of the entry that an attack row's id is made from."""
    match = _ATTACK_ID.fullmatch(entry_id)
    return match[1] if match else entry_id


def attack_name_of(name: Any) -> str | None:
    if name is UNSET or name in _NO_ATTACK:
        return None
    for prefix in _MODULE_PREFIXES:
        if name.startswith(prefix):
            return str(name[len(prefix) :])
    return str(name)


def policy_block_of(row: Row | HistoryItem) -> str | None:
    """Return the pattern by which the provider refused the prompt of a row, if nothing else decides what became of it.

    It is the one that the run itself recorded, if that is still one, or else the one that the words of the error fit.
    """
    if row.error is None or row.error == NO_RESPONSE or row.success is True or row.guardrail is True:
        return None
    return known_pattern(row.policy_block) or policy_block(row.error)


def history_state(item: HistoryItem, *, refused: bool) -> tuple[int, str | None]:
    """Return what became of a request, as a number, and its kind of error if it is one."""
    error = item.error
    errored = error is not None and error != NO_RESPONSE
    blocked = bool(item.guardrail) or refused or (error is not None and error.startswith(BLOCK_WORDS))
    outcome = state(success=item.success, error=errored, guardrail=blocked)
    kind = describe(error)[1] if error is not None and outcome is Outcome.ERROR else None
    return OUTCOME_NUMBER[outcome], kind


def history_item(item: dict[str, Any]) -> HistoryItem:
    success, error = item.get("success"), item.get("error")
    return HistoryItem(
        success=bool(success) if success in (0, 1) else None,
        error=error if isinstance(error, str) else scalar_text(error or None),
        guardrail=item.get("guardrail") is True,
        policy_block=scalar_text(item.get("policy_block")),
        input=_text_of(item.get("input")),
        response=_text_of(item.get("response")),
        guardrail_categories=_text_of(item.get("guardrail_categories")),
    )


def _text_of(value: Any) -> Raw:
    """Return a value as JSON, nothing for null."""
    return EMPTY if value is None else Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=1024)
def _named_categories(raw: bytes) -> tuple[str, ...]:
    """Return the categories that clean JSON names; there are few of them, and they come again and again."""
    return tuple(dict.fromkeys(_true_or_listed(msgspec.json.decode(raw))))


def _true_or_listed(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [name for name, flagged in value.items() if flagged]
    if isinstance(value, list):
        return [name for item in value if (name := scalar_text(item)) is not None]
    return []


def _decode_loose(raw: Raw) -> Any:
    """Decode a part of a row that was already found to be JSON of a sort, NaN and half characters included."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(bytes(raw).decode("utf-8", "surrogatepass"), parse_int=whole_number)


def _prompt(row: Row) -> Raw:
    """Return the prompt under the name that its writer used."""
    if row.content is not EMPTY and bytes(row.input) in _EMPTY_ANSWERS:
        return row.content
    return row.text if row.input is EMPTY else row.input
