"""From the name of a judge to the judge: `make_judge("threshold(refusal, at=0.8)", Context())`.

Code is loaded only if the context allows it, and a context for names that stand in a result file never does: there,
judges that compare strings are all that can be named.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import Any

from msgspec.structs import replace

from faircount.components.code import CodePlace, in_short, is_local, version_of_code
from faircount.components.factory import Context, load_class
from faircount.components.spec import DEEPEST, Spec, Value, parse, render
from faircount.core.errors import UsageError
from faircount.judges.judge import Judge
from faircount.judges.registry import JUDGES, STRING_JUDGES
from faircount.judges.third_party import FunctionJudge, adopt, describe

TOOLS = {
    "spikee": "faircount.compat.spikee.judge:SpikeeJudge",
    "rebel": "faircount.compat.rebel.judge:RebelJudge",
    "garak": "faircount.compat.garak:GarakJudge",
    "deepeval": "faircount.compat.deepeval:DeepEvalJudge",
}
"""What stands before the colon in the name of another tool's judge, and the class that adapts it."""

_CHAT = "chat"


def make_judge(text: str, context: Context) -> Judge:
    """Return the judge that a text names; `called` is its canonical text."""
    return make(parse(text), context)


def make_trusted_only(name: str, **parameters: Any) -> Judge:
    """Return the judge that a result file names: one of those that compare strings, or UsageError."""
    return make(Spec("judge", name, parameters), Context(local_code=False))


def make(spec: Spec, context: Context) -> Judge:
    """Return the judge that a spec describes."""
    if len(context.within) > DEEPEST:
        raise UsageError(f"{spec.name}: nested more than {DEEPEST} judges deep, counting named judges")
    if not context.local_code:
        return _of_class(spec, context, _trusted(spec.name))
    prefix, colon, rest = spec.name.partition(":")
    if colon and prefix.casefold() in TOOLS:
        return _of_tool(spec, context, prefix.casefold(), rest)
    if is_local(spec.name):
        return _local(spec, context)
    if spec.name in context.named:
        return _named(spec, context)
    known = JUDGES.built_in(spec.name)
    if known is not None:
        return _of_class(spec, context, known.load())
    kind, plugin = JUDGES.plugin(spec.name)
    return _of_class(spec, context, kind, plugin.version)


def _trusted(name: str) -> type[Judge]:
    known = JUDGES.built_in(name)
    if known is None or known.name not in STRING_JUDGES:
        names = ", ".join(judge.short for judge in JUDGES.known if judge.name in STRING_JUDGES)
        raise UsageError(f"{name}: a file can name only the judges {names}; name others yourself")
    kind: type[Judge] = known.load()
    return kind


def _named(spec: Spec, context: Context) -> Judge:
    """Return a judge that the configuration names."""
    name = spec.name
    if JUDGES.built_in(name) is not None:
        raise UsageError(f"{name}: the configuration defines this name, but a built-in judge already has it")
    if name in context.within:
        trail = (one for one in (*context.within, name) if one in context.named)
        raise UsageError(f"{name}: the configuration defines it in terms of itself: {' → '.join(trail)}")
    if spec.positional or spec.parameters:
        raise UsageError(f"{name}: takes no parameters; the configuration defines it")
    return make(parse(context.named[name]), _inside(spec, context))


def _inside(spec: Spec, context: Context) -> Context:
    return replace(context, within=(*context.within, spec.name))


# -- the kinds of judges ----------------------------------------------------------------------------------------


def _of_class(spec: Spec, context: Context, kind: type[Judge], version: str | None = None) -> Judge:
    """Return a judge of a class that is built in, or that a package of this version offers."""
    judge, bound = _construct(kind, kind.name, spec, context)
    if version is not None:
        describe(judge, version=version)
    return _called(judge, kind.name, bound)


def _of_tool(spec: Spec, context: Context, prefix: str, target: str) -> Judge:
    """Return a judge of another tool; it takes the name of what it adapts first, then its parameters."""
    if not target:
        raise UsageError(f"{spec.name}: name a judge of {prefix}: {prefix}:NAME")
    if spec.positional:
        raise UsageError(f"{spec.name}: name its parameters: {prefix}:{target}(parameter=value)")
    given = {name: _literal(spec, name, value) for name, value in spec.parameters.items()}
    judge: Judge = load_class(TOOLS[prefix])(target, given, context.chat)
    return _called(judge, judge.name, replace(spec, parameters=given))


def _local(spec: Spec, context: Context) -> Judge:
    place = CodePlace.of(spec.name, "judge")
    module = place.load()
    found = place.find(module, Judge)
    version = version_of_code(place.module, module)
    if isinstance(found, Judge):
        if spec.positional or spec.parameters:
            raise UsageError(f"{spec.name}: is already a judge and takes no parameters")
        return _called(adopt(place, version, copy.copy(found)), spec.name, spec)
    if isinstance(found, type):
        if not issubclass(found, Judge):
            raise UsageError(f"{spec.name}: is not a subclass of Judge")
        judge, bound = _construct(found, spec.name, spec, context)
        return _called(adopt(place, version, judge), spec.name, bound)
    if not callable(found):
        raise UsageError(f"{spec.name}: is {type(found).__name__}; expected a subclass of Judge, a judge or a function")
    bound = _bind(spec, _parameters(found, spec.name)[1:], spec.name, context)
    given = {name: _literal(spec, name, value) for name, value in bound.parameters.items()}
    if bound.positional:
        raise UsageError(f"{spec.name}: name its parameters: {spec.name}(parameter=value)")
    return _called(FunctionJudge(place, version, found, given), spec.name, bound)


def _called(judge: Judge, name: str, bound: Spec) -> Judge:
    positional = tuple(_by_name(value) for value in bound.positional)
    parameters = {key: _by_name(value) for key, value in bound.parameters.items()}
    judge.called = render(Spec("judge", name, parameters, positional))
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
    # The base class takes whatever a class hands on; a class without an __init__ of its own takes nothing.
    return [] if kind.__init__ is Judge.__init__ else _parameters(kind.__init__, name)[1:]


def _parameters(function: Callable[..., Any], name: str) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: cannot read its parameters: {in_short(error)}") from error


def _construct(kind: type[Judge], name: str, spec: Spec, context: Context) -> tuple[Judge, Spec]:
    """Return a judge of a class, and what it was given: with judges in the place of calls, without defaults."""
    parameters = _parameters_of_class(kind, name)
    bound = _bind(spec, [one for one in parameters if one.name != _CHAT], name, context)
    chat = {_CHAT: context.chat} if any(one.name == _CHAT for one in parameters) else {}
    try:
        return kind(*bound.positional, **bound.parameters, **chat), bound
    except UsageError:
        raise
    except Exception as error:  # a class of anybody's, and a value that it does not expect
        raise UsageError(f"{name}: cannot be created with these parameters: {in_short(error)}") from error


def _bind(spec: Spec, parameters: list[Parameter], name: str, context: Context) -> Spec:
    """Match what is given with what can be given; raise UsageError where they do not match."""
    slots = [one for one in parameters if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    rest = next((one for one in parameters if one.kind is Parameter.VAR_POSITIONAL), None)
    several = tuple(_valued(spec, rest, value, context) for value in spec.positional[len(slots) :])
    if several and rest is None:
        raise UsageError(f"{name}: takes {_counted(len(slots))}, not {len(spec.positional)}; {_takes(parameters)}")
    given = dict(zip((one.name for one in slots), spec.positional, strict=False))
    for key, value in spec.parameters.items():
        if key in given:
            raise UsageError(f"{name}: {key} is given twice, by position and by name")
        given[key] = value
    _refuse_unknown(given, parameters, name)
    known = {one.name: one for one in parameters}
    values = {key: _valued(spec, known.get(key), value, context) for key, value in given.items()}
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


def _valued(spec: Spec, parameter: Parameter | None, value: Value, context: Context) -> Value:
    """Return the value of a parameter: a literal, or a judge where a judge is wanted."""
    if not isinstance(value, Spec):
        return value
    if parameter is not None and not _wants_judge(parameter):
        _literal(spec, parameter.name, value)
    return make(value, _inside(spec, context))


def _wants_judge(parameter: Parameter) -> bool:
    return parameter.annotation is Parameter.empty or "Judge" in str(parameter.annotation)


def _literal(spec: Spec, name: str, value: Value) -> Value:
    if isinstance(value, Spec):
        raise UsageError(f'{spec.name}: {name} is not a judge; put text in quotes: {name}="{value.name}"')
    return value


def _arranged(name: str, parameters: list[Parameter], values: dict[str, Value], several: tuple[Value, ...]) -> Spec:
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
    return Spec("judge", name, {**keywords, **values}, tuple(positional))


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
