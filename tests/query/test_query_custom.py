"""The terms of `--custom-search`: where a text is searched, and what its absence means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.query import Condition, CustomSearch, QueryError, possible_fields

Row = dict[str, Any]

ROW: Row = {
    "id": 5,
    "response": 'He said: "yes, maybe"\nand left; 运行 Café',
    "success": True,
    "guardrail": False,
    "plugin": None,
    "empty": "",
    "response_time": 1.5,
    "guardrail_categories": {"hate": True, "größe": 1},
    "history": [{"response": 'a "quoted"\nline', "error": None}],
    "input": "http://example.org:8080/a,b",
}
ABSENT = "absent"


def found(term: str, row: Row = ROW, **options: Any) -> bool:
    return CustomSearch.parse([term], {*ROW, ABSENT}, **options).matches(row)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("yes, maybe", True),
        ('maybe"\nand', True),
        ("said: ", True),
        ("运行", True),
        ("Café", True),
        ("café", False),
        ("response:He said: ", True),
        ("response:nothing", False),
        ("input:http://example.org:8080/a", True),
        ("http://example", True),
        ("unknown:x", False),
        ("id:5", True),
        ("id:6", False),
        ("response_time:1.5", True),
        ("success:true", True),
        ("success:True", True),
        ("success:TRUE", False),
        ("guardrail:False", True),
        ("plugin:None", False),
        ("plugin:null", False),
        ("plugin:", False),
        ("empty:", True),
        ("absent:", False),
        ("absent:x", False),
        ('guardrail_categories:{"hate":true,"größe":1}', True),
        ("guardrail_categories:größe", True),
        ('history:"error":null', True),
        ('history:a "quoted"\nline', True),
        ('a "quoted"\nline', True),
        ("guardrail_categories", False),
        ("response:!x", False),
    ],
)
def test_what_a_term_finds_and_that_its_inverse_is_the_opposite(term: str, expected: bool) -> None:
    assert found(term) is expected
    assert found(f"!{term}") is not expected


def test_what_stands_before_a_colon_is_a_field_only_if_some_row_has_it() -> None:
    row = {"text": "note:this"}
    assert CustomSearch.parse(["note:this"], {"text"}).matches(row)
    assert not CustomSearch.parse(["note:this"], {"text", "note"}).matches(row)
    assert possible_fields(["note:this:that", "!error:x", "plain", "!plain", ":x"]) == {"note", "error", ""}


def test_every_condition_must_hold() -> None:
    fields = {"a", "b"}
    search = CustomSearch.parse(["a:x", "!b:y", "z"], fields)
    assert search.matches({"a": "xz"})
    assert not search.matches({"a": "xz", "b": "y"})
    assert not search.matches({"a": "x"})
    assert CustomSearch.parse([], fields).matches({})


@pytest.mark.parametrize(
    ("term", "conditions"),
    [
        ("lang:en,plugin:1337", (Condition("en", "lang"), Condition("1337", "plugin"))),
        ("lang:en, !plugin:1337", (Condition("en", "lang"), Condition("1337", "plugin", inverted=True))),
        ("January,lang:en", (Condition("January"), Condition("en", "lang"))),
        ("Sorry, I cannot, note: never", (Condition("Sorry, I cannot, note: never"),)),
        ('lang:["en","de"],plugin:hex', (Condition('["en","de"]', "lang"), Condition("hex", "plugin"))),
        ("over,", (Condition("over,"),)),
    ],
)
def test_a_comma_begins_another_condition_where_a_field_is_named(term: str, conditions: tuple[Condition, ...]) -> None:
    fields = {"lang", "plugin"}
    assert {"lang", "plugin"} & possible_fields([term]) == {one.field for one in conditions} - {None}
    assert CustomSearch.parse([term], fields).conditions == conditions


@pytest.mark.parametrize("term", ["January,February", "lang:en,January", "input:http://example.org/a,b", "!a,b"])
def test_a_list_that_may_be_a_text_is_refused_at_its_comma(term: str) -> None:
    with pytest.raises(QueryError, match="once per condition") as caught:
        CustomSearch.parse([term], {"lang", "input"})
    assert caught.value.position == term.index(",")


def test_a_comma_is_part_of_a_regular_expression() -> None:
    assert found("response:s{1,2}", regex=True)


def test_case_is_ignored_if_asked() -> None:
    assert found("CAFÉ", ignore_case=True)
    assert found("success:TRUE", ignore_case=True)
    assert not found("!response:HE SAID", ignore_case=True)
    assert not found("RESPONSE:He", ignore_case=True)


def test_a_term_is_a_regular_expression_if_asked() -> None:
    assert found(r"response:^He.*left", regex=True)
    assert found(r"input::\d+/", regex=True)
    assert not found(r"^left", regex=True)
    assert found(r"response:he said", regex=True, ignore_case=True)
    assert found(r"!response:^left", regex=True)
    assert not found("response:He.said.", {"response": "Hexsaid"}, regex=True)


@pytest.mark.parametrize(
    ("term", "position", "reason"),
    [
        ("(x", 0, "regular expression"),
        ("!id:a(", 5, "regular expression"),
        ("nofield:a[", 9, "regular expression"),
        ("", 0, "a text to search for"),
        ("!", 1, "a text to search for"),
    ],
)
def test_a_mistake_is_pointed_at(term: str, position: int, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        CustomSearch.parse([term], ROW, regex=True)
    assert caught.value.position == position
    first, shown, mark, _ = str(caught.value).split("\n")
    assert f"the term cannot be parsed at character {position + 1}" in first
    assert shown == f"  {term}"
    assert mark.index("^") == position + 2


def test_a_search_says_which_fields_it_needs() -> None:
    assert CustomSearch.parse(["id:5", "!plugin:x"], ROW).fields == frozenset(["id", "plugin"])
    assert CustomSearch.parse(["id:5", "x"], ROW).fields is None
    assert CustomSearch.parse([], ROW).fields == frozenset()


TEXTS = st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(TEXTS, max_size=3), st.dictionaries(st.sampled_from(["a", "b", ""]), VALUES), st.booleans())
def test_any_terms_are_a_search_or_a_mistake(terms: list[str], row: Row, regex: bool) -> None:
    try:
        search = CustomSearch.parse(terms, {"a", "b", ""}, regex=regex)
    except QueryError as error:
        assert len(str(error).split("\n")) == 4
    else:
        assert isinstance(search.matches(row), bool)


@given(TEXTS.filter(lambda text: text and "," not in text), TEXTS, TEXTS)
def test_any_text_is_found_wherever_it_stands(text: str, before: str, after: str) -> None:
    value = before + text + after
    for row in ({"f": value}, {"f": [{"x": value}]}):
        assert CustomSearch.parse([f"f:{text}"], {"f"}).matches(row)
        assert not CustomSearch.parse([f"!f:{text}"], {"f"}).matches(row)
        assert CustomSearch.parse([f"f:{text}"], {"f"}, ignore_case=True).matches(row)


@given(VALUES)
def test_a_value_is_found_by_its_compact_json(value: object) -> None:
    if value is not None and not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert CustomSearch.parse([f"f:{text}"], {"f"}).matches({"f": value})
