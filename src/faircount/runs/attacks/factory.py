"""From the name of an attack to the attack.

    best-of-n                    an attack that is built in, or of an installed package
    best-of-n(seed=7)            the same, with options
    ./file.py:Name(limit=3)      the user's own code, with options
    package.module:Name          the same, from a module
    spikee:best_of_n             an attack of spikee's, where that is installed
    spikee:./attacks/mine.py     one of a workspace of spikee's

Names ignore case and take _ for -. A package offers an attack with an entry point in the group `faircount.attacks`: a
subclass of Attack whose `name` is that of the entry point. Attacks are for testing systems of one's own.
"""

from __future__ import annotations

import re
from pathlib import Path

from faircount.compat.spikee.attack import PREFIX, SpikeeAttack
from faircount.components.code import CodePlace, is_local
from faircount.components.factory import BuiltIn, Context, Registry, fold, short, spec_from, with_more
from faircount.components.spec import Spec
from faircount.core.errors import UsageError
from faircount.runs.attacks.base import Attack
from faircount.runs.attacks.local import OwnAttack, constructed, local_attack, recorded
from faircount.runs.attacks.multi_turn import MultiTurn
from faircount.runs.attacks.options import FLAG, read_options, refuse_unknown, takes_chat
from faircount.runs.targets.arguments import Arguments, resolve

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_CRESCENDO = "crescendo"
_CLASSES = {
    "best-of-n": "best_of_n:BestOfN",
    "random-suffix-search": "random_suffix:RandomSuffixSearch",
    "encodings": "encodings:Encodings",
    "anti-spotlighting": "anti_spotlighting:AntiSpotlighting",
    "prompt-decomposition": "decomposition:PromptDecomposition",
    "multi-turn": "multi_turn:MultiTurn",
}
_ALIASES = {"multi-turn": (_CRESCENDO,)}
"""Other names, those of spikee; its names with _ are those of the table already."""


def _refused(name: str) -> str:
    """Return why a package cannot give an attack this name."""
    if _NAME.fullmatch(name):
        return ""
    return "the name of an attack may contain only lower-case letters, digits and hyphens"


ATTACKS = Registry(
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
    if _is_spikee(spec):
        if spec.positional or spec.parameters:
            raise UsageError(f"{short(spec.name)}: its options are a single string, as in spikee: {FLAG} TEXT")
        told = {} if options is None else {"attack_options": options}
    else:
        told = read_options(options)
    return make(with_more(spec, told, "options", "--attack", FLAG), context)


def _is_spikee(spec: Spec) -> bool:
    prefix, colon, _ = spec.name.partition(":")
    return bool(colon) and prefix.casefold() == PREFIX


def make(spec: Spec, context: Context) -> Attack:
    """Return the attack that a spec describes."""
    if _is_spikee(spec):
        return _spikee(spec, context)
    if is_local(spec.name):
        return _local(spec, context)
    known = ATTACKS.built_in(spec.name)
    return _plugin(spec, context) if known is None else _built_in(spec, context, known)


def _built_in(spec: Spec, context: Context, known: BuiltIn) -> Attack:
    kind = known.load()
    refuse_unknown(known.name, kind, spec.parameters)
    attack: Attack = kind(**spec.parameters, **({"chat": context.chat} if takes_chat(kind) else {}))
    if fold(spec.name) == _CRESCENDO and isinstance(attack, MultiTurn) and not attack.asks_model:
        raise UsageError(f'{_CRESCENDO}: needs a model: {_CRESCENDO}(model="…")')
    return attack


def _plugin(spec: Spec, context: Context) -> OwnAttack:
    arguments = resolve(spec.parameters)
    kind, plugin = ATTACKS.plugin(spec.name)
    attack = constructed(plugin.name, kind, arguments, context.chat)
    settings = {
        "kind": "plugin",
        "name": plugin.name,
        "arguments": dict(arguments.recorded),
        "version": f"{plugin.package} {plugin.version}",
        "chat": recorded(context.chat) if takes_chat(kind) else None,
    }
    _tell_secrets(plugin.name, arguments, context)
    return OwnAttack(attack, settings, plugin.name)


def _local(spec: Spec, context: Context) -> OwnAttack:
    place = CodePlace.of(spec.name, "attack", context.folder or str(Path.cwd()))
    arguments = resolve(spec.parameters)
    attack = local_attack(place, arguments, context.chat)
    _tell_secrets(spec.name, arguments, context)
    return attack


def _spikee(spec: Spec, context: Context) -> SpikeeAttack:
    target = spec.name.partition(":")[2]
    if not target:
        raise UsageError(f"spikee: name the attack: {PREFIX}:NAME, or {PREFIX}:./attacks/mine.py")
    attack = SpikeeAttack(target, spec.parameters.get("attack_options"), spec.parameters.get("place"))
    _tell_secrets(spec.name, attack.arguments, context)
    return attack


def _tell_secrets(name: str, arguments: Arguments, context: Context) -> None:
    if arguments.unrecorded:
        context.tell(
            f"{short(name)}: options that look like secrets are not recorded; to resume the run, set "
            f'{", ".join(arguments.unrecorded)}. Better: "$NAME" as the value, which is read from the environment '
            "variable NAME"
        )
