"""Labelling on the page, without the page: what is drawn and shown to whom, what is written, and what it comes to."""

from __future__ import annotations

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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faircount import ResultSet, UsageError, open_results
from faircount.analysis import (
    LEASE,
    LabelQueue,
    LabelWriter,
    NotSavedError,
    RunToLabel,
    agreement_of_labels,
    corrected_by,
    decision_of,
    labels_so_far,
    names_in_labels,
    run_frame,
    run_labels,
)
from faircount.core import Decision
from faircount.readers import DrawRecord, GivenLabel, LabelLog, LabelRecord
from faircount.stats import DrawnPart, draw_chances, label_sequence
from tests.conftest import Write, analysis_of, attack, standard

HIT, PASS, UNCLEAR = GivenLabel.HIT, GivenLabel.PASS, GivenLabel.UNCLEAR


def rows(successes: int = 12, failures: int = 30) -> list[dict[str, Any]]:
    found = [standard(n, success=n <= successes, response=f"answer {n}") for n in range(1, successes + failures + 1)]
    return [*found, standard("broken", error="time-out"), standard("nobody", success=None)]


Open = Callable[..., RunToLabel]


@pytest.fixture
def opened(write: Write) -> Iterator[Open]:
    sets: list[ResultSet] = []

    def open_run(lines: Any = None, name: str = "results_x.jsonl") -> RunToLabel:
        path = write(rows() if lines is None else lines, name)
        sets.append(open_results(path))
        return RunToLabel(names_in_labels([path])[0], sets[-1], run_frame(sets[-1]))

    yield open_run
    for one in sets:
        one.close()


class Clock:
    """A time that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class People:
    """People who label, as the page lets them."""

    def __init__(self, path: Path, *runs: RunToLabel, seed: int = 1, second_opinions: float = 0.0) -> None:
        self.clock = Clock()
        self.writer = LabelWriter(str(path))
        self.queue = LabelQueue(runs, second_opinions=second_opinions, generator=random.Random(seed), clock=self.clock)

    @property
    def log(self) -> LabelLog:
        return self.writer.refresh()

    def start(self, author: str) -> None:
        self.writer.write(lambda log: list(self.queue.show_next(log, author)))

    def shown(self, author: str) -> tuple[int, str] | None:
        """Return the draw and the row that somebody sees."""
        item = self.queue.open_for(self.log, author)
        return None if item is None else (item.draw.first.draw, item.name[1])

    def say(self, author: str, word: GivenLabel | Callable[[str], GivenLabel], note: str = "") -> None:
        item = self.queue.open_for(self.log, author)
        assert item is not None

        def make(log: LabelLog) -> list[Any]:
            label = word if isinstance(word, GivenLabel) else word(item.name[1])
            record = self.queue.label(log, item, author, label, note)
            assert record is not None
            log.add(record)
            return [record, *self.queue.show_next(log, author)]

        self.writer.write(make)

    def undo(self, author: str) -> None:
        self.writer.write(lambda log: [record] if (record := self.queue.retraction(log, author)) else [])

    def decide(self, author: str, word: GivenLabel) -> None:
        (item, *_) = self.queue.undecided(self.log)
        self.writer.write(
            lambda log: [
                record for record in [self.queue.label(log, item, author, word, adjudicates=True)] if record is not None
            ]
        )


def records_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def truth(row: str) -> GivenLabel:
    """Say what is true of entries 1 to 42: of the first 12 that the judge calls a success, three are none."""
    return HIT if int(row) in (1, 2, 3, 5, 6, 7, 9, 10, 11, 40) else PASS


# -- what is drawn --------------------------------------------------------------------------------------------------


def test_every_draw_is_written_before_it_is_shown_with_its_chance(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    drawn = {True: 0, False: 0}
    for _ in range(20):
        # What is on the disk, read by nobody but json, has what is shown.
        last = records_in(tmp_path / "labels.jsonl")[-1]
        assert people.shown("anna") == (last["draw"], last["rows"][0][0])
        success = int(last["entry"]) <= 12
        state = labels_so_far(run, people.log)
        parts = [
            DrawnPart(part.entries, part.drawn - (success is verdict), part.hits, part.passes)
            for part, verdict in ((state.successes, True), (state.failures, False))
        ]
        left = (12 if success else 30) - drawn[success]
        assert last["probability"] == pytest.approx(draw_chances(*parts)[0 if success else 1] / left)
        assert last["of"] == [12, 30]
        drawn[success] += 1
        people.say("anna", truth)
    labels = [record for record in records_in(tmp_path / "labels.jsonl") if record["kind"] == "label"]
    assert len({record["id"] for record in labels}) == 20
    assert all(record["probability"] > 0 and record["author"] == "anna" and record["at"] for record in labels)


def test_within_a_verdict_every_entry_has_the_same_chance(opened: Open) -> None:
    run, first = opened(rows(4, 6)), Counter[str]()
    generator = random.Random(8)
    for _ in range(180):
        queue = LabelQueue([run], generator=generator)
        (record,) = queue.show_next(LabelLog(), "anna")
        first[record.entry] += 1
    # The first is a failure with 95 of 100: allocate_labels gives one label to the judged failures.
    assert 160 < sum(count for entry, count in first.items() if int(entry) > 4) < 180
    # Each of six with the same chance: about 28 times.
    assert all(14 < first[str(n)] < 45 for n in range(5, 11))


def test_nothing_in_the_file_tells_the_verdict(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    people.start("anna")
    for _ in range(10):
        people.say("anna", PASS)
    text = (tmp_path / "labels.jsonl").read_text()
    assert "success" not in text
    assert "failure" not in text


def test_the_run_whose_rate_is_least_known_is_next(opened: Open, tmp_path: Path) -> None:
    one, other = opened(rows(), "results_a.jsonl"), opened(rows(), "results_b.jsonl")
    people = People(tmp_path / "labels.jsonl", one, other)
    people.start("anna")
    for _ in range(24):
        people.say("anna", truth)
    files = Counter(draw.first.file for draw in people.log.draws.values())
    assert all(9 < files[name] < 16 for name in ("results_a.jsonl", "results_b.jsonl"))


def test_an_entry_with_an_attack_is_asked_about_row_by_row(opened: Open, tmp_path: Path) -> None:
    lines = [
        *(line for n in range(1, 6) for line in (standard(n), attack(n, success=True, response="yes"))),
        *(standard(n) for n in range(6, 12)),
    ]
    run = opened(lines)
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    seen = []
    while (shown := people.shown("anna")) is not None:
        seen.append(shown[1])
        people.say("anna", lambda row: HIT if row.endswith("-attack") else PASS)
    assert sorted(seen) == sorted([str(n) for n in range(1, 12)] + [f"{n}-attack" for n in range(1, 6)])
    state = labels_so_far(run, people.log)
    assert (state.successes, state.failures) == (DrawnPart(5, 5, 5, 0), DrawnPart(6, 6, 0, 6))
    assert state.rate is not None
    assert state.rate.low == state.rate.high == pytest.approx(5 / 11)


def test_a_row_whose_id_is_not_its_own_is_named_by_its_line(opened: Open, tmp_path: Path) -> None:
    lines = [standard(1, lang="de", input="a"), standard(1, lang="en", input="b"), standard(2, success=True)]
    run = opened(lines)
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    while people.shown("anna") is not None:
        people.say("anna", PASS)
    names = sorted(record.id for record in people.log.labels.values())
    assert names == ["2", "results_x.jsonl:1", "results_x.jsonl:2"]
    correction = analysis_of(run.results.files[0], judge_quality=people.writer.path).correction
    assert correction is not None
    assert correction.labels.n == 3


@pytest.mark.parametrize("lines", [[standard(1, error="x")], [standard(1, response=True, success=True)]])
def test_a_run_without_texts_cannot_be_labelled(opened: Open, lines: Any) -> None:
    with pytest.raises(UsageError, match="nothing to label"):
        opened(lines)


# -- what it comes to -----------------------------------------------------------------------------------------------


def test_the_rate_is_the_sequence_over_all_draws_and_ends_at_the_truth(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    widths = []
    for number in range(42):
        people.say("anna", truth)
        if number % 3 != 2:
            continue
        state = labels_so_far(run, people.log)
        assert state.rate == label_sequence(state.successes, state.failures, total=44)
        assert state.labelled == number + 1
        assert state.rate.low is not None
        assert state.rate.high is not None
        assert state.rate.low <= 10 / 44 <= state.rate.high
        widths.append(state.rate.high - state.rate.low)
    assert widths[-1] == 0
    assert widths[7] < widths[1] / 1.5
    assert people.shown("anna") is None
    assert state.below(0.5) is True
    assert state.below(0.2) is False


def test_the_corrected_rate_is_the_one_that_an_analysis_gives(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    for number in range(25):
        people.say("anna", UNCLEAR if number % 9 == 4 else truth)
    path = run.results.files[0]
    here = corrected_by(run, run_labels(run, path, people.log), people.writer.path)
    there = analysis_of(path, judge_quality=people.writer.path).correction
    assert there is not None
    assert (here.estimate, here.sensitivity, here.specificity) == (
        there.estimate,
        there.sensitivity,
        there.specificity,
    )
    assert here.labels.n == there.labels.n == 22


def test_what_nobody_decided_may_be_either(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    for _ in range(10):
        people.say("anna", UNCLEAR)
    state = labels_so_far(run, people.log)
    assert (state.labelled, state.undecided) == (0, 11)
    assert state.rate is not None
    assert state.rate.low == 0
    assert state.rate.value is None


def test_labels_of_a_run_that_has_changed_since_have_no_interval(opened: Open, tmp_path: Path) -> None:
    before = opened()
    people = People(tmp_path / "labels.jsonl", before)
    people.start("anna")
    for _ in range(5):
        people.say("anna", truth)
    after = opened(rows(12, 31))
    state = labels_so_far(after, people.log)
    assert state.rate is None
    assert "42 judged entries" in state.changed
    assert "43 now" in state.changed
    other = opened([standard(f"other {n}", success=n <= 12) for n in range(1, 43)])
    assert labels_so_far(other, people.log).rate is None


# -- people ---------------------------------------------------------------------------------------------------------


def test_two_people_get_different_entries(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    for author in ("anna", "ben"):
        people.start(author)
    for _ in range(10):
        assert people.shown("anna") != people.shown("ben")
        for author in ("anna", "ben"):
            people.say(author, truth)
    by = Counter(record.id for record in people.log.labels.values())
    assert len(by) == 20
    assert set(by.values()) == {1}


def test_whoever_comes_back_sees_what_was_open(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    shown = people.shown("anna")
    people.start("anna")
    again = People(tmp_path / "labels.jsonl", run, seed=99)
    assert again.shown("anna") == shown
    assert len(again.log.draws) == 1


def test_what_somebody_left_behind_is_shown_to_the_next_after_a_while(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    people.start("anna")
    left = people.shown("anna")
    people.start("ben")
    assert people.shown("ben") != left
    people.clock.now += timedelta(seconds=LEASE + 1)
    people.say("ben", PASS)
    assert people.shown("ben") == left
    people.say("ben", PASS)
    # It is labelled now, and not asked of anna any more.
    assert people.shown("anna") is None


def test_an_undo_brings_the_row_back_and_nothing_is_lost(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run)
    people.start("anna")
    seen = []
    for _ in range(3):
        seen.append(people.shown("anna"))
        people.say("anna", HIT)
    following = people.shown("anna")
    people.undo("anna")
    assert people.shown("anna") == seen[2]
    people.undo("anna")
    assert people.shown("anna") == seen[1]
    people.say("anna", PASS)
    assert people.shown("anna") == seen[2]
    people.say("anna", PASS)
    assert people.shown("anna") == following
    said = [record["label"] for record in records_in(tmp_path / "labels.jsonl") if record["kind"] == "label"]
    assert said == ["hit", "hit", "hit", "pass", "pass"]
    assert [record.label for record in people.log.labels.values()] == [HIT, PASS, PASS]
    assert labels_so_far(run, people.log).labelled == 3


def test_an_undo_is_of_ones_own_labels_alone(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    people.start("anna")
    people.say("anna", HIT)
    people.undo("ben")
    assert len(people.log.labels) == 1


def test_some_entries_are_labelled_twice_and_blind(opened: Open, tmp_path: Path) -> None:
    run = opened()
    people = People(tmp_path / "labels.jsonl", run, second_opinions=0.5)
    people.start("anna")
    for _ in range(12):
        people.say("anna", HIT)
    people.start("ben")
    for _ in range(12):
        people.say("ben", HIT)
    again = [record for record in records_in(tmp_path / "labels.jsonl") if record.get("again")]
    assert 3 <= len(again) <= 10
    assert {record["author"] for record in again} == {"ben"}
    agreement = agreement_of_labels(people.log)
    assert agreement.rows == agreement.alike.n >= 3
    assert agreement.alike.value == 1
    # A second label changes no count of entries.
    state = labels_so_far(run, people.log)
    assert state.labelled == len({record.id for record in people.log.labels.values()})


def test_people_who_differ_leave_an_entry_open_until_somebody_decides(opened: Open, tmp_path: Path) -> None:
    run = opened(rows(2, 2))
    people = People(tmp_path / "labels.jsonl", run, second_opinions=1.0)
    people.start("anna")
    for _ in range(4):
        people.say("anna", HIT)
    people.start("ben")
    while people.shown("ben") is not None:
        people.say("ben", PASS, "looks harmless")
    assert len(people.queue.undecided(people.log)) == 4
    assert agreement_of_labels(people.log).open == 4
    assert labels_so_far(run, people.log).labelled == 0
    people.decide("cy", PASS)
    assert len(people.queue.undecided(people.log)) == 3
    decided = [decision_of(people.log, draw) for draw in people.log.draws.values()]
    assert decided == [Decision.PASS, None, None, None]
    people.undo("cy")
    assert len(people.queue.undecided(people.log)) == 4


def test_a_label_that_comes_too_late_changes_nothing(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    people.start("anna")
    item = people.queue.open_for(people.log, "anna")
    assert item is not None
    people.say("anna", HIT)
    assert people.queue.label(people.log, item, "anna", PASS) is None
    assert people.queue.label(people.log, item, "ben", PASS) is None
    assert people.queue.label(people.log, item, "ben", PASS, adjudicates=True) is None


# -- the file -------------------------------------------------------------------------------------------------------


def one_label(log: LabelLog) -> list[LabelRecord]:
    number = log.records + 1
    return [
        LabelRecord(
            number=number, id=str(number), file="x", label=HIT, author="a", at="", draw=number, line=1, probability=0.1
        )
    ]


def test_a_file_that_the_page_has_not_begun_is_refused(write: Write) -> None:
    for lines in ([{"id": 1, "label": "hit"}], [b"id,label", b"1,hit"], [{"kind": "labels", "schema": 2}]):
        with pytest.raises(UsageError, match=r"name a new file|schema 2"):
            LabelWriter(write(lines, "labels.jsonl"))
    with pytest.raises(UsageError, match="regular file"):
        LabelWriter("/dev/null")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be opened"):
        LabelWriter(str(tmp_path / "nowhere" / "labels.jsonl")).write(one_label)


def test_a_label_is_synced_before_anybody_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_write, real_sync = os.write, os.fdatasync

    def write(descriptor: int, data: Any) -> int:
        done.append("write")
        return real_write(descriptor, data)

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        done.append("sync")

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fdatasync", sync)
    LabelWriter(str(tmp_path / "labels.jsonl")).write(one_label)
    assert done == ["write", "sync"]


@pytest.mark.parametrize("fails", ["write", "fdatasync"])
def test_a_full_disk_leaves_the_file_as_it_was_and_is_told(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "labels.jsonl"
    writer = LabelWriter(str(path))
    writer.write(one_label)
    before = path.read_bytes()
    real = os.write

    def half(descriptor: int, data: Any) -> int:
        real(descriptor, bytes(data)[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, fails, half if fails == "write" else broken)
        with pytest.raises(NotSavedError, match="not saved"):
            writer.write(one_label)
    assert path.read_bytes() == before
    assert len(writer.refresh().labels) == 1
    writer.write(one_label)
    assert [record["number"] for record in records_in(path)[1:]] == [1, 2]


def test_a_torn_end_is_moved_away_and_told(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    LabelWriter(str(path)).write(one_label)
    with path.open("ab") as file:
        file.write(b'{"kind":"label","number":2,"id')
    writer = LabelWriter(str(path))
    assert len(writer.refresh().labels) == 1
    writer.write(one_label)
    assert [record["number"] for record in records_in(path)[1:]] == [1, 2]
    assert (tmp_path / "labels.jsonl.torn").read_bytes() == b'{"kind":"label","number":2,"id\n'
    assert "30 bytes" in writer.torn
    assert "no saved label is lost" in writer.torn


def test_a_bad_line_is_told_and_the_others_count(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    LabelWriter(str(path)).write(one_label)
    with path.open("ab") as file:
        file.write(b"rubbish\n")
    writer = LabelWriter(str(path))
    writer.write(one_label)
    assert writer.problems == ["line 3 could not be read: not a JSON object"]
    assert len(writer.refresh().labels) == 2


def test_a_file_that_was_replaced_or_is_gone_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "labels.jsonl", tmp_path / "other.jsonl"
    writer = LabelWriter(str(path))
    for _ in range(3):
        writer.write(one_label)
    LabelWriter(str(other)).write(one_label)
    other.replace(path)
    assert len(writer.refresh().labels) == 1
    writer.write(one_label)
    assert len(records_in(path)) == 3
    path.unlink()
    with pytest.raises(NotSavedError, match="gone"):
        writer.write(one_label)


CHILD = """
import sys
from faircount.analysis import LabelWriter
from faircount.readers import GivenLabel, LabelRecord

def one_label(log):
    number = log.records + 1
    row = dict(id=str(number), file="x", label=GivenLabel.HIT, author="a", at="", draw=number, line=1, probability=0.1)
    return [LabelRecord(number=number, **row)]

writer = LabelWriter(sys.argv[1])
for _ in range(int(sys.argv[2])):
    writer.write(one_label)
    print(max(writer.log.labels), flush=True)
"""


def test_threads_and_processes_add_to_one_file_without_losing_anything(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    command = [sys.executable, "-c", CHILD, str(path), "40"]
    writer = LabelWriter(str(path))
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as one,
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as other,
    ):
        while not path.exists():
            time.sleep(0.01)

        def some_labels() -> None:
            for _ in range(20):
                writer.write(one_label)

        threads = [threading.Thread(target=some_labels) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (one.returncode, other.returncode) == (0, 0)
    assert [record["number"] for record in records_in(path)[1:]] == list(range(1, 121))
    assert len(writer.refresh().labels) == 120


def test_a_killed_process_loses_nothing_that_it_said_was_saved(tmp_path: Path) -> None:
    path, saved = tmp_path / "labels.jsonl", 0
    for number in range(3):
        command = [sys.executable, "-c", CHILD, str(path), "100000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline()]
            time.sleep(0.03 + 0.011 * number)
            process.send_signal(signal.SIGKILL)
            told += process.stdout.readlines()
        saved = max([saved, *(int(line) for line in told if line.endswith("\n"))])
        assert set(LabelWriter(str(path)).refresh().labels) >= set(range(1, saved + 1))
    LabelWriter(str(path)).write(one_label)
    assert [record["number"] for record in records_in(path)[1:]] == list(range(1, len(records_in(path))))


def test_a_draw_is_read_as_it_was_written(opened: Open, tmp_path: Path) -> None:
    people = People(tmp_path / "labels.jsonl", opened())
    people.start("Ann\u00e9 \u202e")
    (record,) = people.queue.show_next(LabelLog(), "x")
    assert isinstance(record, DrawRecord)
    ((author, _),) = people.log.draws[1].shown.items()
    assert author == "Ann\u00e9 \u202e"
