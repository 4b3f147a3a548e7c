"""A key that is taken from the environment, sent to the server that needs it, and shown to nobody."""

from __future__ import annotations

import os
from typing import NoReturn

from faircount.errors import UsageError
from faircount.text import visible

HIDDEN = "[key]"

# Keys made up for servers that take any ("x", "none", "EMPTY") are words that an answer may well contain.
_SHORTEST_IN_MESSAGES = 4
_SHORTEST_IN_ANSWERS = 16


class Key:
    """A secret that neither `repr` nor pickling gives away."""

    __slots__ = ("_value",)

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
        return text.replace(self._value, HIDDEN) if len(self._value) >= _SHORTEST_IN_MESSAGES else text

    def hide_in_answer(self, text: str) -> str:
        """Return a text of the model without the key, if that is long enough not to be a word."""
        return text.replace(self._value, HIDDEN) if len(self._value) >= _SHORTEST_IN_ANSWERS else text

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be serialised")
