"""The commands that run something: how it goes, what became of it, its analysis, and what is left to run.

On a terminal the line that shows how a run goes renews itself; elsewhere there are plain lines now and then.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.analyze import analyze_files
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.report import as_report
from faircount.app.cli.options import IGNORE, BaselineGates, Output, RunOutput
from faircount.app.cli.results import EVIDENCE_IN_A_PAGE
from faircount.app.cli.runner import EXIT_INCOMPLETE, CommandResult, against_baseline, fields_of_gates
from faircount.app.cli.terminal import QUIET, note
from faircount.core.findings import counted
from faircount.core.interrupts import EXIT_INTERRUPTED
from faircount.core.model import Analysis
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.runs import service
from faircount.runs.budget import Progress
from faircount.runs.options import BenchOptions, JournalOptions, MergeOptions, ResumeOptions, RunOptions
from faircount.runs.service import RunListener, RunResult
from faircount.runs.shards import ShardedRun
from faircount.stats.proportion import wilson

_EVERY_ON_A_TERMINAL = 0.2
_EVERY_ELSEWHERE = 5.0
_GRACE = 2.0
"""How long, in seconds, code of the user's may keep a run that was interrupted twice from ending."""
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
    from faircount.analysis.run_reports import plan_report

    return CommandResult(report=plan_report(service.plan(options=options, listener=RunProgress())), name="plan")


def merge(options: MergeOptions) -> CommandResult:
    """Run `merge`."""
    found = service.merge(*options.journals, options=options)
    shards, entries = counted(len(found.parts), "shard"), counted(found.entries, "entry", "entries")
    size = f"{shards} ({entries}, {counted(found.attempts, 'attempt')})"
    if not options.check:
        return CommandResult(notes=[f"merged {size} into {options.output}"])
    text = "".join(f"{visible(line)}\n" for line in _shard_lines(found))
    if found.complete:
        return CommandResult(text=text, notes=[f"complete: {size} of one run; nothing was written"])
    done = sum(part.complete for part in found.parts)
    again = "run the others again with --resume-if-exists, or faircount resume JOURNAL"
    note = f"incomplete: {done} of {found.count or 'an unknown number of'} shards complete; {again}"
    return CommandResult(text=text, notes=[note], code=EXIT_INCOMPLETE)


def _shard_lines(found: ShardedRun) -> Iterator[str]:
    """Yield how every shard stands, a line each; those that are missing are one."""
    for part in found.parts:
        entries = counted(len(part.state.cases), "entry", "entries")
        if part.complete:
            state = f"complete, {entries}"
        elif not part.started:
            state = "nothing was sent yet"
        else:
            state = f"{part.left:,} of {entries} left" if part.left else f"{entries} done, but not its end"
        yield f"shard {part.number}/{found.count}: {state} ({part.path})"
    for path in found.unstarted:
        yield f"not started: no complete header ({path})"
    missing = found.missing
    if missing:
        # Numbers that follow each other differ from their places by the same.
        runs = [[number for _, number in run] for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0])]
        named = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
        yield f"missing: {counted(len(missing), 'shard')} of {found.count:,}: {named}"


def bench(options: BenchOptions, _: Output) -> CommandResult:
    """Run `bench`."""
    from faircount.analysis.run_reports import BenchRun, bench_report, bench_results
    from faircount.runs.bench import bench
    from faircount.runs.journal import read_journal

    done = bench(options.file, options=options, listener=RunProgress())
    runs = [BenchRun(cell.parts, cell.journal, state) for cell, state in zip(done.cells, done.states, strict=True)]
    journals = [run.journal for run in runs if Path(run.journal).exists()]
    report = None
    if options.plan or journals:
        with_results = [path for path in journals if read_journal(path).state().done]
        report = bench_report(bench_results(done.path, runs, with_results))
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


# -- how a run goes ---------------------------------------------------------------------------------------------


class RunProgress(RunListener):
    """Hears of every attempt, or every entry that is attacked, and says now and then how far the run is."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._quiet = QUIET.get()
        self._every = _EVERY_ON_A_TERMINAL if self._terminal else _EVERY_ELSEWHERE
        self._end: threading.Timer | None = None

    def notice(self, sentence: str) -> None:
        """Say something that the user should know."""
        note(sentence)

    def begin(self, journal: str, *, entries: bool) -> None:
        """Measure time from now on."""
        self._journal = journal
        self._unit, self._word = ("entry", "succeeded") if entries else ("attempt", "passed")
        self._started = self._said = time.monotonic()
        self._before: int | None = None
        self._shown = False

    def progress(self, tally: Progress) -> None:
        """Take note of what was done so far."""
        if self._before is None:
            self._before = tally.done - 1
        now = time.monotonic()
        if self._quiet or (now - self._said < self._every and tally.done < tally.total):
            return
        if tally.done == tally.total and not self._shown and not self._terminal:
            return  # it was over before there was anything to wait for
        self._said = now
        self._show(self._line(tally, now))

    def interrupted(self, number: int) -> None:
        """Say from within a signal handler, where a stream may be in the middle of a line of its own, what happens."""
        if number == 1:
            start = "\r\x1b[2K" if self._terminal else ""
            sentence = "finishing requests in flight; interrupt again to stop immediately"
            with contextlib.suppress(OSError):
                os.write(2, f"{start}faircount: {sentence}\n".encode())
        elif number == 2:
            self._end = threading.Timer(_GRACE, self._stop)
            self._end.daemon = True
            self._end.start()

    def _stop(self) -> None:
        """End this process, whatever the user's code is doing; the journal is valid at any time."""
        note(f"the run is incomplete: interrupted; resume with: faircount resume {shlex.quote(self._journal)}")
        os._exit(EXIT_INTERRUPTED)

    def end(self) -> None:
        """Take the line away, so that something else can be said; nothing of the user's keeps that from ending."""
        if self._end is not None:
            self._end.cancel()
        if self._terminal and self._shown:
            self._write("\r\x1b[2K")

    def _show(self, line: str) -> None:
        self._shown = True
        self._write(f"\r\x1b[2K{line}" if self._terminal else f"faircount: {line}\n")

    @staticmethod
    def _write(text: str) -> None:
        # That nobody reads how it goes is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def _line(self, tally: Progress, now: float) -> str:
        done_here = tally.done - (self._before or 0)
        rate = done_here / max(now - self._started, 1e-9)
        left = (tally.total - tally.done) / rate if rate else 0.0
        decided = tally.passed + tally.failed
        words = [f"{tally.done:,}/{tally.total:,}", f"{rate:,.1f} per second", f"{_duration(left)} left"]
        passed = wilson(tally.passed, decided, unit=self._unit)
        if passed.value is not None and passed.low is not None and passed.high is not None:
            words.append(f"{self._word} {formats.estimate(passed)} of {decided:,}")
        for count, what in (
            (tally.undecided, "unjudged"),
            (tally.errors, "errors"),
            (tally.blocked, "blocked"),
            (tally.retries, "retried"),
        ):
            if count:
                words.append(f"{count:,} {what}")
        if tally.cost is not None:
            words.append(f"{tally.cost:.4f} spent")
        return ", ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
