"""Coverage by public catalogues: entries get identifiers from a data file, and what was never tested is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faircount.analysis.taxonomy import catalogue, identifiers, taxonomy
from tests.conftest import Cli, Write, analysis_of, standard


def test_every_identifier_of_the_data_file_is_in_a_catalogue() -> None:
    known = {*catalogue("owasp").names, *catalogue("atlas").names}
    for field, meanings in taxonomy().fields.items():
        for value, meant in meanings.items():
            assert meant, (field, value)
            assert set(meant) <= known, (field, value)
    assert list(catalogue("owasp").names) == [f"LLM{number:02}" for number in range(1, 11)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"owasp": "llm02, llm06"}, ["LLM02", "LLM05"]),
        ({"owasp": "llm99"}, []),
        ({"plugin": "pii:direct"}, ["LLM02"]),
        ({"plugin": "harmful:hate"}, ["LLM01"]),
        ({"plugin": "harmful:privacy"}, ["LLM02"]),
        ({"plugin": "contracts", "attack_strategy": "jailbreak:composite"}, ["LLM01", "LLM06"]),
        ({"plugin": "unheard-of"}, []),
        ({"instruction_type": "xss", "jailbreak_type": "anything"}, ["LLM01", "LLM05"]),
        ({"instruction_type": None, "jailbreak_type": ""}, []),
    ],
)
def test_values_of_fields_have_identifiers(values: dict[str, str | None], expected: list[str]) -> None:
    assert identifiers("owasp", values) == expected


def test_every_value_of_a_field_has_one_where_the_data_file_says_any() -> None:
    assert "*" in taxonomy().fields["jailbreak_type"]
    assert identifiers("atlas", {"jailbreak_type": "new"}) == ["AML.T0054"]


@pytest.fixture
def results(write: Write) -> str:
    rows = [
        standard(1, success=True, jailbreak_type="dan", instruction_type="xss"),
        standard(2, success=False, jailbreak_type="dan", instruction_type="xss"),
        standard(3, success=True, jailbreak_type=None, instruction_type="long-output"),
        standard(4, success=False, jailbreak_type=None, instruction_type=None),
    ]
    return write(rows)


def test_coverage_counts_entries_under_each_of_their_identifiers_and_lists_what_was_not_tested(results: str) -> None:
    analysis = analysis_of(results, by=("owasp",))
    found = {one.id: (one.entries, one.successes) for one in analysis.coverage}
    assert found == dict.fromkeys(catalogue("owasp").names, (0, 0)) | {
        "LLM01": (2, 1),
        "LLM05": (2, 1),
        "LLM10": (1, 1),
    }
    groups = {group.value: group.tally.total for group in analysis.breakdowns["owasp"]}
    assert groups == {"LLM01, LLM05": 2, "LLM10": 1, None: 1}


def test_nothing_is_said_of_coverage_unless_it_is_asked_for(results: str) -> None:
    assert analysis_of(results).coverage == ()


def test_both_catalogues_can_be_asked_for_at_once(results: str, cli: Cli) -> None:
    ran = cli("results", "analyze", results, "--by", "owasp", "--by", "atlas")
    assert ran.code == 0
    assert "Coverage: 3 of 10 of OWASP Top 10 for LLM Applications (2025)" in ran.out
    assert "of MITRE ATLAS" in ran.out
    assert "System Prompt Leakage" in ran.out
    assert "never tested" in ran.out


def test_files_without_any_field_of_the_data_file_tested_nothing(write: Write) -> None:
    path = write([{"id": 1, "success": True, "response": "x", "input": "y"}])
    analysis = analysis_of(path, by=("owasp",))
    assert not any(one.entries for one in analysis.coverage)


def test_several_files_have_their_coverage_each(results: str, tmp_path: Path, cli: Cli) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(Path(results).read_text().replace("xss", "system-prompt"))
    ran = cli("results", "analyze", results, str(other), "--by", "owasp", "--output-format", "json")
    first, second = json.loads(ran.out)["analyses"] if "analyses" in json.loads(ran.out) else json.loads(ran.out)
    tested = [{one["id"] for one in a["coverage"] if one["entries"]} for a in (first, second)]
    assert tested == [{"LLM01", "LLM05", "LLM10"}, {"LLM01", "LLM07", "LLM10"}]
