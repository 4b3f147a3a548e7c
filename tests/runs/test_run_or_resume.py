"""`run --resume-if-exists`: one command that may be repeated blindly, whatever became of the last time."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from faircount.readers import AttemptRecord, UsageRecord
from faircount.runs import costs_of
from tests.conftest import Cli
from tests.runs.running import attempts, records, report_of, write_tests
from tests.runs.test_run_faults import Program, completed

BOT = """\
import asyncio, os, pathlib

HERE = pathlib.Path(__file__).parent


async def answer(request: "Request"):
    with open(HERE / "asked.log", "a") as file:
        file.write(f"{request.case}\\n")
    await asyncio.sleep(float(os.environ.get("PAUSE", "0")))
    return "PWNED" if "3" in request.messages[-1]["content"] else "no"


async def hang(request: "Request"):
    await asyncio.Event().wait()


def paid(messages):
    return {"output": "no", "cost": 0.5, "tries": 2}


def other(messages):
    return "no"
"""
ENTRIES = 12


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    rows = [{"id": number, "content": f"obey {number}", "judge_args": "PWNED"} for number in range(ENTRIES)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def words(target: str = "answer", *more: str, data: str = "d.jsonl") -> list[str]:
    run = ["run", data, "--target", f"./bot.py:{target}", "--judge", "canary", "--concurrency", "1"]
    return [*run, "--journal", "j.jsonl", "--resume-if-exists", *more]


def asked(place: Path) -> Counter[str]:
    log = place / "asked.log"
    return Counter(log.read_text().split() if log.exists() else ())


def was_asked(place: Path, times: int) -> bool:
    return sum(asked(place).values()) >= times


# -- begin and go on --------------------------------------------------------------------------------------------


def test_the_first_time_starts_the_run_and_a_complete_one_is_shown_again(here: Path, cli: Cli) -> None:
    first = cli(*words())
    journal = (here / "j.jsonl").read_bytes()
    again = cli(*words())
    assert (first.code, again.code) == (0, 0)
    assert "Successful attacks" in first.out and again.out == first.out
    assert "the run is complete; nothing to do" in again.err
    assert (here / "j.jsonl").read_bytes() == journal
    assert asked(here) == Counter(str(number) for number in range(ENTRIES))


def test_wherever_the_journal_was_cut_the_same_command_completes_it(here: Path, cli: Cli) -> None:
    assert cli(*words()).code == 0
    content = (here / "j.jsonl").read_bytes()
    expected = {key: record["verdicts"] for key, record in attempts("j.jsonl").items()}
    header = content.index(b"\n") + 1
    lots = random.Random(5)
    for end in (0, 1, 20, header - 1, header, header + 1, *(lots.randrange(header, len(content)) for _ in range(12))):
        (here / "j.jsonl").write_bytes(content[:end])
        ran = cli(*words())
        assert ran.code == 0, (end, ran.err)
        assert {key: record["verdicts"] for key, record in attempts("j.jsonl").items()} == expected
        assert [record["kind"] for record in records("j.jsonl")].count("run") == 1


def test_a_command_that_is_killed_and_repeated_blindly_loses_and_doubles_nothing(here: Path) -> None:
    lots, journal, kills = random.Random(11), here / "j.jsonl", 0
    while True:
        program = Program(here, words(), PAUSE="0.03")
        if kills < 6:
            size = journal.stat().st_size if journal.exists() else 0
            while kills != 1 and (journal.stat().st_size if journal.exists() else 0) <= size:  # one dies as it starts
                assert program.process.poll() is None, program.err
                time.sleep(0.001)
            time.sleep(lots.uniform(0, 0.1))
            program.process.send_signal(signal.SIGKILL)
        if program.ends() == 0:
            break
        kills += 1
        assert kills <= 6, program.err
    assert attempts(journal).keys() == {(str(number), 0) for number in range(ENTRIES)}
    calls = Counter(record["case"] for record in records(journal) if record["kind"] == "call")
    assert all(1 <= asked(here)[case] <= count for case, count in calls.items())


def test_a_journal_that_another_process_writes_is_left_alone(here: Path) -> None:
    journal, program = here / "j.jsonl", Program(here, words("hang"))
    try:
        program.until(lambda: journal.exists() and b'"kind":"call"' in journal.read_bytes())
        before = journal.read_bytes()
        second = completed(here, *words("hang"))
        assert journal.read_bytes() == before
    finally:
        program.process.kill()
        program.ends()
    assert second.returncode == 2
    assert f"j.jsonl: another process (pid {program.process.pid}) is writing this journal" in second.stderr


def test_of_commands_that_start_at_once_one_runs(here: Path) -> None:
    programs = [Program(here, words(), PAUSE="0.02") for _ in range(3)]
    codes = sorted(program.ends() for program in programs)
    assert codes[0] == 0 and set(codes) <= {0, 2}
    assert [record["kind"] for record in records(here / "j.jsonl")].count("run") == 1
    assert asked(here) == Counter(str(number) for number in range(ENTRIES))


def test_tests_are_started_and_resumed_alike(here: Path, cli: Cli) -> None:
    write_tests(here)
    run = ["run", "tests", "--target", "simulated(seed=1)", "--journal", "t.jsonl", "--output-folder", "out"]
    assert cli(*run, "--resume-if-exists", "--max-calls", "5", "--concurrency", "1").code == 4
    assert report_of(here / "out")["metadata"]["complete"] is False
    assert cli(*run, "--resume-if-exists").code == 0
    assert report_of(here / "out")["metadata"]["complete"] is True
    assert len(attempts("t.jsonl")) == 12


def test_results_for_another_tool_are_written_again(here: Path, cli: Cli) -> None:
    more = ("--spikee-results", "s.jsonl")
    assert cli(*words("answer", *more, "--max-calls", "3")).code == 4
    assert len((here / "s.jsonl").read_text().splitlines()) == 3
    assert cli(*words("answer", *more)).code == 0
    assert len((here / "s.jsonl").read_text().splitlines()) == ENTRIES
    (here / "mine.jsonl").write_text("mine")
    refused = cli(*words("answer", "--spikee-results", "mine.jsonl"))
    assert refused.code == 2 and "mine.jsonl: already exists" in refused.err
    assert (here / "mine.jsonl").read_text() == "mine"


def test_a_run_that_knew_enough_stays_as_it_is(here: Path, cli: Cli) -> None:
    rows = [json.dumps({"id": number, "content": "x", "judge_args": "PWNED"}) + "\n" for number in range(200)]
    (here / "d.jsonl").write_text("".join(rows))
    first = cli(*words("answer", "--stop-when", "asr < 10%"))
    assert first.code == 0 and "stopped early" in first.err
    journal = (here / "j.jsonl").read_bytes()
    again = cli(*words("answer", "--stop-when", "asr < 10%"))
    assert again.code == 0 and "stopped early" in again.err
    assert (here / "j.jsonl").read_bytes() == journal


# -- budgets ----------------------------------------------------------------------------------------------------


def test_a_limit_is_that_of_all_times_together(here: Path, cli: Cli) -> None:
    for _ in range(3):
        ran = cli(*words("answer", "--max-calls", "5"))
        assert ran.code == 4
        assert "--max-calls: 5 requests were sent" in ran.err
        assert sum(asked(here).values()) == 5
    assert cli(*words("answer", "--max-calls", "7")).code == 4
    assert sum(asked(here).values()) == 7
    assert cli(*words()).code == 0
    assert sum(asked(here).values()) == ENTRIES


def test_requests_that_were_under_way_when_the_process_was_killed_count(here: Path) -> None:
    command = words("answer", "--max-calls", "6", "--concurrency", "2")
    for kills in (1, 2):
        program = Program(here, command, PAUSE="5")
        program.until(partial(was_asked, here, 2 * kills))
        program.process.send_signal(signal.SIGKILL)
        program.ends()
    last = completed(here, *command)
    assert last.returncode == 4
    assert "--max-calls: 6 requests were sent" in last.stderr
    assert sum(asked(here).values()) == 6
    assert len(attempts(here / "j.jsonl")) == 2


@pytest.mark.parametrize(("limit", "sent"), [(("--max-calls", "8"), 4), (("--max-cost", "2"), 4)])
def test_what_was_sent_again_and_what_it_cost_count_as_well(
    here: Path, cli: Cli, limit: tuple[str, str], sent: int
) -> None:
    assert here.is_dir()
    for _ in range(3):
        assert cli(*words("paid", *limit)).code == 4
        assert len(attempts("j.jsonl")) == sent


def test_what_a_model_took_that_led_an_attack_is_part_of_the_cost() -> None:
    note = {"attacker": {"requests": 1, "cost": 0.25, "model": "m"}}
    record = AttemptRecord("a", 0, usage=UsageRecord(cost=0.5), note=note)
    assert list(costs_of(record)) == [0.5, 0.25]
    assert list(costs_of(AttemptRecord("a", 0))) == []


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (words("answer", "--attempts", "2"), "attempts was 1 and is 2"),
        (words("answer", "--where", "id = 3"), "where was not set and is id = 3"),
        (words("answer", "--case", "3"), "names was not set and is 3;"),
        (words("answer", "--shard", "1/2"), "shard was not set and is number=1, count=2;"),
        (words("answer", "--retries", "2"), "retries was 0 and is 2"),
        (words("answer", "--attack", "best-of-n"), "attack was not set and is best-of-n"),
        (words("other"), "target.name was ./bot.py:answer and is ./bot.py:other"),
        (words(data="e.jsonl"), "paths was d.jsonl and is e.jsonl;"),
        (words("answer", "--output-folder", "elsewhere"), "output_folder was results and is elsewhere"),
    ],
)
def test_a_journal_of_another_command_is_refused_with_what_differs(
    here: Path, cli: Cli, command: list[str], told: str
) -> None:
    (here / "e.jsonl").write_bytes((here / "d.jsonl").read_bytes())
    assert cli(*words("answer", "--max-calls", "3")).code == 4
    before = (here / "j.jsonl").read_bytes()
    ran = cli(*command)
    assert ran.code == 2
    assert f"j.jsonl: this run was started with other settings: {told}" in ran.err
    assert "resume it as it was with faircount resume j.jsonl, or choose another file with --journal" in ran.err
    assert (here / "j.jsonl").read_bytes() == before


def test_how_fast_and_how_patiently_the_target_is_asked_may_change(here: Path, cli: Cli) -> None:
    assert cli(*words("answer", "--max-calls", "3")).code == 4
    limits = ("--timeout", "9", "--tries", "2", "--requests-per-minute", "60000", "--concurrency", "4")
    assert cli(*words("answer", *limits)).code == 0
    assert here.is_dir()


def test_a_shard_of_another_number_or_count_is_refused(here: Path, cli: Cli) -> None:
    assert cli(*words("answer", "--shard", "1/2")).code == 0
    ran = cli(*words("answer", "--shard", "2/3"))
    assert ran.code == 2
    assert "shard.number was 1 and is 2; shard.count was 2 and is 3" in ran.err
    assert here.is_dir()


def test_a_dataset_that_has_changed_is_refused(here: Path, cli: Cli) -> None:
    assert cli(*words("answer", "--max-calls", "3")).code == 4
    with (here / "d.jsonl").open("a") as file:
        file.write('{"id": 99, "content": "more", "judge_args": "x"}\n')
    ran = cli(*words())
    assert ran.code == 3
    assert "d.jsonl: has changed since the run in j.jsonl began" in ran.err


@pytest.mark.parametrize("content", [b"mine", b'{"id": 1, "success": true}\n', b"\xff\x00\n"])
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(here: Path, cli: Cli, content: bytes) -> None:
    (here / "j.jsonl").write_bytes(content)
    ran = cli(*words())
    assert ran.code == 3
    assert "j.jsonl:1: not " in ran.err
    assert (here / "j.jsonl").read_bytes() == content


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--sample", "5", "--sample-seed", "random"], "--sample-seed random does not work with --resume-if-exists"),
        ([], "--resume-if-exists needs --journal FILE"),
    ],
)
def test_what_would_be_another_run_each_time_is_refused(here: Path, cli: Cli, more: list[str], told: str) -> None:
    run = words("answer", *more)
    ran = cli(*(run if more else [word for word in run if word not in ("--journal", "j.jsonl")]))
    assert ran.code == 2
    assert told in ran.err
    assert not (here / "j.jsonl").exists()
