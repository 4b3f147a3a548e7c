"""Sources into a ledger: small ones in this process, large ones by several processes at once.

A large plain file is cut into ranges of bytes of a fixed size, so that what is read never depends on the machine; a
compressed one is decompressed here and handed out in pieces of whole lines. Each process counts its lines from 1 and
hands back columns; what it read is put together in the order of the file, so that every line keeps its exact number.
Memory is bounded: only a few ranges or pieces are under way at any time. What a file
with many rows gave is kept in a cache, and taken from there when the same bytes are to be read again. Rows that a
query does not select are as if they were not there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, msgpack
from msgspec.structs import replace

from faircount.core.errors import InputError, UsageError
from faircount.core.findings import Notes
from faircount.core.model import Source
from faircount.core.workers import SPAWN, Answered, Beside, in_order, start_method, worker_pool
from faircount.io import lenient_json as loose
from faircount.io.files import FileVersion, expect_version, is_address, is_file, size_of, version_of
from faircount.io.streams import (
    RANGE_BYTES,
    STDIN,
    TOO_LONG,
    ContentHash,
    Secret,
    Stream,
    blocks,
    file_of,
    identity,
    is_stored,
    open_range,
    raw_chunks,
    split_member,
)
from faircount.ledger import engine
from faircount.ledger.schema import Batch, Joining, Tables, joined
from faircount.ledger.store import ONE_BY_ONE_UP_TO_ROWS, Ledger
from faircount.query import Query, parse
from faircount.readers.cache import Cache, CachedSource, Keeping, ReadSource, users_cache
from faircount.readers.raw_rows import Origin, fields_present, rows_of, strategy_of, values_decoder, values_of
from faircount.readers.registry import (
    Found,
    Keep,
    ReadAs,
    Reader,
    broken_readers,
    default_reader,
    expands_to_rows,
    open_source,
    plain_reader,
    read_as_of,
    reader_named,
    reads_ranges,
    set_read_as,
)
from faircount.readers.result_rows import Row
from faircount.readers.rows import NOT_TRIED, ReadOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from faircount.query import Query


PARALLEL_FROM_BYTES = 32 * 1024 * 1024
COMPRESSED_PARALLEL_FROM_BYTES = 2 * 1024 * 1024
PIECE_BYTES = 4 * 1024 * 1024
"""A piece of what a compressed file expands to is handed to another process; a range is read there."""
CACHED_FROM_BYTES = 2 * 1024 * 1024
"""A smaller file is read in no time."""
SPAWN_FROM_BYTES = 128 * 1024**2
"""Where forking is not safe, workers are started anew for so much: that takes about as long as reading it."""
PARTS_FROM_BYTES = 4 * 1024**3
PART_BYTES = 512 * 1024**2
"""Files of so many bytes in all are folded in parts of about so many, each small enough for the memory of a process."""
TOGETHER_BELOW_BYTES = 8 * 1024 * 1024
"""Smaller files are read into one ledger where several are analysed one by one."""

_TIDIED_BYTES = 64 * RANGE_BYTES

Progress = Callable[[int], None]
"""Hears how many more bytes were read."""


class Loader:
    """Loads the sources of one request; its worker processes are started before anything else runs, and end with it."""

    def __init__(
        self,
        paths: Iterable[str],
        options: ReadOptions,
        progress: Progress = lambda _: None,
        cache: Cache | None = None,
        *,
        alone: bool = True,
        where: Query | None = None,
        cluster: Any = None,
        question: str = "",
    ) -> None:
        self.options = options
        self.question = question
        """What will be asked of each source by itself, if the answers are to be kept."""
        self.cluster = cluster
        """Machines that read in place of this one, see `analysis.Cluster`."""
        self.where = where
        """Which of the rows that are read a ledger is to keep; rows that `options.where` excludes are not read."""
        self.progress = progress
        self._cache = cache
        self._alone = alone
        """Whether every source is folded by itself, by our own rules."""
        names = list(paths)
        # A single file whose size is known is most likely known itself: then the engine is wanted next. Where other
        # files are to be read, it must not run before the workers do.
        meanwhile = engine.prepare if len(names) == 1 else lambda: None
        kept = {path: found for path in names if (found := self._find(path, meanwhile)) is not None}
        self.answers = {path: found for path, found in kept.items() if isinstance(found, bytes)}
        """What was kept of the same question about the same bytes: these files need not be read."""
        self._cached = {path: found for path, found in kept.items() if isinstance(found, CachedSource)}
        # Only who reads from the beginning knows the number of a line.
        alone = options.where is not None and "line" in options.where.computed
        unread = [] if alone else [path for path in names if path not in kept]
        self._expanded_apart = {path for path in unread if _is_expanded_apart(path)}
        workers = {path: _workers_for(path, self._expanded_apart) for path in unread}
        self._for_workers = {path for path, count in workers.items() if count > 1}
        self.processes = max(workers.values(), default=1)
        self._unread_bytes = 0
        if self.processes > 1:
            self._unread_bytes = sum(size_of(file_of(path)) for path in unread if is_stored(path))
        if self.processes == 1 and unread:
            engine.prepare_small()
        self._workers = contextlib.ExitStack()
        self.pool: Executor | None = None
        self._keeping: dict[str, Keeping] = {}

    def __enter__(self) -> Loader:
        method = start_method() or (SPAWN if self._unread_bytes >= SPAWN_FROM_BYTES else None)
        if self.processes > 1 and method is not None:
            self.pool = self._workers.enter_context(worker_pool(self.processes, method))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._workers.close()
        for keeping in self._keeping.values():
            keeping.finish(cancel=kind is not None)

    def load(self, ledger: Ledger, index: int) -> ReadSource:
        """Read a source of the ledger into it, or take what was kept of the same bytes."""
        read = self._load(ledger, index)
        reader = reader_named(read.source.reader)
        ledger.fields_of[index], ledger.place_of[index] = reader.fields, reader.place
        return read

    def _load(self, ledger: Ledger, index: int) -> ReadSource:
        path = ledger.paths[index]
        cached = self._cached.get(path)
        if cached is not None:
            if self._alone:
                ledger.load_folded(cached.tables)
            else:
                ledger.load_stored(index, cached.tables)
            self.progress(cached.read.source.bytes)
            return cached.read
        secret = None if ledger.apart else self._secret(path)
        keeping = None if secret is None or self._cache is None else self._cache.keep(self._how(path))
        ledger.folder = None if keeping is None else keeping.folder
        before = version_of(file_of(path)) if is_stored(path) else None
        if self.pool is not None and path in self._for_workers:
            read_apart = self._read_pieces if path in self._expanded_apart else self._read_ranges
            with Beside(ledger.warm_up) as warming:
                reading = read_apart(self.pool, path, secret)
                warming.answer()
            self._for_workers.discard(path)
            if not self._for_workers:
                self.end_workers()
            _give_back_memory()
        else:
            reading = self._read_alone(path, secret)
            if keeping is not None and not _is_worth_keeping(path, reading):
                ledger.folder = keeping = None
        if before is not None:
            expect_version(file_of(path), before)
        ledger.load(index, reading.tables)
        if keeping is not None and secret is not None and _is_worth_keeping(path, reading):
            keeping.describe(identity(reading.digests, secret), reading.read, reading.tables)
            self._keeping[path] = keeping
            if not self._alone:
                keeping.write_rows(reading.tables)
        return reading.read

    @contextlib.contextmanager
    def keeping_fold(self, ledger: Ledger) -> Iterator[None]:
        """Keep what the rows of a ledger were folded into, where that is wanted; it is done when the block ends."""
        keeping = self._keeping.get(ledger.paths[0]) if self._alone and ledger.folded_alone else None
        if keeping is None:
            yield
            return
        keeping.write_fold(ledger)
        try:
            yield
        except BaseException:
            keeping.finish(cancel=True)
            raise
        keeping.finish()

    def keep_answer(self, path: str, answer: Struct) -> None:
        """Keep the answer to the question about a file of which something is kept."""
        if self._cache is None or not self.question or (path not in self._cached and path not in self._keeping):
            return
        if path in self._keeping:
            self._keeping[path].finish()
        entry = self._cached[path].tables.folder if path in self._cached else self._keeping[path].target
        # A lone surrogate cannot be written.
        with contextlib.suppress(UnicodeEncodeError):
            self._cache.keep_answer(entry, path, self.question, msgpack.encode(answer))

    def end_workers(self) -> None:
        """End the worker processes; what is still to be read is read here."""
        self._workers.close()
        self.pool = None

    def is_small(self, path: str) -> bool:
        """Return whether a file is to be read together with others."""
        if path in self._cached or path in self.answers or path == STDIN or not is_file(path):
            return False
        return size_of(path) < TOGETHER_BELOW_BYTES

    @property
    def used_cache(self) -> bool:
        """Whether tables were taken from the cache."""
        return bool(self._cached)

    def _find(self, path: str, meanwhile: Callable[[], None]) -> CachedSource | bytes | None:
        if self._cache is None or not _may_be_large(path):
            return None
        return self._cache.find(path, self._how(path), self.question, meanwhile=meanwhile)

    def _how(self, path: str) -> str:
        """Return what the rows of a file depend on beside its bytes."""
        run, said = split_member(path)[1], read_as_of(path)
        return f"{self.options} {said} {run} {'folded' if self._alone else 'rows'}"

    def _secret(self, path: str) -> Secret | None:
        return self._cache.secret() if self._cache is not None and _may_be_large(path) else None

    def _read_alone(self, path: str, secret: Secret | None) -> _LoadedTables:
        content = None if secret is None else ContentHash(secret)
        with contextlib.ExitStack() as copies:
            # A query may look at a file twice.
            once = self.options.where is not None and not is_stored(path)
            origin = Origin(path, copies.enter_context(copy_of(path)) if once else path)
            stream, reader = open_source(origin.path, path, content)
            found = nothing_found(reader, origin, self.options)
            parts: list[tuple[Tables, int]] = []
            read_before = 0
            for batch in reader.read(stream, self.options, found):
                parts.append((batch.tables(), 0))
                self.progress(stream.bytes_read - read_before)
                read_before = stream.bytes_read
            self.progress(stream.bytes_read - read_before)
        tables = joined(parts or [(Batch().tables(), 0)])
        return self._as_read(reader, found, stream.bytes_read, tables, [] if content is None else content.digests())

    def _read_ranges(self, pool: Executor, path: str, secret: Secret | None) -> _LoadedTables:
        size = size_of(path)
        starts = range(0, size, RANGE_BYTES)
        reader = plain_reader(path) or default_reader()
        said, version = read_as_of(path), version_of(path)
        ranges = [
            _FileRange(path, at, min(at + RANGE_BYTES, size), self.options, said, secret, version) for at in starts
        ]
        found, joining, digests = Found(Notes(path)), Joining(), list[bytes]()
        results = in_order(pool, partial(_read_range, reader), ranges, self.processes + 4)
        for part, read in zip(ranges, results, strict=True):
            for tables in read.batches:
                joining.add(tables, found.lines)
            found.absorb(read.found)
            digests += read.digests
            self.progress(part.end - part.start)
            if part.end % _TIDIED_BYTES == 0:
                _give_back_memory()
        return self._as_read(reader, found, size, joining.tables(), digests)

    def _read_pieces(self, pool: Executor, path: str, secret: Secret | None) -> _LoadedTables:
        """Decompress a file here, for other processes to read."""
        content = None if secret is None else ContentHash(secret)
        stream, reader = open_source(path, path, content)
        found, joining, read_before = Found(Notes(path)), Joining(), 0
        said, options = read_as_of(path), self.options
        pieces = (
            _WholeLines(path, block.offset, None if block.buffer is TOO_LONG else block.data, options, said)
            for block in blocks(stream, max(options.max_line, PIECE_BYTES), PIECE_BYTES)
        )
        for read in in_order(pool, partial(_read_piece, reader), pieces, self.processes + 2):
            for tables in read.batches:
                joining.add(tables, found.lines)
            found.absorb(read.found)
            self.progress(stream.bytes_read - read_before)
            read_before = stream.bytes_read
        # What stands before the first line, a byte order mark, belongs to it.
        found.anchors[:1] = [(line, stream.starts_at) for line, _ in found.anchors[:1]]
        if stream.truncated:
            found.notes.add("F002", stream.truncated, found.lines)
        self.progress(stream.bytes_read - read_before)
        digests = [] if content is None else content.digests()
        return self._as_read(reader, found, stream.bytes_read, joining.tables(), digests)

    def _as_read(self, reader: Reader, found: Found, size: int, tables: Tables, digests: list[bytes]) -> _LoadedTables:
        return _LoadedTables(as_read(reader, found, size, self.options.aim), tables, digests)


def as_read(reader: Reader, found: Found, size: int, aim: str | None) -> ReadSource:
    """Return what reading a source showed; `aim` is what the user says that it is about."""
    source = reader.source(found, size)
    if aim is not None and found.aim and aim != found.aim:
        raise UsageError(f"--aim {aim}: {source.path} says itself that it is about {found.aim}s")
    return ReadSource(replace(source, aim=aim or source.aim), found.notes, found.anchors)


def with_cache(make: Callable[[Cache | None], Loader], use: Callable[[Loader], Answered], *, cache: bool) -> Answered:
    """Use a loader with the user's cache, and another one without it if somebody deletes the cache meanwhile."""
    loader = make(users_cache(wanted=cache))
    try:
        return use(loader)
    except engine.module().Error:
        if not loader.used_cache:
            raise
        return use(make(None))


def refuse_hopeless(sources: Sequence[Source], notes: Sequence[Notes]) -> None:
    """Raise if there were lines and none was good; a file without lines is only empty."""
    if any(source.good_lines for source in sources) or not any(source.bad_lines for source in sources):
        return
    if any(noted.total(NOT_TRIED) for noted in notes):
        return  # entries of a run that were read and have no row yet
    worst = next(source for source in sources if source.bad_lines)
    reason, _ = next(notes[sources.index(worst)].subjects("F001"))
    lines = "its only line" if worst.bad_lines == 1 else f"any of its {worst.bad_lines:,} lines"
    broken = "".join(f"; a reader cannot be used, {what}" for what in broken_readers())
    noun = reader_named(worst.reader).noun
    raise InputError(f"{worst.path}: cannot read {lines} as a {noun}; most often: {reason}{broken}")


def refuse_evidence_alone(sources: Sequence[Source]) -> None:
    """Raise if a file holds successes alone: there is nothing to divide them by."""
    for source in sources:
        if not reader_named(source.reader).has_denominator:
            raise InputError(
                f"{source.path}: this is a {source.reader}, which holds hits alone: evidence, but no denominator for a "
                "rate; analyse the report beside it (*.report.jsonl), or look at the hits with `results extract`"
            )


class _LoadedTables(Struct, frozen=True):
    """What reading a source gave: its tables, and the digests of its bytes if they were wanted."""

    read: ReadSource
    tables: Tables
    digests: list[bytes]


def _is_worth_keeping(path: str, reading: _LoadedTables) -> bool:
    """Return whether a file has many rows, and did not grow while it was read."""
    unchanged = size_of(file_of(path)) == reading.read.source.bytes
    return unchanged and reading.tables.rows("attempt") > ONE_BY_ONE_UP_TO_ROWS


def _may_be_large(path: str) -> bool:
    """Return whether a file is worth a look into the cache; what is at an address is not kept there."""
    return not is_address(path) and is_stored(path) and size_of(file_of(path)) >= CACHED_FROM_BYTES


def _give_back_memory() -> None:
    """Give the memory that was freed in small pieces back to the system, where the C library can do that."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def is_read_in_ranges(path: str) -> bool:
    """Return whether a file is read a range at a time, whoever does it: a large one whose lines stand by themselves."""
    if path == STDIN or not is_file(path):
        return False
    return size_of(path) >= PARALLEL_FROM_BYTES and reads_ranges(path)


def processes_for(path: str) -> int:
    """Return how many processes should read a file: one for small, compressed and streamed ones."""
    if not is_read_in_ranges(path):
        return 1
    return min(os.cpu_count() or 1, -(-size_of(path) // RANGE_BYTES))


def _is_expanded_apart(path: str) -> bool:
    """Return whether a file is large, and rows when it is decompressed."""
    if not is_file(path) or size_of(path) < COMPRESSED_PARALLEL_FROM_BYTES:
        return False
    return expands_to_rows(path)


def _workers_for(path: str, expanded_apart: Container[str]) -> int:
    return (os.cpu_count() or 1) if path in expanded_apart else processes_for(path)


def parts_for(paths: Sequence[str]) -> int:
    """Return in how many parts files are folded, so that memory is bounded: one for all but very large ones."""
    if not all(map(is_stored, paths)):
        return 1
    size = sum(size_of(file_of(path)) for path in paths)
    return 1 if size < PARTS_FROM_BYTES else -(-size // PART_BYTES)


# -- by several processes ---------------------------------------------------------------------------------------


class _FileRange(Struct, frozen=True):
    path: str
    start: int
    end: int
    options: ReadOptions
    read_as: ReadAs
    secret: Secret | None
    version: FileVersion


class _RangeRead(Struct, frozen=True):
    found: Found
    batches: list[Tables]
    digests: list[bytes]


def _read_range(reader: Reader, part: _FileRange) -> _RangeRead:
    """Read a range in a process of its own."""
    set_read_as(part.path, part.read_as)
    expect_version(part.path, part.version)
    content = None if part.secret is None else ContentHash(part.secret)
    stream = open_range(part.path, part.path, part.start, part.end, content)
    found = nothing_found(reader, Origin(part.path, part.path), part.options)
    batches: list[Tables] = [batch.tables() for batch in reader.read(stream, part.options, found)]
    found.keep = None
    return _RangeRead(found, batches, [] if content is None else content.digests())


class _WholeLines(Struct, frozen=True):
    """Whole lines of a file; None stands for one over the limit."""

    path: str
    offset: int
    lines: bytes | None
    options: ReadOptions
    read_as: ReadAs


def _read_piece(reader: Reader, piece: _WholeLines) -> _RangeRead:
    """Read lines in another process."""
    set_read_as(piece.path, piece.read_as)
    found = nothing_found(reader, Origin(piece.path, piece.path), piece.options)
    batches: list[Tables] = []
    if piece.lines is None:
        found.lines, found.anchors = 1, [(1, piece.offset)]
        found.add_bad(f"longer than {piece.options.max_line} bytes", 1)
    else:
        stream = Stream(piece.path, iter([piece.lines]), starts_at=piece.offset, path=piece.path)
        batches = [batch.tables() for batch in reader.read(stream, piece.options, found)]
    found.keep = None
    return _RangeRead(found, batches, [])


def nothing_found(reader: Reader, origin: Origin, options: ReadOptions) -> Found:
    where = options.where
    keep = None if where is None else row_selector(reader, where, origin, options.max_line)
    return Found(Notes(origin.name), keep=keep)


@contextlib.contextmanager
def copy_of(path: str) -> Iterator[str]:
    """Give a copy of what can be read only once, as long as it is needed."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="faircount-") as file:
        for chunk in raw_chunks(path, path):
            file.write(chunk)
        file.flush()
        yield file.name


def joined_sources(before: Source, after: Source) -> Source:
    """Return a part of a source with what the next part adds to its counts."""
    return replace(
        before,
        lines=before.lines + after.lines,
        good_lines=before.good_lines + after.good_lines,
        bad_lines=before.bad_lines + after.bad_lines,
        blank_lines=before.blank_lines + after.blank_lines,
        bytes=before.bytes + after.bytes,
    )


# -- rows selected by a query -----------------------------------------------------------------------------------


def parse_row_query(text: str) -> Query:
    """Understand a query about rows; an entry's outcome is not known before all of its rows are."""
    query = parse(text)
    if "outcome" in query.computed:
        raise UsageError(
            "--where: outcome is computed from all rows of an entry; select rows by success, error or "
            "guardrail, or write them to a file with `results extract --where`"
        )
    return query


def refuse_unknown_fields(query: Query | None, origins: Sequence[Origin], max_line: int) -> None:
    """Raise UsageError for a field that a query compares and no row of the files has, which is mostly a mistype."""
    unknown = frozenset() if query is None else query.compared.difference(Row.__struct_fields__)
    if not unknown or not all(is_stored(origin.path) for origin in origins):
        return
    unknown -= fields_present(origins, unknown, max_line)
    if not unknown:
        return
    first = next((raw.line for origin in origins for raw in rows_of(origin, max_line)), None)
    if first is None:
        return
    present = sorted(loose.parse(first)[0])
    field = min(unknown)
    from difflib import get_close_matches

    near = get_close_matches(field, present, n=1)
    hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(present)}"
    raise UsageError(f"--where: no file has a field {field}; {hint}")


def row_selector(reader: Reader, query: Query, origin: Origin, max_line: int) -> Keep:
    """Return which rows of one file a query selects."""
    keep = _selector(query, origin, max_line)
    if reader.lines_are_rows:
        return keep
    wanted = frozenset(row.number for row in rows_of(origin, max_line) if keep(row.line, row.row, row.number))
    return lambda _, __, number: number in wanted


def _selector(query: Query, origin: Origin, max_line: int) -> Keep:
    decoder = values_decoder(query.fields)

    def computed_of(row: Row, number: int) -> dict[str, object]:
        computed: dict[str, object] = {"file": origin.name, "line": number}
        if "strategy" in query.computed:
            computed["strategy"] = strategy_of(row, origin, max_line)
        return computed

    if query.computed:
        return lambda line, row, number: query.matches(values_of(line, decoder), computed_of(row, number))
    return lambda line, _, __: query.matches(values_of(line, decoder))
