"""Attack runs, shards and benches that are killed, interrupted, cut off, out of disk, or badly served.

Whatever happened, at the end there is one record per entry and attempt and one per entry, strategy and iteration, none
is lost, and all is as in a run to which nothing happened.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from faircount.app.cli import main
from faircount.judges import Attempt, Decision, Judge, Verdict
from faircount.runs import (
    Answer,
    Attack,
    Engine,
    Entry,
    EntryMetric,
    Journal,
    JournalError,
    Limits,
    Play,
    Progress,
    Prompt,
    Request,
    Step,
    Strategy,
    continue_run,
    lifecycle,
    read_journal,
    with_text,
)
from tests.runs.attack_child import Failing
from tests.runs.attack_places import Forks, counted, essence, expected_of, is_begun, numbers, run_words, write_place
from tests.runs.misbehaving_server import Received, Server, answer, completion, failing, half, reset
from tests.runs.misbehaving_server import Step as Answering
from tests.runs.running import HEADER, Run, Scripted, forever, records
from tests.runs.test_run_entries import Numbered, entry
from tests.runs.test_run_faults import Program, completed

JUDGED = ("--judge", "./judge.py:hit")
RESUME = ["resume", "j.jsonl", "--output-format", "json"]
_MOST_STARTS = 80


def seeds(quick: int, all_: int) -> list[Any]:
    """Return so many seeds, of which the later ones are for those who have time."""
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(all_)]


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="module")
def whole(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run to which nothing happened."""
    place = write_place(tmp_path_factory.mktemp("whole"))
    assert forks.run(place, run_words(*JUDGED)) == 0, forks.err
    told = essence(place / "j.jsonl")
    kinds = Counter((one["error"] or {}).get("kind") for one in told["attempts"].values())
    verdicts = Counter(said["verdict"] for one in told["attempts"].values() for said in one["verdicts"])
    assert kinds.keys() == {None, "ConnectionError", "blocked"}
    assert verdicts.keys() == {"success", "failure", "error"}
    assert any(error and "no ideas are left" in error for _, error in told["done"].values())
    return place / "j.jsonl"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_place(tmp_path / "place")


def check_whole(journal: Path, expected: Path) -> None:
    """Check that a run has come to what another one came to, in every record and every number."""
    state = read_journal(str(journal)).state()
    assert (state.torn, state.doubled, list(state.calls_under_way()), state.complete) == (0, [], [], True)
    assert state.done == len(counted(journal))
    assert (essence(journal), numbers(journal)) == expected_of(expected)


# -- killed -----------------------------------------------------------------------------------------------------


def _stop_at_random(forks: Forks, journal: Path, lots: random.Random) -> None:
    """Send a signal at a random moment: most often when a random number of bytes has come to the journal."""
    size = journal.stat().st_size if journal.exists() else 0
    more = lots.choice([-1, 0, lots.randrange(3_000), lots.randrange(12_000)])
    forks.until(lambda: more < 0 or (journal.exists() and journal.stat().st_size > size + more))
    time.sleep(lots.uniform(0, 0.004))
    how = lots.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    forks.send(how)
    if how is signal.SIGINT and lots.random() < 0.5:
        time.sleep(lots.uniform(0, 0.01))
        forks.send(how)


def _killed_until_complete(
    forks: Forks, journal: Path, words: list[str], lots: random.Random, kills: int, *, cut: bool = True, **env: str
) -> tuple[int, bool]:
    """Stop the program again and again; return how often it was, and whether its journal was ever cut."""
    place, was_cut = journal.parent, False
    before: dict[Any, Any] = {}
    for stopped in range(_MOST_STARTS):
        if journal.exists() and not is_begun(journal):
            journal.unlink()  # stopped before there was a header: nothing was run
        forks.order(place, ["resume", journal.name] if is_begun(journal) else words, env)
        if stopped < kills:
            _stop_at_random(forks, journal, lots)
        code = forks.ends()
        assert code in (0, -signal.SIGKILL, -signal.SIGTERM, 130), forks.err
        if is_begun(journal):
            found = _whole_attempts(journal)
            assert before.items() <= found.items(), "what was recorded stays as it was"
            before = found
        if code == 0:
            return stopped, was_cut
        if cut and is_begun(journal) and lots.random() < 0.3:
            was_cut |= _cut(journal, lots)
            before = _whole_attempts(journal)
    raise AssertionError("it never came to its end")


def _whole_attempts(journal: Path) -> dict[tuple[str, int], bytes]:
    found = {}
    for line in journal.read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        if record["kind"] == "attempt":
            key = (record["case"], record["attempt"])
            assert key not in found, f"two records of {key}"
            found[key] = line
    return found


def _cut(journal: Path, lots: random.Random) -> bool:
    """Cut off the end of a journal, but not its header; a record that is lost so has to be made again."""
    content = journal.read_bytes()
    end = max(content.index(b"\n") + 1, len(content) - lots.randrange(1, 2_500))
    journal.write_bytes(content[:end])
    return True


def _asked(place: Path) -> Counter[tuple[str, int]]:
    lines = (place / "asked.log").read_text("utf-8").splitlines()
    return Counter((line.split()[0], int(line.split()[1])) for line in lines)


@pytest.mark.parametrize("seed", seeds(6, 50))
def test_a_run_that_is_killed_at_any_moment_comes_to_what_it_would_have_come_to(
    forks: Forks, place: Path, whole: Path, seed: int
) -> None:
    lots, journal = random.Random(seed), place / "j.jsonl"
    words = run_words(*JUDGED, "--concurrency", str(lots.choice([1, 2, 3, 8])))
    stopped, was_cut = _killed_until_complete(forks, journal, words, lots, kills=6, PAUSE="0.002")
    assert stopped, "it was too quick to be killed"
    check_whole(journal, whole)
    if not was_cut:
        found = counted(journal)
        calls = sum(record["kind"] == "call" for record in records(journal))
        assert sum(record["calls"] for record in found.values()) == calls
        assert all(count <= found[key]["calls"] for key, count in _asked(place).items())


def _by_text(received: Received) -> Answering:
    """Choose what the server does by what it is asked alone, so that it does the same again."""
    text = received.json["messages"][-1]["content"]
    drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 100
    for most, step in (
        (8, failing(429, retry_after="0")),
        (16, failing(500)),
        (24, half()),
        (32, reset()),
        (42, answer(completion(f"PWNED {text}"))),
    ):
        if drawn < most:
            return step
    return answer(completion(f"no {drawn} {text}"))


async def _deterministic(received: Received, writer: asyncio.StreamWriter) -> None:
    await _by_text(received)(received, writer)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server([_deterministic]) as made:
        yield made


def _served(server: Server, *more: str, tries: int = 1, **parts: str) -> list[str]:
    words = ["--base-url", server.url, "--model", "m", "--tries", str(tries), "--timeout", "20"]
    return run_words(*words, *more, target="openai", **parts)


@pytest.fixture(scope="module")
def served_whole(forks: Forks, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write_place(tmp_path_factory.mktemp("served"))
    assert forks.run(place, _served(server), {"OPENAI_API_KEY": "k"}) == 0, forks.err
    return place / "j.jsonl"


@pytest.mark.parametrize("seed", seeds(2, 12))
def test_the_same_against_a_server_that_fails_in_many_ways(
    forks: Forks, place: Path, server: Server, served_whole: Path, seed: int
) -> None:
    lots = random.Random(1000 + seed)
    words = _served(server, "--concurrency", str(lots.choice([1, 3, 8])))
    stopped, _ = _killed_until_complete(forks, place / "j.jsonl", words, lots, kills=5, OPENAI_API_KEY="k")
    assert stopped
    check_whole(place / "j.jsonl", served_whole)


def test_the_program_itself_is_killed_and_terminated_and_interrupted(place: Path, whole: Path) -> None:
    journal = place / "j.jsonl"
    words = run_words(*JUDGED, "--concurrency", "1")
    for how, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 130), (signal.SIGINT, 130)):
        size = journal.stat().st_size if journal.exists() else 7_000
        program = Program(place, words, PAUSE="0.01")
        program.until(lambda size=size: journal.exists() and journal.stat().st_size > size + 1_500)  # type: ignore[misc]
        program.process.send_signal(how)
        assert program.ends() == code, program.err
        words = RESUME
    assert completed(place, *RESUME).returncode == 0
    check_whole(journal, whole)


# -- cut --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a small run: standard and attack, answers, blocks and errors."""
    place = write_place(tmp_path_factory.mktemp("small"), entries=5)
    words = run_words(*JUDGED, "--attack-iterations", "3", "--concurrency", "2")
    assert forks.run(place, words) == 0, forks.err
    return place / "j.jsonl"


def _resumes_from(content: bytes, small: Path, expected: dict[str, Any]) -> None:
    """Resume what is left of a journal, without the analysis that the command prints."""
    cut = small.parent / "cut.jsonl"
    cut.write_bytes(content)
    before = _whole_attempts(cut)
    assert continue_run(str(cut), lifecycle.settings_of(str(cut))).complete
    assert before.items() <= _whole_attempts(cut).items()
    assert essence(cut) == expected
    assert read_journal(str(cut)).state().complete
    Path(f"{cut}.torn").unlink(missing_ok=True)


def _cuts(content: bytes) -> Iterator[int]:
    """Yield places that differ in what is left: after each record, and in the first and last byte of the next."""
    place = content.index(b"\n") + 1
    while place < len(content):
        following = content.index(b"\n", place) + 1
        yield from (place, place + 1, following - 1)
        place = following


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what only a power cut could tell, for tests that go on with a journal a thousand times."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("no_sync")
def test_a_journal_that_is_cut_behind_or_within_any_record_is_resumed_to_the_same(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    content, expected = small.read_bytes(), essence(small)
    told = expected["attempts"].values()
    assert {(one["error"] or {}).get("kind") for one in told} == {None, "blocked", "ConnectionError"}
    assert len({one["strategy"] for one in told}) == 2
    for end in _cuts(content):
        _resumes_from(content[:end], small, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("no_sync")
def test_a_journal_that_is_cut_at_any_byte_is_resumed_to_the_same(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    content, expected = small.read_bytes(), essence(small)
    for end in range(content.index(b"\n") + 1, len(content)):
        _resumes_from(content[:end], small, expected)


# -- disks that fail --------------------------------------------------------------------------------------------


def _failed_and_resumed(forks: Forks, place: Path, whole: Path, code: int) -> None:
    """Check how a run ended whose journal could not be written, and that it can be finished."""
    journal = place / "j.jsonl"
    assert "Traceback" not in forks.err
    assert "never retrieved" not in forks.err
    if code == 2:
        assert "cannot create the journal" in forks.err
        assert not journal.exists()
        before, words = {}, run_words(*JUDGED)
    else:
        assert code == 4, forks.err
        assert "cannot write the journal: j.jsonl: " in forks.err
        assert "faircount resume j.jsonl" in forks.err
        before, words = _whole_attempts(journal), RESUME
    assert forks.run(place, words) == 0, forks.err
    assert before.items() <= _whole_attempts(journal).items()
    assert essence(journal) == expected_of(whole)[0]


FAULTS = [
    ("write", 1, errno.ENOSPC, None),
    ("write", 2, errno.ENOSPC, 100),
    ("write", 3, errno.EIO, None),
    ("write", 9, errno.ENOSPC, 30),
    ("write", 23, errno.ENOSPC, 1),
    ("fdatasync", 1, errno.EIO, None),
    ("fdatasync", 2, errno.EIO, None),
    ("fdatasync", 7, errno.ENOSPC, None),
    ("fdatasync", 12, errno.EIO, None),
]
MORE_FAULTS = [
    pytest.param(call, number, error, part, marks=pytest.mark.slow)
    for call, parts in (("write", (None, 1, 200)), ("fdatasync", (None,)))
    for number in range(1, 40)
    for part in parts
    for error in (errno.EIO, errno.ENOSPC)
]


@pytest.mark.parametrize(("call", "number", "error", "part"), [*FAULTS, *MORE_FAULTS])
def test_whichever_write_or_sync_fails_the_run_ends_and_can_be_finished(
    forks: Forks, place: Path, whole: Path, call: str, number: int, error: int, part: int | None
) -> None:
    fail = {"path": "j.jsonl", "call": call, "number": number, "error": error, "part": part}
    code = forks.run(place, run_words(*JUDGED, "--concurrency", "3"), {"PAUSE": "0.001"}, fail=fail)
    if code == 0:  # there are not so many, since what comes together is written and synced together
        assert number > 9  # on a busy machine more of them come together
        return
    _failed_and_resumed(forks, place, whole, code)


@pytest.mark.parametrize("most", [2_500, 9_000, 20_001])
def test_a_full_disk_ends_the_run_with_a_journal_that_can_be_resumed(
    forks: Forks, place: Path, whole: Path, most: int
) -> None:
    code = forks.run(place, run_words(*JUDGED, "--concurrency", "4"), {"PAUSE": "0.001"}, most_bytes=most)
    assert code == 4, forks.err
    assert "File too large" in forks.err
    assert (place / "j.jsonl").stat().st_size <= most
    _failed_and_resumed(forks, place, whole, code)


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_no_entry_is_counted_that_a_failing_disk_has_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async def answering(request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(output="PWNED" if request.case.endswith("3") else "no")

    for number in range(1, 25):
        path = tmp_path / f"{number}.jsonl"
        cases = [entry(f"e{one}") for one in range(20)]
        counts: list[int] = []

        def heard(tally: Progress, counts: list[int] = counts) -> None:
            counts.append(tally.done)

        journal = Journal.create(str(path), replace(HEADER, aim="attack"))
        journal.append_all_now(case.record() for case in cases)
        strategy = Strategy(attack=Numbered(), iterations=2)
        limits = Limits(concurrency=3)
        engine = Engine(cases, Scripted(answering), journal, limits, strategy=strategy, on_progress=heard)
        with monkeypatch.context() as patch:
            failing_call = Failing(str(path), getattr(os, call), number, errno.EIO)
            patch.setattr(os, call, failing_call)
            try:
                assert asyncio.run(engine.run()).complete
            except JournalError:
                assert failing_call.count >= number
            journal.close()
        attempts = counted(path)
        over = [
            case.name
            for case in cases
            if (case.name, 2) in attempts or (case.name.endswith("3") and (case.name, 0) in attempts)
        ]
        assert max(counts, default=0) <= len(over), "an entry that counts has its last attempt in the journal"


# -- what hangs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hanging",
    [
        {"target": "./attacked_bot.py:hangs"},
        {"target": "./attacked_bot.py:hangs_in_a_thread"},
        {"attack": "./attack.py:hangs"},
        {"attack": "./attack.py:hangs_in_a_thread"},
        {"attack": "./attack.py:blocks"},
        {"judge": "./judge.py:hangs"},
    ],
    ids=lambda told: "-".join(f"{name} {value.partition(':')[2]}" for name, value in told.items()),
)
def test_two_interrupts_end_a_run_whatever_hangs_and_it_can_be_finished(
    forks: Forks, place: Path, hanging: dict[str, str]
) -> None:
    judged = ["--judge", hanging["judge"]] if "judge" in hanging else []
    target = hanging.get("target", "./attacked_bot.py:careful")
    words = run_words(*judged, target=target, attack=hanging.get("attack", "./attack.py:variant"))
    (place / "hang").touch()
    forks.order(place, words)
    if "target" in hanging:
        forks.until(lambda: (place / "asked.log").exists() and any(number == 3 for _, number in _asked(place)))
    else:
        forks.until((place / "hanging").exists)
    time.sleep(0.05)
    forks.send(signal.SIGINT)
    forks.until(lambda: "interrupt again" in (place / "stderr").read_text("utf-8"))
    assert not forks.is_over, (place / "stderr").read_text("utf-8")
    began = time.monotonic()
    forks.send(signal.SIGINT)
    assert forks.ends() == 130
    assert time.monotonic() - began < 8
    assert "Traceback" not in forks.err
    assert forks.err.count("resume with: faircount resume j.jsonl") == 1
    journal = place / "j.jsonl"
    assert read_journal(str(journal)).state().torn == 0
    before = _whole_attempts(journal)
    (place / "hang").unlink()
    assert forks.run(place, RESUME) == 0, forks.err
    assert before.items() <= _whole_attempts(journal).items()
    other = write_place(place.parent / "other")
    assert forks.run(other, words) == 0, forks.err
    check_whole(journal, other / "j.jsonl")


class Silent(Attack):
    """Says something once and then nothing any more."""

    name = "silent"

    def settings(self) -> dict[str, Any]:
        return {}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        class Playing(Play):
            async def next(self, history: Sequence[Step]) -> Prompt | None:
                if history:
                    await asyncio.Event().wait()
                return Prompt(with_text(entry.messages, f"{iterations}"))

        return Playing()


class Lost(Judge):
    """Decides in time only what is no attack."""

    name = "tests.Lost"
    looks_for = "nothing"
    waits = True

    def decide(self, attempt: Attempt) -> Verdict:
        if attempt.prompt == "5":
            forever()
        return Verdict(Decision.PASS)


def test_an_attack_and_a_judge_that_never_come_back_are_errors_of_their_own(tmp_path: Path) -> None:
    cases = [replace(entry(f"e{number}"), metrics=(EntryMetric(Lost()),)) for number in range(4)]
    run = Run(tmp_path, cases, Scripted(), strategy=Strategy(Silent(), iterations=5), timeout=0.1)
    assert run.go().complete
    found = counted(Path(run.path))
    assert found.keys() == {(case.name, number) for case in cases for number in (0, 1)}
    said = {key: one["verdicts"][0] for key, one in found.items()}
    assert all(said[case.name, 0]["verdict"] == "failure" for case in cases)
    assert all("no verdict within 0.1 s" in said[case.name, 1]["error"] for case in cases)
    told = [record["error"] for record in run.records if record["kind"] == "done"]
    assert told == ["silent: no reply within 0.1 s"] * 4


# -- servers that misbehave -------------------------------------------------------------------------------------


def test_errors_of_a_server_are_attempts_and_made_again_as_often_as_was_said(
    forks: Forks, place: Path, server: Server
) -> None:
    del server.received[:]
    words = _served(server, attack="./attack.py:variant")
    assert forks.run(place, words, {"OPENAI_API_KEY": "k"}) == 0, forks.err
    found = counted(place / "j.jsonl")
    assert len(server.received) == len(found), "every request is an attempt"
    kinds = {one["error"]["kind"] for one in found.values() if one["error"]}
    assert kinds == {"status", "connection"}, kinds
    for name in essence(place / "j.jsonl")["cases"]:
        ours = [found[key] for key in sorted(found) if key[0] == name]
        standard = [one for one in ours if one["strategy"] == "standard"]
        attack = [one for one in ours if one["strategy"] != "standard"]
        won = [one for one in ours if any(said["verdict"] == "success" for said in one["verdicts"])]
        assert won in ([], ours[-1:]), "nothing is tried after a success"
        assert [one["iteration"] for one in attack] == list(range(len(attack)))
        assert len(attack) == 4 or won or standard[-1:] == won
        assert _spent(standard, turns=2 if int(name[1:]) % 4 == 3 else 1) == 2 or won


def _spent(standard: list[dict[str, Any]], turns: int) -> int:
    """Return how many attempts were spent, by their errors alone: an error is repeated once, a second one ends one."""
    letters = "".join("e" if one["error"] else "a" for one in standard)
    answered = rf"(?:e?a){{{turns}}}"
    broken = rf"(?:e?a){{0,{turns - 1}}}ee"
    spent = re.findall(f"{answered}|{broken}", letters)
    assert "".join(spent) == letters or len(spent) < 2, letters
    return len(spent)


def test_no_request_is_sent_beyond_the_budget_of_each_go(forks: Forks, place: Path, server: Server) -> None:
    del server.received[:]
    words = _served(server, "--max-calls", "15", "--concurrency", "4")
    goes, code = 0, forks.run(place, words, {"OPENAI_API_KEY": "k"})
    while code == 4:
        goes += 1
        assert len(server.received) == 15 * goes
        assert len(counted(place / "j.jsonl")) == 15 * goes, "what was asked is recorded"
        code = forks.run(place, RESUME, {"OPENAI_API_KEY": "k"})
    assert code == 0, forks.err
    assert goes >= 2
    assert len(server.received) == len(counted(place / "j.jsonl"))


def test_what_the_transport_sends_again_is_one_attempt_with_several_tries(forks: Forks, tmp_path: Path) -> None:
    place = write_place(tmp_path / "tired", entries=3)
    refused: set[str] = set()

    async def once_too_many(received: Received, writer: asyncio.StreamWriter) -> None:
        text = received.json["messages"][-1]["content"]
        step = answer(completion("no")) if text in refused else failing(429, retry_after="0.01")
        refused.add(text)
        await step(received, writer)

    with Server([once_too_many]) as tired:
        words = _served(tired, "--attack-iterations", "1", "--attempts", "1", tries=3)
        assert forks.run(place, words, {"OPENAI_API_KEY": "k"}) == 0, forks.err
        found = counted(place / "j.jsonl")
        assert len(found) == 6
        assert all(one["error"] is None for one in found.values())
        assert sum(one["tries"] for one in found.values()) == len(tired.received)
        assert {one["tries"] for one in found.values()} == {2}


# -- shards -----------------------------------------------------------------------------------------------------


def _shard_words(number: int) -> list[str]:
    words = run_words(*JUDGED, "--shard", f"{number}/3")
    words[words.index("j.jsonl")] = f"s{number}.jsonl"
    return words


def _merge(*names: str) -> list[str]:
    return ["merge", *names, "-o", "j.jsonl"]


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_shards_that_were_killed_come_to_the_whole_in_any_order(
    forks: Forks, place: Path, whole: Path, seed: int
) -> None:
    lots, names = random.Random(2000 + seed), []
    for number in lots.sample([1, 2, 3], 3):
        journal = place / f"s{number}.jsonl"
        _killed_until_complete(forks, journal, _shard_words(number), lots, kills=2, PAUSE="0.002")
        names.append(journal.name)
    lots.shuffle(names)
    assert forks.run(place, _merge(*names)) == 0, forks.err
    check_whole(place / "j.jsonl", whole)
    assert numbers(place / "j.jsonl")["entries"]["total"] == 8


@pytest.fixture(scope="module")
def shards(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write_place(tmp_path_factory.mktemp("shards"))
    for number in (1, 2, 3):
        assert forks.run(place, _shard_words(number)) == 0, forks.err
    return place


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.lstrip(".").startswith("j.jsonl"))


def test_a_shard_that_is_cut_anywhere_is_not_merged(
    shards: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shards)
    content = (shards / "s2.jsonl").read_bytes()
    for end in [0, 1, 500, *list(_cuts(content))[::4]]:
        (shards / "cut.jsonl").write_bytes(content[:end])
        assert main(_merge("s1.jsonl", "cut.jsonl", "s3.jsonl")) == 3
        assert "cut.jsonl: " in capsys.readouterr().err
        assert _left(shards) == []


def test_a_shard_of_another_run_is_not_merged(
    shards: Path, forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_place(tmp_path / "other", entries=9)
    assert forks.run(other, _shard_words(2)) == 0, forks.err
    plain = write_place(tmp_path / "plain")
    words = [word for word in _shard_words(2) if word not in JUDGED]
    assert forks.run(plain, words) == 0, forks.err
    monkeypatch.chdir(shards)
    for path in (other / "s2.jsonl", plain / "s2.jsonl"):
        assert main(_merge("s1.jsonl", str(path), "s3.jsonl")) == 3
    assert main(_merge("s1.jsonl", "s3.jsonl")) == 3
    assert main(_merge("s1.jsonl", "s2.jsonl", "s3.jsonl", "s2.jsonl")) == 3
    assert _left(shards) == []


@pytest.mark.parametrize("most", [500, 3_000, 20_000])
def test_a_merge_for_which_there_is_no_room_leaves_no_file(
    shards: Path, forks: Forks, tmp_path: Path, most: int
) -> None:
    words = ["merge", *(str(shards / f"s{number}.jsonl") for number in (3, 1, 2)), "-o", "j.jsonl"]
    small_disk = tmp_path / "small"
    small_disk.mkdir()
    assert most < sum((shards / f"s{number}.jsonl").stat().st_size for number in (1, 2, 3))
    assert forks.run(small_disk, words, most_bytes=most) == 2, forks.err
    assert "File too large" in forks.err
    assert _left(small_disk) == []
    assert forks.run(small_disk, words) == 0, forks.err


# -- a bench ----------------------------------------------------------------------------------------------------

BENCH = """\
output_folder = "out"
[settings]
attempts = 2
retries = 1
concurrency = 3
[targets.bot]
target = "./attacked_bot.py:answer"
[targets.other]
target = "./attacked_bot.py:tells_apart"
[datasets.d]
path = "dataset.jsonl"
[attacks.none]
[attacks.clever]
attack = "./attack.py:clever"
attack_iterations = 3
"""
CELLS = [f"{target}_d_{attack}.jsonl" for target in ("bot", "other") for attack in ("none", "clever")]


@pytest.fixture(scope="module")
def whole_bench(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write_place(tmp_path_factory.mktemp("bench"))
    (place / "b.toml").write_text(BENCH, "utf-8")
    assert forks.run(place, ["bench", "b.toml"]) == 0, forks.err
    return place


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_a_bench_that_is_killed_goes_on_with_the_same_command(
    forks: Forks, place: Path, whole_bench: Path, seed: int
) -> None:
    (place / "b.toml").write_text(BENCH, "utf-8")
    lots, stopped, code = random.Random(3000 + seed), 0, -1
    for _ in range(_MOST_STARTS):
        forks.order(place, ["bench", "b.toml"], {"PAUSE": "0.002"})
        if stopped < 5:
            cell = place / "out" / CELLS[min(stopped, 3)]
            forks.until(lambda cell=cell: cell.exists())  # type: ignore[misc]
            _stop_at_random(forks, cell, lots)
        code = forks.ends()
        stopped += 1
        if code == 0:
            break
        assert code in (-signal.SIGKILL, -signal.SIGTERM, 130), forks.err
        for cell in (place / "out").iterdir():
            if not is_begun(cell):
                cell.unlink()
    assert code == 0
    assert stopped > 1, "a busy machine may miss the moment for more"
    assert sorted(path.name for path in (place / "out").glob("*.jsonl")) == sorted(CELLS)
    for name in CELLS:
        check_whole(place / "out" / name, whole_bench / "out" / name)


# -- as soon as enough is known ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_a_run_that_stops_when_it_knows_enough_does_so_after_kills_and_runs_the_rest_when_it_is_resumed(
    forks: Forks, tmp_path: Path, seed: int
) -> None:
    lots = random.Random(4000 + seed)
    place = write_place(tmp_path / "enough", entries=120)
    journal = place / "j.jsonl"
    more = ["--attack-iterations", "1", "--attempts", "1", "--concurrency", "4"]
    words = run_words(*more, target="./attacked_bot.py:careful", attack="./attack.py:variant")
    stopping = [*words, "--stop-when", "asr < 10%"]
    _killed_until_complete(forks, journal, stopping, lots, kills=3, PAUSE="0.002")
    end = records(journal)[-1]
    assert (end["kind"], end["complete"], end.get("decided")) == ("end", False, True), end
    assert "--stop-when asr < 10%" in end["why"]
    assert "stopped early: --stop-when" in forks.err
    finished = len(read_journal(str(journal)).state().finished)
    assert 28 <= finished < 110
    # Not cut: without the record that it had stopped it would stop again.
    stopped, _ = _killed_until_complete(forks, journal, stopping, lots, kills=2, cut=False, PAUSE="0.002")
    assert records(journal)[-1]["complete"] is True
    # With the same rule, since the interval of the rate allows for it.
    other = write_place(tmp_path / "all", entries=120)
    assert forks.run(other, stopping) == 0, forks.err
    assert forks.run(other, RESUME) == 0, forks.err
    check_whole(journal, other / "j.jsonl")
    before = journal.read_bytes()
    assert forks.run(place, RESUME) == 0
    assert journal.read_bytes() == before, f"nothing is left to do, after {stopped} more kills"
