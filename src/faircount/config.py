"""TOML files that users write, and the one of them that --config names: judges, prices and how to reach a model.

    [judges]
    strict-refusal = 'threshold(refusal, at=0.8)'
    polite = { name = "llm", rubric = "The response is polite.", scale = 3 }

    [prices."my-model"]
    prompt = 1.0
    completion = 2.0

    [chat]
    base_url = "http://localhost:8000/v1"
    model = "my-model"
    api_key_env = "MY_KEY"

    [formats.ours]
    map = "id=case,success=attack_worked"
    aim = "attack"
    success_threshold = 0.7

It can name local code as judges, so it is never found by itself: a folder that somebody sent chooses nothing. Only the
formats of `faircount.toml` are looked up there, when --format names one: they say what columns mean and nothing else.
Secrets have no place in it. Messages about any such file name its line and key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from faircount.components.factory import Context
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_LARGEST = 1024 * 1024
_SECRET = re.compile(r"(?i)(?:api[_-]?key|token|secret|password|passwd|credential|authorization)s?")


def small_file(path: str) -> bytes:
    """Return the content of a file that is small, as what people write by hand is."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST:
        raise UsageError(f"{path}: larger than 1 MiB, the limit for such files")
    return content


def read_toml(path: str) -> dict[str, Any]:
    """Return what a file says; UsageError with the line where it is no TOML."""
    return toml_of(small_file(path), path)


def toml_of(content: bytes, path: str) -> dict[str, Any]:
    """Return what the content of a file says."""
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(_torn(path, str(error))) from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
    except ValueError as error:  # Python converts no number of so many digits
        raise UsageError(f"{path}: invalid TOML: a number has too many digits") from error


def _torn(path: str, message: str) -> str:
    """Return what is wrong with a file that is no TOML, at its line where the reader says which."""
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return f"{path}: invalid TOML: {message}"
    return f"{path}:{found[1]}: invalid TOML: {message[: found.start()]}, at column {found[2]}"


def table(path: str, name: str, value: object) -> dict[str, Any]:
    """Return a value that must be a table."""
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} must be a table: [{name}]")
    return value


def refuse_unknown(path: str, where: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise for a key that nothing knows, with the one that was perhaps meant."""
    import difflib

    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(known)}"
            place = f" in [{where}]" if where else ""
            raise UsageError(f"{path}: {clip(mask_secrets(key), 60)}: no such key{place}; {hint}")


def refuse_secrets(path: str, where: str, values: Mapping[str, Any]) -> None:
    """Raise for a key that would hold a secret, and for a value that looks like one."""
    for key, value in values.items():
        if _SECRET.fullmatch(key):
            raise UsageError(
                f"{path}: {where}.{key}: do not put secrets in a file; set an environment variable, and name it "
                'here: api_key_env = "MY_KEY"'
            )
        if isinstance(value, Mapping):
            refuse_secrets(path, f"{where}.{key}", value)
        elif isinstance(value, str) and key != "cache" and mask_secrets(value) != value:
            raise UsageError(f"{path}: {where}.{key}: looks like a secret; put it in an environment variable")


# -- the configuration ------------------------------------------------------------------------------------------

FORMATS_FILE = "faircount.toml"
"""Where --format looks for a map of columns."""
_SECTIONS = ("judges", "prices", "chat", "formats")
_AIMS = ("attack", "task")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Config(Struct, frozen=True):
    """What a configuration says; every part of it may be empty."""

    judges: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)


class TableFormat(Struct, frozen=True):
    """What the columns of a table mean, as `--map`, `--aim` and `--success-threshold` say it."""

    map: tuple[str, ...] = ()
    aim: str | None = None
    success_threshold: float | None = None


class JudgeModelOptions(Protocol):
    """Options with which judges that ask a model are made."""

    @property
    def config(self) -> str | None:
        """A TOML file with judges, prices and models."""

    @property
    def model(self) -> str | None:
        """The model to ask."""

    @property
    def base_url(self) -> str | None:
        """The server to ask."""

    @property
    def api_key_env(self) -> str | None:
        """The environment variable with the key."""


def setting_of(models: JudgeModelOptions, concurrency: int | None = None) -> Context:
    """Return what judges are made with: by a configuration file and by options, which go before the file."""
    config = read_config(models.config) if models.config is not None else Config()
    return Context(chat=_chat_settings(models, concurrency, config), named=dict(config.judges))


def _chat_settings(models: JudgeModelOptions, concurrency: int | None, config: Config) -> ChatSettings:
    import msgspec

    from faircount.chat.settings import ChatSettings

    asked = {name: getattr(models, name) for name in ("model", "base_url", "api_key_env")} | {
        "concurrency": concurrency
    }
    values = {**config.chat, **{name: value for name, value in asked.items() if value is not None}}
    try:
        return msgspec.convert({**values, "prices": dict(config.prices)}, ChatSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"--config, --model, --base-url and --api-key-env: {error}") from error


def read_config(path: str) -> Config:
    """Read a configuration; raise UsageError with the file and the key for anything that is not understood."""
    values = read_toml(path)
    refuse_unknown(path, "", values, _SECTIONS)
    _formats(path, table(path, "formats", values.get("formats", {})))
    tables = {name: table(path, name, values.get(name, {})) for name in ("judges", "prices", "chat")}
    refuse_secrets(path, "chat", tables["chat"])
    return Config(_judges(path, tables["judges"]), _prices(path, tables["prices"]), _chat(path, tables["chat"]))


def read_formats(path: str = FORMATS_FILE) -> dict[str, TableFormat]:
    """Return the formats of tables that a file describes; none where there is no such file."""
    if not Path(path).is_file():
        return {}
    values = read_toml(path)
    refuse_unknown(path, "", values, _SECTIONS)
    return _formats(path, table(path, "formats", values.get("formats", {})))


def _formats(path: str, values: Mapping[str, Any]) -> dict[str, TableFormat]:
    found: dict[str, TableFormat] = {}
    for name, described in values.items():
        where = f"formats.{name}"
        given = table(path, where, described)
        refuse_unknown(path, where, given, ("map", "aim", "success_threshold"))
        maps, aim, threshold = given.get("map", ""), given.get("aim"), given.get("success_threshold")
        texts = maps if isinstance(maps, list) else [maps]
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f'{path}: {where}.map: must be a string, such as "id=case,success=attack_worked"')
        if aim is not None and aim not in _AIMS:
            raise UsageError(f"{path}: {where}.aim: must be attack or task")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            raise UsageError(f"{path}: {where}.success_threshold: must be a number")
        found[name] = TableFormat(tuple(text for text in texts if text), aim, threshold)
    return found


def _judges(path: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the named judges; what they stand for is looked up when they are used."""
    from faircount.components.spec import read_spec, render
    from faircount.judges.factory import JUDGES

    refuse_secrets(path, "judges", {name: one for name, one in values.items() if isinstance(one, Mapping)})
    found: dict[str, str] = {}
    for name, expression in values.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"{path}: judges.{name}: use letters, digits, -, _ and dots, starting with a letter or _")
        if JUDGES.built_in(name) is not None:
            raise UsageError(f"{path}: judges.{name}: is the name of a built-in judge; choose another")
        if not isinstance(expression, str | Mapping):
            raise UsageError(
                f"{path}: judges.{name}: must be a string, such as 'threshold(refusal, at=0.8)', or a table with a name"
            )
        try:
            spec = read_spec(expression)
        except UsageError as error:
            raise UsageError(f"{path}: judges.{name}: {error}") from error
        found[name] = expression if isinstance(expression, str) else render(spec)
    return found


def _prices(path: str, values: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    from faircount.chat.settings import Prices

    for model, price in values.items():
        refuse_unknown(
            path, f'prices."{model}"', table(path, f'prices."{model}"', price), ("prompt", "completion", "noted")
        )
    try:
        Prices(values)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return dict(values)


def _chat(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to reach a model, checked as far as it can be without the rest."""
    import msgspec

    from faircount.chat.settings import ChatSettings

    known = tuple(one.name for one in msgspec.structs.fields(ChatSettings) if one.name != "prices")
    refuse_unknown(path, "chat", values, known)
    variable = values.get("api_key_env", "")
    if isinstance(variable, str) and variable and not _VARIABLE.fullmatch(variable):
        raise UsageError(f"{path}: chat.api_key_env: must be the name of an environment variable, not the key itself")
    try:
        msgspec.convert(dict(values), ChatSettings)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise UsageError(f"{path}: chat{'.' + key if key else ''}: {reason}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return dict(values)
