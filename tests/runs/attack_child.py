"""The program in forked processes, so that it can be killed many times: a fork is ready at once, the program is not.

Orders come as JSON lines on standard input: the folder to be in, the words of the command, where standard output and
standard error go, and what is to go wrong. What happens comes as lines on standard output: `pid N` when a fork has
begun, and `exit N` when it has ended, with its exit code or minus its signal.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def say(*words: object) -> None:
    """Tell one line at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Failing:
    """Stands for a system call on one file: the call with a given number and all later ones fail.

    With `part` the one with that number writes so many bytes before the next one fails.
    """

    def __init__(self, path: str, real: Callable[..., Any], number: int, error: int, part: int | None = None) -> None:
        self.path, self.real, self.number, self.error, self.part = Path(path), real, number, error, part
        self.count = 0

    def __call__(self, descriptor: int, *data: memoryview) -> Any:
        if not self.path.exists() or os.fstat(descriptor).st_ino != self.path.stat().st_ino:
            return self.real(descriptor, *data)
        self.count += 1
        if self.count == self.number and self.part is not None:
            return self.real(descriptor, data[0][: min(self.part, len(data[0]) - 1)])
        if self.count >= self.number:
            raise OSError(self.error, os.strerror(self.error))
        return self.real(descriptor, *data)


def redirect(descriptor: int, path: str) -> None:
    """Let what goes to a descriptor go to a file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, descriptor)
    os.close(file)


def carry_out(order: Mapping[str, Any]) -> int:
    """Do what an order says; the exit code is that of the program."""
    from faircount.app.cli import main

    os.chdir(order["folder"])
    redirect(1, order["out"])
    redirect(2, order["err"])
    os.environ.update(order["env"])
    if "most_bytes" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["most_bytes"], order["most_bytes"]))
    if "fail" in order:
        fail = order["fail"]
        failing = Failing(fail["path"], getattr(os, fail["call"]), fail["number"], fail["error"], fail.get("part"))
        setattr(os, fail["call"], failing)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        code = main(order["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        return 130
    return code


def prepare() -> None:
    """Load what the program loads, once for all forks; nothing of it starts a thread."""
    import duckdb  # noqa: F401

    import faircount.analysis.analyze
    import faircount.analysis.run_reports
    import faircount.app.cli.run
    import faircount.chat.client
    import faircount.readers.journal_reader
    import faircount.readers.journal_rows
    import faircount.runs.bench
    import faircount.runs.targets.openai  # noqa: F401


def main() -> None:
    """Fork once for every order."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.dont_write_bytecode = True  # so that a small disk is only felt by what is written on purpose
    prepare()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a fork takes it back when it can answer to it
    for line in iter(sys.stdin.buffer.readline, b""):
        process = os.fork()
        if process == 0:
            code = 71
            try:
                code = carry_out(json.loads(line))
            finally:
                os._exit(code)
        say("pid", process)
        _, status = os.waitpid(process, 0)
        say("exit", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
