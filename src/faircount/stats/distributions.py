"""Special functions, tails and quantiles of distributions, and roots, in plain Python.

Results must not wait for scipy, whose import costs a quarter second. All of this is as exact as the counts of a report
need, and tested against scipy. References are to the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

_SMALLEST = 1e-300
_CONVERGED = 1e-15
_NARROW = 1e-13
_MOST_STEPS = 200
_MOST_FRACTIONS = 1_000_000
_LARGEST_LOGIT = 690.0
_NORMAL = NormalDist()
# From this argument on four terms of Stirling's series are exact to the last digits.
_STIRLING_FROM = 16
_LOG_ROOT_TAU = math.log(math.tau) / 2
_FACTORIAL_RESTS = [0.0, *(math.lgamma(n + 1) - n * math.log(n) + n for n in range(1, _STIRLING_FROM))]

# The expansion of a quantile of Beta(a, b) is of use from this shape on. It leaves out about this much, in standard
# deviations, times ((1 + z²)/shape)^2.5, and stands if the logit is then as exact as this.
_EXPANSION_FROM = 2.5
_LEFT_OUT = 1e-3
_EXACT = 1e-10
# The series of I_x is shorter than its continued fraction for shapes up to the first and a rise up to the second. What
# lies above x is then all the rest, which keeps enough digits where it is not too little.
_LARGEST_SERIES = 500
_LONGEST_RISE = 100
_NEARLY_ALL = 0.9999

# Tables as likely as the observed one count as at least as extreme, whatever rounding did to their last digits.
_TIE = 1e-7
# Up to so many standard deviations from the mean, the middle is summed and not the tails.
_MIDDLE = 3.0
# Below, the exponential is 0.
_LEAST_LOG = -760.0
# How exact the sum of a tail is, and how many ratios of its terms tell the rest.
_EXACT_TAIL = 1e-10
_LOG_EXACT_TAIL = math.log(15 / _EXACT_TAIL)
_RATIOS = 4

Cumulants = tuple[float, float, float, float, float, float]
Table = tuple[int, int, int, int]


def log_beta(a: float, b: float) -> float:
    """Return ln B(a, b) = ln Γ(a) + ln Γ(b) - ln Γ(a + b) (DLMF 5.12.1)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def regularized_beta(a: float, b: float, x: float) -> float:
    """Return I_x(a, b), the probability that a Beta(a, b) lies at or below x (DLMF 8.17.2)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    return _beta_tails(a, b, x, 1 - x, _beta_scale(a, b) * _beta_shape(a, b, x, 1 - x))[0]


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = probability, by steps of fourth order that a bracket keeps in bounds.

    The steps are taken between logit x and logit I_x, which are linear to each other in both tails. Where both shapes
    are large, the expansion that they start from is exact enough, and none is taken.
    """
    _check_quantile(probability, a, b)
    return _quantile(probability, a, b, _logit_cumulants(a, b))


def beta_limits(tail: float, a: float, b: float) -> tuple[float, float]:
    """Return the quantiles of Beta(a, b) that leave `tail` below and above."""
    _check_quantile(tail, a, b)
    _check_quantile(1 - tail, a, b)
    cumulants = _logit_cumulants(a, b)
    return _quantile(tail, a, b, cumulants), _quantile(1 - tail, a, b, cumulants)


def _check_quantile(probability: float, a: float, b: float) -> None:
    if not 0 < probability < 1 or min(a, b) <= 0:
        raise ValueError(f"a Beta({a}, {b}) has no quantile at {probability}")


def _quantile(probability: float, a: float, b: float, cumulants: Cumulants | None) -> float:
    """Return the quantile of a Beta(a, b) whose logit has these cumulants, if they are of use."""
    if cumulants is None:
        logit = _start_of_small(probability, 1 - probability, a, b)
    else:
        weights = _expansion(probability)
        logit = _expanded(weights, cumulants)
        if cumulants[1] * _LEFT_OUT * ((1 + weights[0] ** 2) / min(a, b)) ** 2.5 < _EXACT:
            return _odds_apart(logit)[0]
    low, high = -_LARGEST_LOGIT, _LARGEST_LOGIT
    logit = min(max(logit, low + 1), high - 1)
    wanted = math.log(probability) - math.log1p(-probability)
    scale = _beta_scale(a, b)
    for _ in range(_MOST_STEPS):
        x, rest = _odds_apart(logit)
        density = scale * _beta_shape(a, b, x, rest)
        below, above = _beta_tails(a, b, x, rest, density)
        if below > probability:
            high = logit
        else:
            low = logit
        following, near = math.inf, False
        if below > 0 and above > 0 and density > 0:
            step, near = _quantile_step(wanted, a - (a + b) * x, (a + b) * x * rest, below, above, density)
            following = logit + step
        if near or high - low <= _NARROW:
            return _odds_apart(following if near else logit)[0]
        logit = following if low < following < high else (low + high) / 2
    return _odds_apart(logit)[0]


def _logit_cumulants(a: float, b: float) -> Cumulants | None:
    """Return mean, deviation and standardised third to sixth cumulants of the logit of a Beta(a, b).

    The logit is the difference of two log-gamma variables, so that its cumulants are sums of polygamma functions at a
    and b, here by their series in 1/(a - 1/2). None where a shape is too small for them to be of use.
    """
    if a < _EXPANSION_FROM or b < _EXPANSION_FROM:
        return None
    p, q = 1 / (a - 0.5), 1 / (b - 0.5)
    pp, qq = p * p, q * q
    variance = p * (1 - pp * (1 / 12 - pp * (7 / 240))) + q * (1 - qq * (1 / 12 - qq * (7 / 240)))
    deviation = math.sqrt(variance)
    square = variance * variance
    return (
        math.log(q / p) + (pp - qq) * (1 / 24 - (pp + qq) * (7 / 960)),
        deviation,
        (qq * (1 - qq / 4) - pp * (1 - pp / 4)) / (variance * deviation),
        (p * pp * (2 - pp) + q * qq * (2 - qq)) / square,
        6 * (qq - pp) * (qq + pp) / (square * deviation),
        24 * (p * pp * pp + q * qq * qq) / (square * variance),
    )


@lru_cache(maxsize=16)
def _expansion(probability: float) -> tuple[float, ...]:
    """Return the normal quantile and the polynomials in it by which Cornish and Fisher weigh cumulants.

    Abramowitz and Stegun 26.2.49: the Hermite polynomials of the third to sixth cumulant and their products.
    """
    z = _NORMAL.inv_cdf(probability)
    zz = z * z
    h2, h3, h4, h5 = zz - 1, z * (zz - 3), zz * (zz - 6) + 3, z * (zz * (zz - 10) + 15)
    return (
        z,
        h2 / 6,
        h3 / 24,
        -(2 * h3 + z) / 36,
        h4 / 120,
        -(h4 + h2) / 24,
        (12 * h4 + 19 * h2) / 324,
        h5 / 720,
        -(3 * h5 + 6 * h3 + 2 * z) / 384,
        -(2 * h5 + 3 * h3) / 180,
        (14 * h5 + 37 * h3 + 8 * z) / 288,
        -(252 * h5 + 832 * h3 + 227 * z) / 7776,
    )


def _expanded(weights: tuple[float, ...], cumulants: Cumulants) -> float:
    """Return the expansion of Cornish and Fisher of a quantile, up to the sixth cumulant."""
    z, w3, w4, w33, w5, w34, w333, w6, w44, w35, w334, w3333 = weights
    mean, deviation, c3, c4, c5, c6 = cumulants
    by_third = w3 + w34 * c4 + w35 * c5 + c3 * (w33 + w334 * c4 + c3 * (w333 + c3 * w3333))
    return mean + deviation * (z + c3 * by_third + c4 * (w4 + w44 * c4) + w5 * c5 + w6 * c6)


def _start_of_small(below: float, above: float, a: float, b: float) -> float:
    """Return about where the logit of a Beta(a, b) with a small shape has `below` below it and `above` above.

    Towards 0 the mass is that of x^a; beyond, x·b is nearly a gamma variable, whose tail is g^(a-1) e^-g/Γ(a).
    """
    if a > b:
        return -_start_of_small(above, below, b, a)
    if below <= above:
        logarithm = (math.log(below * a) + log_beta(a, b)) / a
        return min(logarithm + min((b - 1) * math.exp(min(logarithm, 0.0)) / (a + 1), 1.0), 1.0)
    if b < _EXPANSION_FROM:
        return math.log(a / b) + _NORMAL.inv_cdf(below) * math.sqrt(1 / a + 1 / b)
    tail = -math.log(above) - math.lgamma(a)
    gamma = max(tail, 0.1)
    for _ in range(3):
        gamma = max(tail + (a - 1) * math.log(gamma), 0.1)
    share = gamma / (b + (a - 1) / 2)
    return share + math.log(-math.expm1(-share))


def _quantile_step(
    wanted: float, tilt: float, width: float, below: float, above: float, density: float
) -> tuple[float, bool]:
    """Return the step from logit x to where logit I_x is as wanted, and whether what it leaves out is negligible.

    With G = logit I_x as a function of logit x, G'' = bend·G' and bend' = turn, the inverse series has the terms below.
    """
    slope = density / (below * above)
    newton = (wanted - math.log(below / above)) / slope
    odd = above - below
    bend = tilt - slope * odd
    turn = 2 * slope * density - width - slope * bend * odd
    scale = abs(newton) * max(abs(bend), math.sqrt(width), 0.05)
    if scale > 0.5:
        return newton, False
    return newton * (1 - newton * (bend / 2 - newton * (2 * bend * bend - turn) / 6)), scale <= 1e-3


def _stirling_rest(x: float) -> float:
    """Return ln Γ(x + 1) - (x + 1/2)·ln x + x - ln √2π for x > 0, what Stirling's formula leaves out (DLMF 5.11.1)."""
    if x < _STIRLING_FROM:
        return math.lgamma(x + 1) - (x + 0.5) * math.log(x) + x - _LOG_ROOT_TAU
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x


def _beta_scale(a: float, b: float) -> float:
    """Return the density of the logit of a Beta(a, b) where x = a/(a + b)."""
    left_out = _stirling_rest(a + b) - _stirling_rest(a) - _stirling_rest(b)
    return math.sqrt(a / (a + b) * b / math.tau) * math.exp(left_out)


def _beta_shape(a: float, b: float, x: float, rest: float) -> float:
    """Return that density at x = 1 - rest as a share of what it is at a/(a + b), with its digits for large shapes.

    (x/a)^a ((1 - x)/b)^b (a + b)^(a + b), in terms of how far (a + b)x is from a (Loader 2000).
    """
    excess = (a + b) * x - a if x < rest else b - (a + b) * rest
    first = math.log1p(excess / a) if 2 * excess > -a else math.log((a + b) * x / a)
    second = math.log1p(-excess / b) if 2 * excess < b else math.log((a + b) * rest / b)
    return math.exp(a * first + b * second)


def _odds_apart(logit: float) -> tuple[float, float]:
    """Return x = 1/(1 + e^-logit) and 1 - x, both with all their digits."""
    odds = math.exp(-abs(logit))
    lesser, larger = odds / (1 + odds), 1 / (1 + odds)
    return (larger, lesser) if logit > 0 else (lesser, larger)


def _beta_tails(a: float, b: float, x: float, rest: float, density: float) -> tuple[float, float]:
    """Return the mass of Beta(a, b) below and above x = 1 - rest; the lesser of the two keeps all its digits.

    `density` is that of the logit: x^a (1 - x)^b / B(a, b).
    """
    if x > rest:
        above, below = _beta_tails(b, a, rest, x, density)
        return below, above
    if a < _LARGEST_SERIES and (a + b) * x - a < _LONGEST_RISE:
        below = density * _beta_series(a, b, x) / a
        if below < _NEARLY_ALL:
            return below, 1 - below
    if x < (a + 1) / (a + b + 2):
        below = min(density * _beta_fraction(a, b, x) / a, 1.0)
        return below, 1 - below
    above = min(density * _beta_fraction(b, a, rest) / b, 1.0)
    return 1 - above, above


def _beta_series(a: float, b: float, x: float) -> float:
    """Return Σ (a + b)_n/(a + 1)_n x^n (DLMF 8.17.8), whose terms are all positive and soon fall."""
    over, under = (a + b) * x, a + 1
    term = total = 1.0
    while term > _CONVERGED * total:
        term *= over / under
        total += term
        over += x
        under += 1
    return total


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of I_x(a, b) (DLMF 8.17.22), evaluated forwards by Lentz's method."""
    numerator = 1.0
    denominator = value = 1 / ((1 - (a + b) * x / (a + 1)) or _SMALLEST)
    both, place = a + b, a
    for step in range(1, _MOST_FRACTIONS):
        place += 2
        term = step * (b - step) * x / ((place - 1) * place)
        denominator = 1 / ((1 + term * denominator) or _SMALLEST)
        numerator = (1 + term / numerator) or _SMALLEST
        value *= denominator * numerator
        term = -(a + step) * (both + step) * x / (place * (place + 1))
        denominator = 1 / ((1 + term * denominator) or _SMALLEST)
        numerator = (1 + term / numerator) or _SMALLEST
        factor = denominator * numerator
        value *= factor
        if -_CONVERGED < factor - 1 < _CONVERGED:
            break
    return value


def hypergeometric_two_sided(count: int, drawn: int, marked: int, total: int) -> float:
    """Return the probability of every number of marked units that is at most as likely as `count`.

    X is the number of marked units among `drawn` out of `total`. Near the middle, what lies between is summed and taken
    off 1; farther out, each tail is summed from where it begins, so that a tiny probability keeps its digits.
    """
    if not (0 < drawn < total and 0 < marked < total):
        return 1.0
    table = count, drawn - count, marked - count, total - drawn - marked + count
    if count * total > drawn * marked:
        # Seen from the unmarked units the upper tail is the lower one.
        table, marked = (table[1], table[0], table[3], table[2]), total - marked
    mass = _TableMass(drawn, marked, total)
    expected = drawn * marked / total
    variance = expected * (total - drawn) / total * (total - marked) / total
    lowest = mass.log_of(table)
    if expected - table[0] < _MIDDLE * math.sqrt(variance):
        return max(0.0, 1 - math.exp(lowest) * _likelier(table))
    if lowest < _LEAST_LOG:
        return 0.0
    a, b, c, d = table
    both = math.exp(lowest) * _tail(a, d, b, c)
    upper, log_mass = mass.as_unlikely(table, lowest, expected)
    if upper is not None:
        a, b, c, d = upper
        both += math.exp(log_mass) * _tail(b, c, a, d)
    return min(both, 1.0)


class _TableMass:
    """Probabilities of the 2x2 tables with given margins, by Stirling's formula with what it leaves out (Loader 2000).

    With the expected count E of each cell O they are exp(-Σ O ln(O/E)) times factors of the margins and cells alone.
    """

    def __init__(self, drawn: int, marked: int, total: int) -> None:
        left, unmarked = total - drawn, total - marked
        self._margins = sum(map(_log_factorial_rest, (drawn, left, marked, unmarked))) - _log_factorial_rest(total)
        self._expected = (
            drawn * marked / total,
            drawn * unmarked / total,
            left * marked / total,
            left * unmarked / total,
        )
        self._product, self._total = drawn * marked, total

    def log_of(self, table: Table) -> float:
        """Return the logarithm of the probability of a table."""
        a, b, c, d = table
        expected_a, expected_b, expected_c, expected_d = self._expected
        excess = (a * self._total - self._product) / self._total
        log1p = math.log1p
        return self._margins - (
            (a * log1p(excess / expected_a) + _log_factorial_rest(a) if a else 0.0)
            + (b * log1p(-excess / expected_b) + _log_factorial_rest(b) if b else 0.0)
            + (c * log1p(-excess / expected_c) + _log_factorial_rest(c) if c else 0.0)
            + (d * log1p(excess / expected_d) + _log_factorial_rest(d) if d else 0.0)
        )

    def as_unlikely(self, table: Table, log_mass: float, expected: float) -> tuple[Table | None, float]:
        """Return the first table above the mode that is as unlikely as one below it, and its log probability.

        The logarithm is concave, so that Newton steps come down to it from above. Nothing if all are likelier.
        """
        threshold = log_mass + _TIE
        most = min(table[1], table[2])
        step, likelier = min(math.ceil(2 * (expected - table[0])), most), 0
        while True:
            a, b, c, d = table[0] + step, table[1] - step, table[2] - step, table[3] + step
            here = self.log_of((a, b, c, d))
            if here <= threshold:
                back = int((threshold - here) / math.log(a * d / ((b + 1) * (c + 1))))
                if not back or step - back <= likelier:
                    return (a, b, c, d), here
                step -= back
            elif step == most:
                return None, -math.inf
            else:
                likelier = step
                fall = math.log((a + 1) * (d + 1) / (b * c))
                step = most if fall * (most - step) <= here - threshold else step + math.ceil((here - threshold) / fall)


def _log_factorial_rest(n: int) -> float:
    """Return ln n! - n ln n + n."""
    if n < _STIRLING_FROM:
        return _FACTORIAL_RESTS[n]
    return math.log(math.tau * n) / 2 + _stirling_rest(n)


def _likelier(table: Table) -> float:
    """Return the mass of all tables above one below the mode that are likelier than it, as a multiple of its own."""
    a, b, c, d = table
    over, fall, under, rise = float(b * c), float(b + c - 1), float((a + 1) * (d + 1)), float(a + d + 3)
    term, total, limit = 1.0, 0.0, math.exp(_TIE)
    while True:
        term *= over / under
        if term > limit:
            total += term
        elif over <= under:
            return total
        over -= fall
        fall -= 2
        under += rise
        rise += 2


def _tail(a: int, d: int, b: int, c: int) -> float:
    """Return the mass of a table and of all from it on in which a and d are less, as a multiple of its own.

    The ratio of each to the one before is a·d/((b + 1)(c + 1)). As soon as what remains can be told from the next few
    ratios, it is.
    """
    over, fall, under, rise = float(a * d), float(a + d - 1), float((b + 1) * (c + 1)), float(b + c + 3)
    term = total = 1.0
    left, block = min(a, d), _terms_needed(over / under, (over - fall) / (under + rise))
    while left > 0:
        for _ in range(min(left, block)):
            term *= over / under
            total += term
            over -= fall
            fall -= 2
            under += rise
            rise += 2
        left -= block
        if term <= _CONVERGED * total:
            break
        if left > _RATIOS:
            rest, doubt = _rest_of_tail(over, fall, under, rise)
            if term * doubt <= _EXACT_TAIL * total:
                return total + term * rest
        block = block // 4 + 2
    return total


def _terms_needed(first: float, second: float) -> int:
    """Return about how many terms of a tail have to be summed, from its first two ratios.

    It falls like a normal tail from z deviations on, and after t more what remains is known up to 15/(z + t)^6.
    """
    if not 0 < second < first < 1:
        return _RATIOS
    bend = math.log(first / second)
    square = math.log(first) ** 2 / bend
    wanted = max(_LOG_EXACT_TAIL - 3 * math.log(square + 32), 1.0)
    return 1 + int((math.sqrt(square + 2 * wanted) - math.sqrt(square)) / math.sqrt(bend))


def _rest_of_tail(over: float, fall: float, under: float, rise: float) -> tuple[float, float]:
    """Return r₀ + r₀r₁ + r₀r₁r₂ + …, and about how much it may be wrong, from the first ratios r = over/under.

    R_i = 1 + r_i R_(i+1) is nearly G_i = 1/(1 - r_i). What is missing, E_i = r_i(G_(i+1) - G_i) + r_i E_(i+1), has the
    same form and is nearly G_i r_i(G_(i+1) - G_i), and so on: a discrete Mills' ratio.
    """
    r0 = over / under
    over -= fall
    under += rise
    r1 = over / under
    over -= fall - 2
    under += rise + 2
    r2 = over / under
    r3 = (over - fall + 4) / (under + rise + 4)
    if not r0 < 1:
        return 0.0, math.inf
    g0, g1, g2, g3 = 1 / (1 - r0), 1 / (1 - r1), 1 / (1 - r2), 1 / (1 - r3)
    h0, h1, h2 = g0 * r0 * (g1 - g0), g1 * r1 * (g2 - g1), g2 * r2 * (g3 - g2)
    k0, k1 = g0 * r0 * (h1 - h0), g1 * r1 * (h2 - h1)
    last = g0 * r0 * (k1 - k0)
    return g0 + h0 + k0 + last - 1, abs(last)


# -- roots --------------------------------------------------------------------------------------------------------

_RESOLUTION = 1e-14


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the x at which a function is zero (Ridders 1979); it changes sign between `low` and `high`.

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


# -- tails and critical values ------------------------------------------------------------------------------------


def check_level(level: float) -> None:
    """Refuse a confidence level that is not strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies strictly between 0 and 1, not at {level}")


def normal_tail(z: float) -> float:
    """Return P(Z > z) of the standard normal distribution."""
    return math.erfc(z / math.sqrt(2)) / 2


def two_sided_normal(z: float) -> float:
    """Return P(|Z| > |z|) of the standard normal distribution."""
    return math.erfc(abs(z) / math.sqrt(2))


@lru_cache(maxsize=1024)
def student_critical_value(level: float, degrees_of_freedom: float) -> float:
    """Return the two-sided critical value of Student's t; T²/(ν + T²) is Beta(1/2, ν/2) distributed."""
    check_level(level)
    if degrees_of_freedom < 1:
        raise ValueError(f"Student's distribution has at least one degree of freedom, not {degrees_of_freedom}")
    share = beta_quantile(level, 0.5, degrees_of_freedom / 2)
    return math.sqrt(degrees_of_freedom * share / (1 - share))


def two_sided_student(t: float, degrees_of_freedom: float) -> float:
    """Return P(|T| > |t|) of Student's distribution: ν/(ν + T²) is Beta(ν/2, 1/2) distributed."""
    if degrees_of_freedom < 1:
        raise ValueError(f"Student's distribution has at least one degree of freedom, not {degrees_of_freedom}")
    if math.isinf(t):
        return 0.0
    return regularized_beta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / (degrees_of_freedom + t * t))


def chi_square_tail(value: float, degrees_of_freedom: int) -> float:
    """Return P(χ² > value), for whole degrees of freedom a finite sum (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    half = value / 2
    if degrees_of_freedom % 2:
        total, power = math.erfc(math.sqrt(half)), 0.5
    else:
        total, power = math.exp(-half), 1.0
    while power < degrees_of_freedom / 2:
        if half > 0:
            total += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
        power += 1
    return min(total, 1.0)


def binomial_at_most(count: int, n: int, probability: float) -> float:
    """Return P(X <= count) of a Binomial(n, probability) with 0 < probability < 1 (DLMF 8.17.5)."""
    if count < 0:
        return 0.0
    return 1.0 if count >= n else regularized_beta(n - count, count + 1, 1 - probability)


def hypergeometric_at_most(count: int, drawn: int, marked: int, total: int) -> float:
    """Return the one-sided p of Fisher's exact test; at most `count` marked among `drawn` of `total`."""
    ways = sum(
        math.comb(marked, k) * math.comb(total - marked, drawn - k)
        for k in range(max(0, drawn - (total - marked)), count + 1)
    )
    return ways / math.comb(total, drawn)


def log_binomial(n: int, count: int) -> float:
    """Return the logarithm of the number of ways to choose `count` out of n."""
    return math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
