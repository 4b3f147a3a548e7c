"""Options of calls that write files or ask models, and what keeps a file from being written over another.

The command line needs the options early: nothing heavy is imported."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

from faircount.analysis.options import EXPORTS, JudgeQuality, ReadingOptions
from faircount.core.errors import UsageError
from faircount.core.options import Option, Options

if TYPE_CHECKING:
    from pathlib import Path

Force = Annotated[bool, Option("overwrite FILE if it already exists", "output")]
ForceOthers = Annotated[bool, Option("overwrite FILE even if Faircount did not write it", "output")]
Tag = Annotated[str | None, Option("tag in the default file name", "output", metavar="TAG")]


def output_file(what: str, default: str = "", read: Callable[[str], str] | None = None) -> Option:
    """Return the option -o of a command."""
    return Option(what, "output", flags=("-o", "--output"), metavar="FILE", default=default, read=read)


class Models(Options, frozen=True, kw_only=True):
    """What judges that ask a model need."""

    config: Annotated[
        str | None, Option("TOML file with judges, prices and models", "models and configuration", metavar="FILE")
    ] = None
    model: Annotated[str | None, Option("model for LLM judges", metavar="NAME")] = None
    base_url: Annotated[str | None, Option("base URL of an OpenAI-compatible endpoint", metavar="URL")] = None
    api_key_env: Annotated[
        str | None,
        Option("environment variable with the API key", metavar="NAME", default="OPENAI_API_KEY"),
    ] = None


class RejudgeFiles(Options, frozen=True, kw_only=True):
    """Which judges judge again, where verdicts are kept and where the rows go."""

    judge: Annotated[
        str | None,
        Option(
            "judge for all rows; a hit is a success", "judges", metavar="JUDGE", default="the judge that each row names"
        ),
    ] = None
    allow_judge: Annotated[
        tuple[str, ...],
        Option(
            "let rows name NAME, which means JUDGE if given; some judges that compare strings need no permission",
            "judges",
            metavar="NAME[=JUDGE]",
        ),
    ] = ()
    resume: Annotated[bool, Option("no effect: interrupted runs always resume", "verdicts")] = False
    store: Annotated[
        str | None,
        Option("where verdicts are stored", "verdicts", metavar="FILE", default="a folder in the user's cache"),
    ] = None
    dry_run: Annotated[bool, Option("show the calls needed and their cost, without making any", "verdicts")] = False
    rejudged: Annotated[
        str | None,
        Option("write the rows to FILE", "verdicts", metavar="FILE", default="rejudge_… next to the input"),
    ] = None
    force: Annotated[bool, Option("overwrite the file that --rejudged names", "verdicts")] = False


class EngineOptions(Options, frozen=True, kw_only=True):
    """Who reads and counts: this machine, or a cluster."""

    engine: Annotated[
        str,
        Option("read and count on this machine or on a Spark cluster", "cluster", choices=("local", "spark")),
    ] = "local"
    master: Annotated[
        str | None,
        Option(
            "cluster: spark://host:port, sc://host:port, yarn, k8s://…, local[N]",
            metavar="URL",
            default="the session that spark-submit starts",
        ),
    ] = None
    spark_conf: Annotated[tuple[str, ...], Option("setting of Spark", metavar="KEY=VALUE")] = ()

    def __post_init__(self) -> None:
        if self.engine != "spark" and (self.master is not None or self.spark_conf):
            raise UsageError("--master and --spark-conf need --engine spark")
        for setting in self.spark_conf:
            if "=" not in setting:
                raise UsageError(f"--spark-conf {setting}: must be KEY=VALUE")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark by their names."""
        return dict(setting.split("=", 1) for setting in self.spark_conf)


class ViewOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `view`."""

    paths: Annotated[
        tuple[str, ...],
        Option(
            "result file, journal, folder or quoted glob",
            "input",
            metavar="PATH",
            positional=True,
            default="results/, or the current folder",
        ),
    ] = ()
    judge_quality: JudgeQuality = None
    labels: Annotated[
        str | None,
        Option(
            "label entries on the page, into FILE (JSONL) for --judge-quality",
            "labels",
            metavar="FILE",
        ),
    ] = None
    second_opinions: Annotated[
        float,
        Option("share of entries that a second person labels too", "labels", metavar="SHARE", least=0, most=1),
    ] = 0.1
    port: Annotated[
        int | None, Option("port to listen on", "server", metavar="N", least=1, most=65535, default="a free one")
    ] = None
    host: Annotated[
        str,
        Option("address to listen on; needs --token unless it is this machine's own", "server", metavar="ADDRESS"),
    ] = "127.0.0.1"
    token: Annotated[
        str | None, Option("secret that opens the page", "server", metavar="TOKEN", default="a random one")
    ] = None
    browser: Annotated[bool, Option("do not open the browser", "server")] = True
    get: Annotated[
        str | None,
        Option("print the page at / or /run/ID, without a server", "server", metavar="ADDRESS"),
    ] = None
    export: Annotated[
        str | None,
        Option("write static pages to FOLDER, to share", "export", metavar="FOLDER"),
    ] = None
    redact: Annotated[bool, Option("with --export: leave out every text, keep every figure")] = False
    force: Annotated[bool, Option("overwrite FOLDER if it is an export")] = False
    command: str = ""


class VerifyOptions(Options, frozen=True, kw_only=True):
    """Options of `verify`."""

    folder: Annotated[str, Option("folder that view --export wrote", "export", metavar="FOLDER", positional=True)]
    paths: Annotated[
        tuple[str, ...],
        Option(
            "its result files; folder or quoted glob",
            "input",
            metavar="RESULTS",
            positional=True,
        ),
    ] = ()


class NewFileOptions(Options, frozen=True, kw_only=True):
    """Where a new file goes; without a name, under one that is always new."""

    output: str | None = None
    tag: str | None = None
    force: Force = False


class ExtractedFile(NewFileOptions, frozen=True, kw_only=True):
    """Where extracted rows go."""

    output: Annotated[
        str | None, output_file("output file", default="results/extract_<category>[_<tag>]_<time>.jsonl")
    ] = None
    tag: Tag = None


class ComparedFile(NewFileOptions, frozen=True, kw_only=True):
    """Where the chosen entries of a dataset go."""

    output: Annotated[
        str | None, output_file("new dataset", default="datasets/comparison_<dataset>[_<tag>]_<time>.jsonl")
    ] = None
    tag: Tag = None


class ExportedFile(NewFileOptions, frozen=True, kw_only=True):
    """The format of an export and where it goes."""

    to: Annotated[str | None, Option("format", "output", choices=EXPORTS, default="from the suffix of the -o file")] = (
        None
    )
    raw: Annotated[bool, Option("csv: do not make texts safe for spreadsheets", "output")] = False
    output: Annotated[
        str | None, output_file("output file; - is standard output, for csv and jsonl", default="next to the input")
    ] = None
    force: ForceOthers = False


class Workbook(NewFileOptions, frozen=True, kw_only=True):
    """Where a workbook goes."""

    output: Annotated[
        str | None,
        output_file(
            "output file", default="x.xlsx next to x.jsonl; for several files, Combined.xlsx in the current folder"
        ),
    ] = None
    force: ForceOthers = False
    command: str = ""


class LabelSheet(NewFileOptions, frozen=True, kw_only=True):
    """Where a sheet to label goes."""

    output: Annotated[str, output_file("label sheet, .jsonl or .xlsx; its design goes to FILE.design.json")] = (
        "labels.jsonl"
    )


# -- where files go ----------------------------------------------------------------------------------------------

AnyPath = str | os.PathLike[str]
Notice = Callable[[str], None]
"""Called with a message for the user that is not an error."""
_START_OF_A_PAGE = 4096
_LONGEST_RUN = 80
_COMPRESSED, _RECORDS = (".gz", ".zst"), (".jsonl", ".json")


def ignore(*_: object) -> None:
    """Do nothing about progress or a notice."""


def stem_of(name: str) -> str:
    """Return the name of a file of records without its folder and what says how it is written: x of a/x.jsonl.gz."""
    from pathlib import Path

    stem = Path(name).name
    for suffix in (*_COMPRESSED, *_RECORDS):
        stem = stem.removesuffix(suffix)
    return stem


def place_of(name: str) -> Path:
    """Return the path beside which files about an input go; a run in a file of several is named after both."""
    from pathlib import Path

    from faircount.io.files import is_address
    from faircount.io.streams import split_member

    file, run = split_member(name)
    if is_address(file):  # nothing is written there: it goes into the working folder
        file = Path(file).name
    if run is None:
        return Path(file)
    plain = "-".join("".join(one if one.isalnum() or one in "._-" else " " for one in run).split())
    return Path(file).with_name(f"{stem_of(file)}_{plain[:_LONGEST_RUN] or 'run'}")


def refuse_inputs(path: str, inputs: Iterable[str]) -> None:
    """Raise if a file to be written is one of the inputs."""
    from pathlib import Path

    for name in inputs:
        if Path(path).exists() and Path(name).exists() and Path(path).samefile(name):
            raise UsageError(f"{path}: is an input; write the output to another file")


def refuse_same_file(names: str, *paths: AnyPath | None) -> None:
    """Raise if two of the files to be written are the same; `names` are those of the options that name them."""
    places = [os.path.realpath(path) for path in paths if path]
    if len(set(places)) < len(places):
        raise UsageError(f"{names} must be different files")


def beside_others(path: str, may_be_written: Callable[[str], bool], notice: Notice) -> str:
    """Return where a file goes whose name the user did not choose: with a number, if another's file is in the way."""
    from pathlib import Path

    suffix = Path(path).suffix
    names = itertools.chain([path], (f"{path.removesuffix(suffix)}_{number}{suffix}" for number in itertools.count(2)))
    place = next(filter(may_be_written, names))
    if place != path:
        notice(f"{path}: already exists and was not written by Faircount; writing {place} instead")
    return place


def is_our_page(path: str) -> bool:
    """Return whether a file is a page that Faircount wrote."""
    from pathlib import Path

    from faircount.report import html

    if Path(path).is_file():
        with contextlib.suppress(OSError), Path(path).open(encoding="utf-8", errors="replace") as file:
            return html.is_ours(file.read(_START_OF_A_PAGE))
    return False
