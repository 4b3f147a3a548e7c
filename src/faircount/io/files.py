"""Files by path or by address: list, size, version, read a range.

A path names a file on this machine. An address, `s3://bucket/runs/a.jsonl`, names one in an object store. Files are
only read here, and a file that became another one in the meantime is an error.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from io import FileIO, RawIOBase
from pathlib import Path

from faircount.core.errors import InputError, UsageError
from faircount.io import object_store
from faircount.io.object_requests import FileVersion as FileVersion
from faircount.io.object_requests import ReplacedError as ReplacedError
from faircount.io.object_requests import canonical
from faircount.io.object_store import CHUNK_BYTES

SCHEMES = ("s3", "s3a", "gs", "abfss")
_OTHER_SCHEMES = ("az", "abfs", "azure", "adl", "wasb", "wasbs", "gcs", "http", "https", "hdfs", "file", "ftp", "r2")


def is_address(path: str) -> bool:
    """Return whether a path is an address in an object store."""
    return "://" in path and path.partition("://")[0] in SCHEMES


def has_other_scheme(path: str) -> bool:
    """Return whether a path is an address of a kind that is not read."""
    return "://" in path and path.partition("://")[0].casefold() in _OTHER_SCHEMES


def is_file(path: str) -> bool:
    """Return whether there is a file."""
    return object_store.version_of(path) is not None if is_address(path) else Path(path).is_file()


def is_local_folder(path: str) -> bool:
    """Return whether a path is a folder on this machine."""
    return not is_address(path) and Path(path).is_dir()


def size_of(path: str) -> int:
    """Return how many bytes a file has."""
    return version_of(path).size if is_address(path) else Path(path).stat().st_size


def version_of(path: str) -> FileVersion:
    """Return what a file, or a local folder, is now; an object is what it was when it was first looked at."""
    if is_address(path):
        version = object_store.version_of(path)
        if version is None:
            raise InputError(f"{path}: no such file")
        return version
    state = Path(path).stat()
    return FileVersion(state.st_size, str(state.st_ino), state.st_mtime_ns)


def expect_version(path: str, before: FileVersion, name: str = "") -> None:
    """Raise if a file was replaced or rewritten since it had a version; `name` is what it is called.

    It may grow, as that of a run under way does. Of an object, no other version will be read from now on.
    """
    if is_address(path):
        object_store.expect_version(path, before)
        return
    try:
        after = version_of(path)
    except OSError:
        after = None
    if after is None or after.tag != before.tag or after.size < before.size:
        raise ReplacedError(f"{name or path}: replaced or cut while it was being read; run the command again")
    if after.size == before.size and after.modified != before.modified:
        raise ReplacedError(f"{name or path}: rewritten while it was being read; run the command again")


def open_binary(path: str, start: int = 0, end: int | None = None) -> FileIO | RawIOBase:
    """Open a file, unbuffered, to read and seek in; the bytes of an object from `start` to `end` are one request."""
    return object_store.opened(path, start, end) if is_address(path) else FileIO(path)


def read_range(path: str, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` to `end`, or to its end."""
    with open_binary(path, start, end) as file:
        file.seek(start)
        pieces = iter(lambda: file.read(end - file.tell()), b"")
        return b"".join(piece for piece in pieces if piece is not None)


def chunks_of(path: str) -> Iterator[bytes]:
    """Yield the bytes of a file from its beginning, an object range by range."""
    if is_address(path):
        yield from object_store.chunks_of(path)
        return
    with FileIO(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def local_file(path: str) -> str:
    """Return the path of a file on this machine with the same bytes: an object is copied, and kept until the end."""
    return object_store.local_file(path) if is_address(path) else path


def drop_copy(path: str) -> None:
    """Keep nothing of an object any more."""
    if is_address(path):
        object_store.drop_copy(path)


def list_files(pattern: str) -> list[str]:
    """Return the files that match a glob, sorted."""
    if is_address(pattern):
        return object_store.list_files(pattern)
    return sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())


def is_folder(path: str) -> bool:
    """Return whether there is a folder; at an address, whether any name begins with it."""
    return object_store.is_folder(path) if is_address(path) else Path(path).is_dir()


def list_folder(folder: str) -> list[str]:
    """Return the files in a folder, sorted, without those in folders below."""
    if is_address(folder):
        return object_store.list_folder(folder)
    return [str(path) for path in sorted(Path(folder).iterdir()) if path.is_file()]


def look_again(paths: Iterable[str]) -> None:
    """Find out what is at addresses now, also where they were looked at before."""
    addresses = [path for path in paths if is_address(path)]
    if addresses:
        object_store.look_again(addresses)


def place_key(path: str) -> str:
    """Return what two spellings of one place share."""
    return canonical(path) if is_address(path) else os.path.realpath(path)


def absolute(path: str) -> str:
    """Return a path as any process finds the file, wherever it works."""
    return path if is_address(path) else str(Path(path).absolute())


def refuse_address(path: str) -> None:
    """Raise if a file to be written is an address."""
    if is_address(path):
        raise UsageError(f"{path}: object stores are only read; write to a local file and copy it there")
