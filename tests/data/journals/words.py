"""Tests of which some pass, some fail, and some cannot be measured."""

from collections.abc import Iterator
from typing import Any

from faircount import testing
from faircount.testing import EvaluationResult, Message, Metric, ParameterGrid, RetryParams, RoleEnum, TestGroup


class Says(Metric):
    """Passes when a word is in the answer."""

    word: str = "yes"

    def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
        found = self.word in actual.output
        return EvaluationResult(score=float(found), verdict="passed" if found else "failed", reason="looked")


class Breaks(Metric):
    """Fails to measure a short answer."""

    def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
        if len(actual.output) < 3:
            raise ValueError("it broke")
        return EvaluationResult(score=1.0, verdict="passed", reason="")


@testing.test_case(
    messages=[Message(role=RoleEnum.user, content="yes or no?")],
    tags=["short"],
    param_grid=ParameterGrid(parameters={"seed": [0, 1, 2, 3, 4, 5]}),
)
def test_word() -> Iterator[TestGroup]:
    yield TestGroup(metrics=[Says(), Breaks()], retry_params=RetryParams(count=2))
