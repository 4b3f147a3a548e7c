"""Independent implementations to compare with, and what comparing needs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from faircount.model import Estimate


def oracle(name: str) -> Any:
    """Return a module to compare with; what it warns of while loading is not our affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed; it is in the test extra")


def known(value: float | None) -> float:
    assert value is not None
    return value


def limits(estimate: Estimate) -> tuple[float | None, float | None]:
    return estimate.low, estimate.high


def random_samples(seed: int, n: int = 120) -> tuple[Any, Any]:
    """Return labels and scores of a fair detector, with ties."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, n)
    labels[:2] = [0, 1]
    return labels, np.round(generator.normal(labels * 0.8, 1.0), 1)
