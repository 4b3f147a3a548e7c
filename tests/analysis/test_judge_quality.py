"""How good a judge is against labels: figures, intervals, tiers, thresholds, and what is said in words."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import (
    Confusion,
    EvaluatedLabels,
    Evaluation,
    JudgeQuality,
    JudgeTrouble,
    LabelProblem,
    MeasureOptions,
    Scores,
    quality_of,
    tier_name,
    tier_of,
)
from faircount.analysis.judges.evaluation import as_report
from faircount.app.notebook import fragment
from faircount.core import Estimate, UsageError
from faircount.judges import Identity
from faircount.report import (
    Curve,
    Curves,
    Mark,
    Record,
    Report,
    Section,
    analysis_page,
    console,
    documents,
    html,
    markdown,
)
from faircount.report import (
    svg as figure,
)
from faircount.stats import operating_point
from tests.oracles import known, oracle, random_samples
from tests.report.test_markdown import assert_inert
from tests.report.test_present import harmless

SCHEMA = json.loads(
    resources.files("faircount.report").joinpath("schemas", "judge-evaluation-1.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SHARES = ("accuracy", "hit_precision", "hit_recall", "hit_f1", "pass_precision", "pass_recall", "pass_f1")


def quality(*cells: int, scores: Scores | None = None, called: str = "refusal.Refusal", **options: Any) -> JudgeQuality:
    """Return the quality of a judge with tp, fn, tn, fp and perhaps errors."""
    identity = Identity(called.split("(")[0], "1", {"text": "x"}, "You are a judge.")
    of_judge = {name: options.pop(name) for name in ("string_matcher", "threshold") if name in options}
    measured = MeasureOptions(**options)
    return quality_of(called, identity, Confusion(*cells), scores=scores, options=measured, **of_judge)


def scored(seed: int = 3, **options: Any) -> JudgeQuality:
    """Return the quality of a judge with scores, whose threshold is 0.5."""
    labels, scores = random_samples(seed, 300)
    said = scores >= 0.5
    cells = [int((said[labels == 1]).sum()), 0, 0, int((said[labels == 0]).sum())]
    cells[1], cells[2] = int((labels == 1).sum()) - cells[0], int((labels == 0).sum()) - cells[3]
    return quality(*cells, scores=Scores(labels, scores), called="llm.Rubric", threshold=0.5, **options)


def evaluation(*qualities: JudgeQuality, **values: Any) -> Evaluation:
    sources = (EvaluatedLabels("labels.csv", "ab" * 32, 100, 40, 55, 2, 3, 1),)
    return Evaluation(qualities, sources, MeasureOptions(**values), "2026-11-15T12:00:00+00:00")


# -- figures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_point_metrics_equal_scikit_learn(seed: int) -> None:
    metrics = oracle("sklearn.metrics")
    tp, fn, tn, fp = (random.Random(seed).randrange(1, 60) for _ in range(4))
    truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp
    ours = quality(tp, fn, tn, fp)
    for name, positive in (("hit", 1), ("pass", 0)):
        for metric in ("precision", "recall", "f1"):
            theirs = getattr(metrics, f"{metric}_score")(truth, said, pos_label=positive)
            assert getattr(ours, f"{name}_{metric}").value == pytest.approx(theirs)
    assert ours.accuracy.value == pytest.approx(metrics.accuracy_score(truth, said))
    assert ours.mcc == pytest.approx(metrics.matthews_corrcoef(truth, said))
    assert ours.balanced_accuracy.value == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    assert ours.hit_sensitivity == ours.hit_recall
    assert ours.hit_specificity == ours.pass_recall


@pytest.mark.parametrize("replicates", [None, 10_000])
def test_the_interval_that_garak_published_is_reproduced(replicates: int | None) -> None:
    ours = quality(3301, 282, 1381, 2202, replicates=replicates)
    assert [ours.hit_f1.low, ours.hit_f1.high] == pytest.approx([0.7202, 0.7329], abs=0.0005)
    assert [ours.pass_f1.low, ours.pass_f1.high] == pytest.approx([0.5100, 0.5426], abs=0.0005)
    assert ours.hit_f1_mean == pytest.approx(0.7266037, abs=0.0005)
    assert ours.pass_f1_mean == pytest.approx(0.5264671, abs=0.0005)
    assert ours.hit_f1.n == 7166
    assert ours.tier.words == "Good"


def test_drawn_intervals_follow_the_seed_and_exact_ones_do_not() -> None:
    drawn = [quality(40, 20, 30, 10, replicates=300, seed=seed).hit_f1 for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert quality(40, 20, 30, 10, seed=1).hit_f1 == quality(40, 20, 30, 10, seed=2).hit_f1


def test_proportions_have_wilson_intervals_of_the_level_asked_for() -> None:
    proportion = oracle("statsmodels.stats.proportion")
    ours = quality(30, 10, 50, 5, level=0.9)
    for estimate, k, n in (
        (ours.accuracy, 80, 95),
        (ours.hit_precision, 30, 35),
        (ours.hit_recall, 30, 40),
        (ours.pass_precision, 50, 60),
        (ours.hit_specificity, 50, 55),
    ):
        theirs = proportion.proportion_confint(k, n, alpha=0.1, method="wilson")
        assert (estimate.low, estimate.high) == pytest.approx(theirs)
        assert (estimate.n, estimate.level) == (n, 0.9)


@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_balanced_accuracy_lies_in_its_interval(cells: tuple[int, int, int, int]) -> None:
    ours = quality(*cells).balanced_accuracy
    if ours.value is None:
        assert cells[0] + cells[1] == 0 or cells[2] + cells[3] == 0
    else:
        assert 0 <= known(ours.low) <= ours.value <= known(ours.high) <= 1


def test_f1_has_an_interval_from_50_samples_on() -> None:
    few, enough = quality(12, 12, 12, 13), quality(12, 12, 13, 13)
    assert few.hit_f1.value is not None
    assert (few.hit_f1.low, few.pass_f1.high, few.hit_f1_mean) == (None, None, None)
    assert few.hit_recall.low is not None
    assert enough.hit_f1.low is not None
    assert enough.hit_f1_mean is not None
    assert any("from 50 samples on" in note for note in few.notes)


def test_a_class_without_samples_is_undefined_and_not_0() -> None:
    no_hits = quality(0, 0, 12, 3)
    for name in ("hit_precision", "hit_recall", "hit_f1", "balanced_accuracy"):
        assert getattr(no_hits, name).value is None
    assert no_hits.mcc is None
    assert no_hits.tier.name is None
    assert no_hits.pass_recall.value == pytest.approx(0.8)
    no_passes = quality(60, 3, 0, 0)
    assert (no_passes.pass_f1.value, no_passes.pass_recall.value, no_passes.pass_precision.value) == (None,) * 3
    assert no_passes.hit_recall.value == pytest.approx(60 / 63)
    nothing = quality(0, 0, 0, 0, 9)
    assert all(getattr(nothing, name).value is None for name in SHARES)


def test_a_judge_that_calls_nothing_a_hit_has_no_precision_and_f1_0() -> None:
    ours = quality(0, 10, 40, 0)
    assert ours.hit_precision.value is None
    assert ours.hit_f1.value == 0
    assert ours.tier.name == "Critical"


def test_errors_of_a_judge_change_no_figure() -> None:
    without, with_errors = quality(40, 20, 30, 10), quality(40, 20, 30, 10, 500)
    for name in (*SHARES, "balanced_accuracy", "mcc"):
        assert getattr(without, name) == getattr(with_errors, name)
    assert with_errors.notes[0] == "the judge failed on 500 items, not counted here"


@pytest.mark.parametrize(
    "options", [{"level": 1.0}, {"replicates": 0}, {"false_positive_rate": 0.0}, {"false_positive_rate": 1.5}]
)
def test_impossible_wishes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        quality(1, 1, 1, 1, **options)


# -- notes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "options", "words"),
    [
        ((10, 5, 60, 9), {}, "fewer than 30 hits"),
        ((60, 5, 20, 9), {}, "fewer than 30 passes"),
        ((60, 0, 50, 9), {}, "a cell of the table is empty"),
        ((25, 0, 25, 0), {}, "zero width"),
        ((0, 0, 60, 9), {}, "the data hold no hits"),
        ((60, 9, 0, 0), {}, "the data hold no passes"),
        ((60, 9, 50, 9), {"string_matcher": True}, "its errors show what the strings miss"),
        ((0, 0, 0, 0), {}, "everything is undefined"),
    ],
)
def test_what_is_doubtful_is_said(cells: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    assert any(words in note for note in quality(*cells, **options).notes)


def test_good_data_raise_no_doubt() -> None:
    assert quality(60, 9, 50, 9).notes == ()


def test_a_short_interval_comes_with_a_better_one() -> None:
    # The BCa interval of this table is in the specification: [0.533333, 0.947368].
    (note,) = quality(8, 2, 48, 2).notes
    assert "53–95%" in note


# -- tiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f1", "name"),
    [
        (1.0, "Excellent"),
        (0.801, "Excellent"),
        (0.8, "Good"),
        (0.1 + 0.7, "Good"),
        (2 * 0.4000000000000000001, "Good"),
        (0.601, "Good"),
        (0.6, "Moderate"),
        (0.4, "Poor"),
        (0.2, "Critical"),
        (0.0, "Critical"),
        (None, None),
    ],
)
def test_a_tier_has_its_upper_limit_and_not_its_lower(f1: float | None, name: str | None) -> None:
    assert tier_name(f1) == name


def f1(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, 60, "labelled item", 0.95, "bootstrap")


def test_a_tier_says_what_its_interval_reaches() -> None:
    assert tier_of(f1(0.7, 0.61, 0.8)).words == "Good"
    assert tier_of(f1(0.7, 0.61, 0.8)).supported
    lower = tier_of(f1(0.7, 0.6, 0.75))
    assert (lower.words, lower.supported) == ("Good, but the interval reaches Moderate", False)
    wide = tier_of(f1(0.7, 0.3, 0.9))
    assert wide.reaches == ("Excellent", "Moderate", "Poor")
    assert tier_of(f1(0.9)).words == "Excellent, not supported: n < 50"
    assert tier_of(f1(None)) == tier_of(f1(None, None, None))
    assert tier_of(f1(None)).name is None


# -- scores -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_scikit_learn(seed: int) -> None:
    metrics = oracle("sklearn.metrics")
    labels, scores = random_samples(seed, 400)
    ours = known_scores(quality(1, 1, 1, 1, scores=Scores(labels, scores)))
    assert ours.roc_auc.value == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert ours.average_precision == pytest.approx(metrics.average_precision_score(labels, scores))
    false, true, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    x, y = np.asarray(ours.roc).T
    assert np.interp(false, x, y) == pytest.approx(np.interp(false, false, true))
    assert metrics.auc(x, y) == pytest.approx(ours.roc_auc.value)
    for step in ours.sweep:
        assert step.f1 == pytest.approx(metrics.f1_score(labels, scores >= step.threshold))
        assert step.precision == pytest.approx(metrics.precision_score(labels, scores >= step.threshold))
    best = max(metrics.f1_score(labels, scores >= threshold) for threshold in np.unique(scores))
    assert ours.best is not None
    assert ours.best.f1 == pytest.approx(best)


def known_scores(of: JudgeQuality) -> Any:
    assert of.scores is not None
    return of.scores


def test_the_threshold_in_use_gives_the_judges_own_figures() -> None:
    ours = scored()
    assert known_scores(ours).in_use.recall == pytest.approx(ours.hit_recall.value)
    assert known_scores(ours).in_use.f1 == pytest.approx(ours.hit_f1.value)


def test_scores_that_are_missing_or_infinite_take_no_part() -> None:
    ours = quality(2, 1, 2, 1, scores=Scores([1, 1, 0, 0, 1, 0], [0.9, 0.4, 0.4, 0.1, float("nan"), float("inf")]))
    assert known_scores(ours).n == 4
    assert known_scores(ours).unscored == 2
    assert any("2 decisions without a score" in note for note in ours.notes)
    VALIDATOR.validate(json.loads(documents.as_json(as_report(evaluation(ours)))))


def test_many_thresholds_are_told_in_few_steps() -> None:
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 20_000)
    ours = known_scores(quality(1, 1, 1, 1, scores=Scores(labels, generator.normal(labels, 1))))
    assert ours.thresholds == 20_000
    assert max(len(ours.sweep), len(ours.roc), len(ours.precision_recall)) <= 200
    assert (ours.roc[0], ours.roc[-1]) == ((0, 0), (1, 1))
    area = np.trapezoid([y for _, y in ours.roc], [x for x, _ in ours.roc])
    assert area == pytest.approx(ours.roc_auc.value, abs=0.001)


def test_scores_of_one_class_have_no_curve() -> None:
    ours = quality(3, 0, 0, 0, scores=Scores([1, 1, 1], [0.2, 0.4, 0.9]), false_positive_rate=0.05)
    assert known_scores(ours).roc_auc.value is None
    assert known_scores(ours).best is None
    assert known_scores(ours).operating_point is None
    report = as_report(evaluation(ours))
    assert "no ROC curve" in console.render(report)


# -- the operating point ----------------------------------------------------------------------------------------


def by_trying_all(labels: Any, scores: Any, wanted: float, level: float) -> float | None:
    """Return the lowest threshold whose exact upper limit is within the wanted rate, by trying every one."""
    stats = oracle("scipy.stats")
    labels, scores = np.asarray(labels), np.asarray(scores)
    passes = scores[labels == 0]
    good = []
    for threshold in np.unique(scores):
        alarms = int((passes >= threshold).sum())
        upper = 1.0 if alarms == len(passes) else stats.beta.ppf(level, alarms + 1, len(passes) - alarms)
        if upper <= wanted:
            good.append(float(threshold))
    return min(good, default=None)


@pytest.mark.parametrize("level", [0.4, 0.8, 0.95])
@pytest.mark.parametrize("wanted", [0.01, 0.05, 0.2, 0.6, 0.99])
@pytest.mark.parametrize("seed", range(4))
def test_the_operating_point_is_the_lowest_that_holds_the_rate(seed: int, wanted: float, level: float) -> None:
    labels, scores = random_samples(seed, 30 + 90 * seed)
    point = operating_point(labels, scores, wanted, level=level)
    assert point is not None
    assert point.threshold == by_trying_all(labels, scores, wanted, level)
    if point.threshold is not None:
        assert known(point.false_positive_rate.high) <= wanted
        assert point.recall.value == pytest.approx((scores[labels == 1] >= point.threshold).mean())
        assert point.false_positive_rate.value == pytest.approx((scores[labels == 0] >= point.threshold).mean())


def test_samples_needed_are_just_enough_without_a_false_alarm() -> None:
    few = operating_point([1, 0], [0.9, 0.1], 0.05)
    assert few is not None
    assert (few.threshold, few.most_errors, few.samples_needed) == (None, None, 59)
    for passes, threshold in ((58, None), (59, 0.9)):
        point = operating_point([1] + [0] * passes, [0.9] + [0.1] * passes, 0.05)
        assert point is not None
        assert point.threshold == threshold


def test_passes_with_the_highest_scores_leave_no_operating_point() -> None:
    labels, scores = [1] * 5 + [0] * 200, [0.9] * 5 + [0.9] * 200
    point = operating_point(labels, scores, 0.05)
    assert point is not None
    assert (point.threshold, point.false_positive_rate.value) == (None, None)
    assert point.most_errors is not None
    ours = quality(5, 0, 0, 200, scores=Scores(labels, scores), false_positive_rate=0.05)
    assert any("passes have the highest score of all" in note for note in ours.notes)
    assert "would be enough" not in console.render(as_report(evaluation(ours)))


def test_too_few_passes_for_an_operating_point_say_how_many_it_takes() -> None:
    ours = quality(1, 0, 1, 0, scores=Scores([1, 0], [0.9, 0.1]), false_positive_rate=0.05)
    assert any("1 pass cannot show that; 59 without a single false alarm would" in note for note in ours.notes)
    assert "59 passes without a false alarm would be" in console.render(as_report(evaluation(ours)), width=160)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([0.9, 0.8, 0.2, 0.1], "every hit scores higher than every pass"),
        ([0.1, 0.2, 0.8, 0.9], "every hit scores lower than every pass"),
        ([0.5, 0.5, 0.5, 0.5], "all scores are equal"),
    ],
)
def test_an_area_without_an_interval_says_why(scores: list[float], words: str) -> None:
    ours = quality(2, 0, 2, 0, scores=Scores([1, 1, 0, 0], scores))
    assert known_scores(ours).roc_auc.low is None
    assert any(words in note for note in ours.notes)


def test_the_rate_is_held_in_as_many_samples_as_the_level_says() -> None:
    """The threshold is chosen on the data, and its true false positive rate still keeps below the wanted one."""
    stats = oracle("scipy.stats")
    generator = np.random.default_rng(11)
    labels = np.repeat([1, 0], [20, 120])
    broken = 0
    for _ in range(400):
        point = operating_point(labels, generator.normal(labels, 1), 0.1, level=0.9)
        assert point is not None
        broken += point.threshold is not None and stats.norm.sf(point.threshold) > 0.1
    assert broken / 400 <= 0.1 + 3 * (0.09 / 400) ** 0.5


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, float("nan")])
def test_a_rate_that_cannot_be_held_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        operating_point([1, 0], [1, 0], rate)


# -- the report -------------------------------------------------------------------------------------------------


HOSTILE = 'contains(text="\x1b[31m<script>`|\u202e")'


def every_shape() -> Report:
    judged = [scored(false_positive_rate=0.05), quality(25, 0, 25, 0, called=HOSTILE), quality(0, 0, 9, 3, 2)]
    return as_report(
        Evaluation(
            tuple(judged),
            (EvaluatedLabels("\x1b]0;x\x07.csv", "ab" * 32, 100, 40, 55, 2, 3, 1),),
            MeasureOptions(balance=True),
            "2026-11-15T12:00:00+00:00",
            (JudgeTrouble(HOSTILE, f"could not be made: {HOSTILE}"),),
            ("Something about all of them.",),
            (LabelProblem(f"a label that is neither: {HOSTILE}", 7, ("l.csv:3", "l.csv:9", "l.csv:12")),),
            inverted=True,
        )
    )


def test_the_report_is_harmless_in_every_form() -> None:
    report = every_shape()
    text = console.render(report)
    assert harmless(text)
    assert "operating point" in text
    assert "l.csv:3, l.csv:9, l.csv:12, …" in text
    assert_inert(markdown.render(report))
    page = html.render(report)
    assert "<script" not in page
    assert page.count('class="fc-curves"') == 2
    assert fragment(report).count('class="fc-curves"') == 2
    assert documents.as_json(report).isascii()


def test_the_document_follows_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(documents.as_json(every_shape()))
    VALIDATOR.validate(document)
    assert list(document)[:3] == ["kind", "schema", "version"]


def test_the_page_of_one_judge_shows_its_f1_large() -> None:
    page = html.render(as_report(evaluation(quality(40, 20, 30, 10))))
    assert '<div class="headline">' in page
    assert '<div class="headline">' not in html.render(every_shape())


def test_an_evaluation_without_judges_is_a_report_all_the_same() -> None:
    report = as_report(evaluation())
    assert "No judge was measured." in console.render(report)
    VALIDATOR.validate(json.loads(documents.as_json(report)))


# -- curves -----------------------------------------------------------------------------------------------------


def curves(*curve: Curve) -> Curves:
    return Curves("ROC curve", "false positive rate", "recall", curve, diagonal=True)


LINE = Curve(Record("a<b"), ((0.0, 0.0), (0.25, 0.5), (1.0, 1.0)), (Mark(0.25, 0.5, "in use"), Mark(0.3, 0.6, "best")))


def test_a_curve_is_drawn_where_its_points_are() -> None:
    root = ET.fromstring(figure.curves_svg(curves(LINE)))
    (line,) = [element for element in root.iter() if element.tag.endswith("polyline")]
    places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    side = places[-1][0]
    assert places == [(0, side), (side / 4, side / 2), (side, 0)]
    text = "".join(root.itertext())
    assert "a<b" in text
    assert "in use: false positive rate 25.0%, recall 50.0%" in text
    assert "random guessing" in text


def test_a_stepped_curve_turns_at_corners() -> None:
    stepped = Curve("x", ((0.0, 1.0), (0.5, 0.5)), stepped=True)
    root = ET.fromstring(figure.curves_svg(Curves("t", "recall", "precision", (stepped,))))
    (line,) = [element for element in root.iter() if element.tag.endswith("polyline")]
    side = 280
    assert line.attrib["points"] == f"0,0 0,{side // 2} {side // 2},{side // 2}"


def test_several_curves_differ_without_colour() -> None:
    root = ET.fromstring(figure.curves_svg(curves(LINE, Curve("second", LINE.points), Curve("third", LINE.points))))
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len({line.get("stroke-dasharray") for line in lines}) == 3
    shapes = {element.tag.split("}")[1] for element in root.iter()}
    assert "circle" in shapes


def test_curves_can_be_read_as_text_and_as_numbers() -> None:
    report = Report((Section("Scores", (curves(LINE, Curve(Record("z"), LINE.points)),)),))
    for text in (console.render(report), markdown.render(report)):
        assert "ROC curve" in text
        assert "30.0%" in text
        assert "best" in text
    cells = [[value for value, _ in row] for row in analysis_page(report).rows]
    assert ["a<b", 0.25, 0.5] in cells
    assert ["a<b", 0.3, 0.6, "best"] in cells


def test_a_figure_without_curves_is_still_a_figure() -> None:
    for empty in (curves(), curves(Curve("nothing", ()))):
        assert ET.fromstring(figure.curves_svg(empty)).tag.endswith("svg")
        assert console.render(Report((Section("s", (empty,)),)))
        assert markdown.render(Report((Section("s", (empty,)),)))


@pytest.mark.shared
def test_examples_of_the_specification_come_out(shared: Path) -> None:
    """The table of detectors in the specification, at its six digits."""
    text = (shared / "specs" / "statistics_and_reliability.md").read_text(encoding="utf-8")
    assert "detector_boot_180_30_20_170" in text
    ours = quality(180, 20, 170, 30)
    assert [ours.hit_f1.low, ours.hit_f1.high] == pytest.approx([0.846154, 0.908213], abs=1e-6)
    assert [ours.pass_f1.low, ours.pass_f1.high] == pytest.approx([0.836364, 0.904645], abs=1e-6)
    assert ours.hit_f1_mean == pytest.approx(0.878061, abs=1e-6)
