"""The file that people's labels are added to while they label: every draw, label and retraction is a line of its own.

Nothing in it is ever changed: a label that was taken back stays, with its retraction behind it. `LabelLog` works out
what the lines come to, for the page that writes them and for everything that reads labels. What the judge said is not
in the file: people who label may look into it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from faircount.core.text import clip, visible
from faircount.core.verdict import Decision
from faircount.io.lenient_json import BadLine
from faircount.io.records import JSONL, Records, RecordType, Report, Sha256, all_fields

KIND, SCHEMA = "labels", 1
ID, FILE, LABEL = "id", "file", "label"
"""The fields of a label that name its row and say what it is."""
_LONGEST_FAULT = 120


class GivenLabel(enum.StrEnum):
    """What a person says of a row."""

    HIT = "hit"
    PASS = "pass"
    UNCLEAR = "unclear"

    @property
    def decision(self) -> Decision | None:
        """The decision, None where the person cannot tell."""
        return None if self is GivenLabel.UNCLEAR else Decision(self.value)


# -- the kinds of records ---------------------------------------------------------------------------------------


class LogRecord(
    Struct, frozen=True, kw_only=True, tag_field="kind", tag=lambda name: name.removesuffix("Record").lower()
):
    """A line of the file; its class says of which kind."""


class LabelsRecord(LogRecord, frozen=True, kw_only=True):
    """The header."""

    schema: int
    version: str = ""
    started: str = ""


class DrawRecord(LogRecord, frozen=True, kw_only=True, omit_defaults=True):
    """That an entry is shown to somebody, to be labelled row by row; written before it is shown."""

    number: int
    draw: int
    """Which draw it is, from 1; an entry is drawn once, and may be shown to several people."""
    file: str
    entry: str
    """The id of the entry, and `rows` what names each of its rows, and its line."""
    rows: tuple[tuple[str, int], ...]
    probability: float
    """The chance with which this entry was drawn and no other, given all labels before."""
    of: tuple[int, int]
    """How many judged successes and failures the run had when it was drawn."""
    author: str
    at: str
    again: bool = False
    """Whether somebody else has labelled it before."""


class LabelRecord(LogRecord, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said of a row."""

    number: int
    id: str
    file: str
    label: GivenLabel
    note: str = ""
    author: str
    at: str
    draw: int
    line: int
    probability: float
    adjudicates: bool = False
    """Whether it decides between people who differ."""


class RetractionRecord(LogRecord, frozen=True, kw_only=True):
    """That a label is taken back, by its number."""

    number: int
    retracts: int
    author: str
    at: str


AnyRecord = LabelsRecord | DrawRecord | LabelRecord | RetractionRecord
_KINDS = frozenset(str(one.__struct_config__.tag) for one in (LabelsRecord, DrawRecord, LabelRecord, RetractionRecord))
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)
_encoder = msgspec.json.Encoder()


def encode(record: AnyRecord) -> bytes:
    """Return a record as a line."""
    return _encoder.encode(record) + b"\n"


def decode(line: bytes) -> AnyRecord | None:
    """Return the record of a line; None for a kind that this version does not know."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadLine("not a JSON object") from None
    return _from_fields(fields)


def _from_fields(fields: Any) -> AnyRecord | None:
    kind = fields.get("kind") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        raise BadLine("no record of a file of labels")
    if kind not in _KINDS:
        return None
    try:
        return msgspec.convert(fields, AnyRecord)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise BadLine(f"no record of a file of labels: {clip(visible(str(error)), _LONGEST_FAULT)}") from None


# -- what they come to ------------------------------------------------------------------------------------------

RowName = tuple[str, str]
"""A file of results, and what names a row of it."""


class RowLabels(Struct):
    """What people said of a row: the last word of each, and that of who decided between them."""

    by_author: dict[str, LabelRecord] = field(default_factory=dict)
    adjudication: LabelRecord | None = None
    line: int = 0
    """The line of the last label."""

    @property
    def decision(self) -> Decision | None:
        """What it comes to: the adjudication, or else the majority of those who decided; None where that is open."""
        if self.adjudication is not None:
            return self.adjudication.label.decision
        said = [record.label for record in self.by_author.values()]
        hits, passes = said.count(GivenLabel.HIT), said.count(GivenLabel.PASS)
        return None if hits == passes else Decision.HIT if hits > passes else Decision.PASS

    @property
    def differ(self) -> bool:
        """Whether one person says hit and another one pass, and nobody decided between them."""
        said = {record.label for record in self.by_author.values()}
        return self.adjudication is None and {GivenLabel.HIT, GivenLabel.PASS} <= said


class Draw(Struct):
    """An entry that was drawn, and who it was shown to: when last, and whether as a second opinion."""

    first: DrawRecord
    shown: dict[str, DrawRecord] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[RowName, ...]:
        """Its rows."""
        return tuple((self.first.file, name) for name, _ in self.first.rows)


class LabelLog:
    """What the lines of a file of labels come to, line by line."""

    def __init__(self) -> None:
        self.draws: dict[int, Draw] = {}
        self.labels: dict[int, LabelRecord] = {}
        """All labels that stand, by their numbers, in their order."""
        self.records = 0
        """The highest number of a record."""
        self._by_row: dict[RowName, dict[int, int]] = {}

    def add(self, record: AnyRecord | None, line: int = 0) -> None:
        """Take one more record into account; the same one again changes nothing."""
        if isinstance(record, DrawRecord):
            self.draws.setdefault(record.draw, Draw(record)).shown[record.author] = record
        elif isinstance(record, LabelRecord):
            self.labels[record.number] = record
            self._by_row.setdefault((record.file, record.id), {})[record.number] = line
        elif isinstance(record, RetractionRecord):
            taken_back = self.labels.get(record.retracts)
            # Nobody takes back what others said.
            if taken_back is not None and taken_back.author == record.author:
                del self.labels[record.retracts]
        if record is not None and not isinstance(record, LabelsRecord):
            self.records = max(self.records, record.number)

    def row(self, name: RowName) -> RowLabels:
        """Return what people said of a row."""
        found = RowLabels()
        for number, line in self._by_row.get(name, {}).items():
            record = self.labels.get(number)
            if record is None:
                continue
            found.line = line
            if record.adjudicates:
                found.adjudication = record
            else:
                found.by_author[record.author] = record
        return found

    def rows(self) -> Iterator[tuple[RowName, RowLabels]]:
        """Yield every row that has a label, and what people said of it."""
        for name in self._by_row:
            found = self.row(name)
            if found.by_author or found.adjudication is not None:
                yield name, found


# -- as records of labels -----------------------------------------------------------------------------------------


class Adjudicated(dict[str, Any]):
    """What people said of a row, where one of them decided between the others: that counts."""

    decision: Decision | None = None


class LoggedLabels:
    """The labels of such a file as records: one for each row, with what everybody said of it."""

    def __init__(
        self, path: str, wanted: Sequence[str], report: Report, *, name: str, max_line: int, digest: Sha256 | None
    ) -> None:
        self._wanted = wanted
        kind: RecordType[AnyRecord | None] = RecordType(_decoder, _from_fields)
        self._records = Records(path, kind, report, name=name, max_line=max_line, digest=digest)

    def __iter__(self) -> Iterator[tuple[int, Sequence[Any]]]:
        log = LabelLog()
        for line, record in self._records:
            log.add(record, line)
        for (file, name), row in log.rows():
            said: dict[str, Any] = {author: record.label.value for author, record in row.by_author.items()}
            if row.adjudication is not None:
                said = Adjudicated(said or {row.adjudication.author: row.adjudication.label.value})
                said.decision = row.decision
            values = {ID: name, FILE: file, LABEL: said}
            yield row.line, [values.get(column) for column in self._wanted]

    @property
    def format(self) -> str:
        """How the file is written."""
        return self._records.format

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self._records.lines

    @property
    def bad(self) -> int:
        """How many of them could not be read."""
        return self._records.bad

    @property
    def blank(self) -> int:
        """How many of them are blank."""
        return self._records.blank


def is_label_log(path: str, name: str, max_line: int) -> bool:
    """Return whether a file begins with the header of such a file."""
    records = Records(path, all_fields(), name=name, max_line=max_line)
    if records.format != JSONL:
        return False
    _, first = next(iter(records), (0, {}))
    return first.get("kind") == KIND and "schema" in first
