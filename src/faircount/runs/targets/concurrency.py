"""Code that waits, away from the event loop: in a thread that nobody has to wait for.

The threads of Python's own pools are joined when the program ends, so that one call that hangs would keep it from
ending. These are not: a call that was given up goes on by itself, and ends with the program.
"""

from __future__ import annotations

import contextlib
import contextvars
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import asyncio


class Outcome(NamedTuple):
    """What a call came to: a value or an error, after so many seconds."""

    value: Any
    error: BaseException | None
    seconds: float


class _Threads:
    """Threads that wait for the next call when they are done with one: to start one takes longer than most calls.

    One that hangs is not waited for: other calls get a thread of their own, and the program can end.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._free = 0
        self._lock = threading.Lock()

    def call(self, work: Callable[[], None]) -> None:
        """Let a thread do some work, which must not raise."""
        with self._lock:
            is_free = self._free > 0
            self._free -= is_free
        self._calls.put(work)
        if not is_free:
            threading.Thread(target=self._run, name="faircount-waiting", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._calls.get()()
            with self._lock:
                self._free += 1


_threads = _Threads()


async def in_thread(call: Callable[[], Any]) -> Outcome:
    """Return what a call that may wait came to."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = context.run(_called, call)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, outcome)

    _threads.call(work)
    return await future


async def in_loop(call: Callable[[], Awaitable[Any]]) -> Outcome:
    """Return what a coroutine came to."""
    began = time.perf_counter()
    try:
        value, error = await call(), None
    except (Exception, SystemExit) as raised:  # noqa: BLE001  the user's code can fail in any way
        value, error = None, raised
    return Outcome(value, error, time.perf_counter() - began)


def _called(call: Callable[[], Any]) -> Outcome:
    began = time.perf_counter()
    try:
        value, error = call(), None
    except BaseException as raised:  # noqa: BLE001  it would end in this thread, and nobody would hear of it
        value, error = None, raised
    return Outcome(value, error, time.perf_counter() - began)


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
