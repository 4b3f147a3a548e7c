"""The command `results check`."""

from __future__ import annotations

import argparse

from faircount.analysis.checking import CheckOptions, as_report, check_files
from faircount.cli.messages import note
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import InputError

EXIT_SERIOUS = 1


def check(arguments: argparse.Namespace) -> int:
    """Run `results check`."""
    refuse_page_without_place(arguments)
    options = CheckOptions(
        warnings=arguments.warnings,
        combine=arguments.combine,
        guardrail_success=arguments.guardrail_success,
        policy_blocks=arguments.policy_blocks,
        max_line=arguments.max_line,
        cache=arguments.cache,
    )
    files = named_files(arguments)
    with ReadingBar(files) as bar:
        checks = check_files(files, options, bar.advance)
    report = as_report(checks)
    show_one("check", report, arguments, checks.files)
    if arguments.strict and checks.damaged:
        note("--strict: some input could not be read; see the findings")
        return InputError.exit_code
    if checks.unusable:
        return InputError.exit_code
    return EXIT_SERIOUS if checks.serious else 0
