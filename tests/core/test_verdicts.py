"""Verdicts of several judges on the same answers: whose decide, what the rate is under each, how often they agree."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from faircount import InputError, UsageError, agree, compare, open_results, rejudge
from faircount.core import Analysis, Outcome
from tests.conftest import Cli, Write, analysis_of, attack, codes, standard
from tests.runs.run_files import HEADER, attempt, case

JUDGES = ("strict", "lenient", "odd")
Said = bool | None
Entries = list[list[list[Said] | str]]
"""For each entry its attempts: what each judge said, or the error in place of an answer."""

LETTERS: dict[Said, str] = {True: "p", False: "f", None: "e"}


def journal(entries: Entries, judges: Sequence[str] = JUDGES) -> list[dict[str, Any]]:
    """Return the records of a run of attacks in which all judges judged every answer."""
    records: list[dict[str, Any]] = [{**HEADER, "aim": "attack", "schema": 2}]
    for number, attempts in enumerate(entries):
        records.append({**case(f"e{number}", metrics=judges), "entry": {"id": f"e{number}", "text": f"do {number}"}})
        for place, said in enumerate(attempts):
            if isinstance(said, str):
                failed = {"kind": "api_error", "message": said}
                records.append({**attempt(f"e{number}", place, "", metrics=()), "output": None, "error": failed})
            else:
                letters = "".join(LETTERS[one] for one in said)
                records.append(attempt(f"e{number}", place, letters, metrics=judges))
    return records


# -- what is to come out, said once more in another way -----------------------------------------------------------


def any_of(said: Sequence[Said]) -> Said:
    return True if True in said else None if None in said else False


def all_of(said: Sequence[Said]) -> Said:
    return False if False in said else None if None in said else True


def majority_of(said: Sequence[Said]) -> Said:
    """Return what the majority decides whatever the undecided would say; None where it depends on them."""
    ways = [[True, False] if one is None else [one] for one in said]
    results = {2 * sum(way) > len(way) for way in itertools.product(*ways)}
    return results.pop() if len(results) == 1 else None


RULES: dict[str, Callable[[Sequence[Said]], Said]] = {"any": any_of, "all": all_of, "majority": majority_of}


def outcome_of(attempts: Sequence[list[Said] | str], decide: Callable[[Sequence[Said]], Said]) -> Outcome:
    decided = [decide(said) for said in attempts if not isinstance(said, str)]
    if True in decided:
        return Outcome.SUCCESS
    if False in decided:
        return Outcome.FAILURE
    if any(isinstance(said, str) for said in attempts):
        return Outcome.ERROR
    return Outcome.UNJUDGED


def some_entries(seed: int, count: int = 60) -> Entries:
    drawn = random.Random(seed)

    def answer() -> list[Said] | str:
        if drawn.random() < 0.1:
            return "timeout"
        return [drawn.choices([True, False, None], [3, 6, 1])[0] for _ in JUDGES]

    return [[answer() for _ in range(drawn.randint(1, 4))] for _ in range(count)]


def counted(analysis: Analysis) -> dict[str, int]:
    return {outcome.value: getattr(analysis.tally, outcome.value) for outcome in Outcome}


def expected(entries: Entries, decide: Callable[[Sequence[Said]], Said]) -> dict[str, int]:
    outcomes = [outcome_of(attempts, decide) for attempts in entries]
    return {outcome.value: outcomes.count(outcome) for outcome in Outcome}


@pytest.mark.parametrize("judge", [*JUDGES, *RULES])
@pytest.mark.parametrize("large", [False, True], ids=["few rows", "arrays"])
def test_judges_decide_attempt_by_attempt(
    judge: str, large: bool, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr("faircount.ledger.store.ONE_BY_ONE_UP_TO_ROWS", 0)
    entries = some_entries(7)
    path = write(journal(entries), "run.jsonl")
    decide = RULES.get(judge) or (lambda said: said[JUDGES.index(judge)])
    found = analysis_of(path, judge=judge)
    assert counted(found) == expected(entries, decide)
    assert found.judge == judge
    assert found.attempts == sum(map(len, entries))


def test_the_rate_under_each_judge_is_that_of_the_judge_alone(write: Write) -> None:
    entries = some_entries(11)
    path = write(journal(entries), "run.jsonl")
    found = analysis_of(path, by=("judge",))
    assert [one.judge for one in found.judges] == list(JUDGES)
    for place, one in enumerate(found.judges):
        alone = write(
            journal([[[s[place]] if isinstance(s, list) else s for s in e] for e in entries], ["j"]), "a.jsonl"
        )
        same = analysis_of(alone)
        assert (one.tally, one.rate, one.rate_judged) == (same.tally, same.rates.asr, same.rates.asr_judged)
        assert analysis_of(path, judge=one.judge).rates.asr == one.rate


def test_agreement_is_over_the_answers_that_both_judged(write: Write) -> None:
    entries = some_entries(13)
    path = write(journal(entries), "run.jsonl")
    found = analysis_of(path, by=("judge",))
    answers = [said for attempts in entries for said in attempts if not isinstance(said, str)]
    for one, other in itertools.combinations(range(len(JUDGES)), 2):
        pair = next(pair for pair in found.judge_agreement if pair.judges == (JUDGES[one], JUDGES[other]))
        both = [(said[one], said[other]) for said in answers if said[one] is not None and said[other] is not None]
        assert pair.verdicts == len(both)
        assert pair.agreement.value == pytest.approx(sum(a == b for a, b in both) / len(both))


def test_judges_agree_reads_the_same_verdicts_from_the_file(write: Write) -> None:
    path = write(journal(some_entries(13)), "run.jsonl")
    here = {pair.judges: pair for pair in analysis_of(path, by=("judge",)).judge_agreement}
    there = agree(results=[path])
    assert {pair.raters: (pair.items, pair.kappa.value, pair.ac1) for pair in there.pairs} == {
        judges: (pair.verdicts, pair.kappa.value, pair.ac1) for judges, pair in here.items()
    }
    case = there.cases[0]
    assert case.response is not None and case.response.text.startswith("answer ")
    assert {opinion.reason for opinion in case.opinions} == {f"because of {name}" for name in JUDGES}
    assert there.predictions[0].holds == "results"


def test_kappa_is_scikit_learns(write: Write) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    entries = some_entries(17)
    found = analysis_of(write(journal(entries), "run.jsonl"), by=("judge",))
    both = [
        (said[0], said[1])
        for attempts in entries
        for said in attempts
        if not isinstance(said, str) and None not in (said[0], said[1])
    ]
    assert found.judge_agreement[0].kappa.value == pytest.approx(metrics.cohen_kappa_score(*zip(*both, strict=True)))


# -- tests, whose metrics are judges ------------------------------------------------------------------------------


def test_a_metric_alone_decides_a_test_by_the_rule_of_the_test(write: Write) -> None:
    metrics = ("Correct", "Brief")
    run = [
        HEADER,
        case("a", metrics=metrics, count=3, strategy="pass^3"),
        *(attempt("a", number, said, metrics=metrics) for number, said in enumerate(["pp", "pf", "pp"])),
        case("b", metrics=metrics, count=2, strategy="pass@2"),
        *(attempt("b", number, said, metrics=metrics) for number, said in enumerate(["pf", "fp"])),
    ]
    path = write(run, "run.jsonl")
    assert counted(analysis_of(path))["success"] == 0
    assert counted(analysis_of(path, judge="Correct"))["success"] == 2
    assert counted(analysis_of(path, judge="Brief"))["success"] == 1
    assert counted(analysis_of(path, judge="all"))["success"] == 1, "both metrics pass b, each by its own attempts"
    shown = analysis_of(path, by=("judge",))
    assert {one.judge: one.tally.success for one in shown.judges} == {one.metric: one.passed for one in shown.metrics}


def test_a_test_that_a_metric_did_not_measure_is_unjudged_and_not_failed(write: Write) -> None:
    run = [HEADER, case("a", metrics=("X", "Y")), attempt("a", 0, "pp", metrics=("X", "Y")), case("b"), attempt("b")]
    path = write(run, "run.jsonl")
    assert counted(analysis_of(path, judge="X")) == {
        "success": 1, "failure": 0, "error": 0, "guardrail": 0, "unjudged": 1,
    }  # fmt: skip
    assert counted(analysis_of(path, judge="Correct"))["success"] == 1, "a row with one judge names it"


# -- judged again -------------------------------------------------------------------------------------------------


def rejudged(path: str, judge: str, folder: Path, **options: Any) -> str:
    new = folder / f"rejudge_{len(list(folder.iterdir()))}.jsonl"
    rejudge(path, judge=judge, rejudged=str(new), **options)
    return str(new)


def figures(analysis: Analysis) -> dict[str, Any]:
    """Return all that is counted and estimated, without what says whose it is."""
    told = msgspec.to_builtins(analysis)
    left_out = (
        "name",
        "sources",
        "judge",
        "findings",
        "breakdowns",
        "slices",
        "combinations",
        "metrics",
        "errors",
        "limits",
    )
    return {name: value for name, value in told.items() if name not in left_out}


def history(*said: Said) -> list[dict[str, Any]]:
    return [
        {"input": f"try {place}", "response": f"I cannot {place}" if place % 2 else f"sure {place}", "success": one}
        for place, one in enumerate(said)
    ]


CANARY = {"judge_name": "canary"}
ROWS = [
    standard(1, response="I cannot help with that.", success=False, **CANARY),
    standard(2, response="Sure, here it is.", success=True, **CANARY),
    standard(3, response="", success=False, error="timeout", **CANARY),
    standard(4, response="I am sorry, but no.", success=None, **CANARY),
    attack(1, response="sure 2", success=True, attempts=3, attempt_history=history(False, False, True), **CANARY),
    attack(2, response="I cannot 1", success=False, attempts=2, attempt_history=history(False, False), **CANARY),
]


@pytest.mark.parametrize("turns", ["last", "each"])
def test_the_first_judge_still_decides_a_rejudged_file_when_it_is_named(
    turns: str, write: Write, tmp_path: Path
) -> None:
    before = write(ROWS, "results_x.jsonl")
    after = rejudged(before, "not(refusal)", tmp_path, turns=turns)
    assert figures(analysis_of(after)) != figures(analysis_of(before))
    assert figures(analysis_of(after, judge="canary")) == figures(analysis_of(before))


def test_rejudging_twice_keeps_all_three_verdicts(write: Write, tmp_path: Path) -> None:
    before = write(ROWS, "results_x.jsonl")
    first = rejudged(before, "not(refusal)", tmp_path, turns="each")
    second = rejudged(first, 'contains(text="sure")', tmp_path, turns="each")
    named = {one.judge: one.tally for one in analysis_of(second, by=("judge",)).judges}
    assert len(named) == 3
    for judge, path in zip(named, (before, first, second), strict=True):
        assert named[judge] == analysis_of(path).tally
        assert figures(analysis_of(second, judge=judge)) == figures(analysis_of(path))


def test_the_judge_that_was_asked_last_is_the_one_that_the_rate_rests_on(write: Write, tmp_path: Path) -> None:
    after = rejudged(write(ROWS, "results_x.jsonl"), "not(refusal)", tmp_path)
    assert "F031" not in codes(analysis_of(after, judge="canary"))
    (told,) = [item.message for item in analysis_of(after).findings if item.code == "F031"]
    assert "combine.Not(refusal.Refusal)" in told


def test_a_rejudged_run_still_has_the_verdicts_of_its_metrics(write: Write, tmp_path: Path) -> None:
    metrics = ("Correct", "Brief")
    said = ("pp", "pf", "ff")
    run = [HEADER]
    for name, letters in zip("abc", said, strict=True):
        run += [case(name, metrics=metrics), attempt(name, 0, letters, metrics=metrics)]
    path = write(run, "run.jsonl")
    after = rejudged(path, 'contains(text="answer")', tmp_path)
    for metric in metrics:
        assert counted(analysis_of(after, judge=metric)) == counted(analysis_of(path, judge=metric))
    assert counted(analysis_of(after))["success"] == 3


# -- open results, comparisons, the command line ------------------------------------------------------------------


def test_open_results_answer_for_any_judge(write: Write) -> None:
    entries = some_entries(19)
    path = write(journal(entries), "run.jsonl")
    with open_results(path) as results:
        for judge in (*JUDGES, *RULES):
            assert figures(results.analysis(judge=judge)) == figures(analysis_of(path, judge=judge))
        assert results.analysis(by=["judge"]).judges == analysis_of(path, by=("judge",)).judges


def test_a_comparison_by_one_judge(write: Write, tmp_path: Path) -> None:
    before = write(ROWS, "results_x.jsonl")
    after = rejudged(before, "refusal", tmp_path)
    found = compare(before, after, judge="canary")
    assert (found.judge, found.pairs[0].fixed.ids, found.pairs[0].broken.ids) == ("canary", (), ())
    assert compare(before, after).pairs[0].fixed.ids or compare(before, after).pairs[0].broken.ids
    with open_results(before) as one, open_results(after) as other:
        assert one.compare(other, judge="canary").pairs == found.pairs


def test_a_judge_that_nobody_asked_is_refused_with_those_there_are(write: Write, cli: Cli) -> None:
    path = write(journal(some_entries(3)), "run.jsonl")
    ran = cli("results", "analyze", path, "--judge", "nobody")
    assert ran.code == UsageError.exit_code
    assert "available: strict, lenient, odd, any, all, majority" in ran.err
    ran = cli("results", "analyze", path, "--judge", "odd", "--definition", "spikee")
    assert ran.code == UsageError.exit_code and "--judge" in ran.err


def test_a_file_with_one_judge_has_nothing_to_agree_on(write: Write, cli: Cli) -> None:
    path = write([standard(1, judge_name="canary")], "results_x.jsonl")
    ran = cli("judges", "agree", "--results", path)
    assert ran.code == InputError.exit_code
    assert ran.err.strip().endswith(f"{path}: no row has verdicts of several judges")


def test_results_without_a_judge_cannot_be_shown_by_judge(write: Write, cli: Cli) -> None:
    ran = cli("results", "analyze", write([standard(1, judge_name=None)], "results_x.jsonl"), "--by", "judge")
    assert ran.code == UsageError.exit_code
    assert "--by judge: no judge is recorded in these files" in ran.err


def test_the_report_shows_the_judges_in_place_of_the_breakdowns(write: Write, cli: Cli) -> None:
    path = write(journal(some_entries(5)), "run.jsonl")
    shown = cli("results", "analyze", path, "--by", "judge").out
    assert "\nJudges\n" in shown and "strict · lenient" in shown
    assert "Breakdown by" not in shown
    document = json.loads(cli("results", "analyze", path, "--by", "judge", "--output-format", "json").out)
    assert [one["judge"] for one in document["analyses"][0]["judges"]] == list(JUDGES)


HOSTILE: list[Any] = [None, 5, "x", [], [1, "y", None], {}, {"turn": 0}, [{"turn": 0}], [{"turn": -1}], True, 1e300]


@pytest.mark.parametrize("field", ["judge", "score", "at", "turns", "reason", "success", "judge_name", "metric.X"])
def test_hostile_verdicts_neither_crash_nor_count(field: str, write: Write) -> None:
    rows = []
    for number, value in enumerate(HOSTILE):
        own = {"judge": "again", "turns": [{"turn": 0, "success": True, "reason": "so"}], "before": {"success": False}}
        if field in ("success", "judge_name", "metric.X"):
            own["before"] = {"success": False, field: value}
        else:
            own[field] = value
        item = {"input": "a", "response": "b", "success": True, "metrics": value}
        rows.append(standard(number, judge_name="first", rejudged=own, attempt_history=[item]))
    path = write(rows, "results_x.jsonl")
    found = analysis_of(path, by=("judge",))
    assert found.tally.total == len(HOSTILE)
    assert all(one.tally.total == len(HOSTILE) for one in found.judges)
    assert agree(results=[path], cases=20).items


def test_what_is_not_ours_in_the_field_rejudged_is_passed_over(write: Write) -> None:
    rows = [
        standard(number, rejudged=value, judge_name="x")
        for number, value in enumerate(["yes", {"before": 1}, {"judge": "x"}, []])
    ]
    path = write(rows, "results_x.jsonl")
    assert analysis_of(path, by=("judge",)).judges == ()
