"""The words of `faircount run`, `resume`, `merge`, `bench` and `plan`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import REPORT_LAYOUTS
from faircount.cli.gating import add_gates
from faircount.cli.parsing import EXIT_CODES, Instead, Parser, Verbs, add_format, add_output, command

_INSTEAD_OF_SPIKEES = {
    "--target-options": 'use --target-args \'{"target_options": "TEXT"}\' for spikee\'s own targets, --model NAME for '
    "the target openai",
    "--max-retries": "use --tries N, which includes the first request, so N is one more",
    "--judge-options": "use --model NAME, the model for LLM judges",
    "--throttle": "use --requests-per-minute N, a limit on all requests together",
    "--tag": "use --journal FILE to name the journal",
    "--resume-file": "use faircount resume JOURNAL",
    "--auto-resume": "use faircount resume JOURNAL",
}
"""Options of `spikee test` that have another name here because they mean something else."""


_COMMON = (
    "--target",
    "--model",
    "--config",
    "--judge",
    "--attack",
    "--retries",
    "--concurrency",
    "--max-cost",
    "--journal",
    "--fail-on",
)
"""The options of a run that most people need."""


def add_run(nouns: Verbs) -> None:
    """Add `run`, `resume`, `merge`, `bench` and `plan`."""
    _add_run(nouns)
    _add_resume(nouns)
    _add_merge(nouns)
    _add_bench(nouns)
    _add_plan(nouns)


def _add_run(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "run",
        help="run tests or attack datasets against a target; every attempt is judged and recorded",
        description="Run tests, or the entries of datasets, against a target. Every attempt is judged as it arrives\n"
        "and recorded in a journal; at the end the analysis is printed. Run attacks only against systems\n"
        "that you are authorised to test.",
        epilog="examples: faircount run tests/ --target simulated --concurrency 16\n"
        "          faircount run tests/ --target ./my_bot.py:answer --retries 5 --aggregation majority\n"
        "          faircount run attacks.jsonl --target ./my_bot.py:answer --attack best-of-n\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.run", "run"))
    _add_which_tests(parser)
    _add_entries(parser)
    _add_attacks(parser)
    _add_target(parser)
    _add_limits(parser)
    _add_spikees_names(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--journal", metavar="FILE", help="journal, a new file (default: run_<time>.jsonl in the output folder)"
    )
    group.add_argument(
        "--output-folder", default="results", metavar="DIR", help="folder for journal and report (default: results)"
    )
    group.add_argument(
        "--report-layout",
        choices=REPORT_LAYOUTS,
        help="one test case in the report per case, or per metric as in REBEL's reports (default: per-case)",
    )
    group.add_argument(
        "--spikee-results", metavar="FILE", help="also write the results of a dataset in spikee's format"
    )
    _add_ending(group)
    add_gates(parser, baseline=True)
    parser.show_only(_COMMON)


def _add_resume(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "resume",
        help="resume an interrupted run",
        description="Resume a run from its journal: run what is missing, and finish the report. The settings are\n"
        "those of the original run.",
        epilog="example: faircount resume results/run_20260101_120000.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.run", "resume"))
    parser.add_argument("journal", metavar="JOURNAL", help="journal of the run")
    group = parser.add_argument_group("execution")
    group.add_argument("--retry-errors", action="store_true", help="retry attempts whose request failed")
    group.add_argument("--concurrency", type=int, metavar="N", help="concurrent requests (default: as before)")
    group.add_argument("--max-calls", type=int, metavar="N", help="stop after N more requests (default: as before)")
    group.add_argument("--max-cost", type=float, metavar="X", help="stop after spending X more (default: as before)")
    group = parser.add_argument_group("output")
    group.add_argument(
        "--spikee-results",
        metavar="FILE",
        help="also write the results of a dataset in spikee's format, to a new file (default: as before)",
    )
    _add_ending(group)


def _add_merge(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "merge",
        help="merge the shards of a run",
        description="Merge the journals of a run's shards into one. All shards of the run are needed, each complete\n"
        "and given once.",
        epilog="example: faircount merge shard1.jsonl shard2.jsonl -o run.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.merge", "merge"))
    parser.add_argument("journals", nargs="+", metavar="JOURNAL", help="journal of a shard")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="merged journal")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it already exists")


def _add_bench(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "bench",
        help="run every combination of targets, datasets, judges and attacks in a file",
        description="Run every combination of the targets, datasets, judges and attacks in a bench file, each as a\n"
        "separate run, and compare the targets. Existing runs are resumed: repeat the command to continue an\n"
        "interrupted bench.",
        epilog="examples: faircount bench release.toml --plan\n          faircount bench release.toml\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.bench", "bench"))
    parser.add_argument("file", metavar="FILE", help="bench file, in TOML")
    parser.add_argument("--plan", action="store_true", help="show what would run, without running it")
    parser.add_argument("--retry-errors", action="store_true", help="retry attempts whose request failed")
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")


def bench_options() -> dict[str, bool]:
    """Return the options of a run that a bench file may give, and whether each is only there or not."""
    parser = Parser()
    for add in (_add_which_tests, _add_entries, _add_attacks, _add_target, _add_limits):
        add(parser)
    paths = ("paths", "test_dir", "dataset", "dataset_folder")
    own = ("help", *paths, "tags", "exclude_tags", "aggregation", "shard", "num_workers_eval")
    return {action.dest: action.nargs == 0 for action in parser._actions if action.dest not in own}


def _add_plan(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "plan",
        help="show what a run would do and cost, without calling anything",
        description="List the cases that a run would send, the number of requests, and an estimate of their cost.\n"
        "Nothing is called.",
        epilog="example: faircount plan tests/ --model gpt-4o-mini --retries 5\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.run", "plan"))
    _add_which_tests(parser)
    _add_entries(parser)
    _add_attacks(parser)
    # The words of `run` are taken, so that its command can be planned as it stands; --model and --config matter.
    _add_target(parser)
    _add_limits(parser)
    _add_spikees_names(parser)
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")


def _add_spikees_names(parser: argparse.ArgumentParser) -> None:
    # Every run is a new one.
    parser.add_argument("--no-auto-resume", action="store_true", help=argparse.SUPPRESS)
    for option, instead in _INSTEAD_OF_SPIKEES.items():
        parser.add_argument(option, nargs="?", action=Instead, const=instead, help=argparse.SUPPRESS)


def _add_which_tests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection")
    group.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="test file, folder of test files, or file::name for one function, suite or case; or datasets: .jsonl, "
        ".json, .csv, .tsv, also compressed",
    )
    group.add_argument(
        "--test-dir", action="append", default=[], metavar="DIR", help="same as PATH; REBEL's name for it"
    )
    group.add_argument(
        "--dataset", action="append", default=[], metavar="FILE", help="same as PATH; spikee's name for it"
    )
    group.add_argument(
        "--dataset-folder",
        action="append",
        default=[],
        metavar="DIR",
        help="all .jsonl files in a folder, in order of name",
    )
    group.add_argument(
        "--keyword", metavar="EXPRESSION", help="cases whose name matches: alpha and not (beta or gamma)"
    )
    group.add_argument("--tags", action="append", default=[], metavar="A,B", help="cases with any of these tags")
    group.add_argument(
        "--exclude-tags", action="append", default=[], metavar="A,B", help="cases with none of these tags"
    )
    group.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="case, suite or function of this name, or entry with this id (repeatable)",
    )
    group.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="tests: run every case N times (default: as set in the tests); datasets: retry an attempt that ended "
        "in an error up to N times (default: 0)",
    )
    group.add_argument(
        "--aggregation",
        metavar="NAME",
        help="how attempts are combined into one result: min, max, mean, median, majority, any, all, first, mode, "
        "pass@3 … (default: as set in the tests)",
    )


def _add_entries(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("datasets")
    group.add_argument(
        "--judge",
        metavar="JUDGE",
        help="judge for all entries (default: the judge that each entry names, if it compares strings or is in the "
        "configuration)",
    )
    group.add_argument(
        "--no-judge", action="store_true", help="no judge is needed: the target is a guardrail that answers yes or no"
    )
    group.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="ROLE=COLUMN",
        help="map a column to a role: prompt=question, id=ref, system=persona, judge_args=canary; an empty column "
        "cancels a guess (repeatable)",
    )
    group.add_argument("--where", metavar="QUERY", help="only entries that match a query: 'plugin = base64'")
    group.add_argument("--sample", metavar="P", help="only a random sample of the entries: 0.25, 25%% or 100")
    group.add_argument(
        "--sample-seed", metavar="N", help="random seed of the sample: a number, or random (default: 42)"
    )
    group.add_argument(
        "--attempts", type=int, metavar="N", help="try an entry up to N times, until it succeeds (default: 1)"
    )
    group.add_argument("--shard", metavar="I/N", help="run only the I-th of N parts; merge them with faircount merge")
    group.add_argument(
        "--stop-when",
        metavar="RULE",
        help="stop as soon as the answer is clear: 'asr < 5%%', 'asr > 20%%', 'width < 4%%'; entries then run in "
        "random order",
    )


def _add_attacks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("dynamic attacks, only on systems you are authorised to test")
    group.add_argument(
        "--attack",
        metavar="ATTACK",
        help="attack to try when an entry's own prompt did not succeed; see faircount attacks list",
    )
    group.add_argument(
        "--attack-iterations", type=int, metavar="N", help="maximum number of iterations per entry (default: 10)"
    )
    group.add_argument("--attack-options", metavar="TEXT", help="options of the attack")
    group.add_argument("--attack-only", action="store_true", help="skip the entries' own prompts")


def _add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("target")
    group.add_argument(
        "--target",
        metavar="NAME",
        help="openai, simulated, ./file.py:Name or another, with parameters if needed; see faircount targets list",
    )
    group.add_argument("--model", metavar="NAME", help="model for the target openai and for LLM judges")
    group.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible endpoint")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable with the API key (default: OPENAI_API_KEY)"
    )
    group.add_argument("--target-args", metavar="JSON", help="parameters of the target's class, as a JSON object")
    group.add_argument("--config", metavar="FILE", help="TOML file with judges, prices and models")
    group.add_argument("--api-config", metavar="FILE", help="REBEL's JSON file with api_key, base_url and model")
    group.add_argument("--api-client-module", metavar="MODULE", help="module of an API client written for REBEL")
    group.add_argument("--api-client-class", metavar="CLASS", help="class of the REBEL client")
    group.add_argument("--api-client-args", metavar="JSON", help="arguments of that class, as a JSON object")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--concurrency",
        "--threads",
        "--num-workers-api",
        dest="concurrency",
        type=int,
        default=8,
        metavar="N",
        help="concurrent requests (default: 8)",
    )
    group.add_argument(
        "--num-workers-eval",
        type=int,
        metavar="N",
        help="accepted for compatibility with REBEL: answers are measured as they arrive",
    )
    group.add_argument("--requests-per-minute", type=float, metavar="N", help="maximum number of requests per minute")
    group.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="timeout of one request (default: 60)"
    )
    group.add_argument(
        "--tries", type=int, default=5, metavar="N", help="send a failing request up to N times (default: 5)"
    )
    group.add_argument("--max-calls", type=int, metavar="N", help="stop after N requests")
    group.add_argument(
        "--max-cost", type=float, metavar="X", help="stop after spending X, in the currency of the prices"
    )
    group.add_argument("--stop-after-errors", type=int, metavar="N", help="stop after N failed requests in a row")


def _add_ending(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fail-on-failed-tests", action="store_true", help="exit with 1 if a case failed")
    add_format(group, "html goes next to the journal unless -o is given")
    group.add_argument("-o", "--output", metavar="FILE", help="write the analysis to FILE instead of standard output")
