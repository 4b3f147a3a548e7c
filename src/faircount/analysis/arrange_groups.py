"""Groups of entries arranged into sections: a table per field, combinations, and the figures that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount import formats
from faircount.analysis.correction import arranged
from faircount.analysis.slices import stands_out
from faircount.analysis.words import WORDS, Words
from faircount.findings import counted
from faircount.model import Analysis, Combinations, Crossing, Estimate, Group, Slices
from faircount.report import Bar, Bars, Block, Cell, Column, Grid, HeatMap, Paragraph, Record, Records, Section

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
    keys = [Record(group.value) for group in named]
    blocks: list[Block] = [_group_grid(a, "Value", keys, named, a.slices[field], groups)]
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


def _group_grid(
    a: Analysis,
    head: str,
    keys: Sequence[Cell],
    groups: Sequence[Group],
    slices: Slices,
    tested: Sequence[Group] = (),
) -> Grid:
    """Return groups as a table; `tested` are all that were tested together, those without a value among them."""
    words = WORDS[a.aim]
    shrunk, marked = any(group.shrunk for group in groups), any(map(stands_out, groups))
    corrected = any(group.corrected for group in groups)
    columns = [Column(head, numeric=False), Column("Total"), Column(words.wins)]
    columns.append(Column(words.rate_column, note=_rate_note(words, groups)))
    columns += [Column("Corrected")] if corrected else []
    undecided, blocks = a.tally.error + a.tally.unjudged > 0, a.tally.guardrail > 0
    columns += [Column("Not judged", rank=1, note=_NOT_JUDGED)] if undecided and blocks else []
    errors = Column("Errors", rank=5 if blocks else 1, note=_ERRORS if a.tally.unjudged else "")
    columns += [errors] if undecided else []
    in_families = marked and any(group.against_rest.families for group in groups if group.against_rest)
    columns += [Column("Against the rest", rank=1, note=f"Against the rest: {_test(a, tested)}.")] if marked else []
    columns += [Column("Families", rank=2, note=_IN_FAMILIES)] if in_families else []
    columns += [Column("Shrunk", rank=2, note=_SHRUNK.get(slices.shrinkage, ""))] if shrunk else []
    if a.dynamic is not None:
        columns += [Column("Initial", rank=6), Column("Initial ASR", rank=4, note=_INITIAL_ASR)]
        columns.append(Column("Attack only", rank=7))
    if blocks:
        columns += [Column("Guardrail", rank=5 if undecided else 1), Column("GTR", rank=3, note=_GTR)]
    columns.append(Column("Attempts", rank=8))
    rows = []
    for key, group in zip(keys[:ROWS_SHOWN], groups, strict=False):
        tally = group.tally
        cells: list[Cell] = [key, tally.total, tally.success, group.rate]
        cells += [arranged.cell(group.corrected)] if corrected else []
        cells += [tally.total - tally.judged] if undecided and blocks else []
        cells += [tally.total - tally.judged - tally.guardrail] if undecided else []
        cells += [_against_rest(group)] if marked else []
        cells += [_in_families(group)] if in_families else []
        cells += ["" if group.shrunk is None else formats.rate(group.shrunk)] if shrunk else []
        if a.dynamic is not None:
            cells += [group.initial, share(group.initial, tally.total, a.level), group.attack_only]
        if blocks:
            blocked = group.guardrail_any if a.definition == "spikee" else tally.guardrail
            cells += [blocked, share(blocked, tally.total, a.level)]
        cells.append(group.attempts)
        rows.append(tuple(cells))
    small = frozenset(index for index, group in enumerate(groups[:ROWS_SHOWN]) if group.small)
    notes = [*_notes(a, slices, tested, marked, len(groups) - len(rows)), _without(tested, groups)]
    if a.correction is not None and corrected:
        notes.append(arranged.note(a.correction, [group.corrected for group in groups]))
    return Grid(tuple(columns), tuple(rows), small, " ".join(filter(None, notes)))


_INITIAL_ASR = "Initial ASR: rate without dynamic attacks."
_GTR = "GTR: guardrail trigger rate."
_SHRUNK = {
    "shrunk": "Shrunk: empirical Bayes, beta-binomial.",
    "pooled": "Shrunk: the groups differ no more than chance explains, so all get the pooled rate.",
}


def _rate_note(words: Words, groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    return f"{words.rate_column}: share of entries, {formats.exact_percent(groups[0].rate.level)} Wilson."


_NOT_JUDGED = "Not judged: errors, blocks and unjudged entries."
_ERRORS = "Errors: unjudged entries among them."
_IN_FAMILIES = "Families: how many of those that it shares with the rest show the same direction."


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
        keys = [Records(tuple(group.values.values())) for group in groups]
        grid = _group_grid(a, head.capitalize(), keys, groups, Slices(found.shrinkage))
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
