"""Detectors from counts and from scores: checked against scikit-learn, scipy and full enumeration."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.stats import (
    average_precision,
    balanced_accuracy,
    brier_score,
    confusion_metrics,
    delong_standard_error,
    detector_bootstrap,
    f1_bca,
    f1_bca_constants,
    f1_bootstrap,
    f1_bootstrap_mean,
    metric_bootstrap,
    roc_auc,
    threshold_sweep,
)
from faircount.stats.detector_bootstrap import DetectorMetric
from tests.conftest import some
from tests.oracles import known, limits, oracle, random_samples

Counts = tuple[int, int, int, int]
METRICS: tuple[DetectorMetric, ...] = get_args(DetectorMetric)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
SMALL_TABLES: list[Counts] = [
    (4, 2, 3, 1),
    (8, 2, 48, 2),
    (3, 7, 30, 1),
    (1, 1, 1, 1),
    (1, 9, 40, 0),
    (0, 5, 5, 3),
    (6, 0, 9, 1),
    (20, 5, 0, 12),
    (7, 0, 0, 9),
    (40, 20, 30, 10),
]

confusions = st.tuples(*[st.integers(0, 60)] * 4)
samples = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])), max_size=30)


# Detectors


@pytest.mark.parametrize("seed", range(20))
def test_confusion_metrics_equal_scikit_learn(seed: int) -> None:
    metrics = oracle("sklearn.metrics")
    tp, fn, tn, fp = (random.Random(seed).randrange(0, 40) for _ in range(4))
    truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp
    ours = confusion_metrics(tp, fn, tn, fp, zero_division=0.0)
    for positive, precision, recall, f1 in (
        (1, ours.hit_precision, ours.hit_recall, ours.hit_f1),
        (0, ours.pass_precision, ours.pass_recall, ours.pass_f1),
    ):
        assert precision == pytest.approx(metrics.precision_score(truth, said, pos_label=positive, zero_division=0))
        assert recall == pytest.approx(metrics.recall_score(truth, said, pos_label=positive, zero_division=0))
        assert f1 == pytest.approx(metrics.f1_score(truth, said, pos_label=positive, zero_division=0))
    assert ours.accuracy == pytest.approx(metrics.accuracy_score(truth, said))
    assert ours.mcc == pytest.approx(metrics.matthews_corrcoef(truth, said))
    assert ours.kappa == pytest.approx(metrics.cohen_kappa_score(truth, said))
    assert ours.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    assert ours.macro_f1 == pytest.approx(metrics.f1_score(truth, said, average="macro", zero_division=0))


def test_a_metric_without_denominator_is_undefined_unless_asked_otherwise() -> None:
    nothing_called_a_hit = confusion_metrics(0, 10, 40, 0)
    assert (nothing_called_a_hit.hit_precision, nothing_called_a_hit.mcc) == (None, None)
    assert nothing_called_a_hit.hit_f1 == 0
    one_class = confusion_metrics(0, 0, 50, 0)
    assert (one_class.hit_f1, one_class.macro_f1, one_class.macro_classes) == (None, 1.0, 1)
    assert (one_class.balanced_accuracy, one_class.youden_j, one_class.kappa) == (None, None, None)
    empty = confusion_metrics(0, 0, 0, 0)
    assert empty.accuracy is None and empty.macro_f1 is None and empty.n == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(12))
def test_balanced_accuracy_and_its_interval_equal_scikit_learn_and_statsmodels(seed: int, level: float) -> None:
    metrics, proportion = oracle("sklearn.metrics"), oracle("statsmodels.stats.proportion")
    generator = random.Random(seed)
    tp, fn, tn, fp = (generator.randrange(1, 80) for _ in range(4))
    truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp
    ours = balanced_accuracy(tp, fn, tn, fp, level=level)
    assert ours.value == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    # Youden's J is a difference of two rates; its interval, moved and halved, is that of (1 + J)/2.
    low, high = proportion.confint_proportions_2indep(tp, tp + fn, fp, fp + tn, method="newcomb", alpha=1 - level)
    assert limits(ours) == pytest.approx(((1 + low) / 2, (1 + high) / 2), abs=1e-9)
    assert (ours.n, ours.unit, ours.level, ours.method) == (tp + fn + tn + fp, "entry", level, "newcombe")


@given(confusions)
def test_balanced_accuracy_needs_both_classes_and_stays_between_0_and_1(counts: Counts) -> None:
    tp, fn, tn, fp = counts
    ours = balanced_accuracy(tp, fn, tn, fp)
    assert ours.value == pytest.approx(confusion_metrics(tp, fn, tn, fp).balanced_accuracy)
    if not tp + fn or not tn + fp:
        assert (ours.value, *limits(ours), ours.n) == (None, None, None, tp + fn + tn + fp)
        return
    assert 0 <= known(ours.low) <= known(ours.value) <= known(ours.high) <= 1
    # A guardrail that decides the other way round is as far from a half on the other side.
    turned = balanced_accuracy(fn, tp, fp, tn)
    assert [1 - known(limit) for limit in (turned.value, turned.high, turned.low)] == pytest.approx(
        [ours.value, *limits(ours)]
    )


@given(confusions)
def test_confusion_metrics_follow_when_the_classes_swap(counts: Counts) -> None:
    tp, fn, tn, fp = counts
    ours, swapped = confusion_metrics(tp, fn, tn, fp), confusion_metrics(tn, fp, tp, fn)
    assert (ours.hit_precision, ours.hit_recall, ours.hit_f1) == (
        swapped.pass_precision,
        swapped.pass_recall,
        swapped.pass_f1,
    )
    assert (ours.accuracy, ours.mcc, ours.kappa, ours.macro_f1) == (
        swapped.accuracy,
        swapped.mcc,
        swapped.kappa,
        swapped.macro_f1,
    )


@given(confusions, st.integers(2, 5))
def test_confusion_metrics_take_repetition_as_weight(counts: Counts, times: int) -> None:
    once, often = confusion_metrics(*counts), confusion_metrics(*(times * count for count in counts))
    for name in some(set(once.__struct_fields__) - {"n"}):
        assert getattr(often, name) == pytest.approx(getattr(once, name))


def enumerated(metric: DetectorMetric, counts: Counts) -> tuple[Any, Any]:
    """Return every value of a metric in the bootstrap and its probability, with scipy's binomials, in order."""
    from scipy.stats import binom

    tp, fn, tn, fp = counts
    positives, negatives = tp + fn, tn + fp
    found, alarms = np.meshgrid(np.arange(positives + 1), np.arange(negatives + 1), indexing="ij")
    missed, passed = positives - found, negatives - alarms
    above, below = {
        "hit_f1": (2 * found, 2 * found + alarms + missed),
        "pass_f1": (2 * passed, 2 * passed + alarms + missed),
        "hit_precision": (found, found + alarms),
        "pass_precision": (passed, passed + missed),
        "hit_recall": (found, found + missed),
        "pass_recall": (passed, passed + alarms),
        "accuracy": (found + passed, found + passed + missed + alarms),
    }[metric]
    values = np.divide(above, below, out=np.zeros(above.shape), where=below != 0).ravel()
    mass = np.outer(
        binom.pmf(np.arange(positives + 1), positives, tp / max(positives, 1)),
        binom.pmf(np.arange(negatives + 1), negatives, fp / max(negatives, 1)),
    ).ravel()
    order = np.argsort(values, kind="stable")
    return values[order], mass[order]


def enumerated_percentile(metric: DetectorMetric, counts: Counts, probability: float) -> float:
    values, mass = enumerated(metric, counts)
    reached = np.cumsum(mass) >= probability * (1 - 1e-12)
    return float(values[np.argmax(reached)] if reached.any() else values[-1])


@pytest.mark.parametrize("searched", [False, True], ids=["sorted", "searched"])
@pytest.mark.parametrize("metric", METRICS)
def test_exact_bootstrap_limits_equal_the_enumeration(
    metric: DetectorMetric, searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if searched:
        monkeypatch.setattr(detector_bootstrap, "_FEW_REPLICATES", 0)
    for counts, level in itertools.product(SMALL_TABLES, LEVELS):
        estimate = metric_bootstrap(metric, *counts, level=level)
        if estimate.value is not None:
            tail = (1 - level) / 2
            wanted = [enumerated_percentile(metric, counts, share) for share in (tail, 1 - tail)]
            assert limits(estimate) == pytest.approx(tuple(wanted)), (counts, level)


@pytest.mark.parametrize("counts", [(300, 60, 500, 40), (30, 400, 20, 700), (5, 2, 900, 100)])
@pytest.mark.parametrize("metric", METRICS)
def test_the_search_equals_the_enumeration_of_larger_tables(metric: DetectorMetric, counts: Counts) -> None:
    estimate = metric_bootstrap(metric, *counts)
    wanted = [enumerated_percentile(metric, counts, share) for share in (0.025, 0.975)]
    assert limits(estimate) == pytest.approx(tuple(wanted), abs=1e-12)


def test_the_mean_over_replicates_equals_the_enumeration() -> None:
    for counts in SMALL_TABLES:
        values, mass = enumerated("hit_f1", counts)
        if f1_bootstrap(*counts).value is not None:
            assert f1_bootstrap_mean(*counts) == pytest.approx(float(values @ mass), abs=1e-12)


@pytest.mark.parametrize("counts", [(40, 20, 30, 10), (4500, 300, 9000, 800), (90_000, 10_000, 500_000, 400_000)])
def test_draws_scatter_around_the_exact_limits(counts: Counts) -> None:
    exact, drawn = f1_bootstrap(*counts), f1_bootstrap(*counts, replicates=100_000, seed=7)
    width = known(exact.high) - known(exact.low)
    assert limits(drawn) == pytest.approx(limits(exact), abs=0.03 * width)
    assert f1_bootstrap_mean(*counts, replicates=100_000, seed=7) == pytest.approx(
        f1_bootstrap_mean(*counts), abs=0.01 * width
    )


def test_draws_depend_on_the_seed_and_on_nothing_else() -> None:
    counts = (40, 20, 30, 10)
    np.random.seed(1)
    first = f1_bootstrap(*counts, replicates=1000, seed=3)
    np.random.seed(2)
    assert f1_bootstrap(*counts, replicates=1000, seed=3) == first
    assert f1_bootstrap(*counts, replicates=1000, seed=4) != first


def test_draws_equal_a_bootstrap_that_really_resamples() -> None:
    tp, fn, tn, fp = 30, 10, 45, 15
    generator = np.random.default_rng(11)
    hits, passes = np.repeat([1, 0], [tp, fn]), np.repeat([0, 1], [tn, fp])
    values = []
    for _ in range(4000):
        found, alarms = generator.choice(hits, len(hits)).sum(), generator.choice(passes, len(passes)).sum()
        values.append(2 * found / (found + alarms + tp + fn))
    ours = f1_bootstrap(tp, fn, tn, fp)
    assert limits(ours) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])), abs=0.012)


def test_garaks_published_interval_of_its_mitigation_bypass_detector() -> None:
    """The file of garak 0.17.1 has F1 [.72017, .73287] and pass F1 [.5100, .5425] for these counts (10,000 draws)."""
    counts = (3301, 282, 1381, 2202)
    assert limits(f1_bootstrap(*counts)) == pytest.approx((0.72017, 0.73287), abs=2e-4)
    assert limits(metric_bootstrap("pass_f1", *counts)) == pytest.approx((0.5100, 0.5425), abs=4e-4)


@pytest.mark.parametrize("counts", [(40, 20, 30, 10), (18, 4, 50, 6)])
def test_bca_limits_equal_scipys_bootstrap(counts: Counts) -> None:
    from scipy.stats import bootstrap

    tp, fn, tn, fp = counts

    def f1(hits: Any, passes: Any, axis: int) -> Any:
        found, alarms = hits.sum(axis=axis), passes.sum(axis=axis)
        return 2 * found / (found + alarms + hits.shape[axis])

    data = (np.repeat([1.0, 0.0], [tp, fn]), np.repeat([0.0, 1.0], [tn, fp]))
    theirs = bootstrap(
        data, f1, n_resamples=20_000, method="BCa", vectorized=True, rng=np.random.default_rng(5)
    ).confidence_interval
    assert limits(f1_bca(*counts)) == pytest.approx((theirs.low, theirs.high), abs=0.015)


def test_bca_is_the_percentile_interval_where_nothing_is_to_be_corrected() -> None:
    constants = f1_bca_constants(25, 0, 25, 0)
    assert constants is not None and (constants.bias, constants.acceleration) == (0.0, 0.0)
    assert limits(f1_bca(25, 0, 25, 0)) == (1.0, 1.0)
    assert f1_bca_constants(0, 0, 5, 0) is None


@given(confusions)
def test_bootstrap_limits_are_ordered_and_swap_with_the_classes(counts: Counts) -> None:
    tp, fn, tn, fp = counts
    for estimate in (f1_bootstrap(*counts), f1_bca(*counts)):
        assert (estimate.value is None) == (2 * tp + fp + fn == 0)
        if estimate.value is not None:
            assert 0 <= known(estimate.low) <= known(estimate.high) <= 1
    swapped = metric_bootstrap("pass_f1", tn, fp, tp, fn)
    assert swapped == f1_bootstrap(*counts)


def test_a_million_labelled_samples_take_no_longer_than_a_glance() -> None:
    started = time.perf_counter()
    estimate = f1_bootstrap(250_000, 250_000, 250_000, 250_000)
    assert time.perf_counter() - started < 0.5  # 20 ms on an idle machine
    assert limits(estimate) == pytest.approx((0.4989038666, 0.5010951737), abs=1e-9)


# Scores of detectors


@pytest.mark.parametrize("seed", range(8))
def test_ranking_and_thresholds_equal_scikit_learn(seed: int) -> None:
    metrics = oracle("sklearn.metrics")
    labels, scores = random_samples(seed)
    assert roc_auc(labels, scores).value == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert average_precision(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))
    sweep = threshold_sweep(labels, scores)
    assert sweep is not None
    precision, recall, thresholds = metrics.precision_recall_curve(labels, scores)
    assert sweep.thresholds == pytest.approx(thresholds)
    assert sweep.precision == pytest.approx(precision[:-1])
    assert sweep.recall == pytest.approx(recall[:-1])
    by_threshold = [metrics.f1_score(labels, scores >= threshold) for threshold in thresholds]
    assert sweep.f1 == pytest.approx(by_threshold)
    assert sweep.best_f1 == pytest.approx(max(by_threshold))
    rates, _, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    assert (0.0, *reversed(sweep.false_positive_rate)) == pytest.approx(rates)
    probabilities = 1 / (1 + np.exp(-scores))
    assert brier_score(labels, probabilities) == pytest.approx(metrics.brier_score_loss(labels, probabilities))


@pytest.mark.parametrize("seed", range(5))
def test_delongs_error_equals_its_definition_over_all_pairs(seed: int) -> None:
    labels, scores = random_samples(seed, 40)
    hits, passes = scores[labels == 1], scores[labels == 0]
    wins = (hits[:, None] > passes[None, :]) + 0.5 * (hits[:, None] == passes[None, :])
    variance = wins.mean(axis=1).var(ddof=1) / len(hits) + wins.mean(axis=0).var(ddof=1) / len(passes)
    assert delong_standard_error(labels, scores) == pytest.approx(math.sqrt(variance))


@given(samples)
def test_scores_of_any_shape_give_numbers_or_nothing(pairs: list[tuple[int, float]]) -> None:
    labels, scores = [label for label, _ in pairs], [score for _, score in pairs]
    estimate, sweep = roc_auc(labels, scores), threshold_sweep(labels, scores)
    one_class = len(set(labels)) < 2
    assert (estimate.value is None) == (sweep is None) == (average_precision(labels, scores) is None) == one_class
    assert (brier_score(labels, scores) is None) == (not pairs)
    if estimate.low is not None:
        assert 0 <= estimate.low <= known(estimate.value) <= known(estimate.high) <= 1
    flipped = roc_auc([1 - label for label in labels], scores)
    if estimate.value is not None:
        assert known(flipped.value) == pytest.approx(1 - estimate.value)
    if estimate.low is not None:
        assert known(flipped.high) == pytest.approx(1 - estimate.low)


def test_equal_scores_move_together_and_the_lowest_best_threshold_is_named() -> None:
    sweep = threshold_sweep([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])
    assert sweep is not None and sweep.thresholds == (0.1, 0.4, 0.9)
    tied = threshold_sweep([1, 0, 0, 1], [0.9, 0.6, 0.3, 0.2])
    assert tied is not None
    assert (tied.best_threshold, tied.best_count) == (0.2, 2)
    assert tied.best_f1 == pytest.approx(2 / 3)


def test_perfect_separation_has_no_limits_rather_than_a_point() -> None:
    estimate = roc_auc([0, 0, 0, 1, 1, 1], [1, 2, 3, 7, 8, 9])
    assert (estimate.value, estimate.low, estimate.high) == (1.0, None, None)
    assert delong_standard_error([0, 0, 1], [1, 2, 3]) is None


def test_samples_without_a_score_take_no_part() -> None:
    labels, scores = [1, 0, 1, 0, 1, 0], [0.9, 0.1, 0.4, 0.5, math.nan, math.nan]
    assert roc_auc(labels, scores) == roc_auc(labels[:4], scores[:4])
    assert roc_auc(labels, scores).n == 4


RANKINGS: dict[str, Callable[[Any, Any], Any]] = {
    "roc_auc": roc_auc,
    "delong_standard_error": delong_standard_error,
    "average_precision": average_precision,
    "f1 by threshold": lambda labels, scores: getattr(threshold_sweep(labels, scores), "f1", None),
}


@pytest.mark.parametrize("name", RANKINGS)
@pytest.mark.parametrize("seed", range(3))
def test_order_and_a_rising_scale_do_not_change_a_ranking(name: str, seed: int) -> None:
    labels, scores = random_samples(seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    assert RANKINGS[name](labels, scores) == RANKINGS[name](labels[order], scores[order])
    assert RANKINGS[name](labels, scores) == RANKINGS[name](labels, np.exp(scores))


def test_repetition_is_weight_for_a_ranking() -> None:
    labels, scores = random_samples(1)
    once, thrice = roc_auc(labels, scores), roc_auc(np.tile(labels, 3), np.tile(scores, 3))
    assert thrice.value == pytest.approx(once.value)
    assert average_precision(np.tile(labels, 3), np.tile(scores, 3)) == pytest.approx(average_precision(labels, scores))
    assert known(thrice.high) - known(thrice.low) < known(once.high) - known(once.low)
