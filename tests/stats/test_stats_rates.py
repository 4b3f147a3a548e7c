"""Rates, families, attempts, comparisons, plans, slices and gates agree with somebody else: scipy, statsmodels,
lifelines, an enumeration, or a likelihood maximised by force."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import random
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from faircount.core import AgainstRest, Estimate
from faircount.stats import (
    attempts,
    clopper_pearson,
    clusters,
    comparison,
    critical_value,
    crossing,
    distributions,
    gates,
    jeffreys,
    planning,
    slices,
    wilson,
    zero_hits_upper,
)
from faircount.stats import distributions as ours
from tests.conftest import some
from tests.oracles import correlation_floor, expected_correlation

proportions = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
small_counts = st.integers(0, 60)


@cache
def oracle(name: str) -> Any:
    """Return a heavy library, quietly; the test is skipped where it is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name} is an oracle of the test extra and is not installed")
        return importlib.import_module(name)


def known(value: float | None) -> float:
    assert value is not None
    return value


def limits(estimate: Estimate) -> tuple[float, float]:
    return known(estimate.low), known(estimate.high)


def drawn(seed: int, times: int) -> Iterator[random.Random]:
    """Yield generators for random cases, the same in every run."""
    for number in range(times):
        yield random.Random(f"{seed}-{number}")


# Special functions and distributions


@given(st.floats(-2, 5), st.floats(-2, 5), st.floats(1e-4, 1 - 1e-4))
def test_quantiles_of_the_beta_distribution_equal_scipy(log_a: float, log_b: float, probability: float) -> None:
    a, b = 10**log_a, 10**log_b
    theirs = special.betaincinv(a, b, probability)
    assert ours.beta_quantile(probability, a, b) == pytest.approx(theirs, rel=1e-8, abs=1e-12)
    assert ours.regularized_beta(a, b, 0.3) == pytest.approx(special.betainc(a, b, 0.3), rel=1e-7, abs=1e-100)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 30, 999, 100_000])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_student_critical_values_equal_scipy(degrees: int, level: float) -> None:
    assert distributions.student_critical_value(level, degrees) == pytest.approx(
        stats.t.ppf(0.5 + level / 2, degrees), rel=1e-9
    )


@given(st.floats(0, 300), st.integers(1, 12))
def test_tails_of_chi_square_equal_scipy(value: float, degrees: int) -> None:
    assert distributions.chi_square_tail(value, degrees) == pytest.approx(stats.chi2.sf(value, degrees), rel=1e-9)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.integers(1, 63))
def test_tails_of_the_binomial_equal_exact_fractions(case: tuple[int, int], parts: int) -> None:
    """Exact, because scipy 1.17 is wrong in the sixth digit deep in a tail: 12 of 491 at 25/32."""
    (count, n), chance = case, Fraction(parts, 64)
    masses = (math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(count + 1))
    theirs = float(sum(masses, Fraction(0)))
    assert distributions.binomial_at_most(count, n, parts / 64) == pytest.approx(theirs, rel=1e-9, abs=1e-300)
    assert distributions.binomial_at_most(-1, n, parts / 64) == 0


@pytest.mark.parametrize("z", [-9.0, -1.0, 0.0, 0.3, 8.0])
def test_tails_of_the_normal_equal_scipy(z: float) -> None:
    assert distributions.normal_tail(z) == pytest.approx(stats.norm.sf(z), rel=1e-12)
    assert distributions.two_sided_normal(z) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-12)


def test_a_crossing_is_found_between_infinite_ends_and_only_where_there_is_one() -> None:
    assert crossing(lambda x: math.inf if x == 0 else 1 / x - 4, 0, 1) == pytest.approx(0.25, abs=1e-13)
    assert crossing(lambda x: x - 2, 0, 2) == 2
    with pytest.raises(ValueError, match="change sign"):
        crossing(lambda x: x + 1, 0, 1)


# One proportion


@given(proportions, levels)
def test_clopper_pearson_equals_scipy(case: tuple[int, int], level: float) -> None:
    theirs = stats.binomtest(*case).proportion_ci(level, "exact")
    assert limits(clopper_pearson(*case, level=level)) == pytest.approx((theirs.low, theirs.high), abs=1e-10)


@given(proportions, levels)
def test_jeffreys_equals_the_beta_quantiles_of_scipy(case: tuple[int, int], level: float) -> None:
    k, n = case
    theirs = stats.beta.ppf([(1 - level) / 2, (1 + level) / 2], k + 0.5, n - k + 0.5)
    assert limits(jeffreys(k, n, level=level, open_ended=False)) == pytest.approx(tuple(theirs), abs=1e-10)
    assert (jeffreys(k, n, level=level).low == 0) == (k == 0)
    assert (jeffreys(k, n, level=level).high == 1) == (k == n)


@given(st.integers(1, 100_000), levels)
def test_the_bound_without_a_hit_equals_scipy(n: int, level: float) -> None:
    theirs = stats.binomtest(0, n, alternative="less").proportion_ci(level).high
    assert zero_hits_upper(n, level=level).high == pytest.approx(theirs, rel=1e-9)


# Families


def random_families(rng: random.Random, count: int, size: int, *, equal: bool) -> tuple[list[int], list[int]]:
    sizes = [size if equal else rng.randint(1, size) for _ in range(count)]
    return [round(m * rng.betavariate(0.6, 1.4)) for m in sizes], sizes


def units(successes: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
    """Return results and families, one unit each."""
    results = [int(i < s) for s, m in zip(successes, sizes, strict=True) for i in range(m)]
    return results, [family for family, m in enumerate(sizes) for _ in range(m)]


def test_the_standard_error_over_families_equals_statsmodels() -> None:
    sm = oracle("statsmodels.api")
    for rng in drawn(1, 30):
        successes, sizes = random_families(rng, rng.randint(2, 25), 9, equal=rng.random() < 0.3)
        results, groups = units(successes, sizes)
        fit = sm.OLS(results, np.ones(len(results))).fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)})
        mine = clusters.cluster_wilson(successes, sizes)
        assert mine.standard_error == pytest.approx(float(fit.bse[0]), abs=1e-10)
        assert mine.estimate.value == pytest.approx(float(fit.params[0]))


def test_the_interval_over_families_is_statsmodels_wilson_on_the_effective_size() -> None:
    smp = oracle("statsmodels.stats.proportion")
    for rng in drawn(2, 30):
        successes, sizes = random_families(rng, rng.randint(3, 25), 9, equal=False)
        mine = clusters.cluster_wilson(successes, sizes)
        assert mine.effective_n is not None and mine.estimate.value is not None
        alpha = 2 * stats.norm.sf(stats.t.ppf(0.975, mine.families - 1))
        low, high = smp.proportion_confint(mine.estimate.value * mine.effective_n, mine.effective_n, alpha, "wilson")
        none = sum(sizes) / correlation_floor([0] * len(sizes), sizes)
        highest = smp.proportion_confint(0, none, alpha, "wilson")[1]
        assert limits(mine.estimate) == pytest.approx((min(low, 1 - highest), max(high, highest)), abs=1e-4)
        assert mine.effective_n <= sum(sizes)


def test_the_design_effect_is_the_larger_of_statsmodels_and_the_floor_by_scipy() -> None:
    sm = oracle("statsmodels.api")
    decided = set()
    for rng in drawn(4, 30):
        successes, sizes = random_families(rng, rng.randint(3, 25), 9, equal=False)
        results, groups = units(successes, sizes)
        fit = sm.OLS(results, np.ones(len(results))).fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)})
        n, p = len(results), float(fit.params[0])
        seen = float(fit.bse[0]) ** 2 / (p * (1 - p) / n)
        floor = correlation_floor(successes, sizes)
        decided.add(seen > floor)
        assert clusters.cluster_wilson(successes, sizes).design_effect == pytest.approx(max(seen, floor), rel=2e-3)
    assert decided == {True, False}


@pytest.mark.parametrize(
    ("successes", "sizes"),
    [
        ([0] * 25, [8] * 25),
        ([1] + [0] * 24, [8] * 25),
        ([29, 8, 2, 3, 0, 10, 0, 1, 1, 1, 0], [136] * 7 + [1] * 4),
        ([0] * 7 + [1] * 4, [136] * 7 + [1] * 4),
        ([136, 0, 0, 136, 0, 136, 0], [136] * 7),
        ([3, 0, 1] * 300, [10, 4, 7] * 300),
        (list(range(40)), [60] * 40),
        ([1, 2], [3, 3]),
    ],
)
def test_the_expected_correlation_is_the_integral(successes: list[int], sizes: list[int]) -> None:
    theirs = expected_correlation(successes, sizes)
    assert clusters.expected_correlation(successes, sizes) == pytest.approx(theirs, rel=0.01, abs=2e-4)


def test_many_counts_and_few_are_summed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    families = list(range(0, 60, 2)), list(range(60, 120, 2))
    at_once = clusters.expected_correlation(*families)
    monkeypatch.setattr(clusters, "_MANY_COUNTS", 1000)
    clusters._expected_correlation.cache_clear()
    assert clusters.expected_correlation(*families) == pytest.approx(at_once, rel=1e-9)


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=2, max_size=12), st.sampled_from([0.9, 0.95]))
def test_no_success_and_no_failure_have_the_outermost_limits(units: list[tuple[int, float]], level: float) -> None:
    sizes = [m for m, _ in units]
    mine = clusters.cluster_wilson([round(m * share) for m, share in units], sizes, level=level).estimate
    none, every = (clusters.cluster_wilson(won, sizes, level=level).estimate for won in ([0] * len(sizes), sizes))
    assert known(mine.high) >= known(none.high) - 1e-12
    assert known(mine.low) <= known(every.low) + 1e-12


@pytest.mark.parametrize("sizes", [[8] * 25, [20] * 10, [8] * 100, [136] * 7 + [1] * 4], ids=lambda m: f"{len(m)}")
@pytest.mark.parametrize("spread", [True, False], ids=["over families", "into one family"])
def test_one_success_more_never_makes_a_gate_on_the_upper_limit_pass(sizes: list[int], spread: bool) -> None:
    """From none on, whether each success is in another family or all are in the first."""
    successes = [0] * len(sizes)
    last = 0.0
    for step in range(min(len(sizes), sizes[0]) + 1):
        high = known(clusters.cluster_wilson(successes, sizes).estimate.high)
        assert high >= last - 1e-12
        last = high
        successes[step % len(sizes) if spread else 0] += 1


def test_the_correlation_within_families_follows_from_scipys_analysis_of_variance() -> None:
    for rng in drawn(3, 30):
        successes, sizes = random_families(rng, rng.randint(3, 12), 8, equal=rng.random() < 0.5)
        groups = [[int(i < s) for i in range(m)] for s, m in zip(successes, sizes, strict=True)]
        mine = clusters.family_correlation(successes, sizes)
        if max(sizes) == 1 or all(s in (0, m) for s, m in zip(successes, sizes, strict=True)):
            continue
        ratio = float(stats.f_oneway(*groups).statistic)
        n = sum(sizes)
        typical = (n - sum(m * m for m in sizes) / n) / (len(sizes) - 1)
        assert mine == pytest.approx((ratio - 1) / (ratio + typical - 1), abs=1e-9)


def enumerated(families: list[tuple[int, int]]) -> dict[float, float]:
    """Return the whole distribution of the bootstrap over families, by going through every possible draw."""
    mass: dict[float, float] = {}
    for draw in itertools.product(families, repeat=len(families)):
        rate = round(sum(s for s, _ in draw) / sum(m for _, m in draw), 12)
        mass[rate] = mass.get(rate, 0.0) + len(families) ** -len(families)
    return dict(sorted(mass.items()))


@pytest.mark.parametrize("successes", [(0, 1, 3, 3, 0), (2, 2, 2), (3, 0), (0, 0, 0, 1), (1, 2, 3, 0, 3, 3)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bootstrap_over_equal_families_equals_the_enumeration(successes: tuple[int, ...], level: float) -> None:
    mass = enumerated([(s, 3) for s in successes])
    cumulative = list(itertools.accumulate(mass.values()))
    tail = (1 - level) / 2
    theirs = [
        next(rate for rate, so_far in zip(mass, cumulative, strict=True) if so_far >= wanted - 1e-9)
        for wanted in (tail, 1 - tail)
    ]
    estimate = clusters.cluster_bootstrap(successes, [3] * len(successes), level=level)
    assert list(limits(estimate)) == pytest.approx(theirs, abs=1e-12)
    assert "exact" in estimate.method


def test_the_drawn_bootstrap_over_families_has_the_enumerated_tails() -> None:
    families = [(0, 1), (2, 2), (1, 4), (0, 3), (3, 3), (1, 2)]
    mass = enumerated(families)
    estimate = clusters.cluster_bootstrap([s for s, _ in families], [m for _, m in families], replicates=20_000)
    low, high = limits(estimate)
    noise = 4 * math.sqrt(0.025 * 0.975 / 20_000)
    assert sum(p for rate, p in mass.items() if rate < low - 1e-9) <= 0.025 + noise
    assert sum(p for rate, p in mass.items() if rate <= low + 1e-9) >= 0.025 - noise
    assert sum(p for rate, p in mass.items() if rate < high - 1e-9) <= 0.975 + noise
    assert sum(p for rate, p in mass.items() if rate <= high + 1e-9) >= 0.975 - noise


def test_a_seed_decides_what_is_drawn_and_nothing_else_does() -> None:
    successes, sizes = [1, 0, 2, 3, 0, 1, 1], [2, 3, 2, 4, 1, 5, 1]
    random.seed(1)
    np.random.seed(1)
    first = clusters.cluster_bootstrap(successes, sizes, seed=7, replicates=500)
    assert clusters.cluster_bootstrap(successes, sizes, seed=7, replicates=500) == first
    assert clusters.cluster_bootstrap(successes, sizes, seed=8, replicates=500) != first


def test_draws_are_the_same_in_one_piece_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    successes, sizes = [1, 0, 2, 3, 0, 1, 1], [2, 3, 2, 4, 1, 5, 1]
    whole = clusters.cluster_bootstrap(successes, sizes, replicates=500)
    monkeypatch.setattr(clusters, "_DRAWS_AT_ONCE", 50)
    assert clusters.cluster_bootstrap(successes, sizes, replicates=500) == whole


def test_a_paired_difference_over_families_is_the_difference_of_their_rates() -> None:
    only_a, only_b, sizes = [2, 0, 1, 3, 0], [0, 1, 0, 0, 0], [4, 4, 4, 4, 4]
    estimate = clusters.cluster_bootstrap_difference(only_a, only_b, sizes)
    mass = enumerated([(a - b, m) for a, b, m in zip(only_a, only_b, sizes, strict=True)])
    cumulative = list(itertools.accumulate(mass.values()))
    theirs = [next(r for r, so_far in zip(mass, cumulative, strict=True) if so_far >= q) for q in (0.025, 0.975)]
    assert estimate.value == pytest.approx(5 / 20)
    assert list(limits(estimate)) == pytest.approx(theirs, abs=1e-12)


def test_families_that_cannot_show_their_likeness_are_worth_what_the_floor_says() -> None:
    for successes, sizes in (([0] * 6, [4] * 6), ([1, 2, 3], [2, 4, 6])):
        found = clusters.cluster_wilson(successes, sizes)
        assert found.standard_error == 0
        assert found.design_effect == pytest.approx(correlation_floor(successes, sizes), rel=1e-3)


def test_a_mean_over_attempts_has_the_error_of_statsmodels_over_families() -> None:
    sm = oracle("statsmodels.api")
    for rng in drawn(5, 20):
        attempts_made = [rng.randint(1, 6) for _ in range(40)]
        won = [rng.randint(0, made) for made in attempts_made]
        groups = [rng.randrange(9) for _ in range(40)]
        shares = [s / m for s, m in zip(won, attempts_made, strict=True)]
        fit = sm.OLS(shares, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)})
        mine = clusters.cluster_mean_of_shares(won, attempts_made, groups)
        assert mine.estimate.value == pytest.approx(float(fit.params[0]))
        # statsmodels multiplies by (n-1)/(n-1) of one parameter: the factor is G/(G-1) alone.
        assert mine.standard_error == pytest.approx(float(fit.bse[0]), rel=1e-9)


# Attempts


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_and_pass_hat_k_equal_the_enumeration(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(itertools.combinations([1] * c + [0] * (n - c), k))
    assert attempts.pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))
    assert attempts.pass_hat_k(n, c, k) == pytest.approx(sum(all(draw) for draw in draws) / len(draws))


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), max_size=30), st.integers(1, 12))
def test_the_mean_over_entries_equals_numpy(raw: list[tuple[int, float]], k: int) -> None:
    entries = [(n, round(n * share)) for n, share in raw]
    mine = attempts.mean_pass_at_k(entries, k)
    values = [value for value in mine.per_entry if value is not None]
    assert mine.left_out == sum(n < k for n, _ in entries)
    assert mine.estimate.n == len(values)
    if values:
        assert mine.estimate.value == pytest.approx(np.mean(values))
    else:
        assert mine.estimate.value is None
    if len(values) > 1:
        assert mine.standard_error == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)), abs=1e-12)
        low, high = limits(mine.estimate)
        assert 0 <= low <= known(mine.estimate.value) <= high <= 1 and low < high


def random_attempts(rng: random.Random, n: int, rate: float) -> tuple[list[int], list[int]]:
    spent, hits = [], []
    for _ in range(n):
        cap = rng.randint(1, 8)
        first = next((k for k in range(1, cap + 1) if rng.random() < rate), None)
        spent.append(first or cap)
        hits.append(int(first is not None))
    return spent, hits


def test_success_within_k_equals_lifelines() -> None:
    lifelines = oracle("lifelines")
    for rng in some(drawn(4, 20)):
        spent, hits = random_attempts(rng, rng.randint(5, 60), rng.choice([0.05, 0.2, 0.5]))
        if not sum(hits):
            continue
        curve = attempts.success_within_k(spent, hits)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = lifelines.KaplanMeierFitter().fit(spent, hits)
        for step in some(curve.steps):
            assert step.survival == pytest.approx(float(theirs.predict(step.k)), abs=1e-9)
            if step.estimate.method == "kaplan-meier" and step.survival > 0:
                band = theirs.confidence_interval_.loc[step.k].to_numpy()
                assert (1 - known(step.estimate.high), 1 - known(step.estimate.low)) == pytest.approx(band, abs=1e-9)
        median = theirs.median_survival_time_
        assert curve.attempts_for(0.5).value == (median if math.isfinite(median) else None)


def test_the_standard_error_of_the_curve_equals_statsmodels() -> None:
    duration = oracle("statsmodels.duration.survfunc")
    for rng in drawn(5, 10):
        spent, hits = random_attempts(rng, 40, 0.2)
        theirs = duration.SurvfuncRight(spent, hits)
        mine = {step.k: step for step in attempts.success_within_k(spent, hits).steps}
        for time, survival, error in zip(theirs.surv_times, theirs.surv_prob, theirs.surv_prob_se, strict=True):
            assert mine[int(time)].survival == pytest.approx(survival, abs=1e-9)
            if survival > 0:
                assert mine[int(time)].standard_error == pytest.approx(error, abs=1e-9)


def test_the_log_rank_test_equals_scipy() -> None:
    for rng in drawn(6, 20):
        a, b = random_attempts(rng, 30, 0.2), random_attempts(rng, 25, 0.35)
        theirs = stats.logrank(
            *(stats.CensoredData.right_censored(spent, np.array(hits) == 0) for spent, hits in (a, b))
        )
        mine = attempts.logrank(*a, *b)
        assert (mine.z, mine.p) == pytest.approx((theirs.statistic, theirs.pvalue), abs=1e-9)


def test_attempts_spent_up_to_a_cap_equal_lifelines() -> None:
    utils = oracle("lifelines.utils")
    lifelines = oracle("lifelines")
    spent, hits = random_attempts(random.Random(9), 50, 0.3)
    curve = attempts.success_within_k(spent, hits)
    for cap in some(range(1, max(spent) + 1)):
        theirs = utils.restricted_mean_survival_time(lifelines.KaplanMeierFitter().fit(spent, hits), t=cap)
        assert curve.mean_attempts(cap) == pytest.approx(float(theirs), abs=1e-9)


def test_without_censoring_the_curve_is_the_share_that_succeeded() -> None:
    curve = attempts.success_within_k([1, 1, 2, 5, 5], [1, 1, 1, 0, 0])
    assert [curve.within(k).value for k in range(1, 6)] == pytest.approx([0.4, 0.6, 0.6, 0.6, 0.6])


def test_where_everybody_succeeds_the_lower_limit_is_exact() -> None:
    estimate = attempts.success_within_k([1] * 12, [1] * 12).within(1)
    theirs = stats.binomtest(12, 12, alternative="greater").proportion_ci(0.95)
    assert limits(estimate) == pytest.approx((theirs.low, 1.0))
    assert attempts.success_within_k([1, 2, 3, 3], [1, 1, 1, 1]).within(3).low == pytest.approx(0.05 ** (1 / 4))


def test_where_the_last_entries_succeed_after_censoring_the_lower_limit_does_not_fall() -> None:
    curve = attempts.success_within_k([1, 1, 2, 3, 4], [1, 0, 1, 0, 1])
    assert curve.steps[-1].survival == 0
    assert curve.steps[-1].estimate.low == curve.steps[-2].estimate.low
    assert curve.steps[-1].standard_error is None
    assert curve.within(9).value == 1


def test_before_the_first_success_the_bound_counts_those_who_came_so_far() -> None:
    curve = attempts.success_within_k([1, 3, 3, 3], [0, 0, 0, 1])
    assert curve.within(1).high == pytest.approx(1 - 0.05 ** (1 / 4))
    assert curve.within(2) == zero_hits_upper(4)
    assert attempts.success_within_k([2, 4], [0, 0]).within(1) == zero_hits_upper(2)


def test_beyond_the_last_attempt_nothing_is_known() -> None:
    curve = attempts.success_within_k([2, 2, 3], [1, 0, 0])
    assert curve.within(4).value is None
    assert curve.mean_attempts(4) is not None
    assert curve.mean_attempts(5) is None
    assert curve.attempts_for(0.9).value is None


def test_an_entry_without_a_valid_attempt_was_never_at_risk() -> None:
    assert attempts.success_within_k([0, 0], [0, 0]).within(1).value is None
    assert attempts.success_within_k([], []).mean_attempts(1) is None
    assert attempts.success_within_k([1, 0], [1, 0]).left_out == 1
    assert attempts.logrank([0, 1], [0, 1], [0, 2], [0, 1]) == attempts.logrank([1], [1], [2], [1])


def test_two_attacks_without_a_success_cannot_be_compared() -> None:
    assert attempts.logrank([3, 3], [0, 0], [3], [0]) == attempts.LogRank(None, None, None)
    assert attempts.logrank([], [], [1], [1]) == attempts.LogRank(None, None, None)


# Comparisons


@given(small_counts, small_counts)
def test_mcnemar_equals_statsmodels(b: int, c: int) -> None:
    tables = oracle("statsmodels.stats.contingency_tables")
    mine = comparison.mcnemar(b, c)
    assert mine.p == pytest.approx(tables.mcnemar([[0, b], [c, 0]], exact=True).pvalue, abs=1e-10)
    point = stats.binom.pmf(min(b, c), b + c, 0.5) if b + c else 0
    assert mine.mid_p == pytest.approx(min(1, 2 * stats.binom.cdf(min(b, c), b + c, 0.5) - point), abs=1e-10)


def forced_pair_score(b: int, c: int, n: int, difference: float) -> float:
    """Return Tango's score with the share of B-only entries found by maximising the trinomial likelihood."""

    def unlikely(q: float) -> float:
        cells = (b, q + difference), (c, q), (n - b - c, 1 - 2 * q - difference)
        return -sum(float(special.xlogy(count, share)) for count, share in cells)

    least, most = max(0.0, -difference), (1 - difference) / 2
    q = optimize.minimize_scalar(unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    return float((b - c - n * difference) / math.sqrt(n * (2 * q + difference * (1 - difference))))


@pytest.mark.parametrize("counts", [(8, 2, 50), (3, 9, 60), (40, 20, 160), (1, 4, 12), (5, 6, 11)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_at_tangos_limits_the_forced_score_is_the_critical_value(counts: tuple[int, int, int], level: float) -> None:
    low, high = limits(comparison.tango(*counts, level=level))
    assert forced_pair_score(*counts, low) == pytest.approx(critical_value(level), abs=1e-4)
    assert forced_pair_score(*counts, high) == pytest.approx(-critical_value(level), abs=1e-4)


def forced_rates(k1: int, n1: int, k2: int, n2: int, difference: float) -> tuple[float, float]:
    """Return the likeliest rates that differ by `difference`, by maximising the likelihood."""

    def unlikely(p: float) -> float:
        pairs = (k1, p + difference), (n1 - k1, 1 - p - difference), (k2, p), (n2 - k2, 1 - p)
        return -sum(float(special.xlogy(count, share)) for count, share in pairs)

    least, most = max(0.0, -difference), min(1.0, 1 - difference)
    p = optimize.minimize_scalar(unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    return float(p + difference), float(p)


def test_restricted_rates_equal_the_forced_likelihood() -> None:
    for rng in drawn(7, 200):
        n1, n2 = rng.randint(1, 80), rng.randint(1, 80)
        counts = rng.randint(0, n1), n1, rng.randint(0, n2), n2
        difference = rng.uniform(-0.95, 0.95)
        mine = comparison.restricted_rates(*counts, difference)
        assert mine == pytest.approx(forced_rates(*counts, difference), abs=2e-5)


@pytest.mark.parametrize("counts", [(56, 70, 48, 80), (30, 100, 18, 100), (5, 50, 0, 50), (9, 10, 3, 10), (1, 4, 3, 9)])
def test_at_the_score_limits_the_forced_score_is_the_critical_value(counts: tuple[int, int, int, int]) -> None:
    k1, n1, k2, n2 = counts
    inflation = (n1 + n2) / (n1 + n2 - 1)
    for function, factor in ((comparison.miettinen_nurminen, inflation), (comparison.farrington_manning, 1.0)):
        for limit, wanted in zip(limits(function(*counts)), (critical_value(0.95), -critical_value(0.95)), strict=True):
            p1, p2 = forced_rates(*counts, limit)
            variance = (p1 * (1 - p1) / n1 + p2 * (1 - p2) / n2) * factor
            assert (k1 / n1 - k2 / n2 - limit) / math.sqrt(variance) == pytest.approx(wanted, abs=1e-3)


def random_pair(rng: random.Random) -> tuple[int, int, int, int]:
    n1, n2 = rng.randint(2, 150), rng.randint(2, 150)
    return rng.randint(0, n1), n1, rng.randint(0, n2), n2


def test_newcombes_unpaired_interval_equals_statsmodels() -> None:
    smp = oracle("statsmodels.stats.proportion")
    for rng in drawn(8, 50):
        counts = random_pair(rng)
        theirs = smp.confint_proportions_2indep(*counts, compare="diff", method="newcomb")
        assert limits(comparison.newcombe(*counts)) == pytest.approx(theirs, abs=1e-9)


def test_the_ratio_of_rates_equals_statsmodels() -> None:
    smp = oracle("statsmodels.stats.proportion")
    for rng in drawn(9, 20):
        k1, n1, k2, n2 = random_pair(rng)
        if not (0 < k1 < n1 and 0 < k2 < n2):
            continue
        theirs = smp.confint_proportions_2indep(k1, n1, k2, n2, compare="ratio", method="score", correction=True)
        assert limits(comparison.risk_ratio(k1, n1, k2, n2)) == pytest.approx(theirs, rel=1e-4)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 400))
def test_fishers_test_equals_scipy(a: int, b: int, c: int, d: int) -> None:
    theirs = stats.fisher_exact([[a, b], [c, d]]).pvalue
    assert comparison.fisher_exact(a, a + b, c, c + d) == pytest.approx(theirs, rel=1e-6, abs=1e-100)


@pytest.mark.parametrize(("k", "n", "total"), [(48, 2219, 74), (878, 910, 1564), (1210, 2957, 1874), (3, 10, 10)])
def test_between_equal_samples_both_tails_of_fishers_test_are_alike(k: int, n: int, total: int) -> None:
    tail = min(stats.hypergeom.cdf(k, 2 * n, total, n), stats.hypergeom.sf(k - 1, 2 * n, total, n))
    assert comparison.fisher_exact(k, n, total - k, n) == pytest.approx(2 * tail, rel=1e-8)


def test_cochrans_q_equals_statsmodels() -> None:
    tables = oracle("statsmodels.stats.contingency_tables")
    for rng in drawn(10, 20):
        targets = [[int(rng.random() < 0.2 + 0.1 * t) for _ in range(30)] for t in range(rng.randint(2, 6))]
        theirs = tables.cochrans_q(np.array(targets).T)
        mine = comparison.cochran_q(targets)
        assert (mine.statistic, mine.p) == pytest.approx((theirs.statistic, theirs.pvalue), abs=1e-9)


def test_cohens_h_equals_statsmodels() -> None:
    smp = oracle("statsmodels.stats.proportion")
    for a, b in itertools.product([0.0, 0.1, 0.5, 1.0], repeat=2):
        assert comparison.cohen_h(a, b) == pytest.approx(smp.proportion_effectsize(a, b), abs=1e-12)


# Many tests


@settings(max_examples=20)  # statsmodels takes its time
@given(st.lists(st.floats(0, 1) | st.none(), max_size=40))
def test_adjustments_equal_statsmodels_and_leave_gaps_where_they_are(p_values: list[float | None]) -> None:
    multitest = oracle("statsmodels.stats.multitest")
    tests = [p for p in p_values if p is not None]
    for adjust, name in (
        (comparison.holm, "holm"),
        (comparison.benjamini_hochberg, "fdr_bh"),
        (comparison.benjamini_yekutieli, "fdr_by"),
        (comparison.bonferroni, "bonferroni"),
    ):
        mine = adjust(p_values)
        assert [p is None for p in mine] == [p is None for p in p_values]
        with mock.patch("gc.collect"):  # which statsmodels calls each time, and which takes a second among many tests
            theirs = multitest.multipletests(tests, method=name)[1] if tests else []
        assert [p for p in mine if p is not None] == pytest.approx(list(theirs), abs=1e-12)
        assert adjust([math.nan, *p_values]) == (None, *mine)


# Plans


def test_entries_for_two_rates_equal_statsmodels() -> None:
    power = oracle("statsmodels.stats.power")
    for rng in drawn(11, 15):
        a, b = rng.uniform(0.02, 0.9), rng.uniform(0.02, 0.9)
        asked = {"power": rng.choice([0.7, 0.8, 0.9]), "alpha": rng.choice([0.01, 0.05])}
        theirs = power.NormalIndPower().solve_power(comparison.cohen_h(a, b), **asked)
        assert planning.sample_size_unpaired(a, b, method="arcsine", **asked).n == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("discordant", "difference"), [(0.2, 0.1), (0.3, 0.15), (0.5, 0.2)])
def test_the_planned_pairs_have_the_planned_power(discordant: float, difference: float) -> None:
    """The power of McNemar's z test is summed over all tables."""
    n = planning.sample_size_paired(discordant, difference).entries
    share = (discordant + difference) / 2 / discordant
    power = 0.0
    for differing in range(1, n + 1):
        b = np.arange(differing + 1)
        finds = np.abs(2 * b - differing) / math.sqrt(differing) > critical_value(0.95)
        power += stats.binom.pmf(differing, n, discordant) * stats.binom.pmf(b, differing, share)[finds].sum()
    assert power == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("base", [0.05, 0.2, 0.5])
def test_the_planned_entries_have_the_planned_power(base: float) -> None:
    """The power of the pooled z test is summed over all pairs of counts."""
    n = planning.sample_size_unpaired(base, base + 0.08).entries
    k = np.arange(n + 1)
    a, b = np.meshgrid(k, k)
    pooled = (a + b) / (2 * n)
    error = np.sqrt(np.maximum(2 * pooled * (1 - pooled) / n, 1e-300))
    finds = np.abs(a - b) / n / error > critical_value(0.95)
    masses = np.outer(stats.binom.pmf(k, n, base), stats.binom.pmf(k, n, base + 0.08))
    assert masses[finds].sum() == pytest.approx(0.8, abs=0.03)


@given(st.integers(30, 5000), st.floats(0.05, 0.9), st.sampled_from([0.6, 0.8, 0.95]))
def test_what_pairs_detect_needs_as_many_pairs(n: int, discordant: float, power: float) -> None:
    least = planning.minimum_detectable(n, discordant=discordant, power=power)
    if least is not None:
        assert planning.sample_size_paired(discordant, least, power=power).n == pytest.approx(n, rel=1e-9)


@given(st.integers(5, 5000), st.floats(0, 0.95), st.sampled_from([0.3, 0.8, 0.95]))
def test_what_entries_detect_fulfils_its_equation(n: int, base: float, power: float) -> None:
    rise = planning.minimum_detectable(n, base=base, power=power)
    if rise is not None:
        raised, beta = base + rise, stats.norm.ppf(power)
        spread = max(base * (1 - base) + raised * (1 - raised), 0.0)
        needed = critical_value(0.95) * math.sqrt(2 * base * (1 - base)) + beta * math.sqrt(spread)
        assert rise * math.sqrt(n) == pytest.approx(needed, abs=1e-7)


@given(st.floats(0, 1), st.floats(0.005, 0.3), levels)
def test_the_planned_width_is_that_of_wilsons_interval(rate: float, half_width: float, level: float) -> None:
    smp = oracle("statsmodels.stats.proportion")
    n = planning.sample_size_half_width(rate, half_width, level=level).n
    low, high = smp.proportion_confint(rate * n, n, 1 - level, "wilson")
    assert (high - low) / 2 == pytest.approx(half_width, abs=1e-7)


@given(st.floats(0.001, 0.5), levels)
def test_so_many_clean_entries_suffice_and_one_fewer_does_not(target: float, level: float) -> None:
    n = planning.sample_size_zero_hits(target, level=level).entries
    assert known(zero_hits_upper(n, level=level).high) <= target + 1e-9
    assert n == 1 or known(zero_hits_upper(n - 1, level=level).high) > target


@pytest.mark.parametrize("discordant", [0.15, 0.3])
def test_the_planned_entries_pass_an_equal_system_as_often_as_planned(discordant: float) -> None:
    n = planning.sample_size_non_inferiority(0.08, discordant=discordant).entries
    passes = 0.0
    for differing in range(n + 1):
        mass = stats.binom.pmf(differing, n, discordant)
        if mass > 1e-9:
            finds = [
                comparison.tango_score(b, differing - b, n, 0.08) < -critical_value(0.9) for b in range(differing + 1)
            ]
            passes += mass * stats.binom.pmf(np.arange(differing + 1), differing, 0.5)[finds].sum()
    assert passes == pytest.approx(0.8, abs=0.04)


def test_a_higher_rate_needs_more_entries_to_be_shown_within_the_margin() -> None:
    z = stats.norm.ppf(0.95) + stats.norm.ppf(0.8)
    paired = planning.sample_size_non_inferiority(0.1, discordant=0.3, difference=0.05)
    assert paired.n == pytest.approx(z**2 * (0.3 - 0.05**2) / 0.05**2)
    unpaired = planning.sample_size_non_inferiority(0.1, base=0.2, difference=0.05)
    assert unpaired.n == pytest.approx(z**2 * (0.2 * 0.8 + 0.25 * 0.75) / 0.05**2)


def test_families_multiply_every_plan() -> None:
    families = {"family_size": 5, "icc": 0.25}
    assert planning.design_effect(5, 0.25) == 2
    plans: list[Callable[..., planning.SampleSize]] = [
        lambda **more: planning.sample_size_paired(0.2, 0.1, **more),
        lambda **more: planning.sample_size_unpaired(0.2, 0.3, **more),
        lambda **more: planning.sample_size_half_width(0.2, 0.05, **more),
        lambda **more: planning.sample_size_zero_hits(0.01, **more),
        lambda **more: planning.sample_size_non_inferiority(0.05, base=0.2, **more),
    ]
    for plan in plans:
        assert plan(**families).n == pytest.approx(2 * plan().n)
    least = planning.minimum_detectable(100, base=0.2)
    assert planning.minimum_detectable(200, base=0.2, **families) == pytest.approx(least)


# Slices


def test_the_prior_of_slices_equals_scipys_likelihood_maximised() -> None:
    for rng in drawn(12, 12):
        n = [rng.randint(3, 60) for _ in range(rng.randint(5, 20))]
        k = [sum(rng.random() < rate for _ in range(m)) for m, rate in ((m, rng.betavariate(1.5, 4)) for m in n)]
        fit = slices.empirical_bayes(k, n)
        if fit.prior is None:
            continue

        def unlikely(logs: Any, k: list[int] = k, n: list[int] = n) -> float:
            return -float(stats.betabinom.logpmf(k, n, *np.exp(np.clip(logs, -9, 12))).sum())

        starts = [(0.0, 1.0), (1.0, 2.0), (3.0, 4.0), (-1.0, 0.0)]
        best = min((optimize.minimize(unlikely, start, method="Nelder-Mead") for start in starts), key=lambda r: r.fun)
        assert fit.prior.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
        assert fit.prior.log_likelihood >= -best.fun - 1e-9
        for k_i, n_i, one in zip(k, n, fit.slices, strict=True):
            a, b = np.exp(best.x)
            assert one.value == pytest.approx((a + k_i) / (a + b + n_i), abs=2e-3)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25))
def test_slices_of_any_shape_have_a_rate_between_their_own_and_the_common_one(raw: list[tuple[int, int]]) -> None:
    k, n = [hits for hits, _ in raw], [hits + misses for hits, misses in raw]
    fit = slices.empirical_bayes(k, n)
    tests = slices.slices_against_rest(k, n)
    for k_i, n_i, one, test in zip(k, n, fit.slices, tests, strict=True):
        if n_i == 0:
            assert one.value is None and test.p is None and not test.stands_out
            continue
        low, high = limits(one)
        assert 0 <= low <= known(one.value) <= high <= 1
        if fit.prior:
            between = sorted([k_i / n_i, fit.prior.mean])
            assert between[0] - 1e-9 <= known(one.value) <= between[1] + 1e-9


@pytest.mark.parametrize(
    ("k", "n", "status"),
    [
        ([2, 1, 3, 2, 2, 2, 1, 3, 2, 2], [10] * 10, "pooled"),
        ([0] * 8, [5] * 8, "pooled"),
        ([5] * 8, [5] * 8, "pooled"),
        ([0, 10, 0, 10, 10, 0], [10] * 6, "apart"),
        ([1, 4], [5, 5], "few"),
        ([], [], "few"),
        # Here the likelihood has a peak, a valley, and rises again towards no spread at all.
        ([2, 0, 2, 1, 3, 0, 5, 0, 0, 15], [3, 1, 3, 2, 10, 1, 5, 1, 3, 30], "shrunk"),
        ([9, 6, 5, 0, 1, 0], [10, 12, 20, 10, 30, 15], "shrunk"),
    ],
)
def test_slices_say_why_their_rates_are_what_they_are(k: list[int], n: list[int], status: str) -> None:
    assert slices.empirical_bayes(k, n).status == status


def test_slices_that_are_tested_equal_scipy() -> None:
    k, n = [9, 6, 5, 0], [10, 12, 20, 15]
    tests = slices.adjust_together(slices.slices_against_rest(k, n))
    theirs = [
        stats.fisher_exact([[k_i, n_i - k_i], [sum(k) - k_i, sum(n) - n_i - sum(k) + k_i]]).pvalue
        for k_i, n_i in zip(k, n, strict=True)
    ]
    assert [test.p for test in tests] == pytest.approx(theirs)
    assert [test.adjusted_p for test in tests] == pytest.approx(list(stats.false_discovery_control(theirs)))
    assert [test.stands_out for test in tests] == [True, False, False, True]
    assert tests[0].difference == pytest.approx(9 / 10 - 11 / 47)


def test_an_only_slice_has_no_rest() -> None:
    assert slices.slices_against_rest([3, 0], [9, 0]) == (AgainstRest(None, None),) * 2


# Gates


@given(small_counts, small_counts, st.integers(1, 60), st.sampled_from([0.0, 0.02, 0.05, 0.2]))
def test_a_gate_opens_exactly_where_its_test_rejects(b: int, c: int, others: int, margin: float) -> None:
    paired = gates.non_inferiority_paired(b, c, b + c + others, margin)
    unpaired = gates.non_inferiority_unpaired(b, b + others, c, c + others, margin)
    for gate in (paired, unpaired):
        assert gate.p is not None and gate.z is not None
        assert gate.p == pytest.approx(stats.norm.cdf(gate.z))
        if abs(gate.p - 0.05) > 1e-9 and abs(gate.p - 0.95) > 1e-9:
            assert (gate.verdict == "non_inferior") == (gate.p < 0.05)
            assert (gate.verdict == "inferior") == (gate.p > 0.95)


def test_a_system_may_be_within_the_margin_and_yet_shown_to_be_worse() -> None:
    gate = gates.non_inferiority_paired(14, 2, 1000, 0.05)
    assert (gate.verdict, gate.shown_worse) == ("non_inferior", True)
    assert gates.non_inferiority_paired(40, 1, 100, 0.05).verdict == "inferior"


@given(small_counts, small_counts, st.floats(0.01, 0.99))
def test_the_evidence_against_a_rate_equals_scipy(successes: int, failures: int, p0: float) -> None:
    mixture = special.betaln(successes + 0.5, failures + 0.5) - special.betaln(0.5, 0.5)
    theirs = mixture - stats.binom.logpmf(successes, successes + failures, p0)
    theirs += math.log(math.comb(successes + failures, successes))
    assert gates.log_e_value(successes, failures, p0) == pytest.approx(theirs, abs=1e-8)


def test_evidence_at_the_ends_is_certain_or_finite() -> None:
    assert gates.log_e_value(1, 5, 0.0) == math.inf
    assert gates.log_e_value(5, 1, 1.0) == math.inf
    assert math.isfinite(gates.log_e_value(0, 5, 0.0))
    assert math.isfinite(gates.log_e_value(5, 0, 1.0))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_looking_after_every_outcome_rejects_the_truth_at_most_once_in_twenty(rate: float) -> None:
    """The chance that the evidence ever reaches 20 within 300 outcomes is summed over all paths."""
    alive, rejected = {0: 1.0}, 0.0
    for seen in range(1, 301):
        following: dict[int, float] = {}
        for hits, mass in alive.items():
            for more, chance in ((1, rate), (0, 1 - rate)):
                following[hits + more] = following.get(hits + more, 0.0) + mass * chance
        alive = {k: mass for k, mass in following.items() if gates.log_e_value(k, seen - k, rate) < math.log(20)}
        rejected = 1 - math.fsum(alive.values())
        alive = {k: mass for k, mass in alive.items() if mass > 1e-15}
    assert 0 < rejected <= 0.05


@pytest.mark.parametrize(("rate", "wrong", "most"), [(0.05, "accept_H1", 0.05), (0.15, "accept_H0", 0.10)])
def test_walds_test_errs_about_as_rarely_as_asked(rate: float, wrong: str, most: float) -> None:
    """The chance of a wrong decision within 300 outcomes is summed over all paths."""
    bounds = gates.sprt([], 0.05, 0.15)
    gain, loss = math.log(3), math.log(0.85 / 0.95)
    alive, erred = {0: 1.0}, 0.0
    for seen in range(1, 301):
        following: dict[int, float] = {}
        for hits, mass in alive.items():
            for more, chance in ((1, rate), (0, 1 - rate)):
                following[hits + more] = following.get(hits + more, 0.0) + mass * chance
        alive = {}
        for hits, mass in following.items():
            ratio = hits * gain + (seen - hits) * loss
            if bounds.lower < ratio < bounds.upper:
                alive[hits] = mass
            elif (ratio >= bounds.upper) == (wrong == "accept_H1"):
                erred += mass
    assert 0 < erred <= most * 1.06


def test_walds_test_keeps_the_first_decision() -> None:
    result = gates.sprt([1, 1, 1, 0, 0, 0, 0], 0.05, 0.15)
    assert (result.decided_at, result.decision) == (3, "accept_H1")
    assert len(result.log_ratios) == 7


# What is undefined, and what is refused


@pytest.mark.parametrize(
    "estimate",
    [
        clopper_pearson(0, 0),
        jeffreys(0, 0),
        zero_hits_upper(0),
        clusters.cluster_wilson([], []).estimate,
        clusters.cluster_wilson([0, 0], [0, 0]).estimate,
        clusters.cluster_bootstrap([], []),
        clusters.cluster_bootstrap_difference([], [], []),
        attempts.mean_pass_at_k([], 1).estimate,
        attempts.mean_pass_hat_k([(2, 1)], 3).estimate,
        attempts.success_within_k([], []).within(1),
        comparison.tango(0, 0, 0),
        comparison.newcombe_paired(0, 0, 0, 0),
        comparison.newcombe(0, 0, 1, 2),
        comparison.miettinen_nurminen(1, 2, 0, 0),
        comparison.farrington_manning(0, 0, 0, 0),
        comparison.risk_ratio(0, 0, 1, 1),
        gates.confidence_sequence(0, 0),
        gates.non_inferiority_paired(0, 0, 0, 0.1).difference,
        gates.non_inferiority_unpaired(0, 0, 0, 0, 0.1).difference,
        slices.BetaPrior(1, 1, 0).estimate(0, 0),
    ],
)
def test_nothing_out_of_nothing_is_undefined_not_zero(estimate: Estimate) -> None:
    assert (estimate.value, estimate.low, estimate.high) == (None, None, None)


def test_one_family_or_one_entry_has_a_value_and_no_interval() -> None:
    for estimate in (
        clusters.cluster_wilson([3], [4]).estimate,
        clusters.cluster_bootstrap([3], [4]),
        attempts.mean_of_shares([0.75]).estimate,
    ):
        assert (estimate.value, estimate.low, estimate.high) == (0.75, None, None)
    assert clusters.family_correlation([3], [4]) is None
    assert clusters.family_correlation([1, 0], [1, 1]) is None
    assert clusters.family_correlation([0, 0], [3, 3]) is None


def test_a_gate_without_an_entry_shows_nothing() -> None:
    gate = gates.non_inferiority_paired(0, 0, 0, 0.1)
    assert (gate.z, gate.p, gate.verdict, gate.shown_worse) == (None, None, "not_shown", False)


def test_some_differences_cannot_be_detected_by_so_few_entries() -> None:
    assert planning.minimum_detectable(3, base=0.9) is None
    assert planning.minimum_detectable(2, discordant=0.1) is None
    assert planning.minimum_detectable(50, base=1.0) is None


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: wilson(2.5, 10), "not a proportion"),  # type: ignore[arg-type]
        (lambda: clopper_pearson(6, 5), "not a proportion"),
        (lambda: jeffreys(-1, 5), "not a proportion"),
        (lambda: jeffreys(1, 5, level=1), "confidence level"),
        (lambda: zero_hits_upper(-1), "not a proportion"),
        (lambda: ours.beta_quantile(0.5, 0, 1), "no quantile"),
        (lambda: distributions.student_critical_value(0.95, 0), "degree of freedom"),
        (lambda: clusters.cluster_wilson([1], [1, 2]), "every family"),
        (lambda: clusters.cluster_wilson([3], [2]), "not a proportion"),
        (lambda: clusters.cluster_bootstrap([1], [2], replicates=0), "at least one replicate"),
        (lambda: clusters.cluster_bootstrap_difference([2], [1], [2]), "not a proportion"),
        (lambda: clusters.cluster_bootstrap_difference([2], [-1], [2]), "cannot have -1 units"),
        (lambda: attempts.pass_at_k(5, 6, 1), "not a proportion"),
        (lambda: attempts.pass_hat_k(5, 2, 0), "counted from 1"),
        (lambda: attempts.any_of_k(1.5, 2), "a rate lies between"),
        (lambda: attempts.all_of_k(0.5, 0), "counted from 1"),
        (lambda: attempts.mean_of_shares([1.5]), "a share lies between"),
        (lambda: attempts.success_within_k([1], []), "every entry"),
        (lambda: attempts.success_within_k([-1], [0]), "not a number of attempts"),
        (lambda: attempts.success_within_k([0], [1]), "before its first attempt"),
        (lambda: attempts.success_within_k([1], [1]).within(0), "counted from 1"),
        (lambda: attempts.success_within_k([1], [1]).mean_attempts(0), "counted from 1"),
        (lambda: attempts.success_within_k([1], [1]).attempts_for(1), "strictly between"),
        (lambda: comparison.mcnemar(-1, 2), "none of them negative"),
        (lambda: comparison.tango(3, 3, 5), "cannot differ"),
        (lambda: comparison.cochran_q([[1, 0]]), "at least two targets"),
        (lambda: comparison.cochran_q([[1, 0], [1]]), "same entries"),
        (lambda: comparison.cochran_q([[1, 2], [1, 0]]), "a success or a failure"),
        (lambda: comparison.cohen_h(0.5, 2), "a rate lies between"),
        (lambda: comparison.holm([0.5, 1.5]), "p-value lies between"),
        (lambda: planning.design_effect(0, 0.1), "at least one variant"),
        (lambda: planning.design_effect(2, 1.1), "correlation within families"),
        (lambda: planning.sample_size_in_families(-1, 2, 0.1), "not a number of entries"),
        (lambda: planning.sample_size_paired(0.1, 0.2), "at most the share"),
        (lambda: planning.sample_size_paired(0.1, 0.0), "not 0"),
        (lambda: planning.sample_size_unpaired(0.2, 0.2), "can distinguish two equal rates"),
        (lambda: planning.sample_size_unpaired(0.2, 1.2), "a rate lies between"),
        (lambda: planning.sample_size_unpaired(0.2, 0.3, power=0.01), "a power lies"),
        (lambda: planning.sample_size_unpaired(0.2, 0.3, alpha=0), "level of a test"),
        (lambda: planning.minimum_detectable(10), "give the base rate"),
        (lambda: planning.minimum_detectable(0, base=0.2), "can show nothing"),
        (lambda: planning.sample_size_half_width(0.2, 0.6), "half-width"),
        (lambda: planning.sample_size_zero_hits(0), "strictly between"),
        (lambda: planning.sample_size_non_inferiority(0.05), "give the base rate"),
        (lambda: planning.sample_size_non_inferiority(0.05, base=0.2, difference=0.05), "reaches the margin"),
        (lambda: planning.sample_size_non_inferiority(0.5, discordant=0.1, difference=0.2), "at most the share"),
        (lambda: slices.empirical_bayes([1], [1, 2]), "every slice"),
        (lambda: slices.slices_against_rest([3], [2]), "not a proportion"),
        (lambda: gates.non_inferiority_paired(1, 1, 9, -0.1), "a margin"),
        (lambda: gates.non_inferiority_unpaired(1, 9, 1, 9, 0.1, alpha=0.5), "one-sided level"),
        (lambda: gates.sprt([1], 0.2, 0.1), "the first below the second"),
        (lambda: gates.sprt([1], 0.1, 0.2, alpha=0.6, beta=0.5), "together below 1"),
        (lambda: gates.sprt([2], 0.1, 0.2), "a success or a failure"),
        (lambda: gates.log_e_value(1, 1, 1.5), "a rate lies between"),
        (lambda: gates.confidence_sequence(-1, 3), "not a proportion"),
    ],
)
def test_impossible_input_is_refused_in_a_sentence(call: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        call()


# What it costs


def test_what_a_report_shows_by_default_needs_neither_numpy_nor_scipy() -> None:
    script = """
import sys
from faircount.stats import attempts, clusters, comparison, gates, planning, proportion, slices
clusters.cluster_wilson([1, 0, 2], [2, 3, 4])
clusters.family_correlation([1, 0, 2], [2, 3, 4])
attempts.success_within_k([1, 2, 3], [1, 1, 0]).attempts_for(0.5)
attempts.mean_pass_at_k([(3, 1), (3, 2)], 2)
attempts.logrank([1, 2], [1, 0], [2, 3], [1, 1])
slices.empirical_bayes([9, 6, 5, 0, 1, 0], [10, 12, 20, 10, 30, 15])
slices.slices_against_rest([9, 6], [10, 12])
proportion.clopper_pearson(1, 9)
comparison.tango(3, 1, 20)
comparison.miettinen_nurminen(3, 10, 1, 20)
planning.minimum_detectable(100, base=0.2)
gates.non_inferiority_paired(1, 2, 30, 0.1)
comparison.holm([0.1, 0.2])
print([name for name in ("numpy", "scipy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_curve_from_counts_is_the_curve_of_the_entries() -> None:
    spent, success = [1, 1, 2, 3, 3, 4, 5, 5, 2, 0], [1, 1, 1, 1, 0, 1, 0, 0, 0, 0]
    pairs = Counter(zip(spent, success, strict=True))
    counted = [(k, bool(hit), times) for (k, hit), times in pairs.items()]
    assert attempts.success_within_counts(counted) == attempts.success_within_k(spent, success)
    with pytest.raises(ValueError, match="number of entries"):
        attempts.success_within_counts([(1, True, -1)])
    with pytest.raises(ValueError, match="before its first attempt"):
        attempts.success_within_counts([(0, True, 1)])


def test_the_order_of_families_does_not_change_a_digit() -> None:
    draw = random.Random(5)
    sizes = [draw.randint(1, 40) for _ in range(60)]
    successes = [draw.randint(0, size) for size in sizes]
    found = []
    for _ in range(4):
        clusters._expected_correlation.cache_clear()
        found.append((clusters.cluster_wilson(successes, sizes), clusters.expected_correlation(successes, sizes)))
        order = draw.sample(range(60), 60)
        successes, sizes = [successes[place] for place in order], [sizes[place] for place in order]
    assert found == [found[0]] * 4
