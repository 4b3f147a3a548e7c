"""Repeated attempts of the same entries: how much of the scatter lies between entries, and how much within.

Attempts of one entry are not independent tests of the system. An entry counts once, through the mean of its attempts;
the scatter of those means is the right error of the mean over entries, whatever the attempts of an entry have in
common. An attempt without a score (None or NaN: an error) takes no part; an entry without a scored attempt neither.

Several scores of one entry are also made into one by name. What is reduced decides what is measured: "any" and "all" of
five attempts are different questions from the mean. A score is a pass if it is at least the threshold.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.attempts import pass_at_k, pass_hat_k
from faircount.stats.distributions import regularized_beta
from faircount.stats.proportion import DEFAULT_LEVEL, wilson

Scores = Sequence[Sequence[float | None]]


class RetryVariance(Struct, frozen=True):
    """The analysis of variance of repeated scores; None where undefined.

    `mean` is the mean over entries of their means. `icc` is never negative, `icc_raw` is what came out; the same holds
    for `between` and `between_raw`. `attempts` is the number of attempts of an entry, a kind of mean if they differ.
    `naive_standard_error` treats all attempts as independent: it is what not to use, shown to be compared.
    """

    entries: int
    total: int
    mean: float | None = None
    attempts: float | None = None
    mean_square_between: float | None = None
    mean_square_within: float | None = None
    between_raw: float | None = None
    icc_raw: float | None = None
    variance_of_mean: float | None = None
    naive_standard_error: float | None = None

    @property
    def within(self) -> float | None:
        """The variance of the attempts of one entry."""
        return self.mean_square_within

    @property
    def between(self) -> float | None:
        """The variance of entries beyond that of their attempts, 0 where the estimate of it is negative."""
        return None if self.between_raw is None else max(0.0, self.between_raw)

    @property
    def icc(self) -> float | None:
        """The share of the variance that lies between entries, 0 where the estimate of it is negative."""
        return None if self.icc_raw is None else max(0.0, self.icc_raw)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean over entries."""
        return None if self.variance_of_mean is None else math.sqrt(self.variance_of_mean)


class NextCalls(Struct, frozen=True):
    """The standard error of the mean over entries now, and after more calls spent in either way; None is undefined."""

    now: float
    with_entries: float
    with_retries: float
    better: Literal["entries", "retries"] | None


def icc(scores: Scores) -> RetryVariance:
    """Estimate ICC(1) from the scores of entries with k attempts each; by one-way random effects.

    MSB and MSW are the mean squares between and within entries; σ²_within = MSW, σ²_between = (MSB - MSW)/k,
    ICC = (MSB - MSW)/(MSB + (k-1)·MSW) (Shrout and Fleiss 1979). With unequal numbers of attempts
    k = (Σk_i - Σk_i²/Σk_i)/(N - 1) (Donner 1986). The variance of the mean over entries is the variance of the entries'
    means over N, which for equal numbers is MSB/(N·k) = σ²_between/N + σ²_within/(N·k).
    The ICC is undefined with fewer than two entries, without a second attempt, or where no two scores differ.
    """
    return _analysed([_AlikeEntries.of(valid) for attempts in scores if (valid := valid_scores(attempts))])


def icc_of_counts(successes: Sequence[int], attempts: Sequence[int]) -> RetryVariance:
    """Estimate ICC(1) from successes and attempts per entry; like `icc` of scores of 0 and 1."""
    return _analysed(
        [
            _AlikeEntries(times, tried, won / tried, won * (tried - won) / tried)
            for (won, tried), times in _counted(successes, attempts).items()
            if tried
        ]
    )


def flake_rate(
    scores: Scores, *, threshold: float = 0.5, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the share of entries with mixed results; among those with two scored attempts or more.

    An attempt passes if its score is at least the threshold; mixed is at least one pass and at least one failure. The
    interval is Wilson's (Wilson 1927).
    """
    verdicts = [[score >= threshold for score in valid_scores(attempts)] for attempts in scores]
    return flake_rate_of_counts(list(map(sum, verdicts)), list(map(len, verdicts)), unit=unit, level=level)


def flake_rate_of_counts(
    successes: Sequence[int], attempts: Sequence[int], *, unit: str = "entry", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Estimate the same from numbers of successes and attempts; see `flake_rate`."""
    kinds = _counted(successes, attempts)
    repeated = sum(times for (_, tried), times in kinds.items() if tried >= 2)
    mixed = sum(times for (won, tried), times in kinds.items() if 0 < won < tried)
    return wilson(mixed, repeated, unit=unit, level=level)


def majority_of_k(rate: float, k: int) -> float:
    """Return the chance that more than half of k independent attempts succeed; each at the same known rate.

    P(X > k/2) for X ~ Binomial(k, rate), the incomplete beta function I_rate(m, k - m + 1) with m = ⌊k/2⌋ + 1
    (DLMF 8.17.5). At a low rate it lies far below the rate, at a high one above: a majority changes what is measured.
    """
    if not 0 <= rate <= 1 or k < 1:
        raise ValueError("a majority needs at least one attempt and a rate between 0 and 1")
    needed = k // 2 + 1
    return rate if rate in (0.0, 1.0) else regularized_beta(needed, k - needed + 1, rate)


def best_attempts(variance: RetryVariance, *, cost_ratio: float = 1.0) -> float | None:
    """Return the attempts per entry that give the most precise mean for a budget; √(σ²_within/σ²_between · c).

    c is what a new entry costs, measured in attempts (Cochran 1977, section 10.6). At least 1; None where entries do
    not differ beyond their own scatter, or this is unknown.
    """
    if cost_ratio <= 0:
        raise ValueError("an entry costs something: the cost ratio must be above 0")
    if not variance.between or variance.within is None:
        return None
    return max(1.0, math.sqrt(variance.within / variance.between * cost_ratio))


def next_calls(variance: RetryVariance, calls: int = 100, *, entry_cost: float = 0.0) -> NextCalls | None:
    """Compare what more calls buy; new entries with as many attempts each, or more attempts per entry.

    The variance of the mean is σ²_between/N + σ²_within/(N·k). New entries make N + calls/(k + entry_cost) of them,
    `entry_cost` being what finding a new entry costs in calls; retries make k + calls/N attempts. None where the
    variances are unknown. Calls with nothing else to pay for are never better spent on retries (Cochran 1977, 10.6).
    """
    if calls < 0 or entry_cost < 0:
        raise ValueError("calls and the cost of an entry cannot be negative")
    between, within, k, entries = variance.between, variance.within, variance.attempts, variance.entries
    if between is None or within is None or k is None:
        return None
    now = (between + within / k) / entries
    with_entries = (between + within / k) / (entries + calls / (k + entry_cost))
    with_retries = between / entries + within / (entries * k + calls)
    better: Literal["entries", "retries"] | None = None
    if not math.isclose(with_entries, with_retries, abs_tol=1e-15):
        better = "entries" if with_entries < with_retries else "retries"
    return NextCalls(math.sqrt(now), math.sqrt(with_entries), math.sqrt(with_retries), better)


class _AlikeEntries(Struct, frozen=True):
    """Entries alike: how many, the attempts of each, their mean and the sum of squares around it."""

    times: int
    attempts: int
    mean: float
    squares: float

    @classmethod
    def of(cls, scores: Sequence[float]) -> _AlikeEntries:
        """Return the kind of one entry; distances from its first score are exactly 0 where all scores are equal."""
        distances = [score - scores[0] for score in scores]
        mean = math.fsum(distances) / len(scores)
        return cls(1, len(scores), scores[0] + mean, math.fsum((distance - mean) ** 2 for distance in distances))


def _counted(successes: Sequence[int], attempts: Sequence[int]) -> Counter[tuple[int, int]]:
    if len(successes) != len(attempts):
        raise ValueError("every entry needs its number of successes and its number of attempts")
    kinds = Counter(zip(successes, attempts, strict=True))
    if any(not 0 <= won <= tried for won, tried in kinds):
        raise ValueError("successes are no fewer than 0 and no more than the attempts")
    return kinds


def _analysed(kinds: Sequence[_AlikeEntries]) -> RetryVariance:
    entries, total = sum(kind.times for kind in kinds), sum(kind.times * kind.attempts for kind in kinds)
    if not entries:
        return RetryVariance(entries, total)
    # Distances from one of the means, which are exactly 0 where all means are equal.
    origin = kinds[0].mean
    places = [(kind.times, kind.attempts, kind.mean - origin) for kind in kinds]
    middle = math.fsum(times * place for times, _, place in places) / entries
    if entries < 2:
        return RetryVariance(entries, total, origin + middle)
    attempts = (total - sum(kind.times * kind.attempts**2 for kind in kinds) / total) / (entries - 1)
    pooled = math.fsum(times * tried * place for times, tried, place in places) / total
    squares_between = math.fsum(times * tried * (place - pooled) ** 2 for times, tried, place in places)
    squares_within = math.fsum(kind.times * kind.squares for kind in kinds)
    squares_of_means = math.fsum(times * (place - middle) ** 2 for times, _, place in places)
    between = squares_between / (entries - 1)
    within = squares_within / (total - entries) if total > entries else None
    return RetryVariance(
        entries=entries,
        total=total,
        mean=origin + middle,
        attempts=attempts,
        mean_square_between=between,
        mean_square_within=within,
        between_raw=None if within is None else (between - within) / attempts,
        icc_raw=_correlation(between, within, attempts),
        variance_of_mean=squares_of_means / (entries - 1) / entries,
        naive_standard_error=math.sqrt((squares_between + squares_within) / total / total),
    )


def _correlation(square_between: float, square_within: float | None, attempts: float) -> float | None:
    if square_within is None:
        return None
    total = square_between + (attempts - 1) * square_within
    return (square_between - square_within) / total if total else None


# -- many scores into one -----------------------------------------------------------------------------------------

DEFAULT_THRESHOLD = 0.5

ReducerName = Literal[
    "mean", "median", "mode", "min", "max", "majority", "any", "all", "first", "at_least_k", "pass@k", "pass^k"
]
RebelName = Literal["rebel_min", "rebel_max", "rebel_mean", "rebel_median"]
Score = float | None


def aggregate(
    name: ReducerName, scores: Sequence[Score], *, threshold: float = DEFAULT_THRESHOLD, k: int | None = None
) -> float | bool | None:
    """Reduce the scores of one entry to one number or verdict; None is "undecided", never a failure.

    | name | result | an error | a tie | nothing scored |
    |---|---|---|---|---|
    | mean | Σ/n | left out | - | None |
    | median | the middle one, or the mean of the middle two | left out | - | None |
    | mode | the most frequent score | left out | None | None |
    | min, max | the least, the greatest score | left out | - | None |
    | majority | the verdict of more than half of all attempts | withholds its vote | None | None |
    | any | True if an attempt passed, False if all failed | None unless one passed | - | None |
    | all | False if an attempt failed, True if all passed | None unless one failed | - | None |
    | first | the score of the first attempt | None if it is the first | - | None |
    | at_least_k | True if k attempts passed, False if k no longer can | None while it decides | - | None |
    | pass@k | the chance that one of k passes, 1 - C(n-c,k)/C(n,k) | left out; None if then k > n | - | None |
    | pass^k | the chance that all of k pass, C(c,k)/C(n,k) | left out; None if then k > n | - | None |

    References: pass@k Chen et al. 2021, pass^k Yao et al. 2024; any, all and at_least_k take an error as unknown
    (Kleene 1952). The names with a k need `k`, the others take none.
    """
    if name not in get_args(ReducerName):
        raise ValueError(f"{name} is not one of the reducers {', '.join(get_args(ReducerName))}")
    if (k is None) == (name in _COUNTING):
        raise ValueError(f"{name} needs k" if k is None else f"{name} takes no k")
    if k is not None and k < 1:
        raise ValueError("k counts attempts: it is at least 1")
    valid = valid_scores(scores)
    if not valid:
        return None
    if name in _SCORES:
        return _SCORES[name](valid)
    if name == "first":
        return next(iter(valid_scores(scores[:1])), None)
    passes = sum(score >= threshold for score in valid)
    return _verdict(name, len(scores), len(valid), passes, k or 0)


def valid_scores(scores: Sequence[Score]) -> list[float]:
    """Return the scores of the attempts that have one; in their order: None and NaN stand for an error."""
    return [score for score in scores if score is not None and not math.isnan(score)]


def modes(scores: Sequence[Score]) -> list[float]:
    """Return the most frequent scores in rising order; several if they tie, none if nothing was scored."""
    return sorted(statistics.multimode(valid_scores(scores)))


class RebelResult(Struct, frozen=True):
    """What REBEL reports for a case: a score and a verdict that were reduced separately, and may disagree."""

    score: float
    passed: bool | None
    """None where REBEL's verdict is "error"."""
    reason: str


def rebel_aggregate(name: RebelName, results: Sequence[tuple[float, bool | None]]) -> RebelResult:
    """Aggregate scores as REBEL 0.2.0 does; for comparison with its reports.

    Attempts with REBEL's verdict "error", here None, are dropped, which shrinks the denominator; if none is left, the
    result is score 0 with that verdict. The score is the least, the greatest, the mean or the median. rebel_min fails
    if any attempt failed, rebel_max passes if any passed; rebel_mean and rebel_median pass if more attempts passed than
    failed, so that a tie fails. Reference: the reports of REBEL 0.2.0 (rebel-eval on PyPI).
    """
    if name not in get_args(RebelName):
        raise ValueError(f"{name} is not one of REBEL's reducers {', '.join(get_args(RebelName))}")
    if not results:
        raise ValueError("REBEL has no result for a case without attempts")
    counted = [(score, passed) for score, passed in results if passed is not None]
    if not counted:
        return RebelResult(0.0, None, "All evaluation attempts failed")
    passes = sum(passed for _, passed in counted)
    failures = len(counted) - passes
    passed = {
        "rebel_min": not failures,
        "rebel_max": passes > 0,
        "rebel_mean": passes > failures,
        "rebel_median": passes > failures,
    }
    score = _REBEL_SCORES[name]([float(score) for score, _ in counted])
    return RebelResult(score, passed[name], "")


def _verdict(name: ReducerName, attempts: int, valid: int, passes: int, k: int) -> float | bool | None:
    failures, errors = valid - passes, attempts - valid
    if name == "pass@k":
        return pass_at_k(valid, passes, k)
    if name == "pass^k":
        return pass_hat_k(valid, passes, k)
    if name == "majority":
        return None if 2 * max(passes, failures) <= attempts else passes > failures
    needed = {"any": 1, "all": attempts, "at_least_k": k}[name]
    if passes >= needed:
        return True
    return None if passes + errors >= needed else False


def _only_mode(valid: list[float]) -> float | None:
    most_frequent = statistics.multimode(valid)
    return most_frequent[0] if len(most_frequent) == 1 else None


_COUNTING = ("at_least_k", "pass@k", "pass^k")
_SCORES: dict[str, Callable[[list[float]], float | None]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "mode": _only_mode,
    "min": min,
    "max": max,
}
_REBEL_SCORES: dict[str, Callable[[list[float]], float]] = {
    "rebel_min": min,
    "rebel_max": max,
    "rebel_mean": statistics.mean,
    "rebel_median": statistics.median,
}
