"""From what an entry has as its prompt to the messages that are sent: a text, several turns, or a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine

Message = Mapping[str, Any]

_ROLES = ("system", "developer", "user", "assistant")
_MOST_TURNS = 1000


class Prompts(NamedTuple):
    """The messages of the first request, and what the user says afterwards, once each was answered."""

    messages: tuple[Message, ...]
    turns: tuple[str, ...] = ()


def prompts_of(content: Any) -> Prompts:
    """Return what is sent for a content. BadLine: nothing can be.

    A list of texts, or of messages of the user, is sent turn by turn. A list with messages of the assistant is a
    conversation as it stood: it is sent whole, and its last message must be the user's.
    """
    if isinstance(content, str):
        if not content.strip():
            raise BadLine("the prompt is empty")
        return Prompts(({"role": "user", "content": content},))
    if isinstance(content, list):
        return _conversation(content)
    if content is None:
        raise BadLine("there is no prompt")
    raise BadLine("the prompt is neither a string nor a list of turns")


def _conversation(content: Sequence[Any]) -> Prompts:
    if not content:
        raise BadLine("the prompt is an empty list")
    if len(content) > _MOST_TURNS:
        raise BadLine(f"the prompt has more than {_MOST_TURNS:,} turns")
    messages = tuple(_message(value, number) for number, value in enumerate(content, start=1))
    roles = [message["role"] for message in messages]
    if "user" not in roles:
        raise BadLine("the prompt has no user message")
    if "assistant" in roles:
        if roles[-1] != "user":
            raise BadLine(f"the conversation ends with a message from the {roles[-1]}, not from the user")
        return Prompts(messages)
    first = roles.index("user")
    if roles.count("user") != len(roles) - first:
        raise BadLine("a system message comes after a user message")
    return Prompts(messages[: first + 1], tuple(message["content"] for message in messages[first + 1 :]))


def _message(value: Any, number: int) -> Message:
    role: Any = "user"
    text: Any = value
    if isinstance(value, str):
        pass
    elif isinstance(value, dict) and "role" in value:
        role, text = value["role"], value.get("content")
    else:
        raise BadLine(f"turn {number} of the prompt is neither a string nor a message with role and content")
    if role not in _ROLES:
        raise BadLine(f"turn {number} of the prompt has the role {clip(visible(str(role)), 40)}")
    if not isinstance(text, str) or not text.strip():
        raise BadLine(f"turn {number} of the prompt has no text")
    return {"role": role, "content": text}
