"""The figures of the tool that wrote a file, beside ours (`--definition promptfoo`).

The reader of a format makes them from the records while it reads them; here they are asked for and shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount.core.errors import InputError
from faircount.core.findings import finding
from faircount.core.model import Analysis, Finding, Source, ToolFigure
from faircount.report import formats
from faircount.report.blocks import Block, Paragraph, Records, Section, number_column, table, text_column

_STATED = "Stated: as the file itself has it."


def refuse_others(sources: Sequence[Source], tool: str) -> None:
    """Raise if the figures of a tool are asked for of a file that is another's, or has none."""
    for source in sources:
        if source.tool != tool:
            raise InputError(f"{source.path}: --definition {tool} needs a file of {tool}, and this is {source.reader}")
        if not source.figures:
            raise InputError(f"{source.path}: holds nothing of which {tool} makes a figure")


def findings(tool: str) -> Iterator[Finding]:
    """Yield that figures of another tool are shown."""
    yield finding("F043", 1, f"{tool}'s figures are shown beside ours, as {tool} defines them")


def sections(analysis: Analysis) -> Iterator[Section]:
    """Yield the tool's own figures, and where and why ours differ."""
    for source in analysis.sources:
        if source.figures and analysis.definition == source.tool:
            blocks: list[Block] = [Paragraph(sentence) for sentence in source.differs]
            whose = f"{source.tool}'" if source.tool.endswith("s") else f"{source.tool}'s"
            yield Section(f"{whose} figures", (*blocks, _figures(source.figures)))


def _figures(figures: Sequence[ToolFigure]) -> Block:
    stated = any(one.stated is not None for one in figures)
    return table(
        figures,
        text_column("Figure", lambda one: Records((one.name,))),
        number_column("Value", _value),
        number_column(
            "Count",
            lambda one: "" if one.count is None else one.count,
            when=any(one.count is not None for one in figures),
        ),
        number_column("n", lambda one: "" if one.n is None else one.n, when=any(one.n is not None for one in figures)),
        number_column("Stated", lambda one: "" if one.stated is None else f"{one.stated:.4g}", when=stated),
        text_column("", lambda one: one.note, when=any(one.note for one in figures)),
        note=_STATED if stated else "",
    )


def _value(figure: ToolFigure) -> str | None:
    if figure.value is None:
        return None
    return f"{figure.value:.4g}" if figure.count is None else formats.percent(figure.value)
