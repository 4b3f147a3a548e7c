"""The shape of a chat completion: the JSON of a server becomes an answer, or trouble that says what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from faircount.chat import wire
from faircount.chat.answer import ChatAnswer, ChatToolCall
from faircount.chat.provider import Trouble

_MOST_TOKENS = 2**53


def incomplete(what: str) -> Trouble:
    """Return the trouble with an answer that lacks something."""
    return Trouble(f"the answer {what}", kind="incomplete")


def read_completion(content: object) -> ChatAnswer:
    """Return the answer that a completion holds: its first choice."""
    if not isinstance(content, Mapping):
        raise incomplete("is JSON but not an object; is this an OpenAI-compatible server?")
    choice = _first_choice(content)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise incomplete("has a choice without a message")
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
        raise incomplete("has no choices; is this an OpenAI-compatible server?")
    if not choices:
        raise incomplete("has an empty list of choices")
    if not isinstance(choices[0], Mapping):
        raise incomplete("has a choice that is not an object")
    return choices[0]


def _text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message; where there is none, the words in which the model refused."""
    content = message.get("content")
    if isinstance(content, str):
        return wire.mended(content)
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        refusals = [part.get("refusal") for part in content if isinstance(part, Mapping)]
        found = _joined(texts) or _joined(refusals)
    elif content is None:
        found = ""
    else:
        raise incomplete("has a message whose content is neither text nor a list of parts")
    return found or _text(message.get("refusal")) or ""


def _joined(texts: Iterable[object]) -> str:
    return wire.mended("".join(text for text in texts if isinstance(text, str)))


def _tool_calls(message: Mapping[str, Any]) -> Iterable[ChatToolCall]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise incomplete("has tool calls that are not a list")
    for call in calls:
        yield _tool_call(call, call.get("function") if isinstance(call, Mapping) else None)
    # What tool calls were before there could be several.
    if not calls and message.get("function_call") is not None:
        yield _tool_call({}, message["function_call"])


def _tool_call(call: Mapping[str, Any], function: object) -> ChatToolCall:
    name = _text(function.get("name")) if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not name:
        raise incomplete("has a tool call without a function name")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        # Some servers send the arguments as an object and not as the text that the model wrote.
        arguments = wire.encode(arguments).decode()
    return ChatToolCall(_text(call.get("id")) or "", name, wire.mended(arguments))


def _text(value: object) -> str | None:
    return wire.mended(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None
