"""Which judges there are: those built in, by a table that imports none of them, and those of installed packages.

A package offers a judge with an entry point in the group `faircount.judges`; its name has the form `module.Name`. It is
loaded when it is named or listed, and it can take neither the name of a judge that is built in nor that of a module of
garak's detectors.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterator

from msgspec import Struct

from faircount import string_judges
from faircount.errors import UsageError
from faircount.judging.judge import Judge
from faircount.judging.plugins import Offered, Offers, folded

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


def find(name: str) -> type[Judge]:
    """Return the class of a judge by its canonical or short name; raise UsageError if there is none."""
    known = built_in(name)
    if known is not None:
        return known.load()
    found = plugin(name)
    if found is None:
        raise UsageError(_unknown(name))
    if found.kind is None:
        raise UsageError(f"{name}: the judge from the package {found.package} cannot be used: {found.error}")
    return found.kind


def built_in(name: str) -> BuiltIn | None:
    """Return the judge built in that has this name; short names ignore case and take _ for -."""
    return _BY_NAME.get(folded(name))


_BY_NAME = {folded(name): judge for judge in BUILT_IN for name in (judge.short, judge.name)}


def plugin(name: str) -> Offered[Judge] | None:
    """Return the judge of an installed package that has this name, loaded."""
    return _OFFERS.find(name)


def plugins() -> Iterator[Offered[Judge]]:
    """Load every judge of installed packages, by name; one that cannot be used says why."""
    return _OFFERS.every()


def _refused(name: str) -> str:
    """Return why a package cannot give a judge this name."""
    known = built_in(name)
    if known is not None:
        return f"it would hide the built-in {known.name}"
    if name.partition(".")[0] in string_judges.GARAK_DETECTORS:
        return "garak has detectors in a module of that name, and a summary of judges could not distinguish the two"
    return "" if _CANONICAL.fullmatch(name) else "the name of a judge must have the form module.Name"


_OFFERS = Offers(GROUP, Judge, "a judge", _refused)


def _unknown(name: str) -> str:
    names = {folded(known): known for judge in BUILT_IN for known in (judge.short, judge.name)}
    names.update({folded(known): known for known in _OFFERS.names()})
    near = difflib.get_close_matches(folded(name), names, n=3)
    meant = f"did you mean {', '.join(names[key] for key in near)}? " if near else ""
    return f"{name}: no such judge; {meant}`faircount judges list` shows them all"
