"""The GitHub Action and the job for GitLab do what they say: their steps are run, with gates that pass and that fail.

Names of files and gates reach the shell as data, whatever is in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from faircount import __version__
from faircount.app import write_sample
from tests.conftest import ROOT, encode, standard
from tests.workflow import Job, Runner, runner_with_faircount

ACTION = ROOT / "action.yml"
GITLAB = ROOT / "docs" / "samples" / "gitlab.yml"
STRONG = "faircount-demo/results_bot-strong_sample_1790000000.jsonl"
MID = "faircount-demo/results_bot-mid_sample_1790000000.jsonl"
SARIF_UPLOAD = "github/codeql-action/upload-sarif@v3"

HOSTILE = (
    "results_$(touch pwned).jsonl",
    "results_`touch pwned`;touch pwned.jsonl",
    "results_\"'&|>pwned.jsonl",
    "-results_--fail-on=asr > 0.jsonl",
    "results_a\nb\n::error::pwned.jsonl",
    "results_${{ inputs.files }} $HOME * ?.jsonl",
    "results_\u202e\x1b[2J\u200b.jsonl",
)
"""Names of files that a shell, a runner or a terminal could take for more than names."""


def write_hostile(folder: Path) -> None:
    for at, name in enumerate(HOSTILE):
        # Files with the same content would count once.
        rows = [standard(number, success=False, input=f"{at} {number}") for number in range(30)]
        (folder / name).write_bytes(encode(rows))


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    workspace = tmp_path / "job"
    write_sample(workspace / "faircount-demo", seed=7)
    return runner_with_faircount(tmp_path, workspace)


def act(runner: Runner, **inputs: str) -> Job:
    return runner.run(ACTION, {name.replace("_", "-"): value for name, value in inputs.items()})


# --- GitHub ---------------------------------------------------------------------------------------------------------


def test_gates_that_pass_let_the_job_go_on_and_leave_their_reports(runner: Runner) -> None:
    job = act(runner, files=STRONG, fail_on="asr.high > 15%\nerrors > 10%\n")
    assert job.code == 0, job.log
    assert job.outputs["exit-code"] == "0"
    assert "All 2 gates pass." in job.summary
    assert Path(job.outputs["report"]).read_text(encoding="utf-8").startswith("#")
    assert len(ElementTree.parse(job.outputs["junit"]).findall(".//testcase")) == 2
    assert json.loads(Path(job.outputs["sarif"]).read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert job.used.keys() == {"actions/setup-python@v5"}
    assert job.used["actions/setup-python@v5"]["python-version"] == "3.12"


def test_a_gate_that_fails_fails_the_job_after_its_reports_are_written_and_uploaded(runner: Runner) -> None:
    job = act(runner, files=MID, fail_on="asr > 5%", upload_sarif="true")
    assert (job.code, job.outputs["exit-code"]) == (1, "1")
    assert "gate asr > 0.05: failed" in job.log or "gate asr > 5%: failed" in job.log
    assert job.used[SARIF_UPLOAD]["sarif_file"] == job.outputs["sarif"]
    (run,) = json.loads(Path(job.outputs["sarif"]).read_text(encoding="utf-8"))["runs"]
    assert "error" in {result["level"] for result in run["results"]}


def test_a_baseline_a_folder_and_more_arguments_are_taken(runner: Runner) -> None:
    job = act(
        runner,
        files=f"{MID}\r\n\r\n",
        baseline=STRONG,
        fail_on="regression > 2%",
        args="--inconclusive\npass\n--by\nplugin",
        output_folder="a folder/b",
    )
    assert (job.code, job.outputs["exit-code"]) == (1, "1"), job.log
    assert Path(job.outputs["report"]) == runner.workspace / "a folder" / "b" / "analysis.md"
    assert "`regression > 2%`" in job.summary


@pytest.mark.parametrize(("files", "gates", "code"), [("gone.jsonl", "asr > 5%", 3), (MID, "asr.hihg > 5%", 2)])
def test_a_mistake_ends_the_job_with_its_code_and_uploads_nothing(
    files: str, gates: str, code: int, runner: Runner
) -> None:
    job = act(runner, files=files, fail_on=gates, upload_sarif="true")
    assert (job.code, job.outputs["exit-code"]) == (code, str(code)), job.log
    assert job.outputs["sarif"] == ""
    assert SARIF_UPLOAD not in job.used


def test_names_of_files_are_data_whatever_is_in_them(runner: Runner) -> None:
    folder = runner.workspace / "hostile"
    folder.mkdir()
    write_hostile(folder)
    before = set(runner.workspace.rglob("*"))
    # A line holds no name with a line feed; a glob finds it.
    names = [f"hostile/{name}" for name in HOSTILE if "\n" not in name]
    job = act(runner, files="\n".join([*names, "hostile/results_a*"]), fail_on="asr > 5%\nasr.high > 50%")
    assert job.code == 0, job.log
    suites = ElementTree.parse(job.outputs["junit"]).findall(".//testsuite")
    assert len(suites) == len(HOSTILE)
    report = {Path(job.outputs[name]) for name in ("report", "junit", "sarif")}
    assert set(runner.workspace.rglob("*")) - before == {*report, runner.workspace / "faircount-report"}
    for text in (job.log, job.summary, Path(job.outputs["report"]).read_text(encoding="utf-8")):
        assert not re.search("^::|\x1b|\u202e", text, re.MULTILINE)


@pytest.mark.parametrize(
    "word", ["$(touch pwned)", '"; touch pwned; "', "`touch pwned`", "--junit=pwned", "a\nend-0\nreport=pwned"]
)
def test_no_input_is_a_command(word: str, runner: Runner) -> None:
    before = {path for path in runner.workspace.rglob("*") if "faircount-demo" in path.parts}
    job = act(runner, files=word, fail_on=word, baseline=word, output_folder="reports", source=word)
    assert job.code == 2, job.log
    assert job.outputs["report"] == ""
    assert set(runner.workspace.rglob("*")) == {
        *before,
        runner.workspace / "reports",
        runner.workspace / "faircount-demo",
    }


@pytest.mark.parametrize(
    ("inputs", "installed"),
    [
        ({}, str(ROOT)),
        ({"source": "tools/faircount.whl"}, "tools/faircount.whl"),
    ],
)
def test_what_is_installed_can_be_chosen(inputs: dict[str, str], installed: str, runner: Runner) -> None:
    act(runner, files=STRONG, **inputs)
    asked = (runner.temporary.parent / "installed").read_text(encoding="utf-8").splitlines()
    assert asked[-2:] == ["--", installed]


def test_no_input_is_part_of_a_script() -> None:
    document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    scripts = [step["run"] for step in document["runs"]["steps"] if "run" in step]
    assert len(scripts) == 3
    assert not any("${{" in script for script in scripts)
    named = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text(encoding="utf-8")))
    assert named == document["inputs"].keys()


def test_the_step_of_the_guide_runs_and_no_page_names_an_owner(runner: Runner) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    uses = {used for page in pages for used in re.findall(r"uses: (\S*/faircount@\S*)", page.read_text("utf-8"))}
    assert uses == {f"OWNER/faircount@v{__version__}"}
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(- uses: OWNER.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    ((step,),) = [yaml.safe_load(block)]
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in step["with"].items()}
    job = runner.run(ACTION, given)
    assert job.code == 0, job.log
    assert "All 2 gates pass." in job.summary
    assert SARIF_UPLOAD in job.used


# --- GitLab ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def gitlab(runner: Runner) -> Callable[..., tuple[int, str]]:
    """Run the job for GitLab with these variables."""
    programs = runner.temporary / "programs"
    programs.mkdir()
    (programs / "python").symlink_to(runner.provided["python"]["python-path"])
    path = f"{programs}:{runner.environment['PATH']}"

    def run(**variables: str) -> tuple[int, str]:
        named = {f"FAIRCOUNT_{name}": value for name, value in variables.items()}
        return runner.run_gitlab(GITLAB, "faircount", {"PATH": path, **named})

    return run


@pytest.mark.parametrize(("file", "code"), [(STRONG, 0), (MID, 1)])
def test_the_job_for_gitlab_ends_as_the_gates_say(
    file: str, code: int, gitlab: Callable[..., tuple[int, str]], runner: Runner
) -> None:
    found, log = gitlab(FILES=file)
    assert found == code, log
    report = runner.workspace / "faircount-report" / "gates.xml"
    assert len(ElementTree.parse(report).findall(".//testcase")) == 2
    (kept,) = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))["faircount"]["artifacts"]["paths"]
    assert report.is_relative_to(runner.workspace / kept)


def test_the_job_for_gitlab_compares_with_a_baseline(gitlab: Callable[..., tuple[int, str]]) -> None:
    code, log = gitlab(FILES=MID, BASELINE=STRONG, GATES="regression > 2%")
    assert code == 1 and "gate regression > 2%" in log and ": failed: " in log, log


def test_the_job_for_gitlab_takes_names_of_files_as_data(
    gitlab: Callable[..., tuple[int, str]], runner: Runner
) -> None:
    write_hostile(runner.workspace)
    names = [name for name in HOSTILE if "\n" not in name]
    code, log = gitlab(FILES="\n".join([*names, "results_a*"]), GATES="asr > 5%")
    assert code == 0, log
    suites = ElementTree.parse(runner.workspace / "faircount-report" / "gates.xml").findall(".//testsuite")
    assert len(suites) == len(HOSTILE)
    assert not list(runner.workspace.glob("pwned*"))
