"""Cells and figures as text, the same in every presenter; how numbers are written is in `formats`."""

from collections.abc import Iterable, Sequence

from faircount.core.model import Estimate, Passage
from faircount.core.text import clip, clip_apart, clip_middle, visible
from faircount.report import formats
from faircount.report.blocks import (
    CELL_WIDTH,
    Cell,
    Curve,
    Curves,
    Grid,
    Interval,
    Label,
    Place,
    Points,
    Record,
    Records,
    Seconds,
    number_column,
    table,
    text_column,
)

UNKNOWN = "?"
MISSING = "(none)"
BETWEEN_RECORDS = " · "
DRAWN_WIDTH = 20
_POINTS_SHOWN = 9

AXIS_ENDS = (0.05, 0.1, 0.2, 0.4, 1.0)
"""Where a scale of shares may end."""
_ENDS_AROUND_ZERO = (0.05, 0.1, 0.2, 0.4, 0.6, 1.0)


def span(figures: Iterable[Estimate]) -> float:
    """Return where a scale around 0 can end on both sides, for differences and their intervals."""
    reached = [abs(limit) for e in figures for limit in (e.value, e.low, e.high) if limit is not None]
    return next((end for end in _ENDS_AROUND_ZERO if max(reached, default=0.0) <= end * 0.98), 1.0)


def cell(content: Cell, width: int = CELL_WIDTH) -> str:
    """Return the text of a cell; a record's text is made visible and cut to `width`."""
    if content is None:
        return UNKNOWN
    if isinstance(content, Record):
        return MISSING if content.text is None else _record(content, width)
    if isinstance(content, Place | Label):
        return clip_middle(visible(content.text), width)
    if isinstance(content, Interval):
        return drawn(content.estimate)
    if isinstance(content, Records):
        return BETWEEN_RECORDS.join(cell(Record(text), width) for text in content.texts)
    if isinstance(content, Estimate):
        return formats.estimate(content)
    if isinstance(content, Points):
        return formats.difference(content.difference)
    if isinstance(content, Seconds):
        return formats.seconds(content.value)
    if isinstance(content, int):
        return f"{content:,}"
    return content


def column_texts(cells: Sequence[Cell], width: int) -> list[str]:
    """Return the texts of a column's cells, texts of records cut so that those that differ still do."""
    texts = {
        at: visible(content.text)
        for at, content in enumerate(cells)
        if isinstance(content, Record) and content.text is not None and not content.whole
    }
    cut = dict(zip(texts, clip_apart(list(texts.values()), width), strict=True))
    labels = {at: visible(content.text) for at, content in enumerate(cells) if isinstance(content, Label | Place)}
    cut |= zip(labels, clip_apart(list(labels.values()), width, clip_middle), strict=True)
    return [cut[at] if at in cut else cell(content, width) for at, content in enumerate(cells)]


def _record(content: Record, width: int) -> str:
    shown = visible(content.text or "")
    return shown if content.whole else clip(shown, width)


def excerpt(passage: Passage, width: int) -> str:
    """Return the part of a text that matters with what stands around it, in about `width` characters, visible."""
    if passage.text is None:
        return MISSING
    room = max(width - (passage.end - passage.begin), 0)
    begin = max(min(passage.begin - room // 2, len(passage.text) - width), 0)
    end = min(begin + width, len(passage.text))
    before = f"[{begin:,} characters] …" if begin else ""
    after = f"… [{len(passage.text) - end:,} characters]" if end < len(passage.text) else ""
    return f"{before}{visible(passage.text[begin:end])}{after}"


def drawn(figure: Estimate, width: int = DRAWN_WIDTH) -> str:
    """Return a rate and its interval on a scale from 0 to 100%: `···├──●────┤·····`."""
    places = ["·"] * width
    if figure.value is None:
        return "".join(places)

    def place(share: float) -> int:
        return min(round(share * (width - 1)), width - 1)

    if figure.low is not None and figure.high is not None:
        low, high = place(figure.low), place(figure.high)
        places[low : high + 1] = ["─"] * (high + 1 - low)
        places[low], places[high] = "├", "┤"
    places[place(figure.value)] = "●"
    return "".join(places)


def curve_points(figure: Curves) -> Grid:
    """Return a figure of curves as a short table: a few points of each curve, and all that have a name."""
    return table(
        [(curve.label, *point) for curve in figure.curves for point in _some_points(curve)],
        text_column("Curve", lambda row: row[0], when=len(figure.curves) > 1),
        number_column(figure.x_title, lambda row: formats.percent(row[1])),
        number_column(figure.y_title, lambda row: formats.percent(row[2])),
        text_column("", lambda row: row[3]),
    )


def _some_points(curve: Curve) -> list[tuple[float, float, str]]:
    """Return points along a curve in its order; a named point stands where it belongs."""
    places = spread(len(curve.points), _POINTS_SHOWN)
    named = {(mark.x, mark.y) for mark in curve.marks}
    found = [(place, *curve.points[place], "") for place in places if curve.points[place] not in named]
    for mark in curve.marks:
        after = sum(x < mark.x for x, _ in curve.points)
        exact = (mark.x, mark.y) in curve.points
        found.append((curve.points.index((mark.x, mark.y)) if exact else after, mark.x, mark.y, mark.label))
    return [(x, y, name) for _, x, y, name in sorted(found, key=lambda point: point[0])]


def spread(count: int, most: int) -> list[int]:
    """Return at most so many places out of a count, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})
