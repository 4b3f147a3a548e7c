"""Many attempts before several judges: in order, whoever asks them, and nothing lost when a judge fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircount.core import FaircountError
from faircount.judges import Attempt, Decision, Judge, Verdict, batch, judged, verdict_of

TESTS = os.getpid()


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes be forked although whoever runs the tests has threads of its own."""
    monkeypatch.setattr(batch, "start_method", lambda: "fork")


class Long(Judge):
    """Hits on long responses, and says which process decided."""

    name = "test.Long"
    looks_for = "a long response"

    def decide(self, attempt: Attempt) -> Verdict:
        if attempt.response == "bad":
            raise RuntimeError("the judge broke, key sk-abcdefghijklmnopqrstuvwxyz0123456789")
        return Verdict(Decision.of(len(attempt.response or "") > 3), reason=str(os.getpid()))


class Slow(Long):
    """Waits a little, as a judge that asks a model does."""

    waits = True
    most_at_once = 0
    _now = 0
    _lock = threading.Lock()

    def decide(self, attempt: Attempt) -> Verdict:
        with Slow._lock:
            Slow._now += 1
            Slow.most_at_once = max(Slow.most_at_once, Slow._now)
        time.sleep(0.002)
        with Slow._lock:
            Slow._now -= 1
        return super().decide(attempt)


class Fatal(Long):
    """Takes its process with it, unless that is ours."""

    def decide(self, attempt: Attempt) -> Verdict:
        if os.getpid() != TESTS:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().decide(attempt)


def attempts(count: int) -> Iterator[Attempt]:
    return (Attempt("bad" if number % 7 == 0 else "x" * (number % 10)) for number in range(count))


def expected(count: int) -> list[Decision | None]:
    return [verdict_of(Long(), attempt).decision for attempt in attempts(count)]


@pytest.mark.parametrize("count", [0, 1, 499, 501, 6000])
def test_verdicts_come_in_the_order_of_the_attempts(count: int) -> None:
    assert [verdict.decision for (verdict,) in judged([Long()], attempts(count), workers=2)] == expected(count)


def test_much_work_is_done_by_several_processes_and_little_by_this_one() -> None:
    processes = {verdict.reason for (verdict,) in judged([Long()], attempts(8000), workers=2) if verdict.reason}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes
    assert {verdict.reason for (verdict,) in judged([Long()], attempts(100)) if verdict.reason} == {str(os.getpid())}


def test_where_forking_is_not_safe_this_process_judges_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "start_method", lambda: None)
    processes = {verdict.reason for (verdict,) in judged([Long()], attempts(6000)) if verdict.reason}
    assert processes == {str(os.getpid())}


def test_judges_that_wait_are_asked_at_once_and_stand_in_their_order() -> None:
    Slow.most_at_once = 0
    found = list(judged([Slow(), Long(), Slow()], attempts(300), concurrency=16))
    assert [[verdict.decision for verdict in verdicts] for verdicts in found] == [[one] * 3 for one in expected(300)]
    assert 4 <= Slow.most_at_once <= 16


def test_a_judge_that_fails_leaves_the_attempt_unjudged_and_its_message_holds_no_secret() -> None:
    (verdict,) = next(judged([Long()], [Attempt("bad")]))
    assert verdict.decision is None
    assert "the judge broke" in str(verdict.error)
    assert "sk-abcdefghijkl" not in str(verdict.error)


def test_an_attempt_without_a_response_is_unjudged_and_an_empty_one_is_judged() -> None:
    verdicts = [verdict for (verdict,) in judged([Long()], [Attempt(None), Attempt("")])]
    assert [verdict.decision for verdict in verdicts] == [None, Decision.PASS]
    assert verdicts[0].error == "no response to judge"


def test_what_is_no_verdict_is_an_error_of_the_judge() -> None:
    class Wrong(Long):
        def decide(self, attempt: Attempt) -> Any:
            return bool(attempt.response)

    assert verdict_of(Wrong(), Attempt("x")).error == "test.Long returned bool, not a Verdict"


def test_a_process_that_dies_is_said_and_not_waited_for() -> None:
    with pytest.raises(FaircountError, match="ended unexpectedly"):
        list(judged([Fatal()], attempts(6000), workers=2))


def test_attempts_are_taken_as_they_are_needed() -> None:
    taken = 0

    def counted() -> Iterator[Attempt]:
        nonlocal taken
        for attempt in attempts(100_000):
            taken += 1
            yield attempt

    verdicts = judged([Long()], counted(), workers=2)
    next(verdicts)
    assert taken < 10_000
    verdicts.close()  # type: ignore[attr-defined]


def test_an_interrupt_ends_the_waiting_at_once(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import time\n"
        "from faircount.core.attempt import Attempt\n"
        "from faircount.judges.judge import Judge\n"
        "from faircount.judges.batch import judged\n"
        "from faircount.core.verdict import Decision, Verdict\n"
        "class Local(Judge):\n"
        "    name = looks_for = 'x'\n"
        "    def decide(self, attempt):\n"
        "        time.sleep(0.01)\n"
        "        return Verdict(Decision.HIT)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    list(judged([Local()], (Attempt('x') for _ in range(100_000)), workers=2))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    assert time.monotonic() - started < 4
