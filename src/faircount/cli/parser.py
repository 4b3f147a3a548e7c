"""The command line, put together from the table of commands. Only the argument parser is imported here."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence

from faircount.cli.commands import ALL, RESULTS, Noun
from faircount.cli.parsing import EXIT_CODES, Parser, add_command, add_commands
from faircount.version import __version__


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
    """Return the parser of the whole command line; the options of a command are added when it is chosen."""
    parser = Parser(
        prog="faircount",
        description="Run red-teaming, benchmark and guardrail tests of language models, and analyse their results:\n"
        "rates with confidence intervals, comparisons, and the evidence behind them.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="hide progress")
    parser.add_argument("-V", "--version", action="version", version=f"faircount {__version__}")
    nouns = add_commands(parser)
    for one in ALL:
        if isinstance(one, Noun):
            noun = nouns.add_parser(one.name, help=one.help, description=one.description, epilog=EXIT_CODES)
            verbs = add_commands(noun)
            for command in one.commands:
                add_command(verbs, command)
        else:
            add_command(nouns, one)
    parser.shortcuts = tuple(command.name for command in RESULTS.commands)
    return parser


def build_in_full() -> Parser:
    """Return the parser with the options of every command."""
    _fill(build())
    return build()


def _fill(parser: Parser) -> None:
    parser.fill()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _fill(below)
