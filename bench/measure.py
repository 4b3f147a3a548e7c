"""Runs commands in turns and keeps the best of each: wall time, CPU time, peak memory of the process tree."""

from __future__ import annotations

import os
import subprocess
import threading
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
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process, [])
    return found


def _resident_kib(process: int) -> int:
    try:
        return int((Path("/proc") / str(process) / "statm").read_text().split()[1]) * _PAGE_KIB
    except OSError:
        return 0


def run_once(command: Sequence[str], cwd: Path) -> Measured:
    """Run a command and measure it; its output is thrown away, its failure is ours."""
    peak = 0
    before = os.times()
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, sum(_resident_kib(member) for member in _tree(process.pid)))
            time.sleep(_SAMPLE_SECONDS)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, complaint = process.communicate()
    wall = time.perf_counter() - started
    watcher.join()
    after = os.times()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {complaint.decode(errors='replace')[-500:]}")
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Measured(wall, cpu, peak / 1024)


def in_turns(commands: Mapping[str, Sequence[str]], cwd: Path, rounds: int) -> dict[str, Measured]:
    """Run every command once a round and return the best of each figure."""
    best: dict[str, Measured] = {}
    for _ in range(rounds):
        for name, command in commands.items():
            now = run_once(command, cwd)
            then = best.get(name, now)
            best[name] = Measured(
                min(now.wall, then.wall), min(now.cpu, then.cpu), min(now.memory_mib, then.memory_mib)
            )
    return best
