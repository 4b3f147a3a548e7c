"""A run that stops as soon as enough is known, by an interval that may be looked at after every entry."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betaln, xlogy

from faircount.analysis import Grouping
from faircount.core import Estimate, Families, Outcome, UsageError
from faircount.ledger import FamilyCounts
from faircount.runs import in_random_order, read_rules, watcher
from faircount.stats import Design, confidence_sequence, log_e_value, wilson

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


def sequence(successes: int, n: int) -> tuple[float, float]:
    """Return the 95% confidence sequence of Robbins' mixture, by scipy."""

    def surplus(rate: float) -> float:
        mixture = betaln(successes + 0.5, n - successes + 0.5) - betaln(0.5, 0.5)
        return float(mixture - xlogy(successes, rate) - xlogy(n - successes, 1 - rate) - math.log(20))

    value = successes / n
    low = brentq(surplus, 1e-12, value, xtol=1e-14) if successes else 0.0
    high = brentq(surplus, value, 1 - 1e-12, xtol=1e-14) if successes < n else 1.0
    return low, high


@pytest.mark.parametrize(
    ("rule", "one_in"),
    [("width < 20%", 2), ("width < 10%", 9), ("asr > 20%", 2), ("asr < 30%", 9), ("asr < 5% or width < 12%", 4)],
)
def test_it_stops_at_the_first_entry_at_which_the_sequence_says_enough(rule: str, one_in: int) -> None:
    outcomes = [SUCCESS if n % one_in == 0 else FAILURE for n in range(2_000)]
    rules: dict[str, Callable[[float, float], bool]] = {
        "width < 20%": lambda low, high: high - low < 0.2,
        "width < 10%": lambda low, high: high - low < 0.1,
        "asr > 20%": lambda low, _: low > 0.2,
        "asr < 30%": lambda _, high: high < 0.3,
        "asr < 5% or width < 12%": lambda low, high: high < 0.05 or high - low < 0.12,
    }
    enough = rules[rule]
    first = next(n for n in range(1, 2_000) if enough(*sequence(outcomes[:n].count(SUCCESS), n)))
    seen, why = entries_until(rule, outcomes)
    assert seen == first
    assert why.startswith(f"--stop-when {rule.split(' or ')[-1]}: ")


def test_errors_widen_the_interval_that_must_be_narrow() -> None:
    outcomes = [Outcome.ERROR if n % 20 == 0 else SUCCESS if n % 2 else FAILURE for n in range(2_000)]

    def width(n: int) -> float:
        won, unknown = outcomes[:n].count(SUCCESS), outcomes[:n].count(Outcome.ERROR)
        return sequence(won + unknown, n)[1] - sequence(won, n)[0]

    first = next(n for n in range(1, 2_000) if width(n) < 0.2)
    assert entries_until("width < 20%", outcomes)[0] == first


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


# -- the interval of a run that could stop ----------------------------------------------------------------------


def stops(rule: str, runs: np.ndarray) -> Iterator[int]:
    """Yield after how many entries each run stops; a rule is asked once for each pair of counts."""
    rules = read_rules(rule)

    @cache
    def holds(successes: int, seen: int) -> bool:
        found = confidence_sequence(successes, seen - successes)
        assert found.low is not None and found.high is not None
        return any(one.holds(found.low, found.high) for one in rules)

    for successes in np.cumsum(runs, axis=1).tolist():
        yield next((seen for seen, won in enumerate(successes, start=1) if holds(won, seen)), len(successes))


def printed(won: Sequence[int], sizes: Sequence[int], *, families: bool = False) -> Estimate:
    """Return the success rate as a report has it, of families with so many successes and entries."""
    kinds = [FamilyCounts(1, n, k, n, 0, 0, 0, 0, 0, 0) for k, n in zip(won, sizes, strict=True) if n]
    told, column = Families("auto", "x", families, ""), "family" if families else None
    return Grouping(told, column, kinds, Design(families=families), stoppable=True).rate("success")


def covers(found: Estimate, rate: float) -> bool:
    assert found.low is not None and found.high is not None
    return found.low <= rate <= found.high


@pytest.mark.parametrize("rule", ["asr < 20%", "asr > 10%", "width < 20%", "asr < 15% or asr > 15%"])
def test_runs_are_simulated_as_they_stop(rule: str) -> None:
    runs = np.random.default_rng(3).random((8, 150)) < 0.2
    seen = [entries_until(rule, [SUCCESS if won else FAILURE for won in run])[0] or 150 for run in runs.tolist()]
    assert list(stops(rule, runs)) == seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "rule", "fixed_fails"),
    [
        (0.05, "asr < 5%", False),
        (0.05, "asr < 5% or asr > 5%", False),
        (0.10, "asr > 10%", False),
        (0.12, "asr > 10%", True),
        (0.20, "asr > 10%", True),
        (0.20, "width < 10%", False),
    ],
)
def test_the_interval_of_a_run_with_a_rule_covers_whether_it_stopped_or_not(
    rate: float, rule: str, fixed_fails: bool
) -> None:
    runs = np.random.default_rng(4).random((2_000, 1_000)) < rate
    counts = [(int(run[:seen].sum()), seen) for run, seen in zip(runs, stops(rule, runs), strict=True)]
    covered = np.mean([covers(printed([won], [seen]), rate) for won, seen in counts])
    assert covered >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / len(runs))
    fixed = np.mean([covers(wilson(won, seen), rate) for won, seen in counts])
    assert (fixed < 0.90) == fixed_fails


@pytest.mark.slow
@pytest.mark.parametrize(
    ("families", "size", "icc", "rate", "rule"),
    [
        (12, 80, 0.3, 0.05, "asr < 5% or asr > 5%"),
        (30, 30, 0.3, 0.12, "asr > 10%"),
        (100, 10, 0.3, 0.12, "asr > 10%"),
    ],
)
def test_the_interval_of_a_run_with_a_rule_covers_over_families(
    families: int, size: int, icc: float, rate: float, rule: str
) -> None:
    draws, count = np.random.default_rng(5), 400
    rates = draws.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, (count, families))
    of = np.stack([draws.permutation(np.repeat(np.arange(families), size)) for _ in range(count)])
    runs = draws.random(of.shape) < np.take_along_axis(rates, of, axis=1)
    covered = alone = 0
    for run, family, seen in zip(runs, of, stops(rule, runs), strict=True):
        won = np.bincount(family[:seen], run[:seen], families).astype(int).tolist()
        sizes = np.bincount(family[:seen], minlength=families).tolist()
        covered += covers(printed(won, sizes, families=True), rate)
        alone += covers(confidence_sequence(sum(won), seen - sum(won)), rate)
    assert covered / count >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / count)
    assert alone < covered


def test_a_sequence_over_families_is_that_of_fewer_entries() -> None:
    few, many = confidence_sequence(4, 16), confidence_sequence(12, 48, design_effect=3.0)
    assert (many.low, many.high) == pytest.approx((few.low, few.high))
    assert (many.n, many.method) == (60, "confidence sequence, families")
    with pytest.raises(ValueError, match="at least 1"):
        confidence_sequence(4, 16, design_effect=0.5)
