"""Rows fold into entries: one outcome each, nothing counted twice, different cases kept apart."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faircount import Outcome
from faircount.analysis import find_entries
from faircount.core import PRECEDENCE, fold, state
from faircount.ledger import Overlap, origin_keys, preference
from tests.conftest import Write, analysis_of, attack, codes, encode, row, standard

ROW_OF_STATE: dict[Outcome, dict[str, Any]] = {
    Outcome.SUCCESS: {"success": True},
    Outcome.FAILURE: {"success": False},
    Outcome.ERROR: {"success": False, "error": "boom"},
    Outcome.GUARDRAIL: {"success": False, "error": "blocked", "guardrail": True},
    Outcome.UNJUDGED: {"success": None},
}


def outcomes_of(analysis: Any) -> dict[str, int]:
    tally = analysis.tally
    return {outcome.value: count for outcome in Outcome if (count := getattr(tally, outcome.value))}


# -- the outcome rule -------------------------------------------------------------------------------------------


def test_the_precedence_names_every_outcome_once() -> None:
    assert sorted(PRECEDENCE) == sorted(Outcome)


def test_an_entry_without_attempts_is_unjudged() -> None:
    assert fold([]) is Outcome.UNJUDGED


@pytest.mark.parametrize(("first", "second"), list(product(Outcome, repeat=2)))
def test_sql_and_python_fold_two_attempts_alike(write: Write, first: Outcome, second: Outcome) -> None:
    path = write([standard(1, **ROW_OF_STATE[first]), attack(1, **ROW_OF_STATE[second])])
    assert outcomes_of(analysis_of(path)) == {fold([first, second]).value: 1}


def test_a_row_state_never_makes_an_error_a_failure() -> None:
    assert state(success=False, error=True, guardrail=False) is Outcome.ERROR
    assert state(success=False, error=True, guardrail=True) is Outcome.GUARDRAIL
    assert state(success=None, error=False, guardrail=False) is Outcome.UNJUDGED


entry_states = st.lists(st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=3), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(entry_states, st.randoms(use_true_random=False))
def test_any_file_in_any_order_folds_like_the_rule(entries: list[list[Outcome]], rng: Any) -> None:
    rows = []
    for number, states in enumerate(entries):
        rows.append(standard(number, **ROW_OF_STATE[states[0]]))
        rows += [attack(number, name=f"a{i}", **ROW_OF_STATE[s]) for i, s in enumerate(states[1:])]
    rng.shuffle(rows)
    expected: dict[str, int] = {}
    for states in entries:
        expected[fold(states).value] = expected.get(fold(states).value, 0) + 1
    path = _temporary(rows)
    try:
        analysis = analysis_of(path)
    finally:
        Path(path).unlink()
    assert outcomes_of(analysis) == expected
    assert analysis.tally.total == len(entries)
    assert analysis.attempts == len(rows)


def _temporary(rows: list[dict[str, Any]]) -> str:
    import tempfile

    descriptor, path = tempfile.mkstemp(suffix=".jsonl")
    with os.fdopen(descriptor, "wb") as file:
        file.write(encode(rows))
    return path


# -- which rows make an entry -----------------------------------------------------------------------------------


def test_numbers_and_texts_are_one_id(write: Write) -> None:
    analysis = analysis_of(write([standard(1), standard("1", input="prompt 1", success=True), attack(1)]))
    assert outcomes_of(analysis) == {"success": 1}
    assert analysis.attempts == 3


def test_attempts_of_dynamic_attacks_are_added_up(write: Write) -> None:
    analysis = analysis_of(write([standard(1, attempts=2), attack(1, attempts=7), standard(2)]))
    assert (analysis.tally.total, analysis.attempts) == (2, 10)


def test_ids_that_look_like_attack_rows_stay_entries_of_their_own(write: Write) -> None:
    analysis = analysis_of(write([row("dan-attack-01", success=True), row("dan-attack-02"), row("dan-attack-03")]))
    assert outcomes_of(analysis) == {"success": 1, "failure": 2}
    assert codes(analysis)["F019"] == 3
    assert analysis.dynamic is None


def test_an_old_attack_row_without_a_name_belongs_to_the_entry_that_exists(write: Write) -> None:
    analysis = analysis_of(write([row(1), row("1-attack", success=True, attempts=7), row("my-attack-plan")]))
    assert (analysis.tally.total, analysis.attempts) == (2, 9)
    assert analysis.dynamic is not None
    assert analysis.dynamic.only_with_attack == 1


def test_an_attack_row_before_its_standard_row_belongs_to_it(write: Write) -> None:
    analysis = analysis_of(write([attack(1, success=True), standard(1)]))
    assert outcomes_of(analysis) == {"success": 1}
    unnamed = analysis_of(write([row("1-attack", success=True), row(1)]))
    assert outcomes_of(unnamed) == {"success": 1}


def test_an_attack_row_that_names_no_attack_belongs_to_no_entry_of_another_file(write: Write) -> None:
    paths = write([row("7-attack", success=True), row(8)], "a.jsonl"), write([row(7)], "b.jsonl")
    for order in (paths, paths[::-1]):
        analysis = analysis_of(*order, combine=True)
        assert outcomes_of(analysis) == {"success": 1, "failure": 2}
        assert codes(analysis)["F019"] == 1
        assert analysis.dynamic is None


def test_attack_rows_alone_are_entries_with_a_doubt(write: Write) -> None:
    analysis = analysis_of(write([attack(9, success=True), attack(10, name="crescendo")]))
    assert outcomes_of(analysis) == {"success": 1, "failure": 1}
    assert codes(analysis)["F020"] == 2


def test_different_cases_under_one_id_stay_apart(write: Write) -> None:
    rows = [
        standard("x", input="prompt with suffix a", suffix_id="a", success=True),
        standard("x", input="prompt with suffix b", suffix_id="b"),
        standard("x", input="prompt with suffix b", suffix_id="b", response="again"),
        standard("y"),
    ]
    analysis = analysis_of(write(rows))
    assert outcomes_of(analysis) == {"success": 1, "failure": 2}
    (doubt,) = [f for f in analysis.findings if f.code == "F005"]
    assert doubt.count == 2
    assert [place.rsplit(":", 1)[1] for place in doubt.where] == ["1", "2"]


@pytest.mark.parametrize("with_objective", [True, False])
def test_an_attack_row_joins_the_case_that_it_attacked(write: Write, with_objective: bool) -> None:
    rows = [
        standard("x", input="prompt a", suffix_id="a"),
        standard("x", input="prompt b", suffix_id="b", error="boom"),
        attack("x", suffix_id="a", success=True, **({"objective": "prompt a"} if with_objective else {})),
        attack("x", suffix_id="b", success=False, **({"objective": "prompt b"} if with_objective else {})),
    ]
    analysis = analysis_of(write(rows))
    by_suffix = {group.value: group.tally for group in analysis.breakdowns["suffix_id"]}
    assert (by_suffix["a"].success, by_suffix["b"].failure) == (1, 1)


@pytest.mark.parametrize(
    ("place", "attacked"), [(0, "c"), (1, "a"), (2, "b"), (3, "c")], ids=["before all", "after a", "after b", "last"]
)
def test_an_attack_row_that_names_no_case_joins_the_last_one_before_it_or_else_the_last(
    write: Write, place: int, attacked: str
) -> None:
    rows = [standard("x", input=f"prompt {name}", error="boom") for name in "abc"]
    path = write([*rows[:place], attack("x", success=True), *rows[place:]])
    found = {entry.attempts[0].place: entry.outcome for entry in find_entries("x", [path]).entries}
    lines = {name: 1 + number + (number >= place) for number, name in enumerate("abc")}
    assert found == {
        f"{path}:{line}": Outcome.SUCCESS if name == attacked else Outcome.ERROR for name, line in lines.items()
    }


def test_facets_decide_before_places_and_an_objective_before_facets(write: Write) -> None:
    cases = [
        standard("x", input="prompt a", suffix_id="a", error="boom"),
        standard("x", input="prompt b", suffix_id="b", error="boom"),
    ]
    by_facet = analysis_of(write([*cases, attack("x", suffix_id="a", success=True)]))
    by_objective = analysis_of(write([*cases, attack("x", suffix_id="b", objective="prompt a", success=True)]))
    for analysis in (by_facet, by_objective):
        (won,) = [group.value for group in analysis.breakdowns["suffix_id"] if group.tally.success]
        assert won == "a"


def test_attack_rows_without_standard_rows_are_kept_apart_by_their_facets(write: Write) -> None:
    analysis = analysis_of(write([attack("x", suffix_id="a", success=True), attack("x", suffix_id="b")]))
    assert outcomes_of(analysis) == {"success": 1, "failure": 1}
    assert codes(analysis)["F005"] == 2


def test_a_second_attempt_at_the_same_case_is_one_entry(write: Write) -> None:
    analysis = analysis_of(write([standard(1), standard(1, success=True, response="yes"), standard(2)]))
    assert (analysis.tally.total, analysis.tally.success, analysis.attempts) == (2, 1, 3)
    assert "F005" not in codes(analysis)
    assert "F006" not in codes(analysis)


def test_a_row_repeated_word_for_word_counts_once(write: Write) -> None:
    analysis = analysis_of(
        write([standard(1, response_time=0.5), standard(1, response_time=0.5), attack(1), attack(1)])
    )
    assert (analysis.tally.total, analysis.attempts) == (1, 2)
    assert codes(analysis)["F006"] == 2


# -- histories --------------------------------------------------------------------------------------------------


def item(success: bool | None = False, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {"success": success, "error": error, **more}


def test_an_attack_that_was_blocked_every_time_is_no_failure(write: Write) -> None:
    blocked = standard(1, error="Guardrail was triggered by the target", guardrail=True)
    history = [item(None, "Guardrail was triggered by the target: p1")] * 3
    analysis = analysis_of(write([blocked, attack(1, attempts=3, attempt_history=history)]))
    assert outcomes_of(analysis) == {"guardrail": 1}


def test_an_attack_that_failed_once_normally_is_a_failure(write: Write) -> None:
    history = [item(None, "Guardrail was triggered by the target"), item(False)]
    analysis = analysis_of(write([standard(1, error="boom"), attack(1, attempts=2, attempt_history=history)]))
    assert outcomes_of(analysis) == {"failure": 1}


def test_an_attack_that_met_only_errors_is_an_error(write: Write) -> None:
    history = [item(None, "HTTP 503"), item(None, "HTTP 503")]
    analysis = analysis_of(write([standard(1, error="boom"), attack(1, attempts=2, attempt_history=history)]))
    assert outcomes_of(analysis) == {"error": 1}


def test_a_block_in_a_history_is_known_by_the_words_of_flagged_rows(write: Write) -> None:
    flagged = standard(1, error="blocked by policy 7", guardrail=True)
    history = [item(None, "blocked by policy 12"), item(None, "HTTP 500")]
    analysis = analysis_of(write([flagged, attack(1, attempts=2, attempt_history=history)]))
    assert analysis.dynamic is not None
    assert analysis.dynamic.attacks[0].guardrail == 1


def test_a_block_in_a_history_is_not_known_by_the_words_of_another_file(write: Write) -> None:
    history = [item(None, "refused by policy 12"), item(None, "refused by policy 13")]
    attacked = write([standard(1, error="boom"), attack(1, attempts=2, attempt_history=history)], "a.jsonl")
    flagged = write([standard(2, error="refused by policy 7", guardrail=True)], "b.jsonl")
    for order in ((attacked, flagged), (flagged, attacked)):
        analysis = analysis_of(*order, combine=True)
        assert outcomes_of(analysis) == {"error": 1, "guardrail": 1}
        assert analysis.dynamic is not None
        assert analysis.dynamic.attacks[0].guardrail == 0


def test_guardrail_triggers_of_an_attack_are_unknown_without_a_history(write: Write) -> None:
    silent = analysis_of(write([standard(1), attack(1)]))
    assert silent.dynamic is not None
    assert silent.dynamic.attacks[0].guardrail is None
    assert codes(silent)["F018"] == 1
    told = analysis_of(write([standard(1), attack(1, attempt_history=[item()])]))
    assert told.dynamic is not None
    assert told.dynamic.attacks[0].guardrail == 0


@pytest.mark.parametrize("more", [{}, {"attempt_history": []}])
def test_an_attack_without_a_request_has_not_failed(write: Write, more: dict[str, Any]) -> None:
    analysis = analysis_of(write([standard(1, error="boom"), attack(1, attempts=0, **more)]))
    assert outcomes_of(analysis) == {"error": 1}


def test_attempts_to_success_are_counted_over_rows_in_their_order(write: Write) -> None:
    rows = [standard(1), attack(1), row("1-attack-2", input="v", attack_name="goat", success=True, response="yes")]
    rows += [standard(2), standard(2, success=True, response="yes")]
    steps = {step.attempts: step.entries for step in analysis_of(write(rows)).attempts_to_success}
    assert steps == {3: 1, 2: 1}


def test_attempts_to_success_count_the_requests_inside_an_attack(write: Write) -> None:
    rows = [
        standard(1, success=True, attempts=2),
        standard(2, attempts=1),
        attack(2, success=True, attempts=5, attempt_history=[item(), item(), item(True), item(), item()]),
        standard(3),
        attack(3, success=True, attempts=4),
    ]
    steps = {step.attempts: step.entries for step in analysis_of(write(rows)).attempts_to_success}
    assert steps == {2: 1, 4: 1, 5: 1}


def test_a_history_overruled_by_its_row_is_a_failure(write: Write) -> None:
    analysis = analysis_of(write([standard(1, error="x"), attack(1, success=False, attempt_history=[item(True)])]))
    assert outcomes_of(analysis) == {"failure": 1}


# -- the same rows in several files -----------------------------------------------------------------------------

RUN = [
    standard(1, success=True, response="yes", response_time=0.11),
    standard(2, response_time=0.12),
    standard(3, error="boom", response=""),
    standard(4, response_time=0.14),
    attack(4, success=True, attempts=3, response_time=2.5),
]


def extracted(rows: list[dict[str, Any]], origin: str, *, old: bool = False) -> list[dict[str, Any]]:
    made = []
    for number, source in enumerate(rows, start=1):
        extra = {"original_id": source["id"], "source_file": origin}
        if not old:
            parent = str(source["id"]).removesuffix("-attack")
            extra |= {"result_parent_id": parent, "result_origin": origin}
        made.append({**source, **extra, "id": number, "long_id": f"x_extracted_{number}"})
    return made


@pytest.mark.parametrize("old", [False, True], ids=["0.9.2", "0.9.1"])
@pytest.mark.parametrize("origin", ["{path}", "results_x.jsonl", "./results_x.jsonl", "elsewhere/{name}"])
def test_results_with_their_extract_count_once(write: Write, origin: str, old: bool) -> None:
    path = write(RUN)
    if origin.startswith("elsewhere"):
        path = write(RUN, "elsewhere/results_x.jsonl")
    named = origin.format(path=path, name="results_x.jsonl")
    extract = write(extracted([RUN[0], RUN[4]], named, old=old), "extract_success_1.jsonl")
    analysis = analysis_of(path, extract, combine=True)
    assert outcomes_of(analysis) == {"success": 2, "failure": 1, "error": 1}
    assert analysis.attempts == 7
    assert codes(analysis)["F008"] == 2


def test_an_extract_alone_is_counted_by_its_origin(write: Write) -> None:
    mixed = [*extracted([RUN[0]], "results/a.jsonl"), *extracted([RUN[0]], "results/b.jsonl")]
    mixed[1]["id"] = 2
    assert analysis_of(write(mixed, "extract_success_1.jsonl")).tally.total == 2


def test_two_extracts_of_one_run_meet(write: Write) -> None:
    first = write(extracted(RUN[:3], "results/results_x.jsonl"), "extract_a_1.jsonl")
    second = write(extracted(RUN[1:4], "/somewhere/results/results_x.jsonl"), "extract_b_2.jsonl")
    analysis = analysis_of(first, second, combine=True)
    assert analysis.tally.total == 4
    assert codes(analysis)["F008"] == 2


def test_origins_in_different_folders_are_different_runs(write: Write) -> None:
    first = write(extracted(RUN[:3], "run1/results_x.jsonl"), "extract_a_1.jsonl")
    second = write(extracted(RUN[:3], "run2/results_x.jsonl"), "extract_b_2.jsonl")
    assert analysis_of(first, second, combine=True).tally.total == 6


def test_results_with_their_rejudge_count_once_by_the_later_verdict(write: Write) -> None:
    rejudged = [{**r, "judge_options": "new"} for r in RUN]
    rejudged[0]["success"] = False
    rejudged[1]["success"] = True
    paths = write(RUN), write(rejudged, "rejudge_x_1.jsonl")
    for order in (paths, paths[::-1]):
        analysis = analysis_of(*order, combine=True)
        assert outcomes_of(analysis) == {"success": 2, "failure": 1, "error": 1}
        assert analysis.attempts == 7
        assert (codes(analysis)["F008"], codes(analysis)["F009"]) == (5, 2)


def test_a_partial_rejudge_keeps_the_other_verdicts(write: Write) -> None:
    rejudged = [{**RUN[0], "success": False}]
    analysis = analysis_of(write(RUN), write(rejudged, "rejudge_x_1.jsonl"), combine=True)
    assert outcomes_of(analysis) == {"success": 1, "failure": 2, "error": 1}


def test_two_rejudges_of_one_run_meet_without_it(write: Write) -> None:
    paths = [write([{**r, "success": i == n} for i, r in enumerate(RUN)], f"rejudge_x_{n}.jsonl") for n in (0, 1)]
    analysis = analysis_of(*paths, combine=True)
    assert outcomes_of(analysis) == {"success": 1, "failure": 2, "error": 1}
    assert codes(analysis)["F009"] == 2


def test_attack_rows_that_differ_in_their_history_are_two(write: Write) -> None:
    rows = [standard(1), attack(1, attempt_history=[item()]), attack(1, attempt_history=[item(None, "x")])]
    assert analysis_of(write(rows)).attempts == 3


def test_runs_of_two_targets_are_never_mistaken_for_one(write: Write) -> None:
    same_words = [standard(i, response="no") for i in range(5)]
    others = [standard(i, response="no", success=i == 0) for i in range(5)]
    analysis = analysis_of(write(same_words, "results_a.jsonl"), write(others, "results_b.jsonl"), combine=True)
    assert analysis.tally.total == 10
    assert not {"F007", "F008", "F009"} & set(codes(analysis))


def test_a_resumed_copy_of_a_run_adds_only_what_is_new(write: Write) -> None:
    begun, resumed = write(RUN[:2], "results_x_1.jsonl"), write(RUN, "results_x_2.jsonl")
    analysis = analysis_of(begun, resumed, combine=True)
    assert (analysis.tally.total, analysis.attempts) == (4, 7)
    assert codes(analysis)["F008"] == 2


@pytest.mark.parametrize("spelling", ["same", "dots", "link", "copy"])
def test_one_file_under_two_names_counts_once(write: Write, tmp_path: Path, spelling: str) -> None:
    path = write(RUN)
    again = {"same": path, "dots": str(tmp_path / "." / ".." / tmp_path.name / "results_x.jsonl")}.get(spelling)
    if again is None:
        again = str(tmp_path / "results_other.jsonl")
        Path(again).symlink_to(path) if spelling == "link" else Path(again).write_bytes(Path(path).read_bytes())
    for combine in (True, False):
        analysis = analysis_of(path, again, combine=combine)
        assert (analysis.tally.total, analysis.attempts) == (4, 7)
        assert codes(analysis)["F007"] == 1


def test_the_place_of_a_run_is_known_by_its_name() -> None:
    assert [preference(p) for p in ("a/rejudge_x.jsonl", "results_x.jsonl", "extract_x.jsonl", "plain.jsonl")] == [
        2,
        1,
        0,
        1,
    ]


def test_rejudges_of_rejudges_lead_back_to_the_run() -> None:
    paths = ["results_x.jsonl", "rejudge_x_1.jsonl", "rejudge_x_2.jsonl"]
    overlaps = [Overlap(1, 0, 3, 0, 3), Overlap(2, 0, 3, 0, 3), Overlap(2, 1, 3, 3, 3), Overlap(1, 2, 3, 3, 3)]
    keys = origin_keys(paths, [(0, ""), (1, ""), (2, "")], overlaps, [3, 3, 3])
    assert keys == {(0, ""): 0, (1, ""): 0, (2, ""): 0}


@pytest.mark.shared
def test_the_golden_runs_of_three_targets_stay_three(shared: Path) -> None:
    folder = shared / "golden" / "spikee" / "ws" / "results" / "three"
    analysis = analysis_of(*map(str, sorted(folder.glob("*.jsonl"))), combine=True)
    assert analysis.tally.total == 3 * 812


def test_arrays_and_single_rows_make_the_same_ledger(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        standard(i, success=i % 3 == 0, plugin=f"p{i % 4}" if i % 5 else None, response_time=i / 7) for i in range(200)
    ]
    rows += [attack(i, success=i % 2 == 0, attempt_history=[item(None, "Guardrail was triggered")]) for i in range(50)]
    path = write(rows)
    one_by_one = analysis_of(path)
    monkeypatch.setattr("faircount.ledger.store.ONE_BY_ONE_UP_TO_ROWS", 1)
    by_arrays = analysis_of(path)
    assert json.dumps(one_by_one.breakdowns, default=str) == json.dumps(by_arrays.breakdowns, default=str)
    assert one_by_one == by_arrays
