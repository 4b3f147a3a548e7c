"""Pairs of outcomes made into figures: the four cells, two rates, and their difference with interval and tests.

Where entries come in families, every interval is that of families. Entries that are in the same family in either file
are: a family is known by what its entries are variants of, which both files tell alike.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import fields
from faircount.analysis.choices import AUTO, NONE
from faircount.analysis.comparing.found import Figures, Table
from faircount.analysis.comparing.sides import Side
from faircount.analysis.words import WORDS
from faircount.findings import counted
from faircount.model import Estimate
from faircount.stats import (
    cluster_tango,
    cluster_wilson,
    conditional_odds_ratio,
    fisher_exact,
    mcnemar,
    newcombe,
    tango,
    wilson,
)

PAIR = "pair of entries"
ONLY_B, ONLY_A, BOTH = 1, 2, 3


class FamiliesOfPairs(Struct, frozen=True):
    """What every pair is a variant of, as numbers from 0 on; None where pairs count as independent. And why so."""

    codes: Any
    explanation: str


def cells(a: Side, b: Side, rows_a: Any, rows_b: Any) -> Any:
    """Return one number for each pair: 3 if both succeeded, 2 if only A did, 1 if only B did, 0 if neither."""
    import numpy as np

    return 2 * a.succeeded[rows_a].astype(np.int8) + b.succeeded[rows_b].astype(np.int8)


def bounding_cells(a: Side, b: Side, rows_a: Any, rows_b: Any) -> tuple[Any, Any]:
    """Return the cells of pairs if errors and unjudged entries had ended so that B - A is lowest, and highest."""
    import numpy as np

    certain_a, certain_b = a.succeeded[rows_a], b.succeeded[rows_b]
    possible_a, possible_b = certain_a | ~a.answered[rows_a], certain_b | ~b.answered[rows_b]
    lowest = 2 * possible_a.astype(np.int8) + certain_b.astype(np.int8)
    return lowest, 2 * certain_a.astype(np.int8) + possible_b.astype(np.int8)


# -- families ---------------------------------------------------------------------------------------------------


def families(a: Side, b: Side, rows_a: Any, rows_b: Any, asked: str) -> FamiliesOfPairs:
    """Find what pairs are variants of, as an analysis does for entries, and decide whether there is any to respect."""
    import numpy as np

    if asked == NONE:
        return FamiliesOfPairs(None, "Pairs are treated as independent, as --cluster none asks.")
    if asked == AUTO:
        shared = f"a {WORDS[a.folded.aim].family}"
        first, second = a.families[rows_a], b.families[rows_b]
        codes = _dense(np.where(first != 0, first, second))
    else:
        shared = "a value of the field asked for"
        words: dict[str | None, int] = {None: 0}
        field = fields.raw_name(asked)
        columns = [fields.existing_column(side.ledger, field, "--cluster") for side in (a, b)]
        first, second = (side.values(column, words) for side, column in zip((a, b), columns, strict=True))
        codes = _dense(np.where(first[rows_a] != 0, first[rows_a], second[rows_b]))
    return _decided(codes, shared, asked)


def _dense(labels: Any) -> Any:
    """Number families from 0 on; a pair without a label, which is 0, is a family of its own."""
    import numpy as np

    known = labels != 0
    distinct, inverse = np.unique(labels[known], return_inverse=True)
    codes = np.empty(len(labels), np.int64)
    codes[known] = inverse
    codes[~known] = len(distinct) + np.arange(len(labels) - int(known.sum()))
    return codes


def _decided(codes: Any, shared: str, asked: str) -> FamiliesOfPairs:
    count = int(codes.max()) + 1 if len(codes) else 0
    if count == len(codes):
        return FamiliesOfPairs(None, f"No pairs share {shared}: each counts on its own.")
    if count == 1 and asked == AUTO:
        return FamiliesOfPairs(None, f"All pairs share {shared}: the interval holds only for variants of this one.")
    if count == 1:
        return FamiliesOfPairs(
            codes, f"All pairs share {shared}: one family does not show how families vary, so there is no interval."
        )
    told = counted(count, "family", "families")
    return FamiliesOfPairs(codes, f"Intervals respect {told} of variants: pairs that share {shared}.")


# -- figures ----------------------------------------------------------------------------------------------------


def table_of(found: Any) -> Table:
    """Count the four cells."""
    import numpy as np

    neither, only_b, only_a, both = np.bincount(found, minlength=4).tolist()
    return Table(both, only_a, only_b, neither)


def figures(found: Any, codes: Any, level: float, *, whole: bool = True) -> Figures:
    """Return the figures of pairs, given by their cells and their families; `whole` adds what is told of all pairs."""
    table = table_of(found)
    test = mcnemar(table.only_a, table.only_b) if table.paired else None
    odds = conditional_odds_ratio(table.only_b, table.only_a, level=level, unit="pair that differs") if whole else None
    p, mid_p = (None, None) if test is None else (test.p, test.mid_p)
    if codes is None or not table.paired:
        return _independent(table, p, mid_p, odds, level)
    sums = _by_family(found, codes)
    # Each by itself is independent of the others; the pairs of one family, which all of a group may be, tell of its
    # variants alone, and nothing can be claimed of others. All pairs are in one family only where that was asked for:
    # then there is no interval.
    if len(sums) == table.paired:
        return _independent(table, p, mid_p, odds, level)
    if len(sums) == 1 and not whole:
        return _independent(table, None, None, odds, level)
    return _in_families(sums, table, p, odds, level)


def with_bounds(figure: Figures, cells: tuple[Any, Any], codes: Any, level: float) -> Figures:
    """Return the figures of decided pairs with the bounds of all; `cells` are those of `bounding_cells`."""
    undecided = len(cells[0]) - figure.table.paired
    if not undecided:
        return figure
    lowest, highest = (figures(found, codes, level, whole=False) for found in cells)
    return replace(figure, undecided=undecided, bounds=(lowest, highest))


def _independent(table: Table, p: float | None, mid_p: float | None, odds: Estimate | None, level: float) -> Figures:
    n = table.paired
    return Figures(
        table,
        wilson(table.both + table.only_a, n, level=level),
        wilson(table.both + table.only_b, n, level=level),
        tango(table.only_b, table.only_a, n, unit=PAIR, level=level),
        p,
        mid_p,
        odds,
        effective_n=float(n),
    )


def _by_family(found: Any, codes: Any) -> Any:
    """Count the four cells of each family."""
    import numpy as np

    _, codes = np.unique(codes, return_inverse=True)
    return np.bincount(4 * codes + found, minlength=4 * (int(codes.max()) + 1)).reshape(-1, 4)


def _in_families(counts: Any, table: Table, p: float | None, odds: Estimate | None, level: float) -> Figures:
    only_b, only_a, both = (counts[:, cell] for cell in (ONLY_B, ONLY_A, BOTH))
    sizes = counts.sum(axis=1).tolist()
    difference = cluster_tango(only_b.tolist(), only_a.tolist(), sizes, unit=PAIR, level=level)
    # Few flips make the exact test the more cautious of the two: it takes them as independent, which they are at best.
    return Figures(
        table,
        cluster_wilson((both + only_a).tolist(), sizes, level=level).estimate,
        cluster_wilson((both + only_b).tolist(), sizes, level=level).estimate,
        difference.estimate,
        None,
        odds_ratio=None if odds is None else replace(odds, low=None, high=None),
        families=difference.families,
        families_p=None if difference.p is None or p is None else max(difference.p, p),
        effective_n=difference.effective_n,
        degrees=difference.degrees,
    )


def unpaired_figures(a: Side, b: Side, level: float) -> tuple[Figures, float | None]:
    """Return the figures of two files that share no entry, and Fisher's p: all that each answered counts."""
    won_a, won_b = (int((side.succeeded & side.answered).sum()) for side in (a, b))
    n_a, n_b = int(a.answered.sum()), int(b.answered.sum())
    found = _unpaired(won_a, n_a, won_b, n_b, level)
    unknown_a, unknown_b = len(a) - n_a, len(b) - n_b
    if unknown_a or unknown_b:
        lowest = _unpaired(won_a + unknown_a, len(a), won_b, len(b), level)
        highest = _unpaired(won_a, len(a), won_b + unknown_b, len(b), level)
        found = replace(found, undecided=unknown_a + unknown_b, bounds=(lowest, highest))
    return found, fisher_exact(won_b, n_b, won_a, n_a) if n_a and n_b else None


def _unpaired(won_a: int, n_a: int, won_b: int, n_b: int, level: float) -> Figures:
    return Figures(
        Table(),
        wilson(won_a, n_a, level=level),
        wilson(won_b, n_b, level=level),
        newcombe(won_b, n_b, won_a, n_a, level=level),
        None,
    )
