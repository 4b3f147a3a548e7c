"""`results convert-to-excel`: rows, analysis and findings in one workbook, under the name that people expect."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import openpyxl
import pytest

from tests.conftest import ROOT, Cli, Write, analysis_of, attack, encode, interruptible, row, shared_folder, standard

SHEETS = ["Rows", "Analysis", "Findings"]
SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "spikee"
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
SOME = [standard(1, success=True, lang="en"), standard(2, lang="de"), attack(2, success=True, lang="de"), standard(3)]


@pytest.fixture(autouse=True)
def _folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cells(path: str | Path, sheet: str) -> list[list[object]]:
    return [[cell.value for cell in line] for line in openpyxl.load_workbook(path)[sheet].iter_rows()]


@pytest.mark.parametrize("option", ["--result-file", "--results-file"])
def test_the_workbook_stands_beside_its_source(write: Write, cli: Cli, option: str) -> None:
    path = write(SOME)
    ran = cli("results", "convert-to-excel", option, path)
    target = path.removesuffix(".jsonl") + ".xlsx"
    assert (ran.code, ran.out, ran.err) == (0, "", f"faircount: wrote 4 rows to {target}\n")
    assert openpyxl.load_workbook(target).sheetnames == SHEETS


def test_rows_have_their_fields_and_what_faircount_says(write: Write, cli: Cli) -> None:
    cli("results", "convert-to-excel", write(SOME), "-o", "out.xlsx")
    heads, *rows = cells("out.xlsx", "Rows")
    assert heads[:5] == ["line", "strategy", "outcome", "id", "success"]
    assert [line[:5] for line in rows] == [
        [1, "standard", "success", 1, True],
        [2, "standard", "success", 2, False],
        [3, "goat", "success", "2-attack", True],
        [4, "standard", "failure", 3, False],
    ]


def test_the_analysis_is_that_of_the_same_file(write: Write, cli: Cli) -> None:
    path = write(SOME)
    cli("results", "convert-to-excel", path, "-o", "out.xlsx")
    facts = {line[0]: line[1:3] for line in cells("out.xlsx", "Analysis") if line[0]}
    analysis = analysis_of(path)
    assert facts["Successful attacks"] == [analysis.tally.success, pytest.approx(analysis.rates.asr.value)]
    assert openpyxl.load_workbook("out.xlsx")["Analysis"]._charts  # type: ignore[attr-defined]


def test_findings_are_on_a_sheet_of_their_own(write: Write, cli: Cli) -> None:
    ran = cli("results", "convert-to-excel", write([*SOME, '{"id": 9, "tor']), "-o", "out.xlsx", "--strict")
    assert ran.code == 3
    assert "F001 1 line could not be read" in ran.err
    assert "F001" in [line[1] for line in cells("out.xlsx", "Findings")]
    assert len(cells("out.xlsx", "Rows")) == 1 + len(SOME)


def test_several_files_share_a_workbook_and_are_told_apart(write: Write, cli: Cli) -> None:
    first, second = write(SOME, "results_a.jsonl"), write([standard(1, input="b")], "results_b.jsonl")
    ran = cli("results", "convert-to-excel", first, second)
    assert ran.err == "faircount: wrote 5 rows to Combined.xlsx\n"
    heads, *rows = cells("Combined.xlsx", "Rows")
    assert heads[:2] == ["file", "line"]
    assert [line[:2] for line in rows] == [*([first, number] for number in range(1, 5)), [second, 1]]
    titles = [str(line[0]) for line in cells("Combined.xlsx", "Analysis") if str(line[0]).startswith("Analysis of")]
    assert titles == ["Analysis of 2 files", "Analysis of a", "Analysis of b"]
    paths = {line[0]: line[1] for line in cells("Combined.xlsx", "Analysis") if line[1] in (first, second)}
    assert paths == {"a": first, "b": second}
    assert cli("results", "convert-to-excel", first, second, "--combine").code == 0
    assert cells("Combined.xlsx", "Analysis")[0][0] == "Combined analysis of 2 files"


def test_packed_files_and_standard_input_are_converted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packed = tmp_path / "results_p.jsonl.gz"
    packed.write_bytes(gzip.compress(encode(SOME)))
    assert cli("results", "convert-to-excel", str(packed)).code == 0
    assert len(cells(tmp_path / "results_p.xlsx", "Rows")) == 5
    given = SimpleNamespace(buffer=io.BytesIO(encode(SOME)))
    monkeypatch.setattr(sys, "stdin", given)
    assert cli("results", "convert-to-excel", "-").err == "faircount: wrote 4 rows to stdin.xlsx\n"
    assert sys.stdin is given
    assert len(cells("stdin.xlsx", "Rows")) == 5
    assert cells("stdin.xlsx", "Analysis")[0][0] == "Analysis of standard input"


def test_a_pipe_that_can_be_read_only_once_is_refused(cli: Cli) -> None:
    os.mkfifo("results_pipe")
    ran = cli("results", "convert-to-excel", "results_pipe", "-o", "out.xlsx")
    assert ran.code == 2
    assert "can be read only once; pass it as standard input" in ran.err


def test_a_workbook_of_somebody_elses_is_kept(write: Write, cli: Cli) -> None:
    path = write(SOME)
    Path("results_x.xlsx").write_bytes(b"precious")
    assert cli("results", "convert-to-excel", path).code == 0
    assert Path("results_x.xlsx").read_bytes() == b"precious"
    assert openpyxl.load_workbook("results_x_2.xlsx").sheetnames == SHEETS
    Path("results_x_2.long.jsonl").write_bytes(b"precious, too")
    assert cli("results", "convert-to-excel", path).code == 0
    assert openpyxl.load_workbook("results_x_3.xlsx").sheetnames == SHEETS
    assert cli("results", "convert-to-excel", path, "--force").code == 0
    assert cli("results", "convert-to-excel", path).code == 0


def test_a_file_without_a_good_line_leaves_nothing(write: Write, cli: Cli, tmp_path: Path) -> None:
    good, bad = write(SOME, "results_a.jsonl"), write(["nonsense"], "results_b.jsonl")
    assert cli("results", "convert-to-excel", bad).code == 3
    assert cli("results", "convert-to-excel", good, bad).code == 3
    assert sorted(item.name for item in tmp_path.iterdir()) == ["results_a.jsonl", "results_b.jsonl"]


def test_without_the_extra_it_is_said_what_to_install(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(SOME)
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    ran = cli("results", "convert-to-excel", path)
    assert ran.code == 2
    assert "pip install 'faircount[xlsx]'" in ran.err
    assert [item.name for item in tmp_path.iterdir()] == ["results_x.jsonl"]


@pytest.mark.peer
def test_spikee_has_the_same_rows(write: Write, cli: Cli) -> None:
    if not SPIKEE.exists():
        pytest.skip("spikee is not installed: run make peers")
    plain = [row(number, response=f"answer {number}", response_time=number / 4, tag=None) for number in range(1, 30)]
    path = write(plain)
    done = subprocess.run(
        [SPIKEE, "results", "convert-to-excel", "--result-file", path], capture_output=True, text=True
    )
    if "openpyxl" in done.stdout + done.stderr:
        pytest.skip("spikee lacks openpyxl: run make peers")
    assert done.returncode == 0, done.stderr
    theirs = cells(Path(path).with_suffix(".xlsx"), "Sheet1")
    cli("results", "convert-to-excel", path, "-o", "ours.xlsx")
    ours = [line[3:] for line in cells("ours.xlsx", "Rows")]
    assert ours == theirs
    assert json.dumps(ours[1][:2]) == "[1, false]"


GOLDEN_WORKBOOKS = sorted((GOLDEN / "out").glob("excel_*/files/**/*.xlsx")) if SHARED is not None else []


@pytest.mark.shared
@pytest.mark.skipif(SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)")
@pytest.mark.parametrize("workbook", GOLDEN_WORKBOOKS or [Path("none")], ids=lambda path: str(path.stem)[:40])
def test_the_rows_are_those_of_a_golden_run_of_spikee(cli: Cli, workbook: Path) -> None:
    name = str(workbook).partition("/files/")[2].removesuffix(".xlsx")
    assert cli("results", "convert-to-excel", str(GOLDEN / "ws" / f"{name}.jsonl"), "-o", "ours.xlsx").code == 0
    heads, *theirs = cells(workbook, "Sheet1")
    (_, _, _, *our_heads), *ours = cells("ours.xlsx", "Rows")
    assert our_heads == heads
    assert len(ours) == len(theirs) > 0
    for our_row, their_row in zip(ours, theirs, strict=True):
        for head, our, their in zip(heads, our_row[3:], their_row, strict=True):
            assert as_spikee(str(head), our) == their or our == pytest.approx(their), head


def as_spikee(head: str, value: object) -> object:
    """Return what spikee makes of a value: line breaks spelled out in two fields, and nothing of an empty text."""
    if head in ("spotlighting_data_markers", "injection_delimiters") and isinstance(value, str):
        return value.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") or None
    return None if value == "" else value


@pytest.mark.parametrize("command", [["convert-to-excel"], ["export", "--to", "parquet"], ["export", "--to", "csv"]])
def test_an_interrupted_command_leaves_nothing(write: Write, tmp_path: Path, command: list[str]) -> None:
    path = write([standard(number, response="x" * 20_000) for number in range(2000)])
    words = [sys.executable, "-m", "faircount", "results", *command, path]
    for _ in range(5):
        running = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=interruptible)
        wait_for(lambda running=running: len(list(tmp_path.iterdir())) > 1 or running.poll() is not None)  # type: ignore[misc]
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
        if running.returncode != 0:
            break
        # On a busy machine the command can be done before the signal comes.
        for item in set(tmp_path.iterdir()) - {Path(path)}:
            item.unlink()
    assert (running.returncode, told) == (130, b"faircount: interrupted\n")
    assert [item.name for item in tmp_path.iterdir()] == ["results_x.jsonl"]


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.005)
