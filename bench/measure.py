"""Runs commands in turns and keeps the best of each: wall time, CPU time, peak memory of the process tree.

Memory is watched in a run of its own: whoever looks at processes all the time takes time from them.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SAMPLE_SECONDS = 0.01
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True)
class Measured:
    """The best of several runs of a command."""

    wall: float
    cpu: float
    memory_mib: float


def _tree(root: int) -> list[int]:
    """Return a process and its descendants."""
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        for thread in _listed(Path(f"/proc/{process}/task")):
            try:
                waiting += map(int, (thread / "children").read_text().split())
            except OSError:
                continue
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _resident_kib(process: int) -> int:
    try:
        return int((Path("/proc") / str(process) / "statm").read_text().split()[1]) * _PAGE_KIB
    except OSError:
        return 0


def run_once(command: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Run a command and return its wall and CPU time; its output is thrown away, its failure is ours."""
    before = os.times()
    started = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall = time.perf_counter() - started
    after = os.times()
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


def peak_mib(command: Sequence[str], cwd: Path) -> float:
    """Run a command and return the most memory that it and its descendants took at any moment that was looked at."""
    peak = 0
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(_resident_kib(member) for member in _tree(process.pid)))
        time.sleep(_SAMPLE_SECONDS)
    return peak / 1024


def in_turns(commands: Mapping[str, Sequence[str]], cwd: Path, rounds: int) -> dict[str, Measured]:
    """Run every command once a round and return the best of each figure."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(run_once(command, cwd))
    return {
        name: Measured(min(wall for wall, _ in times[name]), min(cpu for _, cpu in times[name]), peak_mib(command, cwd))
        for name, command in commands.items()
    }


THEIRS = "spikee 0.9.2"


def show_beside(what: str, measured: Mapping[str, Measured]) -> None:
    """Print a row of a table for each tool, and beside spikee how many times faster and smaller the others are."""
    theirs = measured.get(THEIRS)
    for tool, ours in measured.items():
        ratios = " | "
        if theirs is not None and ours is not theirs:
            ratios = f"{theirs.wall / ours.wall:.1f} | {theirs.memory_mib / ours.memory_mib:.1f}"
        print(f"| {what} | {tool} | {ours.wall:.2f} | {ours.cpu:.2f} | {ours.memory_mib:.0f} | {ratios} |", flush=True)
