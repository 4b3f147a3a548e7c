"""Waiting in a thread for what runs on an event loop: the metrics that are coroutine functions.

All of them run on one loop, in a thread of its own, so that what one of them keeps (connections, say) works for as long
as the program does.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable
from typing import TypeVar

from faircount.chat.background import Background

T = TypeVar("T")

_lock = threading.Lock()
_background: Background | None = None


def awaited(work: Awaitable[T]) -> T:
    """Return the result of work on an event loop; not to be called from that loop."""

    async def wait() -> T:
        return await work

    return _loop().submit(wait()).result()


def _loop() -> Background:
    global _background
    with _lock:
        if _background is None or not _background.is_here:
            _background = Background()
            atexit.register(_background.close)
        return _background
