"""One command, interrupted many times at random moments: what it leaves behind, and how it ends.

Most tries are forks of this process, which has imported what the command imports: they are at work at once. Some are
processes of their own, which import everything themselves. Several run at the same time, so that none has a core for
itself. The settings come as JSON on standard input, and what was found goes as JSON to standard output.

A signal is sent once the program has taken it over: before that Python is still starting, and dies of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

AT_ONCE = 3
MEASURED = 3
LONGEST_END = 20.0
_POLL = 0.002
_GONE_WITHIN = 2.0
_LONGEST_TRY = 120.0
_NUMBERS = re.compile(r"\d{6,}(-\d+)*")
_NEVER_SAID = re.compile(rb"Traceback|Exception ignored|internal error|Error:|never awaited|never retrieved")
_REALLY_STARTED_EVERY = 10


def _place(settings: dict[str, Any], number: int) -> tuple[Path, dict[str, str]]:
    """Make the folders of a try, and return them with the variables that name them."""
    folder = Path(settings["folder"]) / str(number)
    for name in ("work", "tmp", "cache"):
        (folder / name).mkdir(parents=True)
    for path in settings["copies"]:
        shutil.copy(path, folder / "work")
    return folder, {
        "TMPDIR": str(folder / "tmp"),
        "FAIRCOUNT_CACHE": str(folder / "cache"),
        "OF_TRY": f"{os.getpid()}-{number}",
        "OPENBLAS_NUM_THREADS": "1",
    }


class Try:
    """One run of the command, in folders of its own."""

    def __init__(
        self, settings: dict[str, Any], number: int, *, signals: list[tuple[float, int]], forked: bool
    ) -> None:
        self.settings, self.number, self.signals, self.forked = settings, number, signals, forked
        self.folder, self.environment = _place(settings, number)
        self.waiting = list(signals)
        self.sent: list[float] = []
        self.ready: float | None = None
        self.ended = 0.0
        self.code: int | None = None
        self.began = time.monotonic()
        self.process = self._fork() if forked else self._start()

    def _fork(self) -> int:
        process = os.fork()
        if process:
            return process
        try:
            os.setsid()
            for descriptor, name in ((0, os.devnull), (1, str(self.folder / "out")), (2, str(self.folder / "err"))):
                file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
                os.dup2(file, descriptor)
                os.close(file)
            os.chdir(self.folder / "work")
            os.environ.update(self.environment)
            sys.argv = ["faircount", *self.settings["words"]]
            # Who replaces them must not close what is beneath.
            sys.stdin, sys.stdout, sys.stderr = (
                open(number, mode, closefd=False)  # noqa: SIM115
                for number, mode in enumerate(("r", "w", "w"))
            )
            from faircount.__main__ import run

            run()
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(99)

    def _start(self) -> int:
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "faircount", *self.settings["words"]],
                cwd=self.folder / "work",
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return self._popen.pid

    def step(self) -> bool:
        """Send what is due, and return whether the process has ended."""
        now = time.monotonic()
        ended, status = os.waitpid(self.process, os.WNOHANG)
        if ended:
            self.ended, self.code = now, os.waitstatus_to_exitcode(status)
            if not self.forked:
                self._popen.returncode = self.code
            return True
        if self.ready is None:
            if _takes_signals(self.process):
                self.ready = now
        elif self.waiting and now >= self.ready + self.waiting[0][0]:
            os.kill(self.process, self.waiting.pop(0)[1])
            self.sent.append(now)
        late = self.sent and now > self.sent[0] + LONGEST_END
        if late or now > self.began + _LONGEST_TRY:
            os.kill(self.process, signal.SIGKILL)
            _, status = os.waitpid(self.process, 0)
            self.ended, self.code = now, os.waitstatus_to_exitcode(status)
            return True
        return False

    def left(self) -> dict[str, str]:
        """Return the files of the command, under names without times, with a digest of each."""
        work = self.folder / "work"
        return {
            _NUMBERS.sub("#", str(path.relative_to(work))): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(work.rglob("*"))
            if path.is_file()
        }

    def _is_json(self, name: str) -> bool:
        """Return whether a file is a whole document, which may differ in the time when it was made."""
        try:
            return name.endswith(".json") and bool(json.loads((self.folder / "work" / name).read_bytes()))
        except ValueError:
            return False

    def faults(self, usual: Usual) -> Iterator[str]:
        """Yield what is wrong with how the command ended, and with what it left."""
        if self.code not in (130, usual.code):
            yield f"exit code {self.code}"
        errors = (self.folder / "err").read_bytes()
        if _NEVER_SAID.search(errors):
            yield "said something that nobody should see"
        if (folder := self.folder / "tmp") and any(folder.iterdir()):
            yield f"left in TMPDIR: {sorted(path.name for path in folder.iterdir())}"
        hidden = [path.name for path in (self.folder / "cache").rglob(".*")]
        if hidden:
            yield f"left in the cache: {hidden}"
        left = self.left()
        for name, digest in left.items():
            if name not in usual.files and not usual.may_stay(name):
                yield f"left {name}"
            elif any(part.startswith(".") for part in name.split("/")):
                yield f"left hidden {name}"
            elif usual.files.get(name) not in (None, digest) and not usual.may_stay(name) and not self._is_json(name):
                yield f"{name} is not whole"
        if self.code == usual.code != 130 and not usual.files.keys() <= left.keys():
            yield f"done without {sorted(usual.files.keys() - left.keys())}"
        until = time.monotonic() + _GONE_WITHIN
        while alive := _alive(self.process, self.environment["OF_TRY"] if self.settings["programs"] else None):
            if time.monotonic() > until:
                yield f"left processes: {alive}"
                break
            time.sleep(0.05)

    def told(self) -> dict[str, Any]:
        """Return what somebody needs who wants to see a fault again."""
        return {
            "try": self.number,
            "seed": self.settings["seed"],
            "forked": self.forked,
            "signals": [(round(moment, 4), signal.Signals(number).name) for moment, number in self.signals],
            "sent": len(self.sent),
            "code": self.code,
            "seconds": round(self.ended - self.began, 3),
            "err": (self.folder / "err").read_text("utf-8", "replace")[-3000:],
        }


class Usual:
    """What the command does when nobody interrupts it."""

    def __init__(self, done: list[Try]) -> None:
        self.code = done[0].code
        if {one.code for one in done} != {0}:
            raise RuntimeError(f"undisturbed: {[one.told() for one in done]}")
        all_files = [one.left() for one in done]
        # A file that is another one each time cannot be compared.
        self.files: dict[str, str | None] = {
            name: digest if all(files.get(name) == digest for files in all_files) else None
            for name, digest in all_files[0].items()
        }
        self._kept = re.compile(done[0].settings["may_stay"] or r"(?!)")

    def may_stay(self, name: str) -> bool:
        """Return whether a file may be there and not whole: a journal is resumed."""
        return self._kept.fullmatch(name) is not None


def _takes_signals(process: int) -> bool:
    """Return whether a process answers to SIGTERM, which Python leaves alone and the program takes for an interrupt."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text("ascii", "replace").splitlines():
            if line.startswith("SigCgt:"):
                # SIGTERM is taken over before SIGHUP, the last one.
                return bool(int(line.split()[1], 16) >> (signal.SIGHUP - 1) & 1)
    return False


def _alive(session: int, marker: str | None) -> list[str]:
    """Return the processes of a session, and those that left it but still have the marker of the try."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = Path(entry.path, "stat").read_text("utf-8", "replace")
            state, _, _, its_session = stat.rpartition(")")[2].split()[:4]
            marked = marker is not None and f"OF_TRY={marker}\0".encode() in Path(entry.path, "environ").read_bytes()
            if (int(its_session) == session or marked) and state != "Z":
                found.append(f"{entry.name} {stat.partition('(')[2].partition(')')[0]}")
    return found


def _run(tries: Iterator[Try]) -> Iterator[Try]:
    """Yield tries as they end; some run at the same time."""
    running: list[Try] = []
    coming = True
    while coming or running:
        while coming and len(running) < AT_ONCE:
            following = next(tries, None)
            coming = following is not None
            if following is not None:
                running.append(following)
        for one in [one for one in running if one.step()]:
            running.remove(one)
            yield one
        time.sleep(_POLL)


def _import_what_it_imports(settings: dict[str, Any]) -> None:
    """Import what the command imports, here, so that forks need not."""
    modules = Path(settings["folder"]) / "modules"
    script = (
        "import sys\nfrom faircount.app.cli import main\nmain(sys.argv[2:])\n"
        "open(sys.argv[1], 'w').write('\\n'.join(list(sys.modules)))\n"
    )
    folder, environment = _place(settings, -1)
    subprocess.run(
        [sys.executable, "-c", script, str(modules), *settings["words"]],
        cwd=folder / "work",
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    shutil.rmtree(folder)
    # Where the engine is, workers are not started.
    without = ("duckdb", "_duckdb") if settings["workers"] else ()
    for name in modules.read_text("utf-8").split("\n"):
        if name != "__main__" and not name.startswith(without or "\0"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    modules.unlink()
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208
        raise RuntimeError("an import started a thread: forks would not be like the program")


def _signals(chance: random.Random, longest: float) -> list[tuple[float, int]]:
    first = chance.uniform(0, longest)
    kind = chance.random()
    if kind < 0.2:
        return [(first, signal.SIGTERM if kind < 0.15 else signal.SIGHUP)]
    if kind < 0.4:
        return [(first, signal.SIGINT), (first + chance.uniform(0, 0.2), signal.SIGINT)]
    return [(first, signal.SIGINT)]


def main() -> None:
    """Measure the command, interrupt it, and tell what was found."""
    settings = json.load(sys.stdin)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads cannot be forked
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _import_what_it_imports(settings)
    numbers = iter(range(10**6, 10**6 + 100))
    longest = {}
    done = []
    for forked in (True, False):
        measured = list(_run(Try(settings, next(numbers), signals=[], forked=forked) for _ in range(MEASURED)))
        longest[forked] = statistics.median(one.ended - (one.ready or one.began) for one in measured)
        done += measured
    usual = Usual(done)
    for one in done:
        for fault in one.faults(usual):
            raise RuntimeError(f"undisturbed: {fault}: {one.told()}")
        shutil.rmtree(one.folder)

    def tries() -> Iterator[Try]:
        for number in range(settings["tries"]):
            forked = number % _REALLY_STARTED_EVERY != 0
            chance = random.Random(f"{settings['seed']}-{number}")
            yield Try(settings, number, signals=_signals(chance, longest[forked]), forked=forked)

    ends: dict[str, int] = {}
    faults = []
    slowest = 0.0
    for one in _run(tries()):
        found = list(one.faults(usual))
        if found:
            faults.append({"faults": found, **one.told()})
        if one.sent:
            slowest = max(slowest, one.ended - one.sent[0])
        end = str(one.code) if one.sent else "ended before the signal"
        ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(one.folder, ignore_errors=True)
    told = {"longest": longest[True], "really": longest[False], "slowest_end": slowest, "ends": ends, "faults": faults}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
