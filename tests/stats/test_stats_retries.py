"""Repeated scores, and what reduces them to one: checked against pingouin, statsmodels, scipy and REBEL itself."""

from __future__ import annotations

import math
import random
import statistics
import warnings
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.stats import (
    aggregate,
    best_attempts,
    flake_rate,
    flake_rate_of_counts,
    icc,
    icc_of_counts,
    majority_of_k,
    modes,
    next_calls,
    rebel_aggregate,
    valid_scores,
)
from faircount.stats.retries import ReducerName
from tests.oracles import known, oracle

repeated = st.lists(st.lists(st.none() | st.sampled_from([0.0, 0.1, 0.5, 1.0]), max_size=5), max_size=8)


# Retries


@pytest.mark.parametrize("seed", range(4))
def test_icc_equals_pingouin(seed: int) -> None:
    pingouin, pandas = oracle("pingouin"), oracle("pandas")
    generator = np.random.default_rng(seed)
    scores = generator.normal(generator.normal(0, 1, (12, 1)), 1.0, (12, 4))
    frame = pandas.DataFrame(
        [(entry, attempt, scores[entry, attempt]) for entry in range(12) for attempt in range(4)],
        columns=["entry", "attempt", "score"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pingouin.intraclass_corr(data=frame, targets="entry", raters="attempt", ratings="score")
    theirs = float(table.loc[table["Type"].isin(["ICC1", "ICC(1,1)"]), "ICC"].iloc[0])
    ours = icc(scores.tolist())
    assert ours.icc_raw == pytest.approx(theirs, abs=1e-8)
    assert ours.standard_error == pytest.approx(scores.mean(axis=1).std(ddof=1) / math.sqrt(12))
    assert known(ours.variance_of_mean) == pytest.approx(known(ours.between_raw) / 12 + known(ours.within) / 48)


@pytest.mark.parametrize("seed", range(3))
def test_unequal_numbers_of_attempts_equal_statsmodels_analysis_of_variance(seed: int) -> None:
    anova, pandas = oracle("statsmodels.api"), oracle("pandas")
    formula = oracle("statsmodels.formula.api")
    generator = np.random.default_rng(seed)
    scores = [generator.normal(generator.normal(), 1.0, generator.integers(1, 6)).tolist() for _ in range(15)]
    frame = pandas.DataFrame(
        [(f"e{entry}", score) for entry, row in enumerate(scores) for score in row], columns=["entry", "score"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = anova.stats.anova_lm(formula.ols("score ~ C(entry)", frame).fit())
    ours = icc(scores)
    assert ours.mean_square_between == pytest.approx(float(table["mean_sq"].iloc[0]))
    assert ours.mean_square_within == pytest.approx(float(table["mean_sq"].iloc[1]))


@given(repeated)
def test_repeated_scores_of_any_shape_give_numbers_or_nothing(scores: list[list[float | None]]) -> None:
    ours = icc(scores)
    assert (ours.mean is None) == (not any(map(valid_scores, scores)))
    if ours.icc_raw is not None:
        assert -1 / (known(ours.attempts) - 1) - 1e-9 <= ours.icc_raw <= 1 + 1e-9
        assert known(ours.icc) >= 0
    advice = next_calls(ours)
    assert (advice is None) == (ours.within is None)
    if advice is not None:
        assert advice.with_entries <= advice.with_retries + 1e-12 <= advice.now + 2e-12
        assert advice.better != "retries"
    shuffled = icc([row[::-1] for row in reversed(scores)])
    assert shuffled.icc_raw == pytest.approx(ours.icc_raw, abs=1e-9)


def test_scores_that_never_differ_have_no_icc() -> None:
    assert icc([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]).icc is None
    assert icc([[0.1, 0.7]]).icc is None
    assert icc([[0.1], [0.7]]).icc is None
    same_every_time = icc([[0.1, 0.1], [0.7, 0.7]])
    assert same_every_time.icc == pytest.approx(1.0) and same_every_time.within == 0
    opposite = icc([[0, 1], [1, 0]])
    assert opposite.icc == 0 and known(opposite.icc_raw) == pytest.approx(-1)


def test_an_error_is_no_score() -> None:
    assert icc([[1, None, 0], [math.nan, 1, 1], [None]]) == icc([[1, 0], [1, 1]])
    assert flake_rate([[1, None, 0], [math.nan, 1, 1], [0, None]]) == flake_rate([[1, 0], [1, 1]])


def test_counts_of_successes_are_scores_of_zero_and_one() -> None:
    scores = [[1, 0, 0], [1, 1, 1], [0, 0], [1, 0, 1, 1], [], [1, 0, 0]]
    by_scores, by_counts = icc(scores), icc_of_counts([1, 3, 0, 3, 0, 1], [3, 3, 2, 4, 0, 3])
    for name in by_scores.__struct_fields__:
        assert getattr(by_counts, name) == pytest.approx(getattr(by_scores, name)), name
    assert flake_rate(scores) == flake_rate_of_counts([1, 3, 0, 3, 0, 1], [3, 3, 2, 4, 0, 3])
    assert (flake_rate(scores).value, flake_rate(scores).n) == (3 / 5, 5)
    assert flake_rate([[1], [0]]).value is None


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9, 100])
def test_the_chance_of_a_majority_equals_scipys_binomial(k: int) -> None:
    from scipy.stats import binom

    for rate in (0.0, 0.01, 0.3, 0.5, 0.9, 1.0):
        assert majority_of_k(rate, k) == pytest.approx(float(binom.sf(k // 2, k, rate)), abs=1e-12)


def test_more_calls_go_to_entries_unless_an_entry_is_dear() -> None:
    variance = icc([[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    free, dear = next_calls(variance, 60), next_calls(variance, 60, entry_cost=200)
    assert free is not None and dear is not None
    assert (free.better, dear.better) == ("entries", "retries")
    assert free.now == pytest.approx(known(variance.standard_error))
    assert free.with_retries == dear.with_retries < free.now
    alike = next_calls(icc([[1, 0], [0, 1]]), 10)
    assert alike is not None and alike.better is None
    assert best_attempts(icc([[1, 0], [0, 1]])) is None
    assert best_attempts(variance, cost_ratio=1e-9) == 1.0


# Reducers


@pytest.mark.parametrize(
    ("name", "scores", "k", "expected"),
    [
        ("mean", [1, None, 0, 1], None, 2 / 3),
        ("median", [0.2, None, 0.4], None, 0.3),
        ("mode", [1, None, 0, 1], None, 1),
        ("mode", [1, 0, None], None, None),
        ("min", [0.4, None, 0.2], None, 0.2),
        ("max", [0.4, math.nan, 0.2], None, 0.4),
        ("majority", [1, 1, 0], None, True),
        ("majority", [0, 0, 1], None, False),
        ("majority", [1, 0], None, None),
        ("majority", [1, 1, 0, None], None, None),
        ("majority", [1, 1, 1, None], None, True),
        ("any", [0, None, 1], None, True),
        ("any", [0, None, 0], None, None),
        ("any", [0, 0], None, False),
        ("all", [1, None, 0], None, False),
        ("all", [1, None, 1], None, None),
        ("all", [1, 1], None, True),
        ("first", [0.3, 1], None, 0.3),
        ("first", [None, 1], None, None),
        ("at_least_k", [1, 1, 0], 2, True),
        ("at_least_k", [1, 0, None], 2, None),
        ("at_least_k", [1, 0, 0, None], 3, False),
        ("pass@k", [1, 0, 0, None], 2, 2 / 3),
        ("pass@k", [1, 0, None], 3, None),
        ("pass^k", [1, 1, 0, None], 2, 1 / 3),
        ("pass^k", [1, None], 2, None),
    ],
)
def test_what_an_error_and_a_tie_do_to_each_reducer(
    name: ReducerName, scores: list[float | None], k: int | None, expected: float | bool | None
) -> None:
    result = aggregate(name, scores, k=k)
    assert result == pytest.approx(expected)
    assert isinstance(result, bool) == isinstance(expected, bool)


@pytest.mark.parametrize("name", get_args(ReducerName))
@pytest.mark.parametrize("scores", [[], [None], [math.nan, None]])
def test_nothing_scored_is_undecided(name: ReducerName, scores: list[float | None]) -> None:
    assert aggregate(name, scores, k=1 if name in ("at_least_k", "pass@k", "pass^k") else None) is None
    assert modes(scores) == []


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_only_first_depends_on_the_order(scores: list[float | None], shuffler: random.Random) -> None:
    shuffled = [*scores]
    shuffler.shuffle(shuffled)
    for name in get_args(ReducerName):
        k = 2 if name in ("at_least_k", "pass@k", "pass^k") else None
        if name != "first":
            assert aggregate(name, shuffled, k=k) == pytest.approx(aggregate(name, scores, k=k))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_reducers_of_scores_equal_the_standard_library(scores: list[float]) -> None:
    assert aggregate("mean", scores) == pytest.approx(statistics.mean(scores))
    assert aggregate("median", scores) == statistics.median(scores)
    assert modes(scores) == sorted(statistics.multimode(scores))
    assert aggregate("any", scores) == any(score >= 0.5 for score in scores)
    assert aggregate("all", scores) == all(score >= 0.5 for score in scores)
    assert aggregate("at_least_k", scores, k=1) == aggregate("any", scores)
    assert aggregate("pass@k", scores, k=1) == pytest.approx(sum(score >= 0.5 for score in scores) / len(scores))


P, F, E = True, False, None
# Made by rebel-eval 0.2.0: score, verdict (passed, failed, error) for min, max, mean, median.
REBEL: list[tuple[list[tuple[float, bool | None]], list[tuple[float, bool | None]]]] = [
    ([(0.0, P), (1.0, F)], [(0.0, F), (1.0, P), (0.5, F), (0.5, F)]),
    ([(0.2, F), (0.9, P), (0.9, P)], [(0.2, F), (0.9, P), (0.6666666666666667, P), (0.9, P)]),
    ([(0.4, P), (0.6, P), (0.5, F), (0.6, F)], [(0.4, F), (0.6, P), (0.525, F), (0.55, F)]),
    ([(1.0, P), (0.0, E), (0.0, E)], [(1.0, P), (1.0, P), (1.0, P), (1.0, P)]),
    ([(0.0, E), (0.0, E)], [(0.0, E), (0.0, E), (0.0, E), (0.0, E)]),
    ([(0.5, F), (0.5, F), (0.5, P), (0.5, P), (0.5, F)], [(0.5, F), (0.5, P), (0.5, F), (0.5, F)]),
    ([(0.1, P), (0.2, P), (0.3, P)], [(0.1, P), (0.3, P), (0.2, P), (0.2, P)]),
    ([(0.7, F)], [(0.7, F), (0.7, F), (0.7, F), (0.7, F)]),
    ([(0.3, P), (1.0, E), (0.8, F)], [(0.3, F), (0.8, P), (0.55, F), (0.55, F)]),
    ([(1, P), (2, F), (4, P)], [(1.0, F), (4.0, P), (2.3333333333333335, P), (2.0, P)]),
]


@pytest.mark.parametrize(("results", "expected"), REBEL)
def test_rebels_four_are_reproduced_exactly(
    results: list[tuple[float, bool | None]], expected: list[tuple[float, bool | None]]
) -> None:
    for name, (score, passed) in zip(("rebel_min", "rebel_max", "rebel_mean", "rebel_median"), expected, strict=True):
        ours = rebel_aggregate(name, results)  # type: ignore[arg-type]
        assert (ours.score, ours.passed) == (score, passed)
        assert ours.reason == ("All evaluation attempts failed" if passed is None else "")
