"""A report as GitHub-flavoured Markdown, for a pull request or the summary of a CI job.

Text from a record is always in a code span or a fenced block that is longer than any fence inside the text. There
it is literal: no markup, no link, no image, no HTML, and no mention, reference or emoji of the platform that shows it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from faircount.core.model import Estimate, Finding
from faircount.core.text import clip, inert_lines, visible
from faircount.report import blocks, formats

_PLACES_SHOWN = 3
_RECORD_WIDTH = 100
_PLACE_WIDTH = 2000
_LABEL_WIDTH = 32
_BAR_WIDTH = 40
_EMPTY = "(empty)"
_TICKS = re.compile(r"`+")
_SAFE_PUNCTUATION = frozenset(" ,.;()'\"%…–·=?!/+-")
# GitHub makes links of these without any markup: addresses, GH-12, and commits by their first digits.
_LIMIT = re.compile(r"\[[-+]?\d+(\.\d+)?,|[-+]?\d+(\.\d+)?\][;.]?")
"""An end of an interval as in a sentence: no link can begin or end with it."""
_LINKED = re.compile(r"www\.|\bgh-\d|\b[0-9a-f]{7,64}\b", re.IGNORECASE)
_LEGEND = "Bars run from 0 to 100%: █ up to the lower limit of the interval, ▓ to the rate, ░ to the upper limit."


def render(report: blocks.Report) -> str:
    """Return the report as Markdown."""
    parts: list[str] = []
    drawn = False
    for section in report.sections:
        subject = "" if section.subject is None else " " + _cell(section.subject)
        parts.append(f"{'#' * section.level} {prose(section.title)}{subject}")
        for block in section.blocks:
            parts += _block(block)
        if not drawn and any(isinstance(block, blocks.Bars) for block in section.blocks):
            drawn = True
            parts.append(_LEGEND)
    return inert_lines("\n\n".join(parts) + "\n")


# -- text -------------------------------------------------------------------------------------------------------


def code(written: str, width: int = _RECORD_WIDTH) -> str:
    """Return hostile text as a code span that it cannot leave, in a table or out of it."""
    shown = clip(visible(written), width).replace("|", "\\x7c")
    if not shown:
        return _EMPTY
    fence = _fence(shown, shortest=1)
    # A parser takes one space off either end, unless there is nothing but spaces.
    padding = " " if shown.strip(" ") and (shown[0] in "` " or shown[-1] in "` ") else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def _fence(written: str, shortest: int) -> str:
    """Return a fence that is longer than every run of backticks in a text."""
    longest = max((len(run) for run in _TICKS.findall(written)), default=0)
    return "`" * max(longest + 1, shortest)


def prose(written: str) -> str:
    """Return a sentence that may quote a record: every word that could be more than a word becomes a code span."""
    return " ".join(word if _is_plain_word(word) else code(word) for word in visible(written).split(" "))


def _is_plain_word(word: str) -> bool:
    if _LIMIT.fullmatch(word):
        return True
    body = word.removesuffix(":")
    return all(c.isalnum() or c in _SAFE_PUNCTUATION for c in body) and "//" not in body and not _LINKED.search(body)


def fenced(written: str) -> str:
    """Return text of any length and shape as a block; line feeds stay, all else that is hidden is spelled out."""
    lines = [visible(line) for line in written.split("\n")]
    fence = _fence("\n".join(lines), shortest=3)
    return "\n".join([f"{fence}text", *lines, fence])


def _cell(content: blocks.Cell, width: int = _RECORD_WIDTH) -> str:
    if isinstance(content, blocks.Record):
        return formats.MISSING if content.text is None else code(content.text, _PLACE_WIDTH if content.whole else width)
    if isinstance(content, blocks.Label | blocks.Place):
        return code(content.text, _PLACE_WIDTH)
    if isinstance(content, blocks.Interval):
        return code(formats.drawn(content.estimate))
    if isinstance(content, blocks.Records):
        return formats.BETWEEN_RECORDS.join(_cell(blocks.Record(item), width) for item in content.texts)
    if isinstance(content, str):
        return prose(content)
    return formats.cell(content)


# -- blocks -----------------------------------------------------------------------------------------------------


def _block(block: blocks.Block) -> Iterator[str]:
    if isinstance(block, blocks.Findings):
        yield "\n".join(_finding(item) for item in block.items)
    elif isinstance(block, blocks.Facts):
        yield _facts(block.rows)
    elif isinstance(block, blocks.Grid):
        yield from _grid(block)
    elif isinstance(block, blocks.Bars):
        yield from _bars(block)
    elif isinstance(block, blocks.HeatMap):
        yield from _heat_map(block)
    elif isinstance(block, blocks.Curves):
        yield f"**{prose(block.title)}**"
        yield from _grid(formats.curve_points(block))
    elif isinstance(block, blocks.Differences):
        yield from _differences(block)
    elif isinstance(block, blocks.Evidence):
        yield from _evidence(block)
    elif isinstance(block, blocks.Lead):
        yield from map(prose, block.paragraphs)
    elif isinstance(block, blocks.Paragraph):
        yield prose(block.text)


def _finding(item: Finding) -> str:
    line = f"- **{item.severity.value} {item.code}** {prose(item.message)}"
    if not item.where:
        return line
    shown = ", ".join(code(place, _PLACE_WIDTH) for place in item.where[:_PLACES_SHOWN])
    more = ", …" if item.count > _PLACES_SHOWN or len(item.where) > _PLACES_SHOWN else ""
    return f"{line}\n  at {shown}{more}"


def _facts(rows: Sequence[blocks.Fact]) -> str:
    table = [
        (
            "&emsp;" * fact.depth + prose(fact.label),
            "" if fact.value is None else _cell(fact.value),
            "" if fact.rate is None else formats.estimate(fact.rate),
            prose(fact.note),
        )
        for fact in rows
    ]
    numeric = all(not isinstance(fact.value, blocks.Label | blocks.Place | blocks.Record | str) for fact in rows)
    heads = (("", False), ("", numeric), ("Rate", True), ("", False))
    used = [index for index in range(len(heads)) if any(row[index] for row in table)]
    return _table([heads[index] for index in used], [[row[index] for index in used] for row in table])


def _grid(grid: blocks.Grid) -> Iterator[str]:
    heads = [(prose(column.title), column.numeric) for column in grid.columns]
    first_key = next((index for index, column in enumerate(grid.columns) if not column.numeric), 0)
    rows = [
        [
            _cell(content) + (" \\*" if number in grid.marked and index == first_key else "")
            for index, content in enumerate(cells)
        ]
        for number, cells in enumerate(grid.rows)
    ]
    yield _table(heads, rows)
    if grid.marked:
        yield "\\* a small group: read the interval, not the rate"
    if note := " ".join(filter(None, [*(column.note for column in grid.columns), grid.note])):
        yield prose(note)


def _table(heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are already safe; True aligns a column to the right."""
    titles, rule = [head for head, _ in heads], ["---:" if numeric else "---" for _, numeric in heads]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (titles, rule, *rows))


def _bars(figure: blocks.Bars) -> Iterator[str]:
    """Draw bars in a block of fixed width: full to the lower limit, lighter to the rate and to the upper limit."""
    names = formats.column_texts([bar.label for bar in figure.bars], _LABEL_WIDTH)
    labels = [f"{name} *" if bar.small else name for name, bar in zip(names, figure.bars, strict=True)]
    yield _named_with_methods(figure.title, [bar.estimate for bar in figure.bars])
    yield _drawing(labels, [(_bar(bar.estimate), formats.estimate(bar.estimate)) for bar in figure.bars])


def _named_with_methods(title: str, estimates: Sequence[Estimate]) -> str:
    how = formats.methods(estimates)
    return f"**{prose(title)}**" + (f" ({how})" if how else "")


def _drawing(labels: Sequence[str], lines: Sequence[tuple[str, str]]) -> str:
    """Return a block of lines, each with its label, its drawing and its figures."""
    width = max(map(len, labels), default=0)
    return fenced("\n".join(f"{label:<{width}}  {'  '.join(line)}" for label, line in zip(labels, lines, strict=True)))


def _limits(estimate: Estimate, value: float) -> tuple[float, float, float]:
    """Return the lower limit, the value and the upper limit; where there is no interval, all are the value."""
    low = value if estimate.low is None else estimate.low
    return low, value, value if estimate.high is None else estimate.high


def _bar(estimate: Estimate) -> str:
    if estimate.value is None:
        return " " * _BAR_WIDTH
    low, value, high = (round(share * _BAR_WIDTH) for share in _limits(estimate, estimate.value))
    return ("█" * low + "▓" * (value - low) + "░" * (high - value)).ljust(_BAR_WIDTH, "·")


def _differences(figure: blocks.Differences) -> Iterator[str]:
    """Draw differences around 0 in a block of fixed width: ─ for the interval, ● for the value, │ for 0."""
    end = formats.span(item.estimate for item in figure.differences)
    labels = [formats.cell(item.label, _LABEL_WIDTH) + " *" * item.small for item in figure.differences]
    yield _named_with_methods(figure.title, [item.estimate for item in figure.differences])
    scale = f"from {-100 * end:g} points ({prose(figure.lower)}) to {100 * end:g} ({prose(figure.higher)})"
    yield f"Lines run {scale}: ─ is the interval, ● the difference, │ marks 0."
    estimates = [item.estimate for item in figure.differences]
    yield _drawing(labels, [(_around_zero(one, end), formats.difference(one)) for one in estimates])


def _around_zero(estimate: Estimate, end: float) -> str:
    cells = ["·"] * (_BAR_WIDTH + 1)
    cells[_BAR_WIDTH // 2] = "│"
    if estimate.value is None:
        return "".join(cells)
    low, value, high = (
        round((min(max(share / end, -1.0), 1.0) + 1) / 2 * _BAR_WIDTH) for share in _limits(estimate, estimate.value)
    )
    cells[low : high + 1] = ["┼" if cell == "│" else "─" for cell in cells[low : high + 1]]
    cells[value] = "●"
    return "".join(cells)


def _heat_map(figure: blocks.HeatMap) -> Iterator[str]:
    yield f"**{prose(figure.title)}**, with the number of entries"
    corner = f"{prose(figure.row_title)} ↓ {prose(figure.column_title)} →"
    heads = [(corner, False), *((_cell(column), True) for column in figure.columns)]
    rows = [
        [_cell(row), *(_crossed(estimate) for estimate in cells)]
        for row, cells in zip(figure.rows, figure.cells, strict=True)
    ]
    yield _table(heads, rows)


def _crossed(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    value = formats.UNDEFINED if estimate.value is None else formats.percent(estimate.value, 0)
    return f"{value} ({estimate.n:,})"


def _evidence(evidence: blocks.Evidence) -> Iterator[str]:
    yield f"{len(evidence.exhibits):,} of {evidence.total:,} {prose(evidence.name)}."
    for exhibit in evidence.exhibits:
        yield f"<details>\n<summary>{_tagged(exhibit.entry)} ({_tagged(exhibit.place)})</summary>"
        if exhibit.known:
            yield _table([("", False), ("", False)], [[prose(name), _cell(content)] for name, content in exhibit.known])
        for name, passage in exhibit.said:
            yield f"{prose(name[0].upper() + name[1:])}:"
            yield formats.MISSING if passage.text is None else fenced(passage.text)
        yield "</details>"


def _tagged(content: blocks.Subject) -> str:
    """Return hostile text for a line of HTML, where Markdown is not looked at."""
    return f"<code>{html.escape(formats.cell(content, width=_RECORD_WIDTH))}</code>"
