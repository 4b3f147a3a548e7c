"""Calls of tools against those expected: REBEL's rules, the best matching, and arguments compared by what they say."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from faircount.core import UsageError
from faircount.judges import (
    Attempt,
    Decision,
    Expected,
    ToolCall,
    ToolCallsAccuracy,
    Verdict,
    best_pairs,
    best_pairs_in_order,
    equal_json,
    verdict_of,
)

HIT, PASS = Decision.HIT, Decision.PASS


def call(name: str, arguments: object = None) -> ToolCall:
    if isinstance(arguments, str):
        return ToolCall(name, arguments)
    return ToolCall(name, json.dumps(arguments or {}))


def said(expected: list[ToolCall] | None, made: list[ToolCall], **options: Any) -> Verdict:
    wanted = None if expected is None else tuple(expected)
    attempt = Attempt(None, tools_called=tuple(made), expected=Expected(tools_called=wanted))
    return verdict_of(ToolCallsAccuracy(**options), attempt)


A, B, C = call("a", {"x": 1}), call("b", {"y": "2"}), call("c")


# -- matching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(300))
def test_the_assignment_is_as_good_as_that_of_scipy(seed: int) -> None:
    draw = random.Random(seed)
    rows, columns = draw.randint(1, 9), draw.randint(1, 9)
    kinds = (draw.random, lambda: float(draw.randint(0, 1)), lambda: draw.randint(0, 4) / 4, lambda: 0.0)
    value = kinds[seed % len(kinds)]
    likeness = [[value() for _ in range(columns)] for _ in range(rows)]
    pairs = best_pairs(likeness)
    assert len(pairs) == min(rows, columns)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    matrix = np.array(likeness)
    best = matrix[linear_sum_assignment(matrix, maximize=True)].sum()
    assert sum(likeness[row][column] for row, column in pairs) == pytest.approx(best, abs=1e-12)


def test_a_large_assignment_is_found_quickly() -> None:
    draw = np.random.default_rng(1)
    matrix = draw.random((60, 90))
    pairs = best_pairs(matrix.tolist())
    best = matrix[linear_sum_assignment(matrix, maximize=True)].sum()
    assert sum(matrix[pair] for pair in pairs) == pytest.approx(best)


def best_by_trying(likeness: list[list[float]]) -> float:
    """Return the largest sum of pairs that do not cross, by trying all choices of rows and columns."""
    rows, columns = len(likeness), len(likeness[0])
    return max(
        sum(likeness[row][column] for row, column in zip(chosen_rows, chosen_columns, strict=True))
        for count in range(min(rows, columns) + 1)
        for chosen_rows in itertools.combinations(range(rows), count)
        for chosen_columns in itertools.combinations(range(columns), count)
    )


@pytest.mark.parametrize("seed", range(100))
def test_the_assignment_in_order_is_the_best_that_does_not_cross(seed: int) -> None:
    draw = random.Random(seed)
    rows, columns = draw.randint(1, 5), draw.randint(1, 5)
    likeness = [[draw.choice([0.0, 0.25, 0.5, 1.0, draw.random()]) for _ in range(columns)] for _ in range(rows)]
    pairs = best_pairs_in_order(likeness)
    assert pairs == sorted(pairs)
    assert [column for _, column in pairs] == sorted({column for _, column in pairs})
    assert sum(likeness[row][column] for row, column in pairs) == pytest.approx(best_by_trying(likeness))


@pytest.mark.parametrize("pairs", [best_pairs, best_pairs_in_order])
def test_nothing_goes_with_nothing(pairs: Any) -> None:
    assert pairs([]) == pairs([[]]) == pairs([[], []]) == []


# -- the score --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "made", "options", "score", "decision"),
    [
        ([], [], {}, 1.0, HIT),
        ([A], [], {}, 0.0, PASS),
        ([], [A], {}, 0.0, PASS),
        ([], [A], {"strict": False}, 0.0, PASS),
        ([A], [A], {}, 1.0, HIT),
        ([A, B], [B, A], {}, 1.0, HIT),
        ([A, B], [B, A], {"order": True}, 0.5, HIT),
        ([A, B], [A, C], {}, 0.5, HIT),
        ([A, B], [A, C], {"threshold": 0.51}, 0.5, PASS),
        ([A, B], [A], {}, 0.0, PASS),
        ([A, B], [A], {"strict": False}, 0.5, HIT),
        ([B, A], [A], {"strict": False}, 0.5, HIT),
        ([A], [A, A, A], {"strict": False}, 1 / 3, PASS),
        ([A, B, C], [C, A, B], {"order": True}, 2 / 3, HIT),
        ([call("f", {"a": 1, "b": 2})], [call("f", {"a": 1, "b": 3})], {}, 0.0, PASS),
        ([call("f", {"a": 1, "b": 2})], [call("f", {"a": 1, "b": 3})], {"match": "arguments"}, 0.5, HIT),
        ([call("f", {"a": 1})], [call("f", {"a": 1, "b": 3, "c": 4})], {"match": "arguments"}, 1 / 3, PASS),
        ([call("f", {"a": 1})], [call("g", {"a": 1})], {"match": "arguments"}, 0.0, PASS),
        ([call("f")], [call("f")], {"match": "arguments"}, 1.0, HIT),
        ([call("f", "[1]")], [call("f", "[1.0]")], {"match": "arguments"}, 1.0, HIT),
        ([call("f", "[1]")], [call("f", "{}")], {"match": "arguments"}, 0.0, PASS),
        ([A], [B], {"threshold": 0.0}, 0.0, HIT),
    ],
)
def test_the_score_follows_the_rules(
    expected: list[ToolCall], made: list[ToolCall], options: Any, score: float, decision: Decision
) -> None:
    verdict = said(expected, made, **options)
    assert verdict.score == pytest.approx(score)
    assert verdict.decision is decision
    assert verdict.reason


def test_the_matching_is_the_best_where_the_first_choice_would_not_be() -> None:
    expected = [call("f", {"a": 1, "b": 2}), call("f", {"a": 1})]
    made = [call("f", {"a": 1}), call("f", {"b": 2})]
    # In turn, the first would take the first of two that are half like it, and leave nothing for the second.
    assert said(expected, made, match="arguments").score == pytest.approx((0.5 + 1) / 2)


def test_the_reason_counts() -> None:
    assert said([A, B], [A, C]).reason == "1 of 2 calls expected made as expected, 2 made in all"
    assert said([A], []).reason == "1 call expected, 0 made"


def test_without_expected_calls_the_attempt_is_unjudged() -> None:
    verdict = said(None, [A])
    assert verdict.decision is None
    assert "does not list the expected tool calls" in str(verdict.error)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": [2, {"c": null}]}', '{ "b":[2,{"c":null}],"a":1.0}', True),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 0}', '{"a": false}', False),
        ('{"a": null}', "{}", False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": "\\u00e9"}', '{"a": "é"}', True),
        ("", "{}", True),
        (" ", "{ }", True),
        ("not json", "not json", True),
        ("not json", '"not json"', False),
        ("not json", "not  json", False),
        ('{"a": NaN}', '{"a": NaN}', True),
        ('{"a": 1, "a": 2}', '{"a": 2}', False),
        ("9007199254740993", "9007199254740992", False),
    ],
)
def test_arguments_are_compared_by_what_they_say(one: str, other: str, same: bool) -> None:
    for match in ("exact", "arguments"):
        assert said([call("f", one)], [call("f", other)], match=match).score == float(same)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_equality_of_json_is_that_of_its_canonical_text(one: object, other: object) -> None:
    def canonical(value: object) -> str:
        def plain(value: object) -> object:
            if isinstance(value, dict):
                return {key: plain(inner) for key, inner in value.items()}
            if isinstance(value, list):
                return [plain(inner) for inner in value]
            if isinstance(value, float) and value.is_integer():
                return int(value)
            return value

        return json.dumps(plain(value), sort_keys=True)

    assert equal_json(one, other) == (canonical(one) == canonical(other))
    assert equal_json(one, one)


@given(st.permutations(range(4)), st.booleans())
def test_the_order_of_calls_does_not_matter_unless_asked_for(order: list[int], by_key: bool) -> None:
    calls = [call("f", {"a": number, "b": number % 2}) for number in range(4)]
    match = "arguments" if by_key else "exact"
    made = [calls[place] for place in order]
    assert said(calls, made, match=match).score == 1.0
    assert said(calls, calls, match=match, order=True).score == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 2}, "threshold must be a number from 0 to 1"),
        ({"threshold": "1"}, "threshold"),
        ({"strict": 1}, "strict must be true or false"),
        ({"match": "fuzzy"}, "match must be one of exact, arguments"),
        ({"order": "yes"}, "order must be true or false"),
    ],
)
def test_wrong_parameters_are_refused(options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ToolCallsAccuracy(**options)


def test_the_judge_has_scores_and_needs_no_text() -> None:
    judge = ToolCallsAccuracy()
    assert judge.scores
    assert not judge.needs_response
    assert judge.parameters == {"threshold": 0.5, "strict": True, "match": "exact", "order": False}
