"""What must not change a statistic does not change it, and what must, does: tables that every function has a row in.

A new function gets its rows here and inherits the tests; `test_every_function_has_a_row` says where one is missing.
"""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import astuple

from faircount.core import Estimate, Validation
from faircount.stats import (
    DrawnPart,
    LabelledPart,
    VerdictCounts,
    attempts,
    clusters,
    comparison,
    gates,
    judge_error,
    labelling,
    operating,
    planning,
    proportion,
    rank_ranges,
    ranks_by_overlap,
    slices,
    verdict_quality,
)
from tests.conftest import some

Counts = tuple[Any, ...]
LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99]

# Data that several tables use. A family, entry or pair is one tuple, so that units can be shuffled and repeated.
FAMILIES = [(3, 4), (0, 4), (2, 4), (0, 4), (1, 4), (4, 4), (0, 4)]
UNEQUAL = [(3, 3), (0, 1), (1, 5), (0, 2), (2, 2), (0, 4), (1, 3), (1, 1)]
CROSSED = [(family, attack, (family * attack) % 3, 3) for family in range(5) for attack in range(4)]
DIFFERING = [(2, 0, 4), (0, 1, 3), (1, 1, 4), (3, 0, 5), (0, 0, 2), (1, 2, 4)]
TRIED = [(10, 0), (10, 1), (10, 3), (10, 10), (8, 2), (4, 0), (5, 4)]
STOPPED = [(1, 1), (1, 1), (2, 1), (3, 1), (3, 0), (4, 1), (5, 0), (5, 0), (2, 0), (4, 1)]
STOPPED_TOO = [(1, 1), (2, 1), (2, 1), (5, 0), (5, 0), (3, 1), (5, 0), (4, 1)]
TARGETS = [(1, 1, 0, 1), (0, 0, 0, 1), (1, 0, 0, 1), (1, 1, 1, 1), (0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0)]
SLICES = [(9, 10), (6, 12), (5, 20), (4, 10), (4, 30), (3, 15), (0, 8), (2, 50)]
RATES_OF_SLICES = [(successes / n, n) for successes, n in SLICES]
TABLES = [(40, 20, 30, 10), (45, 15, 28, 12), (30, 30, 38, 2), (50, 10, 10, 30)]
SCORED = [(1, 0.9), (0, 0.8), (1, 0.8), (1, 0.6), (0, 0.4), (0, 0.4), (0, 0.1), (0, 0.2), (0, 0.3), (1, 0.2)]
P_VALUES = [0.2, 0.013, 0.04, 0.04, 0.0009, 1.0, 0.5]

MEASURED = [Validation(80, 100, 96, 100), Validation(30, 30, 40, 40), Validation(45, 50, 35, 50)]
LABELLED_A = VerdictCounts(100, LabelledPart(40, 20, 17), LabelledPart(55, 25, 2))
LABELLED_B = VerdictCounts(100, LabelledPart(20, 20, 15), LabelledPart(80, 30, 0))
PAIRS_OF_VERDICTS = [[15, 25, 0], [4, 51, 0], [1, 4, 0]]


def columns(units: Sequence[Counts]) -> list[list[Any]]:
    return [list(column) for column in zip(*units, strict=True)]


def within(units: Sequence[Counts], k: int, level: float = 0.95) -> Estimate:
    return attempts.success_within_k(*columns(units), level=level).within(k)


# Every function that gives an interval, with data for it and where its parameter lies.

RATE, DIFFERENCE, RATIO = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
Interval = tuple[Callable[..., Estimate], list[Counts], tuple[float, float]]

INTERVALS: dict[str, Interval] = {
    "wilson": (proportion.wilson, [(0, 5), (5, 5), (3, 10), (37, 300), (1, 1)], RATE),
    "clopper_pearson": (proportion.clopper_pearson, [(0, 5), (5, 5), (3, 10), (37, 300), (1, 1)], RATE),
    "jeffreys": (proportion.jeffreys, [(0, 5), (5, 5), (3, 10), (37, 300), (1, 1)], RATE),
    "label_sequence": (
        lambda one, other, level: labelling.label_sequence(DrawnPart(*one), DrawnPart(*other), level=level),
        [((60, 20, 16, 4), (182, 30, 1, 29)), ((5, 5, 5, 0), (9, 1, 0, 1)), ((40, 9, 4, 3), (50, 9, 1, 6))],
        RATE,
    ),
    "run_quality": (
        lambda one, other, figure, level: getattr(
            verdict_quality.run_quality([LabelledPart(*one)], [LabelledPart(*other)], level=level), figure
        ),
        [
            ((60, 20, 16), (182, 30, 1), "sensitivity"),
            ((60, 20, 20), (182, 30, 0), "sensitivity"),
            ((60, 20, 0), (182, 30, 1), "specificity"),
            ((60, 20, 16), (182, 30, 1), "accuracy"),
        ],
        RATE,
    ),
    "zero_hits_upper": (proportion.zero_hits_upper, [(1,), (10,), (3000,)], RATE),
    "cluster_wilson": (
        lambda units, level: clusters.cluster_wilson(*columns(units), level=level).estimate,
        [(FAMILIES,), (UNEQUAL,), ([(0, 4)] * 6,), ([(2, 2)] * 3,), ([(1, 2), (2, 4)],)],
        RATE,
    ),
    "two_way_wilson": (
        lambda cells, level: clusters.two_way_wilson(cells, level=level).estimate,
        [(CROSSED,), ([(f, a, 0, 2) for f in range(3) for a in range(3)],)],
        RATE,
    ),
    "cluster_bootstrap": (
        lambda units, level: clusters.cluster_bootstrap(*columns(units), level=level, replicates=500),
        [(FAMILIES,), (UNEQUAL,), ([(0, 4)] * 6,)],
        RATE,
    ),
    "cluster_bootstrap_difference": (
        lambda units, level: clusters.cluster_bootstrap_difference(*columns(units), level=level, replicates=500),
        [(DIFFERING,), ([(1, 0, 2), (0, 1, 2), (2, 0, 2)],)],
        DIFFERENCE,
    ),
    "cluster_tango": (
        lambda units, level: comparison.cluster_tango(*columns(units), level=level).estimate,
        [(DIFFERING,), ([(0, 0, 4)] * 6,), ([(1, 0, 2), (0, 1, 2), (2, 0, 2)],), ([(2, 0, 2)] * 3,)],
        DIFFERENCE,
    ),
    "cluster_mean": (
        lambda units, level: clusters.cluster_mean(*columns(units), level=level).estimate,
        [([(0.5, 4), (-1.25, 3), (2.0, 5)],), ([(0.0, 1), (0.0, 2)],)],
        (-math.inf, math.inf),
    ),
    "mean_pass_at_k": (
        lambda units, k, level: attempts.mean_pass_at_k(units, k, level=level).estimate,
        [(TRIED, 1), (TRIED, 4), ([(5, 0)] * 9, 2), ([(5, 5)] * 9, 2)],
        RATE,
    ),
    "mean_pass_hat_k": (
        lambda units, k, level: attempts.mean_pass_hat_k(units, k, level=level).estimate,
        [(TRIED, 1), (TRIED, 4), ([(5, 0)] * 9, 2), ([(5, 5)] * 9, 2)],
        RATE,
    ),
    "mean_of_shares": (
        lambda shares, level: attempts.mean_of_shares(shares, level=level).estimate,
        [([0.1, 0.5, 0.9, 0.0],), ([0.0, 0.0],), ([0.3, 0.3, 0.3],)],
        RATE,
    ),
    "success_within_k": (
        within,
        [(STOPPED, 1), (STOPPED, 3), (STOPPED, 5), ([(5, 0)] * 8, 4), ([(1, 1)] * 4, 1), ([(1, 1), (2, 0), (3, 1)], 3)],
        RATE,
    ),
    "tango": (comparison.tango, [(8, 2, 50), (0, 0, 50), (6, 0, 100), (0, 4, 4), (5, 0, 5)], DIFFERENCE),
    "newcombe_paired": (
        comparison.newcombe_paired,
        [(30, 8, 2, 10), (0, 0, 0, 50), (10, 0, 0, 40), (20, 6, 0, 74), (0, 5, 0, 0)],
        DIFFERENCE,
    ),
    "conditional_odds_ratio": (comparison.conditional_odds_ratio, [(8, 2), (0, 1), (6, 0), (0, 0)], RATIO),
    "newcombe": (comparison.newcombe, [(30, 100, 18, 100), (5, 50, 0, 50), (10, 10, 0, 20)], DIFFERENCE),
    "miettinen_nurminen": (
        comparison.miettinen_nurminen,
        [(30, 100, 18, 100), (5, 50, 0, 50), (10, 10, 0, 20), (0, 3, 0, 9), (1, 1, 1, 1)],
        DIFFERENCE,
    ),
    "farrington_manning": (
        comparison.farrington_manning,
        [(30, 100, 18, 100), (5, 50, 0, 50), (10, 10, 0, 20), (0, 3, 0, 9), (1, 1, 1, 1)],
        DIFFERENCE,
    ),
    "risk_ratio": (comparison.risk_ratio, [(30, 100, 18, 100), (5, 50, 0, 50), (0, 9, 3, 9), (9, 9, 9, 9)], RATIO),
    "confidence_sequence": (gates.confidence_sequence, [(0, 10), (10, 0), (3, 17), (100, 900)], RATE),
    "non_inferiority_paired": (
        lambda b, c, n, level: gates.non_inferiority_paired(b, c, n, 0.05, alpha=(1 - level) / 2).difference,
        [(4, 6, 200), (0, 0, 30)],
        DIFFERENCE,
    ),
    "non_inferiority_unpaired": (
        lambda k, n, x, m, level: gates.non_inferiority_unpaired(k, n, x, m, 0.05, alpha=(1 - level) / 2).difference,
        [(24, 200, 26, 200), (0, 10, 0, 10)],
        DIFFERENCE,
    ),
    "corrected_difference": (
        lambda pairs, judge, more, level: judge_error.corrected_difference(
            comparison.tango(*pairs, level=level), judge, judged_more=more, further_variance=more * more / 100
        ),
        [((40, 10, 200), judge, more) for judge in MEASURED for more in (0.0, 0.1, -0.1)]
        + [((0, 0, 50), MEASURED[0], 0.0), ((3, 60, 100), MEASURED[2], 0.0)],
        DIFFERENCE,
    ),
    "two_phase_difference": (
        lambda a, b, table, level: judge_error.two_phase_difference(a, b, table=table, level=level),
        [(LABELLED_A, LABELLED_B, PAIRS_OF_VERDICTS), (LABELLED_A, LABELLED_B, None), (LABELLED_B, LABELLED_B, None)],
        DIFFERENCE,
    ),
    "added_difference": (
        lambda b, a, level: judge_error.added_difference(
            proportion.wilson(*b, level=level), proportion.wilson(*a, level=level)
        ),
        [((30, 100), (18, 100)), ((0, 10), (20, 20))],
        DIFFERENCE,
    ),
    "empirical_bayes": (
        lambda units, place, level: slices.empirical_bayes(*columns(units), level=level).slices[place],
        [(SLICES, 0), (SLICES, 6), ([(2, 10)] * 9, 0), ([(0, 5), (5, 5)] * 4, 1), ([(1, 3)], 0)],
        RATE,
    ),
}
CASES = [
    pytest.param(function, counts, space, id=f"{name}-{number}")
    for name, (function, data, space) in INTERVALS.items()
    for number, counts in enumerate(data)
]


def reach(estimate: Estimate, space: tuple[float, float]) -> tuple[float, float]:
    """Return the limits; a ratio without an upper one reaches to infinity."""
    assert estimate.low is not None
    assert estimate.high is not None or space == RATIO
    return estimate.low, math.inf if estimate.high is None else estimate.high


@pytest.mark.parametrize(("function", "counts", "space"), CASES)
@pytest.mark.parametrize("level", LEVELS)
def test_limits_contain_the_value_and_lie_where_the_parameter_does(
    function: Callable[..., Estimate], counts: Counts, space: tuple[float, float], level: float
) -> None:
    estimate = function(*counts, level=level)
    low, high = reach(estimate, space)
    value = estimate.value if estimate.value is not None else high
    assert space[0] - 1e-12 <= low <= value + 1e-12
    assert value <= high + 1e-12
    assert high <= space[1] + 1e-12
    assert estimate.level == pytest.approx(level)


@pytest.mark.parametrize(("function", "counts", "space"), CASES)
def test_a_higher_level_never_gives_a_narrower_interval(
    function: Callable[..., Estimate], counts: Counts, space: tuple[float, float]
) -> None:
    reached = [reach(function(*counts, level=level), space) for level in LEVELS]
    for (low, high), (lower, higher) in some(pairwise(reached)):
        assert lower <= low + 1e-12
        assert high <= higher + 1e-12


@pytest.mark.parametrize(("function", "counts"), [pytest.param(*case.values[:2], id=case.id) for case in CASES])
def test_the_level_does_not_change_the_value(function: Callable[..., Estimate], counts: Counts) -> None:
    assert len({function(*counts, level=level).value for level in LEVELS}) == 1


# Functions of many units: the order of the units says nothing. Results per unit move with their units.

Ordered = tuple[Callable[[Sequence[Any]], Any], Sequence[Any], Callable[[Any], Sequence[Any]] | None]

ORDER: dict[str, Ordered] = {
    "cluster_wilson": (lambda units: clusters.cluster_wilson(*columns(units)), UNEQUAL, None),
    "two_way_wilson": (clusters.two_way_wilson, CROSSED, None),
    "cluster_mean_of_shares": (lambda units: clusters.cluster_mean_of_shares(*columns(units)), UNEQUAL, None),
    "expected_correlation": (lambda units: clusters.expected_correlation(*columns(units)), UNEQUAL, None),
    "correlation_floor": (lambda units: clusters.correlation_floor(*columns(units)), UNEQUAL, None),
    "cluster_bootstrap": (lambda units: clusters.cluster_bootstrap(*columns(units), replicates=300), UNEQUAL, None),
    "cluster_bootstrap_difference": (
        lambda units: clusters.cluster_bootstrap_difference(*columns(units), replicates=300),
        DIFFERING,
        None,
    ),
    "cluster_tango": (lambda units: comparison.cluster_tango(*columns(units)), DIFFERING, None),
    "cluster_mean": (lambda units: clusters.cluster_mean(*columns(units)), [(0.5, 4), (-1.25, 3), (2.0, 5)], None),
    "family_correlation": (lambda units: clusters.family_correlation(*columns(units)), UNEQUAL, None),
    "mean_pass_at_k": (lambda units: attempts.mean_pass_at_k(units, 4).estimate, TRIED, None),
    "mean_pass_hat_k": (lambda units: attempts.mean_pass_hat_k(units, 2).estimate, TRIED, None),
    "mean_of_shares": (
        lambda shares: attempts.mean_of_shares(shares),
        [0.1, 0.5, None, 0.9],
        lambda result: result.per_entry,
    ),
    "success_within_k": (lambda units: attempts.success_within_k(*columns(units)), STOPPED, None),
    "logrank": (lambda units: attempts.logrank(*columns(units), *columns(STOPPED_TOO)), STOPPED, None),
    "operating_point": (
        lambda units: operating.operating_point(columns(units)[0], columns(units)[1], 0.5),
        SCORED,
        None,
    ),
    "cochran_q": (lambda entries: comparison.cochran_q(columns(entries)), TARGETS, None),
    "holm": (comparison.holm, P_VALUES, lambda adjusted: adjusted),
    "bonferroni": (comparison.bonferroni, P_VALUES, lambda adjusted: adjusted),
    "benjamini_hochberg": (comparison.benjamini_hochberg, P_VALUES, lambda adjusted: adjusted),
    "benjamini_yekutieli": (comparison.benjamini_yekutieli, P_VALUES, lambda adjusted: adjusted),
    "empirical_bayes": (lambda units: slices.empirical_bayes(*columns(units)), SLICES, lambda fit: fit.slices),
    "spread_of_rates": (lambda units: slices.spread_of_rates(*columns(units)), RATES_OF_SLICES, None),
    "ranks_by_overlap": (
        ranks_by_overlap,
        [proportion.wilson(*counts) for counts in SLICES],
        lambda ranks: ranks,
    ),
    "slices_against_rest": (
        lambda units: slices.slices_against_rest(*columns(units)),
        SLICES,
        lambda tests: tests,
    ),
    "adjust_together": (
        lambda units: slices.adjust_together(slices.slices_against_rest(*columns(units))),
        SLICES,
        lambda tests: tests,
    ),
}


def numbers(result: Any) -> list[float | None]:
    """Return every number of a result, in order; None stays."""
    if isinstance(result, Estimate):
        return [result.value, result.low, result.high, result.n, result.level]
    if isinstance(result, Struct):
        return [number for name in result.__struct_fields__ for number in numbers(getattr(result, name))]
    if isinstance(result, list | tuple):
        return [number for element in result for number in numbers(element)]
    return [] if isinstance(result, str) else [result]


def assert_same(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    ours, theirs = numbers(ours), numbers(theirs)
    assert [number is None for number in ours] == [number is None for number in theirs]
    assert [n for n in ours if n is not None] == pytest.approx([n for n in theirs if n is not None], abs=tolerance)


@pytest.mark.parametrize(("function", "units", "per_unit"), ORDER.values(), ids=ORDER)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_units_says_nothing(
    function: Callable[[Sequence[Any]], Any],
    units: Sequence[Any],
    per_unit: Callable[[Any], Sequence[Any]] | None,
    seed: int,
) -> None:
    places = list(range(len(units)))
    random.Random(seed).shuffle(places)
    before, after = function(units), function([units[place] for place in places])
    if per_unit is None:
        assert_same(after, before)
    else:
        assert_same(per_unit(after), [per_unit(before)[place] for place in places])


# Calling successes failures turns the result over.


def mirrored(units: Sequence[Counts]) -> list[Counts]:
    return [(n - k, n) for k, n in units]


RELABELLED: dict[str, tuple[Callable[[], Estimate], Callable[[], Estimate], float]] = {
    "wilson": (lambda: proportion.wilson(7, 50), lambda: proportion.wilson(43, 50), 1),
    "clopper_pearson": (lambda: proportion.clopper_pearson(7, 50), lambda: proportion.clopper_pearson(43, 50), 1),
    "jeffreys": (lambda: proportion.jeffreys(0, 9), lambda: proportion.jeffreys(9, 9), 1),
    "cluster_wilson": (
        lambda: clusters.cluster_wilson(*columns(UNEQUAL)).estimate,
        lambda: clusters.cluster_wilson(*columns(mirrored(UNEQUAL))).estimate,
        1,
    ),
    "cluster_mean_of_shares": (
        lambda: clusters.cluster_mean_of_shares(*columns(UNEQUAL)).estimate,
        lambda: clusters.cluster_mean_of_shares(*columns(mirrored(UNEQUAL))).estimate,
        1,
    ),
    "cluster_bootstrap": (
        lambda: clusters.cluster_bootstrap(*columns(FAMILIES)),
        lambda: clusters.cluster_bootstrap(*columns(mirrored(FAMILIES))),
        1,
    ),
    "mean_pass_at_k": (
        lambda: attempts.mean_pass_at_k(TRIED, 3).estimate,
        lambda: attempts.mean_pass_hat_k([(n, n - c) for n, c in TRIED], 3).estimate,
        1,
    ),
    "confidence_sequence": (lambda: gates.confidence_sequence(3, 17), lambda: gates.confidence_sequence(17, 3), 1),
    "tango": (lambda: comparison.tango(8, 2, 50), lambda: comparison.tango(2, 8, 50), 0),
    "newcombe_paired": (
        lambda: comparison.newcombe_paired(30, 8, 2, 10),
        lambda: comparison.newcombe_paired(10, 2, 8, 30),
        0,
    ),
    "newcombe": (lambda: comparison.newcombe(30, 100, 9, 80), lambda: comparison.newcombe(70, 100, 71, 80), 0),
    "miettinen_nurminen": (
        lambda: comparison.miettinen_nurminen(30, 100, 9, 80),
        lambda: comparison.miettinen_nurminen(70, 100, 71, 80),
        0,
    ),
    "farrington_manning": (
        lambda: comparison.farrington_manning(30, 100, 9, 80),
        lambda: comparison.farrington_manning(70, 100, 71, 80),
        0,
    ),
    "empirical_bayes": (
        lambda: slices.empirical_bayes(*columns(SLICES)).slices[1],
        lambda: slices.empirical_bayes(*columns(mirrored(SLICES))).slices[1],
        1,
    ),
}


@pytest.mark.parametrize(("one", "other", "whole"), RELABELLED.values(), ids=RELABELLED)
def test_calling_successes_failures_turns_the_interval_over(
    one: Callable[[], Estimate], other: Callable[[], Estimate], whole: float
) -> None:
    ours, theirs = one(), other()
    assert ours.low is not None and ours.value is not None and ours.high is not None
    turned = (whole - ours.high, whole - ours.value, whole - ours.low)
    assert (theirs.low, theirs.value, theirs.high) == pytest.approx(turned, abs=1e-9)


# Exchanging the two sides changes the sign, inverts the ratio, or leaves a two-sided p-value alone.


def negated(*values: float | None) -> list[float | None]:
    return [None if value is None else -value for value in reversed(values)]


def inverted(*values: float | None) -> list[float | None]:
    return [math.inf if value == 0 else 0.0 if value is None else 1 / value for value in reversed(values)]


def kept(*values: float | None) -> list[float | None]:
    return list(values)


def three(estimate: Estimate) -> tuple[float | None, ...]:
    return estimate.low, estimate.value, estimate.high


Sides = tuple[Callable[..., tuple[float | None, ...]], Counts, Counts, Callable[..., list[float | None]]]

SWAPPED: dict[str, Sides] = {
    "mcnemar": (lambda b, c: astuple(comparison.mcnemar(b, c)), (8,), (2,), kept),
    "tango": (lambda b, c: three(comparison.tango(b, c, 50)), (8,), (2,), negated),
    "shown_sign": (lambda b, c: (comparison.shown_sign(comparison.tango(b, c, 50), 0.01, 0.05),), (20,), (2,), negated),
    "tango_score": (lambda b, c: (comparison.tango_score(b, c, 50, 0.0),), (8,), (2,), negated),
    "newcombe_paired": (lambda b, c: three(comparison.newcombe_paired(30, b, c, 10)), (8,), (2,), negated),
    "conditional_odds_ratio": (lambda b, c: three(comparison.conditional_odds_ratio(b, c)), (8,), (2,), inverted),
    "newcombe": (lambda *counts: three(comparison.newcombe(*counts)), (30, 100), (9, 80), negated),
    "miettinen_nurminen": (lambda *counts: three(comparison.miettinen_nurminen(*counts)), (5, 50), (0, 30), negated),
    "farrington_manning": (lambda *counts: three(comparison.farrington_manning(*counts)), (5, 50), (0, 30), negated),
    "farrington_manning_score": (
        lambda k, n, x, m: (comparison.farrington_manning_score(k, n, x, m, 0.0),),
        (5, 50),
        (2, 30),
        negated,
    ),
    "restricted_rates": (lambda k, n, x, m: comparison.restricted_rates(k, n, x, m, 0.0)[::-1], (5, 50), (2, 30), kept),
    "risk_ratio": (lambda *counts: three(comparison.risk_ratio(*counts)), (30, 100), (9, 80), inverted),
    "fisher_exact": (lambda *counts: (comparison.fisher_exact(*counts),), (30, 100), (9, 80), kept),
    "cohen_h": (lambda a, b: (comparison.cohen_h(a, b),), (0.3,), (0.1,), negated),
    "logrank": (
        lambda a, b: (attempts.logrank(*columns(a), *columns(b)).z,),
        (STOPPED,),
        (STOPPED_TOO,),
        negated,
    ),
    "cochran_q": (
        lambda a, b: (comparison.cochran_q([a, b]).statistic,),
        ([1, 1, 0, 1, 0],),
        ([0, 0, 0, 1, 1],),
        kept,
    ),
    "cluster_bootstrap_difference": (
        lambda a, b: three(clusters.cluster_bootstrap_difference(a, b, [4] * 5)),
        ([2, 0, 1, 3, 0],),
        ([0, 1, 0, 0, 0],),
        negated,
    ),
    "cluster_tango": (
        lambda a, b: three(comparison.cluster_tango(a, b, [4] * 5).estimate),
        ([2, 0, 1, 3, 0],),
        ([0, 1, 0, 0, 0],),
        negated,
    ),
    "corrected_difference": (
        lambda b, c: three(judge_error.corrected_difference(comparison.tango(b, c, 50), MEASURED[0])),
        (8,),
        (2,),
        negated,
    ),
    "two_phase_difference": (
        lambda a, b: three(judge_error.two_phase_difference(a, b)),
        (LABELLED_A,),
        (LABELLED_B,),
        negated,
    ),
    "added_difference": (
        lambda k, n, x, m: three(judge_error.added_difference(proportion.wilson(k, n), proportion.wilson(x, m))),
        (30, 100),
        (9, 80),
        negated,
    ),
    "sample_size_unpaired": (lambda a, b: (planning.sample_size_unpaired(a, b).n,), (0.2,), (0.3,), kept),
}


@pytest.mark.parametrize(("function", "a", "b", "turn"), SWAPPED.values(), ids=SWAPPED)
def test_exchanging_the_sides_turns_the_result_over(
    function: Callable[..., tuple[float | None, ...]],
    a: Counts,
    b: Counts,
    turn: Callable[..., list[float | None]],
) -> None:
    assert_same(list(function(*b, *a)), turn(*function(*a, *b)))


# Having everything twice leaves rates alone and makes them surer; only where families repeat as one is it no news.

REPEATED: dict[str, tuple[Callable[[int], Estimate], bool]] = {
    "wilson": (lambda times: proportion.wilson(3 * times, 10 * times), True),
    "clopper_pearson": (lambda times: proportion.clopper_pearson(3 * times, 10 * times), True),
    "jeffreys": (lambda times: proportion.jeffreys(3 * times, 10 * times), True),
    "zero_hits_upper": (lambda times: proportion.zero_hits_upper(10 * times), True),
    "cluster_wilson": (lambda times: clusters.cluster_wilson(*columns(UNEQUAL * times)).estimate, True),
    "cluster_wilson, inside families": (
        # Where families are all or nothing; else more units of each show better how alike they are.
        lambda times: clusters.cluster_wilson(*columns([(k * times, 4 * times) for k in (0, 4, 4, 0, 0, 4)])).estimate,
        False,
    ),
    "cluster_mean_of_shares": (
        lambda times: clusters.cluster_mean_of_shares(*columns(UNEQUAL * times)).estimate,
        True,
    ),
    "cluster_bootstrap": (lambda times: clusters.cluster_bootstrap(*columns(FAMILIES * times)), True),
    "cluster_bootstrap, inside families": (
        lambda times: clusters.cluster_bootstrap(*columns([(k * times, n * times) for k, n in UNEQUAL])),
        False,
    ),
    "cluster_bootstrap_difference": (
        lambda times: clusters.cluster_bootstrap_difference(*columns([(2, 0, 4), (0, 1, 4), (1, 1, 4)] * times)),
        True,
    ),
    "cluster_tango": (lambda times: comparison.cluster_tango(*columns(DIFFERING * times)).estimate, True),
    "cluster_tango, inside families": (
        lambda times: (
            comparison.cluster_tango(*columns([tuple(k * times for k in unit) for unit in DIFFERING])).estimate
        ),
        False,
    ),
    "cluster_mean": (
        lambda times: clusters.cluster_mean(*columns([(0.5, 4), (-1.25, 3), (2.0, 5)] * times)).estimate,
        True,
    ),
    "mean_pass_at_k": (lambda times: attempts.mean_pass_at_k(TRIED * times, 4).estimate, True),
    "mean_pass_hat_k": (lambda times: attempts.mean_pass_hat_k(TRIED * times, 4).estimate, True),
    "mean_of_shares": (lambda times: attempts.mean_of_shares([0.1, 0.6, 0.9] * times).estimate, True),
    "success_within_k": (lambda times: within(STOPPED * times, 3), True),
    "tango": (lambda times: comparison.tango(8 * times, 2 * times, 50 * times), True),
    "newcombe_paired": (lambda times: comparison.newcombe_paired(*(n * times for n in (30, 8, 2, 10))), True),
    "conditional_odds_ratio": (lambda times: comparison.conditional_odds_ratio(8 * times, 2 * times), True),
    "newcombe": (lambda times: comparison.newcombe(*(n * times for n in (30, 100, 18, 100))), True),
    "miettinen_nurminen": (lambda times: comparison.miettinen_nurminen(*(n * times for n in (3, 10, 2, 11))), True),
    "farrington_manning": (lambda times: comparison.farrington_manning(*(n * times for n in (3, 10, 2, 11))), True),
    "risk_ratio": (lambda times: comparison.risk_ratio(*(n * times for n in (3, 10, 2, 11))), True),
    "confidence_sequence": (lambda times: gates.confidence_sequence(3 * times, 17 * times), True),
    "non_inferiority_paired": (
        lambda times: gates.non_inferiority_paired(4 * times, 6 * times, 200 * times, 0.05).difference,
        True,
    ),
    "non_inferiority_unpaired": (
        lambda times: gates.non_inferiority_unpaired(3 * times, 10 * times, 2 * times, 11 * times, 0.05).difference,
        True,
    ),
}


@pytest.mark.parametrize(("function", "news"), REPEATED.values(), ids=REPEATED)
def test_repetition_is_weight(function: Callable[[int], Estimate], news: bool) -> None:
    once, thrice = function(1), function(3)
    assert once.low is not None and once.high is not None and thrice.low is not None and thrice.high is not None
    assert thrice.value == pytest.approx(once.value)
    if news:
        assert thrice.high - thrice.low < once.high - once.low
    else:
        assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=1e-9)


# Adding what says nothing changes nothing.

UNCHANGED: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "an empty family, cluster_wilson": (
        lambda: clusters.cluster_wilson(*columns(UNEQUAL)),
        lambda: clusters.cluster_wilson(*columns([(0, 0), *UNEQUAL])),
    ),
    "an empty family, cluster_bootstrap": (
        lambda: clusters.cluster_bootstrap(*columns(UNEQUAL), replicates=300),
        lambda: clusters.cluster_bootstrap(*columns([(0, 0), *UNEQUAL]), replicates=300),
    ),
    "an empty family, family_correlation": (
        lambda: clusters.family_correlation(*columns(UNEQUAL)),
        lambda: clusters.family_correlation(*columns([(0, 0), *UNEQUAL])),
    ),
    "an empty family, cluster_tango": (
        lambda: comparison.cluster_tango(*columns(DIFFERING)),
        lambda: comparison.cluster_tango(*columns([(0, 0, 0), *DIFFERING])),
    ),
    "an empty family, cluster_mean": (
        lambda: clusters.cluster_mean([0.5, 2.0], [1, 3]),
        lambda: clusters.cluster_mean([0.5, 0.0, 2.0], [1, 0, 3]),
    ),
    "an undefined share, mean_of_shares": (
        lambda: attempts.mean_of_shares([0.2, 0.4]).estimate,
        lambda: attempts.mean_of_shares([0.2, None, 0.4]).estimate,
    ),
    "an entry never tried, success_within_k": (
        lambda: attempts.success_within_k(*columns(STOPPED)).steps,
        lambda: attempts.success_within_k(*columns([(0, 0), *STOPPED])).steps,
    ),
    "an entry never tried, logrank": (
        lambda: attempts.logrank(*columns(STOPPED), *columns(STOPPED_TOO)),
        lambda: attempts.logrank(*columns([(0, 0), *STOPPED]), *columns(STOPPED_TOO)),
    ),
    "an entry that all agree on, cochran_q": (
        lambda: comparison.cochran_q(columns(TARGETS)).p,
        lambda: comparison.cochran_q(columns([(1, 1, 1, 1), (0, 0, 0, 0), *TARGETS])).p,
    ),
    "an undefined test, holm": (
        lambda: comparison.holm(P_VALUES),
        lambda: comparison.holm([None, *P_VALUES])[1:],
    ),
    "an undefined test, bonferroni": (
        lambda: comparison.bonferroni(P_VALUES),
        lambda: comparison.bonferroni([None, *P_VALUES])[1:],
    ),
    "an undefined test, benjamini_hochberg": (
        lambda: comparison.benjamini_hochberg(P_VALUES),
        lambda: comparison.benjamini_hochberg([None, *P_VALUES])[1:],
    ),
    "an undefined test, benjamini_yekutieli": (
        lambda: comparison.benjamini_yekutieli(P_VALUES),
        lambda: comparison.benjamini_yekutieli([None, *P_VALUES])[1:],
    ),
    "slices listed with their number, beta_prior": (
        lambda: slices.empirical_bayes(*columns(SLICES * 3)).prior,
        lambda: slices.beta_prior(*columns([(*unit, 3) for unit in SLICES])),
    ),
    "kinds of slices that there are none of, beta_prior": (
        lambda: slices.beta_prior(*columns([(*unit, 1) for unit in SLICES])),
        lambda: slices.beta_prior(*columns([(3, 4, 0), (0, 0, 5), *((*unit, 1) for unit in SLICES)])),
    ),
    "families listed with their number, cluster_wilson": (
        lambda: clusters.cluster_wilson(*columns(UNEQUAL * 3)),
        lambda: clusters.cluster_wilson(*columns(UNEQUAL), times=[3] * len(UNEQUAL)),
    ),
    "a mirror, expected_correlation": (
        lambda: clusters.expected_correlation(*columns(UNEQUAL)),
        lambda: clusters.expected_correlation(*columns(mirrored(UNEQUAL))),
    ),
    "an empty slice, empirical_bayes": (
        lambda: slices.empirical_bayes(*columns(SLICES)).slices,
        lambda: slices.empirical_bayes(*columns([(0, 0), *SLICES])).slices[1:],
    ),
    "an empty slice, slices_against_rest": (
        lambda: slices.slices_against_rest(*columns(SLICES)),
        lambda: slices.slices_against_rest(*columns([(0, 0), *SLICES]))[1:],
    ),
    "an empty slice, spread_of_rates": (
        lambda: slices.spread_of_rates(*columns(RATES_OF_SLICES)),
        lambda: slices.spread_of_rates(*columns([(0.9, 0), *RATES_OF_SLICES])),
    ),
    "every slice twice, spread_of_rates": (
        lambda: slices.spread_of_rates(*columns(RATES_OF_SLICES)),
        lambda: slices.spread_of_rates(*columns(RATES_OF_SLICES * 2)),
    ),
    "a worse one far away, rank_ranges": (
        lambda: rank_ranges("accuracy", TABLES, level=0.8),
        lambda: rank_ranges("accuracy", [*TABLES, (0, 60, 0, 40)], level=0.8)[:-1],
    ),
    "families of one, expected_limits": (
        lambda: planning.expected_limits(0.2, 50),
        lambda: planning.expected_limits(0.2, 50, design_effect=planning.design_effect(1, 0.9)),
    ),
    "one interval, bonferroni_level": (lambda: comparison.bonferroni_level(0.9, 1), lambda: 0.9),
    "families of one, design_effect": (lambda: planning.design_effect(1, 0.9), lambda: 1.0),
    "families of one, sample_size_in_families": (
        lambda: planning.sample_size_in_families(930, 1, 0.5),
        lambda: planning.SampleSize(930.0, 930),
    ),
    "unlike variants, sample_size_paired": (
        lambda: planning.sample_size_paired(0.2, 0.1),
        lambda: planning.sample_size_paired(0.2, 0.1, family_size=9, icc=0.0),
    ),
    "unlike variants, sample_size_half_width": (
        lambda: planning.sample_size_half_width(0.2, 0.05),
        lambda: planning.sample_size_half_width(0.2, 0.05, family_size=9, icc=0.0),
    ),
    "unlike variants, sample_size_zero_hits": (
        lambda: planning.sample_size_zero_hits(0.01),
        lambda: planning.sample_size_zero_hits(0.01, family_size=9, icc=0.0),
    ),
    "unlike variants, sample_size_non_inferiority": (
        lambda: planning.sample_size_non_inferiority(0.05, base=0.2),
        lambda: planning.sample_size_non_inferiority(0.05, base=0.2, family_size=9, icc=0.0),
    ),
    "unlike variants, minimum_detectable": (
        lambda: planning.minimum_detectable(100, base=0.2),
        lambda: planning.minimum_detectable(100, base=0.2, family_size=9, icc=0.0),
    ),
    "slower attempts, success_within_k": (
        lambda: [step.estimate for step in attempts.success_within_k(*columns(STOPPED)).steps],
        lambda: [
            step.estimate for step in attempts.success_within_k(*columns([(3 * k, hit) for k, hit in STOPPED])).steps
        ],
    ),
    "slower attempts, logrank": (
        lambda: attempts.logrank(*columns(STOPPED), *columns(STOPPED_TOO)),
        lambda: attempts.logrank(
            *columns([(3 * k, hit) for k, hit in STOPPED]), *columns([(3 * k, hit) for k, hit in STOPPED_TOO])
        ),
    ),
}


@pytest.mark.parametrize(("before", "after"), UNCHANGED.values(), ids=UNCHANGED)
def test_adding_what_says_nothing_changes_nothing(before: Callable[[], Any], after: Callable[[], Any]) -> None:
    assert_same(before(), after())


def _variance(successes: int, n: int) -> float:
    return successes / n * (1 - successes / n)


def _inside(units: Sequence[Counts]) -> float:
    return math.fsum(n * rate * (1 - rate) for rate, n in units) / math.fsum(n for _, n in units)


# Splitting a whole and adding its parts gives the whole; and one function is a special case of another.

EQUAL: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "spread_of_rates and the variance inside slices make up the variance": (
        lambda: slices.spread_of_rates(*columns(RATES_OF_SLICES)) + _inside(RATES_OF_SLICES),
        lambda: _variance(*map(sum, columns(SLICES))),
    ),
    "expected_limits of a rate that is met are wilson's": (
        lambda: planning.expected_limits(0.3, 100, level=0.9),
        lambda: three(proportion.wilson(30, 100, level=0.9))[::2],
    ),
    "expected_limits in families are those of fewer entries": (
        lambda: planning.expected_limits(0.3, 100, design_effect=4),
        lambda: planning.expected_limits(0.3, 25),
    ),
    "bonferroni_level is where bonferroni stops claiming": (
        lambda: comparison.bonferroni([1 - comparison.bonferroni_level(0.95, 3), 1.0, 1.0])[0],
        lambda: 0.05,
    ),
    "ranks_by_overlap of intervals apart are their order": (
        lambda: ranks_by_overlap([proportion.wilson(k, 100) for k in (50, 90, 10)]),
        lambda: [(2, 2), (1, 1), (3, 3)],
    ),
    "ranks_by_overlap of equal intervals are all": (
        lambda: ranks_by_overlap([proportion.wilson(5, 10)] * 3),
        lambda: [(1, 3)] * 3,
    ),
    "rank_ranges of one are its rank": (lambda: rank_ranges("mcc", TABLES[:1]), lambda: [(1, 1)]),
    "rank_ranges of hits are those of passes turned over": (
        lambda: rank_ranges("hit_recall", [(60, 40, 0, 0), (30, 70, 0, 0)]),
        lambda: rank_ranges("pass_recall", [(0, 0, 60, 40), (0, 0, 30, 70)]),
    ),
    "pass_at_k of one attempt is the rate": (lambda: attempts.pass_at_k(10, 3, 1), lambda: 0.3),
    "pass_hat_k of one attempt is the rate": (lambda: attempts.pass_hat_k(10, 3, 1), lambda: 0.3),
    "pass_at_k of all attempts is any": (lambda: attempts.pass_at_k(10, 3, 10), lambda: 1.0),
    "success_within_counts is what success_within_k makes of the entries": (
        lambda: attempts.success_within_counts([(1, True, 2), (3, False, 1), (4, True, 1)]).within(4).value,
        lambda: attempts.success_within_k([1, 1, 3, 4], [1, 1, 0, 1]).within(4).value,
    ),
    "any_of_k splits into parts": (
        lambda: 1 - attempts.any_of_k(0.2, 7),
        lambda: (1 - attempts.any_of_k(0.2, 3)) * (1 - attempts.any_of_k(0.2, 4)),
    ),
    "all_of_k splits into parts": (
        lambda: attempts.all_of_k(0.2, 7),
        lambda: attempts.all_of_k(0.2, 3) * attempts.all_of_k(0.2, 4),
    ),
    "any_of_k is what pass_at_k becomes with many attempts": (
        lambda: round(attempts.pass_at_k(10**6, 2 * 10**5, 5) or 0, 4),
        lambda: round(attempts.any_of_k(0.2, 5), 4),
    ),
    "mean_pass_at_k of equal entries is cluster_wilson's": (
        lambda: [attempts.mean_pass_at_k([(4, k) for k, _ in FAMILIES], 1).estimate.value],
        lambda: [clusters.cluster_wilson(*columns(FAMILIES)).estimate.value],
    ),
    "mean_pass_at_k of equal entries has cluster_wilson's limits": (
        lambda: three(attempts.mean_pass_at_k([(4, k) for k, _ in FAMILIES], 1).estimate),
        lambda: three(clusters.cluster_wilson(*columns(FAMILIES)).estimate),
    ),
    "cluster_mean_of_shares with equally many attempts is cluster_wilson of each family's": (
        lambda: three(clusters.cluster_mean_of_shares([1, 3, 0, 2, 4, 1], [4] * 6, [0, 0, 1, 1, 2, 2]).estimate),
        lambda: three(clusters.cluster_wilson([4, 2, 5], [8] * 3).estimate),
    ),
    "difference_of_rates of two Wilson intervals is newcombe's": (
        lambda: three(comparison.difference_of_rates(proportion.wilson(7, 50), proportion.wilson(3, 40))),
        lambda: three(comparison.newcombe(7, 50, 3, 40)),
    ),
    "effective_families of equal families": (lambda: clusters.effective_families([7] * 9), lambda: 9.0),
    "effective_degrees of equal families": (lambda: clusters.effective_degrees([7] * 9), lambda: 8),
    "cluster_wilson's design_effect and effective n make up the entries": (
        lambda: (
            (clusters.cluster_wilson(*columns(FAMILIES)).design_effect or 0)
            * (clusters.cluster_wilson(*columns(FAMILIES)).effective_n or 0)
        ),
        lambda: 28.0,
    ),
    "cochran_q of two targets is mcnemar's statistic": (
        lambda: comparison.cochran_q([[1, 1, 1, 0, 0, 1], [0, 0, 0, 1, 0, 1]]).statistic,
        lambda: comparison.tango_score(3, 1, 6, 0.0) ** 2,
    ),
    "tango without a discordant entry is wilson's upper limit": (
        lambda: comparison.tango(0, 0, 50).high,
        lambda: proportion.wilson(0, 50).high,
    ),
    "farrington_manning_score at no difference is the pooled z": (
        lambda: comparison.farrington_manning_score(30, 100, 18, 100, 0.0),
        lambda: 0.12 / math.sqrt(0.24 * 0.76 * 2 / 100),
    ),
    "restricted_rates at the observed difference are the observed rates": (
        lambda: comparison.restricted_rates(30, 100, 18, 90, 0.1),
        lambda: (0.3, 0.2),
    ),
    "newcombe_paired of entries that agree by chance is newcombe": (
        lambda: three(comparison.newcombe_paired(20, 20, 20, 20)),
        lambda: three(comparison.newcombe(40, 80, 40, 80)),
    ),
    "log_e_value adds up over outcomes": (
        lambda: gates.log_e_value(3, 1, 0.3) - gates.log_e_value(2, 1, 0.3),
        lambda: math.log((2.5 / 4) / 0.3),
    ),
    "sprt adds up over outcomes": (
        lambda: gates.sprt([1, 0, 0, 1, 1], 0.1, 0.3).log_ratios[-1],
        lambda: gates.sprt([1, 0], 0.1, 0.3).log_ratios[-1] + gates.sprt([0, 1, 1], 0.1, 0.3).log_ratios[-1],
    ),
    "the survival of success_within_k is a product over attempts": (
        lambda: within(STOPPED, 3).value,
        lambda: 1 - (1 - 2 / 10) * (1 - 1 / 8) * (1 - 1 / 6),
    ),
    "holm of one test is the test": (lambda: comparison.holm([0.03]), lambda: (0.03,)),
}


@pytest.mark.parametrize(("one", "other"), EQUAL.values(), ids=EQUAL)
def test_the_parts_make_up_the_whole(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    assert_same(one(), other())


# Arguments that must make a result larger or smaller, everything else being equal.

MONOTONE: dict[str, tuple[Callable[[Any], float | None], list[Any]]] = {
    "pass_at_k rises with k": (lambda k: attempts.pass_at_k(10, 3, k), [1, 2, 3, 5, 8]),
    "pass_hat_k falls with k": (lambda k: -(attempts.pass_hat_k(10, 3, k) or 0), [1, 2, 3]),
    "zero_hits_upper falls with n": (lambda n: -(proportion.zero_hits_upper(n).high or 0), [1, 10, 100]),
    "sample_size_paired rises with power": (
        lambda power: planning.sample_size_paired(0.2, 0.1, power=power).n,
        [0.5, 0.8, 0.95],
    ),
    "sample_size_unpaired rises as rates near each other": (
        lambda rate: planning.sample_size_unpaired(0.2, rate).n,
        [0.5, 0.3, 0.21],
    ),
    "sample_size_half_width rises with precision": (
        lambda width: planning.sample_size_half_width(0.2, width).n,
        [0.2, 0.1, 0.01],
    ),
    "expected_limits narrow with entries": (
        lambda n: -planning.expected_limits(0.2, n)[1],
        [10, 100, 1000],
    ),
    "bonferroni_level rises with intervals": (lambda m: comparison.bonferroni_level(0.95, m), [1, 2, 20]),
    "spread_of_rates rises as slices part": (
        lambda distance: slices.spread_of_rates([0.5 - distance, 0.5 + distance], [30, 10]),
        [0.0, 0.1, 0.5],
    ),
    "sample_size_zero_hits rises with ambition": (
        lambda target: planning.sample_size_zero_hits(target).n,
        [0.1, 0.01, 0.001],
    ),
    "sample_size_non_inferiority rises with a narrower margin": (
        lambda margin: planning.sample_size_non_inferiority(margin, discordant=0.2).n,
        [0.2, 0.1, 0.02],
    ),
    "sample_size_in_families rises with likeness": (
        lambda icc: planning.sample_size_in_families(100, 8, icc).n,
        [0.0, 0.1, 0.9],
    ),
    "power_paired rises with the difference": (
        lambda difference: planning.power_paired(200, difference, 0.2),
        [0.01, 0.05, 0.1, 0.2],
    ),
    "power_paired falls with the design effect": (
        lambda effect: -planning.power_paired(200, 0.1, 0.2, design_effect=effect, degrees=24),
        [1.0, 1.5, 3.0],
    ),
    "detectable_paired falls with n": (
        lambda n: -(planning.detectable_paired(n, 0.2, 0.3) or 0),
        [50, 200, 5000, 10**6],
    ),
    "detectable_paired rises with fewer families": (
        lambda degrees: planning.detectable_paired(200, 0.2, 0.3, design_effect=2, degrees=degrees),
        [199, 24, 9, 3],
    ),
    "detectable_unpaired falls with n": (
        lambda n: -(planning.detectable_unpaired(n, 0.3) or 0),
        [50, 200, 5000, 10**6],
    ),
    "least_entries_paired rises with the power": (
        lambda power: planning.least_entries_paired(0.2, 0.1, power=power),
        [0.5, 0.8, 0.95],
    ),
    "least_entries_unpaired rises with the design effect": (
        lambda effect: planning.least_entries_unpaired(0.2, 0.3, family_size=5, design_effect=effect),
        [1, 2, 4],
    ),
    "least_difference_paired falls with n": (
        lambda n: -(planning.least_difference_paired(n, 0.2) or 0),
        [100, 400, 1600],
    ),
    "degrees_of_families rises with n": (lambda n: planning.degrees_of_families(n, 5), [10, 100, 1000]),
    "non_inferiority_by_limits rises with the degrees": (
        lambda degrees: (
            gates.non_inferiority_by_limits(comparison.tango(8, 2, 50), 0.1, degrees=degrees).difference.high
        ),
        [3, 10, 100],
    ),
    "with_others rises with the successes": (
        lambda successes: gates.with_others(proportion.wilson(5, 50), successes, 60).value,
        [0, 5, 10],
    ),
    "minimum_detectable falls with n": (
        lambda n: -(planning.minimum_detectable(n, discordant=0.2) or 0),
        [50, 200, 5000],
    ),
    "mcnemar falls as the sides part": (lambda b: -comparison.mcnemar(b, 3).p, [3, 6, 12, 40]),
    "fisher_exact falls as the sides part": (lambda k: -comparison.fisher_exact(k, 50, 10, 50), [10, 15, 30, 50]),
    "tango_score falls with the difference": (
        lambda difference: -comparison.tango_score(8, 2, 50, difference),
        [-0.9, -0.1, 0.0, 0.1, 0.9],
    ),
    "farrington_manning_score falls with the difference": (
        lambda difference: -comparison.farrington_manning_score(8, 20, 2, 50, difference),
        [-0.9, -0.1, 0.0, 0.1, 0.9],
    ),
    "log_e_value rises away from the rate": (lambda p0: gates.log_e_value(3, 7, p0), [0.3, 0.4, 0.6, 0.9]),
}


@pytest.mark.parametrize(("function", "arguments"), MONOTONE.values(), ids=MONOTONE)
def test_a_result_moves_the_way_it_must(function: Callable[[Any], float | None], arguments: list[Any]) -> None:
    results = [function(argument) for argument in arguments]
    assert None not in results
    assert results == sorted(results, key=lambda result: result or 0)
    assert len(set(results)) == len(results)


@pytest.mark.parametrize("adjust", [comparison.holm, comparison.benjamini_hochberg, comparison.bonferroni])
def test_an_adjusted_p_is_never_smaller_and_keeps_the_order(adjust: Callable[..., Sequence[float | None]]) -> None:
    adjusted = [p for p in adjust(sorted(P_VALUES)) if p is not None]
    assert adjusted == sorted(adjusted)
    assert all(after >= before for after, before in zip(adjusted, sorted(P_VALUES), strict=True))


def functions(module: ModuleType) -> list[str]:
    """Return the public functions that a module defines, those that only refuse input aside."""
    return [
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith(("_", "check_"))
    ]


# Constants of the others, which their own tests know.
NOT_IN_TABLES = {"critical_value", "undefined", "score_limits"}
# The entries that a gate still needs are searched for by trying: tests/analysis/test_gates.py.
NOT_IN_TABLES |= {"more_entries", "more_families", "more_pairs", "more_entries_of_each", "more_to_narrow"}
NOT_IN_TABLES |= {"entries_without_any"}
# What comes after a label: tests/stats/test_labelling.py.
NOT_IN_TABLES |= {"shown_below", "draw_chances", "labels_to_decide"}
# One rate behind verdicts: tests/stats/test_stats_judges.py and test_labelled_families.py.
NOT_IN_TABLES |= {
    "youden_j",
    "rogan_gladen",
    "rate_from_shares",
    "rate_if_less_specific",
    "lang_reiczigel",
    "two_phase",
    "ppi_weight",
}
NOT_IN_TABLES |= {"ppi_mean", "labels_only", "labelled_rate", "labelled_weight", "family_variance", "with_families"}
NOT_IN_TABLES |= {"two_phase_gradient", "prediction_powered_gradient", "over_all_gradient"}


@pytest.mark.parametrize(
    "module",
    [
        proportion,
        clusters,
        attempts,
        comparison,
        planning,
        slices,
        gates,
        judge_error,
        labelling,
        verdict_quality,
    ],
    ids=lambda m: m.__name__,
)
def test_every_function_has_a_row(module: ModuleType) -> None:
    tables = (INTERVALS, ORDER, RELABELLED, SWAPPED, REPEATED, UNCHANGED, EQUAL, MONOTONE)
    words = {word for table in tables for title in table for word in re.findall(r"\w+", title)}
    assert set(functions(module)) - NOT_IN_TABLES <= words
