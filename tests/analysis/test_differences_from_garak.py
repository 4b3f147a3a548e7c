"""Where our figures differ from garak's on purpose: both numbers of every row of the page are computed here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faircount import AnalyzeOptions, analyze
from faircount.analysis import (
    LEAST_SAMPLES,
    STRING_MATCHER,
    SUMMARY,
    Confusion,
    JudgeQuality,
    JudgeRecord,
    MeasureOptions,
    Metadata,
    Summary,
    as_document,
    quality_of,
    ranked,
    read_summary,
    summary_of,
    tier_name,
)
from faircount.components import Context
from faircount.core import Estimate, GarakPair
from faircount.judges import Attempt, Decision, Identity, make_judge, verdict_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "differences-from-garak.md").read_text(encoding="utf-8")
BYPASS = "mitigation.MitigationBypass"
BYPASS_COUNTS = Confusion(tp=3301, fn=282, tn=1381, fp=2202)


TEXT = " ".join(PAGE.split())


def has_row(case: str, figure: str, *cells: str) -> None:
    row = f"| {case}: {figure} | {' | '.join(cells)} |"
    assert row in PAGE.splitlines(), f"the page lacks {row}"


def shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.4f}"
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def measured(tp: int, fn: int, tn: int, fp: int, *, errors: int = 0, called: str = "a.Judge") -> JudgeQuality:
    counts = Confusion(tp, fn, tn, fp, errors)
    return quality_of(called, Identity(called, "1"), counts, scores=None, options=MeasureOptions())


def written(*qualities: JudgeQuality) -> dict[str, Any]:
    return as_document(qualities, Metadata("2026-01-30T14:28:03", 42))


@pytest.fixture
def current(shared: Path) -> Summary:
    return read_summary(str(shared / "golden" / "garak" / "detector_metrics" / "current_6_detectors.json"))


@pytest.fixture
def history(shared: Path) -> Summary:
    return read_summary(str(shared / "golden" / "garak" / "detector_metrics" / "history_8b5835a4_28_detectors.json"))


def metrics_of(summary: Summary, called: str) -> dict[str, Any]:
    (record,) = [judge for judge in summary.judges if judge.called == called]
    assert record.metrics is not None
    return dict(record.metrics)


def interval_of(metrics: dict[str, Any], figure: str) -> str:
    limits = metrics[f"{figure}_ci"]
    return f"{metrics[figure]:.4f} [{limits['ci_lower']:.4f}, {limits['ci_upper']:.4f}]"


# -- a class without samples ------------------------------------------------------------------------------------


@pytest.mark.shared
def test_without_hits_garak_says_0_and_we_say_undefined(current: Summary) -> None:
    garak = metrics_of(current, "malwaregen.AnyCode")
    ours = measured(0, 0, 10, 0)
    assert garak["accuracy"] == garak["pass_recall"] == ours.accuracy.value == 1
    rows = {
        "recall of hits": ("hit_recall", ours.hit_recall),
        "precision of hits": ("hit_precision", ours.hit_precision),
        "F1 of hits": ("hit_f1", ours.hit_f1),
        "F1 of passes": ("pass_f1", ours.pass_f1),
    }
    for name, (figure, estimate) in rows.items():
        has_row("ten passes, no hits", name, f"{garak[figure]:.4f}", shown(estimate))
    has_row("ten passes, no hits", "tier", str(tier_name(garak["hit_f1"])), ours.tier.words)
    metrics = written(ours)["results"]["a.Judge"]["metrics"]
    assert metrics["hit_f1"] is metrics["hit_recall"] is metrics["hit_precision"] is None


@pytest.mark.shared
def test_without_passes_garak_says_0_and_we_say_undefined(history: Summary) -> None:
    garak = metrics_of(history, "lmrc.Anthro")
    ours = measured(10, 0, 0, 0)
    assert garak["accuracy"] == garak["hit_recall"] == 1
    has_row("ten hits, no passes", "F1 of hits", f"{garak['hit_f1']:.4f}", shown(ours.hit_f1))
    has_row("ten hits, no passes", "F1 of passes", f"{garak['pass_f1']:.4f}", shown(ours.pass_f1))


@pytest.mark.shared
def test_the_ranking_of_garaks_file_notes_the_missing_class(current: Summary) -> None:
    (item,) = [item for item in ranked([current]).ranking if item.judge == "malwaregen.AnyCode"]
    assert any("there were no hits in the data" in note for note in item.notes)


# -- intervals --------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_every_share_has_an_interval_however_few_samples(current: Summary) -> None:
    garak = metrics_of(current, "dan.DAN")
    ours = measured(4, 0, 3, 1)
    rows = {
        "precision of hits": ("hit_precision", ours.hit_precision),
        "recall of hits": ("hit_recall", ours.hit_recall),
        "specificity": ("hit_specificity", ours.hit_specificity),
    }
    for name, (figure, estimate) in rows.items():
        assert garak[figure] == estimate.value
        assert f"{figure}_ci" not in garak
        has_row("`dan.DAN`, 4 hits, 4 passes", name, f"{garak[figure]:.4f}", shown(estimate))


@pytest.mark.shared
def test_the_exact_interval_of_f1_is_the_one_that_garak_drew(current: Summary) -> None:
    garak = metrics_of(current, BYPASS)
    ours = measured(3301, 282, 1381, 2202)
    for name, figure, estimate in (("hits", "hit_f1", ours.hit_f1), ("passes", "pass_f1", ours.pass_f1)):
        has_row("MitigationBypass, n = 7166", f"F1 of {name}", interval_of(garak, figure), shown(estimate))
        assert estimate.low is not None
        assert estimate.high is not None
        limits = garak[f"{figure}_ci"]
        assert abs(estimate.low - limits["ci_lower"]) < 0.0005
        assert abs(estimate.high - limits["ci_upper"]) < 0.0005


def test_an_interval_without_width_is_shown_with_a_warning() -> None:
    ours = measured(25, 0, 25, 0)
    # Every draw from 25 found of 25 finds all of them again.
    has_row(
        "25 of 25 right in both classes",
        "F1 of hits",
        "1.0000 [1.0000, 1.0000]",
        f"{shown(ours.hit_f1)}, with a warning",
    )
    assert any("has zero width" in note for note in ours.notes)
    has_row("25 of 25 right in both classes", "recall of hits", "1.0000", shown(ours.hit_recall))


# -- tiers and sizes --------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_a_tier_says_if_the_interval_does_not_support_it(history: Summary) -> None:
    words = {item.judge: item.tier.words for item in ranked([history]).ranking if item.tier is not None}
    for called in ("dan.DAN", "packagehallucination.PythonPypi", BYPASS):
        by_f1_alone = str(tier_name(metrics_of(history, called)["hit_f1"]))
        has_row("tier", f"`{called}`", by_f1_alone, words[called])


@pytest.mark.shared
def test_garak_tells_n_only_with_an_interval_and_we_always(current: Summary, history: Summary) -> None:
    def with_interval(summary: Summary) -> int:
        return sum("hit_f1_ci" in (judge.metrics or {}) for judge in summary.judges)

    sentence = (
        f"of garak's {len(history.judges)} detectors, {with_interval(history)} have one; "
        f"of the {len(current.judges)}, {with_interval(current)}."
    )
    assert sentence in TEXT
    assert LEAST_SAMPLES == 50
    few = written(measured(4, 0, 3, 1))["results"]["a.Judge"]
    assert "hit_f1_ci" not in few["metrics"]
    assert few["counts"] == {"tp": 4, "fn": 0, "tn": 3, "fp": 1, "errors": 0}
    many = written(measured(3301, 282, 1381, 2202))["results"]["a.Judge"]
    assert many["metrics"]["hit_f1_ci"]["n_samples"] == BYPASS_COUNTS.n == 7166


def test_failures_are_counted_apart() -> None:
    ours = measured(3, 0, 4, 1, errors=2)
    has_row("2 of 10 items fail", "items in the figures", str(5 + 5), str(ours.accuracy.n))
    has_row("2 of 10 items fail", "recall of hits", f"{3 / 5:.4f}", f"{ours.hit_recall.value:.4f}")
    has_row("2 of 10 items fail", "errors", "not shown", str(written(ours)["results"]["a.Judge"]["counts"]["errors"]))


@pytest.mark.shared
def test_string_detectors_of_garaks_files_have_a_note(current: Summary, history: Summary) -> None:
    counts = [
        (sum(STRING_MATCHER in item.notes for item in ranked([summary]).ranking), len(summary.judges))
        for summary in (history, current)
    ]
    (first, of_first), (second, of_second) = counts
    assert f"{first} of the {of_first} detectors, {second} of the {of_second}." in TEXT


# -- ranking ----------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_equal_figures_share_a_rank(history: Summary) -> None:
    placed = ranked([history], "hit_precision").ranking
    perfect = [item for item in placed if item.estimate.value == 1]
    assert len(perfect) == 8
    (shared_rank,) = {item.rank for item in perfect}
    has_row("by precision, eight at 1.0000", "ranks of the eight", f"1 to {len(perfect)}", str(shared_rank))
    has_row("by precision, eight at 1.0000", "rank of the next", str(len(perfect) + 1), str(placed[8].rank))


@pytest.mark.shared
def test_a_place_has_a_range(history: Summary) -> None:
    figures = sorted((metrics_of(history, judge.called)["hit_f1"] for judge in history.judges), reverse=True)
    ranking = ranked([history])
    (item,) = [item for item in ranking.ranking if item.judge == "packagehallucination.PythonPypi"]
    assert sum(other.estimate.low is None for other in ranking.ranking) == 26
    has_row("by F1, PythonPypi", "rank", str(figures.index(item.estimate.value) + 1), str(item.rank))
    has_row("by F1, PythonPypi", "possible ranks", "not shown", f"{item.rank_low} to {item.rank_high}")


def test_an_undefined_figure_has_no_place() -> None:
    document = written(measured(0, 0, 10, 0, called="malwaregen.AnyCode"), measured(4, 0, 3, 1, called="dan.DAN"))
    ranking = ranked([summary_of(document, "ours.json")])
    assert [item.judge for item in ranking.ranking] == ["dan.DAN"]
    assert [(item.judge, item.why) for item in ranking.left_out] == [("malwaregen.AnyCode", "hit_f1 is undefined")]
    assert "An undefined figure is not ranked." in TEXT


def test_a_judge_that_was_not_evaluated_is_named() -> None:
    summary = Summary("s.json", (JudgeRecord("a.B", None), JudgeRecord("c.D", None, Confusion(4, 0, 3, 1))))
    assert [item.judge for item in ranked([summary]).left_out] == ["a.B"]


# -- data and files ---------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_precision_depends_on_the_mix(current: Summary) -> None:
    garak = metrics_of(current, BYPASS)
    assert current.document["metadata"]["balance_datasets"] is True
    recall, false_alarms = garak["hit_recall"], 1 - garak["hit_specificity"]

    def precision(share: float) -> float:
        return float(recall * share / (recall * share + false_alarms * (1 - share)))

    assert precision(0.5) == pytest.approx(garak["hit_precision"])
    assert (
        f"MitigationBypass has {garak['hit_precision']:.4f} at 50% hits, and would have {precision(0.1):.4f} at 10%"
        in TEXT
    )


def test_an_empty_answer_is_no_bypass() -> None:
    judge = make_judge("mitigation-bypass", Context())
    answers = ("I'm sorry, but I can't help with that.", "", "Paris.", "Apples, pears and plums.")
    decisions = [verdict_of(judge, Attempt(answer)).decision for answer in answers]
    hits, judged = decisions.count(Decision.HIT), len(decisions) - decisions.count(None)
    # garak's detector hits whatever holds none of its phrases of refusal, so all but the first.
    has_row(
        "a refusal, an empty answer, two others",
        "hits of MitigationBypass",
        f"{len(answers) - 1} of {len(answers)}",
        f"{hits} of {judged}",
    )
    has_row("a refusal, an empty answer, two others", "unjudged", "0", str(decisions.count(None)))


def test_the_summary_has_the_place_that_the_page_names() -> None:
    assert f"`{SUMMARY}` in the current folder" in TEXT


@pytest.mark.shared
def test_our_file_has_garaks_keys_and_more(current: Summary) -> None:
    theirs = current.document
    ours = written(measured(3301, 282, 1381, 2202, called=BYPASS))
    assert theirs["results"][BYPASS].keys() == {"metrics"}
    assert list(ours["results"][BYPASS]["metrics"]) == list(theirs["results"][BYPASS]["metrics"])
    assert list(ours["metadata"]) == list(theirs["metadata"])
    added = ["counts", "intervals", "tier", "mcc", "balanced_accuracy"]
    added += ["scores", "threshold", "identity", "labels", "notes"]
    assert f"{', '.join(f'`{name}`' for name in added)}." in TEXT
    assert set(added) <= ours["results"][BYPASS].keys()


# -- reports ----------------------------------------------------------------------------------------------------


def pair_of(shared: Path, report: str, probe: str, detector: str) -> GarakPair:
    path = shared / "golden" / "garak" / "reports" / f"{report}.report.jsonl"
    (analysis,) = analyze(str(path), options=AnalyzeOptions(definition="garak", cache=False)).analyses
    assert analysis.garak is not None
    (pair,) = [one for one in analysis.garak.pairs if (one.probe, one.detector) == (probe, detector)]
    return pair


@pytest.mark.shared
@pytest.mark.parametrize(
    ("what", "report", "probe", "detector"),
    [
        ("58 prompts once", "repeat_ansi1", "ansiescape.AnsiRaw", "ansiescape.Raw"),
        ("the same prompts five times, all five alike", "repeat", "ansiescape.AnsiRaw", "ansiescape.Raw"),
        (
            "256 prompts, no hit",
            "repeat",
            "encoding.InjectBase64",
            "encoding.DecodeMatch",
        ),
        ("256 prompts, only hits", "lipsum", "dan.DanInTheWild", BYPASS),
        ("a single prompt", "repeat", "dan.Dan_11_0", "dan.DAN"),
    ],
)
def test_the_rates_of_a_report_beside_ours(shared: Path, what: str, report: str, probe: str, detector: str) -> None:
    pair = pair_of(shared, report, probe, detector)
    lines = (shared / "golden" / "garak" / "reports" / f"{report}.report.jsonl").read_text("utf-8").split("\n")
    told = [json.loads(line) for line in lines if line.startswith('{"entry_type": "eval"')]
    (garak,) = [one for one in told if (one["probe"], one["detector"]) == (probe, detector)]
    theirs = f"{garak['fails'] / garak['total_evaluated']:.4f}"
    if garak.get("confidence_lower") is not None:
        theirs += f" [{garak['confidence_lower']:.4f}, {garak['confidence_upper']:.4f}]"
    assert shown(pair.rate) == theirs
    has_row(what, detector, theirs, shown(pair.entry_rate))


@pytest.mark.shared
def test_garak_scores_a_target_without_answers_as_0_and_we_do_not(shared: Path) -> None:
    report = (shared / "golden" / "garak" / "reports" / "nones.report.jsonl").read_text("utf-8").split("\n")
    score = json.loads(report[-1])["eval"]["dan"]["_summary"]["score"]
    pair = pair_of(shared, "nones", "dan.Dan_11_0", "dan.DAN")
    assert pair.score is None
    has_row("no answer to any prompt", "score of group dan", f"{score:.4f}", shown(pair.entry_rate))
