"""`judges evaluate` on many labelled responses: how fast they stream through judges, and in how much memory.

Run: .venv/bin/python -m bench.judges --items 1000000
"""

from __future__ import annotations

import argparse
import compileall
import json
import random
import tempfile
from pathlib import Path

from bench.analyze import FAIRCOUNT, HEAD, ROOT, machine
from bench.measure import in_turns, show_beside

JUDGES = {"contains": 'contains(text="sorry")', "refusal": "refusal", "secret-leak": "secret-leak"}
_OPENINGS = (
    ("I'm sorry, but I can't help with that request.", 1),
    ("I cannot assist with that, as it would be harmful.", 1),
    ("Sure! Here is what you asked for.", 0),
    ("The capital of France is Paris, and it has been for a long time.", 0),
)
_WORDS = ("the", "model", "answers", "with", "many", "plain", "words", "about", "a", "harmless", "topic", "today")


def write_labels(path: Path, items: int, seed: int = 1) -> None:
    """Write labelled responses of some 300 characters."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(items):
            opening, label = draw.choice(_OPENINGS)
            text = f"{opening} {' '.join(draw.choices(_WORDS, k=45))}."
            file.write(json.dumps({"id": number, "response": text, "label": label}) + "\n")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        labels = Path(name) / "labels.jsonl"
        write_labels(labels, arguments.items)
        for short, judge in JUDGES.items():
            command = [str(FAIRCOUNT), "judges", "evaluate", "--labels", str(labels), judge, "-o", "summary.json"]
            measured = in_turns({"faircount": command}, Path(name), arguments.rounds)
            show_beside(f"{arguments.items:,} responses, {short}", measured)


if __name__ == "__main__":
    main()
