"""The command `bench`: every combination of a bench file as a run of its own, and the targets compared."""

from __future__ import annotations

import shlex
from pathlib import Path

from faircount.analysis.bench_report import BenchRun, as_report, bench_results
from faircount.cli.parts import Output
from faircount.cli.run import EXIT_INCOMPLETE
from faircount.cli.run_progress import RunProgress
from faircount.cli.runner import CommandResult
from faircount.interrupts import EXIT_INTERRUPTED
from faircount.running import bench as benches
from faircount.running.journal_reading import read_journal
from faircount.running.options import BenchOptions


def bench(options: BenchOptions, output: Output) -> CommandResult:
    """Run `bench`."""
    del output
    done = benches.bench(options.file, options=options, listener=RunProgress())
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
