"""From the name of a target to the target.

    openai(model="my-model")       a server that speaks OpenAI's protocol
    litellm, bedrock               a provider of the extra litellm, or of another package
    ./target.toml                  any server over HTTP, by a file; also http(file="target.toml")
    command(argv=["./bot"])        a program
    ./file.py:Name(limit=3)        the user's own code, with arguments
    package.module:Name            the same, from a module
    TOOL:NAME                      a target that was written for another tool; `compat` has the tools
    replay(file="results.jsonl")   answers from saved results
    simulated(seed=7)              a simulation, with options

A package offers more with entry points in the group `faircount.targets`: a subclass of Target whose `name` is that of
the entry point. Without a name, REBEL's flags say what is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from faircount.chat.providers import provider_names
from faircount.chat.settings import ChatSettings
from faircount.compat.rebel import client_name, read_api_config
from faircount.components.code import CodePlace, is_local, refuse_unknown
from faircount.components.factory import (
    Available,
    Context,
    Plugin,
    Registry,
    did_you_mean,
    load_class,
    make,
    near,
    short,
    spec_from,
    tell_unrecorded,
    with_more,
)
from faircount.components.spec import Spec
from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.runs.targets.base import Target
from faircount.runs.targets.command import CommandTarget
from faircount.runs.targets.http import HttpTarget
from faircount.runs.targets.http_file import read_file
from faircount.runs.targets.openai import OpenAITarget, recordable
from faircount.runs.targets.replay import ReplayTarget
from faircount.runs.targets.simulated import ATTACK_VARIANTS, VARIANTS, SimulatedAttackTarget, SimulatedTarget
from faircount.runs.targets.user_code import Arguments, LocalTarget, read_arguments, resolve

OPENAI, HTTP, COMMAND, REPLAY, SIMULATED = "openai", "http", "command", "replay", "simulated"
_TEMPLATES = (".toml", ".json")
_OF_MODEL = ("model", "base_url", "api_key_env")
"""What a target that asks a model may be given in brackets; it goes before the options of the same names."""


def _refused(name: str) -> str:
    """Return why a package cannot give a target this name."""
    if name.casefold() in (HTTP, COMMAND, REPLAY, SIMULATED, *provider_names()):
        return f"it would hide the built-in {name.casefold()}"
    return (
        "the name of a target may contain neither : nor / nor end in .py, .toml or .json"
        if (is_local(name) or name.casefold().endswith(_TEMPLATES))
        else ""
    )


TARGETS = REGISTRY = Registry("faircount.targets", Target, "a target", _refused)  # type: ignore[type-abstract]


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
        *(
            Available(one.name, str(getattr(one.kind, "sentence", "")) or f"a target from the package {one.package}")
            for one in TARGETS.every()
            if one.kind is not None
        ),
        Available("./target.toml", 'any server over HTTP, as a file describes it; also http(file="target.toml")'),
        Available('command(argv=["./bot"])', "a program: the prompt on standard input, the answer on standard output"),
        Available("./file.py:Name", "your own function or class, sync or async; package.module:Name works too"),
        Available("spikee:NAME", "a target module of spikee: ./targets/NAME.py, or one from the installed package"),
        Available('replay(file="results.jsonl")', "answers from saved results: spikee's files and journals of runs"),
    ]


def make_target(
    name: str | None,
    context: Context,
    *,
    target_args: str | None = None,
    api_config: str | None = None,
    api_client_module: str | None = None,
    api_client_class: str | None = None,
    api_client_args: str | None = None,
) -> Target:
    """Return the target that a name and REBEL's flags describe; the arguments are JSON objects, as text."""
    called = (name or "").strip()
    if api_client_module or api_client_class or api_client_args:
        client = client_name(api_client_module, api_client_class)
        if called:
            raise UsageError(f"--api-client-module and --target {short(called)} each name a target; leave one out")
        if api_config is not None:
            context.tell("--api-config is not used: --api-client-module names the target")
        arguments = read_arguments(api_client_args, "--api-client-args")
        return _made(Spec("target", client, arguments, is_code=True), context)
    if api_config is not None and called in ("", OPENAI):
        return _configured(api_config, target_args, context)
    if not called:
        raise UsageError(f"no target given; choose one with --target: {_names()}")
    if api_config is not None:
        raise UsageError(f"--api-config is for the target openai, but the target is {short(called)}; leave one out")
    spec = spec_from("target", called, "--target", "simulated(seed=7)")
    more = read_arguments(target_args, "--target-args")
    spec = with_more(spec, more, "arguments", "--target", "--target-args")
    if spec.parameters:
        _refuse_arguments(spec)
    return _made(spec, context)


def _made(spec: Spec, context: Context) -> Target:
    target: Target = make(spec, context)
    return target


def _configured(path: str, target_args: str | None, context: Context) -> Target:
    """Return the target of `--api-config`."""
    if target_args:
        raise UsageError("--target-args is for code of your own; write parameters into the file of --api-config")
    config = read_api_config(path)
    chat = config.over(context.chat or ChatSettings())
    _need_model(chat, f"write it into {visible(config.path)}, or name it with --model")
    advice = config.advice()
    if advice is not None:
        context.tell(advice)
    return _made(Spec("target", OPENAI, {"api_config": path}), replace(context, chat=chat))


def _refuse_arguments(spec: Spec) -> None:
    """Raise UsageError where a user gives arguments that are said elsewhere."""
    name = spec.name.casefold()
    if name.endswith(_TEMPLATES):
        raise UsageError(f"{short(spec.name)}: takes no arguments; everything it needs is in the file")
    if name == OPENAI or spec.name in provider_names():
        refuse_unknown(short(spec.name), spec.parameters, _OF_MODEL, "argument")


def make_own(spec: Spec, context: Context) -> Target | None:
    """Return a target that is named in its own way: a simulation, a file, a program, saved answers, a provider."""
    name = spec.name.casefold()
    if name == SIMULATED or name.startswith(f"{SIMULATED}:"):
        return _simulated(spec)
    if name == HTTP:
        return _of_file(HTTP, _file(spec, "target.toml"), context)
    if name == COMMAND:
        return CommandTarget(_resolved(spec, context), _folder(context), _chat(context).timeout)
    if name == REPLAY:
        return _replay(spec, context)
    if name.endswith(_TEMPLATES):
        return _of_file(spec.name, spec.parameters.get("file", spec.name), context)
    if spec.name in provider_names() or name == OPENAI:
        return _openai(name if name == OPENAI else spec.name, spec, context)
    is_code = is_local(spec.name) and not name.startswith(f"{OPENAI}:")
    if not is_code and TARGETS.find(spec.name) is None:
        raise UsageError(_unknown(spec.name))
    return None


# -- kinds of targets -------------------------------------------------------------------------------------------


def _chat(context: Context) -> ChatSettings:
    return context.chat or ChatSettings()


def _folder(context: Context) -> str:
    return context.folder or str(Path.cwd())


def _openai(provider: str, spec: Spec, context: Context) -> OpenAITarget:
    chat = _chat(context) if provider == OPENAI else replace(_chat(context), provider=provider)
    own = {name: value for name, value in spec.parameters.items() if name in _OF_MODEL}
    for name, value in own.items():
        if not isinstance(value, str):
            raise UsageError(f"{spec.name}: {name} must be a string")
    try:
        chat = replace(chat, **own)
    except ValueError:
        raise UsageError(f"{spec.name}: base_url is not an address") from None
    _need_model(chat, "name it with --model")
    if "api_config" not in spec.parameters:
        return OpenAITarget(chat)
    # The settings have all that the file says but its key.
    config, kept = read_api_config(spec.parameters["api_config"]), recordable(chat)
    return OpenAITarget(kept, client=config.client(kept), api_config=config.path)


def _need_model(chat: ChatSettings, how: str) -> None:
    if not chat.model:
        raise UsageError(f"{chat.provider}: no model given; {how}")


def _of_file(name: str, path: str, context: Context) -> HttpTarget:
    target = HttpTarget(name, read_file(path), _chat(context))
    for sentence in target.advice():
        context.tell(sentence)
    return target


def _replay(spec: Spec, context: Context) -> ReplayTarget:
    columns = spec.parameters.get("map", "")
    if not isinstance(columns, str):
        raise UsageError('replay: map is text, such as map="prompt=question,response=answer"')
    own = {name: value for name, value in spec.parameters.items() if name != "map"}
    return ReplayTarget(_file(replace(spec, parameters=own), "results.jsonl"), context.tell, columns)


def _file(spec: Spec, example: str) -> str:
    """Return the file that is the only argument of a target."""
    path = spec.parameters.get("file")
    if set(spec.parameters) != {"file"} or not isinstance(path, str) or not path:
        raise UsageError(f'{spec.name}: takes one argument, the file: {spec.name}(file="{example}")')
    return path


def make_local(spec: Spec, context: Context, place: CodePlace, plugin: Plugin[Target] | None = None) -> LocalTarget:
    """Return a target of the user's own code, or of a package."""
    target = LocalTarget(place, resolve(spec.parameters), _chat(context).timeout, plugin)
    _resolved(spec, context)
    return target


def make_plugin(spec: Spec, context: Context, kind: type[Target], plugin: Plugin[Target]) -> LocalTarget:
    """Return a target of an installed package."""
    return make_local(spec, context, CodePlace(spec.name, kind.__module__, kind.__name__), plugin)


def make_adapted(spec: Spec, context: Context, adapter: str, name: str) -> Target:
    """Return a target of another tool."""
    target: Target = load_class(adapter)(name, _resolved(spec, context), _folder(context), _chat(context))
    return target


def _simulated(spec: Spec) -> Target:
    name = spec.name.casefold()
    if any(one.name == name for one in ATTACK_VARIANTS):
        return SimulatedAttackTarget(name, spec.parameters)
    if all(one.name != name for one in VARIANTS):
        raise UsageError(_unknown(spec.name))
    return SimulatedTarget(name, spec.parameters)


def _resolved(spec: Spec, context: Context) -> Arguments:
    """Return the arguments, and say which of them are not recorded."""
    arguments = resolve(spec.parameters)
    tell_unrecorded(spec, arguments.unrecorded, context)
    return arguments


def _names() -> str:
    return ", ".join(one.name for one in available())


def _unknown(name: str) -> str:
    known = [one.name.partition("(")[0] for one in available() if not one.name.startswith(".")]
    meant = [OPENAI] if name.casefold().startswith(f"{OPENAI}:") else near(name.casefold(), known)
    hint = "; name the model with --model" if meant == [OPENAI] else ""
    return f"{short(name)}: no such target; {did_you_mean(meant)}available: {_names()}{hint}"


_LIMITS = ("timeout", "tries", "concurrency", "requests_per_minute")


def without_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a target recorded of itself without how fast and how patiently it is asked."""
    return {
        name: without_limits(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name not in _LIMITS
    }
