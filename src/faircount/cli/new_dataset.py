"""Where a new dataset goes: to the file that the user names, or to a new name like the one that spikee would choose."""

from __future__ import annotations

import argparse
import re

from faircount.errors import UsageError

_TAG = re.compile(r"[A-Za-z0-9_-]{1,50}")


def named_output(arguments: argparse.Namespace, *, standard_output: str) -> str | None:
    """Return the file that `-o` names, or None where Faircount chooses a name, in which `--tag` may be.

    `standard_output` says what is printed there.
    """
    tag, path = arguments.tag, arguments.output
    if path is not None:
        if tag is not None:
            raise UsageError("--tag is a part of the name that Faircount chooses; -o gives the whole name")
        if path == "-":
            raise UsageError(f"-o -: the new dataset needs a file; standard output {standard_output}")
        return str(path)
    if arguments.force:
        raise UsageError("--force needs -o: a name that Faircount chooses is always a new one")
    if tag is not None and not _TAG.fullmatch(tag):
        raise UsageError(f"--tag {tag}: a tag has 1 to 50 letters, digits, - and _")
    return None
