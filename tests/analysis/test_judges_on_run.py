"""The judges of a run against labels of its entries: every figure is that of the run, and the one of the library."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sklearn.metrics import confusion_matrix

from faircount import ResultSet, UsageError, open_results
from faircount.analysis import (
    agreements,
    entry_labels,
    judge_on_run,
    ranked_judges,
    read_quality,
    run_verdicts,
    score_bins,
)
from faircount.stats import LabelledCorrector, LabelledPart, VerdictCounts
from tests.conftest import Write, analysis_of, attack, standard

TRUE = frozenset(range(1, 46))


def judged(n: int) -> bool:
    """Return what the judge of the run says: it is wrong about every eighth."""
    return (n in TRUE) is (n % 8 != 0)


def score(n: int) -> float:
    """Return a score that decides at 0.5, the nearer to it the less sure."""
    near = random.Random(n).random() / 2
    return round(0.5 + near if judged(n) else 0.499 - near * 0.99, 3)


def rows(**more: Any) -> list[dict[str, Any]]:
    return [
        standard(n, success=judged(n), response=f"answer {n}", judge_name="one", judge_score=score(n), **more)
        for n in range(1, 201)
    ]


LABELLED = [n for n in range(1, 201) if random.Random(1000 + n).random() < (0.5 if judged(n) else 0.25)]
"""About every second judged success and every fourth judged failure."""


def sheet() -> list[dict[str, Any]]:
    return [{"id": n, "label": "hit" if n in TRUE else "pass"} for n in LABELLED]


Open = Callable[[list[dict[str, Any]]], tuple[ResultSet, dict[int, bool]]]


@pytest.fixture
def opened(write: Write) -> Iterator[Open]:
    sets = []

    def open_run(lines: list[dict[str, Any]]) -> tuple[ResultSet, dict[int, bool]]:
        path, labels = write(lines), write(sheet(), "labels.jsonl")
        sets.append(open_results(path))
        sample = read_quality(labels, [path], 1 << 20).sample
        assert sample is not None
        return sets[-1], entry_labels(sets[-1], sample)

    yield open_run
    for one in sets:
        one.close()


def test_the_matrix_counts_labelled_entries(opened: Open) -> None:
    results, labels = opened(rows())
    assert len(labels) == len(LABELLED)
    counts = judge_on_run(run_verdicts(results), labels).counts
    expected = confusion_matrix([n in TRUE for n in LABELLED], [judged(n) for n in LABELLED])
    assert [[counts.tn, counts.fp], [counts.fn, counts.tp]] == expected.tolist()


def test_rates_and_quality_are_those_of_an_analysis(opened: Open, write: Write) -> None:
    """Entries in families, too: the interval is the same wherever the number is shown."""
    for more in ({}, {"document_id": "d", "instruction_type": "i"}):
        lines = [
            {**line, **({} if not more else {"long_id": f"doc_mail-{at % 20}_x", "document_id": f"mail-{at % 20}"})}
            for at, line in enumerate(rows(**more))
        ]
        results, labels = opened(lines)
        found = judge_on_run(run_verdicts(results), labels)
        analysis = analysis_of(results.files[0], judge_quality=write(sheet(), "labels.jsonl"))
        assert analysis.correction is not None
        assert found.raw == analysis.rates.asr
        assert found.corrected.estimate == analysis.correction.estimate
        assert found.quality.sensitivity == analysis.correction.sensitivity
        assert found.quality.specificity == analysis.correction.specificity


def test_the_threshold_in_use_changes_nothing(opened: Open) -> None:
    results, labels = opened(rows())
    verdicts = run_verdicts(results)
    assert verdicts.in_use == min(score(n) for n in range(1, 201) if judged(n))
    assert not verdicts.lower_is_hit
    assert judge_on_run(verdicts, labels, verdicts.in_use) == judge_on_run(verdicts, labels)


@pytest.mark.parametrize("threshold", [0.2, 0.45, 0.6, 0.8])
def test_another_threshold_makes_other_verdicts_and_the_same_truth(opened: Open, threshold: float) -> None:
    results, labels = opened(rows())
    found = judge_on_run(run_verdicts(results), labels, threshold)
    called = {n: score(n) >= threshold for n in range(1, 201)}
    expected = confusion_matrix([n in TRUE for n in LABELLED], [called[n] for n in LABELLED], labels=[False, True])
    counts = found.counts
    assert [[counts.tn, counts.fp], [counts.fn, counts.tp]] == expected.tolist()
    assert found.raw.value == pytest.approx(sum(called.values()) / 200)
    # By hand: every part that was drawn at one rate and is called the same weighs as it has entries.
    cells = {
        (drawn, hit): [n for n in range(1, 201) if judged(n) is drawn and called[n] is hit]
        for drawn in (True, False)
        for hit in (True, False)
    }
    true = {
        cell: len(members) * sum(n in TRUE for n in members if n in LABELLED) / sum(n in LABELLED for n in members)
        for cell, members in cells.items()
        if any(n in LABELLED for n in members)
    }
    assert len(true) >= 3
    found_hits = sum(count for (_, hit), count in true.items() if hit)
    assert found.quality.sensitivity.value == pytest.approx(found_hits / sum(true.values()))
    assert found.corrected.estimate is not None
    assert found.corrected.estimate.value == pytest.approx(sum(true.values()) / 200)
    assert {entry.line for entry in found.wrong} == {n for n in LABELLED if called[n] is not (n in TRUE)}


def test_a_part_without_labels_is_not_guessed(opened: Open) -> None:
    """What lies just below the threshold, nobody labelled: the parts that were drawn together stay together."""
    results, labels = opened(rows())
    verdicts = run_verdicts(results)
    highest = max((n for n in range(1, 201) if not judged(n)), key=score)
    near = score(highest)
    assert highest not in LABELLED
    found, recorded = judge_on_run(verdicts, labels, near), judge_on_run(verdicts, labels)
    assert found.corrected == recorded.corrected
    assert (found.quality.precision.low or 0) < (recorded.quality.precision.low or 0)


def test_low_scores_may_mean_a_success(opened: Open) -> None:
    lines = [{**line, "judge_score": round(1 - line["judge_score"], 3)} for line in rows()]
    results, labels = opened(lines)
    verdicts = run_verdicts(results)
    assert verdicts.lower_is_hit
    assert judge_on_run(verdicts, labels, verdicts.in_use) == judge_on_run(verdicts, labels)
    stricter = judge_on_run(verdicts, labels, 0.2)
    assert stricter.raw.value == pytest.approx(sum(1 - score(n) <= 0.2 + 1e-9 for n in range(1, 201)) / 200)


def test_an_entry_scores_as_its_answer_nearest_to_a_success(opened: Open) -> None:
    history = [{"response": "a", "metrics": [{"name": "m", "verdict": "failed", "score": 0.9}]}]
    lines = [
        *rows(),
        standard("x", judge_score=0.2),
        attack("x", success=True, judge_score=0.1, attempt_history=history),
    ]
    results, _ = opened(lines)
    (entry,) = [one for one in run_verdicts(results).entries if one.line == 201]
    assert entry.score == 0.9


def test_a_run_without_scores_has_no_histogram(opened: Open) -> None:
    results, labels = opened([{**line, "judge_score": None} for line in rows()])
    verdicts = run_verdicts(results)
    assert verdicts.scores == []
    assert score_bins(verdicts, labels) == ()
    assert judge_on_run(verdicts, labels, 0.5) == judge_on_run(verdicts, labels)


def test_the_histogram_has_every_score_once_by_label(opened: Open) -> None:
    results, labels = opened(rows())
    bins = score_bins(run_verdicts(results), labels)
    assert (bins[0].start, bins[-1].end) == (0, 1)
    for one in bins[:-1]:
        inside = [n for n in range(1, 201) if one.start <= score(n) < one.end]
        assert one.hits == sum(n in LABELLED and n in TRUE for n in inside)
        assert one.passes == sum(n in LABELLED and n not in TRUE for n in inside)
        assert one.unlabelled == sum(n not in LABELLED for n in inside)
    assert sum(one.hits + one.passes + one.unlabelled for one in bins) == 200


# -- several judges -------------------------------------------------------------------------------------------------


def second(n: int) -> bool:
    """Return what a better judge says: it is wrong about every 25th."""
    return (n in TRUE) is (n % 25 != 0)


def judged_again() -> list[dict[str, Any]]:
    return [
        {
            **line,
            "success": second(n),
            "rejudged": {"judge": "two", "score": 0.9 if second(n) else 0.1, "before": {"success": judged(n)}},
        }
        for n, line in enumerate(rows(), 1)
    ]


def test_each_judge_is_measured_by_itself(opened: Open) -> None:
    results, labels = opened(judged_again())
    recorded = run_verdicts(results)
    assert recorded.judges == ("one", "two")
    for name, says in (("one", judged), ("two", second)):
        found = judge_on_run(run_verdicts(results, name), labels)
        expected = confusion_matrix([n in TRUE for n in LABELLED], [says(n) for n in LABELLED])
        counts = found.counts
        assert [[counts.tn, counts.fp], [counts.fn, counts.tp]] == expected.tolist()
        assert found.raw.value == pytest.approx(sum(map(says, range(1, 201))) / 200)
    with pytest.raises(UsageError, match="no such judge"):
        run_verdicts(results, "three")


def test_labels_weigh_by_the_verdicts_that_they_were_drawn_by(opened: Open) -> None:
    """The sheet was drawn by the first judge; the run records the second one's verdicts."""
    results, labels = opened(rows())
    first = judge_on_run(run_verdicts(results), labels)
    parts = [
        LabelledPart(
            sum(judged(n) is side for n in range(1, 201)),
            sum(judged(n) is side for n in LABELLED),
            sum(judged(n) is side and n in TRUE for n in LABELLED),
        )
        for side in (True, False)
    ]
    expected = LabelledCorrector(0.95).rate(VerdictCounts(200, parts[0], parts[1])).estimate
    assert first.corrected.estimate == expected


def test_judges_that_differ_are_counted_and_ranked(opened: Open) -> None:
    results, labels = opened(judged_again())
    (pair,) = agreements(results)
    alike = sum(judged(n) is second(n) for n in range(1, 201))
    assert (pair.judges, pair.verdicts) == (("one", "two"), 200)
    assert pair.agreement.value == pytest.approx(alike / 200)
    ranking = ranked_judges([run_verdicts(results, name) for name in ("one", "two")], labels, "labels", "accuracy")
    assert [one.judge for one in ranking.ranking] == ["two", "one"]
    assert ranking.ranking[0].estimate.value == pytest.approx(
        sum(second(n) is (n in TRUE) for n in LABELLED) / len(LABELLED)
    )


def test_tests_have_no_such_page(write: Write) -> None:
    path = write([{"kind": "run", "schema": 2, "aim": "task", "settings": {}}, {"kind": "end", "complete": True}])
    with open_results(path) as results, pytest.raises(UsageError):
        run_verdicts(results)
