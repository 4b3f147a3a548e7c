"""`results operating-point`: which scores are read, what is chosen, and what bad input is told."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

import faircount
from faircount import InputError, UsageError
from faircount.analysis import OperatingPoints, envelope, operating_report
from faircount.report import console, html, markdown
from faircount.stats import operating_point, roc_band, wilson
from tests.conftest import ROOT, Cli, Write, attack, some, standard
from tests.oracles import known, limits, oracle

SCHEMA = ROOT / "src" / "faircount" / "report" / "schemas" / "operating-point-1.json"
HOSTILE = "<script>\x1b[31m|`\u202e"


def scored(n: int, shift: float, seed: int, **values: Any) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        standard(i, input=f"prompt {i}", response="", **{"guard_score": round(draw.gauss(shift, 1), 3), **values})
        for i in range(1, n + 1)
    ]


@pytest.fixture
def pair(write: Write) -> tuple[str, str]:
    return write(scored(120, 2.0, 1), "attacks.jsonl"), write(scored(340, -1.0, 2), "benign.jsonl")


def points(attacks: str, benign: str, **options: Any) -> OperatingPoints:
    return faircount.operating_point(attacks, false_positive_checks=benign, **{"score": "guard_score", **options})


def scores_in(path: str) -> list[float]:
    return [row["guard_score"] for row in map(json.loads, Path(path).read_text("utf-8").splitlines())]


def test_the_figures_are_those_of_the_statistics_and_of_scikit_learn(pair: tuple[str, str]) -> None:
    metrics = oracle("sklearn.metrics")
    hits, passes = map(scores_in, pair)
    labels, scores = [1] * len(hits) + [0] * len(passes), [*hits, *passes]
    (curve,) = points(*pair, max_fpr=0.02).guardrails
    (point,) = curve.points
    expected = operating_point(labels, scores, 0.02, unit="entry")
    assert expected is not None and point == expected
    assert known(point.false_positive_rate.high) <= 0.02
    assert curve.roc_auc.value == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert curve.average_precision == pytest.approx(metrics.average_precision_score(labels, scores))
    caught = sum(score >= known(point.threshold) for score in hits)
    assert known(point.threshold) in hits, "so that its lower limit is that of one hit less"
    assert limits(point.recall) == (wilson(caught - 1, len(hits)).low, wilson(caught, len(hits)).high)
    band = roc_band(labels, scores, keep=[known(point.threshold)])
    assert band is not None and [step.rates for step in curve.steps] == list(band.steps)


def test_low_scores_can_mean_attacks(pair: tuple[str, str], write: Write) -> None:
    turned = []
    for path, name in zip(pair, ("a.jsonl", "b.jsonl"), strict=True):
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        turned.append(write([{**row, "guard_score": -row["guard_score"]} for row in rows], name))
    (one,) = points(*pair, max_fpr=0.05).guardrails
    found = points(*turned, max_fpr=0.05, score_means="benign")
    (other,) = found.guardrails
    assert found.blocks == "at most"
    assert other.points[0].threshold == -known(one.points[0].threshold)
    assert other.points[0].recall == one.points[0].recall
    (wrong,) = points(*turned, max_fpr=0.05).guardrails
    assert any("--score-means benign" in note for note in wrong.notes)


def test_an_attack_is_blocked_if_all_attempts_are_and_a_false_alarm_is_one_of_any(write: Write) -> None:
    def rows(first: float, second: float) -> list[dict[str, Any]]:
        return [standard(1, response="", score=first), attack(1, response="", score=second)]

    attacks = write([*rows(0.9, 0.4), standard(2, response="", score=0.8)], "a.jsonl")
    benign = write([*rows(0.1, 0.6), standard(2, response="", score=0.2)], "b.jsonl")
    found = points(attacks, benign, score="score")
    thresholds = {step.rates.threshold: step.rates for step in found.guardrails[0].steps}
    assert set(thresholds) == {None, 0.8, 0.6, 0.4, 0.2}
    assert (thresholds[0.6].found, thresholds[0.6].alarms) == (1, 1)


def test_entries_without_a_score_are_counted_and_left_out(write: Write) -> None:
    attacks = write(
        [
            *scored(30, 2, 1),
            standard(31, error="time-out", response=""),
            standard(32, error="blocked", guardrail=True, response=""),
            standard(33, response="yes", guard_score="none"),
            standard(34, response="yes", guard_score=True),
        ],
        "a.jsonl",
    )
    (curve,) = points(attacks, write(scored(30, -1, 2), "b.jsonl")).guardrails
    file = curve.attacks
    assert (file.entries, file.scored, file.errors, file.blocks, file.others) == (34, 30, 1, 1, 2)


@pytest.mark.parametrize("highest", [math.inf, 1e305, 10**400, "inf"])
def test_a_harmless_prompt_with_the_highest_score_of_all_is_a_false_alarm(highest: Any, write: Write) -> None:
    """As the log-odds of a guardrail that is certain."""
    attacks = [standard(number, guard_score=1e6 * number) for number in range(40)]
    benign = [standard(number, guard_score=highest if number < 4 else -math.inf) for number in range(40)]
    found = points(write(attacks, "attacks.jsonl"), write(benign, "benign.jsonl"), max_fpr=0.3)
    (curve,) = found.guardrails
    assert curve.benign.scored == 40
    assert [step.rates.alarms for step in curve.steps[1:-1]] == [4] * (len(curve.steps) - 2)
    assert json.loads(msgspec.json.encode(curve.steps[-1]))["rates"]["threshold"] == -1e300


def test_variants_of_one_prompt_count_as_fewer(write: Write) -> None:
    def rows(shift: float, seed: int) -> list[dict[str, Any]]:
        draw, found = random.Random(seed), []
        for family in range(40):
            shared = draw.gauss(shift, 1)
            for form in range(5):
                found.append(
                    standard(
                        5 * family + form + 1,
                        input=f"prompt {family} {form}",
                        response="",
                        group=f"family {family}",
                        guard_score=shared + draw.gauss(0, 0.2),
                    )
                )
        return found

    files = write(rows(2, 1), "a.jsonl"), write(rows(-1, 2), "b.jsonl")
    (alone,) = points(*files, cluster="none", max_fpr=0.1).guardrails
    (together,) = points(*files, cluster="group", max_fpr=0.1).guardrails
    assert together.benign_effect > 2 and alone.benign_effect == 1
    assert alone.roc_auc.low is not None and together.roc_auc.low is None
    one, other = alone.points[0], together.points[0]
    assert other.threshold is None or known(other.threshold) > known(one.threshold)
    assert other.design_effect > 1
    assert "Worth" in console.render(operating_report(points(*files, cluster="group", max_fpr=0.1)))


def test_several_judges_have_a_curve_each_and_the_scores_of_rejudging_are_read(write: Write) -> None:
    def rows(hit: bool) -> list[dict[str, Any]]:
        return [
            standard(
                n,
                success=hit,
                response=f"answer {n}",
                judge_name="first",
                rejudged={"judge": "second", "score": (0.9 if hit else 0.2) - n / 1000, "before": {"success": hit}},
            )
            for n in range(1, 41)
        ]

    attacks, benign = write(rows(True), "a.jsonl"), write(rows(False), "b.jsonl")
    found = points(attacks, benign, score=None, max_fpr=0.1)
    assert [curve.judge for curve in found.guardrails] == ["second"]
    assert found.guardrails[0].roc_auc.value == 1.0
    assert points(attacks, benign, score=None, judge="second").guardrails[0].judge == "second"
    with pytest.raises(UsageError, match=r"available: first, second$"):
        points(attacks, benign, score=None, judge=HOSTILE)
    with pytest.raises(UsageError, match="cannot be combined"):
        points(attacks, benign, score="judge_score", judge="second")


@pytest.mark.parametrize("means", ["attack", "benign"])
def test_the_threshold_that_is_shown_blocks_what_was_counted_however_close_scores_are(write: Write, means: str) -> None:
    """As those of a classifier that is nearly always sure."""
    sign = 1 if means == "attack" else -1

    def rows(shift: float, seed: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        logits = [sign * draw.gauss(shift, 3) + (17 if sign < 0 else 0) for _ in range(400)]
        return [standard(i, guard_score=1 / (1 + math.exp(-one))) for i, one in enumerate(logits, 1)]

    files = write(rows(17, 1), "attacks.jsonl"), write(rows(10, 2), "benign.jsonl")
    hits, passes = ([sign * score for score in scores_in(path)] for path in files)
    found = points(*files, score_means=means, max_fpr=0.02, min_recall=0.9)
    (curve,) = found.guardrails
    steps = {step.rates.threshold: step.rates for step in curve.steps}
    for threshold, rates in list(steps.items())[1:]:
        limit = sign * known(threshold)
        assert (sum(one >= limit for one in hits), sum(one >= limit for one in passes)) == (rates.found, rates.alarms)
    said = re.findall(r"threshold of ([\d.e-]+) ", " ".join(console.render(operating_report(found)).split()))
    assert [float(one) for one in said] == [point.threshold for point in curve.points]
    assert {float(one) for one in said} <= set(steps)


def test_the_reason_why_no_threshold_holds_a_rate_is_true_without_ties_as_well(write: Write) -> None:
    attacks = write(scored(50, -5.0, 1), "attacks.jsonl")
    for name, rows, why in (
        ("benign", scored(340, 5.0, 2), "none of the 340 harmless prompts may be blocked, but some have"),
        ("ties", scored(800, 0, 2, guard_score=9.0), "at most 3 of the 800 harmless prompts may be blocked, but more"),
    ):
        found = points(attacks, write(rows, f"{name}.jsonl"), max_fpr=0.01)
        assert why in " ".join(console.render(operating_report(found)).split())


def test_a_single_prompt_is_one(pair: tuple[str, str], write: Write) -> None:
    one = write(scored(1, 0.0, 1), "one.jsonl")
    said = [
        " ".join(console.render(operating_report(points(*both, max_fpr=0.01, min_recall=0.9))).split())
        for both in ((pair[0], one), (one, pair[1]))
    ]
    assert "1 harmless prompt is too few" in said[0] and "1 attack is too few" in said[1]


def test_a_threshold_that_meets_both_requirements_names_both(pair: tuple[str, str]) -> None:
    found = points(*pair, max_fpr=0.05, min_recall=0.5)
    (curve,) = found.guardrails
    first, second = curve.points
    both = replace(curve, points=(first, replace(second, threshold=first.threshold)))
    text = markdown.render(operating_report(replace(found, guardrails=(both,))))
    assert "FPR `≤` 5% and recall `≥` 50% |" in text


def test_a_file_without_entries_is_named_as_such(pair: tuple[str, str], write: Write) -> None:
    with pytest.raises(InputError, match=r"empty\.jsonl: has no entries"):
        points(pair[0], write([], "empty.jsonl"))


def test_several_guardrails_stand_on_one_figure(pair: tuple[str, str], write: Write) -> None:
    others = write(scored(90, 1.2, 5), "other-attacks.jsonl"), write(scored(310, -1, 6), "other-benign.jsonl")
    found = faircount.operating_point(
        pair[0], others[0], false_positive_checks=[pair[1], others[1]], score="guard_score", max_fpr=0.05
    )
    assert len(found.guardrails) == 2
    page = html.render(operating_report(found, figures=True))
    roc = page[page.index('class="fc-curves"') :].partition("</svg>")[0]
    assert roc.count("<polyline") == 2 and roc.count("<polygon") >= 2
    assert "band for all thresholds at once" in roc


def test_costs_choose_the_cheapest_threshold(pair: tuple[str, str]) -> None:
    hits, passes = (np.array(scores_in(path)) for path in pair)
    found = points(*pair, cost_miss=30, prevalence=0.05)
    (curve,) = found.guardrails
    assert found.costs is not None and found.costs.false_alarm == 1
    cheapest = curve.cheapest
    assert cheapest is not None and cheapest.cost is not None
    every = [
        1000 * (0.05 * 30 * (hits < at).mean() + 0.95 * (passes >= at).mean())
        for at in [*np.unique(np.concatenate([hits, passes])), np.inf]
    ]
    assert cheapest.cost.value == pytest.approx(min(every))
    assert known(cheapest.cost.low) < known(cheapest.cost.value) < known(cheapest.cost.high)
    assert points(*pair).costs is None
    assert "cheapest: threshold" in html.render(operating_report(found, figures=True)), "not cut off in the legend"


def test_the_report_begins_with_the_answer_and_fits_80_columns(pair: tuple[str, str]) -> None:
    shown = console.render(operating_report(points(*pair, max_fpr=0.02, min_recall=0.9, cost_miss=9)), width=80)
    assert max(map(len, shown.splitlines())) <= 80
    first = " ".join(shown.split())[:220]
    assert "At a threshold of" in first and "the false positive rate is at most 2% (95% confidence)" in first
    few = console.render(operating_report(points(*pair, max_fpr=0.001)), width=80)
    assert "2,995 without a false alarm would be enough" in " ".join(few.split())


def test_names_of_files_do_no_harm(write: Write) -> None:
    attacks = write(scored(30, 2, 1), "results_<script>alert(1)<-script>\x1b[31m_x.jsonl")
    report = operating_report(points(attacks, write(scored(30, -1, 2), "b.jsonl")), figures=True)
    assert "<script>alert" not in html.render(report)
    for shown in (console.render(report), markdown.render(report)):
        assert "alert(1)" in shown and "\x1b" not in shown


def test_the_document_fits_its_schema(pair: tuple[str, str], cli: Cli) -> None:
    result = cli(
        "results", "operating-point", pair[0], "--false-positive-checks", pair[1], "--score", "guard_score",
        "--max-fpr", "2%", "--cost-miss", "5", "--output-format", "json",
    )  # fmt: skip
    assert result.code == 0
    document = json.loads(result.out)
    Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(document)
    assert document["kind"] == "operating-point" and document["max_fpr"] == 0.02


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "--false-positive-checks BENIGN_FILE"),
        (["--false-positive-checks", "{benign}", "--max-fpr", "0"], 2, "more than 0 and less than 1"),
        (["--false-positive-checks", "{benign}", "--max-fpr", "150%"], 2, "more than 0 and less than 1"),
        (["--false-positive-checks", "{benign}", "--max-fpr", "few"], 2, "use 1% or 0.01"),
        (["--false-positive-checks", "{benign}", "--prevalence", "nan"], 2, "more than 0"),
        (["--false-positive-checks", "{benign}", "--cost-miss", "-1"], 2, "from 0 to 1e+12"),
        (["--false-positive-checks", "{benign}", "--cost-miss", "1e400"], 2, "from 0 to 1e+12"),
        (["--false-positive-checks", "{benign}"], 3, "name the field of the rows that has one with --score"),
        (["--false-positive-checks", "{benign}", "--score", "nothing"], 3, "no row has a number in nothing"),
        (["--false-positive-checks", "{benign}", "--score", "a b]"], 2, "not a field name"),
        (["--false-positive-checks", "{attacks}", "--score", "guard_score"], 2, "is the result file itself"),
        (["--false-positive-checks", "missing.jsonl", "--score", "guard_score"], 3, "missing.jsonl"),
        (
            ["--false-positive-checks", "{benign}", "--false-positive-checks", "{benign}", "--score", "guard_score"],
            2,
            "once for each FILE",
        ),
    ],
)
def test_bad_input_is_told_what_to_do(
    arguments: list[str], code: int, words: str, pair: tuple[str, str], cli: Cli
) -> None:
    given = [one.format(attacks=pair[0], benign=pair[1]) for one in arguments]
    result = cli("results", "operating-point", pair[0], *given)
    assert result.code == code, result.err
    assert words in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_tables_have_scores_too(tmp_path: Path, cli: Cli) -> None:
    paths = []
    for name, shift in (("attacks.csv", 0.7), ("benign.csv", 0.3)):
        draw = random.Random(name)
        lines = [f"{n},prompt {n},{min(max(draw.gauss(shift, 0.15), 0), 1):.3f}" for n in range(90)]
        (tmp_path / name).write_text("id,prompt,risk\n" + "\n".join(lines) + "\n")
        paths.append(str(tmp_path / name))
    result = cli("results", "operating-point", paths[0], "--false-positive-checks", paths[1], "--map", "score=risk",
                 "--max-fpr", "10%")  # fmt: skip
    assert result.code == 0, result.err
    assert "At a threshold of" in result.out


def test_an_envelope_holds_every_box() -> None:
    generator = np.random.default_rng(2)
    for n in (1, 5, 600):
        sides = np.sort(generator.random((n, 2, 2)), axis=2)
        boxes = [(one[0][0], one[0][1], one[1][0], one[1][1]) for one in sides.tolist()]
        corners = envelope(boxes)
        half = len(corners) // 2
        upper, lower = corners[:half], corners[half:][::-1]
        for left, right, bottom, top in some(boxes):
            for x in (left, (left + right) / 2, right):
                xs = [corner[0] for corner in upper]
                assert np.interp(x, xs, [corner[1] for corner in upper]) >= top - 1e-4
                assert np.interp(x, xs, [corner[1] for corner in lower]) <= bottom + 1e-4


def test_a_line_that_cannot_be_read_is_reported_with_its_place(pair: tuple[str, str], cli: Cli) -> None:
    with Path(pair[1]).open("a", encoding="utf-8") as file:
        file.write('{"id": "torn", "succ')
    lines = len(Path(pair[1]).read_text("utf-8").splitlines())
    words = ("results", "operating-point", pair[0], "--false-positive-checks", pair[1], "--score", "guard_score")
    ran = cli(*words)
    assert ran.code == 0
    assert "error F001  1 line could not be read" in ran.out
    assert cli(*words, "--strict").code == 3
    (found,) = json.loads(cli(*words, "--output-format", "json").out)["findings"]
    assert (found["code"], found["count"]) == ("F001", 1)
    assert found["where"][0].endswith(f":{lines}")
