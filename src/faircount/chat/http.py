"""HTTP: an address, a key, JSON there and back, one request, and what went wrong in words of our own.

A key is taken from the environment, sent to the server that needs it, and shown to nobody. Certificates are checked
unless the user says otherwise, redirects are not followed, cookies are not kept, nothing is decompressed, and no
credentials are looked up in ~/.netrc. The errors of the HTTP library, which quote what came over the wire, reach no
message.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from faircount.chat.rate_limit import asked_wait, worth_another_try
from faircount.chat.types import Trouble
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.version import __version__

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from yarl import URL


# -- keys ---------------------------------------------------------------------------------------------------------

HIDDEN = "[key]"

# Keys made up for servers that take any ("x", "none", "EMPTY") are words that an answer may well contain.
_SHORTEST_IN_MESSAGES = 4
_SHORTEST_IN_ANSWERS = 16
_BETWEEN = re.compile(r"(?:\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|[^A-Za-z0-9])+")
"""Anything but letters and digits, as it is or as JSON escapes it."""


class Key:
    """A secret that neither `repr` nor pickling gives away."""

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def from_environment(cls, variable: str) -> Key | None:
        """Return the key in a variable, or None where the variable is missing or empty."""
        value = os.environ.get(variable, "").strip() if variable else ""
        if not value:
            return None
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"{visible(variable)} contains characters that a key cannot have; set it again")
        return cls(value)

    @property
    def header(self) -> str:
        """The value of the header that carries the key."""
        return f"Bearer {self._value}"

    def hide_in_message(self, text: str) -> str:
        """Return a text for people without the key."""
        return self._hidden(text) if len(self._value) >= _SHORTEST_IN_MESSAGES else text

    def hide_in_answer(self, text: str) -> str:
        """Return a text of the model without the key, if that is long enough not to be a word."""
        return self._hidden(text) if len(self._value) >= _SHORTEST_IN_ANSWERS else text

    def _hidden(self, text: str) -> str:
        """Return a text without the key: as it is, broken by anything but letters and digits, in base64 or in hex."""
        text = text.replace(self._value, HIDDEN)
        letters = _BETWEEN.sub("", text)
        found = [written for written in self._disguises if written in letters]
        if not found:
            return text
        places, after = list[int](), 0
        for gap in _BETWEEN.finditer(text):
            places += range(after, gap.start())
            after = gap.end()
        places += range(after, len(text))
        kept, after = list[str](), 0
        for match in re.finditer("|".join(found), letters):
            start, end = places[match.start()], places[match.end() - 1] + 1
            kept += [text[after:start], HIDDEN]
            after = end
        return "".join([*kept, text[after:]])

    @cached_property
    def _disguises(self) -> tuple[str, ...]:
        """The letters and digits of the key and of its encodings, those that are too many to be there by chance."""
        made = (_BETWEEN.sub("", written) for written in (self._value, *_encodings(self._value.encode())))
        return tuple(dict.fromkeys(letters for letters in made if len(letters) >= _SHORTEST_IN_ANSWERS))

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be serialised")


def _encodings(value: bytes) -> Iterator[str]:
    """Yield a value in hex and in base64, there as it is inside a longer text at each of three alignments."""
    yield value.hex()
    yield value.hex().upper()
    for before in range(3):
        # What depends on the bytes beside the value is left out at both ends.
        encoded = base64.b64encode(bytes(before) + value).decode()
        yield encoded[(0, 2, 3)[before] : 8 * (before + len(value)) // 6]


# -- addresses ----------------------------------------------------------------------------------------------------

_LONGEST_SHOWN = 200


class Proxy(Struct, frozen=True):
    """A proxy without its credentials, and those as the value of the header that carries them."""

    url: str
    credentials: str | None = None

    def __repr__(self) -> str:
        return "Proxy()"


class Address:
    """A base URL, taken apart; `named` is what messages call it."""

    def __init__(self, base_url: str, named: str = "chat: base_url") -> None:
        self._parts = _parts(base_url, named)

    @property
    def completions(self) -> str:
        """Where chat completions are asked for. A query of the base URL stays where queries stand."""
        path = self._parts.path.rstrip("/") + "/chat/completions"
        return urlunsplit((self._parts.scheme, self._parts.netloc, path, self._parts.query, ""))

    @property
    def shown(self) -> str:
        """The address for people, without its query, which may hold anything."""
        address = urlunsplit((self._parts.scheme, self._parts.netloc, self._parts.path.rstrip("/"), "", ""))
        return clip(visible(mask_secrets(address)), _LONGEST_SHOWN)

    @property
    def is_secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self._parts.scheme == "https"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        import ipaddress

        host = (self._parts.hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def proxy(self) -> Proxy | None:
        """Return the proxy that the environment names for this address, or None. This machine needs none."""
        import urllib.request

        if self.is_local or urllib.request.proxy_bypass(self._parts.netloc):
            return None
        named = urllib.request.getproxies()
        proxy = named.get(self._parts.scheme) or named.get("all")
        return _proxy(proxy) if proxy else None


def _parts(base_url: str, named: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        usable = (
            parts.scheme in ("http", "https")
            and re.fullmatch(r"[\w.:%~-]+", parts.hostname or "") is not None
            and parts.port != 0
        )
    except ValueError:
        usable = False
    if not usable or visible(base_url) != base_url or " " in base_url:
        shown = clip(visible(mask_secrets(base_url)), _LONGEST_SHOWN)
        raise UsageError(f'{named} is "{shown}"; write an address such as https://api.openai.com/v1')
    return parts


def _proxy(proxy: str) -> Proxy:
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            "chat: the proxy set in the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) is not an http:// address; "
            "set another one, or list the server in NO_PROXY"
        )
    url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
    if parts.username is None:
        return Proxy(url)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(url, f"Basic {base64.b64encode(pair.encode()).decode()}")


# -- JSON: the fast way first, the careful way for what that refuses ----------------------------------------------


class InvalidJson(Exception):
    """Bytes that are no JSON."""


def encode_json(value: object, order: Literal["deterministic"] | None = None) -> bytes:
    """Return JSON. Half a surrogate pair, which prompts of attacks contain, is written as an escape."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain, order=order)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    try:
        sort = order is not None
        return json.dumps(value, default=_plain, allow_nan=False, sort_keys=sort, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise UsageError("chat: the messages or parameters contain something that cannot be written as JSON") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def json_digest(value: object) -> str:
    """Return the SHA-256 of a value; the order of keys does not matter."""
    return hashlib.sha256(encode_json(value, order="deterministic")).hexdigest()


def decode_json(body: bytes) -> Any:
    """Return what JSON says, or raise `InvalidJson`. NaN and Infinity are no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidJson from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def well_formed(text: str) -> str:
    """Return a text that can be written as UTF-8: half a surrogate pair becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# -- requests -----------------------------------------------------------------------------------------------------

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


class HttpResponse(Struct, frozen=True):
    """An answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpResponse({self.status})"

    @property
    def good(self) -> bool:
        """Whether the status says that all went well."""
        return 200 <= self.status < 300

    @property
    def compressed(self) -> bool:
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

    async def send(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> HttpResponse:
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
                return HttpResponse(response.status, response.headers, await _content(response))
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
                credentials = {"Proxy-Authorization": self._proxy.credentials}
                if self._address.is_secure:
                    way["proxy_headers"] = credentials
                else:
                    carried.update(credentials)
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


def status_trouble(arrived: HttpResponse, said: str, *, refusal: str, named: str, hint: str = "") -> Trouble:
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
        content = decode_json(body)
    except InvalidJson:
        return body.decode("utf-8", "replace")
    for _ in range(2):
        if isinstance(content, Mapping):
            content = next((content[name] for name in ("error", "message", "detail") if content.get(name)), content)
    if isinstance(content, str):
        return well_formed(content)
    return well_formed(body.decode("utf-8", "replace"))


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
