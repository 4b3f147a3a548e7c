"""The difference of two rates behind the verdicts of a judge that errs. Differences are B - A.

One judge that was measured elsewhere: `corrected_difference`, which divides what the judge saw by how well it sees, and
valid only if it errs on both sides as it did there. Labels by people for part of both runs: `two_phase_difference`, or
`added_difference` of any two estimates that rest on labels of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from faircount.core.model import Estimate, Validation
from faircount.stats.distributions import student_critical_value
from faircount.stats.judge_error import CorrectionStatus, VerdictCounts, rogan_gladen
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, undefined, wilson
from faircount.stats.roots import crossing

# A value that lies on a limit is a rounding error beside it.
_ROUNDING = 1e-9


def corrected_difference(
    difference: Estimate, validation: Validation, *, judged_more: float = 0.0, further_variance: float = 0.0
) -> Estimate:
    """Correct a raw difference for the errors of the one judge of both sides: (d - (1-Sp)·w) / (Se + Sp - 1).

    d is the raw difference with any interval of its own, and w (`judged_more`) the share of B's answers that have a
    verdict less that of A's: false alarms fall on those alone. The limits are the D at which 0 is a limit of
    d - Se·D - (1-Sp)·(w - D), whose interval adds the squares of the distances of the limits of d and of Wilson's
    limits of Se and Sp, each times its factor (MOVER: Zou and Donner 2008; for a ratio, Fieller 1954).
    `further_variance` is what w adds to the variance of d. Without blocks the interval leaves out 0 just if that of d
    does. Cut to [-1, 1]; undefined where `rogan_gladen` finds the judge not identifiable or all of the interval lies
    outside of [-1, 1], without limits where d is.
    """
    method = f"{difference.method} / youden, square-and-add"
    status = rogan_gladen(0, 1, validation).status
    if difference.value is None or status == CorrectionStatus.NOT_IDENTIFIABLE or validation.youden is None:
        return undefined(difference.unit, difference.level, method, difference.n)
    alarms = 1 - validation.tn / validation.negatives
    value = _cut((difference.value - alarms * judged_more) / validation.youden)
    limits = _limits(difference, validation, judged_more, further_variance, value)
    if limits is None:
        return undefined(difference.unit, difference.level, method, difference.n)
    return Estimate(value, *limits, difference.n, difference.unit, difference.level, method)


def _limits(
    difference: Estimate, validation: Validation, judged_more: float, further_variance: float, value: float
) -> tuple[float | None, float | None] | None:
    """Return the limits, cut to what is possible; None where all of the interval lies outside of that."""
    raw, low, high, level = difference.value, difference.low, difference.high, difference.level
    if raw is None or low is None or high is None:
        return None, None
    found = wilson(validation.tp, validation.positives, level=level)
    alarms = wilson(validation.negatives - validation.tn, validation.negatives, level=level)
    further = critical_value(level) * math.sqrt(further_variance)

    def left(hypothesis: float, sign: int) -> float:
        """Return a limit of what is left of the raw difference if the true one is `hypothesis`: the low for sign -1."""
        by_found, by_alarms = -hypothesis, hypothesis - judged_more
        reach = math.hypot(
            raw - low if sign < 0 else high - raw,
            further,
            by_found * _reach(found, by_found * sign),
            by_alarms * _reach(alarms, by_alarms * sign),
        )
        return raw + by_found * (found.value or 0.0) + by_alarms * (alarms.value or 0.0) + sign * reach

    if left(value, -1) > _ROUNDING or left(value, 1) < -_ROUNDING:
        return None
    return _root(lambda at: left(at, -1), -1.0, value), _root(lambda at: left(at, 1), 1.0, value)


def _reach(estimate: Estimate, direction: float) -> float:
    """Return the distance of the upper limit for a positive direction, of the lower one for a negative."""
    limit = estimate.high if direction > 0 else estimate.low
    return abs((limit or 0.0) - (estimate.value or 0.0))


def _root(function: Callable[[float], float], end: float, value: float) -> float:
    """Return where a function turns on the way from `value` to `end`; `end` where it does not before."""
    if value == end or (function(end) > 0) == (end > 0):
        return end
    return crossing(function, min(end, value), max(end, value))


# -- labels of both runs ----------------------------------------------------------------------------------------


def two_phase_difference(
    a: VerdictCounts,
    b: VerdictCounts,
    *,
    table: Sequence[Sequence[int]] | None = None,
    family_variance: float | None = None,
    families: int | None = None,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the difference of two rates, each from labels drawn at random among those with the same verdict.

    With q_h the shares of judged successes, judged failures and blocks of a side, π_h the share of labels in them that
    say success (0 for blocks) and p = Σq_h·π_h, the value is p_B - p_A and its variance that of `two_phase` of either
    side, less 2·C/n: C = Σ(t_gh - q_g·q_h)·π_g·π_h is what the verdicts of the same entries have in common, with t_gh
    the share of pairs with verdict g in A and h in B (`table`; without it the entries are different ones). What truths
    have in common beyond the verdicts is not credited, which makes the interval too wide rather than too short. With
    families of variants, `family_variance` is that of the difference with families as the units: the larger of both
    variances counts, and the critical value is Student's. Cut to [-1, 1]; undefined when a part that has verdicts has
    no label.
    """
    method = "two-phase difference"
    z = critical_value(level) if families is None else student_critical_value(level, families - 1)
    if table is not None:
        _check_table(a, b, table)
    n = a.total + b.total if table is None else a.total
    if not a.total or not b.total or not all(part.labelled for side in (a, b) for part in side.parts):
        return undefined(unit, level, method, n)
    value = b.rate - a.rate
    # A covariance below 0 widens, as it should; what is above 0 narrows.
    shared = 0.0 if table is None else _shared(a, b, table)
    within = math.fsum(
        (part.judged / side.total) ** 2 * part.careful_variance for side in (a, b) for part in side.parts
    )
    between = math.fsum(_between(side) / side.total for side in (a, b)) - 2 * shared / a.total
    half = z * math.sqrt(max(within + max(between, 0.0), family_variance or 0.0))
    return Estimate(value, _cut(value - half), _cut(value + half), n, unit, level, method)


def _between(side: VerdictCounts) -> float:
    """Return the variance of the share of true successes over the verdicts of one side."""
    squares = ((share - side.rate) ** 2 for share in side.shares)
    return math.fsum(weight / side.total * square for weight, square in zip(side.by_verdict, squares, strict=True))


def _shared(a: VerdictCounts, b: VerdictCounts, table: Sequence[Sequence[int]]) -> float:
    """Return the covariance of the shares of true successes over pairs of verdicts."""
    products = (
        table[row][column] / a.total * (of_a - a.rate) * (of_b - b.rate)
        for row, of_a in enumerate(a.shares)
        for column, of_b in enumerate(b.shares)
    )
    return math.fsum(products)


def _check_table(a: VerdictCounts, b: VerdictCounts, table: Sequence[Sequence[int]]) -> None:
    if tuple(map(sum, table)) != a.by_verdict or tuple(map(sum, zip(*table, strict=True))) != b.by_verdict:
        raise ValueError("the table of pairs must add up to the verdicts of both sides")


def added_difference(b: Estimate, a: Estimate, *, n: int | None = None, unit: str = "entry") -> Estimate:
    """Estimate the difference B - A of any two estimates as if they were independent, by adding squared distances.

    Low = value - √((b - low of b)² + (high of a - a)²), high alike (MOVER: Zou and Donner 2008). What the two have in
    common would narrow it. Undefined where one of them is, without limits where one has none. Cut to [-1, 1].
    """
    method, count = f"{b.method}, square-and-add", a.n + b.n if n is None else n
    if a.level != b.level:
        raise ValueError("a difference needs estimates of one level")
    if a.value is None or b.value is None:
        return undefined(unit, b.level, method, count)
    value = b.value - a.value
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Estimate(value, None, None, count, unit, b.level, method)
    below, above = math.hypot(b.value - b.low, a.high - a.value), math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(value, _cut(value - below), _cut(value + above), count, unit, b.level, method)


def _cut(value: float) -> float:
    return min(max(value, -1.0), 1.0)
