"""Forms that change something: read in full, within bounds, and believed only with the token of our own pages.

The server has checked by then who sends it and from where, see `server.Guard`; this is the second lock.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

TOKEN_FIELD = "form"
"""The field of a form that only our own pages can fill in, and where the server keeps what must be in it."""
CONTENT_TYPE = "application/x-www-form-urlencoded"
LONGEST_FORM = 64 * 1024
_MOST_FIELDS = 200


def form_token(request: Request) -> str:
    """Return what a form of ours has to send along."""
    return str(request.scope.get(TOKEN_FIELD, ""))


def receiver(function: Callable[..., Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return what reads a form and calls a function with the request and the fields."""

    async def receive(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            return PlainTextResponse("This is not a form of this page.\n", status_code=415)
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > LONGEST_FORM:
                return PlainTextResponse("This is too long.\n", status_code=413)
        try:
            fields: Any = parse_qsl(
                body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS
            )
        except ValueError:
            return PlainTextResponse("This is not a form of this page.\n", status_code=400)
        wanted, given = form_token(request), dict(fields).get(TOKEN_FIELD, "")
        if not wanted or not secrets.compare_digest(wanted.encode(), given.encode()):
            return PlainTextResponse("The form is not of this page, or of an earlier start. Reload it.\n", 403)
        return await run_in_threadpool(function, request, fields)

    return receive
