"""The model that a metric asks, configured as REBEL's client is.

A key in the configuration is taken into memory and goes to the server alone: it is shown nowhere and written nowhere.
It is better to name the environment variable that holds it, as `api_key_env`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from faircount.core.errors import UsageError
from faircount.judges.model_judge import Form, OffMenu, Questioner
from faircount.testing.plain import SECRET, is_secret, plain

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient
    from faircount.chat.settings import ChatSettings

_KNOWN = ("api_key", "api_key_env", "base_url", "model", "temperature", "max_tokens", "timeout")
_VARIABLE = "FAIRCOUNT_KEY_OF_A_METRIC"
_environment = threading.Lock()


class OpenAIClientWrapper:
    """A model behind an OpenAI-compatible server, named by a dictionary.

    `model` is needed. `base_url` is OpenAI's unless it is given, and the key stands in `api_key` or in the environment
    variable `api_key_env` (OPENAI_API_KEY unless given). `temperature`, `max_tokens` and `timeout` are sent or kept
    where they are given.
    """

    def __init__(self, config: Mapping[str, Any], *, owner: str = "OpenAIClientWrapper") -> None:
        if not isinstance(config, Mapping):
            raise TypeError(f"{owner} takes a dictionary, not {type(config).__name__}")
        for name in config:
            if name not in _KNOWN:
                raise TypeError(f"{owner} has no parameter {name}; it takes {', '.join(_KNOWN)}")
        if not isinstance(config.get("model"), str) or not config["model"]:
            raise TypeError(f"{owner} needs model, the name of a model")
        self._config = {name: value for name, value in config.items() if value is not None}
        self._client: ChatClient | None = None
        self._lock = threading.Lock()
        _ = self.settings  # a wrong value is told now

    @property
    def settings(self) -> ChatSettings:
        """How to reach the model; the key is no part of it."""
        from faircount.chat.settings import ChatSettings

        given = self._config
        words = {name: given[name] for name in ("base_url", "model", "timeout", "api_key_env") if name in given}
        if "api_key" in given:
            words["api_key_env"] = _VARIABLE
        parameters = {name: given[name] for name in ("max_tokens",) if name in given}
        return ChatSettings(**words, parameters=parameters)

    @property
    def temperature(self) -> float | None:
        """The temperature that is asked for; None sends none."""
        value = self._config.get("temperature")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError("OpenAIClientWrapper: temperature must be a number")
        return value

    def client(self) -> ChatClient:
        """Return the client, made when it is first needed."""
        from faircount.chat.client import ChatClient

        with self._lock:
            if self._client is None:
                key = self._config.get("api_key")
                if key is None:
                    self._client = ChatClient(self.settings)
                else:
                    self._client = _made_with(str(key), self.settings)
            return self._client

    def close(self) -> None:
        """Close the client, if there is one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def generate(self, messages: Sequence[Mapping[str, Any]]) -> Any:
        """Return an answer in the shape of OpenAI's completions: `.choices[0].message.content`."""
        answer = self.client().ask_now(messages, parameters={"temperature": self.temperature})
        message = SimpleNamespace(role="assistant", content=answer.text)
        usage = SimpleNamespace(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        choice = SimpleNamespace(index=0, message=message, finish_reason=answer.finish_reason)
        return SimpleNamespace(choices=[choice], model=answer.model, usage=usage)

    def generate_instructed(self, messages: Sequence[Mapping[str, Any]], response_model: Any) -> Any:
        """Return an answer as an object of a pydantic model."""
        schema = response_model.model_json_schema()
        key = next(iter(schema.get("properties", {})), "")

        def read(answer: Mapping[str, Any]) -> Any:
            try:
                return response_model.model_validate(dict(answer))
            except ValueError as error:
                raise OffMenu(f"it does not fit: {str(error).splitlines()[0]}") from None

        return self.ask(messages, Form(response_model.__name__, key, schema, read))

    def ask(self, messages: Sequence[Mapping[str, Any]], form: Form[Any]) -> Any:
        """Return an answer of a form, or raise a ValueError that says why there is none."""
        questioner = Questioner(self.settings, self.temperature)
        questioner.ask_with(self.client())
        reply = questioner.ask(messages, form)
        if reply.value is None:
            raise ValueError(reply.problem)
        return reply.value

    def _recorded(self) -> Mapping[str, Any]:
        return self._config

    def __repr__(self) -> str:
        shown = {name: SECRET if is_secret(name) else plain(value) for name, value in self._config.items()}
        return f"OpenAIClientWrapper({shown!r})"


def _made_with(key: str, settings: ChatSettings) -> ChatClient:
    """Return a client that knows the key; clients read it from the environment, where it stands for this moment."""
    from faircount.chat.client import ChatClient

    with _environment:
        os.environ[_VARIABLE] = key
        try:
            return ChatClient(settings)
        finally:
            del os.environ[_VARIABLE]
