"""Several files beside each other: one line each, sorted by rate, kinds of runs apart, and no more than is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount import AnalyzeOptions, analyze, as_report
from faircount.analysis import rate_of
from faircount.analysis.report import league
from faircount.core import Analysis
from faircount.report import Column, Findings, Grid, Interval, Label, Lead, Report, Section, console, html, markdown
from faircount.stats import wilson
from tests.analysis.test_analysis import SCHEMA
from tests.analysis.test_families import BALANCED, rows_of
from tests.conftest import Cli, Ran, Write, attack, some, standard
from tests.oracles import known, limits, oracle
from tests.report.test_html import Page
from tests.report.test_markdown import assert_inert
from tests.report.test_present import HOSTILE, harmless
from tests.runs.run_files import HEADER, attempt, case

PUBLISHED = """\
Attack runs
  File                                   n     Succeeded  0%      100%  Errors
  az_gpt4o full-prompt                 956  75% [43, 92]  ·····├──●─┤·       0
  together_gemma2_8b                   956  48% [18, 79]  ··├──●───┤··       0
  together_llama31_8b full-prompt-sys  956  44% [18, 73]  ··├──●──┤···       0
  openai_o1-preview                    956  43% [21, 69]  ··├──●──┤···       2
  together_llama31_8b full-prompt      956  39% [17, 67]  ··├─●──┤····       0
  az_gpt4o full-prompt-sys             956  39% [18, 64]  ··├─●──┤····       0
  aws_claude_35_haiku                  956  26% [10, 54]  ·├─●──┤·····       0
  aws_claude_35_sonnet                 956    8% [1, 38]  ├●──┤·······      60
  Succeeded: of all entries, the attacks that succeeded. n: entries. In
  brackets: 95% interval, over families of variants.
  Not shown for lack of width: Findings, Blocks
"""


def published(shared: Path) -> list[str]:
    files = sorted((shared / "data" / "spikee-v0.1").glob("*.jsonl"))
    assert len(files) == 14
    return [str(path) for path in files]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def analyse(cli: Cli, *words: str) -> Ran:
    ran = cli("results", "analyze", *words)
    assert ran.code == 0, ran.err
    return ran


def sections(text: str) -> dict[str, str]:
    """Return the sections of a text by their titles, each with its title."""
    found = {}
    for part in re.split(r"\n(?=\S)", text.strip("\n")):
        found[part.split("\n")[0]] = part.strip("\n") + "\n"
    return found


def table_rows(section: str) -> list[list[str]]:
    """Return the rows of a table that is written with two spaces between its cells."""
    head, *lines = section.split("\n")[1:]
    rows = [re.split(r" {2,}", line.strip()) for line in lines if "%" in line and "·" in line]
    assert rows and head
    return rows


# -- the published files ----------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.usefixtures("narrow")
def test_the_published_files_stand_in_tables_by_what_they_are(shared: Path, cli: Cli) -> None:
    ran = analyse(cli, *published(shared), "--guardrail-success", "detected")
    told = sections(ran.out)
    assert list(told) == [
        "Analysis of 14 files",
        "Attack runs",
        "Guardrails",
        "Benign checks",
        "Limits of these numbers",
        "Sources",
    ]
    assert told["Attack runs"] == PUBLISHED
    assert told["Sources"] == f"Sources\n  14 files in  {shared / 'data' / 'spikee-v0.1'}\n"
    assert max(map(len, ran.out.split("\n"))) <= 80
    for title, column, count in (
        ("Attack runs", "Succeeded", 8),
        ("Guardrails", "Let through", 3),
        ("Benign checks", "Blocked", 3),
    ):
        rows = table_rows(told[title])
        rates = [int(row[2].partition("%")[0]) for row in rows]
        assert len(rows) == count and rates == sorted(rates, reverse=True)
        assert re.split(r" {2,}", told[title].split("\n")[1].strip())[:3] == ["File", "n", column]


@pytest.mark.shared
@pytest.mark.usefixtures("narrow")
def test_every_published_file_is_visible_by_its_label(shared: Path, cli: Cli) -> None:
    paths = published(shared)
    labels = [a.sources[0].label for a in analyze(*paths, guardrail_success="detected").analyses]
    told = sections(analyse(cli, *paths, "--guardrail-success", "detected").out)
    shown = [row[0] for title in ("Attack runs", "Guardrails", "Benign checks") for row in table_rows(told[title])]
    assert len(set(shown)) == len(shown) == len(set(labels)) == 14
    for name in shown:
        begin, cut, end = name.partition("…")
        fitting = [label for label in labels if label.startswith(begin) and label.endswith(end)]
        assert len(fitting) == 1 if cut else name in labels
    # What attacks and guardrails are called is shown whole; names of benign checks lose their middle.
    shortened = [name for name in shown if "…" in name]
    assert len(shortened) == 3 and all(name.endswith("-false-positive-check") for name in shortened)
    wide = console.render(as_report(analyze(*paths, guardrail_success="detected").analyses, details=False), width=120)
    assert all(label in wide for label in labels)


@pytest.mark.shared
def test_the_published_rates_are_those_of_each_file_alone(shared: Path) -> None:
    options = AnalyzeOptions(guardrail_success="detected", details=False)
    analyses = analyze(*published(shared), options=options).analyses
    for grid in some(grids(as_report(analyses, details=False))):
        for row in some(grid.rows):
            (analysis,) = [a for a in analyses if Label(a.sources[0].label) == row[0]]
            (alone,) = analyze(analysis.name, guardrail_success="detected").analyses
            assert row[:5] == (row[0], alone.tally.total, rate_of(alone), Interval(rate_of(alone)), alone.tally.error)


@pytest.mark.shared
@pytest.mark.usefixtures("narrow")
def test_many_files_fit_a_few_screens(shared: Path, cli: Cli, tmp_path: Path) -> None:
    (source,) = (shared / "data" / "spikee-v0.1").glob("results_az_gpt4o-*-full-prompt_*.jsonl")
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    assert len(rows) == 956
    paths = []
    for number in range(38):
        varied = [
            {**row, "success": (at * 7919 + number) % 40 < number, "response": f"{number}: {row['response']}"}
            for at, row in enumerate(rows)
        ]
        path = tmp_path / f"results_model_{number:02}-targeted-2024-12-full-prompt_17345{number:05}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in varied), "utf-8")
        paths.append(str(path))
    ran = analyse(cli, *paths)
    lines = ran.out.split("\n")
    assert len(lines) <= 120 and max(map(len, lines)) <= 80
    told = table_rows(sections(ran.out)["Attack runs"])
    assert sorted(row[0] for row in told) == [f"model_{number:02}" for number in range(38)]
    assert {row[1] for row in told} == {"956"}
    rates = [float(row[2].partition("%")[0]) for row in told]
    assert rates == sorted(rates, reverse=True)


# -- which tables, in which order -------------------------------------------------------------------------------


def grids(report: Report) -> list[Grid]:
    titles = ("Attack runs", "Guardrails", "Benign checks", "Test runs")
    blocks = [block for section in report.sections if section.title in titles for block in section.blocks]
    return [block for block in blocks if isinstance(block, Grid)]


def run_of_tests(write: Write, name: str, passed: int, total: int) -> str:
    lines: list[dict[str, Any]] = [HEADER]
    for number in range(total):
        lines += [case(f"test_{number}_[]"), attempt(f"test_{number}_[]", 0, "p" if number < passed else "f")]
    return write(lines, name)


def guardrail_row(number: int, *, let_through: bool) -> dict[str, Any]:
    return standard(number, success=let_through, response=str(let_through))


@pytest.fixture
def mixed(write: Write) -> list[Analysis]:
    """Analyses of every kind of run, in no order."""
    paths = [
        run_of_tests(write, "run_bad.jsonl", 1, 4),
        write([standard(n, success=n < 2) for n in range(10)], "results_weak-data.jsonl"),
        write([guardrail_row(n, let_through=n < 8) for n in range(10)], "results_shield_benign.jsonl"),
        write([standard(n, success=n < 7) for n in range(20)], "results_strong-data.jsonl"),
        write([guardrail_row(n, let_through=n < 3) for n in range(10)], "results_shield-attacks.jsonl"),
        run_of_tests(write, "run_good.jsonl", 3, 4),
        write([guardrail_row(n, let_through=n < 5) for n in range(10)], "results_other-attacks.jsonl"),
    ]
    return list(analyze(*paths).analyses)


def test_each_kind_of_run_has_a_table_of_its_own_sorted_by_rate(mixed: list[Analysis]) -> None:
    first, *tables = league(mixed)
    assert first.title == "Analysis of 7 files" and first.level == 1
    told = []
    for section in tables:
        (grid,) = section.blocks
        assert isinstance(grid, Grid)
        names = [row[0].text for row in grid.rows if isinstance(row[0], Label)]
        told.append((section.title, grid.columns[2].title, names))
    assert told == [
        ("Attack runs", "Succeeded", ["strong", "weak"]),
        ("Guardrails", "Let through", ["other", "shield attacks"]),
        ("Benign checks", "Blocked", ["shield benign"]),
        ("Test runs", "Passed", ["run_good", "run_bad"]),
    ]
    # Nothing depends on the order in which the files were named.
    assert list(league(mixed[::-1]))[1:] == tables


def test_the_lead_tells_each_kind_from_its_lowest_to_its_highest(mixed: list[Analysis]) -> None:
    (lead,) = [block for block in next(league(mixed)).blocks if isinstance(block, Lead)]
    assert lead.paragraphs == (
        "2 attack runs: success rates from 20% (weak) to 35% (strong).",
        "2 guardrail runs: attacks let through from 30% (shield attacks) to 50% (other).",
        "1 benign check: 20% blocked.",
        "2 test runs: pass rates from 25% (run_bad) to 75% (run_good).",
    )


def test_a_file_without_entries_comes_last_and_is_in_no_range(write: Write) -> None:
    paths = [write(rows, f"results_{name}.jsonl") for name, rows in (("none", []), ("one", [standard(1)]))]
    paths.append(write([standard(1, success=True)], "results_all.jsonl"))
    report = as_report(analyze(*paths).analyses, details=False)
    (grid,) = grids(report)
    assert [row[0] for row in grid.rows] == [Label("all"), Label("one"), Label("none")]
    text = console.render(report)
    assert "3 attack runs: success rates from 0% (one) to 100% (all)." in text
    assert re.search(r"^  none +0 +undefined +·+ ", text, re.MULTILINE)


def test_blocks_have_a_column_where_something_was_blocked(write: Write) -> None:
    plain = write([standard(n, success=True) for n in range(3)], "results_plain.jsonl")
    blocked = write([standard(n, error="no", guardrail=n < 2) for n in range(3)], "results_blocked.jsonl")
    tests = run_of_tests(write, "run_x.jsonl", 1, 2)
    (grid,) = grids(as_report(analyze(plain, blocked).analyses, details=False))
    place = [column.title for column in grid.columns].index("Blocks")
    assert [row[place] for row in grid.rows] == [0, 2]
    both = grids(as_report(analyze(plain, tests).analyses, details=False))
    assert all("Blocks" not in [column.title for column in grid.columns] for grid in both)


@pytest.mark.parametrize("raised", [0, 3])
def test_of_a_benign_check_what_was_blocked_counts_however_it_was(write: Write, raised: int) -> None:
    proportion = oracle("statsmodels.stats.proportion")
    rows = [guardrail_row(n, let_through=n >= 5) for n in range(20)]
    rows += [standard(100 + n, error="blocked", guardrail=True) for n in range(raised)]
    rows += [standard("e", error="timeout"), standard("u", success=None)]
    (analysis,) = analyze(write(rows, "results_fp.jsonl")).analyses
    rate = rate_of(analysis)
    assert rate.n == 20 + raised and rate.value == pytest.approx((5 + raised) / (20 + raised))
    expected = proportion.proportion_confint(5 + raised, 20 + raised, method="wilson")
    assert limits(rate) == pytest.approx(expected, abs=1e-9)


def test_of_other_runs_the_rate_is_that_of_the_analysis(mixed: list[Analysis]) -> None:
    assert all(rate_of(a) == a.rates.asr for a in mixed if a.role != "benign")
    (tests,) = [a for a in mixed if a.sources[0].label == "run_good"]
    assert rate_of(tests) == wilson(3, 4)


def test_names_that_differ_never_print_alike(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [
        write(
            [
                standard(n, success=n % 4 == 0, target=f"openrouter/meta-llama/llama-3.{m}-8b-instruct-turbo-free")
                for n in range(40 + m)
            ],
            f"results_{m}.jsonl",
        )
        for m in range(4)
    ]
    for width in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        table = sections(analyse(cli, *paths, "--overview").out)["Attack runs"]
        names = [line.split("  ")[1] for line in table.split("\n")[2:6]]
        assert len(set(names)) == 4, table


# -- doubts -----------------------------------------------------------------------------------------------------


def findings(report: Report) -> list[str]:
    (block,) = [block for block in report.sections[0].blocks if isinstance(block, Findings)]
    return [item.message for item in block.items]


def test_doubts_of_several_files_are_told_once_with_the_files(write: Write) -> None:
    paths = [write([standard(1), *["torn {"] * (n + 1)], f"results_{'abcdef'[n]}.jsonl") for n in range(6)]
    report = as_report(analyze(*paths).analyses, details=False)
    assert findings(report) == [
        "unreadable lines, in 6 files: a (1), b (2), c (3), d (4) and 2 more",
    ]
    (block,) = [block for block in report.sections[0].blocks if isinstance(block, Findings)]
    assert (block.items[0].code, block.items[0].count, block.items[0].where) == ("F001", 21, ())
    (grid,) = grids(report)
    assert {row[-1] for row in grid.rows} == {"F001"}


def test_a_doubt_of_one_file_is_told_in_full_and_errors_come_first(write: Write) -> None:
    paths = [
        write([standard(1, success="yes"), standard(2)], "results_odd.jsonl"),
        write([standard(1), "torn {"], "results_torn.jsonl"),
    ]
    analyses = analyze(*paths).analyses
    (odd,), (torn,) = ([item.message for item in a.findings] for a in analyses)
    assert findings(as_report(analyses)) == [f"torn: {torn}", f"odd: {odd}"]


def test_files_without_doubts_have_none(write: Write) -> None:
    paths = [write([standard(n)], f"results_{n}.jsonl") for n in range(2)]
    report = as_report(analyze(*paths).analyses)
    assert not [block for block in report.sections[0].blocks if isinstance(block, Findings)]


# -- how much is shown ------------------------------------------------------------------------------------------


def several(write: Write, count: int) -> list[str]:
    return [
        write([standard(k, success=k < n, plugin=f"p{k % 2}") for k in range(9)], f"results_m{n}-data.jsonl")
        for n in range(count)
    ]


def test_up_to_three_files_are_shown_at_length(write: Write, cli: Cli) -> None:
    for count in (2, 3):
        paths = several(write, count)
        out = analyse(cli, *paths).out
        assert out.count("\nAttack runs\n") == 1
        assert out.count("\nGeneral\n") == out.count("\nBreakdown by plugin\n") == count
        assert [f"\nAnalysis of m{n}\n" in out for n in range(count)] == [True] * count
        assert all(path in "".join(out.split()) for path in paths)
        assert out.count("\nLimits of these numbers\n") == out.count("\nSources\n") == 1


def test_of_more_files_the_table_alone_is_shown_unless_details_are_wanted(write: Write, cli: Cli) -> None:
    paths = several(write, 4)
    short, long = analyse(cli, *paths).out, analyse(cli, *paths, "--details").out
    assert "General" not in short and "Breakdown" not in short and short.count("\nAttack runs\n") == 1
    assert sections(short)["Sources"].startswith("Sources\n  4 files in  ")
    assert long.count("\nGeneral\n") == long.count("\nBreakdown by plugin\n") == 4
    assert sections(long)["Attack runs"] == sections(short)["Attack runs"]


def test_one_file_has_no_table_of_several(write: Write, cli: Cli) -> None:
    out = analyse(cli, several(write, 1)[0]).out
    assert "Attack runs" not in out and out.startswith("\nAnalysis of m0-data\n")


def test_combined_files_have_no_table_of_several(write: Write, cli: Cli) -> None:
    out = analyse(cli, *several(write, 5), "--combine").out
    assert "Attack runs" not in out and "Breakdown by plugin" in out and "Combined analysis of 5 files" in out


def test_documents_tell_every_file_at_length(write: Write, cli: Cli) -> None:
    paths = several(write, 5)
    told = json.loads(analyse(cli, *paths, "--output-format", "json").out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert [a["sources"][0]["label"] for a in told["analyses"]] == [f"m{n}" for n in range(5)]
    assert [a["sources"][0]["path"] for a in told["analyses"]] == paths
    assert all(a["breakdowns"]["plugin"] and a["role"] == "attacks" for a in told["analyses"])


def test_a_page_of_several_files_has_the_table_and_all_details(write: Write, cli: Cli, tmp_path: Path) -> None:
    paths, page = several(write, 5), tmp_path / "all.html"
    assert analyse(cli, *paths, "--output-format", "html", "-o", str(page)).out == f"{page}\n"
    text = page.read_text("utf-8")
    assert html.is_ours(text)
    read = Page(text)
    assert "Analysis of 5 files" in read.text and read.text.count("Breakdown by plugin") >= 5
    assert read.elements.count("svg") > 5 and "5 attack runs: success rates from 0%" in read.text
    assert all(path in read.text for path in paths)


def test_markdown_of_many_files_is_short_unless_details_are_wanted(write: Write, cli: Cli) -> None:
    paths = several(write, 4)
    short = analyse(cli, *paths, "--output-format", "markdown").out
    assert "## Attack runs" in short and "## General" not in short
    assert "## General" in analyse(cli, *paths, "--output-format", "markdown", "--details").out


def test_gates_see_groups_although_only_the_table_is_shown(write: Write, cli: Cli) -> None:
    paths = several(write, 4)
    for limit, code in ((0.9, 0), (0.1, 1)):
        ran = cli("results", "analyze", *paths, "--fail-on", f"plugin=p0: asr > {limit}")
        assert ran.code == code, ran.err
        assert "General" not in ran.out and ran.out.count("\nAttack runs\n") == 1


# -- whatever the files are called ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [text for text in HOSTILE if len(text) < 200] + ["a | b `c` *d* <b>", "=1+1"])
def test_hostile_names_of_files_act_nowhere(write: Write, text: str) -> None:
    name = text.replace("/", "_").replace("\x00", "_")
    paths = [write([standard(1, success=n == 0), "torn {"], f"results_{name}{n}.jsonl") for n in range(2)]
    report = as_report(analyze(*paths).analyses, figures=True)
    for width in (40, 80, 200):
        assert harmless(console.render(report, width=width))
    assert_inert(markdown.render(report))
    page = Page(html.render(report))
    assert not {"script", "img", "iframe", "b"} & {*page.elements} and harmless(page.text)


# -- what is drawn and explained --------------------------------------------------------------------------------


def test_a_column_is_explained_only_where_it_is_shown(mixed: list[Analysis]) -> None:
    report = as_report(mixed, details=False)
    for grid in some(grids(report)):
        rate = grid.columns[2]
        assert isinstance(rate, Column) and rate.note.startswith(f"{rate.title}: of ") and rate.rank == 0
    narrow, wide = (console.render(report, width=width) for width in (40, 200))
    for title in ("Succeeded", "Let through", "Blocked", "Passed"):
        assert f"{title}: of " in narrow and f"{title}: of " in wide


def test_the_note_says_what_is_counted_and_how_the_interval_was_made(write: Write) -> None:
    plain = [write([standard(n + k) for k in range(3)], f"results_{n}-data.jsonl") for n in range(2)]
    families = [
        write([row | {"response": str(n)} for row in rows_of(BALANCED)], f"results_{n}-set.jsonl") for n in range(2)
    ]
    tests = [run_of_tests(write, f"run_{n}.jsonl", n, 3) for n in range(2)]
    for paths, level, expected in (
        (plain, 0.95, "n: entries. In brackets: 95% interval."),
        (plain, 0.9, "n: entries. In brackets: 90% interval."),
        (tests, 0.95, "n: cases. In brackets: 95% interval."),
        (families, 0.95, "n: entries. In brackets: 95% interval, over families of variants."),
    ):
        (grid,) = grids(as_report(analyze(*paths, level=level).analyses))
        assert grid.note == expected


def test_dynamic_attacks_are_in_the_rate(write: Write) -> None:
    rows = [standard(n) for n in range(4)] + [attack(n, success=True) for n in range(3)]
    paths = [write(rows, "results_dynamic.jsonl"), write([standard(1)], "results_other.jsonl")]
    (grid,) = grids(as_report(analyze(*paths).analyses, details=False))
    assert grid.rows[0][:2] == (Label("dynamic"), 4)
    assert known(rate_of(analyze(*paths).analyses[0]).value) == 0.75


def test_a_section_of_the_league_holds_one_table(mixed: list[Analysis]) -> None:
    for section in some(list(league(mixed))[1:]):
        assert isinstance(section, Section) and section.level == 2 and len(section.blocks) == 1
