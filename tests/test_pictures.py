"""The pictures of the documentation are true: drawn anew they are the same, they load nothing, and pages show them.

So are the examples beside them for which the sample of the demo has no file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools import label_screenshots, pictures, screenshots

import faircount
from faircount.app.cli.commands import build_in_full
from faircount.report import percent
from tests.console_blocks import matches

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
SVG = "{http://www.w3.org/2000/svg}"
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.svg)\)")
COLOURS = {colour for pair in pictures._DARK.items() for colour in pair}


def text_of(name: str) -> str:
    return (pictures.FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "draw"), pictures.PICTURES.items(), ids=list(pictures.PICTURES))
def test_a_picture_is_up_to_date(name: str, draw: Callable[[], str]) -> None:
    assert text_of(name) == draw(), "run .venv/bin/python -m tools.pictures"


def test_there_are_no_pictures_but_those_that_are_drawn() -> None:
    assert {path.name for path in pictures.FOLDER.iterdir()} == {
        *pictures.PICTURES,
        *screenshots.PAGES,
        *screenshots.VIEWS,
        *screenshots.THRESHOLDS,
        *screenshots.EXPORTS,
        *label_screenshots.PICTURES,
    }


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_an_svg_that_tells_its_title_and_runs_and_loads_nothing(name: str) -> None:
    root = ElementTree.fromstring(text_of(name))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "g", "rect", "line", "polyline", "polygon", "circle", "text"}
    for element in root.iter():
        assert not [key for key in element.attrib if key.startswith("on") or key.endswith(("href", "src"))]
    assert not re.search(r"url\(|@import|<!|<\?|javascript:|data:", text_of(name))
    assert re.findall(r"https?:[^\"]*", text_of(name)) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_stands_alone_in_light_and_dark(name: str) -> None:
    assert "var(" not in text_of(name) and "currentColor" not in text_of(name)
    used = {
        value for e in ElementTree.fromstring(text_of(name)).iter() for k in ("fill", "stroke") if (value := e.get(k))
    }
    assert used - {"none"} <= set(pictures._DARK)
    assert set(re.findall(r"#[0-9a-f]{6}", text_of(name))) <= COLOURS


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_shown_by_a_page_with_a_text_for_those_who_do_not_see_it(name: str) -> None:
    shown = [
        words
        for page in PAGES
        for words, target in SHOWN.findall(page.read_text(encoding="utf-8"))
        if (page.parent / target).resolve() == pictures.FOLDER / name
    ]
    assert shown, f"no page shows {name}"
    assert all(len(words.split()) >= 8 for words in shown)


@pytest.mark.parametrize("name", [name for name in pictures.PICTURES if name != "growth.svg"])
def test_a_picture_of_rates_names_method_and_unit(name: str) -> None:
    interval = r"9[05]% interval: [^;]*(Wilson|Kaplan-Meier|Tango)[^;]*; unit: \w+"
    assert re.search(rf"{interval}|95% (band for all thresholds at once|interval contains)", text_of(name))


def test_the_picture_of_growth_names_its_unit_and_has_every_command() -> None:
    assert "CPU seconds" in text_of("growth.svg")
    root = ElementTree.fromstring(text_of("growth.svg"))
    described = root.findtext(f"{SVG}desc") or ""
    assert {part.partition(":")[0] for part in described.split("; ")} == {
        "analyze",
        "compare",
        "extract",
        "rejudge",
        "run",
    }


def test_the_sample_behind_a_picture_is_that_of_the_demo() -> None:
    assert build_in_full().parse_args(["demo"]).seed == pictures.DEMO_SEED


def test_the_page_on_retries_shows_what_its_example_prints(tmp_path: Path) -> None:
    page = (DOCS / "concepts" / "retries.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (claimed,) = re.findall(r"^```text\n\$ (faircount .*?)^```$", page, re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    command, *output = claimed.splitlines()
    environment = {"PATH": "", "COLUMNS": "100", "PYTHONUTF8": "1", "HOME": str(tmp_path)}
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert matches(tuple(output), done.stdout.splitlines()), done.stdout + done.stderr
    assert repr(pictures.WINS_OF_TEN_ENTRIES) in code


def test_the_page_of_differences_ranks_combinations_as_faircount_does(tmp_path: Path) -> None:
    page = (DOCS / "reference" / "differences-from-spikee.md").read_text(encoding="utf-8")
    section = page.split("### Combinations\n", 1)[1].split("\n### ")[0]
    groups = re.findall(r"`(\w)`\s(?:succeeded\s)?in\s(\d+)\sof\s(\d+)", section.split("|")[0])
    assert len(groups) == 6
    rows = [
        {"id": f"{plugin}{number}", "success": number < int(won), "input": f"{plugin}{number}", "plugin": plugin}
        for plugin, won, size in groups
        for number in range(int(size))
    ]
    file = tmp_path / "results_combinations.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    claims = re.findall(r"^\| \d \| `(\w)`, ([\d.]+%) \| `(\w)`, ([\d.]+%) \|$", section, re.MULTILINE)
    assert len(claims) == 3
    theirs = faircount.analyze(str(file), definition="spikee").analyses[0].combinations
    ours = faircount.analyze(str(file)).analyses[0].combinations
    for (their_plugin, raw, our_plugin, shrunken), their, our in zip(claims, theirs.most, ours.most, strict=False):
        assert our.shrunk is not None
        assert (dict(their.values)["plugin"], percent(their.rate.value or 0.0)) == (their_plugin, raw)
        assert (dict(our.values)["plugin"], percent(our.shrunk.value or 0.0)) == (our_plugin, shrunken)
