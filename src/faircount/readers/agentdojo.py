"""Reads the runs of AgentDojo (0.1.35 and before): a folder with one JSON file for each task that an agent was given.

A file has two verdicts. `security` says that the injected instruction was carried out, whatever its name suggests:
it decides where the aim is attacks. `utility` says that the user's task was done: it decides where the aim is tasks. A
file of a run is a row on its line 1; the rows of a folder are in the order of the names of its files. Files are only
read: no pipeline, attack or task that they name is loaded. Links to folders are not followed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from faircount.core.errors import InputError
from faircount.core.model import ToolFigure
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument, JsonDocument
from faircount.io.files import is_local_folder
from faircount.io.lenient_json import BadLine
from faircount.io.streams import Stream, open_bytes, split_member
from faircount.ledger.schema import Fields
from faircount.readers.registry import HEAD_BYTES, Probe, keys_of
from faircount.readers.run_rows import error_text, plausible_seconds
from faircount.readers.tool_records import ATTACK, TASK, ToolFile, ToolReader, ToolRecord, digest_of

SECURITY, UTILITY = "security", "utility"
NOT_FINISHED = "AgentDojo was interrupted and wrote no verdict"
CONTROLS = "injection tasks run as user tasks, which are controls"
WITHOUT_ATTACK = "tasks without an attack (counted with --aim task)"

_KEYS = frozenset({"suite_name", "pipeline_name", "user_task_id", "messages"})
_NONE = (None, "", "none")
_JSON_SUFFIXES = (".json", ".json.gz", ".json.zst")
_DATA_SUFFIXES = (".jsonl", ".eval", ".csv", ".tsv", ".xlsx", ".parquet", ".db", ".sqlite", ".sqlite3", ".duckdb")
"""A folder with such a file in it is a folder of result files, whatever its subfolders hold."""
_FOLDERS_LOOKED_INTO, _NAMES_LOOKED_AT, _FILES_LOOKED_AT = 64, 512, 8
"""So much of a folder is looked at to recognise it."""
_FOLDERS_KEPT = 64
_LONGEST_ID = 160


class _Task(Struct, gc=False):
    """As much of a file as is counted or shown."""

    suite_name: str
    user_task_id: str
    pipeline_name: str | None = None
    injection_task_id: str | None = None
    attack_type: str | None = None
    messages: list[Any] | None = None
    error: Any = None
    utility: Any = None
    security: Any = None
    duration: Any = None
    benchmark_version: str | None = None
    agentdojo_package_version: str | None = None

    @property
    def is_control(self) -> bool:
        """Whether the injected instruction is the user's task: it shows that the agent can carry it out."""
        return self.user_task_id.startswith("injection_task")

    @property
    def is_attacked(self) -> bool:
        """Whether something was injected; without that AgentDojo writes `security` true, which means nothing."""
        return self.injection_task_id not in _NONE

    @property
    def attack(self) -> str:
        """The attack as AgentDojo names folders."""
        return self.attack_type if self.attack_type and self.is_attacked else "none"

    @property
    def entry(self) -> str:
        """The same in the next run of the same suite."""
        injected = [self.injection_task_id or "", self.attack] if self.is_attacked else []
        name = "/".join([self.suite_name, self.user_task_id, *injected])
        return name if len(name) <= _LONGEST_ID else f"{name[:_LONGEST_ID]}-{digest_of(name)}"


_decoder = msgspec.json.Decoder(_Task)


class _Average(Struct):
    """What AgentDojo's averages over one suite and attack are made of, errors included, as AgentDojo has them."""

    tasks: int = 0
    useful: int = 0
    attacked: int = 0
    carried_out: int = 0
    useful_errors: int = 0
    """Errors that are counted in the average of utility, as failures."""
    carried_out_errors: int = 0
    """Errors that are counted in the average of security, as successful attacks."""

    def add(self, task: _Task, *, failed: bool) -> None:
        if isinstance(task.utility, bool):
            self.tasks += 1
            self.useful += task.utility
            self.useful_errors += failed and not task.utility
        if isinstance(task.security, bool) and task.is_attacked:
            self.attacked += 1
            self.carried_out += task.security
            self.carried_out_errors += failed and task.security


class AgentDojoReader(ToolReader):
    """Reads folders that AgentDojo wrote, and single files of them."""

    name = tool = "AgentDojo"
    noun = "AgentDojo task"
    aim = ATTACK
    several_runs = True
    of_models = True
    fields = Fields(
        first=("suite_name", "attack_type", "injection_task_id"),
        facets=("suite_name", "attack_type", "user_task_id", "injection_task_id", "benchmark_version", "target"),
        family=("user task",),
        others_on_request=True,
    )

    def __init__(self) -> None:
        self._listings: dict[str, list[str]] = {}

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is one of AgentDojo's, or one of the first files in a folder and below is."""
        if not probe.head and is_local_folder(probe.path):
            return not _holds_other_data(probe.path) and any(
                keys_of(_head(path)) >= _KEYS for path in islice(_first_files(probe.path), _FILES_LOOKED_AT)
            )
        return keys_of(probe.head) >= _KEYS

    def place(self, path: str, line: int) -> str:
        """Return the file that a row of a folder is, and its only line."""
        if not is_local_folder(path):
            return f"{path}:{line}"
        files = self._listings.get(path) or self._listed(path)
        return f"{path.rstrip('/')}/{files[line - 1]}:1" if 0 < line <= len(files) else f"{path}:{line}"

    def runs(self, stream: Stream) -> list[str]:
        """Return the subfolders of a folder, where each of them is another pipeline's, as AgentDojo writes them."""
        folder, _ = split_member(stream.path)
        if not is_local_folder(folder):
            return []
        files = self._listed(folder)
        first: dict[str, str] = {}
        for name in files:
            first.setdefault(name.partition("/")[0], name)
        if any("/" not in name for name in first.values()):
            return []
        pipelines = [_member(f"{folder}/{name}", "pipeline_name") for name in first.values()]
        return list(first) if None not in pipelines and len({*pipelines}) == len(first) else []

    def _listed(self, folder: str) -> list[str]:
        """Return the JSON files of a folder as it is now; where rows are is known by their order."""
        files = _files_in(folder)
        self._listings.pop(folder, None)
        if len(self._listings) >= _FOLDERS_KEPT:
            self._listings.pop(next(iter(self._listings)))
        self._listings[folder] = files
        return files

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each file of a folder that has a place in a rate, in the order of their names."""
        folder, _ = split_member(file.stream.path)
        averages: dict[tuple[str, str, str], _Average] = {}
        if is_local_folder(folder):
            names = self._listed(folder)
            file.aim = file.read_as.aim or (ATTACK if any(_is_attacked(f"{folder}/{one}") for one in names) else TASK)
            tasks = self._tasks_in(file, folder, names)
        else:
            tasks = self._only_task(file)
        pipelines: dict[str, None] = {}
        for line, place, task in tasks:
            if file.version is None:
                file.version = task.agentdojo_package_version
            pipeline = task.pipeline_name or ""
            pipelines[pipeline] = None
            file.target = pipeline if pipeline and len(pipelines) == 1 else None
            error = None if task.error is False else error_text(task.error)
            key = (pipeline, task.suite_name, CONTROLS if task.is_control else task.attack)
            averages.setdefault(key, _Average()).add(task, failed=error is not None)
            if task.is_control:
                file.note("F047", CONTROLS, line, place)
            elif file.aim == ATTACK and not task.is_attacked:
                file.note("F047", WITHOUT_ATTACK, line, place)
            elif error is None and task.utility is None and task.security is None:
                file.note("F034", NOT_FINISHED, line, place)
            else:
                yield _record(file, task, error, line, place)
        _add_figures(file, averages)

    def _tasks_in(self, file: ToolFile, folder: str, names: Sequence[str]) -> Iterator[tuple[int, str, _Task]]:
        """Yield what the files of a folder hold, with their numbers and places."""
        with file.on_disk():
            for line, name in enumerate(names, start=1):
                file.lines, place = line, f"/{name}:1"
                try:
                    stream = open_bytes(f"{folder}/{name}", name)
                    text = _whole(stream, file.max_line)
                except (InputError, BadLine) as problem:
                    file.refuse(str(problem).removeprefix(f"{name}: "), line, place)
                    continue
                file.stream.bytes_read += stream.bytes_read
                task = file.decode(text, _decoder, line, place)
                if task is not None:
                    yield line, place, task

    def _only_task(self, file: ToolFile) -> Iterator[tuple[int, str, _Task]]:
        """Yield what a single file holds."""
        file.lines = 1
        try:
            text = _whole(file.stream, file.max_line)
        except BadLine as problem:
            file.refuse(str(problem), 1)
            return
        task = file.decode(text, _decoder, 1) if text.strip() else None
        if task is not None:
            file.aim = file.read_as.aim or (ATTACK if task.is_attacked else TASK)
            yield 1, "", task


# -- a task as a record -----------------------------------------------------------------------------------------


def _record(file: ToolFile, task: _Task, error: str | None, line: int, place: str) -> ToolRecord:
    judge = SECURITY if file.aim == ATTACK else UTILITY
    names = (SECURITY, UTILITY) if file.aim == ATTACK else (UTILITY,)
    said: dict[str, bool | None] = {}
    for name in names:
        value = getattr(task, name)
        said[name] = value if isinstance(value, bool) else None
        if value is not None and said[name] is None:
            file.note("F004", f"{name} that is neither true nor false", line, place)
    if error is not None and said[judge] is not None:
        file.note("F046", f"it writes {judge} {'true' if said[judge] else 'false'}", line, place)
    messages, response = _conversation(task.messages or [])
    return ToolRecord(
        line=line,
        entry=task.entry,
        family=f"{task.suite_name}/{task.user_task_id}",
        messages=messages,
        response=response if error is None else None,
        error=error,
        success=said[judge],
        verdicts=tuple(Verdict(Decision.of(value), judge=name) for name, value in said.items()),
        judge=judge,
        seconds=plausible_seconds(task.duration),
        target=task.pipeline_name,
        run=task.pipeline_name or "",
        fields={
            "suite_name": task.suite_name,
            "attack_type": task.attack,
            "user_task_id": task.user_task_id,
            "injection_task_id": task.injection_task_id if task.is_attacked else "none",
            "benchmark_version": task.benchmark_version,
        },
    )


def _conversation(messages: Sequence[Any]) -> tuple[list[dict[str, str]], str]:
    """Return what was said before the last answer, and that answer; calls of tools stand in place of an empty one."""
    turns: list[dict[str, str]] = []
    every_call: list[str] = []
    answer = ""
    known = [one for one in messages if isinstance(one, dict)]
    for number, message in enumerate(known, start=1):
        role, text = str(message.get("role")), _text(message.get("content"))
        listed = message.get("tool_calls")
        calls = [_call(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        every_call += calls
        if number == len(known) and role == "assistant":
            answer = text
        else:
            turns.append({"role": role, "content": "\n".join(filter(None, [text, *calls]))})
    return turns, answer or "\n".join(every_call)


def _text(content: Any) -> str:
    """Return the text of a message: plain up to 2024, a list of blocks since."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, dict):
        return next((text for key in ("content", "text") if isinstance(text := content.get(key), str)), "")
    return content if isinstance(content, str) else ""


def _call(call: Mapping[str, Any]) -> str:
    """Return a call of a tool in one line."""
    given = call.get("args")
    said = given.items() if isinstance(given, dict) else ()
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in said)
    return f"{call.get('function')}({arguments})"


# -- AgentDojo's own figures ------------------------------------------------------------------------------------


def _add_figures(file: ToolFile, averages: Mapping[tuple[str, str, str], _Average]) -> None:
    """Add the averages that AgentDojo prints for each suite and attack, and say where ours differ."""
    several = [len({key[part] for key in averages}) > 1 for part in (0, 1)]
    for (pipeline, suite, attack), one in averages.items():
        of = ", ".join([*([pipeline] if several[0] else []), *([suite] if several[1] else [])])
        if attack == CONTROLS:
            name = ", ".join(filter(None, ["Injection tasks as user tasks", of]))
            file.figures.append(_share(name, one.useful, one.tasks))
            continue
        of = ", ".join(filter(None, [of, "no attack" if attack == "none" else attack]))
        file.figures.append(_share(f"Average utility, {of}", one.useful, one.tasks))
        if one.attacked:
            file.figures.append(_share(f"Average security, {of}", one.carried_out, one.attacked))
        if file.aim == ATTACK and one.carried_out_errors:
            file.differs.append(
                f"AgentDojo reports an average security of {_percent(one.carried_out, one.attacked)} for {of}; "
                f"{one.carried_out_errors:,} of those {one.carried_out:,} ended in an error, which it counts as an "
                "attack that worked."
            )
        if file.aim == TASK and one.useful_errors:
            file.differs.append(
                f"AgentDojo reports an average utility of {_percent(one.useful, one.tasks)} for {of}; "
                f"{one.useful_errors:,} of the other {one.tasks - one.useful:,} ended in an error, which it counts as "
                "a task not done."
            )


def _share(name: str, count: int, n: int) -> ToolFigure:
    return ToolFigure(name, count / n if n else None, count=count, n=n)


def _percent(count: int, n: int) -> str:
    return f"{count / n:.1%} ({count:,} of {n:,})"


# -- folders ----------------------------------------------------------------------------------------------------


def _entries(folder: str, most: int | None = None) -> tuple[list[str], list[str]]:
    """Return the files and the subfolders of a folder by name, without hidden ones."""
    files, folders = [], []
    with os.scandir(folder) as found:
        for entry in islice(found, most):
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file():
                files.append(entry.name)
    return sorted(files), sorted(folders)


def _is_json(name: str) -> bool:
    return name.lower().endswith(_JSON_SUFFIXES)


def _files_in(folder: str) -> list[str]:
    """Return the JSON files in a folder and below, in an order that does not depend on the system."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            files, folders = _entries(f"{folder}/{below}")
        except OSError as error:
            raise InputError(f"{folder}/{below}: cannot be read: {error.strerror or error}") from error
        found += [below + name for name in files if _is_json(name)]
        waiting += [f"{below}{name}/" for name in folders]
    return sorted(found, key=lambda name: name.split("/"))


def _first_files(folder: str) -> Iterator[str]:
    """Yield JSON files in a folder and below; of a large tree only some folders are looked into."""
    waiting, looked = [folder], 0
    while waiting and looked < _FOLDERS_LOOKED_INTO:
        here, looked = waiting.pop(), looked + 1
        try:
            files, folders = _entries(here, _NAMES_LOOKED_AT)
        except OSError:
            continue
        yield from (f"{here}/{name}" for name in files if _is_json(name))
        waiting += [f"{here}/{name}" for name in reversed(folders)]


def _holds_other_data(folder: str) -> bool:
    try:
        files, _ = _entries(folder, _NAMES_LOOKED_AT)
    except OSError:
        return True
    plain = (name.lower().removesuffix(".gz").removesuffix(".zst") for name in files)
    return any(name.endswith(_DATA_SUFFIXES) for name in plain)


def _head(path: str) -> bytes:
    try:
        head = b""
        for chunk in open_bytes(path, path).chunks:
            head += chunk
            if len(head) >= HEAD_BYTES:
                break
    except InputError:
        return b""
    return head[:HEAD_BYTES]


def _whole(stream: Stream, longest: int) -> bytes:
    """Return all of a file that is not too long."""
    pieces, size = [], 0
    for chunk in stream.chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > longest:
            raise BadLine(f"longer than {longest:,} bytes")
    if stream.truncated:
        raise BadLine(stream.truncated)
    return b"".join(pieces)


def _member(path: str, key: str) -> str | None:
    """Return a text of the object in a file; None where there is none, or the file cannot be read."""
    try:
        document = JsonDocument(open_bytes(path, path).chunks)
        for name in document.members():
            if name == key:
                return msgspec.json.decode(document.value().text, type=str)
    except (InputError, DamagedDocument, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return None


def _is_attacked(path: str) -> bool:
    return _member(path, "injection_task_id") not in _NONE
