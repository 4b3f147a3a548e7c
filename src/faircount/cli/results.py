"""The commands about results that answer with a report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.options import (
    AnalyzeOptions,
    CheckOptions,
    CompareOptions,
    ExtractOptions,
    PowerOptions,
    ShowOptions,
)
from faircount.cli.gating import against_baseline, with_gates
from faircount.cli.new_dataset import named_output
from faircount.cli.parts import BaselineGates, Details, EntryId, ExtractedFile, Gates, Output, PageOutput
from faircount.cli.runner import Answer, Files
from faircount.errors import InputError, UsageError

EVIDENCE_IN_A_PAGE = 5
FILES_AT_LENGTH = 3
"""Of more files the console shows a table; --details shows each at length."""
EXIT_SERIOUS = 1
FOLDER = "results"


def analyze(files: Files, options: AnalyzeOptions, shown: Details, output: PageOutput, gates: BaselineGates) -> Answer:
    """Run `results analyze`."""
    from faircount.analysis import results
    from faircount.analysis.arrange import as_report
    from faircount.analysis.evidence import made_with

    details = _shows_details(shown.details or options.combine, output, files.names)
    options = replace(
        options,
        by=with_gates(options.by, gates),
        evidence=_evidence(options, output),
        details=details or gates.asked,
        figures=output.format != "console",
    )
    found = results.analyze(files.names, options, files.progress)
    arranged = partial(
        as_report,
        evidence=found.evidence,
        figures=output.figures,
        made_with=made_with(output.command, found.analyses) if output.figures else None,
        overview=options.overview,
    )
    answer = Answer(
        inputs=found.files,
        notes=found.failures,
        damaged=found.damaged,
        code=InputError.exit_code if found.failures else 0,
        analyses=found.analyses,
        comparison=against_baseline(gates, options, found.files) if gates.asked and not found.failures else None,
    )
    if not found.analyses:
        return answer
    if output.format != "html":
        return replace(answer, report=arranged(found.analyses, details=details))
    if len(found.analyses) > 1 and Path(output.path or "").suffix == ".html":
        return replace(answer, pages=[(str(output.path), arranged(found.analyses))])
    return replace(
        answer,
        pages=[(one.name, arranged([one])) for one in found.analyses],
        several=not options.combine and len(found.analyses) + len(found.failures) > 1,
    )


def _evidence(options: AnalyzeOptions, output: Output) -> tuple[tuple[str, int], ...]:
    """Return which entries to show with their texts: as asked for, and in a page the bad news."""
    if not options.evidence:
        wanted = output.format == "html" and not options.overview
        return (("", EVIDENCE_IN_A_PAGE),) if wanted else ()
    if output.format == "json":
        raise UsageError("--evidence does not work with json; choose console, markdown or html")
    return options.evidence


def _shows_details(asked: bool, output: Output, files: Sequence[str]) -> bool:
    """Return whether every file is shown at length: in pages and documents, and elsewhere where there are few."""
    from faircount.reading.inputs import expand

    return asked or output.format in ("html", "json", "xlsx") or len(expand(files)) <= FILES_AT_LENGTH


def compare(files: Files, options: CompareOptions, output: Output, gates: Gates) -> Answer:
    """Run `results compare`."""
    from faircount.analysis.comparing.compare import compare_files
    from faircount.analysis.comparing.report import as_report

    options = replace(options, by=with_gates(options.by, gates))
    found = compare_files(files.names, options, files.progress)
    return Answer(
        report=as_report(found, figures=output.figures),
        name="comparison",
        inputs=found.paths,
        damaged=found.damaged,
        comparison=found,
    )


def check(files: Files, options: CheckOptions, output: Output) -> Answer:
    """Run `results check`."""
    from faircount.analysis.checking import as_report, check_files

    del output
    found = check_files(files.names, options, files.progress)
    code = InputError.exit_code if found.unusable else EXIT_SERIOUS if found.serious else 0
    return Answer(report=as_report(found), name="check", inputs=found.files, damaged=found.damaged, code=code)


def show(entry: EntryId, files: Files, options: ShowOptions, output: Output) -> Answer:
    """Run `results show`."""
    from faircount.analysis.one_entry import find_entries
    from faircount.analysis.one_entry_report import as_report

    del output
    if _is_file(entry.id) and not any(map(_is_file, files.names)):
        raise UsageError(f"{entry.id}: is a file; put the id first: faircount results show ID FILE")
    found = find_entries(entry.id, files.names, options, files.progress)
    return Answer(
        report=as_report(found),
        name="entry",
        inputs=found.files,
        notes=found.failures,
        damaged=any(finding.code in ("F001", "F002") for finding in found.findings),
        code=InputError.exit_code if found.failures else 0,
    )


def _is_file(name: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(name).is_file()
    return False


def power(options: PowerOptions, output: Output) -> Answer:
    """Run `results power`."""
    from faircount.analysis.power import ask
    from faircount.analysis.power_report import as_report

    del output
    return Answer(report=as_report(ask(options)), name="power")


def extract(files: Files, options: ExtractOptions, place: ExtractedFile) -> Answer:
    """Run `results extract`."""
    from faircount.analysis.extracting import Extraction
    from faircount.cli.output import refuse_inputs
    from faircount.new_file import SUFFIX, NewFile

    path = named_output(place, standard_output="the number of rows")
    if path is None:
        parts = ["extract", options.label, *([] if place.tag is None else [place.tag]), str(int(time.time()))]
        path = str(Path(FOLDER) / ("_".join(parts) + SUFFIX))
    with Extraction(files.names, options, files.progress) as found:
        refuse_inputs(path, found.paths)
        with NewFile(path, force=place.force, may_number=place.output is None) as file:
            for pieces in found.lines():
                file.write_all(pieces)
    return Answer(text=f"{found.sentence(file.path)}\n", notes=found.problems(), damaged=found.damaged)
