"""Which judges there are: those built in, by a table that imports none of them, and those of installed packages.

A package offers a judge with an entry point in the group `faircount.judges`; its name has the form `module.Name`. It is
loaded when it is named or listed, and it can take neither the name of a judge that is built in nor that of a module of
garak's detectors.
"""

from __future__ import annotations

import re

from faircount.components.factory import BuiltIn, Registry
from faircount.core import string_judges
from faircount.judges.judge import Judge

_CANONICAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")
_BUILT_IN = tuple(
    BuiltIn(name, f"faircount.judges.builtin.{name.replace('.', ':')}", short)
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


def _refused(name: str) -> str:
    """Return why a package cannot give a judge this name."""
    if name.partition(".")[0] in string_judges.GARAK_DETECTORS:
        return "garak has detectors in a module of that name, and a summary of judges could not distinguish the two"
    return "" if _CANONICAL.fullmatch(name) else "the name of a judge must have the form module.Name"


JUDGES = Registry("faircount.judges", Judge, "a judge", _refused, known=_BUILT_IN)
