"""Definitions are data: what counts asks their rules, and what a definition excludes is refused by its words."""

from __future__ import annotations

import re

import pytest

from faircount.analysis import AnalyzeOptions, DatasetComparisonOptions
from faircount.core import DEFINITIONS, Definition, Exclusion, UsageError, option_fields
from tests.test_architecture import modules


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judge_quality": "labels.csv"}, "spikee corrects no rate: its definition and --judge-quality exclude"),
        ({"judge": "any"}, "spikee knows one verdict per row: its definition and --judge exclude"),
        (
            {"guardrail_success": "detected"},
            "spikee reads true as bypassed: its definition and --guardrail-success detected exclude",
        ),
        ({"block_signal": "raised"}, "spikee knows verdicts only: its definition and --block-signal raised exclude"),
    ],
)
def test_a_definition_refuses_what_has_no_meaning_by_it(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message} each other$"):
        AnalyzeOptions(definition="spikee", **given)  # type: ignore[arg-type]
    AnalyzeOptions(definition="faircount", **given)  # type: ignore[arg-type]


def test_it_is_refused_by_every_command_with_that_option() -> None:
    with pytest.raises(UsageError, match="--guardrail-success detected"):
        DatasetComparisonOptions(definition="spikee", guardrail_success="detected")


def test_those_in_the_table_can_be_asked_for() -> None:
    (option,) = next(field.options for field in option_fields(AnalyzeOptions) if field.name == "definition")
    assert option.choices == tuple(DEFINITIONS)
    assert all(AnalyzeOptions(definition=name).rules.name == name for name in DEFINITIONS)


def test_another_definition_is_one_entry_with_its_own_words() -> None:
    whole = "theirs are figures of one whole file: --definition theirs"
    theirs = Definition(name="theirs", excluded=(Exclusion("combine", whole), Exclusion("where", whole)))
    assert theirs.refusal(AnalyzeOptions()) == ""
    assert theirs.refusal(AnalyzeOptions(combine=True)) == f"{whole} and --combine exclude each other"
    assert theirs.refusal(AnalyzeOptions(where="id = 1")) == f"{whole} and --where exclude each other"


def test_without_any_rule_a_definition_is_our_own() -> None:
    assert DEFINITIONS["faircount"] == Definition(name="faircount")


def test_nothing_asks_a_definition_for_its_name() -> None:
    asking = re.compile(r'(\bdefinition|rules\.name) [!=]= "')
    assert [name for name, path in modules() if asking.search(path.read_text("utf-8"))] == [
        "judges.builtin.llm",
        "testing.model_metrics",
    ], "only those of a metric, which are a judge's own"
