"""The `results power` command."""

from __future__ import annotations

import argparse

from faircount.analysis.power import PowerOptions, ask
from faircount.analysis.power_report import as_report
from faircount.cli.output import show, show_pages
from faircount.errors import UsageError


def power(arguments: argparse.Namespace) -> int:
    """Run `results power`."""
    options = PowerOptions(
        half_width=arguments.half_width,
        difference=arguments.difference,
        zero_hits=arguments.zero_hits,
        entries=arguments.entries,
        rate=arguments.rate,
        paired=arguments.paired,
        discordant=arguments.discordant,
        families=arguments.families,
        icc=arguments.icc,
        level=arguments.level,
        power=arguments.power,
    )
    if arguments.output_format == "html" and arguments.output is None:
        raise UsageError("--output-format html needs -o FILE")
    report = as_report(ask(options))
    if arguments.output_format == "html":
        show_pages([("power", report)], arguments.output)
    else:
        show(report, arguments.output_format, arguments.output)
    return 0
