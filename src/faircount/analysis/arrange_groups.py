"""Groups of entries arranged into sections: a table per field, combinations, and the figures that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount import formats
from faircount.analysis.correction import arranged
from faircount.analysis.slices import stands_out
from faircount.analysis.words import WORDS, Words
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


def breakdowns(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield a section for every field that was asked for, or else for every one that tells groups apart."""
    for field in a.asked or a.breakdowns:
        if field in a.asked or len(a.breakdowns[field]) > 1:
            yield _breakdown(a, field, a.breakdowns[field], figures)
    if figures and a.crossing is not None:
        yield _crossing(a.crossing, WORDS[a.aim].rate)


def _breakdown(a: Analysis, field: str, groups: tuple[Group, ...], figures: bool) -> Section:
    title = FIELD_TITLES.get(field)
    keys = [Record(group.value) for group in groups]
    blocks: list[Block] = [_group_grid(a, "Value", keys, groups, a.slices[field])]
    if figures and len(groups) > 1:
        blocks[:0] = _group_bars(a, title or "value", groups)
    if title is None:
        return Section("Breakdown by", tuple(blocks), subject=Record(field))
    return Section(f"Breakdown by {title}", tuple(blocks))


def _group_grid(a: Analysis, head: str, keys: Sequence[Cell], groups: Sequence[Group], slices: Slices) -> Grid:
    words = WORDS[a.aim]
    shrunk, marked = any(group.shrunk for group in groups), any(map(stands_out, groups))
    corrected = any(group.corrected for group in groups)
    columns = [Column(head, numeric=False), Column("Total"), Column(words.wins), Column(words.rate_column)]
    columns += [Column("Corrected")] if corrected else []
    columns += [Column("Shrunk", rank=2)] if shrunk else []
    columns += [Column("Against the rest", rank=1)] if marked else []
    if a.dynamic is not None:
        columns += [Column("Initial", rank=5), Column("Attack only", rank=4)]
    if a.tally.guardrail:
        columns.append(Column("Guardrail", rank=3))
    columns.append(Column("Attempts", rank=6))
    rows = []
    for key, group in zip(keys[:ROWS_SHOWN], groups, strict=False):
        counts = group.counts
        cells: list[Cell] = [key, counts.tally.total, counts.tally.success, group.rate]
        cells += [arranged.cell(group.corrected)] if corrected else []
        cells += [_bare(group.shrunk)] if shrunk else []
        cells += [_against_rest(group, slices)] if marked else []
        if a.dynamic is not None:
            cells += [counts.initial, counts.attack_only]
        if a.tally.guardrail:
            cells.append(counts.guardrail_any if a.definition == "spikee" else counts.tally.guardrail)
        cells.append(counts.attempts)
        rows.append(tuple(cells))
    small = frozenset(index for index, group in enumerate(groups[:ROWS_SHOWN]) if group.small)
    note = _note(words, slices, groups, marked, len(groups) - len(rows))
    if a.correction is not None and corrected:
        note += f" {arranged.note(a.correction, [group.corrected for group in groups])}"
    return Grid(tuple(columns), tuple(rows), small, note)


def _bare(estimate: Estimate | None) -> Cell:
    """Return a value without its limits: there is room for one interval in a row."""
    if estimate is None:
        return ""
    return Estimate(estimate.value, None, None, estimate.n, estimate.unit, estimate.level, estimate.method)


def _against_rest(group: Group, slices: Slices) -> str:
    """Return by how much a group differs from the rest, if that is beyond chance; its name if it is an extreme."""
    test = group.against_rest
    if not stands_out(group) or test is None or test.difference is None:
        return ""
    name = ", worst" if group == slices.worst else ", best" if group == slices.best else ""
    return f"{formats.signed_points(test.difference)} points{name}"


def _note(words: Words, slices: Slices, groups: Sequence[Group], marked: bool, hidden: int) -> str:
    """Say how the groups were read together, and what is not shown of them."""
    sentences = []
    if groups:
        level = formats.exact_percent(groups[0].rate.level)
        sentences.append(f"{words.rate_column}: share of entries, {level} Wilson.")
    if slices.shrinkage == "shrunk":
        sentences.append("Shrunk: empirical Bayes, beta-binomial.")
    if slices.shrinkage == "pooled":
        sentences.append("Shrunk: the groups differ no more than by chance, so that all have the pooled rate.")
    if slices.untested and len(groups) > 1:
        sentences.append(slices.untested)
    elif len(groups) > 1 and any(group.against_rest for group in groups):
        test = f"Fisher's exact test, Benjamini-Hochberg for {len(groups):,} groups"
        sentences.append(
            f"Against the rest: {test}." if marked else f"None differs from the rest beyond chance ({test})."
        )
    if hidden > 0:
        sentences.append(f"{hidden:,} more groups are in the JSON output.")
    return " ".join(sentences)


def combinations(a: Analysis, found: Combinations) -> Iterator[Section]:
    """Yield the sections of the most and the least successful combinations."""
    if found.count <= 1:
        if found.min_n > 1 and found.count == 0:
            yield Section("Combinations", (Paragraph(f"None has at least {found.min_n} entries (--min-n)."),))
        return
    head = " · ".join(FIELD_TITLES[field] for field in found.fields)
    floor = f" with at least {found.min_n} entries" if found.min_n > 1 else ""
    for title, groups in (("Most successful", found.most), ("Least successful", found.least)):
        keys = [Records(tuple(value for _, value in group.values)) for group in groups]
        grid = _group_grid(a, head.capitalize(), keys, groups, Slices(found.shrinkage))
        shown = f"{title} combinations ({len(groups)} of {found.count:,}{floor})"
        yield Section(shown, (grid,))


def _group_bars(a: Analysis, title: str, groups: Sequence[Group]) -> list[Block]:
    """Return the rates of groups as a figure, and their shrunken rates as another where they were shrunk."""
    shown = groups[:BARS_SHOWN]
    rates = tuple(Bar(Record(group.value), group.rate, group.small) for group in shown)
    figures: list[Block] = [Bars(of_how_many(f"{WORDS[a.aim].rate} by {title}", len(groups), "groups"), rates, a.asr)]
    if any(group.shrunk for group in shown):
        shrunk = tuple(Bar(Record(group.value), group.shrunk, group.small) for group in shown if group.shrunk)
        figures.append(Bars(of_how_many(f"Shrunken rate by {title}", len(groups), "groups"), shrunk, a.asr))
    return figures


def of_how_many(title: str, count: int, things: str) -> str:
    """Return a figure's title, which says so if not all things are drawn."""
    return title if count <= BARS_SHOWN else f"{title} (the first {BARS_SHOWN} of {count:,} {things})"


def _crossing(crossing: Crossing, rate: str) -> Section:
    row_title, column_title = FIELD_TITLES[crossing.row_field], FIELD_TITLES[crossing.column_field]
    title = f"{rate} by {row_title} and {column_title}"
    rows, columns = (tuple(map(Record, values)) for values in (crossing.rows, crossing.columns))
    heat_map = HeatMap(title, row_title, column_title, rows, columns, crossing.cells)
    return Section(f"{row_title} and {column_title} together".capitalize(), (heat_map,))
