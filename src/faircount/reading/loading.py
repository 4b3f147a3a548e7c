"""Sources into a ledger: small and packed ones in this process, large plain ones by several processes at once.

A large file is cut into ranges of bytes of a fixed size, so that what is read never depends on the machine. Each
process reads whole lines, counts them from 1 and hands back columns; the ranges are put together in their order, so
that every line keeps its exact number. Memory is bounded: only a few ranges are under way at any time.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircount.findings import Notes
from faircount.ledger import transport
from faircount.ledger.store import Ledger
from faircount.model import Source
from faircount.reading.spikee import SpikeeReader, tool_version
from faircount.reading.streams import MAX_LINE_BYTES, STDIN, Stream, is_plain, open_range, open_stream

if TYPE_CHECKING:
    from multiprocessing.pool import AsyncResult, Pool

RANGE_BYTES = 16 * 1024 * 1024
PARALLEL_FROM_BYTES = 2 * RANGE_BYTES
_PARENT_CHECK_SECONDS = 1.0

Progress = Callable[[int], None]
"""Hears how many more bytes were read."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a source."""

    max_line: int = MAX_LINE_BYTES
    guardrail_detected: bool = False


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source that was read, and the doubts about it."""

    source: Source
    notes: Notes


class Loader:
    """Loads the sources of one request; its worker processes are started before anything else runs, and end with it."""

    def __init__(self, paths: Iterable[str], options: ReadOptions, progress: Progress = lambda _: None) -> None:
        self.options = options
        self.progress = progress
        self._processes = max((_processes(path) for path in paths), default=1)
        self._workers = contextlib.ExitStack()
        self._pool: Pool | None = None

    def __enter__(self) -> Loader:
        method = _start_method()
        if self._processes > 1 and method is not None:
            self._pool = self._workers.enter_context(_pool(self._processes, method))
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    def load(self, ledger: Ledger, index: int) -> ReadSource:
        """Read a source of the ledger into it."""
        path = ledger.paths[index]
        if self._pool is not None and _processes(path) > 1:
            return self._load_ranges(self._pool, ledger, index)
        stream = open_stream(path, path)
        reader = _reader(stream, self.options)
        read_before = 0
        for batch in reader.batches():
            ledger.load(index, batch)
            self.progress(stream.bytes_read - read_before)
            read_before = stream.bytes_read
        self.progress(stream.bytes_read - read_before)
        return ReadSource(reader.source(), reader.notes)

    def _load_ranges(self, pool: Pool, ledger: Ledger, index: int) -> ReadSource:
        path = ledger.paths[index]
        size = Path(path).stat().st_size
        starts = range(0, size, RANGE_BYTES)
        ranges = [_Range(path, start, min(start + RANGE_BYTES, size), self.options) for start in starts]
        source, notes, seen = Source(path=path), Notes(path), set[str]()
        results = _in_order(pool, ranges, self._processes + 2, ledger.warm_up)
        for part, read in zip(ranges, results, strict=True):
            for streams in read.batches:
                ledger.load_packed(index, streams, source.lines)
            notes.absorb(read.notes, source.lines)
            source = _joined(source, read.source)
            seen |= read.fields_seen
            self.progress(part.end - part.start)
        version = tool_version(seen) if source.good_lines else None
        return ReadSource(replace(source, bytes=size, tool_version=version), notes)


def _reader(stream: Stream, options: ReadOptions) -> SpikeeReader:
    return SpikeeReader(stream, max_line=options.max_line, guardrail_detected=options.guardrail_detected)


def _processes(path: str) -> int:
    """Return how many processes should read a file: one for small, packed and streamed ones."""
    if path == STDIN or not Path(path).is_file():
        return 1
    size = Path(path).stat().st_size
    if size < PARALLEL_FROM_BYTES or not is_plain(path):
        return 1
    return min(os.cpu_count() or 1, -(-size // RANGE_BYTES))


# -- by several processes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Range:
    path: str
    start: int
    end: int
    options: ReadOptions


@dataclass(frozen=True, slots=True)
class _RangeRead:
    source: Source
    notes: Notes
    fields_seen: frozenset[str]
    batches: list[dict[str, bytes]]


def _read_range(part: _Range) -> _RangeRead:
    """Read a range in a process of its own."""
    reader = _reader(open_range(part.path, part.path, part.start, part.end), part.options)
    batches = [transport.packed(batch) for batch in reader.batches()]
    return _RangeRead(reader.source(), reader.notes, frozenset(reader.fields_seen), batches)


def _in_order(pool: Pool, ranges: list[_Range], under_way: int, meanwhile: Callable[[], None]) -> Iterator[_RangeRead]:
    """Yield what the ranges hold in their order, with only so many of them under way; use the first wait."""
    waiting: deque[AsyncResult[_RangeRead]] = deque()
    for part in ranges:
        waiting.append(pool.apply_async(_read_range, (part,)))
        if len(waiting) == under_way and part is ranges[under_way - 1]:
            meanwhile()
        if len(waiting) >= under_way:
            yield waiting.popleft().get()
    while waiting:
        yield waiting.popleft().get()


def _joined(before: Source, after: Source) -> Source:
    return replace(
        before,
        lines=before.lines + after.lines,
        good_lines=before.good_lines + after.good_lines,
        bad_lines=before.bad_lines + after.bad_lines,
        blank_lines=before.blank_lines + after.blank_lines,
    )


def _start_method() -> str | None:
    """Return how workers can be started, or None where this process had better read alone.

    A fork is cheap, and safe while nothing else runs here. Starting from scratch would run the caller's script again.
    """
    alone = threading.active_count() == 1 and "duckdb" not in sys.modules
    return "fork" if sys.platform == "linux" and alone else None


@contextlib.contextmanager
def _pool(processes: int, method: str) -> Iterator[Pool]:
    """Give worker processes that end with the block, whatever ends it."""
    pool = multiprocessing.get_context(method).Pool(processes, initializer=_start_worker, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.terminate()
        pool.join()


def _start_worker(parent: int) -> None:
    """Leave interruptions to the parent, end when it is gone, and do not look for cycles that are never made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)
