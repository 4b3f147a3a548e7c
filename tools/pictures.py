"""Draws the pictures of the documentation into docs/pictures; a test fails when one is stale.

Every figure in them is computed: by `faircount.stats`, or by analysing the sample that `faircount demo` makes; how
time grows is in a table of the page on speed. Bars are drawn by the module that draws those of a report. A file stands
alone: it brings its own background and names every colour, and a style for dark surroundings names the others.

Run: .venv/bin/python -m tools.pictures
"""

from __future__ import annotations

import csv
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from math import ceil, log10
from pathlib import Path
from xml.etree import ElementTree

import faircount
from faircount import stats
from faircount.analysis.operating.report import roc_curves
from faircount.app import write_sample
from faircount.core.model import Estimate, WithinStep
from faircount.report.blocks import Bar, Bars, Difference, Differences
from faircount.report.formats import estimate as in_figures
from faircount.report.formats import methods, percent, span
from faircount.report.markup import Markup, tag, together
from faircount.report.svg import BAR, FONT, INK, MUTED, OVERALL, TRACK, along, bars_svg, curves_svg, differences_svg
from faircount.stats.proportion import DEFAULT_LEVEL, critical_value, score_limits

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
DEMO_SEED = 7
"""The seed that `faircount demo` uses unless told otherwise."""

# --- what every picture has -----------------------------------------------------------------------------------------

_WIDTH, _MARGIN = 760, 24
_TITLE, _LINE = 44, 18
_PAPER = "#ffffff"
_LIGHT = {INK: "#1a2029", MUTED: "#55606e", TRACK: "#e8ecf1", BAR: "#5494d0", OVERALL: "#b3511a"}
_DARK = {
    _PAPER: "#12161c",
    "#1a2029": "#e6eaf0",
    "#55606e": "#a3aebb",
    "#e8ecf1": "#252d37",
    "#5494d0": "#3f7fbe",
    "#b3511a": "#ff9d5c",
}
_SVG = "http://www.w3.org/2000/svg"


def _picture(title: str, captions: Sequence[str], drawn: Markup, height: int, description: str) -> str:
    """Return a whole file: title and captions above what was drawn, which is as wide as the picture between margins."""
    top = _MARGIN + _TITLE + _LINE * len(captions)
    whole = top + height + _MARGIN
    lines = [
        tag("text", line, x=_MARGIN, y=_MARGIN + _TITLE + _LINE * at - 6, font_size=13, fill=MUTED)
        for at, line in enumerate(captions)
    ]
    picture = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        tag("style", _dark_style()),
        tag("rect", x=0.5, y=0.5, width=_WIDTH - 1, height=whole - 1, rx=8, fill=_PAPER, stroke=TRACK),
        tag("text", title, x=_MARGIN, y=_MARGIN + 14, font_size=17, font_weight=600),
        *lines,
        tag("svg", drawn, x=_MARGIN, y=top, width=_WIDTH - 2 * _MARGIN, height=height, overflow="visible"),
        xmlns=_SVG,
        role="img",
        viewBox=f"0 0 {_WIDTH} {whole}",
        width=_WIDTH,
        height=whole,
        font_family=FONT,
        font_size=13,
        fill=INK,
    )
    return _laid_out(_with_colours(picture.text))


def _dark_style() -> str:
    """Return the rules for dark surroundings: every colour of the file has another one there."""
    rules = [f"[{what}='{light}'] {{ {what}: {dark} }}" for light, dark in _DARK.items() for what in ("fill", "stroke")]
    return f"@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}"


def _with_colours(svg: str) -> str:
    """Return an SVG in which colours and fonts are named and not asked of a page."""
    for variable, colour in _LIGHT.items():
        svg = svg.replace(variable, colour)
    return re.sub(r"var\(--fc-font, ([^)]*)\)", r"\1", svg)


def _laid_out(svg: str) -> str:
    """Return an SVG with one element on a line, so that a change of a picture can be read as one."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _bars(title: str, captions: Sequence[str], bars: Sequence[Bar], overall: Estimate | None = None) -> str:
    """Return a picture of bars as a report draws them, with the long labels, for which there is room here."""
    drawn = ElementTree.fromstring(bars_svg(Bars(title, tuple(bars), overall)))
    description = drawn.findtext(f"{{{_SVG}}}desc") or ""
    return _picture(title, captions, Markup("".join(_for_a_file(drawn))), int(drawn.attrib["height"]), description)


def _crossing(share: str, height: int) -> Markup:
    """Return a dashed line through all rows of a figure, at a share of its width."""
    top, bottom = 30, height - 48
    return tag("line", x1=share, x2=share, y1=top, y2=bottom, stroke=INK, stroke_width=1.5, stroke_dasharray="4 3")


def _for_a_file(drawn: ElementTree.Element) -> Iterator[str]:
    for group in drawn.iter():
        for text in [child for child in group if child.get("class") == "fc-short"]:
            group.remove(text)
    for child in drawn:
        if child.tag not in (f"{{{_SVG}}}title", f"{{{_SVG}}}desc"):
            for text in child.iter():
                text.attrib.pop("display", None)
            yield ElementTree.tostring(child, encoding="unicode")


# --- the pictures ---------------------------------------------------------------------------------------------------


def intervals() -> str:
    """The same rate on ever more entries, and no success at all on few and on many."""
    counts = ((1, 10), (10, 100), (100, 1000), (0, 20), (0, 300))
    return _bars(
        "More entries, narrower intervals",
        ("The first three have the same rate. Without a success, the upper limit is what the entries show.",),
        [Bar(f"{successes} of {entries:,} entries", stats.wilson(successes, entries)) for successes, entries in counts],
    )


GATE_PAIRS, GATE_MARGIN = 1000, 0.02
GATE_FLIPS = ((45, 55), (55, 45), (75, 25))
"""Entries that succeed only in the new run, and only in the old one."""
_STATES = {"non_inferior": "passed", "not_shown": "inconclusive", "inferior": "failed"}


def gates() -> str:
    """Three changes of a success rate, and what a gate on regressions decides about each."""
    tests = [stats.non_inferiority_paired(new, old, GATE_PAIRS, GATE_MARGIN) for new, old in GATE_FLIPS]
    rows = [
        Difference(f"{_STATES[test.verdict]}: {new} entries broken, {old} fixed", test.difference)
        for test, (new, old) in zip(tests, GATE_FLIPS, strict=True)
    ]
    drawn = ElementTree.fromstring(differences_svg(Differences("Gates", tuple(rows), "better", "worse")))
    height = int(drawn.attrib["height"])
    end = span(test.difference for test in tests)
    return _picture(
        f"regression > {100 * GATE_MARGIN:g}%: the whole interval decides",
        (
            f"Change of the success rate of attacks in three releases, in points, on the same {GATE_PAIRS:,} entries.",
            f"Dashed: the margin of {100 * GATE_MARGIN:g} points. The limits of a 90% interval are one-sided at 95%.",
        ),
        together(*map(Markup, _for_a_file(drawn)), _crossing(along(GATE_MARGIN / end + 1, 2), height)),
        height,
        drawn.findtext(f"{{{_SVG}}}desc") or "",
    )


def outcomes() -> str:
    """The outcomes of the demo's entries, and what the two rates are shares of."""
    with tempfile.TemporaryDirectory() as folder:
        (sample,) = (path for path in write_sample(Path(folder), DEMO_SEED).plain if "bot-mid" in path.name)
        found = faircount.analyze(str(sample)).analyses[0]
    tally, rates = found.tally, found.rates
    parts = [
        ("success", tally.success, OVERALL),
        ("failure", tally.failure, BAR),
        ("error", tally.error, MUTED),
        ("guardrail", tally.guardrail, INK),
    ]
    rows = [
        (label, f"{tally.success} of {rate.n} entries: {in_figures(rate)}", [(n / tally.total, c) for _, n, c in among])
        for label, rate, among in (
            ("over all entries", rates.asr, parts),
            ("over judged entries", rates.asr_judged, parts[:2]),
        )
    ]
    return _rows(
        "One outcome for each entry, and two rates",
        (f"The {tally.total} entries of bot-mid in the demo. {methods([rates.asr])}.",),
        rows,
        [(f"{name}: {count}", colour) for name, count, colour in parts],
    )


COVERED = Path(__file__).parent.parent / "docs" / "concepts" / "coverage.csv"
COVERAGE_SHOWN = (
    ("One rate", "30, 1%", "Wilson", "Wald", "30 entries, true rate 1%"),
    ("One rate", "100, 5%", "Wilson", "Wald", "100 entries, true rate 5%"),
    ("Families of variants", "25 × 8, 20%, 0.3", "cluster Wilson", "Wilson", "25 families of 8 variants"),
    ("Retries of the same entries", "30 × 10", "mean over entries", "all calls, Wald", "30 entries, ten attempts each"),
)
"""Table and situation in the record, our method, what people often use instead, and how the picture names it."""


def coverage() -> str:
    """How often a 95% interval contains the true rate: ours, and one that is often used instead."""
    with COVERED.open(encoding="utf-8", newline="") as file:
        recorded = {
            (row["table"], row["situation"], row["method"]): float(row["figure"]) / 100
            for row in csv.DictReader(file)
            if row["part"] == "coverage"
        }
    rows = [
        (f"{situation_name}: {method}", percent(share), [(share, colour)])
        for table, situation, ours, instead, situation_name in COVERAGE_SHOWN
        for method, colour in ((ours, BAR), (instead, OVERALL))
        for share in (recorded[table, situation, method],)
    ]
    return _rows(
        "How often a 95% interval contains the true rate",
        ("From the record of all simulations. Dashed: 95%, what the intervals promise.",),
        rows,
        [("ours", BAR), ("often used instead", OVERALL)],
        line=DEFAULT_LEVEL,
    )


_ROW, _KEY = 46, 150


def _rows(
    title: str,
    captions: Sequence[str],
    rows: Sequence[tuple[str, str, Sequence[tuple[float, str]]]],
    keys: Sequence[tuple[str, str]],
    line: float | None = None,
) -> str:
    """Return a picture of rows, each a label, figures and parts: shares of the width and their colours."""
    width, keys_top = _WIDTH - 2 * _MARGIN, _ROW * len(rows) + 6
    marks = []
    for at, (label, figures, parts) in enumerate(rows):
        top, left = _ROW * at, 0.0
        marks.append(tag("text", label, x=0, y=top + 14))
        marks.append(tag("text", figures, x="100%", y=top + 14, text_anchor="end"))
        marks.append(tag("rect", x=0, y=top + 21, width="100%", height=14, fill=TRACK))
        for share, colour in parts:
            marks.append(tag("rect", x=left, y=top + 21, width=round(share * width, 1), height=14, fill=colour))
            left = round(left + share * width, 1)
        if line is not None:
            across = {"x1": line * width, "x2": line * width, "y1": top + 18, "y2": top + 38}
            marks.append(tag("line", **across, stroke=INK, stroke_width=1.5, stroke_dasharray="4 3"))
    for at, (name, colour) in enumerate(keys):
        marks.append(tag("rect", x=_KEY * at, y=keys_top + 3, width=12, height=12, fill=colour))
        marks.append(tag("text", name, x=_KEY * at + 20, y=keys_top + 14, font_size=12, fill=MUTED))
    told = "; ".join(f"{label}: {figures}" for label, figures, _ in rows)
    names = ", ".join(name for name, _ in keys)
    return _picture(title, captions, together(*marks), keys_top + 20, f"{told}. Colours: {names}.")


PUBLISHED_FAMILIES = {
    "decode": (85, 136),
    "data-exfil-markdown-encode": (52, 136),
    "translate": (42, 136),
    "encode": (39, 136),
    "xss, third form": (25, 136),
    "long": (1, 136),
    "xss, second form": (0, 136),
    "each of four others": (1, 1),
}
"""Successes and size of the families of the run against Claude 3.5 Haiku that was published with spikee 0.1."""

FAMILIES_OF_ONE = 4


def families() -> str:
    """The families of a published run: what looks exact is an average over seven instructions."""
    kinds = list(PUBLISHED_FAMILIES.values())
    times = [1] * (len(kinds) - 1) + [FAMILIES_OF_ONE]
    successes, entries = (sum(n * kind[at] for kind, n in zip(kinds, times, strict=True)) for at in (0, 1))
    clustered = stats.cluster_wilson([s for s, _ in kinds], [m for _, m in kinds], times=times)
    own = [
        Bar(f"instruction: {name}", _without_interval(s * n, m * n))
        for (name, (s, m)), n in zip(PUBLISHED_FAMILIES.items(), times, strict=True)
    ]
    return _bars(
        f"{entries} entries, worth about {clustered.effective_n:.0f}",
        (
            "Success rates of a run published with spikee 0.1. A family is one instruction in one document, with",
            f"up to 136 variants of it. {clustered.families} families; design effect {clustered.design_effect:.0f}.",
        ),
        [
            Bar("all entries, families respected", clustered.estimate),
            Bar("all entries, as if independent", stats.wilson(successes, entries)),
            *own,
        ],
        _bare(clustered.estimate),
    )


def _without_interval(successes: int, entries: int) -> Estimate:
    return _bare(stats.wilson(successes, entries))


def _bare(estimate: Estimate) -> Estimate:
    return Estimate(estimate.value, None, None, estimate.n, estimate.unit, estimate.level, estimate.method)


EQUAL_GROUPS, EQUAL_SIZE, EQUAL_RATE, EQUAL_SEED = 40, 15, 0.2, 2
GROUPS_DRAWN = 6


def groups() -> str:
    """Forty groups that do not differ, drawn by chance: the highest of them, and what reading them together gives."""
    draw = random.Random(EQUAL_SEED)
    won = [sum(draw.random() < EQUAL_RATE for _ in range(EQUAL_SIZE)) for _ in range(EQUAL_GROUPS)]
    sizes = [EQUAL_SIZE] * EQUAL_GROUPS
    shrunk = stats.empirical_bayes(won, sizes)
    standing_out = sum(test.stands_out for test in stats.adjust_together(stats.slices_against_rest(won, sizes)))
    order = sorted(range(EQUAL_GROUPS), key=lambda group: -won[group])[:GROUPS_DRAWN]
    bars = [Bar(f"group {group + 1}: raw rate", stats.wilson(won[group], EQUAL_SIZE)) for group in order]
    bars.append(Bar(f"group {order[0] + 1}: shrunken rate", shrunk.slices[order[0]]))
    return _bars(
        f"The {_in_words(GROUPS_DRAWN)} highest of {EQUAL_GROUPS} groups that do not differ",
        (
            f"Success rates of groups of {EQUAL_SIZE} entries, drawn by chance (seed {EQUAL_SEED}) with a true rate of "
            f"{100 * EQUAL_RATE:g} % each.",
            f"Groups that stand out by Fisher's exact test with Benjamini-Hochberg: {standing_out or 'none'}.",
        ),
        bars,
        _bare(stats.wilson(sum(won), sum(sizes))),
    )


def _in_words(number: int) -> str:
    return ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")[number]


WINS_OF_TEN_ENTRIES = (0, 0, 0, 0, 1, 0, 3, 5, 0, 5)
TIMES, ATTEMPTS = 4, 5
"""The example of the page on retries: 40 entries with five attempts each."""


def retries() -> str:
    """Forty entries tried five times: the naive interval beside the right one, and two other questions."""
    wins = WINS_OF_TEN_ENTRIES * TIMES
    tried = [ATTEMPTS] * len(wins)
    calls = sum(tried)
    return _bars(
        f"{calls} calls are not {calls} entries",
        (
            f"Shares of calls and of entries, for {len(wins)} entries with {ATTEMPTS} attempts each:",
            f"{sum(won == 0 for won in wins)} never succeeded, {sum(won == ATTEMPTS for won in wins)} always, "
            f"{sum(0 < won < ATTEMPTS for won in wins)} now and then.",
        ),
        [
            Bar("all calls, as if independent", stats.wilson(sum(wins), calls, unit="attempt")),
            Bar("mean over entries", stats.mean_of_shares([won / ATTEMPTS for won in wins]).estimate),
            Bar("succeeded at least once: any of five", stats.wilson(sum(won > 0 for won in wins), len(wins))),
            Bar("flaky: succeeded and failed", stats.flake_rate_of_counts(wins, tried)),
        ],
    )


PLANNED_RATE, PLANNED_WIDTH, VARIANTS, CORRELATION = 0.2, 0.05, 10, 0.3


def power() -> str:
    """A plan that forgets families, and one that does not."""
    naive = stats.sample_size_half_width(PLANNED_RATE, PLANNED_WIDTH).entries
    right = stats.sample_size_half_width(PLANNED_RATE, PLANNED_WIDTH, family_size=VARIANTS, icc=CORRELATION).entries
    effect = stats.design_effect(VARIANTS, CORRELATION)
    return _bars(
        "The same width needs more entries if they come in families",
        (
            f"Success rate, planned as {100 * PLANNED_RATE:g} % ± {100 * PLANNED_WIDTH:g} points. Families of "
            f"{VARIANTS} variants with a correlation of {CORRELATION}: design effect {effect:g}.",
        ),
        [
            Bar(f"{naive} independent entries: the plan", _planned(naive, naive)),
            Bar(
                f"{naive} entries in {ceil(naive / VARIANTS)} families: what it gives", _planned(naive, naive / effect)
            ),
            Bar(
                f"{right} entries in {ceil(right / VARIANTS)} families: what it takes", _planned(right, right / effect)
            ),
        ],
    )


def _planned(entries: int, worth: float) -> Estimate:
    """Return the interval that entries give at the planned rate if they are worth so many independent ones."""
    low, high = score_limits(PLANNED_RATE, worth, critical_value(DEFAULT_LEVEL))
    return Estimate(PLANNED_RATE, low, high, entries, "entry", DEFAULT_LEVEL, "wilson")


# --- a curve --------------------------------------------------------------------------------------------------------

_PLOT_LEFT, _PLOT_TOP, _PLOT_HEIGHT, _PLOT_BOTTOM = 46, 30, 250, 52
_RIGHT_OF_PLOT = 120


def success_within() -> str:
    """Success within k requests in the demo's dynamic sample, beside what the first request seems to promise."""
    with tempfile.TemporaryDirectory() as folder:
        sample = write_sample(Path(folder), DEMO_SEED).dynamic
        found = faircount.analyze(str(sample)).analyses[0].success_within
    assert found is not None
    steps = found.steps
    first = steps[0].within.value or 0.0
    promised = [1 - (1 - first) ** step.attempts for step in steps]
    told = [f"within {step.attempts}: {in_figures(step.within)}" for step in steps]
    return _picture(
        "Success within k requests",
        (
            "The demo's dynamic attack, counted from the standard attempt on. " + methods([steps[0].within]) + ".",
            "Dashed: what comes out if every request is taken to win as often as the first one.",
        ),
        _curve(steps, promised),
        _PLOT_TOP + _PLOT_HEIGHT + _PLOT_BOTTOM,
        f"{'; '.join(told)}. If every request won like the first: {percent(promised[-1])} within {steps[-1].attempts}.",
    )


def _curve(steps: Sequence[WithinStep], promised: Sequence[float]) -> Markup:
    """Return steps with their band, one column per request, and the promise as dashes."""
    count = len(steps)
    column = (_WIDTH - 2 * _MARGIN - _PLOT_LEFT - _RIGHT_OF_PLOT) / count

    def left_of(at: int) -> float:
        return _PLOT_LEFT + column * at

    marks = [*_grid_lines(_PLOT_LEFT + column * count)]
    for at, step in enumerate(steps):
        x, middle = left_of(at), left_of(at) + column / 2
        low, high = _up(step.within.low or 0.0), _up(step.within.high or 0.0)
        marks.append(tag("rect", x=x, y=high, width=column, height=low - high, fill=BAR, fill_opacity=0.3))
        marks.append(_centred(step.attempts, middle, _up(0) + 18, MUTED))
        marks.append(_centred(percent(step.within.value or 0.0, 1), middle, _up(step.within.value or 0.0) - 6, INK))
    seen = [step.within.value or 0.0 for step in steps]
    marks.append(_staircase(seen, left_of, stroke=BAR, width=3))
    marks.append(_staircase(promised, left_of, stroke=OVERALL, width=2, dashes="6 4"))
    ends = (
        ("Kaplan-Meier,", "with its 95% band", seen[-1], INK),
        ("if all were", f"alike: {percent(promised[-1], 1)}", promised[-1], OVERALL),
    )
    for upper, lower, level, colour in ends:
        for text, below in ((upper, -6), (lower, 10)):
            marks.append(tag("text", text, x=left_of(count) + 8, y=_up(level) + below, font_size=12, fill=colour))
    marks.append(
        _centred("requests, the standard attempt included", left_of(0) + column * count / 2, _up(0) + 42, MUTED)
    )
    marks.append(tag("text", "share of entries that have succeeded", x=0, y=_PLOT_TOP - 16, font_size=11, fill=MUTED))
    return together(*marks)


def _up(share: float) -> float:
    return _PLOT_TOP + _PLOT_HEIGHT * (1 - share)


def _grid_lines(right: float) -> Iterator[Markup]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _up(share)
        yield tag("line", x1=_PLOT_LEFT, x2=right, y1=y, y2=y, stroke=TRACK, stroke_width=1)
        label = f"{100 * share:g}%"
        yield tag("text", label, x=_PLOT_LEFT - 8, y=y + 4, text_anchor="end", font_size=11, fill=MUTED)


def _centred(text: str | int, x: float, y: float, colour: str) -> Markup:
    return tag("text", str(text), x=x, y=y, text_anchor="middle", font_size=11, fill=colour)


def _staircase(
    shares: Sequence[float], left_of: Callable[[int], float], *, stroke: str, width: int, dashes: str | None = None
) -> Markup:
    corners = [(left_of(at + side), _up(share)) for at, share in enumerate(shares) for side in (0, 1)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return tag("polyline", points=points, fill="none", stroke=stroke, stroke_width=width, stroke_dasharray=dashes)


SAMPLES = Path(__file__).parent.parent / "docs" / "samples"


def operating_points() -> str:
    """The curves of the two sample guardrails with their bands, and the thresholds that hold a rate of 2%."""
    found = faircount.operating_point(
        *[SAMPLES / f"guard_{one}_attacks.jsonl" for one in "ab"],
        false_positive_checks=[str(SAMPLES / f"guard_{one}_benign.jsonl") for one in "ab"],
        score="guardrail_score",
        max_fpr=0.02,
    )
    drawn = ElementTree.fromstring(curves_svg(roc_curves(found)))
    description = drawn.findtext(f"{{{_SVG}}}desc") or ""
    points = [curve.points[0] for curve in found.guardrails]
    recalls = " and ".join(percent(point.recall.value or 0.0) for point in points)
    return _picture(
        "Two guardrails and their thresholds",
        (
            "ROC curves with bands that hold for all thresholds at once. With a false positive rate of at most 2%,",
            f"shown with {percent(found.level, 0)} confidence, they block {recalls} of the attacks.",
        ),
        Markup("".join(_for_a_file(drawn))),
        int(drawn.attrib["height"]),
        description,
    )


SPEED = Path(__file__).parent.parent / "docs" / "reference" / "speed.md"
_GROWTH_ROW = re.compile(r"^\| (\w+) \| ([\d,]+) \| ([\d.]+) \| [\d,]+ \|", re.MULTILINE)
_FEWEST, _MOST = 3, 6
"""The powers of ten of entries between which time is drawn; of seconds, from a hundredth to a hundred."""


def growth() -> str:
    """The CPU time of commands by the number of entries, as the page on speed has it."""
    times: dict[str, list[tuple[int, float]]] = {}
    for command, entries, seconds in _GROWTH_ROW.findall(SPEED.read_text(encoding="utf-8")):
        times.setdefault(command, []).append((int(entries.replace(",", "")), float(seconds)))
    told = [f"{command}: {', '.join(f'{entries:,} {s:g} s' for entries, s in of)}" for command, of in times.items()]
    return _picture(
        "Time by the number of entries",
        (
            "CPU seconds of whole commands, both axes by powers of ten. A dashed line grows as fast as the entries.",
            "The start of the program is in all of them, and most of the time of 1,000 entries.",
        ),
        together(*_growth_marks(times)),
        _PLOT_TOP + _PLOT_HEIGHT + _PLOT_BOTTOM,
        "; ".join(told) + ".",
    )


def _growth_marks(times: dict[str, list[tuple[int, float]]]) -> Iterator[Markup]:
    width = _WIDTH - 2 * _MARGIN - _PLOT_LEFT - _RIGHT_OF_PLOT

    def across(entries: float) -> float:
        return _PLOT_LEFT + width * (log10(entries) - _FEWEST) / (_MOST - _FEWEST)

    def up(seconds: float) -> float:
        return _up((log10(seconds) + 2) / 4)

    for seconds in (0.01, 0.1, 1, 10, 100):
        y = up(seconds)
        yield tag("line", x1=_PLOT_LEFT, x2=_PLOT_LEFT + width, y1=y, y2=y, stroke=TRACK, stroke_width=1)
        yield tag("text", f"{seconds:g} s", x=_PLOT_LEFT - 8, y=y + 4, text_anchor="end", font_size=11, fill=MUTED)
    for power in range(_FEWEST, _MOST + 1):
        yield _centred(f"{10**power:,}", across(10**power), _up(0) + 18, MUTED)
    yield _centred("entries", _PLOT_LEFT + width / 2, _up(0) + 42, MUTED)
    proportional = f"{across(10**3):.1f},{up(0.01):.1f} {across(10**6):.1f},{up(10):.1f}"
    yield tag("polyline", points=proportional, fill="none", stroke=MUTED, stroke_width=1, stroke_dasharray="6 4")
    lowest = _PLOT_TOP + _PLOT_HEIGHT + 16.0
    for command, of in sorted(times.items(), key=lambda item: item[1][-1]):
        points = " ".join(f"{across(entries):.1f},{up(seconds):.1f}" for entries, seconds in of)
        yield tag("polyline", points=points, fill="none", stroke=BAR, stroke_width=2)
        for entries, seconds in of:
            yield tag("circle", cx=across(entries), cy=up(seconds), r=3, fill=BAR)
        entries, seconds = of[-1]
        lowest, y = (lowest, up(seconds) + 4) if entries < 10**_MOST else (min(up(seconds) + 4, lowest - 16),) * 2
        yield tag("text", command, x=across(entries) + 8, y=y, font_size=12, fill=INK)


PICTURES: dict[str, Callable[[], str]] = {
    "intervals.svg": intervals,
    "gates.svg": gates,
    "outcomes.svg": outcomes,
    "coverage.svg": coverage,
    "families.svg": families,
    "groups.svg": groups,
    "retries.svg": retries,
    "success-within.svg": success_within,
    "power.svg": power,
    "operating-points.svg": operating_points,
    "growth.svg": growth,
}


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
