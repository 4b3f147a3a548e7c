"""Agreement between raters: judges among themselves, or a judge and people.

Kappa asks how much of the agreement is left after what two raters of such habits would reach by chance. When nearly
all items fall in one category it collapses although the raters hardly ever differ, so PABAK and AC1 stand beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from faircount.core.model import Estimate
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

Measurement = Literal["nominal", "ordinal", "interval"]
DEFAULT_REPLICATES = 2000
DEFAULT_SEED = 42
_NO_VARIANCE = 1e-12
"""A variance of kappa for one item that is below this is 0 but for rounding."""
_KAPPA_METHOD = "cohen kappa, fleiss-cohen-everitt"


def observed_agreement(table: npt.ArrayLike) -> float | None:
    """Return the share of items on which two raters agree; the diagonal of the table over its sum."""
    shares = _shares(table)
    return None if shares is None else float(shares.trace())


def chance_agreement(table: npt.ArrayLike) -> float | None:
    """Return the agreement of two raters by chance (Cohen 1960); Σ pᵢ₊·p₊ᵢ with their own frequencies."""
    shares = _shares(table)
    return None if shares is None else float(shares.sum(axis=1) @ shares.sum(axis=0))


def cohen_kappa(table: npt.ArrayLike, *, unit: str = "item", level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the agreement of two raters beyond chance (Cohen 1960); the table has one rater in the rows.

    kappa = (Po - Pe)/(1 - Pe) (Cohen 1960), with kappa ± z·SE, not cut at 1, and the standard error of
    `kappa_standard_error`. When both raters use one and the same category throughout, it is 0/0: undefined. Where they
    always agree, or one of them uses a single category, the standard error is 0 however few items there are: then there
    is a value and no interval.
    """
    z = critical_value(level)
    counts = _square(table)
    n, shares = int(counts.sum()), _shares(counts)
    kappa, error = _kappa(shares), _kappa_error(shares, n)
    if kappa is None or error is None:
        return undefined(unit, level, _KAPPA_METHOD, n)
    if not error:
        return Estimate(kappa, None, None, n, unit, level, _KAPPA_METHOD)
    return Estimate(kappa, kappa - z * error, kappa + z * error, n, unit, level, _KAPPA_METHOD)


def kappa_standard_error(table: npt.ArrayLike) -> float | None:
    """Return the large-sample standard error of Cohen's kappa (Fleiss, Cohen and Everitt 1969).

    √(A + B - C) / ((1 - Pe)·√n) with A = Σᵢ pᵢᵢ(1 - (pᵢ₊ + p₊ᵢ)(1 - K))², B = (1 - K)²·Σ_{i≠j} pᵢⱼ(p₊ᵢ + pⱼ₊)² and
    C = (K - Pe(1 - K))².
    """
    counts = _square(table)
    return _kappa_error(_shares(counts), int(counts.sum()))


def pabak(table: npt.ArrayLike) -> float | None:
    """Return the prevalence- and bias-adjusted kappa; (q·Po - 1)/(q - 1) for q categories, 2Po - 1 for two.

    Byrt, Bishop and Carlin 1993; for more categories Brennan and Prediger 1981.
    """
    observed, categories = observed_agreement(table), len(_square(table))
    return None if observed is None or categories < 2 else (categories * observed - 1) / (categories - 1)


def gwet_ac1(table: npt.ArrayLike) -> float | None:
    """Return Gwet's AC1 (Gwet 2008); (Po - Pe)/(1 - Pe), Pe = Σ πᵢ(1 - πᵢ)/(q - 1), πᵢ = (pᵢ₊ + p₊ᵢ)/2."""
    shares = _shares(table)
    if shares is None or len(shares) < 2:
        return None
    frequencies = (shares.sum(axis=0) + shares.sum(axis=1)) / 2
    by_chance = float((frequencies * (1 - frequencies)).sum()) / (len(shares) - 1)
    return (float(shares.trace()) - by_chance) / (1 - by_chance)


def fleiss_kappa(
    counts: npt.ArrayLike,
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
    unit: str = "item",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the agreement of a fixed number of raters (Fleiss 1971); items in rows, how many chose each in columns.

    kappa = (P - Pe)/(1 - Pe), P the mean over items of (Σⱼ nᵢⱼ² - m)/(m(m - 1)), Pe = Σ (share of category j)²
    (Fleiss 1971). Undefined when only one category was ever used. The interval is the percentile interval of a
    bootstrap over items (Efron and Tibshirani 1993, chapter 13), of those replicates in which kappa is defined; there
    is none when all of them are equal, nor with `replicates=0`.
    """
    import numpy as np

    critical_value(level)
    ratings = np.asarray(counts, dtype=np.float64)
    if ratings.ndim != 2 or (ratings < 0).any():
        raise ValueError("ratings are counted in a table of items by categories, with no count below 0")
    raters = np.unique(ratings.sum(axis=1))
    if len(raters) > 1:
        raise ValueError("Fleiss' kappa needs the same number of ratings for every item: use krippendorff_alpha")
    blank = undefined(unit, level, "fleiss kappa, bootstrap over items", len(ratings))
    if not len(ratings) or raters[0] < 2:
        return blank
    kinds, times = np.unique(ratings, axis=0, return_counts=True)
    return _over_kinds(kinds, times, _fleiss, replicates, seed, blank)


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | str | None]],
    measurement: Measurement = "nominal",
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
    unit: str = "item",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the agreement of any number of raters; one row each, one column per item, None or NaN where missing.

    alpha = 1 - (n - 1)·Σ o(c,k)·δ²(c,k) / Σ n(c)·n(k)·δ²(c,k) over pairs of values c, k (Krippendorff 2019, chapter
    12). o adds, for each item with m >= 2 ratings, its ordered pairs of ratings, each weighing 1/(m - 1); n(c) are the
    margins of o and n their sum. δ² is 1 for different values (nominal), (c - k)² (interval), or the square of the
    number of ratings from c to k, those at c and at k counted half (ordinal). Undefined when nothing can be paired or
    all values are equal. The n of the estimate is the number of items with two ratings or more. The interval is that
    of `fleiss_kappa`.
    """
    import numpy as np

    critical_value(level)
    if measurement not in get_args(Measurement):
        raise ValueError(f"a measurement is one of {', '.join(get_args(Measurement))}, not {measurement}")
    values, counts = _ratings_per_item(ratings)
    if measurement != "nominal" and any(isinstance(value, str) for value in values):
        raise ValueError(f"{measurement} agreement needs numbers: words have no order")
    kinds, times = np.unique(counts, axis=0, return_counts=True) if len(counts) else (counts, np.zeros(0, np.int64))
    numbers = range(len(values)) if measurement == "nominal" else values
    return alpha_of_kinds(
        kinds, times, list(numbers), measurement, replicates=replicates, seed=seed, unit=unit, level=level
    )


def alpha_of_kinds(
    kinds: npt.ArrayLike,
    times: npt.ArrayLike,
    values: npt.ArrayLike,
    measurement: Measurement = "nominal",
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int = DEFAULT_SEED,
    unit: str = "item",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate Krippendorff's alpha from counts of equal items; as many as there are, in little memory.

    Kinds of items are in rows, how many raters gave each value in columns; `times` says how many items there are of
    each kind, `values` are the values in ascending order. Only how often each value was given for an item has a say in
    alpha, not by whom. See `krippendorff_alpha` for what is estimated and for its interval.
    """
    import numpy as np

    critical_value(level)
    counts, numbers = np.asarray(kinds, np.float64), np.asarray(values, np.float64)
    often = np.asarray(times, np.int64)
    if counts.ndim != 2 or counts.shape != (len(often), len(numbers)):
        raise ValueError("kinds of items are counted in a table of kinds by values, with a number of items for each")
    paired = (counts.sum(axis=1) >= 2) & (often > 0)
    counts, often = counts[paired], often[paired]
    blank = undefined(unit, level, f"krippendorff alpha, {measurement}, bootstrap over items", int(often.sum()))

    def alpha(items: Floats, chosen: Floats) -> float | None:
        together = _coincidences(items, chosen)
        return _alpha(together, _squared_distances(together.sum(axis=0), measurement, numbers))

    return _over_kinds(counts, often, alpha, replicates, seed, blank)


def _square(table: npt.ArrayLike) -> Floats:
    import numpy as np

    counts = np.asarray(table, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or (counts < 0).any():
        raise ValueError("two raters are compared in a square table of counts, none below 0")
    return counts


def _shares(table: npt.ArrayLike) -> Floats | None:
    counts = _square(table)
    total = counts.sum()
    return counts / total if total else None


def _kappa(shares: Floats | None) -> float | None:
    """Return Cohen's kappa; undefined when only one category was used."""
    if shares is None or shares.max() == 1 == shares.trace():
        return None
    by_chance = float(shares.sum(axis=1) @ shares.sum(axis=0))
    return (float(shares.trace()) - by_chance) / (1 - by_chance)


def _kappa_error(shares: Floats | None, n: int) -> float | None:
    kappa = _kappa(shares)
    if shares is None or kappa is None:
        return None
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    by_chance = float(rows @ columns)
    diagonal = shares.diagonal()
    agreeing = (diagonal * (1 - (rows + columns) * (1 - kappa)) ** 2).sum()
    weights = shares * (columns[:, None] + rows[None, :]) ** 2
    differing = (1 - kappa) ** 2 * (weights.sum() - weights.trace())
    centre = (kappa - by_chance * (1 - kappa)) ** 2
    variance = float(agreeing + differing - centre)
    if variance < _NO_VARIANCE:
        # Perfect agreement leaves a rounding error of either sign where 0 is meant.
        return 0.0
    return math.sqrt(variance / n) / (1 - by_chance)


def _fleiss(items: Floats, times: Floats) -> float | None:
    raters = items[0].sum()
    within = (items**2).sum(axis=1) - raters
    observed = float(times @ within) / float(times.sum() * raters * (raters - 1))
    frequencies = times @ items / (times.sum() * raters)
    by_chance = float(frequencies @ frequencies)
    return None if frequencies.max() == 1 else (observed - by_chance) / (1 - by_chance)


def _ratings_per_item(ratings: Sequence[Sequence[float | str | None]]) -> tuple[list[float | str], Floats]:
    """Return the values in order, and for each item how many raters gave each value."""
    import numpy as np

    if len({len(row) for row in ratings}) > 1:
        raise ValueError("every rater needs one place per item, with None where a rating is missing")
    given = [
        (item, rating)
        for row in ratings
        for item, rating in enumerate(row)
        # NaN differs from itself.
        if rating is not None and rating == rating
    ]
    values = sorted({rating for _, rating in given}, key=lambda value: (isinstance(value, str), value))
    place = {value: index for index, value in enumerate(values)}
    counts = np.zeros((len(ratings[0]) if ratings else 0, len(values)))
    for item, rating in given:
        counts[item, place[rating]] += 1
    return values, counts


def _coincidences(items: Floats, times: Floats) -> Floats:
    """Return how often each two values meet in an item, each item weighing as many units as it has ratings."""
    import numpy as np

    weights = times / (items.sum(axis=1) - 1)
    together: Floats = (items * weights[:, None]).T @ items - np.diag(weights @ items)
    return together


def _squared_distances(margins: Floats, measurement: Measurement, numbers: Floats) -> Floats:
    import numpy as np

    if measurement == "nominal":
        return 1 - np.eye(len(margins))
    # The number of ratings from c to k, with those at c and k counted half, is the distance of their middle ranks.
    places = np.cumsum(margins) - margins / 2 if measurement == "ordinal" else numbers
    # Alpha does not depend on the scale; the square of a huge number is none.
    scale = np.abs(places).max(initial=0.0) or 1.0
    places = places / scale
    squared: Floats = (places[:, None] - places[None, :]) ** 2
    return squared


def _alpha(together: Floats, squared_distances: Floats) -> float | None:
    margins = together.sum(axis=0)
    expected = float(margins @ squared_distances @ margins)
    observed = float((together * squared_distances).sum())
    return 1 - (float(margins.sum()) - 1) * observed / expected if expected > 0 else None


def _over_kinds(
    kinds: Floats,
    times: npt.NDArray[np.int64],
    statistic: Callable[[Floats, Floats], float | None],
    replicates: int,
    seed: int,
    blank: Estimate,
) -> Estimate:
    """Fill in the value of a statistic of items and its bootstrap limits, drawing among the kinds of items seen."""
    import numpy as np

    if replicates < 0:
        raise ValueError("the number of replicates cannot be negative")
    total = int(times.sum())
    if not total:
        return blank
    value = statistic(kinds, times.astype(np.float64))
    if value is None:
        return blank
    generator = np.random.default_rng(seed)
    drawn = (generator.multinomial(total, times / total).astype(np.float64) for _ in range(replicates))
    values = [again for chosen in drawn if (again := statistic(kinds, chosen)) is not None]
    if not values or min(values) == max(values):
        # Replicates that never differ have seen no disagreement, or nothing else; that is no interval.
        return _filled(blank, value, None, None)
    low, high = np.percentile(values, [50 * (1 - blank.level), 50 * (1 + blank.level)])
    if low == high:
        return _filled(blank, value, None, None)
    return _filled(blank, value, float(low), float(high))


def _filled(blank: Estimate, value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value, low, high, blank.n, blank.unit, blank.level, blank.method)
