"""A run journal as rows of results: one per case, on the line of its last attempt that counts.

Of a run over a dataset there are two: one of the standard attempts of an entry, one of its attack, each on the line of
the last of these attempts. Where an attack failed before its first attempt, the row is where that is recorded.

A journal is read twice: once to learn which records count, since a later one can make an earlier one void, and once
to hand out rows. A case of which no attempt counts has its row where the case is recorded. Exactly one line comes out
for every line that goes in, so that the place of a row is a place in the journal; most are empty. Attempts wait as the
bytes of their lines until their case is complete. A torn end is a line that could not be read.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from faircount.core.errors import InputError
from faircount.core.text import clip, visible
from faircount.core.verdict import Verdict
from faircount.io.lenient_json import BadLine
from faircount.readers.aggregation import all_passed
from faircount.readers.journals import (
    ATTACK,
    MAX_LINE_BYTES,
    AttemptRecord,
    CaseRecord,
    DoneRecord,
    RunRecord,
    State,
    decode,
    decode_header,
    decode_record,
    is_of_attack,
)
from faircount.readers.rows import NOT_TRIED, STOP_WHEN
from faircount.readers.run_rows import (
    BAD,
    Attacked,
    RunAttempt,
    RunCase,
    RunFile,
    attack_of,
    attacked,
    encoded,
    metric_names,
    objects,
    recorded_attempt,
    row_of,
    row_of_entry,
    strategy_of,
    success_by_metric,
    success_over,
    verdict_of,
)

Chunks = Iterator[bytes]

_LONGEST_RULE = 100
_PIECE_BYTES = 256 * 1024
TOO_LONG = "the line is too long"
_CASE = re.compile(rb'\{"kind": ?"[a-z]{1,20}", ?"case": ?("(?:[^"\\]|\\.){0,500}")')
"""How a record begins that is about a case, as journals are written; other lines are read whole."""

_KEPT_BYTES, _KEPT_LINE = 32 * 1024 * 1024, 100
"""So much of the lines of wanted cases is kept in memory, and what a line takes beside its bytes, about."""


def rows(chunks: Chunks, again: Callable[[], Chunks] | None, run: RunFile, name: str) -> Chunks:
    """Yield the rows of a journal as bytes of lines. `again` opens it a second time; without it, a copy is kept."""
    if again is not None:
        run.cases = None if run.wanted is None else _cases_on(again(), run.wanted)
        kept = _KeptLines()
        state = _state(chunks, run, name, kept)
        # Of the lines that are about a few cases there are few: they need not be looked for a second time.
        lines = kept.numbered(state.lines) if run.cases is not None and kept.complete else _numbered(again())
        yield from pieces_of(_rows(state, lines, run))
        return
    import tempfile

    with tempfile.TemporaryFile(prefix="faircount-") as copy:
        state = _state(_copied(chunks, copy.write), run, name)
        copy.seek(0)
        yield from pieces_of(_rows(state, _numbered(iter(lambda: copy.read(_PIECE_BYTES), b"")), run))


def _copied(chunks: Chunks, write: Callable[[bytes], object]) -> Chunks:
    for chunk in chunks:
        write(chunk)
        yield chunk


# -- which records count ----------------------------------------------------------------------------------------


def _cases_on(chunks: Chunks, wanted: Collection[int]) -> frozenset[bytes] | None:
    """Return the cases that lines are about, as they are written there; None if not all of them show it."""
    first = itertools.islice(lines_of(chunks), max(wanted, default=0))
    lines = (line for number, line in enumerate(first, start=1) if number in wanted)
    found = [None if line is None else _CASE.match(line) for line in lines]
    return None if None in found else frozenset(match[1] for match in found if match is not None)


def _is_of_others(line: bytes | None, run: RunFile) -> bool:
    """Return whether a line is about a case of which no row is wanted."""
    if run.cases is None or line is None:
        return False
    match = _CASE.match(line)
    return match is not None and match[1] not in run.cases


_Gathered = tuple[str, dict[str, Any], list[dict[str, Any]], bool]
"""The name of a case, its record, those of its attempts, and whether these are of an attack."""

_Lines = Iterator[tuple[int, int, bytes | None]]
"""The number of a line, where it begins, and its bytes; None where it is too long."""


def _numbered(chunks: Chunks) -> _Lines:
    offset = 0
    for number, line in enumerate(lines_of(chunks), start=1):
        yield number, offset, line
        offset += len(line or b"")


class _KeptLines:
    """Lines that are about cases of which rows are wanted, as long as they are few."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, bytes | None]] = []
        self._room = _KEPT_BYTES
        self.complete = True

    def add(self, number: int, offset: int, line: bytes | None) -> None:
        """Keep a line, unless there is no room."""
        self._room -= len(line or b"") + _KEPT_LINE
        self.complete = self._room > 0
        if self.complete:
            self._lines.append((number, offset, line))

    def numbered(self, count: int) -> _Lines:
        """Yield so many lines, blank ones in place of those that were not kept."""
        before = 0
        for number, offset, line in self._lines:
            yield from ((blank, -1, b"\n") for blank in range(before + 1, number))
            yield number, offset, line
            before = number
        yield from ((blank, -1, b"\n") for blank in range(before + 1, count + 1))


def _state(chunks: Chunks, run: RunFile, name: str, kept: _KeptLines | None = None) -> State:
    """Read a journal and return what its records come to; what cannot be understood is noted and counts for nothing."""
    state = State(name, RunRecord())
    number, offset, line = 0, 0, None
    for number, offset, line in _numbered(chunks):
        if number == 1:
            state.header = header_of(line or b"", name)
        if line is not None and line.isspace():
            run.blank_lines += 1
        elif not _is_of_others(line, run):
            _take(state, number, offset, line, run)
            if kept is not None and kept.complete and run.cases is not None:
                kept.add(number, offset, line)
    state.lines, state.end = number, offset + len(line or b"")
    run.version = state.header.version
    run.target = target_of(state.header)
    run.stop_rule = stop_rule_of(state.header)
    run.aim = state.header.aim
    return state


def target_of(header: RunRecord) -> str | None:
    """Return what a run was made against: the model, where the header names one, else the target by its name."""
    target = (header.settings or {}).get("target")
    if not isinstance(target, Mapping):
        return None
    models = [part.get("model") for part in (target.get("options"), target.get("chat")) if isinstance(part, Mapping)]
    named = next(filter(None, [*models, target.get("name"), target.get("kind")]), None)
    return named if isinstance(named, str) else None


def stop_rule_of(header: RunRecord) -> str:
    """Return the rule by which the outcomes of a run decided how many entries it tries; empty where there is none."""
    rule = (header.settings or {}).get("stop_when")
    return clip(visible(rule), _LONGEST_RULE) if isinstance(rule, str) else ""


def why_untried(header: RunRecord, *, stopped_early: bool) -> str:
    """Return why a run has not come to some of its entries."""
    rule = stop_rule_of(header) if stopped_early else ""
    return f"it stopped early by {STOP_WHEN} {rule}" if rule else "it was stopped, or is still going"


def header_of(line: bytes, name: str) -> RunRecord:
    """Return the header of a journal; an InputError if the first line is none."""
    try:
        return decode_header(line, name)
    except BadLine as bad:
        raise InputError(f"{name}:1: not the header of a run journal: {bad}") from None


def _take(state: State, number: int, offset: int, line: bytes | None, run: RunFile) -> None:
    try:
        if line is None:
            raise BadLine(TOO_LONG)
        state.take(number, offset, decode(line))
    except BadLine as bad:
        run.bad[number] = str(bad)


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Yield lines with their line feed; None stands for one that is too long, whose bytes do not count as a place."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        for piece in io.BytesIO(chunk):
            ends = piece[-1:] == b"\n"
            if ends and not size and len(piece) <= MAX_LINE_BYTES:
                yield piece
                continue
            size += len(piece) - ends
            parts = [*parts, piece] if size <= MAX_LINE_BYTES else []
            if ends:
                yield b"".join(parts) if parts else None
                parts, size = [], 0
    if size:
        yield b"".join(parts) if parts else None


# -- rows -------------------------------------------------------------------------------------------------------


def pieces_of(lines: Iterable[bytes]) -> Chunks:
    """Yield lines in larger pieces."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line) + 1
        if size >= _PIECE_BYTES:
            yield b"\n".join([*waiting, b""])
            waiting, size = [], 0
    if waiting:
        yield b"\n".join([*waiting, b""])


def _rows(state: State, lines: _Lines, run: RunFile) -> Iterator[bytes]:
    """Yield for every line of the journal the row that stands there, or nothing."""
    gathering = EntryGathering(state) if state.header.aim == ATTACK else _CaseGathering(state, run)
    why = why_untried(state.header, stopped_early=state.stopped_early)
    for number, offset, line in lines:
        if number > state.lines:
            return  # a run that goes on has added it since
        if offset in gathering.untried:
            run.problems.append((NOT_TRIED, why, number))
        if number in run.bad or line is None:
            yield BAD
        elif line.isspace() or _is_of_others(line, run):
            yield b""
        else:
            try:
                row = gathering.take(offset, line)
            except BadLine as bad:
                run.bad[number], row = str(bad), BAD
            yield row


class _Gathering:
    """Gathers the attempts of each case until its last one; of an entry, those of its attack apart."""

    def __init__(self, state: State, *, attack: bool) -> None:
        self._places = state.places()
        self._failures = state.attack_failures if attack else {}
        self._last: tuple[dict[str, int], dict[str, int]] = (state.last_records(), {})
        if attack:
            self._last = (state.last_records(attack=False), state.last_records(attack=True))
        self._cases: dict[str, bytes] = {}
        self._rows_left: dict[str, int] = {}
        begun = {*self._last[False], *self._last[True], *self._failures, *state.finished}
        self.untried = frozenset(offset for name, offset in state.cases.items() if attack and name not in begun)
        """Where entries are recorded that have no row, because their turn has not come."""
        self._attempts: tuple[dict[str, list[bytes]], dict[str, list[bytes]]] = ({}, {})

    def _gathered(self, offset: int, line: bytes) -> _Gathered | None:
        """Take a line and return what was tried, if this is where the row of that stands."""
        if offset not in self._places:
            return None
        record = decode(line)
        if isinstance(record, CaseRecord):
            name = record.case
            rows = (name in self._last[False]) + (name in self._last[True] or name in self._failures)
            if not rows and offset in self.untried:
                return None
            self._cases[name], self._rows_left[name] = line, rows
            return None if rows else self._parts(name, of_attack=False)
        if isinstance(record, AttemptRecord):
            name, of_attack = record.case, bool(self._last[True]) and is_of_attack(record.strategy)
            self._attempts[of_attack].setdefault(name, []).append(line)
            return self._parts(name, of_attack=of_attack) if self._last[of_attack][name] == offset else None
        if isinstance(record, DoneRecord) and record.case not in self._last[True]:
            # An attack that failed before its first attempt.
            failure = self._failures.get(record.case)
            if failure is not None and failure.offset == offset:
                return self._parts(record.case, of_attack=True)
        return None

    def _parts(self, name: str, *, of_attack: bool) -> _Gathered:
        described = decode_record(self._cases[name])
        self._rows_left[name] -= 1
        if self._rows_left[name] <= 0:
            del self._cases[name], self._rows_left[name]
        records = [decode_record(line) for line in self._attempts[of_attack].pop(name, [])]
        return name, described, records, of_attack


class _CaseGathering(_Gathering):
    """Gathers the attempts of cases of tests."""

    def __init__(self, state: State, run: RunFile) -> None:
        super().__init__(state, attack=False)
        self._run = run

    def take(self, offset: int, line: bytes) -> bytes:
        """Take a line and return the row that stands there; nothing where none does."""
        gathered = self._gathered(offset, line)
        if gathered is None:
            return b""
        name, described, records, _ = gathered
        return row_of(_case(name, described, sorted(records, key=lambda record: record["attempt"])), name, self._run)


class EntryGathering(_Gathering):
    """Gathers the attempts of each entry until the last standard one, and until the last one of its attack."""

    def __init__(self, state: State) -> None:
        super().__init__(state, attack=True)
        self._attack = attack_of(state.header)

    def take(self, offset: int, line: bytes) -> bytes:
        """Take a line and return the row that stands there; nothing where none does."""
        tried = self.taken(offset, line)
        return b"" if tried is None else encoded(row_of_entry(tried))

    def taken(self, offset: int, line: bytes) -> Attacked | None:
        """Take a line and return what was tried on an entry by one strategy, if this is where its row stands."""
        gathered = self._gathered(offset, line)
        if gathered is None:
            return None
        name, described, records, of_attack = gathered
        if not of_attack:
            return attacked(name, described, records)
        return attacked(name, described, records, attack=self._attack, failure=self._failures.get(name))

    def is_complete(self, name: str) -> bool:
        """Return whether all rows of an entry were given."""
        return name not in self._rows_left


def _case(name: str, described: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> RunCase:
    metrics = metric_names(described)
    attempts = [_attempt(record, metrics) for record in records]
    strategy = strategy_of(described)
    said = [verdict for attempt in attempts for verdict in attempt.verdicts]
    return RunCase(
        name=name,
        described=described,
        attempts=attempts,
        success=success_over(strategy, said, per_attempt=max(len(metrics), 1)),
        by_metric=success_by_metric(strategy, said, metrics if attempts else ()),
    )


def _attempt(record: Mapping[str, Any], metrics: Iterable[str]) -> RunAttempt:
    said = {verdict.judge: verdict for verdict in map(verdict_of, objects(record, "verdicts"))}
    # A metric that said nothing has not decided.
    verdicts = [said.get(metric) or Verdict(None, judge=metric) for metric in metrics]
    return recorded_attempt(record, verdicts, all_passed(verdict.decision for verdict in verdicts))
