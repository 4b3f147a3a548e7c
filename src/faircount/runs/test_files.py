"""From paths to cases: test files are found, executed once each in their order, and what they declare becomes cases.

A file that is named is always taken. In a folder every `.py` file whose name contains "test", in any case, is taken,
unless it begins with two underscores; the other `.py` files are reported, so that none goes missing in silence. Hidden
folders, virtual environments and installed packages are not looked into.

A file is executed as a module of its own. It can import what is beside it, by `from .near import x` as by
`import near`. What it prints goes to standard error. A file that cannot be executed is an error with its line and the
words of the error, and everything that is wrong in any of the files is reported at once. No request is made here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.compat.rebel import hint_for, watch_registry
from faircount.components.code import in_short, printing_aside
from faircount.core.errors import FaircountError, InputError
from faircount.core.text import visible
from faircount.readers.aggregation import check_attempts, read_aggregation
from faircount.runs.cases import TaskCase
from faircount.runs.metrics import TaskMetric, case_metric
from faircount.testing.cases import Suite, with_listener
from faircount.testing.fields import PRIVATE

if TYPE_CHECKING:
    from faircount.components.factory import Context

NAME_MARK = "::"

_PACKAGE_FOLDERS = frozenset(["__pycache__", "site-packages", "dist-packages", "node_modules"])


class TestFile(Struct, frozen=True):
    """A file with tests: as the user knows it, where it really is, and the tests that are wanted of it (none: all)."""

    __test__ = False  # it is no test of pytest's

    path: str
    real: str
    names: tuple[str, ...] = ()


class DiscoveredFiles(Struct, frozen=True):
    """The files that hold tests, in their order, and the Python files of the folders that were passed over."""

    files: tuple[TestFile, ...]
    passed_over: tuple[str, ...]


def discover(paths: Iterable[str]) -> DiscoveredFiles:
    """Return the test files that paths stand for; `path::name` asks for tests of that name alone."""
    found: dict[str, TestFile] = {}
    passed_over: dict[str, str] = {}
    given = list(paths)
    for path in given:
        place, _, name = path.partition(NAME_MARK)
        for file in _files(place, passed_over):
            real = os.path.realpath(file)
            names: tuple[str, ...] = (name,) if name else ()
            before = found.get(real)
            if before is not None:
                # One file of several paths to it; once it is asked for as a whole, names no longer matter.
                names = tuple(dict.fromkeys((*before.names, *names))) if before.names and names else ()
            found[real] = TestFile(file if before is None else before.path, real, names)
    if not found:
        raise InputError(_nothing(given, passed_over))
    files = sorted(found.values(), key=lambda file: Path(file.path).parts)
    left = [path for real, path in passed_over.items() if real not in found]
    return DiscoveredFiles(tuple(files), tuple(sorted(left)))


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
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or name in _PACKAGE_FOLDERS or (Path(here) / name / "pyvenv.cfg").exists())
        )
        for name in sorted(names):
            if not name.endswith(".py") or name.startswith("__"):
                continue
            path = str(Path(here) / name)
            if "test" in name.lower():
                yield path
            else:
                passed_over.setdefault(os.path.realpath(path), path)


def _refuse(error: OSError) -> None:
    raise InputError(f"{visible(str(error.filename))}: cannot be read: {error.strerror or error}") from error


def _nothing(given: list[str], passed_over: dict[str, str]) -> str:
    where = ", ".join(visible(path) for path in given) or "no path given"
    message = f"{where}: no test files; in a folder, the name of a test file contains “test”"
    if not passed_over:
        return message
    skipped = _listed(sorted(passed_over.values(), key=visible), 5)
    return f"{message}; skipped: {skipped}; name a file to run it"


# -- executing ----------------------------------------------------------------------------------------------------


_TOP_LEVEL = "<module>"
_DIGITS = 12
_numbers = itertools.count(1)


class FileListener:
    """Takes what a file declares while it is executed.

    A file may import others. What they declare belongs to it, unless they are test files that are executed themselves.
    """

    def __init__(self, file: TestFile, others: frozenset[str], context: Context | None) -> None:
        self._file = file
        self._others = others - {file.real}
        self.context = context
        self.suites: list[Suite] = []

    def listens(self) -> bool:
        """Return whether the file that is being executed or imported now is declared here."""
        # The file whose top level is being executed, whatever functions were called on the way.
        executed = next((filename for filename, _, name in _frames() if name == _TOP_LEVEL), "")
        return os.path.realpath(executed) not in self._others

    def here(self) -> str:
        """Return the line of the file that is being executed now."""
        for frame in _frames():
            if frame[0] == self._file.real:
                return self.place(*frame[:2])
        return self._file.path

    def place(self, filename: str, line: int) -> str:
        """Return a place in the file as the user named it, in others by their path."""
        folder, name = Path(self._file.real).parent, filename
        if filename == self._file.real:
            name = self._file.path
        elif Path(filename).is_relative_to(folder):
            name = str(Path(self._file.path).parent / Path(filename).relative_to(folder))
        return f"{name}:{line}"

    def declare(self, suite: Suite) -> None:
        """Take a suite."""
        self.suites.append(suite)


def _frames() -> Iterator[tuple[str, int, str]]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def execute(file: TestFile, others: frozenset[str], context: Context | None = None) -> tuple[str, tuple[Suite, ...]]:
    """Execute a test file; return the digest of the bytes that ran, and what they declared.

    `others` are the real paths of all test files that are executed.
    """
    try:
        source = Path(file.real).read_bytes()
    except OSError as error:
        raise InputError(f"{visible(file.path)}: cannot be read: {error.strerror or error}") from error
    listener = FileListener(file, others, context)
    with (
        _place_of_import(Path(file.real).parent),
        printing_aside(),
        with_listener(listener),
        watch_registry(listener, file.path, source),
    ):
        _run(file, source, listener)
    return hashlib.sha256(source).hexdigest(), tuple(listener.suites)


def _run(file: TestFile, source: bytes, listener: FileListener) -> None:
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
        raise InputError(f"{visible(_where(file, error, listener))}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file of anybody's can fail in any way
        place = visible(_where(file, error, listener))
        hint = hint_for(error)
        raise InputError(f"{place}: cannot be loaded: {visible(in_short(error))}{hint}") from error


def _where(file: TestFile, error: BaseException, listener: FileListener) -> str:
    """Return the place where a file failed: the line in it, or near it, that was reached last."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return listener.place(error.filename, error.lineno or 1)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename == file.real:
            return listener.place(frame.filename, frame.lineno or 1)
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
    for name in list(sys.modules):  # another folder of tests may have a module of this name: each has its own
        home = _home(name)
        is_elsewhere = home is not None and str(home) in _folders and home != folder
        if is_elsewhere and ((folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()):
            _drop(name)
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


# -- from what a file declares to cases ---------------------------------------------------------------------------

# REBEL drops a case that is tried no times, a grid with an empty list and a test without metrics in silence, the last
# after its requests were paid for. Here each is an error that names the place.

_MOST_CASES = 1_000_000


def cases_of(suite: Suite) -> list[TaskCase]:
    """Return the cases of a suite, one for every combination of its grid. InputError: it cannot be run."""
    try:
        return list(_expanded(suite))
    except (TypeError, ValueError) as error:
        raise InputError(f"{visible(suite.place)}: {visible(suite.name)}: {visible(str(error))}") from error


def _expanded(suite: Suite) -> Iterator[TaskCase]:
    _check(suite)
    metrics = _metrics(suite)
    dumped = [message.model_dump(exclude_none=True) for message in suite.asked.messages]
    # The content is sent even where it is null.
    full = [{"role": one.pop("role"), "content": one.pop("content", None), **one} for one in dumped]
    messages = tuple(_sendable(message, "messages") for message in full)
    expected = _sendable(suite.expected.model_dump(), "expected_output")
    given = tuple(name for name in expected if name in suite.expected.model_fields_set)
    for values in itertools.product(*suite.grid.values()):
        combination = dict(zip(suite.grid, values, strict=True))
        parameters = {**suite.asked.api_params, **combination}
        yield TaskCase(
            name=f"{suite.name}_[{'_'.join(f'{name}={value}' for name, value in combination.items())}]",
            tags=tuple(dict.fromkeys(suite.tags)),
            messages=messages,
            api_params={name: _sendable(value, f"api_params: {name}") for name, value in parameters.items()},
            expected=expected,
            metrics=metrics,
            attempts=suite.count,
            aggregation=suite.aggregation,
            place=suite.place,
            function=suite.function,
            suite=suite.name,
            expected_fields=given,
        )


def _check(suite: Suite) -> None:
    if suite.count < 1:
        raise ValueError(f"retry_params: count is {suite.count}; it must be 1 or more")
    if not suite.asked.messages:
        raise ValueError("messages is empty; there is nothing to send")
    if not suite.metrics:
        raise ValueError("metrics is empty; add at least one to measure the answers")
    check_attempts(read_aggregation(suite.aggregation), suite.count)
    for name, values in suite.grid.items():
        if not values:
            raise ValueError(f"param_grid: {name} has no values, so there would be no cases")
    if math.prod(len(values) for values in suite.grid.values()) > _MOST_CASES:
        raise ValueError(f"param_grid: it makes more than {_MOST_CASES:,} cases")


def _metrics(suite: Suite) -> tuple[TaskMetric, ...]:
    taken: set[str] = set()
    made = []
    for metric in suite.metrics:
        try:
            made.append(case_metric(metric, taken=taken))
        except (TypeError, ValueError):
            raise
        except Exception as error:  # get_name is anybody's code
            raise ValueError(f"{type(metric).__name__}: get_name failed: {type(error).__name__}: {error}") from error
    return tuple(made)


def _sendable(value: Any, what: str) -> Any:
    """Return a value as plain data that JSON can hold."""
    try:
        built = msgspec.to_builtins(value, str_keys=True)
        json.dumps(built, allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{what} cannot be sent as plain data: {error}") from None
    return built


# -- collecting ---------------------------------------------------------------------------------------------------


_MOST_NAMES = 10


class CollectedTests(Struct, frozen=True):
    """The cases of all files in their order, the files with their SHA-256, and what gave no cases.

    `passed_over` are the Python files in folders that are not called tests, `without_cases` the test files that
    declare nothing.
    """

    cases: tuple[TaskCase, ...]
    files: tuple[tuple[str, str], ...]
    passed_over: tuple[str, ...] = ()
    without_cases: tuple[str, ...] = ()


def collect(paths: Sequence[str], *, context: Context | None = None) -> CollectedTests:
    """Return the cases of test files and folders; `path::name` takes the cases of one function, suite or name.

    `setting` is what judges that files name are made with. InputError: a file cannot be used, two cases have the same
    name, or there are no cases.
    """
    discovered = discover(paths)
    forget()
    others = frozenset(file.real for file in discovered.files)
    problems: list[str] = []
    files: list[tuple[str, str]] = []
    without: list[str] = []
    found: list[tuple[TestFile, list[TaskCase]]] = []
    for file in discovered.files:
        try:
            digest, suites = execute(file, others, context)
        except FaircountError as error:
            problems.append(str(error))
            continue
        files.append((file.path, digest))
        if not suites:
            without.append(file.path)
        found.append((file, _cases(suites, problems)))
    problems += _clashes(case for _, cases in found for case in cases)
    if not problems:
        problems += _missing(found)
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        reasons = (f"  {line}" for line in problems)
        raise InputError("\n".join([f"the tests cannot be run, for {len(problems)} reasons:", *reasons]))
    cases = [
        case
        for file, own in found
        for case in own
        if not file.names or any(case.is_called(name) for name in file.names)
    ]
    if not cases:
        skipped = f"; skipped: {_listed(discovered.passed_over)}" if discovered.passed_over else ""
        raise InputError(
            f"{_listed(without)}: no cases; a test is a function decorated with @test_case from faircount.testing"
            f"{skipped}"
        )
    return CollectedTests(tuple(cases), tuple(files), discovered.passed_over, tuple(without))


def _cases(suites: Iterable[Suite], problems: list[str]) -> list[TaskCase]:
    cases: list[TaskCase] = []
    for suite in suites:
        try:
            cases += cases_of(suite)
        except FaircountError as error:
            problems.append(str(error))
    return list(_numbered(cases))


def _numbered(cases: Iterable[TaskCase]) -> Iterator[TaskCase]:
    """Yield the cases of a file; where groups of one test share a name, that of the second gets #2, and so on."""
    named: dict[str, list[TaskCase]] = {}
    for case in cases:
        before = named.setdefault(case.name, [])
        if before and all(_is_other_group(other, case) for other in before):
            yield replace(case, name=f"{case.name} #{len(before) + 1}", declared_name=case.name)
        else:
            yield case
        before.append(case)


def _is_other_group(one: TaskCase, other: TaskCase) -> bool:
    """Return whether two cases ask the same and are measured by different metrics, as two groups of one test are.

    REBEL keeps results apart by the names of case and metric, and merges those with the same two names: an error here.
    """
    same = ("function", "messages", "api_params", "expected")
    metrics = {metric.name for metric in one.metrics} & {metric.name for metric in other.metrics}
    return not metrics and all(getattr(one, field) == getattr(other, field) for field in same)


def _missing(files: list[tuple[TestFile, list[TaskCase]]]) -> list[str]:
    """Return what is to be said of names that no case has, in none of the files that were asked for it."""
    problems = []
    for name in dict.fromkeys(name for file, _ in files for name in file.names):
        asked = [(file, cases) for file, cases in files if name in file.names]
        there = [case for _, cases in asked for case in cases]
        if not any(case.is_called(name) for case in there):
            where = _listed([file.path for file, _ in asked])
            known = list(dict.fromkeys(known for case in there for known in (case.function, case.suite, case.name)))
            close = get_close_matches(name, known, _MOST_NAMES) or list(dict.fromkeys(case.function for case in there))
            instead = f"available: {_listed(close)}" if close else "there are no tests"
            problems.append(f"{where}: no test named {visible(name)}; {instead}")
    return problems


def _clashes(cases: Iterable[TaskCase]) -> list[str]:
    first: dict[str, TaskCase] = {}
    problems = []
    for case in cases:
        before = first.setdefault(case.name, case)
        if before is case:
            continue
        name, place = visible(case.name), visible(case.place)
        if before.place == case.place and before.metrics is case.metrics:
            problems.append(f"{place}: two cases are both named {name}: two values of the grid are written the same")
        else:
            problems.append(
                f"two cases are both named {name}, at {visible(before.place)} and {place}; rename one, or give its "
                "TestGroup a postfix"
            )
    return problems


def _listed(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    return ", ".join(visible(name) for name in names[:most]) + (", …" if len(names) > most else "")
