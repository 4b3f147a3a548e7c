"""A dataset and its targets, read and matched: result files one by one, each folded as `results analyze` folds it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from faircount.analysis import problems
from faircount.analysis.dataset_matching import Matched, match, match_as_spikee
from faircount.analysis.options import DatasetComparisonOptions
from faircount.core.errors import InputError
from faircount.core.findings import counted
from faircount.core.model import Finding
from faircount.core.workers import Beside, is_interrupt
from faircount.ledger import engine, tallies
from faircount.ledger.lookup import lacks_objectives
from faircount.ledger.store import Ledger
from faircount.readers.cache import Cache, ReadSource
from faircount.readers.datasets import Dataset, names_of_rows, read_dataset
from faircount.readers.inputs import Input
from faircount.readers.loading import Loader, Progress, refuse_hopeless, with_cache

_SHOWN_ELSEWHERE = frozenset(["F014", "F015", "F028"])
"""Findings about entries without an answer: here these are in no rate, and shown with every target."""


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
    how, alone = options.reading, not options.by_spikee

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
    _refuse_empty(dataset)
    return dataset


def _match_target(
    reading: Beside[Dataset], ledger: Ledger, read: ReadSource, options: DatasetComparisonOptions
) -> ReadTarget:
    """Fold what was read of a target, and match it to the dataset."""
    with ledger:
        ledger.fold("spikee" if options.by_spikee else "faircount", combined=False)
        if options.by_spikee:
            names = names_of_rows(read.source.path, options.max_line)
            return ReadTarget(read, match_as_spikee(reading.answer(), ledger, names), [])
        if lacks_objectives(ledger):
            return _read_again(reading, read.source.path, options)
        tally = tallies.overall(ledger).tally
        found = problems.from_ledger(ledger, tally, [read.source], detected=options.detected)
        findings = [item for item in found if item.code not in _SHOWN_ELSEWHERE]
        return ReadTarget(read, match(reading.answer(), ledger), findings)


def _read_again(reading: Beside[Dataset], path: str, options: DatasetComparisonOptions) -> ReadTarget:
    """Read a target anew of which the cache has only the fold."""
    with Loader([path], options.reading) as loader:
        ledger = Ledger([path])
        return _match_target(reading, ledger, loader.load(ledger, 0), options)


def _refuse_empty(dataset: Dataset) -> None:
    if len(dataset):
        return
    source = dataset.source
    if not source.bad_lines:
        raise InputError(f"{dataset.path}: no entries")
    reason, _ = next(dataset.notes.subjects("F001"))
    lines = counted(source.bad_lines, "line")
    raise InputError(f"{dataset.path}: cannot read any of its {lines} as a dataset's entry; most often: {reason}")
