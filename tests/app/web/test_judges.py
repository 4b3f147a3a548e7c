"""The page of judges shows the library's numbers, follows a threshold, and leads to where judges differ."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from faircount import open_results
from faircount.analysis import entry_labels, judge_on_run, read_quality, run_verdicts
from faircount.core import Estimate
from faircount.report import formats
from tests.app.web.conftest import COOKIE, HOSTILE, Client, guarded, runs_of
from tests.conftest import Write, standard

LABELLED = [n for n in range(1, 101) if n % 4 < 2]


def rows() -> list[dict[str, Any]]:
    """Return rows of two judges with scores: the second one judged again, and is right more often."""
    found = []
    for n in range(1, 101):
        true = n <= 30
        first, second = true is (n % 6 != 0), true is (n % 15 != 0)
        found.append(
            standard(
                n,
                success=second,
                response=f"answer {n}",
                judge_name="first",
                rejudged={"judge": "second", "score": 0.8 if second else 0.2, "before": {"success": first}},
            )
        )
    return found


Asked = Callable[..., str]


@pytest.fixture
def results(write: Write) -> str:
    return write(rows())


@pytest.fixture
def sheet(write: Write) -> str:
    return write([{"id": n, "label": "hit" if n <= 30 else "pass"} for n in LABELLED], "labels.jsonl")


@pytest.fixture
def asked(results: str, sheet: str) -> Iterator[Asked]:
    with runs_of(results) as found:

        def ask(path: str = "/judges", *, labels: bool = True, **query: str) -> str:
            client = Client(guarded(found, judge_quality=sheet if labels else None), cookie=COOKIE)
            answer = client.get(f"/run/{found.all[0].id}{path}" + (f"?{urlencode(query)}" if query else ""))
            assert answer.status == 200
            return answer.text

        yield ask


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def cells(page: str) -> list[int]:
    return [int(text) for text in re.findall(r'<td class="number (?:right|wrong)">(\d+)</td>', page)]


@pytest.mark.parametrize(("judge", "threshold"), [(None, None), ("first", None), ("second", None), ("second", 0.9)])
def test_the_page_has_the_numbers_of_the_library(
    judge: str | None, threshold: float | None, asked: Asked, results: str, sheet: str
) -> None:
    query = {name: str(value) for name, value in (("judge", judge), ("threshold", threshold)) if value is not None}
    page = asked(**query)
    with open_results(results) as opened:
        sample = read_quality(sheet, [results], 1 << 20).sample
        assert sample is not None
        ours = judge_on_run(run_verdicts(opened, judge), entry_labels(opened, sample), threshold)
    counts = ours.counts
    assert cells(page) == [counts.tp, counts.fn, counts.fp, counts.tn]
    shown: list[Estimate | None] = [ours.raw, ours.corrected.estimate, ours.quality.precision, ours.quality.sensitivity]
    for estimate in [*shown, ours.quality.specificity, ours.quality.accuracy]:
        assert estimate is not None
        assert formats.estimate(estimate) in words(page)
    assert "50 of 100 judged entries labelled" in words(page)


def test_what_the_judge_gets_wrong_is_listed_with_its_entries(asked: Asked) -> None:
    page = asked(judge="first")
    wrong = [n for n in LABELLED if n % 6 == 0]
    section = page.partition("wrong-title")[2]
    assert re.findall(r'href="/run/\w+/entry/(\d+)"', section) == [str(n) for n in wrong]
    page = asked(judge="second")
    wrong = [n for n in LABELLED if n % 15 == 0]
    assert re.findall(r'href="/run/\w+/entry/(\d+)"', page.partition("wrong-title")[2]) == [str(n) for n in wrong]


def test_where_judges_differ_is_a_filter_of_entries(asked: Asked) -> None:
    page = asked()
    links = [html.unescape(link) for link in re.findall(r'href="/run/\w+(/entries\?f\.judges=[^"]+)"', page)]
    assert len(links) == 2
    differ = sum((n % 6 != 0) is not (n % 15 != 0) for n in range(1, 101))
    for link in links:
        path, _, query = link.partition("?")
        assert f"<strong>{differ}</strong>" in asked(path, **dict(parse_qsl(query)))
    nobody = asked("/entries", **{"f.judges": "first ≠ nobody"})
    assert "<strong>0</strong>" in nobody


def test_judges_are_ranked_by_what_one_asks_for(asked: Asked) -> None:
    for by in ("hit_f1", "accuracy", "mcc"):
        section = asked(by=by).partition("rank-title")[2]
        assert re.findall(r"<bdi>(first|second)</bdi></a></th>", section) == ["second", "first"]
        assert f'value="{by}" selected' in section


def test_without_labels_it_says_how_to_give_some(asked: Asked) -> None:
    page = asked(labels=False)
    assert "No labels of this run" in words(page)
    assert "--labels FILE" in words(page)
    assert cells(page) == []
    assert "They agree" in words(page)


def test_an_address_that_makes_no_sense_is_the_plain_page(asked: Asked) -> None:
    plain = asked()
    for query in ({"judge": "nobody"}, {"threshold": "nan"}, {"threshold": "1e999"}, {"by": "beauty"}):
        page = asked(**query)
        assert cells(page) == cells(plain)


def test_hostile_names_of_judges_are_text(write: Write) -> None:
    lines = [
        standard(
            n,
            success=bool(n % 2),
            response=HOSTILE[n % len(HOSTILE)],
            judge_name=HOSTILE[0],
            rejudged={"judge": HOSTILE[1], "score": n / 10, "before": {"success": n % 3 == 0}},
        )
        for n in range(1, 11)
    ]
    with runs_of(write(lines)) as found:
        client = Client(guarded(found), cookie=COOKIE)
        page = client.get(f"/run/{found.all[0].id}/judges").text
        assert "<script>window" not in page
        assert "<img" not in page
        link = html.unescape(re.findall(r'href="(/run/\w+/entries\?f\.judges=[^"]*%E2[^"]*)"', page)[0])
        listed = client.get(link)
        assert listed.status == 200
        assert "<script>window" not in listed.text
        assert "<strong>0</strong>" not in listed.text
