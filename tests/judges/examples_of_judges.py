"""Checks worked examples about detectors, agreement, imperfect judges and retries against `faircount.stats`.

Every family has a function from inputs to everything the library says about them, by the names of the examples; an
expected name that the library does not answer is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faircount.core import Estimate, Validation
from faircount.stats import (
    LabelledPart,
    aggregate,
    all_of_k,
    any_of_k,
    average_precision,
    best_attempts,
    brier_score,
    chance_agreement,
    cohen_kappa,
    confusion_estimates,
    confusion_metrics,
    delong_standard_error,
    f1_bca,
    f1_bca_constants,
    f1_bootstrap,
    f1_bootstrap_mean,
    fleiss_kappa,
    gwet_ac1,
    icc,
    kappa_standard_error,
    krippendorff_alpha,
    labels_only,
    lang_reiczigel,
    majority_of_k,
    mean_pass_at_k,
    mean_pass_hat_k,
    metric_bootstrap,
    modes,
    observed_agreement,
    pabak,
    ppi_mean,
    ppi_weight,
    roc_auc,
    rogan_gladen,
    threshold_sweep,
    two_phase,
    valid_scores,
    wilson,
    youden_j,
)
from faircount.stats.proportion import DEFAULT_LEVEL

Document = Mapping[str, Any]
# What the library says under a name; a function where it would be costly or impossible without need.
Answers = dict[str, Any]


def check(family: str, inputs: Document, expected: Document, tolerance: float) -> None:
    """Fail unless the library gives every expected value within the tolerance."""
    assert expected, "the example expects nothing"
    answers = ANSWERS[family](inputs, expected)
    for name, wanted in expected.items():
        assert name in answers, f"{family}: nothing in the library answers {name}"
        answer = answers[name]
        _compare(answer() if callable(answer) else answer, wanted, tolerance, name)


def _compare(actual: Any, expected: Any, tolerance: float, name: str) -> None:
    if isinstance(expected, Mapping):
        for key, value in expected.items():
            assert key in actual, f"nothing in the library answers {name}.{key}"
            _compare(actual[key], value, tolerance, f"{name}.{key}")
    elif isinstance(expected, list):
        assert actual is not None and len(actual) == len(expected), f"{name}: {actual} is not {expected}"
        for ours, theirs in zip(actual, expected, strict=True):
            _compare(ours, theirs, tolerance, name)
    elif isinstance(expected, bool | str) or expected is None:
        assert actual == expected and (actual is None) == (expected is None), f"{name}: {actual} is not {expected}"
    else:
        assert actual is not None and abs(actual - expected) <= tolerance, f"{name}: {actual} is not {expected}"


def _limits(estimate: Estimate) -> list[float | None]:
    return [estimate.low, estimate.high]


def _limits_or_none(estimate: Estimate) -> list[float | None] | None:
    return None if estimate.low is None else _limits(estimate)


def _level(inputs: Document) -> float:
    return float(inputs.get("conf", DEFAULT_LEVEL))


def _counts(inputs: Document) -> tuple[int, int, int, int]:
    return inputs["tp"], inputs["fn"], inputs["tn"], inputs["fp"]


def _detector_point(inputs: Document, _expected: Document) -> Answers:
    counts = _counts(inputs)
    metrics, with_zeros = confusion_metrics(*counts), confusion_metrics(*counts, zero_division=0.0)
    names = (
        "n",
        "accuracy",
        "hit_precision",
        "hit_recall",
        "hit_f1",
        "pass_precision",
        "pass_recall",
        "pass_f1",
        "balanced_accuracy",
        "youden_j",
        "mcc",
    )
    zeros = {
        "precision0": with_zeros.hit_precision,
        "recall0": with_zeros.hit_recall,
        "f1_0": with_zeros.hit_f1,
        "mcc0": with_zeros.mcc,
        "macro_f1_0": with_zeros.macro_f1,
        "kappa": with_zeros.kappa,
    }
    return {name: getattr(metrics, name) for name in names} | {"zero_division_0": zeros}


def _detector_bootstrap(inputs: Document, expected: Document) -> Answers:
    counts, level = _counts(inputs), _level(inputs)
    metrics = expected.get("exact_percentile", {})
    exact = {name: _limits(metric_bootstrap(name, *counts, level=level)) for name in metrics}
    constants = f1_bca_constants(*counts)
    estimates = confusion_estimates(*counts, level=level)
    answers: Answers = {
        "exact_percentile": exact,
        "exact_boot_mean_f1": f1_bootstrap_mean(*counts),
        "bca_f1": _limits(f1_bca(*counts, level=level)),
        "bca_z0": constants and constants.bias,
        "bca_a": constants and constants.acceleration,
        "recall_wilson": _limits(estimates.recall),
        "precision_wilson": _limits(estimates.precision),
    }
    if "replicates" in inputs:
        replicates, seed = inputs["replicates"], inputs["seed"]
        drawn = f1_bootstrap(*counts, replicates=replicates, seed=seed, level=level)
        answers[f"mc_seed{seed}_f1"] = _limits(drawn)
        answers[f"mc_seed{seed}_f1_mean"] = f1_bootstrap_mean(*counts, replicates=replicates, seed=seed)
    return answers


def _detector_scores(inputs: Document, _expected: Document) -> Answers:
    labels, scores, level = inputs["y"], inputs["score"], _level(inputs)
    answers: Answers = {
        "roc_auc": roc_auc(labels, scores).value,
        "delong_se": delong_standard_error(labels, scores),
        "delong_ci": _limits(roc_auc(labels, scores, scale="plain", level=level)),
        "delong_logit_ci": _limits(roc_auc(labels, scores, level=level)),
        "average_precision": average_precision(labels, scores),
        "brier": lambda: brier_score(labels, scores),
    }
    sweep = threshold_sweep(labels, scores)
    if sweep is not None:
        answers |= {name: getattr(sweep, name) for name in ("thresholds", "f1", "precision", "recall", "best_f1")}
        answers["best_threshold"] = sweep.best_threshold
        # The curve starts where nothing is called a hit, and is written from the highest threshold down.
        answers["tpr"] = (0.0, *reversed(sweep.recall))
        answers["fpr"] = (0.0, *reversed(sweep.false_positive_rate))
    return answers


def _agreement(inputs: Document, _expected: Document) -> Answers:
    level = _level(inputs)
    if "table" in inputs:
        table = inputs["table"]
        kappa = cohen_kappa(table, level=level)
        return {
            "po": observed_agreement(table),
            "pe": chance_agreement(table),
            "kappa": kappa.value,
            "se": kappa_standard_error(table),
            # The example of perfect agreement has value ± z·0, which is no interval: the library gives none.
            "ci": _limits(kappa) if kappa.low is not None else [kappa.value] * 2,
            "pabak": pabak(table),
            "gwet_ac1": gwet_ac1(table),
        }
    if "counts" in inputs:
        return {"kappa": fleiss_kappa(inputs["counts"], replicates=0).value}
    ratings = inputs["ratings"]
    return {
        "nominal": krippendorff_alpha(ratings, "nominal", replicates=0).value,
        "ordinal": lambda: krippendorff_alpha(ratings, "ordinal", replicates=0).value,
        "interval": lambda: krippendorff_alpha(ratings, "interval", replicates=0).value,
    }


def _imperfect_judge(inputs: Document, expected: Document) -> Answers:
    level = _level(inputs)
    if "val_tp" in inputs:
        return _validated_elsewhere(inputs, level)
    if "judge_pos" in inputs:
        estimate = two_phase(
            LabelledPart(inputs["judge_pos"], inputs["labelled_pos"], inputs["labelled_pos_true"]),
            LabelledPart(inputs["judge_neg"], inputs["labelled_neg"], inputs["labelled_neg_true"]),
            level=level,
        )
        return {"estimate": estimate.value, "ci": _limits(estimate)}
    labels = inputs["y_labelled"]
    if "judge_labelled" in inputs:
        return _prediction_powered(labels, inputs, expected, level)
    by_wilson, by_normal = labels_only(labels, level=level), labels_only(labels, interval="normal", level=level)
    return {"estimate": by_wilson.value, "wilson": _limits(by_wilson), "normal_ci": _limits(by_normal)}


def _validated_elsewhere(inputs: Document, level: float) -> Answers:
    judged, n = inputs["judge_positive"], inputs["n"]
    validation = Validation(inputs["val_tp"], inputs["val_pos"], inputs["val_tn"], inputs["val_neg"])
    correction = rogan_gladen(judged, n, validation, level=level)
    return {
        "naive": judged / n if n else None,
        "naive_wilson": lambda: _limits(wilson(judged, n, level=level)),
        "youden": youden_j(validation, level=level).value,
        "rogan_gladen": correction.raw,
        "rogan_gladen_raw": correction.raw,
        "rogan_gladen_clipped": correction.clipped,
        "lang_reiczigel": _limits_or_none(lang_reiczigel(judged, n, validation, level=level)),
        "status": str(correction.status),
    }


def _prediction_powered(labels: Sequence[float], inputs: Document, expected: Document, level: float) -> Answers:
    ones, others = inputs["judge_unlabelled_ones"], inputs["judge_unlabelled_n"]
    verdicts, unlabelled = inputs["judge_labelled"], [1] * ones + [0] * (others - ones)
    # The inputs of plain and tuned estimates are the same: a weight of exactly 1 is the plain one.
    weight = 1.0 if expected.get("lam") == 1 else ppi_weight(labels, verdicts, unlabelled)
    estimate = ppi_mean(labels, verdicts, unlabelled, weight=weight, level=level)
    return {"estimate": estimate.value, "ci": _limits(estimate), "lam": weight}


def _retries(inputs: Document, expected: Document) -> Answers:
    if "p" in inputs:
        rates, k = inputs["p"], inputs["k"]
        return {
            "majority": [majority_of_k(rate, k) for rate in rates],
            "any": [any_of_k(rate, k) for rate in rates],
            "all": [all_of_k(rate, k) for rate in rates],
        }
    scores = inputs["scores"]
    if scores and isinstance(scores[0], list):
        return _repeated_entries(scores, expected)
    threshold = inputs["threshold"]
    answers = {name: aggregate(name, scores, threshold=threshold) for name in ("mean", "median", "mode", "min", "max")}
    for name in ("majority", "any", "all"):
        answers[name] = aggregate(name, scores, threshold=threshold)
    valid = len(valid_scores(scores))
    return answers | {"modes": modes(scores), "n_valid": valid, "n_missing": len(scores) - valid}


def _repeated_entries(scores: list[list[float | None]], expected: Document) -> Answers:
    variance = icc(scores)
    answers: Answers = {
        "mean": variance.mean,
        "msb": variance.mean_square_between,
        "msw": variance.mean_square_within,
        "sigma2_between": variance.between_raw,
        "sigma2_within": variance.within,
        "icc": variance.icc,
        "var_mean": variance.variance_of_mean,
        "se_mean": variance.standard_error,
        "se_case_means": variance.standard_error,
        f"se_naive_all_{variance.total}": variance.naive_standard_error,
    }
    for name in ("any", "all", "majority"):
        verdicts = [aggregate(name, attempts) for attempts in scores]
        answers[name] = sum(verdict is True for verdict in verdicts) / len(verdicts)
    counts = [(len(valid_scores(attempts)), sum(s >= 0.5 for s in valid_scores(attempts))) for attempts in scores]
    for name in expected:
        if match := re.fullmatch(r"pass_(at|hat)_(\d+)", name):
            mean = mean_pass_at_k if match[1] == "at" else mean_pass_hat_k
            answers[name] = mean(counts, int(match[2])).estimate.value
        elif match := re.fullmatch(r"optimal_k_cost_ratio_([\d.]+)", name):
            answers[name] = best_attempts(variance, cost_ratio=float(match[1]))
    return answers


ANSWERS: Mapping[str, Callable[[Document, Document], Answers]] = {
    "detector_point": _detector_point,
    "detector_bootstrap": _detector_bootstrap,
    "detector_scores": _detector_scores,
    "agreement": _agreement,
    "imperfect_judge": _imperfect_judge,
    "retries": _retries,
}
