"""The command `results dataset-comparison`."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

from faircount.analysis.dataset_comparison import compare_dataset, one_dataset
from faircount.analysis.dataset_comparison_report import as_report
from faircount.analysis.options import DatasetComparisonOptions
from faircount.cli.new_dataset import named_output
from faircount.cli.output import refuse_inputs
from faircount.cli.parts import ComparedFile, Dataset, ReportOutput
from faircount.cli.runner import Answer, Files
from faircount.errors import UsageError
from faircount.new_file import SUFFIX, NewFile

FOLDER = "datasets"
_REPORT_SUFFIXES = (".html", ".htm", ".md", ".json", ".txt")
_LONGEST_PART, _LONGEST_NAME, _DIGEST = 64, 160, 12
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9_.]+")


def dataset_comparison(
    files: Files, named: Dataset, options: DatasetComparisonOptions, place: ComparedFile, output: ReportOutput
) -> Answer:
    """Run `results dataset-comparison`."""
    dataset = one_dataset(named.dataset)
    new_file = NewFile(_path(place, dataset), force=place.force, may_number=place.output is None)
    comparison = compare_dataset(dataset, files.names, options, files.progress)
    for path in (new_file.path, *([] if output.report is None else [output.report])):
        refuse_inputs(path, comparison.files)
    with new_file as file:
        for line in comparison.rows():
            file.write(line)
    return Answer(
        report=as_report(comparison.result, file.path, figures=output.figures),
        name=file.path,
        inputs=comparison.files if output.format == "html" else (*comparison.files, file.path),
        damaged=comparison.result.damaged,
    )


# -- where the new dataset goes ---------------------------------------------------------------------------------


def _path(place: ComparedFile, dataset: str) -> str:
    """Return where the new dataset goes: where the user says, else to where spikee would write it."""
    path = named_output(place, standard_output="the report")
    if path is not None:
        if path.lower().endswith(_REPORT_SUFFIXES):
            raise UsageError(f"-o {path}: -o names the new dataset, a JSONL file; name the report with --report")
        return path
    parts = ["comparison", _stem(dataset), *([] if place.tag is None else [place.tag])]
    name = _compact("_".join(_compact(part, _LONGEST_PART) for part in parts), _LONGEST_NAME)
    return str(Path(FOLDER) / f"{name}_{int(time.time())}{SUFFIX}")


def _stem(dataset: str) -> str:
    """Return what the name of a new dataset takes over from the old one's, as spikee does."""
    name = Path(dataset).name
    for compressed in (".gz", ".zst"):
        name = name.removesuffix(compressed)
    return re.sub(r"^[0-9]+-", "", name).removesuffix(SUFFIX).removeprefix("seeds-")


def _compact(text: str, longest: int) -> str:
    """Return a text that is safe and short enough for a name; where that loses anything, a digest distinguishes it."""
    plain = "-".join(word for word in _BETWEEN_WORDS.split(text) if word).strip("-._")
    if plain == text and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    start = plain[: longest - _DIGEST - 1].rstrip("-._")
    return f"{start}-{digest}" if start else digest
