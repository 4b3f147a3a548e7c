"""The commands `run`, `resume`, `plan` and `merge`: what became of a run, its analysis, its gates, the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from faircount.analysis.arrange import as_report
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.plan_report import as_report as plan_report
from faircount.analysis.results import analyze_files
from faircount.cli.gating import against_baseline, apply_gates, fields_of_gates
from faircount.cli.messages import note
from faircount.cli.parts import IGNORE, BaselineGates, Output, RunOutput
from faircount.cli.results import EVIDENCE_IN_A_PAGE
from faircount.cli.run_progress import RunProgress
from faircount.cli.runner import CommandResult, finish
from faircount.findings import counted
from faircount.interrupts import EXIT_INTERRUPTED
from faircount.model import Analysis
from faircount.running import service
from faircount.running.options import JournalOptions, MergeOptions, ResumeOptions, RunOptions
from faircount.running.service import RunResult
from faircount.text import clip, visible

LONGEST_REASON = 120
EXIT_FAILED_TESTS, EXIT_INCOMPLETE = 1, 4


def run(options: RunOptions, where: JournalOptions, output: RunOutput, gates: BaselineGates) -> int:
    """Run `run`."""
    ignore_errors = gates.errors == IGNORE
    result = service.run(ignore_errors=ignore_errors, options=[options, where], listener=RunProgress())
    asked = AnalyzeOptions(cache=False, by=fields_of_gates(gates))
    analyses = _show(result, output, asked)
    code = _exit_code(result, fail_on_failed_tests=where.fail_on_failed_tests)
    if code or not analyses or not gates.asked:
        return code
    path = [result.journal]
    return apply_gates(gates, analyses=analyses, comparison=against_baseline(gates, asked, path), inputs=path)


def resume(options: ResumeOptions, output: RunOutput) -> int:
    """Run `resume`."""
    result = service.resume(options.journal, options=options, listener=RunProgress())
    _show(result, output, AnalyzeOptions(cache=False))
    return _exit_code(result, fail_on_failed_tests=options.fail_on_failed_tests)


def plan(options: RunOptions, output: Output) -> CommandResult:
    """Run `plan`."""
    del output
    return CommandResult(report=plan_report(service.plan(options=options, listener=RunProgress())), name="plan")


def merge(options: MergeOptions) -> int:
    """Run `merge`."""
    whole = service.merge(*options.journals, options=options)
    entries, attempts = counted(whole.entries, "entry", "entries"), counted(whole.attempts, "attempt")
    note(f"merged {len(whole.parts)} shards ({entries}, {attempts}) into {options.output}")
    return 0


def _show(result: RunResult, output: RunOutput, asked: AnalyzeOptions) -> Sequence[Analysis]:
    """Show the analysis of a run, and where its files are; nothing of one that was stopped immediately."""
    if result.ending.aborted:
        return ()
    analyses = _show_analysis(result.journal, output, asked) if result.ending.attempts else ()
    note(f"journal: {result.journal}")
    if result.failure is not None:
        raise result.failure
    if result.report:
        note(f"{'spikee results' if result.settings.is_attack else 'report'}: {result.report}")
    return analyses


def _show_analysis(path: str, output: RunOutput, asked: AnalyzeOptions) -> Sequence[Analysis]:
    evidence = (("", EVIDENCE_IN_A_PAGE),) if output.format == "html" else ()
    found = analyze_files([path], replace(asked, figures=output.format != "console", evidence=evidence))
    analyses = found.analyses
    made = made_with(output.command, analyses) if output.figures else None
    report = as_report(analyses, evidence=found.evidence, figures=output.figures, made_with=made)
    finish(CommandResult(report=report, name=path, inputs=[path]), [output])
    sys.stdout.flush()
    _say_what_failed(analyses[0])
    return analyses


def _say_what_failed(analysis: Analysis) -> None:
    """List the cases that failed, a line each, where a person looks last."""
    failed = analysis.failed_cases
    if failed is None or not failed.total:
        return
    for case in failed.cases:
        why = case.error or case.measured or ""
        reason = f": {clip(' '.join(visible(why).split()), LONGEST_REASON)}" if why else ""
        note(f"FAILED {clip(visible(case.entry), LONGEST_REASON)}{reason}")
    if failed.total > len(failed.cases):
        note(f"and {failed.total - len(failed.cases):,} more failed")
    note(f"{failed.total:,} of {analysis.tally.total:,} cases failed")


def _exit_code(result: RunResult, *, fail_on_failed_tests: bool) -> int:
    ending, later = result.ending, f"faircount resume {shlex.quote(result.journal)}"
    if ending.decided:
        note(f"stopped early: {ending.why}; run the rest with: {later}")
        return 0
    if not ending.complete:
        note(f"the run is incomplete: {ending.why}; resume with: {later}")
        return EXIT_INTERRUPTED if ending.interrupted else EXIT_INCOMPLETE
    if fail_on_failed_tests:
        failed, cases = result.failed_cases()
        if failed:
            note(f"--fail-on-failed-tests: {failed:,} of {cases:,} cases failed")
            return EXIT_FAILED_TESTS
    return 0
