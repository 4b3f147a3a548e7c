"""A dataset and its targets, read and matched: result files one by one, each folded as `results analyze` folds it.

A target is a result file. Of each target one outcome is kept for every row of the dataset, and a count of what could
not be matched. A result belongs to an entry by id and by content, or by the long id alone.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

from msgspec import Struct, field

from faircount.analysis import problems
from faircount.analysis.options import DatasetComparisonOptions
from faircount.core.errors import InputError
from faircount.core.findings import counted
from faircount.core.model import Finding, Outcome
from faircount.core.outcomes import PRECEDENCE
from faircount.core.workers import Beside, is_interrupt
from faircount.ledger import engine, tallies
from faircount.ledger.lookup import EntryHeads, RowOfEntry, entry_heads, lacks_objectives, rows_of_entries
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import ONE_BY_ONE_UP_TO_ROWS, Ledger
from faircount.readers.cache import Cache, ReadSource
from faircount.readers.datasets import NO_CONTENT, Dataset, RowNames, names_of_rows, read_dataset
from faircount.readers.inputs import Input
from faircount.readers.loading import Loader, Progress, refuse_evidence_alone, refuse_hopeless, with_cache

MISSING = len(Outcome)
"""Stands among the numbers of outcomes for a row of the dataset that a target has no result of."""

PLACES_KEPT = 20

_RANK = {OUTCOME_NUMBER[outcome]: rank for rank, outcome in enumerate(PRECEDENCE)} | {MISSING: len(PRECEDENCE)}
_SUCCESS, _FAILURE = OUTCOME_NUMBER[Outcome.SUCCESS], OUTCOME_NUMBER[Outcome.FAILURE]

_SHOWN_ELSEWHERE = frozenset(["F014", "F015", "F028"])
"""Findings about entries without an answer: here these are in no rate, and shown with every target."""


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
        if not candidates:
            return "not_in_dataset"
        return candidates if len({dataset.contents[row] for row in candidates}) == 1 else "undecided"
    same = [row for row in candidates if dataset.holds(row, content)]
    same = same or [row for row in dataset.by_parent_id.get(name, ()) if dataset.holds(row, content)]
    if same:
        return same
    if len(candidates) == 1 and not dataset.has_content(candidates[0]):
        return candidates
    return "other_content" if candidates else "not_in_dataset"


# -- by the long id alone ---------------------------------------------------------------------------------------


class _RowsOfLongId(Struct):
    """The rows of one entry."""

    parent_id: str
    lines: list[int]
    first_standard: int | None = None
    succeeded: bool = False


def match_by_long_id(dataset: Dataset, ledger: Ledger, names: Mapping[int, RowNames]) -> Matched:
    """Match a ledger that was folded by id: every row of a dataset with a long id gets what any entry with it got."""
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


def _groups(rows: Iterable[RowOfEntry]) -> Iterable[_RowsOfLongId]:
    groups: dict[int, _RowsOfLongId] = {}
    for row in rows:
        group = groups.get(row.entry)
        if group is None:
            group = groups[row.entry] = _RowsOfLongId(row.parent_id, [])
        group.lines.append(row.line)
        group.succeeded = group.succeeded or row.succeeded
        if not row.is_attack and group.first_standard is None:
            group.first_standard = row.line
    return groups.values()


def _long_id(group: _RowsOfLongId, names: Mapping[int, RowNames], long_ids: Mapping[str, str | None]) -> str | None:
    """Return the long id of a group, None where its rows name none."""
    rows = [names[line] for line in group.lines]
    named = next((row.attack_parent_long_id for row in rows if isinstance(row.attack_parent_long_id, str)), None)
    if named is not None:
        return named
    if group.first_standard is not None:
        return names[group.first_standard].own_long_id
    candidate = long_ids.get(group.parent_id)
    if candidate and any(row.own_long_id == f"{candidate}-{row.attack_name}" for row in rows):
        return candidate
    return None


# -- reading --------------------------------------------------------------------------------------------------


class ReadTarget(Struct, frozen=True):
    """A result file as far as it concerns the dataset."""

    read: ReadSource
    matched: Matched
    findings: list[Finding]


class ReadAll(Struct, frozen=True):
    """The dataset and its targets."""

    dataset: Dataset
    targets: list[ReadTarget]


def read_all(path: str, chosen: Sequence[Input], options: DatasetComparisonOptions, progress: Progress) -> ReadAll:
    """Read a dataset and the files of its targets, and match them."""
    names = [item.path for item in chosen]
    how, alone = options.reading, not options.rules.merges_rows_by_id

    def loader(cache: Cache | None) -> Loader:
        """Return a loader that takes what the cache has; nothing is kept of what it has not."""
        cached = Loader(names, how, progress, cache, alone=alone)
        return cached if cached.used_cache else Loader(names, how, progress, alone=alone)

    return with_cache(loader, lambda loader: _read(path, names, options, loader), cache=options.cache)


def _read(path: str, names: Sequence[str], options: DatasetComparisonOptions, loader: Loader) -> ReadAll:
    """Read the dataset and every target.

    The loader's processes start before anything else runs. While they read a target, threads read the dataset and
    match the target before.
    """
    with engine.interruptible(), loader, contextlib.ExitStack() as threads:
        reading = threads.enter_context(Beside(partial(_read_dataset, path, options.max_line)))
        matching: list[Beside[ReadTarget]] = []
        for name in names:
            ledger = Ledger([name])
            threads.push(partial(_close, ledger))
            read = loader.load(ledger, 0)
            refuse_hopeless([read.source], [read.notes])
            refuse_evidence_alone([read.source])
            if matching:
                matching[-1].thread.join()
            work = partial(_match_target, reading, ledger, read, options)
            matching.append(threads.enter_context(Beside(work)))
        return ReadAll(reading.answer(), [target.answer() for target in matching])


def _close(ledger: Ledger, kind: type[BaseException] | None, *_: object) -> None:
    """Close a ledger; after an interrupt, when nobody waits for the thread that asks it, that is left to the thread."""
    if not is_interrupt(kind):
        ledger.close()


def _read_dataset(path: str, max_line: int) -> Dataset:
    dataset = read_dataset(path, max_line)
    if len(dataset):
        return dataset
    if not dataset.source.bad_lines:
        raise InputError(f"{path}: no entries")
    reason, _ = next(dataset.notes.subjects("F001"))
    lines = counted(dataset.source.bad_lines, "line")
    raise InputError(f"{path}: cannot read any of its {lines} as a dataset's entry; most often: {reason}")


def _match_target(
    reading: Beside[Dataset], ledger: Ledger, read: ReadSource, options: DatasetComparisonOptions
) -> ReadTarget:
    """Fold what was read of a target, and match it to the dataset."""
    with ledger:
        ledger.fold(options.rules, combined=False)
        if options.rules.matches_by_long_id:
            names = names_of_rows(read.source.path, options.max_line)
            return ReadTarget(read, match_by_long_id(reading.answer(), ledger, names), [])
        if lacks_objectives(ledger):
            # The cache has only the fold of it: it is read once more.
            path = read.source.path
            with Loader([path], options.reading) as loader:
                again = Ledger([path])
                return _match_target(reading, again, loader.load(again, 0), options)
        if not options.rules.looks_for_problems:
            return ReadTarget(read, match(reading.answer(), ledger), [])
        tally = tallies.overall(ledger).tally
        found = problems.from_ledger(ledger, tally, [read.source], detected=options.detected)
        findings = [item for item in found if item.code not in _SHOWN_ELSEWHERE]
        return ReadTarget(read, match(reading.answer(), ledger), findings)
