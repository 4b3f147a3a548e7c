"""Which files tell of a run of tests, and not of attacks row by row: run journals and reports in REBEL's structure.

They are known by what they hold, whatever they are called, and read as streams that expand into rows, as packed files
expand into lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from faircount.reading import journal_rows, rebel_reports
from faircount.reading.journals import decode_record
from faircount.reading.loose import BadLine
from faircount.reading.run_rows import FAIRCOUNT, REBEL, RunFile

JOURNAL, REPORT = "run journal", "REBEL report"
_HEADER = re.compile(rb'\s*\{\s*"kind"\s*:\s*"run"\s*[,}]')


def recognised(start: bytes) -> RunFile | None:
    """Return what a file that begins so is, if it tells of a run."""
    if b'"kind"' in start and _is_header(start):
        return RunFile(FAIRCOUNT, JOURNAL)
    if b'"test_cases"' in start and rebel_reports.begins_report(start):
        return RunFile(REBEL, REPORT)
    return None


def _is_header(start: bytes) -> bool:
    """Tell whether the first line is a record of the kind that begins a journal; of a long one the start must do."""
    line, found, _ = start.partition(b"\n")
    if not found:
        return _HEADER.match(line) is not None
    try:
        header = decode_record(line + b"\n")
    except BadLine:
        return False
    return header.get("kind") == "run" and "schema" in header and "id" not in header


def rows(
    run: RunFile, chunks: Iterator[bytes], again: Callable[[], Iterator[bytes]] | None, name: str
) -> Iterator[bytes]:
    """Yield what a file of a run holds as rows, in lines. `again` opens it a second time, where that can be done."""
    if run.reader == JOURNAL:
        return journal_rows.rows(chunks, again, run, name)
    return rebel_reports.rows(chunks, run, name)
