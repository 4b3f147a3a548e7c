"""The commands about judges."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from faircount.analysis.judges.options import (
    AgreeOptions,
    LabelOptions,
    MeasureOptions,
    RankOptions,
    TryJudgeOptions,
    WorkOptions,
)
from faircount.app import judges
from faircount.app.options import Models
from faircount.app.output_files import refuse_inputs
from faircount.cli.parts import Output, ReportOutput
from faircount.cli.progress import CountingBar
from faircount.cli.runner import CommandResult
from faircount.errors import InputError, UsageError
from faircount.reading.streams import STDIN

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".gz", ".zst")
_LONGEST = 64 * 1024 * 1024


def list_judges(_: Output) -> CommandResult:
    """Run `judges list`."""
    from faircount.analysis.judges import listing

    return CommandResult(report=listing.as_report(listing.list_judges()), name="judges")


def try_judge(options: TryJudgeOptions, models: Models, _: Output) -> CommandResult:
    """Run `judges try`."""
    from faircount.analysis.judges.trying import as_report

    trial = judges.try_judge(**asdict(options) | {"text": text_of(options.text)}, **asdict(models))
    undecided = trial.decision is None
    return CommandResult(
        report=as_report(trial),
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
    given: LabelOptions, options: MeasureOptions, models: Models, work: WorkOptions, output: ReportOutput
) -> CommandResult:
    """Run `judges evaluate`."""
    from faircount.analysis.judges.quality_report import as_report

    labels, expressions, others = _labels_and_judges(given)
    if output.report is not None:
        refuse_inputs(output.report, [*labels, *given.results])
    with CountingBar("Judging", "items") as bar:
        found = judges.evaluate(
            labels, *expressions, progress=bar.advance, **others, **asdict(options), **asdict(models), **asdict(work)
        )
    notes = [f"summary: {options.output}"] if output.format == "console" else []
    return CommandResult(
        report=as_report(found),
        name=options.output,
        inputs=labels,
        notes=[*notes, *(f"{trouble.judge}: {trouble.error}" for trouble in found.errors)],
        code=InputError.exit_code if found.errors else 0,
    )


def rank(options: RankOptions, _: Output) -> CommandResult:
    """Run `judges rank`."""
    from faircount.analysis.judges.ranking_report import as_report

    found = judges.rank(**asdict(options))
    return CommandResult(report=as_report(found), name="ranking", inputs=found.summaries)


def agree(
    given: LabelOptions, options: AgreeOptions, models: Models, work: WorkOptions, output: Output
) -> CommandResult:
    """Run `judges agree`."""
    from faircount.analysis.judges.agreement_report import as_report

    labels, expressions, others = _labels_and_judges(given)
    inputs = [*labels, *given.results, *options.predictions]
    if output.path is not None:
        refuse_inputs(output.path, inputs)
    undecided: list[str] = []
    with CountingBar("Judging", "items") as bar:
        found = judges.agree(
            labels,
            *expressions,
            # Programs can choose among all of them.
            every_case=output.format == "json",
            progress=bar.advance,
            notice=undecided.append,
            **others,
            **asdict(options),
            **asdict(models),
            **asdict(work),
        )
    return CommandResult(
        report=as_report(found),
        name="agreement",
        inputs=inputs,
        notes=undecided,
        code=InputError.exit_code if undecided else 0,
    )


def _labels_and_judges(given: LabelOptions) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the label files, the judges and the other options: words behind --labels that are no files are judges.

    `--labels a.csv refusal` names a file and a judge; `--labels nowhere.csv refusal` a file that is missing.
    """
    others = asdict(given)
    words = others.pop("labels")
    files = [word for word in words if _is_file_name(word)]
    return files, [*(word for word in words if word not in files), *others.pop("judges")], others


def _is_file_name(word: str) -> bool:
    return word == STDIN or ("(" not in word and (Path(word).exists() or word.casefold().endswith(_SUFFIXES)))
