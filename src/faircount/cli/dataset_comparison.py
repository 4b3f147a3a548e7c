"""The command `results dataset-comparison`."""

from __future__ import annotations

import argparse
import hashlib
import re
import time
from pathlib import Path

from faircount.analysis.dataset_comparison import ComparedDataset, compare_dataset, one_dataset
from faircount.analysis.dataset_comparison_report import as_report
from faircount.analysis.dataset_options import ComparisonOptions
from faircount.cli.messages import note
from faircount.cli.new_dataset import named_output
from faircount.cli.output import WITH_FIGURES, refuse_inputs, show, show_pages
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import InputError, UsageError
from faircount.present.new_file import SUFFIX, NewFile

FOLDER = "datasets"
_REPORT_SUFFIXES = (".html", ".htm", ".md", ".json", ".txt")
_LONGEST_PART, _LONGEST_NAME, _DIGEST = 64, 160, 12
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9_.]+")


def dataset_comparison(arguments: argparse.Namespace) -> int:
    """Run `results dataset-comparison`."""
    options = _options(arguments)
    dataset = one_dataset(arguments.dataset)
    files = named_files(arguments)
    new_file = NewFile(_path(arguments, dataset), force=arguments.force, may_number=arguments.output is None)
    with ReadingBar(files) as bar:
        comparison = compare_dataset(dataset, files, options, bar.advance)
    for path in (new_file.path, *([] if arguments.report is None else [arguments.report])):
        refuse_inputs(path, comparison.files)
    with new_file as file:
        for line in comparison.rows():
            file.write(line)
    _answer(comparison, arguments, file.path)
    if arguments.strict and comparison.result.damaged:
        note("--strict: some input could not be read; see the findings")
        return InputError.exit_code
    return 0


def _options(arguments: argparse.Namespace) -> ComparisonOptions:
    return ComparisonOptions(
        success_threshold=arguments.success_threshold,
        success_definition=arguments.success_definition,
        number=arguments.number,
        skip_validation=arguments.skip_validation,
        definition=arguments.definition,
        guardrail_success=arguments.guardrail_success,
        policy_blocks=arguments.policy_blocks,
        level=arguments.level,
        max_line=arguments.max_line,
        cache=arguments.cache,
    )


# -- where the new dataset goes ---------------------------------------------------------------------------------


def _path(arguments: argparse.Namespace, dataset: str) -> str:
    """Return where the new dataset goes: where the user says, else to where spikee would write it."""
    path = named_output(arguments, standard_output="the report")
    if path is not None:
        if path.lower().endswith(_REPORT_SUFFIXES):
            raise UsageError(f"-o {path}: -o names the new dataset, a JSONL file; name the report with --report")
        return path
    parts = ["comparison", _stem(dataset), *([] if arguments.tag is None else [arguments.tag])]
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


# -- the report -------------------------------------------------------------------------------------------------


def _answer(comparison: ComparedDataset, arguments: argparse.Namespace, written: str) -> None:
    """Show the report in the chosen format; a page goes beside the new dataset unless another place is named."""
    report = as_report(comparison.result, written, figures=arguments.output_format in WITH_FIGURES)
    if arguments.output_format == "html":
        show_pages([(written, report)], arguments.report, comparison.files)
    else:
        show(report, arguments.output_format, arguments.report, (*comparison.files, written))
