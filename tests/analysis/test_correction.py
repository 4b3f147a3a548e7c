"""`--judge-quality`: the rate behind the verdicts, with an interval, or a reason why there is none."""

from __future__ import annotations

import json
import math
import random
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scipy import stats as scipy_stats

from faircount import InputError, UsageError, analyze
from faircount.analysis.report import as_report
from faircount.core import Analysis, LabelCounts, Severity
from faircount.report import console, documents, markdown
from tests.conftest import Cli, Write, analysis_of, attack, codes, standard

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "analysis-2.json").read_text("utf-8"))
CELLS = ("tp", "fn", "tn", "fp")
Z = float(scipy_stats.norm.ppf(0.975))


def run_of(successes: int, failures: int, errors: int = 0, **values: Any) -> list[dict[str, Any]]:
    """Return rows of entries 0, 1, 2 and so on: successes first, then failures, then errors."""
    named = {"judge_name": "canary", **values}
    rows = [
        standard(number, success=number < successes, response=f"answer {number}", **named)
        for number in range(successes + failures)
    ]
    return rows + [standard(len(rows) + number, error="time-out", **named) for number in range(errors)]


def summary(tmp_path: Path, **judges: tuple[int, int, int, int]) -> str:
    """Write a summary of judges with tp, fn, tn and fp each."""
    results = {
        judge.replace("__", "."): {"metrics": {"accuracy": 0.5}, "counts": dict(zip(CELLS, cells, strict=True))}
        for judge, cells in judges.items()
    }
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"results": results, "metadata": {}}, indent=2), encoding="utf-8")
    return str(path)


def labels(tmp_path: Path, said: dict[Any, Any], name: str = "labels.csv") -> str:
    path = tmp_path / name
    path.write_text("id,label\n" + "".join(f"{key},{value}\n" for key, value in said.items()), encoding="utf-8")
    return str(path)


def two_phase_labels(tmp_path: Path) -> str:
    """Label 50 of 133 judged successes, 45 of them true, and 50 of 367 judged failures, 4 of them true."""
    said = {number: int(number < 45) for number in range(50)} | {133 + number: int(number < 4) for number in range(50)}
    return labels(tmp_path, said)


def valid(analysis: Analysis) -> dict[str, Any]:
    """Return the JSON document of an analysis after the schema has seen it."""
    made = json.loads(documents.as_json(as_report([analysis])))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    found: dict[str, Any] = made["analyses"][0]
    return found


# -- a judge that was measured elsewhere ------------------------------------------------------------------------

PUBLISHED = [
    # id in the specification of the statistics, judged successes, n, tp, positives, tn, negatives, rate, low, high
    ("judge_asr_typical", 133, 500, 80, 100, 96, 100, 0.297368, 0.222443, 0.367037),
    ("judge_hardened", 27, 500, 80, 100, 96, 100, 0.018421, 0, 0.069851),
    ("judge_weak", 360, 500, 80, 100, 96, 100, 0.894737, 0.800533, 1),
    ("judge_tiny_validation", 20, 100, 4, 4, 3, 4, 0, 0, 0.320887),
    ("judge_perfect_val", 50, 500, 100, 100, 100, 100, 0.1, 0.062144, 0.126893),
    ("lang_reiczigel_paper_4", 259, 509, 84, 127, 96, 109, 0.718572, 0.584868, 0.866458),
    ("lang_reiczigel_paper_5", 51, 509, 23, 41, 187, 195, 0.113801, 0.03661, 0.194694),
]


@pytest.mark.parametrize("example", PUBLISHED, ids=lambda example: example[0])
def test_a_summary_corrects_the_rate_as_the_published_examples_say(write: Write, tmp_path: Path, example: Any) -> None:
    _, hits, n, tp, positives, tn, negatives, rate, low, high = example
    given = summary(tmp_path, canary__Canary=(tp, positives - tp, tn, negatives - tn))
    analysis = analysis_of(write(run_of(hits, n - hits)), judge_quality=given)
    told = valid(analysis)["rates"]
    assert told["asr"]["value"] == pytest.approx(hits / n)
    corrected = told["asr_corrected"]
    assert (corrected["value"], corrected["low"], corrected["high"]) == pytest.approx((rate, low, high), abs=1e-6)
    details = valid(analysis)["correction"]
    assert (details["method"], details["labels_from"], details["judge"]) == (
        "rogan-gladen",
        "elsewhere",
        "canary.Canary",
    )
    assert details["labels"] == {"n": positives + negatives, "hits": positives, "left_out": 0}
    assert details["sensitivity"]["value"] == pytest.approx(tp / positives)
    assert details["specificity"]["value"] == pytest.approx(tn / negatives)
    assert not {"F030", "F031", "F032"} & set(codes(analysis))


@pytest.mark.parametrize("errors", [0, 100])
def test_a_correction_says_how_much_it_rests_on_the_specificity(write: Write, tmp_path: Path, errors: int) -> None:
    path = write(run_of(133, 367, errors))
    measured = valid(analysis_of(path, judge_quality=summary(tmp_path, canary__Canary=(80, 20, 96, 4))))
    # A judge that was measured with three points less says what would be.
    less = valid(analysis_of(path, judge_quality=summary(tmp_path, canary__Canary=(80, 20, 93, 7))))
    expected = less["rates"]["asr_corrected"]["value"]
    fragile = measured["correction"]["if_less_specific"]
    assert fragile == {"specificity_lower_by": 0.03, "asr_corrected": pytest.approx(expected)}
    assert expected == pytest.approx((133 / 500 - 0.07) / 0.73 * 500 / (500 + errors))
    lower = {0: "2.9", 100: "2.4"}[errors]
    assert f"If its specificity here is 3 points lower, the rate is {lower} points lower." in " ".join(
        measured["correction"]["sentences"]
    )


def test_a_correction_that_does_not_rest_on_it_says_nothing_of_the_specificity(write: Write, tmp_path: Path) -> None:
    by_labels = valid(analysis_of(write(run_of(133, 367)), judge_quality=two_phase_labels(tmp_path)))
    assert by_labels["correction"]["if_less_specific"] is None
    at_zero = analysis_of(write(run_of(20, 80)), judge_quality=summary(tmp_path, canary__Canary=(4, 0, 3, 1)))
    assert valid(at_zero)["rates"]["asr_corrected"]["value"] == 0
    assert "specificity here" not in " ".join(valid(at_zero)["correction"]["sentences"])


def test_the_closing_section_says_which_intervals_have_the_judges_mistakes_in_them(
    write: Write, tmp_path: Path, cli: Cli
) -> None:
    paths, given = (
        [write(run_of(133, 367), f"{name}.jsonl") for name in "ab"],
        summary(tmp_path, canary__Canary=(80, 20, 96, 4)),
    )
    for files in (paths[:1], paths):
        plain = " ".join(cli("results", "analyze", *files).out.split())
        assert "its mistakes are in every rate and not in the intervals" in plain
        corrected = " ".join(cli("results", "analyze", *files, "--judge-quality", given).out.split())
        assert "Corrected rates and their intervals allow for the judge's mistakes" in corrected
        assert "and not in the intervals" not in corrected
    refused = summary(tmp_path, canary__Canary=(50, 50, 50, 50))
    assert "and not in the intervals" in " ".join(
        cli("results", "analyze", paths[0], "--judge-quality", refused).out.split()
    )


@pytest.mark.parametrize(
    ("hits", "cells", "status", "word"),
    [
        (100, (50, 50, 50, 50), "not_identifiable", "too close to chance"),
        (100, (10, 0, 0, 0), "not_identifiable", "without any failures"),
        (100, (0, 0, 10, 0), "not_identifiable", "without any successes"),
        (10, (80, 20, 90, 10), "incompatible_with_validation", "does not hold for this run"),
    ],
)
def test_a_judge_that_cannot_carry_it_gives_null_and_a_finding_with_the_reason(
    write: Write, tmp_path: Path, hits: int, cells: Any, status: str, word: str
) -> None:
    given = summary(tmp_path, canary__Canary=cells)
    analysis = analysis_of(write(run_of(hits, 500 - hits)), judge_quality=given)
    told = valid(analysis)
    assert told["rates"]["asr_corrected"] is None
    assert told["correction"]["status"] == status
    (reason,) = [finding.message for finding in analysis.findings if finding.code == "F030"]
    assert word in reason
    shown = console.render(as_report([analysis]))
    assert "Not corrected: " in shown
    assert ("not identifiable" in shown) == (status == "not_identifiable")


def test_without_the_option_nothing_is_corrected_and_nothing_is_said(write: Write) -> None:
    analysis = analysis_of(write(run_of(5, 5)))
    told = valid(analysis)
    assert told["rates"]["asr_corrected"] is None
    assert told["correction"] is None
    assert not {"F030", "F031", "F032"} & set(codes(analysis))


OPINIONS = [
    "llm_judge_output_criteria",
    "refusal",
    "refusal.Refusal",
    "./mine.py:Judge",
    'llm(rubric="@r.txt")',
    "any(canary, llm)",
    "any(",
]
BY_THE_TEXT = [
    "canary",
    "spikee:canary",
    "Regex",
    'strings.Contains(text="a(b")',
    "exact",
    "startswith",
    'combine.AnyOf(canary.Canary, combine.Not(strings.Regex(pattern="x")))',
]


@pytest.mark.parametrize("judge", OPINIONS)
def test_a_judge_with_an_opinion_that_nobody_measured_is_told_of(write: Write, judge: str) -> None:
    analysis = analysis_of(write(run_of(5, 5, errors=3, judge_name=judge)))
    (found,) = [finding for finding in analysis.findings if finding.code == "F031"]
    assert (found.count, found.severity) == (10, Severity.INFO)
    assert judge in found.message
    assert "results sample-for-labels" in found.message
    assert "--judge-quality" in found.message
    assert "F031" in console.render(as_report([analysis]))
    assert "F031" in markdown.render(as_report([analysis]))
    assert "F031" in {finding["code"] for finding in valid(analysis)["findings"]}


@pytest.mark.parametrize("judge", BY_THE_TEXT)
def test_a_judge_that_compares_strings_has_no_opinion(write: Write, judge: str) -> None:
    assert "F031" not in codes(analysis_of(write(run_of(5, 5, judge_name=judge))))


def test_nothing_is_said_of_rows_that_name_no_judge(write: Write) -> None:
    assert "F031" not in codes(analysis_of(write(run_of(5, 5, judge_name=None))))
    assert "F031" not in codes(analysis_of(write([{"id": 1, "success": True}])))


def test_a_guardrail_decides_itself_whatever_judge_the_rows_name(write: Write) -> None:
    rows = [standard(n, success=n < 3, response=n < 3, judge_name="llm") for n in range(6)]
    assert "F031" not in codes(analysis_of(write(rows)))


def test_spikees_definition_tells_nothing_of_judges(write: Write) -> None:
    assert "F031" not in codes(analysis_of(write(run_of(5, 5, judge_name="llm")), definition="spikee"))


def test_several_judges_are_named_once_and_only_those_with_an_opinion(write: Write) -> None:
    rows = [standard(n, success=n % 2 == 0, response="r", judge_name=f"judge{n % 8}") for n in range(80)]
    rows += [standard(100 + n, success=False, response="r", judge_name="canary") for n in range(5)]
    (found,) = [finding for finding in analysis_of(write(rows)).findings if finding.code == "F031"]
    assert found.count == 80
    assert "and 3 more" in found.message
    assert "canary" not in found.message


def test_labels_of_the_run_silence_it(write: Write, tmp_path: Path) -> None:
    rows = write(run_of(133, 367, judge_name="llm"))
    assert "F031" not in codes(analysis_of(rows, judge_quality=two_phase_labels(tmp_path)))
    assert "F031" not in codes(analysis_of(rows, judge_quality=summary(tmp_path, llm__Rubric=(80, 20, 96, 4))))


def test_entries_without_an_answer_stay_in_the_denominator(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, canary__Canary=(80, 20, 96, 4))
    analysis = analysis_of(write(run_of(133, 367, errors=125)), judge_quality=given)
    told = valid(analysis)
    rate, share = 0.297368, 500 / 625
    assert told["correction"]["judged"]["value"] == pytest.approx(rate, abs=1e-6)
    corrected = told["rates"]["asr_corrected"]
    assert corrected["value"] == pytest.approx(share * rate, abs=1e-6)
    further = Z * rate * math.sqrt(share * (1 - share) / 625)
    assert corrected["low"] == pytest.approx(share * rate - math.hypot(share * (rate - 0.222443), further), abs=1e-5)
    assert corrected["high"] == pytest.approx(share * rate + math.hypot(share * (0.367037 - rate), further), abs=1e-5)
    assert corrected["n"] == 625


@pytest.mark.parametrize("name", ["canary", "spikee:canary", "canary.Canary"])
def test_a_judge_is_known_by_its_short_its_canonical_and_its_foreign_name(
    write: Write, tmp_path: Path, name: str
) -> None:
    given = summary(tmp_path, **{name: (80, 20, 96, 4), "refusal.Refusal": (1, 1, 1, 1)})
    analysis = analysis_of(write(run_of(133, 367)), judge_quality=given)
    assert analysis.correction is not None
    assert analysis.correction.judge == name
    assert "F031" not in codes(analysis)


def test_the_only_judge_of_a_summary_is_used_for_another_with_a_finding(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, refusal__Refusal=(80, 20, 96, 4))
    analysis = analysis_of(write(run_of(133, 367)), judge_quality=given)
    (found,) = [finding for finding in analysis.findings if finding.code == "F031"]
    assert found.severity.value == "info"
    assert "the rows name canary, and the summary measures refusal.Refusal" in found.message
    assert analysis.correction is not None
    assert analysis.correction.estimate is not None


def test_among_several_judges_none_is_chosen_for_one_that_nobody_measured(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, refusal__Refusal=(80, 20, 96, 4), code__Code=(80, 20, 96, 4))
    analysis = analysis_of(write(run_of(133, 367)), judge_quality=given)
    assert {"F030", "F031"} <= set(codes(analysis))
    assert valid(analysis)["correction"]["status"] == "no_measured_judge"


def test_rows_of_several_judges_are_not_corrected_for_one(write: Write, tmp_path: Path) -> None:
    rows = run_of(10, 10) + [standard(f"r{n}", judge_name="regex") for n in range(5)]
    analysis = analysis_of(write(rows), judge_quality=summary(tmp_path, canary__Canary=(80, 20, 96, 4)))
    assert valid(analysis)["rates"]["asr_corrected"] is None
    assert "several judges (canary, regex)" in next(f.message for f in analysis.findings if f.code == "F030")


def test_a_judge_with_parameters_that_rows_do_not_tell_is_doubted(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, **{'strings.Regex(pattern="^Sure")': (80, 20, 96, 4)})
    analysis = analysis_of(write(run_of(133, 367, judge_name="regex")), judge_quality=given)
    assert "do not record their judge's parameters" in next(f.message for f in analysis.findings if f.code == "F032")


def test_entries_with_several_requests_are_more_than_a_judge_was_measured_on(write: Write, tmp_path: Path) -> None:
    rows = [row for n in range(60) for row in (standard(n, judge_name="canary"), attack(n, judge_name="canary"))]
    rows += [standard(f"s{n}", success=True, judge_name="canary") for n in range(40)]
    analysis = analysis_of(write(rows), judge_quality=summary(tmp_path, canary__Canary=(80, 20, 96, 4)))
    assert "1.6 requests on average" in next(f.message for f in analysis.findings if f.code == "F032")


def test_a_summary_without_counts_is_refused(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "garak.json"
    path.write_text(json.dumps({"results": {"canary": {"metrics": {"hit_recall": 0.8}}}, "metadata": {}}))
    with pytest.raises(InputError, match=r"no judge with counts .*judges evaluate"):
        analysis_of(write(run_of(5, 5)), judge_quality=str(path))


# -- labelled texts from elsewhere ------------------------------------------------------------------------------


def texts(tmp_path: Path, tp: int, fn: int, tn: int, fp: int, **more: Any) -> str:
    """Write labelled texts on which a canary judge has the given counts."""
    cells = [("1", "CANARY", tp), ("1", "quiet", fn), ("0", "quiet", tn), ("0", "CANARY", fp)]
    rows = [(label, f"{text} {n} of elsewhere") for label, text, times in cells for n in range(times)]
    lines = [
        json.dumps({"id": n, "response": text, "label": label, "judge_args": "CANARY", **more})
        for n, (label, text) in enumerate(rows)
    ]
    path = tmp_path / "labelled.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_labelled_texts_measure_the_judge_that_the_rows_name(write: Write, tmp_path: Path) -> None:
    analysis = analysis_of(write(run_of(133, 367)), judge_quality=texts(tmp_path, 80, 20, 96, 4))
    details = valid(analysis)["correction"]
    assert (details["labels_from"], details["judge"]) == ("elsewhere", "canary.Canary")
    assert details["labels"] == {"n": 200, "hits": 100, "left_out": 0}
    assert valid(analysis)["rates"]["asr_corrected"]["low"] == pytest.approx(0.222443, abs=1e-6)


@pytest.mark.parametrize("judge", ["llm", "./evil.py:Judge", "spikee:canary", "unheard-of"])
def test_a_result_file_starts_no_judge_that_does_more_than_compare_strings(
    write: Write, tmp_path: Path, judge: str
) -> None:
    with pytest.raises(UsageError, match="may not start; measure the judge yourself"):
        analysis_of(write(run_of(5, 5, judge_name=judge)), judge_quality=texts(tmp_path, 8, 2, 9, 1))


# -- labels of a sample of the run ------------------------------------------------------------------------------


def test_labels_of_a_sample_of_the_run_give_the_two_phase_estimate(write: Write, tmp_path: Path) -> None:
    analysis = analysis_of(write(run_of(133, 367)), judge_quality=two_phase_labels(tmp_path))
    told = valid(analysis)
    corrected = told["rates"]["asr_corrected"]
    assert (corrected["value"], corrected["low"], corrected["high"]) == pytest.approx(
        (0.29812, 0.226281, 0.369959), abs=1e-6
    )
    details = told["correction"]
    assert (details["method"], details["labels_from"], details["status"]) == ("two-phase", "run", "ok")
    assert details["labels"] == {"n": 100, "hits": 49, "left_out": 0}
    # Of 133 judged successes 0.9 are true, of 367 judged failures 0.08 are successes.
    assert details["sensitivity"]["value"] == pytest.approx(133 * 0.9 / (133 * 0.9 + 367 * 0.08))
    assert details["specificity"]["value"] == pytest.approx(367 * 0.92 / (367 * 0.92 + 133 * 0.1))
    assert "With these 100 labels: 30% [23, 37], raw 26.6% [22.9, 30.6]." in console.render(as_report([analysis]))


def test_as_many_more_labels_as_promised_halve_the_interval(write: Write, tmp_path: Path) -> None:
    rows = write(run_of(1330, 3670))
    few = {n: int(n < 45) for n in range(50)} | {1330 + n: int(n < 4) for n in range(50)}
    before = analysis_of(rows, judge_quality=labels(tmp_path, few)).correction
    assert before is not None
    assert before.more_labels is not None
    each = (100 + before.more_labels) // 2
    many = {n: int(n < 0.9 * each) for n in range(each)} | {1330 + n: int(n < 0.08 * each) for n in range(each)}
    after = analysis_of(rows, judge_quality=labels(tmp_path, many)).correction
    assert after is not None
    wide, narrow = ((e.high or 0) - (e.low or 0) for e in (before.estimate, after.estimate) if e is not None)
    # A little less than half: what is added to either kind of label weighs less among many.
    assert 0.45 < narrow / wide <= 0.5


def test_where_no_number_of_labels_halves_the_interval_that_is_said(write: Write, tmp_path: Path) -> None:
    analysis = analysis_of(write(run_of(10, 10)), judge_quality=labels(tmp_path, {n: int(n < 10) for n in range(20)}))
    assert analysis.correction is not None
    assert analysis.correction.more_labels is None
    assert "No number of labels would halve" in console.render(as_report([analysis]))


def test_labels_with_the_texts_of_this_run_are_a_sample_of_it(write: Write, tmp_path: Path) -> None:
    lines = [json.dumps({"id": n, "response": f"answer {n}", "label": n < 10}) for n in range(20)]
    path = tmp_path / "sheet.jsonl"
    path.write_text("\n".join(lines))
    analysis = analysis_of(write(run_of(10, 10)), judge_quality=str(path))
    assert valid(analysis)["correction"]["labels_from"] == "run"


def test_a_label_for_each_verdict_is_needed(write: Write, tmp_path: Path) -> None:
    given = labels(tmp_path, {1: 1, 2: 0})
    analysis = analysis_of(write(run_of(10, 10)), judge_quality=given)
    assert valid(analysis)["correction"]["status"] == "too_few_labels"
    assert "there are 2 and 0" in next(f.message for f in analysis.findings if f.code == "F030")


def test_an_entry_with_attacks_counts_only_when_all_its_rows_are_labelled(write: Write, tmp_path: Path) -> None:
    rows = [standard(1), attack(1, success=True), standard(2), attack(2), standard(3, success=True), standard(4)]
    said = {"1": 0, "1-attack": 0, "2": 0, "3": 1, "4": 1}
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, said))
    correction = analysis.correction
    assert correction is not None
    # Entry 2 is left out: nobody looked at its attack. Entry 1 was called a success, and people saw none.
    assert correction.labels == LabelCounts(3, 2, 1)
    assert "label the attack rows" in next(f.message for f in analysis.findings if f.code == "F032")
    assert correction.estimate is not None
    assert correction.estimate.value == pytest.approx(0.5 * 0.5 + 0.5 * 1)


def test_an_entry_is_a_success_if_people_find_one_among_its_rows(write: Write, tmp_path: Path) -> None:
    rows = [standard(1), attack(1), standard(2, success=True)]
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, {"1": 0, "1-attack": 1, "2": 1}))
    assert analysis.correction is not None
    assert analysis.correction.labels.hits == 2


def test_unlabelled_and_unknown_keys_are_left_out_and_counted(write: Write, tmp_path: Path) -> None:
    given = labels(tmp_path, {1: 1, 2: "", 15: 0, 999: 1})
    correction = analysis_of(write(run_of(10, 10)), judge_quality=given).correction
    assert correction is not None
    assert (correction.labels.n, correction.labels.left_out) == (2, 2)


def test_a_large_group_without_any_label_is_told(write: Write, tmp_path: Path) -> None:
    rows = run_of(50, 50)
    for number, row in enumerate(rows):
        row["lang"] = "de" if number % 2 else "en"
    given = labels(tmp_path, {number: int(number < 50) for number in range(0, 100, 4)})
    analysis = analysis_of(write(rows), judge_quality=given)
    assert "no label falls on 50 entries with lang de" in next(f.message for f in analysis.findings if f.code == "F032")


def test_labels_of_one_of_several_files_belong_to_that_file(write: Write, tmp_path: Path) -> None:
    first, second = write(run_of(10, 10), "results_a.jsonl"), write(run_of(4, 16), "results_b.jsonl")
    path = tmp_path / "labels.csv"
    path.write_text("file,id,label\n" + "".join(f"results_b.jsonl,{n},{int(n < 3)}\n" for n in range(20)))
    one, other = analyze(first, second, judge_quality=str(path)).analyses
    assert valid(one)["correction"]["status"] == "too_few_labels"
    assert valid(other)["rates"]["asr_corrected"]["value"] == pytest.approx(3 / 20)
    path.write_text("id,label\n5,1\n6,0\n")
    with pytest.raises(InputError, match="several rows of the results"):
        analyze(first, second, judge_quality=str(path))


# -- prediction-powered -----------------------------------------------------------------------------------------


def ppi_by_hand(labels: list[int], verdicts: list[int], others: list[int]) -> tuple[float, float, float]:
    import numpy as np

    y, f, u = (np.array(values, float) for values in (labels, verdicts, others))
    pooled = np.concatenate([f, u])
    weight = min(1, max(0, np.mean((y - y.mean()) * (f - f.mean())) / ((1 + len(y) / len(u)) * pooled.var(ddof=1))))
    value = y.mean() - weight * (f.mean() - u.mean())
    half = Z * math.sqrt((y - weight * f).var() / len(y) + weight**2 * u.var() / len(u))
    return value, value - half, value + half


def test_ppi_is_the_estimate_of_angelopoulos_for_random_labels(write: Write, tmp_path: Path) -> None:
    drawn = random.Random(4).sample(range(400), 80)
    said = {n: int(n < 110) if n % 9 else int(n >= 110) for n in drawn}
    analysis = analysis_of(write(run_of(120, 280)), judge_quality=labels(tmp_path, said), correction="ppi")
    ours = valid(analysis)["rates"]["asr_corrected"]
    others = [int(n < 120) for n in range(400) if n not in said]
    expected = ppi_by_hand(list(said.values()), [int(n < 120) for n in said], others)
    assert (ours["value"], ours["low"], ours["high"]) == pytest.approx(expected, abs=1e-9)
    assert valid(analysis)["correction"]["method"] == "ppi"


def test_ppi_refuses_labels_that_were_not_drawn_from_all(write: Write, tmp_path: Path) -> None:
    analysis = analysis_of(
        write(run_of(133, 867)),
        judge_quality=labels(tmp_path, {n: int(n < 50) for n in [*range(50), *range(133, 183)]}),
        correction="ppi",
    )
    assert valid(analysis)["correction"]["status"] == "not_random"
    assert "use two-phase" in next(f.message for f in analysis.findings if f.code == "F030")


def test_ppi_refuses_a_sheet_that_was_drawn_by_verdict(write: Write, tmp_path: Path, cli: Cli) -> None:
    rows, sheet = write(run_of(50, 50)), tmp_path / "sheet.jsonl"
    assert cli("results", "sample-for-labels", rows, "--n", "20", "-o", str(sheet)).code == 0
    analysis = analysis_of(rows, judge_quality=str(sheet), correction="ppi")
    assert valid(analysis)["correction"]["status"] == "not_random"


# -- families ---------------------------------------------------------------------------------------------------


def in_families(rows: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    return [{**row, "group": f"g{number // size}"} for number, row in enumerate(rows)]


@pytest.mark.parametrize("kind", ["summary", "labels"])
def test_families_of_variants_widen_the_corrected_interval_too(write: Write, tmp_path: Path, kind: str) -> None:
    given = summary(tmp_path, canary__Canary=(900, 100, 900, 100)) if kind == "summary" else two_phase_labels(tmp_path)
    rows = write(in_families(run_of(133, 367), 10))
    alone = analysis_of(rows, judge_quality=given, cluster="none").correction
    together = analysis_of(rows, judge_quality=given, cluster="group")
    assert alone is not None
    assert together.correction is not None
    one, other = alone.estimate, together.correction.estimate
    assert one is not None
    assert other is not None
    assert other.value == pytest.approx(one.value)
    assert (other.high or 0) - (other.low or 0) > 1.3 * ((one.high or 0) - (one.low or 0))


def test_families_of_labelled_entries_show_themselves_how_they_differ(write: Write, tmp_path: Path) -> None:
    """50 families of 10; the variance by counting one family after the other a little less."""
    rows = write(in_families(run_of(133, 367), 10))
    found = analysis_of(rows, judge_quality=two_phase_labels(tmp_path), cluster="group").correction
    assert found is not None
    assert found.estimate is not None
    labelled = {*range(50), *range(133, 183)}
    true = {*range(45), *range(133, 137)}
    less = 1e-6

    def rate(lighter: int) -> float:
        def weight(entries: set[int]) -> float:
            return sum(1 - less * (entry // 10 == lighter) for entry in entries)

        parts = [{*range(133)}, {*range(133, 500)}]
        shares = [weight(true & part) / weight(labelled & part) for part in parts]
        return sum(weight(part) * share for part, share in zip(parts, shares, strict=True)) / sum(map(weight, parts))

    value = rate(-1)
    variance = sum(((rate(family) - value) / less) ** 2 for family in range(50)) * 50 / 49
    t = float(scipy_stats.t.ppf(0.975, 49))
    size = value * (1 - value) / variance
    centre, half = value + t**2 / 2 / size, t * math.sqrt(value * (1 - value) / size + (t / 2 / size) ** 2)
    limits = [(centre + sign * half) / (1 + t**2 / size) for sign in (-1, 1)]
    assert [found.estimate.low, found.estimate.high] == pytest.approx(limits, abs=1e-6)
    assert found.estimate.value == pytest.approx(value)


def test_one_family_asked_for_gives_a_corrected_rate_without_an_interval(write: Write, tmp_path: Path) -> None:
    rows = write(in_families(run_of(133, 367), 1000))
    found = analysis_of(rows, judge_quality=two_phase_labels(tmp_path), cluster="group").correction
    assert found is not None
    assert found.estimate is not None
    assert (found.estimate.low, found.estimate.high, found.more_labels) == (None, None, None)


# -- what cannot be asked ---------------------------------------------------------------------------------------


def test_it_is_refused_where_it_makes_no_sense(write: Write, tmp_path: Path) -> None:
    rows, given = write(run_of(5, 5)), summary(tmp_path, canary__Canary=(8, 2, 9, 1))
    with pytest.raises(UsageError, match="exclude each other"):
        analysis_of(rows, judge_quality=given, definition="spikee")
    with pytest.raises(InputError, match="no such file"):
        analysis_of(rows, judge_quality=str(tmp_path / "nowhere.json"))
    with pytest.raises(InputError, match="name a file"):
        analysis_of(rows, judge_quality=str(tmp_path))
    with pytest.raises(UsageError, match="correction must be one of"):
        analysis_of(rows, correction="magic")


def test_a_run_without_verdicts_has_no_corrected_rate(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, canary__Canary=(80, 20, 96, 4))
    analysis = analysis_of(write(run_of(0, 0, errors=5)), judge_quality=given)
    assert valid(analysis)["correction"]["status"] == "no_verdicts"


def test_the_command_line_shows_both_rates(write: Write, tmp_path: Path, cli: Cli) -> None:
    rows, given = write(run_of(133, 367)), two_phase_labels(tmp_path)
    ran = cli("results", "analyze", rows, "--judge-quality", given, "--overview")
    assert ran.code == 0
    assert "Corrected for the judge" in ran.out
    for form in ("json", "markdown"):
        assert cli("results", "analyze", rows, "--judge-quality", given, "--output-format", form).code == 0
    assert cli("results", "analyze", rows, "--judge-quality", given, "--correction", "magic").code == 2


def test_hostile_names_reach_no_terminal(write: Write, tmp_path: Path) -> None:
    bad = "\x1b]0;owned\x07"
    given = summary(tmp_path, **{f"x{bad}": (80, 20, 96, 4)})
    analysis = analysis_of(write(run_of(133, 367, judge_name=f"y{bad}")), judge_quality=given)
    assert "\x1b" not in console.render(as_report([analysis]))


# -- coverage ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_two_phase_interval_of_a_whole_analysis_covers(write: Write, tmp_path: Path, rate: float) -> None:
    """Entries, verdicts and labels are drawn; a file is written, sampled and analysed, 80 times."""
    draw, covered, times = random.Random(11), 0, 80
    for _ in range(times):
        truth = [draw.random() < rate for _ in range(300)]
        verdicts = [draw.random() < (0.8 if true else 0.06) for true in truth]
        rows = [standard(n, success=verdict, judge_name="canary") for n, verdict in enumerate(verdicts)]
        parts = [[n for n, verdict in enumerate(verdicts) if verdict is said] for said in (True, False)]
        chosen = [n for part in parts for n in draw.sample(part, min(30, len(part)))]
        given = labels(tmp_path, {n: int(truth[n]) for n in chosen})
        found = analysis_of(write(rows), judge_quality=given)
        assert found.correction is not None
        estimate = found.correction.estimate
        assert estimate is not None
        covered += (estimate.low or 0) <= rate <= (estimate.high or 0)
    assert covered / times >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / times)
