"""Which rows are judged again, what of them is shown to a judge, and how a row is written with its new verdict.

A row in which an error or a block is recorded, a boolean guardrail's row, a response that is no text and an empty one
are left as they are. Everything in a row keeps its value but the verdict and the options of the judge; what was there
before stands beside the new verdict.

A case of a run is one row with its attempts as the history. A hit is an attempt that passed, as it is a success of an
attack, and the case is decided by its own rule. What its metrics had said makes way for what the judge says.
"""

from __future__ import annotations

import codecs
import enum
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from faircount.analysis.evidence import PROMPT_FIELDS, prompt_of
from faircount.core.attempt import Attempt, Expected, Turn
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import MAX_DEPTH, depth
from faircount.io.records import without_surrogates
from faircount.judges.judge import Turns
from faircount.readers.label_values import attempt_fields
from faircount.readers.raw_rows import Members, RawRow, members_of, values_decoder, values_of
from faircount.readers.rows import EMPTY, policy_block_of, scalar_text
from faircount.readers.run_rows import METRIC, WORDS, metric_item, strategy_of, success_over

_BOOLEANS = {b"true": True, b"false": False, b'"True"': True, b'"False"': False}
_BOOLEAN_WORDS = {"True": True, "False": False}
_NO_TEXT = (b'"audio"', b'"image"')
_EMPTY_RESPONSES = (b"", b"null", b'""')
_ANSWERS = frozenset(["assistant", "model", "target"])
_ROW = ("response", *PROMPT_FIELDS, "conversation", "response_time", "judge_args")
_row_decoder = values_decoder(_ROW)
_turns_decoder = values_decoder((*_ROW, "attempt_history", "meta"))
_items_decoder = msgspec.json.Decoder(list[Raw])
_json_null = b"null"
_LEFT_OPEN = "the case's rule leaves it undecided"
_METRICS_BEFORE = "metrics_before"
_PLAIN_BEGINNING = re.compile(rb'\{"id": (?:-?[0-9]+|"[^"\\]*"), "long_id": "[^"\\]*", "success": (true|false|null), "')
"""How most rows begin."""


class SkipReason(enum.StrEnum):
    """Why a row is not judged."""

    ERROR = "error"
    BLOCKED = "blocked"
    BOOLEAN = "boolean"
    NOT_TEXT = "not_text"
    EMPTY = "empty"
    NO_JUDGE = "no_judge"
    NOT_ALLOWED = "not_allowed"


class JudgedPart(Struct, frozen=True):
    """A response of a row that is judged; `turn` is its place in the history, or None for the row's own response."""

    attempt: Attempt
    turn: int | None = None


class Shape(enum.IntEnum):
    """How the verdicts on the parts of a row become that of the row."""

    ONE = 0
    HISTORY = 1
    CONVERSATION = 2
    CASE = 3


def left_alone(raw: RawRow, *, run: bool) -> SkipReason | None:
    """Return why a row is not judged, as far as its verdict and its flags tell."""
    row = raw.row
    if run:  # it has no guardrails: a test may well be answered with True
        return None if row.error is None else SkipReason.ERROR
    if row.guardrail is True or policy_block_of(row) is not None:
        return SkipReason.BLOCKED
    if row.error is not None:
        return SkipReason.ERROR
    boolean = _BOOLEANS.get(bytes(row.response)) if len(row.response) <= len(b'"False"') else None
    if boolean is not None and (boolean is row.success or bytes(row.response)[:1] != b'"'):
        return SkipReason.BOOLEAN
    if bytes(row.response_type) in _NO_TEXT:
        return SkipReason.NOT_TEXT
    return None


def is_simple(raw: RawRow, *, each_turn: bool, run: bool) -> bool:
    """Return whether the row's own response is all that there is to judge."""
    return not run and not (each_turn and (raw.row.attempt_history is not EMPTY or raw.row.conversation is not EMPTY))


def is_empty(raw: RawRow) -> bool:
    """Return whether the row's own response is missing or empty."""
    return len(raw.row.response) <= len(_json_null) and bytes(raw.row.response) in _EMPTY_RESPONSES


def parts_of(raw: RawRow, *, each_turn: bool, run: bool) -> tuple[Shape, tuple[JudgedPart, ...]]:
    """Return what of a row is judged: its response, or each of its turns; nothing where all is empty."""
    if run:
        return Shape.CASE, tuple(_run_parts(without_surrogates(values_of(raw.line, _turns_decoder))))
    if not is_simple(raw, each_turn=each_turn, run=run):
        shape, parts = _turn_parts(without_surrogates(values_of(raw.line, _turns_decoder)))
        if parts:
            return shape, tuple(parts)
    if is_empty(raw):
        return Shape.ONE, ()
    values = without_surrogates(values_of(raw.line, _row_decoder))
    return Shape.ONE, (JudgedPart(_attempt(values, scalar_text(values.get("response")) or "")),)


def text_alone(raw: RawRow) -> Attempt:
    """Return as much of a row as judges look at that only compare strings."""
    row = raw.row
    try:
        response: Any = msgspec.json.decode(row.response)
        arguments: Any = None if row.judge_args is EMPTY else msgspec.json.decode(row.judge_args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # lone surrogates, numbers that are none
        _, (part,) = parts_of(raw, each_turn=False, run=False)
        return part.attempt
    notes = {} if arguments in (None, "") else {"judge_args": arguments}
    return Attempt(scalar_text(response) or "", notes=notes)


def _attempt(values: Mapping[str, Any], response: str, **own: Any) -> Attempt:
    roles = (
        ("conversation", "conversation", _conversation(values.get("conversation"))),
        ("latency", "response_time", values.get("response_time")),
        ("notes.judge_args", "judge_args", values.get("judge_args")),
    )
    # A field that no judge can use is no reason to leave the response unjudged.
    fields = {"prompt": scalar_text(prompt_of(values)) or "", **attempt_fields(roles, lambda _: None), **own}
    return Attempt(response, **fields)


# -- turns ------------------------------------------------------------------------------------------------------


def _turn_parts(values: Mapping[str, Any]) -> tuple[Shape, list[JudgedPart]]:
    """Return the answers of a history, or of a conversation, and the row's own response where it is none of them."""
    own, history, shape = values.get("response"), values.get("attempt_history"), Shape.HISTORY
    parts = list(_history_parts(values, history)) if isinstance(history, list) else []
    if not parts:
        shape, parts = Shape.CONVERSATION, list(_conversation_parts(values))
    is_answer = isinstance(own, str) and own != "" and own not in _BOOLEAN_WORDS
    if parts and is_answer and all(part.attempt.response != own for part in parts):
        parts.append(JudgedPart(_attempt(values, str(own))))
    return shape, parts


def _history_parts(values: Mapping[str, Any], history: Sequence[Any]) -> Iterator[JudgedPart]:
    for turn, item in enumerate(history):
        response = item.get("response") if isinstance(item, dict) else None
        if not isinstance(response, str) or not response or item.get("error") is not None:
            continue
        # Only an answer in words counts: no block, no guardrail's boolean, no audio.
        boolean, is_text = _BOOLEAN_WORDS.get(response), item.get("response_type") not in ("audio", "image")
        if item.get("guardrail") is not True and is_text and (boolean is None or boolean is not item.get("success")):
            prompt = item.get("input")
            own = {} if prompt in (None, "") else {"prompt": scalar_text(prompt) or ""}
            yield JudgedPart(
                _attempt(values, response, **own, conversation=(), latency=_seconds(item.get("response_time"))), turn
            )


def _conversation_parts(values: Mapping[str, Any]) -> Iterator[JudgedPart]:
    """Yield each answer of a conversation with what was said before it; of a tree of turns, in the tree's own order."""
    fields = attempt_fields(
        [("conversation", "conversation", _conversation(values.get("conversation")))], lambda _: None
    )
    turns: tuple[Turn, ...] = fields.get("conversation", ())
    for place, turn in enumerate(turns):
        if turn.role in _ANSWERS and turn.content:
            before = turns[:place]
            asked = next((one.content for one in reversed(before) if one.role not in _ANSWERS), "")
            yield JudgedPart(_attempt(values, turn.content, prompt=asked, conversation=before, latency=None), place)


def _conversation(value: Any) -> Any:
    """Return a conversation as a list of turns; a tree of them, which may be written as a text, goes node by node."""
    if not isinstance(value, str):
        return value
    if depth(value.encode("utf-8", "replace")) > MAX_DEPTH:
        return None
    try:
        tree = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict):
        return tree if isinstance(tree, list) else None
    nodes = [node.get("data") for node in tree.values() if isinstance(node, dict)]
    return [data for data in nodes if isinstance(data, dict) and isinstance(data.get("role"), str)] or None


def _run_parts(values: Mapping[str, Any]) -> Iterator[JudgedPart]:
    """Yield the attempts of a case that were answered; nothing in so many words is an answer, too."""
    meta = values.get("meta")
    recorded = meta.get("expected_output") if isinstance(meta, dict) else None
    names = (("expected_output", "output"), ("expected_tools", "tools_called"), ("expected_context", "context"))
    roles = [(role, name, recorded.get(name)) for role, name in names] if isinstance(recorded, dict) else []
    expected: Expected = attempt_fields(roles, lambda _: None).get("expected", Expected())
    history = values.get("attempt_history")
    for turn, item in enumerate(history if isinstance(history, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("response"), str) and item.get("error") is None:
            latency = _seconds(item.get("response_time"))
            yield JudgedPart(_attempt(values, item["response"], latency=latency, expected=expected), turn)


def _seconds(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < float("inf") else None


# -- verdicts ---------------------------------------------------------------------------------------------------


Judged = tuple[tuple[int | None, Verdict], ...]
"""The verdicts on the parts of a row, each with its turn."""


def success_of(shape: Shape, judged: Judged, raw: RawRow, turns: Turns) -> bool | None:
    """Return what the verdicts on the parts of a row come to; None: unjudged."""
    if shape is Shape.CASE:
        # By the rule that the case names; some attempts had no answer.
        values, verdicts = values_of(raw.line, _turns_decoder), dict(judged)
        meta, history = values.get("meta"), values.get("attempt_history")
        items = history if isinstance(history, list) else []
        metrics = [_as_metric(verdicts.get(turn)) for turn, item in enumerate(items) if isinstance(item, dict)]
        return success_over(strategy_of(meta) if isinstance(meta, dict) else None, metrics)
    hits = [verdict.success for _, verdict in judged]
    decisive = turns != "all"
    if decisive in hits:
        return decisive
    return None if None in hits else not decisive


def _as_metric(verdict: Verdict | None, name: str = "") -> Verdict:
    """Return what a judge said of an attempt as a metric would say it, with a score; no answer, no decision."""
    if verdict is None or verdict.decision is None:
        return Verdict(None, reason="" if verdict is None else verdict.error or "", judge=name)
    score = float(verdict.decision is Decision.HIT) if verdict.score is None else verdict.score
    return Verdict(verdict.decision, score, verdict.reason, judge=name)


class NewVerdict(Struct, frozen=True):
    """What is written into a row; `options` is UNSET where those of the row stay."""

    success: bool | None
    judge: str
    identity: str
    shape: Shape
    parts: Judged
    options: str | UnsetType | None = UNSET

    @property
    def failed(self) -> bool:
        """Whether the judge failed where that matters; the rule of a case can leave it open without that."""
        return self.success is None and any(verdict.decision is None for _, verdict in self.parts)

    @property
    def error(self) -> str:
        """Why there is no verdict."""
        return (self.deciding.error or "the judge did not decide") if self.failed else _LEFT_OPEN

    @property
    def deciding(self) -> Verdict:
        """The verdict that decided: the first hit, else the first that is missing, else the last."""
        verdicts = [verdict for _, verdict in self.parts]
        return next((one for one in verdicts if one.success is self.success), verdicts[-1])


class _Provenance(Struct, frozen=True):
    """What is written beside a new verdict."""

    judge: str
    identity: str
    score: float | None
    reason: str
    at: str
    before: Raw
    turns: list[dict[str, Any]] | UnsetType = UNSET


def rewritten(raw: RawRow, new: NewVerdict) -> bytes:
    """Return a row with its new verdict, as a line with its end."""
    return _spliced(raw, raw.line, new) or _put_together(raw.line, new)


def _spliced(raw: RawRow, line: bytes, new: NewVerdict) -> bytes | None:
    """Return a row that begins as most do with two pieces put in; None where more than that has to be done."""
    simple = raw.clean and new.shape is Shape.ONE and new.success is not None
    if not simple or not (new.options is UNSET or new.options == raw.row.judge_options):
        return None
    start = _PLAIN_BEGINNING.match(line)
    if start is None or line.find(b'"success"', start.end()) >= 0 or not line.endswith(b"}"):
        return None
    if b'"rejudged"' in line or b'"judge_error"' in line:
        return None
    verdict = b"true" if new.success else b"false"
    provenance = _provenance(new, b'{"success": %b}' % start[1])
    return b"".join([line[: start.start(1)], verdict, line[start.end(1) : -1], b', "rejudged": ', provenance, b"}\n"])


def _put_together(line: bytes, new: NewVerdict) -> bytes:
    """Return a row put together from the texts of its fields."""
    fields = members_of(line)
    before: Members = {"success": fields.get("success", _json_null)}
    old, options = bytes(fields.get("judge_options", _json_null)), new.options
    if options is not UNSET and _json(options) != old:
        before["judge_options"] = old
        fields["judge_options"] = _json(options)
    before |= {name: fields.pop(name) for name in ("judge_error", "rejudged") if name in fields}
    fields["success"] = _json(new.success)
    if new.shape is Shape.CASE:
        before |= _with_metric(fields, new)
    turns: dict[int, bool | None] = {}
    if new.shape in (Shape.HISTORY, Shape.CASE) and "attempt_history" in fields:
        fields["attempt_history"], turns = _history(bytes(fields["attempt_history"]), new)
    if new.success is None:
        fields["judge_error"] = _json(new.error)
    fields["rejudged"] = _provenance(new, _written(before), turns)
    return _written(fields) + b"\n"


def _provenance(new: NewVerdict, before: bytes, turns_before: Mapping[int, bool | None] | None = None) -> bytes:
    deciding, old = new.deciding, turns_before or {}
    turns: list[dict[str, Any]] = []
    for turn, verdict in () if new.shape is Shape.ONE else new.parts:
        part = {"turn": turn, "success": verdict.success, "score": verdict.score, "reason": verdict.reason}
        if turn is not None and turn in old:
            part["before"] = old[turn]
        turns.append(part if verdict.error is None else {**part, "error": verdict.error})
    reason = without_surrogates(deciding.reason)
    return msgspec.json.encode(
        _Provenance(
            new.judge,
            new.identity,
            deciding.score,
            reason,
            deciding.at,
            Raw(before),
            without_surrogates(turns) or UNSET,
        )
    )


def _with_metric(fields: Members, new: NewVerdict) -> Members:
    """Let the judge be the metric of a case, the only one; return what was replaced."""
    before = {name: fields.pop(name) for name in list(fields) if name.startswith(METRIC)}
    if "judge_name" in fields:
        before["judge_name"] = fields["judge_name"]
    fields["judge_name"] = _json(new.judge)
    # The name of a field has no quotes, so that it can be asked for.
    fields[METRIC + "".join(filter(str.isprintable, new.judge.replace('"', "'").replace("\\", "/")))] = _json(
        WORDS[new.success]
    )
    # The response is the first answer that was decided like its case, or the one that stands there.
    turn = next((turn for turn, verdict in new.parts if verdict.success is new.success), None)
    items = _items(bytes(fields.get("attempt_history", b"")))
    item = items[turn] if turn is not None and turn < len(items) else None
    shown: Raw | bytes | None = item.get("response") if isinstance(item, dict) else None
    fields["response"] = shown if shown is not None else fields.get("response", _json_null)
    return before


def _history(text: bytes, new: NewVerdict) -> tuple[bytes, dict[int, bool | None]]:
    """Return a history with the new verdicts on the turns that were judged, and the old ones; all else stays."""
    items, before = _items(text), dict[int, bool | None]()
    for turn, verdict in new.parts:
        item = items[turn] if turn is not None and turn < len(items) else None
        if isinstance(item, dict) and turn is not None:
            before[turn] = _BOOLEANS.get(bytes(item.get("success", b"")))
            item["success"] = _json(verdict.success)
            if new.shape is Shape.CASE:
                item.setdefault(_METRICS_BEFORE, item.get("metrics", b"[]"))
                item["metrics"] = _json([metric_item(_as_metric(verdict, new.judge))])
    if not items:
        return text, before
    return b"[" + b", ".join([_written(item) if isinstance(item, dict) else item for item in items]) + b"]", before


def _items(text: bytes) -> list[Members | bytes]:
    """Return the items of a list with the text of what they hold; none where it is no list."""
    try:
        items = [bytes(item) for item in _items_decoder.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            loosely = json.loads(text)
        except (ValueError, RecursionError):  # numbers of thousands of digits, which nothing here could write again
            return []
        items = [_json(item) for item in loosely] if isinstance(loosely, list) else []
    return [members_of(item) if item.lstrip().startswith(b"{") else item for item in items]


def unchanged(line: bytes) -> bytes:
    """Return a row as it is, as a line with its end."""
    return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r") + b"\n"


def _written(fields: Mapping[str, Raw | bytes]) -> bytes:
    return b"{" + b", ".join([_name(name) + bytes(value) for name, value in fields.items()]) + b"}"


_encode: Callable[..., str] = json.JSONEncoder(ensure_ascii=False).encode


def _json(value: Any) -> bytes:
    return _encode(value).encode("utf-8", "backslashreplace")


@lru_cache(maxsize=256)
def _name(name: str) -> bytes:
    return _json(name) + b": "
