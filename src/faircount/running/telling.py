"""What is said beside the answers while a run is made ready: things that the user should know and no error says."""

from __future__ import annotations

import sys

from faircount.text import visible


def to_stderr(sentence: str) -> None:
    """Say a sentence on standard error."""
    print(f"faircount: {visible(sentence)}", file=sys.stderr)  # noqa: T201
