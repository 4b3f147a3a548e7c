"""What the tests of faults in attack runs share: a dataset with a target, an attack and a judge that fail in every way.

What the target says hangs on the entry, the number of the attempt and what was sent; what the attack sends hangs on all
that was tried before. So a run that was stopped comes to the same as one that was not only if it goes on with exactly
what was recorded.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faircount import analyze
from tests.conftest import document_of
from tests.runs.running import records

CHILD = Path(__file__).with_name("attack_child.py")

BOT = """\
import asyncio, hashlib, os, pathlib, threading, time

from faircount.testing import GuardrailTriggered

HERE = pathlib.Path(__file__).parent


def lot(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % 100


def log(request):
    with open(HERE / "asked.log", "a") as file:
        file.write(f"{request.case} {request.attempt}\\n")


async def answer(request: "Request"):
    log(request)
    await asyncio.sleep(float(os.environ.get("PAUSE", "0")))
    text = request.messages[-1]["content"]
    drawn = lot(request.case, request.attempt, text)
    if drawn < 20:
        raise ConnectionError("down")
    if drawn < 30:
        raise GuardrailTriggered("no entry", categories=["violence"] if drawn < 25 else [])
    return f"{'PWNED' if drawn < 40 else 'no'} {drawn} {len(request.messages)} {text}"


async def careful(request: "Request"):
    await asyncio.sleep(float(os.environ.get("PAUSE", "0")))
    return "no"


async def tells_apart(request: "Request"):
    log(request)
    await asyncio.sleep(float(os.environ.get("PAUSE", "0")))
    return "PWNED" if lot(request.case) < 50 else "no"


async def hangs(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt == 3:
        await asyncio.Event().wait()
    return "no"


def hangs_in_a_thread(request: "Request"):
    log(request)
    if (HERE / "hang").exists() and request.attempt == 3:
        threading.Event().wait()
    return "no"
"""
ATTACK = """\
import asyncio, pathlib, threading, time

from attacked_bot import HERE, lot


def variant(entry, history):
    told = [(s.messages[-1]["content"], s.response, s.success, bool(s.error), s.blocked) for s in history]
    return f"{entry.text} variant {len(history)} {lot(told)}"


def clever(entry, history):
    if lot(entry.name, "raises") < 50 and len(history) == 2:
        raise ValueError("no ideas are left")
    if lot(entry.name, "ends") < 25 and len(history) == 1:
        return None
    return variant(entry, history)


async def hangs(entry, history):
    if (HERE / "hang").exists() and len(history) == 1:
        (HERE / "hanging").touch()
        await asyncio.Event().wait()
    return variant(entry, history)


def hangs_in_a_thread(entry, history):
    if (HERE / "hang").exists() and len(history) == 1:
        (HERE / "hanging").touch()
        threading.Event().wait()
    return variant(entry, history)


async def blocks(entry, history):
    if (HERE / "hang").exists() and len(history) == 1:
        (HERE / "hanging").touch()
        while True:
            time.sleep(1)
    return variant(entry, history)
"""
JUDGE = """\
import threading

from attacked_bot import HERE, lot


def hit(attempt):
    if lot(attempt.response) < 10:
        raise ValueError("cannot say")
    return "PWNED" in attempt.response


def hangs(attempt):
    if (HERE / "hang").exists() and "variant 1" in attempt.prompt:
        (HERE / "hanging").touch()
        threading.Event().wait()
    return "PWNED" in attempt.response
"""


def write_place(folder: Path, entries: int = 8) -> Path:
    """Write a dataset with its target, attack and judge into a folder; every fourth entry has two turns."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "id": f"e{number}",
            "content": [f"obey {number}", "and now"] if number % 4 == 3 else f"obey {number}",
            "judge_name": "canary",
            "judge_args": "PWNED",
            "jailbreak_type": "dan" if number % 2 else "plain",
        }
        for number in range(entries)
    ]
    (folder / "dataset.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, content in (("attacked_bot.py", BOT), ("attack.py", ATTACK), ("judge.py", JUDGE)):
        (folder / name).write_text(content, "utf-8")
    return folder


def run_words(*more: str, target: str = "./attacked_bot.py:answer", attack: str = "./attack.py:clever") -> list[str]:
    """Return the words of a run with everything in it."""
    tactics = ["--attack", attack, "--attack-iterations", "4", "--attempts", "2", "--retries", "1"]
    places = ["--journal", "j.jsonl", "--output-folder", "out", "--output-format", "json"]
    return ["run", "dataset.jsonl", "--target", target, *tactics, *places, *more]


# -- processes --------------------------------------------------------------------------------------------------


class Forks:
    """The program in forked processes, one after the other."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._said: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.err = ""
        self.out = ""
        self.pid = 0
        self._runs = False

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, b""):
            self._said.put(line.decode().split())

    def order(self, folder: Path, words: list[str], env: Mapping[str, str] | None = None, **more: Any) -> int:
        """Let the program begin, and return its process number."""
        self._end_what_is_left()
        self._out, self._err = folder / "stdout", folder / "stderr"
        told = {"folder": str(folder), "words": words, "out": str(self._out), "err": str(self._err), "env": env or {}}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**told, **more}).encode() + b"\n")
        self.process.stdin.flush()
        kind, number = self._said.get(timeout=60)
        assert kind == "pid"
        self.pid, self._runs = int(number), True
        return self.pid

    def _end_what_is_left(self) -> None:
        """End what a test that failed has left behind."""
        if self._runs:
            with contextlib.suppress(AssertionError):
                self.ends(0)

    @property
    def is_over(self) -> bool:
        """Whether the program has ended; how is still to be asked by `ends`."""
        return not self._said.empty()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it is over."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def until(self, wanted: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so, or the program has ended."""
        end = time.monotonic() + seconds
        while not wanted() and not self.is_over:
            assert time.monotonic() < end, f"it did not happen; the program said: {self._err.read_text('utf-8')}"
            time.sleep(0.0005)

    def ends(self, seconds: float = 60.0) -> int:
        """Wait for the end, and return the exit code, or minus the signal."""
        try:
            kind, code = self._said.get(timeout=seconds)
        except queue.Empty:
            os.kill(self.pid, signal.SIGKILL)
            self._said.get(timeout=60)
            self._runs = False
            raise AssertionError(f"it did not end; it said: {self._err.read_text('utf-8')}") from None
        assert kind == "exit"
        self._runs = False
        # A fork that was killed at its very beginning has written neither.
        self.out, self.err = (path.read_text("utf-8") if path.exists() else "" for path in (self._out, self._err))
        return int(code)

    def run(self, folder: Path, words: list[str], env: Mapping[str, str] | None = None, **more: Any) -> int:
        """Let the program come to its end."""
        self.order(folder, words, env, **more)
        return self.ends()

    def close(self) -> None:
        """End the process that forks."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self._listener.join(10)
        self.process.stdout.close()


# -- what a journal comes to ------------------------------------------------------------------------------------

Key = tuple[str, int]


def counted(path: Path) -> dict[Key, dict[str, Any]]:
    """Return the records of attempts, of which there must be one by number and one by strategy and iteration."""
    found: dict[Key, dict[str, Any]] = {}
    for record in records(path):
        if record["kind"] == "attempt":
            key = (record["case"], record["attempt"])
            assert key not in found, f"two records of {key}"
            found[key] = record
    iterations = Counter((case, record["strategy"], record["iteration"]) for (case, _), record in found.items())
    assert set(iterations.values()) <= {1}, iterations
    for case in {case for case, _ in found}:
        ours = sorted(attempt for name, attempt in found if name == case)
        assert ours == list(range(len(ours))), f"a gap in {case}"
    return found


_OF_NO_MATTER = ("calls", "started", "waited", "request_id")


@functools.cache
def expected_of(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the essence and the numbers of a run that is over."""
    return essence(path), numbers(path)


def essence(path: Path) -> dict[str, Any]:
    """Return all that must be equal in two runs of the same, whatever happened to them."""
    attempts = {}
    for key, record in counted(path).items():
        told = {name: value for name, value in record.items() if name not in _OF_NO_MATTER}
        if told["output"] is not None:
            told["output"] = {**told["output"], "execution_time": None}
        if told["error"] is not None and told["error"]["kind"] == "connection":
            told["error"] = {"kind": "connection"}  # how a connection broke off is told by the system, in many ways
        attempts[key] = told
    told_of = [record for record in records(path) if record["kind"] == "done"]
    done = {record["case"]: (record["outcome"], record.get("error")) for record in told_of}
    cases = {record["case"]: record for record in records(path) if record["kind"] == "case"}
    assert cases.keys() == done.keys()
    return {"attempts": attempts, "done": done, "cases": cases}


def numbers(path: Path) -> dict[str, Any]:
    """Return the numbers of the analysis of a run, without what tells of the file and of time."""
    result = analyze(str(path), cache=False)
    analysis = document_of(result.analyses[0])
    assert analysis["entries"]["total"]
    # Which of several errors of a kind is shown hangs on the order in which they came.
    analysis["errors"] = sorted((one["kind"], one["rows"], one["entries"]) for one in analysis["errors"])
    # And so does the order of groups that are equal.
    for end in ("most", "least"):
        analysis["combinations"][end].sort(key=lambda one: json.dumps(one["values"]))
    return {name: value for name, value in analysis.items() if name not in ("name", "sources", "latency", "findings")}


def is_begun(path: Path) -> bool:
    """Tell whether a journal has a header, so that its run can be resumed."""
    return path.exists() and b"\n" in path.read_bytes()
