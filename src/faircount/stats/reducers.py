"""Several scores of one entry made into one.

What is reduced decides what is measured: "any" and "all" of five attempts are different questions from the mean. A
score is None (or NaN) where an attempt ended in an error: that is neither a pass nor a failure, and each reducer says
what it does then. A score is a pass if it is at least the threshold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from faircount.stats.attempts import pass_at_k, pass_hat_k

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
        return _score_or_none(scores[0])
    passes = sum(score >= threshold for score in valid)
    return _verdict(name, _Votes(len(scores), len(valid), passes), k or 0)


def valid_scores(scores: Sequence[Score]) -> list[float]:
    """Return the scores of the attempts that have one, in their order: None and NaN stand for an error."""
    return [score for score in scores if score is not None and not math.isnan(score)]


def modes(scores: Sequence[Score]) -> list[float]:
    """Return the most frequent scores, in rising order: several if they tie, none if nothing was scored."""
    return sorted(statistics.multimode(valid_scores(scores)))


class RebelResult(Struct, frozen=True):
    """What REBEL reports for a case: a score and a verdict that were reduced separately, and may disagree."""

    score: float
    passed: bool | None
    """None where REBEL's verdict is "error"."""
    reason: str


def rebel_aggregate(name: RebelName, results: Sequence[tuple[float, bool | None]]) -> RebelResult:
    """Reduce the score of each attempt, and whether it passed, as REBEL 0.2.0 does, to compare with its reports.

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


class _Votes(Struct, frozen=True):
    attempts: int
    valid: int
    passes: int

    @property
    def failures(self) -> int:
        return self.valid - self.passes

    @property
    def errors(self) -> int:
        return self.attempts - self.valid


def _verdict(name: ReducerName, votes: _Votes, k: int) -> float | bool | None:
    if name == "pass@k":
        return pass_at_k(votes.valid, votes.passes, k)
    if name == "pass^k":
        return pass_hat_k(votes.valid, votes.passes, k)
    if name == "majority":
        if 2 * max(votes.passes, votes.failures) <= votes.attempts:
            return None
        return votes.passes > votes.failures
    needed = {"any": 1, "all": votes.attempts, "at_least_k": k}[name]
    if votes.passes >= needed:
        return True
    return None if votes.passes + votes.errors >= needed else False


def _only_mode(valid: list[float]) -> float | None:
    most_frequent = statistics.multimode(valid)
    return most_frequent[0] if len(most_frequent) == 1 else None


def _score_or_none(score: Score) -> float | None:
    return None if score is None or math.isnan(score) else score


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
