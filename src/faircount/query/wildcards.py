"""Texts with wildcards: % stands for any characters or none, _ for one, a backslash takes the meaning from either.

The parts between the % are looked for from left to right and never again, so that no text makes the search slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\\[\\%_]|.", re.DOTALL)
_ANY_RUN = "%"
_ANY_ONE = "_"


def fits(wanted: str) -> Callable[[str], bool]:
    """Return the test of whether a whole text fits what is wanted; case counts."""
    parts = _parts(wanted)
    if len(parts) == 1:
        whole = _compiled(parts[0])
        return lambda text: whole.fullmatch(text) is not None
    first, last = _compiled(parts[0]), _compiled(parts[-1])
    between = [_compiled(part) for part in parts[1:-1] if part]
    tail = len(parts[-1])

    def test(text: str) -> bool:
        found = first.match(text)
        for part in between:
            if found is None:
                return False
            found = part.search(text, found.end())
        return found is not None and len(text) - found.end() >= tail and last.match(text, len(text) - tail) is not None

    return test


def _parts(wanted: str) -> list[list[str]]:
    """Cut a text at every %; a part is a list of characters and _ wildcards, those with a backslash kept with it."""
    parts: list[list[str]] = [[]]
    for token in _TOKEN.findall(wanted):
        if token == _ANY_RUN:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _compiled(part: list[str]) -> re.Pattern[str]:
    """Return the pattern of a part, which has as many characters as the part has tokens."""
    return re.compile("".join("." if token == _ANY_ONE else re.escape(token[-1]) for token in part), re.DOTALL)
