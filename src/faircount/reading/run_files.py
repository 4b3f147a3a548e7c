"""Which files tell of a run, and not of attacks row by row: run journals, reports in REBEL's structure, and runs of
tests that were judged again.

They are known by what they hold, whatever they are called, and read as streams that expand into rows, as packed files
expand into lines.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator

from faircount.reading import journal_rows, rebel_reports, rejudged_runs
from faircount.reading.journal_records import ATTACK, TASK, decode_record
from faircount.reading.loose import BadLine
from faircount.reading.other_tools import other_tool
from faircount.reading.run_rows import FAIRCOUNT, REBEL, RunFile
from faircount.reading.spikee_rows import RUN_MARK

JOURNAL, REPORT = "run journal", "REBEL report"
_HEADER = re.compile(rb'\s*\{\s*"kind"\s*:\s*"run"\s*[,}]')
_OF_ATTACKS = re.compile(rb'[^{]*\{[^{]*"aim"\s*:\s*"attack"')


def recognised(start: bytes) -> RunFile | None:
    """Return what a file that begins so is, if it tells of a run."""
    start = start.removeprefix(BOM_UTF8)
    if b'"kind"' in start and (aim := _aim_of_header(start)):
        return RunFile(FAIRCOUNT, JOURNAL, aim=aim)
    if b'"test_cases"' in start and rebel_reports.begins_report(start) and other_tool(start) is None:
        return RunFile(REBEL, REPORT)
    return rejudged_runs.recognised(start) if RUN_MARK.encode() in start else None


def _aim_of_header(start: bytes) -> str:
    """Return the aim of the run that a file begins with, or nothing; of a long first line the beginning must do."""
    line, found, _ = start.partition(b"\n")
    if not found:
        return (ATTACK if _OF_ATTACKS.match(line) else TASK) if _HEADER.match(line) else ""
    try:
        header = decode_record(line + b"\n")
    except BadLine:
        return ""
    if header.get("kind") != "run" or "schema" not in header or "id" in header:
        return ""
    return ATTACK if header.get("aim") == ATTACK else TASK


def rows(
    run: RunFile, chunks: Iterator[bytes], again: Callable[[], Iterator[bytes]] | None, name: str
) -> Iterator[bytes]:
    """Yield what a file of a run holds as rows, in lines. `again` opens it a second time, where that can be done."""
    if run.reader == JOURNAL:
        return journal_rows.rows(chunks, again, run, name)
    if run.reader == rejudged_runs.REJUDGED:
        return rejudged_runs.rows(chunks, run)
    return rebel_reports.rows(chunks, run, name)
