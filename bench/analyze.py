"""`results analyze` against spikee's, on files of our own generator, in the same run, in turns.

Run: make bench, or .venv/bin/python -m bench.analyze --entries 1000 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

from bench.generate import write_results
from bench.measure import Measured, in_turns

ROOT = Path(__file__).parent.parent
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
FAIRCOUNT = Path(sys.executable).parent / "faircount"
HEAD = """\
| what | tool | wall s | CPU s | memory MiB | wall, ours : spikee | memory, ours : spikee |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, best of {arguments.rounds}"
    )
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {
            "spikee": [str(SPIKEE), "-q", "results", "analyze", "--help"],
            "faircount": [str(FAIRCOUNT), "results", "analyze", "--help"],
        }
        _show("--help", in_turns(commands, folder, arguments.rounds))
        for entries in arguments.entries:
            path = folder / f"results_bench-{entries}.jsonl"
            lines = write_results(path, entries)
            commands = {
                "spikee": [str(SPIKEE), "-q", "results", "analyze", "--result-file", str(path)],
                "faircount": [str(FAIRCOUNT), "results", "analyze", "--result-file", str(path)],
            }
            size = path.stat().st_size / 1e6
            _show(f"{entries:,} entries, {lines:,} lines, {size:.0f} MB", in_turns(commands, folder, arguments.rounds))
            path.unlink()


def _show(what: str, measured: dict[str, Measured]) -> None:
    theirs, ours = measured["spikee"], measured["faircount"]
    for tool, m in measured.items():
        ratios = (
            f"1 : {theirs.wall / ours.wall:.1f} | 1 : {theirs.memory_mib / ours.memory_mib:.1f}" if m is ours else " | "
        )
        print(f"| {what} | {tool} | {m.wall:.2f} | {m.cpu:.2f} | {m.memory_mib:.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
