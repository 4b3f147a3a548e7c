"""Run journals: the records of each kind, how a line is read and written, and what the records come to.

A record is whole when its line ends in a line feed and is one JSON object. Unknown fields and kinds are ignored.
Nothing here opens a file; a line that is not whole, or makes no sense in its place, is a `BadLine`, and whoever reads
says what becomes of it. Those who resume a run and those who analyse one share this.

Schema 2 has one vocabulary of verdicts. Journals of schema 1 call those on tests passed and failed, and a run that goes
on in such a journal adds the new words to it: whatever the header says, both are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from faircount.core.errors import InputError
from faircount.core.model import Outcome
from faircount.core.text import clip, visible
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import MAX_DEPTH, BadLine, depth, parse

SCHEMA = 2
"""Which form of journal is written; it is in the header. Form 1 is read as well."""
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_ATTEMPT = 2**32 - 1
ATTACK: Literal["attack"] = "attack"
TASK: Literal["task"] = "task"

_AttemptNumber = Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)]
_Shape = TypeVar("_Shape", bound=Struct)


# -- the kinds of records ---------------------------------------------------------------------------------------
# A field that was not given is left out: one that is its very default, or UNSET. An attempt spells out its nulls.


class JournalRecord(
    Struct, frozen=True, tag_field="kind", tag=lambda name: name.removesuffix("Record").lower(), omit_defaults=True
):
    """A record of a journal; its class says of which kind."""

    @property
    def kind(self) -> str:
        """The word for it in the journal."""
        return str(self.__struct_config__.tag)


class ShardRecord(Struct, frozen=True):
    """A journal of which a merged one was made."""

    journal: str
    run: str | None
    shard: int
    entries: int
    attempts: int


class RunRecord(JournalRecord, frozen=True):
    """The header: what is run, and how."""

    schema: int | None = None
    aim: Literal["attack", "task"] = TASK
    run: str | None = None
    version: str | None = None
    started: str | None = None
    settings: dict[str, Any] | None = None
    merged: list[ShardRecord] | None = None


class InputRecord(Struct, frozen=True):
    """What is sent: messages in OpenAI's shape, and parameters of the request."""

    messages: Sequence[Mapping[str, Any]] = ()
    api_params: Mapping[str, Any] = {}


class AttemptsRecord(Struct, frozen=True):
    """How often a test is tried, and how one result is made of all."""

    count: int = 1
    aggregation_strategy: str = "mean"


class MetricRecord(Struct, frozen=True):
    """What measures the answers; `identity` changes with everything that can change what it says."""

    name: str
    type: str = ""
    version: str = ""
    parameters: Mapping[str, Any] = {}
    identity: str | None = None


class CaseRecord(JournalRecord, frozen=True):
    """A test case, or an entry of a dataset, which alone has `entry` and `turns`."""

    case: str
    tags: Sequence[str] = ()
    input: InputRecord = InputRecord()
    expected_output: Mapping[str, Any] = {}
    expected_fields: Sequence[str] = ()
    retry_params: AttemptsRecord = AttemptsRecord()
    entry: Mapping[str, Any] | None = None
    metrics: Sequence[MetricRecord] = ()
    place: str = ""
    declared_name: str = ""
    turns: Sequence[str] = ()


class CallRecord(JournalRecord, frozen=True):
    """That an attempt is about to be sent."""

    case: str
    attempt: _AttemptNumber


class OutputRecord(Struct, frozen=True, omit_defaults=True):
    """An answer. `let_through` is what a guardrail said that answers yes or no."""

    output: str | None = None
    tools_called: list[Any] | None = None
    context: list[Any] | None = None
    execution_time: float | None = None
    let_through: bool | None = None


class ErrorRecord(Struct, frozen=True, omit_defaults=True):
    """Why there is no answer. A block is of the kind `blocked`, with what the guardrail or the provider named."""

    kind: str | None = None
    message: str | None = None
    categories: list[str] | None = None
    policy_block: str | None = None


class UsageRecord(Struct, frozen=True):
    """What an answer took, or a verdict, of which alone `requests` are given."""

    requests: int | UnsetType = UNSET
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


class VerdictRecord(Struct, frozen=True, kw_only=True):
    """A verdict of a metric or judge as a journal has it; `error` is why it did not decide.

    Of an attack, success is bad news; of a test, it means that the test passed. Journals of schema 1 say "passed" and
    "failed". A score that JSON cannot hold is null, and in words in `score_as_told`.
    """

    metric: str
    score: float | None = None
    score_as_told: str | UnsetType = UNSET
    verdict: Literal["success", "failure", "error", "passed", "failed"]
    reason: str | None = ""
    error: str | None = None
    usage: UsageRecord | UnsetType = UNSET

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictRecord:
        """Return what is written of a verdict."""
        score, usage = verdict.score, verdict.usage
        odd = score is not None and not math.isfinite(score)
        return cls(
            metric=verdict.judge,
            score=None if odd else score,
            score_as_told=str(score) if odd else UNSET,
            verdict=_WORDS[verdict.success],
            reason=verdict.reason,
            error=verdict.error,
            usage=UNSET if usage is None else UsageRecord(*structs.astuple(usage)),
        )

    @property
    def decision(self) -> Decision | None:
        """What the judge decided."""
        return DECISIONS[self.verdict]


_WORDS: dict[bool | None, Literal["success", "failure", "error"]] = {True: "success", False: "failure", None: "error"}
DECISIONS: dict[str, Decision | None] = {
    "success": Decision.HIT,
    "failure": Decision.PASS,
    "error": None,
    "passed": Decision.HIT,
    "failed": Decision.PASS,
}
"""The words for verdicts in journals; those of the first schema are REBEL's."""


class AttemptRecord(JournalRecord, frozen=True, omit_defaults=False):
    """What came of an attempt. Only those on entries have `strategy`, `iteration`, and `messages` and `note` if any."""

    case: str
    attempt: _AttemptNumber
    calls: int | None = None
    started: str | None = None
    strategy: str | UnsetType = UNSET
    iteration: int | UnsetType = UNSET
    messages: Sequence[Mapping[str, Any]] | UnsetType | None = UNSET
    note: Mapping[str, Any] | UnsetType | None = UNSET
    output: OutputRecord | None = None
    error: ErrorRecord | None = None
    verdicts: list[VerdictRecord] = []
    model: str | UnsetType | None = UNSET
    finish_reason: str | UnsetType | None = UNSET
    usage: UsageRecord | UnsetType | None = UNSET
    request_id: str | UnsetType | None = UNSET
    tries: int | None = None
    waited: float | None = None


class RetryRecord(JournalRecord, frozen=True):
    """That the record of an attempt before it does not count."""

    case: str
    attempt: _AttemptNumber


class DoneRecord(JournalRecord, frozen=True):
    """That nothing more is to be tried on an entry; `error` is why its attack failed."""

    case: str
    outcome: str | None = None
    error: str | None = None


class ResumedRecord(JournalRecord, frozen=True):
    """That the run goes on: how many calls were under way, and how many bytes were torn."""

    at: str | None = None
    repeated: int | None = None
    torn: int | None = None


class EndRecord(JournalRecord, frozen=True):
    """How the run ended; `decided`: it was to stop when enough is known, and did."""

    at: str | None = None
    complete: bool | None = None
    why: str | None = None
    decided: bool | None = None


class OtherRecord(Struct, frozen=True):
    """A record of a kind that is not known here, or one that does not say what it is about, which is `wrong`."""

    kind: str
    wrong: str = ""


_Known = RunRecord | CaseRecord | CallRecord | AttemptRecord | RetryRecord | DoneRecord | ResumedRecord | EndRecord
_SHAPES: dict[str, type[JournalRecord]] = {str(one.__struct_config__.tag): one for one in get_args(_Known)}
_WRONG = (msgspec.ValidationError, UnicodeError, OverflowError)
"""What converting raises: for a wrong type, a lone surrogate in the name of a field, a number beyond all floats."""


# -- reading ----------------------------------------------------------------------------------------------------


def decode(line: bytes, *, strict: bool = False) -> JournalRecord | OtherRecord:
    """Return the record on a line, or raise `BadLine` where the line is not whole.

    A field of the wrong type counts as missing, or raises a `ValueError` if the reading is `strict`.
    """
    if line.isascii() and line.endswith(b"\n"):
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            pass
    fields = decode_record(line, finite=strict)
    kind = fields.get("kind")
    if not isinstance(kind, str):
        return OtherRecord("", "it has no kind")
    if kind not in _SHAPES:
        return OtherRecord(kind)
    try:
        return _typed(fields, _SHAPES[kind], strict=strict)
    except BadLine as bad:
        return OtherRecord(kind, str(bad))


def decode_header(line: bytes, path: str) -> RunRecord:
    """Return the first record of a journal; an InputError if it is no header, or that of another form of journal."""
    fields = decode_record(line)
    if fields.get("kind") != "run":
        raise InputError(f'{path}:1: not a run journal: its first record is not of kind "run"')
    if type(fields.get("schema")) is not int or fields["schema"] not in (1, SCHEMA):
        found = clip(visible(str(fields.get("schema"))), 20)
        raise InputError(
            f"{path}:1: the journal has schema {found}, but this version reads schemas 1 and {SCHEMA}; "
            "use the version of Faircount that wrote it"
        )
    return _typed(fields, RunRecord)


def decode_record(line: bytes, *, finite: bool = True) -> dict[str, Any]:
    """Return the record on a line as it is written, or raise `BadLine` where the line is not whole.

    A number beyond all floats is refused, or read as infinity if not all numbers must be `finite`.
    """
    if line.isascii() and line.endswith(b"\n"):
        try:
            return _plain_decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            pass
    if not line.endswith(b"\n"):
        raise BadLine("torn: the line has no end" if len(line) <= MAX_LINE_BYTES else "the line is too long")
    # What the quick decoder refuses: a lone surrogate, or a byte order mark.
    record, problems = parse(line.removeprefix(BOM_UTF8))
    if problems.not_finite or (problems.too_large and finite):
        raise BadLine("NaN and infinities are not JSON" if problems.not_finite else "a number is too large")
    return record


def _typed(fields: Mapping[str, Any], shape: type[_Shape], *, strict: bool = False) -> _Shape:
    known = {name: fields[name] for name in shape.__struct_fields__ if name in fields}
    try:
        return msgspec.convert(known, shape)
    except _WRONG:
        if strict:
            raise
    kept: dict[str, Any] = {}
    for field in structs.fields(shape):
        with contextlib.suppress(KeyError, *_WRONG):
            kept[field.name] = msgspec.convert(known[field.name], field.type)
    if any(field.required and field.name not in kept for field in structs.fields(shape)):
        raise BadLine("it does not name its case" + " and attempt" * ("attempt" in shape.__struct_fields__))
    if shape is AttemptRecord and "error" in known and "error" not in kept:  # whatever it is, the attempt failed
        kept["error"] = _typed(known["error"] if isinstance(known["error"], dict) else {}, ErrorRecord)
    return shape(**kept)


_decoder: msgspec.json.Decoder[JournalRecord] = msgspec.json.Decoder(_Known)
_plain_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


# -- writing ----------------------------------------------------------------------------------------------------


def encode_record(record: JournalRecord) -> bytes:
    """Return the line of a record: ASCII, so that a lone surrogate survives. `ValueError`: it cannot be written.

    What is refused here is what could not be read back: numbers that are not finite, lines over the limit, lists and
    objects nested too deeply.
    """
    line = (_quickly(record) or _patiently(record)) + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a record of kind {record.kind} takes {len(line):,} bytes; the limit is {MAX_LINE_BYTES:,}")
    if len(line) > MAX_DEPTH and depth(line) > MAX_DEPTH:  # each level takes a character at least
        raise ValueError(f"a record of kind {record.kind} is nested more than {MAX_DEPTH} levels deep")
    return line


def _quickly(record: JournalRecord) -> bytes | None:
    """Return a record as JSON if the quick encoder can write it so that the same is read back; it makes null of NaN."""
    try:
        written = _encoder.encode(record)
        if not written.isascii():
            written = _NOT_ASCII.sub(_escaped, written.decode()).encode("ascii")
        return written if _is_finite(record) or _decoder.decode(written) == record else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _escaped(text: re.Match[str]) -> str:
    return encode_basestring_ascii(text[0])[1:-1]


def _is_finite(record: JournalRecord) -> bool:
    """Return whether it is plain to see that all numbers of a record are finite: it is one of the many short ones."""
    if type(record) is not AttemptRecord:
        return type(record) in _WITHOUT_NUMBERS
    output, usage = record.output, record.usage
    if record.messages is not UNSET or record.note is not UNSET:
        return False
    numbers = [record.waited]
    if output is not None:
        if output.tools_called or output.context:
            return False
        numbers.append(output.execution_time)
    if isinstance(usage, UsageRecord):
        numbers.append(usage.cost)
    for verdict in record.verdicts:
        if verdict.usage is not UNSET:
            return False
        numbers.append(verdict.score)
    return all(number is None or math.isfinite(number) for number in numbers)


def _patiently(record: JournalRecord) -> bytes:
    """Return any record as JSON, or raise with the reason why it cannot be written."""
    try:
        return _patient_encoder.encode(msgspec.to_builtins(record, enc_hook=_plain)).encode("ascii")
    except RecursionError:
        raise ValueError(f"a record of kind {record.kind} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"a record of kind {record.kind} cannot be written as JSON: {error}") from error


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else msgspec.to_builtins(value)


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_WITHOUT_NUMBERS = (CallRecord, DoneRecord, RetryRecord, EndRecord)
_encoder = msgspec.json.Encoder()
_patient_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


# -- what the records of a journal come to ----------------------------------------------------------------------

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
        """The entries on which nothing more is to be tried, each with its outcome; tests are not among them."""
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
