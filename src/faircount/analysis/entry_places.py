"""Which entry every row of files belongs to, and what became of it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from faircount.ledger import engine
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LINE_BITS, Ledger, LedgerView
from faircount.reading.loading import Loader, ReadOptions, with_cache
from faircount.reading.raw_rows import Origin, RawRow
from faircount.reading.spikee import CASE_FACETS

_SLICE_ROWS = 100_000
_OUTCOMES = {number: outcome.value for outcome, number in OUTCOME_NUMBER.items()}

_ENTRY_OF_EVERY_ROW = """
CREATE TABLE row_entry AS
SELECT m.ord, COALESCE(t.entry_key, r.entry_key, s.entry_key) AS entry_key
FROM marked AS m
LEFT JOIN told AS t ON m.ord = t.ord
LEFT JOIN resolved AS r ON m.ord = r.ord
LEFT JOIN (
    SELECT m.origin_key, m.entry_id, MIN(t.entry_key) AS entry_key
    FROM told AS t
    INNER JOIN marked AS m ON m.ord = t.ord
    GROUP BY m.origin_key, m.entry_id
) AS s ON m.origin_key = s.origin_key AND m.entry_id = s.entry_id
"""
"""A row that tells nothing new goes with the entry that it tells of."""

_ENTRY_OF_EVERY_ROW_BY_SPIKEE = "CREATE TABLE row_entry AS SELECT ord, entry_key FROM told"

_SLICE_OF_ROWS = f"""
SELECT r.ord, r.entry_key, e.outcome
FROM row_entry AS r
INNER JOIN entry AS e ON r.entry_key = e.entry_key
WHERE r.ord > ?
ORDER BY r.ord
LIMIT {_SLICE_ROWS}
"""


class Entries:
    """Which entry every row belongs to, and what became of it, in the order of the rows."""

    def __init__(self, ledger: LedgerView, definition: str) -> None:
        self._rows, self._keys, self._outcomes = array("q"), array("q"), array("b")
        ledger.query(_ENTRY_OF_EVERY_ROW_BY_SPIKEE if definition == "spikee" else _ENTRY_OF_EVERY_ROW)
        last = -1
        while found := ledger.query(_SLICE_OF_ROWS, [last]):
            rows, keys, outcomes = map(list, zip(*found, strict=True))
            self._rows.fromlist(rows)
            self._keys.fromlist(keys)
            self._outcomes.fromlist(outcomes)
            last = self._rows[-1]

    def outcome(self, place: int) -> str | None:
        """Return what became of the entry that a row belongs to."""
        index = place_in(self._rows, place)
        return None if index is None else _OUTCOMES[self._outcomes[index]]

    def with_rows(self, places: Iterable[int]) -> tuple[array[int], int]:
        """Return every row of the entries that the given rows belong to, and how many entries these are."""
        found = (place_in(self._rows, place) for place in places)
        keys = {self._keys[index] for index in found if index is not None}
        rows = array("q", [row for row, key in zip(self._rows, self._keys, strict=True) if key in keys])
        return rows, len(keys)


def place_of(source: int, row: RawRow) -> int:
    """Return by what number the ledger knows a row of a source."""
    return source << LINE_BITS | row.number


def place_in(places: array[int], place: int) -> int | None:
    """Return where a place stands in a list in ascending order."""
    index = bisect_left(places, place)
    return index if index < len(places) and places[index] == place else None


def folded_entries(origins: Sequence[Origin], definition: str, how: ReadOptions, *, cache: bool) -> Entries:
    """Read the files once more, as they are analysed together, and return their entries."""
    paths = [origin.path for origin in origins]
    return with_cache(
        lambda kept: Loader(paths, how, cache=kept, alone=False),
        lambda loader: _fold_with(paths, definition, loader),
        cache=cache,
    )


def _fold_with(paths: Sequence[str], definition: str, loader: Loader) -> Entries:
    with engine.interruptible(), loader, Ledger(paths, CASE_FACETS) as ledger:
        for index in range(len(paths)):
            loader.load(ledger, index)
        if definition == "spikee":
            ledger.fold_as_spikee(combined=True)
        else:
            ledger.fold()
        return Entries(ledger, definition)
