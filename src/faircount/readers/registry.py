"""How result files are read: one `Reader` for each format, recognised by what a file holds, whatever it is called.

A new format is one module with a subclass of `Reader`, and one line: in `_BUILT_IN`, or an entry point of the group
`faircount.readers`. A reader gets bytes and hands out batches for the ledger and notes about lines; it never executes
what it reads about, and never writes another tool's format.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct, field

from faircount.core.errors import InputError
from faircount.core.findings import Notes
from faircount.core.model import Source
from faircount.io.streams import STDIN, ContentHash, Stream, is_compressed, is_utf16, open_bytes, raw_chunks
from faircount.ledger.schema import Batch, Fields
from faircount.readers.rows import ReadOptions

if TYPE_CHECKING:
    from faircount.components.factory import Registry
    from faircount.readers.run_rows import RunFile

GROUP = "faircount.readers"
HEAD_BYTES = 64 * 1024
"""So much of a file is looked at to recognise it."""


class Probe(Struct, frozen=True):
    """What a reader sees of a file to recognise it: its first bytes, decompressed, and its name."""

    head: bytes
    path: str = ""


Keep = Callable[[bytes, Any, int], bool]
"""Returns whether a row is wanted, by its line, what was read of it, and its number."""


class Found(Struct):
    """What reading a source found beside its rows: counts of its lines, what is odd, and what it says of itself."""

    notes: Notes
    lines: int = 0
    good: int = 0
    bad: int = 0
    blank: int = 0
    anchors: list[tuple[int, int]] = field(default_factory=list)
    """Lines from time to time, each with the byte offset at which it can be found again."""
    targets: set[str | None] = field(default_factory=set)
    """What the rows say that they were sent to."""
    seen: set[str] = field(default_factory=set)
    """Fields by which the version of the tool is known."""
    version: str | None = None
    target: str | None = None
    tool: str = ""
    aim: str = ""
    stop_rule: str = ""
    keep: Keep | None = None
    """Which rows `--where` wants; None where it wants all of them."""

    def excludes(self, number: int) -> bool:
        """Return whether a row that is not a line of its own is not wanted, and count it."""
        if self.keep is None or self.keep(b"", None, number):
            return False
        self.exclude(number)
        return True

    def exclude(self, number: int) -> None:
        """Count a row that is not wanted."""
        self.good += 1
        self.notes.add("F029", "", number)

    def add_run(self, run: RunFile) -> None:
        """Take over what a file of a run says of itself."""
        self.tool, self.version, self.aim, self.target = run.tool, run.version, run.aim, run.target
        self.stop_rule, self.blank = run.stop_rule, run.blank_lines
        self.targets.clear()
        for problem in run.problems:
            self.notes.add(*problem)

    def add_bad(self, reason: str, line: int) -> None:
        """Count a line that could not be read."""
        self.bad += 1
        self.notes.add("F001", reason, line)

    def absorb(self, later: Found) -> None:
        """Add what the next range of the source gave, whose lines were counted from 1."""
        self.notes.absorb(later.notes, self.lines)
        self.anchors += [(line + self.lines, offset) for line, offset in later.anchors]
        self.lines += later.lines
        self.good += later.good
        self.bad += later.bad
        self.blank += later.blank
        self.targets |= later.targets
        self.seen |= later.seen


class Reader:
    """Reads one format. Subclasses say how it is recognised, and turn its bytes into batches of rows."""

    name: ClassVar[str]
    """How the format is called in reports and documents."""
    tool: ClassVar[str]
    """The tool that writes it."""
    noun: ClassVar[str] = "result"
    """What a line, or another unit of it, is called in a message."""
    aim: ClassVar[str] = "attack"
    """`attack` where a success is bad news, `task` where it is good news."""
    ranges: ClassVar[bool] = False
    """Whether every line can be read by itself, so that several processes can share a file."""
    lines_are_rows: ClassVar[bool] = False
    """Whether a line of the file is a row in JSON, so that `--where` can look into it."""
    has_denominator: ClassVar[bool] = True
    """Whether a file holds all that was tried; one that holds only successes is evidence, and gives no rate."""
    of_models: ClassVar[bool] = False
    """Whether files are never those of guardrails, so that an empty answer is the answer of a model."""
    version_by_fields: ClassVar[bool] = False
    """Whether the version of the tool is a guess from the fields that rows have."""
    detected_as_true: ClassVar[tuple[str, ...]] = ()
    """Versions of the tool in whose files a boolean guardrail's true may mean that it detected an attack."""
    fields: ClassVar[Fields] = Fields()

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is of this format."""
        raise NotImplementedError

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a stream in bounded batches, and count in `found` what became of its lines."""
        raise NotImplementedError

    def version(self, found: Found) -> str | None:
        """Return which version of the tool wrote the file, as far as it shows."""
        return found.version

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give the texts of its rows, one JSON object per line; None where its lines are rows already.

        `again` opens the file a second time, where that can be done.
        """
        del stream, head, again
        return None

    def source(self, found: Found, size: int) -> Source:
        """Return what was read."""
        named = next(iter(found.targets)) or None if len(found.targets) == 1 else None
        return Source(
            path=found.notes.name,
            tool=found.tool or self.tool,
            tool_version=self.version(found),
            reader=self.name,
            lines=found.lines,
            good_lines=found.good,
            bad_lines=found.bad,
            blank_lines=found.blank,
            bytes=size,
            aim=found.aim or self.aim,
            target=found.target or named,
            stop_rule=found.stop_rule,
        )


_BUILT_IN = (
    ("run journal", b'"kind"', "faircount.readers.journal_reader:RunJournalReader"),
    ("REBEL report", b'"test_cases"', "faircount.readers.rebel_reports:RebelReader"),
    ("rejudged run", b'"rejudged_run"', "faircount.readers.rejudged_runs:RejudgedReader"),
    ("garak", b'"entry_type"', "faircount.readers.garak:GarakReader"),
    ("garak hit log", b'"attempt_id"', "faircount.readers.garak:HitLogReader"),
    ("spikee", b'"id"', "faircount.readers.spikee:SpikeeReader"),
)
"""Our readers by name, each with bytes that the head of every file of its format has: others are not even imported."""
_loaded: dict[str, Reader] = {}


def _built_in(place: str) -> Reader:
    if place not in _loaded:
        module, _, name = place.partition(":")
        _loaded[place] = getattr(importlib.import_module(module), name)()
    return _loaded[place]


def reader_named(name: str) -> Reader:
    """Return the reader of a format that was read, perhaps long ago; where it is gone, the default one."""
    own = next((_built_in(place) for known, _, place in _BUILT_IN if known == name), None)
    return own or next((reader for reader in _offered() if reader.name == name), default_reader())


def default_reader() -> Reader:
    """Return the reader of files that nobody recognises: it says of every line why it cannot be read."""
    return _built_in(_BUILT_IN[-1][-1])


def recognise(probe: Probe, shown: str, *, offered: bool = True) -> Reader:
    """Return the reader of a file. Of files that are none of ours, other packages are asked if that is wanted."""
    readers = [_built_in(place) for _, word, place in _BUILT_IN if word in probe.head]
    claims = [reader for reader in readers if reader.sniff(probe)]
    if offered and not claims and probe.head.strip():
        claims = [reader for reader in _offered() if reader.sniff(probe)]
    if len(claims) > 1:
        names = " and ".join(reader.name for reader in claims)
        raise InputError(f"{shown}: recognised as {names}; it can be only one of them")
    if claims and claims[0] is not default_reader():
        return claims[0]
    if tool := other_tool(probe.head):
        raise InputError(f"{shown}: this is {tool}, which Faircount does not read yet")
    return default_reader()


def _offered() -> list[Reader]:
    """Return the readers of installed packages; of one that cannot be loaded, `broken_readers` says why."""
    found = [offered.kind for offered in offers().every() if offered.kind is not None]
    return [_loaded.setdefault(f"{kind.__module__}:{kind.__qualname__}", kind()) for kind in found]


def broken_readers() -> list[str]:
    """Return what is wrong with readers of installed packages that cannot be used."""
    return [f"{one.name} of {one.package}: {one.error}" for one in offers().every() if one.kind is None]


def offers() -> Registry[Reader]:
    """Return what installed packages offer to read."""
    from faircount.components.factory import Registry

    return Registry(GROUP, Reader, "a reader")


def head_of(stream: Stream) -> bytes:
    """Return the beginning of a stream; it is still given."""
    start, chunks = b"", stream.chunks
    while len(start) < HEAD_BYTES and (chunk := next(chunks, None)) is not None:
        start += chunk
    stream.chunks = chain([start], chunks)
    return start[:HEAD_BYTES]


def open_source(path: str, name: str, content: ContentHash | None = None) -> tuple[Stream, Reader]:
    """Open a file, or standard input for `-`, and find out who reads it."""
    stream = open_bytes(path, name, content)
    return stream, recognise(Probe(head_of(stream), path), name)


def open_stream(
    path: str, name: str, content: ContentHash | None = None, *, lines: Collection[int] | None = None
) -> Stream:
    """Open a file to get the texts of its rows, one JSON object per line; `lines` says which of them are wanted."""
    stream = open_bytes(path, name, content)
    head = head_of(stream)
    reader = recognise(Probe(head, path), name)
    once = path == STDIN or not Path(path).is_file() or is_compressed(path)
    stream.run = reader.rows(stream, head, None if once else lambda: raw_chunks(path, name))
    if stream.run is not None:
        stream.run.wanted = lines
    return stream


def reads_ranges(path: str) -> bool:
    """Return whether a file can be read from anywhere: lines that stand by themselves, as they are on the disk."""
    reader = plain_reader(path)
    return reader is not None and reader.ranges


def lines_are_rows(path: str) -> bool:
    """Return whether the lines of a file are rows in JSON, as they are on the disk."""
    reader = plain_reader(path)
    return reader is not None and reader.ranges and reader.lines_are_rows


def plain_reader(path: str) -> Reader | None:
    """Return who reads a file as it is on the disk; None if it has to be decompressed, or nobody can read it."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD_BYTES)
        if is_compressed(path) or is_utf16(head):
            return None
        return recognise(Probe(head, path), path)
    except (OSError, InputError):
        return None


# -- files of tools that are not read yet -----------------------------------------------------------------------
# Recognised by how they begin, never by their name.

_BY_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a promptfoo result file", frozenset({"promptIdx", "testIdx", "vars", "success"})),
    ("a promptfoo result file", frozenset({"results", "results.version"})),
    ("an inspect log", frozenset({"version", "status", "eval"})),
    ("an lm-eval sample file", frozenset({"doc_id", "doc", "target", "resps"})),
    ("an lm-eval result file", frozenset({"results", "configs"})),
    ("an lm-eval result file", frozenset({"results", "group_subtasks"})),
    ("a PyRIT export", frozenset({"conversation_id", "role", "converted_value"})),
    ("a PyRIT file of scorer metrics", frozenset({"class_name", "hash", "metrics"})),
    ("a DeepEval test run", frozenset({"testCases"})),
    ("a DeepEval test run", frozenset({"conversationalTestCases"})),
    ("a DeepEval test run", frozenset({"testRunData"})),
    ("a DeepTeam risk assessment", frozenset({"overview", "test_cases"})),
    ("an AgentDojo run", frozenset({"suite_name", "pipeline_name", "user_task_id", "messages"})),
    ("a JailbreakBench artifact", frozenset({"parameters", "jailbreaks"})),
    ("an OpenAI evals log", frozenset({"spec", "spec.eval_name"})),
)
"""What a file is whose first object has all of these keys; `a.b` is the key b of the object under a."""

_BY_START: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("an inspect log", re.compile(rb"PK\x03\x04(?=[\s\S]*(?:header\.json|_journal/start\.json))")),
    ("a promptfoo database", re.compile(rb"SQLite format 3\0(?=[\s\S]*eval_results)")),
    ("a PyRIT database", re.compile(rb"SQLite format 3\0(?=[\s\S]*PromptMemoryEntries)")),
    ("a DeepEval database", re.compile(rb"SQLite format 3\0(?=[\s\S]*metric_data)")),
    ("a DuckDB database, such as PyRIT keeps", re.compile(rb"[\s\S]{8}DUCK")),
    ("a promptfoo result file in YAML", re.compile(rb"evalId:.*\n")),
    ("a promptfoo table", re.compile(rb"(?>[^\n]*?,Status,Score,Named Scores,)(?=[^\n]*,Grader Reason,Comment\b)")),
    ("a PyRIT export", re.compile(rb"id,role,conversation_id,sequence,timestamp,")),
    ("a HarmBench result file", re.compile(rb'\{\s*"[^"]*":\s*\[\s*\{\s*"test_case":(?=[\s\S]*"generation":)')),
)

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?(\s*:)?|[{}\[\]]')
_DEPTH = 2


def other_tool(start: bytes) -> str | None:
    """Return what a file of another tool's is, by its first bytes, or None."""
    for what, pattern in _BY_START:
        if pattern.match(start):
            return what
    if start.lstrip()[:1] not in (b"{", b"["):
        return None
    keys = keys_of(start)
    return next((what for what, needed in _BY_KEYS if needed <= keys), None)


def keys_of(start: bytes) -> frozenset[str]:
    """Return the keys of the first object in a text, which may break off; `a.b` is one of the object under a."""
    try:
        first = msgspec.json.decode(start.partition(b"\n")[0])
    except (msgspec.DecodeError, RecursionError):
        return frozenset(_scanned(start))
    if isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, dict):
        return frozenset()
    nested = (f"{key}.{name}" for key, value in first.items() if isinstance(value, dict) for name in value)
    return frozenset({*first, *nested})


def _scanned(start: bytes) -> Iterator[str]:
    """Yield the keys of the first object, of which perhaps only the beginning is there."""
    path: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(start):
        text = token[0]
        if text in (b"{", b"["):
            # A list of objects has no key of its own: its objects are looked into as if each stood alone.
            depth += 0 if text == b"[" and not depth else 1
        elif text in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return
        elif token[1] is not None and 1 <= depth <= _DEPTH:
            name = text.rpartition(b'"')[0][1:].decode("utf-8", "replace")
            path = [*path[: depth - 1], name]
            yield ".".join(path)
