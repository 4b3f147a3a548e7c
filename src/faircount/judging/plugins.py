"""What installed packages offer by entry points: classes that are loaded when they are named or listed, never before.

What cannot be used is not raised but told, with the reason: a package that is broken must not keep the others from
being listed. What a package prints while it is loaded goes to standard error.
"""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Generic, TypeVar

from msgspec import Struct

from faircount.judging.outside import in_short, printing_aside

T = TypeVar("T")


class Offered(Struct, Generic[T], frozen=True):
    """A class of an installed package; `kind` is None where it cannot be used, and `error` says why."""

    name: str
    package: str
    version: str
    kind: type[T] | None = None
    error: str = ""


class Offers(Struct, Generic[T], frozen=True):
    """A group of entry points: each names a subclass of `base` whose own `name` is that of the entry point.

    `noun` is what such a class is called ("a judge"), `refused` says why a name cannot be taken, and is empty where it
    can; `folded` returns a name as it is looked up.
    """

    group: str
    base: type[T]
    noun: str
    refused: Callable[[str], str]
    folded: Callable[[str], str] = str

    def names(self) -> list[str]:
        """Return the names of all that is offered, as they are looked up; nothing is loaded."""
        return list(self._entry_points())

    def find(self, name: str) -> Offered[T] | None:
        """Return what is offered under a name, loaded."""
        entries = self._entry_points().get(self.folded(name))
        return None if entries is None else self._loaded(entries)

    def every(self) -> Iterator[Offered[T]]:
        """Load all that is offered, by name."""
        for _, entries in sorted(self._entry_points().items()):
            yield self._loaded(entries)

    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = defaultdict(list)
        for entry in importlib.metadata.entry_points(group=self.group):
            same = found[self.folded(entry.name)]
            # A package that is on the path twice is one package: Python itself would import only the first.
            if all((other.value, _package(other)) != (entry.value, _package(entry)) for other in same):
                same.append(entry)
        return dict(found)

    def _loaded(self, entries: list[EntryPoint]) -> Offered[T]:
        entry = entries[0]
        name, version = entry.name, entry.dist.version if entry.dist is not None else "unknown"
        package = ", ".join(map(_package, entries))
        error = self.refused(name)
        if not error and len(entries) > 1:
            error = f"{len(entries)} packages offer {self.noun} of this name"
        if error:
            return Offered(name, package, version, error=error)
        try:
            with printing_aside():
                kind = entry.load()
        except (Exception, SystemExit) as failure:  # noqa: BLE001  a package can fail in any way
            return Offered(name, package, version, error=f"{entry.value} cannot be loaded: {in_short(failure)}")
        if not isinstance(kind, type) or not issubclass(kind, self.base):
            return Offered(name, package, version, error=f"{entry.value} is not a subclass of {self.base.__name__}")
        if getattr(kind, "name", None) != name:
            own = getattr(kind, "name", "nothing")
            return Offered(name, package, version, error=f"the class calls itself {own}, the entry point {name}")
        return Offered(name, package, version, kind)


def folded(name: str) -> str:
    """Return a name as tables have it: case is ignored, and _ is taken for -."""
    return name.casefold().replace("_", "-")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"
