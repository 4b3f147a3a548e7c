"""The results of several attempts made into one: the rule is that of whoever reads a run back."""

from __future__ import annotations

from faircount.reading.aggregation import ERROR, FAILED, PASSED, Aggregated, Result, aggregated

__all__ = ["ERROR", "FAILED", "PASSED", "Aggregated", "Result", "aggregated"]
