"""From dataset files to the entries that are run: read, named, chosen, drawn, and each with its judge.

What cannot be used is counted and reported with its place, and everything else is run. No code that a file names is
loaded.
"""

from __future__ import annotations

import gc
import os
import secrets
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.patterns import SlowPattern
from faircount.core.text import clip, visible
from faircount.io import columns
from faircount.io.columns import ID_NAMES, ColumnFinder, Mapped, Role, plain
from faircount.io.lenient_json import MAX_DEPTH, BadLine
from faircount.io.records import Records, Sha256, all_fields, holds_records, without_suffixes
from faircount.query.parser import parse
from faircount.readers.label_types import DataProblemKind, DataProblems
from faircount.readers.registry import Probe, default_reader, recognise
from faircount.readers.result_rows import CASE_FACETS
from faircount.runs.cases import AttackCase, Case, RunCases, Selection, draw_sample, read_seed, sample_size, select
from faircount.runs.metrics import EntryJudges, judged_by
from faircount.runs.test_files import NAME_MARK

if TYPE_CHECKING:
    from faircount.components.factory import Context

DEFAULT_SEED = "42"
RANDOM_SEED = "random"


class DatasetChoice(Struct, frozen=True):
    """Which files, which of their entries, and how they are judged.

    `judge` is an expression and judges all entries; without it each entry's own judge does. `columns` are roles and the
    columns that have them. `attempts` is up to how often each entry is tried. Without `needs_judge` the target itself
    says whether an attempt succeeded. `where` is a query about the fields of an entry.
    """

    paths: tuple[str, ...]
    judge: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    sample: str | None = None
    sample_seed: str = DEFAULT_SEED
    attempts: int = 1
    selection: Selection = field(default_factory=Selection)
    needs_judge: bool = True
    where: str | None = None


def with_drawn_seed(choice: DatasetChoice) -> DatasetChoice:
    """Return a choice that is the same whenever it is made: a seed that is to be random is drawn."""
    if choice.sample is None or choice.sample_seed != RANDOM_SEED:
        return choice
    return replace(choice, sample_seed=str(secrets.randbits(32)))


# -- columns: as asked for, as rows of results have them, or as names suggest -------------------------------------


PROMPT, ID, SYSTEM, JUDGE, JUDGE_ARGS = "prompt", "id", "system", "judge", "judge_args"
CONTENT_TYPE = "content_type"
PROMPT_NAMES = (
    *("prompt", "text", "content", "input", "question", "instruction", "goal", "behavior", "behaviour", "query"),
    *("request", "objective", "user_prompt", "user_input", "message", "messages", "conversation", "turns"),
)
SYSTEM_NAMES = ("system_message", "system_prompt", "system")
_PROMPTS_OF_ROWS = ("content", "text")
"""Where datasets whose entries are made as rows of results have the prompt: newer ones, and older ones."""
_MARKS_OF_ROWS = frozenset(["long_id", "judge_name", "judge_args", CONTENT_TYPE, "jailbreak_type", "instruction_type"])
_FIELD = {ID: "id", SYSTEM: "system_message", JUDGE: "judge_name", JUDGE_ARGS: "judge_args"}
"""Under which name a role stands among the fields of an entry."""
FIELD_ROLES = (
    *(facet for facet in CASE_FACETS if facet not in _FIELD.values()),
    *("long_id", "payload", "steering_keywords", "exclude_from_transformations_regex"),
)
"""Fields of rows that any column can be taken for."""
_ROLES = (PROMPT, *_FIELD, *FIELD_ROLES)
_NAMES_OF_ROLES = {
    **{role: role for role in _ROLES},
    "content": PROMPT,
    "text": PROMPT,
    "system_message": SYSTEM,
    "judge_name": JUDGE,
}
_GUESSED = (
    Role(ID, ID_NAMES, any_of_rank=True),
    Role(SYSTEM, (SYSTEM_NAMES,)),
    Role(JUDGE, (("judge_name",),), any_of_rank=True),
    Role(JUDGE_ARGS, (("judge_args",),), any_of_rank=True),
)
_PROMPT = Role(PROMPT, (PROMPT_NAMES,), "contains prompts")


class DatasetColumns(Struct, frozen=True):
    """Which columns of a file have which role. `prompt`: the first of them that an entry has is its prompt.

    `fields` are names under which columns stand among the fields of an entry beside their own. `note` says what was
    guessed, and is empty where nothing was.
    """

    prompt: tuple[str, ...]
    id: str | None
    system: str | None
    fields: tuple[tuple[str, str], ...]
    note: str = ""


def read_map(texts: Sequence[str]) -> Mapped:
    """Return what `--map ROLE=COLUMN` asks for; an empty column means that the file has none for the role."""
    return checked_roles(columns.read_map(texts, _NAMES_OF_ROLES))


def checked_roles(pairs: Iterable[tuple[str, str]]) -> Mapped:
    """Return roles as they are called here, with their columns; UsageError where there is no such role."""
    mapped = columns.checked_map(pairs, _NAMES_OF_ROLES)
    if (PROMPT, "") in mapped:
        raise UsageError("--map prompt=: without a prompt there is nothing to send; name its column")
    return mapped


def find_columns(path: str, names: Sequence[str], mapped: Mapped) -> DatasetColumns:
    """Choose the columns of a file by the names that it has; UsageError where they do not decide."""
    finder, asked = ColumnFinder(path, names), dict(mapped)
    roles = {role: finder.named(Role(role), column) for role, column in mapped if column}
    prompt: tuple[str, ...]
    if PROMPT in roles:
        prompt = (roles.pop(PROMPT),)
    elif any(name in names for name in _PROMPTS_OF_ROWS) and not _MARKS_OF_ROWS.isdisjoint(names):
        prompt = tuple(name for name in _PROMPTS_OF_ROWS if name in names)
    else:
        guessed = finder.guess(_PROMPT)
        if guessed is None:
            raise finder.missing(_PROMPT)
        prompt = (guessed,)
    roles |= {role.name: column for role in _GUESSED if role.name not in asked and (column := finder.guess(role))}
    # What is called as in rows of results needs no word.
    guesses = [
        f"{'system message' if role == SYSTEM else role} ({clip(visible(column), 60)})"
        for role, column in finder.guessed.items()
        if plain(column) != plain(_FIELD.get(role, ""))
    ]
    return DatasetColumns(
        prompt,
        roles.get(ID),
        roles.get(SYSTEM),
        tuple((_FIELD.get(role, role), column) for role, column in roles.items()),
        f"{path}: columns used: {', '.join(guesses)}" if guesses else "",
    )


# -- prompts: a text, several turns, or a conversation ------------------------------------------------------------


Message = Mapping[str, Any]

_SPEAKERS = ("system", "developer", "user", "assistant")
_MOST_TURNS = 1000


class Prompts(NamedTuple):
    """The messages of the first request, and what the user says afterwards, once each was answered."""

    messages: tuple[Message, ...]
    turns: tuple[str, ...] = ()


def prompts_of(content: Any) -> Prompts:
    """Return what is sent for a content. BadLine: nothing can be.

    A list of texts, or of messages of the user, is sent turn by turn. A list with messages of the assistant is a
    conversation as it stood: it is sent whole, and its last message must be the user's.
    """
    if isinstance(content, str):
        if not content.strip():
            raise BadLine("the prompt is empty")
        return Prompts(({"role": "user", "content": content},))
    if isinstance(content, list):
        return _conversation(content)
    if content is None:
        raise BadLine("there is no prompt")
    raise BadLine("the prompt is neither a string nor a list of turns")


def _conversation(content: Sequence[Any]) -> Prompts:
    if not content:
        raise BadLine("the prompt is an empty list")
    if len(content) > _MOST_TURNS:
        raise BadLine(f"the prompt has more than {_MOST_TURNS:,} turns")
    messages = tuple(_message(value, number) for number, value in enumerate(content, start=1))
    roles = [message["role"] for message in messages]
    if "user" not in roles:
        raise BadLine("the prompt has no user message")
    if "assistant" in roles:
        if roles[-1] != "user":
            raise BadLine(f"the conversation ends with a message from the {roles[-1]}, not from the user")
        return Prompts(messages)
    first = roles.index("user")
    if roles.count("user") != len(roles) - first:
        raise BadLine("a system message comes after a user message")
    return Prompts(messages[: first + 1], tuple(message["content"] for message in messages[first + 1 :]))


def _message(value: Any, number: int) -> Message:
    role: Any = "user"
    text: Any = value
    if isinstance(value, str):
        pass
    elif isinstance(value, dict) and "role" in value:
        role, text = value["role"], value.get("content")
    else:
        raise BadLine(f"turn {number} of the prompt is neither a string nor a message with role and content")
    if role not in _SPEAKERS:
        raise BadLine(f"turn {number} of the prompt has the role {clip(visible(str(role)), 40)}")
    if not isinstance(text, str) or not text.strip():
        raise BadLine(f"turn {number} of the prompt has no text")
    return {"role": role, "content": text}


# -- choosing entries ---------------------------------------------------------------------------------------------


LONGEST_ROW = 8 * 1024 * 1024
"""A row stands in the record of its case, twice and with everything but ASCII escaped; records have a limit."""

_ROW = all_fields(once=("id", "content", "text", "prompt", "judge_args"), finite=True, max_depth=MAX_DEPTH - 8)
_SHARED_VALUES = 4000
_LONGEST_NAME = 200
_MOST_REASONS = 5
_MOST_PLACES = 3


def is_dataset(path: str) -> bool:
    """Return whether a path of `run` names a dataset, and not a file or folder of tests: by how its name ends."""
    return holds_records(path.partition(NAME_MARK)[0])


def are_datasets(paths: Sequence[str]) -> bool:
    """Return whether paths name datasets. UsageError: some do and some do not."""
    datasets = [path for path in paths if is_dataset(path)]
    others = [path for path in paths if not is_dataset(path)]
    if datasets and others:
        raise UsageError(
            f"{visible(datasets[0])} is a dataset and {visible(others[0])} contains tests; run one or the other"
        )
    return bool(datasets)


def choose_entries(choice: DatasetChoice, context: Context) -> RunCases:
    """Return the entries that are meant, as cases.

    A seed that is to be random is drawn here; `settled` draws it before, so that the choice can be made again.
    InputError: a file cannot be read, or holds nothing that can be used.
    """
    _check(choice)
    enabled = gc.isenabled()
    # Many objects are made of which none is garbage: not to look for any takes a quarter less.
    gc.disable()
    try:
        return _choose(with_drawn_seed(choice), context)
    finally:
        if enabled:
            gc.enable()


def _choose(choice: DatasetChoice, context: Context) -> RunCases:
    entries = _Entries(choice)
    cases: Sequence[Case] = entries.cases
    if not cases:
        raise InputError(_nothing(choice.paths, entries.doubts))
    if choice.where is not None:
        cases = _where(choice.where, cases)
    selected = select(cases, choice.selection)
    cases, notes = selected.cases, list(selected.notes)
    if choice.sample is not None:
        size = sample_size(choice.sample, len(cases))
        notes.append(f"a sample of {size:,} of {_counted(len(cases))}, drawn with seed {choice.sample_seed}")
        cases = draw_sample(cases, choice.sample, choice.sample_seed)
    if choice.judge is not None:
        cases = judged_by(choice.judge, context, cases)
    elif choice.needs_judge:
        cases = EntryJudges(context).judged(
            cases, lambda case, reason: entries.doubts.add(DataProblemKind.BAD_LINE, reason, visible(case.place))
        )
    if not cases:
        raise InputError(_nothing(choice.paths, entries.doubts))
    return RunCases(tuple(cases), tuple(entries.files), (*entries.notes(), *notes))


def _check(choice: DatasetChoice) -> None:
    if choice.attempts < 1:
        raise UsageError("--attempts must be 1 or more: it is the most attempts on an entry")
    if choice.selection.tags or choice.selection.exclude_tags:
        raise UsageError("entries of a dataset have no tags; select them by their fields with --where")
    if choice.sample is not None:
        sample_size(choice.sample, 10**12)
        if choice.sample_seed != RANDOM_SEED:
            read_seed(choice.sample_seed)
    if choice.where is not None and (unknown := parse(choice.where).computed - {"line", "file"}):
        raise UsageError(f"--where: {sorted(unknown)[0]} exists only in results; select entries by their fields")


def _where(text: str, cases: Sequence[Case]) -> list[Case]:
    query = parse(text)
    found = []
    for case in cases:
        computed: dict[str, object] = {}
        if query.computed:
            file, _, line = case.place.rpartition(":")
            computed = {"file": file, "line": int(line)}
        try:
            if query.matches(case.fields, computed):
                found.append(case)
        except SlowPattern as error:
            raise InputError(f"{case.place}: --where: {error}; use a simpler pattern, or contains") from None
    if not found:
        raise UsageError(f"--where {clip(visible(text), 200)} selects none of {_counted(len(cases))}")
    return found


# -- rows ----------------------------------------------------------------------------------------------------

Places = Mapping[str, int]
"""The names of columns, each with the place of its value."""


class EntryFields(Mapping[str, Any]):
    """What a dataset says of an entry. Entries with the same columns share the names of them."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Places, values: tuple[Any, ...]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return self._places.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return the names of the fields with their values."""
        values = self._values
        return {name: values[place] for name, place in self._places.items()}.items()

    def __repr__(self) -> str:
        return f"EntryFields({dict(self)!r})"


class _SharedValues:
    """Values that came before in the same column, so that each is kept once; a column that has too many is given up."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._rows = 0
        self._columns: list[tuple[int, dict[Any, Any]]] = [(place, {}) for place in range(len(names))]

    def values(self, values: list[Any]) -> tuple[Any, ...]:
        """Return the values of a row, those that came before as the very ones that came before."""
        self._rows += 1
        if self._rows % _SHARED_VALUES == 0:
            self._columns = [(place, seen) for place, seen in self._columns if 0 < len(seen) < _SHARED_VALUES // 2]
        for place, seen in self._columns:
            value = values[place]
            if type(value) is str:
                values[place] = seen.setdefault(value, value)
            elif type(value) is list and value and set(map(type, value)) == {str}:
                values[place] = seen.setdefault(tuple(value), value)
        return tuple(values)


_Row = tuple[int, tuple[str, ...], tuple[Any, ...]]
"""A line, the names of its columns, and its values in their order."""


def _read_rows(path: str, doubts: DataProblems) -> tuple[list[_Row], tuple[str, ...], str]:
    """Return the rows of a file, all of them in memory, the names of all columns, and the SHA-256 of the file.

    Nothing of a row is lost or chosen here. What repeats itself from row to row is kept once: names of columns, and
    values that came before.
    """
    name, digest = visible(path), Sha256()
    records = Records(path, _ROW, doubts.of_records(name), name=name, max_line=LONGEST_ROW, digest=digest)
    if recognise(Probe(records.head, path), name, offered=False) is not default_reader():
        raise InputError(
            f"{name}: holds the results of a run, not a dataset; `faircount results extract` makes a dataset from it"
        )
    shared: dict[tuple[str, ...], _SharedValues] = {}
    rows: list[_Row] = []
    for line, fields in records:
        names = tuple(fields)
        values = shared.get(names)
        if values is None:
            values = shared[names] = _SharedValues(names)
        rows.append((line, values.names, values.values(list(fields.values()))))
    return rows, tuple(dict.fromkeys(name for names in shared for name in names)), digest.hexdigest()


# -- from rows to cases -----------------------------------------------------------------------------------------


class _Entries:
    """The entries of all files, in their order, without judges; `doubts` says what is not among them."""

    def __init__(self, choice: DatasetChoice) -> None:
        self.doubts = DataProblems()
        self.files: list[tuple[str, str]] = []
        self.cases: list[Case] = []
        self._attempts = choice.attempts
        self._notes: list[str] = []
        self._names = _UniqueNames()
        mapped = checked_roles(choice.columns)
        for path, wanted in self._files(choice.paths):
            rows, names, sha256 = _read_rows(path, self.doubts)
            self.files.append((path, sha256))
            if rows:
                columns = find_columns(visible(path), names, mapped)
                self._notes += [columns.note] if columns.note else []
                self._add(path, wanted, rows, columns)

    def notes(self) -> Iterator[str]:
        """Yield what users should know of the files."""
        yield from self._notes
        yield from _notes_on(self.doubts)
        yield from self._names.notes()

    def _files(self, paths: Sequence[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return each file once, with the entries that are wanted of it (none: all)."""
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for given in paths:
            path, _, name = given.partition(NAME_MARK)
            real = os.path.realpath(path)
            names: tuple[str, ...] = (name,) if name else ()
            if real in found:
                path, before = found[real]
                if not names or not before:
                    self._notes.append(f"{visible(given)}: given more than once, read once")
                # Where a file is given as a whole, names in it no longer matter.
                names = tuple(dict.fromkeys((*before, *names))) if names and before else ()
            found[real] = path, names
        return found.values()

    def _add(self, path: str, names: Sequence[str], rows: list[_Row], columns: DatasetColumns) -> None:
        stem, file = _made_safe(without_suffixes(PurePath(path).name)), visible(path)
        plans: dict[tuple[str, ...], _RowPlan] = {}
        wanted, missing = set(names), set(names)
        rows.reverse()
        while rows:  # each row is given up once it is a case: memory holds them once
            line, own, values = rows.pop()
            if own not in plans:
                plans[own] = _row_plan(own, columns)
            place = f"{file}:{line}"
            try:
                prompts, name = _prompts_and_name(values, plans[own])
            except BadLine as reason:
                self.doubts.add(DataProblemKind.BAD_LINE, str(reason), place)
                continue
            called = self._names.unique(name, stem, line)
            if wanted and called not in wanted:
                continue
            missing.discard(called)
            self.cases.append(
                AttackCase(
                    name=called,
                    messages=prompts.messages,
                    metrics=(),
                    attempts=self._attempts,
                    place=place,
                    fields=EntryFields(plans[own].places, values),
                    turns=prompts.turns,
                )
            )
        for one in sorted(missing):
            raise InputError(f"{file}: no entry named {visible(one)}")


class _RowPlan(NamedTuple):
    """Where rows with the same columns have what an entry is made of; `places` are those of all fields."""

    places: Places
    content_type: int | None
    prompt: tuple[int, ...]
    system: int | None
    id: int | None


def _row_plan(names: Sequence[str], columns: DatasetColumns) -> _RowPlan:
    own = {name: place for place, name in enumerate(names)}
    # A column that has a role stands there by its own name, and by that of its role.
    places = own | {name: own[column] for name, column in columns.fields if column in own}
    return _RowPlan(
        places=places,
        content_type=places.get(CONTENT_TYPE),
        prompt=tuple(own[name] for name in columns.prompt if name in own),
        system=None if columns.system is None else own.get(columns.system),
        id=None if columns.id is None else own.get(columns.id),
    )


def _prompts_and_name(values: Sequence[Any], plan: _RowPlan) -> tuple[Prompts, str | None]:
    """Return what an entry sends and what it is called, if it is; BadLine: it cannot be used."""
    if plan.content_type is not None and values[plan.content_type] not in (None, "", "text"):
        kind = clip(visible(str(values[plan.content_type])), 40)
        raise BadLine(f"its content_type is {kind}; only text can be sent")
    content = None
    for place in plan.prompt:
        content = values[place]
        if content is not None:
            break
    prompts = prompts_of(content)
    system = None if plan.system is None else values[plan.system]
    if system is not None and system != "":
        if not isinstance(system, str):
            raise BadLine("the system message is not a string")
        prompts = Prompts(({"role": "system", "content": system}, *prompts.messages), prompts.turns)
    return prompts, None if plan.id is None else _name_of(values[plan.id])


# -- names ------------------------------------------------------------------------------------------------------


class _UniqueNames:
    """The names of entries: each is there once, and can be shown and typed."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: dict[str, int] = {}
        self._by_line = self._repeated = 0
        self._examples: tuple[list[str], list[str]] = [], []  # of those named by line, and of repeated ones

    def unique(self, own: str | None, stem: str, line: int) -> str:
        """Return the name of an entry by its id, or else by its line; a second one of a name is called name#2."""
        name = f"{stem}:{line}" if own is None else own
        if own is None:
            self._by_line += 1
            if self._by_line <= _MOST_PLACES:
                self._examples[0].append(name)
        if name in self._taken:
            wanted = name
            while name in self._taken:
                self._times[wanted] = self._times.get(wanted, 1) + 1
                name = f"{wanted}#{self._times[wanted]}"
            self._repeated += 1
            if self._repeated <= _MOST_PLACES:
                self._examples[1].append(name)
        self._taken.add(name)
        return name

    def notes(self) -> Iterator[str]:
        """Yield what users should know of names."""
        by_line, repeated = self._examples
        if by_line:
            yield f"no id, named by file and line: {_counted(self._by_line)} ({_some(by_line, self._by_line)})"
        if repeated:
            yield f"repeated id, numbered: {_counted(self._repeated)} ({_some(repeated, self._repeated)})"


def _name_of(value: Any) -> str | None:
    """Return an id as a name, None where there is none."""
    if type(value) is int:
        return _safe(str(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or value == "":
        return None
    if isinstance(value, bool | list | dict):
        raise BadLine("the id is neither a string nor a number")
    return _safe(str(value))


def _safe(name: str) -> str:
    return name if name.isascii() and name.isprintable() and len(name) <= _LONGEST_NAME else _made_safe(name)


def _made_safe(name: str) -> str:
    return clip(visible(name.strip() or name), _LONGEST_NAME)


# -- notes -----------------------------------------------------------------------------------------------

_WORDS = {
    DataProblemKind.BAD_LINE: "left out",
    DataProblemKind.CHANGED_TEXT: "lone surrogates were replaced",
    DataProblemKind.WRONG_KIND: "changed",
}


def _notes_on(doubts: DataProblems) -> Iterator[str]:
    listed = doubts.listed()
    for doubt in listed[:_MOST_REASONS]:
        reason = f", {doubt.reason}" if doubt.reason else ""
        yield f"{_WORDS.get(doubt.kind, doubt.kind.value)}{reason}: {_some(doubt.places, doubt.count)}"
    more = sum(doubt.count for doubt in listed[_MOST_REASONS:])
    if more:
        yield f"left out or changed for other reasons: {_counted(more)}"


def _some(examples: Sequence[str], count: int) -> str:
    shown = ", ".join(examples[:_MOST_PLACES])
    more = count - min(count, _MOST_PLACES, len(examples))
    return f"{shown} and {more:,} more" if more else shown


def _nothing(paths: Sequence[str], doubts: DataProblems) -> str:
    reasons = list(_notes_on(doubts))
    where = ", ".join(map(visible, paths[:_MOST_PLACES])) + (", …" if len(paths) > _MOST_PLACES else "")
    return "\n".join([f"{where}: no runnable entries", *(f"  {reason}" for reason in reasons)])


def _counted(count: int) -> str:
    return counted(count, "entry", "entries")
