"""The words of `faircount results rejudge`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.rejudging.choices import AUTO, TURNS
from faircount.cli.parsing import EXIT_CODES, Verbs, add_inputs, add_level, add_models, add_output, add_work, command


def add_rejudge(verbs: Verbs) -> None:
    """Add `results rejudge`."""
    parser = verbs.add_parser(
        "rejudge",
        help="re-judge recorded responses: new verdicts with provenance, and their effect on the rate",
        description="Re-judge the responses in result files without calling the target. The rows with their new\n"
        "verdicts go to a new file next to the input. Stored verdicts are reused.",
        epilog="example: faircount results rejudge results/results_bot.jsonl --judge 'not(refusal)' --dry-run\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.rejudge", "rejudge"))
    add_inputs(parser)
    _add_judges(parser)
    _add_verdicts(parser)
    add_models(parser)
    add_work(parser, but="; judges that compare strings need none")
    _add_shown(parser)
    add_output(parser, page="html needs -o", place="write the report to FILE instead of standard output")


def _add_judges(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("judges")
    group.add_argument(
        "--judge",
        metavar="JUDGE",
        help="judge for all rows; a hit is a success (default: the judge that each row names)",
    )
    group.add_argument(
        "--allow-judge",
        action="append",
        default=[],
        metavar="NAME[=JUDGE]",
        help="judge rows that name NAME with JUDGE, or with the judge of that name (repeatable); without this, rows "
        "can name only judges that compare strings",
    )
    group.add_argument(
        "--judge-options",
        metavar="TEXT",
        help="spikee option: model for LLM judges; it is written into the rows",
    )
    group.add_argument(
        "--turns",
        choices=TURNS,
        default=AUTO,
        help="for attacks and conversations: judge the last response, every response, or what the judge asks for "
        "(default: auto)",
    )


def _add_verdicts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("verdicts")
    group.add_argument(
        "--resume", action="store_true", help="accepted for compatibility with spikee: interrupted runs always resume"
    )
    group.add_argument("--fresh", action="store_true", help="ask again instead of reusing stored verdicts")
    group.add_argument(
        "--store", metavar="FILE", help="where verdicts are stored (default: a folder in the user's cache)"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="show how many calls are needed and what they cost, without making any"
    )
    group.add_argument(
        "--rejudged", metavar="FILE", help="write the rows to FILE (default: rejudge_… next to the input)"
    )
    group.add_argument("--force", action="store_true", help="overwrite the file that --rejudged names")


def _add_shown(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("display")
    group.add_argument(
        "--flips", type=int, default=3, metavar="N", help="show N rows of each kind of change (default: 3)"
    )
    add_level(group)
