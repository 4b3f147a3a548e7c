"""Which of these goes with which of those, so that the sum of their likenesses is as large as it can be.

Taking the best partner for each in turn depends on the order and can miss the best whole; these two do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

Pairs = list[tuple[int, int]]
"""Rows with their columns, in the order of the rows."""


def best_pairs(likeness: Sequence[Sequence[float]]) -> Pairs:
    """Return the assignment of rows to columns with the largest sum; the longer side has some left over.

    The Hungarian method with potentials and shortest augmenting paths (Jonker and Volgenant 1987), in
    rows × rows × columns steps.
    """
    if not likeness or not likeness[0]:
        return []
    if len(likeness) > len(likeness[0]):
        turned = [[row[column] for row in likeness] for column in range(len(likeness[0]))]
        return sorted((row, column) for column, row in best_pairs(turned))
    costs = [[-value for value in row] for row in likeness]
    return _Assignment(costs).pairs()


class _Assignment:
    """The state of the method: at most as many rows as columns, and the least cost is wanted."""

    def __init__(self, costs: Sequence[Sequence[float]]) -> None:
        self._costs = costs
        self._columns = len(costs[0])
        self._of_rows = [0.0] * len(costs)
        self._of_columns = [0.0] * self._columns
        self._row_at: list[int | None] = [None] * self._columns

    def pairs(self) -> Pairs:
        for row in range(len(self._costs)):
            self._place(row)
        return sorted((row, column) for column, row in enumerate(self._row_at) if row is not None)

    def _place(self, row: int) -> None:
        """Find the cheapest way to a free column for a row, and move the rows on that way by one place."""
        distance = [inf] * self._columns
        before: list[int | None] = [None] * self._columns
        done: list[int] = []
        open_columns = set(range(self._columns))
        current: int | None = None
        here, travelled = row, 0.0
        while True:
            self._relax(here, current, travelled, (distance, before), open_columns)
            current = min(open_columns, key=lambda column: (distance[column], column))
            travelled = distance[current]
            occupant = self._row_at[current]
            if occupant is None:
                break
            open_columns.remove(current)
            done.append(current)
            here = occupant
        self._raise_potentials(row, done, distance, travelled)
        self._move(row, current, before)

    def _relax(
        self,
        row: int,
        came_from: int | None,
        travelled: float,
        ways: tuple[list[float], list[int | None]],
        open_columns: set[int],
    ) -> None:
        """Note every column that is cheaper to reach by way of this row."""
        distance, before = ways
        costs, potential = self._costs[row], self._of_rows[row]
        for column in open_columns:
            reached = travelled + costs[column] - potential - self._of_columns[column]
            if reached < distance[column]:
                distance[column] = reached
                before[column] = came_from

    def _raise_potentials(self, row: int, done: Sequence[int], distance: Sequence[float], travelled: float) -> None:
        """Keep every reduced cost at or above 0, and at 0 for the pairs."""
        self._of_rows[row] += travelled
        for column in done:
            gain = travelled - distance[column]
            occupant = self._row_at[column]
            if occupant is not None:
                self._of_rows[occupant] += gain
            self._of_columns[column] -= gain

    def _move(self, row: int, column: int, before: Sequence[int | None]) -> None:
        while True:
            previous = before[column]
            if previous is None:
                self._row_at[column] = row
                return
            self._row_at[column] = self._row_at[previous]
            column = previous


def best_pairs_in_order(likeness: Sequence[Sequence[float]]) -> Pairs:
    """Return the assignment with the largest sum in which no two pairs cross: later rows have later columns."""
    if not likeness or not likeness[0]:
        return []
    sums = _sums_of_prefixes(likeness)
    row, column = len(likeness), len(likeness[0])
    pairs: Pairs = []
    while row and column:
        if sums[row][column] == sums[row - 1][column]:
            row -= 1
        elif sums[row][column] == sums[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]


def _sums_of_prefixes(likeness: Sequence[Sequence[float]]) -> list[list[float]]:
    columns = len(likeness[0])
    sums = [[0.0] * (columns + 1)]
    for row in likeness:
        above, current = sums[-1], [0.0]
        for column, value in enumerate(row):
            current.append(max(above[column + 1], current[column], above[column] + value))
        sums.append(current)
    return sums
