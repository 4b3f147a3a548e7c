"""One request and one answer, as the client and a provider hand them to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from faircount.chat.answer import FILTERED, ChatAnswer
from faircount.chat.settings import ChatSettings
from faircount.core.outcomes import policy_block

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
    the pattern of `faircount.core.policy_blocks` by which the provider refused the request, where all that it said
    shows it.
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
