"""spikee's attacks: `spikee:best_of_n` from the installed package, `spikee:./attacks/mine.py` from a workspace.

A module of a workspace is loaded only where the user names its file. Both forms are taken: classes with a method
`attack`, and modules with a function of that name. Such an attack asks the target itself and calls a judge; here both
are a stand-in (`spikee_thread`), and the engine sends, judges and records, within the same budgets as ever.

A run that was stopped is resumed by playing the attack again: as long as it sends what is recorded, it is answered from
the record. Most attacks of spikee's draw lots that nobody can draw again; where one sends something else than is
recorded, that is sent, as the next iteration, and the records from there on stay what they are: attempts that were
made. In all, no more iterations are made than were allowed.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from faircount.compat.spikee import class_with, first_option, installed
from faircount.compat.spikee.attack_thread import Call, SpikeePlay
from faircount.components.code import in_short, is_there, load, version_of, version_of_code
from faircount.core.errors import UsageError
from faircount.runs.attacks.base import Attack, Entry, Play
from faircount.runs.targets.arguments import resolve

PREFIX = "spikee"
_OPTION = "attack_options"
_OPTIONS = ("attack_options", "attack_option")
_PLACES = 6
"""How many arguments spikee gives every attack by their place; the option is the seventh, by its name."""


class SpikeeAttack(Attack):
    """One of spikee's attacks. `option` is handed to it as it is; "$NAME" stands for an environment variable.

    Without it the attack gets the first that it offers, as in spikee.
    """

    def __init__(self, target: str, option: str | None, place: str | None = None) -> None:
        self.name = f"{PREFIX}:{target}"
        is_file = target.endswith(".py")
        self._target = target
        self._place = (place or str(Path.cwd() / target)) if is_file else None
        module, self.version = (
            _workspace(self._place) if self._place else (installed("attack", target), f"spikee {version_of('spikee')}")
        )
        # spikee's attacks print what goes wrong; standard output belongs to answers.
        vars(module).setdefault("print", functools.partial(print, file=sys.stderr))
        self._implementation = _implementation(self.name, module)
        self._call = _function(self.name, self._implementation)
        self.arguments = resolve({} if option is None else {_OPTION: option})
        self._default = first_option(self.name, self._implementation)[0] if option is None else None

    def settings(self) -> Mapping[str, Any]:
        """Return which attack it is, and its option; `version` is spikee's, and the digest of a file."""
        return {
            "kind": "spikee",
            "name": self.name,
            "target": self._target,
            "place": self._place,
            "option": self.arguments.recorded.get(_OPTION),
            "version": self.version,
        }

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry, in a thread of its own."""
        option = self.arguments.given.get(_OPTION, self._default)
        wanted = inspect.signature(self._call).parameters
        named = dict.fromkeys([one for one in _OPTIONS if one in wanted][:1], option)

        def call(*given: Any) -> Any:
            return self._call(*given, **named)

        return SpikeePlay(Call(call, self.arguments.hide), entry, as_spikee_has_it(entry), iterations)


def as_spikee_has_it(entry: Entry) -> dict[str, Any]:
    """Return an entry as a dataset of spikee's has it; what it lacks is filled in."""
    fields = copy.deepcopy(dict(entry.fields))
    content = fields.get("content", fields.get("text"))
    # Several turns are a list there; everything else is what is really sent.
    text = content if isinstance(content, list) else entry.text
    system = [one.get("content") for one in entry.messages if one.get("role") == "system"]
    return {
        "id": entry.name,
        "long_id": entry.name,
        "judge_name": "canary",
        "judge_args": "",
        **fields,
        "content": text,
        "text": text,
        "content_type": "text",
        "system_message": fields.get("system_message") or (system[0] if system else None),
    }


# -- finding ----------------------------------------------------------------------------------------------------


def _workspace(place: str) -> tuple[ModuleType, str]:
    """Return an attack of a workspace, and spikee's version with the digest of the file."""
    module = load(place)
    spikee = f"spikee {version_of('spikee')}" if is_there("spikee") else "no spikee"
    return module, f"{spikee}, {version_of_code(place, module)}"


def _implementation(name: str, module: ModuleType) -> Any:
    """Return an object of the first class in a module that has a method `attack`, else the module itself."""
    if inspect.isfunction(getattr(module, "attack", None)):
        return module
    found = class_with(module, "attack")
    try:
        return module if found is None else found()
    except Exception as error:
        raise UsageError(f"{name}: cannot create its class: {in_short(error)}") from error


def _function(name: str, implementation: Any) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(implementation, "attack", None)
    if not callable(function):
        raise UsageError(f"{name}: has no function attack and no class with a method attack")
    parameters = list(inspect.signature(function).parameters.values())
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    needed = [one for one in placed[_PLACES:] if one.default is one.empty and one.name not in _OPTIONS]
    if (len(placed) < _PLACES and not several) or needed:
        raise UsageError(
            f"{name}: its attack must take (entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock"
            "[, attack_options]), as spikee calls it"
        )
    return function
