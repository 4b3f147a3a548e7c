"""Statistics as pure functions: counts and arrays in, estimates out. Knows nothing of attempts, files or reports.

The names below are loaded when they are first used: most commands need one or two of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faircount.stats.agreement import (
        alpha_of_kinds,
        chance_agreement,
        cohen_kappa,
        fleiss_kappa,
        gwet_ac1,
        kappa_standard_error,
        krippendorff_alpha,
        observed_agreement,
        pabak,
    )
    from faircount.stats.attempts import (
        AttemptCurve,
        AttemptStep,
        LogRank,
        MeanOverEntries,
        all_of_k,
        any_of_k,
        logrank,
        mean_of_shares,
        mean_pass_at_k,
        mean_pass_hat_k,
        pass_at_k,
        pass_hat_k,
        success_within_counts,
        success_within_k,
    )
    from faircount.stats.clusters import (
        ClusterEstimate,
        ClusterMean,
        cluster_bootstrap,
        cluster_bootstrap_difference,
        cluster_mean,
        cluster_wilson,
        correlation_floor,
        family_correlation,
    )
    from faircount.stats.comparison import (
        ClusterDifference,
        CochranQ,
        McNemar,
        cluster_tango,
        cochran_q,
        cohen_h,
        conditional_odds_ratio,
        farrington_manning,
        fisher_exact,
        mcnemar,
        miettinen_nurminen,
        newcombe,
        newcombe_paired,
        risk_ratio,
        tango,
    )
    from faircount.stats.detector_bootstrap import (
        f1_bca,
        f1_bca_constants,
        f1_bootstrap,
        f1_bootstrap_mean,
        metric_bootstrap,
    )
    from faircount.stats.detector_scores import (
        average_precision,
        brier_score,
        delong_standard_error,
        operating_point,
        roc_auc,
        threshold_sweep,
    )
    from faircount.stats.detectors import (
        balanced_accuracy,
        confusion_estimates,
        confusion_metrics,
    )
    from faircount.stats.gates import (
        NonInferiority,
        SequentialTest,
        confidence_sequence,
        log_e_value,
        non_inferiority_paired,
        non_inferiority_unpaired,
        sprt,
    )
    from faircount.stats.judge_difference import (
        LabelledSide,
        added_difference,
        corrected_difference,
        two_phase_difference,
    )
    from faircount.stats.judge_error import (
        Correction,
        CorrectionStatus,
        LabelledPart,
        Validation,
        labelled_rate,
        labels_only,
        lang_reiczigel,
        ppi_mean,
        ppi_weight,
        rogan_gladen,
        two_phase,
        youden_j,
    )
    from faircount.stats.multiplicity import (
        benjamini_hochberg,
        benjamini_yekutieli,
        bonferroni,
        holm,
    )
    from faircount.stats.planning import (
        SampleSize,
        design_effect,
        minimum_detectable,
        sample_size_half_width,
        sample_size_in_families,
        sample_size_non_inferiority,
        sample_size_paired,
        sample_size_unpaired,
        sample_size_zero_hits,
    )
    from faircount.stats.proportion import (
        clopper_pearson,
        jeffreys,
        undefined,
        wilson,
        zero_hits_upper,
    )
    from faircount.stats.reducers import (
        aggregate,
        modes,
        rebel_aggregate,
        valid_scores,
    )
    from faircount.stats.retries import (
        best_attempts,
        flake_rate,
        flake_rate_of_counts,
        icc,
        icc_of_counts,
        majority_of_k,
        next_calls,
    )
    from faircount.stats.slices import (
        BetaPrior,
        Shrinkage,
        SliceTest,
        beta_prior,
        empirical_bayes,
        slices_against_rest,
    )

__all__ = [
    "AttemptCurve",
    "AttemptStep",
    "BetaPrior",
    "ClusterDifference",
    "ClusterEstimate",
    "ClusterMean",
    "CochranQ",
    "Correction",
    "CorrectionStatus",
    "LabelledPart",
    "LabelledSide",
    "LogRank",
    "McNemar",
    "MeanOverEntries",
    "NonInferiority",
    "SampleSize",
    "SequentialTest",
    "Shrinkage",
    "SliceTest",
    "Validation",
    "added_difference",
    "aggregate",
    "all_of_k",
    "alpha_of_kinds",
    "any_of_k",
    "average_precision",
    "balanced_accuracy",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "best_attempts",
    "beta_prior",
    "bonferroni",
    "brier_score",
    "chance_agreement",
    "clopper_pearson",
    "cluster_bootstrap",
    "cluster_bootstrap_difference",
    "cluster_mean",
    "cluster_tango",
    "cluster_wilson",
    "cochran_q",
    "cohen_h",
    "cohen_kappa",
    "conditional_odds_ratio",
    "confidence_sequence",
    "confusion_estimates",
    "confusion_metrics",
    "corrected_difference",
    "correlation_floor",
    "delong_standard_error",
    "design_effect",
    "empirical_bayes",
    "f1_bca",
    "f1_bca_constants",
    "f1_bootstrap",
    "f1_bootstrap_mean",
    "family_correlation",
    "farrington_manning",
    "fisher_exact",
    "flake_rate",
    "flake_rate_of_counts",
    "fleiss_kappa",
    "gwet_ac1",
    "holm",
    "icc",
    "icc_of_counts",
    "jeffreys",
    "kappa_standard_error",
    "krippendorff_alpha",
    "labelled_rate",
    "labels_only",
    "lang_reiczigel",
    "log_e_value",
    "logrank",
    "majority_of_k",
    "mcnemar",
    "mean_of_shares",
    "mean_pass_at_k",
    "mean_pass_hat_k",
    "metric_bootstrap",
    "miettinen_nurminen",
    "minimum_detectable",
    "modes",
    "newcombe",
    "newcombe_paired",
    "next_calls",
    "non_inferiority_paired",
    "non_inferiority_unpaired",
    "observed_agreement",
    "operating_point",
    "pabak",
    "pass_at_k",
    "pass_hat_k",
    "ppi_mean",
    "ppi_weight",
    "rebel_aggregate",
    "risk_ratio",
    "roc_auc",
    "rogan_gladen",
    "sample_size_half_width",
    "sample_size_in_families",
    "sample_size_non_inferiority",
    "sample_size_paired",
    "sample_size_unpaired",
    "sample_size_zero_hits",
    "slices_against_rest",
    "sprt",
    "success_within_counts",
    "success_within_k",
    "tango",
    "threshold_sweep",
    "two_phase",
    "two_phase_difference",
    "undefined",
    "valid_scores",
    "wilson",
    "youden_j",
    "zero_hits_upper",
]

_HOMES = (
    "proportion",
    "attempts",
    "clusters",
    "slices",
    "retries",
    "detectors",
    "agreement",
    "comparison",
    "detector_bootstrap",
    "detector_scores",
    "gates",
    "judge_difference",
    "judge_error",
    "multiplicity",
    "planning",
    "reducers",
)
"""Where the names live; what every analysis needs comes first."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"faircount.stats.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'faircount.stats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
