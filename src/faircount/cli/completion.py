"""`faircount completion`: the script that lets a shell ask this program what may come next."""

from __future__ import annotations

import sys

from argcomplete.shell_integration import shellcode

from faircount.cli.parts import Completion


def completion(options: Completion) -> int:
    """Print the script for a shell."""
    sys.stdout.write(shellcode(["faircount"], shell=options.shell).rstrip("\n") + "\n")
    return 0
