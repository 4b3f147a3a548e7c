"""`results extract` as a library call: files in, the lines of a new dataset out, and how many rows were chosen.

Rows are chosen one at a time by a category, a query or search terms; everything that is given must hold. A row is
decoded only as far as the question needs, and often a look at its line spares even that. What Faircount says of entries
is found out first, and only where it is asked for. Large files are read by several processes at once."""

from __future__ import annotations

import contextlib
import os
import re
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from faircount.analysis.evidence import readable_again
from faircount.analysis.options import CUSTOM, ExtractOptions, SelectOptions
from faircount.core.definition import DEFINITIONS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, Notes, counted
from faircount.core.model import Outcome, Source
from faircount.core.outcomes import state
from faircount.core.patterns import SlowPattern
from faircount.core.text import visible
from faircount.core.workers import result_of, start_method, submit, worker_pool
from faircount.io.files import is_address
from faircount.io.streams import RANGE_BYTES, open_range
from faircount.ledger import engine
from faircount.ledger.lookup import EntriesOfRows, place_in
from faircount.ledger.store import Ledger, ord_of
from faircount.query import CustomSearch, Query, parse, possible_fields
from faircount.query.query import And, Node, Operator, Test
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
    ESCAPE,
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
    values_reader,
)
from faircount.readers.registry import default_reader, open_stream
from faircount.readers.rows import NO_RESPONSE, Refusable, policy_block_of
from faircount.report import formats

if TYPE_CHECKING:
    from concurrent.futures import Executor

# -- which rows are meant -------------------------------------------------------------------------------------


class RowSelection(Struct, frozen=True):
    """Which rows are meant; everything that is given must hold."""

    category: str | None
    definition: str
    query: Query | None = None
    search: CustomSearch | None = None
    policy_blocks: bool = True
    """Whether a provider's refusal to take a prompt is a block, by Faircount's definition."""


Describe = Callable[[RawRow], dict[str, object]]
"""Returns the fields that Faircount adds to a row."""


_STATES = {
    (success, error, guardrail): state(success=None if success is UNSET else success, error=error, guardrail=guardrail)
    for success in (True, False, None, UNSET)
    for error in (True, False)
    for guardrail in (True, False)
}


_NO_GUARDRAIL = "no-guardrail"


def _by_faircount(category: str, *, policy_blocks: bool) -> Callable[[RawRow], bool]:
    """Return whether a row is of a category, as it is counted."""

    def blocked(row: Refusable) -> bool:
        return row.guardrail is True or (row.error is not None and policy_blocks and policy_block_of(row) is not None)

    if category == _NO_GUARDRAIL:
        return lambda raw: not blocked(raw.row)
    wanted = Outcome(category)

    def has_state(raw: RawRow) -> bool:
        row = raw.row
        error = row.error
        return _STATES[row.success, error is not None and error != NO_RESPONSE, blocked(row)] is wanted

    return has_state


_BY_FIELD: dict[str, Callable[[dict[str, Any]], bool]] = {
    "success": lambda values: bool(values.get("success")),
    "failure": lambda values: not values.get("success"),
    "error": lambda values: values.get("error") not in (None, NO_RESPONSE),
    "guardrail": lambda values: bool(values.get("guardrail")),
    _NO_GUARDRAIL: lambda values: not values.get("guardrail"),
}
_DECIDING_FIELDS = ("success", "error", "guardrail")


def _category_test(choice: RowSelection) -> Callable[[RawRow], bool]:
    category = str(choice.category)
    if not DEFINITIONS[choice.definition].category_by_field:
        return _by_faircount(category, policy_blocks=choice.policy_blocks)
    test, read = _BY_FIELD[category], values_reader(_DECIDING_FIELDS)
    return lambda row: test(read(row))


class RowSelector:
    """Chooses rows of one source."""

    def __init__(
        self, choice: RowSelection, describe: Describe, place: Callable[[int], str] = "line {}".format
    ) -> None:
        self._place = place
        self._needles: list[_Needle] = []
        self._tests: list[Callable[[RawRow], bool]] = []
        self._texts: list[tuple[_Needle, Callable[[RawRow], bool]]] = []
        if choice.category not in (None, CUSTOM):
            self._tests.append(_category_test(choice))
        if choice.query is not None:
            self._ask(choice.query, describe)
        if choice.search is not None:
            self._look_for(choice.search)

    def __call__(self, rows: list[RawRow]) -> list[RawRow]:
        """Return those of the rows that are meant."""
        for needle in self._needles:
            rows = needle.candidates(rows)
        for test in self._tests:
            rows = [row for row in rows if self._passes(test, row)]
        for text, test in self._texts:
            rows = text.rows_with(rows, test)
        return rows

    def _passes(self, test: Callable[[RawRow], bool], row: RawRow) -> bool:
        try:
            return test(row)
        except SlowPattern as error:
            raise InputError(f"{self._place(row.number)}: {error}; use a simpler pattern, or contains") from None

    def _ask(self, query: Query, describe: Describe) -> None:
        needle = _needle_in(query.tree)
        read, matches = values_reader(query.fields), query.matches
        if needle is not None and isinstance(query.tree, Test) and not query.tree.path.steps:
            # The query asks for nothing but a text anywhere in a row.
            self._texts.append((needle, lambda row: matches(read(row))))
            return
        if needle is not None:
            self._needles.append(needle)
        if query.computed:
            self._tests.append(lambda row: matches(read(row), describe(row)))
        else:
            self._tests.append(lambda row: matches(read(row)))

    def _look_for(self, search: CustomSearch) -> None:
        wanted = [] if search.regex else [condition for condition in search.conditions if not condition.inverted]
        found = [_needle(condition.text, ignore_case=search.ignore_case) for condition in wanted]
        needles = [needle for needle in found if needle is not None]
        read, matches = values_reader(search.fields), search.matches
        if len(search.conditions) == len(needles) == 1 and search.fields is None:
            self._texts.append((needles[0], lambda row: matches(read(row))))
        else:
            self._needles += needles
            self._tests.append(lambda row: matches(read(row)))


class _Needle(Struct, frozen=True):
    """A text without which a row cannot be meant, unless an escape hides it: looking for it spares decoding the row."""

    text: str
    encoded: bytes
    ignore_case: bool

    def candidates(self, rows: list[RawRow]) -> list[RawRow]:
        """Return those of the rows that may contain the text."""
        if not rows or not rows[0].clean or (self.ignore_case and not rows[0].buffer.isascii()):
            return [row for row in rows if self._may_be_in(row.line)]
        buffer, last = rows[0].buffer, rows[-1].end
        text = buffer.lower() if self.ignore_case else buffer
        starts = [row.start for row in rows]
        places = _places(lambda start: text.find(self.encoded, start, last), starts)
        places |= _places(
            lambda start: -1 if (match := _ESCAPE.search(buffer, start, last)) is None else match.start(), starts
        )
        return [rows[index] for index in sorted(places) if index >= 0]

    def rows_with(self, rows: list[RawRow], test: Callable[[RawRow], bool]) -> list[RawRow]:
        """Return the rows with the text in some value; where a look at the line leaves it open, the test decides."""
        if not rows or not rows[0].clean:
            return [row for row in self.candidates(rows) if test(row)]
        buffer, last = rows[0].buffer, rows[-1].end
        text = buffer.lower() if self.ignore_case else buffer
        # Where a letter has several forms, a row may have the text though it is not found.
        undecided = text is not buffer and not buffer.isascii()
        escapes = _ESCAPE.search(buffer, rows[0].start, last) is not None
        place, found = -1, []
        for row in rows:
            if place < row.start:
                place = text.find(self.encoded, row.start, last)
                place = last if place < 0 else place
            if place < row.end and _in_long_text(row, place):
                found.append(row)
            elif undecided:
                if self._may_be_in(row.line) and test(row):
                    found.append(row)
            elif (place < row.end or (escapes and buffer.find(ESCAPE, row.start, row.end) >= 0)) and test(row):
                found.append(row)
        return found

    def _may_be_in(self, line: bytes) -> bool:
        if ESCAPE in line:
            return True
        return self.text in line.decode().casefold() if self.ignore_case else self.encoded in line


_BACKSLASH = ord("\\")


def _in_long_text(row: RawRow, place: int) -> bool:
    """Return whether what stands at a place of a line is surely in a long text of the row."""
    buffer = row.buffer
    quote = buffer.rfind(b'"', row.start, place)
    # Behind a backslash, what was found may be a part of another character.
    if quote < 0 or buffer[place - 1] == _BACKSLASH or buffer.find(ESCAPE, quote, place) >= 0:
        return False
    texts = (row.row.input, row.row.response, row.row.judge_args)
    return any(place < quote + len(text) and buffer.startswith(text, quote, row.end) for text in texts)


# Faster than to look for both characters at once: the first is found quickly.
_ESCAPE = re.compile(rb"\\(?=u)")


def _places(find: Callable[[int], int], starts: Sequence[int]) -> set[int]:
    """Return in which of the lines, given by where they start, something is found; -1 is before the first."""
    places: set[int] = set()
    found = find(starts[0])
    while found >= 0:
        after = bisect_right(starts, found)
        places.add(after - 1)
        found = find(starts[after]) if after < len(starts) else -1
    return places


# Texts that a value may contain without its line doing so: parts of numbers, which may be written in several ways, of
# true and false, which may be searched as Python writes them, of what stands between values, and of escapes.
_HAS_SEVERAL_SPELLINGS = re.compile(r'[-+.0-9e]*|.*["\\/\[\]{}:,\x00-\x1f].*', re.DOTALL)
_WORDS = ("true", "false", "infinity", "-infinity")


def _needle(text: str, *, ignore_case: bool) -> _Needle | None:
    """Return what to look for in lines before they are decoded, or None if it might miss a row."""
    folded = text.casefold()
    if _HAS_SEVERAL_SPELLINGS.fullmatch(folded) or any(folded in word for word in _WORDS):
        return None
    wanted = folded if ignore_case else text
    try:
        return _Needle(wanted, wanted.encode(), ignore_case)
    except UnicodeEncodeError:
        return None


def _needle_in(node: Node) -> _Needle | None:
    """Return a text that every row contains for which the query holds."""
    if isinstance(node, And):
        return next((needle for part in node.parts if (needle := _needle_in(part)) is not None), None)
    if isinstance(node, Test) and node.operator is Operator.CONTAINS and not node.path.computed:
        return _needle(node.literals[0].text, ignore_case=True)
    return None


_PARTS_UNDER_WAY = 6
_LINES_AT_ONCE = 16


# -- reading ----------------------------------------------------------------------------------------------------


class _RangeRows(Struct, frozen=True):
    """What a part of a source gave: how its lines were read, and the rows that were chosen."""

    source: Source
    notes: Notes
    rows: list[Splice | DatasetRow]


class _SourceRange(Struct, frozen=True):
    """A part of a source that a process of its own reads, and what is wanted of it."""

    origin: Origin
    choice: RowSelection
    max_line: int
    start: int
    end: int


def _read_range(part: _SourceRange) -> _RangeRows:
    origin = part.origin
    stream = open_range(origin.path, origin.name, part.start, part.end)
    reader = RawReader(stream, max_line=part.max_line)
    chooser = RowSelector(
        part.choice,
        lambda row: _added_fields(part.choice, row, origin, part.max_line),
        lambda number: f"{origin.name}, line {number} after byte {part.start:,}",
    )
    rows = [splice_or_row(row, origin, part.max_line) for found in reader.blocks() for row in chooser(found)]
    return _RangeRows(reader.source(), reader.notes, rows)


def _in_order(pool: Executor, workers: int, ranges: Iterable[_SourceRange]) -> Iterator[_RangeRows]:
    """Yield what ranges give in their order, with only so many under way; whoever waits reads one in the meantime."""
    from concurrent.futures import Future

    left = deque(ranges)
    waiting: deque[Future[_RangeRows]] = deque()
    while left or waiting:
        while left and sum(not part.done() for part in waiting) <= workers:
            waiting.append(submit(pool, _read_range, left.popleft()))
        if left and not waiting[0].done() and len(waiting) < _PARTS_UNDER_WAY * workers:
            own: Future[_RangeRows] = Future()
            own.set_result(_read_range(left.popleft()))
            waiting.append(own)
        else:
            yield result_of(pool, waiting.popleft())


def _added_fields(choice: RowSelection, row: RawRow, origin: Origin, max_line: int) -> dict[str, object]:
    """Return the fields that Faircount can add to a row without looking at others."""
    added: dict[str, object] = {"file": origin.name, "line": row.number}
    if choice.query is not None and "strategy" in choice.query.computed:
        added["strategy"] = strategy_of(row.row, origin, max_line)
    return added


class Extraction:
    """Rows chosen from files: first their lines, then what there is to report. Use it as a context."""

    def __init__(
        self, files: Sequence[str], options: SelectOptions | None = None, progress: Progress = lambda _: None
    ) -> None:
        self.options = options or ExtractOptions()
        self.paths = inputs.expand(files, self.options.read_as)
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
        return any(notes.total(code) for _, notes in self.read for code in DAMAGE)

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
            # Such a query may name fields that no row has.
            refuse_unknown_fields(query, origins, options.max_line)
        search = None
        if options.custom_search:
            present = fields_present(origins, possible_fields(options.custom_search), options.max_line)
            how = {"ignore_case": options.ignore_case, "regex": options.regex}
            search = CustomSearch.parse(options.custom_search, present, **how)
        choice = RowSelection(options.rows_of, options.definition, query, search, policy_blocks=options.policy_blocks)
        if query is not None and "outcome" in query.computed:
            self._known = self._folded(origins)
        numbers = count(1)
        for rows in self._entries_rows(origins, choice) if options.entries else self._rows(origins, choice):
            self.written += len(rows)
            pieces = [piece for before, after in rows for piece in (before, b"%d" % next(numbers), after)]
            # Fewer pieces are written faster; very large ones would take new memory each time.
            step = 3 * _LINES_AT_ONCE
            yield [b"".join(pieces[start : start + step]) for start in range(0, len(pieces), step)]

    def _folded(self, origins: Sequence[Origin]) -> EntriesOfRows:
        """Read the files once more, as they are analysed together, and return their entries."""
        options, paths = self.options, [origin.path for origin in origins]

        def fold(loader: Loader) -> EntriesOfRows:
            with engine.interruptible(), loader, Ledger(paths) as ledger:
                for index in range(len(paths)):
                    loader.load(ledger, index)
                ledger.fold(options.rules)
                return EntriesOfRows(ledger, options.rules)

        return with_cache(
            lambda kept: Loader(paths, options.reading, cache=kept, alone=False), fold, cache=options.cache
        )

    def _query(self) -> Query | None:
        options = self.options
        if options.query is not None:
            return parse(options.query, ignore_case=True)
        return None if options.where is None else parse(options.where, ignore_case=options.ignore_case)

    def _origin(self, name: str) -> Origin:
        return Origin(name, readable_again(name, self._cleanup))

    # -- row by row ----------------------------------------------------------------------------------------------

    def _rows(self, origins: Sequence[Origin], choice: RowSelection) -> Iterator[list[DatasetRow]]:
        computed = frozenset[str]() if choice.query is None else choice.query.computed
        processes = 1 if computed & {"line", "outcome"} else max(processes_for(origin.path) for origin in origins)
        method = start_method()
        with contextlib.ExitStack() as workers:
            pool = None
            if processes > 1 and method is not None:
                pool = workers.enter_context(worker_pool(processes - 1, method))
            for index, origin in enumerate(origins):
                if pool is not None and processes_for(origin.path) > 1 and not is_address(origin.path):
                    yield from self._rows_of_ranges(pool, processes - 1, origin, choice)
                    continue
                for found in self._chosen(index, origin, choice):
                    self.matched += len(found)
                    yield [dataset_row(row, origin, self.options.max_line) for row in found]

    def _rows_of_ranges(
        self, pool: Executor, workers: int, origin: Origin, choice: RowSelection
    ) -> Iterator[list[DatasetRow]]:
        reader, notes = default_reader(), Notes(origin.name)
        source = Source(path=origin.name, tool=reader.tool, reader=reader.name)
        size, max_line = Path(origin.path).stat().st_size, self.options.max_line

        def from_file(rows: Sequence[Splice | DatasetRow], file: int) -> Iterator[DatasetRow]:
            """Yield rows that another process has found; lines that stand together are read together."""
            start, lines = 0, memoryview(b"")
            for place, row in enumerate(rows):
                if len(row) == 2:
                    yield row
                    continue
                begin, end = row[0], row[1]
                if end > start + len(lines):
                    start, last = begin, rows[min(place + _LINES_AT_ONCE, len(rows)) - 1]
                    together = len(last) != 2 and last[1] - begin < _LINES_AT_ONCE * 2 * (end - begin)
                    stop = last[1] if len(last) != 2 and together else end
                    lines = memoryview(os.pread(file, stop - start, start))
                    if len(lines) < stop - start:
                        raise InputError(f"{origin.name}: was truncated while it was read; nothing is written")
                yield spliced(row, lines[begin - start : end - start])

        ranges = (
            _SourceRange(origin, choice, max_line, start, min(start + RANGE_BYTES, size))
            for start in range(0, size, RANGE_BYTES)
        )
        with Path(origin.path).open("rb") as file:
            for read in _in_order(pool, workers, ranges):
                notes.absorb(read.notes, source.lines)
                source = joined_sources(source, read.source)
                self.matched += len(read.rows)
                self._progress(read.source.bytes)
                yield list(from_file(read.rows, file.fileno()))
        self._finish(source, notes)

    def _chosen(self, index: int, origin: Origin, choice: RowSelection) -> Iterator[list[RawRow]]:
        """Yield the rows of a source that are meant, and remember how its lines were read."""
        stream = open_stream(origin.path, origin.name)
        reader = RawReader(stream, max_line=self.options.max_line)

        def describe(row: RawRow) -> dict[str, object]:
            added = _added_fields(choice, row, origin, self.options.max_line)
            if self._known is not None:
                added["outcome"] = self._known.outcome(ord_of(index, row.number))
            return added

        chooser = RowSelector(choice, describe, lambda number: f"{origin.name}:{number}")
        read_before = 0
        for found in reader.blocks():
            yield chooser(found)
            self._progress(stream.bytes_read - read_before)
            read_before = stream.bytes_read
        self._finish(reader.source(), reader.notes)

    def _finish(self, source: Source, notes: Notes) -> None:
        """Remember how the lines of a source were read; raise if there were lines and none was good."""
        refuse_hopeless([source], [notes])
        self.read.append((source, notes))

    def _places(self, origins: Sequence[Origin], choice: RowSelection) -> array[int]:
        """Return where the rows are that are meant."""
        places = array("q")
        for index, origin in enumerate(origins):
            for found in self._chosen(index, origin, choice):
                places.fromlist([ord_of(index, row.number) for row in found])
        self.matched = len(places)
        return places

    # -- by entries ----------------------------------------------------------------------------------------------

    def _entries_rows(self, origins: Sequence[Origin], choice: RowSelection) -> Iterator[list[DatasetRow]]:
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
