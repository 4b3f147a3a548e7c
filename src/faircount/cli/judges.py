"""The commands `judges list` and `judges try`."""

from __future__ import annotations

import argparse
import math

from faircount.analysis.judges import listing, trying
from faircount.cli.judge_setting import made_judges
from faircount.cli.messages import note
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.try_arguments import text_of
from faircount.errors import InputError, UsageError
from faircount.judging.attempt import Attempt, Expected


def list_judges(arguments: argparse.Namespace) -> int:
    """Run `judges list`."""
    refuse_page_without_place(arguments)
    show_one("judges", listing.as_report(listing.list_judges()), arguments)
    return 0


def try_judge(arguments: argparse.Namespace) -> int:
    """Run `judges try`."""
    refuse_page_without_place(arguments)
    (judge,) = made_judges([arguments.judge], arguments)
    try:
        trial = trying.try_judge(judge, _attempt(arguments))
    finally:
        judge.close()
    show_one("verdict", trying.as_report(trial), arguments, [arguments.config] if arguments.config else [])
    if trial.decision is not None:
        return 0
    note(f"{trial.judge}: {trial.error or 'the judge did not decide'}")
    return InputError.exit_code


def _attempt(arguments: argparse.Namespace) -> Attempt:
    latency = arguments.latency
    if latency is not None and not 0 <= latency < math.inf:
        raise UsageError("--latency must be 0 or more seconds")
    # A row of spikee's has one text or a list of them.
    told = list(arguments.judge_arg or [])
    notes = {"judge_args": told[0] if len(told) == 1 else told} if told else {}
    return Attempt(
        text_of(arguments.text),
        prompt=arguments.prompt or "",
        expected=Expected(output=arguments.expected),
        latency=latency,
        notes=notes,
    )
