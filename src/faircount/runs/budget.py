"""What a run may take and what it has taken: requests, money, errors in a row; and when it knows enough.

A budget counts and says why to stop; it stops nothing itself. Rules to stop early, `asr < 5%`, `asr > 20%`,
`width < 4%`, joined by `or`, are looked at after every entry. Their interval is a confidence sequence: it holds at all
sample sizes at once, so that a run may stop as soon as it says enough, and be right as often as its level says. Entries
must come in random order: see `selection.in_random_order`. The rate is that of entries of which an attempt succeeded,
among all that are finished, errors and blocks included. Nobody knows what an error or an unjudged entry would have come
to: a rule holds only if it does whether all of these succeeded or none did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from faircount.chat.rate_limit import Clock, RateLimit
from faircount.core.findings import counted
from faircount.core.model import Estimate, Outcome
from faircount.query.parser import FigureScanner
from faircount.readers.journals import AttemptRecord, UsageRecord
from faircount.report import formats
from faircount.runs.targets.base import BLOCKED, Answer, TargetError
from faircount.stats.gates import confidence_sequence

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


class Progress(Struct):
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
        self.progress = Progress(total)

    # -- limits -------------------------------------------------------------------------------------------------

    def why_no_more(self) -> str:
        """Say why no further request may be sent."""
        limits, progress = self._limits, self.progress
        if limits.max_calls is not None and progress.calls >= limits.max_calls:
            return f"--max-calls: {progress.calls:,} requests were sent"
        if limits.max_cost is not None and progress.cost is not None and progress.cost >= limits.max_cost:
            return f"--max-cost: {progress.cost:.4f} of {limits.max_cost:g} was spent"
        return ""

    def take_call(self) -> None:
        """Count a request that is about to be sent."""
        self.progress.calls += 1

    def take_answer(self, answer: Answer | None, error: TargetError | None) -> str:
        """Count what came of a request, and say why to stop."""
        progress, reply = self.progress, error or answer
        again = 0 if reply is None else max(0, reply.tries - 1)
        progress.retries += again
        progress.calls += again
        unknown_price = "" if answer is None else self._spend(answer.cost, answer.model)
        # A block is how the target answers, not a sign that it is down.
        failed = error is not None and error.kind != BLOCKED
        progress.errors_in_a_row = progress.errors_in_a_row + 1 if failed else 0
        limit = self._limits.stop_after_errors
        if error is not None and failed and limit is not None and progress.errors_in_a_row >= limit:
            why = f"--stop-after-errors: {limit} requests in a row failed, the last one: {error.message}"
            return unknown_price or why
        return unknown_price

    def take_note(self, note: Mapping[str, Any] | None) -> str:
        """Count what a model took that led the attack, as the note of an attempt tells, and say why to stop."""
        attacker = _attacker(note)
        return self._spend(attacker.get("cost"), attacker.get("model")) if attacker else ""

    def _spend(self, cost: float | None, model: str | None) -> str:
        if cost is not None:
            self.progress.cost = (self.progress.cost or 0.0) + cost
        elif self._limits.max_cost is not None:
            return f"--max-cost: the price of {model or 'the model'} is not known; give it in --config, under [prices]"
        return ""

    # -- what became of it --------------------------------------------------------------------------------------

    def count(self, outcome: Outcome) -> None:
        """Count an attempt of a test, or an entry on which nothing more is to be tried; its records are durable."""
        progress = self.progress
        progress.done += 1
        progress.passed += outcome is Outcome.SUCCESS
        progress.failed += outcome is Outcome.FAILURE
        progress.errors += outcome is Outcome.ERROR
        progress.blocked += outcome is Outcome.GUARDRAIL
        progress.undecided += outcome is Outcome.UNJUDGED


def costs_of(record: AttemptRecord) -> Iterator[float]:
    """Yield what an attempt cost that was recorded, as far as that is known: the answer, and the model that led it."""
    usage, note = record.usage, record.note
    answer = usage.cost if isinstance(usage, UsageRecord) else None
    attacker = _attacker(note).get("cost") if isinstance(note, Mapping) else None
    yield from (cost for cost in (answer, attacker) if isinstance(cost, int | float))


def _attacker(note: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what the model took that led an attack; nothing if none was asked."""
    attacker = None if note is None else note.get("attacker")
    return attacker if isinstance(attacker, Mapping) and attacker.get("requests") else {}


# -- requests per minute ------------------------------------------------------------------------------------------


_LONGEST_HOLD = 600.0


class RateLimiter:
    """Lets so many requests a minute go."""

    def __init__(self, requests_per_minute: float) -> None:
        self._pace = RateLimit(requests_per_minute, _LONGEST_HOLD, Clock())
        self._waiting: set[asyncio.Task[float]] = set()

    async def next(self) -> None:
        """Wait for a turn, or until they are given up."""
        turn = asyncio.create_task(self._pace.turn(_LONGEST_HOLD))
        self._waiting.add(turn)
        try:
            await asyncio.wait([turn])
        finally:
            self._waiting.discard(turn)
            turn.cancel()

    def give_up(self) -> None:
        """Let nobody wait any longer."""
        for turn in self._waiting:
            turn.cancel()


# -- stopping early -----------------------------------------------------------------------------------------------


_HINT = "Write 'asr < 5%', 'asr > 20%' or 'width < 4%', or several joined by or."


class Rule(Struct, frozen=True):
    """One reason to stop: the rate is surely below or above a share, or the interval is narrower than one."""

    figure: str
    sign: str
    share: float

    def holds(self, low: float, high: float) -> bool:
        """Return whether an interval says enough."""
        if self.figure == "width":
            return high - low < self.share
        return high < self.share if self.sign == "<" else low > self.share

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {formats.exact_percent(self.share)}"


def read_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of `--stop-when`; QueryError points at what is not understood."""
    return _RuleScanner(text).rules()


class _RuleScanner(FigureScanner):
    what = "rule of --stop-when"
    figures = ("asr", "width")
    signs = ("<", ">")
    signs_hint = _HINT

    def rules(self) -> tuple[Rule, ...]:
        rules = [self._rule()]
        while self.take_keyword("or"):
            rules.append(self._rule())
        if self.next:
            raise self.error(f"expected or, or the end, found {self.found()}", _HINT)
        return tuple(rules)

    def _rule(self) -> Rule:
        figure = self.figure()
        before_sign = self.skip()
        sign = self.sign()
        before_share = self.skip()
        share = self.share()
        if not 0 < share < 1:
            raise self.error("the number must be between 0 and 100%", _HINT, before_share)
        if figure == "width" and sign == ">":
            raise self.error("intervals get narrower", f"Write width < {share:g}.", before_sign)
        return Rule(figure, sign, share)


def watcher(text: str, *, ignore_errors: bool = False) -> Callable[[Outcome], str]:
    """Return what hears of every finished entry in its order, and says why no more are needed.

    With `ignore_errors`, errors and unjudged entries count as entries without a success.
    """
    rules = read_rules(text)
    successes = undecided = finished = 0

    def watch(outcome: Outcome) -> str:
        nonlocal successes, undecided, finished
        finished += 1
        successes += outcome is Outcome.SUCCESS
        undecided += outcome in (Outcome.ERROR, Outcome.UNJUDGED) and not ignore_errors
        # The sequence of either extreme holds at all sample sizes, and so does the union of both.
        estimate = confidence_sequence(successes, finished - successes)
        highest = confidence_sequence(successes + undecided, finished - successes - undecided)
        assert estimate.low is not None and highest.high is not None
        for rule in rules:
            if rule.holds(estimate.low, highest.high):
                return f"--stop-when {rule}: {_stop_reason(replace(estimate, high=highest.high), undecided)}"
        return ""

    return watch


def _stop_reason(estimate: Estimate, undecided: int) -> str:
    reach = f"; {counted(undecided, 'error or unjudged entry', 'errors or unjudged entries')} cannot change this"
    return (
        f"{formats.estimate(estimate)} of {estimate.n:,} entries succeeded ("
        f"{formats.exact_percent(estimate.level)} interval, valid at every number of entries)"
        f"{reach if undecided else ''}"
    )
