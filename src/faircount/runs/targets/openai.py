"""A server that speaks OpenAI's protocol, or another that a provider reaches, through `faircount.chat`.

Messages go as they are and answers are kept as they came: the text is not stripped, tool calls count whatever the
finish reason says. Nothing is streamed: what REBEL and others set as `stream` is left out of the request. No answer is
taken from a cache, because every attempt would be a copy of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from faircount.chat.http import Key
from faircount.chat.settings import ChatSettings
from faircount.chat.types import ChatAnswer, ChatError
from faircount.core.errors import UsageError
from faircount.core.text import mask_secrets, visible
from faircount.runs.targets.base import Answer, Request, Target, TargetError, plain_messages, unanswered

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient

_NOT_SENT = ("stream", "stream_options")
_FILTERED = "content_filter"


class OpenAITarget(Target):
    """A model behind an OpenAI-compatible endpoint.

    A case's parameters go before those of the settings, `model` included. `client` stands for one made of the
    settings; `api_config` is the file that they were taken from, which a target made again reads for its key. The name
    is that of the provider.
    """

    def __init__(
        self, settings: ChatSettings, *, client: ChatClient | None = None, api_config: str | None = None
    ) -> None:
        self.chat = recordable(settings)
        self.name = self.chat.provider
        self._api_config = api_config
        if client is None:
            from faircount.chat.client import ChatClient

            client = ChatClient(self.chat)
        self._client = client

    def settings(self) -> Mapping[str, Any]:
        """Return where and how the model is asked; `stream` says that answers come whole."""
        return {
            "kind": "openai",
            "name": self.name,
            "chat": msgspec.to_builtins(self.chat),
            "api_config": self._api_config,
            "stream": False,
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the model."""
        parameters = {name: value for name, value in request.parameters.items() if name not in _NOT_SENT}
        try:
            reply = await self._client.ask(plain_messages(request), parameters=parameters)
        except ChatError as error:
            raise unanswered(error) from None
        except UsageError as error:  # what a case wants to send cannot be sent
            raise TargetError("parameters", str(error), tries=0) from None
        answer = _answer(reply)
        if reply.finish_reason == _FILTERED:
            raise TargetError(
                "blocked",
                "the provider's content filter stopped the answer (finish reason content_filter)",
                reply.tries,
                reply.waited,
                answer=answer,
            )
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def recordable(settings: ChatSettings) -> ChatSettings:
    """Return settings as a target uses and records them: no cache, no stream, and no secret among them."""
    kept = {name: value for name, value in settings.parameters.items() if name not in _NOT_SENT}
    refuse_key("openai: base_url or a parameter", [settings.base_url, kept], settings.api_key_env)
    return replace(settings, cache=None, parameters=kept)


def refuse_key(what: str, recorded: object, variable: str) -> None:
    """Raise UsageError where something that is recorded holds the key of a variable, or what looks like a key."""
    written = msgspec.json.encode(recorded).decode()
    key = Key.from_environment(variable)
    if mask_secrets(written) != written or (key is not None and key.hide_in_answer(written) != written):
        raise UsageError(
            f"{what} contains a key or what looks like one, and is recorded; put the key in an environment variable "
            f"and name it with --api-key-env (now {visible(variable) or 'none'})"
        )


def _answer(reply: ChatAnswer) -> Answer:
    return Answer(
        output=reply.text,
        tools_called=tuple(
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ),
        latency=reply.latency,
        model=reply.model,
        finish_reason=reply.finish_reason,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cost=reply.cost,
        tries=reply.tries,
        waited=reply.waited,
        request_id=reply.request_id,
    )
