"""Several requests for one entry: curves only from records that carry them, and how steady repeated entries are."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from faircount.model import Retries
from tests.conftest import Cli, Write, analysis_of, attack, standard

EIGHT_BY_FIVE = [
    [1, 1, 1, 1, 1],
    [1, 1, 0, 1, 1],
    [0, 0, 0, 0, 0],
    [0, 1, 0, 0, 0],
    [1, 0, 1, 0, 1],
    [0, 0, 0, 0, 0],
    [1, 1, 1, 1, 0],
    [0, 0, 0, 1, 0],
]
"""The scores, and below the figures, of the shared example retries_8x5."""


def repeated(scores: Sequence[Sequence[int | None]], **values: Any) -> list[dict[str, Any]]:
    """Return a row for each attempt, in rounds over all entries as a run repeats them; None is an error."""
    rows = []
    for turn in range(max(map(len, scores))):
        for number, attempts in enumerate(scores):
            if turn < len(attempts):
                score = attempts[turn]
                told = {
                    "success": bool(score),
                    "response": f"answer {turn}",
                    "error": None if score is not None else "x",
                }
                rows.append(standard(number, input=f"prompt {number}", response_time=0.5 + turn, **(told | values)))
    return rows


def retries_of(write: Write, scores: Sequence[Sequence[int | None]]) -> Retries:
    found = analysis_of(write(repeated(scores))).retries
    assert found is not None
    return found


# -- the curve is refused where the records cannot carry it -------------------------------------------------------


def test_entries_that_were_never_attacked_share_no_curve_with_those_that_were(write: Write) -> None:
    rows = [standard(i, success=i < 10) for i in range(60)]
    rows += [attack(i, attempts=8, success=i % 2 == 0) for i in range(10, 30)]
    found = analysis_of(write(rows)).success_within
    assert found is not None
    assert found.steps == ()
    assert found.refused.startswith("No curve: 30 entries of 60 (50%) were given up before 9 requests without an error")


def test_a_refusal_is_told_and_the_plain_counts_stay(write: Write, cli: Cli) -> None:
    rows = [standard(i, success=i < 10) for i in range(60)]
    rows += [attack(i, attempts=8, success=i % 2 == 0) for i in range(10, 30)]
    out = cli("results", "analyze", write(rows)).out
    assert "Attempts to the first success" in out
    assert "No curve: 30 entries of 60" in out
    assert "Success within k requests" not in out
    document = json.loads(cli("results", "analyze", write(rows), "--output-format", "json").out)
    assert document["analyses"][0]["success_within"]["refused"].startswith("No curve")


def test_entries_that_an_error_ended_early_are_no_reason_to_refuse(write: Write) -> None:
    rows = [standard(i, success=i < 10) for i in range(60)]
    rows += [attack(i, attempts=8, success=i % 2 == 0) for i in range(10, 30)]
    rows += [attack(i, attempts=3, error="the target is gone") for i in range(30, 60)]
    found = analysis_of(write(rows)).success_within
    assert found is not None
    assert found.refused == ""
    assert [(step.attempts, step.given_up) for step in found.steps] == [(1, 30), (9, 10)]


# -- repeated attempts ------------------------------------------------------------------------------------------


def test_repeated_attempts_are_the_worked_example(write: Write) -> None:
    found = retries_of(write, EIGHT_BY_FIVE)
    assert found.refused == ""
    assert (found.entries, found.attempts, found.left_out) == (8, 40, 0)
    assert found.mean is not None and found.mean.value == pytest.approx(0.45)
    assert found.standard_error == pytest.approx(0.140153, abs=1e-6)
    assert found.naive_standard_error == pytest.approx(0.078661, abs=1e-6)
    assert found.icc == pytest.approx(0.485294, abs=1e-6)
    assert found.flake_rate is not None
    assert (found.flake_rate.value, found.flake_rate.n) == (5 / 8, 8)


def test_the_next_calls_go_where_they_buy_most(write: Write) -> None:
    found = retries_of(write, EIGHT_BY_FIVE)
    between, within = 0.129643, 0.1375
    assert found.calls == 100
    assert found.with_entries == pytest.approx(math.sqrt((between + within / 5) / (8 + 100 / 5)), abs=1e-5)
    assert found.with_retries == pytest.approx(math.sqrt(between / 8 + within / (8 * 5 + 100)), abs=1e-5)


def test_an_error_is_no_attempt(write: Write) -> None:
    found = retries_of(write, [[1, None, 0], [0, 0, 0], [None, None, None]])
    assert (found.entries, found.attempts, found.left_out) == (2, 5, 1)
    assert found.mean is not None and found.mean.value == pytest.approx((0.5 + 0) / 2)


def test_one_attempt_each_is_no_repetition(write: Write) -> None:
    assert analysis_of(write([standard(i, success=i % 2 == 0) for i in range(9)])).retries is None


def test_attempts_that_stop_at_the_first_success_do_not_tell_how_steady_entries_are(write: Write) -> None:
    found = retries_of(write, [[1], [0, 1], [0, 0, 0], [0, 0, 1], [1]])
    assert "only until they succeeded" in found.refused
    assert found.mean is None
    assert found.flake_rate is None


def test_rows_of_several_requests_are_left_out(write: Write) -> None:
    rows = repeated(EIGHT_BY_FIVE)
    rows[0]["attempts"] = 3
    found = analysis_of(write(rows)).retries
    assert found is not None
    assert (found.entries, found.left_out) == (7, 1)


def test_the_report_tells_the_right_error_and_the_advice(write: Write, cli: Cli) -> None:
    out = " ".join(cli("results", "analyze", write(repeated(EIGHT_BY_FIVE))).out.split())
    assert "Repeated attempts Mean over entries 45% [" in out
    assert "standard error 14.02 points 7.87 points if attempts were independent" in out
    assert "Correlation within entries 0.49" in out
    assert "Flaky entries 62% [" in out
    assert "Another 100 calls would bring the standard error from 14.02 points to 7.49 points on new" in out
    assert "new entries help more" in out


def test_a_refusal_to_speak_of_repetition_is_told(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(repeated([[1], [0, 1], [0, 0, 0], [0, 0, 1]]))).out
    assert "Repeated attempts" in out
    assert "Entries were retried only until they succeeded" in out


def test_json_holds_the_figures_of_repetition(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(repeated(EIGHT_BY_FIVE)), "--output-format", "json").out
    found = json.loads(out)["analyses"][0]["retries"]
    assert found["refused"] is None
    assert found["mean"]["method"] == "mean over entries"
    assert found["icc"] == pytest.approx(0.485294, abs=1e-6)
    assert set(found["next_calls"]) == {"calls", "with_entries", "with_retries"}


def test_a_page_and_a_document_draw_repetition(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(repeated(EIGHT_BY_FIVE)), "--output-format", "markdown").out
    assert "mean over entries" in out and "flaky entries" in out
