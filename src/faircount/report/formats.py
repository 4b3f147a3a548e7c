"""Numbers, cells and figures as text for people: the one place that every report and message takes them from.

Percentages are written as English text writes them, `61.3%`: in whole percents where the interval is wider than ten
points, since no more of them is known, otherwise with one decimal. What is not nothing never reads as 0%, and what is
not all never as 100%. JSON keeps every digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from faircount.core.model import Estimate, Passage
from faircount.core.text import clip, clip_apart, clip_middle, visible
from faircount.report import blocks

UNDEFINED = "undefined"
WIDE = 0.10
"""An interval that is wider than this is shown in whole percents."""
_MOST_DECIMALS = 9
_SMALLEST_P = 0.0001
_METHODS = {
    "wilson": "Wilson",
    "cluster wilson": "Wilson over families",
    "confidence sequence, families": "confidence sequence over families",
    "empirical bayes": "empirical Bayes",
    "pooled, wilson": "Wilson, pooled",
    "mean over entries": "Wilson on the effective size",
    "kaplan-meier": "Kaplan-Meier",
    "tango": "Tango",
    "cluster tango": "Tango over families",
    "newcombe": "Newcombe",
}


# -- shares -----------------------------------------------------------------------------------------------------


def percent(share: float, decimals: int = 1) -> str:
    """Return `61.3%`, with more decimals where fewer would read as nothing or as all."""
    while decimals < _MOST_DECIMALS and 0 < share < 1 and _rounded(share, decimals) in (0.0, 100.0):
        decimals += 1
    return f"{100 * share:.{decimals}f}%"


def percent_apart(share: float, other: float) -> str:
    """Return a share with as many decimals as it takes to see on which side of another one it lies."""
    decimals = 1
    while decimals < _MOST_DECIMALS and share != other and _rounded(share, decimals) == _rounded(other, decimals):
        decimals += 1
    return percent(share, decimals)


def exact_percent(share: float) -> str:
    """Return a share that somebody chose, such as a level or a threshold, with just the digits it has: `95%`."""
    return f"{100 * share:.10g}%"


def _rounded(share: float, decimals: int) -> float:
    return float(f"{100 * share:.{decimals}f}")


def decimals_of(figure: Estimate) -> int:
    """Return with how many decimals of a percent a rate is worth showing."""
    if figure.low is None or figure.high is None:
        return 1
    return 0 if figure.high - figure.low > WIDE else 1


def rate(figure: Estimate) -> str:
    """Return the value of a rate alone, as precise as its interval allows."""
    return UNDEFINED if figure.value is None else percent(figure.value, decimals_of(figure))


def estimate(figure: Estimate) -> str:
    """Return `26% [12, 46]` or `61.3% [59.2, 63.4]`; the value alone where there is no interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return rate(figure)
    decimals = decimals_of(figure)
    return f"{rate(figure)} [{100 * figure.low:.{decimals}f}, {100 * figure.high:.{decimals}f}]"


def interval(figure: Estimate) -> str:
    """Return `12–46%`, for a sentence; empty where there is no interval."""
    if figure.low is None or figure.high is None:
        return ""
    decimals = decimals_of(figure)
    return f"{100 * figure.low:.{decimals}f}–{100 * figure.high:.{decimals}f}%"


def named_interval(figure: Estimate) -> str:
    """Return `95% interval 12–46%`, for a sentence; empty where there is no interval."""
    limits = interval(figure)
    return f"{exact_percent(figure.level)} interval {limits}" if limits else ""


def methods(figures: Iterable[Estimate]) -> str:
    """Return what rates are shares of and how their intervals were made, each thing once."""
    limited = [figure for figure in figures if figure.low is not None]
    if not limited:
        return ""
    units = ", ".join(dict.fromkeys(figure.unit for figure in limited))
    how = ", ".join(dict.fromkeys(method(figure) for figure in limited))
    return f"{exact_percent(limited[0].level)} interval: {how}; unit: {units}"


def method(figure: Estimate) -> str:
    """Return the name of the method behind an interval."""
    return _METHODS.get(figure.method, figure.method)


# -- differences ------------------------------------------------------------------------------------------------


def signed_points(difference: float, decimals: int = 1) -> str:
    """Return a difference of rates in points with its sign: `+3.1`; what rounds to 0 has none."""
    written = fixed(100 * difference, decimals)
    return f"+{written}" if float(written) > 0 else written


def points(difference: float | None, decimals: int = 1) -> str:
    """Return the size of a difference of rates: `3.1 points`."""
    return UNDEFINED if difference is None else f"{abs(100 * difference):.{decimals}f} points"


def difference(figure: Estimate) -> str:
    """Return `-6.2 [-9.4, -3.1]`, in points; the value alone where there is no interval."""
    if figure.value is None:
        return UNDEFINED
    if figure.low is None or figure.high is None:
        return f"{signed_points(figure.value)} [no interval]"
    return f"{signed_points(figure.value)} [{signed_points(figure.low)}, {signed_points(figure.high)}]"


# -- other numbers ----------------------------------------------------------------------------------------------


def fixed(value: float | None, decimals: int = 3) -> str:
    """Return a number with so many decimals; what rounds to 0 has no sign."""
    return UNDEFINED if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}"


def score(figure: Estimate) -> str:
    """Return a mean of scores, which are no shares: `0.8231 [0.7904, 0.8557]`."""
    if figure.value is None:
        return UNDEFINED
    if figure.low is None or figure.high is None:
        return f"{figure.value:.4g}"
    return f"{figure.value:.4g} [{figure.low:.4g}, {figure.high:.4g}]"


def cost(value: float | None, unpriced: Iterable[str] | None = None) -> str:
    """Return what models cost; where that is unknown, `unpriced` are the models that have no price."""
    if value is not None:
        return f"{value:.4f}"
    if unpriced is None:
        return "unknown"
    models = ", ".join(map(visible, unpriced))
    if not models:
        return "unknown: no model is named, see --model"
    return f"unknown: no price for {models}; give it in --config, under [prices]"


def p_value(p: float | None) -> str:
    """Return a p-value with two digits or more, and never as 0."""
    if p is None:
        return UNDEFINED
    if p < _SMALLEST_P:
        return f"{p:.1e}"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def seconds(value: float) -> str:
    """Return a duration with about three significant digits, in milliseconds below a second."""
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def significant(value: float, digits: int) -> str:
    """Return a number with so many significant digits, never with an exponent."""
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    written = f"{value:.{decimals}f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def coefficient(figure: Estimate) -> str:
    """Return a kappa or an alpha with its interval, in round brackets, which are plain text in every presenter."""
    if figure.value is None or figure.low is None or figure.high is None:
        return fixed(figure.value)
    return f"{fixed(figure.value)} ({fixed(figure.low)}, {fixed(figure.high)})"


# -- cells and figures ------------------------------------------------------------------------------------------

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


def cell(content: blocks.Cell, width: int = blocks.CELL_WIDTH) -> str:
    """Return the text of a cell; a record's text is made visible and cut to `width`."""
    if content is None:
        return UNKNOWN
    if isinstance(content, blocks.Record):
        return MISSING if content.text is None else _record(content, width)
    if isinstance(content, blocks.Place | blocks.Label):
        return clip_middle(visible(content.text), width)
    if isinstance(content, blocks.Interval):
        return drawn(content.estimate)
    if isinstance(content, blocks.Records):
        return BETWEEN_RECORDS.join(cell(blocks.Record(text), width) for text in content.texts)
    if isinstance(content, Estimate):
        return estimate(content)
    if isinstance(content, blocks.Points):
        return difference(content.difference)
    if isinstance(content, blocks.Seconds):
        return seconds(content.value)
    if isinstance(content, int):
        return f"{content:,}"
    return content


def column_texts(cells: Sequence[blocks.Cell], width: int) -> list[str]:
    """Return the texts of a column's cells, texts of records cut so that those that differ still do."""
    texts = {
        at: visible(content.text)
        for at, content in enumerate(cells)
        if isinstance(content, blocks.Record) and content.text is not None and not content.whole
    }
    cut = dict(zip(texts, clip_apart(list(texts.values()), width), strict=True))
    labels = {
        at: visible(content.text)
        for at, content in enumerate(cells)
        if isinstance(content, blocks.Label | blocks.Place)
    }
    cut |= zip(labels, clip_apart(list(labels.values()), width, clip_middle), strict=True)
    several = {at: content.texts for at, content in enumerate(cells) if isinstance(content, blocks.Records)}
    if several:
        words = list(
            dict.fromkeys(visible(text) for records in several.values() for text in records if text is not None)
        )
        short = dict(zip(words, clip_apart(words, width), strict=True))
        for at, records in several.items():
            cut[at] = BETWEEN_RECORDS.join(MISSING if text is None else short[visible(text)] for text in records)
    return [cut[at] if at in cut else cell(content, width) for at, content in enumerate(cells)]


def _record(content: blocks.Record, width: int) -> str:
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


def curve_points(figure: blocks.Curves) -> blocks.Grid:
    """Return a figure of curves as a short table: a few points of each curve, and all that have a name."""
    return blocks.table(
        [(curve.label, *point) for curve in figure.curves for point in _some_points(curve)],
        blocks.text_column("Curve", lambda row: row[0], when=len(figure.curves) > 1),
        blocks.number_column(figure.x_title, lambda row: percent(row[1])),
        blocks.number_column(figure.y_title, lambda row: percent(row[2])),
        blocks.text_column("", lambda row: row[3]),
    )


def _some_points(curve: blocks.Curve) -> list[tuple[float, float, str]]:
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
