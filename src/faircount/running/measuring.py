"""An answer being measured by every metric of its case, without keeping the event loop or waiting for ever.

Metrics that never wait are asked at once. Those that may wait are asked in a thread, one after the other; one that
does not come back in time is an error of its own, and those behind it have their turn nevertheless. The thread that it
hangs in goes on by itself, and ends with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence

from faircount.judging.outside import in_short
from faircount.running.case import Case, CaseMetric, Measured, Output


async def measured(case: Case, output: Output, timeout: float | None) -> list[Measured]:
    """Return what every metric says of an answer, in their order."""
    if not any(metric.blocking for metric in case.metrics):
        return [metric.measure(case, output) for metric in case.metrics]
    said: list[Measured] = []
    while len(said) < len(case.metrics):
        said += await _as_many_as_come(case, case.metrics[len(said) :], output, timeout)
    return said


async def _as_many_as_come(
    case: Case, metrics: Sequence[CaseMetric], output: Output, timeout: float | None
) -> list[Measured]:
    """Return what metrics say, up to and with the first that does not come back in time."""
    said: list[Measured] = []
    given_up = False

    def ask() -> None:
        for metric in metrics:
            told = _told(metric, case, output)
            if given_up:
                return
            said.append(told)

    try:
        async with asyncio.timeout(timeout):
            await _in_thread(ask)
    except TimeoutError:
        given_up = True
        late = Measured(None, "error", error=f"no verdict within {timeout:g} s")
        return [*said, late][: len(metrics)]
    return said


def _told(metric: CaseMetric, case: Case, output: Output) -> Measured:
    try:
        return metric.measure(case, output)
    except BaseException as error:  # noqa: BLE001  in a thread nobody else would hear of it
        return Measured(None, "error", error=in_short(error))


# -- threads ----------------------------------------------------------------------------------------------------


class _Threads:
    """Threads that wait for the next call when they are done with one: to start one takes longer than most metrics.

    One that hangs is not waited for: other calls get a thread of their own, and the program can end.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._free = 0
        self._lock = threading.Lock()

    def call(self, work: Callable[[], None]) -> None:
        """Let a thread do some work, which must not raise."""
        with self._lock:
            is_free = self._free > 0
            self._free -= is_free
        self._calls.put(work)
        if not is_free:
            threading.Thread(target=self._run, name="faircount-metric", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._calls.get()()
            with self._lock:
                self._free += 1


_threads = _Threads()


async def _in_thread(work: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def work_and_tell() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    _threads.call(work_and_tell)
    await done
