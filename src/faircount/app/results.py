"""Calls about results: analyze, compare, check, show, power, gate; new datasets made of results, sheets to label.

A new dataset without a name gets one that is always new. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.options import (
    AnalyzeOptions,
    CheckOptions,
    CompareOptions,
    DatasetComparisonOptions,
    ExtractOptions,
    OperatingOptions,
    PowerOptions,
    SampleOptions,
    ShowOptions,
)
from faircount.app.options import (
    AnyPath,
    ComparedFile,
    ExtractedFile,
    LabelSheet,
    NewFileOptions,
    ignore,
    refuse_inputs,
    stem_of,
)
from faircount.core.errors import UsageError
from faircount.core.options import Options, options_from
from faircount.io.new_file import SUFFIX, NewFile

if TYPE_CHECKING:
    from faircount.analysis.analyze import AnalysisSet
    from faircount.analysis.check import Checks
    from faircount.analysis.compare.model import Comparison
    from faircount.analysis.dataset_comparison import DatasetComparison
    from faircount.analysis.gates.judge import GateResult
    from faircount.analysis.label_sample import Sample
    from faircount.analysis.operating.points import OperatingPoints
    from faircount.analysis.power import Power
    from faircount.analysis.show import FoundEntries
    from faircount.core.model import Analysis
    from faircount.readers.loading import Progress

RESULTS_FOLDER, DATASETS_FOLDER = "results", "datasets"
_TAG = re.compile(r"[A-Za-z0-9_-]{1,50}")
_REPORT_SUFFIXES = (".html", ".htm", ".md", ".json", ".txt")
_LONGEST_PART, _LONGEST_NAME, _DIGEST = 64, 160, 12
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9_.]+")
_SHEETS = (".jsonl", ".xlsx")


def analyze(
    *paths: AnyPath,
    options: AnalyzeOptions | None = None,
    progress: Progress = ignore,
    engine: Any = None,
    **keywords: Any,
) -> AnalysisSet:
    """Analyse result files: one analysis each in the order given, or one over all with `combine`.

    Options are the fields of `AnalyzeOptions`. `progress` is called with the number of further bytes read. `engine` is
    a Spark session whose cluster does the work; without it, this machine does.
    """
    from faircount.analysis.analyze import analyze_files

    (asked,) = options_from(keywords, AnalyzeOptions, given=options)
    if engine is not None:
        from faircount.cluster.spark import SparkEngine

        engine = engine if isinstance(engine, SparkEngine) else SparkEngine(engine)
    return analyze_files([os.fspath(path) for path in paths], asked, progress, engine)


def compare(
    *paths: AnyPath, options: CompareOptions | None = None, progress: Progress = ignore, **keywords: Any
) -> Comparison:
    """Compare result files on the entries that they share; options are the fields of `CompareOptions`."""
    from faircount.analysis.compare.compare import compare_files

    (asked,) = options_from(keywords, CompareOptions, given=options)
    return compare_files([os.fspath(path) for path in paths], asked, progress)


def operating_point(
    *paths: AnyPath, options: OperatingOptions | None = None, progress: Progress = ignore, **keywords: Any
) -> OperatingPoints:
    """Choose the threshold of a guardrail that gives scores; options are the fields of `OperatingOptions`.

    `false_positive_checks` names a file with harmless prompts for each file with attacks, in the same order.
    """
    from faircount.analysis.operating.points import operating_points

    (asked,) = options_from(keywords, OperatingOptions, given=options)
    return operating_points([os.fspath(path) for path in paths], asked, progress)


def check(*paths: AnyPath, options: CheckOptions | None = None, progress: Progress = ignore, **keywords: Any) -> Checks:
    """List problems with result files, without rates; options are the fields of `CheckOptions`."""
    from faircount.analysis.check import check_files

    (asked,) = options_from(keywords, CheckOptions, given=options)
    return check_files([os.fspath(path) for path in paths], asked, progress)


def show(
    entry: str | int,
    *paths: AnyPath,
    options: ShowOptions | None = None,
    progress: Progress = ignore,
    **keywords: Any,
) -> FoundEntries:
    """Return everything recorded about the entries with an id; options are the fields of `ShowOptions`."""
    from faircount.analysis.show import find_entries

    (asked,) = options_from(keywords, ShowOptions, given=options)
    return find_entries(str(entry), [os.fspath(path) for path in paths], asked, progress)


def power(*, options: PowerOptions | None = None, **keywords: Any) -> Power:
    """Return how many entries a question needs, or what they can show; options are the fields of `PowerOptions`."""
    from faircount.analysis.power import ask

    (asked,) = options_from(keywords, PowerOptions, given=options)
    return ask(asked)


def gate(
    conditions: str | Iterable[str],
    *,
    analyses: Sequence[Analysis] = (),
    comparison: Comparison | None = None,
    ignore_errors: bool = False,
) -> tuple[GateResult, ...]:
    """Evaluate conditions such as 'asr > 5%' on analyses and a comparison; a condition that holds is a failed gate.

    Unless errors and unjudged entries are ignored, a gate is decided only if both extremes (all, none succeeded) agree.
    """
    from faircount.analysis.gates.expression import parse
    from faircount.analysis.gates.judge import judge, subjects_of

    gates = [parse(text) for text in ([conditions] if isinstance(conditions, str) else conditions)]
    return judge(gates, subjects_of(analyses, comparison), ignore_errors=ignore_errors)


# -- new datasets -------------------------------------------------------------------------------------------------


class WrittenRows(Struct, frozen=True):
    """A file with rows or entries of results: how many matched and were written, and what could not be read or written.

    `sentence` sums it up; `damaged` tells whether lines could not be read.
    """

    path: str
    matched: int
    total: int
    written: int
    sentence: str
    notes: tuple[str, ...] = ()
    damaged: bool = False


def extract(
    *paths: AnyPath, options: Sequence[Options] = (), progress: Progress = ignore, **keywords: Any
) -> WrittenRows:
    """Write selected rows to a new dataset, by default in `results/`.

    Options are the fields of `ExtractOptions` and `ExtractedFile`: `extract(file, category="error", output="e.jsonl")`.
    """
    from faircount.analysis.extract import Extraction

    asked, place = options_from(keywords, ExtractOptions, ExtractedFile, given=options)
    path = _named(place, standard_output="the number of rows")
    if path is None:
        parts = ["extract", asked.label, *([] if place.tag is None else [place.tag]), str(int(time.time()))]
        path = str(Path(RESULTS_FOLDER) / ("_".join(parts) + SUFFIX))
    with Extraction([os.fspath(name) for name in paths], asked, progress) as found:
        refuse_inputs(path, found.paths)
        with NewFile(path, force=place.force, may_number=place.output is None) as file:
            for pieces in found.lines():
                file.write_all(pieces)
    return WrittenRows(
        path=file.path,
        matched=found.matched,
        total=found.total,
        written=found.written,
        sentence=found.sentence(file.path),
        notes=tuple(found.problems()),
        damaged=found.damaged,
    )


def dataset_comparison(
    dataset: AnyPath,
    *paths: AnyPath,
    options: Sequence[Options] = (),
    progress: Progress = ignore,
    **keywords: Any,
) -> DatasetComparison:
    """Compare a dataset's entries over targets, one result file each, and write those with a high or a low rate.

    Options are the fields of `DatasetComparisonOptions` and `ComparedFile`. The new dataset goes to `datasets/` unless
    `output` names it.
    """
    from faircount.analysis.dataset_comparison import compare_dataset, one_dataset

    asked, place = options_from(keywords, DatasetComparisonOptions, ComparedFile, given=options)
    source = one_dataset([os.fspath(dataset)])
    new_file = NewFile(_comparison_path(source, place), force=place.force, may_number=place.output is None)
    found = compare_dataset(source, [os.fspath(path) for path in paths], asked, progress)
    refuse_inputs(new_file.path, found.files)
    with new_file as file:
        for line in found.rows():
            file.write(line)
    return replace(found.result, output=file.path)


def _comparison_path(dataset: str, place: ComparedFile) -> str:
    """Return where the new dataset goes: where the user says, else to a new name in the folder of datasets."""
    path = _named(place, standard_output="the report")
    if path is not None:
        if path.lower().endswith(_REPORT_SUFFIXES):
            raise UsageError(f"-o {path}: -o names the new dataset, a JSONL file; name the report with --report")
        return path
    # Numbers and marks that generators of datasets begin names with are not repeated.
    stem = re.sub(r"^[0-9]+-", "", stem_of(dataset)).removeprefix("seeds-")
    parts = ["comparison", stem, *([] if place.tag is None else [place.tag])]
    name = _compact("_".join(_compact(part, _LONGEST_PART) for part in parts), _LONGEST_NAME)
    return str(Path(DATASETS_FOLDER) / f"{name}_{int(time.time())}{SUFFIX}")


def _named(place: NewFileOptions, *, standard_output: str) -> str | None:
    """Return the file that the user names, or None where Faircount chooses a name, in which the tag may be.

    `standard_output` says what is printed there.
    """
    if place.output is not None:
        if place.tag is not None:
            raise UsageError("--tag is part of the default file name and does not work with -o")
        if place.output == "-":
            raise UsageError(f"-o -: the new dataset needs a file; standard output is for {standard_output}")
        return place.output
    if place.force:
        raise UsageError("--force needs -o; the default file name is always new")
    if place.tag is not None and not _TAG.fullmatch(place.tag):
        raise UsageError(f"--tag {place.tag}: use 1 to 50 letters, digits, - and _")
    return None


def _compact(text: str, longest: int) -> str:
    """Return a text that is safe and short enough for a name; where that loses anything, a digest distinguishes it."""
    plain = "-".join(word for word in _BETWEEN_WORDS.split(text) if word).strip("-._")
    if plain == text and len(text) <= longest:
        return text
    import hashlib

    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    start = plain[: longest - _DIGEST - 1].rstrip("-._")
    return f"{start}-{digest}" if start else digest


# -- sheets to label ----------------------------------------------------------------------------------------------


def sample_for_labels(
    *paths: AnyPath, options: Sequence[Options] = (), progress: Progress = ignore, **keywords: Any
) -> Sample:
    """Draw entries into a sheet for people to label; options are the fields of `SampleOptions` and `LabelSheet`."""
    from faircount.analysis.correct.inputs import DESIGN_SUFFIX
    from faircount.analysis.label_sample import design
    from faircount.analysis.label_sample import sample_for_labels as draw

    asked, place = options_from(keywords, SampleOptions, LabelSheet, given=options)
    sheet, force = place.output, place.force
    # Known before anything is read: hours of labelling are not to be replaced by a slip.
    if Path(sheet).suffix.casefold() not in _SHEETS:
        raise UsageError(f"-o {sheet}: a label sheet must be .jsonl or .xlsx")
    for name in (sheet, sheet + DESIGN_SUFFIX):
        if os.path.lexists(name) and not force:
            raise UsageError(f"{name}: already exists; overwrite it with --force, or name another file with -o")
    sample = draw([os.fspath(path) for path in paths], asked, progress)
    for target in (sheet, sheet + DESIGN_SUFFIX):
        refuse_inputs(target, [name for name, _ in sample.files])
    _write_sheet(sheet, sample, force=force)
    with NewFile(sheet + DESIGN_SUFFIX, force=force) as file:
        file.write(json.dumps(design(sample), indent=2).encode() + b"\n")
    return sample


def _write_sheet(path: str, sample: Sample, *, force: bool) -> None:
    from faircount.analysis.label_sample import columns_of, sheet_rows

    columns = columns_of(sample)
    if Path(path).suffix.casefold() == ".xlsx":
        from faircount.report.xlsx import write_workbook

        write_workbook(path, sheet_rows(sample), columns)
        return
    with NewFile(path, force=force) as file:
        for row in sheet_rows(sample):
            # Pure ASCII: lone surrogates and line separators come back as they were.
            file.write(json.dumps(dict(zip(columns, row, strict=True))).encode() + b"\n")
