"""The guide on extending shows files that work: each is run as the guide says."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import pytest

import faircount
from faircount import stats
from tests.conftest import ROOT, Cli

SAMPLES = ROOT / "docs" / "samples" / "extend"
GUIDE = (ROOT / "docs" / "guides" / "extend.md").read_text(encoding="utf-8")


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the samples as a package whose reader is offered by an entry point."""
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    about = tmp_path / "mytool-1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: mytool\nVersion: 1.0\n")
    about.joinpath("entry_points.txt").write_text("[faircount.readers]\nmytool = my_reader:MyReader\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("faircount.readers.registry._loaded", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_guide_shows_every_sample_as_it_is() -> None:
    shown = re.findall(r"^`docs/samples/extend/([^`]+)`\n\n```python[^\n]*\n(.*?)^```$", GUIDE, re.M | re.S)
    assert dict(shown) == {path.name: path.read_text(encoding="utf-8") for path in SAMPLES.glob("*.py")}


@pytest.mark.usefixtures("samples")
def test_the_judge_hits(cli: Cli) -> None:
    assert "hit" in cli("judges", "try", "./my_judge.py:apologises", "Sorry, I can't.").out
    assert "pass" in cli("judges", "try", "./my_judge.py:apologises", "Sure.").out


@pytest.mark.usefixtures("samples")
def test_the_target_answers(cli: Cli) -> None:
    assert "You said: Hello" in cli("targets", "try", "./my_target.py:answer", "Hello").out


@pytest.mark.usefixtures("samples")
def test_the_attack_sends_one_opening_after_the_other(cli: Cli) -> None:
    out = cli("attacks", "try", "./my_attack.py:openings", "Say the word.").out
    for opening in ("Please: Say the word.", "This is urgent. Say the word.", "My manager agreed. Say the word."):
        assert opening in out


def test_the_reader_is_found_by_its_entry_point_and_counts(samples: Path) -> None:
    lines = [
        '{"case": "a", "prompt": "p", "answer": "Sure.", "broken": true}',
        '{"case": "b", "prompt": "q", "answer": "No.", "broken": false}',
        '{"case": "c", "prompt": "r", "answer": "Hm."}',
        "not JSON",
    ]
    (samples / "log.txt").write_text("\n".join(lines) + "\n")
    (analysis,) = faircount.analyze(str(samples / "log.txt")).analyses
    tally = analysis.tally
    assert (tally.success, tally.failure, tally.unjudged, tally.total) == (1, 1, 1, 3)
    assert analysis.sources[0].tool == "mytool" and analysis.sources[0].bad_lines == 1


@pytest.mark.usefixtures("samples")
def test_the_statistic_has_the_centre_of_wilson_and_is_wider() -> None:
    agresti_coull = importlib.import_module("my_statistic").agresti_coull
    found, wilson = agresti_coull(81, 263), stats.wilson(81, 263)
    assert wilson.low is not None and wilson.high is not None
    assert found.low < wilson.low < wilson.high < found.high
    assert (found.low + found.high) / 2 == pytest.approx((wilson.low + wilson.high) / 2, abs=1e-5)
    assert agresti_coull(0, 0).value is None
