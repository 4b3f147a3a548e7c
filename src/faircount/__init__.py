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
    from faircount.analysis.attacks.listing import list_attacks
    from faircount.analysis.judges.listing import list_judges
    from faircount.analysis.options import AnalyzeOptions
    from faircount.analysis.result_set import ResultSet, open_results
    from faircount.analysis.results import AnalysisSet, analyze
    from faircount.app.export import convert_to_excel, export
    from faircount.app.judges import agree, evaluate, rank, try_judge
    from faircount.app.rejudge import rejudge
    from faircount.app.results import check, compare, dataset_comparison, extract, gate, power, sample_for_labels, show
    from faircount.app.targets import list_targets, try_attack, try_target
    from faircount.errors import FaircountError, InputError, UsageError
    from faircount.model import Analysis, Estimate, Finding, Outcome, Severity, Source, Tally
    from faircount.notebook.results import Results, read
    from faircount.notebook.summary import Summary
    from faircount.report import Report
    from faircount.running.bench import bench
    from faircount.running.service import RunListener, merge, plan, resume, run

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
    "RunListener",
    "Severity",
    "Source",
    "Summary",
    "Tally",
    "UsageError",
    "__version__",
    "agree",
    "analyze",
    "as_report",
    "bench",
    "check",
    "compare",
    "convert_to_excel",
    "dataset_comparison",
    "evaluate",
    "export",
    "extract",
    "gate",
    "list_attacks",
    "list_judges",
    "list_targets",
    "merge",
    "open_results",
    "plan",
    "power",
    "rank",
    "read",
    "rejudge",
    "resume",
    "run",
    "sample_for_labels",
    "show",
    "try_attack",
    "try_judge",
    "try_target",
]

_NAMES = {
    "analysis.arrange": "as_report",
    "analysis.attacks.listing": "list_attacks",
    "analysis.judges.listing": "list_judges",
    "analysis.options": "AnalyzeOptions",
    "analysis.result_set": "ResultSet open_results",
    "analysis.results": "AnalysisSet analyze",
    "app.export": "convert_to_excel export",
    "app.judges": "agree evaluate rank try_judge",
    "app.rejudge": "rejudge",
    "app.results": "check compare dataset_comparison extract gate power sample_for_labels show",
    "app.targets": "list_targets try_attack try_target",
    "errors": "FaircountError InputError UsageError",
    "model": "Analysis Estimate Finding Outcome Severity Source Tally",
    "notebook.results": "Results read",
    "notebook.summary": "Summary",
    "report": "Report",
    "running.bench": "bench",
    "running.service": "RunListener merge plan resume run",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'faircount' has no attribute {name!r}")
    return getattr(importlib.import_module(f"faircount.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
