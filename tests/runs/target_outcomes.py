"""What a target gives for requests: an answer each, or the error that it raised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from faircount.runs import Answer, Request, Target, TargetError


async def came_of(target: Target, request: Request) -> Answer | TargetError:
    """Return what comes of one request."""
    try:
        return await target.answer(request)
    except TargetError as error:
        return error


def in_turn(target: Target, requests: Sequence[Request]) -> list[Any]:
    """Ask one after the other in one event loop, and close the target."""

    async def run() -> list[Any]:
        try:
            return [await came_of(target, request) for request in requests]
        finally:
            await target.close()

    return asyncio.run(run())
