"""The engine: sends every attempt that is still missing to the target, has it judged as it arrives, and records it.

Workers carry out plans, which say what is tried on a case, one attempt after the other. An attempt
counts when its record is durable in the journal. A request that fails is recorded as an error, a metric that fails as
an error of its own beside the response; neither loses anything. When the engine stops early, whatever the reason, the
journal is whole and the run can be resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from faircount.core.model import Outcome
from faircount.core.outcomes import fold
from faircount.core.text import clip, mask_secrets
from faircount.core.verdict import Decision, Verdict
from faircount.readers.journals import (
    AttemptRecord,
    CallRecord,
    ErrorRecord,
    OutputRecord,
    State,
    UsageRecord,
    VerdictRecord,
)
from faircount.runs.budget import Budget, Limits, Progress, RateLimiter
from faircount.runs.cases import AttackCase, Case
from faircount.runs.journal import Journal, JournalError, Waiting
from faircount.runs.metrics import measure_case
from faircount.runs.plan import (
    AttemptPlan,
    DoneAttempt,
    EntryPlan,
    NextAttempt,
    Strategy,
    TaskPlan,
    done_of,
)
from faircount.runs.targets.base import Answer, Request, Target, TargetError, classified, in_time

GUARDRAIL = "guardrail"
"""Under which name the decision of a guardrail that answers yes or no stands among the verdicts."""
_LONGEST_CLOSING = 10.0
_number_of = attrgetter("number")
_MOST_SETTLING = 32
"""So many groups of records may be on their way to the disk while a worker sends further attempts."""


class Ending(Struct, frozen=True):
    """How a run ended: complete, or why not. `aborted`: what was under way was given up.

    `decided`: it was asked to stop as soon as it knows enough, and did. `attempts`: of so many the journal has a record
    that counts.
    """

    complete: bool
    why: str = ""
    interrupted: bool = False
    aborted: bool = False
    decided: bool = False
    attempts: int = 0


class Earlier(Struct, frozen=True):
    """What processes before this one left in the journal.

    `sent` says how often an attempt was sent by those that did not live to record it; `made` is what was recorded of
    entries that are not finished. `calls` and `cost` are what they spent, as far as it counts.
    """

    state: State
    sent: Mapping[tuple[str, int], int] = {}
    made: Mapping[str, Sequence[AttemptRecord]] = {}
    calls: int = 0
    cost: float | None = None


OnProgress = Callable[[Progress], None]
Watcher = Callable[[Outcome], str]
"""Called with how an entry ended; returns why no more are needed, or nothing as long as they are."""


class _Exchange(Struct, frozen=True):
    """What came of an attempt: an answer, an error, or both; `begun` is what its record says already."""

    case: Case
    begun: AttemptRecord
    answer: Answer | None
    error: TargetError | None


class _Worker:
    """What one of those that carry out plans has under way: an answer that is judged, records not yet durable."""

    def __init__(self) -> None:
        self.finishing: asyncio.Task[None] | None = None
        self.settling: deque[Waiting] = deque()

    async def finished(self) -> None:
        """Wait until the answer is judged."""
        if self.finishing is not None:
            await self.finishing


class Engine:
    """Runs cases against a target into a journal. `drain` and `abort` may be called while it runs."""

    def __init__(
        self,
        cases: Sequence[Case],
        target: Target,
        journal: Journal,
        limits: Limits,
        *,
        strategy: Strategy | None = None,
        on_progress: OnProgress = lambda _: None,
        watcher: Watcher = lambda _: "",
    ) -> None:
        self._cases = cases
        self._target = target
        self._journal = journal
        self._limits = limits
        self._strategy = strategy or Strategy()
        self._sent_before: Mapping[tuple[str, int], int] = {}
        self._on_progress = on_progress
        self._watcher = watcher
        self._watched = 0
        self._outcomes: dict[str, str] = {}
        self._uncounted: dict[Waiting, list[Outcome]] = {}
        """What plans came to, by what is done when their last record is durable."""
        self._attempts = 0
        self._decided = False
        self._why = ""
        self._interrupted = False
        self._aborted = False
        self._failures: list[Exception] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._rate_limiter = None if limits.requests_per_minute is None else RateLimiter(limits.requests_per_minute)
        self._budget = Budget(limits, sum(case.units for case in cases))

    @property
    def progress(self) -> Progress:
        """What was done so far."""
        return self._budget.progress

    # -- from outside -------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let no further attempt begin; those that are under way are finished and recorded."""
        self._stop("interrupted")
        self._interrupted = True

    def abort(self) -> None:
        """Give up what is under way, at once."""
        self._interrupted = self._aborted = True
        self._stop("interrupted")
        self._cancel()

    async def run(self, earlier: Earlier | None = None) -> Ending:
        """Do what is missing, and return how it ended."""
        if earlier is not None:
            self._attempts = earlier.state.done
            self._sent_before = earlier.sent
            self.progress.calls, self.progress.cost = earlier.calls, earlier.cost
            self.progress.done = sum(case.units_done(earlier.state) for case in self._cases)
            for name, outcome in earlier.state.finished.items():
                self._watch(name, outcome)
        plans = self._plans(earlier)
        count = max(1, min(self._limits.concurrency, self.progress.total - self.progress.done))
        self._tasks = [asyncio.create_task(self._work(plans)) for _ in range(count)]
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._close()
        for failure in self._failures:
            raise failure
        if self.progress.done == self.progress.total:
            return Ending(complete=True, attempts=self._attempts)
        return Ending(
            complete=False,
            why=self._why,
            interrupted=self._interrupted,
            aborted=self._aborted,
            decided=self._decided and not self._interrupted,
            attempts=self._attempts,
        )

    async def _close(self) -> None:
        """Let the target give back what it holds; all answers are there by now, so that a failure is no error."""

        async def close() -> None:
            try:
                if self._strategy.attack is not None:
                    await self._strategy.attack.close()
            finally:
                await self._target.close()

        closing = asyncio.create_task(close())
        self._tasks = [closing]
        if self._aborted:
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.wait([closing], timeout=_LONGEST_CLOSING)
        if closing.done() and not closing.cancelled():
            closing.exception()  # looked at, so that asyncio does not complain that nobody did
        closing.cancel()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    # -- what is to be done -------------------------------------------------------------------------------------

    def _plans(self, earlier: Earlier | None) -> Iterator[tuple[AttemptPlan, list[DoneAttempt]]]:
        """Yield a plan for everything that is missing, with what was tried before."""
        for case in self._cases:
            if isinstance(case, AttackCase):
                if earlier is None or not earlier.state.is_finished(case.name):
                    records = () if earlier is None else earlier.made.get(case.name, ())
                    done = [done_of(record, case) for record in records]
                    yield EntryPlan(case, self._strategy, self._limits.timeout), sorted(done, key=_number_of)
                continue
            for attempt in range(case.attempts):
                if earlier is None or not earlier.state.is_done(case.name, attempt):
                    yield TaskPlan(case, attempt), []

    async def _work(self, plans: Iterator[tuple[AttemptPlan, list[DoneAttempt]]]) -> None:
        """Carry out one plan after the other; what came last is judged, and made durable, meanwhile."""
        worker = _Worker()
        try:
            while not self._why and (following := next(plans, None)) is not None:
                await self._carry_out(*following, worker)
            await worker.finished()
            if worker.settling:
                await asyncio.wait(worker.settling)
        except asyncio.CancelledError:
            if worker.finishing is not None:
                worker.finishing.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it is raised when the others are done
            self._fail(error)
            await worker.finished()

    async def _carry_out(self, plan: AttemptPlan, history: list[DoneAttempt], worker: _Worker) -> None:
        """Make the attempts of a plan, each when it is known what came of the one before.

        What comes of an attempt is known before its record is durable, so the next is sent meanwhile.
        """
        try:
            while not self._halted:
                following = await plan.next(history)
                if following is None:
                    self._end(plan, history, worker)
                    return
                exchange = await self._sent(plan.case, following)
                await worker.finished()
                if exchange is None:
                    return
                if following.last and any(metric.blocking for metric in plan.case.metrics):
                    worker.finishing = asyncio.create_task(self._finish(exchange, plan, history, worker))
                    return
                await self._judge(exchange, plan, history, worker)
                if following.last:
                    self._end(plan, history, worker)
                    return
        finally:
            await plan.close()

    async def _judge(self, exchange: _Exchange, plan: AttemptPlan, history: list[DoneAttempt], worker: _Worker) -> None:
        """Have an answer judged, and hand it to the journal."""
        verdicts = await self._measured(exchange)
        record = attempt_record(exchange.begun, exchange.answer, exchange.error, verdicts)
        try:
            durable = self._journal.adding(record)
        except ValueError as wrong:
            record = unusable_record(exchange.begun, exchange.answer, exchange.error, wrong)
            durable = self._journal.adding(record)
        self._attempts += 1
        history.append(done_of(record, plan.case))
        if durable not in self._uncounted:
            self._uncounted[durable] = []
            durable.add_done_callback(self._settled)
        if not worker.settling or worker.settling[-1] is not durable:
            worker.settling.append(durable)
        if len(worker.settling) >= _MOST_SETTLING:
            await asyncio.wait([worker.settling[0]])
            while len(worker.settling) > 1 and worker.settling[0].done():  # the last says when its plan counts
                worker.settling.popleft()

    def _settled(self, durable: Waiting) -> None:
        """Count the plans whose last record is durable; end the run when one is lost, even while workers wait."""
        outcomes, error = self._uncounted.pop(durable), durable.exception()
        if error is not None:
            assert isinstance(error, Exception)
            self._fail(error)
            return
        for outcome in outcomes:
            self._count(outcome)

    async def _finish(
        self, exchange: _Exchange, plan: AttemptPlan, history: list[DoneAttempt], worker: _Worker
    ) -> None:
        """Have the last answer of a plan judged, while the worker goes on with its next plan."""
        try:
            await self._judge(exchange, plan, history, worker)
            self._end(plan, history, worker)
        except Exception as failure:  # noqa: BLE001  it is raised when the others are done
            self._fail(failure)

    def _end(self, plan: AttemptPlan, history: Sequence[DoneAttempt], worker: _Worker) -> None:
        """Note that a plan has nothing left, and count it when its last attempt is durable."""
        outcome = fold(one.state for one in history)
        record = plan.done_record(outcome)
        if record is not None:
            self._journal.note(record)
            self._watch(record.case, outcome)
        last = worker.settling[-1] if worker.settling else None
        if last in self._uncounted:
            self._uncounted[last].append(outcome)
        elif last is None or last.exception() is None:
            self._count(outcome)

    def _watch(self, name: str, outcome: str) -> None:
        """Call the watcher with how entries ended, in the order in which they were drawn.

        Those that end early would count first otherwise, and entries that succeed take fewer attempts.
        """
        self._outcomes[name] = outcome
        while self._watched < len(self._cases) and self._cases[self._watched].name in self._outcomes:
            why = self._watcher(Outcome(self._outcomes.pop(self._cases[self._watched].name)))
            self._watched += 1
            if why and not self._why:
                self._decided = True
                self._stop(why)

    def _fail(self, error: Exception) -> None:
        """Begin nothing more after an error of our own; without a journal nothing else could be recorded either."""
        self._stop(f"{type(error).__name__}: {error}")
        self._failures.append(error)
        if isinstance(error, JournalError):
            self._cancel()

    def _stop(self, why: str) -> None:
        """Let nothing more begin, where there is a reason."""
        if not why:
            return
        self._why = self._why or why
        if self._rate_limiter is not None:
            self._rate_limiter.give_up()

    @property
    def _halted(self) -> bool:
        """Whether no further attempt may begin. A run that knows enough finishes the entries that it is at."""
        return bool(self._why) and not (self._decided and not self._interrupted)

    # -- one attempt --------------------------------------------------------------------------------------------

    async def _sent(self, case: Case, following: NextAttempt) -> _Exchange | None:
        """Send an attempt and return what came of it; None where the limits do not allow it."""
        if self._rate_limiter is not None:
            await self._rate_limiter.next()
        refusal = self._budget.why_no_more()
        self._stop(refusal)
        if refusal or self._halted:
            return None
        self._budget.take_call()
        await self._journal.write(CallRecord(case.name, following.number))
        begun = begun_record(case, following, 1 + self._sent_before.get((case.name, following.number), 0))
        answer, error = await self._asked(case, following)
        self._stop(self._budget.take_answer(answer, error))
        self._stop(self._budget.take_note(following.note))
        sent = case if following.messages is case.messages else replace(case, messages=following.messages)
        return _Exchange(sent, begun, answer, error)

    async def _measured(self, exchange: _Exchange) -> list[Verdict]:
        answer, case = exchange.answer, exchange.case
        if answer is None or exchange.error is not None:
            return []
        if answer.let_through is not None and isinstance(case, AttackCase):
            return [Verdict(Decision.of(answer.let_through), judge=GUARDRAIL)]
        return await measure_case(case, output_record(answer), self._limits.timeout)

    async def _asked(self, case: Case, following: NextAttempt) -> tuple[Answer | None, TargetError | None]:
        request = Request(
            following.messages, case.api_params, case.name, following.number, case.fields, following.conversation
        )
        began = time.perf_counter()
        try:
            return await in_time(self._target.answer(request), self._limits.timeout), None
        except TargetError as error:
            return error.answer, classified(error)
        except TimeoutError:
            return None, TargetError("timeout", f"no answer within {time.perf_counter() - began:.0f} s")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None, raised(error)  # the target's own: nobody here gave up
        except Exception as error:  # noqa: BLE001  a target may be anybody's code
            return None, classified(raised(error))

    # -- counting -----------------------------------------------------------------------------------------------

    def _count(self, outcome: Outcome) -> None:
        """Count a plan that has nothing left."""
        self._budget.count(outcome)
        self._on_progress(self.progress)


# -- records of attempts ------------------------------------------------------------------------------------------


_LONGEST_ERROR = 500


def begun_record(case: Case, following: NextAttempt, calls: int) -> AttemptRecord:
    """Return what the record of an attempt says before anything comes of it."""
    begun = AttemptRecord(case.name, following.number, calls, datetime.now(UTC).isoformat(timespec="milliseconds"))
    if not isinstance(case, AttackCase):
        return begun
    same = following.messages is case.messages or following.messages == case.messages
    messages, note = UNSET if same else list(following.messages), UNSET if following.note is None else following.note
    return replace(begun, strategy=following.strategy, iteration=following.iteration, messages=messages, note=note)


def attempt_record(
    begun: AttemptRecord, answer: Answer | None, error: TargetError | None, verdicts: Sequence[Verdict]
) -> AttemptRecord:
    """Return the record of an attempt."""
    reply, error_record = error or answer, None
    if error is not None:
        message = clip(mask_secrets(error.message), _LONGEST_ERROR)
        error_record = ErrorRecord(error.kind, message, list(error.categories) or None, error.policy_block)
    if answer is None:
        output: OutputRecord | None = None
        told: dict[str, Any] = {}
    else:
        output = output_record(answer)
        told = {
            "model": answer.model,
            "finish_reason": answer.finish_reason,
            "usage": UsageRecord(UNSET, answer.prompt_tokens, answer.completion_tokens, answer.cost),
            "request_id": answer.request_id,
        }
    return replace(
        begun,
        output=output,
        error=error_record,
        verdicts=[VerdictRecord.of(verdict) for verdict in verdicts],
        tries=0 if reply is None else reply.tries,
        waited=0.0 if reply is None else round(reply.waited, 6),
        **told,
    )


def unusable_record(
    begun: AttemptRecord, answer: Answer | None, error: TargetError | None, wrong: ValueError
) -> AttemptRecord:
    """Return the record of an answer that no journal can hold: an error that says what is wrong with it."""
    reply = error or answer
    unusable = TargetError(
        "wrong answer", f"the answer cannot be recorded: {wrong}", 1 if reply is None else reply.tries
    )
    return attempt_record(begun, None, unusable, ())


def output_record(answer: Answer) -> OutputRecord:
    """Return an answer as it is in a journal."""
    return OutputRecord(
        answer.output, list(answer.tools_called), list(answer.context), round(answer.latency, 6), answer.let_through
    )


def raised(error: BaseException) -> TargetError:
    """Return what somebody's code raised as an error of the target."""
    return TargetError(type(error).__name__, clip(mask_secrets(str(error)), _LONGEST_ERROR))
