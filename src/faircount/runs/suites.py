"""From what a test file declares to cases: grids are expanded, names given, and what would be lost later is refused.

REBEL drops a case that is tried no times, a grid with an empty list and a test without metrics in silence, the last
after its requests were paid for. Here each is an error that names the place.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from faircount.core.errors import InputError
from faircount.core.text import visible
from faircount.readers.aggregation import check_attempts, read_aggregation
from faircount.runs.cases import CaseMetric, TaskCase, case_metric
from faircount.testing.cases import Suite

_MOST_CASES = 1_000_000


def cases_of(suite: Suite) -> list[TaskCase]:
    """Return the cases of a suite, one for every combination of its grid. InputError: it cannot be run."""
    try:
        return list(_cases(suite))
    except (TypeError, ValueError) as error:
        raise InputError(f"{visible(suite.place)}: {visible(suite.name)}: {visible(str(error))}") from error


def _cases(suite: Suite) -> Iterator[TaskCase]:
    _check(suite)
    metrics = _metrics(suite)
    dumped = [message.model_dump(exclude_none=True) for message in suite.asked.messages]
    messages = tuple(_sendable(_with_content(message), "messages") for message in dumped)
    expected = _sendable(suite.expected.model_dump(), "expected_output")
    given = tuple(name for name in expected if name in suite.expected.model_fields_set)
    for combination in _combinations(suite.grid):
        yield TaskCase(
            name=f"{suite.name}_[{'_'.join(f'{name}={value}' for name, value in combination.items())}]",
            tags=tuple(dict.fromkeys(suite.tags)),
            messages=messages,
            api_params=_request(suite.asked.api_params, combination),
            expected=expected,
            metrics=metrics,
            attempts=suite.count,
            aggregation=suite.aggregation,
            place=suite.place,
            function=suite.function,
            suite=suite.name,
            expected_fields=given,
        )


def _check(suite: Suite) -> None:
    if suite.count < 1:
        raise ValueError(f"retry_params: count is {suite.count}; it must be 1 or more")
    if not suite.asked.messages:
        raise ValueError("messages is empty; there is nothing to send")
    if not suite.metrics:
        raise ValueError("metrics is empty; add at least one to measure the answers")
    check_attempts(read_aggregation(suite.aggregation), suite.count)
    for name, values in suite.grid.items():
        if not values:
            raise ValueError(f"param_grid: {name} has no values, so there would be no cases")
    if math.prod(len(values) for values in suite.grid.values()) > _MOST_CASES:
        raise ValueError(f"param_grid: it makes more than {_MOST_CASES:,} cases")


def _metrics(suite: Suite) -> tuple[CaseMetric, ...]:
    taken: set[str] = set()
    made = []
    for metric in suite.metrics:
        try:
            made.append(case_metric(metric, taken=taken))
        except (TypeError, ValueError):
            raise
        except Exception as error:  # get_name is anybody's code
            raise ValueError(f"{type(metric).__name__}: get_name failed: {type(error).__name__}: {error}") from error
    return tuple(made)


def _with_content(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its content, which is sent even where it is null."""
    role = message.pop("role")
    return {"role": role, "content": message.pop("content", None), **message}


def _combinations(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _request(own: Mapping[str, Any], combination: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a request as plain data; those of the grid go first."""
    return {name: _sendable(value, f"api_params: {name}") for name, value in {**own, **combination}.items()}


def _sendable(value: Any, what: str) -> Any:
    """Return a value as plain data that JSON can hold."""
    try:
        built = msgspec.to_builtins(value, str_keys=True)
        json.dumps(built, allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{what} cannot be sent as plain data: {error}") from None
    return built
