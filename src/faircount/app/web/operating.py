"""The page about the thresholds of guardrails: curves of several on one figure, and what a threshold costs.

Every number is the library's. The page works by links and forms; a script only answers the sliders of costs and
prevalence at once, from the points that the page holds, and then asks for the page with them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.operating.points import (
    PROMPTS,
    FileScores,
    GuardrailCurve,
    OperatingPoints,
    ThresholdOutlook,
    points_of,
    read_scores,
)
from faircount.analysis.operating.report import (
    alarms_of,
    answer,
    precision_of,
    precision_recall_curves,
    recall_of,
    roc_curves,
    shown_cost,
    shown_threshold,
)
from faircount.analysis.options import ATTACK_SCORES, SCORE_MEANINGS, OperatingOptions, read_share
from faircount.app.web.pages import Query, partner_of, role_of_run
from faircount.app.web.runs import Run, Runs, Stamp
from faircount.core.errors import FaircountError, UsageError
from faircount.core.model import Estimate
from faircount.report import formats
from faircount.report.svg import curves_svg

MOST_PAIRS = 4
"""So many guardrails are shown where nobody has chosen any; more lines than that are hard to tell apart."""
_COSTS = {"cost_false_alarm": 1.0, "cost_miss": 10.0}
_FIELDS = {
    " with --score FIELD": " below",
    " with --score": " below",
    "use --score-means benign; otherwise leave that option out": "choose benign below; otherwise choose attack",
    "--score ": "Field of the score: ",
    "--max-fpr": "False positive rate at most:",
    "--min-recall": "Recall at least:",
    "--prevalence": "Share of attacks:",
    "--cost-false-alarm": "Cost of a false alarm:",
    "--cost-miss": "Cost of a missed attack:",
}


class GuardrailRuns(Struct, frozen=True):
    """A run over attacks, and the run over harmless prompts that goes with it."""

    run: Run
    benign: Run
    chosen: bool


class ThresholdLine(Struct, frozen=True):
    """What a threshold that has a name does, in figures."""

    guardrail: int
    name: str
    what: str
    threshold: str
    recall: str
    alarms: str
    precision: str
    cost: str


class OperatingPage(Struct, frozen=True):
    """The thresholds of some guardrails; `problems` say which pairs have no curve, and why."""

    pairs: tuple[GuardrailRuns, ...]
    benign: tuple[Run, ...]
    values: Mapping[str, str]
    problem: str
    problems: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    figures: tuple[tuple[str, Markup], ...]
    lines: tuple[ThresholdLine, ...]
    notes: tuple[tuple[str, str], ...]
    points: str
    level: str
    meanings: tuple[str, ...] = SCORE_MEANINGS
    prompts: int = PROMPTS


class OperatingPages:
    """Makes the page; scores that were read are kept until their file changes."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._scores: dict[tuple[str, str | None], tuple[Stamp, FileScores]] = {}
        self._lock = threading.Lock()

    def page(self, query: Query) -> OperatingPage:
        """Return the page; the address says which runs, and what is asked of them."""
        said = dict(query)
        self._runs.summed_up(None)
        benign = tuple(run for run in self._runs.all if role_of_run(run) == "benign")
        pairs = tuple(self._pairs(query, benign))
        values, options, problem = _asked(said)
        read, problems = [], []
        for pair in pairs:
            if pair.chosen:
                try:
                    read.append((self._read(pair.run, options), self._read(pair.benign, options)))
                except FaircountError as error:
                    problems.append((pair.run.label, _in_words_of_the_page(str(error))))
        found = None
        if read:
            try:
                found = points_of(read, options)
            except FaircountError as error:
                problem = _in_words_of_the_page(str(error))
        curves = () if found is None else found.guardrails
        return OperatingPage(
            pairs=pairs,
            benign=benign,
            values=values,
            problem=problem,
            problems=tuple(problems),
            sentences=() if found is None else tuple(_sentences(found)),
            figures=() if found is None else tuple(_figures(found)),
            lines=() if found is None else tuple(_lines(found)),
            notes=tuple((curve.name, _in_words_of_the_page(note)) for curve in curves for note in curve.notes),
            points=json.dumps([_points(curve) for curve in curves]),
            level=formats.exact_percent(options.level),
        )

    def _pairs(self, query: Query, benign: Sequence[Run]) -> Iterator[GuardrailRuns]:
        named = [value for name, value in query if name == "run"]
        beside = {name.removeprefix("benign."): value for name, value in query if name.startswith("benign.")}
        shown = 0
        for run in self._runs.all:
            if run in benign:
                continue
            partner = next((one for one in benign if one.id == beside.get(run.id)), None) or partner_of(run, benign)
            if partner is None and run.id in named and benign:
                partner = benign[0]
            if partner is None:
                continue
            chosen = run.id in named if named else shown < MOST_PAIRS
            shown += chosen
            yield GuardrailRuns(run, partner, chosen)

    def _read(self, run: Run, options: OperatingOptions) -> FileScores:
        """Return the scores of a run; families and everything else that is asked is always the same on this page."""
        key, stamp = (run.id, options.score), run.stamp
        with self._lock:
            known = self._scores.get(key)
        if known is None or known[0] != stamp:
            known = stamp, read_scores(run.results(rows=True), options)
            with self._lock:
                self._scores[key] = known
        return known[1]


def _in_words_of_the_page(problem: str) -> str:
    """Return a message or note of the command with the field of the form in place of its option."""
    for option, words in _FIELDS.items():
        problem = problem.replace(option, words)
    return problem


def _asked(said: Mapping[str, str]) -> tuple[dict[str, str], OperatingOptions, str]:
    """Return what the fields of the form hold, the options that they make, and what is wrong with them."""
    names = ("score", "score_means", "max_fpr", "min_recall", "prevalence", *_COSTS)
    values = {name: said.get(name, "").strip()[:200] for name in names}
    given: dict[str, Any] = dict(_COSTS)
    usual = OperatingOptions(**given)
    try:
        for name in ("max_fpr", "min_recall", "prevalence"):
            if values[name]:
                given[name] = read_share(values[name])
        for name in _COSTS:
            if values[name]:
                given[name] = float(values[name])
        if values["score"]:
            given["score"] = values["score"]
        if values["score_means"] in SCORE_MEANINGS:
            given["score_means"] = values["score_means"]
        options, problem = OperatingOptions(**given), ""
    except ValueError:
        options, problem = usual, "Shares are numbers such as 1% or 0.01, costs are numbers."
    except UsageError as error:
        options, problem = usual, _in_words_of_the_page(str(error))
    shown = {name: values[name] or f"{_COSTS[name]:g}" for name in _COSTS}
    asked = {"max_fpr": values["max_fpr"] or ("" if values["min_recall"] else "1%")}
    return {**values, **shown, **asked, "score_means": values["score_means"] or ATTACK_SCORES}, options, problem


def _sentences(found: OperatingPoints) -> Iterator[str]:
    for curve in found.guardrails:
        for point in curve.points:
            yield f"{curve.name}: {answer(point)}" if len(found.guardrails) > 1 else answer(point)


def _figures(found: OperatingPoints) -> Iterator[tuple[str, Markup]]:
    # What is cheapest moves with the sliders; the script marks it.
    still = replace(found, guardrails=tuple(replace(curve, cheapest=None) for curve in found.guardrails))
    for figure in (roc_curves(still), precision_recall_curves(still)):
        yield figure.title, Markup(curves_svg(figure))


def _lines(found: OperatingPoints) -> Iterator[ThresholdLine]:
    for number, curve in enumerate(found.guardrails):
        by_threshold = {step.rates.threshold: step for step in curve.steps}
        for point in curve.points:
            step = by_threshold.get(point.threshold)
            if point.threshold is not None and step is not None:
                wanted = formats.exact_percent(point.wanted)
                what = f"FPR at most {wanted}" if point.held == "false_positive_rate" else f"recall at least {wanted}"
                yield _line(number, curve, what, step, (point.recall, point.false_positive_rate))
        if curve.cheapest is not None:
            cheapest = curve.cheapest
            yield _line(number, curve, "cheapest", cheapest, (recall_of(cheapest, curve), alarms_of(cheapest, curve)))


def _line(
    number: int, curve: GuardrailCurve, what: str, step: ThresholdOutlook, rates: tuple[Estimate, Estimate]
) -> ThresholdLine:
    cost = step.cost
    assert cost is not None
    return ThresholdLine(
        number,
        curve.name,
        what,
        shown_threshold(step.rates.threshold),
        formats.estimate(rates[0]),
        formats.estimate(rates[1]),
        formats.estimate(precision_of(step, curve)),
        f"{shown_cost(cost.value)} [{shown_cost(cost.low)}, {shown_cost(cost.high)}]",
    )


def _points(curve: GuardrailCurve) -> dict[str, Any]:
    """Return what the script works with: thresholds with rates and limits; where it is cheapest is among them."""
    rates = [step.rates for step in curve.steps]
    return {
        "prevalence": curve.prevalence,
        "steps": [
            [
                one.threshold,
                one.recall,
                one.recall_low,
                one.recall_high,
                one.false_positive_rate,
                one.false_positive_rate_low,
                one.false_positive_rate_high,
            ]
            for one in rates
        ],
        "recalls": [formats.estimate(recall_of(step, curve)) for step in curve.steps],
        "alarms": [formats.estimate(alarms_of(step, curve)) for step in curve.steps],
    }
