"""The run journal when things go wrong: killed processes, cut and damaged files, full disks, two writers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faircount.core import InputError, UsageError
from faircount.readers import (
    AttemptRecord,
    CallRecord,
    CaseRecord,
    EndRecord,
    ErrorRecord,
    OutputRecord,
    RetryRecord,
    RunRecord,
)
from faircount.runs import Journal, JournalError, read_journal

CHILD = Path(__file__).with_name("journal_child.py")
CASES, ATTEMPTS = 10, 5
PAIRS = {(case, attempt) for case in range(CASES) for attempt in range(ATTEMPTS)}


class Child:
    """The process that forks one writer for every order, and what it says."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def order(self, path: str, **more: Any) -> int:
        """Let a fork write a journal, and return its process number."""
        order = {"path": path, "cases": CASES, "attempts": ATTEMPTS, "concurrency": 5, "seed": 1, **more}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self._early: list[list[str]] = []
        # The fork may speak before the one that forked it says its number.
        for words in self._read():
            if words[0] == "pid":
                return int(words[1])
            self._early.append(words)
        raise AssertionError("the child has ended")

    def says(self) -> Iterator[list[str]]:
        """Yield what the fork says, to `exit`."""
        while self._early:
            yield self._early.pop(0)
        for words in self._read():
            yield words
            if words[0] == "exit":
                return

    def run(self, path: str, **more: Any) -> list[list[str]]:
        """Let a fork come to its end and return everything that it said."""
        self.order(path, **more)
        return list(self.says())

    def _read(self) -> Iterator[list[str]]:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            yield line.split(maxsplit=2)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "run.jsonl")


def told(said: list[list[str]], kind: str) -> list[tuple[int, int]]:
    """Return the attempts of which a fork said something."""
    return [(int(words[1]), int(words[2])) for words in said if words[0] == kind]


def recorded(path: str, kind: str = "attempt") -> Counter[tuple[int, int]]:
    """Return how many whole records there are of every attempt, by the standard library's reading of the file."""
    lines = Path(path).read_bytes().split(b"\n")[:-1] if Path(path).exists() else []
    records = [json.loads(line) for line in lines]
    assert [record["kind"] for record in records[:1]] in ([], ["run"])
    return Counter((int(r["case"].split()[1]), r["attempt"]) for r in records if r["kind"] == kind)


# Killed


def killed_once(child: Child, path: str, rng: random.Random) -> list[list[str]]:
    """Kill a writer after a random number of things that it said and a random time."""
    process = child.order(path, seed=rng.random(), concurrency=rng.randint(1, 8))
    said = []
    for words in child.says():
        said.append(words)
        if rng.random() < 0.04:
            break
    if said[-1][0] != "exit":
        time.sleep(rng.random() * 0.002)
        with contextlib.suppress(ProcessLookupError):  # it may have been quicker
            os.kill(process, rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        said.extend(child.says())
    return said


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_moment_of_a_kill_every_attempt_has_one_record_and_none_is_lost(
    child: Child, place: str, seed: int
) -> None:
    rng = random.Random(seed)
    durable: Counter[tuple[int, int]] = Counter()
    calls: Counter[tuple[int, int]] = Counter()
    kills = 0
    while kills < 4:
        said = killed_once(child, place, rng)
        durable.update(told(said, "durable"))
        calls.update(told(said, "call"))
        # What was told is in the file at the moment of the kill: records that count, and calls that were made.
        assert durable <= recorded(place)
        assert calls <= recorded(place, "call")
        if said[-1] == ["exit", "0"]:
            break  # it was quicker than the kill
        assert said[-1] in (["exit", "-9"], ["exit", "-15"])
        kills += 1
        if rng.random() < 0.3 and recorded(place):
            _tear(place, rng)
    said = child.run(place)
    assert said[-1] == ["exit", "0"]
    assert Path(place).read_bytes().endswith(b"\n")
    assert recorded(place) == Counter(dict.fromkeys(PAIRS, 1))
    # A process that dies between the writing and the telling has told too little, never twice.
    assert durable + Counter(told(said, "durable")) <= Counter(dict.fromkeys(PAIRS, 1))
    state = read_journal(place).state()
    assert (state.done, state.errors, state.doubled, list(state.calls_under_way())) == (len(PAIRS), 0, [], [])
    calls.update(told(said, "call"))
    assert state.repeated == recorded(place, "call").total() - len(PAIRS) >= calls.total() - len(PAIRS)


def _tear(path: str, rng: random.Random) -> None:
    """Add what a write leaves behind of which only the beginning reached the disk."""
    line = b'{"kind":"attempt","case":"case 0","attempt":0,"output":"yes","error":null}\n'
    with Path(path).open("ab") as file:
        file.write(line[: rng.randrange(1, len(line))])


# Cut and damaged


RECORDS = [
    CaseRecord("case 1"),
    CallRecord("case 1", 0),
    AttemptRecord("case 1", 0, output=OutputRecord("é\ud800")),
    AttemptRecord("case 1", 1, error=ErrorRecord("timeout")),
    RetryRecord("case 1", 1),
    CallRecord("case 1", 1),
    AttemptRecord("case 1", 1, output=OutputRecord("x")),
    EndRecord(complete=True),
]


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what only a power cut could tell, for tests that open a file a thousand times."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def content(place: str) -> bytes:
    """The bytes of a small journal."""
    with Journal.create(place, RunRecord(schema=2, run="r")) as journal:
        for record in RECORDS:
            journal.append_now(record)
    found = Path(place).read_bytes()
    Path(place).unlink()
    return found


@pytest.mark.usefixtures("no_sync")
def test_wherever_the_file_is_cut_the_whole_records_before_it_come_back(place: str, content: bytes) -> None:
    header_end = content.index(b"\n") + 1
    torn = Path(place + ".torn")
    for cut in range(len(content) + 1):
        Path(place).write_bytes(content[:cut])
        torn.unlink(missing_ok=True)
        if cut < header_end:
            with pytest.raises(InputError, match="no complete header"):
                Journal.reopen(place)
            assert Path(place).read_bytes() == content[:cut]
            continue
        whole = content[: content.rindex(b"\n", 0, cut) + 1]
        journal, state = Journal.reopen(place)
        with journal:
            journal.append_now(CallRecord("case 1", 9) if state.cases else EndRecord())
        assert state.lines == whole.count(b"\n")
        assert (state.end, state.torn) == (len(whole), cut - len(whole))
        after = Path(place).read_bytes()
        assert after.startswith(whole)
        added = [json.loads(line) for line in after[len(whole) :].splitlines()]
        assert [record["kind"] for record in added] == ["resumed", "call" if state.cases else "end"]
        assert added[0]["torn"] == state.torn
        assert (torn.read_bytes() if torn.exists() else b"").rstrip(b"\n") == content[len(whole) : cut]
        assert [line.record for line in read_journal(place)][1 : state.lines] == RECORDS[: state.lines - 1]
        assert read_journal(place).state().torn == 0


@pytest.mark.usefixtures("no_sync")
def test_damage_in_the_middle_is_refused_with_its_place_and_nothing_is_changed(place: str, content: bytes) -> None:
    last_line = content.rindex(b"\n", 0, -1) + 1
    for at in range(last_line):
        damaged = content[:at] + b"\x00" + content[at + 1 :]
        Path(place).write_bytes(damaged)
        line = content.count(b"\n", 0, at) + 1
        if at == last_line - 1:
            # The line feed before the last line: both are one torn line now.
            Journal.reopen(place)[0].close()
            assert Path(place + ".torn").exists()
            continue
        with pytest.raises(InputError, match=rf"run\.jsonl:{line}: "):
            Journal.reopen(place)
        assert Path(place).read_bytes() == damaged
        assert not Path(place + ".torn").exists()


def test_the_advice_for_damage_in_the_middle_works(place: str, content: bytes) -> None:
    lines = content.splitlines(keepends=True)
    Path(place).write_bytes(b"".join([*lines[:4], b"###\n", *lines[5:]]))
    with pytest.raises(InputError, match=r":5: the journal is damaged") as raised:
        Journal.reopen(place)
    advice = str(raised.value).rsplit(": ", 1)[1].replace("COPY", f"{place}.copy")
    subprocess.run(advice, shell=True, check=True)
    journal, state = Journal.reopen(f"{place}.copy")
    journal.close()
    assert (state.lines, state.done) == (4, 1)


# Disks that fail


class Failing:
    """Stands for a system call on the journal: the call with a given number fails, or writes only a part."""

    def __init__(self, path: str, real: Callable[..., Any], number: int, error: int, part: int | None = None) -> None:
        self.inode = Path(path).stat().st_ino
        self.real, self.number, self.error, self.part = real, number, error, part
        self.count = 0
        self.failed = False

    def __call__(self, descriptor: int, *data: memoryview) -> Any:
        if os.fstat(descriptor).st_ino != self.inode:
            return self.real(descriptor, *data)
        self.count += 1
        if self.count == self.number and self.part is not None:
            return self.real(descriptor, data[0][: min(self.part, len(data[0]) - 1)])
        if self.error and self.count >= self.number:
            self.failed = True
            raise OSError(self.error, os.strerror(self.error))
        return self.real(descriptor, *data)


async def until_it_fails(journal: Journal) -> tuple[list[int], list[JournalError]]:
    """Append from several tasks; return what was acknowledged, and how the others ended."""
    acknowledged, failures = [], []

    async def one(first: int) -> None:
        try:
            for attempt in range(first, first + 4):
                journal.note(CallRecord("a", attempt))
                await journal.append(AttemptRecord("a", attempt, started="t" * 50))
                acknowledged.append(attempt)
        except JournalError as error:
            failures.append(error)

    await asyncio.gather(*(one(first) for first in range(0, 20, 4)))
    return acknowledged, failures


def check_failed(journal: Journal, place: str, acknowledged: list[int], failures: list[JournalError]) -> None:
    """Check what must be true after any failure, and that the run can be finished."""
    assert len(failures) == 5  # nobody waits for ever, and nobody goes on
    for error in failures:
        assert "cannot write the journal" in str(error)
        assert "its records are intact" in str(error)
        assert f"faircount resume {place}" in str(error)
        assert error.exit_code == 4
    for add in (journal.note, journal.append_now):
        with pytest.raises(JournalError, match="cannot write the journal"):
            add(CallRecord("a", 0))
    journal.close()
    state = read_journal(place).state()
    assert state.torn == 0
    assert [attempt for attempt in range(20) if state.is_done("a", attempt)] == sorted(acknowledged)


def finish(place: str) -> None:
    journal, state = Journal.reopen(place)
    with journal:
        assert state.torn == 0
        for attempt in range(20):
            if not state.is_done("a", attempt):
                journal.append_now(AttemptRecord("a", attempt))
    state = read_journal(place).state()
    assert (state.done, state.doubled) == (20, [])


@pytest.mark.parametrize("part", [None, 1, 60, 10**9])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_whichever_write_fails_the_file_holds_exactly_what_was_acknowledged(
    place: str, monkeypatch: pytest.MonkeyPatch, error: int, part: int | None
) -> None:
    for number in range(1, 8):
        path = f"{place}{number}"
        with Journal.create(path, RunRecord(schema=2, run="r")) as journal:
            journal.append_now(CaseRecord("a"))
            with monkeypatch.context() as patch:
                failing = Failing(path, os.write, number, error, part)
                patch.setattr(os, "write", failing)
                acknowledged, failures = asyncio.run(until_it_fails(journal))
                if not failing.failed:  # all was written before
                    assert (len(acknowledged), failures) == (20, [])
                    continue
            check_failed(journal, path, acknowledged, failures)
        finish(path)


@pytest.mark.parametrize("number", range(1, 5))
def test_whichever_sync_fails_the_file_holds_exactly_what_was_acknowledged(
    place: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with Journal.create(place, RunRecord(schema=2, run="r")) as journal:
        journal.append_now(CaseRecord("a"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", Failing(place, os.fdatasync, number, errno.EIO))
            acknowledged, failures = asyncio.run(until_it_fails(journal))
        check_failed(journal, place, acknowledged, failures)
    finish(place)


def test_after_a_sync_that_failed_nothing_stays_that_was_not_synced_before(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The system may forget what it could not sync and say nothing of it later: reading it back proves nothing.
    async def main() -> None:
        with Journal.create(place, RunRecord(schema=2, run="r")) as journal:
            await journal.append(CaseRecord("a"))
            synced = Path(place).read_bytes()
            await journal.write(CallRecord("a", 0))
            monkeypatch.setattr(os, "fdatasync", Failing(place, os.fdatasync, 1, errno.EIO))
            with pytest.raises(JournalError):
                await journal.append(AttemptRecord("a", 0))
            assert Path(place).read_bytes() == synced

    asyncio.run(main())


def is_refused(journal: Journal) -> bool:
    """Tell whether a journal refuses a record."""
    try:
        journal.append_now(EndRecord())
    except JournalError:
        return True
    return False


def test_records_that_came_during_the_write_that_fails_are_refused_too(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, all_wait, real = threading.Event(), threading.Event(), os.write

    def slow_failure(descriptor: int, data: memoryview) -> int:
        if begun.is_set():  # there is room again, which comes too late
            return real(descriptor, data)
        begun.set()
        assert all_wait.wait(10)
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal.create(place, RunRecord(schema=2, run="r"))
    outcomes: list[bool] = []

    def add_meanwhile() -> None:
        assert begun.wait(10)
        outcomes.append(is_refused(journal))

    def release() -> None:
        while len(journal._queue.lines) < len(threads):
            time.sleep(0.001)
        all_wait.set()

    async def main() -> None:
        with pytest.raises(JournalError):
            await journal.append(EndRecord())

    threads = [threading.Thread(target=add_meanwhile) for _ in range(2)]
    with journal:
        monkeypatch.setattr(os, "write", slow_failure)
        for thread in (*threads, threading.Thread(target=release, daemon=True)):
            thread.start()
        asyncio.run(main())
        for thread in threads:
            thread.join(10)
    assert outcomes == [True, True]
    assert read_journal(place).state().lines == 1


@pytest.mark.parametrize("part", [1, 2, 37, 80])
def test_a_write_that_takes_only_a_part_is_gone_on_with(place: str, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    for number in range(1, 6):
        path = f"{place}{number}"
        with Journal.create(path, RunRecord(schema=2, run="r")) as journal, monkeypatch.context() as patch:
            journal.append_now(CaseRecord("a"))
            patch.setattr(os, "write", Failing(path, os.write, number, 0, part))
            acknowledged, failures = asyncio.run(until_it_fails(journal))
            assert (len(acknowledged), failures) == (20, [])
        assert read_journal(path).state().done == 20


def test_a_write_that_takes_nothing_is_a_failure_and_no_endless_loop(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal.create(place, RunRecord(schema=2, run="r")) as journal, monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 0)
        with pytest.raises(JournalError, match="nothing was written"):
            journal.append_now(EndRecord())


def test_a_file_that_cannot_even_be_cut_back_is_told_and_mended_by_going_on(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    with Journal.create(place, RunRecord(schema=2, run="r")) as journal:
        journal.append_now(CaseRecord("a"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", Failing(place, os.write, 1, errno.ENOSPC, 10))
            patch.setattr(os, "ftruncate", refuse)
            with pytest.raises(JournalError, match="its end may be torn; resuming repairs it"):
                journal.append_now(AttemptRecord("a", 0))
    journal, state = Journal.reopen(place)
    journal.close()
    assert (state.torn, state.done) == (10, 0)


def test_an_interruption_in_a_write_leaves_no_half_of_a_record(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def interrupted(descriptor: int, data: memoryview) -> int:
        real(descriptor, data[:7])
        raise KeyboardInterrupt

    with Journal.create(place, RunRecord(schema=2, run="r")) as journal:
        before = Path(place).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                journal.append_now(EndRecord())
        assert Path(place).read_bytes() == before
        with pytest.raises(JournalError):
            journal.append_now(EndRecord())


def test_a_failure_of_which_nobody_heard_is_raised_by_closing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(place, RunRecord(schema=2, run="r"))
    monkeypatch.setattr(os, "write", Failing(place, os.write, 1, errno.ENOSPC))
    journal.note(EndRecord())
    with pytest.raises(JournalError, match="No space left on device"):
        journal.close()
    assert read_journal(place).state().lines == 1


def test_closing_does_not_hide_the_error_that_ended_the_block(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError), Journal.create(place, RunRecord(schema=2, run="r")) as journal:
        monkeypatch.setattr(os, "write", Failing(place, os.write, 1, errno.ENOSPC))
        journal.note(EndRecord())
        raise ZeroDivisionError


def test_a_header_that_cannot_be_written_leaves_no_file(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("write", "fdatasync", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(UsageError, match="cannot create the journal: No space left on device"):
                Journal.create(place, RunRecord(schema=2, run="r"))
        assert not Path(place).exists()


@pytest.mark.parametrize("most_bytes", [700, 1024, 2000, 4096, 5000, 9999, 12288])
def test_a_process_that_may_write_no_more_stops_and_another_finishes(child: Child, place: str, most_bytes: int) -> None:
    said = child.run(place, most_bytes=most_bytes)
    assert said[-1] == ["exit", "4"]
    assert said[-2][0] == "failed"
    assert "File too large" in said[-2][2]
    # What became durable just then was told to tasks that the failure of another had cancelled.
    assert set(told(said, "durable")) <= set(recorded(place))
    assert Path(place).stat().st_size <= most_bytes
    said = child.run(place)
    assert said[-1] == ["exit", "0"]
    assert recorded(place) == Counter(dict.fromkeys(PAIRS, 1))
    assert not Path(place + ".torn").exists()


# Two processes


def test_two_processes_never_share_a_journal_and_the_lock_ends_with_the_first(child: Child, place: str) -> None:
    process = child.order(place, hold=True)
    said = child.says()
    assert any(words == ["holding"] for words in said)
    before = Path(place).read_bytes()
    with pytest.raises(UsageError, match=rf"another process \(pid {process}\) is writing this journal"):
        Journal.reopen(place)
    with pytest.raises(UsageError, match="already exists"):
        Journal.create(place, RunRecord(schema=2, run="r"))
    assert Path(place).read_bytes() == before
    os.kill(process, signal.SIGKILL)
    assert ["exit", "-9"] in said
    journal, state = Journal.reopen(place)
    journal.close()
    assert state.done == len(PAIRS)


def test_a_process_forked_by_the_writer_neither_writes_nor_keeps_the_lock(place: str) -> None:
    script = f"""
import os, signal, sys
from faircount.readers import EndRecord, ResumedRecord, RunRecord
from faircount.runs.journal import Journal, JournalError
journal = Journal.create({place!r}, RunRecord(schema=2, run="r"))
journal.note(EndRecord())  # a thread is at work
if os.fork() == 0:
    signal.alarm(20)  # rather than wait for ever for a lock
    try:
        journal.append_now(EndRecord())
        print("nothing was raised", flush=True)
    except JournalError as error:
        print(error, flush=True)
    journal.close()
    sys.stdin.read()
    os._exit(0)
sys.stdout.flush()
journal.append_now(ResumedRecord())
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert "belongs to the process that opened it" in writer.stdout.readline()
        assert writer.wait(10) == 0
        journal, state = Journal.reopen(place)  # although the fork lives on
        journal.close()
        assert state.kinds == {"run": 1, "end": 1, "resumed": 1}
        assert writer.stdin is not None
        writer.stdin.close()
