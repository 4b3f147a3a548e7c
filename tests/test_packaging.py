"""What a new machine needs is in the repository, and nothing in it points at a particular machine or package host."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

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
