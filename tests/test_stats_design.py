"""How entries hang together decides the interval: one rule for every rate, and tests inside families."""

from __future__ import annotations

import numpy as np
import pytest

from faircount.stats import (
    Design,
    Stratum,
    cluster_wilson,
    difference_of_rates,
    fisher_exact,
    mantel_haenszel,
    mcnemar,
    newcombe,
    tango,
    wilson,
)
from tests.oracles import known, oracle

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
    deviation, p = mantel_haenszel(strata)
    assert p == pytest.approx(float(theirs.pvalue), abs=1e-9)
    assert deviation == pytest.approx(sum(t[0, 0] - t[0].sum() * t[:, 0].sum() / t.sum() for t in tables))


def test_nothing_can_be_told_where_no_family_has_two_groups_or_two_outcomes() -> None:
    assert mantel_haenszel([Stratum(8, 3, 8, 3), Stratum(4, 4, 9, 9), Stratum(1, 1, 1, 1)])[1] is None
