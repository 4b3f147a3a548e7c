"""The server behind the page: it listens on this machine alone, lets in who has the token, and answers with pages.

Every answer carries a policy by which a browser runs and loads nothing but our own files. Requests are checked before
anything else sees them: the method, the host that they name (a foreign name could have been pointed here), where they
come from, and the token. Only forms of pages that write, such as those for labels, may be sent; see `forms`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import uvicorn
from msgspec import Struct
from starlette.applications import Starlette

from faircount.app.web.forms import LONGEST_FORM, TOKEN_FIELD
from faircount.core.errors import UsageError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
TOKEN = "token"
LEAST_TOKEN = 16
_METHODS = ("GET", "HEAD")
_FROM_HERE = ("same-origin", "none")
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LONGEST_ADDRESS = 16 * 1024
_USUAL_PORT = 80

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class Access(Struct, frozen=True):
    """Who is let in: decided once, before the server starts."""

    host: str
    port: int
    token: str

    @classmethod
    def for_host(cls, host: str, port: int, token: str | None) -> Access:
        """Return who is let in on a host; one that others can reach needs a token that the user chose."""
        if not is_loopback(host) and token is None:
            raise UsageError(
                f"--host {host} lets other machines open this page, with all prompts and responses in it, over a "
                "connection that is not encrypted; if that is what you want, also choose a secret with --token TOKEN"
            )
        if token is not None and len(token) < LEAST_TOKEN:
            raise UsageError(f"--token must have at least {LEAST_TOKEN} characters: it is all that keeps others out")
        return cls(host, port, token or secrets.token_urlsafe(24))

    @property
    def cookie(self) -> str:
        """The name of the cookie: servers on other ports share a browser's cookies."""
        return f"faircount-{self.port}"

    @property
    def form_token(self) -> str:
        """What forms of our own pages send along: another site can neither read it nor guess it."""
        return hmac.new(self.token.encode(), b"forms of faircount view", hashlib.sha256).hexdigest()

    @property
    def address(self) -> str:
        """The address of the page for people, with the token in it."""
        host, number = self.host, ipaddress_of(self.host)
        if number is not None and number.is_unspecified:
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/?{urlencode({TOKEN: self.token})}"

    def knows_host(self, name: str) -> bool:
        """Return whether a request means this server: a name that somebody pointed at this address does not."""
        host, colon, port = name.rpartition(":")
        if not colon or port.endswith("]"):  # a browser leaves the usual port out
            host, port = name, str(_USUAL_PORT)
        if port != str(self.port):
            return False
        known = {*_LOCAL_NAMES, self.host, f"[{self.host}]"}
        if is_loopback(self.host):
            return host in known
        # Where others are let in, the server has addresses that it does not know; a number cannot be pointed elsewhere.
        return host in known or ipaddress_of(host.strip("[]")) is not None or host == socket.gethostname()

    def knows_origin(self, origin: str) -> bool:
        """Return whether a page of this server made a request."""
        parts = urlsplit(origin)
        return parts.scheme == "http" and self.knows_host(parts.netloc)


def ipaddress_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is, if it is none by name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    address = ipaddress_of(host)
    return host == "localhost" if address is None else address.is_loopback


class Guard:
    """Lets requests through to the page that this server's own pages make, with the token; others are refused."""

    def __init__(
        self,
        app: Callable[[Message, Receive, Send], Awaitable[None]],
        access: Access,
        forms: Collection[str] = (),
    ) -> None:
        self._app = app
        self._access = access
        self._forms = forms

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal:
            await _answer(send, *refusal)
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN)
        if given is not None and secrets.compare_digest(given.encode(), self._access.token.encode()):
            # The token leaves the address at once: it would stay in the history, and on the screen.
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            place = _local_path(scope["path"]) + (f"?{rest}" if rest else "")
            cookie = f"{self._access.cookie}={self._access.token}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(send, 303, "", {"location": place, "set-cookie": cookie})
            return
        if not self._has_token(headers):
            await _answer(send, 403, "Open the address that `faircount view` printed: it has the token in it.\n")
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS.items())]
            await send(message)

        await self._app({**scope, TOKEN_FIELD: self._access.form_token}, receive, with_headers)

    def _refusal(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        is_form = scope["method"] == "POST" and scope["path"] in self._forms
        if scope["method"] not in _METHODS and not is_form:
            return 405, "This page only reads.\n"
        if len(scope["query_string"]) > _LONGEST_ADDRESS:
            return 414, "The address is too long.\n"
        if not self._access.knows_host(headers.get("host", "")):
            return 421, "This server is not the one that the address names.\n"
        origin = headers.get("origin")
        if (origin is not None and not self._access.knows_origin(origin)) or (
            headers.get("sec-fetch-site", "none") not in _FROM_HERE
        ):
            return 403, "Another site made this request.\n"
        if is_form:
            # A browser says where a form comes from. What does not say it is no page of ours.
            if origin is None or headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return 403, "This form was not sent by a page of this server.\n"
            length = headers.get("content-length", "")
            if not length.isdecimal() or int(length) > LONGEST_FORM:
                return 413, "This is too long.\n"
        return None

    def _has_token(self, headers: dict[str, str]) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._access.cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self._access.token.encode())


def _local_path(path: str) -> str:
    """Return a path that cannot be taken for another host."""
    return "/" + path.lstrip("/\\") if path.isascii() and path.isprintable() else "/"


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    listed = {"content-type": "text/plain; charset=utf-8", **HEADERS, **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(listed.items())})
    await send({"type": "http.response.body", "body": text.encode()})


# -- starting and asking ----------------------------------------------------------------------------------------


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # From now on, who asks early waits.
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        where = f"port {port} of {host}" if port else host
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen on {where}: {reason}; choose another with --port or --host") from error
    return listening


def serve(app: Starlette, access: Access, listening: socket.socket, *, browser: bool) -> None:
    """Answer requests until an interrupt; open the browser once the server listens."""
    config = uvicorn.Config(
        Guard(app, access, app.state.forms),
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, (lambda: webbrowser.open(access.address)) if browser else lambda: None)
    try:
        server.run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], object]) -> None:
        super().__init__(config)
        self._when_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and then open the browser, which may take a while."""
        await super().startup(sockets)
        asyncio.get_running_loop().run_in_executor(None, self._when_started)


def get(app: Starlette, address: str) -> tuple[int, bytes]:
    """Return the status and the content of a page, without a server."""
    path, _, query = address.partition("?")
    status, content = 500, bytearray()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path if path.startswith("/") else f"/{path}",
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": ("localhost", 80),
    }

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            content.extend(message.get("body", b""))

    async def ask() -> None:
        await app({**scope, "app": app}, receive, send)

    # In a thread of its own: a notebook has a loop that is running already.
    with ThreadPoolExecutor(1) as alone:
        alone.submit(asyncio.run, ask()).result()
    return status, bytes(content)
