"""Test files, executed: each once, as a module of its own, with somebody who listens to what it declares.

A file can import what is beside it, by `from .near import x` as by `import near`. What it prints goes to standard
error. A file that cannot be executed is an error with its line and the words of the error, never a silence.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct

from faircount.compat.rebel import hint_for, watch_registry
from faircount.components.code import in_short, printing_aside
from faircount.core.errors import FaircountError, InputError
from faircount.core.text import visible
from faircount.runs.discovery import TestFile
from faircount.testing.cases import Suite, with_listener
from faircount.testing.fields import PRIVATE

if TYPE_CHECKING:
    from faircount.components.factory import Context

_TOP_LEVEL = "<module>"
_DIGITS = 12
_numbers = itertools.count(1)


class Executed(Struct, frozen=True):
    """A file that was executed: the digest of the bytes that ran, and what they declared."""

    file: TestFile
    digest: str
    suites: tuple[Suite, ...]


class Listening:
    """Takes what a file declares while it is executed.

    A file may import others. What they declare belongs to it, unless they are test files that are executed themselves.
    """

    def __init__(self, file: TestFile, others: frozenset[str], setting: Context | None) -> None:
        self._file = file
        self._others = others - {file.real}
        self.context = setting
        self.suites: list[Suite] = []

    def listens(self) -> bool:
        """Tell whether the file that is being executed or imported now is declared here."""
        return os.path.realpath(_top_level_file()) not in self._others

    def here(self) -> str:
        """Return the line of the file that is being executed now."""
        for frame in _frames():
            if frame[0] == self._file.real:
                return self.place(*frame[:2])
        return self._file.path

    def place(self, filename: str, line: int) -> str:
        """Return a place in the file as the user named it, in others by their path."""
        name = self._file.path if filename == self._file.real else _near(filename, self._file)
        return f"{name}:{line}"

    def declare(self, suite: Suite) -> None:
        """Take a suite."""
        self.suites.append(suite)


def _frames() -> Iterator[tuple[str, int, str]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        if frame.f_back is None:
            return
        frame = frame.f_back


def _top_level_file() -> str:
    """Return the file whose top level is being executed, whatever functions were called on the way."""
    return next((filename for filename, _, name in _frames() if name == _TOP_LEVEL), "")


def _near(filename: str, file: TestFile) -> str:
    """Return the path of a file beside the test file as the user would write it, of any other as it is."""
    folder = Path(file.real).parent
    if Path(filename).is_relative_to(folder):
        return str(Path(file.path).parent / Path(filename).relative_to(folder))
    return filename


def execute(file: TestFile, others: frozenset[str], setting: Context | None = None) -> Executed:
    """Execute a test file; `others` are the real paths of all test files that are executed."""
    source = _read(file)
    listening = Listening(file, others, setting)
    with (
        _place_of_import(Path(file.real).parent),
        printing_aside(),
        with_listener(listening),
        watch_registry(listening, file.path, source),
    ):
        _run(file, source, listening)
    return Executed(file, hashlib.sha256(source).hexdigest(), tuple(listening.suites))


def _read(file: TestFile) -> bytes:
    try:
        return Path(file.real).read_bytes()
    except OSError as error:
        raise InputError(f"{visible(file.path)}: cannot be read: {error.strerror or error}") from error


def _run(file: TestFile, source: bytes, listening: Listening) -> None:
    path = Path(file.real)
    try:
        package = _package(path.parent)
        name = f"{package}.{path.stem}@{next(_numbers)}"
        module = ModuleType(name)
        module.__file__ = file.real
        module.__package__ = package
        module.__spec__ = ModuleSpec(name, None, origin=file.real)
        sys.modules[name] = module
        exec(compile(source, file.real, "exec", dont_inherit=True), vars(module))
    except FaircountError as error:
        raise InputError(f"{visible(_where(file, error, listening))}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file of anybody's can fail in any way
        place = visible(_where(file, error, listening))
        hint = hint_for(error)
        raise InputError(f"{place}: cannot be loaded: {visible(in_short(error))}{hint}") from error


def _where(file: TestFile, error: BaseException, listening: Listening) -> str:
    """Return the place where a file failed: the line in it, or near it, that was reached last."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return listening.place(error.filename, error.lineno or 1)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename == file.real:
            return listening.place(frame.filename, frame.lineno or 1)
    return file.path


# -- what can be imported ---------------------------------------------------------------------------------------


def _package(folder: Path) -> str:
    """Return the name of a package for a folder, through which `from .near import x` finds what is in it.

    The package is private, so that no module of the same name elsewhere is taken for one of the folder. Where the
    folder is a package itself, those above it can be reached as well.
    """
    parts: list[str] = []
    root = folder
    while (root / "__init__.py").is_file() and root.parent != root and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    name = f"{PRIVATE}{hashlib.sha256(os.fsencode(root)).hexdigest()[:_DIGITS]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(root)]
        sys.modules[name] = package
    if not parts:
        return name
    import importlib

    inner = ".".join([name, *parts])
    importlib.import_module(inner)
    return inner


_folders: set[str] = set()
"""The folders of test files that were executed."""
_beside: set[str] = set()
"""The modules that test files imported by name from their own folders."""


def forget() -> None:
    """Forget what was imported for earlier test files, so that it is executed, and declares its tests, once more."""
    inner = [name for name in sys.modules if name.startswith(PRIVATE) and "." in name]
    for name in [*inner, *_beside]:
        _drop(name)
    _beside.clear()


def _drop(name: str) -> None:
    for inner in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
        del sys.modules[inner]


@contextlib.contextmanager
def _place_of_import(folder: Path) -> Iterator[None]:
    """Let `import near` find what is in a folder before anything else, as when the file is run as a program.

    The folder above its packages and the current one come last. All stay there afterwards, for what is imported when a
    metric measures.
    """
    _forget_namesakes(folder)
    modules = set(sys.modules)
    for last in (str(folder), str(_root(folder)), str(Path.cwd())):
        if last not in sys.path:
            sys.path.append(last)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if sys.path[:1] == [str(folder)]:
            del sys.path[0]
        _folders.add(str(folder))
        _beside.update(name for name in set(sys.modules) - modules if _home(name) == folder)


def _home(name: str) -> Path | None:
    """Return the folder in which a module is found by its name."""
    origin = getattr(sys.modules.get(name), "__file__", None)
    if "." in name or not isinstance(origin, str):
        return None
    path = Path(origin)
    return path.parent.parent if path.name == "__init__.py" else path.parent


def _root(folder: Path) -> Path:
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _forget_namesakes(folder: Path) -> None:
    """Forget modules that another folder of tests has under the name of one in this folder: each has its own."""
    for name in list(sys.modules):
        home = _home(name)
        if home is not None and str(home) in _folders and home != folder and _has(folder, name):
            _drop(name)


def _has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
