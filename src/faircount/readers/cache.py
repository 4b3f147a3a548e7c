"""What was read from large files, kept in the user's cache folder so that it need not be read again.

An entry is a folder with tables in Parquet and everything else in JSON: what the rows of the file were folded into or,
where several files are analysed together, the rows; and answers to what was asked of the file, without prompts or
responses. Its name is made of the file's size, of every byte of the file, of the way it was read and of the version
that read it: a file that was changed in any way has another name, a copy has the same. Entries are written whole or
not at all, checked before they are believed, and safe to delete at any moment. When the cache grows beyond its limit,
what was not used for longest goes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh3_128_hexdigest

from faircount.core.findings import Notes
from faircount.core.model import Source
from faircount.io.files import size_of
from faircount.io.streams import SECRET_BYTES, Secret, file_of, identity_of_file
from faircount.ledger import engine
from faircount.ledger.engine import DuckDB, StoredTables
from faircount.ledger.schema import Tables
from faircount.ledger.store import FOLDED, Ledger
from faircount.version import __version__

FOLDER_VARIABLE = "FAIRCOUNT_CACHE"
LIMIT_BYTES = 1024**3
FORMAT = 16
"""Raised whenever what is kept, or what the reader makes of a line, changes."""

_CONTENT = "content"
_SECRET = "secret"
_ANSWER = "answer-"
_UNFINISHED = ".unfinished-"
_OUR_NAMES = re.compile(r"\d+-[0-9a-f]{32}-[0-9a-f]{32}|\.unfinished-[0-9a-f]{16}")
_PATTERN_CHARACTERS = frozenset("*?[")
"""The engine would take a path with these for the pattern of several."""
_ABANDONED_SECONDS = 24 * 60 * 60


class ReadSource(Struct, frozen=True):
    """A source that was read, the problems with it, and where some of its lines begin."""

    source: Source
    notes: Notes
    anchors: list[tuple[int, int]]


class _Content(Struct, frozen=True):
    """What an entry holds beside its tables; words are decoded when they are wanted."""

    source: Source
    notes: list[tuple[str, str, int, list[int]]]
    anchors: list[tuple[int, int]]
    columns: dict[str, list[str]]
    rows: int
    words: dict[str, Raw]
    checksums: dict[str, int] = msgspec.field(default_factory=dict)


class CachedSource(Struct, frozen=True):
    """An entry of the cache that fits a file."""

    read: ReadSource
    tables: StoredTables


def default_folder() -> Path | None:
    """Return the user's cache folder for Faircount, or None where the user has no home."""
    named = os.environ.get(FOLDER_VARIABLE)
    try:
        return Path(named) if named else _folder_of_the_system()
    except RuntimeError:
        return None


def users_cache(*, wanted: bool) -> Cache | None:
    """Return the user's cache, or None where there is no place for it or it is not wanted."""
    folder = default_folder() if wanted else None
    return None if folder is None else Cache(folder)


def _folder_of_the_system() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "faircount" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "faircount"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "faircount"


class Cache:
    """The entries of one folder. Whatever goes wrong with it, an analysis only takes longer."""

    def __init__(self, folder: Path, *, limit: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit = limit

    def secret(self) -> Secret | None:
        """Return the secret of the folder, made when it is first needed, or None where it cannot be kept."""
        path = self.folder / _SECRET
        if not _PATTERN_CHARACTERS.isdisjoint(str(self.folder)):
            return None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # What was cut off by a full disk, or is no file, is made again; entries that went by it are not found.
            if not (path.is_file() and path.stat().st_size == SECRET_BYTES):
                path.unlink(missing_ok=True)
                with contextlib.suppress(FileExistsError):
                    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(os.urandom(SECRET_BYTES))
            return Secret(path.read_bytes())
        except (OSError, ValueError):
            return None

    def find(
        self, path: str, how: str, question: str = "", *, meanwhile: Callable[[], None] = lambda: None
    ) -> CachedSource | bytes | None:
        """Return what was kept of a file with exactly this content, read in this way: the answer to a question if any.

        If the tables may be needed, `meanwhile` is called before the file is looked at, which takes a moment.
        """
        try:
            size = size_of(file_of(path))
            if not any(self.folder.glob(f"{size}-*")):
                return None
            secret = self.secret()
            if secret is None:
                return None
            answer = _answer_name(path, question) if question else ""
            if not answer or not any(self.folder.glob(f"{size}-*/{answer}")):
                meanwhile()
            entry = self.folder / _name(size, identity_of_file(file_of(path), secret), how)
            return (_answer(entry / answer) if answer else None) or _load(entry, path)
        except OSError:
            return None

    def keep_answer(self, entry: Path, path: str, question: str, answer: bytes) -> None:
        """Keep the answer to a question about a file beside what else is kept of it."""
        unfinished = entry / f"{_ANSWER}{os.urandom(8).hex()}.new"
        with contextlib.suppress(OSError):
            unfinished.write_bytes(_with_checksum(answer))
            unfinished.rename(entry / _answer_name(path, question))
            self.make_room()

    def keep(self, how: str) -> Keeping:
        """Prepare an entry."""
        return Keeping(self, self.folder / f"{_UNFINISHED}{os.urandom(8).hex()}", how)

    def make_room(self) -> None:
        """Remove what was not used for longest until the rest is within the limit."""
        entries = sorted(self._entries(), key=lambda entry: entry[1])
        total = sum(size for _, _, size in entries)
        for path, _, size in entries:
            if total <= self.limit:
                break
            shutil.rmtree(path, ignore_errors=True)
            total -= size
        for path in self._ours():
            if path.name.startswith(_UNFINISHED) and path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> tuple[int, int]:
        """Remove everything; return how many entries there were, and how many bytes."""
        count, size = self.size()
        with contextlib.suppress(OSError):
            for path in self._ours():
                shutil.rmtree(path, ignore_errors=True)
            (self.folder / _SECRET).unlink(missing_ok=True)
        return count, size

    def size(self) -> tuple[int, int]:
        """Return how many entries there are, and how many bytes."""
        sizes = [size for _, _, size in self._entries()]
        return len(sizes), sum(sizes)

    def _entries(self) -> Iterator[tuple[Path, float, int]]:
        """Yield each entry with the time of its last use and its bytes."""
        with contextlib.suppress(OSError):
            for path in self._ours():
                content = path / _CONTENT
                if content.is_file():
                    yield path, content.stat().st_mtime, sum(file.stat().st_size for file in path.iterdir())

    def _ours(self) -> list[Path]:
        """Return what we made in the folder, whatever else is there."""
        return [path for path in self.folder.iterdir() if _OUR_NAMES.fullmatch(path.name)]


def _answer_name(path: str, question: str) -> str:
    """Return the name of an answer, which names the file and depends on the program, of whatever version."""
    changed = max(file.stat().st_mtime_ns for file in Path(__file__).parent.parent.rglob("*.py"))
    return _ANSWER + xxh3_128_hexdigest(f"{changed} {path} {question}".encode(errors="surrogateescape"))


def _name(size: int, identity: str, how: str) -> str:
    way = xxh3_128_hexdigest(f"{FORMAT} {__version__} {how}".encode())
    return f"{size}-{identity}-{way}"


# -- reading an entry -----------------------------------------------------------------------------------------


def _load(folder: Path, path: str) -> CachedSource | None:
    """Return an entry if it is there and all its files are what was written; what is damaged is removed."""
    if not folder.is_dir():
        return None
    content = _checked(folder)
    if content is None:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with contextlib.suppress(OSError):
        os.utime(folder / _CONTENT)
    notes = Notes(path)
    for code, subject, count, lines in content.notes:
        notes.counts[code, subject], notes.lines[code, subject] = count, lines
    words = content.words

    def words_of(lexicon: str) -> list[str | None]:
        return msgspec.json.decode(words[lexicon], type=list[str | None])

    tables = StoredTables(folder, content.columns, list(words), words_of, content.rows)
    source = msgspec.structs.replace(content.source, path=path)
    return CachedSource(ReadSource(source, notes, content.anchors), tables)


def _answer(path: Path) -> bytes | None:
    """Return an answer if it is there and what was written."""
    try:
        os.utime(path.parent / _CONTENT)
        return _without_checksum(_bytes_of(path))
    except OSError:
        return None


def _with_checksum(data: bytes) -> bytes:
    return xxh3_64_hexdigest(data).encode() + b"\n" + data


def _without_checksum(data: bytes) -> bytes | None:
    """Return what a checksum was written with, or None if it is something else."""
    checksum, _, data = data.partition(b"\n")
    return data if checksum == xxh3_64_hexdigest(data).encode() else None


def _checked(folder: Path) -> _Content | None:
    try:
        data = _without_checksum(_bytes_of(folder / _CONTENT))
        if data is None:
            return None
        content = msgspec.json.decode(data, type=_Content)
        found = {name: xxh3_64_intdigest(_bytes_of(folder / name)) for name in content.checksums}
    except (OSError, msgspec.DecodeError):
        return None
    return content if found == content.checksums else None


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():  # opening a pipe would wait for ever
        raise OSError(f"{path} is not a regular file")
    return path.read_bytes()


# -- writing an entry -----------------------------------------------------------------------------------------


class Keeping:
    """An entry being written by a thread of its own, beside the analysis of what it holds."""

    def __init__(self, cache: Cache, folder: Path, how: str) -> None:
        self.folder = folder
        """Where the entry is until it is whole."""
        self._cache = cache
        self._how = how
        self.target = folder
        """Where the entry is when it is whole."""
        self._content: _Content | None = None
        self._interrupt: Callable[[], None] = lambda: None
        self._cancelled = False
        self._thread: threading.Thread | None = None

    def describe(self, identity: str, read: ReadSource, tables: Tables) -> None:
        """Say what was read, before its rows or their fold are written."""
        self.target = self._cache.folder / _name(read.source.bytes, identity, self._how)
        notes = read.notes
        self._content = _Content(
            source=read.source,
            notes=[(*key, count, notes.lines[key]) for key, count in notes.counts.items()],
            anchors=read.anchors,
            columns={name: list(columns) for name, columns in tables.numbers.items()},
            rows=tables.rows("attempt"),
            words={lexicon: Raw(msgspec.json.encode(words)) for lexicon, words in tables.words.items()},
        )

    def write_rows(self, tables: Tables) -> None:
        """Begin to write the rows of the source."""

        def write() -> None:
            with contextlib.closing(DuckDB(engine.connect(folder=self.folder, threads=1))) as writing:
                self._interrupt = writing.interrupt
                engine.write_tables(writing, self.folder, tables)
                self._interrupt = lambda: None

        self._begin(write)

    def write_fold(self, ledger: Ledger) -> None:
        """Begin to write what the rows were folded into; the ledger must stay open until that is finished."""
        beside = ledger.beside()
        self._interrupt = beside.interrupt

        def write() -> None:
            with contextlib.closing(beside):
                for table in FOLDED:
                    beside.save(table, self.folder / engine.table_file(table))
                self._interrupt = lambda: None

        self._begin(write)

    def _begin(self, write: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._work, args=(write,))
        self._thread.start()

    def finish(self, *, cancel: bool = False) -> None:
        """Wait until the entry is written, or see to it that it is not."""
        if self._thread is None:
            return
        if cancel:
            self._cancelled = True
            self._interrupt()
        self._thread.join()
        self._thread = None

    def _work(self, write: Callable[[], None]) -> None:
        # A cache that cannot be written is no reason to bother anybody.
        with contextlib.suppress(OSError, engine.module().Error):
            self.folder.mkdir(mode=0o700)
            write()
            self._write_content()
            if not self._cancelled:
                self.folder.rename(self.target)
                self._cache.make_room()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_content(self) -> None:
        if self._content is None:
            raise ValueError("an entry that was not described")
        checksums = {file.name: xxh3_64_intdigest(file.read_bytes()) for file in self.folder.iterdir()}
        data = msgspec.json.encode(msgspec.structs.replace(self._content, checksums=checksums))
        (self.folder / _CONTENT).write_bytes(_with_checksum(data))
