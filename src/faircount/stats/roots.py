"""Where a function crosses zero: the limits of score intervals and sequences are defined that way."""

import math
from collections.abc import Callable
from itertools import pairwise

_RESOLUTION = 1e-14


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the x between `low` and `high` where a function that changes sign there is zero (Ridders 1979).

    Values are first squeezed into [-1, 1], which moves no root, so that they may be infinite at the ends.
    """
    at_low, at_high = _squeezed(function(low)), _squeezed(function(high))
    if at_low == 0:
        return low
    if at_high == 0:
        return high
    if (at_low > 0) == (at_high > 0):
        raise ValueError(f"the function does not change sign between {low} and {high}")
    estimate = math.inf
    while high - low > _RESOLUTION * max(1.0, abs(low), abs(high)):
        middle = (low + high) / 2
        at_middle = _squeezed(function(middle))
        root = math.sqrt(at_middle * at_middle - at_low * at_high)
        previous, estimate = estimate, middle + (middle - low) * math.copysign(at_middle, at_middle * at_low) / root
        at_estimate = _squeezed(function(estimate))
        if at_estimate == 0 or abs(estimate - previous) <= _RESOLUTION:
            return estimate
        points = sorted([(low, at_low), (middle, at_middle), (estimate, at_estimate), (high, at_high)])
        for (left, at_left), (right, at_right) in pairwise(points):
            if (at_left > 0) != (at_right > 0):
                low, at_low, high, at_high = left, at_left, right, at_right
                break
    return (low + high) / 2


def _squeezed(value: float) -> float:
    return math.copysign(1.0, value) if math.isinf(value) else value / (1 + abs(value))
