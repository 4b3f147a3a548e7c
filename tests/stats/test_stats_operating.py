"""Thresholds and their bounds: against scikit-learn, scipy, an exact recursion, and simulation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.stats import (
    RocStep,
    clopper_pearson,
    expected_cost,
    local_level,
    operating_point,
    precision_at,
    roc_band,
    simultaneous_limits,
    threshold_sweep,
)
from tests.conftest import some
from tests.oracles import known, limits, oracle, random_samples

Scores = Callable[[Any, int], Any]


# -- a threshold that is chosen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n", [20, 58, 59, 298, 299, 1000])
def test_the_rank_is_that_of_the_neyman_pearson_umbrella_algorithm(n: int, rate: float, level: float) -> None:
    """Tong, Feng and Li 2018: the least k with P(Binomial(n, 1 - rate) >= k) <= delta."""
    binom = oracle("scipy.stats").binom
    delta = 1 - level
    ranks = [k for k in range(1, n + 1) if binom.sf(k - 1, n, 1 - rate) <= delta * (1 + 1e-12)]
    passes = np.arange(n, dtype=float)
    point = operating_point([1] + [0] * n, [n + 5.0, *passes], rate, level=level)
    assert point is not None
    if not ranks:
        assert (point.threshold, point.most_errors) == (None, None)
        assert binom.sf(point.samples_needed - 1, point.samples_needed, 1 - rate) <= delta * (1 + 1e-9)
        assert binom.sf(point.samples_needed - 2, point.samples_needed - 1, 1 - rate) > delta
        return
    assert point.most_errors == n - min(ranks)
    # Just above the score of that rank: the next one, which is the hit where it is the highest of the passes.
    assert point.threshold == (passes[min(ranks)] if min(ranks) < n else n + 5.0)


def test_299_harmless_prompts_without_a_false_alarm_show_one_percent() -> None:
    point = operating_point([1] + [0] * 10, [1.0] + [0.0] * 10, 0.01)
    assert point is not None and (point.threshold, point.samples_needed) == (None, 299)


@pytest.mark.parametrize("seed", range(6))
def test_to_hold_a_recall_is_to_hold_the_rate_of_misses_with_the_classes_turned_round(seed: int) -> None:
    labels, scores = random_samples(seed, 300)
    for wanted in (0.5, 0.8, 0.95):
        point = operating_point(labels, scores, recall=wanted)
        turned = operating_point(1 - labels, -scores, 1 - wanted)
        assert point is not None and turned is not None
        assert (point.most_errors, point.samples_needed) == (turned.most_errors, turned.samples_needed)
        if point.threshold is None:
            continue
        assert known(point.recall.low) >= wanted
        assert point.recall.value == pytest.approx((scores[labels == 1] >= point.threshold).mean())
        alarms = int((scores[labels == 0] >= point.threshold).sum())
        proportion = oracle("statsmodels.stats.proportion")
        expected = proportion.proportion_confint(alarms, int((labels == 0).sum()), method="wilson")
        assert limits(point.false_positive_rate) == pytest.approx(expected, abs=1e-9)


def test_one_rate_is_held_and_neither_none_nor_both() -> None:
    for rate, recall in ((None, None), (0.1, 0.9)):
        with pytest.raises(ValueError, match="one of them"):
            operating_point([1, 0], [1, 0], rate, recall=recall)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        operating_point([1, 0], [1, 0], recall=1.0)
    assert operating_point([0, 0], [0.1, 0.2], 0.1) is None


DISCRETE: dict[str, Scores] = {
    "continuous": lambda generator, n: generator.normal(0, 1, n),
    "tenths": lambda generator, n: np.round(generator.beta(1, 4, n), 1),
    "three values": lambda generator, n: generator.choice([0.0, 0.5, 1.0], n, p=[0.84, 0.1, 0.06]),
}


def true_rate(kind: str, threshold: float) -> float:
    """Return the share of scores of a kind that reach a threshold."""
    stats = oracle("scipy.stats")
    if kind == "continuous":
        return float(stats.norm.sf(threshold))
    if kind == "tenths":
        return float(stats.beta.sf(round(threshold * 10) / 10 - 0.05, 1, 4))
    return 1.0 if threshold <= 0 else 0.16 if threshold <= 0.5 else 0.06


@pytest.mark.parametrize("kind", DISCRETE)
def test_the_limit_holds_for_the_threshold_that_was_chosen(kind: str) -> None:
    """P(false positive rate > wanted) and P(false positive rate > limit) are at most 1 - level, with ties as well."""
    generator, draws, level = np.random.default_rng(5), 600, 0.9
    for wanted in (0.07, 0.15):
        broken = beyond = 0
        for _ in range(draws):
            labels = np.repeat([1, 0], [30, 150])
            scores = np.concatenate([DISCRETE[kind](generator, 30) + 0.5, DISCRETE[kind](generator, 150)])
            point = operating_point(labels, scores, wanted, level=level)
            assert point is not None
            if point.threshold is not None:
                rate = true_rate(kind, point.threshold)
                broken += rate > wanted
                beyond += rate > known(point.false_positive_rate.high)
        most = 1 - level + 3 * math.sqrt(level * (1 - level) / draws)
        assert broken / draws <= most
        assert beyond / draws <= most


@pytest.mark.parametrize(("hits", "passes", "rate", "shift"), [(80, 120, 0.1, 1.5), (30, 59, 0.05, 0.5)])
def test_the_recall_of_the_chosen_threshold_keeps_its_level(hits: int, passes: int, rate: float, shift: float) -> None:
    """Where few hits are caught as well: then the threshold is often the score of one of them."""
    stats, generator, draws = oracle("scipy.stats"), np.random.default_rng(8), 600
    covered = 0
    for _ in range(draws):
        labels = np.repeat([1, 0], [hits, passes])
        scores = generator.normal(shift * labels, 1)
        point = operating_point(labels, scores, rate)
        if point is None or point.threshold is None:
            draws -= 1
            continue
        truth = stats.norm.sf(point.threshold - shift)
        covered += known(point.recall.low) <= truth <= known(point.recall.high)
    assert covered / draws >= 0.93


def in_families(generator: Any, families: int, size: int, shift: float, alike: float) -> tuple[Any, Any]:
    """Return scores whose families share a part of them, and the number of each one's family."""
    shared = np.repeat(generator.normal(0, math.sqrt(alike), families), size)
    return shift + shared + generator.normal(0, math.sqrt(1 - alike), families * size), np.repeat(
        np.arange(families), size
    )


@pytest.mark.parametrize("alike", [0.2, 0.8])
def test_the_limit_holds_for_families_that_are_alike_and_fails_without_them(alike: float) -> None:
    stats, generator, draws = oracle("scipy.stats"), np.random.default_rng(3), 250
    broken = {True: 0, False: 0}
    for _ in range(draws):
        passes, families = in_families(generator, 60, 6, 0.0, alike)
        hits, others = in_families(generator, 40, 1, 2.0, 0.0)
        labels = np.repeat([0, 1], [len(passes), len(hits)])
        every = np.concatenate([families, others + 1000])
        for respected in broken:
            point = operating_point(
                labels, np.concatenate([passes, hits]), 0.1, families=every if respected else None, level=0.9
            )
            assert point is not None
            broken[respected] += point.threshold is not None and stats.norm.sf(point.threshold) > 0.1
    assert broken[True] / draws <= 0.1 + 2 * math.sqrt(0.09 / draws)
    assert alike < 0.5 or broken[False] / draws > 0.15


def test_families_of_one_change_nothing() -> None:
    labels, scores = random_samples(2, 200)
    alone = np.arange(200)
    assert operating_point(labels, scores, 0.1) == operating_point(labels, scores, 0.1, families=alone)
    assert roc_band(labels, scores) == roc_band(labels, scores, families=alone)


# -- the local level --------------------------------------------------------------------------------------------------


def chance_that_all_hold(n: int, local: float) -> float:
    """Return the chance that all order statistics of n uniform numbers lie within their limits, by an exact recursion.

    The number of points up to t is a Poisson process given that it ends at n (Moscovich and Nadler 2017): its
    distribution is carried from one limit to the next, and what leaves the band is dropped.
    """
    beta, poisson = oracle("scipy.stats").beta, oracle("scipy.stats").poisson
    ranks = np.arange(1, n + 1)
    low = beta.ppf((1 - local) / 2, ranks, n - ranks + 1)
    high = beta.ppf((1 + local) / 2, ranks, n - ranks + 1)
    # Before `low[i]` there are at most i - 1 points, up to `high[i]` at least i.
    events = sorted(
        [(at, False, int(rank)) for at, rank in zip(low, ranks, strict=True)]
        + [(at, True, int(rank)) for at, rank in zip(high, ranks, strict=True)]
    )
    chances, first, before, logs = np.array([1.0]), 0, 0.0, 0.0
    for at, is_high, rank in events:
        mean = n * (at - before)
        steps = poisson.pmf(np.arange(int(mean + 10 * math.sqrt(mean) + 15)), mean)
        chances, before = np.convolve(chances, steps), at
        if is_high:
            cut = max(0, rank - first)
            chances, first = chances[cut:], first + cut
        else:
            chances = chances[: max(0, rank - first)]
        logs += math.log(chances.sum())
        chances = chances / chances.sum()
    last = poisson.pmf(n - first - np.arange(len(chances)), n * (1 - before))
    return math.exp(logs) * float(chances @ last) / float(poisson.pmf(n, n))


@pytest.mark.parametrize("level", [0.5, 0.85, 0.9, 0.95, 0.975, 0.995])
@pytest.mark.parametrize("n", [1, 2, 4, 10, 27, 75, 150, 300])
def test_limits_at_the_local_level_hold_together_at_the_level(n: int, level: float) -> None:
    assert 1 - chance_that_all_hold(n, local_level(n, level)) == pytest.approx(1 - level, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "level"), [(700, 0.95), (1600, 0.9), (4000, 0.95), (15_000, 0.95)])
def test_limits_at_the_local_level_hold_together_for_many_scores(n: int, level: float) -> None:
    assert 1 - chance_that_all_hold(n, local_level(n, level)) == pytest.approx(1 - level, rel=0.02)


def test_more_scores_need_a_higher_local_level_however_many() -> None:
    levels = [local_level(n) for n in (1, 2, 10, 55.5, 1e3, 1e4, 1e5, 1e6, 1e8)]
    assert levels == sorted(levels) and levels[0] == pytest.approx(0.95, abs=1e-3) and levels[-1] < 1


@pytest.mark.parametrize(("count", "n"), [(0, 40), (7, 40), (40, 40)])
def test_simultaneous_limits_are_those_of_clopper_and_pearson_at_the_local_level(count: int, n: int) -> None:
    assert simultaneous_limits(count, n) == limits(clopper_pearson(count, n, level=local_level(n)))
    wider = simultaneous_limits(count, n, design_effect=3.0)
    assert wider[0] <= simultaneous_limits(count, n)[0] and wider[1] >= simultaneous_limits(count, n)[1]


# -- curves and bands -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_curves_equal_scikit_learn(seed: int) -> None:
    metrics = oracle("sklearn.metrics")
    labels, scores = random_samples(seed, 150)
    band = roc_band(labels, scores)
    assert band is not None and band.thresholds == len(band.steps) - 1
    false_positive_rates, recalls, thresholds = metrics.roc_curve(labels, scores, drop_intermediate=False)
    assert [step.false_positive_rate for step in band.steps] == pytest.approx(false_positive_rates)
    assert [step.recall for step in band.steps] == pytest.approx(recalls)
    assert [step.threshold for step in band.steps[1:]] == pytest.approx(thresholds[1:])
    precision, _, _ = metrics.precision_recall_curve(labels, scores)
    observed = float(labels.mean())
    ours = [precision_at(step, observed).value for step in band.steps[1:]]
    assert ours == pytest.approx(precision[:-1][::-1])


@pytest.mark.parametrize("seed", range(4))
def test_rates_lie_in_their_rectangles_and_the_rectangles_rise(seed: int) -> None:
    labels, scores = random_samples(seed, 200)
    band = roc_band(labels, scores)
    assert band is not None
    for step in band.steps:
        assert 0 <= step.recall_low <= step.recall <= step.recall_high <= 1
        assert 0 <= step.false_positive_rate_low <= step.false_positive_rate <= step.false_positive_rate_high <= 1
        for prevalence in (0.01, 0.5):
            precision = precision_at(step, prevalence)
            if precision.value is not None:
                assert known(precision.low) <= precision.value <= known(precision.high)
            cost = expected_cost(step, prevalence, 2.0, 5.0)
            assert known(cost.low) <= known(cost.value) <= known(cost.high)
    for one, following in zip(band.steps, band.steps[1:], strict=False):
        assert one.recall_low <= following.recall_low and one.recall_high <= following.recall_high
        assert one.false_positive_rate_high <= following.false_positive_rate_high


@pytest.mark.parametrize("seed", range(5))
def test_order_and_a_rising_scale_change_no_rate_and_no_choice(seed: int) -> None:
    labels, scores = random_samples(seed, 120)
    order = np.random.default_rng(seed).permutation(len(labels))
    assert roc_band(labels, scores) == roc_band(labels[order], scores[order])
    ours, scaled = roc_band(labels, scores), roc_band(labels, np.exp(scores))
    assert ours is not None and scaled is not None
    assert [step.recall_high for step in ours.steps] == [step.recall_high for step in scaled.steps]
    for rate in (0.1, 0.3):
        one, other = operating_point(labels, scores, rate), operating_point(labels, np.exp(scores), rate)
        assert one is not None and other is not None
        assert (one.recall, one.false_positive_rate) == (other.recall, other.false_positive_rate)
        assert one == operating_point(labels[order], scores[order], rate)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 1.0, math.nan])), max_size=20))
def test_scores_of_any_shape_give_a_band_or_nothing(pairs: list[tuple[int, float]]) -> None:
    scored = [(label, score) for label, score in pairs if not math.isnan(score)]
    band = roc_band([label for label, _ in pairs], [score for _, score in pairs])
    assert (band is None) == (len({label for label, _ in scored}) < 2)
    if band is not None:
        assert band == roc_band(*zip(*scored, strict=True))
        assert (band.steps[0].found, band.steps[0].alarms) == (0, 0)
        assert (band.steps[-1].found, band.steps[-1].alarms) == (band.hits, band.passes)


def test_of_many_thresholds_the_cheapest_for_any_costs_and_those_asked_for_are_kept() -> None:
    generator = np.random.default_rng(1)
    labels = np.repeat([1, 0], [3000, 5000])
    scores = generator.normal(labels, 1)
    asked = float(np.sort(scores)[4321])
    band, sweep = roc_band(labels, scores, most=50, keep=[asked]), threshold_sweep(labels, scores)
    assert band is not None and sweep is not None and len(band.steps) < 250
    assert asked in [step.threshold for step in band.steps]
    recall, alarms = np.array(sweep.recall), np.array(sweep.false_positive_rate)
    for prevalence in (0.001, 0.1, 0.5):
        for miss in (0.5, 1.0, 40.0):
            every = prevalence * miss * (1 - recall) + (1 - prevalence) * alarms
            ours = min(known(expected_cost(step, prevalence, 1.0, miss).value) for step in band.steps)
            assert ours == pytest.approx(min(every.min(), prevalence * miss), abs=1e-12)


SHAPES: dict[str, tuple[Scores, Callable[[Any], Any]]] = {
    "normal": (lambda generator, n: generator.normal(0, 1, n), lambda x: oracle("scipy.stats").norm.sf(x)),
    "far normal": (lambda generator, n: generator.normal(1.8, 1, n), lambda x: oracle("scipy.stats").norm.sf(x - 1.8)),
    "near normal": (lambda generator, n: generator.normal(0.4, 1, n), lambda x: oracle("scipy.stats").norm.sf(x - 0.4)),
}
GRID = np.linspace(-6, 8, 1401)
STEPS = np.arange(0, 11)


def covered(generator: Any, hits: int, passes: int, shape: str, *, discrete: bool) -> bool:
    """Return whether one draw's band holds the true rates at every threshold of a fine grid, or of a discrete scale."""
    draw, reach = SHAPES[shape]
    ours, theirs = draw(generator, hits), generator.normal(0, 1, passes)
    null = SHAPES["normal"][1]
    if discrete:
        # A score is a whole number from 0 to 10: the threshold k is reached from 0.5 below it.
        ours, theirs = (np.clip(np.round(2 * x + 3), 0, 10) for x in (ours, theirs))
        at, edges = STEPS.astype(float), np.where(STEPS == 0, -np.inf, (STEPS - 0.5 - 3) / 2)
    else:
        at = edges = np.unique(np.concatenate([GRID, ours, theirs]))
    for scores, truth in ((ours, reach(edges)), (theirs, null(edges))):
        counts = len(scores) - np.searchsorted(np.sort(scores), at)
        low, high = table(len(scores))
        if (truth < low[counts] - 1e-12).any() or (truth > high[counts] + 1e-12).any():
            return False
    return True


TABLES: dict[int, tuple[Any, Any]] = {}


def table(n: int) -> tuple[Any, Any]:
    """Return the limits of every count that `roc_band` gives at 95%."""
    if n not in TABLES:
        found = [simultaneous_limits(count, n, level=math.sqrt(0.95)) for count in range(n + 1)]
        TABLES[n] = np.array([low for low, _ in found]), np.array([high for _, high in found])
    return TABLES[n]


def test_the_table_of_limits_is_what_a_band_has() -> None:
    labels, scores = random_samples(4, 90)
    band = roc_band(labels, scores)
    assert band is not None
    for step in some(band.steps):
        low, high = table(band.hits)
        assert (step.recall_low, step.recall_high) == (low[step.found], high[step.found])


@pytest.mark.parametrize("discrete", [False, True], ids=["continuous", "discrete"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("hits", "passes"), [(20, 20), (30, 400)])
def test_bands_hold_at_all_thresholds_at_once(hits: int, passes: int, shape: str, discrete: bool) -> None:
    generator = np.random.default_rng([hits, passes, discrete])
    share = np.mean([covered(generator, hits, passes, shape, discrete=discrete) for _ in range(400)])
    assert share >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("discrete", [False, True], ids=["continuous", "discrete"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("hits", "passes"), [(20, 20), (20, 2000), (100, 60), (500, 500), (2000, 2000)])
def test_bands_hold_at_all_thresholds_at_once_in_many_draws(hits: int, passes: int, shape: str, discrete: bool) -> None:
    generator = np.random.default_rng([hits, passes, discrete, 1])
    share = np.mean([covered(generator, hits, passes, shape, discrete=discrete) for _ in range(3000)])
    # Exact for continuous scores, up to the chance of 3,000 draws; ties only add to it.
    assert share >= 0.94
    assert discrete or share <= 0.965


def test_bands_of_families_hold_at_all_thresholds_at_once() -> None:
    stats, generator, draws, held = oracle("scipy.stats"), np.random.default_rng(12), 60, 0
    for _ in range(draws):
        passes, of_passes = in_families(generator, 40, 5, 0.0, 0.6)
        hits, of_hits = in_families(generator, 30, 4, 1.5, 0.6)
        labels = np.repeat([0, 1], [len(passes), len(hits)])
        band = roc_band(labels, np.concatenate([passes, hits]), families=np.concatenate([of_passes, of_hits + 1000]))
        assert band is not None and band.passes_effect > 1.5
        # Between two thresholds the counts are those of the lower one's upper neighbour.
        held += all(holds(step, at, stats) for step, at in threshold_range(band.steps))
    assert held / draws >= 0.93


def threshold_range(steps: tuple[RocStep, ...]) -> list[tuple[RocStep, float]]:
    """Return each step with the highest and the lowest threshold at which its counts are seen."""
    found = []
    for step, lower in zip(steps, [*steps[1:], None], strict=True):
        found.append((step, math.inf if step.threshold is None else step.threshold))
        found.append((step, -math.inf if lower is None else known(lower.threshold) + 1e-9))
    return found


def holds(step: RocStep, threshold: float, stats: Any) -> bool:
    recall, alarms = stats.norm.sf(threshold - 1.5), stats.norm.sf(threshold)
    return bool(
        step.recall_low <= recall <= step.recall_high
        and step.false_positive_rate_low <= alarms <= step.false_positive_rate_high
    )


def test_a_hundred_thousand_scores_take_no_longer_than_a_glance() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([1, 0], [50_000, 50_000])
    scores = generator.normal(labels, 1)
    started = time.process_time()
    band, point = roc_band(labels, scores), operating_point(labels, scores, 0.01)
    assert time.process_time() - started < 2  # 0.2 s on an idle machine
    assert band is not None and point is not None and point.threshold is not None
