"""The page of thresholds shows the library's numbers, and says what it does not understand."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import faircount
from faircount.report import formats
from tests.app.web.conftest import COOKIE, Client, guarded, opened
from tests.conftest import encode, standard

HOSTILE = "results_<img src=x onerror=window.ran=1>_benign.jsonl"


def scored(n: int, shift: float, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [standard(i, response=str(i % 2 == 0), risk=round(draw.gauss(shift, 1), 3)) for i in range(1, n + 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("thresholds"))


def written(place: Path) -> Path:
    """Write runs of two guardrails over attacks and over harmless prompts, and one with a hostile name."""
    for name, shift, seed in (("guard-a", 2.0, 1), ("guard-b", 1.2, 3)):
        (place / f"results_{name}_attacks.jsonl").write_bytes(encode(scored(120, shift, seed)))
        (place / f"results_{name}_benign.jsonl").write_bytes(encode(scored(350, -1.0, seed + 1)))
    (place / HOSTILE).write_bytes(encode(scored(20, 0.0, 9)))
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with opened(*sorted(folder.iterdir())) as found:
        yield Client(guarded(found), cookie=COOKIE)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def test_the_page_has_the_numbers_of_the_library(client: Client, folder: Path) -> None:
    page = client.get("/operating-point?score=risk&max_fpr=2%25&prevalence=5%25&cost_false_alarm=1&cost_miss=20").text
    found = faircount.operating_point(
        folder / "results_guard-a_attacks.jsonl",
        folder / "results_guard-b_attacks.jsonl",
        false_positive_checks=[str(folder / f"results_guard-{one}_benign.jsonl") for one in "ab"],
        score="risk",
        max_fpr=0.02,
        prevalence=0.05,
        cost_miss=20,
    )
    text = words(page)
    for curve in found.guardrails:
        point = curve.points[0]
        assert f"At a threshold of {point.threshold:.6g} the false positive rate is at most 2%" in text
        assert formats.estimate(point.recall) in text
        assert curve.cheapest is not None and f"{curve.cheapest.rates.threshold:.6g}" in text
    assert page.count('class="fc-curves"') == 2


def test_without_scores_the_page_says_what_to_name(client: Client) -> None:
    text = words(client.get("/operating-point").text)
    assert "no judge gave a score; name the field of the rows that has one below" in text
    assert "--score" not in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("max_fpr=150%25", "less than 1"),
        ("max_fpr=few", "Shares are numbers such as 1% or 0.01"),
        ("cost_miss=-3", "Cost of a missed attack: must be from 0 to"),
        ("prevalence=nan", "more than 0"),
        ("score=%3Cscript%3E", "Field of the score: <script>: not a field name"),
        ("score_means=benign", "if a high score means harmless, choose benign below; otherwise choose attack"),
    ],
)
def test_what_is_not_understood_is_said(query: str, expected: str, client: Client) -> None:
    answer = client.get(f"/operating-point?score=risk&{query}")
    assert answer.status == 200
    assert expected in (text := words(answer.text))
    assert "--" not in text
    assert "<script>" not in answer.text.partition("<main")[2]


def test_a_run_leads_to_its_thresholds(client: Client) -> None:
    leading = []
    for address in set(re.findall(r'href="(/run/[0-9a-f]+)"', client.get("/").text)):
        leading += re.findall(r'href="(/operating-point[^"]*)"', client.get(address).text)
    assert len(leading) == 2
    for address in leading:
        page = client.get(f"{html.unescape(address)}&score=risk").text
        assert page.count(" checked>") == 1 and "data-cheapest" in page
