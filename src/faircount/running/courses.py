"""What is tried on one entry: its standard attempts, then a dynamic attack, until one succeeds or nothing is left.

A course decides from what was tried so far, and from nothing else: given the records of a journal it goes on where a
run that was stopped left off. It sends nothing and judges nothing. An attempt that ended in an error is made again, as
often as the tactics allow, and each of these is an attempt of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, UnsetType

from faircount.components.code import in_short
from faircount.model import Outcome
from faircount.outcomes import fold, state
from faircount.reading.journal_records import AttemptRecord, VerdictWord
from faircount.reading.journals import BLOCKED, STANDARD
from faircount.running.attacks.seam import Attack, Entry, Messages, Play, Step
from faircount.running.case import Case
from faircount.text import clip, mask_secrets

_LONGEST_ERROR = 500


class Tactics(Struct, frozen=True):
    """How entries are attacked: standard attempts first unless `attack_only`, then so many iterations of an attack.

    `retries` is how often an attempt that ended in an error is made again.
    """

    attack: Attack | None = None
    iterations: int = 10
    attack_only: bool = False
    retries: int = 0


class Planned(Struct, frozen=True):
    """An attempt that is to be made; `number` counts those of its case, `iteration` those of its strategy."""

    number: int
    messages: Messages
    strategy: str = STANDARD
    iteration: int = 0
    note: Mapping[str, Any] | None = None
    conversation: str = ""


class Made(Struct, frozen=True):
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


def made_of(record: AttemptRecord, case: Case) -> Made:
    """Return what the record of an attempt tells."""
    error, verdicts = record.error, record.verdicts
    step = Step(
        messages=tuple(record.messages or case.messages),
        response=None if record.output is None else record.output.output,
        success=None if error is not None else _success_of([one.verdict for one in verdicts]),
        score=verdicts[0].score if verdicts else None,
        error=None if error is None else f"{error.kind}: {error.message}",
        blocked=error is not None and error.kind == BLOCKED,
        note=None if isinstance(record.note, UnsetType) else record.note,
    )
    return Made(record.attempt, record.strategy or STANDARD, record.iteration or 0, step)


def _success_of(verdicts: Sequence[VerdictWord]) -> bool | None:
    """Return what the verdicts of an attempt come to: a success if any judge says so, nothing if none decided."""
    if VerdictWord.SUCCESS in verdicts:
        return True
    return False if verdicts and VerdictWord.ERROR not in verdicts else None


class Course:
    """The attempts of one entry, in their order. `error` says why an attack ended by a failure of its own."""

    def __init__(self, case: Case, tactics: Tactics, made: Iterable[Made] = (), timeout: float | None = None) -> None:
        self._case = case
        self._tactics = tactics
        self._made = sorted(made, key=lambda one: one.number)
        self._timeout = timeout
        self._play: Play | None = None
        self.error = ""

    @property
    def outcome(self) -> Outcome:
        """What the entry has come to so far."""
        return fold(one.state for one in self._made)

    def take(self, made: Made) -> None:
        """Hear what came of the attempt that was planned last."""
        self._made.append(made)

    async def next(self) -> Planned | None:
        """Return what is to be tried next; None where nothing is left or something succeeded."""
        if any(one.step.success for one in self._made):
            return None
        planned = None if self._tactics.attack_only else self._standard()
        if planned is not None or self._tactics.attack is None:
            return planned
        return await self._attacked(self._tactics.attack)

    async def close(self) -> None:
        """Give back what the attack holds."""
        if self._play is not None:
            await self._play.close()

    def _of(self, strategy: str) -> list[Made]:
        return [one for one in self._made if one.strategy == strategy]

    def _planned(self, made: Sequence[Made], messages: Messages, **rest: Any) -> Planned:
        """Return an attempt under the next numbers that nothing has."""
        number = max([one.number for one in self._made], default=-1) + 1
        iteration = max([one.iteration for one in made], default=-1) + 1
        return Planned(number=number, messages=messages, iteration=iteration, **rest)

    # -- standard attempts --------------------------------------------------------------------------------------

    def _standard(self) -> Planned | None:
        made = self._of(STANDARD)
        spent, messages = self._position(made) if made else (0, self._case.messages)
        if spent >= self._case.attempts:
            return None
        conversation = f"{self._case.name}#{spent}" if self._case.turns else ""
        return self._planned(made, messages, conversation=conversation)

    def _position(self, made: Sequence[Made]) -> tuple[int, Messages]:
        """Return how many attempts are spent, and what the one that is under way says next.

        With several turns an attempt is a conversation; it is over when its last turn was answered, when a guardrail
        stopped it, or when a turn ended in an error more often than it may be made again.
        """
        turns = (self._case.messages, *[({"role": "user", "content": text},) for text in self._case.turns])
        spent, turn, errors, said = 0, 0, 0, turns[0]
        for one in made:
            failed = one.step.error is not None and not one.step.blocked
            errors = errors + 1 if failed else 0
            if failed and errors <= self._tactics.retries:
                continue
            turn += 1
            if one.step.error is not None or turn == len(turns):
                spent, turn, errors, said = spent + 1, 0, 0, turns[0]
            else:
                said = (*one.step.messages, {"role": "assistant", "content": one.step.response}, *turns[turn])
        return spent, said

    # -- the attack ---------------------------------------------------------------------------------------------

    async def _attacked(self, attack: Attack) -> Planned | None:
        if self.error:
            return None
        made = self._of(attack.name)
        history = [one.step for one in made]
        if len(history) >= self._tactics.iterations:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                prompt = await self._played(attack).next(history)
        except TimeoutError:
            self.error = f"{attack.name}: no reply within {self._timeout:g} s"
            return None
        except Exception as error:  # noqa: BLE001  an attack may be anybody's code
            self.error = clip(mask_secrets(f"{attack.name}: {in_short(error)}"), _LONGEST_ERROR)
            return None
        if prompt is None:
            return None
        return self._planned(
            made,
            prompt.messages,
            strategy=attack.name,
            note=prompt.note,
            conversation=f"{self._case.name}#{attack.name}#{_conversations(history, prompt.messages)}",
        )

    def _played(self, attack: Attack) -> Play:
        if self._play is None:
            case = self._case
            entry = Entry(case.name, case.messages, case.fields or {})
            self._play = attack.begin(entry, iterations=self._tactics.iterations)
        return self._play


def _conversations(history: Sequence[Step], messages: Messages) -> int:
    """Return how many conversations were begun before this one: what repeats all that was said goes on with it."""
    before: Messages = ()
    count = 0
    for said in (*(step.messages for step in history), messages):
        count += not (before and said[: len(before)] == before and len(said) > len(before))
        before = said
    return count - 1
