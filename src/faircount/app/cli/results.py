"""The commands about results, and about the cache of parsed files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from faircount.analysis.options import (
    AnalyzeOptions,
    CheckOptions,
    CompareOptions,
    DatasetComparisonOptions,
    ExcelOptions,
    ExportOptions,
    ExtractOptions,
    OperatingOptions,
    PowerOptions,
    RejudgeOptions,
    SampleOptions,
    ShowOptions,
)
from faircount.app import results
from faircount.app.cli.options import (
    BaselineGates,
    DatasetName,
    Details,
    EntryId,
    FindingCodes,
    Gates,
    Output,
    PageOutput,
    PrintedReport,
    ReportOutput,
)
from faircount.app.cli.runner import EXIT_INCOMPLETE, STDIN, CommandResult, Files, against_baseline, with_gates
from faircount.app.cli.terminal import note
from faircount.app.options import (
    ComparedFile,
    EngineOptions,
    ExportedFile,
    ExtractedFile,
    LabelSheet,
    Models,
    RejudgeFiles,
    Workbook,
)
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.text import inert_lines, visible
from faircount.io.files import is_address, is_file, size_of

if TYPE_CHECKING:
    from faircount.cluster.spark import SparkEngine
    from faircount.core.model import Analysis
    from faircount.readers.cache import Cache
    from faircount.report.blocks import Report

EVIDENCE_IN_A_PAGE = 5
FILES_AT_LENGTH = 3
"""Of more files the console shows a table; --details shows each at length."""
SMALL_BYTES = 8 * 1024**2
EXIT_SERIOUS = 1


def _start_engine_beside(*files: str) -> None:
    """Start the engine while modules are imported, where files are small: workers for large ones must start before."""
    from faircount.ledger import engine

    if not any(map(is_address, files)) and all(map(is_file, files)) and sum(map(size_of, files)) < SMALL_BYTES:
        engine.prepare_small()


def analyze(
    files: Files,
    options: AnalyzeOptions,
    shown: Details,
    output: PageOutput,
    gates: BaselineGates,
    who: EngineOptions,
) -> CommandResult:
    """Run `results analyze`."""
    _start_engine_beside(*files.names, *filter(None, [options.false_positive_checks]))
    from faircount.analysis.evidence import made_with
    from faircount.analysis.report import as_report
    from faircount.readers.inputs import expand

    if output.interactive:
        _refuse_interactive(files, options, output, who)
    # Pages and documents show every file at length, the console where there are few.
    at_length = output.format in ("html", "json", "xlsx") or len(expand(files.names)) <= FILES_AT_LENGTH
    details = shown.details or options.combine or at_length
    options = replace(
        options,
        by=with_gates(options.by, gates),
        evidence=_evidence(options, output),
        details=details or gates.asked,
        figures=output.format != "console",
    )
    with _engine(who, gates) as engine:
        found = results.analyze(*files.names, options=options, progress=files.progress, engine=engine)
    arranged = partial(
        as_report,
        evidence=found.evidence,
        figures=output.figures,
        made_with=made_with(output.command, found.analyses) if output.figures else None,
        overview=options.overview,
    )
    answer = CommandResult(
        inputs=found.files,
        notes=found.failures,
        damaged=found.damaged,
        code=InputError.exit_code if found.failures else 0,
        analyses=found.analyses,
        comparison=partial(against_baseline, gates, options, found.files),
    )
    if not found.analyses:
        return answer
    if output.format != "html":
        return replace(answer, report=arranged(found.analyses, details=details))
    if len(found.analyses) > 1 and Path(output.path or "").suffix == ".html":
        page = _with_entries(arranged(found.analyses), found.analyses, options, output)
        return replace(answer, pages=[(str(output.path), page)])
    return replace(
        answer,
        pages=[(one.name, _with_entries(arranged([one]), [one], options, output)) for one in found.analyses],
        several=not options.combine and len(found.analyses) + len(found.failures) > 1,
    )


def _refuse_interactive(files: Files, options: AnalyzeOptions, output: PageOutput, who: EngineOptions) -> None:
    """Raise where the entries behind a row cannot be listed after the analysis."""
    if output.format != "html":
        raise UsageError("--interactive needs --output-format html")
    given = {"--where": options.where, "--judge": options.judge, "--engine spark": who.engine != "local"}
    for name in (name for name, value in given.items() if value):
        raise UsageError(f"--interactive does not work with {name}")
    if STDIN in files.names:
        raise UsageError("--interactive reads the files twice, and standard input can be read only once")


def _with_entries(report: Report, analyses: Sequence[Analysis], options: AnalyzeOptions, output: PageOutput) -> Report:
    """Return the report of a page with the entries behind its rows, if they are asked for."""
    if not output.interactive:
        return report
    from faircount.analysis.browse import entry_table
    from faircount.analysis.result_set import ResultSet

    tables = []
    for one in analyses:
        with ResultSet([source.path for source in one.sources], options) as found:
            tables.append(entry_table(found, one))
    return replace(report, entries=tuple(tables))


@contextlib.contextmanager
def _engine(who: EngineOptions, gates: BaselineGates) -> Iterator[SparkEngine | None]:
    """Give the cluster that is asked for, if any."""
    if who.engine == "local":
        yield None
        return
    if gates.baseline is not None:
        raise UsageError("--baseline does not work with --engine spark yet; leave --engine out")
    from faircount.cluster.spark import spark_engine

    with spark_engine(who.master, who.settings) as engine:
        yield engine


def _evidence(options: AnalyzeOptions, output: Output) -> tuple[tuple[str, int], ...]:
    """Return which entries to show with their texts: as asked for, and in a page the bad news."""
    if not options.evidence:
        wanted = output.format == "html" and not options.overview
        return (("", EVIDENCE_IN_A_PAGE),) if wanted else ()
    if output.format == "json":
        raise UsageError("--evidence does not work with json; choose console, markdown or html")
    return options.evidence


def explain(asked: FindingCodes, _: Output) -> CommandResult:
    """Run `explain`."""
    from faircount.analysis.explain import as_report
    from faircount.analysis.explain import explain as call

    return CommandResult(report=as_report(call(asked.codes), listed=not asked.codes), name="findings")


def compare(files: Files, options: CompareOptions, output: Output, gates: Gates) -> CommandResult:
    """Run `results compare`."""
    from faircount.analysis.compare.report import as_report

    options = replace(options, by=with_gates(options.by, gates))
    found = results.compare(*files.names, options=options, progress=files.progress)
    return CommandResult(
        report=as_report(found, figures=output.figures),
        name="comparison",
        inputs=found.paths,
        damaged=found.damaged,
        comparison=found,
    )


def operating_point(files: Files, options: OperatingOptions, output: Output) -> CommandResult:
    """Run `results operating-point`."""
    from faircount.analysis.operating.report import operating_report

    found = results.operating_point(*files.names, options=options, progress=files.progress)
    return CommandResult(
        report=operating_report(found, figures=output.figures),
        name="operating-point",
        inputs=found.files,
        damaged=found.damaged,
    )


def check(files: Files, options: CheckOptions, _: Output) -> CommandResult:
    """Run `results check`."""
    from faircount.analysis.check import as_report

    found = results.check(*files.names, options=options, progress=files.progress)
    code = InputError.exit_code if found.unusable else EXIT_SERIOUS if found.serious else 0
    return CommandResult(report=as_report(found), name="check", inputs=found.files, damaged=found.damaged, code=code)


def show(entry: EntryId, files: Files, options: ShowOptions, _: Output) -> CommandResult:
    """Run `results show`."""
    from faircount.analysis.show import as_report

    if _is_file(entry.id) and not any(map(_is_file, files.names)):
        raise UsageError(f"{entry.id}: is a file; put the id first: faircount results show ID FILE")
    found = results.show(entry.id, *files.names, options=options, progress=files.progress)
    return CommandResult(
        report=as_report(found),
        name="entry",
        inputs=found.files,
        notes=found.failures,
        damaged=any(finding.code in ("F001", "F002") for finding in found.findings),
        code=InputError.exit_code if found.failures else 0,
    )


def _is_file(name: str) -> bool:
    with contextlib.suppress(OSError):
        return is_file(name)
    return False


def power(options: PowerOptions, _: Output) -> CommandResult:
    """Run `results power`."""
    from faircount.analysis.power import as_report

    return CommandResult(report=as_report(results.power(options=options)), name="power")


def rejudge(
    files: Files, options: RejudgeOptions, where: RejudgeFiles, models: Models, output: Output
) -> CommandResult:
    """Run `results rejudge`."""
    from faircount.analysis.rejudge.report import as_report
    from faircount.app import rejudge
    from faircount.app.cli.terminal import CountingBar
    from faircount.app.options import refuse_same_file

    refuse_same_file("-o, --rejudged and --store", output.path, where.rejudged, where.store)
    with CountingBar("Judging", "verdicts") as bar:
        found = rejudge.rejudge(*files.names, options=[options, where, models], progress=bar.advance, notice=note)
    return CommandResult(
        report=as_report(found.result, found.flips),
        name="rejudge",
        inputs=found.files,
        notes=found.notes,
        damaged=found.damaged,
        code=0 if found.complete else EXIT_INCOMPLETE,
    )


# -- new files ----------------------------------------------------------------------------------------------------


def extract(files: Files, options: ExtractOptions, place: ExtractedFile) -> CommandResult:
    """Run `results extract`."""
    found = results.extract(*files.names, options=[options, place], progress=files.progress)
    return CommandResult(text=f"{found.sentence}\n", notes=found.notes, damaged=found.damaged)


def export(files: Files, options: ExportOptions, place: ExportedFile) -> CommandResult:
    """Run `results export`."""
    from faircount.app import export

    found = export.export(*files.names, options=[options, place], progress=files.progress, notice=note)
    return CommandResult(notes=[found.sentence, *found.notes], damaged=found.damaged)


def convert_to_excel(files: Files, options: ExcelOptions, place: Workbook) -> CommandResult:
    """Run `results convert-to-excel`."""
    from faircount.app import export

    found = export.convert_to_excel(
        *files.names, command=place.command, options=[options, place], progress=files.progress, notice=note
    )
    return CommandResult(notes=[found.sentence, *found.notes], damaged=found.damaged)


def dataset_comparison(
    files: Files, named: DatasetName, options: DatasetComparisonOptions, place: ComparedFile, output: ReportOutput
) -> CommandResult:
    """Run `results dataset-comparison`."""
    from faircount.analysis.dataset_comparison import as_report, one_dataset
    from faircount.app.options import refuse_inputs
    from faircount.readers.inputs import expand

    dataset = one_dataset(named.dataset)
    if output.report is not None:
        refuse_inputs(output.report, [dataset, *expand(files.names)])
    found = results.dataset_comparison(dataset, *files.names, options=[options, place], progress=files.progress)
    written = str(found.output)
    inputs = [found.dataset.path, *(target.source.path for target in found.targets)]
    return CommandResult(
        report=as_report(found, written, figures=output.figures),
        name=written,
        inputs=inputs if output.format == "html" else [*inputs, written],
        damaged=found.damaged,
    )


def sample_for_labels(files: Files, options: SampleOptions, sheet: LabelSheet, _: PrintedReport) -> CommandResult:
    """Run `results sample-for-labels`."""
    from faircount.analysis.correct.inputs import DESIGN_SUFFIX
    from faircount.analysis.label_sample import as_report

    sample = results.sample_for_labels(*files.names, options=[options, sheet], progress=files.progress)
    return CommandResult(report=as_report(sample, sheet.output, sheet.output + DESIGN_SUFFIX))


# -- the cache of parsed files ----------------------------------------------------------------------------------


def show_cache() -> CommandResult:
    """Run `cache show`."""
    cache = _cache()
    return _answer(cache, f"{_described(*cache.size())} (limit: {_megabytes(cache.limit)})")


def clear_cache() -> CommandResult:
    """Run `cache clear`."""
    cache = _cache()
    entries, size = cache.clear()
    return _answer(cache, f"deleted {_described(entries, size)}" if entries else "nothing to delete")


def _cache() -> Cache:
    from faircount.readers.cache import FOLDER_VARIABLE, Cache, default_folder

    folder = default_folder()
    if folder is None:
        raise UsageError(f"no home folder for the cache; set {FOLDER_VARIABLE}")
    return Cache(folder)


def _described(entries: int, size: int) -> str:
    return f"{counted(entries, 'cached file')}, {_megabytes(size)}" if entries else "empty"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _answer(cache: Cache, text: str) -> CommandResult:
    return CommandResult(text=inert_lines(visible(f"{cache.folder}: {text}") + "\n"))
