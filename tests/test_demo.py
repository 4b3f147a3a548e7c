"""The demo: offline, quick, the same for the same seed, and really an analysis of what it made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faircount.sample import HOSTILE_RESPONSES, write_sample
from tests.conftest import Cli, analysis_of, codes


def test_the_demo_analyses_its_sample_and_says_what_to_try_next(cli: Cli, tmp_path: Path) -> None:
    ran = cli("demo", "--folder", str(tmp_path / "demo"))
    assert ran.code == 0
    for expected in ("Combined analysis of 3 files", "Dynamic attacks", "False positives", "F001", "What to try next"):
        assert expected in ran.out
    assert "\x1b" not in ran.out
    assert "Traceback" not in ran.err


def test_the_demo_really_runs_a_benchmark_and_can_do_so_again(cli: Cli, tmp_path: Path) -> None:
    for _ in range(2):
        ran = cli("demo", "--folder", str(tmp_path / "demo"))
        assert ran.code == 0
    assert "pass rate" in ran.out
    (report,) = (tmp_path / "demo" / "benchmark" / "results").glob("test_results_*.json")
    content = json.loads(report.read_text())
    assert content["metadata"]["complete"] is True
    assert all(len(case["actual_outputs"]) == case["retry_params"]["count"] for case in content["test_cases"])
    assert max(len(case["metrics"]) for case in content["test_cases"]) == 3
    lines = (tmp_path / "demo" / "benchmark" / "run.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "attempt" for line in lines) == content["metadata"]["attempts"]


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
    rates = [analysis_of(str(path)).asr.value or 0 for path in files.plain]
    assert rates == sorted(rates, reverse=True)


def test_a_folder_that_cannot_be_made_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    ran = cli("demo", "--folder", str(tmp_path / "file"))
    assert ran.code == 2
    assert "cannot be written" in ran.err
