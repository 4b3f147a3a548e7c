"""Which judges, targets and attacks of other tools can be named: by the tool's name, a colon and theirs.

A table of names alone: nothing of a tool is imported before something of it is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from faircount.components.spec import Spec

ADAPTERS: Mapping[str, Mapping[str, str]] = {
    "judge": {
        "spikee": "faircount.compat.spikee.judge:SpikeeJudge",
        "rebel": "faircount.compat.rebel:RebelJudge",
        "garak": "faircount.compat.garak:GarakJudge",
        "deepeval": "faircount.compat.deepeval:DeepEvalJudge",
    },
    "target": {"spikee": "faircount.compat.spikee.target:SpikeeTarget"},
    "attack": {"spikee": "faircount.compat.spikee.attack:SpikeeAttack"},
}
"""What stands before the colon, and the class that adapts what stands behind it."""

RECORDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "target": {"spikee": ("module", "arguments", "folder", "chat")},
    "attack": {"spikee": ("target",)},
}
"""What the record of each in a journal cannot do without."""

TOOLS_WITH_JUDGES = (
    ("spikee", "spikee", "spikee", 'spikee:canary(judge_args="BYPASSED")'),
    ("rebel", "rebel", "rebel-eval", "rebel:ToolCallsAccuracy(threshold=0.8)"),
    ("garak", "garak", "garak", "garak:dan.DAN"),
    ("deepeval", "deepeval", "deepeval", "deepeval:AnswerRelevancyMetric(threshold=0.7)"),
)
TOOLS_WITH_ATTACKS = (("spikee", "spikee", "spikee", "spikee:best_of_n"),)
"""Prefix, module and package of each tool, and something that every version of it has."""
ATTACK_IN_A_FILE = "spikee:./attacks/mine.py"
"""How an attack of a workspace is named, which no list of ours has."""

_SPIKEE = "spikee:"


def same_as_ours(name: str) -> str:
    """Return the name of a judge without its tool, where a tool's judges of our names do the same as ours."""
    return name.removeprefix(_SPIKEE)


def with_judge_options(judge: Spec, options: str) -> Spec:
    """Return a judge that has options, where it is one of those that take them as a text and none are given."""
    if not judge.name.casefold().startswith(_SPIKEE) or "judge_options" in judge.parameters:
        return judge
    return replace(judge, parameters={**judge.parameters, "judge_options": options})
