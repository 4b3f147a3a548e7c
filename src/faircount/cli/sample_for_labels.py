"""The command `results sample-for-labels`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from faircount.analysis.correction.given import DESIGN_SUFFIX
from faircount.analysis.sampling_for_labels import (
    Sample,
    SampleOptions,
    as_report,
    columns_of,
    design,
    sheet_rows,
)
from faircount.analysis.sampling_for_labels import sample_for_labels as draw
from faircount.cli.output import refuse_inputs, show
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import UsageError
from faircount.present.new_file import NewFile

_SUFFIXES = (".jsonl", ".xlsx")


def sample_for_labels(arguments: argparse.Namespace) -> int:
    """Run `results sample-for-labels`."""
    options = SampleOptions(
        n=arguments.n,
        by=arguments.by,
        seed=arguments.seed,
        max_line=arguments.max_line,
        guardrail_success=arguments.guardrail_success,
        cache=arguments.cache,
    )
    path, beside = arguments.output, arguments.output + DESIGN_SUFFIX
    _refuse(path, beside, force=arguments.force)
    files = named_files(arguments)
    with ReadingBar(files) as bar:
        sample = draw(files, options, bar.advance)
    for target in (path, beside):
        refuse_inputs(target, [name for name, _ in sample.files])
    _write_sheet(path, sample, force=arguments.force)
    with NewFile(beside, force=arguments.force) as file:
        file.write(json.dumps(design(sample), indent=2).encode() + b"\n")
    show(as_report(sample, path, beside), arguments.output_format, None)
    return 0


def _refuse(path: str, beside: str, *, force: bool) -> None:
    """Raise for what can be known before anything is read: hours of labelling are not to be replaced by a slip."""
    if Path(path).suffix.casefold() not in _SUFFIXES:
        raise UsageError(f"-o {path}: a label sheet must be .jsonl or .xlsx")
    for name in (path, beside):
        if os.path.lexists(name) and not force:
            raise UsageError(f"{name}: already exists; overwrite it with --force, or name another file with -o")


def _write_sheet(path: str, sample: Sample, *, force: bool) -> None:
    columns = columns_of(sample)
    if Path(path).suffix.casefold() == ".xlsx":
        from faircount.present.xlsx import write_workbook

        write_workbook(path, sheet_rows(sample), columns)
        return
    with NewFile(path, force=force) as file:
        for row in sheet_rows(sample):
            # Pure ASCII: lone surrogates and line separators come back as they were.
            file.write(json.dumps(dict(zip(columns, row, strict=True))).encode() + b"\n")
