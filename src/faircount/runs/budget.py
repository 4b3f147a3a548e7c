"""What a run may take and what it has taken: requests, money, errors in a row, and how its attempts ended.

A budget counts and says why to stop; it stops nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from faircount.core.model import Outcome
from faircount.runs.targets.base import BLOCKED, Answer, TargetError

_Count = Annotated[int, Meta(ge=1)]
_Amount = Annotated[float, Meta(gt=0)]


class Limits(Struct, frozen=True):
    """How much may be done at once and in all.

    `timeout` is for the request of one attempt, transport retries included, and again for what measures it.
    """

    concurrency: _Count = 8
    requests_per_minute: _Amount | None = None
    timeout: _Amount | None = 300.0
    max_calls: _Count | None = None
    max_cost: _Amount | None = None
    stop_after_errors: _Count | None = None


class Tally(Struct):
    """What this process has done so far: attempts of tests, or whole entries of a dataset.

    `calls` are requests, those included that the transport sent again, which `retries` counts; `cost` is that of the
    target and of models that lead attacks, and None while none is known. Of entries, `passed` are those of which an
    attempt succeeded.
    """

    total: int
    done: int = 0
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    errors: int = 0
    blocked: int = 0
    calls: int = 0
    retries: int = 0
    cost: float | None = None
    errors_in_a_row: int = 0


class Budget:
    """Counts what a run takes. What says why to stop says nothing as long as the run may go on."""

    def __init__(self, limits: Limits, total: int) -> None:
        self._limits = limits
        self.tally = Tally(total)

    # -- limits -------------------------------------------------------------------------------------------------

    def why_no_more(self) -> str:
        """Say why no further request may be sent."""
        limits, tally = self._limits, self.tally
        if limits.max_calls is not None and tally.calls >= limits.max_calls:
            return f"--max-calls: {tally.calls:,} requests were sent"
        if limits.max_cost is not None and tally.cost is not None and tally.cost >= limits.max_cost:
            return f"--max-cost: {tally.cost:.4f} of {limits.max_cost:g} was spent"
        return ""

    def take_call(self) -> None:
        """Count a request that is about to be sent."""
        self.tally.calls += 1

    def take_answer(self, answer: Answer | None, error: TargetError | None) -> str:
        """Count what came of a request, and say why to stop."""
        tally, told = self.tally, error or answer
        again = 0 if told is None else max(0, told.tries - 1)
        tally.retries += again
        tally.calls += again
        unknown_price = "" if answer is None else self._spend(answer.cost, answer.model)
        # A block is how the target answers, not a sign that it is down.
        failed = error is not None and error.kind != BLOCKED
        tally.errors_in_a_row = tally.errors_in_a_row + 1 if failed else 0
        limit = self._limits.stop_after_errors
        if error is not None and failed and limit is not None and tally.errors_in_a_row >= limit:
            why = f"--stop-after-errors: {limit} requests in a row failed, the last one: {error.message}"
            return unknown_price or why
        return unknown_price

    def take_note(self, note: Mapping[str, Any] | None) -> str:
        """Count what a model took that led the attack, as the note of an attempt tells, and say why to stop."""
        attacker = None if note is None else note.get("attacker")
        if isinstance(attacker, Mapping) and attacker.get("requests"):
            return self._spend(attacker.get("cost"), attacker.get("model"))
        return ""

    def _spend(self, cost: float | None, model: str | None) -> str:
        if cost is not None:
            self.tally.cost = (self.tally.cost or 0.0) + cost
        elif self._limits.max_cost is not None:
            return f"--max-cost: the price of {model or 'the model'} is not known; give it in --config, under [prices]"
        return ""

    # -- what became of it --------------------------------------------------------------------------------------

    def count(self, outcome: Outcome) -> None:
        """Count an attempt of a test, or an entry on which nothing more is to be tried; its records are durable."""
        tally = self.tally
        tally.done += 1
        tally.passed += outcome is Outcome.SUCCESS
        tally.failed += outcome is Outcome.FAILURE
        tally.errors += outcome is Outcome.ERROR
        tally.blocked += outcome is Outcome.GUARDRAIL
        tally.undecided += outcome is Outcome.UNJUDGED
