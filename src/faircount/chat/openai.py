"""OpenAI-compatible servers over HTTP: one request, one answer.

Certificates are checked, redirects are not followed, cookies are not kept, nothing is unpacked, and no credentials are
looked up in ~/.netrc. The words of a server reach a message only clipped, made visible and without secrets; headers and
the errors of the HTTP library, which quote what came over the wire, reach none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.chat import wire
from faircount.chat.address import Address
from faircount.chat.answer import ChatAnswer, ChatToolCall
from faircount.chat.completion import incomplete, read_completion
from faircount.chat.exchange import ChatRequest, Trouble
from faircount.chat.key import Key
from faircount.chat.retrying import asked_wait, worth_another_try
from faircount.chat.settings import ChatSettings
from faircount.errors import UsageError
from faircount.text import clip, mask_secrets, visible
from faircount.version import __version__

if TYPE_CHECKING:
    import aiohttp

# How providers say that their filter refused a prompt, in a code or in words: Azure, OpenAI, and their gateways.
_FILTERS = re.compile(
    rb"content[ _-]filter|content management policy|content[ _-]policy|safety system|ResponsibleAIPolicyViolation", re.I
)
LARGEST_ANSWER = 16 * 1024 * 1024
_LARGEST_ERROR = 64 * 1024
_LONGEST_QUOTE = 300
_LONGEST_ID = 200
# The HTTP library warns of larger bodies that are given to it at once.
_LARGEST_AT_ONCE = 1024 * 1024

_HEADERS = {
    "Accept": "application/json",
    # A small answer can unpack to a very large one.
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": f"faircount/{__version__}",
}


class _Arrived(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"_Arrived({self.status})"


class OpenAI:
    """A server that speaks OpenAI's protocol; see `faircount.chat.exchange.Provider`."""

    def __init__(self, settings: ChatSettings) -> None:
        self._address = Address(settings.base_url)
        self._variable = settings.api_key_env
        self._timeout = settings.timeout
        self._key = Key.from_environment(self._variable)
        self.where = self._address.shown
        if self._key is None and self._variable and not self._address.is_local:
            raise UsageError(
                f"{self.where} needs a key: set the environment variable {visible(self._variable)}, "
                "or leave api_key_env empty if the server takes none"
            )
        # Loaded now and not while the first request is timed.
        import aiohttp  # noqa: F401
        from yarl import URL

        self._url = URL(self._address.completions)
        self._proxy = self._address.proxy()
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request, or raise `Trouble`."""
        body = wire.encode({"model": request.model, "messages": request.messages, **request.parameters})
        arrived = await self._send(body)
        if not 200 <= arrived.status < 300:
            raise self._status_trouble(arrived.status, arrived.body, asked_wait(arrived.headers))
        return self._without_key(self._read(arrived))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        self._session = aiohttp.ClientSession(
            # How many requests are under way at once is the client's business.
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            # With it, the library would read credentials from ~/.netrc as well as proxies from the environment.
            trust_env=False,
        )
        return self._session

    def _target(self) -> dict[str, Any]:
        """Return where a request goes and what it carries.

        The key is no header of the session: the library sends those to a proxy too when it asks for a tunnel. And
        through a tunnel the headers of a request reach the server, which has no business with the proxy's password.
        """
        headers = {} if self._key is None else {"Authorization": self._key.header}
        target: dict[str, Any] = {"url": self._url, "headers": headers, "allow_redirects": False}
        if self._proxy is not None:
            target["proxy"] = self._proxy.url
            if self._proxy.credentials is not None:
                told = {"Proxy-Authorization": self._proxy.credentials}
                if self._address.is_secure:
                    target["proxy_headers"] = told
                else:
                    headers.update(told)
        return target

    async def _send(self, body: bytes) -> _Arrived:
        import asyncio
        import io

        import aiohttp
        from aiohttp.http import HttpProcessingError

        session = self._session or self._open()
        data = body if len(body) <= _LARGEST_AT_ONCE else io.BytesIO(body)
        try:
            async with asyncio.timeout(self._timeout), session.post(data=data, **self._target()) as response:
                return _Arrived(response.status, response.headers, await _content(response))
        except TimeoutError:
            raise Trouble(f"no answer within {self._timeout:g} s", kind="timeout", again=True) from None
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            raise self._connection_trouble(error) from None

    def _connection_trouble(self, error: Exception) -> Trouble:
        import aiohttp

        if isinstance(error, aiohttp.ClientHttpProxyError):
            return Trouble(
                f"the proxy refuses to connect (status {error.status})",
                kind="connection",
                again=worth_another_try(error.status),
            )
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            return Trouble(
                "no secure connection: its certificate is not one that this machine trusts, or it speaks no TLS",
                kind="connection",
            )
        return Trouble(_what_broke(error), kind="connection", again=True)

    def _read(self, arrived: _Arrived) -> ChatAnswer:
        packed = arrived.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("", "identity"):
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

    def _error_trouble(self, error: object, arrived: _Arrived) -> Trouble:
        """Return the trouble with an error under status 200, as gateways send it, with the true status inside."""
        status = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(status, int) and 400 <= status < 600:
            return self._status_trouble(status, arrived.body, asked_wait(arrived.headers))
        return incomplete(f"is an error{self._quoted(arrived.body)}")

    def _status_trouble(self, status: int, body: bytes, wait: float | None) -> Trouble:
        said = self._quoted(body)
        if status in (401, 403):
            return Trouble(f"{self._refusal()} (status {status}){said}", kind="refused key", status=status)
        if 300 <= status < 400:
            return Trouble(
                f"the server sends us elsewhere (status {status}), and a key is not carried along; "
                "write the final address as base_url",
                kind="redirect",
                status=status,
            )
        if status == 400 and _FILTERS.search(body):
            return Trouble(f"the provider's content filter refused the request{said}", kind="filtered", status=status)
        again = worth_another_try(status)
        hint = "; check base_url and model" if status == 404 else ""
        return Trouble(
            f"the server answered with status {status}{said}{hint}",
            kind="status",
            status=status,
            again=again,
            wait=wait if again else None,
        )

    def _refusal(self) -> str:
        if self._key is not None:
            return f"the server refuses the key in {visible(self._variable)}"
        if self._variable:
            return f"the server wants a key, and {visible(self._variable)} is not set"
        return "the server wants a key, and api_key_env names no variable"

    def _quoted(self, body: bytes) -> str:
        """Return what the server said, behind a colon; nothing where it said nothing."""
        said = _said(body).strip()
        if self._key is not None:
            said = self._key.hide_in_message(said)
        said = clip(visible(mask_secrets(said)), _LONGEST_QUOTE)
        return f": {said}" if said else ""

    def _without_key(self, answer: ChatAnswer) -> ChatAnswer:
        """Return an answer in which a server that repeats the key does no harm."""
        if self._key is None:
            return answer
        hide = self._key.hide_in_answer
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


async def _content(response: aiohttp.ClientResponse) -> bytes:
    """Return the body: of an answer all, of an error the beginning."""
    good = 200 <= response.status < 300
    limit = LARGEST_ANSWER if good else _LARGEST_ERROR
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            response.close()
            if good:
                raise Trouble(f"the answer is larger than {limit // 1024 // 1024} MiB", kind="too large")
            break
    return b"".join(pieces)[:limit]


def _what_broke(error: Exception) -> str:
    """Return what happened to a connection, in words of our own and of the system."""
    import socket

    import aiohttp

    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return "the name of the server cannot be resolved; check base_url"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off before its end"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(cause, OSError):
        reason = os.strerror(cause.errno).lower() if cause.errno else "it was closed"
        return f"no connection to the server ({reason})"
    return "the answer is not HTTP as it should be"


def _said(body: bytes) -> str:
    """Return the sentence in an error body, wherever servers put it; else the body as it is."""
    try:
        content = wire.decode(body)
    except wire.NotJson:
        return body.decode("utf-8", "replace")
    for _ in range(2):
        if isinstance(content, Mapping):
            content = next((content[name] for name in ("error", "message", "detail") if content.get(name)), content)
    if isinstance(content, str):
        return wire.mended(content)
    return wire.mended(body.decode("utf-8", "replace"))
