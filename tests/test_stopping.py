"""A run that stops as soon as enough is known, by an interval that may be looked at after every entry."""

from __future__ import annotations

import random

import pytest

from faircount.errors import UsageError
from faircount.model import Outcome
from faircount.running.shards import in_random_order
from faircount.running.stopping import read_rules, watcher
from faircount.stats.gates import log_e_value

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def entries_until(rule: str, outcomes: list[Outcome], *, ignore_errors: bool = False) -> tuple[int, str]:
    watch = watcher(rule, ignore_errors=ignore_errors)
    for seen, outcome in enumerate(outcomes, start=1):
        if why := watch(outcome):
            return seen, why
    return 0, ""


@pytest.mark.parametrize(
    "text", ["", "asr", "asr < ", "asr < 2", "asr < 0%", "width > 5%", "asr = 5%", "asr < 5% and x"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--stop-when"):
        read_rules(text)


def test_a_share_can_be_written_in_two_ways() -> None:
    assert read_rules("asr<0.05") == read_rules(" asr < 5% ")
    assert [str(rule) for rule in read_rules("asr < 5% or asr > 20% or width < 4%")] == [
        "asr < 5%",
        "asr > 20%",
        "width < 4%",
    ]


def test_it_stops_at_the_first_entry_after_which_the_evidence_is_enough() -> None:
    # The evidence against 5 % reaches 20 (the inverse of 1 - 95 %) with the first 89 failures and not before.
    first = next(n for n in range(1, 500) if log_e_value(0, n, 0.05) >= 2.995732273553991)
    seen, why = entries_until("asr < 5%", [FAILURE] * 500)
    assert seen == first
    assert why.startswith(f"--stop-when asr < 5%: 0.0% [0.0, 5.0] of {first} entries succeeded")


def test_blocks_are_entries_without_success_and_so_are_errors_for_those_who_ignore_them() -> None:
    failures = entries_until("asr < 5%", [FAILURE] * 400)[0]
    assert entries_until("asr < 5%", [FAILURE, Outcome.GUARDRAIL] * 200)[0] == failures
    kinds = [FAILURE, Outcome.ERROR, Outcome.GUARDRAIL, Outcome.UNJUDGED]
    assert entries_until("asr < 5%", kinds * 100, ignore_errors=True)[0] == failures


@pytest.mark.parametrize("rule", ["asr < 5%", "asr > 5%", "width < 30%"])
@pytest.mark.parametrize("unknown", [Outcome.ERROR, Outcome.UNJUDGED])
def test_nothing_is_known_from_errors_however_many_there_are(rule: str, unknown: Outcome) -> None:
    assert entries_until(rule, [unknown] * 2_000) == (0, "")


def test_a_run_with_some_errors_stops_where_either_extreme_would_have() -> None:
    outcomes = [Outcome.ERROR if n % 50 == 0 else FAILURE for n in range(4_000)]
    as_if = [
        entries_until("asr < 5%", [so if outcome is Outcome.ERROR else outcome for outcome in outcomes])[0]
        for so in (SUCCESS, FAILURE)
    ]
    seen, why = entries_until("asr < 5%", outcomes)
    assert as_if[1] < seen == max(as_if)
    assert f"; {seen // 50 + 1} errors or unjudged entries cannot change this" in why


def test_an_interval_that_is_narrow_enough_stops_it() -> None:
    seen, why = entries_until("width < 20%", [SUCCESS, FAILURE] * 500)
    assert 50 < seen < 400
    assert "width < 20%" in why


def test_it_is_wrong_no_more_often_than_its_level_says_however_often_it_looks() -> None:
    lots = random.Random(7)
    wrong = 0
    for _ in range(100):
        outcomes = [SUCCESS if lots.random() < 0.2 else FAILURE for _ in range(200)]
        seen, _ = entries_until("asr < 20% or asr > 20%", outcomes)
        wrong += seen > 0
    assert wrong / 100 <= 0.05


def test_the_random_order_is_always_the_same_and_has_all() -> None:
    items = tuple(range(100))
    assert in_random_order(items) == in_random_order(items) != items
    assert sorted(in_random_order(items)) == list(items)
