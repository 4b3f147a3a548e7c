"""What is tried on a case, attempt by attempt, and what a whole run would send and cost. Nothing is sent here.

`AttemptPlan.next(history)` says which attempt is to be made, until nothing is left. It decides from what was tried so
far, and from nothing else: given the records of a journal it goes on where a run that was stopped left off. Of a test
each attempt is a plan of its own, since they do not depend on each other. On an entry there are standard attempts, then
a dynamic attack, until one succeeds or nothing is left; an attempt that ended in an error is made again, as often as
the strategy allows, and each of these is an attempt of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, UnsetType

from faircount.chat.settings import Prices
from faircount.components.code import in_short
from faircount.core.model import Document, Outcome
from faircount.core.outcomes import state
from faircount.core.text import clip, mask_secrets
from faircount.readers.journals import BLOCKED, STANDARD, AttemptRecord, DoneRecord
from faircount.runs.attacks.base import Attack, Entry, Messages, Play, Step
from faircount.runs.cases import AttackCase, Case, TaskCase

_LONGEST_ERROR = 500


class Strategy(Struct, frozen=True):
    """How entries are attacked: standard attempts first unless `attack_only`, then so many iterations of an attack.

    `retries` is how often an attempt that ended in an error is made again.
    """

    attack: Attack | None = None
    iterations: int = 10
    attack_only: bool = False
    retries: int = 0


class NextAttempt(Struct, frozen=True):
    """An attempt that is to be made; `number` counts those of its case, `iteration` those of its strategy.

    `last`: nothing follows it, whatever comes of it.
    """

    number: int
    iteration: int
    messages: Messages
    strategy: str = STANDARD
    note: Mapping[str, Any] | None = None
    conversation: str = ""
    last: bool = False


class DoneAttempt(Struct, frozen=True):
    """An attempt that was made and recorded."""

    number: int
    strategy: str
    iteration: int
    step: Step

    @property
    def state(self) -> Outcome:
        """What became of it."""
        step = self.step
        return state(success=step.success, error=step.error is not None, guardrail=step.blocked)


def done_of(record: AttemptRecord, case: Case) -> DoneAttempt:
    """Return what the record of an attempt tells."""
    error, verdicts = record.error, record.verdicts
    step = Step(
        messages=tuple(record.messages or case.messages),
        response=None if record.output is None else record.output.output,
        success=None if error is not None else case.success(one.decision for one in verdicts),
        score=verdicts[0].score if verdicts else None,
        error=None if error is None else f"{error.kind}: {error.message}",
        blocked=error is not None and error.kind == BLOCKED,
        note=None if isinstance(record.note, UnsetType) else record.note,
    )
    return DoneAttempt(record.attempt, record.strategy or STANDARD, record.iteration or 0, step)


class AttemptPlan:
    """What is tried on a case. `error` says why an attack ended by a failure of its own."""

    error = ""

    def __init__(self, case: Case) -> None:
        self.case = case

    async def next(self, history: Sequence[DoneAttempt]) -> NextAttempt | None:
        """Return what is to be tried next, given what was tried; None where nothing is left."""
        raise NotImplementedError

    def done_record(self, outcome: Outcome) -> DoneRecord | None:
        """Return what the journal is told when nothing is left; of a test, nothing."""
        del outcome
        return None

    async def close(self) -> None:
        """Give back what the plan holds."""


class TaskPlan(AttemptPlan):
    """One attempt of a test, by its number."""

    def __init__(self, case: Case, number: int) -> None:
        super().__init__(case)
        self._number = number

    async def next(self, history: Sequence[DoneAttempt]) -> NextAttempt | None:
        """Return the attempt, once."""
        return None if history else NextAttempt(self._number, 0, self.case.messages, last=True)


class EntryPlan(AttemptPlan):
    """The attempts on one entry, in their order."""

    def __init__(self, case: AttackCase, strategy: Strategy, timeout: float | None = None) -> None:
        super().__init__(case)
        self._turns = (case.messages, *[({"role": "user", "content": text},) for text in case.turns])
        self._strategy = strategy
        self._timeout = timeout
        self._play: Play | None = None

    async def next(self, history: Sequence[DoneAttempt]) -> NextAttempt | None:
        """Return what is to be tried next; None where nothing is left or something succeeded."""
        if any(one.step.success for one in history):
            return None
        following = None if self._strategy.attack_only else self._standard(history)
        if following is not None or self._strategy.attack is None:
            return following
        return await self._attacked(self._strategy.attack, history)

    def done_record(self, outcome: Outcome) -> DoneRecord | None:
        """Return that the entry is finished, and how."""
        return DoneRecord(self.case.name, outcome.value, self.error or None)

    async def close(self) -> None:
        """Give back what the attack holds."""
        if self._play is not None:
            await self._play.close()

    # -- standard attempts --------------------------------------------------------------------------------------

    def _standard(self, history: Sequence[DoneAttempt]) -> NextAttempt | None:
        made = [one for one in history if one.strategy == STANDARD]
        spent, messages = self._position(made) if made else (0, self.case.messages)
        if spent >= self.case.attempts:
            return None
        conversation = f"{self.case.name}#{spent}" if len(self._turns) > 1 else ""
        return NextAttempt(*_next_numbers(history, made), messages, conversation=conversation)

    def _position(self, made: Sequence[DoneAttempt]) -> tuple[int, Messages]:
        """Return how many attempts are spent, and what the one that is under way says next.

        With several turns an attempt is a conversation; it is over when its last turn was answered, when a guardrail
        stopped it, or when a turn ended in an error more often than it may be made again.
        """
        spent, turn, errors, messages = 0, 0, 0, self._turns[0]
        for one in made:
            failed = one.step.error is not None and not one.step.blocked
            errors = errors + 1 if failed else 0
            if failed and errors <= self._strategy.retries:
                continue
            turn += 1
            if one.step.error is not None or turn == len(self._turns):
                spent, turn, errors, messages = spent + 1, 0, 0, self._turns[0]
            else:
                messages = (*one.step.messages, {"role": "assistant", "content": one.step.response}, *self._turns[turn])
        return spent, messages

    # -- the attack ---------------------------------------------------------------------------------------------

    async def _attacked(self, attack: Attack, history: Sequence[DoneAttempt]) -> NextAttempt | None:
        if self.error:
            return None
        made = [one for one in history if one.strategy == attack.name]
        steps = [one.step for one in made]
        if len(steps) >= self._strategy.iterations:
            return None
        try:
            if self._play is None:
                entry = Entry(self.case.name, self.case.messages, self.case.fields)
                self._play = attack.begin(entry, iterations=self._strategy.iterations)
            async with asyncio.timeout(self._timeout):
                prompt = await self._play.next(steps)
        except TimeoutError:
            self.error = f"{attack.name}: no reply within {self._timeout:g} s"
            return None
        except Exception as error:  # noqa: BLE001  an attack may be anybody's code
            self.error = clip(mask_secrets(f"{attack.name}: {in_short(error)}"), _LONGEST_ERROR)
            return None
        if prompt is None:
            return None
        return NextAttempt(
            *_next_numbers(history, made),
            prompt.messages,
            strategy=attack.name,
            note=prompt.note,
            conversation=f"{self.case.name}#{attack.name}#{_conversations(steps, prompt.messages)}",
        )


def _next_numbers(history: Sequence[DoneAttempt], made: Sequence[DoneAttempt]) -> tuple[int, int]:
    """Return the next number of an attempt on a case, and the next iteration of those that one strategy made."""
    if not history:
        return 0, 0
    number = max([one.number for one in history]) + 1
    return number, max([one.iteration for one in made], default=-1) + 1


def _conversations(history: Sequence[Step], messages: Messages) -> int:
    """Return how many conversations were begun before this one: what repeats all that was said goes on with it."""
    before: Messages = ()
    count = 0
    for sent in (*(step.messages for step in history), messages):
        count += not (before and sent[: len(before)] == before and len(sent) > len(before))
        before = sent
    return count - 1


# -- what a run would do ------------------------------------------------------------------------------------------


CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English; other languages and code take more tokens."""
TOKENS_PER_MESSAGE = 4
ANSWER_TOKENS = 256
"""What an answer is taken to have where the case sets no limit."""
_LIMITS = ("max_completion_tokens", "max_tokens")


class PlannedCase(Struct, frozen=True):
    """A case, how often it is sent, and how many tokens that may take."""

    name: str
    place: str
    tags: tuple[str, ...]
    metrics: tuple[str, ...]
    attempts: int
    aggregation: str
    model: str | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


class Plan(Document, frozen=True, kw_only=True):
    """Cases with totals; `cost` is None where the price of any model is not known.

    `at_most`: these are the most that there can be, as attempts on an entry end with the first success.
    """

    kind: Literal["plan"] = "plan"
    schema: Literal[1] = 1
    cases: tuple[PlannedCase, ...]
    calls: int
    measurements: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    at_most: bool


def plan_cases(
    cases: Sequence[Case], model: str | None, prices: Prices, *, iterations: int = 0, attack_only: bool = False
) -> Plan:
    """Return what a run of cases would do; `model` answers those that name none.

    `iterations` is how many an attack on each entry has at most; `attack_only` leaves the standard attempts out.
    """
    rows = tuple(_planned_case(case, model, prices, iterations, attack_only) for case in cases)
    costs = [row.cost for row in rows]
    return Plan(
        cases=rows,
        calls=sum(row.attempts for row in rows),
        measurements=sum(row.attempts * len(row.metrics) for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        at_most=any(isinstance(case, AttackCase) for case in cases),
    )


def _planned_case(case: Case, model: str | None, prices: Prices, iterations: int, attack_only: bool) -> PlannedCase:
    attempts = case.attempts
    if isinstance(case, AttackCase):  # turns, and iterations of an attack, are attempts as well
        attempts = (0 if attack_only else attempts * (1 + len(case.turns))) + iterations
    named = case.api_params.get("model")
    answered_by = named if isinstance(named, str) else model
    texts = [content if isinstance(content := one.get("content"), str) else "" for one in case.messages]
    prompt = sum(TOKENS_PER_MESSAGE + -(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)
    limits = [case.api_params.get(name) for name in _LIMITS]
    answer = next((limit for limit in limits if isinstance(limit, int) and limit > 0), ANSWER_TOKENS)
    cost = None
    if answered_by:
        cost = prices.cost(answered_by, prompt_tokens=attempts * prompt, completion_tokens=attempts * answer)
    return PlannedCase(
        name=case.name,
        place=case.place,
        tags=case.tags,
        metrics=tuple(metric.name for metric in case.metrics),
        attempts=attempts,
        aggregation=case.aggregation if isinstance(case, TaskCase) else "any",
        model=answered_by,
        prompt_tokens=attempts * prompt,
        completion_tokens=attempts * answer,
        cost=cost,
    )
