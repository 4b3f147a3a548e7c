"""The file of labels that the page writes: added to under a lock, and on the disk before anybody hears of it.

Several threads and several processes may write one file. Who writes holds the lock, reads what others have added, and
decides only then what to add. What a write that was cut off has left behind is moved into a file beside it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from faircount.core.errors import FaircountError, UsageError
from faircount.core.text import visible
from faircount.io.appending import NO_LOCKS, TORN_SUFFIX, move_end, sync, sync_folder, write_all
from faircount.io.lenient_json import BadLine
from faircount.readers.label_log import SCHEMA, AnyRecord, LabelLog, LabelsRecord, decode, encode
from faircount.version import __version__

_READ_AT_ONCE = 1024 * 1024
_PROBLEMS_KEPT = 5


class NotSavedError(FaircountError):
    """A label could not be written: nothing of it is in the file."""

    exit_code = 74


def now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class LabelWriter:
    """A file of labels: what it comes to, and the way to add to it. It may be used from several threads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.log = LabelLog()
        self.problems: list[str] = []
        """What is wrong with the file, in words, the first few."""
        self.torn = ""
        """What became of a torn end, in words."""
        self._lock = threading.RLock()
        self._descriptor = -1
        self._offset = self._lines = 0
        if Path(path).exists():
            self._open(create=False)
            self.refresh()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    # -- reading -------------------------------------------------------------------------------------------------

    def refresh(self) -> LabelLog:
        """Return what the file comes to by now."""
        with self._lock:
            if self._descriptor < 0 and Path(self.path).exists():
                self._open(create=False)
            if self._descriptor >= 0:
                self._read_new()
            return self.log

    def _open(self, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT if create else 0)
        try:
            if Path(self.path).exists() and not stat.S_ISREG(os.stat(self.path).st_mode):  # noqa: PTH116  a pipe waits
                raise UsageError(f"{self.path}: not a regular file, so no labels can be added to it")
            descriptor = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be opened to add labels: {error.strerror or error}") from error
        self._start_again(descriptor)

    def _start_again(self, descriptor: int) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._offset, self._lines, self.log, self.problems = descriptor, 0, 0, LabelLog(), []

    def _is_current(self) -> bool:
        """Return whether the open file is the one that the path names."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))  # noqa: PTH116
        except FileNotFoundError:
            raise NotSavedError(f"{self.path}: the file of labels is gone; put it back, or start again") from None

    def _read_new(self) -> None:
        """Read the whole lines that were added since; a file that somebody replaced or cut is read from the start."""
        if not self._is_current():
            self._open(create=False)
        if os.fstat(self._descriptor).st_size < self._offset:
            self._start_again(os.dup(self._descriptor))
        rest = b""
        while piece := os.pread(self._descriptor, _READ_AT_ONCE, self._offset + len(rest)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                self._add(line)

    def _add(self, line: bytes) -> None:
        self._lines = number = self._lines + 1
        try:
            record = decode(line) if line.strip() else None
        except BadLine as reason:
            if number == 1:
                raise self._not_ours() from None
            record = None
            if len(self.problems) < _PROBLEMS_KEPT:
                self.problems.append(f"line {number} could not be read: {reason}")
        if number == 1:
            if not isinstance(record, LabelsRecord):
                raise self._not_ours()
            if record.schema != SCHEMA:
                raise UsageError(
                    f"{self.path}: labels of schema {record.schema}; this version of Faircount writes schema {SCHEMA}"
                )
        self.log.add(record, number)

    def _not_ours(self) -> UsageError:
        return UsageError(
            f"{self.path}: not a file of labels that the page has begun; name a new file. Sheets of labels are for "
            "--judge-quality"
        )

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, make: Callable[[LabelLog], Sequence[AnyRecord]]) -> None:
        """Add what a function makes of all labels so far; return when it is on the disk.

        Nobody else adds anything meanwhile. The function may add its records to the log that it gets, to see what they
        come to: they are in there only once.
        """
        with self._lock:
            if self._descriptor < 0:
                self._open(create=True)
            self._hold()
            while not self._is_current():
                self._open(create=False)
                self._hold()
            try:
                self._read_new()
                self._repair()
                end = os.fstat(self._descriptor).st_size
                header = [] if end else [LabelsRecord(schema=SCHEMA, version=__version__, started=now())]
                try:
                    if made := make(self.log):
                        self._append(b"".join(map(encode, [*header, *made])), end)
                except BaseException:
                    # The function may have added what is not in the file.
                    self._start_again(os.dup(self._descriptor))
                    raise
                finally:
                    self._read_new()
            finally:
                self._release()

    def _append(self, lines: bytes, end: int) -> None:
        try:
            write_all(self._descriptor, lines)
            sync(self._descriptor)
            if not end:
                sync_folder(self.path)
        except OSError as error:
            # Where even this fails, the next one who writes finds a torn end, or a record that nobody was told of.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise NotSavedError(f"{self.path}: the label was not saved: {error.strerror or error}") from error

    def _repair(self) -> None:
        """Move a torn end away: whoever wrote it was stopped, and never said that it was saved."""
        size = os.fstat(self._descriptor).st_size
        if size > self._offset:
            move_end(self._descriptor, self.path, self._offset)
            self.torn = (
                f"The last line was incomplete, since a write was cut off. Its {size - self._offset:,} bytes are in "
                f"{visible(self.path)}{TORN_SUFFIX}; no saved label is lost."
            )

    def _hold(self) -> None:
        try:
            import fcntl

            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except ImportError:
            raise self._no_locks("no locks that Faircount knows on this system") from None
        except OSError as error:
            if error.errno in NO_LOCKS:
                raise self._no_locks(error.strerror or str(error)) from error
            raise NotSavedError(f"{self.path}: cannot be locked: {error.strerror or error}") from error

    def _no_locks(self, reason: str) -> UsageError:
        return UsageError(f"{self.path}: files cannot be locked here ({reason}); choose a file on a local disk")

    def _release(self) -> None:
        import fcntl

        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
