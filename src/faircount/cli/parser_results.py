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


def evidence_argument(text: str) -> tuple[str, int]:
    """Return what --evidence asks for: a kind of entries, empty for the bad news, and how many of them."""
    kind, equals, number = text.partition("=")
    if not equals and text.isdecimal():
        kind, number = "", text
    number = number if equals or not kind else "5"
    if kind not in ("", *EVIDENCE) or not number.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; use {', '.join(EVIDENCE)}, optionally with =N, or N alone"
        )
    return kind, int(number)


def add_results(nouns: Verbs) -> tuple[str, ...]:
    """Add `results` and its commands, and return their names."""
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
    return tuple(verbs.choices)


def _add_analyze(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "analyze",
        help="compute rates with intervals and breakdowns, and list problems with the data",
        description="Analyse result files: each on its own, in the order given, or all together with --combine.",
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
        help="write the rows that succeeded, failed or match a query to a new dataset",
        description="Write the rows selected by a category, a query or search terms to a new dataset.",
        epilog="examples: faircount results extract results/results_*.jsonl --category failure\n"
        "          faircount results extract results/results_*.jsonl --where 'error contains \"time-out\"'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.extract", "extract"))
    add_inputs(parser)
    _add_what_to_extract(parser)
    _add_where_to_extract_to(parser)


def _add_what_to_extract(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--category",
        choices=CATEGORIES,
        help="rows of one category; failure (or fail) excludes errors, errors and error are the same (default: "
        "success, or what --where or --custom-search selects)",
    )
    group.add_argument("--where", metavar="QUERY", help="rows that match a query; see the query reference")
    group.add_argument("--query", metavar="QUERY", help="spikee's name for --where --ignore-case")
    group.add_argument(
        "--custom-search",
        action="append",
        default=[],
        metavar="TERM",
        help="rows that contain a term: term, field:term, !term or !field:term (repeatable, all must match; can be "
        "a list: lang:en,plugin:hex)",
    )
    group.add_argument("--ignore-case", action="store_true", help="ignore case in --where and --custom-search")
    group.add_argument("--regex", action="store_true", help="treat --custom-search terms as regular expressions")
    _add_definition(group, "whose definitions of categories and outcomes to use (default: faircount)")
    add_policy_blocks(group)
    group.add_argument("--entries", action="store_true", help="all rows of each entry that has a matching row")


def _add_where_to_extract_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file (default: results/extract_<category>[_<tag>]_<time>.jsonl)",
    )
    _add_name_of_new_file(group)


def _add_export(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "export",
        help="export rows or entries as JSONL, CSV, Parquet, Excel or HTML",
        description="Export rows, or the entries that they belong to, in a format that other programs read.",
        epilog="examples: faircount results export results/results_x.jsonl --to parquet\n"
        "          faircount results export results/results_*.jsonl --where 'outcome = error' --columns id,error "
        "-o errors.csv\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.export", "export"))
    add_inputs(parser)
    group = parser.add_argument_group("selection")
    group.add_argument("--entries", action="store_true", help="export entries instead of rows")
    group.add_argument(
        "--where",
        metavar="QUERY",
        help="rows that match a query, or entries with such a row; see the query reference",
    )
    group.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,…",
        help="only these columns, in this order, named as in queries: id,outcome,attempt_history[0].error (repeatable)",
    )
    _add_definition(group, "whose definitions of outcomes and entries to use (default: faircount)")
    add_policy_blocks(group)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--to",
        choices=("jsonl", "csv", "parquet", "xlsx", "html"),
        help="format (default: from the suffix of the -o file)",
    )
    group.add_argument(
        "--raw", action="store_true", help="csv only: keep texts unchanged instead of making them safe for spreadsheets"
    )
    _add_file_to_export_to(group, "output file; - is standard output, for csv and jsonl (default: next to the input)")


def _add_convert_to_excel(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "convert-to-excel",
        help="write an Excel workbook with the rows, the analysis with charts, and the findings",
        description="Write an Excel workbook with sheets for the rows, the analysis with charts, and the findings.",
        epilog="example: faircount results convert-to-excel --result-file results/results_x.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.export", "convert_to_excel"))
    add_inputs(parser)
    group = parser.add_argument_group("counting")
    group.add_argument("--combine", action="store_true", help="one analysis over all files instead of one per file")
    _add_definition(group, "whose definitions to count by (default: faircount)")
    add_policy_blocks(group)
    group = parser.add_argument_group("output")
    _add_file_to_export_to(
        group, "output file (default: x.xlsx next to x.jsonl; Combined.xlsx in the current folder for several files)"
    )


def _add_definition(group: argparse._ArgumentGroup, words: str) -> None:
    group.add_argument("--definition", choices=DEFINITIONS, default=DEFINITIONS[0], help=words)


def _add_guardrail_success(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="meaning of true in a boolean guardrail's file; spikee 0.1 wrote true for detected (default: bypassed)",
    )


def _add_name_of_new_file(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tag", metavar="TAG", help="tag in the default file name: letters, digits, - and _")
    group.add_argument("--force", action="store_true", help="overwrite FILE if it already exists")


def _add_file_to_export_to(group: argparse._ArgumentGroup, words: str) -> None:
    group.add_argument("-o", "--output", metavar="FILE", help=words)
    group.add_argument("--force", action="store_true", help="overwrite FILE even if Faircount did not write it")


def _add_dataset_comparison(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "dataset-comparison",
        help="find entries of a dataset that succeed on many targets, or on few, and how success transfers",
        description="Compare the entries of a dataset across several targets, one result file each, and write those\n"
        "with a high or a low success rate to a new dataset.",
        epilog="example: faircount results dataset-comparison --dataset-file my.jsonl results/results_*.jsonl -n 50\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.dataset_comparison", "dataset_comparison"))
    add_inputs(parser)
    _add_what_to_compare(parser)
    _add_where_to_compare_to(parser)


def _add_what_to_compare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--dataset-file",
        "--dataset",
        dest="dataset",
        action="append",
        default=[],
        metavar="FILE",
        help="dataset that the results were made with",
    )
    group.add_argument(
        "--success-threshold",
        type=float,
        default=0.8,
        metavar="SHARE",
        help="select entries with a success rate above (or below) this (default: 0.8)",
    )
    group.add_argument(
        "--success-definition",
        choices=("gt", "lt"),
        default="gt",
        help="gt selects rates above the threshold, lt rates below it (default: gt)",
    )
    group.add_argument(
        "-n",
        "--number",
        type=int,
        default=-1,
        metavar="N",
        help="write at most N entries: the highest rates, or with lt the lowest (default: all)",
    )
    group.add_argument(
        "--skip-validation",
        action="store_true",
        help="continue if results lack entries of the dataset, and show how many",
    )
    _add_guardrail_success(group)
    _add_definition(group, "whose rules for matching and counting entries to use (default: faircount)")
    add_policy_blocks(group)
    add_level(group)


def _add_where_to_compare_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="new dataset (default: datasets/comparison_<dataset>[_<tag>]_<time>.jsonl)",
    )
    _add_name_of_new_file(group)
    add_format(group, "html goes next to the new dataset unless --report is given", "--report")
    group.add_argument("--report", metavar="FILE", help="write the report to FILE instead of standard output")


def _add_show(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "show",
        help="show everything that is recorded about one entry",
        description="Show an entry: its outcome and why, its attempts with their texts, and rows that are not counted.",
        epilog="example: faircount results show 12 results/results_*.jsonl\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.show", "show"))
    group = parser.add_argument_group("entry")
    group.add_argument("id", metavar="ID", help="entry id, row id such as 12-attack, or long id of a row")
    add_inputs(parser)
    _add_how_to_fold(parser)
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")


def _add_check(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "check",
        help="list problems with result files; exit code 1 if any is serious",
        description="Report how many lines of result files could be read, and list problems with the data, without\n"
        "rates. Findings of severity error are serious: unreadable lines, a truncated compressed file.",
        epilog="example: faircount results check results/results_*.jsonl --warnings\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.check", "check"))
    add_inputs(parser)
    _add_how_to_fold(parser)
    group = parser.add_argument_group("severity")
    group.add_argument("--warnings", action="store_true", help="exit with 1 on warnings, too")
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")


def _add_how_to_fold(parser: argparse.ArgumentParser) -> None:
    """Add what decides which rows make an entry, and what they mean."""
    group = parser.add_argument_group("counting")
    group.add_argument("--combine", action="store_true", help="count all files together, as analyze --combine does")
    _add_guardrail_success(group)
    add_policy_blocks(group)


def _add_power(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "power",
        help="calculate how many entries a question needs, or what a number of entries can show",
        description="Calculate how many entries are needed for an interval or to detect a difference, or what a\n"
        "number of entries can show. Reads no files. Rates, differences and widths are shares: 0.05 is 5%.",
        epilog="example: faircount results power --rate 0.2 --half-width 0.05 --families 10 --icc 0.3\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.power", "power"))
    _add_what_to_ask(parser)
    _add_what_to_assume(parser)
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")


def _add_what_to_ask(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("question: one or more of the first three, or --entries")
    group.add_argument(
        "--half-width",
        type=float,
        metavar="W",
        help="entries needed for an interval with a half-width of W, such as 0.05",
    )
    group.add_argument(
        "--difference",
        type=float,
        metavar="D",
        help="entries needed to detect that two rates differ by D; negative for a decrease",
    )
    group.add_argument(
        "--zero-hits",
        type=float,
        metavar="UPPER",
        help="entries needed, without a single success, to show that the rate is at most UPPER",
    )
    group.add_argument("--entries", type=int, metavar="N", help="interval and difference that N entries can show")


def _add_what_to_assume(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("assumptions")
    group.add_argument("--rate", type=float, metavar="P", help="expected rate of the first target (default: 0.5)")
    group.add_argument(
        "--paired", action="store_true", help="both targets get the same entries; needs --discordant, which implies it"
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
    group.add_argument("--icc", type=float, metavar="RHO", help="correlation of outcomes within a family, from 0 to 1")
    group.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level; tests are two-sided at 1 - P (default: 0.95)",
    )
    group.add_argument(
        "--power", type=float, metavar="P", help="probability of detecting the difference (default: 0.8)"
    )


def _add_what_to_count(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("counting")
    group.add_argument("--combine", action="store_true", help="one analysis over all files, with a table per source")
    group.add_argument("--where", metavar="QUERY", help="only rows that match a query, such as 'lang = de'")
    group.add_argument(
        "--false-positive-checks",
        metavar="BENIGN_FILE",
        help="measure a guardrail with a second run on benign prompts",
    )
    _add_guardrail_success(group)
    group.add_argument(
        "--block-signal",
        choices=BLOCK_SIGNALS,
        default=BLOCK_SIGNALS[0],
        help="what --false-positive-checks counts as blocked: a false verdict or a raised guardrail, or only a "
        "raised one (default: verdict)",
    )
    _add_definition(group, "whose definitions to count by (default: faircount)")
    add_policy_blocks(group)
    add_level(group)
    group.add_argument(
        "--cluster",
        default=AUTO,
        metavar="FIELD|auto|none",
        help="group variants by this field, for the intervals; auto: by document and instruction; none: treat all "
        "entries as independent (default: auto)",
    )
    group.add_argument(
        "--generalise",
        metavar="FIELD|attacks",
        help="show an interval for values of this field in general, beside the one for those tested; attacks: for "
        "jailbreak types",
    )
    group.add_argument(
        "--min-n",
        type=int,
        default=1,
        metavar="N",
        help="rank only combinations with at least N entries (default: 1)",
    )


def _add_what_is_known_of_the_judge(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("judge errors")
    group.add_argument(
        "--judge-quality",
        metavar="SUMMARY|LABELS",
        help="correct the rate for judge errors, using a summary from judges evaluate, labels for a sample of this "
        "run (JSONL, CSV or xlsx), or labelled texts from elsewhere",
    )
    group.add_argument(
        "--correction",
        choices=CORRECTIONS,
        default=CORRECTIONS[0],
        help="how to correct with labels for this run; ppi is PPI++, for labels drawn at random from all entries "
        "(default: two-phase)",
    )


def _add_what_to_show(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("display")
    group.add_argument("--overview", action="store_true", help="show only the overview")
    group.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="break down by this field (repeatable; short names: attack, document, judge)",
    )
    group.add_argument("--sort", choices=SORTS, default=SORTS[0], help="order of the groups (default: rate)")
    group.add_argument(
        "--evidence",
        action="append",
        type=evidence_argument,
        metavar="KIND[=N]",
        help="show N entries with prompt and response: successes, failures, errors, blocks, or just N for "
        "successful attacks and failed tests (repeatable; default: 5 in html, else none)",
    )
    group.add_argument(
        "--details", action="store_true", help="show every file in full, even if there are more than three"
    )
