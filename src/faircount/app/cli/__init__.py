"""The command line: parse, call one library function, hand its value to a presenter.

Answers go to stdout, everything else to stderr. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from faircount.app.cli.terminal import error_line
from faircount.core import interrupts
from faircount.core.errors import FaircountError
from faircount.core.text import clip_middle

EXIT_BUG = 70
EXIT_SYSTEM = 74
EXIT_INTERRUPTED = interrupts.EXIT_INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from faircount.app.cli.commands import parse

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        from faircount.app.cli.terminal import QUIET

        QUIET.set(arguments.quiet)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001  the outermost layer
        if _came_of_an_interrupt(error):
            return _complain("interrupted", EXIT_INTERRUPTED)
        return _explain(error)
    finally:
        for name in ("faircount.readers.labels", "faircount.io.object_store"):
            if name in sys.modules:
                sys.modules[name].remove_copies()


def _came_of_an_interrupt(error: BaseException) -> bool:
    """Return whether an error is what became of an interrupt: what it broke off, a clean-up stumbles over."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None or interrupts.came()


def _explain(error: Exception) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, FaircountError):
        message = str(error).partition("\n")[0] if error.further else str(error)
        return _complain(message, error.exit_code, error.further)
    if isinstance(error, BrokenPipeError):
        # Whoever reads has seen enough, of a command that stops then.
        return 0
    if os.environ.get("FAIRCOUNT_DEBUG"):
        raise error
    if isinstance(error, OSError):
        # A full disk, a folder that may not be entered, a name that is too long: the machine's answer, not a bug.
        names = [clip_middle(os.fsdecode(name), 200) for name in (error.filename, error.filename2) if name is not None]
        place = ", ".join(names) or "the system refused"
        return _complain(f"{place}: {error.strerror or error}", EXIT_SYSTEM)
    detail = f"{type(error).__name__}: {error}"
    return _complain(f"internal error, please report it ({detail}); set FAIRCOUNT_DEBUG=1 for the traceback", EXIT_BUG)


def _complain(message: str, code: int, further: Sequence[str] = ()) -> int:
    with contextlib.suppress(OSError):
        sys.stderr.write(error_line(message, further=further))
    return code
