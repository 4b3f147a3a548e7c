"""The engine: sends every attempt that is still missing to the target, has it judged as it arrives, and records it.

An attempt counts when its record is durable in the journal. A request that fails is recorded as an error, a metric
that fails as an error of its own beside the response; neither loses anything. When the engine stops early, whatever
the reason, the journal is whole and the run can be resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from faircount.chat.pace import Clock, Pace
from faircount.running.case import Case, Measured
from faircount.running.journal import Journal, JournalError
from faircount.running.journal_reading import State
from faircount.running.measuring import measured
from faircount.running.targets.seam import Answer, Request, Target, TargetError
from faircount.text import clip, mask_secrets

_LONGEST_ERROR = 500
_LONGEST_HOLD = 600.0
_LONGEST_CLOSING = 10.0


class Limits(Struct, frozen=True):
    """How much may be done at once and in all.

    `timeout` is for the request of one attempt, transport retries included, and again for what measures it.
    """

    concurrency: int = 8
    requests_per_minute: float | None = None
    timeout: float | None = 300.0
    max_calls: int | None = None
    max_cost: float | None = None
    stop_after_errors: int | None = None


class Tally(Struct):
    """What this process has done so far. `calls` are requests, those included that the transport sent again, which
    `retries` counts; `cost` is that of the target, and None while none is known.
    """

    total: int
    done: int = 0
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    errors: int = 0
    calls: int = 0
    retries: int = 0
    cost: float | None = None
    errors_in_a_row: int = 0


class Ending(Struct, frozen=True):
    """How a run ended: complete, or why not. `aborted`: what was under way was given up."""

    complete: bool
    why: str = ""
    interrupted: bool = False
    aborted: bool = False


Heard = Callable[[Tally], None]


class _Came(Struct, frozen=True):
    """What came of an attempt: an answer, an error, or both; `begun` is what its record says already."""

    case: Case
    begun: Mapping[str, Any]
    answer: Answer | None
    error: TargetError | None


class Engine:
    """Runs cases against a target into a journal. `drain` and `abort` may be called while it runs."""

    def __init__(
        self, cases: Sequence[Case], target: Target, journal: Journal, limits: Limits, *, heard: Heard = lambda _: None
    ) -> None:
        self._cases = cases
        self._target = target
        self._journal = journal
        self._limits = limits
        self._heard = heard
        self._why = ""
        self._interrupted = False
        self._aborted = False
        self._failures: list[Exception] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._turns: set[asyncio.Task[float]] = set()
        self._pace = None
        if limits.requests_per_minute is not None:
            self._pace = Pace(limits.requests_per_minute, _LONGEST_HOLD, Clock())
        self.tally = Tally(sum(case.attempts for case in cases))

    # -- from outside -------------------------------------------------------------------------------------------

    def drain(self, why: str = "interrupted") -> None:
        """Let no further attempt begin; those that are under way are finished and recorded."""
        self._stop(why)
        self._interrupted = True

    def abort(self) -> None:
        """Give up what is under way, at once."""
        self._interrupted = self._aborted = True
        self._stop("interrupted")
        self._cancel()

    async def run(self, state: State | None = None, sent_before: Mapping[tuple[str, int], int] | None = None) -> Ending:
        """Do what is missing, and return how it ended.

        `sent_before` says how often an attempt was sent by processes that did not live to record it.
        """
        self.tally.done = 0 if state is None else self._recorded(state)
        missing = self._missing(state, sent_before or {})
        count = max(1, min(self._limits.concurrency, self.tally.total - self.tally.done))
        self._tasks = [asyncio.create_task(self._work(missing)) for _ in range(count)]
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._close()
        for failure in self._failures:
            raise failure
        complete = self.tally.done == self.tally.total
        return Ending(
            complete, "" if complete else self._why, self._interrupted and not complete, self._aborted and not complete
        )

    async def _close(self) -> None:
        """Let the target give back what it holds; all answers are there by now, so that a failure is no error."""
        closing = asyncio.create_task(self._target.close())
        self._tasks = [closing]
        if self._aborted:
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.wait([closing], timeout=_LONGEST_CLOSING)
        if closing.done() and not closing.cancelled():
            closing.exception()  # heard, so that nobody complains that it was not
        closing.cancel()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    # -- what is to be done -------------------------------------------------------------------------------------

    def _recorded(self, state: State) -> int:
        return sum(state.is_done(case.name, attempt) for case in self._cases for attempt in range(case.attempts))

    def _missing(
        self, state: State | None, sent_before: Mapping[tuple[str, int], int]
    ) -> Iterator[tuple[Case, int, int]]:
        """Yield every attempt that has no record, and how often it was sent before."""
        for case in self._cases:
            for attempt in range(case.attempts):
                if state is None or not state.is_done(case.name, attempt):
                    yield case, attempt, sent_before.get((case.name, attempt), 0)

    async def _work(self, missing: Iterator[tuple[Case, int, int]]) -> None:
        """Make one attempt after the other; while one is measured and recorded, the next is sent already."""
        finishing: asyncio.Task[None] | None = None
        try:
            while not self._why and (following := next(missing, None)) is not None:
                came = await self._sent(*following)
                if finishing is not None:
                    await finishing
                if came is None:
                    return
                finishing = asyncio.create_task(self._finish(came))
            if finishing is not None:
                await finishing
        except asyncio.CancelledError:
            if finishing is not None:
                finishing.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it is raised when the others are done
            self._fail(error)
            if finishing is not None:
                await finishing

    def _fail(self, error: Exception) -> None:
        """Begin nothing more after an error of our own; without a journal nothing else could be recorded either."""
        self._stop(f"{type(error).__name__}: {error}")
        self._failures.append(error)
        if isinstance(error, JournalError):
            self._cancel()

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        for turn in self._turns:
            turn.cancel()

    async def _turn(self) -> None:
        """Wait for the turn that the rate limit gives, or until nothing may begin any more."""
        if self._pace is None:
            return
        turn = asyncio.create_task(self._pace.turn(_LONGEST_HOLD))
        self._turns.add(turn)
        try:
            await asyncio.wait([turn])
        finally:
            self._turns.discard(turn)
            turn.cancel()

    def _may_call(self) -> bool:
        """Tell whether another request is within the limits; stop where it is not."""
        limits, tally = self._limits, self.tally
        if limits.max_calls is not None and tally.calls >= limits.max_calls:
            self._stop(f"--max-calls: {tally.calls:,} requests were sent")
        elif limits.max_cost is not None and tally.cost is not None and tally.cost >= limits.max_cost:
            self._stop(f"--max-cost: {tally.cost:.4f} of {limits.max_cost:g} was spent")
        return not self._why

    # -- one attempt --------------------------------------------------------------------------------------------

    async def _sent(self, case: Case, attempt: int, sent_before: int) -> _Came | None:
        """Send an attempt and return what came; None where the limits do not allow it."""
        await self._turn()
        if not self._may_call():
            return None
        self.tally.calls += 1
        await self._journal.write({"kind": "call", "case": case.name, "attempt": attempt})
        begun = {
            "kind": "attempt",
            "case": case.name,
            "attempt": attempt,
            "calls": 1 + sent_before,
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        answer, error = await self._asked(case, attempt)
        self._heed(answer, error)
        return _Came(case, begun, answer, error)

    async def _finish(self, came: _Came) -> None:
        """Have an answer measured, make it durable, and count it."""
        try:
            verdicts: Sequence[Measured] = ()
            if came.answer is not None and came.error is None:
                verdicts = await measured(came.case, _output_data(came.answer), self._limits.timeout)
            error = await self._record(came, verdicts)
        except Exception as failure:  # noqa: BLE001  it is raised when the others are done
            self._fail(failure)
        else:
            self._count(error, verdicts)

    async def _record(self, came: _Came, verdicts: Sequence[Measured]) -> TargetError | None:
        """Make an attempt durable and return its error; an answer that no journal can hold is one too."""
        told = came.error or came.answer
        metrics = came.case.metrics
        record = {
            **came.begun,
            "output": None if came.answer is None else _output_data(came.answer),
            "error": None if came.error is None else _error_data(came.error),
            "verdicts": [_verdict_data(metric.name, one) for metric, one in zip(metrics, verdicts, strict=False)],
            **_cost_data(came.answer),
            "tries": 0 if told is None else told.tries,
            "waited": 0.0 if told is None else round(told.waited, 6),
        }
        try:
            await self._journal.append(record)
            return came.error
        except ValueError as wrong:
            tries = 1 if told is None else told.tries
            unusable = TargetError("wrong answer", f"the answer cannot be recorded: {wrong}", tries)
        empty: dict[str, Any] = {"output": None, "verdicts": [], "tries": tries, "waited": 0.0}
        await self._journal.append({**came.begun, **empty, "error": _error_data(unusable)})
        return unusable

    async def _asked(self, case: Case, attempt: int) -> tuple[Answer | None, TargetError | None]:
        request = Request(case.messages, case.api_params, case.name, attempt)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._limits.timeout):
                return await self._target.answer(request), None
        except TargetError as error:
            return error.answer, error
        except TimeoutError:
            return None, TargetError("timeout", f"no answer within {time.perf_counter() - began:.0f} s")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None, _raised(error)  # the target's own: nobody here gave up
        except Exception as error:  # noqa: BLE001  a target may be anybody's code
            return None, _raised(error)

    # -- counting -----------------------------------------------------------------------------------------------

    def _heed(self, answer: Answer | None, error: TargetError | None) -> None:
        """Take note at once of what limits are about."""
        tally = self.tally
        told = error or answer
        again = 0 if told is None else max(0, told.tries - 1)
        tally.retries += again
        tally.calls += again
        if answer is not None:
            self._spend(answer)
        tally.errors_in_a_row = 0 if error is None else tally.errors_in_a_row + 1
        limit = self._limits.stop_after_errors
        if error is not None and limit is not None and tally.errors_in_a_row >= limit:
            self._stop(f"--stop-after-errors: {limit} requests in a row failed, the last one: {error.message}")

    def _count(self, error: TargetError | None, verdicts: Sequence[Measured]) -> None:
        """Count an attempt whose record is durable."""
        self.tally.done += 1
        if error is None:
            self._count_verdict({one.verdict for one in verdicts})
        else:
            self.tally.errors += 1
        self._heard(self.tally)

    def _count_verdict(self, verdicts: set[str]) -> None:
        if "failed" in verdicts:
            self.tally.failed += 1
        elif verdicts == {"passed"}:
            self.tally.passed += 1
        else:
            self.tally.undecided += 1

    def _spend(self, answer: Answer) -> None:
        if answer.cost is not None:
            self.tally.cost = (self.tally.cost or 0.0) + answer.cost
        elif self._limits.max_cost is not None:
            self._stop(
                f"--max-cost: the price of {answer.model or 'the model'} is not known; give it in --config, "
                "under [prices]"
            )


# -- records ----------------------------------------------------------------------------------------------------


def _output_data(answer: Answer) -> dict[str, Any]:
    return {
        "output": answer.output,
        "tools_called": list(answer.tools_called),
        "context": list(answer.context),
        "execution_time": round(answer.latency, 6),
    }


def _cost_data(answer: Answer | None) -> Mapping[str, Any]:
    """Return what is known of how an answer came about."""
    if answer is None:
        return {}
    usage = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "cost": answer.cost,
    }
    return {
        "model": answer.model,
        "finish_reason": answer.finish_reason,
        "usage": usage,
        "request_id": answer.request_id,
    }


def _verdict_data(metric: str, verdict: Measured) -> dict[str, Any]:
    """Return what a metric said, and what its own requests to models took, where it made any."""
    told = verdict.record(metric)
    return told if verdict.usage is None else {**told, "usage": structs.asdict(verdict.usage)}


def _raised(error: BaseException) -> TargetError:
    return TargetError(type(error).__name__, clip(mask_secrets(str(error)), _LONGEST_ERROR))


def _error_data(error: TargetError) -> Mapping[str, Any]:
    return {"kind": error.kind, "message": clip(mask_secrets(error.message), _LONGEST_ERROR)}
