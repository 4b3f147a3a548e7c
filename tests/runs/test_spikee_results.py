"""A run over a dataset in spikee's own format: spikee and Faircount count the same in the file and in the journal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from faircount import Analysis
from faircount.compat import spikee_rows
from faircount.core import Group, InputError
from tests.analysis.spikee_output import NINE_FIELDS, Printed, Row, read_console
from tests.analysis.test_golden_spikee import SPIKEE, as_printed, breakdowns_like, needs_spikee, only
from tests.conftest import Write, analysis_of
from tests.runs import run_files
from tests.runs.attack_journals import (
    ATTACK,
    Record,
    attacked,
    call,
    done,
    entry,
    header,
    random_journal,
    retry,
    states_of,
    tried,
)

STANDARD_FIELDS = [
    *("id", "long_id", "success", "input", "input_type", "response", "response_type", "response_time"),
    *("judge_name", "judge_args", "judge_options", "attempts", "task_type", "jailbreak_type", "instruction_type"),
    *("document_id", "position", "spotlighting_data_markers", "injection_delimiters", "suffix_id", "lang"),
    *("system_message", "plugin", "attack_name", "error"),
]
"""What spikee 0.9.2 writes of a standard attempt, in its order."""
ATTACK_FIELDS = [
    *("id", "long_id", "success", "input", "input_type", "response", "response_type", "response_time"),
    *("attempts", "lang", "error", "attack_name", "attack_options", "judge_name", "judge_args", "judge_options"),
    *("task_type", "jailbreak_type", "instruction_type", "document_id", "position", "spotlighting_data_markers"),
    *("injection_delimiters", "suffix_id", "system_message", "plugin", "objective", "attempt_history"),
]
"""What spikee 0.9.2 writes of a dynamic attack, in its order."""


@pytest.fixture
def written(write: Write, tmp_path: Path) -> Any:
    """Write a journal and its results in spikee's format, and return the paths of both."""

    def write_both(records: list[Record]) -> tuple[str, str]:
        journal = write(records, "run.jsonl")
        results = tmp_path / "results_x.jsonl"
        results.write_bytes(b"".join(spikee_rows(journal)))
        return journal, str(results)

    return write_both


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


# -- rows -------------------------------------------------------------------------------------------------------


def test_the_fields_are_those_of_spikee_in_its_order(written: Any) -> None:
    records = [header(), entry("1"), tried("1", 0, "f"), attacked("1", 1, "f"), attacked("1", 2, "s"), done("1")]
    _, results = written(records)
    standard, attack = rows(results)
    assert list(standard) == STANDARD_FIELDS
    assert list(attack) == ATTACK_FIELDS
    assert (standard["id"], attack["id"]) == (1, "1-attack")
    assert attack["long_id"] == f"long-1-{ATTACK}"
    assert attack["attack_options"] == "seed=7"
    assert (standard["judge_name"], standard["judge_args"]) == ("canary", "CANARY")
    assert list(attack["attempt_history"][0]) == [
        *("input", "response", "success", "error", "input_type", "response_type", "invocation"),
    ]


def test_rows_stand_in_the_order_in_which_entries_were_finished_each_attack_behind_its_entry(written: Any) -> None:
    records = [header(), entry("1"), entry("2"), tried("2", 0, "f"), tried("1", 0, "f"), attacked("1", 1, "f")]
    _, results = written([*records, attacked("2", 1, "f"), entry("3"), attacked("3", 1, "f"), tried("3", 0, "f")])
    assert [row["id"] for row in rows(results)] == [1, "1-attack", 2, "2-attack", 3, "3-attack"]


def test_a_block_is_flagged_as_spikee_flags_it(written: Any) -> None:
    _, results = written([header(), entry("1"), tried("1", 0, "b"), attacked("1", 1, "b")])
    standard, attack = rows(results)
    for row in (standard, attack):
        assert (row["success"], row["response"], row["error"]) == (False, "", "blocked: policy of 1")
        assert row["guardrail"] is True
    assert standard["guardrail_categories"] == {"category-0": True}
    assert list(standard) == [*STANDARD_FIELDS, "guardrail", "guardrail_categories"]


def test_an_entry_on_which_an_attack_had_nothing_to_try_is_written_without_a_verdict(written: Any) -> None:
    _, results = written([header(), entry("1"), done("1", "unjudged")])
    assert [(row["id"], row["success"], row["attempts"]) for row in rows(results)] == [(1, None, 0)]


def test_what_is_void_or_was_never_tried_is_not_written(written: Any) -> None:
    records = [header(), entry("1"), entry("2"), entry("3"), tried("1", 0, "e"), retry("1", 0), tried("1", 0, "s")]
    _, results = written([*records, call("2", 0)])
    assert [(row["id"], row["success"], row["attempts"]) for row in rows(results)] == [(1, True, 1)]


def test_an_attack_that_failed_by_itself_is_an_error_as_in_spikee(written: Any) -> None:
    records = [header(), entry("1"), tried("1", 0, "f"), done("1", "failure", "it broke"), entry("2")]
    _, results = written([*records, attacked("2", 0, "f"), done("2", "failure", "it broke later")])
    _, failed, later = rows(results)
    assert (failed["error"], failed["attempts"], failed["long_id"]) == ("it broke", 0, f"long-1-{ATTACK}-ERROR")
    assert (later["error"], later["meta"]) == (None, {"attack_error": "it broke later"})


def test_a_judge_that_the_dataset_did_not_name_is_named_as_it_is(written: Any) -> None:
    other = {**entry("1"), "metrics": [{"name": 'contains(text="x")', "type": "strings.Contains"}]}
    _, results = written([header(), other, tried("1", 0, "f")])
    assert rows(results)[0]["judge_name"] == 'contains(text="x")'


def test_half_characters_and_values_with_parts_are_written_so_that_spikee_can_read_them(written: Any) -> None:
    _, results = written([header(), entry("1", "\ud800 half", plugin=["a", "b"]), tried("1", 0, "f")])
    (row,) = rows(results)
    assert row["input"] == "\ud800 half"
    assert row["plugin"] == '["a", "b"]'


def test_a_torn_end_is_passed_over(write: Write) -> None:
    path = write([header(), entry("1"), tried("1", 0, "s")])
    Path(path).write_bytes(Path(path).read_bytes() + b'{"kind":"attempt","ca')
    assert len(list(spikee_rows(path))) == 1


def test_a_run_of_tests_is_refused(write: Write) -> None:
    path = write([run_files.HEADER, run_files.case("a"), run_files.attempt("a")])
    with pytest.raises(InputError, match="is the journal of a run of tests"):
        spikee_rows(path)


def test_what_cannot_be_understood_is_told_with_its_place(write: Write) -> None:
    path = write([header(), {**entry("1"), "metrics": "no list"}, tried("1", 0, "f")])
    with pytest.raises(InputError, match=":3: cannot understand the entry: metrics is not a list"):
        list(spikee_rows(path))


# -- figures ----------------------------------------------------------------------------------------------------


def unadjusted(group: Group) -> Group:
    test = group.against_rest
    return structs.replace(group, against_rest=None if test is None else (test.difference, test.p))


def comparable(found: Analysis) -> dict[str, Any]:
    """Return everything that an analysis says of entries, whatever file it was read from."""
    told = structs.asdict(found)
    for name in ("name", "sources", "findings", "errors", "slices"):
        del told[name]
    # Groups with the same rate stand in the order of the lines.
    shared = {name: found.breakdowns[name] for name in (*NINE_FIELDS, "attack_name")}
    # The journal knows more fields, and all groups of a report are adjusted together.
    told["breakdowns"] = {name: {group.value: unadjusted(group) for group in groups} for name, groups in shared.items()}
    ranked = found.combinations
    told["combinations"] = [
        {tuple(group.values.items()): group for group in groups} for groups in (ranked.most, ranked.least)
    ]
    kinds = {(kind.kind, kind.rows, kind.entries, kind.example) for kind in found.errors}
    return told | {"error_kinds": kinds, "latency": found.latency, "findings": codes_that_count(found)}


def codes_that_count(found: Analysis) -> dict[str, int]:
    """Return the findings about entries: those about a run and about the versions of spikee aside."""
    return {one.code: one.count for one in found.findings if one.code in ("F014", "F015", "F020", "F005", "F006")}


@pytest.mark.parametrize("definition", ["faircount", "spikee"])
@pytest.mark.parametrize("seed", range(8))
def test_the_journal_and_the_file_come_to_the_same(written: Any, seed: int, definition: str) -> None:
    journal, results = written(random_journal(seed + 100, unfinished=False, boolean=seed % 4 == 3))
    ours, theirs = (comparable(analysis_of(path, definition=definition)) for path in (journal, results))
    assert ours == theirs


@pytest.mark.parametrize("seed", range(4))
def test_of_a_run_that_was_stopped_the_entries_are_missing_that_were_not_tried(written: Any, seed: int) -> None:
    records = random_journal(seed + 200)
    begun = {name for name, attempts in states_of(records).items() if attempts}
    begun |= {record["case"] for record in records if record["kind"] == "done"}
    _, results = written(records)
    shorter = analysis_of(results).tally
    journal, _ = written([record for record in records if record["kind"] == "run" or record["case"] in begun])
    assert analysis_of(journal).tally == shorter
    assert shorter.total == len(begun) < sum(record["kind"] == "case" for record in records)


def shown_alike(ours: Printed, theirs: Printed) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return both reports with the figures that spikee shows."""
    assert ours.breakdowns is not None
    assert theirs.breakdowns is not None
    attacks: dict[str, Row] = {name: only(row, theirs.attacks.get(name, row)) for name, row in ours.attacks.items()}
    found = {
        "general": only(ours.general, theirs.general),
        "attacks": attacks,
        "breakdowns": breakdowns_like(ours.breakdowns, theirs.breakdowns),
        "categories": ours.categories,
    }
    shown = {
        "general": theirs.general,
        "attacks": theirs.attacks,
        "breakdowns": theirs.breakdowns,
        "categories": theirs.categories,
    }
    return found, shown


@pytest.mark.peer
@needs_spikee
def test_spikee_counts_in_the_file_what_faircount_counts_in_the_journal(write: Write, tmp_path: Path) -> None:
    journals, results = [], []
    for seed in range(5):
        records = random_journal(seed + 300, unfinished=False, boolean=seed % 4 == 3)
        journals.append(write(records, f"run_{seed}.jsonl"))
        results.append(tmp_path / f"results_{seed}.jsonl")
        results[-1].write_bytes(b"".join(spikee_rows(journals[-1])))
    command = [str(SPIKEE), "-q", "results", "analyze", *(f"--result-file={path}" for path in results)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    reports = read_console(ran.stdout)
    for journal, file, report in zip(journals, results, reports, strict=True):
        for path in (journal, str(file)):
            ours, theirs = shown_alike(as_printed(analysis_of(path, definition="spikee")), report)
            assert ours == theirs
        # By Faircount's own definition only errors, blocks and what nobody judged are told apart.
        own = analysis_of(journal)
        assert (own.tally.total, own.tally.success) == (report.general["total"], report.general["success"])
    assert sum(int(report.general["guardrail"]) for report in reports) > 0
    assert any(report.attacks[ATTACK]["guardrail"] for report in reports if report.attacks)
