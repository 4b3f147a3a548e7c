"""Any server over HTTP: the request is a template in a file, and a path says where in the JSON the answer stands.

How requests are repeated, paced and limited is that of `faircount.chat`: Retry-After is obeyed, redirects are not
followed, an answer of more than 16 MiB is refused. A journal records the file and its digest, never what stands in it:
headers may hold a key. What environment variables gave is hidden in messages and in answers.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import UnsetType, structs

from faircount.chat.http import (
    Address,
    Connections,
    HttpResponse,
    InvalidJson,
    Key,
    decode_json,
    encode_json,
    said_in,
    status_trouble,
    well_formed,
)
from faircount.chat.rate_limit import Clock, RateLimit, Retrying
from faircount.chat.settings import ChatSettings, Prices
from faircount.chat.types import ChatError, Trouble, refusal
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.base import (
    BLOCKED,
    Answer,
    Request,
    Target,
    TargetError,
    categories_of,
    recorded_retries,
    unanswered,
    with_file_settings,
)
from faircount.runs.targets.http_file import HttpFile, JsonPath, ReadFile, Templates, WrongPath, as_text, read_path
from faircount.runs.targets.user_code import hidden_in_answer, hidden_in_message
from faircount.testing.fields import is_secret

if TYPE_CHECKING:
    import asyncio
    import ssl

    from yarl import URL

_SERVER = re.compile(r"https?://[^/?#]+[/?#]", re.I)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_QUOTE = 300
_LONGEST_WORD = 200
_MOST_TOKENS = 2**53


class HttpTarget(Target):
    """A server that a file describes."""

    def __init__(self, name: str, file: ReadFile, chat: ChatSettings) -> None:
        self.name = name
        self._file = file
        self._spec = file.spec
        self._where = visible(pathlib.Path(file.path).name)
        self._chat = with_file_settings(chat, timeout=file.spec.timeout, tries=file.spec.tries)
        templates = Templates(self._where)
        self._url = templates.text(file.spec.url)
        self._headers = [(name, templates.text(text)) for name, text in self._all_headers()]
        self._query = [(name, templates.text(str_of(value))) for name, value in file.spec.query.items()]
        self._body = _body(file.spec, templates)
        self._method = (file.spec.method or ("GET" if self._body is None else "POST")).upper()
        self._secrets = [*templates.secrets, *_written_secrets(file.spec)]
        self._address = self._checked_address()
        self._paths = _paths(self._where, file.spec)
        self._guardrail = self._paths.get("passed") or self._paths.get("flagged")
        self.decides = self._guardrail is not None
        self._tls = _tls(file)
        clock = Clock()
        pace = RateLimit(self._chat.requests_per_minute, self._chat.longest_wait, clock)
        self._retrying = Retrying(self._chat, pace, clock)
        self._prices = Prices(self._chat.prices)
        self._connections: tuple[asyncio.AbstractEventLoop, Connections] | None = None

    def advice(self) -> list[str]:
        """Return what the user should know of the file."""
        advice = []
        if self._spec.verify is False:
            advice.append(
                f"{self._where}: verify is false: anyone between here and the server can read and change everything"
            )
        if _written_secrets(self._spec):
            advice.append(
                f"{self._where}: a header contains a key; it is used but not recorded. It is safer in an environment "
                'variable: write "$NAME" instead'
            )
        return advice

    def settings(self) -> Mapping[str, Any]:
        """Return which file says how the server is asked, with its digest, and how patiently."""
        return {
            "kind": "http",
            "name": self.name,
            "file": self._file.path,
            "version": self._file.digest,
            "url": self._hidden(self._address.shown),
            "chat": recorded_retries(self._chat),
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the server."""
        url, headers, body = self._request(request)
        connections = self._open()

        async def once() -> Answer | TargetError:
            return self._read(await connections.send(self._method, url, headers, body))

        try:
            tried = await self._retrying.first(once, contextlib.nullcontext(), self._hidden(self._address.shown))
        except ChatError as error:
            raise unanswered(error) from None
        answer = tried.value
        if isinstance(answer, TargetError):
            answer.tries, answer.waited = tried.tries, tried.waited
            raise answer
        return structs.replace(answer, latency=tried.latency, tries=tried.tries, waited=tried.waited)

    async def close(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections[1].close()
            self._connections = None

    # -- what is sent -------------------------------------------------------------------------------------------

    def _all_headers(self) -> list[tuple[str, str]]:
        headers = list(self._spec.headers.items())
        kind = None
        if self._spec.has_json:
            kind = "application/json"
        elif self._spec.form is not None:
            kind = "application/x-www-form-urlencoded"
        elif self._spec.text is not None:
            kind = "text/plain; charset=utf-8"
        if kind is not None and all(name.lower() != "content-type" for name, _ in headers):
            headers.append(("Content-Type", kind))
        for name, _ in headers:
            if not _HEADER.fullmatch(name):
                raise UsageError(f"{self._where}: headers: {visible(name)} is not a valid header name")
        return headers

    def _request(self, request: Request) -> tuple[URL, dict[str, str], bytes | None]:
        from yarl import URL

        headers = {name: self._header_value(name, text.fill(request)) for name, text in self._headers}
        url = self._url.fill(request, lambda text: quote(well_formed(text), safe=""))
        if not self._url.is_fixed and not _DOT_SEGMENTS.isdisjoint(urlsplit(url).path.split("/")):
            raise TargetError("parameters", "a field of the entry would make . or .. a part of the address", tries=0)
        query = urlencode([(name, well_formed(text.fill(request))) for name, text in self._query], quote_via=quote)
        if query:
            url += f"{'&' if '?' in url else '?'}{query}"
        return URL(url, encoded=True), headers, None if self._body is None else self._body(request)

    def _header_value(self, name: str, value: str) -> str:
        if not value.isprintable() or not value.isascii():
            raise TargetError(
                "parameters",
                f"the header {visible(name)} would contain a line break or another character that no header can have",
                tries=0,
            )
        return value

    def _checked_address(self) -> Address:
        first = self._url.parts[0] if self._url.parts else ""
        if not self._url.is_fixed and not (isinstance(first, str) and _SERVER.match(first)):
            raise UsageError(f"{self._where}: url: an entry cannot choose the server; write {{fields}} after its name")
        written = "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in self._url.parts)
        try:
            address = Address(written, f"{self._where}: url")
        except UsageError as error:
            raise UsageError(self._hidden(str(error))) from None
        if "@" in urlsplit(written).netloc:
            raise UsageError(
                f"{self._where}: url contains a user name or password; use a header and an environment variable"
            )
        return address

    def _open(self) -> Connections:
        import asyncio

        loop = asyncio.get_running_loop()
        if self._connections is None or self._connections[0] is not loop:
            self._connections = loop, Connections(self._address, self._chat.timeout, named="url", tls=self._tls)
        return self._connections[1]

    # -- what comes ---------------------------------------------------------------------------------------------

    def _read(self, arrived: HttpResponse) -> Answer | TargetError:
        """Return the answer, or what a guardrail said that stopped the request; Trouble where there is neither."""
        try:
            content = _NOTHING if arrived.compressed else decode_json(arrived.body)
        except InvalidJson:
            content = _NOTHING
        if arrived.status in self._spec.blocked.status or self._says_blocked(content):
            return self._stopped(arrived, content)
        if not arrived.good:
            message = self._quoted(arrived.body)
            raise refusal(arrived.body.decode("utf-8", "replace"), message, arrived.status) or status_trouble(
                arrived,
                message,
                refusal="the server rejected the key, or requires one; see [headers]",
                named="url",
                hint="; check url",
            )
        if arrived.compressed:
            raise Trouble("the answer is compressed, which was not asked for", kind="not json", again=True)
        if content is _NOTHING and (self.decides or "answer" in self._paths):
            raise Trouble(f"the answer is not JSON{self._quoted(arrived.body)}", kind="not json", again=True)
        return self._answered(arrived, content)

    def _says_blocked(self, content: Any) -> bool:
        if content is _NOTHING:
            return False
        found, wanted = self._find("blocked.when", content), self._spec.blocked.equals
        if isinstance(wanted, UnsetType):
            return any(found)
        return any(value == wanted and type(value) is type(wanted) for value in found)

    def _find(self, name: str, content: Any) -> list[Any]:
        """Return all that an answer has at a path of the file; nothing where the file has no such path."""
        path = self._paths.get(name)
        return [] if path is None else path.find(content)

    def _stopped(self, arrived: HttpResponse, content: Any) -> TargetError:
        messages = self._find("blocked.message", content)
        message = self._hidden(clip(visible(mask_secrets(as_text(messages[0]))), _LONGEST_QUOTE)) if messages else ""
        if not message:
            message = f"the guardrail stopped it (status {arrived.status}){self._quoted(arrived.body)}"
        found = self._find("blocked.categories", content)
        names = [self._hidden(name) for value in found for name in categories_of(value)]
        return TargetError(BLOCKED, message, categories=tuple(dict.fromkeys(names)))

    def _answered(self, arrived: HttpResponse, content: Any) -> Answer:
        used = self._used(content)
        if self._guardrail is not None:
            through = self._decision(self._guardrail, content)
            return Answer(output=str(through), let_through=through, **used)
        if self._spec.answer is None:
            return Answer(output=self._in_answer(arrived.body.decode("utf-8", "replace")), **used)
        found = self._find("answer", content)
        if not found:
            raise Trouble(
                f"the answer has no {visible(self._spec.answer)}{self._quoted(arrived.body)}", kind="incomplete"
            )
        return Answer(output=self._in_answer(well_formed("".join(map(as_text, found)))), **used)

    def _decision(self, path: JsonPath, content: Any) -> bool:
        found = path.find(content)
        if not found or any(value not in (True, False) for value in found):
            raise Trouble(f"the answer has no true or false at {visible(path.text)}", kind="incomplete")
        # Several places are several checks: all of them have to pass, and one of them is enough to be flagged.
        return all(map(bool, found)) if self._spec.passed is not None else not any(map(bool, found))

    def _used(self, content: Any) -> dict[str, Any]:
        found = {
            name: next(iter(self._find(f"usage.{name}", content)), None) for name in self._spec.usage.__struct_fields__
        }
        used: dict[str, Any] = {}
        for name in ("prompt_tokens", "completion_tokens"):
            tokens = _amount(found[name], _MOST_TOKENS)
            used[name] = None if tokens is None else int(tokens)
        for name in ("model", "finish_reason"):
            word = found[name]
            used[name] = self._in_answer(clip(well_formed(word), _LONGEST_WORD)) if isinstance(word, str) else None
        cost = _amount(found["cost"], float("inf"))
        used["cost"] = self._prices.cost(
            used["model"], prompt_tokens=used["prompt_tokens"], completion_tokens=used["completion_tokens"]
        )
        return used | ({} if cost is None else {"cost": cost})

    def _quoted(self, body: bytes) -> str:
        """Return what the server said, behind a colon; nothing where it said nothing."""
        message = clip(visible(mask_secrets(self._hidden(said_in(body).strip()))), _LONGEST_QUOTE)
        return f": {message}" if message else ""

    def _hidden(self, text: str) -> str:
        return hidden_in_message(text, self._secrets)

    def _in_answer(self, text: str) -> str:
        return hidden_in_answer(text, self._secrets)


# -- from the file ----------------------------------------------------------------------------------------------


def _body(spec: HttpFile, templates: Templates) -> Callable[[Request], bytes] | None:
    """Return what makes the bytes of a body, if there is one."""
    if spec.has_json:
        fill = templates.json(spec.json)

        def write(request: Request) -> bytes:
            try:
                return encode_json(fill(request))
            except UsageError:
                raise TargetError("parameters", "the body cannot be written as JSON", tries=0) from None

        return write
    if spec.form is not None:
        form = [(name, templates.text(str_of(value))) for name, value in spec.form.items()]
        return lambda request: urlencode([(name, well_formed(text.fill(request))) for name, text in form]).encode()
    if spec.text is None:
        return None
    text = templates.text(spec.text)
    return lambda request: well_formed(text.fill(request)).encode()


def str_of(value: object) -> str:
    """Return a value of a query or form as it is written there."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _paths(where: str, spec: HttpFile) -> dict[str, JsonPath]:
    """Return where in an answer what is looked for stands, by the names that the file has for it."""
    texts = {f"usage.{name}": getattr(spec.usage, name) for name in spec.usage.__struct_fields__}
    texts |= {name: getattr(spec, name) for name in ("answer", "passed", "flagged")}
    texts |= {f"blocked.{name}": getattr(spec.blocked, name) for name in ("when", "categories", "message")}
    paths: dict[str, JsonPath] = {}
    for name, text in texts.items():
        try:
            paths |= {} if text is None else {name: read_path(text)}
        except WrongPath as error:
            raise UsageError(
                f"{where}: {name}: {visible(str(error))}; write a path such as choices[0].message.content"
            ) from None
    return paths


def _written_secrets(spec: HttpFile) -> list[Key]:
    """Return the secrets that stand in the file themselves: headers that are named or look like one."""
    found = []
    for name, value in spec.headers.items():
        labelled = f"{name}: {value}"
        if "$" not in value and (is_secret(name) or mask_secrets(labelled) != labelled):
            found.append(Key(value.rpartition(" ")[2]))
    return found


def _tls(file: ReadFile) -> ssl.SSLContext | bool:
    if isinstance(file.spec.verify, bool):
        return file.spec.verify
    import ssl

    authority = pathlib.Path(file.path).parent / file.spec.verify
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{visible(str(authority))}: not a file of certificates: {error.strerror or 'bad'}") from None


# -- from the answer --------------------------------------------------------------------------------------------


_NOTHING: Any = object()
"""Stands for a body that is no JSON."""


_DOT_SEGMENTS = frozenset([".", ".."])
"""Parts of a path that servers and proxies take away, the part before them included; no quoting helps."""


def _amount(value: object, most: float) -> float | None:
    """Return a number that is not negative and below a limit; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < most:
        return None
    return float(value)
