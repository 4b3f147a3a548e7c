"""Finds the commands that the documentation shows, with the output that it claims for them.

A fenced block marked `console` holds commands (`$ faircount …`) and their output. A line `…` stands for any number
of lines that are not shown. Blocks marked otherwise are not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELLIPSIS = "…"


@dataclass(frozen=True)
class Shown:
    """A command as the documentation shows it, and the output lines it claims."""

    command: str
    output: tuple[str, ...]


def shown_commands(page: Path) -> Iterator[Shown]:
    """Yield the commands of a page in order."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        command, output = "", list[str]()
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield Shown(command, tuple(output))
                command, output = line[2:], []
            elif command.endswith("\\"):
                command = command[:-1] + line.strip()
            else:
                output.append(line)
        if command:
            yield Shown(command, tuple(output))


def matches(claimed: tuple[str, ...], real: list[str]) -> bool:
    """Return whether real output is what was claimed, lines left out by an ellipsis aside."""
    pattern = "\n".join(r"(?:.*\n)*?.*" if line.strip() == ELLIPSIS else re.escape(line.rstrip()) for line in claimed)
    return re.fullmatch(pattern.strip("\n"), "\n".join(line.rstrip() for line in real).strip("\n")) is not None
