"""Which cases are wanted: keyword expressions, tags and names, and what is said when nothing is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import UsageError
from faircount.query import QueryError, parse_keyword
from faircount.runs import Selection, TaskCase, read_tags, select


def case(name: str, *tags: str) -> TaskCase:
    function = name.partition("_[")[0]
    return TaskCase(
        name=name,
        tags=tags,
        messages=(),
        api_params={},
        expected={},
        metrics=(),
        attempts=1,
        aggregation="mean",
        place="test_x.py:1",
        function=function.removesuffix("_slow"),
        suite=function,
    )


CASES = (
    case("test_Alpha_[]", "basic"),
    case("test_beta_[n=1]", "bas", "long"),
    case("test_beta_[n=2]", "Basic", "long"),
    case("test_beta_slow_[n=1]"),
)


def chosen(**asked: object) -> list[str]:
    return [case.name for case in select(CASES, Selection(**asked)).cases]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("alpha", [0]),
        ("ALPHA", [0]),
        ("beta", [1, 2, 3]),
        ("beta and n=1", [1, 3]),
        ("beta and not slow", [1, 2]),
        ("alpha or slow", [0, 3]),
        ("not beta", [0]),
        ("not (alpha or slow)", [1, 2]),
        ("alpha or beta and n=2", [0, 2]),
        ("(alpha or beta) and n=2", [2]),
        ("not not alpha", [0]),
        ("not alpha and not slow", [1, 2]),
        ("[n=1]", [1, 3]),
        ('"n=1" and not "slow"', [1]),
        ("'and' or alpha", [0]),
        ("  alpha  ", [0]),
    ],
)
def test_words_are_parts_of_names_and_are_joined_as_in_pytest(expression: str, expected: list[int]) -> None:
    assert chosen(keyword=expression) == [CASES[index].name for index in expected]


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("", 0, "expected a word, found the end"),
        ("   ", 3, "expected a word, found the end"),
        ("a b", 2, "expected and, or, or the end, found “b”"),
        ("a and", 5, "expected a word, found the end"),
        ("and a", 0, "expected a word, found “and”"),
        ("(a or b", 0, "this bracket is not closed"),
        ("a)", 1, "unmatched closing bracket"),
        ("a or (b and )", 12, "expected a word, found “)”"),
        ('a and "b', 6, "this quote is not closed"),
        ("a AND b", 2, "expected and, or, or the end, found “AND”"),
    ],
)
def test_a_bad_expression_points_at_the_character(expression: str, position: int, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_keyword(expression)
    first, text, mark, hint = str(caught.value).splitlines()
    assert first == f"the keyword expression cannot be parsed at character {position + 1}: {reason}"
    assert (caught.value.position, caught.value.exit_code) == (position, 2)
    assert mark == f"  {' ' * position}^" and text == f"  {expression}" and hint.strip()


def test_an_expression_can_be_neither_endless_nor_endlessly_deep() -> None:
    with pytest.raises(QueryError, match="brackets nested too deeply"):
        parse_keyword("(" * 2000 + "a" + ")" * 2000)
    with pytest.raises(QueryError, match="longer than 1,000,000 characters"):
        parse_keyword("a or " * 200_000 + "a")
    assert parse_keyword("not " * 2000 + "a").matches({"name": "a"})


words = st.sampled_from(["alpha", "beta", "n=1", "slow", "zzz"])
expressions = st.recursive(
    words,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join).map(lambda text: f"({text})"),
        inner.map(lambda text: f"not {text}"),
    ),
    max_leaves=12,
)


@given(expressions, st.sampled_from([case.name for case in CASES]))
def test_expressions_mean_what_python_means_by_them(expression: str, name: str) -> None:
    spoken = expression
    for word in ("alpha", "beta", "n=1", "slow", "zzz"):
        spoken = spoken.replace(word, str(word in name.lower()))
    assert parse_keyword(expression).matches({"name": name}) == eval(spoken)


@given(st.text(alphabet="ab ()'\"ndort[]=_", max_size=30))
def test_any_text_is_an_expression_or_an_error_of_ours(text: str) -> None:
    try:
        parse_keyword(text).matches({"name": "test_ab_[]"})
    except QueryError as error:
        assert 0 <= error.position <= len(text)


def test_tags_are_compared_whole_and_case_matters() -> None:
    # REBEL looks for tags in the text of --tags: "basic" chooses "bas" there too.
    assert chosen(tags=("basic",)) == ["test_Alpha_[]"]
    assert chosen(tags=("basic", "bas")) == ["test_Alpha_[]", "test_beta_[n=1]"]
    assert chosen(exclude_tags=("long",)) == ["test_Alpha_[]", "test_beta_slow_[n=1]"]
    assert chosen(tags=("long",), exclude_tags=("bas",)) == ["test_beta_[n=2]"]


def test_tags_are_read_from_lists_with_commas() -> None:
    assert read_tags("a,b", " c , a", "") == ("a", "b", "c")


def test_names_choose_functions_suites_and_cases() -> None:
    assert chosen(names=("test_beta",)) == [case.name for case in CASES[1:]]
    assert chosen(names=("test_beta_slow",)) == ["test_beta_slow_[n=1]"]
    assert chosen(names=("test_beta_[n=2]", "test_Alpha")) == ["test_Alpha_[]", "test_beta_[n=2]"]


def test_all_that_is_asked_for_must_hold_even_if_several_drop_the_same_case() -> None:
    # REBEL ends with an exception when two filters drop the same test.
    assert chosen(keyword="beta", tags=("long",), exclude_tags=("Basic",)) == ["test_beta_[n=1]"]


def test_a_choice_that_leaves_nothing_says_what_there_was() -> None:
    with pytest.raises(UsageError) as caught:
        chosen(keyword="gamma", tags=("long",))
    message = str(caught.value)
    assert message.splitlines()[0] == "--keyword gamma with --tags long selects none of 4 cases"
    assert "test_Alpha_[]" in message and "Basic, bas, basic, long" in message
    assert caught.value.exit_code == 2


def test_a_tag_that_no_case_has_is_told_where_something_is_left() -> None:
    (note,) = select(CASES, Selection(exclude_tags=("slwo",))).notes
    assert note == 'no case has the tag "slwo"; available: Basic, bas, basic, long'
    assert select(CASES, Selection(exclude_tags=("long",))).notes == ()
    (note,) = select(CASES, Selection(names=("test_Alpha", "test_gone"))).notes
    assert note == 'no case named "test_gone"'


def test_nothing_asked_for_is_everything() -> None:
    assert chosen() == [case.name for case in CASES]
