"""Answers of parts make the answer of all rows, however these are divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from faircount.ledger import FIRST, KEY, MAX, MIN, SUM, Question, merged

Row = tuple[str | None, int | None, int, int | None, str]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-(2**70), 2**70)),
        st.integers(0, 50),
        st.one_of(st.none(), st.integers(0, 9)),
        st.sampled_from(["x", "y"]),
    ),
    max_size=20,
)
"""Value, number to add up, place, number to be least and most, text."""
PARTS = st.lists(st.integers(0, 3), min_size=20, max_size=20)


def divided(rows: Sequence[Row], parts: Sequence[int]) -> list[list[Row]]:
    """Return rows by part, some of which may have none."""
    return [[row for row, of_row in zip(rows, parts, strict=False) if of_row == part] for part in range(4)]


def counted(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Count rows as SQL does: nothing is left out but what is not there."""
    found = []
    for value in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == value]
        numbers = [row[1] for row in own if row[1] is not None]
        limits = [row[3] for row in own if row[3] is not None]
        first = min(own, key=lambda row: row[2])
        found.append(
            (
                value,
                len(own),
                sum(numbers) if numbers else None,
                first[2],
                max(limits, default=None),
                first[4],
            )
        )
    return found


def in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def at_places_of_their_own(rows: Sequence[Row]) -> list[Row]:
    return list({row[2]: row for row in rows}.values())


@given(ROWS, PARTS)
def test_any_division_of_the_rows_gives_the_same_answer(rows: list[Row], parts: list[int]) -> None:
    rows = at_places_of_their_own(rows)
    question = Question("", (KEY, SUM, SUM, MIN, MAX, FIRST))
    answers = [counted(part) for part in divided(rows, parts)]
    assert in_order(merged(question, answers)) == in_order(counted(rows))


@given(ROWS, PARTS)
def test_any_division_of_an_answer_gives_it_again(rows: list[Row], parts: list[int]) -> None:
    question = Question("", (KEY, SUM, SUM, MIN, MAX, FIRST))
    answer = counted(rows)
    assert in_order(merged(question, divided(answer, parts))) == in_order(answer)


@given(ROWS, PARTS, st.integers(1, 8))
def test_the_first_of_all_are_among_the_first_of_each(rows: list[Row], parts: list[int], limit: int) -> None:
    places = sorted({row[2] for row in rows})
    question = Question("", (KEY,), limit=limit)
    answers = [sorted({(row[2],) for row in part})[:limit] for part in divided(rows, parts)]
    assert merged(question, answers) == [(place,) for place in places[:limit]]


def test_no_parts_give_no_answer() -> None:
    assert merged(Question("", (KEY, SUM)), []) == merged(Question("", (KEY, SUM)), [[], []]) == []


def test_a_statement_names_each_word_by_its_own_number() -> None:
    words = tuple(("lang", number) for number in range(100, 112))
    question = Question("SELECT $word1, $word10, $word11$apart FROM entry $by", (KEY,), (*words, ("lang", None)))
    assert question.statement() == "SELECT 101, 110, 111 FROM entry "
    assert question.statement("source") == "SELECT 101, 110, 111, source FROM entry GROUP BY source"
    assert Question("SELECT $word0", (KEY,), (("lang", None),)).statement() == "SELECT NULL"
