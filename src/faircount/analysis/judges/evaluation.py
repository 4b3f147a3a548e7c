"""Judges before labelled data: every item with a label is judged once, and what was said is counted.

Items stream through. What is kept of them is counts, and for judges with scores one number and one label each. The
report's document is the summary (`judge-evaluation-1.json`)."""

from __future__ import annotations

import json
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from random import Random

from faircount.analysis.judges.quality import (
    LEAST_SAMPLES,
    Confusion,
    EvaluatedLabels,
    Evaluation,
    JudgeQuality,
    JudgeTrouble,
    LabelProblem,
    ScoreQuality,
    Scores,
    quality_of,
    spread,
)
from faircount.analysis.judges.summary import evaluation_document
from faircount.analysis.options import MeasureOptions
from faircount.core.attempt import Attempt
from faircount.core.errors import InputError
from faircount.core.model import Estimate
from faircount.core.text import visible
from faircount.core.verdict import Decision, Verdict
from faircount.judges.batch import DEFAULT_CONCURRENCY, judged
from faircount.judges.judge import Judge
from faircount.readers.label_types import Labelled
from faircount.readers.labels import Labels
from faircount.report import formats
from faircount.report.blocks import (
    Bar,
    Bars,
    Block,
    Curve,
    Curves,
    Fact,
    Facts,
    Grid,
    Mark,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    TableColumn,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.stats.operating import OperatingPoint

# -- equal classes --------------------------------------------------------------------------------------------


_LEFT_OUT, _KEPT, _HIT, _PASS = range(4)
_STAYS = bytes.maketrans(bytes([_HIT, _PASS]), bytes([_KEPT, _KEPT]))
_CODES = {Decision.HIT: _HIT, Decision.PASS: _PASS, None: _LEFT_OUT}


def balanced(labels: Iterable[Labelled], seed: int) -> bytes:
    """Read labels once and choose as many items of the larger class as the smaller one has; all of that one stay.

    Return a byte for every item in the order of reading: 1 if it stays, 0 if it does not or has no label. Which items
    stay depends on the labels in their order and on the seed alone, not on any judge. The draw is selection sampling
    over `random()`, the one sequence that Python keeps the same for a seed from version to version.
    """
    codes = bytearray(_CODES[labelled.label] for labelled in labels)
    hits, passes = codes.count(_HIT), codes.count(_PASS)
    each = min(hits, passes)
    if not each:
        missing = "hits" if not hits else "passes"
        raise InputError(f"the labels have no {missing}, so the classes cannot be balanced (--balance)")
    larger, left = (_HIT, hits) if hits > passes else (_PASS, passes)
    random, wanted, place = Random(seed), each, codes.find(larger)
    while place >= 0:
        # An item stays with the chance that as many of those left are still wanted.
        if random.random() * left < wanted:
            wanted -= 1
        else:
            codes[place] = _LEFT_OUT
        left -= 1
        place = codes.find(larger, place + 1)
    return bytes(codes).translate(_STAYS)


# -- judging and counting -------------------------------------------------------------------------------------


def evaluate(
    judges: Sequence[Judge],
    labels: Labels,
    options: MeasureOptions,
    *,
    workers: int | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_item: Callable[[Labelled], None] = lambda _: None,
    on_verdicts: Callable[[Labelled, Sequence[Verdict]], None] = lambda *_: None,
) -> Evaluation:
    """Measure judges against labels. Items without a label, and those that balancing leaves out, are not judged.

    `on_item` gets every item before it is judged, `on_verdicts` the verdicts on it.
    """
    counters = [_Counter(judge) for judge in judges]
    waiting: deque[Labelled] = deque()

    def attempts() -> Iterator[Attempt]:
        kept = balanced(labels, options.seed) if options.balance else None
        for number, item in enumerate(labels):
            if item.label is not None and (kept is None or kept[number]):
                on_item(item)
                waiting.append(item)
                yield item.attempt

    for verdicts in judged(judges, attempts(), workers=workers, concurrency=concurrency):
        item = waiting.popleft()
        for counter, verdict in zip(counters, verdicts, strict=True):
            counter.add(item.label is Decision.HIT, verdict)
        on_verdicts(item, verdicts)
    if not any(source.hits or source.passes for source in labels.sources):
        names = ", ".join(source.path for source in labels.sources)
        first = next((doubt for doubt in labels.problems if doubt.places), None)
        why = "" if first is None else f"; {first.places[0]}: {first.reason or first.kind}"
        raise InputError(f"{names}: no item has a label{why}; name the columns with --label-column and --text-column")
    silent = [counter for counter in counters if not counter.confusion.n]
    return Evaluation(
        qualities=tuple(counter.quality(options) for counter in counters if counter.confusion.n),
        labels=tuple(
            EvaluatedLabels(
                path=source.path,
                sha256=source.sha256,
                items=source.good,
                hits=source.hits,
                passes=source.passes,
                ties=source.ties,
                unlabelled=source.unlabelled,
                bad=source.bad,
            )
            for source in labels.sources
        ),
        options=options,
        evaluated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        errors=tuple(
            JudgeTrouble(counter.judge.called, f"it decided none of the items: {counter.first_error}")
            for counter in silent
        ),
        notes=(*_guessed_columns(labels), *([DRAWN_BY_VERDICT] if labels.drawn_by_verdict else [])),
        doubts=tuple(
            LabelProblem(
                f"{doubt.kind}: {doubt.reason}" if doubt.reason else str(doubt.kind), doubt.count, doubt.places
            )
            for doubt in labels.problems
        ),
        inverted=labels.options.invert_labels,
    )


DRAWN_BY_VERDICT = (
    "The labelled rows were drawn by the verdicts of the results: recall and specificity are those of the labelled "
    "rows, not of all rows. `results analyze --judge-quality` weighs them."
)


def _guessed_columns(labels: Labels) -> Iterator[str]:
    """Yield which columns were taken for what where nobody named them."""
    for path, columns in labels.columns:
        if columns.guessed:
            guesses = (("responses", columns.text), ("prompts", columns.prompt), ("ids", columns.item))
            others = ", ".join(f"{what} from {visible(name)}" for what, name in guesses if name is not None)
            yield f"{visible(path)}: labels from {visible(', '.join(columns.labels))}; {others}"


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

    @property
    def confusion(self) -> Confusion:
        cells = self.cells
        return Confusion(
            tp=cells[True, Decision.HIT],
            fn=cells[True, Decision.PASS],
            tn=cells[False, Decision.PASS],
            fp=cells[False, Decision.HIT],
            errors=self.errors,
        )

    def quality(self, options: MeasureOptions) -> JudgeQuality:
        judge = self.judge
        threshold = judge.parameters.get("threshold", judge.parameters.get("at"))
        return quality_of(
            judge.called,
            judge.identity,
            self.confusion,
            scores=Scores(self.labels, self.scores) if judge.scores else None,
            options=options,
            string_matcher=judge.string_matcher,
            threshold=threshold if isinstance(threshold, float | int) else None,
        )


# -- the report -----------------------------------------------------------------------------------------------


_DIGEST = 12
_STEPS_SHOWN = 11
_PLACES_SHOWN = 3
_JUDGE: TableColumn[JudgeQuality] = text_column("Judge", lambda item: Record(item.called))


def as_report(evaluation: Evaluation) -> Report:
    """Arrange an evaluation into a report."""
    qualities = evaluation.qualities
    sections = [Section("Judges against labels", tuple(_opening(evaluation)), level=1)]
    if qualities:
        sections += _figures(evaluation)
    sections += [_scores(item, item.scores) for item in qualities if item.scores is not None]
    if notes := [(Record(item.called), note) for item in qualities for note in item.notes]:
        sections.append(Section("Read with care", (text_table(("Judge", "Note"), notes),)))
    if evaluation.doubts:
        grid = table(
            evaluation.doubts,
            text_column("Doubt", lambda problem: Record(problem.what)),
            number_column("Count", lambda problem: problem.count),
            text_column("Where", lambda problem: Place(_first_places(problem))),
        )
        sections.append(Section("Problems with the labels", (grid,)))
    if troubles := [(Record(trouble.judge), Record(trouble.error)) for trouble in evaluation.errors]:
        sections.append(Section("Not measured", (text_table(("Judge", "Why"), troubles),)))
    if qualities:
        identities = table(
            qualities,
            _JUDGE,
            text_column("Version", lambda item: Record(item.identity.version), rank=2),
            text_column(
                "Parameters",
                lambda item: Record(json.dumps(dict(item.identity.parameters), ensure_ascii=False)),
                rank=1,
            ),
            text_column("Digest", lambda item: item.identity.digest[:_DIGEST]),
            note="The digest covers name, version, parameters and prompt.",
        )
        sections.append(Section("Judges", (identities,)))
    return Report(tuple(sections), evaluation_document(evaluation))


def _first_places(problem: LabelProblem) -> str:
    shown = ", ".join(problem.places[:_PLACES_SHOWN])
    return f"{shown}, …" if problem.count > _PLACES_SHOWN and shown else shown


def _opening(evaluation: Evaluation) -> Iterator[Block]:
    """Yield what was compared."""
    if evaluation.labels:
        yield table(
            evaluation.labels,
            text_column("Labels", lambda source: Place(source.path)),
            number_column("Items", lambda source: source.items),
            number_column("Hits", lambda source: source.hits),
            number_column("Passes", lambda source: source.passes),
            number_column("Ties", lambda source: source.ties, rank=1),
            number_column("Unlabelled", lambda source: source.unlabelled, rank=2),
            number_column("Bad lines", lambda source: source.bad, rank=3),
            text_column("SHA-256", lambda source: source.sha256[:_DIGEST], rank=4),
            note="Ties between raters and unlabelled items are not counted.",
        )
    if evaluation.options.balance:
        seed = evaluation.options.seed
        yield Paragraph(f"Both classes have the same size: items of the larger one were left out, seed {seed}.")
    if evaluation.inverted:
        yield Paragraph("The labels were inverted: a hit there is a pass here.")
    if not evaluation.qualities:
        yield Paragraph("No judge was measured.")
    yield from map(Paragraph, evaluation.notes)


def _figures(evaluation: Evaluation) -> Iterator[Section]:
    """Yield F1 with the tier, then the figures of each class and of both, then the counts."""
    qualities, options = evaluation.qualities, evaluation.options
    if len(qualities) == 1:
        # The figure that a page can show large.
        (item,) = qualities
        facts = [Fact("F1 of hits", None, item.hit_f1, f"of {item.counts.n:,} labelled items; {item.tier.words}")]
    else:
        facts = [
            Fact("Judges", len(qualities)),
            Fact("Labelled hits", sum(source.hits for source in evaluation.labels)),
            Fact("Labelled passes", sum(source.passes for source in evaluation.labels)),
        ]
    drawn = "exact" if options.replicates is None else f"{options.replicates:,} replicates, seed {options.seed}"
    how = (
        f"{formats.exact_percent(options.level)} intervals: F1 by the percentiles of the bootstrap stratified by "
        f"class ({drawn}), from {LEAST_SAMPLES} samples on; balanced accuracy by Newcombe; the others by Wilson. "
        "Tiers by F1 of hits: Excellent above 80%, Good above 60%, Moderate above 40%, Poor above 20%, else Critical."
    )
    blocks: list[Block] = [
        Facts(tuple(facts)),
        table(
            qualities,
            _JUDGE,
            number_column("F1 of hits", lambda item: item.hit_f1),
            text_column("Tier", lambda item: item.tier.words),
            number_column("n", lambda item: item.counts.n),
            note=how,
        ),
    ]
    if defined := [item for item in qualities if item.hit_f1.value is not None]:
        blocks.append(Bars("F1 of hits", tuple(Bar(Record(item.called), item.hit_f1) for item in defined)))
    yield Section("Quality", tuple(blocks))
    for title, name, other_name in (("Hits", "hit", "sensitivity"), ("Passes", "pass", "specificity")):
        of_class = table(
            qualities,
            _JUDGE,
            number_column("Precision", attrgetter(f"{name}_precision")),
            number_column("Recall", attrgetter(f"{name}_recall")),
            number_column("F1", attrgetter(f"{name}_f1")),
            note=f"Recall of {title.lower()} is also called {other_name}.",
        )
        yield Section(title, (of_class,))
    both = table(
        qualities,
        _JUDGE,
        number_column("Accuracy", lambda item: item.accuracy),
        number_column("Balanced accuracy", lambda item: item.balanced_accuracy),
        number_column("MCC", lambda item: formats.fixed(item.mcc)),
    )
    yield Section("Both classes", (both,))
    counts = table(
        qualities,
        _JUDGE,
        number_column("Hits found", lambda item: item.counts.tp),
        number_column("Hits missed", lambda item: item.counts.fn),
        number_column("Passes let through", lambda item: item.counts.tn),
        number_column("False alarms", lambda item: item.counts.fp),
        number_column("Errors", lambda item: item.counts.errors),
        note="Items on which a judge failed are not counted: they are not passes.",
    )
    yield Section("Decisions", (counts,))


# -- scores -----------------------------------------------------------------------------------------------------


def _scores(item: JudgeQuality, scores: ScoreQuality) -> Section:
    blocks: list[Block] = [Facts(tuple(_score_facts(scores)))]
    best, used, operating = scores.best, scores.in_use, scores.operating_step
    if best is not None:
        # The thresholds that have a name, with what they do.
        steps = [] if used is None else [(f"threshold in use, {_number(used.threshold)}", used)]
        steps.append((f"best F1, {_number(best.threshold)}, tuned on this data", best))
        if scores.operating_point is not None and operating is not None:
            steps.append((f"operating point, {_number(operating.threshold)}", operating))
        marks = tuple(Mark(step.false_positive_rate, step.recall, name) for name, step in steps)
        curve = Curve(Record(item.called), scores.roc, marks)
        blocks.append(Curves("ROC curve", "false positive rate", "recall", (curve,), diagonal=True))
        marks, points = tuple(Mark(step.recall, step.precision, name) for name, step in steps), scores.precision_recall
        curve = Curve(Record(item.called), ((0.0, points[0][1]), *points), marks, stepped=True)
        blocks.append(Curves("Precision and recall", "recall", "precision", (curve,)))
        blocks.append(_sweep(scores))
    return Section("Scores of", tuple(blocks), subject=Record(item.called))


def _score_facts(scores: ScoreQuality) -> Iterator[Fact]:
    yield Fact("Items with a score", scores.n)
    if scores.unscored:
        yield Fact("without", scores.unscored, note="decided without a score; left out here", depth=1)
    yield Fact("Area under the ROC curve", None, scores.roc_auc, "50% is guessing; DeLong, logit scale")
    if scores.average_precision is not None:
        yield Fact("Average precision", None, _plain(scores.average_precision, scores.n), "the step sum")
    if scores.in_use is not None:
        yield Fact("Threshold in use", _number(scores.in_use.threshold), _plain(scores.in_use.f1, scores.n), "F1 there")
    if scores.best is not None:
        best, note = scores.best, "F1, tuned on this data"
        if scores.best_count != 1:
            note += f"; {scores.best_count:,} thresholds are equally good, this is the lowest"
        yield Fact("Best threshold", _number(best.threshold), _plain(best.f1, scores.n), note)
    if scores.operating_point is not None:
        yield from _operating(scores.operating_point)


def _operating(point: OperatingPoint) -> Iterator[Fact]:
    share, level = formats.exact_percent(point.wanted), formats.exact_percent(point.level)
    wanted = f"holds a false positive rate of {share} at a level of {level}"
    if point.threshold is None:
        note = f"no threshold {wanted}"
        if point.most_errors is None:
            note += f"; {point.samples_needed:,} passes without a false alarm would be enough"
        yield Fact("Operating point", "none", note=note)
        return
    yield Fact("Operating point", _number(point.threshold), note=f"the lowest threshold that {wanted}")
    yield Fact("false positive rate", None, point.false_positive_rate, "with its one-sided upper limit", depth=1)
    yield Fact("recall", None, point.recall, "Wilson", depth=1)


def _plain(value: float, n: int) -> Estimate:
    return Estimate(value, None, None, n, "labelled item", 0.95, "no interval")


def _number(threshold: float) -> str:
    return f"{threshold:.6g}"


def _sweep(scores: ScoreQuality) -> Grid:
    steps = [scores.sweep[place] for place in spread(len(scores.sweep), _STEPS_SHOWN)]
    return table(
        steps,
        number_column("Threshold", lambda step: _number(step.threshold)),
        number_column("Precision", lambda step: _plain(step.precision, scores.n)),
        number_column("Recall", lambda step: _plain(step.recall, scores.n)),
        number_column("F1", lambda step: _plain(step.f1, scores.n)),
        number_column("False positive rate", lambda step: _plain(step.false_positive_rate, scores.n)),
        note=f"{len(steps):,} of {scores.thresholds:,} thresholds; a hit scores at least so much.",
    )
