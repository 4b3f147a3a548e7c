"""REBEL's ways to name a target, `--api-config FILE` and `--api-client-module M --api-client-class C`, and its input.

Where both are given the client counts, as in REBEL. The file is a JSON object: `api_key`, `base_url` and `model` as
REBEL reads them; `api_key_env`, `timeout`, `tries`, `concurrency` and `requests_per_minute` as Faircount's own settings
have them; everything else (temperature, max_tokens ...) goes with every request. REBEL drops that without a word.

A key in the file is used and never recorded. It is not kept in the environment either: that lends it for the moment in
which the client is made.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from faircount.chat.settings import ChatSettings
from faircount.core.errors import InputError, UsageError
from faircount.core.text import visible
from faircount.runs.targets.base import Request, plain_messages

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient

_SETTINGS = ("base_url", "model", "api_key_env", "timeout", "tries", "concurrency", "requests_per_minute")
_KEY = "api_key"
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id")
_lending = threading.Lock()


class ApiConfig(Struct, frozen=True):
    """What a file says: settings, parameters, and perhaps a key."""

    path: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None

    def __repr__(self) -> str:
        return f"ApiConfig({self.path!r})"

    @property
    def name_of_key(self) -> str:
        """How messages call the key; the name of the variable that lends it."""
        return f"{_KEY} of {visible(Path(self.path).name).replace('=', '_')}"

    def over(self, chat: ChatSettings) -> ChatSettings:
        """Return settings with what the file says; what differs from the defaults was told by the user and stays."""
        default = ChatSettings()
        told = {name: value for name, value in self.settings.items() if getattr(chat, name) == getattr(default, name)}
        try:
            own = msgspec.convert(told, ChatSettings)
        except msgspec.ValidationError as error:
            raise UsageError(f"{visible(self.path)}: {visible(str(error))}") from None
        found = {name: getattr(own, name) for name in told}
        return replace(chat, **found, parameters={**self.parameters, **chat.parameters})

    def client(self, chat: ChatSettings) -> ChatClient:
        """Return a client for settings; if the file has a key, with that, and then for one event loop."""
        from faircount.chat.client import ChatClient

        if self.key is None:
            return ChatClient(chat)
        with self._lent(self.key) as variable:
            return ChatClient(replace(chat, api_key_env=variable))

    @contextlib.contextmanager
    def _lent(self, key: str) -> Iterator[str]:
        name = self.name_of_key
        with _lending:
            os.environ[name] = key
            try:
                yield name
            finally:
                del os.environ[name]

    def advice(self) -> str | None:
        """Return what to say to somebody whose file holds a key."""
        if self.key is None:
            return None
        return (
            f"{visible(self.path)}: contains a key; it is used but not recorded. It is safer in an environment "
            'variable: write "api_key_env": "NAME" instead of "api_key"'
        )


def read_api_config(path: str) -> ApiConfig:
    """Return what a file says that `--api-config` names."""
    shown = visible(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror or error}") from None
    try:
        told = msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The words of the decoder name a place and quote nothing.
        raise InputError(f"{shown}: not JSON: {visible(str(error))}") from None
    if not isinstance(told, dict):
        raise InputError(f"{shown}: not a JSON object with base_url, model and api_key_env")
    key = told.pop(_KEY, None)
    if key is not None and not isinstance(key, str):
        raise InputError(f"{shown}: {_KEY} is not a string")
    settings = {name: told.pop(name) for name in _SETTINGS if name in told}
    return ApiConfig(
        path=str(Path(path).absolute()),
        settings={name: value for name, value in settings.items() if value is not None},
        parameters={name: value for name, value in told.items() if value is not None},
        key=(key or "").strip() or None,
    )


def client_name(module: str | None, name: str | None) -> str:
    """Return the client that `--api-client-module` and `--api-client-class` name; both are needed."""
    if not module or not name:
        missing, given = ("module", "class") if not module else ("class", "module")
        raise UsageError(f"--api-client-{given} needs --api-client-{missing}")
    return f"{module}:{name}"


def assistant_input(client: object, request: Request, parameters: dict[str, Any]) -> Any:
    """Return REBEL's input: of REBEL's own classes for a client that is made of them, else of ours."""
    told = [{name: message[name] for name in _MESSAGE if name in message} for message in plain_messages(request)]
    # Where a client is a subclass of REBEL's, that is loaded.
    theirs = any(kind.__module__.partition(".")[0] == "rebel" for kind in type(client).__mro__)
    models: Any = sys.modules.get("rebel.models") if theirs else None
    if models is not None:
        # A message of REBEL's has a text, even where it only calls tools.
        messages = [{**message, "content": message.get("content") or ""} for message in told]
        return models.AssistantInput(messages=messages, api_params=parameters)
    from faircount.testing.cases import AssistantInput, Message

    return AssistantInput(messages=[Message(**message) for message in told], api_params=parameters)
