"""Runs that are killed, interrupted, cut off or out of disk: no attempt is lost, none counts twice, all can be resumed.

The program runs in processes of its own. What the target was really asked stands in a log that the target writes.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faircount.runs import read_journal
from tests.conftest import Cli, interruptible
from tests.runs.running import METRICS, attempts, records, report_of, without_times, write_tests

LOGGING = """\
import asyncio, os, pathlib

HERE = pathlib.Path(__file__).parent


def log(request):
    with open(HERE / "asked.log", "a") as file:
        file.write(f"{request.case} {request.attempt}\\n")


async def answer(request: "Request"):
    log(request)
    await asyncio.sleep(float(os.environ.get("PAUSE", "0.02")))
    return f"4 {request.case} {request.attempt}"


def hangs_in_a_thread(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt > 0:
        import threading
        threading.Event().wait()
    return "4"


async def hangs(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt > 0:
        await asyncio.Event().wait()
    return "4"


async def clings(request: "Request"):
    log(request)
    while (HERE / "hang").exists() and request.attempt > 0:
        try:
            await asyncio.Event().wait()
        except BaseException:
            pass
    return "4"


async def hangs_in_the_pool(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt > 0:
        import threading
        await asyncio.to_thread(threading.Event().wait)
    return "4"


async def blocks(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt > 0:
        import time
        while True:
            time.sleep(1)
    return "4"


async def fails_at_first(request: "Request"):
    log(request)
    if not (HERE / "healed").exists() and request.attempt == 1:
        raise RuntimeError("down")
    return "4"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a test file of three cases, four attempts each, and targets that log what they are asked."""
    write_tests(tmp_path)
    (tmp_path / "bot.py").write_text(LOGGING)
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "faircount", *words]


def run_words(target: str = "./bot.py:answer", journal: str = "j.jsonl", *more: str) -> list[str]:
    return ["run", "tests", "--target", target, "--journal", journal, "--output-folder", "out", *more]


class Program:
    """The program in a process of its own; what it says on standard error can be read while it runs."""

    def __init__(self, place: Path, words: list[str], prepare: Callable[[], None] = interruptible, **env: str) -> None:
        self._errors = place / f"stderr-{time.monotonic_ns()}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command(*words),
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                preexec_fn=prepare,
                env={**os.environ, **env},
            )

    @property
    def err(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def until(self, wanted: Callable[[], bool], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not wanted():
            assert time.monotonic() < end, f"it did not happen; the program said: {self.err}"
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.err}"
            time.sleep(0.005)

    def ends(self, seconds: float = 30.0) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()
            self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


def completed(place: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=place, capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def asked(place: Path) -> Counter[tuple[str, int]]:
    lines = (place / "asked.log").read_text().splitlines() if (place / "asked.log").exists() else []
    return Counter((line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in lines)


def kinds(path: Path) -> Counter[str]:
    return Counter(record["kind"] for record in records(path))


# -- killed -----------------------------------------------------------------------------------------------------

_MOST_STARTS = 60


def _killed_until_complete(place: Path, words: list[str], seed: int, kills: int) -> tuple[int, int]:
    """Kill the program again and again; return how often, and how many requests resuming said it would repeat."""
    lots, told = random.Random(seed), 0
    journal = place / "j.jsonl"
    for killed in range(_MOST_STARTS):
        there = journal.exists() and b"\n" in journal.read_bytes()  # otherwise it was killed before it had a header
        program = Program(place, ["resume", "j.jsonl"] if there else words)
        if killed < kills:
            size = journal.stat().st_size if there else 0
            # Some die while they start, most of them soon after they have begun to write.
            if lots.random() < 0.8:
                while program.process.poll() is None and (not journal.exists() or journal.stat().st_size <= size + 200):
                    time.sleep(0.001)
            time.sleep(lots.uniform(0, 0.08))
            program.process.send_signal(signal.SIGKILL)
        code = program.ends()
        said = re.search(r"resending ([\d,]+) request", program.err)
        told += int(said[1]) if said else 0
        if code == 0:
            return killed, told
        assert code == -signal.SIGKILL, program.err
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("target", ["./bot.py:answer", "simulated(latency=0.02, error_rate=0.1)"])
def test_a_run_that_is_killed_again_and_again_comes_to_what_it_would_have_come_to(tmp_path: Path, target: str) -> None:
    def one(seed: int) -> tuple[Path, int, int]:
        place = tmp_path / f"killed-{seed}"
        write_tests(place, cases=6, attempts=8)
        (place / "bot.py").write_text(LOGGING)
        words = run_words(target, "j.jsonl", "--concurrency", "3")
        return place, *_killed_until_complete(place, words, seed, kills=6)

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(one, range(2)))
    assert sum(count for _, count, _ in killed) >= 10

    whole = tmp_path / "whole"
    write_tests(whole, cases=6, attempts=8)
    (whole / "bot.py").write_text(LOGGING)
    assert completed(whole, *run_words(target, "j.jsonl", "--concurrency", "8"), PAUSE="0").returncode == 0
    expected = without_times(report_of(whole / "out"))
    keys = {(f"test_sum_[seed={seed}]", attempt) for seed in range(6) for attempt in range(8)}
    for place, _, told in killed:
        found = attempts(place / "j.jsonl")
        assert found.keys() == keys
        report = report_of(place / "out")
        assert without_times(report) == expected
        calls = kinds(place / "j.jsonl")["call"]
        repeated = report["metadata"]["repeated_calls"]
        assert repeated == calls - len(keys), "every call that has no record is told"
        assert repeated <= told, "resuming said so before"
        assert sum(record["calls"] for record in found.values()) == calls
        if target.startswith("./"):
            really = asked(place)
            assert really.keys() == keys
            assert all(count <= found[key]["calls"] for key, count in really.items())


# -- interrupted ------------------------------------------------------------------------------------------------


def test_the_first_interrupt_lets_what_is_under_way_finish_and_says_how_to_go_on(place: Path) -> None:
    program = Program(place, run_words("./bot.py:answer", "j.jsonl", "--concurrency", "2"), PAUSE="0.5")
    program.until(lambda: sum(asked(place).values()) >= 2)
    program.interrupt()
    assert program.ends() == 130
    assert "finishing requests in flight; interrupt again to stop immediately" in program.err
    assert "the run is incomplete: interrupted; resume with: faircount resume j.jsonl" in program.err
    state = read_journal(str(place / "j.jsonl")).state()
    assert (state.done, list(state.calls_under_way()), state.complete) == (2, [], False)
    assert asked(place).total() == 2, "nothing else was begun"
    assert report_of(place / "out")["metadata"]["complete"] is False
    done = completed(place, "resume", "j.jsonl", PAUSE="0")
    assert done.returncode == 0
    assert "resending" not in done.stderr
    assert set(asked(place).values()) == {1}
    assert report_of(place / "out")["metadata"]["complete"] is True


@pytest.mark.parametrize("hanging", ["hangs_in_a_thread", "hangs", "hangs_in_the_pool", "clings", "blocks"])
def test_the_second_interrupt_stops_at_once_whatever_the_target_does(place: Path, hanging: str) -> None:
    (place / "hang").touch()
    program = Program(place, run_words(f"./bot.py:{hanging}", "j.jsonl", "--concurrency", "2"))
    program.until(lambda: any(attempt > 0 for _, attempt in asked(place)))
    time.sleep(0.1)
    program.interrupt()
    program.until(lambda: "interrupt again" in program.err)
    began = time.monotonic()
    program.interrupt()
    assert program.ends() == 130
    assert time.monotonic() - began < 5
    assert program.err.count("resume with: faircount resume j.jsonl") == 1
    state = read_journal(str(place / "j.jsonl")).state()
    assert state.torn == 0
    under_way = len(list(state.calls_under_way()))
    assert under_way
    (place / "hang").unlink()
    done = completed(place, "resume", "j.jsonl")
    assert done.returncode == 0, done.stderr
    assert f"{under_way} request" in done.stderr
    assert len(attempts(place / "j.jsonl")) == 12
    assert report_of(place / "out")["metadata"]["repeated_calls"] == under_way


def test_an_interrupt_wakes_the_event_loop_even_while_every_request_hangs(tmp_path: Path) -> None:
    write_tests(tmp_path, cases=1, attempts=1)
    asking = "def answer(request):\n    import signal\n    return f'4 {signal.set_wakeup_fd(-1)}'\n"
    (tmp_path / "bot.py").write_text(f"async {asking}")
    done = completed(tmp_path, *run_words())
    assert done.returncode == 0, done.stderr
    (record,) = attempts(tmp_path / "j.jsonl").values()
    assert int(record["output"]["output"].split()[1]) >= 0, "else a signal just before the loop waits is not seen"


# -- a full disk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2_200, 3_000, 5_000, 6_001])
def test_a_full_disk_ends_the_run_with_a_journal_that_can_be_resumed(place: Path, most: int) -> None:
    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    words = run_words("./bot.py:answer", "j.jsonl", "--concurrency", "4")
    program = Program(place, words, small_disk, PAUSE="0.001", PYTHONDONTWRITEBYTECODE="1")
    assert program.ends() == 4, program.err
    assert "cannot write the journal: j.jsonl: File too large" in program.err
    assert "faircount resume j.jsonl" in program.err
    assert "Traceback" not in program.err
    before = attempts(place / "j.jsonl")
    done = completed(place, "resume", "j.jsonl", PAUSE="0")
    assert done.returncode == 0, done.stderr
    after = attempts(place / "j.jsonl")
    assert len(after) == 12
    assert before.items() <= after.items(), "what was durable is as it was"


# -- cut --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    write_tests(place, cases=2, attempts=3)
    (place / "bot.py").write_text(LOGGING)
    assert completed(place, *run_words("./bot.py:answer"), PAUSE="0").returncode == 0
    return place


def test_a_journal_that_is_cut_anywhere_can_be_resumed(
    whole_run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSE", "0")
    monkeypatch.chdir(whole_run)
    content = (whole_run / "j.jsonl").read_bytes()
    expected = without_times(report_of(whole_run / "out"))
    header = content.index(b"\n") + 1
    cut = whole_run / "cut.jsonl"
    for end in random.Random(7).sample(range(header, len(content)), 25):
        cut.write_bytes(content[:end])
        before = dict(_whole_attempts(content[:end]))
        ran = cli("resume", str(cut))
        assert ran.code == 0, ran.err
        after = attempts(cut)
        assert len(after) == 6
        assert before.items() <= after.items()
        assert without_times(report_of(whole_run / "out")) == expected


def _whole_attempts(content: bytes) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    for line in content.splitlines(keepends=True):
        if line.endswith(b"\n") and b'"kind":"attempt"' in line:
            record = json.loads(line)
            yield (record["case"], record["attempt"]), record


def test_a_journal_without_its_header_is_refused(whole_run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(whole_run)
    cut = whole_run / "cut-header.jsonl"
    for end in (0, 1, 100):
        cut.write_bytes((whole_run / "j.jsonl").read_bytes()[:end])
        ran = cli("resume", str(cut))
        assert ran.code == 3
        assert "start the run again" in ran.err
    assert cli(*run_words("simulated", "cut-header.jsonl")).code == 0


# -- two at once ------------------------------------------------------------------------------------------------


def test_two_runs_never_share_a_journal(place: Path) -> None:
    (place / "hang").touch()
    program = Program(place, run_words("./bot.py:hangs", "j.jsonl", "--concurrency", "2"))
    try:
        program.until(lambda: sum(attempt > 0 for _, attempt in asked(place)) == 2)
        before = b""
        # What was answered before may still be on its way into the journal.
        while (now := (place / "j.jsonl").read_bytes()) != before:
            before = now
            time.sleep(0.5)
        second = completed(place, "resume", "j.jsonl")
        third = completed(place, *run_words("./bot.py:hangs"))
        assert (place / "j.jsonl").read_bytes() == before
    finally:
        program.process.kill()
        program.ends()
    assert (second.returncode, third.returncode) == (2, 2)
    assert f"(pid {program.process.pid}) is writing this journal" in second.stderr
    assert "already exists" in third.stderr


def test_runs_that_begin_in_the_same_second_keep_out_of_each_others_way(place: Path) -> None:
    words = ["run", "tests", "--target", "simulated", "--output-folder", "out"]
    programs = [Program(place, words) for _ in range(4)]
    assert [program.ends() for program in programs] == [0, 0, 0, 0]
    journals = sorted((place / "out").glob("run_*.jsonl"))
    reports = sorted((place / "out").glob("test_results_*.json"))
    assert (len(journals), len(reports)) == (4, 4)
    runs = {json.loads(report.read_bytes())["metadata"]["run"] for report in reports}
    assert runs == {records(journal)[0]["run"] for journal in journals}


# -- resuming ---------------------------------------------------------------------------------------------------


def _stop_early(cli: Cli) -> None:
    words = run_words("./bot.py:answer", "j.jsonl", "--max-calls", "5", "--concurrency", "1")
    assert cli(*words).code == 4


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    monkeypatch.setenv("PAUSE", "0")
    return place


def test_a_run_is_resumed_from_any_folder_into_its_own_places(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _stop_early(cli)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    ran = cli("resume", str(here / "j.jsonl"), "--max-calls", "100")
    assert ran.code == 0, ran.err
    assert str(here / "out") in ran.err, "a path that can be used from elsewhere"
    assert report_of(here / "out")["metadata"]["complete"] is True
    assert not any(elsewhere.iterdir())


def test_limits_hold_for_each_go(here: Path, cli: Cli) -> None:
    _stop_early(cli)
    assert cli("resume", "j.jsonl").code == 4
    assert cli("resume", "j.jsonl").code == 0
    assert asked(here).total() == 12


def test_to_resume_a_complete_run_does_nothing(here: Path, cli: Cli) -> None:
    assert cli(*run_words()).code == 0
    before = (here / "j.jsonl").read_bytes()
    for words in ([], ["--retry-errors"]):
        ran = cli("resume", "j.jsonl", *words)
        assert ran.code == 0
        assert "the run is complete" in ran.err
        assert "General" in ran.out, "its analysis is printed as ever"
    assert (here / "j.jsonl").read_bytes() == before
    assert asked(here).total() == 12


def test_a_report_that_was_lost_is_written_again(here: Path, cli: Cli) -> None:
    assert cli(*run_words()).code == 0
    (path,) = (here / "out").glob("*.json")
    before = path.read_bytes()
    path.unlink()
    assert cli("resume", "j.jsonl").code == 0
    assert path.read_bytes() == before


def test_errors_are_tried_again_only_when_asked(here: Path, cli: Cli) -> None:
    assert cli(*run_words("./bot.py:fails_at_first")).code == 0
    assert report_of(here / "out")["metadata"]["errors"] == 3
    (here / "healed").touch()
    assert cli("resume", "j.jsonl").code == 0
    assert report_of(here / "out")["metadata"]["errors"] == 3
    ran = cli("resume", "j.jsonl", "--retry-errors")
    assert ran.code == 0, ran.err
    found = attempts(here / "j.jsonl")
    assert len(found) == 12
    assert all(record["error"] is None for record in found.values())
    report = report_of(here / "out")["metadata"]
    assert (report["errors"], report["repeated_calls"]) == (0, 0)
    assert kinds(here / "j.jsonl")["retry"] == 3


@pytest.mark.parametrize("how", ["changed", "removed", "added"])
def test_other_tests_than_before_are_refused(here: Path, cli: Cli, how: str) -> None:
    _stop_early(cli)
    before = (here / "j.jsonl").read_bytes()
    file = here / "tests" / "test_sums.py"
    if how == "changed":
        file.write_text(file.read_text() + "\n# another line\n")
    elif how == "removed":
        file.rename(here / "tests" / "test_other.py")
    else:
        write_tests(here, name="test_more.py")
    ran = cli("resume", "j.jsonl")
    assert ran.code == 3, ran.err
    assert "test_" in ran.err
    assert (here / "j.jsonl").read_bytes() == before


READING_DATA = """
import json, pathlib
from near import Has

rows = json.loads((pathlib.Path(__file__).parent / "rows.json").read_text())
for number, row in enumerate(rows):
    @test_case(messages=[Message(role=RoleEnum.user, content=row)])
    def test_row():
        yield TestGroup(metrics=[Has()], retry_params=RetryParams(count=4), postfix=str(number))
"""


def _with_data(here: Path) -> None:
    (here / "tests" / "test_sums.py").write_text(METRICS.partition("class")[0] + READING_DATA)
    (here / "tests" / "near.py").write_text(METRICS)
    (here / "tests" / "rows.json").write_text(json.dumps(["one", "two", "three"]))


SAID = {
    "PROMPT": '"What is 6 times 7?"',
    "EXPECTED": '"42"',
    "TAGS": '["a"]',
    "COUNT": "8",
    "RULE": "RetryAggregationStrategy.MEAN",
    "SEED": "1",
    "WORD": '"4"',
}
CHANGED = {
    "PROMPT": '"What is 6 times 8?"',
    "EXPECTED": '"48"',
    "TAGS": '["b"]',
    "COUNT": "9",
    "RULE": "RetryAggregationStrategy.MAX",
    "SEED": "2",
    "WORD": '"5"',
}
OF_WHAT_IS_SAID = """\
from said import *

@test_case(
    messages=[Message(role=RoleEnum.user, content=PROMPT)], tags=TAGS, api_params={"seed": SEED},
    expected_output=AssistantOutput(output=EXPECTED),
)
def test_product():
    yield TestGroup(metrics=[Has(word=WORD)], retry_params=RetryParams(count=COUNT, aggregation_strategy=RULE))
"""


@pytest.mark.parametrize("what", SAID)
def test_a_case_of_which_anything_changed_is_not_resumed(here: Path, cli: Cli, what: str) -> None:
    # What is said stands beside the test file, whose own content stays the same.
    (here / "tests" / "test_sums.py").write_text(OF_WHAT_IS_SAID)

    def say(said: dict[str, str]) -> None:
        (here / "tests" / "said.py").write_text(METRICS + "".join(f"{name} = {said[name]}\n" for name in said))

    say(SAID)
    _stop_early(cli)
    again = cli("resume", "j.jsonl", "--max-calls", "1")
    assert again.code == 4, again.err
    say(SAID | {what: CHANGED[what]})
    ran = cli("resume", "j.jsonl")
    assert ran.code == 3, ran.err
    assert "the case test_product_[] has changed since the run" in ran.err


def test_a_resumed_run_may_spend_as_much_as_it_is_told(here: Path, cli: Cli) -> None:
    (here / "bot.py").write_text(
        'async def priced(request: "Request"):\n    return {"output": "4", "cost": 0.25, "model": "m"}\n'
    )
    words = run_words("./bot.py:priced", "j.jsonl", "--max-cost", "0.5", "--concurrency", "1")
    ran = cli(*words)
    assert ran.code == 4
    assert "--max-cost: 0.5000 of 0.5 was spent" in ran.err
    assert len(attempts(here / "j.jsonl")) == 2
    # As before: so much more. Then as the user says, and then to the end.
    for more, done in (((), 4), (("--max-cost", "1"), 8), (("--max-cost", "9"), 12)):
        ran = cli("resume", "j.jsonl", "--concurrency", "1", *more)
        assert ran.code == (0 if done == 12 else 4), ran.err
        assert len(attempts(here / "j.jsonl")) == done


@pytest.mark.parametrize("rows", [["one", "other", "three"], ["one", "two"], ["one", "two", "three", "four"]])
def test_cases_that_changed_although_their_file_did_not_are_refused(here: Path, cli: Cli, rows: list[str]) -> None:
    _with_data(here)
    _stop_early(cli)
    (here / "tests" / "rows.json").write_text(json.dumps(rows))
    ran = cli("resume", "j.jsonl")
    assert ran.code == 3
    assert "has changed since the run" in ran.err


def _edited(path: Path, kind: str, *keys: Any, value: Any) -> None:
    """Give a field of the first record of a kind another value."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    *way, last = keys
    inner: Any = next(line for line in lines if line["kind"] == kind)
    for key in way:
        inner = inner[key]
    inner[last] = value
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("kind", "keys", "value"),
    [
        ("run", ("settings", "\ud800"), 1),
        ("run", ("settings", "limits", "\ud83d"), 1),
        ("run", ("settings", "target", "\ud83d"), 1),
        ("run", ("settings", "target", "options", "latency"), 10**400),
        ("run", ("settings", "spikee_results"), "x" * 300),
        ("run", ("settings", "spikee_results"), "a\0b"),
        ("case", ("metrics",), [True]),
        ("case", ("metrics",), [{"name": "x", "identity": {}}]),
        ("case", ("metrics",), 7),
        ("attempt", ("verdicts",), ["x"]),
        ("attempt", ("verdicts",), [{"verdict": {}}]),
        ("attempt", ("output",), "x"),
        ("attempt", ("error",), "x"),
        ("attempt", ("messages",), 3),
        ("attempt", ("note",), []),
        ("attempt", ("iteration",), "x"),
        ("attempt", ("strategy",), {}),
    ],
    ids=str,
)
def test_an_edited_journal_is_resumed_or_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, kind: str, keys: tuple[str, ...], value: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": n, "content": f"obey {n}", "judge_name": "canary", "judge_args": "PWNED"} for n in range(6)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Each entry is tried twice: the run ends after the first attempt on an entry that is not finished.
    words = ("run", "d.jsonl", "--target", "simulated", "--attempts", "2", "--journal", "j.jsonl", "--concurrency", "1")
    assert cli(*words, "--max-calls", "1").code == 4
    _edited(tmp_path / "j.jsonl", kind, *keys, value=value)
    ran = cli("resume", "j.jsonl", "--max-calls", "100")
    assert ran.code in (0, 2, 3), ran.err
    assert ran.code == 0 or ran.err.splitlines()[-1].startswith("faircount: ")
    assert "internal error" not in ran.err


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("usage",), "x"),
        (("usage", "prompt_tokens"), "many"),
        (("usage", "cost"), []),
        (("tries",), []),
        (("verdicts",), ["x"]),
        (("verdicts",), [{"metric": "has 4"}]),
        (("verdicts", 0, "verdict"), []),
        (("verdicts", 0, "verdict"), "maybe"),
        (("verdicts", 0, "score"), "high"),
        (("error",), "x"),
        (("output",), 3),
    ],
    ids=str,
)
def test_an_edited_journal_of_tests_gets_no_report_and_keeps_what_was_run(
    here: Path, cli: Cli, keys: tuple[Any, ...], value: Any
) -> None:
    _stop_early(cli)
    _edited(here / "j.jsonl", "attempt", *keys, value=value)
    before = (here / "j.jsonl").read_bytes()
    ran = cli("resume", "j.jsonl", "--max-calls", "100")
    assert ran.code == 3, ran.err
    assert "the attempt record of" in ran.err.splitlines()[-1]
    assert "cannot be understood" in ran.err
    after = (here / "j.jsonl").read_bytes()
    assert after.startswith(before)
    assert b'"complete":true' in after


def test_a_metric_that_changed_beside_its_test_file_is_told(here: Path, cli: Cli) -> None:
    _with_data(here)
    _stop_early(cli)
    near = here / "tests" / "near.py"
    near.write_text(near.read_text() + "# changed\n")
    sys.modules.pop("near", None)
    ran = cli("resume", "j.jsonl", "--max-calls", "100")
    assert ran.code == 0, ran.err
    assert "has 4: this metric has changed since the run began" in ran.err


def test_a_target_that_is_gone_is_an_error_and_changes_nothing(here: Path, cli: Cli) -> None:
    _stop_early(cli)
    before = (here / "j.jsonl").read_bytes()
    (here / "bot.py").unlink()
    assert cli("resume", "j.jsonl").code in (2, 3)
    assert (here / "j.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no journal\n", b'{"kind":"run","schema":1,"settings":{"choice":3}}\n'])
def test_what_is_no_journal_is_refused(here: Path, cli: Cli, content: bytes) -> None:
    (here / "x.jsonl").write_bytes(content)
    ran = cli("resume", "x.jsonl")
    assert ran.code == 3, ran.err
    assert "x.jsonl" in ran.err
