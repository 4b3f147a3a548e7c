"""A comparison of a dataset arranged into a report."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from faircount import formats
from faircount.analysis.dataset_comparison import DatasetComparison, SomeEntries, Target
from faircount.findings import counted
from faircount.report import (
    Block,
    Cell,
    Column,
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
)

PAIRS_SHOWN = 5
"""So many pairs of targets are shown at either end; all are in the document, and in the figure."""
LARGEST_MAP = 20
NAMED_IN_A_ROW = 5
_WORDS = {"gt": "above", "lt": "below"}
_ORDERS = {"gt": "the highest rates first", "lt": "the lowest rates first"}
_TARGET = Column("Target", numeric=False)


def as_report(c: DatasetComparison, output: str, *, figures: bool = False) -> Report:
    """Arrange a comparison whose chosen entries were written to `output`; `figures` adds the transfer as a map."""
    blocks = (Findings(c.findings),) if c.findings else ()
    sections = [
        Section("Comparison of", blocks, level=1, subject=Place(c.dataset.path)),
        Section("Chosen entries, written to", tuple(_choice(c)), subject=Place(output)),
        Section("Targets", (_targets(c), *_copies(c))),
    ]
    if unmatched := tuple(_unmatched_rows(c)):
        sections.append(Section("What could not be matched", (_unmatched(unmatched),)))
    if repeated := tuple(_repeated(c)):
        sections.append(Section("Identical rows", (Facts(repeated),)))
    if len(c.targets) > 1:
        sections += _between_targets(c, figures=figures)
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, c.limits))))
    paths = tuple((_label(target), Record(target.source.path, whole=True)) for target in c.targets)
    sections.append(Section("Sources", (Grid((_TARGET, Column("Path", numeric=False)), paths),)))
    return Report(tuple(sections), replace(c, output=output))


# -- what was chosen --------------------------------------------------------------------------------------------


def _choice(c: DatasetComparison) -> Iterator[Block]:
    threshold, way = formats.exact_percent(c.success_threshold), c.success_definition
    among = c.entries - c.without_rate
    answered = "counted" if c.definition == "spikee" else "that some target answered"
    facts = [
        Fact("Entries of the dataset", c.entries),
        Fact(f"Success rate {_WORDS[way]} {threshold}", c.meeting, note=f"of {among:,} {answered}"),
        Fact("Written", c.written, note=_order(c)),
    ]
    if c.without_rate:
        facts.insert(1, Fact("without a rate", c.without_rate, note="no target answered; never chosen", depth=1))
    yield Facts(tuple(facts))
    if not c.written:
        yield Paragraph("No entry was chosen: the file is empty.")


def _order(c: DatasetComparison) -> str:
    if c.definition == "spikee":
        return "the highest rates first, ties by long id, as spikee has them"
    return f"{_ORDERS[c.success_definition]}, ties in the order of the dataset"


# -- targets ----------------------------------------------------------------------------------------------------


def _label(target: Target) -> Label:
    return Label(target.source.label)


def _by_rate(c: DatasetComparison) -> list[Target]:
    return sorted(c.targets, key=lambda target: -(target.rate.value or 0.0))


def _targets(c: DatasetComparison) -> Grid:
    columns = (
        _TARGET,
        Column("Rate"),
        Column("Succeeded"),
        Column("Resisted"),
        Column("Blocked", rank=3),
        Column("Errors", rank=2),
        Column("Unjudged", rank=4),
        Column("Missing", rank=2),
    )
    rows: list[tuple[Cell, ...]] = []
    for t in _by_rate(c):
        e = t.entries
        rows.append((_label(t), t.rate, e.success, e.failure, e.guardrail, e.error, e.unjudged, t.missing.count))
    return Grid(columns, tuple(rows), note=_targets_note(c))


def _copies(c: DatasetComparison) -> Iterator[Block]:
    if c.copies:
        columns = (Column("File", numeric=False), Column("is a copy of", numeric=False))
        rows = tuple((Place(copy), Place(original)) for copy, original in c.copies.items())
        yield Grid(columns, rows, note="Each counts as a target. Leave out copies.")


def _targets_note(c: DatasetComparison) -> str:
    if c.definition == "spikee":
        return (
            "Rates are over all entries of the dataset: by spikee's rule everything but a success counts as resisted."
        )
    return (
        "Rates are over the entries that a target answered: succeeded, resisted or blocked. Errors, unjudged and "
        "missing entries are not counted."
    )


def _unmatched_rows(c: DatasetComparison) -> Iterator[tuple[Cell, ...]]:
    for target in c.targets:
        kinds = (
            (target.missing, "entries without a result"),
            (target.other_content, "results with an entry's id but other content"),
            (target.undecided, "results whose id is shared by several entries"),
            (target.not_in_dataset, "results without an entry"),
        )
        for unmatched, what in kinds:
            if unmatched.count:
                yield _label(target), what, unmatched.count, Place(unmatched.where[0])


def _unmatched(rows: tuple[tuple[Cell, ...], ...]) -> Grid:
    columns = (_TARGET, Column("What", numeric=False), Column("Count"), Column("First", numeric=False, rank=1))
    return Grid(columns, rows, note="None of these is counted.")


def _repeated(c: DatasetComparison) -> Iterator[Fact]:
    if c.definition == "spikee":
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


def _between_targets(c: DatasetComparison, *, figures: bool) -> list[Section]:
    return [
        Section("On how many targets entries succeed", (_falls(c),)),
        Section("Entries that succeed on every target", tuple(_everywhere(c))),
        Section("Entries that succeed on one target alone", (_alone(c),)),
        Section("From target to target", tuple(_transfer(c, figures=figures))),
    ]


def _falls(c: DatasetComparison) -> Grid:
    columns = (Column("Succeeds on", numeric=False), Column("All targets answered"), Column("Only some answered"))
    names = [f"{f.targets} of {len(c.targets)} targets" for f in c.falls]
    rows = tuple((name, f.answered_by_all, f.answered_by_some) for name, f in zip(names, c.falls, strict=True))
    left = f"{counted(c.without_rate, 'entry', 'entries')} that no target answered" if c.without_rate else ""
    return Grid(columns, rows, note=f"Not in the table: {left}." if left else "")


def _everywhere(c: DatasetComparison) -> Iterator[Block]:
    if not c.everywhere.count:
        yield Paragraph("None.")
        return
    columns = (Column("Entry", numeric=False), Column("Place", numeric=False))
    rows = tuple((Record(entry.id), Place(entry.where)) for entry in c.everywhere.examples)
    yield Grid(columns, rows, note=_shown(len(rows), c.everywhere.count))


def _shown(shown: int, total: int) -> str:
    return f"The first {shown} of {total:,}." if shown < total else f"{counted(total, 'entry', 'entries')}."


def _alone(c: DatasetComparison) -> Grid:
    columns = (_TARGET, Column("Entries"), Column("The first of them", numeric=False, rank=1))
    rows = tuple((_label(target), target.alone.count, _first(target.alone)) for target in c.targets)
    return Grid(columns, rows, note="Entries answered by at least one other target, and resisted by all others.")


def _first(named: SomeEntries) -> Cell:
    return Records(tuple(entry.id for entry in named.examples[:NAMED_IN_A_ROW])) if named.examples else "–"


def _transfer(c: DatasetComparison, *, figures: bool) -> Iterator[Block]:
    """Yield how success transfers: all of it as a map where there is one, else the strongest and the weakest pairs."""
    if figures and len(c.targets) <= LARGEST_MAP:
        yield _map(c)
    columns = (
        Column("From", numeric=False),
        Column("To", numeric=False),
        Column("Rate"),
        Column("Entries", rank=2),
        Column("of", rank=2),
    )
    labels = {target.source.path: _label(target) for target in c.targets}
    ranked = sorted((t for t in c.transfer if t.rate.value is not None), key=lambda t: -(t.rate.value or 0.0))
    few = len(ranked) <= 2 * PAIRS_SHOWN
    parts = [("", ranked)] if few else [("strongest", ranked[:PAIRS_SHOWN]), ("weakest", ranked[-PAIRS_SHOWN:])]
    note = "Of the entries that succeed on one target and were answered by another: the share that succeeds there too."
    for name, transfers in parts:
        rows = tuple((labels[t.first], labels[t.second], t.rate, t.successes, t.rate.n) for t in transfers)
        some = f"The {name} {len(rows)} of {counted(len(c.transfer), 'pair')}; JSON has all." if name else ""
        yield Grid(columns, rows, note=" ".join(filter(None, (some, note))))
        note = ""


def _map(c: DatasetComparison) -> HeatMap:
    order = _by_rate(c)
    names = tuple(map(_label, order))
    rates = {(t.first, t.second): t.rate for t in c.transfer if t.rate.value is not None}
    paths = [target.source.path for target in order]
    cells = tuple(tuple(rates.get((first, second)) for second in paths) for first in paths)
    return HeatMap("How success transfers", "succeeds on", "and then on", names, names, cells)
