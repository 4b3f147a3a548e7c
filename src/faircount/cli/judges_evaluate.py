"""The command `judges evaluate`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from faircount.analysis.judges.evaluation import EvaluateOptions, Listeners, evaluate
from faircount.analysis.judges.predictions import prediction_line
from faircount.analysis.judges.quality import Evaluation, EvaluationSettings
from faircount.analysis.judges.quality_report import as_report
from faircount.analysis.judges.summary import evaluation_document
from faircount.cli.judge_setting import check_work, concurrency_of, made_judges, setting_of
from faircount.cli.judge_summary import update_file
from faircount.cli.label_arguments import label_options, labels_and_judges
from faircount.cli.messages import note
from faircount.cli.output import refuse_inputs, show, show_pages
from faircount.cli.progress import CountingBar
from faircount.errors import InputError, UsageError
from faircount.judging.judge import Judge
from faircount.judging.verdict import Verdict
from faircount.present.new_file import NewFile
from faircount.reading.labelled import Labelled
from faircount.reading.labels import read_labels, saved_row


def evaluate_judges(arguments: argparse.Namespace) -> int:
    """Run `judges evaluate`."""
    files, expressions = labels_and_judges(arguments)
    if not files:
        raise UsageError("no labelled data given: name a file with --labels")
    if not expressions:
        raise UsageError("no judge given: name one, such as refusal; see `faircount judges list`")
    judges = made_judges(expressions, arguments)
    options = _options(arguments)
    _refuse_overwriting(arguments, files)
    labels = read_labels(files, label_options(arguments))
    with contextlib.ExitStack() as stack:
        listeners = _listeners(arguments, judges, stack)
        evaluation = evaluate(judges, labels, options, listeners)
    _finish(arguments, evaluation, files)
    for trouble in evaluation.errors:
        note(f"{trouble.judge}: {trouble.error}")
    return InputError.exit_code if evaluation.errors else 0


def _options(arguments: argparse.Namespace) -> EvaluateOptions:
    check_work(arguments)
    settings = EvaluationSettings(
        level=arguments.level,
        replicates=arguments.replicates,
        seed=arguments.seed,
        balance=arguments.balance,
        save_datasets=arguments.save_datasets,
        inverted=arguments.invert_labels,
        wanted_fpr=arguments.false_positive_rate,
    )
    return EvaluateOptions(settings, arguments.workers, concurrency_of(setting_of(arguments)))


def _refuse_overwriting(arguments: argparse.Namespace, files: Sequence[str]) -> None:
    """Raise before anything is judged if what is to be written would replace what is to be read."""
    places = [arguments.output, arguments.predictions, arguments.report, _dataset_path(arguments)]
    for place in places:
        if place is not None:
            refuse_inputs(place, [*files, *arguments.results])


# -- what is written while judges decide ------------------------------------------------------------------------


def _listeners(arguments: argparse.Namespace, judges: Sequence[Judge], stack: contextlib.ExitStack) -> Listeners:
    bar = stack.enter_context(CountingBar("Judging", "items"))
    keep = _saving(arguments, stack)
    tell = _predicting(arguments, judges, stack)

    def judged(item: Labelled, verdicts: Sequence[Verdict]) -> None:
        bar.advance()
        tell(item, verdicts)

    return Listeners(taken=keep, judged=judged)


def _saving(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> Callable[[Labelled], None]:
    path = _dataset_path(arguments)
    if path is None:
        return lambda _: None
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context(NewFile(path, force=True))
    return lambda item: file.write(saved_row(item))


def _dataset_path(arguments: argparse.Namespace) -> str | None:
    """Return where the items that were used go: beside the summary, by its name."""
    if not arguments.save_datasets:
        return None
    summary = Path(arguments.output)
    return str(summary.with_name(f"{summary.stem}_dataset.jsonl"))


def _predicting(
    arguments: argparse.Namespace, judges: Sequence[Judge], stack: contextlib.ExitStack
) -> Callable[[Labelled, Sequence[Verdict]], None]:
    if arguments.predictions is None:
        return lambda *_: None
    file = stack.enter_context(NewFile(arguments.predictions, force=True))
    known = [(judge.called, judge.identity.digest) for judge in judges]

    def tell(item: Labelled, verdicts: Sequence[Verdict]) -> None:
        for (called, digest), verdict in zip(known, verdicts, strict=True):
            file.write(prediction_line(called, digest, item, verdict))

    return tell


# -- the answer -------------------------------------------------------------------------------------------------


def _finish(arguments: argparse.Namespace, evaluation: Evaluation, files: Sequence[str]) -> None:
    update_file(arguments.output, evaluation_document(evaluation))
    report = as_report(evaluation)
    if arguments.output_format == "html":
        show_pages([(arguments.output, report)], arguments.report, files)
        return
    show(report, arguments.output_format, arguments.report, files)
    if arguments.output_format == "console":
        note(f"summary: {arguments.output}")
