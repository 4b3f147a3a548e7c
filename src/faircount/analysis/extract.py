"""`results extract` as a library call: files in, the lines of a new dataset out, and how many rows were chosen.

Rows are chosen one at a time by a category, a query or search terms; what Faircount says of entries is found out first,
and only where it is asked for. Large files are read by several processes at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from faircount.analysis.choosing import Choice, Chooser
from faircount.analysis.options import ExtractOptions, SelectOptions
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import Notes, counted
from faircount.core.model import Source
from faircount.core.text import visible
from faircount.core.workers import result_of, start_method, submit, worker_pool
from faircount.io.streams import RANGE_BYTES, STDIN, open_range
from faircount.ledger import engine
from faircount.ledger.lookup import EntriesOfRows, place_in
from faircount.ledger.store import Ledger, ord_of
from faircount.query import CustomSearch, Query, parse, possible_fields
from faircount.readers import inputs
from faircount.readers.inputs import Input
from faircount.readers.loading import (
    Loader,
    Progress,
    joined_sources,
    processes_for,
    refuse_hopeless,
    refuse_unknown_fields,
    with_cache,
)
from faircount.readers.raw_rows import (
    DatasetRow,
    Origin,
    RawReader,
    RawRow,
    Splice,
    dataset_row,
    fields_present,
    splice_or_row,
    spliced,
    strategy_of,
)
from faircount.readers.registry import open_stream
from faircount.report import formats

if TYPE_CHECKING:
    from concurrent.futures import Executor

_PARTS_UNDER_WAY = 6
_SAME_CATEGORY = {"errors": "error", "fail": "failure"}


# -- reading ----------------------------------------------------------------------------------------------------


class _Part(Struct, frozen=True):
    """What a part of a source gave: how its lines fared, and the rows that were chosen."""

    source: Source
    notes: Notes
    rows: list[Splice | DatasetRow]


class _Range(Struct, frozen=True):
    """A part of a source that a process of its own reads, and what is wanted of it."""

    origin: Origin
    choice: Choice
    max_line: int
    start: int
    end: int


def _read_range(part: _Range) -> _Part:
    origin = part.origin
    stream = open_range(origin.path, origin.name, part.start, part.end)
    reader = RawReader(stream, max_line=part.max_line)
    chooser = Chooser(
        part.choice,
        lambda row: _said(part.choice, row, origin, part.max_line),
        lambda number: f"{origin.name}, line {number} after byte {part.start:,}",
    )
    rows = [splice_or_row(row, origin, part.max_line) for found in reader.blocks() for row in chooser(found)]
    return _Part(reader.source(), reader.notes, rows)


def _ranges(origin: Origin, choice: Choice, max_line: int) -> Iterator[_Range]:
    size = Path(origin.path).stat().st_size
    for start in range(0, size, RANGE_BYTES):
        yield _Range(origin, choice, max_line, start, min(start + RANGE_BYTES, size))


def _in_order(pool: Executor, workers: int, ranges: Iterable[_Range]) -> Iterator[_Part]:
    """Yield what ranges give in their order, with only so many under way; whoever waits reads one in the meantime."""
    from concurrent.futures import Future

    left = deque(ranges)
    waiting: deque[Future[_Part]] = deque()
    while left or waiting:
        while left and sum(not part.done() for part in waiting) <= workers:
            waiting.append(submit(pool, _read_range, left.popleft()))
        if left and not waiting[0].done() and len(waiting) < _PARTS_UNDER_WAY * workers:
            own: Future[_Part] = Future()
            own.set_result(_read_range(left.popleft()))
            waiting.append(own)
        else:
            yield result_of(pool, waiting.popleft())


def _said(choice: Choice, row: RawRow, origin: Origin, max_line: int) -> dict[str, object]:
    """Return what can be said of a row without looking at others."""
    said: dict[str, object] = {"file": origin.name, "line": row.number}
    if choice.query is not None and "strategy" in choice.query.computed:
        said["strategy"] = strategy_of(row.row, origin, max_line)
    return said


class Extraction:
    """Rows chosen from files: first their lines, then what is to be told about them. Use it as a context."""

    def __init__(
        self, files: Sequence[str], options: SelectOptions | None = None, progress: Progress = lambda _: None
    ) -> None:
        self.options = options or ExtractOptions()
        self.paths = inputs.expand(files)
        if not self.paths:
            raise UsageError("no result file given; name a file or a folder")
        self.inputs: list[Input] = inputs.distinct(self.paths)
        self.matched = self.written = self.entries = 0
        self.read: list[tuple[Source, Notes]] = []
        self._progress = progress
        self._cleanup = contextlib.ExitStack()
        self._known: EntriesOfRows | None = None

    def __enter__(self) -> Extraction:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def total(self) -> int:
        """How many rows were read."""
        return sum(source.good_lines for source, _ in self.read)

    @property
    def damaged(self) -> bool:
        """Whether any source had lines that could not be read, or broke off."""
        return any(notes.total(code) for _, notes in self.read for code in ("F001", "F002"))

    def problems(self) -> list[str]:
        """Return a sentence for each file that was given twice, and for all that could not be read."""
        twice = [
            f"F007 {other}: the same file as {item.path}, read once" for item in self.inputs for other in item.also
        ]
        return [*twice, *(sentence for _, notes in self.read for sentence in notes.problems())]

    def sentence(self, path: str) -> str:
        """Return how many rows were chosen of how many, the rate, and where they are."""
        matched, total, place = self.matched, self.total, visible(path)
        if not total:
            return f"No rows were read: {place} is empty"
        if not matched:
            return f"None of {counted(total, 'row')} matches: {place} is empty"
        found = f"{matched:,} of {counted(total, 'row')} ({formats.percent(matched / total)})"
        if not self.options.entries:
            return f"Extracted {found} to {place}"
        entries = counted(self.entries, "entry", "entries")
        verb = "matches" if matched == 1 else "match"
        return f"{found} {verb}: extracted all {counted(self.written, 'row')} of {entries} to {place}"

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of the new dataset in pieces that belong one behind the other."""
        options = self.options
        query = self._query()
        origins = [self._origin(item.path) for item in self.inputs]
        if options.query is None:
            # spikee's queries may name fields that no row has.
            refuse_unknown_fields(query, origins, options.max_line)
        choice = Choice(
            options.rows_of, options.definition, query, self._search(origins), policy_blocks=options.policy_blocks
        )
        if query is not None and "outcome" in query.computed:
            self._known = self._folded(origins)
        numbers = count(1)
        for rows in self._entries_rows(origins, choice) if options.entries else self._rows(origins, choice):
            self.written += len(rows)
            yield [piece for before, after in rows for piece in (before, b"%d" % next(numbers), after)]

    def _folded(self, origins: Sequence[Origin]) -> EntriesOfRows:
        """Read the files once more, as they are analysed together, and return their entries."""
        options, paths = self.options, [origin.path for origin in origins]

        def fold(loader: Loader) -> EntriesOfRows:
            with engine.interruptible(), loader, Ledger(paths) as ledger:
                for index in range(len(paths)):
                    loader.load(ledger, index)
                ledger.fold(options.definition)
                return EntriesOfRows(ledger, options.definition)

        return with_cache(
            lambda kept: Loader(paths, options.reading, cache=kept, alone=False), fold, cache=options.cache
        )

    def _query(self) -> Query | None:
        options = self.options
        if options.query is not None:
            return parse(options.query, ignore_case=True)
        return None if options.where is None else parse(options.where, ignore_case=options.ignore_case)

    def _search(self, origins: Iterable[Origin]) -> CustomSearch | None:
        options = self.options
        if not options.custom_search:
            return None
        present = fields_present(origins, possible_fields(options.custom_search), options.max_line)
        return CustomSearch.parse(options.custom_search, present, ignore_case=options.ignore_case, regex=options.regex)

    def _origin(self, name: str) -> Origin:
        """Return where a file can be read, as often as needed: a stream is copied to a file first."""
        if name != STDIN and Path(name).is_file():
            return Origin(name, name)
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="faircount-")))
        copy = folder / "stream"
        try:
            with copy.open("wb") as file:
                if name == STDIN:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                else:
                    with Path(name).open("rb") as stream:
                        shutil.copyfileobj(stream, file)
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
        return Origin(name, str(copy))

    # -- row by row ----------------------------------------------------------------------------------------------

    def _rows(self, origins: Sequence[Origin], choice: Choice) -> Iterator[list[DatasetRow]]:
        computed = frozenset[str]() if choice.query is None else choice.query.computed
        processes = 1 if computed & {"line", "outcome"} else max(processes_for(origin.path) for origin in origins)
        method = start_method()
        with contextlib.ExitStack() as workers:
            pool = None
            if processes > 1 and method is not None:
                pool = workers.enter_context(worker_pool(processes - 1, method))
            for index, origin in enumerate(origins):
                if pool is not None and processes_for(origin.path) > 1:
                    yield from self._rows_of_ranges(pool, processes - 1, origin, choice)
                    continue
                for found in self._chosen(index, origin, choice):
                    self.matched += len(found)
                    yield [dataset_row(row, origin, self.options.max_line) for row in found]

    def _rows_of_ranges(
        self, pool: Executor, workers: int, origin: Origin, choice: Choice
    ) -> Iterator[list[DatasetRow]]:
        source, notes = Source(path=origin.name), Notes(origin.name)
        with Path(origin.path).open("rb") as file:
            for read in _in_order(pool, workers, _ranges(origin, choice, self.options.max_line)):
                notes.absorb(read.notes, source.lines)
                source = joined_sources(source, read.source)
                self.matched += len(read.rows)
                self._progress(read.source.bytes)
                yield [_from_file(row, file.fileno(), origin) if isinstance(row, Splice) else row for row in read.rows]
        self._finish(source, notes)

    def _chosen(self, index: int, origin: Origin, choice: Choice) -> Iterator[list[RawRow]]:
        """Yield the rows of a source that are meant, and remember how its lines fared."""
        stream = open_stream(origin.path, origin.name)
        reader = RawReader(stream, max_line=self.options.max_line)
        chooser = Chooser(
            choice, lambda row: self._say(index, origin, choice, row), lambda number: f"{origin.name}:{number}"
        )
        read_before = 0
        for found in reader.blocks():
            yield chooser(found)
            self._progress(stream.bytes_read - read_before)
            read_before = stream.bytes_read
        self._finish(reader.source(), reader.notes)

    def _say(self, index: int, origin: Origin, choice: Choice, row: RawRow) -> dict[str, object]:
        said = _said(choice, row, origin, self.options.max_line)
        if self._known is not None:
            said["outcome"] = self._known.outcome(ord_of(index, row.number))
        return said

    def _finish(self, source: Source, notes: Notes) -> None:
        """Remember how the lines of a source fared; raise if there were lines and none was good."""
        refuse_hopeless([source], [notes])
        self.read.append((source, notes))

    def _places(self, origins: Sequence[Origin], choice: Choice) -> array[int]:
        """Return where the rows are that are meant."""
        places = array("q")
        for index, origin in enumerate(origins):
            for found in self._chosen(index, origin, choice):
                places.fromlist([ord_of(index, row.number) for row in found])
        self.matched = len(places)
        return places

    # -- by entries ----------------------------------------------------------------------------------------------

    def _entries_rows(self, origins: Sequence[Origin], choice: Choice) -> Iterator[list[DatasetRow]]:
        """Yield all rows of the entries of which at least one row is meant."""
        places = self._places(origins, choice)
        if not places:
            return
        wanted, self.entries = (self._known or self._folded(origins)).with_rows(places)
        max_line = self.options.max_line
        for index, origin in enumerate(origins):
            for found in RawReader(open_stream(origin.path, origin.name), max_line=max_line).blocks():
                chosen = [row for row in found if place_in(wanted, ord_of(index, row.number)) is not None]
                yield [dataset_row(row, origin, max_line) for row in chosen]


def _from_file(splice: Splice, file: int, origin: Origin) -> DatasetRow:
    """Return a row that another process has found in a file."""
    size = splice.end - splice.start
    line = os.pread(file, size, splice.start)
    if len(line) < size:
        raise InputError(f"{origin.name}: was truncated while it was read; nothing is written")
    return spliced(splice, line)
