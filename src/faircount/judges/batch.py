"""Many attempts before several judges: local judges on every core, judges that wait in threads, verdicts in order.

Attempts stream through: only a few chunks of them are under way at any time, so memory does not follow their number.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from faircount.core.attempt import Attempt
from faircount.core.errors import FaircountError
from faircount.core.verdict import Verdict
from faircount.core.workers import result_of, start_method, submit, worker_pool
from faircount.judges.judge import Judge, verdict_of

DEFAULT_CONCURRENCY = 8
_CHUNK = 500
_CHUNK_CHARACTERS = 1_000_000
_PARALLEL_FROM_CHUNKS = 8
"""Fewer are judged before workers have started."""

Chunk = list[Attempt]
Verdicts = tuple[Verdict, ...]
_Pending = Callable[[], list[list[Verdict]]]
"""What gives, for each judge, its verdicts on a chunk."""


def judged(
    judges: Sequence[Judge],
    attempts: Iterable[Attempt],
    *,
    workers: int | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> Iterator[Verdicts]:
    """Yield the verdicts of all judges on each attempt, in the order of both.

    `workers` is the number of processes for local judges (unless given, one per core, and none for little work),
    `concurrency` how many judges that wait are asked at once.
    """
    local = [judge for judge in judges if not judge.waits]
    waiting = [judge for judge in judges if judge.waits]
    chunks = _chunks(attempts, min(_CHUNK, 2 * concurrency) if waiting else _CHUNK)
    first = list(itertools.islice(chunks, _PARALLEL_FROM_CHUNKS))
    processes = _processes(local, workers) if len(first) == _PARALLEL_FROM_CHUNKS else 1
    with contextlib.ExitStack() as stack:
        submit_local = _locally(local, processes, stack)
        submit_waiting = _in_threads(waiting, concurrency, stack)
        under_way = processes + 2
        pending: deque[tuple[_Pending, _Pending]] = deque()
        for chunk in itertools.chain(first, chunks):
            pending.append((submit_local(chunk), submit_waiting(chunk)))
            if len(pending) >= under_way:
                yield from _joined(judges, *pending.popleft())
        while pending:
            yield from _joined(judges, *pending.popleft())


def _joined(judges: Sequence[Judge], local: _Pending, waiting: _Pending) -> Iterator[Verdicts]:
    """Put the verdicts of local and of waiting judges together, in the order of the judges."""
    of_local, of_waiting = iter(local()), iter(waiting())
    return zip(*(next(of_waiting if judge.waits else of_local) for judge in judges), strict=True)


def _chunks(attempts: Iterable[Attempt], most: int) -> Iterator[Chunk]:
    """Cut attempts into chunks, none with much more text than others."""
    chunk: Chunk = []
    characters = 0
    for attempt in attempts:
        chunk.append(attempt)
        characters += len(attempt.response or "")
        if len(chunk) >= most or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _processes(local: Sequence[Judge], workers: int | None) -> int:
    if not local or start_method() is None or not all(judge.may_fork for judge in local):
        return 1
    return workers or (1 if all(judge.quick for judge in local) else os.cpu_count()) or 1


# -- judges that compute ----------------------------------------------------------------------------------------


def _locally(judges: Sequence[Judge], processes: int, stack: contextlib.ExitStack) -> Callable[[Chunk], _Pending]:
    method = start_method()
    if processes == 1 or method is None:
        return lambda chunk: partial(_verdicts, judges, chunk)
    # A fork has the judges already, with the code that they came from.
    pool = stack.enter_context(worker_pool(processes, method, _keep, judges))

    def submit_local(chunk: Chunk) -> _Pending:
        with _explained():
            return partial(_of_worker, pool, submit(pool, _in_worker, chunk))

    return submit_local


def _verdicts(judges: Sequence[Judge], chunk: Chunk) -> list[list[Verdict]]:
    return [[verdict_of(judge, attempt) for attempt in chunk] for judge in judges]


_judges_of_this_worker: Sequence[Judge] = ()


def _keep(judges: Sequence[Judge]) -> None:
    global _judges_of_this_worker
    _judges_of_this_worker = judges


def _in_worker(chunk: Chunk) -> list[list[Verdict]]:
    return _verdicts(_judges_of_this_worker, chunk)


def _of_worker(pool: Executor, work: Future[list[list[Verdict]]]) -> list[list[Verdict]]:
    with _explained():
        return result_of(pool, work)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ChildProcessError as error:
        raise FaircountError(
            "a worker process that asked the judges ended unexpectedly, perhaps out of memory; try --workers 1"
        ) from error


# -- judges that wait -------------------------------------------------------------------------------------------


def _in_threads(judges: Sequence[Judge], concurrency: int, stack: contextlib.ExitStack) -> Callable[[Chunk], _Pending]:
    if not judges:
        return lambda _: list
    threads = ThreadPoolExecutor(concurrency, thread_name_prefix="judge")

    def end(failure: object, *_: object) -> None:
        threads.shutdown(wait=False, cancel_futures=True)
        for judge in judges:
            judge.close()
        threads.shutdown(wait=failure is None)

    stack.push(end)

    def submit(chunk: Chunk) -> _Pending:
        futures = [[threads.submit(verdict_of, judge, attempt) for attempt in chunk] for judge in judges]
        return lambda: [[future.result() for future in row] for row in futures]

    return submit
