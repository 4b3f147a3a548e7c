"""Runs that were judged again: rows of results, each of which begins with a mark that says what it is about.

`results rejudge` writes the cases of a run as rows, and nothing else in a row shows that a success is a test that
passed. A file whose first row has the mark is a run; its rows are handed out without it, as those of any other run are.
A row without the mark in such a file, and one with it in a file of attacks, cannot be counted: what is good in one is
bad in the other.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from faircount.core.definition import TOOLS
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import Stream
from faircount.ledger.schema import Batch, RowMark
from faircount.readers.journal_rows import TOO_LONG, lines_of, pieces_of
from faircount.readers.registry import Found, Probe, Reader, head_of
from faircount.readers.result_rows import RESULT_FIELDS, RUN_MARK
from faircount.readers.rows import ReadOptions
from faircount.readers.run_rows import BAD, FAIRCOUNT, REBEL, RunFile, encoded
from faircount.readers.spikee import RowLines

REJUDGED = "rejudged run"
_TASK = "task"
_TOOLS = frozenset([FAIRCOUNT, REBEL, *TOOLS])
_BEGINS = re.compile(rb'\{\s*"%b"\s*:\s*(\{[^{}]*\})\s*,' % RUN_MARK.encode())


def marked(run: RunFile) -> bytes:
    """Return how a row of a run begins that was judged again; the rest of the row, from its first name on, follows."""
    mark = {"aim": _TASK, "tool": run.tool, "version": run.version}
    return b'{"%b": %b, ' % (RUN_MARK.encode(), encoded(mark))


def recognised(start: bytes) -> RunFile | None:
    """Return what a file that begins so is, if its first row has the mark; of a long row the beginning must do."""
    text = start.removeprefix(BOM_UTF8).lstrip()
    line, found, _ = text.partition(b"\n")
    begins = _BEGINS.match(text)
    try:
        mark = msgspec.json.decode(begins[1]) if begins else parse(line)[0].get(RUN_MARK) if found else None
    except (BadLine, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _run_of(mark)


def _run_of(mark: Any) -> RunFile | None:
    if not isinstance(mark, dict) or mark.get("aim") != _TASK or mark.get("tool") not in _TOOLS:
        return None
    version = mark.get("version")
    return RunFile(mark["tool"], REJUDGED, version if isinstance(version, str) else None)


class RejudgedReader(Reader):
    """Reads the rows of runs of tests that were judged again."""

    name = REJUDGED
    tool = FAIRCOUNT
    noun = "rejudged test"
    aim = _TASK
    lines_are_rows = True
    fields = RESULT_FIELDS

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first row has the mark."""
        return recognised(probe.head) is not None

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give its rows without the mark."""
        del again
        run = recognised(head)
        if run is not None:
            stream.chunks = rows(stream.chunks, run)
        return run

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a stream."""
        run = self.rows(stream, head_of(stream), None)
        if run is None:
            return
        yield from RowLines(stream, options, found, mark=RowMark.TASK, bad=run.bad).batches()
        found.add_run(run)


def rows(chunks: Iterable[bytes], run: RunFile) -> Iterator[bytes]:
    """Yield the rows as bytes of lines, without the mark."""
    yield from pieces_of(_rows(chunks, run))


def _rows(chunks: Iterable[bytes], run: RunFile) -> Iterator[bytes]:
    begins = marked(run)
    for number, line in enumerate(lines_of(chunks), start=1):
        text = None if line is None else line.removeprefix(BOM_UTF8 if number == 1 else b"").rstrip(b"\r\n")
        if text is not None and text.startswith(begins):
            yield b"{" + text[len(begins) :]
        elif text is not None and not text.strip():
            run.blank_lines += 1
            yield b""
        else:
            yield _row_or_bad(text, number, run)


def _row_or_bad(text: bytes | None, number: int, run: RunFile) -> bytes:
    """Return a row that somebody has rewritten; what is no row of a run is noted."""
    try:
        if text is None:
            raise BadLine(TOO_LONG)
        values, _ = parse(text)
        if _run_of(values.pop(RUN_MARK, None)) is None:
            raise BadLine("not a test result, in a file of test results")
    except BadLine as bad:
        run.bad[number] = str(bad)
        return BAD
    return encoded(values)
