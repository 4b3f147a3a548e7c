"""`faircount` and `python -m faircount`."""

import gc
import os
import sys

from faircount.cli import main

_MANY_OBJECTS = 200_000


def run() -> None:
    """Run one command and end the process at once.

    By now everything is written and closed; taking a large analysis apart object by object would only take time.
    """
    # Nearly all objects of a command live until it ends: to look for garbage among them is seldom worth the time.
    gc.set_threshold(_MANY_OBJECTS)
    # Nothing here multiplies matrices; numpy's threads for that would only be in the way of the readers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    run()
