"""`faircount explain`: what a finding means, from the text that the page of findings is made of."""

from __future__ import annotations

import json

import pytest

from faircount.core import REGISTER, explanations
from tests.conftest import Cli


@pytest.mark.parametrize("word", ["F015", "f015", "15"])
def test_a_code_is_explained_however_it_is_written(cli: Cli, word: str) -> None:
    out = " ".join(cli("explain", word).out.split())
    assert out.startswith("F015: entries without an answer counted in the rate (info)")
    for part in ("Cause: ", "Effect on the numbers: ", "Remedy: "):
        assert part in out


def test_several_codes_are_explained_in_the_order_given_and_each_once(cli: Cli) -> None:
    document = json.loads(cli("explain", "F030", "f002", "F030", "--output-format", "json").out)
    assert [one["code"] for one in document["findings"]] == ["F030", "F002"]


def test_without_a_code_all_are_listed(cli: Cli) -> None:
    lines = cli("explain").out.splitlines()
    for code, kind in REGISTER.items():
        (row,) = (line for line in lines if line.startswith(f"  {code} "))
        assert row.split(maxsplit=2)[1:] == [kind.severity.value, kind.title]


def test_the_document_has_the_words_of_every_finding_without_markup(cli: Cli) -> None:
    findings = json.loads(cli("explain", "--output-format", "json").out)["findings"]
    assert [one["code"] for one in findings] == list(REGISTER)
    for one in findings:
        text = " ".join((one["cause"], one["effect"], one["remedy"]))
        assert not set("`*[") & set(text.replace("[]", "")), text
    (noted,) = (one for one in findings if one["code"] == "F013")
    assert noted["remedy"] == explanations()["F013"].remedy


def test_a_link_becomes_the_page_that_it_leads_to(cli: Cli) -> None:
    assert "the query (docs/reference/query.md)" in " ".join(cli("explain", "F029").out.split())


@pytest.mark.parametrize("word", ["F099", "F0", "missing", ""])
def test_an_unknown_code_is_refused_with_what_there_is(cli: Cli, word: str) -> None:
    done = cli("explain", word)
    assert done.code == 2 and not done.out
    assert "no such finding" in done.err and "F0" in done.err


def test_a_near_code_is_suggested(cli: Cli) -> None:
    assert "did you mean F038" in cli("explain", "F0380").err
