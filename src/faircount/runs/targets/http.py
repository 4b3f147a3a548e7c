"""Any server over HTTP: the request is a template in a file, and a path says where in the JSON the answer stands.

How requests are repeated, paced and limited is that of `faircount.chat`: Retry-After is obeyed, redirects are not
followed, an answer of more than 16 MiB is refused. A journal records the file and its digest, never what stands in it:
headers may hold a key. What environment variables gave is hidden in messages and in answers.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct, UnsetType, structs

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
from faircount.runs.targets import retry_settings
from faircount.runs.targets.base import BLOCKED, Answer, Request, Target, TargetError
from faircount.runs.targets.guardrail import categories_of, unanswered
from faircount.runs.targets.http_file import HttpFile, ReadFile, path_in
from faircount.runs.targets.http_template import Templates, Text, as_text
from faircount.runs.targets.json_path import Path
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


class _Paths(Struct, frozen=True):
    """Where in an answer what is looked for stands."""

    answer: Path | None
    guardrail: Path | None
    when: Path | None
    categories: Path | None
    message: Path | None
    usage: Mapping[str, Path]

    @property
    def need_json(self) -> bool:
        """Whether an answer that is no JSON cannot be read."""
        return self.answer is not None or self.guardrail is not None


class _Stopped(Struct, frozen=True):
    """What a guardrail said that stopped the request."""

    message: str
    categories: tuple[str, ...]


class HttpTarget(Target):
    """A server that a file describes."""

    def __init__(self, name: str, file: ReadFile, chat: ChatSettings) -> None:
        self.name = name
        self._file = file
        self._told = file.told
        self._where = visible(pathlib.Path(file.path).name)
        self._chat = retry_settings.told_or(chat, timeout=file.told.timeout, tries=file.told.tries)
        templates = Templates(self._where)
        self._url = templates.text(file.told.url)
        self._headers = [(_header(self._where, told), templates.text(text)) for told, text in self._all_headers()]
        self._query = [(name, templates.text(str_of(value))) for name, value in file.told.query.items()]
        self._body = _body(file.told, templates)
        self._secrets = [*templates.secrets, *_written_secrets(file.told)]
        self._address = self._checked_address()
        self._paths = _paths(self._where, file.told)
        self.decides = self._paths.guardrail is not None
        self._tls = _tls(file)
        clock = Clock()
        pace = RateLimit(self._chat.requests_per_minute, self._chat.longest_wait, clock)
        self._retrying = Retrying(self._chat, pace, clock)
        self._prices = Prices(self._chat.prices)
        self._connections: tuple[asyncio.AbstractEventLoop, Connections] | None = None

    @property
    def version(self) -> str:
        """The digest of the file."""
        return self._file.digest

    def advice(self) -> list[str]:
        """Return what the user should know of the file."""
        advice = []
        if self._told.verify is False:
            advice.append(
                f"{self._where}: verify is false: anyone between here and the server can read and change everything"
            )
        if _written_secrets(self._told):
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
            "version": self.version,
            "url": self._hidden(self._address.shown),
            "chat": retry_settings.recorded(self._chat),
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the server."""
        url, headers, body = self._request(request)
        connections = self._open()

        async def once() -> Answer | _Stopped:
            return self._read(await connections.send(self._method, url, headers, body))

        try:
            tried = await self._retrying.first(once, contextlib.nullcontext(), self._hidden(self._address.shown))
        except ChatError as error:
            raise unanswered(error) from None
        told = tried.value
        if isinstance(told, _Stopped):
            raise TargetError(BLOCKED, told.message, tried.tries, tried.waited, categories=told.categories)
        return structs.replace(told, latency=tried.latency, tries=tried.tries, waited=tried.waited)

    async def close(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections[1].close()
            self._connections = None

    # -- what is sent -------------------------------------------------------------------------------------------

    @property
    def _method(self) -> str:
        return (self._told.method or ("GET" if self._body is None else "POST")).upper()

    def _all_headers(self) -> list[tuple[str, str]]:
        told = list(self._told.headers.items())
        kind = None
        if self._told.has_json:
            kind = "application/json"
        elif self._told.form is not None:
            kind = "application/x-www-form-urlencoded"
        elif self._told.text is not None:
            kind = "text/plain; charset=utf-8"
        if kind is not None and all(name.lower() != "content-type" for name, _ in told):
            told.append(("Content-Type", kind))
        return told

    def _request(self, request: Request) -> tuple[URL, dict[str, str], bytes | None]:
        from yarl import URL

        headers = {name: self._header_value(name, text.fill(request)) for name, text in self._headers}
        url = self._url.fill(request, _in_address)
        if not self._url.is_fixed and not _DOT_SEGMENTS.isdisjoint(urlsplit(url).path.split("/")):
            raise TargetError("parameters", "a field of the entry would make . or .. a part of the address", tries=0)
        query = urlencode([(name, well_formed(text.fill(request))) for name, text in self._query], quote_via=quote)
        if query:
            url += f"{'&' if '?' in url else '?'}{query}"
        return URL(url, encoded=True), headers, None if self._body is None else self._body.write(request)

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

    def _read(self, arrived: HttpResponse) -> Answer | _Stopped:
        content = _json_of(arrived)
        if arrived.status in self._told.blocked.status or self._says_blocked(content):
            return self._stopped(arrived, content)
        if not arrived.good:
            said = self._quoted(arrived.body)
            raise refusal(arrived.body.decode("utf-8", "replace"), said, arrived.status) or status_trouble(
                arrived,
                said,
                refusal="the server rejected the key, or requires one; see [headers]",
                named="url",
                hint="; check url",
            )
        if arrived.compressed:
            raise Trouble("the answer is compressed, which was not asked for", kind="not json", again=True)
        if content is _NOTHING and self._paths.need_json:
            raise Trouble(f"the answer is not JSON{self._quoted(arrived.body)}", kind="not json", again=True)
        return self._answered(arrived, content)

    def _says_blocked(self, content: Any) -> bool:
        rules = self._told.blocked
        if self._paths.when is None or content is _NOTHING:
            return False
        found = self._paths.when.find(content)
        if isinstance(rules.equals, UnsetType):
            return any(found)
        return any(value == rules.equals and type(value) is type(rules.equals) for value in found)

    def _stopped(self, arrived: HttpResponse, content: Any) -> _Stopped:
        told = [] if self._paths.message is None else self._paths.message.find(content)
        said = self._hidden(clip(visible(mask_secrets(as_text(told[0]))), _LONGEST_QUOTE)) if told else ""
        if not said:
            said = f"the guardrail stopped it (status {arrived.status}){self._quoted(arrived.body)}"
        found = [] if self._paths.categories is None else self._paths.categories.find(content)
        names = [self._hidden(name) for value in found for name in categories_of(value)]
        return _Stopped(said, tuple(dict.fromkeys(names)))

    def _answered(self, arrived: HttpResponse, content: Any) -> Answer:
        used = self._used(content)
        paths = self._paths
        if paths.guardrail is not None:
            through = self._decision(paths.guardrail, content)
            return Answer(output=str(through), let_through=through, **used)
        if paths.answer is None:
            return Answer(output=self._in_answer(arrived.body.decode("utf-8", "replace")), **used)
        found = paths.answer.find(content)
        if not found:
            raise Trouble(
                f"the answer has no {visible(paths.answer.text)}{self._quoted(arrived.body)}", kind="incomplete"
            )
        return Answer(output=self._in_answer(well_formed("".join(map(as_text, found)))), **used)

    def _decision(self, path: Path, content: Any) -> bool:
        found = path.find(content)
        if not found or any(value not in (True, False) for value in found):
            raise Trouble(f"the answer has no true or false at {visible(path.text)}", kind="incomplete")
        # Several places are several checks: all of them have to pass, and one of them is enough to be flagged.
        return all(map(bool, found)) if self._told.passed is not None else not any(map(bool, found))

    def _used(self, content: Any) -> dict[str, Any]:
        found = {name: next(iter(path.find(content)), None) for name, path in self._paths.usage.items()}
        used: dict[str, Any] = {name: _count(found.get(name)) for name in ("prompt_tokens", "completion_tokens")}
        for name in ("model", "finish_reason"):
            word = found.get(name)
            used[name] = self._in_answer(clip(well_formed(word), _LONGEST_WORD)) if isinstance(word, str) else None
        cost = _amount(found.get("cost"))
        used["cost"] = self._prices.cost(
            used["model"], prompt_tokens=used["prompt_tokens"], completion_tokens=used["completion_tokens"]
        )
        return used | ({} if cost is None else {"cost": cost})

    def _quoted(self, body: bytes) -> str:
        """Return what the server said, behind a colon; nothing where it said nothing."""
        said = clip(visible(mask_secrets(self._hidden(said_in(body).strip()))), _LONGEST_QUOTE)
        return f": {said}" if said else ""

    def _hidden(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.hide_in_message(text)
        return text

    def _in_answer(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.hide_in_answer(text)
        return text


# -- from the file ----------------------------------------------------------------------------------------------


class _Body(Struct, frozen=True):
    """What makes the bytes of a body."""

    json: Any = None
    form: tuple[tuple[str, Text], ...] | None = None
    text: Text | None = None

    def write(self, request: Request) -> bytes:
        """Return the body of a request."""
        if self.form is not None:
            pairs = [(name, well_formed(text.fill(request))) for name, text in self.form]
            return urlencode(pairs).encode()
        if self.text is not None:
            return well_formed(self.text.fill(request)).encode()
        try:
            return encode_json(self.json(request))
        except UsageError:
            raise TargetError("parameters", "the body cannot be written as JSON", tries=0) from None


def _body(told: HttpFile, templates: Templates) -> _Body | None:
    if told.has_json:
        return _Body(json=templates.json(told.json))
    if told.form is not None:
        return _Body(form=tuple((name, templates.text(str_of(value))) for name, value in told.form.items()))
    return None if told.text is None else _Body(text=templates.text(told.text))


def str_of(value: object) -> str:
    """Return a value of a query or form as it is written there."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _paths(where: str, told: HttpFile) -> _Paths:
    rules = told.blocked
    usage = {name: path_in(where, f"usage.{name}", getattr(told.usage, name)) for name in told.usage.__struct_fields__}
    return _Paths(
        answer=path_in(where, "answer", told.answer),
        guardrail=path_in(where, "passed", told.passed) or path_in(where, "flagged", told.flagged),
        when=path_in(where, "blocked.when", rules.when),
        categories=path_in(where, "blocked.categories", rules.categories),
        message=path_in(where, "blocked.message", rules.message),
        usage={name: path for name, path in usage.items() if path is not None},
    )


def _header(where: str, name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise UsageError(f"{where}: headers: {visible(name)} is not a valid header name")
    return name


def _written_secrets(told: HttpFile) -> list[Key]:
    """Return the secrets that stand in the file themselves: headers that are named or look like one."""
    found = []
    for name, value in told.headers.items():
        labelled = f"{name}: {value}"
        if "$" not in value and (is_secret(name) or mask_secrets(labelled) != labelled):
            found.append(Key(value.rpartition(" ")[2]))
    return found


def _tls(file: ReadFile) -> ssl.SSLContext | bool:
    if isinstance(file.told.verify, bool):
        return file.told.verify
    import ssl

    authority = pathlib.Path(file.path).parent / file.told.verify
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{visible(str(authority))}: not a file of certificates: {error.strerror or 'bad'}") from None


# -- from the answer --------------------------------------------------------------------------------------------


_NOTHING: Any = object()
"""Stands for a body that is no JSON."""


def _json_of(arrived: HttpResponse) -> Any:
    try:
        return _NOTHING if arrived.compressed else decode_json(arrived.body)
    except InvalidJson:
        return _NOTHING


_DOT_SEGMENTS = frozenset([".", ".."])
"""Parts of a path that servers and proxies take away, the part before them included; no quoting helps."""


def _in_address(text: str) -> str:
    return quote(well_formed(text), safe="")


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_TOKENS:
        return None
    return int(value)


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)
