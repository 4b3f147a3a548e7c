"""The verdicts on several attempts made into one, with the reason why it came out so.

A way to do it has a name. Those that count attempts have their number in it: `pass@3`, `pass^3`, `at_least_3`. What a
name does to scores and verdicts is said in `faircount.stats.retries`. REBEL's four ways follow REBEL's rules: scores
and verdicts are reduced separately, errors are left out, a tie fails. The other reducers count verdicts, or scores
where they reduce scores. An error is never a failure: where nothing was decided there is no decision, and the
reason says so.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast, get_args

from msgspec import Struct

from faircount.core.verdict import Decision, Verdict
from faircount.stats.retries import RebelName, ReducerName, aggregate, rebel_aggregate

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


# -- several verdicts made into one -----------------------------------------------------------------------------

_OF_SCORES = ("mode", "first")


def aggregated(strategy: str, verdicts: Sequence[Verdict], *, per_attempt: int = 1) -> Verdict:
    """Make one verdict of several, by the name of a strategy such as `mean`, `majority` or `pass@3`.

    They come attempt by attempt, `per_attempt` of each. REBEL's ways reduce all of them alike. The others are about
    attempts: an attempt has passed if all of its verdicts say so.
    """
    way = read_aggregation(strategy)
    counts = _counts(verdicts)
    if all(verdict.decision is None for verdict in verdicts):
        return Verdict(None, reason=f"nothing was decided: {counts}" if verdicts else "no results")
    if way.name in REBEL_NAMES:
        return _as_rebel(way.name, verdicts, counts)
    attempts = [_attempt(verdicts[start : start + per_attempt]) for start in range(0, len(verdicts), per_attempt)]
    return _reduced(way, attempts, counts if per_attempt == 1 else f"{counts}; of attempts {_counts(attempts)}")


def all_passed(decisions: Iterable[Decision | None]) -> bool | None:
    """Return whether all metrics passed something: false if any did not, None if none judged it or any is undecided."""
    decided = list(decisions)
    if Decision.PASS in decided:
        return False
    return None if not decided or None in decided else True


def any_hit(decisions: Iterable[Decision | None]) -> bool | None:
    """Return whether any judge found what it looks for: None if none judged it, or none did and any is undecided."""
    decided = list(decisions)
    if Decision.HIT in decided:
        return True
    return None if not decided or None in decided else False


def _attempt(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what all metrics say of an attempt together."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    score = math.fsum(scores) / len(scores) if len(scores) == len(verdicts) else None
    return Verdict(Decision.of(all_passed(verdict.decision for verdict in verdicts)), score)


def _as_rebel(name: str, verdicts: Sequence[Verdict], counts: str) -> Verdict:
    scored = [(math.nan if verdict.score is None else verdict.score, verdict.success) for verdict in verdicts]
    reduced = rebel_aggregate(cast(RebelName, f"rebel_{name}"), scored)
    # A result that was decided without a score leaves the score of all undefined, in whatever order they come.
    known = all(math.isfinite(score) for score, passed in scored if passed is not None)
    score = reduced.score if known else None
    rule = {
        "min": "fails if any failed",
        "max": "passes if any passed",
        "mean": "passes if more passed than failed",
        "median": "passes if more passed than failed",
    }[name]
    return Verdict(Decision.of(reduced.passed), score, f"{counts}; {name} {rule}")


def _reduced(way: Aggregation, verdicts: Sequence[Verdict], counts: str) -> Verdict:
    votes = [None if verdict.success is None else float(verdict.success) for verdict in verdicts]
    decided = aggregate(way.reducer, votes, k=way.k)
    scores = [None if verdict.decision is None else verdict.score for verdict in verdicts]
    score = aggregate(way.reducer, scores, k=way.k) if way.reducer in _OF_SCORES else decided
    if decided is None:
        return Verdict(None, reason=f"undecided by {way.name}: {counts}")
    # A chance, as pass@k gives it, is a pass from one half on, as everywhere.
    reason = f"{counts}; {way.name} gives {float(decided):g}"
    return Verdict(Decision.of(decided >= 0.5), None if score is None else float(score), reason)


def _counts(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.success for verdict in verdicts)
    words = [f"{counts[passed]} {word}" for passed, word in ((True, "passed"), (False, "failed")) if counts[passed]]
    if counts[None]:
        words.append(f"{counts[None]} without a verdict")
    return ", ".join(words) or "no results"
