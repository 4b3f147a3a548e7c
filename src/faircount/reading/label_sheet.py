"""The first sheet of a workbook as CSV, so that a sheet that people filled in is read like any other file of labels.

Only values are read: no formula is computed, no link followed, no other sheet opened. A workbook is refused if what it
holds is larger than a sheet of labels can be, or declares a document type, which no spreadsheet program does.
"""

from __future__ import annotations

import atexit
import csv
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from faircount.errors import InputError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SIGNATURE = b"PK\x03\x04"
_LARGEST_PART = 256 * 1024 * 1024
_STEP = 1024 * 1024
_COLUMN = re.compile(r"[A-Z]{1,3}")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def is_workbook(path: str) -> bool:
    """Return whether a file is a workbook (.xlsx), by what it begins with."""
    with Path(path).open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


def sheet_as_csv(path: str) -> str:
    """Write the first sheet of a workbook as CSV into a folder of its own until the program ends; return where."""
    folder = tempfile.mkdtemp(prefix="faircount-labels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = Path(folder) / f"{Path(path).name}.csv"
    try:
        with zipfile.ZipFile(path) as packed, target.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(_rows(packed, path))
    except (zipfile.BadZipFile, LookupError, SyntaxError, ValueError, NotImplementedError, RuntimeError) as error:
        # SyntaxError is what a parser of XML raises.
        raise InputError(f"{path}: cannot read this workbook; save it again as .xlsx, or as CSV") from error
    return str(target)


def _rows(packed: zipfile.ZipFile, path: str) -> Iterator[list[str]]:
    words = list(_shared_words(packed, path))
    sheets = sorted(
        (name for name in packed.namelist() if re.fullmatch(r"xl/worksheets/sheet[0-9]+\.xml", name)),
        key=lambda name: (len(name), name),
    )
    if not sheets:
        raise KeyError("a workbook without sheets")
    width = 0
    for row in _elements(packed, sheets[0], "row", path):
        values: list[str] = []
        for cell in row:
            match = _COLUMN.match(cell.get("r", ""))
            column = _column_number(match[0]) if match else len(values)
            values += [""] * (column - len(values))
            values.append(_value(cell, words))
        if any(values):
            # A row ends with its last cell that holds something; a record has as many fields as the header.
            width = width or len(values)
            yield values + [""] * (width - len(values))


def _shared_words(packed: zipfile.ZipFile, path: str) -> Iterator[str]:
    name = "xl/sharedStrings.xml"
    if name in packed.namelist():
        for element in _elements(packed, name, "si", path):
            yield _text(element)


def _elements(packed: zipfile.ZipFile, name: str, tag: str, path: str) -> Iterator[Element]:
    """Yield each element of a kind, and forget it afterwards."""
    from xml.etree.ElementTree import Element, XMLPullParser

    parser: XMLPullParser[Any] = XMLPullParser(events=("end",))
    with packed.open(name) as part:
        for chunk in _chunks(part, path):
            parser.feed(chunk)
            for event in parser.read_events():
                element = event[-1]
                if isinstance(element, Element) and element.tag.rpartition("}")[2] == tag:
                    yield element
                    element.clear()
        parser.close()


def _chunks(part: IO[bytes], path: str) -> Iterator[bytes]:
    total, before = 0, b""
    while chunk := part.read(_STEP):
        total += len(chunk)
        if total > _LARGEST_PART or b"<!DOCTYPE" in before + chunk:
            raise InputError(
                f"{path}: too large, or contains what a sheet of labels should not; save the labels as CSV"
            )
        before = chunk[-16:]
        yield chunk


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    if number > 16_384:
        raise ValueError("a column that no spreadsheet has")
    return number - 1


def _value(cell: Element, words: list[str]) -> str:
    kind = cell.get("t")
    if kind == "inlineStr":
        return _text(cell)
    value = next((child.text or "" for child in cell if child.tag.rpartition("}")[2] == "v"), "")
    if kind == "s":
        return words[int(value)]
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind in (None, "n") and value.endswith(".0"):
        return value.removesuffix(".0")
    return _unescaped(value)


def _text(element: Element) -> str:
    """Return the words of a text that may be written in several pieces."""
    return _unescaped("".join(piece.text or "" for piece in element.iter() if piece.tag.rpartition("}")[2] == "t"))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
