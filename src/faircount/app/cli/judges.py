"""The commands about judges."""

from __future__ import annotations

import sys
from pathlib import Path

from faircount.analysis.options import (
    SUMMARY,
    AgreeOptions,
    JudgesAndLabels,
    MeasureOptions,
    RankOptions,
    TryJudgeOptions,
    WorkOptions,
)
from faircount.app import judges
from faircount.app.cli.parts import Output, ReportOutput
from faircount.app.cli.progress import CountingBar
from faircount.app.cli.runner import CommandResult
from faircount.app.options import Models
from faircount.app.output_files import refuse_inputs
from faircount.core.errors import InputError, UsageError
from faircount.io.streams import STDIN
from faircount.readers.label_types import LabelOptions

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".gz", ".zst")
_LONGEST = 64 * 1024 * 1024


def list_judges(_: Output) -> CommandResult:
    """Run `judges list`."""
    from faircount.analysis import catalogue

    return CommandResult(report=catalogue.judges_report(catalogue.list_judges()), name="judges")


def try_judge(options: TryJudgeOptions, models: Models, _: Output) -> CommandResult:
    """Run `judges try`."""
    from faircount.analysis.catalogue import judge_report

    trial = judges.try_judge(options.judge, text_of(options.text), options=[options, models])
    undecided = trial.decision is None
    return CommandResult(
        report=judge_report(trial),
        name="verdict",
        inputs=[models.config] if models.config else [],
        notes=[f"{trial.judge}: {trial.error or 'the judge did not decide'}"] if undecided else [],
        code=InputError.exit_code if undecided else 0,
    )


def text_of(word: str) -> str:
    """Return the text that is meant: the word itself or, for -, standard input without the line feed at its end."""
    if word != STDIN:
        return word
    if sys.stdin is None:
        raise UsageError("no standard input; give the text itself")
    content = sys.stdin.buffer.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise InputError("standard input: is larger than 64 MiB")
    # A byte that is not UTF-8 becomes a character that says so; to refuse the rest would help nobody.
    return content.decode("utf-8-sig", "replace").removesuffix("\n")


def evaluate(
    given: JudgesAndLabels,
    reading: LabelOptions,
    options: MeasureOptions,
    models: Models,
    work: WorkOptions,
    output: ReportOutput,
) -> CommandResult:
    """Run `judges evaluate`."""
    from faircount.analysis.judges.evaluation import as_report

    labels, expressions = _labels_and_judges(given)
    summary = SUMMARY if options.output is None else options.output
    if output.report is not None:
        refuse_inputs(output.report, [*labels, *reading.results])
    with CountingBar("Judging", "items") as bar:
        found = judges.evaluate(
            labels, *expressions, output=summary, options=[reading, options, models, work], progress=bar.advance
        )
    notes = [f"summary: {summary}"] if output.format == "console" else []
    return CommandResult(
        report=as_report(found),
        name=summary,
        inputs=labels,
        notes=[*notes, *(f"{trouble.judge}: {trouble.error}" for trouble in found.errors)],
        code=InputError.exit_code if found.errors else 0,
    )


def rank(options: RankOptions, _: Output) -> CommandResult:
    """Run `judges rank`."""
    from faircount.analysis.judges.ranking import as_report

    found = judges.rank(options=options)
    return CommandResult(report=as_report(found), name="ranking", inputs=found.summaries)


def agree(
    given: JudgesAndLabels,
    reading: LabelOptions,
    options: AgreeOptions,
    models: Models,
    work: WorkOptions,
    output: Output,
) -> CommandResult:
    """Run `judges agree`."""
    from faircount.analysis.judges.agreement_report import as_report

    labels, expressions = _labels_and_judges(given)
    inputs = [*labels, *reading.results, *options.predictions]
    if output.path is not None:
        refuse_inputs(output.path, inputs)
    undecided: list[str] = []
    with CountingBar("Judging", "items") as bar:
        found = judges.agree(
            labels,
            *expressions,
            # Programs can choose among all of them.
            every_case=output.format == "json",
            options=[reading, options, models, work],
            progress=bar.advance,
            notice=undecided.append,
        )
    return CommandResult(
        report=as_report(found),
        name="agreement",
        inputs=inputs,
        notes=undecided,
        code=InputError.exit_code if undecided else 0,
    )


def _labels_and_judges(given: JudgesAndLabels) -> tuple[list[str], list[str]]:
    """Return the label files and the judges: words behind --labels that are no files are judges.

    `--labels a.csv refusal` names a file and a judge; `--labels nowhere.csv refusal` a file that is missing.
    """
    files = [word for word in given.labels if _is_file_name(word)]
    return files, [*(word for word in given.labels if word not in files), *given.judges]


def _is_file_name(word: str) -> bool:
    return word == STDIN or ("(" not in word and (Path(word).exists() or word.casefold().endswith(_SUFFIXES)))
