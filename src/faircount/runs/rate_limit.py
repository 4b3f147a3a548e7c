"""A limit on requests per minute; nobody waits for it when nothing may be sent any more."""

from __future__ import annotations

import asyncio

from faircount.chat.rate_limit import Clock, RateLimit

_LONGEST_HOLD = 600.0


class RateLimiter:
    """Lets so many requests a minute go."""

    def __init__(self, requests_per_minute: float) -> None:
        self._pace = RateLimit(requests_per_minute, _LONGEST_HOLD, Clock())
        self._waiting: set[asyncio.Task[float]] = set()

    async def next(self) -> None:
        """Wait for a turn, or until they are given up."""
        turn = asyncio.create_task(self._pace.turn(_LONGEST_HOLD))
        self._waiting.add(turn)
        try:
            await asyncio.wait([turn])
        finally:
            self._waiting.discard(turn)
            turn.cancel()

    def give_up(self) -> None:
        """Let nobody wait any longer."""
        for turn in self._waiting:
            turn.cancel()
