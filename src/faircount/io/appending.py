"""Records added to the end of a file that others may read or add to: durable when they are said to be, never half.

What a write that was cut off left behind, a torn end, is moved into a file beside it before anything is added.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

TORN_SUFFIX = ".torn"
"""Behind the name of a file: what was found behind its last whole record."""
NO_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL])
"""What systems say that cannot lock a file."""
_COPY_BYTES = 1024 * 1024


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however many calls that takes."""
    left = memoryview(data)
    while left:
        count = os.write(descriptor, left)
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        left = left[count:]


def sync(descriptor: int) -> None:
    """Return when what was written is on the disk, and the length of the file with it."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: str) -> None:
    """Make the name of a new file durable, where the file system has such a thing."""
    descriptor = os.open(Path(path).parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def move_end(descriptor: int, path: str, end: int) -> None:
    """Move what follows a place of a file into one beside it, and only then cut it off."""
    torn_path = path + TORN_SUFFIX
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(torn_path, flags, 0o600), "ab", buffering=0) as torn:  # noqa: PTH123
        _copy_end(descriptor, end, torn.fileno())
        sync(torn.fileno())
    sync_folder(torn_path)
    os.ftruncate(descriptor, end)
    sync(descriptor)


def _copy_end(source: int, offset: int, target: int) -> None:
    last = b""
    while piece := os.pread(source, _COPY_BYTES, offset):
        write_all(target, piece)
        offset += len(piece)
        last = piece
    if not last.endswith(b"\n"):
        write_all(target, b"\n")  # so that the next one begins on a line of its own
