"""How long an open set of results takes to answer: a question that is new, and the same one asked again.

Run: .venv/bin/python -m bench.open_set --entries 100000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.analyze import machine
from bench.generate import write_results
from faircount import ResultSet, open_results
from faircount.readers.cache import FOLDER_VARIABLE

LIMIT_MS = 100
HEAD = """\
| question | first ms | again ms |
|---|---|---|"""


def questions(path: str) -> dict[str, Callable[[ResultSet], Any]]:
    """Return what is asked, by how it is called."""
    return {
        "`tally()`": lambda results: results.tally(),
        '`tally("jailbreak_type")`': lambda results: results.tally("jailbreak_type"),
        '`tally(("lang", "plugin"), "outcome = success")`': lambda results: results.tally(
            ("lang", "plugin"), "outcome = success"
        ),
        '`tally("lang", \'response contains "a"\')`': lambda results: results.tally("lang", 'response contains "a"'),
        '`rows("outcome = success", limit=50)`': lambda results: results.rows("outcome = success", limit=50),
        '`rows("lang = en", sort="-response_time", offset=1000, limit=50)`': lambda results: results.rows(
            "lang = en", sort="-response_time", offset=1000, limit=50
        ),
        '`entry("77")`': lambda results: results.entry("77"),
        f"`text({Path(path).name}:77)`": lambda results: results.text(f"{path}:77"),
        "`analysis()`": lambda results: results.analysis(),
        '`analysis("lang = en")`': lambda results: results.analysis("lang = en"),
        "`design()`": lambda results: results.design(),
    }


def main() -> None:
    """Measure and print a table; fail if a question that is asked again takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{machine()}, best of {arguments.rounds} where asked again, {arguments.entries:,} entries")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "results_bench.jsonl"
        write_results(path, arguments.entries)
        os.environ[FOLDER_VARIABLE] = str(Path(name) / "cache")
        slow = []
        with open_results(path) as results:
            for question, ask in questions(str(path)).items():
                first = _milliseconds(ask, results)
                again = min(_milliseconds(ask, results) for _ in range(arguments.rounds))
                print(f"| {question} | {first:.0f} | {again:.1f} |", flush=True)
                if again > LIMIT_MS:
                    slow.append(question)
    if slow:
        raise SystemExit(f"asked again, these take more than {LIMIT_MS} ms: {', '.join(slow)}")


def _milliseconds(ask: Callable[[ResultSet], Any], results: ResultSet) -> float:
    started = time.perf_counter()
    ask(results)
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    main()
