"""Results of tests speak of passing, those of attacks of success; the counts and the documents are the same."""

from __future__ import annotations

import json
import re
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount import Analysis, read
from faircount.analysis import WORDS, stands_out
from faircount.analysis.report import as_report
from faircount.core import Outcome, Source
from faircount.report import console, documents, markdown
from faircount.runs import JournalReader, report_pieces
from faircount.stats import cluster_wilson
from tests.conftest import Cli, Write, analysis_of, examples_of, report_of, standard
from tests.runs.run_files import HEADER, attempt, case, unanswered

OF_ATTACKS = re.compile(r"attack|asr|succe(ss|ed)|resist|guardrail|jailbreak", re.IGNORECASE)


@pytest.fixture
def journal(tmp_path: Path) -> str:
    lines: list[dict[str, Any]] = [HEADER]
    for number in range(40):
        group = "easy" if number < 20 else "hard"
        verdict = "p" if number < 18 or number in (20, 21) else "f"
        name = f"test_{group}_{number}_[]"
        lines += [case(name, count=3, tags=[group], parameters={"temperature": number % 2})]
        lines += [attempt(name, tried, verdict if tried else "p") for tried in range(3)]
    lines += [case("test_none_[]"), unanswered("test_none_[]"), case("test_open_[]")]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture
def found(journal: str) -> Analysis:
    return analysis_of(journal, figures=True)


def our_words(text: str, path: str) -> list[str]:
    """Return what is said of attacks."""
    return OF_ATTACKS.findall(text.replace(path, ""))


def test_the_terminal_speaks_of_passing(found: Analysis, journal: str) -> None:
    shown = console.render(as_report([found]))
    assert re.search(r"Passed +20 +48% .* pass rate, of 42 entries", shown)
    assert "Failed" in shown
    assert our_words(shown, journal) == []


def test_figures_and_markdown_speak_of_passing(journal: str) -> None:
    shown = markdown.render(report_of(journal, figures=True))
    assert "Pass rate by" in shown
    assert "failed cases" in shown
    assert our_words(shown, journal) == []
    shown = markdown.render(report_of(journal, evidence=(("successes", 3), ("errors", 1))))
    assert "3 of 20 passed cases." in shown and "## Cases that ended in an error" in shown
    assert our_words(shown, journal) == []


def test_a_page_and_a_workbook_speak_of_passing(journal: str, cli: Cli, tmp_path: Path) -> None:
    page, book = tmp_path / "page.html", tmp_path / "book.xlsx"
    assert cli("results", "analyze", journal, "--output-format", "html", "--output", str(page)).code == 0
    assert cli("results", "convert-to-excel", "--result-file", journal, "--output", str(book)).code == 0
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page.read_text(), flags=re.DOTALL)
    assert "Pass rate" in text
    assert our_words(text, journal) == []
    with zipfile.ZipFile(book) as archive:
        cells = archive.read("xl/sharedStrings.xml").decode() if "xl/sharedStrings.xml" in archive.namelist() else ""
        sheets = "".join(archive.read(name).decode() for name in archive.namelist() if "worksheets/" in name)
    assert "Pass rate" in cells + sheets
    assert "Successful attacks" not in cells + sheets


def test_a_notebook_speaks_of_passing(journal: str) -> None:
    summary = read(journal).summary()
    assert "pass rate" in str(summary)
    assert "Pass rate" in summary._repr_html_()
    assert our_words(str(summary), journal) == []


def test_an_entry_that_is_shown_passed_or_failed(journal: str, cli: Cli) -> None:
    shown = cli("results", "show", "test_hard_30_[]", journal).out
    assert re.search(r"Outcome +failed", shown)
    assert "2, failed" in shown
    assert "0, passed" in shown
    assert our_words(shown, journal) == []
    assert "none of its attempts was answered" in cli("results", "show", "test_none_[]", journal).out


def test_the_document_has_the_aim_and_the_pass_rate(found: Analysis) -> None:
    document = json.loads(documents.as_json(as_report([found])))
    (analysis,) = document["analyses"]
    assert analysis["aim"] == "task"
    assert analysis["rates"]["pass_rate"] == analysis["rates"]["asr"]
    schema = json.loads(resources.files("faircount.report").joinpath("schemas/analysis-2.json").read_text())
    jsonschema.validate(document, schema)


def test_the_document_of_an_entry_fits_its_schema(journal: str, cli: Cli) -> None:
    document = json.loads(cli("results", "show", "test_hard_30_[]", journal, "--output-format", "json").out)
    schema = json.loads(resources.files("faircount.report").joinpath("schemas/entry-2.json").read_text())
    jsonschema.validate(document, schema)
    (entry,) = document["entries"]
    assert entry["outcome"] == "failure"
    assert entry["attempts"][0]["recorded"]["history"][0]["metrics"] == "Correct: passed (1.0), because of Correct"


def test_attacks_are_spoken_of_as_before(write: Write) -> None:
    found = analysis_of(write([standard(1, success=True), standard(2)]))
    shown = console.render(as_report([found]))
    assert "Successful attacks" in shown
    assert "pass rate" not in shown.lower()
    assert (found.aim, found.rates.pass_rate) == ("attack", None)


def test_a_group_of_tests_stands_out_by_what_it_passes(found: Analysis) -> None:
    marked = {group.value: stands_out(group) for group in found.breakdowns["tags"]}
    assert (marked["hard"], marked["easy"]) == (-1, 1)
    shown = console.render(as_report([found]), width=120)
    (against,) = (group.against_rest for group in found.breakdowns["tags"] if group.value == "hard")
    assert against is not None and against.difference is not None
    assert re.search(rf"hard +20 +2 +10% .* {100 * against.difference:+.1f} points", shown)


def test_metrics_and_flaky_cases_have_the_intervals_of_suites(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [HEADER]
    passing = {"one": 6, "two": 0, "three": 3}
    for suite, passed in passing.items():
        for number in range(6):
            name = f"test_{suite}_[{number}]"
            lines.append(case(name, count=2))
            verdicts = "pp" if number < passed else "pf" if suite == "two" else "ff"
            lines += [attempt(name, tried, verdict) for tried, verdict in enumerate(verdicts)]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    analysis = analysis_of(str(path))
    (metric,) = analysis.metrics
    counts = {group.value: (group.tally.success, group.tally.judged) for group in analysis.breakdowns["suite"]}
    won, decided = zip(*counts.values(), strict=True)
    assert metric.rate == analysis.rates.asr == cluster_wilson(won, decided).estimate
    assert analysis.retries is not None
    assert analysis.retries.flake_rate == cluster_wilson([0, 6, 0], [6, 6, 6]).estimate
    written = json.loads(b"".join(report_pieces(JournalReader(str(path)), "now")))
    told = written["metadata"]["pass_rate"]
    assert (told["low"], told["high"]) == (analysis.rates.asr.low, analysis.rates.asr.high)


def test_the_bad_news_of_tests_is_what_failed_and_of_attacks_what_succeeded(found: Analysis, write: Write) -> None:
    assert found.failed_cases is not None
    assert found.failed_cases.total == 21
    rows = [standard(n, success=n < 5, lang="a" if n < 20 else "b") for n in range(40)]
    path = write(rows)
    told = examples_of(path, evidence=(("", 3),))
    assert [(examples.kind, examples.total) for examples in told] == [("successes", 5)]
    assert (found.role, analysis_of(path).role) == ("tests", "attacks")


def test_doubts_are_told_in_the_words_of_tests(found: Analysis) -> None:
    told = {finding.code: finding.message for finding in found.findings}
    assert "they did not pass" in told["F014"]
    assert "it counts as not passed in the rate over all entries" in told["F015"]


def test_sections_about_attacks_are_absent(found: Analysis) -> None:
    titles = [section.title for section in as_report([found]).sections]
    assert not [title for title in titles if OF_ATTACKS.search(title)]
    assert "Repeated attempts" in titles
    assert "Combinations" not in " ".join(titles)


def test_every_aim_has_all_words() -> None:
    assert set(WORDS) == {Source("x").aim, "task"}
    for words in WORDS.values():
        assert set(words.outcomes) == set(Outcome)


def test_every_metric_has_its_own_pass_rate_beside_that_of_the_cases(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [HEADER]
    metrics = ("strict", "kind", "lenient")
    for number in range(4):
        name = f"test_{number}_[]"
        verdicts = "fpp" if number else "ppe"
        lines.append(case(name, count=2, metrics=metrics))
        lines += [attempt(name, tried, verdicts, metrics=metrics) for tried in range(2)]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = analysis_of(str(path))
    assert found.tally.success == 4
    figures = {one.metric: (one.passed, one.failed, one.undecided) for one in found.metrics}
    assert figures == {"strict": (1, 3, 0), "kind": (4, 0, 0), "lenient": (3, 0, 1)}
    assert next(one.rate.value for one in found.metrics if one.metric == "strict") == 0.25
    shown = console.render(as_report([found]))
    assert re.search(r"strict +1 +3 +0 +25%", shown)
