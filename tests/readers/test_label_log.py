"""The file of labels that the page writes, as everything else reads it: draws, labels, retractions, adjudications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faircount.core import Decision, UsageError
from faircount.readers import LabelOptions, Labels, read_labels
from tests.conftest import Cli, Write, analysis_of, standard

RESULTS = "results_x.jsonl"
HEADER: dict[str, Any] = {"kind": "labels", "schema": 1, "version": "0.1.0", "started": "2026-01-01T00:00:00+00:00"}


def drawn(number: int, entry: int, author: str = "anna", **more: Any) -> dict[str, Any]:
    return {
        "kind": "draw",
        "number": number,
        "draw": entry,
        "file": RESULTS,
        "entry": str(entry),
        "rows": [[str(entry), entry]],
        "probability": 0.01,
        "of": [3, 3],
        "author": author,
        "at": "2026-01-01T00:00:00+00:00",
        **more,
    }


def label(number: int, entry: int, word: str, author: str = "anna", **more: Any) -> dict[str, Any]:
    return {
        "kind": "label",
        "number": number,
        "id": str(entry),
        "file": RESULTS,
        "label": word,
        "author": author,
        "at": "2026-01-01T00:00:01+00:00",
        "draw": entry,
        "line": entry,
        "probability": 0.01,
        **more,
    }


def retraction(number: int, retracts: int, author: str = "anna") -> dict[str, Any]:
    return {"kind": "retraction", "number": number, "retracts": retracts, "author": author, "at": "2026"}


def run() -> list[dict[str, Any]]:
    return [
        standard(n, success=n <= 3, response=f"answer {n}", judge_name="canary", judge_args="no such word")
        for n in range(1, 7)
    ]


@pytest.fixture
def results(write: Write) -> str:
    return write(run(), RESULTS)


def labels_in(write: Write, results: str, *records: Any, **options: Any) -> Labels:
    return read_labels([write([HEADER, *records], "labels.jsonl")], LabelOptions(results=(results,), **options))


def read(write: Write, results: str, *records: Any, **options: Any) -> dict[str, Decision | None]:
    return {item.item: item.label for item in labels_in(write, results, *records, **options)}


HIT, PASS = Decision.HIT, Decision.PASS


def test_labels_are_read_and_draws_are_none(write: Write, results: str) -> None:
    found = read(write, results, drawn(1, 1), label(2, 1, "hit"), drawn(3, 4), label(4, 4, "pass"), drawn(5, 5))
    assert found == {"1": HIT, "4": PASS}


def test_a_label_that_was_taken_back_does_not_count(write: Write, results: str) -> None:
    assert read(write, results, label(1, 1, "hit"), label(2, 4, "pass"), retraction(3, 1), label(4, 2, "hit")) == {
        "4": PASS,
        "2": HIT,
    }
    assert read(write, results, label(1, 1, "hit"), retraction(2, 1), label(3, 1, "pass")) == {"1": PASS}


def test_nobody_takes_back_what_another_one_said(write: Write, results: str) -> None:
    assert read(write, results, label(1, 1, "hit"), retraction(2, 1, "ben")) == {"1": HIT}


def test_the_majority_counts_and_a_tie_does_not(write: Write, results: str) -> None:
    found = read(
        write,
        results,
        label(1, 1, "hit"),
        label(2, 1, "pass", "ben"),
        label(3, 1, "hit", "cy"),
        label(4, 2, "hit"),
        label(5, 2, "pass", "ben"),
    )
    assert found == {"1": HIT, "2": None}


def test_the_last_word_of_a_person_counts(write: Write, results: str) -> None:
    assert read(write, results, label(1, 1, "hit"), label(2, 1, "pass")) == {"1": PASS}


def test_an_adjudication_counts_instead_of_what_others_said(write: Write, results: str) -> None:
    said = [label(1, 2, "hit"), label(2, 2, "pass", "ben")]
    assert read(write, results, *said, label(3, 2, "pass", "cy", adjudicates=True)) == {"2": PASS}
    assert read(write, results, *said, label(3, 2, "hit", "cy", adjudicates=True)) == {"2": HIT}
    taken_back = [label(3, 2, "hit", "cy", adjudicates=True), retraction(4, 3, "cy")]
    assert read(write, results, *said, *taken_back) == {"2": None}
    assert read(write, results, *said, label(3, 2, "hit", "cy", adjudicates=True), invert_labels=True) == {"2": PASS}
    (item,) = labels_in(write, results, *said, label(3, 2, "pass", "cy", adjudicates=True))
    assert dict(item.ratings) == {"anna": HIT, "ben": PASS}


def test_unclear_is_no_label(write: Write, results: str) -> None:
    assert read(write, results, label(1, 1, "unclear"), label(2, 2, "hit")) == {"1": None, "2": HIT}
    assert read(write, results, label(1, 1, "unclear"), label(2, 1, "hit", "ben")) == {"1": HIT}


def test_labels_of_other_runs_are_not_of_these_results(write: Write, results: str) -> None:
    found = labels_in(write, results, label(1, 1, "hit"), label(2, 1, "pass", file="results_other.jsonl"))
    assert [item.label for item in found] == [HIT]
    assert found.problems == ()
    assert found.sources[0].unused == 0


def test_what_cannot_be_read_is_reported_with_its_line_and_the_rest_counts(write: Write, results: str) -> None:
    found = labels_in(
        write,
        results,
        label(1, 1, "hit"),
        {"kind": "label", "number": "x"},
        {"kind": "a new kind", "x": 1},
        label(2, 2, "maybe"),
        label(3, 4, "pass"),
        b'{"kind":"label","numb',
    )
    assert {item.item: item.label for item in found} == {"1": HIT, "4": PASS}
    places = sorted(place.rpartition(":")[2] for problem in found.problems for place in problem.places)
    assert places == ["3", "5", "7"]
    assert found.sources[0].bad == 3


def test_judge_quality_takes_the_file_and_knows_that_it_was_drawn_by_verdict(write: Write, results: str) -> None:
    records = [label(n, n, "hit" if n < 3 else "pass") for n in range(1, 7)]
    path = write([HEADER, *records], "labels.jsonl")
    correction = analysis_of(results, judge_quality=path).correction
    assert correction is not None
    assert (correction.labels.n, correction.labels.hits, correction.labels.left_out) == (6, 2, 0)
    assert correction.estimate is not None
    assert correction.estimate.value == pytest.approx(2 / 6)
    refused = analysis_of(results, judge_quality=path, correction="ppi").correction
    assert refused is not None
    assert refused.status == "not_random"


def test_judges_are_measured_by_the_file(write: Write, results: str, cli: Cli, tmp_path: Path) -> None:
    path = write([HEADER, *(label(n, n, "hit" if n < 3 else "pass") for n in range(1, 7))], "labels.jsonl")
    summary = str(tmp_path / "summary.json")
    done = cli("judges", "evaluate", 'contains(text="answer 1")', "--labels", path, "--results", results, "-o", summary)
    assert done.code == 0
    assert "drawn by the verdicts" in done.out
    counts = next(iter(json.loads(Path(summary).read_text())["results"].values()))["counts"]
    assert {name: counts[name] for name in ("tp", "fn", "tn", "fp")} == {"tp": 1, "fn": 1, "tn": 4, "fp": 0}


def test_people_are_compared_by_the_file(write: Write, results: str, cli: Cli) -> None:
    records = [label(n, n, "hit") for n in range(1, 5)] + [label(4 + n, n, "hit", "ben") for n in range(1, 4)]
    path = write([HEADER, *records, label(9, 4, "pass", "ben")], "labels.jsonl")
    done = cli("judges", "agree", "--labels", path, "--results", results)
    assert done.code == 0
    assert "2 people" in done.out
    assert "25% [5, 70]" in done.out


def test_a_judge_needs_the_results_that_were_labelled(write: Write, cli: Cli) -> None:
    path = write([HEADER, label(1, 1, "hit")], "labels.jsonl")
    with pytest.raises(UsageError, match="--results"):
        read_labels([path])
    assert cli("judges", "evaluate", "refusal", "--labels", path).code == 2
