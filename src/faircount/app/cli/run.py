"""The commands that run something: what became of it, its analysis, where its files are, and what is left to run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.analyze import analyze_files
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.report import as_report
from faircount.app.cli.gating import against_baseline, fields_of_gates
from faircount.app.cli.parts import IGNORE, BaselineGates, Output, RunOutput
from faircount.app.cli.results import EVIDENCE_IN_A_PAGE
from faircount.app.cli.run_progress import RunProgress
from faircount.app.cli.runner import EXIT_INCOMPLETE, CommandResult
from faircount.core.findings import counted
from faircount.core.interrupts import EXIT_INTERRUPTED
from faircount.core.model import Analysis
from faircount.core.text import clip, visible
from faircount.runs import service
from faircount.runs.options import BenchOptions, JournalOptions, MergeOptions, ResumeOptions, RunOptions
from faircount.runs.service import RunResult

LONGEST_REASON = 120
EXIT_FAILED_TESTS = 1


def run(options: RunOptions, where: JournalOptions, output: RunOutput, gates: BaselineGates) -> CommandResult:
    """Run `run`."""
    ignore_errors = gates.errors == IGNORE
    result = service.run(ignore_errors=ignore_errors, options=[options, where], listener=RunProgress())
    asked = AnalyzeOptions(cache=False, by=fields_of_gates(gates))
    answer = _answer(result, output, asked, fail_on_failed_tests=where.fail_on_failed_tests)
    if not answer.analyses:
        return answer
    return replace(answer, comparison=partial(against_baseline, gates, asked, answer.inputs))


def resume(options: ResumeOptions, output: RunOutput) -> CommandResult:
    """Run `resume`."""
    result = service.resume(options.journal, options=options, listener=RunProgress())
    asked = AnalyzeOptions(cache=False)
    return _answer(result, output, asked, fail_on_failed_tests=options.fail_on_failed_tests)


def plan(options: RunOptions, _: Output) -> CommandResult:
    """Run `plan`."""
    from faircount.analysis.report import as_report

    return CommandResult(report=as_report(service.plan(options=options, listener=RunProgress())), name="plan")


def merge(options: MergeOptions) -> CommandResult:
    """Run `merge`."""
    whole = service.merge(*options.journals, options=options)
    entries, attempts = counted(whole.entries, "entry", "entries"), counted(whole.attempts, "attempt")
    return CommandResult(notes=[f"merged {len(whole.parts)} shards ({entries}, {attempts}) into {options.output}"])


def bench(options: BenchOptions, _: Output) -> CommandResult:
    """Run `bench`."""
    from faircount.analysis.report import as_report
    from faircount.analysis.run_reports import BenchRun, bench_results
    from faircount.runs.bench import bench
    from faircount.runs.journal import read_journal

    done = bench(options.file, options=options, listener=RunProgress())
    runs = [BenchRun(cell.parts, cell.journal, state) for cell, state in zip(done.cells, done.states, strict=True)]
    journals = [run.journal for run in runs if Path(run.journal).exists()]
    report = None
    if options.plan or journals:
        with_results = [path for path in journals if read_journal(path).state().done]
        report = as_report(bench_results(done.path, runs, with_results))
    left = not (options.plan or done.complete)
    later = f"the bench is incomplete; resume with: faircount bench {shlex.quote(options.file)}"
    return CommandResult(
        report=report,
        name="bench",
        inputs=[done.path, *journals],
        notes=[later] if left else [],
        code=(EXIT_INTERRUPTED if done.interrupted else EXIT_INCOMPLETE) if left else 0,
    )


# -- what became of a run ---------------------------------------------------------------------------------------


def _answer(
    result: RunResult, output: RunOutput, asked: AnalyzeOptions, *, fail_on_failed_tests: bool
) -> CommandResult:
    """Return the analysis of a run and where its files are; nothing of one that was stopped immediately."""
    path = result.journal
    notes: list[str] = []
    answer = CommandResult(name=path, inputs=[path])
    if not result.ending.aborted:
        if result.ending.attempts:
            evidence = (("", EVIDENCE_IN_A_PAGE),) if output.format == "html" else ()
            found = analyze_files([path], replace(asked, figures=output.format != "console", evidence=evidence))
            made = made_with(output.command, found.analyses) if output.figures else None
            report = as_report(found.analyses, evidence=found.evidence, figures=output.figures, made_with=made)
            answer = replace(answer, report=report, analyses=found.analyses)
            notes += _failed_cases(found.analyses[0])
        notes.append(f"journal: {path}")
        if result.failure is not None:
            return replace(answer, notes=notes, failure=result.failure)
        if result.report:
            notes.append(f"{'spikee results' if result.settings.is_attack else 'report'}: {result.report}")
    code, sentence = _ending(result, fail_on_failed_tests=fail_on_failed_tests)
    return replace(answer, notes=[*notes, *filter(None, [sentence])], code=code)


def _failed_cases(analysis: Analysis) -> Iterator[str]:
    """Yield the cases that failed, a line each, where a person looks last."""
    failed = analysis.failed_cases
    if failed is None or not failed.total:
        return
    for case in failed.cases:
        why = case.error or case.measured or ""
        reason = f": {clip(' '.join(visible(why).split()), LONGEST_REASON)}" if why else ""
        yield f"FAILED {clip(visible(case.entry), LONGEST_REASON)}{reason}"
    if failed.total > len(failed.cases):
        yield f"and {failed.total - len(failed.cases):,} more failed"
    yield f"{failed.total:,} of {analysis.tally.total:,} cases failed"


def _ending(result: RunResult, *, fail_on_failed_tests: bool) -> tuple[int, str]:
    """Return the exit code of a run, and what is to be said of how it ended."""
    ending, later = result.ending, f"faircount resume {shlex.quote(result.journal)}"
    if ending.decided:
        return 0, f"stopped early: {ending.why}; run the rest with: {later}"
    if not ending.complete:
        code = EXIT_INTERRUPTED if ending.interrupted else EXIT_INCOMPLETE
        return code, f"the run is incomplete: {ending.why}; resume with: {later}"
    failed, cases = result.failed_cases() if fail_on_failed_tests else (0, 0)
    return (EXIT_FAILED_TESTS, f"--fail-on-failed-tests: {failed:,} of {cases:,} cases failed") if failed else (0, "")
