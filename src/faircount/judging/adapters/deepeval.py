"""DeepEval's metrics: `deepeval:ExactMatchMetric`, `deepeval:GEval(name="…", criteria="…", evaluation_params=[…])`.

Success is a hit: the thing that the metric looks for is there. Metrics that measure something bad and succeed when
there is little of it keep that sense, and their score is turned round with it, so that more is more of a hit. A metric
without a threshold decides nothing. Telemetry is off, and no .env file of the folder is read.
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any

from faircount.errors import UsageError
from faircount.judging.attempt import Attempt, ToolCall
from faircount.judging.outside import (
    OutsideJudge,
    imported,
    in_short,
    printing_aside,
    refuse_unknown,
    share,
    version_of,
)
from faircount.judging.verdict import Decision, Usage, Verdict

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_PACKAGE = "deepeval"
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
}

# What one measurement asked of the model of the setting, also where DeepEval asks in threads and tasks of its own.
_spent: ContextVar[list[Usage]] = ContextVar("spent")


class DeepEvalJudge(OutsideJudge):
    """One of DeepEval's metrics for one answer."""

    scores = True
    may_fork = False

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        name = f"deepeval:{target}"
        os.environ.update(_QUIET)
        metrics = imported("deepeval.metrics", name, _PACKAGE)
        self._cases = imported("deepeval.test_case", name, _PACKAGE)
        kind = _kind(name, metrics, target)
        takes = list(inspect.signature(kind.__init__).parameters)[1:]
        refuse_unknown(name, parameters, takes)
        given = self._translated(name, parameters)
        if "async_mode" in takes:
            # Many attempts are measured at once already, each in a thread of its own.
            given.setdefault("async_mode", False)
        written = dict(parameters)
        self._model: Any = None
        if "model" in takes and "model" not in parameters and chat is not None and chat.model:
            given["model"] = self._model = _model(chat)
            written["model"] = chat.model
        self._metric = _metric(name, kind, given)
        self._less_is_success = _less_is_success(self._metric)
        super().__init__(name, version_of(_PACKAGE), f"what DeepEval's {kind.__name__} calls a success", written)
        self.waits = getattr(self._metric, "model", None) is not None

    def decide(self, attempt: Attempt) -> Verdict:
        """Measure an attempt."""
        # A metric keeps what it found in itself: each attempt has its own.
        metric = copy.copy(self._metric)
        case = self._case(attempt)
        shown = {"_show_indicator": False} if "_show_indicator" in inspect.signature(metric.measure).parameters else {}
        spent: list[Usage] = []
        mark = _spent.set(spent)
        try:
            metric.measure(case, **shown)
        finally:
            _spent.reset(mark)
        usage = sum(spent, Usage()) if spent else _usage(metric)
        error, success = getattr(metric, "error", None), getattr(metric, "success", None)
        if error or success is None:
            return Verdict.unjudged(str(error or "the metric has no threshold to decide by"), usage=usage)
        score = share(metric.score)
        if score is not None and self._less_is_success:
            score = 1 - score
        return Verdict(Decision.of(bool(success)), score=score, reason=str(metric.reason or ""), usage=usage)

    def close(self) -> None:
        """Give back the connections of the model."""
        if self._model is not None:
            self._model.close()

    def _translated(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with the fields that GEval looks at, which DeepEval wants as its own kind of names."""
        given = dict(parameters)
        if isinstance(given.get("evaluation_params"), list):
            kinds = getattr(self._cases, "SingleTurnParams", None) or self._cases.LLMTestCaseParams
            try:
                given["evaluation_params"] = [kinds(str(value).lower()) for value in given["evaluation_params"]]
            except ValueError as error:
                known = ", ".join(str(kind.value) for kind in kinds)
                raise UsageError(f"{name}: evaluation_params can be {known}; {error}") from error
        return given

    def _case(self, attempt: Attempt) -> Any:
        expected = attempt.expected
        context = list(expected.context or attempt.context) or None
        return self._cases.LLMTestCase(
            input=attempt.prompt or next((t.content for t in reversed(attempt.conversation) if t.role == "user"), ""),
            actual_output=attempt.response,
            expected_output=expected.output,
            context=context,
            retrieval_context=list(attempt.context) or None,
            tools_called=self._tools(attempt.tools_called),
            expected_tools=None if expected.tools_called is None else self._tools(expected.tools_called),
        )

    def _tools(self, calls: tuple[ToolCall, ...]) -> list[Any]:
        import json

        return [self._cases.ToolCall(name=call.name, input_parameters=json.loads(call.arguments)) for call in calls]


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
        raise UsageError(f"{name}: cannot be made: {in_short(error)}; a model is named with --model") from error


def _less_is_success(metric: Any) -> bool:
    """Tell whether a metric succeeds with the lowest score and not with the highest, as some did before DeepEval 4."""

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


def _model(chat: ChatSettings) -> Any:
    """Return the model of the setting in DeepEval's shape."""
    from deepeval.models import DeepEvalBaseLLM  # type: ignore[import-not-found,unused-ignore]

    from faircount.chat.client import ChatClient

    class Asked(DeepEvalBaseLLM):  # type: ignore[misc,unused-ignore]
        """The chat client as a model of DeepEval's; it takes no schema, so that DeepEval reads JSON from the text."""

        def __init__(self) -> None:
            self._client = ChatClient(chat)
            super().__init__(chat.model)

        def load_model(self) -> Any:
            return self

        def generate(self, prompt: str) -> str:
            answer = self._client.ask_now([{"role": "user", "content": prompt}])
            used = Usage(1, answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.cost)
            _spent.get([]).append(used)
            return answer.text

        async def a_generate(self, prompt: str) -> str:
            import asyncio

            return await asyncio.to_thread(self.generate, prompt)

        def get_model_name(self) -> str:
            return chat.model

        def close(self) -> None:
            self._client.close()

    return Asked()
