"""The `results` commands."""

from __future__ import annotations

import argparse
import sys

from faircount.analysis.arrange import as_report
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import analyze as analyze_results
from faircount.cli.output import show
from faircount.errors import InputError
from faircount.reading.inputs import expand_folder
from faircount.text import visible


def named_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files that were named, and those of the folders that were named, in the order given."""
    files: list[str] = []
    for kind, name in arguments.inputs:
        files += expand_folder(name) if kind == "folder" else [name]
    return files


def analyze(arguments: argparse.Namespace) -> int:
    """Run `results analyze`."""
    options = AnalyzeOptions(
        combine=arguments.combine,
        overview=arguments.overview,
        false_positive_checks=arguments.false_positive_checks,
        guardrail_success=arguments.guardrail_success,
        block_signal=arguments.block_signal,
        by=tuple(arguments.by),
        sort=arguments.sort,
        min_n=arguments.min_n,
        level=arguments.level,
        definition=arguments.definition,
        max_line=arguments.max_line,
    )
    result = analyze_results(named_files(arguments), options)
    if result.analyses:
        show(as_report(result.analyses), arguments.output_format, arguments.output, result.files)
    for sentence in result.failures:
        print(f"faircount: {visible(sentence)}", file=sys.stderr)  # noqa: T201
    if result.failures:
        return InputError.exit_code
    if arguments.strict and result.damaged:
        print("faircount: --strict: some input could not be read; see the findings", file=sys.stderr)  # noqa: T201
        return InputError.exit_code
    return 0
