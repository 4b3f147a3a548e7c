"""Writes docs/reference/cli.md from the parser itself; a test fails when the page is stale.

Run: .venv/bin/python -m tools.cli_reference
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from faircount.app.cli.commands import build_in_full

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """\
# Command line

This page is made from the program's own parser by `tools/cli_reference.py`. `--help` after any command shows the
same.
"""


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, in order, those of its sub-commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from commands(child)


def page() -> str:
    """Return the text of the reference page."""
    return "\n".join([HEAD, *(_section(parser) for parser in commands(build_in_full()))])


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """Return the commands that the help of a parser ends with."""
    return re.findall(r"^(?:examples?:)? +?(faircount .+)$", parser.epilog or "", re.MULTILINE)


def _section(parser: argparse.ArgumentParser) -> str:
    lines = [f"## {parser.prog}", "", " ".join((parser.description or "").split()), ""]
    if shown := examples(parser):
        lines += ["```sh", *shown, "```", ""]
    for group in parser._action_groups:
        rows = [row for action in group._group_actions for row in _rows(action, parser._get_formatter())]
        if rows:
            lines += [f"### {(group.title or '').capitalize()}", "", "| word | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(action: argparse.Action, formatter: argparse.HelpFormatter) -> Iterator[str]:
    if action.help == argparse.SUPPRESS:
        return
    if isinstance(action, argparse._SubParsersAction):
        for choice in action._choices_actions:
            yield _row(f"`{choice.dest}`", formatter._expand_help(choice))
    elif action.option_strings:
        value = "" if action.nargs == 0 else " " + str(action.metavar or "|".join(map(str, action.choices or ())))
        yield _row(", ".join(f"`{option}{value}`" for option in action.option_strings), formatter._expand_help(action))
    else:
        yield _row(f"`{action.metavar}`", formatter._expand_help(action))


def _row(word: str, meaning: str) -> str:
    cells = (cell.replace("|", "\\|") for cell in (word, meaning))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
