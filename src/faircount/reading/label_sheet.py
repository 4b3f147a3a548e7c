"""The first sheet of a workbook as CSV, so that a sheet that people filled in is read like any other file of labels.

Only values are read: no formula is computed, no link followed, no other sheet opened. A workbook is refused if it is
larger than a sheet of labels can be, packed or not, or declares a document type, which no spreadsheet program does.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from faircount.errors import InputError
from faircount.reading.streams import EXPANSION_CHECKED_FROM, MAX_EXPANSION

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_SIGNATURE = b"PK\x03\x04"
_MOST_MEMBERS = 10_000
_LARGEST_PART = 256 * 1024 * 1024
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
"""What a spreadsheet program takes."""
_MOST_CELLS = 10_000_000
_MOST_WORDS = 4_000_000
_STEP = 64 * 1024
_COLUMN = re.compile(r"[A-Z]{1,3}")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


class _Refused(Exception):
    """A workbook that is too large, or not what a spreadsheet program writes."""


def is_workbook(path: str) -> bool:
    """Return whether a file is a workbook (.xlsx), by what it begins with."""
    with Path(path).open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


def write_as_csv(path: str, file: IO[bytes]) -> None:
    """Write the first sheet of a workbook as CSV."""
    import lzma
    from xml.parsers.expat import ExpatError

    lines = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    damage = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ExpatError)
    try:
        with zipfile.ZipFile(path) as packed:
            csv.writer(lines).writerows(_rows(packed))
        lines.flush()
    except _Refused as error:
        raise InputError(f"{path}: {error}; save the labels as CSV") from None
    except (*damage, LookupError, ValueError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path}: cannot read this workbook; save it again as .xlsx, or as CSV") from error
    finally:
        lines.detach()


def _rows(packed: zipfile.ZipFile) -> Iterator[list[str]]:
    names = packed.namelist()
    if len(names) > _MOST_MEMBERS:
        raise _Refused(f"has more than {_MOST_MEMBERS:,} parts")
    sheets = sorted(
        (name for name in names if re.fullmatch(r"xl/worksheets/sheet[0-9]+\.xml", name)),
        key=lambda name: (len(name), name),
    )
    if not sheets:
        raise KeyError("a workbook without sheets")
    words = _Words()
    if (shared := "xl/sharedStrings.xml") in names:
        for _ in _parsed(packed, shared, words):
            pass
    sheet = _Sheet(words.texts)
    width = cells = 0
    for _ in _parsed(packed, sheets[0], sheet):
        for values in sheet.taken():
            # A row ends with its last cell that holds something; a record has as many fields as the header.
            width = width or len(values)
            cells += max(width, len(values))
            if cells > _MOST_CELLS:
                raise _Refused(f"has more than {_MOST_CELLS:,} cells")
            yield values + [""] * (width - len(values))


# -- XML --------------------------------------------------------------------------------------------------------


class _Elements:
    """Gathers the texts of elements while XML is parsed; nothing of the tree is kept."""

    text_elements: frozenset[str] = frozenset(["t"])

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.inside = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition("}")[2]
        self.inside += local in self.text_elements
        self.begin(local, attributes)

    def end(self, name: str) -> None:
        local = name.rpartition("}")[2]
        self.inside -= local in self.text_elements
        self.finish(local)

    def text(self, content: str) -> None:
        if self.inside:
            self.pieces.append(content)

    def begin(self, local: str, _: dict[str, str], /) -> None:
        """Notice that an element begins."""

    def finish(self, local: str) -> None:
        """Notice that an element ends."""


class _Words(_Elements):
    """The texts that cells share."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def begin(self, local: str, _: dict[str, str], /) -> None:
        if local == "si":
            self.pieces.clear()

    def finish(self, local: str) -> None:
        if local == "si":
            self.texts.append(_unescaped("".join(self.pieces)))
            if len(self.texts) > _MOST_WORDS:
                raise _Refused(f"has more than {_MOST_WORDS:,} texts")


class _Sheet(_Elements):
    """The rows of a sheet that hold anything."""

    text_elements = frozenset(["t", "v"])

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self._words = words
        self._found: list[list[str]] = []
        self._count = 0
        self._cells = 0
        self._values: list[str] = []
        self._cell: dict[str, str] = {}

    def taken(self) -> list[list[str]]:
        """Return the rows that were found since the last time."""
        found, self._found = self._found, []
        return found

    def begin(self, local: str, attributes: dict[str, str], /) -> None:
        if local == "row":
            self._values = []
            self._count += 1
            if self._count > _MOST_ROWS:
                raise _Refused(f"has more than {_MOST_ROWS:,} rows")
        elif local == "c":
            self._cell = attributes
            self.pieces.clear()

    def finish(self, local: str) -> None:
        if local == "row" and any(self._values):
            self._found.append(self._values)
        elif local == "c":
            match = _COLUMN.match(self._cell.get("r", ""))
            column = _column_number(match[0]) if match else len(self._values)
            before = len(self._values)
            self._values += [""] * (column - before)
            self._values.append(self._value("".join(self.pieces)))
            self._cells += len(self._values) - before
            if self._cells > _MOST_CELLS:
                raise _Refused(f"has more than {_MOST_CELLS:,} cells")
            if len(self._values) > _MOST_COLUMNS:
                raise _Refused(f"has more than {_MOST_COLUMNS:,} columns")

    def _value(self, value: str) -> str:
        kind = self._cell.get("t")
        if kind == "s":
            return self._words[int(value)]
        if kind == "b":
            return "true" if value == "1" else "false"
        if kind in (None, "n") and value.endswith(".0"):
            return value.removesuffix(".0")
        return _unescaped(value)


def _parsed(packed: zipfile.ZipFile, name: str, elements: _Elements) -> Iterator[None]:
    """Parse a part of a workbook, a step at a time."""
    parser = _parser(elements)
    size = 0
    with packed.open(name) as part:
        limit = max(EXPANSION_CHECKED_FROM, MAX_EXPANSION * packed.getinfo(name).compress_size)
        while chunk := _read(part):
            size += len(chunk)
            if size > limit:
                raise _Refused(f"expands more than {MAX_EXPANSION} times, as a decompression bomb does")
            if size > _LARGEST_PART:
                raise _Refused(f"has a part of more than {_LARGEST_PART // 1024**2} MiB")
            parser.Parse(chunk, False)
            yield
        parser.Parse(b"", True)
        yield


def _read(part: IO[bytes]) -> bytes:
    try:
        return part.read(_STEP)
    except OSError as error:
        # What bz2 says of damaged data; a disk that fails says it with a number.
        if error.errno is None:
            raise ValueError(str(error)) from error
        raise


def _parser(elements: _Elements) -> XMLParserType:
    from xml.parsers import expat

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.CharacterDataHandler = elements.text
    # In any encoding: entities, which grow without bounds, can be declared only inside a document type.
    parser.StartDoctypeDeclHandler = _refuse_document_type
    return parser


def _refuse_document_type(*_: object) -> None:
    raise _Refused("declares a document type, which no spreadsheet program does")


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    if number > _MOST_COLUMNS:
        raise ValueError("a column that no spreadsheet has")
    return number - 1


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
