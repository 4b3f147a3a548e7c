"""A comparison arranged into a report, and the same as the JSON document (`dataset-comparison-2.json`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faircount import formats
from faircount.analysis.dataset_comparison import Comparison, Named, Target
from faircount.analysis.dataset_matching import Unmatched
from faircount.analysis.document import estimate_data
from faircount.findings import counted
from faircount.model import Outcome, Source
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
from faircount.version import __version__

KIND = "dataset-comparison"
SCHEMA = 2

PAIRS_SHOWN = 5
"""So many pairs of targets are shown at either end; all are in the document, and in the figure."""
LARGEST_MAP = 20
NAMED_IN_A_ROW = 5
_WORDS = {"gt": "above", "lt": "below"}
_ORDERS = {"gt": "the highest rates first", "lt": "the lowest rates first"}
_TARGET = Column("Target", numeric=False)


def as_report(c: Comparison, output: str, *, figures: bool = False) -> Report:
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
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, _limits(c)))))
    paths = tuple((_label(target), Record(target.source.path, whole=True)) for target in c.targets)
    sections.append(Section("Sources", (Grid((_TARGET, Column("Path", numeric=False)), paths),)))
    return Report(tuple(sections), document(c, output))


# -- the document -----------------------------------------------------------------------------------------------


def document(c: Comparison, output: str) -> dict[str, Any]:
    """Return the whole answer of `results dataset-comparison` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "definition": c.options.definition,
        "level": c.options.level,
        "dataset": _dataset_data(c),
        "choice": {
            "success_threshold": c.options.success_threshold,
            "success_definition": c.options.success_definition,
            "number": c.options.number if c.options.number > 0 else None,
            "validated": not c.options.skip_validation,
            "meeting": c.meeting,
            "written": len(c.chosen),
            "output": output,
        },
        "targets": [_target_data(target) for target in c.targets],
        "falls": [
            {"targets": f.targets, "answered_by_all": f.answered_by_all, "answered_by_some": f.answered_by_some}
            for f in c.falls
        ],
        "everywhere": _named_data(c.everywhere),
        "alone": [
            {"path": target.source.path, **_named_data(named)} for target, named in zip(c.targets, c.alone, strict=True)
        ],
        "transfer": [
            {
                "from": c.targets[t.first].source.path,
                "to": c.targets[t.second].source.path,
                "successes": t.both,
                "rate": estimate_data(t.rate),
            }
            for t in c.transfers
        ],
        "copies": [{"path": copy, "same_as": original} for copy, original in c.copies],
        "families": c.families,
        "findings": [
            {
                "code": f.code,
                "severity": f.severity.value,
                "count": f.count,
                "message": f.message,
                "where": list(f.where),
            }
            for f in c.findings
        ],
        "limits": list(_limits(c)),
    }


def _dataset_data(c: Comparison) -> dict[str, Any]:
    dataset = c.dataset
    return {
        **_source(dataset.source),
        "entries": len(dataset),
        "without_rate": c.without_rate,
        "repeated_ids": dataset.repeated_ids,
        "repeated_long_ids": dataset.repeated_long_ids,
        "repeated_entries": dataset.repeated_entries,
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "path": source.path,
        "bytes": source.bytes,
        "lines": source.lines,
        "good_lines": source.good_lines,
        "bad_lines": source.bad_lines,
        "blank_lines": source.blank_lines,
    }


def _target_data(target: Target) -> dict[str, Any]:
    return {
        "label": target.source.label,
        **_source(target.source),
        "tool_version": target.source.tool_version,
        "entries": {
            **{outcome.value: target.count(outcome) for outcome in Outcome},
            "missing": target.missing.count,
            "answered": target.answered,
        },
        "rate": estimate_data(target.rate),
        "unmatched": {
            "missing": _unmatched_data(target.missing),
            "not_in_dataset": _unmatched_data(target.not_in_dataset),
            "other_content": _unmatched_data(target.other_content),
            "undecided": _unmatched_data(target.undecided),
        },
    }


def _unmatched_data(unmatched: Unmatched) -> dict[str, Any]:
    return {"count": unmatched.count, "where": list(unmatched.where)}


def _named_data(named: Named) -> dict[str, Any]:
    return {"count": named.count, "examples": [{"id": name, "where": place} for name, place in named.examples]}


# -- what was chosen --------------------------------------------------------------------------------------------


def _choice(c: Comparison) -> Iterator[Block]:
    threshold, way = formats.exact_percent(c.options.success_threshold), c.options.success_definition
    among = len(c.dataset) - c.without_rate
    answered = "counted" if c.options.by_spikee else "that some target answered"
    facts = [
        Fact("Entries of the dataset", len(c.dataset)),
        Fact(f"Success rate {_WORDS[way]} {threshold}", c.meeting, note=f"of {among:,} {answered}"),
        Fact("Written", len(c.chosen), note=_order(c)),
    ]
    if c.without_rate:
        facts.insert(1, Fact("without a rate", c.without_rate, note="no target answered; never chosen", depth=1))
    yield Facts(tuple(facts))
    if not c.chosen:
        yield Paragraph("No entry was chosen: the file is empty.")


def _order(c: Comparison) -> str:
    if c.options.by_spikee:
        return "the highest rates first, ties by long id, as spikee has them"
    return f"{_ORDERS[c.options.success_definition]}, ties in the order of the dataset"


# -- targets ----------------------------------------------------------------------------------------------------


def _label(target: Target) -> Label:
    return Label(target.source.label)


def _by_rate(c: Comparison) -> list[Target]:
    return sorted(c.targets, key=lambda target: -(target.rate.value or 0.0))


def _targets(c: Comparison) -> Grid:
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
    outcomes = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL, Outcome.ERROR, Outcome.UNJUDGED)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (_label(t), t.rate, *(t.count(outcome) for outcome in outcomes), t.missing.count) for t in _by_rate(c)
    )
    return Grid(columns, rows, note=_targets_note(c))


def _copies(c: Comparison) -> Iterator[Block]:
    if c.copies:
        columns = (Column("File", numeric=False), Column("is a copy of", numeric=False))
        rows = tuple((Place(copy), Place(original)) for copy, original in c.copies)
        yield Grid(columns, rows, note="Each counts as a target. Leave out copies.")


def _targets_note(c: Comparison) -> str:
    if c.options.by_spikee:
        return (
            "Rates are over all entries of the dataset: by spikee's rule everything but a success counts as resisted."
        )
    return (
        "Rates are over the entries that a target answered: succeeded, resisted or blocked. Errors, unjudged and "
        "missing entries are not counted."
    )


def _unmatched_rows(c: Comparison) -> Iterator[tuple[Cell, ...]]:
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


def _repeated(c: Comparison) -> Iterator[Fact]:
    dataset = c.dataset
    if c.options.by_spikee:
        if dataset.repeated_long_ids:
            yield Fact("Repeated long ids", dataset.repeated_long_ids, note="a success of one counts for all of them")
        return
    if dataset.repeated_ids:
        yield Fact("Repeated ids", dataset.repeated_ids, note="distinguished by their content")
    if dataset.repeated_long_ids:
        yield Fact("Repeated long ids", dataset.repeated_long_ids, note="distinguished by id and content")
    if dataset.repeated_entries:
        yield Fact("Repeated entries", dataset.repeated_entries, note="same id and content; they share a rate")


# -- between targets --------------------------------------------------------------------------------------------


def _between_targets(c: Comparison, *, figures: bool) -> list[Section]:
    return [
        Section("On how many targets entries succeed", (_falls(c),)),
        Section("Entries that succeed on every target", tuple(_everywhere(c))),
        Section("Entries that succeed on one target alone", (_alone(c),)),
        Section("From target to target", tuple(_transfer(c, figures=figures))),
    ]


def _falls(c: Comparison) -> Grid:
    columns = (Column("Succeeds on", numeric=False), Column("All targets answered"), Column("Only some answered"))
    names = [f"{f.targets} of {len(c.targets)} targets" for f in c.falls]
    rows = tuple((name, f.answered_by_all, f.answered_by_some) for name, f in zip(names, c.falls, strict=True))
    left = f"{counted(c.without_rate, 'entry', 'entries')} that no target answered" if c.without_rate else ""
    return Grid(columns, rows, note=f"Not in the table: {left}." if left else "")


def _everywhere(c: Comparison) -> Iterator[Block]:
    if not c.everywhere.count:
        yield Paragraph("None.")
        return
    columns = (Column("Entry", numeric=False), Column("Place", numeric=False))
    rows = tuple((Record(name), Place(place)) for name, place in c.everywhere.examples)
    yield Grid(columns, rows, note=_shown(len(rows), c.everywhere.count))


def _shown(shown: int, total: int) -> str:
    return f"The first {shown} of {total:,}." if shown < total else f"{counted(total, 'entry', 'entries')}."


def _alone(c: Comparison) -> Grid:
    columns = (_TARGET, Column("Entries"), Column("The first of them", numeric=False, rank=1))
    rows = tuple((_label(target), named.count, _first(named)) for target, named in zip(c.targets, c.alone, strict=True))
    return Grid(columns, rows, note="Entries answered by at least one other target, and resisted by all others.")


def _first(named: Named) -> Cell:
    return Records(tuple(name for name, _ in named.examples[:NAMED_IN_A_ROW])) if named.examples else "–"


def _transfer(c: Comparison, *, figures: bool) -> Iterator[Block]:
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
    ranked = sorted((t for t in c.transfers if t.rate.value is not None), key=lambda t: -(t.rate.value or 0.0))
    few = len(ranked) <= 2 * PAIRS_SHOWN
    parts = [("", ranked)] if few else [("strongest", ranked[:PAIRS_SHOWN]), ("weakest", ranked[-PAIRS_SHOWN:])]
    note = "Of the entries that succeed on one target and were answered by another: the share that succeeds there too."
    for name, transfers in parts:
        rows = tuple(
            (_label(c.targets[t.first]), _label(c.targets[t.second]), t.rate, t.both, t.rate.n) for t in transfers
        )
        some = f"The {name} {len(rows)} of {counted(len(c.transfers), 'pair')}; JSON has all." if name else ""
        yield Grid(columns, rows, note=" ".join(filter(None, (some, note))))
        note = ""


def _map(c: Comparison) -> HeatMap:
    order = sorted(range(len(c.targets)), key=lambda at: -(c.targets[at].rate.value or 0.0))
    names = tuple(_label(c.targets[at]) for at in order)
    rates = {(t.first, t.second): t.rate for t in c.transfers if t.rate.value is not None}
    cells = tuple(tuple(rates.get((first, second)) for second in order) for first in order)
    return HeatMap("How success transfers", "succeeds on", "and then on", names, names, cells)


# -- limits -----------------------------------------------------------------------------------------------------


def _limits(c: Comparison) -> Sequence[str]:
    count = len(c.targets)
    few = (
        f"The rate of an entry is over {counted(count, 'target')} at most, so it takes few values and is not an "
        "estimate: it shows on which of these targets the entry succeeds, not how likely it is to succeed on "
        "another."
    )
    limits = [few]
    if c.options.by_spikee:
        limits.append("A target that failed to answer counts as resisting, which makes rates too low.")
    else:
        limits.append(
            "Entries that only some targets answered are compared with others on fewer targets; the table of targets "
            "shows how many those are."
        )
    limits.append("All numbers are only as good as the judge, and hold for this dataset and these runs.")
    limits.append(_about_intervals(c))
    if count > 1:
        limits.append("Transfer describes these targets; it does not explain why.")
    return limits


def _about_intervals(c: Comparison) -> str:
    if c.families is None:
        return "The intervals treat entries as independent; with variants of one instruction they are too narrow."
    families = counted(c.families, "family", "families")
    return (
        f"Intervals of targets respect {families} of variants, distinguished by document and instruction. Those "
        "from target to target treat entries as independent, and are too narrow where variants behave alike."
    )
