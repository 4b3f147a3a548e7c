"""Where runs differ from REBEL's on purpose: REBEL's side from reports that it wrote, ours from runs of our own."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from faircount.components import is_there
from faircount.judges import StatementCounts, f_score, precision_and_recall
from faircount.testing import AssistantInput, AssistantOutput, EvaluationVerdict, ToolCall, ToolCallsAccuracy
from tests import peers
from tests.conftest import Cli, analysis_of, codes, some
from tests.runs import rebel_cases
from tests.runs.misbehaving_server import Server, answer, completion
from tests.runs.running import records, report_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "differences-from-rebel.md").read_text(encoding="utf-8")

HEAD = """\
from faircount.testing import (
    AssistantOutput, EvaluationResult, JudgeMetric, Message, Metric, ParameterGrid, RetryParams, TestGroup, test_case,
)


class Scored(Metric):
    \"\"\"Reads its score from the answer; what is no number is an error.\"\"\"

    label: str = "scored"

    def measure(self, input, expected, actual):
        score = float(actual.output)
        return EvaluationResult(score=score, verdict="passed" if score >= 0.5 else "failed", reason="")

    def get_name(self):
        return self.label


class Says(Metric):
    word: str

    def measure(self, input, expected, actual):
        return EvaluationResult(
            score=float(actual.output == self.word),
            verdict="passed" if actual.output == self.word else "failed",
            reason="",
        )


ASK = [Message(role="user", content="?")]
"""

BOT = """\
ANSWERS = {answers!r}


def answer(request: "Request"):
    told = ANSWERS[request.attempt]
    if told is None:
        raise ConnectionError("no answer")
    return told
"""

Run = Callable[..., dict[str, Any]]


def part(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]


def has_row(heading: str, *cells: str) -> None:
    row = f"| {' | '.join(cells)} |"
    assert row in part(heading).splitlines(), f"{heading} lacks {row}"


def shown(result: dict[str, Any]) -> str:
    score = "`null`" if result["score"] is None else f"{result['score']:.4f}"
    return f"{score} {result['verdict']}"


@pytest.fixture
def rebels(shared: Path) -> Callable[[str], dict[str, Any]]:
    """REBEL's own reports, by name."""

    def read(name: str) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((shared / "golden" / "rebel" / name).read_text(encoding="utf-8"))
        return report

    return read


def cases_called(report: dict[str, Any], beginning: str) -> list[dict[str, Any]]:
    return [case for case in report["test_cases"] if case["name"].startswith(beginning)]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a test file into the folder in which commands run."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "test_it.py") -> Path:
        path = tmp_path / "tests" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def ran(put: Callable[[str], Path], cli: Cli, tmp_path: Path) -> Run:
    """Run a test file against a target that gives these answers, one for each attempt; None fails."""

    def run(text: str, answers: Sequence[str | None], *words: str) -> dict[str, Any]:
        put(text)
        (tmp_path / "bot.py").write_text(BOT.format(answers=list(answers)), encoding="utf-8")
        done = cli("run", "tests", "--target", "./bot.py:answer", "--journal", "journal.jsonl", *words)
        assert done.code == 0, done.err
        return report_of(tmp_path / "results")

    return run


def group(metrics: str, count: int = 1, strategy: str = "mean", name: str = "test_a", **more: str) -> str:
    """Return a test with one group."""
    given = "".join(f", {name}={value}" for name, value in more.items())
    retry = f"RetryParams(count={count}, aggregation_strategy={strategy!r})"
    return f"""
@test_case(messages=ASK{given})
def {name}():
    yield TestGroup(metrics=[{metrics}], retry_params={retry})
"""


# -- the report -------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_page_counts_entries_as_both_programs_do(rebels: Callable[[str], dict[str, Any]], shared: Path) -> None:
    theirs = rebels("small_workers1.json")["test_cases"]
    verdicts = Counter(entry["aggregated_result"]["verdict"] for entry in theirs)
    ours = analysis_of(str(shared / "golden" / "rebel" / "small_workers1.json"), cache=False)
    heading = "Entries of the report"
    has_row(heading, "entries", str(len(theirs)), str(ours.tally.total))
    share = f"{verdicts['passed']} of {len(theirs)}, {100 * verdicts['passed'] / len(theirs):.1f}%"
    assert ours.rates.asr.value is not None
    has_row(heading, "passed", share, f"{ours.tally.success} of {ours.tally.total}, {100 * ours.rates.asr.value:.2f}%")
    assert (ours.tally.unjudged, ours.rates.asr_judged.n) == (1, 12)
    assert "One of the 13 is undecided: over judged cases the rate is 7 of 12." in part(heading)
    names = Counter(entry["name"] for entry in theirs)
    assert sum(count == 2 for count in names.values()) == 3
    assert all(metric == {} for entry in theirs for metric in entry["metrics"])


@pytest.mark.shared
def test_several_metrics_have_one_result_only_here(rebels: Callable[[str], dict[str, Any]], ran: Run) -> None:
    first, second = cases_called(rebels("small_workers1.json"), "test_06")
    answers = ["0.9", "no number", "0.1", "0.8"]
    assert [result["score"] for result in first["evaluation_results"]] == [0.9, 0.0, 0.1, 0.8]
    (case,) = ran(group("Scored(), Says(word='0.9')", 4), answers)["test_cases"]
    by_metric = case["aggregated_by_metric"]
    heading = "One result over several metrics"
    one, other = shown(first["aggregated_result"]), shown(second["aggregated_result"])
    has_row(heading, "of the first metric (one error)", one, shown(by_metric["scored"]))
    has_row(heading, "of the second metric", other, shown(by_metric["Says"]))
    has_row(heading, "of the case", "none", shown(case["aggregated_result"]))


@pytest.mark.shared
def test_failed_requests_are_kept(rebels: Callable[[str], dict[str, Any]], ran: Run) -> None:
    report = rebels("small_workers1.json")
    (theirs,) = cases_called(report, "test_09")
    (ours,) = ran(group("Says(word='ok')", 3), [None, "ok", None])["test_cases"]
    heading = "Requests that fail"
    has_row(heading, "`count`", *(str(case["retry_params"]["count"]) for case in (theirs, ours)))
    has_row(heading, "outputs", *(str(len(case["actual_outputs"])) for case in (theirs, ours)))
    has_row(heading, "results", *(str(len(case["evaluation_results"])) for case in (theirs, ours)))
    told = [case["aggregated_result"] for case in (theirs, ours)]
    has_row(heading, "verdict", *(f"{result['verdict']} {result['score']:.4f}" for result in told))
    assert told[0]["reason"] == ""
    has_row(heading, "reason", "empty", told[1]["reason"])
    assert [output["error"] is None for output in ours["actual_outputs"]] == [False, True, False]
    assert not cases_called(report, "test_10"), "REBEL leaves out a case without an answer"


@pytest.mark.parametrize("strategy", ["all", "majority"])
def test_other_rules_take_failed_requests_as_unknown(ran: Run, strategy: str) -> None:
    (case,) = ran(group("Says(word='ok')", 3, strategy), [None, "ok", None])["test_cases"]
    assert case["aggregated_result"]["verdict"] == "error"


def test_a_case_without_any_answer_is_in_the_report(ran: Run) -> None:
    report = ran(group("Says(word='ok')", 3), [None, None, None])
    (case,) = report["test_cases"]
    assert case["aggregated_result"]["verdict"] == "error"
    assert report["metadata"]["cases"] == {"passed": 0, "failed": 0, "undecided": 1, "unfinished": 0}


@pytest.mark.shared
def test_no_verdict_is_no_score(rebels: Callable[[str], dict[str, Any]], ran: Run) -> None:
    (theirs,) = cases_called(rebels("small_workers1.json"), "test_12")
    (ours,) = ran(group("Scored()", 2, "max"), ["no number", "none either"])["test_cases"]
    told = [shown(case["aggregated_result"]) for case in (theirs, ours)]
    has_row("A case without a verdict", "every metric failed to decide", *told)


@pytest.mark.shared
def test_nan_is_null(rebels: Callable[[str], dict[str, Any]], ran: Run, shared: Path) -> None:
    (theirs,) = rebels("quirk_nan.json")["test_cases"]
    assert all(math.isnan(result["score"]) for result in theirs["evaluation_results"])
    (ours,) = ran(group("Scored()", 2), ["nan", "nan"])["test_cases"]
    assert [result["score"] for result in ours["evaluation_results"]] == [None, None]
    has_row("NaN", "in the file", "`NaN`", "`null`")
    has_row("NaN", "verdict", *(case["aggregated_result"]["verdict"] for case in (theirs, ours)))
    assert "F012" in codes(analysis_of(str(shared / "golden" / "rebel" / "quirk_nan.json"), cache=False))
    told = [record["verdicts"][0] for record in records("journal.jsonl") if record["kind"] == "attempt"]
    assert [verdict["score_as_told"] for verdict in told] == ["nan", "nan"]


def test_the_layout_of_rebel_can_be_had(ran: Run) -> None:
    report = ran(group("Scored(), Says(word='1')", 2), ["1", "0"], "--report-layout", "per-metric")
    assert report["metadata"]["total_test_cases"] == 2
    assert [case["metric"] for case in report["test_cases"]] == ["scored", "Says"]
    assert [len(case["evaluation_results"]) for case in report["test_cases"]] == [2, 2]


# -- the tests --------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_rebel_drops_a_case_that_is_tried_no_times(rebels: Callable[[str], dict[str, Any]]) -> None:
    assert [case["name"] for case in rebels("quirk_count0.json")["test_cases"]] == ["test_ok_[]"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("`RetryParams(count=0)`", group("Scored()", 0)),
        ("a grid with an empty list", group("Scored()", param_grid="ParameterGrid(parameters={'a': []})")),
        ("a group without metrics", group("")),
    ],
)
def test_cases_that_would_vanish_are_errors(put: Callable[[str], Path], cli: Cli, row: str, text: str) -> None:
    put(text)
    done = cli("run", "tests", "--target", "simulated")
    (line,) = [line for line in part("Cases that disappear").splitlines() if line.startswith(f"| {row} |")]
    code, words = line.rpartition("| exit ")[2].removesuffix(" |").split(": ", 1)
    assert done.code == int(code)
    assert words in done.err
    assert "test_it.py:" in done.err


def test_no_strategy_is_the_mean(ran: Run) -> None:
    text = group("Scored()").replace("aggregation_strategy='mean'", "aggregation_strategy=None")
    (case,) = ran(text, ["1"])["test_cases"]
    assert case["retry_params"]["aggregation_strategy"] == "mean"


@pytest.mark.shared
def test_two_cases_of_one_name_are_an_error(
    rebels: Callable[[str], dict[str, Any]], put: Callable[..., Path], cli: Cli
) -> None:
    (theirs,) = rebels("quirk_dup_groups.json")["test_cases"]
    put(group("Scored()", 2), "test_one.py")
    put(group("Scored()", 3), "test_two.py")
    done = cli("run", "tests", "--target", "simulated")
    heading = "Two cases with the same name"
    has_row(heading, "entries", "1", f"none, exit {done.code}")
    has_row(heading, "its outputs", str(len(theirs["actual_outputs"])), "none")
    has_row(heading, "its `count`", str(theirs["retry_params"]["count"]), "none")
    assert "test_one.py:" in done.err
    assert "test_two.py:" in done.err


def test_two_groups_with_different_metrics_may_share_a_name(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_two.py").write_text(rebel_cases.ours(rebel_cases.TWO_GROUPS))
    (tmp_path / "client.py").write_text(rebel_cases.ours(rebel_cases.CLIENT))
    done = cli("run", "test_two.py", "--target", "./client.py:Client")
    assert done.code == 0, done.err
    assert "the same name as a case of an earlier TestGroup" in done.err
    assert "test_everything_[max_tokens=100] #2; a postfix gives a TestGroup its own name" in done.err
    report = report_of(tmp_path / "results")
    (note,) = report["metadata"]["notes"]
    assert note.startswith("3 cases had the same name as a case of an earlier TestGroup of the same test; a number")
    names = [f"test_everything_[max_tokens={number}]" for number in (100, 200, 500)]
    assert [case["name"] for case in report["test_cases"]] == names + [f"{name} #2" for name in names]
    assert [case.get("declared_name") for case in report["test_cases"]] == [None] * 3 + names
    assert [len(case["actual_outputs"]) for case in report["test_cases"]] == [3] * 3 + [5] * 3
    entries = str(len(report["test_cases"]))
    row = "two groups with different metrics, over a grid of three"
    has_row("Two cases with the same name", row, "6 entries", entries)
    (path,) = (tmp_path / "results").glob("*.json")
    assert analysis_of(str(path), cache=False).tally.total == 6
    # The name that both had, or that of the test, still chooses both; the new one chooses one.
    for name, cases in ((names[0], 2), ("test_everything", 6), (f"{names[0]} #2", 1)):
        plan = cli("plan", f"test_two.py::{name}", "--output-format", "json").out
        assert len(json.loads(plan)["cases"]) == cases


@pytest.mark.peer
def test_rebel_itself_makes_as_many_entries_of_such_groups(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_two.py").write_text(rebel_cases.TWO_GROUPS)
    (tmp_path / "client.py").write_text(rebel_cases.CLIENT)
    client = ("--api-client-module", "client", "--api-client-class", "Client", "--api-client-args", "{}")
    words = ("--test-dir", "tests", "--output-folder")
    peers.run("rebel", tmp_path, "from rebel.cli import main\nmain()", *words, "theirs", *client)
    peers.command("rebel", tmp_path, "run", *words, "ours", *client)
    theirs, ours = (report_of(tmp_path / folder)["test_cases"] for folder in ("theirs", "ours"))
    for their, our in some(zip(theirs, ours, strict=True)):
        assert their["name"] == our.get("declared_name", our["name"])
        for key in ("tags", "retry_params", "input"):
            assert their[key] == our[key]
        for key in ("verdict", "reason"):
            assert [one[key] for one in their["evaluation_results"]] == [one[key] for one in our["evaluation_results"]]


@pytest.mark.shared
def test_two_metrics_of_one_name_stay_two(rebels: Callable[[str], dict[str, Any]], ran: Run) -> None:
    (theirs,) = cases_called(rebels("small_workers1.json"), "test_11")
    (ours,) = ran(group("Scored(label='NAME'), Scored(label='NAME')", 2), ["0", "1"])["test_cases"]
    heading = "Two metrics with the same name"
    has_row(heading, "outputs", *(str(len(case["actual_outputs"])) for case in (theirs, ours)))
    has_row(heading, "results", *(str(len(case["evaluation_results"])) for case in (theirs, ours)))
    names = " and ".join(f"`{metric['name']}`" for metric in ours["metrics"])
    has_row(heading, "names of metrics", "none", names)


@pytest.mark.shared
def test_a_file_that_cannot_be_imported_is_an_error(
    rebels: Callable[[str], dict[str, Any]], put: Callable[[str], Path], cli: Cli
) -> None:
    assert len(rebels("quirk_badimport.json")["test_cases"]) == 1
    path = put(group("Scored()") + "\nraise RuntimeError('no')\n")
    done = cli("run", "tests", "--target", "simulated")
    line = path.read_text(encoding="utf-8").count("\n")
    assert (done.code, f"test_it.py:{line}:" in done.err) == (3, True)
    has_row("Exit codes", "a file cannot be imported", "0", str(done.code))


CHOICES = (
    group("Scored()", name="test_Alpha", tags="['basic']")
    + group("Scored()", name="test_beta", tags="['bas']")
    + group("Scored()", name="test_gamma", tags="['x']")
    + group("Scored()", name="test_delta")
)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (("--keyword", "alpha"), ["Alpha"]),
        (("--keyword", "Alpha"), ["Alpha"]),
        (("--tags", "basic"), ["Alpha"]),
        (("--exclude-tags", "basic"), ["beta", "gamma", "delta"]),
        (("--tags", "a,bas"), ["beta"]),
        (("--keyword", "a and not (beta or delta)", "--exclude-tags", "x"), ["Alpha"]),
    ],
)
def test_filters_choose_what_they_name(
    put: Callable[[str], Path], cli: Cli, words: tuple[str, ...], chosen: list[str]
) -> None:
    put(CHOICES)
    planned = json.loads(cli("plan", "tests", *words, "--output-format", "json").out)
    assert [case["name"] for case in planned["cases"]] == [f"test_{name}_[]" for name in chosen]


@pytest.mark.shared
def test_rebel_excludes_tags_that_are_parts_of_others(rebels: Callable[[str], dict[str, Any]]) -> None:
    left = [case["name"] for case in rebels("quirk_filters_exclude_basic.json")["test_cases"]]
    assert left == ["test_gamma_[]", "test_delta_[]"]
    has_row("Selection", "`--exclude-tags basic`", "the tag `bas`", "left out", "run")


# -- exit codes -------------------------------------------------------------------------------------------------


def test_exit_codes_are_those_of_the_page(put: Callable[[str], Path], cli: Cli, tmp_path: Path) -> None:
    put(group("Says(word='yes')", 2))
    (tmp_path / "bot.py").write_text(
        "def right(messages): return 'yes'\n"
        "def wrong(messages): return 'no'\n"
        "def dead(messages): raise OSError('down')\n"
    )

    def code(name: str, *words: str) -> int:
        return cli("run", "tests", "--target", f"./bot.py:{name}", *words).code

    has_row("Exit codes", "all passed", "0", str(code("right", "--fail-on-failed-tests")))
    failed = f"{code('wrong')}; {code('wrong', '--fail-on-failed-tests')} with `--fail-on-failed-tests`"
    has_row("Exit codes", "a test failed", "0", failed)
    dead = code("dead", "--fail-on-failed-tests")
    has_row("Exit codes", "every request failed", "0", f"{dead}, every case undecided")
    has_row("Exit codes", "a limit stopped it", "there are no limits", str(code("right", "--max-calls", "1")))
    (tmp_path / "empty").mkdir()
    none = cli("run", "empty", "--target", "simulated").code
    has_row("Exit codes", "no test was found", "0", str(none))


# -- metrics ----------------------------------------------------------------------------------------------------


def greedy(expected: Sequence[ToolCall], made: Sequence[ToolCall]) -> float:
    """Return REBEL's score: each expected call takes the likest that is left, arguments compared as text."""
    left = list(made)
    total = 0.0
    for call in expected:
        likeness = [float(call.function == other.function) for other in left]
        best = likeness.index(max(likeness))
        total += likeness[best]
        del left[best]
    return total / max(len(expected), len(made))


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(function={"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("cells", "expected", "made"),
    [
        (("`x()`, `y()`", "`y()`, `z()`"), [call("x"), call("y")], [call("y"), call("z")]),
        (
            ('`f({"a": 1, "b": 2})`', '`f({"b": 2, "a": 1})`'),
            [call("f", '{"a": 1, "b": 2}')],
            [call("f", '{"b": 2, "a": 1}')],
        ),
    ],
)
def test_tool_calls_are_matched_in_the_best_way(
    cells: tuple[str, str], expected: list[ToolCall], made: list[ToolCall]
) -> None:
    result = ToolCallsAccuracy().measure(
        AssistantInput(messages=[]), AssistantOutput(tools_called=expected), AssistantOutput(tools_called=made)
    )
    theirs = greedy(expected, made)
    by_rebel = f"{theirs:.4f} {'passed' if theirs >= 0.5 else 'failed'}"
    has_row("Tool calls", *cells, by_rebel, f"{result.score:.4f} {EvaluationVerdict(result.verdict).value}")


def test_the_f_score_keeps_claims_and_truths_apart() -> None:
    counts = StatementCounts({"yes": 3, "no": 1}, {"yes": 5, "no": 5})
    told = [precision_and_recall(counts, definition, "neither") for definition in ("rebel", "statements")]
    heading = "Contextual F-score"
    has_row(heading, "precision", *(f"{precision:.4f}" for precision, _ in told))
    has_row(heading, "recall", *(f"{recall:.4f}" for _, recall in told))
    has_row(heading, "F1", *(f"{f_score(p or 0, r or 0, 1.0):.4f}" for p, r in told))


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("def measure(self, input, expected, actual): return 1", "error"),
        ("def measure(self, input, expected, actual): raise ValueError('no')", "error"),
        (
            "def __init__(self): self.word = 'x'\n"
            "    def measure(self, input, expected, actual): return EvaluationResult(1.0, 'passed', None)",
            "passed",
        ),
        (
            "async def measure(self, input, expected, actual): return EvaluationResult(score=1.0, verdict='passed')",
            "passed",
        ),
    ],
)
def test_no_metric_ends_a_run(ran: Run, body: str, verdict: str) -> None:
    text = f"\nclass Odd(Metric):\n    {body}\n" + group("Odd(), Says(word='1')")
    (case,) = ran(text, ["1"])["test_cases"]
    assert [result["verdict"] for result in case["evaluation_results"]] == [verdict, "passed"]


# -- requests ---------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_calls_count_whatever_the_finish_reason(
    rebels: Callable[[str], dict[str, Any]], put: Callable[[str], Path], cli: Cli, tmp_path: Path
) -> None:
    (theirs,) = rebels("quirk_toolstop.json")["test_cases"]
    assert theirs["actual_outputs"][0]["tools_called"] == []
    put(group("JudgeMetric('contains(text=\"x\")')"))
    made = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    with Server([answer(completion(None, tool_calls=[made]))]) as server:
        words = ["--target", "openai", "--base-url", server.url, "--model", "m", "--api-key-env", ""]
        done = cli("run", "tests", *words)
    assert done.code == 0, done.err
    (output,) = report_of(tmp_path / "results")["test_cases"][0]["actual_outputs"]
    assert (output["finish_reason"], output["tools_called"]) == ("stop", [made])


def test_parameters_reach_the_server(put: Callable[[str], Path], cli: Cli, tmp_path: Path) -> None:
    put(group("Says(word=' padded\\n')", api_params="{'model': 'mine', 'stream': False, 'seed': 3}"))
    (tmp_path / "api.json").write_text(json.dumps({"model": "theirs", "temperature": 0.25}))
    with Server([answer(completion(" padded\n"))]) as server:
        words = ["--api-config", "api.json", "--base-url", server.url, "--api-key-env", ""]
        done = cli("run", "tests", *words, "--fail-on-failed-tests")
        sent = server.received[-1].json
    assert done.code == 0, done.err
    assert {name: sent.get(name) for name in ("model", "seed", "temperature")} == {
        "model": "mine",
        "seed": 3,
        "temperature": 0.25,
    }
    assert "stream" not in sent


# -- runs that stop ---------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on(put: Callable[[str], Path], cli: Cli, tmp_path: Path) -> None:
    put(group("Scored()", 4))
    (tmp_path / "bot.py").write_text("def answer(messages): return '1'\n")
    words = ["--journal", "j.jsonl", "--max-calls", "2", "--concurrency", "1"]
    assert cli("run", "tests", "--target", "./bot.py:answer", *words).code == 4
    assert report_of(tmp_path / "results")["metadata"]["attempts"] == 2
    assert cli("resume", "j.jsonl").code == 0
    assert report_of(tmp_path / "results")["metadata"]["attempts"] == 4


def test_two_runs_in_one_second_have_two_reports(
    put: Callable[[str], Path], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(group("Scored()"))
    monkeypatch.setattr("faircount.runs.service.time.strftime", lambda _: "20260102_030405")
    for _ in range(2):
        assert cli("run", "tests", "--target", "simulated").code == 0
    names = sorted(path.name for path in (tmp_path / "results").glob("*.json"))
    assert names == ["test_results_20260102_030405.json", "test_results_20260102_030405_2.json"]


def test_every_difference_in_the_table_leads_to_its_section() -> None:
    headings = {line[3:].lower().replace(" ", "-") for line in PAGE.splitlines() if line.startswith("## ")}
    links = {line.split("](#")[1].split(")")[0] for line in part("In short").splitlines() if "](#" in line}
    assert links <= headings
    assert headings - links == {"in-short"}


# -- DeepEval ---------------------------------------------------------------------------------------------------


def judged_by_deepeval(peer: str, folder: Path, *, program: str) -> tuple[dict[str, Any], Server]:
    """Run a test with a metric of DeepEval's, by REBEL or with the imports changed, and return report and judge."""
    theirs = program == "rebel"
    change = str if theirs else rebel_cases.ours
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "test_good.py").write_text(change(rebel_cases.DEEPEVAL))
    (folder / "client.py").write_text(change(rebel_cases.CLIENT))
    client = ("--api-client-module", "client", "--api-client-class", "Client", "--api-client-args", "{}")
    words = ("--test-dir", "tests", "--output-folder", program, *client)
    with Server([answer(completion('{"score": 8, "reason": "good enough"}'))]) as server:
        if theirs:
            peers.run(peer, folder, "from rebel.cli import main\nmain()", *words, JUDGE_URL=server.url)
        else:
            peers.command(peer, folder, "run", *words, JUDGE_URL=server.url)
    return report_of(folder / program), server


def results_of(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    results = [case["evaluation_results"][0] for case in report["test_cases"]]
    return [(case["score"], case["verdict"], case["reason"]) for case in results]


@pytest.mark.peer
@pytest.mark.parametrize("peer", ["deepeval", "rebel"])
def test_a_metric_of_deepevals_runs_with_its_imports_changed(tmp_path: Path, peer: str) -> None:
    report, judge = judged_by_deepeval(peer, tmp_path, program="faircount")
    assert results_of(report) == [(0.8, "passed", "good enough"), (0.8, "failed", "good enough")]
    assert {asked.json["model"] for asked in judge.received} == {"judge"}
    assert {asked.json["temperature"] for asked in judge.received} == {0.1}
    assert {asked.headers["authorization"] for asked in judge.received} == {"Bearer a-key-of-mine"}
    (metric,) = report["test_cases"][0]["metrics"]
    assert metric["parameters"]["judge_llm"]["model"] == "judge" and metric["version"].startswith("deepeval ")
    assert all("a-key-of-mine" not in path.read_text() for path in tmp_path.rglob("*.json*"))


@pytest.mark.peer
def test_rebel_itself_says_the_same_of_a_metric_of_deepevals(tmp_path: Path) -> None:
    theirs, asked = judged_by_deepeval("rebel", tmp_path, program="rebel")
    ours, asked_by_us = judged_by_deepeval("rebel", tmp_path, program="faircount")
    assert results_of(theirs) == results_of(ours)
    prompts = [sorted(one.json["messages"][0]["content"] for one in each.received) for each in (asked, asked_by_us)]
    assert prompts[0] == prompts[1]


def test_without_deepeval_a_test_file_says_what_to_do(put: Callable[[str], Path], cli: Cli) -> None:
    if is_there("deepeval"):
        pytest.skip("DeepEval is installed")
    put("import deepeval")
    assert "No module named 'deepeval'; install it: pip install deepeval" in cli("plan", "tests").err
    put("from faircount.testing import DeepevalMetric, OpenAIClientLLM\nOpenAIClientLLM({'model': 'm'})")
    done = cli("plan", "tests")
    assert done.code == 3
    assert "OpenAIClientLLM: needs the package deepeval; install it: pip install deepeval" in done.err
