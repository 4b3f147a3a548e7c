"""The rows of a dataset file, JSONL, JSON array, CSV or TSV, packed or not: line, names and values of each.

Nothing of a row is lost or chosen here. A row that cannot be read is a doubt with its place, and the next one is read.
What repeats itself from row to row is kept once: names of columns, and values that came before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from faircount.errors import InputError
from faircount.options import MAX_LINE_BYTES
from faircount.reading import loose
from faircount.reading.label_rows import CsvRecords, Sha256, without_halves
from faircount.reading.labelled import DoubtKind, Doubts
from faircount.reading.loose import BadLine
from faircount.reading.readers import open_stream
from faircount.reading.streams import TOO_LONG, Stream, blocks
from faircount.text import visible

CSV_SUFFIXES = (".csv", ".tsv")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
PACKED_SUFFIXES = (".gz", ".zst")

LONGEST_ROW = 8 * 1024 * 1024
"""A row stands in the record of its case, twice and with everything but ASCII escaped; records have a limit."""
_LARGEST_ARRAY = 256 * 1024 * 1024
_DEEPEST = loose.MAX_DEPTH - 8
_SHARED_VALUES = 4000
_DECISIVE = ("id", "content", "text", "prompt", "judge_args")
_DECISIVE_KEYS = tuple(f'"{name}":'.encode() for name in _DECISIVE)
_NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_SPACE = " \t\r\n"
_decoder = msgspec.json.Decoder(dict[str, Any])

Places = Mapping[str, int]
"""The names of columns, each with the place of its value."""


class EntryFields(Mapping[str, Any]):
    """What a dataset says of an entry. Entries with the same columns share the names of them."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Places, values: tuple[Any, ...]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return self._places.keys()

    def __repr__(self) -> str:
        return f"EntryFields({dict(self)!r})"


class Row(NamedTuple):
    """A row: the line that it begins on, the names of its columns, and its values in their order."""

    line: int
    names: tuple[str, ...]
    values: tuple[Any, ...]


class _Shared:
    """Values that came before in the same column, so that each is kept once; a column that has too many is given up."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._rows = 0
        self._columns: list[tuple[int, dict[Any, Any]]] = [(place, {}) for place in range(len(names))]

    def values(self, values: list[Any]) -> tuple[Any, ...]:
        """Return the values of a row, those that came before as the very ones that came before."""
        self._rows += 1
        if self._rows % _SHARED_VALUES == 0:
            self._columns = [(place, seen) for place, seen in self._columns if 0 < len(seen) < _SHARED_VALUES // 2]
        for place, seen in self._columns:
            value = values[place]
            if type(value) is str:
                values[place] = seen.setdefault(value, value)
            elif type(value) is list and value and set(map(type, value)) == {str}:
                values[place] = seen.setdefault(tuple(value), value)
        return tuple(values)


class Rows:
    """The rows of one file, all of them in memory, and the SHA-256 of the file."""

    def __init__(self, path: str, doubts: Doubts) -> None:
        self.path = path
        self._doubts = doubts
        self._shared: dict[tuple[str, ...], _Shared] = {}
        sha256 = Sha256()
        stream = open_stream(path, visible(path), sha256)
        if stream.run is not None:
            raise InputError(
                f"{visible(path)}: holds the results of a run, not a dataset; "
                "`faircount results extract` makes a dataset from it"
            )
        self.rows = list(self._read(stream))
        self.names = tuple(dict.fromkeys(name for names in self._shared for name in names))
        self._shared.clear()
        for _ in stream.chunks:  # what stands behind damage is a part of the file, too
            pass
        self.sha256 = sha256.hexdigest()

    def _row(self, line: int, names: Iterable[str], values: Iterable[Any]) -> Row:
        names = tuple(names)
        shared = self._shared.get(names)
        if shared is None:
            shared = self._shared[names] = _Shared(names)
        return Row(line, shared.names, shared.values(list(values)))

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, stream: Stream) -> Iterator[Row]:
        if base_name(self.path).endswith(CSV_SUFFIXES):
            yield from self._csv(stream)
            return
        for number, line in _objects(stream, self._doubts):
            try:
                values = _decoded(line, f"{stream.name}:{number}", self._doubts)
            except BadLine as reason:
                self._doubts.add(DoubtKind.BAD_LINE, str(reason), f"{stream.name}:{number}")
            else:
                yield self._row(number, values, values.values())

    def _csv(self, stream: Stream) -> Iterator[Row]:
        records = CsvRecords(stream, LONGEST_ROW, self._doubts)
        names = _distinct(records.header)
        width = len(names)
        for line, values in records:
            # A table cannot tell an empty text from nothing.
            yield self._row(line, names, [value or None for value in values[:width]])


def base_name(path: str) -> str:
    """Return a path without what says how it is packed, in lower case."""
    name = path.casefold()
    for packed in PACKED_SUFFIXES:
        name = name.removesuffix(packed)
    return name


def _distinct(header: Sequence[str]) -> tuple[str, ...]:
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


# -- lines of JSON ----------------------------------------------------------------------------------------------


def _objects(stream: Stream, doubts: Doubts) -> Iterator[tuple[int, bytes]]:
    """Yield the texts of objects with their lines: the lines of a file, or the items of an array."""
    number = 0
    lines = (line for block in blocks(stream, MAX_LINE_BYTES) for line in block.lines)
    for line in lines:
        number += 1
        if not line.strip():
            continue
        if line.lstrip().startswith(b"[") and line is not TOO_LONG:
            yield from _items(stream.name, [b""] * (number - 1) + [line, *_limited(stream.name, lines)], doubts)
            return
        yield number, line
        break
    for line in lines:
        number += 1
        if line and not line.isspace():
            yield number, line
    if stream.truncated:
        doubts.add(DoubtKind.BAD_LINE, f"the rest was not read: {stream.truncated}", f"{stream.name}:{number}")


def _limited(name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    total = 0
    for line in lines:
        total += len(line)
        if total > _LARGEST_ARRAY or line is TOO_LONG:
            raise InputError(f"{name}: the JSON array is too large; write one object per line (JSONL)")
        yield line


def _items(name: str, lines: Sequence[bytes], doubts: Doubts) -> Iterator[tuple[int, bytes]]:
    """Yield the items of an array with the lines that they begin on."""
    try:
        text = b"\n".join(lines).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start + 1}; convert it first") from None
    decode = json.JSONDecoder(parse_int=loose.whole_number).raw_decode
    position, line = text.index("[") + 1, 1
    counted = 0
    while True:
        start = _past(text, position, _SPACE + ",")
        line += text.count("\n", counted, start)
        counted = start
        if text.startswith("]", start):
            return
        try:
            position = decode(text, start)[1]
        except (ValueError, RecursionError):
            doubts.add(
                DoubtKind.BAD_LINE, "the rest was not read: the array is not valid JSON from here on", f"{name}:{line}"
            )
            return
        yield line, text[start:position].encode("utf-8", "surrogatepass")


def _past(text: str, position: int, passed: str) -> int:
    while position < len(text) and text[position] in passed:
        position += 1
    return position


def _decoded(line: bytes, place: str, doubts: Doubts) -> dict[str, Any]:
    """Return the object of a line, strictly decoded if it can be; `doubts` hear what was changed in it."""
    if line is TOO_LONG or len(line) > LONGEST_ROW:
        raise BadLine(f"longer than {LONGEST_ROW:,} bytes")
    if loose.depth(line) > _DEEPEST:
        raise BadLine(f"nested more than {_DEEPEST} levels deep")
    if not _may_stand_twice(line):
        try:
            return _decoder.decode(line)
        except _NOT_STRICT:
            pass
    values, odd = loose.parse(line)
    # The same name may stand inside, and stand there twice; that is as doubtful.
    twice = [name for name in odd.duplicate_keys if name in _DECISIVE]
    if twice:
        raise BadLine(f"the key {twice[0]} appears twice, with different values")
    whole = without_halves(values)
    if whole != values:
        doubts.add(DoubtKind.CHANGED_TEXT, "", place)
    cleaned, changed = _finite(whole)
    if changed:
        doubts.add(DoubtKind.WRONG_KIND, "a number that is not finite was replaced by null", place)
    return dict(cleaned)


def _may_stand_twice(line: bytes) -> bool:
    counts = map(line.count, _DECISIVE_KEYS)
    return max(counts) > 1


def _finite(value: Any) -> tuple[Any, bool]:
    """Return a value in which numbers that JSON cannot hold are null, and whether there were any."""
    if isinstance(value, float) and not math.isfinite(value):
        return None, True
    if isinstance(value, list):
        made = [_finite(item) for item in value]
        return [item for item, _ in made], any(changed for _, changed in made)
    if isinstance(value, dict):
        kept = {key: _finite(item) for key, item in value.items()}
        return {key: item for key, (item, _) in kept.items()}, any(changed for _, changed in kept.values())
    return value, False
