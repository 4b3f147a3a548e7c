"""Every command as a table: its name, its help, its options and its function; and the command line made of it.

Only the argument parser is imported here.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from faircount.app.cli.parser import EXIT_CODES, Command, Noun, Parser
from faircount.version import __version__

if TYPE_CHECKING:
    from faircount.app.cli.options import Completion
    from faircount.app.cli.runner import CommandResult

_PARTS, _RESULTS, _RUNNING = "faircount.app.cli.options:", "faircount.analysis.options:", "faircount.runs.options:"
_JUDGES = "faircount.analysis.options:"
_INPUTS, _OUTPUT, _PAGES, _REPORT = (_PARTS + name for name in ("Inputs", "Output", "PageOutput", "ReportOutput"))
_GATES, _BASELINE_GATES = (_PARTS + name for name in ("Gates", "BaselineGates"))
_APP = "faircount.app.options:"
_MODELS = _APP + "Models"
_WORK = _JUDGES + "WorkOptions"
_LABELS = (_JUDGES + "JudgesAndLabels", "faircount.readers.label_types:LabelOptions")
_SUMMARY = "data/detectors-eval/detector_metrics_summary.json"
_PURPOSE = "Use attacks only on systems that you own or are authorised to test."
_OF_SPIKEE = {
    "--target-options": 'a spikee option; use --target-args \'{"target_options": "TEXT"}\' for spikee\'s own targets, '
    "--model NAME for the target openai",
    "--max-retries": "a spikee option; use --tries N, which includes the first request, so N is one more",
    "--judge-options": "a spikee option; use --model NAME, the model for LLM judges",
    "--throttle": "a spikee option; use --requests-per-minute N, a limit on all requests together",
    "--tag": "a spikee option; use --journal FILE to name the journal",
    "--resume-file": "a spikee option; use faircount resume JOURNAL",
    "--auto-resume": "a spikee option; use --journal FILE --resume-if-exists",
}
"""Options of `spikee test` that have another name here because they mean something else."""


RESULTS = Noun(
    "results",
    "work with result files",
    "Work with result files.",
    (
        Command(
            "analyze",
            "compute rates with intervals and breakdowns, and list problems with the data",
            "Analyse result files: each on its own, in the order given, or all together with --combine.",
            "faircount.app.cli.results:analyze",
            (_INPUTS, _RESULTS + "AnalyzeOptions", _PARTS + "Details", _PAGES, _BASELINE_GATES, _APP + "EngineOptions"),
            ("faircount results analyze results/results_*.jsonl --combine --by jailbreak_type",),
        ),
        Command(
            "extract",
            "write the rows that succeeded, failed or match a query to a new dataset",
            "Write the rows selected by a category, a query or search terms to a new dataset.",
            "faircount.app.cli.results:extract",
            (_INPUTS, _RESULTS + "ExtractOptions", _APP + "ExtractedFile"),
            (
                "faircount results extract results/results_*.jsonl --category failure",
                "faircount results extract results/results_*.jsonl --where 'error contains \"time-out\"'",
            ),
        ),
        Command(
            "export",
            "export rows or entries as JSONL, CSV, Parquet, Excel or HTML",
            "Export rows, or the entries that they belong to, in a format that other programs read.",
            "faircount.app.cli.results:export",
            (_INPUTS, _RESULTS + "ExportOptions", _APP + "ExportedFile"),
            (
                "faircount results export results/results_x.jsonl --to parquet",
                "faircount results export results/results_*.jsonl --where 'outcome = error' --columns id,error "
                "-o errors.csv",
            ),
        ),
        Command(
            "convert-to-excel",
            "write an Excel workbook with the rows, the analysis with charts, and the findings",
            "Write an Excel workbook with sheets for the rows, the analysis with charts, and the findings.",
            "faircount.app.cli.results:convert_to_excel",
            (_INPUTS, _RESULTS + "ExcelOptions", _APP + "Workbook"),
            ("faircount results convert-to-excel --result-file results/results_x.jsonl",),
        ),
        Command(
            "rejudge",
            "re-judge recorded responses: new verdicts with provenance, and their effect on the rate",
            "Judge the responses in result files again. Rows with new verdicts go to a new file next to the\n"
            "input. Stored verdicts are reused.",
            "faircount.app.cli.results:rejudge",
            (_INPUTS, _RESULTS + "RejudgeOptions", _APP + "RejudgeFiles", _MODELS, _OUTPUT),
            ("faircount results rejudge results/results_bot.jsonl --judge 'not(refusal)' --dry-run",),
        ),
        Command(
            "compare",
            "compare runs on the same entries: differences with intervals and tests",
            "Compare result files on the entries that both answered: the difference with its interval, flipped\n"
            "entries, and where the difference lies. The first file is A unless --baseline names it.",
            "faircount.app.cli.results:compare",
            (_INPUTS, _RESULTS + "CompareOptions", _OUTPUT, _GATES),
            ("faircount results compare results/results_old.jsonl results/results_new.jsonl --by plugin",),
        ),
        Command(
            "operating-point",
            "choose the threshold of a guardrail that gives scores, with bounds that allow for the choice",
            "Choose the threshold of a guardrail or judge that gives scores, from a run over attacks and a run\n"
            "over harmless prompts, and show the effect and cost of every other threshold.",
            "faircount.app.cli.results:operating_point",
            (_INPUTS, _RESULTS + "OperatingOptions", _OUTPUT),
            (
                "faircount results operating-point guarded.jsonl --false-positive-checks benign.jsonl "
                "--score guardrail_score",
            ),
        ),
        Command(
            "dataset-comparison",
            "find entries of a dataset that succeed on many targets, or on few, and how success transfers",
            "Compare the entries of a dataset across several targets, one result file each, and write those\n"
            "with a high or a low success rate to a new dataset.",
            "faircount.app.cli.results:dataset_comparison",
            (_INPUTS, _PARTS + "DatasetName", _RESULTS + "DatasetComparisonOptions", _APP + "ComparedFile", _REPORT),
            ("faircount results dataset-comparison --dataset-file my.jsonl results/results_*.jsonl -n 50",),
        ),
        Command(
            "show",
            "show everything that is recorded about one entry",
            "Show an entry: its outcome and why, its attempts with their texts, and rows that are not counted.",
            "faircount.app.cli.results:show",
            (_PARTS + "EntryId", _INPUTS, _RESULTS + "ShowOptions", _OUTPUT),
            ("faircount results show 12 results/results_*.jsonl",),
        ),
        Command(
            "check",
            "list problems with result files; exit code 1 if any is serious",
            "Report how many lines could be read, and list problems with the data. Findings of\n"
            "severity error are serious: unreadable lines, a truncated compressed file.",
            "faircount.app.cli.results:check",
            (_INPUTS, _RESULTS + "CheckOptions", _OUTPUT),
            ("faircount results check results/results_*.jsonl --warnings",),
        ),
        Command(
            "power",
            "calculate how many entries a question needs, or what a number of entries can show",
            "Calculate how many entries an interval or a difference needs, or what a number of entries can show.\n"
            "Reads no files. Rates, differences and widths are shares: 0.05 is 5%.",
            "faircount.app.cli.results:power",
            (_RESULTS + "PowerOptions", _OUTPUT),
            ("faircount results power --rate 0.2 --half-width 0.05 --families 10 --icc 0.3",),
        ),
        Command(
            "sample-for-labels",
            "draw entries for people to label, to correct the rate for judge errors",
            "Draw the entries whose labels are most informative about the judge, into a sheet that hides its\n"
            "verdicts. Pass the completed sheet to analyze with --judge-quality.",
            "faircount.app.cli.results:sample_for_labels",
            (_INPUTS, _RESULTS + "SampleOptions", _APP + "LabelSheet", _PARTS + "PrintedReport"),
            ("faircount results sample-for-labels results/results_x.jsonl --n 50 -o labels.xlsx",),
        ),
    ),
)

RUNS = (
    Command(
        "run",
        "run tests or attack datasets against a target; every attempt is judged and recorded",
        "Run tests or datasets against a target, judge every attempt as it arrives, record it in a journal,\n"
        "and print the analysis. Run attacks only against systems that you are authorised to test.",
        "faircount.app.cli.run:run",
        (_RUNNING + "RunOptions", _RUNNING + "JournalOptions", _PARTS + "RunOutput", _BASELINE_GATES),
        (
            "faircount run tests/ --target simulated --concurrency 16",
            "faircount run tests/ --target ./my_bot.py:answer --retries 5 --aggregation majority",
            "faircount run attacks.jsonl --target ./my_bot.py:answer --attack best-of-n",
        ),
        short_help=True,
        refused=_OF_SPIKEE,
    ),
    Command(
        "resume",
        "resume an interrupted run",
        "Resume a run from its journal, with its settings, and finish the report.",
        "faircount.app.cli.run:resume",
        (_RUNNING + "ResumeOptions", _PARTS + "RunOutput"),
        ("faircount resume results/run_20260101_120000.jsonl",),
    ),
    Command(
        "merge",
        "merge the shards of a run",
        "Merge the journals of a run's shards into one. Every shard is needed, complete, and once.",
        "faircount.app.cli.run:merge",
        (_RUNNING + "MergeOptions",),
        ("faircount merge run_shard*.jsonl --check", "faircount merge run_shard*.jsonl -o run.jsonl"),
    ),
    Command(
        "bench",
        "run every combination of targets, datasets, judges and attacks in a file",
        "Run every combination of the targets, datasets, judges and attacks in a bench file as a separate\n"
        "run, and compare the targets. Repeat the command to resume an interrupted bench.",
        "faircount.app.cli.run:bench",
        (_RUNNING + "BenchOptions", _OUTPUT),
        ("faircount bench release.toml --plan", "faircount bench release.toml"),
    ),
    Command(
        "plan",
        "show what a run would do and cost, without calling anything",
        "List the cases of a run, the number of requests, and their estimated cost. Nothing is called.",
        "faircount.app.cli.run:plan",
        (_RUNNING + "RunOptions", _OUTPUT),
        ("faircount plan tests/ --model gpt-4o-mini --retries 5",),
        refused=_OF_SPIKEE,
    ),
)

JUDGES = Noun(
    "judges",
    "list judges, try them, and measure their quality and agreement",
    "List judges, try them, and measure their quality against labelled data and their agreement.",
    (
        Command(
            "list",
            "list the available judges and what they look for",
            "List the built-in judges, those of installed packages, and which other tools' judges can be used.",
            "faircount.app.cli.components:list_judges",
            (_OUTPUT,),
            ("faircount judges list --output-format json",),
        ),
        Command(
            "try",
            "apply one judge to one text and explain the verdict",
            "Show a judge's verdict on one response: decision, score, reason, and the words that decided it.",
            "faircount.app.cli.components:try_judge",
            (_JUDGES + "TryJudgeOptions", _MODELS, _OUTPUT),
            (
                "faircount judges try refusal 'I cannot help with that.'",
                "faircount judges try 'regex(pattern=\"^Sure\")' - < answer.txt",
            ),
        ),
        Command(
            "evaluate",
            "measure judges against labelled data",
            "Measure judges against labelled data: precision, recall and F1 for hits and for passes, with\n"
            "intervals. The results are added to a summary file; judges measured earlier stay in it.",
            "faircount.app.cli.components:evaluate",
            (*_LABELS, _JUDGES + "MeasureOptions", _MODELS, _WORK, _REPORT),
            ("faircount judges evaluate --labels labelled.csv refusal 'contains(text=\"sorry\")'",),
        ),
        Command(
            "rank",
            "rank judges by F1, best first",
            "Rank the judges in one or more summaries from Faircount, garak or PyRIT, best first.",
            "faircount.app.cli.components:rank",
            (_JUDGES + "RankOptions", _OUTPUT),
            (f"faircount judges rank {_SUMMARY} --by hit_precision",),
        ),
        Command(
            "agree",
            "measure how far judges and raters agree, and show where they disagree",
            "Measure how far judges and human raters agree beyond chance, and show where they disagree.",
            "faircount.app.cli.components:agree",
            (*_LABELS, _JUDGES + "AgreeOptions", _MODELS, _WORK, _OUTPUT),
            ("faircount judges agree --labels labelled.csv refusal 'not(mitigation-bypass)'",),
        ),
    ),
)

TARGETS = Noun(
    "targets",
    "list targets, and try one",
    "List the available targets, and send a prompt to one of them.",
    (
        Command(
            "list",
            "list the available targets",
            "List the available targets: servers, programs, code, saved results and simulations.",
            "faircount.app.cli.components:list_targets",
            (_OUTPUT,),
            ("faircount targets list --output-format markdown",),
        ),
        Command(
            "try",
            "send one prompt to one target",
            "Send one prompt to a target and show the answer with its time, tokens and cost, the decision of a\n"
            "guardrail, or the error. Nothing is judged or saved.",
            "faircount.app.cli.components:try_target",
            (_RUNNING + "TryTargetOptions", _OUTPUT),
            (
                "faircount targets try simulated 'What is 17 + 25?'",
                "faircount targets try ./target.toml 'Hello' --system 'Be brief.'",
                "faircount targets try 'command(argv=[\"./bot\"])' - < prompt.txt",
            ),
        ),
    ),
)

ATTACKS = Noun(
    "attacks",
    "list dynamic attacks and try them; for systems you are authorised to test",
    f"List dynamic attacks, and show what one sends.\n{_PURPOSE}",
    (
        Command(
            "list",
            "list the available attacks and what they do",
            f"List the built-in attacks, those of installed packages, and whether spikee's can be used.\n{_PURPOSE}",
            "faircount.app.cli.components:list_attacks",
            (_OUTPUT,),
            ("faircount attacks list --output-format json",),
        ),
        Command(
            "try",
            "show what an attack sends for one prompt, and optionally send it",
            "Show what an attack sends for one prompt. With --target it is actually sent, and with --judge it\n"
            f"stops at the first success. {_PURPOSE}",
            "faircount.app.cli.components:try_attack",
            (_RUNNING + "TryAttackOptions", _MODELS, _OUTPUT),
            (
                "faircount attacks try best-of-n 'Say the secret word.' --iterations 3",
                "faircount attacks try encodings 'Say BYPASSED.' --target ./bot.py:answer --judge canary "
                "--field judge_args=BYPASSED",
            ),
        ),
    ),
)

CACHE = Noun(
    "cache",
    "cache of parsed files",
    "Cache of parsed files. It is safe to delete.",
    (
        Command(
            "show",
            "show where the cache is and how large it is",
            "Show where the cache is and how large it is.",
            "faircount.app.cli.results:show_cache",
        ),
        Command("clear", "delete the cache", "Delete the cache.", "faircount.app.cli.results:clear_cache"),
    ),
)

OTHERS = (
    Command(
        "view",
        "explore results in the browser, from a number to the rows behind it",
        "Open a page on this machine that shows runs, entries, and the exact characters of every text.\n"
        "It only reads, except for the file of --labels, and listens on this machine alone. Ctrl-C ends it.",
        "faircount.app.cli.view:view",
        (_APP + "ViewOptions",),
        (
            "faircount view results/",
            "faircount view 'results/*.jsonl' --port 8080 --no-browser",
            "faircount view results/ --labels labels.jsonl",
            "faircount view 'results/results_*.jsonl' --export report/ --redact",
        ),
    ),
    Command(
        "verify",
        "recompute every figure of an exported page from the result files",
        "Check an export of the page: that its files are unchanged, its result files are the right ones, and\n"
        "recomputed figures and pages are the same. If not, the exit code is 1.",
        "faircount.app.cli.view:verify",
        (_APP + "VerifyOptions",),
        ("faircount verify report/ 'results/results_*.jsonl'",),
    ),
    Command(
        "explain",
        "explain the code of a finding: its cause, its effect on the numbers, and the remedy",
        "Explain findings: the cause, the effect on the numbers, and the remedy. Without a code, list all.",
        "faircount.app.cli.results:explain",
        (_PARTS + "FindingCodes", _OUTPUT),
        ("faircount explain F015", "faircount explain f001 f002 --output-format json"),
    ),
    Command(
        "demo",
        "generate sample results offline, analyse them, and suggest next steps",
        "Generate sample results from simulated targets, offline; analyse them, and suggest next steps.",
        "faircount.app.cli.demo:demo",
        (_PARTS + "Demo",),
    ),
    Command(
        "completion",
        "print a shell completion script",
        "Print a script that completes commands and options in a shell.",
        "faircount.app.cli.commands:completion",
        (_PARTS + "Completion",),
        ('eval "$(faircount completion bash)"', "faircount completion zsh > _faircount"),
    ),
)

ALL: tuple[Noun | Command, ...] = (RESULTS, *RUNS, JUDGES, TARGETS, ATTACKS, CACHE, *OTHERS)
"""Everything that may come first on the command line, in the order of the help."""


# -- the command line -------------------------------------------------------------------------------------------


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; wrong words end with exit code 2 and a hint."""
    parser = build()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_in_full())
    arguments = parser.parse_args(_in_full(argv, parser.shortcuts))
    arguments.words = tuple(argv)
    return arguments


def _in_full(argv: Sequence[str], shortcuts: Sequence[str]) -> list[str]:
    """Return a command line with `results` before its commands, which may stand alone, and `analyze` so spelled."""
    words = list(argv)
    places = [place for place, word in enumerate(words) if not word.startswith("-")][:2]
    for place in places[: 2 if words[places[0]] == "results" else 1] if places else ():
        words[place] = {"analyse": "analyze"}.get(words[place], words[place])
    if places and words[places[0]] in shortcuts:
        words.insert(places[0], "results")
    return words


@functools.cache
def build() -> Parser:
    """Return the parser of the whole command line; that of a command is made when it is chosen."""
    parser = Parser(
        prog="faircount",
        description="Run red-teaming, benchmark and guardrail tests of language models, and analyse their results:\n"
        "rates with confidence intervals, comparisons, and the evidence behind them.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="hide progress")
    parser.add_argument("-V", "--version", action="version", version=f"faircount {__version__}")
    parser.add_commands(ALL)
    parser.shortcuts = tuple(command.name for command in RESULTS.commands)
    return parser


def build_in_full() -> Parser:
    """Return the parser with those of all commands."""
    _make_all(build())
    return build()


def _make_all(parser: Parser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                _make_all(action.choices[name])


def completion(options: Completion) -> CommandResult:
    """Return the script that lets a shell ask this program what may come next."""
    from argcomplete.shell_integration import shellcode

    from faircount.app.cli.runner import CommandResult

    return CommandResult(text=shellcode(["faircount"], shell=options.shell).rstrip("\n") + "\n")
