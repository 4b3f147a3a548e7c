"""The command `results compare`."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from faircount.analysis.comparing.compare import compare_files
from faircount.analysis.comparing.options import CompareOptions
from faircount.analysis.comparing.report import as_report
from faircount.cli.gating import apply_gates, read_gates, with_gates
from faircount.cli.messages import note
from faircount.cli.output import WITH_FIGURES, refuse_page_without_place, show_one
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import InputError


def compare(arguments: argparse.Namespace) -> int:
    """Run `results compare`."""
    refuse_page_without_place(arguments)
    gates = read_gates(arguments)
    options = replace(options_of(arguments), by=with_gates(arguments.by, gates))
    files = named_files(arguments)
    with ReadingBar([*files, *([] if options.baseline is None else [options.baseline])]) as bar:
        comparison = compare_files(files, options, bar.advance)
    report = as_report(comparison, figures=arguments.output_format in WITH_FIGURES)
    show_one("comparison", report, arguments, comparison.paths)
    if arguments.strict and comparison.damaged:
        note("--strict: some input could not be read; see the findings")
        return InputError.exit_code
    return apply_gates(arguments, comparison=comparison, inputs=comparison.paths)


def options_of(arguments: argparse.Namespace) -> CompareOptions:
    """Return what was asked for."""
    return CompareOptions(
        baseline=arguments.baseline,
        by=tuple(arguments.by),
        flips=arguments.flips,
        match=arguments.match,
        level=arguments.level,
        cluster=arguments.cluster,
        guardrail_success=arguments.guardrail_success,
        policy_blocks=arguments.policy_blocks,
        max_line=arguments.max_line,
        cache=arguments.cache,
        judge_quality=arguments.judge_quality,
        correction=arguments.correction,
    )
