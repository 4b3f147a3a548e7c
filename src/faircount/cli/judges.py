"""The commands `judges list`, `try`, `evaluate`, `rank` and `agree`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from faircount.analysis.judges import listing, trying
from faircount.analysis.judges.options import (
    AgreeOptions,
    LabelOptions,
    MeasureOptions,
    RankOptions,
    TryJudgeOptions,
    WorkOptions,
)
from faircount.cli.judge_setting import concurrency_of, made_judges
from faircount.cli.output import refuse_inputs
from faircount.cli.parts import Models, Output, ReportOutput
from faircount.cli.progress import CountingBar
from faircount.cli.runner import Answer
from faircount.cli.try_arguments import text_of
from faircount.config import setting_of
from faircount.errors import InputError, UsageError
from faircount.judging.attempt import Attempt, Expected
from faircount.judging.judge import Judge
from faircount.judging.verdict import Verdict
from faircount.new_file import NewFile
from faircount.reading import labelled
from faircount.reading.labelled import Labelled
from faircount.reading.labels import read_labels, saved_row

STDIN = "-"
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".gz", ".zst")


def list_judges(output: Output) -> Answer:
    """Run `judges list`."""
    del output
    return Answer(report=listing.as_report(listing.list_judges()), name="judges")


def try_judge(options: TryJudgeOptions, models: Models, output: Output) -> Answer:
    """Run `judges try`."""
    del output
    (judge,) = made_judges([options.judge], setting_of(models))
    # A row of spikee's has one text or a list of them.
    told = list(options.judge_arg)
    attempt = Attempt(
        text_of(options.text),
        prompt=options.prompt,
        expected=Expected(output=options.expected),
        latency=options.latency,
        notes={"judge_args": told[0] if len(told) == 1 else told} if told else {},
    )
    with contextlib.closing(judge):
        trial = trying.try_judge(judge, attempt)
    undecided = trial.decision is None
    return Answer(
        report=trying.as_report(trial),
        name="verdict",
        inputs=[models.config] if models.config else [],
        notes=[f"{trial.judge}: {trial.error or 'the judge did not decide'}"] if undecided else [],
        code=InputError.exit_code if undecided else 0,
    )


# -- measured against labels --------------------------------------------------------------------------------------


def evaluate(
    given: LabelOptions, options: MeasureOptions, models: Models, work: WorkOptions, output: ReportOutput
) -> Answer:
    """Run `judges evaluate`."""
    from faircount.analysis.judges import evaluation
    from faircount.analysis.judges.quality import EvaluationSettings
    from faircount.analysis.judges.quality_report import as_report
    from faircount.analysis.judges.summary import evaluation_document
    from faircount.cli.judge_summary import update_file

    files, expressions = _labels_and_judges(given)
    if not files:
        raise UsageError("no labelled data given: name a file with --labels")
    if not expressions:
        raise UsageError("no judge given: name one, such as refusal; see `faircount judges list`")
    setting = setting_of(models, work.concurrency)
    judges = made_judges(expressions, setting)
    settings = EvaluationSettings(
        level=options.level,
        replicates=options.replicates,
        seed=options.seed,
        balance=options.balance,
        save_datasets=options.save_datasets,
        inverted=given.invert_labels,
        wanted_fpr=options.false_positive_rate,
    )
    summary = Path(options.output)
    saved = str(summary.with_name(f"{summary.stem}_dataset.jsonl")) if options.save_datasets else None
    for place in (options.output, options.predictions, output.report, saved):
        if place is not None:
            refuse_inputs(place, [*files, *given.results])
    labels = read_labels(files, _label_options(given))
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(CountingBar("Judging", "items"))
        keep = stack.enter_context(_saving(saved))
        tell = stack.enter_context(_predicting(options.predictions, judges))

        def judged(item: Labelled, verdicts: Sequence[Verdict]) -> None:
            bar.advance()
            tell(item, verdicts)

        found = evaluation.evaluate(
            judges,
            labels,
            evaluation.EvaluateOptions(settings, work.workers, concurrency_of(setting)),
            evaluation.Listeners(taken=keep, judged=judged),
        )
    update_file(options.output, evaluation_document(found))
    notes = [f"summary: {options.output}"] if output.format == "console" else []
    return Answer(
        report=as_report(found),
        name=options.output,
        inputs=files,
        notes=[*notes, *(f"{trouble.judge}: {trouble.error}" for trouble in found.errors)],
        code=InputError.exit_code if found.errors else 0,
    )


@contextlib.contextmanager
def _saving(path: str | None) -> Iterator[Callable[[Labelled], None]]:
    """Give what keeps the items that were used."""
    if path is None:
        yield lambda _: None
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with NewFile(path, force=True) as file:
        yield lambda item: file.write(saved_row(item))


@contextlib.contextmanager
def _predicting(path: str | None, judges: Sequence[Judge]) -> Iterator[Callable[[Labelled, Sequence[Verdict]], None]]:
    """Give what keeps the verdicts of the judges."""
    from faircount.analysis.judges.predictions import prediction_line

    if path is None:
        yield lambda *_: None
        return
    known = [(judge.called, judge.identity.digest) for judge in judges]
    with NewFile(path, force=True) as file:

        def tell(item: Labelled, verdicts: Sequence[Verdict]) -> None:
            for (called, digest), verdict in zip(known, verdicts, strict=True):
                file.write(prediction_line(called, digest, item, verdict))

        yield tell


def rank(options: RankOptions, output: Output) -> Answer:
    """Run `judges rank`."""
    from faircount.analysis.judges.options import SUMMARY
    from faircount.analysis.judges.ranking import ranked
    from faircount.analysis.judges.ranking_report import as_report
    from faircount.analysis.judges.summary import read_summary

    del output
    # The same file named twice would make every judge tie with itself.
    files = list(dict.fromkeys(options.summaries or [SUMMARY]))
    report = as_report(ranked([read_summary(path) for path in files], options.by, level=options.level))
    return Answer(report=report, name="ranking", inputs=files)


def agree(given: LabelOptions, options: AgreeOptions, models: Models, work: WorkOptions, output: Output) -> Answer:
    """Run `judges agree`."""
    from faircount.analysis.judges.agreement import AgreementOptions, measure_agreement
    from faircount.analysis.judges.agreement_report import as_report
    from faircount.analysis.judges.predictions import read_predictions

    files, expressions = _labels_and_judges(given)
    if not files and not options.predictions:
        raise UsageError("nothing to compare: give labelled data with --labels, or predictions with --predictions")
    if expressions and not files:
        raise UsageError(f"{expressions[0]}: judges need labelled data; name it with --labels")
    inputs = [*files, *given.results, *options.predictions]
    if output.path is not None:
        refuse_inputs(output.path, inputs)
    setting = setting_of(models, work.concurrency)
    judges = made_judges(expressions, setting) if expressions else []
    predictions = read_predictions(options.predictions)
    labels = read_labels(files, _label_options(given, text_needed=bool(judges))) if files else None
    measured = AgreementOptions(
        cases=options.cases,
        # Programs can choose among all of them.
        every_case=output.format == "json",
        level=options.level,
        seed=options.seed,
        workers=work.workers,
        concurrency=concurrency_of(setting),
    )
    with CountingBar("Judging", "items") as bar:
        found = measure_agreement(labels, predictions, judges, measured, bar.advance)
    asked = {judge.identity.digest for judge in judges}
    silent = [figures for figures in found.raters if figures.identity in asked and not figures.decided]
    return Answer(
        report=as_report(found),
        name="agreement",
        inputs=inputs,
        notes=[f"{one.name}: decided none of the items: {one.error or 'no reason given'}" for one in silent],
        code=InputError.exit_code if silent else 0,
    )


# -- labels -------------------------------------------------------------------------------------------------------


def _labels_and_judges(given: LabelOptions) -> tuple[list[str], list[str]]:
    """Return the label files and the judges: words behind --labels that are no files are judges.

    `--labels a.csv refusal` names a file and a judge; `--labels nowhere.csv refusal` a file that is missing.
    """
    files = [word for word in given.labels if _is_file_name(word)]
    judges = [word for word in given.labels if not _is_file_name(word)]
    for name in (*files, *given.results):
        if name != STDIN and not Path(name).exists():
            raise InputError(f"{name}: no such file")
    return files, [*judges, *given.judges]


def _is_file_name(word: str) -> bool:
    return word == STDIN or ("(" not in word and (Path(word).exists() or word.casefold().endswith(_SUFFIXES)))


def _label_options(given: LabelOptions, *, text_needed: bool = True) -> labelled.LabelOptions:
    return labelled.LabelOptions(
        text_column=given.text_column,
        prompt_column=given.prompt_column,
        label_columns=given.label_column,
        id_column=given.id_column,
        label_threshold=given.label_threshold,
        invert=given.invert_labels,
        results=given.results,
        max_line=given.max_line,
        text_needed=text_needed,
    )
