"""The `results` commands."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from faircount.analysis.arrange import as_report
from faircount.analysis.evidence import made_with
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import AnalysisSet
from faircount.analysis.results import analyze as analyze_results
from faircount.cli.gating import against_baseline, apply_gates, gates_are_asked, read_gates, with_gates
from faircount.cli.messages import note
from faircount.cli.output import WITH_FIGURES, show, show_pages
from faircount.cli.progress import ReadingBar
from faircount.errors import InputError, UsageError
from faircount.reading.inputs import expand, expand_folder, listed, results_in
from faircount.reading.streams import STDIN

EVIDENCE_IN_A_PAGE = 5
FILES_AT_LENGTH = 3
"""Of more files the console shows a table; --details shows each at length."""


def named_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files that were named, and those of the folders that were named, in the order given."""
    files: list[str] = []
    for kind, name in arguments.inputs:
        if kind == "folder":
            files += expand_folder(name)
        elif name != STDIN and Path(name).is_dir():
            results, others = results_in(name)
            files += results
            if others:
                sentence = f"{name}: skipped, not result files: {listed(others)}"
                note(sentence)
        else:
            files.append(name)
    return files


def analyze(arguments: argparse.Namespace) -> int:
    """Run `results analyze`."""
    gates = read_gates(arguments, compared=arguments.baseline is not None)
    files = named_files(arguments)
    options = AnalyzeOptions(
        combine=arguments.combine,
        overview=arguments.overview,
        false_positive_checks=arguments.false_positive_checks,
        guardrail_success=arguments.guardrail_success,
        policy_blocks=arguments.policy_blocks,
        block_signal=arguments.block_signal,
        by=with_gates(arguments.by, gates),
        sort=arguments.sort,
        min_n=arguments.min_n,
        level=arguments.level,
        definition=arguments.definition,
        cluster=arguments.cluster,
        generalise=arguments.generalise,
        where=arguments.where,
        max_line=arguments.max_line,
        evidence=_evidence(arguments),
        details=_shows_details(arguments, files) or gates_are_asked(arguments),
        figures=arguments.output_format != "console",
        cache=arguments.cache,
        judge_quality=arguments.judge_quality,
        correction=arguments.correction,
    )
    with ReadingBar(files) as bar:
        result = analyze_results(files, options, bar.advance)
    if result.analyses:
        _answer(result, arguments, details=_shows_details(arguments, files))
    for sentence in result.failures:
        note(sentence)
    if result.failures:
        return InputError.exit_code
    if arguments.strict and result.damaged:
        note("--strict: some input could not be read; see the findings")
        return InputError.exit_code
    if not gates_are_asked(arguments):
        return 0
    comparison = against_baseline(arguments, result.files)
    return apply_gates(arguments, analyses=result.analyses, comparison=comparison, inputs=result.files)


def _evidence(arguments: argparse.Namespace) -> tuple[tuple[str, int], ...]:
    """Return which entries to show with their texts: as asked for, and in a page the bad news."""
    if not arguments.evidence:
        wanted = arguments.output_format == "html" and not arguments.overview
        return (("", EVIDENCE_IN_A_PAGE),) if wanted else ()
    if arguments.output_format == "json":
        raise UsageError("--evidence does not work with json; choose console, markdown or html")
    return tuple(arguments.evidence)


def _shows_details(arguments: argparse.Namespace, files: Sequence[str]) -> bool:
    """Return whether every file is shown at length: in pages and documents, and elsewhere where there are few."""
    if arguments.details or arguments.combine or arguments.output_format in ("html", "json", "xlsx"):
        return True
    return len(expand(files)) <= FILES_AT_LENGTH


def _answer(result: AnalysisSet, arguments: argparse.Namespace, *, details: bool) -> None:
    """Show what was found out in the chosen format, where it belongs."""
    figures = arguments.output_format in WITH_FIGURES
    arranged = partial(
        as_report,
        evidence=result.evidence,
        figures=figures,
        made_with=made_with(shlex.join(["faircount", *arguments.words]), result.analyses) if figures else None,
        overview=arguments.overview,
    )
    if arguments.output_format != "html":
        show(arranged(result.analyses, details=details), arguments.output_format, arguments.output, result.files)
        return
    several = not arguments.combine and len(result.analyses) + len(result.failures) > 1
    if len(result.analyses) > 1 and Path(arguments.output or "").suffix == ".html":
        show_pages([(arguments.output, arranged(result.analyses))], arguments.output, result.files)
        return
    pages = [(analysis.name, arranged([analysis])) for analysis in result.analyses]
    show_pages(pages, arguments.output, result.files, several=several)
