"""Figures of a report as SVG text: bars and differences with their intervals, heat maps, and curves.

The one place where Faircount draws. Each function is pure: a block of a report in, one `<svg>` element out, the same
for a page, a file, a notebook or a document. An SVG stands alone (every colour has a fallback), follows the page that
it is put into (custom properties `--fc-…`), needs no style element and no id, and says everything in words as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from faircount.core.model import Estimate
from faircount.core.text import clip
from faircount.report import formats
from faircount.report.blocks import Bar, Bars, Cell, Curve, Curves, Difference, Differences, HeatMap, Mark
from faircount.report.markup import Attribute, Child, Markup, tag, together

# --- what all figures share -----------------------------------------------------------------------------------------

INK = "var(--fc-ink, currentColor)"
MUTED = "var(--fc-muted, currentColor)"
TRACK = "var(--fc-track, rgba(128, 128, 128, 0.2))"
BAR = "var(--fc-bar, #4f8fcb)"
OVERALL = "var(--fc-overall, #c8601f)"
PAPER = "var(--fc-paper, #ffffff)"
FONT = "var(--fc-font, system-ui, sans-serif)"

FULL_TEXT = 1000
"""Characters of a label that its tooltip and the description show."""

_ZOOM_MARGIN = 0.98


def _svg(title: str, description: str, *children: Child, **attributes: Attribute) -> str:
    """Return an accessible `<svg>`: named by its title, and told in full by its description."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        font_family=FONT,
        font_size=13,
        fill=INK,
        **attributes,
    ).text


def _axis_end(estimates: Sequence[Estimate]) -> float:
    """Return where a scale that starts at 0 can end: 100%, or earlier where all values and intervals are small."""
    tops = [top for e in estimates for top in (e.value, e.high) if top is not None]
    highest = max(tops, default=1.0)
    return next((end for end in formats.AXIS_ENDS if highest <= end * _ZOOM_MARGIN), 1.0)


def _zoom_note(end: float) -> str:
    return "" if end >= 1 else f"The scale ends at {formats.exact_percent(end)}, not at 100%."


def _count(estimate: Estimate) -> str:
    """Return the number that a rate is about; a rate that somebody published without it has none."""
    return "n unknown" if estimate.value is not None and not estimate.n else f"n = {estimate.n:,}"


def _clipped(text: str, cells: int) -> str:
    """Shorten a text to a number of cells; letters of East Asian scripts take two."""
    widths = [2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text]
    if sum(widths) <= cells:
        return text
    kept = taken = 0
    while taken + widths[kept] < cells:
        taken += widths[kept]
        kept += 1
    return clip(text, kept + 1)


def _full(label: Cell) -> str:
    return formats.cell(label, width=FULL_TEXT)


def _short(labels: Sequence[Cell], cells: int) -> list[str]:
    """Return labels shortened to a number of cells, so that those that differ still do."""
    cut = formats.column_texts(labels, cells)
    return [_clipped(text, cells) for text in cut]


# --- bars -----------------------------------------------------------------------------------------------------------

_ROW = 44
_LABEL_BASELINE = 14
_BAR_TOP, _BAR_HEIGHT = 21, 12
_MIDDLE = _BAR_TOP + _BAR_HEIGHT / 2
_LEGEND_LINE = 20
_AXIS_HEIGHT = 24
_SHORT_LABEL, _LONG_LABEL = 18, 44
_HOLLOW: dict[str, Attribute] = {
    "fill": BAR,
    "fill_opacity": 0.25,
    "stroke": BAR,
    "stroke_width": 1.5,
    "stroke_dasharray": "4 3",
}
_SMALL = "small group: read the interval, not the rate"


def bars_svg(bars: Bars) -> str:
    """Return rates as horizontal bars, with intervals as whiskers and a line at the rate over all entries.

    Lengths are shares of the width and text has a fixed size, so that the figure can be as narrow as a telephone
    or as wide as a sheet. Each label stands above its bar, its figures at the right.
    """
    end = _axis_end([bar.estimate for bar in bars.bars] + ([bars.overall] if bars.overall else []))
    rows = [_bar(bar, label, bars.overall, end) for bar, label in zip(bars.bars, _bar_labels(bars.bars), strict=True)]
    above, bottom = _stacked(list(_bars_legend(bars)), rows)
    note = _zoom_note(end)
    return _svg(
        bars.title,
        _bars_description(bars, note),
        *above,
        _moved(0, bottom, _axis([formats.exact_percent(end * step / 4) for step in range(5)])),
        tag("text", note, x=0, y=bottom + _AXIS_HEIGHT + 14, font_size=12, fill=MUTED) if note else None,
        class_="fc-bars",
        width="100%",
        height=bottom + _AXIS_HEIGHT + (20 if note else 0),
        overflow="visible",
    )


def _stacked(legend: Sequence[Markup], rows: Sequence[Markup]) -> tuple[list[Markup], int]:
    """Return the lines of a legend and the rows of a figure one under the other, and where they end."""
    top = _LEGEND_LINE * len(legend) + (6 if legend else 0)
    lines = [_moved(0, _LEGEND_LINE * at, item) for at, item in enumerate(legend)]
    return lines + [_moved(0, top + _ROW * at, row) for at, row in enumerate(rows)], top + _ROW * len(rows)


def _moved(x: int, y: int, content: Markup) -> Markup:
    return tag("g", content, transform=f"translate({x} {y})")


def along(share: float, end: float = 1.0) -> str:
    """Return a place on the scale as a share of the width, kept inside the figure."""
    return f"{100 * min(max(share / end, 0.0), 1.0):.2f}%"


def _row(label: Markup, figures: str, *drawn: Markup | None) -> Markup:
    """Return a row of a figure: its label, its figures, and the track with what is drawn on it."""
    return together(
        label,
        tag("text", figures, class_="fc-figures", x="100%", y=_LABEL_BASELINE, text_anchor="end", font_size=11),
        tag("rect", x=0, y=_BAR_TOP, width="100%", height=_BAR_HEIGHT, rx=2, fill=TRACK),
        *drawn,
    )


def _upright(x: str, width: float) -> Markup:
    """Return the part of a line through all rows that crosses one of them; the gaps keep the labels readable."""
    return tag("line", x1=x, x2=x, y1=_BAR_TOP - 4, y2=_BAR_TOP + _BAR_HEIGHT + 6, stroke=OVERALL, stroke_width=width)


def _bar(bar: Bar, label: Markup, overall: Estimate | None, end: float) -> Markup:
    """Return the row of a bar; that of a small group is hollow and dashed, a diamond is at the shrunken rate."""
    estimate, body, crossing, shrunk = bar.estimate, None, None, None
    if estimate.value is not None:
        look: dict[str, Attribute] = _HOLLOW if bar.small else {"fill": BAR}
        body = tag("rect", x=0, y=_BAR_TOP, width=along(estimate.value, end), height=_BAR_HEIGHT, rx=2, **look)
    if overall is not None and overall.value is not None:
        crossing = _upright(along(overall.value, end), 2.5)
    if bar.shrunk is not None and bar.shrunk.value is not None:
        # A place that is a share of the width cannot stand in a path, so an inner drawing carries the shape there.
        shrunk = tag("svg", _diamond(0, 0), x=along(bar.shrunk.value, end), y=_MIDDLE, overflow="visible")
    whisker = _interval(estimate, lambda share: along(share, end), _MIDDLE)
    return _row(label, f"{formats.estimate(estimate)} · {_count(estimate)}", body, crossing, whisker, shrunk)


def _bar_labels(bars: Sequence[Bar | Difference]) -> list[Markup]:
    """Return each label cut for a narrow figure and, hidden unless a wide page shows it, the longer one."""
    stars = [" *" if bar.small else "" for bar in bars]
    labels = [bar.label for bar in bars]
    short, long = (_short(labels, cells - max(map(len, stars), default=0)) for cells in (_SHORT_LABEL, _LONG_LABEL))
    return [
        together(
            *(
                tag(
                    "text",
                    together(tag("title", _full(label)), shown + star),
                    class_=name,
                    y=_LABEL_BASELINE,
                    font_size=size,
                    font_weight=600,
                    display=display,
                )
                for name, shown, size, display in (("fc-short", narrow, 12, None), ("fc-long", wide, 13, "none"))
            )
        )
        for label, narrow, wide, star in zip(labels, short, long, stars, strict=True)
    ]


def _diamond(x: float, y: float) -> Markup:
    size = 5
    corners = f"M{x:g} {y - size:g} L{x + size:g} {y:g} L{x:g} {y + size:g} L{x - size:g} {y:g} Z"
    return tag("path", d=corners, fill=PAPER, stroke=INK, stroke_width=1.5)


def interval_svg(estimate: Estimate) -> str:
    """Return a rate with its interval on a scale from 0 to 100%, small enough for a cell of a table."""
    height, middle = 14, 7
    value = None if estimate.value is None else along(estimate.value, 1.0)
    dot = None if value is None else tag("circle", cx=value, cy=middle, r=3.5, fill=BAR, stroke=INK, stroke_width=1)
    return _svg(
        "Interval",
        f"{_in_words(estimate)}.",
        tag("rect", x=0, y=middle - 3, width="100%", height=6, rx=2, fill=TRACK),
        _interval(estimate, lambda share: along(share, 1.0), middle),
        dot,
        class_="fc-interval",
        width="100%",
        height=height,
        overflow="visible",
    )


def difference_svg(estimate: Estimate, end: float, *, stands_out: bool = False) -> str:
    """Return a difference with its interval on a scale around 0, small enough for a cell of a table."""
    height, middle = 14, 7

    def place(share: float) -> str:
        return along(share / end + 1, 2)

    dot = None
    if estimate.value is not None:
        fill = BAR if stands_out else TRACK
        dot = tag("circle", cx=place(estimate.value), cy=middle, r=3.5, fill=fill, stroke=INK, stroke_width=1)
    return _svg(
        "Difference",
        f"{formats.difference(estimate)} points, {_count(estimate)}{', beyond chance' * stands_out}.",
        tag("rect", x=0, y=middle - 3, width="100%", height=6, rx=2, fill=TRACK),
        tag("line", x1="50%", x2="50%", y1=0, y2=height, stroke=OVERALL, stroke_width=1.5),
        _interval(estimate, place, middle),
        dot,
        class_="fc-interval",
        width="100%",
        height=height,
        overflow="visible",
    )


def _interval(estimate: Estimate, place: Callable[[float], str], y: float) -> Markup | None:
    if estimate.low is None or estimate.high is None:
        return None
    return _whisker(place(estimate.low), place(estimate.high), y)


def _whisker(low: str | int, high: str | int, y: float) -> Markup:
    ends = [tag("line", x1=x, x2=x, y1=y - 4, y2=y + 4) for x in (low, high)]
    return tag("g", tag("line", x1=low, x2=high, y1=y, y2=y), *ends, stroke=INK, stroke_width=1.5)


def _axis(labels: Sequence[str]) -> Markup:
    """Return an axis with labels at the quarters of its length."""
    marks = []
    for label, x, anchor in zip(labels, range(0, 101, 25), ("start", *["middle"] * 3, "end"), strict=True):
        marks.append(tag("line", x1=f"{x}%", x2=f"{x}%", y1=-6, y2=0, stroke=MUTED, stroke_width=1))
        marks.append(tag("text", label, x=f"{x}%", y=14, text_anchor=anchor, font_size=11))
    return tag("g", tag("line", x1=0, x2="100%", y1=-6, y2=-6, stroke=MUTED, stroke_width=1), *marks, fill=MUTED)


def _bars_legend(bars: Bars) -> Iterator[Markup]:
    if bars.overall is not None:
        mark = tag("line", x1=8, x2=8, y1=0, y2=15, stroke=OVERALL, stroke_width=2.5)
        yield _legend(mark, f"overall {formats.estimate(bars.overall)} · {_count(bars.overall)}")
    if how := formats.methods(bar.estimate for bar in bars.bars):
        yield _legend(_whisker(1, 15, 8), how)
    if any(bar.shrunk for bar in bars.bars):
        yield _legend(_diamond(8, 8), "shrunken rate: pulled towards the overall rate as far as chance may explain")
    if any(bar.small for bar in bars.bars):
        yield _legend(tag("rect", x=1, y=3, width=14, height=10, rx=2, **_HOLLOW), f"* {_SMALL}")


def _legend(mark: Markup, words: str) -> Markup:
    return together(mark, tag("text", words, x=22, y=12, font_size=12, fill=MUTED))


def _bars_description(bars: Bars, note: str) -> str:
    lines = []
    for bar in bars.bars:
        shrunk = "" if bar.shrunk is None else f", shrunken {formats.rate(bar.shrunk)}"
        lines.append(f"{_full(bar.label)}: {_in_words(bar.estimate)}{shrunk}{', a small group' * bar.small}.")
    if bars.overall is not None:
        lines.append(f"Overall: {_in_words(bars.overall)}.")
    return " ".join([*lines, note] if note else lines)


def _in_words(estimate: Estimate) -> str:
    return f"{formats.estimate(estimate)}, {_count(estimate)}"


# --- differences ----------------------------------------------------------------------------------------------------

_POINT = 5
_STANDS_OUT = "significant difference, after adjustment; others are hollow"


def differences_svg(figure: Differences) -> str:
    """Return differences as points with their intervals around a line at 0; what stands out is filled.

    Places are shares of the width, as those of bars are.
    """
    end = formats.span(item.estimate for item in figure.differences)
    rows = [
        _difference(item, label, end)
        for item, label in zip(figure.differences, _bar_labels(figure.differences), strict=True)
    ]
    above, bottom = _stacked(list(_differences_legend(figure)), rows)
    ticks = [100 * end * (step - 2) / 2 for step in range(5)]
    ends = tag(
        "g",
        tag("text", f"← {figure.lower}", x=0, y=12),
        tag("text", "points", x="50%", y=12, text_anchor="middle"),
        tag("text", f"{figure.higher} →", x="100%", y=12, text_anchor="end"),
        font_size=12,
        fill=MUTED,
    )
    return _svg(
        figure.title,
        _differences_description(figure),
        *above,
        _moved(0, bottom, _axis([f"{tick:+g}" if tick else "0" for tick in ticks])),
        _moved(0, bottom + _AXIS_HEIGHT, ends),
        class_="fc-bars fc-differences",
        width="100%",
        height=bottom + _AXIS_HEIGHT + 20,
        overflow="visible",
    )


def _difference(item: Difference, label: Markup, end: float) -> Markup:
    def place(share: float) -> str:
        """Return a place on a scale around 0."""
        return along(share / end + 1, 2)

    estimate, point = item.estimate, None
    if estimate.value is not None:
        fill = BAR if item.stands_out else TRACK
        point = tag("circle", cx=place(estimate.value), cy=_MIDDLE, r=_POINT, fill=fill, stroke=BAR, stroke_width=2)
    words = f"{formats.difference(estimate)} · {_count(estimate)}"
    return _row(label, words, _upright("50%", 2), _interval(estimate, place, _MIDDLE), point)


def _differences_legend(figure: Differences) -> Iterator[Markup]:
    if how := formats.methods(item.estimate for item in figure.differences):
        yield _legend(_whisker(1, 15, 8), how)
    if any(item.stands_out for item in figure.differences):
        yield _legend(tag("circle", cx=8, cy=8, r=_POINT, fill=BAR, stroke=BAR, stroke_width=2), _STANDS_OUT)
    if any(item.small for item in figure.differences):
        words = "* small group: read the interval, not the difference"
        yield tag("text", words, x=22, y=12, font_size=12, fill=MUTED)


def _differences_description(figure: Differences) -> str:
    lines = [
        f"{_full(item.label)}: {formats.difference(item.estimate)} points, {_count(item.estimate)}"
        f"{', stands out' * item.stands_out}{', a small group' * item.small}."
        for item in figure.differences
    ]
    return " ".join([f"Below 0: {figure.lower}. Above 0: {figure.higher}.", *lines])


# --- heat map -------------------------------------------------------------------------------------------------------

HEAT_STEPS = (
    "#f4f9fe", "#e1edf8", "#cde0f1", "#b3d2e9", "#92c2df", "#6fafd6", "#569fce", "#2a72ae", "#17599b", "#0a3f7d"
)  # fmt: skip
"""One hue from light to dark, for all kinds of colour vision; the page has its own steps for dark surroundings."""

_DARK_INK, _LIGHT_INK = "#0b1f33", "#ffffff"
_CELL_WIDTH, _CELL_HEIGHT, _GAP = 84, 46, 2
_ROW_LABEL, _COLUMN_LABEL = 20, 11
_LETTER = 8.4
_HEAD_HEIGHT = 56
_LEGEND_HEIGHT = 64
_NARROWEST_MAP = 330
_EMPTY = "no entries"
_PALE = 0.25


def heat_map_svg(heat_map: HeatMap) -> str:
    """Return the rates of two crossed facets as a table of coloured cells, each with its rate and n as text."""
    estimates = [cell for row in heat_map.cells for cell in row if cell is not None]
    end = _axis_end(estimates)
    pale = any(estimate.n < heat_map.few for estimate in estimates)
    shown = _short(heat_map.rows, _ROW_LABEL)
    longest = max([len(heat_map.row_title) + 2, *map(len, shown)])
    left = round(max(longest * _LETTER, 60)) + 10
    width = max(left + len(heat_map.columns) * (_CELL_WIDTH + _GAP), _NARROWEST_MAP)
    bottom = _HEAD_HEIGHT + len(heat_map.rows) * (_CELL_HEIGHT + _GAP)
    height = bottom + _LEGEND_HEIGHT + (16 if end < 1 else 0)
    return _svg(
        heat_map.title,
        _heat_map_description(heat_map, _zoom_note(end)),
        tag(
            "g",
            tag("text", f"{heat_map.column_title} →", x=left, y=12),
            tag("text", f"{heat_map.row_title} ↓", x=0, y=_HEAD_HEIGHT - 8),
            font_size=12,
            fill=MUTED,
        ),
        *[_column_label(_full(label), _column_x(left, at)) for at, label in enumerate(heat_map.columns)],
        *[
            _row_label(_full(label), short, left, _row_y(at))
            for at, (label, short) in enumerate(zip(heat_map.rows, shown, strict=True))
        ],
        *_cells(heat_map, left, end),
        _moved(0, bottom + 16, _heat_legend(end, f"; pale: fewer than {heat_map.few}" if pale else "")),
        class_="fc-heat-map",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )


def _column_x(left: int, at: int) -> int:
    return left + at * (_CELL_WIDTH + _GAP)


def _row_y(at: int) -> int:
    return _HEAD_HEIGHT + at * (_CELL_HEIGHT + _GAP)


def _column_label(label: str, x: int) -> Markup:
    """Return a label of two short lines, so that no column needs to be turned to be read."""
    first, second = _two_lines(label)
    middle = x + _CELL_WIDTH / 2
    return tag(
        "text",
        tag("title", label),
        tag("tspan", first, x=middle, y=_HEAD_HEIGHT - 22 if second else _HEAD_HEIGHT - 8),
        tag("tspan", second, x=middle, y=_HEAD_HEIGHT - 8),
        text_anchor="middle",
        font_size=11,
        font_weight=600,
    )


def _two_lines(label: str) -> tuple[str, str]:
    """Break a label after a space, hyphen or the like where one is near, else where the line is full."""
    if len(_clipped(label, _COLUMN_LABEL)) == len(label) and not label.endswith("…"):
        return label, ""
    breaks = [m.end() for m in re.finditer(r"[\s_\-/.:·]", label[:_COLUMN_LABEL])]
    at = breaks[-1] if breaks else len(_clipped(label, _COLUMN_LABEL)) - 1
    return label[:at].rstrip(), _clipped(label[at:].lstrip(), _COLUMN_LABEL)


def _row_label(label: str, short: str, left: int, y: int) -> Markup:
    content = together(tag("title", label), short)
    middle = y + _CELL_HEIGHT / 2 + 4
    return tag("text", content, x=left - 10, y=middle, text_anchor="end", font_size=12, font_weight=600)


def _cells(heat_map: HeatMap, left: int, end: float) -> Iterator[Markup]:
    for down, (row, estimates) in enumerate(zip(heat_map.rows, heat_map.cells, strict=True)):
        for across, (column, estimate) in enumerate(zip(heat_map.columns, estimates, strict=True)):
            name = f"{_full(row)} × {_full(column)}: {_EMPTY if estimate is None else _in_words(estimate)}"
            content = _empty_cell(_EMPTY) if estimate is None else _cell(estimate, end, heat_map.few)
            yield _moved(_column_x(left, across), _row_y(down), together(tag("title", name), content))


def _empty_cell(word: str) -> Markup:
    """Return a cell without a colour: it is outside the scale, not at its lower end."""
    outline: dict[str, Attribute] = {"fill": "none", "stroke": MUTED, "stroke_opacity": 0.6, "stroke_dasharray": "3 3"}
    return together(
        tag("rect", x=0.5, y=0.5, width=_CELL_WIDTH - 1, height=_CELL_HEIGHT - 1, rx=3, **outline),
        tag("text", word, x=_CELL_WIDTH / 2, y=_CELL_HEIGHT / 2 + 4, text_anchor="middle", font_size=11, fill=MUTED),
    )


def _cell(estimate: Estimate, end: float, few: int) -> Markup:
    """Return a cell in the colour of its rate; one with few entries is pale, since its rate may be anything."""
    if estimate.value is None:
        return _empty_cell(formats.UNDEFINED)
    step, pale = heat_step(estimate.value / end), estimate.n < few
    ink = INK if pale else _ink(step)
    text: dict[str, Attribute] = {"x": _CELL_WIDTH / 2, "text_anchor": "middle", "fill": ink}
    return together(
        tag(
            "rect",
            width=_CELL_WIDTH,
            height=_CELL_HEIGHT,
            rx=3,
            fill=_heat(step),
            fill_opacity=_PALE if pale else None,
        ),
        tag("text", formats.rate(estimate), y=21, font_size=14, font_weight=None if pale else 600, **text),
        tag("text", _count(estimate), y=37, font_size=11, **text),
    )


def heat_step(share: float) -> int:
    """Return the step of the colour scale for a share of its length."""
    return min(max(int(share * len(HEAT_STEPS)), 0), len(HEAT_STEPS) - 1)


def _heat(step: int) -> str:
    return f"var(--fc-heat-{step}, {HEAT_STEPS[step]})"


def _ink(step: int) -> str:
    """Return the colour of text on a step: whichever of dark and light stands out more."""
    colour = HEAT_STEPS[step]
    better = max((_DARK_INK, _LIGHT_INK), key=lambda ink: contrast(ink, colour))
    return f"var(--fc-heat-ink-{step}, {better})"


def contrast(one: str, other: str) -> float:
    """Return the contrast of two `#rrggbb` colours (WCAG 2.2, contrast ratio): 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Return the relative luminance of a `#rrggbb` colour (WCAG 2.2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _heat_legend(end: float, few: str) -> Markup:
    side = 24
    swatches = [
        tag("rect", x=side * step, y=0, width=side, height=12, fill=_heat(step), stroke=MUTED, stroke_opacity=0.35)
        for step in range(len(HEAT_STEPS))
    ]
    long = side * len(HEAT_STEPS)
    labels = [(0, "start", 0.0), (long // 2, "middle", 0.5), (long, "end", 1.0)]
    ends = [tag("text", formats.exact_percent(end * at), x=x, y=27, text_anchor=anchor) for x, anchor, at in labels]
    note = _zoom_note(end)
    return tag(
        "g",
        *swatches,
        *ends,
        tag("text", f"rate, with n: the number of entries{few}", x=0, y=44),
        tag("text", note, x=0, y=60) if note else None,
        font_size=11,
        fill=MUTED,
    )


def _heat_map_description(heat_map: HeatMap, note: str) -> str:
    parts = [f"Rates by {heat_map.row_title} (down) and {heat_map.column_title} (across).", note]
    for row, estimates in zip(heat_map.rows, heat_map.cells, strict=True):
        cells = [
            f"{_full(column)} {_EMPTY if estimate is None else _in_words(estimate)}"
            for column, estimate in zip(heat_map.columns, estimates, strict=True)
        ]
        parts.append(f"{_full(row)}: {'; '.join(cells)}.")
    return " ".join(part for part in parts if part)


# --- curves ---------------------------------------------------------------------------------------------------------

_PLOT = 280
_PLOT_LEFT, _PLOT_TOP = 52, 26
_CURVES_WIDTH = 460
_UNDER_PLOT = 50
_DASHES = (None, "7 3", "2 3", "9 3 2 3")
_COLOURS = (BAR, OVERALL, INK, MUTED)
_SHADE = 0.18
_MARK_SIZE = 5
_POINTS_DESCRIBED = 12
_CURVE_LABEL = 56


def curves_svg(curves: Curves) -> str:
    """Return shares against shares as lines in a square from 0 to 100%, with the points that have a name.

    Lines differ by their dashes and points by their shape, so that nothing hangs on colour.
    """
    legend = list(_curves_legend(curves))
    bottom = _PLOT_TOP + _PLOT + _UNDER_PLOT
    height = bottom + _LEGEND_LINE * len(legend)
    return _svg(
        curves.title,
        _curves_description(curves),
        _moved(_PLOT_LEFT, _PLOT_TOP, together(_plot_frame(curves), *_areas(curves), *_lines(curves), *_marks(curves))),
        *[_moved(_PLOT_LEFT, bottom + _LEGEND_LINE * at, item) for at, item in enumerate(legend)],
        class_="fc-curves",
        viewBox=f"0 0 {_CURVES_WIDTH} {height}",
        width=_CURVES_WIDTH,
        height=height,
    )


def _place(x: float, y: float) -> tuple[float, float]:
    """Return where a point of two shares lies in the square, whose origin is at its upper left."""
    across, up = (min(max(share, 0.0), 1.0) for share in (x, y))
    return round(across * _PLOT, 2), round((1 - up) * _PLOT, 2)


def _plot_frame(curves: Curves) -> Markup:
    parts = []
    for step in range(5):
        at = _PLOT * step / 4
        parts.append(tag("line", x1=at, x2=at, y1=0, y2=_PLOT, stroke=TRACK, stroke_width=1))
        parts.append(tag("line", x1=0, x2=_PLOT, y1=at, y2=at, stroke=TRACK, stroke_width=1))
        parts.append(tag("text", formats.exact_percent(step / 4), x=at, y=_PLOT + 16, text_anchor="middle"))
        parts.append(tag("text", formats.exact_percent(1 - step / 4), x=-8, y=at + 4, text_anchor="end"))
    if curves.diagonal:
        parts.append(tag("line", x1=0, y1=_PLOT, x2=_PLOT, y2=0, stroke=MUTED, stroke_width=1, stroke_dasharray="3 4"))
    return tag(
        "g",
        *parts,
        tag("rect", x=0, y=0, width=_PLOT, height=_PLOT, fill="none", stroke=MUTED, stroke_opacity=0.6),
        tag("text", f"{curves.y_title} ↑", x=-_PLOT_LEFT, y=-12, font_size=12),
        tag("text", f"{curves.x_title} →", x=_PLOT, y=_PLOT + 34, text_anchor="end", font_size=12),
        font_size=11,
        fill=MUTED,
    )


def _areas(curves: Curves) -> Iterator[Markup]:
    for at, curve in enumerate(curves.curves):
        if curve.band:
            points = " ".join(f"{x:g},{y:g}" for x, y in (_place(*corner) for corner in curve.band))
            yield tag("polygon", points=points, fill=_colour(at), fill_opacity=_SHADE, stroke="none")


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


def _lines(curves: Curves) -> Iterator[Markup]:
    for at, curve in enumerate(curves.curves):
        points = " ".join(f"{x:g},{y:g}" for x, y in _path(curve))
        yield tag(
            "polyline",
            tag("title", _full(curve.label)),
            points=points,
            fill="none",
            stroke=_colour(at),
            stroke_width=2.5,
            stroke_linejoin="round",
            stroke_dasharray=_DASHES[at % len(_DASHES)],
        )


def _path(curve: Curve) -> Iterator[tuple[float, float]]:
    """Yield the places that a line runs through; a stepped one goes up or down first, and then along."""
    before: float | None = None
    for x, y in curve.points:
        if curve.stepped and before is not None:
            yield _place(before, y)
        before = x
        yield _place(x, y)


def _marks(curves: Curves) -> Iterator[Markup]:
    for number, mark in enumerate(_all_marks(curves)):
        x, y = _place(mark.x, mark.y)
        yield tag("g", tag("title", _mark_words(mark, curves)), _shape(number, x, y))


def _all_marks(curves: Curves) -> list[Mark]:
    return [mark for curve in curves.curves for mark in curve.marks]


def _shape(number: int, x: float, y: float) -> Markup:
    """Return a circle, a square or a diamond, filled; from the fourth on, hollow."""
    size = _MARK_SIZE
    look: dict[str, Attribute] = {
        "fill": OVERALL if number < 3 else "none",
        "stroke": OVERALL if number >= 3 else INK,
        "stroke_width": 2 if number >= 3 else 1,
    }
    if number % 3 == 0:
        return tag("circle", cx=x, cy=y, r=size, **look)
    if number % 3 == 1:
        return tag("rect", x=x - size, y=y - size, width=2 * size, height=2 * size, **look)
    corners = [(x, y - size - 2), (x + size + 2, y), (x, y + size + 2), (x - size - 2, y)]
    return tag("polygon", points=" ".join(f"{across:g},{down:g}" for across, down in corners), **look)


def _mark_words(mark: Mark, curves: Curves) -> str:
    return f"{mark.label}: {curves.x_title} {formats.percent(mark.x, 1)}, {curves.y_title} {formats.percent(mark.y, 1)}"


def _curves_legend(curves: Curves) -> Iterator[Markup]:
    if len(curves.curves) > 1:
        for at, curve in enumerate(curves.curves):
            dashes = _DASHES[at % len(_DASHES)]
            line = tag("line", x1=-8, x2=16, y1=8, y2=8, stroke=_colour(at), stroke_width=2.5, stroke_dasharray=dashes)
            yield _legend(line, _clipped(_full(curve.label), _CURVE_LABEL))
    if curves.band:
        yield _legend(tag("rect", x=-8, y=2, width=24, height=12, fill=BAR, fill_opacity=_SHADE), curves.band)
    for number, mark in enumerate(_all_marks(curves)):
        yield _legend(_shape(number, 8, 8), _clipped(mark.label, _CURVE_LABEL))
    if curves.diagonal:
        line = tag("line", x1=1, x2=15, y1=8, y2=8, stroke=MUTED, stroke_width=1, stroke_dasharray="3 4")
        yield _legend(line, "random guessing")


def _curves_description(curves: Curves) -> str:
    parts = [f"{curves.y_title} (up) against {curves.x_title} (across)."]
    for curve in curves.curves:
        points = [curve.points[place] for place in formats.spread(len(curve.points), _POINTS_DESCRIBED)]
        values = [f"{formats.percent(y, 1)} at {formats.percent(x, 1)}" for x, y in points]
        parts.append(f"{_full(curve.label)}: {', '.join(values) or 'no points'}.")
    parts += [f"{_mark_words(mark, curves)}." for mark in _all_marks(curves)]
    return " ".join(parts)
