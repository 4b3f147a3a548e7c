"""`attacks list`: the attacks that can be named, those of installed packages, and how attacks of others are named."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Literal

from msgspec import Struct

from faircount.analysis import offered
from faircount.compat.spikee.attack import PREFIX
from faircount.components.registry import Plugin
from faircount.model import Document
from faircount.report import Grid, Paragraph, Record, Report, Section, table, text_column
from faircount.running.attacks import options
from faircount.running.attacks.factory import ATTACKS
from faircount.running.attacks.seam import Attack

PURPOSE = "Use attacks only on systems that you own or are allowed to test."
_HOW = (
    'Options go in brackets: best-of-n(seed=7), encodings(kinds=["base64", "hex"]); or in --attack-options. '
    "Names ignore case, and _ works as -. For an attack of your own: ./file.py:Name."
)


class ListedAttack(Struct, frozen=True):
    """An attack that can be named; `package` is None where it is built in."""

    name: str
    aliases: tuple[str, ...]
    package: str | None
    package_version: str | None
    does: str
    options: tuple[offered.ListedParameter, ...]


class Attacks(Document, frozen=True, kw_only=True):
    """All attacks, those of packages that cannot be used, and the other tools."""

    kind: Literal["attacks"] = "attacks"
    schema: Literal[2] = 2
    purpose: str = PURPOSE
    attacks: tuple[ListedAttack, ...]
    broken: tuple[offered.Broken, ...]
    adapters: tuple[offered.Tool, ...]


def list_attacks() -> Attacks:
    """Load every attack that is built in or offered by a package; spikee is not imported."""
    known = [_listed(one.load(), aliases=one.aliases) for one in ATTACKS.known]
    usable, broken = offered.sorted_out(ATTACKS.every())
    return Attacks(
        attacks=(*known, *(_listed(attack, plugin) for attack, plugin in usable)),
        broken=broken,
        adapters=(offered.tool(PREFIX, "spikee", "spikee", "spikee:best_of_n"),),
    )


def _listed(attack: type[Attack], plugin: Plugin[Attack] | None = None, aliases: tuple[str, ...] = ()) -> ListedAttack:
    said = getattr(attack, "sentence", None)
    does = said if isinstance(said, str) else (inspect.getdoc(attack) or "").partition("\n")[0]
    return ListedAttack(
        attack.name,
        aliases,
        None if plugin is None else plugin.package,
        None if plugin is None else plugin.version,
        does,
        tuple(offered.takes(one) for one in options.takes(attack) if one.kind is not Parameter.VAR_POSITIONAL),
    )


# -- the report -------------------------------------------------------------------------------------------------


def as_report(listing: Attacks) -> Report:
    """Arrange the attacks into a report."""
    sections = (
        Section("Attacks", (Paragraph(PURPOSE), Paragraph(_HOW)), level=1),
        Section("Built in", (_built_in(listing.attacks),)),
        *offered.packages(_of_packages(listing.attacks), listing.broken),
        Section("Other tools' attacks", (offered.tools(listing.adapters, "spikee:./attacks/mine.py"),)),
    )
    return Report(sections, listing)


def _built_in(attacks: tuple[ListedAttack, ...]) -> Grid:
    return table(
        [one for one in attacks if one.package is None],
        text_column("attack", lambda one: one.name),
        text_column("what it does", lambda one: one.does),
        text_column("options", lambda one: offered.shown(one.options), rank=1),
        text_column("also called", lambda one: ", ".join(one.aliases) or "none", rank=2),
    )


def _of_packages(attacks: tuple[ListedAttack, ...]) -> Grid:
    """Return what packages offer; all of it is anybody's text."""
    return table(
        [one for one in attacks if one.package is not None],
        text_column("attack", lambda one: Record(one.name)),
        text_column("what it does", lambda one: Record(one.does)),
        text_column("options", lambda one: Record(offered.shown(one.options)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.package_version), rank=2),
    )
