"""A bench: every combination of the targets, datasets, judges and attacks in a TOML file, each as a run.

    output_folder = "results/release-4"

    [settings]                       # options of faircount run, for every run
    attempts = 2
    concurrency = 16

    [targets.small]                  # --target and what goes with it, by the names of the options
    target = "openai"
    model = "gpt-4o-mini"

    [targets.bot]
    target = {name = "./bot.py:answer", language = "de"}    # or "./bot.py:answer(language='de')"

    [datasets.injections]
    path = "injections.jsonl"

    [judges.strict]                  # may be left out: then each entry's own judge decides
    judge = "threshold(llm(rubric=\\"@rubric.txt\\"), at=0.7)"

    [attacks.none]                   # may be left out: then there is none
    [attacks.noise]
    attack = "best-of-n"
    attack_iterations = 20

    [variants.once]                  # may be left out: other settings that are tried side by side
    attempts = 1
    [variants.often]
    attempts = 5

    [[leave_out]]                    # combinations that are not run
    target = "bot"
    attack = "noise"

Every combination of a target, a dataset, a judge, an attack and a variant is a cell, and every cell is a run with a
journal of its own. Keys are the options of `faircount run`; a list repeats an option, and a table is written as JSON.
What a later table says goes before what an earlier one says: settings, dataset, judge, attack, variant, target. Secrets
have no place in it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.components.spec import Kind, read_spec, render
from faircount.config import read_toml, refuse_secrets, refuse_unknown, table
from faircount.core.errors import UsageError
from faircount.core.options import option_fields, option_value, options_from
from faircount.core.text import clip, visible
from faircount.runs import lifecycle
from faircount.runs.datasets import RANDOM_SEED
from faircount.runs.engine import Ending
from faircount.runs.journal import has_begun
from faircount.runs.options import BenchOptions, JournalOptions, RunOptions
from faircount.runs.service import SILENT, PreparedRun, RunListener, prepare, start_or_resume

ROLES = ("target", "dataset", "judge", "attack", "variant")
"""What a cell is a combination of, in the order in which it is named."""
_TABLES = {role: f"{role}s" for role in ROLES}
_KNOWN = ("output_folder", "settings", "leave_out", *_TABLES.values())
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN = {"dataset": ("path", "paths")}
_NOT_HERE = frozenset(
    ["paths", "dataset_folder", "tags", "exclude_tags", "aggregation", "shard", "num_workers_eval", "no_auto_resume"]
)
"""Options of a run that a bench file has no key for."""
_COMPONENTS: Mapping[str, Kind] = {"target": "target", "judge": "judge", "attack": "attack"}
"""The keys whose values may be tables that name a component."""
_MOST_CELLS = 10_000

COMPLETE, DECIDED, STOPPED, UNSTARTED = "complete", "enough is known", "not complete", "not begun"
PLANNED, STARTED = "planned", "begun"


class BenchCell(Struct, frozen=True):
    """One run: the name of each part that it is made of, its options, and where its journal is.

    `parts` has a judge, an attack or a variant only where the file names some.
    """

    parts: Mapping[str, str]
    options: RunOptions
    journal: str

    @property
    def name(self) -> str:
        """What the cell is called, and its journal with it."""
        return Path(self.journal).stem

    @property
    def exists(self) -> bool:
        """Whether the run was begun."""
        return has_begun(self.journal)


class BenchFile(Struct, frozen=True):
    """All cells of a file, in the order of the file, and where their journals go."""

    path: str
    output_folder: str
    cells: tuple[BenchCell, ...]


class BenchState(Struct, frozen=True):
    """The runs of a bench, and how each of them stands: "complete", "planned" and so on."""

    path: str
    cells: tuple[BenchCell, ...]
    states: tuple[str, ...]
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be run."""
        return all(state in (COMPLETE, DECIDED) for state in self.states)


# -- running ----------------------------------------------------------------------------------------------------


def bench(
    file: str | os.PathLike[str],
    *,
    options: BenchOptions | None = None,
    listener: RunListener = SILENT,
    **keywords: Any,
) -> BenchState:
    """Run every combination in a bench file, each with its own journal; existing runs are resumed.

    Options are the fields of `BenchOptions`: with `plan`, nothing is run.
    """
    (asked,) = options_from({"file": file, **keywords}, BenchOptions, given=options)
    found = read_bench(asked.file)
    for cell in found.cells:
        # A mistake in the last one is reported before the first is begun.
        settings = _prepare(found, cell, listener).settings
        if cell.exists:
            before = lifecycle.settings_of(cell.journal)
            instead = f"set another output_folder in {found.path}, or remove the journal"
            lifecycle.refuse_other_settings(cell.journal, before, settings, instead)
            for file in lifecycle.changed_files(before.files, settings.files):
                raise UsageError(f"{cell.journal}: {file} has changed since this run began; {instead}")
    if asked.plan:
        return BenchState(found.path, found.cells, tuple(STARTED if cell.exists else PLANNED for cell in found.cells))
    states: list[str] = []
    interrupted = False
    for number, cell in enumerate(found.cells, start=1):
        if interrupted:
            states.append(STOPPED if cell.exists else UNSTARTED)
            continue
        listener.notice(f"{number} of {len(found.cells)}: {cell.name}")
        ending = _run(found, cell, asked.retry_errors, listener)
        interrupted = ending.interrupted
        states.append(COMPLETE if ending.complete else DECIDED if ending.decided else STOPPED)
        if not ending.complete:
            listener.notice(f"{cell.name}: {ending.why}")
    return BenchState(found.path, found.cells, tuple(states), interrupted)


def _prepare(plan: BenchFile, cell: BenchCell, listener: RunListener = SILENT) -> PreparedRun:
    where = JournalOptions(journal=cell.journal, output_folder=plan.output_folder)
    try:
        prepared = prepare(cell.options, where, listener=listener)
    except UsageError as error:
        raise UsageError(f"{plan.path}: {cell.name}: {error}") from error
    if not prepared.settings.is_attack:
        raise UsageError(f"{plan.path}: {cell.name}: a bench runs datasets, not tests")
    return prepared


def _run(plan: BenchFile, cell: BenchCell, retry_errors: bool, listener: RunListener) -> Ending:
    """Run a cell, or resume it if its journal already exists; what was to be said of it was said before."""
    return start_or_resume(_prepare(plan, cell), listener, retry_errors=retry_errors).ending


# -- the file ---------------------------------------------------------------------------------------------------


def read_bench(path: str) -> BenchFile:
    """Read a bench file; raise UsageError with the file, the table and the key for anything that is not understood."""
    content = read_toml(path)
    refuse_unknown(path, "", content, _KNOWN)
    folder = content.get("output_folder", "results")
    if not isinstance(folder, str) or not folder:
        raise UsageError(f"{path}: output_folder must be the name of a folder")
    settings = _options(path, "settings", content.get("settings", {}))
    parts = {role: _parts(path, role, content) for role in ROLES}
    for role in ("target", "dataset"):
        if not parts[role]:
            raise UsageError(f"{path}: no {role}; add one under [{_TABLES[role]}.NAME]")
    left_out = _left_out(path, content.get("leave_out", []), parts)
    cells = tuple(_cells(path, folder, settings, parts, left_out))
    if not cells:
        raise UsageError(f"{path}: every combination is left out")
    for name, count in Counter(cell.name for cell in cells).items():
        if count > 1:
            raise UsageError(f"{path}: two combinations are both named {name}; rename one of their parts")
    return BenchFile(path, folder, cells)


def _parts(path: str, role: str, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options in the tables of a role, by the names of the tables."""
    found = {}
    for name, value in table(path, _TABLES[role], content.get(_TABLES[role], {})).items():
        where = f"{_TABLES[role]}.{name}"
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: {where}: a name may contain only letters, digits, -, _ and dots, because it names a file"
            )
        found[name] = _options(path, where, value, _OWN.get(role, ()))
    return found


def _options(path: str, where: str, value: object, own: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options that a table gives, by the names of the fields of `RunOptions`."""
    content = table(path, where, value)
    fields = {known.name: known for known in option_fields(RunOptions)}
    refuse_secrets(path, where, content)
    refuse_unknown(path, where, content, (*(name for name in fields if name not in _NOT_HERE), *own))
    found: dict[str, Any] = {}
    for key, one in content.items():
        known = replace(fields["paths"], name=key) if key in own else fields[key]
        if key in _COMPONENTS and isinstance(one, Mapping):
            try:
                one = render(read_spec(one, _COMPONENTS[key]))
            except UsageError as error:
                raise UsageError(f"{path}: {where}.{key}: {error}") from error
        try:
            given = option_value(known, one)
        except UsageError as error:
            raise UsageError(f"{path}: {where}.{error}") from error
        found |= {"paths": (*found.get("paths", ()), *given)} if key in own else {key: given}
    return found


def _left_out(path: str, content: object, parts: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, str]]:
    if not isinstance(content, list) or not all(isinstance(one, dict) and one for one in content):
        raise UsageError(f"{path}: leave_out must be a list of tables: [[leave_out]]")
    for one in content:
        refuse_unknown(path, "leave_out", one, ROLES)
        for role, name in one.items():
            if not isinstance(name, str) or name not in parts[role]:
                raise UsageError(f"{path}: leave_out: no such {role}: {clip(visible(repr(name)), 60)}")
    return content


def _cells(
    path: str,
    folder: str,
    settings: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Mapping[str, Any]]],
    left_out: Sequence[Mapping[str, str]],
) -> Iterator[BenchCell]:
    named = [[(role, name) for name in parts[role]] or [(role, "")] for role in ROLES]
    for count, combined in enumerate(itertools.product(*named)):
        if count >= _MOST_CELLS:
            raise UsageError(f"{path}: more than {_MOST_CELLS:,} combinations")
        cell = {role: name for role, name in combined if name}
        if any(all(cell.get(role) == name for role, name in one.items()) for one in left_out):
            continue
        tables = [settings, *(parts[role].get(cell.get(role, ""), {}) for role in (*ROLES[1:], ROLES[0]))]
        name = "_".join(cell.values())
        options = RunOptions(**{key: value for one in tables for key, value in one.items()})
        if options.sample_seed == RANDOM_SEED:
            raise UsageError(f"{path}: {name}: sample_seed must be a number, so that the bench can be resumed")
        yield BenchCell(cell, options, str(Path(folder) / f"{name}.jsonl"))
