"""Where requests go: the address of a server, whether it is this machine, and the proxy on the way."""

from __future__ import annotations

import base64
import re
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

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
        told = named.get(self._parts.scheme) or named.get("all")
        return _proxy(told) if told else None


def _parts(base_url: str, named: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and _is_host(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or visible(base_url) != base_url or " " in base_url:
        shown = clip(visible(mask_secrets(base_url)), _LONGEST_SHOWN)
        raise UsageError(f'{named} is "{shown}"; write an address such as https://api.openai.com/v1')
    return parts


def _is_host(host: str | None) -> bool:
    return bool(host) and re.fullmatch(r"[\w.:%~-]+", host or "") is not None


def _proxy(told: str) -> Proxy:
    try:
        parts = urlsplit(told if "://" in told else f"http://{told}")
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
