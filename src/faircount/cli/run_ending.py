"""What comes after a run: its report, its analysis, its gates, and the exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faircount.analysis.arrange import as_report
from faircount.analysis.document import document
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import analyze
from faircount.cli.gating import against_baseline, apply_gates, fields_of_gates, read_gates
from faircount.cli.output import show
from faircount.errors import UsageError
from faircount.present.new_file import NewFile
from faircount.running import runs
from faircount.running.engine import Ending
from faircount.running.journal_reading import read_journal
from faircount.running.report_document import case_reports, is_report_of, report_pieces, totals_of
from faircount.running.runs import Settings
from faircount.running.spikee_results import spikee_rows
from faircount.text import visible

EXIT_FAILED_TESTS, EXIT_INCOMPLETE, EXIT_INTERRUPTED = 1, 4, 130


def finish(arguments: argparse.Namespace, settings: Settings, path: str, ending: Ending) -> int:
    """Write the report, print the analysis and return the exit code; a run that is stopped at once gets neither."""
    if ending.aborted:
        return _exit_code(arguments, path, ending)
    report, failure = "", None
    try:
        report = write_results(path, settings)
    except UsageError as error:
        failure = error  # the analysis can be printed nevertheless
    analysis = None
    if ending.attempts:
        analysis = _print_analysis(path, arguments)
    say(f"journal: {path}")
    if failure is not None:
        raise failure
    if report:
        # A path of the folder in which the run was begun says nothing to those who resume it from elsewhere.
        say(f"{_named(settings)}: {Path(report).absolute() if Path(path).is_absolute() else report}")
    return _exit_code(arguments, path, ending) or _gates(arguments, path, analysis)


def _named(settings: Settings) -> str:
    return "in spikee's format" if settings.is_attack else "report"


def _gates(arguments: argparse.Namespace, path: str, analysis: Mapping[str, Any] | None) -> int:
    """Judge the gates of a run that is complete; a resumed one has none."""
    if analysis is None or not hasattr(arguments, "fail_on"):
        return 0
    comparison = against_baseline(arguments, [path])
    return apply_gates(arguments, analysis=analysis, comparison=comparison, inputs=[path])


# -- files ------------------------------------------------------------------------------------------------------


def write_results(path: str, settings: Settings) -> str:
    """Write what a run leaves beside its journal, and return where; empty where that is nothing."""
    if not settings.is_attack:
        return _write_report(path, settings)
    if settings.spikee_results is None:
        return ""
    # What stands there is from before the run was stopped: nothing else was there when it began.
    with NewFile(settings.spikee_results, force=True) as new:
        new.write_all(spikee_rows(path))
    return settings.spikee_results


def _write_report(path: str, settings: Settings) -> str:
    """Write the report of a run over its own of before, but never over that of another run."""
    reader = read_journal(path)
    for target in runs.report_paths(settings):
        if Path(target).exists() and not is_report_of(target, reader.header):
            continue
        pieces = report_pieces(reader, settings.timestamp, settings.report_layout)
        try:
            with NewFile(target, force=Path(target).exists()) as new:
                new.write_all(pieces)
        except UsageError as error:
            if Path(target).exists() and not is_report_of(target, reader.header):
                continue  # another run took the name in this moment
            later = f"faircount resume {shlex.quote(path)}"
            raise UsageError(
                f"{error}; the run itself is safe in its journal, and {later} writes its report"
            ) from error
        return target
    raise AssertionError("there is always a free name")


# -- the analysis, and the exit code ----------------------------------------------------------------------------


def _print_analysis(path: str, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Print the analysis of a run, and return it as a document."""
    by = fields_of_gates(read_gates(arguments)) if hasattr(arguments, "fail_on") else ()
    result = analyze([path], AnalyzeOptions(cache=False, by=by))
    output_format = arguments.output_format
    try:
        show(as_report(result.analyses, figures=output_format == "markdown"), output_format, None)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; how the run ended is still to be told, by the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return document(result.analyses)


def _exit_code(arguments: argparse.Namespace, path: str, ending: Ending) -> int:
    if ending.decided:
        say(f"stopped, since enough is known: {ending.why}; to run the rest: faircount resume {shlex.quote(path)}")
        return 0
    if not ending.complete:
        say(f"the run is not complete: {ending.why}; go on with: faircount resume {shlex.quote(path)}")
        return EXIT_INTERRUPTED if ending.interrupted else EXIT_INCOMPLETE
    if arguments.fail_on_failed_tests:
        reader = read_journal(path)
        failed = totals_of(case_reports(reader, reader.state())).failed
        if failed:
            say(f"--fail-on-failed-tests: {failed:,} of {len(reader.state().cases):,} cases failed")
            return EXIT_FAILED_TESTS
    return 0


def say(sentence: str) -> None:
    """Say something on standard error; that nobody reads it is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        print(f"faircount: {visible(sentence)}", file=sys.stderr, flush=True)  # noqa: T201
