"""The words of `faircount judges`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import RANKED_BY
from faircount.cli.parsing import (
    EXIT_CODES,
    Verbs,
    add_format,
    add_level,
    add_max_line,
    add_models,
    add_noun,
    add_output,
    add_work,
    command,
)

SUMMARY = "data/detectors-eval/detector_metrics_summary.json"
_JUDGE = "judge name such as refusal, with parameters if needed: 'contains(text=\"BYPASSED\")'; see judges list"
_PLACE = "write to FILE instead of standard output"


def add_judges(nouns: Verbs) -> None:
    """Add `judges` and its commands."""
    verbs = add_noun(
        nouns,
        "judges",
        short="list judges, try them, and measure their quality and agreement",
        what="List judges, try them, and measure their quality against labelled data and their agreement.",
    )
    _add_list(verbs)
    _add_try(verbs)
    _add_evaluate(verbs)
    _add_rank(verbs)
    _add_agree(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="list the available judges and what they look for",
        description="List the built-in judges, those of installed packages, and which other tools' judges can be used.",
        epilog="example: faircount judges list --output-format json\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges", "list_judges"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="apply one judge to one text and explain the verdict",
        description="Show a judge's verdict on one response: decision, score, reason, and the words that decided it.",
        epilog="examples: faircount judges try refusal 'I cannot help with that.'\n"
        "          faircount judges try 'regex(pattern=\"^Sure\")' - < answer.txt\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges", "try_judge"))
    parser.add_argument("judge", metavar="JUDGE", help=_JUDGE)
    parser.add_argument("text", metavar="TEXT", help="response to judge; - for standard input")
    group = parser.add_argument_group("context")
    group.add_argument("--prompt", default="", metavar="TEXT", help="prompt that the response answers")
    group.add_argument("--expected", metavar="TEXT", help="expected response")
    group.add_argument(
        "--judge-arg",
        action="append",
        default=[],
        metavar="TEXT",
        help="value of judge_args in a row, such as a canary (repeatable)",
    )
    group.add_argument("--latency", type=float, metavar="SECONDS", help="response time")
    add_models(parser)
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_evaluate(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="measure judges against labelled data",
        description="Measure judges against labelled data: precision, recall and F1 for hits and for passes, with\n"
        "intervals. The results are added to a summary file; judges measured earlier stay in it.",
        epilog="example: faircount judges evaluate --labels labelled.csv refusal 'contains(text=\"sorry\")'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_evaluate", "evaluate_judges"))
    _add_judges_and_labels(parser)
    _add_how_to_measure(parser)
    add_models(parser)
    add_work(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", default=SUMMARY, metavar="FILE", help=f"summary file (default: {SUMMARY})")
    group.add_argument("--predictions", metavar="FILE", help="write each judge's verdict on each item, as JSONL")
    group.add_argument("--save-datasets", action="store_true", help="save the labelled items used next to the summary")
    group.add_argument("--report", metavar="FILE", help="write the report to FILE instead of standard output")
    add_format(group, "html goes next to the summary unless --report is given", "--report")


def _add_judges_and_labels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("judges", nargs="*", metavar="JUDGE", help=_JUDGE)
    group = parser.add_argument_group("labelled data")
    group.add_argument(
        "--labels",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="JSONL or CSV with responses and labels: hit or pass, true or false, 1 or 0, or scores",
    )
    group.add_argument(
        "--results",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="result files with the responses, if --labels has only labels by entry id",
    )
    group.add_argument("--text-column", metavar="NAME", help="column of the responses (default: guessed)")
    group.add_argument("--prompt-column", metavar="NAME", help="column of the prompts (default: guessed)")
    group.add_argument(
        "--label-column",
        action="append",
        default=[],
        metavar="NAME",
        help="column of the labels; repeat it for several raters (default: guessed)",
    )
    group.add_argument("--id-column", metavar="NAME", help="column of the ids (default: guessed)")
    group.add_argument(
        "--label-threshold",
        type=float,
        metavar="SCORE",
        help="labels are scores; this score or more is a hit (default: 0.5)",
    )
    group.add_argument(
        "--invert-labels", action="store_true", help="labels mean the opposite of what the judges look for"
    )
    add_max_line(group)


def _add_how_to_measure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("measurement")
    group.add_argument("--balance", action="store_true", help="balance the classes by dropping items of the larger one")
    group.add_argument(
        "--replicates",
        type=int,
        metavar="N",
        help="use N bootstrap replicates for F1, as garak does with 10000 (default: exact, without resampling)",
    )
    group.add_argument(
        "--seed", type=int, default=42, metavar="N", help="random seed of --balance and --replicates (default: 42)"
    )
    group.add_argument(
        "--false-positive-rate",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="for judges with scores: find the threshold that keeps the false positive rate below this (default: 0.05)",
    )
    add_level(group)


def _add_rank(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "rank",
        help="rank judges by F1, best first",
        description="Rank the judges in one or more summaries from Faircount or garak, best first.",
        epilog=f"example: faircount judges rank {SUMMARY} --by hit_precision\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_rank", "rank"))
    parser.add_argument("summaries", nargs="*", metavar="SUMMARY", help=f"summary of judges (default: {SUMMARY})")
    group = parser.add_argument_group("ranking")
    group.add_argument("--by", choices=RANKED_BY, default=RANKED_BY[0], help="metric to rank by (default: hit_f1)")
    add_level(group)
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_agree(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "agree",
        help="measure how far judges and raters agree, and show where they disagree",
        description="Measure how far judges and human raters agree beyond chance, and show where they disagree.",
        epilog="example: faircount judges agree --labels labelled.csv refusal 'not(mitigation-bypass)'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_agree", "agree"))
    _add_judges_and_labels(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--predictions",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="earlier verdicts, as written by evaluate --predictions",
    )
    group.add_argument("--cases", type=int, default=10, metavar="N", help="show N items they disagree on (default: 10)")
    group.add_argument("--seed", type=int, default=42, metavar="N", help="random seed of the bootstrap (default: 42)")
    add_level(group)
    add_models(parser)
    add_work(parser)
    add_output(parser, page="html needs -o", place=_PLACE)
