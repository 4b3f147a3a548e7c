"""Which components of a kind there are: those built in, and those of installed packages.

What is built in stands in a table that imports none of it. A package offers more by entry points: classes that are
loaded when they are named or listed, never before. What cannot be used is not raised but told, with the reason: a
package that is broken must not keep the others from being listed.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from msgspec import Struct

from faircount.components.code import in_short, printing_aside
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

T = TypeVar("T")
_LONGEST_NAME = 200


class BuiltIn(Struct, frozen=True):
    """A component that comes with Faircount: its names, and the module and class where it is."""

    name: str
    place: str
    short: str = ""
    aliases: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return all that it can be called."""
        return [*filter(None, [self.short]), self.name, *self.aliases]

    def load(self) -> Any:
        """Import the class."""
        return load_class(self.place)


def load_class(place: str) -> Any:
    """Import a class of ours that a table has as `module:Name`."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class Available(Struct, frozen=True):
    """What can be named, and a sentence about it."""

    name: str
    sentence: str


class Plugin(Struct, Generic[T], frozen=True):
    """A class of an installed package; `kind` is None where it cannot be used, and `error` says why."""

    name: str
    package: str
    version: str
    kind: type[T] | None = None
    error: str = ""


class Registry(Generic[T]):
    """The components of a kind: `known` are built in.

    Each entry point of `group` names a subclass of `base` whose own `name` is that of the entry point. `noun` is what
    such a class is called ("a judge"), `refused` says why a name cannot be taken, and is empty where it can; `folded`
    returns a name of a package's as it is looked up; `alike` is how alike names are that somebody may have meant.
    """

    def __init__(
        self,
        group: str,
        base: type[T],
        noun: str,
        refused: Callable[[str], str] = lambda _: "",
        folded: Callable[[str], str] = str,
        known: tuple[BuiltIn, ...] = (),
        alike: float = 0.6,
    ) -> None:
        self.group, self.base, self.noun, self.known = group, base, noun, known
        self._refused, self._folded, self._alike = refused, folded, alike
        self._word = noun.rpartition(" ")[2]
        self._by_name = {fold(name): one for one in known for name in one.names()}

    def built_in(self, name: str) -> BuiltIn | None:
        """Return what is built in under a name; case is ignored, and _ is taken for -."""
        return self._by_name.get(fold(name))

    def plugin(self, name: str) -> tuple[type[T], Plugin[T]]:
        """Return what a package offers under a name, with its class; raise UsageError where there is none to use."""
        found = self.find(name)
        if found is None:
            raise self.unknown(name)
        if found.kind is None:
            raise UsageError(
                f"{found.name}: the {self._word} from the package {found.package} cannot be used: {found.error}"
            )
        return found.kind, found

    def unknown(self, name: str) -> UsageError:
        """Return the error for a name that nothing has."""
        offered = self._entry_points()
        names = {fold(known): known for known in (*(name for one in self.known for name in one.names()), *offered)}
        meant = did_you_mean(names[key] for key in near(fold(name), names, self._alike))
        return UsageError(f"{short(name)}: no such {self._word}; {meant}`faircount {self._word}s list` shows them all")

    # -- installed packages ------------------------------------------------------------------------------------

    def find(self, name: str) -> Plugin[T] | None:
        """Return what a package offers under a name, loaded."""
        entries = self._entry_points().get(self._folded(name))
        return None if entries is None else self._loaded(entries)

    def every(self) -> Iterator[Plugin[T]]:
        """Load all that packages offer, by name."""
        for _, entries in sorted(self._entry_points().items()):
            yield self._loaded(entries)

    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = defaultdict(list)
        for entry in importlib.metadata.entry_points(group=self.group):
            same = found[self._folded(entry.name)]
            # A package that is on the path twice is one package: Python itself would import only the first.
            if all((other.value, _package(other)) != (entry.value, _package(entry)) for other in same):
                same.append(entry)
        return dict(found)

    def _loaded(self, entries: list[EntryPoint]) -> Plugin[T]:
        entry = entries[0]
        name, version = entry.name, entry.dist.version if entry.dist is not None else "unknown"
        package = ", ".join(map(_package, entries))
        hidden = self.built_in(name)
        error = self._refused(name) if hidden is None else f"it would hide the built-in {hidden.name}"
        if not error and len(entries) > 1:
            error = f"{len(entries)} packages offer {self.noun} of this name"
        if error:
            return Plugin(name, package, version, error=error)
        try:
            with printing_aside():
                kind = entry.load()
        except (Exception, SystemExit) as failure:  # noqa: BLE001  a package can fail in any way
            return Plugin(name, package, version, error=f"{entry.value} cannot be loaded: {in_short(failure)}")
        if not isinstance(kind, type) or not issubclass(kind, self.base):
            return Plugin(name, package, version, error=f"{entry.value} is not a subclass of {self.base.__name__}")
        if getattr(kind, "name", None) != name:
            own = getattr(kind, "name", "nothing")
            return Plugin(name, package, version, error=f"the class calls itself {own}, the entry point {name}")
        return Plugin(name, package, version, kind)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


# -- names ------------------------------------------------------------------------------------------------------


def fold(name: str) -> str:
    """Return a name as tables have it: case is ignored, and _ is taken for -."""
    return name.casefold().replace("_", "-")


def short(name: str) -> str:
    """Return a name as a message shows it."""
    return clip(visible(name), _LONGEST_NAME)


def near(name: str, known: Iterable[str], alike: float = 0.5) -> list[str]:
    """Return the names that somebody may have meant."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=alike)


def did_you_mean(names: Iterable[str]) -> str:
    """Return the question, with a blank behind it; nothing where no name is near."""
    words = ", ".join(names)
    return f"did you mean {words}? " if words else ""
