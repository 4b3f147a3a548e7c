"""REBEL's own test files, collected by REBEL and by Faircount: run alone by an interpreter that has both.

`python rebel_cases.py FOLDER` needs rebel-eval, Faircount and msgspec, and nothing of the test environment.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path
from typing import Any

from faircount.core import InputError
from faircount.readers import OutputRecord
from faircount.runs import TaskCase, collect

PLAIN = """\
from rebel import test_case
from rebel.models import (
    AssistantInput, AssistantOutput, EvaluationResult, EvaluationVerdict, Message, Metric, ParameterGrid,
    RetryAggregationStrategy, RetryParams, RoleEnum, TestGroup, ToolCall,
)
from rebel.metrics import ToolCallsAccuracy
from near import LIMIT


class Letters(Metric):
    letter: str
    limit: float = LIMIT

    def measure(self, input: AssistantInput, expected: AssistantOutput, actual: AssistantOutput):
        wanted = input.messages[-1].content.lower().count(self.letter)
        found = int(actual.output)
        verdict = EvaluationVerdict.PASSED if found == wanted else EvaluationVerdict.FAILED
        reason = f"{type(input).__module__.split('.')[0]} {len(expected.tools_called)} {len(actual.tools_called)}"
        return EvaluationResult(score=float(found == wanted), verdict=verdict, reason=reason)

    def get_name(self):
        return "Letters"


@test_case(
    messages=[Message(role=RoleEnum.system, content="count r"), Message(role=RoleEnum.user, content="arrow")],
    tags=["count"],
    api_params={"temperature": 0.7, "max_tokens": 1},
    param_grid=ParameterGrid(parameters={"max_tokens": [100, 200], "stop": ["a", None, ["x", "y"]]}),
)
def test_letters():
    yield TestGroup(
        metrics=[Letters(letter="r")],
        retry_params=RetryParams(count=3, aggregation_strategy=RetryAggregationStrategy.MEDIAN),
        tags=["first"],
    )
    yield TestGroup(metrics=[Letters(letter="r"), Letters(letter="a")], postfix="two")


@test_case(
    messages=[Message(role="user", content="call")],
    expected_output=AssistantOutput(tools_called=[ToolCall(name="f", input_parameters={"a": 1, "b": 2})]),
)
def test_tools():
    return [TestGroup(metrics=[ToolCallsAccuracy(threshold=0.9)], retry_params=RetryParams(count=2))]
"""
NEAR = "LIMIT = 0.25\n"

# Of the shape that REBEL's README shows: a grid of three, and two groups without a postfix.
TWO_GROUPS = """\
from rebel import test_case
from rebel.models import EvaluationResult, Message, Metric, ParameterGrid, RetryParams, RoleEnum, TestGroup


class Right(Metric):
    def measure(self, input, expected, actual):
        return EvaluationResult(score=1.0, verdict="passed", reason="right")

    def get_name(self):
        return "Right"


class Slow(Metric):
    def measure(self, input, expected, actual):
        raise TimeoutError("no time was measured")

    def get_name(self):
        return "Slow"


@test_case(
    messages=[Message(role=RoleEnum.user, content="?")],
    tags=["both"],
    api_params={"temperature": 0.7},
    param_grid=ParameterGrid(parameters={"max_tokens": [100, 200, 500]}),
)
def test_everything():
    yield TestGroup(
        metrics=[Right()], retry_params=RetryParams(count=3, aggregation_strategy="mean"), tags=["primary"]
    )
    yield TestGroup(
        metrics=[Slow()], retry_params=RetryParams(count=5, aggregation_strategy="median"), tags=["speed"]
    )
"""
# A metric as REBEL's README makes one of DeepEval's; the model is a server of the test's.
DEEPEVAL = """\
import os

from deepeval.metrics import GEval
from deepeval.test_case import LLMTestCaseParams
from rebel import test_case
from rebel.deepeval.client import OpenAIClientLLM
from rebel.deepeval.metric import DeepevalMetric
from rebel.models import Message, TestGroup

JUDGE = {"model": "judge", "api_key": "a-key-of-mine", "base_url": os.environ["JUDGE_URL"], "temperature": 0.1}


class Good(DeepevalMetric):
    threshold: float = 0.7

    def get_name(self):
        return "Good"

    def get_deepeval_metric(self):
        return GEval(
            name="Good",
            evaluation_steps=["Look at the answer."],
            evaluation_params=[LLMTestCaseParams.INPUT, LLMTestCaseParams.ACTUAL_OUTPUT],
            threshold=self.threshold,
            model=self.judge_llm,
        )


@test_case(messages=[Message(role="user", content="Is it good?")])
def test_good():
    yield TestGroup(metrics=[Good(judge_llm=OpenAIClientLLM(JUDGE))])
    yield TestGroup(metrics=[Good(judge_llm=OpenAIClientLLM(JUDGE), threshold=0.9)], postfix="very")
"""
CLIENT = """\
from rebel.collector import APIClient
from rebel.models import AssistantOutput


class Client(APIClient):
    def request(self, input):
        return AssistantOutput(output="yes", execution_time=0.5)
"""


def ours(text: str) -> str:
    """Return a test file of REBEL's with its imports changed."""
    modules = "rebel.models rebel.metrics rebel.collector rebel.deepeval.client rebel.deepeval.metric rebel"
    for module in modules.split():
        text = text.replace(f"from {module} import", "from faircount.testing import")
    return text


def told(case: TaskCase) -> Any:
    """Return of a case what both programs know."""
    expected = dict(case.expected)
    messages = [{"tool_calls": None, "tool_call_id": None, **message} for message in case.messages]
    retry = (case.attempts, case.aggregation)
    return case.name, list(case.tags), dict(case.api_params), messages, expected, retry, len(case.metrics)


def told_by_rebel(folder: str) -> list[Any]:
    """Return the cases of a folder as REBEL collects them."""
    extractor = importlib.import_module("rebel.extractor").Extractor(folder, None, None, None)
    with contextlib.redirect_stdout(io.StringIO()):
        cases = extractor.unfold_test_suites(extractor.exctract_test_suites())
    return [
        (
            case.name,
            case.tags,
            case.input.api_params,
            case.input.model_dump(mode="json")["messages"],
            case.expected_output.model_dump(mode="json"),
            (case.retry_params.count, case.retry_params.aggregation_strategy.value),
            len(case.metrics),
        )
        for case in cases
    ]


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}


def answer(text: str) -> OutputRecord:
    return OutputRecord(text, [CALL], [], 0.1)


def check(folder: Path) -> None:
    (folder / "near.py").write_text(NEAR)
    file = folder / "test_plain.py"
    file.write_text(PLAIN)
    collected = collect([str(folder)])
    by_rebel = [told(case) for case in collected.cases]
    sys.path.append(str(folder))
    assert by_rebel == told_by_rebel(str(folder)), by_rebel
    first = collected.cases[0]
    assert (first.function, first.place) == ("test_letters", f"{file}:25"), first.place
    assert collected.cases[6].name == "test_letters_two_[max_tokens=100_stop=a]"
    assert (collected.cases[6].function, collected.cases[6].suite) == ("test_letters", "test_letters_two")
    metrics = collected.cases[6].metrics
    assert [metric.name for metric in metrics] == ["Letters", "Letters #2"]
    assert metrics[0].type == "test_plain.Letters" and metrics[0].parameters == {"letter": "r", "limit": 0.25}
    assert metrics[0].version.startswith("rebel-eval ") and metrics[0].digest != metrics[1].digest
    good = metrics[0].measure(first, answer("2"))
    assert (good.score, good.decision, good.reason, good.error) == (1.0, "hit", "rebel 0 1", None), good
    failed = metrics[0].measure(first, answer("many"))
    assert failed.score is None and failed.decision is None and "invalid literal" in str(failed.error), failed
    tools = collected.cases[-1]
    assert tools.metrics[0].measure(tools, answer("x")).decision == "hit"
    # The same file with its imports changed makes the same cases.
    file.write_text(ours(PLAIN))
    assert [told(case) for case in collect([str(folder)]).cases] == by_rebel
    check_what_rebel_drops(folder)


def check_what_rebel_drops(folder: Path) -> None:
    """What REBEL leaves out in silence is an error here."""
    file = folder / "test_plain.py"
    for found, instead, problem in (
        ("RetryParams(count=2)", "RetryParams(count=0)", "count is 0; it must be 1 or more"),
        ("[ToolCallsAccuracy(threshold=0.9)]", "[]", "metrics is empty"),
        ('{"max_tokens": [100, 200], ', '{"max_tokens": [], ', "max_tokens has no values"),
        (', postfix="two"', "", "two cases are both named test_letters_[max_tokens=100_stop=a]"),
        ("return [TestGroup", "raise RuntimeError('broken')\n    return [TestGroup", "RuntimeError: broken"),
    ):
        assert found in PLAIN
        file.write_text(PLAIN.replace(found, instead))
        try:
            collect([str(folder)])
        except InputError as error:
            assert problem in str(error) and f"{file}:" in str(error), str(error)
        else:
            raise AssertionError(problem)


if __name__ == "__main__":
    check(Path(sys.argv[1]))
    print("all good")  # noqa: T201
