"""A file that is written whole or not at all, and never over another file unless forced.

What is written goes into a file of another name in the same folder, which takes its own name when all is written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from faircount.core.errors import UsageError
from faircount.core.interrupts import uninterrupted
from faircount.io.files import refuse_address

SUFFIX = ".jsonl"
_BUFFER_BYTES = 1024 * 1024


class NewFile:
    """A file that is there when the block has ended well; otherwise nothing is left. `path` then says where it is.

    A file that already exists is an error, unless `force` lets it be replaced or `may_number` lets the new one have
    a number behind its name.
    """

    def __init__(self, path: str, *, force: bool = False, may_number: bool = False) -> None:
        self.path = path
        self._force = force
        self._may_number = may_number
        self._made_folders: list[Path] = []
        self._temporary = Path()
        self._file: BinaryIO | None = None
        refuse_address(path)
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116  an empty path is no folder
        except FileNotFoundError:
            mode = None
        except (OSError, ValueError) as error:  # a name that is too long, or holds a null byte
            raise _unwritable(path, error) from error
        if not path:
            raise UsageError("an empty name is no file; name one")
        if mode is not None and stat.S_ISDIR(mode):
            raise UsageError(f"{path}: is a folder; name a file")
        if mode is not None and not stat.S_ISREG(mode):
            raise UsageError(f"{path}: is not a regular file; name another")
        if not (force or may_number) and os.path.lexists(path):
            raise _exists(path)
        self._rights = None if mode is None else stat.S_IMODE(mode)

    @uninterrupted
    def __enter__(self) -> NewFile:
        folder = Path(self.path).parent
        # The name is known before the file is there, so that an interrupt at any moment leaves nothing behind.
        self._temporary = folder / f".{Path(self.path).name[:100]}.{os.urandom(8).hex()}"
        try:
            if self._may_number:
                self._make(folder)
            self._file = open(self._temporary, "xb", buffering=_BUFFER_BYTES, opener=_owner_only)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            self._remove_folders()
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from error
            raise
        return self

    @property
    def file(self) -> BinaryIO:
        """What to write to, inside the block."""
        assert self._file is not None
        return self._file

    def write(self, lines: bytes) -> None:
        """Add whole lines."""
        self.write_all([lines])

    def write_all(self, pieces: Iterable[bytes]) -> None:
        """Add pieces of lines, one behind the other."""
        try:
            self.file.writelines(pieces)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._publish(self.file)
        except OSError as error:
            kind = OSError
            raise _unwritable(self.path, error) from error
        except BaseException:
            kind = BaseException
            raise
        finally:
            with contextlib.suppress(OSError):
                self.file.close()
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            if kind is not None:
                self._remove_folders()

    def _publish(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        mask = os.umask(0)
        os.umask(mask)
        # Who may read a file that is replaced may read the new one, and nobody else.
        replaced = self._rights if self._force else None
        self._temporary.chmod(0o666 & ~mask if replaced is None else replaced)
        if self._force:
            self._temporary.replace(self.path)
            return
        for path in self._names():
            try:
                _take_name(self._temporary, path)
            except FileExistsError:
                continue
            self.path = path
            return
        raise _exists(self.path)

    def _names(self) -> Iterator[str]:
        yield self.path
        number = 2
        while self._may_number:
            yield f"{self.path.removesuffix(SUFFIX)}_{number}{SUFFIX}"
            number += 1

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, and remember which were not there."""
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            self._made_folders.append(parent)

    def _remove_folders(self) -> None:
        for folder in reversed(self._made_folders):
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Open a file to write so that at any moment it holds what it held before, or all of what is written here.

    What is no file but a device or a pipe cannot be replaced: it gets what is written as it comes.
    """
    refuse_address(path)
    try:
        if path and Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
            with Path(path).open("wb") as special:
                yield special
            return
        with NewFile(path, force=True) as new:
            yield new.file
    except OSError as error:
        raise _unwritable(path, error) from error


@contextlib.contextmanager
def new_folder(path: str, *, force: bool, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a folder to write in that gets its name when the block has ended well; otherwise nothing is left.

    A folder that is there already is an error, unless `force` lets it be replaced and it `is_ours`, or it is empty.
    """
    refuse_address(path)
    if not path:
        raise UsageError("an empty name is no folder; name one")
    place = Path(path).resolve()
    if place.exists() and not place.is_dir():
        raise UsageError(f"{path}: is not a folder; name another")
    there = place.is_dir() and any(place.iterdir())
    if there and not is_ours(place):
        raise UsageError(f"{path}: is a folder with other files; name another")
    if there and not force:
        raise UsageError(f"{path}: already exists; overwrite it with --force, or name another folder")
    marked = f".{place.name[:100]}.{os.urandom(8).hex()}"
    temporary, replaced = place.with_name(marked), place.with_name(f"{marked}.old")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        if place.exists():
            place.rename(replaced)
        temporary.rename(place)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        if replaced.exists() and not place.exists():
            replaced.rename(place)
        for left in (temporary, replaced):
            shutil.rmtree(left, ignore_errors=True)


def _owner_only(path: str, flags: int) -> int:
    """Open a file that nobody else may read before it is whole."""
    return os.open(path, flags, 0o600)


def _take_name(temporary: Path, path: str) -> None:
    """Give a file its name if no other has it; two that try at the same moment cannot both succeed."""
    try:
        Path(path).hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: the name is taken by an empty file first.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        temporary.replace(path)


def _exists(path: str) -> UsageError:
    return UsageError(f"{path}: already exists; overwrite it with --force, or name another file with -o")


def _unwritable(path: str, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return UsageError(f"{path}: cannot be written: {reason}")
