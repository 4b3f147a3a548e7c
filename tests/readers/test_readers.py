"""Readers: a format is one module and one registration, recognised by content, read, shown and compared like any."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircount import InputError, UsageError, analyze, compare, open_results
from faircount.ledger import Batch
from faircount.readers import Found, Probe, Reader, ReadOptions, Stream, recognise
from tests.conftest import ROOT, Cli, Write, analysis_of, codes, standard
from tests.runs.run_files import HEADER, attempt, case

PLUGIN = ROOT / "tests" / "plugin_reader"
TECHNIQUES = ("role play", "base64", "payload splitting")


@pytest.fixture
def prober(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the sample package as an installer would: its modules, and what is known about it."""
    folder = tmp_path / "site"
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(PLUGIN / "faircount_plugin_reader", folder / "faircount_plugin_reader")
    about = folder / "faircount_plugin_reader-0.3.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.3.0\n")
    offered = [f"{name} = {value}" for name, value in project["entry-points"]["faircount.readers"].items()]
    about.joinpath("entry_points.txt").write_text("\n".join(["[faircount.readers]", *offered, ""]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("faircount.readers.registry._loaded", {})
    monkeypatch.delitem(sys.modules, "faircount_plugin_reader", raising=False)
    monkeypatch.delitem(sys.modules, "faircount_plugin_reader.prober", raising=False)


def log(path: Path, requests: int = 60, *, damaged: bool = False) -> str:
    verdicts = ("broken", "held", "held", "down")
    lines = [
        f"{number} | {TECHNIQUES[number % 3]} | {verdicts[number % 4]} | prompt {number} | answer {number}"
        for number in range(requests)
    ]
    if damaged:
        lines[5] = "what is this"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("prober")
def test_a_format_of_another_package_is_counted(tmp_path: Path) -> None:
    analysis = analysis_of(log(tmp_path / "run.log"))
    (source,) = analysis.sources
    assert (source.tool, source.reader, source.aim, source.good_lines) == ("prober", "prober", "attack", 60)
    tally = analysis.tally
    assert (tally.success, tally.failure, tally.error, tally.total) == (15, 30, 15, 60)
    groups = {group.value: group.tally.total for group in analysis.breakdowns["technique"]}
    assert groups == dict.fromkeys(TECHNIQUES, 20)


@pytest.mark.usefixtures("prober")
def test_a_bad_line_of_another_format_is_reported_and_the_others_count(tmp_path: Path) -> None:
    analysis = analysis_of(log(tmp_path / "run.log", damaged=True))
    assert analysis.tally.total == 59
    (finding,) = [one for one in analysis.findings if one.code == "F001"]
    assert finding.where == (f"{tmp_path}/run.log:6",)


@pytest.mark.usefixtures("prober")
@pytest.mark.parametrize("query", ["technique = base64", 'response contains "answer 1"'])
def test_rows_of_another_format_can_be_chosen(tmp_path: Path, query: str) -> None:
    path = log(tmp_path / "run.log")
    chosen = analysis_of(path, where=query)
    expected = 20 if "technique" in query else 11
    assert (chosen.tally.total, codes(chosen)["F029"]) == (expected, 60 - expected)
    with open_results(path) as results:
        assert len(results.rows(query)) == expected
        assert results.text(f"{path}:4").response == "answer 3"


@pytest.mark.usefixtures("prober")
def test_another_format_is_shown_extracted_and_found_in_a_folder(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    path = log(folder / "run.log")
    (folder / "notes.txt").write_text("nothing")
    found = analyze(path, evidence=[("successes", 2)])
    assert [one.response.text for one in found.evidence[path][0].shown] == ["answer 0", "answer 4"]
    assert cli("results", "analyze", str(folder)).code == 0
    out = tmp_path / "new.jsonl"
    assert cli("results", "extract", path, "--category", "success", "-o", str(out)).code == 0
    assert {json.loads(line)["technique"] for line in out.read_text().splitlines()} == set(TECHNIQUES)


@pytest.mark.usefixtures("prober")
def test_another_format_is_compared_with_spikees(write: Write, tmp_path: Path) -> None:
    rows = [standard(n, input=f"prompt {n}", response=f"answer {n}", success=n % 2 == 0) for n in range(60)]
    comparison = compare(log(tmp_path / "run.log"), write(rows, "results_x.jsonl"))
    assert comparison.pairs[0].paired == 45


@pytest.mark.usefixtures("prober")
def test_several_processes_read_a_format_whose_lines_stand_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path / "run.log", 4000, damaged=True)
    alone = analysis_of(path)
    monkeypatch.setattr("faircount.readers.loading.PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr("faircount.readers.loading.RANGE_BYTES", 20_000)
    assert analysis_of(path) == alone


class _Greedy(Reader):
    name = tool = "greedy"

    def sniff(self, probe: Probe) -> bool:
        return b" | " in probe.head

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        raise AssertionError((stream, options, found))


@pytest.mark.usefixtures("prober")
def test_a_file_that_two_readers_claim_is_refused_and_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path / "run.log")
    prober = importlib.import_module("faircount_plugin_reader.prober").ProberReader()
    monkeypatch.setattr("faircount.readers.registry._offered", lambda: [prober, _Greedy()])
    with pytest.raises(InputError, match="recognised as prober and greedy; it can be only one of them"):
        analyze(path)


def test_a_file_that_nobody_knows_is_read_as_spikees_and_says_what_is_wrong(tmp_path: Path) -> None:
    path = log(tmp_path / "run.log")
    with pytest.raises(InputError, match="cannot read any of its 60 lines as a spikee result"):
        analyze(path)


@pytest.mark.usefixtures("prober")
def test_a_reader_that_cannot_be_loaded_is_named_where_nobody_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "site" / "faircount_plugin_reader" / "prober.py").write_text("import no_such_module")
    path = log(tmp_path / "run.log")
    with pytest.raises(InputError, match=r"prober of faircount-plugin-reader: .* cannot be loaded: .*no_such_module"):
        analyze(path)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"id": 1, "success": true}\n', "spikee"),
        (b'{"kind": "run", "schema": 1, "aim": "attack"}\n', "run journal"),
        (b'{"metadata": {}, "test_cases": []}', "REBEL report"),
        (b'{"rejudged_run": {"aim": "task", "tool": "rebel", "version": null}, "id": 1}\n', "rejudged run"),
        (b"", "spikee"),
    ],
)
def test_formats_are_recognised_by_how_a_file_begins(head: bytes, name: str) -> None:
    assert recognise(Probe(head), "x").name == name


def test_the_guide_shows_the_package_that_the_tests_install() -> None:
    guide = (ROOT / "docs" / "guides" / "write-a-reader.md").read_text(encoding="utf-8")
    module = (PLUGIN / "faircount_plugin_reader" / "prober.py").read_text(encoding="utf-8")
    package = (PLUGIN / "pyproject.toml").read_text(encoding="utf-8").partition("\n")[2]
    assert f"\n{module}```" in guide
    assert f"\n{package}```" in guide


# -- what a success means ---------------------------------------------------------------------------------------


def test_the_user_says_what_a_success_means_where_a_format_cannot_know(write: Write) -> None:
    rows = [standard(number, success=number < 3) for number in range(10)]
    analysis = analysis_of(write(rows), aim="task")
    assert (analysis.aim, analysis.role, analysis.rates.pass_rate) == ("task", "tests", analysis.rates.asr)
    assert analysis.failed_cases is not None
    assert analysis.failed_cases.total == 7


def test_a_file_that_says_what_a_success_means_is_believed(write: Write) -> None:
    path = write([HEADER, case("a"), attempt("a")], "run.jsonl")
    assert analysis_of(path, aim="task").tally.total == 1
    with pytest.raises(UsageError, match=r"--aim attack: .*run\.jsonl says itself that it is about tasks"):
        analyze(path, aim="attack")
