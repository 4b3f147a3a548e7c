"""An event loop in a thread of its own, for callers that have none.

The thread does not keep the program alive. When it is told to end, whatever still runs on it is cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

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
