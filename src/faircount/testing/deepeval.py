"""DeepEval's metrics in test files, as REBEL has them. DeepEval is needed when a model is made, not before."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from faircount.compat.deepeval import DeepEvalModel, measure
from faircount.components.code import version_of
from faircount.testing.judge_model import OpenAIClientWrapper
from faircount.testing.judged import JudgedResult, attempt_from
from faircount.testing.messages import AssistantInput, AssistantOutput
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, Metric


class OpenAIClientLLM(DeepEvalModel):
    """A model for DeepEval's metrics, named by a dictionary as that of `OpenAIClientWrapper` is."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._wrapper = OpenAIClientWrapper(config, owner="OpenAIClientLLM")
        super().__init__(config["model"], self._wrapper.client, {"temperature": self._wrapper.temperature})

    def ready(self) -> None:
        """Make the client now: a missing key is told before any work begins."""
        self._wrapper.client()

    def close(self) -> None:
        """Close the client, if there is one; another is made when the model is asked again."""
        self._wrapper.close()

    def _recorded(self) -> Mapping[str, Any]:
        return self._wrapper._recorded()


class DeepevalMetric(Metric):
    """The base of metrics that measure by one of DeepEval's, which `get_deepeval_metric` makes for each answer."""

    judge_llm: OpenAIClientLLM

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Check the model."""
        given: Any = self.judge_llm
        self.judge_llm = OpenAIClientLLM(given) if isinstance(given, Mapping) else given
        if not isinstance(self.judge_llm, OpenAIClientLLM):
            name = type(self).__name__
            raise TypeError(f"{name}: judge_llm must be an OpenAIClientLLM, not {type(given).__name__}")

    @abc.abstractmethod
    def get_deepeval_metric(self) -> Any:
        """Return a new metric of DeepEval's, with `self.judge_llm` as its model."""

    def measure(
        self,
        input: AssistantInput,  # noqa: A002
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult:
        """Measure an answer; it passes if DeepEval calls it a success."""
        metric = self.get_deepeval_metric()
        usage = measure(metric, attempt_from(input, expected, actual))
        if metric.success is None:
            raise ValueError("the metric has no threshold to decide by")
        verdict = EvaluationVerdict.PASSED if metric.success else EvaluationVerdict.FAILED
        return JudgedResult(score=metric.score, verdict=verdict, reason=metric.reason, usage=usage)

    def ready(self) -> None:
        """Let the model say now what it lacks."""
        self.judge_llm.ready()

    def close(self) -> None:
        """Close the model; several metrics may share it."""
        self.judge_llm.close()

    def _code_version(self) -> str:
        return f"deepeval {version_of('deepeval')}"
