"""The run journal read back: its records one by one, and what they come to.

A journal is read once from front to back, and nothing of its texts is kept: what stays in memory follows the number
of cases and attempts. A record is whole when its line ends in a line feed and is one JSON object. What follows the
last whole record is a torn end, which a run that was stopped leaves behind; damage before that is an error. Nothing
here writes, locks or waits: a journal can be read while a run adds to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from faircount.errors import InputError
from faircount.reading.journals import (
    MAX_ATTEMPT,
    MAX_LINE_BYTES,
    NUMBERED,
    SCHEMA,
    Doubled,
    Line,
    State,
    check_header,
    decode_mark,
    decode_record,
)
from faircount.reading.loose import BadLine
from faircount.text import clip, visible

__all__ = [
    "MAX_ATTEMPT",
    "MAX_LINE_BYTES",
    "NUMBERED",
    "SCHEMA",
    "Doubled",
    "JournalReader",
    "Line",
    "State",
    "checked",
    "decode_record",
    "header_of",
    "read_journal",
    "state_of",
]

_BUFFER_BYTES = 1024 * 1024

Decoded = TypeVar("Decoded")
Shape = TypeVar("Shape")


class JournalReader:
    """A journal's records from the first to the last whole one; it can be read more than once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.torn = 0
        """How many bytes followed the last whole record when the journal was last read to its end."""
        with _opened(path) as file:
            self.header = header_of(file, path)

    def __iter__(self) -> Iterator[Line]:
        with _opened(self.path) as file:
            records = _WholeRecords(file, self.path, decode_record)
            for number, offset, record in records:
                yield Line(number, offset, record)
            self.torn = records.torn

    def record_at(self, offset: int) -> dict[str, Any]:
        """Return the record that begins at a byte, as `State` tells it."""
        return next(self.records_at([offset]))

    def records_at(self, offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Yield the records that begin at these bytes, in this order."""
        with _opened(self.path) as file:
            for offset in offsets:
                file.seek(offset)
                try:
                    yield decode_record(file.readline(MAX_LINE_BYTES + 1))
                except BadLine as bad:
                    raise InputError(f"{self.path}: no record begins at byte {offset}: {bad}") from None

    def state(self) -> State:
        """Return what the records come to."""
        with _opened(self.path) as file:
            return state_of(file, self.path)


def checked(record: Mapping[str, Any], shape: type[Shape], path: str) -> Shape:
    """Return what is needed of a record; somebody may have edited it."""
    try:
        return msgspec.convert(record, shape)
    except (msgspec.ValidationError, UnicodeError, OverflowError) as error:
        kind, name = (visible(str(record.get(key))) for key in ("kind", "case"))
        raise InputError(
            f"{path}: the {kind} record of {clip(name, 100)} cannot be understood: {visible(str(error))}; restore the "
            "journal, or start a new run"
        ) from None


def read_journal(path: str) -> JournalReader:
    """Return the reader of a journal whose header is whole; anything else is an error."""
    return JournalReader(path)


def state_of(file: BinaryIO, path: str) -> State:
    """Read a journal from its beginning and return what it comes to."""
    file.seek(0)
    state = State(path, header_of(file, path))
    file.seek(0)
    records = _WholeRecords(file, path, decode_mark)
    for number, offset, mark in records:
        try:
            state.take(number, offset, mark)
        except BadLine as bad:
            raise InputError(f"{path}:{number}: cannot understand this record: {bad}; nothing was changed") from None
    state.end, state.torn = records.end, records.torn
    return state


def header_of(file: BinaryIO, path: str) -> dict[str, Any]:
    """Return the first record of a journal, which says what was run and how."""
    line = file.readline(MAX_LINE_BYTES + 1)
    try:
        header = decode_record(line)
    except BadLine as bad:
        if b"\n" in line:
            raise InputError(f"{path}:1: not the header of a run journal: {bad}") from None
        raise InputError(
            f"{path}: no complete header, so nothing was run; delete the file and start the run again"
        ) from None
    check_header(header, path)
    return header


class _WholeRecords(Generic[Decoded]):
    """The whole records of a journal with line number and place; `end` and `torn` are right when all were given."""

    def __init__(self, file: BinaryIO, path: str, decode: Callable[[bytes], Decoded]) -> None:
        self.end = 0
        self.torn = 0
        self._file = file
        self._path = path
        self._decode = decode

    def __iter__(self) -> Iterator[tuple[int, int, Decoded]]:
        number = offset = 0
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                content = self._decode(line)
            except BadLine as bad:
                if not _is_last(self._file, line):
                    raise self._damage(number, offset, str(bad)) from None
                self.torn = self._file.tell() - offset
                break
            yield number, offset, content
            offset += len(line)
        self.end = offset

    def _damage(self, number: int, offset: int, reason: str) -> InputError:
        return InputError(
            f"{self._path}:{number}: the journal is damaged here: {reason}; more records follow, so this is "
            "not just a torn end. Nothing was changed. To continue from before the damage, resume a copy: "
            f"head -c {offset} {shlex.quote(self._path)} > COPY"
        )


def _is_last(file: BinaryIO, line: bytes) -> bool:
    """Return whether nothing follows a line, of which only the beginning was read where it is over the limit."""
    if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
        return True  # the file ended here, whatever a run that goes on has added since
    while not line.endswith(b"\n"):
        line = file.readline(_BUFFER_BYTES)
        if not line:
            return True
    return not file.read(1)


def _opened(path: str) -> BinaryIO:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(f"{path}: not a regular file, so not a run journal")
        return Path(path).open("rb", buffering=_BUFFER_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the journal of a run") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
