"""Gates for other programs: XML that parses, SARIF of the right shape, fingerprints that stay, and nothing hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from faircount.analysis import Gate, judge, parse, subjects_of
from faircount.core import Analysis
from faircount.report import documents
from tests.analysis.gate_results import analysis_with, cells, comparison_with
from tests.conftest import Write, analysis_of, standard
from tests.report.test_present import HOSTILE, harmless

# The parts of the standard (OASIS, 2020) that are used here, written from its text: what must be there, and how.
TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RESULT = {
    "type": "object",
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "properties": {
                            "artifactLocation": {
                                "type": "object",
                                "properties": {"uri": {"type": "string", "pattern": r"^[A-Za-z0-9\-._~/%:]+$"}},
                                "required": ["uri"],
                                "additionalProperties": False,
                            },
                            "region": {
                                "type": "object",
                                "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                "additionalProperties": False,
                            },
                        },
                        "required": ["artifactLocation"],
                        "additionalProperties": False,
                    }
                },
                "additionalProperties": False,
            },
        },
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    },
    "required": ["ruleId", "message", "locations", "partialFingerprints"],
    "additionalProperties": False,
}
RULE = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}, "additionalProperties": False},
    },
    "required": ["id"],
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {
                        "type": "object",
                        "properties": {
                            "driver": {
                                "type": "object",
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {"type": "array", "items": RULE, "uniqueItems": True},
                                },
                                "required": ["name"],
                                "additionalProperties": False,
                            }
                        },
                        "required": ["driver"],
                        "additionalProperties": False,
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": RESULT},
                },
                "required": ["tool"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["version", "runs"],
    "additionalProperties": False,
}


def judged(*texts: str, analyses: Sequence[Analysis] = (), comparison: Any = None) -> tuple[Any, Any]:
    """Return the results of gates, and what they were judged on."""
    subjects = subjects_of(analyses, comparison)
    return judge([parse(text) for text in texts], subjects), subjects


def sarif_results(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    text = documents.sarif(*arguments, **options)
    assert text.isascii()
    found = json.loads(text)
    jsonschema.validate(found, SARIF)
    (run,) = found["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    results: list[dict[str, Any]] = run["results"]
    return results


def fingerprints(results: list[dict[str, Any]]) -> list[str]:
    return [result["partialFingerprints"][documents.FINGERPRINT] for result in results]


# -- JUnit ------------------------------------------------------------------------------------------------------


def test_junit_has_a_test_case_for_each_gate_and_counts_as_properties(write: Write) -> None:
    told = analysis_with(write, 5, 95, errors=3)
    results, subjects = judged("asr > 0.01", "asr < 0.001", analyses=[told])
    root = ElementTree.fromstring(documents.junit(results, subjects))
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "2", "1")
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failed, met = suite.findall("testcase")
    assert (failed.get("name"), met.get("name")) == ("asr > 0.01", "asr < 0.001")
    (failure,) = failed
    assert failure.tag == "failure"
    assert failure.get("message") == failure.text == f"failed: {results[0].reason}"
    assert met.find("failure") is None
    properties = {item.get("name"): item.get("value") for item in suite.iter("property")}
    assert properties["entries.total"] == "103"
    assert properties["entries.error"] == "3"
    assert float(properties["asr.value"] or "") == told.rates.asr.value


def test_an_inconclusive_gate_fails_or_is_skipped() -> None:
    told = comparison_with(cells(20, 6, 14, 160))
    results, subjects = judged("regression > 0.05", comparison=told)
    strict = ElementTree.fromstring(documents.junit(results, subjects))
    (suite,) = strict
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    (case,) = strict.iter("testcase")
    assert [(item.tag, item.get("type")) for item in case] == [("failure", "inconclusive")]
    lenient = ElementTree.fromstring(documents.junit(results, subjects, inconclusive_fails=False))
    assert [item.tag for case in lenient.iter("testcase") for item in case] == ["skipped"]
    (suite,) = lenient
    assert (suite.get("failures"), suite.get("skipped"), lenient.get("failures")) == ("0", "1", "0")
    assert [item.get("value") for item in suite.iter("property") if item.get("name") == "baseline"] == ["old.jsonl"]


def test_every_analysis_is_a_suite(write: Write) -> None:
    told = [analysis_with(write, 5, 95, name="a.jsonl"), analysis_with(write, 50, 50, name="b.jsonl")]
    root = ElementTree.fromstring(documents.junit(*judged("asr > 0.1", analyses=told)))
    assert [suite.get("failures") for suite in root] == ["0", "1"]


def test_without_gates_there_are_still_counts(write: Write) -> None:
    root = ElementTree.fromstring(documents.junit(*judged(analyses=[analysis_with(write, 5, 95)])))
    assert root.get("tests") == "0"
    assert len(list(root.iter("property"))) > 5


# -- SARIF ------------------------------------------------------------------------------------------------------


def test_sarif_has_a_result_for_each_gate_that_is_not_met() -> None:
    told = comparison_with(cells(20, 6, 14, 160))
    results, subjects = judged("asr > 0.1", "asr > 0.99", "regression > 0.05", comparison=told)
    found = sarif_results(results, subjects)
    assert [(item["ruleId"], item["level"]) for item in found] == [
        ("gate-failed", "error"),
        ("gate-inconclusive", "warning"),
    ]
    assert found[0]["message"]["text"] == f"asr > 0.1: failed: {results[0].reason}"
    assert [item["level"] for item in sarif_results(results, subjects, inconclusive_fails=False)] == ["error", "note"]


def with_a_bad_group(write: Write, name: str = "results_x.jsonl", extra: int = 0) -> Analysis:
    """Return an analysis in which one jailbreak of several stands out."""
    kinds = ("dan", "dev", "new", "old", "other")
    rows = [
        standard(f"{kind}{n}", success=kind == "dan" and n < 30, jailbreak_type=kind, lang="en")
        for kind in kinds
        for n in range(40 + extra)
    ]
    return analysis_of(write(rows, name))


def test_sarif_has_a_result_for_each_group_that_stands_out(write: Write) -> None:
    (found,) = sarif_results(*judged(analyses=[with_a_bad_group(write)]))
    assert (found["ruleId"], found["level"]) == ("group-stands-out", "note")
    assert found["message"]["text"].startswith("jailbreak_type=dan stands out")


def test_fingerprints_depend_on_neither_dates_nor_counts(write: Write) -> None:
    gates = ("asr > 0.01", "jailbreak_type=dan: asr > 0.1")
    first = sarif_results(*judged(*gates, analyses=[with_a_bad_group(write, "a/results_bot_set_1790000000.jsonl")]))
    second = sarif_results(
        *judged(*gates, analyses=[with_a_bad_group(write, "b/results_bot_set_1799999999.jsonl", extra=7)])
    )
    assert fingerprints(first) == fingerprints(second)
    assert len(set(fingerprints(first))) == 3
    assert [item["message"] for item in first] != [item["message"] for item in second]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("run_20260101_120000.jsonl", "run_20271231_235959.jsonl", True),
        ("run-2026-01-01T12-00-00.jsonl", "run-2027-12-31T23-59-59.jsonl", True),
        ("results_gpt-4o-2024-08-06.jsonl", "results_gpt-4o-2024-11-20.jsonl", False),
        ("results_a_1790000000.jsonl", "results_b_1790000000.jsonl", False),
    ],
)
def test_only_the_time_of_a_run_is_left_out_of_its_name(one: str, other: str, same: bool) -> None:
    found = [
        fingerprints(
            sarif_results(*judged("asr > 0.1", comparison=comparison_with(cells(9, 1, 1, 9), names=("old", name))))
        )
        for name in (one, other)
    ]
    assert (found[0] == found[1]) is same


def test_a_gate_keeps_its_fingerprint_however_it_is_written_and_whatever_became_of_it() -> None:
    failed = judged("regression > 0.05", comparison=comparison_with(cells(20, 5, 60, 115)))
    unclear = judged(" regression  >  5%", comparison=comparison_with(cells(20, 6, 14, 160)))
    assert fingerprints(sarif_results(*failed)) == fingerprints(sarif_results(*unclear))


def test_results_of_files_that_differ_in_their_dates_alone_are_told_apart(write: Write) -> None:
    told = [analysis_with(write, 50, 50, name=f"results_{time}.jsonl") for time in (1790000000, 1799999999)]
    found = fingerprints(sarif_results(*judged("asr > 0.1", analyses=told)))
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("results/a b.jsonl", "results/a%20b.jsonl"),
        ("/somewhere/x.jsonl", "file:///somewhere/x.jsonl"),
        ("-", "stdin"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("a\x1b\u202eb", "a%5Cx1b%5Cu202eb"),
        ("caf\udce9", "caf%5Cudce9"),
    ],
)
def test_a_place_is_a_reference_that_nothing_can_be_smuggled_into(path: str, uri: str) -> None:
    told = comparison_with(cells(9, 1, 1, 9), names=("old", path))
    (found,) = sarif_results(*judged("asr > 0.1", comparison=told))
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


# -- hostile names and values -----------------------------------------------------------------------------------

NASTY = (*HOSTILE, "]]></failure><script>", "&amp; <!-- x --> <?php", "\x00\x0b\ufffe\uffff\ud800", '" onload="x')


def nasty(write: Write) -> tuple[Any, Any]:
    """Return gates on hostile values, in an analysis with a hostile name."""
    rows = [
        standard(f"{n} {kind}", success=n % 2 == 0, input="PROMPT-7731", response="ANSWER-7731", jailbreak_type=text)
        for kind, text in enumerate(NASTY)
        for n in range(10)
    ]
    told = analysis_of(write(rows))
    told = replace(told, name="".join(NASTY), sources=(replace(told.sources[0], path="".join(NASTY)),))
    values = [group.value for group in told.breakdowns["jailbreak_type"]]
    gates = [
        Gate(f"jailbreak_type={text}: asr > 0.1", "asr", "value", ">", 0.1, "jailbreak_type", text) for text in values
    ]
    subjects = subjects_of([told])
    return judge(gates, subjects), subjects


def test_hostile_names_and_values_stay_inert(write: Write) -> None:
    results, subjects = nasty(write)
    assert len(results) >= len(NASTY) - 1
    written = documents.junit(results, subjects)
    assert harmless(written)
    root = ElementTree.fromstring(written.encode())
    known = {"testsuites", "testsuite", "properties", "property", "testcase", "failure", "skipped", "system-out"}
    assert {element.tag for element in root.iter()} <= known
    assert len(list(root.iter("testcase"))) == len(results)
    assert {name for element in root.iter() for name in element.keys()} <= {  # noqa: SIM118
        *("name", "value", "tests", "failures", "errors", "skipped", "classname", "time", "message", "type")
    }
    assert len(sarif_results(results, subjects)) >= len(results)


def test_neither_prompts_nor_responses_are_written(write: Write) -> None:
    results, subjects = nasty(write)
    for text in (documents.junit(results, subjects), documents.sarif(results, subjects)):
        assert "PROMPT-7731" not in text
        assert "ANSWER-7731" not in text


def test_no_text_of_a_record_is_a_link_in_sarif(write: Write) -> None:
    rows = [standard(n, success=n < 30, plugin="[x](https://evil.example)" if n < 40 else "b") for n in range(100)]
    told = analysis_of(write(rows))
    results, subjects = judged('plugin="[x](https://evil.example)": asr > 0.1', analyses=[told])
    texts = [one["message"]["text"] for one in json.loads(documents.sarif(results, subjects))["runs"][0]["results"]]
    assert len(texts) == 2
    for text in texts:
        # What the format reads as a link (3.11.6).
        assert not re.search(r"(?<!\\)\[(?:[^\]\[\\]|\\.)*\]\([^)]*\)", text), text
        assert "https://evil.example" in text


@given(st.text(max_size=30))
def test_any_name_makes_valid_documents(name: str) -> None:
    told = comparison_with(cells(9, 1, 1, 9), names=(name, f"x{name}"))
    results, subjects = judged("asr > 0.1", comparison=told)
    ElementTree.fromstring(documents.junit(results, subjects).encode())
    sarif_results(results, subjects)
