"""The journal of a run over a dataset is read as attacks: a row for the standard attempts, one for the attack."""

from __future__ import annotations

import csv
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from faircount.analysis import AnalyzeOptions, fold_files
from faircount.core import UsageError
from faircount.ledger import LedgerView, tallies
from faircount.readers import KNOWN_FIELDS, NOT_OF_ENTRIES, RUN_MARK, Input, Loader, ReadOptions, RetryRecord
from faircount.runs import Journal, read_journal
from faircount.stats import success_within_counts
from tests.conftest import Cli, Write, analysis_of, codes, standard
from tests.readers.test_reading_runs import rows
from tests.runs import run_files
from tests.runs.attack_journals import (
    ATTACK,
    Counted,
    attacked,
    call,
    counted,
    done,
    entry,
    header,
    random_journal,
    retry,
    tried,
)


def outcomes(path: str) -> Counter[str]:
    tally = analysis_of(path).tally
    words = ("success", "failure", "error", "guardrail", "unjudged")
    return Counter({word: getattr(tally, word) for word in words if getattr(tally, word)})


# -- rows -------------------------------------------------------------------------------------------------------


def test_an_entry_has_a_row_for_its_standard_attempts_and_one_for_its_attack(write: Write) -> None:
    path = write(
        [
            header(),
            entry("1", plugin="base64", topic="money"),
            entry("two"),
            call("1", 0),
            tried("1", 0, "f"),
            tried("two", 0, "s"),
            attacked("1", 1, "f", 0),
            attacked("1", 2, "s", 1),
            done("two", "success"),
            done("1", "success"),
        ]
    )
    found = rows(path)
    assert {name: row["line"] for name, row in found.items()} == {"1": 5, "two": 6, "1-attack": 8}
    assert found["1"]["id"] == 1
    first, attack = found["1"], found["1-attack"]
    assert (first["success"], first["attack_name"], first["attempts"]) == (False, "None", 1)
    assert (attack["success"], attack["attack_name"], attack["attempts"]) == (True, ATTACK, 2)
    assert (first["long_id"], attack["long_id"]) == ("long-1", f"long-1-{ATTACK}")
    assert (first["input"], attack["input"], attack["objective"]) == ("prompt 1", "variant 2 of 1", "prompt 1")
    assert (first["response"], attack["response"]) == ("answer 0 of 1", "answer 2 of 1")
    assert (first["response_time"], attack["response_time"]) == (0.5, 2.5)
    assert (first["judge_name"], first["judge_args"], first["target"]) == ("canary.Canary", "CANARY", "model-1")
    assert all(row["plugin"] == "base64" and row["topic"] == "money" for row in (first, attack))
    assert [(item["attempt"], item["iteration"], item["success"]) for item in attack["attempt_history"]] == [
        (1, 0, False),
        (2, 1, True),
    ]
    assert attack["attempt_history"][0]["input"] == "variant 1 of 1"
    assert "conversation" not in first


def test_the_results_are_those_of_attacks(write: Write) -> None:
    path = write([header(), entry("1"), tried("1", 0, "f"), attacked("1", 1, "s"), entry("2"), tried("2", 0, "f")])
    found = analysis_of(path)
    (source,) = found.sources
    assert (found.aim, source.aim, source.tool, source.reader) == ("attack", "attack", "faircount", "run journal")
    assert found.retries is None
    assert found.metrics == ()
    assert found.dynamic is not None
    (figures,) = found.dynamic.attacks
    assert (figures.attack, figures.total, figures.successes, figures.attempts) == (ATTACK, 1, 1, 1)


def test_attacks_and_tests_are_not_counted_together(write: Write) -> None:
    attacks = write([header(), entry("1"), tried("1", 0, "f")], "attacks.jsonl")
    tests = write([run_files.HEADER, run_files.case("a"), run_files.attempt("a")], "tests.jsonl")
    with pytest.raises(UsageError, match="attacks"):
        analysis_of(attacks, tests, combine=True)


def test_the_journal_of_a_run_and_a_file_of_spikee_are_counted_together(write: Write) -> None:
    journal = write([header(), entry("1"), tried("1", 0, "s")], "run.jsonl")
    found = analysis_of(journal, write([standard(7)], "results_a.jsonl"), combine=True)
    assert (found.tally.total, found.tally.success) == (2, 1)


@pytest.mark.parametrize(
    ("letters", "outcome", "success", "error", "guardrail"),
    [
        ("s", "success", True, None, None),
        ("fs", "success", True, None, None),
        ("es", "success", True, None, None),
        ("f", "failure", False, None, None),
        ("ef", "failure", False, None, None),
        ("bfe", "failure", False, None, None),
        ("uf", "failure", False, None, None),
        ("u", "unjudged", None, None, None),
        ("eu", "error", None, None, None),
        ("bu", "guardrail", None, None, None),
        ("ee", "error", False, "status: HTTP 503", None),
        ("be", "error", False, "status: HTTP 503", None),
        ("eb", "error", False, "status: HTTP 503", None),
        ("bb", "guardrail", False, "blocked: policy of 1", True),
        ("t", "success", True, None, None),
        ("n", "failure", False, None, None),
    ],
)
@pytest.mark.parametrize("attack", [False, True])
def test_what_the_attempts_come_to(
    write: Write,
    letters: str,
    outcome: str,
    success: bool | None,
    error: str | None,
    guardrail: bool | None,
    attack: bool,
) -> None:
    make = attacked if attack else tried
    records = [make("1", number, letter, iteration=number) for number, letter in enumerate(letters)]
    path = write([header(), entry("1"), *records])
    (row,) = rows(path).values()
    assert (row["success"], row["error"], row.get("guardrail")) == (success, error, guardrail)
    assert row["attempts"] == len(letters)
    assert outcomes(path) == {outcome: 1}


def test_an_entry_that_the_run_has_not_come_to_is_in_no_figure_and_told(write: Write) -> None:
    path = write([header(), entry("1"), entry("2"), call("2", 0), tried("1", 0, "f")])
    assert outcomes(path) == {"failure": 1}
    (finding,) = (one for one in analysis_of(path).findings if one.code == "F034")
    assert (finding.count, finding.where) == (1, (f"{path}:3",))


@pytest.mark.parametrize("rule", [None, 7, [], {"a": 1}, "", "\x1b[31masr\ud800" + 1_000 * "x"])
def test_whatever_stands_for_a_stop_rule_is_read(write: Write, rule: object) -> None:
    told = {**header(), "settings": {**header().get("settings", {}), "stop_when": rule}}
    ended = {"kind": "end", "complete": False, "why": "", "decided": True}
    found = analysis_of(write([told, entry("1"), entry("2"), tried("1", 0, "f"), ended]))
    (finding,) = (one for one in found.findings if one.code == "F034")
    known = isinstance(rule, str) and bool(rule)
    assert found.rates.asr.method == ("confidence sequence" if known else "wilson")
    assert ("--stop-when" in finding.message) == known
    assert len(finding.message) < 300 and "\x1b" not in finding.message


def test_an_entry_that_is_done_without_an_attempt_is_not_judged_and_stands_where_it_is_told(write: Write) -> None:
    path = write([header(), entry("1"), {"kind": "done", "case": "1", "outcome": "unjudged"}])
    assert outcomes(path) == {"unjudged": 1}
    assert (rows(path)["1"]["line"], rows(path)["1"]["attempts"]) == (2, 0)


def test_the_answer_of_a_guardrail_says_whether_the_prompt_got_through(write: Write) -> None:
    path = write([header(), entry("1"), entry("2"), tried("1", 0, "t"), tried("2", 0, "n")])
    assert [(row["response"], row["success"]) for row in rows(path).values()] == [("True", True), ("False", False)]


def test_what_a_guardrail_named_is_counted_even_where_an_answer_came_later(write: Write) -> None:
    path = write([header(), entry("1"), tried("1", 0, "b"), tried("1", 1, "f"), entry("2"), tried("2", 1, "b")])
    assert rows(path)["2"]["guardrail_categories"] == {"category-1": True}
    assert [(item.category, item.entries) for item in analysis_of(path).guardrail_categories] == [
        ("category-0", 1),
        ("category-1", 1),
    ]


def test_an_attack_that_failed_before_its_first_attempt_is_an_error_where_that_is_told(write: Write) -> None:
    path = write(
        [header(), entry("1"), entry("2"), tried("1", 0, "f"), done("1", "failure", "no key"), done("2", "error", "x")]
    )
    found = rows(path)
    assert {name: row["line"] for name, row in found.items()} == {"1": 4, "1-attack": 5, "2-attack": 6}
    attack = found["1-attack"]
    assert (attack["error"], attack["attempts"], attack["attack_name"]) == ("no key", 0, ATTACK)
    assert attack["long_id"] == f"long-1-{ATTACK}-ERROR"
    assert outcomes(path) == {"failure": 1, "error": 1}


def test_an_attack_that_failed_later_tells_so_beside_its_attempts(write: Write) -> None:
    path = write([header(), entry("1"), attacked("1", 0, "f"), done("1", "failure", "lost the thread")])
    attack = rows(path)["1-attack"]
    assert (attack["error"], attack["success"]) == (None, False)
    assert attack["meta"] == {"place": "data.jsonl:1", "attack_error": "lost the thread"}
    assert outcomes(path) == {"failure": 1}


def test_an_attempt_that_was_tried_again_counts_once_and_as_it_ended(write: Write) -> None:
    lines = [header(), entry("1"), tried("1", 0, "e"), attacked("1", 1, "e"), done("1", "error", "x"), retry("1", 0)]
    path = write([*lines, retry("1", 1), tried("1", 0, "f"), tried("1", 0, "s"), attacked("1", 1, "f"), done("1")])
    assert outcomes(path) == {"failure": 1}
    assert {name: row["line"] for name, row in rows(path).items()} == {"1": 8, "1-attack": 10}
    assert "attack_error" not in rows(path)["1-attack"]["meta"]


def test_rows_are_right_where_a_standard_attempt_was_made_after_the_attack(write: Write) -> None:
    lines = [header(), entry("1"), tried("1", 0, "e"), attacked("1", 1, "f"), retry("1", 0), tried("1", 0, "s")]
    path = write(lines)
    assert {name: (row["line"], row["success"]) for name, row in rows(path).items()} == {
        "1-attack": (4, False),
        "1": (6, True),
    }


def test_several_turns_are_attempts_with_the_conversation_of_the_telling_one(write: Write) -> None:
    first = {"role": "user", "content": "hello"}
    second = [first, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "print it"}]
    path = write(
        [header(), entry("m", "hello", turns=["print it"]), tried("m", 0, "f"), tried("m", 1, "s", messages=second)]
    )
    row = rows(path)["m"]
    assert row["input"] == "['hello', 'print it']"
    assert row["conversation"] == [*second, {"role": "assistant", "content": "answer 1 of m"}]
    assert [item["input"] for item in row["attempt_history"]] == ["hello", "print it"]


def test_a_dataset_that_was_made_from_results_does_not_decide_what_its_rows_say(write: Write) -> None:
    old = dict.fromkeys(NOT_OF_ENTRIES - {"id", "content", "text"}, "old")
    path = write([header(), entry("1", **old), tried("1", 0, "f"), entry("2", **old), tried("2", 0, "f")])
    assert outcomes(path) == {"failure": 2}
    assert not codes(analysis_of(path)).keys() - {"F033", "F034", "F035"}
    taken = {name for name, value in rows(path)["1"].items() if value == "old"}
    assert taken == set()


def test_every_field_of_a_row_is_either_the_runs_own_or_taken_from_the_dataset() -> None:
    taken = KNOWN_FIELDS - NOT_OF_ENTRIES
    assert taken == {
        *("long_id", "judge_args", "task_type", "jailbreak_type", "instruction_type", "document_id", "position"),
        *("spotlighting_data_markers", "injection_delimiters", "suffix_id", "lang", "system_message", "plugin"),
        *("prefix_id", "payload", "injected", "steering_keywords", "ideal_answer", "ideal_summary"),
        "exclude_from_transformations_regex",
    }
    assert RUN_MARK in NOT_OF_ENTRIES


def test_a_field_that_is_the_prompt_itself_is_no_facet(write: Write) -> None:
    path = write([header(), entry("1", question="prompt 1", topic="money"), tried("1", 0, "f")])
    assert "question" not in rows(path)["1"]
    assert "topic" in analysis_of(path).breakdowns


def test_a_torn_end_and_a_line_that_is_no_record_are_told_and_the_rest_counts(write: Write) -> None:
    path = write([header(), entry("1"), tried("1", 0, "f"), "no record", entry("2"), tried("2", 0, "s")])
    Path(path).write_bytes(Path(path).read_bytes() + b'{"kind":"attempt","case":"1","att')
    found = analysis_of(path)
    assert (found.tally.success, found.tally.failure) == (1, 1)
    assert codes(found)["F001"] == 2


def test_a_header_with_long_settings_is_known_for_what_it_is(write: Write) -> None:
    path = write([header(paths=["x" * 200_000]), entry("1"), tried("1", 0, "s")])
    assert analysis_of(path).aim == "attack"


def test_a_record_that_an_entry_is_done_needs_its_entry(write: Write) -> None:
    path = write([header(), done("1"), entry("2"), tried("2", 0, "f")])
    assert codes(analysis_of(path))["F001"] == 1


# -- figures ----------------------------------------------------------------------------------------------------


def figures(path: str) -> Counted:
    """Return what the analysis says, in the form in which journals are counted by hand."""
    found = analysis_of(path)
    words = ("success", "failure", "error", "guardrail", "unjudged")
    told = Counted(
        outcomes=Counter({word: getattr(found.tally, word) for word in words}),
        requests=found.attempts,
        categories=Counter({item.category: item.entries for item in found.guardrail_categories}),
        to_success=Counter({item.attempts: item.entries for item in found.attempts_to_success}),
        by_jailbreak={
            group.value: Counter({word: getattr(group.tally, word) for word in words})
            for group in found.breakdowns["jailbreak_type"]
        },
    )
    options = AnalyzeOptions()
    loader = Loader([path], ReadOptions(options.max_line, False, None), lambda _: None, None, alone=True)
    with loader, fold_files([Input(path)], options, loader) as folded:
        counts = tallies.overall(folded.ledger)
        told.initial, told.attack_only = counts.initial, counts.attack_only
        told.blocked_entries = counts.guardrail_any
        told.given_up = given_up(folded.ledger)
        answered = tallies.attempts_to_success(folded.ledger, answered=True)
        told.answered_to_success = Counter({item.attempts: item.entries for item in answered})
    for attack in () if found.dynamic is None else found.dynamic.attacks:
        told.attacked, told.won_by_attack, told.attack_requests = attack.total, attack.successes, attack.attempts
        told.attack_blocks, told.attack_blocked_entries = attack.guardrail or 0, attack.guardrail_entries or 0
    return told


def given_up(ledger: LedgerView) -> Counter[tuple[int, bool]]:
    return Counter({(item.requests, item.errored): item.entries for item in tallies.attempts_given_up(ledger)})


@pytest.mark.parametrize("seed", range(25))
def test_every_figure_is_the_one_that_a_loop_over_the_records_counts(write: Write, seed: int) -> None:
    records = random_journal(seed, boolean=seed % 5 == 4)
    path = write(records)
    if seed % 2:
        Path(path).write_bytes(Path(path).read_bytes() + b'{"kind": "attempt", "case"')
    expected = counted(records)
    assert figures(path) == expected
    within = analysis_of(path).success_within
    if within is not None and not within.refused:
        known = [(k, True, n) for k, n in expected.answered_to_success.items()]
        known += [(k, False, n) for (k, _), n in expected.given_up.items()]
        curve = success_within_counts(known, level=0.95)
        assert [(s.k, s.at_risk, s.successes) for s in curve.steps] == [
            (s.attempts, s.at_risk, s.successes) for s in within.steps
        ]


def test_random_journals_hold_every_kind_of_thing() -> None:
    whole = Counted()
    for seed in range(25):
        found = counted(random_journal(seed, boolean=seed % 5 == 4))
        whole.outcomes += found.outcomes
        whole.attack_only += found.attack_only
        whole.attack_blocks += found.attack_blocks
    assert all(whole.outcomes[word] > 10 for word in ("success", "failure", "error", "guardrail", "unjudged"))
    assert whole.attack_only > 10
    assert whole.attack_blocks > 10


def test_a_journal_is_the_same_packed_and_over_a_pipe(write: Write, tmp_path: Path) -> None:
    import gzip

    path = write(random_journal(3))
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    assert analysis_of(str(packed)).tally == analysis_of(path).tally


# -- other commands ---------------------------------------------------------------------------------------------


@pytest.fixture
def journal(write: Write) -> str:
    return write(
        [
            header(),
            *(entry(str(number), topic="money") for number in range(1, 5)),
            tried("1", 0, "s", output={"output": "the CANARY sings", "execution_time": 1.0}),
            tried("2", 0, "f"),
            attacked("2", 1, "e"),
            attacked("2", 2, "s", output={"output": "CANARY again", "execution_time": 1.0}),
            tried("3", 0, "b"),
            tried("4", 0, "f"),
            *(done(str(number)) for number in range(1, 5)),
        ],
        "run.jsonl",
    )


def test_an_extract_of_a_run_holds_its_rows(journal: str, cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "extract.jsonl"
    ran = cli("results", "extract", journal, "--where", "success = true", "-o", str(output))
    assert ran.code == 0, ran.err
    found = analysis_of(str(output))
    assert (found.tally.success, found.tally.total, found.aim) == (2, 2, "attack")


def test_a_run_is_judged_again_as_attacks_are(journal: str, cli: Cli) -> None:
    ran = cli("results", "rejudge", journal, "--judge", 'contains(text="again")')
    assert ran.code == 0, ran.err
    (output,) = Path(journal).parent.glob("rejudge_*.jsonl")
    found = analysis_of(str(output))
    assert found.aim == "attack"
    assert (found.tally.success, found.tally.failure, found.tally.guardrail) == (1, 2, 1)
    both = analysis_of(journal, str(output), combine=True)
    assert both.tally.total == 4


def test_the_rows_of_a_run_name_a_judge_that_can_judge_them_again(journal: str, cli: Cli) -> None:
    ran = cli("results", "rejudge", journal, "--output-format", "json")
    assert ran.code == 0, ran.err
    (file,) = json.loads(ran.out)["files"]
    assert analysis_of(file["path"]).tally == analysis_of(journal).tally


def test_an_entry_of_a_run_can_be_shown_with_its_attack(journal: str, cli: Cli) -> None:
    ran = cli("results", "show", "2", journal, "--output-format", "json")
    assert ran.code == 0, ran.err
    for text in ("variant 2 of 2", "CANARY again", "status: HTTP 503", "because s"):
        assert text in ran.out


def test_a_run_is_exported_with_the_fields_of_its_dataset(journal: str, cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "table.csv"
    ran = cli("results", "export", journal, "--to", "csv", "--columns", "id,outcome,topic", "-o", str(output))
    assert ran.code == 0, ran.err
    table = list(csv.reader(output.read_text().splitlines()))
    assert table[1:] == [
        ["1", "success", "money"],
        ["2", "success", "money"],
        ["2-attack", "success", "money"],
        ["3", "guardrail", "money"],
        ["4", "failure", "money"],
    ]


# -- the state --------------------------------------------------------------------------------------------------


def test_an_entry_is_finished_until_one_of_its_attempts_is_made_void(tmp_path: Path) -> None:
    path = str(tmp_path / "run.jsonl")
    attempts = (tried("1", 0, "e"), attacked("1", 1, "e"), done("1", "error", "why"))
    Path(path).write_text("".join(json.dumps(one) + "\n" for one in (header(), entry("1"), entry("2"), *attempts)))
    state = read_journal(path).state()
    assert (state.header.aim, state.is_finished("1"), state.is_finished("2")) == ("attack", True, False)
    assert state.attack_failures["1"].error == "why"
    assert state.last_records(attack=False).keys() == state.last_records(attack=True).keys() == {"1"}
    assert state.last_records(attack=True) == state.last_records()
    opened, _ = Journal.reopen(path)
    with opened:
        opened.append_now(RetryRecord("1", 0))
    state = read_journal(path).state()
    assert not state.is_finished("1")
    assert not state.attack_failures


def test_a_hundred_thousand_attempts_are_taken_in_at_once(tmp_path: Path) -> None:
    lots = random.Random(1)
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        for record in (header(), *(entry(str(number)) for number in range(10_000))):
            file.write(json.dumps(record) + "\n")
        for number in range(10):
            for name in range(10_000):
                file.write(json.dumps(tried(str(name), number, lots.choice("fe"))) + "\n")
    began = time.process_time()
    state = read_journal(str(path)).state()
    took = time.process_time() - began
    assert state.done == 100_000
    assert took < 5, f"{took:.1f} s"
