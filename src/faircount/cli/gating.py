"""Gates on the command line: `--fail-on` and what goes with it. Only the argument parser is imported before they run.

A command adds the options with `add_gates`, checks them with `read_gates` before it does any work, and ends with
`apply_gates`, which says what became of each gate, writes what was asked for and returns the exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from faircount.errors import UsageError
from faircount.text import clip, visible

if TYPE_CHECKING:
    from faircount.analysis.comparing.found import Comparison
    from faircount.analysis.gates.expression import Gate
    from faircount.analysis.gates.judging import GateResult
    from faircount.analysis.gates.subjects import Subject
    from faircount.model import Analysis

EXIT_GATE_FAILED = 1
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
INCONCLUSIVE = ("fail", "pass")
ERRORS = ("bounds", "ignore")
_WIDTH = 200
_COUNTED_ALIKE = ("level", "cluster", "guardrail_success", "policy_blocks", "max_line", "cache")
"""The options by which an analysis and a comparison with its baseline count entries."""


def add_gates(parser: argparse.ArgumentParser, *, baseline: bool = False) -> None:
    """Add the options of gates; with `baseline`, also the file that a regression is measured against."""
    group = parser.add_argument_group("gates")
    group.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="GATE",
        help="exit with 1 if this condition holds: 'asr.high > 0.05', 'errors > 10%%', 'pass_rate < 0.9', "
        "'jailbreak_type=dan: asr > 0.2', 'regression > 0.02' against a baseline (repeatable)",
    )
    if baseline:
        group.add_argument("--baseline", metavar="FILE", help="results to compare with, for 'regression > MARGIN'")
    group.add_argument(
        "--inconclusive",
        choices=INCONCLUSIVE,
        default=INCONCLUSIVE[0],
        help="result of a gate that too few entries leave inconclusive (default: fail)",
    )
    group.add_argument(
        "--errors",
        choices=ERRORS,
        default=ERRORS[0],
        help="what gates and --stop-when take errors and unjudged entries for: bounds decides only what holds whether "
        "they all succeeded or none did, ignore takes the rates as they are shown (default: bounds)",
    )
    group.add_argument("--junit", metavar="FILE", help="write the gates as JUnit XML, a test case each")
    group.add_argument("--sarif", metavar="FILE", help="write gates that failed, and groups that stand out, as SARIF")
    group.add_argument(
        "--job-summary",
        action="store_true",
        help=f"append a summary to the file named in ${SUMMARY_VARIABLE}, even without gates",
    )


def read_gates(arguments: argparse.Namespace, *, compared: bool | None = None) -> tuple[Gate, ...]:
    """Return the gates that were given; raise UsageError for what can be refused before any work is done.

    `compared` says whether there will be something to compare with; None leaves that to `apply_gates`.
    """
    known = getattr(arguments, "judge_quality", None) is not None
    gates = _parsed(arguments.fail_on, compared, known) if arguments.fail_on else ()
    places = [path for path in (arguments.junit, arguments.sarif, getattr(arguments, "output", None)) if path]
    if len({os.path.realpath(path) for path in places}) < len(places):
        raise UsageError("--junit, --sarif and -o must be different files")
    return gates


def _parsed(texts: Sequence[str], compared: bool | None, known: bool) -> tuple[Gate, ...]:
    from faircount.analysis.gates.expression import ASR_CORRECTED, REGRESSION, parse
    from faircount.analysis.gates.judging import NEEDS_BASELINE
    from faircount.analysis.gates.subjects import NEEDS_QUALITY

    gates = tuple(parse(text) for text in texts)
    for gate in gates:
        if gate.figure == REGRESSION and compared is False:
            raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_BASELINE}")
        if gate.figure == ASR_CORRECTED and not known:
            raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_QUALITY}")
    return gates


def gates_are_asked(arguments: argparse.Namespace) -> bool:
    """Return whether there is anything to judge, or to write about it."""
    return bool(arguments.fail_on or arguments.junit or arguments.sarif or arguments.job_summary)


def fields_of_gates(gates: Iterable[Gate]) -> tuple[str, ...]:
    """Return the facets that gates are about, each once: an analysis must break down by them."""
    return tuple(dict.fromkeys(gate.field for gate in gates if gate.field is not None))


def with_gates(by: Sequence[str], gates: Iterable[Gate]) -> tuple[str, ...]:
    """Return what to break down by: where the user chose fields, also those that gates are about."""
    return (*by, *(fields_of_gates(gates) if by else ()))


def against_baseline(arguments: argparse.Namespace, files: Sequence[str]) -> Comparison | None:
    """Return files compared with the baseline that was given; None where none was."""
    if arguments.baseline is None:
        return None
    from msgspec.structs import replace

    from faircount.analysis.comparing.compare import compare_files
    from faircount.analysis.comparing.options import CompareOptions

    # What a command has no option for is counted by the default; what it has one for, as the analysis is.
    asked = {name: getattr(arguments, name) for name in _COUNTED_ALIKE if hasattr(arguments, name)}
    options = CompareOptions(baseline=arguments.baseline, flips=0, **asked)
    if getattr(arguments, "judge_quality", None) is not None and _has_regression(arguments):
        options = replace(options, judge_quality=arguments.judge_quality, correction=arguments.correction)
    return compare_files(files, options)


def _has_regression(arguments: argparse.Namespace) -> bool:
    """Return whether the baseline is for a gate, not only for a summary: only then must it be corrected, too."""
    from faircount.analysis.gates.expression import REGRESSION

    return any(gate.figure == REGRESSION for gate in read_gates(arguments))


def apply_gates(
    arguments: argparse.Namespace,
    *,
    analyses: Sequence[Analysis] = (),
    comparison: Comparison | None = None,
    inputs: Iterable[str] = (),
) -> int:
    """Judge the gates, say the results on standard error, write what was asked for.

    Returns 1 if a gate blocks and 0 if none does. `inputs` are never overwritten.
    """
    gates = read_gates(arguments)
    if not gates_are_asked(arguments):
        return 0
    from faircount.analysis.gates.judging import judge, subjects_of

    subjects = subjects_of(analyses, comparison)
    results = judge(gates, subjects, ignore_errors=arguments.errors == "ignore")
    strict = arguments.inconclusive == INCONCLUSIVE[0]
    for result in results:
        _say(_sentence(result, strict, named=len(subjects) > 1))
    _write_files(arguments, results, subjects, strict, tuple(inputs))
    _write_summary(arguments, results, subjects, strict)
    return EXIT_GATE_FAILED if any(result.blocks(strict) for result in results) else 0


def _sentence(result: GateResult, strict: bool, *, named: bool) -> str:
    state: str = result.state
    if state == "inconclusive":
        state += ", which counts as a failure" if strict else ", which counts as passed"
    where = f" ({result.subject.name})" if named else ""
    return f"gate {clip(visible(result.gate.text), _WIDTH)}{visible(where)}: {state}: {result.reason}"


def _write_files(
    arguments: argparse.Namespace,
    results: Sequence[GateResult],
    subjects: Sequence[Subject],
    strict: bool,
    inputs: Sequence[str],
) -> None:
    from faircount.cli.output import refuse_inputs
    from faircount.present import junit, sarif
    from faircount.present.new_file import whole_file

    for path, render in ((arguments.junit, junit.render), (arguments.sarif, sarif.render)):
        if path is None:
            continue
        refuse_inputs(path, inputs)
        with whole_file(path) as file:
            file.write(render(results, subjects, inconclusive_fails=strict).encode("utf-8", "backslashreplace"))


def _write_summary(
    arguments: argparse.Namespace, results: Sequence[GateResult], subjects: Sequence[Subject], strict: bool
) -> None:
    """Add to the summary of the job, if there is one. That it cannot be written is said, and is no failure."""
    if not (results or arguments.job_summary):
        return
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        if arguments.job_summary:
            _say(f"--job-summary: ${SUMMARY_VARIABLE} is not set, so no summary was written")
        return
    from faircount.analysis.gates.report import summary
    from faircount.present import markdown

    text = markdown.render(summary(results, subjects, inconclusive_fails=strict))
    try:
        with open(path, "ab") as file:  # noqa: PTH123
            file.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        _say(f"{path}: the job summary could not be written: {why}")


def _say(sentence: str) -> None:
    print(f"faircount: {visible(sentence)}", file=sys.stderr)  # noqa: T201
