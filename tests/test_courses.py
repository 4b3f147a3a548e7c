"""What is tried on an entry: standard attempts, then an attack, decided from what was tried before."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from faircount.core import Decision, Verdict
from faircount.model import Outcome
from faircount.reading import STANDARD, AttemptRecord, ErrorRecord, OutputRecord, VerdictRecord
from faircount.running import (
    Attack,
    Case,
    Course,
    Entry,
    Made,
    Planned,
    Play,
    Prompt,
    Step,
    Tactics,
    entry_case,
    made_of,
    with_text,
)

Came = Mapping[str, Any]


def judged(text: str, success: bool | None) -> Came:
    verdict = Verdict(Decision.of(success), judge="judge")
    return {"output": OutputRecord(text), "verdicts": [VerdictRecord.of(verdict)]}


FAILED, WON = judged("no", False), judged("yes", True)
UNSURE = judged("hm", None)
BROKEN: Came = {"error": ErrorRecord("status", "500")}
STOPPED: Came = {"error": ErrorRecord("blocked", "no")}


class Counting(Attack):
    """Sends the number of its iteration, and fails where a test says so."""

    name = "counting"

    def __init__(self, most: int = 100, fails_at: int | None = None) -> None:
        self.most, self.fails_at = most, fails_at
        self.closed = 0

    def settings(self) -> Mapping[str, Any]:
        return {"kind": "counting"}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        assert iterations > 0
        return _Counting(self, entry)


class _Counting(Play):
    def __init__(self, attack: Counting, entry: Entry) -> None:
        self.attack, self.entry = attack, entry

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        if len(history) == self.attack.fails_at:
            raise ValueError("out of ideas")
        if len(history) >= self.attack.most:
            return None
        text = f"{self.entry.text} {len(history)}"
        return Prompt(with_text(self.entry.messages, text), note={"tried": len(history)})

    async def close(self) -> None:
        self.attack.closed += 1


def entry(attempts: int = 1, turns: tuple[str, ...] = ()) -> Case:
    messages = ({"role": "system", "content": "be good"}, {"role": "user", "content": "go"})
    return entry_case("e1", messages, {"plugin": "x"}, (), place="d.jsonl:1", attempts=attempts, turns=turns)


def record(planned: Planned, came: Came) -> AttemptRecord:
    told = {"strategy": planned.strategy, "iteration": planned.iteration, **came}
    return AttemptRecord("e1", planned.number, messages=list(planned.messages), note=planned.note, **told)


def played(case: Case, tactics: Tactics, came: Callable[[int], Came]) -> tuple[list[Planned], Course]:
    """Play a course to its end, and return what it planned."""

    async def play() -> tuple[list[Planned], Course]:
        course = Course(case, tactics)
        planned: list[Planned] = []
        while (following := await course.next()) is not None:
            assert len(planned) < 1000
            planned.append(following)
            course.take(made_of(record(following, came(len(planned) - 1)), case))
        await course.close()
        return planned, course

    return asyncio.run(play())


def from_list(*came: Came) -> Callable[[int], Came]:
    return lambda place: came[min(place, len(came) - 1)]


def told(planned: Sequence[Planned]) -> list[tuple[int, str, int]]:
    return [(one.number, one.strategy, one.iteration) for one in planned]


def test_standard_attempts_go_on_until_one_succeeds() -> None:
    planned, course = played(entry(attempts=5), Tactics(), from_list(FAILED, FAILED, WON))
    assert told(planned) == [(0, STANDARD, 0), (1, STANDARD, 1), (2, STANDARD, 2)]
    assert all(one.messages == entry().messages and one.conversation == "" for one in planned)
    assert course.outcome is Outcome.SUCCESS


@pytest.mark.parametrize(
    ("came", "outcome"),
    [
        (FAILED, Outcome.FAILURE),
        (UNSURE, Outcome.UNJUDGED),
        (STOPPED, Outcome.GUARDRAIL),
        (BROKEN, Outcome.ERROR),
    ],
)
def test_every_attempt_that_is_not_won_is_spent(came: Came, outcome: Outcome) -> None:
    planned, course = played(entry(attempts=3), Tactics(), from_list(came))
    assert len(planned) == 3
    assert course.outcome is outcome


def test_an_error_is_tried_again_and_spends_no_attempt_until_the_retries_are_used_up() -> None:
    planned, course = played(entry(attempts=2), Tactics(retries=2), from_list(BROKEN, FAILED, BROKEN, BROKEN, BROKEN))
    assert len(planned) == 5
    assert course.outcome is Outcome.FAILURE
    planned, course = played(entry(), Tactics(retries=3), from_list(BROKEN))
    assert (len(planned), course.outcome) == (4, Outcome.ERROR)
    planned, _ = played(entry(), Tactics(retries=3), from_list(STOPPED))
    assert len(planned) == 1  # a block is an answer of its kind


def test_an_attack_follows_when_the_standard_attempts_did_not_succeed() -> None:
    attack = Counting()
    planned, course = played(entry(2), Tactics(attack=attack, iterations=3), from_list(FAILED))
    assert told(planned) == [(0, STANDARD, 0), (1, STANDARD, 1), *((k + 2, "counting", k) for k in range(3))]
    assert [one.messages[-1]["content"] for one in planned[2:]] == ["go 0", "go 1", "go 2"]
    assert [one.note for one in planned[2:]] == [{"tried": 0}, {"tried": 1}, {"tried": 2}]
    assert course.outcome is Outcome.FAILURE
    assert attack.closed == 1


def test_an_attack_does_not_follow_a_success_and_ends_with_one() -> None:
    planned, _ = played(entry(), Tactics(attack=Counting()), from_list(WON))
    assert told(planned) == [(0, STANDARD, 0)]
    planned, course = played(entry(), Tactics(attack=Counting()), from_list(STOPPED, BROKEN, WON))
    assert told(planned)[-1] == (2, "counting", 1)
    assert course.outcome is Outcome.SUCCESS


def test_attack_only_leaves_the_standard_attempts_out() -> None:
    planned, _ = played(entry(3), Tactics(attack=Counting(most=2), attack_only=True), from_list(FAILED))
    assert told(planned) == [(0, "counting", 0), (1, "counting", 1)]


def test_an_attack_that_fails_ends_with_its_error_and_keeps_what_was_tried() -> None:
    planned, course = played(entry(), Tactics(attack=Counting(fails_at=2)), from_list(FAILED))
    assert len(planned) == 3
    assert course.error == "counting: ValueError: out of ideas"
    assert course.outcome is Outcome.FAILURE


def test_an_attack_that_hangs_is_given_up() -> None:
    class Hanging(Counting):
        def begin(self, entry: Entry, *, iterations: int) -> Play:  # noqa: ARG002
            class Never(Play):
                async def next(self, history: Sequence[Step]) -> Prompt | None:  # noqa: ARG002
                    await asyncio.Event().wait()
                    return None

            return Never()

    async def play() -> Course:
        course = Course(entry(), Tactics(attack=Hanging(), attack_only=True), timeout=0.01)
        assert await course.next() is None
        return course

    assert asyncio.run(play()).error == "counting: no reply within 0.01 s"


def test_turns_are_one_conversation_and_each_is_judged() -> None:
    planned, _ = played(entry(2, turns=("and?", "now!")), Tactics(), from_list(FAILED))
    assert len(planned) == 6
    said = [message["content"] for message in planned[2].messages]
    assert said == ["be good", "go", "no", "and?", "no", "now!"]
    assert [message["role"] for message in planned[2].messages][2:] == ["assistant", "user", "assistant", "user"]
    assert planned[3].messages == entry().messages
    assert [one.conversation for one in planned] == ["e1#0"] * 3 + ["e1#1"] * 3
    planned, _ = played(entry(1, turns=("and?", "now!")), Tactics(), from_list(FAILED, WON))
    assert len(planned) == 2


def test_a_block_ends_a_conversation_and_an_error_repeats_its_turn() -> None:
    planned, _ = played(entry(1, turns=("and?",)), Tactics(), from_list(STOPPED))
    assert len(planned) == 1
    planned, _ = played(entry(1, turns=("and?",)), Tactics(retries=1), from_list(FAILED, BROKEN, FAILED))
    assert [one.messages[-1]["content"] for one in planned] == ["go", "and?", "and?"]


@pytest.mark.parametrize("seed", range(60))
def test_a_course_goes_on_from_any_point_as_if_it_had_not_been_stopped(seed: int) -> None:
    lots = random.Random(seed)
    came = [lots.choices([FAILED, WON, BROKEN, STOPPED, UNSURE], [6, 1, 2, 1, 1])[0] for _ in range(100)]
    case = entry(lots.randint(1, 3), turns=("a", "b")[: lots.randint(0, 2)])
    tactics = Tactics(
        attack=lots.choice([None, Counting(most=lots.randint(0, 6), fails_at=lots.choice([None, 3]))]),
        iterations=lots.randint(1, 5),
        attack_only=lots.random() < 0.2,
        retries=lots.randint(0, 2),
    )
    whole, ended = played(case, tactics, from_list(*came))

    async def resumed(cut: int) -> tuple[list[Planned], Course]:
        before: list[Made] = [made_of(record(*pair), case) for pair in zip(whole[:cut], came, strict=False)]
        lots.shuffle(before)
        course = Course(case, tactics, before)
        planned: list[Planned] = []
        while (following := await course.next()) is not None:
            course.take(made_of(record(following, came[cut + len(planned)]), case))
            planned.append(following)
        return planned, course

    for cut in range(len(whole) + 1):
        rest, course = asyncio.run(resumed(cut))
        assert rest == whole[cut:]
        assert (course.outcome, course.error) == (ended.outcome, ended.error)


def test_conversations_of_an_attack_are_told_apart_by_what_they_repeat() -> None:
    class Talking(Counting):
        def begin(self, entry: Entry, *, iterations: int) -> Play:  # noqa: ARG002
            class Talk(Play):
                async def next(self, history: Sequence[Step]) -> Prompt | None:
                    last = history[-1] if len(history) % 2 else None
                    said = () if last is None else (*last.messages, {"role": "assistant", "content": last.response})
                    return Prompt((*said, {"role": "user", "content": f"turn {len(history)}"}))

            return Talk()

    planned, _ = played(entry(), Tactics(attack=Talking(), iterations=4, attack_only=True), from_list(FAILED))
    assert [one.conversation for one in planned] == [f"e1#counting#{k}" for k in (0, 0, 1, 1)]


def test_numbers_are_never_given_twice_where_a_record_was_made_void() -> None:
    case = entry(attempts=4)
    first = [Planned(number, case.messages, iteration=number) for number in (0, 2)]
    course = Course(case, Tactics(), [made_of(record(one, FAILED), case) for one in first])
    numbers = []

    async def play() -> None:
        for _ in itertools.count():
            planned = await course.next()
            if planned is None:
                return
            numbers.append((planned.number, planned.iteration))
            course.take(made_of(record(planned, FAILED), case))

    asyncio.run(play())
    assert numbers == [(3, 3), (4, 4)]
