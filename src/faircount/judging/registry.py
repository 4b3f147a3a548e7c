"""Which judges there are: those built in, by a table that imports none of them, and those of installed packages.

A package offers a judge with an entry point in the group `faircount.judges`; its name has the form `module.Name`. It is
loaded when it is named or listed, and it cannot take the name of a judge that is built in.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from faircount import string_judges
from faircount.errors import UsageError
from faircount.judging.judge import Judge
from faircount.judging.outside import in_short, printing_aside

GROUP = "faircount.judges"
_CANONICAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")


class BuiltIn(Struct, frozen=True):
    """A judge that comes with Faircount: its short name, and where it is."""

    short: str
    name: str

    def load(self) -> type[Judge]:
        """Import the judge."""
        module, _, name = self.name.partition(".")
        found: type[Judge] = getattr(importlib.import_module(f"faircount.judging.builtin.{module}"), name)
        return found


BUILT_IN = tuple(
    BuiltIn(short, name)
    for short, name in (
        ("canary", "canary.Canary"),
        ("contains", "strings.Contains"),
        ("exact", "strings.Exact"),
        ("startswith", "strings.StartsWith"),
        ("regex", "strings.Regex"),
        ("json-schema", "structure.JsonSchema"),
        ("refusal", "refusal.Refusal"),
        ("mitigation-bypass", "refusal.MitigationBypass"),
        ("jailbreak", "jailbreak.Markers"),
        ("code", "code.Code"),
        ("exfiltration-link", "exfiltration.Link"),
        ("secret-leak", "secrets.Leak"),
        ("tool-calls", "tools.ToolCallsAccuracy"),
        ("contextual-f-score", "context.ContextualFScore"),
        ("latency", "latency.Latency"),
        ("llm", "llm.Rubric"),
        ("any", "combine.AnyOf"),
        ("all", "combine.AllOf"),
        ("majority", "combine.Majority"),
        ("not", "combine.Not"),
        ("threshold", "combine.Threshold"),
    )
)
STRING_JUDGES = frozenset(string_judges.STRING_JUDGES.values())
"""The judges that a file may name: they compare strings, and neither open files nor send anything anywhere."""


class Plugin(Struct, frozen=True):
    """A judge of an installed package; `judge` is None where it cannot be used, and `error` says why."""

    name: str
    package: str
    version: str
    judge: type[Judge] | None = None
    error: str = ""


def find(name: str) -> type[Judge]:
    """Return the class of a judge by its canonical or short name; raise UsageError if there is none."""
    known = built_in(name)
    if known is not None:
        return known.load()
    found = plugin(name)
    if found is None:
        raise UsageError(_unknown(name))
    if found.judge is None:
        raise UsageError(f"{name}: the judge of the package {found.package} cannot be used: {found.error}")
    return found.judge


def built_in(name: str) -> BuiltIn | None:
    """Return the judge built in that has this name; short names ignore case and take _ for -."""
    return _BY_NAME.get(_folded(name))


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-")


_BY_NAME = {_folded(name): judge for judge in BUILT_IN for name in (judge.short, judge.name)}


def plugin(name: str) -> Plugin | None:
    """Return the judge of an installed package that has this name, loaded."""
    entries = _entry_points().get(name)
    return None if entries is None else _loaded(entries)


def plugins() -> Iterator[Plugin]:
    """Load every judge of installed packages, by name; one that cannot be used says why."""
    for _, entries in sorted(_entry_points().items()):
        yield _loaded(entries)


def _entry_points() -> dict[str, list[importlib.metadata.EntryPoint]]:
    found: dict[str, list[importlib.metadata.EntryPoint]] = defaultdict(list)
    for entry in importlib.metadata.entry_points(group=GROUP):
        # A package that is on the path twice is one package: Python itself would import only the first.
        if all((other.value, _package(other)) != (entry.value, _package(entry)) for other in found[entry.name]):
            found[entry.name].append(entry)
    return dict(found)


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


def _loaded(entries: list[importlib.metadata.EntryPoint]) -> Plugin:
    entry = entries[0]
    name, version = entry.name, entry.dist.version if entry.dist is not None else "unknown"
    package = ", ".join(map(_package, entries))
    error = _refused(entries)
    if error:
        return Plugin(name, package, version, error=error)
    try:
        with printing_aside():
            judge = entry.load()
    except (Exception, SystemExit) as failure:  # noqa: BLE001  a package can fail in any way
        return Plugin(name, package, version, error=f"{entry.value} cannot be loaded: {in_short(failure)}")
    if not isinstance(judge, type) or not issubclass(judge, Judge):
        return Plugin(name, package, version, error=f"{entry.value} is no subclass of Judge")
    if getattr(judge, "name", None) != name:
        own = getattr(judge, "name", "nothing")
        return Plugin(name, package, version, error=f"the class calls itself {own}, the entry point {name}")
    return Plugin(name, package, version, judge)


def _refused(entries: list[importlib.metadata.EntryPoint]) -> str:
    """Return why a judge is not loaded at all."""
    name = entries[0].name
    known = built_in(name)
    if known is not None:
        return f"it would hide {known.name}, which is built in"
    if not _CANONICAL.fullmatch(name):
        return "the name of a judge has the form module.Name"
    if len(entries) > 1:
        return f"{len(entries)} packages offer a judge of this name"
    return ""


def _unknown(name: str) -> str:
    names = {_folded(known): known for judge in BUILT_IN for known in (judge.short, judge.name)}
    names.update({_folded(known): known for known in _entry_points()})
    near = difflib.get_close_matches(_folded(name), names, n=3)
    meant = f"did you mean {', '.join(names[key] for key in near)}? " if near else ""
    return f"{name}: no such judge; {meant}`faircount judges list` shows them all"
