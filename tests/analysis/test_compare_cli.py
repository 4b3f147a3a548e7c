"""`faircount results compare` as it is typed: formats, places, messages and exit codes."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from tests.conftest import Cli, Write, standard

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "comparison-2.json").read_text("utf-8"))
KEYS = [
    "a",
    "b",
    "labels",
    "paired",
    "both",
    "only_a",
    "only_b",
    "neither",
    "rate_a",
    "rate_b",
    "difference",
    "mcnemar_p",
    "adjusted_p",
    "fixed",
    "broken",
    "by",
    "claim",
    "unpaired",
]
CLAIM = "new is 46.7 points lower than old (95% interval 31.4–60.0 points); 30 entries fixed, 2 broken."


@pytest.fixture
def files(write: Write) -> list[str]:
    """Two files: new resists where old fell, but for two entries."""
    a = [standard(n, success=n < 30, plugin="x" if n % 2 else "y") for n in range(60)]
    b = [standard(n, success=n >= 58, plugin="x" if n % 2 else "y") for n in range(60)]
    return [write(a, "results_old.jsonl"), write(b, "results_new.jsonl")]


def test_the_claim_comes_first(cli: Cli, files: list[str]) -> None:
    ran = cli("results", "compare", *files)
    assert ran.code == 0 and not ran.err
    lines = ran.out.split("\n")
    assert lines[1] == "Comparison"
    assert lines[2] == f"  {CLAIM}"
    for title in ("Files", "Difference", "By plugin", "Fixed", "Broken", "Limits of these numbers", "Sources"):
        assert f"\n{title}\n" in ran.out


def test_json_is_as_it_is_described(cli: Cli, files: list[str]) -> None:
    ran = cli("results", "compare", *files, "--output-format", "json")
    told = json.loads(ran.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert (told["kind"], told["schema"], told["overall"], told["findings"]) == ("comparison", 2, None, [])
    (pair,) = told["pairs"]
    assert set(KEYS) <= set(pair)
    assert [pair["a"], pair["b"]] == files == [file["path"] for file in told["files"]]
    assert pair["labels"] == ["old", "new"] == [file["label"] for file in told["files"]]
    assert pair["claim"] == CLAIM
    assert [pair[name] for name in ("paired", "both", "only_a", "only_b", "neither")] == [60, 0, 30, 2, 28]
    assert (pair["fixed"]["ids"], pair["broken"]["ids"]) == ([str(n) for n in range(30)], ["58", "59"])
    assert pair["difference"]["value"] == pytest.approx(-28 / 60)


def test_the_baseline_and_the_order_of_files(cli: Cli, files: list[str]) -> None:
    ran = cli("results", "compare", *files, "--baseline", files[1], "--output-format", "json")
    (pair,) = json.loads(ran.out)["pairs"]
    assert [pair["a"], pair["b"]] == files[::-1]
    assert pair["claim"].startswith("old is 46.7 points higher than new (95% interval 31.4–60.0 points); 2 entries ")


def test_three_files_are_tested_together(cli: Cli, files: list[str], write: Write) -> None:
    third = write([standard(n, success=n < 31) for n in range(60)], "results_third.jsonl")
    told = json.loads(cli("results", "compare", *files, third, "--output-format", "json").out)
    assert len(told["pairs"]) == 3
    assert {"cochran_q", "df", "p"} <= set(told["overall"]) and told["overall"]["df"] == 2
    assert "Cochran's Q" in cli("results", "compare", *files, third).out


def test_more_files_are_compared_with_the_first_or_the_baseline(cli: Cli, files: list[str], write: Write) -> None:
    more = [write([standard(n, success=n < won) for n in range(60)], f"results_{won}.jsonl") for won in (10, 50)]
    ran = cli("results", "compare", *files, *more)
    assert ran.code == 0 and not ran.err
    assert ran.out.startswith("\nComparison\n  Lower than old: new, 10.\n  Higher than old: 50.\n\nAgainst old\n")
    assert "Cochran's Q" in ran.out and "McNemar" not in ran.out
    told = json.loads(cli("results", "compare", *files, *more, "--baseline", more[0], "--output-format", "json").out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert [pair["labels"] for pair in told["pairs"]] == [["10", "old"], ["10", "new"], ["10", "50"]]
    assert told["overall"]["df"] == 3


def test_a_page_and_a_text_have_figures(cli: Cli, files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli("results", "compare", *files, "--output-format", "html", "-o", str(page)).out == f"{page}\n"
    written = page.read_text("utf-8")
    assert "<svg" in written and "fc-differences" in written and "<script" not in written
    told = cli("results", "compare", *files, "--output-format", "markdown").out
    assert "# Comparison" in told and "●" in told and CLAIM in told


def test_flips_and_fields_are_as_asked_for(cli: Cli, files: list[str]) -> None:
    none = cli("results", "compare", *files, "--flips", "0").out
    assert "response of old" not in none and "The first 10 of 30" in none
    two = cli("results", "compare", *files, "--flips", "2", "--by", "plugin", "--by", "lang").out
    assert two.count("response of old") == two.count("response of new") == 4
    assert "By lang" in two


def test_what_makes_no_comparison_is_said_in_a_sentence(cli: Cli, files: list[str], tmp_path: Path) -> None:
    cases = [
        ([], 2, "needs at least two result files"),
        (files[:1], 2, "is the only file given"),
        ([files[0], files[0]], 2, "given twice"),
        ([files[0], str(tmp_path / "nowhere.jsonl")], 3, "no such file"),
        ([*files, "--by", "colour"], 2, "--by colour: no such field"),
        ([*files, "--cluster", "colour"], 2, "--cluster colour: no such field"),
        ([*files, "--flips", "-1"], 2, "--flips must be 0 or more, not -1"),
        ([*files, "--level", "2"], 2, "level"),
        ([*files, "--output-format", "html"], 2, "--output-format html needs -o FILE"),
        ([*files, "-o", files[0]], 2, "is an input"),
        ([*files, "--match", "content"], 2, "--match"),
    ]
    for words, code, message in cases:
        ran = cli("results", "compare", *words)
        assert (ran.code, ran.out) == (code, ""), words
        assert message in ran.err and len(ran.err.strip().split("\n")) == 1


def test_strict_refuses_damage_after_the_answer(cli: Cli, files: list[str]) -> None:
    with Path(files[1]).open("ab") as file:
        file.write(b'{"id": 99, "succ')
    ran = cli("results", "compare", *files, "--strict")
    assert ran.code == 3 and CLAIM in ran.out and "--strict" in ran.err
    assert cli("results", "compare", *files).code == 0


def test_files_without_a_common_entry_fall_back_and_say_so(cli: Cli, files: list[str], write: Write) -> None:
    other = write([standard(500 + n, success=False) for n in range(40)], "results_other.jsonl")
    ran = cli("results", "compare", files[0], other)
    assert ran.code == 0
    assert "The files share no entry" in ran.out and "Fisher's exact test" in ran.out and "McNemar" not in ran.out
