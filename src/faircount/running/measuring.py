"""An answer being measured by every metric of its case, without keeping the event loop or waiting for ever.

Metrics that never wait are asked at once. Those that may wait are asked in a thread, one after the other; one that
does not come back in time is an error of its own, and those behind it have their turn nevertheless. The thread that it
hangs in goes on by itself, and ends with the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from faircount.judging.outside import in_short
from faircount.running.case import Case, Measured, Measuring, Output
from faircount.running.targets.threads import in_thread


async def measured(case: Case, output: Output, timeout: float | None) -> list[Measured]:
    """Return what every metric says of an answer, in their order."""
    if not any(metric.blocking for metric in case.metrics):
        return [metric.measure(case, output) for metric in case.metrics]
    said: list[Measured] = []
    while len(said) < len(case.metrics):
        said += await _as_many_as_come(case, case.metrics[len(said) :], output, timeout)
    return said


async def _as_many_as_come(
    case: Case, metrics: Sequence[Measuring], output: Output, timeout: float | None
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
            await in_thread(ask)
    except TimeoutError:
        given_up = True
        late = Measured(None, "error", error=f"no verdict within {timeout:g} s")
        return [*said, late][: len(metrics)]
    return said


def _told(metric: Measuring, case: Case, output: Output) -> Measured:
    try:
        return metric.measure(case, output)
    except BaseException as error:  # noqa: BLE001  in a thread nobody else would hear of it
        return Measured(None, "error", error=in_short(error))
