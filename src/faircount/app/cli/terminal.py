"""What a command says beside its answer, on standard error: messages, and bars during long work.

A message is one line, begun with the program's name. A bar is shown on terminals only, and only when the work takes
more than a second.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self, TextIO

from faircount.core.text import inert_lines, visible

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

PATIENCE_SECONDS = 1.0
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
"""Whether the user wants to see no progress."""
_EVERY = 8
_RED = "\x1b[1;31m"
_PLAIN = "\x1b[0m"


def colours(stream: TextIO) -> bool:
    """Return whether what is written to a stream may be coloured."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(sentence: str) -> None:
    """Say something that the user should know; that nobody reads it is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        print(f"faircount: {visible(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


def error_line(message: str, program: str = "faircount", further: Sequence[str] = ()) -> str:
    """Return what is wrong, in red on a terminal, and further lines, indented; any other line break is spelled out."""
    name = f"{_RED}{program}:{_PLAIN}" if colours(sys.stderr) else f"{program}:"
    return inert_lines("\n  ".join([f"{name} {visible(message)}", *map(visible, further)]) + "\n")


class _ProgressBar:
    """A bar that appears once the work has taken long enough to wonder."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._wanted = sys.stderr.isatty() and not QUIET.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def shown(self) -> bool:
        """Return whether the bar has appeared."""
        return self._bar is not None

    def _columns(self) -> Sequence[ProgressColumn]:
        raise NotImplementedError

    def _total(self) -> int | None:
        raise NotImplementedError

    def _update(self, words: str = "") -> None:
        self._started = self._started or time.monotonic()
        if not self._wanted or time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        if self._bar is None or self._task is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(*self._columns(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total(), words=words)
            self._bar.start()
        self._bar.update(self._task, completed=self._done, words=words)


class ReadingBar(_ProgressBar):
    """Shows bytes, rate and time left; hears of every part that was read."""

    def __init__(self, files: Iterable[str]) -> None:
        super().__init__()
        self._files = list(files)

    def advance(self, more_bytes: int) -> None:
        """Count bytes. The first come when everything is loaded: what took its time before was not reading."""
        self._done += more_bytes
        self._update()

    def _total(self) -> int | None:
        return _total_bytes(self._files)

    def _columns(self) -> Sequence[ProgressColumn]:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        return TextColumn("Reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()


def _total_bytes(files: Iterable[str]) -> int | None:
    """Return how many bytes there are to read, or None for a stream."""
    from faircount.io.files import is_file, size_of
    from faircount.io.streams import file_of

    paths = [file_of(name) for name in files]
    return sum(map(size_of, paths)) if all(map(is_file, paths)) else None


class CountingBar(_ProgressBar):
    """Shows how many of something are done and how fast; hears of every one."""

    def __init__(self, what: str, unit: str) -> None:
        super().__init__()
        self._what = what
        self._unit = unit
        self._began = self._started = time.monotonic()

    def advance(self) -> None:
        """Count one."""
        self._done += 1
        if self._done % _EVERY == 0:
            rate = self._done / (time.monotonic() - self._began)
            self._update(f"{self._done:,} {self._unit}, {rate:,.0f} per second")

    def _total(self) -> int | None:
        return None

    def _columns(self) -> Sequence[ProgressColumn]:
        from rich.progress import TextColumn, TimeElapsedColumn

        return TextColumn(self._what), TextColumn("{task.fields[words]}"), TimeElapsedColumn()
