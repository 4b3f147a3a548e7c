"""Reads spikee's result files, every row shape from 0.1 to 0.9.2 and the trace fields that were never released.

Lines become columns of the ledger: who the row belongs to, whether it is part of a dynamic attack, what was decided,
what went wrong, and checksums of the texts that stay in the file. Folding rows into entries is the ledger's work. Rows
of the same fields that others write are read in the same way.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import astuple
from xxhash import xxh3_64_intdigest

from faircount.core.findings import Notes
from faircount.core.patterns import SlowPattern
from faircount.io.lenient_json import BadLine, is_utf8, parse, whole_number
from faircount.io.streams import TOO_LONG, Block, Stream, blocks
from faircount.ledger.schema import (
    REJUDGED,
    AnswerKind,
    Batch,
    RowMark,
    VerdictRow,
    checksum,
    extend_with_zeros,
    id_number,
    plain_id_numbers,
)
from faircount.readers.registry import Found, Probe, Reader
from faircount.readers.result_rows import (
    FACETS,
    FAMILY_FIELDS,
    RESULT_FIELDS,
    RUN_MARK,
    Row,
    RowDecoder,
    attack_name_of,
    family,
    mark_of,
    parent_id_of,
)
from faircount.readers.rows import (
    EMPTY,
    EMPTY_ANSWERS,
    LARGEST_COUNT,
    SHORT_ANSWERS,
    STATES,
    Checksums,
    Cleaner,
    HistoryItem,
    ReadOptions,
    history_hash,
    history_item,
    history_of,
    judged,
    rejudgings,
    scalar_text,
    some_categories,
)

BATCH_ROWS = 50_000

_NEITHER = -1
_NOT_RECORDED: Any = math.nan
_FLAGS: dict[object, int] = {True: 1, False: 0, None: _NEITHER, UNSET: _NEITHER}
_PLAIN_STATES = {_FLAGS[decision]: STATES[decision, False, False] for decision in (True, False, None)}
_MOST_ROWS_HAVE_NO = ("own_id", "result_origin", "source_file", "mark", "attack", "errored", "error_text", "error_kind")

_NOTHING_SPECIAL: dict[str, object] = {
    "attack_name": "None",
    "original_id": UNSET,
    "result_parent_id": UNSET,
    "attack_parent_id": UNSET,
    "result_origin": None,
    "source_file": None,
    "content": EMPTY,
    "text": EMPTY,
    "objective": EMPTY,
    "error": None,
    "guardrail": UNSET,
    "attempt_history": EMPTY,
    "rejudged": EMPTY,
}
"""What a plain standard attempt has in these fields."""
_SHORT_TEXT = 1000
"""Longer ones are not remembered: a hostile file could fill the memory with them."""
_ROWS_THAT_SHOW_THE_VERSION = 20
_AS_USUAL = ReadOptions()
_NONE_BAD: Mapping[int, str] = {}
_history_decoder = msgspec.json.Decoder(list[HistoryItem])


class RowLines:
    """Reads the lines of one source into batches; `found` has afterwards how many could be read."""

    def __init__(
        self,
        stream: Stream,
        options: ReadOptions = _AS_USUAL,
        found: Found | None = None,
        *,
        mark: int = RowMark.STANDARD,
        bad: Mapping[int, str] = _NONE_BAD,
    ) -> None:
        self.stream = stream
        self.options = options
        self.found = Found(Notes(stream.name)) if found is None else found
        self.notes = self.found.notes
        self._mark = mark
        """What all rows are, `Mark.TASK` for those of a run of tests; standard rows may turn out to be of attacks."""
        self._bad = bad
        """Lines that are known to be bad, and why."""
        self._keep = self.found.keep
        self._decoder = RowDecoder(self.notes)
        self._cleaner = Cleaner(self.notes)
        self._batch = Batch()

    def batches(self) -> Iterator[Batch]:
        """Yield the source's rows in bounded batches."""
        for block in blocks(self.stream, self.options.max_line):
            self._read_block(block)
            if len(self._batch) >= BATCH_ROWS:
                yield self._take_batch()
        if len(self._batch):
            yield self._take_batch()
        if self.stream.truncated:
            self.notes.add("F002", self.stream.truncated, self.found.lines)

    def _take_batch(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch

    # -- lines become rows ---------------------------------------------------------------------------------------

    def _read_block(self, block: Block) -> None:
        """Read a block at once if all its lines are clean, else line by line."""
        first = self.found.lines + 1
        # What stands before the first line, a byte order mark, belongs to it.
        self.found.anchors.append((first, block.offset if self.found.anchors else self.stream.starts_at))
        at_once = block.buffer is not TOO_LONG and self._keep is None
        rows = self._decoder.all_fast(block.buffer, block.length) if at_once else None
        if rows is None:
            self._read_lines(block.lines, first)
        else:
            self.found.lines += len(rows)
            self._add_rows(rows, range(first, first + len(rows)))

    def _read_lines(self, lines: Sequence[bytes], first: int) -> None:
        self.found.lines += len(lines)
        good: list[tuple[Row, int, bool]] = []
        for number, line in enumerate(lines, start=first):
            if not line:
                self.found.blank += 1
                continue
            try:
                row, truthy = self._decode(line, number)
                kept = self._keep is None or self._keep(line, row, number)
            except (BadLine, SlowPattern) as reason:
                if line.strip():
                    self.found.add_bad(str(reason), number)
                else:
                    self.found.blank += 1
            else:
                if kept:
                    good.append((row, number, truthy))
                else:
                    self._see_fields(row)
                    self.found.exclude(number)
        if good:
            rows, numbers, truthy_rows = map(list, zip(*good, strict=True))
            self._add_rows(rows, numbers, truthy_rows)

    def _decode(self, line: bytes, number: int) -> tuple[Row, bool]:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self.options.max_line} bytes")
        if number in self._bad:
            raise BadLine(self._bad[number])
        return self._decoder.fast(line, number) if is_utf8(line) else self._decoder.careful(line, number)

    # -- rows become columns -------------------------------------------------------------------------------------

    def _add_rows(self, rows: Sequence[Row], numbers: Sequence[int], truthy: Sequence[bool] | None = None) -> None:
        """Add rows column by column: what all rows have at once, what only some have row by row."""
        before = len(self._batch)
        self.found.good += len(rows)
        for row in rows[:_ROWS_THAT_SHOW_THE_VERSION]:
            self._see_fields(row)
        # To take all fields out of a row costs less than to take out the half that are wanted.
        fields = dict(zip(Row.__struct_fields__, zip(*map(astuple, rows), strict=True), strict=False))
        ids, times = fields["id"], fields["response_time"]
        labels = {name: fields[name] for name in FACETS}
        columns = self._batch.attempts.columns
        decisions = list(map(_FLAGS.__getitem__, fields["success"]))
        # Lists are taken in at once, other iterables number by number.
        columns["line"].fromlist(list(numbers))
        columns["parent_id"].fromlist(plain_id_numbers(ids))
        columns["decision"].fromlist(decisions)
        columns["truthy"].fromlist([decision == 1 for decision in decisions] if truthy is None else list(truthy))
        columns["state"].fromlist(list(map(_PLAIN_STATES.__getitem__, decisions)))
        columns["guardrail"].fromlist([_NEITHER] * len(rows))
        columns["requests"].fromlist(list(fields["attempts"]))
        columns["response_time"].fromlist([_NOT_RECORDED if seconds is None else seconds for seconds in times])
        checksums = list(map(xxh3_64_intdigest, fields["response"]))
        columns["answer"].fromlist([SHORT_ANSWERS.get(found, AnswerKind.TEXT) for found in checksums])
        columns["text_hash"].frombytes(array("Q", list(map(xxh3_64_intdigest, fields["input"]))).tobytes())
        columns["response_hash"].frombytes(array("Q", checksums).tobytes())
        columns["objective_hash"].frombytes(bytes(8 * len(rows)))
        columns["family"].frombytes(array("Q", _families(fields["long_id"], labels)).tobytes())
        for name in _MOST_ROWS_HAVE_NO:
            extend_with_zeros(columns[name], len(rows))
        if self._mark != RowMark.STANDARD:
            columns["mark"][before:] = array(columns["mark"].typecode, [self._mark] * len(rows))
        for index in range(len(rows)) if self.options.guardrail_detected else _special_rows(fields):
            self._add_special(before + index, rows[index])
        for index, name in enumerate(ids, start=before):
            if not columns["parent_id"][index]:
                columns["parent_id"][index] = self._id_number(name)
        self.found.targets.update(labels["target"])
        for name, values in labels.items():
            self._batch.add_facet(name, values)
        for position, name in enumerate(self._decoder.unknown_fields):
            texts = [self._facet_text(row, position, number) for row, number in zip(rows, numbers, strict=True)]
            self._batch.add_facet(name, texts)

    def _add_special(self, index: int, row: Row) -> None:
        """Write what sets a row apart from a plain standard attempt that was answered and judged."""
        if self._mark == RowMark.STANDARD and (row.attack_name != "None" or not _has_plain_origin(row)):
            self._place(index, row)
        if row.error is not None or row.guardrail is not UNSET or self.options.guardrail_detected:
            self._judge(index, row)
        if row.attempt_history is not EMPTY:
            self._add_history(index, row)
        if row.rejudged is not EMPTY:
            self._add_verdicts(index, row)

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
        if parent_id != own_id and mark != RowMark.ATTACK:
            columns["own_id"][index] = self._id_number(own_id)
        self._set_word("attack", index, attack_name_of(row.attack_name))
        if row.result_origin is not None or row.source_file is not None:
            self._set_word("result_origin", index, row.result_origin)
            self._set_word("source_file", index, row.source_file)
        if row.objective is not EMPTY:
            columns["objective_hash"][index] = checksum(row.objective)
        if row.content is not EMPTY or row.text is not EMPTY:
            columns["text_hash"][index] = checksum(_prompt(row))

    def _judge(self, index: int, row: Row) -> None:
        """Write what became of a row that records an error or a block, or whose verdict must be turned round."""
        columns = self._batch.attempts.columns
        number = columns["line"][index]
        found = judged(row, columns["answer"][index], self.options, self.notes, number)
        self._set_word("error_text", index, found.error_text)
        self._set_word("error_kind", index, found.error_kind)
        if row.guardrail is True:
            self._note_categories(row.guardrail_categories, number)
        if found.refused is not None:
            self._batch.categories.add(number, found.refused)
        columns["decision"][index] = _FLAGS[found.decision]
        columns["state"][index] = found.state
        columns["errored"][index] = found.errored
        columns["guardrail"][index] = _FLAGS[found.guardrail]

    def _add_history(self, index: int, row: Row) -> None:
        """Write what happened inside a dynamic attack."""
        self.found.seen.add("attempt_history")
        columns = self._batch.attempts.columns
        number = columns["line"][index]
        items = self._history_items(row.attempt_history, number)
        counted, refusals = history_of(items, policy_blocks=self.options.policy_blocks)
        for item in items:
            if item.guardrail:
                self._note_categories(item.guardrail_categories, number)
        for one in counted:
            self._batch.history.add(number, one.state, one.error_kind, one.times, one.first_at)
        for refused in refusals:
            self._batch.categories.add(number, refused)
        asked = [Checksums(checksum(item.input), checksum(item.response), item.error) for item in items]
        columns["response_hash"][index] = history_hash(checksum(row.response), asked)

    def _add_verdicts(self, index: int, row: Row) -> None:
        """Write what each judge said of a row that was judged again."""
        number = self._cleaner.line = self._batch.attempts.columns["line"][index]
        self._batch.add_verdicts(number, list(_verdicts_of(row, _decode_loose(row.rejudged), number, self._cleaner)))

    def _see_fields(self, row: Row) -> None:
        if row.input_type is not None:
            self.found.seen.add("input_type")
        if row.judge_name is not None:
            self.found.seen.add("judge_name")
        if row.attack_name is not UNSET:
            self.found.seen.add("attack_name")
        if row.attempt_history is not EMPTY:
            self.found.seen.add("attempt_history")

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
        for name in some_categories(named):
            self._batch.categories.add(number, name)

    def _history_items(self, raw: Raw, number: int) -> list[HistoryItem]:
        try:
            return _history_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = _decode_loose(raw)
        if value is not None:
            self.notes.add("F027", "attempt_history", number)
        return [history_item(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    def _facet_text(self, row: Row, position: int, number: int) -> str | None:
        """Return the text of an unknown field if it can be a facet: a scalar, not a structure."""
        raw = getattr(row, f"unknown_{position}", EMPTY)
        value = _decode_loose(raw) if bytes(raw)[:1] not in (b"", b"[", b"{") else None
        self._cleaner.line = number
        return self._cleaner.label("an unknown field", value) or None


def _verdicts_of(row: Row, rejudged: Any, number: int, cleaner: Cleaner) -> Iterator[VerdictRow]:
    """Yield the verdicts of a row that was judged again, the first one first; `rejudged` is its field."""
    # Only these rows need the words of runs.
    from faircount.core.verdict import Verdict
    from faircount.readers.run_rows import METRIC, decision_of, number_of, seconds_of

    chain = rejudgings(rejudged)
    if not chain:
        return
    first = chain[0]["before"]
    by_metric = {name.removeprefix(METRIC): said for name, said in first.items() if name.startswith(METRIC)}
    for name, said in by_metric.items():
        yield VerdictRow(judge=cleaner.whole("judge", name), decision=Verdict(decision_of(said)).success)
    judge = cleaner.label("judge", first.get("judge_name", row.judge_name))
    if not by_metric:
        yield VerdictRow(judge=judge, decision=_decision(first))
        for attempt, turn in _turns(chain[0].get("turns")):
            if "before" in turn:
                yield VerdictRow(judge=judge, attempt=attempt, decision=_decision({"success": turn["before"]}))
    after = [*(one["before"] for one in chain[1:]), {"success": None if row.success is UNSET else row.success}]
    for place, (one, result) in enumerate(zip(chain, after, strict=True), start=1):
        shared: dict[str, Any] = {
            "judge": cleaner.label("judge", one.get("judge")),
            "reason_line": number,
            "judged_at": seconds_of(one.get("at")),
            "origin": REJUDGED,
            "given": place,
        }
        yield VerdictRow(decision=_decision(result), score=number_of(one.get("score")), **shared)
        for attempt, turn in _turns(one.get("turns")):
            yield VerdictRow(attempt=attempt, decision=_decision(turn), score=number_of(turn.get("score")), **shared)


def _decision(fields: Mapping[str, Any]) -> bool | None:
    success = fields.get("success")
    return success if isinstance(success, bool) else None


def _turns(turns: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield what was said of each request in the history, which is counted from 1 here."""
    for turn in turns if isinstance(turns, list) else ():
        if isinstance(turn, dict) and type(turn.get("turn")) is int and 0 <= turn["turn"] < LARGEST_COUNT:
            yield turn["turn"] + 1, turn


def _families(long_ids: Iterable[str | None], labels: Mapping[str, Sequence[str | None]]) -> list[int]:
    """Return for each row a number that stands for its family, 0 for none."""
    named = map(family, long_ids, *(labels[field] for field in FAMILY_FIELDS))
    return [0 if name is None else xxh3_64_intdigest(name.encode()) for name in named]


def _special_rows(fields: Mapping[str, tuple[Any, ...]]) -> list[int]:
    """Return which rows are not plain standard attempts, by what their fields hold."""
    usual = {name: one for name, one in _NOTHING_SPECIAL.items() if fields[name].count(one) < len(fields[name])}
    plain = tuple(usual.values())
    return [index for index, row in enumerate(zip(*map(fields.__getitem__, usual), strict=True)) if row != plain]


def _has_plain_origin(row: Row) -> bool:
    """Return whether a row names no other row or file, and has its prompt where it belongs."""
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
    """Decode a part of a row that was already found to be JSON of a sort, NaN and lone surrogates included."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(bytes(raw).decode("utf-8", "surrogatepass"), parse_int=whole_number)


def _prompt(row: Row) -> Raw:
    """Return the prompt under the name that its writer used."""
    if row.content is not EMPTY and bytes(row.input) in EMPTY_ANSWERS:
        return row.content
    return row.text if row.input is EMPTY else row.input


_RESULT_KEYS = frozenset({"success", "response", "error", "guardrail"})
_RESULT_KEY = re.compile(rb'"(?:success|response)"\s*:')
_VERSION_BY_FIELD = (
    ("attempt_history", "0.9.2 or later"),
    ("input_type", "0.8 or later"),
    ("judge_name", "0.3 or later"),
    ("attack_name", "0.2"),
)


class SpikeeReader(Reader):
    """Reads spikee's result files."""

    name = tool = "spikee"
    noun = "spikee result"
    ranges = lines_are_rows = version_by_fields = True
    detected_as_true = ("0.1",)
    fields = RESULT_FIELDS

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file begins with a row of results; of a long row the beginning must do."""
        first, end, _ = probe.head.removeprefix(BOM_UTF8).lstrip().partition(b"\n")
        begins = not end and bool(_RESULT_KEY.search(first)) and RUN_MARK.encode() not in first
        return begins or _is_result(first)

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a stream."""
        yield from RowLines(stream, options, found).batches()

    def version(self, found: Found) -> str | None:
        """Guess which spikee wrote a file from the fields that its rows have."""
        seen = (label for name, label in _VERSION_BY_FIELD if name in found.seen)
        return next(seen, "0.1") if found.good else None


def _is_result(line: bytes) -> bool:
    try:
        row, _ = parse(line)
    except BadLine:
        return False
    return "id" in row and RUN_MARK not in row and not _RESULT_KEYS.isdisjoint(row)
