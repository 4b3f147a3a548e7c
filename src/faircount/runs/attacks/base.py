"""What a plan and an attack hand each other: the entry, what was tried so far, and what is to be sent next.

An attack never asks the target and never judges: it says what to send, and hears what came of it. So every iteration is
an attempt of its own in the journal, within the same budgets as all others. What an attack has to remember beyond what
was sent and answered it puts into the `note` of a prompt, which is recorded with the attempt: a run that was stopped in
the middle of an attack goes on with the same history.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from faircount.core.errors import FaircountError

Messages = tuple[Mapping[str, Any], ...]
"""A conversation in OpenAI's shape."""


class Entry(Struct, frozen=True):
    """An entry of a dataset as attacks see it.

    `messages` is what the standard attempt sends, a system message among them; `fields` is everything that the dataset
    says of the entry, such as `payload`, `exclude_from_transformations_regex`, `judge_args`, `steering_keywords`.
    """

    name: str
    messages: Messages
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The last message of the user."""
        said = [one.get("content") for one in self.messages if one.get("role") == "user"]
        return said[-1] if said and isinstance(said[-1], str) else ""


class Step(Struct, frozen=True):
    """An iteration that was made: what was sent and what came of it.

    `success` is None where nobody decided; `score` is the judge's, where it has degrees. `error` is what went wrong
    instead of an answer; `blocked`: a guardrail stopped it.
    """

    messages: Messages
    response: str | None = None
    success: bool | None = None
    score: float | None = None
    error: str | None = None
    blocked: bool = False
    note: Mapping[str, Any] | None = None


class Prompt(Struct, frozen=True):
    """What is to be sent next, and what the attack wants to remember about it: plain data."""

    messages: Messages
    note: Mapping[str, Any] | None = None


class AttackError(FaircountError):
    """An attack that failed by itself, in a sentence without secrets: it ends on that entry, and that is recorded.

    It says nothing about the target.
    """

    # Incomplete: another time the attack may know what to send.
    exit_code = 4


class Play(ABC):
    """One attack on one entry."""

    @abstractmethod
    async def next(self, history: Sequence[Step]) -> Prompt | None:
        """Return what to send after what was tried so far; None where the attack has nothing left to try.

        What is raised here ends the attack on this entry, and is recorded as an error of its own.
        """

    async def close(self) -> None:
        """Give back what the play holds; nothing more will be asked of it."""
        return


class Attack(ABC):
    """A dynamic attack. `name` is the strategy that its attempts are recorded under."""

    name: str

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return plain data without secrets from which `components.make_again` makes this attack."""

    @abstractmethod
    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on one entry, which has so many iterations at most. It sends nothing yet."""

    def ready(self) -> None:
        """Raise UsageError where the attack could do nothing at all: a key that is missing, say."""
        return

    async def close(self) -> None:
        """Give back what the attack holds."""
        return


def with_text(messages: Messages, text: str) -> Messages:
    """Return a conversation whose last message of the user says something else."""
    last = max((place for place, one in enumerate(messages) if one.get("role") == "user"), default=None)
    if last is None:
        return (*messages, {"role": "user", "content": text})
    return (*messages[:last], {**messages[last], "content": text}, *messages[last + 1 :])
