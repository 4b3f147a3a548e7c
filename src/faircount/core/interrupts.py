"""Interrupts of the command line: Ctrl-C, SIGTERM and SIGHUP end a command once, and only where that is safe.

Python raises KeyboardInterrupt between any two instructions: in the middle of an import, which then leaves a lock that
other threads wait for; in a clean-up, which then leaves files and processes; in a finaliser, where it is lost. Here an
interrupt waits until such a thing is over, though never long. What follows it is clean-up and is not interrupted
again. Where that hangs, the process ends all the same.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

EXIT_INTERRUPTED = 130
MESSAGE = "faircount: interrupted\n"

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_LONGEST_WAIT = 2.0
"""How many seconds an interrupt waits for an import or a clean-up, which may be anybody's code."""
_LONGEST_END = 10.0
_TRY_AGAIN = 0.01

# `close` stands for context managers that are written in C. What they begin with may take long, and cleans up itself.
_ENDS = frozenset(["__exit__", "__aexit__", "__del__", "close"])
_BEGINNINGS = frozenset(["__enter__", "__aenter__", "enter_context"])
_WHOLE_FILES = frozenset(["tempfile.py", "weakref.py", "_weakrefset.py"])
_WHOLE_FUNCTIONS = frozenset([("threading.py", "start"), ("events.py", "_run")])  # the latter are asyncio's callbacks
_IMPORTS = "<frozen importlib"

P = ParamSpec("P")
R = TypeVar("R")

_whole: set[CodeType] = set()


class _SignalState:
    armed = False
    came = False
    waiting_since: float | None = None


def uninterrupted(function: Callable[P, R]) -> Callable[P, R]:
    """Let interrupts wait until a function has ended: one that makes something and then sees that it is removed."""
    _whole.add(function.__code__)
    return function


def install() -> None:
    """Take the signals that end a process as interrupts from now on; one that is ignored, as under nohup, stays so."""
    _SignalState.armed = True
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    sys.unraisablehook = _unraisable


def disarm() -> None:
    """Let the command end as it would: it is done."""
    _SignalState.armed = False


def came() -> bool:
    """Return whether the command was interrupted, whatever exception that has become."""
    return _SignalState.came


def handle(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt now or in a moment; the first time only."""
    if not _SignalState.armed:
        return
    now = time.monotonic()
    if _SignalState.waiting_since is None or now > _SignalState.waiting_since + 2 * _LONGEST_WAIT:
        _SignalState.waiting_since = now
    if _must_wait(frame) and now < _SignalState.waiting_since + _LONGEST_WAIT and _start(_send_again, number):
        return
    _SignalState.armed = False
    _SignalState.came = True
    _start(_end_at_last)
    raise KeyboardInterrupt


def _must_wait(frame: FrameType | None) -> bool:
    if frame is not None and frame.f_code.co_name in _BEGINNINGS:
        return True
    while frame is not None:
        code = frame.f_code
        file = os.path.basename(code.co_filename)  # noqa: PTH119  in a signal handler, quickly
        if (
            code.co_name in _ENDS
            or code in _whole
            or file in _WHOLE_FILES
            or (file, code.co_name) in _WHOLE_FUNCTIONS
            or code.co_filename.startswith(_IMPORTS)
        ):
            return True
        frame = frame.f_back
    return False


def _start(work: Callable[..., None], *values: object) -> bool:
    """Start a thread of the bare kind: a handler may run while the locks of `threading` are held."""
    try:
        _thread.start_new_thread(work, values)
    except RuntimeError:
        return False
    return True


def _send_again(number: int) -> None:
    time.sleep(_TRY_AGAIN)
    # A signal and no mere flag: the main thread may be waiting for something that does not come.
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _end_at_last() -> None:
    time.sleep(_LONGEST_END)
    with contextlib.suppress(OSError):
        os.write(2, MESSAGE.encode())
    os._exit(EXIT_INTERRUPTED)


def _unraisable(what: Any, /) -> None:
    """Send an interrupt again that was raised where nothing can be: in a finaliser, say.

    After an interrupt nothing else is said: finalisers stumble over what it left half made.
    """
    if not _SignalState.came:
        sys.__unraisablehook__(what)
    elif issubclass(what.exc_type, KeyboardInterrupt):
        _SignalState.armed, _SignalState.waiting_since = True, None
        _start(_send_again, signal.SIGINT)
