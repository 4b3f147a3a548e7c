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
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct, field

from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.findings import Notes
from faircount.core.model import Source, ToolFigure
from faircount.core.text import clip, visible
from faircount.io.files import is_local_folder, read_range
from faircount.io.streams import (
    ContentHash,
    Stream,
    file_of,
    is_compressed,
    is_stored,
    is_utf16,
    open_bytes,
    raw_chunks,
    split_member,
)
from faircount.ledger.schema import Batch, Fields
from faircount.readers.rows import ReadOptions

if TYPE_CHECKING:
    from faircount.components.factory import Registry
    from faircount.readers.run_rows import RunFile

GROUP = "faircount.readers"
_RUNS_NAMED = 10
HEAD_BYTES = 64 * 1024
"""So much of a file is looked at to recognise it."""


class ReadAs(Struct, frozen=True):
    """What the user says of files that they do not say themselves."""

    aim: str | None = None
    format: str | None = None
    """The name of a reader, or of a map of columns in a configuration file."""
    columns: tuple[str, ...] = ()
    """Which column of a table has which role, as `role=column`."""
    threshold: float | None = None
    """From which score on an attempt is a success."""
    run: str | None = None
    """The run that is meant, of several in a file."""


_read_as: dict[str, ReadAs] = {}


def set_read_as(path: str, read_as: ReadAs | None) -> None:
    """Let a file be read as the user says, also when its texts are read again; None changes nothing."""
    if read_as == ReadAs():
        _read_as.pop(path, None)
    elif read_as is not None:
        _read_as[path] = read_as


def read_as_of(path: str) -> ReadAs:
    """Return what the user says of a file."""
    return _read_as.get(path) or ReadAs()


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
    figures: tuple[ToolFigure, ...] = ()
    differs: tuple[str, ...] = ()
    keep: Any = None
    """A `Keep`: which rows `--where` wants; None where it wants all of them."""

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
    several_runs: ClassVar[bool] = False
    """Whether a file may hold several runs, which are read apart: `file/run`."""
    fields: ClassVar[Fields] = Fields()

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is of this format."""
        raise NotImplementedError

    def help_wanted(self, probe: Probe) -> str:
        """Return what the user has to say of a file that may be of this format; nothing where it is not."""
        del probe
        return ""

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a stream in bounded batches, and count in `found` what became of its lines."""
        raise NotImplementedError

    def version(self, found: Found) -> str | None:
        """Return which version of the tool wrote the file, as far as it shows."""
        return found.version

    def runs(self, stream: Stream) -> list[str]:
        """Return the names of the runs in a file, where there may be several."""
        del stream
        return []

    def place(self, path: str, line: int) -> str:
        """Return where a row of a file is, for people."""
        return f"{path}:{line}"

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
            figures=found.figures,
            differs=found.differs,
        )


TABLE = "table"
_BUILT_IN: tuple[tuple[str, bytes | None, str], ...] = (
    ("run journal", b'"kind"', "faircount.readers.journal_reader:RunJournalReader"),
    ("REBEL report", b'"test_cases"', "faircount.readers.rebel_reports:RebelReader"),
    ("rejudged run", b'"rejudged_run"', "faircount.readers.rejudged_runs:RejudgedReader"),
    ("garak", b'"entry_type"', "faircount.readers.garak:GarakReader"),
    ("garak hit log", b'"attempt_id"', "faircount.readers.garak:HitLogReader"),
    ("promptfoo", b'"promptIdx"', "faircount.readers.promptfoo:PromptfooReader"),
    ("promptfoo", b'"version"', "faircount.readers.promptfoo:PromptfooReader"),
    ("promptfoo", b"eval_results", "faircount.readers.promptfoo:PromptfooReader"),
    ("inspect", b'"eval"', "faircount.readers.inspect_logs:InspectReader"),
    ("inspect", b"PK\x03\x04", "faircount.readers.inspect_logs:InspectReader"),
    ("PyRIT", b"SQLite format 3\x00", "faircount.readers.pyrit:PyritReader"),
    ("PyRIT export", b'"conversation_id"', "faircount.readers.pyrit:PyritExportReader"),
    ("PyRIT export", b"id,role,conversation_id,", "faircount.readers.pyrit:PyritExportReader"),
    ("JailbreakBench", b'"jailbreaks"', "faircount.readers.jailbreak_benchmarks:JailbreakBenchReader"),
    ("HarmBench", b'"test_case"', "faircount.readers.jailbreak_benchmarks:HarmBenchReader"),
    ("DeepEval", b'estCases"', "faircount.readers.deepeval:DeepEvalReader"),
    ("DeepEval", b"metric_data", "faircount.readers.deepeval:DeepEvalReader"),
    ("DeepTeam", b'"overview"', "faircount.readers.deepeval:DeepTeamReader"),
    ("lm-eval", b'"doc_id"', "faircount.readers.lm_eval:LmEvalReader"),
    ("OpenAI evals", b'"spec"', "faircount.readers.openai_evals:OpenAIEvalsReader"),
    ("AgentDojo", b'"pipeline_name"', "faircount.readers.agentdojo:AgentDojoReader"),
    (TABLE, None, "faircount.readers.tables:TableReader"),
    ("spikee", b'"id"', "faircount.readers.spikee:SpikeeReader"),
)
"""Our readers by name, each with bytes that the head of every file of its format has: others are not even imported.

The reader of tables takes what no other claims.
"""
_OF_FOLDERS = ("faircount.readers.agentdojo:AgentDojoReader",)
"""Readers of formats in which a folder is the run."""
_loaded: dict[str, Reader] = {}


def _built_in(place: str) -> Reader:
    if place not in _loaded:
        module, _, name = place.partition(":")
        _loaded[place] = getattr(importlib.import_module(module), name)()
    return _loaded[place]


def reader_named(name: str) -> Reader:
    """Return the reader of a format that was read, perhaps long ago; where it is gone, the default one."""
    return _known(name) or default_reader()


def default_reader() -> Reader:
    """Return the reader of files that nobody recognises: it says of every line why it cannot be read."""
    return _built_in(_BUILT_IN[-1][-1])


def recognise(probe: Probe, shown: str, *, offered: bool = True) -> Reader:
    """Return the reader of a file. Of files that are none of ours, other packages are asked if that is wanted."""
    said = read_as_of(shown)
    if said.format is not None and (known := _known(said.format)) is not None:
        return known
    if said.columns or said.format is not None:
        return reader_named(TABLE)
    if probe.path and is_local_folder(probe.path):
        readers = [_built_in(place) for place in _OF_FOLDERS]
    else:
        readers = [_built_in(place) for _, word, place in _BUILT_IN if word is not None and word in probe.head]
    claims = [reader for reader in dict.fromkeys(readers) if reader.sniff(probe)]
    # Rows with an id and a verdict are anybody's: whoever knows more of a file goes before.
    claims = [reader for reader in claims if reader is not default_reader()] or claims
    if offered and not claims and probe.head.strip():
        claims = [reader for reader in _offered() if reader.sniff(probe)]
    if len(claims) > 1:
        names = " and ".join(reader.name for reader in claims)
        raise InputError(f"{shown}: recognised as {names}; it can be only one of them")
    if claims:
        return claims[0]
    if refusal := not_read(probe.head):
        raise InputError(f"{shown}: {refusal}")
    table = reader_named(TABLE)
    if offered and probe.head.strip() and table.sniff(probe):
        return table
    if offered and (reason := table.help_wanted(probe)):
        raise InputError(f"{shown}: {reason}")
    return default_reader()


def is_run_folder(path: str) -> bool:
    """Return whether a folder is one run, and not a folder of result files."""
    return any(_built_in(place).sniff(Probe(b"", path)) for place in _OF_FOLDERS)


def format_names() -> list[str]:
    """Return the names of the formats that are built in."""
    return list(dict.fromkeys(name for name, *_ in _BUILT_IN))


def _known(name: str) -> Reader | None:
    """Return our reader of this name, or that of an installed package."""
    own = next((_built_in(place) for known, _, place in _BUILT_IN if known.casefold() == name.casefold()), None)
    return own or next((reader for reader in _offered() if reader.name == name), None)


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
    stream = _opened(path, name, content)
    return stream, recognise(Probe(head_of(stream), path), name)


def _opened(path: str, name: str, content: ContentHash | None = None) -> Stream:
    stream = open_bytes(path, name, content)
    stream.read_as = read_as_of(name)
    if stream.read_as.run is not None:
        stream.only_run = stream.read_as.run
    return stream


def runs_in(path: str) -> dict[str, str | None]:
    """Return the paths of the runs that a path means, those of a file that holds several, each with its run's name.

    A run is named behind its file, `eval.json/weak-bot`; what a path cannot hold of a name is left out of it.
    """
    file, member = split_member(path)
    if not is_stored(file):
        return {path: None}
    try:
        stream, reader = open_source(file, file)
        runs = reader.runs(stream) if reader.several_runs else []
    except FaircountError:  # it is raised again when the file is read
        return {path: None}
    paths: dict[str, str | None] = {}
    for run in runs:
        name = "/".join(part for part in run.split("/") if part not in ("", ".")) or "(no name)"
        again = sum(known == f"{file}/{name}" or known.startswith(f"{file}/{name}#") for known in paths)
        paths[f"{file}/{name}#{again + 1}" if again else f"{file}/{name}"] = run
    if member is None:
        return paths if len(paths) > 1 else {path: None}
    if f"{file}/{member}" not in paths:
        known = ", ".join(clip(visible(one.removeprefix(f"{file}/")), 60) for one in list(paths)[:_RUNS_NAMED])
        raise InputError(f"{file}: holds no run called {visible(member)}; its runs: {known or 'only one'}")
    return {path: paths[f"{file}/{member}"]}


def open_stream(
    path: str, name: str, content: ContentHash | None = None, *, lines: Collection[int] | None = None
) -> Stream:
    """Open a file to get the texts of its rows, one JSON object per line; `lines` says which of them are wanted."""
    stream = _opened(path, name, content)
    head = head_of(stream)
    reader = recognise(Probe(head, path), name)
    once = not is_stored(path) or is_compressed(path)
    stream.run = reader.rows(stream, head, None if once else lambda: raw_chunks(path, name))
    if stream.run is not None:
        stream.run.wanted = lines
    return stream


def reads_ranges(path: str) -> bool:
    """Return whether a file can be read from anywhere: lines that stand by themselves, as they are on the disk."""
    reader = plain_reader(path)
    return reader is not None and reader.ranges


def expands_to_rows(path: str) -> bool:
    """Return whether a file has to be decompressed and then holds lines that stand by themselves."""
    try:
        return is_compressed(path) and open_source(path, path)[1].ranges
    except (OSError, InputError, UsageError):
        return False


def lines_are_rows(path: str) -> bool:
    """Return whether the lines of a file are rows in JSON, as they are on the disk."""
    reader = plain_reader(path)
    return reader is not None and reader.ranges and reader.lines_are_rows


def plain_reader(path: str) -> Reader | None:
    """Return who reads a file as it is on the disk; None if it has to be decompressed, or nobody can read it."""
    try:
        head = read_range(file_of(path), 0, HEAD_BYTES)
        if is_compressed(path) or is_utf16(head):
            return None
        return recognise(Probe(head, path), path)
    except (OSError, InputError):
        return None


# -- files that are known and not read --------------------------------------------------------------------------

_NOT_READ: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"evalId:.*\n"),
        "this is a promptfoo result file in YAML, which is not read; export JSON: promptfoo export eval ID -o x.json",
    ),
    (
        re.compile(rb"(?>[^\n]*?,Status,Score,Named Scores,)(?=[^\n]*,Grader Reason,Comment\b)"),
        "this is a promptfoo table, in which errors and grader failures look like verdicts; export JSON: promptfoo "
        "export eval ID -o x.json",
    ),
    (
        # A task with an alias, or with a value by metric and filter.
        re.compile(rb'\s*\{\s*"results"\s*:\s*\{\s*"(?:[^"\\]|\\.)*+"\s*:\s*\{[^{}]*?"(?:alias|[^"\\,]+,[^"\\]+)"\s*:'),
        "this is a results file of lm-eval, which holds aggregates without the samples behind them; give the samples "
        "file beside it, samples_<task>_<time>.jsonl (lm-eval --log_samples)",
    ),
    (
        re.compile(rb"[\s\S]{8}DUCK"),
        "this is a DuckDB database, such as PyRIT kept up to 0.8, which is not read; export the conversations as JSON",
    ),
    (
        re.compile(rb'\s*\{"class_name":\s*"(?=[^\n]*?"scorer_type":)(?=[^\n]*?"metrics":\s*\{)'),
        "these are PyRIT's metrics of its scorers, which hold no results: `faircount judges rank` and --judge-quality "
        "take them; to analyse results, give PyRIT's memory (.db) or an export of its conversations",
    ),
)
"""Files by how they begin, and what to do instead."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?(\s*:)?|[{}\[\]]')
_DEPTH = 2


def not_read(start: bytes) -> str:
    """Return what a file is that is known and not read, and what to do instead, by its first bytes; else nothing."""
    return next((reason for pattern, reason in _NOT_READ if pattern.match(start)), "")


def keys_of(start: bytes) -> frozenset[str]:
    """Return the keys of the first object in a text, which may break off; `a.b` is one of the object under a."""
    try:
        first = msgspec.json.decode(start.partition(b"\n")[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
