"""A run journal as rows of results: one per case, on the line of its last attempt that counts.

A journal is read twice: once to learn which records count, since a later one can make an earlier one void, and once
to hand out rows. A case of which no attempt counts has its row where the case is told. Exactly one line comes out for
every line that goes in, so that the place of a row is a place in the journal; most are empty. Attempts wait as the
bytes of their lines until their case is complete. A torn end is a line that could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from faircount.errors import InputError
from faircount.reading.aggregation import ERROR
from faircount.reading.journals import MAX_LINE_BYTES, State, check_header, decode_mark, decode_record
from faircount.reading.loose import BadLine
from faircount.reading.run_rows import (
    BAD,
    Measured,
    RunCase,
    RunFile,
    Tried,
    error_text,
    objects,
    row_of,
    strategy_of,
    verdict_over,
    verdict_word,
)

Chunks = Iterator[bytes]

_PIECE_BYTES = 256 * 1024
_TOO_LONG = "the line is too long"


def rows(chunks: Chunks, again: Callable[[], Chunks] | None, run: RunFile, name: str) -> Chunks:
    """Yield the rows of a journal as bytes of lines. `again` opens it a second time; without it, a copy is kept."""
    if again is not None:
        state = _state(chunks, run, name)
        yield from _pieces(_rows(state, again(), run))
        return
    import tempfile

    with tempfile.TemporaryFile(prefix="faircount-") as copy:
        state = _state(_copied(chunks, copy.write), run, name)
        copy.seek(0)
        yield from _pieces(_rows(state, iter(lambda: copy.read(_PIECE_BYTES), b""), run))


def _copied(chunks: Chunks, write: Callable[[bytes], object]) -> Chunks:
    for chunk in chunks:
        write(chunk)
        yield chunk


# -- which records count ----------------------------------------------------------------------------------------


def _state(chunks: Chunks, run: RunFile, name: str) -> State:
    """Read a journal and return what its records come to; what cannot be understood is noted and counts for nothing."""
    state, offset, number = State(name, {}), 0, 0
    for number, line in enumerate(_lines(chunks), start=1):
        if number == 1:
            state.header = _header(line, name)
        if line is None or line.strip():
            _take(state, number, offset, line, run)
        else:
            run.blank_lines += 1
        offset += len(line or b"")
    state.lines, state.end = number, offset
    version = state.header.get("version")
    run.version = version if isinstance(version, str) else None
    return state


def _header(line: bytes | None, name: str) -> dict[str, Any]:
    try:
        header = decode_record(line or b"")
    except BadLine as bad:
        raise InputError(f"{name}:1: this is not the header of a run journal: {bad}") from None
    check_header(header, name)
    return header


def _take(state: State, number: int, offset: int, line: bytes | None, run: RunFile) -> None:
    try:
        if line is None:
            raise BadLine(_TOO_LONG)
        state.take(number, offset, decode_mark(line))
    except BadLine as bad:
        run.bad[number] = str(bad)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Yield lines with their line feed; None stands for one that is too long, whose bytes do not count as a place."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            size += len(piece)
            yield b"".join([*parts, piece, b"\n"]) if size <= MAX_LINE_BYTES else None
            parts, size = [], 0
        size += len(pieces[-1])
        parts = [*parts, pieces[-1]] if size <= MAX_LINE_BYTES else []
    if size:
        yield b"".join(parts) if size <= MAX_LINE_BYTES else None


# -- rows -------------------------------------------------------------------------------------------------------


def _pieces(lines: Iterable[bytes]) -> Chunks:
    """Yield lines in larger pieces."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line) + 1
        if size >= _PIECE_BYTES:
            yield b"\n".join([*waiting, b""])
            waiting, size = [], 0
    if waiting:
        yield b"\n".join([*waiting, b""])


def _rows(state: State, chunks: Chunks, run: RunFile) -> Iterator[bytes]:
    """Yield for every line of the journal the row that stands there, or nothing."""
    gathering = _Gathering(state, run)
    offset = 0
    for number, line in enumerate(_lines(chunks), start=1):
        if number > state.lines:
            return  # a run that goes on has added it since
        if number in run.bad or line is None:
            yield BAD
        else:
            yield _row_or_bad(gathering, number, offset, line, run) if line.strip() else b""
        offset += len(line or b"")


def _row_or_bad(gathering: _Gathering, number: int, offset: int, line: bytes, run: RunFile) -> bytes:
    try:
        return gathering.take(offset, line)
    except BadLine as bad:
        run.bad[number] = str(bad)
        return BAD


class _Gathering:
    """Gathers the attempts of each case until its last one."""

    def __init__(self, state: State, run: RunFile) -> None:
        self._state = state
        self._run = run
        self._last = state.last_records()
        self._cases: dict[str, bytes] = {}
        self._attempts: dict[str, list[bytes]] = {}

    def take(self, offset: int, line: bytes) -> bytes:
        """Take a line and return the row that stands there; nothing where none does."""
        mark = decode_mark(line)
        name = mark.case
        if mark.kind == "case" and self._state.cases.get(name) == offset:
            self._cases[name] = line
            return b"" if name in self._last else self._row(name)
        if mark.kind == "attempt" and self._state.offset_of(name, mark.attempt) == offset:
            self._attempts.setdefault(name, []).append(line)
            return self._row(name) if self._last[name] == offset else b""
        return b""

    def _row(self, name: str) -> bytes:
        case = decode_record(self._cases.pop(name, b""))
        records = [decode_record(line) for line in self._attempts.pop(name, [])]
        return row_of(_case(name, case, sorted(records, key=lambda record: record["attempt"])), name, self._run)


def _case(name: str, described: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> RunCase:
    metrics = [str(metric.get("name")) for metric in objects(described, "metrics")]
    attempts = [_tried(record, metrics) for record in records]
    strategy = strategy_of(described)
    said = [one for tried in attempts for one in tried.measured]
    return RunCase(
        name=name,
        described=described,
        attempts=attempts,
        verdict=verdict_over(strategy, said, per_attempt=max(len(metrics), 1)).verdict,
        by_metric={
            metric: verdict_over(strategy, [one for one in said if one.metric == metric]).verdict
            for metric in metrics
            if attempts
        },
    )


def _tried(record: Mapping[str, Any], metrics: Iterable[str]) -> Tried:
    said = {str(verdict.get("metric")): verdict for verdict in objects(record, "verdicts")}
    output, model = record.get("output"), record.get("model")
    return Tried(
        number=record["attempt"],
        output=output if isinstance(output, Mapping) else None,
        error=error_text(record.get("error")),
        measured=[_measured(metric, said.get(metric)) for metric in metrics],
        model=model if isinstance(model, str) else None,
    )


def _measured(metric: str, said: Mapping[str, Any] | None) -> Measured:
    """Return what a metric said of an attempt; one that said nothing has not decided."""
    if said is None:
        return Measured(metric, None, ERROR)
    return Measured(metric, said.get("score"), verdict_word(said.get("verdict")) or ERROR, said.get("reason"))
