"""How time and memory grow: ten times the entries should take a command at most eleven times as long.

For `results analyze`, also with four times as much of one thing, which should take four times as long. What hardly
anything takes is subtracted first.

Run: .venv/bin/python -m bench.growth --sizes 1000 10000 100000
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.analyze import FAIRCOUNT, machine
from bench.attacks import Runs
from bench.generate import write_results
from bench.measure import Measured, in_turns

TIMES = 4
Rows = Iterator[dict[str, Any]]
HEAD = f"""\
| what | how many | CPU s | {TIMES}× as many | grows by | MiB | {TIMES}× as many | grows by |
|---|---|---|---|---|---|---|---|"""


def row(number: int, **values: Any) -> dict[str, Any]:
    """Return a row of a result file."""
    return {
        "id": number,
        "long_id": f"entry-{number}",
        "input": f"prompt {number}",
        "response": "no",
        "success": number % 5 == 0,
        "attempts": 1,
        "attack_name": "None",
        **values,
    }


def rows(count: int, first: int = 0) -> Rows:
    """Yield plain rows; with another `first` they differ in their verdicts alone."""
    yield from (row(i, success=(i + first) % 5 == 0) for i in range(count))


def one_id(count: int) -> Rows:
    """Yield standard and attack rows of one id, each a case of its own."""
    yield from (row(1, input=f"case {i}") for i in range(count // 2))
    yield from (row(1, input=f"attack {i}", objective=f"case {i}", attack_name="goat") for i in range(count // 2))


def categories(count: int) -> Rows:
    """Yield rows that each name a category of their own."""
    yield from (row(i, guardrail=True, guardrail_categories={f"category {i}": True}) for i in range(count))


def facet_values(count: int) -> Rows:
    """Yield rows with a jailbreak of their own."""
    yield from (row(i, jailbreak_type=f"jailbreak {i}") for i in range(count))


def histories(count: int) -> Rows:
    """Yield one row with a long history."""
    history = [{"input": f"try {i}", "response": "no", "success": False, "error": None} for i in range(count)]
    yield row(1, attack_name="goat", attempts=count, attempt_history=history)


def kinds_of_error(count: int) -> Rows:
    """Yield rows with an error of their own."""
    yield from (row(i, success=False, response="", error=f"cannot find {hash_word(i)}") for i in range(count))


def hash_word(number: int) -> str:
    """Return a word for a number, without digits, which kinds of error leave out."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


ONE_FILE: dict[str, tuple[Callable[[int], Rows], int]] = {
    "rows": (rows, 40_000),
    "rows of one id": (one_id, 16_000),
    "guardrail categories": (categories, 20_000),
    "facet values": (facet_values, 50_000),
    "steps of a history": (histories, 100_000),
    "kinds of error": (kinds_of_error, 40_000),
}
FILES = 100
ROWS_OF_A_FILE = 200


MOST = 1.1
"""So many times as long for an entry, a command may take with ten times the entries."""
MOST_ENTRIES_OF_A_RUN = 100_000
LEAST_SECONDS = 0.2
"""What takes less, beyond the start of the program, is not compared."""


def main() -> None:
    """Measure, print two tables, and exit with 1 if a command grows faster than its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--commands-only", action="store_true", help="leave the second table out")
    arguments = parser.parse_args()
    print(f"{machine()}, best of {arguments.rounds}")
    steady = _measure_commands(sorted(arguments.sizes), arguments.rounds)
    if not arguments.commands_only:
        _measure_things(arguments)
    sys.exit(0 if steady else 1)


def _measure_commands(sizes: Sequence[int], rounds: int) -> bool:
    """Print what each command takes for each size; return whether none grows faster than its files."""
    with tempfile.TemporaryDirectory() as name:
        nothing = _commands_measured(Path(name), 1, rounds)
        found = {size: _commands_measured(Path(name), size, rounds) for size in sizes}
    print("\n| command | entries | CPU s | MiB | times as long | for times the entries |\n|---|---|---|---|---|---|")
    steady = True
    for command in nothing:
        start = nothing[command].cpu
        measured = [(size, found[size][command]) for size in sizes if command in found[size]]
        print(f"| {command} | 1 | {start:.2f} | {nothing[command].memory_mib:.0f} |  |  |")
        for (before, less), (size, more) in pairwise([(1, nothing[command]), *measured]):
            taken = more.cpu - start
            growth = taken / (less.cpu - start) if less.cpu - start >= LEAST_SECONDS else None
            steady &= growth is None or growth <= MOST * size / before
            times = "" if growth is None else f"{growth:.1f} | {size / before:g}"
            print(f"| {command} | {size:,} | {more.cpu:.2f} | {more.memory_mib:.0f} | {times or ' | '} |", flush=True)
    return steady


def _commands_measured(folder: Path, entries: int, rounds: int) -> Mapping[str, Measured]:
    """Measure the commands over files of so many entries."""
    inside = folder / f"{entries}"
    inside.mkdir()
    one, other = (f"results_{name}.jsonl" for name in ("one", "other"))
    for seed, name in enumerate((one, other)):
        write_results(inside / name, entries, seed=seed)
    results = [str(FAIRCOUNT), "results"]
    commands: dict[str, Sequence[str]] = {
        "analyze": [*results, "analyze", one, "--no-cache"],
        "compare": [*results, "compare", one, other, "--no-cache"],
        "extract": [*_without("results"), *results, "extract", "--category", "success", one],
        "rejudge": [*_without("rejudged.jsonl"), *results, "rejudge", one, "-o", "rejudged.jsonl"],
    }
    if entries <= MOST_ENTRIES_OF_A_RUN:
        commands["run"] = [*_without("journal.jsonl"), *Runs(inside, entries).command("asynchronous", "journal.jsonl")]
    measured = in_turns(commands, inside, rounds)
    shutil.rmtree(inside)
    return measured


def _without(written: str) -> list[str]:
    """Return the beginning of a command that may not find what an earlier one wrote."""
    return ["sh", "-c", 'rm -rf "$0" && exec "$@"', written]


def _measure_things(arguments: argparse.Namespace) -> None:
    print(f"\n{HEAD}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nothing = _measured([_written(folder, "nothing", rows(1))], arguments.rounds)
        for what, (make, count) in ONE_FILE.items():
            paths = [[_written(folder, f"{n}", make(n))] for n in (count, TIMES * count)]
            _tell(what, count, [_measured(path, arguments.rounds) for path in paths], nothing)
        files = [_written(folder, f"file-{i}", rows(ROWS_OF_A_FILE, i)) for i in range(TIMES * FILES)]
        found = [_measured(["--combine", *files[:n]], arguments.rounds) for n in (FILES, TIMES * FILES)]
        _tell(f"files with the same {ROWS_OF_A_FILE} prompts and answers", FILES, found, nothing)


def _written(folder: Path, name: str, made: Rows) -> str:
    path = folder / f"results_{name}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(item) + "\n" for item in made)
    return str(path)


def _measured(words: list[str], rounds: int) -> Measured:
    command = [sys.executable, "-m", "faircount", "results", "analyze", *words, "--no-cache", "--output-format", "json"]
    return in_turns({"it": command}, Path.cwd(), rounds)["it"]


def _tell(what: str, count: int, found: list[Measured], nothing: Measured) -> None:
    (cpu, more_cpu), (memory, more_memory) = (
        [max(getattr(one, name) - getattr(nothing, name), 0.001) for one in found] for name in ("cpu", "memory_mib")
    )
    print(
        f"| {what} | {count:,} | {cpu:.2f} | {more_cpu:.2f} | {more_cpu / cpu:.1f}× "
        f"| {memory:.0f} | {more_memory:.0f} | {more_memory / memory:.1f}× |",
        flush=True,
    )


if __name__ == "__main__":
    main()
