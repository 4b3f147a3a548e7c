"""What the statistics cost inside `results analyze`: families, groups read together, curves and repeated attempts.

Each is timed where an analysis calls it; the rest of the analysis is the reading, the counting and the arranging. What
runs beside something else is counted as if it did not.

Run: .venv/bin/python -m bench.added_statistics --entries 100000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from bench.analyze import machine
from bench.generate import write_results
from faircount import analyze
from faircount.analysis import grouping, summary
from faircount.analysis.report import as_report
from faircount.readers.cache import FOLDER_VARIABLE

ADDED: tuple[tuple[Any, str], ...] = (
    (grouping, "find_families"),
    (summary, "read_together"),
    (summary, "read_alike"),
    (summary, "success_within"),
    (summary, "retries"),
)
HEAD = """\
| analysis | whole ms | statistics ms | share |
|---|---|---|---|"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{machine()}, best of {arguments.rounds}, {arguments.entries:,} entries")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "results_bench.jsonl"
        write_results(path, arguments.entries)
        os.environ[FOLDER_VARIABLE] = str(Path(name) / "cache")
        for cache in (False, True):
            whole, added = min(_measured(path, cache) for _ in range(arguments.rounds + cache))
            label = "from the cache" if cache else "read anew"
            print(f"| {label} | {1000 * whole:.0f} | {1000 * added:.0f} | {added / whole:.0%} |")


def _measured(path: Path, cache: bool) -> tuple[float, float]:
    """Return the seconds of an analysis, and those of them that the statistics took."""
    spent: list[float] = []
    with _timed(spent):
        started = time.perf_counter()
        found = analyze(str(path), cache=cache)
        as_report(found.analyses)
        return time.perf_counter() - started, sum(spent)


@contextmanager
def _timed(spent: list[float]) -> Iterator[None]:
    patches = [mock.patch.object(module, name, _timing(getattr(module, name), spent)) for module, name in ADDED]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _timing(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent.append(time.perf_counter() - started)

    return timed


if __name__ == "__main__":
    main()
