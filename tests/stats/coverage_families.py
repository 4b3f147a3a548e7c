"""Coverage of the headline interval where entries come in families: ten designs, eight rates, four correlations.

The regimes are those of an outside check, which found the cluster-robust interval without a floor to cover 73% at
worst. That interval is written here once more, in numpy, so that both are measured on the same draws.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from faircount.stats import cluster_wilson
from tests.stats import coverage_record
from tests.stats.coverage_record import Row

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


def all_or_nothing(rate: float) -> float:
    """Return the coverage for 7 × 136 and 4 × 1 where a family succeeds as a whole or not at all, enumerated."""
    covers = 0.0
    for large, single in itertools.product(range(8), range(5)):
        successes = (136,) * large + (0,) * (7 - large) + (1,) * single + (0,) * (4 - single)
        low, high = ours(successes, DESIGNS["7 × 136 and 4 × 1"])
        chance = scipy_stats.binom.pmf(large, 7, rate) * scipy_stats.binom.pmf(single, 4, rate)
        covers += float(chance) * (low - 1e-9 <= rate <= high + 1e-9)
    return covers


# -- what is recorded ---------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "coverage.md"
PART = "families"
COIN_RATES = (0.01, 0.015, 0.03, 0.065, 0.2, 0.5, 0.6, 0.65)
_OURS, _WITHOUT = "cluster Wilson", "cluster Wilson without the floor"


def recorded() -> dict[str, tuple[float, float]]:
    """Return the recorded figures by regime: ours, and those without the floor."""
    found = coverage_record.by_situation(PART)
    return {name: (figures[_OURS] / 100, figures[_WITHOUT] / 100) for (_, name), figures in found.items()}


def both(regime: Regime) -> tuple[float, float]:
    """Return the coverage of our interval, and of the one without the floor."""
    return coverage(regime).covers, coverage(regime, without_floor).covers


def main() -> None:
    """Measure everything again and record it; some minutes on two cores."""
    with ProcessPoolExecutor() as pool:
        figures = dict(zip((r.name for r in REGIMES), pool.map(both, REGIMES, chunksize=4), strict=True))
    coverage_record.replace(PART, _rows(figures))


def _rows(figures: dict[str, tuple[float, float]]) -> Iterator[Row]:
    for name, (new, old) in figures.items():
        yield Row(PART, "Families", name, _OURS, "ours", f"{100 * new:.1f}")
        yield Row(PART, "Families", name, _WITHOUT, "naive", f"{100 * old:.1f}")


if __name__ == "__main__":
    main()
