"""Success within k attempts.

Two designs, which must not be mixed. Where every entry had all its attempts, pass@k and pass^k are unbiased. Where an
attack stopped at its first success the number of attempts is an outcome: then only the survival curve is honest.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.distributions import check_level, student_critical_value, two_sided_normal
from faircount.stats.proportion import (
    DEFAULT_LEVEL,
    check_counts,
    critical_value,
    score_limits,
    undefined,
    zero_hits_upper,
)

_ROUNDING = 1e-12


def pass_at_k(attempts: int, successes: int, k: int) -> float | None:
    """Return the unbiased chance that at least one of k attempts succeeds (Chen et al. 2021).

    1 - C(n-c, k)/C(n, k) from c successes in n attempts; undefined where k > n.
    """
    _check_attempts(attempts, successes, k)
    if k > attempts:
        return None
    all_ways = math.comb(attempts, k)
    return (all_ways - math.comb(attempts - successes, k)) / all_ways


def pass_hat_k(attempts: int, successes: int, k: int) -> float | None:
    """Return the unbiased chance that all of k attempts succeed (Yao et al. 2024).

    C(c, k)/C(n, k) from c successes in n attempts; undefined where k > n.
    """
    _check_attempts(attempts, successes, k)
    return math.comb(successes, k) / math.comb(attempts, k) if k <= attempts else None


def any_of_k(rate: float, k: int) -> float:
    """Return 1 - (1 - p)^k, the chance of a success in k independent attempts; p is known.

    With an estimated rate in its place it is biased, since it is not linear in p; `pass_at_k` is not.
    """
    _check_rate(rate, k)
    return 1 - (1 - rate) ** k


def all_of_k(rate: float, k: int) -> float:
    """Return p^k, the chance that k independent attempts all succeed; see `any_of_k`."""
    _check_rate(rate, k)
    return rate**k


class MeanOverEntries(Struct, frozen=True):
    """A mean in which every entry counts once; `per_entry` is None for entries with too few attempts (`left_out`)."""

    estimate: Estimate
    standard_error: float | None
    per_entry: tuple[float | None, ...]
    left_out: int


def mean_pass_at_k(
    entries: Sequence[tuple[int, int]], k: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> MeanOverEntries:
    """Estimate the mean of pass@k over entries, each (attempts, successes); the interval: see `mean_of_shares`."""
    return mean_of_shares([pass_at_k(n, c, k) for n, c in entries], unit=unit, level=level)


def mean_pass_hat_k(
    entries: Sequence[tuple[int, int]], k: int, *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> MeanOverEntries:
    """Estimate the mean of pass^k over entries, each (attempts, successes); the interval: see `mean_of_shares`."""
    return mean_of_shares([pass_hat_k(n, c, k) for n, c in entries], unit=unit, level=level)


def mean_of_shares(
    shares: Sequence[float | None], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> MeanOverEntries:
    """Estimate the mean of values between 0 and 1, one per entry; undefined values are left out and counted.

    SE = sd/√N. The interval is Wilson's on the effective size m(1-m)/SE² with Student's N-1 degrees of freedom (Korn
    and Graubard 1998), so that it stays between 0 and 1 and is never without width; where all values are equal the
    effective size is N. One entry gives a value and no interval.
    """
    check_level(level)
    known = [share for share in shares if share is not None]
    if any(not 0 <= share <= 1 for share in known):
        raise ValueError("a share lies between 0 and 1")
    left_out, n = len(shares) - len(known), len(known)
    if n == 0:
        return MeanOverEntries(undefined(unit, level, "mean over entries"), None, tuple(shares), left_out)
    mean = math.fsum(known) / n
    if n == 1:
        lonely = Estimate(mean, None, None, 1, unit, level, "mean over entries")
        return MeanOverEntries(lonely, None, tuple(shares), left_out)
    all_equal = min(known) == max(known)
    error = 0.0 if all_equal else math.sqrt(math.fsum((share - mean) ** 2 for share in known) / (n - 1) / n)
    effective = n if all_equal else mean * (1 - mean) / error**2
    low, high = score_limits(mean, effective, student_critical_value(level, n - 1))
    estimate = Estimate(mean, low, high, n, unit, level, "mean over entries")
    return MeanOverEntries(estimate, error, tuple(shares), left_out)


class AttemptStep(Struct, frozen=True):
    """One k of an `AttemptCurve`: `at_risk` entries had a k-th attempt, `estimate` is success within k."""

    k: int
    at_risk: int
    successes: int
    censored: int
    survival: float
    standard_error: float | None
    estimate: Estimate


class AttemptCurve(Struct, frozen=True):
    """Success within k attempts, for every k at which something happened.

    `left_out` counts entries that never had a valid attempt: they were not at risk.
    """

    steps: tuple[AttemptStep, ...]
    entries: int
    successes: int
    attempts_spent: int
    left_out: int
    unit: str
    level: float

    def within(self, k: int) -> Estimate:
        """Return the estimate of success within k attempts; undefined beyond the last attempt that anybody had."""
        if k < 1:
            raise ValueError(f"attempts are counted from 1, not from {k}")
        reached = [step for step in self.steps if step.k <= k]
        if not self.steps or (k > self.steps[-1].k and self.steps[-1].survival > 0):
            return undefined(self.unit, self.level, "kaplan-meier", self.entries)
        return reached[-1].estimate if reached else zero_hits_upper(self.entries, unit=self.unit, level=self.level)

    def attempts_for(self, share: float) -> Estimate:
        """Estimate within how many attempts a share of the entries falls; undefined where the curve stays below it.

        The limits are where the band crosses the share (Brookmeyer and Crowley 1982); None where it never does.
        """
        if not 0 < share < 1:
            raise ValueError(f"a share of the entries lies strictly between 0 and 1, not at {share}")

        def first(values: list[tuple[int, float | None]]) -> float | None:
            return next((float(k) for k, value in values if value is not None and value >= share - _ROUNDING), None)

        value = first([(step.k, step.estimate.value) for step in self.steps])
        low = first([(step.k, step.estimate.high) for step in self.steps])
        high = first([(step.k, step.estimate.low) for step in self.steps])
        return Estimate(value, low, high, self.entries, self.unit, self.level, "kaplan-meier")

    def mean_attempts(self, cap: int) -> float | None:
        """Return the mean number of attempts spent when nobody gets more than `cap`: Σ S(j) over j from 0 to cap-1."""
        if cap < 1:
            raise ValueError(f"attempts are counted from 1, not from {cap}")
        if not self.steps or (cap - 1 > self.steps[-1].k and self.steps[-1].survival > 0):
            return None
        spent, survival, since = 0.0, 1.0, 0
        for step in self.steps:
            if step.k >= cap:
                break
            spent += survival * (step.k - since)
            survival, since = step.survival, step.k
        return spent + survival * (cap - since)


def success_within_k(
    attempts: Sequence[int], success: Sequence[bool | int], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> AttemptCurve:
    """Estimate success within k attempts (Kaplan and Meier 1958); an entry stops at its first success.

    `attempts` is the attempt that succeeded or, where `success` is false, the last valid one, at which the entry is
    censored. S(k) = Π(1 - d_j/n_j), success within k = 1 - S(k); standard error by Greenwood, limits on the log-log
    scale: S^exp(±z·√Σd/(n(n-d))/ln S). Successes at an attempt come before censorings at it. Before the first success
    the limits are those of `zero_hits_upper` on the entries at risk. Where nobody is left, the lower limit is the exact
    one-sided one while nobody was censored since the first success, and otherwise that of the step before.
    An entry with 0 attempts was never at risk and is left out.
    """
    return _curve(_outcomes(attempts, success), unit, level)


def success_within_counts(
    counted: Iterable[tuple[int, bool, int]], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> AttemptCurve:
    """Estimate success within k attempts from counts; (attempts, success, how many entries), see `success_within_k`."""
    outcomes: Counter[tuple[int, bool]] = Counter()
    for attempts, hit, entries in counted:
        _check_outcome(attempts, hit)
        if entries < 0:
            raise ValueError(f"{entries} is not a number of entries")
        outcomes[(int(attempts), bool(hit))] += entries
    return _curve(outcomes, unit, level)


def _curve(outcomes: Counter[tuple[int, bool]], unit: str, level: float) -> AttemptCurve:
    z = critical_value(level)
    left_out = outcomes.pop((0, False), 0)
    at_risk = entries = outcomes.total()
    steps: list[AttemptStep] = []
    survival, variance, risk_at_first, censored_since = 1.0, 0.0, 0, 0
    for k in sorted({k for k, _ in outcomes}):
        hits, censored = outcomes[(k, True)], outcomes[(k, False)]
        if hits and not risk_at_first:
            risk_at_first = at_risk
        survival *= 1 - hits / at_risk
        error: float | None = None
        if survival == 0:
            whole = risk_at_first if not censored_since else 0
            estimate = _nobody_left(steps, whole, entries, unit, level)
        else:
            variance += hits / (at_risk * (at_risk - hits))
            error = survival * math.sqrt(variance)
            estimate = _within(survival, variance, z, at_risk, entries, unit, level)
        steps.append(AttemptStep(k, at_risk, hits, censored, survival, error, estimate))
        at_risk -= hits + censored
        censored_since += censored if risk_at_first else 0
    successes = sum(times for (_, hit), times in outcomes.items() if hit)
    spent = sum(k * times for (k, _), times in outcomes.items())
    return AttemptCurve(tuple(steps), entries, successes, spent, left_out, unit, level)


class LogRank(Struct, frozen=True):
    """The result of a log-rank test; z is positive if A succeeds sooner. All are None if nothing can be compared."""

    z: float | None
    chi_square: float | None
    p: float | None


def logrank(
    attempts_a: Sequence[int],
    success_a: Sequence[bool | int],
    attempts_b: Sequence[int],
    success_b: Sequence[bool | int],
) -> LogRank:
    """Compare how soon two attacks succeed, with censoring (Mantel 1966).

    At each attempt the successes of A are compared with their hypergeometric mean d·n_A/n and variance
    d·(n_A/n)(n_B/n)(n-d)/(n-1); z = Σ(observed - expected)/√Σvariance.
    """
    a, b = _outcomes(attempts_a, success_a), _outcomes(attempts_b, success_b)
    for outcomes in (a, b):
        outcomes.pop((0, False), None)
    at_risk_a, at_risk_b = a.total(), b.total()
    surplus = variance = 0.0
    for k in sorted({k for k, _ in (*a, *b)}):
        n, hits = at_risk_a + at_risk_b, a[(k, True)] + b[(k, True)]
        surplus += a[(k, True)] - hits * at_risk_a / n
        if n > 1:
            variance += hits * (at_risk_a / n) * (at_risk_b / n) * (n - hits) / (n - 1)
        at_risk_a -= a[(k, True)] + a[(k, False)]
        at_risk_b -= b[(k, True)] + b[(k, False)]
    if variance <= 0:
        return LogRank(None, None, None)
    z = surplus / math.sqrt(variance)
    return LogRank(z, z * z, two_sided_normal(z))


def _check_attempts(attempts: int, successes: int, k: int) -> None:
    check_counts(successes, attempts)
    if k < 1:
        raise ValueError(f"attempts are counted from 1, not from {k}")


def _check_rate(rate: float, k: int) -> None:
    if not 0 <= rate <= 1:
        raise ValueError(f"a rate lies between 0 and 1, not at {rate}")
    if k < 1:
        raise ValueError(f"attempts are counted from 1, not from {k}")


def _outcomes(attempts: Sequence[int], success: Sequence[bool | int]) -> Counter[tuple[int, bool]]:
    """Return how often each pair of last attempt and success occurs."""
    if len(attempts) != len(success):
        raise ValueError("every entry needs its number of attempts and whether it succeeded")
    outcomes: Counter[tuple[int, bool]] = Counter()
    for (k, hit), times in Counter(zip(attempts, success, strict=True)).items():
        _check_outcome(k, hit)
        outcomes[(int(k), bool(hit))] += times
    return outcomes


def _check_outcome(attempts: int, success: bool | int) -> None:
    if attempts < 0 or attempts != int(attempts):
        raise ValueError(f"{attempts} is not a number of attempts")
    if attempts == 0 and success:
        raise ValueError("an entry cannot succeed before its first attempt")


def _within(
    survival: float, variance: float, z: float, at_risk: int, entries: int, unit: str, level: float
) -> Estimate:
    """Return success within k with its log-log limits, or the bound for no hits while there is none."""
    if survival == 1:
        none_yet = zero_hits_upper(at_risk, unit=unit, level=level)
        return Estimate(0.0, 0.0, none_yet.high, entries, unit, level, none_yet.method)
    log_survival = math.log(survival)
    spread = math.exp(z * math.sqrt(variance) / -log_survival)
    low, high = -math.expm1(log_survival / spread), -math.expm1(log_survival * spread)
    return Estimate(1 - survival, low, high, entries, unit, level, "kaplan-meier")


def _nobody_left(steps: list[AttemptStep], all_of: int, entries: int, unit: str, level: float) -> Estimate:
    """Return success within k where the curve has reached 1, a value at which Greenwood's formula ends."""
    if all_of:
        low = math.exp(math.log1p(-level) / all_of)
        return Estimate(1.0, low, 1.0, entries, unit, level, "all hits, one-sided")
    return Estimate(1.0, steps[-1].estimate.low, 1.0, entries, unit, level, "kaplan-meier")
