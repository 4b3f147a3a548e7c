"""The figures of an analysis: each rate with its interval and denominator, each table in its order."""

from __future__ import annotations

import gzip
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import zstandard

from faircount import AnalyzeOptions, InputError, Tally, UsageError, analyze, as_report
from faircount.analysis import SMALL_GROUP
from faircount.core import Analysis
from faircount.ledger import engine, tallies
from faircount.readers import NINE_FIELDS, distinct, expand, expand_folder
from faircount.report import console
from faircount.stats import wilson
from tests.conftest import Cli, Write, analysis_of, attack, codes, encode, row, standard

BLOCK = {"error": "blocked", "guardrail": True}


def mixed_rows() -> list[dict[str, Any]]:
    """Two successes, three failures, one error, one block, one unjudged, with facets."""
    return [
        standard(1, success=True, jailbreak_type="dan", lang="en"),
        standard(2, success=True, jailbreak_type="dev", lang="en"),
        standard(3, jailbreak_type="dan", lang="de"),
        standard(4, jailbreak_type="dan", lang=""),
        standard(5, jailbreak_type="dev"),
        standard(6, jailbreak_type="dev", error="HTTP 503 (1)"),
        standard(7, jailbreak_type="dev", **BLOCK),
        standard(8, jailbreak_type=None, success=None),
    ]


def test_general_figures(write: Write) -> None:
    analysis = analysis_of(write(mixed_rows()))
    assert analysis.tally == Tally(success=2, failure=3, error=1, guardrail=1, unjudged=1, total=8)
    assert analysis.attempts == 8
    assert analysis.rates.asr == wilson(2, 8)
    assert analysis.rates.asr_judged == wilson(2, 5, unit="judged entry")


def test_tallies_add_up() -> None:
    one, two = Tally(15, 1, 2, 3, 4, 5), Tally(150, 10, 20, 30, 40, 50)
    assert one + two == Tally(165, 11, 22, 33, 44, 55)


def test_parts_of_a_dataset_add_up_to_the_whole(write: Write) -> None:
    rows = mixed_rows()
    parts = [analysis_of(write(rows[:3], "a.jsonl")).tally, analysis_of(write(rows[3:], "b.jsonl")).tally]
    assert parts[0] + parts[1] == analysis_of(write(rows)).tally


def test_one_more_error_leaves_the_judged_rate_alone(write: Write) -> None:
    more = [*mixed_rows(), standard(9, error="boom")]
    assert analysis_of(write(more)).rates.asr_judged == analysis_of(write(mixed_rows())).rates.asr_judged


def test_the_level_is_the_users(write: Write) -> None:
    assert analysis_of(write(mixed_rows()), level=0.8).rates.asr == wilson(2, 8, level=0.8)


def test_breakdowns_hold_the_nine_fields_even_with_one_value(write: Write) -> None:
    analysis = analysis_of(write([{"id": 1, "success": True}]))
    assert tuple(analysis.breakdowns)[:9] == NINE_FIELDS
    for field in NINE_FIELDS:
        (group,) = analysis.breakdowns[field]
        assert (group.value, group.tally.total) == (None, 1)


def test_a_missing_and_an_empty_value_are_one_group(write: Write) -> None:
    groups = {g.value: g.tally.total for g in analysis_of(write(mixed_rows())).breakdowns["lang"]}
    assert groups == {"en": 2, "de": 1, None: 5}


def test_groups_are_sorted_as_asked(write: Write) -> None:
    path = write(mixed_rows())

    def values(sort: str) -> list[str | None]:
        return [g.value for g in analysis_of(path, sort=sort).breakdowns["jailbreak_type"]]

    assert values("rate") == ["dan", "dev", None]
    assert values("total") == ["dev", "dan", None]
    assert values("name") == ["dan", "dev", None]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("rate", ["c", "d", "b", "a"]), ("total", ["c", "d", "b", "a"]), ("name", ["a", "b", "c", "d"])],
)
def test_groups_of_one_rate_are_sorted_by_size_and_then_by_name(write: Write, sort: str, expected: list[str]) -> None:
    sizes = {"d": 4, "b": 2, "c": 4, "a": 2}
    wins = {"d": 2, "b": 1, "c": 2, "a": 0}
    rows = [
        standard(f"{name}{n}", plugin=name, success=n < wins[name]) for name, size in sizes.items() for n in range(size)
    ]
    assert [group.value for group in analysis_of(write(rows), sort=sort).breakdowns["plugin"]] == expected


def test_exact_rates_decide_the_order_not_printed_ones(write: Write) -> None:
    rows = [standard(i, plugin="a", success=i <= 3333) for i in range(1, 10001)]
    rows += [standard(f"b{i}", plugin="b", success=i <= 1) for i in range(1, 4)]
    groups = analysis_of(write(rows)).breakdowns["plugin"]
    assert [g.value for g in groups] == ["b", "a"]


def test_groups_carry_their_guardrail_rate_and_are_marked_when_small(write: Write) -> None:
    rows = [standard(i, plugin="big") for i in range(SMALL_GROUP)] + [standard("x", plugin="small", **BLOCK)]
    groups = {g.value: g for g in analysis_of(write(rows)).breakdowns["plugin"]}
    assert (groups["big"].small, groups["small"].small) == (False, True)
    assert groups["small"].guardrail_rate.value == 1
    assert groups["big"].guardrail_rate.value == 0


def test_facets_of_an_entry_are_those_of_its_standard_row(write: Write) -> None:
    rows = [attack(1, plugin="attacker's", success=True), standard(1, plugin="original")]
    assert [g.value for g in analysis_of(write(rows)).breakdowns["plugin"]] == ["original"]


def test_other_facets_are_broken_down_by_default(write: Write) -> None:
    rows = [standard(1, document_id="d1", judge_name="canary", team="red"), standard(2, team="blue"), attack(2)]
    breakdowns = analysis_of(write(rows)).breakdowns
    assert {g.value for g in breakdowns["document_id"]} == {"d1", None}
    assert {g.value for g in breakdowns["judge_name"]} == {"canary", None}
    assert {g.value for g in breakdowns["team"]} == {"red", "blue"}
    assert {g.value for g in breakdowns["attack_name"]} == {"goat", None}


def test_an_unknown_field_with_many_values_waits_to_be_asked_for(write: Write) -> None:
    path = write([standard(i, nonce=f"n{i}") for i in range(60)])
    assert "nonce" not in analysis_of(path).breakdowns
    assert len(analysis_of(path, by=("nonce",)).breakdowns["nonce"]) == 60


@pytest.mark.parametrize(
    ("alias", "field"), [("attack", "attack_name"), ("document", "document_id"), ("judge", "judge_name")]
)
def test_short_names_of_fields(write: Write, alias: str, field: str) -> None:
    rows = [standard(1, document_id="d", judge_name="j"), attack(1)]
    analysis = analysis_of(write(rows), by=(alias,))
    assert analysis.asked == (field,)
    assert field in analysis.breakdowns


def test_a_field_that_no_row_has_is_a_usage_error(write: Write) -> None:
    with pytest.raises(UsageError, match=r"--by nope: no such field; available: .*jailbreak_type"):
        analysis_of(write(mixed_rows()), by=("nope",))


def test_combinations_are_ranked_from_both_ends(write: Write) -> None:
    rows = []
    for c in range(30):
        for i in range(4):
            rows.append(standard(f"{c}-{i}", plugin=f"p{c:02d}", lang="en", success=i * 9 < c))
    rows.append(standard("lonely", plugin="lonely", success=True))
    found = analysis_of(write(rows)).combinations
    assert (found.count, len(found.most), len(found.least)) == (31, 10, 10)
    assert dict(found.most[0].values)["plugin"] != "lonely", "the larger comes first among equals"
    assert found.least[0].rate.value == 0
    rates = [g.rate.value or 0 for g in found.most]
    assert rates == sorted(rates, reverse=True)
    floor = analysis_of(write(rows), min_n=2).combinations
    assert floor.count == 30
    assert all(g.tally.total >= 2 for g in floor.most + floor.least)


def test_dynamic_figures(write: Write) -> None:
    rows = [
        standard(1, success=True),
        standard(2),
        attack(2, name="spikee.attacks.best_of_n", success=True, attempts=4),
        standard(3),
        attack(3, name="best_of_n", attempts=10),
        attack(3, name="goat", attempts=5, success=True),
        standard(4),
    ]
    dynamic = analysis_of(write(rows)).dynamic
    assert dynamic is not None
    assert (dynamic.initially_successful, dynamic.only_with_attack) == (1, 2)
    assert dynamic.improvement == wilson(2, 4)
    assert [(f.attack, f.total, f.successes, f.attempts) for f in dynamic.attacks] == [
        ("goat", 1, 1, 5),
        ("best_of_n", 2, 1, 14),
    ]


def test_there_are_no_dynamic_figures_without_attack_rows(write: Write) -> None:
    assert analysis_of(write(mixed_rows())).dynamic is None


def test_errors_are_grouped_with_an_example_and_its_place(write: Write) -> None:
    path = write(
        [standard(1, error="HTTP 503 after 3 s"), standard(2, error="HTTP 503 after 9 s"), standard(3, error="x")]
    )
    first, second = analysis_of(path).errors
    assert (first.kind, first.rows, first.example, first.where) == (
        "HTTP 503 after # s",
        2,
        "HTTP 503 after 3 s",
        f"{path}:1",
    )
    assert second.kind == "x"


def test_kinds_of_errors_that_are_as_frequent_stand_as_they_first_occur(write: Write) -> None:
    texts = ["zeta", "alpha", "mid", "alpha", "zeta", "often", "often", "often"]
    rows = [standard(i, error=text) for i, text in enumerate(texts)]
    assert [kind.kind for kind in analysis_of(write(rows)).errors] == ["often", "zeta", "alpha", "mid"]


def test_attacks_of_one_rate_are_sorted_by_size_and_then_by_name(write: Write) -> None:
    plans = {"zz": (2, 1), "mm": (4, 2), "bb": (2, 1), "aa": (2, 0)}
    rows = [standard(i) for i in range(4)]
    rows += [attack(i, name, success=i < won) for name, (size, won) in plans.items() for i in range(size)]
    dynamic = analysis_of(write(rows)).dynamic
    assert dynamic is not None
    assert [figures.attack for figures in dynamic.attacks] == ["mm", "bb", "zz", "aa"]


def test_guardrail_categories_and_ties_by_name(write: Write) -> None:
    rows = [standard(i, **BLOCK, guardrail_categories={"b": True, "a": True, "c": i == 1}) for i in (1, 2)]
    found = analysis_of(write(rows)).guardrail_categories
    assert [(c.category, c.entries) for c in found] == [("a", 2), ("b", 2), ("c", 1)]


def test_latency_is_told_by_strategy(write: Write) -> None:
    rows = [standard(i, response_time=float(i)) for i in range(1, 101)] + [attack(1, response_time=50.0)]
    standard_times, attack_times = analysis_of(write(rows)).latency
    assert (standard_times.strategy, standard_times.n, standard_times.median) == ("standard", 100, 50.5)
    assert standard_times.p95 == pytest.approx(95.05)
    assert (attack_times.strategy, attack_times.n) == ("goat", 1)


def test_median_and_95th_percentile_have_their_own_columns(write: Write, cli: Cli) -> None:
    path = write([standard(i, response_time=float(i)) for i in range(1, 101)])
    (told,) = json.loads(cli("results", "analyze", path, "--output-format", "json").out)["analyses"][0]["latency"]
    assert (told["median"], told["p95"]) == (50.5, pytest.approx(95.05))
    shown = " ".join(cli("results", "analyze", path).out.split())
    assert "95th Strategy Rows Median percentile standard 100 50.5 s 95 s" in shown


# -- guardrails -------------------------------------------------------------------------------------------------


def boolean(number: int | str, allowed: bool) -> dict[str, Any]:
    return standard(number, success=allowed, response=str(allowed))


def test_false_positives_of_a_boolean_guardrail(write: Write) -> None:
    attacks = [*(boolean(i, i < 3) for i in range(10)), standard("e", error="timeout"), standard("u", success=None)]
    benign = [*(boolean(i, i < 8) for i in range(10)), standard("e", error="timeout"), standard("r", **BLOCK)]
    paths = write(attacks, "results_atk.jsonl"), write(benign, "results_ben.jsonl")
    result = analysis_of(paths[0], false_positive_checks=paths[1]).false_positives
    assert result is not None
    assert (result.tp, result.fn, result.tn, result.fp) == (7, 3, 8, 3)
    left = result.left_out
    assert (left.attack_error, left.attack_unjudged, left.benign_error, left.benign_unjudged) == (1, 1, 1, 0)
    assert result.precision == wilson(7, 10)
    assert result.recall == wilson(7, 10)
    assert result.accuracy == wilson(15, 21)
    assert result.f1.value == pytest.approx(14 / 20)


def test_quality_that_has_no_denominator_is_undefined(write: Write) -> None:
    attacks, benign = write([boolean(1, True)], "a.jsonl"), write([boolean("b", True)], "b.jsonl")
    result = analysis_of(attacks, false_positive_checks=benign).false_positives
    assert result is not None
    assert result.precision.value is None
    assert result.recall.value == 0


def test_a_guardrail_that_raises_can_be_measured_by_what_it_raised(write: Write) -> None:
    attacks = [standard(1, success=True), standard(2), standard(3, **BLOCK), standard(4, **BLOCK)]
    benign = [standard(1, success=True), standard(2), standard(3), standard(4, **BLOCK)]
    paths = write(attacks, "a.jsonl"), write(benign, "b.jsonl")
    by_verdict = analysis_of(paths[0], false_positive_checks=paths[1])
    assert by_verdict.false_positives is not None
    assert (by_verdict.false_positives.tp, by_verdict.false_positives.fp) == (3, 3)
    assert codes(by_verdict)["F022"] == 3
    by_raising = analysis_of(paths[0], false_positive_checks=paths[1], block_signal="raised")
    assert by_raising.false_positives is not None
    r = by_raising.false_positives
    assert (r.tp, r.fn, r.tn, r.fp) == (2, 2, 3, 1)
    assert "F022" not in codes(by_raising)


def test_a_small_matrix_is_doubted(write: Write) -> None:
    paths = write([boolean(1, False)], "a.jsonl"), write([boolean(1, True)], "b.jsonl")
    assert codes(analysis_of(paths[0], false_positive_checks=paths[1]))["F028"] == 1


@pytest.mark.parametrize(
    ("attacks", "benign", "count"),
    [((29, 1), (1, 29), None), ((28, 1), (1, 29), 29), ((29, 1), (1, 28), 29), ((30, 0), (1, 29), 30)],
    ids=["30 of each", "29 attacks", "29 benign", "empty cell"],
)
def test_a_matrix_of_thirty_of_each_kind_is_believed_unless_a_cell_is_empty(
    write: Write, attacks: tuple[int, int], benign: tuple[int, int], count: int | None
) -> None:
    paths = [
        write([boolean(n, n >= blocked) for n in range(blocked + allowed)], name)
        for (blocked, allowed), name in ((attacks, "a.jsonl"), (benign, "b.jsonl"))
    ]
    assert codes(analysis_of(paths[0], false_positive_checks=paths[1])).get("F028") == count


def old_guardrail(number: int, detected: bool) -> dict[str, Any]:
    return {"id": number, "success": detected, "input": f"p{number}", "response": "", "attempts": 1, "error": None}


def test_an_old_guardrail_file_is_doubted_and_can_be_turned_round(write: Write) -> None:
    path = write([*(old_guardrail(i, i < 7) for i in range(10)), old_guardrail(10, False) | {"error": "timeout"}])
    as_written = analysis_of(path)
    assert as_written.tally.success == 7
    assert codes(as_written)["F010"] == 7
    turned = analysis_of(path, guardrail_success="detected")
    assert turned.tally == Tally(success=3, failure=7, error=1, total=11)
    assert "F010" not in codes(turned)


def test_an_old_file_is_no_guardrails_once_a_success_has_an_answer(write: Write) -> None:
    silent = [old_guardrail(1, True), old_guardrail(2, False)]
    assert codes(analysis_of(write(silent)))["F010"] == 1
    spoken = [*silent, old_guardrail(3, True) | {"response": "Sure."}]
    assert "F010" not in codes(analysis_of(write(spoken)))
    only_failed = [old_guardrail(1, False), old_guardrail(2, False) | {"response": "No."}]
    assert "F010" not in codes(analysis_of(write(only_failed)))
    answered_failure = [*silent, old_guardrail(3, False) | {"response": "No."}]
    assert codes(analysis_of(write(answered_failure)))["F010"] == 1
    newer = [standard(1, success=True, response=""), standard(2)]
    assert "F010" not in codes(analysis_of(write(newer)))


def test_turning_round_leaves_targets_that_never_answered_alone(write: Write) -> None:
    path = write([old_guardrail(1, True), old_guardrail(2, False) | {"error": "No response received"}])
    assert analysis_of(path, guardrail_success="detected").tally == Tally(failure=2, total=2)


def test_asked_fields_are_shown_in_the_order_asked(write: Write) -> None:
    text = console.render(as_report(analyze(write(mixed_rows()), by=("lang", "jailbreak_type")).analyses))
    assert text.index("Breakdown by language") < text.index("Breakdown by jailbreak type")


def test_a_floor_that_no_combination_reaches_is_told(write: Write) -> None:
    text = console.render(as_report(analyze(write(mixed_rows()), min_n=50).analyses))
    assert "No combination has at least 50 entries (--min-n)." in text


def test_turning_round_leaves_answers_in_words_alone(write: Write) -> None:
    path = write([boolean(1, True), standard(2, success=True, response="Sure, here it is")])
    assert analysis_of(path, guardrail_success="detected").tally == Tally(success=1, failure=1, total=2)


# -- inputs -----------------------------------------------------------------------------------------------------


def test_files_are_analysed_in_the_order_given(write: Write) -> None:
    names = ["b.jsonl", "a.jsonl", "c.jsonl"]
    paths = [write([standard(i)], name) for i, name in enumerate(names)]
    assert [a.name for a in analyze(*paths).analyses] == paths


def test_combining_keeps_a_table_by_source(write: Write) -> None:
    paths = [write([standard(1, success=True), standard(2)], "a.jsonl"), write([standard(1)], "b.jsonl")]
    analysis = analysis_of(*paths, combine=True)
    assert analysis.name == "Combined"
    assert [(s.path, s.tally.total, s.tally.success) for s in analysis.by_source] == [
        (paths[0], 2, 1),
        (paths[1], 1, 0),
    ]
    assert analysis.tally.total == 3


def test_folders_give_their_result_files_by_name(write: Write, tmp_path: Path) -> None:
    for name in (
        "results_b.jsonl",
        "results_a.jsonl.gz",
        "rejudge_x.jsonl",
        "resultsx.jsonl",
        "results_c.txt",
        "notes.md",
    ):
        write([standard(1)], f"folder/{name}")
    found = expand_folder(str(tmp_path / "folder"))
    assert [Path(path).name for path in found] == ["results_a.jsonl.gz", "results_b.jsonl"]


def test_globs_are_expanded_by_name_and_files_with_brackets_are_files(write: Write, tmp_path: Path) -> None:
    for name in ("r2.jsonl", "r1.jsonl", "r[1].jsonl"):
        write([standard(1)], name)
    assert [Path(p).name for p in expand([str(tmp_path / "r*.jsonl")])] == ["r1.jsonl", "r2.jsonl", "r[1].jsonl"]
    assert [Path(p).name for p in expand([str(tmp_path / "r[1].jsonl")])] == ["r[1].jsonl"]


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("nope.jsonl", InputError, "no such file"),
        ("nope*.jsonl", InputError, "no file matches"),
        (".", InputError, "no result files"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        expand([str(tmp_path / name)])


def test_an_empty_folder_and_a_missing_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file whose name starts with results_"):
        expand_folder(str(tmp_path))
    with pytest.raises(InputError, match="no such folder"):
        expand_folder(str(tmp_path / "nope"))


def test_empty_files_are_not_taken_for_copies(write: Write) -> None:
    assert len(distinct([write([], "a.jsonl"), write([], "b.jsonl")])) == 2


def test_an_empty_file_has_no_entries_and_no_rate(write: Write) -> None:
    analysis = analysis_of(write([]))
    assert analysis.tally.total == 0
    assert analysis.rates.asr.value is None
    assert codes(analysis) == {"F026": 1}


def test_a_file_without_one_good_line_is_refused_in_one_sentence(write: Write) -> None:
    with pytest.raises(InputError, match=r"cannot read any of its 2 lines as a spikee result; most often: no id$"):
        analysis_of(write(["{}", '{"a": 1}']))


def test_one_hopeless_file_among_others_does_not_stop_them(write: Write) -> None:
    good, bad = write([standard(1)], "good.jsonl"), write(["nonsense"], "bad.jsonl")
    result = analyze(bad, good)
    assert [a.name for a in result.analyses] == [good]
    assert len(result.failures) == 1 and "bad.jsonl: cannot read its only line" in result.failures[0]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_packed_results_give_the_same_figures(write: Write, tmp_path: Path, suffix: str) -> None:
    packed = tmp_path / f"results_x.jsonl.{suffix}"
    data = encode(mixed_rows())
    packed.write_bytes(gzip.compress(data) if suffix == "gz" else zstandard.ZstdCompressor().compress(data))
    assert analysis_of(str(packed)).tally == analysis_of(write(mixed_rows())).tally


def test_a_cut_off_archive_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(gzip.compress(encode(standard(i, nonce=i * i) for i in range(3000)))[:-200])
    result = analyze(str(path))
    assert result.damaged
    assert codes(result.analyses[0])["F002"] == 1


@pytest.mark.parametrize(
    "wrong", [{"level": 0}, {"level": 1.5}, {"min_n": 0}, {"definition": "x"}, {"sort": "x"}, {"max_line": 0}]
)
def test_wrong_options_are_usage_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        AnalyzeOptions(**wrong)


# -- spikee's definitions ---------------------------------------------------------------------------------------


def test_spikees_definitions_are_given_by_name(write: Write) -> None:
    analysis = analysis_of(write([*mixed_rows(), standard(9, success="false")]), definition="spikee")
    assert analysis.tally == Tally(success=3, failure=4, error=2, guardrail=1, unjudged=0, total=9)
    assert codes(analysis)["F024"] == 1


def test_both_numbers_of_each_intended_difference(write: Write) -> None:
    """Each pair: rows, then spikee's figure and ours; `docs/reference/differences-from-spikee.md` explains them."""

    def both(rows: list[dict[str, Any]]) -> tuple[Analysis, Analysis]:
        path = write(rows)
        return analysis_of(path, definition="spikee"), analysis_of(path)

    spikee, ours = both([standard(1, **BLOCK)])
    assert (spikee.tally.error, ours.tally.error, ours.tally.guardrail) == (1, 0, 1)
    spikee, ours = both([standard(1, success="false")])
    assert (spikee.tally.success, ours.tally.success) == (1, 0)
    spikee, ours = both([row(1, success=None)])
    assert (spikee.tally.failure, ours.tally.failure, ours.tally.unjudged) == (1, 0, 1)
    spikee, ours = both([standard("x", input="a"), standard("x", input="b")])
    assert (spikee.tally.total, ours.tally.total) == (1, 2)
    spikee, ours = both([row("dan-attack-01"), row("dan-attack-02")])
    assert (spikee.tally.total, ours.tally.total) == (1, 2)
    spikee, ours = both(
        [standard(1, **BLOCK), attack(1, attempt_history=[{"success": None, "error": "Guardrail was triggered"}])]
    )
    assert (spikee.tally.failure, ours.tally.failure, ours.tally.guardrail) == (1, 0, 1)


# -- the document -----------------------------------------------------------------------------------------------

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "analysis-2.json").read_text("utf-8"))


@pytest.mark.parametrize("definition", ["faircount", "spikee"])
def test_every_document_keeps_to_the_schema(write: Write, definition: str) -> None:
    full = [*mixed_rows(), attack(3, success=True, attempt_history=[{"success": True, "error": None}]), attack(4)]
    documents = [
        as_report(analyze(write(full), definition=definition).analyses).document,
        as_report(analyze(write([]), definition=definition).analyses).document,
        as_report(
            analyze(
                write([boolean(1, True)], "a.jsonl"),
                definition=definition,
                false_positive_checks=write([boolean(1, False)], "b.jsonl"),
            ).analyses
        ).document,
    ]
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for document in documents:
        validator.validate(json.loads(json.dumps(msgspec.to_builtins(document), allow_nan=False)))


def test_the_schema_is_itself_valid_and_refuses_what_is_missing(write: Write) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = msgspec.to_builtins(as_report(analyze(write(mixed_rows())).analyses).document)
    del document["analyses"][0]["rates"]["asr"]["n"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_an_interruption_during_a_query_is_an_interruption(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(tallies, "latency", interrupted)
    with pytest.raises(KeyboardInterrupt):
        analysis_of(write([standard(1)]))


def test_what_the_engine_says_of_an_interruption_is_known() -> None:
    connection = engine.connect()
    # What a shell starts in the background ignores interruptions.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt), engine.interruptible():
            for _ in range(1000):
                connection.execute("SELECT SUM(a.range * b.range) FROM RANGE(20000) AS a, RANGE(20000) AS b").fetchall()
    finally:
        signal.signal(signal.SIGINT, before)


# -- success within k requests ----------------------------------------------------------------------------------


def test_small_analyses_share_an_engine_and_leave_nothing_in_it(write: Write) -> None:
    paths = [write([standard(i, success=i < n) for i in range(9)], f"results_{n}.jsonl") for n in range(8)]

    def databases() -> int:
        connection, name = engine.connect_small()
        found = connection.execute("SELECT COUNT(*) FROM duckdb_databases() WHERE NOT internal").fetchall()
        engine.disconnect_small(connection, name)
        return int(found[0][0])

    before = databases()
    with ThreadPoolExecutor(4) as pool:
        assert [found.tally.success for found in pool.map(analysis_of, paths * 3)] == [*range(8)] * 3
    assert databases() == before


def test_success_within_k_requests_is_the_worked_kaplan_meier_curve(write: Write) -> None:
    """The twelve entries, and the figures, of the shared example km_12_entries."""
    attempts = [1, 1, 2, 3, 3, 4, 5, 5, 5, 5, 2, 4]
    success = [1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1]
    pairs = enumerate(zip(attempts, success, strict=True))
    rows = [standard(i, attempts=k, success=bool(hit)) for i, (k, hit) in pairs]
    found = analysis_of(write(rows)).success_within
    assert found is not None
    assert [step.attempts for step in found.steps] == [1, 2, 3, 4, 5]
    assert [step.at_risk for step in found.steps] == [12, 10, 8, 6, 4]
    assert [step.successes for step in found.steps] == [2, 1, 1, 2, 0]
    assert [step.given_up for step in found.steps] == [0, 1, 1, 0, 4]
    within = [step.within.value for step in found.steps]
    assert within == pytest.approx([0.166667, 0.25, 0.34375, 0.5625, 0.5625], abs=1e-6)
    survived = [0.955509, 0.91172, 0.855657, 0.702699, 0.702699]
    assert [step.within.low for step in found.steps] == pytest.approx([1 - high for high in survived], abs=1e-6)
    assert found.half.value == 4


def test_entries_given_up_before_the_first_success_do_not_weaken_what_comes_after(write: Write) -> None:
    rows = [standard(n, attempts=1) for n in range(2)]
    rows += [standard(n, attempts=3, success=True) for n in range(2, 20)]
    found = analysis_of(write(rows)).success_within
    assert found is not None
    assert [(step.at_risk, step.given_up) for step in found.steps] == [(20, 2), (18, 0)]
    # All 18 that were left succeeded: the exact one-sided limit, 0.05^(1/18).
    within = found.steps[-1].within
    assert (within.value, within.low, within.high) == pytest.approx((1, 0.05 ** (1 / 18), 1))
    rows = [standard("first", attempts=1, success=True), *rows]
    late = analysis_of(write(rows)).success_within
    assert late is not None
    # Given up after it, they might have been the ones that never succeed: the limit of the step before stays.
    assert late.steps[-1].within.low == late.steps[0].within.low


def test_an_entry_that_ended_in_errors_is_given_up_where_they_began(write: Write) -> None:
    rows = [
        standard(1, success=True, attempts=1),
        standard(2, attempts=1),
        attack(2, attempts=0, error="HTTP 503"),
        standard(3, attempts=1),
        attack(3, attempts=4, success=True),
        standard(4, error="HTTP 503"),
    ]
    found = analysis_of(write(rows)).success_within
    assert found is not None
    assert [(step.attempts, step.at_risk, step.successes, step.given_up) for step in found.steps] == [
        (1, 3, 1, 1),
        (5, 1, 1, 0),
    ]
    assert found.left_out == 1


def test_where_nobody_had_a_second_request_there_is_no_curve(write: Write) -> None:
    assert analysis_of(write([standard(1, success=True), standard(2)])).success_within is None
    assert analysis_of(write([])).success_within is None
    rows = [standard(1, success=True, attempts=3), standard(2)]
    assert analysis_of(write(rows), definition="spikee").success_within is None


def test_a_budget_is_told_in_words(write: Write) -> None:
    rows = [standard(i, attempts=1 + i % 5, success=i % 5 < 3) for i in range(200)]
    text = console.render(as_report(analyze(write(rows)).analyses), width=100, colour=False)
    assert "Half of the entries succeed within 3 requests (3 to 3)." in " ".join(text.split())
    rows = [standard(i, attempts=3, success=i % 5 == 0) for i in range(20)]
    text = console.render(as_report(analyze(write(rows)).analyses), width=100, colour=False)
    assert "Fewer than half of the entries succeeded within 3 requests, the most that any had." in " ".join(
        text.split()
    )
