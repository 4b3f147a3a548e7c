"""What comes back: an answer with what it took, or an error with what was tried."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from faircount.chat.secret import Key
from faircount.core.errors import FaircountError

FILTERED = "filtered"
"""The kind of error that is a provider's refusal of the request."""


class ChatToolCall(Struct, frozen=True):
    """A tool that the model wants called; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str = "{}"


class ChatAnswer(Struct, frozen=True):
    """One answer of a model.

    `finish_reason` and `model` are what the server says. `latency` is that of the try that succeeded, in seconds;
    `waited` is what was spent on back-off and on waits that the server asked for. `cost` is None where no price is
    known. An answer from the cache keeps its tokens and its latency, took no tries, and cost nothing.
    """

    text: str
    tool_calls: tuple[ChatToolCall, ...] = ()
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    latency: float = 0.0
    tries: int = 1
    waited: float = 0.0
    cached: bool = False
    request_id: str | None = None


def without_key(answer: ChatAnswer, key: Key | None) -> ChatAnswer:
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


class ChatError(FaircountError):
    """A request without an answer, in a sentence without secrets.

    `kind` is one of

        status        the server answered with an error
        refused key   the server does not take the key, or wants one
        filtered      the provider refused the request by its policy: `policy_block` says by which pattern
        redirect      the server is somewhere else
        timeout       the answer was not there in time
        connection    no connection, or one that broke, or something that is not HTTP
        not json      the answer cannot be read
        incomplete    the answer is JSON and lacks what an answer needs
        too large     the answer is larger than any answer should be
        closed        the client was closed
    """

    # Incomplete: the same request may be answered another time.
    exit_code = 4

    def __init__(
        self,
        message: str,
        kind: str = "",
        status: int | None = None,
        tries: int = 0,
        waited: float = 0.0,
        policy_block: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.tries = tries
        self.waited = waited
        self.policy_block = policy_block
