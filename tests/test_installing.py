"""The ways to install that the README names work, and so does every Python that is here, with the locked dependencies.

These tests need a package index and run in `make test-install`; where none is reachable they are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from faircount.app import write_sample
from tests.conftest import ROOT
from tests.workflow import Runner, environment_of

pytestmark = pytest.mark.install
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def run(*words: str | Path, folder: Path, path: Path | str = "") -> str:
    """Run a program in a folder that is its home, too, and return what it prints."""
    keep = ("PATH", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy")
    environment = {
        name: value for name, value in os.environ.items() if name in keep or name.startswith(("PIP_", "UV_"))
    }
    environment |= {"HOME": str(folder), "PATH": f"{path}{os.pathsep}{environment['PATH']}", "PYTHONUTF8": "1"}
    environment |= {"UV_PYTHON_DOWNLOADS": "never", "PIPX_HOME": str(folder / "pipx"), "COLUMNS": "100"}
    done = subprocess.run([str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pip, uv and pipx."""
    folder = tmp_path_factory.mktemp("tools")
    venv.create(folder, symlinks=True, with_pip=True)
    words: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--retries",
        "1",
        "uv",
        "pipx",
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no package index is reachable: " + (done.stderr.strip().splitlines() or [""])[-1])
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_readme_names_the_ways_to_install_that_are_tested_here() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in ("pip install .", "pipx install .", "uvx --from . faircount"):
        assert line in text


@pytest.mark.usefixtures("programs")
def test_pip_installs_the_wheel(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "here", symlinks=True, with_pip=True)
    run(tmp_path / "here" / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, folder=tmp_path)
    assert "Try next:" in run(tmp_path / "here" / "bin" / "faircount", "demo", folder=tmp_path)


def test_pipx_installs_the_wheel(programs: Path, wheel: Path, tmp_path: Path) -> None:
    run(programs / "pipx", "install", wheel, folder=tmp_path, path=programs)
    assert "Try next:" in run(tmp_path / ".local" / "bin" / "faircount", "demo", folder=tmp_path)


def test_uvx_runs_the_wheel(programs: Path, wheel: Path, tmp_path: Path) -> None:
    assert "Try next:" in run(programs / "uvx", "--from", wheel, "faircount", "demo", folder=tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_with_every_python_that_is_here(
    version: str, programs: Path, wheel: Path, tmp_path: Path
) -> None:
    python = interpreter(version, programs)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    here, uv = tmp_path / "here", programs / "uv"
    run(uv, "venv", "--quiet", "--python", python, here, folder=tmp_path)
    place: list[str | Path] = ["--quiet", "--python", here / "bin" / "python"]
    run(uv, "pip", "install", *place, "--require-hashes", "-r", ROOT / "requirements" / "run.lock", folder=tmp_path)
    run(uv, "pip", "install", *place, "--no-deps", "--no-index", wheel, folder=tmp_path)
    assert version in run(here / "bin" / "python", "--version", folder=tmp_path)
    assert "Try next:" in run(here / "bin" / "faircount", "demo", folder=tmp_path)
    page = run(here / "bin" / "faircount", "view", "--get", "/", "faircount-demo", folder=tmp_path)
    assert page.startswith("<!doctype html>") and "bot-strong" in page


def interpreter(version: str, programs: Path) -> Path | None:
    """Return a Python of a version: on the path, of pyenv, or one that uv knows."""
    candidates = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    found = subprocess.run(
        [programs / "uv", "python", "find", "--no-python-downloads", version], capture_output=True, text=True
    )
    candidates += [Path(found.stdout.strip())] if found.returncode == 0 else []
    for candidate in candidates:
        said = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        if re.fullmatch(rf"Python {re.escape(version)}\.\S+", said.stdout.strip()):
            return candidate
    return None


def test_the_action_installs_faircount_and_runs_it(programs: Path, tmp_path: Path) -> None:
    temporary, workspace = tmp_path / "runner", tmp_path / "job"
    temporary.mkdir()
    write_sample(workspace / "faircount-demo", seed=7)
    environment = {**environment_of(tmp_path), **{n: v for n, v in os.environ.items() if n.startswith("PIP_")}}
    runner = Runner(workspace, temporary, environment, {"python": {"python-path": str(programs / "python")}})
    files = {"files": "faircount-demo/results_bot-*_sample_1*.jsonl"}
    job = runner.run(ROOT / "action.yml", {**files, "fail-on": "asr > 90%"})
    assert (job.code, job.outputs["exit-code"]) == (0, "0"), job.log
    job = runner.run(ROOT / "action.yml", {**files, "fail-on": "asr > 30%"})
    assert (job.code, job.outputs["exit-code"]) == (1, "1"), job.log
