"""Worker processes: started only where that is safe, left alone by interruptions, and gone when their parent is."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from multiprocessing.pool import AsyncResult, Pool

_PARENT_CHECK_SECONDS = 1.0

Part = TypeVar("Part")
Done = TypeVar("Done")


def start_method() -> str | None:
    """Return how workers can be started, or None where this process had better work alone.

    A fork is cheap, and safe while nothing else runs here. Starting from scratch would run the caller's script again.
    """
    alone = threading.active_count() == 1 and sys.modules.keys().isdisjoint(["duckdb", "_duckdb", "torch"])
    return "fork" if sys.platform == "linux" and alone else None


@contextlib.contextmanager
def worker_pool(processes: int, method: str) -> Iterator[Pool]:
    """Give worker processes that end with the block, whatever ends it."""
    import multiprocessing

    pool = multiprocessing.get_context(method).Pool(processes, initializer=start_worker, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.terminate()
        pool.join()


def in_order(pool: Pool, work: Callable[[Part], Done], parts: Iterable[Part], under_way: int) -> Iterator[Done]:
    """Yield what became of the parts in their order, with only so many of them under way."""
    waiting: deque[AsyncResult[Done]] = deque()
    for part in parts:
        waiting.append(pool.apply_async(work, (part,)))
        if len(waiting) >= under_way:
            yield waiting.popleft().get()
    while waiting:
        yield waiting.popleft().get()


def start_worker(parent: int) -> None:
    """Leave interruptions to the parent, end when it is gone, and do not look for cycles that are never made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)
