"""The words of `faircount run`, `resume`, `merge`, `bench` and `plan`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import REPORT_LAYOUTS
from faircount.cli.gating import add_gates
from faircount.cli.parsing import EXIT_CODES, Instead, Parser, Verbs, add_format, add_output, command

_INSTEAD_OF_SPIKEES = {
    "--target-options": 'spikee\'s own targets take --target-args \'{"target_options": "TEXT"}\', the target openai '
    "takes --model NAME",
    "--max-retries": "--tries N sends a request up to N times, so that N is one more",
    "--judge-options": "--model NAME is the model that judges ask",
    "--throttle": "--requests-per-minute N limits all requests together",
    "--tag": "--journal FILE names the journal",
    "--resume-file": "go on with faircount resume JOURNAL",
    "--auto-resume": "go on with faircount resume JOURNAL",
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
        help="run tests or datasets of attacks against a target, every attempt kept and judged",
        description="Run the tests of files and folders against a target, or the entries of datasets. Every attempt\n"
        "is judged as it arrives and kept in a journal; at the end the analysis is printed. Attacks are for systems\n"
        "that are yours to test.",
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
        "--journal", metavar="FILE", help="the journal, a new file (default: run_<time>.jsonl in the output folder)"
    )
    group.add_argument(
        "--output-folder", default="results", metavar="DIR", help="where journal and report go (default: results)"
    )
    group.add_argument(
        "--report-layout",
        choices=REPORT_LAYOUTS,
        help="one test case in the report for each case, or for each metric of it as REBEL writes them "
        "(default: per-case)",
    )
    group.add_argument(
        "--spikee-results", metavar="FILE", help="write the results of a dataset for spikee's own tools, too"
    )
    _add_ending(group)
    add_gates(parser, baseline=True)
    parser.show_only(_COMMON)


def _add_resume(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "resume",
        help="go on with a run that was stopped",
        description="Go on with a run from its journal: what is missing is run, and the report is finished. All\n"
        "settings are those of the run.",
        epilog="example: faircount resume results/run_20260101_120000.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.run", "resume"))
    parser.add_argument("journal", metavar="JOURNAL", help="the journal of the run")
    group = parser.add_argument_group("how it goes on")
    group.add_argument("--retry-errors", action="store_true", help="try attempts again whose request failed")
    group.add_argument("--concurrency", type=int, metavar="N", help="requests at once (default: as before)")
    group.add_argument("--max-calls", type=int, metavar="N", help="stop after N more requests (default: as before)")
    group.add_argument("--max-cost", type=float, metavar="X", help="stop when X more is spent (default: as before)")
    group = parser.add_argument_group("output")
    group.add_argument(
        "--spikee-results",
        metavar="FILE",
        help="write the results of a dataset for spikee's own tools, a new file (default: as before)",
    )
    _add_ending(group)


def _add_merge(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "merge",
        help="put the shards of a run together, all of them and none twice",
        description="Put the journals of all shards of a run together into one. It is made only if they are parts of\n"
        "the same run, all there, none twice, and each complete.",
        epilog="example: faircount merge shard1.jsonl shard2.jsonl -o run.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.merge", "merge"))
    parser.add_argument("journals", nargs="+", metavar="JOURNAL", help="the journal of a shard")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the journal of the whole, a new file")
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there already")


def _add_bench(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "bench",
        help="run targets, datasets, judges and attacks as one file says",
        description="Run every combination of the targets, datasets, judges and attacks of a bench file, each as a\n"
        "run of its own, and compare the targets. What is there already is gone on with, so that the same command\n"
        "resumes a bench that was stopped.",
        epilog="examples: faircount bench release.toml --plan\n          faircount bench release.toml\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.bench", "bench"))
    parser.add_argument("file", metavar="FILE", help="the bench file, in TOML")
    parser.add_argument("--plan", action="store_true", help="say what would be run, and run nothing")
    parser.add_argument("--retry-errors", action="store_true", help="try attempts again whose request failed")
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


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
        help="what a run would do and cost, without calling anything",
        description="List the cases that a run would send, how many requests that are, and an estimate of their cost.\n"
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
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_spikees_names(parser: argparse.ArgumentParser) -> None:
    # Every run is a new one.
    parser.add_argument("--no-auto-resume", action="store_true", help=argparse.SUPPRESS)
    for option, instead in _INSTEAD_OF_SPIKEES.items():
        parser.add_argument(option, nargs="?", action=Instead, const=instead, help=argparse.SUPPRESS)


def _add_which_tests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is run")
    group.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="test file, folder with test files, or file::name for one function, suite or case; or datasets: .jsonl, "
        ".json, .csv, .tsv, also packed",
    )
    group.add_argument("--test-dir", action="append", default=[], metavar="DIR", help="the same, by REBEL's name")
    group.add_argument("--dataset", action="append", default=[], metavar="FILE", help="the same, by spikee's name")
    group.add_argument(
        "--dataset-folder", action="append", default=[], metavar="DIR", help="every .jsonl in a folder, by name"
    )
    group.add_argument(
        "--keyword", metavar="EXPRESSION", help="cases whose name has the words: alpha and not (beta or gamma)"
    )
    group.add_argument("--tags", action="append", default=[], metavar="A,B", help="cases with one of the tags")
    group.add_argument("--exclude-tags", action="append", default=[], metavar="A,B", help="cases with none of the tags")
    group.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="the case, suite or function of this name, or the entry of this id (repeatable)",
    )
    group.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="of tests: try every case N times (default: what the tests say); of datasets: make an attempt that ended "
        "in an error again, up to N times (default: 0)",
    )
    group.add_argument(
        "--aggregation",
        metavar="NAME",
        help="how attempts become one result: min, max, mean, median, majority, any, all, first, mode, pass@3 … "
        "(default: what the tests say)",
    )


def _add_entries(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("datasets")
    group.add_argument(
        "--judge",
        metavar="JUDGE",
        help="who decides whether an attempt succeeded, for all entries (default: the judge that each entry names, if "
        "it compares strings or the configuration names it)",
    )
    group.add_argument(
        "--no-judge", action="store_true", help="the target is a guardrail that answers yes or no: nobody has to judge"
    )
    group.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="ROLE=COLUMN",
        help="which column holds what: prompt=question, id=ref, system=persona, judge_args=canary; an empty column "
        "takes a guess back (repeatable)",
    )
    group.add_argument("--where", metavar="QUERY", help="only entries whose fields are so: 'plugin = base64'")
    group.add_argument("--sample", metavar="P", help="only so many entries, drawn at random: 0.25, 25%% or 100")
    group.add_argument("--sample-seed", metavar="N", help="which draw: a number, or random (default: 42)")
    group.add_argument(
        "--attempts", type=int, metavar="N", help="try an entry up to N times, until it succeeds (default: 1)"
    )
    group.add_argument("--shard", metavar="I/N", help="only the I-th of N parts; faircount merge puts them together")
    group.add_argument(
        "--stop-when",
        metavar="RULE",
        help="stop as soon as enough is known: 'asr < 5%%', 'asr > 20%%', 'width < 4%%'; entries then come in random "
        "order",
    )


def _add_attacks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("dynamic attacks, on systems that are yours to test")
    group.add_argument(
        "--attack",
        metavar="ATTACK",
        help="what is tried when an entry itself did not succeed; see faircount attacks list",
    )
    group.add_argument(
        "--attack-iterations", type=int, metavar="N", help="up to N iterations for each entry (default: 10)"
    )
    group.add_argument("--attack-options", metavar="TEXT", help="options of the attack")
    group.add_argument("--attack-only", action="store_true", help="leave the entries' own prompts out")


def _add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("target")
    group.add_argument(
        "--target",
        metavar="NAME",
        help="openai, simulated, ./file.py:Name, or others with parameters; see faircount targets list",
    )
    group.add_argument("--model", metavar="NAME", help="the model of the target openai, and of judges that ask one")
    group.add_argument("--base-url", metavar="URL", help="where it is: an endpoint that is compatible with OpenAI's")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="the environment variable with its key (default: OPENAI_API_KEY)"
    )
    group.add_argument("--target-args", metavar="JSON", help="parameters of the target's class, as a JSON object")
    group.add_argument("--config", metavar="FILE", help="a TOML file with judges, prices and models")
    group.add_argument("--api-config", metavar="FILE", help="REBEL's JSON file with api_key, base_url and model")
    group.add_argument("--api-client-module", metavar="MODULE", help="the module of a client written for REBEL")
    group.add_argument("--api-client-class", metavar="CLASS", help="its class")
    group.add_argument("--api-client-args", metavar="JSON", help="what its class is made with")


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
        help="requests at once (default: 8)",
    )
    group.add_argument(
        "--num-workers-eval", type=int, metavar="N", help="taken for REBEL's sake: answers are measured as they arrive"
    )
    group.add_argument("--requests-per-minute", type=float, metavar="N", help="no more requests than that")
    group.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one request (default: 60)")
    group.add_argument(
        "--tries", type=int, default=5, metavar="N", help="send a request up to N times if it fails (default: 5)"
    )
    group.add_argument("--max-calls", type=int, metavar="N", help="stop after N requests")
    group.add_argument(
        "--max-cost", type=float, metavar="X", help="stop when X is spent, in the currency of the prices"
    )
    group.add_argument("--stop-after-errors", type=int, metavar="N", help="stop when N requests in a row have failed")


def _add_ending(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fail-on-failed-tests", action="store_true", help="exit with 1 if a case failed")
    add_format(group, "of the analysis; html is a page beside the journal unless -o is given")
    group.add_argument("-o", "--output", metavar="FILE", help="write the analysis there instead of to standard output")
