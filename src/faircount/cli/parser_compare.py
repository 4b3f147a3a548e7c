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
        help="compare runs on the same entries: differences with intervals and tests",
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
    add_output(parser, page="html needs -o", place="write to FILE instead of standard output")
    add_gates(parser)


def _add_what_to_compare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("comparison")
    group.add_argument("--baseline", metavar="FILE", help="file to compare the others with (A)")
    group.add_argument(
        "--match",
        choices=MATCHES,
        default=MATCHES[0],
        help="match entries by id and prompt (prompt) or by id alone (id); auto takes the id alone where ids match and "
        "most prompts differ (default: auto)",
    )
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="meaning of true in a boolean guardrail's file; spikee 0.1 wrote true for detected (default: bypassed)",
    )
    add_policy_blocks(group)
    group.add_argument(
        "--cluster",
        default=AUTO,
        metavar="FIELD",
        help="treat entries with the same value as variants; auto: same document and instruction, or same suite; "
        "none: all are independent (default: auto)",
    )
    add_level(group)


def _add_what_is_known_of_the_judge(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("judge errors")
    group.add_argument(
        "--judge-quality",
        metavar="SUMMARY|LABELS",
        help="correct rates and differences for judge errors, using a summary from judges evaluate, labels for a "
        "sample of the files (JSONL, CSV or xlsx), or labelled texts from elsewhere",
    )
    group.add_argument(
        "--correction",
        choices=CORRECTIONS,
        default=CORRECTIONS[0],
        help="how to correct with labels for the files; ppi is PPI++, for labels drawn at random from all entries "
        "(default: two-phase)",
    )


def _add_what_to_show(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("display")
    group.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="show differences by this field (repeatable; default: every field that all files have)",
    )
    group.add_argument(
        "--flips",
        type=int,
        default=5,
        metavar="N",
        help="show N fixed and N broken entries (default: 5)",
    )
