"""Markdown and HTML reports: what they hold, where they go, and what they never touch."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from faircount import AnalyzeOptions, UsageError, analyze, as_report
from faircount.analysis import CHANGED, READ_ONCE, VANISHED, choose, evidence, made_with, summary
from faircount.core import Examples
from faircount.ledger import ExampleRow
from faircount.readers import loading
from faircount.report import Bars, Block, Evidence, Grid, HeatMap, Label, Paragraph, Record, Report, documents, html
from tests.conftest import Cli, Write, analysis_of, attack, encode, examples_of, report_of, standard

PAGE = ("results", "analyze", "--output-format", "html")
MARKDOWN = ("results", "analyze", "--output-format", "markdown")


def blocks_of(report: Report, title: str) -> tuple[Block, ...]:
    (section,) = [section for section in report.sections if section.title == title]
    return section.blocks


def figures_of(report: Report) -> list[Bars | HeatMap]:
    return [block for section in report.sections for block in section.blocks if isinstance(block, Bars | HeatMap)]


def is_page(path: Path) -> bool:
    return html.is_ours(path.read_text(encoding="utf-8")[:4096])


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# -- where a report goes ----------------------------------------------------------------------------------------


def test_markdown_goes_to_standard_output_or_to_a_file(cli: Cli, write: Write, tmp_path: Path) -> None:
    path, target = write([standard(1, success=True)]), tmp_path / "summary.md"
    shown = cli(*MARKDOWN, path)
    assert shown.code == 0
    assert shown.out.startswith("# Analysis of `x`\n\n100% of 1 attack succeeded (95% interval 21–100%).\n")
    assert f"| File | `{path}` |\n" in shown.out
    written = cli(*MARKDOWN, path, "-o", str(target))
    assert (written.code, written.out) == (0, "")
    told = target.read_text(encoding="utf-8")
    assert told.startswith("# Analysis of `x`\n\n100% of 1 attack") and f"| File | `{path}` |\n" in told


def test_markdown_of_several_files_is_one_text_that_is_made_once(cli: Cli, write: Write) -> None:
    paths = [write([standard(1)], f"{name}.jsonl") for name in "ab"]
    Path(paths[1]).write_bytes(encode([standard(2)]))
    out = cli(*MARKDOWN, *paths).out
    headings = re.findall("^# (.*)$", out, re.MULTILINE)
    assert headings == [
        "Analysis of 2 files",
        "Analysis of `a`",
        "Analysis of `b`",
        "Limits of these numbers",
        "Sources",
        "Made with",
    ]
    assert [path in out.split("# Sources")[1].split("# Made with")[0] for path in paths] == [True, True]


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("results_x.jsonl", "results_x_analysis.html"),
        ("results_x.jsonl.gz", "results_x_analysis.html"),
        ("results_x.jsonl.zst", "results_x_analysis.html"),
        ("x.txt", "x.txt_analysis.html"),
        (".jsonl", "_analysis.html"),
    ],
)
def test_a_page_goes_beside_its_input(cli: Cli, tmp_path: Path, name: str, page: str) -> None:
    packed = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(packed(encode([standard(1, success=True, response="BINGO")])))
    ran = cli(*PAGE, str(tmp_path / name))
    assert (ran.code, ran.out, ran.err) == (0, f"{tmp_path / page}\n", "")
    assert is_page(tmp_path / page)
    assert "BINGO" in (tmp_path / page).read_text(encoding="utf-8")


def test_a_combined_page_goes_to_the_working_folder(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write([standard(i)], f"in/{i}.jsonl") for i in range(2)]
    monkeypatch.chdir(tmp_path)
    assert cli(*PAGE, *paths, "--combine").out == "Combined_analysis.html\n"
    assert is_page(tmp_path / "Combined_analysis.html")
    assert cli(*PAGE, *paths, "--combine", "-o", "mine.html").out == "mine.html\n"
    assert is_page(tmp_path / "mine.html")


def test_a_page_of_standard_input_goes_to_the_working_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipe(monkeypatch, encode([standard(1, success=True)]))
    assert cli(*PAGE, "-").out == "stdin_analysis.html\n"
    assert READ_ONCE in (tmp_path / "stdin_analysis.html").read_text(encoding="utf-8")


def test_a_page_replaces_one_of_ours_and_goes_beside_anything_else(cli: Cli, write: Write, tmp_path: Path) -> None:
    path, page = write([standard(1)]), tmp_path / "results_x_analysis.html"
    assert cli(*PAGE, path).code == 0
    first = page.read_bytes()
    Path(path).write_bytes(encode([standard(1), standard(2)]))
    assert cli(*PAGE, path).code == 0
    assert page.read_bytes() != first
    for strange in (b"", b"my notes", b"<!doctype html><html><body>mine</body></html>", b"\xff\xfe\x00"):
        page.write_bytes(strange)
        ran = cli(*PAGE, path)
        beside = tmp_path / "results_x_analysis_2.html"
        assert (ran.code, ran.out) == (0, f"{beside}\n")
        assert f"{page}: already exists" in ran.err and str(beside) in ran.err
        assert page.read_bytes() == strange
        assert is_page(beside)
    beside.write_bytes(b"another one's")
    assert cli(*PAGE, path).out == f"{tmp_path / 'results_x_analysis_3.html'}\n"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_pipe_in_the_way_of_a_page_is_not_waited_for(
    cli: Cli, write: Write, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = write([standard(1)])
    make(tmp_path / "results_x_analysis.html")
    ran = cli(*PAGE, path)
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'results_x_analysis_2.html'}\n")


def test_a_benign_file_makes_no_second_page(cli: Cli, write: Write, tmp_path: Path) -> None:
    attacks, benign = write([standard(1)], "a.jsonl"), write([standard(2)], "b.jsonl")
    target = tmp_path / "guardrail.html"
    ran = cli(*PAGE, attacks, "--false-positive-checks", benign, "-o", str(target))
    assert (ran.code, ran.out) == (0, f"{target}\n")
    assert cli(*PAGE, attacks, "--false-positive-checks", benign, "-o", benign).code == 2
    assert Path(benign).read_bytes() == encode([standard(2)])


def test_a_file_that_the_user_names_is_replaced(cli: Cli, write: Write, tmp_path: Path) -> None:
    target = tmp_path / "mine.html"
    target.write_text("my notes", encoding="utf-8")
    assert cli(*PAGE, write([standard(1)]), "-o", str(target)).out == f"{target}\n"
    assert is_page(target)


def test_a_named_folder_takes_the_page_of_one_file(cli: Cli, write: Write, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    page = tmp_path / "pages" / "results_x_analysis.html"
    assert cli(*PAGE, write([standard(1)]), "-o", str(page.parent)).out == f"{page}\n"
    page.write_text("my notes", encoding="utf-8")
    assert cli(*PAGE, write([standard(1)]), "-o", str(page.parent)).out == f"{page.parent / page.stem}_2.html\n"
    assert page.read_text(encoding="utf-8") == "my notes"


def test_an_input_is_never_overwritten_by_a_page(cli: Cli, write: Write) -> None:
    path = write([standard(1)])
    assert cli(*PAGE, path, "-o", path).code == 2
    assert Path(path).read_bytes() == encode([standard(1)])
    # An input can bear the name of another one's page.
    other = write([standard(2)], "results_x_analysis.html")
    ran = cli(*PAGE, path, other)
    assert [Path(name).name for name in ran.out.split()] == [
        "results_x_analysis_2.html",
        "results_x_analysis.html_analysis.html",
    ]
    assert Path(other).read_bytes() == encode([standard(2)])


def test_several_files_give_a_page_each_beside_them(cli: Cli, write: Write) -> None:
    paths = [write([standard(name)], f"{name}/results_x.jsonl") for name in "ab"]
    pages = [path.replace(".jsonl", "_analysis.html") for path in paths]
    assert cli(*PAGE, *paths).out == "".join(f"{page}\n" for page in pages)
    for path, page in zip(paths, pages, strict=True):
        text = Path(page).read_text(encoding="utf-8")
        assert f">{path}<" in text
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() in text
    assert paths[1] not in Path(pages[0]).read_text(encoding="utf-8").replace("Command", "").split("SHA-256")[1]


def test_several_pages_go_into_a_folder_under_names_of_their_own(cli: Cli, write: Write, tmp_path: Path) -> None:
    names = ["a/results_x.jsonl", "b/results_x.jsonl", "b/RESULTS_X.jsonl.gz", "c/results_x_2.jsonl"]
    paths = [write([standard(name)], name) for name in names]
    folder = tmp_path / "new" / "pages"
    ran = cli(*PAGE, *paths, "-o", str(folder))
    assert ran.code == 0
    expected = ["results_x", "results_x_2", "RESULTS_X_3", "results_x_2_2"]
    assert ran.out.split() == [str(folder / f"{name}_analysis.html") for name in expected]
    for path, page in zip(paths, ran.out.split(), strict=True):
        assert f">{path}<" in Path(page).read_text(encoding="utf-8")
    assert cli(*PAGE, *paths, "-o", str(folder)).out == ran.out


def test_pages_that_would_meet_beside_their_inputs_are_told_apart(cli: Cli, write: Write) -> None:
    paths = [write([standard(name)], name) for name in ("x.jsonl", "x.jsonl.gz")]
    assert [Path(p).name for p in cli(*PAGE, *paths).out.split()] == ["x_analysis.html", "x_2_analysis.html"]


def test_several_pages_need_a_folder(cli: Cli, write: Write, tmp_path: Path) -> None:
    paths = [write([standard(i)], f"{i}.jsonl") for i in range(2)]
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for place in ("file", "file/below"):
        ran = cli(*PAGE, *paths, "-o", str(tmp_path / place))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.count("\n") == 1
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_hopeless_file_gets_no_page_and_the_others_do(cli: Cli, write: Write, tmp_path: Path) -> None:
    paths = [write([standard(1)], "good.jsonl"), write(["[]"], "bad.jsonl")]
    ran = cli(*PAGE, *paths, "-o", str(tmp_path / "pages"))
    assert ran.code == 3
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["good_analysis.html"]
    assert "bad.jsonl" in ran.err


def test_a_path_is_printed_visibly(cli: Cli, write: Write) -> None:
    ran = cli(*PAGE, write([standard(1)], "re\x1b[31msults.jsonl"))
    assert ran.code == 0
    assert ran.out.endswith("/re\\x1b[31msults_analysis.html\n")


# -- what stays as it was ---------------------------------------------------------------------------------------


def test_the_console_holds_no_figures_and_neither_it_nor_json_evidence(write: Write) -> None:
    path = write([standard(i, success=i % 2 == 0, plugin=f"p{i % 3}", lang=f"l{i % 2}") for i in range(40)])
    plain = as_report(analyze(path, options=AnalyzeOptions(figures=True)).analyses)
    assert figures_of(plain) == []
    assert not any(isinstance(block, Evidence) for section in plain.sections for block in section.blocks)
    full = analyze(path, options=AnalyzeOptions(figures=True, evidence=(("", 5),)))
    rich = as_report(full.analyses, evidence=full.evidence, figures=True, made_with=made_with("x", full.analyses))
    assert any(isinstance(block, Evidence) for section in rich.sections for block in section.blocks)
    assert documents.as_json(rich) == documents.as_json(plain)


def test_the_console_shows_evidence_only_when_asked(cli: Cli, write: Write) -> None:
    path = write([standard(1, success=True, response="\x1b[31mBINGO\n" + "x " * 5000, judge_name="canary")])
    two = write([standard(number, success=True) for number in range(2)], "two.jsonl")
    assert "BINGO" not in cli("results", "analyze", path).out
    out = cli("results", "analyze", path, "--evidence", "1").out
    assert "\nSuccessful attacks\n\n  entry 1 (line 1)\n  strategy standard, judge canary\n" in out
    assert "response: \\x1b[31mBINGO\\nx x" in out
    assert "\x1b" not in out
    assert out.count("x") < 1000
    assert "1 of 2 successful attacks" in cli("results", "analyze", two, "--evidence", "1").out


@pytest.mark.parametrize(("words", "shown"), [([], True), (["--evidence", "0"], False), (["--overview"], False)])
def test_a_page_shows_evidence_unless_told_otherwise(cli: Cli, write: Write, words: list[str], shown: bool) -> None:
    page = cli(*PAGE, write([standard(1, success=True, response="BINGO")]), *words).out.strip()
    assert ("BINGO" in Path(page).read_text(encoding="utf-8")) is shown


def test_markdown_shows_evidence_only_when_asked(cli: Cli, write: Write) -> None:
    path = write([standard(1, success=True, response="BINGO")])
    assert "BINGO" not in cli(*MARKDOWN, path).out
    assert "BINGO" in cli(*MARKDOWN, path, "--evidence", "1").out


@pytest.mark.parametrize(
    "words",
    [
        ["--evidence", "-1"],
        ["--evidence", "3", "--output-format", "json"],
        ["--evidence", "successes", "--output-format", "json"],
        ["--evidence", "victories"],
        ["--evidence", "successes=many"],
        ["--evidence", "successes=-1"],
        ["--evidence", "successes="],
        ["--evidence", "="],
        ["--evidence", ""],
        ["--evidence", "3=successes"],
        ["--evidence", "let through"],
    ],
)
def test_evidence_that_cannot_be_is_a_usage_error(cli: Cli, write: Write, words: list[str]) -> None:
    ran = cli("results", "analyze", write([standard(1)]), *words)
    assert (ran.code, ran.out) == (2, "")
    assert "evidence" in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize("evidence", [(("", -1),), (("victories", 1),), (("let through", 1),)])
def test_evidence_that_cannot_be_is_refused_by_the_library_too(evidence: Any) -> None:
    with pytest.raises(UsageError, match="evidence"):
        AnalyzeOptions(evidence=evidence)


ENDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "successes": ("Successful attacks", {"success": True}),
    "failures": ("Failed attacks", {}),
    "errors": ("Entries that ended in an error", {"error": "HTTP 503", "response": None}),
    "blocks": ("Blocked entries", {"error": "blocked", "guardrail": True}),
}


@pytest.fixture
def of_every_kind(write: Write) -> str:
    """A file with two, three, four and five entries that ended in each way."""
    rows = [
        standard(f"{kind}-{number}", **{"response": f"said by {kind} {number}", **fields})
        for count, (kind, (_, fields)) in enumerate(ENDINGS.items(), start=2)
        for number in range(count)
    ]
    return write([*rows, standard("nobody judged it", success=None)])


@pytest.mark.parametrize("kind", ENDINGS)
def test_each_kind_of_entries_can_be_looked_at(cli: Cli, of_every_kind: str, kind: str) -> None:
    title, count = ENDINGS[kind][0], 2 + list(ENDINGS).index(kind)
    for word, shown in ((f"{kind}=1", 1), (f"{kind}=9", count), (kind, count)):
        out = cli("results", "analyze", of_every_kind, "--evidence", word).out
        section = out.partition(f"\n{title}\n")[2].partition("\n\nLimits of")[0]
        found = re.findall(r"^  entry (\S+) \(line \d+\)$", section, re.MULTILINE)
        assert found == [f"{kind}-{number}" for number in range(shown)]
        assert (f"{shown} of {count} {title[0].lower()}{title[1:]}" in section) is (shown < count)
        assert not [other for other, _ in ENDINGS.values() if other != title and f"\n{other}\n" in out]
        assert section.count("error: ") == (shown if kind in ("errors", "blocks") else 0)
        # An error stands for the answer that is missing; one that is there is shown beside it.
        assert section.count("response: ") == (0 if kind == "errors" else shown)


def test_a_kind_without_a_number_shows_five(cli: Cli, write: Write) -> None:
    path = write([standard(number) for number in range(9)])
    out = cli("results", "analyze", path, "--evidence", "failures").out
    assert "5 of 9 failed attacks" in out and out.count("\n  entry ") == 5


def test_several_kinds_of_entries_are_shown_in_the_order_asked_for(cli: Cli, of_every_kind: str) -> None:
    words = [word for kind in ("failures=1", "2", "errors=1", "blocks=0") for word in ("--evidence", kind)]
    for output_format in ("console", "markdown"):
        out = cli("results", "analyze", of_every_kind, *words, "--output-format", output_format).out
        places = {title: re.search(rf"^(## )?{title}$", out, re.MULTILINE) for title, _ in ENDINGS.values()}
        found = {title: place.start() for title, place in places.items() if place}
        assert sorted(found, key=lambda title: found[title]) == [
            "Failed attacks",
            "Successful attacks",
            "Entries that ended in an error",
        ]


def test_a_page_shows_the_kinds_that_are_asked_for_and_no_others(cli: Cli, of_every_kind: str) -> None:
    page = Path(cli(*PAGE, of_every_kind, "--evidence", "failures=2").out.strip()).read_text("utf-8")
    assert "Failed attacks" in page and "said by failures 1" in page
    assert "said by successes 0" not in page and "said by failures 2" not in page


def test_what_there_is_none_of_is_said(cli: Cli, write: Write) -> None:
    out = cli("results", "analyze", write([standard(1)]), "--evidence", "errors").out
    assert "\nEntries that ended in an error\n  - None.\n" in out


def test_several_files_can_share_one_page(cli: Cli, write: Write, tmp_path: Path) -> None:
    paths = [write([standard(i, success=True, response=f"said {i}")], f"{i}.jsonl") for i in range(2)]
    target = tmp_path / "all.html"
    ran = cli(*PAGE, *paths, "-o", str(target))
    assert (ran.code, ran.out) == (0, f"{target}\n")
    text = target.read_text(encoding="utf-8")
    assert html.is_ours(text) and "Analysis of 2 files" in text and "said 0" in text and "said 1" in text
    assert all(hashlib.sha256(Path(path).read_bytes()).hexdigest() in text for path in paths)
    assert [path.name for path in tmp_path.glob("*.html")] == ["all.html"]
    assert cli(*PAGE, *paths, "-o", paths[0]).code == 2


# -- figures ----------------------------------------------------------------------------------------------------


def full_report(*paths: str, **options: Any) -> Report:
    return report_of(*paths, figures=True, **options)


def test_the_headline_splits_by_what_there_is(write: Write) -> None:
    plain = write([standard(1, success=True), standard(2)], "plain.jsonl")
    dynamic = write([standard(3, success=True), standard(4), attack(4, success=True)], "dynamic.jsonl")
    errors = write([standard(5, success=True), standard(6, error="x")], "errors.jsonl")

    def bars(report: Report) -> dict[Any, float | None]:
        (figure,) = [block for block in blocks_of(report, "General") if isinstance(block, Bars)]
        return {bar.label: bar.estimate.value for bar in figure.bars}

    assert bars(full_report(plain)) == {"all entries": 0.5}
    assert bars(full_report(dynamic)) == {"without dynamic attacks": 0.5, "with dynamic attacks": 1.0}
    assert bars(full_report(errors)) == {"all entries": 0.5, "judged entries alone": 1.0}
    combined = bars(full_report(plain, errors, combine=True))
    assert combined == {"all entries": 0.5, "judged entries alone": 2 / 3, Label("plain"): 0.5, Label("errors"): 0.5}


def test_each_breakdown_has_its_bars_above_the_table(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 15}", lang=f"l{i % 2}", success=i % 4 == 0) for i in range(60)]
    report = full_report(write(rows))
    bars, grid = blocks_of(report, "Breakdown by plugin")
    assert isinstance(bars, Bars) and isinstance(grid, Grid)
    assert bars.title == "Success rate by plugin (12 of 15 groups)"
    assert [bar.label for bar in bars.bars] == [row[0] for row in grid.rows[:12]]
    assert all(bar.small for bar in bars.bars)
    groups = {Record(group.value): group for group in analysis_of(write(rows)).breakdowns["plugin"]}
    for bar in bars.bars:
        assert isinstance(bar.label, Record)
        assert (bar.estimate, bar.shrunk) == (groups[bar.label].rate, groups[bar.label].shrunk)
        assert bar.shrunk is not None and bar.shrunk != bar.estimate
    languages = blocks_of(report, "Breakdown by language")[0]
    assert isinstance(languages, Bars)
    assert languages.title == "Success rate by language"
    assert languages.overall == analysis_of(write(rows)).rates.asr


def test_groups_that_stand_out_are_always_drawn(write: Write) -> None:
    # By its rate the group that never succeeds comes last of thirty; it stands out all the same.
    rows = [standard(i, plugin=f"p{i % 29:02}", success=i % 3 > 0) for i in range(29 * 20)]
    rows += [standard(f"q{i}", plugin="never", success=False) for i in range(60)]
    figure, grid = blocks_of(full_report(write(rows)), "Breakdown by plugin")
    assert isinstance(figure, Bars) and isinstance(grid, Grid)
    drawn = [bar.label for bar in figure.bars]
    assert len(drawn) == 12 and Record("never") in drawn
    assert drawn == [row[0] for row in grid.rows if row[0] in drawn]
    assert figure.title == "Success rate by plugin (12 of 30 groups)"


def crossed_rows() -> list[dict[str, Any]]:
    """Rows in which plugin and language decide, the position does not, and the task type has too many values."""
    return [
        standard(
            i,
            plugin=f"p{i % 3}",
            lang=f"l{i // 3 % 2}",
            position=("start", "end")[i // 6 % 2],
            task_type=f"t{i}",
            success=i % 3 == 0 or (i // 3 % 2 == 0 and i % 5 == 0),
        )
        for i in range(60)
        if not (i % 3 == 2 and i // 3 % 2 == 1)
    ]


def test_the_heat_map_crosses_the_two_fields_that_tell_most(write: Write) -> None:
    rows = crossed_rows()
    (figure,) = [figure for figure in figures_of(full_report(write(rows))) if isinstance(figure, HeatMap)]
    assert (figure.row_title, figure.column_title) == ("plugin", "language")
    for row, cells in zip(figure.rows, figure.cells, strict=True):
        for column, cell in zip(figure.columns, cells, strict=True):
            mine = [r for r in rows if (r["plugin"], r["lang"]) == (row.text, column.text)]
            if not mine:
                assert cell is None
                continue
            assert cell is not None
            assert cell.n == len(mine)
            assert cell.value == sum(r["success"] for r in mine) / len(mine)
    assert figure.cells[[r.text for r in figure.rows].index("p2")].count(None) == 1


def test_the_heat_map_keeps_to_the_fields_that_were_asked_for(write: Write) -> None:
    path = write(crossed_rows())
    crossing = analysis_of(path, figures=True, by=("lang", "position")).crossing
    assert crossing is not None
    assert {crossing.row_field, crossing.column_field} == {"lang", "position"}
    assert analysis_of(path, figures=True, by=("lang",)).crossing is None
    assert analysis_of(path).crossing is None


def test_a_field_that_follows_from_another_is_not_crossed_with_it(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 2}", lang=f"l{i % 2}", success=i % 2 == 0) for i in range(40)]
    assert analysis_of(write(rows), figures=True).crossing is None
    for i, each in enumerate(rows):
        each["position"] = ("start", "end")[i // 2 % 2]
    crossing = analysis_of(write(rows), figures=True).crossing
    assert crossing is not None
    assert {crossing.row_field, crossing.column_field} == {"lang", "position"}


def test_a_tiny_group_does_not_decide_what_is_crossed(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 2}", lang=f"l{i // 2 % 2}", success=i % 4 == 0) for i in range(80)]
    for i, each in enumerate(rows):
        each["position"] = "rare" if i == 0 else "common"
    crossing = analysis_of(write(rows), figures=True).crossing
    assert crossing is not None
    assert {crossing.row_field, crossing.column_field} == {"lang", "plugin"}


def test_the_limits_of_a_crossed_field_are_2_and_12_values() -> None:
    assert list(summary.VALUES_OF_A_CROSSED_FIELD) == list(range(2, 13))


# -- evidence ---------------------------------------------------------------------------------------------------


def evidence_of(*paths: str, number: int = 5, **options: Any) -> Examples:
    (found,) = examples_of(*paths, evidence=(("", number),), **options)
    return found


def lines_of(found: Examples) -> list[int]:
    return [int(attempt.place.rsplit(":", 1)[1]) for attempt in found.shown]


def test_evidence_tells_what_was_said_where_and_by_whom(write: Write) -> None:
    rows = [standard(1), attack(1, success=True, input="trick", response="secret plan", judge_name="canary")]
    path = write(rows)
    (attempt,) = evidence_of(path).shown
    assert (attempt.place, attempt.entry, attempt.strategy) == (f"{path}:2", "1", "goat")
    assert (attempt.judge, attempt.prompt.text, attempt.response.text) == ("canary", "trick", "secret plan")


def test_the_values_of_a_facet_take_turns(write: Write) -> None:
    kinds = ["dan"] * 6 + ["dev"] * 2 + ["new"]
    path = write([standard(i, success=True, jailbreak_type=kind, lang="en") for i, kind in enumerate(kinds)])
    assert lines_of(evidence_of(path)) == [1, 7, 9, 2, 8]
    assert lines_of(evidence_of(path, number=2)) == [1, 7]
    assert lines_of(evidence_of(path, number=100)) == [1, 7, 9, 2, 8, 3, 4, 5, 6]
    assert evidence_of(path, number=2).total == 9


def test_sources_take_turns_too(write: Write) -> None:
    paths = [
        write([standard(f"{f}{i}", success=True, plugin=f"p{i % 2}") for i in range(6)], f"{f}.jsonl") for f in "abc"
    ]
    found = evidence_of(*paths, number=6, combine=True)
    assert [Path(a.place).name for a in found.shown] == [
        "a.jsonl:1",
        "b.jsonl:2",
        "c.jsonl:1",
        "a.jsonl:2",
        "b.jsonl:1",
        "c.jsonl:2",
    ]


def test_an_entry_is_shown_once_and_its_standard_attempt_first(write: Write) -> None:
    rows = [attack(1, success=True), standard(1, success=True), attack(2, success=True), standard(2), standard(3)]
    found = evidence_of(write(rows))
    assert lines_of(found) == [2, 3]
    assert (found.total, [attempt.entry for attempt in found.shown]) == (2, ["1", "2"])


def test_choosing_is_a_function_of_the_rows_alone() -> None:
    rows = [ExampleRow(i, i, (str(i), None, i, i), i % 2, str(i), "standard", i % 5) for i in range(40)]
    assert choose(rows, 7) == choose(rows[::-1], 7)
    assert {row.facet for row in choose(rows, 5)} == set(range(5))
    assert choose([], 5) == []


def test_texts_that_are_no_text_are_shown_as_json(write: Write) -> None:
    rows = [
        standard(1, success=True, input=[{"role": "user", "content": "hé"}], response={"a": [1, None]}),
        standard(2, success=True, input=None, content="manual", response=None),
    ]
    first, second = evidence_of(write(rows)).shown
    assert (first.prompt.text, first.response.text) == ('[{"role":"user","content":"hé"}]', '{"a":[1,null]}')
    assert (second.prompt.text, second.response.text) == ("manual", None)


def test_long_texts_are_cut_with_a_note(write: Write) -> None:
    (attempt,) = evidence_of(write([standard(1, success=True, input="y" * 4000, response="x" * 123_456)])).shown
    assert attempt.prompt.text == "y" * 4000
    assert attempt.response.text == "x" * 4000 + "… [cut: the whole text has 123,456 characters]"


def test_secrets_are_masked_in_prompt_and_response_before_they_are_cut(write: Write) -> None:
    key = "sk-" + "Ab1" * 12
    rows = [standard(1, success=True, input=f"my key {key}", response="x " * 1995 + key)]
    (attempt,) = evidence_of(write(rows)).shown
    assert attempt.prompt.text == "my key sk-…[masked]"
    assert attempt.response.text is not None and key[:12] not in attempt.response.text


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packed_files_are_read_back_by_line(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "results_x.jsonl.packed"
    rows = [standard(i, success=i % 50 == 7, response=f"answer {i}") for i in range(200)]
    path.write_bytes(pack(b"\n" + encode(rows)))
    found = evidence_of(str(path), number=10)
    assert [attempt.response.text for attempt in found.shown] == ["answer 7", "answer 57", "answer 107", "answer 157"]
    assert lines_of(found) == [9, 59, 109, 159]


def test_odd_files_are_read_back_too(tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl"
    rows = [standard(1, success=True, response="first"), standard(2, success=True, response="naïve \u2028 \u20ac")]
    nan = b'{"id": 3, "success": true, "input": "p", "response": "odd", "score": NaN}'
    path.write_bytes(b"\xef\xbb\xbf" + encode([*rows, "torn {", "", nan]).rstrip(b"\n"))
    found = evidence_of(str(path))
    assert [attempt.response.text for attempt in found.shown] == ["first", "naïve \u2028 \u20ac", "odd"]
    assert found.missing == ()


def test_files_that_several_processes_read_are_read_back(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([standard(i, success=i % 40 == 39, response=f"answer {i}") for i in range(200)])
    monkeypatch.setattr(loading, "RANGE_BYTES", 2000)
    monkeypatch.setattr(loading, "PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = evidence_of(path, number=9)
    assert [attempt.response.text for attempt in found.shown] == [f"answer {i}" for i in range(39, 200, 40)]


def gather_after(monkeypatch: pytest.MonkeyPatch, change: Any, *paths: str) -> Examples:
    """Return the evidence when something happens to the files between the reading and the reading back."""
    read_back = evidence.lines_again

    def late(*arguments: Any) -> Any:
        change()
        return read_back(*arguments)

    monkeypatch.setattr(evidence, "lines_again", late)
    return evidence_of(*paths)


def test_a_file_that_has_changed_is_told_not_believed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [standard(i, success=True, response=f"answer {i}") for i in range(3)]
    path = write(rows)
    changed = [rows[0], {**rows[1], "response": "forged!!"}, rows[2]]
    found = gather_after(monkeypatch, lambda: Path(path).write_bytes(encode(changed)), path)
    assert [attempt.response.text for attempt in found.shown] == ["answer 0", "answer 2"]
    assert found.missing == ((f"{path}:2", CHANGED),)


@pytest.mark.parametrize("content", [b"", b"short\n", b"\x1f\x8bnot really gzip", b"\xff\xfeU"])
def test_a_file_that_is_another_one_is_told(write: Write, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    path = write([standard(1, success=True)])
    found = gather_after(monkeypatch, lambda: Path(path).write_bytes(content), path)
    assert found.shown == ()
    assert len(found.missing) == 1
    assert found.missing[0][1] in (CHANGED, VANISHED)


def test_a_file_that_has_vanished_is_told_in_the_report(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([standard(1, success=True), standard(2, success=True)])
    found = gather_after(monkeypatch, lambda: Path(path).unlink(missing_ok=True), path)
    assert (found.shown, found.missing) == ((), ((path, VANISHED),))
    report = report_of(write([standard(1)]), evidence=(("", 1),))
    assert blocks_of(report, "Successful attacks") == (Paragraph("None."),)


def test_a_pipe_is_not_waited_for(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([standard(1, success=True)])

    def become_a_pipe() -> None:
        Path(path).unlink()
        os.mkfifo(path)

    assert gather_after(monkeypatch, become_a_pipe, path).missing == ((path, READ_ONCE),)


def test_what_could_not_be_shown_is_a_table_of_the_report(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, encode([standard(1, success=True)]))
    out = cli(*MARKDOWN, "-", "--evidence", "1").out
    assert f"| Place | Not shown because |\n| --- | --- |\n| `standard input` | {READ_ONCE} |" in out


def test_spikees_definition_has_its_own_successes(write: Write) -> None:
    path = write([standard(1, success="yes please", response="a"), standard(2, success=True, response="b")])
    assert [a.response.text for a in evidence_of(path).shown] == ["b"]
    assert [a.response.text for a in evidence_of(path, definition="spikee").shown] == ["a", "b"]


# -- how it was made --------------------------------------------------------------------------------------------


def made_with_grid(report: Report) -> Grid:
    grid = blocks_of(report, "Made with")[1]
    assert isinstance(grid, Grid)
    return grid


def test_the_files_are_told_with_size_lines_and_digest(write: Write, tmp_path: Path) -> None:
    paths = [write([standard(1)], "a.jsonl"), write([standard(2), "torn {"], "b.jsonl")]
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(encode([standard(3)])))
    paths.append(str(packed))
    analysis = analysis_of(*paths, combine=True)
    report = as_report([analysis], made_with=made_with("faircount x", [analysis]))
    assert report.sections[-1].title == "Made with"
    expected = [
        (Label(label), Path(path).stat().st_size, lines, hashlib.sha256(Path(path).read_bytes()).hexdigest())
        for label, path, lines in zip("abc", paths, (1, 2, 1), strict=True)
    ]
    assert list(made_with_grid(report).rows) == expected


def test_the_benign_file_is_among_them(write: Write) -> None:
    attacks, benign = write([standard(1)], "a.jsonl"), write([standard(2)], "b.jsonl")
    analysis = analysis_of(attacks, false_positive_checks=benign)
    report = as_report([analysis], made_with=made_with("", [analysis]))
    assert [row[0] for row in made_with_grid(report).rows] == [Label("a"), Label("b")]


def test_a_digest_that_would_not_be_that_of_what_was_read_is_left_out(write: Write) -> None:
    path = write([standard(1)])
    analysis = analysis_of(path)
    assert made_with("", [analysis]).digests[path] is not None
    with Path(path).open("ab") as file:
        file.write(b"{}\n")
    assert made_with("", [analysis]).digests[path] is None
    Path(path).unlink()
    report = as_report([analysis], made_with=made_with("", [analysis]))
    assert made_with_grid(report).rows[0][-1] is None
    assert "?" in made_with_grid(report).note


def test_the_command_and_the_versions_are_told(cli: Cli, write: Write) -> None:
    import duckdb

    path = write([standard(1)], "with space.jsonl")
    out = cli(*MARKDOWN, path, "--by", "lang").out
    ending = out[out.index("## Made with") :]
    assert f"| Command | `{shlex.join(['faircount', *MARKDOWN, path, '--by', 'lang'])}` |" in ending
    assert f"| Python | {platform.python_version()} |" in ending
    assert f"| DuckDB | {duckdb.__version__} |" in ending
    assert hashlib.sha256(Path(path).read_bytes()).hexdigest() in ending


def test_the_same_input_gives_the_same_page(cli: Cli, write: Write, tmp_path: Path) -> None:
    path = write([json.loads(json.dumps(row)) for row in crossed_rows()])
    pages = [cli(*PAGE, path, "-o", str(tmp_path / "p.html")).code or (tmp_path / "p.html").read_bytes() for _ in "ab"]
    assert pages[0] == pages[1]


def test_an_analysis_without_these_options_carries_neither(write: Write) -> None:
    path = write([standard(1, success=True)])
    assert (analysis_of(path).crossing, examples_of(path)) == (None, ())
