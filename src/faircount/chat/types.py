"""What is asked and what comes back: requests, answers with what they took, errors with what was tried; and `Provider`.

A client hands requests to a provider, which returns an answer or raises `Trouble`, for one try; the client raises
`ChatError` where all tries came to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from faircount.chat.settings import ChatSettings
from faircount.core.errors import FaircountError
from faircount.core.outcomes import policy_block

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


Messages = Sequence[Mapping[str, Any]]


class ChatRequest(Struct, frozen=True):
    """What a model is asked; `parameters` are those of the settings and of the request together."""

    model: str
    messages: Messages
    parameters: Mapping[str, Any]


class Trouble(Exception):
    """One try that came to nothing.

    The message goes to people: it holds no secrets, and text of a server only clipped and made visible. `again` says
    whether another try may do better, `wait` for how many seconds the server wants to be left alone. `policy_block` is
    the pattern of `policy_blocks.json` by which the provider refused the request, where all that it said shows it.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        again: bool = False,
        wait: float | None = None,
        policy_block: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.again = again
        self.wait = wait
        self.policy_block = policy_block


def refusal(text: str, said: str, status: int | None) -> Trouble | None:
    """Return the trouble with a prompt that the provider refuses by its policy; None where `text` is another error.

    `text` is all that the provider sent, codes included; `said` are its words, fit for people, behind a colon.
    """
    pattern = policy_block(text)
    if pattern is None:
        return None
    words = f"the provider's policy refused the request{said}"
    return Trouble(words, kind=FILTERED, status=status, policy_block=pattern)


class Provider(Protocol):
    """What speaks with one kind of server. One is made for every event loop that asks.

    `where` names the server in messages. `ask` makes a single try and raises `Trouble` where there is no answer; time
    limit included, but no repetition, no limits, no prices and no cache: those are the client's. Whatever a provider
    needs of secrets it takes from the environment when it is made, and refuses to be made without with `UsageError`.
    """

    where: str

    def __init__(self, settings: ChatSettings) -> None: ...

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request, with tokens where they are told."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...
