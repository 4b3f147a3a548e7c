"""What analysing a run journal takes, beside what Python's own json takes to parse its lines.

Run: .venv/bin/python -m bench.journal --entries 20000
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.analyze import machine
from bench.measure import in_turns

METRICS = ("Correct", "Safe")
_PARSE = "import json, sys; [json.loads(line) for line in open(sys.argv[1], 'rb')]"
_HEADER = {"kind": "run", "schema": 2, "run": "bench", "version": "0", "settings": {}}
_HEAD = """\
| journal | MiB | parsing, CPU s | analyze, CPU s | times parsing | with --by judge |
|---|---|---|---|---|---|"""


def records(aim: str, entries: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield a run of so many entries, or tests with two metrics, each tried three times."""
    drawn = random.Random(seed)
    judges = [{"name": name, "type": "bench", "parameters": {}} for name in METRICS]
    yield {**_HEADER, "aim": aim}
    for number in range(entries):
        name = str(number) if aim == "attack" else f"suite{number % 40}_[k={number}]"
        message = {"role": "user", "content": f"Summarise document {number}: " + "lorem ipsum dolor sit amet " * 20}
        entry = {"id": number, "lang": drawn.choice(["en", "de"]), "plugin": drawn.choice(["base64", "rot13"])}
        about = {"entry": entry} if aim == "attack" else {"retry_params": {"count": 3, "aggregation_strategy": "mean"}}
        yield {"kind": "case", "case": name, "input": {"messages": [message]}, "metrics": judges, **about}
        for attempt in range(3):
            yield {"kind": "call", "case": name, "attempt": attempt}
            said = [{"metric": one, "score": 1.0, "verdict": drawn.choice(["success", "failure"])} for one in METRICS]
            output = {"output": "some answer of the model " * 20, "execution_time": drawn.random()}
            yield {"kind": "attempt", "case": name, "attempt": attempt, "output": output, "verdicts": said}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{machine()}, best of {arguments.rounds} in turns, {arguments.entries:,} entries with {len(METRICS)} judges")
    print(_HEAD)
    with tempfile.TemporaryDirectory() as name:
        for aim in ("attack", "task"):
            path = Path(name) / f"{aim}.jsonl"
            with path.open("w", encoding="ascii") as file:
                file.writelines(json.dumps(record) + "\n" for record in records(aim, arguments.entries))
            analyze = [sys.executable, "-m", "faircount", "results", "analyze", str(path), "--no-cache"]
            commands = {
                "parse": [sys.executable, "-c", _PARSE, str(path)],
                "analyze": analyze,
                "by judge": [*analyze, "--by", "judge"],
            }
            cpu = {what: found.cpu for what, found in in_turns(commands, Path(name), arguments.rounds).items()}
            size = path.stat().st_size / 2**20
            times, by_judge = cpu["analyze"] / cpu["parse"], cpu["by judge"] / cpu["parse"]
            print(
                f"| {aim} | {size:.0f} | {cpu['parse']:.2f} | {cpu['analyze']:.2f} | {times:.2f} | {by_judge:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
