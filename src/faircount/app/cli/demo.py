"""`faircount demo`: what Faircount is for, offline, in one screen and a page."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from faircount.app.cli.options import Demo
from faircount.app.cli.runner import CommandResult, show
from faircount.app.sample import SampleFiles, write_datasets, write_sample, write_tests
from faircount.core.errors import UsageError
from faircount.core.interrupts import EXIT_INTERRUPTED
from faircount.report.blocks import Findings, Report

SAMPLE_FILES = 6
TARGET = "simulated:flaky(seed=7, accuracy=0.7)"
GUARDRAIL = "simulated:guardrail(seed=7, recall=0.8, false_positive_rate=0.05)"
ANALYZE = ("results", "analyze")
_OPEN_WITH = {"darwin": "open", "win32": "start"}


def demo(options: Demo) -> CommandResult:
    """Write sample results, show what Faircount makes of them, run tests and a guardrail, and end with a page."""
    folder = Path(options.folder)
    try:
        files = _make_sample(folder, options.seed)
        _run_benchmark(folder / "benchmark")
        _run_guardrail(folder / "attacks")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    _say(f"Sample results from simulated targets are in {folder}. The start of each report:")
    _show_reports(files, folder)
    page = str(folder / "report.html")
    words = [*ANALYZE, str(folder), "-o", page]
    _quietly(words)
    _step("Everything on one page", words)
    _say(f"\nOpen the page: {shlex.join([_OPEN_WITH.get(sys.platform, 'xdg-open'), page])}")
    _say("\nTry next:")
    for words, meaning in (
        ([*ANALYZE, str(files.dynamic)], "a dynamic attack, in a file with a damaged line"),
        ([*ANALYZE, str(files.plain[2]), "--fail-on", "asr.high > 15%"], "a gate: exit code 1 if it fails"),
        ([*ANALYZE, "YOUR_RESULTS"], "your own files"),
    ):
        _say(f"  {shlex.join(['faircount', *words])}\n      {meaning}")
    _say(f"\nExplore all of it in the browser: {shlex.join(['faircount', 'view', str(folder)])}")
    return CommandResult()


# -- what is run ------------------------------------------------------------------------------------------------


def _run_benchmark(folder: Path) -> None:
    """Run a small benchmark against a simulated target, with a new journal each time."""
    tests, journal, results = write_tests(folder), folder / "run.jsonl", folder / "results"
    for old in (journal, *results.glob("test_results_*.json")):
        old.unlink(missing_ok=True)
    _quietly(["run", str(tests), "--target", TARGET, "--journal", str(journal), "--output-folder", str(results)])


def _run_guardrail(folder: Path) -> None:
    """Run attacks and benign prompts against a simulated guardrail, with new journals each time."""
    attacks, benign = write_datasets(folder)
    results = folder / "results"
    for old in results.glob("*.jsonl"):
        old.unlink()
    for dataset, name in ((attacks, "guardrail"), (benign, "guardrail_benign")):
        journal = str(results / f"{name}.jsonl")
        _quietly(["run", str(dataset), "--target", GUARDRAIL, "--output-folder", str(results), "--journal", journal])


def _quietly(words: list[str]) -> None:
    """Run a command without what it prints: that is analysed afterwards."""
    from faircount.app.cli.commands import parse

    arguments = parse(words)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = arguments.run(arguments)
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt


def _make_sample(folder: Path, seed: int) -> SampleFiles:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from faircount.app.cli.terminal import QUIET

    console = Console(stderr=True)
    columns = (TextColumn("Generating sample results"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    hidden = QUIET.get() or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("sample", total=SAMPLE_FILES)
        advance: Callable[[str], None] = lambda _: progress.advance(task)  # noqa: E731
        return write_sample(folder, seed, advance)


# -- what is shown ----------------------------------------------------------------------------------------------


def _show_reports(files: SampleFiles, folder: Path) -> None:
    from faircount.analysis.compare.compare import compare_files
    from faircount.analysis.compare.report import as_report

    plain = [str(path) for path in files.plain]
    _step("Three targets on one dataset", [*ANALYZE, str(files.plain[0].parent / "results_bot-*_sample_1*.jsonl")])
    _show_beginning(_analysis(plain), sections=2)
    _step("Is the third target better than the second?", ["results", "compare", *plain[1:]])
    _show_beginning(as_report(compare_files(plain[1:])))
    journal, attacks = folder / "benchmark" / "run.jsonl", folder / "attacks" / "results" / "guardrail.jsonl"
    benign = str(attacks.with_name("guardrail_benign.jsonl"))
    _step("A test run, made with `faircount run`", [*ANALYZE, str(journal)])
    _show_beginning(_analysis([str(journal)]))
    _step("A guardrail on attacks and on benign prompts", [*ANALYZE, str(attacks), "--false-positive-checks", benign])
    _show_beginning(_analysis([str(attacks)], benign))


def _analysis(files: list[str], benign: str | None = None) -> Report:
    from faircount.analysis.analyze import analyze_files
    from faircount.analysis.options import AnalyzeOptions
    from faircount.analysis.report import as_report

    options = AnalyzeOptions(false_positive_checks=benign, overview=True, cache=False)
    return as_report(analyze_files(files, options).analyses, overview=True)


def _show_beginning(report: Report, sections: int = 1) -> None:
    """Show the first sections of a report without their findings."""
    first = (
        replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Findings)))
        for section in report.sections[:sections]
    )
    show(Report(tuple(first)), "console", None)


def _step(title: str, words: list[str]) -> None:
    _say(f"\n== {title}\n$ {shlex.join(['faircount', *words])}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
