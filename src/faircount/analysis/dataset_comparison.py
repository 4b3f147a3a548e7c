"""`results dataset-comparison` as a library call: one dataset and the results of several targets in, rates out.

An entry's rate is the share of the targets that answered it on which it succeeded. A target that has no result of an
entry, or only an error or an answer that nobody judged, has not resisted: it is not counted, and shown apart.
"""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import compress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import integrity
from faircount.analysis.dataset_matching import MISSING, PLACES_KEPT, Unmatched
from faircount.analysis.dataset_options import ALL, ComparisonOptions
from faircount.analysis.dataset_reading import ReadAll, ReadTarget, read_all
from faircount.errors import InputError, UsageError
from faircount.findings import counted, finding
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.model import Estimate, Finding, Outcome, Source
from faircount.reading import inputs
from faircount.reading.datasets import Dataset, is_dataset
from faircount.reading.inputs import Input
from faircount.reading.loading import Progress
from faircount.reading.streams import STDIN
from faircount.source_labels import labelled
from faircount.stats import Design

ENTRIES_NAMED = 10
ANSWERED_UNIT = "answered entry"

_ANSWERS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)


# -- what is found out ------------------------------------------------------------------------------------------


class Target(Struct, frozen=True):
    """A result file: the outcomes of the dataset's entries in it, its rate, and what could not be matched."""

    source: Source
    outcomes: bytes
    rate: Estimate
    missing: Unmatched
    not_in_dataset: Unmatched
    other_content: Unmatched
    undecided: Unmatched

    def count(self, outcome: Outcome) -> int:
        """Return how many entries of the dataset ended so."""
        return self.outcomes.count(OUTCOME_NUMBER[outcome])

    @property
    def answered(self) -> int:
        """How many entries of the dataset the target really answered; a block is an answer."""
        return sum(self.count(outcome) for outcome in _ANSWERS)


class Named(Struct, frozen=True):
    """Some entries of the dataset: how many, and the first of them as (id, place)."""

    count: int
    examples: tuple[tuple[str, str], ...]


class Falls(Struct, frozen=True):
    """How many entries succeed on so many targets: those that all targets answered, and those that some did."""

    targets: int
    answered_by_all: int
    answered_by_some: int


class Transfer(Struct, frozen=True):
    """Of the entries that succeed on one target and were answered by another, those that succeed there too."""

    first: int
    second: int
    both: int
    rate: Estimate


class Comparison(Struct, frozen=True):
    """The rates of a dataset's entries over targets, the entries that were chosen, and how targets differ."""

    options: ComparisonOptions
    dataset: Dataset
    files: tuple[str, ...]
    targets: tuple[Target, ...]
    rates: tuple[float | None, ...]
    meeting: int
    """How many entries meet the threshold."""
    chosen: tuple[int, ...]
    """Their rows in the order in which they are written, as many as were asked for."""
    falls: tuple[Falls, ...]
    everywhere: Named
    alone: tuple[Named, ...]
    """For each target, the entries that succeed there and on no other that answered them."""
    transfers: tuple[Transfer, ...]
    copies: tuple[tuple[str, str], ...]
    """Targets that hold the same bytes as another, which comes second."""
    families: int | None
    """How many families of variants the intervals of targets respect; None where entries are independent."""
    findings: tuple[Finding, ...]

    @property
    def damaged(self) -> bool:
        """Tell whether any file had lines that could not be read, or broke off."""
        return any(item.code in ("F001", "F002") for item in self.findings)

    @property
    def without_rate(self) -> int:
        """How many entries no target answered."""
        return self.rates.count(None)

    def rows(self) -> Iterator[bytes]:
        """Yield the chosen rows of the dataset as they were, each with its success rate."""
        return self.dataset.rows_with_rates(self.chosen, [self.rates[row] or 0.0 for row in self.chosen])


# -- the call ---------------------------------------------------------------------------------------------------


def compare_dataset(
    dataset: str,
    files: Sequence[str],
    options: ComparisonOptions | None = None,
    progress: Progress = lambda _: None,
) -> Comparison:
    """Compare the entries of a dataset over result files, one target each; `progress` hears of bytes read."""
    options = options or ComparisonOptions()
    path = one_dataset([dataset])
    paths = inputs.expand(files)
    _refuse_datasets(path, paths, options.max_line)
    if not paths:
        raise UsageError("no result file given; name a file or a folder")
    if options.by_spikee and STDIN in paths:
        raise UsageError(
            "--definition spikee reads results twice, and standard input can be read only once; name a file"
        )
    chosen = [Input(name) for name in dict.fromkeys(paths)] if options.by_spikee else _by_place(paths)
    read = read_all(path, chosen, options, progress)
    return _compared(read, chosen, paths, options)


def _by_place(paths: Sequence[str]) -> list[Input]:
    """Merge paths that lead to the same file. Another file with the same bytes may be another target's."""
    spellings: dict[str, list[str]] = {}
    for path in paths:
        spellings.setdefault(path if path == STDIN else os.path.realpath(path), []).append(path)
    return [Input(first, tuple(others)) for first, *others in spellings.values()]


def _copies(chosen: Sequence[Input]) -> tuple[tuple[str, str], ...]:
    """Return the files that hold the same bytes as another before them, with that one."""
    found = inputs.distinct([item.path for item in chosen])
    return tuple((copy, item.path) for item in found for copy in item.also)


def one_dataset(names: Sequence[str]) -> str:
    """Return the file that names or globs stand for; UsageError unless it is exactly one."""
    if not names:
        raise UsageError("no dataset given: name the one that the results were made with by --dataset-file")
    if STDIN in names:
        raise UsageError(
            "--dataset-file -: the dataset is read twice, and standard input can be read only once; name a file"
        )
    found = list(dict.fromkeys(inputs.expand(names)))
    if len(found) > 1:
        raise _several_datasets(found)
    return found[0]


def _refuse_datasets(dataset: str, results: Sequence[str], max_line: int) -> None:
    """Raise if what was given as results is a dataset: the shell makes several words of a glob."""
    found = [path for path in results if Path(path).is_file() and is_dataset(path, max_line)]
    if found:
        raise _several_datasets([dataset, *found])


def _several_datasets(paths: Sequence[str]) -> UsageError:
    named = ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    return UsageError(f"only results of one dataset can be compared; these are {len(paths):,} datasets: {named}")


# -- does the dataset fit ---------------------------------------------------------------------------------------


def _refuse_misfit(dataset: Dataset, targets: Sequence[Target], options: ComparisonOptions) -> None:
    """Raise if a target has no result of some entry of the dataset."""
    reasons = [_misfit(dataset, target) for target in targets if target.missing.count]
    if reasons:
        then = "counted as resisted, by spikee's rule" if options.by_spikee else "shown, and not counted as resisted"
        raise InputError(
            f"{dataset.path}: does not match the results. {' '.join(reasons)} Is it the dataset that the results "
            f"were made with? --skip-validation compares what there is: what is missing is then {then}"
        )


def _misfit(dataset: Dataset, target: Target) -> str:
    places = ", ".join(target.missing.where[:3])
    text = f"{target.source.path} has no result of {target.missing.count:,} of {len(dataset):,} entries ({places}"
    text += ", …)" if target.missing.count > 3 else ")"
    others = [
        (target.other_content, "with the id but not the content of an entry"),
        (target.undecided, "whose id is shared by several entries"),
        (target.not_in_dataset, "that are not in the dataset"),
    ]
    told = [f"{counted(u.count, 'result')} {what} ({u.where[0]})" for u, what in others if u.count]
    return text + (f"; it has {', and '.join(told)}." if told else ".")


# -- rates ------------------------------------------------------------------------------------------------------


def _flags(*outcomes: Outcome) -> bytes:
    """Return a table that turns the number of an outcome into 1 if it is one of these, else into 0."""
    numbers = {OUTCOME_NUMBER[outcome] for outcome in outcomes}
    return bytes(number in numbers for number in range(256))


_SUCCEEDED = _flags(Outcome.SUCCESS)
_ANSWERED = _flags(*_ANSWERS)


_NO_ANSWER, _RESISTED, _FELL = range(3)
Standing = tuple[int, ...]
"""Of an entry on every target: whether it counts there at all, and whether it succeeded. There are few of them."""


class _Masks(Struct, frozen=True):
    """For every target one byte per entry: 1 if it succeeded there, and 1 if it counts there."""

    succeeded: list[bytes]
    counts: list[bytes]

    @property
    def standings(self) -> list[bytes]:
        """The sum of both."""
        both = zip(self.succeeded, self.counts, strict=True)
        return [bytes(map(operator.add, succeeded, counts)) for succeeded, counts in both]


def _masks(targets: Sequence[ReadTarget], options: ComparisonOptions) -> _Masks:
    outcomes = [bytes(target.matched.outcomes) for target in targets]
    succeeded = [column.translate(_SUCCEEDED) for column in outcomes]
    if options.by_spikee:
        return _Masks(succeeded, [b"\1" * len(column) for column in outcomes])
    return _Masks(succeeded, [column.translate(_ANSWERED) for column in outcomes])


def _rate_of(kind: Standing, given: int | None) -> float | None:
    """Return the rate of an entry, over the targets that it counts on or over a given number of them."""
    among = len(kind) - kind.count(_NO_ANSWER)
    return kind.count(_FELL) / (given or among) if among else None


def _compared(read: ReadAll, chosen: Sequence[Input], paths: Sequence[str], options: ComparisonOptions) -> Comparison:
    dataset, masks = read.dataset, _masks(read.targets, options)
    families = _families(read, options)
    targets = [
        _target(dataset, target, succeeded, counts, families, options)
        for target, succeeded, counts in zip(read.targets, masks.succeeded, masks.counts, strict=True)
    ]
    named = labelled([target.source for target in targets])
    targets = [replace(target, source=source) for target, source in zip(targets, named, strict=True)]
    if not options.skip_validation:
        _refuse_misfit(dataset, targets, options)
    standings = list(zip(*masks.standings, strict=True))
    kinds = Counter(standings)
    rate_of = {kind: _rate_of(kind, len(paths) if options.by_spikee else None) for kind in kinds}
    rates = [rate_of[kind] for kind in standings]
    ranked = _ranked(dataset, rates, options)
    alone = [_rows_where(standings, kinds, partial(_falls_alone, target)) for target in range(len(targets))]
    return Comparison(
        options=options,
        dataset=dataset,
        files=(dataset.path, *paths),
        targets=tuple(targets),
        rates=tuple(rates),
        meeting=len(ranked),
        chosen=tuple(ranked if options.number == ALL else ranked[: options.number]),
        falls=_falls(kinds, len(targets)),
        everywhere=_named(dataset, _rows_where(standings, kinds, _falls_everywhere)),
        alone=tuple(_named(dataset, rows) for rows in alone),
        transfers=tuple(_transfers(masks, families, options.level)),
        copies=_copies(chosen),
        families=None if families is None else len(set(families)),
        findings=integrity.ordered(_findings(read, chosen, options)),
    )


def _ranked(dataset: Dataset, rates: Sequence[float | None], options: ComparisonOptions) -> list[int]:
    """Return the rows that meet the threshold: the highest rates first, or with `lt` the lowest.

    spikee has the highest first with `lt`, too, and breaks ties by the long id, not by the order of the dataset.
    """
    threshold, above = options.success_threshold, options.success_definition == "gt"
    meeting = [
        row for row, rate in enumerate(rates) if rate is not None and (rate > threshold if above else rate < threshold)
    ]
    if options.by_spikee:
        meeting.sort(key=lambda row: dataset.long_ids[row] or "")
    sign = -1 if above or options.by_spikee else 1
    return sorted(meeting, key=lambda row: sign * (rates[row] or 0.0))


def _target(
    dataset: Dataset,
    target: ReadTarget,
    succeeded: bytes,
    counts: bytes,
    families: Sequence[int] | None,
    options: ComparisonOptions,
) -> Target:
    matched = target.matched
    missing = Unmatched(matched.outcomes.count(MISSING))
    row = matched.outcomes.find(MISSING)
    while row >= 0 and len(missing.where) < PLACES_KEPT:
        missing.where.append(dataset.place(row))
        row = matched.outcomes.find(MISSING, row + 1)
    return Target(
        source=target.read.source,
        outcomes=bytes(matched.outcomes),
        rate=_rate(succeeded, counts, families, options.level, "entry" if options.by_spikee else ANSWERED_UNIT),
        missing=missing,
        not_in_dataset=matched.not_in_dataset,
        other_content=matched.other_content,
        undecided=matched.undecided,
    )


def _families(read: ReadAll, options: ComparisonOptions) -> list[int] | None:
    """Return what every entry is a variant of, or None where no two that are known are variants of one thing."""
    if options.by_spikee:
        return None
    known = [target.matched.families for target in read.targets]
    first = reduce(
        lambda before, after: [a or b for a, b in zip(before, after, strict=True)], known[1:], list(known[0])
    )
    # An entry of unknown family is one of its own, with a number that no checksum can be.
    families = [family or (1 << 64) + row for row, family in enumerate(first)]
    return families if 1 < len(set(families)) < len(families) else None


def _rate(succeeded: bytes, counts: bytes, families: Sequence[int] | None, level: float, unit: str) -> Estimate:
    """Return the share of the entries that count that succeeded, both given by a byte for each entry."""
    sizes = Counter(() if families is None else compress(families, counts))
    design = Design(families=families is not None, level=level)
    if families is None:
        return design.rate([sum(succeeded)], [sum(counts)], unit=unit).estimate
    wins = Counter(compress(families, succeeded))
    kinds = Counter((wins[family], size) for family, size in sizes.items())
    of, among = [won for won, _ in kinds], [size for _, size in kinds]
    return design.rate(of, among, times=list(kinds.values()), unit=unit).estimate


# -- how targets differ -----------------------------------------------------------------------------------------


def _falls(kinds: Counter[Standing], targets: int) -> tuple[Falls, ...]:
    """Count the entries by how many targets they succeed on."""
    by_all, by_some = Counter[int](), Counter[int]()
    for kind, times in kinds.items():
        if _NO_ANSWER not in kind:
            by_all[kind.count(_FELL)] += times
        elif kind.count(_NO_ANSWER) < targets:
            by_some[kind.count(_FELL)] += times
    return tuple(Falls(count, by_all[count], by_some[count]) for count in range(targets, -1, -1))


def _falls_everywhere(kind: Standing) -> bool:
    return kind.count(_FELL) == len(kind)


def _falls_alone(target: int, kind: Standing) -> bool:
    """Tell whether an entry succeeds on one target and on no other, though another answered."""
    return kind[target] == _FELL and kind.count(_FELL) == 1 and _RESISTED in kind


def _rows_where(
    standings: Sequence[Standing], kinds: Iterable[Standing], wanted: Callable[[Standing], bool]
) -> list[int]:
    chosen = {kind for kind in kinds if wanted(kind)}
    return [row for row, kind in enumerate(standings) if kind in chosen] if chosen else []


def _named(dataset: Dataset, rows: Sequence[int]) -> Named:
    return Named(len(rows), tuple((dataset.ids[row], dataset.place(row)) for row in rows[:ENTRIES_NAMED]))


def _transfers(masks: _Masks, families: Sequence[int] | None, level: float) -> Iterator[Transfer]:
    """Yield every ordered pair of targets; a byte per entry makes a long number, and two are combined at once."""
    succeeded, counts = ([int.from_bytes(mask) for mask in column] for column in (masks.succeeded, masks.counts))
    entries = len(masks.succeeded[0])
    unit = "entry that succeeds on the first and was answered by the second"
    for first, won in enumerate(succeeded):
        for second, also_won in enumerate(succeeded):
            if first != second:
                both, among = ((won & mask).to_bytes(entries) for mask in (also_won, counts[second]))
                yield Transfer(first, second, sum(both), _rate(both, among, families, level, unit))


# -- doubts -----------------------------------------------------------------------------------------------------


def _findings(read: ReadAll, chosen: Sequence[Input], options: ComparisonOptions) -> list[Finding]:
    notes = [read.dataset.notes, *(target.read.notes for target in read.targets)]
    found = integrity.from_reading(notes, definition=options.definition)
    found += integrity.from_inputs(chosen)
    found += integrity.from_sources([target.read.source for target in read.targets])
    found += [item for target in read.targets for item in target.findings]
    if options.by_spikee:
        message = (
            "spikee's own definitions are in use: entries are distinguished by their long id alone, and a target "
            "without an answer counts as resisting"
        )
        found.append(finding("F024", 1, message))
    return found
