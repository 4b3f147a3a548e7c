"""A bar on standard error while files are read: on terminals only, and only when it takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0


class ReadingBar:
    """Shows bytes, rate and time left; hears of every part that was read."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = list(files)
        self._started = time.monotonic()
        self._read = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._wanted = sys.stderr.isatty()

    def __enter__(self) -> ReadingBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def shown(self) -> bool:
        """Tell whether the bar has appeared."""
        return self._bar is not None

    def advance(self, more_bytes: int) -> None:
        """Count bytes, and show the bar once reading has taken long enough to wonder."""
        self._read += more_bytes
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
    """Return how many bytes there are to read, or None where a stream does not tell."""
    paths = [Path(name) for name in files]
    if not all(path.is_file() for path in paths):
        return None
    return sum(path.stat().st_size for path in paths)
