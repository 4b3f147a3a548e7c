"""From the name of a target to the target, and from what a journal recorded to the same target again.

    openai                     a server that speaks OpenAI's protocol
    simulated(seed=7)          a simulation, with options
    ./file.py:Name(limit=3)    the user's own code, with arguments
    package.module:Name        the same, from a module

Without a name, REBEL's flags say what is meant. To make a target again loads the code that the journal names and asks
the server that it names: that is for journals of one's own.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from faircount.chat.settings import ChatSettings
from faircount.errors import InputError, UsageError
from faircount.judging.expression import Call, parse
from faircount.judging.local_code import is_local
from faircount.query.mistakes import QueryError
from faircount.running.targets.arguments import Arguments, read_arguments, resolve
from faircount.running.targets.local import LocalTarget, Place
from faircount.running.targets.openai import OpenAITarget, recordable
from faircount.running.targets.rebel_client import ApiConfig, client_place, read_api_config
from faircount.running.targets.seam import Target
from faircount.running.targets.simulated import VARIANTS, SimulatedTarget
from faircount.text import clip, visible

OPENAI = "openai"
_LONGEST_NAME = 200


def to_stderr(sentence: str) -> None:
    """Say something beside the answers."""
    print(f"faircount: {visible(sentence)}", file=sys.stderr)  # noqa: T201


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
    tell: Callable[[str], None] = to_stderr


class Available(NamedTuple):
    """A target that can be named, and a sentence about it."""

    name: str
    sentence: str


def available() -> list[Available]:
    """Return all targets that there are without code of the user's, and how that is named."""
    return [
        Available(OPENAI, "a server that speaks OpenAI's protocol: --base-url, --model, --api-key-env"),
        *(Available(one.name, one.sentence) for one in VARIANTS),
        Available("./file.py:Name", "a function or a class of yours, sync or async; package.module:Name works too"),
    ]


def make_target(name: str | None, setting: TargetSetting) -> Target:
    """Return the target that a name and a setting describe."""
    called = (name or "").strip()
    if setting.api_client_module or setting.api_client_class or setting.api_client_args:
        return _rebel(called, setting)
    if setting.api_config is not None and called in ("", OPENAI):
        return _configured(setting)
    if not called:
        raise UsageError(f"no target is named; name one with --target: {_names()}")
    if setting.api_config is not None:
        raise UsageError(f"--api-config is for the target openai, and the target is {_short(called)}; leave one out")
    return _named(_parsed(called), setting)


def _named(call: Call, setting: TargetSetting) -> Target:
    name = call.name.casefold()
    if name == OPENAI:
        _refuse_arguments(call, setting, "name its model with --model, its address with --base-url")
        return _openai(setting.chat)
    if name == "simulated" or name.startswith("simulated:"):
        return _simulated(call, setting)
    if is_local(call.name) and not name.startswith(f"{OPENAI}:"):
        return _local(Place.of(call.name), _arguments(call, setting), setting)
    raise UsageError(_unknown(call.name))


# -- kinds of targets -------------------------------------------------------------------------------------------


def _openai(chat: ChatSettings) -> OpenAITarget:
    _need_model(chat, "name it with --model")
    return OpenAITarget(chat)


def _need_model(chat: ChatSettings, how: str) -> None:
    if not chat.model:
        raise UsageError(f"openai: no model is named; {how}")


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
        raise UsageError(f"--api-client-module and --target {_short(called)} each name a target; leave one out")
    if setting.api_config is not None:
        _tell(setting, "--api-config is not used: --api-client-module names the target")
    arguments = resolve(read_arguments(setting.api_client_args, "--api-client-args"))
    return _local(place, arguments, setting)


def _local(place: Place, arguments: Arguments, setting: TargetSetting) -> LocalTarget:
    target = LocalTarget(place, arguments, setting.chat.timeout)
    if arguments.unrecorded:
        variables = ", ".join(arguments.unrecorded)
        _tell(
            setting,
            f"{place.called}: arguments that look like secrets are not recorded; to resume the run, set {variables}. "
            'Better give "$NAME" as the argument, which stands for the environment variable NAME',
        )
    return target


def _simulated(call: Call, setting: TargetSetting) -> SimulatedTarget:
    name = call.name.casefold()
    if all(one.name != name for one in VARIANTS):
        raise UsageError(_unknown(call.name))
    return SimulatedTarget(name, _given(call, setting))


def _tell(setting: TargetSetting, sentence: str | None) -> None:
    if sentence is not None:
        setting.tell(sentence)


# -- names and arguments ----------------------------------------------------------------------------------------


def _parsed(name: str) -> Call:
    if "(" not in name and name[0] not in "\"'":
        return Call(name)  # a path may have blanks in it
    try:
        return parse(name)
    except QueryError as error:
        raise UsageError(
            f"--target: {_short(name)} is not understood at character {error.position + 1}; write NAME or "
            "NAME(option=value), such as simulated(seed=7) or ./file.py:Name(limit=3)"
        ) from None


def _arguments(call: Call, setting: TargetSetting) -> Arguments:
    return resolve(_given(call, setting))


def _given(call: Call, setting: TargetSetting) -> dict[str, Any]:
    """Return the arguments of a name and of `--target-args` together."""
    if call.positional:
        raise UsageError(f"{_short(call.name)}: its arguments have names: {_short(call.name)}(name=value)")
    for name, value in call.keywords.items():
        if isinstance(value, Call):
            raise UsageError(f'{_short(call.name)}: a text stands in quotes: {name}="{_short(value.name)}"')
    told = read_arguments(setting.target_args, "--target-args")
    for name in told:
        if name in call.keywords:
            raise UsageError(f"{_short(call.name)}: {visible(name)} is given twice, in --target and in --target-args")
    return {**call.keywords, **told}


def _refuse_arguments(call: Call, setting: TargetSetting, hint: str) -> None:
    if _given(call, setting):
        raise UsageError(f"{_short(call.name)}: takes no arguments; {hint}")


def _short(name: str) -> str:
    return clip(visible(name), _LONGEST_NAME)


def _names() -> str:
    return ", ".join(one.name for one in available())


def _unknown(name: str) -> str:
    known = [one.name for one in available() if not one.name.startswith(".")]
    if name.casefold().startswith(f"{OPENAI}:"):
        near = [OPENAI]
    else:
        near = difflib.get_close_matches(name.casefold(), known, n=3, cutoff=0.5)
    meant = f"did you mean {', '.join(near)}? " if near else ""
    hint = "; name the model with --model" if near == [OPENAI] else ""
    return f"{_short(name)}: no such target; {meant}There is: {_names()}{hint}"


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


def again(settings: Mapping[str, Any], tell: Callable[[str], None] = to_stderr) -> Target:
    """Return the target that recorded these settings."""
    kind = settings.get("kind")
    makers: dict[object, Callable[..., Target]] = {
        "openai": _openai_again,
        "local": _local_again,
        "simulated": _simulated_again,
    }
    if kind not in makers:
        raise InputError(f"the journal names a target of an unknown kind: {_short(str(kind))}")
    try:
        return makers[kind](settings, tell)
    except msgspec.ValidationError as error:
        raise InputError(f"the journal does not say how its target is made: {visible(str(error))}") from None


def _openai_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _OpenAIRecord)
    if record.api_config is None:
        return OpenAITarget(record.chat)
    # The journal has all that the file said but its key.
    return _with_config(read_api_config(record.api_config), record.chat)


def _local_again(settings: Mapping[str, Any], tell: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _LocalRecord)
    target = LocalTarget(record.place, resolve(record.arguments), record.timeout)
    if record.version and record.version != target.version:
        tell(f"{record.place.called}: has changed since the run began; what it answers now may not be comparable")
    return target


def _simulated_again(settings: Mapping[str, Any], _: Callable[[str], None]) -> Target:
    record = msgspec.convert(settings, _SimulatedRecord)
    return SimulatedTarget(record.name, record.options)
