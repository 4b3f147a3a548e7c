"""Attacks in the user's own code: `./file.py:Name` or `package.module:Name`, only where the user names them so.

`Name` is a subclass of Attack, an attack, or a function `(entry, history)` that returns what to send next: a text in
the place of the entry's last message, a Prompt, or None where nothing is left. A function may be sync or async; sync
code runs in threads of its own. A class is made once, with the options that the user gives; a function gets them with
every call. What it raises ends the attack on that entry.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from faircount.chat.settings import ChatSettings
from faircount.components.code import CodePlace, in_short, printing_aside, version_of_code
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.attacks.base import Attack, AttackError, Entry, Play, Prompt, Step, with_text
from faircount.runs.attacks.options import refuse_unknown, takes_chat
from faircount.runs.targets.arguments import Arguments
from faircount.runs.targets.concurrency import Outcome, in_loop, in_thread
from faircount.runs.targets.openai import recordable

_LONGEST = 300
_TAKEN = ("standard", "none")
"""What journals and result files call attempts without an attack."""


def recorded(chat: ChatSettings | None) -> dict[str, Any] | None:
    """Return how a model is reached, as it is written down."""
    written: dict[str, Any] | None = None if chat is None else msgspec.to_builtins(recordable(chat))
    return written


class OwnAttack(Attack):
    """Code of the user's or of a package's, with what is recorded of it."""

    def __init__(self, inner: Attack, settings: Mapping[str, Any], fallback: str) -> None:
        name = getattr(inner, "name", None)
        self.name = name if isinstance(name, str) and name else fallback
        if self.name.casefold() in _TAKEN:
            raise UsageError(f"{visible(fallback)}: its name, {self.name}, is reserved for attempts without an attack")
        self.inner = inner
        self._settings = settings

    def settings(self) -> Mapping[str, Any]:
        """Return where the code is and what it is given."""
        return self._settings

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        play: object = self.inner.begin(entry, iterations=iterations)
        if not isinstance(play, Play):
            raise AttackError(f"begin returned {type(play).__name__}; expected a Play")
        return play

    def ready(self) -> None:
        """Let the attack say what is missing."""
        self.inner.ready()

    async def close(self) -> None:
        """Close the attack."""
        await self.inner.close()


def local_attack(place: CodePlace, arguments: Arguments, chat: ChatSettings | None) -> OwnAttack:
    """Return the attack that stands at a place in the user's code."""
    module = place.load()
    found = place.find(module)
    settings = {
        "kind": "local",
        "name": place.called,
        "place": structs.asdict(place),
        "arguments": dict(arguments.recorded),
        "version": version_of_code(place.module, module),
        "chat": recorded(chat) if isinstance(found, type) and takes_chat(found) else None,
    }
    return OwnAttack(_attack(place, found, arguments, chat), settings, place.called)


def _attack(place: CodePlace, found: Any, arguments: Arguments, chat: ChatSettings | None) -> Attack:
    if isinstance(found, Attack):
        if arguments.given:
            raise UsageError(f"{visible(place.called)}: is already an attack and takes no options")
        return found
    if isinstance(found, type):
        if not issubclass(found, Attack):
            raise UsageError(f"{visible(place.called)}: is not a subclass of Attack")
        return constructed(place.called, found, arguments, chat)
    if callable(found):
        return FunctionAttack(place.called, found, arguments)
    raise UsageError(
        f"{visible(place.called)}: is {type(found).__name__}; expected a subclass of Attack, an attack or a function"
    )


def constructed(name: str, kind: type[Attack], arguments: Arguments, chat: ChatSettings | None) -> Attack:
    """Return an attack of a class of anybody's."""
    refuse_unknown(visible(name), kind, arguments.given)
    beside = {"chat": chat} if takes_chat(kind) else {}
    try:
        with printing_aside():
            return kind(**copy.deepcopy(dict(arguments.given)), **beside)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's code can fail in any way
        words = visible(arguments.hide(in_short(error)))
        # Not "from error": what the user's error quotes may be a secret.
        raise UsageError(f"{visible(name)}: cannot be created with these options: {words}") from None


class FunctionAttack(Attack):
    """A function that says what to send next."""

    def __init__(self, name: str, function: Callable[..., Any], arguments: Arguments) -> None:
        self.name = name
        self.function = function
        self.arguments = arguments
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise UsageError(f"{visible(name)}: cannot read its parameters; wrap it in a function") from None
        placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        if len(placed) < 2 and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
            raise UsageError(
                f"{visible(name)}: must take the entry and the history: def {_inner(name)}(entry, history)"
            )
        refuse_unknown(visible(name), function, arguments.given, but=2)

    def settings(self) -> Mapping[str, Any]:
        """Return nothing: whoever made the attack knows where the function is."""
        return {}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        return _Asked(self, entry, iterations)


def _inner(name: str) -> str:
    return name.rpartition(":")[2]


class _Asked(Play):
    def __init__(self, attack: FunctionAttack, entry: Entry, iterations: int) -> None:
        self._attack = attack
        self._entry = entry
        self._iterations = iterations

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        if len(history) >= self._iterations:
            return None
        # Its own: changing it changes no record.
        entry, steps = copy.deepcopy(self._entry), copy.deepcopy(list(history))
        call = partial(self._attack.function, entry, steps, **copy.deepcopy(dict(self._attack.arguments.given)))
        outcome = await _called(call, waits=inspect.iscoroutinefunction(self._attack.function))
        if outcome.error is not None:
            words = self._attack.arguments.hide(in_short(outcome.error))
            raise AttackError(clip(visible(mask_secrets(words)), _LONGEST)) from None
        return self._prompt(outcome.value)

    def _prompt(self, said: object) -> Prompt | None:
        if said is None or isinstance(said, Prompt):
            return said
        if isinstance(said, str):
            return Prompt(with_text(self._entry.messages, said))
        raise AttackError(f"the function returned {type(said).__name__}; expected a string, a Prompt or None")


async def _called(call: Callable[[], Any], *, waits: bool) -> Outcome:
    outcome = await (in_loop(call) if waits else in_thread(call))
    if inspect.isawaitable(outcome.value):  # a plain function that returns a coroutine
        return await in_loop(partial(_awaited, outcome.value))
    return outcome


async def _awaited(value: Any) -> Any:
    return await value
