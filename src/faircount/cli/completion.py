"""`faircount completion`: the script that lets a shell ask this program what may come next."""

from __future__ import annotations

import argparse
import sys

from argcomplete.shell_integration import shellcode


def completion(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    sys.stdout.write(shellcode(["faircount"], shell=arguments.shell).rstrip("\n") + "\n")
    return 0
