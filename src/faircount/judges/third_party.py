"""Judges of other people's: who they are is known only when they are made.

A judge in the user's own code (`./file.py:Name`) is a subclass of Judge, a judge, or a function of an attempt that
returns a Verdict, true or false, a score (it says so: `-> float`), or None where it cannot decide.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faircount.components.code import CodePlace, is_file_name
from faircount.core.attempt import Attempt
from faircount.core.verdict import Decision, Verdict
from faircount.judges.judge import Judge

_HIT_FROM = 0.5


class ThirdPartyJudge(Judge):
    """A judge whose name, version and purpose belong to the object, not to its class."""

    def __init__(self, name: str, version: str, looks_for: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(**parameters)
        describe(self, name=name, version=version, looks_for=looks_for)


def describe(judge: Judge, **words: Any) -> None:
    """Set what a class of judges says of itself for one judge alone."""
    vars(judge).update(words)


def by_score(score: float, threshold: float, reason: str = "") -> Verdict:
    """Return a hit for a score that reaches a threshold; the score is kept where it is between 0 and 1."""
    if not math.isfinite(score):
        return Verdict.unjudged(f"the score is {score}")
    return Verdict(Decision.of(score >= threshold), score=share(score), reason=reason)


def share(score: object) -> float | None:
    """Return a score that is between 0 and 1; None for anything else."""
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return None
    return float(score)


# -- the user's own code ----------------------------------------------------------------------------------------


def adopt(place: CodePlace, version: str, judge: Judge) -> Judge:
    """Give a judge of the user's a version and, where its author gave it none, a name and a purpose."""
    words = {"version": version}
    if not isinstance(getattr(judge, "name", None), str):
        words["name"] = _canonical(place)
    if not isinstance(getattr(judge, "looks_for", None), str):
        words["looks_for"] = _first_line(type(judge).__doc__) or f"what {place.inner} looks for"
    describe(judge, **words)
    return judge


def _canonical(place: CodePlace) -> str:
    stem = Path(place.module).stem if is_file_name(place.module) else place.module.rpartition(".")[2]
    return f"{stem}.{place.inner}"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


class FunctionJudge(ThirdPartyJudge):
    """A judge made of a function of an attempt; from a score of 0.5 on it is a hit."""

    def __init__(
        self, place: CodePlace, version: str, function: Callable[..., Any], parameters: Mapping[str, Any]
    ) -> None:
        looks_for = _first_line(function.__doc__) or f"what {place.inner} looks for"
        super().__init__(_canonical(place), version, looks_for, parameters)
        self._function = function
        self.waits = inspect.iscoroutinefunction(function)
        self.turns = getattr(function, "turns", self.turns)
        self.scores = "float" in str(inspect.signature(function).return_annotation)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return what the function says."""
        answer = self._function(attempt, **self.parameters)
        return _verdict(_awaited(answer) if inspect.isawaitable(answer) else answer)


def _awaited(answer: Any) -> Any:
    """Wait for an answer, also in a thread whose own loop is at work."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _verdict(answer: Any) -> Verdict:
    # numpy's truth values and numbers are no bool and float, but can say what they are.
    value = answer.item() if hasattr(answer, "item") and not isinstance(answer, Verdict) else answer
    if isinstance(value, Verdict):
        return value
    if isinstance(value, Decision):
        return Verdict(value)
    if value is None:
        return Verdict.unjudged("the function returned None")
    if isinstance(value, bool):
        return Verdict(Decision.of(value))
    if isinstance(value, int | float) and 0 <= value <= 1:
        return by_score(float(value), _HIT_FROM)
    kind = f"{value!r}" if isinstance(value, int | float) else type(value).__name__
    raise ValueError(f"the function returned {kind}; expected a Verdict, true or false, a score from 0 to 1, or None")
