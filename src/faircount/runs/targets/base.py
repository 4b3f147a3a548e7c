"""What the engine and a target hand each other: a request, an answer, or an error that is recorded.

Which errors are blocks is decided here, too: the signals of guardrails in code of anybody's, and refusals of providers.
A signal is known by the name of its class, so that another tool's own counts where that is installed, and so does one
of the same name where it is not. A refusal is known by the words of the provider, see `faircount.core.outcomes`.
"""

from __future__ import annotations

import copy
import types
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from faircount.chat.settings import ChatSettings
from faircount.chat.types import FILTERED, ChatError
from faircount.core.errors import FaircountError
from faircount.core.outcomes import policy_block
from faircount.core.text import clip, mask_secrets, visible
from faircount.testing.cases import category_names, text_of

BLOCKED = "blocked"
T = TypeVar("T")


class Request(Struct, frozen=True):
    """One attempt of a case. `messages` are in OpenAI's shape, `parameters` are the case's own (`api_params`).

    `fields` is what a dataset says of the entry, for targets that take it; empty for tests. `conversation` is the same
    for all requests of one conversation, and empty where a request stands alone.
    """

    messages: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    case: str = ""
    attempt: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    conversation: str = ""


class Answer(Struct, frozen=True):
    """What a target answered.

    `tools_called` has OpenAI's shape: {"id", "type", "function": {"name", "arguments"}}, with the arguments as the text
    that came. `latency` is in seconds, of the try that succeeded; `waited` is what was spent between tries. What is
    not known is None: a `cost` of 0.0 says that the answer was free.
    """

    output: str = ""
    tools_called: tuple[Mapping[str, Any], ...] = ()
    context: tuple[str, ...] = ()
    latency: float = 0.0
    model: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    tries: int = 1
    waited: float = 0.0
    request_id: str | None = None
    let_through: bool | None = None
    """What a guardrail decided that answers yes or no; `output` is then "True" or "False"."""


class TargetError(FaircountError):
    """A request without an answer that can be judged, in a sentence without secrets.

    `kind` is that of `faircount.chat.types.ChatError` ("status", "timeout", "connection" ...), or

        blocked       a guardrail or the provider's policy stopped the request or the answer; `categories` are those
                      that it named, `policy_block` is the pattern by which the provider's words were understood
        parameters    the target cannot be asked with these parameters
        not recorded  a replay has no answer to this prompt
        exit code     a program ended with another code than 0
        wrong answer  the user's code returned something that is no answer

    or, where the user's code raised something, the name of its type. `answer` is what came nevertheless and was paid
    for, where something did.
    """

    # Incomplete: the same request may be answered another time.
    exit_code = 4

    def __init__(
        self,
        kind: str,
        message: str,
        tries: int = 1,
        waited: float = 0.0,
        *,
        answer: Answer | None = None,
        categories: tuple[str, ...] = (),
        policy_block: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.tries = tries
        self.waited = waited
        self.answer = answer
        self.categories = categories
        self.policy_block = policy_block


class Target(ABC):
    """Something that answers. `name` is what the user called it.

    `decides`: it is a guardrail that says yes or no, so that nobody has to judge its answers.
    """

    name: str
    decides: bool = False

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return plain data without secrets from which `components.make_again` makes this target."""

    @abstractmethod
    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request, or raise TargetError."""

    async def close(self) -> None:
        """Give back what the target holds."""
        return


def plain_messages(request: Request) -> list[dict[str, Any]]:
    """Return messages that may be changed. A field that is null is not there; only `content` may say null."""
    return [
        {
            name: value if isinstance(value, str) else copy.deepcopy(value)
            for name, value in message.items()
            if value is not None or name == "content"
        }
        for message in request.messages
    ]


def prompt_of(request: Request) -> str:
    """Return the last message of the user, as text."""
    return _last_of(request, "user")


def system_of(request: Request) -> str | None:
    """Return the last message of the system, as text; None where there is none."""
    present = any(message.get("role") == "system" for message in request.messages)
    return _last_of(request, "system") if present else None


def _last_of(request: Request, role: str) -> str:
    contents = (message.get("content") for message in reversed(request.messages) if message.get("role") == role)
    return text_of(next(contents, ""))


# -- blocks -------------------------------------------------------------------------------------------------------


SIGNALS = frozenset(["GuardrailTriggered", "GuardrailTrigger"])
"""Ours, and that of the tool whose target modules can be used."""
_MOST = 100
_LONGEST = 200


def has_name(error: BaseException, names: frozenset[str]) -> bool:
    """Return whether an error is of a class of one of these names, or of a subclass of one."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def is_signal(error: BaseException) -> bool:
    """Return whether an error says that a guardrail stopped something."""
    return has_name(error, SIGNALS)


def categories_of(named: object) -> tuple[str, ...]:
    """Return the names of categories as they are recorded."""
    return tuple(clip(visible(mask_secrets(name)), _LONGEST) for name in category_names(named)[:_MOST])


def blocked(error: BaseException, message: str) -> TargetError:
    """Return the record of a signal; `message` is what it said, fit for people."""
    return TargetError(BLOCKED, message, categories=categories_of(getattr(error, "categories", ())))


def unanswered(error: ChatError) -> TargetError:
    """Return the record of a request that the transport has no answer to; a refusal of the provider's is a block."""
    kind = BLOCKED if error.kind == FILTERED else error.kind
    return TargetError(kind, str(error), error.tries, error.waited, policy_block=error.policy_block)


def classified(error: TargetError) -> TargetError:
    """Return an error, as a block if its words are those of a provider that refuses a prompt.

    A target that sees all that a server says decides for itself; this is for all others, whoever wrote them.
    """
    pattern = None if error.kind == BLOCKED else policy_block(f"{error.kind}: {error.message}")
    if pattern is None:
        return error
    return TargetError(BLOCKED, error.message, error.tries, error.waited, answer=error.answer, policy_block=pattern)


# -- how long a target is waited for ------------------------------------------------------------------------------


async def in_time(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Return what a coroutine returns, or raise TimeoutError; one that never waits takes no timer."""
    import asyncio

    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _rest(work, waits_for)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that waits for something."""
    try:
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  whatever it is, it is for the coroutine
                waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
    except StopIteration as done:
        result: T = done.value
        return result


# -- how patiently a target is asked ------------------------------------------------------------------------------


_RETRY_SETTINGS = (
    "timeout",
    "tries",
    "requests_per_minute",
    "backoff",
    "longest_backoff",
    "longest_wait",
    "seed",
    "prices",
)


def recorded_retries(chat: ChatSettings) -> dict[str, Any]:
    """Return what is written down."""
    return {name: msgspec.to_builtins(getattr(chat, name)) for name in _RETRY_SETTINGS}


def with_file_settings(chat: ChatSettings, **file: Any) -> ChatSettings:
    """Return settings with what a file says; what differs from the defaults was told by the user and stays."""
    default = ChatSettings()
    changed = {
        name: value
        for name, value in file.items()
        if value is not None and getattr(chat, name) == getattr(default, name)
    }
    return msgspec.structs.replace(chat, **changed)
