"""The records of a labelled file, CSV or JSONL, one by one: a line number and the values of the wanted columns.

Nothing is kept of what was read. A record that cannot be read is a doubt with its place, and the next one is read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from faircount.errors import InputError
from faircount.findings import counted
from faircount.reading import loose
from faircount.reading.identity import ContentHash
from faircount.reading.labelled import DoubtKind, Doubts
from faircount.reading.loose import BadLine
from faircount.reading.readers import open_stream
from faircount.reading.spikee_rows import is_utf8
from faircount.reading.streams import TOO_LONG, Block, Stream, blocks
from faircount.text import visible

CSV, JSONL = "csv", "jsonl"
COMMENT = "#"
RECORDS_SAMPLED = 1000
"""The names in a JSONL file are those of so many first records."""

_PACKED = (".gz", ".zst")
_SUFFIXES = {".csv": CSV, ".tsv": CSV, ".jsonl": JSONL, ".ndjson": JSONL}
_DELIMITERS = (",", ";", "\t")
_LARGEST_LONG = 2**31 - 1
"""What a C long holds everywhere."""
_NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_HALF_ESCAPED = b"\\ud"
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")

Record = tuple[int, Sequence[Any]]
"""The first line of a record, and its values in the order of the wanted columns."""


class Sha256(ContentHash):
    """The digest of a file that is told to people, taken while the file is read."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far."""
        return self._sha256.hexdigest()


class LabelFile(Struct, frozen=True):
    """A labelled file: its name as it was given, where its bytes are, and how it is written."""

    name: str
    path: str
    format: str


class Fared(Struct):
    """How the lines of a file fare while it is read."""

    lines: int = 0
    bad: int = 0
    blank: int = 0


def label_file(name: str, path: str, max_line: int) -> LabelFile:
    """Tell how a file is written: by its name, or else by what it begins with."""
    ending = name.casefold()
    for packed in _PACKED:
        ending = ending.removesuffix(packed)
    known = next((written for suffix, written in _SUFFIXES.items() if ending.endswith(suffix)), None)
    return LabelFile(name, path, known or _format_inside(name, path, max_line))


def _format_inside(name: str, path: str, max_line: int) -> str:
    for block in blocks(open_stream(path, name), max_line):
        for line in block.lines:
            start = line.lstrip()[:1]
            if start == b"[":
                raise InputError(f"{name}: this is a JSON array; write one object per line (JSONL), or CSV")
            if start and start != COMMENT.encode():
                return JSONL if start == b"{" else CSV
    raise InputError(f"{name}: the file is empty")


def names_of(file: LabelFile, max_line: int) -> tuple[list[str], bool]:
    """Return the names of the columns of a file, and whether there can be no others."""
    stream = open_stream(file.path, file.name)
    if file.format == CSV:
        return list(CsvRecords(stream, max_line, Doubts()).header), True
    names, seen = dict[str, None](), 0
    for fields in _objects(stream, max_line):
        names |= dict.fromkeys(fields)
        seen += 1
        if seen == RECORDS_SAMPLED:
            return list(names), False
    if not seen:
        raise InputError(f"{file.name}: no line is a JSON object")
    return list(names), True


def _objects(stream: Stream, max_line: int) -> Iterator[dict[str, Any]]:
    for block in blocks(stream, max_line):
        for line in block.lines:
            try:
                yield loose.parse(line)[0]
            except BadLine:
                continue


def records_of(
    file: LabelFile,
    stream: Stream,
    names: Sequence[str],
    max_line: int,
    doubts: Doubts,
    decisive: Sequence[str] | None = None,
) -> Records:
    """Return what reads the wanted columns of a file.

    A record in which a decisive one (by default any that is wanted) appears twice with different values is bad.
    """
    if file.format == CSV:
        return CsvRecords(stream, max_line, doubts).wanting(names)
    return JsonRecords(stream, max_line, doubts, names, names if decisive is None else decisive)


class Records:
    """The records of a file; `fared` tells afterwards how its lines fared."""

    def __init__(self, stream: Stream, max_line: int, doubts: Doubts) -> None:
        self.stream = stream
        self.fared = Fared()
        self._max_line = max_line
        self._doubts = doubts

    def __iter__(self) -> Iterator[Record]:
        raise NotImplementedError

    def _bad(self, reason: object, line: int) -> None:
        self.fared.bad += 1
        self._doubts.add(DoubtKind.BAD_LINE, str(reason), f"{self.stream.name}:{line}")

    def _cut_short(self) -> None:
        """Note that a compressed file ends too early."""
        if self.stream.truncated:
            place = f"{self.stream.name}:{self.fared.lines}"
            self._doubts.add(DoubtKind.BAD_LINE, f"the rest was not read: {self.stream.truncated}", place)


# -- JSONL ------------------------------------------------------------------------------------------------------


class JsonRecords(Records):
    """The records of a JSONL file. Clean blocks of lines are decoded at once, others line by line."""

    def __init__(
        self, stream: Stream, max_line: int, doubts: Doubts, names: Sequence[str], decisive: Sequence[str]
    ) -> None:
        super().__init__(stream, max_line, doubts)
        self._names, self._decisive = tuple(names), tuple(decisive)
        fields = [f"field_{number}" for number in range(len(names))]
        wanted = msgspec.defstruct(
            "Wanted",
            [(field, Any, None) for field in fields],
            rename=dict(zip(fields, names, strict=True)),
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(wanted)
        self._keys = [json.dumps(name, ensure_ascii=False).encode("utf-8", "replace") for name in decisive]
        self._begun = False

    def __iter__(self) -> Iterator[Record]:
        astuple = msgspec.structs.astuple
        for block in blocks(self.stream, self._max_line):
            rows = self._at_once(block)
            if rows is None:
                yield from self._one_by_one(block.lines)
                continue
            self._begun = True
            first = self.fared.lines + 1
            self.fared.lines += len(rows)
            yield from enumerate(map(astuple, rows), start=first)
        self._cut_short()

    def _at_once(self, block: Block) -> list[Any] | None:
        """Decode a block whose every line is one plain object; None if it is not so."""
        buffer, length = block.buffer, block.length
        count = buffer.count(b"\n", 0, length) + (not buffer.endswith(b"\n", 0, length))
        if buffer is TOO_LONG or not _objects_only(buffer, length, count):
            return None
        lines = memoryview(buffer)[:length]
        if not (buffer.isascii() or is_utf8(lines)) or _may_nest_too_deep(block, count):
            return None
        if any(buffer.count(key, 0, length) > count for key in self._keys):
            return None
        try:
            rows = self._decoder.decode_lines(lines)
        except _NOT_STRICT:
            return None
        return rows if len(rows) == count else None

    def _one_by_one(self, lines: Sequence[bytes]) -> Iterator[Record]:
        fared = self.fared
        for line in lines:
            fared.lines += 1
            number = fared.lines
            if not line.strip() or (not self._begun and line.startswith(COMMENT.encode())):
                fared.blank += 1
                continue
            try:
                values = self._read_line(line, number)
            except BadLine as reason:
                self._bad(reason, number)
                continue
            self._begun = True
            yield number, values

    def _read_line(self, line: bytes, number: int) -> Sequence[Any]:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self._max_line} bytes")
        if is_utf8(line) and all(line.count(key) <= 1 for key in self._keys):
            if loose.depth(line) > loose.MAX_DEPTH:
                raise BadLine(f"nested more than {loose.MAX_DEPTH} levels deep")
            try:
                return msgspec.structs.astuple(self._decoder.decode(line))
            except _NOT_STRICT:
                pass
        fields, doubts = loose.parse(line)
        # Only keys at the top of a record are wanted; the same name may stand inside, and stand there twice.
        twice = [name for name in doubts.duplicate_keys if name in self._decisive]
        if twice:
            raise BadLine(f"the key {visible(twice[0])} appears twice, with different values")
        values = tuple(map(fields.get, self._names))
        if _HALF_ESCAPED in line.lower():
            whole = tuple(map(without_halves, values))
            if whole != values:
                self._doubts.add(DoubtKind.CHANGED_TEXT, "", f"{self.stream.name}:{number}")
            return whole
        return values


def _objects_only(buffer: bytes | bytearray, length: int, count: int) -> bool:
    """Return whether every line begins and ends as an object does; then none can reach over the end of its line."""
    if buffer.count(b"\n{", 0, length) + buffer.startswith(b"{", 0, length) != count:
        return False
    ended = buffer.count(b"}\n", 0, length) + buffer.endswith((b"}", b"}\r"), 0, length)
    return ended == count or ended + buffer.count(b"}\r\n", 0, length) == count


def _may_nest_too_deep(block: Block, count: int) -> bool:
    buffer, length = block.buffer, block.length
    opened = buffer.count(b"{", 0, length) + buffer.count(b"[", 0, length)
    return opened > count + loose.MAX_DEPTH and any(loose.depth(line) > loose.MAX_DEPTH for line in block.lines)


def without_halves(value: Any) -> Any:
    """Return a value without halves of characters, which nothing could write."""
    if isinstance(value, str):
        return _HALF_CHARACTERS.sub("\ufffd", value)
    if isinstance(value, list):
        return list(map(without_halves, value))
    if isinstance(value, dict):
        return {without_halves(key): without_halves(inner) for key, inner in value.items()}
    return value


# -- CSV --------------------------------------------------------------------------------------------------------


class _TooLong(Exception):
    """A line, or all lines of a record together, are over the limit."""


class _Lines:
    """The lines of a stream as text, counted, with what is needed to refuse a record that does not end."""

    def __init__(self, stream: Stream, max_line: int) -> None:
        self._blocks = blocks(stream, max_line)
        self._lines: Iterator[str] = iter(())
        self._back: list[str] = []
        self._left = self._limit = max_line
        self.number = 0
        self.damaged = False
        """Whether bytes were met that are no UTF-8; they are lone surrogates now."""

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._back.pop() if self._back else next(self._lines, None)
        while line is None:
            block = next(self._blocks)
            if block.buffer is TOO_LONG:
                self.number += 1
                raise _TooLong
            self._lines = self._read(block)
            line = next(self._lines, None)
        self.number += 1
        self._left -= len(line)
        if self._left < 0:
            raise _TooLong
        return line

    def _read(self, block: Block) -> Iterator[str]:
        lines = memoryview(block.buffer)[: block.length]
        try:
            text = str(lines, "utf-8")
        except UnicodeDecodeError:
            self.damaged = True
            text = str(lines, "utf-8", "surrogateescape")
        return io.StringIO(text, newline="\n")

    def begin_record(self) -> None:
        """Count the length of a record from here on."""
        self._left = self._limit

    def put_back(self, line: str) -> None:
        """Let a line be the next one again."""
        self._back.append(line)
        self.number -= 1


class CsvRecords(Records):
    """The records of a CSV file; its header is read at once, and `header_line` is where it stands."""

    def __init__(self, stream: Stream, max_line: int, doubts: Doubts) -> None:
        super().__init__(stream, max_line, doubts)
        _allow_fields_of(max_line)
        self._lines = _Lines(stream, max_line)
        first = self._first_line()
        self.header_line = self._lines.number
        self._lines.put_back(first)
        self._lines.begin_record()
        self._reader = csv.reader(self._lines, delimiter=_delimiter(first, stream.name), strict=True)
        self.header = self._read_header()
        self._pick: Callable[[Sequence[str]], Sequence[str]] = tuple

    def wanting(self, names: Sequence[str]) -> CsvRecords:
        """Choose the columns that records are to hold."""
        places = [self.header.index(name) for name in names]
        if len(places) == 1:
            (place,) = places
            self._pick = lambda row: (row[place],)
        else:
            self._pick = itemgetter(*places)
        return self

    def _first_line(self) -> str:
        """Return the first line that is neither empty nor a comment."""
        try:
            for line in self._lines:
                self._lines.begin_record()
                if line.strip() and not line.startswith(COMMENT):
                    return line
                self.fared.blank += 1
        except _TooLong:
            pass
        raise InputError(f"{self.stream.name}: has no header, so there are no columns to read")

    def _read_header(self) -> list[str]:
        try:
            header = next(self._reader)
        except (csv.Error, _TooLong) as error:
            reason = self._reason(error)
            raise InputError(f"{self.stream.name}:{self.header_line}: cannot read the header: {reason}") from None
        if _has_halves(header):
            raise InputError(f"{self.stream.name}:{self.header_line}: the header is not UTF-8; convert the file first")
        return [name.strip() for name in header]

    def __iter__(self) -> Iterator[Record]:
        lines, reader, width, pick = self._lines, self._reader, len(self.header), self._pick
        while True:
            start = lines.number + 1
            lines.begin_record()
            try:
                row = next(reader)
                good = (len(row) == width and row[0] and not lines.damaged) or self._is_good(row, width)
            except StopIteration:
                break
            except (csv.Error, _TooLong, BadLine) as error:
                self._bad(self._reason(error), start)
                continue
            if good:
                yield start, pick(row)
        self.fared.lines = lines.number
        self._cut_short()

    def _is_good(self, row: Sequence[str], width: int) -> bool:
        """Return whether a record holds anything; raise where it is not as the header says."""
        if not any(row):
            self.fared.blank += 1
            return False
        if self._lines.damaged and _has_halves(row):
            raise BadLine("not UTF-8")
        if len(row) < width or any(row[width:]):
            raise BadLine(f"{counted(len(row), 'field')}, but the header has {width}")
        return True

    def _reason(self, error: Exception) -> str:
        message = str(error)
        if isinstance(error, _TooLong) or "field limit" in message:
            return f"a record longer than {self._max_line} characters; is a quote never closed?"
        if "unexpected end" in message:
            return "a quote is never closed"
        if "expected after" in message:
            return "text after the closing quote of a field"
        return visible(message)


def _has_halves(row: Sequence[str]) -> bool:
    return any(_HALF_CHARACTERS.search(value) for value in row)


def _allow_fields_of(length: int) -> None:
    """Let the parser accept long fields; its limit is one for the whole process, so it is never lowered."""
    wanted = min(length, _LARGEST_LONG)
    if csv.field_size_limit() < wanted:
        csv.field_size_limit(wanted)


def _delimiter(header: str, name: str) -> str:
    """Return what stands between the fields: what parts the header into most columns, a tab first in a .tsv file."""
    ending = name.casefold()
    for packed in _PACKED:
        ending = ending.removesuffix(packed)
    if ending.endswith(".tsv") and "\t" in header:
        return "\t"
    return max(_DELIMITERS, key=lambda delimiter: _fields(header, delimiter))


def _fields(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:
        return 0
