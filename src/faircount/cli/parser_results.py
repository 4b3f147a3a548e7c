"""The words of `faircount results`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import (
    AUTO,
    BLOCK_SIGNALS,
    CATEGORIES,
    CORRECTIONS,
    DEFINITIONS,
    EVIDENCE,
    GUARDRAIL_MEANINGS,
    SORTS,
)
from faircount.cli.gating import add_gates
from faircount.cli.parser_compare import add_compare
from faircount.cli.parser_rejudge import add_rejudge
from faircount.cli.parser_sample import add_sample_for_labels
from faircount.cli.parsing import (
    EXIT_CODES,
    Verbs,
    add_format,
    add_inputs,
    add_level,
    add_noun,
    add_output,
    add_policy_blocks,
    command,
)

RESULTS_COMMANDS = (
    "analyze",
    "extract",
    "export",
    "convert-to-excel",
    "rejudge",
    "compare",
    "dataset-comparison",
    "show",
    "check",
    "power",
    "sample-for-labels",
)
"""The commands of `results`, which may also stand without it."""


def evidence_argument(text: str) -> tuple[str, int]:
    """Return what --evidence asks for: a kind of entries, empty for the bad news, and how many of them."""
    kind, equals, number = text.partition("=")
    if not equals and text.isdecimal():
        kind, number = "", text
    number = number if equals or not kind else "5"
    if kind not in ("", *EVIDENCE) or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(EVIDENCE)}, each perhaps with =N, or N alone")
    return kind, int(number)


def add_results(nouns: Verbs) -> None:
    """Add `results` and its commands."""
    verbs = add_noun(nouns, "results", short="work with result files", what="Work with result files.")
    _add_analyze(verbs)
    _add_extract(verbs)
    _add_export(verbs)
    _add_convert_to_excel(verbs)
    add_rejudge(verbs)
    add_compare(verbs)
    _add_dataset_comparison(verbs)
    _add_show(verbs)
    _add_check(verbs)
    _add_power(verbs)
    add_sample_for_labels(verbs)


def _add_analyze(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "analyze",
        help="rates with intervals, breakdowns and doubts, from one or many files",
        description="Analyse result files: one analysis each, in the order given, or one over all with --combine.",
        epilog="example: faircount results analyze results/results_*.jsonl --combine --by jailbreak_type\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.results", "analyze"))
    add_inputs(parser)
    _add_what_to_count(parser)
    _add_what_is_known_of_the_judge(parser)
    _add_what_to_show(parser)
    add_output(parser)
    add_gates(parser, baseline=True)


def _add_extract(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "extract",
        help="a new dataset of the rows that succeeded, failed, or hold what you look for",
        description="Write the rows that a category, a query or search terms choose into a new dataset.",
        epilog="examples: faircount results extract results/results_*.jsonl --category failure\n"
        "          faircount results extract results/results_*.jsonl --where 'error contains \"time-out\"'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.extract", "extract"))
    add_inputs(parser)
    _add_what_to_extract(parser)
    _add_where_to_extract_to(parser)


def _add_what_to_extract(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which rows")
    group.add_argument(
        "--category",
        choices=CATEGORIES,
        help="rows of one kind; failure, or fail, has no errors in it, errors and error are one (default: success, or "
        "what --where or --custom-search chooses)",
    )
    group.add_argument("--where", metavar="QUERY", help="rows for which a query holds, see the reference of queries")
    group.add_argument("--query", metavar="QUERY", help="the same as --where --ignore-case, by spikee's name")
    group.add_argument(
        "--custom-search",
        action="append",
        default=[],
        metavar="TERM",
        help="rows that contain a term: term, field:term, !term or !field:term (repeatable, all must hold; fields may "
        "be listed: lang:en,plugin:hex)",
    )
    group.add_argument("--ignore-case", action="store_true", help="case does not count in --where and --custom-search")
    group.add_argument("--regex", action="store_true", help="terms of --custom-search are regular expressions")
    _add_definition(group, "whose categories and outcomes are meant (default: faircount)")
    add_policy_blocks(group)
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


def _add_export(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "export",
        help="rows or entries as JSONL, CSV, Parquet, a workbook or a page",
        description="Write rows, or the entries that they fold into, in a format that other programs read.",
        epilog="examples: faircount results export results/results_x.jsonl --to parquet\n"
        "          faircount results export results/results_*.jsonl --where 'outcome = error' --columns id,error "
        "-o errors.csv\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.export", "export"))
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
    add_policy_blocks(group)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--to",
        choices=("jsonl", "csv", "parquet", "xlsx", "html"),
        help="the format (default: what the name of the file after -o ends with)",
    )
    group.add_argument("--raw", action="store_true", help="csv with texts as they are, not made safe for spreadsheets")
    _add_file_to_export_to(group, "write there; - is standard output, for csv and jsonl (default: beside the input)")


def _add_convert_to_excel(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "convert-to-excel",
        help="a workbook of the rows, the analysis with charts, and the findings",
        description="Write a workbook with a sheet of rows, a sheet of the analysis with charts, and one of findings.",
        epilog="example: faircount results convert-to-excel --result-file results/results_x.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.export", "convert_to_excel"))
    add_inputs(parser)
    group = parser.add_argument_group("what is counted")
    group.add_argument("--combine", action="store_true", help="one analysis over all files instead of one for each")
    _add_definition(group, "whose definitions to count by (default: faircount)")
    add_policy_blocks(group)
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


def _add_dataset_comparison(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "dataset-comparison",
        help="which entries of a dataset succeed on many targets, or on few, and how success transfers",
        description="Compare the entries of a dataset over the results of several targets, one result file each, and\n"
        "write those with a high or a low success rate into a new dataset.",
        epilog="example: faircount results dataset-comparison --dataset-file my.jsonl results/results_*.jsonl -n 50\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.dataset_comparison", "dataset_comparison"))
    add_inputs(parser)
    _add_what_to_compare(parser)
    _add_where_to_compare_to(parser)


def _add_what_to_compare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    group.add_argument(
        "--dataset-file",
        "--dataset",
        dest="dataset",
        action="append",
        default=[],
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
    add_policy_blocks(group)
    add_level(group)


def _add_where_to_compare_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the new dataset there (default: datasets/comparison_<dataset>[_<tag>]_<time>.jsonl)",
    )
    _add_name_of_new_file(group)
    add_format(group, "of the report; html is a page beside the new dataset unless --report is given", "--report")
    group.add_argument("--report", metavar="FILE", help="write the report there instead of to standard output")


def _add_show(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "show",
        help="one entry with everything that is recorded of it",
        description="Show an entry: its outcome and why, its attempts with their texts, and rows that do not count.",
        epilog="example: faircount results show 12 results/results_*.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.show", "show"))
    group = parser.add_argument_group("which entry")
    group.add_argument("id", metavar="ID", help="id of an entry, id of a row such as 12-attack, or long id of a row")
    add_inputs(parser)
    _add_how_to_fold(parser)
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_check(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "check",
        help="doubts about result files, and nothing else; exit code 1 when any is serious",
        description="Report how the lines of result files fared and what is doubtful about them, without any rates.\n"
        "Findings of severity error are serious: lines that could not be read, a packed file that ends too early.",
        epilog="example: faircount results check results/results_*.jsonl --warnings\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.check", "check"))
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
    add_policy_blocks(group)


def _add_power(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "power",
        help="how many entries a question needs, or what a number of entries can show",
        description="How many entries are needed for an interval or to detect a difference, or what a number of\n"
        "entries can show. Reads nothing. Rates, differences and widths are shares: 0.05 is 5%.",
        epilog="example: faircount results power --rate 0.2 --half-width 0.05 --families 10 --icc 0.3\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.power", "power"))
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
    add_policy_blocks(group)
    add_level(group)
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


def _add_what_is_known_of_the_judge(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("errors of the judge")
    group.add_argument(
        "--judge-quality",
        metavar="SUMMARY|LABELS",
        help="correct the rate for the judge's errors: by a summary of judges evaluate, by labels of a sample of this "
        "run (JSONL, CSV or xlsx), or by labelled texts from elsewhere",
    )
    group.add_argument(
        "--correction",
        choices=CORRECTIONS,
        default=CORRECTIONS[0],
        help="how labels of this run correct it; ppi is PPI++, for labels drawn at random from all entries (default: "
        "two-phase)",
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
        action="append",
        type=evidence_argument,
        metavar="KIND[=N]",
        help="show N entries with prompt and response: successes, failures, errors, blocks, or just N for the bad news "
        "(repeatable; default: 5 in html, else none)",
    )
    group.add_argument(
        "--details", action="store_true", help="show every file at length, also where there are more than three"
    )
