"""REBEL's metrics: `rebel:ToolCallsAccuracy(threshold=0.8)`, `rebel:package.module:Class(…)`, `rebel:./file.py:Class`.

What REBEL calls passed is a hit: the thing that the metric looks for is there. Failed is a pass, and an error leaves
the attempt unjudged. A metric that asks a model gets the one of the setting, unless its parameters say otherwise.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from faircount.components.code import (
    imported,
    in_short,
    load,
    printing_aside,
    refuse_unknown,
    version_of,
    version_of_code,
)
from faircount.core.attempt import Attempt, ToolCall
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Verdict
from faircount.judges.judge import ThirdPartyJudge, share

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_PACKAGE = "rebel-eval"
_MODELS = ("model", "judge_llm")
_ROLES = ("system", "user", "assistant", "tool")
_CLIENT_PARAMETERS = ("temperature", "max_tokens")


class RebelJudge(ThirdPartyJudge):
    """One of REBEL's metrics."""

    scores = True

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        name = f"rebel:{target}"
        self._models = imported("rebel.models", name, _PACKAGE)
        module, inner, digest = _place(target, name)
        found = getattr(module, inner, None)
        metric, asked = _metric(name, found, parameters, chat, self._models)
        self._metric = metric
        version = version_of(_PACKAGE) + (f"+{digest}" if digest else "")
        written = {**parameters, "model": asked} if asked else parameters
        super().__init__(name, version, f"what REBEL's {metric.get_name()} calls passed", written)
        self.waits = any(hasattr(metric, field) for field in _MODELS)
        self.may_fork = not self.waits
        # A metric can look at the tools alone: an answer without text is none of its business.
        self.needs_response = False

    def decide(self, attempt: Attempt) -> Verdict:
        """Measure an attempt."""
        if attempt.response is None and not attempt.tools_called:
            return Verdict.unjudged("no response to judge")
        expected = attempt.expected
        result = self._metric.measure(
            self._input(attempt),
            self._output(expected.output, expected.tools_called or (), expected.context, None),
            self._output(attempt.response, attempt.tools_called, attempt.context, attempt.latency),
        )
        verdict = getattr(result.verdict, "value", result.verdict)
        if verdict not in ("passed", "failed"):
            return Verdict.unjudged(str(result.reason) or "the metric failed")
        return Verdict(Decision.of(verdict == "passed"), score=share(result.score), reason=str(result.reason))

    def _input(self, attempt: Attempt) -> Any:
        turns = [(turn.role, turn.content) for turn in attempt.conversation if turn.role in _ROLES]
        messages = [self._models.Message(role=role, content=content) for role, content in turns]
        if not messages:
            messages = [self._models.Message(role="user", content=attempt.prompt)]
        return self._models.AssistantInput(messages=messages, api_params={})

    def _output(
        self, text: str | None, tools: tuple[ToolCall, ...], context: tuple[str, ...], latency: float | None
    ) -> Any:
        calls = [
            self._models.ToolCall(function=self._models.Function(name=tool.name, arguments=tool.arguments))
            for tool in tools
        ]
        return self._models.AssistantOutput(
            output=text or "", tools_called=calls, context=list(context), execution_time=latency
        )


def _place(target: str, name: str) -> tuple[ModuleType, str, str]:
    """Return the module of a metric, the name in it, and a digest where the module is the user's own."""
    place, _, inner = target.rpartition(":")
    if not place:
        return imported("rebel.metrics", name, _PACKAGE), inner, ""
    module = load(place)
    own = not place.startswith("rebel.")
    return module, inner, version_of_code(place, module) if own else ""


def _metric(
    name: str, found: Any, parameters: Mapping[str, Any], chat: ChatSettings | None, models: ModuleType
) -> tuple[Any, str]:
    """Return a metric, and the model that it asks if that is the one of the setting."""
    if isinstance(found, models.Metric):
        refuse_unknown(name, parameters, [])
        return found, ""
    if not isinstance(found, type) or not issubclass(found, models.Metric):
        raise UsageError(f"{name}: not a metric of REBEL{_there(models)}")
    fields: Mapping[str, Any] = getattr(found, "model_fields", {})
    refuse_unknown(name, parameters, list(fields))
    given = dict(parameters)
    asked = ""
    for field in _MODELS:
        if field in fields and field not in given and chat is not None and chat.model:
            given[field] = fields[field].annotation(_client(name, chat))
            asked = chat.model
    try:
        with printing_aside():
            return found(**given), asked
    except Exception as error:  # a class of anybody's, and a value that it does not expect
        raise UsageError(f"{name}: cannot be created with these parameters: {_problem(error)}") from error


def _client(name: str, chat: ChatSettings) -> dict[str, Any]:
    """Return what REBEL's clients are configured with; the key comes from the environment and goes nowhere else."""
    key = os.environ.get(chat.api_key_env)
    if not key:
        raise UsageError(f"{name}: the environment variable {chat.api_key_env} is not set; it holds the key")
    wanted = {key: value for key, value in chat.parameters.items() if key in _CLIENT_PARAMETERS}
    return {"api_key": key, "base_url": chat.base_url, "model": chat.model, "timeout": chat.timeout, **wanted}


def _problem(error: Exception) -> str:
    """Return what pydantic says of the first value that it does not take, or what any other error says."""
    details = getattr(error, "errors", None)
    if callable(details):
        first = details()[0]
        model = bool(first["loc"]) and first["loc"][0] in _MODELS
        hint = "name a model with --model" if model else "name a metric created in a file as rebel:./file.py:NAME"
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}; {hint}"
    return in_short(error)


def _there(models: ModuleType) -> str:
    from importlib import import_module

    metrics = import_module("rebel.metrics")
    kinds = [value for _, value in inspect.getmembers(metrics, inspect.isclass) if issubclass(value, models.Metric)]
    names = [kind.__name__ for kind in kinds if kind is not models.Metric]
    return f"; it has {', '.join(names)}" if names else ""
