"""A run that goes on: the same tests as before, and what their journal already holds.

Tests that are not what they were when the run began are refused, because their attempts would not belong together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from faircount.errors import InputError
from faircount.judging.making import Setting
from faircount.running.case import Case
from faircount.running.journal import Journal, encode_record
from faircount.running.journal_reading import JournalReader, State, decode_record, read_journal
from faircount.running.runs import Chosen, Settings, add, choose
from faircount.text import visible


class Resumed(Struct, frozen=True):
    """A run that goes on. `sent_before` says how often the attempts were sent that were under way when it stopped."""

    journal: Journal
    state: State
    sent_before: Mapping[tuple[str, int], int]


def is_over(path: str, cases: Sequence[Case]) -> bool:
    """Tell whether a run has come to its end, with a record of every attempt."""
    state = read_journal(path).state()
    done = (state.is_done(case.name, attempt) for case in cases for attempt in range(case.attempts))
    return bool(state.complete) and all(done)


def same_tests(path: str, settings: Settings, setting: Setting | None) -> tuple[Case, ...]:
    """Collect the tests of a run again; those that are not what they were are an error."""
    chosen = choose(settings.choice, setting)
    _refuse_other_files(path, settings, chosen)
    _refuse_other_cases(path, chosen.cases)
    return chosen.cases


def resume(path: str, cases: Sequence[Case], *, retry_errors: bool) -> Resumed:
    """Open a journal again to go on with the same cases."""
    journal, state = Journal.reopen(path)
    try:
        # The cases that were not written yet when the run was stopped at its very beginning.
        records: list[Mapping[str, Any]] = [case.record() for case in cases if case.name not in state.cases]
        if retry_errors:
            records += [
                {"kind": "retry", "case": case, "attempt": attempt} for case, attempt in state.failed_attempts()
            ]
        add(journal, records)
        if records:
            state = read_journal(path).state()
        return Resumed(journal, state, _sent_before(path, state))
    except BaseException:
        journal.close()
        raise


def _sent_before(path: str, state: State) -> dict[tuple[str, int], int]:
    sent = dict.fromkeys(state.calls_under_way(), 0)
    for line in read_journal(path) if sent else ():
        kind, key = line.record["kind"], (line.record.get("case"), line.record.get("attempt"))
        if key in sent and kind in ("call", "retry"):
            sent[key] = sent[key] + 1 if kind == "call" else 0
    return sent


def _refuse_other_files(path: str, settings: Settings, chosen: Chosen) -> None:
    before = dict(settings.files)
    changed = [file for file, digest in chosen.files if before.get(file) != digest]
    changed += [file for file in before if file not in dict(chosen.files)]
    if changed:
        raise InputError(
            f"{changed[0]}: has changed since the run in {path} began; put it back as it was, or begin a new run"
        )


def _refuse_other_cases(path: str, cases: Sequence[Case]) -> None:
    """Raise where the same files make other cases than before, as those do that read data from elsewhere."""
    reader = read_journal(path)
    state = reader.state()
    gone = state.cases.keys() - {case.name for case in cases}
    changed = [case for case in cases if not _is_in(state, reader, case)]
    for name, place in [(case.name, case.place) for case in changed] or [(name, path) for name in sorted(gone)]:
        raise InputError(
            f"{visible(place)}: the case {visible(name)} is not what it was when the run in {path} began, although its "
            "file has not changed; put back what it is made of, or begin a new run"
        )


def _is_in(state: State, reader: JournalReader, case: Case) -> bool:
    """Tell whether a journal has a case; `place` may differ, and the version of what measures it."""
    if case.name not in state.cases:
        return not state.kinds.get("call")  # all cases are written before the first call
    record = reader.record_at(state.cases[case.name])
    now = decode_record(encode_record(case.record()))
    same = ("tags", "input", "expected_output", "retry_params")
    return all(now[name] == record.get(name) for name in same) and _names(now) == _names(record)


def changed_metrics(path: str, cases: Sequence[Case]) -> list[str]:
    """Return the names of the metrics whose code or parameters are not those that the journal tells of."""
    reader = read_journal(path)
    before = reader.state().cases
    there = [case for case in cases if case.name in before]
    now = {metric.digest: metric.name for case in there for metric in case.metrics}
    for case in there:
        for metric in reader.record_at(before[case.name]).get("metrics", ()):
            now.pop(metric.get("identity"), None)
    return sorted(set(now.values()))


def _names(record: Mapping[str, Any]) -> list[str]:
    return [metric.get("name", "") for metric in record.get("metrics", ())]


def in_its_folder(settings: Settings, path: str) -> None:
    """Go to the folder in which a run was begun: its paths are relative to that."""
    try:
        os.chdir(settings.folder)
    except OSError as error:
        raise InputError(
            f"{path}: the run was begun in {settings.folder}, which cannot be entered: {error.strerror or error}"
        ) from error
