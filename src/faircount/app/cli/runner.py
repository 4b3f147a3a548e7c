"""How every command is run: options are made, its function is called, and what it answers is shown.

One place for progress, reports and pages, what is said beside the answer, --strict, gates and exit codes.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.app.cli.messages import note
from faircount.app.cli.parsing import Command, load
from faircount.app.cli.parts import Gates, Inputs, Output
from faircount.core.errors import FaircountError, InputError
from faircount.core.options import Options, option_fields

if TYPE_CHECKING:
    from faircount.analysis.compare.model import Comparison
    from faircount.core.model import Analysis
    from faircount.report.blocks import Report

STDIN = "-"
EXIT_INCOMPLETE = 4


class Files(Struct, frozen=True):
    """The files that a command reads, in the order given, and what hears how many bytes of them were read."""

    names: tuple[str, ...]
    progress: Callable[[int], None]


class CommandResult(Struct, frozen=True, kw_only=True):
    """What a command found: a report, or a text, and what is to be said and done beside.

    `name` is that of a page whose place is a folder or beside an input. `pages` are those of several inputs. `inputs`
    are never overwritten. `notes` go to standard error; `failure` is raised after them. `damaged` tells whether lines
    could not be read. Gates are judged on `analyses` and on the `comparison`, which may be one that is made only then.
    """

    report: Report | None = None
    name: str = ""
    pages: Sequence[tuple[str, Report]] = ()
    several: bool = False
    text: str = ""
    inputs: Sequence[str] = ()
    notes: Sequence[str] = ()
    failure: FaircountError | None = None
    damaged: bool = False
    code: int = 0
    analyses: Sequence[Analysis] = ()
    comparison: Comparison | Callable[[], Comparison | None] | None = None


def run_command(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command and return its exit code."""
    parts = [_made(part, arguments) for part in command.parts()]
    gates = next((part for part in parts if isinstance(part, Gates)), None)
    if gates is not None:
        from faircount.app.cli.gating import refuse_gates

        refuse_gates(gates, parts)
    with _with_files(parts) as given:
        answer = load(command.function)(*given)
    return _finish(answer, parts)


def _made(part: type[Options], arguments: argparse.Namespace) -> Options:
    given: dict[str, Any] = {known.name: getattr(arguments, known.name) for known in option_fields(part)}
    if "command" in part.__struct_fields__:
        given["command"] = shlex.join(["faircount", *arguments.words])
    return part(**given)


@contextlib.contextmanager
def _with_files(parts: Sequence[Options]) -> Iterator[list[Any]]:
    """Give the options of a command with the files in place of how they were named, and show how far reading is."""
    inputs = next((part for part in parts if isinstance(part, Inputs)), None)
    if inputs is None:
        yield list(parts)
        return
    from faircount.app.cli.progress import ReadingBar

    names = _named_files(inputs)
    others = [name for part in parts for name in getattr(part, "others", ())]
    with ReadingBar([*names, *others]) as bar:
        files = Files(tuple(names), bar.advance)
        yield [files if part is inputs else part for part in parts]


def _named_files(inputs: Inputs) -> list[str]:
    """Return the files that were named, and those of the folders that were named, in the order given."""
    from faircount.readers.inputs import expand_folder, listed, results_in

    files: list[str] = []
    for kind, name in inputs.inputs:
        if kind == "folder":
            files += expand_folder(name)
        elif name != STDIN and Path(name).is_dir():
            results, others = results_in(name)
            files += results
            if others:
                note(f"{name}: skipped, not result files: {listed(others)}")
        else:
            files.append(name)
    return files


def _finish(answer: CommandResult, parts: Sequence[Options]) -> int:
    """Show an answer as the options say, judge the gates, and return the exit code."""
    output = next((part for part in parts if isinstance(part, Output)), None)
    if output is not None:
        _show(answer, output)
    sys.stdout.write(answer.text)
    sys.stdout.flush()
    for sentence in answer.notes:
        note(sentence)
    if answer.failure is not None:
        raise answer.failure
    if answer.code == InputError.exit_code:
        return answer.code
    strict = any(isinstance(part, Inputs) and part.strict for part in parts)
    if strict and answer.damaged:
        note(f"--strict: some input could not be read{'; see the findings' if answer.report else ', see above'}")
        return InputError.exit_code
    gates = next((part for part in parts if isinstance(part, Gates)), None)
    if answer.code or gates is None or not gates.asked or not (answer.analyses or answer.comparison):
        return answer.code
    from faircount.app.cli.gating import apply_gates

    comparison = answer.comparison() if callable(answer.comparison) else answer.comparison
    return apply_gates(gates, analyses=answer.analyses, comparison=comparison, inputs=answer.inputs)


def _show(answer: CommandResult, output: Output) -> None:
    from faircount.app.cli.output import show, show_pages

    pages = answer.pages or ([] if answer.report is None else [(answer.name, answer.report)])
    if pages and output.format == "html":
        show_pages(pages, output.path, answer.inputs, several=answer.several)
    elif answer.report is not None:
        show(answer.report, output.format, output.path, answer.inputs)
