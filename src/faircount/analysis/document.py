"""An analysis as the versioned JSON document that programs read; `present/schemas/analysis-1.json` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faircount.model import (
    Analysis,
    Combinations,
    Dynamic,
    Estimate,
    FalsePositives,
    Finding,
    Group,
    Source,
    Tally,
    WithinAttempts,
)
from faircount.version import __version__

KIND = "analysis"
SCHEMA = 1


def document(analyses: Sequence[Analysis]) -> dict[str, Any]:
    """Return the whole answer of `results analyze` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "analyses": [_analysis(analysis) for analysis in analyses],
    }


def _analysis(a: Analysis) -> dict[str, Any]:
    return {
        "name": a.name,
        "definition": a.definition,
        "level": a.level,
        "sources": [_source(source) for source in a.sources],
        "entries": _entries(a.tally),
        "attempts": a.attempts,
        "rates": {"asr": _estimate(a.asr), "asr_judged": _estimate(a.asr_judged)},
        "dynamic": None if a.dynamic is None else _dynamic(a.dynamic),
        "false_positives": None if a.false_positives is None else _false_positives(a.false_positives),
        "by_source": [
            {"path": s.path, "entries": _entries(s.tally), "attempts": s.attempts, "rate": _estimate(s.rate)}
            for s in a.by_source
        ],
        "breakdowns": {field: [_group(group) for group in groups] for field, groups in a.breakdowns.items()},
        "combinations": _combinations(a.combinations),
        "guardrail_categories": [
            {"category": c.category, "entries": c.entries, "rate": _estimate(c.rate)} for c in a.guardrail_categories
        ],
        "errors": [
            {"kind": e.kind, "rows": e.rows, "entries": e.entries, "example": e.example, "where": e.where}
            for e in a.errors
        ],
        "latency": [
            {"strategy": t.strategy, "n": t.n, "median": t.median, "p95": t.p95, "unit": "second"} for t in a.latency
        ],
        "attempts_to_success": [{"attempts": s.attempts, "entries": s.entries} for s in a.attempts_to_success],
        "success_within": None if a.success_within is None else _success_within(a.success_within),
        "findings": [_finding(finding) for finding in a.findings],
        "limits": list(a.limits),
    }


def _success_within(found: WithinAttempts) -> dict[str, Any]:
    return {
        "steps": [
            {
                "attempts": step.attempts,
                "at_risk": step.at_risk,
                "successes": step.successes,
                "given_up": step.given_up,
                "within": _estimate(step.within),
            }
            for step in found.steps
        ],
        "half": _estimate(found.half),
        "left_out": found.left_out,
    }


def _source(source: Source) -> dict[str, Any]:
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


def _entries(tally: Tally) -> dict[str, int]:
    return {
        "total": tally.total,
        "success": tally.success,
        "failure": tally.failure,
        "error": tally.error,
        "guardrail": tally.guardrail,
        "unjudged": tally.unjudged,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "unit": estimate.unit,
        "level": estimate.level,
        "method": estimate.method,
    }


def _dynamic(dynamic: Dynamic) -> dict[str, Any]:
    return {
        "initially_successful": dynamic.initially_successful,
        "only_with_attack": dynamic.only_with_attack,
        "initial_rate": _estimate(dynamic.initial_rate),
        "improvement": _estimate(dynamic.improvement),
        "attacks": [
            {
                "attack": figures.attack,
                "total": figures.total,
                "successes": figures.successes,
                "attempts": figures.attempts,
                "guardrail": figures.guardrail,
                "guardrail_entries": figures.guardrail_entries,
                "rate": _estimate(figures.rate),
            }
            for figures in dynamic.attacks
        ],
    }


def _false_positives(result: FalsePositives) -> dict[str, Any]:
    return {
        "benign": _source(result.benign),
        "signal": result.signal,
        "tp": result.tp,
        "fn": result.fn,
        "tn": result.tn,
        "fp": result.fp,
        "left_out": {
            "attack_error": result.left_out.attack_error,
            "attack_unjudged": result.left_out.attack_unjudged,
            "benign_error": result.left_out.benign_error,
            "benign_unjudged": result.left_out.benign_unjudged,
        },
        "precision": _estimate(result.precision),
        "recall": _estimate(result.recall),
        "f1": _estimate(result.f1),
        "accuracy": _estimate(result.accuracy),
    }


def _group(group: Group) -> dict[str, Any]:
    return {"value": group.value, **_group_figures(group)}


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
        "rate": _estimate(group.rate),
        "initial_rate": _estimate(group.initial_rate),
        "improvement": _estimate(group.improvement),
        "guardrail_rate": _estimate(group.guardrail_rate),
        "small": group.small,
    }


def _combinations(combinations: Combinations) -> dict[str, Any]:
    return {
        "fields": list(combinations.fields),
        "min_n": combinations.min_n,
        "count": combinations.count,
        "most": [_combination(group) for group in combinations.most],
        "least": [_combination(group) for group in combinations.least],
    }


def _combination(group: Group) -> dict[str, Any]:
    return {"values": dict(group.values), **_group_figures(group)}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "count": finding.count,
        "message": finding.message,
        "where": list(finding.where),
    }
