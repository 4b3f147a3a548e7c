"""Error texts made fit to show and to group: secrets masked, hidden characters visible, varying numbers levelled."""

import re
from functools import lru_cache

from faircount.text import clip, mask_secrets, visible

_SHOWN = 300
_KIND = 120

_VARYING = re.compile(
    r"""
      [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}   # a UUID
    | 0x[0-9a-fA-F]+
    | \b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b
    | (?<![\w.])(?![45]\d\d\b)\d+(?:\.\d+)*
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=8192)
def describe(error: str) -> tuple[str, str]:
    """Return the error as it may be shown, and its kind.

    The kind is the first line with every varying number, address and identifier replaced by `#`; standalone 4xx and
    5xx stay, because they are HTTP's names for what went wrong.
    """
    masked = mask_secrets(error)
    first_line = next((line.strip() for line in masked.splitlines() if line.strip()), "")
    kind = clip(visible(_VARYING.sub("#", first_line)), _KIND)
    return clip(visible(masked), _SHOWN), kind or "(no text)"
