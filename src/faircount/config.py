"""The configuration: a TOML file that the user names with --config, with judges, prices and how to reach a model.

    [judges]
    strict-refusal = 'threshold(refusal, at=0.8)'

    [prices."my-model"]
    prompt = 1.0
    completion = 2.0

    [chat]
    base_url = "http://localhost:8000/v1"
    model = "my-model"
    api_key_env = "MY_KEY"

It can name local code as judges, so it is never found by itself: a folder that somebody sent chooses nothing. Secrets
have no place in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from faircount.errors import UsageError
from faircount.text import clip, mask_secrets

_LARGEST = 1024 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECRET = re.compile(r"(?i)(?:api[_-]?key|token|secret|password|passwd|credential|authorization)s?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Config(Struct, frozen=True):
    """What a configuration says; every part of it may be empty."""

    judges: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)


def read_config(path: str) -> Config:
    """Read a configuration; raise UsageError with the file and the key for anything that is not understood."""
    told = _toml(path)
    _refuse_unknown(path, "", told, ("judges", "prices", "chat"))
    tables = {name: _table(path, name, told.get(name, {})) for name in ("judges", "prices", "chat")}
    _refuse_secrets(path, "chat", tables["chat"])
    return Config(_judges(path, tables["judges"]), _prices(path, tables["prices"]), _chat(path, tables["chat"]))


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST:
        raise UsageError(f"{path}: is larger than 1 MiB; a configuration is small")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(_torn(path, str(error))) from error
    except RecursionError as error:
        raise UsageError(f"{path}: its values are too deep") from error


def _torn(path: str, message: str) -> str:
    """Return what is wrong with a file that is no TOML, at its line where the reader says which."""
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return f"{path}: is no TOML: {message}"
    return f"{path}:{found[1]}: is no TOML: {message[: found.start()]}, at column {found[2]}"


def _table(path: str, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} must be a table: [{name}]")
    return value


def _refuse_unknown(path: str, table: str, told: Mapping[str, Any], known: tuple[str, ...]) -> None:
    import difflib

    for key in told:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            where = f" in [{table}]" if table else ""
            raise UsageError(f"{path}: {clip(mask_secrets(key), 60)}: no such key{where}; {hint}")


def _refuse_secrets(path: str, table: str, told: Mapping[str, Any]) -> None:
    """Raise for a key that would hold a secret, and for a value that looks like one."""
    for key, value in told.items():
        if _SECRET.fullmatch(key):
            raise UsageError(
                f"{path}: {table}.{key}: a secret has no place in a file; put it into an environment variable, and "
                'the name of that here: api_key_env = "MY_KEY"'
            )
        if isinstance(value, Mapping):
            _refuse_secrets(path, f"{table}.{key}", value)
        elif isinstance(value, str) and key != "cache" and mask_secrets(value) != value:
            raise UsageError(f"{path}: {table}.{key}: holds what looks like a secret; put it into the environment")


def _judges(path: str, told: Mapping[str, Any]) -> dict[str, str]:
    """Return the named judges; what they stand for is looked up when they are used."""
    from faircount.judging.expression import parse
    from faircount.judging.registry import built_in

    for name, expression in told.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: judges.{name}: a name has letters, digits, -, _ and dots, and begins with a letter"
            )
        if built_in(name) is not None:
            raise UsageError(f"{path}: judges.{name}: a judge that is built in has this name; choose another")
        if not isinstance(expression, str):
            raise UsageError(f"{path}: judges.{name}: must be a text, such as 'threshold(refusal, at=0.8)'")
        try:
            parse(expression)
        except UsageError as error:
            raise UsageError(f"{path}: judges.{name}: {error}") from error
    return dict(told)


def _prices(path: str, told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    from faircount.chat.prices import Prices

    for model, price in told.items():
        _refuse_unknown(
            path, f'prices."{model}"', _table(path, f'prices."{model}"', price), ("prompt", "completion", "noted")
        )
    try:
        Prices(told)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return dict(told)


def _chat(path: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to reach a model, checked as far as it can be without the rest."""
    import msgspec

    from faircount.chat.settings import ChatSettings

    known = tuple(one.name for one in msgspec.structs.fields(ChatSettings) if one.name != "prices")
    _refuse_unknown(path, "chat", told, known)
    variable = told.get("api_key_env", "")
    if isinstance(variable, str) and variable and not _VARIABLE.fullmatch(variable):
        raise UsageError(f"{path}: chat.api_key_env: is the name of an environment variable, not a key")
    try:
        msgspec.convert(dict(told), ChatSettings)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise UsageError(f"{path}: chat{'.' + key if key else ''}: {reason}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return dict(told)
