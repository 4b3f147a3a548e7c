"""What comes after a run: its report, its analysis, its gates, and the exit code."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from faircount.analysis.arrange import as_report
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import analyze
from faircount.cli.gating import against_baseline, apply_gates, fields_of_gates, read_gates
from faircount.cli.output import WITH_FIGURES, show, show_pages
from faircount.cli.results import EVIDENCE_IN_A_PAGE
from faircount.errors import InputError, UsageError
from faircount.model import Analysis
from faircount.present.new_file import NewFile
from faircount.running import runs
from faircount.running.engine import Ending
from faircount.running.journal_reading import read_journal
from faircount.running.report_document import case_reports, is_report_of, report_pieces, totals_of
from faircount.running.runs import Settings
from faircount.running.spikee_results import spikee_rows
from faircount.text import clip, visible

LONGEST_REASON = 120
EXIT_FAILED_TESTS, EXIT_INCOMPLETE, EXIT_INTERRUPTED = 1, 4, 130


def finish(arguments: argparse.Namespace, settings: Settings, path: str, ending: Ending) -> int:
    """Write the report, print the analysis and return the exit code; a run that is stopped at once gets neither."""
    if ending.aborted:
        return _exit_code(arguments, path, ending)
    report, failure = "", None
    try:
        report = write_results(path, settings)
    except (UsageError, InputError) as error:
        failure = error  # the analysis can be printed nevertheless
    analyses = _print_analysis(path, arguments) if ending.attempts else ()
    say(f"journal: {path}")
    if failure is not None:
        raise failure
    if report:
        # A path of the folder in which the run was begun says nothing to those who resume it from elsewhere.
        say(f"{_named(settings)}: {Path(report).absolute() if Path(path).is_absolute() else report}")
    return _exit_code(arguments, path, ending) or _gates(arguments, path, analyses)


def _named(settings: Settings) -> str:
    return "spikee results" if settings.is_attack else "report"


def _gates(arguments: argparse.Namespace, path: str, analyses: Sequence[Analysis]) -> int:
    """Judge the gates of a run that is complete; a resumed one has none."""
    if not analyses or not hasattr(arguments, "fail_on"):
        return 0
    comparison = against_baseline(arguments, [path])
    return apply_gates(arguments, analyses=analyses, comparison=comparison, inputs=[path])


# -- files ------------------------------------------------------------------------------------------------------


def write_results(path: str, settings: Settings) -> str:
    """Write what a run leaves beside its journal, and return where; empty where that is nothing."""
    if not settings.is_attack:
        return _write_report(path, settings)
    if settings.spikee_results is None:
        return ""
    # An existing file is from before the interruption: there was none when the run began.
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
            raise UsageError(f"{error}; the results are safe in the journal, and {later} writes the report") from error
        return target
    raise AssertionError("there is always a free name")


# -- the analysis, and the exit code ----------------------------------------------------------------------------


def _print_analysis(path: str, arguments: argparse.Namespace) -> Sequence[Analysis]:
    """Print the analysis of a run, and return it."""
    by = fields_of_gates(read_gates(arguments)) if hasattr(arguments, "fail_on") else ()
    output_format = arguments.output_format
    with_figures = output_format in WITH_FIGURES
    evidence = (("", EVIDENCE_IN_A_PAGE),) if output_format == "html" else ()
    result = analyze([path], AnalyzeOptions(cache=False, by=by, figures=output_format != "console", evidence=evidence))
    made = made_with(shlex.join(["faircount", *arguments.words]), result.analyses) if with_figures else None
    report = as_report(result.analyses, evidence=result.evidence, figures=with_figures, made_with=made)
    if output_format == "html":
        show_pages([(path, report)], arguments.output, [path])
    else:
        show(report, output_format, arguments.output, [path])
    sys.stdout.flush()
    _say_what_failed(result.analyses[0])
    return result.analyses


def _say_what_failed(analysis: Analysis) -> None:
    """List the cases that failed, a line each, where a person looks last."""
    failed = analysis.failed_cases
    if failed is None or not failed.total:
        return
    for case in failed.cases:
        why = case.error or case.measured or ""
        reason = f": {clip(' '.join(visible(why).split()), LONGEST_REASON)}" if why else ""
        say(f"FAILED {clip(visible(case.entry), LONGEST_REASON)}{reason}")
    if failed.total > len(failed.cases):
        say(f"and {failed.total - len(failed.cases):,} more failed")
    say(f"{failed.total:,} of {analysis.tally.total:,} cases failed")


def _exit_code(arguments: argparse.Namespace, path: str, ending: Ending) -> int:
    if ending.decided:
        say(f"stopped early: {ending.why}; run the rest with: faircount resume {shlex.quote(path)}")
        return 0
    if not ending.complete:
        say(f"the run is incomplete: {ending.why}; resume with: faircount resume {shlex.quote(path)}")
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
