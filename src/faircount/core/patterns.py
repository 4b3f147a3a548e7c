"""Regular expressions that users and records bring, searched with a limit on time.

The syntax is that of Python's `re`, which also checks it. The search is that of the `regex` package, which has a time
limit and lets other threads go on. Where the two read a pattern differently, it is rewritten so that `regex` finds what
`re` would.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from faircount.core.errors import InputError
from faircount.core.text import clip, visible

if TYPE_CHECKING:
    import regex

LIMIT = 2.0
"""Seconds for a search."""
_LATER_LIMIT = 0.1
_PATIENCE = 5
"""After so many searches that were cut off, the later ones of a pattern have less time."""
_LONGEST_QUOTE = 60

# What `re` means by \w, \s and \b; `regex` counts combining marks among letters, and not the separators 1C to 1F.
_LETTER = r"\p{L}\p{N}_"
_SPACE = r"\s\x1c-\x1f"
_NOT_EMPTY = "" if sys.version_info >= (3, 14) else r"(?!\A\Z)"
_OUTSIDE = {
    r"\w": f"[{_LETTER}]",
    r"\W": f"[^{_LETTER}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    r"\b": f"(?:(?<=[{_LETTER}])(?![{_LETTER}])|(?<![{_LETTER}])(?=[{_LETTER}]))",
    r"\B": f"(?:(?<=[{_LETTER}])(?=[{_LETTER}])|(?<![{_LETTER}])(?![{_LETTER}]){_NOT_EMPTY})",
}
_INSIDE = {r"\w": _LETTER, r"\s": _SPACE}
_PART = re.compile(r"\\N\{[^{}]*\}|\\.|\[\^?\]?|\]|(?P<brace>\{)(?!\d+(?:,\d*)?\}|,\d*\})|.", re.DOTALL)


class SlowPattern(InputError):
    """A search that was cut off after its time."""


class Pattern:
    """A regular expression with a time limit; raises what `re.compile` raises."""

    def __init__(self, text: str, flags: int = 0) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # re's warnings about sets inside sets are not for our users
            checked = re.compile(text, flags)
        self.text = text
        self._flags = checked.flags
        self._compiled: regex.Pattern[str] | None = None
        self._cut_off = 0

    def search(self, text: str) -> tuple[int, int] | None:
        """Return where the pattern is found first; SlowPattern if that takes too long."""
        try:
            found = self._pattern.search(text, timeout=self._limit)
        except TimeoutError:
            raise self._slow() from None
        return None if found is None else found.span()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield every place where the pattern is found."""
        try:
            for found in self._pattern.finditer(text, timeout=self._limit):
                yield found.span()
        except TimeoutError:
            raise self._slow() from None

    @property
    def _limit(self) -> float:
        return LIMIT if self._cut_off < _PATIENCE else _LATER_LIMIT

    @property
    def _pattern(self) -> Any:
        if self._compiled is None:
            import regex

            options = {re.I: regex.I, re.M: regex.M, re.S: regex.S, re.X: regex.X, re.A: regex.A}
            flags = regex.V0
            for ours, theirs in options.items():
                if self._flags & ours:
                    flags |= theirs
            as_it_is = self._flags & (re.A | re.X)
            rewritten = self.text if as_it_is else _rewritten(self.text)
            self._compiled = regex.compile(rewritten, flags)
        return self._compiled

    def _slow(self) -> SlowPattern:
        limit = self._limit
        self._cut_off += 1
        return SlowPattern(f"the pattern {clip(visible(self.text), _LONGEST_QUOTE)} took more than {limit:g} s")


def _rewritten(text: str) -> str:
    """Return a pattern as `regex` needs it to find what `re` finds."""
    parts = []
    in_set = False
    for match in _PART.finditer(text):
        part = match[0]
        if in_set:
            in_set = part != "]"
            parts.append(rf"\{part}" if part[0] == "[" else _INSIDE.get(part, part))
            # A bracket right after one that is only a sign is still the end, or a sign, of the same set.
            if part[0] == "[" and part.endswith("]"):
                parts[-1] = r"\[" + part[1:]
                in_set = False
        elif part[0] == "[":
            in_set = True
            parts.append(part[:-1] + r"\]" if part.endswith("]") else part)
        else:
            parts.append(rf"\{part}" if match["brace"] else _OUTSIDE.get(part, part))
    return "".join(parts)
