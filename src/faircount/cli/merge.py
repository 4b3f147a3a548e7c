"""The command `merge`."""

from __future__ import annotations

import argparse

from faircount.cli.output import refuse_inputs
from faircount.cli.run_ending import say
from faircount.findings import counted
from faircount.present.new_file import NewFile
from faircount.running.merging import merged


def merge(arguments: argparse.Namespace) -> int:
    """Run `merge`."""
    refuse_inputs(arguments.output, arguments.journals)
    whole = merged(arguments.journals)
    with NewFile(arguments.output, force=arguments.force) as new:
        new.write_all(whole.pieces())
    entries = counted(whole.entries, "entry", "entries")
    say(f"merged {len(whole.parts)} shards ({entries}, {counted(whole.attempts, 'attempt')}) into {new.path}")
    return 0
