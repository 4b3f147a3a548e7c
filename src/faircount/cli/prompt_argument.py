"""A prompt on the command line: the text itself, or - for what stands on standard input."""

from __future__ import annotations

import sys

from faircount.errors import InputError, UsageError

STDIN = "-"
_LONGEST = 16 * 1024 * 1024


def prompt_of(told: str) -> str:
    """Return the prompt that is meant; of standard input without the line feed at its end."""
    if told != STDIN:
        return told
    if sys.stdin is None:
        raise UsageError("there is no standard input; write the prompt itself")
    content = sys.stdin.buffer.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise InputError("standard input: is larger than 16 MiB; that is no prompt")
    return content.decode("utf-8-sig", "replace").removesuffix("\n")
