"""Queries answered by the ledger: rows and entries chosen by what it holds of them, without reading a file again.

A field that is a facet is held as text, in a lexicon: a test is made of each word once, and becomes a list of numbers.
Where the ledger does not hold all that a test looks at, it says so, and the file has to be read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from faircount.core.model import Outcome
from faircount.ledger.lookup import ROWS_WITH_ENTRIES, TO_READ_BACK, CountedRow, to_read_back
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import Ledger, source_and_line
from faircount.ledger.tallies import STANDARD, UNNAMED_ATTACK, strategy_name
from faircount.query import Query
from faircount.query.query import And, Check, Node, Not, Operator, Or, Test, check_of

NUMBERS = {"attempts": "a.requests", "response_time": "a.response_time", "line": "a.ord"}
"""Columns of rows by which they can be sorted as numbers."""
_OF_SINGLE_VALUES = (Operator.EQUAL, Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST)
_OUTCOMES = tuple(Outcome)
_numbers = itertools.count()


class ChosenRow(CountedRow, frozen=True):
    """A row that was chosen, what it is part of, and what became of its entry."""

    source: int
    strategy: str
    outcome: Outcome


def condition_of(ledger: Ledger, query: Query, labels: Collection[str]) -> str | None:
    """Return a query about rows as a condition, None where the ledger does not hold what it looks at.

    `labels` are the fields whose values are kept whatever they are; of others, lists and objects are not.
    """

    def condition(node: Node) -> str | None:
        if isinstance(node, Test):
            check = check_of(node.operator, node.literals, ignore_case=query.ignore_case)
            return _tested(ledger, node, check, labels)
        parts = [condition(part) for part in ([node.part] if isinstance(node, Not) else node.parts)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return f"NOT {known[0]}" if isinstance(node, Not) else f"({_JOINED[type(node)].join(known)})"

    return condition(query.tree)


_JOINED: dict[type[Any], str] = {And: " AND ", Or: " OR "}


def rows_where(condition: str, *, folded: bool) -> str:
    """Return the places of the rows that meet a condition, as a question; what rows are folded into, it may ask."""
    return f"SELECT a.ord FROM {ROWS_WITH_ENTRIES if folded else 'attempt AS a'} WHERE {condition}"


def other_lines(ledger: Ledger, places: str, limit: int) -> dict[int, tuple[int, list[int]]]:
    """Return for each source how many of its rows are at none of some places, and the first lines of those."""
    rows = ledger.query(
        f"SELECT source, COUNT(*), MIN(ord, {limit}) FROM attempt WHERE ord NOT IN ({places}) GROUP BY source"
    )
    return {source: (count, [source_and_line(place)[1] for place in first]) for source, count, first in rows}


def only_words(ledger: Ledger, places: str, field: str) -> dict[int, str | None]:
    """Return for each source the one word that all its rows at some places have in a field; None if there is none."""
    if field not in ledger.facets:
        return {}
    column = f"COALESCE({ledger.facets[field]}, 0)"
    rows = ledger.query(
        f"SELECT source, MIN({column}), MAX({column}) FROM attempt WHERE ord IN ({places}) GROUP BY source"
    )
    words = ledger.lexicon(ledger.facets[field])
    return {source: words[first] for source, first, last in rows if first == last}


def condition_of_places(ledger: Ledger, places: Sequence[int]) -> str:
    """Return the condition that a row is at one of some places; the engine keeps these."""
    table = f"chosen_{next(_numbers)}"
    ledger.query(f"CREATE TABLE {table} AS SELECT UNNEST(CAST(? AS BIGINT[])) AS ord", [list(places)])
    return f"a.ord IN (SELECT ord FROM {table})"


def condition_of_place(place: int) -> str:
    """Return the condition that a row is at a place."""
    return f"a.ord = {place:d}"


def condition_of_entries(condition: str) -> str:
    """Return the condition that at least one row of an entry meets a condition."""
    return f"entry_key IN (SELECT r.entry_key FROM {ROWS_WITH_ENTRIES} WHERE {condition})"


def entries_with(condition: str) -> str:
    """Return the entries of which at least one row meets a condition, as a table."""
    return f"(SELECT * FROM entry WHERE {condition_of_entries(condition)})"


def chosen_rows(
    ledger: Ledger,
    condition: str | None,
    sort: str | None = None,
    *,
    descending: bool = False,
    offset: int = 0,
    limit: int | None = None,
) -> list[ChosenRow]:
    """Return rows that meet a condition: in the order of the files, or by a field, those without a value last."""
    key, ranks = ("a.ord", []) if sort is None else _sort_key(ledger, sort)
    rows = ledger.query(
        f"""
        SELECT {TO_READ_BACK.replace("t.", "a.")}, a.source, r.is_attack, a.attack, e.outcome
        FROM {ROWS_WITH_ENTRIES}
        WHERE {condition or "TRUE"}
        ORDER BY {key} {"DESC" if descending else "ASC"} NULLS LAST, a.ord
        LIMIT {"ALL" if limit is None else int(limit)} OFFSET {int(offset)}
        """,
        ranks,
    )
    return [
        ChosenRow(*to_read_back(ledger, row[:5]), source, strategy_name(ledger, attack, is_attack), _OUTCOMES[outcome])
        for row in rows
        for source, is_attack, attack, outcome in [row[5:]]
    ]


# -- tests ------------------------------------------------------------------------------------------------------


def _tested(ledger: Ledger, test: Test, check: Check, labels: Collection[str]) -> str | None:
    name = test.path.steps[0] if len(test.path.steps) == 1 else None
    if not isinstance(name, str):
        return None
    if not test.path.computed:
        return _facet(ledger, name, check, is_label=name in labels, single=test.operator in _OF_SINGLE_VALUES)
    if name == "outcome":
        return _among("e.outcome", (number for outcome, number in OUTCOME_NUMBER.items() if check(outcome.value)))
    if name == "file":
        return _among("a.source", (number for number, path in enumerate(ledger.paths) if check(path)))
    if name == "strategy":
        words = enumerate(ledger.lexicon("attack"))
        attacks = _among("COALESCE(a.attack, 0)", (number for number, word in words if check(word or UNNAMED_ATTACK)))
        return f"CASE WHEN r.is_attack THEN {attacks} ELSE {str(check(STANDARD)).upper()} END"
    return None


def _facet(ledger: Ledger, field: str, check: Check, *, is_label: bool, single: bool) -> str | None:
    """Test the words of a facet; what is missing, empty or left out must not pass, or else nobody can tell."""
    known = is_label or (single and field in ledger.facets)
    if not known or check(None) or check(""):
        return None
    if field not in ledger.facets:
        return "FALSE"
    column, numbers = ledger.facets[field], []
    for number, word in enumerate(ledger.lexicon(column)):
        answers = {check(value) for value in _meanings(word)} if word else {False}
        if len(answers) > 1:
            return None
        if True in answers:
            numbers.append(number)
    return _among(f"COALESCE(a.{column}, 0)", numbers)


def _meanings(word: str) -> Iterator[object]:
    """Yield the values that are held as a word: a text, and a number, a truth value or a list that is written so."""
    yield word
    if word[0] in "-0123456789tf[{":
        try:
            yield json.loads(word)
        except (ValueError, RecursionError):
            return


def _among(column: str, numbers: Iterator[int] | Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"{column} IN ({listed})" if listed else "FALSE"


# -- sorting ----------------------------------------------------------------------------------------------------


def _sort_key(ledger: Ledger, field: str) -> tuple[str, list[Any]]:
    """Return what to sort by, and the places of words in their order where that is a field of texts."""
    if field in NUMBERS:
        return NUMBERS[field], []
    if field == "outcome":
        return "e.outcome", []
    if field == "file":
        return _ranked("a.source", ledger.paths)
    column = ledger.facets[field]
    return _ranked(f"a.{column}", ledger.lexicon(column))


def _ranked(column: str, words: Sequence[str | None]) -> tuple[str, list[Any]]:
    ranks = {word: rank for rank, word in enumerate(sorted({word for word in words if word is not None}))}
    return f"CAST(? AS INTEGER[])[{column} + 1]", [[None if word is None else ranks[word] for word in words]]
