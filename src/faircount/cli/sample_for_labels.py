"""The command `results sample-for-labels`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from faircount.analysis.correction.given import DESIGN_SUFFIX
from faircount.analysis.options import SampleOptions
from faircount.analysis.sampling_for_labels import Sample, as_report, columns_of, design, sheet_rows
from faircount.analysis.sampling_for_labels import sample_for_labels as draw
from faircount.cli.output import refuse_inputs, show
from faircount.cli.parts import LabelSheet
from faircount.cli.runner import Answer, Files
from faircount.errors import UsageError
from faircount.new_file import NewFile

_SUFFIXES = (".jsonl", ".xlsx")


def sample_for_labels(files: Files, options: SampleOptions, sheet: LabelSheet) -> Answer:
    """Run `results sample-for-labels`."""
    path, beside = sheet.output, sheet.output + DESIGN_SUFFIX
    _refuse(path, beside, force=sheet.force)
    sample = draw(files.names, options, files.progress)
    for target in (path, beside):
        refuse_inputs(target, [name for name, _ in sample.files])
    _write_sheet(path, sample, force=sheet.force)
    with NewFile(beside, force=sheet.force) as file:
        file.write(json.dumps(design(sample), indent=2).encode() + b"\n")
    show(as_report(sample, path, beside), sheet.output_format, None)
    return Answer()


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
