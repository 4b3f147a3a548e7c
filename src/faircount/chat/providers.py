"""Who speaks with a server: OpenAI's protocol, LiteLLM, or a class of another package. One request, one answer.

A package adds a provider by an entry point in the group `faircount.chat`:

    [project.entry-points."faircount.chat"]
    bedrock = "my_package.chat:Bedrock"

The class is made with `ChatSettings`, and has `where`, `ask` and `close` as `faircount.chat.types.Provider` says.
Settings name it: `provider = "bedrock"`, and so does a target: `--target bedrock`. It makes single tries; the client
repeats them, keeps limits, counts costs and keeps answers. The words of a server reach a message only clipped, made
visible and without secrets; headers reach none.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from msgspec.structs import replace

from faircount.chat.http import (
    Address,
    Connections,
    HttpResponse,
    InvalidJson,
    Key,
    decode_json,
    encode_json,
    said_in,
    status_trouble,
    well_formed,
)
from faircount.chat.rate_limit import asked_wait, worth_another_try
from faircount.chat.settings import ChatSettings
from faircount.chat.types import ChatAnswer, ChatRequest, ChatToolCall, Provider, Trouble, refusal
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

_LONGEST_QUOTE = 300
_LONGEST_ID = 200
_HEADERS = {"Content-Type": "application/json"}
_CONNECTION = ("APIConnectionError", "ServiceUnavailableError")
_MOST_TOKENS = 2**53


class OpenAI:
    """A server that speaks OpenAI's protocol; see `faircount.chat.types.Provider`."""

    def __init__(self, settings: ChatSettings) -> None:
        self._address = Address(settings.base_url)
        self._variable = settings.api_key_env
        self._key = Key.from_environment(self._variable)
        self.where = self._address.shown
        if self._key is None and self._variable and not self._address.is_local:
            raise UsageError(
                f"{self.where} needs a key: set the environment variable {visible(self._variable)}, "
                "or leave api_key_env empty if the server takes none"
            )
        from yarl import URL

        self._url = URL(self._address.completions)
        self._connections = Connections(self._address, settings.timeout)

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request, or raise `Trouble`."""
        body = encode_json({"model": request.model, "messages": request.messages, **request.parameters})
        headers = _HEADERS if self._key is None else {**_HEADERS, "Authorization": self._key.header}
        arrived = await self._connections.send("POST", self._url, headers, body)
        if not arrived.good:
            raise self._status_trouble(arrived)
        return _without_key(self._read(arrived), self._key)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def _read(self, arrived: HttpResponse) -> ChatAnswer:
        if arrived.compressed:
            raise Trouble("the answer is compressed, which was not asked for", kind="not json", again=True)
        try:
            content = decode_json(arrived.body)
        except InvalidJson:
            raise Trouble(f"the answer is not JSON{self._quote(arrived)}", kind="not json", again=True) from None
        if isinstance(content, Mapping) and content.get("error") and not content.get("choices"):
            raise self._error_trouble(content["error"], arrived)
        answer = _read_completion(content)
        request_id = arrived.headers.get("x-request-id") or answer.request_id
        return replace(answer, request_id=clip(well_formed(request_id), _LONGEST_ID) if request_id else None)

    def _error_trouble(self, error: object, arrived: HttpResponse) -> Trouble:
        """Return the trouble with an error under status 200, as gateways send it, with the true status inside."""
        status = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(status, int) and 400 <= status < 600:
            return self._status_trouble(replace(arrived, status=status))
        return self._refused(arrived) or _incomplete(f"is an error{self._quote(arrived)}")

    def _status_trouble(self, arrived: HttpResponse) -> Trouble:
        return self._refused(arrived) or status_trouble(
            arrived,
            self._quote(arrived),
            refusal=self._refusal(),
            named="base_url",
            hint="; check base_url and model",
        )

    def _refused(self, arrived: HttpResponse) -> Trouble | None:
        """Return the trouble with a prompt that the provider does not take, as the whole error tells, code included."""
        return refusal(arrived.body.decode("utf-8", "replace"), self._quote(arrived), arrived.status)

    def _refusal(self) -> str:
        if self._key is not None:
            return f"the server rejected the key in {visible(self._variable)}"
        if self._variable:
            return f"the server requires a key, but {visible(self._variable)} is not set"
        return "the server requires a key, but api_key_env names no variable"

    def _quote(self, arrived: HttpResponse) -> str:
        return _quoted(said_in(arrived.body), self._key)


class LiteLLM:
    """Whatever the package LiteLLM reaches, under its names: `provider = "litellm"`, `model = "anthropic/claude-…"`.

    The package comes with the extra `litellm`. Each provider's key is taken by LiteLLM from the variable that it wants;
    `api_key_env` and `base_url` count where they are not left at OpenAI's. What LiteLLM tells others about its use is
    switched off.
    """

    where = "litellm"

    def __init__(self, settings: ChatSettings) -> None:
        self._library = _library()
        self._timeout = settings.timeout
        default = ChatSettings()
        self._fixed: dict[str, Any] = {"timeout": settings.timeout, "num_retries": 0}
        self._key: Key | None = None
        if settings.base_url != default.base_url:
            self._fixed["api_base"] = settings.base_url
        if settings.api_key_env not in ("", default.api_key_env):
            self._key = Key.from_environment(settings.api_key_env)
            if self._key is None:
                raise UsageError(f"litellm: the environment variable {visible(settings.api_key_env)} is not set")

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request, or raise `Trouble`."""
        import asyncio

        key = {} if self._key is None else {"api_key": self._key.header.removeprefix("Bearer ")}
        asked = {"model": request.model, "messages": list(request.messages), **request.parameters, **self._fixed, **key}
        try:
            async with asyncio.timeout(self._timeout):
                completion = await self._library.acompletion(**asked)
        except TimeoutError:
            raise Trouble(f"no answer within {self._timeout:g} s", kind="timeout", again=True) from None
        except Exception as error:  # noqa: BLE001  every provider has errors of its own
            raise self._trouble(error) from None
        content = completion.model_dump() if hasattr(completion, "model_dump") else completion
        if not isinstance(content, Mapping):
            raise _incomplete("is not what LiteLLM should return")
        return _without_key(_read_completion(content), self._key)

    async def close(self) -> None:
        """Nothing is held."""

    def _trouble(self, error: Exception) -> Trouble:
        name, status = type(error).__name__, getattr(error, "status_code", None)
        status = status if isinstance(status, int) else None
        quote = _quoted(well_formed(str(error)), self._key)
        refused = refusal(f"{name}: {error}", quote, status)
        if refused is not None:
            return refused
        if name == "Timeout":
            return Trouble(f"no answer in time{quote}", kind="timeout", again=True)
        if name in _CONNECTION or status is None:
            return Trouble(f"{visible(name)}{quote}", kind="connection", again=name in _CONNECTION)
        if status in (401, 403):
            return Trouble(f"the provider rejected the key (status {status}){quote}", kind="refused key", status=status)
        again = worth_another_try(status)
        headers = getattr(getattr(error, "response", None), "headers", None)
        wait = asked_wait(headers) if again and isinstance(headers, Mapping) else None
        words = f"the provider answered with status {status}{quote}"
        return Trouble(words, kind="status", status=status, again=again, wait=wait)


def _library() -> Any:
    # It would ask a server for prices as soon as it is imported; ours are the client's.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        library = importlib.import_module("litellm")
    except ImportError:
        raise UsageError("litellm: needs the package litellm; install it: pip install 'faircount[litellm]'") from None
    library.telemetry = False  # type: ignore[attr-defined]
    library.suppress_debug_info = True  # type: ignore[attr-defined]
    return library


def _quoted(text: str, key: Key | None) -> str:
    """Return the words of a server, behind a colon and without secrets; nothing where there are none."""
    text = text.strip()
    if key is not None:
        text = key.hide_in_message(text)
    text = clip(visible(mask_secrets(text)), _LONGEST_QUOTE)
    return f": {text}" if text else ""


def _without_key(answer: ChatAnswer, key: Key | None) -> ChatAnswer:
    """Return an answer in which a server that repeats the key does no harm."""
    if key is None:
        return answer
    hide = key.hide_in_answer
    return replace(
        answer,
        text=hide(answer.text),
        tool_calls=tuple(
            ChatToolCall(hide(call.id), hide(call.name), hide(call.arguments)) for call in answer.tool_calls
        ),
        finish_reason=hide(answer.finish_reason) if answer.finish_reason else answer.finish_reason,
        model=hide(answer.model) if answer.model else answer.model,
        request_id=hide(answer.request_id) if answer.request_id else answer.request_id,
    )


# -- a chat completion --------------------------------------------------------------------------------------------


def _incomplete(what: str) -> Trouble:
    """Return the trouble with an answer that lacks something."""
    return Trouble(f"the answer {what}", kind="incomplete")


def _read_completion(content: object) -> ChatAnswer:
    """Return the answer that a completion holds: its first choice."""
    if not isinstance(content, Mapping):
        raise _incomplete("is JSON but not an object; is this an OpenAI-compatible server?")
    choice = _first_choice(content)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise _incomplete("has a choice without a message")
    usage = content.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    return ChatAnswer(
        text=_text_of(message),
        tool_calls=tuple(_tool_calls(message)),
        finish_reason=_text(choice.get("finish_reason")),
        model=_text(content.get("model")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        request_id=_text(content.get("id")),
    )


def _first_choice(content: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = content.get("choices")
    if not isinstance(choices, list):
        raise _incomplete("has no choices; is this an OpenAI-compatible server?")
    if not choices:
        raise _incomplete("has an empty list of choices")
    if not isinstance(choices[0], Mapping):
        raise _incomplete("has a choice that is not an object")
    return choices[0]


def _text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message; where there is none, the words in which the model refused."""
    content = message.get("content")
    if isinstance(content, str):
        return well_formed(content)
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        refusals = [part.get("refusal") for part in content if isinstance(part, Mapping)]
        found = _joined(texts) or _joined(refusals)
    elif content is None:
        found = ""
    else:
        raise _incomplete("has a message whose content is neither text nor a list of parts")
    return found or _text(message.get("refusal")) or ""


def _joined(texts: Iterable[object]) -> str:
    return well_formed("".join(text for text in texts if isinstance(text, str)))


def _tool_calls(message: Mapping[str, Any]) -> Iterable[ChatToolCall]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise _incomplete("has tool calls that are not a list")
    for call in calls:
        yield _tool_call(call, call.get("function") if isinstance(call, Mapping) else None)
    # What tool calls were before there could be several.
    if not calls and message.get("function_call") is not None:
        yield _tool_call({}, message["function_call"])


def _tool_call(call: Mapping[str, Any], function: object) -> ChatToolCall:
    name = _text(function.get("name")) if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not name:
        raise _incomplete("has a tool call without a function name")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        # Some servers send the arguments as an object and not as the text that the model wrote.
        arguments = encode_json(arguments).decode()
    return ChatToolCall(_text(call.get("id")) or "", name, well_formed(arguments))


def _text(value: object) -> str | None:
    return well_formed(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None


# -- which there are ----------------------------------------------------------------------------------------------

GROUP = "faircount.chat"
BUILT_IN: dict[str, type[Provider]] = {"openai": OpenAI, "litellm": LiteLLM}


def provider_names() -> list[str]:
    """Return the names of all providers: those built in first."""
    found = sorted({entry.name for entry in metadata.entry_points(group=GROUP)} - set(BUILT_IN))
    return [*BUILT_IN, *found]


def find_provider(name: str) -> type[Provider]:
    """Return the class of a provider; what is built in cannot be replaced."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    found = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(visible(known) for known in sorted(provider_names()))
        raise UsageError(f'chat: no such provider: "{clip(visible(name), 60)}"; available: {known}')
    provider: type[Provider] = found[name].load()
    if not callable(getattr(provider, "ask", None)):
        raise UsageError(f'chat: the provider "{visible(name)}" has no method ask; it cannot be used')
    return provider
