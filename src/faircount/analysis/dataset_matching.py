"""Which entry of a dataset a result belongs to: by id and by content, or by spikee's rule, by the long id alone.

A target is a result file. Of each target one outcome is kept for every row of the dataset, and a count of what could
not be matched.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct, field

from faircount.core.model import Outcome
from faircount.core.outcomes import PRECEDENCE
from faircount.ledger.lookup import EntryHeads, RowOfEntry, entry_heads, rows_of_entries
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import ONE_BY_ONE_UP_TO_ROWS, Ledger
from faircount.readers.datasets import NO_CONTENT, Dataset, RowNames

MISSING = len(Outcome)
"""Stands among the numbers of outcomes for a row of the dataset that a target has no result of."""

PLACES_KEPT = 20

_RANK = {OUTCOME_NUMBER[outcome]: rank for rank, outcome in enumerate(PRECEDENCE)} | {MISSING: len(PRECEDENCE)}
_SUCCESS, _FAILURE = OUTCOME_NUMBER[Outcome.SUCCESS], OUTCOME_NUMBER[Outcome.FAILURE]


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


def match(dataset: Dataset, ledger: Ledger) -> Matched:
    """Match the entries of a folded ledger to the rows of a dataset, by id and by content."""
    matched = _nothing_matched(dataset)
    many = sum(ledger.rows) > ONE_BY_ONE_UP_TO_ROWS
    heads = entry_heads(ledger, arrays=many)
    if many:
        standard = _match_at_once(dataset, heads, matched)
        alone = heads.alone
    else:
        standard, alone = ([is_alone is wanted for is_alone in heads.alone] for wanted in (False, True))
    _match_one_by_one(dataset, ledger, _entries(heads, standard), matched)
    _match_one_by_one(dataset, ledger, _entries(heads, alone), matched)
    return matched


def _nothing_matched(dataset: Dataset) -> Matched:
    return Matched(bytearray([MISSING]) * len(dataset), array("q", bytes(8 * len(dataset))))


def _match_at_once(dataset: Dataset, heads: EntryHeads, matched: Matched) -> Any:
    """Match standard entries whose id is a number that one row has, with its content; return which others there are."""
    import numpy as np

    numbers, rows = dataset.numbered
    if not len(numbers):
        return ~heads.alone
    at = np.searchsorted(numbers, heads.id) % len(numbers)
    row = rows[at]
    same = (numbers[at] == heads.id) & (np.frombuffer(dataset.contents, np.int64)[row] == heads.content)
    same &= ~heads.alone
    ranks = np.full(len(dataset), _RANK[MISSING], np.uint8)
    np.minimum.at(ranks, row[same], _ranks()[heads.outcome[same]])
    matched.outcomes[:] = np.argsort(_ranks()).astype(np.uint8)[ranks].tobytes()
    np.frombuffer(matched.families, np.int64)[row[same]] = heads.family[same]
    return ~same & ~heads.alone


def _ranks() -> Any:
    import numpy as np

    return np.array([_RANK[number] for number in range(len(_RANK))], np.uint8)


def _entries(heads: EntryHeads, which: Sequence[bool]) -> Iterator[_Entry]:
    """Return some of the entries, one flag for each telling which."""
    columns = (heads.id, heads.content, heads.outcome, heads.family, heads.ord)
    if isinstance(which, list):
        return zip(*(compress(column, which) for column in columns), strict=True)
    return zip(*(column[which].tolist() for column in columns), strict=True)


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
    for group in _groups(rows_of_entries(ledger)):
        long_id = _long_id(group, names, long_ids)
        if long_id is not None:
            succeeded[long_id] = succeeded.get(long_id, False) or group.succeeded
    matched = _nothing_matched(dataset)
    for row, long_id in enumerate(dataset.long_ids):
        if long_id in succeeded:
            matched.outcomes[row] = _SUCCESS if succeeded[long_id] else _FAILURE
    return matched


def _groups(rows: Iterable[RowOfEntry]) -> Iterable[_Group]:
    groups: dict[int, _Group] = {}
    for row in rows:
        group = groups.get(row.entry)
        if group is None:
            group = groups[row.entry] = _Group(row.parent_id, [])
        group.lines.append(row.line)
        group.succeeded = group.succeeded or row.succeeded
        if not row.is_attack and group.first_standard is None:
            group.first_standard = row.line
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
