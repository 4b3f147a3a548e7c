"""The tutorial can be followed: it is short, and everything that it tells the reader to do is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

import faircount
from faircount.app import write_sample
from tests.conftest import ROOT, Cli
from tests.workflow import runner_with_faircount

DOCS = ROOT / "docs"


def words_outside_blocks(page: Path) -> int:
    return len(re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL).split())


def test_the_tutorial_takes_ten_minutes_and_shows_pictures() -> None:
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    assert words_outside_blocks(DOCS / "start.md") <= 900
    assert text.count("![") >= 2


def test_every_command_of_the_tutorial_is_run_by_a_test(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of commands with their output are run as those of all pages are; here is what the other blocks say."""
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} == {"console", "sh", "yaml"}
    install, view = [body for kind, body in blocks if kind == "sh"]
    assert install.splitlines() == ["make demo", ". .venv/bin/activate"]
    assert re.search(
        r"^demo: \$\(VENV\)/\.run .*\n\t\$\(BIN\)/faircount demo$", (ROOT / "Makefile").read_text("utf-8"), re.M
    )
    write_sample(tmp_path / "faircount-demo", seed=7)
    monkeypatch.chdir(tmp_path)
    ran = cli(*shlex.split(view)[1:], "--get", "/")
    assert ran.code == 0 and ran.out.startswith("<!doctype html>")


def test_the_workflow_of_the_tutorial_runs(tmp_path: Path) -> None:
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    (workflow,) = [yaml.load(body, yaml.BaseLoader) for body in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)]
    assert workflow.keys() == {"name", "on", "jobs"}
    (gate,) = workflow["jobs"].values()
    checkout, step = gate["steps"]
    assert checkout == {"uses": "actions/checkout@v4"}
    assert step["uses"].endswith(f"/faircount@v{faircount.__version__}")
    workspace = tmp_path / "job"
    write_sample(workspace / "faircount-demo", seed=7)
    runner = runner_with_faircount(tmp_path, workspace)
    job = runner.run(ROOT / "action.yml", step["with"])
    assert job.code == 0, job.log
    assert "All 2 gates pass." in job.summary


def test_the_readme_is_short() -> None:
    assert words_outside_blocks(ROOT / "README.md") <= 700
