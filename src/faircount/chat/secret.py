"""A key that is taken from the environment, sent to the server that needs it, and shown to nobody."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NoReturn

from faircount.core.errors import UsageError
from faircount.core.text import visible

HIDDEN = "[key]"

# Keys made up for servers that take any ("x", "none", "EMPTY") are words that an answer may well contain.
_SHORTEST_IN_MESSAGES = 4
_SHORTEST_IN_ANSWERS = 16
_BETWEEN = re.compile(r"(?:\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|[^A-Za-z0-9])+")
"""Anything but letters and digits, as it is or as JSON escapes it."""


class Key:
    """A secret that neither `repr` nor pickling gives away."""

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def from_environment(cls, variable: str) -> Key | None:
        """Return the key in a variable, or None where the variable is missing or empty."""
        value = os.environ.get(variable, "").strip() if variable else ""
        if not value:
            return None
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"{visible(variable)} contains characters that a key cannot have; set it again")
        return cls(value)

    @property
    def header(self) -> str:
        """The value of the header that carries the key."""
        return f"Bearer {self._value}"

    def hide_in_message(self, text: str) -> str:
        """Return a text for people without the key."""
        return self._hidden(text) if len(self._value) >= _SHORTEST_IN_MESSAGES else text

    def hide_in_answer(self, text: str) -> str:
        """Return a text of the model without the key, if that is long enough not to be a word."""
        return self._hidden(text) if len(self._value) >= _SHORTEST_IN_ANSWERS else text

    def _hidden(self, text: str) -> str:
        """Return a text without the key: as it is, broken by anything but letters and digits, in base64 or in hex."""
        text = text.replace(self._value, HIDDEN)
        letters = _BETWEEN.sub("", text)
        found = [written for written in self._disguises if written in letters]
        if not found:
            return text
        places, after = list[int](), 0
        for gap in _BETWEEN.finditer(text):
            places += range(after, gap.start())
            after = gap.end()
        places += range(after, len(text))
        kept, after = list[str](), 0
        for match in re.finditer("|".join(found), letters):
            start, end = places[match.start()], places[match.end() - 1] + 1
            kept += [text[after:start], HIDDEN]
            after = end
        return "".join([*kept, text[after:]])

    @cached_property
    def _disguises(self) -> tuple[str, ...]:
        """The letters and digits of the key and of its encodings, those that are too many to be there by chance."""
        made = (_BETWEEN.sub("", written) for written in (self._value, *_encodings(self._value.encode())))
        return tuple(dict.fromkeys(letters for letters in made if len(letters) >= _SHORTEST_IN_ANSWERS))

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be serialised")


def _encodings(value: bytes) -> Iterator[str]:
    """Yield a value in hex and in base64, there as it is inside a longer text at each of three alignments."""
    yield value.hex()
    yield value.hex().upper()
    for before in range(3):
        # What depends on the bytes beside the value is left out at both ends.
        encoded = base64.b64encode(bytes(before) + value).decode()
        yield encoded[(0, 2, 3)[before] : 8 * (before + len(value)) // 6]
