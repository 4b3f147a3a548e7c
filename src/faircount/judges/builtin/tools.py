"""Whether a model called the tools that it should have called, with the arguments that it should have given.

Calls that go together are found so that the sum of their likenesses is as large as it can be: taking the best partner
for each in turn depends on the order and can miss the best whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from faircount.core.attempt import Attempt, ToolCall
from faircount.core.verdict import Decision, Verdict
from faircount.judges.json_text import NotJson, decode
from faircount.judges.judge import Judge, check_choice, check_flag, check_number

_MATCHES = ("exact", "arguments")
_ROUNDING = 1e-9


class ToolCallsAccuracy(Judge):
    """Hits when the calls of tools are those expected, to the share `threshold` at least.

    The score is REBEL's: no calls expected and none made is 1; with `strict`, a different number of calls is 0; else
    the likeness of the calls that go together, added up and divided by the longer of both lists. There, each expected
    call in turn takes the likest call that is left, even one that is nothing like it, so that the score can be lower.
    Here, calls are put together in the best possible way, whatever their order (with `order`, in the best way that
    keeps it), and arguments are compared as JSON values: neither the order of keys nor white space matters, 1 is 1.0,
    and "1" is neither. Arguments that are not JSON are compared as text.

    The likeness of two calls is 0 for different names. With `match="exact"` it is 1 for equal arguments and 0 for
    others; with "arguments" it is the share of keys with equal values among all keys of both. An attempt without
    expected calls is unjudged; an empty list of them says that no tool should be called.
    """

    name = "tools.ToolCallsAccuracy"
    looks_for = "the expected tool calls"
    scores = True
    needs_response = False

    def __init__(
        self, *, threshold: float = 0.5, strict: bool = True, match: str = "exact", order: bool = False
    ) -> None:
        self._threshold = check_number(self.name, "threshold", threshold, high=1.0)
        self._strict = check_flag(self.name, "strict", strict)
        self._by_key = check_choice(self.name, "match", match, _MATCHES) == "arguments"
        self._order = check_flag(self.name, "order", order)
        super().__init__(threshold=threshold, strict=strict, match=match, order=order)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit when enough of the expected calls were made."""
        expected, made = attempt.expected.tools_called, attempt.tools_called
        if expected is None:
            return Verdict.unjudged("the record does not list the expected tool calls")
        score, reason = self._compared(expected, made)
        return Verdict(Decision.of(score >= self._threshold - _ROUNDING), score, reason)

    def _compared(self, expected: Sequence[ToolCall], made: Sequence[ToolCall]) -> tuple[float, str]:
        if not expected and not made:
            return 1.0, "no call was expected and none was made"
        if self._strict and len(expected) != len(made):
            return 0.0, f"{_calls(len(expected))} expected, {len(made)} made"
        wanted, given = _read(expected), _read(made)
        likeness = [[self._likeness(one, other) for other in given] for one in wanted]
        pairs = best_pairs_in_order(likeness) if self._order else best_pairs(likeness)
        total = sum(likeness[row][column] for row, column in pairs)
        equal = sum(likeness[row][column] == 1.0 for row, column in pairs)
        score = min(1.0, total / max(len(expected), len(made)))
        return score, f"{equal} of {_calls(len(expected))} expected made as expected, {len(made)} made in all"

    def _likeness(self, one: tuple[str, Any], other: tuple[str, Any]) -> float:
        (name, arguments), (other_name, other_arguments) = one, other
        if name != other_name:
            return 0.0
        if self._by_key and isinstance(arguments, dict) and isinstance(other_arguments, dict):
            return _share_of_equal(arguments, other_arguments)
        return float(equal_json(arguments, other_arguments))


class _Unread(str):
    """Arguments that are not JSON: equal to the same characters only, never to a JSON text."""

    __slots__ = ()


def _read(calls: Sequence[ToolCall]) -> list[tuple[str, Any]]:
    return [(call.name, _arguments(call.arguments)) for call in calls]


def _arguments(text: str) -> Any:
    # Models write nothing at all for a tool that takes nothing.
    if not text.strip():
        return {}
    try:
        return decode(text)
    except NotJson:
        return _Unread(text)


def equal_json(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, true and 1 are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal_json, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    return type(one) is type(other) and one == other


def _share_of_equal(one: dict[str, Any], other: dict[str, Any]) -> float:
    keys = one.keys() | other.keys()
    if not keys:
        return 1.0
    return sum(key in one and key in other and equal_json(one[key], other[key]) for key in keys) / len(keys)


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


Pairs = list[tuple[int, int]]
"""Rows with their columns, in the order of the rows."""


def best_pairs(likeness: Sequence[Sequence[float]]) -> Pairs:
    """Return the assignment of rows to columns with the largest sum; the longer side has some left over.

    The Hungarian method with potentials and shortest augmenting paths (Jonker and Volgenant 1987), in
    rows × rows × columns steps.
    """
    if not likeness or not likeness[0]:
        return []
    if len(likeness) > len(likeness[0]):
        turned = [[row[column] for row in likeness] for column in range(len(likeness[0]))]
        return sorted((row, column) for column, row in best_pairs(turned))
    return _least_cost_pairs([[-value for value in row] for row in likeness])


def _least_cost_pairs(costs: Sequence[Sequence[float]]) -> Pairs:
    """Return the cheapest assignment, for at most as many rows as columns: rows are placed one after the other."""
    columns = range(len(costs[0]))
    of_rows, of_columns = [0.0] * len(costs), [0.0] * len(columns)
    row_at: list[int | None] = [None] * len(columns)
    for row in range(len(costs)):
        # Find the cheapest way to a free column, by way of the rows that must make room.
        distance, before = [inf] * len(columns), list[int | None]([None] * len(columns))
        passed: list[tuple[int, int]] = []
        open_columns = set(columns)
        here, current, travelled = row, -1, 0.0
        while True:
            for column in open_columns:
                reached = travelled + costs[here][column] - of_rows[here] - of_columns[column]
                if reached < distance[column]:
                    distance[column], before[column] = reached, current if passed else None
            travelled, current = min((distance[column], column) for column in open_columns)
            occupant = row_at[current]
            if occupant is None:
                break
            open_columns.remove(current)
            passed.append((current, occupant))
            here = occupant
        # Keep every reduced cost at or above 0, and at 0 for the pairs.
        of_rows[row] += travelled
        for column, occupant in passed:
            of_rows[occupant] += travelled - distance[column]
            of_columns[column] -= travelled - distance[column]
        # Move the rows on that way by one place.
        while (previous := before[current]) is not None:
            row_at[current], current = row_at[previous], previous
        row_at[current] = row
    return sorted((row, column) for column, row in enumerate(row_at) if row is not None)


def best_pairs_in_order(likeness: Sequence[Sequence[float]]) -> Pairs:
    """Return the assignment with the largest sum in which no two pairs cross: later rows have later columns."""
    if not likeness or not likeness[0]:
        return []
    columns = len(likeness[0])
    sums = [[0.0] * (columns + 1)]
    for values in likeness:
        above, current = sums[-1], [0.0]
        for column, value in enumerate(values):
            current.append(max(above[column + 1], current[column], above[column] + value))
        sums.append(current)
    row, column = len(likeness), columns
    pairs: Pairs = []
    while row and column:
        if sums[row][column] == sums[row - 1][column]:
            row -= 1
        elif sums[row][column] == sums[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]
