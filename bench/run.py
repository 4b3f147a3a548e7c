"""`faircount run` beside REBEL 0.2.0: the same tests against the same stub, each at several numbers of workers.

Both send every attempt and measure it by two metrics. Requests a second are told twice: over the whole program with its
start and its report, and from the first request to the last answer as the stub saw them. After that Faircount alone:
very many attempts with a target in the same process, and their journal read back.

REBEL needs an environment of its own, about 450 MB:

    python3 -m venv .venv-rebel && .venv-rebel/bin/python -m pip install rebel-eval==0.2.0

Run: .venv/bin/python -m bench.run --rebel .venv-rebel/bin/rebel
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analyze import FAIRCOUNT, ROOT, machine
from bench.measure import peak_mib, run_once

TESTS = """\
from {package} import {names}


class Mentions(Metric):
    word: str = "42"

    def measure(self, input, expected, actual):
        found = self.word in actual.output
        verdict = EvaluationVerdict.PASSED if found else EvaluationVerdict.FAILED
        return EvaluationResult(score=float(found), verdict=verdict, reason="looked for it")

    def get_name(self):
        return "mentions " + self.word


@test_case(
    messages=[
        Message(role=RoleEnum.system, content="You are a helpful assistant."),
        Message(role=RoleEnum.user, content="What is the answer to everything?"),
    ],
    param_grid=ParameterGrid(parameters={{"seed": list(range({cases}))}}),
)
def test_answer():
    yield TestGroup(
        metrics=[Mentions(word="42"), Mentions(word="answer")],
        retry_params=RetryParams(count={attempts}, aggregation_strategy="mean"),
    )
"""
_MODELS = "EvaluationResult, EvaluationVerdict, Message, Metric, ParameterGrid, RetryParams, RoleEnum, TestGroup"
IN_PROCESS = """\
async def answer(messages, **parameters):
    return "The answer is 42, and that is all. " * 4
"""


@dataclass(frozen=True)
class Rate:
    """How fast a program was with so many workers."""

    workers: int
    wall: float
    seconds: float
    most_at_once: int
    requests: int

    @property
    def overall(self) -> float:
        """Requests a second over the whole program."""
        return self.requests / self.wall

    @property
    def sending(self) -> float:
        """Requests a second from the first request to the last answer."""
        return self.requests / self.seconds


def write_tests(folder: Path, *, rebel: bool, cases: int, attempts: int) -> None:
    """Write the test file: for both programs the same but for its imports."""
    folder.mkdir(parents=True)
    package, names = ("rebel.models", _MODELS) if rebel else ("faircount.testing", f"{_MODELS}, test_case")
    text = TESTS.format(package=package, names=names, cases=cases, attempts=attempts)
    (folder / "test_answer.py").write_text(f"from rebel import test_case\n{text}" if rebel else text, encoding="utf-8")


@contextlib.contextmanager
def stub(delay: float) -> Iterator[str]:
    """Yield the address of a stub that runs for as long."""
    command = [sys.executable, "-m", "bench.openai_stub", "--delay", str(delay)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def stats(address: str) -> dict[str, float]:
    """Return what the stub counted since it was last asked."""
    with urllib.request.urlopen(f"{address}/stats") as answer:
        told: dict[str, float] = json.load(answer)
    return told


def measured(command: Sequence[str], cwd: Path, address: str, workers: int, requests: int) -> Rate:
    """Run a program once and return how fast it was; that it left something out is an error."""
    stats(address)
    wall, _ = run_once(command, cwd)
    told = stats(address)
    if told["requests"] != requests:
        raise RuntimeError(f"{command[0]} sent {told['requests']} requests, not {requests}")
    return Rate(workers, wall, told["seconds"], int(told["most_at_once"]), requests)


class Programs:
    """The two programs and their tests in one folder."""

    def __init__(self, folder: Path, address: str, rebel: str | None, cases: int, attempts: int) -> None:
        self.folder = folder
        self.address = address
        self.rebel = rebel
        self.requests = cases * attempts
        write_tests(folder / "ours", rebel=False, cases=cases, attempts=attempts)
        write_tests(folder / "theirs", rebel=True, cases=cases, attempts=attempts)
        config = {"api_key": "none", "base_url": f"{address}/v1", "model": "stub-1"}
        (folder / "model.json").write_text(json.dumps(config), encoding="utf-8")

    def faircount(self, workers: int) -> Rate:
        """Run ours."""
        words = ["run", "ours", "--target", "openai", "--base-url", f"{self.address}/v1", "--model", "stub-1"]
        words += ["--concurrency", str(workers), "--output-folder", "results-ours"]
        return self._run([str(FAIRCOUNT), *words], workers)

    def theirs(self, workers: int) -> Rate:
        """Run REBEL."""
        words = ["--test-dir", "theirs", "--output-folder", "results-theirs", "--api-config", "model.json"]
        count = str(workers)
        return self._run([str(self.rebel), *words, "--num-workers-api", count, "--num-workers-eval", count], workers)

    def _run(self, command: list[str], workers: int) -> Rate:
        rate = measured(command, self.folder, self.address, workers, self.requests)
        for results in self.folder.glob("results-*"):
            shutil.rmtree(results)
        return rate


def compare(programs: Programs, ours: Sequence[int], theirs: Sequence[int], rounds: int) -> None:
    """Run both programs in turns at every number of workers, and print the rates, and the best beside the best."""
    found: dict[str, list[Rate]] = {"faircount": [], "REBEL 0.2.0": []}
    for _ in range(rounds):
        for number in range(max(len(ours), len(theirs))):
            if number < len(ours):
                found["faircount"].append(programs.faircount(ours[number]))
            if number < len(theirs) and programs.rebel is not None:
                found["REBEL 0.2.0"].append(programs.theirs(theirs[number]))
    print("| program | workers | requests/s, whole program | requests/s, sending | seconds | most at once |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, rates in found.items():
        for workers in sorted({rate.workers for rate in rates}):
            best = max((rate for rate in rates if rate.workers == workers), key=lambda rate: rate.overall)
            figures = f"{best.overall:.0f} | {best.sending:.0f} | {best.wall:.2f} | {best.most_at_once}"
            print(f"| {name} | {workers} | {figures} |", flush=True)
    if found["REBEL 0.2.0"]:
        mine, other = (found[name] for name in found)
        overall = max(rate.overall for rate in mine) / max(rate.overall for rate in other)
        sending = max(rate.sending for rate in mine) / max(rate.sending for rate in other)
        print(f"best beside best: {overall:.1f} times over the whole program, {sending:.1f} times while sending\n")


def alone(folder: Path, attempts: int) -> None:
    """Measure very many attempts with a target in the same process, and how long their journal takes to read."""
    print("| attempts | seconds | attempts/s | peak MiB | journal MB | read back, seconds |")
    print("|---:|---:|---:|---:|---:|---:|")
    (folder / "bot.py").write_text(IN_PROCESS, encoding="utf-8")
    for count in (attempts // 4, attempts // 2, attempts):
        place = folder / f"alone-{count}"
        write_tests(place / "tests", rebel=False, cases=count // 100, attempts=100)
        shutil.copy(folder / "bot.py", place / "bot.py")
        words = ["run", "tests", "--target", "./bot.py:answer", "--concurrency", "64", "--journal"]
        wall, _ = run_once([str(FAIRCOUNT), *words, "j1.jsonl"], place)
        memory = peak_mib([str(FAIRCOUNT), *words, "j2.jsonl"], place)
        reading = min(
            run_once([str(FAIRCOUNT), "results", "analyze", "--no-cache", "j1.jsonl"], place)[0] for _ in "12"
        )
        size = (place / "j1.jsonl").stat().st_size / 1e6
        print(
            f"| {count:,} | {wall:.1f} | {count / wall:,.0f} | {memory:.0f} | {size:.0f} | {reading:.2f} |", flush=True
        )
        shutil.rmtree(place)


def show_help(rebel: str | None) -> None:
    """Print how long both programs take to show their help."""
    commands = {"faircount run --help": [str(FAIRCOUNT), "run", "--help"]}
    if rebel is not None:
        commands["rebel --help"] = [rebel, "--help"]
    best = {name: min(_once(command) for _ in range(5)) for name, command in commands.items()}
    print(", ".join(f"{name}: {seconds:.3f} s" for name, seconds in best.items()))
    if rebel is not None:
        ours, theirs = best.values()
        print(f"ours takes {ours / theirs:.2f} of theirs\n")


def _once(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rebel", default=str(ROOT / ".venv-rebel/bin/rebel"), help="REBEL 0.2.0's program")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--attempts", type=int, default=5)
    parser.add_argument("--delay", type=float, default=50.0, help="milliseconds that the stub takes to answer")
    parser.add_argument("--workers", type=int, nargs="*", default=[16, 64, 128, 256])
    parser.add_argument("--rebel-workers", type=int, nargs="*", default=[4, 16, 64, 128])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--alone", type=int, default=100_000, help="attempts with a target in the same process; 0: none"
    )
    arguments = parser.parse_args()
    rebel = arguments.rebel if Path(arguments.rebel).exists() else None
    if rebel is None:
        print(f"{arguments.rebel} is not there: Faircount is measured alone")
    else:
        rebel = str(Path(rebel).absolute())
    os.environ.setdefault("OPENAI_API_KEY", "none")
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    show_help(rebel)
    with tempfile.TemporaryDirectory() as name, stub(arguments.delay) as address:
        print(f"{arguments.cases} cases × {arguments.attempts} attempts × 2 metrics, {arguments.delay:g} ms an answer")
        programs = Programs(Path(name), address, rebel, arguments.cases, arguments.attempts)
        compare(programs, arguments.workers, arguments.rebel_workers, arguments.rounds)
        if arguments.alone:
            alone(Path(name), arguments.alone)


if __name__ == "__main__":
    main()
