"""What the attacks that are built in have in common: a sentence about them, checked options, one text at a time.

They are for testing systems of one's own, or those whose owner agreed. What they send hangs on the entry, the
iteration, the seed and the history alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from faircount.core.errors import UsageError
from faircount.runs.attacks.base import Attack, Entry, Play, Prompt, Step, with_text


class BuiltInAttack(Attack):
    """An attack with a name of its own. `__init__` takes options as keywords and hands them on as they are recorded."""

    name: str
    sentence: ClassVar[str]
    """What it does, in the list of attacks."""

    def __init__(self, **options: Any) -> None:
        self.options: Mapping[str, Any] = options

    def settings(self) -> Mapping[str, Any]:
        """Return the name and all options."""
        return {"kind": "built-in", "name": self.name, "options": dict(self.options)}


class OneText(BuiltInAttack):
    """An attack whose every iteration is one text in the place of the entry's last message."""

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        return _Texts(self, entry, iterations)

    @abstractmethod
    def text(self, entry: Entry, history: Sequence[Step]) -> tuple[str, Mapping[str, Any]] | None:
        """Return what to say next and what is to be remembered of it; None where nothing is left."""


class _Texts(Play):
    def __init__(self, attack: OneText, entry: Entry, iterations: int) -> None:
        self._attack = attack
        self._entry = entry
        self._iterations = iterations

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        if len(history) >= self._iterations:
            return None
        said = self._attack.text(self._entry, history)
        return None if said is None else Prompt(with_text(self._entry.messages, said[0]), said[1] or None)


def check_whole(attack: str, option: str, value: object, *, low: int, high: int) -> int:
    """Return an option that is a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{attack}: {option} must be a whole number from {low:,} to {high:,}")
    return value


def check_seed(attack: str, value: object) -> int:
    """Return a seed."""
    return check_whole(attack, "seed", value, low=-(2**63), high=2**63)
