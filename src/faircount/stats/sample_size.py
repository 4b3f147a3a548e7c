"""How many more entries would decide a gate, if their rates are those seen so far.

The formulas are those of `faircount.stats.planning`. They are approximations, so that their answer is tried: the same
shares in as many entries must decide. Where they do not, more are taken until they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from faircount.core.model import Estimate, GroupFamilies
from faircount.stats.design import few_families
from faircount.stats.distributions import student_critical_value
from faircount.stats.gates import (
    SEQUENCE,
    SEQUENCE_OVER_FAMILIES,
    NonInferiority,
    confidence_sequence,
    non_inferiority_paired,
    non_inferiority_unpaired,
)
from faircount.stats.planning import (
    sample_size_half_width,
    sample_size_non_inferiority,
    sample_size_zero_hits,
)
from faircount.stats.proportion import score_limits, wilson

POWER = 0.8
MOST = 1_000_000_000
_GROWTH = 1.05
_INSIDE = 1e-9
"""Keeps a sum of rates between 0 and 1 in floating point."""


def more_entries(estimate: Estimate, threshold: float, design_effect: float | None = None) -> int | None:
    """Return how many more entries put a threshold outside the interval of a rate, if the rate stays as it is.

    None where no number does: the rate is undefined or equals the threshold.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None or value == threshold:
        return None
    effect = max(design_effect or 1.0, 1.0)
    half_width = min(abs(value - threshold), 0.49)
    start = sample_size_half_width(value, half_width, level=estimate.level, family_size=effect, icc=1.0).entries

    def decides(entries: int) -> bool:
        independent = max(round(entries / effect), 1)
        won = round(value * independent)
        if estimate.method == SEQUENCE:
            found = confidence_sequence(won, independent - won, level=estimate.level)
        else:
            found = wilson(won, independent, level=estimate.level)
        return found.low is not None and found.high is not None and not found.low <= threshold <= found.high

    return _more(start, estimate.n, decides)


def more_families(estimate: Estimate, threshold: float, families: GroupFamilies) -> int | None:
    """Return how many more families like these put a threshold outside the interval of a rate, if all else stays.

    More variants of the same families would not: they are alike. None where no number does.
    """
    value, seen, design_effect = estimate.value, families.count, families.design_effect
    if value is None or estimate.low is None or value == threshold:
        return None

    def decides(count: int) -> bool:
        if estimate.method == SEQUENCE_OVER_FAMILIES:
            entries = round(estimate.n * count / seen)
            effect = few_families(count, estimate.level) * max(design_effect, 1.0)
            won = round(value * entries)
            found = confidence_sequence(won, entries - won, level=estimate.level, design_effect=effect)
            return found.low is not None and found.high is not None and not found.low <= threshold <= found.high
        low, high = score_limits(
            value, estimate.n * count / seen / design_effect, student_critical_value(estimate.level, count - 1)
        )
        return not low <= threshold <= high

    return _more(seen + 1, seen, decides)


def entries_without_any(sign: str, threshold: float, level: float) -> int | None:
    """Return how many entries, all on the good side, would show that a rate is on that side of a threshold."""
    distance = threshold if sign in (">", ">=") else 1 - threshold
    if not 0 < distance < 1:
        return None
    return sample_size_zero_hits(distance, level=level).entries


def more_pairs(only_worse: int, only_better: int, n: int, margin: float, alpha: float) -> int | None:
    """Return how many more pairs decide a test of non-inferiority, with a power of 80%, at the shares seen so far."""
    if n == 0:
        return entries_without_any(">", margin, 1 - alpha)
    difference, discordant = (only_worse - only_better) / n, (only_worse + only_better) / n
    if difference == margin:
        return None
    sign = 1 if difference < margin else -1
    start = sample_size_non_inferiority(
        sign * margin, discordant=discordant, difference=sign * difference, power=POWER, alpha=alpha
    ).entries

    def decides(entries: int) -> bool:
        worse = round(only_worse * entries / n)
        better = min(round(only_better * entries / n), entries - worse)
        return non_inferiority_paired(worse, better, entries, margin, alpha=alpha).verdict != "not_shown"

    return _more(start, n, decides)


def more_entries_of_each(new: tuple[int, int], old: tuple[int, int], margin: float, alpha: float) -> int | None:
    """Return how many more entries of each system decide the same test on different entries; (worse, n) of each."""
    smaller = min(new[1], old[1])
    if smaller == 0:
        return entries_without_any(">", margin, 1 - alpha)
    rates = new[0] / new[1], old[0] / old[1]
    difference = rates[0] - rates[1]
    if difference == margin:
        return None
    sign = 1 if difference < margin else -1
    base, other = (min(max(rate, _INSIDE), 1 - _INSIDE) for rate in rates[::-sign])
    start = sample_size_non_inferiority(
        sign * margin, base=base, difference=other - base, power=POWER, alpha=alpha
    ).entries

    def decides(entries: int) -> bool:
        counts = [round(rate * entries) for rate in rates]
        found = non_inferiority_unpaired(counts[0], entries, counts[1], entries, margin, alpha=alpha)
        return found.verdict != "not_shown"

    return _more(start, smaller, decides)


def more_to_narrow(found: NonInferiority, alpha: float) -> int | None:
    """Return how many more entries decide a test by limits alone, with a power of 80%.

    An interval narrows with the root of the number of entries: n·((z_α + z_β)/z_α · limit/distance)² are needed, with
    the distance of the value from the margin, and that of the limit on the same side from the value. None where no
    number does, or there is no limit.
    """
    value, low, high, n = found.difference.value, found.difference.low, found.difference.high, found.difference.n
    if value is None or low is None or high is None:
        return None
    distance, limit = abs(found.margin - value), high - value if value < found.margin else value - low
    if n == 0 or distance <= 0 or limit <= 0:
        return None
    normal = NormalDist()
    factor = (normal.inv_cdf(1 - alpha) + normal.inv_cdf(POWER)) / normal.inv_cdf(1 - alpha)
    needed = n * (factor * limit / distance) ** 2
    return None if needed > MOST else max(math.ceil(needed) - n, 1)


def _more(start: int, n: int, decides: Callable[[int], bool]) -> int | None:
    """Return how many entries more than n suffice, beginning with what a formula says."""
    entries = max(start, n + 1)
    while entries <= MOST:
        if decides(entries):
            return entries - n
        entries = math.ceil(entries * _GROWTH)
    return None
