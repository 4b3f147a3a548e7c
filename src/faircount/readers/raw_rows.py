"""Rows together with the text that they were written in: to be chosen by what they hold, and written again as they are.

Which line is a row, and what its verdict means, is decided where results are counted. A row that becomes part of a new
dataset keeps the text of every field byte for byte; only its id and its long id change, and a few fields are added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from faircount.core.findings import Notes
from faircount.core.model import Source
from faircount.io import lenient_json as loose
from faircount.io.files import FileVersion, version_of
from faircount.io.lenient_json import BadLine, is_utf8
from faircount.io.streams import STDIN, TOO_LONG, Block, Stream, blocks, file_of
from faircount.ledger.lookup import identities
from faircount.ledger.schema import RowMark
from faircount.ledger.tallies import STANDARD, UNNAMED_ATTACK
from faircount.readers.registry import default_reader, open_stream
from faircount.readers.result_rows import FAMILY_FIELDS, Row, RowDecoder, attack_name_of, family, mark_of, parent_id_of
from faircount.readers.rows import EMPTY, ReadOptions, scalar_text
from faircount.readers.spikee import RowLines

ESCAPE = b"\\u"
"""Begins an escape that can stand for any character."""

_ID_FIRST = b'{"id": '
_CLOSE = ord("}")
_NEAR = 64
_SHORT = 64
_PARENT_FIELDS = ("result_parent_id", "attack_parent_id", "original_id")
_COMPRESSED = (".gz", ".zst")
_NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SPACE = re.compile(r"[ \t\n\r]*")
_members_decoder = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode
_loose_decoder = json.JSONDecoder(parse_int=str)

_EXACT = frozenset(
    [
        *(name for name, kind in Row.__annotations__.items() if kind == "Label"),
        *("id", "success", "attack_name", "error", "guardrail", "result_origin", "source_file"),
    ]
)
"""Fields that a clean row holds as they are."""

ROW_FIELDS = frozenset(Row.__struct_fields__)
"""Fields that rows of results are known to have."""

Members = dict[str, Raw | bytes]
"""The fields of a row, each with its value as it was written."""


class Origin(Struct, frozen=True, dict=True):
    """A file that rows come from: its name as it was given, and where its bytes are."""

    name: str
    path: str

    @cached_property
    def mark(self) -> str:
        """What the long ids of extracted rows end with."""
        name = "stdin" if self.name == STDIN else Path(self.name).name
        for suffix in _COMPRESSED:
            if name.endswith(f".jsonl{suffix}"):
                name = name.removesuffix(suffix)
        return f"_extracted_{name.removesuffix('.jsonl')}"


class RawRow(Struct, frozen=True, gc=False):
    """A row, where its line stands in a buffer, and whether it is clean: then the row holds the values as they are.

    The line, and what the row holds undecoded, are there until the next rows are read.
    """

    number: int
    row: Row
    clean: bool
    buffer: bytes | bytearray
    start: int
    end: int
    offset: int = 0
    """Where the buffer begins in the file, if the row is clean."""

    @property
    def line(self) -> bytes:
        """The line as it stands in the file."""
        return bytes(memoryview(self.buffer)[self.start : self.end])


class RawReader:
    """Reads the rows of a source with their lines; afterwards `source()` has their counts."""

    def __init__(self, stream: Stream, *, max_line: int) -> None:
        self.stream = stream
        self.max_line = max_line
        self.notes = Notes(stream.name)
        self._decoder = RowDecoder(self.notes)
        self._lines = self._good = self._bad = 0

    def blocks(self) -> Iterator[list[RawRow]]:
        """Yield the rows, some at a time."""
        for block in blocks(self.stream, self.max_line):
            rows = None if block.buffer is TOO_LONG else self._decoder.all_fast(block.buffer, block.length)
            found = self._read_lines(block.lines) if rows is None else self._place(rows, block)
            self._good += len(found)
            yield found
        if self.stream.truncated:
            self.notes.add("F002", self.stream.truncated, self._lines)
        for problem in () if self.stream.run is None else self.stream.run.problems:
            self.notes.add(*problem)

    def source(self) -> Source:
        """Return what was read, after the last block."""
        read = Source(
            path=self.stream.name,
            tool=default_reader().tool,
            reader=default_reader().name,
            lines=self._lines,
            good_lines=self._good,
            bad_lines=self._bad,
            blank_lines=self._lines - self._good - self._bad,
            bytes=self.stream.bytes_read,
        )
        return read if self.stream.run is None else self.stream.run.of(read)

    def _place(self, rows: Sequence[Row], block: Block) -> list[RawRow]:
        """Return rows of which each stands on a line of its own."""
        buffer, length, found, start = block.buffer, block.length, list[RawRow](), 0
        for number, row in enumerate(rows, start=self._lines + 1):
            end = buffer.find(b"\n", start, length)
            if end < 0:
                end = length
            found.append(RawRow(number, row, True, buffer, start, end, block.offset))
            start = end + 1
        self._lines += len(rows)
        return found

    def _read_lines(self, lines: Sequence[bytes]) -> list[RawRow]:
        found = []
        for line in lines:
            self._lines += 1
            if not line:
                continue
            try:
                found.append(RawRow(self._lines, self._read_line(line, self._lines), False, line, 0, len(line)))
            except BadLine as reason:
                if line.strip():
                    self._bad += 1
                    self.notes.add("F001", str(reason), self._lines)
        return found

    def _read_line(self, line: bytes, number: int) -> Row:
        if line is TOO_LONG:
            raise BadLine(f"longer than {self.max_line} bytes")
        if self.stream.run is not None and number in self.stream.run.bad:
            raise BadLine(self.stream.run.bad[number])
        read = self._decoder.fast if is_utf8(line) else self._decoder.careful
        return read(line, number)[0]


def rows_of(origin: Origin, max_line: int) -> Iterator[RawRow]:
    """Yield the rows of a file one by one."""
    for found in RawReader(open_stream(origin.path, origin.name), max_line=max_line).blocks():
        yield from found


# -- what a row holds -------------------------------------------------------------------------------------------


def values_decoder(fields: Collection[str] | None) -> msgspec.json.Decoder[dict[str, Any]]:
    """Return a decoder of the given fields of a row, or of all of them."""
    if fields is None:
        return msgspec.json.Decoder(dict[str, Any])
    from typing import TypedDict

    wanted = TypedDict("wanted", dict.fromkeys(fields, Any), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(wanted)


def values_of(line: bytes, decoder: msgspec.json.Decoder[dict[str, Any]]) -> dict[str, Any]:
    """Return fields of a row as they are, those of lines that are nearly JSON included."""
    try:
        return decoder.decode(line)
    except _NOT_STRICT:
        return loose.parse(line)[0]


def values_reader(fields: Collection[str] | None) -> Callable[[RawRow], dict[str, Any]]:
    """Return what gives the given fields of a row, or all of them, as they are; a missing one may be given as None."""
    decoder = values_decoder(fields)
    if fields is None or not _EXACT.issuperset(fields):
        return lambda raw: values_of(raw.line, decoder)
    names = tuple(fields)

    def read(raw: RawRow) -> dict[str, Any]:
        if not raw.clean:
            return values_of(raw.line, decoder)
        row = raw.row
        return {name: None if (value := getattr(row, name)) is UNSET else value for name in names}

    return read


def members_of(line: bytes) -> Members:
    """Return the fields of a row with the text of their values."""
    try:
        found: Members = dict(_members_decoder.decode(line))
    except _NOT_STRICT:
        found = dict(_members_loosely(line.decode()))
    return found


def _members_loosely(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the fields of an object with the text of their values, where the strict decoder would not."""
    place = after_space(text, text.index("{") + 1)
    while text[place] != "}":
        name, end = _loose_decoder.raw_decode(text, place)
        start = after_space(text, after_space(text, end) + 1)
        _, end = _loose_decoder.raw_decode(text, start)
        yield name, text[start:end].encode()
        place = after_space(text, end)
        if text[place] == ",":
            place = after_space(text, place + 1)


def after_space(text: str, place: int) -> int:
    """Return where the white space of JSON ends that may begin at a place."""
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def fields_present(origins: Iterable[Origin], names: Collection[str], max_line: int) -> frozenset[str]:
    """Return which of the names are fields of some row; no more is read than is needed."""
    missing = set(names)
    for origin in origins:
        for raw in rows_of(origin, max_line):
            if not missing:
                return frozenset(names)
            line = raw.line
            if ESCAPE in line or any(_json(name) in line for name in missing):
                missing -= members_of(line).keys()
    return frozenset(names) - missing


# -- which entry a row belongs to -------------------------------------------------------------------------------


def entry_of(row: Row) -> tuple[int, str]:
    """Return the mark of a row, and the id of the entry that it belongs to, or may belong to if only its id says so."""
    own_id = str(row.id)
    mark = mark_of(row, own_id)
    return mark, parent_id_of(row, own_id, mark)


def family_of(row: Row | Mapping[str, Any]) -> str | None:
    """Return what a row, or one with these fields, is a variant of."""
    if isinstance(row, Mapping):
        return family(*(scalar_text(row.get(name)) for name in ("long_id", *FAMILY_FIELDS)))
    return family(row.long_id, *(getattr(row, name) for name in FAMILY_FIELDS))


def identities_of(lines: Sequence[bytes], max_line: int) -> list[tuple[str | None, str | None, int, int] | None]:
    """Return what identifies the row on each line, to be compared with a row that was counted; None for no row."""
    found: dict[int, tuple[str | None, str | None, int, int]] = {}
    for batch in RowLines(Stream(STDIN, iter([b"\n".join(lines)])), ReadOptions(max_line)).batches():
        found |= identities(batch.tables())
    return [found.get(number) for number in range(1, len(lines) + 1)]


def strategy_of(row: Row, origin: Origin, max_line: int) -> str:
    """Return `standard`, or the name of the attack that a row is part of."""
    if not _is_attack(row, origin, max_line):
        return STANDARD
    return attack_name_of(row.attack_name) or UNNAMED_ATTACK


def _is_attack(row: Row, origin: Origin, max_line: int) -> bool:
    own_id = str(row.id)
    mark = mark_of(row, own_id)
    if mark == RowMark.ATTACK_BY_ID:
        return _is_parent(parent_id_of(row, own_id, mark), origin, max_line)
    return mark == RowMark.ATTACK


def _is_parent(entry_id: str, origin: Origin, max_line: int) -> bool:
    """Return whether an entry is there: a row that only its id calls part of an attack is one only if it is."""
    return entry_id in _parents(origin, max_line, version_of(file_of(origin.path)))


@lru_cache(maxsize=8)
def _parents(origin: Origin, max_line: int, _version: FileVersion) -> frozenset[str]:
    """Return the entries of a file, as it is now, that rows may belong to of which only the id says so."""
    wanted = set()
    for raw in rows_of(origin, max_line):
        own_id = str(raw.row.id)
        if mark_of(raw.row, own_id) == RowMark.ATTACK_BY_ID:
            wanted.add(parent_id_of(raw.row, own_id, RowMark.ATTACK_BY_ID))
    ids = (str(raw.row.id) for raw in rows_of(origin, max_line))
    return frozenset(own_id for own_id in ids if own_id in wanted)


# -- a row of a new dataset -------------------------------------------------------------------------------------


DatasetRow = tuple[bytes, bytes]
"""A line of a new dataset on either side of its id, which is a number that only the writer knows."""


Splice = tuple[int, int, bytes, int, bytes, int, int, bytes]
"""A row whose text is that of its line, with a few pieces put in: where the line begins and ends in the file; the
beginning of the new row; where the rest of the line begins; what follows it; where the prompt begins and ends; the end.

Places in the line are counted from its start. It is a plain tuple, which goes from process to process fast.
"""


def dataset_row(raw: RawRow, origin: Origin, max_line: int) -> DatasetRow:
    """Return a row as a part of a new dataset: everything as it was, but for where it comes from.

    What the row holds undecoded must still be there.
    """
    row = splice_or_row(raw, origin, max_line)
    return row if len(row) == 2 else spliced(row, memoryview(raw.buffer)[raw.start : raw.end])


def splice_or_row(raw: RawRow, origin: Origin, max_line: int) -> Splice | DatasetRow:
    """Return how a row is made from its line, or the row itself where that takes more than putting pieces in."""
    return _splice(raw, origin) or _rewritten(raw, origin, max_line)


def spliced(splice: Splice, line: memoryview | bytes) -> DatasetRow:
    """Return the row that is made from a line."""
    _, _, head, rest_at, middle, prompt_at, prompt_end, tail = splice
    return _ID_FIRST, b"".join([head, line[rest_at:-1], middle, line[prompt_at:prompt_end], tail])


def _splice(raw: RawRow, origin: Origin) -> Splice | None:
    """Return how a row is made from its line; None if its line does not begin as most do."""
    row, buffer, own_id = raw.row, raw.buffer, str(raw.row.id)
    written_id, long_id = _json(row.id), b', "long_id": "%b"' % str(row.long_id).encode()
    start = _ID_FIRST + written_id + long_id
    after = raw.start + len(start)
    if not (raw.clean and buffer.startswith(start, raw.start, raw.end) and buffer[raw.end - 1] == _CLOSE):
        return None
    mark = mark_of(row, own_id)
    prompt_at, texts_end = _long_texts(raw, after)
    if (
        mark == RowMark.ATTACK_BY_ID
        or not _says_no_origin(raw, texts_end)
        or (row.input is not EMPTY and not prompt_at)
    ):
        return None
    path, parent = _short_json(origin.name), parent_id_of(row, own_id, mark)
    parent_id = written_id if parent == own_id else _json(parent)
    middle = b', "source_file": %b, "result_parent_id": %b, "result_origin": %b, "original_id": %b' % (
        path,
        parent_id,
        path,
        written_id,
    )
    tail = b"}\n"
    if row.input is not EMPTY:
        middle += b', "content": '
        tail = tail if row.input_type is None else b', "content_type": %b}\n' % name_json(row.input_type)
    at = raw.offset + raw.start
    return (
        at,
        at + raw.end - raw.start,
        long_id[:-1] + _short_json(origin.mark)[1:],
        after - raw.start,
        middle,
        prompt_at - raw.start if prompt_at else 0,
        prompt_at - raw.start + len(row.input) if prompt_at else 0,
        tail,
    )


def _long_texts(raw: RawRow, place: int) -> tuple[int, int]:
    """Return where the prompt of a row stands, 0 if it is not found, and where its long texts end."""
    row, buffer, prompt_at = raw.row, raw.buffer, 0
    for name, text in ((b', "input": ', row.input), (b', "response": ', row.response)):
        found = buffer.find(name, place, place + _NEAR) + len(name)
        if found >= len(name) and buffer.startswith(text, found, raw.end):
            place = found + len(text)
            prompt_at = prompt_at or (found if text is row.input else 0)
    return prompt_at, place


def _says_no_origin(raw: RawRow, place: int) -> bool:
    """Return whether a row says nothing yet of where it comes from, and its ids stand only before a place."""
    row, buffer, end = raw.row, raw.buffer, raw.end
    return (
        row.result_parent_id is UNSET
        and row.attack_parent_id is UNSET
        and row.original_id is UNSET
        and row.content is EMPTY
        and row.text is EMPTY
        and row.content_type is EMPTY
        and buffer.find(b'"id"', place, end) < 0
        and buffer.find(b'"long_id"', place, end) < 0
        and buffer.find(b'"result_origin"', place, end) < 0
        and buffer.find(b'"source_file"', place, end) < 0
    )


def _rewritten(raw: RawRow, origin: Origin, max_line: int) -> DatasetRow:
    """Return a row put together from the texts of its fields."""
    fields = members_of(raw.line)
    fields |= _provenance(raw.row, fields, origin, max_line)
    fields |= _prompt(fields)
    place = list(fields).index("id")
    written = [b"%b: %b" % (name_json(name), value) for name, value in fields.items()]
    before = b"".join([part + b", " for part in written[:place]])
    after = b"".join([b", " + part for part in written[place + 1 :]])
    return b"{" + before + b'"id": ', after + b"}\n"


def _provenance(row: Row, fields: Mapping[str, Raw | bytes], origin: Origin, max_line: int) -> Members:
    """Return the fields that say where a row comes from, in the order of datasets."""
    path, own_id = _json(origin.name), str(row.id)
    known_origin = "result_origin" if row.result_origin is not None else "source_file"
    named = row.result_origin is not None or row.source_file is not None
    provenance: Members = {
        "long_id": _marked_long_id(row, fields, origin),
        "source_file": path,
        "result_parent_id": _json(row.id),
        "result_origin": fields[known_origin] if named else path,
        "original_id": fields["id"],
    }
    mark = mark_of(row, own_id)
    parent = parent_id_of(row, own_id, mark)
    by_id = mark == RowMark.ATTACK_BY_ID
    if by_id and _is_parent(parent, origin, max_line):
        provenance["attack_parent_id"] = _json(parent)
    elif by_id:
        parent = own_id
    if parent != own_id:
        named_by = [name for name in _PARENT_FIELDS if name in fields and str(getattr(row, name)) == parent]
        provenance["result_parent_id"] = fields[named_by[0]] if named_by else _json(parent)
    return provenance


def _marked_long_id(row: Row, fields: Mapping[str, Raw | bytes], origin: Origin) -> bytes:
    written = bytes(fields.get("long_id", b""))
    if written.startswith(b'"'):
        return written[:-1] + _json(origin.mark)[1:]
    return _json(f"{row.id if row.long_id is None else row.long_id}{origin.mark}")


def _prompt(fields: Mapping[str, Raw | bytes]) -> Members:
    """Return the prompt under the name that a dataset has for it, unless it is there: results call it input."""
    if "input" not in fields or "content" in fields or "text" in fields:
        return {}
    prompt: Members = {"content": fields["input"]}
    if "content_type" not in fields and bytes(fields.get("input_type", b"")).startswith(b'"'):
        prompt["content_type"] = fields["input_type"]
    return prompt


def _json(value: str | int) -> bytes:
    """Return a text or a whole number as JSON; lone surrogates are escaped, everything else is written as it is."""
    if isinstance(value, int):
        return b"%d" % value
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


_short_json = lru_cache(maxsize=256)(_json)
"""The same for short texts that come again and again."""


def name_json(name: str) -> bytes:
    """Return the name of a field as JSON."""
    return _short_json(name) if len(name) <= _SHORT else _json(name)
