"""Records of other tools' files: each is one attempt on an entry, gathered into entries and made into rows.

A reader of such a format yields `ToolRecord`s in the order of the file and says what it learns on the way in a
`ToolFile`. Everything else is here: attempts on one entry are gathered, counted by the aim of the file, and shown.
Texts are not kept: rows that people read are made in a second pass.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from faircount.core.model import ToolFigure
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument
from faircount.io.files import local_file
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import TOO_LONG, Stream, blocks, is_compressed, is_stored, open_bytes, split_member
from faircount.ledger.schema import Batch, LedgerRow, checksum
from faircount.readers.aggregation import DEFAULT
from faircount.readers.attempt_rows import AttemptFacts, RowMaker, answer_of, as_json
from faircount.readers.journal_rows import pieces_of
from faircount.readers.registry import Found, ReadAs, Reader, keys_of
from faircount.readers.result_rows import FACETS, KNOWN_FIELDS
from faircount.readers.rows import ReadOptions
from faircount.readers.run_rows import (
    BAD,
    Attacked,
    GuardrailBlock,
    RunAttempt,
    RunCase,
    RunFile,
    asked_of,
    case_row,
    encoded,
    number_of,
    row_of_entry,
    success_over,
)

ATTACK, TASK = "attack", "task"
_BATCH_ROWS = 5_000
_MOST_SUBJECTS = 200
_ID_DIGITS = 12
_LONGEST_FACET, _MOST_FACETS = 80, 12
_TAKEN = KNOWN_FIELDS.difference(FACETS)
"""Names that mean something else in a row: a field of another tool's that is called so gets a prefix."""

S = TypeVar("S", bound=Struct)


class ToolRecord(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt on an entry as a file records it.

    `error` is a technical one: the target gave no answer. `blocked` says by what an answer was stopped. `success` is
    what the judge that decides said, in our words: of an attack that it worked, of a task that it was done. Of what is
    given as `messages`, the last one of the user is the prompt.
    """

    line: int
    """The line on which it is, or its number in an archive or a database; records come in this order."""
    entry: str
    """The same in the next run of the same tests."""
    family: str = ""
    prompt: Any = None
    messages: Sequence[Mapping[str, Any]] = ()
    response: str | None = None
    error: str | None = None
    blocked: str | None = None
    categories: tuple[str, ...] = ()
    success: bool | None = None
    verdicts: tuple[Verdict, ...] = ()
    """What each judge said, the one that decides among them, where judges are known."""
    judge: str | None = None
    """The judge that decides."""
    thresholds: Mapping[str, float] = {}
    attempt: int | None = None
    """Its place among the attempts on the entry, where the file says so; else they are counted in their order."""
    seconds: float | None = None
    target: str | None = None
    run: str | None = None
    """Which of several runs in a file it is of."""
    fields: Mapping[str, Any] = {}
    aggregation: str = DEFAULT
    """How the attempts on a task are made into one result."""

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        """All that was said before the answer."""
        return self.messages or ({"role": "user", "content": self.prompt},)

    @property
    def block(self) -> GuardrailBlock | None:
        """What stopped it; a success stands all the same."""
        return (
            None if self.blocked is None or self.error is not None or self.success else GuardrailBlock(self.categories)
        )

    @property
    def failed(self) -> str | None:
        """The error, or what stands in its place for an answer that was stopped."""
        return self.error if self.block is None else self.blocked

    @property
    def verdict(self) -> bool | None:
        """What was decided of an answer; nothing where there is none."""
        return self.success if self.failed is None else None


class ToolFile(RunFile, kw_only=True):
    """A file while its records are read: its bytes, what the user says of it, and what is learnt of it.

    A reader sets `aim`, `version` and `target` before it yields its first record.
    """

    stream: Stream
    max_line: int
    lines: int = 0
    """Lines or records so far, bad ones too."""
    blank: int = 0
    subjects: set[tuple[str, str]] = field(default_factory=set)
    places: dict[int, str] = field(default_factory=dict)
    figures: list[ToolFigure] = field(default_factory=list)
    """What the tool itself makes of the file."""
    differs: list[str] = field(default_factory=list)
    """Sentences that say where the tool's own figures differ from ours, and why."""

    @property
    def name(self) -> str:
        """What the file is called in messages."""
        return self.stream.name

    @property
    def read_as(self) -> ReadAs:
        """What the user says of the file."""
        return self.stream.read_as or ReadAs()

    def refuse(self, reason: str, line: int, place: str = "") -> None:
        """Count a record that cannot be read; `place` is where it is, if not on that line."""
        self.bad[line] = reason
        self._name(line, place)

    def note(self, code: str, subject: str, line: int = 0, place: str = "") -> None:
        """Note a problem; line 0 is the file as a whole. Many subjects, which only a hostile file has, become one."""
        if len(self.subjects) >= _MOST_SUBJECTS and (code, subject) not in self.subjects:
            subject = "and others"
        self.subjects.add((code, subject))
        self.problems.append((code, subject, line))
        self._name(line, place)

    def _name(self, line: int, place: str) -> None:
        if place and len(self.places) < _MOST_SUBJECTS:
            self.places[line] = place

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[str]:
        """Give a path of the plain bytes, for formats that are not read from their beginning."""
        path, _ = split_member(self.stream.path)
        if is_stored(path) and not is_compressed(path):
            path = local_file(path)
            for _chunk in self.stream.chunks:  # counted, and part of the digest
                pass
            yield path
            return
        with tempfile.NamedTemporaryFile(prefix="faircount-") as copy:
            for chunk in self.stream.chunks:
                copy.write(chunk)
            copy.flush()
            yield copy.name

    @contextlib.contextmanager
    def read_twice(self) -> Iterator[ToolFile]:
        """Give a file of the same bytes for a first look, of which nothing is kept; then this one can be read.

        For formats in which what a record means depends on later ones.
        """
        own = self.stream
        with self.on_disk() as path:
            self.stream, again = open_bytes(path, own.name), open_bytes(path, own.name)
            self.stream.read_as, self.stream.only_run = own.read_as, own.only_run
            try:
                yield ToolFile(self.tool, self.reader, stream=again, max_line=self.max_line)
            finally:
                self.stream.close()
                again.close()
                self.stream = own

    def json_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank with their numbers; one that is too long is refused."""
        for block in blocks(self.stream, self.max_line):
            for line in block.lines:
                self.lines += 1
                if line is TOO_LONG:
                    self.refuse(f"longer than {self.max_line:,} bytes", self.lines)
                elif line.strip():
                    yield self.lines, line
                else:
                    self.blank += 1

    def decode(self, text: bytes, decoder: msgspec.json.Decoder[S], line: int, place: str = "") -> S | None:
        """Return a record as a struct; what has the wrong type is left out and noted, what is no object refused."""
        try:
            return decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            given, problems = parse(text)
        except BadLine as bad:
            self.refuse(str(bad), line, place)
            return None
        if problems.not_finite:
            self.note("F012", "", line, place)
        for key in problems.duplicate_keys:
            self.note("F011", key, line, place)
        values: dict[str, Any] = {}
        for one in msgspec.structs.fields(decoder.type):
            value = given.get(one.encode_name)
            if value is None:
                continue
            try:
                values[one.name] = msgspec.convert(value, one.type)
            except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
                self.note("F027", one.encode_name, line, place)
        try:
            made: S = decoder.type(**values)
        except TypeError:
            missing = [one.encode_name for one in msgspec.structs.fields(decoder.type) if one.required]
            self.refuse(f"it has no usable {', '.join(name for name in missing if name not in values)}", line, place)
            return None
        return made


# -- values of records ------------------------------------------------------------------------------------------


def first_keys(head: bytes) -> frozenset[str]:
    """Return the keys of the first object of a file, which may be damaged or break off; `a.b` is a nested one."""
    return keys_of(head.removeprefix(BOM_UTF8).decode("utf-8", "replace").encode())


def text_of(value: Any) -> str | None:
    """Return a value as people read it: a text as it is, anything else as JSON; None where there is nothing."""
    if value is None or isinstance(value, str):
        return value
    return as_json(value).decode("utf-8", "replace")


def object_of(value: Any) -> Mapping[str, Any]:
    """Return an object, empty where there is none."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def decoded(text: str | bytes) -> Any:
    """Return a small value that only describes the records; None for one that cannot be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def finite(value: Any) -> float | None:
    """Return a value if it is a number, and not NaN or beyond any float."""
    number = number_of(value)
    return number if number is not None and math.isfinite(number) else None


def digest_of(*parts: Any) -> str:
    """Return what stands for the content of an entry in its id: the same in the next run of the same test."""
    return xxh3_64_hexdigest(as_json(list(parts)))[:_ID_DIGITS]


def short_fields(values: Any, prefix: str) -> dict[str, Any]:
    """Return the members of an object that can be facets: short texts, numbers, true and false."""
    found: dict[str, Any] = {}
    for name, value in values.items() if isinstance(values, Mapping) else ():
        short = isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONGEST_FACET)
        if short and len(name) <= _LONGEST_FACET and len(found) < _MOST_FACETS:
            found[f"{prefix}{name}"] = value
    return found


class _GatheredEntry(Struct, gc=False):
    """The attempts on an entry so far: what the ledger needs of them, with the last of their records."""

    last: ToolRecord
    facts: list[tuple[int, AttemptFacts]]
    prompt: int

    def attempts(self) -> list[AttemptFacts]:
        ordered = sorted(self.facts, key=lambda one: one[0])
        return [replace(facts, number=number) for number, (_, facts) in enumerate(ordered)]


_Key = tuple[str | None, str]


class ToolReader(Reader):
    """Reads one format of another tool's, record by record."""

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield the records of a file in its order."""
        raise NotImplementedError

    def runs(self, stream: Stream) -> list[str]:
        """Return the runs that a file holds."""
        found: dict[str, None] = {}
        for record in self._records(self._file(stream, stream.max_line)):
            if record.run is not None:
                found[record.run] = None
        return list(found)

    def _file(self, stream: Stream, max_line: int) -> ToolFile:
        return ToolFile(self.tool, self.name, aim=self.aim, stream=stream, max_line=max_line)

    def _records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield the records of the run that is wanted; a document that breaks off gives what comes before."""
        wanted = file.stream.only_run
        try:
            for record in self.records(file):
                if wanted is None or record.run == wanted:
                    yield record
        except DamagedDocument as damage:
            file.lines = max(file.lines, damage.line)
            file.note("F002", f"the document is damaged: {damage}", damage.line)
        if file.stream.truncated:
            file.note("F002", file.stream.truncated, file.lines)
        file.aim = file.read_as.aim or file.aim

    # -- for the ledger ---------------------------------------------------------------------------------------------

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield a row for each entry, in the order of their last records."""
        file, maker = self._file(stream, options.max_line), RowMaker(options, found.notes)
        entries: dict[_Key, _GatheredEntry] = {}
        runs = set()
        for record in self._records(file):
            found.good += 1
            runs.add(record.run)
            key = _key(record)
            entry = entries.pop(key, None) or _GatheredEntry(record, [], checksum(as_json(asked_of(record.said))))
            entry.last = replace(record, messages=(), prompt=None, response=None)
            entry.facts.append((len(entry.facts) if record.attempt is None else record.attempt, _facts(record)))
            entries[key] = entry
        several = len(runs) > 1
        aim = file.read_as.aim or file.aim
        rows: list[LedgerRow] = []
        for entry in entries.values():
            if found.excludes(entry.last.line):
                found.good -= 1
                continue
            row = _ledger_row(maker, entry, aim)
            rows.append(replace(row, result_origin=entry.last.run) if several else row)
            if len(rows) >= _BATCH_ROWS:
                yield _batch(rows, maker)
                rows.clear()
        self._tell(file, found, several=several)
        yield _batch(rows, maker)

    def _tell(self, file: ToolFile, found: Found, *, several: bool) -> None:
        """Hand over what was learnt of a file."""
        for line, reason in file.bad.items():
            found.add_bad(reason, line)
        if several:
            file.note("F041", "")
        found.add_run(replace(file, blank_lines=file.blank) if file.blank else file)
        found.notes.places |= file.places
        for line in {line for lines in found.notes.lines.values() for line in lines if line}:
            place = self.place(file.name, line)
            if place != f"{file.name}:{line}":
                found.notes.places.setdefault(line, place.removeprefix(file.name))
        found.lines = file.lines
        found.figures, found.differs = tuple(file.figures), tuple(file.differs)

    # -- for people -------------------------------------------------------------------------------------------------

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give each entry as a row that people read, on the line of its last record."""
        del head, again
        file, open_again = self._file(stream, stream.max_line), _opener(stream)
        peek = self._file(open_again(), stream.max_line)
        next(self._records(peek), None)
        file.aim = peek.read_as.aim or peek.aim
        stream.chunks = pieces_of(self._shown(open_again, file))
        return file

    def _shown(self, open_again: Callable[[], Stream], file: ToolFile) -> Iterator[bytes]:
        if file.wanted is not None and is_stored(file.stream.path):
            yield from self._wanted(open_again, file, file.wanted)
            return
        first = self._file(open_again(), file.max_line)
        sizes = Counter(map(_key, self._records(first)))
        several = len({run for run, _ in sizes}) > 1
        file.stream, waiting, number = open_again(), dict[_Key, list[ToolRecord]](), 0
        for record in self._records(file):
            key = _key(record)
            waiting.setdefault(key, []).append(record)
            sizes[key] -= 1
            if sizes[key]:
                continue
            records = waiting.pop(key)
            yield from _lines_between(number, record.line, file)
            number = record.line
            row = _shown_row(records, file, self.place(file.name, number))
            yield encoded({**row, "result_origin": record.run} if several else row)
        yield from _lines_between(number, max([file.lines, number, *file.bad]) + 1, file)
        file.blank_lines = file.blank

    def _wanted(self, open_again: Callable[[], Stream], file: ToolFile, wanted: Collection[int]) -> Iterator[bytes]:
        """Yield the rows on some lines, each that of the last record of an entry, and read no further than needed."""
        last, number = max(wanted, default=0), 0
        first = self._records(self._file(open_again(), file.max_line))
        keys = {_key(one) for one in takewhile(lambda one: one.line <= last, first) if one.line in wanted}
        file.stream, waiting = open_again(), dict[_Key, list[ToolRecord]]()
        for record in takewhile(lambda one: one.line <= last, self._records(file)):
            if _key(record) not in keys:
                continue
            waiting.setdefault(_key(record), []).append(record)
            if record.line in wanted:
                yield from _lines_between(number, record.line, file)
                number = record.line
                yield encoded(_shown_row(waiting.pop(_key(record)), file, self.place(file.name, number)))


def _key(record: ToolRecord) -> _Key:
    return record.run, record.entry


def _opener(stream: Stream) -> Callable[[], Stream]:
    """Return what opens the bytes of a stream from their beginning; those that come only once are copied."""
    path, _ = split_member(stream.path)
    copy = None
    if not is_stored(path):
        copy = tempfile.NamedTemporaryFile(prefix="faircount-")  # noqa: SIM115  it ends with the function that uses it
        for chunk in stream.chunks:
            copy.write(chunk)
        copy.flush()
    else:
        path = local_file(path)
    if copy is None and stream.content is not None:
        for _chunk in stream.chunks:  # part of the digest
            pass

    def opened() -> Stream:
        again = open_bytes(path if copy is None else copy.name, stream.name)
        again.read_as, again.only_run, again.max_line = stream.read_as, stream.only_run, stream.max_line
        return again

    return opened


def _lines_between(before: int, number: int, file: ToolFile) -> Iterator[bytes]:
    """Yield what is on the lines between two rows."""
    for line in range(before + 1, number):
        yield BAD if line in file.bad else b""


# -- records as rows --------------------------------------------------------------------------------------------


def _batch(rows: Sequence[LedgerRow], maker: RowMaker) -> Batch:
    batch = Batch()
    batch.extend(rows, maker.facets)
    return batch


def _facts(record: ToolRecord) -> AttemptFacts:
    response, kind = answer_of(as_json(_response(record)))
    return AttemptFacts(
        number=0,
        success=record.verdict,
        error=record.failed,
        block=record.block,
        seconds=record.seconds,
        response=response,
        answer=kind,
        model=record.target,
        line=record.line,
        verdicts=record.verdicts,
    )


def _response(record: ToolRecord) -> str | None:
    """Return the answer as a row shows it: an error without a text has none, anything else is a text."""
    return (record.response or "") if record.failed is None else record.response or None


def _fields(record: ToolRecord) -> dict[str, Any]:
    return {f"field.{name}" if name in _TAKEN else name: value for name, value in record.fields.items()}


def _case_success(aggregation: str, states: Sequence[bool | None]) -> bool | None:
    return success_over(aggregation, [Verdict(Decision.of(one)) for one in states])


def _by_judge(aggregation: str, verdicts: Sequence[Sequence[Verdict]]) -> dict[str, bool | None]:
    """Return what the verdicts of each judge on all attempts come to."""
    names = dict.fromkeys(one.judge for attempt in verdicts for one in attempt)
    return {
        name: _case_success(aggregation, [one.success for attempt in verdicts for one in attempt if one.judge == name])
        for name in names
    }


def _ledger_row(maker: RowMaker, entry: _GatheredEntry, aim: str) -> LedgerRow:
    record, attempts = entry.last, entry.attempts()
    answered = [one for one in attempts if one.error is None]
    if aim == ATTACK:
        return maker.entry_row(
            record.line,
            record.entry,
            record.family or record.entry,
            _fields(record),
            attempts,
            text=entry.prompt,
            judges=record.judge,
            thresholds=record.thresholds,
        )
    by_judge = _by_judge(record.aggregation, [one.verdicts for one in answered])
    return maker.task_row(
        record.line,
        record.entry,
        record.entry,
        {"judge_name": record.judge, **_fields(record)},
        attempts,
        success=_case_success(record.aggregation, [one.success for one in answered]),
        text=entry.prompt,
        by_metric=by_judge,
        thresholds=record.thresholds,
        long_id=record.family or record.entry,
    )


def _shown_row(records: Sequence[ToolRecord], file: ToolFile, place: str) -> dict[str, Any]:
    """Return the attempts on an entry as a row that people read, with the fields of `result_rows`."""
    ordered = sorted(enumerate(records), key=lambda one: one[0] if one[1].attempt is None else one[1].attempt)
    attempts = [_shown_attempt(number, record) for number, (_, record) in enumerate(ordered)]
    last = records[-1]
    described = {
        "metrics": [{"name": last.judge}] if last.judge is not None else [],
        "input": {"messages": list(last.said)},
        "place": place,
    }
    fields = {name: value for name, value in _fields(last).items() if value is not None}
    if file.aim == ATTACK:
        said = {"long_id": last.family or last.entry, **fields}
        return row_of_entry(Attacked(last.entry, described, said, asked_of(records[0].said), attempts))
    answered = [one for one in attempts if one.error is None]
    case = RunCase(
        name=last.entry,
        described=described,
        attempts=attempts,
        success=_case_success(last.aggregation, [one.success for one in answered]),
        by_metric=_by_judge(last.aggregation, [one.verdicts for one in answered]),
        long_id=last.family or last.entry,
        fields={"judge_name": last.judge, **fields},
    )
    return case_row(case, last.entry, file)


def _shown_attempt(number: int, record: ToolRecord) -> RunAttempt:
    text = _response(record)
    seconds = {} if record.seconds is None else {"execution_time": record.seconds}
    return RunAttempt(
        number=number,
        output=None if text is None else {"output": text, **seconds},
        error=record.failed,
        success=record.verdict,
        verdicts=record.verdicts,
        block=record.block,
        model=record.target,
        messages=record.said,
    )
