"""The signal of a guardrail: what code of a target raises when it stops a request or an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class GuardrailTriggered(Exception):
    """A guardrail stopped the request or the answer. `categories` are what it found, as far as it says.

    Categories may be given as names, or as spikee gives them: a mapping of names to something true.
    """

    def __init__(
        self, message: str = "a guardrail stopped the request", categories: Iterable[str] | Mapping[str, Any] = ()
    ) -> None:
        super().__init__(message)
        self.categories = category_names(categories)


def category_names(told: object) -> tuple[str, ...]:
    """Return the names of categories: those of a mapping whose value is true, those of a list, or one name."""
    if isinstance(told, str):
        return (told,) if told else ()
    if isinstance(told, Mapping):
        return tuple(str(name) for name, value in told.items() if value)
    if isinstance(told, Iterable):
        return tuple(str(name) for name in told if name is not None)
    return ()
