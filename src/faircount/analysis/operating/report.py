"""The report of `results operating-point`: the answer first, then curves, thresholds, costs, and what was counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from faircount.analysis.operating.points import (
    PROMPTS,
    UNIT,
    GuardrailCurve,
    OperatingPoints,
    ScoredFile,
    ThresholdOutlook,
)
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Curve,
    Curves,
    Fact,
    Findings,
    Label,
    Lead,
    Mark,
    Paragraph,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.stats import OperatingPoint

_ALARMS, _RECALLS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0), (0.25, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Thresholds next to these rates are shown."""
_BAND = "clopper-pearson, simultaneous"
_LIMITS = (
    "The bounds hold for prompts like those of the files, and for the guardrail as it was. Harmless prompts of another "
    "kind may have other scores.",
    "A threshold for a false positive rate is chosen from the harmless prompts alone, one for a recall from the "
    "attacks alone. The bound of that rate allows for the choice; the other rate has its usual interval. Costs depend "
    "on both, so their limits are those of the band.",
)


def operating_report(found: OperatingPoints, *, figures: bool = False) -> Report:
    """Arrange operating points into a report."""
    sections = [Section("Operating points", tuple(_opening(found)), level=1)]
    sections.append(Section("Thresholds chosen", tuple(_chosen(found))))
    if figures:
        sections.append(Section("Curves", tuple(_curves(found))))
    sections += [
        Section("Thresholds of", tuple(_thresholds(found, one)), subject=Record(one.name)) for one in found.guardrails
    ]
    sections.append(Section("What was counted", (_counted(found),)))
    if notes := [(Record(one.name), note) for one in found.guardrails for note in one.notes]:
        sections.append(Section("Read with care", (text_table(("Guardrail", "Note"), notes),)))
    sections.append(Section("Limits of these numbers", tuple(map(Paragraph, _LIMITS))))
    return Report(tuple(sections), found)


def shown_threshold(threshold: float | None) -> str:
    """Return a threshold as it is shown; without one, nothing is blocked."""
    if threshold is None:
        return "none"
    short = f"{threshold:.6g}"
    return short if float(short) == threshold else repr(threshold)


# -- the answer -------------------------------------------------------------------------------------------------------


def _opening(found: OperatingPoints) -> Iterator[Block]:
    paragraphs, figures = [], []
    several = len(found.guardrails) > 1
    for curve in found.guardrails:
        for point in curve.points:
            sentence = answer(point)
            name = clip(visible(curve.name), 60)
            paragraphs.append(f"{name}: {sentence[0].lower()}{sentence[1:]}" if several else sentence)
    if not several and found.guardrails[0].points[0].threshold is not None:
        point = found.guardrails[0].points[0]
        figures = [
            Fact("Attacks blocked", None, point.recall, f"at a threshold of {shown_threshold(point.threshold)}"),
            Fact("Harmless prompts blocked", None, point.false_positive_rate),
        ]
    yield Lead(tuple(paragraphs), tuple(figures))
    if found.findings:
        yield Findings(found.findings)


def answer(point: OperatingPoint) -> str:
    """Return what a chosen threshold does, in a sentence, or why there is none."""
    wanted, level = formats.exact_percent(point.wanted), formats.exact_percent(point.level)
    of_alarms = point.held == "false_positive_rate"
    if point.threshold is not None:
        other = point.recall if of_alarms else point.false_positive_rate
        held = (
            f"the false positive rate is at most {wanted}" if of_alarms else f"at least {wanted} of attacks are blocked"
        )
        also = "of the attacks are blocked" if of_alarms else "of the harmless prompts are blocked"
        threshold = shown_threshold(point.threshold)
        return f"At a threshold of {threshold} {held} ({level} confidence), and {formats.estimate(other)} {also}."
    what = f"a false positive rate of at most {wanted}" if of_alarms else f"a recall of at least {wanted}"
    n = point.false_positive_rate.n if of_alarms else point.recall.n
    kind, error = ("harmless prompt", "a false alarm") if of_alarms else ("attack", "a miss")
    if point.most_errors is None:
        return (
            f"No threshold can show {what} ({level} confidence): {counted(n, kind)} {'is' if n == 1 else 'are'} too "
            f"few; {point.samples_needed:,} without {error} would be enough."
        )
    # Only of harmless prompts: the score of a missed attack is a threshold.
    allowed, more = (f"at most {point.most_errors:,}", "more") if point.most_errors else ("none", "some")
    why = f"{allowed} of the {n:,} {kind}s may be blocked, but {more} have the most attack-like score of all"
    return f"No threshold holds {what} ({level} confidence): {why}."


def _chosen(found: OperatingPoints) -> Iterator[Block]:
    rows = [(curve, point) for curve in found.guardrails for point in curve.points]
    end = "at or above" if found.blocks == "at least" else "at or below"
    yield table(
        rows,
        text_column("Guardrail", lambda row: Record(row[0].name)),
        text_column("Requirement", lambda row: _held(row[1])),
        number_column("Threshold", lambda row: shown_threshold(row[1].threshold)),
        number_column("False positive rate", lambda row: row[1].false_positive_rate),
        number_column("Recall", lambda row: row[1].recall),
        note=f"Scores {end} the threshold are blocked. The required rate has a one-sided limit (Clopper-Pearson) that "
        "is valid although the threshold was chosen on the same data; the other rate has its usual interval.",
    )
    yield table(
        found.guardrails,
        text_column("Guardrail", lambda curve: Record(curve.name)),
        number_column("Area under the ROC curve", lambda curve: curve.roc_auc),
        number_column("Average precision", lambda curve: _plain(curve.average_precision, curve)),
    )


def _held(point: OperatingPoint) -> str:
    wanted = formats.exact_percent(point.wanted)
    return f"FPR ≤ {wanted}" if point.held == "false_positive_rate" else f"recall ≥ {wanted}"


def _plain(value: float | None, curve: GuardrailCurve) -> Estimate | None:
    n = curve.attacks.scored + curve.benign.scored
    return None if value is None else Estimate(value, None, None, n, UNIT, curve.roc_auc.level, "no interval")


# -- curves -----------------------------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]
"""The limits of a point: the least and the largest x, the least and the largest y."""


def _curves(found: OperatingPoints) -> Iterator[Block]:
    yield roc_curves(found)
    yield precision_recall_curves(found)
    yield Paragraph(
        f"With {formats.exact_percent(found.level)} confidence, the shaded area holds the points of all thresholds at "
        "once. You may choose a threshold by looking at it."
    )


def roc_curves(found: OperatingPoints) -> Curves:
    """Return the ROC curves of all guardrails on one figure."""
    curves = [
        Curve(
            Record(curve.name),
            tuple((step.rates.false_positive_rate, step.rates.recall) for step in curve.steps),
            tuple(_marks(found, curve, lambda rates: (rates.rates.false_positive_rate, rates.rates.recall))),
            band=envelope([_roc_box(step) for step in curve.steps]),
        )
        for curve in found.guardrails
    ]
    return Curves("ROC curve", "false positive rate", "recall", tuple(curves), diagonal=True, band=_band_words(found))


def precision_recall_curves(found: OperatingPoints) -> Curves:
    """Return the curves of precision against recall of all guardrails on one figure."""
    curves = []
    for curve in found.guardrails:
        steps = [step for step in curve.steps if step.precision.value is not None]
        points = tuple((step.rates.recall, step.precision.value or 0.0) for step in steps)
        marks = _marks(found, curve, lambda step: (step.rates.recall, step.precision.value))
        curves.append(
            Curve(
                Record(curve.name),
                ((0.0, points[0][1]), *points),
                tuple(marks),
                stepped=True,
                band=envelope([_precision_box(step) for step in curve.steps]),
            )
        )
    shares = {formats.exact_percent(float(f"{curve.prevalence:.3g}")) for curve in found.guardrails}
    title = "Precision and recall" + (f", with {next(iter(shares))} attacks" if len(shares) == 1 else "")
    return Curves(title, "recall", "precision", tuple(curves), band=_band_words(found))


def _band_words(found: OperatingPoints) -> str:
    return f"{formats.exact_percent(found.level)} band for all thresholds at once"


def _roc_box(step: ThresholdOutlook) -> Box:
    rates = step.rates
    return rates.false_positive_rate_low, rates.false_positive_rate_high, rates.recall_low, rates.recall_high


def _precision_box(step: ThresholdOutlook) -> Box:
    low, high = step.precision.low, step.precision.high
    return step.rates.recall_low, step.rates.recall_high, low or 0.0, 1.0 if high is None else high


def _marks(
    found: OperatingPoints,
    curve: GuardrailCurve,
    place: Callable[[ThresholdOutlook], tuple[float, float | None]],
) -> Iterator[Mark]:
    several = f"{clip(visible(curve.name), 24)}: " if len(found.guardrails) > 1 else ""
    named = [(point.threshold, _held(point)) for point in curve.points]
    if curve.cheapest is not None:
        named.append((curve.cheapest.rates.threshold, "cheapest"))
    for threshold, words in named:
        step = next((one for one in curve.steps if one.rates.threshold == threshold), None)
        if threshold is not None and step is not None:
            x, y = place(step)
            if y is not None:
                yield Mark(x, y, f"{several}{words}: threshold {shown_threshold(threshold)}")


def envelope(boxes: Sequence[Box]) -> tuple[tuple[float, float], ...]:
    """Return the corners of an area that holds every box: for each x the least and the largest y of those around it.

    Between two places at which a box begins or ends, what is around does not change; a straight line from one to the
    next holds more.
    """
    import numpy as np

    left, right, bottom, top = (np.array(side) for side in zip(*boxes, strict=True))
    places = np.unique(np.concatenate([left, right]))
    if len(places) > _MOST_CORNERS:
        # Outwards, so that no corner of a box is left out.
        scale = _MOST_CORNERS / 2
        left, right = np.floor(left * scale) / scale, np.ceil(right * scale) / scale
        places = np.unique(np.concatenate([left, right]))
    around = (left <= places[:, None]) & (places[:, None] <= right)
    inside = around.any(axis=1)
    highest = np.where(around, top, -1.0).max(axis=1)[inside]
    lowest = np.where(around, bottom, 2.0).min(axis=1)[inside]
    there = places[inside]
    upper = [(round(float(x), 5), round(float(y), 5)) for x, y in zip(there, highest, strict=True)]
    lower = [(round(float(x), 5), round(float(y), 5)) for x, y in zip(there, lowest, strict=True)]
    return (*upper, *reversed(lower))


_MOST_CORNERS = 240


# -- every threshold --------------------------------------------------------------------------------------------------


def shown_steps(curve: GuardrailCurve) -> list[ThresholdOutlook]:
    """Return the thresholds that come next to some rates that people ask for, and those that have a name."""
    named = {point.threshold for point in curve.points}
    named |= set() if curve.cheapest is None else {curve.cheapest.rates.threshold}
    rates = [step.rates for step in curve.steps]
    places = {at for at, step in enumerate(rates) if step.threshold in named}
    places |= {max(at for at, step in enumerate(rates) if step.false_positive_rate <= wanted) for wanted in _ALARMS}
    places |= {min(at for at, step in enumerate(rates) if step.recall >= wanted) for wanted in _RECALLS}
    return [curve.steps[at] for at in sorted(places - {0}) or [0]]


def _thresholds(found: OperatingPoints, curve: GuardrailCurve) -> Iterator[Block]:
    chosen: dict[float | None, str] = {}
    for point in curve.points:
        if point.threshold is not None:
            chosen[point.threshold] = " and ".join(filter(None, [chosen.get(point.threshold), _held(point)]))
    cheapest = curve.cheapest
    if cheapest is not None and found.costs is not None:
        rates, cost = cheapest.rates, cheapest.cost
        assert cost is not None
        at = "blocking nothing" if rates.threshold is None else f"a threshold of {shown_threshold(rates.threshold)}"
        yield Paragraph(
            f"Cheapest, tuned on this data: {at}, at a cost of {shown_cost(cost.value)} for {PROMPTS:,} prompts, "
            f"between {shown_cost(cost.low)} and {shown_cost(cost.high)} ({formats.exact_percent(found.level)} "
            "confidence, whichever threshold is chosen)."
        )
        if rates.threshold is not None:
            chosen[rates.threshold] = " and ".join(filter(None, [chosen.get(rates.threshold), "cheapest"]))
    share = formats.exact_percent(float(f"{curve.prevalence:.3g}"))
    costs = found.costs
    price = "" if costs is None else f" A false alarm costs {costs.false_alarm:g}, a missed attack {costs.miss:g}."
    yield table(
        shown_steps(curve),
        number_column("Threshold", lambda step: shown_threshold(step.rates.threshold)),
        number_column("Recall", lambda step: recall_of(step, curve)),
        number_column("False positive rate", lambda step: alarms_of(step, curve)),
        number_column("Precision", lambda step: precision_of(step, curve), rank=2),
        number_column(
            f"Cost of {PROMPTS:,}",
            lambda step: None if step.cost is None else shown_cost(step.cost.value),
            rank=1,
            when=found.costs is not None,
        ),
        text_column("", lambda step: chosen.get(step.rates.threshold, ""), when=bool(chosen)),
        note=f"{counted(curve.thresholds, 'threshold')} in all. Brackets hold for all thresholds at once "
        f"({formats.exact_percent(found.level)} confidence; exact limits at equal local levels). Precision is for "
        f"traffic with {share} attacks.{price}",
    )


def recall_of(step: ThresholdOutlook, curve: GuardrailCurve) -> Estimate:
    """Return the recall of a threshold with its simultaneous limits."""
    rates = step.rates
    return _of(rates.recall, rates.recall_low, rates.recall_high, curve.attacks.scored, curve)


def alarms_of(step: ThresholdOutlook, curve: GuardrailCurve) -> Estimate:
    """Return the false positive rate of a threshold with its simultaneous limits."""
    rates = step.rates
    low, high = rates.false_positive_rate_low, rates.false_positive_rate_high
    return _of(rates.false_positive_rate, low, high, curve.benign.scored, curve)


def precision_of(step: ThresholdOutlook, curve: GuardrailCurve) -> Estimate:
    """Return the precision of a threshold with its simultaneous limits."""
    one = step.precision
    return _of(one.value, one.low, one.high, curve.attacks.scored + curve.benign.scored, curve)


def _of(value: float | None, low: float | None, high: float | None, n: int, curve: GuardrailCurve) -> Estimate:
    return Estimate(value, low, high, n, UNIT, curve.roc_auc.level, _BAND)


def shown_cost(cost: float | None) -> str:
    """Return a cost as it is shown."""
    return "" if cost is None else f"{cost:,.4g}" if abs(cost) < 10_000 else f"{cost:,.0f}"


def _counted(found: OperatingPoints) -> Block:
    rows: list[tuple[GuardrailCurve, str, ScoredFile, float]] = []
    for curve in found.guardrails:
        rows.append((curve, "attacks", curve.attacks, curve.attacks_effect))
        rows.append((curve, "harmless", curve.benign, curve.benign_effect))
    files = [file for _, _, file, _ in rows]
    return table(
        rows,
        text_column("Guardrail", lambda row: Record(row[0].name), when=len(found.guardrails) > 1),
        text_column("Prompts", lambda row: row[1]),
        text_column("File", lambda row: Label(row[2].label), rank=3),
        number_column("Entries", lambda row: row[2].entries),
        number_column("Scored", lambda row: row[2].scored),
        number_column("Worth", lambda row: round(row[2].scored / row[3]), when=any(row[3] > 1 for row in rows)),
        number_column("Errors", lambda row: row[2].errors, rank=1),
        number_column("Blocked, no score", lambda row: row[2].blocks, rank=2, when=any(one.blocks for one in files)),
        number_column("Other, no score", lambda row: row[2].others, rank=2, when=any(one.others for one in files)),
        note="Entries without a score are not counted. An attack with several attempts counts as blocked if all of "
        "them are; a harmless prompt counts as a false alarm if any of them is blocked."
        + (" Worth: how many independent entries the variants count as." if any(row[3] > 1 for row in rows) else ""),
    )
