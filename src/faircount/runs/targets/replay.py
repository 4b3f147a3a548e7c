"""Answers from saved results: `replay(file="results.jsonl")`, for files of results and for our own journals.

An answer is looked for by the id of the entry and the prompt, the last message of the user; where the file does not
know the two together, by the prompt alone. Several answers to the same prompt are given in the order in which they were
made, each once; in a journal the answer of the same attempt goes first. A prompt without a saved answer, or with none
left, is an error of the kind "not recorded". What was an error is one again, and so is what a guardrail stopped.

The file is read once, and only checksums and places are kept: an answer is read when it is asked for. A file that is
compressed, or a table, is written into a temporary one. `map="prompt=question,response=answer"` names the columns of
any other file. Nothing of the file is executed.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from faircount.core.errors import InputError, UsageError
from faircount.core.findings import Notes
from faircount.core.outcomes import known_pattern
from faircount.core.text import clip, mask_secrets, visible
from faircount.io import lenient_json
from faircount.io.columns import ColumnFinder, Role, read_map
from faircount.io.lenient_json import BadLine
from faircount.io.records import Records, RecordType, column_names, report_to, some_fields
from faircount.readers.journals import AttemptRecord, CaseRecord, decode, decode_record
from faircount.runs.targets.base import BLOCKED, Answer, Request, Target, TargetError, categories_of, prompt_of
from faircount.runs.targets.user_code import WrongAnswer, answer_of
from faircount.testing.cases import text_of

_LONGEST_LINE = 64 * 1024 * 1024
_LONGEST_MESSAGE = 500
_ATTACK = "-attack"
_ANY_ATTEMPT = -1
_WHOLE = -1
_BOOLEANS = {"True": True, "False": False}

Numbers = Callable[[bytes], int]


class _AnswerPlace(NamedTuple):
    """Where an answer is: the byte where its line begins, and which one on that line; the attempt that it was."""

    offset: int
    part: int = _WHOLE
    attempt: int = _ANY_ATTEMPT


_SavedAnswer = tuple[str, str, _AnswerPlace]
"""An answer on its way into the index: whose it is, to which prompt, and where."""


class _AnswerIndex:
    """Places of answers, by the checksum of entry and prompt and by that of the prompt alone."""

    def __init__(self) -> None:
        import xxhash

        self._number: Numbers = xxhash.xxh3_64_intdigest
        # Nearly all prompts have one answer: a list for each would take more room than the places.
        self._places: dict[int, _AnswerPlace | list[_AnswerPlace]] = {}
        self._given: dict[int, int] = {}
        self._lock = threading.Lock()
        self.count = 0

    def add(self, entry: str, prompt: str, place: _AnswerPlace) -> None:
        self.count += 1
        for key in self._keys(entry, prompt):
            before = self._places.get(key)
            if before is None:
                self._places[key] = place
            elif isinstance(before, list):
                before.append(place)
            else:
                self._places[key] = [before, place]

    def next(self, entry: str, prompt: str, attempt: int) -> _AnswerPlace | int:
        """Return the place of the next answer to a prompt, or how many there were where none is left."""
        for key in self._keys(entry, prompt):
            places = self._places.get(key)
            if places is not None:
                return self._one_of(key, places if isinstance(places, list) else [places], attempt)
        return 0

    def _one_of(self, key: int, places: list[_AnswerPlace], attempt: int) -> _AnswerPlace | int:
        same = next((place for place in places if place.attempt == attempt and place.part == _WHOLE), None)
        if same is not None:
            return same
        with self._lock:
            given = self._given.get(key, 0)
            if given >= len(places):
                return len(places)
            self._given[key] = given + 1
        return places[given]

    def _keys(self, entry: str, prompt: str) -> tuple[int, int]:
        text = prompt.encode("utf-8", "surrogatepass")
        return self._number(entry.encode("utf-8", "surrogatepass") + b"\0" + text), self._number(b"\0\0" + text)


class ReplayTarget(Target):
    """Saved results that answer."""

    name = "replay"

    def __init__(self, path: str, notice: Callable[[str], None] = lambda _: None, columns: str = "") -> None:
        self._path = str(Path(path).absolute())
        self._shown = visible(path)
        self._columns = columns
        self._index = _AnswerIndex()
        self._lock = threading.Lock()
        journal = False
        with contextlib.suppress(BadLine, OSError), Path(self._path).open("rb") as file:
            first = file.readline(_LONGEST_LINE)
            header = decode_record(first if first.endswith(b"\n") else first + b"\n")
            journal = header.get("kind") == "run" and "schema" in header
        if journal and columns:
            raise UsageError(f"{self._shown}: is the journal of a run, whose fields are known; leave out map")
        self._saved = _SavedJournal(self._path) if journal else _SavedRows(self._path, self._shown, notice, columns)
        try:
            for found in self._saved.answers():
                self._index.add(*found)
            if not self._index.count:
                raise InputError(
                    f"{self._shown}: no saved answers; give a file of results or the journal of a run, or name the "
                    'columns of another file with map="prompt=…,response=…"'
                )
        except BaseException:
            self._saved.close()
            raise

    def settings(self) -> Mapping[str, Any]:
        """Return which file answers."""
        fields = {"kind": "replay", "name": self.name, "file": self._path}
        return {**fields, "map": self._columns} if self._columns else fields

    async def answer(self, request: Request) -> Answer:
        """Return the saved answer."""
        entry = str(request.fields.get("id", request.case))
        place = self._index.next(entry, prompt_of(request), request.attempt)
        if isinstance(place, int):
            known = (
                f"it has {place} to this prompt, and all have been used" if place else "it does not have this prompt"
            )
            raise TargetError("not recorded", f"{self._shown} has no answer: {known}", tries=0)
        with self._lock:
            return self._saved.read(place)

    async def close(self) -> None:
        """Close the file."""
        self._saved.close()


# -- rows of results --------------------------------------------------------------------------------------------


class _Answered(Struct, gc=False):
    """What of a row tells which answer it holds."""

    id: Any = ""
    input: Any = UNSET
    content: Any = UNSET
    text: Any = UNSET
    response: Raw | UnsetType = UNSET
    error: Any = None
    attempt_history: Any = None


_ROLES = {name: Role(name, option=f'map="{name}=…"') for name in ("id", "prompt", "response", "error", "response_time")}


def _fields_of(path: str, shown: str, columns: str) -> dict[str, str]:
    """Return which column has which field of a row, where somebody said so."""
    names, all_known = column_names(path, name=shown, max_line=_LONGEST_LINE)
    finder = ColumnFinder(shown, names, all_known=all_known)
    mapped = read_map([columns], {role: role for role in _ROLES})
    return {"input" if role == "prompt" else role: finder.named(_ROLES[role], column) for role, column in mapped}


class _SavedRows:
    """Rows of results; those of a file that cannot be read from anywhere are kept in a temporary one."""

    def __init__(self, path: str, shown: str, notice: Callable[[str], None], columns: str = "") -> None:
        self._notes, self._notice = Notes(shown), notice
        self._fields = _fields_of(path, shown, columns) if columns else {}
        kind: Any = some_fields(_Answered, keep_surrogates=True)
        if self._fields:
            kind = RecordType(msgspec.json.Decoder(dict[str, Any]), dict, keep_surrogates=True)
        self._records = Records(path, kind, report_to(self._notes), name=shown, max_line=_LONGEST_LINE)
        self._in_place = self._records.in_place
        self._file = Path(path).open("rb") if self._in_place else tempfile.TemporaryFile()  # noqa: SIM115

    def answers(self) -> Iterator[_SavedAnswer]:
        """Yield every answer of the file. A record that cannot be read answers nothing, and is reported."""
        for batch in self._records.batches():
            if self._in_place:
                offsets = batch.offsets
            else:
                # The text of an item in a JSON array may go over several lines.
                written = [text.replace(b"\n", b" ") + b"\n" for text in batch.texts]
                offsets = list(accumulate(map(len, written), initial=self._file.tell()))
                self._file.writelines(written)
            for row, offset in zip(batch.values, offsets, strict=False):
                yield from _in_row(self._answered(row) if self._fields else row, offset)
        for problem in self._notes.problems():
            self._notice(problem)

    def _mapped(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, **{field: row.get(column) for field, column in self._fields.items()}}

    def _answered(self, row: Mapping[str, Any]) -> _Answered:
        fields = self._mapped(row)
        return _Answered(**{name: fields[name] for name in _Answered.__struct_fields__ if name in fields})

    def close(self) -> None:
        self._file.close()

    def read(self, place: _AnswerPlace) -> Answer:
        """Return one answer, or raise what was an error."""
        self._file.seek(place.offset)
        row = self._mapped(_row(self._file.readline(_LONGEST_LINE)))
        fields = row if place.part == _WHOLE else row["attempt_history"][place.part]
        if str(fields.get("guardrail")) in ("True", "true"):  # a table has words
            message = _words(fields.get("error")) or "the guardrail stopped it"
            raise TargetError(BLOCKED, message, categories=categories_of(fields.get("guardrail_categories")))
        pattern = known_pattern(fields.get("policy_block"))
        if pattern is not None:
            raise TargetError(BLOCKED, _words(fields.get("error")), policy_block=pattern)
        if fields.get("error"):
            raise TargetError("replayed", _words(fields["error"]))
        response = fields.get("response")
        # What a guardrail decided: rows have the words True and False, which are the verdict as well.
        through = _BOOLEANS.get(response) if isinstance(response, str) else None
        return Answer(
            output=response if isinstance(response, str) else "",
            latency=_seconds(fields.get("response_time")),
            let_through=through if fields.get("success") is through else None,
        )


def _seconds(value: Any) -> float:
    """Return a duration; in a table it is a text."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0


def _row(text: bytes) -> dict[str, Any]:
    """Return the row that a text was read as."""
    try:
        return dict(msgspec.json.decode(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return lenient_json.parse(text)[0]


def _in_row(row: _Answered, offset: int) -> Iterator[_SavedAnswer]:
    entry = str(row.id).removesuffix(_ATTACK)
    history = row.attempt_history
    if isinstance(history, list) and history:
        for part, tried in enumerate(history):
            if isinstance(tried, dict) and isinstance(tried.get("input"), str):
                yield entry, tried["input"], _AnswerPlace(offset, part)
        return
    prompt = row.input
    if prompt is UNSET:
        prompt = row.text if row.content is UNSET else row.content
    if isinstance(prompt, str) and (row.response is not UNSET or row.error):
        yield entry, prompt, _AnswerPlace(offset)


# -- journals ---------------------------------------------------------------------------------------------------


class _SavedJournal:
    """A journal of a run: the attempts that count."""

    def __init__(self, path: str) -> None:
        from faircount.runs.journal import read_journal  # which needs asyncio, and targets are listed without it

        self._reader = read_journal(path)
        self._file = Path(path).open("rb")  # noqa: SIM115  it is closed with the target

    def close(self) -> None:
        self._file.close()

    def answers(self) -> Iterator[_SavedAnswer]:
        """Yield every answer of the journal, and of conversations those before the last."""
        state = self._reader.state()
        cases: dict[str, tuple[str, str]] = {}
        for line in self._reader:
            record = line.record
            if isinstance(record, CaseRecord):
                entry = str((record.entry or {}).get("id", record.case))
                cases[record.case] = entry, _last_prompt(record.input.messages)
            elif isinstance(record, AttemptRecord) and state.counts(line):
                yield from _in_attempt(record, line.offset, *cases[record.case])

    def read(self, place: _AnswerPlace) -> Answer:
        """Return one answer, or raise what was an error."""
        self._file.seek(place.offset)
        record = decode(self._file.readline(_LONGEST_LINE + 1))
        assert isinstance(record, AttemptRecord)
        if place.part != _WHOLE:
            return Answer(output=text_of((record.messages or ())[place.part].get("content")))
        if record.error is not None:
            raise TargetError(
                str(record.error.kind),
                _words(record.error.message),
                categories=categories_of(record.error.categories),
                policy_block=known_pattern(record.error.policy_block),
            )
        fields = msgspec.to_builtins(record)
        try:
            about = {name: fields.get(name) for name in ("model", "finish_reason", "usage")}
            return answer_of((fields["output"] or {}) | about, 0.0)
        except WrongAnswer as wrong:
            raise TargetError("wrong answer", _words(str(wrong))) from None


def _in_attempt(record: AttemptRecord, offset: int, entry: str, prompt: str) -> Iterator[_SavedAnswer]:
    own = record.messages or ()
    for part, message in enumerate(own):
        if part and message.get("role") == "assistant" and own[part - 1].get("role") == "user":
            yield entry, text_of(own[part - 1].get("content")), _AnswerPlace(offset, part)
    yield entry, _last_prompt(own) if own else prompt, _AnswerPlace(offset, _WHOLE, record.attempt)


def _last_prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    prompts = [message for message in messages if message.get("role") == "user"]
    return text_of(prompts[-1].get("content")) if prompts else ""


def _words(value: object) -> str:
    return clip(visible(mask_secrets(value if isinstance(value, str) else str(value or ""))), _LONGEST_MESSAGE)
