"""An evaluation of judges arranged into a report, whose document is the summary (`judge-evaluation-1.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from faircount.analysis.judges.quality import Evaluation, JudgeQuality, LabelDoubt, ScoreQuality, Step, spread
from faircount.analysis.judges.summary import evaluation_document
from faircount.analysis.judges.tiers import LEAST_SAMPLES
from faircount.core.model import Estimate
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
from faircount.stats.detectors import OperatingPoint

_DIGEST = 12
_STEPS_SHOWN = 11
_PLACES_SHOWN = 3
_JUDGE: TableColumn[JudgeQuality] = text_column("Judge", lambda item: Record(item.called))


def as_report(evaluation: Evaluation) -> Report:
    """Arrange an evaluation into a report."""
    sections = [
        Section("Judges against labels", tuple(_opening(evaluation)), level=1),
        *([Section("Quality", tuple(_quality(evaluation)))] if evaluation.qualities else []),
        *_by_class(evaluation),
        *([Section("Decisions", (_counts(evaluation),))] if evaluation.qualities else []),
        *[_scores(item, item.scores) for item in evaluation.qualities if item.scores is not None],
        *_doubts(evaluation),
        *_label_doubts(evaluation),
        *_troubles(evaluation),
        *([Section("Judges", (_identities(evaluation),))] if evaluation.qualities else []),
    ]
    return Report(tuple(sections), evaluation_document(evaluation))


# -- what was compared ------------------------------------------------------------------------------------------


def _opening(evaluation: Evaluation) -> Iterator[Block]:
    if evaluation.labels:
        yield _labels(evaluation)
    if evaluation.options.balance:
        seed = evaluation.options.seed
        yield Paragraph(f"Both classes have the same size: items of the larger one were left out, seed {seed}.")
    if evaluation.inverted:
        yield Paragraph("The labels were inverted: a hit there is a pass here.")
    if not evaluation.qualities:
        yield Paragraph("No judge was measured.")
    yield from (Paragraph(note) for note in evaluation.notes)


def _labels(evaluation: Evaluation) -> Grid:
    return table(
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


# -- figures ----------------------------------------------------------------------------------------------------


def _quality(evaluation: Evaluation) -> Iterator[Block]:
    yield Facts(tuple(_in_short(evaluation)))
    yield table(
        evaluation.qualities,
        _JUDGE,
        number_column("F1 of hits", lambda item: item.hit_f1),
        text_column("Tier", lambda item: item.tier.words),
        number_column("n", lambda item: item.counts.n),
        note=_how(evaluation),
    )
    drawn = [item for item in evaluation.qualities if item.hit_f1.value is not None]
    if drawn:
        yield Bars("F1 of hits", tuple(Bar(Record(item.called), item.hit_f1) for item in drawn))


def _by_class(evaluation: Evaluation) -> Iterator[Section]:
    qualities = evaluation.qualities
    if not qualities:
        return
    hits = table(
        qualities,
        _JUDGE,
        number_column("Precision", lambda item: item.hit_precision),
        number_column("Recall", lambda item: item.hit_recall),
        number_column("F1", lambda item: item.hit_f1),
        note="Recall of hits is also called sensitivity.",
    )
    passes = table(
        qualities,
        _JUDGE,
        number_column("Precision", lambda item: item.pass_precision),
        number_column("Recall", lambda item: item.pass_recall),
        number_column("F1", lambda item: item.pass_f1),
        note="Recall of passes is also called specificity.",
    )
    both = table(
        qualities,
        _JUDGE,
        number_column("Accuracy", lambda item: item.accuracy),
        number_column("Balanced accuracy", lambda item: item.balanced_accuracy),
        number_column("MCC", lambda item: formats.fixed(item.mcc)),
    )
    yield from (Section("Hits", (hits,)), Section("Passes", (passes,)), Section("Both classes", (both,)))


def _in_short(evaluation: Evaluation) -> Iterator[Fact]:
    """Yield the figure that a page can show large where there is but one judge, else what was measured."""
    if len(evaluation.qualities) == 1:
        item = evaluation.qualities[0]
        yield Fact("F1 of hits", None, item.hit_f1, f"of {item.counts.n:,} labelled items; {item.tier.words}")
        return
    yield Fact("Judges", len(evaluation.qualities))
    yield Fact("Labelled hits", sum(source.hits for source in evaluation.labels))
    yield Fact("Labelled passes", sum(source.passes for source in evaluation.labels))


def _how(evaluation: Evaluation) -> str:
    options = evaluation.options
    drawn = "exact" if options.replicates is None else f"{options.replicates:,} replicates, seed {options.seed}"
    return (
        f"{formats.exact_percent(options.level)} intervals: F1 by the percentiles of the bootstrap stratified by "
        f"class ({drawn}), from {LEAST_SAMPLES} samples on; balanced accuracy by Newcombe; the others by Wilson. "
        "Tiers by F1 of hits: Excellent above 80%, Good above 60%, Moderate above 40%, Poor above 20%, else Critical."
    )


def _counts(evaluation: Evaluation) -> Grid:
    return table(
        evaluation.qualities,
        _JUDGE,
        number_column("Hits found", lambda item: item.counts.tp),
        number_column("Hits missed", lambda item: item.counts.fn),
        number_column("Passes let through", lambda item: item.counts.tn),
        number_column("False alarms", lambda item: item.counts.fp),
        number_column("Errors", lambda item: item.counts.errors),
        note="Items on which a judge failed are not counted: they are not passes.",
    )


def _identities(evaluation: Evaluation) -> Grid:
    return table(
        evaluation.qualities,
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


def _doubts(evaluation: Evaluation) -> Iterator[Section]:
    rows = [(Record(item.called), note) for item in evaluation.qualities for note in item.notes]
    if rows:
        yield Section("Read with care", (text_table(("Judge", "Note"), rows),))


def _label_doubts(evaluation: Evaluation) -> Iterator[Section]:
    if evaluation.doubts:
        doubts = table(
            evaluation.doubts,
            text_column("Doubt", lambda doubt: Record(doubt.what)),
            number_column("Count", lambda doubt: doubt.count),
            text_column("Where", _where),
        )
        yield Section("Problems with the labels", (doubts,))


def _where(doubt: LabelDoubt) -> Place:
    shown = ", ".join(doubt.places[:_PLACES_SHOWN])
    return Place(f"{shown}, …" if doubt.count > _PLACES_SHOWN and shown else shown)


def _troubles(evaluation: Evaluation) -> Iterator[Section]:
    rows = [(Record(trouble.judge), Record(trouble.error)) for trouble in evaluation.errors]
    if rows:
        yield Section("Not measured", (text_table(("Judge", "Why"), rows),))


# -- scores -----------------------------------------------------------------------------------------------------


def _scores(item: JudgeQuality, scores: ScoreQuality) -> Section:
    blocks: list[Block] = [Facts(tuple(_score_facts(scores)))]
    if scores.best is not None:
        marks = list(_marked(scores))
        blocks.append(
            Curves(
                "ROC curve",
                "false positive rate",
                "recall",
                (
                    Curve(
                        Record(item.called),
                        scores.roc,
                        tuple(Mark(m.false_positive_rate, m.recall, n) for n, m in marks),
                    ),
                ),
                diagonal=True,
            )
        )
        named = tuple(Mark(m.recall, m.precision, n) for n, m in marks)
        points = scores.precision_recall
        curve = Curve(Record(item.called), ((0.0, points[0][1]), *points), named, stepped=True)
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
        also = (
            ""
            if scores.best_count == 1
            else (f"; {scores.best_count:,} thresholds are equally good, this is the lowest")
        )
        best = scores.best
        yield Fact(
            "Best threshold", _number(best.threshold), _plain(best.f1, scores.n), f"F1, tuned on this data{also}"
        )
    if scores.operating_point is not None:
        yield from _operating(scores.operating_point)


def _operating(point: OperatingPoint) -> Iterator[Fact]:
    share, level = formats.exact_percent(point.wanted), formats.exact_percent(point.level)
    wanted = f"holds a false positive rate of {share} at a level of {level}"
    if point.threshold is None:
        needed = f"; {point.passes_needed:,} passes without a false alarm would be enough"
        yield Fact(
            "Operating point", "none", note=f"no threshold {wanted}{needed if point.most_alarms is None else ''}"
        )
        return
    yield Fact("Operating point", _number(point.threshold), note=f"the lowest threshold that {wanted}")
    yield Fact("false positive rate", None, point.false_positive_rate, "with its one-sided upper limit", depth=1)
    yield Fact("recall", None, point.recall, "Wilson", depth=1)


def _plain(value: float, n: int) -> Estimate:
    return Estimate(value, None, None, n, "labelled item", 0.95, "no interval")


def _number(threshold: float) -> str:
    return f"{threshold:.6g}"


def _marked(scores: ScoreQuality) -> Iterator[tuple[str, Step]]:
    """Yield the thresholds that have a name, with what they do."""
    if scores.in_use is not None:
        yield f"threshold in use, {_number(scores.in_use.threshold)}", scores.in_use
    if scores.best is not None:
        yield f"best F1, {_number(scores.best.threshold)}, tuned on this data", scores.best
    point = scores.operating_point
    if point is not None and scores.operating_step is not None:
        yield f"operating point, {_number(scores.operating_step.threshold)}", scores.operating_step


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
