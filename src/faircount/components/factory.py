"""Which components of a kind there are, built in and of installed packages, and how one is made from a `Spec`.

What is built in stands in a table that imports none of it. A package offers more by entry points: classes that are
loaded when they are named or listed, never before. What cannot be used is not raised but listed with the reason: a
package that is broken must not keep the others from being listed.

To make something twice from the same spec and context gives two that behave alike, so that worker processes and
resumed runs make their own. Code is loaded only if the context allows it. To make a target or an attack again loads the
code that the journal names and asks the server that it names: that is for journals of one's own.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from faircount.chat.settings import ChatSettings
from faircount.components.code import CodePlace, in_short, is_local, printing_aside
from faircount.components.spec import Kind, Spec, parse
from faircount.core.errors import InputError, UsageError
from faircount.core.text import clip, visible
from faircount.query import QueryError

T = TypeVar("T")
_LONGEST_NAME = 200


class BuiltIn(Struct, frozen=True):
    """A component that comes with Faircount: its names, and the module and class where it is."""

    name: str
    place: str
    short: str = ""
    aliases: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return all that it can be called."""
        return [*filter(None, [self.short]), self.name, *self.aliases]

    def load(self) -> Any:
        """Import the class."""
        return load_class(self.place)


def load_class(place: str) -> Any:
    """Import a class of ours that a table has as `module:Name`."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def adapters(kind: str) -> Mapping[str, str]:
    """Return the prefixes of other tools, each with the class that adapts their judges, targets or attacks.

    The table is in `compat`, which may import this package and not the other way round: it is loaded by its name.
    """
    table: Mapping[str, Mapping[str, str]] = load_class("faircount.compat.tools:ADAPTERS")
    return table[kind]


class Available(Struct, frozen=True):
    """What can be named, and a sentence about it."""

    name: str
    sentence: str


class Plugin(Struct, Generic[T], frozen=True):
    """A class of an installed package; `kind` is None where it cannot be used, and `error` says why."""

    name: str
    package: str
    version: str
    kind: type[T] | None = None
    error: str = ""


class Registry(Generic[T]):
    """The components of a kind: `known` are built in.

    Each entry point of `group` names a subclass of `base` whose own `name` is that of the entry point. `noun` is what
    such a class is called ("a judge"), `refused` says why a name cannot be taken, and is empty where it can; `folded`
    returns a name of a package's as it is looked up; `alike` is how alike names are that somebody may have meant.
    """

    def __init__(
        self,
        group: str,
        base: type[T],
        noun: str,
        refused: Callable[[str], str] = lambda _: "",
        folded: Callable[[str], str] = str,
        known: tuple[BuiltIn, ...] = (),
        alike: float = 0.6,
    ) -> None:
        self.group, self.base, self.noun, self.known = group, base, noun, known
        self._refused, self._folded, self._alike = refused, folded, alike
        self._word = noun.rpartition(" ")[2]
        self._by_name = {fold(name): one for one in known for name in one.names()}

    def built_in(self, name: str) -> BuiltIn | None:
        """Return what is built in under a name; case is ignored, and _ is taken for -."""
        return self._by_name.get(fold(name))

    def plugin(self, name: str) -> tuple[type[T], Plugin[T]]:
        """Return what a package offers under a name, with its class; raise UsageError where there is none to use."""
        found = self.find(name)
        if found is None:
            raise self.unknown(name)
        if found.kind is None:
            raise UsageError(
                f"{found.name}: the {self._word} from the package {found.package} cannot be used: {found.error}"
            )
        return found.kind, found

    def unknown(self, name: str) -> UsageError:
        """Return the error for a name that nothing has."""
        offered = self._entry_points()
        names = {fold(known): known for known in (*(name for one in self.known for name in one.names()), *offered)}
        meant = did_you_mean(names[key] for key in near(fold(name), names, self._alike))
        return UsageError(f"{short(name)}: no such {self._word}; {meant}`faircount {self._word}s list` shows them all")

    # -- installed packages ------------------------------------------------------------------------------------

    def find(self, name: str) -> Plugin[T] | None:
        """Return what a package offers under a name, loaded."""
        entries = self._entry_points().get(self._folded(name))
        return None if entries is None else self._loaded(entries)

    def every(self) -> Iterator[Plugin[T]]:
        """Load all that packages offer, by name."""
        for _, entries in sorted(self._entry_points().items()):
            yield self._loaded(entries)

    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = defaultdict(list)
        for entry in importlib.metadata.entry_points(group=self.group):
            same = found[self._folded(entry.name)]
            # A package that is on the path twice is one package: Python itself would import only the first.
            if all((other.value, _package(other)) != (entry.value, _package(entry)) for other in same):
                same.append(entry)
        return dict(found)

    def _loaded(self, entries: list[EntryPoint]) -> Plugin[T]:
        entry = entries[0]
        name, version = entry.name, entry.dist.version if entry.dist is not None else "unknown"
        package = ", ".join(map(_package, entries))
        hidden = self.built_in(name)
        error = self._refused(name) if hidden is None else f"it would hide the built-in {hidden.name}"
        if not error and len(entries) > 1:
            error = f"{len(entries)} packages offer {self.noun} of this name"
        if error:
            return Plugin(name, package, version, error=error)
        try:
            with printing_aside():
                kind = entry.load()
        except (Exception, SystemExit) as failure:  # noqa: BLE001  a package can fail in any way
            return Plugin(name, package, version, error=f"{entry.value} cannot be loaded: {in_short(failure)}")
        if not isinstance(kind, type) or not issubclass(kind, self.base):
            return Plugin(name, package, version, error=f"{entry.value} is not a subclass of {self.base.__name__}")
        if getattr(kind, "name", None) != name:
            own = getattr(kind, "name", "nothing")
            return Plugin(name, package, version, error=f"the class calls itself {own}, the entry point {name}")
        return Plugin(name, package, version, kind)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


# -- names ------------------------------------------------------------------------------------------------------


def fold(name: str) -> str:
    """Return a name as tables have it: case is ignored, and _ is taken for -."""
    return name.casefold().replace("_", "-")


def short(name: str) -> str:
    """Return a name as a message shows it."""
    return clip(visible(name), _LONGEST_NAME)


def near(name: str, known: Iterable[str], alike: float = 0.5) -> list[str]:
    """Return the names that somebody may have meant."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=alike)


def did_you_mean(names: Iterable[str]) -> str:
    """Return the question, with a blank behind it; nothing where no name is near."""
    words = ", ".join(names)
    return f"did you mean {words}? " if words else ""


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


class Factory(Protocol):
    """What the module of a kind makes; `make` decides which of these a name asks for."""

    REGISTRY: Registry[Any]

    def make_own(self, spec: Spec, context: Context) -> Any:
        """Return what only this kind has under a name: a file, say; None where it has nothing."""

    def make_adapted(self, spec: Spec, context: Context, adapter: str, name: str) -> Any:
        """Return what another tool has under a name; `adapter` is the class that adapts it."""

    def make_local(self, spec: Spec, context: Context, place: CodePlace) -> Any:
        """Return what the user's own code has."""

    def make_built_in(self, spec: Spec, context: Context, known: BuiltIn) -> Any:
        """Return one that comes with Faircount and stands in the table of the registry."""

    def make_plugin(self, spec: Spec, context: Context, kind: type[Any], plugin: Plugin[Any]) -> Any:
        """Return one that an installed package offers."""


def make(spec: Spec, context: Context) -> Any:
    """Return the judge, target or attack that a spec describes."""
    factory = _factory(spec.kind)
    is_code = spec.is_code and context.local_code
    if not is_code:
        made = factory.make_own(spec, context)
        if made is not None:
            return made
        adapter = adapter_of(spec)
        if adapter is not None:
            return factory.make_adapted(spec, context, adapter, spec.name.partition(":")[2])
    if is_code or is_local(spec.name):
        # Judges are never made again from a journal, so that the folder they were found in need not be known.
        folder = "" if spec.kind == "judge" else context.folder or str(Path.cwd())
        return factory.make_local(spec, context, CodePlace.of(spec.name, spec.kind, folder))
    known = factory.REGISTRY.built_in(spec.name)
    if known is not None:
        return factory.make_built_in(spec, context, known)
    return factory.make_plugin(spec, context, *factory.REGISTRY.plugin(spec.name))


def _factory(kind: Kind) -> Factory:
    module: Any = importlib.import_module(_FACTORIES[kind])
    return module  # type: ignore[no-any-return]


def adapter_of(spec: Spec) -> str | None:
    """Return the class that adapts what a spec names of another tool; None where the name has no tool's prefix."""
    prefix, colon, _ = spec.name.partition(":")
    return adapters(spec.kind).get(prefix.casefold()) if colon and not spec.is_code else None


def tell_unrecorded(spec: Spec, variables: Sequence[str], context: Context) -> None:
    """Say which values are kept out of the journal because they look like secrets, and what to do to resume the run."""
    if variables:
        given, each = ("options", "value") if spec.kind == "attack" else ("arguments", "argument")
        context.tell(
            f"{short(spec.name)}: {given} that look like secrets are not recorded; to resume the run, set "
            f'{", ".join(variables)}. Better: "$NAME" as the {each}, which is read from the environment variable NAME'
        )


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


class ComponentRecord(Struct, frozen=True):
    """What journals record of targets and attacks; each kind of record has some of these fields."""

    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    option: str | None = None
    place: CodePlace | str | None = None
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
        "replay": ("name", "file"),
    },
    "attack": {"built-in": ("name",), "local": ("place",), "plugin": ("name",)},
}
"""The kinds of records, and what each cannot do without; those of other tools are in `compat`."""


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
    of_tools: Mapping[str, tuple[str, ...]] = load_class("faircount.compat.tools:RECORDED")[kind]
    needed = {**_NEEDED[kind], **of_tools}
    if not isinstance(how, str) or how not in needed:
        raise InputError(f"the journal names {_one(kind)} of an unknown kind: {short(str(how))}")
    record = msgspec.convert(settings, ComponentRecord)
    for name in needed[how]:
        if settings.get(name) is None:
            raise msgspec.ValidationError(f"Object missing required field `{name}`")
    chat = record.chat if record.timeout is None else ChatSettings(timeout=record.timeout)
    context = Context(chat=chat, folder=record.folder, tell=tell)
    name, parameters = record.name, record.arguments or record.options
    if not _fits(how, name):
        raise InputError(f"the journal names {_one(kind)} {short(name)}, but records another kind: {how}")
    if how == "local":
        if not isinstance(record.place, CodePlace):
            raise msgspec.ValidationError("Expected `object`, got `str` - at `$.place`")
        name, context = record.place.called, msgspec.structs.replace(context, folder=record.place.folder)
    elif how == "built-in" and _factory(kind).REGISTRY.built_in(name) is None:
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
    elif how in of_tools:
        name = f"{how}:{record.module or record.target}"
        if kind == "attack":
            given = {"attack_options": record.option, "place": record.place}
            parameters = {key: value for key, value in given.items() if value is not None}
    return Spec(kind, name, parameters, is_code=how == "local"), context


def _fits(how: str, name: str) -> bool:
    """Return whether records of this kind have such names: a journal must not say one thing and load another."""
    if how == "simulated":
        return name.casefold() == how or name.casefold().startswith(f"{how}:")
    if how == "http":
        return name.casefold() == how or name.casefold().endswith((".toml", ".json"))
    return how not in ("plugin", "built-in") or not is_local(name)


def _one(kind: Kind) -> str:
    return "an attack" if kind == "attack" else f"a {kind}"
