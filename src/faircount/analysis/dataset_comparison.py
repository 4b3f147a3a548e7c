"""`results dataset-comparison` as a library call: one dataset and the results of several targets in, rates out.

An entry's rate is the share of the targets that answered it on which it succeeded. A target that has no result of an
entry, or only an error or an answer that nobody judged, has not resisted: it is not counted, and shown apart."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import compress
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.analysis import problems
from faircount.analysis.dataset_matching import MISSING, PLACES_KEPT, ReadAll, ReadTarget, Unmatched, read_all
from faircount.analysis.options import ALL, DatasetComparisonOptions
from faircount.core.definition import DEFINITIONS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, counted, finding
from faircount.core.model import Document, Estimate, Finding, Outcome, Source, Tally
from faircount.io.files import is_file, place_key
from faircount.io.streams import STDIN
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.readers import inputs
from faircount.readers.datasets import Dataset, is_dataset
from faircount.readers.inputs import Input
from faircount.readers.loading import Progress
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Fact,
    Facts,
    Findings,
    Grid,
    HeatMap,
    Label,
    Paragraph,
    Place,
    Record,
    Records,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.report.source_labels import labelled
from faircount.stats import Design

ENTRIES_NAMED = 10
ANSWERED_UNIT = "answered entry"

_ANSWERS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)


# -- what is found out ------------------------------------------------------------------------------------------


class EntryPlace(Struct, frozen=True):
    """An entry of the dataset, and where it stands."""

    id: str
    where: str


class SomeEntries(Struct, frozen=True):
    """Some entries of the dataset: how many, and the first of them."""

    count: int
    examples: tuple[EntryPlace, ...]


class DatasetTarget(Struct, frozen=True):
    """A result file: its results of the dataset's entries, its rate, and what could not be matched.

    `answered` counts the entries that the target really answered; a block is an answer. `alone` are the entries that
    succeed here and on no other target that answered them.
    """

    source: Source
    entries: Tally
    answered: int
    rate: Estimate
    missing: Unmatched
    not_in_dataset: Unmatched
    other_content: Unmatched
    undecided: Unmatched
    alone: SomeEntries


class SuccessesByTargets(Struct, frozen=True):
    """How many entries succeed on so many targets: those that all targets answered, and those that some did."""

    targets: int
    answered_by_all: int
    answered_by_some: int


class Transfer(Struct, frozen=True):
    """Of the entries that succeed on one target and were answered by another, those that succeed there too."""

    first: str = field(name="from")
    second: str = field(name="to")
    successes: int
    rate: Estimate


class DatasetComparison(Document, frozen=True, kw_only=True):
    """The rates of a dataset's entries over targets, the entries that were chosen, and how targets differ.

    `without_rate` entries were answered by no target, `meeting` meet the threshold, and `written` of them went to
    `output`. `copies` are targets that hold the same bytes as another. `families` is how many families of variants the
    intervals of targets respect; None where entries are independent.
    """

    kind: Literal["dataset-comparison"] = "dataset-comparison"
    schema: Literal[2] = 2
    definition: str
    level: float
    success_threshold: float
    success_definition: str
    number: int | None
    validated: bool
    dataset: Source
    entries: int
    without_rate: int
    repeated_ids: int
    repeated_long_ids: int
    repeated_entries: int
    meeting: int
    written: int
    output: str | None = None
    targets: tuple[DatasetTarget, ...]
    falls: tuple[SuccessesByTargets, ...]
    everywhere: SomeEntries
    transfer: tuple[Transfer, ...]
    copies: dict[str, str]
    families: int | None
    findings: tuple[Finding, ...]
    limits: tuple[str, ...]

    @property
    def damaged(self) -> bool:
        """Return whether any file had lines that could not be read, or broke off."""
        return any(item.code in DAMAGE for item in self.findings)


class ComparedDataset(Struct, frozen=True):
    """A comparison with the dataset that it is of: `chosen` are rows of it, in the order in which they are written."""

    result: DatasetComparison
    dataset: Dataset
    files: tuple[str, ...]
    rates: tuple[float | None, ...]
    chosen: tuple[int, ...]

    def rows(self) -> Iterator[bytes]:
        """Yield the chosen rows of the dataset as they were, each with its success rate."""
        return self.dataset.rows_with_rates(self.chosen, [self.rates[row] or 0.0 for row in self.chosen])


# -- the call ---------------------------------------------------------------------------------------------------


def compare_dataset(
    dataset: str,
    files: Sequence[str],
    options: DatasetComparisonOptions | None = None,
    progress: Progress = lambda _: None,
) -> ComparedDataset:
    """Compare the entries of a dataset over result files, one target each; `progress` gets the bytes read."""
    options = options or DatasetComparisonOptions()
    path = one_dataset([dataset])
    paths = inputs.expand(files, options.read_as)
    datasets = [one for one in paths if is_file(one) and is_dataset(one, options.max_line)]
    if datasets:
        # The shell makes several words of a glob.
        raise _several_datasets([path, *datasets])
    if not paths:
        raise UsageError("no result file given; name a file or a folder")
    if options.rules.matches_by_long_id and STDIN in paths:
        raise UsageError(
            f"--definition {options.definition} reads results twice, and standard input can be read only once; "
            "name a file"
        )
    # Paths that lead to the same file are one target. Another file with the same bytes may be another target's.
    spellings: dict[str, list[str]] = {}
    for name in paths:
        spellings.setdefault(name if name == STDIN else place_key(name), []).append(name)
    by_place = [Input(first, tuple(others)) for first, *others in spellings.values()]
    chosen = [Input(name) for name in dict.fromkeys(paths)] if options.rules.counts_copies else by_place
    read = read_all(path, chosen, options, progress)
    return _compared(read, chosen, paths, options)


def one_dataset(names: Sequence[str]) -> str:
    """Return the file that names or globs stand for; UsageError unless it is exactly one."""
    if not names:
        raise UsageError("no dataset given: name the one that the results were made with by --dataset-file")
    if STDIN in names:
        raise UsageError(
            "--dataset-file -: the dataset is read twice, and standard input can be read only once; name a file"
        )
    found = list(dict.fromkeys(inputs.expand(names, split=False)))
    if len(found) > 1:
        raise _several_datasets(found)
    return found[0]


def _several_datasets(paths: Sequence[str]) -> UsageError:
    named = ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    return UsageError(f"only results of one dataset can be compared; these are {len(paths):,} datasets: {named}")


# -- does the dataset fit ---------------------------------------------------------------------------------------


def _misfit(dataset: Dataset, target: DatasetTarget) -> str:
    places = ", ".join(target.missing.where[:3])
    text = f"{target.source.path} has no result of {target.missing.count:,} of {len(dataset):,} entries ({places}"
    text += ", …)" if target.missing.count > 3 else ")"
    others = [
        (target.other_content, "with the id but not the content of an entry"),
        (target.undecided, "whose id is shared by several entries"),
        (target.not_in_dataset, "that are not in the dataset"),
    ]
    other_results = [f"{counted(u.count, 'result')} {what} ({u.where[0]})" for u, what in others if u.count]
    return text + (f"; it has {', and '.join(other_results)}." if other_results else ".")


# -- rates ------------------------------------------------------------------------------------------------------


def _flags(*outcomes: Outcome) -> bytes:
    """Return a table that turns the number of an outcome into 1 if it is one of these, else into 0."""
    numbers = {OUTCOME_NUMBER[outcome] for outcome in outcomes}
    return bytes(number in numbers for number in range(256))


_SUCCEEDED = _flags(Outcome.SUCCESS)
_ANSWERED = _flags(*_ANSWERS)


_NO_ANSWER, _RESISTED, _FELL = range(3)
Pattern = tuple[int, ...]
"""Of an entry on every target: whether it counts there at all, and whether it succeeded. There are few of them."""


class _Masks(Struct, frozen=True):
    """For every target one byte per entry: 1 if it succeeded there, and 1 if it counts there."""

    succeeded: list[bytes]
    counts: list[bytes]

    @property
    def patterns(self) -> list[bytes]:
        """The sum of both."""
        both = zip(self.succeeded, self.counts, strict=True)
        return [bytes(map(operator.add, succeeded, counts)) for succeeded, counts in both]


def _masks(targets: Sequence[ReadTarget], options: DatasetComparisonOptions) -> _Masks:
    outcomes = [bytes(target.matched.outcomes) for target in targets]
    succeeded = [column.translate(_SUCCEEDED) for column in outcomes]
    if options.rules.no_answer_resists:
        return _Masks(succeeded, [b"\1" * len(column) for column in outcomes])
    return _Masks(succeeded, [column.translate(_ANSWERED) for column in outcomes])


def _rate_of(kind: Pattern, given: int | None) -> float | None:
    """Return the rate of an entry, over the targets that it counts on or over a given number of them."""
    among = len(kind) - kind.count(_NO_ANSWER)
    return kind.count(_FELL) / (given or among) if among else None


def _compared(
    read: ReadAll, chosen: Sequence[Input], paths: Sequence[str], options: DatasetComparisonOptions
) -> ComparedDataset:
    dataset, masks = read.dataset, _masks(read.targets, options)
    families = _families(read)
    patterns = list(zip(*masks.patterns, strict=True))
    kinds = Counter(patterns)
    sources = labelled([target.read.source for target in read.targets])
    unit = "entry" if options.rules.no_answer_resists else ANSWERED_UNIT
    targets = [
        DatasetTarget(
            source=source,
            entries=_tally(target.matched.outcomes),
            answered=sum(target.matched.outcomes.count(OUTCOME_NUMBER[outcome]) for outcome in _ANSWERS),
            rate=_rate(succeeded, counts, families, options.level, unit),
            missing=_missing(dataset, target.matched.outcomes),
            not_in_dataset=target.matched.not_in_dataset,
            other_content=target.matched.other_content,
            undecided=target.matched.undecided,
            alone=_named(dataset, _rows_where(patterns, {kind for kind in kinds if _falls_alone(kind, place)})),
        )
        for place, (source, target, succeeded, counts) in enumerate(
            zip(sources, read.targets, masks.succeeded, masks.counts, strict=True)
        )
    ]
    if not options.skip_validation:
        reasons = [_misfit(dataset, target) for target in targets if target.missing.count]
        by_rule = f"counted as resisted, by {options.definition}'s rule"
        then = by_rule if options.rules.no_answer_resists else "shown, and not counted as resisted"
        if reasons:
            raise InputError(
                f"{dataset.path}: does not match the results. {' '.join(reasons)} Is it the dataset that the results "
                f"were made with? --skip-validation compares what there is: what is missing is then {then}"
            )
    rate_of = {kind: _rate_of(kind, len(paths) if options.rules.no_answer_resists else None) for kind in kinds}
    rates = [rate_of[kind] for kind in patterns]
    ranked = _ranked(dataset, rates, options)
    written = ranked if options.number == ALL else ranked[: options.number]
    respected = None if families is None else len(set(families))
    result = DatasetComparison(
        definition=options.definition,
        level=options.level,
        success_threshold=options.success_threshold,
        success_definition=options.success_definition,
        number=None if options.number == ALL else options.number,
        validated=not options.skip_validation,
        dataset=labelled([dataset.source])[0],
        entries=len(dataset),
        without_rate=rates.count(None),
        repeated_ids=dataset.repeated_ids,
        repeated_long_ids=dataset.repeated_long_ids,
        repeated_entries=dataset.repeated_entries,
        meeting=len(ranked),
        written=len(written),
        targets=tuple(targets),
        falls=_falls(kinds, len(targets)),
        everywhere=_named(dataset, _rows_where(patterns, {(_FELL,) * len(targets)})),
        transfer=tuple(_transfers([source.path for source in sources], masks, families, options.level)),
        copies={copy: item.path for item in inputs.distinct([one.path for one in chosen]) for copy in item.also},
        families=respected,
        findings=problems.ordered(_findings(read, chosen, options)),
        limits=tuple(_limits(len(targets), respected, options)),
    )
    return ComparedDataset(result, dataset, (dataset.path, *paths), tuple(rates), tuple(written))


def _ranked(dataset: Dataset, rates: Sequence[float | None], options: DatasetComparisonOptions) -> list[int]:
    """Return the rows that meet the threshold: the highest rates first, or with `lt` the lowest.

    Where the long id is what identifies entries, the highest are first with `lt`, too, and it breaks ties, not the
    order of the dataset.
    """
    threshold, above = options.success_threshold, options.success_definition == "gt"
    meeting = [
        row for row, rate in enumerate(rates) if rate is not None and (rate > threshold if above else rate < threshold)
    ]
    by_long_id = options.rules.matches_by_long_id
    if by_long_id:
        meeting.sort(key=lambda row: dataset.long_ids[row] or "")
    sign = -1 if above or by_long_id else 1
    return sorted(meeting, key=lambda row: sign * (rates[row] or 0.0))


def _tally(outcomes: bytearray) -> Tally:
    counts = {outcome.value: outcomes.count(OUTCOME_NUMBER[outcome]) for outcome in Outcome}
    return Tally(**counts, total=sum(counts.values()))


def _missing(dataset: Dataset, outcomes: bytearray) -> Unmatched:
    missing = Unmatched(outcomes.count(MISSING))
    row = outcomes.find(MISSING)
    while row >= 0 and len(missing.where) < PLACES_KEPT:
        missing.where.append(dataset.place(row))
        row = outcomes.find(MISSING, row + 1)
    return missing


def _families(read: ReadAll) -> list[int] | None:
    """Return what every entry is a variant of, or None where no two that are known are variants of one thing."""
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


def _falls(kinds: Counter[Pattern], targets: int) -> tuple[SuccessesByTargets, ...]:
    """Count the entries by how many targets they succeed on."""
    by_all, by_some = Counter[int](), Counter[int]()
    for kind, times in kinds.items():
        if _NO_ANSWER not in kind:
            by_all[kind.count(_FELL)] += times
        elif kind.count(_NO_ANSWER) < targets:
            by_some[kind.count(_FELL)] += times
    return tuple(SuccessesByTargets(count, by_all[count], by_some[count]) for count in range(targets, -1, -1))


def _falls_alone(kind: Pattern, target: int) -> bool:
    """Return whether an entry succeeds on one target and on no other, though another answered."""
    return kind[target] == _FELL and kind.count(_FELL) == 1 and _RESISTED in kind


def _rows_where(patterns: Sequence[Pattern], wanted: Collection[Pattern]) -> list[int]:
    return [row for row, kind in enumerate(patterns) if kind in wanted] if wanted else []


def _named(dataset: Dataset, rows: Sequence[int]) -> SomeEntries:
    return SomeEntries(
        len(rows), tuple(EntryPlace(dataset.ids[row], dataset.place(row)) for row in rows[:ENTRIES_NAMED])
    )


def _transfers(paths: Sequence[str], masks: _Masks, families: Sequence[int] | None, level: float) -> Iterator[Transfer]:
    """Yield every ordered pair of targets; a byte per entry makes a long number, and two are combined at once."""
    succeeded, counts = ([int.from_bytes(mask) for mask in column] for column in (masks.succeeded, masks.counts))
    entries = len(masks.succeeded[0])
    unit = "entry that succeeds on the first and was answered by the second"
    for first, won in enumerate(succeeded):
        for second, also_won in enumerate(succeeded):
            if first != second:
                both, among = ((won & mask).to_bytes(entries) for mask in (also_won, counts[second]))
                rate = _rate(both, among, families, level, unit)
                yield Transfer(paths[first], paths[second], sum(both), rate)


# -- limits -----------------------------------------------------------------------------------------------------


def _limits(targets: int, families: int | None, options: DatasetComparisonOptions) -> Iterator[str]:
    yield (
        f"The rate of an entry is over {counted(targets, 'target')} at most, so it takes few values and is not an "
        "estimate: it shows on which of these targets the entry succeeds, not how likely it is to succeed on "
        "another."
    )
    if options.rules.no_answer_resists:
        yield "A target that failed to answer counts as resisting, which makes rates too low."
    else:
        yield (
            "Entries that only some targets answered are compared with others on fewer targets; the table of targets "
            "shows how many those are."
        )
    yield "All numbers are only as good as the judge, and hold for this dataset and these runs."
    if families is None:
        yield "The intervals treat entries as independent; with variants of one instruction they are too narrow."
    else:
        yield (
            f"Intervals of targets respect {counted(families, 'family', 'families')} of variants, distinguished by "
            "document and instruction. Those from target to target treat entries as independent, and are too narrow "
            "where variants behave alike."
        )
    if targets > 1:
        yield "Transfer describes these targets; it does not explain why."


# -- problems ---------------------------------------------------------------------------------------------------


def _findings(read: ReadAll, chosen: Sequence[Input], options: DatasetComparisonOptions) -> list[Finding]:
    notes = [read.dataset.notes, *(target.read.notes for target in read.targets)]
    found = problems.from_reading(notes, options.rules)
    found += problems.from_inputs(chosen)
    found += problems.from_sources([target.read.source for target in read.targets])
    found += [item for target in read.targets for item in target.findings]
    if options.rules.dataset_notice:
        found.append(finding("F024", 1, options.rules.dataset_notice))
    return found


# -- the report -----------------------------------------------------------------------------------------------


PAIRS_SHOWN = 5
"""So many pairs of targets are shown at either end; all are in the document, and in the figure."""
LARGEST_MAP = 20
NAMED_IN_A_ROW = 5
_WORDS = {"gt": "above", "lt": "below"}
_ORDERS = {"gt": "the highest rates first", "lt": "the lowest rates first"}


def as_report(c: DatasetComparison, output: str, *, figures: bool = False) -> Report:
    """Arrange a comparison whose chosen entries were written to `output`; `figures` adds the transfer as a map."""
    blocks = (Findings(c.findings),) if c.findings else ()
    copied = ((Place(copy), Place(original)) for copy, original in c.copies.items())
    note = "Each counts as a target. Leave out copies."
    copies = [text_table(("File", "is a copy of"), copied, note=note)] if c.copies else []
    sections = [
        Section("Comparison of", blocks, level=1, subject=Place(c.dataset.path)),
        Section("Chosen entries, written to", tuple(_choice(c)), subject=Place(output)),
        Section("Targets", (_targets(c), *copies)),
    ]
    unmatched = [
        (target, what, found)
        for target in c.targets
        for found, what in (
            (target.missing, "entries without a result"),
            (target.other_content, "results with an entry's id but other content"),
            (target.undecided, "results whose id is shared by several entries"),
            (target.not_in_dataset, "results without an entry"),
        )
        if found.count
    ]
    if unmatched:
        grid = table(
            unmatched,
            text_column("Target", lambda row: _label(row[0])),
            text_column("What", lambda row: row[1]),
            number_column("Count", lambda row: row[2].count),
            text_column("First", lambda row: Place(row[2].where[0]), rank=1),
            note="None of these is counted.",
        )
        sections.append(Section("What could not be matched", (grid,)))
    if repeated := tuple(_repeated(c)):
        sections.append(Section("Identical rows", (Facts(repeated),)))
    if len(c.targets) > 1:
        sections += _between_targets(c)
        sections.append(Section("From target to target", tuple(_transfer(c, figures=figures))))
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, c.limits))))
    paths = ((_label(target), Record(target.source.path, whole=True)) for target in c.targets)
    sections.append(Section("Sources", (text_table(("Target", "Path"), paths),)))
    return Report(tuple(sections), replace(c, output=output))


# -- what was chosen --------------------------------------------------------------------------------------------


def _choice(c: DatasetComparison) -> Iterator[Block]:
    threshold, way = formats.exact_percent(c.success_threshold), c.success_definition
    among = c.entries - c.without_rate
    answered = "counted" if DEFINITIONS[c.definition].no_answer_resists else "that some target answered"
    order = f"{_ORDERS[way]}, ties in the order of the dataset"
    if DEFINITIONS[c.definition].matches_by_long_id:
        order = f"the highest rates first, ties by long id, as {c.definition} has them"
    facts = [
        Fact("Entries of the dataset", c.entries),
        Fact(f"Success rate {_WORDS[way]} {threshold}", c.meeting, note=f"of {among:,} {answered}"),
        Fact("Written", c.written, note=order),
    ]
    if c.without_rate:
        facts.insert(1, Fact("without a rate", c.without_rate, note="no target answered; never chosen", depth=1))
    yield Facts(tuple(facts))
    if not c.written:
        yield Paragraph("No entry was chosen: the file is empty.")


# -- targets ----------------------------------------------------------------------------------------------------


def _label(target: DatasetTarget) -> Label:
    return Label(target.source.label)


def _by_rate(c: DatasetComparison) -> list[DatasetTarget]:
    return sorted(c.targets, key=lambda target: -(target.rate.value or 0.0))


def _targets(c: DatasetComparison) -> Grid:
    return table(
        _by_rate(c),
        text_column("Target", _label),
        number_column("Rate", lambda t: t.rate),
        number_column("Succeeded", lambda t: t.entries.success),
        number_column("Resisted", lambda t: t.entries.failure),
        number_column("Blocked", lambda t: t.entries.guardrail, rank=3),
        number_column("Errors", lambda t: t.entries.error, rank=2),
        number_column("Unjudged", lambda t: t.entries.unjudged, rank=4),
        number_column("Missing", lambda t: t.missing.count, rank=2),
        note=_targets_note(c),
    )


def _targets_note(c: DatasetComparison) -> str:
    if DEFINITIONS[c.definition].no_answer_resists:
        return (
            f"Rates are over all entries of the dataset: by {c.definition}'s rule everything but a success counts as "
            "resisted."
        )
    return (
        "Rates are over the entries that a target answered: succeeded, resisted or blocked. Errors, unjudged and "
        "missing entries are not counted."
    )


def _repeated(c: DatasetComparison) -> Iterator[Fact]:
    if DEFINITIONS[c.definition].matches_by_long_id:
        if c.repeated_long_ids:
            yield Fact("Repeated long ids", c.repeated_long_ids, note="a success of one counts for all of them")
        return
    if c.repeated_ids:
        yield Fact("Repeated ids", c.repeated_ids, note="distinguished by their content")
    if c.repeated_long_ids:
        yield Fact("Repeated long ids", c.repeated_long_ids, note="distinguished by id and content")
    if c.repeated_entries:
        yield Fact("Repeated entries", c.repeated_entries, note="same id and content; they share a rate")


# -- between targets --------------------------------------------------------------------------------------------


def _between_targets(c: DatasetComparison) -> Iterator[Section]:
    left = f"{counted(c.without_rate, 'entry', 'entries')} that no target answered" if c.without_rate else ""
    falls = table(
        c.falls,
        text_column("Succeeds on", lambda f: f"{f.targets} of {len(c.targets)} targets"),
        number_column("All targets answered", lambda f: f.answered_by_all),
        number_column("Only some answered", lambda f: f.answered_by_some),
        note=f"Not in the table: {left}." if left else "",
    )
    yield Section("On how many targets entries succeed", (falls,))
    examples, total = c.everywhere.examples, c.everywhere.count
    everywhere: Block = Paragraph("None.")
    if total:
        all_of = f"{counted(total, 'entry', 'entries')}."
        note = f"The first {len(examples)} of {total:,}." if len(examples) < total else all_of
        places = ((Record(entry.id), Place(entry.where)) for entry in examples)
        everywhere = text_table(("Entry", "Place"), places, note=note)
    yield Section("Entries that succeed on every target", (everywhere,))

    def names_of(target: DatasetTarget) -> tuple[str, ...]:
        return tuple(entry.id for entry in target.alone.examples[:NAMED_IN_A_ROW])

    alone = table(
        c.targets,
        text_column("Target", _label),
        number_column("Entries", lambda target: target.alone.count),
        text_column("The first of them", lambda target: Records(first) if (first := names_of(target)) else "–", rank=1),
        note="Entries answered by at least one other target, and resisted by all others.",
    )
    yield Section("Entries that succeed on one target alone", (alone,))


def _transfer(c: DatasetComparison, *, figures: bool) -> Iterator[Block]:
    """Yield how success transfers: all of it as a map where there is one, else the strongest and the weakest pairs."""
    if figures and len(c.targets) <= LARGEST_MAP:
        order = _by_rate(c)
        names, paths = tuple(map(_label, order)), [target.source.path for target in order]
        rates = {(t.first, t.second): t.rate for t in c.transfer if t.rate.value is not None}
        cells = tuple(tuple(rates.get((first, second)) for second in paths) for first in paths)
        yield HeatMap("How success transfers", "succeeds on", "and then on", names, names, cells)
    labels = {target.source.path: _label(target) for target in c.targets}
    ranked = sorted((t for t in c.transfer if t.rate.value is not None), key=lambda t: -(t.rate.value or 0.0))
    few = len(ranked) <= 2 * PAIRS_SHOWN
    parts = [("", ranked)] if few else [("strongest", ranked[:PAIRS_SHOWN]), ("weakest", ranked[-PAIRS_SHOWN:])]
    note = "Of the entries that succeed on one target and were answered by another: the share that succeeds there too."
    for name, transfers in parts:
        some = f"The {name} {len(transfers)} of {counted(len(c.transfer), 'pair')}; JSON has all." if name else ""
        yield table(
            transfers,
            text_column("From", lambda t: labels[t.first]),
            text_column("To", lambda t: labels[t.second]),
            number_column("Rate", lambda t: t.rate),
            number_column("Entries", lambda t: t.successes, rank=2),
            number_column("of", lambda t: t.rate.n, rank=2),
            note=" ".join(filter(None, (some, note))),
        )
        note = ""
