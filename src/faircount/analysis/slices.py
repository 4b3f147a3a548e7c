"""The groups of a field read together: rates pulled in where chance has spread them, and tests that answer for their
number. The highest of forty equal groups looks twice as high as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.fields import ATTACK_FIELD, column_of
from faircount.core.model import AgainstRest, Estimate, Group, Slices
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.stats import (
    BetaPrior,
    Strata,
    Stratum,
    adjust_together,
    beta_prior,
    inside_strata,
    slices_against_rest,
)

MOST_GROUPS = 1_000
"""So many groups of one field are listed; where there are more, each entry has nearly one of its own."""

_CHOSEN_BY_OUTCOME = "Not tested: only entries that had resisted were attacked."
_FIXED_IN_FAMILIES = (
    "Not tested: each family has a single value here, so groups may differ only because their families do."
)
_ALIKE_IN_FAMILIES = "Not tested: in each family with several values, all entries ended alike."
_TOO_MANY = f"There are more than {MOST_GROUPS:,} groups: none tested, and only the largest are listed."
_ALONE = "A single group has nothing to be compared with."


def read_together(
    ledger: LedgerView,
    breakdowns: Mapping[str, tuple[Sequence[Group], int]],
    family: str | None,
    whole: Estimate,
) -> tuple[dict[str, tuple[Group, ...]], dict[str, Slices]]:
    """Return the groups of every field with shrunken rates and tests, and how each field was read.

    `family` is the column that says what family an entry belongs to, None where entries are independent; `whole` is
    the rate of all entries. The groups of a field come with how many there are beside them. All tests are adjusted
    together: ten fields of forty groups are four hundred tests.
    """
    read = {
        field: _read(ledger, field, groups, left_out, family, whole) for field, (groups, left_out) in breakdowns.items()
    }
    groups = [group for found, _ in read.values() for group in found]
    tested = [group.against_rest for group in groups if group.against_rest is not None]
    tests = iter(adjust_together(tested, 1 - whole.level))

    def with_test(group: Group) -> Group:
        return group if group.against_rest is None else replace(group, against_rest=next(tests))

    return (
        {field: tuple(map(with_test, found)) for field, (found, _) in read.items()},
        {field: told for field, (_, told) in read.items()},
    )


class Pull(Struct, frozen=True):
    """How far the rates of many groups are pulled in: by as many more successes and failures as `prior` says."""

    shrinkage: str
    prior: tuple[float, float] = (0.0, 0.0)
    shared: Estimate | None = None
    fitted: BetaPrior | None = None

    def rate(self, group: Group) -> Estimate | None:
        """Return the shrunken rate of a group, None where none is pulled."""
        tally = group.tally
        if self.fitted is not None:
            effect = 1.0 if group.families is None else group.families.design_effect
            return self.fitted.estimate(tally.success, tally.total, level=group.rate.level, design_effect=effect)
        return None if self.shared is None else replace(self.shared, n=tally.total)


def read_alike(alike: Sequence[tuple[int, int, int]], whole: Estimate) -> Pull:
    """Read groups together that are given by successes, entries and how many of them have these.

    `whole` is the rate of all entries, which those have that differ no more than by chance.
    """
    if len(alike) > MOST_GROUPS:
        return Pull("many")
    fitted = beta_prior(*([row[column] for row in alike] for column in range(3)))
    if isinstance(fitted, BetaPrior):
        return Pull("shrunk", (fitted.alpha, fitted.beta), None, fitted)
    return Pull(fitted, shared=replace(whole, method=f"pooled, {whole.method}") if fitted == "pooled" else None)


def _read(
    ledger: LedgerView, field: str, groups: Sequence[Group], left_out: int, family: str | None, whole: Estimate
) -> tuple[tuple[Group, ...], Slices]:
    if left_out:
        return tuple(groups), Slices("many", _TOO_MANY, left_out=left_out)
    pull = read_alike([(group.tally.success, group.tally.total, 1) for group in groups], whole)
    shrunk = [replace(group, shrunk=pull.rate(group)) for group in groups]
    untested = _ALONE if len(groups) < 2 else _CHOSEN_BY_OUTCOME if field == ATTACK_FIELD else None
    if untested:
        return tuple(shrunk), Slices(pull.shrinkage, untested)
    if family is None:
        tests: Sequence[AgainstRest] = slices_against_rest(
            [group.tally.success for group in groups], [group.tally.judged for group in groups]
        )
    else:
        tests, untested = _inside_families(ledger, family, column_of(ledger, field))
    if untested:
        return tuple(shrunk), Slices(pull.shrinkage, untested)
    tested = (replace(group, against_rest=test) for group, test in zip(shrunk, tests, strict=True))
    return tuple(tested), Slices(pull.shrinkage)


def _inside_families(ledger: LedgerView, family: str, column: str) -> tuple[list[AgainstRest], str | None]:
    """Test each group inside families; or say why none can be."""
    found = tallies.groups_in_families(ledger, family, column)

    def test(value: int | None) -> AgainstRest:
        if value not in found:
            return AgainstRest(None, None)
        return inside_strata(
            Strata(*found[value]),
            lambda: [Stratum(*counts) for counts in tallies.strata_of_groups(ledger, family, column)[value]],
        )

    tests = [test(value) for value, _ in tallies.by_number(ledger, column)]
    if any(one.p is not None for one in tests):
        return tests, None
    return [], _ALIKE_IN_FAMILIES if found else _FIXED_IN_FAMILIES


def stands_out(group: Group) -> int:
    """Return 1 for a group whose rate lies above that of the rest beyond chance, -1 for one below, else 0."""
    test = group.against_rest
    if test is None or not test.stands_out or not test.difference:
        return 0
    return 1 if test.difference > 0 else -1
