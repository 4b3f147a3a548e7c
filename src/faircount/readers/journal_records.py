"""The records of a run journal: what each kind holds, how a line is read, and how it is written.

A record is whole when its line ends in a line feed and is one JSON object. Unknown fields and kinds are ignored.
Nothing here opens a file; a line that is not whole is a `BadLine`, and whoever reads says what becomes of it.

Schema 2 has one vocabulary of verdicts. Journals of schema 1 call those on tests passed and failed, and a run that goes
on in such a journal adds the new words to it: whatever the header says, both are read.
"""

from __future__ import annotations

import contextlib
import json
import math
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from faircount.core.errors import InputError
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
    """What an answer took, or a verdict, of which alone `requests` are told."""

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
    told = decode_record(line, finite=strict)
    kind = told.get("kind")
    if not isinstance(kind, str):
        return OtherRecord("", "it has no kind")
    if kind not in _SHAPES:
        return OtherRecord(kind)
    try:
        return _typed(told, _SHAPES[kind], strict=strict)
    except BadLine as bad:
        return OtherRecord(kind, str(bad))


def decode_header(line: bytes, path: str) -> RunRecord:
    """Return the first record of a journal; an InputError if it is no header, or that of another form of journal."""
    told = decode_record(line)
    if told.get("kind") != "run":
        raise InputError(f'{path}:1: not a run journal: its first record is not of kind "run"')
    if type(told.get("schema")) is not int or told["schema"] not in (1, SCHEMA):
        found = clip(visible(str(told.get("schema"))), 20)
        raise InputError(
            f"{path}:1: the journal has schema {found}, but this version reads schemas 1 and {SCHEMA}; "
            "use the version of Faircount that wrote it"
        )
    return _typed(told, RunRecord)


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
    record, doubts = parse(line.removeprefix(BOM_UTF8))
    if doubts.not_finite or (doubts.too_large and finite):
        raise BadLine("NaN and infinities are not JSON" if doubts.not_finite else "a number is too large")
    return record


def _typed(told: Mapping[str, Any], shape: type[_Shape], *, strict: bool = False) -> _Shape:
    known = {name: told[name] for name in shape.__struct_fields__ if name in told}
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
        return written if written.isascii() and _decoder.decode(written) == record else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


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


_encoder = msgspec.json.Encoder()
_patient_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
