"""What a command says beside its answer, on standard error: one line, begun with the program's name."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from faircount.core.text import inert_lines, visible

_RED = "\x1b[1;31m"
_PLAIN = "\x1b[0m"


def colours(stream: TextIO) -> bool:
    """Return whether what is written to a stream may be coloured."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(sentence: str) -> None:
    """Say something that the user should know; that nobody reads it is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        print(f"faircount: {visible(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


def error_line(message: str, program: str = "faircount", further: Sequence[str] = ()) -> str:
    """Return what is wrong, in red on a terminal, and further lines, indented; any other line break is spelled out."""
    name = f"{_RED}{program}:{_PLAIN}" if colours(sys.stderr) else f"{program}:"
    return inert_lines("\n  ".join([f"{name} {visible(message)}", *map(visible, further)]) + "\n")
