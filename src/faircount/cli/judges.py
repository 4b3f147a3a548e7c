"""The commands `judges list` and `judges try`."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from faircount.analysis.judges import listing, trying
from faircount.cli.judge_setting import made_judges
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.errors import InputError, UsageError
from faircount.judging.attempt import Attempt, Expected
from faircount.text import visible

_LONGEST = 64 * 1024 * 1024


def list_judges(arguments: argparse.Namespace) -> int:
    """Run `judges list`."""
    refuse_page_without_place(arguments)
    show_one("judges", listing.as_report(listing.list_judges()), arguments)
    return 0


def try_judge(arguments: argparse.Namespace) -> int:
    """Run `judges try`."""
    refuse_page_without_place(arguments)
    (judge,) = made_judges([arguments.judge], arguments)
    try:
        trial = trying.try_judge(judge, _attempt(arguments))
    finally:
        judge.close()
    inputs = [name for name in (arguments.file, arguments.config) if name is not None]
    show_one("verdict", trying.as_report(trial), arguments, inputs)
    if trial.decided:
        return 0
    error = trial.verdict.error or "the judge did not decide"
    print(f"faircount: {visible(trial.called)}: {visible(error)}", file=sys.stderr)  # noqa: T201
    return InputError.exit_code


def _attempt(arguments: argparse.Namespace) -> Attempt:
    latency = arguments.latency
    if latency is not None and not 0 <= latency < math.inf:
        raise UsageError("--latency: must be a number of seconds that is not negative")
    # A row of spikee's has one text or a list of them.
    told = list(arguments.judge_arg or [])
    notes = {"judge_args": told[0] if len(told) == 1 else told} if told else {}
    return Attempt(
        _response(arguments),
        prompt=arguments.prompt or "",
        expected=Expected(output=arguments.expected),
        latency=latency,
        notes=notes,
    )


def _response(arguments: argparse.Namespace) -> str:
    """Return the text to judge: as it was given, from a file, or from standard input."""
    if arguments.text is not None and arguments.file is not None:
        raise UsageError("--text and --file: give one of them")
    if arguments.text is not None:
        return str(arguments.text)
    if arguments.file is not None and arguments.file != "-":
        try:
            with Path(arguments.file).open("rb") as file:
                return _decoded(file.read(_LONGEST + 1), arguments.file)
        except FileNotFoundError as error:
            raise InputError(f"{arguments.file}: no such file") from error
        except OSError as error:
            raise InputError(f"{arguments.file}: cannot be read: {error.strerror or error}") from error
    if sys.stdin is None or (sys.stdin.isatty() and arguments.file is None):
        raise UsageError("what is judged? name a text with --text or a file with --file, or pipe it in")
    return _decoded(sys.stdin.buffer.read(_LONGEST + 1), "standard input")


def _decoded(content: bytes, name: str) -> str:
    if len(content) > _LONGEST:
        raise InputError(f"{name}: is larger than 64 MiB; that is no response")
    # A byte that is no UTF-8 becomes a character that says so; to refuse the rest would help nobody.
    return content.decode("utf-8-sig", "replace")
