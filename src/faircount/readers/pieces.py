"""Sources read piece by piece into parts: a piece is a task that any process can do, and what it gives is bytes.

A piece is a run of ranges of one large plain file, or a whole file of any other kind; ranges are those of a file that
is read at once, since what is kept of unknown fields hangs on them. Whoever has the parts is a crew: the processes of
this machine, or those of a cluster. What is done is the same: pieces are read and dealt, parts are surveyed where
rows of one may depend on those of another, then folded, then asked.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.core.definition import Definition
from faircount.core.errors import InputError
from faircount.core.findings import Notes
from faircount.core.workers import in_order
from faircount.io.files import FileVersion, absolute, drop_copy, expect_version, is_address, version_of
from faircount.io.streams import RANGE_BYTES, file_of, open_range
from faircount.ledger.divided import Crew, DividedLedger, SourcePlaces
from faircount.ledger.parts import (
    RANGE_BITS,
    Division,
    FoldedPart,
    Survey,
    answers,
    deal,
    deal_entries,
    entries_of_part,
    fold_part,
    open_fold,
    read_answers,
    survey,
)
from faircount.ledger.questions import Question, Rows
from faircount.ledger.schema import FACET, Joining, Tables, fields_together
from faircount.ledger.store import Ledger, Overlap, RunFacts, linked_sources, named_origins, origin_keys
from faircount.readers.cache import ReadSource
from faircount.readers.loading import as_read, is_read_in_ranges, nothing_found
from faircount.readers.raw_rows import Origin
from faircount.readers.registry import (
    Found,
    ReadAs,
    Reader,
    default_reader,
    open_source,
    plain_reader,
    read_as_of,
    reader_named,
    set_read_as,
)
from faircount.readers.rows import ReadOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

NOT_EVERYWHERE = "executors cannot read it; give an address that every machine can read"
MANY_QUESTIONS = 4
PIECE_BYTES = 64 * 1024 * 1024
"""So much of a file is one task."""


class Piece(Struct, frozen=True):
    """A task of reading: some ranges of a file, or all of it where there are none."""

    number: int
    source: int
    path: str
    """The file as the user named it."""
    address: str
    """The same as every machine finds it."""
    file: str
    """The file in which that is, by its address."""
    ranges: list[tuple[int, int, int]]
    """Number, first byte and end of each range."""
    size: int
    parts: int
    options: ReadOptions
    read_as: ReadAs
    version: FileVersion
    """The file as it was when the work was divided: another one is an error, not a number."""


class PieceRead(Struct, frozen=True):
    """What reading a piece showed beside its rows."""

    number: int
    source: int
    reader: str
    found: Found
    lines: list[int]
    """How many lines each range has."""
    facets: list[str]
    origin_words: list[str | None]
    origins: list[tuple[str, int]]
    """Origins that rows name, and how many rows do."""
    blocking_kinds: list[str]
    has_history: bool
    rows: int
    moving: int
    """Rows that may belong to another part than it seems."""


def pieces_of(paths: Sequence[str], parts: int, options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
    """Divide the reading of files; large plain ones are read in ranges, as they are by one machine."""
    found: list[Piece] = []
    for source, path in enumerate(paths):
        file = file_of(path)
        try:
            version = version_of(file)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        size = version.size
        ranges: list[tuple[int, int, int]] = []
        if is_read_in_ranges(path):
            starts = range(0, size, RANGE_BYTES)
            ranges = [(number, start, min(start + RANGE_BYTES, size)) for number, start in enumerate(starts)]
        at_once = max(piece_bytes // RANGE_BYTES, 1)
        for first in range(0, len(ranges) or 1, at_once):
            chosen = ranges[first : first + at_once]
            read = sum(end - start for _, start, end in chosen) if chosen else size
            found.append(
                Piece(
                    number=len(found),
                    source=source,
                    path=path,
                    address=absolute(path),
                    file=absolute(file),
                    ranges=chosen,
                    size=read,
                    parts=parts,
                    options=options,
                    read_as=read_as_of(path),
                    version=version,
                )
            )
    return found


def expect_file(address: str, path: str) -> None:
    """Raise if this machine does not find a file, which the user calls `path`, on its disks."""
    if not is_address(address) and not Path(file_of(address)).exists():
        raise InputError(f"{path}: {NOT_EVERYWHERE}")


def read_piece(piece: Piece) -> tuple[PieceRead, dict[int, bytes]]:
    """Read a piece, and deal its rows to the parts that they belong to."""
    for name in (piece.path, piece.address):
        set_read_as(name, piece.read_as)
    expect_version(piece.file, piece.version, piece.path)
    reader, found, lines, tables = _read_ranges(piece) if piece.ranges else _read_whole(piece)
    expect_version(piece.file, piece.version, piece.path)
    drop_copy(piece.file)
    found.keep = None
    dealt, moving = deal(tables, piece.source, piece.parts)
    return _described(piece, reader, found, lines, tables, moving), dealt


def _read_ranges(piece: Piece) -> tuple[Reader, Found, list[int], Tables]:
    reader = plain_reader(piece.address) or default_reader()
    found, joining, lines = Found(Notes(piece.path)), Joining(), list[int]()
    for number, start, end in piece.ranges:
        of_range = nothing_found(reader, Origin(piece.path, piece.address), piece.options)
        stream = open_range(piece.address, piece.path, start, end)
        for batch in reader.read(stream, piece.options, of_range):
            joining.add(batch.tables(), number << RANGE_BITS)
        found.absorb(of_range)
        lines.append(of_range.lines)
    return reader, found, lines, joining.tables()


def _read_whole(piece: Piece) -> tuple[Reader, Found, list[int], Tables]:
    stream, reader = open_source(piece.address, piece.path)
    found, joining = nothing_found(reader, Origin(piece.path, piece.address), piece.options), Joining()
    for batch in reader.read(stream, piece.options, found):
        joining.add(batch.tables(), 0)
    return reader, found, [], joining.tables()


def _described(piece: Piece, reader: Reader, found: Found, lines: list[int], tables: Tables, moving: int) -> PieceRead:
    import numpy

    attempts, words = tables.numbers["attempt"], tables.words
    named, kinds = words.get("result_origin", [None]), words.get("error_kind", [None])
    origin = numpy.where(attempts["result_origin"] > 0, attempts["result_origin"], attempts["source_file"])
    numbers, counts = numpy.unique(origin[origin > 0], return_counts=True)
    blocking = numpy.unique(attempts["error_kind"][(attempts["guardrail"] == 1) & (attempts["error_kind"] > 0)])
    return PieceRead(
        number=piece.number,
        source=piece.source,
        reader=reader.name,
        found=found,
        lines=lines,
        facets=[name for name in attempts if name.startswith(FACET)],
        origin_words=named[1:],
        origins=[(named[at] or "", count) for at, count in zip(numbers.tolist(), counts.tolist(), strict=True)],
        blocking_kinds=[str(kinds[at]) for at in blocking.tolist()],
        has_history=tables.rows("history") > 0,
        rows=tables.rows("attempt"),
        moving=moving,
    )


# -- parts of all sources ---------------------------------------------------------------------------------------


class PartCrew(Crew, Protocol):
    """Those who read pieces, and have the parts that they are dealt to."""

    def read(self, pieces: Sequence[Piece], progress: Callable[[int], None]) -> list[PieceRead]:
        """Read all pieces; return what they showed, in their order."""

    def survey(self, division: Division, pairs: Sequence[tuple[int, int]] | None) -> list[Survey]:
        """Look at the rows of every part."""

    def fold(self, division: Division) -> None:
        """Let every part be folded, now or when it is first asked."""


class ReadInParts:
    """Sources that a crew has read, ready to be folded."""

    def __init__(
        self, paths: Sequence[str], pieces: Sequence[Piece], crew: PartCrew, progress: Callable[[int], None]
    ) -> None:
        self._paths = list(paths)
        self._parts = pieces[0].parts
        self._crew = crew
        self._pieces = crew.read(pieces, progress)
        of_source: list[list[PieceRead]] = [[] for _ in paths]
        for piece in self._pieces:
            of_source[piece.source].append(piece)
        sizes = [sum(piece.size for piece in pieces if piece.source == source) for source in range(len(paths))]
        self._readers = [reader_named(found[0].reader) for found in of_source]
        self._rows = [sum(piece.rows for piece in found) for found in of_source]
        self._places: list[SourcePlaces] = []
        self.read: list[ReadSource] = []
        """What reading each source showed."""
        aim = pieces[0].options.aim
        for path, reader, found, size in zip(paths, self._readers, of_source, sizes, strict=True):
            whole, before = found[0].found, list[int]()
            if found[0].lines:
                whole = Found(Notes(path))
                for piece in found:
                    for lines in piece.lines:
                        before.append((before[-1] if before else 0) + lines)
                    whole.absorb(piece.found)
                before = [0, *before[:-1]]
            self._places.append(SourcePlaces(partial(reader.place, path), before))
            self.read.append(as_read(reader, whole, size, aim))

    def fold(self, rules: Definition, *, combined: bool, memory: str) -> DividedLedger:
        """Find out what rows depend on beside those of their entry, and fold all parts."""
        division = Division(
            paths=self._paths,
            parts=self._parts,
            facets=list(dict.fromkeys(name for piece in self._pieces for name in piece.facets)),
            fields=fields_together([reader.fields for reader in self._readers]),
            rules=rules,
            combined=combined,
            memory=memory,
        )
        if not rules.merges_rows_by_id:
            division = self._with_facts(division)
        self._crew.fold(division)
        return DividedLedger(division, self._rows, self._places, self._crew)

    def _with_facts(self, division: Division) -> Division:
        overlaps: list[Overlap] = []
        strangers: list[int] = []
        several = sum(1 for rows in self._rows if rows) > 1
        if several or any(piece.moving for piece in self._pieces):
            surveys = self._crew.survey(division, None)
            strangers = sorted(place for one in surveys for place in one.strangers)
            shared_times = {(one, other) for found in surveys for one, other in found.shared_times}
            pairs = linked_sources(self._paths, self._rows, shared_times) if several else []
            if pairs:
                overlaps = _added_up(self._crew.survey(division, pairs))
        order = {word: at for at, word in enumerate(dict.fromkeys(w for p in self._pieces for w in p.origin_words))}
        counted: dict[tuple[int, str], int] = {}
        for piece in self._pieces:
            for origin, count in piece.origins:
                counted[piece.source, origin] = counted.get((piece.source, origin), 0) + count
        ordered = sorted(counted.items(), key=lambda item: (item[0][0], order[item[0][1]]))
        named = named_origins([(source, origin, count) for (source, origin), count in ordered], self._rows)
        keys = origin_keys(self._paths, named, overlaps, self._rows)
        kinds = dict.fromkeys((piece.source, kind) for piece in self._pieces for kind in piece.blocking_kinds)
        facts = RunFacts(
            origins=[(source, origin, key) for (source, origin), key in keys.items()],
            blocking_kinds=list(kinds),
            with_history=sorted({piece.source for piece in self._pieces if piece.has_history}),
        )
        return replace(division, facts=facts, strangers=strangers)


def _added_up(surveys: Iterable[Survey]) -> list[Overlap]:
    found: dict[tuple[int, int], list[int]] = {}
    for one in (overlap for each in surveys for overlap in each.overlaps):
        counts = found.setdefault((one.source, one.other), [0, 0, 0])
        for at, count in enumerate((one.found, one.found_with_verdict, one.found_timed)):
            counts[at] += count
    return [Overlap(*pair, *counts) for pair, counts in found.items()]


# -- the processes of this machine ------------------------------------------------------------------------------


_SHARE_OF_MEMORY = 0.5


class LocalCrew:
    """Worker processes of this machine, or this process alone; everything between two steps is on the disk."""

    def __init__(self, folder: Path, pool: Executor | None, processes: int) -> None:
        self._folder = folder
        self._pool = pool
        self._processes = processes
        self._parts = 0
        self._dealt: set[str] = set()

    @property
    def memory(self) -> str:
        """How much memory the engine of one process may use."""
        try:
            whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return ""
        return f"{max(int(whole * _SHARE_OF_MEMORY / self._processes) // 1024**2, 256)}MB"

    def _done(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(work, items) if self._pool is None else in_order(self._pool, work, items, self._processes + 1)

    def read(self, pieces: Sequence[Piece], progress: Callable[[int], None]) -> list[PieceRead]:
        """Read all pieces, each into a file."""
        self._parts = pieces[0].parts
        (self._folder / _ROWS).mkdir()
        found = []
        for piece, data in zip(pieces, self._done(partial(_read_to_file, self._folder), pieces), strict=True):
            found.append(msgspec.msgpack.decode(data, type=PieceRead))
            progress(piece.size)
        return found

    def survey(self, division: Division, pairs: Sequence[tuple[int, int]] | None) -> list[Survey]:
        """Look at the rows of every part."""
        return list(self._done(partial(_survey, self._folder, division, pairs), range(self._parts)))

    def fold(self, division: Division) -> None:
        """Fold every part into a folder."""
        (self._folder / _DIVISION).write_bytes(msgspec.msgpack.encode(division))
        for _ in self._done(partial(_fold, self._folder), range(self._parts)):
            pass
        shutil.rmtree(self._folder / _ROWS)

    def ask(self, questions: Sequence[Question], family: str | None) -> Iterator[list[Rows]]:
        """Ask every part, or what its entries were dealt to."""
        if family is not None and family not in self._dealt:
            (self._folder / f"{_ENTRIES}{family}").mkdir()
            for _ in self._done(partial(_deal_entries, self._folder, family), range(self._parts)):
                pass
            self._dealt.add(family)
        for data in self._done(partial(_ask, self._folder, list(questions), family), range(self._parts)):
            yield read_answers(data)


_ROWS, _FOLDS, _ENTRIES, _DIVISION, _WORDS = "rows", "folds", "entries-", "division", "words"


def _read_to_file(folder: Path, piece: Piece) -> bytes:
    read, dealt = read_piece(piece)
    _write(folder / _ROWS / str(piece.number), dealt)
    return msgspec.msgpack.encode(read)


def _survey(folder: Path, division: Division, pairs: Sequence[tuple[int, int]] | None, part: int) -> Survey:
    return survey(_blobs(folder / _ROWS, part), part, division, pairs)


def _division(folder: Path) -> Division:
    return msgspec.msgpack.decode((folder / _DIVISION).read_bytes(), type=Division)


def _fold(folder: Path, part: int) -> None:
    target = folder / _FOLDS / str(part)
    target.mkdir(parents=True)
    folded = fold_part(_blobs(folder / _ROWS, part), part, _division(folder), target)
    (target / _WORDS).write_bytes(msgspec.msgpack.encode(folded))


def _folded(folder: Path, part: int, *, at_once: bool = False) -> Ledger:
    target = folder / _FOLDS / str(part)
    folded = msgspec.msgpack.decode((target / _WORDS).read_bytes(), type=FoldedPart)
    return open_fold(folded, target, _division(folder), at_once=at_once)


def _deal_entries(folder: Path, column: str, part: int) -> None:
    division = _division(folder)
    with _folded(folder, part) as ledger:
        _write(folder / f"{_ENTRIES}{column}" / str(part), deal_entries(ledger, column, division.parts))


def _ask(folder: Path, questions: Sequence[Question], family: str | None, part: int) -> bytes:
    if family is None:
        with _folded(folder, part, at_once=len(questions) >= MANY_QUESTIONS) as ledger:
            return answers(ledger, questions)
    with entries_of_part(_blobs(folder / f"{_ENTRIES}{family}", part), _division(folder)) as ledger:
        return answers(ledger, questions)


def _write(path: Path, dealt: dict[int, bytes]) -> None:
    """Write what every part gets into one file: where each begins, then all of it."""
    index, at = {}, 0
    for part, data in dealt.items():
        index[part] = (at, len(data))
        at += len(data)
    head = msgspec.msgpack.encode(index)
    with path.open("wb") as file:
        file.write(_LENGTH.pack(len(head)) + head)
        for data in dealt.values():
            file.write(data)


def _blobs(folder: Path, part: int) -> Iterator[bytes]:
    """Yield what a part got, in the order of the pieces."""
    for path in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        with path.open("rb") as file:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            index = msgspec.msgpack.decode(file.read(length), type=dict[int, tuple[int, int]])
            if part in index:
                at, size = index[part]
                file.seek(_LENGTH.size + length + at)
                yield file.read(size)


_LENGTH = struct.Struct("<Q")
