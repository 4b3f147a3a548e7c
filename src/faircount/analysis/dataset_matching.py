"""Which entry of a dataset a result belongs to: by id and by content, or by spikee's rule, by the long id alone.

A target is a result file. Of each target one outcome is kept for every row of the dataset, and a count of what could
not be matched.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LINE_BITS, ONE_BY_ONE_UP_TO_ROWS, Ledger
from faircount.model import Outcome
from faircount.outcomes import PRECEDENCE
from faircount.reading.datasets import NO_CONTENT, Dataset, RowNames

MISSING = len(Outcome)
"""Stands among the numbers of outcomes for a row of the dataset that a target has no result of."""

PLACES_KEPT = 20

_RANK = {OUTCOME_NUMBER[outcome]: rank for rank, outcome in enumerate(PRECEDENCE)} | {MISSING: len(PRECEDENCE)}
_SUCCESS, _FAILURE = OUTCOME_NUMBER[Outcome.SUCCESS], OUTCOME_NUMBER[Outcome.FAILURE]

# An entry is known by its first standard row, whose prompt is the content of the dataset's row.
_STANDARD = """
SELECT
    CASE WHEN t.mark = 2 THEN COALESCE(t.own_id, t.parent_id) ELSE t.parent_id END AS id,
    COALESCE(t.text_hash, 0) AS content,
    e.outcome AS outcome,
    COALESCE(e.family, 0) AS family,
    t.ord AS ord
FROM (SELECT entry_key, MIN(ord) AS head FROM told WHERE NOT is_attack GROUP BY entry_key) AS h
INNER JOIN entry AS e ON h.entry_key = e.entry_key
INNER JOIN told AS t ON h.head = t.ord
ORDER BY t.ord
"""

# Where only rows of an attack are there, its objective is the content.
_ATTACKS_ALONE = """
SELECT a.parent_id, COALESCE(a.objective_hash, 0), e.outcome, COALESCE(e.family, 0), a.ord
FROM entry AS e
INNER JOIN attempt AS a ON e.first_ord = a.ord
WHERE NOT e.has_standard
ORDER BY a.ord
"""

_ROWS_AS_SPIKEE = "SELECT entry_key, ord, is_attack, parent_id, succeeded FROM told ORDER BY ord"


class Unmatched(Struct):
    """Entries of a target that are no entry of the dataset: how many, and where the first of them stand."""

    count: int = 0
    where: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.where) < PLACES_KEPT:
            self.where.append(place)


class Matched(Struct):
    """What a target made of a dataset: an outcome for every row, and what could not be matched."""

    outcomes: bytearray
    families: array[int]
    """What the rows are variants of; 0 where that is not known."""
    not_in_dataset: Unmatched = field(default_factory=Unmatched)
    other_content: Unmatched = field(default_factory=Unmatched)
    undecided: Unmatched = field(default_factory=Unmatched)
    """Entries whose id several rows of the dataset have, and that record no content to tell which it is."""


_Entry = tuple[int, int, int, int, int]
"""The number of an entry's id, the checksum of its content, its outcome, its family, and its place."""


def needs_rows(ledger: Ledger) -> bool:
    """Tell whether a folded ledger without its rows is not enough: the objectives of attacks are only there."""
    kept = ledger.query("SELECT 1 FROM information_schema.tables WHERE table_name = 'attempt'")
    return not kept and bool(ledger.query("SELECT 1 FROM entry WHERE NOT has_standard LIMIT 1"))


def match(dataset: Dataset, ledger: Ledger) -> Matched:
    """Match the entries of a folded ledger to the rows of a dataset, by id and by content."""
    matched = _nothing_matched(dataset)
    many = sum(ledger.rows) > ONE_BY_ONE_UP_TO_ROWS
    left = _match_at_once(dataset, ledger, matched) if many else ledger.query(_STANDARD)
    _match_one_by_one(dataset, ledger, left, matched)
    if ledger.query("SELECT 1 FROM entry WHERE NOT has_standard LIMIT 1"):
        _match_one_by_one(dataset, ledger, ledger.query(_ATTACKS_ALONE), matched)
    return matched


def _nothing_matched(dataset: Dataset) -> Matched:
    return Matched(bytearray([MISSING]) * len(dataset), array("q", bytes(8 * len(dataset))))


def _match_at_once(dataset: Dataset, ledger: Ledger, matched: Matched) -> list[_Entry]:
    """Match the entries whose id is a number that one row has, and whose content is that row's; return the others."""
    import numpy as np

    with ledger.beside() as connection:
        found = connection.execute(_STANDARD).fetchnumpy()
    numbers, rows = dataset.numbered
    if not len(numbers):
        return _entries(found, slice(None))
    at = np.searchsorted(numbers, found["id"]) % len(numbers)
    row = rows[at]
    same = (numbers[at] == found["id"]) & (np.frombuffer(dataset.contents, np.int64)[row] == found["content"])
    ranks = np.full(len(dataset), _RANK[MISSING], np.uint8)
    np.minimum.at(ranks, row[same], _ranks()[found["outcome"][same]])
    matched.outcomes[:] = np.argsort(_ranks()).astype(np.uint8)[ranks].tobytes()
    np.frombuffer(matched.families, np.int64)[row[same]] = found["family"][same]
    return _entries(found, ~same)


def _ranks() -> Any:
    import numpy as np

    return np.array([_RANK[number] for number in range(len(_RANK))], np.uint8)


def _entries(found: Mapping[str, Any], which: Any) -> list[_Entry]:
    columns = [found[name][which].tolist() for name in ("id", "content", "outcome", "family", "ord")]
    return list(zip(*columns, strict=True))


def _match_one_by_one(dataset: Dataset, ledger: Ledger, entries: Iterable[Any], matched: Matched) -> None:
    for number, content, outcome, family, ord_ in entries:
        rows = _rows_of(dataset, ledger.word("parent_id", number) or "", content)
        if isinstance(rows, str):
            getattr(matched, rows).add(ledger.place(ord_))
            continue
        for row in rows:
            matched.families[row] = matched.families[row] or family
            if _RANK[outcome] < _RANK[matched.outcomes[row]]:
                matched.outcomes[row] = outcome


def _rows_of(dataset: Dataset, name: str, content: int) -> Sequence[int] | str:
    """Return the rows that an entry is, or the name of the count that it belongs to.

    The id names candidates, and the content decides. A row that was extracted from results may also go by the id
    that it had there, if the content agrees.
    """
    candidates = dataset.by_id.get(name, ())
    if len(candidates) == 1 and dataset.contents[candidates[0]] == content:
        return candidates
    if content in NO_CONTENT:
        return _rows_by_id_alone(dataset, candidates)
    same = [row for row in candidates if dataset.holds(row, content)]
    same = same or [row for row in dataset.by_parent_id.get(name, ()) if dataset.holds(row, content)]
    if same:
        return same
    if len(candidates) == 1 and not dataset.has_content(candidates[0]):
        return candidates
    return "other_content" if candidates else "not_in_dataset"


def _rows_by_id_alone(dataset: Dataset, candidates: Sequence[int]) -> Sequence[int] | str:
    if not candidates:
        return "not_in_dataset"
    return candidates if len({dataset.contents[row] for row in candidates}) == 1 else "undecided"


# -- spikee's rule ----------------------------------------------------------------------------------------------


class _Group(Struct):
    """The rows that spikee takes for one entry."""

    parent_id: str
    lines: list[int]
    first_standard: int | None = None
    succeeded: bool = False


def match_as_spikee(dataset: Dataset, ledger: Ledger, names: Mapping[int, RowNames]) -> Matched:
    """Match as spikee 0.9.2 does: every row of the dataset with a long id gets what any entry with it got."""
    sorted_rows = sorted(range(len(dataset)), key=lambda row: dataset.long_ids[row] or "")
    long_ids = {dataset.ids[row]: dataset.long_ids[row] for row in sorted_rows}
    succeeded: dict[str, bool] = {}
    for group in _groups(ledger, ledger.query(_ROWS_AS_SPIKEE)):
        long_id = _long_id(group, names, long_ids)
        if long_id is not None:
            succeeded[long_id] = succeeded.get(long_id, False) or group.succeeded
    matched = _nothing_matched(dataset)
    for row, long_id in enumerate(dataset.long_ids):
        if long_id in succeeded:
            matched.outcomes[row] = _SUCCESS if succeeded[long_id] else _FAILURE
    return matched


def _groups(ledger: Ledger, rows: Iterable[tuple[Any, ...]]) -> Iterable[_Group]:
    groups: dict[int, _Group] = {}
    for key, ord_, is_attack, parent_id, succeeded in rows:
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(ledger.word("parent_id", parent_id) or "", [])
        line = ord_ & ((1 << LINE_BITS) - 1)
        group.lines.append(line)
        group.succeeded = group.succeeded or succeeded
        if not is_attack and group.first_standard is None:
            group.first_standard = line
    return groups.values()


def _long_id(group: _Group, names: Mapping[int, RowNames], long_ids: Mapping[str, str | None]) -> str | None:
    """Return the long id that spikee finds for a group, None where it finds none."""
    told = [names[line] for line in group.lines]
    named = next((row.attack_parent_long_id for row in told if isinstance(row.attack_parent_long_id, str)), None)
    if named is not None:
        return named
    if group.first_standard is not None:
        return names[group.first_standard].own_long_id
    candidate = long_ids.get(group.parent_id)
    if candidate and any(row.own_long_id == f"{candidate}-{row.attack_name}" for row in told):
        return candidate
    return None
