"""The words of the command line, put together. Only the argument parser is imported here."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence

from faircount.cli.parser_attacks import add_attacks
from faircount.cli.parser_judges import add_judges
from faircount.cli.parser_results import add_results
from faircount.cli.parser_run import add_run
from faircount.cli.parser_targets import add_targets
from faircount.cli.parsing import EXIT_CODES, Parser, Verbs, add_commands, add_noun, command, settle_format
from faircount.version import __version__


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; wrong words end with exit code 2 and a hint."""
    parser = build()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    arguments = parser.parse_args(_in_full(argv, parser.shortcuts))
    arguments.words = tuple(argv)
    settle_format(arguments)
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
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="faircount",
        description="Run red-teaming, benchmark and guardrail tests of language models, and analyse their results:\n"
        "rates with confidence intervals, comparisons, and the evidence behind them.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="hide progress")
    parser.add_argument("-V", "--version", action="version", version=f"faircount {__version__}")
    nouns = add_commands(parser)
    parser.shortcuts = add_results(nouns)
    add_run(nouns)
    add_judges(nouns)
    add_targets(nouns)
    add_attacks(nouns)
    _add_cache(nouns)
    _add_demo(nouns)
    _add_completion(nouns)
    return parser


def _add_cache(nouns: Verbs) -> None:
    verbs = add_noun(
        nouns,
        "cache",
        short="cache of parsed files",
        what="Cache of parsed files. It is safe to delete.",
    )
    for verb, meaning in (("show", "show where the cache is and how large it is"), ("clear", "delete the cache")):
        parser = verbs.add_parser(
            verb, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.", epilog=EXIT_CODES
        )
        parser.set_defaults(run=command("faircount.cli.cache", verb))


def _add_completion(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print a script that completes commands and options in a shell.",
        epilog='examples: eval "$(faircount completion bash)"\n'
        "          faircount completion zsh > _faircount\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.completion", "completion"))
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to print the script for")


def _add_demo(nouns: Verbs) -> None:
    parser = nouns.add_parser(
        "demo",
        help="generate sample results offline, analyse them, and suggest next steps",
        description="Generate sample results from simulated targets, offline; analyse them, and suggest next steps.",
        epilog=EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.demo", "demo"))
    parser.add_argument(
        "--folder",
        default="faircount-demo",
        metavar="FOLDER",
        help="folder for the sample (default: faircount-demo)",
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="random seed of the sample (default: 7)")
