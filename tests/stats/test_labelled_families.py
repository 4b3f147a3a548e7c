"""Intervals of rates from labels that respect families, against derivatives by weight and against the plain rate."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs
from scipy import stats as scipy_stats

from faircount.core import Estimate
from faircount.stats import (
    FamilyVariance,
    LabelledCorrector,
    LabelledPart,
    VerdictCounts,
    cluster_wilson,
    family_variance,
    over_all_gradient,
    ppi_mean,
    ppi_weight,
    prediction_powered_gradient,
    two_phase,
    two_phase_gradient,
    with_families,
)
from tests.oracles import expected_correlation

Rate = Callable[[Sequence[float]], float]
"""A rate as a function of entries, judged successes, their labels and true ones, and judged failures alike."""


def drawn(seed: int, families: int = 30) -> list[VerdictCounts]:
    draw = random.Random(seed)
    found = []
    for _ in range(families):
        parts = []
        for share in (0.8, 0.1):
            judged = draw.randint(0, 9)
            labelled = draw.randint(0, judged)
            parts.append(LabelledPart(judged, labelled, sum(draw.random() < share for _ in range(labelled))))
        entries = parts[0].judged + parts[1].judged + draw.randint(0, 3)
        found.append(VerdictCounts(entries, parts[0], parts[1], draw.randint(1, 3)))
    return found


def together(families: Sequence[VerdictCounts]) -> VerdictCounts:
    sums = [sum(f.times * f.counts[place] for f in families) for place in range(7)]
    return VerdictCounts(sums[0], LabelledPart(*sums[1:4]), LabelledPart(*sums[4:7]), families=tuple(families))


def two_phase_rate(counts: Sequence[float]) -> float:
    _, s, m1, t1, f, m0, t0 = counts
    return (s * t1 / m1 + f * t0 / m0) / (s + f)


def prediction_powered_rate(weight: float) -> Rate:
    def rate(counts: Sequence[float]) -> float:
        _, s, m1, t1, f, m0, t0 = counts
        m = m1 + m0
        return (t1 + t0) / m - weight * (m1 / m - (s - m1) / (s + f - m))

    return rate


def over_all(rate: Rate) -> Rate:
    return lambda counts: rate(counts) * (counts[1] + counts[4]) / counts[0]


def variance_by_weights(rate: Rate, units: Sequence[tuple[int, Sequence[float]]]) -> float:
    """Return Σ(∂rate/∂weight of a unit)², the derivative by a small change of the weight."""
    step = 1e-6
    totals = [math.fsum(times * counts[place] for times, counts in units) for place in range(7)]
    squares = []
    for times, counts in units:
        up, down = (
            rate([total + sign * step * count for total, count in zip(totals, counts, strict=True)]) for sign in (1, -1)
        )
        squares.append(times * ((up - down) / (2 * step)) ** 2)
    return math.fsum(squares)


def entries_of(family: VerdictCounts) -> list[tuple[int, Sequence[float]]]:
    s, f = family.successes, family.failures
    return [
        (family.times * (family.total - s.judged - f.judged), (1, 0, 0, 0, 0, 0, 0)),
        (family.times * (s.judged - s.labelled), (1, 1, 0, 0, 0, 0, 0)),
        (family.times * (s.labelled - s.true), (1, 1, 1, 0, 0, 0, 0)),
        (family.times * s.true, (1, 1, 1, 1, 0, 0, 0)),
        (family.times * (f.judged - f.labelled), (1, 0, 0, 0, 1, 0, 0)),
        (family.times * (f.labelled - f.true), (1, 0, 0, 0, 1, 1, 0)),
        (family.times * f.true, (1, 0, 0, 0, 1, 1, 1)),
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("which", ["two-phase", "ppi"])
@pytest.mark.parametrize("everything", [False, True], ids=["judged", "all"])
def test_the_variance_is_that_of_small_changes_of_weights(seed: int, which: str, everything: bool) -> None:
    families = drawn(seed)
    whole = together(families)
    rate: Rate = two_phase_rate if which == "two-phase" else prediction_powered_rate(0.6)
    gradient: tuple[float, ...] = (
        two_phase_gradient(whole) if which == "two-phase" else prediction_powered_gradient(whole, 0.6)
    )
    if everything:
        gradient = over_all_gradient(gradient, rate(whole.counts), whole)
        rate = over_all(rate)
    found = family_variance(gradient, families)
    assert found is not None
    count = sum(family.times for family in families)
    expected = variance_by_weights(rate, [(family.times, family.counts) for family in families])
    assert found.clustered == pytest.approx(count / (count - 1) * expected, rel=1e-6)
    alone = variance_by_weights(rate, [unit for family in families for unit in entries_of(family)])
    assert found.independent == pytest.approx(alone, rel=1e-6)


def test_entries_taken_alone_have_the_variance_of_the_plain_estimates() -> None:
    families = drawn(7)
    whole = together(families)
    successes, failures, n = whole.successes, whole.failures, whole.judged
    found = family_variance(two_phase_gradient(whole), families)
    assert found is not None
    shares = [part.true / part.labelled for part in (successes, failures)]
    parts = list(zip((successes, failures), shares, strict=True))
    rate = sum(part.judged * share for part, share in parts) / n
    within = sum((part.judged / n) ** 2 * share * (1 - share) / part.labelled for part, share in parts)
    between = sum(part.judged / n * (share - rate) ** 2 for part, share in parts) / n
    assert found.independent == pytest.approx(within + between)
    labels = [1] * successes.true + [0] * (successes.labelled - successes.true)
    labels += [1] * failures.true + [0] * (failures.labelled - failures.true)
    verdicts = [1.0] * successes.labelled + [0.0] * failures.labelled
    others = [1.0] * (successes.judged - successes.labelled) + [0.0] * (failures.judged - failures.labelled)
    weight = ppi_weight(labels, verdicts, others)
    powered = ppi_mean(labels, verdicts, others, weight=weight)
    variance = family_variance(prediction_powered_gradient(whole, weight), families)
    assert variance is not None
    half = float(scipy_stats.norm.ppf(0.975)) * math.sqrt(variance.independent)
    assert (powered.value or 0) + half == pytest.approx(powered.high)


def test_labels_of_all_entries_give_the_limits_of_a_plain_rate_over_families() -> None:
    draw = random.Random(3)
    families, true = [], []
    for _ in range(40):
        chance = draw.betavariate(1, 3)
        hits = sum(draw.random() < chance for _ in range(10))
        families.append(VerdictCounts(10, LabelledPart(hits, hits, hits), LabelledPart(10 - hits, 10 - hits, 0)))
        true.append(hits)
    whole = together(families)
    variance = family_variance(two_phase_gradient(whole), families)
    assert variance is not None
    raw = cluster_wilson(true, [10] * 40)
    assert variance.clustered == pytest.approx((raw.standard_error or 0) ** 2)
    assert (variance.degrees, variance.labels, variance.entries) == (39, 400, 400)
    found = with_families(two_phase(whole.successes, whole.failures), variance)
    assert (found.value, found.low, found.high) == pytest.approx(
        (raw.estimate.value, raw.estimate.low, raw.estimate.high)
    )


def estimate(value: float | None, low: float | None, high: float | None) -> Estimate:
    return Estimate(value, low, high, 100, "entry", 0.95, "two-phase")


def test_limits_are_never_narrower_than_without_families() -> None:
    found = with_families(estimate(0.3, 0.1, 0.6), FamilyVariance(1e-6, 1e-6, 49, 100, 0.0, 500))
    assert (found.low, found.high) == (0.1, 0.6)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_without_a_success_labels_count_as_far_as_families_let_them(value: float) -> None:
    # 25 families of 8, with 100 labels and a correlation of 0.4: 1/100 for labels and 7·0.4/200 for families.
    found = with_families(estimate(value, value, value), FamilyVariance(0.0, 0.0, 24, 100, 7 * 0.4, 200))
    t, size = float(scipy_stats.t.ppf(0.975, 24)), 1 / (1 / 100 + 7 * 0.4 / 200)
    far = t**2 / (size + t**2)
    assert (found.low, found.high) == pytest.approx((0, far) if value == 0 else (1 - far, 1))


def test_the_floor_is_that_of_the_labels_of_each_family() -> None:
    families = drawn(7)
    whole = together(families)
    found = family_variance(two_phase_gradient(whole), families)
    assert found is not None
    every = [family for family in families for _ in range(family.times)]
    labels = [family.successes.labelled + family.failures.labelled for family in every]
    true = [family.successes.true + family.failures.true for family in every]
    sizes = [family.total for family in every]
    typical = sum(size * size for size in sizes) / sum(sizes)
    kept = [(s, m) for s, m in zip(true, labels, strict=True) if m]
    alike = expected_correlation([s for s, _ in kept], [m for _, m in kept])
    assert found.floor == pytest.approx((typical - 1) * alike, rel=5e-3)
    assert (found.labels, found.entries) == (sum(labels), sum(sizes))
    rate = two_phase(whole.successes, whole.failures)
    raised = with_families(rate, structs.replace(found, clustered=0.0, floor=1e3))
    assert raised.low is not None and rate.low is not None and raised.low < rate.low


def test_one_family_gives_no_interval() -> None:
    family = VerdictCounts(20, LabelledPart(10, 5, 4), LabelledPart(10, 5, 1))
    assert family_variance(two_phase_gradient(family), [family]) is None
    found = with_families(estimate(0.3, 0.1, 0.6), None)
    assert (found.value, found.low, found.high) == (0.3, None, None)


def test_unequal_families_are_worth_fewer() -> None:
    part = LabelledPart(0, 0, 0)
    families = [VerdictCounts(10, LabelledPart(5, 2, 1), LabelledPart(5, 2, 0))]
    families += [VerdictCounts(1, LabelledPart(1, 1, 1), part, 10)]
    whole = VerdictCounts(20, LabelledPart(15, 12, 11), LabelledPart(5, 2, 0))
    found = family_variance(two_phase_gradient(whole), families)
    assert found is not None
    assert found.degrees == int(20**2 / 110) - 1


def test_the_weight_of_the_verdicts_is_not_rounded() -> None:
    families = drawn(3)
    whole = together(families)
    labels, verdicts, unlabelled = whole.one_by_one
    weight = ppi_weight(labels, verdicts, unlabelled)
    assert weight != float(f"{weight:.4g}")
    judged = ppi_mean(labels, verdicts, unlabelled, unit="judged entry")
    found = LabelledCorrector(0.95, method="ppi").rate(whole).judged

    def variance_of(used: float) -> FamilyVariance:
        variance = family_variance(prediction_powered_gradient(whole, used), families)
        assert variance is not None
        return variance

    assert found == with_families(judged, variance_of(weight))
    assert found != with_families(judged, variance_of(float(f"{weight:.4g}")))
