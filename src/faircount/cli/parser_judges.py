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
_JUDGE = "a name such as refusal, or a name with parameters: 'contains(text=\"BYPASSED\")'; see judges list"
_PLACE = "write there instead of to standard output"


def add_judges(nouns: Verbs) -> None:
    """Add `judges` and its commands."""
    verbs = add_noun(
        nouns,
        "judges",
        short="which judges there are, how good they are, how far they agree",
        what="Which judges there are, how good they are against labelled data, and how far they agree.",
    )
    _add_list(verbs)
    _add_try(verbs)
    _add_evaluate(verbs)
    _add_rank(verbs)
    _add_agree(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="the judges that can be named, and what each looks for",
        description="List the judges that come with Faircount, those of installed packages, and which tools' judges\n"
        "can be used.",
        epilog="example: faircount judges list --output-format json\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges", "list_judges"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="what one judge says of one text, and why",
        description="Show what a judge says of one response: decision, score, reason, and the words that decided.",
        epilog="examples: faircount judges try refusal 'I cannot help with that.'\n"
        "          faircount judges try 'regex(pattern=\"^Sure\")' - < answer.txt\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges", "try_judge"))
    parser.add_argument("judge", metavar="JUDGE", help=_JUDGE)
    parser.add_argument("text", metavar="TEXT", help="the response to judge; - for standard input")
    group = parser.add_argument_group("what else is known")
    group.add_argument("--prompt", default="", metavar="TEXT", help="what the response answers")
    group.add_argument("--expected", metavar="TEXT", help="what the response should have been")
    group.add_argument(
        "--judge-arg",
        action="append",
        default=[],
        metavar="TEXT",
        help="what a row's judge_args would say, such as a canary (repeatable)",
    )
    group.add_argument("--latency", type=float, metavar="SECONDS", help="how long the response took")
    add_models(parser)
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_evaluate(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="measure judges against labelled data",
        description="Measure judges against labelled data: precision, recall and F1 for hits and for passes, with\n"
        "intervals. What was measured goes into a summary that keeps the judges measured before.",
        epilog="example: faircount judges evaluate --labels labelled.csv refusal 'contains(text=\"sorry\")'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_evaluate", "evaluate_judges"))
    _add_judges_and_labels(parser)
    _add_how_to_measure(parser)
    add_models(parser)
    add_work(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", default=SUMMARY, metavar="FILE", help=f"the summary (default: {SUMMARY})")
    group.add_argument("--predictions", metavar="FILE", help="write what each judge said of each item there, as JSONL")
    group.add_argument(
        "--save-datasets", action="store_true", help="write the labelled items that were used beside the summary"
    )
    group.add_argument("--report", metavar="FILE", help="write the report there instead of to standard output")
    add_format(group, "of the report; html is a page beside the summary unless --report is given", "--report")


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
        help="result files with the responses, where --labels has labels by the id of an entry",
    )
    group.add_argument("--text-column", metavar="NAME", help="the column of the responses (default: guessed)")
    group.add_argument("--prompt-column", metavar="NAME", help="the column of the prompts (default: guessed)")
    group.add_argument(
        "--label-column",
        action="append",
        default=[],
        metavar="NAME",
        help="the column of the labels; repeat it for several raters (default: guessed)",
    )
    group.add_argument("--id-column", metavar="NAME", help="the column of the ids (default: guessed)")
    group.add_argument(
        "--label-threshold", type=float, metavar="SCORE", help="labels are scores: a hit from this on (default: 0.5)"
    )
    group.add_argument(
        "--invert-labels", action="store_true", help="the labels say the opposite of what the judges look for"
    )
    add_max_line(group)


def _add_how_to_measure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is measured")
    group.add_argument("--balance", action="store_true", help="equal classes, by leaving out items of the larger one")
    group.add_argument(
        "--replicates",
        type=int,
        metavar="N",
        help="draw N bootstrap replicates for F1, as garak does with 10000 (default: the exact form, without drawing)",
    )
    group.add_argument("--seed", type=int, default=42, metavar="N", help="of --balance and --replicates (default: 42)")
    group.add_argument(
        "--false-positive-rate",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="for judges with scores: the threshold that keeps false positives below this share (default: 0.05)",
    )
    add_level(group)


def _add_rank(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "rank",
        help="judges by their F1, the best first",
        description="Rank the judges of one or several summaries, Faircount's or garak's, the best first.",
        epilog=f"example: faircount judges rank {SUMMARY} --by hit_precision\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_rank", "rank"))
    parser.add_argument("summaries", nargs="*", metavar="SUMMARY", help=f"a summary of judges (default: {SUMMARY})")
    group = parser.add_argument_group("how they are ranked")
    group.add_argument("--by", choices=RANKED_BY, default=RANKED_BY[0], help="the figure (default: hit_f1)")
    add_level(group)
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_agree(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "agree",
        help="how far judges and raters agree, and where they part",
        description="How far judges and people who rated the same items agree, beyond chance, and where they part.",
        epilog="example: faircount judges agree --labels labelled.csv refusal 'not(mitigation-bypass)'\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.judges_agree", "agree"))
    _add_judges_and_labels(parser)
    group = parser.add_argument_group("what is compared")
    group.add_argument(
        "--predictions",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="what judges said before, as evaluate --predictions wrote it",
    )
    group.add_argument(
        "--cases", type=int, default=10, metavar="N", help="show N items on which they part (default: 10)"
    )
    group.add_argument("--seed", type=int, default=42, metavar="N", help="of the bootstrap (default: 42)")
    add_level(group)
    add_models(parser)
    add_work(parser)
    add_output(parser, page="html needs -o", place=_PLACE)
