"""A comparison of a dataset arranged into a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from faircount.analysis.dataset_comparison import DatasetComparison, SomeEntries, Target
from faircount.analysis.dataset_matching import Unmatched
from faircount.core.findings import counted
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Cell,
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

PAIRS_SHOWN = 5
"""So many pairs of targets are shown at either end; all are in the document, and in the figure."""
LARGEST_MAP = 20
NAMED_IN_A_ROW = 5
_WORDS = {"gt": "above", "lt": "below"}
_ORDERS = {"gt": "the highest rates first", "lt": "the lowest rates first"}


def as_report(c: DatasetComparison, output: str, *, figures: bool = False) -> Report:
    """Arrange a comparison whose chosen entries were written to `output`; `figures` adds the transfer as a map."""
    blocks = (Findings(c.findings),) if c.findings else ()
    sections = [
        Section("Comparison of", blocks, level=1, subject=Place(c.dataset.path)),
        Section("Chosen entries, written to", tuple(_choice(c)), subject=Place(output)),
        Section("Targets", (_targets(c), *_copies(c))),
    ]
    if unmatched := tuple(_unmatched(c)):
        sections.append(Section("What could not be matched", (_unmatched_grid(unmatched),)))
    if repeated := tuple(_repeated(c)):
        sections.append(Section("Identical rows", (Facts(repeated),)))
    if len(c.targets) > 1:
        sections += _between_targets(c, figures=figures)
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, c.limits))))
    paths = ((_label(target), Record(target.source.path, whole=True)) for target in c.targets)
    sections.append(Section("Sources", (text_table(("Target", "Path"), paths),)))
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


def _copies(c: DatasetComparison) -> Iterator[Block]:
    if c.copies:
        copies = ((Place(copy), Place(original)) for copy, original in c.copies.items())
        yield text_table(("File", "is a copy of"), copies, note="Each counts as a target. Leave out copies.")


def _targets_note(c: DatasetComparison) -> str:
    if c.definition == "spikee":
        return (
            "Rates are over all entries of the dataset: by spikee's rule everything but a success counts as resisted."
        )
    return (
        "Rates are over the entries that a target answered: succeeded, resisted or blocked. Errors, unjudged and "
        "missing entries are not counted."
    )


def _unmatched(c: DatasetComparison) -> Iterator[tuple[Target, str, Unmatched]]:
    for target in c.targets:
        kinds = (
            (target.missing, "entries without a result"),
            (target.other_content, "results with an entry's id but other content"),
            (target.undecided, "results whose id is shared by several entries"),
            (target.not_in_dataset, "results without an entry"),
        )
        yield from ((target, what, unmatched) for unmatched, what in kinds if unmatched.count)


def _unmatched_grid(rows: Sequence[tuple[Target, str, Unmatched]]) -> Grid:
    return table(
        rows,
        text_column("Target", lambda row: _label(row[0])),
        text_column("What", lambda row: row[1]),
        number_column("Count", lambda row: row[2].count),
        text_column("First", lambda row: Place(row[2].where[0]), rank=1),
        note="None of these is counted.",
    )


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
        Section("Entries that succeed on every target", (_everywhere(c),)),
        Section("Entries that succeed on one target alone", (_alone(c),)),
        Section("From target to target", tuple(_transfer(c, figures=figures))),
    ]


def _falls(c: DatasetComparison) -> Grid:
    left = f"{counted(c.without_rate, 'entry', 'entries')} that no target answered" if c.without_rate else ""
    return table(
        c.falls,
        text_column("Succeeds on", lambda f: f"{f.targets} of {len(c.targets)} targets"),
        number_column("All targets answered", lambda f: f.answered_by_all),
        number_column("Only some answered", lambda f: f.answered_by_some),
        note=f"Not in the table: {left}." if left else "",
    )


def _everywhere(c: DatasetComparison) -> Block:
    if not c.everywhere.count:
        return Paragraph("None.")
    shown = c.everywhere.examples
    rows = ((Record(entry.id), Place(entry.where)) for entry in shown)
    return text_table(("Entry", "Place"), rows, note=_shown(len(shown), c.everywhere.count))


def _shown(shown: int, total: int) -> str:
    return f"The first {shown} of {total:,}." if shown < total else f"{counted(total, 'entry', 'entries')}."


def _alone(c: DatasetComparison) -> Grid:
    return table(
        c.targets,
        text_column("Target", _label),
        number_column("Entries", lambda target: target.alone.count),
        text_column("The first of them", lambda target: _first(target.alone), rank=1),
        note="Entries answered by at least one other target, and resisted by all others.",
    )


def _first(named: SomeEntries) -> Cell:
    return Records(tuple(entry.id for entry in named.examples[:NAMED_IN_A_ROW])) if named.examples else "–"


def _transfer(c: DatasetComparison, *, figures: bool) -> Iterator[Block]:
    """Yield how success transfers: all of it as a map where there is one, else the strongest and the weakest pairs."""
    if figures and len(c.targets) <= LARGEST_MAP:
        yield _map(c)
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


def _map(c: DatasetComparison) -> HeatMap:
    order = _by_rate(c)
    names = tuple(map(_label, order))
    rates = {(t.first, t.second): t.rate for t in c.transfer if t.rate.value is not None}
    paths = [target.source.path for target in order]
    cells = tuple(tuple(rates.get((first, second)) for second in paths) for first in paths)
    return HeatMap("How success transfers", "succeeds on", "and then on", names, names, cells)
