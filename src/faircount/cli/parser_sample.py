"""The words of `faircount results sample-for-labels`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.analysis.choices import GUARDRAIL_MEANINGS
from faircount.cli.parsing import EXIT_CODES, Verbs, add_inputs, command


def add_sample_for_labels(verbs: Verbs) -> None:
    """Add `results sample-for-labels`."""
    parser = verbs.add_parser(
        "sample-for-labels",
        help="a sheet of entries for people to label, to correct the rate for the judge's errors",
        description="Draw the entries whose labels tell most about the judge, into a sheet that does not show its\n"
        "verdicts. The sheet, filled in, is what analyze takes as --judge-quality.",
        epilog="example: faircount results sample-for-labels results/results_x.jsonl --n 50 -o labels.xlsx\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.sample_for_labels", "sample_for_labels"))
    add_inputs(parser)
    group = parser.add_argument_group("what is drawn")
    group.add_argument("--n", type=int, default=50, metavar="N", help="so many entries (default: 50)")
    group.add_argument(
        "--by",
        metavar="FIELD",
        help="spread them over the values of this field (default: the first of spikee's fields that has several)",
    )
    group.add_argument(
        "--seed", type=int, default=42, metavar="N", help="another sample for another seed (default: 42)"
    )
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="what true means in a boolean guardrail's file (default: bypassed)",
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        default="labels.jsonl",
        metavar="FILE",
        help="the sheet: .jsonl or .xlsx; how it was drawn stands beside it in FILE.design.json "
        "(default: labels.jsonl)",
    )
    group.add_argument("--force", action="store_true", help="replace FILE if it is there already")
    group.add_argument(
        "--output-format",
        choices=("console", "json", "markdown"),
        default="console",
        help="of what is told about the sample (default: console)",
    )
