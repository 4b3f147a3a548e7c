"""The run journal: what is written, what is read back, and what it comes to."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import math
import os
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import InputError, UsageError
from faircount.readers import (
    AttemptRecord,
    CallRecord,
    CaseRecord,
    Doubled,
    EndRecord,
    ErrorRecord,
    OtherRecord,
    OutputRecord,
    ResumedRecord,
    RetryRecord,
    RunRecord,
    State,
    UsageRecord,
    VerdictRecord,
    decode,
    encode_record,
)
from faircount.runs import Journal, JournalError, read_journal, state_of
from faircount.runs import journal as journal_module

HEADER = RunRecord(schema=2, run="a-run", version="1", started="2026-01-01T00:00:00Z", settings={"paths": ["tests"]})


def case(name: str) -> CaseRecord:
    return CaseRecord(name, tags=[], place="test_x.py:1")


call, retry = CallRecord, RetryRecord


def attempt(name: str, number: int, *, text: str = "yes", error: str | None = None) -> AttemptRecord:
    failed = None if error is None else ErrorRecord("timeout", error)
    return AttemptRecord(name, number, output=OutputRecord(text), error=failed)


def lines_of(path: str) -> list[Any]:
    content = Path(path).read_bytes()
    assert content.endswith(b"\n")
    return [decode(line) for line in content.splitlines(keepends=True)]


def written(path: Path, records: Iterable[Any]) -> State:
    """Write a file by hand and return what it comes to."""
    told = [msgspec.to_builtins(record) for record in [HEADER, *records]]
    path.write_text("".join(json.dumps(record) + "\n" for record in told), encoding="ascii")
    return read_journal(str(path)).state()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "run.jsonl")


# Writing


def test_a_new_journal_holds_its_header_and_only_its_owner_may_read_it(place: str) -> None:
    with Journal.create(place, HEADER):
        assert lines_of(place) == [HEADER]
        assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600


def test_the_header_and_the_name_of_the_file_are_durable_before_create_returns(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def sync(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
            real(descriptor)

        monkeypatch.setattr(os, name, sync)

    watch("fsync")
    watch("fdatasync")
    Journal.create(place, HEADER).close()
    assert synced == [Path(place).resolve(), Path(place).parent.resolve()]


def test_a_file_that_is_there_is_never_written_over(place: str) -> None:
    Path(place).write_text("mine")
    with pytest.raises(UsageError, match=r"already exists.*faircount resume .*run\.jsonl"):
        Journal.create(place, HEADER)
    assert Path(place).read_text() == "mine"


@pytest.mark.parametrize("left", [b"", b'{"ki', b'{"kind":"run","schema":2,"se', bytes(100)])
def test_a_file_in_which_no_run_has_begun_is_begun(place: str, left: bytes) -> None:
    Path(place).write_bytes(left)
    Journal.create(place, HEADER).close()
    Journal.create(place + "2", HEADER).close()
    assert Path(place).read_bytes() == Path(place + "2").read_bytes()


def between_opening_and_locking(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Let something happen after a journal was opened and before it is locked, once."""
    lock, happened = fcntl.flock, list[bool]()

    def flock(descriptor: int, how: int) -> None:
        if not happened:
            happened.append(True)
            do()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_new_file_that_another_process_takes_first_is_left_to_it(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[Journal] = []
    between_opening_and_locking(monkeypatch, lambda: others.append(Journal.create(place, HEADER)))
    with pytest.raises(UsageError, match="is writing this journal"):
        Journal.create(place, HEADER)
    others[0].close()
    assert len(lines_of(place)) == 1


def test_a_new_file_in_which_another_process_has_run_meanwhile_is_left_as_it_is(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_opening_and_locking(monkeypatch, lambda: Journal.create(place, HEADER).close())
    with pytest.raises(UsageError, match="already exists"):
        Journal.create(place, HEADER)
    assert len(lines_of(place)) == 1


def test_nothing_is_written_to_a_file_that_another_process_has_removed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_opening_and_locking(monkeypatch, Path(place).unlink)
    with pytest.raises(UsageError):
        Journal.create(place, HEADER)
    assert not Path(place).exists()


def test_a_journal_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot create the journal: No such file or directory"):
        Journal.create(str(tmp_path / "nowhere" / "run.jsonl"), HEADER)


def test_appended_records_are_in_the_file_when_append_returns(place: str) -> None:
    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            await journal.append(case("a"))
            assert lines_of(place)[1:] == [case("a")]
            await journal.append(attempt("a", 0))
            assert lines_of(place)[1:] == [case("a"), attempt("a", 0)]

    asyncio.run(main())


def test_records_stand_in_the_order_in_which_they_were_added(place: str) -> None:
    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            journal.note(case("a"))
            journal.note(call("a", 0))
            await journal.append(attempt("a", 0))
            await journal.write(call("a", 1))
            journal.note(call("a", 2))
            journal.append_now(attempt("a", 1))
            journal.note(EndRecord(complete=False))

    asyncio.run(main())
    kinds = [record.kind for record in lines_of(place)]
    assert kinds == ["run", "case", "call", "attempt", "call", "call", "attempt", "end"]


def test_records_can_be_added_without_an_event_loop(place: str) -> None:
    with Journal.create(place, HEADER) as journal:
        journal.note(case("a"))
        journal.append_now(attempt("a", 0))
        assert lines_of(place)[1:] == [case("a"), attempt("a", 0)]
        journal.note(call("a", 1))
    assert lines_of(place)[3:] == [call("a", 1)]


def test_a_note_is_written_soon_although_nobody_waits(place: str) -> None:
    with Journal.create(place, HEADER) as journal:
        journal.note(case("a"))
        deadline = time.monotonic() + 10
        while len(lines_of(place)) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert lines_of(place)[1:] == [case("a")]


def test_threads_may_add_records_at_the_same_time(place: str) -> None:
    with Journal.create(place, HEADER) as journal:

        def add(name: str) -> None:
            journal.append_now(case(name))
            for number in range(20):
                journal.append_now(attempt(name, number))

        threads = [threading.Thread(target=add, args=(f"c{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert read_journal(place).state().done == 80


def test_one_sync_serves_all_records_that_came_during_the_one_before(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, writes = [], []
    real_sync, real_write = os.fdatasync, os.write

    def slow_sync(descriptor: int) -> None:
        syncs.append(descriptor)
        time.sleep(0.005)
        real_sync(descriptor)

    def counted_write(descriptor: int, data: memoryview) -> int:
        writes.append(bytes(data))
        return real_write(descriptor, data)

    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            monkeypatch.setattr(os, "fdatasync", slow_sync)
            monkeypatch.setattr(os, "write", counted_write)
            journal.note(case("a"))

            async def one(task: int) -> None:
                for number in range(10):
                    await journal.append(attempt("a", task * 10 + number))

            await asyncio.gather(*map(one, range(64)))

    asyncio.run(main())
    # 640 records of 64 tasks take ten rounds of one sync; half as many again is left to the scheduler.
    assert len(syncs) <= 20
    assert len(writes) <= 20
    assert all(data.endswith(b"\n") for data in writes)
    assert read_journal(place).state().done == 640


def test_the_event_loop_goes_on_while_the_disk_is_slow(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def blocked_sync(_: int) -> None:
        assert released.wait(10)

    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            monkeypatch.setattr(os, "fdatasync", blocked_sync)
            adding = asyncio.create_task(journal.append(case("a")))
            for _ in range(50):
                await asyncio.sleep(0.0002)
            assert not adding.done()
            released.set()
            await adding

    asyncio.run(main())


def test_notes_alone_are_not_synced_and_written_records_do_not_wait_for_a_sync(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []

    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            monkeypatch.setattr(os, "fdatasync", syncs.append)
            await journal.write(case("a"))
            assert lines_of(place)[1:] == [case("a")]
            assert syncs == []
        assert len(syncs) == 1  # closing syncs

    asyncio.run(main())


def test_a_caller_who_stops_waiting_takes_nothing_back_and_disturbs_nobody(place: str) -> None:
    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            journal.note(case("a"))
            tasks = [asyncio.create_task(journal.append(attempt("a", number))) for number in range(3)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]

    asyncio.run(main())
    assert read_journal(place).state().done == 3


def test_a_journal_can_be_used_by_one_event_loop_after_another(place: str) -> None:
    async def add(journal: Journal, number: int) -> None:
        await journal.append(attempt("a", number))
        journal.note(call("a", number + 1))

    with Journal.create(place, HEADER) as journal:
        journal.append_now(case("a"))
        for number in range(3):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(add(journal, number))
            loop.close()
    assert read_journal(place).state().done == 3


def test_an_event_loop_that_stopped_too_early_does_not_hold_up_the_next_one(place: str) -> None:
    with Journal.create(place, HEADER) as journal:
        loop = asyncio.new_event_loop()

        def stop_and_note() -> None:
            loop.stop()
            journal.note(case("a"))

        loop.call_soon(stop_and_note)
        loop.run_forever()
        loop.close()

        async def add() -> None:
            async with asyncio.timeout(10):
                await journal.append(attempt("a", 0))

        asyncio.run(add())
        assert lines_of(place)[1:] == [case("a"), attempt("a", 0)]


def test_a_closed_journal_takes_nothing_and_can_be_closed_again(place: str) -> None:
    journal = Journal.create(place, HEADER)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.append_now(case("a"))
    with pytest.raises(JournalError, match="is closed"):
        journal.note(case("a"))
    assert len(lines_of(place)) == 1


# What may stand in a record


HOSTILE = ["half a pair \ud800", "\udc00\ud800", "line\nfeed\r\u2028", "\x00\x1b[31m", "é 😀 \uffff", '"\\', ""]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_a_target_said_comes_back_as_it_was(place: str, text: str) -> None:
    with Journal.create(place, HEADER) as journal:
        journal.append_now(case(text))
        journal.append_now(attempt(text, 0, text=text))
        journal.append_now(attempt(text, 1, error=text))
    assert Path(place).read_bytes().isascii()
    assert [line.record for line in read_journal(place)][1:] == [
        case(text),
        attempt(text, 0, text=text),
        attempt(text, 1, error=text),
    ]
    state = read_journal(place).state()
    assert (list(state.cases), state.done, state.errors) == ([text], 2, 1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_is_one_ascii_line_that_the_standard_library_reads_alike(value: Any) -> None:
    line = encode_record(CaseRecord("x", entry={"value": value}))
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
    # Two halves of a pair that come one behind the other are one character in JSON.
    assert json.loads(line)["entry"]["value"] == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [{"score": math.nan}]])
def test_numbers_that_are_not_finite_are_refused_and_the_journal_goes_on(place: str, value: Any) -> None:
    with Journal.create(place, HEADER) as journal:
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            journal.append_now(CaseRecord("a", entry={"value": value}))
        journal.append_now(case("b"))
    assert list(read_journal(place).state().cases) == ["b"]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "record",
    [
        lambda odd: AttemptRecord("a", 0, waited=odd),
        lambda odd: AttemptRecord("a", 0, output=OutputRecord("text", [], [], odd)),
        lambda odd: AttemptRecord("a", 0, output=OutputRecord("text", [{"arguments": odd}], [], 0.1)),
        lambda odd: AttemptRecord("a", 0, output=OutputRecord("text", [], [odd], 0.1)),
        lambda odd: AttemptRecord("a", 0, usage=UsageRecord(cost=odd)),
        lambda odd: AttemptRecord("a", 0, verdicts=[VerdictRecord(metric="m", verdict="failure", score=odd)]),
        lambda odd: AttemptRecord(
            "a", 0, verdicts=[VerdictRecord(metric="m", verdict="failure", usage=UsageRecord(cost=odd))]
        ),
        lambda odd: AttemptRecord("a", 0, note={"x": odd}),
        lambda odd: AttemptRecord("a", 0, messages=[{"role": "user", "content": [odd]}]),
    ],
)
def test_no_number_of_an_attempt_becomes_null_on_the_way(record: Callable[[float], AttemptRecord], odd: float) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        encode_record(record(odd))
    assert json.loads(encode_record(record(0.5))) == json.loads(msgspec.json.encode(record(0.5)))


def test_who_stops_waiting_takes_nothing_from_those_whose_records_are_written_together(place: str) -> None:
    async def main() -> None:
        with Journal.create(place, HEADER) as journal:
            journal.append_now(case("a"))
            first, second = (asyncio.create_task(journal.append(AttemptRecord("a", number))) for number in (0, 1))
            await asyncio.sleep(0)
            first.cancel()
            await second
            with pytest.raises(asyncio.CancelledError):
                await first

    asyncio.run(main())
    assert [read_journal(place).state().is_done("a", number) for number in (0, 1)] == [True, True]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "cannot be written as JSON"),
        (nested(200), "nested more than"),
        (nested(100_000), "nested too deeply"),
    ],
)
def test_what_could_not_be_read_back_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"a record of kind case .*{why}"):
        encode_record(CaseRecord("a", entry={"value": value}))


def test_a_record_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.readers.journals.MAX_LINE_BYTES", 1000)
    assert len(encode_record(CaseRecord("y" * 900))) < 1000
    with pytest.raises(ValueError, match="the limit is 1,000"):
        encode_record(CaseRecord("y" * 1000))


def test_mappings_tuples_and_structs_are_written_as_plain_data() -> None:
    record = CaseRecord("x", entry=MappingProxyType({"a": (1, Doubled("c", None, 2))}))
    decoded = json.loads(encode_record(record))
    assert decoded["entry"] == {"a": [1, {"case": "c", "attempt": None, "line": 2}]}


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.sampled_from("é🙂\ud83d")
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters(codec=None), max_size=5) | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_whatever_way_a_record_is_encoded_its_line_is_ascii_and_means_what_the_standard_library_writes(
    fields: dict[str, Any],
) -> None:
    record = CaseRecord("x", entry=fields)
    try:
        expected = json.dumps({"kind": "case", "case": "x", "entry": fields}, allow_nan=False)
    except ValueError:
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            encode_record(record)
        return
    line = encode_record(record)
    assert (line.isascii(), line.count(b"\n"), line[-1:]) == (True, 1, b"\n")
    assert json.loads(line) == json.loads(expected)


# Reading


def test_a_reader_tells_line_number_and_byte_offset_of_every_record(place: str, tmp_path: Path) -> None:
    written(tmp_path / "run.jsonl", [case("a"), attempt("a", 0), attempt("a", 1)])
    content = Path(place).read_bytes()
    reader = read_journal(place)
    lines = list(reader)
    assert [line.number for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert decode(content[line.offset :].split(b"\n")[0] + b"\n") == line.record
    assert [line.number for line in reader] == [1, 2, 3, 4]  # it can be read again
    assert reader.header == lines[0].record


def test_records_can_be_fetched_in_the_order_of_cases(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    state = written(path, [case("a"), case("b"), attempt("b", 0), attempt("a", 1), attempt("a", 0)])
    offsets = [state.offset_of(name, number) for name, number in (("a", 0), ("a", 1), ("b", 0))]
    found = [offset for offset in offsets if offset is not None]
    fetched = read_journal(str(path)).records_at(found, AttemptRecord)
    assert [(record.case, record.attempt) for record in fetched] == [("a", 0), ("a", 1), ("b", 0)]
    assert state.offset_of("a", 2) is None
    assert state.offset_of("c", 0) is None
    cases = read_journal(str(path)).records_at(state.cases.values(), CaseRecord)
    assert [record.case for record in cases] == ["a", "b"]


def test_a_place_where_no_record_begins_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written(path, [case("a")])
    with pytest.raises(InputError, match="no record begins at byte 3"):
        list(read_journal(str(path)).records_at([3], CaseRecord))


def test_a_torn_end_is_told_and_left_alone_by_readers(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written(path, [case("a")])
    with path.open("ab") as file:
        file.write(b'{"kind":"att')
    before = path.read_bytes()
    reader = read_journal(str(path))
    assert len(list(reader)) == 2
    assert reader.torn == 12
    assert (reader.state().torn, reader.state().end) == (12, len(before) - 12)
    assert path.read_bytes() == before


def test_a_journal_can_be_read_while_it_is_written(place: str) -> None:
    with Journal.create(place, HEADER) as journal:
        journal.append_now(case("a"))
        assert read_journal(place).state().done == 0
        journal.append_now(attempt("a", 0))
        assert read_journal(place).state().done == 1


NO_JOURNALS = {
    "empty": (b"", "no complete header"),
    "half a header": (b'{"kind":"run","sch', "no complete header"),
    "a header without an end": (b'{"kind":"run","schema":1}', "no complete header"),
    "not JSON": (b"hello\n{}\n", r":1: not the header"),
    "a results file": (b'{"id": 1, "success": true}\n', r":1: not a run journal"),
    "a list": (b"[1]\n", r":1: not the header"),
    "newer": (b'{"kind":"run","schema":3}\n', r":1: the journal has schema 3, but this version reads schemas 1 and 2"),
    "no schema": (b'{"kind":"run"}\n', r":1: the journal has schema None"),
    "a truth for a number": (b'{"kind":"run","schema":true}\n', r":1: the journal has schema True"),
}


@pytest.mark.parametrize(("content", "why"), NO_JOURNALS.values(), ids=NO_JOURNALS)
def test_what_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        Journal.reopen(str(path))
    with pytest.raises(InputError, match=why):
        read_journal(str(path))
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["x.jsonl"]


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("nothing", "no such file"), ("", "not a regular file"), ("pipe", "not a regular file")):
        with pytest.raises(InputError, match=why):
            Journal.reopen(str(tmp_path / name))
        with pytest.raises(InputError, match=why):
            read_journal(str(tmp_path / name))


# What the records come to


def test_attempts_errors_and_calls_under_way_are_told_apart(tmp_path: Path) -> None:
    records = [
        case("a"),
        case("b"),
        call("a", 0),
        attempt("a", 0),
        call("a", 1),
        attempt("a", 1, error="no"),
        call("b", 0),
    ]
    state = written(tmp_path / "x", [*records, OtherRecord("weather")])
    assert list(state.cases) == ["a", "b"]
    assert (state.done, state.errors, state.lines) == (2, 1, 9)
    assert state.kinds == {"run": 1, "case": 2, "call": 3, "attempt": 2, "weather": 1}
    assert [state.is_done("a", number) for number in range(3)] == [True, True, False]
    assert list(state.calls_under_way()) == [("b", 0)]
    assert list(state.failed_attempts()) == [("a", 1)]
    assert state.complete is None


def test_a_retry_makes_the_record_before_it_void(tmp_path: Path) -> None:
    path = tmp_path / "x"
    records = [case("a"), attempt("a", 0, error="no"), retry("a", 0)]
    state = written(path, records)
    assert (state.done, state.errors, state.void, state.is_done("a", 0)) == (0, 0, 1, False)
    state = written(path, [*records, call("a", 0), attempt("a", 0)])
    assert (state.done, state.errors, state.void, state.doubled) == (1, 0, 1, [])
    counting = [line.number for line in read_journal(str(path)) if state.counts(line)]
    assert counting == [6]


def test_of_two_records_of_one_attempt_the_first_counts_and_the_second_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    state = written(path, [case("a"), attempt("a", 3), attempt("a", 3, error="late"), case("a")])
    assert (state.done, state.errors) == (1, 0)
    assert state.doubled == [Doubled("a", 3, 4), Doubled("a", None, 5)]
    assert [line.number for line in read_journal(str(path)) if state.counts(line)] == [3]


def test_calls_made_again_are_counted_as_repeated(tmp_path: Path) -> None:
    again = [case("a"), call("a", 0), ResumedRecord(), call("a", 0), ResumedRecord(), call("a", 0)]
    assert written(tmp_path / "x", again).repeated == 2
    after_retry = [case("a"), call("a", 0), attempt("a", 0, error="no"), retry("a", 0), call("a", 0), attempt("a", 0)]
    assert written(tmp_path / "x", after_retry).repeated == 0


def test_a_run_is_complete_when_its_last_end_says_so_and_nobody_went_on(tmp_path: Path) -> None:
    end = EndRecord(complete=True)
    assert written(tmp_path / "x", [end]).complete is True
    assert written(tmp_path / "x", [EndRecord(complete=False)]).complete is False
    assert written(tmp_path / "x", [end, ResumedRecord()]).complete is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"case":"a"}', "has no kind"),
        ('{"kind":["attempt"]}', "has no kind"),
        ('{"kind":"case"}', "does not name its case"),
        ('{"kind":"attempt","case":"a","attempt":"0"}', "does not name its case and attempt"),
        ('{"kind":"attempt","case":"a","attempt":-1}', "does not name its case and attempt"),
        ('{"kind":"attempt","case":"a","attempt":1e3}', "does not name its case and attempt"),
        ('{"kind":"attempt","case":"a","attempt":99999999999999999999}', "does not name its case and attempt"),
        ('{"kind":"attempt","case":"b\\u001b","attempt":0}', r"its case, b\\x1b, comes before it"),
        ('{"kind":"run","schema":1}', "a second header"),
    ],
)
def test_a_record_that_makes_no_sense_is_an_error_with_its_place(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "x"
    written(path, [case("a")])
    with path.open("a") as file:
        file.write(line + "\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match=rf"x:3: .*{why}"):
        Journal.reopen(str(path))
    assert path.read_bytes() == before


Step = tuple[str, str, int, bool]
STEPS = st.lists(
    st.tuples(st.sampled_from(["call", "attempt", "retry"]), st.sampled_from("ab"), st.integers(0, 2), st.booleans()),
    max_size=30,
)


def plainly(steps: list[Step]) -> dict[str, Any]:
    """Count the same by keeping whole lists: what came of every attempt since its last retry."""
    history: dict[tuple[str, int], list[str]] = {}
    doubled = repeated = void = 0
    for kind, name, number, failed in steps:
        events = history.setdefault((name, number), [])
        has_record = "error" in events or "good" in events
        if kind == "call":
            repeated += "call" in events and not has_record
            events.append("call")
        elif kind == "attempt" and has_record:
            doubled += 1
        elif kind == "attempt":
            events.append("error" if failed else "good")
        elif has_record:
            void += 1
            events.clear()
    results = {pair: [event for event in events if event != "call"] for pair, events in history.items()}
    return {
        "done": {pair for pair, found in results.items() if found},
        "errors": {pair for pair, found in results.items() if found == ["error"]},
        "under way": {pair for pair, found in results.items() if not found and history[pair]},
        "doubled": doubled,
        "repeated": repeated,
        "void": void,
    }


@given(STEPS)
def test_any_order_of_records_comes_to_what_plain_counting_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    records: list[Any] = [case("a"), case("b")]
    for kind, name, number, failed in steps:
        error = "no" if failed else None
        numbered = {"call": call(name, number), "retry": retry(name, number)}
        records.append(numbered.get(kind) or attempt(name, number, error=error))
    state = written(tmp_path_factory.getbasetemp() / "steps.jsonl", records)
    expected = plainly(steps)
    pairs = [(name, number) for name in "ab" for number in range(3)]
    assert {pair for pair in pairs if state.is_done(*pair)} == expected["done"]
    assert set(state.failed_attempts()) == expected["errors"]
    assert set(state.calls_under_way()) == expected["under way"]
    assert (state.done, state.errors) == (len(expected["done"]), len(expected["errors"]))
    assert (len(state.doubled), state.repeated, state.void) == tuple(
        expected[name] for name in ("doubled", "repeated", "void")
    )


def test_no_text_of_the_records_is_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x"
    records: list[Any] = [case(f"case {n}") for n in range(200)]
    records += [attempt(f"case {n}", k, text="t" * 2000) for n in range(200) for k in range(20)]
    written(path, records)
    with path.open("rb") as file:
        tracemalloc.start()
        state = state_of(file, str(path))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert state.done == 4000
    # 8 MB were read. What stays is some 200 bytes for each attempt at most.
    assert kept < 4000 * 200 + 100_000


# Going on


def test_going_on_says_what_was_done_and_notes_it_in_the_journal(place: str) -> None:
    with Journal.create(place, HEADER) as journal:
        for record in (case("a"), call("a", 0), attempt("a", 0), call("a", 1), call("a", 2)):
            journal.append_now(record)
    journal, state = Journal.reopen(place)
    with journal:
        assert state.header == HEADER
        assert state.done == 1
        assert list(state.calls_under_way()) == [("a", 1), ("a", 2)]
        resumed = lines_of(place)[-1]
        assert (resumed.kind, resumed.repeated, resumed.torn) == ("resumed", 2, 0)
        journal.append_now(attempt("a", 1))
    assert read_journal(place).state().done == 2
    assert not Path(place + ".torn").exists()


def test_calls_under_way_are_counted_from_the_last_retry_on(tmp_path: Path) -> None:
    records = [case("a"), case("b"), call("a", 0), call("a", 0), call("a", 1), attempt("a", 1, error="no")]
    state = written(tmp_path / "run.jsonl", [*records, call("b", 0), retry("a", 1), call("a", 1), retry("b", 0)])
    assert state.calls_under_way() == {("a", 0): 2, ("a", 1): 1, ("b", 0): 0}


@pytest.mark.parametrize(
    ("added", "is_known"),
    [(b"", True), (b'{"kind":"call","case":"a","attempt":1}\n', False), (b'{"kind":"call",', False)],
)
def test_what_is_known_of_a_journal_is_not_read_again_unless_something_was_added(
    place: str, added: bytes, is_known: bool
) -> None:
    with Journal.create(place, HEADER) as journal:
        journal.append_all_now([case("a"), call("a", 0), attempt("a", 0)])
    known = read_journal(place).state()
    with Path(place).open("ab") as file:
        file.write(added)
    journal, state = Journal.reopen(place, known)
    journal.close()
    assert (state is known) is is_known
    assert state.kinds["call"] == 1 + added.endswith(b"\n")
    assert read_journal(place).state().torn == 0


def test_a_torn_end_is_mended_although_it_was_known(place: str) -> None:
    Journal.create(place, HEADER).close()
    with Path(place).open("ab") as file:
        file.write(b'{"kind":')
    journal, state = Journal.reopen(place, read_journal(place).state())
    journal.close()
    assert (state.torn, read_journal(place).state().torn) == (8, 0)


def test_many_records_at_once_are_in_their_order_and_take_one_sync(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(journal_module, "_WRITTEN_AT_ONCE", 10)
    with Journal.create(place, HEADER) as journal:
        monkeypatch.setattr(journal_module, "_sync", syncs.append)
        journal.append_all_now(case(str(number)) for number in range(95))
        assert list(read_journal(place).state().cases) == [str(number) for number in range(95)]
        assert len(syncs) == 1
        journal.append_all_now([])
        assert len(syncs) == 1


def test_many_records_at_once_of_which_some_cannot_be_written_are_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_WRITTEN_AT_ONCE", 10)
    write, written_so_far = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal written_so_far
        written_so_far += 1
        if written_so_far > 3:
            raise OSError(errno.ENOSPC, "no space")
        return write(descriptor, data)

    with Journal.create(place, HEADER) as journal, monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="cannot write the journal"):
            journal.append_all_now(case(str(number)) for number in range(95))
    assert list(read_journal(place).state().cases) == [str(number) for number in range(30)]


def test_torn_ends_are_moved_beside_the_journal_one_behind_the_other(place: str) -> None:
    Journal.create(place, HEADER).close()
    for end in (b'{"kind":"att', b'{"kind"', b"\x00\x00\n"):
        with Path(place).open("ab") as file:
            file.write(end)
        journal, state = Journal.reopen(place)
        journal.close()
        assert state.torn == len(end)
        assert lines_of(place)[-1].torn == len(end)
    assert Path(place + ".torn").read_bytes() == b'{"kind":"att\n{"kind"\n\x00\x00\n'
    assert stat.S_IMODE(Path(place + ".torn").stat().st_mode) == 0o600


def test_a_torn_end_is_durable_elsewhere_before_it_is_cut_off(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal.create(place, HEADER).close()
    with Path(place).open("ab") as file:
        file.write(b'{"kind"')
    done: list[str] = []

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *rest: Any) -> Any:
            known = [path for path in (Path(place), Path(place + ".torn"), Path(place).parent) if path.exists()]
            inode = os.fstat(descriptor).st_ino
            done.extend(f"{name} {path.name}" for path in known if path.stat().st_ino == inode)
            return real(descriptor, *rest)

        return call

    for name, what in (("fsync", "sync"), ("fdatasync", "sync"), ("ftruncate", "truncate"), ("write", "write")):
        monkeypatch.setattr(os, name, noting(what, getattr(os, name)))
    journal, _ = Journal.reopen(place)
    journal.close()
    name, folder = Path(place).name, Path(place).parent.name
    cut = done.index(f"truncate {name}")
    assert f"sync {name}.torn" in done[:cut] and f"sync {folder}" in done[:cut]
    assert done[cut + 1 : cut + 3] == [f"sync {name}", f"write {name}"]


def test_a_torn_end_that_cannot_be_kept_is_not_cut_off(place: str) -> None:
    Journal.create(place, HEADER).close()
    with Path(place).open("ab") as file:
        file.write(b'{"kind"')
    before = Path(place).read_bytes()
    Path(place + ".torn").symlink_to("elsewhere")  # nothing is written through a link that somebody put there
    with pytest.raises(JournalError, match="cannot move its torn end"):
        Journal.reopen(place)
    assert Path(place).read_bytes() == before
    assert not (Path(place).parent / "elsewhere").exists()


def test_a_torn_end_over_the_limit_of_a_line_is_moved_too(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.runs.journal.MAX_LINE_BYTES", 1000)
    monkeypatch.setattr("faircount.readers.journals.MAX_LINE_BYTES", 1000)
    monkeypatch.setattr("faircount.runs.journal._BUFFER_BYTES", 100)
    Journal.create(place, HEADER).close()
    before = Path(place).read_bytes()
    Path(place).write_bytes(before + b"\x00" * 5000)
    journal, state = Journal.reopen(place)
    journal.close()
    assert state.torn == 5000
    Path(place).write_bytes(before + b"\x00" * 5000 + b"\n" + encode_record(case("a")))
    with pytest.raises(InputError, match=r":2: the journal is damaged here: the line is too long"):
        Journal.reopen(place)


# Locks


def test_a_journal_that_is_written_cannot_be_opened_to_go_on(place: str) -> None:
    with Journal.create(place, HEADER):
        with pytest.raises(UsageError, match=rf"another process \(pid {os.getpid()}\) is writing this journal"):
            Journal.reopen(place)
        assert len(lines_of(place)) == 1
    journal, _ = Journal.reopen(place)
    with journal, pytest.raises(UsageError, match="another process"):
        Journal.reopen(place)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks_is_told_and_leaves_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_lock(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    Journal.create(place + "2", HEADER).close()
    monkeypatch.setattr(fcntl, "flock", no_lock)
    with pytest.raises(UsageError, match=r"files cannot be locked here .* local disk with --journal"):
        Journal.create(place, HEADER)
    assert not Path(place).exists()
    with pytest.raises(UsageError, match="files cannot be locked here"):
        Journal.reopen(place + "2")
