"""The run journal: one record per line, written and read back.

One process writes a journal at a time, and holds a lock on it for as long; no record counts before it is safe on the
disk. What tasks that are ready have added is written at once, in one piece; a thread syncs what was written, so that
one sync serves many records, a record that need not be durable does not wait for one, and the event loop goes on
meanwhile. A record in the file is whole: what a failed write left behind is cut off again, and after that nothing more
is accepted, because what follows an unknown end could not be trusted.

A journal is read once from front to back, also while a run adds to it, and nothing of its texts is kept: what stays in
memory follows the number of cases and attempts. A record is whole when its line ends in a line feed and is one JSON
object. What follows the last whole record is a torn end, which a run that was stopped leaves behind; damage before that
is an error. Nothing here knows what a record means.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import stat
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

from msgspec import Struct, field

from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.interrupts import uninterrupted
from faircount.core.text import clip, visible
from faircount.io.appending import NO_LOCKS, TORN_SUFFIX, move_end
from faircount.io.appending import sync as _sync
from faircount.io.appending import sync_folder as _sync_folder
from faircount.io.appending import write_all as _write_all
from faircount.io.lenient_json import BadLine
from faircount.readers.journals import (
    MAX_LINE_BYTES,
    AttemptRecord,
    CaseRecord,
    JournalRecord,
    Line,
    ResumedRecord,
    RunRecord,
    State,
    decode,
    decode_header,
    decode_record,
    encode_record,
)

_HEADER = b'{"kind":"run"'
"""How the first line of a journal begins."""

_BETWEEN_SYNCS = 0.002
"""The thread that syncs lets so many seconds pass from one beginning to the next."""
_WRITTEN_AT_ONCE = 1000
"""So many records are gathered before they are written, where many come at once."""

Waiting = asyncio.Future[None]


class JournalError(FaircountError):
    """The journal cannot be written any more; what is in it can be resumed."""

    exit_code = 4


class _InUseError(UsageError):
    """The file is that of another run, or of another process that is about to write it."""


class _RecordGroup(Struct, eq=False):
    """Records that are written together, and who waits for them."""

    lines: list[bytes] = field(default_factory=list)
    until_written: list[Waiting] = field(default_factory=list)
    until_durable: dict[asyncio.AbstractEventLoop, Waiting] = field(default_factory=dict)
    """One for all in an event loop: nobody may cancel it."""
    must_last: bool = False
    """Whether the group is synced; notes are not, when they come alone."""
    durable: bool = False

    @property
    def waiting(self) -> list[Waiting]:
        return [*self.until_written, *self.until_durable.values()]


class Journal:
    """A journal that this process writes; `create` and `reopen` make one. It may be used from several threads."""

    def __init__(self, path: str, descriptor: int, end: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._written = end  # up to here the file holds whole records
        self._synced = end  # and up to here they survive the end of the machine
        self._queue = _RecordGroup()
        self._unsynced: list[_RecordGroup] = []  # written, and somebody needs them to be durable
        self._about_to_write: asyncio.AbstractEventLoop | None = None  # which loop is
        self._closing = False
        self._failure = ""
        self._reported = False  # whether anybody has heard of the failure
        self._make_locks()
        self._thread: threading.Thread | None = None
        _open_journals.add(self)

    def _make_locks(self) -> None:
        self._guard = threading.RLock()  # of what is queued, unsynced, failed; held for moments only
        self._written_there = threading.Condition(self._guard)  # what the thread that syncs waits for
        self._writing = threading.RLock()  # held while a group is written
        self._syncing = threading.Lock()  # held while what was written is synced

    @classmethod
    @uninterrupted
    def create(cls, path: str, header: RunRecord) -> Journal:
        """Make a journal where no file is yet, or none with a whole header; when this returns its own is durable."""
        line, created = encode_record(header), True
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            if not Path(path).is_file() or has_begun(path):
                raise _in_use(path) from None
            descriptor, created = _open_to_append(path), False
        except OSError as error:
            raise UsageError(f"{path}: cannot create the journal: {error.strerror or error}") from error
        journal = cls(path, descriptor, 0)
        try:
            _lock(descriptor, path)
            _clear(descriptor, path)
            journal._write(line)
            journal._sync()
            _sync_folder(path)
        except _InUseError:
            journal._release()
            raise
        except BaseException as error:
            if created:  # and still locked: nobody else can have begun to write it
                with contextlib.suppress(OSError):
                    Path(path).unlink()
            journal._release()
            if isinstance(error, OSError):
                raise UsageError(f"{path}: cannot create the journal: {error.strerror or error}") from error
            raise
        return journal

    @classmethod
    def reopen(cls, path: str, known: State | None = None) -> tuple[Journal, State]:
        """Open a journal to go on with it, and return what it comes to: `known`, if nothing was added since.

        Bytes behind the last whole record are moved to a file beside it. Damage before that is an error, and changes
        nothing.
        """
        descriptor = _open_to_append(path)
        journal = cls(path, descriptor, 0)
        try:
            _lock(descriptor, path)
            # Records are only ever added, so that a state without a torn end is that of a file as long as it.
            if known is not None and known.torn == 0 and os.fstat(descriptor).st_size == known.end:
                state = known
            else:
                with open(descriptor, "rb", closefd=False) as file:
                    state = state_of(file, path)
            if state.torn:
                _move_end(descriptor, path, state)
            journal._written = journal._synced = state.end
            repeated = len(state.calls_under_way())
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            journal.append_now(ResumedRecord(at, repeated, state.torn))
        except BaseException:
            journal._release()
            raise
        return journal, state

    async def append(self, record: JournalRecord) -> None:
        """Add a record and return when it is durable. A caller who stops waiting does not take it back."""
        await asyncio.shield(self.adding(record))

    def adding(self, record: JournalRecord) -> Waiting:
        """Add a record, and return what is done when it is durable; those who go on meanwhile ask later.

        Records that are written together share it: to cancel it would be to cancel it for all of them.
        """
        loop = asyncio.get_running_loop()
        waiting = self._enqueue(encode_record(record), must_last=True, loop=loop).until_durable[loop]
        self._write_soon(loop)
        return waiting

    async def write(self, record: JournalRecord) -> None:
        """Add a record and return when it is written: it survives the end of this process, not that of the machine."""
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._enqueue(encode_record(record), written=waiting)
        self._write_soon(loop)
        await waiting

    def note(self, record: JournalRecord) -> None:
        """Add a record without waiting for it; it stands before every record that is added later."""
        self._enqueue(encode_record(record))
        loop = _running_loop()
        if loop is None:
            self._write_now()
        else:
            self._write_soon(loop)

    def append_now(self, record: JournalRecord) -> None:
        """Add a record, with those that wait before it, and return when it is durable; this blocks."""
        self.append_all_now([record])

    def append_all_now(self, records: Iterable[JournalRecord]) -> None:
        """Add records, with those that wait before them, and return when all are durable; this blocks."""
        group: _RecordGroup | None = None
        for number, record in enumerate(records, start=1):
            group = self._enqueue(encode_record(record), must_last=True)
            if number % _WRITTEN_AT_ONCE == 0:
                self._write_queued()
        self._write_queued()
        self._sync_written()
        if group is not None and not group.durable:
            raise self._refusal()

    def close(self) -> None:
        """Write and sync what is left and give the lock back. This blocks; closing twice is harmless."""
        with self._guard:
            if self._closing:
                return
            self._closing = True
            self._written_there.notify_all()
        if self._thread is not None and self._thread.is_alive():  # an interrupt may have come before it was started
            self._thread.join()
        self._write_queued()
        self._sync_written()
        try:
            if self._written > self._synced and not self._failure:
                self._sync()
        except OSError as error:
            self._fail(error, self._synced, [])
        finally:
            self._release()
        if self._failure and not self._reported:
            raise self._refusal()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JournalError:
            if kind is None:
                raise

    def _enqueue(
        self,
        line: bytes,
        *,
        must_last: bool = False,
        written: Waiting | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> _RecordGroup:
        """Add a line to the group that is written next; in `loop` somebody asks when it is durable."""
        with self._guard:
            if self._failure:
                raise self._refusal()
            if self._closing:
                raise JournalError(f"{self.path}: the journal is closed and takes no more records")
            group = self._queue
            group.lines.append(line)
            group.must_last |= must_last
            if written is not None:
                group.until_written.append(written)
            if loop is not None and loop not in group.until_durable:
                group.until_durable[loop] = loop.create_future()
        return group

    def _write_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write when the tasks that are ready have had their turn: their records make one group."""
        if self._about_to_write is not loop:
            self._about_to_write = loop
            loop.call_soon(self._write_now)

    def _write_now(self) -> None:
        with self._guard:
            self._about_to_write = None
            if self._closing:
                return
            if self._thread is None:
                # A thread that ends with the process, so that a journal that nobody closes does not keep it alive.
                self._thread = threading.Thread(target=self._syncer, name="journal", daemon=True)
                self._thread.start()
        # Into the memory of the system, which takes less time than to hand it to a thread.
        self._write_queued()

    def _syncer(self) -> None:
        began = time.monotonic() - _BETWEEN_SYNCS
        while True:
            with self._guard:
                self._written_there.wait_for(lambda: self._unsynced or self._closing)
                if self._closing:
                    return
            # Where records come faster than this, more of them share a sync, and the event loop is woken less often.
            time.sleep(max(0.0, began + _BETWEEN_SYNCS - time.monotonic()))
            began = time.monotonic()
            self._sync_written()

    def _write_queued(self) -> None:
        """Write everything that waits. Whoever calls this finds its own records written when it returns."""
        with self._writing:
            with self._guard:
                group, self._queue = self._queue, _RecordGroup()
            if not group.lines:
                return
            safe = self._written
            try:
                self._write(b"".join(group.lines))
            except BaseException as error:
                # Whatever it was, half a line must not stay where the next one begins, and those who wait must hear.
                self._fail(error, safe, [group])
                if not isinstance(error, Exception):
                    raise
                return
            group.lines.clear()  # the group itself stays until it is durable
            _notify(group.until_written)
            if group.must_last:
                with self._guard:
                    self._unsynced.append(group)
                    self._written_there.notify_all()

    def _sync_written(self) -> None:
        """Sync what was written. Whoever calls this finds its own records durable when it returns."""
        with self._syncing:
            with self._guard:
                groups, self._unsynced = self._unsynced, []
            if not groups:
                return
            try:
                self._sync()
            except BaseException as error:
                self._fail(error, self._synced, groups)
                # That it was cut is synced here and not after a write that failed: of what could not be written back
                # the system tells whoever syncs first, and those must be the ones who wait for it.
                with contextlib.suppress(OSError):
                    _sync(self._descriptor)
                if not isinstance(error, Exception):
                    raise
                return
            for group in groups:
                group.durable = True
            _notify([one for group in groups for one in group.until_durable.values()])

    def _write(self, data: bytes) -> None:
        _write_all(self._descriptor, data)
        self._written += len(data)

    def _sync(self) -> None:
        written = self._written
        _sync(self._descriptor)
        self._synced = written

    def _fail(self, error: BaseException, end: int, groups: list[_RecordGroup]) -> None:
        """Cut the file back to its last safe record, and tell everybody who waits."""
        with self._writing:
            try:
                os.ftruncate(self._descriptor, end)
                rest = "its records are intact"
            except OSError:
                rest = "its end may be torn; resuming repairs it"
            self._refuse_more(error, rest, groups, cut=end < self._written)

    def _refuse_more(self, error: BaseException, rest: str, groups: list[_RecordGroup], *, cut: bool) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        with self._guard:
            self._failure = (
                f"cannot write the journal: {self.path}: {reason or repr(error)}; {rest}; "
                f"resume with faircount resume {shlex.quote(self.path)}"
            )
            later, self._queue = [self._queue], _RecordGroup()
            if cut:  # otherwise what was written before is there, and still gets its sync
                later, self._unsynced = [*self._unsynced, *later], []
            waiting = [one for group in [*groups, *later] for one in group.waiting]
            # What is no Exception, such as an interrupt, goes on to whoever called: that it is not hidden by another.
            self._reported |= bool(waiting) or not isinstance(error, Exception)
        _notify(waiting, self._failure)

    def _release(self) -> None:
        """Give the file back, and its lock with it."""
        descriptor, self._descriptor = self._descriptor, -1
        self._closing = True
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def _refusal(self) -> JournalError:
        self._reported = True
        return JournalError(self._failure)

    def _leave_to_parent(self) -> None:
        """Forget the file in a forked process, whose copy of it would hold the lock after the parent's end."""
        # The locks may be held by a thread that this process has not got: they are made again.
        self._make_locks()
        self._thread, self._unsynced = None, []
        self._failure = f"{self.path}: the journal belongs to the process that opened it"
        self._reported, self._queue = True, _RecordGroup()
        self._release()


_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for journal in [one for one in _open_journals if one._descriptor >= 0]:
        journal._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def _notify(waiting: Iterable[Waiting], failure: str = "") -> None:
    """Let those who wait go on, each in its own event loop; a loop that is closed has nobody who waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for one in waiting:
        by_loop.setdefault(one.get_loop(), []).append(one)
    here = _running_loop()
    for loop, ours in by_loop.items():
        if loop is here:
            _resolve(ours, failure)
            continue
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, ours, failure)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _resolve(waiting: list[Waiting], failure: str) -> None:
    for one in waiting:
        if one.done():
            continue
        if failure:
            one.set_exception(JournalError(failure))
            one.exception()  # who went on meanwhile may never ask, and hears of it with the next record
        else:
            one.set_result(None)


def _open_to_append(path: str) -> int:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  opening a pipe would wait for ever
            raise InputError(f"{path}: not a regular file, so not a run journal")
        return os.open(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the journal of a run") from None
    except OSError as error:
        raise InputError(f"{path}: cannot open the journal to resume: {error.strerror or error}") from error


def _in_use(path: str) -> _InUseError:
    return _InUseError(
        f"{path}: already exists; resume its run with faircount resume {shlex.quote(path)}, "
        "or choose another file with --journal"
    )


def _clear(descriptor: int, path: str) -> None:
    """Empty a locked file in which no run has begun; another process may have taken or removed it before the lock."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        begun = not _is_torn_header(file.readline(MAX_LINE_BYTES + 1))
    if begun or not os.path.lexists(path) or not os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116
        raise _in_use(path)
    os.ftruncate(descriptor, 0)


def _lock(descriptor: int, path: str) -> None:
    """Keep every other process out for as long as the descriptor is open."""
    try:
        import fcntl
    except ImportError:
        raise _no_locks(path, "no locks that Faircount knows on this system") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        raise _InUseError(
            f"{path}: another process{holder} is writing this journal; wait until it ends, or stop it"
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise UsageError(f"{path}: cannot lock the journal: {error.strerror or error}") from error
        raise _no_locks(path, error.strerror or str(error)) from error


def _no_locks(path: str, reason: str) -> UsageError:
    return UsageError(
        f"{path}: files cannot be locked here ({reason}), so two runs could write the same journal; "
        "choose a file on a local disk with --journal"
    )


def _holder(descriptor: int) -> str:
    """Return which process holds the lock, where the system tells."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = os.fstat(descriptor).st_ino
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].split(":")[-1] == str(inode) and int(words[4]) > 0:
                return f" (pid {words[4]})"
    return ""


def _move_end(descriptor: int, path: str, state: State) -> None:
    """Move what follows the last whole record into a file beside the journal, and only then cut it off."""
    try:
        move_end(descriptor, path, state.end)
    except OSError as error:
        raise JournalError(
            f"{path}: cannot move its torn end ({state.torn:,} bytes) to {path}{TORN_SUFFIX}: "
            f"{error.strerror or error}; the journal is unchanged; try again with faircount resume {shlex.quote(path)}"
        ) from error


# -- reading ------------------------------------------------------------------------------------------------------


_BUFFER_BYTES = 1024 * 1024

Shape = TypeVar("Shape", CaseRecord, AttemptRecord)


class JournalReader:
    """A journal's records from the first to the last whole one; it can be read more than once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.end = self.torn = 0
        """Where the last whole record ended when the journal was last read to its end, and how many bytes followed."""
        with _opened(path) as file:
            self.header = header_of(file, path)

    def __iter__(self) -> Iterator[Line]:
        with _opened(self.path) as file:
            yield from _whole_records(file, self)

    def records_at(self, offsets: Iterable[int], shape: type[Shape]) -> Iterator[Shape]:
        """Yield the records of one kind that begin at these bytes, in this order; somebody may have edited them."""
        with _opened(self.path) as file:
            for offset in offsets:
                file.seek(offset)
                line = file.readline(MAX_LINE_BYTES + 1)
                try:
                    record = decode(line, strict=True)
                except BadLine as bad:
                    raise InputError(f"{self.path}: no record begins at byte {offset}: {bad}") from None
                except (ValueError, OverflowError) as error:
                    journal = decode_record(line)
                    kind, name = (visible(str(journal.get(key))) for key in ("kind", "case"))
                    raise InputError(
                        f"{self.path}: the {kind} record of {clip(name, 100)} cannot be understood: "
                        f"{visible(str(error))}; restore the journal, or start a new run"
                    ) from None
                assert isinstance(record, shape)  # `State` says where which kind of record begins
                yield record

    def state(self) -> State:
        """Return what the records come to."""
        with _opened(self.path) as file:
            return state_of(file, self.path)


def read_journal(path: str) -> JournalReader:
    """Return the reader of a journal whose header is whole; anything else is an error."""
    return JournalReader(path)


def has_begun(path: str) -> bool:
    """Return whether a file holds more than the beginning of a header, which a run that was killed leaves behind."""
    if not os.path.lexists(path):
        return False
    with _opened(path) as file:
        return not _is_torn_header(file.readline(MAX_LINE_BYTES + 1))


def _is_torn_header(line: bytes) -> bool:
    """Return whether a first line is a piece of a header: none, part of it, or zeros where the machine went down."""
    if line.endswith(b"\n") or len(line) > MAX_LINE_BYTES:
        return False
    return line.startswith(_HEADER) or _HEADER.startswith(line) or not line.strip(b"\0")


def state_of(file: BinaryIO, path: str) -> State:
    """Read a journal from its beginning and return what it comes to."""
    file.seek(0)
    state = State(path, header_of(file, path))
    file.seek(0)
    for line in _whole_records(file, state):
        try:
            state.take(line.number, line.offset, line.record)
        except BadLine as bad:
            where = f"{path}:{line.number}"
            raise InputError(f"{where}: cannot understand this record: {bad}; nothing was changed") from None
    return state


def header_of(file: BinaryIO, path: str) -> RunRecord:
    """Return the first record of a journal, which says what was run and how."""
    line = file.readline(MAX_LINE_BYTES + 1)
    try:
        return decode_header(line, path)
    except BadLine as bad:
        if not _is_torn_header(line):
            raise InputError(f"{path}:1: not the header of a run journal: {bad}") from None
        raise InputError(f"{path}: no complete header, so nothing was run; start the run again") from None


def _whole_records(file: BinaryIO, journal: State | JournalReader) -> Iterator[Line]:
    """Yield the whole records of a journal; after the last, `journal` has where they end and how many bytes follow."""
    number = offset = journal.torn = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        try:
            record = decode(line)
        except BadLine as bad:
            if not _is_last(file, line):
                raise InputError(
                    f"{journal.path}:{number}: the journal is damaged here: {bad}; more records follow, so this is "
                    "not just a torn end. Nothing was changed. To continue from before the damage, resume a copy: "
                    f"head -c {offset} {shlex.quote(journal.path)} > COPY"
                ) from None
            journal.torn = file.tell() - offset
            break
        yield Line(number, offset, record)
        offset += len(line)
    journal.end = offset


def _is_last(file: BinaryIO, line: bytes) -> bool:
    """Return whether nothing follows a line, of which only the beginning was read where it is over the limit."""
    if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
        return True  # the file ended here, whatever a run that goes on has added since
    while not line.endswith(b"\n"):
        line = file.readline(_BUFFER_BYTES)
        if not line:
            return True
    return not file.read(1)


def _opened(path: str) -> BinaryIO:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(f"{path}: not a regular file, so not a run journal")
        return Path(path).open("rb", buffering=_BUFFER_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the journal of a run") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
