"""Judges in the user's own code: `./file.py:Name` or `package.module:Name`, only where the user names them so.

`Name` is a subclass of Judge, a judge, or a function of an attempt that returns a Verdict, true or false, a score (it
says so: `-> float`), or None where it cannot decide. The version of such a judge is the digest of its file; what the
file imports is no part of it. A file that a result file or a folder names is never loaded: names come from the command
line and --config alone.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from faircount.core.attempt import Attempt
from faircount.core.verdict import Decision, Verdict
from faircount.errors import UsageError
from faircount.judging.judge import Judge
from faircount.judging.outside import OutsideJudge, by_score, call_it, in_short, is_there, printing_aside

_DIGITS = 16
_HIT_FROM = 0.5
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def is_local(name: str) -> bool:
    """Return whether a name has the form of local code: a file or module, a colon, and a name in it."""
    return ":" in name or _is_file_name(name)


def find(name: str) -> Any:
    """Return what `./file.py:Name` or `package.module:Name` stands for: a class, a judge or a function."""
    place, _, inner = name.rpartition(":")
    if not place or not inner.isidentifier():
        raise UsageError(f"{name}: name the judge in the file: ./file.py:Name")
    module = load(place)
    found = getattr(module, inner, None)
    if found is None:
        raise UsageError(f"{place}: has no {inner}{_there(module)}")
    if not isinstance(found, Judge) and not callable(found):
        raise UsageError(f"{name}: is {type(found).__name__}; expected a subclass of Judge, a judge or a function")
    return found


def _there(module: ModuleType) -> str:
    """Return, for a message, which judges and functions a module has of its own."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Judge) or getattr(value, "__module__", None) == module.__name__)
        and (isinstance(value, Judge) or inspect.isfunction(value) or _is_judge(value))
    ]
    return f"; it has {', '.join(sorted(own))}" if own else ""


def _is_judge(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Judge)


# -- loading ----------------------------------------------------------------------------------------------------


def load(place: str) -> ModuleType:
    """Load a file or import a module that the user named; what goes wrong in it is said with its file and line."""
    if not _is_file_name(place):
        if not _MODULE.fullmatch(place) or not is_there(place.partition(".")[0]):
            raise _no_module(place)
        return _run(place, lambda: _import(place))
    path = Path(place)
    digest = _file_digest(place)
    name = f"{_package(path.resolve().parent)}.{path.stem}_{digest[:_DIGITS]}"
    return sys.modules.get(name) or _run(place, lambda: _load_file(name, path))


def _import(place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and f"{place}.".startswith(f"{error.name}."):
            raise _no_module(place) from error
        raise


def _no_module(place: str) -> UsageError:
    return UsageError(f"{place}: no such module; name a file by its path: ./{place}.py:Name")


def _is_file_name(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _load_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _package(folder: Path) -> str:
    """Return the name of a package that stands for a folder, so that what is beside a file can be imported from it.

    `from .near import x` goes through the package, `import near` through the end of the path, where it hides nothing.
    """
    name = f"_faircount_local_{hashlib.sha256(str(folder).encode('utf-8', 'surrogateescape')).hexdigest()[:_DIGITS]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return name


def _run(place: str, importing: Callable[[], ModuleType]) -> ModuleType:
    try:
        with printing_aside():
            return importing()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # the user's code can fail in any way
        raise UsageError(f"{_where(place, error)}: cannot be loaded: {in_short(error)}") from error


def _where(place: str, error: BaseException) -> str:
    """Return the file and line of the user's code where loading failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_named(place, error.filename)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    ours = {__file__, importlib.util.__file__, importlib.__file__}
    theirs = [frame for frame in frames if frame.filename not in ours]
    near = [frame for frame in theirs if _is_file_name(place) and Path(frame.filename).parent == _folder(place)]
    for frame in reversed(near or theirs):
        return f"{_named(place, frame.filename)}:{frame.lineno}"
    return place


def _folder(place: str) -> Path:
    return Path(place).resolve().parent


def _named(place: str, filename: str) -> str:
    """Return a file as the user named it, where that is the file."""
    if _is_file_name(place):
        if Path(filename) == Path(place).resolve():
            return place
        if Path(filename).parent == _folder(place):
            return str(Path(place).parent / Path(filename).name)
    return filename


def _file_digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def version_of_code(place: str, module: ModuleType) -> str:
    """Return the digest of the file that a module was loaded from."""
    origin = place if _is_file_name(place) else getattr(module, "__file__", None)
    return _file_digest(origin)[:_DIGITS] if origin else "unknown"


# -- making -----------------------------------------------------------------------------------------------------


def adopt(name: str, judge: Judge) -> Judge:
    """Give a judge of the user's a version and, where its author gave it none, a name and a purpose."""
    place, _, inner = name.rpartition(":")
    words = {"version": version_of_code(place, load(place))}
    if not isinstance(getattr(judge, "name", None), str):
        words["name"] = _canonical(place, inner)
    if not isinstance(getattr(judge, "looks_for", None), str):
        words["looks_for"] = _first_line(type(judge).__doc__) or f"what {inner} looks for"
    call_it(judge, **words)
    return judge


def copied(judge: Judge) -> Judge:
    """Return a judge of its own for a judge that stands in a file."""
    return copy.copy(judge)


def _canonical(place: str, inner: str) -> str:
    stem = Path(place).stem if _is_file_name(place) else place.rpartition(".")[2]
    return f"{stem}.{inner}"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


class FunctionJudge(OutsideJudge):
    """A judge made of a function of an attempt; from a score of 0.5 on it is a hit."""

    def __init__(self, name: str, function: Callable[..., Any], parameters: Mapping[str, Any]) -> None:
        place, _, inner = name.rpartition(":")
        looks_for = _first_line(function.__doc__) or f"what {inner} looks for"
        super().__init__(_canonical(place, inner), version_of_code(place, load(place)), looks_for, parameters)
        self._function = function
        self.waits = inspect.iscoroutinefunction(function)
        self.turns = getattr(function, "turns", self.turns)
        self.scores = "float" in str(inspect.signature(function).return_annotation)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return what the function says."""
        answer = self._function(attempt, **self.parameters)
        return _verdict(_awaited(answer) if inspect.isawaitable(answer) else answer)


def _awaited(answer: Any) -> Any:
    """Wait for an answer, also in a thread whose own loop is at work."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _verdict(answer: Any) -> Verdict:
    # numpy's truth values and numbers are no bool and float, but can say what they are.
    value = answer.item() if hasattr(answer, "item") and not isinstance(answer, Verdict) else answer
    if isinstance(value, Verdict):
        return value
    if isinstance(value, Decision):
        return Verdict(value)
    if value is None:
        return Verdict.unjudged("the function returned None")
    if isinstance(value, bool):
        return Verdict(Decision.of(value))
    if isinstance(value, int | float) and 0 <= value <= 1:
        return by_score(float(value), _HIT_FROM)
    kind = f"{value!r}" if isinstance(value, int | float) else type(value).__name__
    raise ValueError(f"the function returned {kind}; expected a Verdict, true or false, a score from 0 to 1, or None")
