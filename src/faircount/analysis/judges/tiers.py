"""Tiers of judges by their F1, as garak's documentation has them, and whether the interval bears a tier out."""

from __future__ import annotations

from msgspec import Struct

from faircount.core.model import Estimate

TIERS = (("Excellent", 0.8), ("Good", 0.6), ("Moderate", 0.4), ("Poor", 0.2))
LOWEST = "Critical"
NAMES = (*(name for name, _ in TIERS), LOWEST)
LEAST_SAMPLES = 50
"""Samples from which on F1 has an interval."""

_SAME = 1e-12


class Tier(Struct, frozen=True):
    """A tier by its name, None where F1 is undefined.

    `supported` tells whether the whole interval lies in it, `reaches` names the other tiers that the interval touches,
    the better ones first.
    """

    name: str | None
    supported: bool
    reaches: tuple[str, ...]

    @property
    def words(self) -> str:
        """All of it in words."""
        if self.name is None:
            return "undefined"
        if self.reaches:
            return f"{self.name}, but the interval reaches {' and '.join(self.reaches)}"
        return self.name if self.supported else f"{self.name}, not supported: n < {LEAST_SAMPLES}"


def tier_name(f1: float | None) -> str | None:
    """Return the tier of an F1: Excellent above 0.8, Good above 0.6, Moderate above 0.4, Poor above 0.2, Critical."""
    if f1 is None:
        return None
    # A fraction that equals a limit belongs to the lower tier, however its last digit was rounded.
    return next((name for name, above in TIERS if f1 > above + _SAME), LOWEST)


def tier_of(f1: Estimate) -> Tier:
    """Return the tier of an F1 and whether its interval lies in that tier."""
    name = tier_name(f1.value)
    if name is None:
        return Tier(None, False, ())
    low, high = tier_name(f1.low), tier_name(f1.high)
    if low is None or high is None:
        return Tier(name, False, ())
    touched = NAMES[NAMES.index(high) : NAMES.index(low) + 1]
    others = tuple(other for other in touched if other != name)
    return Tier(name, not others, others)
