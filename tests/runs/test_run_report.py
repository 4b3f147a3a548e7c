"""The report of a run: REBEL's structure and rules, every attempt and metric in its place, as its schema says."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from faircount.core import Decision, Verdict
from faircount.readers import AttemptRecord, EndRecord, OutputRecord, RetryRecord, RunRecord, aggregated
from faircount.runs import Answer, Journal, Layout, Request, TargetError, is_report_of, read_journal, report_pieces
from faircount.testing import EvaluationResult, TestCase, TestCaseEvaluated, TestInfo
from tests.conftest import Cli, some
from tests.oracles import oracle
from tests.runs.running import METRICS, Doing, Run, Says, Scripted, case, report_of, write_tests

proportion_confint = oracle("statsmodels.stats.proportion").proportion_confint


def schema(name: str) -> Any:
    return json.loads(resources.files("faircount.report").joinpath("schemas", f"{name}-1.json").read_text("utf-8"))


SCHEMA = schema("test-results")
REBEL_KEYS = {
    "name",
    "tags",
    "retry_params",
    "input",
    "expected_output",
    "metrics",
    "actual_outputs",
    "evaluation_results",
    "aggregated_result",
}


def report(run: Run, layout: Layout = "per-case") -> dict[str, Any]:
    """Return the report of a journal; it must be strict JSON, and as the schema says."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    text = b"".join(report_pieces(read_journal(run.path), "20260102_030405", layout))
    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    jsonschema.validate(document, SCHEMA)
    return document


async def mixed(request: Request) -> Answer:
    """Say yes, then no, then fail."""
    if request.attempt == 2:
        raise TargetError("status", "the server answered with status 500", tries=5)
    return Answer(
        output="yes" if request.attempt == 0 else "no",
        model="m-1",
        prompt_tokens=10,
        completion_tokens=2,
        cost=0.5,
        latency=0.1,
        tries=2,
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two cases of two metrics and three attempts each, of which the last fails."""
    cases = [
        case("b", [Says(word="yes"), Says(word="no")], 3, tags=("x", "y"), api_params={"seed": 1}),
        case("a", [Says(word="o"), Doing(name="broken", do=lambda _: 1 / 0)], 3, aggregation="max"),
    ]
    run = Run(tmp_path, cases, Scripted(mixed), concurrency=4)
    assert run.go().complete
    return run


# -- structure --------------------------------------------------------------------------------------------------


def test_the_schemas_are_schemas() -> None:
    for name in ("test-results", "plan"):
        jsonschema.Draft202012Validator.check_schema(schema(name))


def test_a_report_has_every_case_once_in_the_order_of_the_tests(run: Run) -> None:
    document = report(run)
    assert document["metadata"]["timestamp"] == "20260102_030405"
    assert document["metadata"]["total_test_cases"] == 2
    assert [entry["name"] for entry in document["test_cases"]] == ["b", "a"]
    entry = document["test_cases"][0]
    assert entry["tags"] == ["x", "y"]
    assert entry["retry_params"] == {"count": 3, "aggregation_strategy": "mean"}
    assert entry["input"]["api_params"] == {"seed": 1}
    assert entry["input"]["messages"] == [
        {"role": "user", "content": "say b", "tool_calls": None, "tool_call_id": None}
    ]
    assert [metric["name"] for metric in entry["metrics"]] == ["says yes", "says no"]
    assert entry["metrics"][0]["parameters"] == {"word": "yes"}


def test_there_is_an_output_for_every_attempt_and_failed_ones_are_marked(run: Run) -> None:
    for entry in some(report(run)["test_cases"]):
        outputs = entry["actual_outputs"]
        assert [output["attempt"] for output in outputs] == [0, 1, 2]
        assert len(outputs) == entry["retry_params"]["count"]
        assert [output["output"] for output in outputs] == ["yes", "no", ""]
        assert [output["error"] is None for output in outputs] == [True, True, False]
        assert outputs[2]["error"] == {"kind": "status", "message": "the server answered with status 500"}
        assert outputs[2]["execution_time"] is None
        assert outputs[0]["usage"] == {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.5}


def test_results_stand_attempt_by_attempt_with_metrics_in_their_order(run: Run) -> None:
    results = report(run)["test_cases"][0]["evaluation_results"]
    assert [(one["attempt"], one["metric"], one["verdict"], one["score"]) for one in results] == [
        (0, "says yes", "passed", 1.0),
        (0, "says no", "failed", 0.0),
        (1, "says yes", "failed", 0.0),
        (1, "says no", "passed", 1.0),
        (2, "says yes", "error", None),
        (2, "says no", "error", None),
    ]
    assert results[4]["reason"] == "the request failed: the server answered with status 500"


def test_aggregates_are_over_all_results_and_for_each_metric(run: Run) -> None:
    first, second = report(run)["test_cases"]
    assert first["aggregated_result"]["score"] == 0.5
    assert first["aggregated_result"]["verdict"] == "failed", "a tie fails, as in REBEL"
    assert first["aggregated_result"]["reason"].startswith("2 passed, 2 failed, 2 without a verdict; mean ")
    assert second["aggregated_result"]["verdict"] == "passed", "one of them passed, which is enough for max"
    by_metric = second["aggregated_by_metric"]
    assert (by_metric["says o"]["verdict"], by_metric["broken"]["verdict"]) == ("passed", "error")
    assert by_metric["broken"]["score"] is None


def test_rates_have_their_intervals(run: Run) -> None:
    document = report(run)
    low, high = proportion_confint(1, 2, method="wilson")
    for rate in (document["metadata"]["pass_rate"], document["test_cases"][0]["aggregated_by_metric"]["says yes"]):
        found = rate.get("pass_rate", rate)
        assert (found["value"], found["n"]) == (0.5, 2)
        assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))
    # An attempt passes when all metrics pass it; one that a metric could not judge has not passed.
    assert document["test_cases"][0]["pass_rate"]["value"] == 0.0


def test_the_metadata_adds_up(run: Run) -> None:
    metadata = report(run)["metadata"]
    assert metadata["cases"] == {"passed": 1, "failed": 1, "undecided": 0, "unfinished": 0}
    assert (metadata["attempts"], metadata["errors"], metadata["repeated_calls"]) == (6, 2, 0)
    # Four answers took one more try each, two errors took four.
    assert metadata["transport_retries"] == 4 * 1 + 2 * 4
    assert metadata["usage"] == {"prompt_tokens": 40, "completion_tokens": 8, "cost": 2.0}


def test_the_layout_per_metric_has_an_entry_for_each_metric(run: Run) -> None:
    document = report(run, "per-metric")
    entries = document["test_cases"]
    assert document["metadata"]["total_test_cases"] == len(entries) == 4
    assert [(entry["name"], entry["metric"]) for entry in entries] == [
        ("b", "says yes"),
        ("b", "says no"),
        ("a", "says o"),
        ("a", "broken"),
    ]
    for entry in entries:
        assert len(entry["evaluation_results"]) == len(entry["actual_outputs"]) == 3
        assert {one["metric"] for one in entry["evaluation_results"]} == {entry["metric"]}
        assert [one["attempt"] for one in entry["evaluation_results"]] == [0, 1, 2]
    per_case = {
        (entry["name"], metric): told
        for entry in report(run)["test_cases"]
        for metric, told in entry["aggregated_by_metric"].items()
    }
    for entry in entries:
        told = per_case[entry["name"], entry["metric"]]
        assert entry["aggregated_result"] == {name: told[name] for name in ("score", "verdict", "reason")}


@pytest.mark.parametrize("layout", ["per-case", "per-metric"])
def test_a_report_can_be_read_with_rebels_models(run: Run, layout: Layout) -> None:
    for entry in some(report(run, layout)["test_cases"]):
        read = TestCaseEvaluated(**entry)
        assert read == TestCaseEvaluated.model_validate(entry)
        assert (read.name, read.tags, read.metrics) == (entry["name"], entry["tags"], entry["metrics"])
        assert read.retry_params.count == entry["retry_params"]["count"]
        assert [message.role for message in read.input.messages] == ["user"]
        assert [one.output for one in read.actual_outputs] == [one["output"] for one in entry["actual_outputs"]]
        results = [*read.evaluation_results, read.aggregated_result]
        for one, told in some(zip(results, [*entry["evaluation_results"], entry["aggregated_result"]], strict=True)):
            assert (one.verdict, one.reason) == (told["verdict"], told["reason"])
            assert math.isnan(one.score) if told["score"] is None else one.score == told["score"]
        assert TestCase(**entry).model_dump() == {**TestInfo(**entry).model_dump(), "metrics": entry["metrics"]}
    for wrong, problem in (({}, "TestCaseEvaluated needs name, tags"), ({**entry, "input": 3}, "input must be")):
        with pytest.raises(ValueError, match=problem):
            TestCaseEvaluated.model_validate(wrong)


@pytest.mark.shared
def test_rebels_own_reports_can_be_read_with_its_models(shared: Path) -> None:
    paths = sorted((shared / "golden" / "rebel").glob("*.json"))
    assert paths
    for path in paths:
        for entry in json.loads(path.read_text(encoding="utf-8"))["test_cases"]:
            read = TestCaseEvaluated(**entry).model_dump()
            assert json.dumps(read) == json.dumps({key: entry[key] for key in read})


def test_a_run_that_was_stopped_says_what_is_missing(tmp_path: Path) -> None:
    run = Run(tmp_path, [case("a", attempts=3), case("b", attempts=3)], Scripted(), max_calls=4, concurrency=1)
    run.go()
    document = report(run)
    assert [entry["missing_attempts"] for entry in document["test_cases"]] == [0, 2]
    assert [len(entry["actual_outputs"]) for entry in document["test_cases"]] == [3, 1]
    assert document["metadata"]["cases"]["unfinished"] == 1


def test_a_run_in_which_nothing_was_done_has_a_report_too(tmp_path: Path) -> None:
    run = Run(tmp_path, [case("a", attempts=3)], Scripted())
    run.journal.append_now(EndRecord(complete=False))
    run.journal.close()
    (entry,) = report(run)["test_cases"]
    assert (entry["aggregated_result"]["verdict"], entry["missing_attempts"]) == ("error", 3)


def test_scores_that_are_no_numbers_leave_the_report_valid(tmp_path: Path) -> None:
    def strange(actual: Any) -> EvaluationResult:
        score = {"0": math.nan, "1": math.inf, "2": -math.inf}[actual.output]
        return EvaluationResult(score=score, verdict="passed", reason="strange")

    async def count(request: Request) -> Answer:
        return Answer(output=str(request.attempt))

    for strategy in ("min", "max", "mean", "median", "majority", "mode", "first"):
        (tmp_path / strategy).mkdir()
        cases = [case("a", [Doing(do=strange)], 3, aggregation=strategy)]
        run = Run(tmp_path / strategy, cases, Scripted(count), concurrency=1)
        assert run.go().complete
        (entry,) = report(run)["test_cases"]
        assert entry["aggregated_result"]["verdict"] == "passed"
        assert [one["score"] for one in entry["evaluation_results"]] == [None, None, None]


def test_texts_of_any_kind_come_through(tmp_path: Path) -> None:
    text = '\ud800 \x00 "quoted" \u2028 漢\n</script>'

    async def say(_: Request) -> Answer:
        return Answer(output=text)

    run = Run(tmp_path, [case(text, messages=({"role": "user", "content": text},))], Scripted(say))
    run.go()
    (entry,) = report(run)["test_cases"]
    assert (entry["name"], entry["actual_outputs"][0]["output"]) == (text, text)
    assert entry["input"]["messages"][0]["content"] == text


def test_what_a_retry_made_void_is_not_in_the_report(tmp_path: Path) -> None:
    run = Run(tmp_path, [case("a", attempts=2)], Scripted(mixed))
    run.go()
    journal, _ = Journal.reopen(run.path)
    journal.append_now(RetryRecord("a", 0))
    record = next(line.record for line in read_journal(run.path) if isinstance(line.record, AttemptRecord))
    journal.append_now(replace(record, output=OutputRecord("again", [], [], 0.0)))
    journal.close()
    (entry,) = report(run)["test_cases"]
    assert [output["output"] for output in entry["actual_outputs"]] == ["again", "no"]


def test_a_report_is_known_by_its_run(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"".join(report_pieces(read_journal(run.path), "20260102_030405")))
    assert is_report_of(str(path), RunRecord(schema=2, run="r"))
    assert not is_report_of(str(path), RunRecord(run="another"))
    assert not is_report_of(str(tmp_path / "none.json"), RunRecord(schema=2, run="r"))


# -- REBEL ------------------------------------------------------------------------------------------------------

P, F, E = "passed", "failed", "error"
PASSED = {P: True, F: False, E: None}


def verdict_with(score: float | None, word: str) -> Verdict:
    return Verdict(Decision.of(PASSED[word]), score)


@pytest.mark.parametrize(
    ("strategy", "results", "score", "verdict"),
    [
        # The rules and the examples of REBEL 0.2.0's own runs.
        ("min", [(0.2, P), (0.9, P)], 0.2, P),
        ("min", [(0.2, F), (0.9, P)], 0.2, F),
        ("max", [(0.2, F), (0.9, P)], 0.9, P),
        ("max", [(0.2, F), (0.9, F)], 0.9, F),
        ("mean", [(0.2, F), (0.4, F), (0.9, P), (0.6, P), (0.4, F)], 0.5, F),
        ("median", [(0.2, F), (0.4, F), (0.7, P), (0.9, P)], 0.55, F),
        ("mean", [(1.0, P), (0.0, F)], 0.5, F),
        ("mean", [(1.0, P), (0.0, E), (0.0, E)], 1.0, P),
        ("median", [(1.0, P), (0.5, P), (0.0, E)], 0.75, P),
        ("max", [(0.0, E)], None, E),
    ],
)
def test_rebels_ways_to_aggregate_follow_rebels_rules(
    strategy: str, results: list[tuple[float, Any]], score: float | None, verdict: str
) -> None:
    found = aggregated(strategy, [verdict_with(one, said) for one, said in results])
    assert (found.score, found.success) == (None if score is None else pytest.approx(score), PASSED[verdict])
    assert found.reason


_SCORES: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "mean": statistics.mean,
    "median": statistics.median,
}


def _rebel(strategy: str, results: list[tuple[float, str]]) -> tuple[float | None, str]:
    """Aggregate as the documentation of REBEL's rules says, written down anew."""
    decided = [(score, verdict) for score, verdict in results if verdict != E]
    if not decided:
        return None, E
    passes = sum(verdict == P for _, verdict in decided)
    failures = len(decided) - passes
    passed = {"min": failures == 0, "max": passes > 0}.get(strategy, passes > failures)
    return _SCORES[strategy]([score for score, _ in decided]), P if passed else F


@given(
    strategy=st.sampled_from(sorted(_SCORES)),
    results=st.lists(st.tuples(st.floats(-5, 5), st.sampled_from([P, F, E])), min_size=1, max_size=8),
)
def test_rebels_rules_hold_for_any_results(strategy: str, results: list[tuple[float, Any]]) -> None:
    found = aggregated(strategy, [verdict_with(one, said) for one, said in results])
    score, verdict = _rebel(strategy, results)
    assert found.success is PASSED[verdict]
    assert found.score == (None if score is None else pytest.approx(score))


@pytest.mark.parametrize(
    ("strategy", "verdicts", "score", "verdict"),
    [
        ("majority", [P, P, F], 1.0, P),
        ("majority", [P, F], None, E),
        ("any", [F, F, P], 1.0, P),
        ("any", [F, E], None, E),
        ("all", [P, P, F], 0.0, F),
        ("all", [P, E], None, E),
        ("first", [P, F, F], 1.0, P),
        ("mode", [F, F, P], 0.0, F),
        ("at_least_2", [P, F, P], 1.0, P),
        ("pass@2", [P, F, F], 1 - math.comb(2, 2) / math.comb(3, 2), P),
        ("pass^2", [P, P, F], math.comb(2, 2) / math.comb(3, 2), F),
    ],
)
def test_the_other_reducers_can_be_named_too(
    tmp_path: Path, strategy: str, verdicts: list[str], score: float | None, verdict: str
) -> None:
    def say(actual: Any) -> EvaluationResult:
        said = verdicts[int(actual.output)]
        return EvaluationResult(score=float(said == P), verdict=said, reason="")

    async def count(request: Request) -> Answer:
        return Answer(output=str(request.attempt))

    cases = [case("a", [Doing(do=say)], len(verdicts), aggregation=strategy)]
    run = Run(tmp_path, cases, Scripted(count))
    run.go()
    (entry,) = report(run)["test_cases"]
    told = entry["aggregated_result"]
    assert (told["score"], told["verdict"]) == (None if score is None else pytest.approx(score), verdict)
    assert told["reason"]


@pytest.mark.shared
def test_the_aggregates_of_rebels_own_reports_come_out_of_their_results(shared: Path) -> None:
    checked = 0
    for path in sorted((shared / "golden" / "rebel").glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8"))["test_cases"]:
            told = entry["aggregated_result"]
            results = [verdict_with(one["score"], one["verdict"]) for one in entry["evaluation_results"]]
            found = aggregated(entry["retry_params"]["aggregation_strategy"], results)
            assert found.success is PASSED[told["verdict"]], (path.name, entry["name"])
            if told["verdict"] != E and math.isfinite(told["score"]):
                assert found.score == pytest.approx(told["score"]), (path.name, entry["name"])
            checked += 1
    assert checked > 200


@pytest.mark.shared
def test_the_layout_per_metric_has_the_shape_of_rebels_own_report(shared: Path, run: Run) -> None:
    theirs = json.loads((shared / "golden" / "rebel" / "small_workers1.json").read_text(encoding="utf-8"))
    ours = report(run, "per-metric")
    assert theirs.keys() == ours.keys()
    assert theirs["metadata"].keys() <= ours["metadata"].keys()
    mine = ours["test_cases"][0]
    for entry in theirs["test_cases"]:
        assert set(entry) == REBEL_KEYS <= set(mine)
        for name in ("retry_params", "input", "expected_output", "aggregated_result"):
            assert entry[name].keys() <= mine[name].keys()
        for name in ("actual_outputs", "evaluation_results"):
            for one in entry[name]:
                assert one.keys() <= mine[name][0].keys()
        for message in entry["input"]["messages"]:
            assert message.keys() <= mine["input"]["messages"][0].keys()


# -- as the program writes it -----------------------------------------------------------------------------------


def test_the_report_that_is_written_is_as_the_schema_says(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tests(tmp_path)
    monkeypatch.chdir(tmp_path)
    for layout in ("per-case", "per-metric"):
        words = ["--target", "simulated:flaky", "--output-folder", layout, "--report-layout", layout]
        assert cli("run", "tests", *words).code == 0
        document = report_of(tmp_path / layout)
        jsonschema.validate(document, SCHEMA)
        assert document["metadata"]["settings"]["target"]["options"]["seed"] == 0
        assert document["metadata"]["settings"]["limits"]["concurrency"] == 8
        (name,) = (path.name for path in (tmp_path / layout).glob("*.json"))
        assert name == f"test_results_{document['metadata']['timestamp']}.json"


def test_report_and_analysis_say_the_same(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tests(tmp_path, cases=12, attempts=3)
    monkeypatch.chdir(tmp_path)
    for strategy in ("mean", "min", "any", "majority", "pass^2"):
        words = ["--target", "simulated:flaky", "--output-folder", strategy, "--aggregation", strategy]
        ran = cli("run", "tests", *words, "--output-format", "json")
        assert ran.code == 0, ran.err
        (analysis,) = json.loads(ran.out)["analyses"]
        cases = report_of(tmp_path / strategy)["metadata"]["cases"]
        entries = analysis["entries"]
        assert (entries["total"], entries["success"], entries["failure"]) == (12, cases["passed"], cases["failed"])
        assert entries["error"] + entries["unjudged"] == cases["undecided"]


def test_two_runs_in_one_second_do_not_overwrite_each_other(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tests(tmp_path, cases=1, attempts=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda *_: "20260101_120000")
    for _ in range(3):
        assert cli("run", "tests", "--target", "simulated", "--output-folder", "out").code == 0
    assert cli("run", "tests", "--target", "simulated", "--output-folder", "out", "--journal", "my.jsonl").code == 0
    assert cli("resume", "out/run_20260101_120000_2.jsonl").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "run_20260101_120000.jsonl",
        "run_20260101_120000_2.jsonl",
        "run_20260101_120000_3.jsonl",
        "test_results_20260101_120000.json",
        "test_results_20260101_120000_2.json",
        "test_results_20260101_120000_3.json",
        "test_results_20260101_120000_4.json",
    ]


def test_cases_of_one_name_are_refused(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_two.py").write_text(
        METRICS
        + """
@test_case(messages=[Message(role=RoleEnum.user, content="x")])
def test_x():
    yield TestGroup(metrics=[Has()])
    yield TestGroup(metrics=[Has()])
"""
    )
    monkeypatch.chdir(tmp_path)
    ran = cli("run", "test_two.py", "--target", "simulated")
    assert ran.code == 3
    assert "two cases are both named test_x_[]" in ran.err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("strategy", "verdict", "score"),
    [
        ("any", "passed", 1.0),
        ("all", "failed", 0.0),
        ("majority", "failed", 0.0),
        ("first", "failed", 0.5),
        ("at_least_1", "passed", 1.0),
        ("at_least_2", "failed", 0.0),
        ("pass@2", "passed", 2 / 3),
        ("mean", "passed", 4 / 6),
    ],
)
def test_names_that_are_not_rebels_count_attempts_and_not_results(strategy: str, verdict: str, score: float) -> None:
    passed, failed = verdict_with(1.0, "passed"), verdict_with(0.0, "failed")
    # Three attempts, two metrics: the first always passes, the second passes once.
    results = [passed, failed, passed, passed, passed, failed]
    found = aggregated(strategy, results, per_attempt=2)
    assert found.success is PASSED[verdict]
    assert found.score == pytest.approx(score)
