"""From a `Spec` to a judge, a target or an attack, and from what a journal recorded to the same one again.

To make something twice from the same spec and context gives two that behave alike, so that worker processes and
resumed runs make their own. Code is loaded only if the context allows it. To make a target or an attack again loads the
code that the journal names and asks the server that it names: that is for journals of one's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from faircount.chat.settings import ChatSettings
from faircount.components.code import Place, is_local
from faircount.components.registry import short
from faircount.components.spec import Kind, Spec, parse
from faircount.core.errors import InputError, UsageError
from faircount.core.text import visible
from faircount.query import QueryError

_FACTORIES: Mapping[Kind, str] = {
    "judge": "faircount.judges.factory",
    "target": "faircount.runs.targets.factory",
    "attack": "faircount.runs.attacks.factory",
}
_DOES = {"target": "answers", "attack": "sends"}


def ignore(_: str) -> None:
    """Do nothing with a sentence for the user."""


class Context(Struct, frozen=True):
    """What components are made with, beside their parameters.

    `chat` says how a model or a server is asked, `named` the judges that a configuration gives a name, each by its
    text. Without `local_code` only judges that compare strings are made, and no code of anybody's is loaded. Files are
    in `folder`, where it is not the current one. `tell` hears what the user should know and no error says. `within` are
    the judges that a judge is part of.
    """

    chat: ChatSettings | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    local_code: bool = True
    folder: str | None = None
    tell: Callable[[str], None] = ignore
    within: tuple[str, ...] = ()


def make(spec: Spec, context: Context) -> Any:
    """Return the judge, target or attack that a spec describes."""
    return _factory(spec.kind).make(spec, context)


def _factory(kind: Kind) -> Any:
    return importlib.import_module(_FACTORIES[kind])


# -- from the command line --------------------------------------------------------------------------------------


def spec_from(kind: Kind, text: str, flag: str, example: str) -> Spec:
    """Return the target or attack that the option `flag` names, with what follows it in brackets."""
    if "(" not in text and text[0] not in "\"'":
        return Spec(kind, text)  # a path may have blanks in it
    try:
        return parse(text, kind)
    except QueryError as error:
        raise UsageError(
            f"{flag}: {short(text)} cannot be parsed at character {error.position + 1}; write NAME or "
            f"NAME(option=value), such as {example} or ./file.py:Name(limit=3)"
        ) from None


def with_more(spec: Spec, more: Mapping[str, Any], noun: str, flag: str, beside: str) -> Spec:
    """Return a spec with what the option `beside` gives too; all of it has names and plain values."""
    if spec.positional:
        raise UsageError(f"{short(spec.name)}: name its {noun}: {short(spec.name)}(name=value)")
    for name, value in spec.parameters.items():
        if isinstance(value, Spec):
            raise UsageError(f'{short(spec.name)}: put text in quotes: {name}="{short(value.name)}"')
    for name in more:
        if name in spec.parameters:
            raise UsageError(f"{short(spec.name)}: {visible(name)} is given twice, in {flag} and in {beside}")
    return msgspec.structs.replace(spec, parameters={**spec.parameters, **more})


# -- from a journal ---------------------------------------------------------------------------------------------


class Recorded(Struct, frozen=True):
    """What journals record of targets and attacks; each kind of record has some of these fields."""

    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    option: str | None = None
    place: Place | str | None = None
    folder: str | None = None
    file: str = ""
    map: str = ""
    module: str = ""
    target: str = ""
    api_config: str | None = None
    timeout: float | None = None
    chat: ChatSettings | None = None
    version: str = ""


_NEEDED: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "target": {
        "openai": ("chat",),
        "local": ("place", "timeout"),
        "plugin": ("name", "timeout"),
        "simulated": ("name",),
        "http": ("name", "file"),
        "command": ("arguments", "folder", "timeout"),
        "spikee": ("module", "arguments", "folder", "chat"),
        "replay": ("name", "file"),
    },
    "attack": {"built-in": ("name",), "local": ("place",), "plugin": ("name",), "spikee": ("target",)},
}
"""The kinds of records, and what each cannot do without."""


def make_again(kind: Kind, settings: Mapping[str, Any], tell: Callable[[str], None] = ignore) -> Any:
    """Return the target or attack that recorded these settings."""
    try:
        spec, context = spec_of_record(kind, settings, tell)
        made = make(spec, context)
    except (msgspec.ValidationError, UnicodeError) as error:  # half a character in the name of a field
        raise InputError(f"the journal does not record how to create its {kind}: {visible(str(error))}") from None
    before, now = settings.get("version"), made.settings().get("version")
    if before and before != now:
        called = settings.get("file") or short(spec.name)
        tell(f"{called}: has changed since the run began; what it {_DOES[kind]} now may not be comparable")
    return made


def spec_of_record(
    kind: Kind, settings: Mapping[str, Any], tell: Callable[[str], None] = ignore
) -> tuple[Spec, Context]:
    """Return what a record of any age stands for, and what it is made with."""
    how = settings.get("kind")
    if not isinstance(how, str) or how not in _NEEDED[kind]:
        raise InputError(f"the journal names {_one(kind)} of an unknown kind: {short(str(how))}")
    record = msgspec.convert(settings, Recorded)
    for name in _NEEDED[kind][how]:
        if settings.get(name) is None:
            raise msgspec.ValidationError(f"Object missing required field `{name}`")
    chat = record.chat if record.timeout is None else ChatSettings(timeout=record.timeout)
    context = Context(chat=chat, folder=record.folder, tell=tell)
    name, parameters = record.name, record.arguments or record.options
    if not _fits(how, name):
        raise InputError(f"the journal names {_one(kind)} {short(name)}, but records another kind: {how}")
    if how == "local":
        if not isinstance(record.place, Place):
            raise msgspec.ValidationError("Expected `object`, got `str` - at `$.place`")
        name, context = record.place.called, msgspec.structs.replace(context, folder=record.place.folder)
    elif how == "built-in" and _factory(kind).ATTACKS.built_in(name) is None:
        raise InputError(f"the journal names {_one(kind)} that is not built in: {short(name)}")
    elif how == "openai":
        name, parameters = how, {} if record.api_config is None else {"api_config": record.api_config}
    elif how in ("http", "replay"):
        columns = {"map": record.map} if record.map else {}
        name, parameters = name if how == "http" else how, {"file": record.file, **columns}
        # What to improve in the file was said when the run began.
        context = msgspec.structs.replace(context, tell=ignore if how == "http" else tell)
    elif how == "command":
        name = how
    elif how == "spikee" and kind == "target":
        name = f"{how}:{record.module}"
    elif how == "spikee":
        given = {"attack_options": record.option, "place": record.place}
        name, parameters = f"{how}:{record.target}", {key: told for key, told in given.items() if told is not None}
    return Spec(kind, name, parameters), context


def _fits(how: str, name: str) -> bool:
    """Return whether records of this kind have such names: a journal must not say one thing and load another."""
    if how == "simulated":
        return name.casefold() == how or name.casefold().startswith(f"{how}:")
    if how == "http":
        return name.casefold() == how or name.casefold().endswith((".toml", ".json"))
    return how not in ("plugin", "built-in") or not is_local(name)


def _one(kind: Kind) -> str:
    return "an attack" if kind == "attack" else f"a {kind}"
