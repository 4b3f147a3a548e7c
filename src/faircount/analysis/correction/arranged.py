"""A corrected rate arranged for a report, and as data for the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from faircount.findings import counted
from faircount.model import Analysis, Estimate, JudgeCorrection
from faircount.report import Block, Fact, Facts, Paragraph, Place, Record, Section

_METHODS = {
    "rogan-gladen": "Rogan-Gladen with the interval of Lang and Reiczigel",
    "two-phase": "two-phase, by the labels of each verdict",
    "ppi": "prediction-powered (PPI++)",
}


def section(a: Analysis, correction: JudgeCorrection) -> Section:
    """Return raw and corrected rate side by side, and what the latter rests on."""
    blocks: list[Block] = [Facts(tuple(_rates(a, correction))), Facts(tuple(_grounds(correction)))]
    told = _in_short(a, correction)
    blocks += [Paragraph(text) for text in ([told] if told else []) + list(correction.sentences)]
    return Section("Corrected for the judge", tuple(blocks))


def _rates(a: Analysis, correction: JudgeCorrection) -> Iterator[Fact]:
    yield Fact("Raw, as judged", None, a.asr)
    if correction.estimate is None:
        yield Fact("Corrected", "not identifiable" if correction.status == "not_identifiable" else "none")
    else:
        yield Fact("Corrected", None, correction.estimate)
    if a.asr_judged.n != a.asr.n and correction.judged is not None:
        yield Fact("raw, over judged entries", None, a.asr_judged, depth=1)
        yield Fact("corrected, over judged entries", None, correction.judged, depth=1)
    yield Fact("Sensitivity", None, correction.sensitivity, "true successes found")
    yield Fact("Specificity", None, correction.specificity, "true failures called so")


def _grounds(correction: JudgeCorrection) -> Iterator[Fact]:
    yield Fact("Method", _METHODS[correction.method])
    yield Fact("Labels", f"{correction.labels:,}, of which {correction.hits:,} say success")
    if correction.left_out:
        yield Fact("left out", correction.left_out, depth=1)
    yield Fact("from", Place(correction.file), depth=1)
    if correction.judge is not None:
        yield Fact("of the judge", Record(correction.judge), depth=1)


def _in_short(a: Analysis, correction: JudgeCorrection) -> str:
    """Return the one sentence to quote."""
    if correction.estimate is None:
        return ""
    labels = "these" if correction.labels_from == "run" else "its"
    return f"With {labels} {counted(correction.labels, 'label')}: {_told(correction.estimate)}, raw {_told(a.asr)}."


def _told(estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f} %"
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def data(correction: JudgeCorrection, estimate_data: Callable[[Estimate], dict[str, Any]]) -> dict[str, Any]:
    """Return a correction as plain data."""
    return {
        "file": correction.file,
        "labels_from": correction.labels_from,
        "method": correction.method,
        "status": correction.status,
        "judge": correction.judge,
        "run_judges": list(correction.run_judges),
        "sensitivity": estimate_data(correction.sensitivity),
        "specificity": estimate_data(correction.specificity),
        "judged": None if correction.judged is None else estimate_data(correction.judged),
        "labels": {"n": correction.labels, "hits": correction.hits, "left_out": correction.left_out},
        "more_labels": correction.more_labels,
        "sentences": list(correction.sentences),
    }
