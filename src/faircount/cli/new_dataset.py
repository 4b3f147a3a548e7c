"""Where a new dataset goes: to the file that the user names, or to a new name like the one that spikee would choose."""

from __future__ import annotations

import re

from faircount.cli.parts import NewFileOptions
from faircount.errors import UsageError

_TAG = re.compile(r"[A-Za-z0-9_-]{1,50}")


def named_output(place: NewFileOptions, *, standard_output: str) -> str | None:
    """Return the file that `-o` names, or None where Faircount chooses a name, in which `--tag` may be.

    `standard_output` says what is printed there.
    """
    tag, path = place.tag, place.output
    if path is not None:
        if tag is not None:
            raise UsageError("--tag is part of the default file name and does not work with -o")
        if path == "-":
            raise UsageError(f"-o -: the new dataset needs a file; standard output is for {standard_output}")
        return str(path)
    if place.force:
        raise UsageError("--force needs -o; the default file name is always new")
    if tag is not None and not _TAG.fullmatch(tag):
        raise UsageError(f"--tag {tag}: use 1 to 50 letters, digits, - and _")
    return None
