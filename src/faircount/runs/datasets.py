"""From dataset files to the entries that are run: read, named, chosen, drawn, and each with its judge.

What cannot be used is counted and told with its place, and everything else is run. No code is loaded that a file names.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, KeysView, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from faircount.core.errors import InputError, UsageError
from faircount.core.patterns import SlowPattern
from faircount.core.text import clip, visible
from faircount.io.lenient_json import MAX_DEPTH, BadLine
from faircount.io.records import Records, Sha256, all_fields, holds_records, without_suffixes
from faircount.query import parse
from faircount.readers.label_types import DataProblem, DataProblemKind, DataProblems
from faircount.readers.registry import Probe, default_reader, recognise
from faircount.runs.cases import AttackCase, Case, Chosen
from faircount.runs.dataset_choice import RANDOM_SEED, DatasetChoice, settled
from faircount.runs.dataset_columns import CONTENT_TYPE, DatasetColumns, checked_roles, find_columns
from faircount.runs.dataset_judges import EntryJudges, judged_by
from faircount.runs.dataset_prompts import Prompts, prompts_of
from faircount.runs.discovery import NAME_MARK
from faircount.runs.sampling import drawn, read_seed, sample_size
from faircount.runs.selecting import select

if TYPE_CHECKING:
    from faircount.components.factory import Context

__all__ = ["DatasetChoice", "are_datasets", "choose_entries", "is_dataset", "settled"]

LONGEST_ROW = 8 * 1024 * 1024
"""A row stands in the record of its case, twice and with everything but ASCII escaped; records have a limit."""

_ROW = all_fields(once=("id", "content", "text", "prompt", "judge_args"), finite=True, max_depth=MAX_DEPTH - 8)
_SHARED_VALUES = 4000
_LONGEST_NAME = 200
_REASONS_TOLD = 5
_PLACES_TOLD = 3


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


def choose_entries(choice: DatasetChoice, setting: Context) -> Chosen:
    """Return the entries that are meant, as cases.

    A seed that is to be random is drawn here; `settled` draws it before, so that the choice can be made again.
    InputError: a file cannot be read, or holds nothing that can be used.
    """
    _check(choice)
    choice = settled(choice)
    with _without_collecting():
        return _choose(choice, setting)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Let Python not look for garbage, while many objects are made of which none is any: that takes a quarter less."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _choose(choice: DatasetChoice, setting: Context) -> Chosen:
    entries = _Entries(choice)
    cases, chosen_notes = _chosen(choice, entries)
    if choice.sample is not None:
        size = sample_size(choice.sample, len(cases))
        chosen_notes.append(f"a sample of {size:,} of {_counted(len(cases))}, drawn with seed {choice.sample_seed}")
        cases = drawn(cases, choice.sample, choice.sample_seed)
    judged = _judged(choice, setting, cases, entries.doubts)
    if not judged:
        raise InputError(_nothing(choice.paths, entries.doubts))
    return Chosen(tuple(judged), tuple(entries.files), (*entries.notes(), *chosen_notes))


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


def _chosen(choice: DatasetChoice, entries: _Entries) -> tuple[Sequence[Case], list[str]]:
    cases: Sequence[Case] = entries.cases
    if not cases:
        raise InputError(_nothing(choice.paths, entries.doubts))
    if choice.where is not None:
        cases = _where(choice.where, cases)
    selected = select(cases, choice.selection)
    return selected.cases, list(selected.notes)


def _where(text: str, cases: Sequence[Case]) -> list[Case]:
    query = parse(text)
    found = []
    for case in cases:
        said: dict[str, object] = {}
        if query.computed:
            file, _, line = case.place.rpartition(":")
            said = {"file": file, "line": int(line)}
        try:
            if query.matches(case.fields, said):
                found.append(case)
        except SlowPattern as error:
            raise InputError(f"{case.place}: --where: {error}; use a simpler pattern, or contains") from None
    if not found:
        raise UsageError(f"--where {clip(visible(text), 200)} selects none of {_counted(len(cases))}")
    return found


def _judged(choice: DatasetChoice, setting: Context, cases: Sequence[Case], doubts: DataProblems) -> Sequence[Case]:
    if choice.judge is not None:
        return judged_by(choice.judge, setting, cases)
    if not choice.needs_judge:
        return cases
    return EntryJudges(setting).judged(
        cases, lambda case, reason: doubts.add(DataProblemKind.BAD_LINE, reason, visible(case.place))
    )


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


class _Rows:
    """The rows of one file, all of them in memory, and the SHA-256 of the file.

    Nothing of a row is lost or chosen here. What repeats itself from row to row is kept once: names of columns, and
    values that came before.
    """

    def __init__(self, path: str, doubts: DataProblems) -> None:
        self._shared: dict[tuple[str, ...], _SharedValues] = {}
        name, digest = visible(path), Sha256()
        records = Records(path, _ROW, doubts.of_records(name), name=name, max_line=LONGEST_ROW, digest=digest)
        if recognise(Probe(records.head, path), name, offered=False) is not default_reader():
            raise InputError(
                f"{name}: holds the results of a run, not a dataset; "
                "`faircount results extract` makes a dataset from it"
            )
        self.rows = [self._row(line, fields) for line, fields in records]
        self.names = tuple(dict.fromkeys(name for names in self._shared for name in names))
        self._shared.clear()
        self.sha256 = digest.hexdigest()

    def _row(self, line: int, fields: dict[str, Any]) -> tuple[int, tuple[str, ...], tuple[Any, ...]]:
        """Return a row: its line, the names of its columns, and its values in their order."""
        names = tuple(fields)
        shared = self._shared.get(names)
        if shared is None:
            shared = self._shared[names] = _SharedValues(names)
        return line, shared.names, shared.values(list(fields.values()))


# -- from rows to cases -----------------------------------------------------------------------------------------


class _File(NamedTuple):
    """A dataset file as it was given, and the entries that are wanted of it (none: all)."""

    path: str
    names: tuple[str, ...]


class _Entries:
    """The entries of all files, in their order, without judges; `doubts` says what is not among them."""

    def __init__(self, choice: DatasetChoice) -> None:
        self.doubts = DataProblems()
        self.files: list[tuple[str, str]] = []
        self.cases: list[Case] = []
        self._attempts = choice.attempts
        self._notes: list[str] = []
        self._names = _Names()
        mapped = checked_roles(choice.columns)
        for file in self._given(choice.paths):
            rows = _Rows(file.path, self.doubts)
            self.files.append((file.path, rows.sha256))
            if rows.rows:
                columns = find_columns(visible(file.path), rows.names, mapped)
                self._notes += [columns.note] if columns.note else []
                self._add(file, rows, columns)

    def notes(self) -> Iterator[str]:
        """Yield what is to be said of the files."""
        yield from self._notes
        yield from _told(self.doubts)
        yield from self._names.notes()

    def _given(self, paths: Sequence[str]) -> list[_File]:
        """Return each file once; where it is given as a whole, names in it no longer matter."""
        found: dict[str, _File] = {}
        for given in paths:
            path, _, name = given.partition(NAME_MARK)
            names = (name,) if name else ()
            before = found.get(os.path.realpath(path))
            if before is None:
                found[os.path.realpath(path)] = _File(path, names)
                continue
            if not name or not before.names:
                self._notes.append(f"{visible(given)}: given more than once, read once")
            joined = tuple(dict.fromkeys((*before.names, *names))) if name and before.names else ()
            found[os.path.realpath(path)] = before._replace(names=joined)
        return list(found.values())

    def _add(self, file: _File, rows: _Rows, columns: DatasetColumns) -> None:
        stem, name = _stem(file.path), visible(file.path)
        plans: dict[tuple[str, ...], _Plan] = {}
        wanted, missing = set(file.names), set(file.names)
        rows.rows.reverse()
        while rows.rows:  # each row is given up once it is a case: memory holds them once
            line, names, values = rows.rows.pop()
            if names not in plans:
                plans[names] = _plan(names, columns)
            place = f"{name}:{line}"
            try:
                prompts, own = _prompts_and_name(values, plans[names])
            except BadLine as reason:
                self.doubts.add(DataProblemKind.BAD_LINE, str(reason), place)
                continue
            called = self._names.given(own, stem, line)
            if wanted and called not in wanted:
                continue
            missing.discard(called)
            fields = EntryFields(plans[names].places, values)
            self.cases.append(
                AttackCase(
                    name=called,
                    messages=prompts.messages,
                    metrics=(),
                    attempts=self._attempts,
                    place=place,
                    fields=fields,
                    turns=prompts.turns,
                )
            )
        for one in sorted(missing):
            raise InputError(f"{name}: no entry named {visible(one)}")


class _Plan(NamedTuple):
    """Where rows with the same columns have what an entry is made of; `places` are those of all fields."""

    places: Places
    content_type: int | None
    prompt: tuple[int, ...]
    system: int | None
    id: int | None


def _plan(names: Sequence[str], columns: DatasetColumns) -> _Plan:
    own = {name: place for place, name in enumerate(names)}
    # A column that has a role stands there by its own name, and by that of its role.
    places = own | {name: own[column] for name, column in columns.fields if column in own}
    return _Plan(
        places=places,
        content_type=places.get(CONTENT_TYPE),
        prompt=tuple(own[name] for name in columns.prompt if name in own),
        system=None if columns.system is None else own.get(columns.system),
        id=None if columns.id is None else own.get(columns.id),
    )


def _prompts_and_name(values: Sequence[Any], plan: _Plan) -> tuple[Prompts, str | None]:
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
    if plan.system is not None:
        prompts = _with_system(prompts, values[plan.system])
    return prompts, None if plan.id is None else _name_of(values[plan.id])


def _with_system(prompts: Prompts, system: Any) -> Prompts:
    if system is None or system == "":
        return prompts
    if not isinstance(system, str):
        raise BadLine("the system message is not a string")
    return Prompts(({"role": "system", "content": system}, *prompts.messages), prompts.turns)


# -- names ------------------------------------------------------------------------------------------------------


class _Names:
    """The names of entries: each is there once, and can be shown and typed."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: dict[str, int] = {}
        self._repeated: list[str] = []
        self._by_line: list[str] = []
        self._counts = [0, 0]

    def given(self, own: str | None, stem: str, line: int) -> str:
        """Return the name of an entry by its id, or else by its line; a second one of a name is called name#2."""
        name = f"{stem}:{line}" if own is None else own
        if own is None:
            self._count(0, self._by_line, name)
        if name in self._taken:
            wanted = name
            while name in self._taken:
                self._times[wanted] = self._times.get(wanted, 1) + 1
                name = f"{wanted}#{self._times[wanted]}"
            self._count(1, self._repeated, name)
        self._taken.add(name)
        return name

    def notes(self) -> Iterator[str]:
        """Yield what is to be said of names."""
        by_line, repeated = self._counts
        if by_line:
            yield f"no id, named by file and line: {_counted(by_line)} ({_some(self._by_line, by_line)})"
        if repeated:
            yield f"repeated id, numbered: {_counted(repeated)} ({_some(self._repeated, repeated)})"

    def _count(self, kind: int, examples: list[str], name: str) -> None:
        self._counts[kind] += 1
        if len(examples) < _PLACES_TOLD:
            examples.append(name)


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


def _stem(path: str) -> str:
    return _made_safe(without_suffixes(PurePath(path).name))


# -- what is said -----------------------------------------------------------------------------------------------

_WORDS = {
    DataProblemKind.BAD_LINE: "left out",
    DataProblemKind.CHANGED_TEXT: "lone surrogates were replaced",
    DataProblemKind.WRONG_KIND: "changed",
}


def _told(doubts: DataProblems) -> Iterator[str]:
    told = doubts.told()
    for doubt in told[:_REASONS_TOLD]:
        reason = f", {doubt.reason}" if doubt.reason else ""
        yield f"{_WORDS.get(doubt.kind, doubt.kind.value)}{reason}: {_places_of(doubt)}"
    more = sum(doubt.count for doubt in told[_REASONS_TOLD:])
    if more:
        yield f"left out or changed for other reasons: {_counted(more)}"


def _places_of(doubt: DataProblem) -> str:
    return _some(doubt.places, doubt.count)


def _some(examples: Sequence[str], count: int) -> str:
    told = ", ".join(examples[:_PLACES_TOLD])
    more = count - min(count, _PLACES_TOLD, len(examples))
    return f"{told} and {more:,} more" if more else told


def _nothing(paths: Sequence[str], doubts: DataProblems) -> str:
    reasons = list(_told(doubts))
    where = ", ".join(map(visible, paths[:_PLACES_TOLD])) + (", …" if len(paths) > _PLACES_TOLD else "")
    return "\n".join([f"{where}: no runnable entries", *(f"  {reason}" for reason in reasons)])


def _counted(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
