"""Bars on standard error during long work: on terminals only, and only when it takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
"""Whether the user wants to see no progress."""
_EVERY = 8


class ReadingBar:
    """Shows bytes, rate and time left; hears of every part that was read."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = list(files)
        self._started: float | None = None
        self._read = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._wanted = sys.stderr.isatty() and not QUIET.get()

    def __enter__(self) -> ReadingBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def shown(self) -> bool:
        """Return whether the bar has appeared."""
        return self._bar is not None

    def advance(self, more_bytes: int) -> None:
        """Count bytes, and show the bar once reading has taken long enough to wonder."""
        self._read += more_bytes
        # The first bytes come when everything is loaded: what took its time before was not reading.
        self._started = self._started or time.monotonic()
        if not self._wanted or time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        if self._bar is None:
            self._show()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._read)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("Reading"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("read", total=_total_bytes(self._files))
        self._bar.start()


def _total_bytes(files: Iterable[str]) -> int | None:
    """Return how many bytes there are to read, or None for a stream."""
    paths = [Path(name) for name in files]
    if not all(path.is_file() for path in paths):
        return None
    return sum(path.stat().st_size for path in paths)


class CountingBar:
    """Shows how many of something are done and how fast; hears of every one."""

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self._what = what
        self._unit = unit
        self._total = total
        self._started = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._wanted = sys.stderr.isatty() and not QUIET.get()

    def __enter__(self) -> CountingBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count one, and show the bar once the work has taken long enough to wonder."""
        self._done += 1
        if not self._wanted or self._done % _EVERY or time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        if self._bar is None:
            self._show()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, told=self._told())

    def _told(self) -> str:
        rate = self._done / (time.monotonic() - self._started)
        return f"{self._done:,} {self._unit}, {rate:,.0f} per second"

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        known = (BarColumn(), TimeRemainingColumn()) if self._total else (TimeElapsedColumn(),)
        columns = (TextColumn(self._what), TextColumn("{task.fields[told]}"), *known)
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._what, total=self._total, told=self._told())
        self._bar.start()
