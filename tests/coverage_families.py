"""Coverage of the headline interval where entries come in families: ten designs, eight rates, four correlations.

The regimes are those of an outside check, which found the cluster-robust interval without a floor to cover 73% at worst.
That interval is written here once more, in numpy, so that both are measured on the same draws.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from faircount.stats import cluster_wilson

RATES = (0.005, 0.01, 0.02, 0.05, 0.2, 0.5, 0.9, 0.98)
CORRELATIONS = (0.0, 0.1, 0.3, 0.6)
DRAWS = 3_000
LEAST = 0.93
GATE = 0.05
GATE_PASSES = 0.04


def zipf(families: int, entries: int) -> tuple[int, ...]:
    """Return sizes that fall with the rank as words of a language do."""
    weights = [1 / rank for rank in range(1, families + 1)]
    return tuple(max(1, round(entries * weight / sum(weights))) for weight in weights)


DESIGNS: dict[str, tuple[int, ...]] = {
    "5 × 40": (40,) * 5,
    "10 × 20": (20,) * 10,
    "20 × 10": (10,) * 20,
    "25 × 8": (8,) * 25,
    "5 Zipf, 200": zipf(5, 200),
    "10 Zipf, 300": zipf(10, 300),
    "20 Zipf, 400": zipf(20, 400),
    "30 Zipf, 600": zipf(30, 600),
    "7 × 136 and 4 × 1": (136,) * 7 + (1,) * 4,
    "30 of 6 to 96": tuple(round(25 * math.exp(0.9 * place)) for place in np.linspace(-1.5, 1.5, 30)),
}


@dataclass(frozen=True)
class Regime:
    """Families of these sizes, whose rates have a mean and vary as much as the correlation of their entries says."""

    design: str
    rate: float
    correlation: float

    @property
    def name(self) -> str:
        return f"{self.design}, {100 * self.rate:g}%, {self.correlation:g}"

    def drawn(self, draws: int = DRAWS) -> Any:
        """Return the successes of each family, a row for each draw."""
        seed = [
            list(DESIGNS).index(self.design),
            RATES.index(self.rate),
            CORRELATIONS.index(self.correlation),
        ]
        generator = np.random.default_rng([20_260, *seed])
        sizes = np.array(DESIGNS[self.design])
        rates = np.full((draws, len(sizes)), self.rate)
        if self.correlation:
            precision = (1 - self.correlation) / self.correlation
            rates = generator.beta(self.rate * precision, (1 - self.rate) * precision, rates.shape)
        return generator.binomial(sizes, rates)


@dataclass(frozen=True)
class Coverage:
    """How often an interval contained the rate, how often it lay below it, its mean width, and gates that passed."""

    covers: float
    too_low: float
    width: float
    passes: float
    """The share of runs whose upper limit was not above 5%."""


REGIMES = tuple(
    Regime(design, rate, correlation) for design in DESIGNS for rate in RATES for correlation in CORRELATIONS
)

Limits = Callable[[tuple[int, ...], tuple[int, ...]], tuple[float, float]]


def ours(successes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[float, float]:
    """Return the limits that Faircount gives."""
    found = cluster_wilson(successes, sizes).estimate
    assert found.low is not None and found.high is not None
    return found.low, found.high


def without_floor(successes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[float, float]:
    """Return Wilson's limits on the effective size of CR1 with t(G - 1), and on G where no variance shows."""
    s, m = np.array(successes, float), np.array(sizes, float)
    n, count = m.sum(), len(m)
    p = s.sum() / n
    variance = count / (count - 1) * ((s - p * m) ** 2).sum() / n**2
    effective = min(n, p * (1 - p) / variance) if variance > 1e-15 and 0 < p < 1 else float(count)
    t = scipy_stats.t.ppf(0.975, count - 1)
    centre = (p + t * t / (2 * effective)) / (1 + t * t / effective)
    half = t * math.sqrt(p * (1 - p) / effective + t * t / (4 * effective**2)) / (1 + t * t / effective)
    return (0.0 if p == 0 else centre - half), (1.0 if p == 1 else centre + half)


def coverage(regime: Regime, limits: Limits = ours, draws: int = DRAWS) -> Coverage:
    """Measure a way to limits in a regime; draws that are alike are worked out once."""
    sizes = DESIGNS[regime.design]
    alike: Counter[tuple[tuple[int, int], ...]] = Counter()
    for row in regime.drawn(draws).tolist():
        alike[tuple(sorted(zip(row, sizes, strict=True)))] += 1
    covers = too_low = width = passes = 0.0
    for families, times in alike.items():
        low, high = limits(tuple(s for s, _ in families), tuple(m for _, m in families))
        covers += times * (low - 1e-9 <= regime.rate <= high + 1e-9)
        too_low += times * (high + 1e-9 < regime.rate)
        width += times * (high - low)
        passes += times * (high <= GATE)
    return Coverage(covers / draws, too_low / draws, width / draws, passes / draws)


def error(share: float, draws: int = DRAWS) -> float:
    """Return two standard errors of a share that was measured in so many draws."""
    return 2 * math.sqrt(max(share * (1 - share), 1e-9) / draws)


if __name__ == "__main__":
    import json
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as pool:
        for regime, found in zip(REGIMES, pool.map(coverage, REGIMES, chunksize=4), strict=True):
            old = coverage(regime, without_floor)
            print(json.dumps([regime.name, found.__dict__, old.__dict__]), file=sys.stdout, flush=True)
