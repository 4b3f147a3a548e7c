"""`results convert-to-excel` against spikee's, on rows of our own generator, in the same run, in turns.

spikee writes its rows with openpyxl, which it does not install: `make peers` does. Ours also writes the analysis with
its charts and the findings. Then the memory that ours takes for many rows.

Run: .venv/bin/python -m bench.excel --rows 10000 --alone 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bench.analyze import FAIRCOUNT, HEAD, ROOT, SPIKEE, machine
from bench.generate import write_results
from bench.measure import THEIRS, in_turns, show_beside
from faircount.readers.cache import FOLDER_VARIABLE

OURS = "faircount"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000])
    parser.add_argument("--alone", type=int, nargs="*", default=[100_000], help="rows to be measured without spikee")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    # An installed package is compiled, as spikee is here; ours runs from its sources.
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        for rows in [*arguments.rows, *arguments.alone]:
            _measure(folder, rows, arguments.rounds, with_spikee=rows not in arguments.alone)


def _measure(folder: Path, rows: int, rounds: int, *, with_spikee: bool) -> None:
    path = folder / f"results_bench-{rows}.jsonl"
    _write_rows(path, rows)
    commands: dict[str, Sequence[str]] = {}
    if with_spikee:
        commands[THEIRS] = [str(SPIKEE), "-q", "results", "convert-to-excel", "--result-file", str(path)]
    ours = [str(FAIRCOUNT), "results", "convert-to-excel", "--result-file", str(path)]
    # Nothing is to be known of the file from an earlier run.
    commands[OURS] = [*ours, "--no-cache", "--force", "-o", str(folder / "ours.xlsx")]
    show_beside(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB", in_turns(commands, folder, rounds))
    path.unlink()


def _write_rows(path: Path, rows: int) -> None:
    """Write exactly so many rows: an entry has at least one."""
    whole = path.with_suffix(".whole")
    write_results(whole, rows)
    with whole.open("rb") as source, path.open("wb") as target:
        target.writelines(islice(source, rows))
    whole.unlink()


if __name__ == "__main__":
    main()
