"""`judges list` and `judges try`, with a package that brings a judge of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.judges import JUDGES
from tests.conftest import ROOT, Cli, Ran
from tests.report.test_present import harmless

PLUGIN = ROOT / "tests" / "plugin_judges"
HOSTILE = "\x1b]0;owned\x07 \u202eevil BYPASSED <script>alert(1)</script>"


def validator(name: str) -> Any:
    text = resources.files("faircount.report").joinpath("schemas", f"{name}-1.json").read_text("utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def listed(cli: Cli) -> dict[str, Any]:
    ran = cli("judges", "list", "--output-format", "json")
    assert ran.code == 0 and ran.out.isascii()
    read: dict[str, Any] = json.loads(ran.out)
    validator("judges").validate(read)
    return read


def tried(cli: Cli, *words: str) -> tuple[int, dict[str, Any]]:
    ran = cli("judges", "try", *words, "--output-format", "json")
    assert ran.out.isascii()
    read: dict[str, Any] = json.loads(ran.out)
    validator("verdict").validate(read)
    return ran.code, read


# -- list -------------------------------------------------------------------------------------------------------


def test_every_judge_built_in_is_listed_with_its_parameters(cli: Cli) -> None:
    read = listed(cli)
    judges = {judge["name"]: judge for judge in read["judges"]}
    assert [judge.name for judge in JUDGES.known] == list(judges)
    regex = judges["strings.Regex"]
    assert (regex["short"], regex["package"], regex["string_matcher"]) == ("regex", None, True)
    assert {"name": "ignore_case", "required": False, "several": False, "default": False} in regex["parameters"]
    assert judges["combine.AnyOf"]["parameters"][0] == {
        "name": "judges", "required": False, "several": True, "default": None
    }  # fmt: skip
    assert "chat" not in [one["name"] for one in judges["llm.Rubric"]["parameters"]]
    assert all(judge["looks_for"] for judge in judges.values())


def test_other_tools_are_listed_whether_they_are_installed_or_not(cli: Cli) -> None:
    adapters = {one["prefix"]: one for one in listed(cli)["adapters"]}
    assert list(adapters) == ["spikee", "rebel", "garak", "deepeval"]
    for one in adapters.values():
        assert one["installed"] == (one["package_version"] is not None)


def test_the_list_can_be_read_by_people(cli: Cli, tmp_path: Path) -> None:
    console = cli("judges", "list").out
    markdown = cli("judges", "list", "--output-format", "markdown").out
    for judge in JUDGES.known:
        assert judge.short in console
        assert judge.name in markdown
    page = tmp_path / "judges.html"
    assert cli("judges", "list", "--output-format", "html", "-o", str(page)).code == 0
    assert "mitigation-bypass" in page.read_text(encoding="utf-8")
    assert cli("judges", "list", "--output-format", "html").code == 2


# -- try --------------------------------------------------------------------------------------------------------


def test_a_hit_shows_what_decided(cli: Cli) -> None:
    code, read = tried(cli, "contains(text='BYPASSED')", f"{'a' * 60} BYPASSED {'b' * 60}")
    assert (code, read["decision"], read["error"]) == (0, "hit", None)
    assert read["judge"] == 'strings.Contains(text="BYPASSED")'
    evidence = read["evidence"]
    assert (evidence["start"], evidence["end"], evidence["text"]) == (61, 69, "BYPASSED")
    assert evidence["before"] == "…" + "a" * 39 + " "
    assert evidence["after"] == " " + "b" * 39 + "…"
    ran = cli("judges", "try", "contains(text='BYPASSED')", "it is BYPASSED.")
    assert "it is »BYPASSED«." in ran.out and read["identity"]["digest"] in ran.out


def test_a_pass_is_decided_too(cli: Cli) -> None:
    code, read = tried(cli, "contains(text='BYPASSED')", "no")
    assert (code, read["decision"], read["evidence"]) == (0, "pass", None)


def test_the_text_may_come_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfSure, \xff\n")))
    assert tried(cli, "regex(pattern='^Sure, .$')", "-")[1]["decision"] == "hit"


def test_everything_that_a_judge_may_need_can_be_given(cli: Cli) -> None:
    assert tried(cli, "canary", "a b", "--judge-arg", "b")[1]["decision"] == "hit"
    assert tried(cli, "canary", "a b", "--judge-arg", "x", "--judge-arg", "a")[1]["decision"] == "hit"
    assert tried(cli, "exact", "a", "--expected", "a")[1]["decision"] == "hit"


def test_a_judge_that_fails_ends_with_3_and_a_sentence(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def broken(attempt):\n    raise ValueError('no \\x1b idea')\n", encoding="utf-8")
    code, read = tried(cli, f"{path}:broken", "x")
    assert (code, read["decision"]) == (3, None)
    assert read["error"] == "ValueError: no \x1b idea"
    ran = cli("judges", "try", f"{path}:broken", "x")
    assert ran.code == 3
    assert "unjudged" in ran.out and "that is not a pass" in ran.out
    assert ran.err.endswith("broken.py:broken: ValueError: no \\x1b idea\n")


def test_a_score_that_is_none_is_not_shown_as_one(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(
        "from faircount.core.verdict import *\n"
        "def odd(attempt):\n    return Verdict(Decision.HIT, score=float('nan'), span=Span(3, 99))\n",
        encoding="utf-8",
    )
    read = tried(cli, f"{path}:odd", "x")[1]
    assert (read["decision"], read["score"], read["evidence"]) == ("hit", None, None)
    assert "nan" not in cli("judges", "try", f"{path}:odd", "x").out


def test_an_error_and_a_price_of_types_of_its_own_are_written_as_text_and_number(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from faircount.core.verdict import *\n"
        "class Text(str): pass\n"
        "class Price(float): pass\n"
        "def own(attempt):\n    return Verdict.unjudged(Text('no idea'), usage=Usage(cost=Price(0.5)))\n",
        encoding="utf-8",
    )
    read = tried(cli, f"{path}:own", "x")[1]
    assert (read["error"], read["usage"]["cost"]) == ("no idea", 0.5)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("refusal",), 2, "the following arguments are required: TEXT"),
        (("refusals", "a"), 2, "refusals: no such judge; did you mean refusal"),
        (("contains(", "a"), 2, "the judge cannot be parsed at character 10"),
        (("refusal", "a", "--config", "missing.toml"), 2, "missing.toml: no such file"),
        (("refusal", "a", "--latency", "-1"), 2, "--latency must be 0 or more, not -1"),
        (("refusal", "a", "--output-format", "html"), 2, "--output-format html needs -o FILE"),
    ],
)
def test_mistakes_are_said_in_a_sentence(cli: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    ran = cli("judges", "try", *words)
    assert ran.code == code
    assert message in ran.err and ran.out == ""


def test_hostile_text_stays_text(cli: Cli, tmp_path: Path) -> None:
    words = ("judges", "try", "contains(text='BYPASSED')", HOSTILE)
    assert harmless(cli(*words).out)
    assert harmless(cli(*words, "--output-format", "markdown").out)
    page = tmp_path / "page.html"
    cli(*words, "--output-format", "html", "-o", str(page))
    assert "<script>alert" not in page.read_text(encoding="utf-8")


def test_a_named_judge_of_the_configuration_can_be_tried(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[judges]\nyes = 'contains(text=\"yes\")'\n", encoding="utf-8")
    assert tried(cli, "not(yes)", "no", "--config", str(path))[1]["decision"] == "hit"


# -- a package with a judge of its own --------------------------------------------------------------------------


def install(folder: Path, entry_points: dict[str, str] | None = None, name: str | None = None) -> None:
    """Put the sample package into a folder as an installer would: its modules, and what is known about it."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = entry_points or project["entry-points"]["faircount.judges"]
    name = name or project["name"]
    shutil.copytree(PLUGIN / "faircount_plugin_judges", folder / "faircount_plugin_judges", dirs_exist_ok=True)
    about = folder / f"{name.replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = [f"{key} = {value}" for key, value in offered.items()]
    about.joinpath("entry_points.txt").write_text("\n".join(["[faircount.judges]", *lines, ""]), encoding="utf-8")


def run(*words: str, path: list[Path]) -> Ran:
    folders = [*map(str, path), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [sys.executable, "-m", "faircount", "judges", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_judge_of_an_installed_package_is_listed_and_can_be_tried(tmp_path: Path) -> None:
    install(tmp_path)
    read = json.loads(run("list", "--output-format", "json", path=[tmp_path]).out)
    validator("judges").validate(read)
    assert read["broken"] == []
    judge = next(one for one in read["judges"] if one["name"] == "shouting.Shouting")
    assert (judge["package"], judge["version"], judge["short"]) == ("faircount-plugin-judges", "1.2.3", None)
    assert judge["parameters"] == [{"name": "words", "required": False, "several": False, "default": 1}]
    assert "words in capital letters" in run("list", path=[tmp_path]).out
    expression = "not(shouting.Shouting(words=2))"
    ran = run("try", expression, "so LOUD now", "--output-format", "json", path=[tmp_path])
    verdict = json.loads(ran.out)
    assert (ran.code, verdict["decision"], verdict["score"]) == (0, "hit", 0.5)
    assert verdict["judge"] == "combine.Not(shouting.Shouting(words=2))"
    alone = json.loads(run("try", "shouting.Shouting", "so LOUD", "--output-format", "json", path=[tmp_path]).out)
    assert alone["identity"]["version"] == "1.2.3" and alone["evidence"]["text"] == "LOUD"
    assert run("try", "shouting.Shouting(word=2)", "x", path=[tmp_path]).err == (
        "faircount: shouting.Shouting: has no parameter word; it takes words\n"
    )
    assert "did you mean shouting.Shouting" in run("try", "shouting.Shoutin", "x", path=[tmp_path]).err


def test_packages_that_are_broken_or_hide_something_are_reported_and_harm_nothing(tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("print('noise')\nraise ImportError('torn\\x1b')\n", encoding="utf-8")
    install(
        tmp_path,
        {
            "torn.Torn": "torn:Judge",
            "gone.Gone": "no_such_package:Judge",
            "strange.Path": "pathlib:Path",
            "refusal.Refusal": "faircount_plugin_judges.shouting:Shouting",
            "dan.Shouting": "faircount_plugin_judges.shouting:Shouting",
            "Canary": "faircount_plugin_judges.shouting:Shouting",
            "nodot": "faircount_plugin_judges.shouting:Shouting",
            "other.Name": "faircount_plugin_judges.shouting:Shouting",
            "shouting.Shouting": "faircount_plugin_judges.shouting:Shouting",
        },
    )
    install(tmp_path / "second", {"shouting.Shouting": "faircount_plugin_judges.other:Other"}, "second-package")
    ran = run("list", "--output-format", "json", path=[tmp_path])
    assert ran.code == 0
    errors = {one["name"]: one["error"] for one in json.loads(ran.out)["broken"]}
    assert errors == {
        "torn.Torn": "torn:Judge cannot be loaded: ImportError: torn\x1b",
        "gone.Gone": "no_such_package:Judge cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'",
        "strange.Path": "pathlib:Path is not a subclass of Judge",
        "refusal.Refusal": "it would hide the built-in refusal.Refusal",
        "dan.Shouting": "garak has detectors in a module of that name, and a summary of judges could not distinguish "
        "the two",
        "Canary": "it would hide the built-in canary.Canary",
        "nodot": "the name of a judge must have the form module.Name",
        "other.Name": "the class calls itself shouting.Shouting, the entry point other.Name",
    }
    console = run("list", path=[tmp_path])
    assert "it would hide the built-in refusal.Refusal" in " ".join(console.out.split()) and "\x1b" not in console.out
    assert "noise" in console.err and "noise" not in console.out
    refusal = json.loads(run("try", "refusal", "LOUD", "--output-format", "json", path=[tmp_path]).out)
    assert refusal["judge"] == "refusal.Refusal" and refusal["decision"] == "pass"
    torn = run("try", "torn.Torn", "x", path=[tmp_path])
    assert torn.code == 2
    assert (
        "torn.Torn: the judge from the package faircount-plugin-judges cannot be used: torn:Judge cannot be" in torn.err
    )
    both = run("try", "shouting.Shouting", "x", path=[tmp_path, tmp_path / "second"])
    assert both.code == 2 and "2 packages offer a judge of this name" in both.err
