"""Threads that work beside the main one, and worker processes.

Processes are started only where that is safe, left alone by interruptions, and gone when their parent is.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from faircount.core.interrupts import uninterrupted

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_CHECK_SECONDS = 1.0
_INTERRUPTS = frozenset(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_KILLED = "a worker process was killed, perhaps for lack of memory"

Part = TypeVar("Part")
Done = TypeVar("Done")
Answered = TypeVar("Answered")


class Beside(Generic[Answered]):
    """A function being called by a thread of its own, from now on. The program does not wait for a `daemon` to end."""

    def __init__(self, work: Callable[[], Answered], *, daemon: bool = False) -> None:
        self._work = work
        self._answers: list[Answered] = []
        self._failures: list[Exception] = []
        self.thread = threading.Thread(target=self._run, daemon=daemon)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._work())
        except Exception as error:  # noqa: BLE001 (raised where the answer is wanted)
            self._failures.append(error)

    def answer(self) -> Answered:
        """Wait for the function to end; return what it returned, or raise what it raised."""
        self.thread.join()
        if self._failures:
            raise self._failures[0]
        return self._answers[0]

    def __enter__(self) -> Beside[Answered]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the function to end, but not after an interrupt: that may take long, or for ever."""
        if not is_interrupt(kind):
            self.thread.join()


def is_interrupt(kind: type[BaseException] | None) -> bool:
    """Return whether a block ends because somebody wants it to end now."""
    return kind is not None and not issubclass(kind, Exception)


FORK, SPAWN = "fork", "spawn"


def start_method() -> str | None:
    """Return how workers that need what is here can be started, or None where this process had better work alone.

    A fork is cheap, and safe while nothing else runs here. Workers that need nothing but what they are sent can be
    started anew, with `SPAWN`, which takes a moment.
    """
    alone = threading.active_count() == 1 and sys.modules.keys().isdisjoint(["duckdb", "_duckdb", "torch", "obstore"])
    return FORK if sys.platform == "linux" and alone else None


@contextlib.contextmanager
def _without_main(method: str) -> Iterator[None]:
    """Let workers that are started anew not run the caller's script once more."""
    main = sys.modules["__main__"]
    if method == SPAWN:
        sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _mask(how: str, signals: Iterable[int]) -> Iterable[int]:
    """Change which signals wait, and return which did; a system that cannot hold them back has nothing to change."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return ()
    return signal.pthread_sigmask(getattr(signal, how), signals)


@contextlib.contextmanager
@uninterrupted
def worker_pool(
    processes: int, method: str, start: Callable[..., None] | None = None, *given: Any
) -> Iterator[Executor]:
    """Give worker processes that end with the block, whatever ends it; each begins with `start`, given these values."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=(os.getpid(), start, given))
    before = _mask("SIG_BLOCK", ())
    try:
        # An interrupt in the middle of their start would leave threads and processes to nobody.
        _mask("SIG_BLOCK", _INTERRUPTS)
        # The first work starts them all: before the caller has threads, which a fork would not copy.
        with _without_main(method):
            for _ in range(processes):
                pool.submit(os.getpid)
        # Only workers write results. Were it open here, too, a result that a killed worker began would never end.
        # Workers that do not fork are started one after the other, and each still needs it.
        if method == FORK:
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
        _mask("SIG_SETMASK", before)
        yield pool
    finally:
        # One that came already is raised by the call that keeps others out, or by the one that lets them in again.
        try:
            _mask("SIG_BLOCK", _INTERRUPTS)
        finally:
            try:
                for worker in list((pool._processes or {}).values()):
                    worker.kill()
                # This waits for the thread that feeds them, too: as long as it lives, nothing may be forked.
                pool.shutdown(cancel_futures=True)
            finally:
                _mask("SIG_SETMASK", before)


def result_of(pool: Executor, work: Future[Done]) -> Done:
    """Wait for what a worker makes; ChildProcessError if one was killed, since its work will never come."""
    from concurrent.futures.process import BrokenProcessPool

    while True:
        try:
            return work.result(_CHECK_SECONDS)
        except BrokenProcessPool:
            raise ChildProcessError(errno.ECHILD, _KILLED) from None
        except TimeoutError:
            if work.done():
                return work.result()
            if not all(worker.is_alive() for worker in list((getattr(pool, "_processes", None) or {}).values())):
                raise ChildProcessError(errno.ECHILD, _KILLED) from None


def in_order(pool: Executor, work: Callable[[Part], Done], parts: Iterable[Part], under_way: int) -> Iterator[Done]:
    """Yield what became of the parts in their order, with only so many of them under way."""
    waiting: deque[Future[Done]] = deque()
    for part in parts:
        waiting.append(submit(pool, work, part))
        if len(waiting) >= under_way:
            yield result_of(pool, waiting.popleft())
    while waiting:
        yield result_of(pool, waiting.popleft())


def submit(pool: Executor, work: Callable[[Part], Done], part: Part) -> Future[Done]:
    """Give a part to the workers; ChildProcessError if one was killed."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        return pool.submit(work, part)
    except BrokenProcessPool:
        raise ChildProcessError(errno.ECHILD, _KILLED) from None


def _start_worker(parent: int, start: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """Leave interruptions to the parent, end when it is gone, and do not look for cycles that are never made."""
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    _mask("SIG_UNBLOCK", _INTERRUPTS)
    gc.disable()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if start is not None:
        start(*given)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_CHECK_SECONDS)
    os._exit(1)
