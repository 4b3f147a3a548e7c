"""The command `bench`: every combination of a bench file as a run of its own, and the targets compared."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.bench_report import BenchRun, as_report, bench_results
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.parser import parse
from faircount.cli.parser_run import bench_options
from faircount.cli.run import Prepared, go_on, prepare, start
from faircount.cli.run_ending import EXIT_INCOMPLETE, EXIT_INTERRUPTED, say
from faircount.errors import UsageError
from faircount.running import runs
from faircount.running.bench_file import Bench, Cell, read_bench
from faircount.running.budget import Limits
from faircount.running.dataset_choice import RANDOM_SEED
from faircount.running.engine import Ending
from faircount.running.journal_reading import read_journal
from faircount.running.runs import Settings
from faircount.running.targets.making import without_limits


def bench(arguments: argparse.Namespace) -> int:
    """Run `bench`."""
    refuse_page_without_place(arguments)
    plan = read_bench(arguments.file, bench_options())
    for cell in plan.cells:
        # A mistake in the last one is reported before the first is begun.
        _refuse_other_settings(plan, cell, _prepare(plan, cell, tell=say))
    if arguments.plan:
        _show(arguments, plan, ["planned" if not Path(plan.journal(cell)).exists() else "begun" for cell in plan.cells])
        return 0
    states: list[str] = []
    interrupted = False
    for number, cell in enumerate(plan.cells, start=1):
        if interrupted:
            states.append("not begun" if not Path(plan.journal(cell)).exists() else "not complete")
            continue
        say(f"{number} of {len(plan.cells)}: {cell.name}")
        ending = _run(plan, cell, retry_errors=arguments.retry_errors)
        interrupted = ending.interrupted
        states.append(_state(ending))
        if not ending.complete:
            say(f"{cell.name}: {ending.why}")
    if any(Path(plan.journal(cell)).exists() for cell in plan.cells):
        _show(arguments, plan, states)
    if all(state in ("complete", "enough is known") for state in states):
        return 0
    say(f"the bench is incomplete; resume with: faircount bench {shlex.quote(arguments.file)}")
    return EXIT_INTERRUPTED if interrupted else EXIT_INCOMPLETE


def _state(ending: Ending) -> str:
    return "complete" if ending.complete else "enough is known" if ending.decided else "not complete"


def _prepare(plan: Bench, cell: Cell, tell: Callable[[str], None] = lambda _: None) -> Prepared:
    arguments = parse(["run", *cell.words, f"--output-folder={plan.output_folder}"])
    if arguments.sample_seed == RANDOM_SEED:
        raise UsageError(f"{plan.path}: {cell.name}: sample_seed must be a number, so that the bench can be resumed")
    try:
        ready = prepare(arguments, tell)
    except UsageError as error:
        raise UsageError(f"{plan.path}: {cell.name}: {error}") from error
    if not ready.settings.is_attack:
        raise UsageError(f"{plan.path}: {cell.name}: a bench runs datasets, not tests")
    return ready


def _run(plan: Bench, cell: Cell, *, retry_errors: bool) -> Ending:
    """Run a cell, or resume it if its journal already exists."""
    ready = _prepare(plan, cell)
    path = plan.journal(cell)
    if not Path(path).exists():
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{Path(path).parent}: cannot be created: {error.strerror or error}") from error
        return start(ready, runs.begin(path, ready.settings, ready.cases))
    settings = replace(runs.settings_of(path), limits=ready.settings.limits)
    return go_on(path, settings, retry_errors=retry_errors, to_the_end=False)


def _refuse_other_settings(plan: Bench, cell: Cell, ready: Prepared) -> None:
    """Raise if the journal of a cell already exists and belongs to another run."""
    path = plan.journal(cell)
    if Path(path).exists() and _essence(runs.settings_of(path)) != _essence(ready.settings):
        raise UsageError(
            f"{path}: this run was started with other settings or another dataset than {plan.path} has now; set "
            "another output_folder there, or remove the journal"
        )


def _essence(settings: Settings) -> Settings:
    """Return settings without what may differ between a run and how it goes on."""
    return replace(settings, timestamp="", limits=Limits(), spikee_results=None, target=without_limits(settings.target))


def _show(arguments: argparse.Namespace, plan: Bench, states: list[str]) -> None:
    told = [BenchRun(cell.parts, plan.journal(cell), state) for cell, state in zip(plan.cells, states, strict=True)]
    journals = [run.journal for run in told if Path(run.journal).exists()]
    with_results = [path for path in journals if read_journal(path).state().done]
    report = as_report(bench_results(plan.path, told, with_results))
    show_one("bench", report, arguments, [plan.path, *journals])
