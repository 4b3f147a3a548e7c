"""Agreement and imperfect judges: checked against statsmodels, krippendorff, ppi_py and published intervals.

At the end stand two tables about all of detectors, agreement, judges and repeated scores: what is refused, and what
every interval owes its reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import Estimate, Validation
from faircount.stats import (
    CorrectionStatus,
    LabelledPart,
    aggregate,
    agreement,
    best_attempts,
    brier_score,
    cohen_kappa,
    confusion_metrics,
    f1_bca,
    f1_bootstrap,
    flake_rate,
    fleiss_kappa,
    gwet_ac1,
    icc,
    icc_of_counts,
    kappa_standard_error,
    krippendorff_alpha,
    labelled_rate,
    labels_only,
    lang_reiczigel,
    majority_of_k,
    metric_bootstrap,
    next_calls,
    observed_agreement,
    pabak,
    ppi_mean,
    ppi_weight,
    rate_from_shares,
    rate_if_less_specific,
    rebel_aggregate,
    roc_auc,
    rogan_gladen,
    two_phase,
    youden_j,
)
from tests.oracles import known, limits, oracle, random_samples

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


# Agreement


def random_table(seed: int, categories: int) -> Any:
    return np.random.default_rng(seed).integers(0, 30, (categories, categories))


@pytest.mark.parametrize("categories", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_cohens_kappa_equals_statsmodels(seed: int, categories: int) -> None:
    inter_rater = oracle("statsmodels.stats.inter_rater")
    table = random_table(seed, categories)
    theirs, ours = inter_rater.cohens_kappa(table), cohen_kappa(table)
    assert ours.value == pytest.approx(theirs.kappa)
    assert kappa_standard_error(table) == pytest.approx(theirs.std_kappa)
    assert limits(ours) == pytest.approx((theirs.kappa_low, theirs.kappa_upp))


@pytest.mark.parametrize("seed", range(5))
def test_fleiss_kappa_equals_statsmodels(seed: int) -> None:
    inter_rater = oracle("statsmodels.stats.inter_rater")
    counts = np.random.default_rng(seed).multinomial(6, [0.5, 0.3, 0.2], 25)
    assert fleiss_kappa(counts, replicates=0).value == pytest.approx(inter_rater.fleiss_kappa(counts))
    uniform = inter_rater.fleiss_kappa(counts[:, :2] * 0 + 3, method="fleiss")
    assert fleiss_kappa(counts[:, :2] * 0 + 3, replicates=0).value == pytest.approx(uniform)


@pytest.mark.parametrize("measurement", get_args(agreement.Measurement))
@pytest.mark.parametrize("seed", range(5))
def test_krippendorffs_alpha_equals_the_package(seed: int, measurement: agreement.Measurement) -> None:
    krippendorff = oracle("krippendorff")
    generator = np.random.default_rng(seed)
    truth = generator.integers(1, 5, 30)
    ratings = np.where(generator.random((4, 30)) < 0.6, truth, generator.integers(1, 5, (4, 30))).astype(float)
    ratings[generator.random((4, 30)) < 0.3] = np.nan
    theirs = krippendorff.alpha(reliability_data=ratings, level_of_measurement=measurement)
    assert krippendorff_alpha(ratings.tolist(), measurement, replicates=0).value == pytest.approx(theirs)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_alpha_does_not_depend_on_the_scale_of_scores(scale: float) -> None:
    ratings = [[1.0, 2.0, 3.0, 1.0, 2.0], [1.0, 2.0, 3.0, 2.0, 2.0], [1.0, 3.0, 3.0, 1.0, 1.5]]
    scaled = [[scale * score for score in row] for row in ratings]
    expected = krippendorff_alpha(ratings, "interval", replicates=0).value
    assert expected is not None
    assert krippendorff_alpha(scaled, "interval", replicates=0).value == pytest.approx(expected)


def test_ac1_and_pabak_stay_high_where_kappa_collapses() -> None:
    table = [[90, 5], [5, 0]]
    assert known(cohen_kappa(table).value) < 0
    # Gwet 2008: with two categories chance agreement is 2·π(1-π), here with π = 0.95.
    assert gwet_ac1(table) == pytest.approx((0.9 - 0.095) / (1 - 0.095))
    assert pabak(table) == pytest.approx(0.8)
    assert pabak([[10, 0, 0], [0, 10, 0], [5, 5, 0]]) == pytest.approx((3 * 20 / 30 - 1) / 2)


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        ([[3, 0], [0, 2]], 1),
        ([[0, 5], [5, 0]], -1),
        ([[7, 0, 0], [0, 2, 0], [0, 0, 1]], 1),
        ([[999_999, 0], [0, 1]], 1),
        ([[2, 3], [0, 0]], 0),
    ],
)
def test_a_kappa_that_shows_no_variation_has_no_interval(table: list[list[int]], kappa: int) -> None:
    found = cohen_kappa(table)
    assert found.value == pytest.approx(kappa)
    assert limits(found) == (None, None)


@pytest.mark.parametrize("table", [[[300, 1], [0, 200]], [[999_998, 1], [0, 1]], [[10**8, 0], [1, 10**8]]])
def test_one_difference_is_enough_for_an_interval(table: list[list[int]]) -> None:
    low, high = limits(cohen_kappa(table))
    assert low is not None and high is not None and low < high


def test_no_agreement_has_an_interval_without_width() -> None:
    generator = np.random.default_rng(1)
    for n in (2, 3, 5, 8, 200):
        for _ in range(20):
            one = generator.integers(0, 2, n)
            other = np.where(generator.random(n) < 0.1, 1 - one, one)
            both = np.stack([one + other, 2 - one - other], axis=1)
            table = np.zeros((2, 2))
            np.add.at(table, (one, other), 1)
            for found in (
                cohen_kappa(table),
                fleiss_kappa(both, replicates=50),
                krippendorff_alpha([one.tolist(), other.tolist()], replicates=50),
            ):
                assert found.low is None or found.high is None or found.high > found.low


@pytest.mark.parametrize("by", [0.0, 0.03, 0.2])
def test_a_rate_with_a_less_specific_judge_is_that_of_such_a_judge(by: float) -> None:
    less = Validation(80, 100, round(96 - 100 * by), 100)
    found = rate_if_less_specific(133, 500, Validation(80, 100, 96, 100), by)
    assert found == pytest.approx(rogan_gladen(133, 500, less).clipped)


@pytest.mark.parametrize("judged", [0, 40, 133, 500])
def test_a_rate_by_published_shares_is_that_of_labels_with_these_shares(judged: int) -> None:
    assert rate_from_shares(0.3, 0.9, 0.8) == pytest.approx(1 / 7)
    found = rate_from_shares(judged / 500, 0.8, 0.96)
    assert found == pytest.approx(rogan_gladen(judged, 500, Validation(800, 1000, 960, 1000)).clipped)
    assert rate_from_shares(judged / 500, 0.6, 0.5) is None


def test_a_judge_that_would_be_like_chance_has_no_such_rate() -> None:
    assert rate_if_less_specific(133, 500, Validation(80, 100, 96, 100), 0.66) is None
    assert rate_if_less_specific(133, 500, Validation(50, 100, 50, 100), 0.0) is None
    assert rate_if_less_specific(0, 0, Validation(80, 100, 96, 100), 0.03) is None
    with pytest.raises(ValueError, match="lower by 0 to 1"):
        rate_if_less_specific(1, 2, Validation(80, 100, 96, 100), 1.5)


def test_agreement_in_one_category_is_undefined() -> None:
    assert cohen_kappa([[50, 0], [0, 0]]).value is None
    assert fleiss_kappa([[3, 0], [3, 0]]).value is None
    assert krippendorff_alpha([[1, 1], [1, 1]]).value is None
    assert krippendorff_alpha([[1, None], [None, 2]]).value is None
    assert cohen_kappa([[0, 0], [0, 0]]).n == 0
    assert observed_agreement([[0]]) is None
    assert (pabak([[4]]), gwet_ac1([[4]])) == (None, None)
    assert krippendorff_alpha([]).n == 0
    assert fleiss_kappa([[1, 0], [0, 1]]).value is None


@pytest.mark.parametrize("seed", range(4))
def test_agreement_does_not_depend_on_order_or_names(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = random_table(seed, 3)
    renamed = generator.permutation(3)
    for measure in (cohen_kappa, pabak, gwet_ac1, kappa_standard_error):
        assert _numbers(measure(table)) == pytest.approx(_numbers(measure(table[np.ix_(renamed, renamed)])))
        assert _numbers(measure(table)) == pytest.approx(_numbers(measure(table.T)))
    counts = generator.multinomial(4, [0.6, 0.3, 0.1], 20)
    assert fleiss_kappa(counts) == fleiss_kappa(counts[generator.permutation(20)])
    assert fleiss_kappa(counts).value == pytest.approx(fleiss_kappa(counts[:, renamed]).value)
    ratings = generator.integers(0, 3, (3, 15))
    shuffled = ratings[np.ix_(generator.permutation(3), generator.permutation(15))]
    assert krippendorff_alpha(ratings.tolist()) == krippendorff_alpha(shuffled.tolist())
    names = [["safe", "unsafe", "odd"][rating] for rating in ratings.ravel()]
    words = [names[row * 15 : row * 15 + 15] for row in range(3)]
    assert krippendorff_alpha(words, replicates=0).value == pytest.approx(krippendorff_alpha(ratings.tolist()).value)
    stretched = krippendorff_alpha((ratings * 10.0 - 3).tolist(), "interval", replicates=0)
    assert stretched.value == pytest.approx(krippendorff_alpha(ratings.tolist(), "interval").value)
    assert stretched.low is None and stretched.high is None


def _numbers(result: Estimate | float | None) -> tuple[float | None, ...]:
    return (result.value, result.low, result.high) if isinstance(result, Estimate) else (result,)


def test_repetition_is_weight_for_two_raters() -> None:
    table = random_table(9, 3)
    assert cohen_kappa(4 * table).value == pytest.approx(cohen_kappa(table).value)
    assert known(kappa_standard_error(4 * table)) == pytest.approx(known(kappa_standard_error(table)) / 2)


def test_the_bootstrap_over_items_is_seeded_and_holds_the_value() -> None:
    counts = np.random.default_rng(3).multinomial(5, [0.7, 0.3], 40)
    first = fleiss_kappa(counts, seed=1)
    assert fleiss_kappa(counts, seed=1) == first != fleiss_kappa(counts, seed=2)
    assert known(first.low) < known(first.value) < known(first.high)
    one_by_one = np.random.default_rng(8)
    values = [known(fleiss_kappa(counts[one_by_one.integers(0, 40, 40)], replicates=0).value) for _ in range(1500)]
    assert limits(fleiss_kappa(counts)) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])), abs=0.03)


def test_raters_who_never_differ_have_no_bootstrap_limits() -> None:
    estimate = krippendorff_alpha([[1, 0, 1, 0, 1, 1], [1, 0, 1, 0, 1, 1]])
    assert (estimate.value, estimate.low, estimate.high) == (1.0, None, None)


# Imperfect judges

PUBLISHED = [
    # Lang and Reiczigel 2014, as listed with asht::prevSeSp in R.
    (4060, 11284, Validation(178, 179, 358, 359), (0.349, 0.372)),
    (51, 2971, Validation(32, 33, 20, 20), (0.0, 0.053)),
    (711.72, 11862, Validation(8, 10, 12, 12), (0.0, 0.147)),
    (259, 509, Validation(84, 127, 96, 109), (0.58, 0.87)),
    (51, 509, Validation(23, 41, 187, 195), (0.037, 0.195)),
]


@pytest.mark.parametrize(("judged", "n", "validation", "published"), PUBLISHED)
def test_lang_reiczigel_gives_the_published_intervals(
    judged: float, n: int, validation: Validation, published: tuple[float, float]
) -> None:
    digits = 2 if published == (0.58, 0.87) else 3
    ours = lang_reiczigel(judged, n, validation)
    assert (round(known(ours.low), digits), round(known(ours.high), digits)) == published


validations = st.tuples(*[st.integers(0, 60)] * 4).map(
    lambda counts: Validation(min(counts[:2]), max(counts[:2]), min(counts[2:]), max(counts[2:]))
)
verdict_counts = st.integers(0, 80).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(verdict_counts, validations)
def test_a_correction_is_used_or_refused_never_both(verdicts: tuple[int, int], validation: Validation) -> None:
    judged, n = verdicts
    correction, estimate = rogan_gladen(judged, n, validation), lang_reiczigel(judged, n, validation)
    usable = correction.status in (CorrectionStatus.OK, CorrectionStatus.CLIPPED)
    assert usable == (estimate.value is not None) == (estimate.low is not None)
    if usable:
        assert 0 <= known(estimate.low) <= known(estimate.high) <= 1
        assert 0 <= known(estimate.value) <= 1
    if (validation.youden or 0) <= 0.1 and n:
        assert correction.status is CorrectionStatus.NOT_IDENTIFIABLE
    assert (correction.status is CorrectionStatus.NO_VERDICTS) == (n == 0)


@given(verdict_counts, validations)
def test_a_correction_follows_when_success_and_failure_swap(verdicts: tuple[int, int], validation: Validation) -> None:
    judged, n = verdicts
    mirrored = Validation(validation.tn, validation.negatives, validation.tp, validation.positives)
    ours, theirs = rogan_gladen(judged, n, validation), rogan_gladen(n - judged, n, mirrored)
    assert ours.status is theirs.status
    if ours.raw is not None:
        assert theirs.raw == pytest.approx(1 - ours.raw)
    one, other = lang_reiczigel(judged, n, validation), lang_reiczigel(n - judged, n, mirrored)
    if one.low is not None:
        assert other.high == pytest.approx(1 - one.low)


def test_a_perfect_judge_needs_no_correction() -> None:
    correction = rogan_gladen(50, 500, Validation(100, 100, 100, 100))
    assert correction.raw == pytest.approx(0.1) and correction.status is CorrectionStatus.OK


@pytest.mark.parametrize(
    ("validation", "status"),
    [
        (Validation(50, 100, 50, 100), CorrectionStatus.NOT_IDENTIFIABLE),
        (Validation(30, 100, 50, 100), CorrectionStatus.NOT_IDENTIFIABLE),
        (Validation(3, 5, 4, 5), CorrectionStatus.NOT_IDENTIFIABLE),
        (Validation(0, 0, 4, 5), CorrectionStatus.NOT_IDENTIFIABLE),
        (Validation(80, 100, 90, 100), CorrectionStatus.INCOMPATIBLE_WITH_VALIDATION),
        (Validation(4, 4, 3, 4), CorrectionStatus.CLIPPED),
        (Validation(80, 100, 99, 100), CorrectionStatus.OK),
    ],
)
def test_a_validation_that_cannot_carry_the_correction_is_refused(
    validation: Validation, status: CorrectionStatus
) -> None:
    assert rogan_gladen(10, 500, validation).status is status


@pytest.mark.parametrize("validation", [Validation(80, 100, 96, 100), Validation(4, 4, 3, 4), Validation(9, 30, 8, 9)])
def test_youdens_interval_equals_statsmodels(validation: Validation) -> None:
    proportion = oracle("statsmodels.stats.proportion")
    theirs = proportion.confint_proportions_2indep(
        validation.tp,
        validation.positives,
        validation.negatives - validation.tn,
        validation.negatives,
        method="newcomb",
        compare="diff",
    )
    assert limits(youden_j(validation)) == pytest.approx(theirs)


def test_two_phases_weigh_the_labels_of_each_verdict_by_its_share() -> None:
    estimate = two_phase(LabelledPart(133, 50, 45), LabelledPart(367, 50, 4))
    assert estimate.value == pytest.approx(133 / 500 * 0.9 + 367 / 500 * 0.08)
    mirrored = two_phase(LabelledPart(367, 50, 46), LabelledPart(133, 50, 5))
    assert known(mirrored.value) == pytest.approx(1 - known(estimate.value))
    assert known(mirrored.low) == pytest.approx(1 - known(estimate.high))
    assert two_phase(LabelledPart(10, 0, 0), LabelledPart(10, 5, 1)).value is None
    assert two_phase(LabelledPart(0, 0, 0), LabelledPart(0, 0, 0)).value is None
    only_failures = two_phase(LabelledPart(0, 0, 0), LabelledPart(40, 10, 2))
    assert only_failures.value == pytest.approx(0.2) and only_failures.low is not None


def random_labels(seed: int) -> tuple[list[int], list[int], list[int]]:
    generator = np.random.default_rng(seed)
    truth = (generator.random(400) < 0.3).astype(int)
    verdicts = np.where(generator.random(400) < 0.15, 1 - truth, truth)
    return truth[:60].tolist(), verdicts[:60].tolist(), verdicts[60:].tolist()


@pytest.mark.parametrize("weight", [None, 1.0, 0.0, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_prediction_powered_means_equal_ppi_py(seed: int, weight: float | None) -> None:
    ppi_py = oracle("ppi_py")
    labels, verdicts, unlabelled = random_labels(seed)
    arrays = [np.asarray(column, dtype=float) for column in (labels, verdicts, unlabelled)]
    ours = ppi_mean(labels, verdicts, unlabelled, weight=weight, level=0.9)
    low, high = ppi_py.ppi_mean_ci(*arrays, alpha=0.1, lam=weight)
    assert limits(ours) == pytest.approx((float(low[0]), float(high[0])))
    assert ours.value == pytest.approx(float(ppi_py.ppi_mean_pointestimate(*arrays, lam=weight)[0]))


@pytest.mark.parametrize("weight", [None, 1.0, 0.0])
def test_prediction_powered_means_follow_order_and_swapped_classes(weight: float | None) -> None:
    labels, verdicts, unlabelled = random_labels(2)
    ours = ppi_mean(labels, verdicts, unlabelled, weight=weight)
    backwards = ppi_mean(labels[::-1], verdicts[::-1], unlabelled[::-1], weight=weight)
    assert backwards == ours
    flipped = ppi_mean(*([1 - value for value in column] for column in (labels, verdicts, unlabelled)), weight=weight)
    assert flipped.value == pytest.approx(1 - known(ours.value))
    assert flipped.low == pytest.approx(1 - known(ours.high))


def test_without_anything_to_learn_from_there_is_no_weight_and_no_interval() -> None:
    assert ppi_weight([1, 0], [1, 1], [1, 1]) == 0.0
    assert ppi_mean([], [], [1, 0]).value is None
    assert ppi_mean([1, 0], [1, 0], [], weight=1.0).value is None
    nothing_varies = ppi_mean([0, 0], [0, 0], [0, 0, 0])
    assert (nothing_varies.value, nothing_varies.low) == (0.0, None)


def test_few_labels_of_a_kind_stand_alone() -> None:
    labels, verdicts, unlabelled = random_labels(1)
    assert labelled_rate(labels, verdicts, unlabelled) == ppi_mean(labels, verdicts, unlabelled)
    rare = [1, 1, 1, 1] + [0] * 96
    few = labelled_rate(rare, rare, unlabelled, unit="label")
    assert few == labels_only(rare) and few.method == "wilson"
    assert labelled_rate(labels, verdicts, [], unit="label") == labels_only(labels)


# What is refused


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: confusion_metrics(1, -1, 1, 1), "negative"),
        (lambda: f1_bca(1, 1, 1, -1), "negative"),
        (lambda: f1_bootstrap(1, 1, 1, 1, level=1.0), "confidence level"),
        (lambda: f1_bootstrap(1, 1, 1, 1, replicates=0), "at least one replicate"),
        (lambda: metric_bootstrap("f2", 1, 1, 1, 1), "not one of the metrics"),  # type: ignore[arg-type]
        (lambda: roc_auc([1, 0], [0.5]), "one score for each label"),
        (lambda: roc_auc([1, 2], [0.5, 0.6]), "label is 1"),
        (lambda: brier_score([1, 0], [0.5, 1.5]), "probabilities"),
        (lambda: cohen_kappa([[1, 2, 3], [4, 5, 6]]), "square table"),
        (lambda: fleiss_kappa([[1, 2], [1, 1]]), "same number of ratings"),
        (lambda: fleiss_kappa([[-1, 2]]), "below 0"),
        (lambda: fleiss_kappa([[1, 1]], replicates=-1), "negative"),
        (lambda: krippendorff_alpha([[1, 2], [1]]), "one place per item"),
        (lambda: krippendorff_alpha([["a", "b"], ["a", "a"]], "ordinal"), "needs numbers"),
        (lambda: krippendorff_alpha([[1], [1]], "ratio"), "measurement is one of"),  # type: ignore[arg-type]
        (lambda: Validation(5, 4, 1, 1), "right more often"),
        (lambda: LabelledPart(5, 6, 1), "outnumber"),
        (lambda: rogan_gladen(7, 6, Validation(1, 1, 1, 1)), "not possible"),
        (lambda: ppi_mean([1], [1, 0], [1]), "every label"),
        (lambda: labels_only([0.5]), "0 or 1"),
        (lambda: icc_of_counts([1], [1, 2]), "every entry"),
        (lambda: icc_of_counts([3], [2]), "no more than the attempts"),
        (lambda: majority_of_k(1.5, 3), "rate between 0 and 1"),
        (lambda: best_attempts(icc([]), cost_ratio=0), "cost ratio"),
        (lambda: next_calls(icc([]), -1), "negative"),
        (lambda: aggregate("average", [1]), "not one of the reducers"),  # type: ignore[arg-type]
        (lambda: aggregate("pass@k", [1]), "needs k"),
        (lambda: aggregate("mean", [1], k=2), "takes no k"),
        (lambda: aggregate("at_least_k", [1], k=0), "at least 1"),
        (lambda: rebel_aggregate("mean", [(1.0, True)]), "REBEL's reducers"),  # type: ignore[arg-type]
        (lambda: rebel_aggregate("rebel_mean", []), "without attempts"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


# What every interval owes its reader

LABELS, VERDICTS, UNLABELLED = random_labels(5)
Y, SCORES = random_samples(6)
INTERVALS: dict[str, Callable[..., Estimate]] = {
    "f1_bootstrap": lambda **options: f1_bootstrap(40, 20, 30, 10, **options),
    "f1_bootstrap drawn": lambda **options: f1_bootstrap(40, 20, 30, 10, replicates=500, **options),
    "f1_bca": lambda **options: f1_bca(40, 20, 30, 10, **options),
    "metric_bootstrap": lambda **options: metric_bootstrap("accuracy", 40, 20, 30, 10, **options),
    "roc_auc": lambda **options: roc_auc(Y, SCORES, **options),
    "roc_auc plain": lambda **options: roc_auc(Y, SCORES, scale="plain", **options),
    "cohen_kappa": lambda **options: cohen_kappa([[20, 5], [10, 15]], **options),
    "fleiss_kappa": lambda **options: fleiss_kappa([[3, 1], [4, 0], [2, 2], [0, 4], [1, 3]] * 3, **options),
    "krippendorff_alpha": lambda **options: krippendorff_alpha([[1, 1, 0, 0, 1] * 3, [1, 0, 0, 0, 1] * 3], **options),
    "youden_j": lambda **options: youden_j(Validation(8, 10, 18, 20), **options),
    "lang_reiczigel": lambda **options: lang_reiczigel(133, 500, Validation(80, 100, 96, 100), **options),
    "two_phase": lambda **options: two_phase(LabelledPart(133, 50, 45), LabelledPart(367, 50, 4), **options),
    "ppi_mean": lambda **options: ppi_mean(LABELS, VERDICTS, UNLABELLED, **options),
    "labels_only": lambda **options: labels_only(LABELS, **options),
    "labels_only normal": lambda **options: labels_only(LABELS, interval="normal", **options),
    "labelled_rate": lambda **options: labelled_rate(LABELS, VERDICTS, UNLABELLED, **options),
    "flake_rate": lambda **options: flake_rate([[1, 0], [1, 1], [0, 0], [0, 1]], **options),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_an_interval_holds_its_value_and_grows_with_the_level(name: str) -> None:
    narrower: Estimate | None = None
    for level in LEVELS:
        estimate = INTERVALS[name](level=level)
        assert known(estimate.low) <= known(estimate.value) <= known(estimate.high)
        assert estimate.level == level
        if narrower is not None:
            assert estimate.value == narrower.value
            assert known(estimate.low) <= known(narrower.low) and known(narrower.high) <= known(estimate.high)
        narrower = estimate


@pytest.mark.parametrize("name", INTERVALS)
def test_an_interval_says_what_it_counts_and_how(name: str) -> None:
    estimate = INTERVALS[name](unit="answer")
    assert estimate.unit == "answer" and estimate.method and estimate.n > 0
    assert INTERVALS[name]().level == 0.95


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_outside_of_zero_and_one_is_refused(name: str, level: float) -> None:
    with pytest.raises(ValueError, match="confidence level"):
        INTERVALS[name](level=level)
