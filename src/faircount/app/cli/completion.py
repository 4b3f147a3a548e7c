"""`faircount completion`: the script that lets a shell ask this program what may come next."""

from __future__ import annotations

from argcomplete.shell_integration import shellcode

from faircount.app.cli.parts import Completion
from faircount.app.cli.runner import CommandResult


def completion(options: Completion) -> CommandResult:
    """Return the script for a shell."""
    return CommandResult(text=shellcode(["faircount"], shell=options.shell).rstrip("\n") + "\n")
