"""Which judges there are, and from the name of one to the judge: `make_judge("threshold(refusal, at=0.8)", Context())`.

What is built in stands in a table that imports none of it. A package offers a judge with an entry point in the group
`faircount.judges`; its name has the form `module.Name`. It is loaded when it is named or listed, and it can have
neither the name of a built-in judge nor that of a module of garak's detectors. Code is loaded only if the context
allows it, and a context for names that stand in a result file never does: there, judges that compare strings are all
that can be named.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from msgspec.structs import replace

from faircount.components.code import CodePlace, in_short, is_local, version_of_code
from faircount.components.factory import BuiltIn, Context, Plugin, Registry, load_class, make
from faircount.components.spec import DEEPEST, Spec, Value, parse, render
from faircount.core import string_judges
from faircount.core.errors import UsageError
from faircount.judges.judge import FunctionJudge, Judge, adopt, describe

_CANONICAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")
_BUILT_IN = tuple(
    BuiltIn(name, f"faircount.judges.builtin.{module}:{name.partition('.')[2]}", short)
    for short, name, module in (
        ("canary", "canary.Canary", "checks"),
        ("contains", "strings.Contains", "checks"),
        ("exact", "strings.Exact", "checks"),
        ("startswith", "strings.StartsWith", "checks"),
        ("regex", "strings.Regex", "checks"),
        ("json-schema", "structure.JsonSchema", "checks"),
        ("refusal", "refusal.Refusal", "refusal"),
        ("mitigation-bypass", "refusal.MitigationBypass", "refusal"),
        ("jailbreak", "jailbreak.Markers", "jailbreak"),
        ("code", "code.Code", "code"),
        ("exfiltration-link", "exfiltration.Link", "exfiltration"),
        ("secret-leak", "secrets.Leak", "secrets"),
        ("tool-calls", "tools.ToolCallsAccuracy", "tools"),
        ("contextual-f-score", "context.ContextualFScore", "llm"),
        ("latency", "latency.Latency", "checks"),
        ("llm", "llm.Rubric", "llm"),
        ("any", "combine.AnyOf", "combine"),
        ("all", "combine.AllOf", "combine"),
        ("majority", "combine.Majority", "combine"),
        ("not", "combine.Not", "combine"),
        ("threshold", "combine.Threshold", "combine"),
    )
)
STRING_JUDGES = frozenset(string_judges.STRING_JUDGES.values())
"""The judges that a file may name: they compare strings, and neither open files nor send anything anywhere."""


def _refused(name: str) -> str:
    """Return why a package cannot give a judge this name."""
    if name.partition(".")[0] in string_judges.GARAK_DETECTORS:
        return "garak has detectors in a module of that name, and a summary of judges could not distinguish the two"
    return "" if _CANONICAL.fullmatch(name) else "the name of a judge must have the form module.Name"


JUDGES = REGISTRY = Registry("faircount.judges", Judge, "a judge", _refused, known=_BUILT_IN)
_CHAT = "chat"


def make_judge(text: str, context: Context) -> Judge:
    """Return the judge that a text names; `called` is its canonical text."""
    judge: Judge = make(parse(text), context)
    return judge


def make_trusted_only(name: str, **parameters: Any) -> Judge:
    """Return the judge that a result file names: one of those that compare strings, or UsageError."""
    judge: Judge = make(Spec("judge", name, parameters), Context(local_code=False))
    return judge


def make_own(spec: Spec, context: Context) -> Judge | None:
    """Return a judge that the configuration names, or one that a result file may name where nothing else may be."""
    if len(context.within) > DEEPEST:
        raise UsageError(f"{spec.name}: nested more than {DEEPEST} judges deep, counting named judges")
    if not context.local_code:
        return _of_class(spec, context, _trusted(spec.name))
    return _named(spec, context) if spec.name in context.named and not is_local(spec.name) else None


def _trusted(name: str) -> type[Judge]:
    known = JUDGES.built_in(name)
    if known is None or known.name not in STRING_JUDGES:
        names = ", ".join(judge.short for judge in JUDGES.known if judge.name in STRING_JUDGES)
        raise UsageError(f"{name}: a file can name only the judges {names}; name others yourself")
    kind: type[Judge] = known.load()
    return kind


def _named(spec: Spec, context: Context) -> Judge:
    name = spec.name
    if JUDGES.built_in(name) is not None:
        raise UsageError(f"{name}: the configuration defines this name, but a built-in judge already has it")
    if name in context.within:
        trail = (one for one in (*context.within, name) if one in context.named)
        raise UsageError(f"{name}: the configuration defines it in terms of itself: {' → '.join(trail)}")
    if spec.positional or spec.parameters:
        raise UsageError(f"{name}: takes no parameters; the configuration defines it")
    judge: Judge = make(parse(context.named[name]), _inside(spec, context))
    return judge


def _inside(spec: Spec, context: Context) -> Context:
    return replace(context, within=(*context.within, spec.name))


# -- the kinds of judges ----------------------------------------------------------------------------------------


def _of_class(spec: Spec, context: Context, kind: type[Judge], version: str | None = None) -> Judge:
    """Return a judge of a class that is built in, or that a package of this version offers."""
    judge, bound = _construct(kind, kind.name, spec, context)
    if version is not None:
        describe(judge, version=version)
    return _called(judge, kind.name, bound)


def make_built_in(spec: Spec, context: Context, known: BuiltIn) -> Judge:
    """Return a judge that is built in."""
    return _of_class(spec, context, known.load())


def make_plugin(spec: Spec, context: Context, kind: type[Judge], plugin: Plugin[Judge]) -> Judge:
    """Return a judge of an installed package."""
    return _of_class(spec, context, kind, plugin.version)


def make_adapted(spec: Spec, context: Context, adapter: str, name: str) -> Judge:
    """Return a judge of another tool; it takes the name of what it adapts first, then its parameters."""
    prefix = spec.name.partition(":")[0].casefold()
    if not name:
        raise UsageError(f"{spec.name}: name a judge of {prefix}: {prefix}:NAME")
    if spec.positional:
        raise UsageError(f"{spec.name}: name its parameters: {prefix}:{name}(parameter=value)")
    given = {key: _literal(spec, key, value) for key, value in spec.parameters.items()}
    judge: Judge = load_class(adapter)(name, given, context.chat)
    return _called(judge, judge.name, replace(spec, parameters=given))


def make_local(spec: Spec, context: Context, place: CodePlace) -> Judge:
    """Return a judge of the user's own code: a class, an object or a function."""
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
        most = f"at most {len(slots)} positional" if slots else "no positional parameters"
        raise UsageError(f"{name}: takes {most}, not {len(spec.positional)}; {_takes(parameters)}")
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
    if (
        parameter is not None
        and parameter.annotation is not Parameter.empty
        and "Judge" not in str(parameter.annotation)
    ):
        _literal(spec, parameter.name, value)
    return make(value, _inside(spec, context))


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
        elif type(value) is not type(one.default) or value != one.default:
            keywords[one.name] = value
    return Spec("judge", name, {**keywords, **values}, tuple(positional))


def _takes(parameters: list[Parameter]) -> str:
    names = [
        f"{one.name}…" if one.kind is Parameter.VAR_POSITIONAL else one.name
        for one in parameters
        if one.kind is not Parameter.VAR_KEYWORD
    ]
    return f"it takes {', '.join(names)}" if names else "it takes no parameters"
