"""A comparison as the versioned JSON document that programs read; `present/schemas/comparison-2.json` describes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from faircount.analysis.comparing.found import (
    Breakdown,
    Comparison,
    CorrectedPair,
    Figures,
    File,
    Flip,
    Flips,
    Group,
    LeftOut,
    Pair,
    Scores,
)
from faircount.model import Estimate, JudgeCorrection
from faircount.version import __version__

KIND = "comparison"
SCHEMA = 2


def document(comparison: Comparison) -> dict[str, Any]:
    """Return the whole answer of `results compare` as plain data; every key is always present."""
    found: dict[str, Any] = _with_lists(
        {
            "kind": KIND,
            "schema": SCHEMA,
            "version": __version__,
            "aim": comparison.aim,
            "level": comparison.level,
            "files": [_file(file) for file in comparison.files],
            "pairs": [_pair(pair, comparison) for pair in comparison.pairs],
            "overall": to_builtins(comparison.overall),
            "copies": [{"path": copy, "same_as": original} for copy, original in comparison.copies],
            "findings": to_builtins(comparison.findings),
            "limits": list(comparison.limits),
        }
    )
    return found


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_lists(part) for name, part in value.items()}
    return [_with_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _file(file: File) -> dict[str, Any]:
    return {
        **{name: told for name, told in to_builtins(file.source).items() if name not in ("aim", "stop_rule")},
        "entries": to_builtins(file.tally),
        "rate": estimate_data(file.rate),
        "shares": to_builtins(file.shares),
        "corrected": _estimate(file.corrected),
        "correction": None if file.correction is None else _correction(file.correction),
    }


def _correction(found: JudgeCorrection) -> dict[str, Any]:
    return {
        "file": found.file,
        "labels_from": found.labels_from,
        "method": found.method,
        "status": found.status,
        "judge": found.judge,
        "run_judges": list(found.run_judges),
        "sensitivity": estimate_data(found.sensitivity),
        "specificity": estimate_data(found.specificity),
        "judged": _estimate(found.judged),
        "labels": to_builtins(found.labels),
        "more_labels": found.more_labels,
        "sentences": list(found.sentences),
    }


def estimate_data(estimate: Estimate) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(estimate)
    return found


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate_data(estimate)


def _pair(pair: Pair, comparison: Comparison) -> dict[str, Any]:
    a, b = (comparison.files[place] for place in (pair.a, pair.b))
    return {
        "a": a.source.path,
        "b": b.source.path,
        "labels": [a.label, b.label],
        **_figures(pair.figures),
        "mid_p": pair.figures.mid_p,
        "odds_ratio": _estimate(pair.figures.odds_ratio),
        "corrected": None if pair.corrected is None else _corrected(pair.corrected),
        "test": None if pair.p is None else pair.test,
        "p": pair.p,
        "adjusted_p": pair.adjusted_p,
        "flips": {"fixed": list(pair.fixed.ids), "broken": list(pair.broken.ids)},
        "shown": {"fixed": _shown(pair.fixed), "broken": _shown(pair.broken)},
        "by": {found.field: [_group(group) for group in found.groups] for found in pair.by},
        "differing_values": _differing(pair.by),
        "scores": _scores(pair.scores),
        "claim": pair.claim,
        "claimed": {1: "higher", -1: "lower", 0: None}[pair.claimed],
        "detectable": pair.detectable,
        "families_told": pair.families,
        "notes": list(pair.notes),
        "unpaired": {
            "fallback": not pair.paired,
            "a": _left_out(pair.unpaired.a),
            "b": _left_out(pair.unpaired.b),
        },
    }


def _corrected(found: CorrectedPair) -> dict[str, Any]:
    return {
        "status": found.status,
        "method": found.method,
        "rate_a": _estimate(found.rate_a),
        "rate_b": _estimate(found.rate_b),
        "difference": _estimate(found.difference),
        "p": found.p,
        "adjusted_p": found.adjusted_p,
        "reason": found.reason or None,
        "sentences": list(found.sentences),
    }


def _figures(figures: Figures) -> dict[str, Any]:
    table = figures.table
    return {
        "paired": table.paired,
        "both": table.both,
        "only_a": table.only_a,
        "only_b": table.only_b,
        "neither": table.neither,
        "rate_a": estimate_data(figures.rate_a),
        "rate_b": estimate_data(figures.rate_b),
        "difference": estimate_data(figures.difference),
        "mcnemar_p": figures.mcnemar_p,
        "families": figures.families,
        "families_p": figures.families_p,
        "effective_n": figures.effective_n,
        "degrees": figures.degrees,
        "undecided": figures.undecided,
        "bounds": None
        if figures.bounds is None
        else dict(zip(("lowest", "highest"), map(_figures, figures.bounds), strict=True)),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "value": group.value,
        **_figures(group.figures),
        "adjusted_p": group.adjusted_p,
        "stands_out": group.stands_out,
        "small": group.small,
    }


def _differing(by: Iterable[Breakdown]) -> dict[str, int]:
    return {found.field: found.differing for found in by}


def _shown(flips: Flips) -> list[dict[str, Any]]:
    return [_flip(flip) for flip in flips.shown]


def _flip(flip: Flip) -> dict[str, Any]:
    return {
        "id": flip.entry,
        "where": [flip.place_a, flip.place_b],
        "judge": flip.judge,
        "prompt": flip.prompt.text,
        "response_a": flip.response_a.text,
        "response_b": flip.response_b.text,
    }


def _scores(scores: Scores) -> dict[str, Any]:
    return {
        "refused": scores.refused or None,
        "metrics": to_builtins(scores.metrics),
    }


def _left_out(found: Iterable[LeftOut]) -> dict[str, Any]:
    return {item.reason: {"count": item.count, "where": list(item.where)} for item in found}
