"""Reports in REBEL's structure are results: cases put together again from what REBEL wrote apart."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis
from faircount.core import InputError
from faircount.readers import Origin, reads_ranges, rebel_reports, rows_of
from tests.conftest import Cli, analysis_of, codes, standard
from tests.runs.run_files import HEADER, attempt, case, entry, report, unanswered

LIMIT = 64 * 1024 * 1024
GOLDEN = (
    "deepeval_geval.json",
    "official_example/gemini-2.5-flash.test_results_20250722_113301.json",
    "official_example/qwen3-235b-a22b.test_results_20250722_131419.json",
    "perf_200x5_workers4.json",
    "quirk_badimport.json",
    "quirk_count0.json",
    "quirk_dup_groups.json",
    "quirk_filters_exclude_basic.json",
    "quirk_nan.json",
    "quirk_toolstop.json",
    "small_workers1.json",
    "small_workers4.json",
)


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(data: bytes, name: str = "test_results_20260101_000000.json") -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


NEWLINE = b"\n"


def rows(path: str) -> dict[str, dict[str, Any]]:
    found = {}
    for raw in rows_of(Origin(path, path), LIMIT):
        found[str(raw.row.id)] = {**json.loads(raw.line), "line": raw.number}
    return found


def outcomes(found: Analysis) -> tuple[int, int, int]:
    return found.tally.success, found.tally.failure, found.tally.unjudged


# -- an oracle of our own: REBEL's rules, from the JSON ----------------------------------------------------------


def rebel_verdict(results: list[dict[str, Any]], strategy: str) -> str:
    """Return the verdict that REBEL's rules give."""
    decided = [result["verdict"] for result in results if result["verdict"] != "error"]
    if not decided:
        return "error"
    passed, failed = decided.count("passed"), decided.count("failed")
    wins = {"min": failed == 0, "max": passed > 0}.get(strategy, passed > failed)
    return "passed" if wins else "failed"


def expected(path: Path) -> tuple[Counter[str], int, int]:
    """Return the verdicts of cases, and how many cases and attempts there are."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for told in json.loads(path.read_text())["test_cases"]:
        key = json.dumps([told["name"], told["input"], told["actual_outputs"]], sort_keys=True)
        cases.setdefault(key, []).append(told)
    verdicts: Counter[str] = Counter()
    for group in cases.values():
        said = {rebel_verdict(g["evaluation_results"], g["retry_params"]["aggregation_strategy"]) for g in group}
        verdicts["failed" if "failed" in said else "error" if "error" in said else "passed"] += 1
    return verdicts, len(cases), sum(len(group[0]["actual_outputs"]) for group in cases.values())


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_real_reports_count_as_rebels_rules_say(shared: Path, name: str) -> None:
    path = shared / "golden" / "rebel" / name
    verdicts, cases, attempts = expected(path)
    found = analysis_of(str(path))
    assert outcomes(found) == (verdicts["passed"], verdicts["failed"], verdicts["error"])
    assert (found.tally.total, found.attempts) == (cases, attempts)
    assert (found.sources[0].tool, found.aim) == ("rebel", "task")
    assert not {"F001", "F027", "F023"} & set(codes(found))


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_every_row_stands_where_its_test_case_begins(shared: Path, name: str) -> None:
    path = shared / "golden" / "rebel" / name
    lines = path.read_text().split("\n")
    for row in rows(str(path)).values():
        assert lines[row["line"] - 1] == "    {"
        assert json.dumps(row["id"].partition("#")[0], ensure_ascii=False) in lines[row["line"]]
    source = analysis_of(str(path)).sources[0]
    assert (source.lines, source.blank_lines, source.bad_lines) == (len(lines), 0, 0)


@pytest.mark.shared
def test_the_published_reports_count_as_their_summaries_say(shared: Path) -> None:
    folder = shared / "golden" / "rebel" / "official_example"
    counted = [outcomes(analysis_of(str(path))) for path in sorted(folder.iterdir())]
    assert counted == [(3, 15, 0), (14, 4, 0)]


@pytest.mark.shared
def test_retries_of_a_published_report_are_those_of_its_attempts(shared: Path) -> None:
    (path,) = (shared / "golden" / "rebel" / "official_example").glob("gemini*")
    retries = analysis_of(str(path)).retries
    told = json.loads(path.read_text())["test_cases"]
    shares = [[r["verdict"] == "passed" for r in case["evaluation_results"]] for case in told]
    assert retries is not None
    assert retries.mean is not None
    assert retries.flake_rate is not None
    assert retries.mean.value == pytest.approx(sum(sum(s) / len(s) for s in shares) / len(shares))
    assert retries.flake_rate.value == pytest.approx(sum(len(set(s)) > 1 for s in shares) / len(shares))


@pytest.mark.shared
def test_scores_that_are_no_numbers_are_told_and_verdicts_count(shared: Path) -> None:
    path = str(shared / "golden" / "rebel" / "quirk_nan.json")
    assert codes(analysis_of(path)) == {"F012": 1}
    (row,) = rows(path).values()
    assert row["attempt_history"][0]["metrics"][0]["score"] is None
    assert (row["success"], row["line"]) == (False, 7)


@pytest.mark.shared
def test_groups_that_rebel_merged_have_as_many_attempts_as_outputs(shared: Path) -> None:
    (row,) = rows(str(shared / "golden" / "rebel" / "quirk_dup_groups.json")).values()
    assert (row["attempts"], row["success"]) == (10, True)
    assert sum(item["success"] for item in row["attempt_history"]) == 4


# -- cases of several metrics -----------------------------------------------------------------------------------


def test_entries_of_one_case_become_one_entry(written: Any) -> None:
    path = written(report(entry("a", ["x", "y"], "pp"), entry("a", ["x", "y"], "ff", "failed"), entry("b", ["z"], "p")))
    assert outcomes(analysis_of(path)) == (1, 1, 0)
    row = rows(path)["a"]
    assert (row["metric.1"], row["metric.2"]) == ("passed", "failed")
    assert row["attempts"] == 2
    assert row["judge_name"] is None
    assert [said["verdict"] for said in row["attempt_history"][0]["metrics"]] == ["passed", "failed"]


@pytest.mark.parametrize(
    ("verdicts", "counted"),
    [
        (("passed", "passed"), (1, 0, 0)),
        (("passed", "failed"), (0, 1, 0)),
        (("passed", "error"), (0, 0, 1)),
        (("failed", "error"), (0, 1, 0)),
        (("error", "error"), (0, 0, 1)),
    ],
)
def test_a_case_passes_only_if_all_its_metrics_do(
    written: Any, verdicts: tuple[str, str], counted: tuple[int, int, int]
) -> None:
    path = written(report(*(entry("a", ["x"], verdict[0], verdict) for verdict in verdicts)))
    assert outcomes(analysis_of(path)) == counted


def test_different_cases_of_one_name_stay_apart(written: Any) -> None:
    path = written(report(entry("a", ["x"], "p"), entry("a", ["y"], "f", "failed"), entry("a", ["x"], "p")))
    assert outcomes(analysis_of(path)) == (1, 1, 0)
    assert set(rows(path)) == {"a", "a#2"}


def test_the_count_of_retries_is_not_believed(written: Any) -> None:
    told = entry("a", ["x", "y", "z"], "ppp", retry_params={"count": 50, "aggregation_strategy": "mean"})
    assert analysis_of(written(report(told))).attempts == 3


def test_results_of_several_metrics_in_one_entry_belong_to_attempts_in_turn(written: Any) -> None:
    path = written(report(entry("a", ["x", "y"], "pfpf", "failed")))
    row = rows(path)["a"]
    assert [[said["verdict"] for said in item["metrics"]] for item in row["attempt_history"]] == [
        ["passed", "failed"],
        ["passed", "failed"],
    ]
    assert (row["metric.1"], row["metric.2"]) == ("passed", "failed")


def test_results_without_their_outputs_still_count(written: Any) -> None:
    path = written(report(entry("a", ["x", "y"], "ppp")))
    assert outcomes(analysis_of(path)) == (1, 0, 0)
    assert analysis_of(path).attempts == 3


@pytest.mark.parametrize(("strategy", "passed"), [("mean", False), ("max", True), ("min", False), (None, False)])
def test_a_missing_verdict_is_made_by_the_rule_of_the_case(written: Any, strategy: str | None, passed: bool) -> None:
    told = entry("a", ["x", "y"], "pf", None, retry_params={"count": 2, "aggregation_strategy": strategy})
    assert outcomes(analysis_of(written(report(told)))) == ((1, 0, 0) if passed else (0, 1, 0))


# -- our own reports --------------------------------------------------------------------------------------------


def our_entry(name: str, attempts: list[dict[str, Any]], described: dict[str, Any], verdict: str) -> dict[str, Any]:
    """Return a test case as Faircount's report has it, from the records of a journal."""
    empty: dict[str, Any] = {"output": "", "tools_called": [], "context": [], "execution_time": None}
    kept = ("attempt", "error", "model", "finish_reason", "usage")
    metrics = [metric["name"] for metric in described["metrics"]]
    results = []
    for told in attempts:
        said = {one["metric"]: one for one in told["verdicts"]}
        for metric in metrics:
            one = said.get(metric) or {"score": None, "verdict": "error", "reason": "no answer", "error": "status"}
            results.append({**one, "metric": metric, "attempt": told["attempt"]})
    return {
        "name": name,
        **{key: described[key] for key in ("tags", "retry_params", "input", "expected_output", "metrics", "place")},
        "actual_outputs": [{**(told["output"] or empty), **{key: told[key] for key in kept}} for told in attempts],
        "evaluation_results": results,
        "aggregated_result": {"score": 1.0, "verdict": verdict, "reason": "x"},
        "aggregated_by_metric": {},
    }


def test_a_journal_and_its_report_give_the_same_rows(written: Any) -> None:
    metrics = ("Correct", "Polite")
    described = case("test_a_[t=1]", metrics=metrics, count=3, tags=["slow"], parameters={"t": 1})
    name = described["case"]
    told = [
        attempt(name, 0, "pp", metrics=metrics),
        unanswered(name, 1),
        attempt(name, 2, "pf", metrics=metrics),
    ]
    lines = [json.dumps(line).encode() + b"\n" for line in (HEADER, described, *told)]
    journal = rows(written(b"".join(lines), "run.jsonl"))[name]
    path = written(report(our_entry(name, told, described, "passed"), tool="faircount", version="0.1.0"))
    ours = rows(path)[name]
    assert ours.pop("line") != journal.pop("line")
    assert ours == journal
    (source,) = analysis_of(path).sources
    assert (source.tool, source.tool_version, source.reader) == ("faircount", "0.1.0", "REBEL report")
    assert ours["metric.Polite"] == "failed"


def test_a_journal_and_its_report_are_one_run_when_combined(written: Any) -> None:
    names = ["test_a_[]", "test_b_[]", "test_c_[]"]
    lines, entries = [HEADER], []
    for name, verdict in zip(names, "pfp", strict=True):
        described, told = case(name), attempt(name, 0, verdict)
        lines += [described, told]
        entries.append(our_entry(name, [told], described, "passed" if verdict == "p" else "failed"))
    journal = written(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "run.jsonl")
    found = analysis_of(journal, written(report(*entries, tool="faircount")), combine=True)
    assert (found.tally.success, found.tally.total) == (2, 3)
    assert "F008" in codes(found)


def test_a_case_of_our_report_without_any_answer_is_an_error(written: Any) -> None:
    described, told = case("a"), unanswered("a", 0)
    path = written(report(our_entry("a", [told], described, "error"), tool="faircount"))
    assert analysis_of(path).tally.error == 1
    assert rows(path)["a"]["error"] == "status: HTTP 503"


# -- how a report is found and placed ---------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 4])
def test_reports_are_read_however_they_are_laid_out(written: Any, indent: int | None) -> None:
    path = written(report(entry("a", ["x"], "p"), entry("b", ["é 😀"], "f", "failed"), indent=indent))
    assert outcomes(analysis_of(path)) == (1, 1, 0)
    assert not reads_ranges(path)
    assert rows(path)["b"]["response"] == "é 😀"
    places = [row["line"] for row in rows(path).values()]
    assert places == sorted(set(places))
    if indent is None:
        assert places == [1, 2]


def test_a_packed_report_is_read(written: Any) -> None:
    path = written(gzip.compress(report(entry("a", ["x"], "p"))), "r.json.gz")
    assert outcomes(analysis_of(path)) == (1, 0, 0)


def test_a_report_with_a_byte_order_mark_is_read(written: Any) -> None:
    assert outcomes(analysis_of(written(b"\xef\xbb\xbf" + report(entry("a", ["x"], "p"))))) == (1, 0, 0)


def test_other_keys_may_stand_before_the_test_cases(written: Any) -> None:
    told = {"note": "x" * 1000, "list": [1, {"test_cases": 2}], "test_cases": [entry("a", ["x"], "p")], "after": 1}
    assert outcomes(analysis_of(written(json.dumps(told).encode()))) == (1, 0, 0)


def test_a_row_that_speaks_of_test_cases_is_no_report(written: Any) -> None:
    row = standard(1, input='{"test_cases": []}', note='"test_cases"')
    path = written(json.dumps(row).encode() + b"\n")
    assert analysis_of(path).aim == "attack"
    assert reads_ranges(path)


# -- damage -----------------------------------------------------------------------------------------------------


def test_a_report_that_was_cut_says_where(written: Any) -> None:
    whole = report(entry("a", ["x"], "p"), entry("b", ["y"], "p"))
    for cut in range(80, len(whole) - 1, 37):
        path = written(whole[:cut])
        with pytest.raises(InputError) as error:
            analysis_of(path)
        assert f"{path}:" in str(error.value)


def test_the_place_of_damage_is_its_line(written: Any, cli: Cli) -> None:
    whole = report(entry("a", ["x"], "p"), entry("b", ["y"], "p")).decode()
    lines = whole.split("\n")
    number = next(n for n, line in enumerate(lines) if '"name": "b"' in line)
    lines[number] = '      "name": oops,'
    path = written("\n".join(lines).encode())
    ran = cli("results", "analyze", path)
    assert ran.code == 3
    assert f"{path}:{number + 1}: the report is damaged here" in ran.err


@pytest.mark.parametrize("rest", [b"{}", b"garbage", report(entry("b", ["y"], "p"))], ids=["object", "text", "report"])
def test_nothing_behind_a_report_is_lost_in_silence(written: Any, cli: Cli, rest: bytes) -> None:
    whole = report(entry("a", ["x"], "p"))
    path = written(whole + b"\n \n" + rest)
    ran = cli("results", "analyze", path)
    assert (ran.code, ran.out) == (3, "")
    place = f"{path}:{whole.count(NEWLINE) + 3}: the report is damaged here: more follows the end of the report"
    assert place in ran.err
    assert cli("results", "analyze", written(whole + b"\n \n")).code == 0


@pytest.mark.parametrize(
    "damaged",
    [
        7,
        None,
        "text",
        [],
        {},
        {"name": 5},
        entry("x", ["x"], "p", actual_outputs="none"),
        entry("x", ["x"], "p", actual_outputs=[1]),
        entry("x", ["x"], "p", evaluation_results={"a": 1}),
        entry("x", ["x"], "p", input=[]),
        entry("x", ["x"], "p", metrics="all"),
        entry("x", ["x"], "p", tags="slow"),
    ],
)
def test_a_test_case_that_cannot_be_understood_is_a_bad_line(written: Any, damaged: Any) -> None:
    path = written(report(entry("a", ["x"], "p"), damaged, entry("b", ["y"], "f", "failed")))
    found = analysis_of(path)
    assert outcomes(found) == (1, 1, 0)
    assert codes(found)["F001"] == 1
    (finding,) = [finding for finding in found.findings if finding.code == "F001"]
    lines = Path(path).read_text().split("\n")
    assert lines[int(finding.where[0].rpartition(":")[2]) - 1].startswith("    ")
    assert found.sources[0].bad_lines == 1


def test_an_overlong_test_case_is_a_bad_line_and_never_decoded(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebel_reports, "_MAX_ENTRY_BYTES", 5000)
    whole = {"name": "a", "x": '[{"\\' * 500, "nested": [[], {}] * 1000}
    path = written(report(entry("b", ["y"], "p"), whole, entry("c", ["y"], "f", "failed")))
    decoded: list[int] = []
    value_of = rebel_reports._value

    def value(text: str, place: int) -> tuple[Any, int]:
        found = value_of(text, place)
        decoded.append(found[1] - place)
        return found

    monkeypatch.setattr(rebel_reports, "_value", value)
    found = analysis_of(path)
    assert outcomes(found) == (1, 1, 0)
    assert codes(found)["F001"] == 1
    assert 100 < max(decoded) < 5000


def test_a_report_beyond_the_limit_is_refused(written: Any, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    path = written(report(*(entry(f"case {number}", ["y" * 1000], "p") for number in range(1200))))
    assert cli("results", "analyze", path).code == 0
    monkeypatch.setattr(rebel_reports, "_MAX_REPORT_BYTES", 1 << 20)
    ran = cli("results", "analyze", path)
    assert ran.code == 3
    assert "the report is larger than 1 MiB" in ran.err


@pytest.mark.parametrize(
    "sparse",
    [
        {"name": "x"},
        entry("x", [], "", None),
        entry("x", ["x"], "p", tags=None, input=None, metrics=None, expected_output=None, retry_params=None),
        entry("x", ["x"], "p", aggregated_result={"verdict": "maybe"}),
        entry("x", ["x"], "p", input={"messages": None, "api_params": 5}),
        entry("x", ["x"], "p", actual_outputs=[{"output": None, "execution_time": "long"}]),
    ],
)
def test_what_is_missing_is_done_without(written: Any, sparse: dict[str, Any]) -> None:
    found = analysis_of(written(report(entry("a", ["x"], "p"), sparse)))
    assert found.tally.total == 2
    assert "F001" not in codes(found)


def test_a_report_of_nothing_is_a_file_without_entries(written: Any) -> None:
    assert codes(analysis_of(written(report()))) == {"F026": 1}


def test_a_report_nested_too_deeply_is_refused_in_words(written: Any) -> None:
    deep = report(entry("a", ["x"], "p")).replace(b'"hello"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        analysis_of(written(deep))


def test_a_test_case_nested_rather_deeply_is_a_bad_line(written: Any) -> None:
    deep = report(entry("a", ["x"], "p"), entry("b", ["y"], "p")).replace(b'"hello"', b"[" * 200 + b"]" * 200, 1)
    found = analysis_of(written(deep))
    assert (found.tally.total, codes(found)["F001"]) == (1, 1)


def test_half_a_character_and_huge_numbers_survive(written: Any) -> None:
    odd = (
        report(entry("a", ["HALF"], "p"))
        .replace(b"HALF", b"\\ud83d")
        .replace(b'"api_params": {}', b'"api_params": {"n": 1' + b"0" * 30 + b"}")
    )
    assert outcomes(analysis_of(written(odd))) == (1, 0, 0)


@pytest.mark.parametrize("field", list(entry("a", ["x"], "p")))
def test_anything_may_stand_in_a_test_case(written: Any, field: str) -> None:
    odd: list[Any] = [None, True, -1, 1.5, 10**400, "", "x", [], {}, [1], {"a": 1}, [None], float("inf"), "passed"]
    for value in odd:
        path = written(report({**entry("a", ["x"], "p"), field: value}, entry("b", ["y"], "p")))
        assert rows(path)["b"]["success"] is True
