"""A process that writes run journals so that it can be killed: it forks once per order, which is quicker than starting.

Orders come as JSON lines on standard input. What happens comes as lines on standard output: `pid N` when a fork has
begun, `call CASE ATTEMPT` when a target would have been called, `durable CASE ATTEMPT` when a record was acknowledged,
`failed MESSAGE` when the journal failed, and `exit N` when the fork has ended, with its exit code or minus its signal.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from faircount.core import InputError, UsageError
from faircount.readers import AttemptRecord, CallRecord, CaseRecord, OutputRecord, RunRecord, State
from faircount.runs import Journal, JournalError


def say(*words: object) -> None:
    """Tell one line at once, so that a kill leaves no half of it."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def open_journal(path: str) -> tuple[Journal, State | None]:
    """Go on with the journal, or begin one; a file without a header is begun anew, as its message says."""
    try:
        return Journal.create(path, RunRecord(schema=2, run="r", settings={})), None
    except UsageError:
        pass
    try:
        return Journal.reopen(path)
    except InputError as error:
        assert "no whole header" in str(error)
        Path(path).unlink()
        return Journal.create(path, RunRecord(schema=2, run="r", settings={})), None


async def work(journal: Journal, state: State | None, order: dict[str, Any]) -> None:
    """Make every attempt that has no record, several at once."""
    rng = random.Random(order["seed"])
    names = [f"case {number}" for number in range(order["cases"])]
    for name in names:
        if state is None or name not in state.cases:
            journal.note(CaseRecord(name))
    todo = [(name, attempt) for attempt in range(order["attempts"]) for name in names]
    todo = [pair for pair in todo if state is None or not state.is_done(*pair)]

    async def one_after_the_other() -> None:
        while todo:
            case, attempt = todo.pop(0)
            await journal.write(CallRecord(case, attempt))
            say("call", case.split()[1], attempt)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            text = "answer " * rng.randrange(200)
            await journal.append(AttemptRecord(case, attempt, output=OutputRecord(text)))
            say("durable", case.split()[1], attempt)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(order["concurrency"]):
            tasks.create_task(one_after_the_other())


def carry_out(order: dict[str, Any]) -> int:
    """Do what an order says; the exit code is that of the program."""
    if "most_bytes" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["most_bytes"], order["most_bytes"]))
    journal, state = open_journal(order["path"])
    code = 0
    try:
        with journal:
            asyncio.run(work(journal, state, order))
            if order.get("hold"):
                say("holding")
                signal.pause()
    except* JournalError as group:
        say("failed", group.exceptions[0])
        code = JournalError.exit_code
    return code


def main() -> None:
    """Fork once for every order."""
    for line in iter(sys.stdin.buffer.readline, b""):
        process = os.fork()
        if process == 0:
            code = 70
            try:
                code = carry_out(json.loads(line))
            finally:
                os._exit(code)
        say("pid", process)
        _, status = os.waitpid(process, 0)
        say("exit", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
