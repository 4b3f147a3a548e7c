"""`judges rank`: the best judge first, how sure that is, and who has no place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest

from faircount.analysis import (
    DRAWN,
    NAMES,
    OVERLAP,
    RANKED_BY,
    SHARES,
    UNKNOWN,
    Confusion,
    JudgeRecord,
    Ranking,
    Summary,
    missing_class,
    ranked,
    read_summary,
    tier_name,
)
from faircount.analysis.judges.ranking import as_report
from faircount.core import InputError, UsageError
from faircount.report import console, html, markdown
from faircount.stats import rank_ranges
from tests.analysis.test_judge_summary import CURRENT, HISTORY, document, write
from tests.conftest import Cli, Ran
from tests.oracles import known, oracle
from tests.report.test_markdown import assert_inert
from tests.report.test_present import harmless

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "judge-ranking-1.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def published(value: float | None, low: float | None = None, high: float | None = None, **others: Any) -> JudgeRecord:
    """Return a judge as somebody else's summary tells of it."""
    metrics: dict[str, Any] = {**dict.fromkeys(SHARES, 0.5), "hit_f1": value, **others}
    if low is not None:
        metrics["hit_f1_ci"] = {"ci_lower": low, "ci_upper": high, "n_samples": 80}
    return JudgeRecord("", metrics)


def summary(path: str = "s.json", /, **judges: JudgeRecord) -> Summary:
    named = [JudgeRecord(name, j.metrics, j.counts, j.string_matcher) for name, j in judges.items()]
    return Summary(path, tuple(named))


def counted(*cells: int, matcher: bool = False) -> JudgeRecord:
    return JudgeRecord("", {}, Confusion(*cells), matcher)


def places(ranking: Ranking) -> list[tuple[int, str]]:
    return [(item.rank, item.judge) for item in ranking.ranking]


def note_of(ranking: Ranking, called: str) -> str:
    return " ".join(note for item in ranking.ranking if item.judge == called for note in item.notes)


# -- published files --------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", [CURRENT, HISTORY])
@pytest.mark.parametrize("by", ["hit_f1", "hit_precision", "hit_recall", "pass_f1", "accuracy"])
def test_published_judges_rank_as_their_figures_do(shared: Path, name: str, by: str) -> None:
    path = shared / "golden/garak/detector_metrics" / name
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    ranking = ranked([read_summary(str(path))], by)
    ranks = oracle("scipy.stats").rankdata([-round(result["metrics"][by], 12) for result in results.values()], "min")
    assert {item.judge: item.rank for item in ranking.ranking} == dict(zip(results, ranks, strict=True))
    values = [known(item.estimate.value) for item in ranking.ranking]
    assert values == sorted(values, reverse=True)
    assert ranking.left_out == ()


@pytest.mark.shared
def test_tiers_of_the_28_published_detectors(shared: Path) -> None:
    ranking = ranked([read_summary(str(shared / "golden/garak/detector_metrics" / HISTORY))])
    tiers = Counter(item.tier.name for item in ranking.ranking if item.tier)
    assert tiers == {"Excellent": 5, "Good": 5, "Moderate": 1, "Poor": 2, "Critical": 15}
    assert sum(item.estimate.low is not None for item in ranking.ranking) == 2


@pytest.mark.shared
def test_published_judges_without_a_class_are_recognised(shared: Path) -> None:
    ranking = ranked([read_summary(str(shared / "golden/garak/detector_metrics" / HISTORY))])
    assert "there were no hits in the data" in note_of(ranking, "malwaregen.AnyCode")
    assert "there were no passes in the data" in note_of(ranking, "lmrc.Anthro")
    assert "accuracy 0" in note_of(ranking, "lmrc.QuackMedicine")
    assert "there were no" not in note_of(ranking, "divergence.RepeatDiverges")
    assert "no interval" in note_of(ranking, "dan.DAN")


@pytest.mark.shared
def test_every_string_detector_of_garaks_own_file_has_the_note(shared: Path) -> None:
    ranking = ranked([read_summary(str(shared / "golden/garak/detector_metrics" / HISTORY))])
    noted = {item.judge for item in ranking.ranking if any("it matches strings" in note for note in item.notes)}
    words = ("LDNOOBW", "Ofcom", "Slurs", "Surge")
    lists = {item.judge for item in ranking.ranking if item.judge.partition(".")[2].startswith(words)}
    assert len(lists) == 7
    assert noted == lists | {
        "dan.DAN",
        "exploitation.SQLiSuccess",
        "goodside.RileyIsnt",
        "lmrc.Anthro",
        "lmrc.QuackMedicine",
        "misleading.MustRefuteClaimKW",
        "mitigation.MitigationBypass",
    }


@pytest.mark.shared
@pytest.mark.parametrize("by", [figure for figure in RANKED_BY if figure != "mcc"])
def test_n_is_shown_whatever_the_figure_where_the_file_has_it(shared: Path, cli: Cli, by: str) -> None:
    path = str(shared / "golden/garak/detector_metrics" / CURRENT)
    shown = json.loads(rank(cli, path, "--by", by, "--output-format", "json").out)
    n = {item["judge"]: item["n"] for item in shown["ranking"]}
    assert n["mitigation.MitigationBypass"] == 7166
    assert n["dan.DAN"] is None


@pytest.mark.shared
def test_published_intervals_are_taken_as_they_are(shared: Path) -> None:
    ranking = ranked([read_summary(str(shared / "golden/garak/detector_metrics" / CURRENT))], level=0.9)
    (item,) = [item for item in ranking.ranking if item.estimate.low is not None]
    assert (item.estimate.low, item.estimate.high) == (0.7201670685506444, 0.732868655214754)
    assert (item.estimate.n, item.estimate.level) == (7166, 0.95)
    assert any("at a level of 95%" in note for note in ranking.notes)


@pytest.mark.parametrize("cells", [(0, 0, 9, 3), (4, 5, 0, 0), (0, 4, 4, 0), (3, 1, 1, 3), (0, 4, 9, 1), (4, 0, 0, 4)])
def test_a_missing_class_shows_in_figures_that_say_0_for_undefined(cells: tuple[int, int, int, int]) -> None:
    metrics = oracle("sklearn.metrics")
    tp, fn, tn, fp = cells
    truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp
    figures = {
        "accuracy": metrics.accuracy_score(truth, said),
        "hit_recall": metrics.recall_score(truth, said, zero_division=0),
        "pass_recall": metrics.recall_score(truth, said, pos_label=0, zero_division=0),
    }
    assert missing_class(figures) == ("hits" if not tp + fn else "passes" if not tn + fp else None)


# -- places -----------------------------------------------------------------------------------------------------


def test_equal_figures_share_a_rank_and_the_next_one_is_skipped() -> None:
    ranking = ranked([summary(b=published(0.8), a=published(0.8 + 1e-14), c=published(0.9), d=published(0.1))])
    assert places(ranking) == [(1, "c"), (2, "a"), (2, "b"), (4, "d")]


def test_a_judge_without_the_figure_is_left_out_and_named() -> None:
    ranking = ranked([summary(a=published(0.5), b=published(None), c=JudgeRecord("c", None), d=counted(0, 0, 9, 1))])
    assert places(ranking) == [(1, "a")]
    assert [(item.judge, item.why) for item in ranking.left_out] == [
        ("b", "hit_f1 is undefined"),
        ("c", "it was not evaluated"),
        ("d", "hit_f1 is undefined"),
    ]
    text = console.render(as_report(ranking))
    assert "Left out" in text


def test_a_figure_that_a_summary_lacks_leaves_its_judges_out() -> None:
    ranking = ranked([summary(a=published(0.5), b=counted(40, 20, 30, 10))], "mcc")
    assert places(ranking) == [(1, "b")]
    assert ranking.left_out[0].why == "the summary has no mcc of it"
    balanced = ranked([summary(a=published(0.5, hit_recall=0.9, pass_recall=0.7))], "balanced_accuracy")
    assert balanced.ranking[0].estimate.value == pytest.approx(0.8)


def test_nobody_to_rank_is_said() -> None:
    report = as_report(ranked([summary(c=JudgeRecord("c", None))]))
    assert "No judge can be ranked" in console.render(report)
    VALIDATOR.validate(json.loads(msgspec.json.encode(report.document)))
    with pytest.raises(InputError, match=r"s\.json: contains no judge"):
        ranked([summary()])
    with pytest.raises(UsageError, match="judges can be ranked by hit_f1"):
        ranked([summary(a=published(0.5))], "beauty")
    with pytest.raises(UsageError, match="--level"):
        ranked([summary(a=published(0.5))], level=1)


def test_the_same_judge_in_two_summaries_is_shown_with_both_files() -> None:
    ranking = ranked([summary("one.json", a=published(0.5)), summary("two.json", a=published(0.6))])
    assert [(item.rank, item.summary) for item in ranking.ranking] == [(1, "two.json"), (2, "one.json")]
    assert any("several summaries" in note for note in ranking.notes)
    text = console.render(as_report(ranking), width=120)
    assert "one.json" in text and "two.json" in text


@pytest.mark.parametrize("by", RANKED_BY)
def test_every_figure_can_be_ranked_by_from_counts(by: str) -> None:
    metrics = oracle("sklearn.metrics")
    functions: dict[str, Callable[[Any, Any], float]] = {
        "hit_f1": metrics.f1_score,
        "hit_precision": metrics.precision_score,
        "hit_recall": metrics.recall_score,
        "pass_f1": lambda t, s: metrics.f1_score(t, s, pos_label=0),
        "pass_precision": lambda t, s: metrics.precision_score(t, s, pos_label=0),
        "pass_recall": lambda t, s: metrics.recall_score(t, s, pos_label=0),
        "accuracy": metrics.accuracy_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
        "mcc": metrics.matthews_corrcoef,
    }
    tables = {"a": (40, 20, 30, 10), "b": (33, 27, 35, 5), "c": (55, 5, 12, 28)}
    ranking = ranked([summary(**{name: counted(*cells) for name, cells in tables.items()})], by)
    for item in ranking.ranking:
        tp, fn, tn, fp = tables[item.judge]
        truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp
        assert item.estimate.value == pytest.approx(functions[by](truth, said))
        assert item.rank_low is not None and item.rank_high is not None
        assert item.rank_low <= item.rank <= item.rank_high
    assert by in NAMES


# -- how sure places are ----------------------------------------------------------------------------------------


def test_places_from_intervals_that_overlap() -> None:
    judges = {
        "best": published(0.95, 0.92, 0.97),
        "second": published(0.8, 0.7, 0.85),
        "third": published(0.75, 0.65, 0.9),
        "last": published(0.2, 0.1, 0.3),
    }
    ranking = ranked([summary(**judges)])
    assert ranking.places_by == OVERLAP
    assert [(item.rank_low, item.rank_high) for item in ranking.ranking] == [(1, 1), (2, 3), (2, 3), (4, 4)]


def test_a_judge_without_an_interval_may_be_anywhere() -> None:
    ranking = ranked([summary(a=published(0.9, 0.85, 0.95), b=published(0.2, 0.1, 0.3), c=published(1.0))])
    assert {item.judge: (item.rank_low, item.rank_high) for item in ranking.ranking} == {
        "c": (None, None),
        "a": (1, 2),
        "b": (2, 3),
    }
    assert ranked([summary(a=published(0.9))]).places_by == UNKNOWN


def test_places_from_draws_separate_what_is_far_apart_and_not_what_is_close() -> None:
    far = {"a": counted(950, 50, 950, 50), "b": counted(500, 500, 500, 500), "c": counted(505, 495, 500, 500)}
    ranking = ranked([summary(**far)])
    assert ranking.places_by == DRAWN
    assert {item.judge: (item.rank_low, item.rank_high) for item in ranking.ranking} == {
        "a": (1, 1),
        "c": (2, 3),
        "b": (2, 3),
    }
    assert ranking == ranked([summary(**far)])


def test_drawn_places_equal_a_bootstrap_of_the_samples_themselves() -> None:
    tables = [(40, 20, 30, 10), (45, 15, 28, 12), (30, 30, 38, 2), (50, 10, 10, 30)]
    generator = np.random.default_rng(0)
    ranks = []
    for _ in range(1500):
        figures = []
        for tp, fn, tn, fp in tables:
            found = generator.choice(np.repeat([1, 0], [tp, fn]), tp + fn).sum()
            alarms = generator.choice(np.repeat([0, 1], [tn, fp]), tn + fp).sum()
            figures.append(2 * found / (found + alarms + tp + fn))
        ranks.append([1 + sum(other > own + 1e-12 for other in figures) for own in figures])
    theirs = np.quantile(np.asarray(ranks), [0.1, 0.9], axis=0, method="inverted_cdf").T.tolist()
    ours = rank_ranges("hit_f1", tables, level=0.8, seed=42)
    assert [list(pair) for pair in ours] == theirs


def test_few_samples_are_not_drawn_from() -> None:
    """A judge that is right 4 times out of 4 would stay right in every draw."""
    ranking = ranked([summary(a=counted(4, 0, 4, 0), b=counted(40, 20, 30, 10))])
    assert ranking.places_by == OVERLAP
    assert places(ranking)[0] == (1, "a")
    assert ranking.ranking[0].rank_low is None
    by_recall = ranked([summary(a=counted(4, 0, 4, 0), b=counted(40, 20, 30, 10))], "hit_recall")
    assert [(item.rank_low, item.rank_high) for item in by_recall.ranking] == [(1, 2), (1, 2)]


def test_where_f1_says_little_is_said() -> None:
    judges = {
        "matcher": counted(40, 20, 30, 10, matcher=True),
        "one-class": counted(60, 3, 0, 0),
        "few": counted(4, 1, 4, 1),
    }
    ranking = ranked([summary(**judges)])
    assert "its errors show what the strings miss" in note_of(ranking, "matcher")
    assert "no passes in the data" in note_of(ranking, "one-class")
    assert "n < 50: no interval" in note_of(ranking, "few")


# -- the report and the command ---------------------------------------------------------------------------------


HOSTILE = "\x1b[31m<script>`|\u202e"


@pytest.mark.parametrize("by", RANKED_BY)
def test_the_report_is_harmless_in_every_form(by: str) -> None:
    judges = {
        HOSTILE: counted(40, 20, 30, 10, matcher=True),
        "b": counted(4, 1, 4, 1),
        f"{HOSTILE}2": JudgeRecord("", None),
        "c": published(0.7, 0.6, 0.8),
    }
    report = as_report(ranked([summary(f"{HOSTILE}.json", **judges), summary("two.json", **judges)], by))
    VALIDATOR.validate(json.loads(msgspec.json.encode(report.document)))
    assert harmless(console.render(report))
    assert_inert(markdown.render(report))
    assert "<script" not in html.render(report)


def rank(cli: Cli, *words: str) -> Ran:
    return cli("judges", "rank", *words)


def test_the_command_ranks_and_shows_every_format(cli: Cli, tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", document("a.B", "c.D"))
    two = write(tmp_path / "two.json", document("e.F", tp=55))
    ran = rank(cli, one, two)
    assert ran.code == 0
    assert ran.out.index("e.F") < ran.out.index("a.B") < ran.out.index("c.D")
    shown = json.loads(rank(cli, one, two, "--output-format", "json", "--by", "hit_recall", "--level", "0.9").out)
    VALIDATOR.validate(shown)
    assert [item["rank"] for item in shown["ranking"]] == [1, 2, 2]
    assert (shown["by"], shown["level"], shown["places_by"]) == ("hit_recall", 0.9, "drawn")
    page = tmp_path / "page.html"
    assert rank(cli, one, "--output-format", "html", "-o", str(page)).code == 0
    assert "fc-bars" in page.read_text(encoding="utf-8")
    assert "# Judges by F1 of hits" in rank(cli, one, "--output-format", "markdown").out


def test_a_summary_named_twice_is_read_once(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "one.json", document("a.B"))
    assert len(json.loads(rank(cli, path, path, "--output-format", "json").out)["ranking"]) == 1


def test_the_usual_place_is_taken_where_none_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = rank(cli)
    assert ran.code == 3
    assert "data/detectors-eval/detector_metrics_summary.json: no such file" in ran.err
    (tmp_path / "data" / "detectors-eval").mkdir(parents=True)
    write(tmp_path / "data" / "detectors-eval" / "detector_metrics_summary.json", document("a.B"))
    assert rank(cli).code == 0


def test_mistakes_have_their_exit_codes(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "one.json", document("a.B"))
    assert rank(cli, path, "--by", "beauty").code == 2
    assert rank(cli, path, "--output-format", "html").code == 2
    assert rank(cli, path, "-o", path).code == 2
    assert rank(cli, write(tmp_path / "bad.json", "{")).code == 3


def test_tiers_of_the_report_follow_the_figure() -> None:
    ranking = ranked([summary(a=counted(40, 20, 30, 10))], "pass_f1")
    assert ranking.ranking[0].tier is not None
    assert ranking.ranking[0].tier.name == tier_name(ranking.ranking[0].estimate.value)
    assert ranked([summary(a=counted(40, 20, 30, 10))], "accuracy").ranking[0].tier is None


def test_judges_that_were_measured_on_different_labels_are_told_apart() -> None:
    here, there = (JudgeRecord(name, {}, Confusion(30, 5, 30, 5), labels=frozenset([name])) for name in ("a", "b"))
    said = "not all measured on the same labels"
    assert said in " ".join(ranked([Summary("s.json", (here, there))]).notes)
    assert said not in " ".join(ranked([Summary("s.json", (here, here))]).notes)
