"""Comparisons of the runs of a page, at hand as long as their files stay as they are, and the addresses of entries.

A baseline is part of an address (`base=…`), so that every page of a run becomes one of its difference from the
baseline, and can be sent on. A is the baseline and stands at the left, B is the run. What may be claimed, and every
figure, is that of `results compare`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict, replace

from faircount.analysis.compare.browse import CELLS, OpenComparison, PairList, needs_rows, open_comparison
from faircount.analysis.compare.model import Comparison
from faircount.analysis.options import CompareOptions
from faircount.app.web.pages import ListState, Query, whole
from faircount.app.web.runs import Run
from faircount.core.errors import FaircountError, UsageError

MOST_KEPT, MOST_ENTRIES_KEPT = 64, 2_000_000
"""So many comparisons are kept at hand, with so many pairs of entries in all."""
ALONE = ("a", "b")
"""Entries of the baseline alone, and of the run alone."""


class _Made(Struct, frozen=True):
    found: OpenComparison | None
    problem: str = ""


class Comparisons:
    """Comparisons of the runs of a page, made when they are first asked for; again when a file has changed."""

    def __init__(self, judge_quality: str | None) -> None:
        self._quality = judge_quality
        self._made: OrderedDict[tuple[Any, ...], _Made] = OrderedDict()
        self._lock = threading.RLock()

    def of(self, runs: Sequence[Run]) -> OpenComparison:
        """Return the comparison of runs with the first of them; one that cannot be made raises why."""
        made = self._of(runs)
        if made.found is None:
            raise UsageError(made.problem)
        return made.found

    def problem(self, runs: Sequence[Run]) -> str:
        """Return why a comparison cannot be made, or why it is not corrected for the judge."""
        return self._of(runs).problem

    def has(self, runs: Sequence[Run]) -> bool:
        """Return whether a comparison is at hand."""
        return _key(runs) in self._made

    def _of(self, runs: Sequence[Run]) -> _Made:
        key = _key(runs)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._compared(runs)
                while len(self._made) > 1 and (len(self._made) > MOST_KEPT or self._entries() > MOST_ENTRIES_KEPT):
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    def _entries(self) -> int:
        return sum(len(listed) for one in self._made.values() if one.found is not None for listed in one.found.lists)

    def _compared(self, runs: Sequence[Run]) -> _Made:
        try:
            results = [run.results(rows=needs_rows(run.results())) for run in runs]
            read = ("guardrail_success", "max_line", "policy_blocks")
            options = CompareOptions(**{name: getattr(results[0].options, name) for name in read}, flips=0)
            analysis = runs[0].summary().analysis
            problem = ""
            if self._quality is not None and (analysis is None or analysis.aim != "task"):
                try:
                    return _Made(_named(runs, open_comparison(results, replace(options, judge_quality=self._quality))))
                except FaircountError as error:
                    problem = str(error)
            return _Made(_named(runs, open_comparison(results, options)), problem)
        except (FaircountError, OSError) as error:
            return _Made(None, str(error))


def _named(runs: Sequence[Run], found: OpenComparison) -> OpenComparison:
    for run in runs:
        found = run.naming.of(found)
    return found


def _key(runs: Sequence[Run]) -> tuple[Any, ...]:
    return tuple((run.id, run.stamp) for run in runs)


# -- addresses --------------------------------------------------------------------------------------------------


class PairState(ListState, frozen=True):
    """Which pairs of entries a page is about: what its address says beside what that of a list of entries does."""

    base: str = ""
    cells: tuple[str, ...] = ()
    cause: str = ""
    """A group of flips: the cell, a dot, and its number."""
    alone: str = ""
    """`a` or `b`: the entries that only one of the runs has."""

    @classmethod
    def of(cls, query: Query) -> PairState:
        """Read an address; what it does not understand is left out."""
        said, known = dict(query), asdict(ListState.of(query))
        cells = tuple(dict.fromkeys(value for name, value in query if name == "cell" and value in CELLS))
        alone = said.get("alone", "")
        cause = said.get("cause", "")
        return cls(**known, base=said.get("base", ""), cells=cells, cause=cause, alone=alone if alone in ALONE else "")

    def query(self, **changes: Any) -> str:
        """Return the address of this page, or of one that differs in some parts."""
        state = replace(self, **changes)
        words = [("base", state.base), *(("cell", cell) for cell in state.cells)]
        words += [(name, value) for name, value in (("cause", state.cause), ("alone", state.alone)) if value]
        rest = ListState.query(state).removeprefix("?")
        return f"?{urlencode(words)}{'&' if rest else ''}{rest}"

    @property
    def chosen_cause(self) -> tuple[str, int] | None:
        cell, _, number = self.cause.partition(".")
        return (cell, whole(number, 0)) if cell else None

    def toggled(self, cell: str) -> str:
        """Return the address with a cell chosen, or no longer."""
        cells = tuple(one for one in self.cells if one != cell) if cell in self.cells else (*self.cells, cell)
        return self.query(cells=cells, offset=0, at=None)


def pairs_link(run: Run, base: Run, **state: Any) -> str:
    """Return the address of pairs of entries of a run and its baseline."""
    return f"/run/{run.id}/entries{PairState(base=base.id, **state).query()}"


# -- what is counted of a pair of runs --------------------------------------------------------------------------


class SharedEntries(Struct, frozen=True):
    """How many entries two runs share, and how many only one of them has."""

    both: int
    undecided: int
    only_a: int
    only_b: int
    a_href: str = ""
    b_href: str = ""
    undecided_href: str = ""


def cells_of_flips(c: Comparison) -> tuple[str, str]:
    """Return the cells of what was fixed and what was broken: an attack should fail in B, and a test should pass."""
    return ("only_a", "only_b") if c.aim == "attack" else ("only_b", "only_a")


def shared_entries(run: Run, base: Run, found: PairList) -> SharedEntries:
    """Return what two runs share, with the ways to it."""
    undecided = found.counts(slice(None))["undecided"]
    alone = [sum(len(lines) for lines in one.values()) for one in found.alone]
    return SharedEntries(
        len(found),
        undecided,
        alone[0],
        alone[1],
        pairs_link(run, base, alone=ALONE[0]),
        pairs_link(run, base, alone=ALONE[1]),
        pairs_link(run, base, cells=("undecided",)),
    )


def words_of_cells(c: Comparison) -> dict[str, str]:
    """Return how the entries of two runs ended, in words, by the cell."""
    won = "succeeded" if c.aim == "attack" else "passed"
    a, b = c.pairs[0].labels
    named = {"both": f"both {won}", "only_a": f"only {a} {won}", "only_b": f"only {b} {won}"}
    return named | {"neither": f"neither {won}", "undecided": "undecided"}
