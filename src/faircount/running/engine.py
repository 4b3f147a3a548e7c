"""The engine: sends every attempt that is still missing to the target, has it judged as it arrives, and records it.

The attempts of a test do not hang on each other; those of an entry follow each other, as its course says. An attempt
counts when its record is durable in the journal. A request that fails is recorded as an error, a metric that fails as
an error of its own beside the response; neither loses anything. When the engine stops early, whatever the reason, the
journal is whole and the run can be resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.verdict import Decision, Verdict
from faircount.model import Outcome
from faircount.reading.aggregation import all_passed
from faircount.reading.journal_records import AttemptRecord, CallRecord, DoneRecord
from faircount.reading.journals import State
from faircount.running.budget import Budget, Limits, Tally
from faircount.running.case import Case, measured
from faircount.running.courses import Course, Made, Planned, Tactics, made_of
from faircount.running.journal import Journal, JournalError
from faircount.running.recording import attempt_record, begun_record, output_record, raised, unusable_record
from faircount.running.targets.blocks import classified
from faircount.running.targets.seam import Answer, Request, Target, TargetError
from faircount.running.turns import Turns

GUARDRAIL = "guardrail"
"""Under which name the decision of a guardrail that answers yes or no stands among the verdicts."""
_LONGEST_CLOSING = 10.0
_MOST_SETTLING = 32
"""So many records of one worker may be on their way to the disk while it sends further attempts."""


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
    entries that are not finished.
    """

    state: State
    sent: Mapping[tuple[str, int], int] = {}
    made: Mapping[str, Sequence[AttemptRecord]] = {}


Heard = Callable[[Tally], None]
Watching = Callable[[Outcome], str]
"""Hears how an entry ended, and says why no more are needed; empty as long as they are."""


class _Came(Struct, frozen=True):
    """What came of an attempt: an answer, an error, or both; `begun` is what its record says already."""

    case: Case
    begun: AttemptRecord
    answer: Answer | None
    error: TargetError | None


class _Recorded(Struct, frozen=True):
    """The record of an attempt, its error, and what is done when the record is durable."""

    record: AttemptRecord
    error: TargetError | None
    durable: asyncio.Future[None]


class Engine:
    """Runs cases against a target into a journal. `drain` and `abort` may be called while it runs."""

    def __init__(
        self,
        cases: Sequence[Case],
        target: Target,
        journal: Journal,
        limits: Limits,
        *,
        tactics: Tactics | None = None,
        heard: Heard = lambda _: None,
        watching: Watching = lambda _: "",
    ) -> None:
        self._cases = cases
        self._target = target
        self._journal = journal
        self._limits = limits
        self._tactics = tactics
        self._heard = heard
        self._watching = watching
        self._watched = 0
        self._outcomes: dict[str, str] = {}
        self._attempts = 0
        self._decided = False
        self._why = ""
        self._interrupted = False
        self._aborted = False
        self._failures: list[Exception] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._turns = None if limits.requests_per_minute is None else Turns(limits.requests_per_minute)
        self._budget = Budget(limits, sum(1 if case.fields is not None else case.attempts for case in cases))

    @property
    def tally(self) -> Tally:
        """What was done so far."""
        return self._budget.tally

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

    async def run(self, earlier: Earlier | None = None) -> Ending:
        """Do what is missing, and return how it ended."""
        if earlier is not None:
            self._attempts = earlier.state.done
            self.tally.done = self._done_before(earlier.state)
            for name, outcome in earlier.state.finished.items():
                self._watch(name, outcome)
        working = self._work if self._tactics is None else self._work_on_entries
        missing: Iterator[Any] = self._missing(earlier) if self._tactics is None else self._unfinished(earlier)
        count = max(1, min(self._limits.concurrency, self.tally.total - self.tally.done))
        self._tasks = [asyncio.create_task(working(missing)) for _ in range(count)]
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._close()
        for failure in self._failures:
            raise failure
        if self.tally.done == self.tally.total:
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
        closing = asyncio.create_task(self._closed())
        self._tasks = [closing]
        if self._aborted:
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.wait([closing], timeout=_LONGEST_CLOSING)
        if closing.done() and not closing.cancelled():
            closing.exception()  # heard, so that nobody complains that it was not
        closing.cancel()

    async def _closed(self) -> None:
        attack = None if self._tactics is None else self._tactics.attack
        try:
            if attack is not None:
                await attack.close()
        finally:
            await self._target.close()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    # -- what is to be done -------------------------------------------------------------------------------------

    def _done_before(self, state: State) -> int:
        if self._tactics is not None:
            return sum(state.is_finished(case.name) for case in self._cases)
        return sum(state.is_done(case.name, attempt) for case in self._cases for attempt in range(case.attempts))

    def _missing(self, earlier: Earlier | None) -> Iterator[tuple[Case, Planned, int]]:
        """Yield every attempt of a test that has no record, and how often it was sent before."""
        for case in self._cases:
            for attempt in range(case.attempts):
                if earlier is None or not earlier.state.is_done(case.name, attempt):
                    sent = 0 if earlier is None else earlier.sent.get((case.name, attempt), 0)
                    yield case, Planned(attempt, case.messages), sent

    def _unfinished(self, earlier: Earlier | None) -> Iterator[tuple[Case, Sequence[Made], Mapping[int, int]]]:
        """Yield every entry that is not finished, with what was tried on it and how often attempts were sent before."""
        sent: dict[str, dict[int, int]] = {}
        for (name, attempt), count in ({} if earlier is None else earlier.sent).items():
            sent.setdefault(name, {})[attempt] = count
        for case in self._cases:
            if earlier is None or not earlier.state.is_finished(case.name):
                records = () if earlier is None else earlier.made.get(case.name, ())
                yield case, [made_of(record, case) for record in records], sent.get(case.name, {})

    async def _work(self, missing: Iterator[tuple[Case, Planned, int]]) -> None:
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

    async def _work_on_entries(self, unfinished: Iterator[tuple[Case, Sequence[Made], Mapping[int, int]]]) -> None:
        """Try what is left on one entry after the other."""
        settling: deque[asyncio.Future[None]] = deque()
        try:
            while not self._why and (following := next(unfinished, None)) is not None:
                await self._pursue(*following, settling)
            await asyncio.gather(*settling)
        except Exception as error:  # noqa: BLE001  it is raised when the others are done
            self._fail(error)

    async def _pursue(
        self,
        case: Case,
        made: Sequence[Made],
        sent_before: Mapping[int, int],
        settling: deque[asyncio.Future[None]],
    ) -> None:
        """Make the attempts of an entry, each when it is known what came of the one before.

        What comes of an attempt is known before its record is durable, so the next is sent meanwhile; the entry counts
        when all are. `settling` are records of this worker that are not durable yet, no more than a few.
        """
        course = Course(case, self._tactics or Tactics(), made, self._limits.timeout)
        try:
            while not self._halted:
                planned = await course.next()
                if planned is None:
                    self._end_entry(case, course, settling)
                    return
                came = await self._sent(case, planned, sent_before.get(planned.number, 0))
                if came is None:
                    return
                recorded = self._recorded(came, await self._measured(came))
                settling.append(recorded.durable)
                course.take(made_of(recorded.record, case))
                if len(settling) >= _MOST_SETTLING:
                    await settling.popleft()
        finally:
            await course.close()

    def _recorded(self, came: _Came, verdicts: Sequence[Verdict]) -> _Recorded:
        """Hand an attempt to the journal; an answer that no journal can hold is an error."""
        record, error = attempt_record(came.begun, came.answer, came.error, verdicts), came.error
        try:
            durable = self._journal.adding(record)
        except ValueError as wrong:
            record, error = unusable_record(came.begun, came.answer, came.error, wrong)
            durable = self._journal.adding(record)
        self._attempts += 1
        return _Recorded(record, error, durable)

    def _end_entry(self, case: Case, course: Course, settling: Sequence[asyncio.Future[None]]) -> None:
        """Note that nothing more is to be tried on an entry, and count it when its last attempt is durable."""
        outcome = course.outcome
        self._journal.note(DoneRecord(case.name, outcome.value, course.error or None))
        self._watch(case.name, outcome)
        last = settling[-1] if settling else None
        if last is None or last.done():
            self._count_entry(outcome, last)
        else:
            last.add_done_callback(lambda last: self._count_entry(outcome, last))

    def _watch(self, name: str, outcome: str) -> None:
        """Let the watcher hear how entries ended, in the order in which they were drawn.

        Those that end early would speak first otherwise, and entries that succeed take fewer attempts.
        """
        self._outcomes[name] = outcome
        while self._watched < len(self._cases) and self._cases[self._watched].name in self._outcomes:
            why = self._watching(Outcome(self._outcomes.pop(self._cases[self._watched].name)))
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
        if self._turns is not None:
            self._turns.give_up()

    @property
    def _halted(self) -> bool:
        """Whether no further attempt may begin. A run that knows enough finishes the entries that it is at."""
        return bool(self._why) and not (self._decided and not self._interrupted)

    # -- one attempt --------------------------------------------------------------------------------------------

    async def _sent(self, case: Case, planned: Planned, sent_before: int) -> _Came | None:
        """Send an attempt and return what came; None where the limits do not allow it."""
        if self._turns is not None:
            await self._turns.next()
        refusal = self._budget.why_no_more()
        self._stop(refusal)
        if refusal or self._halted:
            return None
        self._budget.take_call()
        await self._journal.write(CallRecord(case.name, planned.number))
        begun = begun_record(case, planned, 1 + sent_before)
        answer, error = await self._asked(case, planned)
        self._stop(self._budget.take_answer(answer, error))
        self._stop(self._budget.take_note(planned.note))
        sent = case if planned.messages is case.messages else replace(case, messages=planned.messages)
        return _Came(sent, begun, answer, error)

    async def _finish(self, came: _Came) -> None:
        """Have an answer to a test measured, make it durable, and count it."""
        try:
            verdicts = await self._measured(came)
            recorded = self._recorded(came, verdicts)
            await recorded.durable
        except Exception as failure:  # noqa: BLE001  it is raised when the others are done
            self._fail(failure)
        else:
            self._budget.count_attempt(recorded.error, all_passed(one.decision for one in verdicts))
            self._heard(self.tally)

    async def _measured(self, came: _Came) -> list[Verdict]:
        answer, case = came.answer, came.case
        if answer is None or came.error is not None:
            return []
        if answer.let_through is not None and case.fields is not None:
            return [Verdict(Decision.of(answer.let_through), judge=GUARDRAIL)]
        return await measured(case, output_record(answer), self._limits.timeout)

    async def _asked(self, case: Case, planned: Planned) -> tuple[Answer | None, TargetError | None]:
        request = Request(
            planned.messages, case.api_params, case.name, planned.number, case.fields or {}, planned.conversation
        )
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._limits.timeout):
                return await self._target.answer(request), None
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

    def _count_entry(self, outcome: Outcome, last: asyncio.Future[None] | None) -> None:
        """Count an entry on which nothing more is to be tried, unless the record of its last attempt was lost."""
        if last is not None and (last.cancelled() or last.exception() is not None):
            return
        self._budget.count_entry(outcome)
        self._heard(self.tally)
