"""Answers from saved results: `replay(file="results.jsonl")`, for spikee's result files and for our own journals.

An answer is looked for by the id of the entry and the prompt, the last message of the user; where the file does not
know the two together, by the prompt alone. Several answers to the same prompt are given in the order in which they were
made, each once; in a journal the answer of the same attempt goes first. A prompt without a saved answer, or with none
left, is an error of the kind "not recorded". What was an error is one again, and so is what a guardrail stopped.

The file is read once, and only checksums and places are kept: an answer is read when it is asked for. A packed file is
unpacked into a temporary one. Nothing of the file is executed.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from faircount.errors import InputError
from faircount.policy_blocks import known_pattern
from faircount.reading import loose
from faircount.reading.journal_records import AttemptRecord, CaseRecord, decode, decode_record
from faircount.reading.loose import BadLine
from faircount.running.journal_reading import JournalReader, read_journal
from faircount.running.targets.answers import WrongAnswer, answer_of
from faircount.running.targets.blocks import categories_of
from faircount.running.targets.seam import BLOCKED, Answer, Request, Target, TargetError, prompt_of
from faircount.testing.messages import text_of
from faircount.text import clip, mask_secrets, visible

_LONGEST_LINE = 64 * 1024 * 1024
_LONGEST_MESSAGE = 500
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_ATTACK = "-attack"
_ANY_ATTEMPT = -1
_WHOLE = -1
_BOOLEANS = {"True": True, "False": False}

Numbers = Callable[[bytes], int]


class _Place(NamedTuple):
    """Where an answer is: the byte where its line begins, and which one on that line; the attempt that it was."""

    offset: int
    part: int = _WHOLE
    attempt: int = _ANY_ATTEMPT


class _Found(NamedTuple):
    """An answer on its way into the index: whose it is, to which prompt, and where."""

    entry: str
    prompt: str
    place: _Place


class _Index:
    """Places of answers, by the checksum of entry and prompt and by that of the prompt alone."""

    def __init__(self) -> None:
        import xxhash

        self._number: Numbers = xxhash.xxh3_64_intdigest
        # Nearly all prompts have one answer: a list for each would take more room than the places.
        self._places: dict[int, _Place | list[_Place]] = {}
        self._given: dict[int, int] = {}
        self._lock = threading.Lock()
        self.count = 0

    def add(self, found: _Found) -> None:
        """Take an answer."""
        self.count += 1
        for key in self._keys(found.entry, found.prompt):
            before = self._places.get(key)
            if before is None:
                self._places[key] = found.place
            elif isinstance(before, list):
                before.append(found.place)
            else:
                self._places[key] = [before, found.place]

    def next(self, entry: str, prompt: str, attempt: int) -> _Place | int:
        """Return the place of the next answer to a prompt, or how many there were where none is left."""
        for key in self._keys(entry, prompt):
            places = self._places.get(key)
            if places is not None:
                return self._one_of(key, places if isinstance(places, list) else [places], attempt)
        return 0

    def _one_of(self, key: int, places: list[_Place], attempt: int) -> _Place | int:
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

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())
        self._shown = visible(path)
        self._index = _Index()
        self._lock = threading.Lock()
        self._file = _opened(self._path, self._shown)
        try:
            self._saved: _Journal | _Rows = self._recognised()
            for found in self._saved.answers():
                self._index.add(found)
        except BaseException:
            self._file.close()
            raise
        if not self._index.count:
            self._file.close()
            raise InputError(f"{self._shown}: no saved answers; give a file of results or the journal of a run")

    def settings(self) -> Mapping[str, Any]:
        """Return which file answers."""
        return {"kind": "replay", "name": self.name, "file": self._path}

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
        self._file.close()

    def _recognised(self) -> _Journal | _Rows:
        first = self._file.readline(_LONGEST_LINE)
        self._file.seek(0)
        with contextlib.suppress(BadLine):
            header = decode_record(first if first.endswith(b"\n") else first + b"\n")
            if header.get("kind") == "run" and "schema" in header:
                return _Journal(self._path, self._file)
        return _Rows(self._file, self._shown)


# -- rows of results --------------------------------------------------------------------------------------------


class _Rows(Struct, frozen=True):
    """spikee's result files, a row on each line."""

    file: BinaryIO
    shown: str

    def answers(self) -> Iterator[_Found]:
        """Yield every answer of the file. A line that cannot be read is passed over: it answers nothing."""
        offset = 0
        while line := self.file.readline(_LONGEST_LINE):
            row = _row(line)
            if row is not None:
                yield from _in_row(row, offset)
            offset += len(line)

    def read(self, place: _Place) -> Answer:
        """Return one answer, or raise what was an error."""
        self.file.seek(place.offset)
        row = _row(self.file.readline(_LONGEST_LINE)) or {}
        told = row if place.part == _WHOLE else row["attempt_history"][place.part]
        if told.get("guardrail") is True:
            message = _words(told.get("error")) or "the guardrail stopped it"
            raise TargetError(BLOCKED, message, categories=categories_of(told.get("guardrail_categories")))
        pattern = known_pattern(told.get("policy_block"))
        if pattern is not None:
            raise TargetError(BLOCKED, _words(told.get("error")), policy_block=pattern)
        if told.get("error"):
            raise TargetError("replayed", _words(told["error"]))
        response = told.get("response")
        seconds = told.get("response_time")
        return Answer(
            output=response if isinstance(response, str) else "",
            latency=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < float("inf") else 0.0,
            let_through=_let_through(told, response),
        )


_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the row on a line, or None where it holds none with a prompt."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.strip():
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return loose.parse(line)[0]
    except BadLine:
        return None


def _in_row(row: Mapping[str, Any], offset: int) -> Iterator[_Found]:
    entry = str(row.get("id", ""))
    history = row.get("attempt_history")
    if isinstance(history, list) and history:
        parent = entry.removesuffix(_ATTACK)
        for part, tried in enumerate(history):
            if isinstance(tried, dict) and isinstance(tried.get("input"), str):
                yield _Found(parent, tried["input"], _Place(offset, part))
        return
    prompt = row.get("input", row.get("content", row.get("text")))
    if isinstance(prompt, str) and ("response" in row or row.get("error")):
        yield _Found(entry.removesuffix(_ATTACK), prompt, _Place(offset))


def _let_through(row: Mapping[str, Any], response: object) -> bool | None:
    """Return what a guardrail decided: spikee writes the words True and False, which are the verdict as well."""
    through = _BOOLEANS.get(response) if isinstance(response, str) else None
    return through if through is not None and row.get("success") is through else None


# -- journals ---------------------------------------------------------------------------------------------------


class _Journal:
    """A journal of a run: the attempts that count."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._file = file
        self._reader: JournalReader = read_journal(path)

    def answers(self) -> Iterator[_Found]:
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

    def read(self, place: _Place) -> Answer:
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
        told = msgspec.to_builtins(record)
        try:
            about = {name: told.get(name) for name in ("model", "finish_reason", "usage")}
            return answer_of((told["output"] or {}) | about, 0.0)
        except WrongAnswer as wrong:
            raise TargetError("wrong answer", _words(str(wrong))) from None


def _in_attempt(record: AttemptRecord, offset: int, entry: str, prompt: str) -> Iterator[_Found]:
    own = record.messages or ()
    for part, message in enumerate(own):
        if part and message.get("role") == "assistant" and own[part - 1].get("role") == "user":
            yield _Found(entry, text_of(own[part - 1].get("content")), _Place(offset, part))
    yield _Found(entry, _last_prompt(own) if own else prompt, _Place(offset, _WHOLE, record.attempt))


def _last_prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    said = [message for message in messages if message.get("role") == "user"]
    return text_of(said[-1].get("content")) if said else ""


# -- files ------------------------------------------------------------------------------------------------------


def _opened(path: str, shown: str) -> BinaryIO:
    """Open a file; one that is packed, unpacked."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115  it is closed with the target
    except FileNotFoundError:
        raise InputError(f"{shown}: no such file") from None
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror or error}") from None
    packed = file.read(4).startswith(_PACKED)
    file.seek(0)
    if not packed:
        return file
    file.close()
    from faircount.reading.streams import open_stream

    unpacked = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the target
    for chunk in open_stream(path, shown).chunks:
        unpacked.write(chunk)
    unpacked.seek(0)
    return unpacked


def _words(told: object) -> str:
    return clip(visible(mask_secrets(told if isinstance(told, str) else str(told or ""))), _LONGEST_MESSAGE)
