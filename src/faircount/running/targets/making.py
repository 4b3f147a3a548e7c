"""From the name of a target to the target, and from what a journal recorded to the same target again.

    openai                         a server that speaks OpenAI's protocol
    litellm, bedrock               a provider of the extra litellm, or of another package
    ./target.toml                  any server over HTTP, by a file; also http(file="target.toml")
    command(argv=["./bot"])        a program
    ./file.py:Name(limit=3)        the user's own code, with arguments
    package.module:Name            the same, from a module
    spikee:NAME                    a target module of spikee's; also spikee:./path/target.py
    replay(file="results.jsonl")   answers from saved results
    simulated(seed=7)              a simulation, with options

Without a name, REBEL's flags say what is meant. To make a target again loads the code that the journal names and asks
the server that it names: that is for journals of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from faircount.chat.providers import provider_names
from faircount.chat.settings import ChatSettings
from faircount.compat.rebel.client import ApiConfig, client_place, read_api_config
from faircount.compat.spikee.target import PREFIX as SPIKEE
from faircount.compat.spikee.target import SpikeeTarget
from faircount.errors import UsageError
from faircount.judging.expression import Call
from faircount.judging.local_code import is_local
from faircount.running.naming import (
    Available,
    did_you_mean,
    made_again,
    near,
    parsed,
    refuse_unnamed,
    short,
    tell_changed,
    together,
)
from faircount.running.targets import patience
from faircount.running.targets.arguments import Arguments, read_arguments, resolve
from faircount.running.targets.command import CommandTarget
from faircount.running.targets.http import HttpTarget
from faircount.running.targets.http_file import read_file
from faircount.running.targets.local import LocalTarget, Place
from faircount.running.targets.openai import OpenAITarget, recordable
from faircount.running.targets.replay import ReplayTarget
from faircount.running.targets.seam import Target
from faircount.running.targets.simulated import VARIANTS, SimulatedTarget
from faircount.running.targets.simulated_attacks import ATTACK_VARIANTS, SimulatedAttackTarget
from faircount.text import visible

OPENAI, HTTP, COMMAND, REPLAY = "openai", "http", "command", "replay"
_TEMPLATES = (".toml", ".json")


class TargetSetting(Struct, frozen=True):
    """What targets are made with, beside their name.

    `chat` says how a server is asked; its `timeout` holds for the user's own code too. `target_args` and
    `api_client_args` are JSON objects, as text. `tell` hears what the user should know and no error says.
    """

    chat: ChatSettings = field(default_factory=ChatSettings)
    target_args: str | None = None
    api_config: str | None = None
    api_client_module: str | None = None
    api_client_class: str | None = None
    api_client_args: str | None = None
    tell: Callable[[str], None] = lambda _: None


def available() -> list[Available]:
    """Return all targets that can be named, and how code, programs, servers and files are."""
    others = [
        Available(name, "any provider of LiteLLM, by the name of the model; needs that package: --model")
        if name == "litellm"
        else Available(name, "a provider from an installed package: --model")
        for name in provider_names()
        if name != OPENAI
    ]
    return [
        Available(OPENAI, "a server that speaks OpenAI's protocol: --base-url, --model, --api-key-env"),
        *(Available(one.name, one.sentence) for one in VARIANTS),
        *(Available(one.name, one.sentence) for one in ATTACK_VARIANTS),
        *others,
        Available("./target.toml", 'any server over HTTP, as a file describes it; also http(file="target.toml")'),
        Available('command(argv=["./bot"])', "a program: the prompt on standard input, the answer on standard output"),
        Available("./file.py:Name", "your own function or class, sync or async; package.module:Name works too"),
        Available("spikee:NAME", "a target module of spikee: ./targets/NAME.py, or one from the installed package"),
        Available('replay(file="results.jsonl")', "answers from saved results: spikee's files and journals of runs"),
    ]


def make_target(name: str | None, setting: TargetSetting) -> Target:
    """Return the target that a name and a setting describe."""
    called = (name or "").strip()
    if setting.api_client_module or setting.api_client_class or setting.api_client_args:
        return _rebel(called, setting)
    if setting.api_config is not None and called in ("", OPENAI):
        return _configured(setting)
    if not called:
        raise UsageError(f"no target given; choose one with --target: {_names()}")
    if setting.api_config is not None:
        raise UsageError(f"--api-config is for the target openai, but the target is {short(called)}; leave one out")
    return _named(parsed(called, "--target", "simulated(seed=7)"), setting)


def _named(call: Call, setting: TargetSetting) -> Target:
    name = call.name.casefold()
    if name == "simulated" or name.startswith("simulated:"):
        return _simulated(call, setting)
    makers = {HTTP: _http, COMMAND: _command, REPLAY: _replay}
    if name in makers:
        return makers[name](call, setting)
    if name.endswith(_TEMPLATES):
        _refuse_arguments(call, setting, "everything it needs is in the file")
        return _of_file(call.name, call.name, setting)
    if name.startswith(SPIKEE):
        return _spikee(call, setting)
    if is_local(call.name) and not name.startswith(f"{OPENAI}:"):
        return _local(Place.of(call.name), _arguments(call, setting), setting)
    if call.name in provider_names() or name == OPENAI:
        _refuse_arguments(call, setting, "name its model with --model, its address with --base-url")
        return _openai(setting.chat, name if name == OPENAI else call.name)
    raise UsageError(_unknown(call.name))


# -- kinds of targets -------------------------------------------------------------------------------------------


def _openai(chat: ChatSettings, provider: str) -> OpenAITarget:
    if provider != OPENAI:
        chat = structs.replace(chat, provider=provider)
    _need_model(chat, "name it with --model")
    return OpenAITarget(chat)


def _need_model(chat: ChatSettings, how: str) -> None:
    if not chat.model:
        raise UsageError(f"{chat.provider}: no model given; {how}")


def _http(call: Call, setting: TargetSetting) -> HttpTarget:
    return _of_file(HTTP, _file(call, setting, "target.toml"), setting)


def _of_file(name: str, path: str, setting: TargetSetting) -> HttpTarget:
    target = HttpTarget(name, read_file(path), setting.chat)
    for sentence in target.advice():
        setting.tell(sentence)
    return target


def _replay(call: Call, setting: TargetSetting) -> ReplayTarget:
    return ReplayTarget(_file(call, setting, "results.jsonl"), setting.tell)


def _file(call: Call, setting: TargetSetting, example: str) -> str:
    """Return the file that is the only argument of a target."""
    given = _given(call, setting)
    path = given.get("file")
    if set(given) != {"file"} or not isinstance(path, str) or not path:
        raise UsageError(f'{call.name}: takes one argument, the file: {call.name}(file="{example}")')
    return path


def _command(call: Call, setting: TargetSetting) -> CommandTarget:
    arguments = _arguments(call, setting)
    _tell_unrecorded(call.name, arguments, setting)
    return CommandTarget(arguments, str(Path.cwd()), setting.chat.timeout)


def _spikee(call: Call, setting: TargetSetting) -> SpikeeTarget:
    arguments = _arguments(call, setting)
    _tell_unrecorded(call.name, arguments, setting)
    return SpikeeTarget(call.name[len(SPIKEE) :], arguments, str(Path.cwd()), setting.chat)


def _configured(setting: TargetSetting) -> OpenAITarget:
    """Return the target of `--api-config`."""
    if setting.target_args:
        raise UsageError("--target-args is for code of your own; write parameters into the file of --api-config")
    config = read_api_config(setting.api_config or "")
    chat = config.over(setting.chat)
    _need_model(chat, f"write it into {visible(config.path)}, or name it with --model")
    _tell(setting, config.advice())
    return _with_config(config, chat)


def _with_config(config: ApiConfig, chat: ChatSettings) -> OpenAITarget:
    kept = recordable(chat)
    return OpenAITarget(kept, client=config.client(kept), api_config=config.path)


def _rebel(called: str, setting: TargetSetting) -> LocalTarget:
    """Return the target of `--api-client-module` and `--api-client-class`."""
    place = client_place(setting.api_client_module, setting.api_client_class)
    if called:
        raise UsageError(f"--api-client-module and --target {short(called)} each name a target; leave one out")
    if setting.api_config is not None:
        _tell(setting, "--api-config is not used: --api-client-module names the target")
    arguments = resolve(read_arguments(setting.api_client_args, "--api-client-args"))
    return _local(place, arguments, setting)


def _local(place: Place, arguments: Arguments, setting: TargetSetting) -> LocalTarget:
    target = LocalTarget(place, arguments, setting.chat.timeout)
    _tell_unrecorded(place.called, arguments, setting)
    return target


def _tell_unrecorded(called: str, arguments: Arguments, setting: TargetSetting) -> None:
    if arguments.unrecorded:
        variables = ", ".join(arguments.unrecorded)
        setting.tell(
            f"{called}: arguments that look like secrets are not recorded; to resume the run, set {variables}. "
            'Better: "$NAME" as the argument, which is read from the environment variable NAME'
        )


def _simulated(call: Call, setting: TargetSetting) -> Target:
    name = call.name.casefold()
    if any(one.name == name for one in ATTACK_VARIANTS):
        return SimulatedAttackTarget(name, _given(call, setting))
    if all(one.name != name for one in VARIANTS):
        raise UsageError(_unknown(call.name))
    return SimulatedTarget(name, _given(call, setting))


def _tell(setting: TargetSetting, sentence: str | None) -> None:
    if sentence is not None:
        setting.tell(sentence)


# -- names and arguments ----------------------------------------------------------------------------------------


def _arguments(call: Call, setting: TargetSetting) -> Arguments:
    return resolve(_given(call, setting))


def _given(call: Call, setting: TargetSetting) -> dict[str, Any]:
    """Return the arguments of a name and of `--target-args` together."""
    refuse_unnamed(call, "arguments")
    return together(call, read_arguments(setting.target_args, "--target-args"), "--target", "--target-args")


def _refuse_arguments(call: Call, setting: TargetSetting, hint: str) -> None:
    if _given(call, setting):
        raise UsageError(f"{short(call.name)}: takes no arguments; {hint}")


def _names() -> str:
    return ", ".join(one.name for one in available())


def _unknown(name: str) -> str:
    known = [one.name.partition("(")[0] for one in available() if not one.name.startswith(".")]
    meant = [OPENAI] if name.casefold().startswith(f"{OPENAI}:") else near(name.casefold(), known)
    hint = "; name the model with --model" if meant == [OPENAI] else ""
    return f"{short(name)}: no such target; {did_you_mean(meant)}available: {_names()}{hint}"


# -- again ------------------------------------------------------------------------------------------------------


class _OpenAIRecord(Struct, frozen=True):
    chat: ChatSettings
    api_config: str | None = None


class _LocalRecord(Struct, frozen=True):
    place: Place
    timeout: float
    arguments: dict[str, Any] = field(default_factory=dict)
    version: str = ""


class _SimulatedRecord(Struct, frozen=True):
    name: str
    options: dict[str, Any] = field(default_factory=dict)


class _FileRecord(Struct, frozen=True):
    name: str
    file: str
    version: str = ""
    chat: dict[str, Any] = field(default_factory=dict)


class _CommandRecord(Struct, frozen=True):
    arguments: dict[str, Any]
    folder: str
    timeout: float


class _SpikeeRecord(Struct, frozen=True):
    module: str
    arguments: dict[str, Any]
    folder: str
    chat: dict[str, Any]
    version: str = ""


def again(settings: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None) -> Target:
    """Return the target that recorded these settings."""
    makers: dict[str, Callable[..., Target]] = {
        "openai": _openai_again,
        "local": _local_again,
        "simulated": _simulated_again,
        "http": _http_again,
        "command": _command_again,
        "spikee": _spikee_again,
        "replay": _replay_again,
    }
    return made_again("a target", settings, makers, tell)


def _openai_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _OpenAIRecord)
    if record.api_config is None:
        return OpenAITarget(record.chat)
    # The journal has all that the file said but its key.
    return _with_config(read_api_config(record.api_config), record.chat)


def _local_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _LocalRecord)
    target = LocalTarget(record.place, resolve(record.arguments), record.timeout)
    tell_changed(record.place.called, record.version, target.version, "answers", tell)
    return target


def _simulated_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _SimulatedRecord)
    if any(one.name == record.name for one in ATTACK_VARIANTS):
        return SimulatedAttackTarget(record.name, record.options)
    return SimulatedTarget(record.name, record.options)


def _http_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _FileRecord)
    target = HttpTarget(record.name, read_file(record.file), patience.settings_of(record.chat))
    tell_changed(record.file, record.version, target.version, "answers", tell)
    return target


def _command_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _CommandRecord)
    return CommandTarget(resolve(record.arguments), record.folder, record.timeout)


def _spikee_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _SpikeeRecord)
    chat = patience.settings_of(record.chat)
    target = SpikeeTarget(record.module, resolve(record.arguments), record.folder, chat)
    tell_changed(target.name, record.version, target.version, "answers", tell)
    return target


def _replay_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Target:
    return ReplayTarget(msgspec.convert(settings, _FileRecord).file, tell)


_LIMITS = ("timeout", "tries", "concurrency", "requests_per_minute")


def without_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a target recorded of itself without how fast and how patiently it is asked."""
    return {
        name: without_limits(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name not in _LIMITS
    }
