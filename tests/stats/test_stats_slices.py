"""Slices of extreme shapes: the short cuts of the fit, of beta quantiles and of Fisher's test agree with scipy."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from faircount.stats import comparison, slices
from faircount.stats import distributions as ours

logarithms = st.floats(-2, 6)


@given(st.lists(st.integers(0, 10**6) | st.integers(0, 40), min_size=1, max_size=9), st.floats(-3, 6))
def test_slopes_of_the_likelihood_equal_sums_of_digamma_and_trigamma(counts: list[int], log_x: float) -> None:
    x = 10**log_x
    slope, bend = slices._Rises(Counter(counts)).slopes(x)
    assert slope == pytest.approx(sum(special.psi(x + k) - special.psi(x) for k in counts), rel=1e-9, abs=1e-13)
    theirs = sum(special.polygamma(1, x) - special.polygamma(1, x + k) for k in counts)
    assert bend == pytest.approx(theirs, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("sizes", [(1, 6), (5, 100_000), (10_000, 1_000_000), (50, 50)])
@pytest.mark.parametrize("precision", [0.3, 5.0, 200.0, 30_000.0])
@pytest.mark.parametrize("mean", [0.002, 0.3, 0.9])
def test_the_prior_of_slices_is_where_no_step_is_likelier(
    sizes: tuple[int, int], precision: float, mean: float
) -> None:
    rng = np.random.default_rng(int(precision) + sizes[0])
    n = np.exp(rng.uniform(math.log(sizes[0]), math.log(sizes[1]), size=40)).astype(int) + 1
    k = rng.binomial(n, rng.beta(precision * mean, precision * (1 - mean), size=40))
    fit = slices.empirical_bayes(k.tolist(), n.tolist())
    assert fit.status in ("shrunk", "pooled", "apart")
    if fit.prior is None:
        return
    a, b = fit.prior.alpha, fit.prior.beta

    def height(a: float, b: float) -> float:
        return float(np.sum(special.betaln(a + k, b + n - k) - special.betaln(a, b)))

    step = 1e-2
    around = [height(a * x, b * y) for x in (1 - step, 1, 1 + step) for y in (1 - step, 1, 1 + step)]
    assert max(around) <= around[4] + 1e-6
    for k_i, n_i, one in zip(k.tolist(), n.tolist(), fit.slices, strict=True):
        limits = special.betaincinv(a + k_i, b + n_i - k_i, [0.025, 0.975])
        assert [one.low, one.high] == pytest.approx(limits, rel=1e-8, abs=1e-12)


@given(logarithms, logarithms, st.sampled_from([1e-6, 1e-3, 0.005, 0.025, 0.1, 0.3]))
def test_limits_of_the_beta_distribution_leave_the_tail_on_both_sides(log_a: float, log_b: float, tail: float) -> None:
    a, b = 10**log_a, 10**log_b
    low, high = ours.beta_limits(tail, a, b)
    assert low == ours.beta_quantile(tail, a, b)
    assert high == ours.beta_quantile(1 - tail, a, b)
    assert low == pytest.approx(special.betaincinv(a, b, tail), rel=1e-8, abs=1e-200)
    assert 1 - high == pytest.approx(special.betaincinv(b, a, tail), rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("tail", [0.0, 1.0, 1e-17])
def test_limits_without_a_tail_are_refused(tail: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        ours.beta_limits(tail, 1.0, 1.0)


def test_fishers_test_of_large_samples_equals_scipy() -> None:
    rng = random.Random(7)
    for _ in range(150):
        n_a, n_b = (int(10 ** rng.uniform(0, 5.5)) for _ in range(2))
        rate = 10 ** rng.uniform(-3, 0)
        spread = rng.choice([1, 3, 10]) * math.sqrt(n_a * rate * (1 - rate))
        a = min(max(round(n_a * rate + rng.gauss(0, 1) * spread), 0), n_a)
        b = min(round(n_b * rate), n_b)
        theirs = stats.fisher_exact([[a, n_a - a], [b, n_b - b]]).pvalue
        assert comparison.fisher_exact(a, n_a, b, n_b) == pytest.approx(theirs, rel=1e-9, abs=1e-290)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_fishers_test_equals_the_sum_over_all_tables(a: int, b: int, c: int, d: int) -> None:
    n, marked, total = a + b, a + c, a + b + c + d
    ways = [math.comb(marked, x) * math.comb(total - marked, n - x) for x in range(min(n, marked) + 1)]
    exact = sum(way for way in ways if way <= ways[a] * (1 + 1e-7)) / math.comb(total, n)
    assert comparison.fisher_exact(a, n, c, c + d) == pytest.approx(exact, rel=1e-10)
