"""Options that belong to the command line alone: which files are read, where answers go, and gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from faircount.app.options import output_file
from faircount.core.errors import UsageError
from faircount.core.options import Option, Options

OUTPUT_FORMATS = ("console", "json", "markdown", "html", "xlsx")
WITH_FIGURES = ("html", "markdown", "xlsx")
"""The formats that draw figures."""
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
FAIL, PASS = INCONCLUSIVE = ("fail", "pass")
BOUNDS, IGNORE = ERRORS = ("bounds", "ignore")
_BY_SUFFIX = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".xlsx": "xlsx"}


def _as(kind: str) -> Callable[[str], tuple[str, str]]:
    return lambda name: (kind, name)


def read_file_to_write(name: str) -> str:
    """Return the name of a file; refuse the bare name of a format, which an abbreviated --output would take."""
    if name in OUTPUT_FORMATS:
        raise ValueError(f"{name} is a format: use --output-format {name}, or ./{name} for a file of that name")
    return name


_REPORT_FORMAT = Option(
    "report format; html is always written to a file",
    "output",
    choices=OUTPUT_FORMATS,
    default="from the suffix of FILE, else console",
)


class Inputs(Options, frozen=True, kw_only=True):
    """The files and folders that were named, in the order given."""

    inputs: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "result file (.gz and .zst, too), folder, quoted glob, s3://… or - for standard input",
            "input",
            metavar="FILE",
            positional=True,
            read=_as("file"),
        ),
        Option("same as FILE", "input", flags=("--result-file", "--results-file"), metavar="FILE", read=_as("file")),
        Option(
            "all results_*.jsonl in a folder, by name",
            "input",
            flags=("--result-folder", "--results-folder"),
            metavar="FOLDER",
            read=_as("folder"),
        ),
    ] = ()
    strict: Annotated[bool, Option("exit with 3 if any line cannot be read", "input")] = False


class Output(Options, frozen=True, kw_only=True):
    """The format of a report and where it goes; a page needs a place."""

    output_format: Annotated[str | None, _REPORT_FORMAT] = None
    output: Annotated[str | None, output_file("write to FILE instead of standard output", read=read_file_to_write)] = (
        None
    )
    command: str = ""
    """The command line, as a page about its results shows it."""
    place: ClassVar[str] = "-o"
    """The option that names the file of the report."""
    beside: ClassVar[bool] = False
    """Whether a page without a place goes beside what it is about."""

    @property
    def path(self) -> str | None:
        """The file that the report goes to; None for standard output."""
        return self.output

    @property
    def format(self) -> str:
        """The format that was named, or that the suffix of the file implies."""
        return self.output_format or self._implied or "console"

    @property
    def _implied(self) -> str | None:
        """The format that the suffix of the file implies."""
        from pathlib import PurePath

        return _BY_SUFFIX.get(PurePath(self.path or "").suffix.lower())

    @property
    def figures(self) -> bool:
        """Whether the format draws figures."""
        return self.format in WITH_FIGURES

    def __post_init__(self) -> None:
        super().__post_init__()
        implied, asked = self._implied, self.output_format
        if asked is not None and implied is not None and asked != implied:
            raise UsageError(
                f"{self.place} {self.path} implies {implied}, but --output-format is {asked}; leave one of them out"
            )
        if self.path is None and (self.format == "xlsx" or (self.format == "html" and not self.beside)):
            raise UsageError(f"--output-format {self.format} needs {self.place} FILE")


class PageOutput(Output, frozen=True, kw_only=True):
    """As `Output`; a page without a place goes beside the input."""

    output_format: Annotated[str | None, _REPORT_FORMAT] = None
    output: Annotated[
        str | None,
        output_file(
            "write to FILE instead of standard output; a folder for the pages of several files", read=read_file_to_write
        ),
    ] = None
    interactive: Annotated[
        bool,
        Option("html: add a script to sort and filter tables and show the entries behind a row", "output"),
    ] = False
    beside: ClassVar[bool] = True


class ReportOutput(Output, frozen=True, kw_only=True):
    """As `Output`, for commands of which -o names another file; a page goes beside that."""

    output_format: Annotated[str | None, _REPORT_FORMAT] = None
    output: None = None
    report: Annotated[
        str | None, Option("write the report to FILE instead of standard output", "output", metavar="FILE")
    ] = None
    place: ClassVar[str] = "--report"
    beside: ClassVar[bool] = True

    @property
    def path(self) -> str | None:
        """The file that the report goes to; None for standard output."""
        return self.report


class RunOutput(Output, frozen=True, kw_only=True):
    """As `Output`; the page of a run goes beside its journal."""

    output_format: Annotated[str | None, _REPORT_FORMAT] = None
    output: Annotated[str | None, output_file("write to FILE instead of standard output")] = None
    beside: ClassVar[bool] = True


class PrintedReport(Output, frozen=True, kw_only=True):
    """As `Output`, for a report that goes to standard output."""

    output_format: Annotated[str, Option("report format", "output", choices=("console", "json", "markdown"))] = (
        "console"
    )
    output: None = None


class DatasetName(Options, frozen=True, kw_only=True):
    """The dataset that results were made with."""

    dataset: Annotated[
        tuple[str, ...],
        Option(
            "dataset that the results were made with",
            "comparison",
            flags=("--dataset-file", "--dataset"),
            metavar="FILE",
            once=True,
        ),
    ] = ()


class EntryId(Options, frozen=True, kw_only=True):
    """The entry to show."""

    id: Annotated[
        str,
        Option("entry id, row id such as 12-attack, or long id of a row", "entry", metavar="ID", positional=True),
    ]


class Details(Options, frozen=True, kw_only=True):
    """How much of each file is shown."""

    details: Annotated[bool, Option("show more than three files in full", "display")] = False


class FindingCodes(Options, frozen=True, kw_only=True):
    """Which findings to explain."""

    codes: Annotated[
        tuple[str, ...],
        Option("code of a finding, such as F015; without one, list all", metavar="CODE", positional=True),
    ] = ()


class Demo(Options, frozen=True, kw_only=True):
    """Options of `demo`."""

    folder: Annotated[str, Option("folder for the sample", metavar="FOLDER")] = "faircount-demo"
    seed: Annotated[int, Option("random seed of the sample", metavar="N")] = 7


class Completion(Options, frozen=True, kw_only=True):
    """Options of `completion`."""

    shell: Annotated[
        str, Option("bash, zsh or fish", choices=("bash", "zsh", "fish"), positional=True, metavar="SHELL")
    ]


class Gates(Options, frozen=True, kw_only=True):
    """Conditions that make a command fail."""

    fail_on: Annotated[
        tuple[str, ...],
        Option(
            "exit with 1 if this condition holds: 'asr.high > 0.05', 'errors > 10%', 'pass_rate < 0.9', "
            "'jailbreak_type=dan: asr > 0.2', 'regression > 0.02' against a baseline",
            "gates",
            metavar="GATE",
            common=True,
        ),
    ] = ()
    baseline: str | None = None
    inconclusive: Annotated[
        str, Option("result of a gate left inconclusive by too few entries", "gates", choices=INCONCLUSIVE)
    ] = FAIL
    errors: Annotated[
        str,
        Option(
            "errors and unjudged entries in gates and --stop-when: bounds decides only if they cannot matter, "
            "ignore uses the rates as shown",
            "gates",
            choices=ERRORS,
        ),
    ] = BOUNDS
    junit: Annotated[str | None, Option("write the gates as JUnit XML, a test case each", "gates", metavar="FILE")] = (
        None
    )
    sarif: Annotated[
        str | None, Option("write gates that failed, and groups that stand out, as SARIF", "gates", metavar="FILE")
    ] = None
    job_summary: Annotated[
        bool,
        Option(f"append a summary to the file in ${SUMMARY_VARIABLE}, even without gates", "gates"),
    ] = False

    @property
    def asked(self) -> bool:
        """Whether there is anything to judge, or to write about it."""
        return bool(self.fail_on or self.junit or self.sarif or self.job_summary)


class BaselineGates(Gates, frozen=True, kw_only=True):
    """As `Gates`, with the file that a regression is measured against."""

    baseline: Annotated[
        str | None, Option("results to compare with, for 'regression > MARGIN'", "gates", metavar="FILE")
    ] = None
