"""`results extract` against spikee's, on files of our own generator, in the same run, in turns.

spikee 0.9.2 has no categories; the queries that its documentation gives for them are used. Both write the same rows.

Run: .venv/bin/python -m bench.extract --entries 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.analyze import FAIRCOUNT, HEAD, ROOT, SPIKEE, machine
from bench.generate import write_results
from bench.measure import THEIRS, in_turns, show_beside
from faircount.readers.cache import FOLDER_VARIABLE

OURS = "faircount"
# What is extracted: the query for spikee, and the words for us.
TASKS: dict[str, tuple[str, list[str]]] = {
    "category success": ("success = true", ["--category", "success"]),
    "category error": (
        'success = false AND error EXISTS AND NOT guardrail = true AND NOT error = "No response received"',
        ["--category", "error"],
    ),
    "two fields": ("jailbreak_type = dan AND lang = en", ["--query", "jailbreak_type = dan AND lang = en"]),
    "full text, a third of the rows": ('"CANARY-0001"', ["--query", '"CANARY-0001"']),
    "full text, nearly all rows": ('"statement"', ["--query", '"statement"']),
    "full text, one entry": ('"CANARY-00001000"', ["--query", '"CANARY-00001000"']),
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="*", default=[100_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    # An installed package is compiled, as spikee is here; ours runs from its sources.
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        for entries in arguments.entries:
            _measure(folder, entries, arguments.rounds)


def _measure(folder: Path, entries: int, rounds: int) -> None:
    path = folder / f"results_bench-{entries}.jsonl"
    lines = write_results(path, entries)
    print(f"\n{entries:,} entries, {lines:,} lines, {path.stat().st_size / 1e6:,.0f} MB\n\n{HEAD}")
    for task, (query, words) in TASKS.items():
        commands = _commands(path.name, query, words)
        rows = {_rows(command, folder) for command in commands.values()}
        if len(rows) > 1:
            sys.exit(f"{task}: not the same rows: {rows}")
        show_beside(f"{task}: {rows.pop():,}", in_turns(commands, folder, rounds))
    path.unlink()


def _commands(file: str, query: str, words: Sequence[str]) -> dict[str, Sequence[str]]:
    # What an earlier run wrote must be gone before each, or the disk fills up.
    cleaned = ["sh", "-c", 'rm -rf results && exec "$@"', "sh"]
    return {
        THEIRS: [*cleaned, str(SPIKEE), "-q", "results", "extract", "--result-file", file, "--query", query],
        OURS: [*cleaned, str(FAIRCOUNT), "results", "extract", "--result-file", file, *words],
    }


def _rows(command: Sequence[str], folder: Path) -> int:
    """Run a command and return how many rows it says it has extracted."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (count,) = re.findall(r"Extracted ([0-9,]+) ", done.stdout)
    return int(count.replace(",", ""))


if __name__ == "__main__":
    main()
