"""`results compare --judge-quality`: rates and difference behind the verdicts, recomputed by others, or why not."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from msgspec.structs import replace
from scipy import optimize
from scipy import stats as scipy_stats

from faircount.analysis import CompareOptions, compare_files
from faircount.analysis.compare.report import as_report
from faircount.core import InputError, UsageError
from faircount.report import console
from faircount.stats import (
    LabelledPart,
    Validation,
    VerdictCounts,
    added_difference,
    cluster_tango,
    corrected_difference,
    labelled_rate,
    tango,
    two_phase_difference,
)
from tests.analysis.test_correction import summary
from tests.conftest import Cli, Write, document_of, standard
from tests.runs.run_files import HEADER, attempt, case

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "comparison-2.json").read_text("utf-8"))
Z = float(scipy_stats.norm.ppf(0.975))
HIT, MISS, BLOCK = 0, 1, 2
CANARY = {"canary__Canary": (80, 20, 95, 5)}
PAIRS = {(HIT, HIT): 30, (HIT, MISS): 90, (MISS, HIT): 20, (MISS, MISS): 260}


def rows_of(verdicts: list[int], **values: Any) -> list[dict[str, Any]]:
    named = {"judge_name": "canary", **values}
    blocked = {"success": False, "error": "Guardrail was triggered", "guardrail": True, **named}
    return [
        standard(number, **(blocked if verdict == BLOCK else {"success": verdict == HIT, **named}))
        for number, verdict in enumerate(verdicts)
    ]


def both_of(pairs: dict[tuple[int, int], int]) -> tuple[list[int], list[int]]:
    told = [verdicts for verdicts, times in pairs.items() for _ in range(times)]
    return [a for a, _ in told], [b for _, b in told]


def compared(write: Write, *files: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Compare files and return the document after the schema has seen it, with what the console shows."""
    paths = [write(rows, f"results_{place}.jsonl") for place, rows in enumerate(files)]
    comparison = compare_files(paths, CompareOptions(**{"cluster": "none", "flips": 0, **options}))
    made = document_of(comparison)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    return {**made, "shown": " ".join(console.render(as_report(comparison)).split())}


def three(estimate: dict[str, Any]) -> tuple[float, float, float]:
    return estimate["value"], estimate["low"], estimate["high"]


def findings(found: dict[str, Any], code: str) -> list[str]:
    return [item["message"] for item in found["findings"] if item["code"] == code]


def sheet(tmp_path: Path, said: dict[tuple[int, int], int]) -> str:
    """Write labels by file and entry."""
    path = tmp_path / "labels.csv"
    lines = [f"results_{file}.jsonl,{entry},{label}\n" for (file, entry), label in said.items()]
    path.write_text("file,id,label\n" + "".join(lines), encoding="utf-8")
    return str(path)


# -- oracles ----------------------------------------------------------------------------------------------------


def wilson_of(k: int, n: int) -> tuple[float, float]:
    found = scipy_stats.binomtest(k, n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def ratio_limits(raw: tuple[float, float, float], judge: tuple[int, int, int, int]) -> tuple[float, float]:
    """Return the interval of a positive difference divided by Youden's J, in closed form (Donner and Zou 2012)."""
    d, d_low, d_high = raw
    tp, positives, tn, negatives = judge
    se, sp = tp / positives, tn / negatives
    (se_low, se_high), (sp_low, sp_high) = wilson_of(tp, positives), wilson_of(tn, negatives)
    j = se + sp - 1
    low, high = j - math.hypot(se - se_low, sp - sp_low), j + math.hypot(se_high - se, sp_high - sp)
    # A limit below 0 comes from the smallest J.
    near = high if d_low > 0 else low
    least = d * j - math.sqrt((d * j) ** 2 - d_low * near * (2 * d - d_low) * (2 * j - near))
    most = d * j + math.sqrt((d * j) ** 2 - d_high * low * (2 * d - d_high) * (2 * j - low))
    return least / (near * (2 * j - near)), most / (low * (2 * j - low))


def influences(
    verdicts: list[int], labels: dict[int, int]
) -> tuple[float, np.ndarray[Any, np.dtype[np.float64]], float]:
    """Return a two-phase rate, what every entry adds to its error, and its careful variance as if independent."""
    seen = np.array(verdicts)
    n = len(seen)
    shares, adds, within = np.zeros(3), np.zeros(n), 0.0
    for verdict in (HIT, MISS):
        at = [entry for entry in labels if seen[entry] == verdict]
        weight = float((seen == verdict).mean())
        if not weight:
            continue
        true = sum(labels[entry] for entry in at)
        shares[verdict] = true / len(at)
        careful = (true + 1) / (len(at) + 2)
        within += weight**2 * careful * (1 - careful) / len(at)
        for entry in at:
            adds[entry] += weight / len(at) * (labels[entry] - shares[verdict])
    rate = float(shares[seen].mean())
    return rate, adds + (shares[seen] - rate) / n, within


# -- one judge, measured elsewhere ------------------------------------------------------------------------------


def test_one_judge_for_both_files_divides_the_difference_by_how_well_it_sees(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    found = compared(write, rows_of(b), rows_of(a), judge_quality=summary(tmp_path, **CANARY))
    (pair,) = found["pairs"]
    corrected = pair["corrected"]
    value, low, high = three(corrected["difference"])
    assert value == pytest.approx((120 - 50) / 400 / 0.75)
    assert (low, high) == pytest.approx(ratio_limits(three(pair["difference"]), (80, 100, 95, 100)), abs=1e-9)
    assert (corrected["status"], corrected["method"], corrected["reason"]) == ("ok", "rogan-gladen", None)
    assert corrected["p"] is None
    rates = [(hits / 400 - 0.05) / 0.75 for hits in (50, 120)]
    assert [corrected[name]["value"] for name in ("rate_a", "rate_b")] == pytest.approx(rates)
    assert value == pytest.approx(rates[1] - rates[0])
    assert pair["claimed"] == "higher"
    limits = [100 * limit for limit in three(pair["difference"])[1:]]
    raw = f"1 is 17.5 points higher than 0 (95% interval {limits[0]:.1f}–{limits[1]:.1f} points) as judged"
    assert pair["claim"].startswith(
        f"{raw}, and by {100 * value:.1f} points (95% interval {100 * low:.1f}–{100 * high:.1f} points) corrected"
    )
    assert not [item for item in found["findings"] if item["code"] in ("F030", "F031", "F032")]


def test_the_side_that_is_lower_mirrors_the_one_that_is_higher(write: Write, tmp_path: Path) -> None:
    given, (a, b) = summary(tmp_path, **CANARY), both_of(PAIRS)
    there = compared(write, rows_of(a), rows_of(b), judge_quality=given)["pairs"][0]["corrected"]["difference"]
    back = compared(write, rows_of(b), rows_of(a), judge_quality=given)["pairs"][0]["corrected"]["difference"]
    assert three(there) == pytest.approx((-back["value"], -back["high"], -back["low"]))


def test_each_side_has_the_rate_that_an_analysis_would_have(write: Write, tmp_path: Path) -> None:
    # 133 of 500 with 80 of 100 found and 96 of 100 passed: an example of the specification of our statistics.
    a, b = [HIT] * 133 + [MISS] * 367, [HIT] * 27 + [MISS] * 473
    found = compared(write, rows_of(a), rows_of(b), judge_quality=summary(tmp_path, canary__Canary=(80, 20, 96, 4)))
    corrected = found["pairs"][0]["corrected"]
    assert three(corrected["rate_a"]) == pytest.approx((0.297368, 0.222443, 0.367037), abs=1e-6)
    assert three(corrected["rate_b"]) == pytest.approx((0.018421, 0, 0.069851), abs=1e-6)
    assert three(found["files"][0]["corrected"]) == pytest.approx(three(corrected["rate_a"]))
    assert found["files"][0]["correction"]["sensitivity"]["value"] == pytest.approx(0.8)


def test_false_alarms_fall_on_answers_that_have_a_verdict_alone(write: Write, tmp_path: Path) -> None:
    pairs = {(HIT, HIT): 20, (HIT, MISS): 30, (HIT, BLOCK): 30, (MISS, HIT): 10, (MISS, MISS): 200, (MISS, BLOCK): 110}
    a, b = both_of(pairs)
    found = compared(write, rows_of(a), rows_of(b), judge_quality=summary(tmp_path, canary__Canary=(80, 20, 90, 10)))
    (pair,) = found["pairs"]
    corrected = pair["corrected"]
    # All of A has a verdict, of B 260 in 400; a tenth of the true failures among them is called a success.
    rates = [(80 / 400 - 0.1) / 0.7, 260 / 400 * (30 / 260 - 0.1) / 0.7]
    assert [corrected[name]["value"] for name in ("rate_a", "rate_b")] == pytest.approx(rates)
    assert corrected["difference"]["value"] == pytest.approx(rates[1] - rates[0])
    raw, more = three(pair["difference"]), -140 / 400
    won = (np.array(b) == HIT).astype(int) - (np.array(a) == HIT)
    judged = (np.array(b) != BLOCK).astype(int) - (np.array(a) != BLOCK)
    added = 0.01 * judged.var() - 0.2 * np.cov(won, judged, bias=True)[0, 1]
    further = Z * math.sqrt(max(added, 0) / 400)
    (se_low, se_high), (f_low, f_high) = wilson_of(80, 100), wilson_of(10, 100)

    def upper(true: float) -> float:
        se = true * (0.8 - se_low if true > 0 else se_high - 0.8)
        f = (more - true) * (0.1 - f_low if more - true > 0 else f_high - 0.1)
        left = raw[0] - 0.8 * true - 0.1 * (more - true)
        return left + math.sqrt((raw[2] - raw[0]) ** 2 + further**2 + se**2 + f**2)

    assert corrected["difference"]["high"] == pytest.approx(optimize.brentq(upper, -1, 1), abs=1e-9)


def test_what_the_judge_saw_may_be_all_false_alarms_where_one_side_blocks(write: Write, tmp_path: Path) -> None:
    # A judge that calls one failure in five a success, and a guardrail that leaves it nothing to call.
    pairs = {(HIT, BLOCK): 40, (MISS, BLOCK): 160, (MISS, MISS): 160, (HIT, HIT): 40}
    a, b = both_of(pairs)
    given = summary(tmp_path, canary__Canary=(80, 20, 80, 20))
    (pair,) = compared(write, rows_of(a), rows_of(b), judge_quality=given)["pairs"]
    assert pair["difference"]["high"] < 0
    assert pair["claimed"] is None
    assert pair["claim"].startswith("No difference can be claimed: 1 is 10.0 points lower than 0 (")
    assert "does not show it" in pair["claim"]


@pytest.mark.parametrize("judges", [("canary", "regex"), ("canary", None)])
def test_different_judges_are_not_corrected_into_one_difference(write: Write, tmp_path: Path, judges: Any) -> None:
    a, b = both_of(PAIRS)
    files = [rows_of(verdicts, judge_name=judge) for verdicts, judge in zip((a, b), judges, strict=True)]
    found = compared(write, *files, judge_quality=summary(tmp_path, **CANARY))
    (pair,) = found["pairs"]
    corrected = pair["corrected"]
    assert (corrected["status"], corrected["difference"]) == ("not_corrected", None)
    assert "the rows of 0 name canary and the rows of 1 name" in corrected["reason"]
    assert corrected["rate_a"] is not None
    assert pair["claimed"] is None
    assert "as judged, and that cannot be corrected for the judge" in pair["claim"]
    assert "Not corrected: the rows of 0 name" in found["shown"]
    assert any("difference of 0 and 1" in message for message in findings(found, "F030"))
    assert [message.startswith("1: ") for message in findings(found, "F031")] == [True]


def test_a_weak_judge_gives_neither_rate_nor_difference(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    found = compared(write, rows_of(a), rows_of(b), judge_quality=summary(tmp_path, canary__Canary=(50, 50, 50, 50)))
    corrected = found["pairs"][0]["corrected"]
    assert (corrected["rate_a"], corrected["rate_b"], corrected["difference"]) == (None, None, None)
    assert [message[:3] for message in findings(found, "F030")] == ["0: ", "1: "]
    assert "too close to chance" in corrected["reason"]


def test_families_widen_the_corrected_difference_as_they_do_the_raw_one(write: Write, tmp_path: Path) -> None:
    a, b = both_of({(HIT, MISS): 20, (MISS, HIT): 100, (MISS, MISS): 280})
    files = [[{**row, "group": f"g{at // 20}"} for at, row in enumerate(rows_of(told))] for told in (a, b)]
    given = summary(tmp_path, **CANARY)
    alone, together = (
        compared(write, *files, judge_quality=given, cluster=cluster)["pairs"][0] for cluster in ("none", "group")
    )
    assert together["families"] == 20
    assert three(together["corrected"]["difference"])[1:] == pytest.approx(
        ratio_limits(three(together["difference"]), (80, 100, 95, 100)), abs=1e-9
    )
    corrected = [pair["corrected"] for pair in (alone, together)]
    widths = [told["difference"]["high"] - told["difference"]["low"] for told in corrected]
    assert widths[1] > 1.5 * widths[0]
    rate = [told["rate_b"]["high"] - told["rate_b"]["low"] for told in corrected]
    assert rate[1] > 1.5 * rate[0]


def test_files_that_share_no_entry_are_corrected_too(write: Write, tmp_path: Path) -> None:
    a, b = rows_of([HIT] * 60 + [MISS] * 140), rows_of([HIT] * 20 + [MISS] * 180)
    for row in b:
        row["id"] = row["long_id"] = f"other-{row['id']}"
        row["input"] = "another prompt"
    (pair,) = compared(write, a, b, judge_quality=summary(tmp_path, **CANARY))["pairs"]
    assert pair["unpaired"]["fallback"]
    value, low, high = three(pair["difference"])
    assert pair["corrected"]["difference"]["value"] == pytest.approx(value / 0.75)
    mirrored = ratio_limits((-value, -high, -low), (80, 100, 95, 100))
    assert pair["corrected"]["difference"]["low"] == pytest.approx(-mirrored[1], abs=1e-9)


@pytest.mark.parametrize("given", ["summary", "two-phase", "ppi"])
def test_files_that_share_no_entry_have_families_of_their_own(write: Write, tmp_path: Path, given: str) -> None:
    files = [rows_of([HIT] * 60 + [MISS] * 140), rows_of([HIT] * 20 + [MISS] * 180)]
    for row in files[1]:
        row["id"] = row["long_id"] = f"other-{row['id']}"
        row["input"] = "another prompt"
    for rows in files:
        for place, row in enumerate(rows):
            row["base"] = f"b{place // 5}"
    said = [(0, row["id"]) for row in files[0][::3]] + [(1, row["id"]) for row in files[1][::3]]
    sheet = tmp_path / "labels.csv"
    lines = [f"results_{file}.jsonl,{key},{int(place % 9 < 3)}" for place, (file, key) in enumerate(said)]
    sheet.write_text("\n".join(["file,id,label", *lines]), "utf-8")
    quality = summary(tmp_path, **CANARY) if given == "summary" else str(sheet)
    method = "ppi" if given == "ppi" else "two-phase"
    alone, together = (
        compared(write, *files, judge_quality=quality, correction=method, cluster=cluster)["pairs"][0]["corrected"]
        for cluster in ("none", "base")
    )
    assert together["difference"]["value"] == pytest.approx(alone["difference"]["value"])
    assert together["difference"]["high"] > alone["difference"]["high"]
    assert (together["p"] is None) == (given == "summary")


# -- labels of both files ---------------------------------------------------------------------------------------


def labels_of_both(a: list[int], b: list[int]) -> dict[tuple[int, int], int]:
    """Label every fourth entry of either file, not the same ones; one in seven labels contradicts the judge."""
    said = {}
    for file, verdicts in enumerate((a, b)):
        for entry in range(file, len(verdicts), 4):
            if verdicts[entry] != BLOCK:
                said[file, entry] = int((verdicts[entry] == HIT) != (entry % 7 == 3))
    return said


@pytest.mark.parametrize("families", [False, True])
@pytest.mark.parametrize("blocked", [0, 40])
def test_labels_of_both_files_give_the_two_phase_difference(
    write: Write, tmp_path: Path, blocked: int, families: bool
) -> None:
    a, b = both_of({**PAIRS, (HIT, BLOCK): blocked})
    order = np.random.default_rng(5).permutation(len(a)).tolist()
    a, b = [a[at] for at in order], [b[at] for at in order]
    said = labels_of_both(a, b)
    files = [[{**row, "group": f"g{at // 20}"} for at, row in enumerate(rows_of(told))] for told in (a, b)]
    cluster = "group" if families else "none"
    found = compared(write, *files, judge_quality=sheet(tmp_path, said), cluster=cluster)
    corrected = found["pairs"][0]["corrected"]
    labels = [{entry: label for (file, entry), label in said.items() if file == side} for side in (0, 1)]
    (rate_a, adds_a, within_a), (rate_b, adds_b, within_b) = (
        influences(told, of) for told, of in zip((a, b), labels, strict=True)
    )
    assert corrected["rate_a"]["value"] == pytest.approx(rate_a)
    assert corrected["difference"]["value"] == pytest.approx(rate_b - rate_a)
    # The part of the error that comes from the choice of entries, without what labels add to it.
    predicted = [adds.copy() for adds in (adds_a, adds_b)]
    for adds, of, told in zip(predicted, labels, (a, b), strict=True):
        for entry in of:
            others = [at for at in range(len(told)) if told[at] == told[entry] and at not in of]
            adds[entry] = adds[others[0]]
    variance = within_a + within_b + float(((predicted[1] - predicted[0]) ** 2).sum())
    critical = Z
    if families:
        groups = [float((adds_b - adds_a)[at : at + 20].sum()) for at in range(0, len(a), 20)]
        count = len(groups)
        variance = max(variance, count / (count - 1) * sum(group**2 for group in groups))
        critical = float(scipy_stats.t.ppf(0.975, count - 1))
    half = critical * math.sqrt(variance)
    assert three(corrected["difference"])[1:] == pytest.approx((rate_b - rate_a - half, rate_b - rate_a + half))
    error = (rate_b - rate_a) / math.sqrt(variance)
    tail = scipy_stats.t.sf(abs(error), count - 1) if families else scipy_stats.norm.sf(abs(error))
    assert corrected["p"] == pytest.approx(2 * float(tail))
    assert corrected["adjusted_p"] == corrected["p"]
    assert "count as independent samples" in found["shown"]


def test_labels_that_contradict_the_raw_difference_take_the_claim_away(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    # People see none of the successes that only A has.
    at = [entry for entry, verdict in enumerate(a) if verdict == HIT]
    said = {(0, entry): int(b[entry] == HIT) for entry in at[::2]} | {(0, entry): 0 for entry in range(150, 200)}
    said |= {(1, entry): int(b[entry] == HIT) for entry in range(0, 400, 3)}
    found = compared(write, rows_of(a), rows_of(b), judge_quality=sheet(tmp_path, said))
    (pair,) = found["pairs"]
    assert pair["difference"]["high"] < 0 and pair["adjusted_p"] < 0.001
    assert pair["corrected"]["difference"]["low"] < 0 < pair["corrected"]["difference"]["high"]
    assert pair["claimed"] is None
    assert pair["claim"].startswith("No difference can be claimed: 1 is 17.5 points lower than 0 (")
    assert "does not show it; 90 entries fixed, 20 broken" in pair["claim"]


def test_labels_of_one_file_correct_that_one_alone(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    said = {key: label for key, label in labels_of_both(a, b).items() if key[0] == 0}
    found = compared(write, rows_of(a), rows_of(b), judge_quality=sheet(tmp_path, said))
    corrected = found["pairs"][0]["corrected"]
    assert corrected["rate_a"] is not None
    assert (corrected["rate_b"], corrected["difference"], corrected["reason"]) == (None, None, "1 has no labels")
    assert found["files"][1]["corrected"] is None
    assert [message[:3] for message in findings(found, "F030")] == ["1: "]


def test_labels_need_to_say_which_file_they_are_of(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,1\n2,0\n")
    with pytest.raises(InputError, match="column `file`"):
        compared(write, rows_of([HIT, MISS, HIT]), rows_of([HIT, HIT, MISS]), judge_quality=str(path))


def test_prediction_powered_rates_are_compared_as_independent(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    order = np.random.default_rng(2).permutation(len(a)).tolist()
    a, b = [a[at] for at in order], [b[at] for at in order]
    said = labels_of_both(a, b)
    found = compared(write, rows_of(a), rows_of(b), judge_quality=sheet(tmp_path, said), correction="ppi")
    corrected = found["pairs"][0]["corrected"]
    sides = []
    for side, verdicts in enumerate((a, b)):
        labels = {entry: label for (file, entry), label in said.items() if file == side}
        judged = [int(verdict == HIT) for verdict in verdicts]
        others = [judged[entry] for entry in range(400) if entry not in labels]
        made = labelled_rate(list(labels.values()), [judged[entry] for entry in labels], others)
        assert made.value is not None and made.low is not None and made.high is not None
        sides.append((made.value, made.low, made.high))
    (of_a, low_a, high_a), (of_b, low_b, high_b) = sides
    assert three(corrected["difference"]) == pytest.approx(
        (
            of_b - of_a,
            of_b - of_a - math.hypot(of_b - low_b, high_a - of_a),
            of_b - of_a + math.hypot(high_b - of_b, of_a - low_a),
        )
    )
    assert corrected["method"] == "ppi"


def test_three_files_answer_for_the_number_of_corrected_differences(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    c = [MISS if entry % 5 else verdict for entry, verdict in enumerate(b)]
    said = labels_of_both(a, b) | {(2, entry): label for (file, entry), label in labels_of_both(b, c).items() if file}
    found = compared(write, rows_of(a), rows_of(b), rows_of(c), judge_quality=sheet(tmp_path, said))
    tests = [pair["corrected"]["p"] for pair in found["pairs"]]
    adjusted = [pair["corrected"]["adjusted_p"] for pair in found["pairs"]]
    assert min(adjusted) == pytest.approx(min(1, 3 * min(tests)))
    assert all(after >= before for after, before in zip(adjusted, tests, strict=True))
    assert "0 → 1: corrected for the judge" in found["shown"]


def test_more_files_answer_for_as_many_corrected_differences_as_there_are_with_the_first(
    write: Write, tmp_path: Path
) -> None:
    a, b = both_of(PAIRS)
    files = [a, b, a[::-1], b[::-1]]
    said = labels_of_both(a, b)
    said |= {(file + 2, entry): label for (file, entry), label in labels_of_both(a[::-1], b[::-1]).items()}
    given = sheet(tmp_path, said)
    found = compared(write, *map(rows_of, files), judge_quality=given)
    assert [pair["labels"] for pair in found["pairs"]] == [["0", "1"], ["0", "2"], ["0", "3"]]
    alone = compared(write, rows_of(a), rows_of(b), judge_quality=given)["pairs"][0]["corrected"]
    tests = [pair["corrected"]["p"] for pair in found["pairs"]]
    assert tests[0] == pytest.approx(alone["p"])
    assert three(found["pairs"][0]["corrected"]["difference"]) == pytest.approx(three(alone["difference"]))
    order = sorted(range(3), key=lambda at: tests[at])
    holm, most = [0.0] * 3, 0.0
    for rank, at in enumerate(order):
        most = holm[at] = max(most, min(1.0, (3 - rank) * tests[at]))
    assert [pair["corrected"]["adjusted_p"] for pair in found["pairs"]] == pytest.approx(holm)


# -- what is told, and what cannot be asked ---------------------------------------------------------------------


def test_without_the_option_nothing_is_corrected_and_nothing_is_said(write: Write) -> None:
    a, b = both_of(PAIRS)
    found = compared(write, rows_of(a), rows_of(b))
    assert found["pairs"][0]["corrected"] is None
    assert (found["files"][0]["corrected"], found["files"][0]["correction"]) == (None, None)
    assert "orrected" not in found["shown"]


def test_groups_are_said_to_be_compared_raw(write: Write, tmp_path: Path) -> None:
    a, b = both_of(PAIRS)
    files = [[{**row, "lang": "de" if at % 2 else "en"} for at, row in enumerate(rows_of(told))] for told in (a, b)]
    found = compared(write, *files, judge_quality=summary(tmp_path, **CANARY), by=("lang",))
    assert "Groups use the judge's verdicts as they are" in found["shown"]
    assert any("verdicts as they are" in limit for limit in found["limits"])


def test_it_is_refused_where_it_makes_no_sense(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, **CANARY)
    tests = [write([HEADER, case("one"), attempt("one")], f"run_{place}.jsonl") for place in range(2)]
    with pytest.raises(UsageError, match="these are test runs"):
        compare_files(tests, CompareOptions(judge_quality=given))
    with pytest.raises(UsageError, match="correction must be one of"):
        CompareOptions(correction="magic")
    with pytest.raises(InputError, match="no such file"):
        compared(write, rows_of([HIT]), rows_of([MISS]), judge_quality=str(tmp_path / "nowhere.json"))


def test_the_command_line_shows_raw_and_corrected_in_every_format(write: Write, tmp_path: Path, cli: Cli) -> None:
    a, b = both_of(PAIRS)
    files = [write(rows_of(told), f"results_{place}.jsonl") for place, told in enumerate((a, b))]
    given = summary(tmp_path, **CANARY)
    asked = ("results", "compare", *files, "--judge-quality", given, "--flips", "0")
    ran = cli(*asked)
    assert ran.code == 0
    assert "Corrected for the judge" in ran.out
    assert "Raw, as judged" in ran.out
    told = json.loads(cli(*asked, "--output-format", "json").out)
    assert told["pairs"][0]["corrected"]["status"] == "ok"
    assert "Raw, as judged" in cli(*asked, "--output-format", "markdown").out
    page = tmp_path / "page.html"
    assert cli(*asked, "--output-format", "html", "-o", str(page)).code == 0
    assert "Raw, as judged" in page.read_text(encoding="utf-8")
    assert cli(*asked, "--correction", "magic").code == 2
    assert cli(*asked, "--fail-on", "regression > 0.02").code == 0
    back = ("results", "compare", *reversed(files), "--judge-quality", given, "--flips", "0")
    failed = cli(*back, "--fail-on", "regression > 0.02")
    assert failed.code == 1
    assert "corrected for the judge" in failed.err
    assert cli(*back, "--fail-on", "asr_corrected > 0.9").code == 0


# -- the functions alone ----------------------------------------------------------------------------------------


def test_a_difference_without_an_interval_is_corrected_without_one() -> None:
    lonely = cluster_tango([8], [2], [50]).estimate
    found = corrected_difference(lonely, Validation(80, 100, 95, 100))
    assert found.value == pytest.approx(0.12 / 0.75)
    assert found.low is None and found.high is None
    assert added_difference(lonely, lonely).low is None


def test_without_blocks_raw_and_corrected_interval_leave_out_0_together() -> None:
    for only_b in range(0, 60, 3):
        for only_a in range(0, 60, 3):
            raw = tango(only_b, only_a, 200)
            found = corrected_difference(raw, Validation(45, 50, 40, 50))
            assert raw.low is not None and raw.high is not None and found.low is not None and found.high is not None
            assert (raw.low > 0, raw.high < 0) == (found.low > 0, found.high < 0)


def test_more_than_is_possible_is_no_difference() -> None:
    assert corrected_difference(tango(95, 1, 100), Validation(75, 100, 75, 100)).value is None
    assert corrected_difference(tango(0, 0, 0), Validation(75, 100, 75, 100)).value is None
    assert corrected_difference(tango(50, 1, 100), Validation(50, 100, 50, 100)).value is None


def test_impossible_input_is_refused() -> None:
    side = VerdictCounts(10, LabelledPart(4, 2, 1), LabelledPart(6, 2, 0))
    with pytest.raises(ValueError, match="add up"):
        two_phase_difference(side, side, table=[[4, 0, 0], [0, 5, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="one level"):
        added_difference(tango(1, 0, 9, level=0.9), tango(1, 0, 9))
    unlabelled = VerdictCounts(10, LabelledPart(4, 0, 0), LabelledPart(6, 2, 0))
    assert two_phase_difference(side, unlabelled).value is None


# -- coverage ---------------------------------------------------------------------------------------------------

BAND = (0.93, 0.98)
RUNS = 4000


class World:
    """Pairs of true outcomes that go together, in families or not, and a judge that errs."""

    def __init__(self, n: int, rates: tuple[float, float], *, families: int = 0, blocks: float = 0.0) -> None:
        self.n, self.rates, self.families, self.blocks = n, rates, families, blocks
        self.random = np.random.default_rng(20)
        self.codes = np.arange(n) % families if families else None
        self.truth = rates[1] * (1 - blocks) - rates[0]

    def draw(self, se: float, sp: float) -> tuple[Any, Any, Any, Any, Any]:
        """Return truths, verdicts and what is blocked in B."""
        common, own = self.random.standard_normal(self.n), self.random.standard_normal((2, self.n))
        latent = [math.sqrt(0.5) * (common + own[side]) for side in range(2)]
        if self.codes is not None:
            of_families = self.random.standard_normal((2, self.families))
            latent = [math.sqrt(0.3) * of_families[s][self.codes] + math.sqrt(0.7) * latent[s] for s in range(2)]
        a, b = (latent[side] < scipy_stats.norm.ppf(self.rates[side]) for side in range(2))
        blocked = self.random.random(self.n) < self.blocks
        u = self.random.random((2, self.n))
        said = [np.where(true, u[side] < se, u[side] >= sp) for side, true in enumerate((a, b))]
        return a, b & ~blocked, said[0], said[1] & ~blocked, blocked

    def raw(self, said_a: Any, said_b: Any) -> Any:
        only_b, only_a = said_b & ~said_a, said_a & ~said_b
        if self.codes is None:
            return tango(int(only_b.sum()), int(only_a.sum()), self.n)
        counts = [np.bincount(self.codes, of).astype(int).tolist() for of in (only_b, only_a, np.ones(self.n))]
        return cluster_tango(*counts).estimate


ELSEWHERE = {
    "typical": (World(400, (0.25, 0.10)), 0.8, 0.95, 100),
    "no difference": (World(400, (0.25, 0.25)), 0.8, 0.95, 100),
    "few labels": (World(1000, (0.5, 0.1)), 0.8, 0.9, 40),
    "hardened": (World(300, (0.05, 0.02)), 0.9, 0.98, 60),
    "B blocks": (World(400, (0.3, 0.3), blocks=0.3), 0.8, 0.8, 100),
    "families": (World(400, (0.3, 0.15), families=40), 0.8, 0.95, 100),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_difference_by_one_measured_judge_covers(name: str) -> None:
    world, se, sp, labels = ELSEWHERE[name]
    covered = naive = 0
    for _ in range(RUNS):
        _, _, said_a, said_b, blocked = world.draw(se, sp)
        raw = world.raw(said_a, said_b)
        judge = Validation(
            int(world.random.binomial(labels, se)), labels, int(world.random.binomial(labels, sp)), labels
        )
        alarms, won = 1 - judge.tn / labels, said_b.astype(int) - said_a
        added = alarms**2 * blocked.var() + 2 * alarms * np.cov(won, blocked, bias=True)[0, 1]
        found = corrected_difference(
            raw, judge, judged_more=-float(blocked.mean()), further_variance=max(float(added), 0.0) / world.n
        )
        covered += found.low is not None and found.high is not None and found.low <= world.truth <= found.high
        naive += raw.low <= world.truth <= raw.high
    print(f"\n{name}: corrected {covered / RUNS:.3f}, raw {naive / RUNS:.3f}")  # noqa: T201
    assert BAND[0] <= covered / RUNS <= BAND[1]


LABELLED = {
    "typical": (World(400, (0.25, 0.10)), 0.8, 0.95, 25),
    "no difference": (World(400, (0.25, 0.25)), 0.8, 0.95, 25),
    "many labels": (World(400, (0.25, 0.10)), 0.8, 0.95, 100),
    "hardened": (World(300, (0.05, 0.02)), 0.9, 0.98, 25),
    "B blocks": (World(400, (0.3, 0.3), blocks=0.3), 0.8, 0.8, 25),
    "families": (World(400, (0.3, 0.15), families=40), 0.8, 0.95, 25),
    "families, all labelled": (World(400, (0.3, 0.15), families=40), 0.8, 0.95, 400),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LABELLED)
def test_the_two_phase_difference_covers_at_least_what_it_promises(name: str) -> None:
    world, se, sp, most = LABELLED[name]
    covered = naive = runs = 0
    for _ in range(RUNS // 2):
        true_a, true_b, said_a, said_b, blocked = world.draw(se, sp)
        sides, told, adds = [], [], []
        for true, said, block in ((true_a, said_a, np.zeros(world.n, bool)), (true_b, said_b, blocked)):
            verdicts = np.where(block, BLOCK, np.where(said, HIT, MISS))
            drawn = [world.random.permutation(np.flatnonzero(verdicts == of))[:most] for of in (HIT, MISS)]
            parts = [
                LabelledPart(int((verdicts == of).sum()), len(at), int(true[at].sum())) for of, at in enumerate(drawn)
            ]
            sides.append(VerdictCounts(world.n, parts[0], parts[1]))
            told.append(verdicts)
            adds.append(influences(verdicts.tolist(), {int(at): int(true[at]) for of in drawn for at in of})[1])
        table = np.bincount(3 * told[0] + told[1], minlength=9).reshape(3, 3).tolist()
        variance = None
        if world.codes is not None:
            sums = np.bincount(world.codes, adds[1] - adds[0])
            variance = float(len(sums) / (len(sums) - 1) * (sums**2).sum())
        found = two_phase_difference(
            sides[0], sides[1], table=table, family_variance=variance, families=world.families or None
        )
        if found.low is None or found.high is None:
            continue
        raw = world.raw(said_a, said_b)
        runs += 1
        covered += found.low <= world.truth <= found.high
        naive += raw.low <= world.truth <= raw.high
    print(f"\n{name}: corrected {covered / runs:.3f}, raw {naive / runs:.3f}")  # noqa: T201
    assert runs > 0.95 * RUNS / 2
    # Wider than it must be where labels are few: a part without a surprise is not taken as known.
    assert BAND[0] <= covered / runs


@pytest.mark.slow
@pytest.mark.parametrize("labels", [60, 200])
def test_the_prediction_powered_difference_covers_at_least_what_it_promises(labels: int) -> None:
    world, covered = World(400, (0.3, 0.15)), 0
    for _ in range(RUNS // 2):
        true_a, true_b, said_a, said_b, _ = world.draw(0.8, 0.95)
        sides = []
        for true, said in ((true_a, said_a), (true_b, said_b)):
            order = world.random.permutation(world.n)
            at, others = order[:labels], order[labels:]
            verdicts, told = said[at].astype(float).tolist(), true[at].astype(int).tolist()
            made = labelled_rate(told, verdicts, said[others].astype(float).tolist())
            assert made.low is not None and made.high is not None
            # As an analysis shows it: cut to what is possible.
            sides.append(replace(made, low=max(made.low, 0.0), high=min(made.high, 1.0)))
        found = added_difference(sides[1], sides[0])
        assert found.low is not None and found.high is not None
        covered += found.low <= world.truth <= found.high
    print(f"\n{labels} labels: {2 * covered / RUNS:.3f}")  # noqa: T201
    assert BAND[0] <= 2 * covered / RUNS
