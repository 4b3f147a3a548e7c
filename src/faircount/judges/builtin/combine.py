"""Judges made of judges: any, all, the majority, the opposite, and another threshold.

A part that fails or cannot decide is unjudged, and so is the whole wherever that part could have turned it. Parts that
wait for a model are asked last. Where every part has scores, all are asked, because the score of the whole needs them;
else the asking stops as soon as nothing can change the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Usage, Verdict
from faircount.judges.judge import Judge, Turns, check_number, verdict_of

Asked = list[tuple[Judge, Verdict]]
"""The parts that were asked, and what they said."""

_OPPOSITE: Mapping[Turns, Turns] = {"any": "all", "all": "any"}


def _called(judge: Judge) -> str:
    """Return how a part is named in a reason: as it was called for, where somebody did."""
    return judge.called or judge.name


def _described(judge: Judge, verdict: Verdict) -> str:
    words = verdict.reason if verdict.decision is not None else verdict.error
    return f"{_called(judge)}: {words}" if words else _called(judge)


def _who(judge: Judge) -> Mapping[str, Any]:
    """Return the identity of a part as plain data, so that the identity of the whole changes with it."""
    identity = judge.identity
    return {
        "name": identity.name,
        "version": identity.version,
        "parameters": identity.parameters,
        "prompt": identity.prompt,
    }


def _check_judge(name: str, value: object) -> Judge:
    if not isinstance(value, Judge):
        raise UsageError(f"{name} combines judges; {type(value).__name__} is not a judge")
    return value


def _usage(asked: Asked) -> Usage | None:
    given = [verdict.usage for _, verdict in asked if verdict.usage is not None]
    return sum(given, Usage()) if given else None


def _of(asked: Asked, decision: Decision) -> Asked:
    return [(judge, verdict) for judge, verdict in asked if verdict.decision is decision]


class _Several(Judge):
    """A judge made of several, in the order given.

    It asks for the turns that its parts ask for. Every turn is judged by the whole of it.
    """

    _where_parts_differ: Turns = "any"
    """What it asks for if some parts want a hit in any turn, and others in all."""

    def __init__(self, *judges: Judge) -> None:
        if not judges:
            raise UsageError(f"{self.name} needs at least one judge")
        self._parts = tuple(_check_judge(self.name, judge) for judge in judges)
        self._order = sorted(self._parts, key=lambda judge: judge.waits)
        self.scores = all(judge.scores for judge in self._parts)
        self.string_matcher = all(judge.string_matcher for judge in self._parts)
        self.waits = any(judge.waits for judge in self._parts)
        self.needs_response = all(judge.needs_response for judge in self._parts)
        self.may_fork = all(judge.may_fork for judge in self._parts)
        wishes = {judge.turns for judge in self._parts if judge.turns != "last"}
        if wishes:
            self.turns = wishes.pop() if len(wishes) == 1 else self._where_parts_differ
        super().__init__(judges=[_who(judge) for judge in self._parts])

    def parts(self) -> Iterable[Judge]:
        """Return the judges in the order given."""
        return self._parts

    def _ask(self, attempt: Attempt, settled: Callable[[Asked], bool]) -> Asked:
        """Ask the parts, until the decision is settled and no score is needed."""
        asked: Asked = []
        for judge in self._order:
            asked.append((judge, verdict_of(judge, attempt)))
            if not self.scores and settled(asked):
                break
        return asked

    def _score(self, asked: Asked, combined: Callable[[Sequence[float]], float]) -> float | None:
        scores = [verdict.score for _, verdict in asked if verdict.score is not None]
        return combined(scores) if self.scores and len(scores) == len(self._parts) else None

    def _agreed(self, asked: Asked, decision: Decision, score: float | None) -> Verdict:
        """Return the decision that the parts came to together, with the first evidence that one of them has."""
        agreeing = _of(asked, decision)
        spans = [verdict.span for _, verdict in agreeing if verdict.span is not None]
        reason = f"{len(agreeing)} of {len(self._parts)} {decision}; {_described(*agreeing[0])}"
        return Verdict(decision, score, reason, spans[0] if spans else None, usage=_usage(asked))

    def _undecided(self, asked: Asked) -> Verdict:
        without = [(judge, verdict) for judge, verdict in asked if verdict.decision is None]
        error = f"{len(without)} of {len(self._parts)} judges did not decide; {_described(*without[0])}"
        return Verdict.unjudged(error, usage=_usage(asked))

    def _settled_by_one(self, attempt: Attempt, settles: Decision, pick: Callable[[Iterable[float]], float]) -> Verdict:
        """Decide as one part that settles it does; the other way if all decide so; not at all if some do not decide."""
        otherwise = Decision.of(settles is Decision.PASS)
        asked = self._ask(attempt, lambda so_far: so_far[-1][1].decision is settles)
        score = self._score(asked, pick)
        if deciding := _of(asked, settles):
            judge, verdict = deciding[0]
            return Verdict(settles, score, _described(judge, verdict), verdict.span, usage=_usage(asked))
        if len(_of(asked, otherwise)) < len(asked):
            return self._undecided(asked)
        return self._agreed(asked, otherwise, score)


class AnyOf(_Several):
    """Hits when at least one of its judges hits.

    Unjudged when none hits and one of them could not decide; else a pass. Its score is the largest of theirs, where
    each has one.
    """

    name = "combine.AnyOf"
    looks_for = "what any of its judges looks for"

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit if one part hits."""
        return self._settled_by_one(attempt, Decision.HIT, max)


class AllOf(_Several):
    """Hits when all of its judges hit.

    A pass when one of them passes; unjudged when none passes and one could not decide. Its score is the smallest of
    theirs, where each has one.
    """

    name = "combine.AllOf"
    looks_for = "what all of its judges look for"
    _where_parts_differ = "all"

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a pass if one part passes."""
        return self._settled_by_one(attempt, Decision.PASS, min)


class Majority(_Several):
    """Decides as more than half of its judges do; those that could not decide count among all.

    Where neither side has more than half, the attempt is unjudged: a tie, or some could not decide. Its score is the
    mean of theirs, where each has one; it can lie on the other side of one half than the decision.
    """

    name = "combine.Majority"
    looks_for = "what most of its judges look for"

    def decide(self, attempt: Attempt) -> Verdict:
        """Return what more than half of the parts say."""
        asked = self._ask(attempt, lambda so_far: self._winner(so_far) is not None)
        winner = self._winner(asked)
        if winner is not None:
            return self._agreed(asked, winner, self._score(asked, lambda scores: sum(scores) / len(scores)))
        hits, passes = len(_of(asked, Decision.HIT)), len(_of(asked, Decision.PASS))
        if hits + passes < len(asked):
            return self._undecided(asked)
        return Verdict.unjudged(f"tie: {hits} judges hit and {passes} pass", usage=_usage(asked))

    def _winner(self, asked: Asked) -> Decision | None:
        return next((side for side in Decision if 2 * len(_of(asked, side)) > len(self._parts)), None)


class _One(Judge):
    """A judge that changes what another says."""

    def __init__(self, judge: Judge, **parameters: Any) -> None:
        self._part = _check_judge(self.name, judge)
        self.scores = judge.scores
        self.string_matcher = judge.string_matcher
        self.waits = judge.waits
        self.needs_response = judge.needs_response
        self.may_fork = judge.may_fork
        self.turns = judge.turns
        super().__init__(judge=_who(judge), **parameters)

    def parts(self) -> Iterable[Judge]:
        """Return the one judge."""
        return (self._part,)


class Not(_One):
    """Hits when its judge passes, and passes when it hits; what could not be decided stays unjudged."""

    name = "combine.Not"
    looks_for = "the absence of what its judge looks for"

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge)
        # What is not in any turn is absent from all of them, and the other way round.
        self.turns = _OPPOSITE.get(judge.turns, judge.turns)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return the opposite of what the part says."""
        verdict = verdict_of(self._part, attempt)
        if verdict.decision is None:
            return Verdict.unjudged(_described(self._part, verdict), usage=verdict.usage)
        score = None if verdict.score is None else 1 - verdict.score
        opposite = Decision.of(verdict.decision is Decision.PASS)
        reason = f"{verdict.decision} inverted; {_described(self._part, verdict)}"
        return Verdict(opposite, score, reason, verdict.span, usage=verdict.usage)


class Threshold(_One):
    """Hits when the score of its judge is at least `at`, whatever that judge decides by itself.

    What that judge leaves unjudged stays so; a verdict without a score is unjudged too.
    """

    name = "combine.Threshold"
    looks_for = "what its judge looks for, at or above a given score"

    def __init__(self, judge: Judge, at: float = 0.5) -> None:
        self._at = check_number(self.name, "at", at, high=1.0)
        super().__init__(judge, at=at)

    def decide(self, attempt: Attempt) -> Verdict:
        """Decide by the score of the part."""
        verdict = verdict_of(self._part, attempt)
        if verdict.decision is None:
            return Verdict.unjudged(_described(self._part, verdict), usage=verdict.usage)
        if verdict.score is None:
            return Verdict.unjudged(f"{_called(self._part)} gives no score", usage=verdict.usage)
        hit = verdict.score >= self._at
        relation = "at least" if hit else "below"
        reason = f"score {verdict.score:.3g}, {relation} {self._at:g}; {_described(self._part, verdict)}"
        return Verdict(Decision.of(hit), verdict.score, reason, verdict.span, usage=verdict.usage)
