"""`results dataset-comparison` against spikee's, on two files and their dataset, in the same run, in turns.

Run: .venv/bin/python -m bench.dataset_comparison --entries 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.analyze import FAIRCOUNT, HEAD, ROOT, SPIKEE, machine
from bench.generate import write_results
from bench.measure import THEIRS, in_turns, run_once, show_beside
from faircount.readers.cache import FOLDER_VARIABLE

CACHED = "faircount, after results analyze"
TARGETS = ("weak", "strong")
_FROM_A_RESULT = ("judge_name", "judge_args", "task_type", "jailbreak_type", "instruction_type", "document_id")
_AND = (
    "position",
    "spotlighting_data_markers",
    "injection_delimiters",
    "lang",
    "suffix_id",
    "system_message",
    "plugin",
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="*", default=[100_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        for entries in arguments.entries:
            _measure(folder, entries, arguments.rounds)


def _measure(folder: Path, entries: int, rounds: int) -> None:
    dataset, results = write_files(folder, entries)
    words = ["dataset-comparison", "--dataset", str(dataset), "--success-threshold", "0.8"]
    for path in results:
        words += ["--result-file", str(path)]
    # Both write into the folder that they are run in; neither asks before it adds a file.
    commands: dict[str, Sequence[str]] = {
        THEIRS: [str(SPIKEE), "-q", "results", *words],
        "faircount": _ours(words),
    }
    what = f"2 x {entries:,} entries, {sum(path.stat().st_size for path in (dataset, *results)) / 1e6:,.0f} MB"
    measured = in_turns(commands, folder, rounds)
    # The comparison takes what `results analyze` kept.
    run_once([str(FAIRCOUNT), "results", "analyze", "--overview", *map(str, results)], folder)
    measured[CACHED] = in_turns({CACHED: _ours(words)}, folder, rounds)[CACHED]
    show_beside(what, measured)
    for path in (dataset, *results):
        path.unlink()


def _ours(words: Sequence[str]) -> list[str]:
    return [str(FAIRCOUNT), "results", *words]


def write_files(folder: Path, entries: int) -> tuple[Path, list[Path]]:
    """Write the results of two targets on one dataset, and the dataset; return where they are."""
    results = [folder / f"results_{name}-{entries}.jsonl" for name in TARGETS]
    write_results(results[0], entries)
    dataset = folder / f"bench-dataset-{entries}.jsonl"
    prompts = _write_dataset(results[0], dataset)
    _write_second(results[1], entries, prompts)
    return dataset, results


def _write_dataset(results: Path, dataset: Path) -> list[str]:
    """Write the dataset that results were made with; return its prompts."""
    prompts = []
    with results.open(encoding="utf-8") as source, dataset.open("w", encoding="utf-8", newline="\n") as file:
        for row in map(json.loads, source):
            if row["attack_name"] == "None":
                prompts.append(row["input"])
                entry = {"id": row["id"], "long_id": row["long_id"], "content": row["input"], "content_type": "text"}
                entry |= {field: row[field] for field in (*_FROM_A_RESULT, *_AND)}
                file.write(json.dumps({**entry, "payload": row["input"][:200]}, ensure_ascii=False) + "\n")
    return prompts


def _write_second(path: Path, entries: int, prompts: Sequence[str]) -> None:
    """Write the results of another target that was given the same prompts."""
    made = path.with_suffix(".made")
    write_results(made, entries, seed=2)
    with made.open(encoding="utf-8") as source, path.open("w", encoding="utf-8", newline="\n") as file:
        for row in map(json.loads, source):
            prompt = prompts[int(str(row["id"]).removesuffix("-attack")) - 1]
            row["input" if row["attack_name"] == "None" else "objective"] = prompt
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    made.unlink()


if __name__ == "__main__":
    main()
