"""The words of the command line. Only the argument parser is imported here; commands are loaded when they run."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from faircount.analysis.choices import AUTO, BLOCK_SIGNALS, CATEGORIES, DEFINITIONS, GUARDRAIL_MEANINGS, SORTS
from faircount.text import visible
from faircount.version import __version__

EXIT_CODES = """\
exit codes: 0 done, 1 a gate failed, 2 usage or configuration, 3 bad input, 4 incomplete, 70 a bug, 130 interrupted
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; wrong words end with exit code 2 and a hint."""
    arguments = build().parse_args(argv)
    arguments.words = tuple(argv)
    return arguments


class _Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations, keeps messages short and suggests what was perhaps meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Take file names between options, which the standard parser leaves over; refuse anything else."""
        parsed, left = super().parse_known_args(args, namespace)
        unknown = [word for word in left if word.startswith("-") and word != "-"]
        if hasattr(parsed, "inputs") and not unknown:
            parsed.inputs += [("file", word) for word in left]
            left = []
        if left:
            self.error(self._hint(unknown or left))
        return parsed, left

    def _hint(self, words: Sequence[str]) -> str:
        import difflib

        known = [option for action in self._actions for option in action.option_strings]
        hints = []
        for word in words:
            near = difflib.get_close_matches(word.split("=")[0], known, n=1)
            hints.append(f"{word} (did you mean {near[0]}?)" if near else word)
        return f"unknown: {', '.join(hints)}"

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence and where help is."""
        self.exit(2, f"{self.prog}: {visible(message)}; see {self.prog} --help\n")


class _Input(argparse.Action):
    """Collects files and folders in the order in which they were given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del parser
        kind = "folder" if option is not None and "folder" in option else "file"
        named = values if isinstance(values, list) else [values]
        namespace.inputs = [*namespace.inputs, *((kind, value) for value in named)]


def _command(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a command that imports its module only when it is run."""

    def run(arguments: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(module), function)(arguments))

    return run


def build() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="faircount",
        description="Numbers people can believe, and the evidence behind them, from the results of attacking,\n"
        "benchmarking and guarding language models.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"faircount {__version__}")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_results(nouns)
    _add_cache(nouns)
    _add_demo(nouns)
    return parser


def _add_results(nouns: argparse._SubParsersAction[_Parser]) -> None:
    results = nouns.add_parser(
        "results", help="work with result files", description="Work with result files.", epilog=EXIT_CODES
    )
    verbs = results.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_analyze(verbs)
    _add_extract(verbs)
    _add_export(verbs)
    _add_convert_to_excel(verbs)
    _add_dataset_comparison(verbs)
    _add_show(verbs)
    _add_check(verbs)
    _add_power(verbs)


def _add_analyze(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "analyze",
        help="rates with intervals, breakdowns and doubts, from one or many files",
        description="Analyse result files: one analysis each, in the order given, or one over all with --combine.",
        epilog="example: faircount results analyze results/results_*.jsonl --combine --by jailbreak_type\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.results", "analyze"))
    add_inputs(parser)
    _add_what_to_count(parser)
    _add_what_to_show(parser)
    add_output(parser)


def _add_extract(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "extract",
        help="a new dataset of the rows that succeeded, failed, or hold what you look for",
        description="Write the rows that a category, a query or search terms choose into a new dataset.",
        epilog="examples: faircount results extract results/results_*.jsonl --category failure\n"
        "          faircount results extract results/results_*.jsonl --where 'error contains \"time-out\"'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.extract", "extract"))
    add_inputs(parser)
    _add_what_to_extract(parser)
    _add_where_to_extract_to(parser)


def _add_what_to_extract(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which rows")
    group.add_argument(
        "--category",
        choices=CATEGORIES,
        help="rows of one kind; failure has no errors in it, errors and error are one (default: success, or what "
        "--where or --custom-search chooses)",
    )
    group.add_argument("--where", metavar="QUERY", help="rows for which a query holds, see the reference of queries")
    group.add_argument("--query", metavar="QUERY", help="the same as --where --ignore-case, by spikee's name")
    group.add_argument(
        "--custom-search",
        action="append",
        default=[],
        metavar="TERM",
        help="rows that contain a term: term, field:term, !term or !field:term (repeatable, all must hold)",
    )
    group.add_argument("--ignore-case", action="store_true", help="case does not count in --where and --custom-search")
    group.add_argument("--regex", action="store_true", help="terms of --custom-search are regular expressions")
    _add_definition(group, "whose categories and outcomes are meant (default: faircount)")
    group.add_argument("--entries", action="store_true", help="all rows of the entries that have a row that matches")


def _add_where_to_extract_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write there (default: results/extract_<category>[_<tag>]_<time>.jsonl)",
    )
    _add_name_of_new_file(group)


def _add_export(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "export",
        help="rows or entries as JSONL, CSV, Parquet, a workbook or a page",
        description="Write rows, or the entries that they fold into, in a format that other programs read.",
        epilog="examples: faircount results export results/results_x.jsonl --to parquet\n"
        "          faircount results export results/results_*.jsonl --where 'outcome = error' --columns id,error "
        "-o errors.csv\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.export", "export"))
    add_inputs(parser)
    group = parser.add_argument_group("what is written")
    group.add_argument("--entries", action="store_true", help="a row for each entry instead of each row of the files")
    group.add_argument(
        "--where",
        metavar="QUERY",
        help="rows for which a query holds, or entries with such a row, see the reference of queries",
    )
    group.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,…",
        help="only these, in this order, named as in queries: id,outcome,attempt_history[0].error (repeatable)",
    )
    _add_definition(group, "whose outcomes and entries are meant (default: faircount)")
    group = parser.add_argument_group("output")
    group.add_argument(
        "--to",
        choices=("jsonl", "csv", "parquet", "xlsx", "html"),
        help="the format (default: what the name of the file after -o ends with)",
    )
    group.add_argument("--raw", action="store_true", help="csv with texts as they are, not made safe for spreadsheets")
    _add_file_to_export_to(group, "write there; - is standard output, for csv and jsonl (default: beside the input)")


def _add_convert_to_excel(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "convert-to-excel",
        help="a workbook of the rows, the analysis with charts, and the findings",
        description="Write a workbook with a sheet of rows, a sheet of the analysis with charts, and one of findings.",
        epilog="example: faircount results convert-to-excel --result-file results/results_x.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.export", "convert_to_excel"))
    add_inputs(parser)
    group = parser.add_argument_group("what is counted")
    group.add_argument("--combine", action="store_true", help="one analysis over all files instead of one for each")
    _add_definition(group, "whose definitions to count by (default: faircount)")
    group = parser.add_argument_group("output")
    _add_file_to_export_to(
        group, "write there (default: x.xlsx beside x.jsonl, Combined.xlsx in the working folder for several files)"
    )


def _add_definition(group: argparse._ArgumentGroup, words: str) -> None:
    group.add_argument("--definition", choices=DEFINITIONS, default=DEFINITIONS[0], help=words)


def _add_guardrail_success(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="what true means in a boolean guardrail's file; spikee 0.1 wrote true for detected (default: bypassed)",
    )


def _add_name_of_new_file(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tag", metavar="TAG", help="a word for the default name: letters, digits, - and _")
    group.add_argument("--force", action="store_true", help="replace FILE if it is there already")


def _add_file_to_export_to(group: argparse._ArgumentGroup, words: str) -> None:
    group.add_argument("-o", "--output", metavar="FILE", help=words)
    group.add_argument("--force", action="store_true", help="replace FILE, whoever wrote it")


def _add_dataset_comparison(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "dataset-comparison",
        help="which entries of a dataset succeed on many targets, or on few, and how success transfers",
        description="Compare the entries of a dataset over the results of several targets, one result file each, and\n"
        "write those with a high or a low success rate into a new dataset.",
        epilog="example: faircount results dataset-comparison --dataset-file my.jsonl results/results_*.jsonl -n 50\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.dataset_comparison", "dataset_comparison"))
    add_inputs(parser)
    _add_what_to_compare(parser)
    _add_where_to_compare_to(parser)


def _add_what_to_compare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    group.add_argument(
        "--dataset-file",
        "--dataset",
        dest="dataset",
        metavar="FILE",
        help="the dataset that the results were made with",
    )
    group.add_argument(
        "--success-threshold",
        type=float,
        default=0.8,
        metavar="SHARE",
        help="entries with a success rate above (or below) this are chosen (default: 0.8)",
    )
    group.add_argument(
        "--success-definition",
        choices=("gt", "lt"),
        default="gt",
        help="gt for rates above the threshold, lt for rates below it (default: gt)",
    )
    group.add_argument(
        "-n",
        "--number",
        type=int,
        default=-1,
        metavar="N",
        help="write N entries at most: the highest rates, with lt the lowest (default: all)",
    )
    group.add_argument(
        "--skip-validation", action="store_true", help="go on if results lack entries of the dataset, and show how many"
    )
    _add_guardrail_success(group)
    _add_definition(group, "whose rules match and count entries (default: faircount)")
    group.add_argument(
        "--level", type=float, default=0.95, metavar="P", help="confidence level of the intervals (default: 0.95)"
    )


def _add_where_to_compare_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the new dataset there (default: datasets/comparison_<dataset>[_<tag>]_<time>.jsonl)",
    )
    _add_name_of_new_file(group)
    group.add_argument(
        "--output-format",
        choices=("console", "json", "markdown", "html"),
        default="console",
        help="of the report; html is a page beside the new dataset unless --report is given (default: console)",
    )
    group.add_argument("--report", metavar="FILE", help="write the report there instead of to standard output")


def _add_show(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "show",
        help="one entry with everything that is recorded of it",
        description="Show an entry: its outcome and why, its attempts with their texts, and rows that do not count.",
        epilog="example: faircount results show 12 results/results_*.jsonl --whole\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.show", "show"))
    group = parser.add_argument_group("which entry")
    group.add_argument("id", metavar="ID", help="id of an entry, id of a row such as 12-attack, or long id of a row")
    add_inputs(parser)
    _add_how_to_fold(parser)
    group = parser.add_argument_group("what is shown")
    group.add_argument(
        "--whole", action="store_true", help="texts, histories and conversations uncut, as they are in json anyway"
    )
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_check(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "check",
        help="doubts about result files, and nothing else; exit code 1 when any is serious",
        description="Report how the lines of result files fared and what is doubtful about them, without any rates.\n"
        "Findings of severity error are serious: lines that could not be read, a packed file that ends too early.",
        epilog="example: faircount results check results/results_*.jsonl --warnings\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.check", "check"))
    add_inputs(parser)
    _add_how_to_fold(parser)
    group = parser.add_argument_group("what is serious")
    group.add_argument("--warnings", action="store_true", help="exit with 1 if there are warnings, too")
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_how_to_fold(parser: argparse.ArgumentParser) -> None:
    """Add what decides which rows make an entry, and what they mean."""
    group = parser.add_argument_group("what is counted")
    group.add_argument("--combine", action="store_true", help="all files together, as analyze --combine counts them")
    _add_guardrail_success(group)


def _add_power(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "power",
        help="how many entries a question needs, or what a number of entries can show",
        description="How many entries are needed for an interval or to detect a difference, or what a number of\n"
        "entries can show. Reads nothing. Rates, differences and widths are shares: 0.05 stands for 5 %.",
        epilog="example: faircount results power --rate 0.2 --half-width 0.05 --families 10 --icc 0.3\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.power", "power"))
    _add_what_to_ask(parser)
    _add_what_to_assume(parser)
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_what_to_ask(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is asked: one or more of the first three, or --entries")
    group.add_argument(
        "--half-width", type=float, metavar="W", help="entries for an interval with a half-width of W, such as 0.05"
    )
    group.add_argument(
        "--difference",
        type=float,
        metavar="D",
        help="entries to detect that two rates differ by D; with a minus sign, a fall",
    )
    group.add_argument(
        "--zero-hits",
        type=float,
        metavar="UPPER",
        help="entries after which, without a single success, the rate is at most UPPER",
    )
    group.add_argument("--entries", type=int, metavar="N", help="what interval and what difference N entries can show")


def _add_what_to_assume(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is assumed")
    group.add_argument("--rate", type=float, metavar="P", help="expected rate, of the first target (default: 0.5)")
    group.add_argument(
        "--paired", action="store_true", help="two targets share their entries; needs --discordant, which implies it"
    )
    group.add_argument(
        "--discordant",
        type=float,
        metavar="PSI",
        help="share of entries on which only one of the two targets succeeds",
    )
    group.add_argument(
        "--families", type=float, metavar="M", help="entries come in families of M variants; needs --icc"
    )
    group.add_argument(
        "--icc", type=float, metavar="RHO", help="correlation of the outcomes within a family, from 0 to 1"
    )
    group.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level; tests are made at 1 - P, two-sided (default: 0.95)",
    )
    group.add_argument(
        "--power", type=float, metavar="P", help="how often a difference should be detected (default: 0.8)"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the ways to name input files, shared by every command that reads results."""
    group = parser.add_argument_group("input")
    parser.set_defaults(inputs=[])
    group.add_argument(
        "files",
        nargs="*",
        action=_Input,
        metavar="FILE",
        help="result file, quoted glob, or - for standard input; .gz and .zst too",
    )
    group.add_argument(
        "--result-file",
        "--results-file",
        action=_Input,
        metavar="FILE",
        help="the same by name (repeatable)",
    )
    group.add_argument(
        "--result-folder",
        "--results-folder",
        action=_Input,
        metavar="FOLDER",
        help="every results_*.jsonl in a folder, packed or not, by name (repeatable)",
    )
    group.add_argument(
        "--max-line",
        type=int,
        default=64 * 1024 * 1024,
        metavar="BYTES",
        help="a longer line is reported and left out (default: 67108864)",
    )
    group.add_argument("--strict", action="store_true", help="exit with 3 if any line could not be read")
    group.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="read large files anew, and keep nothing for the next time",
    )


def _add_what_to_count(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is counted")
    group.add_argument("--combine", action="store_true", help="one analysis over all files, with a table per source")
    group.add_argument("--where", metavar="QUERY", help="only the rows that a query chooses, such as 'lang = de'")
    group.add_argument(
        "--false-positive-checks",
        metavar="BENIGN_FILE",
        help="measure a guardrail with a second run, over benign prompts",
    )
    _add_guardrail_success(group)
    group.add_argument(
        "--block-signal",
        choices=BLOCK_SIGNALS,
        default=BLOCK_SIGNALS[0],
        help="what blocked means to --false-positive-checks: a false verdict or a raised guardrail, or only what was "
        "raised (default: verdict)",
    )
    _add_definition(group, "whose definitions to count by (default: faircount)")
    group.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level of the intervals (default: 0.95)",
    )
    group.add_argument(
        "--cluster",
        default=AUTO,
        metavar="FIELD|auto|none",
        help="what makes entries variants of one another, for intervals that respect it: a field, the document and "
        "instruction behind an entry, or nothing (default: auto)",
    )
    group.add_argument(
        "--min-n",
        type=int,
        default=1,
        metavar="N",
        help="rank only combinations with at least N entries (default: 1)",
    )


def _add_what_to_show(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is shown")
    group.add_argument("--overview", action="store_true", help="the general part alone")
    group.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="break down by this field (repeatable; attack, document and judge for short)",
    )
    group.add_argument("--sort", choices=SORTS, default=SORTS[0], help="order of the groups (default: rate)")
    group.add_argument(
        "--evidence",
        type=int,
        metavar="N",
        help="show N successful attempts with prompt and response (default: 5 in html, else 0)",
    )


def add_output(
    parser: argparse.ArgumentParser,
    *,
    page: str = "html is a page in a file of its own, beside the input unless -o is given",
    place: str = "write there instead of to standard output; a folder for the pages of several files",
) -> None:
    """Add the choice of format and place, shared by every command that shows a report."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-format",
        choices=("console", "json", "markdown", "html"),
        default="console",
        help=f"{page} (default: console)",
    )
    group.add_argument("-o", "--output", metavar="FILE", help=place)


def _add_cache(nouns: argparse._SubParsersAction[_Parser]) -> None:
    cache = nouns.add_parser(
        "cache",
        help="what is kept of large files, so that they need not be read again",
        description="What is kept of large files, so that they need not be read again. It is safe to delete.",
        epilog=EXIT_CODES,
    )
    verbs = cache.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for verb, meaning in (("show", "say where the cache is and how large"), ("clear", "delete it")):
        parser = verbs.add_parser(
            verb, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.", epilog=EXIT_CODES
        )
        parser.set_defaults(run=_command("faircount.cli.cache", verb))


def _add_demo(nouns: argparse._SubParsersAction[_Parser]) -> None:
    parser = nouns.add_parser(
        "demo",
        help="make sample results offline, analyse them, say what to try next",
        description="Make sample results of simulated targets offline, analyse them and say what to try next.",
        epilog=EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.demo", "demo"))
    parser.add_argument(
        "--folder",
        default="faircount-demo",
        metavar="FOLDER",
        help="where the sample goes (default: faircount-demo)",
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="another sample for another N (default: 7)")
