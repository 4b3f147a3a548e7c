"""The command `judges rank`."""

from __future__ import annotations

import argparse

from faircount.analysis.judges.ranking import ranked
from faircount.analysis.judges.ranking_report import as_report
from faircount.analysis.judges.summary import read_summary
from faircount.cli.judge_summary import DEFAULT_SUMMARY
from faircount.cli.output import show, show_pages
from faircount.errors import UsageError


def rank(arguments: argparse.Namespace) -> int:
    """Run `judges rank`."""
    if arguments.output_format == "html" and arguments.output is None:
        raise UsageError("--output-format html: name the page with -o")
    # The same file named twice would make every judge tie with itself.
    files = list(dict.fromkeys(arguments.summaries or [DEFAULT_SUMMARY]))
    report = as_report(ranked([read_summary(path) for path in files], arguments.by, level=arguments.level))
    if arguments.output_format == "html":
        show_pages([("ranking", report)], arguments.output, files)
    else:
        show(report, arguments.output_format, arguments.output, files)
    return 0
