"""A bench file: targets, datasets, judges and attacks in one TOML file, and the runs that they come to.

    output_folder = "results/release-4"

    [settings]                       # options of faircount run, for every run
    attempts = 2
    concurrency = 16

    [targets.small]                  # --target and what goes with it, by the names of the options
    target = "openai"
    model = "gpt-4o-mini"

    [targets.bot]
    target = "./bot.py:answer"

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
journal of its own. Options stand there under the names that they have on the command line; what a later table says goes
before what an earlier one says: settings, dataset, judge, attack, variant, target. Secrets have no place in it. Nothing
is run here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from faircount.errors import UsageError
from faircount.text import clip, visible
from faircount.toml_file import read_toml, refuse_secrets, refuse_unknown, table

ROLES = ("target", "dataset", "judge", "attack", "variant")
"""What a cell is a combination of, in the order in which it is named."""
_TABLES = {role: f"{role}s" for role in ROLES}
_KNOWN = ("output_folder", "settings", "leave_out", *_TABLES.values())
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN = {"dataset": ("path", "paths")}
_MOST_CELLS = 10_000


class Cell(Struct, frozen=True):
    """One run: the name of each part that it is made of, and the words of `faircount run` for it.

    `parts` has a judge, an attack or a variant only where the file names some.
    """

    parts: Mapping[str, str]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the cell is called, and its journal with it."""
        return "_".join(self.parts.values())

    @property
    def others(self) -> tuple[str, ...]:
        """What the cell has beside its target: cells that share it can be compared."""
        return tuple(name for role, name in self.parts.items() if role != "target")


class Bench(Struct, frozen=True):
    """All cells of a file, in the order of the file, and where their journals go."""

    path: str
    output_folder: str
    cells: tuple[Cell, ...]

    def journal(self, cell: Cell) -> str:
        """Return where the journal of a cell is."""
        return str(Path(self.output_folder) / f"{cell.name}.jsonl")


def read_bench(path: str, options: Mapping[str, bool]) -> Bench:
    """Read a bench file. `options` are the options of a run by name, and whether each is only there or not."""
    told = read_toml(path)
    refuse_unknown(path, "", told, _KNOWN)
    folder = told.get("output_folder", "results")
    if not isinstance(folder, str) or not folder:
        raise UsageError(f"{path}: output_folder must be the name of a folder")
    settings = table(path, "settings", told.get("settings", {}))
    _check_options(path, "settings", settings, options)
    parts = {role: _parts(path, role, told, options) for role in ROLES}
    for role in ("target", "dataset"):
        if not parts[role]:
            raise UsageError(f"{path}: no {role}; add one under [{_TABLES[role]}.NAME]")
    left_out = _left_out(path, told.get("leave_out", []), parts)
    cells = tuple(_cells(path, settings, parts, left_out, options))
    if not cells:
        raise UsageError(f"{path}: every combination is left out")
    _refuse_same_names(path, cells)
    return Bench(path, folder, cells)


def _parts(path: str, role: str, told: Mapping[str, Any], options: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    """Return the tables of a role by their names."""
    whole = table(path, _TABLES[role], told.get(_TABLES[role], {}))
    for name, value in whole.items():
        where = f"{_TABLES[role]}.{name}"
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: {where}: a name may contain only letters, digits, -, _ and dots, because it names a file"
            )
        _check_options(path, where, table(path, where, value), options, _OWN.get(role, ()))
    return whole


def _check_options(
    path: str, where: str, told: Mapping[str, Any], options: Mapping[str, bool], own: Sequence[str] = ()
) -> None:
    refuse_secrets(path, where, told)
    refuse_unknown(path, where, told, (*options, *own))


def _left_out(path: str, told: object, parts: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, str]]:
    if not isinstance(told, list) or not all(isinstance(one, dict) and one for one in told):
        raise UsageError(f"{path}: leave_out must be a list of tables: [[leave_out]]")
    for one in told:
        refuse_unknown(path, "leave_out", one, ROLES)
        for role, name in one.items():
            if not isinstance(name, str) or name not in parts[role]:
                raise UsageError(f"{path}: leave_out: no such {role}: {clip(visible(repr(name)), 60)}")
    return told


def _cells(
    path: str,
    settings: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Mapping[str, Any]]],
    left_out: Sequence[Mapping[str, str]],
    options: Mapping[str, bool],
) -> Iterator[Cell]:
    named = [[(role, name) for name in parts[role]] or [(role, "")] for role in ROLES]
    for count, combined in enumerate(itertools.product(*named)):
        if count >= _MOST_CELLS:
            raise UsageError(f"{path}: more than {_MOST_CELLS:,} combinations")
        cell = {role: name for role, name in combined if name}
        if any(all(cell.get(role) == name for role, name in one.items()) for one in left_out):
            continue
        tables = [settings, *(parts[role].get(cell.get(role, ""), {}) for role in (*ROLES[1:], ROLES[0]))]
        merged = {name: value for one in tables for name, value in one.items()}
        yield Cell(cell, tuple(_words(path, merged, options)))


def _words(path: str, told: Mapping[str, Any], options: Mapping[str, bool]) -> Iterator[str]:
    """Yield the words of `faircount run`; a list repeats its option."""
    for name, value in told.items():
        values = value if isinstance(value, list) else [value]
        for one in values:
            if name in ("path", "paths"):
                yield _text(path, name, one)
            elif options[name]:
                if not isinstance(one, bool):
                    raise UsageError(f"{path}: {name} must be true or false")
                yield from [_option(name)] if one else []
            else:
                yield f"{_option(name)}={_text(path, name, one)}"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _text(path: str, name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, dict):
        import json

        return json.dumps(value)
    raise UsageError(f"{path}: {name} must be a string, a number or a table")


def _refuse_same_names(path: str, cells: Sequence[Cell]) -> None:
    first: dict[str, Cell] = {}
    for cell in cells:
        before = first.setdefault(cell.name, cell)
        if before is not cell:
            raise UsageError(f"{path}: two combinations are both named {cell.name}; rename one of their parts")
