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
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from faircount.components.factory import Context
from faircount.core.errors import UsageError
from faircount.toml_file import read_toml, refuse_secrets, refuse_unknown, table

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Config(Struct, frozen=True):
    """What a configuration says; every part of it may be empty."""

    judges: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)


class ModelOptions(Protocol):
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


def setting_of(models: ModelOptions, concurrency: int | None = None) -> Context:
    """Return what judges are made with: by a configuration file and by options, which go before the file."""
    config = read_config(models.config) if models.config is not None else Config()
    return Context(chat=_chat_settings(models, concurrency, config), named=dict(config.judges))


def _chat_settings(models: ModelOptions, concurrency: int | None, config: Config) -> ChatSettings:
    import msgspec

    from faircount.chat.settings import ChatSettings

    asked = {name: getattr(models, name) for name in ("model", "base_url", "api_key_env")} | {
        "concurrency": concurrency
    }
    told = {**config.chat, **{name: value for name, value in asked.items() if value is not None}}
    try:
        return msgspec.convert({**told, "prices": dict(config.prices)}, ChatSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"--config, --model, --base-url and --api-key-env: {error}") from error


def read_config(path: str) -> Config:
    """Read a configuration; raise UsageError with the file and the key for anything that is not understood."""
    told = read_toml(path)
    refuse_unknown(path, "", told, ("judges", "prices", "chat"))
    tables = {name: table(path, name, told.get(name, {})) for name in ("judges", "prices", "chat")}
    refuse_secrets(path, "chat", tables["chat"])
    return Config(_judges(path, tables["judges"]), _prices(path, tables["prices"]), _chat(path, tables["chat"]))


def _judges(path: str, told: Mapping[str, Any]) -> dict[str, str]:
    """Return the named judges; what they stand for is looked up when they are used."""
    from faircount.components.spec import parse
    from faircount.judges.registry import JUDGES

    for name, expression in told.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"{path}: judges.{name}: use letters, digits, -, _ and dots, starting with a letter or _")
        if JUDGES.built_in(name) is not None:
            raise UsageError(f"{path}: judges.{name}: is the name of a built-in judge; choose another")
        if not isinstance(expression, str):
            raise UsageError(f"{path}: judges.{name}: must be a string, such as 'threshold(refusal, at=0.8)'")
        try:
            parse(expression)
        except UsageError as error:
            raise UsageError(f"{path}: judges.{name}: {error}") from error
    return dict(told)


def _prices(path: str, told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    from faircount.chat.settings import Prices

    for model, price in told.items():
        refuse_unknown(
            path, f'prices."{model}"', table(path, f'prices."{model}"', price), ("prompt", "completion", "noted")
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
    refuse_unknown(path, "chat", told, known)
    variable = told.get("api_key_env", "")
    if isinstance(variable, str) and variable and not _VARIABLE.fullmatch(variable):
        raise UsageError(f"{path}: chat.api_key_env: must be the name of an environment variable, not the key itself")
    try:
        msgspec.convert(dict(told), ChatSettings)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise UsageError(f"{path}: chat{'.' + key if key else ''}: {reason}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return dict(told)
