"""Apache Spark as the crew that has the parts: it moves opaque bytes, and everything else is done as on one machine.

Executors read pieces of files with our readers, deal the rows to parts, and fold and ask every part in DuckDB. Spark
repeats what a lost machine had. DataFrames only, since Spark Connect has nothing else. An error that is expected comes
back as a row: raised, Spark would repeat the task and print a Java trace.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from faircount.cluster.session import ROWS_AT_ONCE, collected, for_bytes, open_session, without_warnings
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.ledger.parts import (
    Division,
    FoldedPart,
    Survey,
    answers,
    deal_entries,
    entries_of_part,
    fold_part,
    open_fold,
    read_answers,
    survey,
)
from faircount.ledger.questions import Question, Rows
from faircount.readers.pieces import MANY_QUESTIONS, Piece, PieceRead, expect_file, read_piece
from faircount.version import __version__

if TYPE_CHECKING:
    from faircount.ledger.store import Ledger

GIGABYTE = 1024**3
LEAST_TASK, MOST_TASK = 64 * 1024**2, GIGABYTE
LEAST_PART = 128 * 1024**2
"""So much of files, or more, is one part where there are fewer parts than cores."""
MOST_PARTS = 4096
BLOB_BYTES = 16 * 1024**2
"""A larger row would not fit into what Spark hands to Python at once."""
_CORES = 16
"""Assumed where nobody says how many there are."""

_SCHEMA = "part int, kind string, number int, blob binary"
_READ, _ROWS, _ERROR, _FOLD, _ANSWERS, _ENTRIES = "read", "rows", "error", "fold", "answers", "entries"
_PARTS_SETTING, _TASK_SETTING = "spark.faircount.parts", "spark.faircount.taskBytes"
_PAUSE_VARIABLE = "FAIRCOUNT_TASK_PAUSE"
"""Lets tasks that read or fold wait for so many seconds, so that a test can kill them meanwhile."""

Record = tuple[int, str, int, bytes]
"""Part, kind, number in its kind, and bytes."""


class SparkEngine:
    """A Spark session that analyses are run with."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._checked = False

    def sizes(self, size: int) -> tuple[int, int]:
        """Return how many parts so many bytes are dealt to, and how many bytes one task reads.

        Settings of Spark with names of ours come first.
        """
        cores = self._cores()
        task = min(max(size // (4 * cores), LEAST_TASK), MOST_TASK)
        parts = min(max(size // GIGABYTE, min(cores, size // LEAST_PART), 1), MOST_PARTS)
        return self._setting(_PARTS_SETTING) or parts, self._setting(_TASK_SETTING) or task

    def _setting(self, name: str) -> int:
        value = self._session.conf.get(name, None)
        if value is None:
            return 0
        if not value.isdecimal() or not int(value):
            raise UsageError(f"--spark-conf {name}={value}: must be a whole number above 0")
        return int(value)

    def _cores(self) -> int:
        with contextlib.suppress(Exception):
            return int(self._session.sparkContext.defaultParallelism)
        with contextlib.suppress(Exception):
            instances = int(self._session.conf.get("spark.executor.instances"))
            return instances * int(self._session.conf.get("spark.executor.cores", "1"))
        return _CORES

    @property
    def memory(self) -> str:
        """How much memory the engine of one task may use, as executors are set up."""
        with contextlib.suppress(Exception):
            overhead = str(self._session.conf.get("spark.executor.memoryOverhead"))
            amount, unit = int(overhead.rstrip("bBmMgGkK") or 0), overhead.lower().rstrip("b")[-1:]
            megabytes = amount * 1024 if unit == "g" else amount // 1024 if unit == "k" else amount
            return f"{megabytes // int(self._session.conf.get('spark.executor.cores', '1'))}MB"
        return "1GB"

    def answers_of(self, work: Callable[[str], bytes], paths: Sequence[str]) -> list[bytes]:
        """Return what a function makes of each of some files, read where there is room."""
        self._check()
        tasks = min(len(paths), 4 * self._cores())
        made = _mapped(self._session.range(0, len(paths), 1, tasks), partial(_whole, work, list(paths)))
        return [blob for *_, blob in sorted(_collected(made, "analysing files"), key=_number)]

    def _check(self) -> None:
        """Find out whether executors have what they need, before they read anything."""
        if not self._checked:
            tasks = self._cores()
            _collected(_mapped(self._session.range(0, tasks, 1, tasks), _nothing), "comparing versions")
            self._checked = True

    @contextlib.contextmanager
    def crew(self, task_bytes: int) -> Iterator[SparkCrew]:
        """Give a crew for one analysis; what it has kept is given back."""
        self._check()
        crew = SparkCrew(self._session, task_bytes)
        with for_bytes(self._session):
            try:
                yield crew
            finally:
                crew.close()


class SparkCrew:
    """Executors of a Spark cluster."""

    def __init__(self, session: Any, task_bytes: int) -> None:
        self._session = session
        self._task_bytes = task_bytes
        self._parts = 1
        self._kept: list[Any] = []
        self._rows: Any = None
        self._folded: Any = None
        self._entries: dict[str, Any] = {}

    def close(self) -> None:
        """Give back what was kept on the executors."""
        for kept in self._kept:
            with contextlib.suppress(Exception):
                kept.unpersist()

    def read(self, pieces: Sequence[Piece], progress: Callable[[int], None]) -> list[PieceRead]:
        """Let all pieces be read and their rows be dealt."""
        self._parts = pieces[0].parts
        tasks = list(_tasks(pieces, self._task_bytes))
        made = _mapped(self._session.range(0, len(tasks), 1, len(tasks)), partial(_read, tasks), self._parts)
        self._rows = self._keep(self._dealt(made))
        found = _collected(self._rows.where(f"kind IN ('{_READ}', '{_ERROR}')"), "reading")
        progress(sum(piece.size for piece in pieces))
        return [msgspec.msgpack.decode(blob, type=PieceRead) for *_, blob in sorted(found, key=_number)]

    def survey(self, division: Division, pairs: Sequence[tuple[int, int]] | None) -> list[Survey]:
        """Look at the rows of every part."""
        made = _mapped(self._rows, partial(_survey, division, pairs))
        return [msgspec.msgpack.decode(blob, type=Survey) for *_, blob in _collected(made, "comparing files")]

    def fold(self, division: Division) -> None:
        """Let every part be folded when it is first asked, and keep that."""
        self._division = division
        self._folded = self._keep(_mapped(self._rows, partial(_fold, division)))

    def ask(self, questions: Sequence[Question], family: str | None) -> Iterator[list[Rows]]:
        """Ask every part, or what its entries were dealt to."""
        asked = self._folded
        if family is not None:
            if family not in self._entries:
                dealing = partial(_deal_entries, self._division, family)
                self._entries[family] = self._keep(self._dealt(_mapped(self._folded, dealing, self._parts)))
            asked = self._entries[family]
        sent = msgspec.msgpack.encode(list(questions))
        what = "folding and counting" if family is None else "counting families"
        found = _collected(_mapped(asked, partial(_ask, self._division, sent, family)), what)
        for *_, blob in sorted(found, key=lambda record: record[0]):
            yield read_answers(blob)

    def _dealt(self, made: Any) -> Any:
        if hasattr(made, "repartitionById"):
            return made.repartitionById(self._parts, "part")
        # Several parts may meet in one partition, which is allowed for.
        return made.repartition(self._parts, "part")

    def _keep(self, made: Any) -> Any:
        from pyspark import StorageLevel

        kept = made.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept


def _mapped(rows: Any, work: Callable[[Iterable[Any]], Iterator[Any]], parts: int = 1) -> Any:
    """Let executors do some work with rows; what they make of them is dealt to so many parts."""
    with without_warnings():
        return rows.mapInArrow(partial(_with_same_versions, versions(), parts, work), _SCHEMA)


def _number(record: Record) -> int:
    return record[2]


def _collected(made: Any, what: str) -> list[Record]:
    """Return rows; raise what was expected to go wrong, if anything did."""
    found = [(row.part, row.kind, row.number, bytes(row.blob)) for row in collected(made, what)]
    failures = sorted((number, blob) for _, kind, number, blob in found if kind == _ERROR)
    if failures:
        kind, message = json.loads(failures[0][1])
        raise {"UsageError": UsageError}.get(kind, InputError)(message)
    return found


def _tasks(pieces: Sequence[Piece], size: int) -> Iterator[list[Piece]]:
    """Yield pieces that are read by one task: some of about so many bytes in all."""
    task: list[Piece] = []
    in_all = 0
    for piece in pieces:
        if task and in_all + piece.size > size:
            yield task
            task, in_all = [], 0
        task.append(piece)
        in_all += piece.size
    if task:
        yield task


@contextlib.contextmanager
def spark_engine(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkEngine]:
    """Give the cluster at an address, or that of the session that is there."""
    with open_session(master, settings) as session:
        yield SparkEngine(session)


# -- what executors do ------------------------------------------------------------------------------------------


@cache
def versions() -> dict[str, str]:
    """Return the versions on which numbers may depend."""
    return {
        "Faircount": __version__,
        "DuckDB": metadata.version("duckdb"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def _with_same_versions(
    ours: Mapping[str, str], parts: int, work: Callable[[Iterable[Any]], Iterator[Any]], batches: Iterable[Any]
) -> Iterator[Any]:
    """Do some work where versions are those of the program that asks for it."""
    theirs = versions()
    if theirs == ours:
        yield from work(batches)
        return
    other = "; ".join(f"{name} {theirs[name]} there, {ours[name]} here" for name in ours if theirs[name] != ours[name])
    error = UsageError(f"--engine spark: executors have other versions: {other}; install the same ones")
    yield _batch([_error_record(error, part, 0) for part in range(parts)])


def _nothing(_: Iterable[Any]) -> Iterator[Any]:
    return iter(())


def _records(batches: Iterable[Any]) -> Iterator[Record]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batch(records: Sequence[Record]) -> Any:
    import pyarrow

    parts, kinds, numbers, blobs = zip(*records, strict=True)
    return pyarrow.RecordBatch.from_arrays(
        [
            pyarrow.array(parts, pyarrow.int32()),
            pyarrow.array(kinds, pyarrow.string()),
            pyarrow.array(numbers, pyarrow.int32()),
            pyarrow.array(blobs, pyarrow.binary()),
        ],
        names=["part", "kind", "number", "blob"],
    )


def _batches(records: Iterable[Record]) -> Iterator[Any]:
    """Yield records in batches that are not too large."""
    waiting: list[Record] = []
    size = 0
    for record in records:
        if waiting and (size + len(record[3]) > BLOB_BYTES or len(waiting) >= ROWS_AT_ONCE):
            yield _batch(waiting)
            waiting, size = [], 0
        waiting.append(record)
        size += len(record[3])
    if waiting:
        yield _batch(waiting)


def _by_part(
    batches: Iterable[Any], kind: str, work: Callable[[int, list[bytes]], Iterator[Record]], parts: int = 1
) -> Iterator[Any]:
    """Do something with the records of a kind of every part of a partition, in the order of their numbers.

    Errors that came this way go on.
    """
    found: dict[int, list[tuple[int, bytes]]] = {}
    for part, its_kind, number, blob in _records(batches):
        if its_kind == kind:
            found.setdefault(part, []).append((number, blob))
        elif its_kind == _ERROR:
            yield _batch([(part, its_kind, number, blob)])
    for part, records in sorted(found.items()):
        blobs = [blob for _, blob in sorted(records)]
        yield from _batches(_expected_errors(partial(work, part, blobs), part, parts))


def _expected_errors(work: Callable[[], Iterator[Record]], number: int, parts: int = 1) -> Iterator[Record]:
    """Yield records; an error that is expected becomes one for every part that they are dealt to.

    If a machine is lost, Spark repeats the work for some of the parts alone: each has to hear that it failed this time.
    """
    try:
        yield from work()
    except FaircountError as error:
        yield from (_error_record(error, part, number) for part in range(parts))


def _error_record(error: FaircountError, part: int, number: int) -> Record:
    return part, _ERROR, number, json.dumps([type(error).__name__, str(error)]).encode()


def _read(tasks: Sequence[Sequence[Piece]], batches: Iterable[Any]) -> Iterator[Any]:
    """Read the pieces of a task."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for piece in tasks[task]:
                yield from _batches(_expected_errors(partial(_read_piece, piece), piece.number, piece.parts))


def _read_piece(piece: Piece) -> Iterator[Record]:
    _pause()
    expect_file(piece.address, piece.path)
    read, dealt = read_piece(piece)
    yield piece.number % piece.parts, _READ, piece.number, msgspec.msgpack.encode(read)
    for part, blob in dealt.items():
        yield part, _ROWS, piece.number, blob


def _survey(division: Division, pairs: Sequence[tuple[int, int]] | None, batches: Iterable[Any]) -> Iterator[Any]:
    def surveyed(part: int, blobs: list[bytes]) -> Iterator[Record]:
        yield part, _ANSWERS, 0, msgspec.msgpack.encode(survey(blobs, part, division, pairs))

    return _by_part(batches, _ROWS, surveyed)


def _fold(division: Division, batches: Iterable[Any]) -> Iterator[Any]:
    """Fold parts; yield the files that they became, in pieces that are not too large."""

    def folded(part: int, blobs: list[bytes]) -> Iterator[Record]:
        _pause()
        with tempfile.TemporaryDirectory(prefix="faircount-") as folder:
            described = fold_part(blobs, part, division, Path(folder))
            files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
        data = msgspec.msgpack.encode((described, files))
        for number, start in enumerate(range(0, len(data), BLOB_BYTES)):
            yield part, _FOLD, number, data[start : start + BLOB_BYTES]

    return _by_part(batches, _ROWS, folded)


@contextlib.contextmanager
def _unfolded(division: Division, blobs: Sequence[bytes], *, at_once: bool) -> Iterator[Ledger]:
    folded, files = msgspec.msgpack.decode(b"".join(blobs), type=tuple[FoldedPart, dict[str, bytes]])
    with tempfile.TemporaryDirectory(prefix="faircount-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        with open_fold(folded, Path(folder), division, at_once=at_once) as ledger:
            yield ledger


def _deal_entries(division: Division, column: str, batches: Iterable[Any]) -> Iterator[Any]:
    def dealt(part: int, blobs: list[bytes]) -> Iterator[Record]:
        with _unfolded(division, blobs, at_once=False) as ledger:
            for target, blob in deal_entries(ledger, column, division.parts).items():
                yield target, _ENTRIES, part, blob

    return _by_part(batches, _FOLD, dealt, division.parts)


def _ask(division: Division, sent: bytes, family: str | None, batches: Iterable[Any]) -> Iterator[Any]:
    questions = msgspec.msgpack.decode(sent, type=list[Question])

    def answered(part: int, blobs: list[bytes]) -> Iterator[Record]:
        many = len(questions) >= MANY_QUESTIONS
        with _unfolded(division, blobs, at_once=many) if family is None else entries_of_part(blobs, division) as ledger:
            yield part, _ANSWERS, 0, answers(ledger, questions)

    return _by_part(batches, _FOLD if family is None else _ENTRIES, answered)


def _whole(work: Callable[[str], bytes], paths: Sequence[str], batches: Iterable[Any]) -> Iterator[Any]:
    """Do something with whole files."""

    def done(number: int) -> Iterator[Record]:
        yield 0, _ANSWERS, number, work(paths[number])

    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _batches(_expected_errors(partial(done, number), number))


def _pause() -> None:
    seconds = os.environ.get(_PAUSE_VARIABLE)
    if seconds:
        import time

        time.sleep(float(seconds))
