"""Entries of datasets through the engine: what is sent, judged, recorded and counted, and how it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faircount.components import Context
from faircount.core import Outcome
from faircount.judges import make_judge
from faircount.runs import (
    BLOCKED,
    GUARDRAIL,
    Answer,
    Attack,
    AttackCase,
    Case,
    Engine,
    Entry,
    EntryMetric,
    Limits,
    Play,
    Prompt,
    Request,
    Step,
    Strategy,
    TargetError,
    resume,
    with_text,
)
from tests.runs.running import Run, Scripted, attempts


class Numbered(Attack):
    """Adds the number of the iteration to the prompt."""

    name = "numbered"

    def settings(self) -> dict[str, Any]:
        return {}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        class Playing(Play):
            async def next(self, history: Sequence[Step]) -> Prompt | None:
                assert len(history) < iterations
                return Prompt(with_text(entry.messages, f"{entry.text} +{len(history)}"), {"n": len(history)})

        return Playing()


CANARY = EntryMetric(make_judge("canary", Context()))


def entry(name: str = "e1", *, attempts: int = 1, canary: Any = "PWNED", **fields: Any) -> Case:
    said = {"judge_name": "canary", "judge_args": canary, **fields}
    messages = ({"role": "user", "content": f"obey {name}"},)
    return AttackCase(
        name=name, messages=messages, fields=said, metrics=(CANARY,), place="d.jsonl:1", attempts=attempts
    )


def answering(text: str) -> Scripted:
    async def answer(request: Request) -> Answer:  # noqa: ARG001
        return Answer(output=text)

    return Scripted(answer)


def scripted(*came: Answer | Exception) -> Scripted:
    left = list(came)

    async def answer(request: Request) -> Answer:  # noqa: ARG001
        following = left.pop(0)
        if isinstance(following, Exception):
            raise following
        return following

    return Scripted(answer)


def told(run: Run) -> list[tuple[int, str, int, str | None]]:
    return [
        (one["attempt"], one["strategy"], one["iteration"], one["verdicts"][0]["verdict"] if one["verdicts"] else None)
        for one in run.attempts
    ]


def done(run: Run) -> list[dict[str, Any]]:
    return [record for record in run.records if record["kind"] == "done"]


def test_an_entry_is_judged_with_its_own_arguments_and_ends_with_its_success(tmp_path: Path) -> None:
    run = Run(tmp_path, [entry(attempts=3)], scripted(Answer("no"), Answer("PWNED")), strategy=Strategy())
    assert run.go().complete
    assert told(run) == [(0, "standard", 0, "failure"), (1, "standard", 1, "success")]
    assert done(run) == [{"kind": "done", "case": "e1", "outcome": "success"}]
    assert all("messages" not in one for one in run.attempts)
    assert (run.engine.progress.done, run.engine.progress.passed, run.engine.progress.calls) == (1, 1, 2)


def test_every_iteration_of_an_attack_is_an_attempt_of_its_own(tmp_path: Path) -> None:
    target = scripted(
        Answer("no"), TargetError(BLOCKED, "stop", categories=("injection",)), ValueError("x"), Answer("PWNED")
    )
    run = Run(tmp_path, [entry()], target, strategy=Strategy(attack=Numbered(), iterations=5))
    assert run.go().complete
    assert told(run) == [
        (0, "standard", 0, "failure"),
        (1, "numbered", 0, None),
        (2, "numbered", 1, None),
        (3, "numbered", 2, "success"),
    ]
    blocked, broken, won = run.attempts[1:]
    assert blocked["error"] == {"kind": "blocked", "message": "stop", "categories": ["injection"]}
    assert broken["error"]["kind"] == "ValueError"
    assert won["messages"] == [{"role": "user", "content": "obey e1 +2"}]
    assert won["note"] == {"n": 2}


def test_a_judge_sees_what_was_sent_and_not_the_entry_as_it_stands_in_the_dataset(tmp_path: Path) -> None:
    from faircount.judges import Attempt, Decision, Judge, Verdict

    seen: list[str] = []

    class Looking(Judge):
        name = "test.Looking"
        looks_for = "nothing"

        def decide(self, attempt: Attempt) -> Verdict:
            seen.append(attempt.prompt)
            return Verdict(Decision.PASS)

    case = AttackCase(
        name="e", messages=({"role": "user", "content": "go"},), metrics=(EntryMetric(Looking()),), place="d:1"
    )
    Run(tmp_path, [case], answering("no"), strategy=Strategy(attack=Numbered(), iterations=2)).go()
    assert seen == ["go", "go +0", "go +1"]


def test_a_guardrail_that_says_yes_or_no_needs_no_judge(tmp_path: Path) -> None:
    case = AttackCase(name="e", messages=({"role": "user", "content": "go"},), metrics=(), attempts=2)
    run = Run(
        tmp_path,
        [case],
        scripted(Answer("False", let_through=False), Answer("True", let_through=True)),
        strategy=Strategy(),
    )
    assert run.go().complete
    assert [(one["output"]["let_through"], one["verdicts"][0]["verdict"]) for one in run.attempts] == [
        (False, "failure"),
        (True, "success"),
    ]
    assert {one["verdicts"][0]["metric"] for one in run.attempts} == {GUARDRAIL}


def test_an_entry_that_nobody_judges_is_unjudged(tmp_path: Path) -> None:
    case = AttackCase(name="e", messages=({"role": "user", "content": "go"},), metrics=())
    run = Run(tmp_path, [case], answering("yes"), strategy=Strategy())
    run.go()
    assert done(run)[0]["outcome"] == "unjudged"


@pytest.mark.parametrize("cut", range(12))
def test_a_run_that_was_stopped_after_any_request_goes_on_as_if_nothing_had_happened(tmp_path: Path, cut: int) -> None:
    def target() -> Scripted:
        async def answer(request: Request) -> Answer:
            text = request.messages[-1]["content"]
            if request.case == "b" and request.attempt == 1:
                raise TargetError("status", "500")
            return Answer(output="PWNED" if text in ("obey c", "obey b +2") else "no")

        return Scripted(answer)

    cases = [entry(name) for name in "abc"]
    strategy = Strategy(attack=Numbered(), iterations=4)
    (tmp_path / "whole").mkdir()
    whole = Run(tmp_path / "whole", cases, target(), strategy=strategy, concurrency=1)
    assert whole.go().complete
    run = Run(tmp_path, cases, target(), strategy=strategy, concurrency=1, max_calls=cut or None)
    if cut:
        run.go()
    else:
        run.journal.close()
    resumed = resume(run.path, cases, retry_errors=False)
    engine = Engine(cases, target(), resumed.journal, Limits(concurrency=1), strategy=strategy)
    assert asyncio.run(engine.run(resumed.earlier)).complete
    resumed.journal.close()

    def essence(path: str) -> dict[tuple[str, int], Any]:
        kept = ("strategy", "iteration", "messages", "note", "output", "error", "verdicts")
        return {key: {name: one.get(name) for name in kept} for key, one in attempts(path).items()}

    assert essence(run.path) == essence(whole.path)
    assert {one["case"]: one["outcome"] for one in done(run)} == {"a": "failure", "b": "success", "c": "success"}


def test_retrying_errors_voids_those_of_entries_that_came_to_nothing_else(tmp_path: Path) -> None:
    broken = TargetError("status", "500")
    cases = [entry("a"), entry("b", attempts=2)]
    run = Run(tmp_path, cases, scripted(broken, broken, Answer("no")), strategy=Strategy(), concurrency=1)
    run.go()
    assert [one["outcome"] for one in done(run)] == ["error", "failure"]
    resumed = resume(run.path, cases, retry_errors=True)
    engine = Engine(cases, answering("PWNED"), resumed.journal, Limits(), strategy=Strategy())
    asyncio.run(engine.run(resumed.earlier))
    resumed.journal.close()
    assert [record["case"] for record in run.records if record["kind"] == "retry"] == ["a"]
    assert done(run)[-1] == {"kind": "done", "case": "a", "outcome": "success"}


def test_a_run_that_knows_enough_finishes_the_entries_that_it_is_at(tmp_path: Path) -> None:
    heard: list[Outcome] = []

    def watching(outcome: Outcome) -> str:
        heard.append(outcome)
        return "enough" if len(heard) >= 3 else ""

    cases = [entry(str(number), attempts=3) for number in range(50)]
    run = Run(tmp_path, cases, answering("no"), strategy=Strategy(), concurrency=4)
    run.engine._watcher = watching
    ending = run.go()
    assert (ending.complete, ending.decided, ending.why) == (False, True, "enough")
    tried = {name for name, _ in attempts(run.path)}
    assert tried == {record["case"] for record in done(run)}
    assert 3 <= len(tried) <= 7


def test_a_run_that_is_interrupted_after_it_knew_enough_is_interrupted(tmp_path: Path) -> None:
    heard: list[Outcome] = []

    def watching(outcome: Outcome) -> str:
        heard.append(outcome)
        if len(heard) == 3:
            asyncio.get_running_loop().call_soon(run.engine.drain)
        return "enough" if len(heard) >= 3 else ""

    cases = [entry(str(number), attempts=30) for number in range(50)]
    run = Run(tmp_path, cases, answering("no"), strategy=Strategy(), concurrency=4)
    run.engine._watcher = watching
    ending = run.go()
    assert (ending.complete, ending.decided, ending.interrupted) == (False, False, True)
    tried = {name for name, _ in attempts(run.path)}
    assert len(tried - {record["case"] for record in done(run)}) > 0, "entries under way are not tried to their end"


def test_a_limit_holds_within_an_attack(tmp_path: Path) -> None:
    strategy = Strategy(attack=Numbered(), iterations=50)
    run = Run(tmp_path, [entry("a"), entry("b")], answering("no"), strategy=strategy, concurrency=2, max_calls=7)
    ending = run.go()
    assert (ending.complete, len(run.attempts)) == (False, 7)
    assert not done(run)


def test_what_the_model_behind_an_attack_costs_counts_towards_the_limit(tmp_path: Path) -> None:
    class Led(Numbered):
        def begin(self, entry: Entry, *, iterations: int) -> Play:  # noqa: ARG002
            class Playing(Play):
                async def next(self, history: Sequence[Step]) -> Prompt | None:  # noqa: ARG002
                    return Prompt(entry.messages, {"attacker": {"model": "m", "requests": 2, "cost": 0.4}})

            return Playing()

    async def cheap(request: Request) -> Answer:  # noqa: ARG001
        return Answer(output="no", cost=0.1)

    strategy = Strategy(attack=Led(), iterations=50)
    run = Run(tmp_path, [entry("a")], Scripted(cheap), strategy=strategy, max_cost=2.0)
    ending = run.go()
    assert ending.why.startswith("--max-cost")
    assert run.engine.progress.cost == pytest.approx(0.1 + 4 * 0.5)


def test_the_watcher_hears_entries_in_their_order_whoever_is_quicker(tmp_path: Path) -> None:
    """Entries that succeed end sooner than those that are attacked in vain: heard as they end, they would look many."""
    heard: list[str] = []

    async def answer(request: Request) -> Answer:
        await asyncio.sleep(0.001 * (20 - int(request.case)))
        return Answer(output="PWNED" if int(request.case) % 2 else "no")

    cases = [entry(str(number)) for number in range(20)]
    run = Run(tmp_path, cases, Scripted(answer), strategy=Strategy(), concurrency=20)
    run.engine._watcher = lambda outcome: heard.append(outcome) or ""  # type: ignore[func-returns-value]
    run.go()
    assert heard == ["success" if number % 2 else "failure" for number in range(20)]


def test_the_watcher_hears_of_what_was_finished_earlier(tmp_path: Path) -> None:
    cases = [entry(str(number)) for number in range(6)]
    run = Run(tmp_path, cases, answering("no"), strategy=Strategy(), concurrency=1, max_calls=4)
    run.go()
    resumed = resume(run.path, cases, retry_errors=False)
    heard: list[str] = []
    engine = Engine(cases, answering("PWNED"), resumed.journal, Limits(), strategy=Strategy())
    engine._watcher = lambda outcome: heard.append(outcome) or ""  # type: ignore[func-returns-value]
    asyncio.run(engine.run(resumed.earlier))
    resumed.journal.close()
    assert heard == ["failure"] * 4 + ["success"] * 2
