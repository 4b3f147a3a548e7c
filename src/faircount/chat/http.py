"""HTTP as this house speaks it: one request, what arrived, and what went wrong in words of our own.

Certificates are checked unless the user says otherwise, redirects are not followed, cookies are not kept, nothing is
unpacked, and no credentials are looked up in ~/.netrc. The errors of the HTTP library, which quote what came over the
wire, reach no message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.chat import wire
from faircount.chat.address import Address
from faircount.chat.provider import Trouble
from faircount.chat.rate_limit import asked_wait, worth_another_try
from faircount.version import __version__

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from yarl import URL

LARGEST_ANSWER = 16 * 1024 * 1024
_LARGEST_ERROR = 64 * 1024
# The HTTP library warns of larger bodies that are given to it at once.
_LARGEST_AT_ONCE = 1024 * 1024

_HEADERS = {
    "Accept": "application/json",
    # A small answer can unpack to a very large one.
    "Accept-Encoding": "identity",
    "User-Agent": f"faircount/{__version__}",
}


class Arrived(Struct, frozen=True):
    """An answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Arrived({self.status})"

    @property
    def good(self) -> bool:
        """Whether the status says that all went well."""
        return 200 <= self.status < 300

    @property
    def packed(self) -> bool:
        """Whether the body is compressed, which was not asked for."""
        return self.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


class Connections:
    """Connections to one server, for one event loop. `named` is what the user calls the address in their settings."""

    def __init__(
        self, address: Address, timeout: float, *, named: str = "base_url", tls: ssl.SSLContext | bool = True
    ) -> None:
        # Loaded now and not while the first request is timed.
        import aiohttp  # noqa: F401

        self._address = address
        self._timeout = timeout
        self._named = named
        self._tls = tls
        self._proxy = address.proxy()
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> Arrived:
        """Send one request and return what arrived, whatever its status is; raise `Trouble` where nothing did.

        Secrets belong into `headers`: the library sends those of a session to a proxy too when it asks for a tunnel.
        """
        import asyncio
        import io

        import aiohttp
        from aiohttp.http import HttpProcessingError

        session = self._session or self._open()
        data = body if body is None or len(body) <= _LARGEST_AT_ONCE else io.BytesIO(body)
        try:
            async with (
                asyncio.timeout(self._timeout),
                session.request(method, url, data=data, **self._way(headers)) as response,
            ):
                return Arrived(response.status, response.headers, await _content(response))
        except TimeoutError:
            raise Trouble(f"no answer within {self._timeout:g} s", kind="timeout", again=True) from None
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            raise self._connection_trouble(error) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        self._session = aiohttp.ClientSession(
            # How many requests are under way at once is the client's business.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            # With it, the library would read credentials from ~/.netrc as well as proxies from the environment.
            trust_env=False,
        )
        # The library sends GET and the like a second time by itself; how often a request goes out is counted here.
        self._session._retry_connection = False
        return self._session

    def _way(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return what a request carries and by which way it goes.

        Through a tunnel the headers of a request reach the server, which has no business with the proxy's password.
        """
        carried = dict(headers)
        way: dict[str, Any] = {"headers": carried, "allow_redirects": False}
        if self._proxy is not None:
            way["proxy"] = self._proxy.url
            if self._proxy.credentials is not None:
                told = {"Proxy-Authorization": self._proxy.credentials}
                if self._address.is_secure:
                    way["proxy_headers"] = told
                else:
                    carried.update(told)
        return way

    def _connection_trouble(self, error: Exception) -> Trouble:
        import aiohttp

        if isinstance(error, aiohttp.ClientHttpProxyError):
            return Trouble(
                f"the proxy refused to connect (status {error.status})",
                kind="connection",
                again=worth_another_try(error.status),
            )
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            return Trouble(
                "no secure connection: this machine does not trust its certificate, or it does not speak TLS",
                kind="connection",
            )
        return Trouble(_what_broke(error, self._named), kind="connection", again=True)


def status_trouble(arrived: Arrived, said: str, *, refusal: str, named: str, hint: str = "") -> Trouble:
    """Return the trouble with a status that is none of a good answer.

    `said` are the words of the server, fit for people; `refusal` says whose key is refused; `named` is what the user
    calls the address; `hint` is for a server that knows no such place.
    """
    status = arrived.status
    if status in (401, 403):
        return Trouble(f"{refusal} (status {status}){said}", kind="refused key", status=status)
    if 300 <= status < 400:
        return Trouble(
            f"the server redirects (status {status}), and a key is not sent on; set {named} to the final address",
            kind="redirect",
            status=status,
        )
    again = worth_another_try(status)
    return Trouble(
        f"the server answered with status {status}{said}{hint if status == 404 else ''}",
        kind="status",
        status=status,
        again=again,
        wait=asked_wait(arrived.headers) if again else None,
    )


def said_in(body: bytes) -> str:
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


def _what_broke(error: Exception, named: str) -> str:
    """Return what happened to a connection, in words of our own and of the system."""
    import socket

    import aiohttp

    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return f"cannot resolve the name of the server; check {named}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(cause, OSError):
        reason = os.strerror(cause.errno).lower() if cause.errno else "it was closed"
        return f"no connection to the server ({reason})"
    return "the answer is not valid HTTP"
