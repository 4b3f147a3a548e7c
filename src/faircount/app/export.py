"""Rows and entries in files that other programs read: JSONL, CSV, Parquet, Excel and HTML."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from faircount.analysis.export import Export, as_page
from faircount.analysis.options import EXPORTS, ExcelOptions, ExportOptions
from faircount.app.options import (
    AnyPath,
    ExportedFile,
    NewFileOptions,
    Notice,
    Workbook,
    beside_others,
    ignore,
    is_our_page,
    place_of,
    refuse_inputs,
    stem_of,
)
from faircount.app.results import WrittenRows
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.options import Options, options_from
from faircount.io.new_file import NewFile
from faircount.io.streams import STDIN, is_stored

if TYPE_CHECKING:
    from faircount.readers.loading import Progress
    from faircount.report.blocks import Report

STDOUT = "-"
COMPANION = ".long.jsonl"
"""Ends the name of the file that holds whole the texts that are too long for a sheet."""

_AS_LINES = ("csv", "jsonl")
_COMBINED = "Combined"
_BEGINS_A_COMPANION = b'{"row": '
_BYTE_ORDER_MARK = "\ufeff".encode()
_KNOWN_AS_OURS = ("xlsx", "html")


def export(
    *paths: AnyPath,
    options: Sequence[Options] = (),
    progress: Progress = ignore,
    notice: Notice = ignore,
    **keywords: Any,
) -> WrittenRows:
    """Export rows, or the entries that they belong to; options are the fields of `ExportOptions` and `ExportedFile`.

    The file goes beside the input unless `output` names it, and to standard output if that is "-". `to` is the format,
    by default that of the suffix. With `raw`, texts in a CSV file are not made safe for spreadsheets.
    """
    asked, place = options_from(keywords, ExportOptions, ExportedFile, given=options)
    kind = _format(place)
    if place.raw and kind != "csv":
        raise UsageError("--raw works only with csv")
    with Export([os.fspath(path) for path in paths], asked, progress) as table:
        path = _path(table, kind, place, notice)
        notes = (
            _write_csv(table, path, place.force, raw=True) if place.raw else _WRITERS[kind](table, path, place.force)
        )
    return _written(table, path, notes)


def convert_to_excel(
    *paths: AnyPath,
    command: str = "",
    options: Sequence[Options] = (),
    progress: Progress = ignore,
    notice: Notice = ignore,
    **keywords: Any,
) -> WrittenRows:
    """Write a workbook with the rows, the analysis with charts, and the findings.

    Options are the fields of `ExcelOptions` and `Workbook`. `command` is the command line that the workbook shows.
    """
    asked, place = options_from(keywords, ExcelOptions, Workbook, given=options)
    rows = ExportOptions(
        name_lone_file=False,
        definition=asked.definition,
        max_line=asked.max_line,
        cache=asked.cache,
        policy_blocks=asked.policy_blocks,
    )
    with Export([os.fspath(path) for path in paths], rows, progress) as table:
        path = _path(table, "xlsx", place, notice)
        notes = _write_workbook(table, path, place.force, _analysis(table, asked, command))
    return _written(table, path, notes)


# -- where it goes ----------------------------------------------------------------------------------------------


def _format(place: ExportedFile) -> str:
    """Return the format that was asked for, or that the suffix of the file implies."""
    kind = place.to or Path(place.output or "").suffix.lower().removeprefix(".")
    if kind in EXPORTS:
        return kind
    raise UsageError(
        f"no format given: choose one with --to ({', '.join(EXPORTS)}), or name a file with that suffix with -o"
    )


def _path(table: Export, kind: str, place: NewFileOptions, notice: Notice) -> str:
    """Return where the file goes; UsageError, before anything is written, if it cannot or must not go there."""
    path = _default_path(table, kind) if place.output is None else place.output
    if place.output is None and kind in _KNOWN_AS_OURS:
        path = beside_others(path, lambda name: not _in_the_way(name, kind, force=place.force), notice)
    _refuse(path, kind, table.paths, force=place.force)
    return path


def _default_path(table: Export, kind: str) -> str:
    """Return a name beside the only input, or in the working folder if there are several."""
    names = [item.path for item in table.inputs]
    alone = None if len(names) > 1 or names[0] == STDIN else place_of(names[0])
    source = alone or Path(_COMBINED if len(names) > 1 else "stdin")
    # Lines keep the ending of their source and must not take its name.
    addition = "_entries" if table.options.entries else "_export" if kind == "jsonl" else ""
    return str(source.parent / f"{stem_of(source.name)}{addition}.{kind}")


def _refuse(path: str, kind: str, inputs: Iterable[str], *, force: bool) -> None:
    """Raise if a file cannot or must not be written there, before anything is read."""
    if path == STDOUT:
        if kind not in _AS_LINES:
            raise UsageError(f"-o -: {kind} needs a file; csv and jsonl can go to standard output")
        return
    refuse_inputs(path, inputs)
    if Path(path).is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    for place in _in_the_way(path, kind, force=force):
        raise UsageError(f"{place}: already exists; overwrite it with --force, or name another file with -o")


def _in_the_way(path: str, kind: str, *, force: bool) -> list[str]:
    """Return the existing files at the place of a file and its companion that must not be replaced."""
    places = [(path, kind), (_companion(path), "companion")] if kind == "xlsx" else [(path, kind)]
    return [place for place, what in places if os.path.lexists(place) and not _may_replace(place, what, force=force)]


def _may_replace(path: str, kind: str, *, force: bool) -> bool:
    """Return whether an existing file may be replaced: if Faircount recognisably wrote it, else only if forced."""
    if force or not Path(path).is_file():
        return force
    if kind == "xlsx":
        from faircount.report import xlsx

        return xlsx.is_ours(path)
    if kind == "companion":
        with contextlib.suppress(OSError), Path(path).open("rb") as file:
            return file.read(len(_BEGINS_A_COMPANION)) == _BEGINS_A_COMPANION
    return kind == "html" and is_our_page(path)


def _companion(path: str) -> str:
    return path.removesuffix(".xlsx") + COMPANION


@contextlib.contextmanager
def _lines_to(path: str, *, force: bool) -> Iterator[Callable[[Iterable[bytes]], object]]:
    """Give what takes lines: standard output, or a file that is written whole or not at all."""
    if path == STDOUT:
        sys.stdout.flush()
        yield sys.stdout.buffer.writelines
        sys.stdout.buffer.flush()
    else:
        with NewFile(path, force=force) as file:
            yield file.write_all


# -- formats ---------------------------------------------------------------------------------------------------

# Each writer returns sentences about what could not be written as it was.


def _write_jsonl(table: Export, path: str, force: bool) -> list[str]:
    with _lines_to(path, force=force) as write:
        for lines in table.lines():
            write(lines)
    return []


def _write_csv(table: Export, path: str, force: bool, *, raw: bool = False) -> list[str]:
    from faircount.report.sheet import csv_lines

    with _lines_to(path, force=force) as write:
        if path != STDOUT and not raw:
            # Without it, Excel takes the file for one of the local code page.
            write([_BYTE_ORDER_MARK])
        lines = csv_lines(_names(table), table.rows(), raw=raw)
        write(line.encode() for line in lines)
    return []


def _write_html(table: Export, path: str, force: bool) -> list[str]:
    from faircount.report import html

    with NewFile(path, force=_may_replace(path, "html", force=force)) as file:
        what = "Entries" if table.options.entries else "Rows"
        page = as_page([item.path for item in table.inputs], what, _names(table), table.rows())
        file.write(html.render(page).encode())
    return []


def _write_parquet(table: Export, path: str, force: bool) -> list[str]:
    from faircount.ledger import engine
    from faircount.report.parquet import write_parquet

    with engine.interruptible(), NewFile(path, force=force) as file:
        columns = [(column.name, column.kind) for column in table.columns]
        beside = Path(path).parent
        stored = write_parquet(
            file.write, beside, columns, table.rows(), lambda folder: engine.connect(folder=folder, threads=1)
        )
    notes = [
        f"{name}: {counted(times, 'value')} did not fit the type of the column and became null"
        for name, times in stored.misfits.items()
    ]
    if stored.replaced:
        notes.append(f"{counted(stored.replaced, 'text')} contained lone surrogates, replaced by U+FFFD")
    return notes


def _write_workbook(table: Export, path: str, force: bool, report: Report | None = None) -> list[str]:
    from faircount.report.xlsx import write_workbook

    companion = _companion(path)
    with contextlib.ExitStack() as stack:
        overlong = _Overlong(companion, stack, force=_may_replace(companion, "companion", force=force))
        written = write_workbook(
            path, table.rows(), _names(table), report, companion=Path(companion).name, overlong=overlong
        )
    notes = []
    if written.cut:
        verb = "is" if written.cut == 1 else "are"
        notes.append(
            f"{counted(written.cut, 'text')} {verb} too long for a cell: shortened there, in full in {companion}"
        )
    if written.sheets > 1:
        notes.append(f"the rows are spread over {written.sheets} sheets")
    return notes


class _Overlong:
    """Takes the texts that are too long for a cell into a file of their own, which is begun with the first of them."""

    def __init__(self, path: str, stack: contextlib.ExitStack, *, force: bool) -> None:
        self._path = path
        self._stack = stack
        self._force = force
        self._file: NewFile | None = None

    def __call__(self, row: int, column: str, text: str) -> None:
        from faircount.report.sheet import companion_lines

        if self._file is None:
            self._file = self._stack.enter_context(NewFile(self._path, force=self._force))
        self._file.write_all(line.encode() for line in companion_lines([(row, column, text)]))


_WRITERS: dict[str, Callable[[Export, str, bool], list[str]]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "xlsx": _write_workbook,
    "html": _write_html,
}


def _names(table: Export) -> list[str]:
    return [column.name for column in table.columns]


# -- the analysis in a workbook ---------------------------------------------------------------------------------


def _analysis(table: Export, options: ExcelOptions, command: str) -> Report:
    """Return the analysis of the files, as in a page."""
    from faircount.analysis.analyze import analyze_files
    from faircount.analysis.evidence import made_with
    from faircount.analysis.report import as_report

    with _standard_input(table):
        result = analyze_files(table.paths, replace(options.analyzed, figures=True))
    if result.failures:
        raise InputError(result.failures[0])
    made = made_with(command, result.analyses)
    return as_report(result.analyses, evidence=result.evidence, figures=True, made_with=made)


@contextlib.contextmanager
def _standard_input(table: Export) -> Iterator[None]:
    """Let what came over standard input be read once more; other streams cannot be."""
    for item in table.inputs:
        if item.path != STDIN and not is_stored(item.path):
            raise UsageError(f"{item.path}: can be read only once; pass it as standard input: - < {item.path}")
    copies = [origin.path for origin in table.origins if origin.name == STDIN]
    if not copies:
        yield
        return
    before = sys.stdin
    with Path(copies[0]).open(encoding="utf-8") as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = before


# -- messages ---------------------------------------------------------------------------------------------------


def _written(table: Export, path: str, notes: Sequence[str]) -> WrittenRows:
    place = "standard output" if path == STDOUT else path
    total, unit = (table.entries, ("entry", "entries")) if table.options.entries else (table.total, ("row", "rows"))
    number = counted(table.written, *unit)
    if table.options.where is not None:
        number = f"{table.written:,} of {counted(total, *unit)}"
    empty = [f"{name} is empty in every row" for name in sorted(table.never_there)] if table.written else []
    return WrittenRows(
        path=path,
        matched=table.written,
        total=total,
        written=table.written,
        sentence=f"wrote {number} to {place}",
        notes=(*notes, *empty, *table.problems()),
        damaged=table.damaged,
    )
