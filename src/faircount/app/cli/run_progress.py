"""How a run goes, on standard error: a line that renews itself on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
import time

from faircount.app.cli.messages import note
from faircount.app.cli.progress import QUIET
from faircount.core.interrupts import EXIT_INTERRUPTED
from faircount.report import formats
from faircount.runs.budget import Progress
from faircount.runs.service import RunListener
from faircount.stats.proportion import wilson

_EVERY_ON_A_TERMINAL = 0.2
_EVERY_ELSEWHERE = 5.0
_GRACE = 2.0
"""How long, in seconds, code of the user's may keep a run that was interrupted twice from ending."""


class RunProgress(RunListener):
    """Hears of every attempt, or every entry that is attacked, and says now and then how far the run is."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._quiet = QUIET.get()
        self._every = _EVERY_ON_A_TERMINAL if self._terminal else _EVERY_ELSEWHERE
        self._end: threading.Timer | None = None

    def notice(self, sentence: str) -> None:
        """Say something that the user should know."""
        note(sentence)

    def begin(self, journal: str, *, entries: bool) -> None:
        """Measure time from now on."""
        self._journal = journal
        self._unit, self._word = ("entry", "succeeded") if entries else ("attempt", "passed")
        self._started = self._said = time.monotonic()
        self._before: int | None = None
        self._shown = False

    def progress(self, tally: Progress) -> None:
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

    def interrupted(self, number: int) -> None:
        """Say from within a signal handler, where a stream may be in the middle of a line of its own, what happens."""
        if number == 1:
            start = "\r\x1b[2K" if self._terminal else ""
            sentence = "finishing requests in flight; interrupt again to stop immediately"
            with contextlib.suppress(OSError):
                os.write(2, f"{start}faircount: {sentence}\n".encode())
        elif number == 2:
            self._end = threading.Timer(_GRACE, self._stop)
            self._end.daemon = True
            self._end.start()

    def _stop(self) -> None:
        """End this process, whatever the user's code is doing; the journal is valid at any time."""
        note(f"the run is incomplete: interrupted; resume with: faircount resume {shlex.quote(self._journal)}")
        os._exit(EXIT_INTERRUPTED)

    def end(self) -> None:
        """Take the line away, so that something else can be said; nothing of the user's keeps that from ending."""
        if self._end is not None:
            self._end.cancel()
        if self._terminal and self._shown:
            self._write("\r\x1b[2K")

    def _show(self, line: str) -> None:
        self._shown = True
        self._write(f"\r\x1b[2K{line}" if self._terminal else f"faircount: {line}\n")

    @staticmethod
    def _write(text: str) -> None:
        # That nobody reads how it goes is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def _told(self, tally: Progress, now: float) -> str:
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
