"""Arguments for the user's own code, and what of them is written down.

A value "$NAME" stands for the environment variable of that name ("$$NAME" for the text itself). It is recorded as it
was given, never as what the variable holds. A value that is a secret by its name or by its look is not recorded either:
in its place stands a variable of ours, which whoever resumes the run has to set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from faircount.chat.http import Key
from faircount.core.errors import UsageError
from faircount.core.text import mask_secrets, visible
from faircount.testing.fields import is_secret

OURS = "FAIRCOUNT_ARG_"
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Arguments(Struct, frozen=True):
    """Arguments as code gets them (`given`) and as they are recorded.

    `secrets` are the values that are not recorded, `unrecorded` the variables that stand for those of them that were
    given as they are.
    """

    given: Mapping[str, Any]
    recorded: Mapping[str, Any]
    secrets: tuple[Key, ...] = ()
    unrecorded: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Arguments({dict(self.recorded)!r})"

    def hide(self, text: str) -> str:
        """Return a text for people without the secrets."""
        for secret in self.secrets:
            text = secret.hide_in_message(text)
        return text

    def hide_in_answer(self, text: str) -> str:
        """Return a text of the target without the secrets, as far as they are no words."""
        for secret in self.secrets:
            text = secret.hide_in_answer(text)
        return text


def read_arguments(text: str | None, flag: str) -> dict[str, Any]:
    """Return the arguments that a flag gives as a JSON object."""
    if text is None or not text.strip():
        return {}
    try:
        told = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        told = None
    if not isinstance(told, dict):
        raise UsageError(f"""{flag}: not a JSON object; write, for example, '{{"url": "http://localhost:8000"}}'""")
    return told


def resolve(told: Mapping[str, Any]) -> Arguments:
    """Return arguments with variables in the place of their names."""
    secrets: list[Key] = []
    unrecorded: list[str] = []

    def given(path: tuple[str, ...], value: str) -> str:
        name = _VARIABLE.fullmatch(value)
        if name is not None:
            found = _from_environment(path, name.group(1))
            secrets.append(Key(found))
            return found
        plain = value[1:] if value.startswith("$$") else value
        if _is_secret(path, value):
            secrets.append(Key(plain))
            unrecorded.append(_variable(path))
        return plain

    def recorded(path: tuple[str, ...], value: str) -> str:
        named = _VARIABLE.fullmatch(value) is not None
        return f"${_variable(path)}" if not named and _is_secret(path, value) else value

    return Arguments(_each(told, given), _each(told, recorded), tuple(secrets), tuple(unrecorded))


def _each(told: Mapping[str, Any], turn: Callable[[tuple[str, ...], str], str]) -> dict[str, Any]:
    """Return a copy with every text turned, however deep it stands; the path leads to it."""

    def walk(path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, str):
            return turn(path, value)
        if isinstance(value, Mapping):
            return {name: walk((*path, str(name)), inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [walk((*path, str(number)), inner) for number, inner in enumerate(value)]
        return value

    return {name: walk((name,), value) for name, value in told.items()}


def _is_secret(path: tuple[str, ...], value: str) -> bool:
    if not value.strip():
        return False
    labelled = f"{path[-1]}={value}"
    return any(map(is_secret, path)) or mask_secrets(labelled) != labelled or mask_secrets(value) != value


def _variable(path: tuple[str, ...]) -> str:
    return OURS + re.sub(r"[^A-Z0-9]+", "_", "_".join(path).upper())


def _from_environment(path: tuple[str, ...], variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        where = visible(".".join(path))
        raise UsageError(f"the argument {where} is taken from the environment variable {variable}, which is not set")
    return value
