"""DeepEval's metrics: `deepeval:ExactMatchMetric`, `deepeval:GEval(name="…", criteria="…", evaluation_params=[…])`.

Success is a hit: the thing that the metric looks for is there. Metrics that measure something bad and succeed when
there is little of it keep that sense, and their score is turned round with it, so that more is more of a hit. A metric
without a threshold decides nothing. Telemetry is off, and no .env file of the folder is read.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from faircount.components.code import imported, in_short, printing_aside, refuse_unknown, version_of
from faircount.core.attempt import Attempt, ToolCall
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Usage, Verdict
from faircount.judges.judge import ThirdPartyJudge, share

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient
    from faircount.chat.settings import ChatSettings

_PACKAGE = "deepeval"
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
}

# What one measurement asked of the model of the setting, also where DeepEval asks in threads and tasks of its own.
_spent: ContextVar[list[Usage]] = ContextVar("spent")


class DeepEvalJudge(ThirdPartyJudge):
    """One of DeepEval's metrics for one answer."""

    scores = True
    may_fork = False

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        name = f"deepeval:{target}"
        metrics = _module("metrics", name)
        self._cases = _module("test_case", name)
        kind = _kind(name, metrics, target)
        takes = list(inspect.signature(kind.__init__).parameters)[1:]
        refuse_unknown(name, parameters, takes)
        given = self._translated(name, parameters)
        if "async_mode" in takes:
            # Many attempts are measured at once already, each in a thread of its own.
            given.setdefault("async_mode", False)
        written = dict(parameters)
        self._client: ChatClient | None = None
        if "model" in takes and "model" not in parameters and chat is not None and chat.model:
            from faircount.chat.client import ChatClient

            self._client = client = ChatClient(chat)
            given["model"] = DeepEvalModel(chat.model, lambda: client)
            written["model"] = chat.model
        self._metric = _metric(name, kind, given)
        self._less_is_success = _less_is_success(self._metric)
        super().__init__(name, version_of(_PACKAGE), f"what DeepEval's {kind.__name__} calls a success", written)
        self.waits = getattr(self._metric, "model", None) is not None

    def decide(self, attempt: Attempt) -> Verdict:
        """Measure an attempt."""
        # A metric keeps what it found in itself: each attempt has its own.
        metric = copy.copy(self._metric)
        usage = measure(metric, attempt)
        error, success = getattr(metric, "error", None), getattr(metric, "success", None)
        if error or success is None:
            return Verdict.unjudged(str(error or "the metric has no threshold to decide by"), usage=usage)
        score = share(metric.score)
        if score is not None and self._less_is_success:
            score = 1 - score
        return Verdict(Decision.of(bool(success)), score=score, reason=str(metric.reason or ""), usage=usage)

    def close(self) -> None:
        """Give back the connections of the model."""
        if self._client is not None:
            self._client.close()

    def _translated(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with the fields that GEval looks at, which DeepEval wants as its own kind of names."""
        given = dict(parameters)
        if isinstance(given.get("evaluation_params"), list):
            kinds = getattr(self._cases, "SingleTurnParams", None) or self._cases.LLMTestCaseParams
            try:
                given["evaluation_params"] = [kinds(str(value).lower()) for value in given["evaluation_params"]]
            except ValueError as error:
                known = ", ".join(str(kind.value) for kind in kinds)
                raise UsageError(f"{name}: evaluation_params may be {known}; {error}") from error
        return given


def measure(metric: Any, attempt: Attempt) -> Usage | None:
    """Let a metric of DeepEval's measure an attempt, and return what that took; the result is in the metric."""
    case = _case(_module("test_case", type(metric).__name__), attempt)
    shown = {"_show_indicator": False} if "_show_indicator" in inspect.signature(metric.measure).parameters else {}
    spent: list[Usage] = []
    mark = _spent.set(spent)
    try:
        metric.measure(case, **shown)
    finally:
        _spent.reset(mark)
    return sum(spent, Usage()) if spent else _usage(metric)


def _case(cases: ModuleType, attempt: Attempt) -> Any:
    expected = attempt.expected
    context = list(expected.context or attempt.context) or None
    return cases.LLMTestCase(
        input=attempt.prompt or next((t.content for t in reversed(attempt.conversation) if t.role == "user"), ""),
        actual_output=attempt.response,
        expected_output=expected.output,
        context=context,
        retrieval_context=list(attempt.context) or None,
        tools_called=_tools(cases, attempt.tools_called),
        expected_tools=None if expected.tools_called is None else _tools(cases, expected.tools_called),
    )


def _tools(cases: ModuleType, calls: tuple[ToolCall, ...]) -> list[Any]:
    return [cases.ToolCall(name=call.name, input_parameters=_arguments(call.arguments)) for call in calls]


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; a model can write something other than a JSON object, which is kept as a text."""
    import json

    try:
        read = json.loads(text)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": text}


def _module(name: str, needed_by: str) -> ModuleType:
    os.environ.update(_QUIET)
    return imported(f"deepeval.{name}", needed_by, _PACKAGE)


def _kind(name: str, metrics: ModuleType, target: str) -> Any:
    kind = getattr(metrics, target, None)
    if not isinstance(kind, type) or not issubclass(kind, metrics.BaseMetric) or kind is metrics.BaseMetric:
        import difflib

        names = [
            key for key, value in inspect.getmembers(metrics, inspect.isclass) if issubclass(value, metrics.BaseMetric)
        ]
        near = difflib.get_close_matches(target, names, n=3)
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        raise UsageError(f"{name}: DeepEval has no such metric for one answer{meant}")
    return kind


def _metric(name: str, kind: Any, given: Mapping[str, Any]) -> Any:
    import warnings

    try:
        with printing_aside(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(**given)
    except Exception as error:  # a class of anybody's, and a value that it does not expect
        raise UsageError(f"{name}: cannot be created: {in_short(error)}; name a model with --model") from error


def _less_is_success(metric: Any) -> bool:
    """Return whether a metric succeeds with the lowest score, not the highest, as some did before DeepEval 4."""

    def succeeds(score: float) -> bool:
        tried = copy.copy(metric)
        tried.score, tried.error = score, None
        return bool(tried.is_successful())

    try:
        return succeeds(0.0) and not succeeds(1.0)
    except Exception:  # noqa: BLE001  metrics that cannot say so before they have measured
        return False


def _usage(metric: Any) -> Usage | None:
    """Return what a measurement took, as far as DeepEval counted it."""
    cost, sent, came = (getattr(metric, key, None) for key in ("evaluation_cost", "input_tokens", "output_tokens"))
    if not any(isinstance(value, int | float) and value for value in (cost, sent, came)):
        return None
    return Usage(prompt_tokens=int(sent or 0), completion_tokens=int(came or 0), cost=cost)


class DeepEvalModel:
    """A chat client as a model of DeepEval's: objects are made of a class that extends DeepEval's own as well.

    It takes no schema, so that DeepEval reads JSON from the text.
    """

    def __new__(cls, *_values: Any, **_named: Any) -> Self:
        kind: type = cls
        extended: Any = _extending_deepeval(kind)
        made: Self = object.__new__(extended)
        return made

    def __init__(
        self, name: str, client: Callable[[], ChatClient], parameters: Mapping[str, Any] | None = None
    ) -> None:
        self._name, self._client, self._parameters = name, client, parameters
        super().__init__(name)  # type: ignore[call-arg]  # DeepEval's

    def load_model(self) -> Any:
        """Return the model: there is nothing to load."""
        return self

    def generate(self, prompt: str) -> str:
        """Return the answer to a prompt."""
        answer = self._client().ask_now([{"role": "user", "content": prompt}], parameters=self._parameters)
        used = Usage(1, answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.cost)
        _spent.get([]).append(used)
        return answer.text

    async def a_generate(self, prompt: str) -> str:
        """Return the answer to a prompt."""
        import asyncio

        return await asyncio.to_thread(self.generate, prompt)

    def get_model_name(self) -> str:
        """Return the name of the model."""
        return self._name


@functools.cache
def _extending_deepeval(kind: type) -> type:
    base = _module("models", kind.__name__).DeepEvalBaseLLM
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return types.new_class(kind.__name__, (kind, base), exec_body=lambda body: body.update(names))
