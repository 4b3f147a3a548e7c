"""The budget of a run: what it counts, and what it says when a limit is reached."""

from __future__ import annotations

import pytest

from faircount.core import Outcome
from faircount.runs import Answer, Budget, Limits, TargetError

ERROR = TargetError("status", "HTTP 503", 3)


def test_requests_are_counted_with_those_that_were_sent_again_until_there_are_enough() -> None:
    budget = Budget(Limits(max_calls=4), 10)
    budget.take_call()
    assert budget.take_answer(None, ERROR) == budget.why_no_more() == ""
    budget.take_call()
    assert (budget.progress.calls, budget.progress.retries) == (4, 2)
    assert budget.why_no_more() == "--max-calls: 4 requests were sent"


def test_money_is_counted_for_the_target_and_for_the_model_that_leads_an_attack() -> None:
    budget = Budget(Limits(max_cost=1.0), 10)
    assert budget.take_answer(Answer(output="", cost=0.4), None) == ""
    assert budget.take_note({"attacker": {"requests": 2, "cost": 0.5, "model": "m"}}) == ""
    assert budget.take_note(None) == budget.take_note({"attacker": {"requests": 0}}) == budget.why_no_more() == ""
    assert budget.take_answer(Answer(output="", cost=0.1), None) == ""
    assert budget.progress.cost == pytest.approx(1.0)
    assert budget.why_no_more() == "--max-cost: 1.0000 of 1 was spent"


def test_a_price_that_nobody_knows_is_a_reason_to_stop_only_where_money_is_limited() -> None:
    answer = Answer(output="", model="m")
    assert "the price of m is not known" in Budget(Limits(max_cost=1.0), 1).take_answer(answer, None)
    assert Budget(Limits(), 1).take_answer(answer, None) == ""


def test_errors_in_a_row_are_a_reason_to_stop_and_an_answer_between_them_is_none() -> None:
    budget = Budget(Limits(stop_after_errors=2), 10)
    assert [budget.take_answer(None, ERROR), budget.take_answer(Answer(output=""), None)] == ["", ""]
    assert budget.take_answer(None, ERROR) == ""
    why = "--stop-after-errors: 2 requests in a row failed, the last one: HTTP 503"
    assert budget.take_answer(None, ERROR) == why


def test_attempts_and_entries_are_counted_by_what_became_of_them() -> None:
    budget = Budget(Limits(), 10)
    for outcome in Outcome:
        budget.count(outcome)
    tally = budget.progress
    assert tally.done == len(Outcome)
    assert (tally.errors, tally.failed, tally.passed, tally.undecided, tally.blocked) == (1, 1, 1, 1, 1)
