"""`results extract` beside real runs of `spikee results extract`, and its output in the hands of the real spikee."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, Write, attack, shared_folder, standard
from tests.query.test_query_golden import MEANT, OTHER_COUNTS, REFUSED, Case, rows_of

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "spikee"
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
Row = dict[str, Any]

needs_golden = pytest.mark.skipif(
    SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)"
)
needs_spikee = pytest.mark.skipif(not SPIKEE.exists(), reason="spikee is not installed (make peers)")


def names(pattern: str) -> list[str]:
    return sorted(folder.name for folder in (GOLDEN / "out").glob(pattern))


def arguments(name: str) -> list[str]:
    """Return the words of a golden run, without those that say where its files are."""
    words: list[str] = json.loads((GOLDEN / "out" / name / "meta.json").read_text(encoding="utf-8"))["argv"]
    return words[3:]


def rerun(name: str, cli: Cli, output: Path, *more: str) -> list[Row]:
    """Run a golden case with Faircount in its own folder and return the rows of the new dataset."""
    words = arguments(name)
    if "--tag" in words:
        del words[words.index("--tag") : words.index("--tag") + 2]
    ran = cli("results", "extract", *words, "-o", str(output), *more)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(GOLDEN / "ws")
    return GOLDEN / "ws"


def without_prompt(found: Row) -> Row:
    return {name: value for name, value in found.items() if name not in ("content", "content_type")}


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("name", sorted(set(names("extract_*")) - REFUSED))
def test_a_query_gives_the_rows_that_spikee_gave_or_should_have_given(name: str, cli: Cli, tmp_path: Path) -> None:
    case = Case(GOLDEN / "out" / name)
    found = rerun(name, cli, tmp_path / "new.jsonl")
    assert [one["id"] for one in found] == list(range(1, len(found) + 1))
    if name in MEANT:
        assert [one["original_id"] for one in found] == [one["id"] for one in case.rows if MEANT[name](one)]
        return
    assert len(found) == case.count
    kept = list((case.folder / "files").rglob("*.jsonl"))
    if kept:
        theirs = rows_of(kept[0])
        assert [without_prompt(one) for one in found] == theirs
        assert [list(without_prompt(one)) for one in found] == [list(one) for one in theirs]


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_query_that_spikee_refuses_is_refused(name: str, cli: Cli, tmp_path: Path) -> None:
    ran = cli("results", "extract", *arguments(name), "-o", str(tmp_path / "new.jsonl"))
    assert ran.code == 2
    assert ran.err.startswith("faircount: the query cannot be parsed")
    assert list(tmp_path.iterdir()) == []


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("name", sorted(set(names("extract091_*")) - set(names("extract091_custom_*"))))
def test_categories_by_spikees_definition_are_those_of_spikee_091(name: str, cli: Cli, tmp_path: Path) -> None:
    case = Case(GOLDEN / "out" / name)
    found = rerun(name, cli, tmp_path / "new.jsonl", "--definition", "spikee")
    assert len(found) == case.count
    if case.kept is not None:
        assert [one["original_id"] for one in found] == case.kept


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
def test_our_failures_are_spikees_without_errors_and_blocks(cli: Cli, tmp_path: Path) -> None:
    theirs = rerun("extract091_failure", cli, tmp_path / "theirs.jsonl", "--definition", "spikee")
    ours = rerun("extract091_failure", cli, tmp_path / "ours.jsonl")
    expected = [one["original_id"] for one in theirs if one["error"] is None]
    assert [one["original_id"] for one in ours] == expected
    assert 0 < len(ours) < len(theirs)


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("name", sorted(set(names("extract091_custom_*")) - {"extract091_custom_none"}))
def test_terms_give_the_rows_that_spikee_gave(name: str, cli: Cli, tmp_path: Path) -> None:
    case = Case(GOLDEN / "out" / name)
    files = [word for path in case.files for word in ("--result-file", str(path))]
    terms = ["--custom-search", str(case.term)]
    ran = cli("results", "extract", *files, "--category", "custom", *terms, "-o", str(tmp_path / "new.jsonl"))
    assert ran.code == 0
    found = rows_of(tmp_path / "new.jsonl")
    assert len(found) == OTHER_COUNTS.get(name, case.count)
    if case.kept is not None:
        assert [one["original_id"] for one in found] == case.kept


@needs_golden
@pytest.mark.shared
@pytest.mark.usefixtures("workspace")
def test_custom_without_a_term_is_refused(cli: Cli) -> None:
    assert cli("results", "extract", *arguments("extract091_custom_none")).code == 2


# -- the real spikee --------------------------------------------------------------------------------------------

ROWS = [
    standard(1, long_id="case-1", success=True, response="CANARY"),
    standard(2, long_id="case-2", success=False),
    attack(2, long_id="case-2-goat", success=True, response="CANARY"),
    standard(3, long_id="case-3", success=False, error="HTTP 503", response=""),
]
JUDGED = {"judge_name": "canary", "judge_args": "CANARY", "judge_options": None, "input_type": "text"}
TARGET = 'def process_input(input_text, system_message=None):\n    return "CANARY " + input_text\n'


def run_spikee(folder: Path, *words: str) -> str:
    ran = subprocess.run([str(SPIKEE), "-q", *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout


@pytest.fixture
def run_folder(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """A folder in which the successes of a run were extracted."""
    monkeypatch.chdir(tmp_path)
    write([{**one, **JUDGED} for one in ROWS])
    assert cli("results", "extract", "results_x.jsonl", "-o", "extract_success_1.jsonl").code == 0
    return tmp_path


@pytest.mark.peer
@needs_spikee
def test_spikee_runs_an_extract_again(run_folder: Path) -> None:
    (run_folder / "targets").mkdir()
    (run_folder / "targets" / "echo.py").write_text(TARGET, encoding="utf-8")
    run_spikee(run_folder, "test", "--dataset", "extract_success_1.jsonl", "--target", "echo", "--no-auto-resume")
    (path,) = (run_folder / "results").glob("results_echo_*.jsonl")
    found = sorted(rows_of(path), key=lambda one: str(one["id"]))
    assert [(one["id"], one["input"], one["success"]) for one in found] == [(1, "prompt 1", True), (2, "variant", True)]
    assert [one["long_id"] for one in found] == ["case-1_extracted_results_x", "case-2-goat_extracted_results_x"]


@pytest.mark.peer
@needs_spikee
def test_spikee_analyses_an_extract_alone_and_with_its_results(run_folder: Path) -> None:
    alone = run_spikee(run_folder, "results", "analyze", "--overview", "--result-file", "extract_success_1.jsonl")
    assert re.findall(r"(?:Total Unique Entries|Successful Attacks \(Total\)): (\d+)", alone) == ["2", "2"]
    files = ["--result-file", "results_x.jsonl", "--result-file", "extract_success_1.jsonl"]
    together = run_spikee(run_folder, "results", "analyze", "--overview", "--combine", *files)
    assert re.findall(r"(?:Total Unique Entries|Successful Attacks \(Total\)): (\d+)", together) == ["3", "2"]


@pytest.mark.peer
@needs_spikee
def test_spikee_extracts_the_same_rows(run_folder: Path) -> None:
    run_spikee(run_folder, "results", "extract", "--result-file", "results_x.jsonl", "--query", "success = true")
    (path,) = (run_folder / "results").glob("extract_sfl_*.jsonl")
    ours = [without_prompt(one) for one in rows_of(run_folder / "extract_success_1.jsonl")]
    assert ours == rows_of(path)
    assert [list(one) for one in ours] == [list(one) for one in rows_of(path)]
