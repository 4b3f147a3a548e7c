"""What measures an answer: the base of all metrics, what they say, and those that ask no model of their own.

A metric is shared by all attempts of its cases, and is asked from several threads at once. A report is read back with
`TestCaseEvaluated(**entry)` for each entry of `test_cases`, in Faircount's reports and REBEL's; fields that only
Faircount's reports have are ignored. The names and fields are REBEL's.
"""

from __future__ import annotations

import abc
import enum
import json
import math
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from faircount.components.factory import Context
from faircount.core.attempt import Attempt, Expected, Turn
from faircount.core.attempt import ToolCall as AttemptToolCall
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Usage, Verdict
from faircount.judges.builtin.tools import ToolCallsAccuracy as ToolCallsJudge
from faircount.judges.builtin.tools import best_pairs
from faircount.judges.factory import make_judge
from faircount.judges.judge import Judge, every_part, verdict_of
from faircount.testing.cases import (
    AssistantInput,
    AssistantOutput,
    RetryParams,
    RoleEnum,
    ToolCall,
    data_of,
    list_of,
    listener,
    text_of,
)
from faircount.testing.fields import Data, Declared


# A StrEnum would be printed differently from REBEL's.
class EvaluationVerdict(str, enum.Enum):  # noqa: UP042
    """What a metric decides; an error is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class EvaluationResult(Data):
    """A metric's result for one answer. The score is on the metric's own scale, and may be NaN or infinite."""

    score: float
    verdict: str
    reason: str = ""

    def _settle(self) -> None:
        self.score = score_of(self.score)
        self.verdict = evaluation_verdict(self.verdict)
        # REBEL takes no None here, and loses the run over it.
        self.reason = "" if self.reason is None else str(self.reason)


def score_of(value: Any) -> float:
    """Return a score as a number; what is none is a TypeError."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"the score must be a number, not {type(value).__name__}") from None


def evaluation_verdict(value: Any) -> EvaluationVerdict:
    """Return a verdict, also from its word; what is none is a ValueError."""
    word = getattr(value, "value", value)
    if not isinstance(word, str) or word not in [verdict.value for verdict in EvaluationVerdict]:
        raise ValueError(f"the verdict must be passed, failed or error, not {word!r}")
    return EvaluationVerdict(word)


class Metric(Declared, abc.ABC):
    """Base class of all metrics: `measure` judges an answer, and annotations declare the fields.

    Fields are given by keyword, as in `LetterCount(letter="r")`; defaults are set in the class, and a mutable
    one, such as a list, is copied for every metric. A class may have its own `__init__` instead. `measure` may
    be a coroutine function.
    """

    @abc.abstractmethod
    def measure(
        self,
        input: AssistantInput,  # noqa: A002  REBEL's name
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult | Awaitable[EvaluationResult]:
        """Compare the answer with what was asked and expected. It is called with these three names."""

    def get_name(self) -> str:
        """Return the name of the metric in reports."""
        return type(self).__name__

    @property
    def blocking(self) -> bool:
        """Whether measuring takes long, so that it must happen in a thread; false only for what computes quickly."""
        return True

    def ready(self) -> None:
        """Raise UsageError where nothing at all could be measured: a key that is missing, say."""

    def close(self) -> None:
        """Give back what the metric holds: connections, processes."""

    def _code_version(self) -> str | None:
        """Return the version of the rules that the metric follows, where it has one."""
        return None


# -- any judge as a metric ----------------------------------------------------------------------------------------


class JudgedResult(EvaluationResult):
    """What a metric says that asked a judge, and what that took."""

    usage: Usage | None = None


def attempt_from(asked: AssistantInput, expected: AssistantOutput, actual: AssistantOutput) -> Attempt:
    """Return an attempt as judges see it.

    What nobody gave in the expected output is not said; an empty list of calls that somebody gave means no calls.
    """
    turns = tuple(
        Turn(str(getattr(message.role, "value", message.role)), text_of(message.content)) for message in asked.messages
    )
    prompts = [turn.content for turn in turns if turn.role == RoleEnum.user.value]
    given, calls = expected.model_fields_set, expected.tools_called
    return Attempt(
        response=actual.output,
        prompt=prompts[-1] if prompts else "",
        conversation=turns,
        tools_called=calls_of(actual.tools_called),
        context=tuple(actual.context or ()),
        expected=Expected(
            output=expected.output if "output" in given else None,
            tools_called=calls_of(calls) if "tools_called" in given and calls is not None else None,
            context=tuple(expected.context or ()),
        ),
        latency=actual.execution_time,
    )


def calls_of(calls: Iterable[ToolCall] | None) -> tuple[AttemptToolCall, ...]:
    """Return calls of tools as judges see them."""
    return tuple(AttemptToolCall(call.function.name, call.function.arguments) for call in calls or ())


def result_of(verdict: Verdict, *, passes_on: Decision = Decision.HIT) -> JudgedResult:
    """Return what a verdict means for a metric; where there is no decision it is an error."""
    if verdict.decision is None:
        why = verdict.error or "the judge did not decide"
        return JudgedResult(score=0.0, verdict=EvaluationVerdict.ERROR, reason=why, usage=verdict.usage)
    passed = verdict.decision is passes_on
    score = float(verdict.decision is Decision.HIT) if verdict.score is None else verdict.score
    return JudgedResult(
        score=score if passes_on is Decision.HIT else 1.0 - score,
        verdict=EvaluationVerdict.PASSED if passed else EvaluationVerdict.FAILED,
        reason=verdict.reason,
        usage=verdict.usage,
    )


class JudgeMetric(Metric):
    """Measures by a judge: an expression as on the command line, or a judge.

    An answer passes if the judge finds what it looks for (`passes_on="hit"`), or if it does not ("pass"). The score
    is the judge's, or 1 minus it for "pass"; a judge without scores gives 1 or 0. An undecided judge is an error.
    """

    def __init__(self, judge: str | Judge, passes_on: str = "hit", name: str | None = None) -> None:
        if passes_on not in (Decision.HIT, Decision.PASS):
            raise UsageError(f'JudgeMetric: passes_on must be "hit" or "pass", not {passes_on!r}')
        if not isinstance(judge, str | Judge):
            raise UsageError(f"JudgeMetric: judge must be an expression or a judge, not {type(judge).__name__}")
        listening = listener()
        context = (listening.context if listening else None) or Context()
        self.judge = make_judge(judge, context) if isinstance(judge, str) else judge
        self.passes_on = passes_on
        self.name = name

    def measure(
        self,
        input: AssistantInput,  # noqa: A002
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult:
        """Ask the judge."""
        verdict = verdict_of(self.judge, attempt_from(input, expected, actual))
        return result_of(verdict, passes_on=Decision(self.passes_on))

    def get_name(self) -> str:
        """Return the name that was given, or how the judge is called."""
        if self.name is not None:
            return self.name
        called = self.judge.called or self.judge.name
        return called if self.passes_on == Decision.HIT else f"not {called}"

    @property
    def blocking(self) -> bool:
        """Whether the judge waits for a model, or is somebody's own code that may wait."""
        return any(part.waits or not is_our_own(part) for part in every_part(self.judge))

    def ready(self) -> None:
        """Raise UsageError now if the judge lacks something."""
        self.judge.ready()

    def close(self) -> None:
        """Close the judge."""
        self.judge.close()

    def _recorded(self) -> dict[str, Any]:
        identity = self.judge.identity
        return {
            "judge": self.judge.called or identity.name,
            "passes_on": self.passes_on,
            "parameters": identity.parameters,
            "digest": identity.digest,
        }

    def _code_version(self) -> str:
        return self.judge.version


def is_our_own(judge: Judge) -> bool:
    """Return whether a judge is one of those built in."""
    return type(judge).__module__.startswith("faircount.judges.builtin.")


# -- calls of tools -----------------------------------------------------------------------------------------------

# REBEL lets each expected call in turn take the likest call that is left, so that its score depends on their order and
# can be too low. Here calls are put together in the best possible way.

_ROUNDING = 1e-9


class ToolCallDistance(Declared, abc.ABC):
    """How similar two calls are; despite REBEL's name, a higher value means more similar."""

    @abc.abstractmethod
    def measure(self, first_call: ToolCall, second_call: ToolCall) -> float:
        """Return the likeness of two calls, from 0 to 1."""


class ExactMatchToolCallDistance(ToolCallDistance):
    """1 for the same function with the same arguments, compared as JSON values, and 0 for anything else.

    REBEL compares the arguments as texts, so that the order of keys and white space matter there.
    """

    def measure(self, first_call: ToolCall, second_call: ToolCall) -> float:
        """Return 1 for equal calls, 0 for others."""
        return _compared_exactly([first_call], [second_call], threshold=1.0, strict=True).score


class Encoder(Declared, abc.ABC):
    """Turns texts into vectors of numbers."""

    @abc.abstractmethod
    def encode(self, texts: list[str]) -> Any:
        """Return one vector for each text."""


class CosineSimilarityToolCallDistance(ToolCallDistance):
    """Compares calls of the same function argument by argument, by the angle between the encoded texts.

    An argument that only one call has counts as 0. `aggregation_method` combines the arguments into one number: mean,
    min or max. An encoder that fails is an error of the metric; REBEL then silently compares the texts.
    """

    encoder: Any
    aggregation_method: str = "mean"

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Check the parameters."""
        if self.aggregation_method not in _AGGREGATIONS:
            raise ValueError(f"aggregation_method must be mean, min or max, not {self.aggregation_method!r}")

    def measure(self, first_call: ToolCall, second_call: ToolCall) -> float:
        """Return the likeness of two calls."""
        if first_call.function.name != second_call.function.name:
            return 0.0
        first, second = first_call.function.parse_arguments() or {}, second_call.function.parse_arguments() or {}
        if not isinstance(first, dict) or not isinstance(second, dict):
            raise ValueError("the arguments of a call are not a JSON object")
        keys = [*first, *(key for key in second if key not in first)]
        if not keys:
            return 1.0
        # REBEL takes null for an argument that is missing.
        likenesses = [self._likeness(key, first.get(key), second.get(key)) for key in keys]
        return float(_AGGREGATIONS[self.aggregation_method](likenesses))

    def _likeness(self, key: str, one: object, other: object) -> float:
        if one is None or other is None:
            return 0.0
        vectors = self.encoder.encode([f"{key}: {_text(one)}", f"{key}: {_text(other)}"])
        first, second = [float(value) for value in vectors[0]], [float(value) for value in vectors[1]]
        # One root, so that the likeness of equal vectors is 1 and not a little less.
        lengths = math.sqrt(sum(value**2 for value in first) * sum(value**2 for value in second))
        return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0


_AGGREGATIONS: Mapping[str, Any] = {"mean": lambda values: sum(values) / len(values), "min": min, "max": max}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)


class ToolCallsAccuracy(Metric):
    """Passes if the tool calls are those expected: if their score is at least `threshold`.

    Without expected and made calls the score is 1; with `strict_mode`, a different number of calls scores 0. Otherwise
    it is the sum of the similarities of paired calls, divided by the length of the longer list.
    """

    distance: ToolCallDistance = field(default_factory=ExactMatchToolCallDistance)
    threshold: float = 0.5
    strict_mode: bool = True

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Check the parameters."""
        if not callable(getattr(self.distance, "measure", None)):
            raise TypeError(f"ToolCallsAccuracy: distance must be a ToolCallDistance, not {self.distance!r}")
        ToolCallsJudge(threshold=self.threshold, strict=self.strict_mode)

    def measure(
        self,
        input: AssistantInput,  # noqa: A002, ARG002
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult:
        """Compare the calls."""
        wanted, made = expected.tools_called or [], actual.tools_called or []
        plain = type(self.distance) is ExactMatchToolCallDistance or not wanted or not made
        if plain or (self.strict_mode and len(wanted) != len(made)):
            return _compared_exactly(wanted, made, threshold=self.threshold, strict=self.strict_mode)
        likeness = [[self._likeness(one, other) for other in made] for one in wanted]
        score = sum(likeness[row][column] for row, column in best_pairs(likeness)) / max(len(wanted), len(made))
        passed = score >= self.threshold - _ROUNDING
        return EvaluationResult(
            score=score,
            verdict=EvaluationVerdict.PASSED if passed else EvaluationVerdict.FAILED,
            reason=f"similarity {score:.3f} of {len(wanted)} expected and {len(made)} actual calls",
        )

    def _likeness(self, one: ToolCall, other: ToolCall) -> float:
        likeness = float(self.distance.measure(one, other))
        if not math.isfinite(likeness):
            raise ValueError(f"the distance between two calls is {likeness}")
        return likeness

    def get_name(self) -> str:
        """Return REBEL's name."""
        return "Tool Calls Accuracy"

    @property
    def blocking(self) -> bool:
        """Whether the distance is somebody's own code."""
        return type(self.distance) is not ExactMatchToolCallDistance

    def _code_version(self) -> str:
        return ToolCallsJudge.version


def _compared_exactly(
    wanted: Sequence[ToolCall], made: Sequence[ToolCall], *, threshold: float, strict: bool
) -> EvaluationResult:
    attempt = Attempt(None, tools_called=calls_of(made), expected=Expected(tools_called=calls_of(wanted)))
    return result_of(ToolCallsJudge(threshold=threshold, strict=strict).decide(attempt))


# -- reports read back --------------------------------------------------------------------------------------------


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
    """A test case with its metrics, as the report describes them; those in REBEL's reports are empty dictionaries."""

    metrics: list[Any]


class TestCaseEvaluated(TestCase):
    """A test case with its answers, the result of each metric for each answer, and the overall result.

    A score that is missing in the report is NaN.
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
