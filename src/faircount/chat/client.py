"""The client: ask a model from an event loop, or from any thread.

It sees to limits, repetition, costs and the cache, and leaves the speaking to a provider. It decides nothing about
answers. The key is known to the provider alone. A caller without an event loop is served by one in a thread of its own,
which does not keep the program alive; when it is told to end, whatever still runs on it is cancelled.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from faircount.chat.http import json_digest
from faircount.chat.providers import find_provider
from faircount.chat.rate_limit import Clock, RateLimit, Retrying
from faircount.chat.settings import ChatSettings, Prices
from faircount.chat.types import ChatAnswer, ChatError, ChatRequest, Messages, Provider
from faircount.core.errors import UsageError
from faircount.core.interrupts import uninterrupted
from faircount.core.text import visible

if TYPE_CHECKING:
    import asyncio


class _Lane(Struct, frozen=True):
    """What requests of one event loop share: connections, and turns, which are `concurrency` at a time."""

    provider: Provider
    turns: asyncio.Semaphore
    keeper: AsyncGenerator[None, None]


class ChatClient:
    """One client for many requests. Close it, or use it in a `with` block."""

    def __init__(self, settings: ChatSettings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        clock = clock or Clock()
        self._pace = RateLimit(settings.requests_per_minute, settings.longest_wait, clock)
        self._retrying = Retrying(settings, self._pace, clock)
        self._prices = Prices(settings.prices)
        self._cache = AnswerCache(settings.cache) if settings.cache else None
        self._provider = find_provider(settings.provider)
        # Made now, so that a missing key is reported before any work begins; the first event loop takes it.
        self._spare: Provider | None = self._provider(settings)
        self._lanes: dict[asyncio.AbstractEventLoop, _Lane] = {}
        self._of_the_parent: object = None
        self._background: Background | None = None
        self._closed = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"ChatClient(provider={self.settings.provider!r}, model={self.settings.model!r})"

    async def ask(self, messages: Messages, *, parameters: Mapping[str, Any] | None = None) -> ChatAnswer:
        """Return the answer to messages in OpenAI's shape; `ChatError` where there is none.

        Parameters go before those of the settings; one that is None is not sent. `model` may be among them. Requests
        that are the same and under way at the same time all go out, even with a cache.
        """
        request = self._request(messages, parameters)
        name = ""
        if self._cache is not None:
            name = name_of(self.settings.base_url.rstrip("/"), self.settings.provider, request)
            kept = self._cache.read(name)
            if kept is not None:
                return kept
        answer = await self._ask_server(request)
        cost = self._prices.cost(
            answer.model,
            request.model,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )
        answer = replace(answer, cost=cost)
        if self._cache is not None:
            self._cache.write(name, answer)
        return answer

    def ask_now(self, messages: Messages, *, parameters: Mapping[str, Any] | None = None) -> ChatAnswer:
        """Return the answer, as `ask` does, to a caller who waits for it. Threads may ask at the same time."""
        waiting = self._submit(messages, parameters)
        try:
            return waiting.result()
        except CancelledError:
            pass  # told below, where no other error is under way
        except BaseException:
            waiting.cancel()
            raise
        raise _closed_error()

    def close(self) -> None:
        """Give connections back and end the thread. What is under way is given up."""
        with self._lock:
            self._closed = True
            background, self._background = self._background, None
            lanes, self._lanes = self._lanes, {}
        if background is not None:
            background.close()
            if not background.is_here:
                return
        for loop, lane in lanes.items():
            _close_lane(loop, lane)

    async def aclose(self) -> None:
        """Close the client from a program with an event loop, and wait until its connections are closed."""
        import asyncio

        with self._lock:
            lane = self._lanes.pop(asyncio.get_running_loop(), None)
        if lane is not None:
            await lane.keeper.aclose()
        self.close()

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _request(self, messages: Messages, parameters: Mapping[str, Any] | None) -> ChatRequest:
        merged = {**self.settings.parameters, **(parameters or {})}
        merged = {name: value for name, value in merged.items() if value is not None}
        model = merged.pop("model", self.settings.model)
        if not isinstance(model, str) or not model:
            raise UsageError("chat: no model given")
        if merged.get("stream"):
            raise UsageError("chat: answers are not streamed; remove stream from the parameters")
        if "messages" in merged:
            raise UsageError("chat: messages is not a parameter")
        for name, value in merged.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"chat: the parameter {visible(name)} is not a finite number")
        return ChatRequest(model, messages, merged)

    async def _ask_server(self, request: ChatRequest) -> ChatAnswer:
        lane = await self._lane()

        async def once() -> ChatAnswer:
            if self._closed:
                raise _closed_error()
            return await lane.provider.ask(request)

        return await self._retrying.ask(once, lane.turns, lane.provider.where)

    def _submit(self, messages: Messages, parameters: Mapping[str, Any] | None) -> Future[ChatAnswer]:
        # Under the lock, so that nothing is submitted to a loop that was told to end.
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._background is not None and not self._background.is_here:
                # A forked child: the connections are the parent's, and neither used nor closed here.
                self._of_the_parent, self._lanes, self._background = self._lanes, {}, None
            if self._background is None:
                self._background = Background()
                # For a client that nobody closes, and for the end of the program.
                weakref.finalize(self, self._background.close)
            return self._background.submit(self.ask(messages, parameters=parameters))

    async def _lane(self) -> _Lane:
        import asyncio

        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise _closed_error()
            lane = self._lanes.get(loop)
            if lane is not None:
                return lane
            self._lanes = {other: lane for other, lane in self._lanes.items() if not other.is_closed()}
            provider = self._spare or self._provider(self.settings)
            self._spare = None
            lane = _Lane(provider, asyncio.Semaphore(self.settings.concurrency), _keep(provider))
            self._lanes[loop] = lane
        # A generator that has begun is closed by its event loop when that ends, and the connections with it.
        await anext(lane.keeper)
        return lane


async def _keep(provider: Provider) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await provider.close()


def _close_lane(loop: asyncio.AbstractEventLoop, lane: _Lane) -> None:
    """Close connections of somebody else's loop: now if it rests, soon if it runs; a loop that is gone has none."""
    import asyncio

    async def close() -> None:
        await lane.keeper.aclose()

    if loop.is_closed():
        return
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop)
        return
    work = close()
    try:
        loop.run_until_complete(work)
    except RuntimeError:  # another loop runs in this thread
        work.close()


def _closed_error() -> ChatError:
    return ChatError("the client is closed; create another one", "closed")


# -- an event loop in a thread ----------------------------------------------------------------------------------

T = TypeVar("T")
_LONGEST_END = 5.0


class Background:
    """A running event loop."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="faircount-chat", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the thread is in this process: a forked child has a copy of everything but threads."""
        return self._process == os.getpid()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the loop."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End the loop and its thread."""
        if not self.is_here or self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:  # closed since we looked
            return
        if threading.current_thread() is not self._thread:
            self._thread.join(_LONGEST_END)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        try:
            loop.run_until_complete(_end_all(loop))
            # Connections are closed here: each set of them is kept by a generator.
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# -- answers kept on disk ---------------------------------------------------------------------------------------

# Each answer is in one file that is named by the digest of what was asked: where it goes, the model, the messages and
# the parameters. Only answers are kept: no messages, no headers, no errors. A file is written whole or not at all, for
# its owner alone. A damaged file is as good as none. A cache that cannot be written is no reason to fail.

FORMAT = 1


class _Kept(Struct, frozen=True):
    format: int
    request: str
    digest: str
    answer: Raw


class AnswerCache:
    """A folder of answers."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{visible(folder)}: cannot create a folder for answers here ({error.strerror}); choose another one"
            ) from None

    def read(self, name: str) -> ChatAnswer | None:
        """Return a kept answer, or None."""
        try:
            data = self._path(name).read_bytes()
            kept = msgspec.json.decode(data, type=_Kept)
            if (kept.format, kept.request, kept.digest) != (FORMAT, name, _checksum(bytes(kept.answer))):
                return None
            answer = msgspec.json.decode(kept.answer, type=ChatAnswer)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return None
        return msgspec.structs.replace(answer, cached=True, cost=0.0, tries=0, waited=0.0)

    def write(self, name: str, answer: ChatAnswer) -> None:
        """Keep an answer, over an older one or a damaged file."""
        content = msgspec.json.encode(answer)
        data = msgspec.json.encode(_Kept(FORMAT, name, _checksum(content), Raw(content)))
        path = self._path(name)
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_whole(path, data)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}.json"


def name_of(base_url: str, provider: str, request: ChatRequest) -> str:
    """Return the name of a request: a SHA-256."""
    return json_digest([FORMAT, provider, base_url, request.model, request.messages, request.parameters])


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@uninterrupted
def _write_whole(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)  # for its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
