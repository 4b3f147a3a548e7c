"""The command `judges agree`."""

from __future__ import annotations

import argparse
import sys

from faircount.analysis.judges.agreement import Agreement, AgreementOptions, measure_agreement
from faircount.analysis.judges.agreement_report import as_report
from faircount.analysis.judges.predictions import read_predictions
from faircount.cli.judge_setting import check_work, concurrency_of, made_judges, setting_of
from faircount.cli.label_arguments import label_options, labels_and_judges
from faircount.cli.output import refuse_inputs, refuse_page_without_place, show_one
from faircount.cli.progress import CountingBar
from faircount.errors import InputError, UsageError
from faircount.judging.judge import Judge
from faircount.reading.labels import read_labels
from faircount.text import visible


def agree(arguments: argparse.Namespace) -> int:
    """Run `judges agree`."""
    refuse_page_without_place(arguments)
    files, expressions = labels_and_judges(arguments)
    if not files and not arguments.predictions:
        raise UsageError("nothing to compare: give labelled data with --labels, or predictions with --predictions")
    if expressions and not files:
        raise UsageError(f"{expressions[0]}: judges need labelled data; name it with --labels")
    options = _options(arguments)
    inputs = [*files, *arguments.results, *arguments.predictions]
    if arguments.output is not None:
        refuse_inputs(arguments.output, inputs)
    judges = made_judges(expressions, arguments) if expressions else []
    predictions = read_predictions(arguments.predictions)
    labels = read_labels(files, label_options(arguments, text_needed=bool(judges))) if files else None
    with CountingBar("Judging", "items") as bar:
        agreement = measure_agreement(labels, predictions, judges, options, bar.advance)
    report = as_report(agreement)
    show_one("agreement", report, arguments, inputs)
    return _troubles(agreement, judges)


def _options(arguments: argparse.Namespace) -> AgreementOptions:
    check_work(arguments)
    if arguments.cases < 0:
        raise UsageError("--cases cannot be negative")
    return AgreementOptions(
        cases=arguments.cases,
        # Programs can choose among all of them.
        every_case=arguments.output_format == "json",
        level=arguments.level,
        seed=arguments.seed,
        workers=arguments.workers,
        concurrency=concurrency_of(setting_of(arguments)),
    )


def _troubles(agreement: Agreement, judges: list[Judge]) -> int:
    """Say which of the judges that were asked decided nothing; return the exit code."""
    asked = {judge.identity.digest for judge in judges}
    silent = [figures for figures in agreement.raters if figures.identity in asked and not figures.decided]
    for figures in silent:
        reason = figures.error or "no reason given"
        print(  # noqa: T201
            f"faircount: {visible(figures.name)}: decided none of the items: {visible(reason)}", file=sys.stderr
        )
    return InputError.exit_code if silent else 0
