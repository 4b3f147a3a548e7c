"""`faircount demo`: the product's main job, offline, with a progress bar and a word on what to try next."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from faircount.analysis.arrange import as_report
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import analyze
from faircount.cli.output import show
from faircount.errors import UsageError
from faircount.sample import SampleFiles, write_sample
from faircount.sample_datasets import write_datasets
from faircount.sample_tests import write_tests

SAMPLE_FILES = 6
TARGET = "simulated:flaky(seed=7, accuracy=0.7)"
GUARDRAIL = "simulated:guardrail(seed=7, recall=0.8, false_positive_rate=0.05)"
ANALYZE = ("results", "analyze")


def demo(arguments: argparse.Namespace) -> int:
    """Make the sample, analyse it three ways, run a benchmark and attacks, and say what to try next."""
    folder = Path(arguments.folder)
    try:
        files = _make_sample(folder, arguments.seed)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    _say(f"Sample results of simulated targets are in {folder}.")

    _step("1. Three targets on one dataset, together", [*ANALYZE, *map(str, files.plain), "--combine", "--overview"])
    _show([str(path) for path in files.plain], AnalyzeOptions(combine=True, overview=True))
    by = ("jailbreak_type", "plugin")
    _step(
        "2. A dynamic attack, in a file whose run was killed",
        [*ANALYZE, str(files.dynamic), "--by", by[0], "--by", by[1], "--min-n", "10"],
    )
    _show([str(files.dynamic)], AnalyzeOptions(by=by, min_n=10))
    benign = str(files.guardrail_benign)
    _step(
        "3. A guardrail, on attacks and on benign prompts",
        [*ANALYZE, str(files.guardrail_attacks), "--false-positive-checks", benign, "--by", "lang", "--min-n", "10"],
    )
    options = AnalyzeOptions(false_positive_checks=benign, by=("lang",), min_n=10)
    _show([str(files.guardrail_attacks)], options)
    _run_benchmark(folder / "benchmark")
    _run_attacks(folder / "attacks")
    _next_steps(files, folder)
    return 0


def _run_benchmark(folder: Path) -> None:
    """Run a small benchmark against a simulated target, with a new journal each time."""
    tests, journal, results = write_tests(folder), folder / "run.jsonl", folder / "results"
    _remove(journal, *results.glob("test_results_*.json"))
    words = ["run", str(tests), "--target", TARGET, "--journal", str(journal), "--output-folder", str(results)]
    _do("4. A benchmark with retries and three metrics, run now", words)


def _run_attacks(folder: Path) -> None:
    """Attack simulated targets and a simulated guardrail, with new journals each time."""
    datasets, results = write_datasets(folder), folder / "results"
    attacks, benign, page = results / "guardrail.jsonl", results / "guardrail_benign.jsonl", results / "report.html"
    _remove(page, *results.glob("*.jsonl"))
    _do("5. Three targets with a dynamic attack, run now and compared", ["bench", str(datasets.bench)])
    weakest = str(results / "weak_injections.jsonl")
    _do("6. The first of them: what the attack added", [*ANALYZE, weakest, "--overview", "--no-cache"])
    guarded = [
        ["run", str(dataset), "--target", GUARDRAIL, "--output-folder", str(results), "--journal", str(journal)]
        for dataset, journal in ((datasets.attacks, attacks), (datasets.benign, benign))
    ]
    _step("7. A guardrail on attacks and on benign prompts, run now", *guarded)
    for words in guarded:
        _quietly(words)
    checked = [*ANALYZE, str(attacks), "--false-positive-checks", str(benign), "--by", "jailbreak_type"]
    checked += ["--min-n", "10", "--no-cache"]
    _do("8. What it stops, and what it stops for nothing", checked)
    _do("9. The same as a page to hand over", [*checked, "--output-format", "html", "-o", str(page)])


def _remove(*files: Path) -> None:
    for old in files:
        old.unlink(missing_ok=True)


def _do(title: str, words: list[str]) -> None:
    """Do what a command line says, after saying it."""
    from faircount.cli.parser import parse

    _step(title, words)
    arguments = parse(words)
    arguments.run(arguments)


def _quietly(words: list[str]) -> None:
    """Do what a command line says without what it prints: that is analysed afterwards."""
    import contextlib
    import io

    from faircount.cli.parser import parse

    arguments = parse(words)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        arguments.run(arguments)


def _make_sample(folder: Path, seed: int) -> SampleFiles:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("Making sample results"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("sample", total=SAMPLE_FILES)
        advance: Callable[[str], None] = lambda _: progress.advance(task)  # noqa: E731
        return write_sample(folder, seed, advance)


def _show(files: list[str], options: AnalyzeOptions) -> None:
    show(as_report(analyze(files, options).analyses), "console", None)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _step(title: str, *commands: list[str]) -> None:
    lines = "\n".join(f"$ {_command(words)}" for words in commands)
    _say(f"\n{'=' * len(title)}\n{title}\n{'=' * len(title)}\n{lines}")


def _command(words: list[str]) -> str:
    return shlex.join(["faircount", *words])


def _next_steps(files: SampleFiles, folder: Path) -> None:
    _say("\nWhat to try next")
    for words, meaning in (
        ([*ANALYZE, str(files.dynamic)], "everything about one file"),
        ([*ANALYZE, str(files.dynamic), "--output-format", "html"], "the same as a page with figures and evidence"),
        ([*ANALYZE, str(files.plain[0]), "--output-format", "json"], "every figure as data"),
        (
            [*ANALYZE, str(files.plain[1]), "--definition", "spikee", "--overview"],
            "spikee's own numbers for the same file",
        ),
        ([*ANALYZE, str(files.dynamic), "--strict"], "exit code 3, because a line is torn"),
        (["plan", str(folder / "benchmark"), "--model", "gpt-4o-mini"], "what the benchmark would cost with a model"),
        (["attacks", "list"], "the dynamic attacks that there are"),
        (["judges", "try", "refusal", "--text", "I cannot help with that."], "what a judge says of a text"),
        ([*ANALYZE, "your_results.jsonl"], "your own file"),
    ):
        _say(f"  {_command(words)}\n      {meaning}")
