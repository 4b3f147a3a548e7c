"""The words of `faircount results sample-for-labels`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.analysis.choices import GUARDRAIL_MEANINGS
from faircount.cli.parsing import EXIT_CODES, Verbs, add_inputs, command


def add_sample_for_labels(verbs: Verbs) -> None:
    """Add `results sample-for-labels`."""
    parser = verbs.add_parser(
        "sample-for-labels",
        help="draw entries for people to label, to correct the rate for judge errors",
        description="Draw the entries whose labels are most informative about the judge, into a sheet that hides its\n"
        "verdicts. Pass the completed sheet to analyze with --judge-quality.",
        epilog="example: faircount results sample-for-labels results/results_x.jsonl --n 50 -o labels.xlsx\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.sample_for_labels", "sample_for_labels"))
    add_inputs(parser)
    group = parser.add_argument_group("sampling")
    group.add_argument("--n", type=int, default=50, metavar="N", help="number of entries (default: 50)")
    group.add_argument(
        "--by",
        metavar="FIELD",
        help="spread them over the values of this field (default: the first of spikee's fields with several values)",
    )
    group.add_argument("--seed", type=int, default=42, metavar="N", help="random seed of the sample (default: 42)")
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="meaning of true in a boolean guardrail's file (default: bypassed)",
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        default="labels.jsonl",
        metavar="FILE",
        help="label sheet, .jsonl or .xlsx; the sampling design goes to FILE.design.json (default: labels.jsonl)",
    )
    group.add_argument("--force", action="store_true", help="overwrite FILE if it already exists")
    group.add_argument(
        "--output-format",
        choices=("console", "json", "markdown"),
        default="console",
        help="report format (default: console)",
    )
