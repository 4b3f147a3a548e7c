"""How good verdicts are on all entries of a run, by labels of some of them that were drawn by verdict.

Shares of the labelled entries alone depend on how many of either verdict were drawn: where mostly judged successes are
labelled, a judge seems to find nearly everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.distributions import crossing
from faircount.stats.judge_error import LabelledPart
from faircount.stats.proportion import DEFAULT_LEVEL, undefined, wilson

_METHOD = "weighted"


class RunQuality(Struct, frozen=True):
    """How good verdicts are over all entries of a run; shares of entries, not of labels."""

    precision: Estimate
    """Of the entries that are called a success, the share of true ones."""
    pass_precision: Estimate
    """Of those called a failure, the share of true failures."""
    sensitivity: Estimate
    """Of the true successes, the share that is called so; recall by another name."""
    specificity: Estimate
    """Of the true failures, the share that is called so."""
    accuracy: Estimate


def run_quality(
    positive: Sequence[LabelledPart], negative: Sequence[LabelledPart], *, level: float = DEFAULT_LEVEL
) -> RunQuality:
    """Estimate how good verdicts are on all entries; from labels drawn at random within each part of them.

    `positive` are the parts that the verdict calls a success, `negative` the others. For the verdicts that labels were
    drawn by, there is one of each. With n entries and h true successes among m labels in a part, a side has Σn·h/m true
    successes; its limits lie at the root of the sum of squares of the distances of Wilson's limits. Precision is that
    divided by the size of the side. Sensitivity A/(A+B), with A and B the true successes of the two sides, is that of
    Begg and Greenes 1983. Its limits are the r at which 0 is a limit of (1-r)·A - r·B, squares added again (MOVER: Zou
    and Donner 2008, Donner and Zou 2012). Specificity alike. A part without labels widens the limits by its size.
    """
    found, missed = (_true_successes(side, level) for side in (positive, negative))
    called, passed = (sum(part.judged for part in side) for side in (positive, negative))
    labels = sum(part.labelled for part in (*positive, *negative))
    alarms, right = _others(found, called), _others(missed, passed)
    return RunQuality(
        precision=_share(found, called, sum(part.labelled for part in positive), level),
        pass_precision=_share(right, passed, sum(part.labelled for part in negative), level),
        sensitivity=_ratio(found, missed, labels, level),
        specificity=_ratio(right, alarms, labels, level),
        accuracy=_share(_sum(found, right), called + passed, labels, level),
    )


_Total = tuple[float, float, float] | None
"""How many entries: the estimate and its limits; None where nothing is known."""


def _true_successes(parts: Sequence[LabelledPart], level: float) -> _Total:
    known = [part for part in parts if part.labelled]
    size, labelled = sum(part.judged for part in parts), sum(part.judged for part in known)
    if not size:
        return 0.0, 0.0, 0.0
    if not known:
        return None
    value = math.fsum(part.judged * part.true / part.labelled for part in known)
    below_, above = [], []
    for part in known:
        share = wilson(part.true, part.labelled, level=level)
        below_.append(part.judged * ((share.value or 0.0) - (share.low or 0.0)))
        above.append(part.judged * ((share.high or 0.0) - (share.value or 0.0)))
    return value * size / labelled, value - math.hypot(*below_), value + math.hypot(*above) + size - labelled


def _others(total: _Total, size: int) -> _Total:
    """Return how many of so many entries are not those."""
    return None if total is None else (size - total[0], size - total[2], size - total[1])


def _sum(one: _Total, other: _Total) -> _Total:
    if one is None or other is None:
        return None
    value = one[0] + other[0]
    reach = [math.hypot(one[place] - one[0], other[place] - other[0]) for place in (1, 2)]
    return value, value - reach[0], value + reach[1]


def _share(total: _Total, size: int, labels: int, level: float) -> Estimate:
    if total is None or not size:
        return undefined("label", level, _METHOD, labels)
    value, low, high = (min(max(count / size, 0.0), 1.0) for count in total)
    return Estimate(value, low, high, labels, "label", level, _METHOD)


def _ratio(one: _Total, other: _Total, labels: int, level: float) -> Estimate:
    """Estimate the share that one of two independent totals has in their sum."""
    if one is None or other is None or not one[0] + other[0]:
        return undefined("label", level, _METHOD, labels)
    a, b = one, other

    def left(share: float, sign: int) -> float:
        """Return a limit of (1-r)·A - r·B: the lower one for sign -1."""
        near, far = (1, 2) if sign < 0 else (2, 1)
        reach = math.hypot((1 - share) * (a[near] - a[0]), share * (b[far] - b[0]))
        return (1 - share) * a[0] - share * b[0] + sign * reach

    value = a[0] / (a[0] + b[0])
    low = crossing(lambda share: left(share, -1), 0.0, value) if left(0.0, -1) > 0 > left(value, -1) else 0.0
    high = crossing(lambda share: left(share, 1), value, 1.0) if left(1.0, 1) < 0 < left(value, 1) else 1.0
    return Estimate(value, low, high, labels, "label", level, _METHOD)
