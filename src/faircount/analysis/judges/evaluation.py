"""Judges before labelled data: every item with a label is judged once, and what was said is counted.

Items stream through. What is kept of them is counts, and for judges with scores one number and one label each.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from faircount.analysis.judges.balancing import balanced
from faircount.analysis.judges.options import MeasureOptions
from faircount.analysis.judges.quality import (
    Confusion,
    Evaluation,
    JudgeQuality,
    JudgeTrouble,
    LabelDoubt,
    LabelSource,
    Scores,
    quality_of,
)
from faircount.core.attempt import Attempt
from faircount.core.errors import InputError
from faircount.core.text import visible
from faircount.core.verdict import Decision, Verdict
from faircount.judges.batch import DEFAULT_CONCURRENCY, judged
from faircount.judges.judge import Judge
from faircount.readers.label_types import Labelled
from faircount.readers.labels import Labels


def evaluate(
    judges: Sequence[Judge],
    labels: Labels,
    options: MeasureOptions,
    *,
    workers: int | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    taken: Callable[[Labelled], None] = lambda _: None,
    told: Callable[[Labelled, Sequence[Verdict]], None] = lambda *_: None,
) -> Evaluation:
    """Measure judges against labels. Items without a label, and those that balancing leaves out, are not judged.

    `taken` hears of every item before it is judged, `told` of the verdicts on it.
    """
    counters = [_Counter(judge) for judge in judges]
    waiting: deque[Labelled] = deque()

    def attempts() -> Iterator[Attempt]:
        for item in _chosen(labels, options):
            taken(item)
            waiting.append(item)
            yield item.attempt

    for verdicts in judged(judges, attempts(), workers=workers, concurrency=concurrency):
        item = waiting.popleft()
        for counter, verdict in zip(counters, verdicts, strict=True):
            counter.add(item.label is Decision.HIT, verdict)
        told(item, verdicts)
    _refuse_unlabelled(labels)
    return _evaluation(counters, labels, options)


def _chosen(labels: Labels, options: MeasureOptions) -> Iterator[Labelled]:
    kept = balanced(labels, options.seed) if options.balance else None
    for number, item in enumerate(labels):
        if item.label is not None and (kept is None or kept[number]):
            yield item


def _refuse_unlabelled(labels: Labels) -> None:
    if any(source.hits or source.passes for source in labels.sources):
        return
    names = ", ".join(source.path for source in labels.sources)
    doubts = [doubt for doubt in labels.doubts if doubt.places]
    reason = f"; {doubts[0].places[0]}: {doubts[0].reason or doubts[0].kind}" if doubts else ""
    raise InputError(f"{names}: no item has a label{reason}; name the columns with --label-column and --text-column")


class _Counter:
    """Counts what one judge said."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.cells = {(label, decision): 0 for label in (True, False) for decision in Decision}
        self.errors = 0
        self.first_error = ""
        self.labels = array("b")
        self.scores = array("d")

    def add(self, label: bool, verdict: Verdict) -> None:
        if verdict.decision is None:
            self.errors += 1
            self.first_error = self.first_error or verdict.error or "it gave no reason"
            return
        self.cells[label, verdict.decision] += 1
        if self.judge.scores:
            self.labels.append(label)
            self.scores.append(math.nan if verdict.score is None else verdict.score)

    def confusion(self) -> Confusion:
        cells = self.cells
        return Confusion(
            tp=cells[True, Decision.HIT],
            fn=cells[True, Decision.PASS],
            tn=cells[False, Decision.PASS],
            fp=cells[False, Decision.HIT],
            errors=self.errors,
        )


def _evaluation(counters: Sequence[_Counter], labels: Labels, options: MeasureOptions) -> Evaluation:
    decided = [counter for counter in counters if counter.confusion().n]
    silent = [counter for counter in counters if not counter.confusion().n]
    return Evaluation(
        qualities=tuple(_quality(counter, options) for counter in decided),
        labels=tuple(_label_sources(labels)),
        options=options,
        evaluated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        errors=tuple(
            JudgeTrouble(counter.judge.called, f"it decided none of the items: {counter.first_error}")
            for counter in silent
        ),
        notes=tuple(_taken_columns(labels)),
        doubts=tuple(_doubts(labels)),
        inverted=labels.options.invert_labels,
    )


def _taken_columns(labels: Labels) -> Iterator[str]:
    """Yield which columns were taken for what where nobody named them."""
    for path, columns in labels.columns:
        taken = {"responses": columns.text, "prompts": columns.prompt, "ids": columns.item}
        told = [f"{what} from {visible(name)}" for what, name in taken.items() if name is not None]
        if columns.guessed:
            yield f"{visible(path)}: labels from {visible(', '.join(columns.labels))}; {', '.join(told)}"


def _doubts(labels: Labels) -> Iterator[LabelDoubt]:
    for doubt in labels.doubts:
        what = f"{doubt.kind}: {doubt.reason}" if doubt.reason else str(doubt.kind)
        yield LabelDoubt(what, doubt.count, doubt.places)


def _label_sources(labels: Labels) -> Iterator[LabelSource]:
    for source in labels.sources:
        yield LabelSource(
            path=source.path,
            sha256=source.sha256,
            items=source.good,
            hits=source.hits,
            passes=source.passes,
            ties=source.ties,
            unlabelled=source.unlabelled,
            bad=source.bad,
        )


def _quality(counter: _Counter, options: MeasureOptions) -> JudgeQuality:
    judge = counter.judge
    threshold = judge.parameters.get("threshold", judge.parameters.get("at"))
    return quality_of(
        judge.called,
        judge.identity,
        counter.confusion(),
        scores=Scores(counter.labels, counter.scores) if judge.scores else None,
        options=options,
        string_matcher=judge.string_matcher,
        threshold=threshold if isinstance(threshold, float | int) else None,
    )
