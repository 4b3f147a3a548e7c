"""The words of test files: what can be said with them, what is refused, and what REBEL's built-in metrics decide."""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import random
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.pairwise import cosine_similarity

import faircount.testing
from faircount.core import UsageError
from faircount.judges import Contains, Judge
from faircount.readers import check_attempts, plain_names, read_aggregation
from faircount.stats.retries import ReducerName
from faircount.testing import (
    APIClient,
    AssistantInput,
    AssistantOutput,
    ContextualFScore,
    ContextualFScoreTemplate,
    CosineSimilarityToolCallDistance,
    DeepevalMetric,
    Encoder,
    EvaluationResult,
    EvaluationVerdict,
    Function,
    JudgeMetric,
    Message,
    Metric,
    OpenAIClientWrapper,
    ParameterGrid,
    RetryAggregationStrategy,
    RetryParams,
    RoleEnum,
    TestGroup,
    ToolCall,
    ToolCallDistance,
    ToolCallsAccuracy,
    test_case,
)
from faircount.testing.fields import SECRET, is_secret, plain
from faircount.testing.metrics import attempt_from
from tests.runs.misbehaving_server import Server, answer, completion

KEY = "key-0123456789abcdefghij"
NOTHING = AssistantInput(messages=[])


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, input_parameters=arguments)


def measured(metric: Metric, expected: AssistantOutput, actual: AssistantOutput) -> EvaluationResult:
    result = metric.measure(NOTHING, expected, actual)
    assert isinstance(result, EvaluationResult)
    return result


# -- the door ---------------------------------------------------------------------------------------------------


def test_the_door_is_sorted_and_has_everything_that_rebel_files_import() -> None:
    names = faircount.testing.__all__
    assert names == sorted(names)
    assert all(hasattr(faircount.testing, name) for name in names)
    rebel = """test_case TestGroup RetryParams RetryAggregationStrategy ParameterGrid Message RoleEnum ToolCall Function
        AssistantInput AssistantOutput Metric EvaluationResult EvaluationVerdict APIClient ToolCallsAccuracy Encoder
        ContextualFScore ContextualFScoreTemplate ToolCallDistance ExactMatchToolCallDistance
        CosineSimilarityToolCallDistance OpenAIClientWrapper TestInfo TestCase TestCaseEvaluated
        DeepevalMetric OpenAIClientLLM"""
    assert set(rebel.split()) <= set(names)


def test_a_test_file_that_somebody_merely_imports_declares_nothing() -> None:
    asked = []

    @test_case(messages=[Message(role="user", content="hi")])
    def test_something() -> Any:
        asked.append(1)
        yield TestGroup(metrics=[])

    assert test_something.__name__ == "test_something" and not asked


# -- messages ---------------------------------------------------------------------------------------------------


def test_a_role_may_be_a_word_and_is_one_of_four() -> None:
    assert Message(role="user", content="x").role is RoleEnum.user
    assert Message(role="user", content="x") == Message(role=RoleEnum.user, content="x") != Message("system", "x")
    with pytest.raises(ValueError, match="role must be one of user, assistant, tool, system, not 'developer'"):
        Message(role="developer", content="x")


def test_a_call_is_made_of_a_function_or_of_its_parameters() -> None:
    flat = ToolCall(name="search", input_parameters={"q": "a", "n": [1]})
    nested = ToolCall(function={"name": "search", "arguments": '{"q": "a", "n": [1]}'})
    assert flat == nested == ToolCall(function=Function(name="search", arguments=json.dumps({"q": "a", "n": [1]})))
    assert (flat.id, flat.type, flat.function.parse_arguments()) == ("", "function", {"q": "a", "n": [1]})
    with pytest.raises(TypeError, match="ToolCall needs function, or both name and input_parameters"):
        ToolCall()
    with pytest.raises(TypeError, match="either function, or both"):
        ToolCall(name="x")
    with pytest.raises(ValueError, match="type must be function"):
        ToolCall(function=flat.function, type="code")


def test_outputs_begin_empty_and_share_nothing() -> None:
    one, other = AssistantOutput(), AssistantOutput()
    assert one.model_dump() == {"output": "", "tools_called": [], "context": [], "execution_time": None}
    assert one.tools_called is not None and one.context is not None
    one.context.append("x")
    one.tools_called.append(call("f"))
    assert other == AssistantOutput() != one


def test_data_is_dumped_as_rebel_dumps_it() -> None:
    message = Message(role="assistant", content="", tool_calls=[call("f", a=1)])
    function = {"name": "f", "arguments": '{"a": 1}'}
    calls = [{"id": "", "type": "function", "function": function}]
    dumped = {"role": "assistant", "content": "", "tool_calls": calls, "tool_call_id": None}
    assert message.model_dump() == dumped and list(message.model_dump()) == list(dumped)
    assert list(message.model_dump()["tool_calls"][0]) == ["id", "type", "function"]
    assert message.model_dump(exclude_none=True).keys() == {"role", "content", "tool_calls"}
    assert json.loads(message.model_dump_json()) == dumped
    assert Message(**message.model_dump()) == message
    assert message.model_copy(update={"content": "x"}).content == "x"
    assert type(message.model_dump(mode="json")["role"]) is str


def test_data_is_read_from_dictionaries_as_pydantic_reads_them() -> None:
    function = {"name": "f", "arguments": "{}", "unknown": 1}
    read = Message.model_validate({"role": "user", "content": "x", "tool_calls": [{"function": function}], "more": 2})
    assert read == Message(role="user", content="x", tool_calls=[call("f")])
    assert read.model_fields_set == {"role", "content", "tool_calls"}
    assert Message.model_validate(read) is read
    assert Message.model_validate_json(read.model_dump_json()) == read
    flat = {"name": "f", "input_parameters": {"a": 1}, "unknown": 2}
    assert ToolCall.model_validate(flat) == call("f", a=1)
    for wrong, problem in (({"role": "user"}, "Message needs content"), ([], "from a dictionary, not from list")):
        with pytest.raises(ValueError, match=problem):
            Message.model_validate(wrong)
    with pytest.raises(ValueError, match="content must be a string"):
        Message.model_validate({"role": "user", "content": 3})


def test_fields_can_be_chosen_copied_and_described() -> None:
    output = AssistantOutput(output="x", context=["c"])
    assert output.model_dump(include={"output", "context"}, exclude={"context"}) == {"output": "x"}
    copied = output.copy(update={"output": "y"})
    assert (copied.output, output.output, copied.context is output.context) == ("y", "x", True)
    assert output.copy(deep=True) == output and output.copy(deep=True).context is not output.context
    assert list(AssistantOutput.model_fields) == ["output", "tools_called", "context", "execution_time"]
    content, calls = Message.model_fields["content"], Message.model_fields["tool_calls"]
    assert (content.is_required(), calls.is_required(), calls.default) == (True, False, None)
    assert not AssistantOutput.model_fields["context"].is_required()


def test_metrics_have_the_same_methods() -> None:
    metric = Saying(label="a", words=["w"])
    assert metric.model_dump(exclude={"words"}) == {"limit": 0.5, "label": "a"}
    assert metric.copy(update={"label": "b"}).label == "b"
    assert metric.copy() == metric == Saying.model_validate({**metric.model_dump(), "unknown": 1})
    assert Saying.model_fields["label"].annotation is str and Saying.model_fields["label"].is_required()
    assert metric.model_fields["limit"].default == 0.5


def test_a_test_takes_dictionaries_for_its_parts() -> None:
    wanted = {"output": "x", "tools_called": [{"name": "f", "input_parameters": {}}]}
    grid = {"parameters": {"a": [1]}}
    test_case(messages=[{"role": "user", "content": "?"}], expected_output=wanted, param_grid=grid)
    with pytest.raises(TypeError, match="AssistantOutput has no parameter ouput"):
        test_case(messages=[], expected_output={"ouput": "x"})
    with pytest.raises(TypeError, match="test_case: expected_output must be AssistantOutput, not str"):
        test_case(messages=[], expected_output="x")  # type: ignore[arg-type]


def test_data_shows_itself_as_the_call_that_makes_it() -> None:
    message = Message(role="user", content="hi")
    shown = "Message(role=<RoleEnum.user: 'user'>, content='hi', tool_calls=None, tool_call_id=None)"
    assert repr(message) == shown


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        (Message, {"role": "user"}, "Message needs content"),
        (Message, {"role": "user", "content": "x", "name": "y"}, "Message has no parameter name; it takes role"),
        (Message, {"role": "user", "content": 3}, "content must be a string, not int"),
        (AssistantOutput, {"context": "a text"}, "context must be a list of strings"),
        (AssistantOutput, {"output": 7}, "output must be a string, not int"),
        (AssistantOutput, {"tools_called": ["f"]}, "tools_called must be ToolCall, not str"),
        (AssistantInput, {"messages": "hi"}, "messages must be a list of Message, not str"),
        (AssistantInput, {"messages": [], "api_params": [1]}, "api_params must be a dictionary"),
        (RetryParams, {}, "RetryParams needs count"),
        (RetryParams, {"count": "3"}, "count must be a whole number, not '3'"),
        (RetryParams, {"count": True}, "count must be a whole number"),
        (ParameterGrid, {"parameters": {"n": "abc"}}, "'n' must be a string with a list of values"),
        (TestGroup, {}, "TestGroup needs metrics"),
        (TestGroup, {"metrics": [], "tags": "basic"}, "tags must be a list of strings"),
        (TestGroup, {"metrics": [], "retry_params": 3}, "retry_params must be RetryParams, not int"),
        (EvaluationResult, {"score": None, "verdict": "passed"}, "the score must be a number, not NoneType"),
        (EvaluationResult, {"score": 1.0}, "EvaluationResult needs verdict"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind: Any, values: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        kind(**values)


def test_a_result_takes_the_word_of_a_verdict_and_any_number() -> None:
    unchecked: Any = EvaluationResult
    result = unchecked(score=np.float32(0.5), verdict="passed", reason=None)
    assert (result.score, result.verdict, result.reason) == (0.5, EvaluationVerdict.PASSED, "")
    assert EvaluationResult(score=True, verdict=EvaluationVerdict.FAILED, reason="x").score == 1.0
    assert EvaluationResult(score=float("inf"), verdict="failed", reason="x").score == float("inf")
    with pytest.raises(ValueError, match="the verdict must be passed, failed or error, not 'good'"):
        EvaluationResult(score=1.0, verdict="good", reason="")


def test_a_grid_is_every_combination_in_the_order_of_its_keys() -> None:
    grid = ParameterGrid(parameters={"a": [1, 2], "b": ["x", "y"]})
    expected = [dict(zip("ab", values, strict=True)) for values in itertools.product([1, 2], ["x", "y"])]
    assert grid.expand() == expected
    assert ParameterGrid(parameters={}).expand() == [{}]
    assert ParameterGrid(parameters={"a": []}).expand() == []


def test_retries_are_averaged_unless_said_otherwise() -> None:
    assert RetryParams(count=2).aggregation_strategy is RetryAggregationStrategy.MEAN
    assert RetryParams(count=2, aggregation_strategy="median").aggregation_strategy is RetryAggregationStrategy.MEDIAN
    assert TestGroup(metrics=[]).retry_params == RetryParams(count=1)


# -- aggregation ------------------------------------------------------------------------------------------------


def test_every_reducer_can_be_named() -> None:
    from typing import get_args

    named = [read_aggregation(name) for name in (*plain_names(), "pass@3", "pass^2", "at_least_4")]
    assert {one.reducer for one in named} == set(get_args(ReducerName))
    assert {strategy.value for strategy in RetryAggregationStrategy} == set(plain_names())
    assert [(one.k, one.name) for one in named[-3:]] == [(3, "pass@3"), (2, "pass^2"), (4, "at_least_4")]


@pytest.mark.parametrize("name", ["average", "pass@k", "pass@0", "pass@", "at_least_k", "MEAN", "", "pass@9999999999"])
def test_a_way_to_aggregate_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no such aggregation: .*; available: mean, median"):
        read_aggregation(name)


def test_a_number_of_passes_needs_as_many_attempts() -> None:
    check_attempts(read_aggregation("pass@3"), 3)
    with pytest.raises(ValueError, match="pass@3 needs 3 attempts or more, but there are 2"):
        check_attempts(read_aggregation("pass@3"), 2)


# -- metrics ----------------------------------------------------------------------------------------------------


class Saying(Metric):
    """A metric that always says the same."""

    words: list[str] = []
    limit: float = 0.5
    label: str
    kind: ClassVar[str] = "test"

    def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
        return EvaluationResult(score=self.limit, verdict="passed", reason=self.label)


def test_a_metric_is_made_of_its_annotations() -> None:
    one, other = Saying(label="a"), Saying(label="a", limit=0.7)
    assert (one.words, one.limit, one.label, one.kind, one.get_name()) == ([], 0.5, "a", "test", "Saying")
    one.words.append("x")
    assert other.words == [] and Saying.words == []
    assert Saying(label="b") == Saying(label="b") != Saying(label="c")
    assert repr(other) == "Saying(words=[], limit=0.7, label='a')"
    assert one.blocking


def test_a_name_that_is_unknown_or_missing_is_a_type_error() -> None:
    unchecked: Any = Saying
    with pytest.raises(TypeError, match="Saying needs label"):
        unchecked()
    with pytest.raises(TypeError, match="Saying has no parameter lable; it takes words, limit, label"):
        unchecked(lable="x")
    with pytest.raises(TypeError, match="has no parameter kind"):
        unchecked(label="x", kind="y")
    with pytest.raises(TypeError, match="Saying takes its parameters by name: Saying"):
        unchecked("x")


def test_fields_are_inherited_and_defaults_can_be_given_anew() -> None:
    class Stricter(Saying):
        limit = 0.9
        more: int = 1

    metric = Stricter(label="x", more=2)
    assert (metric.limit, metric.more, metric.words) == (0.9, 2, [])


def test_a_metric_may_have_an_init_of_its_own_as_rebels_documentation_shows() -> None:
    class Keyword(Metric):
        seen: list[str] = []

        def __init__(self, keyword: str) -> None:
            self.keyword = keyword.lower()

        def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
            found = self.keyword in actual.output.lower()
            return EvaluationResult(score=float(found), verdict="passed" if found else "failed", reason="looked")

    one, other = Keyword("Paris"), Keyword("Rome")
    one.seen.append("x")
    assert other.seen == []
    assert measured(one, AssistantOutput(), AssistantOutput(output="in PARIS")).verdict == "passed"
    assert plain(one) == {"seen": ["x"], "keyword": "paris"}


def test_a_metric_without_measure_cannot_be_made() -> None:
    class Half(Metric):
        pass

    unchecked: Any = Half
    with pytest.raises(TypeError, match="abstract"):
        unchecked()


class FieldOfAnotherLibrary:
    """Has the shape of pydantic's FieldInfo."""

    def __init__(self, default: Any = ..., default_factory: Any = None) -> None:
        self.default = default
        self.default_factory = default_factory


def test_fields_of_pydantic_are_understood() -> None:
    class Mixed(Metric):
        threshold: float = FieldOfAnotherLibrary(0.7)  # type: ignore[assignment]
        names: list[str] = FieldOfAnotherLibrary(default_factory=list)  # type: ignore[assignment]
        own: list[str] = field(default_factory=lambda: ["x"])
        needed: str = FieldOfAnotherLibrary(...)  # type: ignore[assignment]
        _cache: dict[str, str] = FieldOfAnotherLibrary(default_factory=dict)  # type: ignore[assignment]

        def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
            return EvaluationResult(score=1.0, verdict="passed")

    metric = Mixed(needed="n")
    assert (metric.threshold, metric.names, metric.own, metric._cache) == (0.7, [], ["x"], {})
    assert metric._cache is not Mixed(needed="n")._cache
    with pytest.raises(TypeError, match="Mixed needs needed"):
        Mixed()  # type: ignore[call-arg, unused-ignore]
    with pytest.raises(TypeError, match="no parameter _cache"):
        Mixed(needed="n", _cache={})


def test_a_metric_of_deepevals_needs_a_model() -> None:
    class Good(DeepevalMetric):
        def get_deepeval_metric(self) -> Any:
            """Return nothing: it is not asked."""

    unchecked: Any = Good
    with pytest.raises(TypeError, match="Good needs judge_llm"):
        unchecked()
    with pytest.raises(TypeError, match="Good: judge_llm must be an OpenAIClientLLM, not str"):
        unchecked(judge_llm="gpt-4")


def test_pydantics_validators_are_refused_and_not_passed_over() -> None:
    class PydanticDescriptorProxy:
        pass

    body = {"check": PydanticDescriptorProxy(), "measure": lambda *_: None}
    with pytest.raises(TypeError, match=r"Checked.check: pydantic's decorators do nothing here; use model_post_init"):
        type("Checked", (Metric,), body)


def test_model_post_init_is_called_when_the_fields_are_there() -> None:
    class Ready(Saying):
        def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
            self.double = self.limit * 2

    assert Ready(label="x", limit=2.0).double == 4.0


def test_a_client_has_request() -> None:
    class Echo(APIClient):
        def request(self, input: AssistantInput) -> AssistantOutput:  # noqa: A002
            return AssistantOutput(output=input.messages[-1].text)

    assert Echo().request(AssistantInput(messages=[Message("user", "hi")])).output == "hi"
    unchecked: Any = APIClient
    with pytest.raises(TypeError, match="abstract"):
        unchecked()


# -- calls of tools ---------------------------------------------------------------------------------------------


def accuracy(expected: list[ToolCall], made: list[ToolCall], **parameters: Any) -> tuple[float, str]:
    metric = ToolCallsAccuracy(**parameters)
    result = measured(metric, AssistantOutput(tools_called=expected), AssistantOutput(tools_called=made))
    return result.score, result.verdict


@pytest.mark.parametrize(
    ("expected", "made", "parameters", "score", "verdict"),
    [
        ([], [], {}, 1.0, "passed"),
        ([call("f")], [], {}, 0.0, "failed"),
        ([], [call("f")], {}, 0.0, "failed"),
        ([call("f", a=1)], [call("f", a=1)], {}, 1.0, "passed"),
        ([call("f", a=1, b=2)], [call("f", b=2, a=1)], {}, 1.0, "passed"),
        ([call("f", a=1)], [call("f", a=2)], {}, 0.0, "failed"),
        ([call("f"), call("g")], [call("g"), call("f")], {}, 1.0, "passed"),
        ([call("f"), call("g")], [call("f")], {}, 0.0, "failed"),
        ([call("f"), call("g")], [call("f")], {"strict_mode": False}, 0.5, "passed"),
        ([call("f"), call("g")], [call("f")], {"strict_mode": False, "threshold": 0.6}, 0.5, "failed"),
    ],
)
def test_calls_of_tools_are_scored_as_rebel_documents_it(
    expected: list[ToolCall], made: list[ToolCall], parameters: dict[str, Any], score: float, verdict: str
) -> None:
    assert accuracy(expected, made, **parameters) == (score, verdict)


class Table(ToolCallDistance):
    """Likeness from a table: a call says which row or column it is."""

    table: Any

    def measure(self, first_call: ToolCall, second_call: ToolCall) -> float:
        return float(self.table[int(first_call.function.name)][int(second_call.function.name)])


def test_calls_are_put_together_in_the_best_way() -> None:
    draw = random.Random(7)
    for _ in range(50):
        rows, columns = draw.randint(1, 5), draw.randint(1, 5)
        table = [[draw.random() for _ in range(columns)] for _ in range(rows)]
        chosen = linear_sum_assignment(np.array(table), maximize=True)
        best = sum(table[row][column] for row, column in zip(*chosen, strict=True)) / max(rows, columns)
        expected, made = [call(str(row)) for row in range(rows)], [call(str(column)) for column in range(columns)]
        score, _ = accuracy(expected, made, distance=Table(table=table), strict_mode=False)
        assert score == pytest.approx(best)


def test_a_distance_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="the distance between two calls is nan"):
        accuracy([call("0")], [call("0")], distance=Table(table=[[float("nan")]]))


class Letters(Encoder):
    """Encodes a text by how often it has each letter."""

    def __init__(self, letters: str = "abcdefgh") -> None:
        self.letters = letters

    def encode(self, texts: list[str]) -> Any:
        return np.array([[text.count(letter) for letter in self.letters] for text in texts], dtype=float)


def test_arguments_are_compared_by_their_angle() -> None:
    one, other = call("f", a="bcd", b={"e": 1}, c="x"), call("f", a="bcf", b={"e": 1}, d="y")
    vectors = Letters().encode(["a: bcd", "a: bcf"])
    likeness = [float(cosine_similarity([vectors[0]], [vectors[1]])[0][0]), 1.0, 0.0, 0.0]
    for method, expected in (("mean", np.mean(likeness)), ("min", 0.0), ("max", 1.0)):
        distance = CosineSimilarityToolCallDistance(encoder=Letters(), aggregation_method=method)
        assert distance.measure(one, other) == pytest.approx(float(expected))
    assert distance.measure(call("f"), call("f")) == 1.0
    assert distance.measure(call("f"), call("f", a=1)) == 0.0
    assert distance.measure(call("f", a=1), call("g", a=1)) == 0.0
    score, verdict = accuracy([one], [other], distance=distance)
    assert (score, verdict) == (1.0, "passed")


def test_an_encoder_that_fails_is_an_error_and_not_another_comparison() -> None:
    class Broken(Letters):
        def encode(self, texts: list[str]) -> Any:
            raise RuntimeError(f"cannot encode {len(texts)} texts")

    with pytest.raises(RuntimeError, match="cannot encode 2 texts"):
        CosineSimilarityToolCallDistance(encoder=Broken()).measure(call("f", a="b"), call("f", a="c"))


@pytest.mark.parametrize("parameters", [{"threshold": 2}, {"strict_mode": 1}, {"distance": 3}])
def test_wrong_parameters_of_the_tool_metric_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises((UsageError, TypeError)):
        ToolCallsAccuracy(**parameters)


def test_the_tool_metric_needs_no_thread_with_our_distance_and_one_with_anothers() -> None:
    assert not ToolCallsAccuracy().blocking
    assert ToolCallsAccuracy(distance=Table(table=[])).blocking


# -- judges -----------------------------------------------------------------------------------------------------


def test_any_judge_is_a_metric() -> None:
    metric = JudgeMetric(judge='contains(text="Paris")')
    assert metric.get_name() == 'strings.Contains(text="Paris")' and not metric.blocking
    good, bad = AssistantOutput(output="Paris"), AssistantOutput(output="Rome")
    assert measured(metric, AssistantOutput(), good).model_dump()["verdict"] == "passed"
    assert measured(metric, AssistantOutput(), bad).score == 0.0
    turned = JudgeMetric(Contains(text="Paris"), passes_on="pass", name="no Paris")
    assert turned.get_name() == "no Paris"
    assert [measured(turned, AssistantOutput(), one).verdict for one in (good, bad)] == ["failed", "passed"]
    assert [measured(turned, AssistantOutput(), one).score for one in (good, bad)] == [0.0, 1.0]


def test_a_judge_that_does_not_decide_is_an_error() -> None:
    result = measured(JudgeMetric(judge="tool-calls"), AssistantOutput(), AssistantOutput())
    assert (result.verdict, result.reason) == ("error", "the record does not list the expected tool calls")
    said = measured(JudgeMetric(judge="tool-calls"), AssistantOutput(tools_called=[]), AssistantOutput())
    assert (said.verdict, said.score) == ("passed", 1.0)
    # REBEL's own metric takes silence for an empty list.
    assert measured(ToolCallsAccuracy(), AssistantOutput(), AssistantOutput()).verdict == "passed"


def test_a_judge_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="refusel"):
        JudgeMetric(judge="refusel")
    with pytest.raises(UsageError, match='passes_on must be "hit" or "pass"'):
        JudgeMetric(judge="refusal", passes_on="passed")


def test_a_judge_of_somebodys_own_is_asked_in_a_thread() -> None:
    class Own(Judge):
        name = "own.Own"
        looks_for = "nothing"

    assert JudgeMetric(Own()).blocking
    assert not JudgeMetric(judge='not(contains(text="x"))').blocking


def test_an_attempt_has_the_last_question_and_only_what_was_said_of_the_answer() -> None:
    asked = AssistantInput(
        messages=[
            Message("system", "be brief"),
            Message("user", "one"),
            Message("assistant", "1"),
            Message("user", "2"),
        ]
    )
    actual = AssistantOutput(output="two", tools_called=[call("f", a=1)], context=["c"], execution_time=0.5)
    attempt = attempt_from(asked, AssistantOutput(), actual)
    assert (attempt.prompt, attempt.response, attempt.context, attempt.latency) == ("2", "two", ("c",), 0.5)
    assert [(turn.role, turn.content) for turn in attempt.conversation][:2] == [("system", "be brief"), ("user", "one")]
    assert [(one.name, one.arguments) for one in attempt.tools_called] == [("f", '{"a": 1}')]
    assert (attempt.expected.output, attempt.expected.tools_called) == (None, None)
    given = attempt_from(asked, AssistantOutput(output="", tools_called=[]), actual)
    assert (given.expected.output, given.expected.tools_called) == ("", ())


# -- a model that is asked --------------------------------------------------------------------------------------


def says(value: Any) -> Any:
    return answer(completion(json.dumps(value)))


class Template(ContextualFScoreTemplate):
    """Questions of the user's own."""

    prefix: str = "Q"

    def generate_claims(self, actual_output: str) -> str:
        return f"{self.prefix} claims of {actual_output}"

    def generate_truths(self, retrieval_context: list[str], input_question: str) -> str:
        return f"{self.prefix} truths of {retrieval_context} for {input_question}"

    def generate_hallucination_verdicts(self, claims: list[str], retrieval_context: list[str]) -> str:
        return f"{self.prefix} which of {claims} by {retrieval_context}"

    def generate_completeness_verdicts(self, truths: list[str], claims: list[str]) -> str:
        return f"{self.prefix} which of {truths} in {claims}"


ASKED = AssistantInput(messages=[Message("user", "where?")])
ACTUAL = AssistantOutput(output="an answer", context=["a context"])


def test_a_template_is_asked_and_counted_as_rebel_does() -> None:
    verdicts = [{"verdict": word, "reason": "r"} for word in ("yes", "dm", "no")]
    steps = [
        says({"truths": ["t1", "t2"]}),
        says({"claims": ["c1", "c2", "c3"]}),
        says({"verdicts": verdicts}),
        says({"verdicts": [{"verdict": "no", "reason": "r"}, {"verdict": "idk", "reason": "r"}]}),
    ]
    with Server(steps) as server:
        model = OpenAIClientWrapper({"model": "judge", "base_url": server.url, "api_key": KEY})
        metric = ContextualFScore(model=model, template=Template(), beta=1.0, threshold=0.5)
        result = metric.measure(ASKED, AssistantOutput(), ACTUAL)
        metric.close()
    # Two of three claims are not "no", one truth is "no": precision 2/3, recall 2/3.
    assert result.score == pytest.approx(2 / 3) and result.verdict == "passed"
    asked = [received.json["messages"][-1]["content"] for received in server.received]
    assert asked[0] == "Q truths of ['a context'] for where?" and asked[1] == "Q claims of an answer"
    assert all(received.headers["authorization"] == f"Bearer {KEY}" for received in server.received)


def test_without_a_template_our_own_questions_are_asked() -> None:
    steps = [says({"statements": ["t"]}), says({"statements": ["c"]}), says({"verdicts": ["yes"]})]
    with Server(steps) as server:
        model = OpenAIClientWrapper({"model": "judge", "base_url": server.url, "api_key": KEY})
        metric = ContextualFScore(model=model)
        result = metric.measure(ASKED, AssistantOutput(), ACTUAL)
        metric.close()
    assert (result.score, result.verdict) == (1.0, "passed")


def test_the_key_of_a_model_is_shown_nowhere() -> None:
    model = OpenAIClientWrapper({"model": "judge", "base_url": "http://127.0.0.1:1/v1", "api_key": KEY})
    metric = ContextualFScore(model=model)
    metric.ready()
    written = json.dumps(plain(metric))
    assert KEY not in repr(model) + repr(metric) + written + repr(model.settings)
    assert '"api_key": "[secret]"' in written and '"model": "judge"' in written
    assert KEY not in str(dict(os.environ))
    metric.close()


def test_a_client_generates_as_rebels_does() -> None:
    with Server([answer(completion("hello"))]) as server:
        model = OpenAIClientWrapper(
            {"model": "judge", "base_url": server.url, "api_key": KEY, "temperature": 0.3, "max_tokens": 5}
        )
        assert model.generate([{"role": "user", "content": "hi"}]).choices[0].message.content == "hello"
        model.close()
    (body,) = [received.json for received in server.received]
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.3, 5, "judge")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "needs model"),
        ({"model": "x", "apikey": "y"}, "has no parameter apikey"),
        ({"model": "x", "temperature": "hot"}, "temperature must be a number"),
    ],
)
def test_a_wrong_configuration_is_refused(config: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, UsageError), match=problem):
        ContextualFScore(model=OpenAIClientWrapper(config))


# -- what is written down ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["api_key", "apiKey", "API-KEY", "token", "access_token", "Authorization", "password"])
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret(name)
    assert plain({"config": {name: "abc"}}) == {"config": {name: SECRET}}


@pytest.mark.parametrize("name", ["max_tokens", "key", "keyword", "api_key_env", "tokenizer", "monkey", "letter", ""])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_what_looks_like_a_secret_is_hidden_whatever_its_name() -> None:
    written = json.dumps(plain({"url": "https://me:word@host/v1", "note": "use sk-0123456789abcdefghij"}))
    assert "word" not in written and "0123456789abcdefghij" not in written


def test_objects_are_written_without_their_address_in_memory() -> None:
    class Thing:
        pass

    one, other = plain({"a": Thing(), "b": len, "c": {2, 1}}), plain({"a": Thing(), "b": len, "c": {1, 2}})
    assert one == other
    assert one["a"].endswith("Thing>") and one["b"] == "builtins.len" and one["c"] == [1, 2]


def test_numbers_that_json_lacks_and_things_without_end_are_written_too() -> None:
    endless: list[Any] = []
    endless.append(endless)
    odd = {"nan": math.nan, "inf": -math.inf, "endless": endless, "big": 10**30, "bytes": b"x"}
    written = json.loads(json.dumps(plain(odd), allow_nan=False))
    assert written.keys() == odd.keys()
    assert (written["nan"], written["inf"], written["big"]) == ("nan", "-inf", str(10**30))
    assert written["bytes"] == base64.b64encode(b"x").decode()
    inner, depth = written["endless"], 0
    while isinstance(inner, list):
        inner, depth = inner[0], depth + 1
    assert 1 <= depth <= 200 and isinstance(inner, str)
