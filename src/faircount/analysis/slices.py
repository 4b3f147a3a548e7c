"""The groups of a field read together: rates pulled in where chance has spread them, and tests that answer for their
number. The highest of forty equal groups looks twice as high as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.fields import ATTACK_FIELD, column_of
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.model import AgainstRest, Estimate, Group, Slices
from faircount.stats import BetaPrior, Stratum, beta_prior, empirical_bayes, slices_against_rest, wilson

MOST_GROUPS = 1_000
"""So many groups of one field are read together; where there are more, each entry has nearly one of its own."""

_CHOSEN_BY_OUTCOME = "Not tested: only entries that had resisted were attacked."
_FIXED_IN_FAMILIES = "Not tested: each family has only one value here."
_ALIKE_IN_FAMILIES = "Not tested: in each family with several values, all entries ended alike."
_TOO_MANY = f"There are more than {MOST_GROUPS:,} groups: none tested."
_ALONE = "A single group has nothing to be compared with."


def read_together(
    ledger: LedgerView,
    breakdowns: Mapping[str, Sequence[Group]],
    family: str | None,
    level: float,
) -> tuple[dict[str, tuple[Group, ...]], dict[str, Slices]]:
    """Return the groups of every field with shrunken rates and tests, and how each field was read.

    `family` is the column that says what family an entry belongs to, None where entries are independent.
    """
    read = {field: _read(ledger, field, groups, family, level) for field, groups in breakdowns.items()}
    return {field: groups for field, (groups, _) in read.items()}, {field: told for field, (_, told) in read.items()}


class Pull(Struct, frozen=True):
    """How far the rates of many groups are pulled in: by as many more successes and failures as `prior` says."""

    shrinkage: str
    prior: tuple[float, float] = (0.0, 0.0)
    shared: Estimate | None = None
    fitted: BetaPrior | None = None

    def rate(self, group: Group) -> Estimate | None:
        """Return the shrunken rate of a group, None where none is pulled."""
        tally = group.counts.tally
        if self.fitted is not None:
            return self.fitted.estimate(tally.success, tally.total, level=group.rate.level)
        return None if self.shared is None else replace(self.shared, n=tally.total)


def read_alike(alike: Sequence[tuple[int, int, int]], level: float) -> Pull:
    """Read groups together that are given by successes, entries and how many of them have these."""
    if len(alike) > MOST_GROUPS:
        return Pull("many")
    successes, sizes, times = ([row[column] for row in alike] for column in range(3))
    fitted = beta_prior(successes, sizes, times)
    if isinstance(fitted, BetaPrior):
        return Pull("shrunk", (fitted.alpha, fitted.beta), None, fitted)
    if fitted != "pooled":
        return Pull(fitted)
    total, entries = (sum(map(mul, counts, times)) for counts in (successes, sizes))
    return Pull(fitted, (0.0, 0.0), replace(wilson(total, entries, level=level), method="pooled, wilson"))


def _read(
    ledger: LedgerView, field: str, groups: Sequence[Group], family: str | None, level: float
) -> tuple[tuple[Group, ...], Slices]:
    if len(groups) > MOST_GROUPS:
        return tuple(groups), Slices("many", _TOO_MANY)
    successes = [group.counts.tally.success for group in groups]
    sizes = [group.counts.tally.total for group in groups]
    shrinkage = empirical_bayes(successes, sizes, level=level)
    is_done = shrinkage.status in ("shrunk", "pooled")
    rates = shrinkage.slices if is_done else [None] * len(groups)
    shrunk = [replace(group, shrunk=rate) for group, rate in zip(groups, rates, strict=True)]
    untested = _ALONE if len(groups) < 2 else _CHOSEN_BY_OUTCOME if field == ATTACK_FIELD else ""
    if untested:
        return tuple(shrunk), Slices(shrinkage.status, untested)
    strata = None if family is None else _strata(ledger, family, column_of(ledger, field))
    tests = slices_against_rest(successes, sizes, alpha=1 - level, strata=strata)
    if strata is not None and all(test.p is None for test in tests):
        fixed = all(stratum.inside in (0, stratum.total) for found in strata for stratum in found)
        return tuple(shrunk), Slices(shrinkage.status, _FIXED_IN_FAMILIES if fixed else _ALIKE_IN_FAMILIES)
    tested = tuple(
        replace(group, against_rest=AgainstRest(test.difference, test.p, test.adjusted_p, test.stands_out))
        for group, test in zip(shrunk, tests, strict=True)
    )
    return tested, Slices(shrinkage.status)


def _strata(ledger: LedgerView, family: str, column: str) -> list[list[Stratum]]:
    """Return the families that each group shares with others; entries that are alone in theirs are one stratum."""
    found = tallies.groups_in_families(ledger, family, column)
    alone = {value: [kind for kind in kinds if kind.total == 1] for value, kinds in found.items()}
    total = sum(kind.times for kinds in alone.values() for kind in kinds)
    successes = sum(kind.times * kind.won for kinds in alone.values() for kind in kinds)
    return [
        [
            Stratum(sum(k.times for k in alone[value]), sum(k.times * k.won for k in alone[value]), total, successes),
            *(Stratum(k.inside, k.won, k.total, k.successes, k.times) for k in found[value] if k.total > 1),
        ]
        for value, _ in tallies.by_number(ledger, column)
    ]


def stands_out(group: Group) -> int:
    """Return 1 for a group whose rate lies above that of the rest beyond chance, -1 for one below, else 0."""
    test = group.against_rest
    if test is None or not test.stands_out or not test.difference:
        return 0
    return 1 if test.difference > 0 else -1
