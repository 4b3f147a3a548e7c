"""The demo: offline, quick, the same for the same seed, and really an analysis of what it made."""

from __future__ import annotations

import contextlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from faircount.app import HOSTILE_RESPONSES, write_sample
from faircount.app.cli import main
from tests.conftest import Cli, analysis_of, codes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a demo that ran twice, and what it printed the second time."""
    folder, said = tmp_path_factory.mktemp("demo") / "demo", io.StringIO()
    for _ in range(2):
        said.seek(0)
        said.truncate()
        with contextlib.redirect_stdout(said):
            assert main(["demo", "--folder", str(folder)]) == 0
    return folder, said.getvalue()


def test_the_demo_analyses_its_sample_and_says_what_to_try_next(demo: tuple[Path, str]) -> None:
    folder, said = demo
    for expected in ("Analysis of 3 files", "bot-strong is", "tests passed", "The guardrail blocked", "Try next:"):
        assert expected in said
    assert len(said.splitlines()) <= 60
    page = folder / "report.html"
    assert f" {page}\n" in said and page.is_file()
    assert said.partition("Try next:")[2].count("\n  faircount ") == 3
    assert "\x1b" not in said


def test_the_demo_really_runs_a_benchmark_and_can_do_so_again(demo: tuple[Path, str]) -> None:
    folder = demo[0] / "benchmark"
    (report,) = (folder / "results").glob("test_results_*.json")
    content = json.loads(report.read_text())
    assert content["metadata"]["complete"] is True
    assert all(len(case["actual_outputs"]) == case["retry_params"]["count"] for case in content["test_cases"])
    assert max(len(case["metrics"]) for case in content["test_cases"]) == 3
    lines = (folder / "run.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "attempt" for line in lines) == content["metadata"]["attempts"]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def attempts(path: Path) -> list[dict[str, Any]]:
    found = records(path)
    assert found[0]["aim"] == "attack"
    assert found[-1]["kind"] == "end" and found[-1]["complete"] is True
    return [record for record in found if record["kind"] == "attempt"]


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_demo_really_runs_a_guardrail(demo: tuple[Path, str]) -> None:
    folder = demo[0] / "attacks"
    results = folder / "results"
    for name, dataset in (("guardrail", "injections"), ("guardrail_benign", "benign")):
        made = attempts(results / f"{name}.jsonl")
        assert len(made) == len((folder / f"{dataset}.jsonl").read_text("utf-8").splitlines())
        assert {record["output"]["let_through"] for record in made} == {True, False}
    assert re.search(r"The guardrail blocked \d+% .* of 120 attacks", demo[1])


def test_the_page_of_the_demo_loads_and_runs_nothing(demo: tuple[Path, str]) -> None:
    text = (demo[0] / "report.html").read_text("utf-8")
    seen = Page(text).seen
    assert "Analysis of 6 files" in text and "Benign checks" in text
    assert not {"script", "iframe", "object", "embed", "link", "img", "form", "base"} & {tag for tag, _ in seen}
    assert not [name for _, attributes in seen for name in attributes if name.startswith("on")]
    loaded = [value or "" for _, attributes in seen for name, value in attributes.items() if name in ("src", "href")]
    assert all(value.startswith("#") for value in loaded), loaded
    assert "url(" not in text and "@import" not in text


def test_the_same_seed_gives_the_same_sample(tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    write_sample(tmp_path / "a", seed=3)
    write_sample(tmp_path / "b", seed=3)
    write_sample(tmp_path / "c", seed=4)
    assert contents(tmp_path / "a") == contents(tmp_path / "b") != contents(tmp_path / "c")


def test_the_sample_holds_what_it_promises(tmp_path: Path) -> None:
    files = write_sample(tmp_path, seed=7)
    responses = {json.loads(line)["response"] for path in files.plain for line in path.read_text("utf-8").splitlines()}
    assert set(HOSTILE_RESPONSES) <= responses
    strong = analysis_of(str(files.plain[2]))
    assert strong.tally.error and strong.tally.guardrail and strong.guardrail_categories
    dynamic = analysis_of(str(files.dynamic))
    assert dynamic.dynamic is not None and dynamic.dynamic.only_with_attack
    assert codes(dynamic)["F001"] == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_simulated_targets_differ_in_strength(tmp_path: Path, seed: int) -> None:
    files = write_sample(tmp_path, seed=seed)
    rates = [analysis_of(str(path)).rates.asr.value or 0 for path in files.plain]
    assert rates == sorted(rates, reverse=True)


def test_a_folder_that_cannot_be_made_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    ran = cli("demo", "--folder", str(tmp_path / "file"))
    assert ran.code == 2
    assert "cannot be written" in ran.err
