"""`results extract` as a library call: files in, the lines of a new dataset out, and how many rows were chosen.

Rows are chosen one at a time by a category, a query or search terms; what Faircount says of entries is found out first,
and only where it is asked for. Large files are read by several processes at once.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from faircount.analysis.choices import DEFINITIONS
from faircount.errors import InputError, UsageError
from faircount.findings import Notes, counted
from faircount.ledger import engine
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LINE_BITS, Ledger
from faircount.model import Outcome, Source
from faircount.outcomes import state
from faircount.query import CustomSearch, Query, parse, possible_fields
from faircount.query.tree import And, Node, Operator, Test
from faircount.reading import inputs
from faircount.reading.cache import Cache, default_folder
from faircount.reading.identity import RANGE_BYTES
from faircount.reading.inputs import Input
from faircount.reading.loading import Loader, Progress, ReadOptions, processes_for, start_method, worker_pool
from faircount.reading.raw_rows import (
    ESCAPE,
    DatasetRow,
    Origin,
    RawReader,
    RawRow,
    dataset_row,
    fields_present,
    strategy_of,
    values_reader,
)
from faircount.reading.spikee import CASE_FACETS, NO_RESPONSE
from faircount.reading.streams import MAX_LINE_BYTES, STDIN, open_range, open_stream

if TYPE_CHECKING:
    from multiprocessing.pool import AsyncResult, Pool

CUSTOM = "custom"
CATEGORIES = ("success", "failure", "errors", "error", "guardrail", "no-guardrail", CUSTOM)
"""What --category may be; errors and error are one."""

_SLICE_ROWS = 100_000
_PARTS_UNDER_WAY = 6
_OUTCOMES = {number: outcome.value for outcome, number in OUTCOME_NUMBER.items()}


class ExtractOptions(Struct, frozen=True):
    """Options of `results extract`; the defaults are the documented ones. `query` is spikee's word for `where`."""

    category: str | None = None
    where: str | None = None
    query: str | None = None
    custom_search: tuple[str, ...] = ()
    ignore_case: bool = False
    regex: bool = False
    definition: str = DEFINITIONS[0]
    entries: bool = False
    max_line: int = MAX_LINE_BYTES
    cache: bool = True

    def __post_init__(self) -> None:
        if self.category is not None and self.category not in CATEGORIES:
            raise UsageError(f"category must be one of {', '.join(CATEGORIES)}, not {self.category!r}")
        if self.definition not in DEFINITIONS:
            raise UsageError(f"definition must be one of {', '.join(DEFINITIONS)}, not {self.definition!r}")
        if self.max_line < 1:
            raise UsageError(f"max-line must be at least 1 byte, not {self.max_line}")
        if self.where is not None and self.query is not None:
            raise UsageError("--query is spikee's word for --where: give one of them, and join conditions with and")
        self._check_search()

    def _check_search(self) -> None:
        if self.category == CUSTOM and not self.custom_search:
            raise UsageError("--category custom needs a term: give --custom-search, once for each condition")
        if self.custom_search and self.category not in (None, CUSTOM):
            raise UsageError(
                f"--custom-search goes with --category custom, not with {self.category}; "
                "a category and a condition together: --category with --where"
            )
        if self.regex and not self.custom_search:
            raise UsageError("--regex is about the terms of --custom-search; in a query, use matches")
        if self.ignore_case and not self.custom_search and self.where is None and self.query is None:
            raise UsageError("--ignore-case is about --where and --custom-search; categories have no case")

    @property
    def rows_of(self) -> str | None:
        """The category in force: by default success, and none where a query says which rows are meant."""
        if self.category is not None:
            return "error" if self.category == "errors" else self.category
        if self.custom_search:
            return CUSTOM
        return None if self.where is not None or self.query is not None else "success"

    @property
    def label(self) -> str:
        """The word for the choice in the name of the new file, as in spikee's names."""
        return self.rows_of or ("where" if self.query is None else "sfl")


# -- choosing rows ----------------------------------------------------------------------------------------------


class Choice(Struct, frozen=True):
    """Which rows are meant; everything that is given must hold."""

    category: str | None
    definition: str
    query: Query | None = None
    search: CustomSearch | None = None


Say = Callable[[RawRow], dict[str, object]]
"""Returns what Faircount says of a row."""


_STATES = {
    (success, error, guardrail): state(success=None if success is UNSET else success, error=error, guardrail=guardrail)
    for success in (True, False, None, UNSET)
    for error in (True, False)
    for guardrail in (True, False)
}


def _has_state(wanted: Outcome) -> Callable[[RawRow], bool]:
    """Return whether a row is in a state, as it is counted."""

    def test(raw: RawRow) -> bool:
        row = raw.row
        error = row.error
        return _STATES[row.success, error is not None and error != NO_RESPONSE, row.guardrail is True] is wanted

    return test


_BY_FAIRCOUNT: dict[str, Callable[[RawRow], bool]] = {
    "success": _has_state(Outcome.SUCCESS),
    "failure": _has_state(Outcome.FAILURE),
    "error": _has_state(Outcome.ERROR),
    "guardrail": _has_state(Outcome.GUARDRAIL),
    "no-guardrail": lambda raw: raw.row.guardrail is not True,
}

_BY_SPIKEE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "success": lambda values: bool(values.get("success")),
    "failure": lambda values: not values.get("success"),
    "error": lambda values: values.get("error") not in (None, NO_RESPONSE),
    "guardrail": lambda values: bool(values.get("guardrail")),
    "no-guardrail": lambda values: not values.get("guardrail"),
}
_SPIKEE_FIELDS = ("success", "error", "guardrail")


class Chooser:
    """Chooses rows of one source."""

    def __init__(self, choice: Choice, say: Say) -> None:
        self._needles: list[_Needle] = []
        self._tests: list[Callable[[RawRow], bool]] = []
        if choice.category not in (None, CUSTOM):
            self._tests.append(_category_test(str(choice.category), choice.definition))
        if choice.query is not None:
            self._ask(choice.query, say)
        if choice.search is not None:
            self._look_for(choice.search)

    def __call__(self, rows: list[RawRow]) -> list[RawRow]:
        """Return those of the rows that are meant."""
        for needle in self._needles:
            rows = needle.candidates(rows)
        for test in self._tests:
            rows = list(filter(test, rows))
        return rows

    def _ask(self, query: Query, say: Say) -> None:
        needle = _needle_in(query.tree)
        if needle is not None:
            self._needles.append(needle)
        read, matches = values_reader(query.fields), query.matches
        if query.computed:
            self._tests.append(lambda row: matches(read(row), say(row)))
        elif needle is not None and _asks_for_a_text(query.tree):
            self._tests.append(needle.or_else(lambda row: matches(read(row))))
        else:
            self._tests.append(lambda row: matches(read(row)))

    def _look_for(self, search: CustomSearch) -> None:
        wanted = [] if search.regex else [condition for condition in search.conditions if not condition.inverted]
        found = [_needle(condition.text, ignore_case=search.ignore_case) for condition in wanted]
        needles = [needle for needle in found if needle is not None]
        self._needles += needles
        read, matches = values_reader(search.fields), search.matches
        if len(search.conditions) == len(needles) == 1 and search.fields is None:
            self._tests.append(needles[0].or_else(lambda row: matches(read(row))))
        else:
            self._tests.append(lambda row: matches(read(row)))


def _category_test(category: str, definition: str) -> Callable[[RawRow], bool]:
    if definition != "spikee":
        return _BY_FAIRCOUNT[category]
    test, read = _BY_SPIKEE[category], values_reader(_SPIKEE_FIELDS)
    return lambda row: test(read(row))


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
        places |= _places(lambda start: _found_at(_ESCAPE.search(buffer, start, last)), starts)
        return [rows[index] for index in sorted(places) if index >= 0]

    def or_else(self, test: Callable[[RawRow], bool]) -> Callable[[RawRow], bool]:
        """Return a test for the text anywhere in a row that looks at the long texts first, as they are written."""
        wanted, lower = self.encoded, self.ignore_case
        if not wanted.isascii():
            return test

        def found(row: RawRow) -> bool:
            for text in (row.row.judge_args, row.row.response, row.row.input) if row.clean else ():
                written = bytes(text).lower() if lower else bytes(text)
                place = written.find(wanted)
                # Behind a backslash, what was found may be a part of another character.
                if place > 0 and written[0] == _QUOTE and written[place - 1] != _BACKSLASH and ESCAPE not in written:
                    return True
            return test(row)

        return found

    def _may_be_in(self, line: bytes) -> bool:
        if ESCAPE in line:
            return True
        return self.text in line.decode().casefold() if self.ignore_case else self.encoded in line


_QUOTE, _BACKSLASH = b'"\\'
# Faster than to look for both characters at once: the first is found quickly.
_ESCAPE = re.compile(rb"\\(?=u)")


def _found_at(match: re.Match[bytes] | None) -> int:
    return -1 if match is None else match.start()


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


def _asks_for_a_text(node: Node) -> bool:
    """Tell whether a query asks for nothing but a text anywhere in a row."""
    return isinstance(node, Test) and node.operator is Operator.CONTAINS and not node.path.steps


def _needle_in(node: Node) -> _Needle | None:
    """Return a text that every row contains for which the query holds."""
    if isinstance(node, And):
        return next((needle for part in node.parts if (needle := _needle_in(part)) is not None), None)
    if isinstance(node, Test) and node.operator is Operator.CONTAINS and not node.path.computed:
        return _needle(node.literals[0].text, ignore_case=True)
    return None


# -- entries ----------------------------------------------------------------------------------------------------

_ENTRY_OF_EVERY_ROW = """
CREATE TABLE row_entry AS
SELECT m.ord, COALESCE(t.entry_key, r.entry_key, s.entry_key) AS entry_key
FROM marked AS m
LEFT JOIN told AS t ON m.ord = t.ord
LEFT JOIN resolved AS r ON m.ord = r.ord
LEFT JOIN (
    SELECT m.origin_key, m.entry_id, MIN(t.entry_key) AS entry_key
    FROM told AS t
    INNER JOIN marked AS m ON m.ord = t.ord
    GROUP BY m.origin_key, m.entry_id
) AS s ON m.origin_key = s.origin_key AND m.entry_id = s.entry_id
"""
"""A row that tells nothing new goes with the entry that it tells of."""

_ENTRY_OF_EVERY_ROW_BY_SPIKEE = "CREATE TABLE row_entry AS SELECT ord, entry_key FROM told"

_SLICE_OF_ROWS = f"""
SELECT r.ord, r.entry_key, e.outcome
FROM row_entry AS r
INNER JOIN entry AS e ON r.entry_key = e.entry_key
WHERE r.ord > ?
ORDER BY r.ord
LIMIT {_SLICE_ROWS}
"""


class Entries:
    """Which entry every row belongs to, and what became of it, in the order of the rows."""

    def __init__(self, ledger: Ledger, definition: str) -> None:
        self._rows, self._keys, self._outcomes = array("q"), array("q"), array("b")
        ledger.query(_ENTRY_OF_EVERY_ROW_BY_SPIKEE if definition == "spikee" else _ENTRY_OF_EVERY_ROW)
        last = -1
        while found := ledger.query(_SLICE_OF_ROWS, [last]):
            rows, keys, outcomes = map(list, zip(*found, strict=True))
            self._rows.fromlist(rows)
            self._keys.fromlist(keys)
            self._outcomes.fromlist(outcomes)
            last = self._rows[-1]

    def outcome(self, place: int) -> str | None:
        """Return what became of the entry that a row belongs to."""
        index = _find(self._rows, place)
        return None if index is None else _OUTCOMES[self._outcomes[index]]

    def with_rows(self, places: Iterable[int]) -> tuple[array[int], int]:
        """Return every row of the entries that the given rows belong to, and how many entries these are."""
        found = (_find(self._rows, place) for place in places)
        keys = {self._keys[index] for index in found if index is not None}
        rows = array("q", [row for row, key in zip(self._rows, self._keys, strict=True) if key in keys])
        return rows, len(keys)


def _find(places: array[int], place: int) -> int | None:
    """Return where a place stands in a list in ascending order."""
    index = bisect_left(places, place)
    return index if index < len(places) and places[index] == place else None


def folded_entries(origins: Sequence[Origin], options: ExtractOptions) -> Entries:
    """Read the files once more, as they are analysed together, and return their entries."""
    paths = [origin.path for origin in origins]
    folder = default_folder() if options.cache else None
    cache = None if folder is None else Cache(folder)
    try:
        return _fold_with(paths, options, Loader(paths, ReadOptions(options.max_line), cache=cache, alone=False))
    except engine.module().Error:
        if cache is None:
            raise
        # Somebody deleted the cache under our hands.
        return _fold_with(paths, options, Loader(paths, ReadOptions(options.max_line), alone=False))


def _fold_with(paths: Sequence[str], options: ExtractOptions, loader: Loader) -> Entries:
    with engine.interruptible(), loader, Ledger(paths, CASE_FACETS) as ledger:
        for index in range(len(paths)):
            loader.load(ledger, index)
        if options.definition == "spikee":
            ledger.fold_as_spikee(combined=True)
        else:
            ledger.fold()
        return Entries(ledger, options.definition)


# -- reading ----------------------------------------------------------------------------------------------------


class _Part(Struct, frozen=True):
    """What a part of a source gave: how its lines fared, and the rows that were chosen."""

    source: Source
    notes: Notes
    rows: list[DatasetRow]


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
    chooser = Chooser(part.choice, lambda row: _said(part.choice, row, origin, part.max_line))
    rows = [dataset_row(row, origin, part.max_line) for found in reader.blocks() for row in chooser(found)]
    return _Part(reader.source(), reader.notes, rows)


def _ranges(origin: Origin, choice: Choice, max_line: int) -> Iterator[_Range]:
    size = Path(origin.path).stat().st_size
    for start in range(0, size, RANGE_BYTES):
        yield _Range(origin, choice, max_line, start, min(start + RANGE_BYTES, size))


def _in_order(pool: Pool, workers: int, ranges: Iterable[_Range]) -> Iterator[_Part]:
    """Yield what ranges give in their order, with only so many under way; whoever waits reads one in the meantime."""
    left = deque(ranges)
    waiting: deque[AsyncResult[_Part] | _Done] = deque()
    while left or waiting:
        while left and sum(not part.ready() for part in waiting) <= workers:
            waiting.append(pool.apply_async(_read_range, (left.popleft(),)))
        if left and not waiting[0].ready() and len(waiting) < _PARTS_UNDER_WAY * workers:
            waiting.append(_Done(_read_range(left.popleft())))
        else:
            yield waiting.popleft().get()


class _Done(Struct, frozen=True):
    """A part that this process has read itself."""

    part: _Part

    def ready(self) -> bool:
        return True

    def get(self) -> _Part:
        return self.part


def _said(choice: Choice, row: RawRow, origin: Origin, max_line: int) -> dict[str, object]:
    """Return what can be said of a row without looking at others."""
    said: dict[str, object] = {"file": origin.name, "line": row.number}
    if choice.query is not None and "strategy" in choice.query.computed:
        said["strategy"] = strategy_of(row.row, origin, max_line)
    return said


class Extraction:
    """Rows chosen from files: first their lines, then what is to be told about them. Use it as a context."""

    def __init__(
        self, files: Sequence[str], options: ExtractOptions | None = None, progress: Progress = lambda _: None
    ) -> None:
        self.options = options or ExtractOptions()
        self.paths = inputs.expand(files)
        if not self.paths:
            raise UsageError("no result file given: name one, or a folder with --result-folder")
        self.inputs: list[Input] = inputs.distinct(self.paths)
        self.matched = self.written = self.entries = 0
        self.read: list[tuple[Source, Notes]] = []
        self._progress = progress
        self._cleanup = contextlib.ExitStack()
        self._known: Entries | None = None

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

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of the new dataset in pieces that belong one behind the other."""
        options = self.options
        query = self._query()
        origins = [self._origin(item.path) for item in self.inputs]
        choice = Choice(options.rows_of, options.definition, query, self._search(origins))
        if query is not None and "outcome" in query.computed:
            self._known = folded_entries(origins, options)
        numbers = count(1)
        for rows in self._entries_rows(origins, choice) if options.entries else self._rows(origins, choice):
            self.written += len(rows)
            yield [piece for before, after in rows for piece in (before, b"%d" % next(numbers), after)]

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

    def _rows_of_ranges(self, pool: Pool, workers: int, origin: Origin, choice: Choice) -> Iterator[list[DatasetRow]]:
        source, notes = Source(path=origin.name), Notes(origin.name)
        for read in _in_order(pool, workers, _ranges(origin, choice, self.options.max_line)):
            notes.absorb(read.notes, source.lines)
            source = _joined(source, read.source)
            self.matched += len(read.rows)
            self._progress(read.source.bytes)
            yield read.rows
        self._finish(source, notes)

    def _chosen(self, index: int, origin: Origin, choice: Choice) -> Iterator[list[RawRow]]:
        """Yield the rows of a source that are meant, and remember how its lines fared."""
        stream = open_stream(origin.path, origin.name)
        reader = RawReader(stream, max_line=self.options.max_line)
        chooser = Chooser(choice, lambda row: self._say(index, origin, choice, row))
        read_before = 0
        for found in reader.blocks():
            yield chooser(found)
            self._progress(stream.bytes_read - read_before)
            read_before = stream.bytes_read
        self._finish(reader.source(), reader.notes)

    def _say(self, index: int, origin: Origin, choice: Choice, row: RawRow) -> dict[str, object]:
        said = _said(choice, row, origin, self.options.max_line)
        if self._known is not None:
            said["outcome"] = self._known.outcome(_place(index, row))
        return said

    def _finish(self, source: Source, notes: Notes) -> None:
        """Remember how the lines of a source fared; raise if there were lines and none was good."""
        if source.bad_lines and not source.good_lines:
            reason, _ = next(notes.subjects("F001"))
            lines = "its only line" if source.bad_lines == 1 else f"any of its {counted(source.bad_lines, 'line')}"
            raise InputError(f"{source.path}: cannot read {lines} as a spikee result; most often: {reason}")
        self.read.append((source, notes))

    # -- by entries ----------------------------------------------------------------------------------------------

    def _entries_rows(self, origins: Sequence[Origin], choice: Choice) -> Iterator[list[DatasetRow]]:
        """Yield all rows of the entries of which at least one row is meant."""
        places = array("q")
        for index, origin in enumerate(origins):
            for found in self._chosen(index, origin, choice):
                places.fromlist([_place(index, row) for row in found])
        self.matched = len(places)
        if not places:
            return
        wanted, self.entries = (self._known or folded_entries(origins, self.options)).with_rows(places)
        max_line = self.options.max_line
        for index, origin in enumerate(origins):
            for found in RawReader(open_stream(origin.path, origin.name), max_line=max_line).blocks():
                chosen = [row for row in found if _find(wanted, _place(index, row)) is not None]
                yield [dataset_row(row, origin, max_line) for row in chosen]


def _place(source: int, row: RawRow) -> int:
    return source << LINE_BITS | row.number


def _joined(before: Source, after: Source) -> Source:
    return replace(
        before,
        lines=before.lines + after.lines,
        good_lines=before.good_lines + after.good_lines,
        bad_lines=before.bad_lines + after.bad_lines,
        blank_lines=before.blank_lines + after.blank_lines,
        bytes=before.bytes + after.bytes,
    )
