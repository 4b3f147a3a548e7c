"""Who listens while a test file is executed.

There is one listener at most, in the thread that executes a file. Without one, declarations fall silent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from faircount.testing.messages import AssistantInput, AssistantOutput

if TYPE_CHECKING:
    from faircount.components.factory import Context


class Suite(Struct, frozen=True):
    """One group of one test, as it was declared; a grid makes several cases of it. Its values are not checked yet."""

    function: str
    name: str
    tags: tuple[str, ...]
    asked: AssistantInput
    expected: AssistantOutput
    grid: Mapping[str, list[Any]]
    metrics: tuple[Any, ...]
    count: int
    aggregation: str
    place: str


class Listener(Protocol):
    """What takes the declarations of a test file."""

    @property
    def setting(self) -> Context | None:
        """What judges that a file names are made with."""

    def listens(self) -> bool:
        """Tell whether what is executed now is declared here."""

    def place(self, filename: str, line: int) -> str:
        """Return a place as the user knows it."""

    def declare(self, suite: Suite) -> None:
        """Take a suite."""


_listener: ContextVar[Listener | None] = ContextVar("faircount_listener", default=None)


def listener() -> Listener | None:
    """Return who listens now."""
    return _listener.get()


@contextlib.contextmanager
def heard_by(who: Listener) -> Iterator[None]:
    """Let somebody listen for a while."""
    token = _listener.set(who)
    try:
        yield
    finally:
        _listener.reset(token)
