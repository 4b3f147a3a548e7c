"""How often comparisons claim what is not there, and what is: drawn runs judged by Faircount's own functions.

Two targets on the same entries in families. On the scale of logits a family has an effect (sd 1.5), an entry (sd 1),
and each target one of its own in every family (the interaction), so that targets differ on single instructions though
not on average. `python -m tests.stats.simulate_claims` measures again and records it in
docs/concepts/coverage.csv.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import asdict
from scipy import stats as scipy_stats

from faircount.analysis import ComparedGroup, Figures, detectable, figures, judged, tested
from faircount.stats import Design, shown_sign
from tests.stats import coverage_record
from tests.stats.coverage_families import zipf
from tests.stats.coverage_record import Row

PART = "claims"
FAMILY, ENTRY, ALPHA = 1.5, 1.0, 0.05
DESIGNS: dict[str, tuple[int, ...]] = {
    "200 single": (1,) * 200,
    "5 × 40": (40,) * 5,
    "10 × 20": (20,) * 10,
    "25 × 8": (8,) * 25,
    "7 × 136 and 4 × 1": (136,) * 7 + (1,) * 4,
    "10 Zipf, 300": zipf(10, 300),
    "30 Zipf, 600": zipf(30, 600),
}
SIZES = (
    ("200 single", 0.26, 0.0),
    ("5 × 40", 0.28, 0.7),
    ("10 × 20", 0.28, 0.7),
    ("25 × 8", 0.28, 0.7),
    ("7 × 136 and 4 × 1", 0.28, 0.7),
    ("7 × 136 and 4 × 1", 0.06, 0.7),
    ("10 Zipf, 300", 0.28, 1.2),
    ("30 Zipf, 600", 0.28, 1.2),
)
SHOWN = tuple(
    (design, rate, 0.7 * (design != "200 single"))
    for design in ("200 single", "25 × 8", "10 × 20", "7 × 136 and 4 × 1")
    for rate in (0.22, 0.03)
)
GATES = (
    ("200 single", 0.06, 0.05),
    ("10 × 20", 0.28, 0.05),
    ("25 × 8", 0.06, 0.05),
    ("7 × 136 and 4 × 1", 0.06, 0.02),
    ("7 × 136 and 4 × 1", 0.06, 0.05),
    ("30 Zipf, 600", 0.06, 0.05),
)
GROUPS = (("7 × 17 × 8", 0.7), ("7 × 10 × 40", 0.7), ("10 × 20 × 20", 1.2), ("20 × 30 × 10", 1.2), ("36 × 5 × 2", 0.7))
UNPAIRED = ((10, 20, 0.2), (25, 8, 0.2), (7, 136, 0.2), (100, 8, 0.05))


@cache
def intercept(rate: float, variance: float) -> float:
    """Return the mean logit of entries that succeed at this rate on average."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    low, high = -30.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2
        mean = (weights / (1 + np.exp(-(middle + math.sqrt(variance) * nodes)))).sum() / weights.sum()
        low, high = (middle, high) if mean < rate else (low, middle)
    return (low + high) / 2


def drawn(
    rng: np.random.Generator, codes: Any, rates: tuple[float, float], interaction: float, draws: int, groups: Any = None
) -> Any:
    """Return the cell of each pair, see `figures.cells`, a row for each draw; groups may interact with targets, too."""
    count, n = int(codes.max()) + 1, len(codes)
    variance = FAMILY**2 + ENTRY**2 + interaction**2
    shared = rng.normal(0, FAMILY, (draws, count))[:, codes] + rng.normal(0, ENTRY, (draws, n))
    won = []
    for rate in rates:
        own = codes if groups is None else codes * (int(groups.max()) + 1) + groups
        alone = rng.normal(0, interaction, (draws, int(own.max()) + 1))[:, own] if interaction else 0.0
        chances = 1 / (1 + np.exp(-(intercept(rate, variance) + shared + alone)))
        won.append(rng.random((draws, n)) < chances)
    return 2 * won[0].astype(np.int8) + won[1].astype(np.int8)


def codes_of(design: str) -> Any:
    sizes = DESIGNS[design]
    return np.repeat(np.arange(len(sizes)), sizes)


def figures_of(cells: Any, codes: Any) -> Figures:
    alone = len(set(codes.tolist())) == len(codes)
    return figures(cells, None if alone else codes, 1 - ALPHA, whole=False)


def claimed(cells: Any, codes: Any) -> int:
    found = figures_of(cells, codes)
    return shown_sign(found.difference, found.p, ALPHA)


def lowest_p(cells: Any, codes: Any) -> Any:
    """Return a p-value for each draw that is never above ours: the larger of McNemar's and of t without a floor.

    Where it claims nothing we do not either, so that few draws have to be worked out.
    """
    only_a, only_b = (cells == 2).sum(axis=1), (cells == 1).sum(axis=1)
    exact = np.minimum(1, 2 * scipy_stats.binom.cdf(np.minimum(only_a, only_b), only_a + only_b, 0.5))
    sizes = np.bincount(codes)
    n, count = sizes.sum(), len(sizes)
    if count in (1, n):
        return exact
    sums = np.stack([((cells == 1).astype(int) - (cells == 2))[:, codes == code].sum(axis=1) for code in range(count)])
    mean = sums.sum(axis=0) / n
    error = np.sqrt(count / (count - 1) * ((sums - mean * sizes[:, None]) ** 2).sum(axis=0)) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    degrees = max(1.0, n**2 / (sizes**2).sum() - 1)
    return np.maximum(exact, 2 * scipy_stats.t.sf(t, degrees) * 0.999)


def size(design: str, rate: float, interaction: float, draws: int = 2_000) -> float:
    """Return how often a difference is claimed between targets that do not differ on average."""
    codes, rng = codes_of(design), np.random.default_rng([1, *_seed(design, rate, interaction)])
    cells = drawn(rng, codes, (rate, rate), interaction, draws)
    candidates = np.flatnonzero(lowest_p(cells, codes) < ALPHA)
    return sum(claimed(cells[at], codes) != 0 for at in candidates) / draws


def covered(design: str, rate: float, interaction: float, difference: float, draws: int = 600) -> float:
    """Return how often the interval of the difference contains the true one."""
    codes, rng = codes_of(design), np.random.default_rng([2, *_seed(design, rate, interaction)])
    hits = 0
    for row in drawn(rng, codes, (rate, rate + difference), interaction, draws):
        found = figures_of(row, codes).difference
        assert found.low is not None and found.high is not None
        hits += found.low <= difference <= found.high
    return hits / draws


def shown(design: str, rate: float, interaction: float, each: int = 5) -> tuple[float, float]:
    """Return how often a true difference that a run without one "could have shown" is claimed, and its median."""
    runs = 600 if design == "200 single" else 200
    codes, rng = codes_of(design), np.random.default_rng([3, *_seed(design, rate, interaction)])
    hits, said = 0, []
    for row in drawn(rng, codes, (rate, rate), interaction, runs):
        could = detectable(figures_of(row, codes), ALPHA)
        assert could is not None
        said.append(could)
        for again in drawn(rng, codes, (rate, rate + could), interaction, each):
            hits += claimed(again, codes) == 1
    return hits / (runs * each), float(np.median(said))


def gate_passes(design: str, rate: float, margin: float, draws: int = 800) -> float:
    """Return how often a gate is passed by a run that is worse by exactly the margin."""
    codes, rng = codes_of(design), np.random.default_rng([4, *_seed(design, rate, margin)])
    interaction = 0.0 if design == "200 single" else 0.7
    passed = 0
    for row in drawn(rng, codes, (rate, rate + margin), interaction, draws):
        found = figures_of(row, codes)
        passed += judged(found, margin, "attack").state == "passed"
    return passed / draws


def false_groups(layout: str, interaction: float, draws: int = 400) -> float:
    """Return the share of reports that name a group, where no group differs on average."""
    families, count, variants = map(int, layout.split(" × "))
    codes = np.repeat(np.arange(families), count * variants)
    groups = np.tile(np.repeat(np.arange(count), variants), families)
    rng = np.random.default_rng([5, families, count, variants])
    found = 0
    for start in range(0, draws, 50):
        cells = drawn(rng, codes, (0.28, 0.28), interaction, min(50, draws - start), groups)
        lowest = np.stack([lowest_p(cells[:, groups == group], codes[groups == group]) for group in range(count)])
        possible = (np.sort(lowest, axis=0) <= ALPHA * np.arange(1, count + 1)[:, None] / count).any(axis=0)
        for at in np.flatnonzero(possible):
            members = [
                ComparedGroup(
                    **asdict(figures_of(cells[at][groups == group], codes[groups == group])),
                    value=str(group),
                    small=False,
                )
                for group in range(count)
            ]
            (by,) = tested([{"group": members}], ALPHA)
            found += any(group.stands_out for group in by["group"])
    return found / draws


def unpaired(families: int, variants: int, rate: float, draws: int = 500) -> float:
    """Return how often a difference of different entries is claimed that is not there; the correlation is 0.3."""
    rng = np.random.default_rng([6, families, variants])
    sizes, precision = [variants] * families, 0.7 / 0.3
    rates = rng.beta(rate * precision, (1 - rate) * precision, (draws, 2, families))
    won = rng.binomial(variants, rates).tolist()
    hits = 0
    for a, b in won:
        found = Design(families=True).unpaired((b, sizes), (a, sizes))
        assert found.estimate.low is not None and found.estimate.high is not None and found.p is not None
        hits += found.p < ALPHA and not found.estimate.low <= 0 <= found.estimate.high
    return hits / draws


def _seed(design: str, *numbers: float) -> list[int]:
    return [list(DESIGNS).index(design), *(round(1000 * number) for number in numbers)]


# -- what is recorded ---------------------------------------------------------------------------------------------


def rows() -> dict[str, Callable[[], str]]:
    """Return each row of the tables by its name; called, it measures the figures of its columns."""
    found: dict[str, Callable[[], str]] = {}
    for design, rate, interaction in SIZES:
        name = f"same entries, {design}, {100 * rate:g}%, interaction {interaction:g}"
        found[name] = lambda d=design, r=rate, i=interaction: (  # type: ignore[misc]
            f"{100 * size(d, r, i):.1f} | {100 * covered(d, r, i, 0.0):.1f} | {100 * covered(d, r, i, 0.1):.1f}"
        )
    for families, variants, rate in UNPAIRED:
        name = f"different entries, {families} × {variants} each, {100 * rate:g}%"
        found[name] = lambda f=families, v=variants, r=rate: f"{100 * unpaired(f, v, r):.1f}"  # type: ignore[misc]
    for layout, interaction in GROUPS:
        name = f"groups, {layout} (families × groups × variants), interaction {interaction:g}"
        found[name] = lambda g=layout, i=interaction: f"{100 * false_groups(g, i):.1f}"  # type: ignore[misc]
    for design, rate, margin in GATES:
        name = f"gate, {design}, {100 * rate:g}%, margin {100 * margin:g} points"
        found[name] = lambda d=design, r=rate, m=margin: f"{100 * gate_passes(d, r, m):.1f}"  # type: ignore[misc]
    for design, rate, interaction in SHOWN:
        name = f"could have shown, {design}, {100 * rate:g}%, interaction {interaction:g}"
        found[name] = lambda d=design, r=rate, i=interaction: "{:.1f} | {:.1f}".format(  # type: ignore[misc]
            *(100 * share for share in shown(d, r, i))
        )
    return found


COLUMNS = {
    "same entries": ("false claims", "95% interval covers, no difference", "covers, 10 points"),
    "different entries": ("false claims",),
    "groups": ("reports that name a group",),
    "gate": ("passed",),
    "could have shown": ("such a difference is claimed", "median of what is said, points"),
}


def recorded() -> dict[str, tuple[str, ...]]:
    """Return the recorded figures by the name of their row, as they are written."""
    found: dict[str, tuple[str, ...]] = {}
    for row in coverage_record.rows(PART):
        name = f"{row.table}, {row.situation}"
        found[name] = (*found.get(name, ()), row.figure)
    return found


def main() -> None:
    measured = []
    for name, measure in rows().items():
        table, _, situation = name.partition(", ")
        for column, figure in zip(COLUMNS[table], measure().split(" | "), strict=True):
            measured.append(Row(PART, table, situation, column, "ours", figure))
    coverage_record.replace(PART, measured)


if __name__ == "__main__":
    main()
