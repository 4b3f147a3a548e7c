"""Whether a model called the tools that it should have called, with the arguments that it should have given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faircount.core.attempt import Attempt, ToolCall
from faircount.core.verdict import Decision, Verdict
from faircount.judges.assignment import best_pairs, best_pairs_in_order
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
