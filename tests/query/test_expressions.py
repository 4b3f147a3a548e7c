"""What all expressions have in common: how a mistake is reported, and that no text does harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount import analysis, components
from faircount.query import LONGEST, QueryError, parse, parse_keyword
from faircount.runs import read_rules
from tests.conftest import ROOT, some

PARSERS: dict[str, Callable[[str], Any]] = {
    "query": parse,
    "keyword expression": parse_keyword,
    "gate": analysis.parse,
    "rule of --stop-when": read_rules,
    "judge": components.parse,
}
WITH_QUOTES = ["query", "keyword expression", "gate", "judge"]


PAGE = (ROOT / "docs" / "reference" / "query.md").read_text(encoding="utf-8")
TABLES = {
    "keyword expression": "keyword expression",
    "gate": "gate",
    "stop rule": "rule of --stop-when",
    "name": "judge",
}


def examples(header: str) -> list[str]:
    """Return the code in the first column of the tables of the page that have this header."""
    found = re.findall(rf"^\| {header} \| .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [
        text for table in found for row in table.splitlines() for text in re.findall("`(.*?)`", row.split(" | ")[0])
    ]


@pytest.mark.parametrize("header", TABLES)
def test_the_examples_of_the_page_are_understood(header: str) -> None:
    for text in some(examples(header)):
        PARSERS[TABLES[header]](text)


def mistake(what: str, text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        PARSERS[what](text)
    return caught.value


@pytest.mark.parametrize("what", WITH_QUOTES)
@pytest.mark.parametrize(("text", "character"), [('"a', 1), ("  'a\"", 3)])
def test_a_quote_that_is_not_closed_is_the_same_mistake_everywhere(what: str, text: str, character: int) -> None:
    first, shown, mark, hint = str(mistake(what, text)).split("\n")
    assert first == f"the {what} cannot be parsed at character {character}: this quote is not closed"
    assert (shown, mark) == (f"  {text}", " " * (character + 1) + "^")
    assert hint.startswith(f"  Put {text.strip()[0]} after the text")


@pytest.mark.parametrize("what", ["query", "keyword expression"])
@pytest.mark.parametrize(
    ("text", "character", "reason"),
    [
        ("a and (b or c", 7, "this bracket is not closed"),
        ("a)", 2, "unmatched closing bracket"),
        ("(" * 51 + "a" + ")" * 51, 51, "brackets nested too deeply"),
    ],
)
def test_brackets_are_the_same_everywhere(what: str, text: str, character: int, reason: str) -> None:
    assert str(mistake(what, text)).startswith(f"the {what} cannot be parsed at character {character}: {reason}\n")


@pytest.mark.parametrize("what", ["query", "gate", "judge"])
def test_a_character_that_cannot_be_seen_is_the_same_mistake_everywhere(what: str) -> None:
    text = "f=x\u200b" if what != "judge" else "f(x\u200b"
    assert "at character 4: invisible character\n" in str(mistake(what, text))


@pytest.mark.parametrize(
    ("text", "character", "reason"),
    [
        ("", 1, "expected a figure, found the end"),
        ("asr", 4, "expected an operator, found the end"),
        ("asr < ", 7, "expected a number, found the end"),
        ("asr <= 5%", 5, "expected an operator, found “<=”"),
        ("asr = 5%", 5, "expected an operator, found “=”"),
        ("asr < 2", 7, "the number must be between 0 and 100%"),
        ("asr < 0%", 7, "the number must be between 0 and 100%"),
        ("width > 5%", 7, "intervals get narrower"),
        ("asr < 5% or ast > 20%", 13, "no such figure: ast"),
        ("asr < 5% and x", 10, "expected or, or the end, found “and”"),
        ("asr < 0,05", 8, "a comma in a number"),
    ],
)
def test_a_bad_stop_rule_is_pointed_at(text: str, character: int, reason: str) -> None:
    error = mistake("rule of --stop-when", text)
    assert str(error).startswith(f"the rule of --stop-when cannot be parsed at character {character}: {reason}\n")
    assert (error.position, error.exit_code) == (character - 1, 2)


@pytest.mark.parametrize("what", PARSERS)
def test_an_expression_has_a_longest_length(what: str) -> None:
    longest = components.LONGEST if what == "judge" else LONGEST
    error = mistake(what, "a" * (longest + 1))
    assert f"at character {longest + 1}: it is longer than {longest:,} characters\n" in str(error)
    assert len(str(error)) < 500


HOSTILE = [
    *("(" * 200_000, ")" * 200_000, "a(" * 200_000, "[" * 200_000, "{" * 200_000, "a.b" * 200_000, "not " * 200_000),
    *("a and " * 100_000, "\\" * 200_000, '"' * 200_001, "-" * 200_000, "9" * 200_000, "asr > " + "9" * 200_000),
    *("\ud800", "a\udfff = 1", "'\ud800'", '"\\ud800"', "asr\ud800 > 5%", "f\ud800=1: asr > 5%", "a(x='\ud800')"),
    *(
        "\x00",
        "a\x00b",
        "\x1b[31m",
        "f=##[error]x: asr > 5%",
        "##vso[x]",
        "\u202ea",
        "a\n\n  b",
        "１ > ٥",
        "a(x=\ud800)",
    ),
]


@pytest.mark.parametrize("what", PARSERS)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_text_is_understood_or_refused_in_a_few_lines(what: str, text: str) -> None:
    try:
        PARSERS[what](text)
    except QueryError as error:
        assert 0 <= error.position <= len(text)
        assert all(line.isprintable() for line in str(error).split("\n"))
        assert len(str(error)) < 700


@given(
    st.sampled_from(sorted(PARSERS)),
    st.text(max_size=40) | st.text(alphabet="asr>5%:='\"()[]{},.\\ oandt", max_size=40),
)
def test_any_text_is_understood_or_refused(what: str, text: str) -> None:
    try:
        PARSERS[what](text)
    except QueryError as error:
        assert str(error).startswith(f"the {what} cannot be parsed at character {error.position + 1}: ")
