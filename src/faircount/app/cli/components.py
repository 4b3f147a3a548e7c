"""The commands about judges, targets and attacks."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from faircount.app.cli.options import Output, ReportOutput
from faircount.app.cli.runner import EXIT_INCOMPLETE, CommandResult
from faircount.app.cli.terminal import CountingBar, note
from faircount.app.options import Models, refuse_inputs
from faircount.core.errors import InputError, UsageError
from faircount.io.streams import STDIN

if TYPE_CHECKING:
    from faircount.analysis.options import (
        AgreeOptions,
        JudgesAndLabels,
        MeasureOptions,
        RankOptions,
        TryJudgeOptions,
        WorkOptions,
    )
    from faircount.readers.label_types import LabelOptions
    from faircount.runs.options import TryAttackOptions, TryTargetOptions

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".gz", ".zst")
_LONGEST = 64 * 1024 * 1024


def list_judges(_: Output) -> CommandResult:
    """Run `judges list`."""
    from faircount.analysis import catalogue

    return CommandResult(report=catalogue.judges_report(catalogue.list_judges()), name="judges")


def try_judge(options: TryJudgeOptions, models: Models, _: Output) -> CommandResult:
    """Run `judges try`."""
    from faircount.analysis.catalogue import judge_report
    from faircount.app import judges

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
    from faircount.analysis.options import SUMMARY
    from faircount.app import judges

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
    from faircount.app import judges

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
    from faircount.app import judges

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
    files = [
        word
        for word in given.labels
        if word == STDIN or ("(" not in word and (Path(word).exists() or word.casefold().endswith(_SUFFIXES)))
    ]
    return files, [*(word for word in given.labels if word not in files), *given.judges]


# -- targets and attacks ----------------------------------------------------------------------------------------


def list_targets(_: Output) -> CommandResult:
    """Run `targets list`."""
    from faircount.analysis import catalogue

    return CommandResult(report=catalogue.targets_report(catalogue.list_targets()), name="targets")


def try_target(options: TryTargetOptions, _: Output) -> CommandResult:
    """Run `targets try`."""
    from faircount.analysis import catalogue
    from faircount.app import targets

    tried = targets.try_target(options.target, text_of(options.prompt), options=options, notice=note)
    failed = None if tried.blocked else tried.error
    return CommandResult(
        report=catalogue.target_report(tried),
        name="answer",
        notes=[] if failed is None else [f"{options.target}: {failed.message}"],
        code=0 if failed is None else EXIT_INCOMPLETE,
    )


def list_attacks(_: Output) -> CommandResult:
    """Run `attacks list`."""
    from faircount.analysis import catalogue

    return CommandResult(report=catalogue.attacks_report(catalogue.list_attacks()), name="attacks")


def try_attack(options: TryAttackOptions, models: Models, _: Output) -> CommandResult:
    """Run `attacks try`."""
    from faircount.analysis import catalogue
    from faircount.app import targets

    prompt = text_of(options.prompt)
    # Standard output belongs to the answer, and an attack may be anybody's code.
    with contextlib.redirect_stdout(sys.stderr):
        trial = targets.try_attack(options.attack, prompt, options=[options, models], notice=note)
    return CommandResult(
        report=catalogue.attack_report(trial, targets.entry_of(prompt)),
        name="attack",
        inputs=[] if models.config is None else [models.config],
        notes=[f"{trial.attack}: {trial.error}"] if trial.error else [],
        code=InputError.exit_code if trial.error else 0,
    )
