"""`results compare` beside `results analyze` on the same two files, in the same run, in turns.

A comparison reads both files and folds them as an analysis does; what it may cost beyond that is half as much again.
Both are measured without the cache, and then with what each kept of the files.

Run: .venv/bin/python -m bench.compare --entries 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.analyze import FAIRCOUNT, ROOT, machine
from bench.dataset_comparison import write_files
from bench.measure import Measured, in_turns
from faircount.readers.cache import FOLDER_VARIABLE

MOST = 1.5
"""So many times what analysing both files costs, a comparison may cost; an analysis may be known from the cache."""
HEAD = """\
| what | command | wall s | CPU s | memory MiB |
|---|---|---|---|---|"""
ANALYZE, COMPARE = "results analyze", "results compare"


def main() -> None:
    """Measure, print a table, and exit with 1 if a comparison costs too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="*", default=[100_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    print(HEAD)
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        for entries in arguments.entries:
            ratios.append(_measure(folder, entries, arguments.rounds))
    sys.exit(0 if max(ratios) <= MOST else 1)


def _measure(folder: Path, entries: int, rounds: int) -> float:
    """Return how many times longer a comparison takes without the cache."""
    dataset, results = write_files(folder, entries)
    dataset.unlink()
    what = f"2 x {entries:,} entries, {sum(path.stat().st_size for path in results) / 1e6:,.0f} MB"
    anew = in_turns(_commands(results, "--no-cache"), folder, rounds)
    # The first round of each keeps what it read; the best is one that found it.
    kept = in_turns(_commands(results), folder, rounds + 1)
    ratio = _show(what, anew)
    _show(f"{what}, cached", kept)
    for path in results:
        path.unlink()
    return ratio


def _commands(results: Sequence[Path], *options: str) -> dict[str, Sequence[str]]:
    return {
        name: [str(FAIRCOUNT), *name.split(), *options, *(str(path) for path in results)] for name in (ANALYZE, COMPARE)
    }


def _show(what: str, measured: dict[str, Measured]) -> float:
    for name, best in measured.items():
        print(f"| {what} | {name} | {best.wall:.2f} | {best.cpu:.2f} | {best.memory_mib:.0f} |")
    ratio = measured[COMPARE].wall / measured[ANALYZE].wall
    print(f"\n{what}: a comparison takes {ratio:.2f} times as long as both analyses.\n", flush=True)
    return ratio


if __name__ == "__main__":
    main()
