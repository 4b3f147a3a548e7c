"""`faircount` and `python -m faircount`."""

import errno
import gc
import io
import os
import sys
from typing import Any, TextIO

_MANY_OBJECTS = 200_000


class _StandardStream(io.FileIO):
    """A stream whose reader may go away: what it no longer reads is dropped, and the exit code stays what it is."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


class _ClosedInput(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _: Any, /) -> int:
        raise OSError(errno.EBADF, "standard input is closed")


def _settle_streams() -> None:
    """Make standard streams that are closed, or whose reader goes away, no reason to fail."""
    # From the lowest number on: each takes the first that is free.
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(lowest, True)
    os.close(lowest)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    sys.stdout, sys.stderr = _stream(sys.stdout, 1), _stream(sys.stderr, 2)


def _stream(stream: TextIO | None, number: int) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_StandardStream(number, "wb", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=number == 2 or (stream is not None and stream.isatty()),
    )


def run() -> None:
    """Run one command and end the process at once.

    By now everything is written and closed; taking a large analysis apart object by object would only take time.
    """
    # An interrupt is raised at most once, and not after this block.
    try:
        import faircount.core.interrupts as interrupts  # the other form would look for the name in the façade

        interrupts.install()
        _prepare()
        from faircount.app.cli import EXIT_SYSTEM, main

        code = main()
        interrupts.disarm()
    except KeyboardInterrupt:
        sys.stderr.write("faircount: interrupted\n")
        os._exit(130)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or EXIT_SYSTEM
    os._exit(code)


def _prepare() -> None:
    # Nearly all objects of a command live until it ends: to look for garbage among them is seldom worth the time.
    gc.set_threshold(_MANY_OBJECTS)
    # Nothing here multiplies matrices; numpy's threads for that would only be in the way of the readers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _settle_streams()


if __name__ == "__main__":
    run()
