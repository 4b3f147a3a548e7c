"""PyRIT's memory and exports: real ones beside their oracle, and small ones made by the same schema.

The golden files are runs of PyRIT 1.1.0 and 0.8.1; `oracle.json` has what PyRIT says of them and an independent count.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, InputError, analyze
from faircount.ledger import has_unwritten_changes, open_tables
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "pyrit"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
MEMORY, EXPORT, TABLE = "memory_v1.1.0.db", "conversations_v0.8.1.json", "conversations_v0.8.1.csv"
METRICS = ("scorer_objective_achieved_metrics.jsonl", "scorer_refusal_metrics.jsonl", "scorer_violence_metrics.jsonl")
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
SAMPLE = ROOT / "docs/samples/pyrit.json"
pytestmark = pytest.mark.filterwarnings("error")


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses
    return found


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(found.tally, name))}


def expected_outcomes(told: Mapping[str, Any]) -> dict[str, int]:
    return {name: count for name, count in told["outcomes"].items() if count}


def rows_of(path: Path, cli: Cli, folder: Path) -> list[dict[str, Any]]:
    """Return the rows that people read, as `results export` writes them."""
    out = folder / "rows.jsonl"
    ran = cli("results", "export", str(path), "--to", "jsonl", "--force", "-o", str(out))
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in out.read_text().splitlines()]


def ids_of(path: Path, cli: Cli, folder: Path) -> list[str]:
    return sorted(str(row["id"]) for row in rows_of(path, cli, folder))


# -- small files by the same schema -----------------------------------------------------------------------------

SCORER = {"__type__": "SubStringScorer"}


def score(value: Any = "True", category: str = "told", **changed: Any) -> dict[str, Any]:
    return {
        "score_value": value,
        "score_type": "true_false",
        "score_category": category,
        "score_rationale": "why",
        "scorer_class_identifier": SCORER,
        **changed,
    }


def message(conversation: int, sequence: int, role: str, text: str, *scores: Any, **changed: Any) -> dict[str, Any]:
    return {
        "id": f"{conversation}-{sequence}-{role}",
        "role": role,
        "conversation_id": f"conversation {conversation}",
        "sequence": sequence,
        "timestamp": "2026-01-01T00:00:00",
        "labels": {"op": "one"},
        "converter_identifiers": [],
        "prompt_target_identifier": {"__type__": "Bot"},
        "orchestrator_identifier": {"__type__": "PromptSendingOrchestrator", "id": "o"},
        "original_value": text,
        "converted_value": text,
        "converted_value_data_type": "text",
        "response_error": "none",
        "scores": list(scores),
        **changed,
    }


def asked(number: int, *scores: Any, prompt: str = "", **answer: Any) -> list[dict[str, Any]]:
    """Return a conversation with one request and its answer."""
    text = prompt or f"do {number}"
    return [message(number, 0, "user", text), message(number, 1, "assistant", "an answer", *scores, **answer)]


def export(folder: Path, *messages: Any, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(list(messages), indent=1))
    return path


def as_table(path: Path) -> Path:
    """Return an export as PyRIT writes it to CSV: Python literals in the cells."""
    rows = json.loads(path.read_text())
    out = path.with_suffix(".csv")
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return out


TABLES = {
    "AttackResultEntries": "id conversation_id objective objective_sha256 atomic_attack_identifier outcome "
    "outcome_reason executed_turns execution_time_ms last_response_id last_score_id pruned_conversation_ids "
    "adversarial_chat_conversation_ids labels error_message attribution_parent_id targeted_harm_categories "
    "pyrit_version",
    "PromptMemoryEntries": "id role conversation_id sequence original_value converted_value converted_value_data_type "
    "response_error labels",
    "ScoreEntries": "id score_value score_type score_category score_rationale scorer_class_identifier "
    "prompt_request_response_id status",
    "Conversations": "conversation_id target_identifier pyrit_version",
    "ScenarioResultEntries": "id scenario_name",
}


def technique(attack: str = "PromptSendingAttack", *converters: str, **scorer: Any) -> dict[str, Any]:
    inside = {
        "class_name": attack,
        "hash": "changes with the target",
        "children": {
            "objective_scorer": {"class_name": "SubStringScorer", "substring": "Sure", **scorer},
            "request_converters": [{"class_name": one} for one in converters],
        },
    }
    wrapped = {"class_name": "AttackTechnique", "children": {"attack": inside}}
    return {"class_name": "AtomicAttack", "children": {"attack_technique": wrapped}}


def result(number: int, outcome: str, objective: str = "", **changed: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "conversation_id": f"c{number}",
        "objective": objective or f"do {number}",
        "atomic_attack_identifier": technique(),
        "outcome": outcome,
        "labels": {"op": "one"},
        "pyrit_version": "1.1.0",
        **changed,
    }


def said(number: int, *marks: str, conversation: str = "") -> list[dict[str, Any]]:
    """Return the messages of a conversation of the memory: a request for each answer, which is marked."""
    name = conversation or f"c{number}"
    found = []
    for turn, mark in enumerate(marks):
        for sequence, role, error in ((2 * turn, "user", "none"), (2 * turn + 1, "assistant", mark)):
            text = f"{role} {turn}"
            found.append(
                {
                    "id": f"{name}-{sequence}",
                    "role": role,
                    "conversation_id": name,
                    "sequence": sequence,
                    "original_value": text,
                    "converted_value": text,
                    "response_error": error,
                }
            )
    return found


def memory(
    path: Path,
    results: Sequence[Mapping[str, Any]] = (),
    messages: Sequence[Mapping[str, Any]] = (),
    scores: Sequence[Mapping[str, Any]] = (),
    targets: Mapping[str, str] | None = None,
    scenarios: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write a memory; all conversations are with one target unless `targets` says otherwise."""
    named = targets or {str(one["conversation_id"]): "bot" for one in messages}
    conversations = [{"conversation_id": key, "target_identifier": {"model_name": one}} for key, one in named.items()]
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        for table, columns in TABLES.items():
            database.execute(f'CREATE TABLE "{table}" ({", ".join(columns.split())})')
        for table, rows in zip(TABLES, (results, messages, scores, conversations, scenarios), strict=True):
            for row in rows:
                cells = [json.dumps(one) if isinstance(one, dict | list) else one for one in row.values()]
                marks = ", ".join("?" * len(cells))
                database.execute(f'INSERT INTO "{table}" ({", ".join(row)}) VALUES ({marks})', cells)
    database.close()
    return path


# -- the golden files -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("part", ORACLE.get(MEMORY, {}).get("expected", {}))
def test_results_of_the_memory_are_those_of_the_oracle(part: str) -> None:
    told = ORACLE[MEMORY]["expected"][part]
    found = analysis(GOLDEN / MEMORY, **({} if part == "all" else {"where": f'technique = "{part}"'}))
    assert outcomes(found) == expected_outcomes(told)
    assert (found.tally.total, found.attempts) == (told["entries"], told["attempts"])
    assert told["attempt_states"] == told["outcomes"]
    assert found.tally.success / found.tally.total == told["rate_over_entries"]
    judged = found.tally.success + found.tally.failure
    assert (found.tally.success / judged if judged else None) == told["rate_over_judged"]


@pytest.mark.shared
def test_pyrits_own_figures_are_those_that_it_prints() -> None:
    told = ORACLE[MEMORY]["tool_says"]
    (source,) = analysis(GOLDEN / MEMORY, definition="PyRIT").sources
    figures = {one.name: one for one in source.figures}
    whole, says = figures["success rate"], told["analyze_results"]
    assert (whole.value, whole.count, whole.n) == (says["success_rate"], says["successes"], says["total_decided"])
    assert says["failures"] == says["total_decided"] - says["successes"]
    assert whole.note == f"{says['undetermined']} undetermined and {says['errors']} errors"
    for attack in ("PromptSendingAttack", "RedTeamingAttack"):
        one = figures[f"success rate, {attack}"]
        assert f"{one.count} of {one.n} decided" == told["by attack"][attack]
    assert figures["success rate, unknown"].note == told["by attack"]["unknown"]
    assert source.differs == (
        "PyRIT reports 60.0% (6 of 10); 4 undetermined and 2 errors left out, 1 failure of a scorer among the errors.",
    )


@pytest.mark.shared
def test_an_error_that_does_not_name_its_attack_is_counted_with_it() -> None:
    found = analysis(GOLDEN / MEMORY, by=("attack",))
    assert {group.value: group.tally.total for group in found.breakdowns["attack"]} == {
        "PromptSendingAttack": 12,
        "RedTeamingAttack": 4,
    }


@pytest.mark.shared
@pytest.mark.parametrize("name", [EXPORT, TABLE])
def test_answers_of_an_export_are_those_of_the_oracle(name: str, cli: Cli, tmp_path: Path) -> None:
    told = ORACLE[EXPORT]["expected"]["all"]
    found = analysis(GOLDEN / name)
    assert outcomes(found) == expected_outcomes(told)
    assert (found.tally.total, found.attempts) == (told["entries"], told["attempts"])
    states = dict.fromkeys(OUTCOMES, 0)
    for row in rows_of(GOLDEN / name, cli, tmp_path):
        for one in row["attempt_history"]:
            blocked, error = one.get("guardrail"), one.get("error")
            state = "guardrail" if blocked else "error" if error else "success" if one["success"] else "failure"
            states[state] += 1
    assert states == told["attempt_states"]


@pytest.mark.shared
def test_both_forms_of_an_export_have_the_same_entries(cli: Cli, tmp_path: Path) -> None:
    assert ids_of(GOLDEN / EXPORT, cli, tmp_path) == ids_of(GOLDEN / TABLE, cli, tmp_path)


@pytest.mark.shared
@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_scorers_are_refused_by_name(name: str, cli: Cli) -> None:
    ran = cli("results", "analyze", str(GOLDEN / name))
    assert (ran.code, "PyRIT's metrics of its scorers" in ran.err) == (3, True)


# -- states in a memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "marks", "expected"),
    [
        ("success", ["none"], "success"),
        ("success", ["blocked"], "success"),
        ("failure", ["none"], "failure"),
        ("failure", ["blocked", "none"], "failure"),
        ("failure", ["blocked", "blocked"], "guardrail"),
        ("failure", ["empty"], "failure"),
        ("failure", ["processing"], "error"),
        ("failure", ["processing", "blocked"], "error"),
        ("failure", [], "failure"),
        ("undetermined", ["none"], "unjudged"),
        ("undetermined", ["blocked"], "guardrail"),
        ("undetermined", [], "unjudged"),
        ("error", ["processing"], "error"),
        ("maybe", ["none"], "unjudged"),
    ],
)
def test_a_result_has_one_state(outcome: str, marks: list[str], expected: str, tmp_path: Path) -> None:
    path = memory(tmp_path / "m.db", [result(1, outcome)], said(1, *marks))
    assert outcomes(analysis(path)) == {expected: 1}


@pytest.mark.parametrize(
    ("outcome", "mark", "code"),
    [("failure", "blocked", "F056"), ("failure", "processing", "F046"), ("error", "none", "F047"),
     ("undetermined", "none", "F047"), ("maybe", "none", "F004")],
)  # fmt: skip
def test_what_pyrit_counts_otherwise_is_a_finding(outcome: str, mark: str, code: str, tmp_path: Path) -> None:
    path = memory(tmp_path / "m.db", [result(1, outcome), result(2, "success")], [*said(1, mark), *said(2, "none")])
    assert codes(analysis(path))[code] == 1


def test_a_failed_scorer_leaves_an_attack_unjudged(tmp_path: Path) -> None:
    reason = "Exception: Error in scorer SelfAskTrueFalseScorer: Invalid JSON"
    path = memory(tmp_path / "m.db", [result(1, "error", outcome_reason=reason)], said(1, "none"))
    found = analysis(path)
    assert outcomes(found) == {"unjudged": 1}
    assert "failures of a scorer" in next(one.message for one in found.findings if one.code == "F047")


def test_answers_in_earlier_tries_are_looked_at(tmp_path: Path) -> None:
    messages = [*said(1, "blocked"), *said(1, "none", conversation="first try")]
    path = memory(tmp_path / "m.db", [result(1, "failure", pruned_conversation_ids=["first try"])], messages)
    assert outcomes(analysis(path, where="tries = 2")) == {"failure": 1}


def test_figures_tell_blocks_among_the_failures(tmp_path: Path) -> None:
    results = [result(1, "failure"), result(2, "failure"), result(3, "success")]
    path = memory(tmp_path / "m.db", results, [*said(1, "blocked"), *said(2, "none"), *said(3, "none")])
    (source,) = analysis(path).sources
    assert (source.figures[0].count, source.figures[0].n) == (1, 3)
    assert source.differs == ("PyRIT reports 33.3% (1 of 3); 1 blocked answer among the failures.",)


def test_scores_of_the_last_answer_are_verdicts_of_their_scorers(tmp_path: Path, cli: Cli) -> None:
    scorer = {"class_name": "SubStringScorer", "substring": "Sure"}
    refusal = {"class_name": "SelfAskRefusalScorer", "children": {"prompt_target": {"model_name": "judge-model"}}}
    scores = [
        {"id": "s1", "score_value": "true", "scorer_class_identifier": scorer, "prompt_request_response_id": "c1-1"},
        {"id": "s2", "score_value": "false", "scorer_class_identifier": refusal, "prompt_request_response_id": "c1-1"},
    ]
    given = result(1, "success", last_response_id="c1-1", last_score_id="s1")
    path = memory(tmp_path / "m.db", [given], said(1, "none"), scores)
    (row,) = rows_of(path, cli, tmp_path)
    assert row["judge_name"] == "SubStringScorer:Sure"
    verdicts = {one["name"]: one["verdict"] for one in row["attempt_history"][0]["metrics"]}
    assert verdicts == {"SubStringScorer:Sure": "success", "SelfAskRefusalScorer:judge-model": "failure"}
    assert outcomes(analysis(path, judge="SelfAskRefusalScorer:judge-model")) == {"failure": 1}


def test_conversations_of_attackers_and_scorers_are_no_answers_of_the_target(tmp_path: Path, cli: Cli) -> None:
    messages = [*said(1, "none"), *said(1, "none", "none", conversation="a"), *said(1, "none", conversation="s")]
    given = result(1, "failure", adversarial_chat_conversation_ids=["a"])
    path = memory(tmp_path / "m.db", [given], messages, targets={"c1": "bot", "a": "helper", "s": "helper"})
    found = analysis(path)
    assert (found.tally.total, found.attempts, found.sources[0].target) == (1, 1, "bot")
    assert rows_of(path, cli, tmp_path)[0]["turns"] == 1
    assert "F039" not in codes(found)


def test_a_conversation_with_the_target_without_a_result_is_a_run_that_did_not_complete(tmp_path: Path) -> None:
    path = memory(tmp_path / "m.db", [result(1, "failure")], [*said(1, "none"), *said(2, "none")])
    assert "F039" in codes(analysis(path))


# -- ids, runs, versions of the schema --------------------------------------------------------------------------


def test_entries_have_the_same_id_in_another_run_in_another_order(tmp_path: Path, cli: Cli) -> None:
    first = memory(tmp_path / "a.db", [result(1, "success", "x"), result(2, "failure", "y")])
    later = {"op": "two", "operator": "somebody", "date": "2026-02-02"}
    again = memory(
        tmp_path / "b.db", [result(8, "failure", "y", labels=later), result(9, "failure", "x", labels=later)]
    )
    assert ids_of(first, cli, tmp_path) == ids_of(again, cli, tmp_path)


def test_other_objectives_attacks_converters_and_labels_are_other_entries(tmp_path: Path) -> None:
    results = [
        result(1, "failure", "x"),
        result(2, "failure", "y"),
        result(3, "failure", "x", atomic_attack_identifier=technique("RedTeamingAttack")),
        result(4, "failure", "x", atomic_attack_identifier=technique("PromptSendingAttack", "Base64Converter")),
        result(5, "failure", "x", labels={"op": "one", "technique": "other"}),
    ]
    assert analysis(memory(tmp_path / "m.db", results)).tally.total == 5


def test_a_repeated_attack_is_another_attempt_on_its_entry(tmp_path: Path) -> None:
    results = [result(1, "failure", "x"), result(2, "success", "x"), result(3, "failure", "x")]
    found = analysis(memory(tmp_path / "m.db", results))
    assert (outcomes(found), found.attempts) == ({"success": 1}, 3)


def test_operations_and_targets_are_runs(tmp_path: Path) -> None:
    results = [
        result(1, "success", "x"),
        result(2, "failure", "x", labels={"op": "two"}),
        result(3, "failure", "x", labels={}, attribution_parent_id="p-1"),
    ]
    messages = [*said(1, "none"), *said(2, "none"), *said(3, "none")]
    scenarios = [{"id": "p1", "scenario_name": "Foundry"}]
    path = memory(tmp_path / "m.db", results, messages, scenarios=scenarios)
    assert len(analyze(str(path), options=AnalyzeOptions(cache=False)).analyses) == 3
    assert analysis(path, combine=True).tally.total == 3
    for run, outcome in (("one", "success"), ("two", "failure"), ("Foundry", "failure")):
        alone = analysis(f"{path}/{run}")
        assert outcomes(alone) == {outcome: 1}
        assert alone.sources[0].figures[0].n == 1
    two = memory(tmp_path / "t.db", results[:2], messages, targets={"c1": "weak", "c2": "strong"})
    assert outcomes(analysis(f"{two}/two@strong")) == {"failure": 1}


def test_a_memory_without_results_is_read_by_its_conversations(tmp_path: Path) -> None:
    scorer = {"class_name": "SubStringScorer"}
    scores = [
        {"id": "s1", "score_value": "true", "scorer_class_identifier": scorer, "prompt_request_response_id": "c1-1"},
        {"id": "s2", "score_value": "false", "scorer_class_identifier": scorer, "prompt_request_response_id": "c2-1"},
    ]
    second = said(2, "none")
    second[0]["original_value"] = "another"
    path = memory(tmp_path / "m.db", [], [*said(1, "none"), *second], scores)
    found = analysis(path)
    assert (outcomes(found), found.sources[0].target) == ({"success": 1, "failure": 1}, "bot")
    with sqlite3.connect(path) as database:
        database.execute('DROP TABLE "AttackResultEntries"')
        database.execute('DROP TABLE "Conversations"')
    database.close()
    assert outcomes(analysis(path)) == {"success": 1, "failure": 1}


def test_labels_of_messages_serve_where_results_have_none(tmp_path: Path) -> None:
    messages = [{**one, "labels": {"technique": "old"}} for one in said(1, "none")]
    path = memory(tmp_path / "m.db", [result(1, "failure", labels=None)], messages)
    assert analysis(path, where="technique = old").tally.total == 1


def test_a_memory_is_recognised_wherever_its_tables_are_described(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        for number in range(300):  # their descriptions fill the first 64 KiB
            database.execute(f"CREATE TABLE other_{number} ({', '.join(f'column_{one}' for one in range(60))})")
    database.close()
    memory(path, [result(1, "success")])
    assert b"PromptMemoryEntries" not in path.read_bytes()[: 64 * 1024]
    assert outcomes(analysis(path)) == {"success": 1}


# -- exports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"scores": [score("True")]}, "success"),
        ({"scores": [score("false")]}, "failure"),
        ({"scores": [score(True)]}, "success"),
        ({"scores": [score("0.7", score_type="float_scale")]}, "success"),
        ({"scores": [score("0.2", score_type="float_scale")]}, "failure"),
        ({"scores": [score("7", score_type="float_scale")]}, "unjudged"),
        ({"scores": [score("perhaps")]}, "unjudged"),
        ({"scores": [score("true", status="failed")]}, "unjudged"),
        ({"scores": []}, "unjudged"),
        ({"scores": [score("True", "refusal")]}, "unjudged"),
        ({"scores": [score("True", scorer_class_identifier={"__type__": "SelfAskRefusalScorer"})]}, "unjudged"),
        ({"response_error": "blocked", "scores": [score("False")]}, "guardrail"),
        ({"response_error": "blocked", "scores": [score("True")]}, "success"),
        ({"response_error": "processing", "scores": []}, "error"),
        ({"response_error": "unknown", "scores": [score("False")]}, "error"),
        ({"response_error": "empty", "converted_value": "", "scores": [score("False")]}, "failure"),
    ],
)
@pytest.mark.parametrize("table", [False, True])
def test_an_answer_has_one_state(table: bool, answer: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = export(tmp_path, message(1, 0, "user", "do it"), message(1, 1, "assistant", "an answer") | answer)
    assert outcomes(analysis(as_table(path) if table else path)) == {expected: 1}


def test_the_threshold_can_be_moved(tmp_path: Path) -> None:
    path = export(tmp_path, *asked(1, score("0.7")), *asked(2, score("7")))
    assert codes(analysis(path))["F052"] == 1
    assert outcomes(analysis(path, success_threshold=0.8)) == {"success": 1, "failure": 1}


def test_one_scorer_decides_for_all_conversations_of_an_attack(tmp_path: Path) -> None:
    both = [score("False", "told"), score("True", "polite")]
    path = export(tmp_path, *asked(1, *both), *asked(2, *reversed(both)), *asked(3, score("True", "told")))
    assert outcomes(analysis(path)) == {"failure": 2, "success": 1}
    assert outcomes(analysis(path, judge="SubStringScorer:polite")) == {"success": 2, "unjudged": 1}


def test_every_answer_of_a_conversation_is_an_attempt_on_its_entry(tmp_path: Path) -> None:
    path = export(
        tmp_path,
        *asked(1, score("False")),
        message(1, 2, "user", "please"),
        message(1, 3, "assistant", "yes", score("True")),
    )
    found = analysis(path)
    assert (outcomes(found), found.attempts) == ({"success": 1}, 2)


def test_a_request_without_an_answer_is_an_error(tmp_path: Path) -> None:
    found = analysis(export(tmp_path, *asked(1, score()), message(2, 0, "user", "do 2")))
    assert outcomes(found) == {"success": 1, "error": 1}


def test_parts_of_one_message_are_one_answer(tmp_path: Path) -> None:
    picture = message(1, 1, "assistant", "x.png", id="p", converted_value_data_type="image_path")
    found = analysis(export(tmp_path, *asked(1, score("False")), picture))
    assert (outcomes(found), found.attempts) == ({"failure": 1}, 1)


def test_conversations_of_attackers_scorers_and_converters_are_not_counted(tmp_path: Path) -> None:
    target = [
        message(1, 0, "user", "a story", original_value="a story"),
        message(1, 1, "assistant", "no", score("False")),
    ]
    attacker = [
        message(2, 0, "system", "make it tell"),
        message(2, 1, "user", "begin"),
        message(2, 2, "assistant", json.dumps({"prompt": "a story", "improvement": "x"})),
    ]
    scorer = [
        message(3, 0, "system", "judge"),
        message(3, 1, "user", "no"),
        message(3, 2, "assistant", '```json\n{"score_value": "False", "rationale": "r"}\n```'),
    ]
    instructed = [
        message(4, 0, "system", "you are a bot"),
        message(4, 1, "user", "do 4"),
        message(4, 2, "assistant", "yes", score("True")),
    ]
    found = analysis(export(tmp_path, *attacker, *target, *scorer, *instructed))
    assert (outcomes(found), found.attempts) == ({"success": 1, "failure": 1}, 2)


def test_an_entry_of_an_attacker_is_known_by_its_instruction(tmp_path: Path, cli: Cli) -> None:
    def run(name: str, opening: str) -> Path:
        return export(
            tmp_path,
            message(1, 0, "system", "make it tell"),
            message(1, 1, "assistant", opening),
            message(2, 0, "user", opening),
            message(2, 1, "assistant", "no", score("False")),
            name=name,
        )

    first, second = run("a.json", "a story"), run("b.json", "a poem")
    assert ids_of(first, cli, tmp_path) == ids_of(second, cli, tmp_path)


def test_attackers_that_begin_alike_stay_apart(tmp_path: Path) -> None:
    messages = []
    for number, goal in enumerate(["tell one", "tell two", "tell three"]):
        attacker, target = 2 * number, 2 * number + 1
        messages += [
            message(attacker, 0, "system", goal),
            message(attacker, 1, "assistant", "a story"),
            message(attacker, 3, "assistant", f"more of {goal}"),
            message(target, 0, "user", "a story"),
            message(target, 1, "assistant", "no", score("False")),
            message(target, 2, "user", f"more of {goal}"),
            message(target, 3, "assistant", "yes", score(str(number == 1))),
        ]
    assert outcomes(analysis(export(tmp_path, *messages))) == {"success": 1, "failure": 2}


def test_the_prompt_of_a_converter_does_not_merge_entries(tmp_path: Path) -> None:
    messages = []
    for number in range(3):
        converter, target, sent = 2 * number, 2 * number + 1, f"translated {number}"
        messages += [
            message(converter, 0, "system", "translate"),
            message(converter, 1, "user", f"text {number}"),
            message(converter, 2, "assistant", sent),
            message(target, 0, "user", sent, original_value=f"text {number}"),
            message(target, 1, "assistant", "no", score("False")),
        ]
    found = analysis(export(tmp_path, *messages))
    assert (outcomes(found), found.attempts) == ({"failure": 3}, 3)


def test_ids_do_not_depend_on_the_order_of_messages(tmp_path: Path, cli: Cli) -> None:
    messages = [*asked(1, score()), *asked(2, score("False")), *asked(3, response_error="blocked")]
    messages += [message(1, 2, "user", "more"), message(1, 3, "assistant", "no", score("False"))]
    first = export(tmp_path, *messages, name="a.json")
    expected = ids_of(first, cli, tmp_path)
    for seed in range(5):
        random.Random(seed).shuffle(messages)
        path = export(tmp_path, *messages, name="b.json")
        found = analysis(path)
        assert (outcomes(found), found.attempts) == ({"success": 1, "failure": 1, "guardrail": 1}, 4)
        assert ids_of(path, cli, tmp_path) == expected


def test_a_message_that_stands_twice_counts_once(tmp_path: Path) -> None:
    found = analysis(export(tmp_path, *asked(1, score()), *asked(2, score("False")), *asked(2, score("False"))))
    assert (outcomes(found), codes(found)["F001"]) == ({"success": 1, "failure": 1}, 2)


def test_labels_and_converters_are_facets(tmp_path: Path) -> None:
    given = asked(1, score())
    given[0] |= {"labels": {"op": "x", "harm": "none", "attack": "y"}, "converter_identifiers": [{"__type__": "ROT13"}]}
    path = export(tmp_path, *given, *asked(2, score("False")))
    for where in ("harm = none", "converter = ROT13", "label_attack = y", "operation = x", "converter != none"):
        assert analysis(path, where=where, combine=True).tally.total == 1, where


# -- everything else works --------------------------------------------------------------------------------------


@pytest.fixture(params=["export", "table", "memory"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a file of each form with three successes and one failure, one error and one block."""
    if request.param == "memory":
        results = [result(n, "success" if n < 4 else "failure" if n < 5 else "error") for n in range(1, 6)]
        messages = [one for n in range(1, 6) for one in said(n, "none" if n < 5 else "processing")]
        blocked = result(6, "undetermined")
        return memory(tmp_path / "m.db", [*results, blocked], [*messages, *said(6, "blocked")])
    messages = [one for n in range(1, 5) for one in asked(n, score(str(n < 4)))]
    messages += [*asked(5, response_error="processing"), *asked(6, response_error="blocked")]
    path = export(tmp_path, *messages)
    return as_table(path) if request.param == "table" else path


SMALL = {"success": 3, "failure": 1, "error": 1, "guardrail": 1}


def test_commands_take_a_file_of_pyrits(small: Path, cli: Cli) -> None:
    sheet, sheets = small.with_name("labels.jsonl"), small.with_name("x.xlsx")
    for words in (
        ("check", str(small)),
        ("sample-for-labels", str(small), "--n", "3", "-o", str(sheet)),
        ("convert-to-excel", str(small), "-o", str(sheets)),
        ("analyze", str(small), "--where", "operation = one", "--by", "attack", "--by", "converter"),
        ("analyze", str(small), "--fail-on", "asr > 99%"),
        ("export", str(small), "--to", "csv", "-o", str(small.with_name("rows.csv"))),
    ):
        ran = cli("results", *words)
        assert ran.code == 0, (words, ran.err)
    assert cli("results", "analyze", str(small), "--fail-on", "asr > 1%").code == 1


def test_figures_of_pyrits_are_those_of_a_memory(small: Path, cli: Cli) -> None:
    ran = cli("results", "analyze", str(small), "--definition", "PyRIT")
    if small.suffix == ".db":
        assert (ran.code, "PyRIT reports 75.0% (3 of 4)" in " ".join(ran.out.split())) == (0, True)
    else:  # it makes none of conversations
        assert (ran.code, "holds nothing of which PyRIT makes a figure" in ran.err) == (3, True)


def test_extracted_entries_can_be_run_again(small: Path, cli: Cli) -> None:
    data, journal = small.with_name("data.jsonl"), small.with_name("run.jsonl")
    assert cli("results", "extract", str(small), "--category", "success", "-o", str(data)).code == 0
    ran = cli(
        "run", str(data), "--target", "simulated:assistant", "--judge", 'contains("x")', "--journal", str(journal)
    )
    assert ran.code == 0, ran.err
    assert analysis(journal).tally.total == 3


def test_rejudging_adds_verdicts_to_the_same_entries(small: Path, cli: Cli) -> None:
    again = small.with_name("rejudge_x.jsonl")
    ran = cli("results", "rejudge", str(small), "--judge", 'contains("zzz")', "--rejudged", str(again))
    assert ran.code == 0, ran.err
    assert outcomes(analysis(again)) == {"failure": 4, "error": 1, "guardrail": 1}


def test_a_row_is_shown_at_its_place(small: Path, cli: Cli, tmp_path: Path) -> None:
    first = rows_of(small, cli, tmp_path)[0]
    ran = cli("results", "show", str(first["id"]), str(small))
    assert (ran.code, first["response"] in ran.out, f"{small.name}!" in "".join(ran.out.split())) == (0, True, True)


def test_compressed_files_and_standard_input_are_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = small.with_name("packed.gz")
    packed.write_bytes(gzip.compress(small.read_bytes()))
    assert outcomes(analysis(packed)) == SMALL
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(small.read_bytes())))
    assert outcomes(analysis("-")) == SMALL


def test_runs_are_compared_entry_by_entry(tmp_path: Path, cli: Cli) -> None:
    before = memory(tmp_path / "a.db", [result(n, "success") for n in range(1, 7)])
    after = memory(tmp_path / "b.db", [result(n, "failure" if n < 5 else "success") for n in range(6, 0, -1)])
    ran = cli("results", "compare", str(before), str(after), "--output-format", "json")
    assert ran.code == 0, ran.err
    (pair,) = json.loads(ran.out)["pairs"]
    assert [pair["unpaired"][side]["missing"]["count"] for side in "ab"] == [0, 0]
    assert "4 entries fixed, 0 broken" in " ".join(cli("results", "compare", str(before), str(after)).out.split())


def test_the_sample_is_read_in_every_part() -> None:
    found = analysis(SAMPLE)
    assert outcomes(found) == {"success": 3, "failure": 3, "error": 1, "guardrail": 1, "unjudged": 1}
    assert found.attempts == 10


# -- hostile files ----------------------------------------------------------------------------------------------


def survives(path: Path) -> Analysis | None:
    """Return the analysis of a file that may be damaged: only an error that we raise on purpose may stop it."""
    try:
        return analysis(path, combine=True)
    except FaircountError:
        return None


def test_a_torn_export_gives_what_comes_before(tmp_path: Path) -> None:
    whole = export(tmp_path, *(one for n in range(1, 9) for one in asked(n, score()))).read_bytes()
    path = tmp_path / "torn.json"
    seen = set()
    for end in range(1_000, len(whole) - 2, len(whole) // 15):
        path.write_bytes(whole[:end])
        found = survives(path)
        assert found is not None
        assert "F002" in codes(found)
        seen.add(found.tally.success)
    assert len(seen) > 5


def test_a_torn_memory_never_ends_in_a_traceback(tmp_path: Path) -> None:
    results = [result(n, "success") for n in range(1, 60)]
    whole = memory(tmp_path / "m.db", results, [one for n in range(1, 60) for one in said(n, "none")]).read_bytes()
    path, read = tmp_path / "torn.db", 0
    for end in range(100, len(whole), len(whole) // 30):
        path.write_bytes(whole[:end])
        found = survives(path)
        read += found is not None
        assert found is None or {"F001", "F002"} & codes(found).keys()
    assert read


@pytest.mark.parametrize(
    "change",
    [
        {"role": None},
        {"conversation_id": 7},
        {"sequence": "first"},
        {"sequence": 10**400},
        {"labels": [1, 2]},
        {"labels": {"success": True, "id": 1, "": "x", "a" * 5000: "b" * 5000, "\ud800": "\ud801", "n": {"x": 1}}},
        {"converter_identifiers": {"x": 1}},
        {"converter_identifiers": [None, 7, {"__type__": 9}]},
        {"prompt_target_identifier": "bot"},
        {"orchestrator_identifier": [[]]},
        {"converted_value": None, "original_value": None},
        {"converted_value": "\ud800 \x00 \u202e"},
        {"converted_value": 10**400},
        {"response_error": {"x": 1}},
        {"scores": [None, 7, "x", [], {}]},
        {"scores": [score(None), score([1]), score({"a": 1}), score("1e999"), score("9" * 5000), score(float("nan"))]},
        {"scores": [score("true", category="x" * 5000, scorer_class_identifier=[1])]},
        {"scores": [score("true", category="x", scorer_class_identifier={"class_name": "C", "children": 7})]},
    ],
    ids=lambda change: "+".join(change),
)
@pytest.mark.parametrize("place", [0, 1])
def test_values_of_the_wrong_kind_leave_other_messages_alone(
    change: dict[str, Any], place: int, tmp_path: Path, cli: Cli
) -> None:
    damaged = asked(1, score())
    damaged[place] |= change
    path = export(tmp_path, *damaged, *asked(2, score("False")))
    found = analysis(path, combine=True)
    assert found.tally.failure >= 1
    assert cli("results", "analyze", str(path), "--by", "attack").code == 0
    rows_of(path, cli, tmp_path)


def test_items_that_are_no_messages_are_counted_as_bad(tmp_path: Path) -> None:
    deep = json.loads("[" * 300 + "]" * 300)
    found = analysis(export(tmp_path, *asked(1, score()), 7, None, "x", [], {}, {"labels": deep}))
    assert (outcomes(found), codes(found)["F001"]) == ({"success": 1}, 6)


@pytest.mark.parametrize(
    "cell",
    ["__import__('os').system('false')", "{", "{'a': " * 400, "(" * 3000, "-" * 100_000 + "1", "'\\d'", "{1, 2}",
     "9" * 6000, "1e999", "b'x'", "{(1, 2): 3}", "'\\ud800'", "[]" * 5, "lambda: 1", "1+2j"],
)  # fmt: skip
@pytest.mark.parametrize("column", ["labels", "scores"])
def test_a_cell_that_is_no_literal_spoils_its_line_alone(column: str, cell: str, tmp_path: Path) -> None:
    path = as_table(export(tmp_path, *asked(1, score()), *asked(2, score("False"))))
    rows = list(csv.DictReader(io.StringIO(path.read_text(), newline="")))
    rows[1][column] = cell
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = analysis(path)
    assert found.tally.failure == 1
    assert found.tally.total == 2
    assert {"F001", "F027", "F014"} & codes(found).keys() or column == "labels"


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": None},
        {"outcome": 7},
        {"objective": None},
        {"objective": b"\xff\xfe"},
        {"labels": "{torn"},
        {"labels": "[1]"},
        {"labels": b"\xff"},
        {"atomic_attack_identifier": "[" * 5000},
        {"atomic_attack_identifier": {"class_name": "AtomicAttack", "children": {"attack_technique": 7}}},
        {"atomic_attack_identifier": {"class_name": "A", "children": [1], "n": 10**30}},
        {"pruned_conversation_ids": {"a": 1}, "adversarial_chat_conversation_ids": "7"},
        {"execution_time_ms": "long"},
        {"execution_time_ms": 1e300},
        {"targeted_harm_categories": [1, None, {"x": 2}]},
        {"conversation_id": None, "last_score_id": 4.5},
    ],
    ids=lambda change: "+".join(change),
)
def test_cells_of_the_wrong_kind_leave_other_results_alone(change: dict[str, Any], tmp_path: Path, cli: Cli) -> None:
    path = memory(tmp_path / "m.db", [result(1, "success") | change, result(2, "failure")], said(2, "none"))
    found = analysis(path)
    assert found.tally.failure == 1
    assert found.tally.total + codes(found).get("F001", 0) == 2
    rows_of(path, cli, tmp_path)


def test_a_cell_that_is_no_json_is_noted_once(tmp_path: Path) -> None:
    path = memory(tmp_path / "m.db", [result(1, "success") | {"labels": "{torn"}, result(2, "failure")])
    assert codes(analysis(path, combine=True))["F027"] == 1


def test_a_result_without_an_objective_is_bad(tmp_path: Path) -> None:
    found = analysis(memory(tmp_path / "m.db", [result(1, "success") | {"objective": None}, result(2, "failure")]))
    assert (outcomes(found), codes(found)["F001"]) == ({"failure": 1}, 1)


@pytest.mark.shared
@pytest.mark.parametrize("name", [MEMORY, EXPORT, TABLE])
def test_mutated_files_never_end_in_a_traceback(name: str, tmp_path: Path) -> None:
    whole, chance = (GOLDEN / name).read_bytes(), random.Random(7)
    path, read = tmp_path / name, 0
    for _ in range(12 if name == TABLE else 20):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 5, 50])):
            place, size = chance.randrange(100, len(data)), chance.choice([1, 100, 3000])
            # The pages of a database keep their places, or all of it is lost at once.
            how = 0 if name == MEMORY else chance.randrange(4)
            if how == 0:
                data[place : place + 8] = chance.choice([data[place - 50 : place - 42], chance.randbytes(8), bytes(8)])
            elif how == 1:
                del data[place : place + size]
            elif how == 2:
                data[place:place] = data[place : place + size]
            else:
                data[place : place + 1] = chance.choice(
                    [b'"', b"{", b"]", b"\n", b"\x00", b"NaN", b"1e999", b"\\ud800"]
                )
        path.write_bytes(data)
        read += survives(path) is not None
    assert read > 7


# -- SQLite databases in general --------------------------------------------------------------------------------


def database_of(path: Path, *statements: str) -> str:
    with sqlite3.connect(path) as database:
        for one in statements:
            database.execute(one)
    database.close()
    return str(path)


def test_rows_of_named_columns_come_in_order(tmp_path: Path) -> None:
    path = database_of(
        tmp_path / "a #1?.db",
        'CREATE TABLE "t ""1""" (a, "b c")',
        'INSERT INTO "t ""1""" VALUES (2, \'x\'), (1, \'y\')',
    )
    with open_tables(path) as tables:
        assert tables.tables() == ['t "1"']
        assert tables.columns('t "1"') == ["a", "b c"]
        assert list(tables.rows('t "1"', ["b c", "no such", "a"], order_by="a")) == [("y", None, 1), ("x", None, 2)]
        assert list(tables.rows('t "1"', ["rowid", "a"])) == [(1, 2), (2, 1)]
        assert tables.row('t "1"', ["a"], 2) == (1,)
        assert (tables.row('t "1"', ["a"], 9), list(tables.rows("none", ["a"]))) == (None, [])


def test_views_and_virtual_tables_are_not_read(tmp_path: Path) -> None:
    endless = "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n"
    path = database_of(tmp_path / "v.db", "CREATE TABLE t (a, g AS (zeroblob(1000000000)))", endless)
    with open_tables(path) as tables:
        assert tables.tables() == ["t"]
        assert tables.columns("t") == ["a"]
        assert list(tables.rows("v", ["i"])) == []


def test_a_column_that_hides_row_numbers_is_refused(tmp_path: Path) -> None:
    path = database_of(tmp_path / "r.db", "CREATE TABLE t (RowId TEXT)", "CREATE TABLE w (a PRIMARY KEY) WITHOUT ROWID")
    with open_tables(path) as tables:
        for table in ("t", "w"):
            with pytest.raises(InputError, match="cannot be read"):
                list(tables.rows(table, ["rowid"]))


def test_text_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = database_of(tmp_path / "u.db", "CREATE TABLE t (a)", "INSERT INTO t VALUES (CAST(x'41ff42' AS TEXT))")
    with open_tables(path) as tables:
        assert list(tables.rows("t", ["a"])) == [("A\ufffdB",)]


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 2000])
def test_what_is_no_database_is_an_input_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    if content:
        with pytest.raises(InputError, match="cannot be read"), open_tables(str(path)) as tables:
            tables.tables()
    with pytest.raises(InputError), open_tables(str(tmp_path / "missing.db")):
        pass


def test_damage_that_is_not_utf8_is_an_input_error(tmp_path: Path) -> None:
    path = Path(database_of(tmp_path / "x.db", "CREATE TABLE some_table (a)"))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE some_table (a)", b"CREATE TABLE \xff\xfe(((((((((((("))
    with pytest.raises(InputError, match="cannot be read"), open_tables(str(path)) as tables:
        tables.tables()


def test_a_database_is_never_changed_and_changes_beside_it_are_told(tmp_path: Path) -> None:
    path = memory(tmp_path / "m.db", [result(1, "success")])
    before = path.read_bytes()
    assert "F002" not in codes(analysis(path))
    log = tmp_path / "m.db-wal"
    log.write_bytes(b"changes")
    assert has_unwritten_changes(str(path))
    assert "F002" in codes(analysis(path))
    assert (path.read_bytes(), sorted(one.name for one in tmp_path.iterdir())) == (before, ["m.db", "m.db-wal"])


def test_a_read_only_folder_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    shutil.copy(memory(tmp_path / "m.db", [result(1, "success")]), folder / "m.db")
    folder.chmod(0o555)
    try:
        assert outcomes(analysis(folder / "m.db")) == {"success": 1}
        assert [one.name for one in folder.iterdir()] == ["m.db"]
    finally:
        folder.chmod(0o755)


# -- metrics of scorers -----------------------------------------------------------------------------------------


@pytest.mark.shared
def test_scorers_are_ranked_by_their_metrics_with_intervals_from_the_counts_behind_them(shared: Path, cli: Cli) -> None:
    path = shared / "golden" / "pyrit" / "scorer_objective_achieved_metrics.jsonl"
    ran = cli("judges", "rank", str(path), "--output-format", "json")
    assert ran.code == 0
    stated = sorted((json.loads(line)["metrics"]["f1_score"] for line in path.read_text().splitlines()), reverse=True)
    ranked = [one["estimate"] for one in json.loads(ran.out)["ranking"]]
    assert [one["value"] for one in ranked] == pytest.approx(stated)
    assert all(one["low"] < one["value"] < one["high"] for one in ranked)


@pytest.mark.shared
def test_scorers_of_a_scale_decide_nothing_and_are_refused(shared: Path, cli: Cli) -> None:
    ran = cli("judges", "rank", str(shared / "golden" / "pyrit" / "scorer_violence_metrics.jsonl"))
    assert (ran.code, "no metrics of a scorer that decides true or false" in ran.err) == (3, True)


def test_metrics_of_scorers_are_not_overwritten_by_an_evaluation(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "scorer_metrics.jsonl"
    metrics = {"num_responses": 100, "accuracy": 0.9, "precision": 0.9, "recall": 0.9, "f1_score": 0.9}
    path.write_text(json.dumps({"class_name": "S", "hash": "x", "metrics": metrics}) + "\n")
    before = path.read_bytes()
    (tmp_path / "labels.csv").write_text("response,label\nSorry,1\nSure,0\n")
    ran = cli("judges", "evaluate", "--labels", str(tmp_path / "labels.csv"), "refusal", "-o", str(path))
    assert ran.code in (2, 3)
    assert path.read_bytes() == before
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(before + b'{"class_name": 1}\n')
    ran = cli("judges", "rank", str(damaged))
    assert (ran.code, f"{damaged}:2" in ran.err) == (3, True)
