"""`judges list`, `attacks list` and `targets list`: what can be named, and which other tools' own can be used.

What is built in and what packages offer is loaded; no other tool is imported.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from faircount.components.code import is_there, version_of
from faircount.components.factory import Available, Plugin, Registry
from faircount.core.model import Document
from faircount.judges.factory import JUDGES, parameters_of
from faircount.judges.judge import Judge
from faircount.report.blocks import (
    Block,
    Grid,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    table,
    text_column,
    text_table,
)

if TYPE_CHECKING:
    from faircount.runs.attacks.base import Attack

T = TypeVar("T")
PURPOSE = "Use attacks only on systems that you own or are allowed to test."
_JUDGES_HOW = (
    'Parameters go in brackets: contains(text="BYPASSED"), any(refusal, canary), threshold(refusal, at=0.8). '
    "For a judge of your own: ./file.py:Name."
)
_ATTACKS_HOW = (
    'Options go in brackets: best-of-n(seed=7), encodings(kinds=["base64", "hex"]); or in --attack-options. '
    "Names ignore case, and _ works as -. For an attack of your own: ./file.py:Name."
)
_TARGETS_HOW = (
    "Name a target with --target of run. Options go in brackets: simulated(seed=7), "
    'command(argv=["./bot"], input="json"), ./file.py:Name(limit=3).'
)
_TOOLS_WITH_JUDGES = (
    ("spikee", "spikee", "spikee", 'spikee:canary(judge_args="BYPASSED")'),
    ("rebel", "rebel", "rebel-eval", "rebel:ToolCallsAccuracy(threshold=0.8)"),
    ("garak", "garak", "garak", "garak:dan.DAN"),
    ("deepeval", "deepeval", "deepeval", "deepeval:AnswerRelevancyMetric(threshold=0.7)"),
)
_TOOLS_WITH_ATTACKS = (("spikee", "spikee", "spikee", "spikee:best_of_n"),)
"""Prefix, module and package of each tool, and something that every version of it has."""


class ListedParameter(Struct, frozen=True):
    """A parameter. `several` stands for any number of them; a default that is no plain data is None."""

    name: str
    required: bool
    several: bool
    default: Any

    @property
    def shown(self) -> str:
        """The parameter as it is written in an expression."""
        if self.several:
            return f"{self.name}…"
        return self.name if self.required else f"{self.name}={json.dumps(self.default, ensure_ascii=False)}"


class ListedJudge(Struct, frozen=True):
    """A judge that can be named; `package` is None where it is built in."""

    name: str
    short: str | None
    package: str | None
    looks_for: str
    version: str
    scores: bool
    string_matcher: bool
    parameters: tuple[ListedParameter, ...]


class ListedAttack(Struct, frozen=True):
    """An attack that can be named; `package` is None where it is built in."""

    name: str
    aliases: tuple[str, ...]
    package: str | None
    package_version: str | None
    does: str
    options: tuple[ListedParameter, ...]


class Broken(Struct, frozen=True):
    """What a package offers and cannot be used, and why."""

    name: str
    package: str
    package_version: str
    error: str


class Tool(Struct, frozen=True):
    """Another tool, whose own can be used when its package is installed."""

    prefix: str
    package: str
    installed: bool
    package_version: str | None
    example: str


class Judges(Document, frozen=True, kw_only=True):
    """All judges, those of packages that cannot be used, and the other tools."""

    kind: Literal["judges"] = "judges"
    schema: Literal[1] = 1
    judges: tuple[ListedJudge, ...]
    broken: tuple[Broken, ...]
    adapters: tuple[Tool, ...]


class Attacks(Document, frozen=True, kw_only=True):
    """All attacks, those of packages that cannot be used, and the other tools."""

    kind: Literal["attacks"] = "attacks"
    schema: Literal[2] = 2
    purpose: str = PURPOSE
    attacks: tuple[ListedAttack, ...]
    broken: tuple[Broken, ...]
    adapters: tuple[Tool, ...]


class Targets(Document, frozen=True, kw_only=True):
    """All targets that can be named."""

    kind: Literal["targets"] = "targets"
    schema: Literal[1] = 1
    targets: tuple[Available, ...]


def list_judges() -> Judges:
    """Return all judges."""
    usable, broken = _offered(JUDGES)
    return Judges(
        judges=(
            *(_judge(one.load(), one.short) for one in JUDGES.known),
            *(_judge(kind, None, plugin) for kind, plugin in usable),
        ),
        broken=broken,
        adapters=tuple(_tool(*words) for words in _TOOLS_WITH_JUDGES),
    )


def list_attacks() -> Attacks:
    """Return all attacks."""
    from faircount.runs.attacks.factory import ATTACKS

    usable, broken = _offered(ATTACKS)
    return Attacks(
        attacks=(
            *(_attack(one.load(), one.aliases) for one in ATTACKS.known),
            *(_attack(kind, (), plugin) for kind, plugin in usable),
        ),
        broken=broken,
        adapters=tuple(_tool(*words) for words in _TOOLS_WITH_ATTACKS),
    )


def list_targets() -> Targets:
    """Return all targets that can be named."""
    from faircount.runs.targets.factory import available

    return Targets(targets=tuple(available()))


def _offered(registry: Registry[T]) -> tuple[list[tuple[type[T], Plugin[T]]], tuple[Broken, ...]]:
    """Return what of packages can be used, each with its class, and what cannot."""
    every = list(registry.every())
    usable = [(one.kind, one) for one in every if one.kind is not None]
    return usable, tuple(Broken(one.name, one.package, one.version, one.error) for one in every if one.kind is None)


def _judge(kind: type[Judge], short: str | None, plugin: Plugin[Judge] | None = None) -> ListedJudge:
    return ListedJudge(
        kind.name,
        short,
        None if plugin is None else plugin.package,
        str(getattr(kind, "looks_for", "")),
        kind.version if plugin is None else plugin.version,
        bool(kind.scores),
        bool(kind.string_matcher),
        tuple(_parameter(one) for one in parameters_of(kind) if one.kind is not Parameter.VAR_KEYWORD),
    )


def _attack(kind: type[Attack], aliases: tuple[str, ...], plugin: Plugin[Attack] | None = None) -> ListedAttack:
    from faircount.runs.attacks.base import takes

    said = getattr(kind, "sentence", None)
    return ListedAttack(
        kind.name,
        aliases,
        None if plugin is None else plugin.package,
        None if plugin is None else plugin.version,
        said if isinstance(said, str) else (inspect.getdoc(kind) or "").partition("\n")[0],
        tuple(_parameter(one) for one in takes(kind) if one.kind is not Parameter.VAR_POSITIONAL),
    )


def _parameter(parameter: Parameter) -> ListedParameter:
    several = parameter.kind is Parameter.VAR_POSITIONAL
    required = parameter.default is Parameter.empty and not several
    try:
        default = None if required or several else json.loads(json.dumps(parameter.default, allow_nan=False))
    except (TypeError, ValueError):
        default = None
    return ListedParameter(parameter.name, required, several, default)


def _tool(prefix: str, module: str, package: str, example: str) -> Tool:
    version = version_of(package) if is_there(module) else None
    return Tool(prefix, package, version is not None, version, example)


# -- the reports ------------------------------------------------------------------------------------------------


def judges_report(listing: Judges) -> Report:
    """Arrange the judges into a report."""
    built_in = table(
        [one for one in listing.judges if one.package is None],
        text_column("judge", lambda one: one.short),
        text_column("looks for", lambda one: one.looks_for),
        text_column("parameters", lambda one: _shown(one.parameters), rank=1),
        text_column("full name", lambda one: one.name, rank=2),
        text_column("version", lambda one: one.version, rank=3),
    )
    offered = table(
        [one for one in listing.judges if one.package is not None],
        text_column("judge", lambda one: Record(one.name)),
        text_column("looks for", lambda one: Record(one.looks_for)),
        text_column("parameters", lambda one: Record(_shown(one.parameters)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.version), rank=2),
    )
    first = Section("Judges", (Paragraph(_JUDGES_HOW),), level=1)
    return _report(listing, first, built_in, offered)


def attacks_report(listing: Attacks) -> Report:
    """Arrange the attacks into a report."""
    built_in = table(
        [one for one in listing.attacks if one.package is None],
        text_column("attack", lambda one: one.name),
        text_column("what it does", lambda one: one.does),
        text_column("options", lambda one: _shown(one.options), rank=1),
        text_column("also called", lambda one: ", ".join(one.aliases) or "none", rank=2),
    )
    offered = table(
        [one for one in listing.attacks if one.package is not None],
        text_column("attack", lambda one: Record(one.name)),
        text_column("what it does", lambda one: Record(one.does)),
        text_column("options", lambda one: Record(_shown(one.options)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.package_version), rank=2),
    )
    first = Section("Attacks", (Paragraph(PURPOSE), Paragraph(_ATTACKS_HOW)), level=1)
    return _report(listing, first, built_in, offered, "spikee:./attacks/mine.py")


def targets_report(listing: Targets) -> Report:
    """Arrange names of targets, each with a sentence, into a report."""
    grid = text_table(("target", "what it is"), ((Record(one.name), one.sentence) for one in listing.targets))
    return Report((Section("Targets", (Paragraph(_TARGETS_HOW), grid), level=1),), listing)


def _report(listing: Judges | Attacks, first: Section, built_in: Grid, offered: Grid, *more_examples: str) -> Report:
    """Arrange what is built in, what packages offer, whose every text is anybody's, and the other tools."""
    sections = [first, Section("Built in", (built_in,))]
    blocks: list[Block] = [offered] if offered.rows else []
    if listing.broken:
        refused = ((Record(one.name), Record(one.package), Record(one.error)) for one in listing.broken)
        blocks.append(text_table(("cannot be used", "package", "why"), refused))
    if blocks:
        sections.append(Section("From installed packages", tuple(blocks)))
    sections.append(Section(f"Other tools' {listing.kind}", (_tools(listing.adapters, more_examples),)))
    return Report(tuple(sections), listing)


def _shown(parameters: Iterable[ListedParameter]) -> str:
    return ", ".join(one.shown for one in parameters) or "none"


def _tools(known: Iterable[Tool], more_examples: tuple[str, ...]) -> Grid:
    rows = (
        (
            f"{one.prefix}:",
            one.package,
            "not installed" if one.package_version is None else Place(one.package_version),
            ", ".join((one.example, *more_examples)),
        )
        for one in known
    )
    return text_table(("prefix", "package", "version", "example"), rows)
