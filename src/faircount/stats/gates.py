"""May this build ship, may one look while it runs, and how many more entries would decide?

Tests of non-inferiority, tests that allow every look, and the entries that a gate still needs if rates stay as they
are. The formulas for the latter are those of `faircount.stats.planning`. They are approximations, so that their answer
is tried: the same shares in as many entries must decide. Where they do not, more are taken until they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Estimate, GroupFamilies
from faircount.stats.comparison import farrington_manning, farrington_manning_score, tango, tango_score
from faircount.stats.design import few_families
from faircount.stats.distributions import check_level, crossing, log_beta, normal_tail, student_critical_value
from faircount.stats.planning import (
    sample_size_half_width,
    sample_size_non_inferiority,
    sample_size_zero_hits,
)
from faircount.stats.proportion import DEFAULT_LEVEL, check_counts, critical_value, score_limits, undefined, wilson

DEFAULT_ALPHA = 0.05
SEQUENCE, SEQUENCE_OVER_FAMILIES = "confidence sequence", "confidence sequence, families"
"""The methods of rates whose intervals hold at all sample sizes at once."""


class NonInferiority(Struct, frozen=True):
    """Whether a new system is no worse than the old one by a margin.

    `difference` is new - old with the two-sided interval at 1 - 2α, whose limits are the one-sided ones at 1 - α.
    "non_inferior": the upper limit is below the margin; "inferior": the lower limit is above it; "not_shown": neither,
    or no entry at all. A lower limit above 0 shows that the new system is worse, by however little.
    """

    difference: Estimate
    margin: float
    z: float | None
    p: float | None
    verdict: Literal["non_inferior", "inferior", "not_shown"]

    @property
    def shown_worse(self) -> bool:
        """Whether the new system's rate is shown to be higher, the margin aside."""
        return self.difference.low is not None and self.difference.low > 0


def non_inferiority_paired(
    only_new: int, only_old: int, n: int, margin: float, *, alpha: float = DEFAULT_ALPHA, unit: str = "entry"
) -> NonInferiority:
    """Test non-inferiority on the same entries (Tango 1998); the new rate is less than `margin` above the old.

    H0: p_new - p_old >= margin; p = Φ(z) with z Tango's score at the margin; the limits are Tango's at 1 - 2α.
    """
    difference = tango(only_new, only_old, n, unit=unit, level=_two_sided(alpha, margin))
    z = tango_score(only_new, only_old, n, margin) if n else None
    return _judged(difference, margin, z)


def non_inferiority_unpaired(
    new_successes: int,
    new_n: int,
    old_successes: int,
    old_n: int,
    margin: float,
    *,
    alpha: float = DEFAULT_ALPHA,
    unit: str = "entry",
) -> NonInferiority:
    """Test non-inferiority on different entries (Farrington and Manning 1990); as `non_inferiority_paired`.

    H0: p_new - p_old >= margin; p = Φ(z) with the score at the margin; the limits invert the same score.
    """
    counts = new_successes, new_n, old_successes, old_n
    difference = farrington_manning(*counts, unit=unit, level=_two_sided(alpha, margin))
    z = farrington_manning_score(*counts, margin) if new_n and old_n else None
    return _judged(difference, margin, z)


def non_inferiority_by_limits(
    difference: Estimate, margin: float, *, alpha: float = DEFAULT_ALPHA, degrees: float | None = None
) -> NonInferiority:
    """Test non-inferiority by any interval; that the new rate is less than `margin` above the old one.

    One-sided limits at 1 - α lie nearer to the value than these two-sided ones, by the ratio of the critical values at
    1 - 2α and at 1 - α: normal, or Student's with so many degrees of freedom. There is neither z nor p.
    """
    value, low, high, level = difference.value, difference.low, difference.high, 1 - 2 * alpha
    if value is None or low is None or high is None:
        return _judged(replace(difference, low=None, high=None, level=level), margin, None)
    if degrees is None:
        share = critical_value(level) / critical_value(1 - alpha)
    else:
        share = student_critical_value(level, degrees) / student_critical_value(1 - alpha, degrees)
    low, high = value - share * (value - low), value + share * (high - value)
    return _judged(replace(difference, low=low, high=high, level=level), margin, None)


def with_others(estimate: Estimate, successes: int, total: int) -> Estimate:
    """Return a rate of n entries as one of `total`; the others add `successes`, or take them away if negative.

    With none and with all of the others, these are worst-case bounds: nobody knows how entries ended that have no
    outcome (Horowitz and Manski 2000). Cut to at most 1.
    """
    if estimate.value is None:
        return estimate
    value, low, high = (
        None if share is None else min(1.0, (share * estimate.n + successes) / total)
        for share in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high, n=total)


class SequentialTest(Struct, frozen=True):
    """The course of Wald's test: bounds, log-likelihood ratio after each outcome, and first decision.

    `decided_at` counts outcomes from 1; both it and `decision` are None while the ratio stays between the bounds.
    """

    lower: float
    upper: float
    log_ratios: tuple[float, ...]
    decided_at: int | None
    decision: Literal["accept_H0", "accept_H1"] | None


def sprt(
    outcomes: Sequence[bool | int], p0: float, p1: float, *, alpha: float = 0.05, beta: float = 0.10
) -> SequentialTest:
    """Decide between two rates as outcomes arrive (Wald 1945); the rates are p0 < p1, the outcomes independent.

    The log-likelihood ratio grows by ln(p1/p0) with a success and ln((1-p1)/(1-p0)) with a failure; H1 is accepted at
    ln((1-β)/α) and H0 at ln(β/(1-α)). Both rates are fixed in advance. What came after the decision is shown too.
    """
    if not 0 < p0 < p1 < 1:
        raise ValueError("the two rates lie strictly between 0 and 1, the first below the second")
    if not (alpha > 0 and beta > 0 and alpha + beta < 1):
        raise ValueError("the two error rates are positive and together below 1")
    if any(outcome not in (0, 1) for outcome in outcomes):
        raise ValueError("an outcome is a success or a failure")
    lower, upper = math.log(beta / (1 - alpha)), math.log((1 - beta) / alpha)
    gain, loss = math.log(p1 / p0), math.log((1 - p1) / (1 - p0))
    ratios: list[float] = []
    successes = 0
    for seen, outcome in enumerate(outcomes, start=1):
        successes += bool(outcome)
        ratios.append(successes * gain + (seen - successes) * loss)
    first = next((place for place, ratio in enumerate(ratios, start=1) if not lower < ratio < upper), None)
    decision: Literal["accept_H0", "accept_H1"] | None = None
    if first is not None:
        decision = "accept_H1" if ratios[first - 1] >= upper else "accept_H0"
    return SequentialTest(lower, upper, tuple(ratios), first, decision)


def log_e_value(successes: int, failures: int, p0: float) -> float:
    """Return the log of evidence against a rate, valid after every outcome; the rate is p0.

    e = B(½+s, ½+f)/B(½, ½)/(p0^s·(1-p0)^f), a mixture likelihood ratio (Robbins 1970): under p0 it ever reaches 1/α
    with a chance of at most α. For two targets on the same entries, count discordant entries with p0 = ½.
    """
    check_counts(successes, successes + failures)
    if not 0 <= p0 <= 1:
        raise ValueError(f"a rate lies between 0 and 1, not at {p0}")
    return _log_e_value(successes, failures, p0)


def _log_e_value(successes: float, failures: float, p0: float) -> float:
    if (p0 == 0 and successes) or (p0 == 1 and failures):
        return math.inf
    mixture = log_beta(successes + 0.5, failures + 0.5) - log_beta(0.5, 0.5)
    success_term = successes * math.log(p0) if successes else 0.0
    return mixture - success_term - (failures * math.log1p(-p0) if failures else 0.0)


def confidence_sequence(
    successes: int,
    failures: int,
    *,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
    design_effect: float | None = None,
) -> Estimate:
    """Estimate a rate with an interval that holds simultaneously at all sample sizes (Robbins 1970).

    All p whose `log_e_value` is below ln(1/(1 - level)): however often one looks, and whenever one stops, it misses the
    rate with a chance of at most 1 - level. Undefined before the first outcome. Outcomes are independent, or variants
    in families with a design effect (see `widening`): then successes and failures are divided by it first, which is an
    approximation.
    """
    check_counts(successes, successes + failures)
    check_level(level)
    if design_effect is not None and not design_effect >= 1:
        raise ValueError(f"a design effect is at least 1, not {design_effect}")
    method = SEQUENCE if design_effect is None else SEQUENCE_OVER_FAMILIES
    n, effect = successes + failures, design_effect or 1.0
    if n == 0:
        return undefined(unit, level, method)
    value, bound = successes / n, -math.log1p(-level)

    def surplus(rate: float) -> float:
        return _log_e_value(successes / effect, failures / effect, rate) - bound

    low = crossing(surplus, 0.0, value) if successes else 0.0
    high = crossing(surplus, value, 1.0) if failures else 1.0
    return Estimate(value, low, high, n, unit, level, method)


def _two_sided(alpha: float, margin: float) -> float:
    """Return the level of the two-sided interval whose limits are one-sided at 1 - α."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"the one-sided level of a test lies strictly between 0 and 0.5, not at {alpha}")
    if not 0 <= margin < 1:
        raise ValueError(f"a margin is a difference of rates from 0 to below 1, not {margin}")
    return 1 - 2 * alpha


def _judged(difference: Estimate, margin: float, z: float | None) -> NonInferiority:
    verdict: Literal["non_inferior", "inferior", "not_shown"] = "not_shown"
    if difference.high is not None and difference.high < margin:
        verdict = "non_inferior"
    elif difference.low is not None and difference.low > margin:
        verdict = "inferior"
    return NonInferiority(difference, margin, z, None if z is None else normal_tail(-z), verdict)


# -- how many more entries decide ---------------------------------------------------------------------------------

POWER = 0.8
MOST = 1_000_000_000
_GROWTH = 1.05
_INSIDE = 1e-9
"""Keeps a sum of rates between 0 and 1 in floating point."""


def more_entries(estimate: Estimate, threshold: float, design_effect: float | None = None) -> int | None:
    """Return how many more entries decide about a threshold; if the rate stays as it is.

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
    """Return how many more families like these decide about a threshold; if all else stays.

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
    """Return how many entries, all on the good side, would decide about a threshold."""
    distance = threshold if sign in (">", ">=") else 1 - threshold
    if not 0 < distance < 1:
        return None
    return sample_size_zero_hits(distance, level=level).entries


def more_pairs(only_worse: int, only_better: int, n: int, margin: float, alpha: float) -> int | None:
    """Return how many more pairs decide a test of non-inferiority; with a power of 80%, at the shares seen so far."""
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
    """Return how many more entries of each system decide the same test; on different entries: (worse, n) of each."""
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
    """Return how many more entries decide a test by limits alone; with a power of 80%.

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
