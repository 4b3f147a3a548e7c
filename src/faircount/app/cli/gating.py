"""Gates: refused before any work is done where they make no sense, and applied when a command has its answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from faircount.app.cli.messages import note
from faircount.app.cli.parts import FAIL, IGNORE, SUMMARY_VARIABLE, Gates
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

if TYPE_CHECKING:
    from faircount.analysis.compare.model import Comparison
    from faircount.analysis.gates.expression import Gate
    from faircount.analysis.gates.judge import GateResult, Subject
    from faircount.analysis.options import AnalyzeOptions
    from faircount.core.model import Analysis
    from faircount.core.options import Options

EXIT_GATE_FAILED = 1
_WIDTH = 200
_COUNTED_ALIKE = ("level", "cluster", "guardrail_success", "policy_blocks", "max_line", "cache")
"""The options by which an analysis and a comparison with its baseline count entries."""


def refuse_gates(gates: Gates, parts: Sequence[Options]) -> None:
    """Raise UsageError for gates that can be refused before any work is done."""
    from faircount.app.cli.parts import BaselineGates, Output

    compared = gates.baseline is not None if isinstance(gates, BaselineGates) else None
    known = any(getattr(part, "judge_quality", None) is not None for part in parts)
    _parsed(gates.fail_on, compared, known)
    outputs = [part.path for part in parts if isinstance(part, Output)]
    places = [path for path in (gates.junit, gates.sarif, *outputs) if path]
    if len({os.path.realpath(path) for path in places}) < len(places):
        raise UsageError("--junit, --sarif and -o must be different files")


def read_gates(gates: Gates) -> tuple[Gate, ...]:
    """Return the gates that were given."""
    return _parsed(gates.fail_on, None, True)


def _parsed(texts: Sequence[str], compared: bool | None, known: bool) -> tuple[Gate, ...]:
    if not texts:
        return ()
    from faircount.analysis.gates.expression import ASR_CORRECTED, REGRESSION, parse
    from faircount.analysis.gates.judge import NEEDS_BASELINE, NEEDS_QUALITY

    gates = tuple(parse(text) for text in texts)
    for gate in gates:
        if gate.figure == REGRESSION and compared is False:
            raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_BASELINE}")
        if gate.figure == ASR_CORRECTED and not known:
            raise UsageError(f"--fail-on '{clip(visible(gate.text), _WIDTH)}': {NEEDS_QUALITY}")
    return gates


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
    from faircount.app.output_files import refuse_inputs
    from faircount.io.new_file import whole_file
    from faircount.report.documents import junit, sarif

    for path, render in ((gates.junit, junit), (gates.sarif, sarif)):
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
