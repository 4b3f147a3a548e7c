"""Which attacks there are: those built in, by a table that imports none of them, and those of installed packages.

A package offers an attack with an entry point in the group `faircount.attacks`: a subclass of Attack whose `name` is
that of the entry point. It is loaded when it is named or listed, and cannot take the name of an attack that is built
in.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from msgspec import Struct

from faircount.errors import UsageError
from faircount.judging.plugins import Offered, Offers, folded
from faircount.running.attacks.seam import Attack
from faircount.running.naming import did_you_mean, near, short

GROUP = "faircount.attacks"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class BuiltIn(Struct, frozen=True):
    """An attack that comes with Faircount: its name, and the module and class where it is."""

    name: str
    module: str
    kind: str

    def load(self) -> type[Attack]:
        """Import the attack."""
        found: type[Attack] = getattr(importlib.import_module(f"faircount.running.attacks.{self.module}"), self.kind)
        return found


BUILT_IN = (
    BuiltIn("best-of-n", "best_of_n", "BestOfN"),
    BuiltIn("random-suffix-search", "random_suffix", "RandomSuffixSearch"),
    BuiltIn("encodings", "encodings", "Encodings"),
    BuiltIn("anti-spotlighting", "anti_spotlighting", "AntiSpotlighting"),
    BuiltIn("prompt-decomposition", "decomposition", "PromptDecomposition"),
    BuiltIn("multi-turn", "multi_turn", "MultiTurn"),
)
CRESCENDO = "crescendo"
ALIASES = {CRESCENDO: "multi-turn"}
"""Other names, those of spikee; its names with _ are those of the table already."""
_BY_NAME = {one.name: one for one in BUILT_IN}


def built_in(name: str) -> BuiltIn | None:
    """Return the attack built in that has this name."""
    known = folded(name)
    return _BY_NAME.get(ALIASES.get(known, known))


def plugin(name: str) -> Offered[Attack] | None:
    """Return the attack of an installed package that has this name, loaded."""
    return _OFFERS.find(name)


def plugins() -> Iterator[Offered[Attack]]:
    """Load every attack of installed packages, by name; one that cannot be used says why."""
    return _OFFERS.every()


def _refused(name: str) -> str:
    """Return why a package cannot give an attack this name."""
    known = built_in(name)
    if known is not None:
        return f"it would hide the built-in {known.name}"
    return (
        "" if _NAME.fullmatch(name) else "the name of an attack may contain only lower-case letters, digits and hyphens"
    )


# The class is compared with, never made.
_OFFERS = Offers(GROUP, Attack, "an attack", _refused, folded)  # type: ignore[type-abstract]


def unknown(name: str) -> UsageError:
    """Return the error for a name that nothing has."""
    known = [*_BY_NAME, *ALIASES, *_OFFERS.names()]
    meant = did_you_mean(near(folded(name), known))
    return UsageError(f"{short(name)}: no such attack; {meant}`faircount attacks list` shows them all")
