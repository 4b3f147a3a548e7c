"""How fast a client may go: requests in a minute, and waits that a server asked for.

One pace holds for all requests of a client, from whatever thread and event loop they come.
"""

from __future__ import annotations

import threading
import time


class Clock:
    """Time as it passes; tests have one that passes at will."""

    def now(self) -> float:
        """Return seconds that only go up."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others go on for so long."""
        import asyncio

        await asyncio.sleep(seconds)


class Bucket:
    """Tokens that drip at a steady rate, one for each request; it holds what drips in a second, or one."""

    def __init__(self, per_minute: float) -> None:
        self._interval = 60.0 / per_minute
        # A bucket as large as a minute would let twice the limit through in the first minute.
        self._slack = max(0.0, 1.0 - self._interval)
        self._next = float("-inf")
        self._lock = threading.Lock()

    def take(self, now: float) -> float:
        """Take the next token and return in how many seconds it is there."""
        with self._lock:
            ready = max(self._next, now - self._slack)
            self._next = ready + self._interval
        return max(0.0, ready - now)


class Pace:
    """What a request has to wait for before it goes."""

    def __init__(self, per_minute: float | None, longest_hold: float, clock: Clock) -> None:
        self._bucket = Bucket(per_minute) if per_minute is not None else None
        self._longest_hold = longest_hold
        self._clock = clock
        self._held_until = float("-inf")
        self._lock = threading.Lock()

    def hold(self, seconds: float) -> None:
        """Hold all requests back for so long.

        A wait beyond what any request would wait holds nobody back: each hears it from the server itself.
        """
        if seconds <= self._longest_hold:
            with self._lock:
                self._held_until = max(self._held_until, self._clock.now() + seconds)

    async def turn(self, longest: float) -> float:
        """Wait until a request may go; return how long it was held back, which is `longest` at most."""
        held = await self._wait_while_held(longest)
        if self._bucket is not None:
            delay = self._bucket.take(self._clock.now())
            if delay > 0:
                await self._clock.sleep(delay)
        return held + await self._wait_while_held(longest - held)

    async def _wait_while_held(self, longest: float) -> float:
        waited = 0.0
        while True:
            delay = min(self._held_until - self._clock.now(), longest - waited)
            if delay <= 0:
                return waited
            await self._clock.sleep(delay)
            waited += delay
