"""What a run of tests is read for: the cases that failed and those that are not steady, before any figure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.analysis import CASES_SHOWN, FAILED_CASES_IN_FULL
from faircount.report import console, documents, html, markdown
from tests.analysis.test_analysis import SCHEMA
from tests.conftest import Cli, Write, analysis_of, report_of, standard
from tests.report.test_html import Page
from tests.report.test_present import HOSTILE, harmless
from tests.runs.run_files import HEADER, attempt, case, unanswered
from tests.runs.running import write_tests

KEY = "sk-abcdefghijklmnopqrstuvwxyz"
BOT = """\
def wrong(request: "Request"):
    return "five, I think"


def partly(request: "Request"):
    return "4e" if request.attempt % 2 else "4"


def right(request: "Request"):
    return "4, yes"


def fails(request: "Request"):
    raise RuntimeError("no key SECRET\\x1b[2J".replace("SECRET", "sk-" + "abcdefghijklmnopqrstuvwxyz"))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test of three cases, four attempts each, and targets that pass, fail or break."""
    write_tests(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def journal(write: Write, verdicts: dict[str, str], **fields: Any) -> str:
    """Write a run with a case for each name, whose attempts end as the letters say; `!` is one without an answer."""
    lines: list[dict[str, Any]] = [HEADER]
    for name, letters in verdicts.items():
        lines.append(case(name, count=len(letters), prompt=f"the question of {name}"))
        for number, letter in enumerate(letters):
            lines.append(unanswered(name, number) if letter == "!" else attempt(name, number, letter, **fields))
    return write(lines, "run.jsonl")


def sections(path: str, **options: Any) -> dict[str, str]:
    text = console.render(report_of(path, **options), width=120)
    parts = [part.strip("\n") for part in re.split(r"\n\n(?=\S)", text)]
    return {part.split("\n")[0]: part for part in parts}


# -- the report -------------------------------------------------------------------------------------------------


def test_failed_cases_come_first_with_what_was_asked_answered_and_measured(write: Write) -> None:
    path = journal(write, {"test_good_[]": "p", "test_bad_[]": "f", "test_mixed_[]": "pff", "test_down_[]": "!"})
    told = sections(path)
    assert list(told)[1:4] == ["Failed cases (3 of 4)", "Flaky cases", "General"]
    assert told["Failed cases (3 of 4)"].split("\n\n")[1:] == [
        "  test_bad_[] (line 5)\n"
        "    prompt: the question of test_bad_[]\n"
        "    answer: answer 0\n"
        "    metrics: Correct: failed (0.0), because of Correct",
        "  test_mixed_[] (line 9)\n"
        "  passed 1 of 3 attempts\n"
        "    prompt: the question of test_mixed_[]\n"
        "    answer: answer 1\n"
        "    metrics: Correct: failed (0.0), because of Correct",
        "  test_down_[] (line 11)\n    prompt: the question of test_down_[]\n    error: status: HTTP 503",
    ]
    assert re.search(r"^  test_mixed_\[\] +1 +3$", told["Flaky cases"], re.MULTILINE)
    assert "test_good_[]" not in told["Failed cases (3 of 4)"] + told["Flaky cases"]


def test_a_run_that_passed_has_no_such_sections(write: Write) -> None:
    told = sections(journal(write, {"test_a_[]": "pp", "test_b_[]": "p"}))
    assert not [title for title in told if title.startswith(("Failed", "Flaky"))]
    assert "100% of 2 tests passed (95% interval 34–100%)." in told["Analysis of run"]


def test_a_case_that_passed_in_the_end_is_flaky_but_not_failed(write: Write) -> None:
    analysis = analysis_of(journal(write, {"test_a_[]": "ppf", "test_b_[]": "pp"}))
    assert analysis.failed_cases is not None and analysis.failed_cases.total == 0
    assert [(c.entry, c.passed, c.tries) for c in analysis.flaky_cases] == [("test_a_[]", 2, 3)]


def test_an_overview_has_neither(write: Write) -> None:
    told = sections(journal(write, {"test_a_[]": "pff", "test_b_[]": "f"}), overview=True)
    assert not [title for title in told if title.startswith(("Failed", "Flaky"))]


def test_many_failed_cases_are_bounded_and_their_number_is_told(write: Write) -> None:
    count = CASES_SHOWN + 7
    path = journal(write, {f"test_{number:03}_[]": "f" for number in range(count)})
    analysis = analysis_of(path)
    assert analysis.failed_cases is not None
    assert (analysis.failed_cases.total, len(analysis.failed_cases.cases)) == (count, CASES_SHOWN)
    assert [shown.entry for shown in analysis.failed_cases.cases] == [f"test_{n:03}_[]" for n in range(CASES_SHOWN)]
    told = sections(path)[f"Failed cases ({count} of {count})"]
    assert told.count("prompt:") == FAILED_CASES_IN_FULL
    assert f"  {FAILED_CASES_IN_FULL} of {count} failed cases\n" in told


def test_the_document_names_failed_and_flaky_cases(write: Write) -> None:
    path = journal(write, {"test_bad_[]": "f", "test_mixed_[]": "pff", "test_down_[]": "!", "test_good_[]": "p"})
    document = json.loads(documents.as_json(report_of(path)))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    (told,) = document["analyses"]
    measured = "Correct: failed (0.0), because of Correct"
    assert told["role"] == "tests" and told["failed_cases"]["total"] == 3
    assert told["failed_cases"]["cases"] == [
        {"entry": "test_bad_[]", "place": f"{path}:3", "measured": measured, "error": None, "passed": 0, "tries": 1},
        {"entry": "test_mixed_[]", "place": f"{path}:7", "measured": measured, "error": None, "passed": 1, "tries": 3},
        {
            "entry": "test_down_[]",
            "place": f"{path}:9",
            "measured": None,
            "error": "status: HTTP 503",
            "passed": None,
            "tries": None,
        },
    ]
    assert told["flaky_cases"] == [{"entry": "test_mixed_[]", "place": f"{path}:7", "passed": 1, "tries": 3}]


def test_attacks_have_no_cases(write: Write) -> None:
    told = analysis_of(write([standard(1), standard(2, success=True)]))
    assert (told.failed_cases, told.flaky_cases) == (None, ())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_and_names_act_nowhere(write: Write, text: str) -> None:
    lines = [HEADER, case(f"test_{text}", prompt=text), attempt(f"test_{text}", 0, "f")]
    lines[-1]["output"]["output"] = text
    lines[-1]["verdicts"][0]["reason"] = text
    path = write(lines, "run.jsonl")
    failed = analysis_of(path).failed_cases
    assert failed is not None and failed.total == 1
    report = report_of(path)
    assert harmless(console.render(report)) and harmless(markdown.render(report))
    page = Page(html.render(report))
    assert harmless(page.text) and not {"script", "img", "iframe"} & {*page.elements}


def test_secrets_of_failed_cases_are_masked(write: Write) -> None:
    lines = [HEADER, case("test_a_[]", prompt=f"use {KEY}"), attempt("test_a_[]", 0, "f")]
    lines[-1]["output"]["output"] = f"I used {KEY}"
    lines[-1]["verdicts"][0]["reason"] = f"it said {KEY}"
    lines += [case("test_b_[]"), unanswered("test_b_[]", message=f"denied for {KEY}")]
    report = report_of(write(lines, "run.jsonl"))
    shown = console.render(report)
    assert KEY not in shown + html.render(report) + documents.as_json(report)
    assert shown.count("sk-…[masked]") >= 4


# -- the end of a run -------------------------------------------------------------------------------------------


def ending(err: str) -> list[str]:
    return [line.removeprefix("faircount: ") for line in err.splitlines() if "FAILED" in line or "failed" in line]


def test_a_run_ends_with_a_line_for_each_case_that_failed(here: Path, cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:wrong")
    assert ran.code == 0
    reason = "has 4: failed (0.0), looked; has e: passed (1.0), looked"
    assert ending(ran.err) == [
        *(f"FAILED test_sum_[seed={number}]: {reason}" for number in range(3)),
        "3 of 3 cases failed",
    ]
    assert "FAILED" not in ran.out and "Failed cases (3 of 3)" in ran.out
    assert "answer: five, I think" in ran.out
    assert (here / "results").is_dir()


@pytest.mark.usefixtures("here")
def test_a_run_that_passes_says_nothing_of_failing(cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:right", "--fail-on-failed-tests")
    assert (ran.code, ending(ran.err)) == (0, [])
    assert "Failed cases" not in ran.out


@pytest.mark.usefixtures("here")
def test_unsteady_cases_are_told(cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:partly", "--aggregation", "min")
    assert ran.code == 0
    flaky = ran.out.partition("Flaky cases\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (test_sum_\[seed=\d\]) +2 +4$", flaky, re.MULTILINE) == [
        f"test_sum_[seed={number}]" for number in range(3)
    ]
    assert len(ending(ran.err)) == 4


@pytest.mark.usefixtures("here")
def test_errors_are_reasons_masked_visible_and_short(cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:fails")
    assert ran.code == 0
    lines = ending(ran.err)
    assert [line.partition(": ")[0] for line in lines[:3]] == [
        f"FAILED test_sum_[seed={number}]" for number in range(3)
    ]
    assert all("no key sk-…[masked]" in line and len(line) < 300 for line in lines[:3])
    assert KEY not in ran.out + ran.err and "\x1b" not in ran.out + ran.err


@pytest.mark.usefixtures("here")
def test_failed_cases_end_with_1_if_that_is_asked_for(cli: Cli) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:wrong", "--fail-on-failed-tests")
    assert ran.code == 1
    assert ran.err.rstrip().endswith("--fail-on-failed-tests: 3 of 3 cases failed")


@pytest.mark.parametrize("words", [[], ["-o", "page.html"]])
def test_a_run_can_end_with_a_page(here: Path, cli: Cli, words: list[str]) -> None:
    run = ["run", "tests", "--target", "./bot.py:wrong", "--journal", "run.jsonl", "--output-format", "html", *words]
    ran = cli(*run)
    assert ran.code == 0, ran.err
    name = words[1] if words else "run_analysis.html"
    assert ran.out == f"{name}\n"
    text = (here / name).read_text("utf-8")
    assert html.is_ours(text) and "Failed cases (3 of 3)" in text and "five, I think" in text
    assert "<svg" in text and "--output-format html" in text and "SHA-256" in text
    assert len(ending(ran.err)) == 4


@pytest.mark.parametrize("output_format", ["markdown", "json", "console"])
def test_an_analysis_of_a_run_goes_where_it_is_told(here: Path, cli: Cli, output_format: str) -> None:
    ran = cli("run", "tests", "--target", "./bot.py:wrong", "--output-format", output_format, "-o", "analysis")
    assert (ran.code, ran.out) == (0, "")
    text = (here / "analysis").read_text("utf-8")
    if output_format == "json":
        assert json.loads(text)["analyses"][0]["failed_cases"]["total"] == 3
    else:
        assert "Failed cases (3 of 3)" in text.replace("\\", "")
    assert len(ending(ran.err)) == 4
