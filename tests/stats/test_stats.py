"""Every interval is checked against somebody else: scipy, scikit-learn, published values, or a brute-force draw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from faircount.stats import (
    confusion_estimates,
    counts_from_shares,
    critical_value,
    f1_bootstrap,
    undefined,
    wilson,
)
from faircount.stats.detector_bootstrap import _Binomial

proportions = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@given(proportions, levels)
def test_wilson_equals_scipy(case: tuple[int, int], level: float) -> None:
    successes, n = case
    ours = wilson(successes, n, level=level)
    theirs = binomtest(successes, n).proportion_ci(level, method="wilson")
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)
    assert ours.value == successes / n


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_newcombes_published_limits(successes: int, n: int, low: float, high: float) -> None:
    estimate = wilson(successes, n)
    assert (round(estimate.low or 0, 4), round(estimate.high or 0, 4)) == (low, high)


@given(proportions, levels)
def test_wilson_is_ordered_and_symmetric(case: tuple[int, int], level: float) -> None:
    successes, n = case
    estimate, mirrored = wilson(successes, n, level=level), wilson(n - successes, n, level=level)
    assert estimate.low is not None and estimate.high is not None and estimate.value is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.low == pytest.approx(1 - (mirrored.high or 0), abs=1e-12)


def test_nothing_out_of_nothing_is_undefined_not_zero() -> None:
    assert wilson(0, 0) == undefined("entry")
    assert wilson(0, 0).value is None


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5)])
def test_what_is_no_proportion_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        wilson(successes, n)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95])
def test_a_level_outside_of_zero_and_one_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="confidence level"):
        critical_value(level)


def test_confusion_estimates_equal_scikit_learn() -> None:
    tp, fn, tn, fp = 40, 20, 30, 10
    truth = [1] * (tp + fn) + [0] * (tn + fp)
    said = [1] * tp + [0] * fn + [0] * tn + [1] * fp
    ours = confusion_estimates(tp, fn, tn, fp)
    assert ours.precision.value == pytest.approx(precision_score(truth, said))
    assert ours.recall.value == pytest.approx(recall_score(truth, said))
    assert ours.f1.value == pytest.approx(f1_score(truth, said))
    assert ours.accuracy.value == pytest.approx(accuracy_score(truth, said))


def test_what_has_no_denominator_is_undefined() -> None:
    nothing_blocked = confusion_estimates(0, 10, 40, 0)
    assert nothing_blocked.precision.value is None
    assert nothing_blocked.recall.value == 0
    assert nothing_blocked.f1.value == 0
    assert confusion_estimates(0, 0, 50, 0).f1.value is None


def brute_force_percentiles(tp: int, fn: int, tn: int, fp: int, level: float) -> tuple[float, float]:
    """Enumerate the whole bootstrap distribution of F1 with scipy's binomials."""
    positives, negatives = tp + fn, tn + fp
    mass: dict[float, float] = {}
    for i in range(positives + 1):
        for j in range(negatives + 1):
            denominator = i + j + positives
            value = 2 * i / denominator if denominator else 0.0
            p = float(binom.pmf(i, positives, tp / positives) * binom.pmf(j, negatives, fp / negatives))
            mass[value] = mass.get(value, 0.0) + p
    limits, so_far = [], 0.0
    wanted = [(1 - level) / 2, (1 + level) / 2]
    for value in sorted(mass):
        so_far += mass[value]
        while wanted and so_far >= wanted[0] - 1e-12:
            limits.append(value)
            wanted.pop(0)
    return limits[0], limits[1]


@pytest.mark.parametrize("counts", [(40, 20, 30, 10), (8, 2, 48, 2), (3, 7, 89, 1), (25, 1, 20, 4), (1, 1, 1, 1)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_f1_limits_equal_the_enumerated_bootstrap(counts: tuple[int, int, int, int], level: float) -> None:
    estimate = f1_bootstrap(*counts, level=level)
    assert (estimate.low, estimate.high) == pytest.approx(brute_force_percentiles(*counts, level))


@given(st.tuples(*[st.integers(0, 400)] * 4))
def test_f1_lies_between_its_limits_or_is_undefined(counts: tuple[int, int, int, int]) -> None:
    tp, fn, tn, fp = counts
    estimate = f1_bootstrap(tp, fn, tn, fp)
    if 2 * tp + fn + fp == 0:
        assert estimate.value is None
    else:
        assert estimate.value is not None and estimate.low is not None and estimate.high is not None
        assert 0 <= estimate.low <= estimate.value + 1e-9
        assert estimate.value <= estimate.high + 1e-9 <= 1 + 1e-9


def test_f1_of_large_samples_is_quick_and_narrow() -> None:
    estimate = f1_bootstrap(900_000, 100_000, 5_000_000, 4_000_000)
    assert estimate.low is not None and estimate.high is not None
    assert estimate.high - estimate.low < 0.001


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        f1_bootstrap(-1, 0, 0, 5)


@pytest.mark.parametrize(("successes", "n"), [(1, 2), (1, 50), (3_000, 10_000), (999_000, 1_000_000), (0, 7), (7, 7)])
def test_the_bootstrap_window_loses_no_mass(successes: int, n: int) -> None:
    window = _Binomial.of(successes, n)
    counts = range(window.first, window.first + len(window.probabilities))
    assert window.first >= 0 and counts[-1] <= n
    assert float(binom.cdf(window.first - 1, n, successes / n) + binom.sf(counts[-1], n, successes / n)) < 1e-13
    assert window.probabilities == pytest.approx(binom.pmf(counts, n, successes / n), rel=1e-9)


@given(st.tuples(*[st.integers(0, 500)] * 4))
def test_counts_follow_from_the_shares_that_they_give_where_something_is_wrong(
    counts: tuple[int, int, int, int],
) -> None:
    tp, fn, tn, fp = counts
    n = sum(counts)
    if not tp or not fn + fp:
        return
    assert counts_from_shares(n, (tp + tn) / n, tp / (tp + fp), tp / (tp + fn)) == counts


def test_shares_that_no_counts_have_give_none() -> None:
    assert counts_from_shares(150, 1.0, 1.0, 1.0) is None, "nothing is wrong: the classes cannot be told apart"
    assert counts_from_shares(100, 0.905, 0.9, 0.9) is None, "an average over trials"
    assert counts_from_shares(0, 0.5, 0.5, 0.5) is None
