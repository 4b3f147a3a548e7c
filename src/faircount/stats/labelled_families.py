"""Intervals of rates from verdicts and labels where entries come in families of variants.

A rate that is estimated from labels of some entries is a smooth function of a few counts over all families. So its
variance follows from how families differ in these counts, whatever it is that variants share: successes, the judge's
errors, blocks, or labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Estimate
from faircount.stats.clusters import effective_degrees, expected_correlation
from faircount.stats.distributions import student_critical_value
from faircount.stats.judge_error import VerdictCounts
from faircount.stats.proportion import score_limits

Gradient = tuple[float, ...]
"""By how much a rate grows with each of the counts of `VerdictCounts`."""


class FamilyVariance(Struct, frozen=True):
    """The variance of a rate with families as the units, and with entries as the units."""

    clustered: float
    independent: float
    degrees: int
    """Degrees of freedom of families of these sizes."""
    labels: int
    floor: float
    """What families add to a variance p(1-p)/n of entries at least, as a multiple of it; see `correlation_floor`."""
    entries: int


def two_phase_gradient(counts: VerdictCounts) -> Gradient:
    """Return the gradient of `two_phase`, the rate over judged entries."""
    parts, shares, n = (counts.successes, counts.failures), counts.shares, counts.judged
    rate = math.fsum(part.judged * share for part, share in zip(parts, shares, strict=False)) / n
    found = [0.0]
    for part, share in zip(parts, shares, strict=False):
        by_label = part.judged / n / part.labelled if part.labelled else 0.0
        found += [(share - rate) / n, -share * by_label, by_label]
    return tuple(found)


def prediction_powered_gradient(counts: VerdictCounts, weight: float) -> Gradient:
    """Return the gradient of `ppi_mean` over judged entries, its weight of the verdicts taken as fixed."""
    successes, labelled = counts.successes, counts.labelled
    others = counts.judged - labelled
    by_label = -counts.true / labelled**2
    verdict = weight / labelled if labelled else 0.0
    seen = successes.labelled / labelled
    # An entry with a label is none of the others, and each term is one of a ratio.
    unseen = weight / others if others else 0.0
    rest = (successes.judged - successes.labelled) / others if others else 0.0
    judged = (unseen * (1 - rest), -unseen * rest)
    with_label = (by_label - verdict * (1 - seen) - judged[0], by_label + verdict * seen - judged[1])
    return (0.0, judged[0], with_label[0], 1 / labelled, judged[1], with_label[1], 1 / labelled)


def over_all_gradient(gradient: Gradient, rate: float, counts: VerdictCounts) -> Gradient:
    """Return the gradient of the rate over all entries: that over judged ones times the share that is judged."""
    judged, entries = counts.judged, counts.total
    scaled = [judged / entries * slope for slope in gradient]
    scaled[0] -= rate * judged / entries**2
    scaled[1] += rate / entries
    scaled[4] += rate / entries
    return tuple(scaled)


def family_variance(gradient: Gradient, families: Iterable[VerdictCounts]) -> FamilyVariance | None:
    """Return the linearised variance of a rate: G/(G-1)·Σ(gradient · counts of a family)², and Σ over entries alike.

    For a plain share this is the CR1 variance of `cluster_wilson` (Liang and Zeger 1986; Binder 1983 for functions of
    totals). None with fewer than two families.
    """
    kinds = [family for family in families if family.total]
    count = sum(family.times for family in kinds)
    if count < 2:
        return None
    squares = math.fsum(family.times * _dot(gradient, family.counts) ** 2 for family in kinds)
    totals = [sum(family.times * family.counts[place] for family in kinds) for place in range(len(gradient))]
    single = math.fsum(times * _dot(gradient, entry) ** 2 for times, entry in _entries(totals))
    sizes = [family.total for family in kinds for _ in range(family.times)]
    labelled = [family.labelled for family in kinds]
    entries = sum(sizes)
    alike = expected_correlation([family.true for family in kinds], labelled, [family.times for family in kinds])
    typical = sum(size * size for size in sizes) / entries
    return FamilyVariance(
        clustered=count / (count - 1) * squares,
        independent=single,
        degrees=effective_degrees(sizes),
        labels=sum(family.times * labels for family, labels in zip(kinds, labelled, strict=True)),
        floor=(typical - 1) * alike,
        entries=entries,
    )


def with_families(estimate: Estimate, variance: FamilyVariance | None) -> Estimate:
    """Return an estimate with the wider of its own limits and those that respect families, on either side.

    The latter are Wilson's on the effective size p(1-p)/variance, as in `cluster_wilson`, with Student's critical value
    for the effective number of families less 1. The variance is at least that of independent entries and labels and,
    beside it, (m̃ - 1)·E[ρ | labels]·p(1-p)/n for what entries of a family share: few labels of each family cannot show
    how alike they are. Without a variance there is no interval.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if variance is None or value is None or low is None or high is None:
        return replace(estimate, low=None, high=None)
    shared = variance.floor / variance.entries
    if 0 < value < 1 and variance.independent > 0:
        size = value * (1 - value) / max(variance.clustered, variance.independent + shared * value * (1 - value))
    else:
        size = 1 / (1 / max(variance.labels, 1) + shared)
    limits = score_limits(value, size, student_critical_value(estimate.level, variance.degrees))
    return replace(estimate, low=min(low, limits[0]), high=max(high, limits[1]))


def _entries(totals: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield how many entries of each kind there are, and the counts of one of them."""
    entries, *verdicts = totals
    yield entries - verdicts[0] - verdicts[3], (1, 0, 0, 0, 0, 0, 0)
    for place in (0, 3):
        judged, labelled, true = verdicts[place : place + 3]
        for times, counts in ((judged - labelled, (1, 0, 0)), (labelled - true, (1, 1, 0)), (true, (1, 1, 1))):
            yield times, (1, *(0,) * place, *counts, *(0,) * (3 - place))


def _dot(gradient: Sequence[float], counts: Sequence[int]) -> float:
    return math.fsum(slope * count for slope, count in zip(gradient, counts, strict=True))
