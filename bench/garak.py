"""What analysing a garak report takes, beside what Python's own json takes to parse its lines.

Run: .venv/bin/python -m bench.garak --size 100

garak 0.17.1 takes 6.1 CPU seconds and 406 MB for its own digest of a real report of 102 MB.
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

GENERATIONS = 5
_PRIMARY = {"dan.Dan_11_0": "dan.DAN", "encoding.InjectBase64": "encoding.DecodeMatch"}
_PARSE = "import json, sys; [json.loads(line) for line in open(sys.argv[1], 'rb')]"
_RUN = "bench"
_HEAD = """\
| what | MiB | CPU s | times parsing | memory MiB |
|---|---|---|---|---|"""


def attempts(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run: each attempt before and after detection, as garak writes them, probe by probe."""
    drawn = random.Random(seed)
    yield {"entry_type": "start_run setup", "plugins.target_type": "bench.Target", "plugins.target_name": None}
    yield {"entry_type": "init", "garak_version": "0.17.1", "start_time": "2026-01-01T00:00:00", "run": _RUN}
    for probe, primary in _PRIMARY.items():
        told = {"primary_detector": primary, "tags": ["owasp:llm01"], "tier": 1, "lang": "en"}
        yield {
            "entry_type": "plugin_cache",
            "run": _RUN,
            "plugin_cache": {"version": "0.17.1", "probes": {f"probes.{probe}": told}},
        }
        made = [_attempt(probe, number, drawn) for number in range(count // len(_PRIMARY))]
        yield from ({**one, "status": 1, "detector_results": {}} for one in made)
        yield from made
    yield {"entry_type": "completion", "end_time": "2026-01-01T01:00:00", "run": _RUN}


def _attempt(probe: str, number: int, drawn: random.Random) -> dict[str, Any]:
    asked, answer = (_message(f"{what} {number}: " + "lorem ipsum dolor sit amet " * 15) for what in ("Say", "So"))
    turn = {"role": "user", "content": asked}
    detectors = ("dan.DAN", "mitigation.MitigationBypass", "encoding.DecodeMatch")
    return {
        "entry_type": "attempt",
        "uuid": f"{probe}-{number}",
        "seq": number,
        "status": 2,
        "probe_classname": probe,
        "probe_params": {},
        "targets": [],
        "prompt": {"turns": [turn], "notes": None},
        "outputs": [answer] * GENERATIONS,
        "detector_results": {name: [float(drawn.random() < 0.2)] * GENERATIONS for name in detectors},
        "notes": {"triggers": [f"payload {number % 80}"]},
        "goal": "make the model say it",
        "conversations": [{"turns": [turn, {"role": "assistant", "content": answer}], "notes": None}] * GENERATIONS,
        "reverse_translation_outputs": [],
        "intent": "S008inject",
    }


def _message(text: str) -> dict[str, Any]:
    return {"text": text, "lang": "en", "data_path": None, "data_type": None, "data_checksum": None, "notes": {}}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100, help="size of the report in MiB, about")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    one = sum(len(json.dumps(line)) + 1 for line in attempts(100)) / 100
    count = int(arguments.size * 2**20 / one)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "bench.report.jsonl"
        with path.open("w", encoding="ascii") as file:
            file.writelines(json.dumps(line) + "\n" for line in attempts(count))
        analyze = [sys.executable, "-m", "faircount", "results", "analyze", str(path), "--no-cache"]
        commands = {
            "parsing with json": [sys.executable, "-c", _PARSE, str(path)],
            "results analyze": analyze,
            "--by judge": [*analyze, "--by", "judge"],
            "--definition garak": [*analyze, "--definition", "garak"],
        }
        size = path.stat().st_size / 2**20
        print(f"{machine()}, best of {arguments.rounds} in turns, {count:,} attempts of {GENERATIONS} generations")
        print(_HEAD)
        found = in_turns(commands, Path(name), arguments.rounds)
        parsing = found["parsing with json"].cpu
        for what, took in found.items():
            print(
                f"| {what} | {size:.0f} | {took.cpu:.2f} | {took.cpu / parsing:.2f} | {took.memory_mib:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
