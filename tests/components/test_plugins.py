"""A package that nobody here knows adds a judge, a target, an attack and a reader, by its entry points alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from faircount.components import Context, Spec, make, make_again
from faircount.core import UsageError
from faircount.runs import Request, Target, TargetError, make_target
from tests.conftest import ROOT

PLUGIN = ROOT / "tests" / "plugin_parrot"
MODULE = "faircount_plugin_parrot"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the package as an installer would: its modules, and what is known about it."""
    folder = tmp_path / "site"
    shutil.copytree(PLUGIN / MODULE, folder / MODULE)
    write_about(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in (MODULE, f"{MODULE}.parrot"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def write_about(folder: Path, **changed: dict[str, str]) -> None:
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = folder / f"{MODULE}-2.0.1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 2.0.1\n")
    groups = {**project["entry-points"], **{f"faircount.{kind}": points for kind, points in changed.items()}}
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join([*lines, ""]))


def faircount(site: Path, *words: str) -> str:
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "faircount", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(site: Path, *words: str) -> Any:
    return json.loads(faircount(site, *words, "--output-format", "json"))


def asked(target: Target, text: str) -> str:
    return asyncio.run(target.answer(Request(({"role": "user", "content": text},)))).output


def test_what_a_package_offers_is_listed(site: Path) -> None:
    judges = {one["name"]: one["package"] for one in read(site, "judges", "list")["judges"]}
    attacks = {one["name"]: one["package"] for one in read(site, "attacks", "list")["attacks"]}
    targets = {one["name"]: one["sentence"] for one in read(site, "targets", "list")["targets"]}
    assert judges["parrot.Repeats"] == attacks["louder"] == "faircount-plugin-parrot"
    assert targets["parrot"] == "repeats what is shouted at it"


def test_what_a_package_offers_is_tried(site: Path) -> None:
    assert read(site, "judges", "try", 'parrot.Repeats(word="key")', "a key")["decision"] == "hit"
    assert read(site, "targets", "try", "parrot", "HELLO")["output"] == "HELLO"
    (step,) = read(site, "attacks", "try", "louder", "hello", "--target", "parrot")["steps"]
    assert step["response"] == "HELLO"


def test_a_dataset_is_run_with_them_and_analysed(site: Path) -> None:
    rows = [{"id": str(number), "text": f"say {'KEY' if number else 'key'} {number}"} for number in range(4)]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--target", "parrot", "--attack", "louder(times=2)", "--judge", 'parrot.Repeats(word="KEY")']
    faircount(site, "run", "data.jsonl", *words, "--output-folder", "out")
    (journal,) = Path("out").rglob("*.jsonl")
    header = json.loads(journal.read_text().partition("\n")[0])
    recorded = json.dumps(header)
    assert recorded.count('"kind": "plugin"') == 2 and recorded.count("faircount-plugin-parrot 2.0.1") == 2
    tally = read(site, "results", "analyze", str(journal))["analyses"][0]["entries"]
    assert (tally["success"], tally["total"]) == (4, 4)


def test_a_file_of_its_own_format_is_analysed(site: Path) -> None:
    Path("parrot.log").write_text("parrot: KEY > KEY!\nparrot: key > squawk\n")
    (analysis,) = read(site, "results", "analyze", "parrot.log")["analyses"]
    assert (analysis["entries"]["success"], analysis["entries"]["failure"]) == (1, 1)


@pytest.mark.usefixtures("site")
def test_a_target_is_made_again_from_its_record_without_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    target = make_target("parrot(token='sk-live-0123456789abcdef')", Context(tell=told.append))
    recorded = json.loads(json.dumps(dict(target.settings())))
    assert "sk-live" not in str(recorded) + str(told) and "FAIRCOUNT_ARG_TOKEN" in told[0]
    monkeypatch.setenv("FAIRCOUNT_ARG_TOKEN", "sk-live-0123456789abcdef")
    again = make_again("target", recorded)
    assert again.settings() == target.settings()
    assert asked(again, "HI") == asked(make(Spec("target", "parrot"), Context()), "HI") == "HI"
    make_again("target", {**recorded, "version": "faircount-plugin-parrot 1.0"}, told.append)
    assert told[-1].startswith("parrot: has changed since the run began; what it answers")


@pytest.mark.usefixtures("site")
def test_a_target_of_a_package_fails_and_is_refused_as_any_other() -> None:
    with pytest.raises(TargetError, match="heard nothing") as caught:
        asked(make_target("parrot(deaf=true)", Context()), "HI")
    assert caught.value.kind == "deaf"
    with pytest.raises(UsageError, match="cannot be created with these arguments"):
        make_target("parrot(colour='red')", Context())
    with pytest.raises(UsageError, match="did you mean parrot"):
        make_target("parot", Context())


def test_a_package_cannot_take_the_name_of_a_target_that_is_built_in(site: Path) -> None:
    place = f"{MODULE}.parrot:Parrot"
    write_about(site, targets={"openai": place, "replay": place, "other": place, "gone": f"{MODULE}:Gone"})
    with pytest.raises(UsageError, match="no model given"):
        make_target("openai", Context())
    with pytest.raises(UsageError, match="takes one argument, the file"):
        make_target("replay", Context())
    with pytest.raises(UsageError, match="cannot be used: the class calls itself parrot"):
        make_target("other", Context())
    with pytest.raises(UsageError, match=r"cannot be used: .* cannot be loaded"):
        make_target("gone", Context())
