"""The command `results show`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from faircount.analysis.one_entry import ShowOptions, find_entries
from faircount.analysis.one_entry_report import as_report
from faircount.cli.messages import note
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import InputError, UsageError

_DAMAGE = ("F001", "F002")


def show(arguments: argparse.Namespace) -> int:
    """Run `results show`."""
    refuse_page_without_place(arguments)
    files = named_files(arguments)
    if _is_file(arguments.id) and not any(map(_is_file, files)):
        raise UsageError(f"{arguments.id}: is a file; put the id first: faircount results show ID FILE")
    options = ShowOptions(
        combine=arguments.combine,
        guardrail_success=arguments.guardrail_success,
        policy_blocks=arguments.policy_blocks,
        max_line=arguments.max_line,
        cache=arguments.cache,
    )
    with ReadingBar(files) as bar:
        found = find_entries(arguments.id, files, options, bar.advance)
    report = as_report(found)
    show_one("entry", report, arguments, found.files)
    for sentence in found.failures:
        note(sentence)
    damaged = any(finding.code in _DAMAGE for finding in found.findings)
    if arguments.strict and damaged:
        note("--strict: some input could not be read; see the findings")
    return InputError.exit_code if found.failures or (arguments.strict and damaged) else 0


def _is_file(name: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(name).is_file()
    return False
