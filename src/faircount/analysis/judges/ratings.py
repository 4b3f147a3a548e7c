"""Items by raters: what each person and each judge said of each item, as columns of small numbers.

A million items are held in some tens of megabytes: of an item only 64 bits of a digest of its id are kept here. Who
wants its id or its text goes through the files once more."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from faircount.core.verdict import Decision
from faircount.io.records import Records, some_values
from faircount.io.streams import STDIN
from faircount.readers.label_values import is_number, ratings_in
from faircount.readers.labels import Labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Kind = Literal["person", "judge"]
PERSON: Kind = "person"
JUDGE: Kind = "judge"

MISSING, PASS, HIT = -1, 0, 1
"""How a decision is written in a column; a missing one is neither."""

_NUMBERS = {None: MISSING, Decision.PASS: PASS, Decision.HIT: HIT}
DECISION_OF = {MISSING: None, PASS: Decision.PASS, HIT: Decision.HIT}


class Rater(Struct, frozen=True):
    """A person or a judge. A judge is also known by the digest of its identity: another version is another rater."""

    name: str
    kind: Kind
    identity: str = ""


def item_key(item: int | str) -> int:
    """Return 64 bits that stand for the id of an item; 5 and "5" are one."""
    digest = hashlib.blake2b(str(item).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class _RaterColumn:
    """What one rater said, in the order in which it was told; the scores of people are told later, on their own."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.decisions = array("b")
        self.scored = array("Q")
        self.scores = array("d")
        self.error = ""


class Ratings:
    """Gathers what raters said, in any order; of two ratings of one item by one rater the last counts."""

    def __init__(self) -> None:
        self._columns: dict[Rater, _RaterColumn] = {}
        self._echoes: set[Rater] = set()

    def _column(self, rater: Rater) -> _RaterColumn:
        column = self._columns.get(rater)
        if column is None:
            column = self._columns[rater] = _RaterColumn()
        return column

    def add(self, rater: Rater, key: int, decision: Decision | None, score: float | None = None) -> None:
        """Take down what a rater said of an item; a decision of None is missing."""
        column = self._column(rater)
        column.keys.append(key)
        column.decisions.append(_NUMBERS[decision])
        if score is not None:
            self.add_score(rater, key, score)

    def add_score(self, rater: Rater, key: int, score: float) -> None:
        """Take down the score that a rater gave an item."""
        column = self._column(rater)
        column.scored.append(key)
        column.scores.append(score)

    def add_error(self, rater: Rater, error: str) -> None:
        """Take down why a judge could not decide; the first reason is kept."""
        column = self._column(rater)
        column.error = column.error or error

    def echo(self, rater: Rater, key: int, decision: Decision) -> None:
        """Take down what is told of a rater several times, once with every judge: repeating it is no doubt."""
        self._echoes.add(rater)
        self.add(rater, key, decision)

    def table(self) -> RatingTable:
        """Return what was taken down, people before judges, items in the order in which they were first told."""
        import numpy as np

        raters = sorted(self._columns, key=lambda rater: rater.kind == JUDGE)
        columns = [self._columns[rater] for rater in raters]
        items, rows = _places([np.frombuffer(column.keys, np.uint64) for column in columns])
        decisions = np.full((len(raters), len(items)), MISSING, np.int8)
        scores: dict[int, npt.NDArray[np.float64]] = {}
        repeated: dict[Rater, int] = {}
        for index, (rater, column) in enumerate(zip(raters, columns, strict=True)):
            # Of values that go to one place numpy keeps the last.
            decisions[index, rows[index]] = np.frombuffer(column.decisions, np.int8)
            if column.scores:
                scores[index] = _scores(column, items)
            again = 0 if rater in self._echoes else len(column.keys) - len(np.unique(rows[index]))
            if again:
                repeated[rater] = again
        errors = {rater: column.error for rater, column in self._columns.items() if column.error}
        return RatingTable(tuple(raters), items, decisions, scores, repeated, errors)


def _scores(column: _RaterColumn, items: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return the score of each item, NaN where there is none."""
    import numpy as np

    keys, given = np.frombuffer(column.scored, np.uint64), np.frombuffer(column.scores, np.float64)
    scores = np.full(len(items), np.nan)
    if np.array_equal(keys, items):
        scores[:] = given
        return scores
    order = np.argsort(items)
    places = np.searchsorted(items, keys, sorter=order)
    rows = order[np.minimum(places, len(items) - 1)]
    known = items[rows] == keys
    scores[rows[known]] = given[known]
    return scores


def _places(
    keys: Sequence[npt.NDArray[np.uint64]],
) -> tuple[npt.NDArray[np.uint64], list[npt.NDArray[np.int64]]]:
    """Return all items in the order in which they first stand, and for each column which of them its rows are."""
    import numpy as np

    if not keys:
        return np.zeros(0, np.uint64), []
    first = keys[0]
    if all(np.array_equal(first, other) for other in keys[1:]) and len(np.unique(first)) == len(first):
        return first.copy(), [np.arange(len(first))] * len(keys)
    found, at, inverse = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    order = np.argsort(at, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ends = np.cumsum([len(column) for column in keys])[:-1]
    return found[order], np.split(place[inverse.reshape(-1)], ends)


class RatingTable:
    """Items by raters. A row of `decisions` is a rater, a column an item; `scores` has the raters that gave any."""

    def __init__(
        self,
        raters: tuple[Rater, ...],
        items: npt.NDArray[np.uint64],
        decisions: npt.NDArray[np.int8],
        scores: dict[int, npt.NDArray[np.float64]],
        repeated: dict[Rater, int],
        errors: dict[Rater, str],
    ) -> None:
        self.raters = raters
        self.items = items
        self.decisions = decisions
        self.scores = scores
        self.repeated = repeated
        """How many ratings were replaced by a later one of the same item, of the raters of whom that is so."""
        self.errors = errors
        """Why judges could not decide, each with its first reason."""

    def of_kind(self, kind: Kind) -> list[int]:
        """Return the numbers of the people, or of the judges."""
        return [index for index, rater in enumerate(self.raters) if rater.kind == kind]

    def pair(self, one: int, other: int) -> Any:
        """Return how often each two decisions of two raters meet: passes before hits, the first rater in the rows."""
        import numpy as np

        mine, theirs = self.decisions[one], self.decisions[other]
        both = (mine != MISSING) & (theirs != MISSING)
        return np.bincount(2 * mine[both] + theirs[both], minlength=4).reshape(2, 2)

    def counts(self, raters: Sequence[int]) -> tuple[Any, Any]:
        """Return for each item how many of some raters called it a pass, and how many a hit."""
        import numpy as np

        passes = np.zeros(len(self.items), np.int16)
        hits = np.zeros(len(self.items), np.int16)
        for rater in raters:
            passes += self.decisions[rater] == PASS
            hits += self.decisions[rater] == HIT
        return passes, hits

    def parting(self) -> tuple[Any, Any]:
        """Return the items on which raters differ, and how far apart people and judges are on each of those.

        The distance is that of the share of hits among people from that among judges: 1 where all people say one
        thing and all judges the other. Those come first; then items on which all raters together are most evenly
        split, then those with more decisions, then in the order of the items.
        """
        import numpy as np

        passes, hits = self.counts(range(len(self.raters)))
        items = np.flatnonzero((passes > 0) & (hits > 0))
        shares = []
        for kind in (PERSON, JUDGE):
            of_kind = self.of_kind(kind)
            no, yes = (counts[items].astype(np.float64) for counts in self.counts(of_kind))
            with np.errstate(invalid="ignore"):
                shares.append(yes / (yes + no))
        distance = np.nan_to_num(np.abs(shares[0] - shares[1]))
        decided = (passes + hits)[items]
        evenness = np.minimum(passes, hits)[items] / decided
        order = np.lexsort((items, -decided, -evenness, -distance))
        return items[order], distance[order]


# -- scores of people -----------------------------------------------------------------------------------------


Scores = tuple[tuple[str, float], ...]
"""Raters, and what number each gave."""


def has_scores(labels: Labels) -> bool:
    """Return whether labels are scores that can be read again: not from standard input, and not keyed to results."""
    readable = not labels.options.results and all(source.path != STDIN for source in labels.sources)
    return readable and any(source.scores for source in labels.sources)


def label_scores(labels: Labels) -> Iterator[tuple[str, Scores]]:
    """Yield items by their ids with the scores that people gave.

    Labels that say the opposite of what judges look for are turned round, s becoming 1 - s: on a scale from 0 to 1
    they can be compared with judges', and among people it makes no difference.
    """

    def records() -> Iterator[tuple[str, Scores]]:
        for name, columns in labels.columns:
            # What is doubtful was told when the items were read.
            for line, values in Records(name, some_values(columns.labels), max_line=labels.options.max_line):
                ratings = ((rater, _score(rating)) for rater, rating in ratings_in(columns.labels, values))
                yield f"{name}:{line}", tuple((rater, score) for rater, score in ratings if score is not None)

    for labelled, (place, scores) in zip(labels, records(), strict=True):
        if labelled.place != place:
            raise AssertionError(f"{place} was read where {labelled.place} was expected")
        if labels.options.invert_labels:
            scores = tuple((rater, 1 - score) for rater, score in scores)
        if scores:
            yield labelled.item, scores


def _score(value: Any) -> float | None:
    """Return a rating as a number, None where it is none."""
    if isinstance(value, str):
        value = float(value) if is_number(value) else None
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
