"""What the lists of judges and of attacks have in common: options, installed packages, and other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from inspect import Parameter
from typing import Any, TypeVar

from msgspec import Struct

from faircount.components.code import is_there, version_of
from faircount.components.registry import Plugin
from faircount.report import Block, Grid, Place, Record, Section, text_table

T = TypeVar("T")


# -- options ----------------------------------------------------------------------------------------------------


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


def takes(parameter: Parameter) -> ListedParameter:
    """Return what a class takes, by a parameter of its signature."""
    several = parameter.kind is Parameter.VAR_POSITIONAL
    required = parameter.default is Parameter.empty and not several
    return ListedParameter(
        parameter.name, required, several, None if required or several else _plain(parameter.default)
    )


def _plain(value: object) -> Any:
    """Return a default as plain data, None where it is none."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return None


def shown(parameters: Iterable[ListedParameter]) -> str:
    """Return parameters as they are written in an expression."""
    return ", ".join(one.shown for one in parameters) or "none"


# -- installed packages -----------------------------------------------------------------------------------------


class Broken(Struct, frozen=True):
    """What a package offers and cannot be used, and why."""

    name: str
    package: str
    package_version: str
    error: str


def sorted_out(offered: Iterable[Plugin[T]]) -> tuple[list[tuple[type[T], Plugin[T]]], tuple[Broken, ...]]:
    """Return what of packages can be used, each with its class, and what cannot."""
    every = list(offered)
    usable = [(one.kind, one) for one in every if one.kind is not None]
    return usable, tuple(Broken(one.name, one.package, one.version, one.error) for one in every if one.kind is None)


def packages(listed: Grid, broken: Sequence[Broken]) -> Iterator[Section]:
    """Yield the section of what packages offer, where they offer anything."""
    blocks: list[Block] = [listed] if listed.rows else []
    if broken:
        refused = ((Record(one.name), Record(one.package), Record(one.error)) for one in broken)
        blocks.append(text_table(("cannot be used", "package", "why"), refused))
    if blocks:
        yield Section("From installed packages", tuple(blocks))


# -- other tools ------------------------------------------------------------------------------------------------


class Tool(Struct, frozen=True):
    """Another tool, whose own can be used when its package is installed."""

    prefix: str
    package: str
    installed: bool
    package_version: str | None
    example: str


def tool(prefix: str, module: str, package: str, example: str) -> Tool:
    """Return what is known of another tool; it is not imported."""
    version = version_of(package) if is_there(module) else None
    return Tool(prefix, package, version is not None, version, example)


def tools(known: Iterable[Tool], *more_examples: str) -> Grid:
    """Arrange the other tools."""
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
