"""Code of other people's: files and modules that the user names, and installed packages of other tools.

`./file.py:Name` and `package.module:Name` are loaded only where the user names them so, on the command line or in
--config; a file that a result file or a folder names is never loaded. The version of such code is the digest of its
file; what the file imports is no part of it. What code prints while it is loaded or asked goes to standard error:
standard output belongs to answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

_DIGITS = 16
_LONGEST = 200
_LONGEST_WORD = 60
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_printing = threading.RLock()


@contextlib.contextmanager
def printing_aside() -> Iterator[None]:
    """Let what is printed in here go to standard error; one at a time, since the stream belongs to the process."""
    with _printing, contextlib.redirect_stdout(sys.stderr):
        yield


def in_short(error: BaseException) -> str:
    """Return what an error of other people's code says, on one line and without secrets."""
    words = str(error).strip().partition("\n")[0]
    return clip(mask_secrets(f"{type(error).__name__}: {words}" if words else type(error).__name__), _LONGEST)


def refuse_unknown(name: str, given: Iterable[str], known: Iterable[str], noun: str = "parameter") -> None:
    """Raise UsageError for something given that code does not take; `noun` is what it is called there."""
    names = list(known)
    for one in given:
        if one not in names:
            has = f"it takes {', '.join(names)}" if names else "it takes none"
            raise UsageError(f"{name}: has no {noun} {clip(visible(one), _LONGEST_WORD)}; {has}")


# -- installed packages -----------------------------------------------------------------------------------------


def is_there(module: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        with printing_aside():
            return importlib.util.find_spec(module) is not None
    except Exception:  # noqa: BLE001  to find a part of a package, the package itself is imported
        return False


def version_of(distribution: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def imported(module: str, prefix: str, distribution: str) -> ModuleType:
    """Import a module of a package that may be missing."""
    if not is_there(module.partition(".")[0]):
        raise UsageError(f"{prefix}: needs the package {distribution}; install it: pip install {distribution}")
    try:
        with printing_aside():
            return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # another package can fail in any way
        raise UsageError(f"{prefix}: {module} cannot be imported: {in_short(error)}") from error


# -- local code -------------------------------------------------------------------------------------------------


def is_local(name: str) -> bool:
    """Return whether a name has the form of local code: a file or module, a colon, and a name in it."""
    return ":" in name or is_file_name(name)


class CodePlace(Struct, frozen=True):
    """Where code is: a file or module, a name in it, and the folder whose modules can be imported.

    `called` is how the user named it; with a folder, the file itself is known by its whole path.
    """

    called: str
    module: str
    inner: str
    folder: str = ""

    @classmethod
    def of(cls, name: str, noun: str, folder: str = "") -> CodePlace:
        """Return the place that `./file.py:Name` or `package.module:Name` names; `noun` is what is looked for."""
        module, _, inner = name.rpartition(":")
        if not module or not inner.isidentifier():
            raise UsageError(f"{visible(name)}: name the {noun} in the file: ./file.py:Name")
        return cls(name, str(Path(folder) / module) if folder and is_file_name(module) else module, inner, folder)

    def load(self) -> ModuleType:
        """Load the file or module."""
        with _importable(self.folder) if self.folder else contextlib.nullcontext():
            return load(self.module)

    def find(self, module: ModuleType, base: type | None = None) -> Any:
        """Return what has the name in the module; `base` is the class of what is looked for."""
        found = getattr(module, self.inner, None)
        if found is None:
            shown = visible(self.called.rpartition(":")[0])
            raise UsageError(f"{shown}: has no {self.inner}{_there(module, base)}")
        return found


def _there(module: ModuleType, base: type | None) -> str:
    """Return, for a message, which functions and classes a module has of its own."""

    def fits(value: object) -> bool:
        if base is not None and isinstance(value, base):
            return True
        own = getattr(value, "__module__", None) == module.__name__
        return own and (inspect.isfunction(value) or (isinstance(value, type) and issubclass(value, base or object)))

    names = [name for name, value in vars(module).items() if not name.startswith("_") and fits(value)]
    return f"; it has {', '.join(sorted(names))}" if names else ""


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Let modules of a folder be found: before all others while one of them is loaded, after all others later on."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the code that was loaded may have changed the path
            sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def load(place: str) -> ModuleType:
    """Load a file or import a module that the user named; what goes wrong in it is said with its file and line."""
    if not is_file_name(place):
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


def is_file_name(place: str) -> bool:
    """Return whether a text names a file, not a module."""
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
    near = [frame for frame in theirs if is_file_name(place) and Path(frame.filename).parent == _folder(place)]
    for frame in reversed(near or theirs):
        return f"{_named(place, frame.filename)}:{frame.lineno}"
    return place


def _folder(place: str) -> Path:
    return Path(place).resolve().parent


def _named(place: str, filename: str) -> str:
    """Return a file as the user named it, where that is the file."""
    if is_file_name(place):
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
    origin = place if is_file_name(place) else getattr(module, "__file__", None)
    return _file_digest(origin)[:_DIGITS] if origin else "unknown"
