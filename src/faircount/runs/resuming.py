"""A run that goes on: the same tests as before, and what their journal already holds.

Tests that are not what they were when the run began are refused, because their attempts would not belong together.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from faircount.components.factory import Context
from faircount.core.errors import InputError
from faircount.core.model import Outcome
from faircount.core.text import visible
from faircount.readers.journals import AttemptRecord, CaseRecord, RetryRecord, State, decode, encode_record
from faircount.runs.cases import AttackCase, Case, Chosen
from faircount.runs.engine import Earlier
from faircount.runs.journal import Journal, JournalReader, read_journal
from faircount.runs.lifecycle import Settings, chosen_for


class Resumed(Struct, frozen=True):
    """A run that goes on, with what its journal holds."""

    journal: Journal
    earlier: Earlier


def is_over(state: State, cases: Sequence[Case]) -> bool:
    """Return whether a run has come to its end, with a record of everything that was to be tried."""
    return bool(state.complete) and all(case.units_done(state) == case.units for case in cases)


def same_cases(path: str, state: State, settings: Settings, setting: Context | None) -> tuple[Case, ...]:
    """Choose again what a run is about; what is not what it was is an error."""
    chosen = chosen_for(settings, setting)
    _refuse_other_files(path, settings, chosen)
    if settings.is_attack:
        _refuse_other_entries(path, state, chosen.cases)
    else:
        _refuse_other_cases(path, state, chosen.cases)
    return chosen.cases


def resume(path: str, cases: Sequence[Case], *, retry_errors: bool, known: State | None = None) -> Resumed:
    """Open a journal again to go on with the same cases; `known` is what it came to when it was looked at."""
    journal, state = Journal.reopen(path, known)
    try:
        # The cases that were not written yet when the run was stopped at its very beginning.
        missing = [case.record() for case in cases if case.name not in state.cases]
        void = [RetryRecord(case, attempt) for case, attempt in to_retry(state)] if retry_errors else []
        if missing or void:
            journal.append_all_now([*missing, *void])
            state = read_journal(path).state()
        return Resumed(journal, Earlier(state, state.calls_under_way(), _made_before(path, state, cases)))
    except BaseException:
        journal.close()
        raise


def to_retry(state: State) -> Iterator[tuple[str, int]]:
    """Yield the attempts that are tried again after errors: of an entry, only if nothing but errors came of it."""
    for case, attempt in state.failed_attempts():
        if state.finished.get(case, Outcome.ERROR) == Outcome.ERROR:
            yield case, attempt


def _made_before(path: str, state: State, cases: Sequence[Case]) -> dict[str, list[AttemptRecord]]:
    """Return what was recorded of entries that are not finished."""
    if not any(isinstance(case, AttackCase) for case in cases):
        return {}
    under_way = list(state.attempts_of_unfinished())
    made: dict[str, list[AttemptRecord]] = {}
    for record in read_journal(path).records_at((offset for _, offset in under_way), AttemptRecord):
        made.setdefault(record.case, []).append(record)
    return made


def _refuse_other_files(path: str, settings: Settings, chosen: Chosen) -> None:
    before = dict(settings.files)
    changed = [file for file, digest in chosen.files if before.get(file) != digest]
    changed += [file for file in before if file not in dict(chosen.files)]
    if changed:
        raise InputError(f"{changed[0]}: has changed since the run in {path} began; restore it, or start a new run")


def _refuse_other_entries(path: str, state: State, cases: Sequence[Case]) -> None:
    """Raise where the same datasets make other entries than before; what they are is in the files, which are the same.

    All cases are written before the first call; a run that was stopped before that has only some. In a journal that was
    put together of shards they stand in another order.
    """
    names = [case.name for case in cases]
    all_there = len(names) == len(state.cases) and all(name in state.cases for name in names)
    if not all_there and (state.kinds.get("call") or list(state.cases) != names[: len(state.cases)]):
        raise InputError(
            f"{path}: the entries differ from those the run started with, although their files have not changed; use "
            "the version of Faircount that started it, or start a new run"
        )


def _refuse_other_cases(path: str, state: State, cases: Sequence[Case]) -> None:
    """Raise where the same files make other cases than before, as those do that read data from elsewhere."""
    reader = read_journal(path)
    gone = state.cases.keys() - {case.name for case in cases}
    changed = [case for case in cases if not _is_in(state, reader, case)]
    for name, place in [(case.name, case.place) for case in changed] or [(name, path) for name in sorted(gone)]:
        raise InputError(
            f"{visible(place)}: the case {visible(name)} has changed since the run in {path} began, although its "
            "file has not; restore what it is built from, or start a new run"
        )


def _is_in(state: State, reader: JournalReader, case: Case) -> bool:
    """Return whether a journal has a case; `place` may differ, and the version of what measures it."""
    if case.name not in state.cases:
        return not state.kinds.get("call")  # all cases are written before the first call
    before, now = next(reader.records_at([state.cases[case.name]], CaseRecord)), decode(encode_record(case.record()))
    same = ("tags", "input", "expected_output", "retry_params")
    names = [[metric.name for metric in one] for one in (before.metrics, case.metrics)]
    return all(getattr(now, name) == getattr(before, name) for name in same) and names[0] == names[1]


def changed_metrics(path: str, state: State, cases: Sequence[Case]) -> list[str]:
    """Return the names of the metrics whose code or parameters are not those that the journal tells of."""
    there = [case for case in cases if case.name in state.cases]
    # One case of each metric is enough: the others were made with the same.
    told_in = {metric.digest: (case, metric.name) for case in there for metric in case.metrics}
    places = {state.cases[case.name] for case, _ in told_in.values()}
    records = read_journal(path).records_at(places, CaseRecord)
    before = {metric.identity for record in records for metric in record.metrics}
    return sorted({name for digest, (_, name) in told_in.items() if digest not in before})


@contextlib.contextmanager
def in_its_folder(settings: Settings, path: str) -> Iterator[None]:
    """Be in the folder in which a run was begun, because its paths are relative to that, and return."""
    here = None
    with contextlib.suppress(OSError):  # a folder that was removed
        here = Path.cwd()
    try:
        os.chdir(settings.folder)
    except OSError as error:
        raise InputError(
            f"{path}: the run was started in {settings.folder}, which cannot be entered: {error.strerror or error}"
        ) from error
    try:
        yield
    finally:
        if here is not None:
            with contextlib.suppress(OSError):
                os.chdir(here)
