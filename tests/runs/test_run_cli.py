"""`faircount run`, `resume` and `plan`: their words, their exit codes, and what they say where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.app.cli.run import RunProgress
from faircount.runs import Progress
from tests.conftest import Cli
from tests.runs.misbehaving_server import Server, answer, completion, echo_of_headers, failing
from tests.runs.running import METRICS, attempts, records, report_of, write_tests

KEY = "sk-sentinel-Zq81xW0v7Tn4Rr2LmKp9"
PLAN = json.loads(resources.files("faircount.report").joinpath("schemas", "plan-1.json").read_text("utf-8"))

BOT = """\
import pathlib

HERE = pathlib.Path(__file__).parent


def answer(request: "Request"):
    with open(HERE / "asked.log", "a") as file:
        file.write(f"{request.case} {request.attempt}\\n")
    return "4"


class Bot:
    def __init__(self, word="4", api_key=""):
        self.word = word

    def answer(self, messages, **parameters):
        return f"{self.word} {sorted(parameters)}"


async def fails(request: "Request"):
    raise RuntimeError("no, never")
"""

# The shape of REBEL's own example: a metric class with fields, system and user message, a grid, two groups.
EXAMPLE = """\
from faircount.testing import (
    AssistantInput, AssistantOutput, EvaluationResult, EvaluationVerdict, Message, Metric, ParameterGrid,
    RetryAggregationStrategy, RetryParams, RoleEnum, TestGroup, test_case,
)


class CorrectCount(Metric):
    case_sensitive: bool = False

    def measure(self, input: AssistantInput, expected: AssistantOutput, actual: AssistantOutput) -> EvaluationResult:
        right = expected.output in actual.output
        return EvaluationResult(
            score=1.0 if right else 0.0,
            verdict=EvaluationVerdict.PASSED if right else EvaluationVerdict.FAILED,
            reason=f"asked by {input.messages[-1].role}, expected {expected.output}",
        )

    def get_name(self) -> str:
        return "Correct count"


class Short(Metric):
    limit: int = 100

    def measure(self, input, expected, actual):
        short = len(actual.output) <= self.limit
        return EvaluationResult(score=float(short), verdict="passed" if short else "failed", reason="")

    def get_name(self):
        return "Short"


@test_case(
    messages=[
        Message(role=RoleEnum.system, content="You are a helpful assistant."),
        Message(role=RoleEnum.user, content="Count the letter r in strawberry."),
    ],
    tags=["letters"],
    expected_output=AssistantOutput(output="3"),
    api_params={"temperature": 0.7},
    param_grid=ParameterGrid(parameters={"max_tokens": [100, 200]}),
)
def test_letters():
    yield TestGroup(
        metrics=[CorrectCount(), Short()],
        retry_params=RetryParams(count=3, aggregation_strategy=RetryAggregationStrategy.MEAN),
        tags=["primary"],
    )
    yield TestGroup(
        metrics=[Short(limit=1)], retry_params=RetryParams(count=2, aggregation_strategy="median"), postfix="short"
    )
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test file of three cases, four attempts each, in which the program runs."""
    write_tests(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


@pytest.fixture
def server() -> Iterator[Server]:
    with Server([answer(completion("It is 4."))]) as running:
        yield running


def asked(place: Path) -> list[str]:
    log = place / "asked.log"
    return log.read_text().splitlines() if log.exists() else []


def the_journal(place: Path) -> Path:
    (path,) = (place / "results").glob("run_*.jsonl")
    return path


def header(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = records(the_journal(place))[0]
    return found


# -- help -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "resume", "plan"])
def test_help_comes_at_once(command: str) -> None:
    heavy = ("numpy", "asyncio", "duckdb", "aiohttp", "rich", "faircount.runs.lifecycle", "faircount.testing")
    script = (
        "import sys\n"
        "from faircount.__main__ import run\n"
        f"sys.argv = ['faircount', {command!r}, '--help']\n"
        "try: run()\n"
        f"finally: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    assert "exit codes: 0 success" in done.stdout


# -- run --------------------------------------------------------------------------------------------------------


def test_a_run_prints_its_analysis_and_says_where_everything_is(here: Path, cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "simulated")
    assert ran.code == 0, ran.err
    assert "Passed" in ran.out
    assert "attack" not in ran.out.lower()
    assert f"journal: results/{the_journal(here).name}" in ran.err
    (report,) = (here / "results").glob("test_results_*.json")
    assert f"report: results/{report.name}" in ran.err
    assert len(attempts(the_journal(here))) == 12


def test_the_example_of_rebel_runs_with_its_imports_changed(here: Path, cli: Cli) -> None:
    (here / "tests" / "test_sums.py").write_text(EXAMPLE)
    assert cli("run", "tests", "--target", "simulated").code == 0
    document = report_of(here / "results")
    assert [entry["name"] for entry in document["test_cases"]] == [
        "test_letters_[max_tokens=100]",
        "test_letters_[max_tokens=200]",
        "test_letters_short_[max_tokens=100]",
        "test_letters_short_[max_tokens=200]",
    ]
    first, *_, last = document["test_cases"]
    assert first["tags"] == ["letters", "primary"]
    assert first["input"]["api_params"] == {"temperature": 0.7, "max_tokens": 100}
    assert len(first["evaluation_results"]) == 6
    assert first["evaluation_results"][0]["reason"].endswith("expected 3")
    assert last["retry_params"] == {"count": 2, "aggregation_strategy": "median"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["tests/test_sums.py"], 3),
        (["--test-dir", "tests"], 3),
        (["tests/test_sums.py::test_sum"], 3),
        (["tests", "--keyword", "seed=1"], 1),
        (["tests", "--keyword", "sum and not seed=1"], 2),
        (["tests", "--case", "test_sum_[seed=2]"], 1),
        (["tests", "--tags", "other,sums"], 3),
        (["tests", "--exclude-tags", "other"], 3),
    ],
)
def test_tests_are_chosen(here: Path, cli: Cli, words: list[str], names: int) -> None:
    ran = cli("run", *words, "--target", "simulated", "--retries", "1")
    assert ran.code == 0, ran.err
    assert report_of(here / "results")["metadata"]["total_test_cases"] == names


def test_how_often_and_how_to_aggregate_can_be_told(here: Path, cli: Cli) -> None:
    assert cli("run", "tests", "--target", "simulated", "--retries", "5", "--aggregation", "pass@2").code == 0
    for entry in report_of(here / "results")["test_cases"]:
        assert entry["retry_params"] == {"count": 5, "aggregation_strategy": "pass@2"}
        assert len(entry["actual_outputs"]) == 5


def test_journal_and_report_go_where_they_are_told(here: Path, cli: Cli) -> None:
    words = ["--journal", "deep/er/my.jsonl", "--output-folder", "a/b", "--report-layout", "per-metric"]
    assert cli("run", "tests", "--target", "simulated", *words).code == 0
    assert len(attempts(here / "deep/er/my.jsonl")) == 12
    assert report_of(here / "a/b")["metadata"]["total_test_cases"] == 6
    assert not (here / "results").exists()
    again = cli("run", "tests", "--target", "simulated", *words)
    assert again.code == 2
    assert "already exists" in again.err


def test_limits_are_recorded_with_the_run(here: Path, cli: Cli) -> None:
    words = [
        "--concurrency",
        "3",
        "--requests-per-minute",
        "60000",
        "--timeout",
        "7",
        "--tries",
        "2",
        "--max-calls",
        "99",
    ]
    words += ["--max-cost", "5", "--stop-after-errors", "4"]
    assert cli("run", "tests", "--target", "simulated", *words).code == 0
    limits = header(here)["settings"]["limits"]
    assert (limits["concurrency"], limits["requests_per_minute"], limits["max_calls"]) == (3, 60000.0, 99)
    assert (limits["max_cost"], limits["stop_after_errors"]) == (5.0, 4)
    assert limits["timeout"] >= 14


def test_a_target_of_ones_own_takes_arguments(here: Path, cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:Bot", "--target-args", '{"word": "e4"}', "--retries", "1")
    assert ran.code == 0, ran.err
    document = report_of(here / "results")
    assert document["metadata"]["cases"]["passed"] == 3
    assert document["test_cases"][0]["actual_outputs"][0]["output"] == "e4 ['seed']"


@pytest.mark.parametrize("output_format", ["console", "json", "markdown"])
@pytest.mark.usefixtures("here")
def test_the_analysis_comes_in_every_format_and_alone_on_standard_output(cli: Cli, output_format: str) -> None:
    ran = cli("run", "tests", "--target", "simulated", "--output-format", output_format)
    assert ran.code == 0
    if output_format == "json":
        assert json.loads(ran.out)["kind"] == "analysis"
    assert "journal:" not in ran.out


@pytest.mark.usefixtures("here")
def test_paths_may_stand_between_options(here: Path, cli: Cli) -> None:
    (here / "more").mkdir()
    (here / "more" / "test_more.py").write_text(
        "from faircount.testing import JudgeMetric, Message, TestGroup, test_case\n"
        "@test_case(messages=[Message(role='user', content='hello')])\n"
        "def test_more():\n"
        "    yield TestGroup(metrics=[JudgeMetric(judge='refusal', passes_on='pass')])\n"
    )
    ran = cli("plan", "tests", "--retries", "1", "more", "--output-format", "json")
    assert ran.code == 0
    assert "test_more_[]" in [case["name"] for case in json.loads(ran.out)["cases"]]


# -- exit codes -------------------------------------------------------------------------------------------------


def test_failed_tests_are_no_failure_unless_asked(here: Path, cli: Cli) -> None:
    words = ["run", "tests", "--target", "./bot.py:answer"]
    assert cli(*words).code == 0
    ran = cli(*words, "--fail-on-failed-tests")
    assert ran.code == 1
    assert "3 of 3 cases failed" in ran.err
    assert cli("resume", str(next((here / "results").glob("*.jsonl"))), "--fail-on-failed-tests").code == 1
    assert cli(*words, "--fail-on-failed-tests", "--aggregation", "max").code == 0


def test_a_run_without_a_single_answer_is_complete_nevertheless(here: Path, cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:fails")
    assert ran.code == 0
    assert report_of(here / "results")["metadata"]["errors"] == 12
    assert cli("run", "tests", "--target", "./bot.py:fails", "--fail-on-failed-tests").code == 0, "nothing was decided"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--max-calls", "3"], "--max-calls: 3 requests were sent"),
        (["--target", "./bot.py:fails", "--stop-after-errors", "2"], "2 requests in a row failed"),
        (["--target", "./bot.py:answer", "--max-cost", "1"], "the price of the model is not known"),
        (["--target", "simulated(price=1000000)", "--max-cost", "20"], "of 20 was spent"),
    ],
)
def test_a_limit_that_is_reached_ends_with_4_and_says_how_to_go_on(
    here: Path, cli: Cli, words: list[str], why: str
) -> None:
    ran = cli("run", "tests", "--target", "simulated", "--concurrency", "1", *words)
    assert ran.code == 4
    assert why in ran.err
    assert f"resume with: faircount resume results/{the_journal(here).name}" in ran.err
    assert report_of(here / "results")["metadata"]["complete"] is False


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "nothing to run"),
        (["tests"], 2, "no target given"),
        (["tests", "--target", "nothing"], 2, "nothing: no such target"),
        (["tests", "--target", "openai"], 2, "no model given"),
        (["tests", "--target", "./gone.py:answer"], 2, "gone.py"),
        (["tests", "--target", "./bot.py:gone"], 2, "has no gone"),
        (["tests", "--target", "simulated", "--retries", "0"], 2, "--retries"),
        (["tests", "--target", "simulated", "--aggregation", "best"], 2, 'no such aggregation: "best"'),
        (["tests", "--target", "simulated", "--aggregation", "pass@9"], 2, "pass@9 needs 9 attempts"),
        (["tests", "--target", "simulated", "--concurrency", "0"], 2, "--concurrency must be 1 or more"),
        (["tests", "--target", "simulated", "--num-workers-api", "-1"], 2, "--concurrency must be 1 or more"),
        (["tests", "--target", "simulated", "--timeout", "nan"], 2, "--timeout must be more than 0"),
        (["tests", "--target", "simulated", "--timeout", "inf"], 2, "--timeout must be more than 0"),
        (["tests", "--target", "simulated", "--tries", "0"], 2, "--tries must be 1 or more, not 0"),
        (["tests", "--target", "simulated", "--max-cost", "-1"], 2, "--max-cost must be more than 0, not -1.0"),
        (["tests", "--target", "simulated", "--max-calls", "many"], 2, "--max-calls"),
        (["tests", "--target", "simulated", "--report-layout", "odd"], 2, "--report-layout"),
        (["tests", "--target", "simulated", "--concurency", "3"], 2, "did you mean --concurrency?"),
        (["tests", "--target", "simulated", "--target-args", "{"], 2, "--target-args"),
        (["tests", "--target", "simulated", "--config", "gone.toml"], 2, "gone.toml: no such file"),
        (["tests", "--api-config", "gone.json"], None, "gone.json"),
        (["tests", "--api-client-module", "m"], 2, "--api-client-class"),
        (["tests", "--target", "simulated", "--keyword", "no_such"], 2, "--keyword no_such selects none of 3 cases"),
        (["tests", "--target", "simulated", "--keyword", "a and"], 2, "the keyword expression cannot be parsed"),
        (["gone", "--target", "simulated"], 3, "gone"),
        (["tests/test_sums.py::test_gone", "--target", "simulated"], 3, "no test named test_gone"),
        (["bot.py", "--target", "simulated"], 3, "no cases"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_written(
    here: Path, cli: Cli, words: list[str], code: int | None, told: str
) -> None:
    ran = cli("run", *words)
    assert ran.code == code or (code is None and ran.code in (2, 3)), ran.err
    assert told in ran.err
    assert "bug" not in ran.err
    assert not (here / "results").exists()


def test_a_file_that_cannot_be_loaded_is_told_with_its_line(here: Path, cli: Cli) -> None:
    (here / "tests" / "test_broken.py").write_text("x = 1\nimport no_such_module\n")
    ran = cli("run", "tests", "--target", "simulated")
    assert ran.code == 3
    assert "tests/test_broken.py:2: cannot be loaded: ModuleNotFoundError" in ran.err
    assert not (here / "results").exists()


def test_an_empty_folder_has_no_tests(here: Path, cli: Cli) -> None:
    (here / "empty").mkdir()
    ran = cli("run", "empty", "--target", "simulated")
    assert ran.code == 3
    assert "empty" in ran.err


def test_a_key_that_is_missing_is_told_before_anything_is_written(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = cli("run", "tests", "--target", "openai", "--model", "m")
    assert ran.code == 2
    assert "OPENAI_API_KEY" in ran.err
    assert not (here / "results").exists()


def test_a_metric_that_is_not_ready_is_told_before_anything_is_written(here: Path, cli: Cli) -> None:
    file = here / "tests" / "test_sums.py"
    file.write_text(file.read_text().replace('word: str = "4"\n', 'word: str = "4"\n\n    def ready(self): 1 / 0\n'))
    ran = cli("run", "tests", "--target", "simulated")
    assert ran.code == 3
    assert "the metric has 4 is not ready: ZeroDivisionError" in ran.err
    assert not (here / "results").exists()


def test_a_folder_that_cannot_be_made_is_told(here: Path, cli: Cli) -> None:
    (here / "file").write_text("")
    ran = cli("run", "tests", "--target", "simulated", "--output-folder", "file/x")
    assert ran.code == 2
    assert "cannot be created" in ran.err


def test_a_report_that_cannot_be_written_is_told_and_comes_with_the_next_resume(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faircount.io import NewFile

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(NewFile, "_publish", full)
        ran = cli("run", "tests", "--target", "simulated")
    assert ran.code == 2
    assert "No space left on device; the results are safe in the journal" in ran.err
    assert "Passed" in ran.out
    assert len(attempts(the_journal(here))) == 12
    assert [path.name for path in (here / "results").iterdir()] == [the_journal(here).name]
    assert cli("resume", str(the_journal(here))).code == 0
    assert report_of(here / "results")["metadata"]["complete"] is True


def test_nobody_reading_the_analysis_changes_neither_the_run_nor_its_code(here: Path) -> None:
    words = [sys.executable, "-m", "faircount", "run", "tests", "--target", "simulated", "--max-calls", "3"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=here)
    os.close(writing)
    assert done.returncode == 4, done.stderr
    assert "resume with" in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    silent = subprocess.run([*words[:-2], "--journal", "j2"], stdout=writing, stderr=writing, cwd=here)
    os.close(writing)
    assert silent.returncode == 0
    assert len(attempts(here / "j2")) == 12


# -- REBEL's words ----------------------------------------------------------------------------------------------


def test_rebels_flags_work(here: Path, cli: Cli, server: Server) -> None:
    (here / "model.json").write_text(json.dumps({"api_key": KEY, "base_url": server.url, "model": "m"}))
    words = ["--test-dir", "tests", "--output-folder", "out", "--api-config", "model.json"]
    ran = cli("run", *words, "--num-workers-api", "4", "--num-workers-eval", "4", "--keyword", "seed", "--tags", "sums")
    assert ran.code == 0, ran.err
    document = report_of(here / "out")
    assert document["metadata"]["settings"]["limits"]["concurrency"] == 4
    assert document["test_cases"][0]["actual_outputs"][0]["output"] == "It is 4."
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in server.received)
    for path in (here / "out").iterdir():
        assert KEY not in path.read_text()
    assert KEY not in ran.out + ran.err


def test_a_client_written_for_rebel_works(here: Path, cli: Cli) -> None:
    (here / "my_clients.py").write_text(
        """\
from faircount.testing import APIClient, AssistantInput, AssistantOutput


class MyClient(APIClient):
    def __init__(self, word, api_key):
        self.word = word

    def request(self, input: AssistantInput) -> AssistantOutput:
        return AssistantOutput(output=f"{self.word} {input.messages[-1].content} {input.api_params}")
"""
    )
    told = json.dumps({"word": "hey 4", "api_key": KEY})
    words = ["--api-client-module", "my_clients", "--api-client-class", "MyClient", "--api-client-args", told]
    ran = cli("run", "tests", *words, "--retries", "1")
    assert ran.code == 0, ran.err
    document = report_of(here / "results")
    assert document["test_cases"][0]["actual_outputs"][0]["output"] == "hey 4 What is 2 + 2? {'seed': 0}"
    for path in (here / "results").iterdir():
        assert KEY not in path.read_text()


# -- a server ---------------------------------------------------------------------------------------------------


def test_a_server_is_asked_and_what_it_tells_is_kept(here: Path, cli: Cli, server: Server) -> None:
    server.script = [failing(500), answer(completion("It is 4."))]
    words = ["--target", "openai", "--base-url", server.url, "--model", "m", "--tries", "3", "--concurrency", "2"]
    (here / "c.toml").write_text('[chat]\nbackoff = 0.0\n[prices."m-2024-08-06"]\nprompt = 1.0\ncompletion = 1.0\n')
    ran = cli("run", "tests", *words, "--config", "c.toml")
    assert ran.code == 0, ran.err
    document = report_of(here / "results")
    assert document["metadata"]["transport_retries"] == 1
    assert document["metadata"]["errors"] == 0
    assert document["metadata"]["usage"]["prompt_tokens"] == 12 * 7
    assert document["metadata"]["usage"]["cost"] == pytest.approx(12 * 10 / 1_000_000)
    output = document["test_cases"][0]["actual_outputs"][0]
    assert (output["model"], output["finish_reason"]) == ("m-2024-08-06", "stop")
    assert len(server.received) == 13
    assert server.received[0].json["messages"] == [{"role": "user", "content": "What is 2 + 2?"}]
    assert {one.json["seed"] for one in server.received} == {0, 1, 2}
    assert server.most_at_once <= 2


@pytest.mark.parametrize("status", [200, 401])
def test_a_server_that_repeats_the_key_puts_it_into_no_file(here: Path, cli: Cli, server: Server, status: int) -> None:
    server.script = [echo_of_headers(status)]
    ran = cli("run", "tests", "--target", "openai", "--base-url", server.url, "--model", "m", "--tries", "1")
    assert ran.code == 0, ran.err
    assert len(server.received) >= 1
    for path in (here / "results").iterdir():
        assert KEY not in path.read_text()
    assert KEY not in ran.out + ran.err


def test_a_key_in_the_calls_of_tools_is_in_no_file(here: Path, cli: Cli, server: Server) -> None:
    call = {"id": KEY, "type": "function", "function": {"name": "send", "arguments": json.dumps({"to": KEY})}}
    server.script = [answer(completion(f"My key is {KEY}.", tool_calls=[call], model=KEY))]
    ran = cli("run", "tests", "--target", "openai", "--base-url", server.url, "--model", "m", "--tries", "1")
    assert ran.code == 0, ran.err
    written = [path.read_text() for path in (here / "results").iterdir()]
    assert any("My key is [key]." in text for text in written)
    assert not any(KEY in text for text in (*written, ran.out, ran.err))


@pytest.mark.parametrize("target", ["openai", "simulated"])
@pytest.mark.parametrize("address", ["{url}?api-key={key}", "{url}/{key}"])
def test_a_key_in_the_address_is_refused_before_a_journal_is_begun(
    here: Path, cli: Cli, server: Server, target: str, address: str
) -> None:
    url = address.format(url=server.url, key=KEY)
    ran = cli("run", "tests", "--target", target, "--base-url", url, "--model", "m")
    assert ran.code == 2
    assert "contains a key or what looks like one" in ran.err
    assert KEY not in ran.out + ran.err
    assert not (here / "results").exists()


def test_a_run_against_a_server_is_resumed_with_a_key_from_the_environment(
    here: Path, cli: Cli, server: Server
) -> None:
    words = ["--target", "openai", "--base-url", server.url, "--model", "m", "--max-calls", "5", "--concurrency", "1"]
    assert cli("run", "tests", *words).code == 4
    ran = cli("resume", str(the_journal(here)), "--max-calls", "50", "--concurrency", "4")
    assert ran.code == 0, ran.err
    assert len(server.received) == 12
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in server.received)


def test_the_model_that_judges_ask_is_remembered(here: Path, cli: Cli, server: Server) -> None:
    server.script = [answer(completion('{"verdict": "hit", "score": 1.0, "reason": "so"}'))]
    file = here / "tests" / "test_sums.py"
    text = file.read_text().replace(
        'Has(word="4"), Has(word="e")', 'JudgeMetric(judge="llm(rubric=\\"Is it right?\\")")'
    )
    file.write_text("from faircount.testing import JudgeMetric\n" + text)
    words = ["--target", "simulated", "--model", "judge-1", "--base-url", server.url, "--max-calls", "2"]
    ran = cli("run", "tests", *words, "--concurrency", "1")
    assert ran.code == 4, ran.err
    ran = cli("resume", str(the_journal(here)), "--max-calls", "50")
    assert ran.code == 0, ran.err
    assert {one.json["model"] for one in server.received} == {"judge-1"}
    assert len(server.received) >= 12


# -- plan -------------------------------------------------------------------------------------------------------


def test_a_plan_calls_nothing_and_writes_nothing(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = cli("plan", "tests", "--target", "./bot.py:answer", "--retries", "7")
    assert ran.code == 0, ran.err
    assert asked(here) == []
    assert not (here / "results").exists()
    assert "test_sum_[seed=1]" in ran.out
    assert cli("run", "tests", "--target", "./bot.py:answer", "--retries", "7").code == 0
    assert len(asked(here)) == 21, "the target would have told"


def test_a_plan_estimates_cost_from_prices(here: Path, cli: Cli) -> None:
    (here / "c.toml").write_text('[prices."m"]\nprompt = 10.0\ncompletion = 20.0\n')
    ran = cli("plan", "tests", "--model", "m", "--config", "c.toml", "--output-format", "json")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    jsonschema.validate(plan, PLAN)
    assert (plan["calls"], plan["measurements"]) == (12, 24)
    prompt = 4 + -(-len("What is 2 + 2?") // 4)
    assert plan["prompt_tokens"] == 12 * prompt
    assert plan["cost"] == pytest.approx((12 * prompt * 10 + 12 * 256 * 20) / 1_000_000)
    assert [one["name"] for one in plan["cases"]] == [f"test_sum_[seed={seed}]" for seed in range(3)]


@pytest.mark.usefixtures("here")
def test_a_plan_without_a_price_says_so(cli: Cli) -> None:
    ran = cli("plan", "tests", "--model", "no-such-model", "--output-format", "json")
    plan = json.loads(ran.out)
    jsonschema.validate(plan, PLAN)
    assert plan["cost"] is None
    assert "no price for no-such-model" in cli("plan", "tests", "--model", "no-such-model").out
    assert "no model is named" in cli("plan", "tests").out


def test_a_plan_can_be_a_page(here: Path, cli: Cli) -> None:
    assert cli("plan", "tests", "--output-format", "html").code == 2
    assert cli("plan", "tests", "--output-format", "html", "-o", "plan.html").code == 0
    assert "test_sum_[seed=1]" in (here / "plan.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("here")
def test_a_plan_refuses_what_a_run_would_refuse(cli: Cli) -> None:
    assert cli("plan", "tests", "--aggregation", "best").code == 2
    assert cli("plan", "gone").code == 3


def test_the_answers_that_a_case_limits_are_planned_so(here: Path, cli: Cli) -> None:
    (here / "tests" / "test_sums.py").write_text(
        f"""{METRICS}
@test_case(messages=[Message(role=RoleEnum.user, content="x" * 400)], api_params={{"max_tokens": 9, "model": "big"}})
def test_x():
    yield TestGroup(metrics=[Has()], retry_params=RetryParams(count=2))
"""
    )
    plan = json.loads(cli("plan", "tests", "--model", "small", "--output-format", "json").out)
    (one,) = plan["cases"]
    assert (one["model"], one["prompt_tokens"], one["completion_tokens"]) == ("big", 2 * 104, 18)


# -- progress ---------------------------------------------------------------------------------------------------


def _tally(done: int) -> Progress:
    return Progress(total=100, done=done, passed=done // 2, failed=done - done // 2, retries=3, cost=0.25, errors=0)


def _show(*numbers: int) -> None:
    progress = RunProgress()
    progress.begin("j.jsonl", entries=False)
    for done in numbers:
        progress.progress(_tally(done))
    progress.end()


def test_progress_is_plain_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircount.app.cli.run._EVERY_ELSEWHERE", 0.0)
    _show(10, 20, 100)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["faircount: 10/100", "faircount: 20/100", "faircount: 100/100"]
    assert "passed 50% [24, 76] of 10" in lines[0]
    assert "3 retried" in lines[0]
    assert "0.2500 spent" in lines[0]
    assert "per second" in lines[0]
    assert "left" in lines[0]
    assert "\x1b" not in "".join(lines)


@pytest.mark.usefixtures("here")
def test_a_short_run_says_nothing_of_its_progress(cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "simulated")
    assert "left" not in ran.err


def test_on_a_terminal_one_line_renews_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("faircount.app.cli.run._EVERY_ON_A_TERMINAL", 0.0)
    _show(10, 20)
    err = capsys.readouterr().err
    assert err.count("\r\x1b[2K") == 3
    assert "\n" not in err


def test_progress_that_nobody_can_hear_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def isatty(self) -> bool:
            return True

        def write(self, _: str) -> None:
            tried.append(None)
            raise BrokenPipeError

    tried: list[None] = []
    monkeypatch.setattr("sys.stderr", Closed())
    monkeypatch.setattr("faircount.app.cli.run._EVERY_ON_A_TERMINAL", 0.0)
    _show(10)
    assert tried


def test_a_long_run_tells_how_far_it_is(here: Path) -> None:
    script = (
        "import faircount.app.cli.run as p, sys\n"
        "p._EVERY_ELSEWHERE = 0.05\n"
        "from faircount.app.cli import main\n"
        "sys.exit(main(['run', 'tests', '--target', 'simulated(latency=0.1)', '--concurrency', '2']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if " left" in line]
    assert len(told) >= 2
    assert told[-1].startswith("faircount: 12/12, ")
    assert "left" not in done.stdout


def test_a_run_that_ended_after_two_interrupts_may_write_its_report() -> None:
    def timers() -> list[threading.Timer]:
        return [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.finished.is_set()]

    progress = RunProgress()
    progress.begin("j.jsonl", entries=False)
    progress.interrupted(2)
    assert len(timers()) == 1
    progress.end()
    assert timers() == []


def test_a_run_of_a_dataset_with_a_journal_of_its_own_makes_no_other_folder(here: Path, cli: Cli) -> None:
    (here / "data.jsonl").write_text('{"id": 1, "text": "Say OK.", "judge_name": "canary", "judge_args": "OK"}\n')
    assert cli("run", "data.jsonl", "--target", "simulated", "--journal", "mine.jsonl").code == 0
    assert (here / "mine.jsonl").exists()
    assert not (here / "results").exists()
