"""The words of `faircount run`, `resume` and `plan`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import REPORT_LAYOUTS
from faircount.cli.gating import add_gates
from faircount.cli.parsing import EXIT_CODES, Verbs, add_output, command

_FORMATS = ("console", "json", "markdown")


def add_run(nouns: Verbs) -> None:
    """Add `run`, `resume` and `plan`."""
    _add_run(nouns)
    _add_resume(nouns)
    _add_plan(nouns)


def _add_run(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "run",
        help="run tests against a target, every attempt kept and judged",
        description="Run the tests of files and folders against a target. Every attempt is judged as it arrives and\n"
        "kept in a journal; at the end there is a report, and the analysis is printed.",
        epilog="examples: faircount run tests/ --target simulated\n"
        "          faircount run tests/ --target openai --model gpt-4o-mini --concurrency 16\n"
        "          faircount run tests/ --target ./my_bot.py:answer --retries 5 --aggregation majority\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.run", "run"))
    _add_which_tests(parser)
    _add_target(parser)
    _add_limits(parser)
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
        default=REPORT_LAYOUTS[0],
        help="one test case in the report for each case, or for each metric of it as REBEL writes them "
        "(default: per-case)",
    )
    _add_ending(group)
    add_gates(parser, baseline=True)


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
    _add_ending(parser.add_argument_group("output"))


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
    # The words of `run` are taken, so that its command can be planned as it stands; --model and --config matter.
    _add_target(parser)
    _add_limits(parser)
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_which_tests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which tests")
    group.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="test file, folder with test files, or file::name for one function, suite or case",
    )
    group.add_argument("--test-dir", action="append", default=[], metavar="DIR", help="the same, by REBEL's name")
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
        help="the case, suite or function of this name (repeatable)",
    )
    group.add_argument("--retries", type=int, metavar="N", help="try every case N times (default: what the tests say)")
    group.add_argument(
        "--aggregation",
        metavar="NAME",
        help="how attempts become one result: min, max, mean, median, majority, any, all, first, mode, pass@3 … "
        "(default: what the tests say)",
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("target")
    group.add_argument(
        "--target", metavar="NAME", help="openai, simulated, ./file.py:Name, or one of these with parameters"
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
    group.add_argument(
        "--output-format",
        choices=_FORMATS,
        default="console",
        help="of the analysis that is printed (default: console)",
    )
