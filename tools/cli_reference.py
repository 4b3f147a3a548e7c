"""Writes docs/reference/cli.md from the parser itself; a test fails when the page is stale.

Run: .venv/bin/python -m tools.cli_reference
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from faircount.cli.parser import build

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
    return "\n".join([HEAD, *(_section(parser) for parser in commands(build()))])


def _section(parser: argparse.ArgumentParser) -> str:
    lines = [f"## {parser.prog}", "", " ".join((parser.description or "").split()), ""]
    for group in parser._action_groups:
        rows = [row for action in group._group_actions for row in _rows(action)]
        if rows:
            lines += [f"### {(group.title or '').capitalize()}", "", "| word | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(action: argparse.Action) -> Iterator[str]:
    if isinstance(action, argparse._SubParsersAction):
        for choice in action._choices_actions:
            yield _row(f"`{choice.dest}`", choice.help)
    elif action.option_strings:
        value = "" if action.nargs == 0 else " " + (str(action.metavar) if action.metavar else _choices(action))
        yield _row(", ".join(f"`{option}{value}`" for option in action.option_strings), action.help)
    else:
        yield _row(f"`{action.metavar}`", action.help)


def _choices(action: argparse.Action) -> str:
    return "\\|".join(str(choice) for choice in action.choices or ())


def _row(word: str, meaning: str | None) -> str:
    return f"| {word} | {meaning or ''} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
