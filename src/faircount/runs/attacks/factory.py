"""From the name of an attack to the attack.

    best-of-n                    an attack that is built in, or of an installed package
    best-of-n(seed=7)            the same, with options
    ./file.py:Name(limit=3)      the user's own code, with options
    package.module:Name          the same, from a module
    TOOL:name                    an attack of another tool, where that is installed; `compat` has the tools
    TOOL:./attacks/mine.py       one that was written for it

Names ignore case and take _ for -. A package offers an attack with an entry point in the group `faircount.attacks`: a
subclass of Attack whose `name` is that of the entry point. Attacks are for testing systems of one's own.

In the user's code `Name` is a subclass of Attack, an attack, or a function `(entry, history)` that returns what to send
next: a text in the place of the entry's last message, a Prompt, or None where nothing is left. A function may be sync
or async; sync code runs in threads of its own. A class is made once, with the options that the user gives; a function
gets them with every call. What it raises ends the attack on that entry.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from faircount.chat.settings import ChatSettings
from faircount.components.code import CodePlace, in_short, printing_aside, version_of_code
from faircount.components.factory import (
    BuiltIn,
    Context,
    Plugin,
    Registry,
    adapter_of,
    fold,
    load_class,
    make,
    short,
    spec_from,
    tell_unrecorded,
    with_more,
)
from faircount.components.spec import Spec
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.attacks.base import (
    FLAG,
    Attack,
    AttackError,
    Entry,
    EntryPlay,
    Play,
    Prompt,
    Step,
    read_options,
    refuse_unknown,
    takes_chat,
    with_text,
)
from faircount.runs.attacks.model_assisted import MultiTurn
from faircount.runs.targets.openai import recordable
from faircount.runs.targets.user_code import Arguments, call_user_code, resolve

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_CRESCENDO = "crescendo"
_CLASSES = {
    "best-of-n": "mutations:BestOfN",
    "random-suffix-search": "mutations:RandomSuffixSearch",
    "encodings": "mutations:Encodings",
    "anti-spotlighting": "mutations:AntiSpotlighting",
    "prompt-decomposition": "model_assisted:PromptDecomposition",
    "multi-turn": "model_assisted:MultiTurn",
}
_ALIASES = {"multi-turn": (_CRESCENDO,)}
"""Names by which other tools know an attack; theirs with _ are those of the table already."""


def _refused(name: str) -> str:
    """Return why a package cannot give an attack this name."""
    if _NAME.fullmatch(name):
        return ""
    return "the name of an attack may contain only lower-case letters, digits and hyphens"


ATTACKS = REGISTRY = Registry(
    "faircount.attacks",
    Attack,  # type: ignore[type-abstract]  # compared with, never made
    "an attack",
    _refused,
    fold,
    tuple(
        BuiltIn(name, f"faircount.runs.attacks.{place}", aliases=_ALIASES.get(name, ()))
        for name, place in _CLASSES.items()
    ),
    alike=0.5,
)


def make_attack(text: str, context: Context, options: str | None = None) -> Attack:
    """Return the attack that a text names; `options` is the text of `--attack-options`."""
    called = text.strip()
    if not called:
        raise UsageError("no attack given; `faircount attacks list` shows them all")
    spec = spec_from("attack", called, "--attack", "best-of-n(seed=7)")
    if adapter_of(spec) is not None:
        if spec.positional or spec.parameters:
            tool = spec.name.partition(":")[0].casefold()
            raise UsageError(f"{short(spec.name)}: its options are a single string, as in {tool}: {FLAG} TEXT")
        more = {} if options is None else {"attack_options": options}
    else:
        more = read_options(options)
    attack: Attack = make(with_more(spec, more, "options", "--attack", FLAG), context)
    return attack


def make_own(_spec: Spec, _context: Context) -> None:
    """Return nothing: every attack is code, built in, of a package, or of another tool."""


def make_built_in(spec: Spec, context: Context, known: BuiltIn) -> Attack:
    """Return an attack that is built in."""
    kind = known.load()
    refuse_unknown(known.name, kind, spec.parameters)
    attack: Attack = kind(**spec.parameters, **({"chat": context.chat} if takes_chat(kind) else {}))
    if fold(spec.name) == _CRESCENDO and isinstance(attack, MultiTurn) and not attack.asks_model:
        raise UsageError(f'{_CRESCENDO}: needs a model: {_CRESCENDO}(model="…")')
    return attack


def make_plugin(spec: Spec, context: Context, kind: type[Attack], plugin: Plugin[Attack]) -> OwnAttack:
    """Return an attack of an installed package."""
    arguments = resolve(spec.parameters)
    attack = construct(plugin.name, kind, arguments, context.chat)
    settings = {
        "kind": "plugin",
        "name": plugin.name,
        "arguments": dict(arguments.recorded),
        "version": f"{plugin.package} {plugin.version}",
        "chat": recorded_chat(context.chat) if takes_chat(kind) else None,
    }
    tell_unrecorded(structs.replace(spec, name=plugin.name), arguments.unrecorded, context)
    return OwnAttack(attack, settings, plugin.name)


def make_local(spec: Spec, context: Context, place: CodePlace) -> OwnAttack:
    """Return an attack of the user's own code."""
    arguments = resolve(spec.parameters)
    attack = local_attack(place, arguments, context.chat)
    tell_unrecorded(spec, arguments.unrecorded, context)
    return attack


def make_adapted(spec: Spec, context: Context, adapter: str, name: str) -> Attack:
    """Return an attack of another tool, whose options are a single text; `place` is where a journal found its file."""
    if not name:
        tool = spec.name.partition(":")[0].casefold()
        raise UsageError(f"{tool}: name the attack: {tool}:NAME, or {tool}:./attacks/mine.py")
    attack = load_class(adapter)(name, spec.parameters.get("attack_options"), spec.parameters.get("place"))
    tell_unrecorded(spec, attack.arguments.unrecorded, context)
    made: Attack = attack
    return made


# -- code of anybody's --------------------------------------------------------------------------------------------


_LONGEST = 300
_TAKEN = ("standard", "none")
"""What journals and result files call attempts without an attack."""


def recorded_chat(chat: ChatSettings | None) -> dict[str, Any] | None:
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
        "chat": recorded_chat(chat) if isinstance(found, type) and takes_chat(found) else None,
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
        return construct(place.called, found, arguments, chat)
    if callable(found):
        return FunctionAttack(place.called, found, arguments)
    raise UsageError(
        f"{visible(place.called)}: is {type(found).__name__}; expected a subclass of Attack, an attack or a function"
    )


def construct(name: str, kind: type[Attack], arguments: Arguments, chat: ChatSettings | None) -> Attack:
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
            inner = name.rpartition(":")[2]
            raise UsageError(f"{visible(name)}: must take the entry and the history: def {inner}(entry, history)")
        refuse_unknown(visible(name), function, arguments.given, but=2)

    def settings(self) -> Mapping[str, Any]:
        """Return nothing: whoever made the attack knows where the function is."""
        return {}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        return _FunctionPlay(self, entry, iterations)


class _FunctionPlay(EntryPlay):
    def __init__(self, attack: FunctionAttack, entry: Entry, iterations: int) -> None:
        super().__init__(entry, iterations)
        self._attack = attack

    async def prompt(self, history: Sequence[Step]) -> Prompt | None:
        function, arguments = self._attack.function, self._attack.arguments
        # Its own: changing it changes no record.
        entry, steps = copy.deepcopy(self.entry), copy.deepcopy(list(history))
        call = partial(function, entry, steps, **copy.deepcopy(dict(arguments.given)))
        result = await call_user_code(call, waits=inspect.iscoroutinefunction(function))
        if result.error is not None:
            words = arguments.hide(in_short(result.error))
            raise AttackError(clip(visible(mask_secrets(words)), _LONGEST)) from None
        returned = result.value
        if returned is None or isinstance(returned, Prompt):
            return returned
        if isinstance(returned, str):
            return Prompt(with_text(self.entry.messages, returned))
        raise AttackError(f"the function returned {type(returned).__name__}; expected a string, a Prompt or None")
