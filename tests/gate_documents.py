"""Documents for the tests of gates: analyses of files written for them, and comparisons as `results compare` says."""

from __future__ import annotations

from typing import Any

from faircount import stats
from faircount.model import Estimate
from tests.conftest import Write, analysis_of, document_of, standard


def analysis_document(
    write: Write, successes: int, failures: int, *, errors: int = 0, name: str = "results_x.jsonl", **facets: str
) -> dict[str, Any]:
    """Return the document of an analysis of entries that have the outcomes and facets asked for."""
    rows = [standard(n, success=n < successes, **facets) for n in range(successes + failures)]
    rows += [standard(f"e{n}", error="time-out", response="", **facets) for n in range(errors)]
    return {"analyses": [document_of(analysis_of(write(rows, name)))]}


def as_tasks(of_attacks: dict[str, Any]) -> dict[str, Any]:
    """Return a document as if its entries were tasks."""
    for analysis in of_attacks["analyses"]:
        analysis["aim"] = "task"
        analysis["rates"]["pass_rate"] = analysis["rates"]["asr"]
    return of_attacks


def estimate_data(estimate: Estimate) -> dict[str, Any]:
    return document_of(estimate)


def cells(both: int, only_a: int, only_b: int, neither: int, *, level: float = 0.95) -> dict[str, Any]:
    """Return the figures of two runs on the same entries."""
    n = both + only_a + only_b + neither
    return {
        "both": both,
        "only_a": only_a,
        "only_b": only_b,
        "neither": neither,
        "rate_a": estimate_data(stats.wilson(both + only_a, n, level=level)),
        "rate_b": estimate_data(stats.wilson(both + only_b, n, level=level)),
        "difference": estimate_data(stats.tango(only_b, only_a, n, level=level)),
    }


def unpaired_cells(successes_a: int, n_a: int, successes_b: int, n_b: int) -> dict[str, Any]:
    """Return the figures of two runs on different entries."""
    return {
        **dict.fromkeys(("both", "only_a", "only_b", "neither")),
        "rate_a": estimate_data(stats.wilson(successes_a, n_a)),
        "rate_b": estimate_data(stats.wilson(successes_b, n_b)),
        "difference": estimate_data(stats.miettinen_nurminen(successes_b, n_b, successes_a, n_a)),
    }


def comparison_document(
    figures: dict[str, Any],
    *,
    aim: str | None = "attack",
    paired: bool = True,
    by: dict[str, list[dict[str, Any]]] | None = None,
    names: tuple[str, str] = ("old.jsonl", "new.jsonl"),
) -> dict[str, Any]:
    """Return the document of a comparison of two runs."""
    known = {"a": names[0], "b": names[1], "labels": list(names), "paired": paired}
    pair = {**known, **figures, "by": by or {}, "claim": "", "unpaired": {}}
    return {"kind": "comparison", "schema": 2, "version": "0", "aim": aim, "pairs": [pair], "overall": None}


def families_difference(value: float, low: float, high: float, n: int) -> dict[str, Any]:
    """Return a difference whose interval is one of families."""
    return estimate_data(Estimate(value, low, high, n, "entry", 0.95, "cluster tango"))
