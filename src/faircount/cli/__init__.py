"""The command line: parse, call one library function, hand its value to a presenter.

Answers go to stdout, everything else to stderr. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from faircount.cli.messages import error_line
from faircount.errors import FaircountError

EXIT_BUG = 70
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from faircount.cli.parser import parse
    from faircount.cli.progress import QUIET

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        QUIET.set(arguments.quiet)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except FaircountError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has seen enough; keep the interpreter from complaining while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("FAIRCOUNT_DEBUG"):
            raise
        detail = f"{type(error).__name__}: {error}"
        return _complain(
            f"internal error, please report it ({detail}); set FAIRCOUNT_DEBUG=1 for the traceback", EXIT_BUG
        )


def _complain(message: str, code: int) -> int:
    sys.stderr.write(error_line(message))
    return code
