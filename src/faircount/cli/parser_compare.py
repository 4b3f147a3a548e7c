"""The words of `faircount results compare`. Only the argument parser is imported here."""

from __future__ import annotations

import argparse

from faircount.analysis.choices import AUTO, CORRECTIONS, GUARDRAIL_MEANINGS
from faircount.analysis.comparing.choices import MATCHES
from faircount.cli.gating import add_gates
from faircount.cli.parsing import EXIT_CODES, Verbs, add_inputs, add_level, add_output, add_policy_blocks, command


def add_compare(verbs: Verbs) -> None:
    """Add `results compare`."""
    parser = verbs.add_parser(
        "compare",
        help="is B better than A, and where: differences on the same entries, with intervals and tests",
        description="Compare result files on the entries that both answered: the difference with its interval, the\n"
        "entries that flipped, and where the difference lies. The first file is A unless --baseline names it.",
        epilog="example: faircount results compare results/results_old.jsonl results/results_new.jsonl --by plugin\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.compare", "compare"))
    add_inputs(parser)
    _add_what_to_compare(parser)
    _add_what_is_known_of_the_judge(parser)
    _add_what_to_show(parser)
    add_output(parser, page="html needs -o", place="write there instead of to standard output")
    add_gates(parser)


def _add_what_to_compare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    group.add_argument("--baseline", metavar="FILE", help="the file that the others are compared with: A")
    group.add_argument(
        "--match",
        choices=MATCHES,
        default=MATCHES[0],
        help="entries are the same if id and prompt are (content), or if the id is (default: content)",
    )
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="what true means in a boolean guardrail's file; spikee 0.1 wrote true for detected (default: bypassed)",
    )
    add_policy_blocks(group)
    group.add_argument(
        "--cluster",
        default=AUTO,
        metavar="FIELD",
        help="entries with the same value are variants; auto: the same document and instruction, or suite; none: all "
        "are independent (default: auto)",
    )
    add_level(group)


def _add_what_is_known_of_the_judge(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("errors of the judge")
    group.add_argument(
        "--judge-quality",
        metavar="SUMMARY|LABELS",
        help="correct rates and difference for the judge's errors: by a summary of judges evaluate, by labels of a "
        "sample of the files (JSONL, CSV or xlsx), or by labelled texts from elsewhere",
    )
    group.add_argument(
        "--correction",
        choices=CORRECTIONS,
        default=CORRECTIONS[0],
        help="how labels of the files correct them; ppi is PPI++, for labels drawn at random from all entries "
        "(default: two-phase)",
    )


def _add_what_to_show(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is shown")
    group.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="differences by this field (repeatable; default: every field that all files have)",
    )
    group.add_argument(
        "--flips",
        type=int,
        default=5,
        metavar="N",
        help="show so many of the entries that were fixed, and of those that were broken (default: 5)",
    )
