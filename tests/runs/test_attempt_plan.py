"""What is tried on an entry: standard attempts, then an attack, decided from what was tried before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from faircount.core import Decision, Outcome, Verdict, fold
from faircount.readers import STANDARD, AttemptRecord, ErrorRecord, OutputRecord, VerdictRecord
from faircount.runs import (
    Attack,
    AttackCase,
    DoneAttempt,
    Entry,
    EntryPlan,
    NextAttempt,
    Play,
    Prompt,
    Step,
    Strategy,
    TaskCase,
    TaskPlan,
    done_of,
    with_text,
)

Came = Mapping[str, Any]


def judged(text: str, success: bool | None) -> Came:
    verdict = Verdict(Decision.of(success), judge="judge")
    return {"output": OutputRecord(text), "verdicts": [VerdictRecord.of(verdict)]}


HIT, PASS = Decision.HIT, Decision.PASS
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


def entry(attempts: int = 1, turns: tuple[str, ...] = ()) -> AttackCase:
    messages = ({"role": "system", "content": "be good"}, {"role": "user", "content": "go"})
    return AttackCase(name="e1", messages=messages, fields={"plugin": "x"}, metrics=(), attempts=attempts, turns=turns)


def record(planned: NextAttempt, came: Came) -> AttemptRecord:
    told = {"strategy": planned.strategy, "iteration": planned.iteration, **came}
    return AttemptRecord("e1", planned.number, messages=list(planned.messages), note=planned.note, **told)


class Played(EntryPlan):
    """A plan, and what came of what it planned."""

    history: list[DoneAttempt]

    @property
    def outcome(self) -> Outcome:
        return fold(one.state for one in self.history)


def played(
    case: AttackCase, strategy: Strategy, came: Callable[[int], Came], before: Sequence[DoneAttempt] = ()
) -> tuple[list[NextAttempt], Played]:
    """Carry a plan out to its end, and return what it planned."""

    async def play() -> tuple[list[NextAttempt], Played]:
        plan = Played(case, strategy)
        plan.history = [*before]
        planned: list[NextAttempt] = []
        while (following := await plan.next(plan.history)) is not None:
            assert len(planned) < 1000
            planned.append(following)
            plan.history.append(done_of(record(following, came(len(planned) - 1)), case))
        await plan.close()
        return planned, plan

    return asyncio.run(play())


def from_list(*came: Came) -> Callable[[int], Came]:
    return lambda place: came[min(place, len(came) - 1)]


def told(planned: Sequence[NextAttempt]) -> list[tuple[int, str, int]]:
    return [(one.number, one.strategy, one.iteration) for one in planned]


def test_standard_attempts_go_on_until_one_succeeds() -> None:
    planned, plan = played(entry(attempts=5), Strategy(), from_list(FAILED, FAILED, WON))
    assert told(planned) == [(0, STANDARD, 0), (1, STANDARD, 1), (2, STANDARD, 2)]
    assert all(one.messages == entry().messages and one.conversation == "" for one in planned)
    assert plan.outcome is Outcome.SUCCESS


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
    planned, plan = played(entry(attempts=3), Strategy(), from_list(came))
    assert len(planned) == 3
    assert plan.outcome is outcome


def test_an_error_is_tried_again_and_spends_no_attempt_until_the_retries_are_used_up() -> None:
    planned, plan = played(entry(attempts=2), Strategy(retries=2), from_list(BROKEN, FAILED, BROKEN, BROKEN, BROKEN))
    assert len(planned) == 5
    assert plan.outcome is Outcome.FAILURE
    planned, plan = played(entry(), Strategy(retries=3), from_list(BROKEN))
    assert (len(planned), plan.outcome) == (4, Outcome.ERROR)
    planned, _ = played(entry(), Strategy(retries=3), from_list(STOPPED))
    assert len(planned) == 1  # a block is an answer of its kind


def test_an_attack_follows_when_the_standard_attempts_did_not_succeed() -> None:
    attack = Counting()
    planned, plan = played(entry(2), Strategy(attack=attack, iterations=3), from_list(FAILED))
    assert told(planned) == [(0, STANDARD, 0), (1, STANDARD, 1), *((k + 2, "counting", k) for k in range(3))]
    assert [one.messages[-1]["content"] for one in planned[2:]] == ["go 0", "go 1", "go 2"]
    assert [one.note for one in planned[2:]] == [{"tried": 0}, {"tried": 1}, {"tried": 2}]
    assert plan.outcome is Outcome.FAILURE
    assert attack.closed == 1


def test_an_attack_does_not_follow_a_success_and_ends_with_one() -> None:
    planned, _ = played(entry(), Strategy(attack=Counting()), from_list(WON))
    assert told(planned) == [(0, STANDARD, 0)]
    planned, plan = played(entry(), Strategy(attack=Counting()), from_list(STOPPED, BROKEN, WON))
    assert told(planned)[-1] == (2, "counting", 1)
    assert plan.outcome is Outcome.SUCCESS


def test_attack_only_leaves_the_standard_attempts_out() -> None:
    planned, _ = played(entry(3), Strategy(attack=Counting(most=2), attack_only=True), from_list(FAILED))
    assert told(planned) == [(0, "counting", 0), (1, "counting", 1)]


def test_an_attack_that_fails_ends_with_its_error_and_keeps_what_was_tried() -> None:
    planned, plan = played(entry(), Strategy(attack=Counting(fails_at=2)), from_list(FAILED))
    assert len(planned) == 3
    assert plan.error == "counting: ValueError: out of ideas"
    assert plan.outcome is Outcome.FAILURE


def test_an_attack_that_hangs_is_given_up() -> None:
    class Hanging(Counting):
        def begin(self, entry: Entry, *, iterations: int) -> Play:  # noqa: ARG002
            class Never(Play):
                async def next(self, history: Sequence[Step]) -> Prompt | None:  # noqa: ARG002
                    await asyncio.Event().wait()
                    return None

            return Never()

    async def play() -> EntryPlan:
        plan = EntryPlan(entry(), Strategy(attack=Hanging(), attack_only=True), timeout=0.01)
        assert await plan.next([]) is None
        return plan

    assert asyncio.run(play()).error == "counting: no reply within 0.01 s"


def test_turns_are_one_conversation_and_each_is_judged() -> None:
    planned, _ = played(entry(2, turns=("and?", "now!")), Strategy(), from_list(FAILED))
    assert len(planned) == 6
    said = [message["content"] for message in planned[2].messages]
    assert said == ["be good", "go", "no", "and?", "no", "now!"]
    assert [message["role"] for message in planned[2].messages][2:] == ["assistant", "user", "assistant", "user"]
    assert planned[3].messages == entry().messages
    assert [one.conversation for one in planned] == ["e1#0"] * 3 + ["e1#1"] * 3
    planned, _ = played(entry(1, turns=("and?", "now!")), Strategy(), from_list(FAILED, WON))
    assert len(planned) == 2


def test_a_block_ends_a_conversation_and_an_error_repeats_its_turn() -> None:
    planned, _ = played(entry(1, turns=("and?",)), Strategy(), from_list(STOPPED))
    assert len(planned) == 1
    planned, _ = played(entry(1, turns=("and?",)), Strategy(retries=1), from_list(FAILED, BROKEN, FAILED))
    assert [one.messages[-1]["content"] for one in planned] == ["go", "and?", "and?"]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_goes_on_from_any_point_as_if_it_had_not_been_stopped(seed: int) -> None:
    lots = random.Random(seed)
    came = [lots.choices([FAILED, WON, BROKEN, STOPPED, UNSURE], [6, 1, 2, 1, 1])[0] for _ in range(100)]
    case = entry(lots.randint(1, 3), turns=("a", "b")[: lots.randint(0, 2)])
    strategy = Strategy(
        attack=lots.choice([None, Counting(most=lots.randint(0, 6), fails_at=lots.choice([None, 3]))]),
        iterations=lots.randint(1, 5),
        attack_only=lots.random() < 0.2,
        retries=lots.randint(0, 2),
    )
    whole, ended = played(case, strategy, from_list(*came))

    for cut in range(len(whole) + 1):
        before = [done_of(record(*pair), case) for pair in zip(whole[:cut], came, strict=False)]
        rest, plan = played(case, strategy, from_list(*came[cut:]), before)
        assert rest == whole[cut:]
        assert (plan.outcome, plan.error) == (ended.outcome, ended.error)


def test_conversations_of_an_attack_are_told_apart_by_what_they_repeat() -> None:
    class Talking(Counting):
        def begin(self, entry: Entry, *, iterations: int) -> Play:  # noqa: ARG002
            class Talk(Play):
                async def next(self, history: Sequence[Step]) -> Prompt | None:
                    last = history[-1] if len(history) % 2 else None
                    said = () if last is None else (*last.messages, {"role": "assistant", "content": last.response})
                    return Prompt((*said, {"role": "user", "content": f"turn {len(history)}"}))

            return Talk()

    planned, _ = played(entry(), Strategy(attack=Talking(), iterations=4, attack_only=True), from_list(FAILED))
    assert [one.conversation for one in planned] == [f"e1#counting#{k}" for k in (0, 0, 1, 1)]


def test_numbers_are_never_given_twice_where_a_record_was_made_void() -> None:
    case = entry(attempts=4)
    first = [NextAttempt(number, number, case.messages) for number in (0, 2)]
    planned, _ = played(case, Strategy(), from_list(FAILED), [done_of(record(one, FAILED), case) for one in first])
    assert [(one.number, one.iteration) for one in planned] == [(3, 3), (4, 4)]


def test_an_attempt_of_a_test_is_made_once_whatever_comes_of_it() -> None:
    case = TaskCase(name="t", messages=({"role": "user", "content": "go"},), metrics=(), attempts=3)

    async def play() -> list[NextAttempt | None]:
        plan = TaskPlan(case, 2)
        first = await plan.next([])
        assert first is not None
        return [first, await plan.next([done_of(AttemptRecord("t", 2, **BROKEN), case)])]

    first, second = asyncio.run(play())
    assert first == NextAttempt(2, 0, case.messages, last=True)
    assert second is None


@pytest.mark.parametrize(
    ("decisions", "test", "entry"),
    [
        ([], None, None),
        ([HIT], True, True),
        ([HIT, PASS], False, True),
        ([HIT, None], None, True),
        ([PASS, None], False, None),
        ([PASS, PASS], False, False),
    ],
)
def test_a_test_passes_by_all_its_metrics_and_an_attack_succeeds_by_any_judge(
    decisions: list[Decision | None], test: bool | None, entry: bool | None
) -> None:
    assert TaskCase(name="t", messages=(), metrics=()).success(decisions) is test
    assert AttackCase(name="e", messages=(), metrics=()).success(decisions) is entry
