"""The command line, put together from the table of commands. Only the argument parser is imported here."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence

from faircount.app.cli.commands import ALL, RESULTS
from faircount.app.cli.parsing import EXIT_CODES, Parser
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
