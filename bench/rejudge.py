"""`results rejudge` against spikee's, by a pattern judge, on a file of our own generator, in the same run, in turns.

Both ask the judge that the rows name, canary or regex, and both must come to the same verdicts. Nothing is known from
before: verdicts of judges that compare strings are not kept.

Run: .venv/bin/python -m bench.rejudge --rows 10000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.analyze import FAIRCOUNT, HEAD, ROOT, SPIKEE, machine
from bench.generate import write_results
from bench.measure import THEIRS, in_turns, show_beside
from faircount.readers.cache import FOLDER_VARIABLE

LEAST = 4.0
"""So many times faster than spikee it has to be."""
OURS = "faircount"
NAME = "results_bench.jsonl"
JUDGES = {"canary": "invoice order", "regex": "invoice (?:order|table)"}
"""The judges, with what each looks for: it is found in some responses and not in others."""


def main() -> None:
    """Measure, print a table, and exit with 1 if it is not fast enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        ratios = [_measure(folder, judge, arguments.rows, arguments.rounds) for judge in JUDGES]
    print(f"\nat least {min(ratios):.1f} times faster than spikee.")
    sys.exit(0 if min(ratios) >= LEAST else 1)


def _measure(folder: Path, judge: str, rows: int, rounds: int) -> float:
    path = folder / NAME
    # Attacks add lines: what is there beyond the rows that are wanted goes.
    write_results(path, rows)
    with path.open(encoding="utf-8") as file:
        chosen = map(json.loads, itertools.islice(file, rows))
        told = {"judge_name": judge, "judge_args": JUDGES[judge]}
        lines = [json.dumps({**row, **told}) + "\n" for row in chosen]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"\n{judge}: {len(lines):,} rows, {path.stat().st_size / 1e6:,.0f} MB")
    commands = _commands(folder)
    verdicts = {name: _verdicts(command, folder) for name, command in commands.items()}
    if verdicts[THEIRS] != verdicts[OURS]:
        sys.exit("not the same verdicts")
    print(f"{sum(verdicts[OURS].values()):,} successes of {len(verdicts[OURS]):,} rows with an answer")
    print(f"\n{HEAD}")
    measured = in_turns(commands, folder, rounds)
    show_beside(f"rejudge, {judge}", measured)
    return measured[THEIRS].wall / measured[OURS].wall


def _commands(folder: Path) -> dict[str, Sequence[str]]:
    """Return the commands. spikee wants a folder in the path; its output is a new file each time."""
    return {
        THEIRS: [str(SPIKEE), "results", "rejudge", "--result-file", str(folder / NAME)],
        OURS: [str(FAIRCOUNT), "results", "rejudge", NAME],
    }


def _verdicts(command: Sequence[str], folder: Path) -> Mapping[str, bool]:
    """Run a command and return what it decided of the rows that have an answer, by id."""
    before = set(folder.glob("rejudge_*"))
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (written,) = set(folder.glob("rejudge_*")) - before
    with written.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    written.unlink()
    return {str(row["id"]): row["success"] for row in rows if row["error"] is None and row["response"]}


if __name__ == "__main__":
    main()
