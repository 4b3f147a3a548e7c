"""Options of calls that write files or ask models. The command line needs them early: nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from faircount.analysis.options import EXPORTS
from faircount.core.options import Option, Options

Force = Annotated[bool, Option("overwrite FILE if it already exists", "output")]
ForceOthers = Annotated[bool, Option("overwrite FILE even if Faircount did not write it", "output")]
Tag = Annotated[str | None, Option("tag in the default file name: letters, digits, - and _", "output", metavar="TAG")]


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
            "judge rows that name NAME with JUDGE, or with the judge of that name; without this, rows can name only "
            "judges that compare strings",
            "judges",
            metavar="NAME[=JUDGE]",
        ),
    ] = ()
    resume: Annotated[
        bool, Option("accepted for compatibility with spikee: interrupted runs always resume", "verdicts")
    ] = False
    store: Annotated[
        str | None,
        Option("where verdicts are stored", "verdicts", metavar="FILE", default="a folder in the user's cache"),
    ] = None
    dry_run: Annotated[
        bool, Option("show how many calls are needed and what they cost, without making any", "verdicts")
    ] = False
    rejudged: Annotated[
        str | None,
        Option("write the rows to FILE", "verdicts", metavar="FILE", default="rejudge_… next to the input"),
    ] = None
    force: Annotated[bool, Option("overwrite the file that --rejudged names", "verdicts")] = False


class NewFileOptions(Options, frozen=True, kw_only=True):
    """Where a new file goes; without a name, under one like spikee's."""

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
    raw: Annotated[
        bool, Option("csv only: keep texts unchanged instead of making them safe for spreadsheets", "output")
    ] = False
    output: Annotated[
        str | None, output_file("output file; - is standard output, for csv and jsonl", default="next to the input")
    ] = None
    force: ForceOthers = False


class Workbook(NewFileOptions, frozen=True, kw_only=True):
    """Where a workbook goes."""

    output: Annotated[
        str | None,
        output_file(
            "output file", default="x.xlsx next to x.jsonl; Combined.xlsx in the current folder for several files"
        ),
    ] = None
    force: ForceOthers = False
    command: str = ""


class LabelSheet(NewFileOptions, frozen=True, kw_only=True):
    """Where a sheet to label goes."""

    output: Annotated[
        str, output_file("label sheet, .jsonl or .xlsx; the sampling design goes to FILE.design.json")
    ] = "labels.jsonl"
