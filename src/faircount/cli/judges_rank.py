"""The command `judges rank`."""

from __future__ import annotations

import argparse

from faircount.analysis.judges.ranking import ranked
from faircount.analysis.judges.ranking_report import as_report
from faircount.analysis.judges.summary import read_summary
from faircount.cli.judge_summary import DEFAULT_SUMMARY
from faircount.cli.output import refuse_page_without_place, show_one


def rank(arguments: argparse.Namespace) -> int:
    """Run `judges rank`."""
    refuse_page_without_place(arguments)
    # The same file named twice would make every judge tie with itself.
    files = list(dict.fromkeys(arguments.summaries or [DEFAULT_SUMMARY]))
    report = as_report(ranked([read_summary(path) for path in files], arguments.by, level=arguments.level))
    show_one("ranking", report, arguments, files)
    return 0
