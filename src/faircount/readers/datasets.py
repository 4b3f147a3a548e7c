"""A dataset of entries: what identifies each row, where it stands, and its line once more when it is written again.

Rows are not kept. An entry is known by its id and by checksums of its content, which are those that the ledger has of
prompts; its line is read again when it is wanted. What cannot be read becomes a note, as in a result file.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from xxhash import xxh3_64_intdigest

from faircount.core.errors import InputError
from faircount.core.findings import Notes
from faircount.core.model import Source
from faircount.core.options import MAX_LINE_BYTES
from faircount.io import lenient_json as loose
from faircount.io.files import open_binary
from faircount.io.lenient_json import BadLine
from faircount.io.records import RecordBatch, Records, RecordType, all_fields, report_to, some_fields
from faircount.ledger.schema import Lexicon, id_number
from faircount.readers.raw_rows import members_of, name_json
from faircount.readers.registry import default_reader
from faircount.readers.rows import EMPTY, raw_json

RATE_FIELD = "success_rate"

_NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_CONTENT_FIELDS = ("content", "text", "input")
"""Where the content may stand: since 0.8, before, and in a row of results."""
_RESULT_FIELDS = ("success", "response", "error")


def checksum(text: Raw | bytes) -> int:
    """Return what the ledger keeps of a prompt: 64 bits of its JSON text as a signed number."""
    unsigned = xxh3_64_intdigest(text)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


NO_CONTENT = frozenset([checksum(b""), checksum(b"null"), 0])
"""What stands for a prompt that is not recorded."""


class _DatasetEntry(msgspec.Struct, gc=False):
    id: int | str
    long_id: str | None = None
    content: Raw = EMPTY
    text: Raw = EMPTY
    input: Raw = EMPTY
    result_parent_id: int | str | None = None


class Dataset:
    """The rows of a dataset in their order: an index in the columns below is a row."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ids: list[str] = []
        self.long_ids: list[str | None] = []
        self.contents = array("q")
        """The checksum of each row's content; one of `NO_CONTENT` where there is none."""
        self.notes = Notes(path)
        self._parents: dict[int, str] = {}
        self._lines = array("q")
        self._offsets = array("q")
        self._lengths = array("q")
        self._checksums = array("Q")
        self._read = self._bad = self._blank = self._bytes = self._max_line = 0
        self._in_place = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def source(self) -> Source:
        """How many lines of the file could be read."""
        return Source(
            path=self.path,
            tool=default_reader().tool,
            reader="dataset",
            lines=self._read,
            good_lines=len(self),
            bad_lines=self._bad,
            blank_lines=self._blank,
            bytes=self._bytes,
        )

    def place(self, row: int) -> str:
        """Return `file:line` of a row."""
        return f"{self.path}:{self._lines[row]}"

    @cached_property
    def by_id(self) -> dict[str, list[int]]:
        """The rows that have an id; 5 and "5" are one."""
        found: dict[str, list[int]] = {}
        for row, name in enumerate(self.ids):
            found.setdefault(name, []).append(row)
        return found

    @cached_property
    def by_parent_id(self) -> dict[str, list[int]]:
        """The rows that were extracted from results, by the id that they had there."""
        found: dict[str, list[int]] = {}
        for row, name in self._parents.items():
            found.setdefault(name, []).append(row)
        return found

    @cached_property
    def numbered(self) -> tuple[Any, Any]:
        """The ids that are numbers, sorted as the ledger writes them, and the only row of each, as numpy's arrays."""
        import numpy as np

        lexicon = Lexicon()
        written = np.array([id_number(name, lexicon) for name in self.ids], np.int64)
        numbers, rows, counts = np.unique(written, return_index=True, return_counts=True)
        alone = (numbers < 0) & (counts == 1)
        return numbers[alone], rows[alone]

    @cached_property
    def repeated_ids(self) -> int:
        """How many rows have an id that another row before them has."""
        return len(self) - len(set(self.ids))

    @cached_property
    def repeated_long_ids(self) -> int:
        """How many rows have a long id that another row before them has."""
        named = [name for name in self.long_ids if name is not None]
        return len(named) - len(set(named))

    @cached_property
    def repeated_entries(self) -> int:
        """How many rows have the id and the content of another row before them: nothing distinguishes these."""
        return len(self) - len(set(zip(self.ids, self.contents, strict=True))) if self.repeated_ids else 0

    def has_content(self, row: int) -> bool:
        """Return whether a row has any content to compare."""
        return self.contents[row] not in NO_CONTENT

    def holds(self, row: int, content: int) -> bool:
        """Return whether a checksum is that of the row's content, in this or another way to write it as JSON."""
        return self.contents[row] == content or content in self._other_forms.get(row, ())

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, max_line: int) -> None:
        """Read what identifies the rows of the file."""
        records = Records(self.path, _ROW, report_to(self.notes), max_line=max_line)
        for batch in records.batches():
            self._add(batch)
        self._in_place = records.in_place
        self._max_line = max_line
        self._read, self._bad, self._blank = records.lines, records.bad, records.blank
        self._bytes = records.source.bytes_read

    def _add(self, batch: RecordBatch[_DatasetEntry]) -> None:
        """Add rows column by column."""
        rows, texts = batch.values, batch.texts
        for index, row in enumerate(rows, start=len(self.ids)):
            if row.result_parent_id is not None:
                self._parents[index] = str(row.result_parent_id)
        self.ids += [str(row.id) for row in rows]
        self.long_ids += [row.long_id for row in rows]
        contents = array("Q", [xxh3_64_intdigest(_content(row)) for row in rows])
        self.contents.frombytes(contents.tobytes())
        self._lines.extend(batch.lines)
        self._offsets.extend(batch.offsets)
        self._lengths.extend(map(len, texts))
        self._checksums.extend(map(xxh3_64_intdigest, texts))

    @cached_property
    def _other_forms(self) -> dict[int, frozenset[int]]:
        """Other ways to write the contents, found when they are first wanted: mostly they never are."""
        rows = range(len(self))
        forms = ((row, _other_forms(bytes(_content(_row(line))))) for row, line in self._numbered(rows))
        return {row: found for row, found in forms if found}

    # -- the lines again -----------------------------------------------------------------------------------------

    def rows_with_rates(self, rows: Sequence[int], rates: Sequence[float]) -> Iterator[bytes]:
        """Yield the lines of rows in the order given, every field as it was written, and the rate of each."""
        for (_, line), rate in zip(self._numbered(rows), rates, strict=True):
            yield with_rate(line, rate)

    def _numbered(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield rows with their lines, as long as these are what they were."""
        for row, line in zip(rows, self._lines_of(rows), strict=True):
            if xxh3_64_intdigest(line) != self._checksums[row]:
                raise InputError(f"{self.place(row)}: changed while it was being read; try again")
            yield row, line

    def _lines_of(self, rows: Sequence[int]) -> Iterator[bytes]:
        if self._in_place:
            yield from self._lines_at_their_places(rows)
        else:
            found = self._lines_gathered(rows)
            yield from (found.get(row, b"") for row in rows)

    def _lines_at_their_places(self, rows: Iterable[int]) -> Iterator[bytes]:
        try:
            with open_binary(self.path) as file:
                for row in rows:
                    file.seek(self._offsets[row])
                    yield file.read(self._lengths[row]) or b""
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _lines_gathered(self, rows: Iterable[int]) -> dict[int, bytes]:
        """Return the texts of rows of a file that can only be read from its beginning."""
        wanted, found, row = set(rows), dict[int, bytes](), 0
        for batch in Records(self.path, _ROW, max_line=self._max_line).batches():
            for text in batch.texts:
                if row in wanted:
                    found[row] = text
                row += 1
        return found


def read_dataset(path: str, max_line: int = MAX_LINE_BYTES) -> Dataset:
    """Read what identifies the rows of a dataset."""
    dataset = Dataset(path)
    dataset.read(max_line)
    return dataset


def is_dataset(path: str, max_line: int = MAX_LINE_BYTES) -> bool:
    """Return whether the first row that can be read has content, and nothing that only results have."""
    for _, fields in Records(path, all_fields(), max_line=max_line):
        return not fields.keys().isdisjoint(_CONTENT_FIELDS) and fields.keys().isdisjoint(_RESULT_FIELDS)
    return False


def _from_fields(values: dict[str, Any]) -> _DatasetEntry:
    """Make a row of what is not clean JSON, or of the row of a table."""
    name = values.get("id")
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    if name is None:
        raise BadLine("no id")
    if isinstance(name, bool | list | dict):
        raise BadLine("the id is neither a string nor a number")
    long_id, parent = values.get("long_id"), values.get("result_parent_id")
    return _DatasetEntry(
        name if isinstance(name, int) else str(name),
        long_id if isinstance(long_id, str) else None,
        result_parent_id=parent if isinstance(parent, int | str) and not isinstance(parent, bool) else None,
        **{field: raw_json(values[field]) for field in _CONTENT_FIELDS if field in values},
    )


def _row(text: bytes) -> _DatasetEntry:
    """Return the row that a text was read as."""
    try:
        row: _DatasetEntry = _ROW.decoder.decode(text)
        return row
    except _NOT_STRICT:
        return _from_fields(loose.parse(text)[0])


_ROW = RecordType(msgspec.json.Decoder(_DatasetEntry), _from_fields, keep_surrogates=True)


def _content(row: _DatasetEntry) -> Raw:
    if row.content is not EMPTY:
        return row.content
    return row.input if row.text is EMPTY else row.text


def _other_forms(text: bytes) -> frozenset[int]:
    """Return checksums of other ways to write a content, where there are any.

    A result has the same text with or without escapes. Of a conversation, which is a list, it may have what Python
    shows of it.
    """
    if text.isascii() and text[:1] not in (b"[", b"{") and b"\\u" not in text and b"\\/" not in text:
        return frozenset()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    values = [value] if isinstance(value, str) else [value, str(value)]
    written = [json.dumps(form, ensure_ascii=ascii_only) for form in values for ascii_only in (False, True)]
    return frozenset(checksum(form.encode("utf-8", "surrogatepass")) for form in written)


# -- a row written again ----------------------------------------------------------------------------------------


def with_rate(line: bytes, rate: float) -> bytes:
    """Return a row with its success rate, and everything else byte for byte; a rate that is there is replaced."""
    # The text of an item in a JSON array may go over several lines, none of which ends inside a string.
    written = line.strip().replace(b"\n", b" ").replace(b"\r", b" ")
    value = json.dumps(rate).encode()
    if RATE_FIELD.encode() in written:
        fields = members_of(written)
        if RATE_FIELD in fields:
            fields[RATE_FIELD] = value
            members = (b"%b: %b" % (name_json(name), text) for name, text in fields.items())
            return b"{" + b", ".join(members) + b"}\n"
    gap = b" " if b'": ' in written else b""
    return b'%b,%b"%b":%b%b}\n' % (written[:-1].rstrip(), gap, RATE_FIELD.encode(), gap, value)


# -- names by which entries are matched by their long ids -------------------------------------------------------


class RowNames(msgspec.Struct, gc=False):
    """What names the entry of a result, where the long id decides."""

    long_id: Any = ""
    attack_name: Any = None
    attack_parent_long_id: Any | UnsetType = UNSET

    @property
    def own_long_id(self) -> str:
        """The long id without the mark of an attack that raised."""
        return str(self.long_id).removesuffix("-ERROR")


def names_of_rows(path: str, max_line: int = MAX_LINE_BYTES) -> dict[int, RowNames]:
    """Return the names that the rows of a result file have, by their lines."""
    return dict(Records(path, some_fields(RowNames, keep_surrogates=True), max_line=max_line))
