"""How fast and how patiently a client asks: requests in a minute, waits that a server asked for, and further tries.

One limit holds for all requests of a client, from whatever thread and event loop they come. The wait before a further
try is drawn evenly between 0 and a bound that doubles with every try ("full jitter"), so that many clients do not come
back at once; it is never shorter than what the server asked for.
"""

from __future__ import annotations

import email.utils
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from faircount.chat.settings import ChatSettings
from faircount.chat.types import FILTERED, ChatAnswer, ChatError, Trouble
from faircount.core.outcomes import policy_block


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


class RateLimit:
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


T = TypeVar("T")

_AGAIN = frozenset((408, 409, 425, 429))
_MOST_DOUBLINGS = 60


def worth_another_try(status: int) -> bool:
    """Return whether an answer with this status may be another one next time."""
    return status in _AGAIN or status >= 500


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to be left alone, or None. What cannot be read is not asked."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds, until = _seconds(asked), _moment(asked)
    if seconds is not None or until is None:
        return seconds
    now = _moment(headers.get("date"))  # by the clock of the server, where it tells the time
    return max(0.0, until - (time.time() if now is None else now))


def _seconds(written: str | None) -> float | None:
    try:
        seconds = float(written or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _moment(date: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, TypeError, OverflowError):
        return None


class Tried(NamedTuple, Generic[T]):
    """What came of the last try, how long that took, how many there were, and what was spent on waiting."""

    value: T
    latency: float
    tries: int
    waited: float


class Retrying:
    """The patience of a client."""

    def __init__(self, settings: ChatSettings, pace: RateLimit, clock: Clock) -> None:
        self._settings = settings
        self._pace = pace
        self._clock = clock
        self._random = random.Random(settings.seed)

    async def ask(
        self,
        once: Callable[[], Awaitable[ChatAnswer]],
        turns: AbstractAsyncContextManager[Any],
        where: str,
    ) -> ChatAnswer:
        """Return the first answer of a model, with what it took."""
        tried = await self.first(once, turns, where)
        return replace(tried.value, latency=tried.latency, tries=tried.tries, waited=tried.waited)

    async def first(
        self, once: Callable[[], Awaitable[T]], turns: AbstractAsyncContextManager[Any], where: str
    ) -> Tried[T]:
        """Return what the first try gives that is no trouble; raise ChatError where all of them are.

        A request has its turn only while it is under way, not while it waits to retry.
        """
        tries, waited = 0, 0.0
        while True:
            tries += 1
            async with turns:
                waited += await self._pace.turn(self._settings.longest_wait - waited)
                began = self._clock.now()
                outcome = await _outcome(once)
                latency = self._clock.now() - began
            if not isinstance(outcome, Trouble):
                return Tried(outcome, latency, tries, waited)
            refused = outcome.policy_block or policy_block(str(outcome))
            if refused is not None:
                outcome.kind, outcome.again = FILTERED, False  # the same prompt would be refused again
            if outcome.again and outcome.wait is not None:
                self._pace.hold(outcome.wait)
            delay = max(outcome.wait or 0.0, self._drawn(tries))
            end = self._end(outcome, tries, waited, delay)
            if end is not None:
                raise ChatError(f"{where}: {outcome}{end}", outcome.kind, outcome.status, tries, waited, refused)
            await self._clock.sleep(delay)
            waited += delay

    def _drawn(self, tries: int) -> float:
        bound = min(self._settings.longest_backoff, self._settings.backoff * 2.0 ** min(tries - 1, _MOST_DOUBLINGS))
        return self._random.uniform(0, bound)

    def _end(self, trouble: Trouble, tries: int, waited: float, delay: float) -> str | None:
        """Return what to add to the error where this is the end, else None."""
        if not trouble.again:
            return f" (try {tries}, after {waited:.1f} s of waiting)" if tries > 1 else ""
        so_far = f"{tries} {'try' if tries == 1 else 'tries'} and {waited:.1f} s of waiting"
        if tries >= self._settings.tries:
            return f"; given up after {so_far}"
        if waited + delay > self._settings.longest_wait:
            asker = "the server asks for" if trouble.wait is not None and trouble.wait >= delay else "it would wait"
            return (
                f"; given up after {so_far}: {asker} {delay:.1f} s more, "
                f"but longest_wait is {self._settings.longest_wait:.1f} s"
            )
        return None


async def _outcome(once: Callable[[], Awaitable[T]]) -> T | Trouble:
    """Return an answer or what went wrong, as a value.

    An error raised while another is handled carries that along, and the errors of libraries hold requests with their
    headers. So the one handled ends here.
    """
    try:
        return await once()
    except Trouble as trouble:
        trouble.__context__ = None
        return trouble.with_traceback(None)
