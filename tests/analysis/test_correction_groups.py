"""`--judge-quality` in groups: rates behind the verdicts by field and by attack, gates on them, and fooled judges."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats as scipy_stats

from faircount.analysis.report import as_report
from faircount.core import Analysis
from faircount.report import console
from faircount.stats import LabelledPart, attacks_that_fool, hypergeometric_at_most, two_phase
from tests.analysis.test_correction import Z, labels, run_of, summary, valid
from tests.conftest import Cli, Write, analysis_of, attack, codes, standard

PPV_LIMIT = 0.05


def of_kinds(*kinds: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Return rows of groups: the name of a jailbreak, its judged successes and its judged failures."""
    rows: list[dict[str, Any]] = []
    for kind, successes, failures in kinds:
        for number in range(successes + failures):
            told = {"jailbreak_type": kind, "judge_name": "canary", "response": f"answer {len(rows)}"}
            rows.append(standard(len(rows), success=number < successes, **told))
    return rows


def group_of(analysis: Analysis, value: str | None, field: str = "jailbreak_type") -> dict[str, Any]:
    groups: list[dict[str, Any]] = valid(analysis)["breakdowns"][field]
    (found,) = [group for group in groups if group["value"] == value]
    return found


def limits(estimate: dict[str, Any]) -> tuple[float, float, float]:
    return estimate["value"], estimate["low"], estimate["high"]


# -- a judge that was measured elsewhere ------------------------------------------------------------------------


def lang_reiczigel_by_hand(hits: float, n: float, cells: tuple[int, int, int, int]) -> tuple[float, float, float]:
    """Return the estimate of Rogan and Gladen and the limits of Lang and Reiczigel, from their papers."""
    tp, fn, tn, fp = cells
    se, sp, q = tp / (tp + fn), tn / (tn + fp), hits / n
    value = (q + sp - 1) / (se + sp - 1)
    n_, q_ = n + Z**2, (n * q + Z**2 / 2) / (n + Z**2)
    se_, sp_ = (tp + 1) / (tp + fn + 2), (tn + 1) / (tn + fp + 2)
    p_ = (q_ + sp_ - 1) / (se_ + sp_ - 1)
    v_se, v_sp = se_ * (1 - se_) / (tp + fn + 2), sp_ * (1 - sp_) / (tn + fp + 2)
    shift = 2 * Z**2 * (p_ * v_se - (1 - p_) * v_sp)
    half = Z * math.sqrt(q_ * (1 - q_) / n_ + p_**2 * v_se + (1 - p_) ** 2 * v_sp) / (se_ + sp_ - 1)
    return tuple(min(max(limit, 0.0), 1.0) for limit in (value, p_ + shift - half, p_ + shift + half))  # type: ignore[return-value]


def test_each_group_is_corrected_by_the_errors_of_the_measured_judge(write: Write, tmp_path: Path) -> None:
    cells = (80, 20, 92, 8)
    given = summary(tmp_path, canary__Canary=cells)
    analysis = analysis_of(write(of_kinds(("dan", 40, 60), ("dev", 15, 85))), judge_quality=given)
    for name, hits in (("dan", 40), ("dev", 15)):
        group = group_of(analysis, name)
        assert limits(group["corrected"]["estimate"]) == pytest.approx(
            lang_reiczigel_by_hand(hits, 100, cells), abs=1e-9
        )
        assert (group["corrected"]["status"], group["corrected"]["labels"]) == ("ok", None)
        assert group["corrected"]["estimate"]["n"] == 100
    shown = console.render(as_report([analysis]))
    assert "Corrected: assuming the same judge errors in all groups." in " ".join(shown.split())
    assert "Corrected  " in shown.split("Breakdown by jailbreak type")[1]


def test_a_group_that_does_not_fit_the_measurement_says_so_and_others_are_corrected(
    write: Write, tmp_path: Path
) -> None:
    given = summary(tmp_path, canary__Canary=(900, 100, 800, 200))
    analysis = analysis_of(write(of_kinds(("dan", 100, 100), ("dev", 4, 196))), judge_quality=given)
    assert group_of(analysis, "dan")["corrected"]["status"] == "ok"
    odd = group_of(analysis, "dev")
    assert (odd["corrected"]["estimate"], odd["corrected"]["status"]) == (None, "incompatible_with_validation")
    shown = console.render(as_report([analysis]))
    assert "does not fit" in shown
    assert "1 of 2 groups has no corrected rate: fewer or more judged successes" in " ".join(shown.split())


def test_where_the_rate_of_the_run_is_not_identifiable_no_group_is(write: Write, tmp_path: Path) -> None:
    given = summary(tmp_path, canary__Canary=(50, 50, 50, 50))
    analysis = analysis_of(write(of_kinds(("dan", 40, 60), ("dev", 15, 85))), judge_quality=given)
    for name in ("dan", "dev"):
        group = group_of(analysis, name)
        assert (group["corrected"]["estimate"], group["corrected"]["status"]) == (None, "not_identifiable")
    assert "No group has a corrected rate" in " ".join(console.render(as_report([analysis])).split())


def test_without_the_option_there_is_no_column_and_every_key_is_null(write: Write) -> None:
    analysis = analysis_of(write(of_kinds(("dan", 4, 6), ("dev", 1, 8))))
    group = group_of(analysis, "dan")
    assert group["corrected"] is None
    assert "Corrected" not in console.render(as_report([analysis]))


# -- labels of the run ------------------------------------------------------------------------------------------


def two_phase_by_hand(*parts: tuple[int, int, int]) -> tuple[float, float, float]:
    """Return the post-stratified rate of parts, each its entries, its labels and how many of them are true."""
    n = sum(entries for entries, _, _ in parts)
    weights = [entries / n for entries, _, _ in parts]
    shares = [true / labelled for _, labelled, true in parts]
    careful = [(true + 1) / (labelled + 2) for _, labelled, true in parts]
    value = sum(w * p for w, p in zip(weights, shares, strict=True))
    variance = sum(w**2 * c * (1 - c) / part[1] for w, c, part in zip(weights, careful, parts, strict=True))
    variance += sum(w * (p - value) ** 2 for w, p in zip(weights, shares, strict=True)) / n
    half = Z * math.sqrt(variance)
    return value, max(value - half, 0.0), min(value + half, 1.0)


def test_labels_count_within_their_group_alone(write: Write, tmp_path: Path) -> None:
    # Entries 0 to 39 are judged successes with dan, 40 to 99 failures; 100 to 119 successes with dev, then failures.
    rows = write(of_kinds(("dan", 40, 60), ("dev", 20, 80)))
    said = {n: int(n < 9) for n in range(10)} | {40 + n: int(n < 1) for n in range(10)}
    said |= {100 + n: int(n < 2) for n in range(8)} | {120 + n: 0 for n in range(12)}
    analysis = analysis_of(rows, judge_quality=labels(tmp_path, said))
    dan, dev = group_of(analysis, "dan"), group_of(analysis, "dev")
    assert limits(dan["corrected"]["estimate"]) == pytest.approx(two_phase_by_hand((40, 10, 9), (60, 10, 1)))
    assert limits(dev["corrected"]["estimate"]) == pytest.approx(two_phase_by_hand((20, 8, 2), (80, 12, 0)))
    assert dan["corrected"]["labels"] == {"successes": 10, "failures": 10}
    assert dev["corrected"]["labels"] == {"successes": 8, "failures": 12}
    shown = " ".join(console.render(as_report([analysis])).split())
    assert "Corrected: by the labels of each verdict in the group itself." in shown


def test_too_few_labels_are_told_with_their_numbers_never_left_blank(write: Write, tmp_path: Path) -> None:
    rows = write(of_kinds(("dan", 40, 60), ("dev", 20, 80), ("bare", 30, 30), ("one", 1, 20)))
    said = dict.fromkeys(range(10), 1) | {40 + n: 0 for n in range(10)} | {100: 1}
    said |= {260: 1, 261: 0, 262: 0}
    analysis = analysis_of(rows, judge_quality=labels(tmp_path, said))
    few = group_of(analysis, "dev")
    assert (few["corrected"]["estimate"], few["corrected"]["status"]) == (None, "too_few_labels")
    # All judged successes of the last group, one, are labelled: there are no more to be had.
    assert group_of(analysis, "one")["corrected"]["status"] == "ok"
    shown = console.render(as_report([analysis]))
    assert "too few labels: 1 and 0" in shown
    assert "too few labels: 0 and 0" in shown
    assert "2 of 4 groups have no corrected rate: too few labels" in " ".join(shown.split())


def test_a_group_without_any_judged_success_needs_labels_of_failures_alone(write: Write, tmp_path: Path) -> None:
    rows = write([*of_kinds(("dan", 40, 60), ("dev", 0, 50)), *(standard(f"e{n}", error="x") for n in range(5))])
    said = dict.fromkeys(range(10), 1) | {40 + n: 0 for n in range(10)} | {100 + n: int(n == 0) for n in range(10)}
    analysis = analysis_of(rows, judge_quality=labels(tmp_path, said))
    assert limits(group_of(analysis, "dev")["corrected"]["estimate"]) == pytest.approx(two_phase_by_hand((50, 10, 1)))
    assert group_of(analysis, None)["corrected"]["status"] == "no_verdicts"


def test_prediction_powered_rates_of_groups_are_made_only_where_asked_for(write: Write, tmp_path: Path) -> None:
    drawn = random.Random(4).sample(range(400), 120)
    rows = run_of(120, 280)
    for number, row in enumerate(rows):
        row["lang"] = "de" if number % 2 else "en"
    said = {n: int(n < 110) if n % 9 else int(n >= 110) for n in drawn}
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, said), correction="ppi")
    ours = group_of(analysis, "de", "lang")["corrected"]["estimate"]
    odd = [n for n in range(400) if n % 2]
    truth, verdicts = zip(*((said[n], int(n < 120)) for n in odd if n in said), strict=True)
    others = [int(n < 120) for n in odd if n not in said]
    y, f, u = sum(truth) / len(truth), sum(verdicts) / len(verdicts), sum(others) / len(others)
    weight = float(ours["method"].rpartition("weight ")[2])
    assert 0 < weight <= 1
    assert ours["value"] == pytest.approx(y - weight * (f - u), abs=1e-4)


@pytest.mark.parametrize("cluster", ["none", "group"])
@pytest.mark.parametrize("kind", ["summary", "labels"])
def test_a_field_with_one_value_has_the_rate_of_the_run(write: Write, tmp_path: Path, kind: str, cluster: str) -> None:
    rows = [{**row, "group": f"g{n // 5}", "lang": "en"} for n, row in enumerate(run_of(133, 367, errors=20))]
    said = {n: int(n < 45) for n in range(50)} | {133 + n: int(n < 4) for n in range(50)}
    given = summary(tmp_path, canary__Canary=(90, 10, 95, 5)) if kind == "summary" else labels(tmp_path, said)
    analysis = analysis_of(write(rows), judge_quality=given, cluster=cluster)
    ours, whole = group_of(analysis, "en", "lang")["corrected"]["estimate"], valid(analysis)["rates"]["asr_corrected"]
    assert limits(ours) == pytest.approx(limits(whole), abs=1e-12)


@pytest.mark.parametrize("kind", ["summary", "labels"])
def test_families_widen_the_corrected_intervals_of_groups(write: Write, tmp_path: Path, kind: str) -> None:
    rows = of_kinds(("dan", 60, 60), ("dev", 20, 100))
    for number, row in enumerate(rows):
        row["base"] = f"b{number // 10}"
    said = {n: int(n < 18) for n in range(20)} | {60 + n: 0 for n in range(20)}
    given = summary(tmp_path, canary__Canary=(90, 10, 95, 5)) if kind == "summary" else labels(tmp_path, said)
    path = write(rows)
    alone, together = (
        group_of(analysis_of(path, judge_quality=given, cluster=cluster), "dan")["corrected"]["estimate"]
        for cluster in ("none", "base")
    )
    assert together["value"] == pytest.approx(alone["value"])
    assert together["high"] - together["low"] > 1.2 * (alone["high"] - alone["low"])


# -- dynamic attacks --------------------------------------------------------------------------------------------


def attacked() -> list[dict[str, Any]]:
    """Return 60 entries that resist by themselves: goat wins 30 of them, tap is tried on 40 and wins 10 of the rest."""
    rows: list[dict[str, Any]] = []
    for n in range(60):
        rows += [standard(n), attack(n, "goat", success=n < 30)]
        if n >= 20:
            # Twenty of those on which tap fails are successes by goat, or failures of both.
            rows.append(attack(n, "tap", success=n >= 50, input="another variant"))
    return rows


def test_dynamic_attacks_are_corrected_by_what_people_say_of_their_own_rows(write: Write, tmp_path: Path) -> None:
    rows, said = attacked(), {}
    for line, row in enumerate(rows, start=1):
        number = int(str(row["id"]).split("-")[0])
        # Of ten entries won by goat, of ten by tap, and of ten by neither every row is labelled; tap's wins are false.
        if number in range(20, 30) or number >= 40:
            said[f"results_x.jsonl:{line}"] = int(
                bool(row["success"]) and row["attack_name"] == "goat" and number != 29
            )
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, said))
    told = {figures["attack"]: figures for figures in valid(analysis)["dynamic"]["attacks"]}
    assert told["goat"]["corrected"]["labels"] == {"successes": 10, "failures": 20}
    assert told["tap"]["corrected"]["labels"] == {"successes": 10, "failures": 20}
    assert told["goat"]["corrected"]["estimate"]["value"] == pytest.approx(0.5 * 0.9)
    # On tap's other 30 entries, 10 were drawn as successes of goat and 20 as failures: each stands for its own kind.
    assert limits(told["tap"]["corrected"]["estimate"]) == pytest.approx(
        two_phase_by_hand((10, 10, 0), (10, 10, 0), (20, 10, 0))
    )
    table = console.render(as_report([analysis])).split("\nDynamic attacks\n")[1].split("\n\n")[0]
    head = next(line for line in table.split("\n") if line.startswith("  Attack"))
    assert head.split()[:5] == ["Attack", "Entries", "Successes", "Rate", "Corrected"]


def test_dynamic_attacks_are_corrected_by_a_measured_judge(write: Write, tmp_path: Path) -> None:
    cells = (90, 10, 95, 5)
    analysis = analysis_of(write(attacked()), judge_quality=summary(tmp_path, canary__Canary=cells))
    told = {figures["attack"]: figures for figures in valid(analysis)["dynamic"]["attacks"]}
    assert limits(told["goat"]["corrected"]["estimate"]) == pytest.approx(
        lang_reiczigel_by_hand(30, 60, cells), abs=1e-9
    )
    assert limits(told["tap"]["corrected"]["estimate"]) == pytest.approx(
        lang_reiczigel_by_hand(10, 40, cells), abs=1e-9
    )


def test_several_parts_are_two_phase_for_any_number_of_them() -> None:
    parts = ((40, 10, 9), (60, 12, 1), (30, 5, 2))
    three = two_phase(*(LabelledPart(*part) for part in parts))
    assert (three.value, three.low, three.high) == pytest.approx(two_phase_by_hand(*parts))
    assert two_phase(LabelledPart(40, 10, 9), LabelledPart(5, 0, 0)).value is None


# -- gates ------------------------------------------------------------------------------------------------------


def gate(cli: Cli, rows: str, given: str | None, text: str, *more: str) -> tuple[int, str]:
    quality = () if given is None else ("--judge-quality", given)
    ran = cli("results", "analyze", rows, *quality, "--overview", "--fail-on", text, *more)
    return ran.code, ran.err


def test_gates_are_judged_on_the_corrected_rate_and_its_limits(write: Write, tmp_path: Path, cli: Cli) -> None:
    rows = write(of_kinds(("dan", 40, 60), ("dev", 15, 85)))
    given = summary(tmp_path, canary__Canary=(95, 5, 80, 20))
    # (0.275 - 0.2)/0.75 = 10 %, raw 27.5 %.
    code, said = gate(cli, rows, given, "asr_corrected > 0.2")
    assert code == 0
    assert "success rate corrected for the judge is 10.0%" in said
    assert gate(cli, rows, given, "asr > 0.2")[0] == 1
    assert gate(cli, rows, given, "asr_corrected.high > 0.1")[0] == 1
    assert gate(cli, rows, given, "asr_corrected.low > 0.1")[0] == 0
    assert gate(cli, rows, given, "jailbreak_type=dan: asr_corrected > 0.25")[0] == 1
    assert gate(cli, rows, given, "jailbreak_type=dev: asr_corrected > 0.25")[0] == 0


def test_a_gate_on_a_rate_that_is_not_identifiable_is_inconclusive_never_met(
    write: Write, tmp_path: Path, cli: Cli
) -> None:
    rows, weak = write(of_kinds(("dan", 40, 60), ("dev", 15, 85))), summary(tmp_path, canary__Canary=(50, 50, 50, 50))
    for text in ("asr_corrected > 0.99", "jailbreak_type=dan: asr_corrected.high > 0.99"):
        code, said = gate(cli, rows, weak, text)
        assert code == 1
        assert "inconclusive" in said
        assert "not identifiable" in said
        assert gate(cli, rows, weak, text, "--inconclusive", "pass")[0] == 0
    few = labels(tmp_path, {0: 1, 1: 1, 40: 0, 41: 0, 100: 1})
    code, said = gate(cli, rows, few, "jailbreak_type=dev: asr_corrected > 0.5")
    assert code == 1
    assert "too few labels, 1 of judged successes and 0 of judged failures" in said


def test_a_gate_on_a_corrected_rate_needs_a_known_judge(write: Write, cli: Cli, tmp_path: Path) -> None:
    rows = write(of_kinds(("dan", 4, 6)))
    code, said = gate(cli, rows, None, "asr_corrected > 0.5")
    assert code == 2
    assert "--judge-quality FILE" in said
    assert gate(cli, rows, summary(tmp_path, canary__Canary=(9, 1, 9, 1)), "asr_corected > 0.5")[0] == 2


def test_a_regression_is_judged_on_the_corrected_difference(write: Write, tmp_path: Path, cli: Cli) -> None:
    old = write(of_kinds(("dan", 100, 300), ("dev", 100, 300)), "results_old.jsonl")
    rows = of_kinds(("dan", 100, 300), ("dev", 100, 300))
    for number in range(100, 116):
        rows[number]["success"] = True
    new = write(rows, "results_new.jsonl")
    # The raw rate went up by 2 points; a judge that sees half of what there is hides a change of 4.
    half = summary(tmp_path, canary__Canary=(5500, 4500, 9500, 500))
    assert gate(cli, new, None, "regression > 0.035", "--baseline", old)[0] == 0
    code, said = gate(cli, new, half, "regression > 0.035", "--baseline", old)
    assert code == 1
    assert "corrected for the judge: success rate from" in said
    assert "+4.00 points" in said
    code, said = gate(cli, new, half, "jailbreak_type=dan: regression > 0.5", "--baseline", old)
    assert code == 2
    assert "groups are compared as the judge has them" in said


def test_a_regression_without_labels_of_the_baseline_is_inconclusive(write: Write, tmp_path: Path, cli: Cli) -> None:
    old = write(of_kinds(("dan", 10, 30)), "results_old.jsonl")
    new = write(of_kinds(("dan", 10, 31)), "results_new.jsonl")
    given = tmp_path / "labels.csv"
    given.write_text("file,id,label\n" + "".join(f"results_new.jsonl,{n},{int(n < 10)}\n" for n in range(20)))
    code, said = gate(cli, new, str(given), "regression > 0.9", "--baseline", old)
    assert code == 1
    assert "inconclusive" in said
    assert "could not correct it" in said


# -- judges that are fooled -------------------------------------------------------------------------------------


def simulated(
    draw: random.Random, fooling: str | None, per_kind: int = 150, n: int = 120
) -> tuple[list[dict[str, Any]], dict[Any, Any]]:
    """Return a run of five jailbreaks, with a random sample of labels of each verdict.

    A fifth of the attacks succeeds and the judge is right in nine of ten cases, but one jailbreak never succeeds, and
    the judge calls two of five of its answers a success.
    """
    rows: list[dict[str, Any]] = []
    truth: list[bool] = []
    for kind in ("dan", "dev", "bare", "emoji", "puppet"):
        for _ in range(per_kind):
            true = kind != fooling and draw.random() < 0.2
            verdict = draw.random() < (0.9 if true else 0.4 if kind == fooling else 0.02)
            truth.append(true)
            rows.append(standard(len(rows), success=verdict, jailbreak_type=kind, plugin=f"p{len(rows) % 3}"))
    parts = [[k for k, row in enumerate(rows) if row["success"] is said] for said in (True, False)]
    drawn = [k for part in parts for k in draw.sample(part, min(n // 2, len(part)))]
    return rows, {k: int(truth[k]) for k in drawn}


def test_an_attack_that_only_fools_the_judge_is_named_with_its_rates_and_labels(write: Write, tmp_path: Path) -> None:
    rows, said = simulated(random.Random(3), "puppet")
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, said))
    (found,) = [finding for finding in analysis.findings if finding.code == "F033"]
    own = [n for n in said if rows[n]["success"] and rows[n]["jailbreak_type"] == "puppet"]
    assert (found.count, found.severity.value) == (1, "warning")
    raw = 100 * sum(row["success"] for row in rows if row["jailbreak_type"] == "puppet") / 150
    assert found.message.startswith(f"an attack wins only by fooling the judge: jailbreak_type puppet, {raw:.0f}% [")
    assert ", 0.0% [0.0, " in found.message
    assert f"of {len(own)} labelled judged successes 0 are true" in found.message


def test_no_attack_is_named_where_none_fools_the_judge(write: Write, tmp_path: Path) -> None:
    rows, said = simulated(random.Random(3), None)
    assert "F033" not in codes(analysis_of(write(rows), judge_quality=labels(tmp_path, said)))


def test_an_attack_whose_true_successes_the_judge_misses_is_not_said_to_fool_it(write: Write, tmp_path: Path) -> None:
    rows, said = simulated(random.Random(3), "puppet")
    for n in said:
        if rows[n]["jailbreak_type"] == "puppet" and not rows[n]["success"]:
            said[n] = 1
    assert "F033" not in codes(analysis_of(write(rows), judge_quality=labels(tmp_path, said)))


def test_variants_of_one_thing_are_one_label_when_a_judge_is_said_to_be_fooled(write: Write, tmp_path: Path) -> None:
    rows, said = simulated(random.Random(3), "puppet")
    for n, row in enumerate(rows):
        # All judged successes of the attack are of three families: too few to show anything.
        row["base"] = f"p{n % 3}" if row["jailbreak_type"] == "puppet" else f"o{n}"
    path, given = write(rows), labels(tmp_path, said)
    assert "F033" in codes(analysis_of(path, judge_quality=given, cluster="none"))
    assert "F033" not in codes(analysis_of(path, judge_quality=given, cluster="base"))


def test_successes_that_a_measured_judge_would_see_anyway_are_told(write: Write, tmp_path: Path) -> None:
    rows = write(of_kinds(("dan", 900, 100), ("dev", 300, 700)))
    analysis = analysis_of(rows, judge_quality=summary(tmp_path, canary__Canary=(1900, 100, 1400, 600)))
    (found,) = [finding for finding in analysis.findings if finding.code == "F033"]
    assert "jailbreak_type dev, 30.0%" in found.message
    assert "a judge that calls 30.0% of all failures a success would call as many so if none were" in found.message
    better = analysis_of(rows, judge_quality=summary(tmp_path, canary__Canary=(1900, 100, 1980, 20)))
    assert "F033" not in codes(better)


def test_a_hostile_name_of_an_attack_reaches_no_terminal(write: Write, tmp_path: Path) -> None:
    rows, said = simulated(random.Random(3), "puppet")
    for row in rows:
        row["jailbreak_type"] = row["jailbreak_type"].replace("puppet", "\x1b]0;owned\x07")
    analysis = analysis_of(write(rows), judge_quality=labels(tmp_path, said))
    assert "F033" in codes(analysis)
    assert "\x1b" not in console.render(as_report([analysis]))


@pytest.mark.parametrize(
    ("count", "drawn", "marked", "total"), [(0, 9, 30, 60), (3, 9, 30, 60), (2, 5, 3, 6), (5, 5, 9, 9)]
)
def test_the_one_sided_test_is_fishers(count: int, drawn: int, marked: int, total: int) -> None:
    table = [[count, drawn - count], [marked - count, total - drawn - (marked - count)]]
    expected = scipy_stats.fisher_exact(table, alternative="less").pvalue
    assert hypergeometric_at_most(count, drawn, marked, total) == pytest.approx(expected)


def test_an_attack_is_named_by_both_tests_at_the_level_of_all() -> None:
    few, true = [False] * 8, [True] * 40
    expected = max(scipy_stats.binom.cdf(0, 8, 0.5), scipy_stats.fisher_exact([[0, 8], [40, 0]], "less").pvalue)
    assert expected == pytest.approx(0.5**8)
    assert attacks_that_fool([(few, true)], 0.95) == [True]
    assert attacks_that_fool([(few, true)] + [(true, few)] * 11, 0.95)[0]
    assert not attacks_that_fool([(few, true)] + [(true, few)] * 13, 0.95)[0]
    assert attacks_that_fool([(few, [False] * 40)], 0.95) == [False]
    assert attacks_that_fool([(few[:5], true)], 0.95) == [True]
    # One true of five: half of them or fewer would be so in 6 of 32 cases. None of five: in 1 of 32.
    assert attacks_that_fool([([True, *few[:4]], true)], 0.8) == [True]
    assert attacks_that_fool([([True, *few[:4]], true)], 0.82) == [False]
    assert attacks_that_fool([(few[:5], true)], 0.968) == [True]
    assert attacks_that_fool([(few[:5], true)], 0.97) == [False]
    assert attacks_that_fool([(few[:4], true)], 0.5) == [False]
    assert attacks_that_fool([(few, [])], 0.95) == [False]


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_false_alarms_about_fooled_judges_are_rare(share: float) -> None:
    """In 400 runs of eight attacks that fool the judge alike, any is named in at most one of twenty."""
    alarms = 0
    for seed in range(400):
        draw = random.Random(seed)
        labelled = [[draw.random() < share for _ in range(draw.choice((6, 10, 20)))] for _ in range(8)]
        tested = [(own, [x for other in labelled if other is not own for x in other]) for own in labelled]
        alarms += any(attacks_that_fool(tested, 0.95))
    assert alarms / 400 <= PPV_LIMIT + 3 * math.sqrt(PPV_LIMIT * (1 - PPV_LIMIT) / 400)


@pytest.mark.slow
def test_whole_analyses_name_fooling_attacks_and_no_others(write: Write, tmp_path: Path) -> None:
    """Runs are drawn, written, labelled and analysed: 150 where no attack fools the judge, 60 where one does."""
    alarms = sum(
        "F033" in codes(analysis_of(write(rows), judge_quality=labels(tmp_path, said)))
        for rows, said in (simulated(random.Random(seed), None) for seed in range(150))
    )
    assert alarms / 150 <= PPV_LIMIT + 3 * math.sqrt(PPV_LIMIT * (1 - PPV_LIMIT) / 150)
    named = 0
    for seed in range(60):
        rows, said = simulated(random.Random(1000 + seed), "puppet")
        found = analysis_of(write(rows), judge_quality=labels(tmp_path, said)).findings
        messages = [finding.message for finding in found if finding.code == "F033"]
        named += any("jailbreak_type puppet" in message for message in messages)
        assert not any(other in message for message in messages for other in ("dan", "dev,", "bare", "emoji"))
    assert named >= 54


@pytest.mark.slow
def test_corrected_rates_of_groups_cover_the_truth(write: Write, tmp_path: Path) -> None:
    """Of the groups that have a corrected rate, at least 95 in 100 intervals hold the true rate of the group."""
    covered = total = 0
    for seed in range(80):
        fooling = "puppet" if seed % 2 else None
        rows, said = simulated(random.Random(seed), fooling, per_kind=60, n=60)
        groups = valid(analysis_of(write(rows), judge_quality=labels(tmp_path, said)))["breakdowns"]["jailbreak_type"]
        for group in groups:
            estimate = group["corrected"]["estimate"]
            if estimate is not None:
                total += 1
                covered += estimate["low"] <= (0.0 if group["value"] == fooling else 0.2) <= estimate["high"]
    assert total > 300
    assert covered / total >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / total)


def test_documents_and_pages_have_the_column(write: Write, tmp_path: Path, cli: Cli) -> None:
    rows = write(of_kinds(("dan", 40, 60), ("dev", 15, 85)))
    given = labels(tmp_path, dict.fromkeys(range(5), 1) | {40 + n: 0 for n in range(5)} | {100: 1})
    for form in ("markdown", "html"):
        path = tmp_path / f"page.{form}"
        ran = cli("results", "analyze", rows, "--judge-quality", given, "--output-format", form, "-o", str(path))
        assert ran.code == 0
        page = path.read_text(encoding="utf-8")
        assert "Corrected" in page
        assert "too few labels: 1 and 0" in page
    made = cli("results", "analyze", rows, "--judge-quality", given, "--output-format", "json").out
    groups = json.loads(made)["analyses"][0]["breakdowns"]["jailbreak_type"]
    assert {group["corrected"]["status"] for group in groups} == {"ok", "too_few_labels"}
