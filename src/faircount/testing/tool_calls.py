"""Whether the calls of tools are those expected: REBEL's metric and its distances, with the best matching of calls.

REBEL lets each expected call in turn take the likest call that is left, so that its score depends on their order and
can be too low. Here calls are put together in the best possible way.
"""

from __future__ import annotations

import abc
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from faircount.core.attempt import Attempt, Expected
from faircount.judges.builtin.tools import ToolCallsAccuracy as ToolCallsJudge
from faircount.judges.builtin.tools import best_pairs
from faircount.testing.fields import Declared
from faircount.testing.judged import calls_of, result_of
from faircount.testing.messages import AssistantInput, AssistantOutput, ToolCall
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, Metric

_ROUNDING = 1e-9


class ToolCallDistance(Declared, abc.ABC):
    """How like two calls are; REBEL's name, although more is liker."""

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

    An argument that only one call has counts 0. `aggregation_method` makes one number of all arguments: mean, min or
    max. An encoder that fails is an error of the metric; REBEL compares the texts in that case, and does not tell.
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
        return _cosine(vectors[0], vectors[1])


_AGGREGATIONS: Mapping[str, Any] = {"mean": lambda values: sum(values) / len(values), "min": min, "max": max}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    first, second = [float(value) for value in one], [float(value) for value in other]
    # One root, so that the likeness of equal vectors is 1 and not a little less.
    lengths = math.sqrt(sum(value**2 for value in first) * sum(value**2 for value in second))
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0


class ToolCallsAccuracy(Metric):
    """Passes if the calls of tools are those expected, to the share `threshold` at least.

    No calls expected and none made is 1; with `strict_mode`, a different number of calls is 0; else the likeness of the
    calls that go together, added up and divided by the longer of both lists.
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
