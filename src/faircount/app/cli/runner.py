"""How every command is run: options are made, its function is called, and what it answers is shown.

One place for progress, reports and pages, what is said beside the answer, --strict, gates and exit codes.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.app.cli.options import FAIL, IGNORE, SUMMARY_VARIABLE, BaselineGates, Gates, Inputs, Output
from faircount.app.cli.parser import Command, load
from faircount.app.cli.terminal import colours, note
from faircount.app.options import beside_others, is_our_page, place_of, refuse_inputs, refuse_same_file, stem_of
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.options import Options, option_fields
from faircount.core.text import clip, inert_lines, visible
from faircount.io.files import refuse_address
from faircount.io.new_file import whole_file

if TYPE_CHECKING:
    from faircount.analysis.compare.model import Comparison
    from faircount.analysis.gates.expression import Gate
    from faircount.analysis.gates.judge import GateResult, Subject
    from faircount.analysis.options import AnalyzeOptions
    from faircount.core.model import Analysis
    from faircount.report.blocks import Report

STDIN = "-"
PAGE_SUFFIX = "_analysis.html"
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
        refuse_gates(gates, parts)
    for part in parts:
        refuse_address(getattr(part, "output", None) or "")
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
    from faircount.app.cli.terminal import ReadingBar

    names = _named_files(inputs)
    others = [name for part in parts for name in getattr(part, "others", ())]
    with ReadingBar([*names, *others]) as bar:
        files = Files(tuple(names), bar.advance)
        yield [files if part is inputs else part for part in parts]


def _named_files(inputs: Inputs) -> list[str]:
    """Return the files that were named, and those of the folders that were named, in the order given."""
    from faircount.io.files import is_address, is_file, is_folder, list_files
    from faircount.readers.inputs import expand_folder, listed, results_in

    files: list[str] = []
    for kind, name in inputs.inputs:
        if kind == "folder":
            files += expand_folder(name)
        elif is_address(name) and glob.has_magic(name):
            files += list_files(name) or [name]
        elif name != STDIN and not is_file(name) and is_folder(name):
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
        pages = answer.pages or ([] if answer.report is None else [(answer.name, answer.report)])
        if pages and output.format == "html":
            show_pages(pages, output.path, answer.inputs, several=answer.several)
        elif answer.report is not None:
            show(answer.report, output.format, output.path, answer.inputs)
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
    comparison = answer.comparison() if callable(answer.comparison) else answer.comparison
    return apply_gates(gates, analyses=answer.analyses, comparison=comparison, inputs=answer.inputs)


# -- where an answer goes ---------------------------------------------------------------------------------------


def show(report: Report, output_format: str, path: str | None, inputs: Iterable[str] = ()) -> None:
    """Show a report in a format on standard output, or write it to `path`; `inputs` are never overwritten."""
    if output_format == "xlsx" and path is not None:
        from faircount.report import xlsx

        refuse_inputs(path, inputs)
        xlsx.write_report(path, report)
        return
    if output_format == "json":
        from faircount.report import documents

        text = documents.as_json(report)
    elif output_format == "markdown":
        from faircount.report import markdown

        text = markdown.render(report)
    else:
        from faircount.report import console

        terminal = path is None and sys.stdout.isatty()
        colour = path is None and colours(sys.stdout)
        text = console.render(report, width=console.terminal_width(terminal), colour=colour)
    if path is None:
        sys.stdout.write(text)
        return
    refuse_inputs(path, inputs)
    _write(path, text)


def show_pages(
    pages: Sequence[tuple[str, Report]], path: str | None, inputs: Sequence[str] = (), *, several: bool = False
) -> None:
    """Write each report as an HTML page and print where it is. A page is known by its input, or by a name.

    Without `path` a page goes beside its input. `path` is the file to write or, with `several` pages, a folder. A
    file that the user did not name is replaced only if Faircount wrote it, else the page gets a number.
    """
    from faircount.report import html

    named = path is not None and not several and not Path(path).is_dir()
    if path is not None and named:
        targets = [path]
    else:
        places = _unique([_page_path(name, path) for name, _ in pages])
        targets = [
            beside_others(place, lambda name: not os.path.lexists(name) or is_our_page(name), note) for place in places
        ]
    for target in targets:
        refuse_inputs(target, inputs)
    if path is not None and several:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise UsageError(f"{path}: is a file; several pages need a folder") from error
        except OSError as error:
            raise UsageError(f"{path}: cannot be created: {error.strerror or error}") from error
    for target, (_, report) in zip(targets, pages, strict=True):
        _write(target, html.render(report))
        sys.stdout.write(inert_lines(f"{visible(target)}\n"))


def _page_path(name: str, folder: str | None) -> str:
    """Return where the page of an input goes: into the folder if there is one, else beside the input."""
    source = Path("stdin") if name == STDIN else place_of(name)
    return str((source.parent if folder is None else Path(folder)) / f"{stem_of(source.name)}{PAGE_SUFFIX}")


def _unique(paths: Sequence[str]) -> list[str]:
    """Number the paths that stand more than once, also where only the case of their letters differs."""
    taken: dict[str, str] = {}
    for path in paths:
        unique, number = path, 1
        while os.path.realpath(unique).casefold() in taken:
            number += 1
            unique = f"{path.removesuffix(PAGE_SUFFIX)}_{number}{PAGE_SUFFIX}"
        taken[os.path.realpath(unique).casefold()] = unique
    return list(taken.values())


def _write(path: str, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


# -- gates ------------------------------------------------------------------------------------------------------

EXIT_GATE_FAILED = 1
_WIDTH = 200
_COUNTED_ALIKE = ("level", "cluster", "guardrail_success", "policy_blocks", "max_line", "cache")
"""The options by which an analysis and a comparison with its baseline count entries."""


def refuse_gates(gates: Gates, parts: Sequence[Options]) -> None:
    """Raise UsageError for gates that can be refused before any work is done."""
    parsed = read_gates(gates)
    if parsed:
        from faircount.analysis.gates.expression import ASR_CORRECTED, REGRESSION
        from faircount.analysis.gates.judge import NEEDS_BASELINE, NEEDS_QUALITY

        lacks_baseline = isinstance(gates, BaselineGates) and gates.baseline is None
        lacks_quality = all(getattr(part, "judge_quality", None) is None for part in parts)
        for gate in parsed:
            if gate.figure == REGRESSION and lacks_baseline:
                raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_BASELINE}")
            if gate.figure == ASR_CORRECTED and lacks_quality:
                raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_QUALITY}")
    outputs = [part.path for part in parts if isinstance(part, Output)]
    refuse_same_file("--junit, --sarif and -o", gates.junit, gates.sarif, *outputs)


def read_gates(gates: Gates) -> tuple[Gate, ...]:
    """Return the gates that were given."""
    if not gates.fail_on:
        return ()
    from faircount.analysis.gates.expression import parse

    return tuple(parse(text) for text in gates.fail_on)


def fields_of_gates(gates: Gates) -> tuple[str, ...]:
    """Return the facets that gates are about, each once: an analysis must break down by them."""
    return tuple(dict.fromkeys(gate.field for gate in read_gates(gates) if gate.field is not None))


def with_gates(by: Sequence[str], gates: Gates) -> tuple[str, ...]:
    """Return what to break down by: where the user chose fields, also those that gates are about."""
    return (*by, *(fields_of_gates(gates) if by else ()))


def against_baseline(gates: Gates, options: AnalyzeOptions, files: Sequence[str]) -> Comparison | None:
    """Return files compared with the baseline that was given, counted as the analysis is; None where none was."""
    if gates.baseline is None:
        return None
    from faircount.analysis.compare.compare import compare_files
    from faircount.analysis.gates.expression import REGRESSION
    from faircount.analysis.options import CompareOptions

    shared = {name: getattr(options, name) for name in _COUNTED_ALIKE}
    # The baseline must be corrected, too, only if a gate needs it, not for a summary alone.
    if any(gate.figure == REGRESSION for gate in read_gates(gates)):
        shared |= {"judge_quality": options.judge_quality, "correction": options.correction}
    return compare_files(files, CompareOptions(baseline=gates.baseline, flips=0, **shared))


def apply_gates(
    gates: Gates,
    *,
    analyses: Sequence[Analysis] = (),
    comparison: Comparison | None = None,
    inputs: Iterable[str] = (),
) -> int:
    """Judge the gates, say the results on standard error, and write what was asked for.

    Returns 1 if a gate blocks and 0 if none does. `inputs` are never overwritten.
    """
    if not gates.asked:
        return 0
    from faircount.analysis.gates.judge import judge, subjects_of

    subjects = subjects_of(analyses, comparison)
    results = judge(read_gates(gates), subjects, ignore_errors=gates.errors == IGNORE)
    strict = gates.inconclusive == FAIL
    for result in results:
        note(_sentence(result, strict, named=len(subjects) > 1))
    _write_files(gates, results, subjects, strict, tuple(inputs))
    _write_summary(gates, results, subjects, strict)
    return EXIT_GATE_FAILED if any(result.blocks(strict) for result in results) else 0


def _sentence(result: GateResult, strict: bool, *, named: bool) -> str:
    state: str = result.state
    if state == "inconclusive":
        state += ", which counts as a failure" if strict else ", which counts as passed"
    where = f" ({result.subject.name})" if named else ""
    return f"gate {clip(visible(result.gate.text), _WIDTH)}{visible(where)}: {state}: {result.reason}"


def _write_files(
    gates: Gates,
    results: Sequence[GateResult],
    subjects: Sequence[Subject],
    strict: bool,
    inputs: Sequence[str],
) -> None:
    from faircount.io.new_file import whole_file
    from faircount.report import documents

    for path, render in ((gates.junit, documents.junit), (gates.sarif, documents.sarif)):
        if path is None:
            continue
        refuse_inputs(path, inputs)
        with whole_file(path) as file:
            file.write(render(results, subjects, inconclusive_fails=strict).encode("utf-8", "backslashreplace"))


def _write_summary(gates: Gates, results: Sequence[GateResult], subjects: Sequence[Subject], strict: bool) -> None:
    """Add to the summary of the job, if there is one. That it cannot be written is said, and is no failure."""
    if not (results or gates.job_summary):
        return
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        if gates.job_summary:
            note(f"--job-summary: ${SUMMARY_VARIABLE} is not set, so no summary was written")
        return
    from faircount.analysis.gates.judge import summary
    from faircount.report import markdown

    text = markdown.render(summary(results, subjects, inconclusive_fails=strict))
    try:
        with open(path, "ab") as file:  # noqa: PTH123
            file.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        note(f"{path}: the job summary could not be written: {why}")
