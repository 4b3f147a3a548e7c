"""Reads run journals: one pass over the records, then one row per case, on the line of its last attempt that counts.

Of a run over a dataset there are two rows per entry: one of its standard attempts, one of its attack. Where an attack
failed before its first attempt, the row is where that is recorded. A case of which no attempt counts has its row where
the case is recorded. Which records count is decided as in `journals.State`: of two records of one attempt the first,
unless a `retry` between them made it void. Lines that a strict decoder refuses are read patiently, one by one.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from faircount.core.text import clip
from faircount.core.verdict import Verdict
from faircount.io.lenient_json import BadLine, is_utf8
from faircount.io.streams import TOO_LONG as LINE_TOO_LONG
from faircount.io.streams import Block, Stream, blocks
from faircount.ledger.schema import Batch, LedgerRow, checksum
from faircount.readers import journal_rows
from faircount.readers.aggregation import all_passed
from faircount.readers.attempt_rows import (
    NO_TEXT,
    AttemptFacts,
    RowMaker,
    answer_of,
    as_json,
    threshold_of,
    verdicts_of,
)
from faircount.readers.journal_rows import TOO_LONG, header_of, stop_rule_of, target_of, why_untried
from faircount.readers.journals import (
    ATTACK,
    BLOCKED,
    LONGEST_REASON,
    MAX_ATTEMPT,
    STANDARD,
    TASK,
    RunRecord,
    decode_record,
    is_of_attack,
    no_case,
)
from faircount.readers.registry import Found, Probe, Reader
from faircount.readers.result_rows import RESULT_FIELDS
from faircount.readers.rows import EMPTY, NOT_TRIED, ReadOptions
from faircount.readers.run_rows import (
    FAIRCOUNT,
    LONGEST_SECONDS,
    NOT_OF_ENTRIES,
    GuardrailBlock,
    RunFile,
    attack_of,
    block_of,
    decision_of,
    entry_id,
    error_text,
    listed,
    long_id_of,
    objects,
    plausible_seconds,
    strategy_of,
    success_by_metric,
    success_of,
    success_over,
    text_of,
)

NAME = "run journal"
BATCH_ROWS = 20_000
_HEADER = re.compile(rb'\s*\{\s*"kind"\s*:\s*"run"\s*[,}]')
_SECOND_HEADER = "it is a second header, so two runs share the file"
_NO_FACETS = NOT_OF_ENTRIES | {"long_id", "judge_args", "payload", "steering_keywords"}
_OF_ATTACKS = re.compile(rb'[^{]*\{[^{]*"aim"\s*:\s*"attack"')


def aim_of_head(head: bytes) -> str:
    """Return the aim of the run that a file begins with, or nothing; of a long first line the beginning must do."""
    line, found, _ = head.removeprefix(BOM_UTF8).partition(b"\n")
    if not found:
        return (ATTACK if _OF_ATTACKS.match(line) else TASK) if _HEADER.match(line) else ""
    try:
        header = decode_record(line + b"\n")
    except BadLine:
        return ""
    if header.get("kind") != "run" or "schema" not in header or "id" in header:
        return ""
    return ATTACK if header.get("aim") == ATTACK else TASK


class RunJournalReader(Reader):
    """Reads the journals of our own runs."""

    name = NAME
    tool = FAIRCOUNT
    noun = "record of a run"
    fields = RESULT_FIELDS

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file begins with the header of a run."""
        return bool(aim_of_head(probe.head))

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give the rows of the run as people read them."""
        run = RunFile(FAIRCOUNT, NAME, aim=aim_of_head(head))
        stream.chunks = journal_rows.rows(stream.chunks, again, run, stream.name)
        return run

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a journal."""
        journal = _JournalLines(stream.name, found, verdicts=options.verdicts)
        for block in blocks(stream, options.max_line):
            journal.add(block)
        if stream.truncated:
            found.notes.add("F002", stream.truncated, found.lines)
        maker = RowMaker(options, found.notes)
        rows = journal.rows(maker)
        while some := list(islice(rows, BATCH_ROWS)):
            batch = Batch()
            batch.extend(some, maker.facets)
            yield batch


# -- records ----------------------------------------------------------------------------------------------------

# As much of the records in `journals` as is counted; long texts are left undecoded.


class _VerdictOfAttempt(Struct, gc=False):
    metric: str
    verdict: Any = None
    score: Any = None


class _OutputOfAttempt(Struct, gc=False):
    output: Raw = EMPTY
    tools_called: Raw = EMPTY
    execution_time: float | None = None
    let_through: bool | None = None


class _ErrorOfAttempt(Struct, gc=False):
    kind: str = ""
    message: str = ""
    categories: list[str] | None = None
    policy_block: str | None = None
    text_as_read: str | UnsetType | None = UNSET
    """The whole text, where the record was not read strictly."""

    def text(self) -> str | None:
        """Return the error in one line."""
        return (
            error_text({"kind": self.kind, "message": self.message})
            if self.text_as_read is UNSET
            else self.text_as_read
        )


_NO_OUTPUT = _OutputOfAttempt()


class _RecordLine(Struct, tag_field="kind", gc=False):
    pass


class _HeaderLine(_RecordLine, tag="run", gc=False):
    pass


class _MessageOfCase(Struct, gc=False):
    role: Any = None
    content: Any = None


class _InputOfCase(Struct, gc=False):
    messages: list[_MessageOfCase] | None = None
    api_params: Any = None


class _MetricOfCase(Struct, gc=False):
    name: Any = None
    parameters: Any = None


class _CaseLine(_RecordLine, tag="case", gc=False):
    case: str
    input: _InputOfCase | None = None
    entry: dict[str, Any] = {}
    metrics: list[_MetricOfCase] | None = None
    turns: list[Any] | None = None
    tags: list[Any] | None = None
    retry_params: Any = None


_NO_INPUT = _InputOfCase()
_Number = Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)]


class _CallLine(_RecordLine, tag="call", gc=False):
    case: str
    attempt: _Number


class _RetryLine(_RecordLine, tag="retry", gc=False):
    case: str
    attempt: _Number


class _AttemptLine(_RecordLine, tag="attempt", gc=False):
    case: str
    attempt: _Number
    output: _OutputOfAttempt | None = None
    error: _ErrorOfAttempt | None = None
    verdicts: list[_VerdictOfAttempt] | None = None
    strategy: str | None = None
    messages: list[_MessageOfCase] | None = None
    model: str | None = None
    started: Any = None


class _DoneLine(_RecordLine, tag="done", gc=False):
    case: str
    error: str | None = None


class _ResumedLine(_RecordLine, tag="resumed", gc=False):
    pass


class _EndLine(_RecordLine, tag="end", gc=False):
    decided: bool | None = None


_decoder = msgspec.json.Decoder(
    _HeaderLine | _CaseLine | _CallLine | _RetryLine | _AttemptLine | _DoneLine | _ResumedLine | _EndLine
)


class _KnownCase(Struct):
    """A case, or an entry of a dataset, and what was tried on it so far, by the numbers of attempts."""

    line: int
    name: str
    wrong: str = ""
    described: Mapping[str, Any] = {}
    """What is wanted of the record of a case when its row is made: no long texts."""
    own_id: Any = None
    long_id: Any = None
    said: int = 0
    """The checksum of what the user says in its messages."""
    text: int = 0
    """The checksum of the text of an entry, which is the same whatever was sent."""
    metrics: tuple[str, ...] = ()
    thresholds: dict[str, float] = {}
    attempts: dict[int, AttemptFacts] = {}
    finished: bool = False
    failure: tuple[int, str] | None = None
    """Where it is recorded that the attack ended by a failure of its own, and why."""


class _JournalLines:
    """The records of a journal, added one after the other."""

    def __init__(self, name: str, found: Found, *, verdicts: bool) -> None:
        self._name = name
        self._verdicts = verdicts
        self._found = found
        self._cases: dict[str, _KnownCase] = {}
        self._bad: dict[int, str] = {}
        self._header = RunRecord()
        self._is_attack = self._stopped_early = False
        self._words: dict[str, str] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Of the metrics of cases: most cases have the same."""

    def add(self, block: Block) -> None:
        """Add a block of lines: all at once if every line is one record of a known kind, else line by line."""
        found, first = self._found, self._found.lines + 1
        records = None if block.buffer is LINE_TOO_LONG else decoded_lines(block, _decoder)
        if first == 1:
            self._begin(block)
        if records is None:
            lines = block.lines
            whole = block.buffer is LINE_TOO_LONG or block.buffer[block.length - 1 : block.length] == b"\n"
            for number, line in enumerate(lines, start=first):
                self._add_line(number, line, ends=whole or number < found.lines + len(lines))
            found.lines += len(lines)
            return
        known = self._cases
        for number, record in enumerate(records, start=first):
            if type(record) is _CallLine and record.case in known:
                continue
            try:
                self._add_record(number, record)
            except BadLine as bad:
                self._bad[number] = str(bad)
        found.lines += len(records)

    def _begin(self, block: Block) -> None:
        """Read the header, the first line."""
        line = block.lines[0]
        self._header = header_of(b"" if line is LINE_TOO_LONG else line + b"\n", self._name)
        self._is_attack = self._header.aim == ATTACK

    def _add_line(self, number: int, line: bytes, *, ends: bool) -> None:
        if line is not LINE_TOO_LONG and not line.strip():
            self._found.blank += 1
            return
        try:
            if line is LINE_TOO_LONG:
                raise BadLine(TOO_LONG)
            self._add_loosely(number, decode_record(line + b"\n" if ends else line))
        except BadLine as bad:
            self._bad[number] = str(bad)

    def _add_record(self, number: int, record: Any) -> None:
        """Add a record that a strict decoder understands."""
        kind = type(record)
        if kind is _AttemptLine:
            known = self._cases.get(record.case) or self._known(record.case)
            if record.attempt not in known.attempts:
                known.attempts[record.attempt] = self._facts(number, known, record)
        elif kind is _DoneLine:
            self._finish(number, record.case, record.error)
        elif kind is _CaseLine:
            self._add_case(number, record.case, record)
        elif kind is _RetryLine:
            self._void(record.case, record.attempt)
        elif kind is _EndLine:
            self._stopped_early |= record.decided is True
        elif kind is _CallLine:
            self._known(record.case)
        elif kind is _HeaderLine and number > 1:
            raise BadLine(_SECOND_HEADER)

    def _add_loosely(self, number: int, record: Mapping[str, Any]) -> None:
        """Add a record in which anything may stand."""
        kind, case, attempt = record.get("kind"), record.get("case"), record.get("attempt")
        if not isinstance(kind, str):
            raise BadLine("it has no kind")
        if kind in ("call", "attempt", "retry"):
            if not isinstance(case, str) or type(attempt) is not int or not 0 <= attempt <= MAX_ATTEMPT:
                raise BadLine("it does not name its case and attempt")
            known = self._known(case)
            if kind == "retry":
                self._void(case, attempt)
            elif kind == "attempt" and attempt not in known.attempts:
                known.attempts[attempt] = self._facts_patiently(number, known, record)
        elif kind in ("case", "done"):
            if not isinstance(case, str):
                raise BadLine("it does not name its case")
            if kind == "case":
                self._add_case(number, case, record)
            else:
                error = record.get("error")
                self._finish(number, case, error if isinstance(error, str) else None)
        elif kind == "end":
            self._stopped_early |= record.get("decided") is True
        elif kind == "run" and number > 1:
            raise BadLine(_SECOND_HEADER)

    def _known(self, case: str) -> _KnownCase:
        known = self._cases.get(case)
        if known is None:
            raise no_case(case)
        return known

    def _finish(self, number: int, case: str, error: str | None) -> None:
        known = self._known(case)
        known.finished, known.failure = True, (number, clip(error, LONGEST_REASON)) if error else None

    def _void(self, case: str, attempt: int) -> None:
        known = self._known(case)
        known.finished, known.failure = False, None
        known.attempts.pop(attempt, None)

    # -- cases and attempts --------------------------------------------------------------------------------------

    def _add_case(self, number: int, name: str, record: _CaseLine | Mapping[str, Any]) -> None:
        if name in self._cases:
            return
        case = self._cases[name] = _KnownCase(number, name, attempts={})
        try:
            strict = record if isinstance(record, _CaseLine) else _strict_case(record, attack=self._is_attack)
            self._describe(case, strict)
        except BadLine as bad:
            case.wrong = str(bad)

    def _describe(self, case: _KnownCase, record: _CaseLine) -> None:
        metrics, given = record.metrics or (), record.input or _NO_INPUT
        once = self._words.setdefault
        names = tuple([str(one.name) for one in metrics])
        case.metrics = self._names.setdefault(names, names)
        if len(metrics) > 1:
            found = {str(one.name): threshold_of(one.parameters) for one in metrics}
            case.thresholds = {name: threshold for name, threshold in found.items() if threshold is not None}
        said = _asked(given.messages)
        case.said = case.text = checksum(as_json(said))
        if not self._is_attack:
            tags = [once(tag, tag) for tag in record.tags or () if isinstance(tag, str)]
            parameters = given.api_params if isinstance(given.api_params, dict) else {}
            strategy = strategy_of({"retry_params": record.retry_params})
            case.described = {"tags": tags, "parameters": parameters, "strategy": strategy}
            return
        entry = record.entry
        text = text_of(entry, said, record.turns or ())
        if text != said:
            case.text = checksum(as_json(text))
        case.own_id, case.long_id = entry.get("id"), entry.get("long_id")
        described = case.described = {}
        for name, value in entry.items():
            if name in _NO_FACETS:
                continue
            if type(value) is not str:
                described[name] = value
            elif value != said:
                described[name] = once(value, value)

    def _once(self, word: str) -> str:
        """Return one text for all that are equal: fields of entries have the same values again and again."""
        return self._words.setdefault(word, word)

    def _facts(self, number: int, case: _KnownCase, record: _AttemptLine) -> AttemptFacts:
        """Return what became of an attempt."""
        error, output, judged = record.error, record.output or _NO_OUTPUT, record.verdicts or ()
        text = response_json(output.output, output.tools_called)
        response, answer = answer_of(b"null" if error is not None and text == b'""' else text)
        words = None if error is None else error.text()
        verdicts: tuple[Verdict, ...] = ()
        several = self._verdicts and len(case.metrics) > 1
        if several or not self._is_attack:
            verdicts = verdicts_of(case.metrics, {one.metric: (one.score, one.verdict) for one in judged})
        if words is not None:
            success = None
        elif self._is_attack:
            success = success_of(output.let_through, [decision_of(one.verdict) for one in judged])
        else:
            success = all_passed([one.decision for one in verdicts])
        strategy = record.strategy
        standard = strategy is None or strategy == STANDARD
        model = record.model and self._words.setdefault(record.model, record.model)
        seconds = output.execution_time
        if seconds is not None and not 0 <= seconds <= LONGEST_SECONDS:
            seconds = None
        if error is None and standard and self._is_attack and not several:  # most attempts: the rest is as usual
            return AttemptFacts(
                number=record.attempt,
                line=number,
                success=success,
                seconds=seconds,
                response=response,
                answer=answer,
                input=self._input(case, record),
                model=model,
            )
        return AttemptFacts(
            number=record.attempt,
            line=number,
            of_attack=not standard,
            success=success,
            error=words,
            block=None if error is None or error.kind != BLOCKED else self._block(error),
            seconds=seconds,
            response=response,
            answer=answer,
            input=self._input(case, record) if self._is_attack else NO_TEXT,
            model=model,
            strategy=STANDARD if standard else self._once(str(strategy)),
            verdicts=verdicts,
            started=record.started if several and isinstance(record.started, str) else None,
        )

    def _block(self, error: _ErrorOfAttempt) -> GuardrailBlock:
        if error.policy_block is not None:
            return GuardrailBlock(policy=error.policy_block)
        return GuardrailBlock(tuple(map(self._once, error.categories or ())))

    def _input(self, case: _KnownCase, record: _AttemptLine) -> int:
        """Return the checksum of what was sent, unless a standard attempt sent the text of the entry."""
        sent = checksum(as_json(_asked(record.messages))) if record.messages else case.said
        return NO_TEXT if sent == case.text and not is_of_attack(record.strategy) else sent

    def _facts_patiently(self, number: int, case: _KnownCase, record: Mapping[str, Any]) -> AttemptFacts:
        """Return what became of an attempt of whose record anything may be wrong, or what makes it useless."""
        try:
            return self._facts(number, case, _strict(record, attack=self._is_attack))
        except BadLine as bad:
            of_attack = is_of_attack(record.get("strategy"))
            return AttemptFacts(number=record["attempt"], line=number, of_attack=of_attack, wrong=str(bad))

    # -- rows ----------------------------------------------------------------------------------------------------

    def rows(self, maker: RowMaker) -> Iterator[LedgerRow]:
        """Yield the rows in the order of their lines, and count what became of all lines."""
        found = self._found
        found.version = self._header.version
        found.target, found.stop_rule, found.aim = target_of(self._header), stop_rule_of(self._header), TASK
        if self._is_attack:
            found.aim = ATTACK
        rows_of_case = self._rows_of_entry if self._is_attack else self._row_of_test
        planned = [row for case in self._cases.values() for row in rows_of_case(case)]
        run = RunFile(FAIRCOUNT, NAME)
        for line, case, of_attack in sorted(planned, key=itemgetter(0)):
            try:
                attempts = _usable(case, of_attack)
            except BadLine as bad:
                self._bad[line] = str(bad)
                continue
            if found.excludes(line):
                continue
            found.good += 1
            if of_attack is None:
                yield self._task_row(maker, run, line, case, attempts)
            else:
                yield self._entry_row(maker, line, case, attempts, of_attack=of_attack)
        for line, reason in sorted(self._bad.items()):
            found.add_bad(reason, line)

    def _row_of_test(self, case: _KnownCase) -> Iterator[tuple[int, _KnownCase, bool | None]]:
        yield max((one.line for one in case.attempts.values()), default=case.line), case, None

    def _rows_of_entry(self, case: _KnownCase) -> Iterator[tuple[int, _KnownCase, bool | None]]:
        """Yield which rows an entry has, and on which lines; none if its turn has not come."""
        if len(case.attempts) == 1 and case.failure is None:  # most entries of most runs
            (only,) = case.attempts.values()
            yield only.line, case, only.of_attack
            return
        last = {one.of_attack: one.line for one in case.attempts.values()}
        standard, attack = last.get(False, 0), last.get(True, 0)
        if case.failure is not None and not attack:
            attack = case.failure[0]
        if standard or attack:
            if standard:
                yield standard, case, False
            if attack:
                yield attack, case, True
        elif case.finished:
            yield case.line, case, False
        else:
            why = why_untried(self._header, stopped_early=self._stopped_early)
            self._found.notes.add(NOT_TRIED, why, case.line)

    def _entry_row(
        self, maker: RowMaker, line: int, case: _KnownCase, attempts: Sequence[AttemptFacts], *, of_attack: bool
    ) -> LedgerRow:
        attack = (attempts[0].strategy if attempts else attack_of(self._header)) if of_attack else None
        return maker.entry_row(
            line,
            entry_id(case.name, case.own_id) if attack is None else case.name,
            long_id_of(case.name, case.long_id, attack, tried=bool(attempts)),
            case.described,
            attempts,
            text=case.text,
            attack=attack,
            failure=case.failure[1] if of_attack and case.failure is not None else None,
            judges=", ".join(case.metrics) or None,
            thresholds=case.thresholds,
        )

    def _task_row(
        self, maker: RowMaker, run: RunFile, line: int, case: _KnownCase, attempts: Sequence[AttemptFacts]
    ) -> LedgerRow:
        strategy = case.described.get("strategy")
        verdicts = [verdict for attempt in attempts for verdict in attempt.verdicts]
        by_metric = success_by_metric(strategy, verdicts, case.metrics if attempts else ())
        tags, parameters = case.described.get("tags", ()), case.described.get("parameters", {})
        return maker.task_row(
            line,
            case.name,
            case.name,
            {"judge_name": ", ".join(by_metric) or None, **run.facets(case.name, tags, parameters, by_metric)},
            attempts,
            success=success_over(strategy, verdicts, per_attempt=max(len(case.metrics), 1)),
            text=case.text,
            by_metric=by_metric,
            thresholds=case.thresholds,
        )


def decoded_lines(block: Block, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """Return the records of a block, or None if any line is not one record that a strict decoder understands."""
    buffer, length = block.buffer, block.length
    lines = memoryview(buffer)[:length]
    if not (buffer.isascii() or is_utf8(lines)):
        return None
    try:
        records: list[Any] = decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return records if buffer.count(b"\n", 0, length) == len(records) and buffer.endswith(b"}\n", 0, length) else None


def _usable(case: _KnownCase, of_attack: bool | None) -> list[AttemptFacts]:
    """Return the attempts of a row in their order; BadLine if the case or any of them cannot be understood."""
    if case.wrong:
        raise BadLine(case.wrong)
    usable = [one for one in case.attempts.values() if of_attack is None or one.of_attack is of_attack]
    for one in usable:
        if one.wrong:
            raise BadLine(one.wrong)
    return usable if len(usable) <= 1 else sorted(usable, key=_number_of)


_number_of = attrgetter("number")


def _strict(record: Mapping[str, Any], *, attack: bool) -> _AttemptLine:
    """Return the record of an attempt with what has the wrong type left out; BadLine where a list is none."""
    output, error, model, strategy = (record.get(name) for name in ("output", "error", "model", "strategy"))
    verdicts = [
        _VerdictOfAttempt(str(one.get("metric")), one.get("verdict"), one.get("score"))
        for one in objects(record, "verdicts")
    ]
    return _AttemptLine(
        case=record["case"],
        attempt=record["attempt"],
        output=_strict_output(output) if isinstance(output, dict) else None,
        error=None if error is None else _strict_error(error),
        verdicts=verdicts,
        strategy=strategy if isinstance(strategy, str) else None,
        messages=_messages(record) if attack else None,
        model=model if isinstance(model, str) else None,
        started=record.get("started"),
    )


def _strict_case(record: Mapping[str, Any], *, attack: bool) -> _CaseLine:
    """Return the record of a case of which anything may be wrong; BadLine where a list or an object is none."""
    entry, given = record.get("entry", {}), record.get("input")
    if attack and not isinstance(entry, dict):
        raise BadLine("entry is not an object")
    metrics = [_MetricOfCase(one.get("name"), one.get("parameters")) for one in objects(record, "metrics")]
    turns = listed(record, "turns") if attack else []
    if given is not None and not isinstance(given, dict):
        raise BadLine("input is not an object")
    return _CaseLine(
        case=record["case"],
        input=None if given is None else _InputOfCase(_messages(given), given.get("api_params")),
        entry=entry if isinstance(entry, dict) else {},
        metrics=metrics,
        turns=turns,
        tags=[] if attack else listed(record, "tags"),
        retry_params=record.get("retry_params"),
    )


def _messages(holder: Mapping[str, Any]) -> list[_MessageOfCase]:
    return [_MessageOfCase(one.get("role"), one.get("content")) for one in objects(holder, "messages")]


def _asked(messages: Sequence[_MessageOfCase] | None) -> Any:
    """Return the last message of the user, or the last of all where the user says nothing."""
    for message in reversed(messages or ()):
        if message.role == "user":
            return message.content
    return messages[-1].content if messages else None


def _strict_output(output: Mapping[str, Any]) -> _OutputOfAttempt:
    text, tools, through = output.get("output"), output.get("tools_called"), output.get("let_through")
    return _OutputOfAttempt(
        Raw(as_json(text)) if isinstance(text, str) else EMPTY,
        Raw(as_json(tools)) if tools else EMPTY,
        plausible_seconds(output.get("execution_time")),
        through if isinstance(through, bool) else None,
    )


def _strict_error(error: Any) -> _ErrorOfAttempt:
    block, text = block_of(error), error_text(error)
    if block is None:
        return _ErrorOfAttempt(text_as_read=text)
    return _ErrorOfAttempt(BLOCKED, "", [*block.categories], block.policy, text)


def response_json(text: Raw, tools_called: Raw) -> bytes:
    """Return the text of an answer as JSON, or the calls of tools where there is no text, as the text of their JSON."""
    written = bytes(text)
    if written[:1] == b'"' and written != b'""':
        # A text without escapes is written in one way only.
        return as_json(msgspec.json.decode(written)) if b"\\" in written else written
    tools = bytes(tools_called)
    called = None if tools in (b"", b"[]", b"null") else msgspec.json.decode(tools)
    return as_json(json.dumps(called)) if called else b'""'
