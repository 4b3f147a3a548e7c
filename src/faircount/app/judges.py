"""Judges tried on one text, measured against labelled data, ranked, and compared with people and with each other.

The summary of judges is read, merged and written in one go, by one process at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from faircount.analysis import catalogue
from faircount.analysis.options import (
    SUMMARY,
    AgreeOptions,
    JudgesAndLabels,
    MeasureOptions,
    RankOptions,
    TryJudgeOptions,
    WorkOptions,
)
from faircount.app.options import AnyPath, Models, Notice, ignore, refuse_inputs
from faircount.chat.settings import ChatSettings
from faircount.components.factory import Context
from faircount.config import setting_of
from faircount.core.attempt import Attempt, Expected
from faircount.core.errors import InputError, UsageError
from faircount.core.interrupts import uninterrupted
from faircount.core.options import Options, options_from
from faircount.core.verdict import Verdict
from faircount.io.files import is_address, refuse_address
from faircount.io.new_file import NewFile, whole_file
from faircount.io.streams import STDIN
from faircount.judges.factory import make_judge
from faircount.judges.judge import Judge, every_part
from faircount.readers.label_types import Labelled, LabelOptions
from faircount.readers.labels import read_labels, saved_row

if TYPE_CHECKING:
    from faircount.analysis.judges.agreement import Agreement
    from faircount.analysis.judges.quality import Evaluation
    from faircount.analysis.judges.ranking import Ranking

Progress = Callable[[], None]
"""Is called for every item that was judged."""


def try_judge(judge: str, text: str, *, options: Sequence[Options] = (), **keywords: Any) -> catalogue.JudgeTrial:
    """Return a judge's verdict on one response; options are the fields of `TryJudgeOptions` and `Models`."""
    asked, models = options_from({"judge": judge, "text": text, **keywords}, TryJudgeOptions, Models, given=options)
    (made,) = made_judges([asked.judge], setting_of(models))
    # Rows have one text or a list of them.
    arguments = list(asked.judge_arg)
    attempt = Attempt(
        asked.text,
        prompt=asked.prompt,
        expected=Expected(output=asked.expected),
        latency=asked.latency,
        notes={"judge_args": arguments[0] if len(arguments) == 1 else arguments} if arguments else {},
    )
    with contextlib.closing(made):
        return catalogue.try_judge(made, attempt)


def made_judges(expressions: Sequence[str], setting: Context) -> list[Judge]:
    """Return the judges that are named; one that is named twice is refused."""
    judges = [make_judge(expression, setting) for expression in expressions]
    for judge in judges:
        for part in every_part(judge):
            part.ready()
    called = [judge.called for judge in judges]
    for name in called:
        if called.count(name) > 1:
            raise UsageError(f"{name}: named twice; name each judge once")
    return judges


# -- measured against labels --------------------------------------------------------------------------------------


def evaluate(
    labels: AnyPath | Sequence[AnyPath],
    *judges: str,
    options: Sequence[Options] = (),
    progress: Progress = ignore,
    **keywords: Any,
) -> Evaluation:
    """Measure judges against labelled data, and add the results to the summary `output`, if one is named.

    Options are the fields of `LabelOptions`, `MeasureOptions`, `WorkOptions` and `Models`.
    """
    from faircount.analysis.judges import evaluation
    from faircount.analysis.judges.summary import evaluation_document

    kinds = (JudgesAndLabels, LabelOptions, MeasureOptions, WorkOptions, Models)
    named = {"labels": labels, "judges": judges}
    given, reading, asked, work, models = options_from({**named, **keywords}, *kinds, given=options)
    _refuse_missing([*given.labels, *reading.results])
    if not given.labels:
        raise UsageError("no labelled data given: name a file with --labels")
    if not given.judges:
        raise UsageError("no judge given: name one, such as refusal; see `faircount judges list`")
    setting = setting_of(models, work.concurrency)
    made = made_judges(given.judges, setting)
    saved = None
    if asked.save_datasets:
        if asked.output is None:
            raise UsageError("save_datasets needs output: the items are saved next to the summary")
        saved = str(Path(asked.output).with_name(f"{Path(asked.output).stem}_dataset.jsonl"))
    for place in (asked.output, asked.predictions, saved):
        if place is not None:
            refuse_inputs(place, [*given.labels, *reading.results])
    items = read_labels(given.labels, reading)
    with _saving(saved) as keep, _predicting(asked.predictions, made) as write:

        def judged(item: Labelled, verdicts: Sequence[Verdict]) -> None:
            progress()
            write(item, verdicts)

        found = evaluation.evaluate(
            made,
            items,
            asked,
            workers=work.workers,
            concurrency=(setting.chat or ChatSettings()).concurrency,
            on_item=keep,
            on_verdicts=judged,
        )
    if asked.output is not None:
        update_file(asked.output, evaluation_document(found))
    return found


@contextlib.contextmanager
def _saving(path: str | None) -> Iterator[Callable[[Labelled], None]]:
    """Give what keeps the items that were used."""
    if path is None:
        yield lambda _: None
        return
    refuse_address(path)
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

        def write(item: Labelled, verdicts: Sequence[Verdict]) -> None:
            for (called, digest), verdict in zip(known, verdicts, strict=True):
                file.write(prediction_line(called, digest, item, verdict))

        yield write


def rank(*summaries: AnyPath, options: RankOptions | None = None, **keywords: Any) -> Ranking:
    """Rank the judges in summaries from Faircount, garak or PyRIT, best first; options are those of `RankOptions`."""
    from faircount.analysis.judges.ranking import ranked
    from faircount.analysis.judges.summary import read_judges

    (asked,) = options_from({"summaries": summaries or None, **keywords}, RankOptions, given=options)
    # The same file named twice would make every judge tie with itself.
    files = dict.fromkeys(asked.summaries or [SUMMARY])
    return ranked([read_judges(path) for path in files], asked.by, level=asked.level)


def agree(
    labels: AnyPath | Sequence[AnyPath] = (),
    *judges: str,
    every_case: bool = False,
    options: Sequence[Options] = (),
    progress: Progress = ignore,
    notice: Notice = ignore,
    **keywords: Any,
) -> Agreement:
    """Measure how far judges and people agree beyond chance, and find the items on which they differ.

    Options are the fields of `LabelOptions`, `AgreeOptions`, `WorkOptions` and `Models`. With `every_case`, all items
    on which they disagree are named. `notice` is called for judges that decided none of the items.
    """
    from faircount.analysis.judges.agreement import measure_agreement
    from faircount.analysis.judges.predictions import read_predictions

    kinds = (JudgesAndLabels, LabelOptions, AgreeOptions, WorkOptions, Models)
    named = {"labels": labels, "judges": judges}
    given, reading, asked, work, models = options_from({**named, **keywords}, *kinds, given=options)
    _refuse_missing([*given.labels, *reading.results])
    recorded = () if given.labels else reading.results
    if not given.labels and not asked.predictions and not recorded:
        raise UsageError(
            "nothing to compare: give labelled data with --labels, predictions with --predictions, or result files "
            "that several judges judged with --results"
        )
    if given.judges and not given.labels:
        raise UsageError(f"{given.judges[0]}: judges need labelled data; name it with --labels")
    setting = setting_of(models, work.concurrency)
    made = made_judges(given.judges, setting)
    items = read_labels(given.labels, replace(reading, text_needed=bool(made))) if given.labels else None
    with closing(read_predictions(asked.predictions, recorded, max_line=reading.max_line)) as predictions:
        found = measure_agreement(
            items,
            predictions,
            made,
            replace(asked, every_case=every_case),
            progress,
            workers=work.workers,
            concurrency=(setting.chat or ChatSettings()).concurrency,
        )
    asked_now = {judge.identity.digest for judge in made}
    for rater in found.raters:
        if rater.identity in asked_now and not rater.decided:
            notice(f"{rater.name}: decided none of the items: {rater.error or 'no reason given'}")
    return found


def _refuse_missing(files: Sequence[str]) -> None:
    for name in files:
        if name != STDIN and not (is_address(name) or Path(name).exists()):
            raise InputError(f"{name}: no such file")


# -- the summary of judges ----------------------------------------------------------------------------------------


def update_file(path: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Put the judges of a document into the summary at `path`, keep the others there, and return the whole.

    The folder is made where it is missing. A summary that is there and damaged is refused and left as it is. Two
    processes that do this at once wait for each other, and at any moment the file is whole.
    """
    from faircount.analysis.judges.summary import merged, read_summary, summary_of

    summary_of(document, "the new summary")
    if not path:
        raise UsageError("-o: an empty name is no file; name one")
    try:
        refuse_address(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{Path(path).parent}: cannot be created: {error.strerror or error}") from error
    with _alone(path):
        old = read_summary(path).document if Path(path).is_file() else {}
        whole = merged(old, document)
        text = json.dumps(whole, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
        with whole_file(path) as file:
            file.write(text.encode())
    return whole


@contextlib.contextmanager
@uninterrupted
def _alone(path: str) -> Iterator[None]:
    """Keep other processes from updating the same summary, by a lock on a file beside it that goes away afterwards."""
    try:
        import fcntl
    except ImportError:  # a system without such locks: the file is still written whole
        yield
        return
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    descriptor = -1
    while descriptor < 0:
        descriptor = _opened(beside)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not _is_still_there(beside, descriptor):
            # Whoever held the lock before has taken the file away: others lock the next one.
            os.close(descriptor)
            descriptor = -1
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        os.close(descriptor)


def _opened(beside: Path) -> int:
    try:
        return os.open(beside, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"{beside.parent}: cannot be written to: {error.strerror or error}") from error


def _is_still_there(beside: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), beside.stat())
    except FileNotFoundError:
        return False
