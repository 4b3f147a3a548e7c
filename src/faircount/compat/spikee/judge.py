"""spikee's judges: `spikee:canary` from the installed package, `spikee:./judges/mine.py` from a workspace.

A module of a workspace is loaded only where the user names its file; the folder that a command happens to run in has no
say, although spikee itself looks there first. Both forms are taken: classes with a method `judge`, and modules with a
function of that name. As in spikee, an empty response is a pass that no judge is asked about, and a judge without
options gets the first that it offers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from faircount.compat.spikee import class_with, file_version, first_option, installed
from faircount.components.code import load, refuse_unknown, version_of
from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Verdict
from faircount.judges.judge import ThirdPartyJudge

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_PARAMETERS = ["judge_args", "judge_options"]
_OUTPUTS = ("llm_output", "llm_response", "response", "output")
_OFFLINE = "offline"
_NEED_ARGS = frozenset(["canary", "regex"])
"""The judges that answer false without `judge_args`, although there is nothing that they could have looked for."""


class SpikeeJudge(ThirdPartyJudge):
    """One of spikee's judges. `judge_args` stands in the record of an attempt unless it is given."""

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        del chat  # spikee's judges have their own way to models, by judge_options
        name = f"spikee:{target}"
        refuse_unknown(name, parameters, _PARAMETERS)
        if target.endswith(".py"):
            module = load(target)
            version = file_version(target, module)
        else:
            module, version = installed("judge", target), version_of("spikee")
        judge = _implementation(module)
        self._judge = _function(name, judge)
        self._given = dict(parameters)
        self._needs_args = target in _NEED_ARGS
        self._offered = first_option(name, judge)
        super().__init__(name, version, _looks_for(judge, name), parameters)
        self.string_matcher = target in _NEED_ARGS
        self.waits = self._offered[1]

    def decide(self, attempt: Attempt) -> Verdict:
        """Ask spikee's judge."""
        arguments = self._given.get("judge_args", attempt.notes.get("judge_args", ""))
        if self._needs_args and not arguments:
            return Verdict.unjudged(f"{self.name} needs judge_args, but neither the record nor the judge has any")
        if attempt.response == "":
            return Verdict(Decision.PASS, reason="the response is empty; spikee does not ask a judge about it")
        options = self._given.get("judge_options", self._offered[0])
        if self.waits and options == _OFFLINE:
            return Verdict.unjudged(f"{self.name} asks no model when offline, so it cannot decide")
        known = {
            "llm_input": attempt.prompt,
            **dict.fromkeys(_OUTPUTS, attempt.response),
            "judge_args": arguments,
            "judge_options": options,
        }
        wanted = inspect.signature(self._judge).parameters
        answer = self._judge(**{name: value for name, value in known.items() if name in wanted})
        if not isinstance(answer, bool | int):
            return Verdict.unjudged(f"{self.name} returned {type(answer).__name__}, not true or false")
        return Verdict(Decision.of(bool(answer)))


def _implementation(module: ModuleType) -> Any:
    """Return an object of the first class in a module that has a method `judge`, else the module itself."""
    if inspect.isfunction(getattr(module, "judge", None)):
        return module
    found = class_with(module, "judge")
    return module if found is None else found()


def _function(name: str, judge: Any) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(judge, "judge", None)
    if function is None:
        raise UsageError(f"{name}: has no function judge and no class with a method judge")
    known = {"llm_input", *_OUTPUTS, *_PARAMETERS}
    for one in inspect.signature(function).parameters.values():
        if one.name not in known and one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            raise UsageError(f"{name}: its function judge takes {one.name}, which spikee does not pass to a judge")
    return function


def _looks_for(judge: Any, name: str) -> str:
    describe = getattr(judge, "get_description", None)
    try:
        described = describe() if describe is not None else None
    except Exception:  # noqa: BLE001  a description is no reason to do without a judge
        described = None
    text = described[1] if isinstance(described, tuple) and len(described) > 1 else described
    return text if isinstance(text, str) and text else f"what {name} looks for"
