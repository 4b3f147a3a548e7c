"""From the name of an attack to the attack, and from what a journal recorded to the same attack again.

    best-of-n                    an attack that is built in, or of an installed package
    best-of-n(seed=7)            the same, with options
    ./file.py:Name(limit=3)      the user's own code, with options
    package.module:Name          the same, from a module
    spikee:best_of_n             an attack of spikee's, where that is installed
    spikee:./attacks/mine.py     one of a workspace of spikee's

Names ignore case and take _ for -. Attacks are for testing systems of one's own. To make an attack again loads the code
that the journal names: that is for journals of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from faircount.chat.settings import ChatSettings
from faircount.compat.spikee.attack import PREFIX, SpikeeAttack
from faircount.errors import InputError, UsageError
from faircount.judging.expression import Call
from faircount.judging.local_code import is_local
from faircount.judging.plugins import folded
from faircount.running.attacks import registry
from faircount.running.attacks.local import OwnAttack, constructed, local_attack, recorded
from faircount.running.attacks.multi_turn import MultiTurn
from faircount.running.attacks.options import FLAG, merged, refuse_unknown, takes_chat
from faircount.running.attacks.seam import Attack
from faircount.running.naming import Available, made_again, parsed, short, tell_changed
from faircount.running.targets.arguments import Arguments, resolve
from faircount.running.targets.local import Place


class AttackSetting(Struct, frozen=True):
    """What attacks are made with, beside their name.

    `chat` says how a model is reached that helps to attack, `options` is the text of `--attack-options`, and `tell`
    hears what the user should know and no error says.
    """

    chat: ChatSettings | None = None
    options: str | None = None
    tell: Callable[[str], None] = lambda _: None


def available() -> list[Available]:
    """Return all attacks that there are without code of the user's, and how that is named."""
    known = [Available(one.name, str(getattr(one.load(), "sentence", ""))) for one in registry.BUILT_IN]
    offered = [
        Available(one.name, str(getattr(one.kind, "sentence", "")) or f"an attack from the package {one.package}")
        for one in registry.plugins()
        if one.kind is not None
    ]
    return [
        *known,
        *offered,
        Available("spikee:NAME", "an attack from spikee; for one in a workspace: spikee:./attacks/mine.py"),
        Available("./file.py:Name", "your own subclass of Attack, or function (entry, history)"),
    ]


def make_attack(expression: str, setting: AttackSetting) -> Attack:
    """Return the attack that an expression and a setting describe."""
    called = expression.strip()
    if not called:
        raise UsageError("no attack given; `faircount attacks list` shows them all")
    call = parsed(called, "--attack", "best-of-n(seed=7)")
    prefix, colon, rest = call.name.partition(":")
    if colon and prefix.casefold() == PREFIX:
        return _spikee(call, rest, setting)
    if is_local(call.name):
        return _local(call, setting)
    known = registry.built_in(call.name)
    if known is not None:
        return _built_in(call.name, known, merged(call, setting.options), setting.chat)
    return _plugin(call.name, resolve(merged(call, setting.options)), setting)


# -- kinds of attacks -------------------------------------------------------------------------------------------


def _built_in(called: str, known: registry.BuiltIn, options: Mapping[str, Any], chat: ChatSettings | None) -> Attack:
    kind = known.load()
    refuse_unknown(known.name, kind, options)
    attack = kind(**options, **({"chat": chat} if takes_chat(kind) else {}))
    if folded(called) == registry.CRESCENDO and isinstance(attack, MultiTurn) and not attack.asks_model:
        raise UsageError(f'{registry.CRESCENDO}: needs a model: {registry.CRESCENDO}(model="…")')
    return attack


def _plugin(called: str, arguments: Arguments, setting: AttackSetting) -> OwnAttack:
    found = registry.plugin(called)
    if found is None:
        raise registry.unknown(called)
    if found.kind is None:
        raise UsageError(f"{found.name}: the attack from the package {found.package} cannot be used: {found.error}")
    attack = constructed(found.name, found.kind, arguments, setting.chat)
    settings = {
        "kind": "plugin",
        "name": found.name,
        "arguments": dict(arguments.recorded),
        "version": f"{found.package} {found.version}",
        "chat": recorded(setting.chat) if takes_chat(found.kind) else None,
    }
    _tell_secrets(found.name, arguments.unrecorded, setting)
    return OwnAttack(attack, settings, found.name)


def _local(call: Call, setting: AttackSetting) -> OwnAttack:
    module, _, inner = call.name.rpartition(":")
    if not module or not inner.isidentifier():
        raise UsageError(f"{short(call.name)}: name the attack in the file: ./file.py:Name")
    arguments = resolve(merged(call, setting.options))
    attack = local_attack(Place.of(call.name), arguments, setting.chat)
    _tell_secrets(call.name, arguments.unrecorded, setting)
    return attack


def _spikee(call: Call, target: str, setting: AttackSetting) -> SpikeeAttack:
    if not target:
        raise UsageError(f"spikee: name the attack: {PREFIX}:NAME, or {PREFIX}:./attacks/mine.py")
    if call.positional or call.keywords:
        raise UsageError(f"{short(call.name)}: its options are a single string, as in spikee: {FLAG} TEXT")
    attack = SpikeeAttack(target, setting.options)
    _tell_secrets(call.name, attack.unrecorded, setting)
    return attack


def _tell_secrets(name: str, variables: tuple[str, ...], setting: AttackSetting) -> None:
    if variables:
        setting.tell(
            f"{short(name)}: options that look like secrets are not recorded; to resume the run, set "
            f'{", ".join(variables)}. Better: "$NAME" as the value, which is read from the environment variable NAME'
        )


# -- again ------------------------------------------------------------------------------------------------------


class _BuiltInRecord(Struct, frozen=True):
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    chat: ChatSettings | None = None


class _LocalRecord(Struct, frozen=True):
    place: Place
    arguments: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    chat: ChatSettings | None = None


class _PluginRecord(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    chat: ChatSettings | None = None


class _SpikeeRecord(Struct, frozen=True):
    target: str
    place: str | None = None
    option: str | None = None
    version: str = ""


def attack_again(settings: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None) -> Attack:
    """Return the attack that recorded these settings."""
    makers: dict[str, Callable[..., Attack]] = {
        "built-in": _built_in_again,
        "local": _local_again,
        "plugin": _plugin_again,
        "spikee": _spikee_again,
    }
    return made_again("an attack", settings, makers, tell)


def _built_in_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Attack:
    record = msgspec.convert(settings, _BuiltInRecord)
    known = registry.built_in(record.name)
    if known is None:
        raise InputError(f"the journal names an attack that is not built in: {short(record.name)}")
    return _built_in(known.name, known, record.options, record.chat)


def _local_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Attack:
    record = msgspec.convert(settings, _LocalRecord)
    attack = local_attack(record.place, resolve(record.arguments), record.chat)
    _tell_changed(record.place.called, record.version, attack, tell)
    return attack


def _plugin_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Attack:
    record = msgspec.convert(settings, _PluginRecord)
    attack = _plugin(record.name, resolve(record.arguments), AttackSetting(record.chat, tell=tell))
    _tell_changed(record.name, record.version, attack, tell)
    return attack


def _spikee_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Attack:
    record = msgspec.convert(settings, _SpikeeRecord)
    attack = SpikeeAttack(record.target, record.option, record.place)
    _tell_changed(attack.name, record.version, attack, tell)
    return attack


def _tell_changed(name: str, before: str, attack: Attack, tell: Callable[[str], None]) -> None:
    tell_changed(short(name), before, attack.settings()["version"], "sends", tell)
