"""A program as a target: `command(argv=["./bot", "--quiet"])`. Nothing goes through a shell.

By default one process is started for every request. It gets the prompt on standard input and writes the answer to
standard output; another exit code than 0 is an error, with the beginning of what stands on standard error. With
`lines=true` a process stays: it gets one request in JSON on a line of its own and writes one answer on a line, and is
started again when it has ended.

    argv        the program and its arguments; "$NAME" stands for an environment variable
    input       "text", the last message of the user, or "json", the whole request
    output      "text", or "json": what a function of the user's may return; {"blocked": "why", "categories": [...]}
                where a guardrail stopped it, {"error": "what"} where something failed
    lines       one process for many requests; input and output are JSON
    processes   how many of those there are at once (1)
    timeout     seconds for one answer (what --timeout says)

The environment is handed on and never recorded. What it holds under names of secrets is hidden in messages and answers.

A program runs in a group of its own, and whatever ends the waiting, a time-out, an error or an interrupt, the whole
group is killed: a program that started others leaves none behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from faircount.chat.http import LARGEST_ANSWER, InvalidJson, Key, decode_json, encode_json, well_formed
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.base import (
    BLOCKED,
    Answer,
    Request,
    Target,
    TargetError,
    categories_of,
    plain_messages,
    prompt_of,
    system_of,
)
from faircount.runs.targets.user_code import (
    Arguments,
    WrongAnswer,
    answer_of,
    hidden_in_answer,
    hidden_in_message,
    without_secrets,
)
from faircount.testing.fields import is_secret

if TYPE_CHECKING:
    import asyncio

_LONGEST_QUOTE = 300
_FORMS = ("text", "json")


class CommandOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the target."""

    argv: tuple[str, ...]
    input: str = ""
    output: str = ""
    lines: bool = False
    processes: int = 1
    timeout: float | None = None


class CommandTarget(Target):
    """A program that is started for every request, or one that answers many. `folder` is where it runs."""

    name = "command"

    def __init__(self, arguments: Arguments, folder: str, timeout: float) -> None:
        self._arguments = arguments
        self._options = _options(arguments.given)
        self._folder = folder
        self._timeout = self._options.timeout or timeout
        self._limit = LARGEST_ANSWER
        environment = [Key(value) for name, value in os.environ.items() if value.strip() and is_secret(name)]
        self._secrets = [*arguments.secrets, *environment]
        self._argv = (_program(self._options.argv[0], folder), *self._options.argv[1:])
        self._pool: _ProcessPool | None = None

    def settings(self) -> Mapping[str, Any]:
        """Return the program and its options as they were given, and the folder that it runs in."""
        return {
            "kind": "command",
            "name": self.name,
            "arguments": dict(self._arguments.recorded),
            "folder": self._folder,
            "timeout": self._timeout,
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the program."""
        import asyncio

        if self._options.lines and self._pool is None:
            self._pool = _ProcessPool(self._argv, self._folder, self._options.processes, self._limit)
        try:
            if self._pool is not None:
                written, seconds = await self._pool.ask(_as_json(request), self._timeout)
            else:
                async with asyncio.timeout(self._timeout):
                    written, seconds = await self._once(request)
        except TimeoutError:
            raise TargetError("timeout", f"no answer within {self._timeout:g} s; the program was killed") from None
        except _TooMuchOutput:
            size = self._limit // 1024 // 1024
            raise TargetError("too large", f"the program wrote more than {size} MiB and was killed") from None
        except _ProcessEnded as ended:
            raise self._ended(ended.code, ended.errors, " before it answered") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise TargetError("connection", f"the program cannot be started: {visible(reason)}") from None
        return self._read(written, seconds)

    async def close(self) -> None:
        """End the processes that stay."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    async def _once(self, request: Request) -> tuple[bytes, float]:
        content = _as_json(request) if self._options.input == "json" else well_formed(prompt_of(request)).encode()
        began = time.perf_counter()
        code, output, errors = await _run(self._argv, self._folder, content, largest=self._limit)
        if code != 0:
            raise self._ended(code, errors)
        return output, time.perf_counter() - began

    def _ended(self, code: int, errors: bytes, when: str = "") -> TargetError:
        message = self._for_people(errors.decode("utf-8", "replace").strip())
        words = f"the program {_how_it_ended(code)}{when}"
        return TargetError(
            "exit code", f"{words}{f': {message}' if message else ' and wrote nothing to standard error'}"
        )

    def _read(self, written: bytes, seconds: float) -> Answer:
        if self._options.output == "text":
            text = written.decode("utf-8", "replace")
            # The line feed at the end is that of the program's own print.
            return self._without_secrets(Answer(output=text.removesuffix("\n").removesuffix("\r"), latency=seconds))
        try:
            content = decode_json(written)
        except InvalidJson:
            message = self._for_people(written.decode("utf-8", "replace").strip())
            raise TargetError("not json", f"the program did not write JSON: {message or 'nothing'}") from None
        self._raise_signals(content)
        try:
            return self._without_secrets(answer_of(content, seconds))
        except WrongAnswer as error:
            raise TargetError("wrong answer", self._for_people(str(error))) from None

    def _raise_signals(self, content: object) -> None:
        """Raise what a program says of a guardrail or of an error of its own."""
        if not isinstance(content, Mapping):
            return
        if content.get("blocked"):
            message = content["blocked"] if isinstance(content["blocked"], str) else "the guardrail stopped it"
            raise TargetError(BLOCKED, self._for_people(message), categories=categories_of(content.get("categories")))
        if content.get("error") and "output" not in content:
            message = content["error"] if isinstance(content["error"], str) else encode_json(content["error"]).decode()
            raise TargetError("program", self._for_people(message))

    def _for_people(self, text: str) -> str:
        return clip(visible(mask_secrets(hidden_in_message(text, self._secrets))), _LONGEST_QUOTE)

    def _without_secrets(self, answer: Answer) -> Answer:
        return without_secrets(answer, lambda text: well_formed(hidden_in_answer(text, self._secrets)))


# -- processes that stay ----------------------------------------------------------------------------------------


class _ProcessEnded(Exception):
    """A process ended before it answered."""

    def __init__(self, code: int, errors: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.errors = errors


class _Process:
    """A process that answers line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        import asyncio

        self.process = process
        self.answered = 0
        self._errors = bytearray()
        self._listening = asyncio.ensure_future(self._listen())

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.returncode is None and self.process.stdout is not None and not self.process.stdout.at_eof()

    async def ask(self, line: bytes) -> bytes:
        """Send a line and return the next one that comes."""
        import asyncio

        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise _ProcessEnded(0, b"")
        self._errors.clear()
        try:
            stdin.write(line)
            await stdin.drain()
            answer = await stdout.readuntil(b"\n")
            self.answered += 1
            return answer
        except asyncio.LimitOverrunError:
            raise _TooMuchOutput from None
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
            pass
        code = await self.process.wait()
        await self._listening
        raise _ProcessEnded(code, bytes(self._errors))

    async def end(self) -> None:
        """End it and all that it started."""
        await _kill(self.process)
        self._listening.cancel()

    async def _listen(self) -> None:
        stream = self.process.stderr
        while stream is not None and (piece := await stream.read(_LONGEST_STDERR)):
            room = _LONGEST_STDERR - len(self._errors)
            self._errors += piece[: max(0, room)]


class _ProcessPool:
    """Processes that answer many requests, each one at a time; they are started when they are needed."""

    def __init__(self, argv: tuple[str, ...], folder: str, most: int, limit: int) -> None:
        import asyncio

        self._argv = argv
        self._folder = folder
        self._limit = limit
        self._turns = asyncio.Semaphore(most)
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    async def ask(self, line: bytes, timeout: float) -> tuple[bytes, float]:
        """Return the line that answers a line, and the seconds that it took, without those of waiting for a turn.

        A process that had answered and then ended of its own accord, with exit code 0, did not take the request: the
        next one gets it.
        """
        import asyncio

        async with self._turns, asyncio.timeout(timeout):
            while True:
                began = time.perf_counter()
                process = await self._ready()
                try:
                    answer = await process.ask(line + b"\n")
                except _ProcessEnded as ended:
                    await self._end(process)
                    if ended.code == 0 and process.answered:
                        continue
                    raise
                except BaseException:
                    # An answer that comes too late, or half of one, would be taken for that of the next request.
                    await self._end(process)
                    raise
                self._idle.append(process)
                return answer, time.perf_counter() - began

    async def _ready(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            await self._end(process)
        process = _Process(await _start(self._argv, self._folder, limit=self._limit))
        self._all.add(process)
        return process

    async def _end(self, process: _Process) -> None:
        self._all.discard(process)
        await process.end()

    async def close(self) -> None:
        while self._all:
            await self._all.pop().end()


# -- what is sent, and options ----------------------------------------------------------------------------------


def _as_json(request: Request) -> bytes:
    """Return a request in JSON, on one line."""
    try:
        return encode_json(
            {
                "prompt": prompt_of(request),
                "system": system_of(request),
                "messages": plain_messages(request),
                "id": request.fields.get("id", request.case),
                "attempt": request.attempt,
                "conversation": request.conversation,
                "parameters": dict(request.parameters),
                "fields": dict(request.fields),
            }
        )
    except UsageError:
        raise TargetError("parameters", "the request cannot be written as JSON", tries=0) from None


def _options(content: Mapping[str, Any]) -> CommandOptions:
    if not content.get("argv") or not isinstance(content["argv"], list | tuple):
        raise UsageError('command: needs argv, a list of strings: command(argv=["./bot", "--quiet"])')
    try:
        options = msgspec.convert(content, CommandOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(CommandOptions.__struct_fields__)
        raise UsageError(f"command: {visible(str(error))}; it takes {known}") from None
    default = "json" if options.lines else "text"
    options = structs.replace(options, input=options.input or default, output=options.output or default)
    for name in ("input", "output"):
        form = getattr(options, name)
        if form not in _FORMS or (options.lines and form != "json"):
            lines = "; with lines=true, both must be json" if options.lines else ""
            raise UsageError(f'command: {name} must be "text" or "json"{lines}')
    if options.processes < 1:
        raise UsageError("command: processes must be 1 or more")
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError("command: timeout must be a number of seconds above 0")
    return options


def _program(name: str, folder: str) -> str:
    """Return where a program is: by its path from the folder, or on the PATH."""
    path = Path(folder) / name
    found = shutil.which(str(path)) if os.sep in name or "/" in name else shutil.which(name)
    if found is None:
        why = "not a program that can be started" if path.is_file() else "no such program"
        raise UsageError(f"command: {visible(name)}: {why}")
    return found


# -- processes ----------------------------------------------------------------------------------------------------


_PIECE = 64 * 1024
_LONGEST_STDERR = 64 * 1024


class _TooMuchOutput(Exception):
    """A program wrote more than anybody wants to read."""


async def _start(argv: Sequence[str], folder: str, *, limit: int) -> asyncio.subprocess.Process:
    import asyncio

    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
        limit=limit,
    )


async def _run(argv: Sequence[str], folder: str, given: bytes, *, largest: int) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return its exit code, output and errors. It may write up to `largest` bytes."""
    import asyncio

    process = await _start(argv, folder, limit=_PIECE)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_write(process, given))
            output = group.create_task(_read(process.stdout, largest))
            errors = group.create_task(_read(process.stderr, _LONGEST_STDERR, drop=True))
        code = await process.wait()
    except BaseExceptionGroup as failed:
        await _kill(process)
        raise failed.exceptions[0] from None
    except BaseException:
        await _kill(process)
        raise
    _close_pipes(process)
    return code, output.result(), errors.result()


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a program and all that it started, and wait until it is gone."""
    import asyncio

    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):  # and all that did not leave its group
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
    # A pipe that nobody reads any more would keep the waiting up until the time-out.
    _close_pipes(process)
    waiting = asyncio.ensure_future(process.wait())
    # To be cancelled here would leave a process behind that nobody has waited for.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(waiting)


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _write(process: asyncio.subprocess.Process, given: bytes) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    # A program need not read what it is given.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(given)
        await stdin.drain()
    # Nobody waits until it is closed: asyncio complains about a program that ends when such waiting was given up.
    stdin.close()


async def _read(stream: asyncio.StreamReader | None, largest: int, *, drop: bool = False) -> bytes:
    """Return what a stream holds; what is beyond the limit is dropped, or `_TooMuchOutput`."""
    pieces: list[bytes] = []
    size = 0
    while stream is not None and (piece := await stream.read(_PIECE)):
        if size < largest:
            pieces.append(piece)
        size += len(piece)
        if size > largest and not drop:
            raise _TooMuchOutput
    return b"".join(pieces)[:largest]


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"
