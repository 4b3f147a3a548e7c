"""A workbook for Excel: the rows as they were recorded, the analysis with native charts, and the findings.

Rows are written as they come, so that memory does not follow their number. Every text is text and nothing else; see
`sheet_text` for what becomes of the few characters that a sheet cannot hold. XlsxWriter makes the frame of the
workbook (`sheet_frame`), the cells are our own (`sheet_cells`). The same input makes the same bytes.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.model import Finding
from faircount.core.text import cell_width
from faircount.io.new_file import whole_file
from faircount.report.blocks import Report
from faircount.report.sheet_cells import COLUMNS, Overlong, RowWriter, Value, table
from faircount.report.sheet_frame import AUTHOR, FIRST_PARTS, Frame, Outside, Plan, frame, sheet_part
from faircount.report.sheet_report import (
    FINDING_HEADS,
    FINDINGS_SHEET,
    Page,
    analysis_page,
    findings_of,
    findings_page,
)
from faircount.report.sheet_text import SOURCE, spelled_out

SHEET_ROWS = 1_048_575
"""The most rows that a sheet holds below its header."""

SHEET_BYTES = 1_500_000_000
"""How many bytes of XML a sheet begins its last row with: far below what needs the large form of zip (2 GiB)."""

ROWS_SHEET, ANALYSIS_SHEET = "Rows", "Analysis"

_SAMPLE = 500
_NARROWEST, _WIDEST, _ROOM_FOR_ARROW = 6, 60, 4
_ANALYSIS_WIDTHS = (48.0, *[13.0] * 8)
_FINDINGS_WIDTHS = (11.0, 8.0, 10.0, 110.0, 60.0)
# A third of the time that the usual level takes, for a file that is a fifth larger.
_COMPRESSION = 3
_CHUNK = 1 << 18
_CREATOR = f"<dc:creator>{AUTHOR}</dc:creator>".encode()
_LAST_SAVED_BY_US = f"<cp:lastModifiedBy>{AUTHOR}</cp:lastModifiedBy>".encode()
_PROPERTIES_SIZE = 1 << 16


class Written(Struct, frozen=True):
    """What went into a workbook: how many rows, on how many sheets, and how many texts had to be cut."""

    rows: int
    sheets: int
    cut: int


class Limits(Struct, frozen=True):
    """How much goes on one sheet before the next is begun."""

    rows: int = SHEET_ROWS
    bytes: int = SHEET_BYTES


def write_workbook(
    path: str,
    rows: Iterable[Sequence[Value]],
    columns: Sequence[str],
    report: Report | None = None,
    findings: Sequence[Finding] | None = None,
    *,
    companion: str = SOURCE,
    overlong: Overlong | None = None,
    limits: Limits = Limits(),  # noqa: B008, a constant
) -> Written:
    """Write a workbook whole or not at all.

    Every row has a value for every column. `findings` are those of the report unless others are given. A text that is
    too long for a cell is cut with a mark that names `companion`, and handed whole to `overlong`.
    """
    if len(columns) > COLUMNS:
        raise UsageError(
            f"{path}: {len(columns):,} columns; a sheet holds at most {COLUMNS:,}: write CSV or JSONL instead"
        )
    if findings is None and report is not None:
        findings = list(findings_of(report))
    coming = iter(rows)
    sample = list(islice(coming, _SAMPLE))
    book = _Book(columns, _widths(columns, sample), companion, overlong, limits)
    with whole_file(path) as file, _archive(file) as archive:
        book.write_rows(archive, chain(sample, coming))
        book.write_rest(archive, list(_pages(report, findings)))
    return Written(sum(book.counts), len(book.counts), book.cut)


def write_report(path: str, report: Report) -> None:
    """Write a workbook of a report and its findings, without rows, whole or not at all."""
    pages = list(_pages(report, list(findings_of(report))))
    whole = frame([plan for plan, _ in pages])
    with whole_file(path) as file, _archive(file) as archive:
        for name in FIRST_PARTS:
            _write(archive, name, whole.parts[name])
        _write_pages(archive, whole, pages)


def is_ours(path: str) -> bool:
    """Return whether a file is a workbook as Faircount wrote it: who adds notes to one does not want to lose them."""
    try:
        with zipfile.ZipFile(Path(path)) as archive, archive.open("docProps/core.xml") as part:
            properties = part.read(_PROPERTIES_SIZE)
            return _CREATOR in properties and _LAST_SAVED_BY_US in properties
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False


@contextlib.contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Give an archive to write. One that breaks off is left as it is: with a part still open it cannot be closed."""
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION)
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None
        raise


def _pages(report: Report | None, findings: Sequence[Finding] | None) -> Iterator[tuple[Plan, Page]]:
    """Yield the sheets after those of the rows, with what stands on them."""
    if report is not None:
        page = analysis_page(report)
        yield Plan(ANALYSIS_SHEET, _ANALYSIS_WIDTHS, charts=tuple(page.charts), scales=tuple(page.scales)), page
    if findings is not None:
        page = findings_page(findings)
        yield Plan(FINDINGS_SHEET, _FINDINGS_WIDTHS[: len(FINDING_HEADS)], filter_to=len(page.rows)), page


def _widths(columns: Sequence[str], sample: Sequence[Sequence[Value]]) -> tuple[float, ...]:
    """Return how wide columns are: as wide as their name and their first values, within bounds."""
    widths = [_width(name) + _ROOM_FOR_ARROW for name in columns]
    for row in sample:
        widths = [max(width, _width(value) + 1) for width, value in zip(widths, row, strict=True)]
    return tuple(float(min(max(width, _NARROWEST), _WIDEST)) for width in widths)


def _width(value: Value) -> int:
    if not isinstance(value, str):
        return 0 if value is None else len(str(value))
    return cell_width(spelled_out(value[:_WIDEST]).partition("\n")[0])


class _Book:
    """A workbook while it is being written: how many rows went on each of its first sheets."""

    def __init__(
        self,
        columns: Sequence[str],
        widths: tuple[float, ...],
        companion: str,
        overlong: Overlong | None,
        limits: Limits,
    ) -> None:
        self.counts: list[int] = []
        self.cut = 0
        self._widths = widths
        self._limits = limits
        self._tell = overlong
        self._writer = RowWriter(columns, self._frame([0]).styles, companion, self._overlong)

    def _overlong(self, row: int, column: str, text: str) -> None:
        self.cut += 1
        if self._tell is not None:
            self._tell(row, column, text)

    def _frame(self, counts: Sequence[int], others: Sequence[Plan] = ()) -> Frame:
        names = [ROWS_SHEET if number == 1 else f"{ROWS_SHEET} {number}" for number in range(1, len(counts) + 1)]
        plans = [Plan(name, self._widths, filter_to=count + 1) for name, count in zip(names, counts, strict=True)]
        return frame([*plans, *others])

    def write_rows(self, archive: zipfile.ZipFile, rows: Iterator[Sequence[Value]]) -> None:
        """Write the sheets of rows, at least one."""
        parts = self._frame([0]).parts
        for name in FIRST_PARTS:
            _write(archive, name, parts[name])
        waiting = next(rows, None)
        while waiting is not None or not self.counts:
            waiting = self._write_sheet(archive, waiting, rows)

    def _write_sheet(
        self, archive: zipfile.ZipFile, first: Sequence[Value] | None, rows: Iterator[Sequence[Value]]
    ) -> Sequence[Value] | None:
        """Write one sheet and return the row that did not fit on it."""
        done, count, size = sum(self.counts), 0, 0
        waiting = first
        with archive.open(sheet_part(len(self.counts) + 1), "w") as part:
            chunk = [self._outside(0).head, self._writer.heads]
            length = sum(map(len, chunk))
            while waiting is not None and self._has_room(count, size + length):
                count += 1
                chunk.append(self._writer.row(count + 1, done + count, waiting))
                length += len(chunk[-1])
                if length > _CHUNK:
                    size += part.write("".join(chunk).encode())
                    chunk, length = [], 0
                waiting = next(rows, None)
            chunk.append(self._outside(count).tail)
            part.write("".join(chunk).encode())
        self.counts.append(count)
        return waiting

    def _has_room(self, count: int, size: int) -> bool:
        """Return whether a row goes on a sheet that has so many rows and bytes; the first always does."""
        return count == 0 or (count < self._limits.rows and size < self._limits.bytes)

    def _outside(self, count: int) -> Outside:
        """Return what stands around the rows of the sheet that is being written."""
        return self._frame([*self.counts, count]).sheets[-1]

    def write_rest(self, archive: zipfile.ZipFile, pages: Sequence[tuple[Plan, Page]]) -> None:
        """Write the sheets after those of the rows, and all other parts."""
        _write_pages(archive, self._frame(self.counts, [plan for plan, _ in pages]), pages, len(self.counts))


def _write_pages(
    archive: zipfile.ZipFile, whole: Frame, pages: Sequence[tuple[Plan, Page]], sheets_before: int = 0
) -> None:
    """Write the sheets of a report, and all parts of a workbook that come last."""
    for number, (_, page) in enumerate(pages, sheets_before + 1):
        around = whole.sheets[number - 1]
        _write(archive, sheet_part(number), (around.head + table(page.rows, whole.styles) + around.tail).encode())
    for name, content in whole.parts.items():
        if name not in FIRST_PARTS:
            _write(archive, name, content)


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    with archive.open(name, "w") as part:
        part.write(content)
