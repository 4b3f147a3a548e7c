"""What the records of a run journal come to: which attempts count, which are void, which were under way.

It is shared by those who resume a run and those who analyse one. Nothing here opens a file; a record that makes no
sense in its place is a `BadLine`, and whoever reads says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from faircount.core.model import Outcome
from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine
from faircount.readers.journal_records import (
    MAX_ATTEMPT,
    AttemptRecord,
    CallRecord,
    CaseRecord,
    DoneRecord,
    EndRecord,
    JournalRecord,
    OtherRecord,
    ResumedRecord,
    RetryRecord,
    RunRecord,
)

Numbered = CallRecord | AttemptRecord | RetryRecord
"""The records that are about one attempt of one case."""

_OUTCOMES = tuple(outcome.value for outcome in Outcome)
_ATTEMPT_BITS = 32
_LONGEST_NAME = 100

# What is known of an attempt is one number: where its record begins (0: there is none), and these flags.
_CALLED = 1
_ERROR = 2
_OF_ATTACK = 4
_FLAG_BITS = 3

STANDARD = "standard"
"""The strategy of an attempt that sends an entry as it is; any other is the name of a dynamic attack."""
NOT_TRIED = "F034"
"""The finding about entries that a run has not come to: they are in no rate."""
BLOCKED = "blocked"
"""The kind of error that is a guardrail's block, or a provider's refusal."""
LONGEST_REASON = 500


class Line(Struct, frozen=True):
    """A record of a journal and its place there; lines count from 1, bytes from 0."""

    number: int
    offset: int
    record: JournalRecord | OtherRecord


class Doubled(Struct, frozen=True):
    """A record that does not count, since one before it says the same case or attempt; no attempt: a case's record."""

    case: str
    attempt: int | None
    line: int


class AttackFailure(Struct, frozen=True):
    """That the attack on an entry ended by a failure of its own: why, and where the record that says so begins."""

    offset: int
    error: str


class State:
    """What a journal comes to: its header, its cases, and what became of their attempts.

    Of two records of one attempt the first counts, unless a `retry` between them made it void. A call without an
    attempt's record was under way when the run was stopped, and has to be made again. A case is finished when a record
    says so; a `retry` of one of its attempts opens it again.
    """

    def __init__(self, path: str, header: RunRecord) -> None:
        self.path = path
        self.header = header
        self.cases: dict[str, int] = {}
        """Where the record of each case begins, in the order of the journal."""
        self.done = 0
        """How many attempts have a record that counts."""
        self.errors = 0
        """How many of those ended in an error; a block is none."""
        self.repeated = 0
        """How many calls were made although one before them was under way when a run was stopped."""
        self.void = 0
        """How many records of attempts a `retry` made void."""
        self.complete: bool | None = None
        """What the `end` record says; None where the run was stopped or goes on."""
        self.stopped_early = False
        """Whether the run has ended once because enough was known, as it was asked to."""
        self.why = ""
        """Why the run ended before everything was tried, as its last `end` record says."""
        self.finished: dict[str, str] = {}
        """The entries on which nothing more is to be tried, each with its outcome; tests are not told of here."""
        self.attack_failures: dict[str, AttackFailure] = {}
        """Those of them whose attack ended by a failure of its own."""
        self.doubled: list[Doubled] = []
        self.kinds: dict[str, int] = {}
        """How many records there are of each kind."""
        self.lines = 0
        self.end = 0
        """Where the last whole record ends."""
        self.torn = 0
        """How many bytes follow it."""
        self._indices: dict[str, int] = {}
        self._marks: dict[int, int] = {}
        self._calls: dict[int, int] = {}
        """How often the attempts were called that have no record yet; a `retry` starts the count again."""

    def is_done(self, case: str, attempt: int) -> bool:
        """Return whether an attempt has a record that counts."""
        return self._mark(case, attempt) >> _FLAG_BITS > 0

    def is_finished(self, case: str) -> bool:
        """Return whether nothing more is to be tried on an entry."""
        return case in self.finished

    def offset_of(self, case: str, attempt: int) -> int | None:
        """Return where the record of an attempt that counts begins."""
        return self._mark(case, attempt) >> _FLAG_BITS or None

    def counts(self, line: Line) -> bool:
        """Return whether a record of an attempt is the one that counts, being neither void nor a second one."""
        record = line.record
        return isinstance(record, AttemptRecord) and self.offset_of(record.case, record.attempt) == line.offset

    def places(self) -> frozenset[int]:
        """Return where the records begin of which rows are made: those that count, and those of attacks that failed."""
        places = {mark >> _FLAG_BITS for mark in self._marks.values()} - {0}
        places.update(self.cases.values(), (failure.offset for failure in self.attack_failures.values()))
        return frozenset(places)

    def last_records(self, *, attack: bool | None = None) -> dict[str, int]:
        """Return for every case with an attempt that counts where the last of these records begins.

        `attack` says which attempts are meant: those of a dynamic attack, the standard ones, or all.
        """
        names, last = list(self._indices), dict[str, int]()
        for key, mark in self._marks.items():
            offset, name = mark >> _FLAG_BITS, names[key >> _ATTEMPT_BITS]
            if offset > last.get(name, 0) and attack in (None, bool(mark & _OF_ATTACK)):
                last[name] = offset
        return last

    def calls_under_way(self) -> dict[tuple[str, int], int]:
        """Return the attempts that were called and have no record that counts, and how often each was called."""
        names = list(self._indices)
        return {
            (names[key >> _ATTEMPT_BITS], key & MAX_ATTEMPT): self._calls.get(key, 0)
            for key, mark in self._marks.items()
            if _waits(mark)
        }

    def attempts_of_unfinished(self) -> Iterator[tuple[str, int]]:
        """Yield the entries that are not finished, with where the record of each attempt that counts begins."""
        names = list(self._indices)
        for key, mark in self._marks.items():
            name = names[key >> _ATTEMPT_BITS]
            if mark >> _FLAG_BITS and name not in self.finished:
                yield name, mark >> _FLAG_BITS

    def failed_attempts(self) -> Iterator[tuple[str, int]]:
        """Yield the attempts whose record that counts is an error."""
        names = list(self._indices)
        for key, mark in self._marks.items():
            if mark & _ERROR:
                yield names[key >> _ATTEMPT_BITS], key & MAX_ATTEMPT

    def _mark(self, case: str, attempt: int) -> int:
        index = self._indices.get(case)
        return 0 if index is None else self._marks.get(index << _ATTEMPT_BITS | attempt, 0)

    def take(self, number: int, offset: int, record: JournalRecord | OtherRecord) -> None:
        """Let one more record count; records are taken in their order."""
        self.lines = number
        self.kinds[record.kind] = self.kinds.get(record.kind, 0) + 1
        if isinstance(record, Numbered):
            self._take_numbered(record, number, offset)
        elif isinstance(record, CaseRecord):
            self._take_case(number, offset, record.case)
        elif isinstance(record, DoneRecord):
            self._take_done(offset, record)
        elif isinstance(record, ResumedRecord):
            self.complete = None
        elif isinstance(record, EndRecord):
            self.complete = record.complete is True
            self.stopped_early |= record.decided is True
            self.why = record.why or ""
        elif isinstance(record, RunRecord) and number > 1:
            raise BadLine("it is a second header, so two runs share the file")
        elif isinstance(record, OtherRecord) and record.wrong:
            raise BadLine(record.wrong)

    def _take_case(self, number: int, offset: int, name: str) -> None:
        if name in self.cases:
            self.doubled.append(Doubled(name, None, number))
            return
        self.cases[name] = offset
        self._indices[name] = len(self._indices)

    def _take_done(self, offset: int, record: DoneRecord) -> None:
        self._index(record.case)
        self._open_again(record.case)
        self.finished[record.case] = record.outcome if record.outcome in _OUTCOMES else Outcome.UNJUDGED.value
        if record.error:
            self.attack_failures[record.case] = AttackFailure(offset, clip(record.error, LONGEST_REASON))

    def _open_again(self, case: str) -> None:
        self.finished.pop(case, None)
        self.attack_failures.pop(case, None)

    def _index(self, case: str) -> int:
        index = self._indices.get(case)
        if index is None:
            raise no_case(case)
        return index

    def _take_numbered(self, record: Numbered, number: int, offset: int) -> None:
        key = self._index(record.case) << _ATTEMPT_BITS | record.attempt
        before = self._marks.get(key, 0)
        if isinstance(record, CallRecord):
            self.repeated += _waits(before)
            self._marks[key] = before | _CALLED
            self._calls[key] = self._calls.get(key, 0) + 1
        elif isinstance(record, RetryRecord):
            self._open_again(record.case)
            self._void(key, before)
            self._calls.pop(key, None)
        elif before >> _FLAG_BITS:
            self.doubled.append(Doubled(record.case, record.attempt, number))
        else:
            failed = record.error is not None and record.error.kind != BLOCKED
            self._calls.pop(key, None)
            self.done += 1
            self.errors += failed
            flags = (_ERROR if failed else 0) | (_OF_ATTACK if is_of_attack(record.strategy) else 0)
            self._marks[key] = offset << _FLAG_BITS | flags

    def _void(self, key: int, before: int) -> None:
        counted = before >> _FLAG_BITS > 0
        self.void += counted
        self.done -= counted
        self.errors -= bool(before & _ERROR)
        # A call that waits is not made undone by this: it stays counted as one that may have to be repeated.
        self._marks[key] = 0 if counted else before


def no_case(name: str) -> BadLine:
    """Return what is wrong with a record whose case is not known."""
    return BadLine(f"no record of its case, {clip(visible(name), _LONGEST_NAME)}, comes before it")


def _waits(mark: int) -> bool:
    return mark == _CALLED


def is_of_attack(strategy: object) -> bool:
    """Return whether a strategy is a dynamic attack."""
    return isinstance(strategy, str) and strategy != STANDARD
