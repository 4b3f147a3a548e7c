"""How entries hang together decides the interval: one rule for every rate, and tests inside families."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from faircount.stats import (
    Design,
    Stratum,
    balance_of,
    cluster_wilson,
    confusion_estimates,
    confusion_of_rates,
    difference_of_rates,
    exact_p_of_strata,
    fisher_exact,
    mcnemar,
    newcombe,
    sum_strata,
    tango,
    two_way_wilson,
    wilson,
)
from tests.oracles import in_strata, known, oracle

FAMILIES = Design(families=True)


@pytest.mark.parametrize(
    ("successes", "sizes"),
    [([1, 0, 1, 1], [1, 1, 1, 1]), ([7], [20]), ([7, 0], [20, 0])],
    ids=["single", "one", "empty"],
)
def test_where_families_make_no_difference_the_rate_is_the_plain_one(successes: list[int], sizes: list[int]) -> None:
    assert FAMILIES.rate(successes, sizes).estimate == wilson(sum(successes), sum(sizes))


def test_families_are_respected_only_where_the_design_says_so() -> None:
    successes, sizes = [3, 0, 4, 1], [4, 4, 4, 4]
    assert FAMILIES.rate(successes, sizes) == cluster_wilson(successes, sizes)
    assert Design().rate(successes, sizes).estimate == wilson(8, 16)
    assert FAMILIES.rate(successes, sizes, times=[2, 1, 1, 1]) == cluster_wilson([3, *successes], [4, *sizes])


def test_independent_pairs_have_tangos_interval_and_mcnemars_p() -> None:
    found = Design().paired([3, 5], [1, 0], [20, 30])
    assert found.estimate == tango(8, 1, 50) and found.p == mcnemar(8, 1).p
    assert known(FAMILIES.paired([3, 5, 2], [1, 0, 0], [20, 30, 9]).p) >= mcnemar(10, 1).p


def test_different_entries_over_families_combine_both_intervals() -> None:
    a, b = ([9, 2, 7, 8], [10] * 4), ([1, 0, 5, 2], [10] * 4)
    assert Design().unpaired(a, b).estimate == newcombe(26, 40, 8, 40)
    assert Design().unpaired(a, b).p == fisher_exact(26, 40, 8, 40)
    found = FAMILIES.unpaired(a, b)
    assert found.estimate == difference_of_rates(
        cluster_wilson(*a).estimate, cluster_wilson(*b).estimate, method="newcombe, families"
    )
    # At the level of its p-value the interval touches 0.
    limits = Design(families=True, level=1 - known(found.p)).unpaired(a, b).estimate
    assert min(abs(known(limits.low)), abs(known(limits.high))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_group_inside_families_is_tested_as_statsmodels_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strata, tables = [], []
    for _ in range(rng.integers(3, 12)):
        inside, outside = rng.integers(1, 9, 2)
        won, others = rng.binomial(inside, 0.5), rng.binomial(outside, 0.3)
        strata.append(Stratum(int(inside), int(won), int(inside + outside), int(won + others)))
        tables.append(np.array([[won, inside - won], [others, outside - others]], float))
    theirs = oracle("statsmodels.stats.contingency_tables").StratifiedTable(tables).test_null_odds(correction=True)
    found = in_strata(strata)
    expected = np.array([t[0].sum() * t[:, 0].sum() / t.sum() for t in tables])
    fewest = sum(max(0, t[:, 0].sum() - t[1].sum()) for t in tables)
    most = sum(min(t[0].sum(), t[:, 0].sum()) for t in tables)
    rough = min(expected.sum() - fewest, most - expected.sum()) < 5
    assert found.p == pytest.approx(exact_p_of_strata(strata) if rough else float(theirs.pvalue), abs=1e-9)
    sums = sum_strata(strata)
    assert sums.deviation == pytest.approx(sum(t[0, 0] for t in tables) - expected.sum())
    assert sums.deviation**2 / sums.variance == pytest.approx(
        oracle("statsmodels.stats.contingency_tables").StratifiedTable(tables).test_null_odds().statistic
    )
    weights = [t[0].sum() * t[1].sum() / t.sum() for t in tables]
    apart = [t[0, 0] / t[0].sum() - t[1, 0] / t[1].sum() for t in tables]
    assert found.difference == pytest.approx(np.average(apart, weights=weights))
    assert (found.families, found.above, found.below) == (
        len(tables),
        sum(difference > 0 for difference in apart),
        sum(difference < 0 for difference in apart),
    )


def test_nothing_can_be_told_where_no_family_has_two_groups_or_two_outcomes() -> None:
    assert in_strata([Stratum(8, 3, 8, 3), Stratum(4, 4, 9, 9), Stratum(1, 1, 1, 1)]).p is None


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_test_inside_families_adds_up_hypergeometric_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strata, masses, seen = [], np.ones(1), 0
    for _ in range(rng.integers(2, 7)):
        inside, outside = (int(count) for count in rng.integers(1, 9, 2))
        won, others = int(rng.binomial(inside, 0.5)), int(rng.binomial(outside, 0.3))
        times = int(rng.integers(1, 3))
        strata.append(Stratum(inside, won, inside + outside, won + others, times))
        one = scipy_stats.hypergeom(inside + outside, won + others, inside).pmf(np.arange(inside + 1))
        for _ in range(times):
            masses, seen = np.convolve(masses, one), seen + won
    expected = masses[masses <= masses[seen] * (1 + 1e-7)].sum()
    assert exact_p_of_strata(strata) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("counts", [(3, 9, 40, 900), (0, 12, 5, 20), (7, 7, 1, 60), (2, 4_000, 9, 100_000)])
def test_of_one_stratum_the_exact_test_is_fishers(counts: tuple[int, int, int, int]) -> None:
    won, inside, others, outside = counts
    stratum = Stratum(inside, won, inside + outside, won + others)
    assert exact_p_of_strata([stratum]) == pytest.approx(fisher_exact(*counts), rel=1e-6)


def test_the_chi_square_is_left_where_mantel_and_fleiss_say_that_it_is_rough() -> None:
    # Expected 4 of at most 8 successes; two such strata are enough.
    stratum = Stratum(8, 6, 16, 8)
    assert in_strata([stratum]).p == exact_p_of_strata([stratum])
    two = [stratum, stratum]
    assert in_strata(two).p == pytest.approx(scipy_stats.chi2.sf(3.5**2 / (2 * 16 / 15), 1))
    assert in_strata(two).p != exact_p_of_strata(two)
    assert exact_p_of_strata([Stratum(10_000, 5_100, 20_000, 10_000)]) is None


@pytest.mark.parametrize("seed", range(4))
def test_the_two_way_error_is_that_of_statsmodels(seed: int) -> None:
    generator = np.random.default_rng(seed)
    families, attacks = generator.integers(0, 9, 200), generator.integers(0, 6, 200)
    chances = generator.beta(1, 2, 9)[families] * generator.beta(3, 1, 6)[attacks]
    won = generator.random(200) < chances
    cells = [(f, a, int(w), 1) for f, a, w in zip(families.tolist(), attacks.tolist(), won.tolist(), strict=True)]
    merged: dict[tuple[int, int], list[int]] = {}
    for f, a, w, one in cells:
        cell = merged.setdefault((f, a), [0, 0])
        cell[0] += w
        cell[1] += one
    found = two_way_wilson([(f, a, w, n) for (f, a), (w, n) in merged.items()])
    sandwich = oracle("statsmodels.stats.sandwich_covariance")
    fit = oracle("statsmodels.regression.linear_model").OLS(won.astype(float), np.ones(200)).fit()
    both, over_families, over_attacks = sandwich.cov_cluster_2groups(fit, families, attacks)
    expected = max(float(cov.item()) for cov in (both, over_families, over_attacks))
    assert known(found.standard_error) ** 2 == pytest.approx(expected)
    alone = cluster_wilson(
        [sum(w for (f, _), (w, _) in merged.items() if f == family) for family in range(9)],
        np.bincount(families, minlength=9).tolist(),
    ).estimate
    assert known(found.estimate.low) <= known(alone.low) and known(found.estimate.high) >= known(alone.high)


def test_one_attack_tells_nothing_of_others() -> None:
    found = two_way_wilson([(family, "dan", family % 2, 2) for family in range(8)])
    assert found.estimate.value == 0.25 and (found.estimate.low, found.estimate.high) == (None, None)
    assert two_way_wilson([]).estimate.value is None


def test_quality_of_rates_is_that_of_counts_and_respects_their_intervals() -> None:
    tp, fn, tn, fp = 40, 10, 45, 5
    recall, alarms = wilson(tp, tp + fn), wilson(fp, fp + tn)
    found, counted = confusion_of_rates(recall, alarms), confusion_estimates(tp, fn, tn, fp)
    for name in ("precision", "f1", "accuracy"):
        one, other = getattr(found, name), getattr(counted, name)
        assert one.value == pytest.approx(other.value)
        # For independent entries both ways are close.
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.03)
    # With as many hits as passes, accuracy is the mean of both recalls.
    balanced = balance_of(recall, alarms)
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx((balanced.low, balanced.high))
    assert confusion_of_rates(wilson(0, 9), wilson(0, 9)).precision.value is None


@pytest.mark.slow
@pytest.mark.parametrize(("recall", "alarms"), [(0.9, 0.05), (0.6, 0.2), (0.97, 0.01)])
def test_the_quality_of_a_guardrail_over_families_is_covered(recall: float, alarms: float) -> None:
    generator = np.random.default_rng([7, int(100 * recall)])
    hits, passes, draws = [10] * 30, [5] * 40, 600
    n, m = sum(hits), sum(passes)
    truth = {
        "precision": n * recall / (n * recall + m * alarms),
        "f1": 2 * n * recall / (n * recall + n + m * alarms),
        "accuracy": (n * recall + m * (1 - alarms)) / (n + m),
    }
    covered = dict.fromkeys(truth, 0)
    for _ in range(draws):
        # Correlation 0.3 inside families.
        blocked = generator.binomial(hits, generator.beta(recall * 7 / 3, (1 - recall) * 7 / 3, len(hits)))
        stopped = generator.binomial(passes, generator.beta(alarms * 7 / 3, (1 - alarms) * 7 / 3, len(passes)))
        found = confusion_of_rates(
            FAMILIES.rate(blocked.tolist(), hits).estimate, FAMILIES.rate(stopped.tolist(), passes).estimate
        )
        for name, value in truth.items():
            estimate = getattr(found, name)
            covered[name] += known(estimate.low) <= value <= known(estimate.high)
    assert min(covered.values()) / draws >= 0.93 - 2 * (0.93 * 0.07 / draws) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.7, 1.5])
@pytest.mark.parametrize(("families", "attacks"), [(36, 5), (7, 17), (50, 20)])
def test_the_two_way_interval_covers_the_rate_for_attacks_in_general(
    families: int, attacks: int, spread: float
) -> None:
    """The regimes of an outside check, where the interval over families covered 64% at worst."""
    generator = np.random.default_rng([8, families, int(10 * spread)])
    draws, middle = 300, -1.6
    of_any = middle + np.hypot(1.0, spread) * generator.normal(size=400_000)
    truth = float((1 / (1 + np.exp(-of_any))).mean())
    covered = 0
    for _ in range(draws):
        logits = middle + generator.normal(0, 1, families)[:, None] + generator.normal(0, spread, attacks)
        won = generator.random((families, attacks)) < 1 / (1 + np.exp(-logits))
        cells = [(f, a, int(won[f, a]), 1) for f in range(families) for a in range(attacks)]
        estimate = two_way_wilson(cells).estimate
        covered += known(estimate.low) <= truth <= known(estimate.high)
    assert covered / draws >= 0.93 - 2 * (0.93 * 0.07 / draws) ** 0.5
