"""One line of a file of results as a clean row: the fields that rows have, and what those say of a row.

A clean block of lines takes the fast way: one strict decode of the fields that count. A line that the decoder
refuses takes the careful way: parsed loosely, each field cleaned, each problem noted. Both ways end in the same `Row`.
Long text is never decoded; it stays in the file. Fields that are not listed are learnt as they turn up and kept as
facets.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from faircount.core.findings import Notes
from faircount.io import lenient_json as loose
from faircount.io.lenient_json import BadLine, is_utf8
from faircount.ledger.schema import Fields, RowMark
from faircount.readers.rows import EMPTY, LARGEST_COUNT, Cleaner, raw_json

NINE_FIELDS = (
    "jailbreak_type",
    "instruction_type",
    "task_type",
    "position",
    "spotlighting_data_markers",
    "injection_delimiters",
    "lang",
    "suffix_id",
    "plugin",
)
"""The fields that results are broken down by first, in this order."""

COMBINED_FIELDS = ("jailbreak_type", "instruction_type", "lang", "suffix_id", "plugin")
"""The fields whose combinations are ranked."""

FACETS = (
    *NINE_FIELDS,
    "document_id",
    "judge_name",
    "judge_options",
    "prefix_id",
    "system_message",
    "input_type",
    "target",
    "target_options",
)
"""Fields that say what kind of case a row is."""

CASE_FACETS = (*NINE_FIELDS, "document_id", "prefix_id", "system_message")
"""Facets that make two rows with one id different cases; who judged them does not."""

RESULT_FIELDS = Fields(first=NINE_FIELDS, combined=COMBINED_FIELDS, facets=FACETS, case=CASE_FACETS)
"""What the ledger knows of the fields of rows."""

UNKNOWN_FIELDS_KEPT = 32
_DECISIVE_KEYS = (b'"success"', b'"id"')
"""Keys that are looked for twice in a line; of any other doubled key the last wins in silence."""

_VERDICT = b'"success":'
_VERDICTS: dict[object, bytes] = {True: b"true", False: b"false", None: b"null"}
_NOWHERE = b"\n"
_CLOSE = ord("}")
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")

RUN_MARK = "rejudged_run"
"""The field with which a row of a run begins that was judged again. No row of an attack has it."""

_ATTACK_ID = re.compile(r"(.+)-attack(?:-\d+)?", re.DOTALL)
_NO_ATTACK = (None, "", "None")
_MODULE_PREFIXES = ("spikee.attacks.", "spikee.")

RequestCount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Duration = Annotated[float, msgspec.Meta(ge=0)]
Label = str | None
Identifier = int | str | UnsetType | None


class Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A clean row. `Raw` fields are carried undecoded; a field that is not listed is unknown, and learnt."""

    # In the order in which they are mostly written: that is how the decoder looks for them.
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


# -- which entry a row belongs to -------------------------------------------------------------------------------


def mark_of(row: Row, own_id: str) -> int:
    """Return whether a row is a standard one or of an attack, for certain or by its id alone."""
    if row.attack_parent_id is not UNSET:
        return RowMark.ATTACK
    if row.attack_name is not UNSET:
        return RowMark.STANDARD if row.attack_name in _NO_ATTACK else RowMark.ATTACK
    return RowMark.ATTACK_BY_ID if _ATTACK_ID.fullmatch(own_id) else RowMark.STANDARD


def parent_id_of(row: Row, own_id: str, mark: int) -> str:
    """Return the id of the entry that a row belongs to."""
    if row.result_parent_id is not UNSET and row.result_parent_id is not None:
        return str(row.result_parent_id)
    if row.attack_parent_id is not UNSET and row.attack_parent_id is not None:
        return str(row.attack_parent_id)
    entry_id = own_id if row.original_id is UNSET or row.original_id is None else str(row.original_id)
    of_attack = None if mark == RowMark.STANDARD else _ATTACK_ID.fullmatch(entry_id)
    return of_attack[1] if of_attack else entry_id


def attack_name_of(name: Any) -> str | None:
    """Return the name of an attack without the package that it is from."""
    if name is UNSET or name in _NO_ATTACK:
        return None
    for prefix in _MODULE_PREFIXES:
        if name.startswith(prefix):
            return str(name[len(prefix) :])
    return str(name)


# -- lines become rows ------------------------------------------------------------------------------------------


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
        """Parse a line loosely and clean its fields; also return whether the verdict is truthy."""
        values, problems = loose.parse(line)
        if RUN_MARK in values:
            raise BadLine("a test result, in a file that does not begin with one")
        for key in problems.duplicate_keys:
            self.notes.add("F011", self._cleaner.whole("key", key), number)
        if problems.not_finite:
            self.notes.add("F012", "", number)
        if self._learn(values, number) and not problems:
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
        self._row_type = _learnt_row(tuple(self.unknown_fields))
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
                cleaned[f"unknown_{self.unknown_fields.index(name)}"] = raw_json(value)
        if cleaned.get("id") is None:
            raise BadLine("no id")
        return self._row_type(**cleaned)

    def _clean_field(self, name: str, value: Any) -> Any:
        cleaner = self._cleaner
        if name in _RAW_FIELDS:
            return raw_json(value)
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


def _one_on_every_line(data: bytes | bytearray, length: int, rows: Sequence[Row]) -> bool:
    """Return whether every line is one row that could not be read otherwise.

    Where every line begins with `{` and ends with `}`, no row can reach over the end of a line. The decisive keys
    stand once, or at least the first value of each is also its last, which counts. Nothing nests too deep.
    """
    find, starts_with = data.find, data.startswith
    gap = b" " if starts_with(b'{"id": ') else b""
    number_first, text_first = b'{"id":' + gap + b"%d,", b'{"id":' + gap + b'"%b",'
    verdicts = {verdict: _VERDICT + gap + written for verdict, written in _VERDICTS.items()}
    lists = find(b"[", 0, length) >= 0
    start = 0
    for row in rows:
        end = find(b"\n", start, length)
        if end < 0:
            end = length
        own_id = row.id
        id_first = number_first % own_id if type(own_id) is int else text_first % str(own_id).encode()
        if not starts_with(id_first, start, end) and not (
            data[start : start + 1] == b"{" and data.count(b'"id"', start, end) == 1
        ):
            return False
        if data[end - 1] != _CLOSE and data[end - 2 : end] != b"}\r":
            return False
        verdict_at = find(_VERDICT, start, end)
        if verdict_at < 0:
            if row.success is not UNSET:
                return False
        elif not starts_with(verdicts.get(row.success, _NOWHERE), verdict_at, end):
            return False
        nests = (lists and find(b"[", start, end) >= 0) or find(b"{", start + 1, end) >= 0
        if nests and loose.depth(bytes(data[start:end])) > loose.MAX_DEPTH:
            return False
        start = end + 1
    return start >= length


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


@lru_cache(maxsize=64)
def _learnt_row(fields: tuple[str, ...]) -> type[Row]:
    """Return rows with places for some unknown fields; lines that are read back one by one have the same ones."""
    names = [f"unknown_{index}" for index in range(len(fields))]
    learnt = msgspec.defstruct(
        "LearntRow",
        [(name, Raw, EMPTY) for name in names],
        bases=(Row,),
        rename=dict(zip(names, fields, strict=True)),
        forbid_unknown_fields=True,
        gc=False,
    )
    return cast(type[Row], learnt)


def _escapes_letters(data: bytes | bytearray, length: int) -> bool:
    """Return whether a small letter is written as an escape, as no encoder does: a key may stand twice unseen."""
    return _ESCAPED_LETTER.search(data, 0, length) is not None


def _doubled(line: bytes, row: Row) -> bool:
    """Return whether a decisive key stands more than once at the top of a line, not inside what it holds."""
    for key in _DECISIVE_KEYS:
        extra = line.count(key) - 1
        if extra > 0:
            extra -= sum(bytes(getattr(row, name)).count(key) for name in _NESTED_FIELDS)
            if extra > 0:
                return True
    return False


# -- which entries are variants of one another -------------------------------------------------------------------
# Datasets cross documents and instructions with jailbreaks, positions, plugins and more, and write what was crossed
# into the long id:
#
#     <task>_<document>_<jailbreak>_<instruction>_<position>[_<plugin>-<k>][-p<prefix>][-s<suffix>][-sys]
#     <id>[_<plugin>-<k>]                                        where nothing was crossed but plugins
#
# A family is the document and the instruction behind a row. The other fields of the row say where one name ends and
# the next begins, since names may hold the same signs that separate them.

FAMILY_FIELDS = ("document_id", "position", "instruction_type", "plugin")
"""The fields that help to read a long id, in the order in which `family` takes them."""

_SEPARATOR = "_"
_PARTS = 5
_EXTRACTED = "_extracted_"
_AFTER_THE_POSITION = "_-"


def family(
    long_id: str | None,
    document: str | None,
    position: str | None,
    instruction_type: str | None,
    plugin: str | None,
) -> str | None:
    """Return what the variants of one instruction in one document have in common; None where nothing shows it."""
    if not long_id:
        return f"{document or ''}\n{instruction_type or ''}" if document or instruction_type else None
    if document and position:
        parts = long_id.split(_SEPARATOR, _PARTS)
        placed = len(parts) >= _PARTS and (parts[4] == position or parts[4].startswith(f"{position}-"))
        if placed and parts[1] == document:
            return f"{document}\n{parts[3]}"
        instruction = _instruction(long_id, document, position, instruction_type)
        if instruction:
            return f"{document}\n{instruction}"
    # An input that was taken as it is, without the plugin that changed it.
    base = long_id.partition(_EXTRACTED)[0]
    return "\n" + ((base.rpartition(f"_{plugin}-")[0] if plugin else "") or base)


def _instruction(long_id: str, document: str, position: str, instruction_type: str | None) -> str | None:
    """Return the instruction in a long id in whose names there are separators."""
    _, found, rest = long_id.partition(f"_{document}_")
    jailbreak_ends = rest.find(_SEPARATOR, 1) if found else -1
    if jailbreak_ends < 0:
        return None
    end = re.compile(f"_{re.escape(position)}(?=[{_AFTER_THE_POSITION}]|$)").search(rest, jailbreak_ends + 2)
    if end is None:
        return None
    crossed = rest[: end.start()]
    jailbreak, between, named = crossed.rpartition(f"_{instruction_type}") if instruction_type else ("", "", "")
    if between and jailbreak:
        return f"{instruction_type}{named}"
    jailbreak, _, instruction = crossed.rpartition(_SEPARATOR)
    return instruction if jailbreak else None
