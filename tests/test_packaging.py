"""What a new machine needs is in the repository and in the wheel, and nothing in it points at a particular machine."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from tools import licences

from tests.conftest import ROOT, some

LOCKS = ["requirements/run.lock", "requirements/dev.lock", "requirements/litellm.lock", "requirements/docs.lock"]


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_pin_and_hash_everything_and_name_no_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    requirements = re.findall(r"^([a-z0-9-]+(?:\[[^\]]*\])?)==", text, re.MULTILINE)
    assert len(requirements) > 5
    assert text.count("--hash=sha256:") >= len(requirements)
    assert "://" not in text
    assert "--index" not in text
    assert "file:" not in text


def test_dependencies_have_lower_bounds_only_and_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {"all", "test"} <= set(extras)
    locked = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.lock"))
    for requirement in [*project["dependencies"], *(r for extra in extras.values() for r in extra)]:
        if requirement.startswith("faircount["):
            continue
        name, _, bound = requirement.partition(">=")
        assert bound, f"{requirement} has no lower bound"
        assert "<" not in bound and "==" not in requirement
        assert f"\n{name.partition('[')[0]}==" in "\n" + locked, f"{name} is not locked"


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_repository_names_no_place_of_a_machine() -> None:
    for path in some(tracked_files()):
        text = path.read_text(encoding="utf-8", errors="replace")
        found = re.search(r"/(?:root|home|work|tmp)/[a-z]", text)
        assert found is None or path.name == "test_packaging.py", f"{path}: {found and found.group()}"


def test_ci_runs_what_newcomers_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for target in ("make lint", "make types", "make docs", "make peers", "make test"):
        assert target in script


# --- what is built --------------------------------------------------------------------------------------------------


def build(source: Path, target: Path, kind: str) -> Path:
    """Build a distribution as `make dist` does, without an index, and return it."""
    words = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    package = ROOT / "src" / "faircount"
    wanted = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    kinds = {Path(name).suffix for name in wanted}
    assert {".py", ".pyi", ".typed", ".html", ".css", ".js", ".svg", ".sql", ".toml", ".json"} <= kinds
    found = {name: data for name, data in contents(wheel).items() if ".dist-info/" not in name}
    assert found.keys() == wanted.keys()
    assert found == wanted


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    source = build(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build(tmp_path / source.name.removesuffix(".tar.gz"), tmp_path / "wheel", "wheel")
    assert again.name == wheel.name
    assert contents(again) == contents(wheel)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of a new environment: the wheel is in it, and the dependencies that are here."""
    folder = tmp_path_factory.mktemp("environment")
    programs = folder / "bin"
    # To install pip anew takes seconds; environments of `make` have it.
    pip_is_here = importlib.util.find_spec("pip") is not None
    venv.create(folder, symlinks=True, with_pip=not pip_is_here)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", programs / "python"]
    pip = pip if pip_is_here else [programs / "python", "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    # Links to the packages alone: this Faircount, which is here in editable form, must not be found.
    (site,) = folder.glob("lib/python*/site-packages")
    here = Path(str(metadata.distribution("msgspec").locate_file("")))
    for path in here.iterdir():
        if "faircount" not in path.name and path.suffix != ".pth" and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    return programs


def in_a_new_environment(installed: Path, folder: Path, *words: str) -> str:
    environment = {"PATH": str(installed), "HOME": str(folder), "PYTHONUTF8": "1", "COLUMNS": "100"}
    done = subprocess.run(
        [str(installed / words[0]), *words[1:]], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_in_a_new_environment(installed: Path, tmp_path: Path) -> None:
    place = in_a_new_environment(installed, tmp_path, "python", "-c", "import faircount; print(faircount.__file__)")
    assert Path(place.strip()).is_relative_to(installed.parent)
    assert "Try next:" in in_a_new_environment(installed, tmp_path, "faircount", "demo")
    page = in_a_new_environment(installed, tmp_path, "faircount", "view", "--get", "/", "faircount-demo")
    assert page.startswith("<!doctype html>") and "bot-strong" in page


def test_the_versions_of_python_that_are_named_are_those_that_are_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [c.rpartition(" :: ")[2] for c in project["classifiers"] if re.search(r" :: 3\.\d+$", c)]
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == f">={named[0]}"


# --- licences -------------------------------------------------------------------------------------------------------


def test_the_page_of_licences_has_every_package_that_is_locked_for_running() -> None:
    page = licences.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z0-9-]+) \| [^|]{3,} \| ([^|]+) \|$", page, re.MULTILINE)[1:]
    assert [name for name, _ in rows] == licences.locked(), "run .venv/bin/python -m tools.licences"
    assert dict(rows) == licences.purposes()


def test_no_licence_binds_those_who_use_faircount() -> None:
    stated = {name: licences.licence(name) for name in licences.locked()}
    assert {name: text for name, text in stated.items() if "GPL" in text or "SSPL" in text} == {}


# --- templates ------------------------------------------------------------------------------------------------------


def test_the_forms_for_issues_are_forms_and_ask_for_nothing_secret() -> None:
    folder = ROOT / ".github"
    for form in some(folder.glob("ISSUE_TEMPLATE/[!c]*.yml")):
        document = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert document["name"] and document["description"]
        asked = [part for part in document["body"] if part["type"] != "markdown"]
        assert all(part["id"] and part["attributes"]["label"] for part in asked)
        assert "do not paste real prompts" in form.read_text(encoding="utf-8")
    assert "No real prompts" in (folder / "pull_request_template.md").read_text(encoding="utf-8")


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True)
    assert re.findall(r"^  make (\S+)", done.stdout, re.MULTILINE) == phony.split()
