"""An analysis as the versioned JSON document that programs read; `present/schemas/analysis-2.json` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from faircount.analysis.correction import arranged
from faircount.model import (
    Analysis,
    Combinations,
    CorrectedRate,
    Dynamic,
    Estimate,
    Examples,
    FalsePositives,
    Finding,
    Group,
    Retries,
    Slices,
    Source,
    WithinAttempts,
)
from faircount.version import __version__

KIND = "analysis"
SCHEMA = 2


def document(analyses: Sequence[Analysis]) -> dict[str, Any]:
    """Return the whole answer of `results analyze` as plain data; every key is always present."""
    return with_lists(
        {
            "kind": KIND,
            "schema": SCHEMA,
            "version": __version__,
            "analyses": [_analysis(analysis) for analysis in analyses],
        }
    )


def with_lists(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which tuples are lists, as JSON has them."""
    return {name: _as_lists(part) for name, part in document.items()}


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return with_lists(value)
    return [_as_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _analysis(a: Analysis) -> dict[str, Any]:
    return {
        "name": a.name,
        "definition": a.definition,
        "where": a.where,
        "level": a.level,
        "sources": [labelled_source_data(source) for source in a.sources],
        "entries": to_builtins(a.tally),
        "attempts": a.attempts,
        "rates": {
            "asr": estimate_data(a.asr),
            "asr_unclustered": estimate_data(a.asr_unclustered),
            "asr_judged": estimate_data(a.asr_judged),
            "asr_at_most": estimate_data(a.asr_at_most),
            "pass_rate": estimate_data(a.asr) if a.aim == "task" else None,
            "asr_corrected": None if a.correction is None else _estimate_or_none(a.correction.estimate),
        },
        "shares": to_builtins(a.shares),
        "correction": None if a.correction is None else arranged.data(a.correction, estimate_data),
        "aim": a.aim,
        "role": a.role,
        "failed_cases": None if a.failed_cases is None else _failed_cases(a.failed_cases),
        "flaky_cases": to_builtins(a.flaky_cases),
        "metrics": to_builtins(a.metrics),
        "families": to_builtins(a.families),
        "dynamic": None if a.dynamic is None else _dynamic(a.dynamic),
        "false_positives": None if a.false_positives is None else _false_positives(a.false_positives),
        "by_source": to_builtins(a.by_source),
        "breakdowns": {field: [_group(group) for group in groups] for field, groups in a.breakdowns.items()},
        "slices": {field: _slices(slices) for field, slices in a.slices.items()},
        "combinations": _combinations(a.combinations),
        "guardrail_categories": to_builtins(a.guardrail_categories),
        "categories_left_out": a.categories_left_out,
        "errors": to_builtins(a.errors),
        "errors_left_out": a.errors_left_out,
        "latency": to_builtins(a.latency),
        "attempts_to_success": to_builtins(a.attempts_to_success),
        "success_within": None if a.success_within is None else _success_within(a.success_within),
        "retries": None if a.retries is None else _retries(a.retries),
        "findings": to_builtins(a.findings),
        "limits": list(a.limits),
    }


def _failed_cases(failed: Examples) -> dict[str, Any]:
    cases = [
        {
            "entry": case.entry,
            "place": case.place,
            "measured": case.measured,
            "error": case.error,
            "passed": case.passed,
            "tries": case.tries,
        }
        for case in failed.shown
    ]
    return {"total": failed.total, "cases": cases}


def _slices(slices: Slices) -> dict[str, Any]:
    return {
        "shrinkage": slices.shrinkage,
        "untested": slices.untested or None,
        "same_as": slices.same_as,
        "left_out": slices.left_out,
    }


def _retries(retries: Retries) -> dict[str, Any]:
    return {
        "refused": retries.refused or None,
        "entries": retries.entries,
        "attempts": retries.attempts,
        "left_out": retries.left_out,
        "mean": _estimate_or_none(retries.mean),
        "standard_error": retries.standard_error,
        "naive_standard_error": retries.naive_standard_error,
        "icc": retries.icc,
        "flake_rate": _estimate_or_none(retries.flake_rate),
        "next_calls": {
            "calls": retries.calls,
            "with_entries": retries.with_entries,
            "with_retries": retries.with_retries,
        },
    }


def _estimate_or_none(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate_data(estimate)


def _success_within(found: WithinAttempts) -> dict[str, Any]:
    return {
        "refused": found.refused or None,
        "steps": to_builtins(found.steps),
        "half": estimate_data(found.half),
        "left_out": found.left_out,
    }


def labelled_source_data(source: Source) -> dict[str, Any]:
    """Return a file with what people call it and what was attacked or tested."""
    return {**source_data(source), "label": source.label, "target": source.target}


def source_data(source: Source) -> dict[str, Any]:
    return {
        "path": source.path,
        "tool": source.tool,
        "tool_version": source.tool_version,
        "reader": source.reader,
        "bytes": source.bytes,
        "lines": source.lines,
        "good_lines": source.good_lines,
        "bad_lines": source.bad_lines,
        "blank_lines": source.blank_lines,
    }


def estimate_data(estimate: Estimate) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(estimate)
    return found


def _dynamic(dynamic: Dynamic) -> dict[str, Any]:
    return {
        "initially_successful": dynamic.initially_successful,
        "only_with_attack": dynamic.only_with_attack,
        "initial_rate": estimate_data(dynamic.initial_rate),
        "improvement": estimate_data(dynamic.improvement),
        "attacks": [
            {
                "attack": figures.attack,
                "total": figures.total,
                "successes": figures.successes,
                "attempts": figures.attempts,
                "guardrail": figures.guardrail,
                "guardrail_entries": figures.guardrail_entries,
                "rate": estimate_data(figures.rate),
                **_corrected(figures.corrected),
            }
            for figures in dynamic.attacks
        ],
    }


def _false_positives(result: FalsePositives) -> dict[str, Any]:
    return {
        "benign": labelled_source_data(result.benign),
        "signal": result.signal,
        "tp": result.tp,
        "fn": result.fn,
        "tn": result.tn,
        "fp": result.fp,
        "left_out": to_builtins(result.left_out),
        "precision": estimate_data(result.precision),
        "recall": estimate_data(result.recall),
        "f1": estimate_data(result.f1),
        "accuracy": estimate_data(result.accuracy),
        "fpr": estimate_data(result.fpr),
        "balanced_accuracy": estimate_data(result.balanced_accuracy),
    }


def _group(group: Group) -> dict[str, Any]:
    return {"value": group.value, **_group_figures(group), **_corrected(group.corrected)}


def _corrected(corrected: CorrectedRate | None) -> dict[str, Any]:
    if corrected is None:
        return {"asr_corrected": None, "corrected_status": None, "corrected_labels": None}
    labels = corrected.labels
    return {
        "asr_corrected": _estimate_or_none(corrected.estimate),
        "corrected_status": str(corrected.status),
        "corrected_labels": None if labels is None else {"successes": labels[0], "failures": labels[1]},
    }


def _group_figures(group: Group) -> dict[str, Any]:
    counts = group.counts
    return {
        "total": counts.tally.total,
        "successes": counts.tally.success,
        "failures": counts.tally.failure,
        "errors": counts.tally.error,
        "guardrail": counts.tally.guardrail,
        "unjudged": counts.tally.unjudged,
        "guardrail_any": counts.guardrail_any,
        "initial": counts.initial,
        "attack_only": counts.attack_only,
        "attempts": counts.attempts,
        "rate": estimate_data(group.rate),
        "initial_rate": estimate_data(group.initial_rate),
        "improvement": estimate_data(group.improvement),
        "guardrail_rate": estimate_data(group.guardrail_rate),
        "rate_at_most": estimate_data(group.rate_at_most),
        "shares": to_builtins(group.shares),
        "families": {"count": group.families, "design_effect": group.design_effect} if group.families else None,
        "small": group.small,
        "shrunk": _estimate_or_none(group.shrunk),
        "against_rest": to_builtins(group.against_rest),
    }


def _combinations(combinations: Combinations) -> dict[str, Any]:
    return {
        "fields": list(combinations.fields),
        "min_n": combinations.min_n,
        "count": combinations.count,
        "shrinkage": combinations.shrinkage,
        "most": [_combination(group) for group in combinations.most],
        "least": [_combination(group) for group in combinations.least],
    }


def _combination(group: Group) -> dict[str, Any]:
    return {"values": dict(group.values), **_group_figures(group)}


def finding_data(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(finding)
    return found
