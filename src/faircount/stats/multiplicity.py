"""Adjusted p-values for many tests at once. An undefined p-value (None or NaN) is no test: it stays None."""

import math
from collections.abc import Callable, Sequence

PValues = Sequence[float | None]
Adjusted = tuple[float | None, ...]


def bonferroni(p_values: PValues) -> Adjusted:
    """Return min(1, m·p) for each of m tests: the chance of any false claim stays below the level (Dunn 1961)."""
    return _adjusted(p_values, lambda ordered: [min(1.0, len(ordered) * p) for p in ordered])


def holm(p_values: PValues) -> Adjusted:
    """Return Holm's step-down adjustment (Holm 1979): the guarantee of Bonferroni's, never weaker.

    In rising order, max over j <= i of min(1, (m-j+1)·p_(j)).
    """
    return _adjusted(p_values, _step_down)


def benjamini_hochberg(p_values: PValues) -> Adjusted:
    """Return the adjustment that bounds the expected share of false claims (Benjamini and Hochberg 1995).

    In rising order, min over j >= i of min(1, m·p_(j)/j).
    """
    return _adjusted(p_values, lambda ordered: _step_up(ordered, 1.0))


def benjamini_yekutieli(p_values: PValues) -> Adjusted:
    """Return the adjustment of Benjamini and Hochberg times Σ1/j, valid under any dependence (2001)."""
    return _adjusted(p_values, lambda ordered: _step_up(ordered, math.fsum(1 / j for j in range(1, len(ordered) + 1))))


def _step_down(ordered: list[float]) -> list[float]:
    adjusted, largest = [], 0.0
    for rank, p in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        adjusted.append(largest)
    return adjusted


def _step_up(ordered: list[float], penalty: float) -> list[float]:
    adjusted, smallest = [], 1.0
    for rank in range(len(ordered), 0, -1):
        smallest = min(smallest, penalty * len(ordered) * ordered[rank - 1] / rank)
        adjusted.append(smallest)
    return adjusted[::-1]


def _adjusted(p_values: PValues, adjust: Callable[[list[float]], list[float]]) -> Adjusted:
    """Apply an adjustment of rising p-values and put each back in its place."""
    tests = [(p, place) for place, p in enumerate(p_values) if p is not None and not math.isnan(p)]
    if any(not 0 <= p <= 1 for p, _ in tests):
        raise ValueError("a p-value lies between 0 and 1")
    tests.sort()
    result: list[float | None] = [None] * len(p_values)
    for (_, place), p in zip(tests, adjust([p for p, _ in tests]), strict=True):
        result[place] = p
    return tuple(result)
