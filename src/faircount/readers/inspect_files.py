"""The two shapes of an inspect_ai log, an archive (`.eval`) and a document (`.json`): header, samples, summaries.

Samples are decoded one at a time and without their events, which are most of a log. Of a sample too long for a record
only what is wanted is read. What a log names is never opened or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from faircount.core.errors import FaircountError
from faircount.core.text import clip, visible
from faircount.io.documents import DamagedDocument, JsonDocument
from faircount.io.zip_members import ZIP_MAGIC, DamagedMember, ZipMember, ZipMembers
from faircount.readers.inspect_figures import Unreadable, number_of
from faircount.readers.tool_records import ToolFile

SUMMARIES, REDUCTIONS = "summaries.json", "reductions.json"
MOST_JUDGES = 500
_HEADER, _START = "header.json", "_journal/start.json"
_JOURNAL = re.compile(r"_journal/summaries/(\d{1,12})\.json")
_SAMPLE = re.compile(r"(samples/.+_epoch_\d+)(?:\.json|/sample\.json)", re.DOTALL)
_BARE_NAN = re.compile(rb'("(?:[^"\\]|\\.)*+"?)|\bNaN\b', re.DOTALL)
_ATTACHED = "attachment://"
_CHUNK = 256 * 1024


class Header(Struct):
    """What a log says of itself, as far as it is used."""

    version: Any = None
    status: Any = None
    eval: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] | None = None
    error: Any = None
    tags: Any = None


class InspectMessage(Struct):
    role: str = ""
    content: Any = None
    source: str | None = None


class Choice(Struct):
    message: InspectMessage | None = None
    stop_reason: str | None = None


class InspectOutput(Struct):
    choices: list[Choice] = field(default_factory=list)
    completion: str | None = None


class InspectSample(Struct):
    """A sample and epoch; also its summary, in which texts are cut and an error is a text."""

    id: int | str | float | None = None
    epoch: int = 1
    input: str | list[InspectMessage] | None = None
    messages: list[InspectMessage] = field(default_factory=list)
    output: InspectOutput | None = None
    scores: dict[str, Any] | None = None
    score: dict[str, Any] | None = None
    """The only score, in version 1 of the format."""
    metadata: dict[str, Any] | None = None
    error: Any = None
    limit: Any = None
    invalidation: Any = None
    error_retries: Any = None
    working_time: float | None = None
    attachments: dict[str, Any] | None = None


class ScoresOnly(Struct):
    scores: dict[str, Any] | None = None
    score: dict[str, Any] | None = None


class Reduction(Struct):
    """What a scorer gave each sample, its epochs reduced to one value."""

    scorer: str = ""
    reducer: str | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)


_S = TypeVar("_S")
_headers = msgspec.json.Decoder(Header)
_samples = msgspec.json.Decoder(InspectSample)
_scores_only = msgspec.json.Decoder(ScoresOnly)
_reductions = msgspec.json.Decoder(list[Reduction])
_message_lists = msgspec.json.Decoder(list[InspectMessage])
_objects = msgspec.json.Decoder(dict[str, Any])
_WANTED = tuple(one.encode_name for one in msgspec.structs.fields(InspectSample))
_OF_HEADER = tuple(one.encode_name for one in msgspec.structs.fields(Header))


# -- scores and texts -------------------------------------------------------------------------------------------


def values_of(sample: InspectSample | ScoresOnly, only: str = "") -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield each judge with its value and the score that it is of; `only` names the scorer of a single score."""
    scores = sample.scores if sample.scores is not None else {} if sample.score is None else {only: sample.score}
    count = 0
    for name, score in scores.items():
        described = score if isinstance(score, dict) else {}
        value = described.get("value") if isinstance(score, dict) else score
        for key, one in value.items() if isinstance(value, dict) else ((None, value),):
            count += 1
            if count <= MOST_JUDGES:
                yield name if key is None else f"{name}.{key}", one, described


def add_judges(found: dict[str, bool], scores: ScoresOnly | None) -> None:
    for judge, value, _ in () if scores is None else values_of(scores):
        found[judge] = found.get(judge, False) or _leaves_scale(value)


def _leaves_scale(value: object) -> bool:
    try:
        number = number_of(value)
    except Unreadable:
        return False
    return number is not None and not 0 <= number <= 1


def text_of(value: object, attachments: Mapping[str, Any] | None = None) -> str:
    """Return the content of a message as text: its parts one after the other, what is no text by its kind."""
    if isinstance(value, str):
        if attachments and value.startswith(_ATTACHED):
            return str(attachments.get(value.removeprefix(_ATTACHED), value))
        return value
    if not isinstance(value, list):
        return ""
    parts = [part if isinstance(part, dict) else {"text": part} for part in value]
    texts = (part.get("text", part.get("reasoning", f"[{part.get('type')}]")) for part in parts)
    return "\n".join(text_of(text, attachments) if isinstance(text, str) else "" for text in texts)


def at(value: object, *keys: str) -> Any:
    """Return what is under some keys, None where anything on the way is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# -- where the samples are --------------------------------------------------------------------------------------


class Log:
    """A log in either shape: its header, and its samples with their numbers and places."""

    header = Header()

    def judges(self) -> dict[str, bool]:
        """Return the judges of all samples in their order, and whether any score of each leaves 0 to 1."""
        raise NotImplementedError

    def samples(self) -> Iterator[tuple[int, str, InspectSample]]:
        """Yield the samples; what cannot be read is refused."""
        raise NotImplementedError

    def summaries(self) -> Iterator[InspectSample]:
        """Yield the summaries of samples, where there are any."""
        yield from ()

    def reductions(self) -> list[Reduction]:
        """Return the reduced scores."""
        return []


def _strictly(text: bytes, decoder: msgspec.json.Decoder[_S]) -> _S | None:
    """Return what a text holds, None if it is not strict JSON; NaN is how inspect writes that nothing was scored."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if b"NaN" not in text:
            return None
    try:
        return decoder.decode(_BARE_NAN.sub(lambda found: found[1] or b"null", text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _sample_of(file: ToolFile, text: bytes, line: int, place: str) -> InspectSample | None:
    return _strictly(text, _samples) or file.decode(text, _samples, line, place)


def _members_of(document: JsonDocument, wanted: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return the members of an object that are wanted, as an object, and which of them are too long or too deep."""
    found, missed = dict[str, bytes](), []
    for key in document.members():
        if key in wanted:
            part = document.value()
            found[key] = part.text or b"null"
            missed += [key] if part.problem else []
    return _object_of(found), missed


def _object_of(members: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(key) + b":" + text for key, text in members.items()) + b"}"


class InspectArchive(Log):
    """A log that is a zip archive."""

    def __init__(self, file: ToolFile, members: ZipMembers) -> None:
        self._file, self._zip = file, members
        self._members = _sample_members(members)
        if members.damage:
            file.note("F002", members.damage)
        self.header = self._read_header()

    def _read_header(self) -> Header:
        for name in (_HEADER, _START):
            text = self._bytes(name)
            if text is None:
                continue
            found = _strictly(text, _headers) or self._file.decode(text, _headers, 0, f"!{name}")
            if found is not None:
                return found
        return Header()

    def _bytes(self, name: str) -> bytes | None:
        """Return a member beside the samples; one that is damaged is noted."""
        member = self._zip.members.get(name)
        if member is None:
            return None
        try:
            return self._zip.read(member, self._file.max_line)
        except DamagedMember as damage:
            self._file.note("F002", f"{clip(visible(name), 80)}: {damage}")
            return None

    def judges(self) -> dict[str, bool]:
        """Look at the summaries where there is one for each sample, else at the samples."""
        found, seen = dict[str, bool](), 0
        for scores in self._listed(SUMMARIES, _scores_only, quietly=True):
            add_judges(found, scores)
            seen += 1
        if seen >= len(self._members):
            return found
        for member in self._members.values():
            try:
                text, _ = self._sample_bytes(member, ("scores", "score"))
            except (DamagedMember, DamagedDocument):
                continue  # said when it is read
            add_judges(found, _strictly(text, _scores_only))
        return found

    def samples(self) -> Iterator[tuple[int, str, InspectSample]]:
        for line, (stem, member) in enumerate(self._members.items(), 1):
            self._file.lines = line
            place = f"!{visible(member.name)}"
            try:
                text, missed = self._sample_bytes(member, _WANTED)
            except (DamagedMember, DamagedDocument) as damage:
                self._file.refuse(str(damage), line, place)
                continue
            for key in missed:
                self._file.note("F027", key, line, place)
            sample = _sample_of(self._file, text, line, place)
            if sample is not None:
                yield line, place, self._with_chunks(stem, sample) if member.name.endswith("/sample.json") else sample

    def _sample_bytes(self, member: ZipMember, wanted: Sequence[str]) -> tuple[bytes, list[str]]:
        """Return a sample; of one that is longer than a record may be, what is wanted, and what of that is missing."""
        if member.size <= self._file.max_line:
            return self._zip.read(member, self._file.max_line), []
        return _members_of(JsonDocument(self._zip.chunks(member), self._file.max_line), wanted)

    def _with_chunks(self, stem: str, sample: InspectSample) -> InspectSample:
        """Add what a sample in chunks has in members of its own; of its messages the first ones, which are asked."""
        if sample.metadata is None and (text := self._bytes(f"{stem}/metadata.json")):
            sample.metadata = _strictly(text, _objects)
        if not sample.messages and (text := self._bytes(f"{stem}/messages/0.json")):
            sample.messages = _strictly(text, _message_lists) or []
            attached = self._bytes(f"{stem}/attachments/0.json") if _ATTACHED.encode() in text else None
            values = _strictly(attached, msgspec.json.Decoder(list[Any])) if attached else None
            sample.attachments = {str(number): value for number, value in enumerate(values or [])}
        return sample

    def summaries(self) -> Iterator[InspectSample]:
        """Yield the summaries of all samples, or those of the journal where the run did not come to its end."""
        if SUMMARIES in self._zip.members:
            yield from self._listed(SUMMARIES, _samples)
            return
        journal = {int(found[1]): name for name in self._zip.members if (found := _JOURNAL.fullmatch(name))}
        for number in sorted(journal):
            yield from self._listed(journal[number], _samples)

    def _listed(self, name: str, decoder: msgspec.json.Decoder[_S], *, quietly: bool = False) -> Iterator[_S]:
        """Yield the items of a member that is a list, as far as it goes."""
        member = self._zip.members.get(name)
        if member is None:
            return
        problem = ""
        try:
            for part in JsonDocument(self._zip.chunks(member), self._file.max_line).items():
                found = _strictly(part.text, decoder)
                if found is not None:
                    yield found
                else:
                    problem = "an item cannot be read"
        except (DamagedMember, DamagedDocument) as damage:
            problem = str(damage)
        if problem and not quietly:
            self._file.note("F002", f"{clip(visible(name), 80)}: {problem}")

    def reductions(self) -> list[Reduction]:
        text = self._bytes(REDUCTIONS)
        return [] if text is None else _strictly(text, _reductions) or []


def _sample_members(archive: ZipMembers) -> dict[str, ZipMember]:
    """Return the members that are samples, in the order of the directory; of one in two shapes the later counts."""
    found: dict[str, ZipMember] = {}
    for member in archive.every:
        match = _SAMPLE.fullmatch(member.name)
        if match is not None:
            found.pop(match[1], None)
            found[match[1]] = member
    return found


def sample_names(path: str) -> tuple[str, ...]:
    stat = Path(path).stat()
    return _sample_names_in(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _sample_names_in(path: str, *_: int) -> tuple[str, ...]:
    """Return the names of the members that are samples; none if a file is no log in an archive."""
    with Path(path).open("rb") as file:
        if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            return ()
    try:
        with ZipMembers(path, path) as archive:
            known = _HEADER in archive.members or _START in archive.members
            return tuple(one.name for one in _sample_members(archive).values()) if known else ()
    except FaircountError:
        return ()


class _Contents(Struct):
    """What a document holds besides the text of its samples."""

    header: dict[str, bytes] = field(default_factory=dict)
    places: list[tuple[int, int, str]] = field(default_factory=list)
    """Of each sample the byte where it begins, its length, and what is wrong with it."""
    judges: dict[str, bool] = field(default_factory=dict)
    reductions: bytes = b""
    damage: str = ""


@lru_cache(maxsize=2)
def _contents(path: str, longest: int, *_: int) -> _Contents:
    """Go through a document once; it is read several times, and its state on the disk is part of the call."""
    found = _Contents()
    with Path(path).open("rb") as file:
        try:
            document = JsonDocument(iter(lambda: file.read(_CHUNK), b""), longest)
            for key in document.members():
                if key == "samples":
                    for part in document.items():
                        found.places.append((part.offset, len(part.text), part.problem))
                        add_judges(found.judges, _strictly(part.text, _scores_only))
                elif key == "reductions":
                    found.reductions = document.value().text
                elif key in _OF_HEADER:
                    found.header[key] = document.value().text or b"null"
            document.end()
        except DamagedDocument as damage:
            found.damage = str(damage)
    return found


class InspectDocument(Log):
    """A log that is one JSON document. Its samples are found first, and read again one at a time."""

    def __init__(self, file: ToolFile, path: str) -> None:
        self._file = file
        state = Path(path).stat()
        self._found = _contents(path, file.max_line, state.st_ino, state.st_mtime_ns, state.st_size)
        self._bytes = Path(path).open("rb")  # noqa: SIM115  closed when the reading ends
        text = _object_of(self._found.header)
        self.header = _strictly(text, _headers) or file.decode(text, _headers, 0) or Header()

    def __enter__(self) -> InspectDocument:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.close()

    def judges(self) -> dict[str, bool]:
        return dict(self._found.judges)

    def samples(self) -> Iterator[tuple[int, str, InspectSample]]:
        for line, (offset, size, problem) in enumerate(self._found.places, 1):
            self._file.lines = line
            place = f"!samples/{line}"
            self._bytes.seek(offset)
            if problem:
                self._file.refuse(problem, line, place)
            elif (sample := _sample_of(self._file, self._bytes.read(size), line, place)) is not None:
                yield line, place, sample
        if self._found.damage:
            self._file.note("F002", f"the document is damaged: {self._found.damage}", self._file.lines)

    def reductions(self) -> list[Reduction]:
        return _strictly(self._found.reductions, _reductions) or [] if self._found.reductions else []
