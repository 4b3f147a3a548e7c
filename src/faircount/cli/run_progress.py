"""How a run goes, on standard error: a line that renews itself on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from faircount import formats
from faircount.cli.progress import QUIET
from faircount.stats.proportion import wilson

if TYPE_CHECKING:
    from faircount.running.budget import Tally

_EVERY_ON_A_TERMINAL = 0.2
_EVERY_ELSEWHERE = 5.0


class RunProgress:
    """Hears of every attempt, or every entry that is attacked, and says now and then how far the run is."""

    def __init__(self, *, attacks: bool = False) -> None:
        self._unit, self._word = ("entry", "succeeded") if attacks else ("attempt", "passed")
        self._terminal = sys.stderr.isatty()
        self._quiet = QUIET.get()
        self._every = _EVERY_ON_A_TERMINAL if self._terminal else _EVERY_ELSEWHERE
        self._started = time.monotonic()
        self._said = self._started
        self._before: int | None = None
        self._shown = False

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def heard(self, tally: Tally) -> None:
        """Take note of what was done so far."""
        if self._before is None:
            self._before = tally.done - 1
        now = time.monotonic()
        if self._quiet or (now - self._said < self._every and tally.done < tally.total):
            return
        if tally.done == tally.total and not self._shown and not self._terminal:
            return  # it was over before there was anything to wait for
        self._said = now
        self._show(self._told(tally, now))

    def clear(self) -> None:
        """Take the line away, so that something else can be said."""
        if self._terminal and self._shown:
            self._write("\r\x1b[2K")

    def interrupt(self, sentence: str) -> None:
        """Say something from within a signal handler, where a stream may be in the middle of a line of its own."""
        start = "\r\x1b[2K" if self._terminal else ""
        with contextlib.suppress(OSError):
            os.write(2, f"{start}faircount: {sentence}\n".encode())

    def _show(self, line: str) -> None:
        self._shown = True
        self._write(f"\r\x1b[2K{line}" if self._terminal else f"faircount: {line}\n")

    @staticmethod
    def _write(text: str) -> None:
        # That nobody reads how it goes is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def _told(self, tally: Tally, now: float) -> str:
        done_here = tally.done - (self._before or 0)
        rate = done_here / max(now - self._started, 1e-9)
        left = (tally.total - tally.done) / rate if rate else 0.0
        decided = tally.passed + tally.failed
        words = [f"{tally.done:,}/{tally.total:,}", f"{rate:,.1f} per second", f"{_duration(left)} left"]
        passed = wilson(tally.passed, decided, unit=self._unit)
        if passed.value is not None and passed.low is not None and passed.high is not None:
            words.append(f"{self._word} {formats.estimate(passed)} of {decided:,}")
        for count, what in (
            (tally.undecided, "unjudged"),
            (tally.errors, "errors"),
            (tally.blocked, "blocked"),
            (tally.retries, "retried"),
        ):
            if count:
                words.append(f"{count:,} {what}")
        if tally.cost is not None:
            words.append(f"{tally.cost:.4f} spent")
        return ", ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
