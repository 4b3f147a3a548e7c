"""Attacks: what a plan and an attack hand each other, and what the attacks that are built in have in common.

An attack never asks the target and never judges: it returns what to send, given what was tried so far. So every
iteration is an attempt of its own in the journal, within the same budgets as all others. What an attack has to remember
beyond what was sent and answered it puts into the `note` of a prompt, which is recorded with the attempt: a run that
was stopped in the middle of an attack goes on with the same history.

Attacks that are built in are for testing systems of one's own, or those whose owner agreed. What they send depends on
the entry, the iteration, the seed and the history alone.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from faircount.components.code import refuse_unknown as refuse
from faircount.core.errors import FaircountError, UsageError
from faircount.core.text import clip, visible

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
        contents = [one.get("content") for one in self.messages if one.get("role") == "user"]
        return contents[-1] if contents and isinstance(contents[-1], str) else ""


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


# -- conversations ------------------------------------------------------------------------------------------------


def opening(entry: Entry) -> Messages:
    """Return what stands before the entry's own request: a system message, say."""
    places = [place for place, one in enumerate(entry.messages) if one.get("role") == "user"]
    return entry.messages[: places[-1]] if places else entry.messages


def user(text: str) -> Messages:
    """Return one message of the user."""
    return ({"role": "user", "content": text},)


def after(step: Step) -> Messages:
    """Return what was said when a step was answered."""
    return (*step.messages, {"role": "assistant", "content": step.response or ""})


def script(entry: Entry, turns: Sequence[str], history: Sequence[Step]) -> Messages | None:
    """Return the conversation up to the next of given turns; None where all were said.

    A turn that ended in an error is said again. One that a guardrail blocked is left out of the conversation, and the
    next one follows.
    """
    messages, turn = opening(entry), 0
    for step in history:
        if step.blocked:
            turn += 1
        elif step.error is None and step.response is not None:
            messages, turn = after(step), turn + 1
    return (*messages, *user(turns[turn])) if turn < len(turns) else None


# -- attacks that are built in ------------------------------------------------------------------------------------


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


class TextAttack(BuiltInAttack):
    """An attack whose every iteration is one text in the place of the entry's last message."""

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        return _TextPlay(self, entry, iterations)

    @abstractmethod
    def text(self, entry: Entry, history: Sequence[Step]) -> tuple[str, Mapping[str, Any]] | None:
        """Return what to say next and what is to be remembered of it; None where nothing is left."""


class EntryPlay(Play):
    """An attack on an entry that ends after so many iterations at the latest."""

    def __init__(self, entry: Entry, iterations: int) -> None:
        self.entry = entry
        self.iterations = iterations

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        """Return what to send next; None where no iteration is left, or nothing to try."""
        return None if len(history) >= self.iterations else await self.prompt(history)

    @abstractmethod
    async def prompt(self, history: Sequence[Step]) -> Prompt | None:
        """Return what to send next; None where nothing is left to try."""


class _TextPlay(EntryPlay):
    def __init__(self, attack: TextAttack, entry: Entry, iterations: int) -> None:
        super().__init__(entry, iterations)
        self._attack = attack

    async def prompt(self, history: Sequence[Step]) -> Prompt | None:
        following = self._attack.text(self.entry, history)
        return None if following is None else Prompt(with_text(self.entry.messages, following[0]), following[1] or None)


def check_whole(attack: str, option: str, value: object, *, low: int, high: int) -> int:
    """Return an option that is a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{attack}: {option} must be a whole number from {low:,} to {high:,}")
    return value


def check_seed(attack: str, value: object) -> int:
    """Return a seed."""
    return check_whole(attack, "seed", value, low=-(2**63), high=2**63)


# -- options ------------------------------------------------------------------------------------------------------


FLAG = "--attack-options"
_PAIR = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*=(.*)", re.DOTALL)
_CHAT = "chat"


def read_options(text: str | None) -> dict[str, Any]:
    """Return options from a JSON object or from pairs: `strength=0.5,seed=7`.

    A value of a pair is JSON if it can be read so, else a text. A comma divides pairs only before the next name and =.
    """
    if text is None or not text.strip():
        return {}
    # People write max-turns where Python needs max_turns.
    if text.lstrip().startswith("{"):
        try:
            given = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise UsageError(f"{FLAG}: not a JSON object: {visible(str(error))}") from None
        return {name.replace("-", "_"): value for name, value in given.items()}
    options: dict[str, Any] = {}
    for part in re.split(r",(?=\s*[A-Za-z][A-Za-z0-9_-]*\s*=)", text):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise UsageError(
                f"{FLAG}: {clip(visible(part.strip()), 60)} cannot be parsed; write NAME=VALUE,NAME=VALUE, or a JSON "
                "object"
            )
        name, value = pair[1].replace("-", "_"), pair[2].strip()
        if name in options:
            raise UsageError(f"{FLAG}: {name} is given twice")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def takes(kind: Callable[..., Any]) -> list[Parameter]:
    """Return what a class can be given as options, in its own order."""
    try:
        parameters = list(signature(kind).parameters.values())
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.name != _CHAT and one.kind is not Parameter.VAR_KEYWORD]


def takes_chat(kind: Callable[..., Any]) -> bool:
    """Return whether a class wants to know how a model is reached."""
    try:
        return _CHAT in signature(kind).parameters
    except (TypeError, ValueError):
        return False


def refuse_unknown(name: str, kind: Callable[..., Any], given: Mapping[str, Any], *, but: int = 0) -> None:
    """Raise UsageError for an option that a class or function does not take; the first `but` are no options."""
    if any(one.kind is Parameter.VAR_KEYWORD for one in signature(kind).parameters.values()):
        return
    refuse(name, given, [one.name for one in takes(kind)[but:]], "option")
