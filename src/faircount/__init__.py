"""Faircount: numbers people can believe, and the evidence behind them, from results of testing language models.

The names below are the public door; everything else may change without notice. They are loaded when first used, so
that importing Faircount costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from faircount.version import __version__

if TYPE_CHECKING:
    from faircount.analysis.arrange import as_report
    from faircount.analysis.options import AnalyzeOptions
    from faircount.analysis.result_set import ResultSet, open_results
    from faircount.analysis.results import AnalysisSet, analyze
    from faircount.errors import FaircountError, InputError, UsageError
    from faircount.model import Analysis, Estimate, Finding, Outcome, Severity, Source, Tally
    from faircount.notebook.results import Results, read
    from faircount.notebook.summary import Summary
    from faircount.report import Report

__all__ = [
    "Analysis",
    "AnalysisSet",
    "AnalyzeOptions",
    "Estimate",
    "FaircountError",
    "Finding",
    "InputError",
    "Outcome",
    "Report",
    "ResultSet",
    "Results",
    "Severity",
    "Source",
    "Summary",
    "Tally",
    "UsageError",
    "__version__",
    "analyze",
    "as_report",
    "open_results",
    "read",
]

_HOMES = {
    "Analysis": "model",
    "AnalysisSet": "analysis.results",
    "AnalyzeOptions": "analysis.options",
    "Estimate": "model",
    "FaircountError": "errors",
    "Finding": "model",
    "InputError": "errors",
    "Outcome": "model",
    "Report": "report",
    "ResultSet": "analysis.result_set",
    "Results": "notebook.results",
    "Severity": "model",
    "Source": "model",
    "Summary": "notebook.summary",
    "Tally": "model",
    "UsageError": "errors",
    "analyze": "analysis.results",
    "as_report": "analysis.arrange",
    "open_results": "analysis.result_set",
    "read": "notebook.results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'faircount' has no attribute {name!r}")
    return getattr(importlib.import_module(f"faircount.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
