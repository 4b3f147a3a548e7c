"""The words of `faircount results rejudge`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.rejudging.choices import AUTO, TURNS
from faircount.cli.parsing import EXIT_CODES, Verbs, add_inputs, add_level, add_models, add_output, add_work, command


def add_rejudge(verbs: Verbs) -> None:
    """Add `results rejudge`."""
    parser = verbs.add_parser(
        "rejudge",
        help="judge recorded responses again: new verdicts with provenance, and what they do to the rate",
        description="Judge the responses of result files again, without asking the target. The rows with their new\n"
        "verdicts go into a new file beside the input. What is known from before is not asked again.",
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
    add_output(parser, page="html needs -o", place="write the report there instead of to standard output")


def _add_judges(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who judges what")
    group.add_argument(
        "--judge", metavar="JUDGE", help="the judge of all rows; a hit is a success (default: what each row names)"
    )
    group.add_argument(
        "--allow-judge",
        action="append",
        default=[],
        metavar="NAME[=JUDGE]",
        help="rows that name NAME are judged by JUDGE, or by the judge of that name (repeatable); without this, a row "
        "can name only judges that compare strings",
    )
    group.add_argument(
        "--judge-options",
        metavar="TEXT",
        help="spikee's: the model of judges that ask one; it is written into the rows",
    )
    group.add_argument(
        "--turns",
        choices=TURNS,
        default=AUTO,
        help="of attacks and conversations: judge the last response, each one, or what the judge asks for "
        "(default: auto)",
    )


def _add_verdicts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is known and what is written")
    group.add_argument(
        "--resume", action="store_true", help="go on where a run was stopped; that is always done, and taken for spikee"
    )
    group.add_argument("--fresh", action="store_true", help="ask again for verdicts that are known")
    group.add_argument(
        "--store", metavar="FILE", help="where verdicts are kept (default: a folder in the user's cache)"
    )
    group.add_argument("--dry-run", action="store_true", help="say how many calls that takes and what they cost")
    group.add_argument("--rejudged", metavar="FILE", help="write the rows there (default: rejudge_… beside the input)")
    group.add_argument("--force", action="store_true", help="replace the file that --rejudged names")


def _add_shown(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is shown")
    group.add_argument(
        "--flips", type=int, default=3, metavar="N", help="show N rows of each kind of change (default: 3)"
    )
    add_level(group)
