"""One line of a spikee result file as a clean row.

A clean block of lines takes the fast way: one strict decode of the fields that count. A line that the decoder
refuses takes the careful way: parsed loosely, each field cleaned, each doubt noted. Both ways end in the same `Row`.
Long text is never decoded; it stays in the file. Fields that spikee never wrote are learnt as they turn up and kept
as facets.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from faircount.core.findings import Notes
from faircount.io import lenient_json as loose
from faircount.io.lenient_json import BadLine
from faircount.readers.normalise import LARGEST_COUNT, Cleaner
from faircount.readers.rows import EMPTY

UNKNOWN_FIELDS_KEPT = 32
_DECISIVE_KEYS = (b'"success"', b'"id"')
"""Keys that are looked for twice in a line; of any other doubled key the last wins in silence."""

_VERDICT = b'"success":'
_VERDICT_LENGTH = len(_VERDICT)
_VERDICTS: dict[object, bytes] = {True: b"true", False: b"false", None: b"null"}
_NOWHERE = b"\n"
_CLOSE = ord("}")

RUN_MARK = "rejudged_run"
"""The field with which a row of a run begins that was judged again. No row of an attack has it."""

RequestCount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Duration = Annotated[float, msgspec.Meta(ge=0)]
Label = str | None
Identifier = int | str | UnsetType | None


class Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A clean row. `Raw` fields are carried undecoded; a field that is not listed is unknown, and learnt."""

    # In the order in which spikee writes them: that is how the decoder looks for them.
    id: int | str
    long_id: Label = None
    success: bool | UnsetType | None = UNSET
    input: Raw = EMPTY
    input_type: Label = None
    response: Raw = EMPTY
    response_type: Raw = EMPTY
    response_time: Duration | None = None
    judge_name: Label = None
    judge_args: Raw = EMPTY
    judge_options: Label = None
    attempts: RequestCount = 1
    task_type: Label = None
    jailbreak_type: Label = None
    instruction_type: Label = None
    document_id: Label = None
    position: Label = None
    spotlighting_data_markers: Label = None
    injection_delimiters: Label = None
    suffix_id: Label = None
    lang: Label = None
    system_message: Label = None
    plugin: Label = None
    attack_name: str | UnsetType | None = UNSET
    attack_options: Raw = EMPTY
    error: str | None = None
    guardrail: bool | UnsetType | None = UNSET
    guardrail_categories: Raw = EMPTY
    policy_block: Label = None
    objective: Raw = EMPTY
    attempt_history: Raw = EMPTY
    conversation: Raw = EMPTY
    meta: Raw = EMPTY
    prefix_id: Label = None
    target: Label = None
    target_options: Label = None
    result_parent_id: Identifier = UNSET
    attack_parent_id: Identifier = UNSET
    original_id: Identifier = UNSET
    result_origin: str | None = None
    source_file: str | None = None
    content: Raw = EMPTY
    text: Raw = EMPTY
    content_type: Raw = EMPTY
    payload: Raw = EMPTY
    injected: Raw = EMPTY
    steering_keywords: Raw = EMPTY
    ideal_answer: Raw = EMPTY
    ideal_summary: Raw = EMPTY
    exclude_from_transformations_regex: Raw = EMPTY
    outcome: Raw = EMPTY
    timestamp: Raw = EMPTY
    attack_parent_long_id: Raw = EMPTY
    entry_complete: Raw = EMPTY
    attack_attempt: Raw = EMPTY
    attack_invocation: Raw = EMPTY
    attack_result_format: Raw = EMPTY
    rejudged: Raw = EMPTY
    judge_error: Raw = EMPTY


KNOWN_FIELDS = frozenset(Row.__struct_fields__)
_RAW_FIELDS = frozenset(name for name, kind in Row.__annotations__.items() if kind == "Raw")
_IDENTIFIERS = frozenset(["result_parent_id", "attack_parent_id", "original_id"])
_NESTED_FIELDS = (
    "input",
    "response",
    "objective",
    "conversation",
    "attempt_history",
    "meta",
    "guardrail_categories",
)


class RowDecoder:
    """Decodes the lines of one source, learning the unknown fields that it meets."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.unknown_fields: list[str] = []
        self._cleaner = Cleaner(notes)
        self._decoder: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)
        self._row_type: type[Row] = Row

    def all_fast(self, buffer: bytes | bytearray, length: int) -> list[Row] | None:
        """Decode the lines at the beginning of a buffer all at once, or give up on all if one is not clean.

        What the rows hold undecoded is only there as long as the buffer stays as it is.
        """
        lines = memoryview(buffer)[:length]
        if not (buffer.isascii() or is_utf8(lines)) or _escapes_letters(buffer, length):
            return None
        try:
            rows = self._decoder.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return rows if _one_on_every_line(buffer, length, rows) else None

    def fast(self, line: bytes, number: int) -> tuple[Row, bool]:
        """Decode a line that is known to be UTF-8."""
        try:
            row = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.careful(line, number)
        if loose.depth(line) > loose.MAX_DEPTH:
            raise BadLine(f"nested more than {loose.MAX_DEPTH} levels deep")
        if _escapes_letters(line, len(line)) or _doubled(line, row):
            return self.careful(line, number)
        return row, row.success is True

    def careful(self, line: bytes, number: int) -> tuple[Row, bool]:
        """Parse a line loosely and clean its fields; also return spikee's own reading of the verdict."""
        values, doubts = loose.parse(line)
        if RUN_MARK in values:
            raise BadLine("a test result, in a file that does not begin with one")
        for key in doubts.duplicate_keys:
            self.notes.add("F011", self._cleaner.whole("key", key), number)
        if doubts.not_finite:
            self.notes.add("F012", "", number)
        if self._learn(values, number) and not doubts:
            with contextlib.suppress(msgspec.DecodeError):
                row = self._decoder.decode(line)
                return row, row.success is True
        return self._clean(values, number), bool(values.get("success", False))

    def _learn(self, values: dict[str, Any], number: int) -> bool:
        """Give every unknown field of a line a place of its own, as far as its name and the limit allow.

        Return whether anything was learnt.
        """
        known = KNOWN_FIELDS.union(self.unknown_fields)
        unknown = [name for name in values if name not in known]
        new = [name for name in unknown if is_plain_name(name)]
        room = UNKNOWN_FIELDS_KEPT - len(self.unknown_fields)
        if len(unknown) > min(len(new), room):
            self.notes.add("F023", "", number)
        if not new[:room]:
            return False
        self.unknown_fields += new[:room]
        names = [f"unknown_{index}" for index in range(len(self.unknown_fields))]
        learnt = msgspec.defstruct(
            "LearntRow",
            [(name, Raw, EMPTY) for name in names],
            bases=(Row,),
            rename=dict(zip(names, self.unknown_fields, strict=True)),
            forbid_unknown_fields=True,
            gc=False,
        )
        self._row_type = cast(type[Row], learnt)
        self._decoder = msgspec.json.Decoder(self._row_type)
        return True

    def _clean(self, values: dict[str, Any], number: int) -> Row:
        cleaner = self._cleaner
        cleaner.line = number
        cleaned: dict[str, Any] = {}
        for name, value in values.items():
            if name in KNOWN_FIELDS:
                cleaned[name] = self._clean_field(name, value)
            elif name in self.unknown_fields:
                cleaned[f"unknown_{self.unknown_fields.index(name)}"] = _raw(value)
        if cleaned.get("id") is None:
            raise BadLine("no id")
        return self._row_type(**cleaned)

    def _clean_field(self, name: str, value: Any) -> Any:
        cleaner = self._cleaner
        if name in _RAW_FIELDS:
            return _raw(value)
        if name == "id":
            return _entry_id(value, cleaner)
        if name == "success":
            return cleaner.verdict(value)
        if name == "attempts":
            return cleaner.count(value)
        if name == "error":
            return cleaner.error(value)
        if name == "guardrail":
            flag = cleaner.flag(name, value)
            return UNSET if flag is None and value is not None else flag
        if name == "response_time":
            return cleaner.seconds(name, value)
        if name == "attack_name":
            return cleaner.attack(value)
        if name in _IDENTIFIERS:
            return _reference(value, cleaner)
        return cleaner.label(name, value)


def is_utf8(text: bytes | memoryview) -> bool:
    """Return whether text is UTF-8: the strict decoder does not look at what it skips."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _one_on_every_line(data: bytes | bytearray, length: int, rows: Sequence[Row]) -> bool:
    """Return whether every line is one row that could not be read otherwise.

    Where every line begins with `{` and ends with `}`, no row can reach over the end of a line. The decisive keys
    stand once, or at least the first value of each is also its last, which counts. Nothing nests too deep.
    """
    find, starts_with = data.find, data.startswith
    gap = b" " if starts_with(b'{"id": ') else b""
    number_first, text_first = b'{"id":' + gap + b"%d,", b'{"id":' + gap + b'"%b",'
    verdicts = {verdict: gap + written for verdict, written in _VERDICTS.items()}
    lists = find(b"[", 0, length) >= 0
    start = 0
    for row in rows:
        end = find(b"\n", start, length)
        if end < 0:
            end = length
        id_first = number_first % row.id if type(row.id) is int else text_first % str(row.id).encode()
        if not starts_with(id_first, start, end) and not _id_stands_once(data, start, end):
            return False
        if data[end - 1] != _CLOSE and data[end - 2 : end] != b"}\r":
            return False
        verdict_at = find(_VERDICT, start, end)
        if verdict_at < 0:
            if row.success is not UNSET:
                return False
        elif not starts_with(verdicts.get(row.success, _NOWHERE), verdict_at + _VERDICT_LENGTH, end):
            return False
        nests = (lists and find(b"[", start, end) >= 0) or find(b"{", start + 1, end) >= 0
        if nests and loose.depth(bytes(data[start:end])) > loose.MAX_DEPTH:
            return False
        start = end + 1
    return start >= length


def _id_stands_once(data: bytes | bytearray, start: int, end: int) -> bool:
    return data[start : start + 1] == b"{" and data.count(b'"id"', start, end) == 1


def is_plain_name(name: str) -> bool:
    """Return whether a field's name can be a facet's: printable, without quotes and backslashes."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _entry_id(value: Any, cleaner: Cleaner) -> int | str | None:
    if value is None:
        return None
    if isinstance(value, bool | list | dict):
        raise BadLine("the id is neither a string nor a number")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else cleaner.label("id", value)


def _reference(value: Any, cleaner: Cleaner) -> int | str | UnsetType | None:
    """Read the id of another row; what cannot be one is as if it were not there."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return value if isinstance(value, str) and cleaner.whole("id", value) == value else UNSET


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _escapes_letters(data: bytes | bytearray, length: int) -> bool:
    """Return whether a small letter is written as an escape, as no encoder does: a key may stand twice unseen."""
    return data.find(b"\\u006", 0, length) >= 0 or data.find(b"\\u007", 0, length) >= 0


def _doubled(line: bytes, row: Row) -> bool:
    """Return whether a decisive key stands more than once at the top of a line, not inside what it holds."""
    for key in _DECISIVE_KEYS:
        extra = line.count(key) - 1
        if extra > 0:
            extra -= sum(bytes(getattr(row, name)).count(key) for name in _NESTED_FIELDS)
            if extra > 0:
                return True
    return False
