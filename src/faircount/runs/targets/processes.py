"""Programs as children of this process: started without a shell, in a group of their own, and ended with it.

What a program writes is taken up to a limit. Whatever ends the waiting, a time-out, an error or an interrupt, the whole
group is killed: a program that started others leaves none behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio

_PIECE = 64 * 1024
LONGEST_STDERR = 64 * 1024


class TooMuch(Exception):
    """A program wrote more than anybody wants to read."""


class Ended(Struct, frozen=True):
    """What became of a program."""

    code: int
    output: bytes
    errors: bytes


async def start(argv: Sequence[str], folder: str, *, limit: int) -> asyncio.subprocess.Process:
    """Start a program."""
    import asyncio

    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
        limit=limit,
    )


async def run(argv: Sequence[str], folder: str, given: bytes, *, largest: int) -> Ended:
    """Run a program to its end. `TooMuch` if it writes more than `largest` bytes."""
    import asyncio

    process = await start(argv, folder, limit=_PIECE)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_write(process, given))
            output = group.create_task(_read(process.stdout, largest))
            errors = group.create_task(_read(process.stderr, LONGEST_STDERR, drop=True))
        code = await process.wait()
    except BaseExceptionGroup as failed:
        await end(process)
        raise failed.exceptions[0] from None
    except BaseException:
        await end(process)
        raise
    close(process)
    return Ended(code, output.result(), errors.result())


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a program and all that it started, and wait until it is gone."""
    import asyncio

    kill_group(process)
    waiting = asyncio.ensure_future(process.wait())
    # To be cancelled here would leave a process behind that nobody has waited for.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(waiting)
    close(process)


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a program and all that it started and that did not leave its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()


def close(process: asyncio.subprocess.Process) -> None:
    """Close the pipes to a program."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _write(process: asyncio.subprocess.Process, given: bytes) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    # A program need not read what it is given.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(given)
        await stdin.drain()
    # Nobody waits until it is closed: asyncio complains about a program that ends when such waiting was given up.
    stdin.close()


async def _read(stream: asyncio.StreamReader | None, largest: int, *, drop: bool = False) -> bytes:
    """Return what a stream holds; what is beyond the limit is dropped, or `TooMuch`."""
    pieces: list[bytes] = []
    size = 0
    while stream is not None and (piece := await stream.read(_PIECE)):
        if size < largest:
            pieces.append(piece)
        size += len(piece)
        if size > largest and not drop:
            raise TooMuch
    return b"".join(pieces)[:largest]


def how_it_ended(code: int) -> str:
    """Return the end of a program in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"
