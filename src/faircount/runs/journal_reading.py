"""The run journal read back: its records one by one, and what they come to.

A journal is read once from front to back, and nothing of its texts is kept: what stays in memory follows the number
of cases and attempts. A record is whole when its line ends in a line feed and is one JSON object. What follows the
last whole record is a torn end, which a run that was stopped leaves behind; damage before that is an error. Nothing
here writes, locks or waits: a journal can be read while a run adds to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from faircount.core.errors import InputError
from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine
from faircount.readers.journals import (
    MAX_LINE_BYTES,
    AttemptRecord,
    CaseRecord,
    Line,
    RunRecord,
    State,
    decode,
    decode_header,
    decode_record,
)

_BUFFER_BYTES = 1024 * 1024

Shape = TypeVar("Shape", CaseRecord, AttemptRecord)


class JournalReader:
    """A journal's records from the first to the last whole one; it can be read more than once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.end = self.torn = 0
        """Where the last whole record ended when the journal was last read to its end, and how many bytes followed."""
        with _opened(path) as file:
            self.header = header_of(file, path)

    def __iter__(self) -> Iterator[Line]:
        with _opened(self.path) as file:
            yield from _whole_records(file, self)

    def records_at(self, offsets: Iterable[int], shape: type[Shape]) -> Iterator[Shape]:
        """Yield the records of one kind that begin at these bytes, in this order; somebody may have edited them."""
        with _opened(self.path) as file:
            for offset in offsets:
                file.seek(offset)
                line = file.readline(MAX_LINE_BYTES + 1)
                try:
                    record = decode(line, strict=True)
                except BadLine as bad:
                    raise InputError(f"{self.path}: no record begins at byte {offset}: {bad}") from None
                except (ValueError, OverflowError) as error:
                    told = decode_record(line)
                    kind, name = (visible(str(told.get(key))) for key in ("kind", "case"))
                    raise InputError(
                        f"{self.path}: the {kind} record of {clip(name, 100)} cannot be understood: "
                        f"{visible(str(error))}; restore the journal, or start a new run"
                    ) from None
                assert isinstance(record, shape)  # `State` says where which kind of record begins
                yield record

    def state(self) -> State:
        """Return what the records come to."""
        with _opened(self.path) as file:
            return state_of(file, self.path)


def read_journal(path: str) -> JournalReader:
    """Return the reader of a journal whose header is whole; anything else is an error."""
    return JournalReader(path)


def state_of(file: BinaryIO, path: str) -> State:
    """Read a journal from its beginning and return what it comes to."""
    file.seek(0)
    state = State(path, header_of(file, path))
    file.seek(0)
    for line in _whole_records(file, state):
        try:
            state.take(line.number, line.offset, line.record)
        except BadLine as bad:
            where = f"{path}:{line.number}"
            raise InputError(f"{where}: cannot understand this record: {bad}; nothing was changed") from None
    return state


def header_of(file: BinaryIO, path: str) -> RunRecord:
    """Return the first record of a journal, which says what was run and how."""
    line = file.readline(MAX_LINE_BYTES + 1)
    try:
        return decode_header(line, path)
    except BadLine as bad:
        if b"\n" in line:
            raise InputError(f"{path}:1: not the header of a run journal: {bad}") from None
        raise InputError(
            f"{path}: no complete header, so nothing was run; delete the file and start the run again"
        ) from None


def _whole_records(file: BinaryIO, told: State | JournalReader) -> Iterator[Line]:
    """Yield the whole records of a journal; after the last, `told` has where they end and how many bytes follow."""
    number = offset = told.torn = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        try:
            record = decode(line)
        except BadLine as bad:
            if not _is_last(file, line):
                raise InputError(
                    f"{told.path}:{number}: the journal is damaged here: {bad}; more records follow, so this is "
                    "not just a torn end. Nothing was changed. To continue from before the damage, resume a copy: "
                    f"head -c {offset} {shlex.quote(told.path)} > COPY"
                ) from None
            told.torn = file.tell() - offset
            break
        yield Line(number, offset, record)
        offset += len(line)
    told.end = offset


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
