"""The records of a file, one after the other, whatever the file is written in.

    JSONL                   an object on each line
    JSON                    an array of objects
    CSV, TSV                a header, and a record on each line; fields in quotes may hold line ends
    workbook (.xlsx)        the first sheet, or the first one that is wanted, read as a table
    zip archive             its only file, or the one that is named: `archive.zip/file.csv`

All may be compressed with gzip or Zstandard. A format is recognised by its content; the name of a file decides only
where content cannot. The line of a record is the one that it begins on, in a sheet its row. A record that cannot be
read is reported and counted, and the next one is read. Nothing is kept of what was read.
"""

from __future__ import annotations

import codecs
import csv
import enum
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from faircount.core.errors import InputError
from faircount.core.findings import Notes, counted
from faircount.core.options import MAX_LINE_BYTES
from faircount.core.text import LONE_SURROGATES, replace_surrogates, visible
from faircount.io import lenient_json as loose
from faircount.io.archives import ZIP_MAGIC, Archive
from faircount.io.lenient_json import BadLine, is_utf8
from faircount.io.streams import (
    STDIN,
    TOO_LONG,
    Block,
    ContentHash,
    Stream,
    blocks,
    is_compressed,
    open_bytes,
    split_member,
)

CSV, JSONL, JSON, XLSX = "csv", "jsonl", "json", "xlsx"
COMPRESSED_SUFFIXES = (".gz", ".zst")
RECORDS_SAMPLED = 1000
"""The names of columns in JSON are those of so many first records."""

_SUFFIXES = {".csv": CSV, ".tsv": CSV, ".jsonl": JSONL, ".ndjson": JSONL, ".json": JSON, ".xlsx": XLSX, ".zip": ""}
_COMMENT = "#"
_SURELY_JSON = re.compile(rb'\{\s*(?:["}]|$)|\[\s*(?:[\]{]|$)')
_DELIMITERS = (",", ";", "\t")
_LARGEST_ARRAY = 256 * 1024 * 1024
_LARGEST_LONG = 2**31 - 1
"""What a C long holds everywhere."""
_NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_SURROGATE_ESCAPED = b"\\ud"
_ARRAY_BEGINS = re.compile(r"\A(?:\s|#[^\n]*\n)*+\[")
_BETWEEN_ITEMS = re.compile(r"[ \t\r\n,]*")

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
Row = Sequence[str]
_SheetRow = tuple[int, list[str]]
Make = Callable[[Row], Any]
_Rows = Callable[[Make], Iterator[tuple[int, Any]]]
"""Yields the rows of a table with their lines, each as what the given function makes of it."""


class Problem(enum.Enum):
    """What can be wrong with a record, or with the rest of a file."""

    BAD_LINE = "it could not be read"
    CHANGED_TEXT = "lone surrogates were replaced"
    CHANGED_NUMBER = "a number that is not finite was replaced by null"
    CUT_SHORT = "the rest could not be read"


Report = Callable[[Problem, str, int], None]
"""Hears of a problem: which, the reason in our words, and the line."""
_CODES = {Problem.BAD_LINE: "F001", Problem.CUT_SHORT: "F002"}


def report_to(notes: Notes) -> Report:
    """Return what notes the records of a file that could not be read, as findings."""
    return lambda problem, reason, line: notes.add(_CODES[problem], reason, line) if problem in _CODES else None


class RecordType(Struct, Generic[T], frozen=True):
    """What a record is made into.

    The decoder is strict and reads nearly all records; `from_decoded` makes a value of what it returns. `from_fields`
    makes one of the fields of any other record, and raises `BadLine` where it cannot. `from_row` gets the header of a
    table and returns what makes a value of a row; without it, the fields of a row are its columns, and an empty one is
    null. A record in which one of the keys `once` appears twice, with different values, is bad. Lone surrogates are
    replaced, unless `keep_surrogates`; NaN and infinity are replaced by null if `finite`. A record that nests deeper
    than `max_depth` is bad; no limit is for values that do not nest.
    """

    decoder: msgspec.json.Decoder[Any]
    from_fields: Callable[[dict[str, Any]], T]
    from_row: Callable[[Row], Callable[[Row], T]] | None = None
    from_decoded: Callable[[Any], T] | None = None
    once: tuple[str, ...] = ()
    keep_surrogates: bool = False
    finite: bool = False
    max_depth: int | None = None


def all_fields(**options: Any) -> RecordType[dict[str, Any]]:
    """Return the type of records that are all their fields; options are those of a `RecordType`."""
    return RecordType(msgspec.json.Decoder(dict[str, Any]), lambda fields: fields, **options)


def some_fields(struct: type[S], **options: Any) -> RecordType[S]:
    """Return the type of records that are a struct of some of their fields; options are those of a `RecordType`."""
    known = [field.name for field in msgspec.structs.fields(struct)]
    return RecordType(
        msgspec.json.Decoder(struct),
        lambda fields: struct(**{name: fields[name] for name in known if name in fields}),
        **options,
    )


def some_values(names: Sequence[str], once: Sequence[str] | None = None) -> RecordType[Sequence[Any]]:
    """Return the type of records that are the values of some columns, in this order; `once` is by default all."""
    fields = [f"field_{number}" for number in range(len(names))]
    wanted = msgspec.defstruct(
        "Wanted", [(field, Any, None) for field in fields], rename=dict(zip(fields, names, strict=True)), gc=False
    )

    def from_row(header: Row) -> Callable[[Row], Sequence[Any]]:
        places = [header.index(name) for name in names]
        return itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)

    return RecordType(
        msgspec.json.Decoder(wanted),
        lambda fields: tuple(map(fields.get, names)),
        from_row,
        msgspec.structs.astuple,
        tuple(names if once is None else once),
        max_depth=loose.MAX_DEPTH,
    )


class Sha256(ContentHash):
    """The digest of a file that is shown to people, made while the file is read."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far."""
        return self._sha256.hexdigest()


class RecordBatch(Struct, Generic[T], frozen=True):
    """Records that follow each other: their lines, their values and their texts.

    `begins` has the byte where each text begins, or where the first does if they are all lines of one block.
    """

    lines: Sequence[int]
    values: Sequence[T]
    texts: Sequence[bytes]
    begins: int | Sequence[int] = 0

    @property
    def offsets(self) -> Sequence[int]:
        """The byte of the file where each text begins; good only for records that are `in_place`."""
        if not isinstance(self.begins, int):
            return self.begins
        return list(accumulate((len(text) + 1 for text in self.texts[:-1]), initial=self.begins))


class Records(Generic[T]):
    """The records of a file, to be gone through once.

    `lines`, `bad` and `blank` count as far as was read: lines of the file, records that are bad, and lines or records
    that are blank or comments. `header` has the names of the columns of a table, as they are written there, `delimiter`
    what parts the fields of a CSV file. `choose_sheet` gets the name and the header of a sheet: the first one that it
    returns true for is read; without it, or where no sheet is wanted, the first.
    """

    def __init__(
        self,
        path: str,
        kind: RecordType[T],
        report: Report = lambda *_: None,
        *,
        name: str | None = None,
        max_line: int = MAX_LINE_BYTES,
        digest: Sha256 | None = None,
        choose_sheet: Callable[[str, Row], bool] | None = None,
    ) -> None:
        self.path, self.name = path, path if name is None else name
        self.header: list[str] | None = None
        self.delimiter = ""
        self.lines = self.bad = self.blank = 0
        self._kind, self._report, self._max_line = kind, report, max_line
        self._keys = [json.dumps(key, ensure_ascii=False).encode("utf-8", "replace") for key in kind.once]
        self._begun = False
        self._rows: _Rows = lambda _: iter(())
        file, member = split_member(path)
        self.source = self._stream = open_bytes(file, self.name, digest)
        self.head = start = _start_of(self.source)
        inner_name = self.name
        if start.startswith(ZIP_MAGIC):
            archive = Archive(self.source, self.name)
            if member is None and archive.is_workbook:
                self.format = XLSX
                self.header, self._rows = self._sheet(self._wanted_sheet(archive, choose_sheet))
                return
            self._stream, inner_name = archive.open(member)
            start = _start_of(self._stream)
        elif member is not None:
            raise InputError(f"{self.name}: {file} is not a zip archive")
        suffix = _suffix(inner_name)
        self.format = self._format_of(start, suffix)
        if self.format == CSV:
            self.header, self._rows = self._csv(_TextLines(self._stream, max_line), suffix)

    def _format_of(self, start: bytes, suffix: str) -> str:
        """Return how a file is written: as its first line that is no comment shows, or else as its name says."""
        lines = start.removeprefix(codecs.BOM_UTF8).lstrip()
        while lines.startswith(_COMMENT.encode()):
            lines = lines.partition(b"\n")[2].lstrip()
        known, is_array = _SUFFIXES.get(suffix), lines.startswith(b"[")
        if _SURELY_JSON.match(lines) or known == JSON:
            return JSON if is_array else JSONL
        if known in (CSV, JSONL):
            return known
        if not lines:
            raise InputError(f"{self.name}: the file is empty")
        return JSON if is_array else JSONL if lines.startswith(b"{") else CSV

    @property
    def in_place(self) -> bool:
        """Whether the text of each record stands in the file, at its offset."""
        on_disk = self.path != STDIN and not is_compressed(self.path)
        return on_disk and self.format == JSONL and self._stream is self.source

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Yield each record with its line."""
        if self.header is None:
            for batch in self.batches():
                yield from zip(batch.lines, batch.values, strict=True)
            return
        if self._kind.from_row is None:
            yield from ((line, value) for line, value, _ in self._row_values(self.header))
        else:
            yield from self._rows(self._kind.from_row(self.header))
        self._finish()

    def batches(self) -> Iterator[RecordBatch[T]]:
        """Yield the records with their texts; the text of a row is an object, as JSON."""
        if self.header is not None:
            for line, value, fields in self._row_values(self.header):
                yield RecordBatch((line,), (value,), (msgspec.json.encode(fields),))
        elif self.format == JSON:
            yield from self._items()
        else:
            for block in blocks(self._stream, self._max_line):
                texts = block.lines
                yield self._at_once(block, texts) or self._one_by_one(block.offset, texts)
        self._finish()

    def _note_bad(self, reason: object, line: int) -> None:
        self.bad += 1
        self._report(Problem.BAD_LINE, str(reason), line)

    def _finish(self) -> None:
        """Report what broke off; what stands behind damage belongs to the digest, too."""
        if truncated := self._stream.truncated or self.source.truncated:
            self._report(Problem.CUT_SHORT, truncated, self.lines)
        for _ in self.source.chunks:
            pass

    # -- JSON ----------------------------------------------------------------------------------------------------

    def _at_once(self, block: Block, texts: list[bytes]) -> RecordBatch[T] | None:
        """Decode a block whose every line is a plain object; None if it is not so."""
        buffer, length, count = block.buffer, block.length, len(texts)
        if buffer is TOO_LONG or not (buffer.isascii() or is_utf8(memoryview(buffer)[:length])):
            return None
        if any(buffer.count(key, 0, length) > count for key in self._keys) or self._may_nest_too_deep(block, texts):
            return None
        try:
            values = list(map(self._kind.decoder.decode, texts))
        except _NOT_STRICT:
            return None
        if self._kind.from_decoded is not None:
            values = list(map(self._kind.from_decoded, values))
        first, self._begun = self.lines + 1, True
        self.lines += count
        return RecordBatch(range(first, first + count), values, texts, block.offset)

    def _may_nest_too_deep(self, block: Block, texts: list[bytes]) -> bool:
        buffer, length, limit = block.buffer, block.length, self._kind.max_depth
        if limit is None:
            return False
        opened = buffer.count(b"{", 0, length) + buffer.count(b"[", 0, length)
        return opened > len(texts) + limit and any(loose.depth(text) > limit for text in texts)

    def _one_by_one(self, offset: int, texts: list[bytes]) -> RecordBatch[T]:
        lines: list[int] = []
        values: list[T] = []
        read: list[bytes] = []
        offsets: list[int] = []
        for text in texts:
            self.lines += 1
            if not text.strip() or (not self._begun and text.startswith(_COMMENT.encode())):
                self.blank += 1
            else:
                try:
                    values.append(self._read(text, self.lines))
                except BadLine as reason:
                    self._note_bad(reason, self.lines)
                else:
                    self._begun = True
                    lines.append(self.lines)
                    read.append(text)
                    offsets.append(offset)
            offset += len(text) + 1
        return RecordBatch(lines, values, read, offsets)

    def _read(self, text: bytes, line: int) -> T:
        """Read the text of one record, strictly if that is possible."""
        kind = self._kind
        if text is TOO_LONG or len(text) > self._max_line:
            raise BadLine(f"longer than {self._max_line:,} bytes")
        if kind.max_depth is not None and loose.depth(text) > kind.max_depth:
            raise BadLine(f"nested more than {kind.max_depth} levels deep")
        if (text.isascii() or is_utf8(text)) and all(text.count(key) <= 1 for key in self._keys):
            try:
                value = kind.decoder.decode(text)
            except _NOT_STRICT:
                pass
            else:
                return value if kind.from_decoded is None else kind.from_decoded(value)
        fields, odd = loose.parse(text)
        # Only keys at the top of a record are wanted; the same name may stand inside, and stand there twice.
        twice = [name for name in odd.duplicate_keys if name in kind.once]
        if twice:
            raise BadLine(f"the key {visible(twice[0])} appears twice, with different values")
        if _SURROGATE_ESCAPED in text.lower() and not kind.keep_surrogates:
            whole = without_surrogates(fields)
            if whole != fields:
                self._report(Problem.CHANGED_TEXT, "", line)
            fields = whole
        if kind.finite and (odd.not_finite or odd.too_large):
            self._report(Problem.CHANGED_NUMBER, "", line)
            fields = _finite(fields)
        return kind.from_fields(fields)

    def _items(self) -> Iterator[RecordBatch[T]]:
        """Yield the items of an array, each with the line that it begins on."""
        content = bytearray()
        for chunk in self._stream.chunks:
            content += chunk
            if len(content) > _LARGEST_ARRAY:
                raise InputError(f"{self.name}: the JSON array is too large; write one object per line (JSONL)")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}: not UTF-8 at byte {error.start + 1}; convert it first") from None
        decode = json.JSONDecoder(parse_int=loose.whole_number).raw_decode
        position, start, line = _end_of(_ARRAY_BEGINS, text, 0), 0, 1
        self.lines = text.count("\n") + (not text.endswith("\n"))
        while True:
            counted_to, start = start, _end_of(_BETWEEN_ITEMS, text, position)
            line += text.count("\n", counted_to, start)
            if text.startswith("]", start):
                return
            try:
                position = decode(text, start)[1]
            except (ValueError, RecursionError):
                self._report(Problem.CUT_SHORT, "the array is not valid JSON from here on", line)
                return
            item = text[start:position].encode("utf-8", "surrogatepass")
            try:
                value = self._read(item, line)
            except BadLine as reason:
                self._note_bad(reason, line)
            else:
                yield RecordBatch((line,), (value,), (item,))

    # -- tables --------------------------------------------------------------------------------------------------

    def _row_values(self, header: Row) -> Iterator[tuple[int, T, dict[str, Any]]]:
        """Yield the rows of a table as values, with their fields: an empty text and nothing are the same there."""
        names = distinct(header)
        for line, fields in self._rows(
            lambda row: {name: cell or None for name, cell in zip(names, row, strict=False)}
        ):
            try:
                value = self._kind.from_fields(fields)
            except BadLine as reason:
                self._note_bad(reason, line)
            else:
                yield line, value, fields

    def _csv(self, lines: _TextLines, suffix: str) -> tuple[list[str], _Rows]:
        """Return the header of a CSV file, and what reads its rows."""
        if csv.field_size_limit() < (wanted := min(self._max_line, _LARGEST_LONG)):
            csv.field_size_limit(wanted)  # it is one limit for the whole process, so it is never lowered
        first = self._first_line(lines)
        header_line = lines.number
        lines.put_back(first)
        self.delimiter = delimiter_of(first, suffix)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            header = next(reader)
        except (csv.Error, _TooLong) as error:
            reason = self._reason(error)
            raise InputError(f"{self.name}:{header_line}: cannot read the header: {reason}") from None
        if _has_surrogates(header):
            raise InputError(f"{self.name}:{header_line}: the header is not UTF-8; convert the file first")
        return [name.strip() for name in header], partial(self._csv_rows, lines, reader, len(header))

    def _first_line(self, lines: _TextLines) -> str:
        """Return the first line that is neither empty nor a comment."""
        try:
            for line in lines:
                lines.begin_record()
                if line.strip() and not line.startswith(_COMMENT):
                    return line
                self.blank += 1
        except _TooLong:
            pass
        raise InputError(f"{self.name}: has no header, so there are no columns to read")

    def _csv_rows(self, lines: _TextLines, reader: Iterator[Row], width: int, make: Make) -> Iterator[tuple[int, Any]]:
        while True:
            start = lines.number + 1
            lines.begin_record()
            try:
                row = next(reader)
                good = (len(row) == width and row[0] and not lines.damaged) or self._is_good(row, width, lines.damaged)
            except StopIteration:
                break
            except (csv.Error, _TooLong, BadLine) as error:
                self._note_bad(self._reason(error), start)
                continue
            if good:
                yield start, make(row)
        self.lines = lines.number

    def _is_good(self, row: Row, width: int, damaged: bool) -> bool:
        """Return whether a row holds anything; raise where it is not as the header says."""
        if not any(row):
            self.blank += 1
            return False
        if damaged and _has_surrogates(row):
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

    def _wanted_sheet(self, archive: Archive, choose: Callable[[str, Row], bool] | None) -> Iterator[_SheetRow]:
        """Return the rows of the first sheet that is wanted; of the first, if none is."""
        for name, part in (archive.sheets() if choose is not None else {}).items():
            rows = archive.sheet(part)
            for number, row in rows:
                if row[0].startswith(_COMMENT):
                    continue
                if choose is not None and choose(name, [cell.strip() for cell in row]):
                    return chain([(number, row)], rows)
                break
        return archive.first_sheet()

    def _sheet(self, rows: Iterator[_SheetRow]) -> tuple[list[str], _Rows]:
        """Return the header of a sheet, and what reads its other rows."""
        for self.lines, row in rows:
            if not row[0].startswith(_COMMENT):
                return [name.strip() for name in row], partial(self._sheet_rows, rows, len(row))
            self.blank += 1
        raise InputError(f"{self.name}: has no header, so there are no columns to read")

    def _sheet_rows(self, rows: Iterator[_SheetRow], width: int, make: Make) -> Iterator[tuple[int, Any]]:
        for line, row in rows:
            self.lines = line
            # A row ends with its last cell that holds something.
            row += [""] * (width - len(row))
            try:
                if sum(map(len, row)) > self._max_line:
                    raise BadLine(f"longer than {self._max_line:,} characters")
                self._is_good(row, width, damaged=False)
            except BadLine as reason:
                self._note_bad(reason, line)
            else:
                yield line, make(row)


class _TooLong(Exception):
    """A line, or all lines of a record together, are over the limit."""


class _TextLines:
    """The lines of a stream as text, counted, with what is needed to refuse a record that does not end."""

    def __init__(self, stream: Stream, max_line: int) -> None:
        self._blocks = blocks(stream, max_line)
        self._lines: Iterator[str] = iter(())
        self._back: list[str] = []
        self._left = self._limit = max_line
        self.number = 0
        self.damaged = False
        """Whether bytes were met that are no UTF-8; they are lone surrogates now."""

    def __iter__(self) -> _TextLines:
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
        """Let a line be the next one again, as the beginning of a record."""
        self._back.append(line)
        self.number -= 1
        self.begin_record()


def column_names(path: str, *, name: str, max_line: int) -> tuple[list[str], bool]:
    """Return the names of the columns of a file, and whether there can be no others."""
    records = Records(path, all_fields(), name=name, max_line=max_line)
    if records.header is not None:
        return records.header, True
    names, seen = dict[str, None](), 0
    for _, fields in islice(records, RECORDS_SAMPLED):
        names |= dict.fromkeys(fields)
        seen += 1
    if not seen:
        raise InputError(f"{name}: no line is a JSON object")
    return list(names), seen < RECORDS_SAMPLED


def distinct(header: Row) -> tuple[str, ...]:
    """Return the names of columns so that each is there once: an empty one by its number, a second one as name#2."""
    names: dict[str, None] = {}
    for number, written in enumerate(header, start=1):
        own = name = written or f"column_{number}"
        again = 2
        while name in names:
            name = f"{own}#{again}"
            again += 1
        names[name] = None
    return tuple(names)


def without_surrogates(value: Any) -> Any:
    """Return a value without lone surrogates, which no UTF-8 can hold."""
    return _with_each(value, lambda inner: replace_surrogates(inner) if isinstance(inner, str) else inner)


def _finite(value: Any) -> Any:
    """Return a value in which numbers that JSON cannot hold are null."""
    return _with_each(value, lambda inner: None if isinstance(inner, float) and not math.isfinite(inner) else inner)


def _with_each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value in which every text, number and key is changed."""
    if isinstance(value, list):
        return [_with_each(inner, change) for inner in value]
    if isinstance(value, dict):
        return {change(key): _with_each(inner, change) for key, inner in value.items()}
    return change(value)


def without_suffixes(name: str) -> str:
    """Return the name of a file of records without what it ends in: how it is compressed, and its format."""
    stem = _uncompressed(name)
    suffix = _suffix(name)
    return stem[: -len(suffix)] if suffix and len(stem) > len(suffix) else stem


def holds_records(name: str) -> bool:
    """Return whether a file is called like one that holds records."""
    return bool(_suffix(name))


def _uncompressed(name: str) -> str:
    for suffix in COMPRESSED_SUFFIXES:
        if name.casefold().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return name


def _suffix(name: str) -> str:
    """Return what the name of a file ends in, of the formats of records; empty if it ends otherwise."""
    written = _uncompressed(name).casefold()
    return next((suffix for suffix in _SUFFIXES if written.endswith(suffix)), "")


def _start_of(stream: Stream) -> bytes:
    """Return how a stream begins, which can be read again."""
    start = next(stream.chunks, b"")
    stream.chunks = chain([start], stream.chunks)
    return start


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()


def _has_surrogates(row: Row) -> bool:
    return any(map(LONE_SURROGATES.search, row))


def delimiter_of(header: str, suffix: str = "") -> str:
    """Return what stands between the fields: what parts the header into most columns, a tab first in a .tsv file."""
    if suffix == ".tsv" and "\t" in header:
        return "\t"
    return max(_DELIMITERS, key=lambda delimiter: _fields_of(header, delimiter))


def _fields_of(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:
        return 0
