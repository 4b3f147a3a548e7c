"""The engine: every attempt is sent within the limits, judged by every metric, and recorded whatever happens."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faircount.judges import Usage
from faircount.runs import Answer, Earlier, Engine, Journal, JournalError, Progress, Request, TargetError, read_journal
from faircount.testing import EvaluationResult
from tests.runs.running import Doing, Run, Says, Scripted, attempts, case, forever

KEY = "sk-sentinel-Zq81xW0v7Tn4Rr2LmKp9"


def passed(_: Any = None) -> EvaluationResult:
    return EvaluationResult(score=1.0, verdict="passed", reason="")


# -- what is sent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_no_more_than_so_many_requests_are_under_way_at_once(tmp_path: Path, concurrency: int) -> None:
    async def slowly(_: Request) -> Answer:
        await asyncio.sleep(0.002)
        return Answer(output="yes")

    target = Scripted(slowly)
    run = Run(tmp_path, [case(f"c{number}", attempts=4) for number in range(10)], target, concurrency=concurrency)
    assert run.go().complete
    assert target.most_at_once == concurrency


def test_every_attempt_is_sent_once_and_recorded_once(tmp_path: Path) -> None:
    cases = [case("a", attempts=3), case("b", attempts=1), case("c", attempts=5)]
    target = Scripted()
    run = Run(tmp_path, cases, target)
    assert run.go().complete
    expected = {("a", 0), ("a", 1), ("a", 2), ("b", 0), *(("c", number) for number in range(5))}
    assert Counter(target.asked) == Counter(expected)
    assert attempts(run.path).keys() == expected
    assert target.closed


def test_a_call_stands_in_the_journal_before_its_request_is_sent(tmp_path: Path) -> None:
    async def look(request: Request) -> Answer:
        lines = Path(run.path).read_text().splitlines()
        assert any('"kind":"call"' in line and f'"attempt":{request.attempt}}}' in line for line in lines)
        return Answer(output="yes")

    run = Run(tmp_path, [case(attempts=5)], Scripted(look), concurrency=1)
    assert run.go().complete
    assert all(attempt["error"] is None for attempt in run.attempts)


def test_what_a_case_asks_reaches_the_target(tmp_path: Path) -> None:
    seen: list[Request] = []

    async def see(request: Request) -> Answer:
        seen.append(request)
        return Answer()

    Run(tmp_path, [case("a", api_params={"temperature": 0.5})], Scripted(see)).go()
    assert seen == [Request(({"role": "user", "content": "say a"},), {"temperature": 0.5}, "a", 0)]


def test_requests_keep_to_the_rate(tmp_path: Path) -> None:
    times: list[float] = []

    async def note(_: Request) -> Answer:
        times.append(time.monotonic())
        return Answer(output="yes")

    run = Run(tmp_path, [case(attempts=30)], Scripted(note), requests_per_minute=1200, concurrency=30)
    assert run.go().complete
    # 20 a second; what may go in one second may go at once, so that the other ten take half a second.
    assert times[-1] - times[0] > 0.4
    assert times[20] - times[0] < 0.4


def _inner(folder: Path) -> Path:
    inner = folder / "inner"
    inner.mkdir()
    return inner


def test_a_run_that_is_stopped_does_not_wait_for_its_turn(tmp_path: Path) -> None:
    async def stop(_: Request) -> Answer:
        run.engine.drain()
        return Answer(output="yes")

    run = Run(tmp_path, [case(attempts=9)], Scripted(stop), requests_per_minute=1, concurrency=4)
    began = time.monotonic()
    ending = run.go()
    assert time.monotonic() - began < 5
    assert (ending.complete, ending.interrupted, len(run.attempts)) == (False, True, 1)


# -- limits -----------------------------------------------------------------------------------------------------


def test_max_calls_is_never_exceeded(tmp_path: Path) -> None:
    target = Scripted()
    run = Run(tmp_path, [case(attempts=20)], target, max_calls=7, concurrency=4)
    ending = run.go()
    assert (ending.complete, ending.interrupted) == (False, False)
    assert ending.why == "--max-calls: 7 requests were sent"
    assert len(target.asked) == len(run.attempts) == 7


def test_what_the_transport_sends_again_counts_as_calls(tmp_path: Path) -> None:
    async def twice(_: Request) -> Answer:
        return Answer(output="yes", tries=3)

    target = Scripted(twice)
    run = Run(tmp_path, [case(attempts=20)], target, max_calls=7, concurrency=1)
    run.go()
    assert len(target.asked) == 3
    assert (run.engine.progress.calls, run.engine.progress.retries) == (9, 6)


def test_max_calls_that_are_just_enough_leave_a_run_complete(tmp_path: Path) -> None:
    assert Run(tmp_path, [case(attempts=5)], Scripted(), max_calls=5).go().complete


def test_a_run_stops_when_its_cost_is_spent(tmp_path: Path) -> None:
    async def priced(_: Request) -> Answer:
        return Answer(output="yes", cost=0.3)

    run = Run(tmp_path, [case(attempts=20)], Scripted(priced), max_cost=1.0, concurrency=1)
    ending = run.go()
    assert not ending.complete
    assert "--max-cost: 1.2000 of 1 was spent" in ending.why
    assert run.engine.progress.cost == pytest.approx(1.2)


def test_a_limit_of_cost_without_a_price_stops_at_once_and_says_what_is_missing(tmp_path: Path) -> None:
    async def unpriced(_: Request) -> Answer:
        return Answer(output="yes", model="m-9")

    run = Run(tmp_path, [case(attempts=20)], Scripted(unpriced), max_cost=1.0, concurrency=1)
    ending = run.go()
    assert not ending.complete
    assert "the price of m-9 is not known" in ending.why
    assert len(run.attempts) == 1


def test_without_a_limit_an_unknown_price_is_no_trouble(tmp_path: Path) -> None:
    run = Run(tmp_path, [case(attempts=3)], Scripted())
    assert run.go().complete
    assert run.engine.progress.cost is None


def test_a_run_stops_after_so_many_errors_in_a_row(tmp_path: Path) -> None:
    async def fail(request: Request) -> Answer:
        if request.attempt in (0, 1, 3):
            raise TargetError("status", "the server answered with status 500")
        if request.attempt == 2:
            return Answer(output="yes")
        raise TargetError("connection", "nobody is there")

    run = Run(tmp_path, [case(attempts=20)], Scripted(fail), stop_after_errors=3, concurrency=1)
    ending = run.go()
    assert "3 requests in a row failed, the last one: nobody is there" in ending.why
    assert len(run.attempts) == 6, "the errors before the answer do not count"


# -- requests that fail -----------------------------------------------------------------------------------------


def test_a_request_that_fails_is_recorded_with_its_reason(tmp_path: Path) -> None:
    async def fail(_: Request) -> Answer:
        raise TargetError("status", "the server answered with status 503", tries=5, waited=1.5)

    run = Run(tmp_path, [case(attempts=2)], Scripted(fail))
    assert run.go().complete, "errors are results too"
    for attempt in run.attempts:
        assert attempt["error"] == {"kind": "status", "message": "the server answered with status 503"}
        assert (attempt["output"], attempt["verdicts"], attempt["tries"], attempt["waited"]) == (None, [], 5, 1.5)
    assert (run.engine.progress.errors, run.engine.progress.retries) == (2, 8)


@pytest.mark.parametrize(
    "raised", [RuntimeError("broken"), ValueError(), asyncio.CancelledError("mine"), ExceptionGroup("g", [OSError()])]
)
def test_whatever_a_target_raises_is_a_recorded_error(tmp_path: Path, raised: BaseException) -> None:
    async def fail(request: Request) -> Answer:
        if request.attempt == 1:
            raise raised
        return Answer(output="yes")

    run = Run(tmp_path, [case(attempts=3)], Scripted(fail), concurrency=1)
    assert run.go().complete
    assert [None if attempt["error"] is None else attempt["error"]["kind"] for attempt in run.attempts] == [
        None,
        type(raised).__name__,
        None,
    ]


def test_an_answer_that_a_filter_stopped_is_kept_beside_its_error(tmp_path: Path) -> None:
    async def blocked(_: Request) -> Answer:
        raise TargetError("blocked", "the filter", answer=Answer(output="half an", cost=0.5, model="m"))

    run = Run(tmp_path, [case()], Scripted(blocked))
    run.go()
    (attempt,) = run.attempts
    assert (attempt["output"]["output"], attempt["error"]["kind"], attempt["verdicts"]) == ("half an", "blocked", [])
    assert (attempt["model"], run.engine.progress.cost) == ("m", 0.5)


def test_a_target_that_hangs_is_given_up_when_its_time_is_over(tmp_path: Path) -> None:
    async def hang(request: Request) -> Answer:
        if request.attempt == 0:
            await asyncio.sleep(3600)
        return Answer(output="yes")

    run = Run(tmp_path, [case(attempts=3)], Scripted(hang), timeout=0.05, concurrency=1)
    assert run.go().complete
    assert [(one["error"] or {}).get("kind") for one in run.attempts] == ["timeout", None, None]


@pytest.mark.parametrize("answer", [Answer(output="yes", latency=math.nan), Answer(output="yes", cost=math.inf)])
def test_an_answer_that_cannot_be_written_down_is_an_error_and_not_the_end(tmp_path: Path, answer: Answer) -> None:
    async def strange(request: Request) -> Answer:
        return answer if request.attempt == 0 else Answer(output="yes")

    run = Run(tmp_path, [case(attempts=2)], Scripted(strange), concurrency=1)
    assert run.go().complete
    first, second = run.attempts
    assert first["error"]["kind"] == "wrong answer"
    assert "cannot be recorded" in first["error"]["message"]
    assert second["error"] is None
    assert (run.engine.progress.errors, run.engine.progress.passed) == (1, 1)


def test_text_of_any_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    texts = ["\ud83d", "\x00\x1b[31m", "é漢🙂", "a\u2028b\r\nc", ""]

    async def say(request: Request) -> Answer:
        return Answer(output=texts[request.attempt])

    run = Run(tmp_path, [case(attempts=len(texts))], Scripted(say), concurrency=1)
    assert run.go().complete
    assert [attempt["output"]["output"] for attempt in run.attempts] == texts


def test_what_is_known_of_an_answer_is_recorded(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = Answer("yes", (call,), ("page",), 0.25, "m-2", "stop", 7, 3, 0.01, tries=2, waited=0.5, request_id="req-1")

    async def say(_: Request) -> Answer:
        return answer

    run = Run(tmp_path, [case()], Scripted(say))
    run.go()
    (attempt,) = run.attempts
    assert attempt["output"] == {"output": "yes", "tools_called": [call], "context": ["page"], "execution_time": 0.25}
    assert attempt["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.01}
    named = ("model", "finish_reason", "request_id", "tries", "waited", "calls", "error")
    assert [attempt[name] for name in named] == ["m-2", "stop", "req-1", 2, 0.5, 1, None]
    assert attempt["started"].endswith("+00:00")


# -- metrics ----------------------------------------------------------------------------------------------------


def test_every_attempt_is_judged_by_every_metric_in_their_order(tmp_path: Path) -> None:
    async def say(request: Request) -> Answer:
        return Answer(output="yes and no" if request.attempt else "yes")

    run = Run(
        tmp_path, [case(metrics=[Says(word="no"), Says(word="yes"), Says(word="and")], attempts=2)], Scripted(say)
    )
    run.go()
    verdicts = {key: [(one["metric"], one["verdict"]) for one in record["verdicts"]] for key, record in _by(run)}
    assert verdicts == {
        ("a", 0): [("says no", "failure"), ("says yes", "success"), ("says and", "failure")],
        ("a", 1): [("says no", "success"), ("says yes", "success"), ("says and", "success")],
    }
    assert (run.engine.progress.passed, run.engine.progress.failed) == (1, 1)


def _by(run: Run) -> Any:
    return attempts(run.path).items()


def _raise(error: BaseException) -> Any:
    def do(_: Any) -> Any:
        raise error

    return do


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize(
    ("do", "words"),
    [
        (_raise(RuntimeError("boom")), "RuntimeError: boom"),
        (_raise(SystemExit(3)), "SystemExit"),
        (lambda _: None, "returned None"),
        (lambda _: 0.7, "returned a float"),
        (lambda _: EvaluationResult(score="high", verdict="passed", reason=""), ""),  # type: ignore[arg-type]
    ],
)
def test_a_metric_that_fails_is_an_error_of_its_own_and_loses_nothing(
    tmp_path: Path, do: Any, words: str, blocking: bool
) -> None:
    metrics = [Says(), Doing(name="bad", do=do, blocking=blocking), Says(word="no")]
    run = Run(tmp_path, [case(metrics=metrics)], Scripted())
    assert run.go().complete
    (attempt,) = run.attempts
    assert (attempt["error"], attempt["output"]["output"]) == (None, "yes")
    before, bad, behind = attempt["verdicts"]
    assert (before["verdict"], bad["verdict"], behind["verdict"]) == ("success", "error", "failure")
    assert words in bad["error"]
    assert bad["score"] is None


def test_a_score_that_is_not_a_number_is_kept_in_words(tmp_path: Path) -> None:
    def nan(_: Any) -> EvaluationResult:
        return EvaluationResult(score=math.nan, verdict="passed", reason="odd")

    run = Run(tmp_path, [case(metrics=[Doing(do=nan)])], Scripted())
    assert run.go().complete
    (verdict,) = run.attempts[0]["verdicts"]
    assert (verdict["score"], verdict["score_as_told"], verdict["verdict"]) == (None, "nan", "success")


def test_metrics_that_wait_run_in_threads_beside_each_other_and_beside_requests(tmp_path: Path) -> None:
    met = threading.Barrier(4, timeout=10)
    threads: set[int] = set()

    def together(_: Any) -> EvaluationResult:
        threads.add(threading.get_ident())
        met.wait()  # passes only when four attempts are being measured at the same time
        return passed()

    run = Run(tmp_path, [case(metrics=[Doing(do=together, blocking=True)], attempts=8)], Scripted(), concurrency=4)
    assert run.go().complete
    assert all(attempt["verdicts"][0]["verdict"] == "success" for attempt in run.attempts)
    assert threading.get_ident() not in threads


def test_metrics_that_do_not_wait_need_no_thread(tmp_path: Path) -> None:
    threads: set[int] = set()

    def where(_: Any) -> EvaluationResult:
        threads.add(threading.get_ident())
        return passed()

    Run(tmp_path, [case(metrics=[Doing(do=where)], attempts=4)], Scripted()).go()
    assert threads == {threading.get_ident()}


def test_a_metric_that_hangs_is_an_error_and_the_others_are_asked(tmp_path: Path) -> None:
    metrics = [
        Says(),
        Doing(name="hangs", do=lambda _: forever(), blocking=True),
        Says(word="no"),
        Doing(name="hangs too", do=lambda _: forever(), blocking=True),
    ]
    run = Run(tmp_path, [case(metrics=metrics)], Scripted(), timeout=0.1)
    assert run.go().complete
    verdicts = run.attempts[0]["verdicts"]
    assert [one["verdict"] for one in verdicts] == ["success", "error", "failure", "error"]
    assert verdicts[1]["error"] == "no verdict within 0.1 s"
    assert run.attempts[0]["output"]["output"] == "yes"


def test_what_judging_models_took_is_recorded_beside_the_verdict(tmp_path: Path) -> None:
    class Told:
        score, verdict, reason, usage = 1.0, "passed", "", Usage(2, 30, 4, 0.02)

    run = Run(tmp_path, [case(metrics=[Doing(do=lambda _: Told())])], Scripted())
    run.go()
    (verdict,) = run.attempts[0]["verdicts"]
    assert verdict["usage"] == {"requests": 2, "prompt_tokens": 30, "completion_tokens": 4, "cost": 0.02}


# -- the tally --------------------------------------------------------------------------------------------------


def test_the_tally_follows_every_attempt(tmp_path: Path) -> None:
    async def mixed(request: Request) -> Answer:
        if request.attempt == 3:
            raise TargetError("status", "no", tries=2)
        return Answer(output=["yes", "no", "yes"][request.attempt % 3], cost=0.5)

    heard: list[tuple[int, int]] = []

    def unsure(actual: Any) -> EvaluationResult:
        return EvaluationResult(score=0.0, verdict="error", reason="who knows") if actual.output == "yes" else passed()

    run = Run(tmp_path, [case("a", attempts=4), case("b", [Doing(do=unsure)], 1)], Scripted(mixed), concurrency=1)
    run.engine._on_progress = lambda tally: heard.append((tally.done, tally.total))
    run.go()
    assert heard == [(number, 5) for number in range(1, 6)]
    assert run.engine.progress == Progress(
        total=5, done=5, passed=2, failed=1, undecided=1, errors=1, calls=6, retries=1, cost=2.0, errors_in_a_row=0
    )


def test_an_attempt_counts_only_when_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced = threading.Event()
    done_before: list[int] = []

    def slow_sync(descriptor: int) -> None:
        synced.wait(10)
        os.fdatasync(descriptor)

    def release() -> None:
        done_before.append(run.engine.progress.done)
        synced.set()

    async def say(_: Request) -> Answer:
        asyncio.get_running_loop().call_later(0.1, release)
        return Answer(output="yes")

    run = Run(tmp_path, [case()], Scripted(say))
    monkeypatch.setattr("faircount.runs.journal._sync", slow_sync)
    assert run.go().complete
    assert (done_before, run.engine.progress.done) == ([0], 1)


def test_the_next_request_is_sent_while_an_answer_is_measured(tmp_path: Path) -> None:
    second = threading.Event()

    async def say(request: Request) -> Answer:
        if request.attempt == 1:
            second.set()
        return Answer(output="yes")

    def wait(_: Any) -> EvaluationResult:
        assert second.wait(10)
        return passed()

    target = Scripted(say)
    run = Run(tmp_path, [case(metrics=[Doing(do=wait, blocking=True)], attempts=2)], target, concurrency=1)
    assert run.go().complete
    assert (run.engine.progress.passed, target.most_at_once) == (2, 1)


# -- going on ---------------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_sent_when_a_run_goes_on(tmp_path: Path) -> None:
    cases = [case("a", attempts=4), case("b", attempts=2)]
    first = Run(tmp_path, cases, Scripted(), max_calls=3, concurrency=1)
    first.go()
    journal, state = Journal.reopen(first.path)
    target = Scripted()
    engine = Engine(cases, target, journal, first.engine._limits.__class__(concurrency=2))
    ending = asyncio.run(engine.run(Earlier(state)))
    journal.close()
    assert ending.complete
    assert target.asked == [("a", 3), ("b", 0), ("b", 1)]
    assert len(attempts(first.path)) == engine.progress.done == 6
    assert engine.progress.calls == 3


def test_an_abort_gives_up_what_hangs_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    async def hang(request: Request) -> Answer:
        if request.attempt < 2:
            return Answer(output="yes")
        asyncio.get_running_loop().call_soon(run.engine.abort)
        await asyncio.sleep(3600)
        raise AssertionError

    run = Run(tmp_path, [case(attempts=5)], Scripted(hang), concurrency=1)
    ending = run.go()
    assert (ending.complete, ending.interrupted, ending.aborted) == (False, True, True)
    state = read_journal(run.path).state()
    assert (state.done, list(state.calls_under_way())) == (2, [("a", 2)])


def test_a_target_that_cannot_be_closed_does_not_keep_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.runs.engine._LONGEST_CLOSING", 0.05)

    class Clinging(Scripted):
        async def close(self) -> None:
            await asyncio.sleep(3600)

    class Broken(Scripted):
        async def close(self) -> None:
            raise RuntimeError("broken")

    assert Run(tmp_path, [case()], Clinging()).go().complete
    assert Run(_inner(tmp_path), [case()], Broken()).go().complete


def test_a_journal_that_fails_ends_the_run_although_requests_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(request: Request) -> Answer:
        if request.attempt == 0:
            monkeypatch.setattr("faircount.runs.journal._sync", _no_space)
            return Answer(output="yes")
        await asyncio.sleep(3600)
        raise AssertionError

    run = Run(tmp_path, [case(attempts=8)], Scripted(hang), concurrency=4)
    began = time.monotonic()
    with pytest.raises(JournalError, match="No space left"):
        run.go()
    assert time.monotonic() - began < 60  # the requests themselves are given up after five minutes


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


# -- secrets ----------------------------------------------------------------------------------------------------


def test_no_record_holds_a_secret_that_a_target_or_a_metric_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def leak(request: Request) -> Answer:
        if request.attempt == 0:
            raise TargetError("status", f"status 401: Incorrect API key provided: {KEY}")
        if request.attempt == 1:
            raise RuntimeError(f"Authorization: Bearer {KEY}")
        return Answer(output="yes")

    class Keyed(Doing):
        api_key: str = KEY

    def tell(_: Any) -> EvaluationResult:
        return EvaluationResult(score=1.0, verdict="passed", reason=f"asked with {KEY}")

    metrics = [Keyed(name="tells", do=tell), Keyed(name="raises", do=_raise(RuntimeError(f"key {KEY} is wrong")))]
    run = Run(tmp_path, [case(metrics=metrics, attempts=3)], Scripted(leak))
    assert run.go().complete
    assert KEY not in Path(run.path).read_text()
    assert len(run.attempts) == 3
