"""Which files hold tests: those that are named, and in folders those whose names say so.

A file that is named is always taken. In a folder every `.py` file whose name contains "test", in any case, is taken,
unless it begins with two underscores; the other `.py` files are told, so that none goes missing in silence. Hidden
folders, virtual environments and installed packages are not looked into. Nothing is executed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import InputError
from faircount.core.text import visible

NAME_MARK = "::"

_PACKAGE_FOLDERS = frozenset(["__pycache__", "site-packages", "dist-packages", "node_modules"])


class TestFile(Struct, frozen=True):
    """A file with tests: as the user knows it, where it really is, and the tests that are wanted of it (none: all)."""

    __test__ = False  # it is no test of pytest's

    path: str
    real: str
    names: tuple[str, ...] = ()


class Discovered(Struct, frozen=True):
    """The files that hold tests, in their order, and the Python files of the folders that were passed over."""

    files: tuple[TestFile, ...]
    passed_over: tuple[str, ...]


def discover(paths: Iterable[str]) -> Discovered:
    """Return the test files that paths stand for; `path::name` asks for tests of that name alone."""
    found: dict[str, TestFile] = {}
    passed_over: dict[str, str] = {}
    given = list(paths)
    for path in given:
        place, _, name = path.partition(NAME_MARK)
        for file in _files(place, passed_over):
            _add(found, TestFile(file, os.path.realpath(file), (name,) if name else ()))
    if not found:
        raise InputError(_nothing(given, passed_over))
    files = sorted(found.values(), key=lambda file: Path(file.path).parts)
    left = [path for real, path in passed_over.items() if real not in found]
    return Discovered(tuple(files), tuple(sorted(left)))


def _add(found: dict[str, TestFile], file: TestFile) -> None:
    """Keep one file of several paths to it; once it is asked for as a whole, names no longer matter."""
    before = found.get(file.real)
    if before is None:
        found[file.real] = file
    elif before.names and file.names:
        found[file.real] = replace(before, names=tuple(dict.fromkeys((*before.names, *file.names))))
    else:
        found[file.real] = replace(before, names=())


def _files(place: str, passed_over: dict[str, str]) -> Iterator[str]:
    path = Path(place)
    try:
        if path.is_dir():
            yield from _in_folder(path, passed_over)
            return
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{visible(place)}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not exists:
        raise InputError(f"{visible(place)}: no such file or folder")
    yield str(path)


def _in_folder(folder: Path, passed_over: dict[str, str]) -> Iterator[str]:
    for here, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if _is_looked_into(Path(here), name))
        for name in sorted(names):
            if not name.endswith(".py") or name.startswith("__"):
                continue
            path = str(Path(here) / name)
            if "test" in name.lower():
                yield path
            else:
                passed_over.setdefault(os.path.realpath(path), path)


def _is_looked_into(parent: Path, name: str) -> bool:
    hidden = name.startswith(".") or name in _PACKAGE_FOLDERS
    return not hidden and not (parent / name / "pyvenv.cfg").exists()


def _refuse(error: OSError) -> None:
    raise InputError(f"{visible(str(error.filename))}: cannot be read: {error.strerror or error}") from error


def _nothing(given: list[str], passed_over: dict[str, str]) -> str:
    where = ", ".join(visible(path) for path in given) or "no path given"
    message = f"{where}: no test files; in a folder, the name of a test file contains “test”"
    if not passed_over:
        return message
    names = sorted(visible(path) for path in passed_over.values())
    some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"{message}; skipped: {some}; name a file to run it"
