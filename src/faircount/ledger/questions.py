"""Questions to folded rows, and how the answers of several parts become one.

A question is a statement of ours and what its columns mean. Entries are never divided among parts, so that counts add
up, and what comes first in any part comes first in all. Words have numbers of their own in every part: an answer that
leaves its part holds the words themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

KEY, SUM, MIN, MAX = "key", "sum", "min", "max"
"""What a column is: a part of what a row is about, a number to be added up, or one of which the least or most stays."""
FIRST = "first"
"""A value that goes with the least number of the `MIN` column."""
_WORD, _FIRST_WORD, _WORD_OF_FIELD = "word:", "first word:", "word of field:"

NO_SUCH_WORD = -(1 << 31)
"""Stands in a statement for a word that no row of a part has."""


class Question(Struct, frozen=True):
    """One statement, and how its answers are put together.

    `$apart` stands behind the columns selected and those grouped by, `$by` where there is nothing to group by: there
    a source among several that were folded apart is added. `$word0`, `$word1` … stand for the numbers of `words`.
    """

    sql: str
    columns: tuple[str, ...]
    words: tuple[tuple[str, Any], ...] = ()
    """Columns and the numbers, or in another part the texts, of words that the statement names."""
    family: str | None = None
    """The column of `entry` whose values belong together: entries that share one must be in the same part."""
    limit: int | None = None
    """So many rows are wanted, the least by their first columns."""
    over: str | None = None
    """A statement over all rows of the answer, `$answer` in it, where that is another one than the answer itself."""

    def statement(self, source: str | None = None) -> str:
        """Return the statement for all sources, or `source` as one more column for all of them at once."""
        apart, by = ("", "") if source is None else (f", {source}", f"GROUP BY {source}")
        sql = self.sql.replace("$apart", apart).replace("$by", by)
        for position, (_, number) in reversed(list(enumerate(self.words))):
            sql = sql.replace(f"$word{position}", "NULL" if number is None else str(int(number)))
        if self.over is None:
            return sql
        names = ", ".join(f"c{position}" for position in range(len(self.columns)))
        return self.over.replace("$answer", f"({sql}) AS answer({names})")


def word(column: str) -> str:
    """Return what a column of words is, whose numbers those of another column are."""
    return _WORD + column


def first_word(column: str) -> str:
    """Return what a column is that has the word that goes with the least number of the `MIN` column."""
    return _FIRST_WORD + column


def word_of_field(fields: Mapping[int, str]) -> str:
    """Return what a column of words is that stand for the values of several columns: the number before says of which.

    `fields` are these numbers, and the columns whose words they are; a value of any other column is a number.
    """
    return _WORD_OF_FIELD + " ".join(f"{number}={column}" for number, column in fields.items())


def word_column(role: str) -> str | None:
    """Return the column whose words a column of an answer has, or None for numbers."""
    return next((role.removeprefix(kind) for kind in (_WORD, _FIRST_WORD) if role.startswith(kind)), None)


def listed_words(column: str, numbers: Iterable[int]) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return numbers in a column as the words of a question, and what stands for them in its statement."""
    words = tuple((column, number) for number in numbers)
    return words, ", ".join(f"$word{position}" for position in range(len(words)))


Rows = list[tuple[Any, ...]]


def with_values(
    rows: Iterable[Sequence[Any]], columns: Sequence[str], value: Callable[[str, Any], Any]
) -> list[tuple[Any, ...]]:
    """Return an answer with other values for words: the texts behind numbers, or the numbers of texts."""
    named = [(position, column) for position, role in enumerate(columns) if (column := word_column(role)) is not None]
    of_fields = [
        (position, dict(one.split("=", 1) for one in role.removeprefix(_WORD_OF_FIELD).split()))
        for position, role in enumerate(columns)
        if role.startswith(_WORD_OF_FIELD)
    ]
    if not named and not of_fields:
        return [tuple(row) for row in rows]
    found = []
    for row in rows:
        values = list(row)
        for position, column in named:
            values[position] = value(column, values[position])
        for position, fields in of_fields:
            if str(row[position - 1]) in fields:
                values[position] = value(fields[str(row[position - 1])], values[position])
        found.append(tuple(values))
    return found


def merged(question: Question, answers: Iterable[Rows]) -> Rows:
    """Put the answers of parts together."""
    roles = question.columns
    keys = [at for at, role in enumerate(roles) if role == KEY or role.startswith((_WORD, _WORD_OF_FIELD))]
    groups: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for rows in answers:
        for row in rows:
            key = tuple(row[at] for at in keys)
            before = groups.get(key)
            groups[key] = row if before is None else _together(before, row, roles)
    found = list(groups.values())
    return found if question.limit is None else sorted(found)[: question.limit]


def _together(one: tuple[Any, ...], other: tuple[Any, ...], roles: Sequence[str]) -> tuple[Any, ...]:
    """Return two rows about the same as one."""
    earlier = one
    if MIN in roles:
        place = roles.index(MIN)
        if one[place] is None or (other[place] is not None and other[place] < one[place]):
            earlier = other
    return tuple(_joined(role, *pair) for role, *pair in zip(roles, one, other, earlier, strict=True))


def _joined(role: str, one: Any, other: Any, earlier: Any) -> Any:
    if role == KEY or role.startswith((_WORD, _WORD_OF_FIELD, FIRST)):
        return earlier
    if one is None or other is None:
        return other if one is None else one
    return one + other if role == SUM else min(one, other) if role == MIN else max(one, other)
