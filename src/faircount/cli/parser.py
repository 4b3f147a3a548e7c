"""The words of the command line, put together. Only the argument parser is imported here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from faircount.cli.parser_attacks import add_attacks
from faircount.cli.parser_judges import add_judges
from faircount.cli.parser_results import add_results
from faircount.cli.parser_run import add_run
from faircount.cli.parser_targets import add_targets
from faircount.cli.parsing import EXIT_CODES, Parser, Verbs, add_noun, command
from faircount.version import __version__


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; wrong words end with exit code 2 and a hint."""
    arguments = build().parse_args(argv)
    arguments.words = tuple(argv)
    return arguments


def build() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="faircount",
        description="Numbers people can believe, and the evidence behind them, from the results of attacking,\n"
        "benchmarking and guarding language models.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.add_argument("--version", action="version", version=f"faircount {__version__}")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    add_results(nouns)
    add_run(nouns)
    add_judges(nouns)
    add_targets(nouns)
    add_attacks(nouns)
    _add_cache(nouns)
    _add_demo(nouns)
    return parser


def _add_cache(nouns: Verbs) -> None:
    verbs = add_noun(
        nouns,
        "cache",
        short="what is kept of large files, so that they need not be read again",
        what="What is kept of large files, so that they need not be read again. It is safe to delete.",
    )
    for verb, meaning in (("show", "say where the cache is and how large"), ("clear", "delete it")):
        parser = verbs.add_parser(
            verb, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.", epilog=EXIT_CODES
        )
        parser.set_defaults(run=command("faircount.cli.cache", verb))


def _add_demo(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "demo",
        help="make sample results offline, analyse them, say what to try next",
        description="Make sample results of simulated targets offline, analyse them and say what to try next.",
        epilog=EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.demo", "demo"))
    parser.add_argument(
        "--folder",
        default="faircount-demo",
        metavar="FOLDER",
        help="where the sample goes (default: faircount-demo)",
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="another sample for another N (default: 7)")
