"""How a test file says what is to be asked and how the answers are measured: `@test_case`, and groups of metrics.

The decorator tells whoever executes the file, and nobody else: a test file that a program imports for its own reasons
declares nothing.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from inspect import isasyncgen, isawaitable, isgenerator
from typing import Any, TypeVar

from faircount.readers.aggregation import DEFAULT
from faircount.testing.fields import Data
from faircount.testing.messages import AssistantInput, AssistantOutput, Message, data_of
from faircount.testing.registering import Suite, listener

F = TypeVar("F", bound=Callable[..., Any])


# A StrEnum would be printed differently from REBEL's.
class RetryAggregationStrategy(str, enum.Enum):  # noqa: UP042
    """The ways to make one result of several attempts that have no number in their names."""

    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    MEDIAN = "median"
    MODE = "mode"
    MAJORITY = "majority"
    ANY = "any"
    ALL = "all"
    FIRST = "first"


class RetryParams(Data):
    """How often a case is tried (every time, whatever comes back), and how one result is made of that."""

    count: int
    aggregation_strategy: str | None = RetryAggregationStrategy.MEAN

    def _settle(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise TypeError(f"RetryParams: count must be a whole number, not {self.count!r}")
        if not isinstance(self.aggregation_strategy, str | None):
            raise TypeError(f"RetryParams: aggregation_strategy must be a name, not {self.aggregation_strategy!r}")
        if self.aggregation_strategy in [strategy.value for strategy in RetryAggregationStrategy]:
            self.aggregation_strategy = RetryAggregationStrategy(self.aggregation_strategy)


class ParameterGrid(Data):
    """Parameters of the request, each with all the values that it takes in turn."""

    parameters: dict[str, list[Any]]

    def _settle(self) -> None:
        given: Any = self.parameters
        if not isinstance(given, Mapping):
            raise TypeError("ParameterGrid: parameters must be a dictionary of lists")
        for name, values in given.items():
            if not isinstance(name, str) or isinstance(values, str | bytes) or not isinstance(values, Iterable):
                raise TypeError(f"ParameterGrid: {name!r} must be a string with a list of values")
        self.parameters = {name: list(values) for name, values in given.items()}

    def expand(self) -> list[dict[str, Any]]:
        """Return every combination of values; the last parameter changes fastest."""
        names = list(self.parameters)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.parameters.values())]


class TestGroup(Data):
    """Metrics for the answers to a test, and how often it is tried for them."""

    __test__ = False  # it is no test of pytest's

    metrics: Sequence[Any]
    tags: list[str] | None = field(default_factory=list)
    retry_params: RetryParams | None = field(default_factory=lambda: RetryParams(count=1))
    postfix: str | None = None

    def _settle(self) -> None:
        if not isinstance(self.metrics, list | tuple):
            raise TypeError(f"TestGroup: metrics must be a list, not {type(self.metrics).__name__}")
        if self.retry_params is not None:
            self.retry_params = data_of(RetryParams, self.retry_params, "TestGroup", "retry_params")
        if not isinstance(self.postfix, str | None):
            raise TypeError("TestGroup: postfix must be a string")
        self.metrics = list(self.metrics)
        self.tags = _tags(self.tags, "TestGroup")


def test_case(
    messages: Sequence[Message | Mapping[str, Any]],
    tags: Sequence[str] | None = None,
    expected_output: AssistantOutput | Mapping[str, Any] | None = None,
    api_params: Mapping[str, Any] | None = None,
    param_grid: ParameterGrid | Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Declare a test: what is asked. The function yields the groups of metrics, or returns them."""
    asked = AssistantInput(messages=list(messages), api_params=dict(api_params or {}))  # type: ignore[arg-type]
    own_tags = _tags(tags, "test_case")
    expected = AssistantOutput() if expected_output is None else expected_output
    expected = data_of(AssistantOutput, expected, "test_case", "expected_output")
    grid = ParameterGrid(parameters={}) if param_grid is None else param_grid
    grid = data_of(ParameterGrid, grid, "test_case", "param_grid")

    def declare(function: F) -> F:
        listening = listener()
        if listening is None or not listening.listens():
            return function
        for group, line in _groups(function):
            listening.declare(
                Suite(
                    function=function.__name__,
                    name=f"{function.__name__}_{group.postfix}" if group.postfix else function.__name__,
                    tags=(*own_tags, *(group.tags or ())),
                    asked=asked,
                    expected=expected,
                    grid=grid.parameters,
                    metrics=tuple(group.metrics),
                    count=1 if group.retry_params is None else group.retry_params.count,
                    aggregation=_strategy(group.retry_params),
                    place=listening.place(*line),
                )
            )
        return function

    return declare


test_case.__test__ = False  # type: ignore[attr-defined]  # it is no test of pytest's


def _strategy(retry: RetryParams | None) -> str:
    strategy = DEFAULT if retry is None else retry.aggregation_strategy
    return DEFAULT if strategy is None else str(getattr(strategy, "value", strategy))


def _tags(tags: Any, owner: str) -> list[str]:
    if tags is None:
        return []
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f"{owner}: tags must be a list of strings")
    return list(tags)


def _groups(function: Callable[..., Any]) -> Iterator[tuple[TestGroup, tuple[str, int]]]:
    """Yield the groups of a test, each with the file and line that it comes from."""
    code = getattr(function, "__code__", None)
    if code is None or not hasattr(function, "__name__"):
        raise TypeError("test_case decorates a function")
    own = (code.co_filename, code.co_firstlineno)
    made = function()
    if isgenerator(made):
        for group in made:
            frame = made.gi_frame
            yield _group(group, function.__name__), (own[0], frame.f_lineno) if frame else own
        return
    groups = [made] if isinstance(made, TestGroup) else made
    if isasyncgen(made) or isawaitable(made) or not isinstance(groups, list | tuple):
        if hasattr(made, "close"):
            made.close()
        kind = type(made).__name__
        raise TypeError(f"{function.__name__}: must yield or return TestGroups; it returned {kind}")
    for group in groups:
        yield _group(group, function.__name__), own


def _group(group: object, function: str) -> TestGroup:
    if not isinstance(group, TestGroup):
        raise TypeError(f"{function}: must yield or return TestGroups, not {type(group).__name__}")
    return group
