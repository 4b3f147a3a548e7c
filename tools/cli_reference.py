"""Writes docs/reference/cli.md from the parser itself; a test fails when the page is stale.

Run: .venv/bin/python -m tools.cli_reference
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from faircount.cli.parser import build

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """\
# Command line

This page is made from the program's own `--help` texts by `tools/cli_reference.py`.
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
    os.environ["COLUMNS"] = "100"
    parts = [HEAD]
    for parser in commands(build()):
        parts.append(f"## {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
