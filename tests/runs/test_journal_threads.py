"""The two threads of a journal against a disk that is slow, fails and forgets: what was told as durable is durable.

The disk here is a model beside the real file: it knows which bytes a sync has made safe. As Linux does, it tells an
error of writing back once, to whoever syncs first, and forgets what it could not write.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from faircount.readers import AttemptRecord, CallRecord, CaseRecord, RunRecord
from faircount.runs import Journal, JournalError, read_journal

_write, _fdatasync, _ftruncate = os.write, os.fdatasync, os.ftruncate


class Disk:
    """Stands for the system's calls on one file, with what would be there after the end of the machine."""

    def __init__(self, path: str, lots: random.Random | None = None) -> None:
        self.path = Path(path)
        self.lots = lots or random.Random(0)
        self.lock = threading.Lock()
        self.writes = self.syncs = 0
        self.fail_write = self.fail_sync = 0
        self.partly = False
        self.forgets_at_write = 0
        self.safe = self.path.read_bytes() if self.path.exists() else b""
        self._forgotten = 0
        """From where on the pages were lost; nothing behind it becomes safe by a later sync."""
        self._error_waits = False
        self.before: Callable[[str, int], None] = lambda *_: self._pause()

    def _pause(self) -> None:
        with self.lock:
            seconds = self.lots.choice([0, 0, 0.0005, 0.002]) * self.lots.random()
        if seconds:
            time.sleep(seconds)

    def _is_ours(self, descriptor: int) -> bool:
        return self.path.exists() and os.fstat(descriptor).st_ino == self.path.stat().st_ino

    def write(self, descriptor: int, data: Any) -> int:
        if not self._is_ours(descriptor):
            return _write(descriptor, data)
        with self.lock:
            self.writes += 1
            number = self.writes
        self.before("write", number)
        if number == self.forgets_at_write:
            with self.lock:
                self._error_waits = True
                self._forgotten = len(self.safe)
        if self.fail_write and number >= self.fail_write:
            if self.partly and number == self.fail_write and len(data) > 1:
                return _write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _write(descriptor, data)

    def fdatasync(self, descriptor: int) -> None:
        if not self._is_ours(descriptor):
            return _fdatasync(descriptor)
        with self.lock:
            self.syncs += 1
            number = self.syncs
            content = self.path.read_bytes()
        self.before("fdatasync", number)
        if self.fail_sync and number >= self.fail_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with self.lock:
            if self._error_waits:
                self._error_waits = False
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            now = self.path.read_bytes()
            if len(now) < len(content):
                content = now
            self.safe = content if not self._forgotten else content[: self._forgotten]
        return None

    def ftruncate(self, descriptor: int, length: int) -> None:
        _ftruncate(descriptor, length)

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("write", "fdatasync", "ftruncate"):
            patch.setattr(os, name, getattr(self, name))

    def has(self, number: int) -> bool:
        """Tell whether the record of an attempt would survive the end of the machine."""
        with self.lock:
            return f'"attempt":{number},'.encode() in self.safe


def attempt(number: int) -> AttemptRecord:
    return AttemptRecord("a", number, started="t" * (number % 7 * 30))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "run.jsonl")


def begun(place: str) -> Journal:
    journal = Journal.create(place, RunRecord(schema=2, run="r"))
    journal.append_now(CaseRecord("a"))
    return journal


class Users:
    """Several threads that use one journal at once: event loops that wait or go on meanwhile, and plain threads."""

    def __init__(self, journal: Journal, disk: Disk, each: int = 12) -> None:
        self.journal, self.disk, self.each = journal, disk, each
        self.told: list[int] = []
        self.refused: list[JournalError] = []
        self.wrong: list[str] = []
        self.given = 0
        self._lock = threading.Lock()

    def _next(self) -> int:
        with self._lock:
            self.given += 1
            return self.given - 1

    def _heard(self, number: int) -> None:
        with self._lock:
            self.told.append(number)
            if not self.disk.has(number):
                self.wrong.append(f"{number} was told as durable and is not")

    async def _waiting(self) -> None:
        for _ in range(self.each):
            number = self._next()
            await self.journal.write(CallRecord("a", number))
            await self.journal.append(attempt(number))
            self._heard(number)

    async def _going_on(self) -> None:
        settling = []
        for _ in range(self.each):
            number = self._next()
            self.journal.note(CallRecord("a", number))
            future = self.journal.adding(attempt(number))
            future.add_done_callback(
                lambda done, number=number: None if done.exception() else self._heard(number)  # type: ignore[misc]
            )
            settling.append(future)
            await asyncio.sleep(0)
        await asyncio.gather(*settling)

    def _in_a_loop(self) -> None:
        async def both() -> None:
            outcomes = await asyncio.wait_for(
                asyncio.gather(self._waiting(), self._going_on(), self._waiting(), return_exceptions=True), 30
            )
            self._take(outcomes)

        asyncio.run(both())

    def _in_a_thread(self) -> None:
        try:
            for _ in range(self.each):
                number = self._next()
                self.journal.append_now(attempt(number))
                self._heard(number)
        except JournalError as error:
            self._take([error])

    def _take(self, outcomes: Iterable[Any]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, JournalError):
                self.refused.append(outcome)
            elif outcome is not None:
                self.wrong.append(repr(outcome))

    def begin(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=work) for work in (self._in_a_loop, self._in_a_thread, self._in_a_loop)]
        for thread in threads:
            thread.start()
        return threads


def check(users: Users, disk: Disk, place: str) -> None:
    """Check that what was told is in the file and on the disk, and that the file is whole and can be finished."""
    assert users.wrong == []
    assert len(users.told) == len(set(users.told))
    content = Path(place).read_bytes()
    for number in users.told:
        assert disk.has(number)
        assert f'"attempt":{number},'.encode() in content
    lines = content.split(b"\n")
    assert lines[-1] == b""
    found = [record["attempt"] for record in map(json.loads, lines[:-1]) if record["kind"] == "attempt"]
    assert len(found) == len(set(found))
    assert set(users.told) <= set(found) <= set(range(users.given))
    journal, state = Journal.reopen(place)
    with journal:
        assert state.torn == 0
        for number in range(users.given):
            if not state.is_done("a", number):
                journal.append_now(attempt(number))
    state = read_journal(place).state()
    assert (state.done, state.doubled) == (users.given, [])


def _faults(disk: Disk, lots: random.Random) -> str:
    fault = lots.choice(["write", "half a write", "sync", "both", "forgets", "forgets and write", "none"])
    first = lots.randrange(1, 25)
    if "write" in fault or fault == "both":
        disk.fail_write = disk.writes + first
        disk.partly = "half" in fault
    if fault in ("sync", "both"):
        disk.fail_sync = disk.syncs + lots.randrange(1, 12)
    if "forgets" in fault:
        disk.forgets_at_write = disk.writes + lots.randrange(1, first + 1)
    return fault


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(n, marks=pytest.mark.slow) for n in range(40, 1500))])
def test_whatever_fails_at_whatever_moment_what_was_told_as_durable_is(place: str, seed: int) -> None:
    lots = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        journal = begun(place)
        disk = Disk(place, lots)
        disk.put_in(patch)
        fault = _faults(disk, lots)
        users = Users(journal, disk)
        threads = users.begin()
        closes_early = lots.random() < 0.3
        if closes_early:
            time.sleep(lots.random() * 0.03)
            with contextlib.suppress(JournalError):
                journal.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "somebody waits for ever"
        with contextlib.suppress(JournalError):
            journal.close()
    if fault == "none" and not closes_early:
        assert users.refused == []
        assert len(users.told) == users.given == 7 * users.each
    check(users, disk, place)


# -- moments that chance seldom finds ---------------------------------------------------------------------------


class Moment:
    """Holds one call on the disk until a test lets it go."""

    def __init__(self, disk: Disk, call: str, number: int) -> None:
        self.reached, self.let_go = threading.Event(), threading.Event()
        before = disk.before

        def held(called: str, count: int) -> None:
            before(called, count)
            if (called, count) == (call, number):
                self.reached.set()
                assert self.let_go.wait(20)

        disk.before = held


@pytest.fixture
def disk(place: str, monkeypatch: pytest.MonkeyPatch) -> Disk:
    begun(place).close()
    made = Disk(place)
    made.before = lambda *_: None
    made.put_in(monkeypatch)
    return made


def reopened(place: str) -> Journal:
    return Journal.reopen(place)[0]


def outcomes_of(journal: Journal, meanwhile: Callable[[], Any], *numbers: int) -> list[Any]:
    """Add records, each when the one before is on its way, let something happen, and return what came of each."""

    async def work() -> list[Any]:
        settling = [journal.adding(attempt(numbers[0]))]
        happening = asyncio.ensure_future(asyncio.to_thread(meanwhile))
        await asyncio.sleep(0.03)
        for number in numbers[1:]:
            with contextlib.suppress(JournalError):
                settling.append(journal.adding(attempt(number)))
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*settling, return_exceptions=True)
        await happening
        return outcomes

    return asyncio.run(work())


def test_a_write_that_fails_while_a_sync_is_under_way_takes_nothing_from_it(place: str, disk: Disk) -> None:
    journal = reopened(place)
    moment = Moment(disk, "fdatasync", disk.syncs + 1)
    disk.fail_write = disk.writes + 2

    def meanwhile() -> None:
        assert moment.reached.wait(20)
        while not journal._failure:
            time.sleep(0.001)
        moment.let_go.set()

    first, second = outcomes_of(journal, meanwhile, 0, 1)
    journal.close()
    assert first is None
    assert isinstance(second, JournalError)
    assert disk.has(0)
    state = read_journal(place).state()
    assert (state.torn, state.is_done("a", 0), state.is_done("a", 1)) == (0, True, False)


def test_what_was_written_before_a_write_that_fails_is_synced_and_told(place: str, disk: Disk) -> None:
    # The first is being synced, the second is written and waits for its own sync, the third cannot be written.
    journal = reopened(place)
    moment = Moment(disk, "fdatasync", disk.syncs + 1)
    disk.fail_write = disk.writes + 3

    async def work() -> list[Any]:
        settling = [journal.adding(attempt(0))]
        assert await asyncio.to_thread(moment.reached.wait, 20)
        for number in (1, 2):
            writes = disk.writes
            settling.append(journal.adding(attempt(number)))
            while disk.writes == writes:
                await asyncio.sleep(0.001)
        while not journal._failure:
            await asyncio.sleep(0.001)
        moment.let_go.set()
        async with asyncio.timeout(20):
            return await asyncio.gather(*settling, return_exceptions=True)

    first, second, third = asyncio.run(work())
    journal.close()
    assert (first, second, type(third)) == (None, None, JournalError)
    assert disk.has(0)
    assert disk.has(1)
    state = read_journal(place).state()
    assert [state.is_done("a", number) for number in range(3)] == [True, True, False]


def test_a_sync_that_fails_while_a_write_is_under_way_cuts_that_off_too(place: str, disk: Disk) -> None:
    journal = reopened(place)
    synced = Path(place).read_bytes()
    sync = Moment(disk, "fdatasync", disk.syncs + 1)
    write = Moment(disk, "write", disk.writes + 2)
    disk.fail_sync = disk.syncs + 1

    def meanwhile() -> None:
        assert sync.reached.wait(20)
        assert write.reached.wait(20)
        sync.let_go.set()
        time.sleep(0.02)
        write.let_go.set()

    outcomes = outcomes_of(journal, meanwhile, 0, 1)
    journal.close()
    assert [type(outcome) for outcome in outcomes] == [JournalError, JournalError]
    assert Path(place).read_bytes() == synced


def test_an_error_that_the_system_tells_once_is_heard_by_those_who_wait_for_the_sync(place: str, disk: Disk) -> None:
    # The disk loses what the first record is in. That is told once: to the sync for the record, and to no other.
    journal = reopened(place)
    moment = Moment(disk, "fdatasync", disk.syncs + 1)
    disk.forgets_at_write = disk.writes + 1
    disk.fail_write = disk.writes + 2

    def meanwhile() -> None:
        assert moment.reached.wait(20)
        while not journal._failure:
            time.sleep(0.001)
        moment.let_go.set()

    outcomes = outcomes_of(journal, meanwhile, 0, 1)
    journal.close()
    assert not disk.has(0)
    assert [type(outcome) for outcome in outcomes] == [JournalError, JournalError]


@pytest.mark.parametrize("fails", ["", "write", "sync"])
def test_to_close_during_a_write_and_a_sync_waits_for_both(place: str, disk: Disk, fails: str) -> None:
    journal = reopened(place)
    sync = Moment(disk, "fdatasync", disk.syncs + 1)
    write = Moment(disk, "write", disk.writes + 2)
    if fails == "write":
        disk.fail_write = disk.writes + 2
    elif fails == "sync":
        disk.fail_sync = disk.syncs + 1

    def meanwhile() -> None:
        assert sync.reached.wait(20)
        assert write.reached.wait(20)
        closing = threading.Thread(target=journal.close)
        closing.start()
        time.sleep(0.02)
        assert closing.is_alive()
        write.let_go.set()
        sync.let_go.set()
        closing.join(20)
        assert not closing.is_alive()

    outcomes = outcomes_of(journal, meanwhile, 0, 1)
    expected = {"": [None, None], "write": [None, JournalError], "sync": [JournalError, JournalError]}[fails]
    assert [outcome if outcome is None else type(outcome) for outcome in outcomes] == expected
    state = read_journal(place).state()
    assert state.torn == 0
    assert [state.is_done("a", number) for number in (0, 1)] == [outcome is None for outcome in outcomes]
    disk.fail_write = disk.fail_sync = 0
    reopened(place).close()


# -- interrupts -------------------------------------------------------------------------------------------------


def test_an_interrupt_while_a_record_is_written_is_not_hidden_by_the_journal(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    for name in ("write", "fdatasync"):
        journal = begun(f"{place}.{name}")
        before = Path(journal.path).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                journal.append_now(attempt(0))
        journal.close()
        assert Path(journal.path).read_bytes() == before
        reopened(journal.path).close()


def test_an_interrupt_before_the_threads_are_started_leaves_a_journal_that_can_be_closed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    journal = begun(place)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.note(CallRecord("a", 0))
    journal.close()
    assert read_journal(place).state().kinds["call"] == 1
