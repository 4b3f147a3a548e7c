"""`attacks list`: the attacks that can be named, those of installed packages, and how attacks of others are named."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any

from msgspec import Struct

from faircount.analysis import offered
from faircount.judging.plugins import Offered
from faircount.report import Column, Grid, Paragraph, Report, Section
from faircount.running.attacks import options
from faircount.running.attacks.registry import ALIASES, BUILT_IN, plugins
from faircount.running.attacks.seam import Attack
from faircount.running.attacks.spikee import PREFIX
from faircount.version import __version__

KIND = "attacks"
SCHEMA = 1
PURPOSE = "Use attacks only on systems that you own or are allowed to test."
_HOW = (
    'Options go in brackets: best-of-n(seed=7), encodings(kinds=["base64", "hex"]); or in --attack-options. '
    "Names ignore case, and _ works as -. For an attack of your own: ./file.py:Name."
)
_COLUMNS = (
    Column("attack", numeric=False),
    Column("what it does", numeric=False),
    Column("options", rank=1, numeric=False),
)


class Listed(Struct, frozen=True):
    """An attack that can be named; `package` is None where it is built in."""

    name: str
    does: str
    options: tuple[offered.Takes, ...]
    aliases: tuple[str, ...] = ()
    package: str | None = None
    package_version: str | None = None


class Listing(Struct, frozen=True):
    """All attacks, those of packages that cannot be used, and the other tools."""

    attacks: tuple[Listed, ...]
    plugins: tuple[Listed, ...]
    broken: tuple[Offered[Attack], ...]
    tools: tuple[offered.Tool, ...]


def list_attacks() -> Listing:
    """Load every attack that is built in or offered by a package; spikee is not imported."""
    known = [_listed(one.load(), aliases=_aliases(one.name)) for one in BUILT_IN]
    usable, broken = offered.sorted_out(plugins())
    return Listing(
        tuple(known),
        tuple(_listed(attack, plugin) for attack, plugin in usable),
        broken,
        (offered.tool(PREFIX, "spikee", "spikee", "spikee:best_of_n", "spikee:./attacks/mine.py"),),
    )


def _aliases(name: str) -> tuple[str, ...]:
    return tuple(alias for alias, meant in ALIASES.items() if meant == name)


def _listed(attack: type[Attack], plugin: Offered[Attack] | None = None, aliases: tuple[str, ...] = ()) -> Listed:
    said = getattr(attack, "sentence", None)
    does = said if isinstance(said, str) else (inspect.getdoc(attack) or "").partition("\n")[0]
    return Listed(
        attack.name,
        does,
        tuple(offered.takes(one) for one in options.takes(attack) if one.kind is not Parameter.VAR_POSITIONAL),
        aliases,
        None if plugin is None else plugin.package,
        None if plugin is None else plugin.version,
    )


# -- the report -------------------------------------------------------------------------------------------------


def as_report(listing: Listing) -> Report:
    """Arrange the attacks into a report."""
    rows = [
        (one.name, one.does, offered.shown(one.options), one.package, one.package_version) for one in listing.plugins
    ]
    sections = (
        Section("Attacks", (Paragraph(PURPOSE), Paragraph(_HOW)), level=1),
        Section("Built in", (_built_in(listing.attacks),)),
        *offered.packages(_COLUMNS, rows, listing.broken),
        Section("Other tools' attacks", (offered.tools(listing.tools),)),
    )
    return Report(sections, document(listing))


def _built_in(attacks: tuple[Listed, ...]) -> Grid:
    columns = (*_COLUMNS, Column("also called", rank=2, numeric=False))
    rows = tuple((one.name, one.does, offered.shown(one.options), ", ".join(one.aliases) or "none") for one in attacks)
    return Grid(columns, rows)


def document(listing: Listing) -> dict[str, Any]:
    """Return the whole answer of `attacks list` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "purpose": PURPOSE,
        "attacks": [_attack_data(one) for one in (*listing.attacks, *listing.plugins)],
        "broken": offered.broken_data(listing.broken),
        "adapters": offered.tools_data(listing.tools),
    }


def _attack_data(attack: Listed) -> dict[str, Any]:
    return {
        "name": attack.name,
        "aliases": list(attack.aliases),
        "package": attack.package,
        "package_version": attack.package_version,
        "does": attack.does,
        "options": [{"name": one.name, "required": one.required, "default": one.default} for one in attack.options],
    }
