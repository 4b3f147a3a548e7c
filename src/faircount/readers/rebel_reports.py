"""Reports in REBEL's structure as rows of results: REBEL's own, and those of Faircount, which say more.

REBEL writes one entry for each metric of a case, under one name and without the metric's: entries with the same name,
input and outputs are one case. How many attempts there were is how many outputs there are, whatever `count` says. The
document is taken whole; each entry is decoded when its place is known, and again when its case is read, so that only
one case is held at a time. The row of a case stands on the line where its first entry begins, if every entry begins on
a line of its own. A document that is no JSON is an error that says where; an entry that cannot be understood, or is
longer than 16 MiB, is a line that could not be read, and the others count. A report of more than 256 MiB is refused.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct, field
from xxhash import xxh3_128_digest

from faircount.core.errors import InputError
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import Stream
from faircount.ledger.schema import Batch, LedgerRow, checksum
from faircount.readers.aggregation import all_passed
from faircount.readers.attempt_rows import RowMaker, as_json, facts_of
from faircount.readers.raw_rows import after_space
from faircount.readers.registry import Found, Probe, Reader, keys_of
from faircount.readers.result_rows import RESULT_FIELDS
from faircount.readers.rows import ReadOptions
from faircount.readers.run_rows import (
    BAD,
    FAIRCOUNT,
    REBEL,
    RunAttempt,
    RunCase,
    RunFile,
    asked_of,
    decision_of,
    encoded,
    error_text,
    input_of,
    is_verdict,
    listed,
    objects,
    row_of,
    strategy_of,
    success_over,
    verdict_of,
)

NAME = "REBEL report"
CASES = "test_cases"
_METADATA = "metadata"
_PIECE_BYTES = 256 * 1024
_MAX_REPORT_BYTES = 256 * 1024 * 1024
_MAX_ENTRY_BYTES = 16 * 1024 * 1024
BOM_UTF8S = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}
_decoder = json.JSONDecoder(parse_int=str)


class RebelReader(Reader):
    """Reads reports in REBEL's structure, its own and ours."""

    name = NAME
    tool = REBEL
    noun = "test case of a report"
    aim = "task"
    fields = RESULT_FIELDS

    def sniff(self, probe: Probe) -> bool:
        """Return whether a document has test cases at its top."""
        return begins_report(probe.head) and "overview" not in keys_of(probe.head)

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give the test cases as rows that people read."""
        del head, again
        run = RunFile(REBEL, NAME)
        stream.chunks = rows(stream.chunks, run, stream.name)
        return run

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a report."""
        run, maker, made = RunFile(REBEL, NAME), RowMaker(options, found.notes), list[LedgerRow]()
        text, entries = _read(stream.chunks, run, stream.name)
        for entry in entries:
            try:
                case, own_id = _case_of(text, entry, run)
                row = _ledger_row(maker, run, entry.line, case, own_id)
            except BadLine as bad:
                found.add_bad(str(bad), entry.line)
                continue
            if not found.excludes(entry.line):
                made.append(row)
        found.lines, found.good = _last_line(text), found.good + len(made)
        if stream.truncated:
            found.notes.add("F002", stream.truncated, found.lines)
        found.add_run(run)
        batch = Batch()
        batch.extend(made, maker.facets)
        yield batch


def _ledger_row(maker: RowMaker, run: RunFile, line: int, case: RunCase, own_id: str) -> LedgerRow:
    messages, parameters = input_of(case.described)
    tags = [tag for tag in listed(case.described, "tags") if isinstance(tag, str)]
    judges = ", ".join(case.by_metric) if case.names_metrics else ""
    fields = {"judge_name": judges or None, **run.facets(case.name, tags, parameters, case.by_metric)}
    attempts = list(map(facts_of, case.attempts))
    text = checksum(as_json(asked_of(messages)))
    return maker.task_row(
        line, own_id, case.name, fields, attempts, success=case.success, text=text, by_metric=case.by_metric
    )


def begins_report(start: bytes) -> bool:
    """Return whether a JSON document that begins so has test cases at its top."""
    text = start.removeprefix(BOM_UTF8).decode("latin-1")
    try:
        return any(key == CASES for key, _ in _members(text))
    except (_Damaged, RecursionError):
        return False


def rows(chunks: Iterable[bytes], run: RunFile, name: str) -> Iterator[bytes]:
    """Yield the rows of a report as bytes of lines."""
    yield from _pieces(_lines(*_read(chunks, run, name), run))


def _read(chunks: Iterable[bytes], run: RunFile, name: str) -> tuple[str, Sequence[_ReportEntry]]:
    """Return a report and where its entries are."""
    # In Latin-1 every byte is a character: places are those of the bytes, and memory is that of the file.
    text = _whole(chunks, name).decode("latin-1")
    try:
        entries = list(_entries(text, run))
    except _Damaged as damage:
        line = text.count("\n", 0, damage.place) + 1
        column = damage.place - text.rfind("\n", 0, damage.place)
        raise InputError(
            f"{name}:{line}: the report is damaged here: {damage}, at character {column}; none of it was counted"
        ) from None
    _place(text, entries)
    return text, entries


def _last_line(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _whole(chunks: Iterable[bytes], name: str) -> bytearray:
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > _MAX_REPORT_BYTES:
            raise InputError(
                f"{name}: the report is larger than {_MAX_REPORT_BYTES >> 20} MiB, the most that is read of a REBEL"
                " report; analyse the journal of the run, or split the report"
            )
    if whole.startswith(BOM_UTF8):
        del whole[: len(BOM_UTF8)]
    return whole


class _Damaged(Exception):
    """A document that cannot be read on from a place."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.place = place


class _ReportEntry(Struct):
    """An entry of the report: where it stands in the text, which case it is about, and on which line its row goes."""

    start: int
    end: int
    key: bytes | None
    """Stands for name, input and outputs; None for an entry that cannot be read."""
    line: int = 0
    others: list[_ReportEntry] = field(default_factory=list)
    """Later entries about the same case."""
    own_id: str = ""


# -- where entries are ------------------------------------------------------------------------------------------


def _members(text: str) -> Iterator[tuple[str, int]]:
    """Yield the keys of the object that a document is, each with the place of its value; values are passed over."""
    place = after_space(text, 0)
    if text[place : place + 1] != "{":
        raise _Damaged("it is not a JSON object", place)
    place = after_space(text, place + 1)
    while text[place : place + 1] != "}":
        key, place = _value(text, place)
        place = _expect(text, place, ":")
        yield str(key), place
        _, place = _short_value(text, place)
        place = _after_comma(text, place, "}")
    rest = after_space(text, place + 1)
    if rest < len(text):
        raise _Damaged("more follows the end of the report", rest)


def _entries(text: str, run: RunFile) -> Iterator[_ReportEntry]:
    """Yield the entries of a report, and learn who wrote it."""
    names: dict[str, dict[bytes, str]] = {}
    for member, place in _members(text):
        if member == _METADATA:
            _learn(_short_value(text, place)[0], run)
        if member == CASES:
            yield from _distinct_cases(_items(text, place), names)


def _learn(metadata: Any, run: RunFile) -> None:
    if isinstance(metadata, Mapping) and metadata.get("tool") == FAIRCOUNT:
        run.tool = FAIRCOUNT
        run.version = metadata["version"] if isinstance(metadata.get("version"), str) else None


def _items(text: str, place: int) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of the items of a list."""
    place = _expect(text, place, "[")
    while text[place : place + 1] != "]":
        value, end = _short_value(text, place)
        yield place, end, value
        place = _after_comma(text, end, "]")


def _short_value(text: str, place: int) -> tuple[Any, int]:
    """Return a value and where it ends; of a list or object that is too long to be decoded, None and its end."""
    if len(text) - place > _MAX_ENTRY_BYTES and text[place] in "[{":
        depth = 0
        for mark in BOM_UTF8S.finditer(text, place):
            depth += _DEPTH.get(mark[0], 0)
            if depth == 0:
                if mark.end() - place > _MAX_ENTRY_BYTES:
                    return None, mark.end()
                break
    return _value(text, place)


def _distinct_cases(
    items: Iterable[tuple[int, int, Any]], names: dict[str, dict[bytes, str]]
) -> Iterator[_ReportEntry]:
    """Yield entries; one about the case of an earlier one is added to that. Cases of one name are numbered."""
    found: dict[bytes, _ReportEntry] = {}
    for start, end, value in items:
        key = _key(value) if isinstance(value, dict) else None
        if key is None:
            yield _ReportEntry(start, end, None)
            continue
        entry = _ReportEntry(start, end, key)
        if key in found:
            found[key].others.append(entry)
        else:
            found[key] = entry
            same_name = names.setdefault(str(value.get("name")), {})
            same_name[key] = f"#{len(same_name) + 1}" if same_name else ""
            entry.own_id = same_name[key]
            yield entry


def _key(entry: Mapping[str, Any]) -> bytes | None:
    """Return what stands for the case that an entry is about; None for what is nested too deeply to be read."""
    try:
        return xxh3_128_digest(encoded([entry.get(part) for part in ("name", "input", "actual_outputs")]))
    except RecursionError:
        return None


def _value(text: str, place: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, place)
    except json.JSONDecodeError as error:
        torn = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        reason = "it ends in the middle of a value" if torn else error.msg[:1].lower() + error.msg[1:]
        raise _Damaged(reason, error.pos) from None
    except RecursionError:
        raise _Damaged("lists and objects are nested too deeply", place) from None


def _expect(text: str, place: int, sign: str) -> int:
    place = after_space(text, place)
    if text[place : place + 1] != sign:
        raise _Damaged(f"a {sign} is missing", place)
    return after_space(text, place + 1)


def _after_comma(text: str, place: int, end: str) -> int:
    """Return where the next item begins, or where the end stands."""
    place = after_space(text, place)
    if text[place : place + 1] == ",":
        return after_space(text, place + 1)
    if text[place : place + 1] != end:
        raise _Damaged("it ends too early" if place >= len(text) else f"a , or {end} is missing", place)
    return place


def _place(text: str, entries: Sequence[_ReportEntry]) -> None:
    """Give every row its line: the one where its entry begins, or else one after the other."""
    line, before = 1, 0
    for entry in entries:
        line += text.count("\n", before, entry.start)
        entry.line, before = line, entry.start
    if any(one.line >= other.line for one, other in pairwise(entries)):
        for number, entry in enumerate(entries, start=1):
            entry.line = number


# -- rows -------------------------------------------------------------------------------------------------------


def _lines(text: str, entries: Iterable[_ReportEntry], run: RunFile) -> Iterator[bytes]:
    """Yield rows as lines, with empty ones between them where the document has more."""
    number = 0
    for entry in entries:
        yield b"\n" * (entry.line - number - 1)
        number = entry.line
        try:
            yield row_of(*_case_of(text, entry, run), run)
        except BadLine as bad:
            run.bad[number] = str(bad)
            yield BAD
        yield b"\n"
    yield b"\n" * (_last_line(text) - number)


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _case_of(text: str, entry: _ReportEntry, run: RunFile) -> tuple[RunCase, str]:
    if entry.end - entry.start > _MAX_ENTRY_BYTES:
        raise BadLine(f"longer than {_MAX_ENTRY_BYTES >> 20} MiB")
    entries = [_decoded(text, one, entry.line, run) for one in (entry, *entry.others)]
    name = entries[0].get("name")
    if not isinstance(name, str):
        raise BadLine("the test case has no name")
    return _case(name, entries), name + entry.own_id


def _decoded(text: str, entry: _ReportEntry, line: int, run: RunFile) -> dict[str, Any]:
    value, problems = parse(text[entry.start : entry.end].encode("latin-1"))
    if problems.not_finite:
        run.problems.append(("F012", "", line))
    return value


def _case(name: str, entries: Sequence[Mapping[str, Any]]) -> RunCase:
    first = entries[0]
    outputs = objects(first, "actual_outputs")
    by_entry = [_verdicts(entry, number, outputs, entries) for number, entry in enumerate(entries)]
    most = max((len(by_attempt) for by_attempt in by_entry), default=0)
    attempts = [
        _attempt(number, outputs[number] if number < len(outputs) else None, by_entry)
        for number in range(max(most, len(outputs)))
    ]
    successes = [_success(entry, by_attempt) for entry, by_attempt in zip(entries, by_entry, strict=True)]
    return RunCase(
        name=name,
        described=first,
        attempts=attempts,
        # Where each metric has an entry of its own, a case must pass them all.
        success=all_passed(map(Decision.of, successes)),
        by_metric=_by_metric(entries, by_entry, successes),
        names_metrics=any(metric.get("name") for metric in objects(first, "metrics")),
    )


def _attempt(
    number: int, output: Mapping[str, Any] | None, by_entry: Sequence[Sequence[Sequence[Verdict]]]
) -> RunAttempt:
    recorded, model = (output or {}).get("attempt"), (output or {}).get("model")
    verdicts = [one for by_attempt in by_entry if number < len(by_attempt) for one in by_attempt[number]]
    error = error_text((output or {}).get("error"))
    return RunAttempt(
        number=recorded if isinstance(recorded, int) else number,
        output=output,
        error=error,
        success=None if error is not None else all_passed(one.decision for one in verdicts),
        verdicts=verdicts,
        model=model if isinstance(model, str) else None,
    )


def _verdicts(
    entry: Mapping[str, Any],
    number: int,
    outputs: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
) -> list[list[Verdict]]:
    """Return what the metrics of an entry said, by attempt.

    Results come attempt by attempt, as many for each as there are metrics; where they do not divide so, each is taken
    for an attempt.
    """
    results = objects(entry, "evaluation_results")
    each = len(results) // len(outputs) if outputs and results and len(results) % len(outputs) == 0 else 1
    names = _metric_names(entry, number, each, entries)
    return [
        [
            verdict_of(result if isinstance(result.get("metric"), str) else {**result, "metric": name})
            for result, name in zip(results[start : start + each], names, strict=False)
        ]
        for start in range(0, len(results), each)
    ]


def _metric_names(entry: Mapping[str, Any], number: int, each: int, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics of an entry: those that it names, or else their numbers in the case."""
    named = [metric.get("name") for metric in objects(entry, "metrics")]
    first = number if len(entries) > 1 else 0
    own = named[first : first + each]
    known = len(own) == each and all(isinstance(name, str) for name in own)
    return [str(name) for name in own] if known else [str(first * each + index + 1) for index in range(each)]


def _success(entry: Mapping[str, Any], by_attempt: Sequence[Sequence[Verdict]]) -> bool | None:
    """Return what an entry says that its results come to, or find it out where it says nothing."""
    result = entry.get("aggregated_result")
    word = result.get("verdict") if isinstance(result, Mapping) else None
    if is_verdict(word):
        return Verdict(decision_of(word)).success
    sizes = {len(attempt) for attempt in by_attempt}
    each = sizes.pop() if len(sizes) == 1 else 1
    verdicts = [one for attempt in by_attempt for one in attempt]
    return success_over(strategy_of(entry), verdicts, per_attempt=max(each, 1))


def _by_metric(
    entries: Sequence[Mapping[str, Any]],
    by_entry: Sequence[Sequence[Sequence[Verdict]]],
    successes: Sequence[bool | None],
) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for entry, by_attempt, success in zip(entries, by_entry, successes, strict=True):
        verdicts = [one for attempt in by_attempt for one in attempt]
        metrics = list(dict.fromkeys(one.judge for one in verdicts))
        for metric in metrics:
            own = [one for one in verdicts if one.judge == metric]
            found[_unused(metric, found)] = success if len(metrics) == 1 else success_over(strategy_of(entry), own)
    return found


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """Return a name that no metric has yet."""
    number, own = 1, name
    while own in taken:
        number += 1
        own = f"{name}#{number}"
    return own
