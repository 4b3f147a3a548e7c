"""Files in object stores: listed, and fetched range by range with one request for each.

The first range of an object is kept in a temporary folder until the program ends, so that a small file is fetched once
however often it is looked at. Listings give sizes and e_tags. Every request says which version it wants, so that
numbers are never made of two.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import FileIO, RawIOBase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.core.errors import FaircountError, InputError
from faircount.core.workers import Beside
from faircount.io import object_requests
from faircount.io.object_requests import (
    AbsentError,
    FileVersion,
    ReplacedError,
    bucket_and_key,
    canonical,
    get_range,
    get_version,
)

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

RANGE_BYTES = 8 * 1024 * 1024
"""A large file is read in ranges of so many bytes."""
CHUNK_BYTES = 64 * 1024
HEAD_BYTES = RANGE_BYTES + CHUNK_BYTES
"""So much of every object is kept: its first range, and where the last line of that most likely ends."""
KEPT_BYTES = 4 * 1024**3
LARGEST_COPY = KEPT_BYTES // 2
AHEAD_FILES, AHEAD_BYTES = 16, 64 * 1024**2
"""So many objects, and bytes of them, are fetched at a time where many are listed."""
FRESH_SECONDS = 5.0
"""What was looked at so recently is not looked at again."""
_ASKED_ONE_BY_ONE = 3
_LONGEST_NAME = 200
_FOLDER = "FAIRCOUNT_OBJECTS"
"""Names the folder of the process that started this one: what is kept there is removed even if this one is killed."""


class _KeptObject(Struct, frozen=True):
    """The beginning of an object on the disk, or all of it."""

    path: Path
    size: int
    version: FileVersion


class _Looked(Struct, frozen=True):
    version: FileVersion | None
    """None if there is no such object."""
    at: float
    elsewhere: bool = False
    """Whether it was another process that looked: this one reads a part of it."""


_lock = threading.RLock()
_looked: dict[str, _Looked] = {}
_listings: dict[str, tuple[float, list[str], list[str]]] = {}
"""The objects and the folders in a folder, and when it was listed."""
_listed: dict[str, None] = {}
"""Objects that a listing gave and that were not fetched yet, in their order."""
_kept: OrderedDict[str, _KeptObject] = OrderedDict()
_kept_bytes = [0]
_folder: list[TemporaryDirectory[str]] = []


# -- what is there ----------------------------------------------------------------------------------------------


def version_of(address: str) -> FileVersion | None:
    """Return what an object was when it was first looked at, or None if there is none.

    What looks like a pattern, a folder or something in an object is not asked for.
    """
    place = canonical(address)
    with _lock:
        if place not in _looked:
            key = bucket_and_key(place)[1]
            if not key or key.endswith("/") or glob.has_magic(key) or any(map(_is_known, _above(place))):
                return None
            _look(place, address)
        return _looked[place].version


def expect_version(address: str, version: FileVersion) -> None:
    """Read only this version of an object, which perhaps another process has seen."""
    place = canonical(address)
    with _lock:
        if place not in _looked or _looked[place].version != version:
            _note(place, version)
            _looked[place] = _Looked(version, time.monotonic(), elsewhere=True)


def split_member(address: str) -> tuple[str, str | None]:
    """Return the object that an address names, and what it names inside of it."""
    places = [address, *_above(address)]
    found = next(filter(_is_known, places), None) or next((one for one in places if version_of(one) is not None), None)
    return (address, None) if found in (None, address) else (found, address[len(found) + 1 :])


def _above(address: str) -> list[str]:
    """Return the addresses of the folders in which an object is, the innermost first; the bucket is none."""
    return [f"{_bucket(address)}{parent}" for parent in _parents(bucket_and_key(address)[1])]


def _is_known(address: str) -> bool:
    known = _looked.get(canonical(address))
    return known is not None and known.version is not None


def look_again(addresses: Iterable[str]) -> None:
    """Find out what is at addresses now that were looked at before: by listings, where several are in one folder."""
    now, folders = time.monotonic(), dict[str, list[str]]()
    with _lock:
        for address in dict.fromkeys(map(canonical, addresses)):
            known = _looked.get(address)
            if known is None or now - known.at < FRESH_SECONDS:
                continue
            if known.version is None:
                del _looked[address]
            else:
                folders.setdefault(address.rpartition("/")[0], []).append(address)
        for folder, files in folders.items():
            if len(files) > _ASKED_ONE_BY_ONE:
                for file in files:
                    _looked.pop(file)
                _listings.pop(folder, None)
                _objects_and_folders(folder, folder)
            for file in files:
                if len(files) <= _ASKED_ONE_BY_ONE or file not in _looked:
                    _ask_version(file)


def _ask_version(address: str) -> None:
    try:
        _note(address, get_version(address))
    except AbsentError:
        _looked[address] = _Looked(None, time.monotonic())


def _note(address: str, version: FileVersion) -> None:
    """Note what is at an address; what was kept of another version is of no use."""
    kept = _kept.get(address)
    if kept is not None and kept.version != version:
        _drop(address)
    _looked[address] = _Looked(version, time.monotonic())


# -- listing ----------------------------------------------------------------------------------------------------


def is_folder(address: str) -> bool:
    """Return whether there are objects in a folder, or below."""
    with _lock:
        return any(_objects_and_folders(address.rstrip("/"), address))


def list_folder(folder: str) -> list[str]:
    """Return the objects in a folder, sorted, without those in folders below."""
    with _lock:
        return _wanted(_objects_and_folders(folder.rstrip("/"), folder)[0])


def list_files(pattern: str) -> list[str]:
    """Return the objects whose addresses match a glob, sorted."""
    steps = bucket_and_key(pattern)[1].split("/")
    fixed = next((place for place, step in enumerate(steps) if glob.has_magic(step)), len(steps) - 1)
    folder = f"{_bucket(pattern)}{'/'.join(steps[:fixed])}".rstrip("/")
    with _lock:
        if "**" in steps:
            found = [
                address
                for address in _noted(folder, object_requests.list_all(folder, pattern))
                if _fits(address[len(folder) + 1 :].split("/"), steps[fixed:])
            ]
        else:
            found = list(_matching(folder, steps[fixed:], pattern))
        return _wanted(found or ([pattern] if _is_known(pattern) else []))


def _wanted(addresses: Sequence[str]) -> list[str]:
    """Return addresses, sorted, and remember that they are likely to be read in this order."""
    found = sorted(addresses)
    _listed.update(dict.fromkeys(map(canonical, found)))
    return found


def _matching(folder: str, steps: Sequence[str], named: str) -> Iterator[str]:
    objects, folders = _objects_and_folders(folder, named)
    found = objects if len(steps) == 1 else folders
    for address in found:
        if _name_fits(address.rpartition("/")[2], steps[0]):
            if len(steps) == 1:
                yield address
            else:
                yield from _matching(address, steps[1:], named)


def _objects_and_folders(folder: str, named: str) -> tuple[list[str], list[str]]:
    """Return the addresses of the objects in a folder, and of the folders in it."""
    known = _listings.get(folder)
    if known is not None and time.monotonic() - known[0] < FRESH_SECONDS:
        return known[1], known[2]
    found, inner = object_requests.list_folder(folder, named)
    objects, folders = _noted(folder, found), [f"{_bucket(folder)}{key}" for key in inner]
    _listings[folder] = time.monotonic(), objects, folders
    return objects, folders


def _noted(folder: str, found: object_requests.Listed) -> list[str]:
    """Return the addresses of objects, and note their versions. An object that only stands for a folder is none."""
    above = {bucket_and_key(folder)[1], *(parent for key, _ in found for parent in _parents(key))}
    addresses = []
    for key, version in found:
        if version.size or key not in above:
            addresses.append(f"{_bucket(folder)}{key}")
            _note(canonical(addresses[-1]), version)
    return addresses


def _bucket(address: str) -> str:
    """Return the part of an address before its key, as it is spelled there."""
    return f"{address[: len(address) - len(bucket_and_key(address)[1])].rstrip('/')}/"


def _parents(key: str) -> Iterator[str]:
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def _fits(names: Sequence[str], steps: Sequence[str]) -> bool:
    """Return whether the names of folders and an object match the steps of a glob."""
    if not steps:
        return not names
    if steps[0] != "**":
        return bool(names) and _name_fits(names[0], steps[0]) and _fits(names[1:], steps[1:])
    if len(steps) == 1:
        return not any(name.startswith(".") for name in names)
    passed = next((place for place, name in enumerate(names) if name.startswith(".")), len(names))
    return any(_fits(names[count:], steps[1:]) for count in range(passed + 1))


def _name_fits(name: str, step: str) -> bool:
    return fnmatch.fnmatchcase(name, step) and (step.startswith(".") or not name.startswith("."))


# -- reading ----------------------------------------------------------------------------------------------------


def opened(address: str, start: int, end: int | None) -> FileIO | RawIOBase:
    """Open an object to read and seek in; the bytes from `start` to `end` are one request."""
    version = version_of(address)
    if version is None:
        raise InputError(f"{address}: no such file")
    wanted = version.size if end is None else min(end, version.size)
    if wanted <= HEAD_BYTES and not (_looked[canonical(address)].elsewhere and version.size > HEAD_BYTES):
        return FileIO(_kept_of(address).path)
    return _ObjectFile(address, version, start, wanted)


def chunks_of(address: str) -> Iterator[bytes]:
    """Yield the bytes of an object: what is kept of it, then its ranges. While one is used, the next is fetched."""
    kept, version, position = _kept_of(address), _kept_of(address).version, 0
    coming: Beside[bytes] | None = None

    def fetch(start: int) -> bytes:
        return _fetch(address, start, min(start + RANGE_BYTES, version.size), version, interruptible=False)

    while position < version.size:
        if coming is None and position < kept.size:
            with FileIO(kept.path) as file:
                file.seek(position)
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
            position = kept.size
            now = _kept.get(canonical(address), kept)  # perhaps all of it
            kept = now if now.version == version else kept
            continue
        data = (coming or Beside(partial(fetch, position), daemon=True)).answer()
        following = position + len(data)
        coming = Beside(partial(fetch, following), daemon=True) if following < version.size else None
        for place in range(0, len(data), CHUNK_BYTES):
            yield data[place : place + CHUNK_BYTES]
        position = following


def local_file(address: str) -> str:
    """Return the path of a copy of an object."""
    kept = _kept_of(address)
    version = kept.version
    if kept.size == version.size:
        return str(kept.path)
    if version.size > LARGEST_COPY:
        raise InputError(
            f"{address}: this format is read from a local file, and the object has more than "
            f"{LARGEST_COPY // 1024**3} GiB; copy it to the disk first"
        )
    return str(_keep(address, chunks_of(address), version).path)


class _ObjectFile(RawIOBase):
    """A part of an object that is fetched at once, and what is behind it if that is wanted all the same."""

    def __init__(self, address: str, version: FileVersion, start: int, end: int) -> None:
        super().__init__()
        self._address, self._version = address, version
        self._wanted = start, end
        self._at = 0
        self._data, self._data_at = b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._version.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer).cast("B")
        if self._at >= self._version.size or not room:
            return 0
        if not self._data_at <= self._at < self._data_at + len(self._data):
            start, end = self._wanted
            self._data_at = start if start <= self._at < end else self._at
            end = end if start <= self._at < end else self._at + RANGE_BYTES
            self._data = _fetch(self._address, self._data_at, min(end, self._version.size), self._version)
        place = self._at - self._data_at
        count = min(len(room), len(self._data) - place)
        room[:count] = self._data[place : place + count]
        self._at += count
        return count


# -- what is kept -----------------------------------------------------------------------------------------------


def _kept_of(address: str) -> _KeptObject:
    """Return the beginning of an object on the disk; where many are listed, several are fetched at a time."""
    place = canonical(address)
    with _lock:
        if place not in _kept:
            version = version_of(address)
            if version is None:
                raise InputError(f"{address}: no such file")
            if place not in _kept:
                _fetch_beginnings(address, version)
        _kept.move_to_end(place)
        return _kept[place]


def _look(place: str, address: str) -> None:
    """Fetch the beginning of an object of which nothing is known."""
    try:
        data, version = get_range(address, 0, HEAD_BYTES)
    except AbsentError:
        _looked[place] = _Looked(None, time.monotonic())
        return
    _note(place, version)
    _keep(address, [data], version)


def _fetch_beginnings(address: str, version: FileVersion) -> None:
    place, size = canonical(address), 0
    _listed.pop(place, None)
    ahead = list[tuple[str, FileVersion]]()
    for other in list(islice(_listed, AHEAD_FILES)):
        known = _looked[other].version
        size += 0 if known is None else min(known.size, HEAD_BYTES)
        if len(ahead) + 1 >= AHEAD_FILES or size > AHEAD_BYTES:
            break
        del _listed[other]
        if known is not None and other not in _kept:
            ahead.append((other, known))

    def beginning(of: str, known: FileVersion) -> bytes:
        return _fetch(of, 0, min(known.size, HEAD_BYTES), known, interruptible=False)

    fetching = [Beside(lambda one=one: beginning(*one), daemon=True) for one in ahead]  # type: ignore[misc]
    _keep(address, [_fetch(address, 0, min(version.size, HEAD_BYTES), version)], version)
    for (other, known), fetched in zip(ahead, fetching, strict=True):
        with contextlib.suppress(FaircountError):  # raised when that one is wanted
            _keep(other, [fetched.answer()], known)


def _keep(address: str, pieces: Iterable[bytes], version: FileVersion) -> _KeptObject:
    """Put bytes of an object on the disk. Its name there ends as its address does: formats are known by names, too."""
    import tempfile

    place, folder = canonical(address), os.environ.get(_FOLDER, "")
    if not Path(folder or "-").is_dir():
        _folder.append(tempfile.TemporaryDirectory(prefix="faircount-"))
        os.environ[_FOLDER] = folder = _folder[-1].name
    names = [name[-_LONGEST_NAME:] if name.strip(".") else "_" for name in bucket_and_key(place)[1].split("/")[-5:]]
    try:
        path = Path(tempfile.mkdtemp(dir=folder), *names)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            size = sum(map(file.write, pieces))
    except OSError as error:
        raise InputError(
            f"{address}: cannot be copied to {tempfile.gettempdir()}: {error.strerror or error}; "
            "TMPDIR names another folder"
        ) from error
    with _lock:
        _drop(place)
        _kept[place] = _KeptObject(path, size, version)
        _kept_bytes[0] += size
        while len(_kept) > 1 and _kept_bytes[0] > KEPT_BYTES:
            _drop(next(iter(_kept)))
        return _kept[place]


def remove_copies() -> None:
    """Remove what is kept: a process that ends at once does not wait for it."""
    with _lock:
        _kept.clear()
        _kept_bytes[0] = 0
        while _folder:
            os.environ.pop(_FOLDER, None)
            _folder.pop().cleanup()


def drop_copy(address: str) -> None:
    """Remove what is kept of an object: it is not needed any more."""
    with _lock:
        _drop(canonical(address))


def _drop(place: str) -> None:
    kept = _kept.pop(place, None)
    if kept is not None:
        _kept_bytes[0] -= kept.size
        with contextlib.suppress(OSError):
            kept.path.unlink()


def _fetch(address: str, start: int, end: int, version: FileVersion, *, interruptible: bool = True) -> bytes:
    """Return a range of a version of an object."""
    if start >= end:
        return b""
    try:
        data, now = get_range(address, start, end, version, interruptible=interruptible)
    except (AbsentError, ReplacedError):
        data, now = b"", None
    if now is None or now.tag != version.tag or now.size != version.size or len(data) != end - start:
        _looked.pop(canonical(address), None)
        raise ReplacedError(f"{address}: replaced while it was being read; run the command again")
    return data
