"""Groups of entries arranged into sections: a table per field, combinations, and the figures that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount.analysis.correct import report as correction_report
from faircount.analysis.slices import stands_out
from faircount.analysis.words import WORDS, Words
from faircount.core.findings import counted
from faircount.core.model import Analysis, Combinations, Crossing, Estimate, Group, Slices
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Grid,
    HeatMap,
    Paragraph,
    Record,
    Records,
    Section,
    number_column,
    table,
    text_column,
)

FIELD_TITLES = {
    "jailbreak_type": "jailbreak type",
    "instruction_type": "instruction type",
    "task_type": "task type",
    "position": "position",
    "spotlighting_data_markers": "spotlighting data markers",
    "injection_delimiters": "injection delimiters",
    "lang": "language",
    "suffix_id": "suffix",
    "plugin": "plugin",
    "attack_name": "dynamic attack",
    "document_id": "document",
    "judge_name": "judge",
    "judge_options": "judge options",
    "prefix_id": "prefix",
    "system_message": "system message",
    "input_type": "input type",
    "target": "target",
    "target_options": "target options",
}
ROWS_SHOWN = 40
BARS_SHOWN = 12


def share(count: int, total: int, level: float) -> Estimate:
    """Return a bare share of entries: no interval belongs to a share that only completes the picture."""
    return Estimate(count / total if total else None, None, None, total, "entry", level, "share")


def breakdowns(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield a section for every field that was asked for, or else for every one that says something, unless only the
    judges were asked for.

    A field with one value says nothing, and one that splits the entries just as another does says nothing new.
    """
    for field in a.asked or (() if a.judges else a.breakdowns):
        groups = a.breakdowns[field]
        real = sum(group.value is not None for group in groups)
        if field in a.asked or (real > 1 and a.slices[field].same_as is None):
            yield _breakdown(a, field, groups, figures)
    if figures and a.crossing is not None:
        yield _crossing(a.crossing, WORDS[a.aim].rate)


def _breakdown(a: Analysis, field: str, groups: tuple[Group, ...], figures: bool) -> Section:
    alike = [] if field in a.asked else [other for other, found in a.slices.items() if found.same_as == field]
    titles = [FIELD_TITLES[name] for name in (field, *alike) if name in FIELD_TITLES]
    named = [group for group in groups if group.value is not None] or list(groups)
    blocks: list[Block] = [_group_grid(a, "Value", named, a.slices[field], groups)]
    if figures and len(named) > 1:
        blocks.insert(0, _group_bars(a, " and ".join(titles) or "value", named))
    if field not in FIELD_TITLES:
        return Section("Breakdown by", tuple(blocks), subject=Record(field))
    return Section(f"Breakdown by {' and '.join(titles)}", tuple(blocks))


def _without(groups: Sequence[Group], named: Sequence[Group]) -> str:
    """Say what became of the entries without a value; they are no group like the others."""
    rest = [group for group in groups if group.value is None and group not in named]
    if not rest:
        return ""
    entries = counted(rest[0].tally.total, "entry", "entries")
    return f"Not in the table: {entries} without a value, {formats.estimate(rest[0].rate)}."


def _group_grid(a: Analysis, head: str, groups: Sequence[Group], slices: Slices, tested: Sequence[Group] = ()) -> Grid:
    """Return groups as a table; `tested` are all that were tested together, those without a value among them."""
    words = WORDS[a.aim]
    undecided, blocks, dynamic = a.tally.error + a.tally.unjudged > 0, a.tally.guardrail > 0, a.dynamic is not None
    marked = any(map(stands_out, groups))
    in_families = marked and any(group.against_rest.families for group in groups if group.against_rest)
    corrected, shrunk = any(group.corrected for group in groups), any(group.shrunk for group in groups)
    notes = [*_notes(a, slices, tested, marked, len(groups) - ROWS_SHOWN), _without(tested, groups)]
    if a.correction is not None and corrected:
        notes.append(correction_report.note(a.correction, [group.corrected for group in groups]))

    def share_of(count: int, group: Group) -> Estimate:
        return share(count, group.tally.total, a.level)

    def blocked(group: Group) -> int:
        return group.guardrail_any if a.definition == "spikee" else group.tally.guardrail

    return table(
        groups[:ROWS_SHOWN],
        text_column(head, _key),
        number_column("Total", lambda g: g.tally.total),
        number_column(words.wins, lambda g: g.tally.success),
        number_column(words.rate_column, lambda g: g.rate, note=_rate_note(words, groups)),
        number_column("Corrected", lambda g: correction_report.cell(g.corrected), when=corrected),
        number_column(
            "Not judged",
            lambda g: g.tally.total - g.tally.judged,
            rank=1,
            note="Not judged: errors, blocks and unjudged entries.",
            when=undecided and blocks,
        ),
        number_column(
            "Errors",
            lambda g: g.tally.total - g.tally.judged - g.tally.guardrail,
            rank=5 if blocks else 1,
            note="Errors: unjudged entries among them." if a.tally.unjudged else "",
            when=undecided,
        ),
        number_column(
            "Against the rest", _against_rest, rank=1, note=f"Against the rest: {_test(a, tested)}.", when=marked
        ),
        number_column("Families", _in_families, rank=2, note=_IN_FAMILIES, when=in_families),
        number_column(
            "Shrunk",
            lambda g: "" if g.shrunk is None else formats.rate(g.shrunk),
            rank=2,
            note=_SHRUNK.get(slices.shrinkage, ""),
            when=shrunk,
        ),
        number_column("Initial", lambda g: g.initial, rank=6, when=dynamic),
        number_column(
            "Initial ASR",
            lambda g: share_of(g.initial, g),
            rank=4,
            note="Initial ASR: rate without dynamic attacks.",
            when=dynamic,
        ),
        number_column("Attack only", lambda g: g.attack_only, rank=7, when=dynamic),
        number_column("Guardrail", blocked, rank=5 if undecided else 1, when=blocks),
        number_column(
            "GTR", lambda g: share_of(blocked(g), g), rank=3, note="GTR: guardrail trigger rate.", when=blocks
        ),
        number_column("Attempts", lambda g: g.attempts, rank=8),
        marked=lambda g: g.small,
        note=" ".join(filter(None, notes)),
    )


def _key(group: Group) -> Cell:
    return Records(tuple(group.values.values())) if group.values else Record(group.value)


_IN_FAMILIES = "Families: how many of those that it shares with the rest show the same direction."
_SHRUNK = {
    "shrunk": "Shrunk: empirical Bayes, beta-binomial.",
    "pooled": "Shrunk: the groups differ no more than chance explains, so all get the pooled rate.",
}


def _rate_note(words: Words, groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    return f"{words.rate_column}: share of entries, {formats.exact_percent(groups[0].rate.level)} Wilson."


def _test(a: Analysis, groups: Sequence[Group]) -> str:
    inside = any(group.against_rest.families for group in groups if group.against_rest)
    families = counted(a.families.count or 0, "family", "families")
    test = f"Mantel-Haenszel test inside these {families}" if inside else "Fisher's exact test"
    tested = sum(group.against_rest is not None for found in a.breakdowns.values() for group in found)
    return f"{test}, judged entries, Benjamini-Hochberg for all {tested:,} groups of this report"


def _against_rest(group: Group) -> str:
    """Return by how much a group differs from the rest, if that is beyond chance."""
    test = group.against_rest
    if not stands_out(group) or test is None or test.difference is None:
        return ""
    return f"{formats.signed_points(test.difference)} points"


def _in_families(group: Group) -> str:
    """Return in how many families a group that stands out is on the same side of the rest."""
    test, side = group.against_rest, stands_out(group)
    if not side or test is None:
        return ""
    return f"{test.above if side > 0 else test.below:,} of {test.families:,}"


def _notes(a: Analysis, slices: Slices, groups: Sequence[Group], marked: bool, hidden: int) -> Iterator[str]:
    """Say how the groups were read together, and what is not shown of them."""
    if slices.untested and len(groups) > 1:
        yield slices.untested
    elif len(groups) > 1 and not marked and any(group.against_rest for group in groups):
        yield f"None differs from the rest by more than chance ({_test(a, groups)})."
    if hidden > 0:
        yield f"{hidden:,} more groups in the JSON output."
    if slices.left_out:
        yield f"Not listed: {counted(slices.left_out, 'smaller group')}."


def combinations(a: Analysis, found: Combinations) -> Iterator[Section]:
    """Yield the sections of the most and the least successful combinations."""
    if found.count <= 1:
        if found.min_n > 1 and found.count == 0:
            yield Section("Combinations", (Paragraph(f"No combination has at least {found.min_n} entries (--min-n)."),))
        return
    if len(found.fields) < 2:
        return
    head = " · ".join(FIELD_TITLES[field] for field in found.fields)
    floor = f" with at least {found.min_n} entries" if found.min_n > 1 else ""
    for title, groups in (("Most successful", found.most), ("Least successful", found.least)):
        grid = _group_grid(a, head.capitalize(), groups, Slices(found.shrinkage))
        shown = f"{title} combinations ({len(groups)} of {found.count:,}{floor})"
        yield Section(shown, (grid,))


def _group_bars(a: Analysis, title: str, groups: Sequence[Group]) -> Bars:
    """Return the rates of groups as a figure, with their shrunken rates; groups that stand out are always in it."""
    chosen = sorted(range(len(groups)), key=lambda at: (not stands_out(groups[at]), at))[:BARS_SHOWN]
    shown = [groups[at] for at in sorted(chosen)]
    bars = tuple(Bar(Record(group.value), group.rate, group.small, group.shrunk) for group in shown)
    return Bars(of_how_many(f"{WORDS[a.aim].rate} by {title}", len(groups), "groups"), bars, a.rates.asr)


def of_how_many(title: str, count: int, things: str) -> str:
    """Return a figure's title, which says so if not all things are drawn."""
    return title if count <= BARS_SHOWN else f"{title} ({BARS_SHOWN} of {count:,} {things})"


def _crossing(crossing: Crossing, rate: str) -> Section:
    row_title, column_title = FIELD_TITLES[crossing.row_field], FIELD_TITLES[crossing.column_field]
    title = f"{rate} by {row_title} and {column_title}"
    rows, columns = (tuple(map(Record, values)) for values in (crossing.rows, crossing.columns))
    heat_map = HeatMap(title, row_title, column_title, rows, columns, crossing.cells)
    return Section(f"{row_title} and {column_title} together".capitalize(), (heat_map,))
