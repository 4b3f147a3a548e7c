"""Independent implementations to compare with, and what comparing needs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from faircount.core import AgainstRest, Estimate
from faircount.stats import Stratum, inside_strata, sum_strata


def oracle(name: str) -> Any:
    """Return a module to compare with; what it warns of while loading is not our affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed; it is in the test extra")


def known(value: float | None) -> float:
    assert value is not None
    return value


def in_strata(strata: Sequence[Stratum]) -> AgainstRest:
    """Test a group whose strata are all listed."""
    return inside_strata(sum_strata(strata), lambda: strata)


def limits(estimate: Estimate) -> tuple[float | None, float | None]:
    return estimate.low, estimate.high


def expected_correlation(successes: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the posterior mean of the correlation within families, by scipy's gamma function on a fine plain grid."""
    return _expected_correlation(frozenset(Counter(zip(successes, sizes, strict=True)).items()))


@cache
def _expected_correlation(kinds: frozenset[tuple[tuple[int, int], int]]) -> float:
    log_gamma = oracle("scipy.special").gammaln
    roots, angles = (np.arange(400) + 0.5) / 400, (np.arange(600) + 0.5) / 600 * np.pi / 2
    # Beta(1/2, 1) for the correlation is uniform in its root, Jeffreys' prior for the mean in the angle.
    precision, mean = ((1 - roots**2) / roots**2)[:, None], (np.sin(angles) ** 2)[None]
    alpha, beta = precision * mean, precision * (1 - mean)
    logs = np.zeros_like(alpha)
    for (s, m), times in kinds:
        logs += times * (log_gamma(alpha + s) - log_gamma(alpha) + log_gamma(beta + m - s) - log_gamma(beta))
        logs += times * (log_gamma(precision) - log_gamma(precision + m))
    weights = np.exp(logs - logs.max())
    return float((weights.sum(axis=1) * roots**2).sum() / weights.sum())


def correlation_floor(successes: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the least design effect of families, from `expected_correlation`."""
    typical = sum(m * m for m in sizes) / sum(sizes)
    return 1 + (typical - 1) * expected_correlation(successes, sizes)


def random_samples(seed: int, n: int = 120) -> tuple[Any, Any]:
    """Return labels and scores of a fair detector, with ties."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, n)
    labels[:2] = [0, 1]
    return labels, np.round(generator.normal(labels * 0.8, 1.0), 1)
