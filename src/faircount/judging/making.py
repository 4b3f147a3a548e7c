"""From the name of a judge to the judge: `make("threshold(refusal, at=0.8)", Setting())`.

To make a judge twice from the same expression and setting gives two judges that decide alike, so that worker processes
make their own. Code is loaded only if the setting allows it, and a setting for names that stand in a result file
never does: there, judges that compare strings are all that can be named.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from faircount.errors import UsageError
from faircount.judging import local_code, registry
from faircount.judging.expression import DEEPEST, Call, Value, parse, render
from faircount.judging.judge import Judge
from faircount.judging.outside import call_it, in_short

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

ADAPTERS = {
    "spikee": ("spikee.judge", "SpikeeJudge"),
    "rebel": ("rebel.judge", "RebelJudge"),
    "garak": ("garak", "GarakJudge"),
    "deepeval": ("deepeval", "DeepEvalJudge"),
}
"""What stands before the colon in the name of another tool's judge, and the module and class that adapt it."""

_CHAT = "chat"


class Setting(Struct, frozen=True):
    """What judges are made with, beside their parameters.

    `chat` is the model that judges ask, `named` the judges that a configuration gives a name, each by its expression.
    Without `local_code` only judges that compare strings are made, and no code of anybody's is loaded.
    """

    chat: ChatSettings | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    local_code: bool = True


class _Way(NamedTuple):
    """How a part of an expression is made: the setting, the named judges that it stands in, and how deep it stands."""

    setting: Setting
    trail: tuple[str, ...] = ()
    depth: int = 0


def make(expression: str, setting: Setting) -> Judge:
    """Return the judge that an expression names; `called` is its canonical expression."""
    return _made(parse(expression), _Way(setting))


def make_trusted_only(name: str, **parameters: Any) -> Judge:
    """Return the judge that a result file names: one of those that compare strings, or UsageError."""
    return _made(Call(name, keywords=parameters), _Way(Setting(local_code=False)))


def _made(call: Call, way: _Way) -> Judge:
    if way.depth > DEEPEST:
        raise UsageError(f"{call.name}: nested more than {DEEPEST} judges deep, counting named judges")
    if not way.setting.local_code:
        return _built_in(call, way, _trusted(call.name))
    prefix, colon, rest = call.name.partition(":")
    if colon and prefix.casefold() in ADAPTERS:
        return _adapted(call, way, prefix.casefold(), rest)
    if local_code.is_local(call.name):
        return _local(call, way)
    if call.name in way.setting.named:
        return _named(call, way)
    return _built_in(call, way, registry.find(call.name))


def _trusted(name: str) -> type[Judge]:
    known = registry.built_in(name)
    if known is None or known.name not in registry.STRING_JUDGES:
        names = ", ".join(judge.short for judge in registry.BUILT_IN if judge.name in registry.STRING_JUDGES)
        raise UsageError(f"{name}: a file can name only the judges {names}; name others yourself")
    return known.load()


def _named(call: Call, way: _Way) -> Judge:
    """Return a judge that the configuration names."""
    name = call.name
    if registry.built_in(name) is not None:
        raise UsageError(f"{name}: the configuration defines this name, but a built-in judge already has it")
    if name in way.trail:
        raise UsageError(f"{name}: the configuration defines it in terms of itself: {' → '.join((*way.trail, name))}")
    if call.positional or call.keywords:
        raise UsageError(f"{name}: takes no parameters; the configuration defines it")
    return _made(parse(way.setting.named[name]), _Way(way.setting, (*way.trail, name), way.depth + 1))


# -- the kinds of judges ----------------------------------------------------------------------------------------


def _built_in(call: Call, way: _Way, kind: type[Judge]) -> Judge:
    """Return a judge of a class that is built in or that a package offers."""
    judge, bound = _construct(kind, kind.name, call, way)
    plugin = None if registry.built_in(kind.name) else registry.plugin(kind.name)
    if plugin is not None:
        call_it(judge, version=plugin.version)
    return _called(judge, kind.name, bound)


def _adapted(call: Call, way: _Way, prefix: str, target: str) -> Judge:
    """Return a judge of another tool; it takes the name of what it adapts first, then its parameters."""
    if not target:
        raise UsageError(f"{call.name}: name a judge of {prefix}: {prefix}:NAME")
    if call.positional:
        raise UsageError(f"{call.name}: name its parameters: {prefix}:{target}(parameter=value)")
    module, adapter = ADAPTERS[prefix]
    kind = getattr(importlib.import_module(f"faircount.compat.{module}"), adapter)
    given = {name: _literal(call, name, value) for name, value in call.keywords.items()}
    judge: Judge = kind(target, given, way.setting.chat)
    return _called(judge, judge.name, Call("", (), given))


def _local(call: Call, way: _Way) -> Judge:
    found = local_code.find(call.name)
    if isinstance(found, Judge):
        if call.positional or call.keywords:
            raise UsageError(f"{call.name}: is already a judge and takes no parameters")
        return _called(local_code.adopt(call.name, local_code.copied(found)), call.name, Call(""))
    if isinstance(found, type):
        if not issubclass(found, Judge):
            raise UsageError(f"{call.name}: is not a subclass of Judge")
        judge, bound = _construct(found, call.name, call, way)
        return _called(local_code.adopt(call.name, judge), call.name, bound)
    parameters = _parameters(found, call.name)[1:]
    bound = _bind(call, parameters, call.name, way)
    given = {name: _literal(call, name, value) for name, value in bound.keywords.items()}
    if bound.positional:
        raise UsageError(f"{call.name}: name its parameters: {call.name}(parameter=value)")
    return _called(local_code.FunctionJudge(call.name, found, given), call.name, bound)


def _called(judge: Judge, name: str, bound: Call) -> Judge:
    positional = tuple(_by_name(value) for value in bound.positional)
    keywords = {key: _by_name(value) for key, value in bound.keywords.items()}
    judge.called = render(Call(name, positional, keywords))
    try:
        _ = judge.identity
    except Exception as error:  # a class of anybody's
        raise UsageError(f"{name}: its parameters are not plain data: {in_short(error)}") from error
    return judge


def _by_name(value: Value) -> Value:
    """Return a judge as the call that made it, any other value as it is."""
    return parse(value.called) if isinstance(value, Judge) else value


# -- parameters -------------------------------------------------------------------------------------------------


def parameters_of(kind: type[Judge]) -> list[Parameter]:
    """Return what a class of judges can be given in an expression, in its own order."""
    return [one for one in _parameters_of_class(kind, kind.name) if one.name != _CHAT]


def _parameters_of_class(kind: type[Judge], name: str) -> list[Parameter]:
    # The seam itself takes whatever a class hands on; a class without an __init__ of its own takes nothing.
    return [] if kind.__init__ is Judge.__init__ else _parameters(kind.__init__, name)[1:]


def _parameters(function: Callable[..., Any], name: str) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: cannot read its parameters: {in_short(error)}") from error


def _construct(kind: type[Judge], name: str, call: Call, way: _Way) -> tuple[Judge, Call]:
    """Return a judge of a class, and what it was given: with judges in the place of calls, without defaults."""
    parameters = _parameters_of_class(kind, name)
    bound = _bind(call, [one for one in parameters if one.name != _CHAT], name, way)
    chat = {_CHAT: way.setting.chat} if any(one.name == _CHAT for one in parameters) else {}
    try:
        return kind(*bound.positional, **bound.keywords, **chat), bound
    except UsageError:
        raise
    except Exception as error:  # a class of anybody's, and a value that it does not expect
        raise UsageError(f"{name}: cannot be created with these parameters: {in_short(error)}") from error


def _bind(call: Call, parameters: list[Parameter], name: str, way: _Way) -> Call:
    """Match what is given with what can be given; raise UsageError where they do not match."""
    slots = [one for one in parameters if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    rest = next((one for one in parameters if one.kind is Parameter.VAR_POSITIONAL), None)
    several = tuple(_valued(call, rest, value, way) for value in call.positional[len(slots) :])
    if several and rest is None:
        raise UsageError(f"{name}: takes {_counted(len(slots))}, not {len(call.positional)}; {_takes(parameters)}")
    given = dict(zip((one.name for one in slots), call.positional, strict=False))
    for key, value in call.keywords.items():
        if key in given:
            raise UsageError(f"{name}: {key} is given twice, by position and by name")
        given[key] = value
    _refuse_unknown(given, parameters, name)
    known = {one.name: one for one in parameters}
    values = {key: _valued(call, known.get(key), value, way) for key, value in given.items()}
    return _arranged(name, parameters, values, several)


def _refuse_unknown(given: Mapping[str, Value], parameters: list[Parameter], name: str) -> None:
    named = [one for one in parameters if one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    if not any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        for key in given:
            if all(one.name != key for one in named):
                raise UsageError(f"{name}: has no parameter {key}; {_takes(parameters)}")
    missing = [one.name for one in named if one.default is Parameter.empty and one.name not in given]
    if missing:
        raise UsageError(f"{name}: needs {', '.join(missing)}; {_takes(parameters)}")


def _valued(call: Call, parameter: Parameter | None, value: Value, way: _Way) -> Value:
    """Return the value of a parameter: a literal, or a judge where a judge is wanted."""
    if not isinstance(value, Call):
        return value
    if parameter is not None and not _wants_judge(parameter):
        _literal(call, parameter.name, value)
    return _made(value, way._replace(depth=way.depth + 1))


def _wants_judge(parameter: Parameter) -> bool:
    return parameter.annotation is Parameter.empty or "Judge" in str(parameter.annotation)


def _literal(call: Call, name: str, value: Value) -> Value:
    if isinstance(value, Call):
        raise UsageError(f'{call.name}: {name} is not a judge; put text in quotes: {name}="{value.name}"')
    return value


def _arranged(name: str, parameters: list[Parameter], values: dict[str, Value], several: tuple[Value, ...]) -> Call:
    """Return judges by their place and all else by name, in the order of the signature, without defaults."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    for place, one in enumerate(parameters):
        if one.kind is Parameter.VAR_POSITIONAL:
            positional += several
        if one.name not in values:
            continue
        value = values.pop(one.name)
        if one.kind is Parameter.POSITIONAL_ONLY or (
            one.kind is Parameter.POSITIONAL_OR_KEYWORD
            and (several or (isinstance(value, Judge) and len(positional) == place))
        ):
            positional.append(value)
        elif not _same(value, one.default):
            keywords[one.name] = value
    return Call(name, tuple(positional), {**keywords, **values})


def _same(value: Value, default: object) -> bool:
    return type(value) is type(default) and bool(value == default)


def _counted(number: int) -> str:
    return "no positional parameters" if number == 0 else f"at most {number} positional"


def _takes(parameters: list[Parameter]) -> str:
    names = list(_shown(parameters))
    return f"it takes {', '.join(names)}" if names else "it takes no parameters"


def _shown(parameters: list[Parameter]) -> Iterator[str]:
    for one in parameters:
        if one.kind is Parameter.VAR_POSITIONAL:
            yield f"{one.name}…"
        elif one.kind is not Parameter.VAR_KEYWORD:
            yield one.name
