"""A report read back: `TestCaseEvaluated(**entry)` for each entry of `test_cases`, in Faircount's reports and REBEL's.

The names and fields are REBEL's. Fields that only Faircount's reports have are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from faircount.testing.cases import RetryParams
from faircount.testing.fields import Data
from faircount.testing.messages import AssistantInput, AssistantOutput, data_of, list_of
from faircount.testing.metrics import EvaluationResult


class TestInfo(Data):
    """What a test case is called, how often it is tried, what is asked and what is expected."""

    __test__ = False  # not a test of pytest's

    name: str
    tags: list[str]
    retry_params: RetryParams
    input: AssistantInput
    expected_output: AssistantOutput

    def __init__(self, **fields: Any) -> None:
        super().__init__(**self._known(fields))

    def _settle(self) -> None:
        owner = type(self).__name__
        self.retry_params = data_of(RetryParams, self.retry_params, owner, "retry_params")
        self.input = data_of(AssistantInput, self.input, owner, "input")
        self.expected_output = data_of(AssistantOutput, self.expected_output, owner, "expected_output")


class TestCase(TestInfo):
    """A test case with its metrics, as the report describes them: REBEL's reports have an empty dictionary for each."""

    metrics: list[Any]


class TestCaseEvaluated(TestCase):
    """A test case with its answers, what each metric said of each, and the result over all of them.

    A score that the report does not have is NaN.
    """

    actual_outputs: list[AssistantOutput]
    evaluation_results: list[EvaluationResult]
    aggregated_result: EvaluationResult

    @classmethod
    def _known(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        results = {"aggregated_result": _with_score(given.get("aggregated_result"))}
        if isinstance(given.get("evaluation_results"), list):
            results["evaluation_results"] = [_with_score(result) for result in given["evaluation_results"]]
        return super()._known({**given, **{name: value for name, value in results.items() if name in given}})

    def _settle(self) -> None:
        super()._settle()
        owner = type(self).__name__
        self.actual_outputs = list_of(AssistantOutput, self.actual_outputs, owner, "actual_outputs")
        self.evaluation_results = list_of(EvaluationResult, self.evaluation_results, owner, "evaluation_results")
        self.aggregated_result = data_of(EvaluationResult, self.aggregated_result, owner, "aggregated_result")


def _with_score(result: Any) -> Any:
    """Return a result with NaN for null, which Faircount's reports have for scores that are missing or not finite."""
    if isinstance(result, Mapping) and result.get("score", 0) is None:
        return {**result, "score": math.nan}
    return result
