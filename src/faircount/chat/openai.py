"""OpenAI-compatible servers over HTTP: one request, one answer.

How HTTP is spoken is said in `http`. The words of a server reach a message only clipped, made visible and without
secrets; headers reach none.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from faircount.chat import wire
from faircount.chat.address import Address
from faircount.chat.answer import ChatAnswer, without_key
from faircount.chat.completion import incomplete, read_completion
from faircount.chat.http import Arrived, Connections, said_in, status_trouble
from faircount.chat.provider import ChatRequest, Trouble, refusal
from faircount.chat.secret import Key
from faircount.chat.settings import ChatSettings
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

_LONGEST_QUOTE = 300
_LONGEST_ID = 200
_HEADERS = {"Content-Type": "application/json"}


class OpenAI:
    """A server that speaks OpenAI's protocol; see `faircount.chat.provider.Provider`."""

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
        body = wire.encode({"model": request.model, "messages": request.messages, **request.parameters})
        headers = _HEADERS if self._key is None else {**_HEADERS, "Authorization": self._key.header}
        arrived = await self._connections.send("POST", self._url, headers, body)
        if not arrived.good:
            raise self._status_trouble(arrived)
        return without_key(self._read(arrived), self._key)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def _read(self, arrived: Arrived) -> ChatAnswer:
        if arrived.packed:
            raise Trouble("the answer is compressed, which was not asked for", kind="not json", again=True)
        try:
            content = wire.decode(arrived.body)
        except wire.NotJson:
            raise Trouble(f"the answer is not JSON{self._quoted(arrived.body)}", kind="not json", again=True) from None
        if isinstance(content, Mapping) and content.get("error") and not content.get("choices"):
            raise self._error_trouble(content["error"], arrived)
        answer = read_completion(content)
        told = arrived.headers.get("x-request-id") or answer.request_id
        return replace(answer, request_id=clip(wire.mended(told), _LONGEST_ID) if told else None)

    def _error_trouble(self, error: object, arrived: Arrived) -> Trouble:
        """Return the trouble with an error under status 200, as gateways send it, with the true status inside."""
        status = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(status, int) and 400 <= status < 600:
            return self._status_trouble(replace(arrived, status=status))
        return self._refused(arrived) or incomplete(f"is an error{self._quoted(arrived.body)}")

    def _status_trouble(self, arrived: Arrived) -> Trouble:
        said = self._quoted(arrived.body)
        return self._refused(arrived) or status_trouble(
            arrived, said, refusal=self._refusal(), named="base_url", hint="; check base_url and model"
        )

    def _refused(self, arrived: Arrived) -> Trouble | None:
        """Return the trouble with a prompt that the provider does not take, as the whole error tells, code included."""
        return refusal(arrived.body.decode("utf-8", "replace"), self._quoted(arrived.body), arrived.status)

    def _refusal(self) -> str:
        if self._key is not None:
            return f"the server rejected the key in {visible(self._variable)}"
        if self._variable:
            return f"the server requires a key, but {visible(self._variable)} is not set"
        return "the server requires a key, but api_key_env names no variable"

    def _quoted(self, body: bytes) -> str:
        """Return what the server said, behind a colon; nothing where it said nothing."""
        said = said_in(body).strip()
        if self._key is not None:
            said = self._key.hide_in_message(said)
        said = clip(visible(mask_secrets(said)), _LONGEST_QUOTE)
        return f": {said}" if said else ""
