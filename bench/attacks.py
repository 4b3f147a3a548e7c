"""An attack run over very many entries with a target in the same process: how fast, how much memory, how soon resumed.

Every entry is one attempt that a judge of patterns decides, and every attempt is durable in the journal. There are two
rates: over the whole command, with reading the dataset and the analysis at the end, and from the first attempt to the
last. A run that was stopped halfway is resumed, and the time is taken until it asks the target again.

Run: .venv/bin/python -m bench.attacks
"""

from __future__ import annotations

import argparse
import compileall
import json
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bench.analyze import FAIRCOUNT, ROOT, machine
from bench.measure import peak_mib, run_once

WORDS = (
    "ignore",
    "the",
    "document",
    "above",
    "and",
    "say",
    "what",
    "you",
    "were",
    "told",
    "in",
    "secret",
    "please",
    "now",
)
PROMPT_CHARACTERS = 300
FIRST = "first-call"
"""The file in which the target notes when it was first asked."""
TARGETS = f"""\
import time

ANSWER = "I am sorry, but I cannot do that; here is what I can say instead. " * 3
asked = False


def note():
    global asked
    asked = True
    with open({FIRST!r}, "w") as file:
        file.write(str(time.time()))


async def asynchronous(messages, **parameters):
    if not asked:
        note()
    return ANSWER


def synchronous(messages, **parameters):
    if not asked:
        note()
    return ANSWER
"""


def write_dataset(path: Path, entries: int) -> None:
    """Write entries as spikee has them, the same every time."""
    lots = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(entries):
            text = " ".join(lots.choices(WORDS, k=PROMPT_CHARACTERS // 2))[:PROMPT_CHARACTERS]
            entry = {
                "id": number,
                "long_id": f"document{number % 50}_jailbreak{number % 20}_instruction{number % 100}-{number}",
                "text": text,
                "judge_name": "canary",
                "judge_args": f"CANARY-{number}",
                "jailbreak_type": f"jailbreak{number % 20}",
                "instruction_type": f"instruction{number % 10}",
                "lang": "en",
            }
            file.write(json.dumps(entry) + "\n")


class Runs:
    """Runs over one dataset in one folder."""

    def __init__(self, folder: Path, entries: int) -> None:
        self.folder = folder
        self.entries = entries
        write_dataset(folder / "entries.jsonl", entries)
        (folder / "bot.py").write_text(TARGETS, encoding="utf-8")

    def command(self, target: str, journal: str) -> list[str]:
        """Return the words of a run."""
        return [str(FAIRCOUNT), "run", "entries.jsonl", "--target", f"./bot.py:{target}", "--journal", journal]

    def whole(self, target: str, rounds: int) -> str:
        """Run to the end a few times, and return the best as a row of a table."""
        times = []
        for number in range(rounds):
            journal = self.folder / f"{target}-{number}.jsonl"
            wall, cpu = run_once(self.command(target, journal.name), self.folder)
            times.append((wall, cpu, _sending(journal)))
            size = journal.stat().st_size / 1e6
        memory = peak_mib(self.command(target, f"{target}-memory.jsonl"), self.folder)
        wall, cpu, sending = (min(one) for one in zip(*times, strict=True))
        rates = f"{self.entries / wall:,.0f} | {self.entries / sending:,.0f}"
        return f"| {target} | {self.entries:,} | {wall:.1f} | {cpu:.1f} | {rates} | {memory:.0f} | {size:.0f} |"

    def resumed(self, rounds: int) -> str:
        """Stop a run halfway and resume it a few times, and return the best start as a row of a table."""
        half = self.entries // 2
        stopped = self.folder / "stopped.jsonl"
        self._finish([*self.command("asynchronous", stopped.name), "--max-calls", str(half)], expected=4)
        starts = []
        for number in range(rounds):
            journal = self.folder / f"resumed-{number}.jsonl"
            shutil.copy(stopped, journal)
            (self.folder / FIRST).unlink()
            began = time.time()
            self._finish([str(FAIRCOUNT), "resume", journal.name], expected=0)
            starts.append(float((self.folder / FIRST).read_text()) - began)
        return f"| {self.entries:,} | {half:,} | {self.entries - half:,} | {min(starts):.2f} |"

    def _finish(self, command: Sequence[str], *, expected: int) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != expected:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")


def _sending(journal: Path) -> float:
    """Return the seconds from the first attempt of a journal to its last."""
    first = last = ""
    with journal.open("rb") as file:
        for line in file:
            if line.startswith(b'{"kind":"attempt"'):
                last = json.loads(line)["started"]
                first = first or last
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name), arguments.entries)
        print(
            "| target | attempts | wall s | CPU s | attempts/s, whole | attempts/s, sending | peak MiB | journal MB |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for target in ("asynchronous", "synchronous"):
            print(runs.whole(target, arguments.rounds), flush=True)
        print("\n| entries | done before | missing | resume: seconds until the first request |")
        print("|---:|---:|---:|---:|")
        print(runs.resumed(arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
