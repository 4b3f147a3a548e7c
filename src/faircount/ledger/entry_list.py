"""Entries as a list to look through: chosen by what the ledger holds of them, sorted, and a page at a time.

A value of a field is that of the entry, as breakdowns count it, so that the entries behind a group are those that the
group counts. Nothing here needs rows: what the cache holds of a file is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from faircount.core.model import Outcome
from faircount.ledger.lookup import ENTRY_ID, LEFT_OUT_BESIDE_KEPT, ROWS_BEHIND, has_left_out
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import GIVEN, LedgerView, source_and_line
from faircount.ledger.tallies import ATTACK_NAME, COMPARED, text_of

OUTCOME, ERROR_KIND, CATEGORY, FINDING, FAMILY_OF, JUDGES = FIELDS = (
    "outcome",
    "error_kind",
    "guardrail_category",
    "finding",
    "family_of",
    "judges",
)
"""What entries can be chosen by beside their fields; a field of such a name is reached with `row.` before it."""
DIFFER = "differ"
"""The value of `JUDGES` for entries on which any two judges differ; `differing` gives that for two of them."""
SORTS = ("line", "id", "outcome", "attempts", "response_time")
OWN_FIELD = "row."
_OUTCOMES = tuple(Outcome)

Chosen = Mapping[str, Sequence[str | None]]
"""Fields with the values that are wanted, any of them; None stands for a missing value."""


class EntryLine(Struct, frozen=True):
    """An entry as a line of a list; `line` is that of its first row, and `ord` its place."""

    key: int
    ord: int
    line: int
    id: str
    outcome: Outcome
    requests: int
    response_time: float | None
    attack: str | None
    fields: dict[str, str | None]


def has_rows_behind(code: str) -> bool:
    """Return whether the ledger knows which rows a finding is about."""
    return code in ROWS_BEHIND


def condition_of(ledger: LedgerView, chosen: Chosen) -> str:
    """Return the condition that an entry `e` has one of the values that are wanted in each field."""
    parts = [f"({' OR '.join(_one(ledger, field, value) for value in values)})" for field, values in chosen.items()]
    return " AND ".join(parts) or "TRUE"


def _one(ledger: LedgerView, field: str, value: str | None) -> str:
    special: dict[str, Callable[[LedgerView, str], str]] = {
        OUTCOME: _of_outcome,
        ERROR_KIND: _of_error_kind,
        CATEGORY: _of_category,
        FINDING: _of_finding,
        FAMILY_OF: _of_family,
        JUDGES: _of_judges,
    }
    if field in special:
        return special[field](ledger, value or "")
    name = field.removeprefix(OWN_FIELD)
    if name == ATTACK_NAME:
        known = [number for (number,) in ledger.query("SELECT DISTINCT attack_name FROM entry")]
        numbers = [number for number in known if text_of(ledger, ATTACK_NAME, number) == value]
        return _is_among("e.attack_name", [number for number in numbers if number is not None], None in numbers)
    if name not in ledger.facets:
        return "TRUE" if value is None else "FALSE"
    column = ledger.facets[name]
    if value is None:
        return f"e.{column} IS NULL"
    return _is_among(f"e.{column}", [at for at, word in enumerate(ledger.lexicon(column)) if word == value])


def _is_among(column: str, numbers: Sequence[int], or_missing: bool = False) -> str:
    listed = f"{column} IN ({', '.join(map(str, numbers))})" if numbers else "FALSE"
    return f"({listed} OR {column} IS NULL)" if or_missing else listed


def _of_outcome(_: LedgerView, value: str) -> str:
    numbers = [number for outcome, number in OUTCOME_NUMBER.items() if outcome.value == value]
    return _is_among("e.outcome", numbers)


def _of_error_kind(ledger: LedgerView, value: str) -> str:
    numbers = [at for at, word in enumerate(ledger.lexicon("error_kind")) if (word or "") == value]
    kind = _is_among("t.error_kind", [number for number in numbers if number], 0 in numbers)
    state = OUTCOME_NUMBER[Outcome.ERROR]
    return f"e.entry_key IN (SELECT t.entry_key FROM counted_row AS t WHERE t.state = {state} AND {kind})"


def _of_category(ledger: LedgerView, value: str) -> str:
    numbers = [at for at, word in enumerate(ledger.lexicon("category")) if word == value]
    return (
        "e.entry_key IN (SELECT t.entry_key FROM category AS c INNER JOIN counted_row AS t ON c.ord = t.ord"
        f" WHERE {_is_among('c.category', numbers)})"
    )


def _of_finding(ledger: LedgerView, code: str) -> str:
    if code not in ROWS_BEHIND:
        return "FALSE"
    places = ROWS_BEHIND[code]
    counted = f"e.entry_key IN (SELECT t.entry_key FROM counted_row AS t WHERE t.ord IN ({places}))"
    if not has_left_out(ledger):
        return counted
    kept = f"SELECT k.ord FROM {LEFT_OUT_BESIDE_KEPT} WHERE l.ord IN ({places})"
    return f"({counted} OR e.entry_key IN (SELECT t.entry_key FROM counted_row AS t WHERE t.ord IN ({kept})))"


def _of_family(ledger: LedgerView, line: str) -> str:
    place = ledger.ord(0, int(line)) if line.isdecimal() else -1
    return f"e.family = (SELECT o.family FROM entry AS o WHERE o.first_ord = {place:d})"


def differing(one: str, other: str) -> str:
    """Return the value of `JUDGES` for entries on which two judges differ."""
    return f"{one} ≠ {other}"


def _of_judges(ledger: LedgerView, value: str) -> str:
    """Return the condition that judges differ on an answer; the verdicts of all judges must have been read."""
    numbers = [(at, word) for at, word in enumerate(ledger.lexicon("judge")) if word is not None]
    pairs = [(one, other) for one, first in numbers for other, second in numbers if differing(first, second) == value]
    both = "TRUE" if value == DIFFER else "FALSE"
    if pairs:
        one, other = pairs[0]
        both = f"a.judge IN ({one}, {other}) AND b.judge IN ({one}, {other})"
    return f"""e.entry_key IN (
        SELECT t.entry_key FROM counted_row AS t WHERE t.ord IN (
            {COMPARED}
            SELECT a.ord
            FROM compared AS a
            INNER JOIN compared AS b ON a.ord = b.ord AND a.attempt = b.attempt AND a.judge < b.judge
            WHERE a.decision <> b.decision AND {both}
        )
    )"""


# -- the list ---------------------------------------------------------------------------------------------------


def listed(
    ledger: LedgerView, condition: str, sort: str | None, *, descending: bool, offset: int, limit: int
) -> list[EntryLine]:
    """Return a page of the entries that meet a condition; those without a value come last."""
    key, beside, parameters = _sort_key(ledger, sort or SORTS[0])
    direction = "DESC" if descending else "ASC"
    rows = ledger.query(
        f"""
        SELECT e.entry_key
        FROM entry AS e{beside}
        WHERE {condition}
        ORDER BY {key} {direction} NULLS LAST, e.first_ord {direction}
        LIMIT {int(limit)} OFFSET {int(offset)}
        """,
        parameters,
    )
    return lines_of(ledger, [key for (key,) in rows])


def keys_in_order(ledger: LedgerView) -> list[int]:
    """Return the keys of all entries in the order of the file."""
    return [key for (key,) in ledger.query("SELECT entry_key FROM entry ORDER BY first_ord")]


def lines_of(ledger: LedgerView, keys: Sequence[int]) -> list[EntryLine]:
    """Return entries by their keys, in that order."""
    if not keys:
        return []
    fields = list(ledger.facets.items())
    columns = "".join(f", e.{column}" for _, column in fields)
    # Of a time that no row records, nothing is known; that of an entry is that of all its rows.
    rows = ledger.query(
        f"""
        SELECT e.entry_key, e.first_ord, {ENTRY_ID}, e.outcome, e.requests, s.response_time, e.attack_name{columns}
        FROM entry AS e
        INNER JOIN counted_row AS t ON e.first_ord = t.ord
        INNER JOIN (
            SELECT entry_key, SUM(response_time) AS response_time
            FROM counted_row
            WHERE entry_key IN {GIVEN}
            GROUP BY entry_key
        ) AS s ON e.entry_key = s.entry_key
        WHERE e.entry_key IN {GIVEN}
        """,
        [keys, keys],
    )
    found = {
        key: EntryLine(
            key,
            ord_,
            source_and_line(ord_)[1],
            ledger.word("parent_id", number) or "",
            _OUTCOMES[outcome],
            int(requests),
            seconds,
            text_of(ledger, ATTACK_NAME, attack),
            {name: ledger.word(column, value) for (name, column), value in zip(fields, values, strict=True)},
        )
        for key, ord_, number, outcome, requests, seconds, attack, *values in rows
    }
    return [found[key] for key in keys]


def position(ledger: LedgerView, condition: str, line: int) -> int:
    """Return how many entries that meet a condition come before a line of the file."""
    place = ledger.ord(0, line)
    rows = ledger.query(f"SELECT COUNT(*) FROM entry AS e WHERE {condition} AND e.first_ord < {place:d}")
    return int(rows[0][0])


def first_lines(ledger: LedgerView, condition: str) -> list[int]:
    """Return the lines on which entries that meet a condition begin."""
    return [
        source_and_line(ord_)[1] for (ord_,) in ledger.query(f"SELECT e.first_ord FROM entry AS e WHERE {condition}")
    ]


def chosen_table(condition: str) -> str:
    """Return the entries that meet a condition, as a table to be counted."""
    return "entry" if condition == "TRUE" else f"(SELECT e.* FROM entry AS e WHERE {condition})"


def _sort_key(ledger: LedgerView, sort: str) -> tuple[str, str, list[list[int | None]]]:
    """Return what to sort by, what has to be joined for that, and the order of words."""
    if sort == "line":
        return "e.first_ord", "", []
    if sort == "outcome":
        return "e.outcome", "", []
    if sort == "attempts":
        return "e.requests", "", []
    if sort == "id":
        # Whole numbers are held below 0; words are in the order in which they appear.
        head = " INNER JOIN counted_row AS t ON e.first_ord = t.ord"
        return f"CASE WHEN {ENTRY_ID} < 0 THEN -({ENTRY_ID}) ELSE 1000000000000 + {ENTRY_ID} END", head, []
    if sort == "response_time":
        # Added up once: a page of the list is wanted more often than one.
        ledger.query(
            "CREATE TABLE IF NOT EXISTS entry_time AS"
            " SELECT entry_key, SUM(response_time) AS seconds FROM counted_row GROUP BY entry_key"
        )
        return "s.seconds", " INNER JOIN entry_time AS s ON e.entry_key = s.entry_key", []
    if sort == ATTACK_NAME:
        return "e.attack_name", "", []
    column = ledger.facets[sort.removeprefix(OWN_FIELD)]
    words = ledger.lexicon(column)
    ranks = {word: rank for rank, word in enumerate(sorted({word for word in words if word is not None}))}
    order = [None if word is None else ranks[word] for word in words]
    return f"CAST(? AS INTEGER[])[e.{column} + 1]", "", [order]


# -- entries beside one -----------------------------------------------------------------------------------------


def family_of(ledger: LedgerView, key: int, limit: int) -> tuple[list[EntryLine], int]:
    """Return the first entries of the family of an entry, and how many it has."""
    inside = "e.family = (SELECT o.family FROM entry AS o WHERE o.entry_key = ?)"
    (count,) = ledger.query(f"SELECT COUNT(*) FROM entry AS e WHERE {inside}", [key])[0]
    keys = ledger.query(
        f"SELECT e.entry_key FROM entry AS e WHERE {inside} ORDER BY e.first_ord LIMIT {int(limit)}", [key]
    )
    return lines_of(ledger, [found for (found,) in keys]), int(count)


def prompt_of(ledger: LedgerView, key: int) -> int:
    """Return the checksum of the prompt of an entry's first standard row; 0 where there is none."""
    rows = ledger.query(
        "SELECT COALESCE(text_hash, 0) FROM counted_row WHERE entry_key = ? AND NOT is_attack ORDER BY ord LIMIT 1",
        [key],
    )
    return int(rows[0][0]) if rows else 0


def families_and_prompts(ledger: LedgerView) -> list[tuple[int, int, int, Outcome]]:
    """Return of each entry its line, family and checksum of the prompt, 0 for none, and how it ended."""
    rows = ledger.query(
        "SELECT e.first_ord, COALESCE(e.family, 0), CASE WHEN t.is_attack THEN 0 ELSE COALESCE(t.text_hash, 0) END,"
        " e.outcome FROM entry AS e INNER JOIN counted_row AS t ON e.first_ord = t.ord ORDER BY e.first_ord"
    )
    return [
        (source_and_line(ord_)[1], int(family), int(prompt), _OUTCOMES[outcome])
        for ord_, family, prompt, outcome in rows
    ]


def entries_with_prompt(ledger: LedgerView, checksum: int) -> list[EntryLine]:
    """Return the entries whose standard rows have a prompt."""
    rows = ledger.query(
        "SELECT DISTINCT entry_key FROM counted_row WHERE text_hash = ? AND NOT is_attack LIMIT 5", [checksum]
    )
    return lines_of(ledger, [key for (key,) in rows])
