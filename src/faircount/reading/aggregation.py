"""The results of several attempts made into one, with the reason why it came out so.

A way to do it has a name. Those that count attempts have their number in it: `pass@3`, `pass^3`, `at_least_3`. What a
name does to scores and verdicts is said in `faircount.stats.reducers`. REBEL's four ways follow REBEL's rules: scores
and verdicts are reduced separately, errors are left out, a tie fails. The other reducers count verdicts, or scores
where they reduce scores. An error is never a failure: where nothing was decided, the verdict is `error`, and the reason
says so.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, cast, get_args

from msgspec import Struct

from faircount.stats.reducers import RebelName, RebelVerdict, ReducerName, aggregate, rebel_aggregate

DEFAULT = "mean"
REBEL_NAMES = ("min", "max", "mean", "median")
"""The ways that REBEL has too; they follow its rules for the verdict."""

_COUNTING = ("pass@", "pass^", "at_least_")
_LONGEST_NUMBER = 9
_NUMBERED = re.compile(rf"(pass@|pass\^|at_least_)(\d{{1,{_LONGEST_NUMBER}}})")


class Aggregation(Struct, frozen=True):
    """A way to make one result of several: a reducer, and its number where it has one."""

    reducer: ReducerName
    k: int | None = None

    @property
    def name(self) -> str:
        """Return the name as it is written."""
        return self.reducer if self.k is None else f"{self.reducer.removesuffix('k')}{self.k}"


def plain_names() -> list[str]:
    """Return the names that have no number in them."""
    return [name for name in get_args(ReducerName) if not name.startswith(_COUNTING)]


def read_aggregation(text: str) -> Aggregation:
    """Return what a name means, or raise a ValueError that says which names there are."""
    word = text.strip()
    if word in plain_names():
        return Aggregation(cast(ReducerName, word))
    numbered = _NUMBERED.fullmatch(word)
    if numbered is None or int(numbered[2]) < 1:
        known = ", ".join([*plain_names(), "pass@3", "pass^3", "at_least_3"])
        raise ValueError(f'no such aggregation: "{text}"; available: {known} (any number instead of 3)')
    return Aggregation(cast(ReducerName, f"{numbered[1]}k"), int(numbered[2]))


def check_attempts(aggregation: Aggregation, attempts: int) -> None:
    """Raise a ValueError for a number that more attempts than there are would be needed for."""
    if aggregation.k is not None and aggregation.k > attempts:
        raise ValueError(f"{aggregation.name} needs {aggregation.k} attempts or more, but there are {attempts}")


# -- several results made into one ------------------------------------------------------------------------------


PASSED: Literal["passed"] = "passed"
FAILED: Literal["failed"] = "failed"
ERROR: Literal["error"] = "error"
_OF_SCORES = ("mode", "first")


class Result(Struct, frozen=True):
    """What one metric said of one attempt; `score` is None where there is none."""

    score: float | None
    verdict: RebelVerdict


class Aggregated(Struct, frozen=True):
    """Several results made into one."""

    score: float | None
    verdict: RebelVerdict
    reason: str


def aggregated(strategy: str, results: Sequence[Result], *, per_attempt: int = 1) -> Aggregated:
    """Make one result of several, by the name of a strategy such as `mean`, `majority` or `pass@3`.

    Results come attempt by attempt, `per_attempt` of each. REBEL's ways reduce all of them alike. The others are about
    attempts: an attempt has passed if all of its results have.
    """
    way = read_aggregation(strategy)
    told = _told(results)
    if not any(result.verdict != ERROR for result in results):
        return Aggregated(None, ERROR, f"nothing was decided: {told}" if results else "no results")
    if way.name in REBEL_NAMES:
        return _as_rebel(way.name, results, told)
    attempts = [_attempt(results[start : start + per_attempt]) for start in range(0, len(results), per_attempt)]
    return _reduced(way, attempts, told if per_attempt == 1 else f"{told}; of attempts {_told(attempts)}")


def _attempt(results: Sequence[Result]) -> Result:
    """Return what all metrics say of an attempt together."""
    verdicts = {result.verdict for result in results}
    verdict: RebelVerdict = FAILED if FAILED in verdicts else ERROR if ERROR in verdicts else PASSED
    scores = [result.score for result in results if result.score is not None]
    return Result(math.fsum(scores) / len(scores) if len(scores) == len(results) else None, verdict)


def _as_rebel(name: str, results: Sequence[Result], told: str) -> Aggregated:
    scored = [(math.nan if result.score is None else result.score, result.verdict) for result in results]
    reduced = rebel_aggregate(cast(RebelName, f"rebel_{name}"), scored)
    # A result that was decided without a score leaves the score of all undefined, in whatever order they come.
    known = all(math.isfinite(score) for score, verdict in scored if verdict != ERROR)
    score = reduced.score if known else None
    rule = {
        "min": "fails if any failed",
        "max": "passes if any passed",
        "mean": "passes if more passed than failed",
        "median": "passes if more passed than failed",
    }[name]
    return Aggregated(score, reduced.verdict, f"{told}; {name} {rule}")


def _reduced(way: Aggregation, results: Sequence[Result], told: str) -> Aggregated:
    votes = [None if result.verdict == ERROR else float(result.verdict == PASSED) for result in results]
    decided = aggregate(way.reducer, votes, k=way.k)
    scores = [None if result.verdict == ERROR else result.score for result in results]
    score = aggregate(way.reducer, scores, k=way.k) if way.reducer in _OF_SCORES else decided
    if decided is None:
        return Aggregated(None, ERROR, f"undecided by {way.name}: {told}")
    # A chance, as pass@k gives it, is a pass from one half on, as everywhere.
    verdict = PASSED if decided >= 0.5 else FAILED
    return Aggregated(None if score is None else float(score), verdict, f"{told}; {way.name} gives {float(decided):g}")


def _told(results: Sequence[Result]) -> str:
    counts = Counter(result.verdict for result in results)
    words = [f"{counts[verdict]} {verdict}" for verdict in (PASSED, FAILED) if counts[verdict]]
    if counts[ERROR]:
        words.append(f"{counts[ERROR]} without a verdict")
    return ", ".join(words) or "no results"
