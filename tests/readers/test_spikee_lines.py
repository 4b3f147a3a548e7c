"""Command lines that were written for spikee, with `faircount` in front."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from faircount import analyze, as_report
from faircount.app.cli import run as run_progress
from faircount.report import console
from tests.analysis.spikee_output import read_console
from tests.app.test_cli_reference import sh
from tests.conftest import ROOT, Cli, Write, attack, row, standard

SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
TARGETS = {"A": "weak", "B": "mid", "C": "strong"}


# -- the examples of spikee's document on results ---------------------------------------------------------------


@pytest.fixture
def workspace(shared: Path, tmp_path: Path) -> Path:
    """A folder with files of real runs under the names that the examples have."""
    golden = shared / "golden" / "spikee" / "ws"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "results").mkdir()
    (dataset,) = (golden / "datasets").glob("cybersec-2026-01-user-input-atk-*.jsonl")
    shutil.copy(dataset, tmp_path / "datasets" / "cybersec-2025-04-dataset-1.jsonl")
    named = {
        "openai_api-gpt-4o-mini_cybersec": "mid",
        "openai-api_cybersec-2025-04": "mid",
        "openai-api_simsonsun-high-quality-jailbreaks": "weak",
        **{f"target-{letter}-cybersec-2025-04": strength for letter, strength in TARGETS.items()},
    }
    for name, strength in named.items():
        (results,) = (golden / "results").glob(f"results_h_bot-{strength}_cybersec-*-1700000001_17000010??.jsonl")
        shutil.copy(results, tmp_path / "results" / f"results_{name}-1_2.jsonl")
    return tmp_path


def examples(shared: Path) -> list[str]:
    """Return the commands of the document; where it forgot a backslash, the command goes on all the same."""
    (document,) = (shared / "seeds").glob("000_*")
    blocks = re.findall(r"^```bash\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [" ".join(re.sub(r"^#.*$|\\$", "", block, flags=re.MULTILINE).split()) for block in blocks]
    assert all(command.startswith("spikee results ") for command in commands)
    return [command.replace("spikee", "faircount", 1) for command in commands]


def test_the_examples_of_spikees_document_run_as_they_stand(shared: Path, workspace: Path) -> None:
    commands = examples(shared)
    assert len(commands) == 7
    for command in commands:
        ran = sh(command, workspace)
        assert (ran.returncode, ran.stderr) == (0, ""), f"{command}\n{ran.stderr}"
        assert ran.stdout
    written = sorted(path.name.rpartition("_")[0] for path in workspace.glob("*/*"))
    for name in ("comparison_cybersec-2025-04-dataset-1", "extract_custom", "extract_success"):
        assert name in written


# -- one dataset ------------------------------------------------------------------------------------------------


def case(number: int) -> dict[str, object]:
    return {"id": number, "long_id": f"case-{number}", "content": f"prompt {number}", "judge_name": "canary"}


@pytest.fixture
def datasets(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("x-1", "x-2"):
        write([case(number) for number in range(3)], f"datasets/{name}.jsonl")
    write([row(number, success=True) for number in range(3)], "results_a.jsonl")
    return tmp_path


COMPARE = "faircount results dataset-comparison"


@pytest.mark.parametrize(
    "words",
    [
        "--dataset-file datasets/x-*.jsonl --result-file results_a.jsonl",
        "--result-file results_a.jsonl --dataset-file datasets/x-*.jsonl",
        "--dataset-file 'datasets/x-*.jsonl' --result-file results_a.jsonl",
        "--dataset-file datasets/x-1.jsonl --dataset datasets/x-2.jsonl results_a.jsonl",
    ],
)
def test_two_datasets_are_refused_by_their_names(datasets: Path, words: str) -> None:
    ran = sh(f"{COMPARE} {words}", datasets)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "2 datasets: datasets/x-1.jsonl, datasets/x-2.jsonl" in ran.stderr
    assert [path.name for path in (datasets / "datasets").iterdir() if "comparison" in path.name] == []


@pytest.mark.parametrize("quote", ["", "'"])
def test_a_glob_that_matches_one_dataset_names_the_output_after_it(datasets: Path, quote: str) -> None:
    (datasets / "datasets" / "x-2.jsonl").unlink()
    ran = sh(f"{COMPARE} --dataset-file {quote}datasets/x-*.jsonl{quote} --result-file results_a.jsonl", datasets)
    assert ran.returncode == 0, ran.stderr
    (written,) = (datasets / "datasets").glob("comparison_*")
    assert re.fullmatch(r"comparison_x-1_\d+\.jsonl", written.name)


def test_results_without_any_answer_are_no_dataset(datasets: Path, write: Write) -> None:
    write([row(number, success=None, response=None) for number in range(3)], "results_b.jsonl")
    assert sh(f"{COMPARE} --dataset-file datasets/x-1.jsonl results_a.jsonl results_b.jsonl", datasets).returncode == 0


# -- words ------------------------------------------------------------------------------------------------------


def test_quiet_and_abbreviations_are_taken(cli: Cli, write: Write) -> None:
    path = write([standard(1, success=True), standard(2)])
    whole = cli("results", "analyze", "--result-file", path, "--overview")
    assert cli("-q", "results", "analyze", "--result-fi", path, "--over") == whole
    assert cli("--quiet", "results", "analyze", "--results-fi", path, "--ov") == whole
    assert whole.code == 0


def test_two_names_of_one_option_are_no_ambiguity(cli: Cli, write: Write) -> None:
    path, dataset = write([row(1)]), write([case(1)], "cases.jsonl")
    ran = cli("results", "dataset-comparison", "--datas", dataset, path, "-o", f"{path}.out")
    assert ran.code == 0, ran.err


def test_an_abbreviation_of_two_options_is_refused_with_both(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", "--result-f", write([row(1)]))
    assert ran.code == 2
    assert "--result-file" in ran.err and "--result-folder" in ran.err


def test_quiet_shows_no_progress_of_a_run(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "_EVERY_ELSEWHERE", 0.0)
    dataset = write([{**case(number), "judge_args": "x"} for number in range(3)], "cases.jsonl")
    words = ["run", dataset, "--target", "simulated", "--output-folder", str(tmp_path)]
    assert " per second, " in cli(*words).err
    assert " per second, " not in cli("-q", *words).err


@pytest.mark.parametrize("noun", ["results", "judges", "targets", "attacks", "cache"])
def test_a_noun_alone_prints_its_help(cli: Cli, noun: str) -> None:
    ran = cli(noun)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: faircount {noun} ")


def test_spikees_output_html_is_told_from_a_file(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", write([row(1)]), "--output", "html")
    assert ran.code == 2
    assert "--output-format html" in ran.err


# -- extract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", ["fail", "failure"])
def test_fail_is_failure(cli: Cli, write: Write, tmp_path: Path, category: str) -> None:
    path = write([standard(1, success=True), standard(2), standard(3, error="HTTP 503")])
    new = tmp_path / "new.jsonl"
    assert cli("results", "extract", path, "--category", category, "-o", str(new)).code == 0
    assert [json.loads(line)["original_id"] for line in new.read_text().splitlines()] == [2]


def test_a_list_of_terms_holds_if_all_do_and_an_unclear_one_is_refused(cli: Cli, write: Write, tmp_path: Path) -> None:
    path = write([standard(n, lang=lang, plugin="1337", response="Jan, Feb") for n, lang in enumerate(["en", "de"])])
    new, search = tmp_path / "new.jsonl", ("results", "extract", path, "--category", "custom", "--custom-search")
    assert cli(*search, "lang:en,plugin:1337", "-o", str(new)).code == 0
    assert [json.loads(line)["lang"] for line in new.read_text().splitlines()] == ["en"]
    assert "2 of 2 rows" in cli(*search, "Jan, Feb", "-o", str(new), "--force").out
    ran = cli(*search, "Jan,Feb", "-o", str(tmp_path / "other.jsonl"))
    assert ran.code == 2
    assert "once per condition" in ran.err and "--where" in ran.err


# -- spikee test ------------------------------------------------------------------------------------------------


def test_spikees_names_of_the_same_things_are_taken(cli: Cli, write: Write, tmp_path: Path) -> None:
    write([{**case(1), "judge_args": "x"}], "datasets/a.jsonl")
    write([{**case(2), "judge_args": "x"}], "datasets/b.jsonl")
    words = ["--target", "simulated", "--threads", "2", "--attempts", "2", "--no-auto-resume", "--sample", "1.0"]
    words += ["--output-folder", str(tmp_path)]
    ran = cli("run", "--dataset", str(tmp_path / "datasets" / "a.jsonl"), *words, "--journal", str(tmp_path / "a.jl"))
    assert ran.code == 0, ran.err
    ran = cli("run", "--dataset-folder", str(tmp_path / "datasets"), *words, "--journal", str(tmp_path / "b.jl"))
    assert ran.code == 0, ran.err
    assert re.search(r"Total unique entries +2\n", ran.out)


def test_a_folder_without_datasets_is_named(cli: Cli, tmp_path: Path) -> None:
    for folder, reason in ((tmp_path, "no .jsonl files in this folder"), (tmp_path / "nope", "no such folder")):
        ran = cli("run", "--dataset-folder", str(folder), "--target", "simulated")
        assert (ran.code, ran.err) == (3, f"faircount: {folder}: {reason}\n")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("--target-options gpt-4o", "--target-args"),
        ("--max-retries 3", "--tries"),
        ("--judge-options offline", "--model"),
        ("--throttle 0.5", "--requests-per-minute"),
        ("--tag x", "--journal"),
        ("--resume-file results_x.jsonl", "faircount resume"),
        ("--auto-resume", "--resume-if-exists"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_name_that_means_something_else_is_refused_with_ours(cli: Cli, verb: str, words: str, instead: str) -> None:
    ran = cli(verb, "--dataset", "d.jsonl", "--target", "simulated", *words.split())
    assert ran.code == 2
    assert instead in ran.err


def test_every_option_of_spikee_test_has_an_answer(cli: Cli) -> None:
    if not SPIKEE.exists():
        pytest.skip("spikee is not installed (make peers)")
    printed = subprocess.run([SPIKEE, "-q", "test", "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", printed, re.MULTILINE)) - {"--help"}
    assert len(options) > 15
    for option in options:
        assert "unknown:" not in cli("run", option, "1").err, option


# -- what the console shows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case_name", "column", "theirs"),
    [("analyze_mid", "GTR", "guardrail_rate"), ("analyze_dyn", "Initial ASR", "initial_rate")],
)
def test_breakdowns_show_the_rates_that_spikee_shows(shared: Path, case_name: str, column: str, theirs: str) -> None:
    out = shared / "golden" / "spikee" / "out" / case_name
    (printed,) = read_console((out / "stdout.txt").read_text(encoding="utf-8"))
    asked = json.loads((out / "meta.json").read_text())["argv"]
    path = shared / "golden" / "spikee" / "ws" / asked[asked.index("--result-file") + 1]
    text = console.render(as_report(analyze(str(path)).analyses), width=100)
    assert printed.breakdowns is not None
    for field, title in (("jailbreak_type", "jailbreak type"), ("position", "position"), ("lang", "language")):
        shown = rates_of(text, title, column)
        expected = {
            value: round(float(str(figures[theirs]).rstrip("%")), 1)
            for value, figures in printed.breakdowns[field].items()
            if value is not None
        }
        assert shown.keys() == expected.keys()
        for value, rate in expected.items():
            assert shown[value] == pytest.approx(rate, abs=0.11)


def rates_of(text: str, title: str, column: str) -> dict[str, float]:
    """Return a column of the breakdown by a field, by value: found by where its title ends."""
    section = text.split(f"Breakdown by {title}\n")[1].split("\n\n")[0].splitlines()
    head = next(number for number, line in enumerate(section) if line.lstrip().startswith("Value"))
    end = section[head].index(column.split()[-1], section[head].index("Rate")) + len(column.split()[-1])
    if " " in column:
        assert column.split()[0] in section[head - 1]
    found = {}
    for line in section[head + 1 :]:
        if line.startswith("  Rate:"):
            break
        found[line.split()[0]] = float(line[:end].split()[-1].rstrip("%"))
    return found


def test_the_rates_without_a_block_or_an_attack_are_left_out(write: Write) -> None:
    rows = [standard(n, plugin=f"p{n % 2}", success=n % 3 == 0) for n in range(20)]
    text = console.render(as_report(analyze(write(rows)).analyses), width=100)
    assert "GTR" not in text and "Initial" not in text
    text = console.render(as_report(analyze(write([*rows, attack(1, plugin="p1")])).analyses), width=100)
    assert "Initial ASR: rate without dynamic attacks." in text


# -- where spikee's own file stands -----------------------------------------------------------------------------


def converted(path: Path, _: Path) -> Path:
    subprocess.run([SPIKEE, "-q", "results", "convert-to-excel", "--result-file", path], check=True)
    return path.with_suffix(".xlsx")


def analysed(path: Path, shared: Path) -> Path:
    (page,) = (shared / "golden" / "spikee" / "out" / "analyze_html_mid" / "files" / "results").glob("*.html")
    return Path(shutil.copy(page, path.with_name("results_x_analysis.html")))


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("analyze --output-format html", analysed),
        pytest.param(
            "convert-to-excel",
            converted,
            marks=pytest.mark.skipif(not SPIKEE.exists(), reason="spikee is not installed (make peers)"),
        ),
    ],
)
def test_ours_goes_beside_the_file_that_spikee_wrote(
    cli: Cli, write: Write, shared: Path, words: str, make: Callable[[Path, Path], Path]
) -> None:
    path = Path(write([standard(1, success=True)]))
    theirs = make(path, shared)
    before = theirs.read_bytes()
    beside = theirs.with_name(f"{theirs.stem}_2{theirs.suffix}")
    for _ in range(2):
        ran = cli("results", *words.split(), "--result-file", str(path))
        assert ran.code == 0, ran.err
        assert f"{theirs}: already exists and was not written by Faircount" in ran.err
        assert str(beside) in ran.err
    assert theirs.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == sorted([path.name, theirs.name, beside.name])
