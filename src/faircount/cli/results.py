"""The `results` commands."""

from __future__ import annotations

import argparse
import shlex
import sys

from faircount.analysis.arrange import as_report
from faircount.analysis.document import document
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import AnalysisSet
from faircount.analysis.results import analyze as analyze_results
from faircount.cli.gating import against_baseline, apply_gates, gates_are_asked, read_gates, with_gates
from faircount.cli.output import show, show_pages
from faircount.cli.progress import ReadingBar
from faircount.errors import InputError, UsageError
from faircount.reading.inputs import expand_folder
from faircount.text import visible

EVIDENCE_IN_A_PAGE = 5
_WITH_FIGURES = ("html", "markdown")


def named_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files that were named, and those of the folders that were named, in the order given."""
    files: list[str] = []
    for kind, name in arguments.inputs:
        files += expand_folder(name) if kind == "folder" else [name]
    return files


def analyze(arguments: argparse.Namespace) -> int:
    """Run `results analyze`."""
    gates = read_gates(arguments, compared=arguments.baseline is not None)
    options = AnalyzeOptions(
        combine=arguments.combine,
        overview=arguments.overview,
        false_positive_checks=arguments.false_positive_checks,
        guardrail_success=arguments.guardrail_success,
        block_signal=arguments.block_signal,
        by=with_gates(arguments.by, gates),
        sort=arguments.sort,
        min_n=arguments.min_n,
        level=arguments.level,
        definition=arguments.definition,
        cluster=arguments.cluster,
        where=arguments.where,
        max_line=arguments.max_line,
        evidence=_evidence(arguments),
        figures=arguments.output_format in _WITH_FIGURES,
        cache=arguments.cache,
        judge_quality=arguments.judge_quality,
        correction=arguments.correction,
    )
    files = named_files(arguments)
    with ReadingBar(files) as bar:
        result = analyze_results(files, options, bar.advance)
    if result.analyses:
        _answer(result, arguments)
    for sentence in result.failures:
        print(f"faircount: {visible(sentence)}", file=sys.stderr)  # noqa: T201
    if result.failures:
        return InputError.exit_code
    if arguments.strict and result.damaged:
        print("faircount: --strict: some input could not be read; see the findings", file=sys.stderr)  # noqa: T201
        return InputError.exit_code
    if not gates_are_asked(arguments):
        return 0
    comparison = against_baseline(arguments, result.files)
    return apply_gates(arguments, analysis=document(result.analyses), comparison=comparison, inputs=result.files)


def _evidence(arguments: argparse.Namespace) -> int:
    """Return how many successful attempts to show: as many as asked for, and some in a page."""
    if arguments.evidence is None:
        return EVIDENCE_IN_A_PAGE if arguments.output_format == "html" and not arguments.overview else 0
    if arguments.evidence and arguments.output_format == "json":
        raise UsageError("--evidence: the JSON document holds no evidence; choose console, markdown or html")
    return int(arguments.evidence)


def _answer(result: AnalysisSet, arguments: argparse.Namespace) -> None:
    """Show what was found out in the chosen format, where it belongs."""
    if arguments.output_format not in _WITH_FIGURES:
        show(as_report(result.analyses), arguments.output_format, arguments.output, result.files)
        return
    made = made_with(shlex.join(["faircount", *arguments.words]), result.analyses)
    if arguments.output_format == "markdown":
        report = as_report(result.analyses, figures=True, made_with=made)
        show(report, arguments.output_format, arguments.output, result.files)
        return
    pages = [(analysis.name, as_report([analysis], figures=True, made_with=made)) for analysis in result.analyses]
    benign_files = 0 if arguments.false_positive_checks is None else 1
    several = not arguments.combine and len(result.files) - benign_files > 1
    show_pages(pages, arguments.output, result.files, several=several)
