"""Zip archives: the files in one, and the sheets of a workbook (.xlsx), which is such an archive.

Of a sheet only values are read: no formula is computed, no link followed. An archive is refused
if it expands like a decompression bomb, a workbook also if it is larger than a spreadsheet program takes, or declares a
document type, which no such program does.
"""

from __future__ import annotations

import contextlib
import lzma
import re
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING

from faircount.core.errors import InputError, UsageError
from faircount.core.text import LONE_SURROGATES, clip, visible
from faircount.io.streams import CHUNK_BYTES, EXPANSION_CHECKED_FROM, MAX_EXPANSION, Stream

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

ZIP_MAGIC = b"PK\x03\x04"

_SHEET = re.compile(r"xl/worksheets/sheet[0-9]+\.xml")
_SHARED_TEXTS = "xl/sharedStrings.xml"
_WORKBOOK, _WORKBOOK_PARTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_MOST_MEMBERS = 10_000
_MEMBERS_LISTED = 10
_LARGEST_PART = 256 * 1024 * 1024
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
"""What a spreadsheet program takes."""
_MOST_CELLS = 10_000_000
_MOST_WORDS = 4_000_000
_LONGEST_NUMBER = len(str(_MOST_ROWS))
_COLUMN = re.compile(r"[A-Z]{1,3}")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError)
_UNREADABLE = (LookupError, NotImplementedError, RuntimeError)
"""What is raised for an archive that is encrypted, compressed in an unknown way, or not what it says."""


class _Refused(Exception):
    """A workbook that is too large, or not what a spreadsheet program writes."""


class Archive:
    """A zip archive. It is copied to a temporary file without a name: an archive is read from its end."""

    def __init__(self, source: Stream, name: str) -> None:
        self._name = name
        file = tempfile.TemporaryFile()  # noqa: SIM115  it is closed when nobody needs the archive any more
        weakref.finalize(self, file.close)
        for chunk in source.chunks:
            file.write(chunk)
        try:
            self._zip = zipfile.ZipFile(file)
        except _DAMAGE as error:
            raise self._damaged() from error
        if len(self._zip.namelist()) > _MOST_MEMBERS:
            raise InputError(f"{name}: has more than {_MOST_MEMBERS:,} parts; unpack it yourself if you trust it")

    @property
    def is_workbook(self) -> bool:
        """Whether the archive is a workbook: it holds a sheet, or is called like one."""
        return self._name.casefold().endswith(".xlsx") or any(map(_SHEET.fullmatch, self._zip.namelist()))

    def open(self, member: str | None) -> tuple[Stream, str]:
        """Open a member, by default the only one; return its stream and its name."""
        files = [one for one in self._zip.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
        listed = ", ".join(clip(visible(one.filename), 60) for one in files[:_MEMBERS_LISTED])
        if member is not None:
            files = [one for one in self._zip.infolist() if one.filename == member]
            if not files:
                raise InputError(f"{self._name}: the archive has no such file; it has: {listed or 'none'}")
        if len(files) > 1:
            raise UsageError(
                f"{self._name}: the archive has {len(files):,} files: {listed}; name one, as in "
                f"{self._name}/{clip(visible(files[0].filename), 60)}"
            )
        if not files:
            raise InputError(f"{self._name}: the archive has no files")
        stream = Stream(self._name, iter(()), bytes_read=files[0].compress_size)
        stream.chunks = map(stream.expanded, self._chunks(files[0], stream))
        return stream, files[0].filename

    def _chunks(self, member: zipfile.ZipInfo, stream: Stream) -> Iterator[bytes]:
        try:
            with self._zip.open(member) as part:
                while chunk := _read(part):
                    yield chunk
        except _DAMAGE as error:
            stream.truncated = f"the zip archive is damaged ({visible(str(error))})"
        except _UNREADABLE as error:
            raise InputError(f"{self._name}: cannot be read: {visible(str(error))}") from error

    def first_sheet(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of the first sheet that hold anything, each with its number."""
        parts = self._sheet_parts()
        yield from self.sheet(parts[0] if parts else "")

    def sheet(self, part: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a sheet that hold anything, each with its number."""
        with self._reading():
            yield from self._sheet_rows(part)

    def sheets(self) -> dict[str, str]:
        """Return the parts that are sheets by the names that people see, in the order of the tabs."""
        parts, described = self._sheet_parts(), _WorkbookParts()
        with self._reading():
            for name in (_WORKBOOK, _WORKBOOK_PARTS):
                if name in self._zip.namelist():
                    for _ in _parsed(self._zip, name, described):
                        pass
        named = {name: described.parts.get(key, "") for name, key in described.sheets.items()}
        found = {name: part for name, part in named.items() if part in parts}
        return found | {PurePosixPath(part).stem: part for part in parts if part not in found.values()}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        from xml.parsers.expat import ExpatError

        try:
            yield
        except _Refused as error:
            raise InputError(f"{self._name}: {error}; save it as CSV") from None
        except (*_DAMAGE, *_UNREADABLE, ExpatError) as error:
            raise self._damaged() from error

    def _sheet_parts(self) -> list[str]:
        return sorted(filter(_SHEET.fullmatch, self._zip.namelist()), key=lambda name: (len(name), name))

    def _sheet_rows(self, part: str) -> Iterator[tuple[int, list[str]]]:
        if not part:
            raise KeyError("a workbook without sheets")
        words = _SharedStrings()
        if _SHARED_TEXTS in self._zip.namelist():
            for _ in _parsed(self._zip, _SHARED_TEXTS, words):
                pass
        sheet = _SheetPart(words.texts)
        width = cells = 0
        for _ in _parsed(self._zip, part, sheet):
            for number, values in sheet.taken():
                # A record has as many fields as the header, however few of its cells are written.
                width = width or len(values)
                cells += max(width, len(values))
                if cells > _MOST_CELLS:
                    raise _Refused(f"has more than {_MOST_CELLS:,} cells")
                yield number, values

    def _damaged(self) -> InputError:
        is_workbook = self._name.casefold().endswith(".xlsx")
        what = "workbook; save it again as .xlsx, or as CSV" if is_workbook else "zip archive; it is damaged"
        return InputError(f"{self._name}: cannot read this {what}")


def _is_hidden(name: str) -> bool:
    """Return whether a member is what systems add to archives by themselves."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


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


class _SharedStrings(_Elements):
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


class _WorkbookParts(_Elements):
    """The sheets of a workbook by name, each with the key of its part, and the parts by key."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: dict[str, str] = {}
        self.parts: dict[str, str] = {}

    def begin(self, local: str, attributes: dict[str, str], /) -> None:
        if local == "sheet":
            key = next((value for name, value in attributes.items() if name.endswith("}id")), "")
            self.sheets[attributes.get("name", "")] = key
        elif local == "Relationship":
            place = attributes.get("Target", "")
            self.parts[attributes.get("Id", "")] = place.removeprefix("/") if place.startswith("/") else f"xl/{place}"


class _SheetPart(_Elements):
    """The rows of a sheet that hold anything."""

    text_elements = frozenset(["t", "v"])

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self._words = words
        self._found: list[tuple[int, list[str]]] = []
        self._number = self._count = 0
        self._cells = 0
        self._values: list[str] = []
        self._cell: dict[str, str] = {}

    def taken(self) -> list[tuple[int, list[str]]]:
        """Return the rows that were found since the last time."""
        found, self._found = self._found, []
        return found

    def begin(self, local: str, attributes: dict[str, str], /) -> None:
        if local == "row":
            self._values = []
            number = attributes.get("r", "")
            self._number = int(number) if number.isdecimal() and len(number) <= _LONGEST_NUMBER else self._number + 1
            self._count += 1
            if self._count > _MOST_ROWS:
                raise _Refused(f"has more than {_MOST_ROWS:,} rows")
        elif local == "c":
            self._cell = attributes
            self.pieces.clear()

    def finish(self, local: str) -> None:
        if local == "row" and any(self._values):
            self._found.append((self._number, self._values))
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


def _parsed(archive: zipfile.ZipFile, name: str, elements: _Elements) -> Iterator[None]:
    """Parse a part of a workbook, a step at a time."""
    parser = _parser(elements)
    size = 0
    with archive.open(name) as part:
        limit = max(EXPANSION_CHECKED_FROM, MAX_EXPANSION * archive.getinfo(name).compress_size)
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
        return part.read(CHUNK_BYTES)
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
    return _ESCAPED.sub(_unescaped_character, text)


def _unescaped_character(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return match[0] if LONE_SURROGATES.match(character) else character
