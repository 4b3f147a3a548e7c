"""Run journals and reports for tests, written record by record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

HEADER = {"kind": "run", "schema": 1, "run": "r", "version": "0.1.0", "started": "2026-01-01T00:00:00", "settings": {}}


def case(
    name: str,
    *,
    metrics: Sequence[str] = ("Correct",),
    count: int = 1,
    strategy: str = "mean",
    tags: Sequence[str] = (),
    parameters: dict[str, Any] | None = None,
    prompt: str = "what is 6 times 7?",
) -> dict[str, Any]:
    """Return the record of a case."""
    return {
        "kind": "case",
        "case": name,
        "tags": list(tags),
        "input": {
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": prompt}],
            "api_params": parameters or {},
        },
        "expected_output": {"output": "42", "tools_called": [], "context": [], "execution_time": None},
        "retry_params": {"count": count, "aggregation_strategy": strategy},
        "metrics": [{"name": metric, "type": "m.M", "parameters": {}, "identity": "0"} for metric in metrics],
        "place": "test_x.py:1",
    }


def call(name: str, number: int) -> dict[str, Any]:
    """Return the record of a request that is about to be sent."""
    return {"kind": "call", "case": name, "attempt": number}


def attempt(
    name: str, number: int = 0, verdicts: str = "p", *, metrics: Sequence[str] = ("Correct",), **fields: Any
) -> dict[str, Any]:
    """Return the record of an attempt; `verdicts` has a letter for each metric: passed, failed or error."""
    words = {"p": "passed", "f": "failed", "e": "error"}
    said = [
        {
            "metric": metric,
            "score": {"p": 1.0, "f": 0.0, "e": None}[letter],
            "verdict": words[letter],
            "reason": f"because of {metric}",
            "error": "it broke" if letter == "e" else None,
        }
        for metric, letter in zip(metrics, verdicts, strict=True)
    ]
    output = {"output": f"answer {number}", "tools_called": [], "context": [], "execution_time": 0.5 + number}
    return {
        "kind": "attempt",
        "case": name,
        "attempt": number,
        "output": output,
        "error": None,
        "verdicts": said,
        "model": "model-1",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": None},
        "tries": 1,
        "waited": 0.0,
        "calls": 1,
        "started": "2026-01-01T00:00:01",
        **fields,
    }


def unanswered(name: str, number: int = 0, message: str = "HTTP 503") -> dict[str, Any]:
    """Return the record of an attempt whose request failed."""
    return attempt(name, number, "", metrics=(), output=None, error={"kind": "status", "message": message})


def retry(name: str, number: int) -> dict[str, Any]:
    """Return the record that makes an attempt before it void."""
    return {"kind": "retry", "case": name, "attempt": number}


def entry(
    name: str,
    outputs: Sequence[str],
    verdicts: str,
    aggregated: str | None = "passed",
    *,
    strategy: str = "mean",
    **fields: Any,
) -> dict[str, Any]:
    """Return an entry of a report as REBEL 0.2.0 writes it: one metric of one case, which it does not name."""
    words = {"p": "passed", "f": "failed", "e": "error"}
    written = {
        "name": name,
        "tags": [],
        "retry_params": {"count": len(outputs), "aggregation_strategy": strategy},
        "input": {"messages": [{"role": "user", "content": "hello"}], "api_params": {}},
        "expected_output": {"output": "", "tools_called": [], "context": [], "execution_time": None},
        "metrics": [{}],
        "actual_outputs": [
            {"output": text, "tools_called": [], "context": [], "execution_time": 0.25} for text in outputs
        ],
        "evaluation_results": [{"score": float(v == "p"), "verdict": words[v], "reason": ""} for v in verdicts],
        "aggregated_result": {"score": 1.0, "verdict": aggregated, "reason": ""},
        **fields,
    }
    if aggregated is None:
        del written["aggregated_result"]
    return written


def report(*cases: Any, indent: int | None = 2, **metadata: Any) -> bytes:
    """Return a report of these entries."""
    told = {"timestamp": "20260101_000000", "total_test_cases": len(cases), **metadata}
    return json.dumps({"metadata": told, "test_cases": list(cases)}, indent=indent, ensure_ascii=False).encode()
