"""The runs that a page shows: one `ResultSet` per file, opened when it is first asked, and again when the file grew.

Only files that were given are ever opened: an address names a run by a digest, never by a path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.result_set import ResultSet
from faircount.app.web.naming import Naming
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.model import Analysis
from faircount.core.text import clip, visible
from faircount.io.files import is_address
from faircount.io.streams import STDIN, file_of
from faircount.readers import inputs
from faircount.readers.registry import ReadAs, is_run_folder
from faircount.report.source_labels import datasets_and_times, source_labels

DEEPEST = 4
MOST_LOOKED_AT = 5_000
"""So many files of a folder are looked into; more are hardly results."""
NOT_SEARCHED = frozenset({"node_modules", "site-packages", "__pycache__", "dist", "build"})
AGAIN_AFTER = 1.0
"""A file that grows is read again no more often than this, in seconds."""
_ID_DIGITS = 10
_HEAD, _TAIL = 64 * 1024, 64 * 1024
_WRITTEN_LATELY = 30.0

Stamp = tuple[int, int]
RUNNING, STOPPED, COMPLETE = "running", "stopped", "complete"


class RunSummary(Struct, frozen=True):
    """A run in one line: its figures, or why there are none."""

    analysis: Analysis | None
    error: str = ""


class JournalState(Struct, frozen=True):
    """What a journal says of its run: the dataset, when it began, and whether it goes on."""

    state: str = ""
    dataset: str = ""
    started: datetime | None = None


def run_id(content: bytes) -> str:
    """Return by what addresses name a run."""
    return hashlib.sha256(content).hexdigest()[:_ID_DIGITS]


def found_files(names: Sequence[str], read_as: ReadAs | None = None) -> list[str]:
    """Return the result files that names mean: files, folders with those in them, and globs; nothing twice."""
    files: list[str] = []
    for name in names:
        if name == STDIN:
            raise UsageError("the page reads files again and again, and standard input can be read only once")
        if is_address(name):
            raise UsageError(f"{name}: the page looks at local files again and again; copy the file to the disk first")
        if Path(name).is_dir() and not is_run_folder(name):
            files += _results_below(Path(name), read_as)
        else:
            files += inputs.expand([name], read_as)
    if not files:
        raise InputError(f"{', '.join(names)}: no result files")
    return [item.path for item in inputs.distinct(list(dict.fromkeys(files)))]


def _results_below(folder: Path, read_as: ReadAs | None) -> Iterator[str]:
    looked_at = 0
    for current, folders, files in os.walk(folder):
        inner = Path(current)
        deep = len(inner.relative_to(folder).parts)
        kept = sorted(name for name in folders if not name.startswith(".") and name not in NOT_SEARCHED)
        folders[:] = kept if deep < DEEPEST else []
        looked_at += len(files)
        if looked_at > MOST_LOOKED_AT:
            return
        if files:
            with contextlib.suppress(InputError):
                yield from inputs.expand(inputs.results_in(str(inner), read_as)[0], read_as)


class RunName(Struct, frozen=True):
    """What pages call a run whose file may be elsewhere the next time: an export names runs by their content."""

    id: str
    path: str
    date: datetime | None = None


class Run:
    """One result file or journal, open to be asked; what it answers is that of the file as it was last read.

    `path` is what pages call the file, `file` what is opened.
    """

    def __init__(self, file: str, options: AnalyzeOptions, name: RunName | None = None) -> None:
        self.file = file
        self.path = file if name is None else name.path
        self.id = run_id(os.fsencode(os.path.realpath(file))) if name is None else name.id
        self.label = Path(self.path).name
        self.naming = Naming({} if self.path == file else {file: self.path})
        self.dataset = ""
        self.date: datetime | None = None
        self._options = options
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._read_at = 0.0
        self._results: ResultSet | None = None
        self._with_rows: ResultSet | None = None
        self._old: list[ResultSet] = []
        self._summary: RunSummary | None = None
        self._journal: tuple[Stamp, JournalState] | None = None
        self._warming: threading.Thread | None = None

    # -- the open file -------------------------------------------------------------------------------------------

    @property
    def stamp(self) -> Stamp:
        """The size of the file and when it was last written."""
        try:
            found = Path(file_of(self.file)).stat()
        except OSError:
            return 0, 0
        return found.st_size, found.st_mtime_ns

    def results(self, *, rows: bool = False) -> ResultSet:
        """Return the open file; `rows` for questions about rows, for which another one is kept beside it.

        What the cache holds of a large file are its entries. To read its rows takes longer, and nobody who looks at
        entries is to wait for it.
        """
        with self._lock:
            self._refresh()
            if rows:
                self._with_rows = self._with_rows or self._opened()
                return self._with_rows
            self._results = self._results or self._opened()
            return self._results

    def _opened(self) -> ResultSet:
        return ResultSet([self.file], self._options)

    def _refresh(self) -> None:
        """Leave what was read behind if the file has changed since; who is still asking it is let finish."""
        now = self.stamp
        if self._stamp is not None and now != self._stamp and time.monotonic() - self._read_at < AGAIN_AFTER:
            return
        if now != self._stamp:
            for results in self._old:
                results.close()
            self._old = [results for results in (self._results, self._with_rows) if results is not None]
            self._results = self._with_rows = self._summary = self._warming = None
            self._stamp, self._read_at = now, time.monotonic()

    def warm_up(self) -> None:
        """Read the rows of the file meanwhile, for the first query about them."""
        with self._lock:
            if self._warming is not None:
                return
            self._warming = threading.Thread(target=self._read_rows, daemon=True)
        self._warming.start()

    def _read_rows(self) -> None:
        with contextlib.suppress(FaircountError, OSError):
            self.results(rows=True).ask(lambda _: None, where="")

    def close(self) -> None:
        """Give the memory back."""
        with self._lock:
            for results in (*self._old, self._results, self._with_rows):
                if results is not None:
                    results.close()
            self._old, self._results, self._with_rows = [], None, None

    # -- what it says --------------------------------------------------------------------------------------------

    @property
    def is_summed_up(self) -> bool:
        """Whether the summary is at hand."""
        return self._summary is not None

    def summary(self) -> RunSummary:
        """Return the figures of the run; a file that cannot be used says why."""
        results = self.results()
        if self._summary is None:
            try:
                self._summary = RunSummary(self.naming.of(results.analysis(details=False)))
            except (FaircountError, OSError) as error:
                self._summary = RunSummary(None, self.naming.of(str(error)))
        return self._summary

    def analysis(self, **keywords: Any) -> Analysis:
        """Return every figure of the run."""
        found: Analysis = self.naming.of(self.results().analysis(**keywords))
        return found

    def journal(self) -> JournalState:
        """Return what the journal of a run says of it; nothing for other files."""
        stamp = self.stamp
        if self._journal is None or self._journal[0] != stamp or self._journal[1].state in (RUNNING, STOPPED):
            self._journal = stamp, _journal_state(self.file)
        return self._journal[1]


def _journal_state(path: str) -> JournalState:
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            tail = file.read()
            inode, written = os.fstat(file.fileno()).st_ino, os.fstat(file.fileno()).st_mtime
    except OSError:
        return JournalState()
    header = _object(head.partition(b"\n")[0])
    if header.get("kind") != "run":
        return JournalState()
    settings = header.get("settings")
    files = settings.get("files") if isinstance(settings, dict) else None
    named = [Path(str(one[0])).stem for one in files or () if isinstance(one, list) and one]
    last = _object(tail.rstrip(b"\n").rpartition(b"\n")[2])
    if last.get("kind") == "end":
        state = COMPLETE if last.get("complete") else STOPPED
    else:
        state = RUNNING if _is_locked(inode, written) else STOPPED
    return JournalState(state, clip(visible(", ".join(named)), 60), _moment(header.get("started")))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_locked(inode: int, written: float) -> bool:
    """Return whether a process holds the lock of a journal; where nobody can say, whether it was written to lately."""
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return time.time() - written < _WRITTEN_LATELY
    words = map(str.split, locks.splitlines())
    return any(len(word) > 5 and word[1] == "FLOCK" and word[5].rpartition(":")[2] == str(inode) for word in words)


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


class Runs:
    """All runs of a page, by the digests that addresses name them by."""

    def __init__(self, files: Sequence[str], options: AnalyzeOptions, names: Sequence[RunName] | None = None) -> None:
        self.all = [Run(*one) for one in zip(files, repeat(options), names or repeat(None, len(files)))]
        self._by_id = {run.id: run for run in self.all}
        self._labelled = False
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(max_workers=2)
        self._under_way: dict[str, Future[RunSummary]] = {}
        journals = [run.journal() for run in self.all]
        paths = [run.path for run in self.all]
        named = datasets_and_times(paths)
        for run, label, journal, (dataset, moment) in zip(self.all, source_labels(paths), journals, named, strict=True):
            run.label, run.dataset = label, journal.dataset or dataset
            run.date = journal.started or moment or _written(run.file)
        for run, name in zip(self.all, names or (), strict=False):
            run.date = name.date or run.date

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(cancel_futures=True)
        for run in self.all:
            run.close()

    def find(self, name: str) -> Run | None:
        """Return the run with a digest."""
        return self._by_id.get(name)

    def begin(self) -> list[Future[RunSummary]]:
        """Begin to work out the figures that are not at hand, and return what is under way."""
        waiting = []
        with self._lock:
            for run in self.all:
                if run.is_summed_up:
                    continue
                known = self._under_way.get(run.id)
                if known is None or known.done():
                    known = self._under_way[run.id] = self._workers.submit(run.summary)
                waiting.append(known)
        return waiting

    def summed_up(self, seconds: float | None) -> list[Run]:
        """Return the runs whose figures are at hand after so many seconds; None waits for all."""
        wait(self.begin(), seconds)
        self.call_by_target()
        return [run for run in self.all if run.is_summed_up]

    def call_by_target(self) -> None:
        """Call runs by their targets, once all are read and it is known which these are."""
        if self._labelled or not all(run.is_summed_up for run in self.all):
            return
        targets = []
        for run in self.all:
            analysis = run.summary().analysis
            targets.append(analysis.sources[0].target if analysis is not None and analysis.sources else None)
        for run, label in zip(self.all, source_labels([run.path for run in self.all], targets), strict=True):
            run.label = label
        self._labelled = True

    def chosen(self, names: Iterable[str]) -> list[Run]:
        """Return the runs that digests name, each once; others are left out."""
        return [run for name in dict.fromkeys(names) if (run := self.find(name)) is not None]


def _written(path: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(Path(file_of(path)).stat().st_mtime, UTC)
    except OSError:
        return None
