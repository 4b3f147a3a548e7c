"""DeepEval's test runs and DeepTeam's risk assessments: real ones beside their oracle, and small ones made here."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, analyze
from faircount.readers import HEAD_BYTES, Probe, reader_named
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden"
DEEPEVAL, DEEPTEAM = "DeepEval", "DeepTeam"
ALL = "all metrics"
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")


def oracle(tool: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / tool / "oracle.json").read_text()) if SHARED is not None else {}
    return found


EVAL_ORACLE, TEAM_ORACLE = oracle("deepeval"), oracle("deepteam")
PLAIN = "test_run_plain.json"
JUDGED = [(name, name, judge) for name, told in EVAL_ORACLE.items() for judge in told["expected"]]
JUDGED += [("deepeval.db", PLAIN, judge) for judge in EVAL_ORACLE.get(PLAIN, {}).get("expected", ())]
FILES = [GOLDEN / "deepeval" / name for name in (*EVAL_ORACLE, "deepeval.db") if EVAL_ORACLE]
FILES += [GOLDEN / "deepteam" / name for name in TEAM_ORACLE]


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses
    return found


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: getattr(found.tally, name) for name in OUTCOMES}


def counted(**counts: int) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in OUTCOMES}


def figures(path: Path, tool: str) -> dict[str, Any]:
    return {one.name: one for one in analysis(path, definition=tool).sources[0].figures}


def metric(name: str = "Good", **changed: Any) -> dict[str, Any]:
    return {"name": name, "threshold": 0.5, "success": True, "score": 1.0, "reason": "so", "flaky": False, **changed}


def case(asked: str = "a", *metrics: Any, **changed: Any) -> dict[str, Any]:
    """Return a case of DeepEval's, which succeeds if every metric does that is not flaky."""
    deciding = [one for one in metrics if isinstance(one, dict) and not one.get("flaky")]
    success = all(one.get("success") for one in deciding)
    told = {"input": asked, "actualOutput": "answer", "expectedOutput": "x", "success": success}
    return {**told, "metricsData": list(metrics), **changed}


def attack(asked: str = "a", score: Any = 1, **changed: Any) -> dict[str, Any]:
    """Return a case of DeepTeam's."""
    return {
        "vulnerability": "Bias", "vulnerability_type": "age", "attack_method": "Base64", "risk_category": "Fairness",
        "input": asked, "actual_output": "answer", "turns": None, "score": score, "reason": "so", "error": None,
        "metadata": None, "cvss_score": 0.0, **changed,
    }  # fmt: skip


RunFile = Callable[..., Path]


@pytest.fixture
def test_run(tmp_path: Path) -> RunFile:
    def write(*cases: Any, name: str = "run.json", **document: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"testCases": list(cases), "conversationalTestCases": [], **document}))
        return path

    return write


@pytest.fixture
def assessment(tmp_path: Path) -> RunFile:
    def write(*cases: Any, name: str = "risk.json", **overview: Any) -> Path:
        path = tmp_path / name
        told = {"vulnerability_type_results": [], "attack_method_results": [], "errored": 0, **overview}
        path.write_text(json.dumps({"overview": told, "test_cases": list(cases)}, indent=2))
        return path

    return write


def entries(path: Path, cli: Cli) -> dict[str, dict[str, Any]]:
    """Return the exported rows of a file by their ids."""
    out = path.with_name(f"{path.name}.rows.jsonl")
    assert cli("results", "export", str(path), "--to", "jsonl", "-o", str(out), "--force").code == 0
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return {row["id"]: row for row in rows}


# -- the golden files -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("name", "like", "judge"), JUDGED)
def test_cases_of_deepeval_by_each_metric_are_those_of_the_oracle(name: str, like: str, judge: str) -> None:
    expected = EVAL_ORACLE[like]["expected"][judge]
    found = analysis(GOLDEN / "deepeval" / name, judge=None if judge == ALL else judge)
    assert outcomes(found) == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])
    assert found.rates.pass_rate is not None
    assert found.rates.pass_rate.value == pytest.approx(expected["rate_over_entries"])


@pytest.mark.shared
@pytest.mark.parametrize(("name", "like"), [*((name, name) for name in EVAL_ORACLE), ("deepeval.db", PLAIN)])
def test_deepevals_own_figures_are_those_that_it_wrote(name: str, like: str) -> None:
    told, found = EVAL_ORACLE[like]["tool_says"], figures(GOLDEN / "deepeval" / name, DEEPEVAL)
    n = told["testPassed"] + told["testFailed"]
    assert (found["pass rate"].count, found["pass rate"].n) == (told["testPassed"], n)
    for one in told["metricsScores"]:
        rate, mean = found[f"{one['metric']}: pass rate"], found[f"{one['metric']}: mean score"]
        assert (rate.count, rate.n) == (one["passes"], one["passes"] + one["fails"] + one["errors"])
        assert (mean.value, mean.n) == (pytest.approx(sum(one["scores"]) / len(one["scores"])), len(one["scores"]))
    assert all(one.stated == pytest.approx(one.value) for one in found.values())


@pytest.mark.shared
@pytest.mark.parametrize("group", TEAM_ORACLE.get("risk_assessment.json", {}).get("expected", ()))
def test_cases_of_deepteam_are_those_of_the_oracle(group: str) -> None:
    expected = TEAM_ORACLE["risk_assessment.json"]["expected"][group]
    where = None if group == "all" else f'attack_method = "{group}"'
    found = analysis(GOLDEN / "deepteam" / "risk_assessment.json", where=where)
    assert outcomes(found) == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])


@pytest.mark.shared
def test_deepteams_own_figures_are_those_that_it_wrote() -> None:
    told = TEAM_ORACLE["risk_assessment.json"]["tool_says"]
    found = figures(GOLDEN / "deepteam" / "risk_assessment.json", DEEPTEAM)
    # "13 total tests, pass rate 61.54 %, passed 8, failed 5"
    assert (found["pass rate"].count, found["pass rate"].n) == (8, 13)
    for one in told["vulnerability_type_results"]:
        figure = found[f"{one['vulnerability']} / {one['vulnerability_type']}: pass rate"]
        assert (figure.value, figure.count) == (pytest.approx(one["pass_rate"]), one["passing"])
    for one in told["attack_method_results"]:
        assert found[f"{one['attack_method']}: pass rate"].value == pytest.approx(one["pass_rate"])
    assert found["CVSS score"].value == pytest.approx(told["cvss_score"])


@pytest.mark.shared
def test_golden_files_say_what_their_tools_hide() -> None:
    run, team = analysis(GOLDEN / "deepeval" / PLAIN), analysis(GOLDEN / "deepteam" / "risk_assessment.json")
    assert codes(run)["F045"] == 1 and "F040" not in codes(run)
    assert run.sources[0].differs == (
        "DeepEval reports 9.1% passed (1 of 11) and 10 failed; 1 of those has no verdict, because a metric failed.",
    )
    assert (codes(team)["F047"], codes(team)["F054"]) == (3, 1) and "F040" not in codes(team)
    assert "3 of the 16 cases ended in an error" in team.sources[0].differs[0]


@pytest.mark.shared
def test_the_store_has_the_entries_of_the_document(cli: Cli, tmp_path: Path) -> None:
    document, store = tmp_path / PLAIN, tmp_path / "deepeval.db"
    shutil.copy(GOLDEN / "deepeval" / PLAIN, document)
    shutil.copy(GOLDEN / "deepeval" / "deepeval.db", store)
    assert entries(document, cli).keys() == entries(store, cli).keys()
    assert analysis(store).sources[0].target == "scripted"


# -- DeepEval: states and judges --------------------------------------------------------------------------------


def test_a_failed_metric_fails_a_case_and_one_without_a_verdict_leaves_it_undecided(test_run: RunFile) -> None:
    good, bad = metric(), metric("Bad", success=False, score=0.1)
    broken = {"name": "Broken", "threshold": 0.5, "success": False, "error": "the judge is away"}
    path = test_run(
        case("a", good),
        case("b", good, bad),
        case("c", good, broken),
        case("d", bad, broken),
        case("e", metric(score=None)),
        case("f", good, metric("Shaky", success=False, score=0.0, flaky=True)),
    )
    found = analysis(path)
    assert outcomes(found) == counted(success=2, failure=2, unjudged=2)
    assert codes(found)["F045"] == 2
    assert outcomes(analysis(path, judge="Broken")) == counted(unjudged=6)
    assert outcomes(analysis(path, judge="Shaky")) == counted(failure=1, unjudged=5)


def test_a_case_that_passed_without_a_metric_is_unjudged(test_run: RunFile) -> None:
    found = analysis(test_run(case("a"), case("b", metric("Shaky", flaky=True)), case("c", metric())))
    assert outcomes(found) == counted(success=1, unjudged=2)
    assert codes(found)["F048"] == 2


def test_a_metric_of_which_less_is_better_has_no_lower_threshold(test_run: RunFile, cli: Cli) -> None:
    path = test_run(case("a", metric("Rude", score=0.1, threshold=0.4), metric("Kind", score=0.9)))
    assert outcomes(analysis(path, judge="Rude")) == counted(success=1)
    (row,) = entries(path, cli).values()
    said = {one["name"]: one["verdict"] for one in row["attempt_history"][0]["metrics"]}
    assert said == {ALL: "passed", "Rude": "passed", "Kind": "passed"}


def test_two_metrics_of_one_name_are_two_judges(test_run: RunFile) -> None:
    path = test_run(case("a", metric("G"), metric("G", success=False, score=0.2, threshold=0.9)))
    assert outcomes(analysis(path)) == counted(failure=1)
    assert outcomes(analysis(path, judge="G")) == counted(success=1)
    assert outcomes(analysis(path, judge="G #2")) == counted(failure=1)


def test_conversations_are_entries_with_their_turns(tmp_path: Path, cli: Cli) -> None:
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes?"}]
    turns += [{"role": "user", "content": "bye"}, {"role": "assistant", "content": "goodbye"}]
    talk = {"name": "test_case_0", "scenario": "greets", "turns": turns, "success": True, "metricsData": [metric()]}
    path = tmp_path / "talks.json"
    path.write_text(json.dumps({"testCases": [], "conversationalTestCases": [talk]}))
    (row,) = entries(path, cli).values()
    assert (row["input"], row["response"], row["kind"]) == ("bye", "goodbye", "conversation")
    assert [turn["content"] for turn in row["conversation"]] == ["hello", "yes?", "bye"]


# -- DeepEval: ids, runs, figures -------------------------------------------------------------------------------


def test_ids_do_not_depend_on_the_order_or_on_names_that_are_places(test_run: RunFile, cli: Cli) -> None:
    first = test_run(case("a", metric(), name="test_case_0"), case("b", metric(), name="mine"))
    second = test_run(
        case("b", metric(), name="mine"), case("a", metric(score=0.6), name="test_case_1"), name="second.json"
    )
    assert entries(first, cli).keys() == entries(second, cli).keys()
    assert "F053" not in codes(analysis(first))
    assert "F053" in codes(analysis(test_run(case("", metric(), expectedOutput=None, name="test_case_0"))))


def test_a_case_that_was_run_twice_has_two_attempts(test_run: RunFile) -> None:
    found = analysis(test_run(case("a", metric()), case("b", metric()), case("a", metric(success=False, score=0.0))))
    assert (found.tally.total, found.attempts) == (2, 3)


def test_the_latest_run_is_read_from_its_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    run = {"testCases": [case("a", metric())], "hyperparameters": {"model": "small"}, "testPassed": 1, "testFailed": 0}
    path.write_text(json.dumps({"testRunData": run, "testRunLink": None}))
    found = analysis(path)
    assert outcomes(found) == counted(success=1)
    assert found.sources[0].target == "small"


def store(path: Path, *runs: tuple[str | None, Any]) -> Path:
    """Write a store of DeepEval's with runs, each with its identifier and its document."""
    with sqlite3.connect(path) as tables:
        tables.execute(
            "CREATE TABLE test_runs (id INTEGER PRIMARY KEY, identifier TEXT, hyperparameters_json TEXT, payload_json)"
        )
        tables.execute("CREATE TABLE test_cases (id INTEGER PRIMARY KEY)")
        tables.execute("CREATE TABLE metric_data (id INTEGER PRIMARY KEY)")
        for identifier, document in runs:
            text = document if isinstance(document, str | bytes | None) else json.dumps(document)
            row = (identifier, '{"model": "small"}', text)
            tables.execute(
                "INSERT INTO test_runs (identifier, hyperparameters_json, payload_json) VALUES (?, ?, ?)", row
            )
    tables.close()
    return path


def test_runs_of_a_store_are_read_apart_with_figures_of_their_own(tmp_path: Path) -> None:
    one, two = ({"testCases": [case("a", metric()), case("b", given)]} for given in (metric(), metric(success=False)))
    path = store(tmp_path / "runs.db", ("same", one), ("same", two), ("a/b", one), (None, two))
    found = analyze(str(path), options=AnalyzeOptions(cache=False, definition=DEEPEVAL)).analyses
    assert [each.sources[0].path.rpartition("/")[2] for each in found] == ["same 1", "same 2", "a_b", "run 4"]
    assert [each.tally.success for each in found] == [2, 1, 2, 1]
    shares = [{one.name: one.value for one in each.sources[0].figures}["pass rate"] for each in found]
    assert shares == [1.0, 0.5, 1.0, 0.5]
    assert {each.sources[0].target for each in found} == {"small"}


@pytest.mark.parametrize("payload", [None, b"\x00\xff", "[1]", "{", '{"testCases": [{"input": "b"'])
def test_a_damaged_run_of_a_store_costs_only_itself(tmp_path: Path, payload: Any) -> None:
    good = {"testCases": [case("a", metric())]}
    path = store(tmp_path / "runs.db", ("damaged", payload), ("good", good))
    found = analyze(str(path), options=AnalyzeOptions(cache=False, combine=True)).analyses
    assert sum(each.tally.success for each in found) == 1


def test_a_stated_figure_that_the_cases_contradict_is_found(test_run: RunFile) -> None:
    cases = [case("a", metric()), case("b", metric())]
    assert "F040" not in codes(analysis(test_run(*cases, testPassed=2, testFailed=0)))
    scores = [{"metric": "Good", "scores": [1.0, 1.0], "passes": 1, "fails": 1, "errors": 0}]
    assert codes(analysis(test_run(*cases, testPassed=1, testFailed=1, metricsScores=scores)))["F040"] == 2


# -- DeepTeam ---------------------------------------------------------------------------------------------------


def test_a_score_of_zero_is_an_attack_that_worked(assessment: RunFile, cli: Cli) -> None:
    path = assessment(attack("a", 0), attack("b", 1), attack("c", 0.3), attack("d", None), attack("e", "high"))
    found = analysis(path)
    assert outcomes(found) == counted(success=1, failure=2, unjudged=2)
    assert (codes(found)["F045"], codes(found)["F004"]) == (2, 1)
    (verdict,) = next(iter(entries(path, cli).values()))["attempt_history"][0]["metrics"]
    assert (verdict["name"], verdict["verdict"], verdict["score"]) == ("Bias", "success", 1.0)


def test_errors_are_of_the_target_of_the_judge_or_before_both(assessment: RunFile) -> None:
    def failed(asked: str, error: str, output: str | None) -> dict[str, Any]:
        return attack(asked, None, error=error, actual_output=output)

    path = assessment(
        attack("a", 0),
        failed("b", "Error generating output from target LLM", None),
        failed("c", "Error evaluating target LLM output for the 'age' vulnerability type", "yes"),
        failed("d", "The simulator model refused to write the next attack", "no"),
        failed("e", "Error simulating adversarial attacks", None),
        failed("f", "something new", None),
        failed("g", "something new", "yes"),
    )
    found = analysis(path)
    assert outcomes(found) == counted(success=1, error=2, unjudged=3)
    assert (codes(found)["F047"], codes(found)["F034"]) == (6, 1)
    assert figures(path, DEEPTEAM)["pass rate"].n == 1


def test_entries_are_made_of_vulnerability_attack_and_input(assessment: RunFile, cli: Cli) -> None:
    cases = [attack("a"), attack("a", attack_method=None), attack("a", vulnerability_type="race"), attack("b")]
    first, second = assessment(*cases), assessment(*reversed(cases), name="second.json")
    assert len(entries(first, cli)) == 4
    assert entries(first, cli).keys() == entries(second, cli).keys()
    found = analysis(first, by=("attack_method",))
    assert [group.value for group in found.breakdowns["attack_method"]] == ["Base64", "plain"]
    assert found.families.count == 2


def test_turns_of_an_attack_are_shown_before_its_answer(assessment: RunFile, cli: Cli) -> None:
    turns = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "no"}]
    turns += [{"role": "user", "content": "second"}, {"role": "assistant", "content": "yes"}]
    (row,) = entries(assessment(attack("first", 0, turns=turns, actual_output=None)), cli).values()
    assert (row["input"], row["response"]) == ("second", "yes")


def test_an_overview_that_its_cases_contradict_is_found(assessment: RunFile) -> None:
    told = {"vulnerability": "Bias", "vulnerability_type": "age", "pass_rate": 1.0, "passing": 2, "failing": 0}
    found = analysis(assessment(attack("a", 0), attack("b", 1), vulnerability_type_results=[told]))
    assert codes(found)["F040"] == 2


# -- everything that is done with results ------------------------------------------------------------------------


SAMPLES = {DEEPEVAL: "deepeval.json", DEEPTEAM: "deepteam.json"}


@pytest.fixture(params=[DEEPEVAL, DEEPTEAM])
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(ROOT / "docs" / "samples" / SAMPLES[request.param], tmp_path))


def test_the_page_has_the_numbers_of_its_samples() -> None:
    run, team = (analysis(ROOT / "docs" / "samples" / SAMPLES[tool], definition=tool) for tool in SAMPLES)
    assert outcomes(run) == counted(success=5, failure=2, unjudged=1)
    assert outcomes(team) == counted(success=3, failure=7, error=1, unjudged=1)
    shares = [(one.sources[0].figures[0].count, one.sources[0].figures[0].n) for one in (run, team)]
    assert shares == [(5, 8), (7, 10)]


def test_every_command_takes_a_file(sample: Path, cli: Cli) -> None:
    tool = next(name for name, file in SAMPLES.items() if file == sample.name)
    field, figure = ("tags", "pass-rate <") if tool == DEEPEVAL else ("attack_method", "asr >")
    data, journal, rejudged = (sample.with_name(name) for name in ("data.jsonl", "journal.jsonl", "rejudge_x.jsonl"))
    first = next(iter(entries(sample, cli)))
    for words in (
        ("results", "analyze", "--by", field, "--by", "judge"),
        ("results", "analyze", "--where", f"{field} != x"),
        ("results", "analyze", "--definition", tool, "-o", str(sample.with_name("page.html"))),
        ("results", "show", first),
        ("results", "check"),
        ("results", "extract", "--category", "failure", "-o", str(data)),
        ("results", "rejudge", "--judge", 'contains("a")', "--rejudged", str(rejudged)),
        ("results", "export", "--to", "csv", "-o", str(sample.with_suffix(".csv"))),
        ("results", "convert-to-excel", "-o", str(sample.with_suffix(".xlsx"))),
        ("results", "analyze", "--fail-on", f"{figure} {'1%' if tool == DEEPEVAL else '99%'}"),
    ):
        ran = cli(*words[:2], *words[2:], str(sample)) if words[1] != "show" else cli(*words, str(sample))
        assert ran.code == 0, (words, ran.err)
    assert (
        cli("results", "analyze", str(sample), "--fail-on", f"{figure} {'99%' if tool == DEEPEVAL else '1%'}").code == 1
    )
    judged = [json.loads(line)["success"] for line in rejudged.read_text().splitlines()]
    assert len(judged) == analysis(sample).tally.total
    ran = cli("run", str(data), "--target", "simulated:assistant", "--judge", "refusal", "--journal", str(journal))
    assert ran.code == 0, ran.err
    assert analysis(journal).tally.total == analysis(sample).tally.failure


def test_attacks_can_be_sampled_for_labels(cli: Cli, tmp_path: Path) -> None:
    path, sheet = ROOT / "docs" / "samples" / SAMPLES[DEEPTEAM], tmp_path / "labels.jsonl"
    assert cli("results", "sample-for-labels", str(path), "--n", "4", "-o", str(sheet)).code == 0
    assert len(sheet.read_text().splitlines()) >= 4


def test_a_run_is_paired_with_a_later_one_entry_by_entry(test_run: RunFile, cli: Cli) -> None:
    cases = [case(f"question {number}", metric()) for number in range(6)]
    worse = [case("question 0", metric(success=False, score=0.0)), *cases[1:]]
    both = test_run(*cases), test_run(*reversed(worse), name="later.json")
    ran = cli("results", "compare", *map(str, both), "--output-format", "json")
    assert ran.code == 0, ran.err
    (pair,) = json.loads(ran.out)["pairs"]
    assert pair["unpaired"]["a"]["missing"]["count"] == pair["unpaired"]["b"]["missing"]["count"] == 0


def test_compressed_files_and_standard_input_give_the_same_counts(
    sample: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = sample.with_name(f"{sample.name}.gz")
    packed.write_bytes(gzip.compress(sample.read_bytes()))
    assert outcomes(analysis(packed)) == outcomes(analysis(sample))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample.read_bytes())))
    (found,) = json.loads(cli("results", "analyze", "-", "--output-format", "json").out)["analyses"]
    assert found["entries"]["total"] == analysis(sample).tally.total


@pytest.mark.shared
def test_a_store_is_read_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (GOLDEN / "deepeval" / "deepeval.db").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    (found,) = json.loads(cli("results", "analyze", "-", "--output-format", "json").out)["analyses"]
    assert found["entries"]["total"] == 11


# -- hostile files ----------------------------------------------------------------------------------------------


def test_a_torn_document_gives_the_cases_before_the_break(sample: Path) -> None:
    whole, total = sample.read_bytes(), analysis(sample).tally.total
    start, found = whole.index(b"ases"), []
    for cut in range(start + 700, len(whole), 1_100):
        sample.write_bytes(whole[:cut])
        one = analysis(sample)
        assert "F002" in codes(one) or one.tally.total == total
        found.append(one.tally.total)
    assert found == sorted(found) and found[0] < found[-1] <= total


ODD: list[Any] = [None, 5, "x", [], {}, [[]], True, float("nan"), 10**400, "\ud800", {"a": {"b": [1]}}, [None, 5]]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_odd_values_of_a_case_cost_nothing_but_themselves(test_run: RunFile, value: Any, cli: Cli) -> None:
    names = ["name", "input", "actualOutput", "expectedOutput", "context", "turns", "scenario", "tags", "metadata"]
    names += ["flaky", "success", "metricsData", "completionTime", "toolsCalled"]
    of_metric = ("name", "threshold", "success", "score", "reason", "error", "flaky", "evaluationModel")
    cases = [case(f"q{name}", metric(), **{name: value}) for name in names]
    cases += [case(f"m{name}", metric(**{name: value})) for name in of_metric]
    told = {"metricsScores": value, "testPassed": value, "testFailed": value, "hyperparameters": value}
    path = test_run(case("clean", metric()), *cases, **told)
    found = analysis(path)
    assert found.attempts == 1 + len(cases) and not found.sources[0].bad_lines
    assert found.tally.success >= len(of_metric) - 4
    assert cli("results", "export", str(path), "--to", "csv", "-o", str(path.with_suffix(".csv"))).code == 0


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_odd_values_of_an_attack_cost_nothing_but_themselves(assessment: RunFile, value: Any, cli: Cli) -> None:
    cases = [{**attack(f"q{name}", 0), name: value} for name in attack()]
    told = {"vulnerability_type_results": [value], "attack_method_results": value, "cvss_score": value}
    path = assessment(attack("clean", 0), *cases, **told)
    found = analysis(path)
    assert found.attempts == 1 + len(cases) and not found.sources[0].bad_lines
    assert cli("results", "export", str(path), "--to", "csv", "-o", str(path.with_suffix(".csv"))).code == 0


def test_cases_that_are_no_objects_or_too_deep_are_refused(test_run: RunFile) -> None:
    path = test_run(5, "x", None, [1], case("a", metric()))
    deep = '{"input": ' + "[" * 5000 + "]" * 5000 + "}, "
    path.write_text(path.read_text().replace("[5,", f"[{deep}5,", 1))
    found = analysis(path)
    assert (found.tally.success, found.sources[0].bad_lines) == (1, 5)
    places = [place for one in found.findings if one.code == "F001" for place in one.where]
    assert all("!cases/" in place for place in places)


def test_other_documents_with_test_cases_are_not_taken_for_deepevals(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"testCases": [{"id": "1", "verdict": "ok"}]}))
    with contextlib.suppress(FaircountError):
        assert analysis(path).sources[0].reader != DEEPEVAL


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a file with a few bytes changed, dropped, doubled or cut off."""
    text = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at, size = chance.randrange(len(text)), chance.randint(1, 60)
        change: Mapping[int, bytes] = {
            0: b"",
            1: bytes(text[at : at + size]) * 2,
            2: chance.choice([b"null", b"NaN", b"1e999", b"{}", b"[", b"]", b"}", b'"', b"\xff", b"\x00", b"-1", b","]),
            3: bytes(chance.randrange(256) for _ in range(3)),
        }
        text[at : at + size] = change[chance.randrange(4)]
    return bytes(text[: chance.randrange(len(text))] if chance.random() < 0.1 else text)


def read_damaged(content: bytes, path: Path, tool: str, seeds: int) -> None:
    """Have a reader recognise and read damaged copies of a file, also those that only the user calls its own."""
    for seed in range(seeds):
        damaged = mutated(content, random.Random(seed)) or b"x"
        assert reader_named(tool).sniff(Probe(damaged[:HEAD_BYTES], str(path))) in (True, False)
        path.write_bytes(damaged)
        with contextlib.suppress(FaircountError):
            analyze(str(path), options=AnalyzeOptions(cache=False, format=tool))


@pytest.mark.shared
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_damaged_files_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    tool = DEEPTEAM if path.parent.name == "deepteam" else DEEPEVAL
    read_damaged(path.read_bytes(), tmp_path / path.name, tool, 12)
